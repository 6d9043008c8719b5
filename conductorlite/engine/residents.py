"""Rows of executions that an engine knows from its own turns, so that the next turn need not read them.

What it guarantees: nothing. A turn that is decided on them commits only if the fence of the execution is still theirs, the store
was not restored since, and nothing is due in the inbox; else it is decided again on what is stored. So the commits of others leave
what they did not change as it is; where no other engine is known to be at work, no other connection may have written at all. A
decision that would write nothing is never taken from them. So a resident row that is old costs a turn its work, and is never
believed.

How it works. A turn takes the rows of its execution out, so that no other thread decides on them meanwhile, and puts them back, as
its decision has made them, when that is committed. Of each execution the rows that were written last are kept, those first that
are not over, and of as many executions as the bound allows, those whose turns were the last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from math import inf
from typing import Final, Protocol

import attrs

from conductorlite.engine.turn_types import Joined, Taking
from conductorlite.model.canonical import INLINE_LIMIT
from conductorlite.model.decisions import Decision, Message
from conductorlite.model.errors import FencedOut
from conductorlite.model.executions import Task, Workflow, stored_task, stored_workflow
from conductorlite.store.ports import Backend, Capability, ReadingTransaction, WritingTransaction

__all__ = ["TASKS", "Quiet", "Resident", "Residents"]

#: Rows of tasks kept of one execution, if its turns do not write more, and how many more before some are forgotten.
TASKS: Final = 16
_SPARE: Final = 8

#: What the row of an execution weighs at most, and that of a task, bytes; so many executions show what part of that rows do weigh.
_ROW: Final = 4 * INLINE_LIMIT + 4_000
_TASK: Final = 2 * INLINE_LIMIT + 2_500
_WEIGHED: Final = 64

#: About what a row in memory takes without its texts, and a character of these, which may be there parsed too: bytes.
_BARE: Final = 1_500
_CHARACTER: Final = 4


class Known(Protocol):
    """The input of a turn's decision."""

    workflow: Workflow

    @property
    def tasks_known(self) -> dict[str, Task | None]:
        """The last attempts at printed references."""

    def latest_known(self) -> dict[str, str]:
        """Return the reference that was scheduled last, by reference of the definition."""


class Memo(Protocol):
    """The version of the resident rows that a turn was decided on, if any.

    Also the version of the store in which a queue was known empty.
    """

    resident: bool
    version: int
    unoffered: int | None


@attrs.frozen(slots=True, eq=False, repr=False)
class Resident:
    """An execution's row, the last attempts at some printed references, and the version of both; see `Quiet.confirm`."""

    row: Workflow
    tasks: dict[str, Task | None]
    #: Which reference was scheduled last of a reference of the definition, in loops.
    latest: dict[str, str]
    version: int
    #: After how many commits, as `Quiet` counts them, it was as it is here; -1: not known.
    commits: int
    #: Bytes that it takes at most.
    weight: int


class Residents:
    """The state that one engine keeps in memory, up to a number of bytes. Thread-safe."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._held: dict[str, Resident] = {}
        #: What they weigh at most, but for what threads have done at once, and what part they do; added up when it is too much.
        self._weight, self._share = 0, 1.0
        #: Whether a new execution has the first fence there is; not in a store that has removed any.
        self._first = True

    def __bool__(self) -> bool:
        return self._budget > 0

    def take(self, workflow_id: str) -> Resident | None:
        """Have what is known of an execution, which is not kept here any more."""
        resident = self._held.pop(workflow_id, None)
        if resident is not None:
            self._weight -= resident.weight
        return resident

    def peek(self, workflow_id: str) -> Resident | None:
        """Return what is known of an execution that has not ended, and of which no turn is under way."""
        return self._held.get(workflow_id)

    def refused(self, known: Known | None) -> None:
        """Note that a turn was fenced out; that of a new execution may show that fences begin later."""
        self._first = self._first and (known is None or known.workflow.fence > 1)

    def keep(self, decision: Decision, known: Known, version: int, commits: int) -> None:
        """Keep what a committed decision has made of an execution, of what it was decided on."""
        workflow = decision.workflow
        if not self._budget or decision.renamed or workflow.status.terminal or (decision.created and not self._first):
            return
        tasks, latest = known.tasks_known, {} if decision.dropped else known.latest_known()
        for ref in decision.dropped:
            tasks.pop(ref, None)
        rows = [task for task in decision.updated if (was := tasks.get(task.ref)) is not None and was.attempt == task.attempt]
        for task in (*rows, *decision.inserted):  # of one reference in the order of attempts
            tasks.pop(task.ref, None)
            tasks[task.ref] = stored_task(task) if task.input.large or task.output.large else task
            if task.iterations and task.base_ref in latest:
                other = tasks.get(latest[task.base_ref])
                if other is None or other.seq < task.seq:
                    latest[task.base_ref] = task.ref
        for ref in latest.values():
            if ref in tasks:
                tasks[ref] = tasks.pop(ref)
        over = len(tasks) - max(TASKS, 2 * len(decision.updated))  # of a wide fork: those that it has handed out stay
        if over >= _SPARE:
            # What has been followed up is only read again; the others are written: loops around all rounds, JOINs of branches.
            done = [ref for ref, task in tasks.items() if task is None or task.executed]
            left = [ref for ref, task in tasks.items() if task is not None and not task.executed]
            for ref in (done + left)[:over]:
                del tasks[ref]
        weight = _ROW + len(tasks) * _TASK
        if workflow.workflow_id in self._held:
            self.take(workflow.workflow_id)
        self._held[workflow.workflow_id] = Resident(stored_workflow(workflow), tasks, latest, version, commits, weight)
        self._weight += weight
        if self._weight * self._share > self._budget:
            self._make_room()

    def _make_room(self) -> None:
        """Forget those whose turns were the first, if they weigh too much together; then there is room for some."""
        held = [*self._held.copy().values()]
        some, weight = held[:: len(held) // _WEIGHED or 1], sum([resident.weight for resident in held])
        try:
            self._share = sum([_weight_of(one.row, [*one.tasks.values()]) for one in some]) / sum([one.weight for one in some])
            most = self._budget / self._share
            most -= most / 8 if weight > most else 0
            while weight > most:
                weight -= self._held.pop(next(iter(self._held))).weight
        except (KeyError, RuntimeError, StopIteration, ZeroDivisionError):
            return  # another thread was first
        self._weight = weight


def _weight_of(row: Workflow, tasks: Iterable[Task | None]) -> int:
    """About how many bytes the rows of an execution take in memory."""
    texts = [row.input.text, row.output.text, row.variables.text, row.task_to_domain.text, row.reason, row.conductor_reason]
    rows = [task for task in tasks if task is not None]
    for task in rows:
        texts += (task.input.text, task.output.text, task.reason, task.conductor_reason, task.traceback)
    return _BARE * (1 + len(rows)) + _CHARACTER * sum([len(text) for text in texts if text])


#: What is known of a queue that nobody has looked at.
_NEVER: Final[tuple[int, float]] = (-1, inf)

#: Events of one inbox that are looked at before more of it is thought to come due.
_DUE: Final = 8


class Quiet:
    """The knowledge of an engine about a store beside executions: the time before which nothing is due, and empty queues.

    It holds from one of its own writes to the next one of anybody: of this process by the number of commits, of others by the
    `data_version`, which is compared in the write. What a write adds is noted before it is committed, what it takes away is not: so
    nothing is due before `due_at`, but something need not be due then. Of a store without `one commit` nothing is known, nor in a
    thread that is in a transaction of the application (`joined`), which may write whatever it likes. Thread-safe: one thread
    writes at a time, and whatever the others read says after which commit it holds.
    """

    def __init__(self, backend: Backend, owner: str, joined: Joined) -> None:
        self._backend = backend
        #: How often the store was out of touch, or which restored one it is, where only that can change rows and not their fence.
        self._lapses: Callable[[], int] | None = getattr(backend, "lapses", None)
        #: Whether no other process writes to the store: it is in memory.
        self._alone = bool(getattr(backend, "in_memory", False))
        self._restorable = hasattr(backend, "restored")
        #: Whether other engines hand out tasks of the store: then it is they who write, and they raise fences.
        self.beside = False
        self._whole = Capability.ONE_COMMIT in backend.capabilities
        self._joined = joined
        self.owner = owner
        self.due_at: float = 0
        self.version = 0
        #: After how many commits a queue was found to offer nothing before an instant, and what it has got since is offered from
        #: an instant; what was found before `_since` does not count.
        self._found: dict[str, tuple[int, float]] = {}
        self._filled: dict[str, tuple[int, float]] = {}
        #: After how many commits no event was found to be due before an instant.
        self._next_due = _NEVER
        #: After how many commits a limit was changed, which may go on with a poll of any queue, and a turn has ended an execution.
        self._limited = self._ended = 0
        self._since = 0
        #: Which execution has begun last in a write that knows no resident rows, and not ended in it, and after how many commits.
        self._begun = ("", -1)
        #: The execution that a step has ended last, as it was decided, and after how many commits; None once it had another turn.
        self.over: tuple[Workflow, int] | None = None
        #: The number of commits after which all this holds, and after the write that is under way; -1: it does not.
        self._commits = self._next = -1

    def nothing_due(self, now: int) -> bool:
        """Return True if no event is due, as far as this process knows."""
        found, at = self._next_due
        if now >= (at if found == self._commits else self.due_at):
            return False
        return self._commits == self._backend.commits() and self._joined.decisions is None

    def confirm(self, tx: WritingTransaction, workflow: Workflow, memo: Memo, now: int) -> None:
        """Note of which version what a turn was decided on is; in a write that has been entered.

        Raises FencedOut when that may be otherwise though the fence is the same.
        """
        version = self.version if self._joined.decisions is None else self._backend.data_version()
        late = memo.unoffered is not None and memo.unoffered != version and self._lapses is None
        version = self.believed(version)
        if late or (memo.resident and (memo.version != version or self.is_due(tx, workflow, now))):
            raise FencedOut(f"{workflow.workflow_id}: more may have changed since its rows were read")
        memo.version = version

    def standing(self, now: int) -> int | None:
        """Of which version rows of this owner are that need not each be compared, in a write that was entered; None: of none."""
        return None if now >= self.due_at or self._joined.decisions is not None else self.believed(self.version)

    def believed(self, version: int | None = None) -> int:
        """Of which version kept rows are that a turn may be decided on, while the store has this one, by default the present one.

        Rows of another version would be refused in its write.
        """
        if self._lapses is not None:
            return self._lapses()
        if self.beside and self._restorable:
            return -1 - self._backend.restored  # type: ignore[attr-defined,no-any-return]
        return self._backend.data_version() if version is None else version

    def next_event(self) -> tuple[int, str] | None:
        """Return the earliest time at which an event may come due; the execution is not named."""
        found, at = self._next_due
        at = at if found == self._commits else self.due_at
        return None if at == inf else (int(at), "")

    def offered_at(self, queue: str) -> float:
        """Before which instant a queue offers nothing, as far as this process knows: inf without a message, 0 when not known."""
        found, at = self._found.get(queue, _NEVER)
        if found < self._since or found < self._limited or self._joined.decisions is not None:
            return 0
        commits = self._backend.commits()
        if self._commits != commits and self._next != commits + 1:  # as `_holds`
            return 0
        filled, due = self._filled.get(queue, _NEVER)
        return at if filled <= found or at < due else due

    def offers_nothing(self, queue: str, now: int) -> bool:
        """Return True if a queue has nothing that is due, also where others write to the store."""
        return now < self.offered_at(queue) and (self._alone or self._backend.data_version() == self.version)

    def _holds(self, commits: int) -> bool:
        """Return True if all this holds after so many commits; during a write that has been entered, until it is committed."""
        return (self._commits == commits or self._next == commits + 1) and self._joined.decisions is None

    @property
    def commits(self) -> int:
        """After how many commits all this holds; -1: it does not, as in a transaction of the application."""
        return self._commits if self._joined.decisions is None else -1

    def watching(self, residents: Residents, workflow_id: str, look: Callable[[], bool]) -> Callable[[], bool]:
        """Return a function that returns True if an execution has ended, by a `look` unless it is known that it has not.

        Nobody has written but this engine, by turns: since it was kept by another one's, or since the last look by none that has
        ended an execution.
        """
        begun, after = self._begun
        seen = after if begun == workflow_id else -1

        def ended() -> bool:
            nonlocal seen
            since = seen if seen >= self._ended else -1
            if since <= self._since and (resident := residents.peek(workflow_id)) is not None:
                since = resident.commits
            if since >= 0 and self.is_same_since(since):
                return False
            seen = self.commits
            return look()

        return ended

    @property
    def written(self) -> int:
        """After how many commits the store is as it is."""
        return self._backend.commits()

    def is_same_since(self, commits: int) -> bool:
        """Return True if nobody has written since so many commits but this engine, by turns.

        What others write through a connection of their own is not counted: it may have come after `_since` commits of this one.
        """
        return commits > self._since and self.is_unchanged()

    def is_unchanged(self) -> bool:
        """Return True if all this holds of the store as it is, also where others write to it."""
        return self._holds(self._backend.commits()) and (self._alone or self._backend.data_version() == self.version)

    def is_idle(self, now: int) -> bool:
        """Return True if no event is due, also where others write to the store."""
        found, at = self._next_due
        if now >= (at if found == self._commits else self.due_at) or self._joined.decisions is not None:
            return False
        return self._commits == self._backend.commits() and (self._alone or self._backend.data_version() == self.version)

    def is_due(self, tx: WritingTransaction, workflow: Workflow, now: int) -> bool:
        """Return True if an event has come due to an execution of any owner; in a write that has been entered."""
        if now < self.due_at and workflow.owner == self.owner and self._joined.decisions is None:
            return False
        return bool(tx.inbox.due_events(workflow.workflow_id, now, 1))

    def first_offered(self, view: ReadingTransaction, commits: int, queue: str, now: int, limit: int) -> Sequence[Message] | None:
        """See `StoreReader.first_offered`; `commits` were made before the view."""
        if view.limits.unpolled(queue):
            return None
        found = view.queue.offered(queue, now, limit)
        if not found:
            self.found_nothing(queue, commits, view.queue.next_message_at((queue,)))
        return found

    def look_offered(self, queue: str, now: int, limit: int) -> Sequence[Message] | None:
        """Look for offered messages in a view of its own: what is offered is nobody's row, so no fence is compared."""
        commits = self._backend.commits()
        with self._backend.reading() as view:
            return self.first_offered(view, commits, queue, now, limit)

    def found_nothing(self, queue: str, commits: int, at: int | None) -> None:
        """Note that a view found the first message of a queue due at an instant, or none; `commits` were made before it.

        A view of before others have written may be over after that was seen, by a write that has been entered since.
        """
        if commits == self._backend.commits() and self._holds(commits) and (self._alone or commits > self._since):
            self._found[queue] = (commits, inf if at is None else at)

    def has_none_due(self, workflow: Workflow, now: int) -> bool:
        """Return True if an execution has no event that is due, in a view of a store that nobody else writes to meanwhile."""
        return now < self.due_at and workflow.owner == self.owner and self._holds(self._backend.commits())

    def found_next(self, commits: int, at: int | None) -> None:
        """Note that a view found the next event due at an instant, or none; `commits` were made before it."""
        if self._joined.decisions is None:
            self._next_due = (commits, inf if at is None else at)

    def alone_until(
        self, view: ReadingTransaction, workflow: Workflow, at: int, queue: str, queues: Collection[str]
    ) -> Sequence[str] | None:
        """An execution's events that come due until an instant; None when anything else of its owner comes due in the store.

        That is a message of one of the `queues`, another execution's event, or a limit that a poll of the `queue` has go on.
        """
        message = view.queue.next_message_at(tuple(queues))
        if (message is not None and message <= at) or view.limits.unpolled(queue) or view.outbox.items(1):
            return None
        if at < self.due_at:
            return ()
        due: list[str] = []
        for event in view.inbox.upcoming_events(_DUE, workflow.owner):
            if event.due_at > at:
                return due
            if event.workflow_id != workflow.workflow_id:
                return None
            due.append(event.event_id)
        return due if len(due) < _DUE else None

    def look_alone(self, workflow: Workflow, at: int, queue: str, queues: Collection[str]) -> Sequence[str] | None:
        """Look in a view of its own for what is due."""
        with self._backend.reading() as view:
            return self.alone_until(view, workflow, at, queue, queues)

    def ended(self, workflow_id: str) -> Workflow | None:
        """The row of an execution that has ended, where it is known and nobody else has written since."""
        row, commits = self.over or (None, -1)
        known = row is not None and row.workflow_id == workflow_id and self.is_same_since(commits)
        return stored_workflow(row) if known and row is not None else None

    def enter(self, tx: WritingTransaction, now: int) -> int:
        """Compare, at the beginning of a write, and ask again if need be; the number of its commit, for `committed`."""
        commits, version = self._backend.commits(), 0 if self._alone else self._backend.data_version()
        if self._joined.decisions is not None:
            return -1
        if not self._alone:
            tx.decisions.defer()
        if (self._commits, self.version) != (commits, version):
            self._found.clear()
            self._since = commits
            self.due_at = 0
            self._next_due = _NEVER
        self.version, self._commits, self._next = version, -1, commits + 1
        if now >= self.due_at:
            found, self.due_at = self._next_due
            if found != commits:
                at = tx.inbox.next_event_at(self.owner)
                self.due_at = inf if at is None else at
        return commits + 1

    def write(self, decision: Decision) -> None:
        """Note what a decision adds."""
        over = self.over
        if over is not None and over[0].workflow_id == decision.workflow.workflow_id:
            self.over = None
        if self._joined.decisions is not None:
            return
        outgoing = decision.outgoing
        if decision.release_held:
            self.due_at = 0
        for event in (*decision.timers, *outgoing.posted):
            if event.due_at < self.due_at:
                self.due_at = event.due_at
        if decision.limits:
            self._limited = self._next
        if decision.workflow.status.terminal:
            self._ended = self._next
        for message in outgoing.put:
            due: float = message.due_at
            if due <= decision.workflow.updated_at:
                due = 0
            elif (before := self._filled.get(message.queue, _NEVER))[0] > self._found.get(message.queue, _NEVER)[0]:
                due = min(due, before[1])
            self._filled[message.queue] = (self._next, due)

    def forget(self, write: object = None) -> None:
        """The write under way adds what is not known; one that hands out tasks puts nothing into an inbox or a queue."""
        if not isinstance(write, Taking):
            self._next = -1

    def committed(self, number: int, taking: Taking | None = None, begun: str = "") -> None:
        """A write that has changed something is committed; `taking`, of a turn that was decided in it, knows what comes next.

        `begun` is an execution that has begun in it, and goes on.
        """
        if number == self._next > 0 and self._whole:
            if begun:
                self._begun = (begun, number)
            if taking is not None and taking.at is not None:
                self._next_due = (number, taking.at + 1)
            self._commits = number
