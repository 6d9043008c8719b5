"""Flows and worker functions on a Conductor server, through its HTTP API; here the server is one of ours, on a virtual clock."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from conductorlite import (
    Engine,
    TaskContext,
    TaskDef,
    TaskFailedTerminally,
    VirtualClock,
    Workers,
    WorkflowDef,
    WorkflowTask,
    flow,
    task,
)
from conductorlite.errors import ConductorServerError, InvalidDefinition, InvalidInput, NotFound
from conductorlite.ext.conductor import ConductorClient
from conductorlite.ext.conductor_worker import _Pauses
from conductorlite.flows import Backoff, each

pytest.importorskip("uvicorn", reason="needs the extra server")
from conductorlite.testing.server import ConductorServer


@task
async def greet(name: str) -> str:
    return f"Hello, {name}!"


@task(retry=Backoff(3, first="1h"))
def double(n: int, context: TaskContext) -> int:
    context.log(f"attempt {context.attempt}")
    if context.attempt < 2:
        raise ConnectionError("not yet")
    return 2 * n


@flow
def doubled(n: int) -> int:
    return double(n)


@flow
def welcome(name: str, numbers: list[int]) -> dict[str, object]:
    greeting = greet(name)
    return {"greeting": greeting, "doubled": each(numbers, doubled)}


@pytest.fixture
def server() -> Iterator[ConductorServer]:
    """A server of ours at a port of this machine."""
    with ConductorServer() as running:
        yield running


@pytest.fixture
def client(server: ConductorServer) -> ConductorClient:
    """Asks it."""
    return ConductorClient(server.api)


def worked(server: ConductorServer, client: ConductorClient, workers: Any, *ids: str, pass_: str = "10m") -> list[dict[str, Any]]:
    """Run the functions until these executions have ended; meanwhile time passes, whatever they do."""

    async def main() -> list[dict[str, Any]]:
        stop = asyncio.Event()
        working = asyncio.create_task(client.work_async(workers, stop=stop))
        for _ in range(1_000):
            found = [await asyncio.to_thread(client.get, each) for each in ids]
            if working.done() or all(one["status"] != "RUNNING" for one in found):
                break
            await asyncio.to_thread(server.advance, pass_)
        stop.set()
        await working
        return found

    return asyncio.run(main())


@pytest.mark.slow
def test_a_flow_ends_there_as_it_does_here(server: ConductorServer, client: ConductorClient) -> None:
    """Plain functions and coroutines, retries, a list whose items are flows; log lines are kept, the traceback is the last."""
    client.register(welcome)
    workflow_id = client.start(welcome, {"name": "Ann", "numbers": [1, 2]}, correlation_id="c", priority=3)
    (there,) = worked(server, client, welcome, workflow_id)
    with Engine(workers=welcome, clock=VirtualClock(0)) as engine:
        here = engine.start(welcome, name="Ann", numbers=[1, 2])
        engine.advance("1d")
        assert there["output"] == here.result()
    assert (there["status"], there["correlationId"], there["priority"]) == ("COMPLETED", "c", 3)
    assert there["output"] == {"greeting": "Hello, Ann!", "doubled": [2, 4]}
    child = client.get(next(row for row in there["tasks"] if row["referenceTaskName"].startswith("_"))["subWorkflowId"])
    inner = client.get(child["tasks"][0]["subWorkflowId"])
    first = inner["tasks"][0]
    assert [row["status"] for row in inner["tasks"]] == ["FAILED", "FAILED", "COMPLETED"]
    assert first["reasonForIncompletion"] == "ConnectionError: not yet"
    lines = [line.text for line in server.engine.tasks.logs(first["taskId"])]
    assert lines[0] == "attempt 0"
    assert lines[-1].startswith("Traceback")
    assert "not yet" in lines[-1]


@pytest.mark.slow
def test_what_fails_for_good_is_not_tried_again(server: ConductorServer, client: ConductorClient) -> None:
    """TaskFailedTerminally, and an input that the function cannot take, are reported so."""
    workers = Workers()
    called: list[int] = []

    @workers.task("pay", retry_count=3)
    def pay(amount: int) -> None:
        called.append(amount)
        raise TaskFailedTerminally("no money")

    client.register(workers, WorkflowDef(name="w", tasks=[step("pay", amount="${workflow.input.amount}")]))
    ids = [client.start("w", {"amount": 3}), client.start("w", {"amount": "three"})]
    found = worked(server, client, workers, *ids)
    assert [one["status"] for one in found] == ["FAILED", "FAILED"]
    assert [one["tasks"][0]["status"] for one in found] == ["FAILED_WITH_TERMINAL_ERROR"] * 2
    assert "no money" in found[0]["reasonForIncompletion"]
    assert "amount: expected int" in found[1]["reasonForIncompletion"]
    assert called == [3]


def step(name: str, ref: str | None = None, **given: Any) -> WorkflowTask:
    return WorkflowTask(name=name, task_reference_name=ref or name, input_parameters=given)


@pytest.mark.slow
def test_no_more_run_at_once_than_may(server: ConductorServer, client: ConductorClient) -> None:
    """By the bound of the set and by that of a function; a domain's tasks go to its own worker."""
    workers = Workers(concurrency=3)
    running: list[str] = []
    most: dict[str, int] = {}
    guard = threading.Lock()

    def counted(name: str, context: TaskContext) -> dict[str, Any]:
        with guard:
            running.append(name)
            most[name] = max(most.get(name, 0), running.count(name))
            most["all"] = max(most.get("all", 0), len(running))
        context.heartbeat()  # takes a moment
        with guard:
            running.remove(name)
        return {"worker": name}

    @workers.task("a", concurrency=1)
    def a(context: TaskContext) -> dict[str, Any]:
        return counted("a", context)

    @workers.task("b")
    def b(context: TaskContext) -> dict[str, Any]:
        return counted("b", context)

    @workers.task("b", domain="north")
    def north(context: TaskContext) -> dict[str, Any]:
        return counted("north", context)

    both = WorkflowTask(name="f", task_reference_name="f", type="FORK_JOIN", fork_tasks=[[step("a")], [step("b")]])
    join = WorkflowTask(name="j", task_reference_name="j", type="JOIN", join_on=["a", "b"])
    client.register(WorkflowDef(name="both", tasks=[both, join]))
    ids = [client.start("both") for _ in range(4)] + [client.start("both", task_to_domain={"b": "north"})]
    found = worked(server, client, workers, *ids)
    assert [one["status"] for one in found] == ["COMPLETED"] * 5
    assert most["a"] == 1
    assert most["all"] <= 3
    assert [one["output"]["b"]["worker"] for one in found] == ["b"] * 4 + ["north"]


@pytest.mark.slow
def test_stopping_ends_what_runs(server: ConductorServer, client: ConductorClient) -> None:
    """A task that was polled is reported before `work_async` returns."""
    begun, go = threading.Event(), threading.Event()
    workers = Workers()

    @workers.task("wait")
    def wait() -> dict[str, bool]:
        begun.set()
        return {"waited": go.wait(10)}

    async def main() -> None:
        stop = asyncio.Event()
        working = asyncio.create_task(client.work_async(workers, stop=stop))
        assert await asyncio.to_thread(begun.wait, 10)
        stop.set()
        await asyncio.sleep(0)
        go.set()
        await working

    client.register(WorkflowDef(name="w", tasks=[step("wait")]))
    workflow_id = client.start("w")
    asyncio.run(main())
    assert client.get(workflow_id)["output"] == {"waited": True}


@pytest.mark.slow
def test_what_a_function_may_ask(server: ConductorServer, client: ConductorClient) -> None:
    """Its execution, its first attempt, whether it is still wanted; messages cannot be published."""
    told: dict[str, Any] = {}
    workers = Workers()

    @workers.task("ask", retry_count=1, retry_delay_seconds=5)
    def ask(context: TaskContext) -> dict[str, Any]:
        if context.attempt == 0:
            raise ConnectionError
        told.update(
            name=context.workflow.name, status=context.workflow.status, first=context.first_task_id, alive=context.heartbeat()
        )
        with pytest.raises(InvalidInput, match="queues only"):
            context.publish("e", {}, message_id="1")
        server.engine.terminate(context.workflow_id)
        return {}

    client.register(workers, WorkflowDef(name="w", tasks=[step("ask")]))
    workflow_id = client.start("w")
    (found,) = worked(server, client, workers, workflow_id, pass_="1s")
    assert found["status"] == "TERMINATED"
    assert told == {"name": "w", "status": "RUNNING", "first": found["tasks"][0]["taskId"], "alive": True}


def test_an_id_is_whatever_it_is(server: ConductorServer, client: ConductorClient) -> None:
    """Signs that mean something in an address are part of the id, for the caller and for a function that asks for its execution."""

    def asking(context: TaskContext) -> dict[str, object]:
        return {"id": context.workflow.workflow_id}

    workers = Workers()
    workers.add("asking", asking)
    place = WorkflowTask(name="asking", task_reference_name="asking")
    server.engine.start(WorkflowDef(name="asking", tasks=[place]), workflow_id="orders/7?a=b#c %2F")
    (found,) = worked(server, client, workers, "orders/7?a=b#c %2F")
    assert found["output"] == {"id": "orders/7?a=b#c %2F"}


def test_what_a_server_ignores_is_refused(client: ConductorClient, caplog: pytest.LogCaptureFixture) -> None:
    """Compensation, with all problems and nothing registered; parts of a second of a task definition are rounded up and told."""
    undone = WorkflowTask(name="a", task_reference_name="a", compensate="b")
    with pytest.raises(InvalidDefinition, match="a Conductor server ignores it"):
        client.register(TaskDef(name="a"), WorkflowDef(name="w", tasks=[undone]))
    with pytest.raises(NotFound):
        client.start("w")
    with caplog.at_level(logging.WARNING):
        client.register(TaskDef(name="a", retry_delay_ms=200, timeout_ms=4_000))
    assert [record.getMessage() for record in caplog.records] == [
        "task 'a': retry_delay of 0.2 s is rounded up: a Conductor server takes whole seconds"
    ]


def test_a_server_that_is_away() -> None:
    """One error with its address and without what goes with the requests; asked again ever less often."""
    away = ConductorClient("http://127.0.0.1:9/api", headers={"X-Authorization": "top secret"}, timeout="1s")
    with pytest.raises(ConductorServerError, match=r"http://127\.0\.0\.1:9/api cannot be reached") as raised:
        away.get("w")
    assert raised.value.status == 0
    assert "secret" not in f"{raised.value} {away!r} {away.__dict__}"
    with pytest.raises(InvalidInput, match="not the address of a server"):
        ConductorClient("localhost:8080")
    pauses, waited = _Pauses("the poll"), []
    for _ in range(9):
        pauses.failed(raised.value)
        waited.append(pauses._seconds)
    assert waited == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


class Peer(BaseHTTPRequestHandler):
    """A server whose answers a test thinks up."""

    def _answer(self, status: int, text: str, media: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def peer(handler: type[Peer]) -> Iterator[int]:
    """Its port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_polls_outlive_what_stands_before_the_server(caplog: pytest.LogCaptureFixture) -> None:
    """A proxy's page, broken JSON and a 404 between good answers are waited out; a 404 at once is a wrong address."""
    answers = [
        (200, "<html>back soon</html>", "text/html"), (200, "[{", "application/json"), (200, "[]", "application/json"),
        (404, "no route", "text/plain"), (200, "{}x", "application/json"),
    ]  # fmt: skip
    left, enough = list(answers), threading.Event()

    class Proxy(Peer):
        """Answers one after the other, and then that there are no tasks."""

        def do_GET(self) -> None:
            if not left:
                enough.set()
            self._answer(*(left.pop(0) if left else (200, "[]", "application/json")))

    workers = Workers()
    workers.task("pay")(lambda: None)
    with peer(Proxy) as port:
        client = ConductorClient(f"http://127.0.0.1:{port}/api")
        with caplog.at_level(logging.INFO):
            client.work(workers, until=enough.is_set)
        left[:] = [answers[3]]
        with pytest.raises(NotFound, match="no route"):
            client.work(workers, until=lambda: False)
    said = [line.getMessage() for line in caplog.records if line.name.startswith("conductorlite")]
    assert [line.count("asked again") for line in said] == [1, 0, 1, 0]
    assert "no list of tasks" in said[0]


@pytest.mark.parametrize(
    ("storage", "said"),
    [
        ((200, {"uri": "URL/large", "path": "p"}), "JSON"),
        ((200, {"uri": "URL/gone", "path": "p"}), "404"),
        ((200, {"path": "p"}), "KeyError"),
        ((200, []), "TypeError"),
        ((404, {"message": "no such file"}), "no such file"),
    ],
    ids=["no JSON", "gone", "no place", "a list", "refused"],
)
def test_an_input_that_cannot_be_read_is_reported(storage: tuple[int, Any], said: str) -> None:
    """Whatever goes wrong between the poll and the call is the report, not silence until the task's timeout."""
    large = {"taskId": "t", "workflowInstanceId": "w", "taskType": "pay", "taskDefName": "pay", "status": "IN_PROGRESS",
             "referenceTaskName": "pay", "externalInputPayloadStoragePath": "p", "responseTimeoutSeconds": 600}  # fmt: skip
    reports: list[dict[str, Any]] = []
    offered = [large]
    reported = threading.Event()

    class Storing(Peer):
        """Hands out one task whose input lies elsewhere."""

        def do_GET(self) -> None:
            status, answer = 404, '{"message": "gone"}'
            if "/poll/batch/" in self.path:
                status, answer = 200, json.dumps([offered.pop()] if offered else [])
            elif "/externalstoragelocation" in self.path:
                status, answer = storage[0], json.dumps(storage[1]).replace("URL", f"http://127.0.0.1:{self.server.server_port}")  # type: ignore[attr-defined]
            elif self.path == "/large":
                status, answer = 200, "no JSON {"
            self._answer(status, answer)

        def do_POST(self) -> None:
            reports.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            reported.set()
            self._answer(200, '"t"')

    workers = Workers()
    workers.task("pay")(lambda: None)

    async def main(port: int) -> None:
        stop = asyncio.Event()
        working = asyncio.create_task(ConductorClient(f"http://127.0.0.1:{port}/api").work_async(workers, stop=stop))
        await asyncio.to_thread(reported.wait, 20)
        stop.set()
        await working

    with peer(Storing) as port:
        asyncio.run(main(port))
    assert [(one["taskId"], one["status"]) for one in reports] == [("t", "FAILED")]
    assert said in reports[0]["reasonForIncompletion"]
