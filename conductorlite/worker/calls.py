"""One call of one worker function: input to keyword arguments, return value or exception to a report.

Whatever the function does, the result is a `TaskResult`: nothing it raises gets past here.
"""

from __future__ import annotations

import traceback
from typing import Any

import attrs

from conductorlite.canonical import canonical
from conductorlite.codec.values import plain
from conductorlite.errors import InvalidInput, TaskFailedTerminally
from conductorlite.executions import Task, TaskResult, TaskStatus
from conductorlite.worker.context import TaskContext, TaskFace
from conductorlite.worker.registry import Worker

__all__ = ["Deferred", "call", "call_async", "raised", "returned_value"]


@attrs.frozen(kw_only=True, slots=True)
class Deferred:
    """Returned by a scripted worker on a virtual clock: the call takes `after_ms` of virtual time (None: for ever).

    `outcome` is what it then returns, or the exception it raises, and is reported `reports` times. While the call lasts,
    its lease is extended like any other's, unless it is `silent`: that one's lease runs out.
    """

    after_ms: int | None
    outcome: Any = None
    silent: bool = False
    reports: int = 1


def call(worker: Worker, task: Task, face: TaskFace) -> TaskResult | Deferred:
    """Run the function on a polled task and say what to report."""
    arguments = _arguments(worker, task, face)
    if isinstance(arguments, TaskResult):
        return arguments
    try:
        returned = worker.function(**arguments)
    except Exception as error:
        return raised(task, error)
    return returned if isinstance(returned, Deferred) else returned_value(task, returned)


async def call_async(worker: Worker, task: Task, face: TaskFace) -> TaskResult | Deferred:
    """As `call`, for a coroutine function."""
    arguments = _arguments(worker, task, face)
    if isinstance(arguments, TaskResult):
        return arguments
    try:
        returned = await worker.function(**arguments)
    except Exception as error:
        return raised(task, error)
    return returned if isinstance(returned, Deferred) else returned_value(task, returned)


def _arguments(worker: Worker, task: Task, face: TaskFace) -> dict[str, Any] | TaskResult:
    """Keyword arguments, or the report of what is wrong with the input: trying again would not mend it."""
    given = task.input_data
    takes = worker.signature
    missing = sorted(takes.required - given.keys())
    if missing:
        names = ", ".join(repr(name) for name in missing)
        text = f"task {task.ref!r}: the input has no {names}, which worker {worker.task_type!r} needs"
        return _result(task, TaskStatus.FAILED_WITH_TERMINAL_ERROR, reason=text)
    try:
        arguments = takes.arguments(given)
    except InvalidInput as error:
        return _result(task, TaskStatus.FAILED_WITH_TERMINAL_ERROR, reason=_clean(f"task {task.ref!r}: {error}"))
    if takes.context is not None:
        arguments[takes.context] = TaskContext(task, face)
    return arguments


def returned_value(task: Task, returned: Any) -> TaskResult:
    """The report for what a function returned: a dict or a record is the output, another value goes under "result"."""
    if isinstance(returned, TaskResult):
        return attrs.evolve(returned, workflow_id=task.workflow_id, task_id=task.task_id, lease=task.lease)
    output = _output(returned)
    try:
        canonical(output, where="output")
    except InvalidInput:
        try:  # not JSON as it is: records, dates and enums can be made so
            output = _output(plain(returned))
            canonical(output, where="output")
        except (InvalidInput, RecursionError) as error:
            text = f"task {task.ref!r} returned something that is not JSON: {error}"
            return _result(task, TaskStatus.FAILED_WITH_TERMINAL_ERROR, reason=_clean(text))
    return _result(task, TaskStatus.COMPLETED, output_data=output)


def _output(returned: Any) -> dict[str, Any]:
    return {} if returned is None else returned if isinstance(returned, dict) else {"result": returned}


def raised(task: Task, error: BaseException) -> TaskResult:
    """The report for what a function raised, with its traceback."""
    terminal = isinstance(error, TaskFailedTerminally)
    text = str(error) if terminal else f"{type(error).__name__}: {error}"
    return _result(
        task,
        TaskStatus.FAILED_WITH_TERMINAL_ERROR if terminal else TaskStatus.FAILED,
        reason=_clean(text),
        traceback=_clean("".join(traceback.format_exception(error))),
    )


def _clean(text: str) -> str:
    # An exception's text may hold what JSON cannot; losing the report over that would lose the failure.
    return text.encode("utf-8", "replace").decode()


def _result(task: Task, status: TaskStatus, **fields: Any) -> TaskResult:
    return TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=status, lease=task.lease, **fields)
