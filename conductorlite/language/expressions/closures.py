"""An expression that has been checked, compiled to closures.

Each node becomes a function of a *frame*: a list whose first entry is the budget, then the values that are read, then the variables
of comprehensions and lambdas, each in a place of its own. The order in which operands are evaluated is Python's; so are the answers
and errors, because `operations` has them from Python.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from conductorlite.language.expressions.grammar import name_of
from conductorlite.language.expressions.operations import (
    BINARY,
    COMPARISONS,
    FUNCTIONS_CARRIED_OUT,
    formatted,
    item_of,
    merged,
    method_of,
    starred,
    text_of,
    unpacked,
)

__all__ = ["Run", "compile_closure"]

#: A node, compiled: what it gives of a frame.
Run = Callable[[list[Any]], Any]
_Rounds = Callable[[list[Any]], Iterator[None]]
_Bind = Callable[[list[Any], Any], None]


def compile_closure(node: ast.expr, names: Sequence[str]) -> tuple[Run, int]:
    """Compile an expression that `grammar.check` has let pass; returns it with the length of its frame.

    The places of `names` in the frame follow each other from 1.
    """
    compiler = _Compiler({name: place for place, name in enumerate(names, 1)})
    return compiler.of(node), compiler.places


class _Compiler:
    """Compiles one expression; `_known` is the place of every name that can be read at the present node."""

    def __init__(self, known: Mapping[str, int]) -> None:
        self._known = dict(known)
        self.places = len(known) + 1

    def of(self, node: ast.AST) -> Run:
        """Compile one node."""
        return _COMPILERS[type(node)](self, node)

    def constant(self, node: ast.Constant) -> Run:
        value = node.value
        return lambda frame: value

    def name(self, node: ast.Name) -> Run:
        place = self._known[node.id]
        return lambda frame: frame[place]

    def binary(self, node: ast.BinOp) -> Run:
        left, right, operation = self.of(node.left), self.of(node.right), BINARY[type(node.op).__name__]
        return lambda frame: operation(frame[0], left(frame), right(frame))

    def unary(self, node: ast.UnaryOp) -> Run:
        operand = self.of(node.operand)
        if isinstance(node.op, ast.Not):
            return lambda frame: not operand(frame)
        if isinstance(node.op, ast.USub):
            return lambda frame: -operand(frame)
        return lambda frame: +operand(frame)

    def boolean(self, node: ast.BoolOp) -> Run:
        first, rest = self.of(node.values[0]), tuple([self.of(value) for value in node.values[1:]])
        stops = isinstance(node.op, ast.Or)

        def run(frame: list[Any]) -> Any:
            value = first(frame)
            for following in rest:
                if bool(value) is stops:
                    return value
                value = following(frame)
            return value

        return run

    def comparison(self, node: ast.Compare) -> Run:
        left = self.of(node.left)
        steps = [(COMPARISONS[type(op).__name__], self.of(right)) for op, right in zip(node.ops, node.comparators, strict=True)]
        compare, right = steps[0]
        if len(steps) == 1:
            return lambda frame: compare(frame[0], left(frame), right(frame))

        def run(frame: list[Any]) -> Any:
            answer, before = True, left(frame)
            for compare, right in steps:
                value = right(frame)
                answer = compare(frame[0], before, value)
                if not answer:
                    return answer
                before = value
            return answer

        return run

    def choice(self, node: ast.IfExp) -> Run:
        test, body, orelse = self.of(node.test), self.of(node.body), self.of(node.orelse)
        return lambda frame: body(frame) if test(frame) else orelse(frame)

    def joined(self, node: ast.JoinedStr) -> Run:
        parts = tuple([self.of(value) for value in node.values])

        def run(frame: list[Any]) -> str:
            text = "".join([part(frame) for part in parts])
            frame[0].take(len(text))
            return text

        return run

    def formatted(self, node: ast.FormattedValue) -> Run:
        value = self.of(node.value)
        convert = _CONVERSIONS.get(node.conversion)
        if convert is not None:
            value = _converted(value, convert)
        if node.format_spec is None:
            return lambda frame: formatted(frame[0], value(frame))
        spec = self.of(node.format_spec)
        return lambda frame: formatted(frame[0], value(frame), spec(frame))

    def subscript(self, node: ast.Subscript) -> Run:
        value = self.of(node.value)
        if not isinstance(node.slice, ast.Slice):
            index = self.of(node.slice)
            return lambda frame: item_of(frame[0], value(frame), index(frame))
        lower, upper, step = [
            _nothing if part is None else self.of(part) for part in (node.slice.lower, node.slice.upper, node.slice.step)
        ]
        return lambda frame: item_of(frame[0], value(frame), slice(lower(frame), upper(frame), step(frame)))

    def attribute(self, node: ast.Attribute) -> Run:
        value, name = self.of(node.value), node.attr

        def run(frame: list[Any]) -> Any:
            owner = value(frame)
            if type(owner) is dict and name in owner:
                return owner[name]
            raise AttributeError(f"'{type(owner).__name__}' object has no attribute '{name}'")

        return run

    def display(self, node: ast.List | ast.Tuple | ast.Set) -> Run:
        make: Callable[[list[Any]], Any] = {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]
        if not any(isinstance(item, ast.Starred) for item in node.elts):
            items = tuple([self.of(item) for item in node.elts])
            if make is list:
                return lambda frame: [item(frame) for item in items]
            return lambda frame: make([item(frame) for item in items])
        parts = [
            (isinstance(item, ast.Starred), self.of(item.value if isinstance(item, ast.Starred) else item)) for item in node.elts
        ]

        def run(frame: list[Any]) -> Any:
            made: list[Any] = []
            for several, part in parts:
                if several:
                    made += starred(frame[0], part(frame))
                else:
                    made.append(part(frame))
            return make(made)

        return run

    def mapping(self, node: ast.Dict) -> Run:
        # As Python does, entries are evaluated up to the next `**` before any of them is put in.
        groups: list[list[tuple[Run, Run]] | Run] = []
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                groups.append(self.of(value))
            elif groups and isinstance(groups[-1], list):
                groups[-1].append((self.of(key), self.of(value)))
            else:
                groups.append([(self.of(key), self.of(value))])

        def run(frame: list[Any]) -> dict[Any, Any]:
            made: dict[Any, Any] = {}
            for group in groups:
                if isinstance(group, list):
                    made.update([(key(frame), value(frame)) for key, value in group])
                else:
                    merged(frame[0], made, group(frame))
            return made

        return run

    def list_of(self, node: ast.ListComp) -> Run:
        rounds, item = self._rounds(node.generators, (node.elt,))
        return lambda frame: [item[0](frame) for _ in rounds(frame)]

    def set_of(self, node: ast.SetComp) -> Run:
        rounds, item = self._rounds(node.generators, (node.elt,))
        return lambda frame: {item[0](frame) for _ in rounds(frame)}

    def dict_of(self, node: ast.DictComp) -> Run:
        rounds, (key, value) = self._rounds(node.generators, (node.key, node.value))
        return lambda frame: {key(frame): value(frame) for _ in rounds(frame)}

    def generator_of(self, node: ast.GeneratorExp) -> Run:
        # Its first iterable is evaluated at once, the rest when it is asked.
        source = self.of(node.generators[0].iter)
        rounds, item = self._rounds(node.generators, (node.elt,), begun=True)

        def run(frame: list[Any]) -> Iterator[Any]:
            return generate([*frame, iter(source(frame))])

        def generate(frame: list[Any]) -> Iterator[Any]:
            for _ in rounds(frame):
                yield item[0](frame)

        return run

    def _rounds(
        self, generators: Sequence[ast.comprehension], items: Sequence[ast.expr], *, begun: bool = False
    ) -> tuple[_Rounds, list[Run]]:
        """The loops of a comprehension, as one iterator that binds its names, and what is evaluated in each round.

        `begun` says that the iterator of the first loop is the last entry of the frame.
        """
        known = self._known
        self._known = dict(known)
        loops: list[tuple[Run, _Bind, tuple[Run, ...]]] = []
        for generator in generators:
            source = _last if begun and not loops else self.of(generator.iter)
            bind = self._bind(generator.target)
            loops.append((source, bind, tuple([self.of(condition) for condition in generator.ifs])))
        compiled = [self.of(item) for item in items]
        self._known = known
        rounds = _loop(*loops[-1], None)
        for source, bind, conditions in reversed(loops[:-1]):
            rounds = _loop(source, bind, conditions, rounds)
        return rounds, compiled

    def _bind(self, target: ast.expr) -> _Bind:
        match target:
            case ast.Name(id=name):
                place = self._place(name)

                def bind(frame: list[Any], value: Any) -> None:
                    frame[place] = value

                return bind
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                star = next((at for at, item in enumerate(elts) if isinstance(item, ast.Starred)), None)
                parts = [self._bind(item.value if isinstance(item, ast.Starred) else item) for item in elts]
                before, after = (len(parts), None) if star is None else (star, len(parts) - star - 1)

                def bind_all(frame: list[Any], value: Any) -> None:
                    for part, item in zip(parts, unpacked(frame[0], value, before, after), strict=True):
                        part(frame, item)

                return bind_all
        raise TypeError(f"{type(target).__name__} cannot be bound")

    def _place(self, name: str) -> int:
        place = self._known[name] = self.places
        self.places += 1
        return place

    def call(self, node: ast.Call) -> Run:
        given = tuple([self.of(argument) for argument in node.args])
        options = {
            keyword.arg or "": self._key(keyword.value) if keyword.arg == "key" else self.of(keyword.value)
            for keyword in node.keywords
        }
        if isinstance(node.func, ast.Attribute):
            return self._method(node.func, given, options)
        name = name_of(node)
        if name == "int" and "base" in options:
            given, options = (*given, options["base"]), {}
        elif name == "round" and "ndigits" in options:
            given, options = (*given, options["ndigits"]), {}
        function = FUNCTIONS_CARRIED_OUT[name]
        if options:
            return lambda frame: function(
                frame[0], *[argument(frame) for argument in given], **{option: value(frame) for option, value in options.items()}
            )
        if len(given) == 1:
            (only,) = given
            return lambda frame: function(frame[0], only(frame))
        return lambda frame: function(frame[0], *[argument(frame) for argument in given])

    def _method(self, function: ast.Attribute, given: tuple[Run, ...], options: Mapping[str, Run]) -> Run:
        value, name = self.of(function.value), function.attr

        def run(frame: list[Any]) -> Any:
            owner = value(frame)
            method = method_of(owner, name)  # looked up before the arguments are evaluated, as in Python
            arguments = [argument(frame) for argument in given]
            return method(frame[0], owner, *arguments, **{option: argument(frame) for option, argument in options.items()})

        return run

    def _key(self, node: ast.expr) -> Run:
        """The function that is a `key=`."""
        match node:
            case ast.Lambda():
                known = self._known
                self._known = dict(known)
                place = self._place(node.args.args[0].arg)
                body = self.of(node.body)
                self._known = known

                def run(frame: list[Any]) -> Callable[[Any], Any]:
                    def key(item: Any) -> Any:
                        frame[place] = item
                        return body(frame)

                    return key

                return run
            case ast.Name(id=name):
                function = FUNCTIONS_CARRIED_OUT[name]
                return lambda frame: lambda item: function(frame[0], item)
            case ast.Attribute(attr=name):
                method = getattr(str, name)
                return lambda frame: method
        return self.of(node)


def _nothing(frame: list[Any]) -> None:
    return None


def _last(frame: list[Any]) -> Any:
    return frame[-1]


def _converted(value: Run, convert: Callable[[Any], str]) -> Run:
    return lambda frame: text_of(frame[0], value(frame), convert)


def _loop(source: Run, bind: _Bind, conditions: tuple[Run, ...], inner: _Rounds | None) -> _Rounds:
    """One `for … in … if …` of a comprehension around the loops inside it."""

    def rounds(frame: list[Any]) -> Iterator[None]:
        spend = frame[0].spend
        for item in source(frame):
            spend(1)
            bind(frame, item)
            for condition in conditions:
                if not condition(frame):
                    break
            else:
                if inner is None:
                    yield
                else:
                    yield from inner(frame)

    return rounds


#: By the code of a conversion: !s, !r, !a.
_CONVERSIONS: Final[Mapping[int, Callable[[Any], str]]] = MappingProxyType({115: str, 114: repr, 97: ascii})

_Compile = Callable[[_Compiler, Any], Run]

_COMPILERS: Final[Mapping[type[ast.AST], _Compile]] = MappingProxyType(
    {
        ast.Constant: _Compiler.constant,
        ast.Name: _Compiler.name,
        ast.BinOp: _Compiler.binary,
        ast.UnaryOp: _Compiler.unary,
        ast.BoolOp: _Compiler.boolean,
        ast.Compare: _Compiler.comparison,
        ast.IfExp: _Compiler.choice,
        ast.JoinedStr: _Compiler.joined,
        ast.FormattedValue: _Compiler.formatted,
        ast.Subscript: _Compiler.subscript,
        ast.Attribute: _Compiler.attribute,
        ast.List: _Compiler.display,
        ast.Tuple: _Compiler.display,
        ast.Set: _Compiler.display,
        ast.Dict: _Compiler.mapping,
        ast.ListComp: _Compiler.list_of,
        ast.SetComp: _Compiler.set_of,
        ast.DictComp: _Compiler.dict_of,
        ast.GeneratorExp: _Compiler.generator_of,
        ast.Call: _Compiler.call,
    }
)
