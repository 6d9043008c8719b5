"""Callers that wait for executions: each is woken for its own, and by nothing else.

How it works. A committed turn wakes the callers that wait for its execution, and hands them the row when the execution has ended,
so that they need not read it. Commits of others, of another process or another engine on the same store, are looked for by one
caller for all of them, some hundred rows at a time.

Of threads that sleep only the first wakes by itself, ten times a second: it looks for the others, and drives the engine if no
other thread does. It then goes to the end of the line. The others sleep until they are woken, or until their own time is over; in
case the first thread was lost to an exception, each looks now and then whether it is the first, the less often the more there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from itertools import islice
from typing import TYPE_CHECKING, Final, final

from conductorlite.model.clock import Clock, Deadline
from conductorlite.model.executions import Workflow, stored_workflow
from conductorlite.model.threads import Block, Mutex, Waiter, within

if TYPE_CHECKING:
    from conductorlite.engine.residents import Quiet
    from conductorlite.store.ports import Backend

__all__ = ["GLANCE_MS", "Awaited", "Awaiting"]

#: Between two looks of the first thread that sleeps, ms.
GLANCE_MS: Final = 100

#: For each thread that sleeps, how much longer the others sleep before they look whether they are the first, ms.
_EACH_MS: Final = 10

#: Rows that one look reads at most.
_ROWS: Final = 500


@final
class Awaiting(Block["Awaiting"]):
    """One caller, as long as its block lasts: until an execution has ended or, with `each`, one of several was committed."""

    __slots__ = ("_all", "each", "executions", "fences", "news", "row", "waiter", "wake")

    def __init__(self, every: Awaited, executions: Iterable[str], *, each: bool, wake: Callable[[], object] | None) -> None:
        self._all = every
        self.executions = tuple(executions)
        self.each = each
        #: Of a thread that sleeps.
        self.waiter = Waiter()
        #: What wakes it.
        self.wake = wake or self.waiter.wake
        #: Whether what it waits for has happened, or may have; and the row of the execution that has ended.
        self.news = False
        self.row: Workflow | None = None
        #: With `each`, after which commit an execution was looked at last.
        self.fences: dict[str, int] = {}

    def notify(self, row: Workflow | None) -> None:
        """Wake the caller."""
        if row is not None:
            self.row = row
        self.news = True
        self.wake()

    def begin(self) -> Awaiting:
        """Be known by the executions it waits for."""
        every = self._all
        with every.mutex.held():
            for one in self.executions:
                every.by_execution.setdefault(one, {})[self] = None
        return self

    def undo(self, error: BaseException | None = None) -> None:
        """Be forgotten."""
        every = self._all
        with every.mutex.held():
            for one in self.executions:
                others = every.by_execution.get(one)
                if others is not None:
                    others.pop(self, None)
                    if not others:
                        del every.by_execution[one]

    end = undo


@final
class _Place(Block[None]):
    """The block of a thread that sleeps: its place in the line."""

    __slots__ = ("_all", "_one")

    def __init__(self, every: Awaited, one: Awaiting) -> None:
        self._all, self._one = every, one

    def begin(self) -> None:
        with self._all.mutex.held():
            self._all.sleepers[self._one] = None

    def undo(self, error: BaseException | None = None) -> None:
        every = self._all
        with every.mutex.held():
            was_first = every.first() is self._one
            every.sleepers.pop(self._one, None)
        if was_first:
            every.wake_first()

    end = undo


@final
class Awaited:
    """The callers that wait for executions of one engine. Thread-safe."""

    def __init__(
        self, backend: Backend, quiet: Quiet, by_execution: dict[str, dict[Awaiting, None]], sleepers: dict[Awaiting, None]
    ) -> None:
        self._backend, self._quiet = backend, quiet
        #: Held by who changes the two below; who reads one of them takes a copy.
        self.mutex = Mutex()
        self.by_execution = by_execution
        #: Threads that sleep, in order.
        self.sleepers = sleepers
        #: Held by the thread that looks; made when one does.
        self._looking: Mutex | None = None
        #: The store's version and commits at the last look, and the executions that are still to be looked at since.
        self._seen = (-1, -1)
        self._left: dict[str, None] = {}

    def wait(
        self, *executions: str, each: bool = False, wake: Callable[[], object] | None = None
    ) -> AbstractContextManager[Awaiting]:
        """A block that waits for the end of an execution, or with `each` for the next commit of one of several.

        Look for what is waited for inside it: a commit from its beginning on is not missed. `wake` is called in whatever thread
        commits or looks; without it the block's thread may `sleep`.
        """
        return within(Awaiting(self, executions, each=each, wake=wake))

    def committed(self, workflow: Workflow) -> None:
        """Wake the callers that wait for an execution of which a turn was committed."""
        row: Workflow | None = None
        for one in tuple(self.by_execution.get(workflow.workflow_id, ())):
            if workflow.status.terminal and not one.each:
                row = row or stored_workflow(workflow)
                one.notify(row)
            elif one.each:
                one.notify(None)

    # ------------------------------------------------------------------ what others commit

    def look(self) -> None:
        """Look for what others have committed, and wake the callers that wait; one thread at a time. Raises StorageErrors."""
        if not self.by_execution:
            return
        if self._looking is None:
            with self.mutex.held():
                self._looking = self._looking or Mutex()
        with self._looking.held(0) as mine:
            if mine:
                self._look()

    def _look(self) -> None:
        backend = self._backend
        state = (backend.data_version(), backend.commits())  # before the look: what is committed meanwhile counts as not seen
        if state != self._seen:
            if not self._quiet.is_same_since(self._seen[1]):  # else it was this engine's turns alone, which wake by themselves
                self._left |= dict.fromkeys(self.by_execution.copy())
            self._seen = state
        some = list(islice(self._left, _ROWS))
        if not some:
            return
        for workflow_id in some:
            del self._left[workflow_id]
        with backend.reading() as view:
            rows = [(one, view.executions.workflow(one)) for one in some]
        for workflow_id, row in rows:
            ended = row is None or row.status.terminal
            for one in tuple(self.by_execution.get(workflow_id, ())):
                fence = 0 if row is None else row.fence
                if (ended and not one.each) or (one.each and one.fences.get(workflow_id) != fence):
                    one.fences[workflow_id] = fence
                    one.notify(None if one.each else row)

    # ------------------------------------------------------------------ threads

    def first(self) -> Awaiting | None:
        """The thread that looks for all; to be asked with the mutex held."""
        return next(iter(self.sleepers), None)

    def wake_first(self) -> None:
        """Wake the first thread that sleeps: the one that drove the engine has left, or the one that looked has."""
        with self.mutex.held():
            first = self.first()
        if first is not None:
            first.waiter.wake()

    def wake_all(self) -> None:
        """Wake every caller, to see for itself what has happened: the engine was closed."""
        with self.mutex.held():
            every = {one: None for some in self.by_execution.values() for one in some}
        for one in every:
            one.notify(None)

    def sleep(self, one: Awaiting, clock: Clock, deadline: Deadline | None) -> bool:
        """Sleep until there is news, until the deadline has passed, or for a while; True when this thread may have to drive.

        Raises StorageErrors.
        """
        with within(_Place(self, one)):
            while not one.news:
                with self.mutex.held():
                    first = self.first() is one
                    span = GLANCE_MS if first else max(GLANCE_MS, _EACH_MS * len(self.sleepers))
                if deadline is not None and deadline.passed:
                    return False
                over = clock.now() + span
                if deadline is not None:
                    over = min(over, deadline.instant)
                clock.wait(one.waiter, over)
                woken = clock.now() < over if not clock.virtual else one.waiter.wait(span / 1_000)
                if first:
                    self.look()
                    return not one.news
                if not woken:
                    return False
        return False
