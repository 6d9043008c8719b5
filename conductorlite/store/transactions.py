"""What is asked of a store: one protocol for each noun, read and written; a transaction hands them out.

A view hands out what reads (`…Reads`), a change what writes too (`…DAO`), so that one commit holds what belongs together. Who
brings one part of their own implements one noun.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from conductorlite.model.canonical import ExternalPayload, Payload
from conductorlite.model.decisions import Decision, Event, Message, MessageKey
from conductorlite.model.executions import HistoryEvent, PollData, Task, TaskLog, Workflow
from conductorlite.model.limits import Limit, LimitChange, Line, Member
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.store.tables import (
    Archived,
    Change,
    EventPlace,
    ExecutionFilter,
    Feed,
    FeedKind,
    HolderRow,
    OrphanPayload,
    OwnerRow,
    RelayItem,
    ScheduleRow,
    Sizes,
)

if TYPE_CHECKING:
    from conductorlite.model.handlers import EventExecution
    from conductorlite.model.mailbox import WorkflowMessage
    from conductorlite.model.streams import Emission, LatestValue
    from conductorlite.store.documents import Document
    from conductorlite.store.search import Asked, SearchResult, TaskSummary, WorkflowSummary

__all__ = [
    "ArchiveDAO",
    "ArchiveReads",
    "DecisionDAO",
    "DocumentWrites",
    "EventHandlerDAO",
    "EventHandlerReads",
    "ExecutionDAO",
    "ExecutionReads",
    "FeedDAO",
    "FeedReads",
    "HistoryDAO",
    "HistoryReads",
    "InboxDAO",
    "InboxReads",
    "IndexReads",
    "LimitDAO",
    "LimitReads",
    "Mailbox",
    "MetadataDAO",
    "MetadataReads",
    "OutboxDAO",
    "OutboxReads",
    "OwnIndex",
    "OwnerDAO",
    "OwnerReads",
    "PayloadDAO",
    "PayloadReads",
    "PollDataDAO",
    "PollDataReads",
    "QueueDAO",
    "QueueReads",
    "ReadingTransaction",
    "ScheduleDAO",
    "ScheduleReads",
    "StreamDAO",
    "StreamReads",
    "TaskHolderDAO",
    "TaskHolderReads",
    "WritingTransaction",
]


class IndexReads(Protocol):
    """An index as it is searched.

    It answers as `conductorlite.store.search.answer` does: what that finds among the documents that were put is the right answer.
    """

    def workflows(self, asked: Asked) -> SearchResult[WorkflowSummary]:
        """The executions that answer a search; raises StorageErrors."""

    def tasks(self, asked: Asked) -> SearchResult[TaskSummary]:
        """The attempts that answer a search; raises StorageErrors."""

    def known(self, after: str, limit: int) -> Sequence[str]:
        """Ids greater than `after` of up to `limit` executions of which anything is known, ascending; raises StorageErrors."""

    def documents(self, workflow_id: str) -> Sequence[Document]:
        """All that is known of an execution, as it was put, in any order; raises StorageErrors.

        Each value once, in any order.
        """


class DocumentWrites(Protocol):
    """The changes to the documents of an index."""

    def put(self, documents: Sequence[Document]) -> None:
        """Index executions and attempts, in the place of what was known of them."""

    def remove(self, workflow_ids: Sequence[str]) -> None:
        """Forget executions with all their attempts."""


class OwnIndex(IndexReads, DocumentWrites, Protocol):
    """The index in a store's own file, from the beginning of its feed to the end; changed in writing transactions only."""

    @property
    def form(self) -> str:
        """Of which form it is; the reader of its feed: one of another form is begun again."""


class Mailbox(Protocol):
    """The messages to one execution as a view sees them. Decisions write them; they go with the execution."""

    def message(self, topic: str, key: str) -> WorkflowMessage | None:
        """The message of a topic with that key, or None."""

    def unreceived(self, topic: str, limit: int) -> Sequence[WorkflowMessage]:
        """The first messages of a topic that no task has received, in order of their numbers."""

    def messages(self, after: int, limit: int) -> Sequence[WorkflowMessage]:
        """A page of all messages, in order of their numbers, which are greater than `after`."""


class ExecutionReads(Protocol):
    """Rows of executions and of their attempts.

    Large payloads come back *absent* (hash only) unless asked for by `payloads`.
    """

    def workflow(self, workflow_id: str) -> Workflow | None:
        """The row of an execution, or None."""

    def tasks(self, workflow_id: str, refs: Collection[str]) -> Mapping[str, Task | None]:
        """The last attempts at printed references; None for those that do not exist."""

    def latest(self, workflow_id: str, base_refs: Collection[str]) -> Mapping[str, Task | None]:
        """The rows of definition references that were scheduled last, of any round; None for those that do not exist."""

    def live(self, workflow_id: str) -> Sequence[Task]:
        """Every live last attempt."""

    def failed(self, workflow_id: str) -> Sequence[Task]:
        """Every last attempt that ended in failure."""

    def last_attempts(self, workflow_id: str) -> Sequence[Task]:
        """Every last attempt."""

    def attempts(self, workflow_id: str) -> Sequence[Task]:
        """Every attempt of an execution, in order of scheduling, then attempt."""

    def attempts_since(self, workflow_id: str, fence: int) -> Sequence[Task]:
        """The attempts that turns have changed which were committed after that fence, in any order."""

    def task_by_id(self, task_id: str) -> Task | None:
        """The attempt with that id, of any execution, or None."""

    def held_by(self, holder: str) -> Sequence[Task]:
        """The attempts a holder has, in order of execution, reference and attempt."""

    def payloads(self, workflow_id: str, digests: Collection[str]) -> Mapping[str, Payload]:
        """Large payloads of an execution with their texts, by their hashes; those that are not in the store are left out."""

    def mailbox(self, workflow_id: str) -> Mailbox:
        """The messages to an execution."""

    def workflow_ids(self, status: WorkflowStatus | None, after: str, limit: int) -> Sequence[str]:
        """A page of workflow ids in ascending order, greater than `after`, of one status, which may look at all of them, or all."""

    def page(self, wanted: ExecutionFilter, after: tuple[int, str] | None, limit: int) -> Sequence[Workflow]:
        """A page of executions, newest first: descending (created_at, workflow_id), less than `after` if that is given."""

    def key_holder(self, name: str, key: str) -> str | None:
        """Id of the execution that holds an idempotency key of a workflow name, or None."""


class ExecutionDAO(ExecutionReads, Protocol):
    """The reads, and the changes to an execution that no decision makes."""

    def park(self, workflow_id: str, broken_turns: int, reason: str | None) -> None:
        """Record that turns of a workflow broke an invariant; with a reason, hold its whole inbox, and raise its fence by one."""

    def release(self, workflow_id: str, now: int) -> None:
        """Let every held event of an inbox go, due `now` or at its own later instant, and forget that turns were broken."""

    def remove(self, workflow_id: str) -> None:
        """Delete an execution with all that belongs to it, its idempotency key included.

        One that comes back under its id has a higher fence than any there was.
        """


class DecisionDAO(Protocol):
    """The way to store decisions: rows of executions, attempts and messages change in no other way."""

    def apply(self, decision: Decision) -> None:
        """Store a decision under its fence.

        Raises FencedOut when the stored fence differs from `decision.workflow.fence` (or, for a created one, AlreadyExists
        when the id exists, and KeyTaken when another execution than `decision.replaces` holds the workflow's idempotency
        key, which else becomes its own), and FencedOut when the fence of one of
        `decision.limits` differs. The stored fences become that number plus one. On an error inside a transaction only this
        decision is undone, so several may share one transaction. A store without `one commit` may find only when the block ends
        that another turn was first: FencedOut says there which decisions of the block are `stored`.
        """

    def apply_all(self, decisions: Sequence[Decision]) -> None:
        """Store decisions that begin executions, as `apply` does with each; after an error the block must not be committed."""

    def apply_some(self, decisions: Sequence[Decision]) -> Collection[str]:
        """Store what of decisions on different executions is better stored together, as `apply` does with each; whose they are.

        The others are to be applied one by one, those too of which a row is not as it was read. Raises StorageErrors.
        """

    def defer(self) -> None:
        """Let a store that is far away raise what refuses a decision when the block ends, with nothing stored, not in `apply`."""

    def fenced(self, fences: Mapping[str, int]) -> Collection[str]:
        """Executions that have another fence than the one given, where that is worth a look before several are applied."""


class HistoryReads(Protocol):
    """Journals of executions, which decisions write, and what workers logged."""

    def lines(self, workflow_id: str, after: int = 0) -> Sequence[HistoryEvent]:
        """The journal of an execution, in order: the lines with a greater number than `after`."""

    def logs(self, task_id: str) -> Sequence[TaskLog]:
        """Return the log lines of an attempt, in order of arrival."""


class HistoryDAO(HistoryReads, Protocol):
    """The reads, and new log lines."""

    def log(self, workflow_id: str, entries: Sequence[TaskLog]) -> None:
        """Append log lines."""


class InboxReads(Protocol):
    """Events that wait for their executions, timers included."""

    def due_events(self, workflow_id: str, now: int, limit: int) -> Sequence[Event]:
        """Events of one inbox that are due at `now` and not held, in inbox order, `stored` set."""

    def events(self, workflow_id: str) -> Sequence[Event]:
        """Every event of one inbox, held ones too, in inbox order."""

    def due_workflows(self, now: int, limit: int, owner: str = "") -> Sequence[str]:
        """Ids of an owner's workflows with events due at `now`, the longest due first, each once."""

    def next_event(self, owner: str = "") -> tuple[int, str] | None:
        """`due_at` and address of the first event of an owner that is not held, or None."""

    def next_event_at(self, owner: str | None = None) -> int | None:
        """The earliest `due_at` of any event of an owner (None: of all) that is not held, or None."""

    def upcoming_events(self, limit: int, owner: str | None = None) -> Sequence[Event]:
        """The next events of an owner (None: of all) that are not held, in order of `due_at`, workflow and inbox."""


class InboxDAO(InboxReads, Protocol):
    """The reads, and new events beside those that decisions carry."""

    def post(self, events: Iterable[Event]) -> None:
        """Put events into inboxes; an event of the same id is replaced. Never touches a fence.

        An event to an execution that is stored belongs to its owner, whatever it says itself.
        """


class QueueReads(Protocol):
    """The workers' mailbox: tasks that are offered, by queue. Decisions put them there and take them away."""

    def offered(self, queue: str, now: int, limit: int) -> Sequence[Message]:
        """Messages of a queue due at `now`: higher priority first, then earlier `due_at`, workflow id, shorter ref, ref."""

    def message(self, key: MessageKey) -> Message | None:
        """One message by its key."""

    def messages(self, limit: int) -> Sequence[Message]:
        """The next messages of all queues in order of `due_at`."""

    def next_message_at(self, queues: Sequence[str] | None) -> int | None:
        """The earliest `due_at` in these queues (None: in any), or None."""

    def queue_sizes(self) -> Mapping[str, int]:
        """Number of messages per queue that has any."""


class QueueDAO(QueueReads, Protocol):
    """The reads, and the removal of leftovers."""

    def discard(self, messages: Sequence[Message]) -> None:
        """Delete messages that still stand exactly as given: leftovers of attempts that no longer exist."""


class PollDataReads(Protocol):
    """The last poll of each task type, domain and worker."""

    def polls(self, task_type: str | None) -> Sequence[PollData]:
        """The last polls of a task type (None: of all), in order of type and domain, no domain first."""


class PollDataDAO(PollDataReads, Protocol):
    """The reads, and new polls."""

    def record_polls(self, polls: Sequence[PollData]) -> None:
        """Keep polls as the last of their type and domain, unless a later one is known."""


class LimitReads(Protocol):
    """Limits: who has a slot, and who waits in line."""

    def line(self, key: str, heads: int) -> Line:
        """A limit (one that was never asked is empty, with fence 0) with up to so many heads of each lane of its line."""

    def member(self, key: str, holder: str) -> Member | None:
        """One member of a limit, or None."""

    def members(self, key: str) -> Sequence[Member]:
        """All members of a limit: those with a slot in order of holder, then the line."""

    def members_of(self, workflow_id: str) -> Sequence[Member]:
        """Return the slots that an execution and its tasks hold and wait for, in order of key, then holder."""

    def unpolled(self, lane: str) -> Sequence[str]:
        """Keys of the limits that pass over a lane until a worker polls it, in order."""

    def page(self, after: str, limit: int) -> Sequence[Limit]:
        """A page of limits in order of their keys, greater than `after`."""

    def holders(self, key: str, after: str, limit: int) -> Sequence[Member]:
        """A page of the members of a limit that have a slot, given ones included, in order of holder, greater than `after`."""

    def waiting(self, key: str, before: Member | None = None) -> int:
        """How many wait in the line of a limit; with `before`, how many of them come before it. Reads that part of the line."""


class LimitDAO(LimitReads, Protocol):
    """The reads, and repairs of limits beside decisions, which change limits as they go."""

    def put_limit(self, change: LimitChange) -> None:
        """Set one limit right; raises FencedOut when its fence differs. An unused one (`LimitChange.unused`) is forgotten.

        One that comes back under a key that was forgotten has a higher fence than any there was.
        """


class MetadataReads(Protocol):
    """Definitions, embedded and registered, and registered schemas, as canonical JSON text."""

    def registry_version(self) -> int:
        """A number that grows with every change of a registered definition."""

    def definition(self, digest: str) -> str | None:
        """An embedded definition by its hash."""

    def workflow_def(self, name: str, version: int | None) -> str | None:
        """A registered workflow definition; version None is the highest."""

    def workflow_defs(self) -> Sequence[tuple[str, int]]:
        """Names and versions of the registered workflow definitions, in order."""

    def task_def(self, name: str) -> str | None:
        """A registered task definition."""

    def task_defs(self) -> Sequence[str]:
        """Names of the registered task definitions, in order."""

    def schema_def(self, name: str, version: int | None) -> str | None:
        """A registered schema; version None is the highest."""

    def schema_defs(self) -> Sequence[tuple[str, int]]:
        """Names and versions of the registered schemas, in order."""


class MetadataDAO(MetadataReads, Protocol):
    """The reads, and new definitions."""

    def embed(self, digest: str, text: str) -> None:
        """Keep a definition under its content hash; nothing happens when it is there."""

    def put_workflow_def(self, name: str, version: int, text: str) -> None:
        """Register or replace a workflow definition."""

    def drop_workflow_def(self, name: str, version: int) -> None:
        """Delete a registered workflow definition; nothing happens when there is none. What is embedded stays."""

    def put_task_def(self, name: str, text: str) -> None:
        """Register or replace a task definition."""

    def drop_task_def(self, name: str) -> None:
        """Delete a registered task definition; nothing happens when there is none."""

    def put_schema_def(self, name: str, version: int, text: str) -> None:
        """Register or replace a schema."""


class EventHandlerReads(Protocol):
    """Event handlers as canonical JSON text, and what became of messages."""

    def handler(self, name: str) -> str | None:
        """The event handler of that name, or None."""

    def handlers(self, event: str | None, *, active_only: bool) -> Sequence[str]:
        """The event handlers of an event (None: of all), in order of their names."""

    def event_execution(self, name: str, event: str, message_id: str, number: int) -> EventExecution | None:
        """Return the result of one action for one message, or None while there is none."""

    def event_executions(
        self, name: str | None, message_id: str | None, after: EventPlace | None, limit: int
    ) -> Sequence[EventExecution]:
        """A page of records, newest first: of a handler, a message, both or all, in descending order of their places."""


class EventHandlerDAO(EventHandlerReads, Protocol):
    """The reads, and new handlers and event executions."""

    def put_event_handler(self, name: str, event: str, active: bool, text: str) -> None:
        """Register or replace an event handler."""

    def drop_event_handler(self, name: str) -> None:
        """Delete an event handler; nothing happens when there is none. Its records stay."""

    def add_event_execution(self, execution: EventExecution) -> None:
        """Keep a record; raises InvariantBroken when there is one of that identity."""

    def drop_event_executions(self, before: int, limit: int, message_id: str | None = None, without: str | None = None) -> int:
        """Delete the oldest records created before an instant, at most `limit`; returns how many that were.

        Of all messages; of one (`message_id`); or of all but one (`without`).
        """


class ScheduleReads(Protocol):
    """Schedules: rows with a fence of their own, each with an inbox like an execution's."""

    def schedule(self, name: str) -> ScheduleRow | None:
        """A schedule by its name, or None."""

    def page(self, after: str, limit: int) -> Sequence[ScheduleRow]:
        """A page of schedules in ascending order of names, greater than `after`."""


class ScheduleDAO(ScheduleReads, Protocol):
    """The reads, and new schedules."""

    def put_schedule(self, row: ScheduleRow, consumed: Sequence[str], events: Sequence[Event]) -> None:
        """Store a schedule under its fence; its inbox loses the events `consumed`, by id, then gets `events`.

        Raises FencedOut, and changes nothing, when the stored fence differs from `row.fence` (0: there is none yet). The stored
        fence becomes that number plus one.
        """

    def drop_schedule(self, name: str) -> None:
        """Delete a schedule with its inbox; nothing happens when it is not there."""


class PayloadReads(Protocol):
    """Documents in the payload storage: which execution refers to which, and what nobody may refer to."""

    def externals(self, workflow_id: str, digests: Iterable[str] | None) -> Mapping[str, ExternalPayload]:
        """Documents of an execution that are in the storage, of these hashes or (None) all, by hash."""

    def external_used(self, key: str) -> bool:
        """Return True if any execution refers to an object."""

    def known_externals(self, keys: Iterable[str]) -> frozenset[str]:
        """Those of the keys that an execution refers to, or that are noted as loose."""

    def loose_payloads(self, until: int, after: tuple[str, str], limit: int) -> Sequence[OrphanPayload]:
        """A page of what was noted as loose at `until` or before, ascending by (key, workflow_id), greater than `after`."""

    def loosened_at(self, key: str) -> int | None:
        """When an object was last noted as loose; None when it is not."""


class PayloadDAO(PayloadReads, Protocol):
    """The reads, and notes of keys that nobody refers to."""

    def mark_orphan(self, loose: Sequence[OrphanPayload]) -> None:
        """Note objects as loose, in place of what was noted for the same key and execution."""

    def unmark_orphan(self, key: str, until: int) -> None:
        """Forget that an object was noted as loose at `until` or before."""


class FeedReads(Protocol):
    """Entries that are to be indexed.

    Found by the fences of live executions, and by entries for what is rare: removals, archiving, turns on what has ended, and
    attempts that are dropped or renamed are pending; only for feeds that are on.
    """

    def feed(self, kind: FeedKind) -> Feed | None:
        """The feed, or None when it is off."""

    def changes(self, kind: FeedKind, after: int, limit: int) -> Sequence[Change]:
        """Up to `limit` changes, what is pending first, then in ascending order of their places, which are greater than `after`."""

    def behind(self, kind: FeedKind, limit: int) -> int:
        """Return how many changes there are, counted up to `limit`."""

    def is_pending(self, kind: FeedKind, workflow_id: str) -> bool:
        """Return True if an execution, there or not, is among the changes."""

    def index(self) -> OwnIndex | None:
        """The index in the store's own file; None where there is none, and documents are matched one by one."""


class FeedDAO(FeedReads, Protocol):
    """The reads, and the position of each index."""

    def begin_feed(self, kind: FeedKind, reader: str) -> None:
        """Begin to index everything that is stored and archived; the store's own index is made, empty."""

    def mark_pending(self, kind: FeedKind, workflow_ids: Sequence[str]) -> None:
        """Have executions indexed again, there or not: all that is known of them is wrong."""

    def mark_indexed(self, kind: FeedKind, changes: Sequence[Change], complete: bool) -> None:
        """Keep that changes were indexed, and count it; `complete`: there were no others when they were read.

        What has changed again since they were read is still to be indexed.
        """

    def end_feed(self, kind: FeedKind) -> None:
        """Keep nothing for it any more; the store's own index is taken out of it."""


class ArchiveReads(Protocol):
    """Executions that have left the store."""

    def archived(self, workflow_id: str) -> Archived | None:
        """An archived execution, or None."""

    def archived_ids(self, after: str, limit: int) -> Sequence[str]:
        """A page of ids in ascending order, greater than `after`."""


class ArchiveDAO(ArchiveReads, Protocol):
    """The reads, and new archived executions."""

    def put_archived(self, archived: Archived) -> None:
        """Keep an execution, in the place of one of the same id."""

    def drop_archived(self, workflow_id: str) -> bool:
        """Delete an archived execution; False when there is none."""


class OwnerReads(Protocol):
    """The owners of executions, and the instants at which drivers looked at the store. The empty name means all engines, and is
    never listed.
    """

    def rows(self) -> Sequence[OwnerRow]:
        """Every owner of an execution or an event, in order of names."""

    def driven(self, owner: str, since: int) -> Sequence[tuple[int, int]]:
        """Beginnings and ends (epoch ms) of the stretches of an owner's drivers that end after `since`, in order of beginnings.

        They may overlap: each driver notes its own.
        """


class OwnerDAO(OwnerReads, Protocol):
    """The reads, and new owners and instants."""

    def change_owner(self, old: str, new: str, after: str, limit: int) -> Sequence[str]:
        """Give up to `limit` executions of one owner to another, in order of their ids, greater than `after`; returns those ids.

        With an execution go its events and its messages, whose queues are named again (see `queue_name`), and its fence is
        raised by one: what was decided for the old owner is fenced out.
        """

    def change_owner_of_the_rest(self, old: str, new: str) -> int:
        """Give an owner's schedules, and its events to what has not begun, to another; returns how many schedules that were."""

    def note_driven(self, owner: str, begin: int, end: int) -> None:
        """Keep that an owner's driver drove from `begin` to `end`; of stretches with one beginning the longest is kept."""

    def forget_driven(self, owner: str, kept: int) -> None:
        """Keep no more than the newest stretches of an owner, so many, in order of beginnings."""


class TaskHolderReads(Protocol):
    """Engines whose workers may hold tasks."""

    def rows(self) -> Sequence[HolderRow]:
        """Every holder, in order of names."""


class TaskHolderDAO(TaskHolderReads, Protocol):
    """The reads, and new holders."""

    def put_holder(self, row: HolderRow) -> None:
        """Register a holder, or renew it."""

    def drop_holder(self, holder: str) -> None:
        """Forget a holder; nothing happens when it is not there."""


class OutboxReads(Protocol):
    """Outgoing parts of stores that cannot commit them with the rest."""

    def items(self, limit: int) -> Sequence[RelayItem]:
        """The oldest undelivered items, in order."""


class OutboxDAO(OutboxReads, Protocol):
    """The reads, and deliveries of parts."""

    def deliver(self, items: Sequence[RelayItem]) -> None:
        """Carry out outgoing parts and forget them; an item already delivered changes nothing."""


class StreamReads(Protocol):
    """Values that executions have emitted, and their latest values. Decisions write them; they are removed with the execution."""

    def chunks(self, workflow_id: str, stream: str | None, after: int, limit: int) -> Sequence[Emission]:
        """A page of what is in a stream (None: in all), in order: calls with one chunk each, whose last number is above `after`."""

    def emissions(self, workflow_id: str) -> Sequence[Emission]:
        """Return the state of the values of each call, without its chunks, in order of their first numbers."""

    def values(self, workflow_id: str) -> Sequence[LatestValue]:
        """The latest values of an execution, in order of name and task."""


class StreamDAO(StreamReads, Protocol):
    """The reads: only decisions write streams."""


class ReadingTransaction(Protocol):
    """One consistent view of the store, by noun."""

    @property
    def executions(self) -> ExecutionReads:
        """See `ExecutionReads`."""

    @property
    def history(self) -> HistoryReads:
        """See `HistoryReads`."""

    @property
    def inbox(self) -> InboxReads:
        """See `InboxReads`."""

    @property
    def queue(self) -> QueueReads:
        """See `QueueReads`."""

    @property
    def poll_data(self) -> PollDataReads:
        """See `PollDataReads`."""

    @property
    def limits(self) -> LimitReads:
        """See `LimitReads`."""

    @property
    def metadata(self) -> MetadataReads:
        """See `MetadataReads`."""

    @property
    def event_handlers(self) -> EventHandlerReads:
        """See `EventHandlerReads`."""

    @property
    def schedules(self) -> ScheduleReads:
        """See `ScheduleReads`."""

    @property
    def payloads(self) -> PayloadReads:
        """See `PayloadReads`."""

    @property
    def feeds(self) -> FeedReads:
        """See `FeedReads`."""

    @property
    def archive(self) -> ArchiveReads:
        """See `ArchiveReads`."""

    @property
    def owners(self) -> OwnerReads:
        """See `OwnerReads`."""

    @property
    def task_holders(self) -> TaskHolderReads:
        """See `TaskHolderReads`."""

    @property
    def outbox(self) -> OutboxReads:
        """See `OutboxReads`."""

    @property
    def streams(self) -> StreamReads:
        """See `StreamReads`."""

    def sizes(self) -> Sizes:
        """Return the size of everything; reads everything."""


class WritingTransaction(ReadingTransaction, Protocol):
    """One atomic, serialised change of the store, by noun; sees its own writes."""

    @property
    def executions(self) -> ExecutionDAO:
        """See `ExecutionDAO`."""

    @property
    def decisions(self) -> DecisionDAO:
        """See `DecisionDAO`."""

    @property
    def history(self) -> HistoryDAO:
        """See `HistoryDAO`."""

    @property
    def inbox(self) -> InboxDAO:
        """See `InboxDAO`."""

    @property
    def queue(self) -> QueueDAO:
        """See `QueueDAO`."""

    @property
    def poll_data(self) -> PollDataDAO:
        """See `PollDataDAO`."""

    @property
    def limits(self) -> LimitDAO:
        """See `LimitDAO`."""

    @property
    def metadata(self) -> MetadataDAO:
        """See `MetadataDAO`."""

    @property
    def event_handlers(self) -> EventHandlerDAO:
        """See `EventHandlerDAO`."""

    @property
    def schedules(self) -> ScheduleDAO:
        """See `ScheduleDAO`."""

    @property
    def payloads(self) -> PayloadDAO:
        """See `PayloadDAO`."""

    @property
    def feeds(self) -> FeedDAO:
        """See `FeedDAO`."""

    @property
    def archive(self) -> ArchiveDAO:
        """See `ArchiveDAO`."""

    @property
    def owners(self) -> OwnerDAO:
        """See `OwnerDAO`."""

    @property
    def task_holders(self) -> TaskHolderDAO:
        """See `TaskHolderDAO`."""

    @property
    def outbox(self) -> OutboxDAO:
        """See `OutboxDAO`."""

    @property
    def streams(self) -> StreamDAO:
        """See `StreamDAO`."""
