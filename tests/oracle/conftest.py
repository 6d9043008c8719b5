"""What tests of random lives print."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Iterator[list[str]]:
    """Lines to print past pytest's capture."""
    lines: list[str] = []
    yield lines
    with capsys.disabled():
        print("\n" + "\n".join(lines))
