"""Scripts for some calls, assertions on calls, workers that stand still, and recorded answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from designs import flow, work

from conductorlite import Engine, TaskContext, TaskResult, TaskStatus, VirtualClock, Workers
from conductorlite.errors import InvalidInput
from conductorlite.testing import Cassette, ScriptedWorkers, assert_calls, freeze_workers, timeline

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


def test_spaces_of_an_input_are_set_aside_too(engine: Engine, workers: ScriptedWorkers) -> None:
    """What was called is written as it was said, spaces in texts included."""
    workers.send.returns()
    engine.start(flow("spaced", [work("send", "s", input_parameters={"to": "Ada  of\u2028L"})])).result()
    assert_calls(workers, '+0s send {"to":"Ada  of\u2028L"}', inputs=True)


def test_forgotten_is_what_was_said_of_some_calls_too(engine: Engine, workers: ScriptedWorkers) -> None:
    """After `forget` a script has no cases left."""
    workers.send.when(ref="third").returns({"id": 3})
    workers.send.forget().returns({"id": 9})
    assert engine.start(TWO).result() == {"id": 9}


def test_frozen_workers_take_nothing(engine: Engine, workers: ScriptedWorkers) -> None:
    """All of them, or some; then they go on. A name that is nobody's is refused."""
    workers.send.returns()
    workers.other.returns().optional()
    with freeze_workers(engine):
        run = engine.start(TWO)
        engine.settle()
        assert run.workflow.task("first").status is TaskStatus.SCHEDULED
    with freeze_workers(engine, "other"):
        engine.settle()
    assert run.workflow.task("third").status is TaskStatus.COMPLETED
    with pytest.raises(InvalidInput, match=r"no worker carries out 'sent'; did you mean 'send'\?"), freeze_workers(engine, "sent"):
        pass


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


def test_an_answer_is_played_as_it_was_recorded(tmp_path: Path) -> None:
    """When a task is offered again, and what was raised, come from the file too; its folder is made."""
    calls = []
    real = Workers()

    @real.task("send", concurrency=1)
    def send(context: TaskContext) -> TaskResult:
        calls.append(context.task.attempt)
        if len(calls) == 2:
            raise OSError("line is dead")
        status = TaskStatus.IN_PROGRESS if len(calls) == 1 else TaskStatus.COMPLETED
        task = context.task
        return TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=status, callback_after_ms=5_000)

    seen = []
    for _ in range(2):
        with (
            Cassette(str(tmp_path / "new" / "one.json")) as cassette,
            Engine(workers=cassette.over(real), clock=VirtualClock()) as engine,
        ):
            assert engine.workers.by_queue["send"].concurrency == 1
            run = engine.start(flow("one", [work("send")]))
            run.result()
            seen.append((timeline(engine, run.workflow_id), [task.error_types for task in run.tasks]))
    assert calls == [0, 0, 1]
    assert seen[0] == seen[1]
    assert "+5s" in seen[0][0]
    assert seen[0][1][0] == ("OSError",)


@pytest.mark.parametrize("text", ["{", "[]", '{"send {}": [{}]}', '{"send {}": ["x"]}'])
def test_a_file_of_something_else(tmp_path: Path, text: str) -> None:
    """It is refused before anything runs."""
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InvalidInput, match=r"broken JSON|x\.json holds no answers"):
        Cassette(tmp_path / "x.json")
