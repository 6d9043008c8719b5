"""Grammar of an expression: a part of Python's own grammar, checked node by node before anything is stored.

Accepted is what has one meaning for JSON values, here and in JavaScript, and cannot do anything but give a value: constants,
names, arithmetic, comparisons, `and`, `or`, `not`, conditional expressions, f-strings, indexing, slices, attributes, displays,
comprehensions, and calls of the functions and methods of the tables below. Everything else is refused with the place and with what
to write instead.

An iterator (`zip`, `enumerate`, `reversed`, a generator expression) and a set are no JSON values: they may stand only where they
are used up at once, and a set only where its order is not seen. `Place` says which of them a place takes.

A name that is called is a function of the table, and any other name is a value, so a text has one meaning without knowing which
names are values.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from conductorlite.model.errors import InvalidExpression

__all__ = ["CHANGES", "FUNCTIONS", "KEY_FUNCTIONS", "METHODS", "ExpressionRefused", "Place", "check", "kind_of", "name_of"]

#: Deepest nesting of a text: closures call each other.
_MAX_DEPTH: Final = 80
_MAX_NODES: Final = 4_000


class ExpressionRefused(InvalidExpression):
    """A part of an expression is not in the grammar: the position of its node, the reason, and what to write instead;
    internal to the compiler of flows.

    `lineno` (from 1), `col_offset` (from 0, in bytes of UTF-8), `end_lineno` and `end_col_offset` are those of the `ast` node, None
    for a node that has none.
    """

    def __init__(self, node: ast.AST, reason: str, remedy: str) -> None:
        self.lineno: int | None = getattr(node, "lineno", None)
        self.col_offset: int | None = getattr(node, "col_offset", None)
        self.end_lineno: int | None = getattr(node, "end_lineno", None)
        self.end_col_offset: int | None = getattr(node, "end_col_offset", None)
        self.reason, self.remedy = reason, remedy
        super().__init__(f"{reason}: {remedy}" + ("" if self.lineno is None else f" (line {self.lineno} column {self._column})"))

    @property
    def _column(self) -> int:
        return (self.col_offset or 0) + 1


class Place(IntEnum):
    """Kinds of expression that may stand at a place beside a JSON value."""

    #: The answer of the expression: JSON, or what becomes JSON.
    RESULT = 0
    #: An operand: also a range and a view of a dict.
    VALUE = 1
    #: What is gone through from its first item to its last: also an iterator.
    ITERABLE = 2
    #: What is gone through without its order being seen: also a set.
    UNORDERED = 3


class Signature(NamedTuple):
    """Signature of a function: how many positional arguments it takes, and which keywords."""

    least: int
    most: int
    keywords: frozenset[str] = frozenset()


_ANY: Final = 255


def _signatures(**given: tuple[int, int] | tuple[int, int, str]) -> Mapping[str, Signature]:
    return MappingProxyType(
        {
            name: Signature(one[0], one[1], frozenset(one[2].split()) if len(one) == 3 else frozenset())
            for name, one in given.items()
        }
    )


#: The functions by name. `changed`, `unpack`, `fail` and `reraise` are those of the compiler of flows.
FUNCTIONS: Final = _signatures(
    abs=(1, 1),
    all=(1, 1),
    any=(1, 1),
    ascii=(1, 1),
    bool=(0, 1),
    changed=(2, 4),
    dict=(0, 1, "*"),
    enumerate=(1, 2, "start"),
    fail=(2, 3),
    float=(0, 1),
    format=(1, 2),
    int=(0, 2, "base"),
    len=(1, 1),
    list=(0, 1),
    max=(1, _ANY, "key default"),
    min=(1, _ANY, "key default"),
    range=(1, 3),
    repr=(1, 1),
    reraise=(2, 2),
    reversed=(1, 1),
    round=(1, 2, "ndigits"),
    set=(0, 1),
    sorted=(1, 1, "key reverse"),
    str=(0, 1),
    sum=(1, 2, "start"),
    tuple=(0, 1),
    unpack=(2, 3),
    zip=(0, _ANY, "strict"),
)

#: The methods of str, list, tuple and dict by name; whether a value has one is seen when it is called.
METHODS: Final = _signatures(
    capitalize=(0, 0),
    casefold=(0, 0),
    center=(1, 2),
    copy=(0, 0),
    count=(1, 3),
    endswith=(1, 3),
    find=(1, 3),
    get=(1, 2),
    index=(1, 3),
    isalnum=(0, 0),
    isalpha=(0, 0),
    isascii=(0, 0),
    isdecimal=(0, 0),
    isdigit=(0, 0),
    islower=(0, 0),
    isnumeric=(0, 0),
    isspace=(0, 0),
    isupper=(0, 0),
    items=(0, 0),
    join=(1, 1),
    keys=(0, 0),
    ljust=(1, 2),
    lower=(0, 0),
    lstrip=(0, 1),
    partition=(1, 1),
    removeprefix=(1, 1),
    removesuffix=(1, 1),
    replace=(2, 3),
    rfind=(1, 3),
    rindex=(1, 3),
    rjust=(1, 2),
    rpartition=(1, 1),
    rsplit=(0, 2, "sep maxsplit"),
    rstrip=(0, 1),
    split=(0, 2, "sep maxsplit"),
    splitlines=(0, 1, "keepends"),
    startswith=(1, 3),
    strip=(0, 1),
    swapcase=(0, 0),
    title=(0, 0),
    upper=(0, 0),
    values=(0, 0),
    zfill=(1, 1),
)

#: Methods that change their list or dict.
_CHANGING: Final = frozenset(
    {"append", "clear", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault", "sort", "update"}
)
#: What `changed` does to a copy: a method, or a statement.
CHANGES: Final = (_CHANGING - {"sort"}) | {"[]=", "del", "+="}
#: What may be the `key=` of sorted, min and max beside a lambda: functions, and methods of str.
KEY_FUNCTIONS: Final = frozenset({"abs", "bool", "float", "int", "len", "max", "min", "repr", "sorted", "str", "sum"})
_KEY_METHODS: Final = frozenset({"casefold", "lower", "strip", "title", "upper"})

#: What a function or method gives, where that is certain.
_GIVES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "all": "bool",
        "any": "bool",
        "ascii": "str",
        "bool": "bool",
        "changed": "list",
        "dict": "dict",
        "enumerate": "iterator",
        "float": "float",
        "format": "str",
        "int": "int",
        "len": "int",
        "list": "list",
        "range": "range",
        "repr": "str",
        "reversed": "iterator",
        "set": "set",
        "sorted": "list",
        "str": "str",
        "tuple": "tuple",
        "unpack": "list",
        "zip": "iterator",
    }
)
#: Methods that give a text.
_TEXTS: Final = frozenset(
    {
        "capitalize", "casefold", "center", "join", "ljust", "lower", "lstrip", "removeprefix", "removesuffix",
        "replace", "rjust", "rstrip", "strip", "swapcase", "title", "upper", "zfill",
    }
)  # fmt: skip
_METHOD_GIVES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(_TEXTS, "str"),
        **dict.fromkeys(("split", "rsplit", "splitlines"), "list"),
        **dict.fromkeys(("partition", "rpartition"), "tuple"),
        **dict.fromkeys(("count", "find", "index", "rfind", "rindex"), "int"),
        **dict.fromkeys(("keys", "values", "items"), "view"),
        **dict.fromkeys((name for name in METHODS if name.startswith("is") or name.endswith("swith")), "bool"),
    }
)

#: Kinds that are no JSON: where they may stand at most, what they are called, and what to write instead.
_NO_JSON: Final[Mapping[str, tuple[Place, str, str]]] = MappingProxyType(
    {
        "iterator": (Place.ITERABLE, "an iterator is no JSON value", "write list(…) around it"),
        "set": (Place.UNORDERED, "a set is no JSON value and has no order", "write a list, or sorted(set(…))"),
        "range": (Place.VALUE, "a range is no JSON value", "write list(range(…))"),
        "view": (Place.VALUE, "a view of a dict is no JSON value", "write list(…) around it"),
    }
)

_OPERATORS: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
#: What is refused wherever it stands: how it is called, and what to write instead.
_REFUSED: Final[Mapping[type[ast.AST], tuple[str, str]]] = MappingProxyType(
    {
        ast.Lambda: (
            "a lambda stands outside key=",
            "write what it gives, or a comprehension; sorted, min and max take it as key=",
        ),
        ast.NamedExpr: ("an assignment within an expression (:=) is not part of the language", "assign the name on a line before"),
        ast.Await: ("await stands within an expression", "await the task on a line of its own"),
        ast.Yield: ("yield is not part of the language", "collect the values in a list and return it"),
        ast.YieldFrom: ("yield from is not part of the language", "collect the values in a list and return it"),
        ast.Starred: ("a starred value stands outside a list or tuple", "write [*a, *b] for a list of the items of both"),
        ast.Slice: ("a slice stands outside x[…]", "write x[start:stop]"),
    }
)


def kind_of(node: ast.AST) -> str | None:
    """Return the kind of the value of a node where that is certain.

    It is `bool`, `str`, `int`, `float`, `None`, `list`, `tuple`, `dict`, `set`,
    `range`, `view` or `iterator`.
    """
    match node:
        case ast.Constant(value=None):
            return "None"
        case ast.Constant():
            return type(node.value).__name__
        case ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return "bool"
        case ast.BoolOp():
            return _same(node.values)
        case ast.IfExp():
            return _same((node.body, node.orelse))
        case ast.Call(func=ast.Name(id=name)):
            return _GIVES.get(name)
        case ast.Call(func=ast.Attribute(attr=name)):
            return _METHOD_GIVES.get(name)
    return _KINDS.get(type(node))


_KINDS: Final[Mapping[type[ast.AST], str]] = MappingProxyType(
    {
        ast.JoinedStr: "str",
        ast.List: "list",
        ast.ListComp: "list",
        ast.Tuple: "tuple",
        ast.Dict: "dict",
        ast.DictComp: "dict",
        ast.Set: "set",
        ast.SetComp: "set",
        ast.GeneratorExp: "iterator",
    }
)


def name_of(node: ast.Call) -> str:
    """The name of the function that is called; empty for a method."""
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _same(nodes: Sequence[ast.expr]) -> str | None:
    kinds = {kind_of(node) for node in nodes}
    return kinds.pop() if len(kinds) == 1 else None


_N = TypeVar("_N", bound=ast.AST)


def check(node: ast.expr, names: Collection[str] | None = None, place: Place = Place.RESULT) -> tuple[str, ...]:
    """Check an expression; returns the names of values that it reads, in the order of their first occurrence.

    `names` are those that there are; None: any. Raises ExpressionRefused for the first node that is not in the grammar.
    """
    checker = _Checker(None if names is None else frozenset(names))
    checker.visit(node, place)
    return tuple(checker.read)


class _Checker:
    """One walk over an expression; `_scopes` are the variables of the comprehensions and lambdas around the present node."""

    def __init__(self, names: frozenset[str] | None) -> None:
        self._names = names
        self._scopes: list[frozenset[str]] = []
        #: Variables of a comprehension that are bound only further to the right.
        self._unbound: set[str] = set()
        self._depth = self._nodes = 0
        #: A dict for its order.
        self.read: dict[str, None] = {}

    def visit(self, node: ast.AST, place: Place = Place.VALUE) -> None:
        """Check a node that stands at a place of that kind."""
        self._nodes += 1
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ExpressionRefused(
                node, f"the expression is nested deeper than {_MAX_DEPTH} levels", "assign a part of it to a name before"
            )
        if self._nodes > _MAX_NODES:
            raise ExpressionRefused(
                node, f"the expression has more than {_MAX_NODES:,} parts", "assign a part of it to a name before"
            )
        limits = _NO_JSON.get(kind_of(node) or "")
        if limits is not None and place < limits[0]:
            raise ExpressionRefused(node, limits[1], limits[2])
        kind = type(node)
        visitor = _VISITORS.get(kind)
        if visitor is None:
            reason, remedy = _REFUSED.get(kind, (f"{kind.__name__} is not part of the language of expressions", "do it in a task"))
            raise ExpressionRefused(node, reason, remedy)
        visitor(self, node, place)
        self._depth -= 1

    def constant(self, node: ast.Constant, place: Place) -> None:
        value: Any = node.value
        kind = type(value)
        if value is None or kind is bool:
            return
        if kind is int:
            if value.bit_length() > _LONGEST_INT:
                raise ExpressionRefused(node, "a whole number has more than 4,300 digits", "write a smaller one")
        elif kind is float:
            if not math.isfinite(value):
                raise ExpressionRefused(node, f"{value} is no JSON value", "write a number that a float can hold")
        elif kind is str:
            if not _is_well_formed(value):
                raise ExpressionRefused(node, "a text holds half of a surrogate pair", "write whole characters")
        elif kind is bytes:
            raise ExpressionRefused(node, "bytes are no JSON value", "write a text, or make them in a task")
        else:
            raise ExpressionRefused(node, f"{value!r} is no JSON value", "write a number, a text, True, False or None")

    def name(self, node: ast.Name, place: Place) -> None:
        if node.id in self._unbound:
            raise ExpressionRefused(node, f"{node.id!r} is read before the comprehension binds it", "give one of them another name")
        if any(node.id in scope for scope in self._scopes):
            return
        if self._names is not None and node.id not in self._names:
            if node.id in FUNCTIONS:
                raise ExpressionRefused(node, f"the function {node.id} stands here without being called", f"write {node.id}(…)")
            raise ExpressionRefused(node, f"the name {node.id!r} has no value here", "assign it before")
        self.read[node.id] = None

    def binary(self, node: ast.BinOp, place: Place) -> None:
        if not isinstance(node.op, _OPERATORS):
            reason, remedy = _OTHER_OPERATORS[type(node.op)]
            raise ExpressionRefused(node, reason, remedy)
        if isinstance(node.op, ast.Mod) and kind_of(node.left) == "str":
            raise ExpressionRefused(node, "% formats a text", "write an f-string")
        self.visit(node.left)
        self.visit(node.right)

    def unary(self, node: ast.UnaryOp, place: Place) -> None:
        if isinstance(node.op, ast.Invert):
            raise ExpressionRefused(node, "~ is not part of the language", "do it in a task; `not x` negates a truth")
        self.visit(
            node.operand, Place.UNORDERED if isinstance(node.op, ast.Not) and kind_of(node.operand) == "set" else Place.VALUE
        )

    def boolean(self, node: ast.BoolOp, place: Place) -> None:
        for value in node.values:
            self.visit(value, place)

    def comparison(self, node: ast.Compare, place: Place) -> None:
        self.visit(node.left)
        left: ast.expr = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, ast.Is | ast.IsNot) and not (_is_none(left) or _is_none(right)):
                remedy = "write == or !=" if isinstance(op, ast.Is) else "write !="
                raise ExpressionRefused(node, "`is` compares with something else than None, and values have no identity", remedy)
            self.visit(right, Place.UNORDERED if isinstance(op, ast.In | ast.NotIn) else Place.VALUE)
            left = right

    def choice(self, node: ast.IfExp, place: Place) -> None:
        self.visit(node.test)
        self.visit(node.body, place)
        self.visit(node.orelse, place)

    def joined(self, node: ast.JoinedStr, place: Place) -> None:
        for value in node.values:
            self.visit(value)

    def formatted(self, node: ast.FormattedValue, place: Place) -> None:
        self.visit(node.value)
        if node.format_spec is not None:
            self.visit(node.format_spec)
            match node.format_spec:
                case ast.JoinedStr(values=[ast.Constant(value=str(spec))]) if spec.endswith("n") and node.conversion == -1:
                    raise ExpressionRefused(node, "the format n depends on the locale of the machine", "write the format d, f or ,")

    def subscript(self, node: ast.Subscript, place: Place) -> None:
        self.visit(node.value)
        if isinstance(node.slice, ast.Slice):
            for part in (node.slice.lower, node.slice.upper, node.slice.step):
                if part is not None:
                    self.visit(part)
        else:
            self.visit(node.slice)

    def attribute(self, node: ast.Attribute, place: Place) -> None:
        if node.attr.startswith("__"):
            raise ExpressionRefused(node, f"the attribute {node.attr} is Python's own", "read a field of the value")
        self.visit(node.value)

    def display(self, node: ast.List | ast.Tuple | ast.Set, place: Place) -> None:
        for item in node.elts:
            if isinstance(item, ast.Starred):
                self.visit(item.value, Place.UNORDERED if isinstance(node, ast.Set) else Place.ITERABLE)
            else:
                self.visit(item)

    def mapping(self, node: ast.Dict, place: Place) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None:
                if place is Place.RESULT and kind_of(key) not in (None, "str"):
                    raise ExpressionRefused(key, "a key of a JSON object is a text", "write the key as a text")
                self.visit(key)
            self.visit(value)

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, place: Place) -> None:
        targets: list[set[str]] = []
        for generator in node.generators:
            if generator.is_async:
                raise ExpressionRefused(node, "a comprehension is asynchronous", "write for without async")
            targets.append(set())
            self._target(generator.target, targets[-1])
        for at, generator in enumerate(node.generators):
            unbound = self._unbound
            if at > 0:
                self._unbound = unbound | set().union(*targets[at:])
            self.visit(generator.iter, Place.ITERABLE)
            self._scopes.append(frozenset(targets[at]))
            self._unbound = unbound | set().union(*targets[at + 1 :])
            for condition in generator.ifs:
                self.visit(condition)
            self._unbound = unbound
        if isinstance(node, ast.DictComp):
            self.visit(node.key)
            self.visit(node.value)
        else:
            self.visit(node.elt)
        del self._scopes[-len(node.generators) :]

    def _target(self, target: ast.expr, bound: set[str]) -> None:
        match target:
            case ast.Name(id=name):
                bound.add(name)
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                for item in elts:
                    self._target(item.value if isinstance(item, ast.Starred) else item, bound)
            case _:
                raise ExpressionRefused(target, "a comprehension binds something else than names", "write `for name in …`")

    def call(self, node: ast.Call, place: Place) -> None:
        match node.func:
            case ast.Name(id=name):
                self._function(node, name)
            case ast.Attribute(attr=name, value=value):
                self._method(node, name, value)
            case _:
                raise ExpressionRefused(node, "what is called is neither a function nor a method", "call a function by its name")

    def _function(self, node: ast.Call, name: str) -> None:
        if name not in FUNCTIONS:
            remedy = _INSTEAD.get(
                name, "call it in a task, or write now(…) where it is to be called once, when the flow is compiled"
            )
            raise ExpressionRefused(node, f"the function {name} is not part of the language of expressions", remedy)
        if any(name in scope for scope in self._scopes) or (self._names is not None and name in self._names):
            raise ExpressionRefused(node, f"{name} is a value here, which cannot be called", "give the value another name")
        given = self._arguments(node, name, FUNCTIONS[name])
        if name in ("changed", "unpack", "fail"):
            _check_own(node, name)
        for at, argument in enumerate(node.args):
            self.visit(argument, self._argument_place(name, at, given, len(node.args)))
        for keyword in node.keywords:
            if keyword.arg == "key":
                self._key(keyword.value)
            else:
                self.visit(keyword.value)

    def _argument_place(self, name: str, at: int, given: frozenset[str], count: int) -> Place:
        if name == "zip":
            return Place.ITERABLE
        if at > 0:
            return Place.VALUE
        if name in ("min", "max", "sorted"):
            if name != "sorted" and count > 1:
                return Place.VALUE
            return Place.ITERABLE if "key" in given else Place.UNORDERED
        return _TAKES.get(name, Place.VALUE)

    def _key(self, node: ast.expr) -> None:
        match node:
            case ast.Constant(value=None):
                return
            case ast.Name(id=name) if name in KEY_FUNCTIONS and not any(name in scope for scope in self._scopes):
                if self._names is not None and name in self._names:
                    raise ExpressionRefused(node, f"{name} is a value here, which cannot be called", "give the value another name")
                return
            case ast.Attribute(value=ast.Name(id="str"), attr=name) if name in _KEY_METHODS:
                return
            case ast.Lambda(
                args=ast.arguments(posonlyargs=[], args=[ast.arg(arg=name)], vararg=None, kwonlyargs=[], kwarg=None, defaults=[])
            ):
                self._scopes.append(frozenset((name,)))
                self.visit(node.body)
                self._scopes.pop()
                return
        raise ExpressionRefused(
            node, "key= takes a lambda of one argument, a function such as len, or str.lower", "write lambda x: …"
        )

    def _method(self, node: ast.Call, name: str, value: ast.expr) -> None:
        if name in _CHANGING:
            remedy = "write it as a statement of its own, or make a new value: [*a, b] for append, {**a, k: b} for a[k] = b"
            raise ExpressionRefused(node, f"{name}() changes its list or dict within an expression", remedy)
        if name not in METHODS:
            remedy = _INSTEAD.get(f".{name}", "call it in a task")
            raise ExpressionRefused(node, f"the method {name} is not part of the language of expressions", remedy)
        self._arguments(node, f"{name}", METHODS[name])
        self.visit(value)
        for argument in node.args:
            self.visit(argument, Place.ITERABLE if name == "join" else Place.VALUE)
        for keyword in node.keywords:
            self.visit(keyword.value)

    def _arguments(self, node: ast.Call, name: str, signature: Signature) -> frozenset[str]:
        """Check how many arguments there are and how they are named; returns the keywords."""
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                raise ExpressionRefused(argument, "arguments are unpacked", "write each argument by itself")
        count = len(node.args)
        if not signature.least <= count <= signature.most:
            takes = f"{signature.least}" if signature.least == signature.most else f"{signature.least} to {signature.most}"
            if signature.most == _ANY:
                takes = f"at least {signature.least}"
            raise ExpressionRefused(node, f"{name}() is given {count} arguments and takes {takes}", "write those that it takes")
        given: set[str] = set()
        for keyword in node.keywords:
            if keyword.arg is None:
                raise ExpressionRefused(keyword.value, "arguments are unpacked", "write each argument by itself")
            if keyword.arg not in signature.keywords and "*" not in signature.keywords:
                known = ", ".join(sorted(signature.keywords)) or "none"
                raise ExpressionRefused(keyword, f"{name}() does not take {keyword.arg}=", f"its keywords here are: {known}")
            given.add(keyword.arg)
        if count > 1 and given & {"default"}:
            raise ExpressionRefused(node, f"{name}() takes default= with one iterable only", "leave default= out")
        if count > 1 and given & {"start", "ndigits", "base"}:
            raise ExpressionRefused(node, f"{name}() is given an argument twice", "write it once")
        return frozenset(given)


def _are_texts(node: ast.expr) -> bool:
    return isinstance(node, ast.List) and all(isinstance(one, ast.Constant) and type(one.value) is str for one in node.elts)


def _check_own(node: ast.Call, name: str) -> None:
    match name, node.args:
        case "fail", [ast.List(elts=[_, *_]) as types, _, *bases] if all(_are_texts(one) for one in (types, *bases)):
            return
        case "changed", [_, ast.Constant(value=str(method)), *_] if method in CHANGES:
            return
        case "unpack", [_, *counts] if all(isinstance(one, ast.Constant) and type(one.value) is int for one in counts):
            return
    raise ExpressionRefused(
        node, f"{name}() is written by the compiler of flows only", "raise an exception, or assign to several names"
    )


#: What functions take as their first argument, where that is more than a value.
_TAKES: Final[Mapping[str, Place]] = MappingProxyType(
    {
        "all": Place.UNORDERED,
        "any": Place.UNORDERED,
        "bool": Place.UNORDERED,
        "dict": Place.ITERABLE,
        "enumerate": Place.ITERABLE,
        "len": Place.UNORDERED,
        "list": Place.ITERABLE,
        "set": Place.UNORDERED,
        "sum": Place.ITERABLE,
        "tuple": Place.ITERABLE,
        "unpack": Place.ITERABLE,
    }
)

_OTHER_OPERATORS: Final[Mapping[type[ast.operator], tuple[str, str]]] = MappingProxyType(
    {
        ast.BitOr: ("| is not part of the language", "write {**a, **b} for two dicts, `or` for truths"),
        ast.BitAnd: ("& is not part of the language", "write `and` for truths; do the rest in a task"),
        ast.BitXor: ("^ is not part of the language", "write ** for a power, `!=` for truths"),
        ast.LShift: ("<< is not part of the language", "write x * 2 ** n"),
        ast.RShift: (">> is not part of the language", "write x // 2 ** n"),
        ast.MatMult: ("@ is not part of the language", "do it in a task"),
    }
)

#: What to write instead of functions and, behind a point, methods that people would look for.
_INSTEAD: Final[Mapping[str, str]] = MappingProxyType(
    {
        "print": "log it in a task",
        "open": "read the file in a task",
        "input": "wait for a human step",
        "eval": "write the expression itself",
        "exec": "write the statements themselves",
        "map": "write a comprehension: [f(x) for x in xs]",
        "filter": "write a comprehension: [x for x in xs if …]",
        "isinstance": "compare values, or do it in a task",
        "type": "compare values, or do it in a task",
        "getattr": "write x.name, or x.get('name', default) for a dict",
        "hasattr": "write 'name' in x",
        "divmod": "write x // y and x % y",
        "pow": "write x ** y",
        "iter": "write a comprehension",
        "next": "write x[0], or a comprehension",
        "frozenset": "write set(…)",
        "slice": "write x[start:stop]",
        ".format": "write an f-string",
        ".format_map": "write an f-string",
        ".add": "write a list: [*a, b]",
        ".union": "write sorted(set([*a, *b]))",
    }
)

#: Bits of the longest whole number that Python writes as text.
_LONGEST_INT: Final = 14_284


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_well_formed(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_Visitor = Callable[[_Checker, "ast.AST", Place], None]


def _visitor(visit: Callable[[_Checker, _N, Place], None]) -> _Visitor:
    return visit  # type: ignore[return-value]


#: By the exact type of a node.
_VISITORS: Final[Mapping[type[ast.AST], _Visitor]] = MappingProxyType(
    {
        ast.Constant: _visitor(_Checker.constant),
        ast.Name: _visitor(_Checker.name),
        ast.BinOp: _visitor(_Checker.binary),
        ast.UnaryOp: _visitor(_Checker.unary),
        ast.BoolOp: _visitor(_Checker.boolean),
        ast.Compare: _visitor(_Checker.comparison),
        ast.IfExp: _visitor(_Checker.choice),
        ast.JoinedStr: _visitor(_Checker.joined),
        ast.FormattedValue: _visitor(_Checker.formatted),
        ast.Subscript: _visitor(_Checker.subscript),
        ast.Attribute: _visitor(_Checker.attribute),
        ast.List: _visitor(_Checker.display),
        ast.Tuple: _visitor(_Checker.display),
        ast.Set: _visitor(_Checker.display),
        ast.Dict: _visitor(_Checker.mapping),
        ast.ListComp: _visitor(_Checker.comprehension),
        ast.SetComp: _visitor(_Checker.comprehension),
        ast.GeneratorExp: _visitor(_Checker.comprehension),
        ast.DictComp: _visitor(_Checker.comprehension),
        ast.Call: _visitor(_Checker.call),
    }
)
