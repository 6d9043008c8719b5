"""The JavaScript of an expression: what a Conductor server carries out in place of the Python.

Each node becomes a call of a function of `runtime.js`, or an operator where what it stands between is certain to be a truth. A
script has the functions that it needs, in the order of that file, then the values that it reads (`$.name`), then one expression. It
follows from the tree alone, so the JavaScript of a definition can be compared with what is made of its Python.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from conductorlite.language.expressions.grammar import kind_of, name_of
from conductorlite.language.expressions.keys import input_key
from conductorlite.language.values import SAFE_LIMIT
from conductorlite.model.later import pattern

__all__ = ["write_javascript"]

_FUNCTION: Final = pattern(r"^function\*? (\w+)", re.MULTILINE)
#: A text of JavaScript; a function that is called, or given to another one.
_QUOTED: Final = pattern(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\"""")
_USE: Final = pattern(r"(?<![\w.$])([A-Za-z]\w*)(?=[(,)])")
_INDENT: Final = pattern(r"\n\s+")
_PLAIN: Final = pattern(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def write_javascript(tree: ast.expr, names: Sequence[str]) -> str:
    """The script of an expression that `grammar.check` has let pass and that reads these names."""
    writer = _Writer()
    answer = writer.of(tree)
    reads = [f"const {_local(name)} = {writer.use('val')}({_path(input_key(name))});" for name in names]
    end = answer if kind_of(tree) in ("bool", "str") else f"{writer.use('out')}({answer})"
    lines = [*_functions(frozenset(writer.used)), *reads, f"return {end};"]
    return "(function () {\n" + "\n".join(lines) + "\n})()"


def _path(key: str) -> str:
    return f"$.{key}" if _PLAIN.match(key) else f"$[{_text(key)}]"


def _local(name: str) -> str:
    """A name that is none of JavaScript and none of a function."""
    return f"_{name}" if _PLAIN.match(name) else "_u" + "_".join(f"{ord(sign):x}" for sign in name)


def _text(value: str) -> str:
    """A text of JavaScript, in which Conductor finds no expression."""
    return json.dumps(value).replace("${", "\\u0024{")


@cache
def _pieces() -> Mapping[str, tuple[str, frozenset[str]]]:
    """The functions of `runtime.js` in their order: the text of each, and which others it uses."""
    text = files("conductorlite.language.expressions").joinpath("runtime.js").read_text("utf-8")
    starts = [found.start() for found in _FUNCTION.finditer(text)]
    bodies = [text[start:end].rstrip() for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    names = [body.partition("(")[0].split()[-1] for body in bodies]
    known = frozenset(names)
    return MappingProxyType(
        {
            name: (_INDENT.sub("\n", _without_comments(body)), known & frozenset(_USE.findall(_QUOTED.sub("''", body))) - {name})
            for name, body in zip(names, bodies, strict=True)
        }
    )


def _without_comments(body: str) -> str:
    return "\n".join(line for line in body.split("\n") if not line.lstrip().startswith("//"))


@cache
def _functions(used: frozenset[str]) -> tuple[str, ...]:
    """The functions that are used with those that they use, in the order of their file."""
    pieces = _pieces()
    needed: set[str] = set()
    pending = list(used)
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending += pieces[name][1]
    return tuple(body for name, (body, _) in pieces.items() if name in needed)


_BINARY: Final[Mapping[type[ast.operator], str]] = MappingProxyType(
    {
        ast.Add: "add",
        ast.Sub: "sub",
        ast.Mult: "mul",
        ast.Div: "div",
        ast.FloorDiv: "floordiv",
        ast.Mod: "mod",
        ast.Pow: "pow",
    }
)
_SIGNS: Final[Mapping[type[ast.cmpop], str]] = MappingProxyType(
    {
        ast.Eq: "==",
        ast.NotEq: "!=",
        ast.Lt: "<",
        ast.LtE: "<=",
        ast.Gt: ">",
        ast.GtE: ">=",
        ast.In: "in",
        ast.NotIn: "not in",
        ast.Is: "is",
        ast.IsNot: "is not",
    }
)
#: Functions and methods that are called otherwise in `runtime.js`.
_FUNCTIONS: Final[Mapping[str, str]] = MappingProxyType({"bool": "truth", "tuple": "tupleOf"})
_METHODS: Final[Mapping[str, str]] = MappingProxyType({"get": "getOr", "items": "itemsOf"})


#: Parameters in the order of `runtime.js` of what takes some by name; of a method, those behind its value.
_PARAMETERS: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "enumerate": ("iterable", "start"),
        "int": ("number", "base"),
        "round": ("number", "ndigits"),
        "rsplit": ("sep", "maxsplit"),
        "sorted": ("iterable", "key", "reverse"),
        "split": ("sep", "maxsplit"),
        "splitlines": ("keepends",),
        "sum": ("iterable", "start"),
    }
)


class _Writer:
    """Writes the nodes of one expression; `used` are the functions that it calls."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def use(self, name: str) -> str:
        """The name of a function of `runtime.js`, which the script will have."""
        self.used.add(name)
        return name

    def call(self, name: str, *arguments: str) -> str:
        """A call of such a function."""
        return f"{self.use(name)}({', '.join(arguments)})"

    def of(self, node: ast.AST) -> str:
        """One node."""
        return _WRITERS[type(node)](self, node)

    def truth(self, node: ast.expr) -> str:
        """Python's truth of a node."""
        return self.of(node) if kind_of(node) == "bool" else self.call("truth", self.of(node))

    def constant(self, node: ast.Constant) -> str:
        value: Any = node.value
        if value is None or type(value) is bool:
            return {None: "null", True: "true", False: "false"}[value]
        if type(value) is str:
            return _text(value)
        if abs(value) > SAFE_LIMIT:
            return self.call("beyond", _text(str(value)))
        return str(int(value)) if value == int(value) else repr(value)

    def name(self, node: ast.Name) -> str:
        return _local(node.id)

    def binary(self, node: ast.BinOp) -> str:
        return self.call(_BINARY[type(node.op)], self.of(node.left), self.of(node.right))

    def unary(self, node: ast.UnaryOp) -> str:
        if isinstance(node.op, ast.Not):
            return f"!{self.truth(node.operand)}"
        return self.call("neg" if isinstance(node.op, ast.USub) else "pos", self.of(node.operand))

    def boolean(self, node: ast.BoolOp) -> str:
        conjunction = isinstance(node.op, ast.And)
        if all(kind_of(value) == "bool" for value in node.values):
            return f"({(' && ' if conjunction else ' || ').join(map(self.of, node.values))})"
        first, *rest = map(self.of, node.values)
        return self.call("and" if conjunction else "or", first, *[_later(value) for value in rest])

    def comparison(self, node: ast.Compare) -> str:
        if len(node.ops) == 1:
            return self._compared(node.left, node.ops[0], node.comparators[0])
        steps = [
            part
            for op, right in zip(node.ops, node.comparators, strict=True)
            for part in (_text(_SIGNS[type(op)]), _later(self.of(right)))
        ]
        return self.call("chain", self.of(node.left), *steps)

    def _compared(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> str:
        one, other = self.of(left), self.of(right)
        match op:
            case ast.Eq():
                return self.call("eq", one, other)
            case ast.NotEq():
                return "!" + self.call("eq", one, other)
            case ast.In() | ast.NotIn():
                # The value is evaluated before what it is looked for in.
                found = f"(v => {self.call('has', other, 'v')})({one})" if _calls(left) else self.call("has", other, one)
                return found if isinstance(op, ast.In) else f"!{found}"
            case ast.Is():
                return f"({one} === {other})"
            case ast.IsNot():
                return f"({one} !== {other})"
        return self.call("lt", one, other, *([] if isinstance(op, ast.Lt) else [_text(_SIGNS[type(op)])]))

    def choice(self, node: ast.IfExp) -> str:
        return f"({self.truth(node.test)} ? {self.of(node.body)} : {self.of(node.orelse)})"

    def joined(self, node: ast.JoinedStr) -> str:
        parts = [self.of(value) for value in node.values]
        if not parts:
            return '""'
        return f"({' + '.join(parts)})" if len(parts) > 1 else parts[0]

    def formatted(self, node: ast.FormattedValue) -> str:
        value = self.of(node.value)
        conversion = {115: "str", 114: "repr", 97: "ascii"}.get(node.conversion)
        if conversion is not None:
            value = self.call(conversion, value)
        if node.format_spec is None:
            return value if conversion is not None else self.call("str", value)
        return self.call("format", value, self.of(node.format_spec))

    def subscript(self, node: ast.Subscript) -> str:
        if not isinstance(node.slice, ast.Slice):
            return self.call("get", self.of(node.value), self.of(node.slice))
        parts = ["null" if part is None else self.of(part) for part in (node.slice.lower, node.slice.upper, node.slice.step)]
        return self.call("slice", self.of(node.value), *parts)

    def attribute(self, node: ast.Attribute) -> str:
        return self.call("attr", self.of(node.value), _text(node.attr))

    def display(self, node: ast.List | ast.Tuple | ast.Set) -> str:
        items = [
            f"...{self.call('star', self.of(item.value))}" if isinstance(item, ast.Starred) else self.of(item) for item in node.elts
        ]
        made = f"[{', '.join(items)}]"
        if isinstance(node, ast.Tuple):
            return self.call("tuple", made)
        return self.call("set", made) if isinstance(node, ast.Set) else made

    def mapping(self, node: ast.Dict) -> str:
        made = self.call("made")
        group: list[str] = []
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None:
                group.append(f"[{self.of(key)}, {self.of(value)}]")
                continue
            made = self.call("merge", self._filled(made, group), self.of(value))
            group = []
        return self._filled(made, group)

    def _filled(self, made: str, group: Sequence[str]) -> str:
        return self.call("puts", made, f"[{', '.join(group)}]") if group else made

    def list_of(self, node: ast.ListComp) -> str:
        return self.call("list", self._generator(node.generators, self.of(node.elt)))

    def set_of(self, node: ast.SetComp) -> str:
        return self.call("set", self._generator(node.generators, self.of(node.elt)))

    def dict_of(self, node: ast.DictComp) -> str:
        return self.call(
            "puts", self.call("made"), self._generator(node.generators, f"[{self.of(node.key)}, {self.of(node.value)}]")
        )

    def generator_of(self, node: ast.GeneratorExp) -> str:
        return self._generator(node.generators, self.of(node.elt))

    def _generator(self, generators: Sequence[ast.comprehension], item: str) -> str:
        """An iterator over what a comprehension gives; its first iterable is evaluated outside it."""
        body = f"yield {item};"
        for at in range(len(generators) - 1, -1, -1):
            generator = generators[at]
            for condition in reversed(generator.ifs):
                body = f"if ({self.truth(condition)}) {{ {body} }}"
            source = "it" if at == 0 else self.call("iter", self.of(generator.iter))
            bound = " ".join(self._bound(generator.target, "each", [0]))
            body = f"for (const each of {source}) {{ {bound} {body} }}"
        return f"(function* (it) {{ {body} }})({self.call('iter', self.of(generators[0].iter))})"

    def _bound(self, target: ast.expr, value: str, numbers: list[int]) -> Iterator[str]:
        if isinstance(target, ast.Name):
            yield f"const {_local(target.id)} = {value};"
            return
        elts = _parts_of(target)
        star = next((at for at, item in enumerate(elts) if isinstance(item, ast.Starred)), None)
        counts = [str(len(elts))] if star is None else [str(star), str(len(elts) - star - 1)]
        numbers[0] += 1
        several = f"each{numbers[0]}"
        yield f"const {several} = {self.call('unpack', value, *counts)};"
        for at, item in enumerate(elts):
            yield from self._bound(item.value if isinstance(item, ast.Starred) else item, f"{several}[{at}]", numbers)

    def called(self, node: ast.Call) -> str:
        given = [self.of(argument) for argument in node.args]
        named = {
            keyword.arg or "": self._key(keyword.value) if keyword.arg == "key" else self.of(keyword.value)
            for keyword in node.keywords
        }
        if isinstance(node.func, ast.Attribute):
            name = node.func.attr
            given = _in_order(given, named, _PARAMETERS.get(name, ())) if named else given
            function, value = _METHODS.get(name, name), self.of(node.func.value)
            if not any(map(_calls, node.args)):
                return self.call(function, value, *given)
            # Whether the value has the method is asked before the arguments are evaluated.
            return f"(v => {self.call(function, self.call('owner', 'v', _text(name)), *given)})({value})"
        name = name_of(node)
        if name == "reraise":
            return self.call("reraise", given[0], given[1])
        if name == "fail":
            return self.call("fail", self.of(_parts_of(node.args[0])[0]), self.call("str", given[1]))
        if name == "zip":
            return self.call("zip", self.call("truth", named["strict"]) if named else "false", f"[{', '.join(given)}]")
        if name in ("min", "max"):
            return self.call("extreme", _text(name), f"[{', '.join(given)}]", *_in_order((), named, ("key", "default")))
        if name == "dict" and named:
            more = ", ".join(f"[{_text(key)}, {value}]" for key, value in named.items())
            return self.call("dict", *(given or ["undefined"]), self.call("puts", self.call("made"), f"[{more}]"))
        return self.call(_FUNCTIONS.get(name, name), *(_in_order(given, named, _PARAMETERS[name]) if named else given))

    def _key(self, node: ast.expr) -> str:
        match node:
            case ast.Lambda():
                return f"({_local(node.args.args[0].arg)} => {self.of(node.body)})"
            case ast.Name(id="min" | "max" as name):
                return f"(v => {self.call('extreme', _text(name), '[v]')})"
            case ast.Name(id=name):
                return f"(v => {self.call(_FUNCTIONS.get(name, name), 'v')})"
            case ast.Attribute(attr=name):
                return f"(v => {self.call(name, self.call('ofText', 'v', _text(name)))})"
        return "null"


def _parts_of(node: ast.AST) -> Sequence[ast.expr]:
    found: Sequence[ast.expr] = getattr(node, "elts", ())
    return found


def _later(value: str) -> str:
    return f"() => {value}"


def _in_order(given: Sequence[str], named: Mapping[str, str], parameters: Sequence[str]) -> list[str]:
    """Arguments in the order of their parameters, those that are given by name among them."""
    found = [*given, *(["undefined"] * (len(parameters) - len(given)))]
    for name, value in named.items():
        found[parameters.index(name)] = value
    while found and found[-1] == "undefined":
        found.pop()
    return found


def _calls(node: ast.expr) -> bool:
    """Return True if evaluating it may fail, so that its turn matters."""
    return not isinstance(node, ast.Constant | ast.Name)


_Write = Callable[[_Writer, Any], str]

_WRITERS: Final[Mapping[type[ast.AST], _Write]] = MappingProxyType(
    {
        ast.Constant: _Writer.constant,
        ast.Name: _Writer.name,
        ast.BinOp: _Writer.binary,
        ast.UnaryOp: _Writer.unary,
        ast.BoolOp: _Writer.boolean,
        ast.Compare: _Writer.comparison,
        ast.IfExp: _Writer.choice,
        ast.JoinedStr: _Writer.joined,
        ast.FormattedValue: _Writer.formatted,
        ast.Subscript: _Writer.subscript,
        ast.Attribute: _Writer.attribute,
        ast.List: _Writer.display,
        ast.Tuple: _Writer.display,
        ast.Set: _Writer.display,
        ast.Dict: _Writer.mapping,
        ast.ListComp: _Writer.list_of,
        ast.SetComp: _Writer.set_of,
        ast.DictComp: _Writer.dict_of,
        ast.GeneratorExp: _Writer.generator_of,
        ast.Call: _Writer.called,
    }
)
