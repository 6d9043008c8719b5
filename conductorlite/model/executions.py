"""Rows of an execution so far (`Workflow`, `Task`), and what else is known of it.

That is its history, the log lines, polls and reports of workers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from operator import attrgetter, is_
from typing import Any, Final, Literal

import attrs

from conductorlite.model.canonical import EMPTY, Payload, Revealed
from conductorlite.model.definitions import LOOP_DELIMITER, Semantics, WorkflowDef
from conductorlite.model.scalars import in_json
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.model.texts import InNotebook, cut, plain_ms

__all__ = [
    "CANCELED",
    "TIMED_OUT",
    "AgendaEntry",
    "Explanation",
    "HistoryEvent",
    "HistoryKind",
    "PollData",
    "Reason",
    "ReasonKind",
    "Task",
    "TaskLog",
    "TaskResult",
    "TaskRow",
    "Workflow",
    "WorkflowRow",
    "frozen_task",
    "frozen_workflow",
    "own_task",
    "own_workflow",
    "printed_ref",
    "reason_data",
    "stored_task",
    "stored_workflow",
]


class HistoryKind(StrEnum):
    """Kind of what a history event records."""

    WORKFLOW = "WORKFLOW"
    TASK = "TASK"
    ROUND = "ROUND"
    ALERT = "ALERT"
    VERB = "VERB"
    MIGRATED = "MIGRATED"
    COMPENSATION = "COMPENSATION"
    REPORT = "REPORT"
    POSTPONED = "POSTPONED"
    CLOCK = "CLOCK"
    MESSAGE = "MESSAGE"
    COPIED = "COPIED"


#: Kinds that `words` says, for the status alone would mislead.
_SAID: Final = frozenset({HistoryKind.ALERT, HistoryKind.CLOCK, HistoryKind.COPIED})


@attrs.frozen(kw_only=True, slots=True)
class HistoryEvent:
    """One line of the journal: at `at`, the workflow or an attempt of `ref` took `status`.

    `payload` is the input when something begins and the output when it ends. ROUND: a loop entered round `number`. ALERT: a
    deadline passed whose policy is ALERT_ONLY, named by `status`. VERB: the verb `status` was used where no status shows it;
    `payload` says what was given, and which references it `dropped`. MIGRATED: the execution moved to another definition; the
    payload holds `from` and `to` (version and hash) and `renamed` (printed references before and after), and the `refs` given.
    COMPENSATION: the workflow is compensated and will end with `status`; with a `ref`, that attempt is what is compensated
    now, by the task that `reason` names and whose line follows. REPORT: what was reported on an attempt that stays in its
    status; `status` is what was reported and `payload` what the attempt has put out so far. POSTPONED: a deadline that no
    definition wrote, named by `status`, came due with `number` ms of driven time left, and was dated again. CLOCK: with SET the
    clock was set by `number` ms (below 0: back), and what counts elapsed time was dated again: only there do instants go back; with
    SUSPENDED the process that held the attempt did not run for `number` ms, by which its deadlines were moved. MESSAGE: message
    `number` was sent to the execution; `payload` is its value, and the cause says its topic and its key. COPIED: the attempt, or
    without a `ref` the workflow, stood at `status` when it was copied from the execution that VERB FORK names.

    `cause` is JSON that says what came from outside the execution and led to this line and to those after it without one: its
    `kind` and what the lines do not say of it (`worker`, `callback`, `reason` …), or `from` which execution it came; None when
    it came by itself. `same` says that the turn had begun with earlier lines, `clock` what the clock read when that is not `at`,
    `used` the hashes of definitions looked up or made at run time, `cut` the scripts that a bound ended: what they were seeded
    with, whether it was their time, and the words.

    The journal holds no fence, lease or engine name: the same definition, input, outcomes, seed and clock give the same bytes on
    every backend.
    """

    n: int
    at: int
    kind: HistoryKind
    status: str
    ref: str | None = None
    attempt: int | None = None
    number: int | None = None
    reason: str | None = None
    payload: Payload | None = None
    cause: str | None = None

    @property
    def words(self) -> str:
        """The line for a person, without its instant and payload."""
        what = f"{self.ref}#{self.attempt}" if self.attempt else self.ref or "workflow"
        status = f"round {self.number}" if self.kind is HistoryKind.ROUND else self.status
        compensation = self.kind is HistoryKind.COMPENSATION and self.ref is None
        kind = f"{self.kind} " if self.kind in _SAID or compensation else ""
        return f"{what}  {kind}{status}: {self.reason}" if self.reason else f"{what}  {kind}{status}"

    @property
    def origin(self) -> str | None:
        """The execution that this one was forked from, where the line says so."""
        if self.status != "FORK" or self.kind is not HistoryKind.VERB or self.payload is None:
            return None
        found: str | None = self.payload.value.get("origin", {}).get("workflowId")
        return found

    @property
    def dropped(self) -> Sequence[str]:
        """References of which the line says that every attempt was removed."""
        # Other verbs have in their payload what callers gave them, of whatever names.
        records = self.status in ("RERUN", "RESTART", "DROPPED") and self.payload is not None
        found: Sequence[str] = self.payload.value.get("dropped", ()) if records and self.payload is not None else ()
        return found


@attrs.frozen(kw_only=True, slots=True)
class TaskLog:
    """One line a worker wrote about its task."""

    task_id: str
    at: int
    text: str


@attrs.frozen(kw_only=True, slots=True)
class AgendaEntry:
    """Something that will happen by itself: at `at` (epoch ms), `kind` of `ref` in an execution.

    `kind` is an event kind (WAIT_ENDS, RESPONSE_TIMEOUT …), SCHEDULE for a start by the schedule `ref` (in its own inbox,
    `schedule:<name>`), OFFERED for a task that becomes visible to workers (a start, retry
    or callback delay ends), or REPORT for a report that a running worker function will make.
    """

    at: int
    kind: str
    workflow_id: str
    ref: str | None = None


@attrs.frozen(kw_only=True, slots=True)
class PollData:
    """The last poll of a task type in a domain (None: in none): which worker asked, and when (epoch ms).

    `queue_name` is the task type, as in Conductor's `PollData`.
    """

    queue_name: str
    domain: str | None = None
    worker_id: str | None = None
    last_poll_time: int = 0


@attrs.frozen(kw_only=True, slots=True)
class TaskResult:
    """A worker's report on a task. `status` is one of COMPLETED, FAILED, FAILED_WITH_TERMINAL_ERROR, IN_PROGRESS, CANCELED.

    `callback_after_ms` says, with IN_PROGRESS, after how long the task is offered again. `lease` is the one the task was
    polled with: an older one raises StaleLease; without one the report is accepted while the attempt is open. `error_types` are
    the types of what was raised and of what that came from, as a traceback names them, outermost first; `error_bases` the classes
    above the first of them that are not Python's own to know, nearest first, for the `except` of a flow.
    `external_output_payload_storage_path` stands for an output that was uploaded where `payloads.location` said. `emitted` is what
    the call of a worker function has emitted and not handed over before; nobody else gives it.
    """

    workflow_id: str
    task_id: str
    status: TaskStatus
    output_data: Mapping[str, Any] = attrs.field(factory=dict)
    reason: str | None = None
    traceback: str | None = None
    error_types: Sequence[str] = ()
    error_bases: Sequence[str] = ()
    callback_after_ms: int = attrs.field(default=0, converter=plain_ms)
    worker_id: str | None = None
    lease: int | None = None
    logs: Sequence[str] = ()
    external_output_payload_storage_path: str | None = None
    emitted: Mapping[str, Any] | None = None


#: What a reason of an explanation is about.
ReasonKind = Literal[
    "RUNNING", "PAUSED", "PARKED", "ENDED", "ARCHIVED",
    "HELD", "NOT_DRIVEN", "PUT_ASIDE", "CLOCK", "RUN_AGAIN", "MIGRATED", "COMPENSATING", "COMPENSATED", "RETRYABLE", "MORE",
    "WORKER", "WITH_WORKER", "SLOT", "RETRY", "DELAY", "TIME", "COMPLETION", "TASKS", "ROUND", "SUB_WORKFLOW",
    "DEADLINE", "FAILED", "SKIPPED", "NEVER_RAN", "NULL", "MESSAGES", "EVENT_HANDLER",
]  # fmt: skip


@attrs.frozen(kw_only=True, slots=True)
class Reason:
    """One thing an explanation says: of the execution `workflow_id`, with a `ref` of a task in it, about an instant (epoch ms).

    `kind` is what a program may ask for: RUNNING, WORKER (a task waits for one), SLOT, DEADLINE … `text` is the same for people;
    `further` says that it goes on with the sentence before.
    """

    kind: ReasonKind
    workflow_id: str
    text: str
    ref: str | None = None
    at: int | None = None
    further: bool = False


@attrs.frozen(kw_only=True, slots=True)
class Explanation(InNotebook):
    """Why an execution, or one of its tasks, waits, or how it ended: `reasons` as data; `str()` is one paragraph of them."""

    reasons: tuple[Reason, ...] = ()

    def __str__(self) -> str:
        if not self.reasons:
            return ""
        first, *others = self.reasons
        return "".join([first.text, *(f"{'; ' if reason.further else '. '}{reason.text}" for reason in others), "."])


#: The type of what a task raises, to a flow, that runs out of time, and of one whose execution is terminated.
TIMED_OUT: Final = "conductorlite.errors.TimedOut"
CANCELED: Final = "asyncio.CancelledError"


def printed_ref(base_ref: str, iterations: Sequence[int]) -> str:
    """The reference as it is printed: `x` inside the first round of a loop in the second round of another is `x__2__1`."""
    for iteration in iterations:
        base_ref = f"{base_ref}{LOOP_DELIMITER}{iteration}"
    return base_ref


def reason_data(reason: str | None, conductor_reason: str | None) -> dict[str, str | None]:
    """Data of an event that reports why something ended or is to end."""
    said = {"reason": reason}
    return said if conductor_reason is None else {**said, "conductorReason": conductor_reason}


class _Documents:
    """Input and output, which a task and an execution have."""

    __slots__ = ()
    input: Payload
    output: Payload

    @property
    def input_data(self) -> dict[str, Any]:
        """A copy of the input."""
        data: dict[str, Any] = self.input.fresh()
        return data

    @property
    def output_data(self) -> dict[str, Any]:
        """A copy of the output."""
        data: dict[str, Any] = self.output.fresh()
        return data

    def __eq__(self, other: object) -> bool:
        """Compare by fields: a row that a turn writes equals the frozen object of the same fields."""
        kind = Task if isinstance(self, Task) else Workflow
        if not isinstance(other, kind):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in attrs.fields(kind))

    def __hash__(self) -> int:
        return hash(repr(self))


@attrs.frozen(kw_only=True, slots=True, eq=False, repr=False)
class Task(_Documents, InNotebook):
    """One attempt at one node. Instants are epoch ms (0: not yet), spans ms; `input_data` and `output_data` are copies."""

    workflow_id: str = attrs.field(metadata=in_json("workflowInstanceId"))
    ref: str = attrs.field(metadata=in_json("referenceTaskName"))
    base_ref: str
    task_id: str
    #: What workers poll for: the node's name for SIMPLE, else its type.
    task_type: str
    #: Name of the task definition.
    name: str
    status: TaskStatus
    iterations: tuple[int, ...] = ()
    #: Hashes of the definitions made at run time that hold its node (DYNAMIC, FORK_JOIN_DYNAMIC), outermost first.
    grafts: tuple[str, ...] = ()
    #: 0 for the first attempt: Conductor's retryCount.
    attempt: int = attrs.field(default=0, metadata=in_json("retryCount"))
    #: Attempt at which the present retry budget began: raised by the retry verb.
    first_attempt: int = 0
    generation: int = 0
    #: Place in the order of scheduling, from 1.
    seq: int = 0
    input: Payload = attrs.field(default=EMPTY, metadata=in_json("inputData"))
    output: Payload = attrs.field(default=EMPTY, metadata=in_json("outputData"))
    #: Why it ended, for a person; and in Conductor's words, where its clients read something else.
    reason: str | None = None
    conductor_reason: str | None = None
    traceback: str | None = None
    #: Types of the exception that its worker raised and of those that it came from, as a traceback names them, outermost first.
    error_types: tuple[str, ...] = ()
    #: Classes above the first of them, where that is not one of Python's own, nearest first.
    error_bases: tuple[str, ...] = ()
    #: SUB_WORKFLOW: the text of what its execution raised; of other tasks the reason has it.
    error_text: str | None = None
    worker_id: str | None = None
    domain: str | None = None
    #: Number of the lease under which the task is held, by a worker or by a child that was notified to go on; 0 when it is not
    #: held.
    lease: int = 0
    #: Whose own worker has it under that lease: an open engine of one process. None for one that was polled by hand.
    holder: str | None = None
    #: How often the process that had it died without giving it back.
    deaths: int = 0
    poll_count: int = 0
    scheduled_at: int = attrs.field(default=0, metadata=in_json("scheduledTime"))
    first_scheduled_at: int = 0
    #: When a worker may receive it: after the start, retry or callback delay.
    due_at: int = 0
    #: First poll of this attempt.
    started_at: int = attrs.field(default=0, metadata=in_json("startTime"))
    updated_at: int = attrs.field(default=0, metadata=in_json("updateTime"))
    ended_at: int = attrs.field(default=0, metadata=in_json("endTime"))
    start_delay_ms: int = 0
    callback_after_ms: int = 0
    #: Superseded by a later attempt.
    retried: bool = False
    #: Its successors were scheduled.
    executed: bool = False
    #: An earlier generation of this task had already scheduled the successors; they are not scheduled again.
    succeeded_before: bool = False
    retried_task_id: str | None = None
    #: SUB_WORKFLOW: the execution it started.
    sub_workflow_id: str | None = None
    #: DO_WHILE: the round it is in, from 1.
    round: int = 0
    #: DO_WHILE: live tasks directly inside the present round. JOIN of a dynamic fork: live tasks directly in its branches.
    open: int = 0
    #: JOIN: joined references that have not ended, plus one while its fork is still scheduling branches.
    waiting: int = 0
    #: DO_WHILE: a permissive task of the present round failed, with this reason; in Conductor's words where those are others.
    failed_child: str | None = None
    conductor_failed_child: str | None = None
    poll_timeout_at: int | None = None
    response_timeout_at: int | None = None
    timeout_at: int | None = None
    total_timeout_at: int | None = None
    #: WAIT: when it ends by itself.
    wait_until: int | None = None
    #: The limit of which it holds a slot, or in whose line it waits while PENDING.
    limit_key: str | None = None
    #: Which reference is compensated after this one; None for the last one, and as long as nothing is compensated.
    compensation_next: str | None = None
    #: Leases of the calls that have emitted values which are not dropped, each followed by how many values those were.
    emitted: tuple[int, ...] = ()

    @property
    def live(self) -> bool:
        """True if the attempt still holds the execution open."""
        if self.retried or (self.executed and self.status.terminal):
            return False
        return self.status is not TaskStatus.SKIPPED or not self.skipped_ahead

    @property
    def skipped_ahead(self) -> bool:
        """True if it was skipped before the flow reached it: then it is due, and keeps its place before all others."""
        return self.status is TaskStatus.SKIPPED and self.seq == 0 and not self.due_at

    @property
    def passed(self) -> bool:
        """True if the flow has continued past the attempt."""
        return not self.live and not self.skipped_ahead

    @property
    def failed(self) -> bool:
        """True if the last attempt at this reference failed."""
        return not self.retried and self.status in _FAILED

    @property
    def error_type(self) -> str | None:
        """The type of the exception that its worker raised; None where it raised none."""
        return self.error_types[0] if self.error_types else None

    @property
    def iteration(self) -> int:
        """Conductor's `iteration`: the loop's own round, or the innermost loop's round the task is in."""
        return self.round or (self.iterations[-1] if self.iterations else 0)

    @property
    def offered_after_ms(self) -> int:
        """Conductor's `callbackAfterSeconds`: how long after it was put there its queue offers a task, until it is polled."""
        return self.callback_after_ms or (self.start_delay_ms if self.status is TaskStatus.SCHEDULED else 0)

    @property
    def runtime_metadata(self) -> dict[str, str]:
        """Conductor's `runtimeMetadata`: the secrets its definition names there, by name; only in what `poll` returns."""
        return dict(self.input.metadata) if isinstance(self.input, Revealed) else {}

    def __repr__(self) -> str:
        kind = "" if self.name == self.ref else f" {self.name!r}"
        return f"<Task {self.ref!r}{kind} attempt {self.attempt} {self.status} of {self.workflow_id!r}{_because(self.reason)}>"


def _because(reason: str | None) -> str:
    return "" if reason is None else f": {cut(reason, 80)}"


_FAILED: Final = frozenset({TaskStatus.FAILED, TaskStatus.FAILED_WITH_TERMINAL_ERROR, TaskStatus.TIMED_OUT})


@attrs.frozen(kw_only=True, slots=True, eq=False, repr=False)
class Workflow(_Documents, InNotebook):
    """One execution. Instants are epoch ms (0: not yet). `tasks` is filled by `Engine.get`, in order of scheduling."""

    workflow_id: str
    name: str = attrs.field(metadata=in_json("workflowName"))
    version: int = attrs.field(metadata=in_json("workflowVersion"))
    #: Hash of the embedded definition: the workflow's with every task definition inside.
    definition_hash: str
    status: WorkflowStatus = WorkflowStatus.RUNNING
    semantics: Semantics = Semantics.ORKES
    #: Version of the rules by which this execution is decided.
    decider_version: int = 1
    #: Where ids and jitter are derived from.
    seed: str = ""
    #: Commits so far; a turn commits only if no other turn was committed meanwhile.
    fence: int = 0
    generation: int = 0
    created_at: int = attrs.field(default=0, metadata=in_json("createTime"))
    #: When its first task was scheduled: later than `created_at` for a start with a delay.
    started_at: int = 0
    updated_at: int = attrs.field(default=0, metadata=in_json("updateTime"))
    ended_at: int = attrs.field(default=0, metadata=in_json("endTime"))
    last_retried_at: int = attrs.field(default=0, metadata=in_json("lastRetriedTime"))
    timeout_at: int | None = None
    correlation_id: str | None = None
    priority: int = 0
    parent_workflow_id: str | None = None
    parent_task_id: str | None = attrs.field(default=None, metadata=in_json("parentWorkflowTaskId"))
    #: The attempt of the parent's SUB_WORKFLOW task that this execution is: which is notified when it ends.
    parent_ref: str | None = attrs.field(default=None, metadata=in_json("parentReferenceName"))
    parent_attempt: int = attrs.field(default=0, metadata=in_json("parentRetryCount"))
    parent_generation: int = 0
    #: How many executions above this one have started it: a child of a child has 2.
    depth: int = 0
    event: str | None = None
    created_by: str | None = None
    #: Under which span it was started: a `traceparent` of W3C Trace Context.
    trace_context: str | None = None
    #: The engine that alone takes its turns and offers its tasks (`allocation="local"`); empty: any engine.
    owner: str = ""
    #: The limit on executions of which it holds a slot, or in whose line it waits while `rate_limited`.
    rate_limit_key: str | None = None
    #: Its first task is PENDING until it has a slot.
    rate_limited: bool = False
    #: Limits held by the executions above it: what it may not wait for.
    outer_keys: tuple[str, ...] = attrs.field(default=(), metadata=in_json("limitKeys"))
    #: Under which key it was started, once: unique among the executions of this name.
    idempotency_key: str | None = None
    input: Payload = EMPTY
    output: Payload = EMPTY
    variables: Payload = EMPTY
    task_to_domain: Payload = EMPTY
    #: Why it ended, for a person: "charge failed: ValueError: …"; and in Conductor's words, where its clients read something else.
    reason: str | None = None
    conductor_reason: str | None = None
    failed_refs: tuple[str, ...] = attrs.field(default=(), metadata=in_json("failedReferenceTaskNames"))
    failed_task_names: tuple[str, ...] = ()
    failed_task_id: str | None = None
    #: Tasks scheduled so far.
    task_seq: int = 0
    #: History events so far.
    history_seq: int = 0
    #: The workflow's own counter: the next lease, the next number of an event it posts.
    sequence: int = 0
    #: Live tasks outside every loop.
    open: int = 0
    #: References that were skipped before the flow has come to them.
    skips: int = 0
    #: Messages sent to it so far, and those of them that no task has received.
    message_seq: int = 0
    unreceived: int = 0
    #: Values emitted so far, dropped ones too.
    item_seq: int = 0
    #: Tasks whose failure was permitted until the end.
    permitted_failures: int = 0
    #: Being compensated: the status it will end with.
    compensating: WorkflowStatus | None = None
    #: Reference scheduled last: its output is the workflow's when no outputParameters are given.
    last_ref: str | None = None
    #: Why no more turns are taken, after three that broke an invariant.
    parked: str | None = None
    #: Turns that broke an invariant since the last good one.
    broken_turns: int = 0
    tasks: tuple[Task, ...] = ()
    definition: WorkflowDef | None = None
    #: Definitions made at run time that tasks run on, by the hashes in `Task.grafts`; filled by `Engine.get`.
    made: Mapping[str, WorkflowDef] = attrs.field(factory=dict)

    def task(self, ref: str) -> Task:
        """The last attempt at `ref` (as printed, or the definition's name for its newest round); KeyError if there is none."""
        found = [task for task in self.tasks if task.ref == ref] or [t for t in self.tasks if t.base_ref == ref]
        if not found:
            raise KeyError(ref)
        return found[-1]

    def __repr__(self) -> str:
        tasks = f", {len(self.tasks)} attempts" if self.tasks else ""
        return f"<Workflow {self.workflow_id!r} {self.name!r} version {self.version} {self.status}{tasks}{_because(self.reason)}>"


@attrs.define(kw_only=True, slots=True, eq=False, repr=False)
class TaskRow(Task):
    """An attempt's row as a turn writes it. Nobody writes it after the turn; a verb returns it frozen (`frozen_task`)."""

    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__


@attrs.define(kw_only=True, slots=True, eq=False, repr=False)
class WorkflowRow(Workflow):
    """An execution's row as a turn writes it. Nobody writes it after the turn; a verb returns it frozen (`frozen_workflow`)."""

    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__


# A turn copies each row that it writes. Plain assignments take an eighth of the time of `attrs.evolve`.


def own_task(row: Task) -> Any:
    """Return a copy of an attempt's row, a TaskRow that the caller may write."""
    copy: Any = TaskRow.__new__(TaskRow)
    copy.workflow_id, copy.ref, copy.base_ref = row.workflow_id, row.ref, row.base_ref
    copy.task_id, copy.task_type, copy.name = row.task_id, row.task_type, row.name
    copy.status, copy.iterations, copy.grafts = row.status, row.iterations, row.grafts
    copy.attempt, copy.first_attempt, copy.generation = row.attempt, row.first_attempt, row.generation
    copy.seq, copy.input, copy.output = row.seq, row.input, row.output
    copy.reason, copy.conductor_reason, copy.traceback = row.reason, row.conductor_reason, row.traceback
    copy.error_types = row.error_types
    copy.error_bases, copy.error_text = row.error_bases, row.error_text
    copy.worker_id, copy.domain, copy.lease = row.worker_id, row.domain, row.lease
    copy.holder, copy.deaths, copy.poll_count = row.holder, row.deaths, row.poll_count
    copy.scheduled_at, copy.first_scheduled_at, copy.due_at = row.scheduled_at, row.first_scheduled_at, row.due_at
    copy.started_at, copy.updated_at, copy.ended_at = row.started_at, row.updated_at, row.ended_at
    copy.start_delay_ms, copy.callback_after_ms, copy.retried = row.start_delay_ms, row.callback_after_ms, row.retried
    copy.executed, copy.succeeded_before, copy.retried_task_id = row.executed, row.succeeded_before, row.retried_task_id
    copy.sub_workflow_id, copy.round, copy.open = row.sub_workflow_id, row.round, row.open
    copy.waiting, copy.failed_child, copy.conductor_failed_child = row.waiting, row.failed_child, row.conductor_failed_child
    copy.poll_timeout_at = row.poll_timeout_at
    copy.response_timeout_at, copy.timeout_at = row.response_timeout_at, row.timeout_at
    copy.total_timeout_at, copy.wait_until, copy.limit_key = row.total_timeout_at, row.wait_until, row.limit_key
    copy.compensation_next, copy.emitted = row.compensation_next, row.emitted
    return copy


def own_workflow(row: Workflow) -> Any:
    """Return a copy of an execution's row, a WorkflowRow that the caller may write."""
    copy: Any = WorkflowRow.__new__(WorkflowRow)
    copy.workflow_id, copy.name, copy.version = row.workflow_id, row.name, row.version
    copy.definition_hash, copy.status, copy.semantics = row.definition_hash, row.status, row.semantics
    copy.decider_version, copy.seed, copy.fence = row.decider_version, row.seed, row.fence
    copy.generation, copy.created_at, copy.started_at = row.generation, row.created_at, row.started_at
    copy.updated_at, copy.ended_at, copy.last_retried_at = row.updated_at, row.ended_at, row.last_retried_at
    copy.timeout_at, copy.correlation_id, copy.priority = row.timeout_at, row.correlation_id, row.priority
    copy.parent_workflow_id, copy.parent_task_id = row.parent_workflow_id, row.parent_task_id
    copy.parent_ref, copy.parent_attempt, copy.parent_generation = row.parent_ref, row.parent_attempt, row.parent_generation
    copy.depth, copy.event, copy.created_by = row.depth, row.event, row.created_by
    copy.trace_context, copy.owner, copy.rate_limit_key = row.trace_context, row.owner, row.rate_limit_key
    copy.rate_limited, copy.outer_keys, copy.idempotency_key = row.rate_limited, row.outer_keys, row.idempotency_key
    copy.input, copy.output, copy.variables = row.input, row.output, row.variables
    copy.task_to_domain, copy.reason, copy.failed_refs = row.task_to_domain, row.reason, row.failed_refs
    copy.conductor_reason = row.conductor_reason
    copy.failed_task_names, copy.failed_task_id, copy.task_seq = row.failed_task_names, row.failed_task_id, row.task_seq
    copy.history_seq, copy.sequence, copy.open = row.history_seq, row.sequence, row.open
    copy.skips, copy.permitted_failures, copy.compensating = row.skips, row.permitted_failures, row.compensating
    copy.last_ref, copy.parked, copy.broken_turns = row.last_ref, row.parked, row.broken_turns
    copy.message_seq, copy.unreceived, copy.item_seq = row.message_seq, row.unreceived, row.item_seq
    copy.tasks, copy.definition, copy.made = row.tasks, row.definition, row.made
    return copy


_TASK_FIELDS: Final = tuple(field.name for field in attrs.fields(Task))
_WORKFLOW_FIELDS: Final = tuple(field.name for field in attrs.fields(Workflow))
_task_values: Final = attrgetter(*_TASK_FIELDS)
_workflow_values: Final = attrgetter(*_WORKFLOW_FIELDS)


def frozen_task(row: Task) -> Task:
    """Return an attempt as a verb returns it: nobody can write it."""
    return row if type(row) is Task else Task(**dict(zip(_TASK_FIELDS, _task_values(row), strict=True)))


def frozen_workflow(row: Workflow) -> Workflow:
    """Return an execution as a verb returns it: nobody can write it, nor the attempts in it."""
    tasks = tuple([frozen_task(task) for task in row.tasks])
    if type(row) is Workflow and all(map(is_, tasks, row.tasks)):
        return row
    fields = dict(zip(_WORKFLOW_FIELDS, _workflow_values(row), strict=True))
    return Workflow(**{**fields, "tasks": tasks})


def stored_task(task: Task) -> Task:
    """An attempt as its row is read: without the texts of large payloads."""
    if task.input.large or task.output.large:
        return attrs.evolve(task, input=task.input.stored(), output=task.output.stored())
    return task


def stored_workflow(workflow: Workflow) -> Workflow:
    """An execution's row as it is read after the commit of a decision that holds it: under the next fence, alone."""
    row = own_workflow(workflow)
    row.fence += 1
    row.tasks, row.definition = (), None
    if row.input.large or row.output.large or row.variables.large or row.task_to_domain.large:
        for name in ("input", "output", "variables", "task_to_domain"):
            setattr(row, name, getattr(row, name).stored())
    stored: Workflow = row
    return stored
