"""Two definitions compared: what was added, removed, changed, moved, and what was perhaps only renamed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from conductorlite.model.definitions import SubWorkflowParams, TaskDef, WorkflowDef, WorkflowTask
from conductorlite.model.scalars import json_names
from conductorlite.plan.tree import Branch, TreePosition, positions

__all__ = ["DefinitionDiff", "describe_branches", "diff", "renamed"]


def renamed(around: Sequence[Branch], refs: Mapping[str, str]) -> tuple[Branch, ...]:
    """Return the same way down, by the new names; branches of a fork are not distinguished: only their order may differ."""
    return tuple(
        attrs.evolve(branch, ref=refs.get(branch.ref, branch.ref), key="" if branch.kind == "branch" else branch.key)
        for branch in around
    )


def describe_branches(around: Sequence[Branch]) -> str:
    """Return where a list of tasks is."""
    return " in ".join(str(branch) for branch in reversed(around)) or "the workflow itself"


@attrs.frozen(kw_only=True, slots=True)
class DefinitionDiff:
    """Differences of two definitions; empty (false) when there are none. `str()` is a line per difference.

    Fields have their names in Conductor's JSON; those of a task definition and of a sub-workflow's parameters are named with
    what they are in (`taskDefinition.retryCount`). Source of the rule: none in Conductor, which compares nothing.
    """

    name: str
    old_version: int
    new_version: int
    #: The workflow's own fields that differ, its name and version apart.
    fields: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    #: Where it stood, and where it stands.
    moved: Mapping[str, tuple[str, str]] = attrs.field(factory=dict)
    #: Removed references that come again under another name at the same place: candidates for `refs`.
    renamed: Mapping[str, str] = attrs.field(factory=dict)
    #: Inline sub-workflows that differ, by the reference of their task.
    inside: Mapping[str, DefinitionDiff] = attrs.field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self.fields or self.added or self.removed or self.changed or self.moved)

    def __str__(self) -> str:
        head = f"{self.name} {self.old_version} → {self.new_version}"
        lines = [f"  {line}" for line in self._lines()]
        return "\n".join([f"{head}:", *lines]) if lines else f"{head}: no difference"

    def _lines(self) -> Iterator[str]:
        if self.fields:
            yield f"~ workflow: {', '.join(self.fields)}"
        yield from (f"+ {ref}" for ref in self.added)
        yield from (f"- {ref}" for ref in self.removed)
        yield from (f"~ {ref}: {', '.join(names)}" for ref, names in self.changed.items())
        for ref, (before, after) in self.moved.items():
            yield f"> {ref}: {f'from {before} to {after}' if before != after else f'elsewhere in {before}'}"
        yield from (f"? {old} → {new}: perhaps renamed" for old, new in self.renamed.items())
        for ref, inner in self.inside.items():
            yield from (f"{ref} / {line.strip() if not number else line[2:]}" for number, line in enumerate(str(inner).split("\n")))


#: What identifies a task or contains others is compared by place, not by value.
_PLACED: Final = frozenset(
    {"task_reference_name", "decision_cases", "default_case", "fork_tasks", "loop_over", "task_definition", "sub_workflow_param"}
)


def diff(old: WorkflowDef, new: WorkflowDef) -> DefinitionDiff:
    """Compare two definitions, including task definitions and inline sub-workflows.

    Compare like with like: the definition of an execution holds the registered task definitions and the pinned sub-workflows,
    which a definition as it was written does not.
    """
    before, after = positions(old), positions(new)
    kept = [ref for ref in after if ref in before]
    changed = {ref: tuple(_changes(before[ref].task, after[ref].task)) for ref in kept}
    removed = tuple(ref for ref in before if ref not in after)
    added = tuple(ref for ref in after if ref not in before)
    return DefinitionDiff(
        name=new.name,
        old_version=old.version,
        new_version=new.version,
        fields=tuple(_fields(old, new, frozenset({"version", "tasks"}))),
        added=added,
        removed=removed,
        changed={ref: names for ref, names in changed.items() if names},
        moved=dict(_moved(before, after)),
        renamed=_renamed([before[ref] for ref in removed], [after[ref] for ref in added]),
        inside={ref: inner for ref in kept if (inner := _inline(before[ref].task, after[ref].task))},
    )


def _fields(old: Any, new: Any, without: frozenset[str]) -> Iterator[str]:
    kind: Any = type(new)
    for field in attrs.fields(kind):
        one, other = getattr(old, field.name), getattr(new, field.name)
        if field.name in without or one == other:
            continue
        if field.name == "extra":
            yield from sorted(key for key in {*one, *other} if one.get(key) != other.get(key))
        else:
            yield json_names(kind)[field.name]


def _changes(old: WorkflowTask, new: WorkflowTask) -> Iterator[str]:
    yield from _fields(old, new, _PLACED)
    yield from _part("taskDefinition", old.task_definition, new.task_definition)
    yield from _part("subWorkflowParam", old.sub_workflow_param, new.sub_workflow_param)
    if list(old.decision_cases) != list(new.decision_cases):
        yield "decisionCases"
    if len(old.fork_tasks) != len(new.fork_tasks):
        yield "forkTasks"


def _part(name: str, old: TaskDef | SubWorkflowParams | None, new: TaskDef | SubWorkflowParams | None) -> Iterator[str]:
    if old is None or new is None:
        if old is not new:
            yield name
    else:
        yield from (f"{name}.{field}" for field in _fields(old, new, frozenset()))


def _inline(old: WorkflowTask, new: WorkflowTask) -> DefinitionDiff | None:
    one, other = (None if t.sub_workflow_param is None else t.sub_workflow_param.workflow_definition for t in (old, new))
    return diff(one, other) if isinstance(one, WorkflowDef) and isinstance(other, WorkflowDef) else None


# ---------------------------------------------------------------------- moved


def _moved(before: Mapping[str, TreePosition], after: Mapping[str, TreePosition]) -> Iterator[tuple[str, tuple[str, str]]]:
    """References in another list than before, and those out of the order that most of their list has kept."""
    same = _same_branches(before, after)
    lists: dict[tuple[Branch, ...], list[str]] = {}
    for ref, spot in after.items():
        if ref not in before:
            continue
        if _list(spot, same) == before[ref].around:
            lists.setdefault(before[ref].around, []).append(ref)
        else:
            was, now = describe_branches(before[ref].around), describe_branches(spot.around)
            yield ref, (was, now if now != was else now.replace("a branch", "another branch", 1))
    for around, refs in lists.items():
        steady = _longest_rise([before[ref].index for ref in refs])
        yield from ((ref, (describe_branches(around),) * 2) for place, ref in enumerate(refs) if place not in steady)


def _list(spot: TreePosition, same: Mapping[tuple[str, int | str], int]) -> tuple[Branch, ...]:
    return tuple(
        attrs.evolve(branch, key=same.get((branch.ref, branch.key), -1)) if branch.kind == "branch" else branch
        for branch in spot.around
    )


def _same_branches(before: Mapping[str, TreePosition], after: Mapping[str, TreePosition]) -> dict[tuple[str, int | str], int]:
    """(fork, branch in the new definition) → the branch of the old one with which it shares most."""
    found: dict[tuple[str, int | str], int] = {}
    for ref, spot in after.items():
        if ref not in before:
            continue
        old = [{task.task_reference_name for task in branch} for branch in before[ref].task.fork_tasks]
        shared = [
            (-len(old[one] & {task.task_reference_name for task in branch}), abs(one - other), one, other)
            for other, branch in enumerate(spot.task.fork_tasks)
            for one in range(len(old))
        ]
        taken: set[int] = set()
        for _, _, one, other in sorted(shared):
            if one not in taken and (ref, other) not in found:
                taken.add(one)
                found[ref, other] = one
    return found


def _longest_rise(numbers: Sequence[int]) -> set[int]:
    """Places of a longest rising subsequence."""
    tails: list[int] = []
    ends: list[int] = []
    back: list[int] = []
    for place, number in enumerate(numbers):
        at = bisect_left(tails, number)
        back.append(ends[at - 1] if at else -1)
        tails[at : at + 1] = [number]
        ends[at : at + 1] = [place]
    found: set[int] = set()
    place = ends[-1] if ends else -1
    while place >= 0:
        found.add(place)
        place = back[place]
    return found


# ---------------------------------------------------------------------- renamed


def _renamed(removed: Sequence[TreePosition], added: Sequence[TreePosition]) -> dict[str, str]:
    """Pairs of one type in one list that have one name, or differ in nothing but names."""
    found: dict[str, str] = {}
    for old in removed:
        for new in added:
            if new.task.task_reference_name in found.values() or (old.task.type, old.around) != (new.task.type, new.around):
                continue
            ref, other = old.task.task_reference_name, new.task.task_reference_name
            same_name = old.task.name == new.task.name
            if same_name or attrs.evolve(old.task, name="", task_reference_name="") == attrs.evolve(
                new.task, name="", task_reference_name=""
            ):
                found[ref] = other
                break
    return found
