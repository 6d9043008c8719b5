"""What is kept: executions found by what they are and removed when they have ended, queues and polls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TypeVar

import attrs

from conductorlite.engine.archive import unarchived
from conductorlite.engine.core import new_upload_name
from conductorlite.engine.events import Events
from conductorlite.engine.payloads import PayloadSweep, location
from conductorlite.engine.turn_types import execution_pages
from conductorlite.model.errors import Conflict, ExecutionNotFound, InvalidInput, StorageFull
from conductorlite.model.executions import PollData, Workflow
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.model.texts import Span, to_span
from conductorlite.store.ports import WritingTransaction
from conductorlite.store.tables import ExecutionFilter, ExternalStorageLocation

__all__ = ["Records"]

T = TypeVar("T")


class Records(Events):
    """Verbs on the store as a whole."""

    def executions(
        self,
        name: str | None = None,
        *,
        correlation_id: str | None = None,
        status: WorkflowStatus | None = None,
        parent_workflow_id: str | None = None,
        limit: int = 100,
        after: tuple[int, str] | None = None,
    ) -> list[Workflow]:
        """Up to `limit` executions that match everything given, newest first, without their tasks and large payloads.

        The next page begins `after` the last one: `after=(last.created_at, last.workflow_id)`. Each page is found along an
        index; with a correlation or parent id, among the executions that have it. Raises InvalidInput when `limit` is below 1.
        """
        if limit < 1:
            raise InvalidInput(f"limit {limit} is below 1")
        wanted = ExecutionFilter(
            name=name,
            status=None if status is None else WorkflowStatus(status),
            correlation_id=correlation_id,
            parent_workflow_id=parent_workflow_id,
        )
        with self.backend.reading() as view:
            return list(view.executions(wanted, after, limit))

    def correlated(self, name: str, correlation_id: str, *, include_closed: bool = False) -> list[Workflow]:
        """The executions of a workflow with a correlation id, newest first: those RUNNING, or with `include_closed` all.

        PAUSED ones are left out with those that have ended, as Conductor's `GET /workflow/{name}/correlated/{id}` does.
        """
        status = None if include_closed else WorkflowStatus.RUNNING
        return list(self._all(ExecutionFilter(name=name, correlation_id=correlation_id, status=status)))

    def children(self, workflow_id: str) -> list[Workflow]:
        """The executions that the SUB_WORKFLOW tasks of an execution have begun, oldest first; raises ExecutionNotFound.

        Those that are archived come first. Those of an execution that was removed are found by `executions(parent_workflow_id=…)`.
        """
        with self.backend.reading() as view:
            row = view.workflow(workflow_id)
            tasks = view.attempts(workflow_id) if row is not None else unarchived(view, workflow_id).workflow.tasks
            ids = dict.fromkeys(task.sub_workflow_id for task in tasks if task.sub_workflow_id is not None)
            gone = [one for one in ids if view.workflow(one) is None and view.archived(one) is not None]
            archived = [attrs.evolve(unarchived(view, one).workflow, tasks=()) for one in gone]
        return [*archived, *list(self._all(ExecutionFilter(parent_workflow_id=workflow_id)))[::-1]]

    def _all(self, wanted: ExecutionFilter) -> Iterator[Workflow]:
        return chain.from_iterable(execution_pages(self.backend, wanted))

    def remove(self, workflow_id: str) -> None:
        """Delete an execution that has ended, with its tasks, history, logs and messages; its idempotency key is free again.

        What lies in the payload storage for it alone goes too. Its children and its parent stay. What workers still report
        about it is refused like any report on a task that does not exist. One that is archived leaves the archive. Raises
        ExecutionNotFound, and Conflict while it is RUNNING or PAUSED, parked or not, or waits for a slot to go on after a retry:
        terminate it first.
        """
        left = self._freeing(partial(self._removed, workflow_id))
        self.turns.outside.delete_left(left)
        self.turns.wake()

    def _removed(self, workflow_id: str, tx: WritingTransaction) -> Sequence[str]:
        """Delete an execution in a transaction; the keys of what it leaves in the payload storage."""
        row = tx.workflow(workflow_id)
        if row is None and not tx.drop_archived(workflow_id):
            raise ExecutionNotFound(f"no execution has the id {workflow_id!r}")
        if row is not None and not row.status.terminal:
            parked = " and parked" if row.parked is not None else ""
            raise Conflict(f"{workflow_id}: a {row.status}{parked} workflow cannot be removed; terminate it first")
        if row is not None and row.rate_limit_key is not None:
            raise Conflict(f"{workflow_id}: it waits for a slot to go on and cannot be removed; terminate it first")
        left = self.turns.outside.left_by(tx, workflow_id)
        if row is not None:
            tx.remove(workflow_id)
        return left

    def _freeing(self, change: Callable[[WritingTransaction], T]) -> T:
        """Carry out a change that gives room back; on a full disk once more, with the room that is kept for it."""
        try:
            with self.backend.writing() as tx:
                return change(tx)
        except StorageFull:
            if not self.backend.make_room():
                raise
        with self.backend.writing() as tx:
            done = change(tx)
        self.backend.make_room()  # so that whoever writes next finds room
        return done

    def sweep_payloads(self, grace: Span = "1d") -> PayloadSweep:
        """Delete what lies in the payload storage and no execution refers to: what crashes and refused turns have left.

        What was put there, or noticed there for the first time, less than `grace` ago by the engine's
        clock stays: its turn may be about to be committed. `grace=0` is for when nobody else uses the store. The storage must
        belong to this store alone. Raises PayloadUnavailable; what was deleted until then stays deleted.
        """
        return self.turns.outside.sweep(self.clock.now(), to_span(grace))

    def external_storage_location(
        self, path: str = "", operation: str = "READ", payload_type: str | None = None
    ) -> ExternalStorageLocation:
        """Where the payload of a `path` can be read, or with WRITE a new one uploaded: a URI, signed where the storage can.

        To upload, leave `path` empty and give the `payload_type`, WORKFLOW_INPUT for a start or TASK_OUTPUT for a report, write one
        JSON object to the URI, and report the path that is returned. It is read then, once; `sweep_payloads` deletes the upload
        when its grace time, counted from here, is over. With the path of an upload, WRITE gives a URI for it again; what is stored
        already cannot be overwritten. Raises InvalidInput for a path, operation or type that cannot be, PayloadUnavailable, also
        when the store keeps everything itself, and StorageErrors. Source of the rule: Conductor's `getExternalStorageLocation`.
        """
        return location(self.turns.outside, path, operation, payload_type, new_upload_name(), self.clock.now())

    def poll_data(self, task_type: str | None = None) -> Sequence[PollData]:
        """The last poll of each task type in each domain, or of one type; in order of type, then domain.

        Exact to a second: a worker's polls for one type and domain are written at most that often.
        """
        with self.backend.reading() as view:
            return view.poll_data(task_type)

    def queue_sizes(self) -> Mapping[str, int]:
        """How many tasks wait in each queue (`type` or `domain:type`), those with a delay included; reads every queue."""
        with self.backend.reading() as view:
            return view.queue_sizes()
