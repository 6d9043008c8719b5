"""What ARCHITECTURE.md says is somewhere is there: each name of its table of questions is defined in the linked file."""

from __future__ import annotations

import ast
import re

from pages import ROOT

ARCHITECTURE = ROOT / "ARCHITECTURE.md"

_LINK = re.compile(r"((?:`\w+`(?:, )?)*)(?: in )?\[[^\]]+\]\((conductorlite/[\w/]+\.py)\)")


def answers() -> list[tuple[str, str]]:
    """(name, file) of each answer."""
    table = ARCHITECTURE.read_text(encoding="utf-8").partition("## Where is …?")[2].partition("\n## ")[0]
    rows = [row.split(" | ")[1] for row in table.splitlines() if row.startswith("| ")][1:]
    return [(name, file) for row in rows for names, file in _LINK.findall(row) for name in re.findall(r"`(\w+)`", names) or [""]]


def defined(file: str) -> set[str]:
    """Names of functions, methods, classes and constants of a module."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def test_each_answer_is_where_it_is_said_to_be() -> None:
    """Six questions, each with a file and a name that is defined in it."""
    found = answers()
    assert len({file for _, file in found}) >= 7
    assert {"retry_delay", "admission", "apply", "OPERATOR_TYPES"} <= {name for name, _ in found}
    assert [(name, file) for name, file in found if not (ROOT / file).is_file() or (name and name not in defined(file))] == []
