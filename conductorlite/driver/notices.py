"""What is logged of definitions that are new to an engine: their warnings, and tasks that none of its workers serves."""

from __future__ import annotations

from collections import deque

from conductorlite.definitions import WorkflowDef
from conductorlite.engine.domains import Polls
from conductorlite.engine.logs import log_definition, log_unserved
from conductorlite.engine.metadata import Notice
from conductorlite.plan import unserved, worker_types
from conductorlite.worker import Workers

__all__ = ["Notices"]


class Notices:
    """Logs each warning about a definition once, and once for each task type that nobody here carries out.

    An engine without workers only starts executions for others, as long as nobody drives it. A type that is polled for by hand
    has somebody.
    """

    def __init__(self, notices: deque[Notice], polls: Polls, workers: Workers) -> None:
        self._waiting = notices
        self._polls = polls
        self._workers = workers
        #: Types that definitions need and nobody was seen to serve, with the name of a definition.
        self._wanted: dict[str, str] = {}
        self._told: set[str] = set()

    def tell(self, *, driving: bool = False) -> None:
        """Log what has not been; with `driving` also for an engine without workers."""
        while self._waiting:
            definition, warnings = self._waiting.popleft()
            for problem in warnings:
                log_definition(definition.name, str(problem))
            if isinstance(definition, WorkflowDef):
                self._wanted.update((kind, definition.name) for kind in worker_types(definition) if kind not in self._told)
        if self._wanted and (driving or len(self._workers)):
            served = self._workers.task_types | self._polls.types()
            for kind, name in self._wanted.items():
                if kind not in served:
                    self._told.add(kind)
                    log_unserved(name, unserved(kind, self._workers.task_types))
            self._wanted.clear()
