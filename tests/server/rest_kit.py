"""Asking the REST API of an engine, without a port."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import httpx
from decoder import checked

from conductorlite import Engine
from conductorlite.server.rest import rest_app

Ask = Callable[..., Awaitable[httpx.Response]]


def asking(engine: Engine, test: Callable[[Ask], Coroutine[Any, Any, None]], *, settle: bool = True) -> None:
    """Run a test that asks the app of an engine; each answer is decoded strictly, and then what is due is done."""

    async def main() -> None:
        transport = httpx.ASGITransport(rest_app(engine))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:

            async def ask(method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
                if body is not None:
                    options["content"] = json.dumps(body)
                answer = await client.request(method, path, **options)
                checked(answer)
                if settle:
                    engine.settle()
                return answer

            await test(ask)

    asyncio.run(asyncio.wait_for(main(), 30))
