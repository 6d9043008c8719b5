"""Servers for the tests of this room; each test that needs one is skipped where there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from places import dropped, own_schema, url_of


@pytest.fixture
def postgres_url() -> str:
    """A database of PostgreSQL."""
    return url_of("postgres")


@pytest.fixture
def url(postgres_url: str) -> Iterator[str]:
    """The URL of an empty store in PostgreSQL."""
    url = own_schema(postgres_url)
    yield url
    dropped(url)


@pytest.fixture
def redis_url() -> str:
    """Three Redis servers."""
    return url_of("redis")


@pytest.fixture
def cassandra_url() -> str:
    """A cluster of Cassandra: one node."""
    return url_of("cassandra")


@pytest.fixture
def zookeeper_url() -> str:
    """A ZooKeeper server."""
    return url_of("zookeeper")
