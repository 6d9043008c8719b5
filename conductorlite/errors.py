"""Every exception conductorlite raises on purpose.

The tree::

    ConductorliteError
     ├── InvalidDefinition            a definition has errors; .problems lists all of them
     ├── BuildError                   a flow cannot be built; the message says what to write instead
     ├── InvalidInput (ValueError)    a value cannot be kept as JSON, or an argument is out of range
     │    ├── MissingCapability       the store cannot do it; .capability says what it lacks
     │    ├── PayloadTooLarge         an input or output is larger than the hard barrier allows
     │    └── InvalidQuery            a search cannot be understood; .position says where
     ├── InvalidExpression            a `${…}` template or a condition cannot be compiled
     ├── ExpressionFailed             a condition could not be evaluated
     ├── MissingExtra (ImportError)   an optional dependency is needed; names the pip command
     ├── ConductorServerError         a Conductor server refuses a request or is away; .status is that of its answer
     ├── NotFound (KeyError)
     │    ├── DefinitionNotFound
     │    ├── ExecutionNotFound
     │    │    └── ExecutionArchived
     │    ├── ScheduleNotFound
     │    └── TaskNotFound
     ├── Conflict                     the verb does not fit the execution's status
     │    ├── AlreadyExists           a definition or an execution of that identity exists
     │    │    └── KeyTaken           another execution has the idempotency key
     │    ├── ExecutionEnded          the execution has ended, and takes no message
     │    ├── MailboxFull             an execution keeps 1,000 messages that no task has received
     │    ├── LimitReached            a limit on executions with the policy REJECT has no slot left
     │    ├── StaleLease              a report with a lease older than the task's
     │    └── Parked                  the execution is parked: resume or terminate it
     ├── ClockError                   a clock was moved backwards, or while a worker was running
     ├── EngineClosed                 the engine or its backend was closed, or forked
     ├── NoThread (RuntimeError)      the system starts no further thread
     ├── ReplayDiverged               a replayed execution did not do what its export records
     ├── ResultTimeout (TimeoutError) the result did not come in time, or never can
     │    └── NoWorker                what is waited for needs a worker, and none can come
     ├── TimedOut (TimeoutError)      raised *in a flow*: a step has run out of time; `except TimedOut` handles it
     ├── WouldDeadlock                a verb would wait for the function that calls it
     ├── WorkflowFailed               the awaited execution ended unsuccessfully
     ├── SourceError                  raised *by a source*: it gives no messages now; asked again later
     ├── SinkError                    raised *by a sink*: it did not take a message; may be retried
     ├── TaskFailedTerminally         raised *by a worker*: fail, and do not retry
     ├── StorageError
     │    ├── StorageBusy             another writer held the store for too long
     │    ├── StorageFull             the disk or the quota is full
     │    ├── StorageReadOnly         the database cannot be written
     │    ├── StorageCorrupt          the file is damaged or is not a conductorlite database
 │    │    └── StorageReplaced    the file was deleted, renamed or replaced while it was open
     │    ├── TooManyOpenFiles        the system opens no further file
 │    ├── StorageUnavailable      the server of the store cannot be reached, or has ended the connection
     │    ├── AccessDenied            the server of a store or a lock refuses the user or the password
     │    ├── LockUnavailable         the lock of turns fails, and no turn goes on without it
     │    ├── PayloadLost             a document is missing in the payload storage, or damaged there
     │    ├── PayloadUnavailable      the payload storage cannot be reached, or refuses
     │    ├── SecretsUnavailable      the secrets of a task cannot be looked up to keep them out of its report
     │    └── SchemaTooNew            the database was written by a newer conductorlite
     ├── FencedOut                    another turn committed first; internal, retried by the engine
     └── InvariantBroken              a law of the engine does not hold; the turn is rolled back
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from conductorlite.model.errors import (
    AccessDenied,
    AlreadyExists,
    BuildError,
    ClockError,
    ConductorliteError,
    ConductorServerError,
    Conflict,
    DefinitionNotFound,
    EngineClosed,
    ExecutionArchived,
    ExecutionEnded,
    ExecutionNotFound,
    ExpressionFailed,
    FencedOut,
    InvalidDefinition,
    InvalidExpression,
    InvalidInput,
    InvalidQuery,
    InvariantBroken,
    KeyTaken,
    LimitReached,
    LockUnavailable,
    MailboxFull,
    MissingCapability,
    MissingExtra,
    NotFound,
    NoThread,
    Parked,
    PayloadLost,
    PayloadTooLarge,
    PayloadUnavailable,
    ReplayDiverged,
    ScheduleNotFound,
    SchemaTooNew,
    SecretsUnavailable,
    SinkError,
    SourceError,
    StaleLease,
    StorageBusy,
    StorageCorrupt,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageReplaced,
    StorageUnavailable,
    TaskFailedTerminally,
    TaskNotFound,
    TooManyOpenFiles,
    WouldDeadlock,
)
from conductorlite.model.executions import Explanation, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus

__all__ = [
    "AccessDenied",
    "AlreadyExists",
    "BuildError",
    "ClockError",
    "ConductorServerError",
    "ConductorliteError",
    "Conflict",
    "DefinitionNotFound",
    "EngineClosed",
    "ExecutionArchived",
    "ExecutionEnded",
    "ExecutionNotFound",
    "ExpressionFailed",
    "FencedOut",
    "InvalidDefinition",
    "InvalidExpression",
    "InvalidInput",
    "InvalidQuery",
    "InvariantBroken",
    "KeyTaken",
    "LimitReached",
    "LockUnavailable",
    "MailboxFull",
    "MissingCapability",
    "MissingExtra",
    "NoThread",
    "NoWorker",
    "NotFound",
    "Parked",
    "PayloadLost",
    "PayloadTooLarge",
    "PayloadUnavailable",
    "ReplayDiverged",
    "ResultTimeout",
    "ScheduleNotFound",
    "SchemaTooNew",
    "SecretsUnavailable",
    "SinkError",
    "SourceError",
    "StaleLease",
    "StorageBusy",
    "StorageCorrupt",
    "StorageError",
    "StorageFull",
    "StorageReadOnly",
    "StorageReplaced",
    "StorageUnavailable",
    "TaskFailedTerminally",
    "TaskNotFound",
    "TimedOut",
    "TooManyOpenFiles",
    "WorkflowFailed",
    "WouldDeadlock",
]


@attrs.frozen(kw_only=True, slots=True)
class Cause:
    """One failure (or, of an execution that has not ended, one wait) and where it is.

    `address` leads down to it: the name of the awaited workflow, the reference of each SUB_WORKFLOW task on the way, and the
    task's own as printed (`capture__2` in the second round of a loop). `workflow_id` is that of the execution it is in; `ref`,
    `task_id` and `attempt` (from 0) are None where an execution failed without a task of its own, as by its timeout. `error_types`
    are the task's: what was raised, and what that came from. `optional`
    failures did not stop anything, by themselves.
    """

    address: tuple[str, ...]
    workflow_id: str
    status: TaskStatus | WorkflowStatus
    reason: str | None = None
    traceback: str | None = None
    error_types: tuple[str, ...] = ()
    ref: str | None = None
    task_id: str | None = None
    attempt: int | None = None
    optional: bool = False
    #: Of each input that is null because a `${…}` found nothing, what is missing.
    nulls: tuple[str, ...] = ()
    #: Where the step is written, `pay.py:41`; None where the engine does not have the flow.
    line: str | None = None

    def __str__(self) -> str:
        where = f"{' › '.join(self.address)}{f' ({self.line})' if self.line else ''}"
        return "; ".join((f"{where}: {self.reason or self.status}", *self.nulls))


class ResultTimeout(ConductorliteError, TimeoutError):
    """The execution did not end in the time given, or it waits for something that nothing here will send.

    Its text begins with what is waited for, down through sub-workflows; `causes` hold the same as data, and `explain` is what
    `Engine.explain` says.
    """

    def __init__(self, text: str, causes: Sequence[Cause] = (), explain: Explanation | None = None) -> None:
        self.causes = tuple(causes)
        self.explain = explain or Explanation()
        super().__init__("\n".join(filter(None, [*_described(self.causes), text, str(self.explain)])))


class TimedOut(ConductorliteError, TimeoutError):
    """A step of a flow has run out of time: `except TimedOut` around a task, a flow, `human`, `wait` or `receive` handles it."""


class NoWorker(ResultTimeout):
    """A call without a timeout waits for a task that nobody can carry out: the store is in memory, and no worker of this process
    takes the task's type. Raised after a few seconds in which nothing happened and nobody has polled for it.
    """


class WorkflowFailed(ConductorliteError):
    """The awaited execution ended FAILED, TIMED_OUT or TERMINATED; `workflow` is the whole execution.

    Its text begins with the root cause, `booking › payment › capture: over the limit`, and the traceback from there. `causes` hold
    the root cause and what else failed, optional tasks last, each with its own address.
    """

    def __init__(self, workflow: Workflow, causes: Sequence[Cause] = ()) -> None:
        self.workflow = workflow
        self.causes = tuple(causes)
        failed = [task for task in workflow.tasks if task.ref in workflow.failed_refs]
        self.task = failed[-1] if failed else None
        text = f"workflow {workflow.name!r} ({workflow.workflow_id}) is {workflow.status}"
        if workflow.reason:
            text += f": {workflow.reason}"
        if self.task is not None:
            text += f" [task {self.task.ref!r}, {self.task.attempt + 1} attempt(s)]"
            if self.task.traceback and not self.causes:
                text += f"\n{self.task.traceback}"
        super().__init__("\n".join([*_described(self.causes), text]))


def _described(causes: Sequence[Cause]) -> list[str]:
    """The root cause with its traceback, then what else failed, a line each."""
    if not causes:
        return []
    root, *others = causes
    trace = [root.traceback.rstrip()] if root.traceback else []
    return [str(root), *trace, *(f"{'also, optional' if one.optional else 'also'}: {one}" for one in others)]
