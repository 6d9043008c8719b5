"""A plugin of pytest for runs in a copy: it writes down how long each test took, and lets Hypothesis shrink nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import Phase, settings

_seconds: dict[str, float] = {}


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """After the profile of the suite is chosen: a mutant is killed by a failure, which need not be a small one."""
    settings.register_profile("mutation", settings.default, phases=(Phase.explicit, Phase.generate), database=None)
    settings.load_profile("mutation")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """With workers, the process that leads them hears of every test."""
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where they are wanted, and nobody else tells."""
    path = os.environ.get("MUTATION_SECONDS")
    if path and not hasattr(session.config, "workerinput"):
        Path(path).write_text(json.dumps(_seconds), encoding="utf-8")
