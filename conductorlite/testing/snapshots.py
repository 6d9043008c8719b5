"""Histories kept as readable files beside the tests: the fixture `workflow_snapshot`."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any

from conductorlite.runtime.engine import Run
from conductorlite.testing.steps import timeline

__all__ = ["WorkflowSnapshot"]


class WorkflowSnapshot:
    """Compares the timeline of an execution, with inputs and outputs, with the file of a test; or writes the file.

    The file is the same whichever store the test is on. Called several times in a test, each has a file of its own.
    """

    def __init__(self, test: str, folder: Path, *, update: bool) -> None:
        bare = re.sub(r"\b(memory|relay|sqlite)\b-?|\[\]", "", test).replace("[]", "")
        self._stem = re.sub(r"[^\w.-]+", "-", bare).strip("-")
        self._folder, self._update, self._count = folder, update, 0

    def __call__(self, run: Run[Any]) -> None:
        """Raises AssertionError with the difference, or when there is no file yet."""
        self._count += 1
        path = self._folder / f"{self._stem}{'' if self._count == 1 else f'-{self._count}'}.txt"
        found = timeline(run._engine, run.workflow_id, payloads=True) + "\n"
        if self._update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(found, encoding="utf-8")
            return
        if not path.exists():
            raise AssertionError(f"there is no snapshot {path}; run pytest with --workflow-snapshot-update")
        wanted = path.read_text(encoding="utf-8")
        if wanted != found:
            lines = difflib.unified_diff(wanted.splitlines(), found.splitlines(), str(path), "now", lineterm="", n=3)
            text = "run pytest with --workflow-snapshot-update if this is what is wanted"
            raise AssertionError("\n".join(["the history differs from its snapshot", *lines, "", text]))
