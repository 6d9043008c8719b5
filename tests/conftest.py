"""Hypothesis profiles of the whole suite: few examples by default, many with `sh tests/run deep` or HYPOTHESIS_PROFILE=deep.
And where the files of tests lie: in memory, where there is room."""

from __future__ import annotations

import os
import shutil
import tempfile

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
