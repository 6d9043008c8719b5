"""Python source as a tree, made by one thread at a time.

Before Python 3.13 the interpreter counts the depth of the tree it makes for all threads together, and raises SystemError ("AST
constructor recursion depth mismatch", gh-106905) when two threads make one at once.
"""

from __future__ import annotations

import ast
from typing import Final

from conductorlite.model.threads import Mutex

__all__ = ["parse_expression", "parse_module"]

_PARSING: Final = Mutex()


def parse_module(text: str) -> ast.Module:
    """Parse the source of a module; raises SyntaxError, ValueError or RecursionError as `ast.parse` does."""
    with _PARSING.held():
        return ast.parse(text)


def parse_expression(text: str) -> ast.expr:
    """Parse the source of one expression; raises as `parse_module` does."""
    with _PARSING.held():
        return ast.parse(text, mode="eval").body
