"""The step in Python: `conductorlite worker --url http://127.0.0.1:8400/api --workers quote:workers`."""

from __future__ import annotations

from conductorlite import Workers

workers = Workers()


@workers.task("quote")
def quote(nights: int) -> dict[str, int]:
    """What so many nights cost."""
    return {"price": 80 * nights}
