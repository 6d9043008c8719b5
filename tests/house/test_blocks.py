"""A block of the store ends wherever it is interrupted: no generator of `contextlib` holds one.

An interruption between two frames leaves such a generator suspended, with the store locked, until nobody keeps the exception. A
block around another one is a `conductorlite.model.threads.Enclosing`; `tests/interrupts/test_clean_up.py` shows what it is for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from house import PACKAGE, named, nodes_of, python_files

#: What opens a block of the store, or has another function open it.
OPENS = frozenset({"reading", "writing", "transaction", "joined", "opened"})


def _around(node: ast.AST) -> Iterator[ast.With]:
    """Blocks in a function that stand around a `yield` of it."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.With) and any(isinstance(one, ast.Yield) for one in ast.walk(inner)):
            yield inner


def _opens(block: ast.With) -> bool:
    names = [node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for i in block.items for node in ast.walk(i)]
    return not OPENS.isdisjoint(names)


def test_no_generator_holds_a_block_of_the_store() -> None:
    """Each function that `contextmanager` makes a block of is looked at."""
    looked, found = 0, []
    for room in ("engine", "runtime", "store", "ext", "server"):
        for path in python_files(PACKAGE / room):
            for node in nodes_of(path):
                if isinstance(node, ast.FunctionDef) and "contextmanager" in [
                    getattr(one, "id", "") for one in node.decorator_list
                ]:
                    looked += 1
                    found += [f"{named(path)}:{node.lineno} {node.name}" for block in _around(node) if _opens(block)]
    assert found == []
    assert looked > 5
