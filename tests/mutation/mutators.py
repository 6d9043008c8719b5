"""The mutation operators: what is changed in a syntax tree, as edits of the source text.

Each is a small mistake that somebody makes: a comparison the wrong way round or off by one, `and` for `or`, a `not` forgotten, a
statement or a call left out, two arguments swapped, a member of a table missing. Texts are left alone, save for SQL, where the
logic of a store lies. So are annotations, docstrings, decorators, `__all__`, and what an error says.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from typing import Final

import attrs

__all__ = ["Edit", "edits"]


@attrs.frozen(kw_only=True)
class Edit:
    """One change of a file: the operator's name, where it stands (lines from 1, columns in bytes), the new text."""

    operator: str
    start: tuple[int, int]
    end: tuple[int, int]
    text: str


_COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, tuple[str, ...]]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
_ARITHMETIC: Final[dict[type[ast.operator], tuple[str, str]]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "//"),
    ast.BitOr: ("|", "&"),
    ast.BitAnd: ("&", "|"),
}
_CALLS: Final = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "append": "appendleft",
    "appendleft": "append",
    "popleft": "pop",
    "startswith": "endswith",
    "endswith": "startswith",
    "bisect_left": "bisect_right",
    "bisect_right": "bisect_left",
    "add": "discard",
    "discard": "add",
    "union": "intersection",
}
_SQL: Final = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|WHERE|ORDER BY|CREATE|SET)\b")
_SQL_CHANGES: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"<="), "<"),
    (re.compile(r"(?<!<)>="), ">"),
    (re.compile(r"<(?![=>])"), "<="),
    (re.compile(r"(?<!<)>(?!=)"), ">="),
    (re.compile(r"<>|!="), "="),
    (re.compile(r" DESC\b"), ""),
    (re.compile(r"\bAND\b"), "OR"),
    (re.compile(r"\bIS NOT NULL\b"), "IS NULL"),
    (re.compile(r"\bIS NULL\b"), "IS NOT NULL"),
    (re.compile(r"\bNOT EXISTS\b"), "EXISTS"),
    (re.compile(r"(?<=ORDER BY )([a-z_.]+), ([a-z_.]+)"), r"\2, \1"),
    (re.compile(r"\b(\w+) = \1 \+ 1\b"), r"\1 = \1"),
    (re.compile(r"\bMAX\("), "MIN("),
    (re.compile(r"\bMIN\("), "MAX("),
    (re.compile(r"= ([01])\b"), lambda found: f"= {1 - int(found[1])}"),
)

Place = tuple[int, int]


def edits(source: str) -> Iterator[Edit]:
    """Every edit of a file that leaves it Python, each once."""
    seen: set[Edit] = set()
    for edit in _Walk(source).found():
        if edit not in seen:
            seen.add(edit)
            yield edit


class _Walk:
    def __init__(self, source: str) -> None:
        self._lines = source.encode().splitlines(keepends=True)
        self._tree = ast.parse(source)

    def found(self) -> Iterator[Edit]:
        for node in self._nodes(self._tree):
            for of in (self._expression, self._constant, self._statement, self._display, self._call, self._sql):
                yield from of(node)

    def _nodes(self, node: ast.AST) -> Iterator[ast.AST]:
        """Every node in which a mistake would be one of the program's."""
        if isinstance(node, ast.Raise):
            yield node
            return
        if isinstance(node, ast.Assign | ast.AnnAssign) and "__all__" in ast.unparse(node).split("=")[0]:
            return
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, ast.JoinedStr) and not _SQL.search(ast.unparse(node)):
            return
        yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params", "format_spec", "bases"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.Import | ast.ImportFrom) and not _is_text(child):
                    yield from self._nodes(child)

    def _text(self, start: Place, end: Place) -> str:
        (first, left), (last, right) = start, end
        if first == last:
            return self._lines[first - 1][left:right].decode()
        middle = self._lines[first : last - 1]
        return b"".join([self._lines[first - 1][left:], *middle, self._lines[last - 1][:right]]).decode()

    def _of(self, node: ast.AST) -> str:
        return self._text(*_span(node))

    def _between(self, operator: str, left: ast.AST, right: ast.AST, old: str, new: str) -> Iterator[Edit]:
        """Replaces the token between two operands."""
        start, end = _span(left)[1], _span(right)[0]
        text = self._text(start, end)
        pattern = re.escape(old).replace(r"\ ", r"\s+")
        pattern = rf"\b{pattern}\b" if old[0].isalpha() else pattern
        if len(re.findall(pattern, text)) == 1 and "#" not in text:
            yield Edit(operator=operator, start=start, end=end, text=re.sub(pattern, lambda _: new, text))

    def _whole(self, operator: str, node: ast.AST, text: str) -> Edit:
        start, end = _span(node)
        return Edit(operator=operator, start=start, end=end, text=text)

    def _expression(self, node: ast.AST) -> Iterator[Edit]:
        match node:
            case ast.Compare(left=left, ops=ops, comparators=others):
                for before, op, after in zip([left, *others], ops, others, strict=False):
                    old, new = _COMPARISONS[type(op)]
                    for one in new:
                        yield from self._between("comparison", before, after, old, one)
            case ast.BoolOp(op=op, values=values):
                old, new = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
                for before, after in itertools.pairwise(values):
                    yield from self._between("boolean", before, after, old, new)
                for one in values:
                    rest = [self._of(other) for other in values if other is not one]
                    text = f" {old} ".join(f"({part})" for part in rest) if len(rest) > 1 else rest[0]
                    yield self._whole("operand removed", node, text)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._whole("not removed", node, f"({self._of(operand)})")
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                yield self._whole("sign removed", node, self._of(operand))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                if not (_is_text(left) or _is_text(right)):
                    yield from self._between("arithmetic", left, right, *_ARITHMETIC[type(op)])
            case ast.IfExp(test=test, body=body, orelse=orelse):
                yield self._whole("branches swapped", node, f"{self._of(orelse)} if {self._of(test)} else {self._of(body)}")

    def _constant(self, node: ast.AST) -> Iterator[Edit]:
        match node:
            case ast.Constant(value=bool() as value):
                yield self._whole("constant", node, str(not value))
            case ast.Constant(value=int() as value):
                yield self._whole("constant", node, f"{value + 1}")
                yield self._whole("constant", node, f"{value - 1}" if value else "(-1)")
            case ast.comprehension(ifs=[_, *_] as ifs, iter=source):
                for one in ifs:
                    start, end = (_span(source)[1] if one is ifs[0] else _span(ifs[ifs.index(one) - 1])[1]), _span(one)[1]
                    yield Edit(operator="filter removed", start=start, end=end, text="")

    def _statement(self, node: ast.AST) -> Iterator[Edit]:
        match node:
            case ast.If(test=test) | ast.While(test=test):
                if not isinstance(test, ast.Compare | ast.Constant):
                    yield self._whole("condition negated", test, f"not ({self._of(test)})")
            case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Delete():
                yield self._whole("statement removed", node, "pass")
            case ast.Expr(value=ast.Yield() | ast.YieldFrom()):
                yield self._whole("statement removed", node, "yield from ()")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield self._whole("statement removed", node, "pass")
            case ast.Assign(targets=[ast.Name()], value=ast.Call() as value) if len(value.args) > 0:
                first = value.args[0]
                target = ast.unparse(node.targets[0])
                if isinstance(first, ast.Name) and first.id == target:
                    yield self._whole("statement removed", node, "pass")
            case ast.Return(value=ast.expr() as value):
                if not (isinstance(value, ast.Constant) and value.value is None):
                    yield self._whole("return value", value, "None")
            case ast.Return(value=None):
                yield self._whole("return removed", node, "pass")
            case ast.Break():
                yield self._whole("break and continue", node, "continue")
            case ast.Continue():
                yield self._whole("break and continue", node, "break")
                yield self._whole("break and continue", node, "pass")

    def _display(self, node: ast.AST) -> Iterator[Edit]:
        """A member of a table, a list or a set is missing."""
        match node:
            case ast.Set(elts=members) | ast.List(elts=members, ctx=ast.Load()) if len(members) > 1:
                pass
            case ast.Tuple(elts=members, ctx=ast.Load()) if len(members) > 2:
                pass
            case ast.Dict(keys=keys, values=values) if len(keys) > 1:
                for key, value in zip(keys, values, strict=True):
                    if key is not None:
                        yield self._without("member removed", node, _span(key)[0], _span(value)[1])
                return
            case _:
                return
        for one in members:
            yield self._without("member removed", node, *_span(one))

    def _without(self, operator: str, inside: ast.AST, start: Place, end: Place) -> Edit:
        """Leaves something out of a list, with one comma."""
        after = self._text(end, _span(inside)[1])
        comma = re.match(r"\s*,[^\S\n]*", after)
        if comma is not None:
            lines = comma[0].split("\n")
            last = len(lines[-1].encode())
            return Edit(
                operator=operator,
                start=start,
                end=(end[0] + len(lines) - 1, last + (end[1] if len(lines) == 1 else 0)),
                text="",
            )
        before = self._lines[start[0] - 1][: start[1]].decode()
        left = re.search(r",\s*$", before)
        if left is not None:
            start = (start[0], len(before[: left.start()].encode()))
        return Edit(operator=operator, start=start, end=end, text="")

    def _call(self, node: ast.AST) -> Iterator[Edit]:
        if not isinstance(node, ast.Call):
            return
        where = node.func
        name = where.id if isinstance(where, ast.Name) else where.attr if isinstance(where, ast.Attribute) else ""
        if name in _CALLS:
            end = _span(where)[1]
            yield Edit(operator="call", start=(end[0], end[1] - len(name.encode())), end=end, text=_CALLS[name])
        if name == "sorted" and node.args:
            first = node.args[0]
            yield self._whole("call", node, f"list({self._of(first)})")
        if name in ("cast", "isinstance", "getattr", "field", "TypeVar", "attrib"):
            return
        args = node.args
        for one, other in itertools.pairwise(args):
            if isinstance(one, ast.Starred) or isinstance(other, ast.Starred) or _is_text(one) or _is_text(other):
                continue
            (start, middle), (again, end) = _span(one), _span(other)
            text = self._of(other) + self._text(middle, again) + self._of(one)
            yield Edit(operator="arguments swapped", start=start, end=end, text=text)
        for keyword in node.keywords:
            if keyword.arg is not None:
                yield self._without("keyword dropped", node, *_span(keyword))

    def _sql(self, node: ast.AST) -> Iterator[Edit]:
        """A statement of a store asks for a little more, a little less, or in another order."""
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            values: list[ast.expr] = [node.value]
        elif isinstance(node, ast.Call):
            values = list(node.args)
        elif isinstance(node, ast.Return) and node.value is not None:
            values = [node.value]
        else:
            return
        for value in values:
            if not isinstance(value, ast.Constant | ast.JoinedStr) or not _SQL.search(ast.unparse(value)):
                continue
            (first, left), (last, right) = _span(value)
            for number in range(first, last + 1):
                line = self._lines[number - 1]
                start, end = (left if number == first else 0), (right if number == last else len(line))
                text = line[start:end].decode()
                for pattern, change in _SQL_CHANGES:
                    for found in pattern.finditer(text):
                        yield self._sql_edit(number, start, text, found, change)

    def _sql_edit(self, number: int, column: int, text: str, found: re.Match[str], change: object) -> Edit:
        new = change(found) if callable(change) else found.expand(str(change))
        begin = column + len(text[: found.start()].encode())
        return Edit(operator="sql", start=(number, begin), end=(number, begin + len(found[0].encode())), text=new)


def _span(node: ast.AST) -> tuple[Place, Place]:
    return (
        (node.lineno, node.col_offset),  # type: ignore[attr-defined]
        (node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
    )


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
