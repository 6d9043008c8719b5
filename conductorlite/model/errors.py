"""Every exception raised on purpose but those that carry rows: they are in `errors.py`, with the tree."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import attrs

from conductorlite.model.pickling import Portable

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
    "NoHelper",
    "NoThread",
    "NotFound",
    "Parked",
    "PayloadLost",
    "PayloadTooLarge",
    "PayloadUnavailable",
    "Problem",
    "ReplayDiverged",
    "ScheduleNotFound",
    "SchemaTooNew",
    "SecretsUnavailable",
    "Severity",
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
    "TakesLong",
    "TaskFailedTerminally",
    "TaskNotFound",
    "TooManyOpenFiles",
    "WouldDeadlock",
    "raised_by",
]


class Severity(StrEnum):
    """Severity of a problem: an error prevents the definition from being used, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@attrs.frozen(kw_only=True, slots=True)
class Problem:
    """One finding of the validator: where (`path`, a JSON path such as `$.tasks[2].joinOn[0]`), what, and how bad."""

    path: str
    message: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" + (" (warning)" if self.severity is Severity.WARNING else "")


class ConductorliteError(Portable, Exception):
    """Root of every exception that conductorlite raises on purpose."""


class InvalidDefinition(ConductorliteError):
    """A definition has errors; `problems` holds all of them, each with its JSON path."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [f"  {problem}" for problem in self.problems]
        count = len(self.problems)
        super().__init__("\n".join([f"{count} problem{'s' if count != 1 else ''}:", *lines]))


class BuildError(ConductorliteError):
    """A flow cannot be built: what its function says has no meaning for references. The message says what to write instead."""


class InvalidInput(ConductorliteError, ValueError):
    """A value cannot be kept as JSON, or an argument is out of its range; the message names the path."""


class PayloadTooLarge(InvalidInput):
    """An input or output of a task or workflow is larger than its hard barrier allows; the message names both sizes."""


class InvalidQuery(InvalidInput):
    """A search cannot be understood; `position` is the character of the query, free text or sort at which that shows, from 0."""

    def __init__(self, message: str, position: int) -> None:
        self.position = position
        super().__init__(f"{message} (at character {position})")


class InvalidExpression(ConductorliteError):
    """A `${…}` template or a condition cannot be compiled; the message quotes it and says where."""


class ExpressionFailed(ConductorliteError):
    """A condition could not be evaluated on the values it was given."""

    #: Of an expression of Python, the type of the exception that it raised.
    error_types: tuple[str, ...] = ()
    #: The classes above it, but for those that are known by its name.
    error_bases: tuple[str, ...] = ()


def raised_by(error: Exception) -> dict[str, tuple[str, ...]]:
    """The fields of an attempt that say which exception an expression has raised."""
    if not isinstance(error, ExpressionFailed) or not error.error_types:
        return {}
    return {"error_types": error.error_types, "error_bases": error.error_bases}


class MissingExtra(ConductorliteError, ImportError):
    """An optional dependency is needed; the message names the pip command that installs it."""

    def __init__(self, extra: str, purpose: str) -> None:
        self.extra = extra
        super().__init__(f"{purpose} needs an optional dependency: pip install 'conductorlite[{extra}]'")


class ConductorServerError(ConductorliteError):
    """A Conductor server refuses a request, or cannot be reached; `status` is that of its HTTP answer, 0 when there was none."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class NotFound(ConductorliteError, KeyError):
    """Something that was asked for by name or id does not exist."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class DefinitionNotFound(NotFound):
    """No definition is registered under that name (and version)."""


class ExecutionNotFound(NotFound):
    """No execution has that workflow id."""


class ExecutionArchived(ExecutionNotFound):
    """The execution is archived: `get`, `history`, `explain`, `export` and other verbs that look know it, none changes it."""

    def __init__(self, workflow_id: str) -> None:
        self.workflow_id = workflow_id
        super().__init__(
            f"execution {workflow_id!r} is archived: it can be looked at, exported and removed, and nothing changes it any more; "
            "to run it again, start its workflow with the same input"
        )


class ScheduleNotFound(NotFound):
    """No schedule has that name."""


class TaskNotFound(NotFound):
    """No task of that id or reference exists in the execution."""


class Conflict(ConductorliteError):
    """The verb does not fit the status the execution is in."""


class AlreadyExists(Conflict):
    """A definition with that name and version, or an execution with that id, exists already."""


class KeyTaken(AlreadyExists):
    """An idempotency key belongs to another execution of that workflow; `workflow_id` is its id."""

    def __init__(self, workflow_id: str, text: str) -> None:
        self.workflow_id = workflow_id
        super().__init__(text)


class ExecutionEnded(Conflict):
    """The execution has ended, and takes no message: nothing was kept."""


class MailboxFull(Conflict):
    """An execution keeps 1,000 messages that no task of it has received, and no more: nothing was kept; send it again later."""


class LimitReached(Conflict):
    """A limit on executions has all its slots in use, and its policy is REJECT: nothing was started."""


class StaleLease(Conflict):
    """A report carried a lease older than the task's; nothing was changed."""


class Parked(Conflict):
    """The execution is parked, for turns of it broke an invariant: only `resume`, `terminate` and looking are possible."""


class ClockError(ConductorliteError):
    """A clock was moved backwards, or while a worker was running; or virtual time would go on for ever."""


class EngineClosed(ConductorliteError):
    """The engine or its backend was closed, or the process was forked after it was opened."""


class WouldDeadlock(ConductorliteError):
    """A verb would wait for its own caller: a worker's function, a listener, a source, a block that drives; nothing was done."""


class ReplayDiverged(ConductorliteError):
    """A replayed execution did not do what its export records: `expected` and `actual` are the first lines that differ.

    Either is None where its history has ended. `workflow_id` says whose history it is: the exported one's, or that of one below.
    """

    def __init__(self, workflow_id: str, expected: str | None, actual: str | None) -> None:
        self.workflow_id = workflow_id
        self.expected = expected
        self.actual = actual
        recorded, did = (line or "nothing more" for line in (expected, actual))
        super().__init__(f"the replay of {workflow_id} differs\nexported: {recorded}\nreplayed: {did}")


class TaskFailedTerminally(ConductorliteError):
    """Raise this in a worker to fail its task without a retry (FAILED_WITH_TERMINAL_ERROR)."""


class SinkError(ConductorliteError):
    """Raise this in a sink that cannot take a message: the task that publishes it fails, and may be retried."""


class SourceError(ConductorliteError):
    """Raise this in a source that cannot give messages now: it is asked again a second later."""


class MissingCapability(InvalidInput):
    """The store cannot do what was asked of it, or of the part it was given: `capability` says what it lacks; nothing was done."""

    def __init__(self, capability: str, text: str) -> None:
        self.capability = capability
        super().__init__(text)


class StorageError(ConductorliteError):
    """The store could not do what was asked; nothing was half-written."""


class StorageBusy(StorageError):
    """Another writer held the store for longer than the busy timeout."""


class StorageFull(StorageError):
    """The disk, or the quota of the database, is full."""


class StorageReadOnly(StorageError):
    """The database file or its folder cannot be written."""


class StorageCorrupt(StorageError):
    """The file is damaged, or it is not a conductorlite database."""


class StorageReplaced(StorageCorrupt):
    """The database file, its log or its shared memory was deleted, renamed or replaced while it was open.

    What was done last is not acknowledged, and the engine does nothing more. It may be stored in the file that was open.
    """


class TooManyOpenFiles(StorageError):
    """The system opens no further file, for this process or at all; what was asked may be asked again when some are closed."""


class StorageUnavailable(StorageError):
    """The server of the store cannot be reached, or has ended the connection; what was asked may be asked again."""


class AccessDenied(StorageError):
    """The server of a store or a lock refuses the user or the password."""


class LockUnavailable(StorageError):
    """The lock of turns cannot be reached, or fails, and no turn goes on without it; nothing was changed."""


class PayloadLost(StorageError):
    """A document is missing in the payload storage, or is not what was put there; `key` says which."""

    def __init__(self, key: str, problem: str) -> None:
        self.key = key
        super().__init__(f"payload {key} {problem}")


class PayloadUnavailable(StorageError):
    """The payload storage cannot be reached, or refuses what was asked of it; nothing was changed."""


class SecretsUnavailable(StorageError):
    """The provider of secrets cannot be asked what a report must not hold; nothing was stored, report it again."""


class SchemaTooNew(StorageError):
    """The database was written by a newer conductorlite than this one."""


class NoThread(ConductorliteError, RuntimeError):
    """The system starts no further thread: there are too many, or the interpreter ends. What was to run in it has not begun."""


class FencedOut(ConductorliteError):
    """Another turn of the same workflow committed first; the engine reloads and decides again.

    `stored` are the executions whose turns of the same change are committed all the same: in a store without `one commit`.
    """

    def __init__(self, text: str, *, stored: frozenset[str] = frozenset()) -> None:
        super().__init__(text)
        self.stored = stored


class InvariantBroken(ConductorliteError):
    """A law of the engine does not hold; the turn that found it is rolled back."""

    #: Whether the engine has logged this error.
    logged = False


class NoHelper(Exception):
    """A helper was needed where none may be waited for; internal."""


class TakesLong(Exception):
    """Foreign code takes longer than a caller in haste waits for it; internal.

    `tried` says that it has begun, or took long before, `inside` that it runs in this process; `name` is that of the definition.
    """

    def __init__(self, *, tried: bool, inside: bool = False, name: str = "") -> None:
        super().__init__("foreign code takes long")
        self.tried, self.inside, self.name = tried, inside, name
