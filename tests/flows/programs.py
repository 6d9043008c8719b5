"""Random functions of the grammar of flows, and what carries them out twice: as Python, and as a flow.

A program is a function over integers, texts and lists that calls tasks: some return, one raises at its first attempt, one
raises for every third argument. As Python the tasks are called as functions; as a flow an engine with a virtual clock carries
them out. What both have to agree in is an `Outcome`.
"""

from __future__ import annotations

import ast
import copy
import itertools
import linecache
import random
from collections import Counter
from pathlib import Path
from typing import Any

import attrs

from conductorlite import Engine, VirtualClock, flow, task
from conductorlite.errors import WorkflowFailed
from conductorlite.flows import Flow

__all__ = ["Outcome", "Program", "as_flow", "as_python", "compiled", "has_fork", "nested_kinds", "program"]

Anything = int | str | float | bool | list[Any] | dict[str, Any] | None

#: What was called, in order: the task and its argument.
_calls: list[tuple[str, Any]] = []
#: Arguments with which `flaky` has failed once already; None: it never fails, as a program in Python does not retry.
_failed: set[str] | None = None
_numbers = itertools.count()


@task
def plus(number: int) -> int:
    """Adds one."""
    _calls.append(("plus", number))
    return number + 1


@task
def listed(number: int) -> list[int]:
    """Some numbers."""
    _calls.append(("listed", number))
    return list(range(number % 4))


@task
def said(text: str) -> str:
    """A text with a mark."""
    _calls.append(("said", text))
    return f"{text}!"[-12:]


@task
def shown(value: int | str | list[int]) -> str:
    """Any value as a text."""
    _calls.append(("shown", list(value) if isinstance(value, list) else value))
    return str(value)[:20]


@task(retry=1)
def flaky(number: int) -> int:
    """Fails once for each argument, then doubles it."""
    if _failed is not None and str(number) not in _failed:
        _failed.add(str(number))
        raise ConnectionError("no answer")
    _calls.append(("flaky", number))
    return number * 2 % 1000


@task(retry=0)
def picky(number: int) -> int:
    """Raises for every multiple of three."""
    _calls.append(("picky", number))
    if number % 3 == 0:
        raise ValueError(f"not {number}")
    return number


class Missing(KeyError):
    """Raised by a task."""


@task(retry=0)
def missing(number: int) -> int:
    """Raises for every even number."""
    _calls.append(("missing", number))
    if number % 2 == 0:
        raise Missing(f"no {number}")
    return number


@flow
def halved(number: int) -> int:
    """A flow that is called in others."""
    if number < 0:
        raise ValueError(f"below {number}")
    return plus(number) // 2


TASKS = {"missing": missing, "plus": plus, "listed": listed, "said": said, "shown": shown, "flaky": flaky, "picky": picky}
NUMBERS = (0, 1, 2, 3, -1, 7, 100, 2**60)
TEXTS = ("", "a", "héllo 😀", "a,b,c", "  x ")


@attrs.frozen(eq=True)
class Outcome:
    """How a program ended: its value with its type, or the exception; and the calls it has made.

    Calls of a fork are made at once, in any order.
    """

    value: Any
    raised: str | None
    calls: list[tuple[str, Any]]

    def agrees(self, other: Outcome, *, forks: bool) -> bool:
        """Whether another one is the same, for a program with or without forks."""
        mine, theirs = (sorted(map(repr, one.calls)) if forks else one.calls for one in (self, other))
        return (self.value, self.raised, mine) == (other.value, other.raised, theirs)


@attrs.frozen
class Program:
    """A function's text, and the arguments it is called with."""

    source: str
    arguments: dict[str, Any]


class _Writer:
    """Writes one random function."""

    def __init__(self, chance: random.Random, size: int) -> None:
        self.chance = chance
        self.left = size
        self.names: dict[str, list[str]] = {
            "int": ["a", "b"],
            "str": ["s"],
            "list": ["xs"],
            "dict": ["d"],
            "float": ["f"],
            "maybe": ["o"],
        }
        self.lines: list[str] = []
        self.loops = 0
        #: Loops around that go over `xs`, to which nothing may be appended there.
        self.over_xs = 0
        self.fresh = itertools.count(1)

    def pick(self, *choices: Any) -> Any:
        return self.chance.choice(choices)

    # -------------------------------------------------------------- expressions

    def number(self, depth: int = 0, calls: bool = True) -> str:
        kind = self.chance.randrange(16 if depth < 3 else 3)
        if kind < 2:
            return str(self.pick(*NUMBERS))
        if kind < 6:
            return self.chance.choice(self.names["int"])
        deeper = depth + 1
        if kind == 6 and calls:
            return f"{self.pick('plus', 'flaky', 'picky', 'missing')}({self.number(deeper)})"
        if kind == 7:
            return f"len({self.sequence(deeper, calls)})"
        if kind == 8:
            return f"({self.number(deeper, calls)} if {self.test(deeper, calls)} else {self.number(deeper, calls)})"
        if kind == 9 and self.chance.random() < 0.3:
            return self.chance.choice(self.names["dict"]) + self.pick("[s]", ".get(s, 3)", "[s + '']", ".get('b', 0)")
        if kind == 9:
            return f"{self.chance.choice(self.names['list'])}[{self.pick(0, -1, 1)}]"
        if kind == 10:
            return f"sum({self.sequence(deeper, calls)})"
        if kind == 11:
            return f"({self.number(deeper, calls)} {self.pick('//', '%')} {self.number(deeper, calls)})"
        if kind == 12:
            return f"({self.number(deeper, calls)} {self.pick('or', 'and')} {self.number(deeper, calls)})"
        if kind == 13 and self.chance.random() < 0.3:
            return f"{self.pick('max', 'min')}({self.sequence(deeper, calls)}, default={self.number(deeper, calls)})"
        if kind == 13:
            return f"abs({self.number(deeper, calls)})"
        return f"({self.number(deeper, calls)} {self.pick('+', '-')} {self.number(deeper, calls)})"

    def fraction(self, depth: int = 0) -> str:
        kind = self.chance.randrange(8 if depth < 3 else 3)
        if kind < 2:
            return self.chance.choice(self.names["float"])
        if kind == 2:
            return str(self.pick(0.5, -0.25, 2.0, 1e-7, 0.1))
        deeper = depth + 1
        if kind == 3:
            return f"({self.number(deeper, False)} / {self.pick(3, 4, self.number(deeper, False))})"
        if kind == 4:
            return f"round({self.fraction(deeper)}, {self.pick(0, 1, 2)})"
        if kind == 5:
            return f"float({self.pick('a', 'len(xs)', repr('1.5'))})"
        if kind == 6:
            return f"abs({self.fraction(deeper)})"
        return f"({self.fraction(deeper)} {self.pick('+', '-', '<', '==')} {self.fraction(deeper)})"

    def optional(self) -> str:
        return self.pick("None", self.chance.choice(self.names["maybe"]), f"(None if {self.test(1)} else {self.number(1)})")

    def text(self, depth: int = 0, calls: bool = True) -> str:
        kind = self.chance.randrange(11 if depth < 3 else 2)
        if kind == 9:
            spec = self.pick(f"{self.number(depth + 1, False)}:>6", f"{self.fraction(depth + 1)}:.2f", "o", "xs!r:<9", "s!r", "d")
            return f'f"{self.pick("", "a ")}{{{spec}}}"'
        if kind == 10:
            return self.pick("', '.join(str(v) for v in xs)", "s.split(',')[0]", "s.replace('a', 'b')", "str(o)", "','.join(d)")
        if kind == 0:
            return repr(self.pick(*TEXTS))
        if kind < 3:
            return self.chance.choice(self.names["str"])
        deeper = depth + 1
        if kind == 3 and calls:
            return f"said({self.text(deeper)})"
        if kind == 4 and calls:
            return f"shown({self.pick(self.number, self.text, self.sequence)(deeper)})"
        if kind == 5:
            return (
                f'f"{self.pick("<", "")}{{{self.number(deeper, False)}}}{self.pick(">", "")}"'
                if calls
                else f"str({self.number(deeper, False)})"
            )
        if kind == 6:
            return f"({self.text(deeper, calls)}).{self.pick('upper()', 'strip()', 'title()', 'lower()')}"
        if kind == 7:
            return f"({self.text(deeper, calls)})[{self.pick(':2', '1:', '::-1')}]"
        return f"({self.text(deeper, calls)} + {self.text(deeper, calls)})"

    def sequence(self, depth: int = 0, calls: bool = True) -> str:
        kind = self.chance.randrange(12 if depth < 3 else 2)
        if kind == 10:
            return self.pick(
                "[*xs, *xs]", "list(d.values())", "[len(v) for v in s.split(',')]", "[v for v in range(3) for w in xs if v < w]"
            )
        if kind == 11:
            return f"list(range({self.pick(3, 'len(s)', 'min(a, 4)')}))"
        if kind == 0:
            return f"[{', '.join(self.number(depth + 2, calls) for _ in range(self.chance.randrange(3)))}]"
        if kind < 4:
            return self.chance.choice(self.names["list"])
        deeper = depth + 1
        if kind == 4 and calls:
            return f"listed({self.number(deeper)})"
        if kind == 5:
            return f"[v {self.pick('+', '*', '-')} {self.number(deeper, False)} for v in {self.sequence(deeper, calls)}]"
        if kind == 6:
            key = self.pick("", ", key=lambda v: -v", ", key=lambda v: (v % 3, v)", ", key=str", ", reverse=True")
            return f"sorted({self.sequence(deeper, calls)}{key})"
        if kind == 7:
            return f"({self.sequence(deeper, calls)})[{self.pick(':2', '1:', '::-1')}]"
        if kind == 8 and calls:
            inner = self.pick("plus(v)", "plus(v + a)", "flaky(v)")
            condition = self.pick("", " if v % 2", " if v > a")
            return f"[{inner} for v in {self.sequence(deeper)}{condition}]"
        return f"({self.sequence(deeper, calls)} + [{self.number(deeper, calls)}])"

    def test(self, depth: int = 0, calls: bool = True) -> str:
        kind = self.chance.randrange(9 if depth < 3 else 2)
        deeper = depth + 1
        if kind < 3:
            return f"{self.number(deeper, calls)} {self.pick('<', '>', '==', '!=', '<=')} {self.number(deeper, calls)}"
        if kind == 3:
            return f"({self.test(deeper, calls)} {self.pick('and', 'or')} {self.test(deeper, calls)})"
        if kind == 4:
            return f"(not {self.test(deeper, calls)})"
        if kind == 5 and self.chance.random() < 0.5:
            return self.pick(
                "o is None", "o is not None", "s in d", "'a' in s", "o == a", "any(v > 1 for v in xs)", "f < 1", "not d"
            )
        if kind == 5:
            return f"{self.number(deeper, calls)} in {self.sequence(deeper, calls)}"
        if kind == 6:
            return f"{self.number(deeper, calls)} < {self.number(deeper, calls)} <= {self.number(deeper, calls)}"
        return str(self.pick(self.text, self.sequence, self.number)(deeper, calls))

    def mapping(self) -> str:
        form = self.chance.randrange(4)
        if form == 0:
            return f"{{'a': {self.number(1)}, {self.text(2)}: {self.number(1)}}}"
        if form == 1:
            return f"{{**{self.chance.choice(self.names['dict'])}, 'b': {self.number(1)}}}"
        if form == 2:
            return f"{{str(v): v for v in {self.sequence(1)}}}"
        return self.chance.choice(self.names["dict"])

    def any(self) -> tuple[str, str]:
        kind = self.pick("int", "int", "str", "list", "dict", "float", "maybe") if self.chance.random() < 0.5 else "int"
        makers: dict[str, Any] = {
            "int": self.number, "str": self.text, "list": self.sequence, "dict": self.mapping, "float": self.fraction,
            "maybe": self.optional,
        }  # fmt: skip
        return kind, makers[kind]()

    def change(self, indent: int) -> None:
        """Changes a list or a dict."""
        if self.chance.random() < 0.5:
            name = self.chance.choice(self.names["dict"])
            key = self.pick("'a'", "s", "'b'", "str(a)")
            self.line(
                self.pick(
                    f"{name}[{key}] = {self.number(1)}",
                    f"{name}[{key}] += {self.number(1)}",
                    f"a = {name}.pop({key}, {self.number(2, False)})",
                    f"b = {name}.setdefault({key}, {self.number(1)})",
                    f"{name}.update({self.mapping()})",
                    f"del {name}[{key}]",
                    f"{name}.clear()",
                ),
                indent,
            )
            return
        name = self.pick("xs", self.chance.choice(self.names["list"]))
        self.line(
            self.pick(
                f"{name}[{self.pick(0, -1, 1, 'a')}] = {self.number(1)}",
                f"{name}[{self.pick(0, -1)}] -= {self.number(1)}",
                f"{name}.insert({self.pick(0, 1, -1, 'a')}, {self.number(1)})",
                f"b = {name}.pop({self.pick('', '0', '-1')})",
                f"{name}.pop()",
                f"{name}.sort()",
                f"{name}.reverse()",
                f"{name}.extend({self.sequence(1)})",
                f"{name} += {self.pick('(1, a)', self.sequence(1))}",
                f"{name}.remove({self.pick('a', '1')})",
                f"del {name}[{self.pick('0', '-1')}]",
            ),
            indent,
        )

    # -------------------------------------------------------------- statements

    def line(self, text: str, indent: int) -> None:
        self.lines.append("    " * indent + text)

    def block(self, indent: int, loop: bool, again: str = "") -> None:
        before = {kind: list(names) for kind, names in self.names.items()}
        for _ in range(self.chance.randrange(1, 4)):
            if self.left <= 0:
                break
            self.statement(indent, loop)
        if loop and self.chance.random() < 0.2:
            self.line(self.pick("break", "continue"), indent)
        elif again and self.chance.random() < 0.2:
            self.line(again, indent)
        elif self.chance.random() < 0.06:
            self.line(f"raise {self.pick('ValueError', 'KeyError', 'LookupError')}({self.any()[1]})", indent)
        elif self.chance.random() < 0.12:
            kind, value = self.any()
            # An empty map that is returned alone is nothing.
            self.line(f"return [{value}]" if kind == "dict" else f"return {value}", indent)
        else:
            self.line("pass", indent)
        self.names = before

    def statement(self, indent: int, loop: bool) -> None:
        self.left -= 1
        kind = self.chance.randrange(13)
        if kind < 3 or indent > 4:
            self.assign(indent)
        elif kind == 3:
            name = self.chance.choice(self.names["int"])
            self.line(f"{name} {self.pick('+=', '-=')} {self.number(1)}", indent)
        elif kind == 4:
            self.several(indent)
        elif kind == 5 and not self.over_xs and self.chance.random() < 0.4:
            self.line(f"xs.append({self.number(1)})", indent)
        elif kind == 5 and not self.over_xs and self.chance.random() < 0.8:
            self.change(indent)
        elif kind == 5 and self.chance.random() < 0.3:
            self.line(f"assert {self.test(1)}, {self.text(1)}", indent)
        elif kind == 5:
            self.line(f"{self.pick('plus', 'picky', 'missing')}({self.number(1)})", indent)
        elif kind in (6, 7, 8):
            self.branches(indent, loop)
        elif kind == 9 and self.loops < 2:
            self.counted(indent)
        elif kind in (10, 11) and self.loops < 2:
            self.over(indent)
        elif kind == 12 and self.chance.random() < 0.5:
            self.cases(indent, loop)
        elif kind == 12:
            self.attempt(indent, loop)
        else:
            self.assign(indent)

    def several(self, indent: int) -> None:
        """Assigns several names, or what a flow gives."""
        first, second = self.chance.choice(self.names["int"]), self.chance.choice(self.names["int"])
        form = self.chance.randrange(3)
        if form == 0:
            self.line(f"{first} = {second} = {self.number(1)}", indent)
        elif form == 1:
            self.line(f"{self.pick('a', 'b')} = halved({self.number(1)})", indent)
        elif first != second:
            self.line(f"{first}, {second} = {self.number(1)}, {self.number(1)}", indent)

    def assign(self, indent: int) -> None:
        kind, value = self.any()
        known = self.names[kind]
        name = self.chance.choice(known) if self.chance.random() < 0.6 else f"{kind[0]}{next(self.fresh)}"
        self.line(f"{name} = {value}", indent)
        if name not in known:
            known.append(name)

    def branches(self, indent: int, loop: bool) -> None:
        self.line(f"if {self.test()}:", indent)
        self.block(indent + 1, loop)
        if self.chance.random() < 0.3:
            self.line(f"elif {self.test()}:", indent)
            self.block(indent + 1, loop)
        if self.chance.random() < 0.6:
            self.line("else:", indent)
            self.block(indent + 1, loop)

    def cases(self, indent: int, loop: bool) -> None:
        self.line(f"match {self.number(1)}:", indent)
        for pattern in (str(self.pick(0, 1)), "2 | 3", f"_ if {self.test(1)}", "_")[self.chance.randrange(3) :]:
            self.line(f"case {pattern}:", indent + 1)
            self.block(indent + 2, loop)

    def attempt(self, indent: int, loop: bool) -> None:
        self.line("try:", indent)
        if self.chance.random() < 0.4:
            name = self.chance.choice(self.names["int"])
            head = self.pick(f"{name} = ", "", "return ") if self.chance.random() < 0.5 else f"{name} = "
            call = f"{self.pick('picky', 'picky', 'missing', 'flaky')}({self.pick('a', 'b', '3', name)})"
            self.line(f"{head}{call}", indent + 1)
        else:
            self.block(indent + 1, loop)
        handlers = self.chance.sample(
            ["ValueError", "LookupError", "(KeyError, TypeError)", "Missing", "Exception"], self.pick(0, 1, 1, 2)
        )
        if "Exception" in handlers:
            handlers.append(handlers.pop(handlers.index("Exception")))
        for handler in handlers:
            self.handler(handler, indent, loop)
        if handlers and self.chance.random() < 0.3:
            self.line("else:", indent)
            self.block(indent + 1, loop)
        if not handlers or self.chance.random() < 0.25:
            self.line("finally:", indent)
            self.block(indent + 1, False)

    def handler(self, kind: str, indent: int, loop: bool) -> None:
        named = self.chance.random() < 0.5
        self.line(f"except {kind}{' as error' if named else ''}:", indent)
        if named:
            name = f"s{next(self.fresh)}"
            said = self.pick("str(error)", 'f"{error}"', "type(error).__name__ + str(error)")
            self.line(f"{name} = {said}", indent + 1)
            self.line(f"s = {name}", indent + 1)
        self.block(indent + 1, loop, self.pick("raise", "raise error") if named else "raise")

    def counted(self, indent: int) -> None:
        name = f"w{next(self.fresh)}"
        self.loops += 1
        self.line(f"{name} = {self.pick(0, 1, 5)}", indent)
        self.line(f"while {self.pick(f'{name} < 3', f'{name} < 4 and {self.test(1)}', 'True')}:", indent)
        self.line(f"{name} += 1", indent + 1)
        self.line(f"if {name} > 4:", indent + 1)
        self.line("break", indent + 2)
        self.block(indent + 1, True)
        self.ending(indent)

    def over(self, indent: int) -> None:
        name = f"i{next(self.fresh)}"
        self.loops += 1
        form = self.chance.randrange(7)
        if form == 5:
            self.line(f"for {name} in {self.pick('[len(k) for k in d]', 'd.values()', 'reversed(xs)', 'sorted(xs)[1:]')}:", indent)
        elif form == 6:
            self.line(f"for k{name}, {name} in d.items():", indent)
        elif form == 0:
            self.line(f"for {name} in range({self.pick('3', 'len(xs)')}):", indent)
        elif form == 1:
            self.line(f"for n{name}, {name} in enumerate({self.sequence(1)}):", indent)
        elif form == 2:
            self.line(f"for {name} in (1, {self.number(1)}):", indent)
        elif form == 3:
            self.line(f"for {name}, z{name} in zip({self.sequence(1)}, {self.sequence(1)}):", indent)
        else:
            self.line(f"for {name} in {self.sequence(1)}:", indent)
        before = list(self.names["int"])
        self.names["int"].append(name)
        going = "xs" in self.lines[-1] or " d" in self.lines[-1] or "(d" in self.lines[-1]
        self.over_xs += going
        self.block(indent + 1, True)
        self.over_xs -= going
        self.names["int"] = before
        self.ending(indent)

    def ending(self, indent: int) -> None:
        self.loops -= 1
        if self.chance.random() < 0.25:
            self.line("else:", indent)
            self.block(indent + 1, self.loops > 0)  # a `break` there ends the loop around


def program(seed: int, size: int = 9) -> Program:
    """A random program; the same for the same seed."""
    chance = random.Random(seed)
    writer = _Writer(chance, size)
    while writer.left > 0:
        writer.statement(1, False)
    kept = [name for names in writer.names.values() for name in names]
    writer.line(f"return [{', '.join(kept)}]", 1)
    text = "\n".join(
        [
            "def program(a: int, b: int, s: str, xs: list[int], d: dict[str, int], f: float, o: int | None) -> Anything:",
            *writer.lines,
            "",
        ]
    )
    arguments = {
        "a": chance.choice(NUMBERS),
        "b": chance.choice(NUMBERS),
        "s": chance.choice(TEXTS),
        "xs": [chance.choice(NUMBERS) for _ in range(chance.randrange(4))],
        "f": chance.choice((0.0, 0.5, -1.25, 1e16, 3.0)),
        "o": chance.choice((None, 0, 5)),
        "d": {chance.choice(TEXTS): chance.choice(NUMBERS) for _ in range(chance.randrange(3))},
    }
    return Program(text, arguments)


def function_of(made: Program, *, as_flow: bool = True) -> Any:
    """The function, with a source that can be read; `as_flow`: that calls flows as such."""
    file = f"<program {next(_numbers)}>"
    source = f"from __future__ import annotations\n{made.source}"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {
        **TASKS,
        "halved": halved if as_flow else halved.function,
        "Missing": Missing,
        "Anything": Anything,
        "Any": Any,
    }
    exec(compile(source, file, "exec", dont_inherit=True), names)
    return names["program"]


def as_python(made: Program) -> Outcome:
    """Carry a program out as it is written."""
    global _failed
    _failed = None
    _calls.clear()
    try:
        value = function_of(made, as_flow=False)(**_copied(made.arguments))
    except Exception as error:
        return Outcome(None, f"{type(error).__name__}: {error}", list(_calls))
    return Outcome(_typed(value), None, list(_calls))


def compiled(made: Program) -> Flow[..., Any]:
    """A program as a flow, compiled; raises BuildError."""
    found: Flow[..., Any] = flow(function_of(made))
    found.definition  # noqa: B018
    return found


def as_flow(made: Program, compiled: Flow[..., Any], store: Path | None = None) -> Outcome:
    """Carry a program out as a flow, on a virtual clock, in memory or in a file."""
    global _failed
    _failed = set()
    with Engine(store, workers=[compiled], clock=VirtualClock(0)) as engine:
        _calls.clear()
        run = engine.start(compiled, **_copied(made.arguments))
        engine.run_until_idle()
        try:
            value = run.result()
        except WorkflowFailed as error:
            return Outcome(None, error.causes[0].reason, list(_calls))
        return Outcome(_typed(value), None, list(_calls))


def _copied(arguments: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(arguments)


def _typed(value: Any) -> Any:
    """A value with the types of its parts: `1 == True == 1.0` are three."""
    if isinstance(value, list | tuple):
        return [_typed(one) for one in value]
    if isinstance(value, dict):
        return {key: _typed(one) for key, one in value.items()}
    return type(value).__name__, value


def has_fork(made: Program) -> bool:
    """Whether a program calls tasks in a list."""
    return any(f"[{name}(v" in made.source for name in TASKS)


def nested_kinds(source: str) -> Counter[tuple[str, str]]:
    """Which kinds of nodes a program has right within which."""
    return Counter(
        (type(node).__name__, type(child).__name__) for node in ast.walk(ast.parse(source)) for child in ast.iter_child_nodes(node)
    )
