"""The three storages keep the contract; what is their own: lasting files, signed locations, a codec, what is missing."""

from __future__ import annotations

import base64
import http.client
import os
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from payload_kit import KB, Bench, flow, simple, sized

from conductorlite import Barriers, Engine, EngineConfig, VirtualClock
from conductorlite.decide.changeset.reader import Bounds
from conductorlite.errors import InvalidInput, MissingExtra, PayloadLost, PayloadUnavailable
from conductorlite.ext.fsspec import FsspecPayloads
from conductorlite.store.payloads import LocalPayloads, MemoryPayloads, open_payloads
from conductorlite.store.ports import PayloadStorage
from conductorlite.testing.conformance.payloads import PayloadStorageConformance

BIG = sized(3 * KB)
KEY = f"ab/{'ab' * 32}.json"


class TestMemory(PayloadStorageConformance):
    """In memory."""

    @pytest.fixture
    def storage(self) -> PayloadStorage:
        """An empty one."""
        return MemoryPayloads()


class TestFolder(PayloadStorageConformance):
    """In a folder."""

    @pytest.fixture
    def storage(self, tmp_path: Path) -> PayloadStorage:
        """A folder that is not there yet."""
        return LocalPayloads(tmp_path / "not" / "there")


class TestS3(PayloadStorageConformance):
    """On a server that speaks S3."""

    @pytest.fixture
    def storage(self, s3: Callable[[], PayloadStorage]) -> PayloadStorage:
        """An empty bucket."""
        return s3()


# ---------------------------------------------------------------------- their own


def asked(method: str, uri: str, body: bytes | None = None) -> tuple[int, bytes]:
    """Status and body of an answer to a request without any header of ours, as a signature wants it."""
    parts = urlsplit(uri)
    connection = http.client.HTTPConnection(parts.netloc)
    try:
        connection.request(method, f"{parts.path}?{parts.query}", body=body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_signed_locations(s3: Callable[[], PayloadStorage]) -> None:
    """On S3 a location is signed for its operation: whoever has it can write or read that object, without a key."""
    storage = s3()
    written = storage.location("WRITE", KEY)
    assert "Signature=" in written.uri
    assert asked("PUT", written.uri, b"by somebody") == (200, b"")
    assert storage.get(KEY) == b"by somebody"
    assert asked("GET", storage.location("READ", KEY).uri) == (200, b"by somebody")


def test_locations_by_the_engine(new_bench: Any, storage: PayloadStorage) -> None:
    """The engine tells the location of a payload by the path that its JSON shows."""
    bench: Bench = new_bench(storage)
    bench.start(flow(simple("a")), BIG)
    external = bench.workflow.input.external
    assert external is not None
    found = bench.engine.payloads.location(external.key)
    assert found.path == external.key
    assert found == storage.location("READ", external.key) or "Signature" in found.uri
    with pytest.raises(InvalidInput):
        bench.engine.payloads.location("../etc")
    with pytest.raises(InvalidInput):
        bench.engine.payloads.location(external.key, "DELETE")


def test_another_engine_reads_it_from_s3(tmp_path: Path, s3: Callable[[], PayloadStorage]) -> None:
    """What one process has put another one reads, which has its own connection to the server."""
    with Engine(
        tmp_path / "o.db",
        payloads=s3(),
        config=EngineConfig(bounds=Bounds(barriers=Barriers(workflow_input_payload_size_threshold=2))),
    ) as engine:
        storage = engine.core.turns.lookups.payload_store.storage
        assert isinstance(storage, FsspecPayloads)
        run = engine.start(flow(simple("a", input_parameters={"x": "${workflow.input.x}"})), BIG)
    with Engine(tmp_path / "o.db", payloads=storage) as engine:
        assert engine.get(run.workflow_id).input_data == BIG
        assert engine.poll("a")[0].input_data == BIG


def test_a_server_that_is_not_there() -> None:
    """A storage that cannot be reached says so, with its URL."""
    options = {"key": "u", "secret": "s", "client_kwargs": {"endpoint_url": "http://127.0.0.1:1"}}
    storage = FsspecPayloads("s3://nowhere/x", config_kwargs={"retries": {"max_attempts": 0}, "connect_timeout": 1}, **options)
    storage._fs.retries = 1
    for ask in (lambda: storage.get(KEY), lambda: storage.put(KEY, b""), lambda: list(storage.list())):
        with pytest.raises(PayloadUnavailable, match="s3://nowhere/x"):
            ask()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder that is a file, or is full of what is in the way, says so; nothing half-written stays."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PayloadUnavailable, match="cannot be written"):
        LocalPayloads(tmp_path / "file").put(KEY, b"x")
    storage = LocalPayloads(tmp_path / "p")
    (tmp_path / "p" / KEY).mkdir(parents=True)
    with pytest.raises(PayloadUnavailable, match="cannot be written"):
        storage.put(KEY, b"x")
    with pytest.raises(PayloadUnavailable, match="cannot be read"):
        storage.get(KEY)
    with pytest.raises(PayloadUnavailable, match="cannot be deleted"):
        storage.delete(KEY)
    assert list(storage.list()) == []


@pytest.mark.skipif(os.name == "nt", reason="folders cannot be flushed there")
def test_files_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is flushed before it is put in its place, and the folders with it afterwards."""
    flushed: list[str] = []
    fsync = os.fsync

    def watched(handle: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{handle}").readlink().name if Path("/proc/self/fd").exists() else "?")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", watched)
    LocalPayloads(tmp_path / "p").put(KEY, b"x")
    assert len(flushed) == 4  # two folders made, the file, the folder it was renamed in
    assert flushed[-1] in ("ab", "?")


def test_where_payloads_lie_by_default(tmp_path: Path) -> None:
    """Beside the database, in a folder of its name that is made when it is needed; of a store in memory, in memory."""
    with Engine(
        tmp_path / "orders.db", config=EngineConfig(bounds=Bounds(barriers=Barriers(workflow_input_payload_size_threshold=2)))
    ) as engine:
        engine.start(flow(simple("a")), {"small": True})
        assert not (tmp_path / "orders.db.payloads").exists()
        run = engine.start(flow(simple("a")), BIG)
        external = engine.get(run.workflow_id).input.external
        assert external is not None
        assert (tmp_path / "orders.db.payloads" / external.key).stat().st_size == 3 * KB
    with Engine() as engine:
        assert isinstance(engine.core.turns.lookups.payload_store.storage, MemoryPayloads)


def test_storages_by_name(tmp_path: Path) -> None:
    """A path is a folder, a URL what fsspec makes of it, a storage itself; what cannot be is refused when the engine is made."""
    assert isinstance(open_payloads(str(tmp_path)), LocalPayloads)
    assert isinstance(open_payloads(tmp_path), LocalPayloads)
    assert isinstance(open_payloads("memory://x"), FsspecPayloads)
    held = MemoryPayloads()
    assert open_payloads(held) is held
    for url in ("nonsense://x", f"file://{tmp_path}"):
        with pytest.raises(InvalidInput, match="payload storage"):
            Engine(payloads=url)


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without fsspec a URL says what to install, when the engine is made."""
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingExtra, match=r"conductorlite\[payload\]"):
        Engine(payloads="s3://bucket/x")


# ---------------------------------------------------------------------- codecs


class Keyed:
    """A codec with keys: text that is compressed, and mixed with the key. It knows the keys it was given."""

    def __init__(self, *keys: str) -> None:
        self.key_id = keys[-1]
        self.keys = keys

    def encode(self, data: bytes) -> bytes:
        """Compressed, then mixed with the newest key."""
        return base64.b64encode(self.key_id.encode() + zlib.compress(data))

    def decode(self, data: bytes, key_id: str) -> bytes:
        """The way back with the key of then."""
        if key_id not in self.keys:
            raise PayloadUnavailable(f"the key {key_id!r} is not here")
        head, rest = base64.b64decode(data)[: len(key_id)], base64.b64decode(data)[len(key_id) :]
        assert head.decode() == key_id
        return zlib.decompress(rest)


def engine_of(path: Path, codec: Keyed | None) -> Engine:
    """An engine with a codec."""
    barriers = Barriers(workflow_input_payload_size_threshold=2, task_output_payload_size_threshold=2)
    return Engine(path / "o.db", clock=VirtualClock(0), config=EngineConfig(payload_codec=codec, bounds=Bounds(barriers=barriers)))


def test_a_codec_and_its_keys(tmp_path: Path) -> None:
    """What is stored is encoded; a new key is used for what comes, the old one still read; without a key no engine is opened."""
    with engine_of(tmp_path, Keyed("2025")) as engine:
        first = engine.start(flow(simple("a", input_parameters={"x": "${workflow.input.x}"}), simple("b")), BIG).workflow_id
        external = engine.get(first).input.external
        assert external is not None
        assert external.key.endswith(".json.2025")
        assert b"aaaa" not in (tmp_path / "o.db.payloads" / external.key).read_bytes()
    with engine_of(tmp_path, Keyed("2025", "2026")) as engine:
        second = engine.start(flow(simple("z")), BIG).workflow_id
        external = engine.get(second).input.external
        assert external is not None
        assert external.key.endswith(".json.2026")
        assert [engine.get(one).input_data for one in (first, second)] == [BIG, BIG]
        assert engine.payloads.sweep(0).deleted == 0
    for codec in (None, Keyed("2026")):
        with pytest.raises(PayloadUnavailable, match="2025"):
            engine_of(tmp_path, codec)
    with engine_of(tmp_path, Keyed("2025", "2026")) as engine:
        engine.advance("1m")
        task = engine.poll("a")[0]
        assert task.input_data == BIG
        path = next((tmp_path / "o.db.payloads").rglob("*.2025"))
        path.write_bytes(b"nonsense")
        with pytest.raises(PayloadLost, match="cannot be decoded"):
            _ = engine.get(first).input_data


class _Untold(Exception):
    """An error that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_a_codec_that_fails_without_a_text(tmp_path: Path) -> None:
    """Whatever a codec raises ends in an error of ours that names its type."""

    class Broken(Keyed):
        """Decodes nothing."""

        def decode(self, data: bytes, key_id: str) -> bytes:
            """Fail."""
            raise _Untold

    with engine_of(tmp_path, Keyed("2025")) as engine:
        engine.start(flow(simple("a")), BIG)
    with pytest.raises(PayloadUnavailable, match="_Untold: <_Untold without a text>"):
        engine_of(tmp_path, Broken("2025"))


def test_a_codec_without_a_name() -> None:
    """A key id that cannot stand in a key is refused."""
    for key_id in ("", "a/b", "a.b", "x" * 65):
        with pytest.raises(InvalidInput, match="key_id"):
            Engine(config=EngineConfig(payload_codec=Keyed(key_id)))
