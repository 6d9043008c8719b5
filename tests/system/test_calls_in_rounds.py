"""Flows in rounds, on which agents and graphs are built: the calls of each round, and death at every write."""

from __future__ import annotations

from typing import Any

import pytest

from conductorlite import Engine, VirtualClock, WorkflowStatus, flow, task
from conductorlite.ext.rounds import Calls, Round, in_rounds, is_plain_json, last_round
from conductorlite.testing import ScriptedWorkers, crash_everywhere


@task(retry=0)
def turn(start: int, state: dict[str, Any] | None = None, results: dict[str, Any] | None = None) -> Round:
    """Two calls in the first round, one behind a person in the second, then their sum."""
    seen = [] if state is None else [*state["seen"], *((results or {})[ref]["n"] for ref in sorted(results or {}))]
    calls = Calls()
    if state is None:
        calls.add("add", "add", {"n": start})
        calls.add("a/b", "add", {"n": start + 1})
    elif len(seen) == 2:
        calls.add("add", "add", {"n": 5}, asks={"of": seen}, answer={"more": "output.more"})
    assert bool(calls) == (len(seen) < 3)
    return calls.round({"seen": seen}) if calls else last_round({"seen": seen}, sum(seen))


@task
def add(n: int, more: int = 0) -> dict[str, int]:
    """A call."""
    return {"n": n + more}


@flow(by_calls=True)
def rounds(start: int) -> int:
    """The loop."""
    total: int = in_rounds(turn, "turn", start=start)
    return total


rounds.workers.include(add)


def test_the_calls_of_a_round_are_tasks() -> None:
    """Their names begin as they were called; a person is asked before a call that wants it."""
    with Engine(workers=[rounds], clock=VirtualClock(0)) as engine:
        run = engine.start(rounds, start=1)
        engine.run_until_idle()
        refs = {task.ref: task.input_data for task in run.tasks}
        assert refs["add_0__1"] == {"n": 1}
        assert refs["a_b_1__1"] == {"n": 2}
        assert refs["add_0_human__2"] == {"of": [2, 1]}
        run.signal({"more": 100})
        assert run.result() == 108


def test_death_at_every_write() -> None:
    """Whatever write the process dies at: nothing is lost, and no step that was reported is carried out again."""

    def script(workers: ScriptedWorkers) -> None:
        workers["turn"].does(turn.function)
        workers["add"].does(add.function)

    def scenario(engine: Engine) -> None:
        if not engine.executions("rounds"):
            engine.start(rounds.definition, {"start": 1}, workflow_id="w")
        engine.run_until_idle()
        if engine.status("w") is WorkflowStatus.RUNNING:
            engine.signal("w", {"more": 100})
        engine.run_until_idle()

    assert crash_everywhere(scenario, script, every=11) > 10


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "a", [1, {"a": []}], {}])
def test_what_is_json_as_it_is(value: Any) -> None:
    """It comes back as the same."""
    assert is_plain_json(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), (1,), {1: 2}, [{1}], WorkflowStatus.RUNNING, b"a"])
def test_what_is_not(value: Any) -> None:
    """It would come back as something else, or not at all."""
    assert not is_plain_json(value)
