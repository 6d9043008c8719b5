"""Eight clients at once over REST: each has the answers it would have alone, and the store holds what they were told."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from exchanges import NONE, STORY, TEXT, Exchange
from fuzz import FIVE_HUNDRED
from switching_kit import switching

from conductorlite import Engine, EngineConfig, Workers
from conductorlite.server.rest import rest_app
from conductorlite.server.rest.operations import Place
from conductorlite.server.rest.routes import OPERATIONS

CLIENTS = 8

#: Names of the story that each client has for itself.
NAMES = re.compile(
    r"(?<![\w/])(greet|hello|two|waits|sets|sub|handler|orders|vm)(?!\w)"
    r"|(?<=/)(greet|hello|two|sets)(?![\w])|(?<=3A)orders|(?<=event/)handler$"
)


def nothing() -> None:
    """A function of a worker."""


class Client:
    """One that tells the story in names of its own, and then asks for whatever is left."""

    def __init__(self, number: int, http: httpx.AsyncClient) -> None:
        self._number, self._http = number, http
        self._kept: dict[str, str] = {}
        self.wrong: list[tuple[object, ...]] = []

    def _own(self, text: str) -> str:
        named = NAMES.sub(lambda found: f"{found[0]}{self._number}", text)
        return re.sub(r"\{(wf|task)\}", lambda found: self._kept[found[1]], named)

    async def tell(self, one: Exchange) -> None:
        """One exchange, whose status is what a real server answered."""
        body = None if one.body is None else self._own(json.dumps(one.body))
        answer = await self._http.request(one.method, self._own(one.path), content=body)
        if answer.status_code != one.status or (one.shape == NONE and not isinstance(answer.json(), list)):
            self.wrong.append((one.method, one.path, answer.status_code, answer.text[:300]))
        elif one.keep:
            said: Any = answer.text if one.shape == TEXT else answer.json()
            self._kept[one.keep] = said if isinstance(said, str) else (said[0] if isinstance(said, list) else said)["taskId"]

    async def start_many(self, count: int) -> None:
        """Register definitions whose workers are elsewhere, and start each."""
        for n in range(count):
            tasks = [{"name": f"t{self._number}-{n}-{k}", "taskReferenceName": f"r{k}"} for k in range(3)]
            name = f"w{self._number}-{n}"
            for path, body in (
                ("/api/metadata/workflow", {"name": name, "version": 1, "tasks": tasks}),
                (f"/api/workflow/{name}", {}),
            ):
                answer = await self._http.post(path, content=json.dumps(body))
                if answer.status_code != 200:
                    self.wrong.append((path, answer.status_code, answer.text[:300]))

    async def ask_for_the_rest(self) -> None:
        """Each operation once with names that nobody has: none ends in an error of ours."""
        for one in OPERATIONS:
            query = {
                each.name: "0" for each in one.parameters if each.place is Place.QUERY and each.name.startswith(("time", "wait"))
            }
            body = "{}" if any(each.place is Place.BODY for each in one.parameters) else None
            path = re.sub(r"\{\w+\}", f"nobody{self._number}", one.path)
            answer = await self._http.request(one.method, path, params=query, content=body)
            if answer.status_code >= 500 and one.function.__name__ not in FIVE_HUNDRED:
                self.wrong.append((one.method, path, answer.status_code, answer.text[:300]))


def told(engine: Engine, clients: int) -> Counter[str]:
    """Have so many clients tell the story at once; how the executions stand that are stored then."""
    workers: list[Client] = []

    async def main() -> None:
        transport = httpx.ASGITransport(rest_app(engine))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as http:

            async def client(number: int) -> None:
                workers.append(one := Client(number, http))
                await one.start_many(25)
                for exchange in STORY:
                    await one.tell(exchange)
                await one.ask_for_the_rest()

            await asyncio.gather(*(client(number) for number in range(clients)))

    driver = threading.Thread(target=engine.run_forever)
    driver.start()
    with switching():
        asyncio.run(asyncio.wait_for(main(), 120))
    assert driver.is_alive(), "the driver has ended"
    engine.stop()
    driver.join(60)
    assert [wrong for one in workers for wrong in one.wrong] == []
    assert engine.admin.check() == []
    return Counter(str(engine.status(one)) for one in engine.admin.workflow_ids())


@pytest.mark.parametrize("store", ["memory", pytest.param("sqlite", marks=pytest.mark.slow)])
def test_eight_clients_are_answered_as_one(store: str, tmp_path: Path) -> None:
    """Statuses are those of one client alone, and there are eight times as many executions."""
    found = []
    for clients in (1, CLIENTS):
        workers = Workers()
        workers.add("another", nothing)  # an engine with workers warns of tasks that none of them carries out
        path = None if store == "memory" else tmp_path / f"{clients}.db"
        with Engine(path, workers=workers, config=EngineConfig(semantics="OSS")) as engine:  # type: ignore[arg-type]
            found.append(told(engine, clients))
    assert found[1] == {status: CLIENTS * number for status, number in found[0].items()}
