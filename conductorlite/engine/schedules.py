"""Schedules: verbs, and the turn of a schedule.

A schedule's timer is an event in an inbox of its own, so the driver finds it with all others. Its turn does one step: at most
one start. The start and the schedule's advance are one commit under two fences: that of the new execution, whose id follows
from the schedule and the instant, and that of the schedule. An engine that comes second, in this process or another, stores
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import Final

import attrs

from conductorlite.engine.config import EngineConfig, Part, Service
from conductorlite.engine.control import Control
from conductorlite.engine.logs import log_definition, log_schedule
from conductorlite.engine.occurrences import ScheduleStep, id_of, input_of, noted, started, step, waits_for_an_end, wakes_at
from conductorlite.engine.schedule_records import RECORDS, page_of_records, remove_records, write_records
from conductorlite.engine.turn_types import ExtraWrite, stored_pages
from conductorlite.engine.turns import Turns
from conductorlite.language.schedules import following, next_after, problems
from conductorlite.model.codec import definition_text
from conductorlite.model.decisions import Event, EventKind, address_of
from conductorlite.model.definitions import IdempotencyStrategy, StartWorkflowRequest
from conductorlite.model.errors import (
    AlreadyExists,
    Conflict,
    FencedOut,
    InvalidDefinition,
    InvalidExpression,
    InvalidInput,
    InvariantBroken,
    KeyTaken,
    LimitReached,
    MissingExtra,
    NotFound,
    ScheduleNotFound,
)
from conductorlite.model.executions import Workflow
from conductorlite.model.schedules import (
    Backfill,
    OverlapPolicy,
    Progress,
    Schedule,
    ScheduledRun,
    ScheduleExecution,
    ScheduleOutcome,
    WorkflowSchedule,
    progress_from_text,
    progress_to_text,
)
from conductorlite.model.texts import Instant, as_text, did_you_mean, member_of, to_instant
from conductorlite.model.threads import Cache
from conductorlite.store.ports import ReadingTransaction, WritingTransaction
from conductorlite.store.tables import ScheduleRow

__all__ = ["Schedules", "Timetable", "wake"]

#: The event that wakes a schedule by itself.
TIMER: Final = "TIMER"

#: Events of a schedule read in one turn.
_EVENTS: Final = 200

#: How often a verb tries again when others change the schedule meanwhile.
_TRIES: Final = 8

#: Instants one backfill may cover.
_FILLED: Final = 10_000

#: What refuses a start, and is recorded by the schedule: the definition, the input, what the environment lacks.
_REFUSALS: Final = (
    NotFound, InvalidDefinition, InvalidExpression, InvalidInput, MissingExtra, InvariantBroken, LimitReached,
)  # fmt: skip

#: What a verb makes of how far a schedule has come.
_Change = Callable[[WorkflowSchedule, Progress, int], Progress]


class Timetable(Part):
    """Keeps how far schedules have come, and takes their turns."""

    def __init__(self, turns: Turns, config: EngineConfig, control: Control) -> None:
        super().__init__(turns, config)
        self._control = control
        self._read: Cache[str, WorkflowSchedule] = Cache(256)

    def definition(self, row: ScheduleRow) -> WorkflowSchedule:
        """Return the schedule in a row, read once."""
        schedule = self._read.get(row.text)
        if schedule is None:
            schedule = WorkflowSchedule.from_json(row.text)
            self._read.put(row.text, schedule)
        return schedule

    def change(self, name: str, change: _Change) -> None:
        """Change how far a schedule has come; raises ScheduleNotFound, and Conflict when others are first again and again."""
        for _ in range(_TRIES):
            with self._backend.reading() as view:
                row = _found(view, name)
            now = self._clock.now()
            schedule, old = self.definition(row), progress_from_text(row.progress)
            progress = change(schedule, old, now)
            if progress == old:
                return
            try:
                self.keep(row, schedule, attrs.evolve(progress, updated_at=now), now)
                return
            except FencedOut:
                continue
        raise Conflict(f"schedule {name!r}: others changed it {_TRIES} times meanwhile")

    def keep(
        self, row: ScheduleRow, schedule: WorkflowSchedule, progress: Progress, now: int, consumed: Sequence[str] = ()
    ) -> Schedule:
        """Store how far a schedule has come, and date its timer; raises FencedOut."""
        with self._backend.writing() as tx:
            kept = _advance(tx, row, schedule, progress, now, consumed)
        self._turns.committed.wake()
        return _status(kept)

    def fire(self, name: str) -> None:
        """Take one step of a schedule with an event that is due: start for one instant, drop or buffer it, or date the timer."""
        now = self._clock.now()
        with self._backend.reading() as view:
            row = view.schedules.schedule(name)
            due = view.inbox.due_events(address_of(name), now, _EVENTS)
            if row is not None:
                schedule, progress = self.definition(row), progress_from_text(row.progress)
                running = _running(view, progress.running)
        if row is None:
            with self._backend.writing() as tx:  # what was written to a removed schedule
                tx.executions.remove(address_of(name))
            return
        consumed = [event.event_id for event in due]
        try:
            taken = step(schedule, progress, now, running)
        except (InvalidInput, InvalidExpression) as error:  # saved where it was understood, say, with other time zones
            taken = ScheduleStep(progress=attrs.evolve(progress, paused=True, paused_reason=f"cannot be computed: {error}"))
        for workflow_id in taken.terminate:
            self._give_way(name, workflow_id)
        after = taken.progress
        try:
            if taken.start is None:
                self.keep(row, schedule, taken.progress, now, consumed)
            else:
                after = self._start_for(row, schedule, taken, taken.start, now, consumed)
        except FencedOut:
            return  # another process took the step; if anything is left to do, an event is still due
        log_schedule(name, progress, after)

    def _give_way(self, name: str, workflow_id: str) -> None:
        try:
            self._control.verb(workflow_id, EventKind.TERMINATE, {"reason": f"schedule {name!r} has started the next one"})
        except (Conflict, NotFound, InvariantBroken):
            return  # it has ended by itself, or cannot; it must not keep the next one from starting

    def _start_for(
        self, row: ScheduleRow, schedule: WorkflowSchedule, taken: ScheduleStep, instant: int, now: int, consumed: Sequence[str]
    ) -> Progress:
        """Start for an instant and advance, in one commit; a refused start advances as well, or it would be refused for ever."""
        workflow_id = id_of(schedule.name, instant)
        run = ScheduledRun(scheduled_time=instant, executed_time=now, outcome=ScheduleOutcome.EXECUTED, workflow_id=workflow_id)
        after = started(taken.progress, run, tracked=taken.tracked)

        def extra_write(tx: WritingTransaction, _: object) -> None:
            _advance(tx, row, schedule, after, now, consumed)

        try:
            self._begin_for(schedule, instant, now, extra_write)
            return after
        except KeyTaken as error:
            run = attrs.evolve(run, workflow_id=error.workflow_id)
            if schedule.start_workflow_request.idempotency_strategy is not IdempotencyStrategy.RETURN_EXISTING:
                run = attrs.evolve(run, outcome=ScheduleOutcome.FAILED, reason=str(error))
            after = noted(taken.progress, run)
        except AlreadyExists:
            run = attrs.evolve(run, reason="existed already")
            after = started(taken.progress, run, tracked=taken.tracked and self._is_ours(workflow_id, schedule.name))
        except _REFUSALS as error:
            run = attrs.evolve(run, outcome=ScheduleOutcome.FAILED, workflow_id=None, reason=str(error)[:1000])
            after = noted(taken.progress, run)
        self.keep(row, schedule, after, now, consumed)
        return after

    def _is_ours(self, workflow_id: str, name: str) -> bool:
        with self._backend.reading() as view:
            row = view.executions.workflow(workflow_id)
        return row is not None and row.event == address_of(name)

    def _begin_for(self, schedule: WorkflowSchedule, instant: int, now: int, extra_write: ExtraWrite) -> None:
        workflow_id = id_of(schedule.name, instant)
        request = attrs.evolve(
            schedule.start_workflow_request,
            input=input_of(schedule, instant, now, workflow_id),
            created_by=schedule.created_by or schedule.start_workflow_request.created_by,
        )
        self._control.start_along(request, workflow_id, now, address_of(schedule.name), extra_write)


class Schedules(Service):
    """Operations on schedules."""

    def __init__(self, turns: Turns, config: EngineConfig, timetable: Timetable) -> None:
        super().__init__(turns, config)
        self._timetable = timetable

    def save(self, schedule: WorkflowSchedule) -> Schedule:
        """Store or replace a schedule; return its state.

        Only instants after now count (for `at`: from now on). Saving one that is stored already changes nothing, so a program may
        save its schedules whenever it starts; a different one goes on from now, what is running and buffered stays, and whether it
        is paused stays too, unless `paused` is what differs. Raises InvalidDefinition with all problems, and InvalidInput for an
        input that is no JSON.
        """
        found = problems(schedule)
        if found:
            raise InvalidDefinition(found)
        text = definition_text(schedule)
        for _ in range(_TRIES):
            with self._backend.reading() as view:
                row = view.schedules.schedule(schedule.name)
                request = schedule.start_workflow_request
                is_absent = request.workflow_def is None and view.metadata.workflow_def(request.name, None) is None
                known = view.metadata.workflow_defs() if is_absent else ()
            if is_absent:
                said = did_you_mean(request.name, sorted({name for name, _ in known}))
                log_definition(schedule.name, f"the schedule starts workflow {request.name!r}, which is not registered yet{said}")
            if row is not None and row.text == text:
                return _status(row)
            now = self._clock.now()
            progress = self._saved(schedule, row, now)
            address = address_of(schedule.name)
            fence = 0 if row is None else row.fence
            old = "" if row is None else row.progress
            new = ScheduleRow(name=schedule.name, address=address, text=text, progress=old, fence=fence, owner=self._owner)
            try:
                return self._timetable.keep(new, schedule, progress, now)
            except FencedOut:
                continue
        raise Conflict(f"schedule {schedule.name!r}: others changed it {_TRIES} times meanwhile")

    def _saved(self, schedule: WorkflowSchedule, row: ScheduleRow | None, now: int) -> Progress:
        after = now - 1 if schedule.at is not None else now
        next_at = next_after(schedule, after)
        if row is None:
            return Progress(
                created_at=now,
                updated_at=now,
                after=after,
                next_at=next_at,
                paused=schedule.paused,
                paused_reason=schedule.paused_reason,
            )
        old, progress = self._timetable.definition(row), progress_from_text(row.progress)
        progress = attrs.evolve(progress, updated_at=now, after=after, next_at=next_at)
        if (old.paused, old.paused_reason) != (schedule.paused, schedule.paused_reason):
            progress = attrs.evolve(progress, paused=schedule.paused, paused_reason=schedule.paused_reason)
        return progress

    def get(self, name: str) -> Schedule:
        """Return a schedule and its state; raises ScheduleNotFound."""
        with self._backend.reading() as view:
            row = _found(view, name)
            return _status(row, _running(view, progress_from_text(row.progress).running))

    def all(self, workflow_name: str | None = None) -> list[Schedule]:
        """Return all schedules in order of names, or those that start a given workflow."""

        def page(view: ReadingTransaction, after: str, size: int) -> list[Schedule]:
            rows = view.schedules.page(after, size)
            return [_status(row, _running(view, progress_from_text(row.progress).running)) for row in rows]

        found = chain.from_iterable(stored_pages(self._backend, page, "", lambda one: one.definition.name))
        if workflow_name is None:
            return list(found)
        requests = ((one, one.definition.start_workflow_request) for one in found)
        return [one for one, request in requests if workflow_name == (request.workflow_def or request).name]

    def pause(self, name: str, reason: str | None = None) -> None:
        """Start nothing more until `resume`; running executions and backfills continue.

        A paused schedule takes the new reason. Raises ScheduleNotFound.
        """
        if reason is not None:
            as_text(reason, "reason")
        self._timetable.change(name, lambda _, old, now: attrs.evolve(old, paused=True, paused_reason=reason))

    def resume(self, name: str) -> None:
        """Continue from now. Instants that came due meanwhile are dropped (`backfill` starts them); buffered ones start.

        A schedule that is not paused stays as it is. Raises ScheduleNotFound.
        """
        self._timetable.change(name, _resumed)

    def remove(self, name: str) -> None:
        """Delete a schedule; its executions continue. Raises ScheduleNotFound."""
        with self._backend.writing() as tx:
            _found(tx, name)
            tx.schedules.drop_schedule(name)
        self._turns.committed.wake()

    def executions(
        self, name: str | None = None, *, limit: int = 100, after: ScheduleExecution | None = None
    ) -> list[ScheduleExecution]:
        """Return up to `limit` outcomes of instants, newest first, of one schedule or of all, including removed ones.

        The next page begins `after` the last one. They are kept until `remove_executions` removes them by age.
        Raises InvalidInput when `limit` is below 1.
        """
        if limit < 1:
            raise InvalidInput(f"limit {limit} is below 1")
        with self._backend.reading() as view:
            return page_of_records(view, name, after, limit)

    def remove_executions(self, before: Instant) -> int:
        """Delete the outcomes of instants decided before an instant; return their number.

        What was started stays, and so does what `Schedule.recent` has.
        """
        return remove_records(self._backend, before, message_id=RECORDS)

    def preview(
        self, schedule: str | WorkflowSchedule, count: int = 5, *, zone_id: str = "UTC", after: Instant | None = None
    ) -> list[int]:
        """Return the next `count` instants (epoch ms) of a schedule after `after` (default: now), stored or not.

        `schedule` is the name of a stored one, a `WorkflowSchedule`, or a cron expression, read in `zone_id`. Pauses and policies
        do not count. Raises ScheduleNotFound, InvalidDefinition, and InvalidInput unless `count` is 1 to 10,000.
        """
        if not 1 <= count <= _FILLED:
            raise InvalidInput(f"count {count} is not between 1 and {_FILLED}")
        if isinstance(schedule, str) and (" " in schedule.strip() or schedule.startswith("@")):
            request = StartWorkflowRequest(name="preview")
            schedule = WorkflowSchedule(name="preview", cron_expression=schedule, zone_id=zone_id, start_workflow_request=request)
        elif isinstance(schedule, str):
            schedule = self.get(schedule).definition
        found = problems(schedule)
        if found:
            raise InvalidDefinition(found)
        return list(islice(following(schedule, self._clock.now() if after is None else to_instant(after)), count))

    def backfill(self, name: str, start: Instant, end: Instant, *, overlap_policy: OverlapPolicy | None = None) -> int:
        """Queue the instants from `start` to `end`, both included, for the driver to start; return their number.

        They may be before the schedule was saved, or in a pause of it; what exists already is not started again, for its id
        follows from the instant. `overlap_policy` counts for them alone (default: the schedule's own; BUFFER_ALL runs them one
        after another, without dropping any). Raises ScheduleNotFound, and InvalidInput for more than 10,000 instants, and
        for an `end` before `start` or in the future.
        """
        first, last = to_instant(start), to_instant(end)
        if last < first:
            raise InvalidInput(f"the end {last} is before the start {first}")
        if last > self._clock.now():
            raise InvalidInput(f"the end {last} is in the future; those instants come due by themselves")
        policy = None if overlap_policy is None else member_of(OverlapPolicy, overlap_policy, "overlap_policy")
        definition = self.get(name).definition
        instants = 0
        for instant in following(definition, first - 1):
            if instant > last:
                break
            instants += 1
            if instants > _FILLED:
                raise InvalidInput(f"more than {_FILLED} instants; give a shorter range")
        if instants:
            added = Backfill(after=first - 1, until=last, overlap_policy=policy)
            self._timetable.change(name, lambda _, old, now: attrs.evolve(old, backfills=(*old.backfills, added)))
        return instants


def _resumed(schedule: WorkflowSchedule, old: Progress, now: int) -> Progress:
    if not old.paused:
        return old
    after = max(old.after, now)
    return attrs.evolve(old, paused=False, paused_reason=None, after=after, next_at=next_after(schedule, after))


def _advance(
    tx: WritingTransaction,
    row: ScheduleRow,
    schedule: WorkflowSchedule,
    progress: Progress,
    now: int,
    consumed: Sequence[str],
) -> ScheduleRow:
    """Store how far a schedule has come, and date its timer; raises FencedOut.

    Looked at again inside the write is what may have ended since the schedule was read: its event about that may be among
    those consumed, or was never written because no process waited.
    """
    if waits_for_an_end(progress):
        progress = attrs.evolve(progress, running=_running(tx, progress.running))
    write_records(tx, schedule, progress_from_text(row.progress) if row.progress else None, progress)
    new = attrs.evolve(row, progress=progress_to_text(progress), waits=waits_for_an_end(progress))
    at = wakes_at(schedule, progress, now)
    timer = [] if at is None else [_event(row, TIMER, at, now)]
    tx.schedules.put_schedule(new, [*consumed, TIMER], timer)
    return new


def wake(tx: WritingTransaction, name: str, workflow: Workflow) -> None:
    """Wake a schedule if it waits for the end of an execution."""
    row = tx.schedules.schedule(name)
    if row is not None and row.waits:
        tx.inbox.post([_event(row, f"ENDED:{workflow.workflow_id}", workflow.updated_at, workflow.updated_at)])


def _event(row: ScheduleRow, event_id: str, due_at: int, now: int) -> Event:
    return Event(
        workflow_id=row.address,
        event_id=event_id,
        kind=EventKind.SCHEDULE,
        due_at=due_at,
        posted_at=now,
        ref=row.name,
        owner=row.owner,
    )


def _running(view: ReadingTransaction, workflow_ids: Sequence[str]) -> tuple[str, ...]:
    rows = ((workflow_id, view.executions.workflow(workflow_id)) for workflow_id in workflow_ids)
    return tuple(workflow_id for workflow_id, row in rows if row is not None and not row.status.terminal)


def _found(view: ReadingTransaction, name: str) -> ScheduleRow:
    row = view.schedules.schedule(name)
    if row is None:
        raise ScheduleNotFound(f"there is no schedule {name!r}")
    return row


def _status(row: ScheduleRow, running: tuple[str, ...] | None = None) -> Schedule:
    progress = progress_from_text(row.progress)
    return Schedule(
        definition=WorkflowSchedule.from_json(row.text),
        paused=progress.paused,
        paused_reason=progress.paused_reason,
        next_run_time=progress.next_at,
        create_time=progress.created_at,
        updated_time=progress.updated_at,
        running=progress.running if running is None else running,
        buffered=progress.buffered,
        backfills=progress.backfills,
        recent=progress.recent,
    )
