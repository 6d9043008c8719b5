"""The records of the instants of a schedule, kept for good: after ten more, and after the schedule was removed.

An instant is a message of the clock's, so its record stands among those of messages (`EventExecution`), under the schedule's
address and a message id of its own. It is written in the commit that decided, and removed by age
(`engine.schedules.remove_executions`).
"""

from __future__ import annotations

from typing import Any, Final

from conductorlite.model.canonical import Payload, present
from conductorlite.model.decisions import address_of, name_at
from conductorlite.model.handlers import EventExecution, EventStatus
from conductorlite.model.schedules import Progress, ScheduledRun, ScheduleExecution, ScheduleOutcome, WorkflowSchedule
from conductorlite.model.texts import Instant, to_instant
from conductorlite.store.ports import Backend
from conductorlite.store.tables import EventPlace
from conductorlite.store.transactions import ReadingTransaction, WritingTransaction

__all__ = ["RECORDS", "is_record", "page_of_records", "remove_records", "write_records"]

#: The message id of all records of schedules.
RECORDS: Final = "conductorlite.schedule"

#: Records deleted in one commit.
_PAGE: Final = 500

_STATUSES: Final = {ScheduleOutcome.EXECUTED: EventStatus.COMPLETED, ScheduleOutcome.FAILED: EventStatus.FAILED}


def write_records(tx: WritingTransaction, schedule: WorkflowSchedule, before: Progress | None, after: Progress) -> None:
    """Keep a record of each decision that a step has made."""
    for run in after.decided_since(before):
        record = _record(schedule, run)
        while tx.event_handlers.event_execution(*record.key) is not None:
            record = _record(schedule, run, record.number + 1)
        tx.event_handlers.add_event_execution(record)


def page_of_records(
    view: ReadingTransaction, name: str | None, after: ScheduleExecution | None, limit: int
) -> list[ScheduleExecution]:
    """Up to `limit` records of a schedule, or of all, newest first."""
    place = None if after is None else _place_of(after)
    rows = view.event_handlers.event_executions(None if name is None else address_of(name), RECORDS, place, limit)
    return [_execution(row) for row in rows if is_record(row)]


def is_record(row: EventExecution) -> bool:
    """True for a record of a schedule."""
    return row.message_id == RECORDS and name_at(row.name) is not None


def _place_of(one: ScheduleExecution) -> EventPlace:
    """Return the place of a record in listings."""
    return (one.executed_time, address_of(one.schedule_name), str(one.scheduled_time), RECORDS, one.number)


def remove_records(backend: Backend, before: Instant, *, message_id: str | None = None, without: str | None = None) -> int:
    """Delete the records made before an instant, of one message id or of all but one; returns how many that were."""
    until, gone = to_instant(before), 0
    while True:
        with backend.writing() as tx:
            dropped = tx.event_handlers.drop_event_executions(until, _PAGE, message_id, without)
        gone += dropped
        if dropped < _PAGE:
            return gone


def _record(schedule: WorkflowSchedule, run: ScheduledRun, number: int = 0) -> EventExecution:
    request = schedule.start_workflow_request
    said = {
        "state": str(run.outcome),
        "workflowName": (request.workflow_def or request).name,
        "zoneId": schedule.zone_id,
        "workflowId": run.workflow_id,
        "reason": run.reason,
    }
    return EventExecution(
        name=address_of(schedule.name),
        event=str(run.scheduled_time),
        message_id=RECORDS,
        number=number,
        status=_STATUSES.get(run.outcome, EventStatus.SKIPPED),
        action="start_workflow",
        created=run.executed_time,
        output=Payload.of(present(said), bounded=False),
    )


def _execution(row: EventExecution) -> ScheduleExecution:
    said: dict[str, Any] = row.output_data
    return ScheduleExecution(
        schedule_name=name_at(row.name) or "",
        scheduled_time=int(row.event),
        executed_time=row.created,
        outcome=ScheduleOutcome(said["state"]),
        workflow_name=said["workflowName"],
        zone_id=said["zoneId"],
        workflow_id=said.get("workflowId"),
        reason=said.get("reason"),
        number=row.number,
    )
