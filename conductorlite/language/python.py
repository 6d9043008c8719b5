"""Python scripts: `python`, with Conductor's rule for scripts; needs the extra of that name.

Every input key is a name of the script, the text is the body of a function, and what it returns is the result; a lone expression
is its own result. The result is written as JSON where it was made, so that nothing but a text comes back: a set is a list in the
order in which its items were added.

Scripts run in the workers of pydantic-monty. Monty is a Python of its own, written in Rust, without files, network, environment or
processes; its worker processes bound time, memory and recursion, and are replaced when they die. A session is used once: nothing
is left for the next script.
"""

from __future__ import annotations

import ast
import atexit
import hashlib
import json
import os
import textwrap
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.language.printing import note_lines, without_lines
from conductorlite.language.processes import ScriptCut, ScriptTimedOut, chance_of, granted, in_thread, remembered
from conductorlite.language.values import Json
from conductorlite.model.errors import ExpressionFailed, InvalidExpression, MissingExtra
from conductorlite.model.later import pattern
from conductorlite.model.syntax import parse_module
from conductorlite.model.threads import Mutex

if TYPE_CHECKING:
    from pydantic_monty import Monty

__all__ = ["PythonLimits", "PythonRaised", "PythonRefused", "PythonScript", "compile_python", "python_installed", "run_python"]

#: Beyond its time, how long a worker may be inside one call before it is ended, in seconds.
_GRACE: Final = 0.2
#: Lines that are kept of what a script prints, and characters of each.
_LINES: Final = 1_000
_LONGEST_LINE: Final = 10_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@attrs.frozen(kw_only=True, slots=True)
class PythonLimits:
    """Bounds of one script: seconds it runs, bytes of memory, depth of calls."""

    seconds: float = 0.6
    memory_bytes: int = 64 * 1024 * 1024
    depth: int = 500


_USUAL: Final = PythonLimits()


class PythonRaised(ExpressionFailed):
    """Exception that a script raised; internal. `line` is the innermost frame's, from 1; `lines` are what it printed before."""

    def __init__(self, message: str, line: int, lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.line, self.lines = line, lines


class PythonRefused(PythonRaised):
    """The text is no Python, or Python that Monty does not have; internal."""


def python_installed() -> bool:
    """Return True if the extra `python` is there."""
    return find_spec("pydantic_monty") is not None


def run_python(code: str, inputs: Mapping[str, Any], limits: PythonLimits, *, now: int = 0, seed: str = "") -> str | None:
    """The text that the last line of `code` is, with `inputs` as globals; None when it is none.

    `now` (epoch ms) is what its clock says, `seed` what its chance is drawn from. Raises PythonRefused, PythonRaised,
    ScriptTimedOut, or ExpressionFailed when the worker died; in haste TakesLong.
    """
    limits = attrs.evolve(limits, seconds=granted(limits.seconds))
    request = json.dumps(["python", str(limits), code, inputs, now, seed])
    key = hashlib.sha256(request.encode()).digest()
    try:
        answer = remembered(key, lambda: in_thread(key, code, lambda: _run(code, inputs, limits, now, seed)))
    except PythonRaised as error:
        note_lines(error.lines)
        raise
    return None if answer is None else without_lines(answer)[1:]


def _run(code: str, inputs: Mapping[str, Any], limits: PythonLimits, now: int, seed: str) -> str | None:
    from pydantic_monty import MontyCrashedError, MontyRuntimeError, MontySyntaxError

    late = f"the script takes longer than {limits.seconds:g} seconds"
    printed: list[str] = []
    try:
        with _pools.pool().checkout(
            script_name="script",
            limits={
                "max_feed_duration_secs": limits.seconds,
                "max_memory": limits.memory_bytes,
                "max_recursion_depth": limits.depth,
            },
            os_policy={
                "datetime": _EPOCH + timedelta(milliseconds=now),
                "sleep": "zero",
                "random_start": {"seed": seed},
            },
        ) as session:
            answer = session.feed_run(code, inputs=dict(inputs), print_callback=lambda stream, text: printed.append(text))
            return _with_lines(printed, answer) if isinstance(answer, str) else None
    except MontyCrashedError as error:
        if getattr(error, "timed_out", False):
            raise ScriptTimedOut(late) from None
        raise ScriptCut(f"the process that ran the script has died: {error}") from None
    except (MontySyntaxError, MontyRuntimeError) as error:
        said = str(error)
        frames = error.traceback()
        line = frames[-1].line if frames else 1
        if said.startswith("TimeoutError: feed time limit exceeded"):
            raise ScriptTimedOut(late) from None
        if said.startswith("MemoryError"):
            raise ScriptCut(said[:2_000]) from None
        kind = PythonRefused if isinstance(error, MontySyntaxError) or "monty syntax parser" in said else PythonRaised
        raise kind(said[:2_000], line, _lines_of(printed)) from None


def _lines_of(printed: Sequence[str]) -> list[str]:
    """Return what was printed, in lines, of which the first are kept."""
    lines = "".join(printed).splitlines()
    return [line[:_LONGEST_LINE] for line in lines[:_LINES]] + (["… more lines: they are not kept"] if len(lines) > _LINES else [])


def _with_lines(printed: Sequence[str], answer: str) -> str:
    """An answer behind the lines that were printed, as it is kept."""
    return f">{json.dumps(_lines_of(printed))}\n={answer}" if printed else f"={answer}"


class _Pools:
    """The pool of this process, started with its first script; a forked child has one of its own."""

    def __init__(self) -> None:
        self._pid = 0
        self._lock = Mutex()
        #: Pools of the processes this one was forked from: closing them would end their workers.
        self._foreign: list[Monty] = []
        self._own: Monty | None = None

    def pool(self) -> Monty:
        """The pool, started if need be."""
        if self._pid != os.getpid():
            self._lock = Mutex()  # another thread may have held it at the fork
            if self._own is not None:
                self._foreign.append(self._own)
            self._own, self._pid = None, os.getpid()
        with self._lock.held():
            if self._own is None:
                from pydantic_monty import Monty

                _close_later()
                made = Monty(feed_duration_limit_grace=_GRACE, max_checkouts_per_worker=1_000)
                made.__enter__()
                self._own = made
            return self._own

    def close(self) -> None:
        """End the workers."""
        if self._own is not None and self._pid == os.getpid():
            self._own.__exit__(None, None, None)
            self._own = None


_pools: Final = _Pools()


@cache
def _close_later() -> None:
    atexit.register(_pools.close)


_MAX_TEXT: Final = 50_000
_MAX_OUTPUT: Final = 4 * 1024 * 1024
#: Written into the session after the script: makes JSON of its answer within the script's budget.
_JSON: Final = """
import json as __json
def __plain(value):
    if isinstance(value, (list, tuple, set, frozenset)):
        return [__plain(item) for item in value]
    if isinstance(value, dict):
        return {key: __plain(item) for key, item in value.items()}
    return value
__json.dumps(__plain(__script(**__values)), allow_nan=False)
"""
#: Without any of these a script can neither read the clock nor draw by chance.
_TIMED: Final = pattern(r"date|time|import")
#: Names by which a script may look at all others.
_ALL: Final = frozenset({"dir", "eval", "exec", "globals", "locals", "vars"})


@attrs.frozen(kw_only=True)
class PythonScript:
    """A compiled script: a Condition."""

    body: str
    #: For each name the keys that are read directly below it; None when the text may read any.
    keys: Mapping[str, frozenset[str] | None]
    names: frozenset[str] = attrs.field(init=False, eq=False, repr=False)
    everything: bool
    #: Whether it may read the clock, or draw by chance.
    timed: bool
    limits: PythonLimits
    foreign: bool = True
    at_once: None = None

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "names", frozenset(self.keys))

    def keys_of(self, name: str) -> frozenset[str] | None:
        """See `Condition.keys_of`."""
        return None if self.everything else self.keys.get(name, frozenset())

    def evaluate(self, values: Mapping[str, Json], *, now: int = 0, seed: str = "") -> Json:
        """The result as JSON; see `Condition.evaluate`."""
        given = {
            name: value
            for name, value in values.items()
            if (self.everything or name in self.names) and name.isidentifier() and not name.startswith("__")
        }
        names = ", ".join(given)
        code = f"def __script({names}):\n{self.body}{_JSON}"
        chance = chance_of(seed, draws=self.timed)
        try:
            answer = run_python(code, {"__values": given}, self.limits, now=now if self.timed else 0, seed=chance)
        except PythonRaised as error:
            line = min(max(1, error.line - 1), self.body.count("\n") + 1)
            raise ExpressionFailed(f"{error} at line {line}") from None
        if answer is None or len(answer) > _MAX_OUTPUT:
            raise ExpressionFailed(f"the result is longer than {_MAX_OUTPUT:,} characters")
        try:
            return json.loads(answer)
        except (RecursionError, ValueError) as error:
            raise ExpressionFailed(f"the result is no JSON: {error}") from None


def compile_python(text: str, limits: PythonLimits = _USUAL) -> PythonScript:
    """Check a text; raises InvalidExpression with the place, MissingExtra without the extra."""
    if not python_installed():
        raise MissingExtra("python", "scripts in Python")
    if len(text) > _MAX_TEXT:
        raise InvalidExpression(f"a script of {len(text)} characters; {_MAX_TEXT} are allowed")
    source = textwrap.dedent(text).strip() or "pass"
    try:
        tree = parse_module(source)
        nodes = list(ast.walk(tree))
    except SyntaxError as error:
        raise InvalidExpression(f"SyntaxError: {error.msg} at line {error.lineno} column {error.offset}") from None
    except (RecursionError, MemoryError):
        raise InvalidExpression("the script is nested too deeply") from None
    except ValueError as error:
        raise InvalidExpression(f"the script cannot be read: {error}") from None
    body = _indented(source, nodes, lone=len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr))
    try:
        run_python(f"def __script():\n{body}", {}, limits)
    except PythonRefused as error:
        raise InvalidExpression(f"{error} at line {max(1, error.line - 1)}") from None
    except PythonRaised as error:
        raise InvalidExpression(str(error)) from None
    keys = _keys(nodes)
    timed = _TIMED.search(source) is not None
    return PythonScript(body=body, keys=keys, everything=not _ALL.isdisjoint(keys), timed=timed, limits=limits)


def _keys(nodes: list[ast.AST]) -> dict[str, frozenset[str] | None]:
    """The names of a script with the keys it reads directly below each: `x['key']`, `x.get('key')`; None: any."""
    keys: dict[str, set[str] | None] = {}
    known: set[int] = set()
    for node in nodes:  # those around come before what is in them
        match node:
            case (
                ast.Subscript(value=ast.Name() as name, slice=ast.Constant(value=str(key)))
                | ast.Call(func=ast.Attribute(value=ast.Name() as name, attr="get"), args=[ast.Constant(value=str(key)), *_])
            ):
                known.add(id(name))
                read = keys.setdefault(name.id, set())
                if read is not None:
                    read.add(key)
            case ast.Name() if id(node) not in known:
                keys[node.id] = None
    return {name: None if read is None else frozenset(read) for name, read in keys.items()}


def _indented(source: str, nodes: list[ast.AST], *, lone: bool) -> str:
    """The text as a body; lines that begin inside a text of several lines stay as they are."""
    inside = {
        line
        for node in nodes
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno is not None
        for line in range(node.lineno + 1, node.end_lineno + 1)
    }
    lines = source.split("\n")
    if lone:
        lines[0] = f"return {lines[0]}"
    return "\n".join(line if number in inside else f"    {line}" for number, line in enumerate(lines, 1))
