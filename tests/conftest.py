"""Hypothesis profiles of the whole suite: few examples by default, many with `sh tests/run deep` or HYPOTHESIS_PROFILE=deep.
Where the files of tests lie: in memory, where there is room. And which cases of a test are tried in SQLite at once."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

# Deadlines measure the machine, not the code. In CI the same examples are tried every time: a red run can be repeated.
settings.register_profile(
    "fast", deadline=None, max_examples=20, derandomize="CI" in os.environ, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("deep", settings.get_profile("fast"), derandomize=False, max_examples=500)

_MEMORY, _ROOM = "/dev/shm", 2_000_000_000


def pytest_configure(config: pytest.Config) -> None:
    """Choose the profile before any test module is imported, and the folder before any file is made."""
    deep = config.getoption("markexpr", "").startswith("deep")
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "deep" if deep else "fast"))
    # What a disk may lose is the subject of tests/power, on a disk of its own making. Set TMPDIR to have the files elsewhere.
    if "TMPDIR" not in os.environ and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = _MEMORY


#: Rooms whose tests run on every kind of store: what they look at lies above it.
_ON_EVERY_STORE = {"engine", "index", "payloads", "schemas", "secrecy", "traps"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each case of a test runs in memory, the first and every third also in SQLite; the others of SQLite are slow.

    That memory and SQLite do the same is shown by tests/oracle and the conformance suite of tests/backends.
    """
    seen: Counter[str] = Counter()
    for item in items:
        case = getattr(item, "callspec", None)
        if case is None or item.path.parent.name not in _ON_EVERY_STORE or "sqlite" not in case.params.values():
            continue
        test = item.nodeid.partition("[")[0]
        if len(case.params) > 1 and seen[test] % 3 and item.get_closest_marker("deep") is None:
            item.add_marker(pytest.mark.slow)
        seen[test] += 1
