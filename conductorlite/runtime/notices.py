"""What is logged of definitions that are new to an engine: their warnings, and tasks that none of its workers serves."""

from __future__ import annotations

from collections import deque

from conductorlite.engine.keys import Polls
from conductorlite.engine.logs import log_definition, log_unserved
from conductorlite.engine.registry import Notice
from conductorlite.model.definitions import WorkflowDef
from conductorlite.plan.findings import unserved, worker_types
from conductorlite.runtime.registry import Workers

__all__ = ["Notices"]


class Notices:
    """Logs each warning about a definition once, and once for each task type that no worker here carries out.

    An engine without workers only starts executions for others, as long as no thread drives it. A type that is polled for by hand
    has a worker.
    """

    def __init__(self, notices: deque[Notice], polls: Polls, workers: Workers) -> None:
        self._waiting = notices
        self._polls = polls
        self._workers = workers
        #: Types that definitions need and no worker was seen to serve, with the name of a definition.
        self._wanted: dict[str, str] = {}
        self._logged: set[str] = set()

    def log(self, *, driving: bool = False) -> None:
        """Log what has not been; with `driving` also for an engine without workers."""
        while self._waiting:
            definition, warnings = self._waiting.popleft()
            for problem in warnings:
                log_definition(definition.name, str(problem))
            if isinstance(definition, WorkflowDef):
                self._wanted.update((kind, definition.name) for kind in worker_types(definition) if kind not in self._logged)
        if self._wanted and (driving or len(self._workers)):
            served = self._workers.task_types | self._polls.types()
            for kind, name in self._wanted.items():
                if kind not in served:
                    self._logged.add(kind)
                    log_unserved(name, unserved(kind, self._workers.task_types))
            self._wanted.clear()
