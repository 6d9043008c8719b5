"""Random expressions over the whole grammar of `language.expressions`, hostile values, and what Python itself answers."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from conductorlite.language.expressions.grammar import FUNCTIONS, METHODS
from conductorlite.language.javascript import JavaScript
from conductorlite.language.processes import Limits
from conductorlite.language.values import SAFE_LIMIT

#: Values by the names of the expressions; `{}` of each kind among them.
_NUMBERS: Final[list[Any]] = [
    0, 1, -1, 2, 3, 7, -8, 10, 255, True, False, 0.5, -2.5, 1.25, 2.675, 0.1, 1e-5, 1.5e-7, 123456.789, 3.0, -0.0, 1e16, 2**53,
    10**20, -(2**70), 1e300,
]  # fmt: skip
_TEXTS: Final = [
    "", "a", "b", "Hello World", "héllo", "ß", "𝄞x", "日本", "0", "-12", " 7 ", "3.5", "1_000", "a,b,,c", "x\ny\r\nz", "  lead",
    "tail\t", "$x", "${y}", "'\"", "\\",
    "price", "İ", "ǆ", "\x00", "é", "nan", "{}", "%s", "10%", "aaa", "tuple",
]  # fmt: skip
_LISTS: Final[list[Any]] = [
    [], [1], [3, 1, 2], ["b", "a"], [1, "a", None], [[1, 2], [3, 4]], [[]], [0, False, 0.0], [1.5, -1], ["", "x"], [None],
    [["k", 1], ["l", 2]],
    [{"price": 3}, {"price": 1.5}], [True, 2, 2.5], list(range(12)), ["é", "e", "𝄞"],
]  # fmt: skip
_DICTS: Final[list[Any]] = [
    {}, {"a": 1}, {"price": 2.5, "items": [1, 2], "name": "x"}, {"b": None, "a": []}, {"a": {"b": {"c": 1}}}, {"": 0}, {"é":
    "ü"}, {"keys": 1, "get": 2},
    {"price": -3, "b": {"price": 7}},
]  # fmt: skip
NAMES: Final = ("n", "m", "s", "t", "xs", "ys", "d", "e", "z")


def hostile_values(random: Random, *, portable: bool = False) -> dict[str, Any]:
    """A value for each name: mostly of its kind, sometimes of any; with `portable` none that a Conductor server reads otherwise."""
    every = [*_NUMBERS, *_TEXTS, *_LISTS, *_DICTS, None]
    kinds: dict[str, list[Any]] = {
        "n": _NUMBERS,
        "m": _NUMBERS,
        "s": _TEXTS,
        "t": _TEXTS,
        "xs": _LISTS,
        "ys": _LISTS,
        "d": _DICTS,
        "e": _DICTS,
        "z": every,
    }
    return {name: random.choice(usable(every if random.random() < 0.1 else kinds[name], portable)) for name in NAMES}


def usable(values: Sequence[Any], portable: bool) -> Sequence[Any]:
    """The values, or those of them that are portable."""
    return [value for value in values if is_portable(value)] if portable else values


def is_portable(value: Any) -> bool:
    """Whether a Conductor server and this engine mean the same by a value, all that is in it included."""
    if type(value) is float:
        return math.isfinite(value) and not value.is_integer()
    if type(value) is int:
        return abs(value) <= SAFE_LIMIT
    if type(value) is str:
        return value.isascii()
    if isinstance(value, dict):
        # Keys that look like numbers stand in another order in JavaScript.
        return all(is_portable(one) for pair in value.items() for one in pair) and not any(str(key).isdigit() for key in value)
    if isinstance(value, list | tuple | set):
        return all(map(is_portable, value))
    return True


class ExpressionMaker:
    """Makes expressions; `nested` are the pairs of kinds of nodes that it has put into each other."""

    def __init__(self, random: Random, *, portable: bool = False) -> None:
        self.random, self._portable = random, portable
        self.nested: set[tuple[str, str]] = set()
        self._locals: dict[str, str] = {}

    def make(self, depth: int = 4) -> ast.expr:
        """One expression, whose value is of any kind."""
        self._locals = {}
        node = self.of(self.random.choice(["num", "str", "list", "dict", "bool", "any"]), depth)
        for outer in ast.walk(node):
            for inner in ast.iter_child_nodes(outer):
                self.nested.add((type(outer).__name__, type(inner).__name__))
        return ast.fix_missing_locations(node)

    def of(self, kind: str, depth: int) -> ast.expr:
        """An expression that mostly gives a value of a kind: num, str, list, dict, bool, or any."""
        if kind == "any" or self.random.random() < 0.06:
            kind = self.random.choice(["num", "str", "list", "dict", "bool", "none"])
        if depth <= 0 or self.random.random() < 0.12:
            return self.leaf(kind)
        if self.random.random() < 0.12:
            return self._neutral(kind, depth - 1)
        makers: Mapping[str, Callable[[int], ast.expr]] = {
    "num": self.number, "str": self.text, "list": self.listed, "dict": self.mapped, "bool": self.truth, "none": lambda depth:
    self.leaf("none"),
        }  # fmt: skip
        return makers[kind](depth - 1)

    def leaf(self, kind: str) -> ast.expr:
        """A name or a constant."""
        known = [name for name, its in self._locals.items() if its in (kind, "any")]
        if known and self.random.random() < 0.6:
            return _name(self.random.choice(known))
        if kind == "none":
            return self.random.choice([ast.Constant(value=None), _name("z")])
        if self.random.random() < 0.5:
            names = {"num": "nm", "str": "st", "list": ["xs", "ys"], "dict": "de", "bool": "z"}[kind]
            return _name(self.random.choice(names))
        values: dict[str, list[Any]] = {"num": _NUMBERS, "str": _TEXTS, "list": _LISTS, "dict": _DICTS, "bool": [True, False]}
        return _constant(self.random.choice(usable(values[kind], self._portable)))

    def _twin(self) -> ast.expr:
        return _constant(self.random.choice(usable(_TWINS, self._portable)))

    def _neutral(self, kind: str, depth: int) -> ast.expr:
        """What may give any kind."""
        pick = self.random.randrange(8)
        if pick == 0:
            return ast.IfExp(test=self.of("any", depth), body=self.of(kind, depth), orelse=self.of(kind, depth))
        if pick == 1:
            op = self.random.choice([ast.And(), ast.Or()])
            return ast.BoolOp(op=op, values=[self.of(kind, depth) for _ in range(self.random.choice([2, 2, 3]))])
        if pick == 2:
            return ast.Subscript(
                value=ast.List(elts=[self.of(kind, depth), self.of(kind, depth)], ctx=ast.Load()),
                slice=self.of("num", 0),
                ctx=ast.Load(),
            )
        if pick == 3:
            key = self.of("str", min(depth, 1))
            return ast.Subscript(value=self.of("dict", depth), slice=key, ctx=ast.Load())
        if pick == 4:
            return ast.Attribute(
                value=self.of("dict", depth), attr=self.random.choice(["price", "a", "items", "name"]), ctx=ast.Load()
            )
        if pick == 5:
            return _method(
                self.of("dict", depth), "get", self.of("str", 0), *([self.of(kind, depth)] if self.random.random() < 0.6 else [])
            )
        if pick == 6:
            return self._extreme(kind, depth)
        return ast.Subscript(value=self.of("list", depth), slice=self.of("num", min(depth, 1)), ctx=ast.Load())

    def _extreme(self, kind: str, depth: int) -> ast.expr:
        name = self.random.choice(["min", "max"])
        if self.random.random() < 0.4:
            return _call(name, self.of(kind, depth), self.of(kind, depth))
        options = {"key": self._key(depth)} if self.random.random() < 0.4 else {}
        if self.random.random() < 0.5:
            options["default"] = self.of(kind, depth)
        return _call(name, self.iterable(depth, ordered="key" in options), **options)

    def number(self, depth: int) -> ast.expr:
        pick = self.random.randrange(10)
        if pick < 3:
            op = self.random.choice([ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod])()
            return ast.BinOp(left=self.of("num", depth), op=op, right=self.of("num", depth))
        if pick == 3:
            return ast.BinOp(
                left=self.of("num", depth), op=ast.Pow(), right=_constant(self.random.choice([0, 1, 2, 3, 0.5, -1, True]))
            )
        if pick == 4:
            return ast.UnaryOp(op=self.random.choice([ast.USub(), ast.UAdd()]), operand=self.of("num", depth))
        if pick == 5:
            return _call(
                "len",
                self.of(self.random.choice(["list", "str", "dict"]), depth) if self.random.random() < 0.8 else self.set_of(depth),
            )
        if pick == 6:
            items = self.iterable(depth)
            return _call(
                "sum", items, *([self.of(self.random.choice(["num", "num", "list"]), 0)] if self.random.random() < 0.3 else [])
            )
        if pick == 7:
            digits = [_constant(self.random.choice([0, 1, 2, 3, -1, -2, None]))] if self.random.random() < 0.7 else []
            return _call("round", self.of("num", depth), *digits)
        if pick == 8:
            name = self.random.choice(["abs", "int", "float", "int"])
            kind = "str" if name != "abs" and self.random.random() < 0.4 else "num"
            base = (
                [_constant(self.random.choice([2, 10, 16, 36, 0]))]
                if name == "int" and kind == "str" and self.random.random() < 0.4
                else []
            )
            return _call(name, self.of(kind, depth), *base)
        owner, name = self.random.choice(
            [
                ("str", "find"),
                ("str", "count"),
                ("str", "index"),
                ("str", "rfind"),
                ("str", "rindex"),
                ("list", "index"),
                ("list", "count"),
            ]
        )
        given = [self.of("str" if owner == "str" else "any", min(depth, 1))]
        bounds = (
            [_constant(self.random.choice([0, 1, -1, 2])) for _ in range(self.random.choice([0, 0, 1, 2]))]
            if name != "count" or owner == "str"
            else []
        )
        return _method(self.of(owner, depth), name, *given, *bounds)

    def text(self, depth: int) -> ast.expr:
        pick = self.random.randrange(10)
        if pick < 3:
            return self._formatted(depth)
        if pick == 3:
            return ast.BinOp(left=self.of("str", depth), op=ast.Add(), right=self.of("str", depth))
        if pick == 4:
            return ast.BinOp(left=self.of("str", depth), op=ast.Mult(), right=_constant(self.random.choice([0, 1, 2, 3, -1])))
        if pick == 5:
            return _call(self.random.choice(["str", "repr", "str"]), self.of("any", depth))
        if pick == 6:
            return _method(self.of("str", min(depth, 1)), "join", self.iterable(depth))
        if pick == 7:
            return self._slice(self.of("str", depth), depth)
        if pick == 8:
            return _call("format", self.of(self.random.choice(["num", "str", "any"]), depth), _constant(self.random.choice(_SPECS)))
        return self._method_of_text(depth)

    def _method_of_text(self, depth: int) -> ast.expr:
        name = self.random.choice(_TEXT_METHODS)
        given: list[ast.expr] = []
        if name in ("strip", "lstrip", "rstrip"):
            given = [self.of("str", 0)] if self.random.random() < 0.4 else []
        elif name in ("ljust", "rjust", "center", "zfill"):
            given = [_constant(self.random.choice([0, 3, 4, 7, 10, -1]))]
            if name != "zfill" and self.random.random() < 0.5:
                given.append(_constant(self.random.choice(["*", "é", "0", ""])))
        elif name == "replace":
            given = [self.of("str", 0), self.of("str", 0)] + (
                [_constant(self.random.choice([0, 1, -1]))] if self.random.random() < 0.4 else []
            )
        elif name in ("removeprefix", "removesuffix"):
            given = [self.of("str", min(depth, 1))]
        return _method(self.of("str", depth), name, *given)

    def _formatted(self, depth: int) -> ast.expr:
        values: list[ast.expr] = []
        for _ in range(self.random.choice([1, 2, 3])):
            if self.random.random() < 0.4:
                values.append(ast.Constant(value=self.random.choice(usable(_TEXTS, self._portable))))
                continue
            spec = None
            if self.random.random() < 0.4:
                parts: list[ast.expr] = [ast.Constant(value=self.random.choice(_SPECS))]
                if self.random.random() < 0.2:
                    parts = [
                        ast.Constant(value=">"),
                        ast.FormattedValue(value=_constant(self.random.choice([1, 5, 9])), conversion=-1, format_spec=None),
                    ]
                spec = ast.JoinedStr(values=parts)
            value = self.of(self.random.choice(["num", "str", "any"]), depth)
            values.append(
                ast.FormattedValue(value=value, conversion=self.random.choice([-1, -1, -1, 115, 114, 97]), format_spec=spec)
            )
        return ast.JoinedStr(values=values)

    def _slice(self, value: ast.expr, depth: int) -> ast.expr:
        lower, upper = [None if self.random.random() < 0.3 else self.of("num", 0) for _ in range(2)]
        step = _constant(self.random.choice([1, 2, -1, -2, 0])) if self.random.random() < 0.4 else None
        return ast.Subscript(value=value, slice=ast.Slice(lower=lower, upper=upper, step=step), ctx=ast.Load())

    def listed(self, depth: int) -> ast.expr:
        pick = self.random.randrange(9)
        if pick == 0:
            items: list[ast.expr] = [self.of("any", depth) for _ in range(self.random.choice([0, 1, 2, 3]))]
            if self.random.random() < 0.4:
                items.append(ast.Starred(value=self.iterable(depth), ctx=ast.Load()))
            return (ast.Tuple if self.random.random() < 0.2 else ast.List)(elts=items, ctx=ast.Load())
        if pick == 1:
            return self._comprehension(ast.ListComp, depth)
        if pick == 2:
            return ast.BinOp(left=self.of("list", depth), op=ast.Add(), right=self.of("list", depth))
        if pick == 3:
            return ast.BinOp(left=self.of("list", depth), op=ast.Mult(), right=_constant(self.random.choice([0, 1, 2, -1])))
        if pick == 4:
            return self._slice(self.of("list", depth), depth)
        if pick == 5:
            options = {"key": self._key(depth)} if self.random.random() < 0.5 else {}
            if self.random.random() < 0.4:
                options["reverse"] = _constant(self.random.choice([True, False, 1]))
            return _call("sorted", self.iterable(depth, ordered="key" in options), **options)
        if pick == 6:
            return _call(self.random.choice(["list", "tuple"]), self.iterable(depth))
        if pick == 7:
            return self._parts(depth)
        return _call("list", _method(self.of("dict", depth), self.random.choice(["keys", "values", "items"])))

    def _parts(self, depth: int) -> ast.expr:
        """What a text is split into; a copy of a list."""
        name = self.random.choice(["split", "rsplit", "splitlines", "partition", "rpartition", "copy"])
        if name == "copy":
            return _method(self.of("list", depth), "copy")
        given = [self.of("str", 0)] if name.endswith("partition") else []
        options = {}
        if name in ("split", "rsplit") and self.random.random() < 0.6:
            options = {"sep": _constant(self.random.choice([",", " ", "a", None, ""]))}
            if self.random.random() < 0.5:
                options["maxsplit"] = _constant(self.random.choice([0, 1, 2, -1]))
        if name == "splitlines" and self.random.random() < 0.5:
            options = {"keepends": _constant(value=True)}
        return _method(self.of("str", depth), name, *given, **options)

    def iterable(self, depth: int, *, ordered: bool = True) -> ast.expr:
        """What can be gone through, an iterator mostly; a set, too, unless its order would be seen."""
        pick = self.random.randrange(10)
        if pick < 3 or depth <= 0:
            return self.of("list", depth)
        if pick == 3:
            return self._comprehension(ast.GeneratorExp, depth)
        if pick == 4:
            return _call("range", *[_constant(self.random.choice([0, 1, 3, 5, -2])) for _ in range(self.random.choice([1, 2, 3]))])
        if pick == 5:
            strict = {"strict": _constant(value=True)} if self.random.random() < 0.2 else {}
            return _call("zip", *[self.iterable(depth - 1) for _ in range(self.random.choice([0, 1, 2, 2]))], **strict)
        if pick == 6:
            return _call(
                "enumerate",
                self.iterable(depth - 1),
                *([_constant(self.random.choice([1, 10]))] if self.random.random() < 0.4 else []),
            )
        if pick == 7:
            return _call("reversed", self.of("list", depth))
        if pick == 8 and not ordered:
            return self.set_of(depth)
        return _method(self.of("dict", depth), self.random.choice(["keys", "values", "items"]))

    def set_of(self, depth: int) -> ast.expr:
        pick = self.random.randrange(3)
        if pick == 0:
            return ast.Set(
                elts=[self.of(self.random.choice(["num", "str"]), min(1, depth)) for _ in range(self.random.choice([1, 2, 3]))]
            )
        return self._comprehension(ast.SetComp, depth) if pick == 1 else _call("set", self.iterable(depth))

    def _comprehension(self, kind: Any, depth: int) -> ast.expr:
        before = dict(self._locals)
        generators = []
        for _ in range(self.random.choice([1, 1, 1, 2])):
            source = self.iterable(depth)
            names = self.random.sample(["i", "j", "k", "x", "s"], 3)
            pick = self.random.random()
            target: ast.expr
            if pick < 0.7:
                target = _name(names[0], store=True)
                self._locals[names[0]] = self.random.choice(["num", "any", "str"])
            else:
                parts: list[ast.expr] = [_name(name, store=True) for name in names[:2]]
                if pick > 0.92:
                    parts[1] = ast.Starred(value=parts[1], ctx=ast.Store())
                target = ast.Tuple(elts=parts, ctx=ast.Store())
                self._locals |= {names[0]: "num", names[1]: "any"}
            ifs = [self.of("bool", min(depth, 1))] if self.random.random() < 0.4 else []
            generators.append(ast.comprehension(target=target, iter=source, ifs=ifs, is_async=0))
        if kind is ast.DictComp:
            made: ast.expr = ast.DictComp(
                key=self.of(self.random.choice(["str", "str", "any"]), depth), value=self.of("any", depth), generators=generators
            )
        else:
            made = kind(
                elt=self.of("any" if kind is not ast.SetComp else self.random.choice(["num", "str"]), depth), generators=generators
            )
        self._locals = before
        return made

    def _key(self, depth: int) -> ast.expr:
        pick = self.random.randrange(4)
        if pick == 0:
            return _name(self.random.choice(["len", "str", "abs", "bool", "repr", "int", "float"]))
        if pick == 1:
            return ast.Attribute(value=_name("str"), attr=self.random.choice(["lower", "upper"]), ctx=ast.Load())
        before = dict(self._locals)
        self._locals["q"] = "any"
        made = ast.Lambda(
            args=ast.arguments(posonlyargs=[], args=[ast.arg(arg="q")], kwonlyargs=[], kw_defaults=[], defaults=[]),
            body=self.of("any", min(depth, 2)),
        )
        self._locals = before
        return made

    def mapped(self, depth: int) -> ast.expr:
        pick = self.random.randrange(5)
        if pick < 2:
            keys: list[ast.expr | None] = []
            values = []
            for _ in range(self.random.choice([0, 1, 2, 3])):
                starred = self.random.random() < 0.2
                keys.append(None if starred else self.of(self.random.choice(["str", "str", "str", "num"]), min(1, depth)))
                values.append(self.of("dict" if starred else "any", depth))
            return ast.Dict(keys=keys, values=values)
        if pick == 2:
            return self._comprehension(ast.DictComp, depth)
        if pick == 3:
            more = {self.random.choice(["a", "price", "q"]): self.of("any", depth)} if self.random.random() < 0.5 else {}
            given = (
                [self.of("dict", depth) if self.random.random() < 0.5 else self.iterable(depth)]
                if self.random.random() < 0.9
                else []
            )
            return _call("dict", *given, **more)
        return _method(self.of("dict", depth), "copy")

    def truth(self, depth: int) -> ast.expr:
        pick = self.random.randrange(8)
        if pick < 2 and self.random.random() < 0.2:
            op = self.random.choice([ast.Eq, ast.NotEq, ast.Lt, ast.GtE])()
            return ast.Compare(left=self._twin(), ops=[op], comparators=[self._twin()])
        if pick < 2:
            kind = self.random.choice(["num", "str", "list", "any", "dict"])
            count = self.random.choice([1, 1, 1, 2])
            ops = [self.random.choice([ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE])() for _ in range(count)]
            return ast.Compare(left=self.of(kind, depth), ops=ops, comparators=[self.of(kind, depth) for _ in range(count)])
        if pick == 2:
            op = self.random.choice([ast.In, ast.NotIn])()
            where = (
                self.set_of(depth)
                if self.random.random() < 0.2
                else self.of("str", depth)
                if self.random.random() < 0.3
                else self.iterable(depth)
            )
            return ast.Compare(left=self.of(self.random.choice(["str", "num", "any"]), depth), ops=[op], comparators=[where])
        if pick == 3:
            op = self.random.choice([ast.Is, ast.IsNot])()
            return ast.Compare(left=self.of("any", depth), ops=[op], comparators=[ast.Constant(value=None)])
        if pick == 4:
            return ast.UnaryOp(op=ast.Not(), operand=self.of("any", depth))
        if pick == 5:
            return _call(self.random.choice(["any", "all"]), self.iterable(depth, ordered=True))
        if pick == 6:
            return _call("bool", self.of("any", depth))
        name = self.random.choice(["startswith", "endswith", *[name for name in METHODS if name.startswith("is")]])
        given = [self.of("str", min(1, depth))] if name.endswith("with") else []
        return _method(self.of("str", depth), name, *given)


#: Values of which many are equal to others of another type.
_TWINS: Final[list[Any]] = [0, 1, True, False, 1.0, 0.0, -0.0, "", None, [], [1], [True], {}, {"a": 1}, {"a": 1.0}, {"a": True}]
_SPECS: Final = [
    "", "5", ">5", "<6", "^7", "*^9", "é>4", "05", "+d", " d", "d", "x", "#x", "b", "o", "X", ",", ",.2f", ".2f", ".0f", ".3",
    "e", ".1e", ".0e", "g", ".3g", "%", ".1%", "=+8",
    "08.3f", "010,", "_", "s", ".2", "10s", "c", "F", "G", "#.3g", "-5", "=5", "z",
]  # fmt: skip
_TEXT_METHODS: Final = [
    "capitalize", "casefold", "center", "ljust", "lower", "lstrip", "removeprefix", "removesuffix", "replace", "rjust",
    "rstrip", "strip", "swapcase", "title", "upper", "zfill",
]  # fmt: skip


def _name(name: str, *, store: bool = False) -> ast.expr:
    return ast.Name(id=name, ctx=ast.Store() if store else ast.Load())


def _constant(value: Any) -> ast.expr:
    if isinstance(value, list):
        return ast.List(elts=[_constant(item) for item in value], ctx=ast.Load())
    if isinstance(value, dict):
        return ast.Dict(keys=[_constant(key) for key in value], values=[_constant(item) for item in value.values()])
    return ast.Constant(value=value)


def _call(name: str, *given: ast.expr, **options: ast.expr) -> ast.expr:
    assert name in FUNCTIONS
    keywords = [ast.keyword(arg=option, value=value) for option, value in options.items()]
    return ast.Call(func=_name(name), args=list(given), keywords=keywords)


def _method(value: ast.expr, name: str, *given: ast.expr, **options: ast.expr) -> ast.expr:
    keywords = [ast.keyword(arg=option, value=item) for option, item in options.items()]
    return ast.Call(func=ast.Attribute(value=value, attr=name, ctx=ast.Load()), args=list(given), keywords=keywords)


# What Python itself answers ---------------------------------------------------------------------------------------------------


class _Attributes(ast.NodeTransformer):
    """Reads of attributes as calls of `attribute_of`; every value on the way is shown to `seen`."""

    def visit(self, node: ast.AST) -> Any:
        node = super().visit(node)
        wraps = isinstance(node, ast.expr) and not isinstance(
            node, ast.JoinedStr | ast.FormattedValue | ast.Starred | ast.Slice | ast.Lambda
        )
        if not wraps or isinstance(getattr(node, "ctx", None), ast.Store) or getattr(node, "keep", False):
            return node
        return ast.Call(func=_name("__seen"), args=[node], keywords=[])

    def visit_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name):
            node.args = [self.visit(item) for item in node.args]
            for keyword in node.keywords:
                if keyword.arg == "key" and isinstance(keyword.value, ast.Lambda):
                    keyword.value.body = self.visit(keyword.value.body)
                elif keyword.arg != "key":
                    keyword.value = self.visit(keyword.value)
            return node
        assert isinstance(node.func, ast.Attribute)
        node.func.value = self.visit(node.func.value)
        node.args = [self.visit(item) for item in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                value.value = self.visit(value.value)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        return ast.Call(func=_name("__attribute"), args=[self.visit(node.value), ast.Constant(value=node.attr)], keywords=[])


def _attribute(value: Any, name: str) -> Any:
    if isinstance(value, dict) and name in value:
        return value[name]
    raise AttributeError(f"'{type(value).__name__}' object has no attribute '{name}'")


def as_json(value: Any) -> Any:
    """What Python's json would make of a value; raises TypeError and ValueError."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"Out of range float values are not JSON compliant: {value!r}")
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, dict):
        for key in value:
            if type(key) is not str:
                raise TypeError(f"keys must be str, not {type(key).__name__}")
        return {key: as_json(item) for key, item in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def answer_of_python(text: str, values: Mapping[str, Any]) -> tuple[str, Any, bool]:
    """What Python answers: ("=", value, portable) or ("!", [type, message], portable).

    `portable` says that no value on the way is beyond what a Conductor server has.
    """
    portable = True

    def seen(value: Any) -> Any:
        nonlocal portable
        portable = portable and is_portable(value)
        return value

    tree = ast.fix_missing_locations(_Attributes().visit(ast.parse(text, mode="eval")))
    try:
        code = compile(tree, "expression", "eval")
        return "=", as_json(eval(code, {"__seen": seen, "__attribute": _attribute, **values})), portable
    except Exception as error:
        return "!", [type(error).__name__, str(error)], portable


def answers_of_javascript(cases: Sequence[tuple[str, Mapping[str, Any]]]) -> list[list[Any]]:
    """What scripts answer on their values, by QuickJS: ["=", value] or ["!", message], all of them in one run."""
    wrapped = [
        f"(($) => {{ try {{ return ['=', {script}]; }} catch (e) {{ return ['!', e.message]; }} }})($.cases[{at}])"
        for at, (script, _) in enumerate(cases)
    ]
    script = JavaScript(limits=Limits(seconds=20.0), quick=False).compile(f"[{','.join(wrapped)}]")
    answers: list[list[Any]] = script.evaluate({"cases": [dict(values) for _, values in cases]})
    return answers
