"""A canary is put into every payload of every verb, and looked for in every byte of the store."""

from __future__ import annotations

import re
import sqlite3
import zlib
from pathlib import Path
from typing import Any, Final

import pytest
from sealing_kit import CANARY, Codec, plain_in

from conductorlite import Barriers, Bounds, Engine, EngineConfig, TaskContext, TaskDef, VirtualClock, Workers, WorkflowDef
from conductorlite.errors import PayloadUnavailable
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.handlers import EventHandler
from conductorlite.model.schedules import StartWorkflowRequest, WorkflowSchedule
from conductorlite.store.sqlite.declarations import SCHEMA

LARGE: Final = f"{CANARY}{'x' * 3_000}"

#: Columns that hold payloads: without a codec the canary is in each of them.
PAYLOADS: Final = {
    *(f"workflows.{one}" for one in ("input", "output", "variables", "reason", "rest", "journal")),
    *(f"tasks.{one}" for one in ("input", "output", "reason", "rest")),
    *("texts.text", "history.lines", "inbox.data", "task_logs.text", "mailbox.value", "emitted.items", "latest_values.value"),
    *("definitions.text", "event_executions.output", "schedules.text", "archive.document"),
}

#: The same, where no verb puts what a caller has given, or only what they say: names of domains, how far a schedule has come.
ALSO_SEALED: Final = {
    "workflows.task_to_domain",
    "workflows.parked",
    "workflows.rest",
    "schedules.progress",
    "workflows.definition_hash",
}
ALSO_SEALED_NAMES: Final = {"texts.digest", "definitions.digest", "external_payloads.digest"}

#: Columns that stay plain: what is looked for, compared, counted, or registered as a definition.
PLAIN: Final = {
    *(f"workflows.{one}" for one in ("workflow_id", "name", "correlation_id", "parent_workflow_id", "owner", "last_ref", "timers")),
    *(f"tasks.{one}" for one in ("ref", "task_id", "base_ref", "iterations", "task_type", "name", "worker_id", "holder")),
    *(f"inbox.{one}" for one in ("workflow_id", "event_id", "kind", "sender", "ref", "owner")),
    *(f"messages.{one}" for one in ("workflow_id", "ref", "queue", "task_id")),
    *(f"idempotency_keys.{one}" for one in ("name", "key", "workflow_id")),
    *(f"polls.{one}" for one in ("task_type", "domain", "worker_id")),
    *(f"task_logs.{one}" for one in ("workflow_id", "task_id")),
    *(f"mailbox.{one}" for one in ("workflow_id", "topic", "receiver", "key")),
    *(f"emissions.{one}" for one in ("workflow_id", "task_id", "ref", "state")),
    *(f"emitted.{one}" for one in ("workflow_id", "stream", "task_id")),
    *(f"latest_values.{one}" for one in ("workflow_id", "name", "ref")),
    *(f"{table}.{one}" for table in ("task_defs", "workflow_defs", "schema_defs") for one in ("name", "text")),
    *("counters.name", "limits.key", "limits.log", "limits.alarm", "limits.unpolled", "limits.boot", "limits.tags"),
    *(f"limit_members.{one}" for one in ("key", "holder", "workflow_id", "ref", "state", "lane", "fairness_key")),
    *(f"event_handlers.{one}" for one in ("name", "event", "text")),
    *(f"event_executions.{one}" for one in ("name", "event", "message_id", "status", "action")),
    *(f"schedules.{one}" for one in ("name", "address", "owner")),
    *(f"{table}.{one}" for table in ("external_payloads", "loose_payloads") for one in ("workflow_id", "key")),
    *(f"archive.{one}" for one in ("workflow_id", "name", "status")),
    *("driven.owner", "holders.holder", "holders.place", "feeds.reader", "pending.workflow_id"),
}


def node(ref: str, kind: str = "SIMPLE", **fields: Any) -> dict[str, Any]:
    """A task of a definition."""
    return {"name": ref, "taskReferenceName": ref, "type": kind, **fields}


FLOW: Final = WorkflowDef.from_json(
    {
        "name": "flow",
        "tasks": [
            node("work", inputParameters={"small": "${workflow.input.small}", "large": "${workflow.input.large}"}),
            node("set", "SET_VARIABLE", inputParameters={"kept": "${work.output.small}"}),
            node("wait", "WAIT"),
            node("pull", "PULL_WORKFLOW_MESSAGES", inputParameters={"topic": "news"}),
            node(
                *("fork", "FORK_JOIN_DYNAMIC"),
                inputParameters={
                    "tasks": [node("made", inputParameters={"x": "${workflow.input.small}"})],
                    "inputs": {"made": {"y": "${workflow.input.small}"}},
                },
                dynamicForkTasksParam="tasks",
                dynamicForkTasksInputParamName="inputs",
            ),
            node("join", "JOIN"),
            node("late"),
        ],
        "outputParameters": {"small": "${work.output.small}", "large": "${work.output.large}"},
    }
)


WHOLE: Final = WorkflowDef.from_json(
    {"name": "whole", "tasks": [node("n", "NOOP")], "outputParameters": {"said": "${workflow.input.small}"}}
)


def workers() -> Workers:
    """Functions that say the canary wherever they may."""
    made = Workers()

    @made.task()
    def work(small: str, large: str, context: TaskContext) -> dict[str, str]:
        context.log(small)
        context.emit(small, stream="said")
        context.set_value("far", small)
        return {"small": small, "large": large}

    @made.task()
    def fails(text: str) -> None:
        raise ValueError(text)

    made.add("made", lambda x, y: {"z": x + y})
    return made


def everything(engine: Engine) -> None:
    """Every verb that takes a payload, with the canary in it."""
    engine.register(FLOW, WorkflowDef.from_json({"name": "failing", "tasks": [node("fails", inputParameters=_TEXT)]}))
    engine.register(TaskDef(name="fails", retry_count=0))
    given = {"small": CANARY, "large": LARGE}
    first = engine.start("flow", given, workflow_id="first").workflow_id
    engine.send(first, "news", CANARY, key="k")
    engine.send(first, "other", {"large": LARGE})
    engine.advance("1s")
    engine.update_variables(first, {"given": CANARY})
    engine.run(first).set_value("mark", CANARY)
    engine.signal(first, {"said": CANARY}, task="wait")
    engine.advance("1s")
    (late,) = engine.poll("late")
    engine.tasks.log(late, [f"a line of {CANARY}"])
    engine.streams.emit(late, CANARY, stream="said")
    engine.start("failing", {"text": CANARY}, workflow_id="failed")
    engine.start("flow", given, workflow_id="ended")
    engine.advance("1s")
    engine.skip_task("ended", "late", output={"skipped": CANARY})
    engine.terminate("ended", CANARY)
    engine.start("failing", {"text": CANARY}, workflow_id="archived")
    engine.advance("1s")
    engine.admin.archive("archived")
    engine.start("flow", given, workflow_id="paused", delay="1h")
    handler = {"action": "start_workflow", "start_workflow": {"name": "flow", "input": {"small": "${word}", "large": "${word}"}}}
    handler |= {"expandInlineJSON": True}
    engine.events.register(EventHandler.from_json({"name": "h", "event": "a:b", "active": True, "actions": [handler]}))
    engine.events.publish("a:b", {"word": CANARY}, message_id="m")
    wrong = {"action": "complete_task", "complete_task": {"workflowId": "${word}", "taskRefName": "wait"}}
    engine.events.register(EventHandler.from_json({"name": "wrong", "event": "c:d", "active": True, "actions": [wrong]}))
    engine.events.publish("c:d", {"word": CANARY}, message_id="n")
    request = StartWorkflowRequest(name="failing", input={"text": CANARY})
    engine.schedules.save(WorkflowSchedule(name="s", cron_expression="0 0 0 1 1 *", zone_id="UTC", start_workflow_request=request))
    engine.start(WHOLE, {"small": CANARY}, workflow_id="whole")
    engine.advance("1s")
    for _ in range(6):
        engine.update_variables("first", {"given": f"{CANARY}{'y' * 600}"})
    engine.search(free_text=CANARY)
    later = {"workflow_id": "paused", "event_id": "later", "due_at": 10**12, "posted_at": 0}
    with engine.backend.writing() as tx:  # as other processes do, whose turn it is not
        tx.inbox.post([Event(**later, kind=EventKind.VARIABLES, data=Payload.of({"variables": {"x": CANARY}}))])


_TEXT: Final = {"text": "${workflow.input.text}"}


def engine_in(folder: Path, codec: Codec | None) -> Engine:
    """An engine on a file, with a payload storage for inputs of a workflow past two kilobytes."""
    bounds = Bounds(barriers=Barriers(workflow_input_payload_size_threshold=2))
    config = EngineConfig(payload_codec=codec, bounds=bounds)
    return Engine(folder / "e.db", workers=workers(), clock=VirtualClock(0), config=config)


def columns() -> set[str]:
    """Every column of the schema that is not a number."""
    found = set()
    for table, body in re.findall(r"CREATE TABLE (\w+) \((.*?)\) STRICT", SCHEMA, re.S):
        found |= {f"{table}.{column}" for column in re.findall(r"(\w+) (?:TEXT|ANY|BLOB)\b", body)}
    return found


def holding(folder: Path) -> set[str]:
    """The columns in which the canary is found, in what is compressed too."""
    connection = sqlite3.connect(folder / "e.db")
    found = set()
    for table in [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]:
        rows = connection.execute(f'SELECT * FROM "{table}"')
        for row in rows:
            found |= {f"{table}.{name}" for (name, *_), cell in zip(rows.description, row, strict=True) if CANARY in _text(cell)}
    connection.close()
    return {one for one in found if not one.startswith("search_")}


def _text(cell: object) -> str:
    if not isinstance(cell, bytes):
        return str(cell)
    unpacking = zlib.decompressobj()
    try:
        return (unpacking.decompress(cell) + unpacking.unused_data).decode(errors="replace")
    except zlib.error:
        return cell.decode(errors="replace")


def test_of_every_column_it_is_known_whether_it_is_sealed() -> None:
    """A new one fails this test, until it is listed."""
    assert columns() == PAYLOADS | ALSO_SEALED | ALSO_SEALED_NAMES | PLAIN


def test_without_a_codec_the_canary_is_in_every_column_of_payloads(tmp_path: Path) -> None:
    """So the test below looks in the right places."""
    with engine_in(tmp_path, None) as engine:
        everything(engine)
    assert holding(tmp_path) == PAYLOADS
    assert any("payloads" in name for name in plain_in(tmp_path))


def test_no_byte_of_a_payload_stands_plain(tmp_path: Path) -> None:
    """In the file, its log, its shared memory, the storage beside it, the backup, while it is open and afterwards."""
    with engine_in(tmp_path, Codec("k")) as engine:
        everything(engine)
        assert engine.get("first").variables.value == {"kept": CANARY, "given": f"{CANARY}{'y' * 600}"}
        assert engine.get("failed").reason == f"fails failed: ValueError: {CANARY}"
        assert engine.get("archived").input_data == {"text": CANARY}
        assert engine.search(free_text=CANARY).total_hits > 3
        assert {path.name for path in tmp_path.iterdir()} >= {"e.db", "e.db-wal", "e.db-shm", "e.db.payloads"}
        engine.admin.backup(tmp_path / "copy.db")
        assert list(plain_in(tmp_path)) == []
        assert engine.admin.check() == []
        engine.admin.compact()
    assert list(plain_in(tmp_path)) == []
    assert holding(tmp_path) == set()
    with Engine(tmp_path / "copy.db", config=EngineConfig(payload_codec=Codec("k"))) as engine:
        assert engine.get("first").input_data["large"] == LARGE
    for codec in (None, Codec("other"), Codec("k=another")):
        with pytest.raises(PayloadUnavailable, match="'k'"):
            engine_in(tmp_path, codec)
