"""The Model Context Protocol: workflows as tools of a server, and tools of a server as tasks. The one importer of mcp."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from inspect import Parameter, Signature, signature
from typing import Any, Final, TypedDict

from conductorlite.errors import ResultTimeout, WorkflowFailed
from conductorlite.flows import TaskFunction, task
from conductorlite.flows.schemas import hints
from conductorlite.model.definitions import IdempotencyStrategy, WorkflowDef
from conductorlite.model.errors import ConductorliteError, ExecutionNotFound, InvalidInput, MissingExtra, TaskFailedTerminally
from conductorlite.model.executions import Workflow
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.runtime.aio import AsyncEngine
from conductorlite.runtime.context import TaskContext
from conductorlite.runtime.registry import Startable

try:
    from mcp import Client, MCPError
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND, Tool
except ImportError as error:
    raise MissingExtra("mcp", "The Model Context Protocol") from error

__all__ = ["add_workflows", "tools_of"]

_KEY: Final = "idempotency_key"

_META_KEY: Final = "conductorlite/idempotencyKey"


class Started(TypedDict):
    """The answer of the tool that starts a workflow."""

    workflow_id: str
    status: str


class Status(TypedDict):
    """How an execution stands."""

    status: str
    explanation: str


class Result(TypedDict):
    """The result of an execution: `output` when it is COMPLETED, `reason` when it ended otherwise."""

    status: str
    output: dict[str, Any] | None
    reason: str | None


def add_workflows(server: MCPServer[Any], engine: AsyncEngine, *workflows: Startable[..., Any] | WorkflowDef) -> None:
    """Add workflows to a server as tools: one of each name, which starts an execution and returns its id at once.

    It takes the workflow's inputs, and an `idempotency_key` that starts it once. Three more are for the executions of these
    workflows, and no others: `workflow_status`, `workflow_result`, which waits for a given number of seconds, and `workflow_send`,
    which sends a message. Something has to drive the engine, such as `engine.background()`. Raises InvalidInput for a workflow
    whose input is called `idempotency_key`.
    """
    names: set[str] = set()
    for workflow in workflows:
        definition = workflow if isinstance(workflow, WorkflowDef) else workflow.definition
        names.add(definition.name)
        said = f"Start the workflow {definition.name!r} and return the id of its execution."
        said = f"{said} {definition.description or getattr(workflow, '__doc__', None) or ''}".strip()
        server.add_tool(_starter(engine, workflow, definition), definition.name, description=said)

    async def found(workflow_id: str) -> Workflow:
        workflow = await engine.get(workflow_id, masked=True)
        if workflow.name not in names:
            raise ExecutionNotFound(f"there is no execution {workflow_id!r}")
        return workflow

    async def workflow_status(workflow_id: str) -> Status:
        """Say how an execution stands, and what it waits for."""
        status = (await found(workflow_id)).status
        return Status(status=status.value, explanation=str(await engine.explain(workflow_id)))

    async def workflow_result(workflow_id: str, wait_seconds: float = 30) -> Result:
        """Wait for the end of an execution, at most so many seconds; the status is RUNNING when it goes on after them."""
        await found(workflow_id)
        reason: str | None = None
        try:
            await engine.result(workflow_id, timeout=f"{wait_seconds}s")
        except WorkflowFailed as failed:
            reason = str(failed)
        except ResultTimeout:
            pass  # it goes on, as its status says
        now = await found(workflow_id)
        completed = now.status is WorkflowStatus.COMPLETED
        return Result(status=now.status.value, output=now.output_data if completed else None, reason=reason)

    async def workflow_send(workflow_id: str, topic: str, value: Any = None, key: str | None = None) -> int:
        """Send an execution a message, which the step receives that waits for its topic; with a key only once."""
        await found(workflow_id)
        return (await engine.send(workflow_id, topic, value, key=key)).number

    for tool in (workflow_status, workflow_result, workflow_send):
        server.add_tool(_answering(tool), tool.__name__)


def _answering(tool: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A tool that answers what is refused with its reason."""

    async def answering(**given: Any) -> Any:
        try:
            return await tool(**given)
        except ConductorliteError as error:
            raise ToolError(str(error)) from error

    answering.__name__, answering.__doc__ = tool.__name__, tool.__doc__
    answering.__signature__ = signature(tool, eval_str=True)  # type: ignore[attr-defined]
    return answering


def _starter(engine: AsyncEngine, workflow: Any, definition: WorkflowDef) -> Callable[..., Awaitable[Started]]:
    async def starter(idempotency_key: str | None = None, **given: Any) -> Started:
        options: dict[str, Any] = {"idempotency_key": idempotency_key}
        if idempotency_key is not None:
            options["idempotency_strategy"] = IdempotencyStrategy.RETURN_EXISTING
        if isinstance(workflow, WorkflowDef):
            run = await engine.start(workflow, given, **options)
        else:
            run = await engine.start(workflow.options(**options), **given)
        return Started(workflow_id=run.workflow_id, status=(await run.status).value)

    defaults, kinds = definition.input_template, {} if isinstance(workflow, WorkflowDef) else hints(workflow.function)
    if _KEY in definition.input_parameters:
        raise InvalidInput(f"workflow {definition.name!r}: an input cannot be called {_KEY!r} in a tool")
    parameters = [
        Parameter(one, Parameter.KEYWORD_ONLY, annotation=kinds.get(one, Any), default=defaults.get(one, Parameter.empty))
        for one in definition.input_parameters
    ]
    parameters.append(Parameter(_KEY, Parameter.KEYWORD_ONLY, annotation=str | None, default=None))
    starter.__signature__ = Signature(parameters, return_annotation=Started)  # type: ignore[attr-defined]
    return _answering(starter)


async def tools_of(
    connect: Callable[[], Client], name: str, *, tools: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, TaskFunction[..., dict[str, Any]]]:
    """Tools of a server as tasks, by the tools' names: `tools = asyncio.run(tools_of(lambda: Client(url), "weather"))`.

    Each is a task of the type `<name>_<tool>`, which flows call and an engine is given among its workers. Its output is the tool's
    structured content, otherwise `content`. `connect` makes the client for each call. `tools` has options of a tool, as
    `conductorlite.task` takes them. An answer that is an error fails the attempt. A call that is refused as wrong fails the task
    for good. The server gets the task's idempotency key as `conductorlite/idempotencyKey` of the call's metadata. Raises
    InvalidInput for options of a tool that there is not.
    """
    found: list[Tool] = []
    async with connect() as client:
        listed = await client.list_tools()
        found += listed.tools
        while listed.next_cursor:
            listed = await client.list_tools(cursor=listed.next_cursor)
            found += listed.tools
    for one in (tools or {}).keys() - {tool.name for tool in found}:
        raise InvalidInput(f"the server has no tool {one!r}; it has {', '.join(tool.name for tool in found) or 'none'}")
    made: dict[str, TaskFunction[..., dict[str, Any]]] = {}
    for tool in found:
        options: Any = (tools or {}).get(tool.name, {})
        made[tool.name] = task(re.sub(r"\W", "_", f"{name}_{tool.name}"), **options)(_caller(connect, tool))
    return made


def _caller(connect: Callable[[], Client], tool: Tool) -> Callable[..., Awaitable[dict[str, Any]]]:
    known, required = tool.input_schema.get("properties", {}), set(tool.input_schema.get("required", ()))

    async def call(context: TaskContext = TaskContext.given, **given: Any) -> dict[str, Any]:
        arguments = {key: value for key, value in given.items() if value is not None or key in required}
        meta: Any = {_META_KEY: context.idempotency_key}
        async with connect() as client:
            try:
                answer: Any = await client.call_tool(tool.name, arguments, meta=meta)
            except MCPError as error:  # which would leave the client in a group
                answer = error
        if isinstance(answer, MCPError):
            if answer.error.code in (INVALID_PARAMS, METHOD_NOT_FOUND):
                raise TaskFailedTerminally(f"{tool.name}: {answer}") from answer
            raise answer
        content = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in answer.content]
        if answer.is_error:
            raise RuntimeError(f"{tool.name}: {' '.join(one.get('text', one['type']) for one in content)}")
        return answer.structured_content if isinstance(answer.structured_content, dict) else {"content": content}

    call.__doc__ = tool.description
    if all(name.isidentifier() for name in known):
        own = [one for one in signature(call).parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        given = [Parameter(one, Parameter.KEYWORD_ONLY, default=Parameter.empty if one in required else None) for one in known]
        call.__signature__ = Signature([*own, *given])  # type: ignore[attr-defined]
    return call
