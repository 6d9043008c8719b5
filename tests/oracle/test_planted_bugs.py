"""Is the oracle any good? Bugs of the kinds we fear are planted one by one; each must be found."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from test_oracle import Tally, live

from conductorlite.decide import endings, progress, reports, transitions
from conductorlite.decide import retries as reopening
from conductorlite.decide.changeset import deadlines
from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.changeset.events import Events
from conductorlite.decide.changeset.journal import Journal
from conductorlite.decide.changeset.queues import QueueChanges
from conductorlite.decide.changeset.rows import Rows
from conductorlite.decide.operators import join
from conductorlite.engine.reader import StoreReader
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.executions import HistoryKind, Task
from conductorlite.store.memory.backend import MemoryBackend

Patch = pytest.MonkeyPatch


def unknown_passes_for_absent(patch: Patch) -> None:
    """A row that was not read passes for one that does not exist."""
    real = StoreReader.latest

    def latest(self: StoreReader, base_ref: str) -> Task | None:
        kept = self._tasks.get(self._latest_kept.get(base_ref, "")) is not None
        return real(self, base_ref) if self._whole or kept or base_ref in self._latest else None

    patch.setattr(StoreReader, "latest", latest)


def some_live_rows_pass_for_all(patch: Patch) -> None:
    """What happens to be read passes for all live rows."""
    patch.setattr(StoreReader, "live", lambda self: [t for t in self._tasks.values() if t is not None and t.live])


def counted_twice(patch: Patch) -> None:
    """A counter goes down by two when a task of a loop ends."""
    real = Changeset.count

    def count(self: Changeset, task: Task, change: int) -> None:
        real(self, task, change)
        owner = self.rows.owner(task) if change < 0 and task.iterations else None
        if owner is not None and owner.open > 0:
            real(self, task, change)

    patch.setattr(Changeset, "count", count)


def timer_not_cancelled(patch: Patch) -> None:
    """The timers of a task survive it."""
    real = deadlines._date

    def date(rows: Rows, events: Events, owner: str, row: Task, kind: EventKind, at: int | None, since: int, order: int) -> None:
        if at is not None:
            real(rows, events, owner, row, kind, at, since, order)

    patch.setattr(Events, "cancel", lambda self, event_id: None)
    patch.setattr(deadlines, "_date", date)


def message_not_removed(patch: Patch) -> None:
    """A task that ends in the queue stays offered."""
    patch.setattr(QueueChanges, "remove", lambda self, task: None)


def due_by_the_clamped_clock(patch: Patch) -> None:
    """Due events are selected by the workflow's time, which the machine's clock may be behind."""
    with MemoryBackend().reading() as view:
        reads = type(view.inbox)
    real = reads.due_events

    def due_events(self: Any, workflow_id: str, now: int, limit: int) -> Any:
        row = self._store.workflows.get(workflow_id)
        return real(self, workflow_id, max(now, row.updated_at if row else 0), limit)

    patch.setattr(reads, "due_events", due_events)


def attempt_not_compared(patch: Patch) -> None:
    """A report on an earlier attempt counts for the present one."""

    def addressed(changeset: Changeset, event: Event) -> Task | None:
        task = changeset.rows.task(event.ref or "")
        return None if task is None or changeset.workflow.status.terminal or task.status.terminal else task

    patch.setattr(reports, "_recipients", addressed)


def lease_not_compared(patch: Patch) -> None:
    """A worker that lost its lease may still report."""
    real = reports.on_report

    def on_report(changeset: Changeset, event: Event) -> None:
        said = {key: value for key, value in changeset.documents.value(event.data).items() if key != "lease"}
        real(changeset, attrs.evolve(event, data=changeset.documents.payload(said)))

    patch.setitem(_handlers(), EventKind.REPORT, on_report)


def _handlers() -> Any:
    from conductorlite import decide as decider

    return decider._HANDLERS


def held_events_forgotten(patch: Patch) -> None:
    """What was held while paused is not taken up again."""
    patch.setattr(Events, "release_held", lambda self: None)


def join_not_recounted(patch: Patch) -> None:
    """A retried execution's JOINs keep the counts they had."""
    patch.setattr(reopening, "recount", lambda changeset: changeset.recount())


def executed_before_the_successor(patch: Patch) -> None:
    """A task stops counting before what follows it has its row: a cut in between ends the workflow."""
    real = progress.advance

    def advance(changeset: Changeset, ref: str) -> None:
        held = len(changeset.work.stack)
        real(changeset, ref)
        if changeset.work.queue and changeset.work.queue[0] == ("executed", ref):
            changeset.work.queue.popleft()
            late = changeset.work.stack[held:]
            del changeset.work.stack[held:]
            changeset.work.queue.extendleft(reversed([("executed", ref), *late]))

    patch.setitem(_steps(), "advance", advance)


def _steps() -> Any:
    from conductorlite import decide as decider

    return decider._STEPS


def join_without_its_gate(patch: Patch) -> None:
    """A JOIN may end while its fork is still scheduling branches."""
    real = join.create_join

    def create(changeset: Changeset, node: Any, iterations: Any, *, forked: Any) -> Task:
        task = real(changeset, node, iterations, forked=forked)
        return changeset.put(task, waiting=task.waiting - 1) if forked else task

    patch.setattr("conductorlite.decide.operators.join.create_join", create)


def journal_line_missing(patch: Patch) -> None:
    """A loop enters its next round without telling."""
    real = Journal.add

    def add(self: Journal, kind: HistoryKind, status: str, **fields: Any) -> None:
        if kind is not HistoryKind.ROUND:
            real(self, kind, status, **fields)

    patch.setattr(Journal, "add", add)


def drawn_jitter(patch: Patch) -> None:
    """Jitter is drawn instead of derived."""
    chance = random.Random(1)
    patch.setattr(transitions, "jitter", lambda policy, *_: chance.randrange(policy.backoff_jitter_ms + 1))


def unread_payloads_are_empty(patch: Patch) -> None:
    """A large payload that was not read passes for an empty one."""
    from conductorlite.model.canonical import EMPTY

    def payload(self: StoreReader, payload: Any) -> Any:
        return payload if payload.text is not None else self._payloads.get(payload.digest, EMPTY)

    patch.setattr(StoreReader, "payload", payload)


def undone_first_ended_first(patch: Patch) -> None:
    """Compensations run in the order in which the tasks were done."""
    real = endings._reverse_order
    patch.setattr(endings, "_reverse_order", lambda changeset: real(changeset)[::-1])


def one_is_not_undone(patch: Patch) -> None:
    """The task that ended first is forgotten."""
    real = endings._reverse_order
    patch.setattr(endings, "_reverse_order", lambda changeset: real(changeset)[:1])


BUGS: list[Callable[[Patch], None]] = [
    undone_first_ended_first,
    one_is_not_undone,
    unknown_passes_for_absent,
    some_live_rows_pass_for_all,
    unread_payloads_are_empty,
    counted_twice,
    timer_not_cancelled,
    message_not_removed,
    due_by_the_clamped_clock,
    attempt_not_compared,
    lease_not_compared,
    held_events_forgotten,
    join_not_recounted,
    executed_before_the_successor,
    join_without_its_gate,
    journal_line_missing,
    drawn_jitter,
]


#: Found only after hundreds of lives, so looked for in the deep run; the others in CI.
SLOW = (
    attempt_not_compared,
    drawn_jitter,
    due_by_the_clamped_clock,
    executed_before_the_successor,
    join_not_recounted,
    join_without_its_gate,
    lease_not_compared,
    one_is_not_undone,
    undone_first_ended_first,
)


@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, id=bug.__name__, marks=pytest.mark.deep if bug in SLOW else pytest.mark.slow) for bug in BUGS],
)
def test_a_planted_bug_is_found(bug: Callable[[Patch], None], monkeypatch: Patch, capsys: Any) -> None:
    """The oracle finds the bug within 1,500 lives."""
    bug(monkeypatch)
    for case in itertools.count(1):
        assert case <= 1_500, f"{bug.__name__} was not found"
        chance = random.Random(case)
        try:
            live([chance.randrange(256) for _ in range(500)], Tally())
        except (AttributeError, NameError, TypeError):
            raise  # the plant itself is broken
        except Exception as found:
            told = (str(found).strip().splitlines() or [type(found).__name__])[0]
            break
    with capsys.disabled():
        print(f"\n{bug.__name__}: found by case {case}: {told[:140]}", end="")
