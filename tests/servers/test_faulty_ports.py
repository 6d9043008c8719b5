"""Servers whose port hangs, refuses, or passes no answer on: stores and locks in PostgreSQL, payload storages on S3."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from faulty_port import Fault, FaultyPort, until
from places import url_of

from conductorlite import Engine, EngineConfig, Workers, WorkflowDef, WorkflowStatus
from conductorlite.errors import LockUnavailable, PayloadUnavailable, StorageUnavailable
from conductorlite.ext.fsspec import FsspecPayloads

CHAIN = WorkflowDef.from_json({"name": "chain", "tasks": [{"name": "a", "taskReferenceName": f"a{n}"} for n in range(3)]})

#: Faults in which nothing comes; `slow` is none for a store, which has no other server.
SILENT = ["hangs", "refuses", "half-open", "ends"]


def nothing() -> dict[str, object]:
    """Returns at once."""
    return {}


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[str], int]:
    """How many warnings hold a text."""
    caplog.set_level(logging.WARNING, logger="conductorlite")
    return lambda text: sum(text in message for message in caplog.messages)


@pytest.fixture
def port(postgres_url: str) -> Iterator[FaultyPort]:
    """A port before the server."""
    split = urlsplit(postgres_url)
    made = FaultyPort(split.hostname or "127.0.0.1", split.port or 5432)
    yield made
    made.close()


def through(port: FaultyPort, postgres_url: str, **options: object) -> str:
    """The server's URL by way of the port, in a schema of its own."""
    split = urlsplit(postgres_url)
    user = f"{split.username}@" if split.username else ""
    given = {"schema": f"t{uuid.uuid4().hex[:12]}", "answer_timeout_ms": 200, "connect_timeout": 2, **options}
    return split._replace(
        netloc=f"{user}127.0.0.1:{port.port}", query="&".join(f"{name}={value}" for name, value in given.items())
    ).geturl()


@pytest.mark.parametrize("fault", SILENT)
def test_a_verb_on_a_store_that_does_not_answer_ends(postgres_url: str, port: FaultyPort, fault: Fault) -> None:
    """With an error that says so; the next one works when the server answers again, and nothing is lost."""
    with Engine(through(port, postgres_url)) as engine:
        engine.start(CHAIN, workflow_id="before")
        port.set(fault)
        with pytest.raises(StorageUnavailable):
            engine.start(CHAIN, workflow_id="meanwhile")
        port.set("none")
        assert engine.get("before").status is WorkflowStatus.RUNNING
        engine.start(CHAIN, workflow_id="after")
        assert engine.admin.check() == []


@pytest.mark.parametrize("fault", SILENT)
def test_a_driver_waits_for_a_store_that_does_not_answer(
    postgres_url: str, port: FaultyPort, fault: Fault, logged: Callable[[str], int]
) -> None:
    """It logs that, and when it is over, and carries everything out."""
    workers, called, answered = Workers(), threading.Event(), threading.Event()

    @workers.task("a")
    def a() -> None:
        called.set()
        answered.wait(30)

    with Engine(through(port, postgres_url), workers=workers) as engine:
        run = engine.start(CHAIN)
        thread = threading.Thread(target=engine.run_forever)
        thread.start()
        try:
            assert called.wait(30)
            port.set(fault)
            answered.set()
            until(30, lambda: logged("the driver waits for the store"))
            port.set("none")
            until(30, lambda: logged("the store can be used again"))
            assert run.result("30s") == {}
        finally:
            answered.set()
            port.set("none")
            engine.stop()
            thread.join()
        assert engine.admin.check() == []


@pytest.mark.parametrize("fault", SILENT)
def test_a_store_that_is_not_there_at_open_is_an_error(postgres_url: str, port: FaultyPort, fault: Fault) -> None:
    """There is nothing to go on with."""
    port.set(fault)
    with pytest.raises(StorageUnavailable):
        Engine(through(port, postgres_url))


@pytest.mark.parametrize("fault", SILENT)
def test_turns_go_on_without_a_lock_that_does_not_answer(
    postgres_url: str, port: FaultyPort, fault: Fault, logged: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the fence, after one that has waited for its bound; also when the lock was not there at open."""
    monkeypatch.setattr("conductorlite.engine.turn_lock._FIRST_S", 0.05)
    workers = Workers()
    workers.add("a", nothing)
    url = through(port, postgres_url)
    for number in (1, 2):
        with Engine(lock=url, workers=workers) as engine:
            engine.start(CHAIN).result("30s")
            port.set(fault)
            for _ in range(3):
                engine.start(CHAIN).result("30s")
            assert logged("the lock cannot be used") == 2 * number - 1
            port.set("none")
            until(30, lambda number=number: logged("the lock can be used again") == 2 * number - 1)
        port.set(fault)
        with Engine(lock=url, workers=workers) as engine:
            assert logged("the lock cannot be used") == 2 * number
            engine.start(CHAIN).result("30s")
            port.set("none")
            until(30, lambda number=number: logged("the lock can be used again") == 2 * number)
    port.set(fault)
    with pytest.raises(LockUnavailable):
        Engine(lock=url, config=EngineConfig(lock_required=True))


@pytest.mark.parametrize("fault", SILENT)
def test_a_payload_storage_that_does_not_answer_is_unavailable(fault: Fault) -> None:
    """After its bound, here two seconds; nothing is half written, and it works when the server answers again."""
    place = urlsplit(url_of("s3"))
    port = FaultyPort(place.hostname or "127.0.0.1", place.port or 80)
    bounds = {"connect_timeout": 1, "read_timeout": 1, "retries": {"mode": "standard", "total_max_attempts": 1}}
    client = {"endpoint_url": f"http://127.0.0.1:{port.port}", "region_name": "eu-west-1"}
    bucket = f"bucket-{uuid.uuid4().hex}"
    storage = FsspecPayloads(f"s3://{bucket}/x", timeout=2, key="u", secret="s", client_kwargs=client, config_kwargs=bounds)
    storage._fs.mkdir(bucket)
    storage.put("before", b"1")
    port.set(fault)
    for act in (lambda: storage.put("meanwhile", b"2"), lambda: storage.get("before"), lambda: storage.size("before")):
        with pytest.raises(PayloadUnavailable):
            act()
    port.set("none")
    assert storage.get("before") == b"1"
    assert {one.key for one in storage.list()} <= {"before", "meanwhile"}
    storage.put("meanwhile", b"2")
    assert storage.get("meanwhile") == b"2"
    port.close()
