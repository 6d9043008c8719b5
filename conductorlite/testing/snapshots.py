"""Histories kept as readable files beside the tests: the fixture `workflow_snapshot`."""

from __future__ import annotations

import difflib
import hashlib
import re
from typing import Any

import pytest

from conductorlite.runtime.engine import Run
from conductorlite.testing.steps import timeline

__all__ = ["WorkflowSnapshot"]


class WorkflowSnapshot:
    """Compares the timeline of an execution, with inputs and outputs, with the file of a test; or writes the file.

    The file is the same whichever store the test is on. Called several times in a test, each has a file of its own.
    """

    def __init__(self, test: pytest.Function, *, update: bool) -> None:
        self._stem, self._folder = _stem(test), test.path.parent / "__snapshots__" / test.path.stem
        self._update, self._count = update, 0

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


def _stem(test: pytest.Function) -> str:
    """The name of its file: with its classes and its parameters, but for the store; with a hash where no file is called so."""
    spec = getattr(test, "callspec", None)
    given: list[str] = [] if spec is None else spec.id.split("-")
    store = None if spec is None else spec.params.get("engine_store")
    if store in given:
        given.remove(store)
    classes = [one.name for one in test.listchain() if isinstance(one, pytest.Class)]
    whole = "-".join([*classes, test.originalname, *given])
    plain = re.sub(r"[^\w.-]+", "-", whole)[:100].strip("-")
    return plain if plain == whole else f"{plain}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
