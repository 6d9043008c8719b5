"""Types this release reads, validates and writes, and refuses to start by name."""

from __future__ import annotations

from make import J


def refused() -> list[J]:
    """One definition per way to use such a type: at present there is none."""
    return []
