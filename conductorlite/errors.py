"""Every exception conductorlite raises on purpose.

The tree::

    ConductorliteError
     ├── InvalidDefinition            a definition has errors; .problems lists all of them
     ├── InvalidInput (ValueError)    a value cannot be kept as JSON, or an argument is out of range
     │    └── PayloadTooLarge         an input or output is larger than the hard barrier allows
     │    └── InvalidQuery            a search cannot be understood; .position says where
     ├── InvalidExpression            a `${…}` template or a condition cannot be compiled
     ├── ExpressionFailed             a condition could not be evaluated
     ├── MissingExtra (ImportError)   an optional dependency is needed; names the pip command
     ├── NotFound (KeyError)
     │    ├── DefinitionNotFound
     │    ├── ExecutionNotFound
     │    │    └── ExecutionArchived
     │    ├── ScheduleNotFound
     │    └── TaskNotFound
     ├── Conflict                     the verb does not fit the execution's status
     │    ├── AlreadyExists           a definition or an execution of that identity exists
     │    │    └── KeyTaken           another execution has the idempotency key
     │    ├── LimitReached            a limit on executions with the policy REJECT has no slot left
     │    ├── StaleLease              a report with a lease older than the task's
     │    └── Parked                  the execution is parked: resume or terminate it
     ├── ClockError                   a clock was moved backwards, or while a worker was running
     ├── EngineClosed                 the engine or its backend was closed, or forked
     ├── NoThread (RuntimeError)      the system starts no further thread
     ├── ReplayDiverged               a replayed execution did not do what its export tells
     ├── ResultTimeout (TimeoutError) the result did not come in time, or never can
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
     │    ├── LockUnavailable         the lock of turns fails, and there is no fence to go without it
     │    ├── PayloadLost             a document is missing in the payload storage, or damaged there
     │    ├── PayloadUnavailable      the payload storage cannot be reached, or refuses
     │    ├── SecretsUnavailable      the secrets of a task cannot be looked up to keep them out of its report
     │    └── SchemaTooNew            the database was written by a newer conductorlite
     ├── FencedOut                    another turn committed first; internal, retried by the engine
     └── InvariantBroken              a law of the engine does not hold; the turn is rolled back
"""

from __future__ import annotations

from conductorlite.model.errors import (
    AlreadyExists,
    ClockError,
    ConductorliteError,
    Conflict,
    DefinitionNotFound,
    EngineClosed,
    ExecutionArchived,
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
    TaskFailedTerminally,
    TaskNotFound,
    WouldDeadlock,
)
from conductorlite.model.failures import ResultTimeout, WorkflowFailed

__all__ = [
    "AlreadyExists",
    "ClockError",
    "ConductorliteError",
    "Conflict",
    "DefinitionNotFound",
    "EngineClosed",
    "ExecutionArchived",
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
    "MissingExtra",
    "NoThread",
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
    "TaskFailedTerminally",
    "TaskNotFound",
    "WorkflowFailed",
    "WouldDeadlock",
]
