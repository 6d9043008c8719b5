"""Operations whose answer waits for an execution: executed to its end or to what blocks it, signaled, tried with given outputs."""

from __future__ import annotations

from typing import Any, Final

from conductorlite.engine.control import blocking_task
from conductorlite.model import attrs
from conductorlite.model.clock import VirtualClock
from conductorlite.model.codec import structured
from conductorlite.model.definitions import StartWorkflowRequest, TaskType
from conductorlite.model.errors import Conflict, ExecutionNotFound, InvalidInput, TaskNotFound
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.policies import derive_id
from conductorlite.model.statuses import TaskStatus
from conductorlite.runtime.engine import Engine
from conductorlite.server.rest.documents import task, workflow
from conductorlite.server.rest.executions import started
from conductorlite.server.rest.operations import NO_BODY, Refused
from conductorlite.server.rest.tasks import status_of
from conductorlite.server.waiting import Waiting

__all__ = ["execute", "signal", "signal_sync", "tried_out", "try_out"]

Json = dict[str, Any]

#: Seconds that a call waits at most, whatever it asks for.
_LONGEST: Final = 60

_STRATEGIES: Final = ("TARGET_WORKFLOW", "BLOCKING_WORKFLOW", "BLOCKING_TASK", "BLOCKING_TASK_INPUT")


async def execute(
    api: Waiting,
    name: str,
    version: int,
    body: Json,
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
        engine.signal(workflow_id, body, status=reported)
    except (TaskNotFound, Conflict):
        engine.status(workflow_id)


def _checked(strategy: str) -> None:
    if strategy not in _STRATEGIES:
        raise Refused(400, f"returnStrategy: {strategy!r:.60} is none of {', '.join(_STRATEGIES)}")


async def _waited(
    api: Waiting, workflow_id: str, refs: frozenset[str], seconds: float, strategy: str, request_id: str | None
) -> Json | None:
    def holds() -> bool:
        return api.engine.status(workflow_id).terminal or _blocking(api.engine, workflow_id, refs) is not None

    in_time = await api.until(workflow_id, holds, min(max(0, seconds), _LONGEST))
    return await api.call(
        _answer, api.engine, workflow_id, refs, strategy, request_id or derive_id(workflow_id, str(api.engine.clock.now())), in_time
    )


def _blocking(engine: Engine, workflow_id: str, refs: frozenset[str]) -> Task | None:
    """The task that blocks an execution: a WAIT without an end or a HUMAN, in it or below; or one of these that has ended."""
    with engine.backend.reading() as view:
        found = blocking_task(view, workflow_id)
        if found is not None and found.wait_until is None:
            return found
        ended = [view.latest(workflow_id, [ref]).get(ref) for ref in sorted(refs)] if refs else []
    return next((one for one in ended if one is not None and one.status.terminal), None)


def _answer(engine: Engine, workflow_id: str, refs: frozenset[str], strategy: str, request_id: str, in_time: bool) -> Json | None:
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


# ---------------------------------------------------------------------- tried out


#: Rounds of a trial: each ends every open task that has an output left.
_ROUNDS: Final = 1_000


def try_out(engine: Engine, body: Json) -> Json:
    """As `tried_out`, in Conductor's JSON."""
    return workflow(tried_out(engine, body))


def tried_out(engine: Engine, body: Json) -> Workflow:
    """Run a workflow on a clock and a store of its own, each task ending as the body says; the execution as far as it came."""
    trial = Engine(
        clock=VirtualClock(engine.clock.now()), config=attrs.evolve(engine.config, lock=None, event_sources=(), ids=None)
    )
    with trial:
        names = engine.definitions.tasks()
        trial.register(*(engine.definitions.task(name) for name in names))
        trial.register(*(engine.definitions.workflow(name, version) for name, version in engine.definitions.workflows()))
        workflow_id = started(trial, structured(body, StartWorkflowRequest))
        left = {workflow_id: _outputs(body)}
        for _ in range(_ROUNDS):
            trial.settle()
            if trial.status(workflow_id).terminal or not _end_open_tasks(trial, left):
                break
        return trial.get(workflow_id, masked=True)


@attrs.define(slots=True)
class _Outputs:
    """What the tasks of one execution are to put out, by reference, and those of its sub-workflows."""

    tasks: dict[str, list[Json]]
    below: dict[str, Any]


def _outputs(body: Any) -> _Outputs:
    known = {} if body is None else body
    tasks, below = (_entries(known, name) for name in ("taskRefToMockOutput", "subWorkflowTestRequest"))
    if not all(isinstance(mocks, list) and all(isinstance(mock, dict) for mock in mocks) for mocks in tasks.values()):
        raise InvalidInput("$.taskRefToMockOutput: lists of objects are expected")
    return _Outputs({ref: list(mocks) for ref, mocks in tasks.items()}, below)


def _entries(body: Any, name: str) -> Json:
    found = body.get(name) if isinstance(body, dict) else body
    if found is not None and not isinstance(found, dict):
        raise InvalidInput(f"$.{name}: an object is expected")
    return found or {}


def _end_open_tasks(trial: Engine, left: dict[str, _Outputs]) -> bool:
    """End every open task that has an output left, and move on to the next instant if there is none; whether anything was done."""
    done, known = False, len(left)
    for workflow_id, outputs in list(left.items()):
        try:
            row = trial.get(workflow_id)
        except ExecutionNotFound:
            continue
        for one in row.tasks:
            if one.status.terminal:
                continue
            if one.task_type == TaskType.SUB_WORKFLOW and one.sub_workflow_id is not None:
                left.setdefault(one.sub_workflow_id, _outputs(outputs.below.get(one.base_ref)))
            mocks = outputs.tasks.get(one.ref) or outputs.tasks.get(one.base_ref)
            if mocks:
                done = _ended(trial, one, mocks.pop(0)) or done
    if done or len(left) > known:
        return True
    at = trial.admin.next_wakeup()
    if at is not None:
        trial.advance(to=at)
    return at is not None


def _ended(trial: Engine, one: Task, mock: Json) -> bool:
    output = mock.get("output") or {}
    if not isinstance(output, dict):
        raise InvalidInput("output: an object is expected")
    try:
        trial.signal(one.workflow_id, output, task=one.task_id, status=_mock_status(mock))
    except (TaskNotFound, Conflict):
        return False
    return True


def _mock_status(mock: Json) -> TaskStatus:
    return status_of(str(mock.get("status") or "COMPLETED"))
