"""A server that is killed under load keeps what it acknowledged; `kill_serve.py` kills it as often as one likes."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("uvicorn")

from kill_serve import killed


@pytest.mark.slow
def test_what_was_acknowledged_is_there(tmp_path: Path) -> None:
    """Two kills: every execution and report that a client was told of is in the store, and all can be finished."""
    kept, wrongs = killed(tmp_path / "store.db", kills=2, clients=2, seed=1)
    assert wrongs == []
    assert min(len(kept.started), len(kept.reported)) > 0
