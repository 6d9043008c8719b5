"""What may become of one call of a worker, as plain values; and the verbs that may be used.

    may = {"charge": ["ok", "fails", "late"], "quote": [{"price": 7}, {"price": None}, "takes 2h"]}

A dict is an output that completes the task; a text is one of `OUTCOMES`, or `takes` and a length of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from conductorlite.model import attrs
from conductorlite.model.canonical import canonical
from conductorlite.model.definitions import TaskType, WorkflowDef
from conductorlite.model.errors import InvalidInput
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.texts import did_you_mean, to_span
from conductorlite.plan.tree import walk
from conductorlite.testing.steps import base_ref

__all__ = ["OUTCOMES", "Outcome", "check_names", "outcomes_of", "verb_fits", "verb_names"]

_VERBS: Final = ("pause", "resume", "terminate", "retry", "restart", "rerun", "rerun from", "skip")


#: What runs tasks that no definition names.
_OPEN: Final = (TaskType.DYNAMIC, TaskType.FORK_JOIN_DYNAMIC, TaskType.START_WORKFLOW)


@attrs.frozen(kw_only=True, slots=True)
class Outcome:
    """What becomes of a call. `acts`: its effect happens, when the task is picked up.

    `status` is what is reported, None for nothing. `takes_ms` is how long the call takes, with signs of life. `late` reports after
    the response timeout, and lives without a sign. `reports` is how often. With `alive` and no status the worker hangs, and lives.
    `always` is what every later attempt at the task comes to as well. `unpolled`: no worker takes it until something else is due.
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
    listed = [said] if isinstance(said, str | Mapping) else said
    if not isinstance(listed, Sequence) or not listed:
        raise InvalidInput(f"what {task!r} may do is a list of outputs and of {', '.join(OUTCOMES)}, not {said!r:.80}")
    return tuple(_outcome(one, task, output) for one in listed for output in [_first_output(listed)])


def _first_output(listed: Sequence[object]) -> Mapping[str, Any]:
    """What a named outcome puts out, if it completes the task: the first output that is in the list."""
    return next((one for one in listed if isinstance(one, Mapping)), {})


def _outcome(said: object, task: str, output: Mapping[str, Any]) -> Outcome:
    if isinstance(said, Outcome):
        return said
    if isinstance(said, Mapping):
        return Outcome(name=f"gives {canonical(dict(said), where=task)}", output=said)
    if isinstance(said, str) and said.startswith("takes "):
        span = said.removeprefix("takes ")
        return Outcome(name=said, output=output, takes_ms=to_span(span), alive=True)
    if isinstance(said, str) and said in OUTCOMES:
        found = OUTCOMES[said]
        return attrs.evolve(found, output=output) if found.status is TaskStatus.COMPLETED else found
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
        name, _, ref = verb.rpartition(" ")
        if verb not in _VERBS[:-2] and (name not in _VERBS[-2:] or not ref):
            raise InvalidInput(f"there is no verb {verb!r:.80}; use {', '.join(_VERBS[:-2])}, 'rerun from REF' or 'skip REF'")
    return tuple(verbs)


def verb_fits(verb: str, *, over: bool, paused: bool) -> bool:
    """Whether a verb may be tried on an execution that is over, or paused."""
    if verb in ("retry", "restart"):
        return over
    if verb.startswith("rerun"):
        return not paused
    return not over and (verb == "resume") == paused if verb in ("pause", "resume") else not over
