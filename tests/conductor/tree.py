"""The definitions in a checkout of Conductor, which is no part of this project: registered on both sides, and driven."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cases import Case


def definitions(checkout: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every workflow definition in its JSON files, with where it is."""
    for path in sorted(checkout.rglob("*.json")):
        if "node_modules" in path.parts:
            continue
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, UnicodeDecodeError):
            continue
        for place, each in _within(document, ""):
            yield f"{path.relative_to(checkout)}{place}", each


def _within(document: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(document, Mapping):
        if isinstance(document.get("tasks"), list) and "name" in document and "workflowId" not in document:
            yield place, dict(document)
            return
        for name, value in document.items():
            yield from _within(value, f"{place}.{name}")
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield from _within(value, f"{place}[{index}]")


def cases(checkout: Path) -> list[Case]:
    """Each registered as it is written but for its name, started with nothing, and driven for a while."""
    return [
        Case(
            name=f"tree/{where}",
            workflows=[
                {**definition, "name": f"§{definition['name']}", "ownerEmail": definition.get("ownerEmail") or "a@example.org"}
            ],
            steps=[],
        )
        for where, definition in definitions(checkout)
    ]
