"""Conductor's gRPC API as an asyncio server: the operations of the REST API under their other names.

Each RPC is a row of `METHODS`: its messages, and the operation that it is. An answer is a property of the response's JSON, or the
whole of it; of a stream it is a list. A long poll takes no thread; what a client has polled and does not take is given back. Errors
are status codes, and a sentence.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import attrs

import conductorlite.server.rest.definitions as definitions
import conductorlite.server.rest.executions as executions
import conductorlite.server.rest.tasks as tasks
from conductorlite.model.errors import (
    AlreadyExists,
    ConductorliteError,
    Conflict,
    EngineClosed,
    InvalidDefinition,
    InvalidExpression,
    InvalidInput,
    MailboxFull,
    MissingExtra,
    NotFound,
    StorageError,
)
from conductorlite.model.executions import Task
from conductorlite.model.threads import Waiter, clean_up, started
from conductorlite.runtime.aio import AsyncEngine
from conductorlite.runtime.engine import Engine
from conductorlite.server.messages import filled, message_class, read
from conductorlite.server.rest.documents import with_input
from conductorlite.server.rest.operations import NO_BODY, Refused, Text
from conductorlite.server.rest.tasks import Polled, batch_poll, poll
from conductorlite.server.safety import Role, Safety, is_loopback
from conductorlite.server.waiting import Waiting

try:
    import grpc
except ImportError as error:
    raise MissingExtra("grpc", "A gRPC server") from error

__all__ = ["METHODS", "Call", "Method", "grpc_served", "grpc_server"]

Json = Mapping[str, Any]
Call = Callable[[Engine, Json], Any]


@attrs.frozen(kw_only=True, slots=True)
class Method:
    """One RPC: its service and name, the messages it takes and gives, and what it does with the request's JSON."""

    service: str
    name: str
    takes: str
    gives: str
    #: None: it polls, and waits.
    call: Call | None
    stream: bool = False

    @property
    def role(self) -> Role:
        """The role it needs."""
        return Role.READ if self.name.startswith(("Get", "Search", "Validate", "Check")) else Role.WRITE


def _id(verb: Callable[[Engine, str], Any]) -> Call:
    """A verb of an execution that takes nothing but its id."""
    return lambda engine, asked: verb(engine, asked.get("workflowId", ""))


def _page(search: Callable[..., Any]) -> Call:
    def call(engine: Engine, asked: Json) -> Any:
        names = {"freeText": "free_text"}
        given = {names.get(name, name): value for name, value in asked.items()}
        return search(engine, **{"size": 100, **given})

    return call


def _correlated(engine: Engine, asked: Json) -> Any:
    found = executions.correlated_with(
        engine, asked.get("name", ""), asked.get("correlationId", []), asked["includeClosed"], asked["includeTasks"]
    )
    return {"workflowsById": {one: {"workflows": rows} for one, rows in found.items()}}


def _skip(engine: Engine, asked: Json) -> Any:
    given = asked.get("request", NO_BODY)
    engine.skip_task(
        asked.get("workflowId", ""),
        asked.get("taskReferenceName", ""),
        input=_with_message(given, "taskInput", "inputMessage"),
        output=_with_message(given, "taskOutput", "outputMessage"),
    )


def _with_message(given: Json, name: str, within: str) -> Any:
    """A payload with the message that stands beside it on the wire; None for neither."""
    message = given.get(f"{name}Message")
    return given.get(name) if message is None else {**given.get(name, {}), within: message}


_WORKFLOWS: Final = "conductor.grpc.workflows.WorkflowService"
_TASKS: Final = "conductor.grpc.tasks.TaskService"
_METADATA: Final = "conductor.grpc.metadata.MetadataService"
_EVENTS: Final = "conductor.grpc.events.EventService"


def _method(service: str, name: str, call: Call | None, takes: str = "", gives: str = "", *, stream: bool = False) -> Method:
    """A row; messages are named after the RPC unless said, and looked for beside the service."""
    package = service.rpartition(".")[0]
    messages = (takes or f"{name}Request", gives or f"{name}Response")
    asked, answered = (one if one.startswith("conductor.") else f"{package}.{one}" for one in messages)
    return Method(service=service, name=name, takes=asked, gives=answered, call=call, stream=stream)


_SEARCH: Final = "conductor.grpc.search.Request"

METHODS: Final[tuple[Method, ...]] = (
    _method(_METADATA, "CreateWorkflow", lambda e, r: definitions.create_workflow(e, r["workflow"])),
    _method(_METADATA, "ValidateWorkflow", lambda e, r: definitions.validate_workflow(e, r["workflow"])),
    _method(_METADATA, "UpdateWorkflows", lambda e, r: definitions.update_workflows(e, r.get("defs", [])) and None),
    _method(
        _METADATA, "GetWorkflow", lambda e, r: {"workflow": definitions.workflow_def_named(e, r.get("name", ""), r.get("version"))}
    ),
    _method(_METADATA, "CreateTasks", lambda e, r: definitions.register_tasks(e, r.get("defs", []))),
    _method(_METADATA, "UpdateTask", lambda e, r: definitions.update_task_def(e, r["task"])),
    _method(_METADATA, "GetTask", lambda e, r: {"task": definitions.task_def_named(e, r.get("taskType", ""))}),
    _method(_METADATA, "DeleteTask", lambda e, r: e.definitions.unregister_task(r.get("taskType", ""))),
    _method(
        _WORKFLOWS,
        "StartWorkflow",
        lambda e, r: {"workflowId": executions.start(e, dict(r))},
        "conductor.proto.StartWorkflowRequest",
    ),
    _method(_WORKFLOWS, "GetWorkflows", _correlated),
    _method(
        _WORKFLOWS,
        "GetWorkflowStatus",
        lambda e, r: executions.execution(e, r.get("workflowId", ""), r["includeTasks"]),
        gives="conductor.proto.Workflow",
    ),
    _method(_WORKFLOWS, "RemoveWorkflow", lambda e, r: executions.remove(e, r.get("workflodId", ""), r["archiveWorkflow"])),
    _method(
        _WORKFLOWS,
        "GetRunningWorkflows",
        lambda e, r: {
            "workflowIds": executions.running(e, r.get("name", ""), r.get("version", 1), r.get("startTime", 0), r.get("endTime", 0))
        },
    ),
    _method(_WORKFLOWS, "DecideWorkflow", _id(executions.decide)),
    _method(_WORKFLOWS, "PauseWorkflow", _id(executions.pause)),
    _method(_WORKFLOWS, "ResumeWorkflow", _id(lambda e, one: e.resume(one))),
    _method(_WORKFLOWS, "SkipTaskFromWorkflow", _skip, "SkipTaskRequest", "SkipTaskResponse"),
    _method(
        _WORKFLOWS,
        "RerunWorkflow",
        lambda e, r: {"workflowId": executions.rerun(e, r.get("reRunFromWorkflowId", ""), dict(r))},
        "conductor.proto.RerunWorkflowRequest",
    ),
    _method(_WORKFLOWS, "RestartWorkflow", lambda e, r: executions.restart(e, r.get("workflowId", ""), r["useLatestDefinitions"])),
    _method(_WORKFLOWS, "RetryWorkflow", lambda e, r: executions.retry(e, r.get("workflowId", ""), r["resumeSubworkflowTasks"])),
    _method(_WORKFLOWS, "ResetWorkflowCallbacks", _id(executions.reset_callbacks)),
    _method(
        _WORKFLOWS,
        "TerminateWorkflow",
        lambda e, r: executions.terminate(e, r.get("workflowId", ""), r.get("reason"), r["triggerFailureWorkflow"]),
    ),
    _method(_WORKFLOWS, "Search", _page(executions.search), _SEARCH, "WorkflowSummarySearchResult"),
    _method(_WORKFLOWS, "SearchByTasks", _page(executions.search_by_tasks), _SEARCH, "WorkflowSummarySearchResult"),
    _method(_WORKFLOWS, "SearchV2", _page(executions.search_v2), _SEARCH, "WorkflowSearchResult"),
    _method(_WORKFLOWS, "SearchByTasksV2", _page(executions.search_by_tasks_v2), _SEARCH, "WorkflowSearchResult"),
    _method(_TASKS, "Poll", None),
    _method(_TASKS, "BatchPoll", None, gives="conductor.proto.Task", stream=True),
    _method(_TASKS, "UpdateTask", lambda e, r: {"taskId": tasks.report(e, r.get("result", NO_BODY))}),
    _method(_TASKS, "AddLog", lambda e, r: tasks.log(e, r.get("taskId", ""), Text(r.get("log", "")))),
    _method(_TASKS, "GetTaskLogs", lambda e, r: {"logs": tasks.logs(e, r.get("taskId", ""))}),
    _method(_TASKS, "GetTask", lambda e, r: {"task": tasks.task_by_id(e, r.get("taskId", ""))}),
    _method(
        _TASKS,
        "GetQueueSizesForTasks",
        lambda e, r: {"queueForTask": tasks.queue_sizes(e, r.get("taskTypes", []))},
        "QueueSizesRequest",
        "QueueSizesResponse",
    ),
    _method(_TASKS, "GetQueueInfo", lambda e, _: {"queues": tasks.queue_all(e)}, "QueueInfoRequest", "QueueInfoResponse"),
    _method(
        _TASKS,
        "GetQueueAllInfo",
        lambda e, _: {"queues": {queue: {"shards": shards} for queue, shards in tasks.queue_all_verbose(e).items()}},
        "QueueAllInfoRequest",
        "QueueAllInfoResponse",
    ),
    _method(_TASKS, "Search", _page(tasks.search_tasks), _SEARCH, "TaskSummarySearchResult"),
    _method(_TASKS, "SearchV2", _page(tasks.search_tasks_v2), _SEARCH, "TaskSearchResult"),
    _method(_EVENTS, "AddEventHandler", lambda e, r: definitions.add_event_handler(e, r["handler"])),
    _method(_EVENTS, "UpdateEventHandler", lambda e, r: definitions.update_event_handler(e, r["handler"])),
    _method(_EVENTS, "RemoveEventHandler", lambda e, r: e.events.unregister(r.get("name", ""))),
    _method(
        _EVENTS, "GetEventHandlers", lambda e, _: definitions.event_handlers(e), gives="conductor.proto.EventHandler", stream=True
    ),
    _method(
        _EVENTS,
        "GetEventHandlersForEvent",
        lambda e, r: definitions.event_handlers_of(e, r.get("event", ""), r["activeOnly"]),
        gives="conductor.proto.EventHandler",
        stream=True,
    ),
    Method(
        service="grpc.health.v1.Health",
        name="Check",
        takes="grpc.health.v1.HealthCheckRequest",
        gives="grpc.health.v1.HealthCheckResponse",
        call=lambda _, __: {"status": "SERVING"},
    ),
)


#: Status codes of errors, the most special first.
_CODES: Final[tuple[tuple[type[BaseException], Any], ...]] = (
    (NotFound, grpc.StatusCode.NOT_FOUND),
    (AlreadyExists, grpc.StatusCode.ALREADY_EXISTS),
    (MailboxFull, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (Conflict, grpc.StatusCode.FAILED_PRECONDITION),
    (InvalidInput, grpc.StatusCode.INVALID_ARGUMENT),
    (InvalidDefinition, grpc.StatusCode.INVALID_ARGUMENT),
    (InvalidExpression, grpc.StatusCode.INVALID_ARGUMENT),
    (KeyError, grpc.StatusCode.INVALID_ARGUMENT),
    (StorageError, grpc.StatusCode.UNAVAILABLE),
    (EngineClosed, grpc.StatusCode.UNAVAILABLE),
)
_STATUSES: Final = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.FAILED_PRECONDITION,
}

#: Seconds that calls may take to end when the server stops, and a thread to begin.
_GRACE: Final = 2.0
_PATIENCE: Final = 30.0

#: Every caller on this machine may do everything, and no other.
_LOCAL: Final = Safety(anonymous=Role.ADMIN)


def grpc_server(
    engine: Engine | AsyncEngine,
    address: str = "127.0.0.1:0",
    *,
    safety: Safety = _LOCAL,
    certificate: str | None = None,
    key: str | None = None,
) -> tuple[Any, int]:
    """An asyncio server (`grpc.aio.Server`) that is not started yet, and its port; made on the event loop that it is to run on.

    Nothing is driven by it. A caller that `safety` knows by a token only shows it as `authorization` or
    `x-authorization` of its metadata; an address that other machines reach takes a token. `certificate` and `key` are files, for
    TLS. Raises InvalidInput, MissingExtra, and OSError when the address cannot be had.
    """
    if safety.token is None and not is_loopback(address.rpartition(":")[0]):
        raise InvalidInput(f"{address} can be reached from other machines: that needs a token")
    waiting = Waiting(engine if isinstance(engine, Engine) else engine._engine)
    options = [("grpc.max_receive_message_length", safety.max_body), ("grpc.so_reuseport", 0)]
    server = grpc.aio.server(options=options, maximum_concurrent_rpcs=safety.concurrency)
    services: dict[str, dict[str, Any]] = {}
    for one in METHODS:
        call = _poll(waiting) if one.call is None else _called(waiting, one.call, one)
        services.setdefault(one.service, {})[one.name] = _handler(one, call, safety)
    for service, methods in services.items():
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    try:
        if certificate is None:
            port = server.add_insecure_port(address)
        else:
            files = (Path(key or certificate).read_bytes(), Path(certificate).read_bytes())
            port = server.add_secure_port(address, grpc.ssl_server_credentials([files]))
    except RuntimeError as error:
        raise OSError(f"{address}: cannot listen there: {error}") from error
    return server, port


@contextmanager
def grpc_served(
    engine: Engine,
    address: str = "127.0.0.1:0",
    *,
    safety: Safety = _LOCAL,
    certificate: str | None = None,
    key: str | None = None,
) -> Iterator[int]:
    """Serve in a thread with an event loop of its own while the block lasts, which gets the port; raises as `grpc_server`."""
    found: list[int | BaseException] = []
    changed, over = Waiter(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def main() -> None:
        try:
            server, port = grpc_server(engine, address, safety=safety, certificate=certificate, key=key)
            await server.start()
            found.append(port)
        except BaseException as error:
            found.append(error)
            return
        finally:
            changed.wake()
        await over.wait()
        await server.stop(_GRACE)

    thread = started(lambda: loop.run_until_complete(main()), name="conductorlite-grpc")
    error: BaseException | None = None
    try:
        changed.wait(_PATIENCE)
        if not found or isinstance(found[0], BaseException):
            raise found[0] if found else OSError(f"{address}: no answer")  # type: ignore[misc]
        yield found[0]
    except BaseException as raised:
        error = raised
        raise
    finally:
        end, join = partial(loop.call_soon_threadsafe, over.set), partial(thread.join, _PATIENCE)
        clean_up(error, "ending a server of gRPC", end, join, loop.close)
        del error  # or this frame and the exception would keep one another


def _handler(method: Method, call: Callable[[Any, Any], Awaitable[Any]], safety: Safety) -> Any:
    """A handler of grpc's, which asks who calls before, and says errors as codes."""

    async def answer(request: Any, context: Any) -> Any:
        try:
            await _admitted(context, safety, method.role)
            return await call(request, context)
        except (Refused, ConductorliteError, KeyError) as error:
            await context.abort(_code(error), f"{error} is missing" if type(error) is KeyError else str(error))

    async def answers(request: Any, context: Any) -> AsyncIterator[Any]:
        for one in await answer(request, context):
            yield one

    takes, gives = message_class(method.takes), message_class(method.gives)
    kind = grpc.unary_stream_rpc_method_handler if method.stream else grpc.unary_unary_rpc_method_handler
    return kind(answers if method.stream else answer, takes.FromString, gives.SerializeToString)


def _code(error: Exception) -> Any:
    if isinstance(error, Refused):
        return _STATUSES.get(error.status, grpc.StatusCode.INTERNAL)
    return next((code for kind, code in _CODES if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


async def _admitted(context: Any, safety: Safety, needed: Role) -> None:
    """Abort unless the caller may."""
    sent = {name.lower(): value for name, value in context.invocation_metadata() or ()}
    kind, _, given = str(sent.get("authorization", "")).partition(" ")
    token = given.strip() if kind.lower() == "bearer" else sent.get("x-authorization")
    caller = await safety.who(token, near=_near(context.peer()))
    if needed > Role.READ and safety.read_only:
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, "this server is read-only")
    if caller is None:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, f"this needs a token for the role {needed.name}")
    elif caller.role < needed:
        said = f"this needs the role {needed.name}, the caller has {caller.role.name}"
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, said)


def _near(peer: str) -> bool:
    """Return True if a peer, such as `ipv4:127.0.0.1:5000`, is on this machine."""
    kind, _, address = peer.partition(":")
    return kind in ("ipv4", "ipv6") and is_loopback(unquote(address).rpartition(":")[0])


def _called(waiting: Waiting, operation: Call, method: Method) -> Callable[[Any, Any], Awaitable[Any]]:
    gives = message_class(method.gives)

    def call(request: Any) -> Any:
        answer = operation(waiting.engine, read(request))
        return [filled(gives(), one) for one in answer] if method.stream else filled(gives(), answer or {})

    return lambda request, _: waiting.call(call, request)


def _poll(waiting: Waiting) -> Callable[[Any, Any], Awaitable[Any]]:
    """Poll and BatchPoll; what a client that has gone away does not get is given back."""

    async def call(request: Any, context: Any) -> Any:
        asked = read(request)
        who = (asked.get("taskType", ""), asked.get("workerId"), asked.get("domain"))
        several = "count" in request.DESCRIPTOR.fields_by_name
        if several:
            taken = await batch_poll(waiting, *who, count=asked.get("count", 1), timeout=asked.get("timeout", 0))
        else:
            taken = await poll(waiting, *who)
        tasks: Sequence[Task] = taken.tasks
        # Clients of gRPC fetch nothing from a payload storage.
        for document, one in zip(taken.value if several else [taken.value], tasks, strict=False):
            with_input(document, one)
        context.add_done_callback(lambda done: waiting.give_up(tasks) if done.cancelled() else None)
        return _handed(taken, several)

    return call


def _handed(taken: Polled, several: bool) -> Any:
    task = message_class("conductor.proto.Task")
    if several:
        return [filled(task(), one) for one in taken.value]
    return filled(message_class("conductor.grpc.tasks.PollResponse")(), {} if taken.value is None else {"task": taken.value})
