"""`handlers`, `publish` and `events`: what they print, and how they end."""

from __future__ import annotations

import json

import pytest
from cli_kit import Shell


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
