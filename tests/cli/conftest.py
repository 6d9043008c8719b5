"""A shell in an empty folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_kit import DEFINITIONS, WORKERS, Shell

pytest.importorskip("click")
pytest.importorskip("rich")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    """A shell in a folder with definitions and workers, and no database."""
    for name, document in DEFINITIONS.items():
        (tmp_path / name).write_text(json.dumps(document), encoding="utf-8")
    (tmp_path / "crew.py").write_text(WORKERS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield Shell(tmp_path, capsys)
    sys.modules.pop("crew", None)
