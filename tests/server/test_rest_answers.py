"""Answers over REST that a real server gives otherwise, or that were wrong once; tests/conductor/rest.py compares all with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from rest_kit import Ask, asking

from conductorlite import Engine, EngineConfig, TaskDef, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.decide.changeset.reader import Barriers, Bounds
from conductorlite.model.codec import structured
from conductorlite.server.rest import rest_app
from conductorlite.server.rest.app import beside
from conductorlite.store.payloads import LocalPayloads
from conductorlite.store.ports import ExternalStorageLocation


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An engine with a workflow `w` of the tasks `a` and `b`; `a` is tried twice."""
    with Engine(clock=VirtualClock(), config=EngineConfig(semantics="OSS")) as made:  # type: ignore[arg-type]
        steps = tuple(WorkflowTask(name=ref, task_reference_name=ref) for ref in "ab")
        made.register(TaskDef(name="a", retry_count=1, retry_delay_ms=0), WorkflowDef(name="w", tasks=steps))
        yield made


def test_no_body_is_an_empty_one(engine: Engine) -> None:
    """A start with a null input or none has none; a list of definitions is not empty; a path's part may hold a slash."""

    async def test(ask: Ask) -> None:
        assert (await ask("POST", "/api/workflow", {"name": "w", "input": None})).status_code == 200
        assert (await ask("POST", "/api/workflow/w")).status_code == 200
        for body in ({}, {"name": ""}, {"version": 1}):
            assert (await ask("POST", "/api/workflow", body)).status_code == 400
        assert (await ask("PUT", "/api/metadata/workflow", [])).status_code == 400
        assert (await ask("PUT", "/api/workflow/bulk/pause", [1])).status_code == 400
        assert (await ask("GET", "/api/workflow/a%2Fb")).json()["message"] == "No such workflow found by id: a/b"
        assert (await ask("HEAD", "/api/metadata/workflow")).status_code == 200
        for text, status in (("1", 200), ("Yes", 200), ("off", 200), ("2", 400)):
            assert (await ask("GET", f"/api/event/e?activeOnly={text}")).status_code == status

    asking(engine, test)


def test_what_is_wrong_with_a_definition_has_its_place(engine: Engine) -> None:
    """An invalid definition is answered in Conductor's form, with a place and a sentence for each problem."""

    async def test(ask: Ask) -> None:
        said = (await ask("POST", "/api/metadata/taskdefs", [{"name": "x", "retryCount": -1, "timeoutSeconds": -1}])).json()
        assert said == {
            "status": 400,
            "message": "Validation failed, check below errors for detail.",
            "retryable": False,
            "validationErrors": [
                {"path": "$.retryCount", "message": "is negative"},
                {"path": "$.timeoutSeconds", "message": "is negative"},
            ],
        }
        other = (await ask("GET", "/api/workflow/nobody")).json()
        assert (other["instance"], other["message"]) == ("conductorlite", "No such workflow found by id: nobody")

    asking(engine, test)


def test_what_can_do_nothing_is_refused(engine: Engine) -> None:
    """Empty names, schedules that never fire; a cron expression of one word is no schedule's name."""
    known = {"name": "s", "cronExpression": "0 0 9 * * ?", "startWorkflowRequest": {"name": "w"}}

    async def test(ask: Ask) -> None:
        for wrong in ({"name": ""}, {"cronExpression": "x"}, {"cronExpression": "0 0 9 31 2 ?"}, {"startWorkflowRequest": {}}):
            assert (await ask("POST", "/api/scheduler/schedules", known | wrong)).status_code == 400
        for asked, status in (("x", 400), ("0 0 9 31 2 ?", 400), ("0 0 9 * * ?", 200)):
            assert (await ask("GET", f"/api/scheduler/nextFewSchedules?cronExpression={asked}")).status_code == status
        assert (await ask("GET", "/api/scheduler/nextFewSchedules?cronExpression=0 0 9 * * ?&limit=0")).json() == []
        assert (await ask("GET", "/api/tasks/poll/batch/a?count=0")).json() == []
        said = (await ask("POST", "/api/scheduler/schedules", known | {"paused": True})).json()
        assert said.keys() >= {"createdBy", "cronSchedules"}
        assert not said.keys() & {"recent", "running", "buffered", "backfills", "nextRunTime"}
        for _ in range(2):  # one that is gone is gone
            assert (await ask("DELETE", "/api/scheduler/schedules/s")).status_code == 200

    asking(engine, test)


def test_event_handlers_by_name(engine: Engine) -> None:
    """A name that is taken is a conflict; one that is not there cannot be changed."""
    handler = {"name": "h", "event": "conductor:e", "actions": [{"action": "start_workflow", "start_workflow": {"name": "w"}}]}

    async def test(ask: Ask) -> None:
        statuses = [(await ask(method, "/api/event", handler)).status_code for method in ("PUT", "POST", "POST", "PUT")]
        assert statuses == [404, 200, 409, 200]
        (found,) = (await ask("GET", "/api/event/conductor:e?activeOnly=false")).json()
        assert found["actions"][0]["start_workflow"] == {"input": {}, "name": "w"}

    asking(engine, test)


def test_queues_and_repairs_by_name(engine: Engine) -> None:
    """A report by way of a queue is made at once; what there is not is not found; a variable that is not set is empty."""

    async def test(ask: Ask) -> None:
        run = (await ask("POST", "/api/workflow", {"name": "w"})).text
        assert (await ask("POST", f"/api/queue/update/{run}/a/COMPLETED", {})).status_code == 200
        assert (await ask("GET", f"/api/workflow/{run}")).json()["tasks"][0]["status"] == "COMPLETED"
        for path in ("queue/update/nobody/a/COMPLETED", "admin/sweep/requeue/nobody", "admin/consistency/verifyAndRepair/nobody"):
            assert (await ask("POST", f"/api/{path}", None)).status_code == 404
        assert (await ask("GET", "/api/environment/NOBODY")).content == b""

    asking(engine, test)


def test_many_at_once(engine: Engine) -> None:
    """A bulk verb names what it could not do as the verb by itself does; a bulk search answers executions as a look does."""

    async def test(ask: Ask) -> None:
        run = (await ask("POST", "/api/workflow", {"name": "w"})).text
        found = (await ask("POST", "/api/workflow/bulk/search", [run, "nobody"])).json()
        assert found["bulkSuccessfulResults"] == [(await ask("GET", f"/api/workflow/{run}")).json()]
        assert found["bulkErrorResults"] == {"nobody": "No such workflow found by id: nobody"}
        failed = (await ask("PUT", "/api/workflow/bulk/resume", [run])).json()["bulkErrorResults"]
        assert failed == {run: f"The workflow {run} is not PAUSED so cannot resume. Current status is RUNNING"}

    asking(engine, test)


def test_what_a_task_says_of_itself(engine: Engine) -> None:
    """When it was written, why, by whom; what a new attempt, a skip and a rerun leave in the rows."""

    async def test(ask: Ask) -> None:
        run = (await ask("POST", "/api/workflow", {"name": "w"})).text
        at = f"/api/workflow/{run}"
        await ask("PUT", f"{at}/skiptask/b")
        engine.advance("1s")
        task = (await ask("GET", "/api/tasks/poll/a?workerid=vm")).json()
        assert task["updateTime"] > task["scheduledTime"] > 0
        assert task["executionMetadata"] == {"additionalContext": {}, "additionalContextMap": {}, "empty": True}
        assert task["rateLimitFrequencyInSeconds"] == 1
        for there, line in ((task["taskId"], "a line"), ("nobody", "lost")):
            assert (await ask("POST", f"/api/tasks/{there}/log", line)).status_code == 200
            assert [each["log"] for each in (await ask("GET", f"/api/tasks/{there}/log")).json()] == [line] * (there != "nobody")
        await ask("POST", f"/api/tasks/{run}/a/FAILED?workerid=me", {})
        rows = (await ask("GET", at)).json()["tasks"]
        skipped, failed, again = rows
        assert (skipped["workflowType"], skipped["taskDefinition"]["name"]) == ("w", "b")
        assert (failed["workerId"], failed["status"], again.get("reasonForIncompletion")) == ("vm", "FAILED", None)
        await ask("DELETE", at)
        body = {"reRunFromTaskId": again["taskId"], "taskInput": {"x": 1}, "workflowInput": {"y": 2}}
        assert (await ask("POST", f"{at}/rerun", body)).text == run
        after = (await ask("GET", at)).json()
        assert (after["input"], after["tasks"][-1]["inputData"], after["lastRetriedTime"] > 0) == ({"y": 2}, {"x": 1}, True)

    asking(engine, test)


def test_a_type_that_nothing_reads_is_known_at_once() -> None:
    """A class of requests with a field that no reader is for cannot be read at all, instead of failing at such a field's value."""
    with pytest.raises(TypeError, match="nothing here reads"):
        structured({}, dict[str, Any])
    assert structured({"a": 1}, Mapping[str, Any]) == {"a": 1}


def test_a_report_hands_over_the_next_task_in_one_commit(engine: Engine) -> None:
    """`update-v2` reports and takes the next task of its type and domain at once; of one that goes on nothing is taken."""
    steps = tuple(WorkflowTask(name="step", task_reference_name=ref) for ref in "xyz")
    engine.register(WorkflowDef(name="three", tasks=steps))

    async def test(ask: Ask) -> None:
        run = (await ask("POST", "/api/workflow", {"name": "three", "taskToDomain": {"*": "d"}})).text
        task = (await ask("GET", "/api/tasks/poll/step?domain=d")).json()
        for ref in "yz":
            report = {"workflowInstanceId": run, "taskId": task["taskId"], "workerId": "vm"}
            before = engine.core.turns.committed.number
            task = (await ask("POST", "/api/tasks/update-v2", report | {"status": "COMPLETED"})).json()
            assert (task["referenceTaskName"], task["workerId"], task["domain"]) == (ref, "vm", "d")
            assert engine.core.turns.committed.number == before + 1
        report = {"workflowInstanceId": run, "taskId": task["taskId"], "status": "IN_PROGRESS"}
        assert (await ask("POST", "/api/tasks/update-v2", report)).status_code == 204

    asking(engine, test)


def test_health_is_answered_beside_many(engine: Engine) -> None:
    """`/health` waits for no thread that others keep busy: hundreds of calls that do not end are as none."""
    go = threading.Event()

    async def main() -> None:
        app: Any = rest_app(engine, safety=None)
        busy = [asyncio.ensure_future(app._waiting.call(go.wait)) for _ in range(600)]
        try:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
                for path in ("/health", "/api/health"):
                    assert (await client.get(path)).json()["healthy"]
        finally:
            go.set()
            await asyncio.gather(*busy)

    asyncio.run(asyncio.wait_for(main(), 30))


def test_runs_of_schedules_are_chosen_by_a_query(engine: Engine) -> None:
    """By name, state, workflow, id and instant, together and in any order; what is no clause is refused."""

    async def test(ask: Ask) -> None:
        for name, workflow in (("one", "w"), ("two", "w"), ("bad", "nobody")):
            request = {"name": workflow, "version": 1}
            body = {"name": name, "cronExpression": "*/30 * * * * ?", "startWorkflowRequest": request}
            assert (await ask("POST", "/api/scheduler/schedules", body)).status_code == 200
        skips = {
            "name": "skips",
            "cronExpression": "*/30 * * * * ?",
            "overlapPolicy": "SKIP",
            "startWorkflowRequest": {"name": "w"},
        }
        await ask("POST", "/api/scheduler/schedules", skips)
        engine.advance("60s")
        await ask("DELETE", "/api/scheduler/schedules/two")  # its runs are there still
        path = "/api/scheduler/search/executions"
        runs = (await ask("GET", path)).json()["results"]
        instants = sorted({run["scheduledTime"] for run in runs})
        assert (len(runs), len(instants)) == (8, 2)
        started = next(run for run in runs if run["scheduleName"] == "one")
        for query, count in (
            ("scheduleName IN (one)", 2),
            ("scheduleName IN (one, 'two')", 4),
            ("scheduleName IN ()", 8),
            ("scheduleName = two", 2),
            ("two", 2),
            ("no-such", 0),
            ("state IN (FAILED)", 3),
            ("state = SKIPPED", 1),
            ("state IN (EXECUTED,FAILED)", 8),
            ("workflowName=nobod", 2),
            ("workflowName=", 8),
            (f"executionId={started['executionId']}", 1),
            (f"scheduledTime>{instants[0]}", 4),
            (f"scheduledTime<{instants[1]}", 4),
            (f"scheduledTime = {instants[1]} AND scheduleName IN (one)", 1),
            (f"scheduledTime>{instants[0]} AND scheduledTime<{instants[1]}", 0),
            ("executionTime>0", 8),
        ):
            found = (await ask("GET", path, params={"query": query})).json()
            assert (found["totalHits"], len(found["results"])) == (count, count), query
        for query in ("status = 'FAILED'", "scheduledTime>noon", "state IN FAILED", "scheduleName > a", "a OR b", "("):
            assert (await ask("GET", path, params={"query": query})).status_code == 400, query
        (skipped,) = (await ask("GET", path, params={"query": "state IN (SKIPPED)"})).json()["results"]
        assert (skipped["state"], skipped["reason"]) == ("FAILED", "SKIPPED: an earlier one was still running")

    asking(engine, test)


def test_a_sort_without_an_order_is_passed_over(engine: Engine) -> None:
    """A field that nothing is sorted by leaves the order as it is, alone and beside one that has an order."""

    async def test(ask: Ask) -> None:
        for number in range(3):
            await ask("POST", "/api/workflow", {"name": "w", "priority": number})
            engine.advance("1s")
        for path in ("workflow/search", "workflow/search-v2", "workflow/search-by-tasks", "tasks/search", "tasks/search-v2"):
            plain = (await ask("GET", f"/api/{path}")).json()
            for sort in ("nothing:DESC", "input:ASC", "startTime:sideways", "|", "a:b:c"):
                assert (await ask("GET", f"/api/{path}", params={"sort": sort})).json() == plain, (path, sort)
        for sort, order in (("priority:DESC|nothing:ASC", [2, 1, 0]), ("nothing|priority:ASC", [0, 1, 2])):
            found = (await ask("GET", "/api/workflow/search", params={"sort": sort})).json()["results"]
            assert [row["priority"] for row in found] == order
        for name in "ab":
            body = {"name": name, "cronExpression": "0 0 9 * * ?", "startWorkflowRequest": {"name": "w"}}
            await ask("POST", "/api/scheduler/schedules", body)
        for sort, names in (
            ("name:DESC", "ba"),
            ("name:ASC", "ab"),
            ("name", "ba"),
            ("", "ab"),
            ("nextRunTime:ASC,name:DESC", "ba"),
        ):
            found = (await ask("GET", "/api/scheduler/schedules/search", params={"sort": sort})).json()["results"]
            assert "".join(one["name"] for one in found) == names, sort

    asking(engine, test)


def test_a_web_ui_keeps_its_own_settings(engine: Engine) -> None:
    """Beside the files of Conductor's web UI, `/context.js` is the UI's file, and the API is the API."""

    async def files(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/javascript")]})
        await send({"type": "http.response.body", "body": b"window.conductor = {};"})

    async def main() -> None:
        app = beside(rest_app(engine), files)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            assert (await client.get("/context.js")).text == "window.conductor = {};"
            assert (await client.get("/context.js?v=1")).headers["content-type"] == "text/javascript"
            assert (await client.get("/api/workflow/nobody")).status_code == 404
            assert (await client.get("/health")).json()["healthy"]

    asyncio.run(asyncio.wait_for(main(), 30))


class _Signed(LocalPayloads):
    """A storage whose documents clients fetch by URIs that are signed, as those of S3."""

    def location(self, operation: str, path: str) -> ExternalStorageLocation:
        return ExternalStorageLocation(uri=f"https://bucket.example/{path}?signed", path=path)


class _Reversed:
    """A codec."""

    key_id = "k"

    def encode(self, data: bytes) -> bytes:
        return data[::-1]

    def decode(self, data: bytes, key_id: str) -> bytes:
        return data[::-1]


@pytest.mark.parametrize("codec", [None, _Reversed()])
def test_a_large_input_is_a_path_where_the_client_reads_it(codec: Any, tmp_path: Path) -> None:
    """The path alone, where a URI is signed and nothing is encoded; else the input alone: clients that get both fetch it again."""
    bounds = Bounds(barriers=Barriers(task_input_payload_size_threshold=1))
    config = EngineConfig(bounds=bounds, payload_codec=codec)
    step = WorkflowTask(name="a", task_reference_name="a", input_parameters={"x": "${workflow.input.x}"})
    with Engine(config=config, payloads=_Signed(tmp_path)) as engine:
        engine.register(WorkflowDef(name="w", tasks=[step, attrs.evolve(step, task_reference_name="b")]))

        async def test(ask: Ask) -> None:
            large = {"x": "x" * 5_000}
            run = (await ask("POST", "/api/workflow", {"name": "w", "input": large})).text
            first = (await ask("GET", "/api/tasks/poll/a")).json()
            report = {"workflowInstanceId": run, "taskId": first["taskId"], "status": "COMPLETED"}
            second = (await ask("POST", "/api/tasks/update-v2", report)).json()
            path = first.get("externalInputPayloadStoragePath")
            assert ((path is None), first["inputData"]) == ((False, {}) if codec is None else (True, large))
            # What is handed out in the turn that stores it comes whole.
            assert (second.get("externalInputPayloadStoragePath"), second["inputData"]) == (None, large)
            if codec is None:
                where = {"path": path, "operation": "READ", "payloadType": "TASK_INPUT"}
                found = (await ask("GET", "/api/tasks/externalstoragelocation", params=where)).json()
                assert found == {"uri": f"https://bucket.example/{path}?signed", "path": path}

        asking(engine, test)


def test_over_grpc_a_large_input_is_whole(tmp_path: Path) -> None:
    """Clients of gRPC fetch nothing: both of its polls have the input, and no path."""
    wire = pytest.importorskip("grpc")
    from conductorlite.server.grpc import grpc_served
    from conductorlite.server.messages import filled, message_class, read

    bounds = Bounds(barriers=Barriers(task_input_payload_size_threshold=1))
    config = EngineConfig(bounds=bounds)
    step = WorkflowTask(name="a", task_reference_name="a", input_parameters={"x": "${workflow.input.x}"})
    large = {"x": "x" * 5_000}
    with (
        Engine(config=config, payloads=_Signed(tmp_path)) as engine,
        grpc_served(engine) as port,
        wire.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        engine.register(WorkflowDef(name="w", tasks=[step]))
        for _ in range(2):
            engine.start("w", large)
        service = "/conductor.grpc.tasks.TaskService"
        asked = {"taskType": "a", "count": 1, "timeout": 0}
        takes = message_class("conductor.grpc.tasks.BatchPollRequest")
        gives = message_class("conductor.proto.Task")
        batch = channel.unary_stream(f"{service}/BatchPoll", takes.SerializeToString, gives.FromString)
        (one,) = batch(filled(takes(), asked), timeout=20)
        takes, gives = (message_class(f"conductor.grpc.tasks.Poll{kind}") for kind in ("Request", "Response"))
        poll = channel.unary_unary(f"{service}/Poll", takes.SerializeToString, gives.FromString)
        other = poll(filled(takes(), {"taskType": "a"}), timeout=20).task
        for task in (read(one), read(other)):
            assert (task["inputData"], task.get("externalInputPayloadStoragePath")) == (large, None)
