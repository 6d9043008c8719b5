"""Payloads on a server of the S3 API that is slow, answers 500, throttles and breaks answers off: the contract, and executions."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from faulty import proxy
from places import url_of

from conductorlite import Barriers, Engine, EngineConfig, Workers, WorkflowDef
from conductorlite.decide.changeset.reader import Bounds
from conductorlite.errors import PayloadUnavailable
from conductorlite.ext.fsspec import FsspecPayloads
from conductorlite.store.ports import PayloadStorage
from conductorlite.testing.conformance.payloads import PayloadStorageConformance

KEY = f"ab/{'ab' * 32}.json"
EVERY = ("slow", "some error", "some throttled", "some cut")


#: Tries of the client, where what is looked at is not that it gives up: of several at once one may have bad luck.
PATIENT = {"config_kwargs": {"retries": {"mode": "standard", "total_max_attempts": 8}}}


class Server:
    """A bucket behind a server that does what it is told."""

    def __init__(self, faults: Path, endpoint: str) -> None:
        self.faults = faults
        self.options = {"key": "u", "secret": "s", "client_kwargs": {"endpoint_url": endpoint, "region_name": "eu-west-1"}}
        self.bucket = f"bucket-{uuid.uuid4().hex}"
        self.storage()._fs.mkdir(self.bucket)

    def does(self, words: str) -> None:
        """What goes wrong from now on: words of `faulty`, none for nothing."""
        self.faults.write_text(words)

    def storage(self, **options: Any) -> FsspecPayloads:
        """An empty folder."""
        return FsspecPayloads(f"s3://{self.bucket}/{uuid.uuid4().hex}", **self.options, **options)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """It, for all tests."""
    place = urlsplit(url_of("s3"))
    assert place.port is not None
    faults = tmp_path_factory.mktemp("s3") / "faults"
    server = proxy(0, place.port, faults)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield Server(faults, f"http://127.0.0.1:{server.server_address[1]}")
    server.shutdown()
    server.server_close()


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    """It, and nothing goes wrong before or after."""
    yield running
    running.does("")


class TestUnderFaults(PayloadStorageConformance):
    """The contract, whatever happens to some requests."""

    @pytest.fixture(params=EVERY)
    def storage(self, request: pytest.FixtureRequest, server: Server) -> PayloadStorage:
        """An empty folder."""
        server.does(request.param)
        return server.storage(**PATIENT)


@pytest.mark.parametrize("words", ["error", "throttled"])
def test_a_server_that_answers_nobody(server: Server, words: str) -> None:
    """Each request ends with one error by name, not with what was there before, and nothing is lost."""
    bucket = server.storage()
    bucket.put(KEY, b"before")
    server.does(words)
    for ask in (lambda: bucket.get(KEY), lambda: bucket.put(KEY, b"after"), lambda: bucket.size(KEY), lambda: list(bucket.list())):
        with pytest.raises(PayloadUnavailable, match="s3://bucket-"):
            ask()
    server.does("")
    assert bucket.get(KEY) == b"before"


LARGE = WorkflowDef.from_json(
    {
        "name": "large",
        "tasks": [{"name": "grow", "taskReferenceName": "grow", "inputParameters": {"x": "${workflow.input.x}"}}],
        "outputParameters": {"x": "${grow.output.x}"},
    }
)


@pytest.mark.parametrize("words", ["error", "throttled", "slow", "some cut"])
def test_an_execution_waits_for_its_payloads(tmp_path: Path, server: Server, words: str) -> None:
    """What cannot be stored is kept, and stored when the server is back; each task is carried out once."""
    called = list[int]()
    workers = Workers()

    @workers.task("grow")
    def grow(x: int) -> dict[str, str]:
        called.append(x)
        if len(called) == 3:  # while its result is stored
            server.does(words)
            threading.Timer(3, server.does, ("",)).start()
        return {"x": f"{x}" * 3_000}

    low = Barriers(task_output_payload_size_threshold=1, workflow_output_payload_size_threshold=1)
    with Engine(
        tmp_path / "s.db", workers=workers, payloads=server.storage(), config=EngineConfig(bounds=Bounds(barriers=low))
    ) as engine:
        runs = [engine.start(LARGE, {"x": n}) for n in range(5)]
        assert [run.result("60s") for run in runs] == [{"x": f"{n}" * 3_000} for n in range(5)]
        assert sorted(called) == [0, 1, 2, 3, 4]
        assert engine.admin.check() == []
