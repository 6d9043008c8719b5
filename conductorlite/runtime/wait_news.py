"""What a caller waits for, on the logger: once for each execution, when a few seconds have passed in which it did not end.

A first program that fails, or that needs a person or a worker who does not come, is silent otherwise until its time is over. On a
virtual clock nothing is logged: there a wait takes no time.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from conductorlite.engine.logs import log_waiting
from conductorlite.engine.verbs import Verbs
from conductorlite.model.clock import elapsed_of
from conductorlite.model.decisions import ADDRESS
from conductorlite.model.errors import ConductorliteError
from conductorlite.model.executions import Reason, Task, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.model.texts import span_in_words
from conductorlite.model.threads import Mutex

__all__ = ["WaitNews"]

#: For how long a caller waits before anything is logged, ms.
_PATIENCE_MS: Final = 3_000

#: How many executions are named for a caller that waits for all of them, events that are looked at, and executions remembered.
_NAMED: Final = 3
_LOOKED: Final = 64
_KEPT: Final = 10_000

#: Reasons that say where an execution stands, and not what it waits for; what goes on by itself is logged as information.
_GENERAL: Final = frozenset({"RUNNING", "RUN_AGAIN", "MIGRATED", "CLOCK", "NULL"})
_AT_WORK: Final = frozenset({"WITH_WORKER", "DELAY", "TIME", "ROUND", "TASKS", "DEADLINE", "MORE"})


class WaitNews:
    """Logs what callers of one engine wait for. Thread-safe."""

    def __init__(self, engine: Verbs) -> None:
        self._engine = engine
        self._elapsed = elapsed_of(engine.clock)
        self._mutex = Mutex()
        #: Executions that were logged, in order.
        self._logged: dict[str, None] = {}

    def begin(self) -> int:
        """The instant at which a caller begins to wait, for `look`."""
        return self._elapsed()

    def left(self, since: int) -> int:
        """How long a caller that has begun to wait at an instant has yet to wait before anything is logged, ms."""
        return max(0, since + _PATIENCE_MS - self._elapsed())

    def look(self, since: int, workflow_id: str | None) -> bool:
        """Log what an execution (None: those that are left) waits for, if a caller has waited long enough; whether it has."""
        if self._engine.clock.virtual or self.left(since):
            return False
        with suppress(ConductorliteError):  # it may be removed by now, or not to be read: the caller is told of that elsewhere
            for one in [workflow_id] if workflow_id is not None else self._left():
                if self._is_new(one):
                    self._log(one)
        return True

    def _is_new(self, workflow_id: str) -> bool:
        with self._mutex.held():
            if workflow_id in self._logged:
                return False
            self._logged[workflow_id] = None
            if len(self._logged) > _KEPT:
                del self._logged[next(iter(self._logged))]
            return True

    def _left(self) -> Iterable[str]:
        """The first executions that something is due for."""
        with self._engine.backend.reading() as view:
            found = [one.workflow_id for one in view.upcoming_events(_LOOKED, self._engine.config.owner)]
            found += [one.workflow_id for one in view.messages(_LOOKED)]
        return list(dict.fromkeys(one for one in found if not one.startswith(ADDRESS)))[:_NAMED]

    def _log(self, workflow_id: str) -> None:
        reasons = [one for one in self._engine.explain(workflow_id).reasons if one.kind not in _GENERAL]
        workflow = self._engine.get(workflow_id)
        if workflow.status is not WorkflowStatus.RUNNING or not reasons:
            return
        text = "; ".join(self._said(workflow, one) for one in reasons)
        log_waiting(workflow, text, urgent=not all(one.kind in _AT_WORK for one in reasons))

    def _said(self, workflow: Workflow, reason: Reason) -> str:
        if reason.kind != "RETRY" or reason.at is None:
            return reason.text
        before = _failed_before(workflow, reason.ref)
        if before is None:
            return reason.text
        left = max(0, reason.at - self._engine.clock.now())
        how = "timed out" if before.status is TaskStatus.TIMED_OUT else "failed"
        return f"{before.ref} {how}{f': {before.reason}' if before.reason else ''}; next attempt in {span_in_words(left)}"


def _failed_before(workflow: Workflow, ref: str | None) -> Task | None:
    """The last attempt of a task that has failed."""
    failed = [one for one in workflow.tasks if one.ref == ref and one.status.terminal and not one.status.successful]
    return max(failed, key=lambda one: one.attempt, default=None)
