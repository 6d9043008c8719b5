"""The Model Context Protocol by its SDK, in one process: workflows as tools, tools as tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from mcp import Client, ListToolsResult, MCPError, Tool
from mcp.server import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, CallToolResult

from conductorlite import AsyncEngine, Engine, VirtualClock, WorkflowDef, WorkflowTask, flow, task
from conductorlite.errors import InvalidInput
from conductorlite.ext.mcp import add_workflows, tools_of
from conductorlite.flows import receive, terminate


@dataclass
class Line:
    """One line of an order."""

    item: str
    count: int = 1


@task
def charge(lines: list[Line]) -> int:
    """Number of things."""
    return sum(line.count for line in lines)


@flow
def order(lines: list[Line], who: str = "Ada") -> str:
    """Charge for goods when it is confirmed."""
    receive("confirmed", bool)
    return f"{who}: {charge(lines)}"


@flow(by_calls=True)
def broken(n: int) -> str:
    terminate("FAILED", "out of order")
    return "never"


secret = WorkflowDef(name="secret", tasks=[WorkflowTask(name="w", task_reference_name="w", type="WAIT")])
plain = WorkflowDef(name="plain", description="Waits.", tasks=secret.tasks, input_parameters=("a",))


def with_client(ask: Callable[[Client, AsyncEngine], Awaitable[None]]) -> None:
    """Run a conversation with a server that has three workflows."""

    async def run() -> None:
        server = MCPServer("shop", log_level="CRITICAL")
        async with AsyncEngine(workers=[order, broken]) as engine, engine.background():
            add_workflows(server, engine, order, broken, plain)
            async with Client(server) as client:
                await ask(client, engine)

    asyncio.run(run())


async def called(client: Client, tool: str, **given: Any) -> Any:
    """What a tool answers, or the text of its refusal."""
    answer = await client.call_tool(tool, given)
    return answer.content[0].text if answer.is_error else answer.structured_content


def test_a_workflow_is_a_tool() -> None:
    """Its schema is made of the flow's types; an execution is started once per key, sent to, and waited for."""

    async def ask(client: Client, engine: AsyncEngine) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == ["order", "broken", "plain", "workflow_status", "workflow_result", "workflow_send"]
        schema = tools["order"].input_schema
        assert schema["required"] == ["lines"]
        assert schema["properties"]["who"]["default"] == "Ada"
        assert schema["$defs"]["Line"]["properties"]["count"]["type"] == "integer"
        assert "Charge for goods" in (tools["order"].description or "")
        given = {"lines": [{"item": "tea", "count": 2}, {"item": "ham"}], "idempotency_key": "o-1"}
        begun = await called(client, "order", **given)
        assert begun["status"] == "RUNNING"
        assert await called(client, "order", **given) == begun
        execution = {"workflow_id": begun["workflow_id"]}
        status = await called(client, "workflow_status", **execution)
        assert "waits for a message of topic confirmed" in status["explanation"]
        waiting = {"status": "RUNNING", "output": None, "reason": None}
        assert await called(client, "workflow_result", **execution, wait_seconds=0) == waiting
        assert await called(client, "workflow_send", **execution, topic="confirmed", value=True, key="m-1") == {"result": 1}
        done = {"status": "COMPLETED", "output": {"result": "Ada: 3"}, "reason": None}
        assert await called(client, "workflow_result", **execution) == done

    with_client(ask)


def test_what_goes_wrong_is_said() -> None:
    """An execution that fails, input that does not fit, an execution that is none of these workflows'."""

    async def ask(client: Client, engine: AsyncEngine) -> None:
        begun = await called(client, "broken", n=1)
        result = await called(client, "workflow_result", workflow_id=begun["workflow_id"])
        assert result["status"] == "FAILED"
        assert "out of order" in result["reason"]
        assert "lines" in await called(client, "order", lines=3)
        other = await engine.start(secret)
        for tool, given in (("workflow_status", {}), ("workflow_result", {}), ("workflow_send", {"topic": "x"})):
            assert "there is no execution" in await called(client, tool, workflow_id=other.workflow_id, **given)
        assert (await called(client, "plain", a=1))["status"] == "RUNNING"

    with_client(ask)


def test_an_input_that_would_hide_the_key_is_refused() -> None:
    """The tool has an input of that name already."""
    taken = WorkflowDef(name="w", tasks=secret.tasks, input_parameters=("idempotency_key",))
    with pytest.raises(InvalidInput, match="cannot be called 'idempotency_key'"):
        add_workflows(MCPServer("s"), AsyncEngine(), taken)


calc = MCPServer("calc", log_level="CRITICAL")
keys: list[Any] = []


@calc.tool()
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@calc.tool()
def flaky(ctx: Context[Any, Any]) -> str:
    """Fail twice."""
    keys.append((ctx.request_context.meta or {}).get("conductorlite/idempotencyKey"))
    if len(keys) < 3:
        raise ConnectionError("no network")
    return "at last"


@calc.tool(name="say-it", structured_output=False)
def say_it(text: str) -> str:
    """Say something."""
    return text


def test_tools_of_a_server_are_tasks() -> None:
    """A flow calls them by name, with the defaults of the server; structured content is the output."""
    tools = asyncio.run(tools_of(lambda: Client(calc), "calc", tools={"flaky": {"retry": 2}}))
    assert sorted(tools) == ["add", "flaky", "say-it"]

    @flow(by_calls=True)
    def sums(x: int) -> list[Any]:
        added = tools["add"](a=x)
        said = tools["say-it"](text="hi")
        tried = tools["flaky"]()
        return [added["result"], said["content"], tried["result"]]

    keys.clear()
    with Engine(workers=[sums], clock=VirtualClock(0)) as engine:
        run = engine.start(sums, x=3)
        assert run.result() == [5, [{"type": "text", "text": "hi"}], "at last"]
        assert [one.task_type for one in run.tasks] == ["calc_add", "calc_say_it", *["calc_flaky"] * 3]
    assert len(set(keys)) == 1
    assert keys[0]


@pytest.mark.parametrize(("code", "attempts"), [(INVALID_PARAMS, 1), (INTERNAL_ERROR, 2)])
def test_a_call_that_the_server_refuses(code: int, attempts: int) -> None:
    """One that is wrong is not made again; another one is."""

    async def listed(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="pay", input_schema={"type": "object"})])

    async def refuse(context: Any, params: Any) -> CallToolResult:
        raise MCPError(code, "not like this")

    server = Server("s", on_list_tools=listed, on_call_tool=refuse)
    tools = asyncio.run(tools_of(lambda: Client(server), "s", tools={"pay": {"retry": 1}}))
    with Engine(workers=[tools["pay"]], clock=VirtualClock(0)) as engine:
        run = engine.run_task(tools["pay"])
        engine.run_until_idle()
        assert len(run.tasks) == attempts
        assert "not like this" in (run.tasks[-1].reason or "")


def test_options_of_a_tool_that_there_is_not() -> None:
    """They are refused when the tools are listed."""
    with pytest.raises(InvalidInput, match="the server has no tool 'sub'; it has add, flaky, say-it"):
        asyncio.run(tools_of(lambda: Client(calc), "calc", tools={"sub": {}}))
