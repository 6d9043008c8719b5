"""Hypothesis profiles of the whole suite: few examples by default, many with `sh tests/run deep` or HYPOTHESIS_PROFILE=deep."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# Deadlines measure the machine, not the code. In CI the same examples are tried every time: a red run can be repeated.
settings.register_profile(
    "fast", deadline=None, max_examples=30, derandomize="CI" in os.environ, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("deep", settings.get_profile("fast"), derandomize=False, max_examples=500)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the profile before any test module is imported."""
    deep = config.getoption("markexpr", "").startswith("deep")
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "deep" if deep else "fast"))
