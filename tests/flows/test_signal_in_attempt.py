"""A person's step inside an attempt, or in a flow that is called, is signaled by its name alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conductorlite import Engine, VirtualClock, flow, task
from conductorlite.errors import InvalidInput, TaskNotFound
from conductorlite.flows import attempt, human, wait


@dataclass
class Answer:
    """What a person says."""

    ok: bool


@task
def remind() -> None:
    """Does nothing."""


@flow
def ask() -> str:
    """Asks within an attempt, after a day."""
    with attempt() as tried:
        wait("1d")
        human("approval", Answer)
    with tried.failed:
        remind()
    return "done"


@flow
def outer() -> str:
    """Calls the flow that asks."""
    return ask()


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An engine on each store."""
    store = tmp_path / "runs.db" if request.param == "sqlite" else None
    with Engine(store, workers=[ask, outer], clock=VirtualClock(0)) as made:
        yield made


@pytest.mark.parametrize("made", [ask, outer])
def test_an_open_step(engine: Engine, made: object) -> None:
    """However deep it stands."""
    run = engine.start(made)
    engine.advance("1d")
    signaled = run.signal({"ok": True}, task="approval")
    assert (signaled.ref, signaled.workflow_id != run.workflow_id) == ("approval", True)
    assert run.result() == "done"


@pytest.mark.parametrize("made", [ask, outer])
def test_a_step_to_come(engine: Engine, made: object) -> None:
    """A signal that comes early is kept by the attempt that has the step."""
    run = engine.start(made)
    engine.settle()
    assert run.signal({"ok": True}, task="approval") is None
    assert run.result() == "done"


@pytest.mark.parametrize("days", ["0d", "1d"])
def test_a_wrong_answer(engine: Engine, days: str) -> None:
    """It is refused there too, whether the step has begun or not."""
    run = engine.start(outer)
    engine.settle()
    engine.advance(days)
    with pytest.raises(InvalidInput, match="did you mean 'ok'"):
        run.signal({"okay": True}, task="approval")


def test_no_such_step(engine: Engine) -> None:
    """A name that no step has is refused, and the execution that was asked is named."""
    run = engine.start(outer)
    engine.settle()
    with pytest.raises(TaskNotFound, match=f"{run.workflow_id}: there is no open task 'aproval'"):
        run.signal({"ok": True}, task="aproval")
