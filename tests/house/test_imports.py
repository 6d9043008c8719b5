"""Importing the package is cheap and does nothing."""

from __future__ import annotations

import json
import subprocess
import sys

#: Not imported before they are used: 80 ms and more, each, on a cold start.
LATER = (
    "sqlite3", "sqlite_utils", "apscheduler", "cattrs", "hypothesis", "pytest", "_pytest", "asyncio",
    "concurrent.futures", "http.client", "conductorlite.testing", "click", "rich",
    "opentelemetry", "starlette", "uvicorn",
    "httpx", "conductorlite.ext.http", "conductorlite.ext.workers", "psycopg", "redis", "kazoo",
)  # fmt: skip

_LOOK = """
import json, sys, threading
import {module}
print(json.dumps([sorted(sys.modules), [thread.name for thread in threading.enumerate()]]))
"""


def _after_importing(module: str) -> tuple[set[str], list[str]]:
    program = _LOOK.format(module=module)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules, threads = json.loads(done.stdout)
    return set(modules), threads


def test_import_brings_in_no_third_party_that_is_not_needed_yet() -> None:
    """`import conductorlite` imports no storage, codec or scheduling library, and no test kit."""
    modules, _ = _after_importing("conductorlite")
    assert sorted(set(LATER) & modules) == []


def test_import_starts_no_thread() -> None:
    """There is one thread before and after the import."""
    _, threads = _after_importing("conductorlite")
    assert threads == ["MainThread"]


def test_an_engine_in_memory_never_imports_a_database() -> None:
    """Starting and running a workflow in memory needs neither sqlite3 nor sqlite_utils, and starts no thread."""
    modules, threads = _after_importing(
        "conductorlite as c; engine = c.Engine(clock=c.VirtualClock()); "
        "task = c.WorkflowTask(name='n', task_reference_name='n', type='NOOP'); "
        "engine.start(c.WorkflowDef(name='w', tasks=[task])).result()"
    )
    assert sorted({"sqlite3", "sqlite_utils", "apscheduler", "psycopg", "redis", "kazoo"} & modules) == []
    assert threads == ["MainThread"]
