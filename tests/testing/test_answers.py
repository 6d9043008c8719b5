"""Scripts for some calls, assertions on calls, workers that stand still, and recorded answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from designs import flow, work

from conductorlite import Engine, TaskStatus, VirtualClock, Workers
from conductorlite.errors import InvalidInput
from conductorlite.testing import Cassette, ScriptedWorkers, assert_calls, freeze_workers

TWO = flow(
    "two",
    [
        work("send", "first", input_parameters={"to": "Ada"}),
        work("send", "second", input_parameters={"to": "Bob"}),
        work("send", "third", input_parameters={"to": "Cy"}),
    ],
)


@pytest.fixture
def engine_store() -> str:
    """One store is enough."""
    return "memory"


def test_by_reference_by_input_and_in_what_order(engine: Engine, workers: ScriptedWorkers) -> None:
    """A call follows the script made last that fits; calls, their order and instants are compared at once."""
    workers.send.returns({"id": 0})
    workers.send.when(ref="second").fails(1).then.returns({"id": 2})
    workers.send.when(input={"to": "Cy"}).takes("1m").returns({"id": 3})
    run = engine.start(TWO)
    assert run.result() == {"id": 3}
    assert [task.output_data.get("id") for task in run.tasks] == [0, None, 2, 3]
    expected = """
        +0s send {"to":"Ada"}
        +0s send {"to":"Bob"}
        +1s send {"to":"Bob"}
        +1s send {"to":"Cy"}
    """
    assert_calls(workers, expected, inputs=True)
    assert_calls(workers, "+0s send\n+0s send\n+1s send\n+1s send")
    with pytest.raises(AssertionError, match=r"\++0s send"):
        assert_calls(workers, "+0s   send\n+0s charge\n+1s send\n+1s send")


def test_frozen_workers_take_nothing(engine: Engine, workers: ScriptedWorkers) -> None:
    """All of them, or some; then they go on."""
    workers.send.returns()
    with freeze_workers(engine):
        run = engine.start(TWO)
        engine.settle()
        assert run.workflow.task("first").status is TaskStatus.SCHEDULED
    with freeze_workers(engine, "other"):
        engine.settle()
    assert run.workflow.task("third").status is TaskStatus.COMPLETED


def test_answers_are_recorded_once(tmp_path: Path) -> None:
    """The second time nobody is called; a call that is not in the record fails for good."""
    called: list[str] = []
    real = Workers()

    @real.task("send")
    def send(to: str) -> dict[str, int]:
        called.append(to)
        if to == "Bob" and called.count("Bob") == 1:
            raise ConnectionError("busy")
        return {"id": len(called)}

    outputs = []
    for _ in range(2):
        with (
            Cassette(tmp_path / "two.json") as cassette,
            Engine(workers=cassette.over(real), clock=VirtualClock()) as engine,
        ):
            run = engine.start(TWO)
            outputs.append(run.result())
            assert [str(task.status) for task in run.tasks] == ["COMPLETED", "FAILED", "COMPLETED", "COMPLETED"]
    assert called == ["Ada", "Bob", "Bob", "Cy"]
    assert outputs == [{"id": 4}, {"id": 4}]
    with Engine(workers=Cassette(tmp_path / "two.json").over(real), clock=VirtualClock()) as engine:
        other = engine.start(flow("other", [work("send", input_parameters={"to": "Di"})]))
        engine.run_until_idle()
        assert "two.json has no answer of send" in (other.workflow.task("send").reason or "")


def test_coroutines_are_not_recorded(tmp_path: Path) -> None:
    """They are refused."""
    workers = Workers()

    @workers.task("send")
    async def send() -> None: ...

    with pytest.raises(InvalidInput, match="'send' is a coroutine"):
        Cassette(tmp_path / "x.json").over(workers)
