"""Where the servers are that these tests need: URLs in the environment, which `tests/servers/run` sets; else they are skipped."""

from __future__ import annotations

import os

import pytest

#: By server: the variable that has its URL.
VARIABLES = {
    "postgres": "CONDUCTORLITE_TEST_POSTGRES",
    "redis": "CONDUCTORLITE_TEST_REDIS",
    "zookeeper": "CONDUCTORLITE_TEST_ZOOKEEPER",
}


def url_of(server: str) -> str:
    """The URL of a server; skips the test when there is none."""
    variable = VARIABLES[server]
    url = os.environ.get(variable)
    if not url:
        pytest.skip(f"{variable} names no server: see tests/servers/run")
    return url


@pytest.fixture
def redis_url() -> str:
    """Three Redis servers."""
    return url_of("redis")


@pytest.fixture
def zookeeper_url() -> str:
    """A ZooKeeper server."""
    return url_of("zookeeper")
