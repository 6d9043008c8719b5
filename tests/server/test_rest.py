"""Conductor's REST API as the official clients use it: every operation, what waits, and what goes wrong."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from exchanges import EMPTY, NONE, NUMBER, SHAPES, STORY, TEXT, TEXTS
from rest_kit import Ask, asking

from conductorlite import Engine, EngineConfig, SubWorkflowParams, TaskDef, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.decide.changeset.reader import Barriers, Bounds
from conductorlite.engine.bulk import Exchange
from conductorlite.engine.polling import Asker
from conductorlite.model.errors import EngineClosed
from conductorlite.server.rest import rest_app
from conductorlite.server.rest.app import needed
from conductorlite.server.rest.operations import Place
from conductorlite.server.rest.routes import OPERATIONS
from conductorlite.server.safety import Role
from conductorlite.server.waiting import Groups
from conductorlite.store.sqlite.backend import SQLiteBackend

TYPES: dict[type, str] = {bool: "b", int: "n", float: "n", str: "s", list: "a", dict: "o"}


@pytest.fixture(params=["memory", pytest.param("sqlite", marks=pytest.mark.slow)])
def engine(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    """An engine with Conductor's semantics, which time does not move."""
    path = None if request.param == "memory" else tmp_path / "store.db"
    bounds = Bounds(barriers=Barriers(task_input_payload_size_threshold=100))
    with Engine(path, clock=VirtualClock(), config=EngineConfig(semantics="OSS", bounds=bounds)) as made:  # type: ignore[arg-type]
        yield made


def _checked(answer: httpx.Response, shape: str) -> str | None:
    """What is wrong with an answer's form."""
    kind = answer.headers.get("content-type")
    if shape == EMPTY:
        return None if (answer.content, kind) == (b"", None) else f"is {answer.content!r}"
    if shape == TEXT:
        return None if kind == "text/plain;charset=UTF-8" and answer.text else f"is {kind}"
    if kind != "application/json":
        return f"is {kind}"
    value = answer.json()
    if shape in (NONE, NUMBER, TEXTS):
        right = value == [] if shape == NONE else isinstance(value, int) if shape == NUMBER else value and isinstance(value[0], str)
        return None if right else f"is {value!r:.80}"
    if shape.startswith("["):
        if not value:
            return "is empty"
        value, shape = value[0], shape[1:-1]
    types = {name: TYPES[type(one)] for name, one in value.items() if one is not None}
    wrong = {name: types.get(name) for name, wanted in SHAPES[shape].items() if types.get(name) != wanted}
    return f"{shape}: {wrong}" if wrong else None


@pytest.mark.parametrize("engine", [pytest.param("memory", marks=pytest.mark.slow), "sqlite"], indirect=True)
def test_the_recorded_exchanges(engine: Engine) -> None:
    """Each kind of exchange that was recorded on a real server has its status and form here, in memory and in a file."""

    async def test(ask: Ask) -> None:
        kept: dict[str, str] = {}

        def filled(text: str) -> str:
            return re.sub(r"\{(wf|task)\}", lambda found: kept[found[1]], text)

        wrong = []
        for one in STORY:
            body = None if one.body is None else json.loads(filled(json.dumps(one.body)))
            answer = await ask(one.method, filled(one.path), body)
            if answer.status_code != one.status or _checked(answer, one.shape):
                wrong.append((one.method, one.path, answer.status_code, _checked(answer, one.shape), answer.text[:200]))
            elif one.keep:
                said = answer.text if one.shape == TEXT else answer.json()
                kept[one.keep] = said if isinstance(said, str) else (said[0] if isinstance(said, list) else said)["taskId"]
        assert wrong == []

    asking(engine, test)
    assert engine.admin.check() == []


#: Query parameters that are read by no one here: they are for other stores, other servers, or Orkes.
IGNORED = {"classifier", "consistency", "isolationGroupId", "executionNamespace", "arg2"}


def test_every_operation_of_conductor_is_there() -> None:
    """Each operation of a real server's OpenAPI document stands in ours, with its query parameters, and no other but `version`."""
    lines = (Path(__file__).parent / "operations.txt").read_text().splitlines()
    wanted = {(method, path): set(names) for method, path, *names in (line.split() for line in lines)}
    ours = {(one.method, one.path): {each.name for each in one.parameters if each.place is Place.QUERY} for one in OPERATIONS}
    places = {(method, re.sub(r"\{\w+\}", "{}", path)): names for (method, path), names in ours.items()}
    assert len(wanted) == 106
    for (method, path), names in wanted.items():
        found = places.pop((method, re.sub(r"\{\w+\}", "{}", path)))
        assert names - found <= IGNORED, (method, path)
        assert found - names <= {"workerid", "triggerFailureWorkflow"}, (method, path)
    # A server has the second one if it is configured so.
    own = {
        ("GET", "/api/workflow/{}/stream"),
        ("GET", "/api/workflow/{}/values"),
        ("POST", "/api/tasks/{}/emit"),
        ("POST", "/api/tasks/run/{}"),
    }
    own |= {("POST", "/api/workflow/{}/messages/{}"), ("POST", "/api/workflow/{}/fork"), ("POST", "/api/workflow/{}/fork/plan")}
    own |= {(method, "/api/workflow/{}/values/{}") for method in ("GET", "PUT")}
    assert set(places) == {("GET", "/api/version"), ("POST", "/api/workflow/{}/messages")} | own


def test_the_document_is_served(engine: Engine) -> None:
    """The OpenAPI document is where Conductor's is; names of operations are distinct; what is demanded says so."""

    async def test(ask: Ask) -> None:
        said = (await ask("GET", "/api-docs")).json()
        operations = [one for methods in said["paths"].values() for one in methods.values()]
        assert len(operations) == len(OPERATIONS)
        poll = said["paths"]["/api/tasks/poll/batch/{tasktype}"]["get"]["parameters"]
        assert {(one["name"], one["in"], one["required"]) for one in poll} >= {
            ("tasktype", "path", True),
            ("count", "query", False),
        }

    asking(engine, test)


#: Statuses of 500 are Conductor's for these.
FIVE_HUNDRED = {"delete_workflow", "delete_task_def", "remove_event_handler", "resume", "skip_task"}


_SLOW = [None, {}, [], "x", ["x"], b"{", {"name": "x", "tasks": None, "actions": [1], "startWorkflowRequest": 1}]


@pytest.mark.parametrize(
    "body",
    [
        {"name": 1, "tasks": [{}], "status": "COMPLETED", "taskId": "x"},
        *(pytest.param(one, marks=pytest.mark.slow) for one in _SLOW),
    ],
)
@pytest.mark.parametrize("engine", ["memory"], indirect=True)
def test_nothing_asked_badly_ends_in_a_traceback(engine: Engine, body: Any) -> None:
    """Every operation asked with what it does not expect answers in Conductor's form, below 500 unless the server's own is 500."""

    async def test(ask: Ask) -> None:
        for one in OPERATIONS:
            for value, query in (
                ("x", ""),
                ("-1", "?count=x&size=-1&version=1e9"),
                ("%00%2F", "?query=%27&freeText=%22&count=1&timeout=0"),
            ):
                path = re.sub(r"\{\w+\}", value, one.path)
                options = {"content": body} if isinstance(body, bytes) else {}
                answer = await ask(one.method, path + query, None if options else body, **options)
                allowed = 501 if one.function.__name__ in FIVE_HUNDRED else 500
                assert answer.status_code < allowed, (one.method, path + query, answer.text)
                if answer.status_code >= 400:
                    assert _checked(answer, "Error") is None, (one.method, path, answer.text)

    asking(engine, test)
    assert engine.admin.check() == []


def _flow(name: str, *tasks: WorkflowTask) -> WorkflowDef:
    return WorkflowDef(name=name, tasks=tasks)


def _step(ref: str, kind: str = "SIMPLE") -> WorkflowTask:
    return WorkflowTask(name="greet" if kind == "SIMPLE" else ref, task_reference_name=ref, type=kind)


def test_what_was_asked_before_the_end_is_answered(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the thread that takes reports and polls gets to it only after that; what is asked later is refused."""
    begun: list[Callable[[], None]] = []
    monkeypatch.setattr("conductorlite.server.waiting.started", lambda run, name: begun.append(run))

    async def asked() -> None:
        groups = Groups(engine, lambda tasks: None)
        poll = Exchange(asker=Asker(worker_id="w", count=1), task_type="a")
        early = asyncio.ensure_future(groups.ask(poll, lambda engine, given: []))
        await asyncio.sleep(0)
        groups.close()
        (run,) = begun
        await asyncio.to_thread(run)
        assert await asyncio.wait_for(early, 10) == []
        with pytest.raises(EngineClosed):
            await groups.ask(poll, lambda engine, given: [])

    asyncio.run(asked())


def test_what_is_polled_for_who_goes_at_that_moment_is_given_back(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is there, and its client's call is canceled before it has seen it."""
    begun: list[Callable[[], None]] = []
    monkeypatch.setattr("conductorlite.server.waiting.started", lambda run, name: begun.append(run))
    engine.register(_flow("w", _step("a")))
    engine.start("w")
    left: list[str] = []

    async def asked() -> None:
        groups = Groups(engine, lambda tasks: left.extend(task.ref for task in tasks))
        poll = Exchange(asker=Asker(worker_id="w", count=1), task_type="greet")
        calls = [asyncio.ensure_future(groups.ask(poll, lambda engine, given: [task.ref for task, _ in given]))]
        await asyncio.sleep(0)
        groups.close()
        begun[0]()
        await asyncio.sleep(0)
        calls[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await calls[0]

    asyncio.run(asked())
    assert left == ["a"]


def test_what_an_execution_is_waited_for(engine: Engine) -> None:
    """A call waits for the end, for a WAIT without an end, or for a task; what it answers is what was asked for."""
    engine.register(_flow("w", _step("a"), _step("wait", "WAIT"), _step("b")))

    async def test(ask: Ask) -> None:
        first = await ask("POST", "/api/workflow/execute/w/0?waitForSeconds=-1&returnStrategy=BLOCKING_TASK&requestId=r", {})
        assert (first.status_code, first.text) == (200, "")
        late = (await ask("POST", "/api/workflow/execute/w/1?waitForSeconds=-1", {"input": {"n": 1}})).json()
        assert (late["signalTimeout"], late["targetWorkflowStatus"], late["input"]) == (True, "RUNNING", {"n": 1})
        waiting = asyncio.ensure_future(
            ask("POST", "/api/workflow/execute/w/1?waitUntilTaskRef=x,a&returnStrategy=BLOCKING_TASK", {})
        )
        while len(engine.executions()) < 3:
            await asyncio.sleep(0)
        await asyncio.to_thread(engine.signal, engine.executions()[0].workflow_id, {"x": 1}, task="a")
        said = (await waiting).json()
        assert (said["responseType"], said["referenceTaskName"]) == ("BLOCKING_TASK", "wait")
        run = said["workflowId"]
        after = (
            await ask("POST", f"/api/tasks/{run}/COMPLETED/signal/sync?timeoutMillis=0&returnStrategy=BLOCKING_WORKFLOW", {})
        ).json()
        assert [(task["referenceTaskName"], task["status"]) for task in after["tasks"]] == [
            ("a", "COMPLETED"),
            ("wait", "COMPLETED"),
            ("b", "SCHEDULED"),
        ]
        assert (await ask("POST", "/api/workflow/execute/w/1?returnStrategy=x", {})).status_code == 400

    asking(engine, test)


def test_tried_out_with_given_outputs(engine: Engine) -> None:
    """A trial takes the outputs it is given, retries included, down into sub-workflows; nothing of it is stored."""
    engine.register(TaskDef(name="greet", retry_count=1, retry_delay_ms=3_600_000), _flow("inner", _step("i")))
    below = WorkflowTask(name="s", task_reference_name="s", type="SUB_WORKFLOW", sub_workflow_param=SubWorkflowParams(name="inner"))
    body = {
        "name": "outer",
        "workflowDef": _flow("outer", _step("a"), below, _step("left")).to_json(),
        "taskRefToMockOutput": {"a": [{"status": "FAILED"}, {"output": {"n": 2}}]},
        "subWorkflowTestRequest": {"s": {"taskRefToMockOutput": {"i": [{"output": {"deep": True}}]}}},
    }

    async def test(ask: Ask) -> None:
        said = (await ask("POST", "/api/workflow/test", body)).json()
        assert [(one["referenceTaskName"], one["status"], one["outputData"].get("n")) for one in said["tasks"]] == [
            ("a", "FAILED", None),
            ("a", "COMPLETED", 2),
            ("s", "COMPLETED", None),
            ("left", "SCHEDULED", None),
        ]
        assert said["tasks"][2]["outputData"]["deep"] is True
        for wrong in ({"taskRefToMockOutput": []}, {"taskRefToMockOutput": {"a": [1]}}, {"subWorkflowTestRequest": "x"}):
            assert (await ask("POST", "/api/workflow/test", body | wrong)).status_code == 400

    asking(engine, test)
    assert engine.executions() == []


def test_a_long_poll_takes_no_thread(engine: Engine) -> None:
    """Hundreds wait for tasks at once in a few threads; those that come are handed to as many, in the order in which they asked."""
    engine.register(_flow("w", _step("a")))
    others = set(threading.enumerate())

    async def test(ask: Ask) -> None:
        polls = [
            asyncio.ensure_future(ask("GET", f"/api/tasks/poll/batch/greet?workerid={number}&timeout=5000"))
            for number in range(200)
        ]
        while engine.tasks.poll_data("greet") == () or not engine.tasks.poll_data("greet"):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert len(set(threading.enumerate()) - others) < 20
        for _ in range(3):
            await ask("POST", "/api/workflow", {"name": "w"})
        while sum(poll.done() for poll in polls) < 3:
            await asyncio.sleep(0.01)
        taken = [poll.result().json()[0] for poll in polls if poll.done()]
        assert len({one["taskId"] for one in taken}) == len(taken) == 3
        for poll in polls:
            poll.cancel()
        await asyncio.wait(polls)

    asking(engine, test)


def test_reports_and_polls_of_many_clients_share_writes(tmp_path: Path) -> None:
    """What comes while the store is busy is written together, and each client is answered for itself."""
    backend = SQLiteBackend(tmp_path / "s.db")
    with Engine(backend) as engine:
        engine.register(_flow("w", _step("a"), _step("b")))
        for _ in range(40):
            engine.start("w")

        async def test(ask: Ask) -> None:
            url = "/api/tasks/poll/batch/greet?workerid=w&count=20&timeout=0"
            held = (await ask("GET", url)).json()
            done = {"status": "COMPLETED", "workerId": "w"}
            said = [{"workflowInstanceId": one["workflowInstanceId"], "taskId": one["taskId"], **done} for one in held]
            said.append({**said[0], "taskId": "nobody's"})
            before = backend.commits()
            with backend.writing():
                calls = [asyncio.ensure_future(ask("POST", "/api/tasks/update-v2", one)) for one in said]
                for _ in range(500):  # until all have come
                    await asyncio.sleep(0)
            answers = await asyncio.gather(*calls)
            assert [one.status_code for one in answers] == [200] * 20 + [404]
            assert len({one.json()["taskId"] for one in answers[:20]}) == 20
            assert backend.commits() - before <= 6

        asking(engine, test, settle=False)


async def _call(app: Any, path: str, messages: asyncio.Queue[dict[str, Any]], send: Any) -> None:
    path, _, query = path.partition("?")
    scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode(), "headers": [(b"host", b"localhost")]}
    await app(scope, messages.get, send)


@pytest.mark.parametrize("moment", ["while it waits", "before the answer", "while it is sent"])
def test_a_client_that_goes_away_gives_back_what_it_polled(engine: Engine, moment: str) -> None:
    """Whenever a client leaves, no task is lost with it: the next poll has it, at once and in the same attempt."""
    engine.register(_flow("w", _step("a")))

    async def test(ask: Ask) -> None:
        app = rest_app(engine, safety=None)
        messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        await messages.put({"type": "http.request", "body": b""})

        async def send(message: dict[str, Any]) -> None:
            assert moment == "while it is sent"
            raise ConnectionResetError

        if moment != "while it waits":
            await ask("POST", "/api/workflow", {"name": "w"})
        if moment == "before the answer":
            await messages.put({"type": "http.disconnect"})
        call = asyncio.ensure_future(_call(app, "/api/tasks/poll/batch/greet?workerid=gone&timeout=5000", messages, send))
        if moment == "while it waits":
            while not engine.tasks.poll_data("greet"):
                await asyncio.sleep(0.01)
            await messages.put({"type": "http.disconnect"})
        with suppress(ConnectionResetError):
            await call
        if moment == "while it waits":
            await ask("POST", "/api/workflow", {"name": "w"})
        found: list[Any] = []
        while not found:
            found = (await ask("GET", "/api/tasks/poll/batch/greet?workerid=here&timeout=5000")).json()
        assert (found[0]["workerId"], found[0]["retryCount"]) == ("here", 0)

    asking(engine, test)
    assert engine.admin.check() == []


def test_who_may_ask_what() -> None:
    """Looking needs READ, polling and changing WRITE, what is for the whole server ADMIN."""
    roles = {(one.method, one.path): needed(one.method, re.sub(r"\{\w+\}", "x", one.path)) for one in OPERATIONS}
    assert roles["GET", "/api/workflow/{workflowId}"] is Role.READ
    assert roles["GET", "/api/tasks/poll/{tasktype}"] is roles["DELETE", "/api/workflow/{workflowId}"] is Role.WRITE
    assert roles["GET", "/api/environment"] is roles["GET", "/api/scheduler/admin/pause"] is Role.ADMIN
    assert {role for (method, _), role in roles.items() if method == "GET"} == {Role.READ, Role.WRITE, Role.ADMIN}
    assert needed("PATCH", "/api/workflow/x") is needed("GET", "/nowhere") is Role.READ


def test_errors_of_the_store() -> None:
    """What may be tried again says so: the store is closed, or another writer has it."""

    async def test(ask: Ask) -> None:
        engine.close()
        answer = await _plain(ask)
        assert (answer.status_code, answer.json()["retryable"]) == (503, True)

    async def _plain(ask: Ask) -> httpx.Response:
        return await ask("POST", "/api/workflow", {"name": "w", "workflowDef": _flow("w", _step("a")).to_json()})

    engine = Engine()
    asking(engine, test, settle=False)


def test_definitions_are_stamped(engine: Engine) -> None:
    """What is registered over REST has the times at which it was made and replaced."""
    clock = engine.clock
    assert isinstance(clock, VirtualClock)

    async def test(ask: Ask) -> None:
        await ask("POST", "/api/metadata/taskdefs", [{"name": "greet"}])
        await ask("POST", "/api/metadata/workflow", _flow("w", _step("a")).to_json())
        made = clock.now()
        engine.advance("1s")
        await ask("PUT", "/api/metadata/taskdefs", {"name": "greet", "retryCount": 7})
        said = (await ask("GET", "/api/metadata/taskdefs/greet")).json()
        assert (said["createTime"], said["updateTime"], said["retryCount"]) == (made, made + 1_000, 7)
        assert (await ask("GET", "/api/metadata/workflow/names-and-versions")).json()["w"][0]["createTime"] == made
        assert [one["name"] for one in (await ask("GET", "/api/metadata/workflow/latest-versions")).json()] == ["w"]

    asking(engine, test)


def test_summaries_hold_json(engine: Engine) -> None:
    """The input and output of a summary are JSON in a text; its times are texts in UTC."""

    async def test(ask: Ask) -> None:
        await ask("POST", "/api/workflow", {"workflowDef": _flow("w", _step("a")).to_json(), "input": {"n": [1, None]}})
        (one,) = (await ask("GET", "/api/workflow/search?topLevelOnly=true")).json()["results"]
        assert (json.loads(one["input"]), one["output"], one["startTime"]) == ({"n": [1, None]}, "{}", "2030-01-01T00:00:00.000Z")
        (task,) = (await ask("GET", "/api/tasks/search?query=taskType%3D%27greet%27")).json()["results"]
        assert (task["scheduledTime"], task["workflowType"]) == ("2030-01-01T00:00:00.000Z", "w")
        for path in ("tasks/search-v2", "workflow/search-v2", "workflow/search-by-tasks", "workflow/search-by-tasks-v2"):
            assert (await ask("GET", f"/api/{path}")).json()["totalHits"] == 1

    asking(engine, test)


def test_a_large_input_is_in_the_answer_to_a_poll(engine: Engine) -> None:
    """A worker needs no payload storage: what is stored there comes with the task."""
    step = WorkflowTask(name="greet", task_reference_name="a", input_parameters={"x": "${workflow.input.x}"})

    async def test(ask: Ask) -> None:
        large = "x" * 200_000
        await ask("POST", "/api/workflow", {"workflowDef": _flow("w", step).to_json(), "input": {"x": large}})
        (task,) = (await ask("GET", "/api/tasks/poll/batch/greet")).json()
        assert (task["inputData"], task.get("externalInputPayloadStoragePath")) == ({"x": large}, None)
        assert (await ask("GET", f"/api/tasks/{task['taskId']}")).json()["externalInputPayloadStoragePath"]

    asking(engine, test)


def test_masked_fields_are_hidden_but_from_workers(engine: Engine) -> None:
    """The worker gets what is masked; no other answer has it."""
    step = WorkflowTask(name="greet", task_reference_name="a", input_parameters={"pin": "${workflow.input.pin}"})
    definition = WorkflowDef(name="w", tasks=[step], masked_fields=["pin"])

    async def test(ask: Ask) -> None:
        run = (await ask("POST", "/api/workflow", {"workflowDef": definition.to_json(), "input": {"pin": "4711"}})).text
        (task,) = (await ask("GET", "/api/tasks/poll/batch/greet")).json()
        assert task["inputData"] == {"pin": "4711"}
        for path in (
            f"workflow/{run}",
            f"workflow/{run}/tasks",
            f"tasks/{task['taskId']}",
            "tasks/search-v2",
            "workflow/search-v2",
        ):
            assert "4711" not in (await ask("GET", f"/api/{path}")).text

    asking(engine, test)


def test_what_does_not_fit_the_status(engine: Engine) -> None:
    """A verb that does not fit is a conflict, or what Conductor's server answers; a bulk says so by id."""
    engine.register(TaskDef(name="greet", retry_count=0), _flow("w", _step("a")))

    async def test(ask: Ask) -> None:
        run = engine.start("w").workflow_id
        statuses = []
        for method, path in (
            ("DELETE", "/remove"),
            ("POST", "/restart"),
            ("POST", "/retry"),
            ("PUT", "/resume"),
            ("POST", "/rerun"),
        ):
            statuses.append((await ask(method, f"/api/workflow/{run}{path}", {})).status_code)
        assert statuses == [409, 409, 404, 500, 409]
        await ask("POST", f"/api/tasks/{run}/a/FAILED", {})
        assert (await ask("DELETE", f"/api/workflow/{run}")).status_code == 409
        bulk = (await ask("PUT", "/api/workflow/bulk/pause", [run, "x"])).json()
        assert (sorted(bulk["bulkErrorResults"]), bulk["bulkSuccessfulResults"]) == (sorted([run, "x"]), [])
        assert (await ask("PUT", "/api/workflow/bulk/pause", [])).status_code == 400
        assert (await ask("DELETE", "/api/workflow/bulk/remove?archiveWorkflow=false", [run])).json()["bulkSuccessfulResults"] == [
            run
        ]

    asking(engine, test)


def test_what_it_says_of_itself(engine: Engine) -> None:
    """Version and health, and nothing of what the engine was given to keep."""

    async def test(ask: Ask) -> None:
        said = {
            path: (await ask("GET", path)).text for path in ("/api/version", "/api/admin/config", "/api/secrets", "/context.js")
        }
        assert (said["/api/secrets"], said["/context.js"]) == ("[]", "")
        assert json.loads(said["/api/admin/config"]) == {"version": said["/api/version"], "semantics": "OSS"}
        assert (await ask("GET", "/health")).json()["healthy"] is True
        assert [(await ask("GET", path)).json() for path in ("/api/queue/", "/api/queue/size", "/api/scheduler/admin/requeue")] == [
            {}
        ] * 3
        assert (await ask("POST", "/api/tasks/queue/requeue/greet")).text == "0"

    asking(engine, test)


def test_schedules_over_rest(engine: Engine) -> None:
    """Schedules are saved, found, paused, resumed, fired and removed; what became of them is listed."""
    engine.register(_flow("w", _step("a")))
    nightly = {"name": "nightly", "cronExpression": "0 0 2 * * *", "startWorkflowRequest": {"name": "w", "version": 1}}

    async def test(ask: Ask) -> None:
        saved = (await ask("POST", "/api/scheduler/schedules", nightly)).json()
        assert (saved["name"], saved["paused"], saved["zoneId"]) == ("nightly", False, "UTC")
        engine.advance("1d")
        (run,) = (await ask("GET", "/api/scheduler/search/executions?freeText=*")).json()["results"]
        assert (run["scheduleName"], run["workflowName"], run["state"]) == ("nightly", "w", "EXECUTED")
        assert (await ask("PUT", "/api/scheduler/schedules/nightly/pause?reason=x")).status_code == 200
        assert (await ask("GET", "/api/scheduler/schedules/search?paused=true&scheduleName=NIGHT")).json()["totalHits"] == 1
        assert (await ask("PUT", "/api/scheduler/bulk/resume", ["nightly", "x"])).json()["bulkSuccessfulResults"] == ["nightly"]
        assert (await ask("GET", "/api/scheduler/schedules?workflowName=w")).json()[0]["paused"] is False
        few = (await ask("GET", "/api/scheduler/nextFewSchedules?cronExpression=0%200%202%20*%20*%20*&limit=2")).json()
        assert few[1] - few[0] == 86_400_000
        assert (await ask("DELETE", "/api/scheduler/schedules/nightly")).status_code == 200
        assert (await ask("GET", "/api/scheduler/schedules/nightly")).status_code == 404

    asking(engine, test)


def test_a_debounced_start(tmp_path: Path) -> None:
    """Requests with one `debounce.key` are one execution, which has the last one's input."""
    with Engine(clock=VirtualClock(0)) as engine:
        engine.register(
            WorkflowDef.from_json({"name": "form", "tasks": [{"name": "a", "taskReferenceName": "a", "type": "SIMPLE"}]})
        )

        async def test(ask: Ask) -> None:
            debounce = {"quiet": "30s", "key": "f7", "maxWait": "5m"}
            found = [
                (await ask("POST", "/api/workflow", {"name": "form", "input": {"x": x}, "debounce": debounce})).text for x in (1, 2)
            ]
            assert found[0] == found[1]
            known = (await ask("GET", f"/api/workflow/{found[0]}")).json()
            assert (known["input"], known["tasks"], known["idempotencyKey"]) == ({"x": 2}, [], "debounce:f7")
            for wrong in ({"quiet": "30s"}, {**debounce, "wait": 1}, "30s"):
                refused = await ask("POST", "/api/workflow", {"name": "form", "debounce": wrong})
                assert refused.status_code == 400
                assert "debounce" in refused.json()["message"]

        asking(engine, test)


def test_a_task_is_run_alone() -> None:
    """`POST /tasks/run/{taskType}` answers the id of its execution, once for a key; what it does not know is refused."""
    with Engine(clock=VirtualClock()) as engine:

        async def test(ask: Ask) -> None:
            body = {"input": {"amount": 3}, "idempotencyKey": "k"}
            first, second = [(await ask("POST", "/api/tasks/run/charge", body)).text for _ in range(2)]
            assert first == second
            (task,) = (await ask("GET", "/api/tasks/poll/batch/charge")).json()
            assert (task["inputData"], task["workflowInstanceId"]) == ({"amount": 3}, first)
            assert (await ask("POST", "/api/tasks/run/charge", {"inputs": {}})).status_code == 400
            assert (await ask("POST", "/api/tasks/run/charge")).status_code == 200

        asking(engine, test)
        assert engine.status(engine.executions("task:charge")[-1].workflow_id) == "RUNNING"
