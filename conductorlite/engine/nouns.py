"""The parts of an engine, and the verbs grouped by noun; what few programs need is imported when it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from conductorlite.engine.clock_watch import ClockWatch
from conductorlite.engine.config import EngineConfig, Service
from conductorlite.engine.control import Control
from conductorlite.engine.driven_time import Driven
from conductorlite.engine.groups import Groups
from conductorlite.engine.holders import Holding
from conductorlite.engine.payloads import PayloadSweep, location
from conductorlite.engine.polling import Polling
from conductorlite.engine.queries import Queries, queue_sizes
from conductorlite.engine.reports import Reports
from conductorlite.engine.starts import Starts
from conductorlite.engine.turn_types import unarchived
from conductorlite.engine.turns import Turns
from conductorlite.model.decisions import name_at
from conductorlite.model.errors import TaskNotFound
from conductorlite.model.executions import PollData, Task, TaskLog, Workflow, frozen_task
from conductorlite.model.texts import Span, to_span
from conductorlite.model.threads import cached_property
from conductorlite.store.ports import IndexDAO, WritingTransaction

if TYPE_CHECKING:
    from conductorlite.engine.audits import Audits
    from conductorlite.engine.forks import Forks
    from conductorlite.engine.queues import QueueDepth
    from conductorlite.engine.schedules import Timetable
    from conductorlite.engine.search import Search
    from conductorlite.engine.streams import Readers
    from conductorlite.store.search import SearchResult, TaskSummary, WorkflowSummary
    from conductorlite.store.tables import ExternalStorageLocation

__all__ = ["Core", "Payloads", "Tasks", "wake_schedule"]


@attrs.frozen(kw_only=True, slots=False, eq=False, repr=False)
class Core:
    """The parts of an engine, for its driver and the test kit; programs need none of it."""

    turns: Turns
    groups: Groups
    starts: Starts
    control: Control
    queries: Queries
    reports: Reports
    polling: Polling
    holding: Holding
    driven: Driven
    clock_watch: ClockWatch
    config: EngineConfig
    index: IndexDAO | None
    #: Whether documents past the soft barrier are stored where the backend puts them by default.
    documents_beside: bool

    @cached_property
    def forks(self) -> Forks:
        """The service that begins executions with the rows of others."""
        from conductorlite.engine.forks import Forks

        return Forks(self.turns, self.starts, self.config, self.control, self.queries)

    @cached_property
    def readers(self) -> Readers:
        """The service that gives readers the values that executions emit."""
        from conductorlite.engine.streams import Readers

        return Readers(self.turns, self.config, self.queries)

    @cached_property
    def timetable(self) -> Timetable:
        """The service that fires schedules."""
        from conductorlite.engine.schedules import Timetable

        return Timetable(self.turns, self.config, self.control)

    @cached_property
    def searching(self) -> Search:
        """The service that answers searches, and keeps the indexes."""
        from conductorlite.engine.search import Search

        return Search(self.turns, self.config, self.index)

    @cached_property
    def audits(self) -> Audits:
        """The service that looks for damage, and repairs it."""
        from conductorlite.engine.audits import Audits

        return Audits(self.turns, self.config, self.queries, self.searching, documents_beside=self.documents_beside)

    @property
    def indexing(self) -> Search | None:
        """The search service if something may be indexed: for an external index, or after a search; otherwise None."""
        return self.searching if self.index is not None or "searching" in self.__dict__ else None


class Tasks(Service):
    """Operations on tasks: look-ups, logs, leases, queues and polls."""

    def __init__(self, core: Core) -> None:
        super().__init__(core.turns, core.config)
        self._core = core

    def extend_lease(self, task: Task) -> bool:
        """Extend the lease of a polled task, so that its response timeout restarts.

        Returns False when the attempt has ended or is not in progress any more. Raises TaskNotFound when the execution was
        removed, ExecutionArchived, StaleLease when another worker holds it, and Parked: then nothing times out, and a report will
        be kept.
        """
        return self._core.reports.sign_of_life(task, self._clock.now())

    def log(self, task: Task, *lines: str) -> None:
        """Add lines to a task's log, stamped now; they are dropped if the execution was removed or archived."""
        self._core.reports.log(task, lines)

    def get(self, task_id: str) -> Task:
        """Return an attempt by its id; raises TaskNotFound, also for archived executions, whose attempts `get` returns."""
        with self._backend.reading() as view:
            task = view.executions.task_by_id(task_id)
        if task is None:
            raise TaskNotFound(f"there is no task {task_id!r} (those of an archived execution are in what `get` returns)")
        return frozen_task(self._core.reports.with_payloads(task))

    def logs(self, task_id: str, *, workflow_id: str | None = None) -> Sequence[TaskLog]:
        """Return the log of an attempt; for an archived execution, pass its `workflow_id`."""
        with self._backend.reading() as view:
            if (
                workflow_id is None
                or view.executions.workflow(workflow_id) is not None
                or view.archive.archived(workflow_id) is None
            ):
                return view.history.logs(task_id)
            return [entry for entry in unarchived(view, workflow_id).logs if entry.task_id == task_id]

    def search(
        self, query: str = "", *, free_text: str = "*", start: int = 0, size: int = 100, sort: str = ""
    ) -> SearchResult[TaskSummary]:
        """Return attempts of all executions that match a query on the fields of tasks; raises as `Engine.search` does."""
        from conductorlite.store.documents import TASKS
        from conductorlite.store.search import asked

        return self._core.searching.tasks(asked(TASKS, query, free_text, start, size, sort))

    def search_workflows(
        self, query: str = "", *, free_text: str = "*", start: int = 0, size: int = 100, sort: str = ""
    ) -> SearchResult[WorkflowSummary]:
        """Return executions with an attempt that matches a query on the fields of tasks; `sort` is by fields of executions.

        Raises as `Engine.search` does.
        """
        from conductorlite.store.documents import TASKS, WORKFLOWS
        from conductorlite.store.search import asked

        within = asked(TASKS, query, free_text, 0, 0, "")
        return self._core.searching.workflows(attrs.evolve(asked(WORKFLOWS, "", "*", start, size, sort), with_task=within))

    def poll_data(self, task_type: str | None = None) -> Sequence[PollData]:
        """Return the last poll of each task type and domain, or of one type, in order of type, then domain.

        Exact to a second: a worker's polls for one type and domain are written at most that often.
        """
        with self._backend.reading() as view:
            return view.poll_data.polls(task_type)

    def queue_sizes(self) -> Mapping[str, int]:
        """Return the number of tasks that wait in each queue (`type` or `domain:type`); reads every queue and wait queue.

        Those with a delay count, and those that wait for a slot of `rateLimitPerFrequency` or `concurrentExecLimit`.
        """
        with self._backend.reading() as view:
            return queue_sizes(view)

    def queues(self) -> Sequence[QueueDepth]:
        """Return every queue with a task that has not ended: offered, waiting in line, delayed, in progress, and the oldest.

        In order of names. Reads every open task of the store: ask it now and then, not for each task.
        """
        from conductorlite.engine.queues import depths

        with self._backend.reading() as view:
            return depths(view, self._clock.now())


class Payloads(Service):
    """Operations on the payload storage."""

    def sweep(self, grace: Span = "1d") -> PayloadSweep:
        """Delete payloads that no execution refers to, left by crashes and refused turns.

        What was put there, or noticed there for the first time, less than `grace` ago by the engine's
        clock stays: its turn may be about to be committed. `grace=0` is for when no other process uses the store. The storage must
        belong to this store alone. Raises PayloadUnavailable; what was deleted until then stays deleted.
        """
        return self._turns.lookups.payload_store.sweep(self._clock.now(), to_span(grace))

    def location(self, path: str = "", operation: str = "READ", payload_type: str | None = None) -> ExternalStorageLocation:
        """Return a URI to read the payload of a `path`, or with WRITE to upload a new one; signed if the storage can sign.

        To upload, leave `path` empty and give the `payload_type`, WORKFLOW_INPUT for a start or TASK_OUTPUT for a report, write one
        JSON object to the URI, and report the path that is returned. It is read then, once; `sweep` deletes the upload
        when its grace time, counted from here, is over. With the path of an upload, WRITE gives a URI for it again; what is stored
        already cannot be overwritten. Raises InvalidInput for a path, operation or type that cannot be, PayloadUnavailable, also
        when the store keeps everything itself, and StorageErrors. Source of the rule: Conductor's `getExternalStorageLocation`.
        """
        return location(self._turns.lookups.payload_store, path, operation, payload_type, self._clock.now())


def wake_schedule(tx: WritingTransaction, workflow: Workflow) -> None:
    """Wake the schedule that waits for the end of an execution, in the commit of that end."""
    name = name_at(workflow.event or "")
    if name is not None:
        from conductorlite.engine.schedules import wake

        wake(tx, name, workflow)
