"""Workflows as tools of an MCP server, and the tools of another MCP server as tasks of that workflow."""

import asyncio

from mcp import Client
from mcp.server.mcpserver import MCPServer

from conductorlite import AsyncEngine, flow
from conductorlite.ext.mcp import add_workflows, tools_of
from conductorlite.flows import receive

#: Somebody else's server: over the network it is `Client("https://…/mcp")`.
shop = MCPServer("shop")


@shop.tool()
def reserve(item: str, count: int = 1) -> str:
    """Reserve goods."""
    return f"{count} x {item}"


async def main(store: str | None = None) -> None:
    """Call the workflow as a model would."""
    tools = await tools_of(lambda: Client(shop), "shop", tools={"reserve": {"retry": 5}})

    @flow(by_calls=True)
    def order(item: str, count: int = 1) -> str:
        """Reserve goods, and wait until they are paid."""
        reserved = tools["reserve"](item=item, count=count)
        paid = receive("paid", dict)
        return f"{reserved.result}, paid by {paid.by}"

    ours = MCPServer("orders")
    async with AsyncEngine(store, workers=[order]) as engine, engine.background():
        add_workflows(ours, engine, order)
        async with Client(ours) as client:
            print(*(tool.name for tool in (await client.list_tools()).tools))
            begun = await client.call_tool("order", {"item": "tea", "count": 2, "idempotency_key": "o-7"})
            named = {"workflow_id": begun.structured_content["workflow_id"]}
            await client.call_tool("workflow_send", {**named, "topic": "paid", "value": {"by": "Ada"}})
            print((await client.call_tool("workflow_result", named)).structured_content)


if __name__ == "__main__":
    asyncio.run(main("orders.db"))
