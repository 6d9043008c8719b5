"""Operations on executions: started, looked at, searched, changed, by themselves and many at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import attrs

from conductorlite.model.clock import VirtualClock
from conductorlite.model.codec import structured
from conductorlite.model.debounce import Debounce
from conductorlite.model.definitions import StartWorkflowRequest, TaskType
from conductorlite.model.errors import Conflict, DefinitionNotFound, ExecutionNotFound, InvalidInput, TaskNotFound
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.mailbox import DEFAULT_TOPIC
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.runtime.engine import Engine
from conductorlite.server.rest.documents import found, summary, task, wire_status, workflow
from conductorlite.server.rest.operations import ANY, NO_BODY, Refused, done_to_each, in_full, status_of
from conductorlite.store.documents import WORKFLOWS
from conductorlite.store.search import known_sort

__all__ = [
    "bulk_pause",
    "bulk_remove",
    "bulk_restart",
    "bulk_resume",
    "bulk_retry",
    "bulk_search",
    "bulk_terminate",
    "bulk_terminate_remove",
    "correlated",
    "correlated_with",
    "decide",
    "execution",
    "execution_status",
    "execution_tasks",
    "pause",
    "remove",
    "rerun",
    "reset_callbacks",
    "restart",
    "resume",
    "retry",
    "running",
    "search",
    "search_by_tasks",
    "search_by_tasks_v2",
    "search_v2",
    "send_message",
    "skip_task",
    "start",
    "start_named",
    "started",
    "storage_location",
    "terminate",
    "terminate_remove",
    "tried_out",
    "try_out",
]

Json = dict[str, Any]

#: Ids of one bulk call, as in Conductor.
_BULK: Final = 1_000


# ---------------------------------------------------------------------- starting


def start(engine: Engine, body: Annotated[Json, StartWorkflowRequest]) -> str:
    """Start an execution; its id."""
    return started(engine, structured(body, StartWorkflowRequest))


def start_named(
    engine: Engine,
    name: str,
    body: Json = NO_BODY,
    version: int | None = None,
    correlation_id: str | None = None,
    priority: int = 0,
) -> str:
    """Start an execution of a registered workflow with the body as its input; its id."""
    request = StartWorkflowRequest(name=name, version=version, input=body, correlation_id=correlation_id, priority=priority)
    try:
        return started(engine, request)
    except Refused as error:
        raise Refused(error.status, f"No such workflow found by name: {name}, version: {version or 'null'}") from error


def started(engine: Engine, request: StartWorkflowRequest) -> str:
    """Start what a request asks for; its id. A version 0 is the highest."""
    if not request.name and request.workflow_def is None:
        raise Refused(400, "Workflow name cannot be null or empty")
    try:
        return engine.start(
            request.workflow_def or request.name,
            dict(request.input),
            version=request.version or None if request.workflow_def is None else None,
            correlation_id=request.correlation_id,
            priority=request.priority,
            created_by=request.created_by,
            task_to_domain=request.task_to_domain,
            idempotency_key=request.idempotency_key,
            idempotency_strategy=request.idempotency_strategy,
            external_input_payload_storage_path=request.extra.get("externalInputPayloadStoragePath"),
            message=request.extra.get("message"),
            debounce=None if (debounce := request.extra.get("debounce")) is None else Debounce.from_json(debounce),
        ).workflow_id
    except DefinitionNotFound as error:
        if request.workflow_def is not None:
            raise
        if repr(request.name) not in str(error):
            raise Refused(404, str(error)) from error  # a sub-workflow of it
        version = request.version or "null"
        raise Refused(404, f"No such workflow defined. name={request.name}, version={version}") from error


# ---------------------------------------------------------------------- looking


def execution(engine: Engine, workflow_id: str, include_tasks: bool = True) -> Json:
    """An execution, with its tasks or without."""
    return workflow(engine.get(workflow_id, masked=True), tasks=include_tasks)


def execution_tasks(engine: Engine, workflow_id: str, start: int = 0, count: int = 15, status: list[str] = ANY) -> Json:
    """A page of an execution's tasks, or of those in some statuses."""
    whole = engine.get(workflow_id, masked=True)
    chosen = [one for one in whole.tasks if not status or wire_status(one.status) in status]
    page = chosen[max(0, start) : max(0, start) + max(0, count)]
    return {"totalHits": len(chosen), "results": [task(one, whole) for one in page]}


def execution_status(engine: Engine, workflow_id: str, include_output: bool = False, include_variables: bool = False) -> Json:
    """Return the status of an execution, with its output and variables or without."""
    row = engine.get(workflow_id, masked=True)
    known: Json = {"workflowId": row.workflow_id, "correlationId": row.correlation_id, "status": row.status.value}
    known |= {"output": row.output_data} if include_output else {}
    known |= {"variables": row.variables.fresh()} if include_variables else {}
    return {name: value for name, value in known.items() if value is not None}


def correlated(
    engine: Engine, name: str, correlation_id: str, include_closed: bool = False, include_tasks: bool = False
) -> list[Json]:
    """The executions of a workflow with a correlation id: those RUNNING, or all."""
    rows = engine.admin.correlated(name, correlation_id, include_closed=include_closed)
    return _wholes(engine, (row.workflow_id for row in rows), tasks=include_tasks)


def _wholes(engine: Engine, ids: Any, *, tasks: bool = False) -> list[Json]:
    """Executions by their ids; those that were removed meanwhile are left out."""
    documents = []
    for one in ids:
        try:
            documents.append(workflow(engine.get(one, masked=True), tasks=tasks))
        except ExecutionNotFound:
            continue
    return documents


def correlated_with(
    engine: Engine, name: str, body: list[str], include_closed: bool = False, include_tasks: bool = False
) -> dict[str, list[Json]]:
    """The executions of a workflow by correlation id, for each of those given."""
    return {one: correlated(engine, name, one, include_closed, include_tasks) for one in body}


def running(engine: Engine, name: str, version: int = 1, start_time: int = 0, end_time: int = 0) -> list[str]:
    """Ids of the running executions of a workflow; with both times, of all of a version that began between them."""
    if not (start_time and end_time):
        return [row.workflow_id for status in _OPEN for row in _rows(engine, name, status)]
    rows = (row for row in _rows(engine, name, None) if row.version == version)
    return [row.workflow_id for row in rows if start_time <= row.created_at <= end_time]


_OPEN: Final = (WorkflowStatus.RUNNING, WorkflowStatus.PAUSED)


def _rows(engine: Engine, name: str, status: WorkflowStatus | None) -> list[Workflow]:
    rows: list[Workflow] = []
    after: tuple[int, str] | None = None
    while page := engine.executions(name, status=status, limit=1_000, after=after):
        rows += page
        after = page[-1].created_at, page[-1].workflow_id
    return rows


def search(
    engine: Engine,
    start: int = 0,
    size: int = 100,
    sort: str = "",
    free_text: str = "*",
    query: str = "",
    top_level_only: bool = False,
) -> Json:
    """Summaries of the executions that answer a query."""
    asked = " AND ".join([*([f"({query})"] if query else []), "parentWorkflowId IS NULL"]) if top_level_only else query
    order = known_sort(sort, WORKFLOWS)
    return found(engine.search(asked, free_text=free_text, start=start, size=size, sort=order), summary)


def _without_tasks(engine: Engine, one: Json) -> Json | None:
    return next(iter(_wholes(engine, (one["workflowId"],))), None)


search_v2 = in_full(search, "search_v2", "The executions that answer a query, without their tasks.", _without_tasks)


def search_by_tasks(engine: Engine, start: int = 0, size: int = 100, sort: str = "", free_text: str = "*", query: str = "") -> Json:
    """Summaries of the executions of which some task answers a query."""
    order = known_sort(sort, WORKFLOWS)
    result = engine.tasks.search_workflows(query, free_text=free_text, start=start, size=size, sort=order)
    return found(result, summary)


search_by_tasks_v2 = in_full(
    search_by_tasks,
    "search_by_tasks_v2",
    "The executions of which some task answers a query, without their tasks.",
    _without_tasks,
)


def storage_location(engine: Engine, path: str, operation: str, payload_type: str) -> Json:
    """Return the location at which a payload can be read, or a new one uploaded."""
    location = engine.payloads.location(path, operation.upper(), payload_type.upper())
    return {"uri": location.uri, "path": location.path}


# ---------------------------------------------------------------------- changing


def pause(engine: Engine, workflow_id: str) -> None:
    """Schedule nothing more until it is resumed."""
    engine.pause(workflow_id)


def resume(engine: Engine, workflow_id: str) -> None:
    """Go on with a paused execution."""
    try:
        engine.resume(workflow_id)
    except Conflict as error:
        said = f"The workflow {workflow_id} is not PAUSED so cannot resume. Current status is {engine.status(workflow_id)}"
        raise Refused(500, said) from error


def terminate(engine: Engine, workflow_id: str, reason: str | None = None, trigger_failure_workflow: bool = False) -> None:
    """End an execution; on request as if it had failed, so that its failure workflow is started."""
    try:
        engine.terminate(workflow_id, reason, trigger_failure_workflow=trigger_failure_workflow)
    except Conflict:
        status = engine.status(workflow_id)
        raise Refused(409, f"Cannot terminate a {status} workflow.") from None


def remove(engine: Engine, workflow_id: str, archive_workflow: bool = True) -> None:
    """Delete an execution that has ended, or move it into the archive."""
    (engine.admin.archive if archive_workflow else engine.admin.remove)(workflow_id)


def terminate_remove(engine: Engine, workflow_id: str, reason: str | None = None, archive_workflow: bool = True) -> None:
    """End an execution, if it has not ended, and delete it."""
    if not engine.status(workflow_id).terminal:
        engine.terminate(workflow_id, reason)
    remove(engine, workflow_id, archive_workflow)


@attrs.frozen(kw_only=True, slots=True)
class _Rerun:
    """Conductor's RerunWorkflowRequest."""

    re_run_from_workflow_id: str | None = None
    re_run_from_task_id: str | None = None
    workflow_input: Mapping[str, Any] | None = None
    task_input: Mapping[str, Any] | None = None
    correlation_id: str | None = None


def rerun(engine: Engine, workflow_id: str, body: Annotated[Json, _Rerun] = NO_BODY) -> str:
    """Run an execution again, from one of its tasks or from the start; its id."""
    asked = structured(body, _Rerun)
    if asked.re_run_from_task_id is None and not engine.status(workflow_id).terminal:
        raise Refused(409, f"Workflow: {workflow_id} is not in terminal state, unable to rerun.")
    try:
        engine.rerun(
            workflow_id,
            from_task=asked.re_run_from_task_id,
            input=asked.workflow_input,
            task_input=asked.task_input,
            correlation_id=asked.correlation_id,
        )
    except TaskNotFound as error:
        raise Refused(400, str(error)) from None
    return workflow_id


def restart(engine: Engine, workflow_id: str, use_latest_definitions: bool = False) -> None:
    """Run an execution that has ended again from the start."""
    engine.restart(workflow_id, use_latest_definitions=use_latest_definitions)


def retry(engine: Engine, workflow_id: str, resume_subworkflow_tasks: bool = False) -> None:
    """Reopen an execution where it failed."""
    if not engine.status(workflow_id).terminal:
        raise Refused(404, f"Workflow is still running.  status={engine.status(workflow_id)}")
    engine.retry(workflow_id, resume_subworkflow_tasks=resume_subworkflow_tasks)


def reset_callbacks(engine: Engine, workflow_id: str) -> None:
    """Offer the tasks of an execution whose workers have put them off at once."""
    row = engine.get(workflow_id)
    if row.status.terminal:
        raise Refused(409, f"Workflow is in terminal state. Status = {row.status}")
    for one in row.tasks:
        if one.status is TaskStatus.SCHEDULED and one.callback_after_ms:
            engine.signal(workflow_id, task=one.task_id, status=TaskStatus.IN_PROGRESS)


def send_message(engine: Engine, workflow_id: str, body: Json = NO_BODY) -> str:
    """Send an execution a message of the topic that tasks receive which name none; the message's id."""
    return engine.send(workflow_id, DEFAULT_TOPIC, body).key


def skip_task(engine: Engine, workflow_id: str, task_reference_name: str) -> None:
    """Have the flow pass over a task that it has not come to yet."""
    try:
        engine.skip_task(workflow_id, task_reference_name)
    except Conflict:
        said = f"The task referenced {task_reference_name} has already been processed, cannot be skipped"
        if engine.status(workflow_id) is not WorkflowStatus.RUNNING:
            said = f"The workflow {workflow_id} is not running so the task referenced by {task_reference_name} cannot be skipped"
        raise Refused(500, said) from None


def decide(engine: Engine, workflow_id: str) -> None:
    """Take an execution's turn, if anything is due."""
    engine.admin.decide(workflow_id)


# ---------------------------------------------------------------------- many at a time


def _bulk(ids: Sequence[str], verb: Callable[[str], Any]) -> Json:
    """Do something to each; an error of one does not keep the others from being done."""
    if not 1 <= len(ids) <= _BULK:
        raise Refused(400, f"1 to {_BULK} ids of executions are to be given, not {len(ids)}")
    return done_to_each(dict.fromkeys(ids), verb)


def bulk_pause(engine: Engine, body: list[str]) -> Json:
    """Pause executions."""
    return _bulk(body, engine.pause)


def bulk_resume(engine: Engine, body: list[str]) -> Json:
    """Resume executions."""
    return _bulk(body, lambda one: resume(engine, one))


def bulk_restart(engine: Engine, body: list[str], use_latest_definitions: bool = False) -> Json:
    """Run executions again from the start."""
    return _bulk(body, lambda one: restart(engine, one, use_latest_definitions))


def bulk_retry(engine: Engine, body: list[str]) -> Json:
    """Reopen executions where they failed."""
    return _bulk(body, lambda one: retry(engine, one))


def bulk_terminate(engine: Engine, body: list[str], reason: str | None = None, trigger_failure_workflow: bool = False) -> Json:
    """End executions; on request as if they had failed, so that their failure workflows are started."""
    return _bulk(body, lambda one: terminate(engine, one, reason, trigger_failure_workflow))


def bulk_remove(engine: Engine, body: list[str], archive_workflow: bool = True) -> Json:
    """Delete executions that have ended."""
    return _bulk(body, lambda one: remove(engine, one, archive_workflow))


def bulk_terminate_remove(engine: Engine, body: list[str], archive_workflow: bool = True, reason: str | None = None) -> Json:
    """End and delete executions."""
    return _bulk(body, lambda one: terminate_remove(engine, one, reason, archive_workflow))


def bulk_search(engine: Engine, body: list[str], include_tasks: bool = True) -> Json:
    """Executions by their ids."""
    return _bulk(body, lambda one: execution(engine, one, include_tasks))


# ---------------------------------------------------------------------- tried out


#: Rounds of a trial: each ends every open task that has an output left.
_ROUNDS: Final = 1_000


def try_out(engine: Engine, body: Annotated[Json, StartWorkflowRequest]) -> Json:
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
    """The outputs given for the tasks of one execution, by reference, and for those of its sub-workflows."""

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
        trial.signal(one.workflow_id, output, task=one.task_id, status=status_of(str(mock.get("status") or "COMPLETED")))
    except (TaskNotFound, Conflict):
        return False
    return True


def _mock_status(mock: Json) -> TaskStatus:
    return status_of(str(mock.get("status") or "COMPLETED"))
