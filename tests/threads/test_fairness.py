"""Large turns of one execution, and many tasks of one type, keep nobody waiting: what comes next is taken in turn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conductorlite import Engine, EngineConfig, Workers, WorkflowDef
from conductorlite.decide.changeset.reader import Bounds
from conductorlite.runtime.loop import next_group

FORK = WorkflowDef.from_json(
    {
        "name": "fork",
        "tasks": [
            {
                "name": "fork",
                "taskReferenceName": "fork",
                "type": "FORK_JOIN_DYNAMIC",
                "dynamicForkTasksParam": "tasks",
                "dynamicForkTasksInputParamName": "inputs",
                "inputParameters": {"tasks": "${workflow.input.tasks}", "inputs": {}},
            },
            {"name": "join", "taskReferenceName": "join", "type": "JOIN"},
        ],
    }
)
ONE = WorkflowDef.from_json({"name": "one", "tasks": [{"name": "small", "taskReferenceName": "small"}]})


def branches(count: int, kind: str = "HUMAN") -> dict[str, Any]:
    """The input of a fork of so many tasks."""
    return {"tasks": [{"name": "wide", "taskReferenceName": f"w{n}", "type": kind} for n in range(count)]}


def test_a_turn_is_cut_where_others_would_wait_for_it() -> None:
    """By default after a thousand rows, which take some tenths of a second at most."""
    assert EngineConfig().bounds == Bounds(steps=5_000, rows=1_000)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_verb_leaves_the_rest_of_a_cut_turn_to_the_driver(store: str, tmp_path: Path) -> None:
    """Beside a thread that drives, `start` takes one turn of each fork; the driver takes the others of both in turn."""
    path = None if store == "memory" else tmp_path / "orders.db"
    engine = Engine(path, config=EngineConfig(bounds=Bounds(rows=20)))
    engine.register(FORK)
    commits: list[tuple[str, bool]] = []
    here = threading.get_ident()
    driver = threading.Thread(target=engine.run_forever)
    engine.listen(lambda workflow, _: commits.append((workflow.workflow_id, threading.get_ident() == here)))
    driver.start()
    while not engine.core.turns.is_driven:
        driver.join(0.001)
    ids = [engine.start("fork", branches(200)).workflow_id for _ in range(2)]
    waits_for(lambda: all(len(engine.get(one).tasks) == 202 for one in ids))
    engine.stop()
    driver.join(30)
    for one in ids:
        assert [mine for each, mine in commits if each == one].count(True) == 1
        assert len([1 for each, _ in commits if each == one]) >= 200 // 20
    assert not engine.core.turns.is_driven
    assert engine.admin.check() == []
    engine.close()


def test_turns_of_several_that_go_on_alternate() -> None:
    """A cut turn's continuation goes to the back of the line: no execution takes two turns while another one is due."""
    engine = Engine(config=EngineConfig(bounds=Bounds(rows=20)))
    engine.register(FORK)
    turns: list[str] = []
    engine.core.turns.is_driven = True  # so that a start leaves its rest, without a thread that takes it at once
    ids = [engine.start("fork", branches(100)).workflow_id for _ in range(3)]
    engine.core.turns.is_driven = False
    engine.listen(lambda workflow, _: turns.append(workflow.workflow_id))
    engine.run_until_idle("60s")
    engine.close()
    assert set(turns) == set(ids)
    first = turns[: 3 * (len(turns) // 3)]
    assert all(set(first[n : n + 3]) == set(ids) for n in range(0, 12, 3))


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_poll_between_cut_turns_loses_no_task(store: str, tmp_path: Path) -> None:
    """What polls take while the rest of a cut turn is due is what they are given: no task is leased that nobody has."""
    path = None if store == "memory" else tmp_path / "orders.db"
    engine = Engine(path, config=EngineConfig(bounds=Bounds(rows=20)))
    engine.register(FORK)
    engine.core.turns.is_driven = True  # so that the rest is left to a driver, which there is none
    run = engine.start("fork", branches(200, "SIMPLE"))
    taken: list[str] = []
    for _ in range(60):
        taken += [task.task_id for task in engine.poll("wide", count=5)]
        assert sorted(taken) == sorted(task.task_id for task in run.tasks if task.status == "IN_PROGRESS" and task.ref != "join")
    assert len(taken) == 200
    engine.close()


def test_without_a_driver_a_verb_still_ends_what_it_began() -> None:
    """`start` takes all turns of a wide fork itself where nobody drives."""
    engine = Engine(config=EngineConfig(bounds=Bounds(rows=20)))
    engine.register(FORK)
    run = engine.start("fork", branches(200))
    assert len(run.tasks) == 202
    engine.close()


def test_many_tasks_of_one_type_keep_no_other_type_waiting() -> None:
    """A task of another type that is offered meanwhile is called after some hundreds, not after all of a wide fork."""
    workers, calls = Workers(), list[str]()
    workers.add("wide", lambda: calls.append("wide"))
    workers.add("small", lambda: calls.append("small"))
    engine = Engine(workers=workers)
    engine.register(FORK, ONE)
    run = engine.start("fork", branches(1_500, "SIMPLE"))
    small = [engine.start(ONE) for _ in range(3)]
    assert engine.run_until_idle()
    assert run.status == "COMPLETED"
    assert {one.status.value for one in small} == {"COMPLETED"}
    assert calls.count("wide") == 1_500
    assert max(n for n, kind in enumerate(calls) if kind == "small") < 700
    engine.close()


def test_writes_that_take_long_are_shared_by_fewer() -> None:
    """Turns of many wide forks that share a write would take seconds together: soon each has one of its own, and later not."""
    sizes = [64]
    for took in (5_000, 5_000, 5_000, 5_000, 100, 10, 10, 10, 10, 10, 10, 10, -3_600_000):
        sizes.append(next_group(sizes[-1], took))
    assert sizes == [64, 16, 4, 1, 1, 1, 2, 4, 8, 16, 32, 64, 64, 64]


def waits_for(holds: Callable[[], bool]) -> None:
    """Wait, while another thread works, until something holds."""
    for _ in range(30_000):
        if holds():
            return
        threading.Event().wait(0.001)
    raise AssertionError("it does not come to hold")
