"""`handlers`, `publish`, `events`, `messages` and `stream`: what they print, and how they end."""

from __future__ import annotations

import json
import threading

import pytest
from cli_kit import Shell

from conductorlite import Engine, TaskContext, Workers
from conductorlite.model.threads import Waiter


@pytest.fixture
def handled(shell: Shell) -> Shell:
    """A registered workflow that waits, and files of two handlers."""
    shell("start", "waiting.json", "--id", "w1")
    for name, active, body in (("end", True, {"workflowId": "${wf}", "taskRefName": "w"}), ("off", False, {"taskId": "t"})):
        handler = {
            "name": name, "event": "shop:paid", "active": active, "condition": "$.amount > 1",
            "actions": [{"action": "complete_task", "complete_task": body}],
        }  # fmt: skip
        (shell.folder / f"{name}.json").write_text(json.dumps(handler))
    (shell.folder / "wrong.json").write_text(json.dumps({"name": "x", "event": "e", "actions": []}))
    return shell


def test_handlers(handled: Shell) -> None:
    """Files are registered, names removed, and what there is is listed."""
    said = handled("handlers", "--register", "end.json", "--register", "off.json")
    assert said.code == 0
    assert said.out.splitlines()[0].split() == ["NAME", "EVENT", "ACTIVE", "CONDITION", "ACTIONS"]
    assert [line.split()[:3] for line in said.out.splitlines()[1:]] == [["end", "shop:paid", "yes"], ["off", "shop:paid", "no"]]
    assert [one["name"] for one in handled("handlers", "--active", "--json").json] == ["end"]
    assert handled("handlers", "--event", "other", "--json").json == []
    assert [one["name"] for one in handled("handlers", "--remove", "end", "--json").json] == ["off"]
    wrong = handled("handlers", "--register", "wrong.json")
    assert (wrong.code, "$.actions: is empty" in wrong.err) == (2, True)
    assert handled("handlers", "--remove", "nobody").code == 3


def test_publish_and_events(handled: Shell) -> None:
    """A message acts, and acts no second time; what became of it is listed."""
    handled("handlers", "--register", "end.json")
    payload = json.dumps({"wf": "w1", "amount": 5})
    for _ in range(2):
        said = handled("publish", "shop:paid", payload, "--message-id", "m1")
        assert said.code == 0
        assert said.out.splitlines()[1].split()[-4:] == ["m1_0", "complete_task", "COMPLETED", "w1"]
    assert handled("show", "w1", "--json").json["status"] == "COMPLETED"
    (handled.folder / "p.json").write_text('{"amount": 0}')
    (skipped,) = handled("publish", "shop:paid", "@p.json", "--message-id", "m2", "--json").json
    assert (skipped["status"], skipped["messageId"]) == ("SKIPPED", "m2")
    assert handled("publish", "nobody", "--json").json == []
    assert {one["id"] for one in handled("events", "--json").json} == {"m1_0", "m2_0"}
    assert [one["id"] for one in handled("events", "--handler", "end", "--message-id", "m1", "--json").json] == ["m1_0"]
    assert handled("events", "--limit", "1", "--json").json[0]["name"] == "end"
    broken = handled("publish", "shop:paid", "{no json")
    assert (broken.code, broken.out) != (0, "")
    assert len(broken.err.splitlines()) == 1


PULL = {
    "name": "pulls",
    "schemaVersion": 2,
    "maskedFields": ["card"],
    "tasks": [{"name": "p", "taskReferenceName": "p", "type": "PULL_WORKFLOW_MESSAGES", "inputParameters": {"topic": "paid"}}],
}


def test_messages_are_listed(shell: Shell) -> None:
    """In order, with who has received them; those of a topic, or that nobody has received, also once they are archived."""
    (shell.folder / "pulls.json").write_text(json.dumps(PULL))
    shell("start", "pulls.json", "--id", "p1")
    shell("send", "p1", "other", '"hello \\u001b[31m"', "--key", "k")
    shell("send", "p1", "paid", '{"card": "4711", "amount": 5}')
    assert "1 of other" in shell("show", "p1").out
    for archived in (False, True):
        if archived:
            assert shell("archive", "p1").code == 0
        rows = [line.split() for line in shell("messages", "p1").out.splitlines()]
        assert rows[0] == ["NUMBER", "TOPIC", "KEY", "SENT", "RECEIVED", "BY", "VALUE"]
        assert rows[1][:3] == ["1", "other", "k"]
        assert "\x1b" not in shell("messages", "p1").out
        first, second = shell("messages", "p1", "--json").json
        assert (first["value"], first.get("receiver")) == ("hello \x1b[31m", None)
        assert (second["number"], second["receiver"], second["value"]) == (2, "p", {"card": "***", "amount": 5})
        assert [one["number"] for one in shell("messages", "p1", "--topic", "paid", "--json").json] == [2]
        assert [one["number"] for one in shell("messages", "p1", "--unreceived", "--json").json] == [1]
    assert shell("messages", "nobody").code == 3


EMITTING = {
    "name": "emitting",
    "schemaVersion": 2,
    "tasks": [
        {"name": "e", "taskReferenceName": "e", "type": "EMIT", "inputParameters": {"value": "begun", "stream": "state"}},
        {"name": "greet", "taskReferenceName": "greet", "retryCount": 0},
    ],
}


def test_a_stream_is_read_and_followed(shell: Shell) -> None:
    """What is there, from a number on, of one stream; with --follow what comes until the end, and notices of what is dropped."""
    (shell.folder / "emitting.json").write_text(json.dumps(EMITTING))
    shell("start", "emitting.json", "--id", "e1")
    assert [line.split() for line in shell("stream", "e1").out.splitlines()] == [
        ["NUMBER", "STREAM", "TASK", "ATTEMPT", "KEPT", "VALUE"],
        ["1", "state", "e", "1", "yes", "begun"],
    ]
    workers = Workers()
    looked = threading.Event()

    @workers.task("greet")
    def greet(context: TaskContext) -> None:
        context.emit({"token": "A"}, stream="tokens")
        context.emit("B\nC", stream="tokens")
        assert looked.wait(20)
        raise ValueError("no")

    with Engine(shell.folder / "conductorlite.db", workers=workers) as engine:
        driver = threading.Thread(target=engine.run_until_idle)
        driver.start()
        while len(engine.streams.items("e1")) < 3:
            engine.clock.wait(Waiter(), engine.clock.now() + 10)
        threading.Timer(0.3, looked.set).start()
        said = shell("stream", "e1", "--follow")
        driver.join(20)
    assert (said.code, said.err) == (0, "")
    assert said.out == 'begun\n{"token":"A"}\nB\nC\n(greet, attempt 1: its values from 2 to 3 are dropped)\n'
    followed = [json.loads(line) for line in shell("stream", "e1", "--follow", "--json").out.splitlines()]
    assert [(one["number"], one["value"], one["kept"]) for one in followed] == [(1, "begun", True)]
    assert shell("stream", "e1", "--json").json == followed
    assert shell("stream", "e1", "--after", "1", "--json").json == shell("stream", "e1", "--stream", "tokens", "--json").json == []
    assert shell("stream", "nobody").code == 3


def test_a_start_sends_a_message(shell: Shell) -> None:
    """In the commit of the start; a key without one is a wrong usage."""
    (shell.folder / "pulls.json").write_text(json.dumps(PULL))
    assert shell("start", "pulls.json", "--id", "p1", "--send", "paid", '{"amount": 5}', "--key", "k").code == 0
    (one,) = shell("messages", "p1", "--json").json
    assert (one["topic"], one["key"], one["value"], one["receiver"]) == ("paid", "k", {"amount": 5}, "p")
    assert shell("start", "pulls.json", "--key", "k").code == 2
    assert shell("start", "pulls.json", "--id", "p2", "--send", "task:p", "1").code == 2
    assert shell("show", "p2").code == 3
