"""`python`: a safe subset of Python, walked over its syntax tree within a budget.

Nothing of the user's is compiled or executed by Python itself, and no attribute is ever looked up on an object: methods come
from a table of names by type. Conductor's rule: every input key is a global, the text is the body of a function, what it
returns is the result; a lone expression is its own result. There are no imports, classes, `def`, `try` and `with`; a set is a
list without repetitions, because the order of Python's sets differs from process to process.
"""

from __future__ import annotations

import ast
import copy
import math
import operator
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from conductorlite.errors import ExpressionFailed, InvalidExpression
from conductorlite.expressions.conditions.seam import Condition
from conductorlite.expressions.pythontext import METHODS, check
from conductorlite.expressions.sources import Json

__all__ = ["SafePython"]

_MAX_TEXT: Final = 50_000
_MAX_CALLS: Final = 25
_MAX_STRING: Final = 1_000_000
_MAX_ITEMS: Final = 200_000
_MAX_BITS: Final = 10_000

_BINARY: Final[Mapping[type[ast.AST], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
}  # fmt: skip
_COMPARE: Final[Mapping[type[ast.AST], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right, ast.NotIn: lambda left, right: left not in right,
}  # fmt: skip
_UNARY: Final[Mapping[type[ast.AST], Callable[[Any], Any]]] = {
    ast.Not: operator.not_, ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
}  # fmt: skip
_CHANGING: Final = frozenset({"append", "extend", "insert", "pop", "remove", "sort", "reverse", "clear", "update", "setdefault"})
_WEIGHED: Final = frozenset({"str", "sorted", "min", "max", "sum", "index", "count", "remove", "sort", "set"})
_SPEC: Final = re.compile(r"[<>=^]?[+\- ]?0?\d{0,3}[,_]?(?:\.\d{1,2})?[bcdeEfFgGnosxX%]?")
_FAILURES: Final = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError)


class _Left(Exception):
    """A `return`, `break` or `continue` on its way out."""

    def __init__(self, kind: str, value: Json = None) -> None:
        self.kind = kind
        self.value = value


def _unique(items: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(items))


_BUILTINS: Final[Mapping[str, Callable[..., Any]]] = {
    "len": len, "min": min, "max": max, "sum": sum, "sorted": sorted, "abs": abs, "round": round, "int": int, "float": float,
    "str": str, "bool": bool, "any": any, "all": all, "range": range, "list": list, "dict": dict, "tuple": tuple,
    "set": lambda items=(): _unique(items), "enumerate": lambda items, start=0: list(enumerate(items, start)),
    "zip": lambda *lists: list(zip(*lists, strict=False)), "reversed": lambda items: list(reversed(items)),
    "map": lambda function, *lists: list(map(function, *lists)),
    "filter": lambda function, items: list(filter(function, items)),
}  # fmt: skip


@attrs.frozen(kw_only=True)
class _PythonCondition:
    text: str
    body: tuple[ast.stmt, ...] = attrs.field(repr=False, eq=False)
    names: frozenset[str]
    changes: bool
    max_steps: int

    @property
    def everything(self) -> bool:
        return False

    def evaluate(self, values: Mapping[str, Json], *, now: int = 0, seed: str = "") -> Json:
        return _Run(values, self.max_steps, self.changes).script(self.body)


@attrs.frozen(kw_only=True)
class SafePython:
    """The subset; `max_steps` bounds one evaluation."""

    max_steps: int = 100_000

    def compile(self, text: str) -> Condition:
        """Parse and check the text; raises InvalidExpression with the place."""
        if len(text) > _MAX_TEXT:
            raise InvalidExpression(f"a script of {len(text)} characters; {_MAX_TEXT} are allowed")
        try:
            tree = ast.parse(textwrap.dedent(text).strip() or "None")
            check(tree)
        except SyntaxError as error:
            raise InvalidExpression(f"SyntaxError: {error.msg} at line {error.lineno} column {error.offset}") from None
        except (RecursionError, MemoryError):
            raise InvalidExpression("the script is nested too deeply") from None
        except ValueError as error:
            raise InvalidExpression(f"the script cannot be read: {error}") from None
        nodes = list(ast.walk(tree))
        names = frozenset(node.id for node in nodes if isinstance(node, ast.Name) and node.id not in _BUILTINS)
        changes = any(
            (isinstance(node, ast.Attribute) and node.attr in _CHANGING)
            or (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store))
            or isinstance(node, ast.AugAssign)
            for node in nodes
        )
        return _PythonCondition(text=text, body=tuple(tree.body), names=names, changes=changes, max_steps=self.max_steps)


class _Run:
    """One evaluation."""

    def __init__(self, values: Mapping[str, Json], max_steps: int, changes: bool) -> None:
        self._values = values
        self._scopes: list[dict[str, Any]] = [{}]
        self._limit = self._left = max_steps
        self._changes = changes
        self._calls = 0
        self._line = 1

    def script(self, body: tuple[ast.stmt, ...]) -> Json:
        try:
            if len(body) == 1 and isinstance(body[0], ast.Expr):
                return self._json(self._value(body[0].value))
            self._block(body)
        except _Left as left:
            if left.kind != "return":
                raise ExpressionFailed(f"SyntaxError: '{left.kind}' outside loop") from None
            return self._json(left.value)
        except ExpressionFailed as error:
            raise ExpressionFailed(f"{error} at line {self._line}") from None
        except (RecursionError, MemoryError):
            raise ExpressionFailed(f"the evaluation is nested too deeply at line {self._line}") from None
        except _FAILURES as error:
            raise ExpressionFailed(f"{type(error).__name__}: {str(error)[:200]} at line {self._line}") from None
        return None

    def _charge(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise ExpressionFailed(f"the script takes more than {self._limit:,} steps")

    def _made(self, value: Any) -> Any:
        """Charge what was made by its size, and refuse what is too large."""
        if isinstance(value, str):
            self._charge(len(value) // 500)
            if len(value) > _MAX_STRING:
                raise ExpressionFailed(f"a text longer than {_MAX_STRING:,} characters")
        elif isinstance(value, list | tuple | dict):
            self._charge(len(value) // 10)
            if len(value) > _MAX_ITEMS:
                raise ExpressionFailed(f"a list of more than {_MAX_ITEMS:,} items")
        elif type(value) is int and value.bit_length() > _MAX_BITS:
            raise ExpressionFailed(f"a number of more than {_MAX_BITS:,} bits")
        return value

    def _weigh(self, value: Any) -> None:
        """Charge a value by all that is in it, shared parts as often as they occur."""
        stack, count = [value], 0
        while stack:
            item = stack.pop()
            count += 1
            if count % 10 == 0:
                self._charge(1)
            if isinstance(item, dict):
                stack.extend(item.values())
            elif isinstance(item, list | tuple):
                stack.extend(item)
            elif isinstance(item, str):
                self._charge(len(item) // 1000)

    def _json(self, value: Any, depth: int = 0) -> Json:
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            if not math.isfinite(value):
                raise ExpressionFailed(f"the result is {value}, which is not a JSON number")
            return value
        if depth > 200:
            raise ExpressionFailed("the result is nested deeper than 200 levels, or cyclic")
        self._charge(1)
        if isinstance(value, dict):
            return {key if isinstance(key, str) else str(key): self._json(item, depth + 1) for key, item in value.items()}
        if callable(value):
            raise ExpressionFailed("the result is a function")
        return [self._json(item, depth + 1) for item in self._items(value)]

    # -- statements ---------------------------------------------------------------------------------------------------

    def _block(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        self._charge(1)
        self._line = node.lineno
        if isinstance(node, ast.Expr):
            self._value(node.value)
        elif isinstance(node, ast.Return):
            raise _Left("return", None if node.value is None else self._value(node.value))
        elif isinstance(node, ast.Assign):
            value = self._value(node.value)
            for target in node.targets:
                self._assign(target, value)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self._assign(node.target, self._value(node.value))
        elif isinstance(node, ast.AugAssign):
            current = self._value(_loaded(node.target))
            self._assign(node.target, self._binary(node.op, current, self._value(node.value)))
        elif isinstance(node, ast.If):
            self._block(node.body if self._value(node.test) else node.orelse)
        elif isinstance(node, ast.For | ast.While):
            self._loop(node)
        elif isinstance(node, ast.Break | ast.Continue):
            raise _Left(type(node).__name__.lower())

    def _loop(self, node: ast.For | ast.While) -> None:
        turns: Iterator[Any] = iter(self._items(self._value(node.iter))) if isinstance(node, ast.For) else iter(int, 1)
        for item in turns:
            self._charge(1)
            if isinstance(node, ast.For):
                self._assign(node.target, item)
            elif not self._value(node.test):
                break
            try:
                self._block(node.body)
            except _Left as left:
                if left.kind == "return":
                    raise
                if left.kind == "break":
                    return
        self._block(node.orelse)

    def _assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self._scopes[-1][target.id] = value
        elif isinstance(target, ast.Subscript):
            owner, key = self._value(target.value), self._value(target.slice)
            if not isinstance(owner, list | dict) or isinstance(key, slice):
                raise TypeError("only items of lists and maps can be assigned")
            owner[key] = value
            self._made(owner) if self._left % 64 == 0 else None
        elif isinstance(target, ast.Tuple | ast.List):
            items = list(self._items(value))
            if len(items) != len(target.elts):
                raise ValueError(f"{len(target.elts)} values expected, got {len(items)}")
            for each, item in zip(target.elts, items, strict=True):
                self._assign(each, item)
        else:
            raise TypeError("this cannot be assigned")

    # -- expressions --------------------------------------------------------------------------------------------------

    def _value(self, node: ast.expr) -> Any:
        self._charge(1)
        kind = type(node)
        if kind is ast.Constant:
            return node.value  # type: ignore[attr-defined]
        if isinstance(node, ast.Name):
            return self._name(node.id)
        method = getattr(self, f"_of_{kind.__name__.lower()}", None)
        if method is None:
            raise TypeError(f"{kind.__name__} has no value here")
        return method(node)

    def _name(self, name: str) -> Any:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        if name in self._values:
            value = self._values[name]
            if self._changes and isinstance(value, list | dict):
                self._weigh(value)
                value = self._scopes[0][name] = copy.deepcopy(value)
            return value
        if name in _BUILTINS:
            return _BUILTINS[name]
        raise ExpressionFailed(f"NameError: name {name!r} is not defined")

    def _of_boolop(self, node: ast.BoolOp) -> Any:
        value: Any = None
        for each in node.values:
            value = self._value(each)
            if bool(value) is isinstance(node.op, ast.Or):
                break
        return value

    def _of_binop(self, node: ast.BinOp) -> Any:
        return self._binary(node.op, self._value(node.left), self._value(node.right))

    def _binary(self, kind: ast.operator, left: Any, right: Any) -> Any:
        if isinstance(kind, ast.Mod) and isinstance(left, str):
            raise TypeError("texts are formatted with f-strings here")
        if isinstance(kind, ast.Mult):
            for some, times in ((left, right), (right, left)):
                if isinstance(some, str | list | tuple) and isinstance(times, int) and len(some) * times > _MAX_ITEMS:
                    raise ExpressionFailed(f"a text or list longer than {_MAX_ITEMS:,}")
        if isinstance(left, int) and isinstance(right, int):
            if isinstance(kind, ast.Pow) and left.bit_length() * max(right, 0) > _MAX_BITS:
                raise ExpressionFailed(f"a number of more than {_MAX_BITS:,} bits")
            if isinstance(kind, ast.LShift) and left.bit_length() + right > _MAX_BITS:
                raise ExpressionFailed(f"a number of more than {_MAX_BITS:,} bits")
        return self._made(_BINARY[type(kind)](left, right))

    def _of_unaryop(self, node: ast.UnaryOp) -> Any:
        return _UNARY[type(node.op)](self._value(node.operand))

    def _of_ifexp(self, node: ast.IfExp) -> Any:
        return self._value(node.body if self._value(node.test) else node.orelse)

    def _of_compare(self, node: ast.Compare) -> Any:
        left, answer = self._value(node.left), True
        for kind, each in zip(node.ops, node.comparators, strict=True):
            right = self._value(each)
            self._weigh(left)
            self._weigh(right)
            answer = _COMPARE[type(kind)](left, right)
            if not answer:
                break
            left = right
        return answer

    def _of_dict(self, node: ast.Dict) -> Any:
        made: dict[Any, Any] = {}
        for key, each in zip(node.keys, node.values, strict=True):
            if key is None:
                made.update(self._value(each))
            else:
                made[self._value(key)] = self._value(each)
        return self._made(made)

    def _elements(self, nodes: Iterable[ast.expr]) -> list[Any]:
        made: list[Any] = []
        for each in nodes:
            if isinstance(each, ast.Starred):
                made.extend(self._items(self._value(each.value)))
            else:
                made.append(self._value(each))
        return list(self._made(made))

    def _of_list(self, node: ast.List) -> Any:
        return self._elements(node.elts)

    def _of_tuple(self, node: ast.Tuple) -> Any:
        return tuple(self._elements(node.elts))

    def _of_set(self, node: ast.Set) -> Any:
        return _unique(self._elements(node.elts))

    def _of_listcomp(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> Any:
        return [self._value(node.elt) for _ in self._rounds(node.generators, 0)]

    _of_generatorexp = _of_listcomp

    def _of_setcomp(self, node: ast.SetComp) -> Any:
        return _unique(self._of_listcomp(node))

    def _of_dictcomp(self, node: ast.DictComp) -> Any:
        return {self._value(node.key): self._value(node.value) for _ in self._rounds(node.generators, 0)}

    def _rounds(self, generators: list[ast.comprehension], index: int) -> Iterator[None]:
        if index == len(generators):
            yield None
            return
        each = generators[index]
        items = self._items(self._value(each.iter))
        self._scopes.append({})
        try:
            for item in items:
                self._charge(1)
                self._assign(each.target, item)
                if all(self._value(test) for test in each.ifs):
                    yield from self._rounds(generators, index + 1)
        finally:
            self._scopes.pop()

    def _of_lambda(self, node: ast.Lambda) -> Any:
        parameters = [each.arg for each in node.args.args]
        closed = {name: value for scope in self._scopes[1:] for name, value in scope.items()}

        def call(*given: Any) -> Any:
            if len(given) != len(parameters):
                raise TypeError(f"the lambda takes {len(parameters)} arguments, not {len(given)}")
            if self._calls >= _MAX_CALLS:
                raise ExpressionFailed(f"calls nested deeper than {_MAX_CALLS} levels")
            self._calls += 1
            self._scopes.append({**closed, **dict(zip(parameters, given, strict=True))})
            try:
                return self._value(node.body)
            finally:
                self._scopes.pop()
                self._calls -= 1

        return call

    def _of_subscript(self, node: ast.Subscript) -> Any:
        owner, key = self._value(node.value), self._value(node.slice)
        if not isinstance(owner, str | list | tuple | dict | range):
            raise TypeError(f"{type(owner).__name__!r} has no items")
        return self._made(owner[key]) if isinstance(key, slice) else owner[key]

    def _of_slice(self, node: ast.Slice) -> Any:
        return slice(*(None if each is None else self._value(each) for each in (node.lower, node.upper, node.step)))

    def _of_joinedstr(self, node: ast.JoinedStr) -> Any:
        return self._made("".join(self._value(each) for each in node.values))

    def _of_formattedvalue(self, node: ast.FormattedValue) -> Any:
        value, spec = self._value(node.value), "" if node.format_spec is None else self._value(node.format_spec)
        if not _SPEC.fullmatch(spec):
            raise ValueError(f"the format {spec[:20]!r} is not known here")
        if callable(value):
            raise TypeError("a function has no text")
        self._weigh(value)
        return repr(value) if node.conversion == ord("r") else format(value, spec) if spec else str(value)

    def _of_call(self, node: ast.Call) -> Any:
        owner: Any = None
        if isinstance(node.func, ast.Attribute):
            owner, name = self._value(node.func.value), node.func.attr
            allowed: frozenset[str] = METHODS.get(type(owner), frozenset())
            if name not in allowed:
                raise TypeError(f"{type(owner).__name__!r} has no method {name}")
            function = getattr(owner, name)
        else:
            function = self._value(node.func)
            name = node.func.id if isinstance(node.func, ast.Name) else ""
        if not callable(function):
            raise TypeError(f"{type(function).__name__!r} cannot be called")
        given = self._elements(node.args)
        named = {each.arg: self._value(each.value) for each in node.keywords if each.arg is not None}
        if len(named) != len(node.keywords):
            raise TypeError("** is not known here")
        self._guard(name, owner, given)
        result = function(*given, **named)
        self._made(owner) if name in _CHANGING and len(owner) > 1_000 and self._left % 16 == 0 else None
        return self._made(list(result) if name in ("keys", "values", "items") else result)

    def _guard(self, name: str, owner: Any, given: list[Any]) -> None:
        """Refuse in advance what would be too large, charge in advance what takes long."""
        if name in _WEIGHED:
            self._weigh([owner, *given])
        if isinstance(owner, str):
            self._charge(len(owner) // 500)
            if name == "replace" and len(given) > 1 and isinstance(given[1], str):
                if (len(owner) + 1) * max(1, len(given[1])) > 20 * _MAX_STRING:
                    raise ExpressionFailed(f"a text longer than {_MAX_STRING:,} characters")
            elif name == "join":
                self._weigh(given)
                if given and isinstance(given[0], list | tuple) and len(owner) * len(given[0]) > _MAX_STRING:
                    raise ExpressionFailed(f"a text longer than {_MAX_STRING:,} characters")
        for each in given:
            if isinstance(each, list | tuple | dict | str | range):
                self._charge(len(each) // 100)
            if isinstance(each, range) and len(each) > _MAX_ITEMS:
                raise ExpressionFailed(f"a range of more than {_MAX_ITEMS:,} numbers")
            if callable(each) and name in ("str", "format"):
                raise TypeError("a function has no text")

    def _items(self, value: Any) -> Iterable[Any]:
        if not isinstance(value, str | list | tuple | dict | range):
            raise TypeError(f"{type(value).__name__!r} is not a list")
        return value


def _loaded(target: ast.expr) -> ast.expr:
    """The same place, read."""
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(id=target.id, ctx=ast.Load()), target)
    if isinstance(target, ast.Subscript):
        return ast.copy_location(ast.Subscript(value=target.value, slice=target.slice, ctx=ast.Load()), target)
    raise TypeError("this cannot be assigned")
