"""Forms for what may be done with an execution: each verb that its status allows, as docs/reference/verbs-by-status.md has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from conductorlite.model.definitions import TaskType
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.pages.markup import Html, element, join

__all__ = ["PROOF", "actions"]

#: Stands for what proves that a page of ours sent a form; what serves the page puts it there.
PROOF: Final = "{the proof of this session}"

#: Tasks that a person or another system ends.
_OPEN: Final = frozenset({TaskType.HUMAN, TaskType.WAIT})

#: Open tasks that have a form of their own.
_FORMS: Final = 20

_JSON: Final = "{}"


def actions(row: Workflow, address: str) -> Html:
    """What may be done with an execution; `address` is what the pages of executions begin with."""
    return join(_forms(row, f"{address}{quote(row.workflow_id, safe='')}"))


def _forms(row: Workflow, page: str) -> Iterator[Html]:
    status, parked = row.status, row.parked is not None
    ended = status.terminal
    failed = ended and status is not WorkflowStatus.COMPLETED
    waiting = [task for task in row.tasks if task.task_type in _OPEN and task.status is TaskStatus.IN_PROGRESS]
    for task in waiting[:_FORMS] if status is WorkflowStatus.RUNNING else ():
        yield _end_task(task, page)
    if status is WorkflowStatus.PAUSED or parked:
        yield _form(page, "resume", "Resume")
    elif not ended:
        yield _form(page, "pause", "Pause")
    if failed:
        yield _form(page, "retry", "Retry", _check("resume_subworkflow_tasks", "the failed sub-workflow itself"))
    if ended:
        yield _form(page, "restart", "Restart", _check("use_latest_definitions", "with the newest definition"))
    if row.tasks and status is not WorkflowStatus.PAUSED:
        fields = _refs(row, "from_task", "from task"), _text("task_input", "its input, JSON")
        yield _folded("Rerun from a task", _form(page, "rerun", "Rerun", *fields))
    if status is WorkflowStatus.RUNNING:
        skip = _line("ref", "reference of the task"), _text("output", "its output, JSON")
        yield _folded("Skip a task", _form(page, "skip_task", "Skip", *skip))
    if not ended:
        yield _folded("Set variables", _form(page, "update_variables", "Set", _text("variables", "variables, JSON", _JSON)))
        yield _folded("Terminate", _form(page, "terminate", "Terminate", _line("reason", "reason")))


def _end_task(task: Task, page: str) -> Html:
    """The form of a task that waits for somebody."""
    statuses = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.FAILED_WITH_TERMINAL_ERROR)
    choices = element("label", "as ", element("select", *(element("option", one) for one in statuses), name="status"))
    fields = choices, _text("output", "output, JSON", _JSON), _line("reason", "reason")
    hidden = element("input", type="hidden", name="task", value=task.task_id)
    return _folded(f"End {task.ref} ({task.task_type})", _form(page, "signal", f"End {task.ref}", hidden, *fields), is_open=True)


def _form(page: str, verb: str, label: str, *fields: Html) -> Html:
    proof = element("input", type="hidden", name="csrf", value=PROOF)
    return element("form", proof, *fields, element("button", label), method="post", action=f"{page}/{verb}", class_="verb")


def _folded(title: str, form: Html, *, is_open: bool = False) -> Html:
    return element("details", element("summary", title), form, class_="verb", open=True if is_open else None)


def _check(name: str, label: str) -> Html:
    return element("label", element("input", type="checkbox", name=name, value="true"), f" {label}")


def _line(name: str, label: str) -> Html:
    return element("label", f"{label} ", element("input", type="text", name=name, autocomplete="off"))


def _text(name: str, label: str, value: str = "") -> Html:
    return element("label", f"{label} ", element("textarea", value, name=name, rows="2", cols="40", spellcheck="false"))


def _refs(row: Workflow, name: str, label: str) -> Html:
    refs = list(dict.fromkeys(task.ref for task in row.tasks))[-200:]
    return element("label", f"{label} ", element("select", *(element("option", ref) for ref in refs), name=name))
