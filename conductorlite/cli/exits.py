"""Exit codes: what each means, and which error ends with which."""

from __future__ import annotations

from enum import IntEnum

from conductorlite.errors import (
    ConductorliteError,
    Conflict,
    InvalidDefinition,
    InvalidExpression,
    InvalidInput,
    MissingExtra,
    NotFound,
    ResultTimeout,
    StorageError,
    WorkflowFailed,
)

__all__ = ["Exit", "exit_code"]


class Exit(IntEnum):
    """What the process says when it ends."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    STORAGE = 5
    TIMEOUT = 6
    INTERNAL = 70
    INTERRUPTED = 130
    PIPE = 141
    TERMINATED = 143

    @property
    def meaning(self) -> str:
        """In words, for the documentation."""
        return _MEANINGS[self]


_MEANINGS = {
    Exit.OK: "done; `run`: the execution is COMPLETED",
    Exit.FAILED: "the execution ended FAILED, TIMED_OUT or TERMINATED; `check`, `validate` or `diff` found something",
    Exit.USAGE: "wrong arguments, an unreadable or invalid file or definition, or a missing extra",
    Exit.NOT_FOUND: "no such execution, task, definition or database",
    Exit.CONFLICT: "the command does not fit the status, the id or the idempotency key is taken, or `migrate` is blocked",
    Exit.STORAGE: "the database is busy, full, read-only, damaged or too new",
    Exit.TIMEOUT: "`run --timeout`: the execution did not end in time; it goes on with the next `run`",
    Exit.INTERNAL: "an error that should not happen; `--debug` shows where",
    Exit.INTERRUPTED: "Ctrl-C; running tasks were finished, the execution goes on with the next `run`",
    Exit.PIPE: "whoever reads the answer has closed it, as `head` does; what a command changes is done",
    Exit.TERMINATED: "SIGTERM; likewise",
}

_CODES: tuple[tuple[type[Exception], Exit], ...] = (
    (NotFound, Exit.NOT_FOUND),
    (Conflict, Exit.CONFLICT),
    (StorageError, Exit.STORAGE),
    (ResultTimeout, Exit.TIMEOUT),
    (WorkflowFailed, Exit.FAILED),
    (InvalidDefinition, Exit.USAGE),
    (InvalidInput, Exit.USAGE),
    (InvalidExpression, Exit.USAGE),
    (MissingExtra, Exit.USAGE),
    (OSError, Exit.USAGE),
)


def exit_code(error: ConductorliteError | OSError) -> Exit:
    """The exit code an error ends the process with."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), Exit.INTERNAL)
