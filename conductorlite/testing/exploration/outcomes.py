"""Outcomes that one call of a worker may have, as plain values; and the verbs that may be used.

    may = {"charge": ["ok", "fails", "late"], "quote": [{"price": 7}, {"price": None}, "takes 2h"]}

A dict is an output that completes the task; a function of the execution, a `RunState`, gives one that hangs on what has happened so
far; a text is one of `OUTCOMES`, or `takes` and a length of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from conductorlite.model.canonical import canonical
from conductorlite.model.definitions import TaskType, WorkflowDef
from conductorlite.model.errors import InvalidInput
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.texts import did_you_mean, to_span
from conductorlite.plan.tree import walk
from conductorlite.testing.steps import base_ref

__all__ = ["OUTCOMES", "Outcome", "check_names", "named_by", "outcomes_of", "verb_fits", "verb_names", "verb_parts"]

_OF_CHILDREN: Final = ("pause", "resume", "terminate", "retry", "restart")
_VERBS: Final = (*_OF_CHILDREN, "rerun")
_OF_TASKS: Final = ("rerun from", "fork from", "skip", "emit from")
#: Verbs about the name of a value.
_OF_NAMES: Final = ("set_value",)


#: What runs tasks that no definition names.
_OPEN: Final = (TaskType.DYNAMIC, TaskType.FORK_JOIN_DYNAMIC, TaskType.START_WORKFLOW)


@attrs.frozen(kw_only=True, slots=True)
class Outcome:
    """Outcome of a call. `acts`: its effect happens, when the task is picked up.

    `status` is what is reported, None for nothing. `takes_ms` is how long the call takes, with signs of life. `late` reports after
    the response timeout, and lives without a sign. `reports` is how often. With `alive` and no status the worker hangs, and lives.
    `always` is what every later attempt at the task comes to as well. `unpolled`: no worker takes it until something else is due.
    `answers` gives the output when the task is picked up, in the place of `output`.
    """

    name: str
    status: TaskStatus | None = TaskStatus.COMPLETED
    output: Mapping[str, Any] = attrs.field(factory=dict, hash=False)
    acts: bool = True
    takes_ms: int = 0
    late: bool = False
    reports: int = 1
    alive: bool = False
    always: bool = False
    unpolled: bool = False
    answers: Callable[[Any], Mapping[str, Any]] | None = None

    def answering(self, run: object) -> Outcome:
        """Return this outcome with the output that it has for that execution now."""
        if self.answers is None:
            return self
        output = self.answers(run)
        if not isinstance(output, Mapping):
            raise InvalidInput(f"an output is a dict, not {output!r:.80}")
        name = " ".join(filter(None, (self.name, _given(output, "$"))))
        return attrs.evolve(self, name=name, output=output, answers=None)


def _given(output: Mapping[str, Any], task: str) -> str:
    return f"gives {canonical(dict(output), where=task)}"


_FAILED, _TERMINAL = TaskStatus.FAILED, TaskStatus.FAILED_WITH_TERMINAL_ERROR

#: Outcomes by name.
OUTCOMES: Final[Mapping[str, Outcome]] = {
    one.name: one
    for one in (
        Outcome(name="ok"),
        Outcome(name="fails", status=_FAILED, acts=False),
        Outcome(name="fails_for_good", status=_TERMINAL, acts=False),
        Outcome(name="fails_always", status=_FAILED, acts=False, always=True),
        Outcome(name="acts_then_fails", status=_FAILED),
        Outcome(name="acts_then_crashes", status=None),
        Outcome(name="times_out", status=None, acts=False),
        Outcome(name="never", status=None, acts=False, alive=True, always=True),
        Outcome(name="late", late=True),
        Outcome(name="twice", reports=2),
        Outcome(name="unpolled", unpolled=True),
    )
}


def outcomes_of(said: object, task: str) -> tuple[Outcome, ...]:
    """The outcomes that stand for what was said of a task, its ordinary one first; raises InvalidInput for what is none."""
    listed = [said] if isinstance(said, str | Mapping) or callable(said) else said
    if not isinstance(listed, Sequence) or not listed:
        raise InvalidInput(
            f"what {task!r} may do is a list of outputs, of functions that give one, and of {', '.join(OUTCOMES)}, not {said!r:.80}"
        )
    outcomes = tuple(_outcome(one, task, _usual(listed)) for one in listed)
    known: dict[str, tuple[Outcome, str]] = {}
    for one in outcomes:
        same = one, canonical(dict(one.output), where=task)
        if one.answers is None and known.setdefault(one.name, same) != same:
            raise InvalidInput(
                f"two outcomes of {task!r} are called {one.name!r}: give each a name of its own, which schedules use"
            )
    return outcomes


def _usual(listed: Sequence[object]) -> Mapping[str, Any]:
    """Fields of a named outcome that completes the task: it puts out the first output that is in the list."""
    return next((_putting_out(one) for one in listed if isinstance(one, Mapping) or callable(one)), {})


def _putting_out(said: Any) -> Mapping[str, Any]:
    return {"output": said} if isinstance(said, Mapping) else {"answers": said}


def _outcome(said: object, task: str, usual: Mapping[str, Any]) -> Outcome:
    if isinstance(said, Outcome):
        return said
    if isinstance(said, Mapping):
        return Outcome(name=_given(said, task), output=said)
    if callable(said):
        return Outcome(name="", answers=said)
    if isinstance(said, str) and said.startswith("takes "):
        return Outcome(name=said, takes_ms=to_span(said.removeprefix("takes ")), alive=True, **usual)
    if isinstance(said, str) and said in OUTCOMES:
        found = OUTCOMES[said]
        return attrs.evolve(found, **usual) if found.status is TaskStatus.COMPLETED else found
    hint = did_you_mean(said, OUTCOMES) if isinstance(said, str) else ""
    raise InvalidInput(f"{task!r} cannot come to {said!r:.80}{hint}; use an output or one of {', '.join(OUTCOMES)}")


def check_names(definitions: Iterable[WorkflowDef], said: Iterable[str]) -> None:
    """Raises InvalidInput for a reference or a task type that none of the definitions has, unless others may run below them."""
    waiting, known = list(definitions), set[str]()
    named = {one.name for one in waiting}
    for one in waiting:
        if one.failure_workflow is not None and one.failure_workflow not in named:
            return
        for task in (position.task for position in walk(one)):
            known |= {task.task_reference_name, task.name, task.type}
            below = task.sub_workflow_param
            inline = getattr(below, "workflow_definition", None)
            if isinstance(inline, WorkflowDef):
                waiting.append(inline)
            elif task.type in _OPEN or (below is not None and getattr(below, "name", None) not in named):
                return
    for name in said:
        if name not in known and base_ref(name) not in known:
            raise InvalidInput(f"there is no task {name!r}{did_you_mean(name, known)}")


def verb_names(verbs: Sequence[str]) -> tuple[str, ...]:
    """Verbs as a search is given them; raises InvalidInput for what is none."""
    for verb in verbs:
        name, ref = verb_parts(verb)
        if name not in ((*_OF_TASKS, *_OF_NAMES) if ref else _VERBS) and name not in (_OF_CHILDREN if ref else ()):
            listed = ", ".join((*_VERBS, *(f"{one} REF" for one in _OF_TASKS), "set_value NAME"))
            raise InvalidInput(f"there is no verb {verb!r:.80}; use {listed}, or of a child {', '.join(_OF_CHILDREN)} and its REF")
    return tuple(verbs)


def verb_parts(verb: str) -> tuple[str, str]:
    """The verb itself, and the reference that it is about, or nothing."""
    name, _, ref = verb.rpartition(" ")
    return (name, ref) if name else (verb, "")


def named_by(verb: str) -> str:
    """The reference of a task that a verb is about; empty for one that is about none."""
    name, ref = verb_parts(verb)
    return "" if name in _OF_NAMES else ref


def verb_fits(verb: str, *, over: bool, paused: bool) -> bool:
    """Return True if a verb may be tried on an execution that is over, or paused."""
    name, _ = verb_parts(verb)
    if name in ("retry", "restart"):
        return over
    if name.startswith("rerun"):
        return not paused
    if name == "fork from":
        return True
    return not over and (name == "resume") == paused if name in ("pause", "resume") else not over
