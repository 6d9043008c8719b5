"""What has happened so far: the rows of an execution, and the tables of what may happen to them.

A `Workflow` is one execution, a `Task` one attempt at one node of its definition. Both are frozen: a change is a new row. The
tables below are the whole state machine; `draft` is the only writer and consults them at every change, `check` replays them.

    task:      PENDING → SCHEDULED ⇄ IN_PROGRESS → a terminal status; a terminal status only moves by an explicit verb
    workflow:  RUNNING ⇄ PAUSED → a terminal status; a terminal status only moves by an explicit verb

**Identity.** An attempt is (workflow_id, ref, attempt); `ref` is the printed reference: the definition's reference followed by
`__<n>` for each loop around it (`x__2__1`). The parts are columns (`base_ref`, `iterations`), never parsed out of the name.
`generation` is raised by the verbs that reopen an execution, and when its compensation begins; an event or message of an
earlier generation is void.

**Live.** A task counts as live until its end has been *executed*, that is, until its successors were scheduled. The counters
(`open` on a workflow and on a DO_WHILE, `waiting` on a JOIN) are caches of counts over rows, so an execution is over exactly
when nothing is live, however a turn was cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, TypeVar

import attrs

from conductorlite.canonical import EMPTY, Payload
from conductorlite.definitions import LOOP_DELIMITER, Semantics, WorkflowDef

__all__ = [
    "REPORTABLE",
    "TASK_TRANSITIONS",
    "TASK_VERB_TRANSITIONS",
    "WORKFLOW_TRANSITIONS",
    "WORKFLOW_VERB_TRANSITIONS",
    "HistoryEvent",
    "HistoryKind",
    "PollData",
    "Task",
    "TaskLog",
    "TaskResult",
    "TaskStatus",
    "Workflow",
    "WorkflowStatus",
    "changed",
    "printed_ref",
]


class TaskStatus(StrEnum):
    """Where an attempt stands: Conductor's names, and Orkes' PENDING, before a limited task has its slot."""

    PENDING = "PENDING"
    SCHEDULED = "SCHEDULED"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    COMPLETED_WITH_ERRORS = "COMPLETED_WITH_ERRORS"
    FAILED = "FAILED"
    FAILED_WITH_TERMINAL_ERROR = "FAILED_WITH_TERMINAL_ERROR"
    TIMED_OUT = "TIMED_OUT"
    CANCELED = "CANCELED"
    SKIPPED = "SKIPPED"

    @property
    def terminal(self) -> bool:
        """Whether the attempt is over."""
        return self not in _OPEN_TASK

    @property
    def successful(self) -> bool:
        """Whether the attempt is over and its successors may run."""
        return self in _SUCCESSFUL_TASK

    @property
    def retriable(self) -> bool:
        """Whether an automatic retry may follow."""
        return self is TaskStatus.FAILED or self is TaskStatus.TIMED_OUT


_OPEN_TASK: Final = frozenset({TaskStatus.PENDING, TaskStatus.SCHEDULED, TaskStatus.IN_PROGRESS})
_SUCCESSFUL_TASK: Final = frozenset({TaskStatus.COMPLETED, TaskStatus.COMPLETED_WITH_ERRORS, TaskStatus.SKIPPED})

#: What a worker may report.
REPORTABLE: Final = frozenset(
    {
        TaskStatus.IN_PROGRESS,
        TaskStatus.COMPLETED,
        TaskStatus.FAILED,
        TaskStatus.FAILED_WITH_TERMINAL_ERROR,
        TaskStatus.CANCELED,
    }
)

_ENDS: Final = frozenset(
    {
        TaskStatus.COMPLETED,
        TaskStatus.FAILED,
        TaskStatus.FAILED_WITH_TERMINAL_ERROR,
        TaskStatus.TIMED_OUT,
        TaskStatus.CANCELED,
    }
)

#: From which status a task may go to which, on its own. `None` is "no row yet".
TASK_TRANSITIONS: Final[Mapping[TaskStatus | None, frozenset[TaskStatus]]] = {
    None: frozenset(TaskStatus),
    # The first task of an execution that waited for its slot is of any type, and becomes whatever that does.
    TaskStatus.PENDING: frozenset(TaskStatus),
    TaskStatus.SCHEDULED: _ENDS | {TaskStatus.IN_PROGRESS, TaskStatus.PENDING},
    TaskStatus.IN_PROGRESS: _ENDS | {TaskStatus.SCHEDULED, TaskStatus.PENDING, TaskStatus.COMPLETED_WITH_ERRORS},
    TaskStatus.COMPLETED: frozenset(),
    TaskStatus.COMPLETED_WITH_ERRORS: frozenset(),
    TaskStatus.FAILED: frozenset({TaskStatus.COMPLETED_WITH_ERRORS}),
    TaskStatus.FAILED_WITH_TERMINAL_ERROR: frozenset({TaskStatus.COMPLETED_WITH_ERRORS}),
    TaskStatus.TIMED_OUT: frozenset({TaskStatus.COMPLETED_WITH_ERRORS}),
    TaskStatus.CANCELED: frozenset({TaskStatus.COMPLETED_WITH_ERRORS}),
    TaskStatus.SKIPPED: frozenset(),
}

#: Additional moves that only an explicit verb makes: JOINs, loops and tasks of a reopened child are reopened in place.
TASK_VERB_TRANSITIONS: Final[Mapping[TaskStatus, frozenset[TaskStatus]]] = {
    TaskStatus.FAILED: frozenset({TaskStatus.IN_PROGRESS}),
    TaskStatus.TIMED_OUT: frozenset({TaskStatus.IN_PROGRESS}),
    TaskStatus.CANCELED: frozenset({TaskStatus.IN_PROGRESS}),
    TaskStatus.FAILED_WITH_TERMINAL_ERROR: frozenset({TaskStatus.IN_PROGRESS}),
    TaskStatus.COMPLETED: frozenset({TaskStatus.IN_PROGRESS}),
    TaskStatus.COMPLETED_WITH_ERRORS: frozenset({TaskStatus.IN_PROGRESS}),
    TaskStatus.SKIPPED: frozenset({TaskStatus.IN_PROGRESS}),
}


class WorkflowStatus(StrEnum):
    """Where an execution stands; Conductor's names."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    TERMINATED = "TERMINATED"

    @property
    def terminal(self) -> bool:
        """Whether the execution is over."""
        return self is not WorkflowStatus.RUNNING and self is not WorkflowStatus.PAUSED


#: From which status an execution may go to which. `None` is "no row yet".
WORKFLOW_TRANSITIONS: Final[Mapping[WorkflowStatus | None, frozenset[WorkflowStatus]]] = {
    None: frozenset({WorkflowStatus.RUNNING}),
    WorkflowStatus.RUNNING: frozenset(WorkflowStatus) - {WorkflowStatus.RUNNING},
    WorkflowStatus.PAUSED: frozenset({WorkflowStatus.RUNNING, WorkflowStatus.TERMINATED, WorkflowStatus.TIMED_OUT}),
    WorkflowStatus.COMPLETED: frozenset(),
    WorkflowStatus.FAILED: frozenset(),
    WorkflowStatus.TIMED_OUT: frozenset(),
    WorkflowStatus.TERMINATED: frozenset(),
}

#: Additional moves that only an explicit verb makes: `retry`, `restart` and `rerun` reopen, here or in a child.
WORKFLOW_VERB_TRANSITIONS: Final[Mapping[WorkflowStatus, frozenset[WorkflowStatus]]] = {
    WorkflowStatus.COMPLETED: frozenset({WorkflowStatus.RUNNING}),
    WorkflowStatus.FAILED: frozenset({WorkflowStatus.RUNNING}),
    WorkflowStatus.TIMED_OUT: frozenset({WorkflowStatus.RUNNING}),
    WorkflowStatus.TERMINATED: frozenset({WorkflowStatus.RUNNING}),
}


def printed_ref(base_ref: str, iterations: Sequence[int]) -> str:
    """The reference as it is printed: `x` inside the first round of a loop in the second round of another is `x__2__1`."""
    if not iterations:
        return base_ref
    return base_ref + "".join(f"{LOOP_DELIMITER}{iteration}" for iteration in iterations)


@attrs.frozen(kw_only=True, slots=True)
class Task:
    """One attempt at one node. Instants are epoch ms (0: not yet), spans ms; `input_data` and `output_data` are copies."""

    workflow_id: str
    ref: str
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
    attempt: int = 0
    #: Attempt at which the present retry budget began: raised by the retry verb.
    first_attempt: int = 0
    generation: int = 0
    #: Place in the order of scheduling, from 1.
    seq: int = 0
    input: Payload = EMPTY
    output: Payload = EMPTY
    reason: str | None = None
    traceback: str | None = None
    worker_id: str | None = None
    domain: str | None = None
    #: Number of the lease under which the task is held; 0 when nobody holds it.
    lease: int = 0
    poll_count: int = 0
    scheduled_at: int = 0
    first_scheduled_at: int = 0
    #: When a worker may receive it: after the start, retry or callback delay.
    due_at: int = 0
    #: First poll of this attempt.
    started_at: int = 0
    updated_at: int = 0
    ended_at: int = 0
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
    #: DO_WHILE: a permissive task of the present round failed, with this reason.
    failed_child: str | None = None
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

    @property
    def live(self) -> bool:
        """Whether the attempt still holds the execution open."""
        if self.retried or (self.executed and self.status.terminal):
            return False
        return self.seq != 0 or self.status is not TaskStatus.SKIPPED

    @property
    def skipped_ahead(self) -> bool:
        """Whether it was skipped before the flow has come to it."""
        return self.status is TaskStatus.SKIPPED and self.seq == 0

    @property
    def passed(self) -> bool:
        """Whether the flow has gone past the attempt."""
        return not self.live and not self.skipped_ahead

    @property
    def failed(self) -> bool:
        """Whether the last attempt at this reference ended in failure."""
        return not self.retried and self.status in _FAILED

    @property
    def iteration(self) -> int:
        """Conductor's `iteration`: the loop's own round, or the innermost loop's round the task is in."""
        return self.round or (self.iterations[-1] if self.iterations else 0)

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


_FAILED: Final = frozenset({TaskStatus.FAILED, TaskStatus.FAILED_WITH_TERMINAL_ERROR, TaskStatus.TIMED_OUT})


@attrs.frozen(kw_only=True, slots=True)
class Workflow:
    """One execution. Instants are epoch ms (0: not yet). `tasks` is filled by `Engine.get`, in order of scheduling."""

    workflow_id: str
    name: str
    version: int
    #: Hash of the embedded definition: the workflow's with every task definition inside.
    definition_hash: str
    status: WorkflowStatus = WorkflowStatus.RUNNING
    semantics: Semantics = Semantics.ORKES
    #: Version of the rules by which this execution is decided.
    decider_version: int = 1
    #: Where ids and jitter are derived from.
    seed: str = ""
    #: Commits so far; a turn commits only if nobody else moved.
    fence: int = 0
    generation: int = 0
    created_at: int = 0
    #: When its first task was scheduled: later than `created_at` for a start with a delay.
    started_at: int = 0
    updated_at: int = 0
    ended_at: int = 0
    last_retried_at: int = 0
    timeout_at: int | None = None
    correlation_id: str | None = None
    priority: int = 0
    parent_workflow_id: str | None = None
    parent_task_id: str | None = None
    #: The attempt of the parent's SUB_WORKFLOW task that this execution is: whom to tell when it ends.
    parent_ref: str | None = None
    parent_attempt: int = 0
    parent_generation: int = 0
    #: The engine that alone takes its turns and offers its tasks (`allocation="local"`); empty: any engine.
    owner: str = ""
    #: How many executions above this one have started it: a child of a child has 2.
    depth: int = 0
    event: str | None = None
    created_by: str | None = None
    #: The limit on executions of which it holds a slot, or in whose line it waits while `rate_limited`.
    rate_limit_key: str | None = None
    #: Its first task is PENDING until it has a slot.
    rate_limited: bool = False
    #: Keys of the limits that the executions above it hold: what it may not wait for.
    outer_keys: tuple[str, ...] = ()
    #: Under which key it was started, once: unique among the executions of this name.
    idempotency_key: str | None = None
    input: Payload = EMPTY
    output: Payload = EMPTY
    variables: Payload = EMPTY
    task_to_domain: Payload = EMPTY
    reason: str | None = None
    failed_refs: tuple[str, ...] = ()
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

    def task(self, ref: str) -> Task:
        """The last attempt at `ref` (as printed, or the definition's name for its newest round); KeyError if there is none."""
        found = [task for task in self.tasks if task.ref == ref] or [t for t in self.tasks if t.base_ref == ref]
        if not found:
            raise KeyError(ref)
        return found[-1]


class HistoryKind(StrEnum):
    """What a history event tells."""

    WORKFLOW = "WORKFLOW"
    TASK = "TASK"
    ROUND = "ROUND"
    ALERT = "ALERT"
    VERB = "VERB"
    MIGRATED = "MIGRATED"
    COMPENSATION = "COMPENSATION"
    REPORT = "REPORT"


@attrs.frozen(kw_only=True, slots=True)
class HistoryEvent:
    """One line of the journal: at `at`, the workflow or an attempt of `ref` took `status`.

    `payload` is the input when something begins and the output when it ends. ROUND: a loop entered round `number`. ALERT: a
    deadline passed whose policy is ALERT_ONLY, named by `status`. VERB: the verb `status` was used where no status tells of it;
    `payload` says what was given, and which references it `dropped`. MIGRATED: the execution moved to another definition; the
    payload holds `from` and `to` (version and hash) and `renamed` (printed references before and after), and the `refs` given.
    COMPENSATION: the workflow is compensated and will end with `status`; with a `ref`, that attempt is what is compensated
    now, by the task that `reason` names and whose line follows. REPORT: what was reported on an attempt that stays in its
    status; `status` is what was reported and `payload` what the attempt has put out so far.

    `cause` is JSON that says what came from outside the execution and led to this line and to those after it without one: its
    `kind` and what the lines do not tell of it (`worker`, `callback`, `reason` …), or `from` which execution it came; None when
    it came by itself. `same` says that the turn had begun with earlier lines, `clock` what the clock read when that is not `at`,
    `used` the hashes of definitions looked up or made at run time.

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


@attrs.frozen(kw_only=True, slots=True)
class TaskLog:
    """One line a worker wrote about its task."""

    task_id: str
    at: int
    text: str


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
    """What a worker reports. `status` is one of COMPLETED, FAILED, FAILED_WITH_TERMINAL_ERROR, IN_PROGRESS, CANCELED.

    `callback_after_ms` says, with IN_PROGRESS, after how long the task is offered again. `lease` is the one the task was
    polled with: an older one raises StaleLease; without one the report is accepted while the attempt is open.
    """

    workflow_id: str
    task_id: str
    status: TaskStatus
    output_data: Mapping[str, Any] = attrs.field(factory=dict)
    reason: str | None = None
    traceback: str | None = None
    callback_after_ms: int = 0
    worker_id: str | None = None
    lease: int | None = None
    logs: Sequence[str] = ()


Row = TypeVar("Row", Task, Workflow)

#: How the cells of a row are read: all at once.
_CELLS: Final = {kind: tuple(field.name for field in attrs.fields(kind)) for kind in (Task, Workflow)}
_READ: Final = {kind: attrgetter(*names) for kind, names in _CELLS.items()}


def changed(row: Row, **fields: object) -> Row:
    """`attrs.evolve` of a row, in a third of its time: every turn copies a few rows, of some forty cells each.

    Raises TypeError for a name that is not a cell's.
    """
    kind = type(row)
    cells: dict[str, Any] = dict(zip(_CELLS[kind], _READ[kind](row), strict=True))
    cells.update(fields)
    return kind(**cells)
