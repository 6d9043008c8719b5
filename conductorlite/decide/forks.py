"""Executions that begin with the rows of another one: FORK.

A fork is a copy of an execution, its origin, as if that had been terminated at this moment: what is open in it is CANCELED in the
copy. The verb that comes in the same turn, RERUN, says from where the copy goes on, by the rules of `reruns`: so what is taken
back, what is tried again and what stays is decided in one place.

What belongs to the origin alone is not copied: leases, deadlines, limits, messages that no task has received, and executions below
it that did not end well. One that did is named by the copy's task too, and nothing of the copy writes to it. Attempts get ids of
their own.
"""

from __future__ import annotations

from typing import Any, Final

from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.transitions import cancel_attempt, copy_attempt
from conductorlite.model.decisions import Event, Outcome
from conductorlite.model.documents import task_from_cells
from conductorlite.model.executions import HistoryKind, Task, own_task
from conductorlite.model.mailbox import WorkflowMessage
from conductorlite.model.statuses import WorkflowStatus

__all__ = ["on_fork"]

_COPIED: Final = "it is a copy of {!r}, which was {}"


def on_fork(changeset: Changeset, event: Event) -> None:
    """Begin an execution as an ended copy of another one, whose rows the event holds."""
    if changeset.journal.number:
        changeset.reply(event, Outcome.IGNORED, "the workflow has begun already")
        return
    said = changeset.documents.value(event.data)
    changeset.move_workflow(WorkflowStatus.RUNNING, payload=changeset.documents.keep(changeset.workflow.input))
    changeset.documents.keep(changeset.workflow.task_to_domain)
    changeset.change(variables=changeset.documents.payload(said["variables"]))
    changeset.start()
    changeset.journal.add(HistoryKind.VERB, "FORK", payload=changeset.documents.keep(event.data))
    changeset.counting = False
    rows = [_copy(changeset, cells) for cells in said["tasks"]]
    for row in sorted(rows, key=lambda row: (row.seq, row.attempt)):
        changeset.adopt(row)
    for number, message in enumerate(said["messages"], 1):
        _copy_message(changeset, number, message)
    last = max(rows, key=lambda row: row.seq, default=None)
    if last is not None and last.seq:
        changeset.change(task_seq=last.seq, last_ref=last.ref)
    changeset.change(skips=sum(task.skipped_ahead for task in changeset.rows.everything()))
    changeset.recount()
    origin = said["origin"]
    status = WorkflowStatus(origin["status"])
    ended = status if status.terminal else WorkflowStatus.TERMINATED
    changeset.end_copy(ended, _COPIED.format(origin["workflowId"], status))


def _copy_message(changeset: Changeset, number: int, said: dict[str, Any]) -> None:
    """Keep a message that a task of the origin had received, as received; RERUN gives back those of what it takes back."""
    value = changeset.documents.payload(said["value"])
    changeset.journal.add(HistoryKind.MESSAGE, "COPIED", number=number, payload=value)
    changeset.change(message_seq=number)
    changeset.mailbox.put(
        WorkflowMessage(
            workflow_id=changeset.workflow.workflow_id,
            number=number,
            topic=said["topic"],
            key=said["key"],
            value=value,
            sent_at=said["sentAt"],
            receiver=said["receiver"],
            received_at=said["receivedAt"],
        )
    )


def _copy(changeset: Changeset, cells: dict[str, Any]) -> Any:
    """An attempt of the origin as this execution has it."""
    workflow = changeset.workflow
    task: Task = task_from_cells({**cells, "workflow_id": workflow.workflow_id, "task_id": ""})
    row: Any = own_task(task)
    copy_attempt(row, workflow)
    if not row.status.terminal:
        cancel_attempt(row, changeset.moment.now)
    return row
