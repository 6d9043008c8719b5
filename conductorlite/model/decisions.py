"""Input and output of `decide()`: Events in, a Decision out.

Whatever happens to a workflow is an `Event`, posted to its inbox; a timer is an event dated in the future. A `Decision` is rows
grouped by where they go, so that every backend's `apply` is short and the same. What `decide` reads in between it asks a `Reader`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import attrs

from conductorlite.model.canonical import EMPTY, ExternalPayload, Payload
from conductorlite.model.executions import HistoryEvent, Task, TaskLog, Workflow
from conductorlite.model.limits import LimitChange

if TYPE_CHECKING:
    from conductorlite.model.mailbox import WorkflowMessage
    from conductorlite.model.streams import Emission, LatestValue

__all__ = [
    "ADDRESS",
    "DEADLINES",
    "FIELDS",
    "TIMERS",
    "Decision",
    "Embedding",
    "Event",
    "EventKind",
    "Message",
    "MessageKey",
    "Outcome",
    "Outgoing",
    "Renamed",
    "Reply",
    "address_of",
    "name_at",
    "queue_name",
    "queue_prefix",
    "version_domain",
    "version_of",
]


#: What the address of a schedule's inbox begins with; no execution's id does.
ADDRESS: Final = "schedule:"


def address_of(name: str) -> str:
    """The inbox of a schedule."""
    return ADDRESS + name


def name_at(address: str) -> str | None:
    """The schedule whose inbox is at an address; None for an execution's."""
    return address[len(ADDRESS) :] if address.startswith(ADDRESS) else None


class EventKind(StrEnum):
    """Kind of an event that can happen to a workflow."""

    START = "START"
    PAUSE = "PAUSE"
    RESUME = "RESUME"
    TERMINATE = "TERMINATE"
    # another call of a debounced start: never stored, answered at once or not at all
    DEBOUNCE = "DEBOUNCE"
    RETRY = "RETRY"
    RESTART = "RESTART"
    RERUN = "RERUN"
    # the first of an execution that begins as a copy of another one
    FORK = "FORK"
    SKIP = "SKIP"
    VARIABLES = "VARIABLES"
    APPEND = "APPEND"
    MIGRATE = "MIGRATE"
    SEND = "SEND"
    SET_VALUE = "SET_VALUE"
    POLL = "POLL"
    REPORT = "REPORT"
    EXTEND_LEASE = "EXTEND_LEASE"
    GIVE_BACK = "GIVE_BACK"
    # the process that holds an attempt did not run; the clock was set
    SUSPENDED = "SUSPENDED"
    CLOCK_SET = "CLOCK_SET"
    WAIT_ENDS = "WAIT_ENDS"
    POLL_TIMEOUT = "POLL_TIMEOUT"
    RESPONSE_TIMEOUT = "RESPONSE_TIMEOUT"
    TASK_TIMEOUT = "TASK_TIMEOUT"
    TOTAL_TIMEOUT = "TOTAL_TIMEOUT"
    WORKFLOW_TIMEOUT = "WORKFLOW_TIMEOUT"
    # limits: a delay is over, a slot was given, no worker has taken what was offered, a window has moved
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
    """One event in a workflow's inbox. `event_id` is unique in that inbox; a second event with the same id replaces the first.

    Events are read in the order (due_at, posted_at, sender, sender_seq). `attempt` and `generation` name the task attempt it
    is about; when they no longer match, the event is void. A `held` event waits for the workflow to be resumed.
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
    #: Whose it is while its execution has not begun; then, as the store keeps it, the execution's owner. Empty: any engine's.
    owner: str = ""
    #: Whether it is in the store, or will be (and has to be deleted when read), or was handed to the turn directly.
    stored: bool = False

    @property
    def order(self) -> tuple[int, int, str, int]:
        """Sort key of an inbox."""
        return (self.due_at, self.posted_at, self.sender, self.sender_seq)


#: A message is known by the workflow and the printed reference: a reference has at most one live attempt.
MessageKey = tuple[str, str]


def queue_prefix(owner: str) -> str:
    """Return the prefix of the names of an engine's own queues; the empty text for those of all engines."""
    return f"@{owner}/" if owner else ""


def queue_name(task_type: str, domain: str | None = None, owner: str = "") -> str:
    """The queue of a task type: `[@owner/][domain:]type`."""
    if domain:
        task_type = f"{domain}:{task_type}"
    return queue_prefix(owner) + task_type if owner else task_type


_VERSION: Final = "version-"


def version_domain(version: str) -> str:
    """The domain of the workers of a version, to which the tasks go of executions that were started on it."""
    return _VERSION + version


def version_of(domain: str | None) -> str | None:
    """The version of workers that a domain stands for; None for another domain."""
    return domain.removeprefix(_VERSION) if domain and domain.startswith(_VERSION) else None


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
    """Result for a definition made at run time: its hash and the texts to keep with it, or why it cannot be used."""

    digest: str | None = None
    texts: Mapping[str, str] = attrs.field(factory=dict)
    problem: str = ""


#: Fields of a task that hold a deadline, and the timers that go with them.
DEADLINES: Final[Mapping[str, EventKind]] = {
    "total_timeout_at": EventKind.TOTAL_TIMEOUT,
    "timeout_at": EventKind.TASK_TIMEOUT,
    "poll_timeout_at": EventKind.POLL_TIMEOUT,
    "response_timeout_at": EventKind.RESPONSE_TIMEOUT,
}
#: The same with the instant that a WAIT waits for, which is not given up when it ends.
TIMERS: Final[Mapping[str, EventKind]] = {**DEADLINES, "wait_until": EventKind.WAIT_ENDS}
#: The field of a task that each of these timers goes with.
FIELDS: Final[Mapping[EventKind, str]] = {kind: name for name, kind in TIMERS.items()}

#: What came of an act on a limit, as the journal records it: which act, whether who asked has a slot (1, 0), and the references of
#: the same execution that were let in by it (the empty text: the execution itself).
Admission = tuple[str, int, *tuple[str, ...]]


class Outcome(StrEnum):
    """Result of an event."""

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
    #: The execution has ended, and takes no message or value; nothing changed.
    ENDED = "ENDED"
    #: The mailbox of the execution is full; nothing changed.
    FULL = "FULL"


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
    #: Events to other workflows' inboxes.
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
    #: Payloads set by this turn that are in the payload storage, and not among `texts`.
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
    #: Lines for the logs of its tasks, whose scripts have printed them.
    printed: tuple[TaskLog, ...] = ()
    #: Messages to the execution, new ones and those that are changed, by their numbers.
    messages: tuple[WorkflowMessage, ...] = ()
    #: What calls have emitted, and what has become of what they had emitted before: one for each call; and latest values.
    emissions: tuple[Emission, ...] = ()
    values: tuple[LatestValue, ...] = ()

    @property
    def empty(self) -> bool:
        """True if there is nothing to commit."""
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
            or self.messages
            or self.emissions
            or self.values
        )
