"""The source of a flow's function, with its positions, and errors that show a place in it.

The whole file is parsed, so that lines and columns are the file's. What was parsed is compiled again and compared with the code
that runs: a file that was saved after the import would otherwise be compiled in place of the function that the program has.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import types
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, TypeAlias

import attrs

from conductorlite.flows.reading.values import nodes_of
from conductorlite.model.errors import BuildError
from conductorlite.model.syntax import parse_module

__all__ = ["FunctionNode", "Source", "source_of"]

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

#: By these names pytest marks functions whose `assert` statements it has rewritten.
_REWRITTEN: Final = frozenset({"@pytest_ar", "@py_builtins"})


@attrs.frozen(slots=True, eq=False)
class Source:
    """The source of one flow: its file, the lines of that file, and the function in it."""

    flow: str
    file: str
    lines: tuple[str, ...]
    function: FunctionNode
    #: All nodes of the function, in the order of the text.
    nodes: tuple[ast.AST, ...] = attrs.field(init=False, repr=False)

    @nodes.default
    def _nodes(self) -> tuple[ast.AST, ...]:
        return tuple(nodes_of(self.function))

    def text(self, node: ast.AST) -> str:
        """The text of a node as it is written; of one that was made, as Python writes it."""
        return ast.get_source_segment("".join(self.lines), node) or ast.unparse(node)

    def error(self, node: ast.AST, problem: str) -> BuildError:
        """The error that shows a node: file, line, the text with a caret below it, and the problem with what to write instead."""
        line = getattr(node, "lineno", self.function.lineno)
        first = getattr(node, "col_offset", 0)
        text = self.lines[line - 1].rstrip("\n") if line <= len(self.lines) else ""
        indent = len(text) - len(text.lstrip())
        raw = text.encode()
        last = getattr(node, "end_col_offset", None) if getattr(node, "end_lineno", line) == line else len(raw)
        start = len(raw[:first].decode(errors="replace"))
        end = max(start + 1, len(raw[: last or first + 1].decode(errors="replace")))
        shown = f"    {text[indent:]}\n    {' ' * (start - indent)}{'^' * (end - start)}"
        return BuildError(f"{self.flow}: {problem}\n  file {self.file!r}, line {line}\n{shown}")


def source_of(flow: str, function: Callable[..., Any]) -> Source | None:
    """The source of a flow's function; None where there is none. Raises BuildError when the file has changed since the import."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType):
        return None
    file = inspect.getsourcefile(code) or code.co_filename
    lines = tuple(linecache.getlines(file, getattr(function, "__globals__", None)))
    if not lines:
        return None
    found = _functions("".join(lines), file)
    if found is None and not file.endswith(".py"):  # a text that is no module, of which a part was carried out
        return None
    if found is None:
        raise BuildError(f"{flow}: {_CHANGED.format(file=file)}")
    node, compiled = found.get((code.co_firstlineno, code.co_name), (None, None))
    if node is None or compiled is None or not _alike(code, compiled):
        raise BuildError(f"{flow}: {_CHANGED.format(file=file)}")
    return Source(flow, file, lines, node)


_CHANGED: Final = "the file {file!r} changed since import: the flow is read from it, so start the program again"


@lru_cache(maxsize=64)
def _functions(text: str, file: str) -> dict[tuple[int, str], tuple[FunctionNode, types.CodeType]] | None:
    """The functions of a file by first line and name, each with the code it is compiled to; None where it is no Python."""
    try:
        tree = parse_module(text)
        whole = compile(tree, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    codes = {(code.co_firstlineno, code.co_name): code for code in _codes(whole)}
    found: dict[tuple[int, str], tuple[FunctionNode, types.CodeType]] = {}
    for node in nodes_of(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            decorators = getattr(node, "decorator_list", [])
            key = (min([node.lineno, *(one.lineno for one in decorators)]), getattr(node, "name", "<lambda>"))
            if key in codes:
                found[key] = (node, codes[key])
    return found


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes(constant)


def _alike(one: types.CodeType, other: types.CodeType) -> bool:
    """Return True if two codes do the same; those of functions within them are compared too."""
    if _REWRITTEN & set(one.co_names):
        return one.co_varnames[: one.co_argcount] == other.co_varnames[: other.co_argcount]
    if (one.co_code, one.co_names, one.co_varnames) != (other.co_code, other.co_names, other.co_varnames):
        return False
    if len(one.co_consts) != len(other.co_consts):
        return False
    return all(
        _alike(mine, there)
        if isinstance(mine, types.CodeType) and isinstance(there, types.CodeType)
        else type(mine) is type(there) and repr(mine) == repr(there)
        for mine, there in zip(one.co_consts, other.co_consts, strict=True)
    )
