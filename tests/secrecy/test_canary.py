"""Secrets named in every place that accepts one, given to workers that leak them: none is found in a byte that was written."""

from __future__ import annotations

import gc
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from canary_kit import INPUT, LONG, PIECES, EchoServer, LoudSink, Vault, careless, child, leaks, whole

from conductorlite import Barriers, Engine, EngineConfig, Task, TaskResult, TaskStatus, VirtualClock, WorkflowDef, WorkflowStatus
from conductorlite.decide.changeset.reader import Bounds
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import MemoryIndex, replay

pytest.importorskip("httpx")


def searched(where: str, data: bytes) -> None:
    """Fail, naming what was found, if a piece of a secret is in the data."""
    found = [(piece, data[max(0, at - 80) : at + 60]) for piece in PIECES if (at := data.find(piece)) >= 0]
    assert found == [], where


@pytest.fixture(params=["memory", pytest.param("memory-relay", marks=pytest.mark.slow), "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Backend, Callable[[], bytes]]:
    """A store, and all the bytes that are in it."""
    if request.param == "sqlite":
        return SQLiteBackend(tmp_path / "store.db"), lambda: _files(tmp_path)
    backend = MemoryBackend(relay=request.param == "memory-relay")
    return backend, lambda: _everything(backend) + _files(tmp_path)


def _files(folder: Path) -> bytes:
    """Every byte of every file below a folder: databases with their logs, the index, the payload storage."""
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


def _everything(backend: MemoryBackend) -> bytes:
    """Every text that can be reached from a store."""
    texts: list[str] = []
    seen: set[int] = set()
    pending: list[Any] = [backend._store]
    while pending:
        item = pending.pop()
        if id(item) in seen or isinstance(item, type) or callable(item):
            continue
        seen.add(id(item))
        if isinstance(item, str):
            texts.append(item)
        pending.extend(gc.get_referents(item))
    return "\n".join(texts).encode("utf-8", "surrogatepass")


@pytest.mark.trap("tasks-56")
def test_nothing_of_a_secret_is_written(
    store: tuple[Backend, Callable[[], bytes]],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Failed, retried, compensated, echoed by servers, quoted by errors, logged, exported, explained: never a piece of one."""
    backend, written = store
    caplog.set_level(logging.DEBUG)
    vault, sink = Vault(), LoudSink()
    index = MemoryIndex() if isinstance(backend, MemoryBackend) else None
    places: dict[str, Any] = {"payloads": tmp_path / "payloads", "index": index}
    low = Barriers(**{f"{place}_payload_size_threshold": 1 for place in ("task_input", "task_output", "workflow_output")})
    with (
        EchoServer() as server,
        Engine(
            backend,
            workers=careless(sink),
            clock=VirtualClock(0),
            secrets=vault,
            config=EngineConfig(bounds=Bounds(barriers=low)),
            **places,
        ) as engine,
    ):
        engine.register(WorkflowDef.from_json(child("child")), WorkflowDef.from_json(child("mourner")))
        assert vault.asked == []
        run = engine.start(whole(server.url), {"n": 7}, workflow_id="w")
        engine.advance("30s")
        engine.signal("w", {"answer": leaks(_resolved()), "said": LONG}, task="asked", reason=LONG)
        engine.settle()
        _by_hand(engine, backend, vault)
        engine.settle()
        statuses = {task.ref: str(task.status) for task in run.workflow.tasks}
        assert run.workflow.status is WorkflowStatus.FAILED
        assert {statuses[ref] for ref in ("odd", "gives_up", "typed", "http_bad", "record")} == {"COMPLETED_WITH_ERRORS"}
        assert {status for ref, status in statuses.items() if "leaky" in ref or "made" in ref} == {"COMPLETED"}
        assert server.seen == [LONG] * len(server.seen) != []
        assert LONG in json.dumps([str(message) for message in sink.taken])
        mourners = [row for row in engine.executions() if row.name in ("mourner", "child")]
        assert [row.status for row in mourners] == [WorkflowStatus.COMPLETED] * 3
        document = engine.admin.export("w")
        searched("the export", json.dumps(document, ensure_ascii=False).encode())
        for row in engine.executions():
            searched("explain", str(engine.explain(row.workflow_id)).encode())
            searched("history", repr(engine.history(row.workflow_id)).encode())
            searched("get", repr(engine.get(row.workflow_id)).encode())
        assert engine.admin.check() == []
        found = engine.search("status = FAILED", free_text="w*")
        searched("what a search finds", repr(found).encode())
        engine.admin.archive(mourners[0].workflow_id)
        searched("what is archived", repr(engine.get(mourners[0].workflow_id)).encode())
        assert any((tmp_path / "payloads").rglob("*"))
        with backend.reading() as view:
            known: Any = index or view.feeds.index()
            documents = [document for workflow_id in known.known("", 99) for document in known.documents(workflow_id)]
        assert len(documents) > len(statuses)
        searched("the index", repr(documents).encode())
        searched("the open store", written())
    searched("the store", written())
    searched("the log", caplog.text.encode())
    searched("the terminal", "".join(capsys.readouterr()).encode())
    replay(json.dumps(document))


def _resolved() -> dict[str, Any]:
    return {**INPUT, "token": 'cAnArY7f3e-"quoted"\\back/+&=% ü end', "port": 987654321}


def _by_hand(engine: Engine, backend: Backend, vault: Vault) -> None:
    """A task polled, reported on in part and completed by hand; the last report comes to another engine."""
    (task,) = engine.poll("by_hand", worker_id="hand")
    searched("the task as it is printed", repr(task).encode())
    assert task.input_data["token"] == _resolved()["token"]
    stored = engine.update_task(
        _report(task, TaskStatus.IN_PROGRESS, callback_after_ms=0, logs=["x " + task.input_data["text"], LONG[:30]])
    )
    assert stored.status is TaskStatus.SCHEDULED
    (task,) = engine.poll("by_hand")
    engine.tasks.log(task, json.dumps(task.input_data))
    engine.tasks.log(engine.tasks.get(task.task_id), task.input_data["token"])
    # Another process knows the attempt from the store only.
    asked = len(vault.asked)
    foreign = Engine(backend, clock=engine.clock, secrets=vault)
    foreign.update_task(_report(task, TaskStatus.COMPLETED, logs=[LONG]))
    assert len(vault.asked) > asked
    late = engine.update_task(_report(task, TaskStatus.FAILED))
    assert late.status is TaskStatus.COMPLETED
    engine.tasks.log(task, LONG)


def _report(task: Task, status: TaskStatus, **fields: Any) -> TaskResult:
    return TaskResult(
        workflow_id=task.workflow_id,
        task_id=task.task_id,
        status=status,
        output_data=leaks(task.input_data),
        reason=f"of {task.input_data['text']}",
        traceback=repr(task.input_data),
        **fields,
    )


def test_the_search_finds_what_is_there(tmp_path: Path) -> None:
    """The same workflow, with the values in its input instead of names, is full of them: the search is no pretence."""
    with Engine(tmp_path / "store.db", clock=VirtualClock(0)) as engine:
        engine.start(WorkflowDef.from_json(child("child")), {"n": _resolved(), "long": LONG})
        data = (tmp_path / "store.db-wal").read_bytes()
    assert sum(piece in data for piece in PIECES) >= 3
