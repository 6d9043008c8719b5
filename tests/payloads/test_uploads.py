"""The client's flow: a location is asked for, a document is uploaded there, and its path is reported in place of the document."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import attrs
import pytest
from payload_kit import SMALL, Bench, bytes_of, flow, simple, sized
from test_storages import asked

from conductorlite import (
    Barriers,
    Engine,
    EngineConfig,
    IdempotencyStrategy,
    InvalidDefinition,
    Task,
    TaskResult,
    TaskStatus,
    VirtualClock,
    WorkflowDef,
    WorkflowSchedule,
)
from conductorlite.decide.changeset.reader import Bounds
from conductorlite.errors import ExecutionNotFound, InvalidInput, KeyTaken, PayloadTooLarge, PayloadUnavailable, StaleLease
from conductorlite.model.documents import task_to_json, workflow_to_json
from conductorlite.runtime.aio import AsyncEngine
from conductorlite.store.payloads import LocalPayloads, MemoryPayloads
from conductorlite.store.ports import PayloadStorage
from conductorlite.store.tables import ExternalStorageLocation
from conductorlite.testing import ScriptedWorkers, crash_everywhere, replay

NewBench = Callable[..., Bench]

FLOW = flow(
    simple("a", input_parameters={"x": "${workflow.input.x}"}),
    simple("b", input_parameters={"x": "${a.output.x}"}),
    output_parameters={"x": "${b.input.x}"},
)

#: One store for what depends on the storage alone.
ON_MEMORY = pytest.mark.parametrize("store", ["memory"], indirect=True)
ON_SQLITE = pytest.mark.parametrize("store", ["sqlite"], indirect=True)

#: Within the barriers, past the soft one, and past the hard one of 4 KB.
SIZES = {"small": 300, "large": 3_000}


def upload(bench: Bench, payload_type: str, document: Any) -> str:
    """Ask for a location, write there as a client does who has nothing but its URI, and return the path to report."""
    found = bench.engine.payloads.location("", "WRITE", payload_type)
    write(bench.storage, found, document if isinstance(document, bytes) else json.dumps(document, indent=1).encode())
    return found.path


def write(storage: PayloadStorage, found: ExternalStorageLocation, data: bytes) -> None:
    """Write bytes to a URI."""
    parts = urlsplit(found.uri)
    if parts.scheme == "file":
        Path(unquote(parts.path)).write_bytes(data)
    elif parts.scheme == "memory":
        storage.put(found.path, data)
    else:
        assert asked("PUT", found.uri, data)[0] == 200


def by_path(bench: Bench, task: Task, path: Any, status: str = "COMPLETED", **fields: Any) -> Task:
    """Report the path of an output."""
    return bench.report(task, None, status, external_output_payload_storage_path=path, **fields)


# ---------------------------------------------------------------------- the flow


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_the_flow(new_bench: NewBench, storage: PayloadStorage, size: int) -> None:
    """An input and an output that are uploaded are treated as if they had been given, whatever their size, in all JSON."""
    bench = new_bench(storage)
    document = sized(size)
    bench.start(FLOW, external_input_payload_storage_path=upload(bench, "WORKFLOW_INPUT", document))
    taken = bench.take("a")
    assert taken.input_data == document
    output = sized(size, "y") | {"x": 1}
    by_path(bench, taken, upload(bench, "TASK_OUTPUT", output))
    assert bench.take("b").input_data == {"x": 1}

    row, task = bench.workflow, bench.task("a")
    assert (row.input_data, task.output_data) == (document, output)
    shown, of_task = workflow_to_json(row), task_to_json(task, row)
    if size > 2 * 1024:
        assert shown["input"] == of_task["outputData"] == {}
        for key, whole in (
            (shown["externalInputPayloadStoragePath"], document),
            (of_task["externalOutputPayloadStoragePath"], output),
        ):
            assert json.loads(storage.get(key)) == whole
            assert key == bench.engine.payloads.location(key).path
    else:
        assert (shown["input"], of_task["outputData"]) == (document, output)
        assert "externalInputPayloadStoragePath" not in shown
        assert "externalOutputPayloadStoragePath" not in of_task


def test_the_same_history(new_bench: NewBench, tmp_path: Path) -> None:
    """An execution by uploads has the history of one by documents, and its export is replayed like any other."""
    bench = new_bench(MemoryPayloads())
    document, output = sized(3_000), sized(2_500, "y")
    histories, exports = [], []
    for uploads in (False, True):
        if uploads:
            bench.start(FLOW, external_input_payload_storage_path=upload(bench, "WORKFLOW_INPUT", document), workflow_id="two")
            by_path(bench, bench.take("a"), upload(bench, "TASK_OUTPUT", output))
        else:
            bench.start(FLOW, document, workflow_id="one")
            bench.do("a", output)
        bench.do("b")
        history = bench.engine.history(bench.workflow_id)
        histories.append([(event.kind, event.ref, event.status, event.payload) for event in history])
        exports.append(bench.engine.admin.export(bench.workflow_id))
    assert histories[0] == histories[1]
    replayed = replay(json.dumps(exports[1]))
    assert replayed.engine.get("two").task("a").output_data == output
    assert replayed.lines == len(histories[1])


@ON_MEMORY
def test_with_a_codec(new_bench: NewBench, storage: PayloadStorage) -> None:
    """An upload is read as the client wrote it, and encoded when it is stored."""

    class Backwards:
        key_id = "k1"

        def encode(self, data: bytes) -> bytes:
            return data[::-1]

        def decode(self, data: bytes, key_id: str) -> bytes:
            return data[::-1]

    bench = new_bench(storage, payload_codec=Backwards())
    document = sized(3_000)
    bench.start(FLOW, external_input_payload_storage_path=upload(bench, "WORKFLOW_INPUT", document))
    external = bench.workflow.input.external
    assert external is not None
    assert external.key.endswith(".json.k1")
    assert json.loads(storage.get(external.key)[::-1]) == document
    assert bench.workflow.input_data == document


@ON_SQLITE
def test_an_upload_cannot_be_changed_once_it_is_reported(new_bench: NewBench, storage: PayloadStorage) -> None:
    """What was reported is kept: whoever writes to the URI again, or deletes the object, changes nothing."""
    bench = new_bench(storage)
    path = upload(bench, "WORKFLOW_INPUT", sized(3_000))
    bench.start(FLOW, external_input_payload_storage_path=path)
    write(bench.storage, bench.engine.payloads.location(path, "WRITE", "WORKFLOW_INPUT"), b"{}")
    storage.delete(path)
    assert bench.workflow.input_data == bench.take("a").input_data == sized(3_000)


def test_again(new_bench: NewBench) -> None:
    """Whoever did not hear the answer reports again: the key gives the execution, a late report changes nothing."""
    bench = new_bench(MemoryPayloads())
    path = upload(bench, "WORKFLOW_INPUT", {"x": 1})
    options: dict[str, Any] = {"external_input_payload_storage_path": path, "idempotency_key": "k"}
    first = bench.start(FLOW, **options)
    bench.storage.delete(path)
    again = bench.engine.start(FLOW, idempotency_strategy=IdempotencyStrategy.RETURN_EXISTING, **options)
    assert again.workflow_id == first.workflow_id
    with pytest.raises(KeyTaken):
        bench.engine.start(FLOW, **options)
    task = bench.take("a")
    output = upload(bench, "TASK_OUTPUT", {"x": 2})
    by_path(bench, task, output)
    bench.storage.delete(output)
    assert by_path(bench, task, output).output_data == {"x": 2}


def test_in_progress_and_failed(new_bench: NewBench) -> None:
    """Any report may carry the path of its output; a blank one is none."""
    bench = new_bench(MemoryPayloads())
    bench.start(FLOW, external_input_payload_storage_path=" ")
    task = bench.take("a")
    assert by_path(bench, task, upload(bench, "TASK_OUTPUT", {"x": 1}), "IN_PROGRESS").output_data == {"x": 1}
    assert by_path(bench, bench.take("a"), "", "FAILED", reason="no").output_data == {}


def test_a_round_that_is_kept_no_longer(new_bench: NewBench) -> None:
    """The report that ends a round which its loop drops answers with the uploaded output."""
    loop = {
        "name": "l",
        "taskReferenceName": "l",
        "type": "DO_WHILE",
        "loopCondition": "$.l.iteration < 3",
        "inputParameters": {"keepLastN": 1},
        "loopOver": [{"name": "a", "taskReferenceName": "a"}],
    }
    bench = new_bench(MemoryPayloads())
    bench.start(WorkflowDef.from_json({"name": "loop", "tasks": [loop]}))
    for number in range(3):
        assert by_path(bench, bench.take("a"), upload(bench, "TASK_OUTPUT", {"x": number})).output_data == {"x": number}


def test_awaited(tmp_path: Path) -> None:
    """The asynchronous engine has the same flow."""
    storage = MemoryPayloads()

    async def life() -> None:
        async with AsyncEngine(tmp_path / "o.db", payloads=storage, clock=VirtualClock(0)) as engine:
            found = await engine.payloads.location("", "WRITE", "WORKFLOW_INPUT")
            storage.put(found.path, b'{"x": 7}')
            run = await engine.start(FLOW, external_input_payload_storage_path=found.path)
            other = (await engine.start(FLOW, external_input_payload_storage_path=found.path)).workflow_id
            for workflow_id in (run.workflow_id, other):
                assert (await engine.get(workflow_id)).input_data == {"x": 7}

    asyncio.run(life())


# ---------------------------------------------------------------------- locations


def test_locations(new_bench: NewBench, storage: PayloadStorage) -> None:
    """Each upload has a path of its own, in the folder of its type; nothing that is stored can be overwritten."""
    bench = new_bench(storage)
    ask = bench.engine.payloads.location
    kinds = {
        "WORKFLOW_INPUT": "workflow/input/",
        "WORKFLOW_OUTPUT": "workflow/output/",
        "TASK_INPUT": "task/input/",
        "TASK_OUTPUT": "task/output/",
    }
    found = [ask("", "WRITE", kind) for kind in [*kinds, *kinds]]
    assert [one.path[: one.path.rindex("/") + 1] for one in found] == [*kinds.values(), *kinds.values()]
    assert len({one.path for one in found}) == len(found)
    assert ask(found[3].path, "WRITE", "TASK_OUTPUT").path == found[3].path

    bench.start(FLOW, sized(3_000))
    external = bench.workflow.input.external
    assert external is not None
    for path in (external.key, found[0].path, "task/output/x.json", "../x", "/etc/passwd"):
        with pytest.raises(InvalidInput, match="no path of an upload"):
            ask(path, "WRITE", "TASK_OUTPUT")
    for operation, kind in (("WRITE", None), ("WRITE", "OUTPUT"), ("READ", "OUTPUT"), ("DELETE", "TASK_OUTPUT")):
        with pytest.raises(InvalidInput):
            ask("", operation, kind)


# ---------------------------------------------------------------------- hostile paths


def hostile(bench: Bench) -> dict[str, str]:
    """Paths that are refused as an input and as an output, by what the error says."""
    bench.start(flow(simple("z")), sized(3_000, "secret"))
    external = bench.workflow.input.external
    assert external is not None
    paths = (external.key, "../x.json", "/etc/passwd", "task/output/../../x", "a\0b", "x" * 9_999)
    return dict.fromkeys(paths, "no path of an upload")


@ON_MEMORY
@pytest.mark.parametrize(
    ("storage", "place"),
    [("memory", "WORKFLOW_INPUT"), ("memory", "TASK_OUTPUT"), ("folder", "WORKFLOW_INPUT"), ("s3", "TASK_OUTPUT")],
    indirect=["storage"],
)
def test_what_is_refused(new_bench: NewBench, storage: PayloadStorage, place: str) -> None:
    """Whatever is wrong with a path or what lies there is said, nothing is changed, and a good report follows."""
    bench = new_bench(storage)
    other = {"WORKFLOW_INPUT": "TASK_OUTPUT", "TASK_OUTPUT": "WORKFLOW_INPUT"}[place]
    never = bench.engine.payloads.location("", "WRITE", place).path
    cases = {
        **hostile(bench),
        upload(bench, other, {}): "no path of an upload",
        never: "is missing",
        never.replace(never[-6], "g"): "no path of an upload",
        upload(bench, place, b""): "broken JSON",
        upload(bench, place, b'{"a": '): "broken JSON",
        upload(bench, place, b'{"a": "\x80"}'): "not UTF-8",
        upload(bench, place, b'{"a": NaN}'): "NaN",
        upload(bench, place, b'{"a": "\\ud800"}'): "surrogate",
        upload(bench, place, b'{"a":' + b"[" * 300 + b"]" * 300 + b"}"): "nested",
        upload(bench, place, [1]): "JSON object, not list",
        upload(bench, place, b"null"): "JSON object, not NoneType",
    }
    bench.start(FLOW, {"x": 1}, workflow_id="victim")
    task = bench.take("a")
    before = (bench.workflow, bench.keys())

    def report(path: str) -> object:
        if place == "WORKFLOW_INPUT":
            return bench.start(FLOW, external_input_payload_storage_path=path)
        return by_path(bench, task, path)

    for path, said in cases.items():
        with pytest.raises(InvalidInput, match=said) as caught:
            report(path)
        assert "secret" not in str(caught.value)
    assert (bench.workflow, bench.keys()) == before
    assert len(bench.engine.executions(limit=9)) == 2
    if place == "TASK_OUTPUT":
        assert by_path(bench, task, upload(bench, place, {"x": 2})).output_data == {"x": 2}
    else:
        bench.start(FLOW, external_input_payload_storage_path=upload(bench, place, {"x": 2}))
        assert bench.workflow.input_data == {"x": 2}


@ON_SQLITE
def test_past_the_hard_barrier(new_bench: NewBench, storage: PayloadStorage) -> None:
    """What is uploaded past the hard barrier is refused as if it were given: the start is, and the attempt fails for good."""
    bench = new_bench(storage)
    document = sized(4_097)
    assert bytes_of(document) == 4_097
    with pytest.raises(PayloadTooLarge, match="has 4097 bytes, more than the 4096 bytes"):
        bench.start(FLOW, external_input_payload_storage_path=upload(bench, "WORKFLOW_INPUT", document))
    assert bench.engine.executions() == []
    bench.start(FLOW, {"x": 1})
    ended = by_path(bench, bench.take("a"), upload(bench, "TASK_OUTPUT", document))
    assert (ended.status, ended.output_data) == ("FAILED_WITH_TERMINAL_ERROR", {})
    assert "has 4097 bytes, more than the 4096 bytes" in str(ended.reason)
    assert bench.workflow.status == "FAILED"


@ON_MEMORY
def test_past_what_is_read(new_bench: NewBench, storage: PayloadStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object that no barrier lets pass is not even fetched, and changes nothing."""
    monkeypatch.setattr("conductorlite.engine.payloads.MAX_SIZE", 9_000)
    bench = new_bench(storage)
    paths = {kind: upload(bench, kind, b" " * 9_001) for kind in ("WORKFLOW_INPUT", "TASK_OUTPUT")}
    bench.start(FLOW, {"x": 1})
    task = bench.take("a")
    monkeypatch.setattr(type(storage), "get", lambda *_: pytest.fail("it was fetched"))
    with pytest.raises(PayloadTooLarge, match="has 9001 bytes"):
        bench.engine.start(FLOW, external_input_payload_storage_path=paths["WORKFLOW_INPUT"])
    with pytest.raises(PayloadTooLarge, match=r"task 'a': .* has 9001 bytes"):
        by_path(bench, task, paths["TASK_OUTPUT"])
    assert bench.task("a").status == "IN_PROGRESS"


@pytest.mark.parametrize("both", [{"x": 1}, [1], None], ids=str)
def test_a_document_and_a_path(new_bench: NewBench, both: Any) -> None:
    """Who gives a document and the path of one has lost count: neither is taken, and nothing is changed."""
    bench = new_bench(MemoryPayloads())
    path = upload(bench, "TASK_OUTPUT", {"x": 2})
    bench.start(FLOW, {"x": 1})
    task = bench.take("a")
    with pytest.raises(InvalidInput, match="not both"):
        bench.engine.start(FLOW, {"x": 1}, external_input_payload_storage_path=path)
    result = TaskResult(
        workflow_id=task.workflow_id,
        task_id=task.task_id,
        status=TaskStatus.COMPLETED,
        output_data=both,
        external_output_payload_storage_path=path,
    )
    with pytest.raises(InvalidInput, match="not both"):
        bench.engine.update_task(result)
    assert bench.task("a").status == "IN_PROGRESS"


@pytest.mark.parametrize("path", [7, b"x", ["x"], {}], ids=str)
def test_a_path_that_is_no_text(new_bench: NewBench, path: Any) -> None:
    """A path is a text."""
    bench = new_bench(MemoryPayloads())
    bench.start(FLOW, {"x": 1})
    with pytest.raises(InvalidInput, match="is a text"):
        by_path(bench, bench.take("a"), path)
    with pytest.raises(InvalidInput, match="is a text"):
        bench.engine.start(FLOW, external_input_payload_storage_path=path)


def test_an_old_lease(new_bench: NewBench) -> None:
    """An upload by somebody whose lease is over is refused like any report of his."""
    bench = new_bench(MemoryPayloads())
    bench.start(flow(simple("a")), {"x": 1})
    late = bench.take("a")
    bench.report(late, None, "IN_PROGRESS")
    bench.take("a")
    with pytest.raises(StaleLease):
        by_path(bench, late, upload(bench, "TASK_OUTPUT", {"x": 2}))
    assert bench.task("a").output_data == {}


def test_links_lead_nowhere(new_bench: NewBench, tmp_path: Path) -> None:
    """In a folder, a link, a pipe or a folder in the place of an upload is no upload: nothing outside is read."""
    bench = new_bench(LocalPayloads(tmp_path / "payloads"))
    (tmp_path / "private.json").write_text('{"password": 1}')
    inside = upload(bench, "TASK_OUTPUT", {"of": "another"})
    places = [bench.engine.payloads.location("", "WRITE", "WORKFLOW_INPUT").path for _ in range(4)]
    folder = tmp_path / "payloads"
    (folder / places[0]).symlink_to(tmp_path / "private.json")
    (folder / places[1]).symlink_to(folder / inside)
    (folder / places[2]).mkdir()
    (folder / places[3]).symlink_to(tmp_path / "nowhere")
    for path in places:
        with pytest.raises(InvalidInput, match="is missing"):
            bench.engine.start(FLOW, external_input_payload_storage_path=path)
    (folder / "task" / "output").rename(folder / "moved")
    (folder / "task" / "output").symlink_to(folder / "moved")
    bench.start(FLOW, {"x": 1})
    with pytest.raises(InvalidInput, match="is missing"):
        by_path(bench, bench.take("a"), inside)


def test_a_storage_that_cannot_be_reached(new_bench: NewBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the storage is down nothing is changed, whatever it raises; the same report is taken afterwards."""
    bench = new_bench(MemoryPayloads())
    path = upload(bench, "TASK_OUTPUT", {"x": 2})
    bench.start(FLOW, {"x": 1})
    task = bench.take("a")

    def fail(*_: object) -> bytes:
        raise OSError("down")

    with monkeypatch.context() as down:
        down.setattr(MemoryPayloads, "get", fail)
        with pytest.raises(PayloadUnavailable, match="down"):
            by_path(bench, task, path)
    assert bench.task("a").status == "IN_PROGRESS"
    assert by_path(bench, task, path).status == "COMPLETED"


def test_start_workflow_reads_no_path(new_bench: NewBench) -> None:
    """A START_WORKFLOW task that names the path of an upload fails with the reason, rather than start without an input."""
    request = {"name": "flow", "externalInputPayloadStoragePath": "workflow/input/x.json"}
    bench = new_bench(MemoryPayloads())
    bench.engine.register(FLOW)
    task = {"name": "s", "taskReferenceName": "s", "type": "START_WORKFLOW", "inputParameters": {"startWorkflow": request}}
    bench.start(WorkflowDef.from_json({"name": "outer", "tasks": [task]}))
    bench.engine.settle()
    assert bench.task("s").status == "FAILED"
    assert "externalInputPayloadStoragePath is not read" in str(bench.task("s").reason)


def test_schedules_read_no_path(new_bench: NewBench) -> None:
    """A schedule that names the path of an upload is refused when it is saved: the upload would be swept under it."""
    request = {"name": "flow", "externalInputPayloadStoragePath": "workflow/input/x.json"}
    document = {"name": "s", "intervalSeconds": 60, "startWorkflowRequest": request}
    bench = new_bench(MemoryPayloads())
    bench.engine.register(FLOW)
    with pytest.raises(InvalidDefinition, match="externalInputPayloadStoragePath: is not read here"):
        bench.engine.schedules.save(WorkflowSchedule.from_json(document))
    request["externalInputPayloadStoragePath"] = " "
    bench.engine.schedules.save(WorkflowSchedule.from_json(document))


# ---------------------------------------------------------------------- swept


def test_uploads_are_swept(new_bench: NewBench, storage: PayloadStorage) -> None:
    """An upload goes when its grace time is over, reported or not; what was reported stays, what nobody knows of goes later."""
    bench = new_bench(storage)
    reported, forgotten = (upload(bench, "WORKFLOW_INPUT", sized(3_000, key)) for key in ("x", "y"))
    bench.start(FLOW, external_input_payload_storage_path=reported)
    bench.engine.advance("23h")
    renewed = bench.engine.payloads.location(forgotten, "WRITE", "WORKFLOW_INPUT").path
    assert renewed == forgotten
    assert bench.engine.payloads.sweep().deleted == 0
    bench.engine.advance("1h")
    assert bench.engine.payloads.sweep().deleted == 1
    kept = bench.keys()
    assert (reported in kept, forgotten in kept) == (False, True)
    bench.engine.advance("1d")
    assert bench.engine.payloads.sweep().deleted == 1
    external = bench.workflow.input.external
    assert external is not None
    assert bench.keys() == [external.key]
    assert bench.workflow.input_data == sized(3_000)
    # Written by a client with an old URI, after its note was swept.
    storage.put(forgotten, b"{}")
    assert bench.engine.payloads.sweep().found == 1
    bench.engine.advance("1d")
    assert bench.engine.payloads.sweep().deleted == 1


def test_on_the_system_clock(tmp_path: Path) -> None:
    """The flow needs no virtual time, and another process may take what one has given out."""
    barriers = Barriers(**SMALL)
    with Engine(tmp_path / "o.db", config=EngineConfig(bounds=Bounds(barriers=barriers))) as engine:
        found = engine.payloads.location("", "WRITE", "WORKFLOW_INPUT")
        Path(unquote(urlsplit(found.uri).path)).write_text(json.dumps(sized(3_000)))
    with Engine(tmp_path / "o.db", config=EngineConfig(bounds=Bounds(barriers=barriers))) as engine:
        run = engine.start(FLOW, external_input_payload_storage_path=found.path)
        assert engine.poll("a")[0].input_data == sized(3_000)
        assert engine.get(run.workflow_id).input.external is not None


@pytest.mark.parametrize(
    ("kind", "every"),
    [
        ("memory", 5),
        *(pytest.param(kind, 3, marks=pytest.mark.slow) for kind in ("relay", "sqlite")),
        *(pytest.param(kind, 1, marks=pytest.mark.deep) for kind in ("memory", "relay", "sqlite")),
    ],
)
def test_a_crash_at_every_write(kind: str, every: int) -> None:
    """Killed before and after each write, a start and a report by path end as they would have; the upload is swept once."""
    document = sized(SIZES["large"])

    def put(engine: Engine, payload_type: str, number: int) -> str:
        folder = payload_type.lower().replace("_", "/")
        found = engine.payloads.location(f"{folder}/{number:032x}.json", "WRITE", payload_type)
        storage = engine.core.turns.lookups.payload_store.storage
        assert storage is not None
        storage.put(found.path, json.dumps(document).encode())
        return found.path

    def scenario(engine: Engine) -> None:
        try:
            engine.get("w")
        except ExecutionNotFound:
            path = put(engine, "WORKFLOW_INPUT", 1)
            engine.start(FLOW, workflow_id="w", external_input_payload_storage_path=path)
        engine.settle()
        task = engine.get("w").task("a")
        if not task.status.terminal:
            path = put(engine, "TASK_OUTPUT", 2)
            said = TaskResult(workflow_id="w", task_id=task.task_id, status=TaskStatus.COMPLETED)
            engine.update_task(attrs.evolve(said, external_output_payload_storage_path=path))
        engine.run_until_idle()
        assert engine.get("w").output_data == document
        engine.payloads.sweep(0)
        storage = engine.core.turns.lookups.payload_store.storage
        assert storage is not None
        assert [one.key for one in storage.list() if one.key.startswith(("workflow/", "task/"))] == []

    def script(workers: ScriptedWorkers) -> None:
        workers["b"].returns({})

    assert (
        crash_everywhere(
            scenario, script, stores=[kind], every=every, config=EngineConfig(bounds=Bounds(barriers=Barriers(**SMALL)))
        )
        >= 10 // every
    )
