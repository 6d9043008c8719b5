"""How deep a document nests tasks within tasks, found without recursion, before anything recurses over it."""

from __future__ import annotations

from collections.abc import Iterator

from conductorlite.definitions import MAX_NESTING, Problem, step_path

__all__ = ["too_deep"]


def too_deep(document: object) -> list[Problem]:
    """One problem at the first task deeper than MAX_NESTING, or none; anything misshapen is left to the reader."""
    stack: list[tuple[object, str, int]] = [(task, path, 1) for task, path in _of_workflow(document, "$")]
    while stack:
        task, path, depth = stack.pop()
        if depth > MAX_NESTING:
            return [Problem(path=path, message=f"tasks are nested deeper than {MAX_NESTING} levels")]
        stack.extend((child, child_path, depth + 1) for child, child_path in _of_task(task, path))
    return []


def _of_workflow(document: object, path: str) -> Iterator[tuple[object, str]]:
    if isinstance(document, dict):
        yield from _of_list(document.get("tasks"), step_path(path, "tasks"))


def _of_task(task: object, path: str) -> Iterator[tuple[object, str]]:
    if not isinstance(task, dict):
        return
    for name in ("defaultCase", "loopOver"):
        yield from _of_list(task.get(name), step_path(path, name))
    cases = task.get("decisionCases")
    if isinstance(cases, dict):
        for key, tasks in cases.items():
            yield from _of_list(tasks, step_path(step_path(path, "decisionCases"), key))
    branches = task.get("forkTasks")
    if isinstance(branches, list):
        for index, branch in enumerate(branches):
            yield from _of_list(branch, step_path(step_path(path, "forkTasks"), index))
    if isinstance(task.get("compensate"), dict):
        yield task["compensate"], step_path(path, "compensate")
    params = task.get("subWorkflowParam")
    if isinstance(params, dict):
        yield from _of_workflow(params.get("workflowDefinition"), f"{path}.subWorkflowParam.workflowDefinition")


def _of_list(tasks: object, path: str) -> Iterator[tuple[object, str]]:
    if isinstance(tasks, list):
        for index, task in enumerate(tasks):
            yield task, step_path(path, index)
