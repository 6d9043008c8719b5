"""Where each reference of a definition stands: what is around it, and its place in its list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from conductorlite.definitions import WorkflowDef, WorkflowTask

__all__ = ["Spot", "Step", "in_words", "renamed", "spots"]


@attrs.frozen(kw_only=True, slots=True)
class Step:
    """One list of tasks inside a task: `kind` is case, default, branch or body; `key` names the case or numbers the branch."""

    ref: str
    kind: str
    key: str | int = ""

    def __str__(self) -> str:
        match self.kind:
            case "case":
                return f"case {self.key!r} of {self.ref!r}"
            case "default":
                return f"the default of {self.ref!r}"
            case "branch":
                return f"a branch of {self.ref!r}"
            case _:
                return f"the loop {self.ref!r}"


@attrs.frozen(kw_only=True, slots=True, eq=False)
class Spot:
    """One task, what is around it (outermost first), and its index in its list."""

    task: WorkflowTask
    around: tuple[Step, ...]
    index: int
    #: The sibling just before, if any.
    previous: WorkflowTask | None

    @property
    def loops(self) -> tuple[str, ...]:
        """The loops around it, outermost first."""
        return tuple(step.ref for step in self.around if step.kind == "body")


def spots(definition: WorkflowDef) -> dict[str, Spot]:
    """Every task by its reference, in document order; inline sub-workflows are not entered."""
    found: dict[str, Spot] = {}
    pending = _listed(definition.tasks, ())
    while pending:
        spot = pending.pop()
        found[spot.task.task_reference_name] = spot
        inner = [_listed(tasks, (*spot.around, step)) for step, tasks in _inside(spot.task)]
        pending += [below for listed in reversed(inner) for below in listed]
    return found


def _listed(tasks: Sequence[WorkflowTask], around: tuple[Step, ...]) -> list[Spot]:
    """The tasks of one list, last first, as a stack wants them."""
    return [
        Spot(task=tasks[index], around=around, index=index, previous=tasks[index - 1] if index else None)
        for index in reversed(range(len(tasks)))
    ]


def _inside(task: WorkflowTask) -> Iterator[tuple[Step, Sequence[WorkflowTask]]]:
    ref = task.task_reference_name
    for key, tasks in task.decision_cases.items():
        yield Step(ref=ref, kind="case", key=key), tasks
    yield Step(ref=ref, kind="default"), task.default_case
    for number, tasks in enumerate(task.fork_tasks):
        yield Step(ref=ref, kind="branch", key=number), tasks
    yield Step(ref=ref, kind="body"), task.loop_over


def renamed(around: Sequence[Step], refs: Mapping[str, str]) -> tuple[Step, ...]:
    """The same way down, by the new names; branches of a fork are not told apart: only their order may differ."""
    return tuple(
        attrs.evolve(step, ref=refs.get(step.ref, step.ref), key="" if step.kind == "branch" else step.key) for step in around
    )


def in_words(around: Sequence[Step]) -> str:
    """Where a list of tasks is."""
    return " in ".join(str(step) for step in reversed(around)) or "the workflow itself"
