"""Subject of a search, what may happen in it, and what is so at a moment beside the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from conductorlite.model.decisions import Message
from conductorlite.model.definitions import WorkflowDef
from conductorlite.model.executions import Task
from conductorlite.model.texts import to_instant
from conductorlite.runtime.engine import Engine
from conductorlite.testing.exploration.invariants import Act
from conductorlite.testing.exploration.outcomes import Outcome

__all__ = ["BEGIN", "END", "ROOT", "Action", "Call", "Case", "Endless", "Situation", "before"]

#: The id of the execution that is looked at; further ones have a number.
ROOT: Final = "run"

#: When it begins, epoch ms.
BEGIN: Final = to_instant("2030-01-01T00:00:00+00:00")


class Endless(Exception):
    """Internal: what one action has led to does not come to rest."""


@attrs.frozen(kw_only=True, slots=True)
class Case:
    """Subject of a search: the definition and how it starts, and what may happen to it."""

    start: Callable[[Engine, str], object]
    definitions: Sequence[WorkflowDef] = ()
    #: What the calls of a task may come to, by reference or task type, and of every other one.
    may: Mapping[str, tuple[Outcome, ...]] = attrs.field(factory=dict)
    others: tuple[Outcome, ...] = ()
    #: What a signal to a task may bring, by reference.
    signals: Mapping[str, Sequence[object]] = attrs.field(factory=dict)
    verbs: tuple[str, ...] = ()
    #: Definitions that the first execution may be moved to, and those that may be registered while executions run.
    migrations: Sequence[WorkflowDef] = ()
    registrations: Sequence[WorkflowDef] = ()
    #: Payloads of messages from outside, by event, each handed to the event handlers once.
    messages: Mapping[str, Sequence[Any]] = attrs.field(factory=dict)
    #: Values sent to the mailbox of each execution that is started, by topic, each once.
    sends: Mapping[str, Sequence[Any]] = attrs.field(factory=dict)
    #: Tasks whose effect happens once, however often their worker is called: they hand on the idempotency key.
    idempotent: frozenset[str] = frozenset()
    executions: int = 1
    setup: Callable[[Engine], object] | None = None
    until_ms: int | None = None
    #: Whether the order in which tasks are picked up matters from the beginning.
    orders: bool = False


@attrs.frozen(kw_only=True, slots=True)
class Action:
    """One thing that may happen now: `label` says it for people, and knows it again in a run that came the same way."""

    kind: str
    label: str
    message: Message | None = None
    outcome: Outcome | None = None
    number: int = 0
    name: str = ""
    value: Any = None


#: Nothing is left that happens by itself.
END: Final = Action(kind="end", label="the end")


@attrs.frozen(kw_only=True, slots=True)
class Call:
    """A call that a worker has begun and may yet report."""

    task: Task
    outcome: Outcome
    at: int | None
    number: int


@attrs.frozen(kw_only=True, slots=True)
class Situation:
    """State that is not in the store: the time, the workers, and what was used up."""

    now: int = BEGIN
    calls: tuple[Call, ...] = ()
    acts: tuple[Act, ...] = ()
    keys: frozenset[tuple[str, str]] = frozenset()
    #: How a task goes on, once an outcome was chosen for good.
    always: tuple[tuple[str, str, Outcome], ...] = ()
    signaled: tuple[tuple[tuple[str, str], int], ...] = ()
    used: tuple[str, ...] = ()
    started: int = 0
    picked: int = 0
    #: What START_WORKFLOW tasks have started, each with who did; how many executions were given a number.
    begun: frozenset[tuple[str, str]] = frozenset()
    named: int = 0


def before(said: Sequence[object]) -> list[str]:
    """References of the tasks that must be done before a signal or a message comes: those of "after REF"."""
    return [one.removeprefix("after ") for one in said if isinstance(one, str) and one.startswith("after ")]
