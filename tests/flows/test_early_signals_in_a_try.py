"""A signal to a step of a `try` that has not begun: kept until the step begins, or refused where it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conductorlite import Engine, TaskStatus, VirtualClock, flow, task
from conductorlite.errors import InvalidInput, TaskNotFound
from conductorlite.flows import attempt, human


@task(retry=0)
def first(n: int) -> int:
    """Fails for a number below 0."""
    if n < 0:
        raise ValueError("too little")
    return n


@flow
def ask(n: int) -> bool:
    """A step, and behind it a `try` in which somebody is asked."""
    first(n)
    answer = False
    try:
        first.options(name="inner")(n)
        answer = human("approval", bool)
    except ValueError:
        first.options(name="plain")(0)
    human("last", bool)
    return answer


@flow
def deep(n: int) -> None:
    """An attempt in an attempt."""
    first(n)
    with attempt(name="outside"), attempt(name="inside"):
        first.options(name="inner")(n)
        human("approval", bool)


@flow
def rounds(n: int) -> None:
    """Somebody is asked in each round."""
    for number in range(n):
        try:
            first(number)
            human("approval", bool)
        except ValueError:
            first.options(name="plain")(0)


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An engine on each store."""
    store = tmp_path / "runs.db" if request.param == "sqlite" else None
    with Engine(store, workers=[ask, deep, rounds], clock=VirtualClock(0)) as made:
        yield made
        assert made.admin.check() == []


def test_it_is_kept_for_the_step(engine: Engine) -> None:
    """Before anything has begun; the step has ended with it as soon as it begins."""
    run = engine.start(ask, n=1)
    assert run.signal({"result": True}, task="approval") is None
    run.signal({"result": True}, task="last")
    engine.run_until_idle()
    assert run.result() is True


def test_in_an_attempt_in_an_attempt(engine: Engine) -> None:
    """It goes from execution to execution."""
    run = engine.start(deep, n=1)
    assert run.signal({"result": True}, task="approval") is None
    engine.run_until_idle()
    assert run.status == "COMPLETED"


def test_each_round_takes_its_own(engine: Engine) -> None:
    """Two that come at once are for two rounds; one that leaves the step waiting is followed by the next."""
    run = engine.start(rounds, n=3)
    engine.signal(run.workflow_id, {"note": "seen"}, task="approval", status=TaskStatus.IN_PROGRESS)
    run.signal({"result": True}, task="approval")
    run.signal({"result": False}, task="approval")
    engine.settle()
    ids = [task.sub_workflow_id for task in run.tasks if task.sub_workflow_id]
    outputs = [engine.get(str(one)).task("approval").output_data for one in ids]
    assert outputs == [{"note": "seen", "result": True}, {"result": False}, {}]
    # While the third waits it receives the next.
    run.signal({"result": True}, task="approval")
    engine.run_until_idle()
    assert run.status == "COMPLETED"


def test_an_answer_that_does_not_fit_is_refused_at_once(engine: Engine) -> None:
    """With the path, as where the step waits."""
    run = engine.start(ask, n=1)
    with pytest.raises(InvalidInput, match=r"'approval' still waits.*output.result: expected bool, got \"yes\""):
        run.signal({"result": "yes"}, task="approval")
    assert engine.messages(run.workflow_id) == []


def test_what_cannot_be_reached_is_refused(engine: Engine) -> None:
    """A step that has ended, one of a `try` that has failed before it, a worker's."""
    run = engine.start(ask, n=1)
    with pytest.raises(TaskNotFound, match="'inner' is a task of type"):
        run.signal({}, task="inner")
    with pytest.raises(TaskNotFound, match="the definition has no task 'nobody'"):
        run.signal({}, task="nobody")
    engine.settle()
    run.signal({"result": True}, task="approval")
    engine.settle()
    with pytest.raises(TaskNotFound, match="the flow does not come to 'approval' any more"):
        run.signal({"result": True}, task="approval")


def test_what_is_run_again_receives_again(engine: Engine) -> None:
    """A rerun from before the `try` gives the signal back, and the new execution of the `try` receives it."""
    run = engine.start(ask, n=1)
    run.signal({"result": True}, task="approval")
    engine.settle()
    engine.rerun(run.workflow_id, from_task="first")
    engine.settle()
    run.signal({"result": True}, task="last")
    engine.run_until_idle()
    assert run.result() is True
