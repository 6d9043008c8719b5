"""Tests of payloads run on two backends and three storages: memory, a folder, S3 (a server of the S3 API on this machine)."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from payload_kit import Bench

from conductorlite.ext.fsspec import FsspecPayloads
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.payloads import LocalPayloads, MemoryPayloads
from conductorlite.store.ports import Backend, PayloadStorage
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing.faults import lay_empty_store

NewBench = Callable[..., Bench]

_BUCKETS = itertools.count(1)


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """Address of a server that speaks S3, for as long as the tests run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the server's own imports
        from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(s3_endpoint: str) -> Callable[[], FsspecPayloads]:
    """Opens the storage of this test in a bucket of its own."""
    options = {"key": "user", "secret": "secret", "client_kwargs": {"endpoint_url": s3_endpoint, "region_name": "eu-west-1"}}
    bucket = f"bucket-{next(_BUCKETS)}"

    def make() -> FsspecPayloads:
        storage = FsspecPayloads(f"s3://{bucket}/orders", signed_seconds=60, use_listings_cache=False, **options)
        if not storage._fs.exists(bucket):
            storage._fs.mkdir(bucket)
        return storage

    return make


@pytest.fixture(params=["memory", "folder", pytest.param("s3", marks=pytest.mark.slow)])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> PayloadStorage:
    """An empty storage of each kind."""
    if request.param == "memory":
        return MemoryPayloads()
    if request.param == "folder":
        return LocalPayloads(tmp_path / "payloads")
    return request.getfixturevalue("s3")()


@pytest.fixture(params=["memory", pytest.param("memory-relay", marks=pytest.mark.slow), "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """An empty store of each kind."""
    if request.param == "sqlite":
        return SQLiteBackend(lay_empty_store(tmp_path / "orders.db"), synchronous="NORMAL")
    return MemoryBackend(relay=request.param == "memory-relay")


@pytest.fixture
def new_bench(store: Backend, request: pytest.FixtureRequest) -> Iterator[NewBench]:
    """Makes benches on the store, which must be healthy when the test ends, but for documents that a module loses on purpose."""
    benches: list[Bench] = []

    def make(storage: PayloadStorage | None = None, **options: Any) -> Bench:
        benches.append(Bench(store, storage, **options))
        return benches[-1]

    yield make
    findings = benches[-1].engine.admin.check()
    for bench in benches:
        bench.engine.close()
    on_purpose = {"documents_are_stored"} if getattr(request.module, "LOSES_DOCUMENTS", False) else set()
    assert [finding for finding in findings if finding.law not in on_purpose] == []
