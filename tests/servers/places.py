"""Where the servers are that these tests need: URLs in the environment, which `tests/servers/run` sets."""

from __future__ import annotations

import os
import uuid

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


def own_schema(url: str) -> str:
    """The URL of a store that no other test has."""
    return f"{url}?schema=test_{uuid.uuid4().hex[:16]}"


def dropped(url: str) -> None:
    """Remove the store at such a URL."""
    import psycopg

    place, _, schema = url.partition("?schema=")
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
