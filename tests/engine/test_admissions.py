"""A PENDING task that is to ask for a slot later, and what becomes of that when it ends, is put back or is paused before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from engine_kit import Bench, flow, fork, join, simple
from limits_kit import limited

from conductorlite import TaskStatus
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Event, EventKind
from conductorlite.testing import replay

Act = Callable[[Bench], Any]


def _asking(bench: Bench) -> list[tuple[float, str | None]]:
    """When something asks for a slot by itself: the second and the task."""
    return [
        ((entry.at - bench.clock.now()) / 1000, entry.ref) for entry in bench.engine.admin.agenda() if entry.kind == "ADMISSION"
    ]


def _report(status: str, **fields: Any) -> Act:
    return lambda bench: bench.report(bench.task("a"), status, lease=False, **fields)


def _delayed(bench: Bench) -> None:
    """`a`, of a limited definition, is PENDING: it asks for its slot in a minute."""
    task = limited("a", k=1, retry_count=1, retry_delay_s=60)
    bench.start(flow(task, simple("z")))
    bench.do("a", "FAILED")
    assert bench.task("a").status is TaskStatus.PENDING
    assert _asking(bench) == [(60, "a")]


ENDS: dict[str, Act] = {
    "completed": _report("COMPLETED"),
    "failed for good": _report("FAILED_WITH_TERMINAL_ERROR"),
    "terminated": lambda bench: bench.engine.terminate(bench.workflow_id),
    "restarted": lambda bench: (bench.engine.terminate(bench.workflow_id), bench.engine.restart(bench.workflow_id)),
    "rerun": lambda bench: bench.engine.rerun(bench.workflow_id, from_task="a"),
}


@pytest.mark.parametrize("end", ENDS)
def test_what_ends_before_it_asks_asks_no_more(bench: Bench, end: str) -> None:
    """Nothing of its admission is left: the agenda does not know it, every law holds at once, and its instant passes in silence."""
    _delayed(bench)
    ENDS[end](bench)
    bench.healthy()
    assert _asking(bench) == []
    before = bench.journal()
    bench.at(bench.second + 60)
    assert bench.journal() == before


def test_what_is_put_back_before_it_asks_asks_at_its_new_instant(bench: Bench) -> None:
    """The callback's instant replaces the delay's: earlier, later, or at once."""
    for callback in (20, 90, 0):
        _delayed(bench)
        _report("IN_PROGRESS", callback_s=callback)(bench)
        bench.healthy()
        if not callback:
            assert (_asking(bench), bench.task("a").status) == ([], TaskStatus.SCHEDULED)
        else:
            assert _asking(bench) == [(callback, "a")]
            bench.at(bench.second + callback)
            assert bench.task("a").status is TaskStatus.SCHEDULED
        bench.do("a")
        bench.do("z")


def test_a_task_put_back_gives_its_slot_to_the_next(bench: Bench) -> None:
    """At once or after a callback: whoever waits is let in, and who was put back stands behind."""
    bench.start(flow(limited("a", k=1)))
    first = bench.workflow_id
    held = bench.take("a")
    bench.start(flow(limited("a", k=1)))
    assert bench.task("a").status is TaskStatus.PENDING
    bench.report(held, "IN_PROGRESS", callback_s=5)
    assert bench.task("a").status is TaskStatus.SCHEDULED
    bench.at(bench.second + 5)
    assert bench.engine.get(first).task("a").status is TaskStatus.PENDING
    bench.do("a")
    bench.engine.settle()
    assert bench.engine.get(first).task("a").status is TaskStatus.SCHEDULED


#: What an event says that gives a slot to `a`, and is void.
VOID: dict[str, dict[str, Any]] = {
    "for nobody": {"holder": "stranger"},
    "for who waits still": {},
    "of another limit": {"key": "task:other"},
    "of another admission": {"number": 99},
}


@pytest.mark.parametrize("name", VOID)
def test_a_slot_that_is_not_there_lets_nobody_in(bench: Bench, name: str) -> None:
    """The task waits on, the execution is not parked, and the true slot finds it."""
    bench.start(flow(limited("a", k=1)))
    held = bench.take("a")
    bench.start(flow(limited("a", k=1)))
    task, now = bench.task("a"), bench.clock.now()
    said = {"key": "task:a", "holder": task.task_id, "number": 0, **VOID[name]}
    about: dict[str, Any] = {"ref": "a", "attempt": task.attempt, "generation": task.generation, "data": Payload.of(said)}
    with bench.engine.backend.writing() as tx:
        tx.inbox.post([Event(workflow_id="w2", event_id="stray", kind=EventKind.GRANTED, due_at=now, posted_at=now, **about)])
    bench.healthy()
    assert (bench.task("a").status, bench.workflow.parked, bench.workflow.broken_turns) == (TaskStatus.PENDING, None, 0)
    bench.report(held)
    assert bench.task("a").status is TaskStatus.SCHEDULED


def test_slots_of_one_turn_are_replayed_in_their_places(bench: Bench) -> None:
    """Two tasks end in one turn; only the slot of the second lets somebody in: the journal tells whose it was."""
    first, second = (attrs.evolve(limited(ref, k=1, response_timeout_s=10), optional=True) for ref in "ab")
    bench.start(flow(fork("f", [first], [second], [limited("c", "b", k=1)]), join("j", "a", "b", "c")))
    bench.take("a")
    bench.take("b")
    bench.at(10)
    assert bench.statuses()["c"] == "SCHEDULED"
    bench.healthy()
    replay(bench.engine.admin.export(bench.workflow_id))  # raises ReplayDiverged at the first line that differs
