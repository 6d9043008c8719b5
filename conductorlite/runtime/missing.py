"""Workers that are not there: what is logged of tasks that no worker here carries out, and who need not wait for them.

Tasks may be carried out by another process, by a client of a server, or by a thread that polls by hand. So a missing worker is a
warning: once for each type, when a definition is new to an engine that starts it, and when a driver that has nothing to do finds
such a task offered, as in a process that goes on with what another one has begun.

A store in memory is different: no other process can open it. If one engine uses it, no server of this process answers for that
engine, and nobody has polled for the type, then a caller that waits without a timeout would wait for ever. It gets NoWorker, after
a few seconds in which nothing was committed: a thread that is about to poll by hand may need a moment.

What else a caller waits for is logged, once for each execution, when a few seconds have passed in which it did not end: a first
program that fails, or that needs a person, is silent otherwise until its time is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.decide.changeset.events import counted
from conductorlite.engine.keys import Polls
from conductorlite.engine.logs import log_definition, log_waiting
from conductorlite.engine.registry import Notice
from conductorlite.engine.verbs import Verbs
from conductorlite.model.clock import elapsed_of
from conductorlite.model.decisions import ADDRESS, Event, EventKind, Message, queue_prefix, version_of
from conductorlite.model.definitions import WorkflowDef
from conductorlite.model.errors import ConductorliteError
from conductorlite.model.executions import Reason, Task, Workflow
from conductorlite.model.later import functions
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.model.texts import span_in_words
from conductorlite.model.threads import Mutex
from conductorlite.plan.findings import unserved, worker_types
from conductorlite.runtime.handout import HandOut
from conductorlite.runtime.idle import COUNTING, POLLED_MS
from conductorlite.runtime.registry import Workers
from conductorlite.store.ports import ReadingTransaction

if TYPE_CHECKING:
    from conductorlite.errors import NoWorker
    from conductorlite.runtime.result_errors import unserved_error
else:
    (unserved_error,) = functions("conductorlite.runtime.result_errors", "unserved_error")

__all__ = ["MissingWorkers", "WaitNews", "WarnOnce"]

#: Between two looks of a driver at rest for tasks that nobody here carries out, ms.
_LOOK_MS: Final = 10_000

#: For how long nothing must have been committed before a call ends with an error, ms.
_PATIENCE_MS: Final = 5_000

#: Tasks and events that are looked at, and executions below the awaited one.
_LOOKED: Final = 64
_MOST: Final = 1_000
_FAMILY: Final = 100

#: For how long a caller waits before that is logged, ms; how many executions are named for one that waits for all of them, and how
#: many are remembered.
_NEWS_MS: Final = 3_000
_NAMED: Final = 3
_KEPT: Final = 10_000

#: Reasons that say where an execution stands, and not what it waits for; what goes on by itself is logged as information.
_GENERAL: Final = frozenset({"RUNNING", "RUN_AGAIN", "MIGRATED", "CLOCK", "NULL"})
_AT_WORK: Final = frozenset({"WITH_WORKER", "DELAY", "TIME", "ROUND", "TASKS", "DEADLINE", "MORE"})


class WarnOnce:
    """Log each warning about a definition once, and once each task type that no worker here carries out. Thread-safe.

    An engine without workers only starts executions for others, as long as no thread drives it. A type that is polled for by hand
    has a worker.
    """

    def __init__(self, notices: deque[Notice], polls: Polls, workers: Workers) -> None:
        self._waiting = notices
        self._polls = polls
        self._workers = workers
        #: Held while the two below are read or changed, and never while anything is logged: a handler may call verbs, or wait.
        self._mutex = Mutex()
        #: Types that definitions need and no worker was seen to serve, with the name of a definition.
        self._wanted: dict[str, str] = {}
        #: Types, and queues of a domain, of which was logged that no worker here serves them.
        self._logged: set[str] = set()

    def note(self, kind: str, name: str) -> None:
        """Log, once, that a task of a workflow `name` is offered which no worker here carries out."""
        with self._mutex.held():
            if kind in self._logged:
                return
            self._logged.add(kind)
        domain, _, task_type = kind.rpartition(":")
        version, here = version_of(domain), self._workers.version
        if version is None:
            text = unserved(kind, self._workers.task_types)
        else:
            ours = f"of version {here}" if here else "of no version"
            text = f"no worker of version {version} here for {task_type!r}: those here are {ours} and do not take it over"
        log_definition(name, text)

    def log(self, *, driving: bool = False) -> None:
        """Log what has not been; with `driving` also for an engine without workers."""
        if self._waiting or (self._wanted and (driving or len(self._workers))):
            with self._mutex.held():
                lines = self._new_lines(driving=driving)
            for name, text in lines:
                log_definition(name, text)

    def _new_lines(self, *, driving: bool) -> list[tuple[str, str]]:
        """Take what is to be logged: names of definitions and texts, each for one caller only."""
        lines: list[tuple[str, str]] = []
        while self._waiting:  # another thread appends to it, and none but this one takes from it
            definition, warnings = self._waiting.popleft()
            # A type that may be a slip is named among those that no worker serves, where there are workers.
            left = (problem for problem in warnings if not (problem.path.endswith(".type") and len(self._workers)))
            lines += [(definition.name, str(problem)) for problem in left]
            if isinstance(definition, WorkflowDef):
                self._wanted.update((kind, definition.name) for kind in worker_types(definition) if kind not in self._logged)
        if self._wanted and (driving or len(self._workers)):
            served = self._workers.task_types | self._polls.types()
            for kind, name in self._wanted.items():
                if kind not in served:
                    self._logged.add(kind)
                    lines.append((name, unserved(kind, self._workers.task_types)))
            self._wanted.clear()
        return lines


@attrs.define(slots=True, kw_only=True, eq=False, repr=False)
class _Stillness:
    """Since when nothing was committed (ms of elapsed time), what was found to be missing, and who waits for something else."""

    commits: int
    since: int
    missing: frozenset[str] | None = None
    others: set[str] = attrs.field(factory=set)


class MissingWorkers:
    """The tasks that one engine knows are offered and that no worker here carries out. Thread-safe."""

    def __init__(self, engine: Verbs, workers: Workers, handing: HandOut) -> None:
        self._engine = engine
        self._handing = handing
        self._polls = engine.core.polling.polls
        self.news = WarnOnce(engine.core.turns.lookups.registry.notices, self._polls, workers)
        self._workers = workers
        self._elapsed = elapsed_of(engine.clock)
        self._looked_at: int | None = None
        self._stillness: _Stillness | None = None
        #: The store where no other process can use it: it knows how many engines do.
        self._memory: Any = engine.backend if hasattr(engine.backend, "engines") else None
        if self._memory is not None:
            self._memory.engines += 1

    def look(self, now: int) -> None:
        """Log what is offered and nobody here carries out, if it is time to look; in virtual time an engine looks once."""
        if self._looked_at is not None and (self._engine.clock.virtual or 0 <= now - self._looked_at < _LOOK_MS):
            return
        self._looked_at = now
        with self._engine.backend.reading() as view:
            found = [
                (queue, view.executions.workflow(message.workflow_id)) for queue, message in self._offered(view, _LOOKED).items()
            ]
        for queue, row in found:
            self.news.note(self._kind(queue), "a workflow" if row is None else row.name)

    def refuse(self, workflow_id: str | None) -> None:
        """Raise NoWorker if an execution (None: any that is left) waits for workers only that cannot come.

        To be called again and again by a caller that waits without a timeout while no function is called.
        """
        stillness = self._still()
        if stillness is None or workflow_id in stillness.others:
            return
        with self._engine.backend.reading() as view:
            if stillness.missing is None:
                stillness.missing = frozenset(self._offered(view, _MOST))
            missing = stillness.missing
            found = missing and (self._left(view, missing) if workflow_id is None else self._awaited(view, workflow_id, missing))
        if found:
            raise self._error(workflow_id, found)
        if workflow_id is not None:
            stillness.others.add(workflow_id)

    def _still(self) -> _Stillness | None:
        """Return what is known since the last commit; None while it is not long ago, or where others may carry out tasks."""
        if self._memory is None or self._memory.engines != 1 or self._polls.answered or self._engine.clock.virtual:
            return None
        commits, now, known = self._engine.core.turns.committed.number, self._elapsed(), self._stillness
        if known is None or known.commits != commits:
            self._stillness = _Stillness(commits=commits, since=now)
            return None
        return known if now - known.since >= _PATIENCE_MS else None

    def _kind(self, queue: str) -> str:
        return queue.removeprefix(queue_prefix(self._engine.config.owner))

    def _offered(self, view: ReadingTransaction, limit: int) -> dict[str, Message]:
        """The first task of each queue of this engine's that is offered to nobody who is known."""
        owner = self._engine.config.owner
        served, polled = self._handing.served(), self._polls.queues()
        found: dict[str, Message] = {}
        for message in view.queue.messages(limit):
            queue = message.queue
            if queue in served or queue in found or queue.startswith("@") != bool(owner) or self._kind(queue) in polled:
                continue
            if queue.startswith(queue_prefix(owner)) and not self._polled_elsewhere(view, message):
                found[queue] = message
        return found

    def _polled_elsewhere(self, view: ReadingTransaction, message: Message) -> bool:
        task, since = view.executions.task_by_id(message.task_id), self._engine.clock.now() - POLLED_MS
        polls = () if task is None else view.poll_data.polls(task.task_type)
        return task is not None and any(
            (poll.domain or None) == (task.domain or None) and poll.last_poll_time > since for poll in polls
        )

    def _left(self, view: ReadingTransaction, missing: frozenset[str]) -> frozenset[str]:
        """The queues for which all that is left waits; nothing when something comes by itself, or is too much to look at."""
        owner = self._engine.config.owner
        events, messages = view.inbox.upcoming_events(_MOST, owner), view.queue.messages(_MOST)
        if max(len(events), len(messages)) >= _MOST or not _none_comes(events):
            return frozenset()
        queues = frozenset(one.queue for one in messages if one.queue.startswith("@") == bool(owner))
        return queues if queues <= missing else frozenset()

    def _awaited(self, view: ReadingTransaction, workflow_id: str, missing: frozenset[str]) -> frozenset[str]:
        """The queues for which an execution waits, with those below it; nothing when it also waits for something else."""
        found: set[str] = set()
        ids = [workflow_id]
        for one in ids:
            row = view.executions.workflow(one)
            if row is None or row.status is not WorkflowStatus.RUNNING or row.parked or len(ids) > _FAMILY:
                return frozenset()
            if not _none_comes(view.inbox.events(one)):
                return frozenset()
            for task in view.executions.attempts(one):
                if task.status.terminal or task.task_type in COUNTING:
                    continue
                if task.sub_workflow_id is not None:
                    ids.append(task.sub_workflow_id)
                    continue
                message = view.queue.message((one, task.ref))
                if message is None or message.queue not in missing:
                    return frozenset()
                found.add(message.queue)
        return frozenset(found)

    def _error(self, workflow_id: str | None, queues: frozenset[str]) -> NoWorker:
        names = [unserved(self._kind(queue), self._workers.task_types) for queue in sorted(queues)]
        what = "what is left" if workflow_id is None else workflow_id
        text = (
            f"{what} cannot go on, and the store is in memory, so no other process can carry it out. Give the engine its workers, "
            f"or poll before you wait: {'; '.join(names)}"
        )
        return unserved_error(self._engine, workflow_id, text)


def _none_comes(events: Iterable[Event]) -> bool:
    """Return True if events are only timeouts of polls that no definition sets, and schedules'."""
    return all(
        event.workflow_id.startswith(ADDRESS) or (event.kind is EventKind.POLL_TIMEOUT and counted(event) is not None)
        for event in events
    )


class WaitNews:
    """Logs what callers of one engine wait for; on a virtual clock, where a wait takes no time, nothing. Thread-safe."""

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
        """Return how long a caller that has begun to wait at an instant has yet to wait before anything is logged, ms."""
        return max(0, since + _NEWS_MS - self._elapsed())

    def look(self, since: int, workflow_id: str | None) -> bool:
        """Log what an execution (None: those that are left) waits for, if a caller has waited long enough; whether it has."""
        if self._engine.clock.virtual or self.left(since):
            return False
        with suppress(ConductorliteError):  # it may be removed by now, or not to be read: the caller meets that itself
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
            found = [one.workflow_id for one in view.inbox.upcoming_events(_LOOKED, self._engine.config.owner)]
            found += [one.workflow_id for one in view.queue.messages(_LOOKED)]
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
