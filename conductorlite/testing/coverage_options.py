"""`pytest --workflow-cov`: counting in each process of a run, merging, and the reports at its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from conductorlite.testing.coverage import WorkflowCoverage

__all__ = ["CoverageRun"]

#: Under which name a process of pytest-xdist hands over what it has counted.
_NAME: Final = "conductorlite_workflow_coverage"

#: Where it is kept between runs, in the folder that pytest was started for.
_FILE: Final = ".workflow-coverage.json"


class CoverageRun:
    """A plugin that is there only with `--workflow-cov`."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._path = Path(config.rootpath) / _FILE
        self.coverage = WorkflowCoverage()
        self.coverage.begin()

    @property
    def _worker(self) -> bool:
        return hasattr(self._config, "workeroutput")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a process of pytest-xdist has counted."""
        self.coverage.merge(getattr(node, "workeroutput", {}).get(_NAME, {}))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand over what was counted, or save it; a run below the floor has failed."""
        self.coverage.end()
        if self._worker:
            getattr(self._config, "workeroutput")[_NAME] = self.coverage.data()  # noqa: B009 - pytest-xdist's own attribute
            return
        if self._config.getoption("workflow_cov_append"):
            self.coverage.load(self._path)
            self.coverage.save(self._path)
        if self.coverage.percent < self._floor and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @property
    def _floor(self) -> float:
        return 0.0 if self._config.option.collectonly else float(self._config.getoption("workflow_cov_fail_under") or 0)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The report."""
        terminalreporter.section("workflow coverage")
        for line in self.coverage.lines():
            terminalreporter.write_line(line)
        page = self._config.getoption("workflow_cov_html")
        if page:
            Path(page).parent.mkdir(parents=True, exist_ok=True)
            Path(page).write_text(self.coverage.html(), encoding="utf-8")
            terminalreporter.write_line(f"page: {page}")
        if self.coverage.percent < self._floor:
            text = f"FAIL workflow coverage of {self.coverage.percent:.1f}% is below {self._floor:g}%"
            terminalreporter.write_line(text, red=True)
