"""What enters and leaves `decide()`: Event and Snapshot in; Need or Decision out.

Whatever happens to a workflow is an `Event`, posted to its inbox; a timer is an event dated in the future. A `Snapshot` is the
little of an execution that was loaded. Absent is not None: `snapshot.task(ref)` returns a row, or None for *known never
scheduled*, or raises `NotLoaded`, which `decide` turns into a `Need` to return. A `Decision` is rows grouped by where they
go, so that every backend's `apply` is short and the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.canonical import EMPTY, ExternalPayload, Payload
from conductorlite.executions import HistoryEvent, Task, Workflow
from conductorlite.limits import LimitChange, Line, Member

if TYPE_CHECKING:
    from conductorlite.plan import Plan

__all__ = [
    "DEADLINES",
    "NOTHING",
    "TIMERS",
    "Decision",
    "DefinitionKey",
    "Embedding",
    "Event",
    "EventKind",
    "Message",
    "MessageKey",
    "Need",
    "NotLoaded",
    "Outcome",
    "Outgoing",
    "Renamed",
    "Reply",
    "Snapshot",
    "queue_name",
    "queue_prefix",
]


class EventKind(StrEnum):
    """What can happen to a workflow."""

    START = "START"
    PAUSE = "PAUSE"
    RESUME = "RESUME"
    TERMINATE = "TERMINATE"
    RETRY = "RETRY"
    RESTART = "RESTART"
    RERUN = "RERUN"
    SKIP = "SKIP"
    VARIABLES = "VARIABLES"
    APPEND = "APPEND"
    MIGRATE = "MIGRATE"
    POLL = "POLL"
    REPORT = "REPORT"
    EXTEND_LEASE = "EXTEND_LEASE"
    GIVE_BACK = "GIVE_BACK"
    WAIT_ENDS = "WAIT_ENDS"
    POLL_TIMEOUT = "POLL_TIMEOUT"
    RESPONSE_TIMEOUT = "RESPONSE_TIMEOUT"
    TASK_TIMEOUT = "TASK_TIMEOUT"
    TOTAL_TIMEOUT = "TOTAL_TIMEOUT"
    WORKFLOW_TIMEOUT = "WORKFLOW_TIMEOUT"
    # limits: a delay is over, a slot was given, nobody has taken what was offered, a window has moved
    ADMISSION = "ADMISSION"
    GRANTED = "GRANTED"
    OFFER_ENDS = "OFFER_ENDS"
    WINDOW_MOVES = "WINDOW_MOVES"
    CHILD_ENDED = "CHILD_ENDED"
    STARTED = "STARTED"
    CHILD_REOPENED = "CHILD_REOPENED"
    # a schedule: its timer, and the end of what it waits for; read by the schedule, never by the decider
    SCHEDULE = "SCHEDULE"
    CONTINUE = "CONTINUE"


@attrs.frozen(kw_only=True, slots=True)
class Event:
    """One letter in a workflow's inbox. `event_id` is unique in that inbox; a second letter with the same id replaces the first.

    Letters are read in the order (due_at, posted_at, sender, sender_seq). `attempt` and `generation` name the task attempt it
    is about; when they no longer match, the letter is void. A `held` letter waits for the workflow to be resumed.
    """

    workflow_id: str
    event_id: str
    kind: EventKind
    due_at: int
    posted_at: int
    sender: str = ""
    sender_seq: int = 0
    ref: str | None = None
    attempt: int = 0
    generation: int = 0
    data: Payload = EMPTY
    held: bool = False
    #: Whose it is while its execution has not begun; then, as the store keeps it, whoever owns the execution. Empty: anybody's.
    owner: str = ""
    #: Whether it lies in the store (and has to be deleted when read), or was handed to the turn directly.
    stored: bool = False

    @property
    def order(self) -> tuple[int, int, str, int]:
        """Sort key of an inbox."""
        return (self.due_at, self.posted_at, self.sender, self.sender_seq)


#: A registered workflow definition: its name, and its version or None for the highest.
DefinitionKey = tuple[str, int | None]

#: A message is known by the workflow and the printed reference: a reference has at most one live attempt.
MessageKey = tuple[str, str]


def queue_prefix(owner: str) -> str:
    """What the names of an engine's own queues begin with; of those for all engines nothing."""
    return f"@{owner}/" if owner else ""


def queue_name(task_type: str, domain: str | None = None, owner: str = "") -> str:
    """The queue of a task type: `[@owner/][domain:]type`."""
    return queue_prefix(owner) + (f"{domain}:{task_type}" if domain else task_type)


@attrs.frozen(kw_only=True, slots=True)
class Message:
    """One task offered to workers in `queue` (see `queue_name`) from `due_at` on; a higher priority (0–99) goes first."""

    queue: str
    workflow_id: str
    ref: str
    attempt: int
    generation: int
    task_id: str
    due_at: int
    priority: int = 0

    @property
    def key(self) -> MessageKey:
        """Identity in the queue."""
        return (self.workflow_id, self.ref)


@attrs.frozen(kw_only=True, slots=True)
class Embedding:
    """What became of a definition made at run time: its hash and the texts to keep with it, or why it cannot be used."""

    digest: str | None = None
    texts: Mapping[str, str] = attrs.field(factory=dict)
    problem: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Need:
    """What a decision must see before it can be taken. Empty means nothing more."""

    #: Printed references: their last attempt.
    refs: frozenset[str] = frozenset()
    #: Ids of attempts: under which reference they are.
    ids: frozenset[str] = frozenset()
    #: Definition references inside loops: the row scheduled last, of any round.
    latest_of: frozenset[str] = frozenset()
    #: Every live row.
    live: bool = False
    #: Every row that ended in failure.
    failed: bool = False
    #: Every last attempt there is.
    everything: bool = False
    #: Hashes of payloads.
    payloads: frozenset[str] = frozenset()
    #: Registered workflow definitions by name and version (None: the highest).
    definitions: frozenset[DefinitionKey] = frozenset()
    #: Task types: when workers last polled for them, by domain.
    polls: frozenset[str] = frozenset()
    #: Definitions made at run time that a task runs on: the hashes in its `grafts`.
    grafts: frozenset[tuple[str, ...]] = frozenset()
    #: Definitions (WorkflowDef, or JSON that may be one) that are to be embedded, by a name of the turn's own.
    embeds: Mapping[str, object] = attrs.field(factory=dict)
    #: Hashes of embedded definitions: their compiled plans.
    plans: frozenset[str] = frozenset()
    #: Every letter in the inbox, held and future ones too.
    inbox: bool = False
    #: Limits by key: with how many heads of their lines.
    limits: Mapping[str, int] = attrs.field(factory=dict)
    #: Members of limits: (key, holder).
    members: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(cls, needs: Sequence[Need]) -> Need:
        """All that any of them needs."""
        sets: dict[str, Any] = {name: frozenset().union(*(getattr(need, name) for need in needs)) for name in _SETS}
        return cls(
            **sets,
            live=any(need.live for need in needs),
            failed=any(need.failed for need in needs),
            everything=any(need.everything for need in needs),
            embeds={name: definition for need in needs for name, definition in need.embeds.items()},
            inbox=any(need.inbox for need in needs),
            limits={key: max(need.limits.get(key, 0) for need in needs) for key in {key for need in needs for key in need.limits}},
        )

    def __or__(self, other: Need) -> Need:
        return Need.of((self, other))

    def __bool__(self) -> bool:
        return self != NOTHING


_SETS: Final = ("refs", "ids", "latest_of", "payloads", "definitions", "polls", "grafts", "plans", "members")
NOTHING: Final = Need()

#: Fields of a task that hold a deadline, and the timers that go with them.
DEADLINES: Final[Mapping[str, EventKind]] = {
    "total_timeout_at": EventKind.TOTAL_TIMEOUT,
    "timeout_at": EventKind.TASK_TIMEOUT,
    "poll_timeout_at": EventKind.POLL_TIMEOUT,
    "response_timeout_at": EventKind.RESPONSE_TIMEOUT,
}
#: The same with the instant that a WAIT waits for, which is not given up when it ends.
TIMERS: Final[Mapping[str, EventKind]] = {**DEADLINES, "wait_until": EventKind.WAIT_ENDS}

#: Heads of a line that are loaded at first.
_HEADS: Final = 4

#: What came of an act on a limit, as the journal tells it: which act, whether who asked has a slot (1, 0), and the references of
#: the same execution that were let in by it (the empty text: the execution itself).
Admission = tuple[str, int, *tuple[str, ...]]


class NotLoaded(Exception):
    """Raised by a snapshot that was asked for what it does not hold; never leaves `decide`."""

    def __init__(self, need: Need) -> None:
        self.need = need
        super().__init__(need)


def _scheduling(task: Task) -> tuple[int, str]:
    return (task.seq, task.ref)  # those that were skipped ahead have no place of their own yet


@attrs.frozen(kw_only=True, slots=True)
class Snapshot:
    """The part of an execution that a turn has loaded. Only last attempts are held."""

    workflow: Workflow
    events: tuple[Event, ...] = ()
    tasks: Mapping[str, Task | None] = attrs.field(factory=dict)
    #: References by the ids of attempts.
    ids: Mapping[str, str | None] = attrs.field(factory=dict)
    latest: Mapping[str, Task | None] = attrs.field(factory=dict)
    payloads: Mapping[str, Payload] = attrs.field(factory=dict)
    #: Why documents that lie in the payload storage cannot be had, by their hashes.
    lost: Mapping[str, str] = attrs.field(factory=dict)
    #: Hashes of the embedded forms; None when nothing is registered under that name.
    definitions: Mapping[DefinitionKey, str | None] = attrs.field(factory=dict)
    #: By task type: the instant of the last poll in each domain, epoch ms.
    polls: Mapping[str, Mapping[str, int]] = attrs.field(factory=dict)
    #: What became of definitions made at run time.
    embedded: Mapping[str, Embedding] = attrs.field(factory=dict)
    #: Compiled plans by the hash of their embedded definition.
    plans: Mapping[str, Plan] = attrs.field(factory=dict)
    #: The whole inbox; None when it was not loaded.
    inbox: tuple[Event, ...] | None = None
    lines: Mapping[str, Line] = attrs.field(factory=dict)
    members: Mapping[tuple[str, str], Member | None] = attrs.field(factory=dict)
    #: How much driven time is left of default deadlines that are due, ms, by the id of the event; others count by the clock.
    left: Mapping[str, int] = attrs.field(factory=dict)
    #: When a record is lived again: what limits answered in this turn, save where nothing came of it; what scripts were cut.
    admissions: tuple[Admission, ...] | None = None
    cut: tuple[tuple[str, bool, str], ...] | None = None
    live_loaded: bool = False
    failed_loaded: bool = False
    everything_loaded: bool = False

    def holds(self, ref: str) -> bool:
        """Whether it is known what the last attempt at a printed reference is."""
        return ref in self.tasks or self.everything_loaded

    def task(self, ref: str) -> Task | None:
        """The last attempt at a printed reference; None when it was never scheduled; raises NotLoaded."""
        try:
            return self.tasks[ref]
        except KeyError:
            if self.everything_loaded:
                return None
            raise NotLoaded(Need(refs=frozenset({ref}))) from None

    def ref_of(self, task_id: str) -> str | None:
        """The printed reference under which an attempt is now; None when it is no more; raises NotLoaded."""
        if self.everything_loaded:
            return next((ref for ref, task in self.tasks.items() if task is not None and task.task_id == task_id), None)
        try:
            return self.ids[task_id]
        except KeyError:
            raise NotLoaded(Need(ids=frozenset({task_id}))) from None

    def latest_of(self, base_ref: str) -> Task | None:
        """The row of a definition reference that was scheduled last, of any round; raises NotLoaded."""
        if self.everything_loaded:
            rows = [task for task in self.tasks.values() if task is not None and task.base_ref == base_ref]
            return max(rows, key=lambda task: task.seq, default=None)
        try:
            return self.latest[base_ref]
        except KeyError:
            raise NotLoaded(Need(latest_of=frozenset({base_ref}))) from None

    def payload(self, payload: Payload) -> Payload:
        """The payload with its text; raises NotLoaded."""
        if payload.text is not None:
            return payload
        try:
            return self.payloads[payload.digest]
        except KeyError:
            raise NotLoaded(Need(payloads=frozenset({payload.digest}))) from None

    def definition(self, name: str, version: int | None) -> str | None:
        """Hash of a registered definition as executions keep it; None when there is none; raises NotLoaded."""
        try:
            return self.definitions[(name, version)]
        except KeyError:
            raise NotLoaded(Need(definitions=frozenset({(name, version)}))) from None

    def polls_of(self, task_type: str) -> Mapping[str, int]:
        """The instant of the last poll for a task type in each domain that was ever polled; raises NotLoaded."""
        try:
            return self.polls[task_type]
        except KeyError:
            raise NotLoaded(Need(polls=frozenset({task_type}))) from None

    def embedding(self, name: str, definition: object) -> Embedding:
        """What became of a definition made at run time, known under a name of the turn's own; raises NotLoaded."""
        try:
            return self.embedded[name]
        except KeyError:
            raise NotLoaded(Need(embeds={name: definition})) from None

    def plan_of(self, digest: str) -> Plan:
        """The compiled plan of an embedded definition; raises NotLoaded."""
        try:
            return self.plans[digest]
        except KeyError:
            raise NotLoaded(Need(plans=frozenset({digest}))) from None

    def letters(self) -> tuple[Event, ...]:
        """Every letter in the inbox, in inbox order; raises NotLoaded."""
        if self.inbox is None:
            raise NotLoaded(Need(inbox=True))
        return self.inbox

    def line(self, key: str) -> Line:
        """A limit with the heads of its line; raises NotLoaded."""
        try:
            return self.lines[key]
        except KeyError:
            raise NotLoaded(Need(limits={key: _HEADS})) from None

    def member(self, key: str, holder: str) -> Member | None:
        """A member of a limit, or None; raises NotLoaded."""
        try:
            return self.members[(key, holder)]
        except KeyError:
            raise NotLoaded(Need(members=frozenset({(key, holder)}))) from None

    def all_live(self) -> list[Task]:
        """Every live row, in order of scheduling; raises NotLoaded."""
        if not (self.live_loaded or self.everything_loaded):
            raise NotLoaded(Need(live=True))
        rows = [task for task in self.tasks.values() if task is not None and task.live]
        return sorted(rows, key=_scheduling)

    def all_failed(self) -> list[Task]:
        """Every row that ended in failure, in order of scheduling; raises NotLoaded."""
        if not (self.failed_loaded or self.everything_loaded):
            raise NotLoaded(Need(failed=True))
        rows = [task for task in self.tasks.values() if task is not None and task.failed]
        return sorted(rows, key=_scheduling)

    def everything(self) -> list[Task]:
        """Every last attempt, in order of scheduling; raises NotLoaded."""
        if not self.everything_loaded:
            raise NotLoaded(Need(everything=True))
        return sorted((task for task in self.tasks.values() if task is not None), key=_scheduling)


class Outcome(StrEnum):
    """What became of an event."""

    DONE = "DONE"
    #: It came too late or twice; nothing changed.
    IGNORED = "IGNORED"
    #: A limit on executions has no slot for it, and it is not to wait; nothing changed.
    REJECTED = "REJECTED"
    #: It asked for a task that is handed out alone, and is not alone; nothing changed.
    ALONE = "ALONE"
    #: It carried an old lease; nothing changed.
    STALE = "STALE"
    #: The verb does not fit the status; nothing changed.
    CONFLICT = "CONFLICT"
    #: The verb names a task that is not there; nothing changed.
    MISSING = "MISSING"


@attrs.frozen(kw_only=True, slots=True)
class Reply:
    """The answer to one event: what became of it, and why in words where it was refused."""

    outcome: Outcome
    message: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Outgoing:
    """The part of a decision that is addressed elsewhere. Backends with one commit write it with the rest; others relay it.

    Within one decision the removals come before the messages put.
    """

    removed: tuple[MessageKey, ...] = ()
    put: tuple[Message, ...] = ()
    #: Letters to other workflows' inboxes.
    posted: tuple[Event, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.removed or self.put or self.posted)


@attrs.frozen(kw_only=True, slots=True)
class Renamed:
    """Every attempt at the printed reference `ref` is called `new_ref` from now on, and is of the node `new_base_ref`."""

    ref: str
    new_ref: str
    new_base_ref: str


@attrs.frozen(kw_only=True, slots=True)
class Decision:
    """Everything one turn changes, grouped by where it goes.

    `workflow` is the new row (its `fence` is the one that was read; the backend raises it). `created` says that the row is
    new; its idempotency key, if it has one, is claimed with it, from the execution `replaces` if that is given. `consumed`
    are ids of stored events that were read; `timers` replace events of the same id in the own inbox; `cancelled` are ids to
    delete there; `release_held` lets every held event of the inbox go, due `released_at` or at its own later instant.
    `texts` are the large payloads set by this turn, `definitions` those it made, by hash. `replies` answer events by id and
    are not stored.
    """

    workflow: Workflow
    created: bool = False
    #: The execution that gives up the idempotency key to this one.
    replaces: str | None = None
    inserted: tuple[Task, ...] = ()
    updated: tuple[Task, ...] = ()
    #: Printed references of which every attempt is deleted, before rows are inserted: rounds a loop keeps no longer, what is
    #: run again.
    dropped: tuple[str, ...] = ()
    #: After the other changes of rows, which name them as they were. No new name is one that is there.
    renamed: tuple[Renamed, ...] = ()
    texts: tuple[Payload, ...] = ()
    #: Payloads set by this turn that lie in the payload storage, and not among `texts`.
    externals: tuple[ExternalPayload, ...] = ()
    definitions: Mapping[str, str] = attrs.field(factory=dict)
    history: tuple[HistoryEvent, ...] = ()
    consumed: tuple[str, ...] = ()
    cancelled: tuple[str, ...] = ()
    timers: tuple[Event, ...] = ()
    release_held: bool = False
    released_at: int = 0
    outgoing: Outgoing = attrs.field(factory=Outgoing)
    #: The turn was cut: at its limits, where a CONTINUE event in `timers` carries the rest, or before a migration.
    more: bool = False
    replies: Mapping[str, Reply] = attrs.field(factory=dict)
    #: Each under the fence that was read: raises FencedOut like the workflow's own.
    limits: tuple[LimitChange, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not (
            self.created
            or self.inserted
            or self.updated
            or self.dropped
            or self.renamed
            or self.history
            or self.consumed
            or self.cancelled
            or self.timers
            or self.release_held
            or self.outgoing
            or self.limits
        )
