"""Tasks: attempts found by their ids, their logs and leases, their queues, and who polls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conductorlite.engine.config import EngineConfig, Service
from conductorlite.engine.reports import Reports
from conductorlite.engine.search import Search
from conductorlite.engine.turn_types import unarchived
from conductorlite.engine.turns import Turns
from conductorlite.model import attrs
from conductorlite.model.errors import TaskNotFound
from conductorlite.model.executions import PollData, Task, TaskLog
from conductorlite.store.documents import TASKS, WORKFLOWS
from conductorlite.store.search import SearchResult, TaskSummary, WorkflowSummary, asked

__all__ = ["Tasks"]


class Tasks(Service):
    """Verbs on attempts at tasks."""

    def __init__(self, turns: Turns, config: EngineConfig, reports: Reports, searching: Search) -> None:
        super().__init__(turns, config)
        self._reports = reports
        self._searching = searching

    def extend_lease(self, task: Task) -> bool:
        """Say that the worker of a polled task is alive: its response timeout starts again.

        Returns False when the attempt has ended or is not in progress any more. Raises TaskNotFound when the execution was
        removed, ExecutionArchived, StaleLease when another worker holds it, and Parked: then nothing times out, and a report will
        be kept.
        """
        return self._reports.sign_of_life(task, self._clock.now())

    def log(self, task: Task, *lines: str) -> None:
        """Keep lines of text with a task, stamped now; for an execution that was removed or archived meanwhile they are dropped."""
        self._reports.log(task, lines)

    def get(self, task_id: str) -> Task:
        """One attempt by its id; raises TaskNotFound, also for one of an archived execution: `get` has those."""
        with self._backend.reading() as view:
            task = view.task_by_id(task_id)
        if task is None:
            raise TaskNotFound(f"there is no task {task_id!r} (those of an archived execution are in what `get` returns)")
        return self._reports.with_payloads(task)

    def logs(self, task_id: str, *, workflow_id: str | None = None) -> Sequence[TaskLog]:
        """What workers logged for an attempt; for one of an archived execution its `workflow_id` is needed."""
        with self._backend.reading() as view:
            if workflow_id is None or view.workflow(workflow_id) is not None or view.archived(workflow_id) is None:
                return view.logs(task_id)
            return [entry for entry in unarchived(view, workflow_id).logs if entry.task_id == task_id]

    def search(
        self, query: str = "", *, free_text: str = "*", start: int = 0, size: int = 100, sort: str = ""
    ) -> SearchResult[TaskSummary]:
        """Attempts that answer a query, of all executions: as `Engine.search`, with the fields of tasks; raises as it does."""
        wanted = asked(TASKS, query, free_text, start, size, sort)
        return self._searching.tasks(wanted)

    def search_workflows(
        self, query: str = "", *, free_text: str = "*", start: int = 0, size: int = 100, sort: str = ""
    ) -> SearchResult[WorkflowSummary]:
        """Executions of which some attempt answers a query on the fields of tasks; `sort` is by fields of executions.

        Raises as `Engine.search` does.
        """
        within = asked(TASKS, query, free_text, 0, 0, "")
        return self._searching.workflows(attrs.evolve(asked(WORKFLOWS, "", "*", start, size, sort), with_task=within))

    def poll_data(self, task_type: str | None = None) -> Sequence[PollData]:
        """The last poll of each task type in each domain, or of one type; in order of type, then domain.

        Exact to a second: a worker's polls for one type and domain are written at most that often.
        """
        with self._backend.reading() as view:
            return view.poll_data(task_type)

    def queue_sizes(self) -> Mapping[str, int]:
        """How many tasks wait in each queue (`type` or `domain:type`), those with a delay included; reads every queue."""
        with self._backend.reading() as view:
            return view.queue_sizes()
