"""`POST /workflow/{workflowId}/messages`: Conductor's way to send an execution a message."""

from __future__ import annotations

from rest_kit import Ask, asking

from conductorlite import Engine, VirtualClock, WorkflowDef


def waiting(engine: Engine, *before: str) -> str:
    """An execution that waits for a message behind some tasks."""
    tasks = [{"name": ref, "taskReferenceName": ref} for ref in before]
    tasks.append({"name": "p", "taskReferenceName": "p", "type": "PULL_WORKFLOW_MESSAGES"})
    return engine.start(WorkflowDef.from_json({"name": "w", "tasks": tasks})).workflow_id


def test_a_message_is_posted() -> None:
    """The answer is its id, as text; a PAUSED execution keeps it, one that has ended refuses it, an unknown one is not found."""
    with Engine(clock=VirtualClock()) as engine:
        one, other = waiting(engine), waiting(engine, "a")

        async def test(ask: Ask) -> None:
            answer = await ask("POST", f"/api/workflow/{one}/messages", {"text": "hello"})
            assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain;charset=UTF-8")
            (received,) = engine.get(one).task("p").output_data["messages"]
            assert (received["id"], received["payload"]) == (answer.text, {"text": "hello"})
            assert (await ask("POST", f"/api/workflow/{one}/messages", {})).status_code == 409
            assert (await ask("POST", "/api/workflow/nobody/messages", {})).status_code == 404
            engine.pause(other)
            assert (await ask("POST", f"/api/workflow/{other}/messages", {"n": 0})).status_code == 200
            assert (await ask("POST", f"/api/workflow/{other}/messages", [1])).status_code == 400

        asking(engine, test)
        assert [message.receiver for message in engine.messages(other)] == [None]


def test_a_full_mailbox_is_too_many_requests() -> None:
    """429, so that a client sends it again later."""
    with Engine(clock=VirtualClock()) as engine:
        one = waiting(engine, "a")
        for _ in range(1_000):
            engine.send(one, "x")

        async def test(ask: Ask) -> None:
            answer = await ask("POST", f"/api/workflow/{one}/messages", {})
            assert answer.status_code == 429
            assert "1000 messages are kept" in answer.json()["message"]

        asking(engine, test)


def test_a_report_on_a_task_to_come_is_kept() -> None:
    """`POST /tasks/{workflowId}/{ref}/{status}` answers nothing; with `/sync` it answers the execution."""
    tasks = [
        {"name": "a", "taskReferenceName": "a"},
        {"name": "w", "taskReferenceName": "w", "type": "WAIT"},
        {"name": "h", "taskReferenceName": "h", "type": "HUMAN"},
    ]
    with Engine(clock=VirtualClock()) as engine:
        run = engine.start(WorkflowDef.from_json({"name": "w", "tasks": tasks})).workflow_id

        async def test(ask: Ask) -> None:
            assert (await ask("POST", f"/api/tasks/{run}/w/COMPLETED", {"n": 1})).text == ""
            assert (await ask("POST", f"/api/tasks/{run}/h/COMPLETED/sync", {"n": 2})).json()["workflowId"] == run
            assert (await ask("POST", f"/api/tasks/{run}/nobody/COMPLETED/sync", {})).status_code == 404
            (task,) = (await ask("GET", "/api/tasks/poll/batch/a")).json()
            await ask("POST", "/api/tasks", {"workflowInstanceId": run, "taskId": task["taskId"], "status": "COMPLETED"})

        asking(engine, test)
        assert engine.get(run).status == "COMPLETED"
        assert [engine.get(run).task(ref).output_data for ref in ("w", "h")] == [{"n": 1}, {"n": 2}]


def test_it_is_sent_with_the_start() -> None:
    """The body of a start may have a `message`; a start that comes again with RETURN_EXISTING sends it once."""
    with Engine(clock=VirtualClock()) as engine:
        engine.register(WorkflowDef.from_json({
            "name": "w", "tasks": [{"name": "p", "taskReferenceName": "p", "type": "PULL_WORKFLOW_MESSAGES"}],
        }))  # fmt: skip
        body = {
            "name": "w", "idempotencyKey": "k", "idempotencyStrategy": "RETURN_EXISTING",
            "message": {"topic": "messages", "value": {"n": 1}, "key": "m"},
        }  # fmt: skip

        async def test(ask: Ask) -> None:
            ids = {(await ask("POST", "/api/workflow", body)).text for _ in range(2)}
            (one,) = ids
            assert [message.receiver for message in engine.messages(one)] == ["p"]
            assert engine.get(one).task("p").output_data["messages"][0]["payload"] == {"n": 1}
            assert (await ask("POST", "/api/workflow", {**body, "message": {"n": 1}})).status_code == 400

        asking(engine, test)
