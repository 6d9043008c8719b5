"""Compensation, killed at every write: what was done is undone exactly once, in reverse, as the world outside sees it.

Workers are told a key by which they know what they have done already (`TaskContext.idempotency_key`); the ledger has a line for
each key that came for the first time. At-least-once calls then leave exactly-once effects.
"""

from __future__ import annotations

import pytest
from crash_kit import STORES

from conductorlite import Bounds, Engine, TaskContext, TaskDef, VirtualClock, WorkflowDef, WorkflowStatus, WorkflowTask
from conductorlite.engine.config import EngineConfig
from conductorlite.testing import ScriptedWorkers, crash_everywhere, start_once

SAGA_ID = "saga-8"
STEPS = tuple("abcdefgh")


def _task(name: str, type: str, **fields: object) -> WorkflowTask:
    policy = TaskDef(
        name=type, retry_count=3, retry_delay_ms=5_000, response_timeout_ms=10_000, poll_timeout_ms=60_000, timeout_ms=0
    )
    return WorkflowTask(name=type, task_reference_name=name, task_definition=policy, **fields)  # type: ignore[arg-type]


def _loop(name: str) -> WorkflowTask:
    body = [_task(name, f"do_{name}", compensate=_task(f"undo_{name}", f"undo_{name}"))]
    return WorkflowTask(
        name="twice", task_reference_name=f"twice_{name}", type="DO_WHILE", loop_over=body,
        loop_condition=f"$.twice_{name}['iteration'] < 2",
    )  # fmt: skip


SAGA = WorkflowDef(
    name="saga",
    tasks=[
        _loop(name) if name == "c" else _task(name, f"do_{name}", compensate=_task(f"undo_{name}", f"undo_{name}"))
        for name in STEPS
    ],
)


class World:
    """The world outside: what was done to it, once per idempotency key."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.ledger: list[str] = []

    def apply(self, context: TaskContext) -> dict[str, str]:
        """Take effect, unless that was done already."""
        if context.idempotency_key not in self.keys:
            self.keys.add(context.idempotency_key)
            self.ledger.append(context.task.ref)
        return {"did": context.task.ref}


def _done_before(failing: str) -> list[str]:
    done: list[str] = []
    for name in STEPS[: STEPS.index(failing)]:
        done += ["c__1", "c__2"] if name == "c" else [name]
    return done


def _script(world: World, workers: ScriptedWorkers, failing: str) -> None:
    for name in STEPS:
        workers[f"do_{name}"].does(world.apply)
        workers[f"undo_{name}"].does(world.apply)
    workers[f"do_{failing}"].forget()
    workers[f"do_{failing}"].fails_terminally("sold out")
    # Not everything can be undone at the first try.
    workers.undo_b.forget()
    workers.undo_b.fails(1, reason="503").then.does(world.apply)


def _scenario(engine: Engine) -> None:
    start_once(engine, SAGA, workflow_id=SAGA_ID)
    engine.run_until_idle()


def _wanted(failing: str) -> list[str]:
    done = _done_before(failing)
    return done + [f"undo_{ref}" for ref in reversed(done)]


@pytest.mark.parametrize("failing", STEPS)
def test_the_undisturbed_saga(failing: str) -> None:
    """Failed at each step in turn: exactly what was done is undone, last first, once."""
    world, workers = World(), ScriptedWorkers()
    _script(world, workers, failing)
    with Engine(clock=VirtualClock(), workers=workers) as engine:
        _scenario(engine)
        assert world.ledger == _wanted(failing)
        assert engine.status(SAGA_ID) is WorkflowStatus.FAILED
        assert engine.admin.check() == []


@pytest.mark.parametrize(
    ("failing", "rows"),
    [
        ("d", 5_000),
        ("d", 1),
        *(pytest.param(failing, rows, marks=pytest.mark.deep) for failing in STEPS for rows in (5_000, 1)),
    ],
)
@pytest.mark.parametrize(("store", "every"), STORES)
def test_killed_at_every_write(store: str, every: int, failing: str, rows: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Killed before and after each write, it comes to the same end, and the world to the same ledger."""
    worlds: list[World] = []

    def script(workers: ScriptedWorkers) -> None:
        worlds.append(World())
        _script(worlds[-1], workers, failing)

    points = crash_everywhere(
        _scenario, script, stores=[store], same_order=True, every=every, config=EngineConfig(bounds=Bounds(rows=rows))
    )
    with capsys.disabled():
        print(f" [{points} crash points on {store}]", end="")
    assert len(worlds) == points + 1
    assert all(world.ledger == _wanted(failing) for world in worlds)
