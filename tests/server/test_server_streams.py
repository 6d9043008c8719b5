"""What an execution emits, over HTTP: Server-Sent Events, latest values, and workers that emit."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from rest_kit import Ask, asking

from conductorlite import Engine, Run, TaskResult, TaskStatus, VirtualClock, WorkflowDef
from conductorlite.server.pages import engine_app
from conductorlite.server.rest import rest_app

J = dict[str, Any]

TASK: J = {"name": "a", "taskReferenceName": "a", "taskDefinition": {"name": "a", "retryCount": 1, "retryDelaySeconds": 0}}


def started(engine: Engine, **more: Any) -> Run:
    """An execution of one task."""
    return engine.start(WorkflowDef.from_json({"name": "w", "tasks": [TASK], **more}), workflow_id="w")


def events(text: str) -> list[tuple[str, str, Any]]:
    """The id, the name and the data of each event."""
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(":", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in lines:
            data = lines["data"].strip()
            found.append((lines.get("id", "").strip(), lines.get("event", "").strip(), json.loads(data) if data else None))
    return found


def reported(engine: Engine, status: TaskStatus = TaskStatus.COMPLETED, *values: Any) -> None:
    """Take the task, emit values for it, and report."""
    (task,) = engine.poll("a")
    engine.streams.emit(task, *values)
    engine.update_task(TaskResult(workflow_id="w", task_id=task.task_id, status=status, lease=task.lease))


def test_events_of_an_ended_execution() -> None:
    """Values with their numbers as ids, from a number on, and an end; an unknown execution is 404."""
    with Engine(clock=VirtualClock(0)) as engine:
        started(engine, maskedFields=["card"])
        reported(engine, TaskStatus.FAILED, "lost")
        engine.settle()
        reported(engine, TaskStatus.COMPLETED, "x", {"card": "4711", "n": 1})

        async def test(ask: Ask) -> None:
            answer = await ask("GET", "/api/workflow/w/stream")
            assert answer.headers["content-type"].startswith("text/event-stream")
            first, second, end = events(answer.text)
            assert first == (
                "2", "",
                {"number": 2, "value": "x", "stream": "values", "ref": "a", "attempt": 1, "at": 0, "kept": True},
            )  # fmt: skip
            assert second[2]["value"] == {"card": "***", "n": 1}
            assert end == ("", "end", None)
            later = await ask("GET", "/api/workflow/w/stream?after=2&stream=values")
            assert [number for number, *_ in events(later.text)] == ["", "3", ""]
            again = await ask("GET", "/api/workflow/w/stream", headers={"Last-Event-ID": "3"})
            assert [name for _, name, _ in events(again.text)] == ["dropped", "end"]
            assert events((await ask("GET", "/api/workflow/w/stream?stream=none")).text) == [("", "end", None)]
            assert (await ask("GET", "/api/workflow/nobody/stream")).status_code == 404
            assert (await ask("GET", "/api/workflow/w/stream?after=-1")).status_code == 400

        asking(engine, test, settle=False)


@pytest.mark.parametrize("app", ["rest", "pages"])
def test_events_come_while_the_execution_runs(app: str) -> None:
    """Each part is sent when its turn is committed; a client that goes away ends the stream."""
    with Engine(clock=VirtualClock(0)) as engine:
        started(engine)
        (task,) = engine.poll("a")

        async def main() -> None:
            parts: asyncio.Queue[J] = asyncio.Queue()
            left = asyncio.Event()
            asked = iter([{"type": "http.request", "body": b"", "more_body": False}])

            async def receive() -> J:
                for message in asked:
                    return message
                await left.wait()
                return {"type": "http.disconnect"}

            async def part() -> list[tuple[str, str, Any]]:
                while True:
                    message = await asyncio.wait_for(parts.get(), 20)
                    if found := events(message.get("body", b"").decode()):
                        return found

            path = "/api/workflow/w/stream" if app == "rest" else "/streams/executions/w"
            scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
                     "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
                     "headers": [(b"host", b"127.0.0.1")], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)}  # fmt: skip
            served: Any = rest_app(engine) if app == "rest" else engine_app(engine)
            serving = asyncio.ensure_future(served(scope, receive, parts.put))
            for value in ("one", "two"):
                await asyncio.to_thread(engine.streams.emit, task, value)
                ((_, _, data),) = await part()
                assert (data["value"], data["kept"]) == (value, False)
            left.set()
            await asyncio.wait_for(serving, 20)

        asyncio.run(main())


def test_latest_values_and_workers_that_emit() -> None:
    """A worker emits under its lease; values are set and read."""
    with Engine(clock=VirtualClock(0)) as engine:
        started(engine)

        async def test(ask: Ask) -> None:
            task = (await ask("GET", "/api/tasks/poll/a")).json()
            lease = engine.get("w").task("a").lease
            path = f"/api/tasks/{task['taskId']}/emit"
            assert (await ask("POST", path, {"lease": lease, "values": [1, 2], "stream": "s"})).status_code == 200
            assert (await ask("POST", path, {"lease": lease + 1, "values": [3]})).status_code == 409
            for wrong in ({"values": []}, {"lease": lease}, {"lease": "x", "values": []}, {"lease": lease, "values": 1}):
                assert (await ask("POST", path, wrong)).status_code == 400
            assert [item.value for item in engine.streams.items("w", "s")] == [1, 2]
            assert (await ask("GET", "/api/workflow/w/values/mood")).json() == {}
            assert (await ask("PUT", "/api/workflow/w/values/mood", {"value": "good"})).status_code == 200
            assert (await ask("GET", "/api/workflow/w/values/mood")).json() == {"at": 0, "value": "good"}
            assert (await ask("GET", "/api/workflow/w/values")).json() == [{"name": "mood", "ref": None, "at": 0, "value": "good"}]
            assert (await ask("PUT", "/api/workflow/w/values/mood", {})).status_code == 400
            assert (await ask("GET", "/api/workflow/w/values/mood?ref=a")).json() == {}

        asking(engine, test)


def test_messages_of_any_topic_and_forks() -> None:
    """A message is sent once for each key; a fork begins at a task; what they do not take is refused."""
    with Engine(clock=VirtualClock(0)) as engine:
        started(engine)
        reported(engine)

        async def test(ask: Ask) -> None:
            gone = await ask("POST", "/api/workflow/w/messages/news", {"value": 1})
            assert gone.status_code == 409
            plan = await ask("POST", "/api/workflow/w/fork/plan", {"at": "a", "newId": "w2"})
            assert plan.json() == {"workflowId": "w", "at": "a", "kept": [], "again": ["a"], "dropped": [], "shared": {}}
            assert list(engine.admin.workflow_ids()) == ["w"]
            answer = await ask("POST", "/api/workflow/w/fork", {"at": "a", "newId": "w2", "taskInput": {"x": 1}})
            assert (answer.status_code, answer.text) == (200, "w2")
            assert engine.get("w2").task("a").input_data == {"x": 1}
            for _ in range(2):
                sent = await ask("POST", "/api/workflow/w2/messages/news?key=k", {"value": {"n": 1}})
                assert (sent.status_code, sent.text) == (200, "k")
            assert [(one.topic, one.value.value) for one in engine.messages("w2")] == [("news", {"n": 1})]
            for path, body in (("fork", {}), ("fork", {"at": "a", "what": 1}), ("messages/news", {})):
                assert (await ask("POST", f"/api/workflow/w2/{path}", body)).status_code == 400
            assert (await ask("POST", "/api/workflow/w2/fork", {"at": "none"})).status_code == 404
            definition = engine.get("w2").definition
            assert definition is not None
            other = {**definition.to_json(), "version": 2}
            assert (await ask("POST", "/api/workflow/w2/fork", {"at": "a", "newId": "w3", "definition": other})).text == "w3"
            assert engine.get("w3").version == 2
            other["tasks"] = []
            assert (await ask("POST", "/api/workflow/w2/fork", {"at": "a", "definition": other})).status_code == 400

        asking(engine, test)


def test_only_what_is_kept() -> None:
    """With `keptOnly` nothing of an attempt comes that has failed since."""
    with Engine(clock=VirtualClock(0)) as engine:
        started(engine)
        reported(engine, TaskStatus.FAILED, "lost")
        engine.settle()
        reported(engine, TaskStatus.COMPLETED, "kept")

        async def test(ask: Ask) -> None:
            answer = await ask("GET", "/api/workflow/w/stream?keptOnly=true&after=1")
            assert [(name, data and data["value"]) for _, name, data in events(answer.text)] == [("", "kept"), ("end", None)]

        asking(engine, test, settle=False)
