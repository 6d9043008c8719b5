"""Servers for the tests of this room; each test that needs one is skipped where there is none."""

from __future__ import annotations

import pytest
from places import url_of


@pytest.fixture
def postgres_url() -> str:
    """A database of PostgreSQL."""
    return url_of("postgres")


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
