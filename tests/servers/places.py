"""Where the servers are that these tests need: URLs in the environment, which `tests/servers/run` sets."""

from __future__ import annotations

import atexit
import hashlib
import os
import uuid
from pathlib import Path

import pytest

from conductorlite.store.ports import Backend
from conductorlite.testing.faults import Store

#: By server: the variable that has its URL.
VARIABLES = {
    "postgres": "CONDUCTORLITE_TEST_POSTGRES",
    "redis": "CONDUCTORLITE_TEST_REDIS",
    "zookeeper": "CONDUCTORLITE_TEST_ZOOKEEPER",
    "cassandra": "CONDUCTORLITE_TEST_CASSANDRA",
    "elasticsearch": "CONDUCTORLITE_TEST_ELASTICSEARCH",
    "elasticsearch7": "CONDUCTORLITE_TEST_ELASTICSEARCH7",
    "opensearch": "CONDUCTORLITE_TEST_OPENSEARCH",
    "s3": "CONDUCTORLITE_TEST_S3",
    "rabbitmq": "CONDUCTORLITE_TEST_RABBITMQ",
}


_of_folders: set[str] = set()


def url_of(server: str) -> str:
    """The URL of a server; skips the test when there is none."""
    variable = VARIABLES[server]
    url = os.environ.get(variable)
    if not url:
        pytest.skip(f"{variable} names no server: see tests/servers/run")
    return url


def own_schema(url: str) -> str:
    """The URL of a store that no other test has."""
    return f"{url}?schema=test_{uuid.uuid4().hex[:16]}"


def store_of(folder: Path) -> Backend:
    """The store on the server of `CONDUCTORLITE_TEST_STORE` that belongs to a folder: removed when the tests end."""
    if os.environ["CONDUCTORLITE_TEST_STORE"].startswith("cassandra://"):
        return cassandra_of(folder)
    from conductorlite.ext.postgres import PostgresBackend

    url = f"{os.environ['CONDUCTORLITE_TEST_STORE']}?schema=test_{hashlib.sha256(str(folder).encode()).hexdigest()[:16]}"
    if url not in _of_folders:
        _of_folders.add(url)
        atexit.register(dropped, url)
    return PostgresBackend(url)


#: Queues of the stores in Cassandra, by the folder they belong to; the keyspace of each is its number modulo this.
_queues: dict[Path, tuple[int, Store]] = {}
_KEYSPACES = 4


def cassandra_of(folder: Path) -> Backend:
    """The store in Cassandra that belongs to a folder, its queue in memory; of one process, and four at a time."""
    from conductorlite.ext.cassandra.backend import SplitBackend
    from conductorlite.ext.cassandra.server import CassandraPartitions

    number, queue = _queues.get(folder) or (len(_queues) % _KEYSPACES, None)
    place = os.environ.get("CONDUCTORLITE_TEST_STORE") or os.environ[VARIABLES["cassandra"]]
    partitions = CassandraPartitions(f"{place}/test_{number}?timeout=20s")
    if queue is None:
        for table in ("workflows", "task_lookup", "definitions", "event_executions"):
            partitions._session.execute(f"TRUNCATE {table}", timeout=60)
        queue = Store("memory", lambda: folder)
    _queues[folder] = (number, queue)
    return SplitBackend(partitions, queue.open())


def dropped(url: str) -> None:
    """Remove the store at such a URL."""
    import psycopg

    place, _, schema = url.partition("?schema=")
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
