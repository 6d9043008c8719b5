"""Each transition of a row is stated in one place: no other function of `decide` writes the fields of one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import PACKAGE

DECIDE = PACKAGE / "decide"

#: Fields that a transition of a row writes.
FIELDS = frozenset({"lease", "holder", "worker_id", "poll_count", "response_timeout_at", "started_at", "ended_at"})

#: Methods of a changeset that write fields of rows by the names of their arguments.
WRITERS = frozenset({"change", "close", "create", "create_ended", "put"})


def assigned(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The fields that a module assigns: as attributes, as keywords of what writes rows, and by name through `setattr`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in FIELDS:
            yield node.lineno, node.attr
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in WRITERS or name in ("changed", "evolve"):
            yield from ((node.lineno, keyword.arg) for keyword in node.keywords if keyword.arg in FIELDS)
        if name == "setattr" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and node.args[1].value in FIELDS:
            yield node.lineno, str(node.args[1].value)


def keys(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The same as keys of mappings, which could be given to what writes rows; an event about a limit names a holder too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key in node.keys:
                if isinstance(key, ast.Constant) and key.value in FIELDS - {"holder"}:
                    yield node.lineno, str(key.value)


@pytest.mark.parametrize("path", sorted(DECIDE.rglob("*.py")), ids=lambda path: str(path.relative_to(DECIDE)))
def test_only_transitions_write_what_a_transition_writes(path: Path) -> None:
    """No function of `decide` outside `transitions` assigns a lease, a holder, a worker, a beginning or an end."""
    found = [*assigned(tree := ast.parse(path.read_text())), *keys(tree)]
    if path.name == "transitions.py":
        assert {field for _, field in found} >= FIELDS
    else:
        assert not found, f"{path}: state it in decide/transitions.py: {found}"


@pytest.mark.parametrize(
    "text",
    [
        "row.lease = 1",
        "row.poll_count += 1",
        "row.worker_id, row.holder = 1, 2",
        "changeset.put(task, lease=0)",
        "changed(row, ended_at=1)",
        'fields = {"started_at": 0}',
        'setattr(row, "holder", None)',
    ],
)
def test_each_way_to_write_a_field_is_seen(text: str) -> None:
    """The check sees an assignment however it is written."""
    tree = ast.parse(text)
    assert [*assigned(tree), *keys(tree)]
