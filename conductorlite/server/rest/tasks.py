"""Operations on tasks: polled, reported on, looked at; and those that wait for an execution's end or for what blocks it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Final

import attrs

from conductorlite.engine.control import blocking_task
from conductorlite.engine.polling import Asker
from conductorlite.engine.queues import QueueDepth
from conductorlite.model.canonical import present
from conductorlite.model.codec import structured
from conductorlite.model.decisions import queue_name
from conductorlite.model.definitions import StartWorkflowRequest
from conductorlite.model.errors import Conflict, ExecutionNotFound, InvalidInput, TaskNotFound
from conductorlite.model.executions import PollData, Task, TaskResult, Workflow
from conductorlite.model.policies import derive_id
from conductorlite.runtime.engine import Engine
from conductorlite.server.rest.documents import (
    checked_message,
    checked_output,
    found,
    log_lines,
    summary,
    task,
    task_for_worker,
    workflow,
)
from conductorlite.server.rest.executions import execution, started
from conductorlite.server.rest.operations import ANY, NO_BODY, Refused, Text, in_full, status_of
from conductorlite.server.waiting import Given, Waiting
from conductorlite.store.documents import TASKS
from conductorlite.store.search import known_sort

__all__ = [
    "Polled",
    "batch_poll",
    "execute",
    "log",
    "logs",
    "poll",
    "poll_data",
    "poll_data_all",
    "polled",
    "queue_all",
    "queue_all_verbose",
    "queue_size",
    "queue_sizes",
    "report",
    "reported",
    "requeue",
    "search_tasks",
    "search_tasks_v2",
    "signal",
    "signal_sync",
    "task_by_id",
    "update_and_poll",
    "update_by_reference",
    "update_by_reference_sync",
    "update_task",
]

Json = dict[str, Any]

#: Milliseconds that a poll of one waits, and a long poll at most; tasks of one poll.
_MOMENT: Final = 100
_LONGEST: Final = 5_000
_MOST: Final = 1_000


class Polled:
    """An answer that hands out tasks: if no client gets it, they are given back."""

    __slots__ = ("tasks", "value")

    def __init__(self, value: Any, tasks: list[Task]) -> None:
        self.value = value
        self.tasks = tasks


# ---------------------------------------------------------------------- polling


async def poll(api: Waiting, tasktype: str, workerid: str | None = None, domain: str | None = None) -> Polled:
    """Take one task; 204 when none comes for a moment."""
    taken = await polled(api, tasktype, workerid, domain, 1, _MOMENT)
    return Polled(taken.value[0] if taken.value else None, taken.tasks)


async def batch_poll(
    api: Waiting, tasktype: str, workerid: str | None = None, domain: str | None = None, count: int = 1, timeout: int = _MOMENT
) -> Polled:
    """Take up to so many tasks, and wait so many milliseconds for a first one."""
    if timeout > _LONGEST:
        raise Refused(400, f"Long Poll Timeout value cannot be more than {_LONGEST / 1000:g} seconds")
    if count > _MOST:
        raise Refused(400, f"count is {_MOST} at most, not {count}")
    if count < 1:
        return Polled([], [])
    return await polled(api, tasktype, workerid, domain, count, max(0, timeout))


async def polled(api: Waiting, task_type: str, worker_id: str | None, domain: str | None, count: int, timeout: int) -> Polled:
    """Tasks, as documents for the worker that takes them."""
    tasks, documents = await api.poll(
        task_type, _for_worker, worker_id=worker_id, domain=domain, count=count, timeout=timeout / 1000
    )
    return Polled(documents, tasks)


def _for_worker(engine: Engine, given: Given) -> list[Json]:
    reads = partial(_is_readable, engine)
    return [task_for_worker(one, engine.core.queries.around(one, row), reads=reads) for one, row in given]


def _is_readable(engine: Engine, path: str) -> bool:
    """True if a client can fetch a payload by itself: it has a URI that is signed for it, and is stored as it is."""
    if engine.core.turns.lookups.payload_store.codec is not None:
        return False
    return engine.payloads.location(path).uri.startswith(("https://", "http://"))


# ---------------------------------------------------------------------- reporting


async def update_task(api: Waiting, body: Json) -> str:
    """Report on a task; its id."""
    if body.get("extendLease") is True:
        return await api.call(report, api.engine, body)
    result = reported(body)
    await api.exchange(result, None, _for_worker)
    return result.task_id


async def update_and_poll(api: Waiting, body: Json) -> Polled:
    """Report on a task, and take the next one of its type; 204 when there is none."""
    result = reported(body)
    if body.get("extendLease") is True or not result.status.terminal:
        await update_task(api, body)
        return Polled(None, [])
    tasks, documents = await api.exchange(result, Asker(worker_id=result.worker_id, count=1), _for_worker)
    return Polled(documents[0] if documents else None, tasks)


def report(engine: Engine, body: Json) -> str:
    """Report on a task, or say that its worker is alive; its id."""
    result = reported(body)
    if body.get("extendLease") is not True:
        return engine.update_task(result).task_id
    one = engine.tasks.get(result.task_id)
    engine.tasks.extend_lease(one)
    return one.task_id


def reported(body: Json) -> TaskResult:
    """Return the report in a body, Conductor's TaskResult; raises InvalidInput."""
    given = {name: value for name, value in body.items() if value is not None and value != ""}
    logs = given.get("logs", [])
    if not isinstance(logs, list) or not all(isinstance(one, dict) and isinstance(one.get("log", ""), str) for one in logs):
        raise InvalidInput("$.logs: a list of objects with a text `log` is expected")
    message = given.get("outputMessage")
    if message is not None:
        checked_message(message, "$.outputMessage")
    return TaskResult(
        workflow_id=_text(given, "workflowInstanceId", ""),
        task_id=_text(given, "taskId", ""),
        status=status_of(_text(given, "status", "")),
        output_data=checked_output(_object(given, "outputData"), "$.outputData")
        | ({"outputMessage": message} if message is not None else {}),
        reason=_text(given, "reasonForIncompletion", None),
        callback_after_ms=_seconds(given.get("callbackAfterSeconds", 0)),
        worker_id=_text(given, "workerId", None),
        logs=[one.get("log", "") for one in logs],
        external_output_payload_storage_path=_text(given, "externalOutputPayloadStoragePath", None),
    )


def _text(given: Mapping[str, Any], name: str, default: Any) -> Any:
    value = given.get(name, default)
    if value is not default and not isinstance(value, str):
        raise InvalidInput(f"$.{name}: a text is expected")
    if value == "":
        raise InvalidInput(f"$.{name}: is missing")
    return value


def _object(given: Mapping[str, Any], name: str) -> Json:
    value = given.get(name, {})
    if not isinstance(value, dict):
        raise InvalidInput(f"$.{name}: an object is expected")
    return value


def _seconds(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**31:
        raise InvalidInput("$.callbackAfterSeconds: a number of seconds is expected")
    return round(value * 1000)


def update_by_reference(
    engine: Engine,
    workflow_id: str,
    task_ref_name: str,
    status: str,
    body: Json = NO_BODY,
    workerid: str | None = None,
) -> str | None:
    """Report on the open task of a reference; its id, nothing if there is none. For a task to come the report may be kept."""
    try:
        reported = engine.signal(workflow_id, checked_output(body), task=task_ref_name, status=status_of(status))
    except (TaskNotFound, ExecutionNotFound, Conflict):
        return None
    return None if reported is None else reported.task_id


def update_by_reference_sync(
    engine: Engine,
    workflow_id: str,
    task_ref_name: str,
    status: str,
    body: Json = NO_BODY,
    workerid: str | None = None,
) -> Json:
    """Report on the open task of a reference; the execution afterwards."""
    try:
        engine.signal(workflow_id, checked_output(body), task=task_ref_name, status=status_of(status))
    except (TaskNotFound, ExecutionNotFound, Conflict):
        raise Refused(404, f"Found no running task {task_ref_name} of workflow {workflow_id} to update") from None
    return execution(engine, workflow_id)


# ---------------------------------------------------------------------- waiting for what blocks an execution


#: Seconds that a call waits at most, whatever it asks for.
_LONGEST_CALL: Final = 60

_STRATEGIES: Final = ("TARGET_WORKFLOW", "BLOCKING_WORKFLOW", "BLOCKING_TASK", "BLOCKING_TASK_INPUT")


async def execute(
    api: Waiting,
    name: str,
    version: int,
    body: Annotated[Json, StartWorkflowRequest],
    request_id: str | None = None,
    wait_until_task_ref: str = "",
    wait_for_seconds: int = 10,
    return_strategy: str = "TARGET_WORKFLOW",
) -> Json | None:
    """Start an execution and wait for its end, for what blocks it, or for one of some tasks to have ended."""
    _checked(return_strategy)
    request = attrs.evolve(structured(body, StartWorkflowRequest), name=name, version=version)
    workflow_id = await api.call(started, api.engine, request)
    refs = frozenset(one.strip() for one in wait_until_task_ref.split(",") if one.strip())
    return await _waited(api, workflow_id, refs, wait_for_seconds or 10, return_strategy, request_id)


async def signal_sync(
    api: Waiting,
    workflow_id: str,
    status: str,
    body: Json = NO_BODY,
    return_strategy: str = "TARGET_WORKFLOW",
    timeout_millis: int = 5_000,
) -> Json | None:
    """Report on the task that blocks an execution, and wait for its end or for what blocks it next."""
    _checked(return_strategy)
    await api.call(signal, api.engine, workflow_id, status, body)
    return await _waited(api, workflow_id, frozenset(), timeout_millis / 1000, return_strategy, None)


def signal(engine: Engine, workflow_id: str, status: str, body: Json = NO_BODY) -> None:
    """Report on the task that blocks an execution; nothing if none does."""
    reported = status_of(status)
    try:
        engine.signal(workflow_id, checked_output(body), status=reported)
    except (TaskNotFound, Conflict):
        engine.status(workflow_id)


def _checked(strategy: str) -> None:
    if strategy not in _STRATEGIES:
        raise Refused(400, f"returnStrategy: {strategy!r:.60} is none of {', '.join(_STRATEGIES)}")


async def _waited(
    api: Waiting, workflow_id: str, refs: frozenset[str], seconds: float, strategy: str, request_id: str | None
) -> Json | None:
    def left() -> set[str]:
        seen: set[str] = set()
        ended = api.engine.status(workflow_id).terminal or _blocking(api.engine, workflow_id, refs, seen) is not None
        return set() if ended else seen

    in_time = await api.until(workflow_id, left, min(max(0, seconds), _LONGEST_CALL))
    return await api.call(
        _response,
        api.engine,
        workflow_id,
        refs,
        strategy,
        request_id or derive_id(workflow_id, str(api.engine.clock.now())),
        in_time,
    )


def _blocking(engine: Engine, workflow_id: str, refs: frozenset[str], seen: set[str] | None = None) -> Task | None:
    """The task that blocks an execution: a WAIT without an end or a HUMAN, in it or below; or one of these that has ended.

    The ids of the executions that this depends on are put into `seen`.
    """
    with engine.backend.reading() as view:
        found = blocking_task(view, workflow_id, seen)
        if found is not None and found.wait_until is None:
            return found
        ended = [view.executions.latest(workflow_id, [ref]).get(ref) for ref in sorted(refs)] if refs else []
    return next((one for one in ended if one is not None and one.status.terminal), None)


def _response(engine: Engine, workflow_id: str, refs: frozenset[str], strategy: str, request_id: str, in_time: bool) -> Json | None:
    """Conductor's SignalResponse."""
    target = engine.get(workflow_id, masked=True)
    blocking = None if target.status.terminal else _blocking(engine, workflow_id, refs)
    shown = target
    if strategy != "TARGET_WORKFLOW" and blocking is not None and blocking.workflow_id != workflow_id:
        shown = engine.get(blocking.workflow_id, masked=True)
    document = {
        "responseType": strategy,
        "targetWorkflowId": workflow_id,
        "targetWorkflowStatus": target.status.value,
        "requestId": request_id,
        "workflowId": shown.workflow_id,
        "correlationId": shown.correlation_id,
        "signalTimeout": not in_time,
        "priority": shown.priority,
    }
    if strategy.startswith("BLOCKING_TASK"):
        if blocking is None:
            return None
        document |= _of_task(blocking, shown)
    else:
        whole = workflow(shown)
        document |= {name: whole[name] for name in ("input", "output", "variables", "tasks", "status", "createTime", "updateTime")}
        document["createdBy"] = shown.created_by
    return {name: value for name, value in document.items() if value is not None}


def _of_task(blocking: Task, of: Workflow) -> Json:
    known = task(blocking, of)
    wanted = ("taskType", "taskId", "referenceTaskName", "retryCount", "taskDefName", "retriedTaskId", "workflowType", "status")
    found = {name: known.get(name) for name in (*wanted, "reasonForIncompletion", "updateTime")}
    return found | {"input": known["inputData"], "output": known["outputData"], "createTime": known["scheduledTime"]}


# ---------------------------------------------------------------------- looking


def task_by_id(engine: Engine, task_id: str) -> Json:
    """One attempt at a task."""
    try:
        one = engine.tasks.get(task_id)
    except TaskNotFound:
        raise Refused(404, f"Task not found for taskId: {task_id}") from None
    around = engine.core.queries.around(one, masked=True)
    return task(around.tasks[0], around)


def log(engine: Engine, task_id: str, body: Text) -> None:
    """Keep a line of text with a task; for one that is not there it is dropped, as in Conductor."""
    try:
        engine.tasks.log(engine.tasks.get(task_id), body)
    except TaskNotFound:
        return


def logs(engine: Engine, task_id: str) -> list[Json]:
    """Return the log lines of a task."""
    return log_lines(engine.tasks.logs(task_id))


def queue_size(engine: Engine, task_type: str, domain: str | None = None) -> int:
    """How many tasks wait in a queue."""
    return queue_all(engine).get(queue_name(task_type, domain or None), 0)


def queue_sizes(engine: Engine, task_type: list[str] = ANY) -> dict[str, int]:
    """How many tasks wait, by type, for the types asked for."""
    sizes = queue_all(engine)
    return {one: sizes.get(one, 0) for one in task_type}


def queue_all(engine: Engine) -> dict[str, int]:
    """How many tasks wait in each queue."""
    prefix = queue_name("", None, engine.config.owner)
    sizes = engine.tasks.queue_sizes()
    return {queue.removeprefix(prefix): size for queue, size in sizes.items() if queue.startswith(prefix)}


def queue_all_verbose(engine: Engine) -> Json:
    """Return the tasks of the queues by state, and by shard, of which there is one.

    Beside Conductor's `size` (those that wait) and `uacked` (in progress): `offered`, `waiting` in line for a slot, `delayed`, and
    `oldestDueAt`, since when the oldest that is offered or in line is due, epoch ms.
    """
    prefix = queue_name("", None, engine.config.owner)
    ours = (one for one in engine.tasks.queues() if one.queue.startswith(prefix))
    return {one.queue.removeprefix(prefix): {"a": _shard(one)} for one in ours}


def _shard(one: QueueDepth) -> dict[str, int]:
    said = {"size": one.depth, "uacked": one.in_progress, "offered": one.offered, "waiting": one.waiting, "delayed": one.delayed}
    return said if one.oldest_at is None else {**said, "oldestDueAt": one.oldest_at}


def poll_data(engine: Engine, task_type: str) -> list[Json]:
    """The last poll of a task type in each domain."""
    return [_poll_data(one) for one in engine.tasks.poll_data(task_type)]


def poll_data_all(engine: Engine) -> list[Json]:
    """The last poll of each task type in each domain."""
    return [_poll_data(one) for one in engine.tasks.poll_data()]


def _poll_data(one: PollData) -> Json:
    return present(
        {"queueName": one.queue_name, "domain": one.domain, "workerId": one.worker_id, "lastPollTime": one.last_poll_time}
    )


def requeue(engine: Engine, task_type: str) -> str:
    """How many tasks were put into a queue again: none, for a task and its place in the queue are one commit."""
    return "0"


def search_tasks(engine: Engine, start: int = 0, size: int = 100, sort: str = "", free_text: str = "*", query: str = "") -> Json:
    """Summaries of the tasks that answer a query."""
    order = known_sort(sort, TASKS)
    return found(engine.tasks.search(query, free_text=free_text, start=start, size=size, sort=order), summary)


def _whole(engine: Engine, one: Json) -> Json | None:
    with suppress(Refused, ExecutionNotFound):
        return task_by_id(engine, one["taskId"])
    return None


search_tasks_v2 = in_full(search_tasks, "search_tasks_v2", "The tasks that answer a query.", _whole)
