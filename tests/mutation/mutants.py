"""Mutants: drawn by chance with a seed, kept as text, found again in a tree that has moved on.

A mutant is whole lines of a file before and after. Line numbers are told, never trusted: the lines are looked for in the function
they stood in, and then in the whole file; where they are no more, the mutant is *gone*.
"""

from __future__ import annotations

import ast
import random
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
from mutators import Edit, edits

__all__ = ["ROOMS", "ROOT", "Gone", "Mutant", "draw", "mutated", "read", "statement_lines", "write"]

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = "conductorlite"

#: The logic and the stores: what is drawn from.
ROOMS: Final = (
    "decide",
    "plan",
    "engine/repairs",
    "model/policies",
    "model/limits",
    "model/executions",
    "store/memory",
    "store/sqlite",
)


class Gone(Exception):
    """The lines of a mutant are not in the file any more."""


@attrs.frozen(kw_only=True)
class Mutant:
    """A change of whole lines of one file.

    Attributes:
        name: What it is called on the command line.
        file: From the root of the repository, with slashes.
        scope: The function or class around it, dotted; empty for a module's own statements.
        operator: What kind of mistake it is.
        before: Lines, with their ends.
        after: The lines instead.
        nth: Which of the places in its scope that read like `before`, from 0.
        line: Where it stood when it was drawn, from 1.
        says: What is wrong with it, for one that was planted by hand.
    """

    name: str
    file: str
    before: str
    after: str
    scope: str = ""
    operator: str = "planted"
    nth: int = 0
    line: int = 0
    says: str = ""


def draw(seed: int, count: int, rooms: Sequence[str] = ROOMS) -> list[Mutant]:
    """So many mutants by chance: first a line, each as probable as any other that can be mutated, then one of its mutants."""
    lines: list[tuple[Path, list[Edit]]] = []
    for path in _files(rooms):
        by_line: dict[int, list[Edit]] = {}
        for edit in edits(path.read_text(encoding="utf-8")):
            by_line.setdefault(edit.start[0], []).append(edit)
        lines += [(path, by_line[line]) for line in sorted(by_line)]
    chance = random.Random(seed)
    chance.shuffle(lines)
    drawn: list[Mutant] = []
    for path, choices in lines:
        chance.shuffle(choices)
        name, source = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        found = next(filter(None, (_mutant(f"m{len(drawn) + 1:03}", name, source, edit) for edit in choices)), None)
        if found is not None:
            drawn.append(found)
        if len(drawn) == count:
            break
    return drawn


def _files(rooms: Iterable[str]) -> Iterator[Path]:
    for room in sorted(rooms):
        path = ROOT / PACKAGE / room
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def _mutant(name: str, file: str, source: str, edit: Edit) -> Mutant | None:
    raw = source.encode().splitlines(keepends=True)
    (first, left), (last, right) = edit.start, edit.end
    before = b"".join(raw[first - 1 : last]).decode()
    after = (raw[first - 1][:left] + edit.text.encode() + raw[last - 1][right:]).decode()
    if after.strip() == "" or after == before:
        return None
    lines = source.splitlines(keepends=True)
    whole = "".join([*lines[: first - 1], after, *lines[last:]])
    try:
        if ast.dump(ast.parse(whole)) == ast.dump(ast.parse(source)):
            return None
    except SyntaxError:
        return None
    scope, (top, bottom) = _scope(ast.parse(source), first, len(lines))
    places = [at for at in _places(lines, before) if top <= at + 1 <= bottom]
    return Mutant(
        name=name,
        file=file,
        scope=scope,
        operator=edit.operator,
        before=before,
        after=after,
        nth=places.index(first - 1),
        line=first,
    )


def _scopes(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, int, int]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield prefix + node.name, node.lineno, node.end_lineno or node.lineno
            yield from _scopes(node, f"{prefix}{node.name}.")
        else:
            yield from _scopes(node, prefix)


def _scope(tree: ast.AST, line: int, lines: int) -> tuple[str, tuple[int, int]]:
    around = [(name, (first, last)) for name, first, last in _scopes(tree) if first <= line <= last]
    return max(around, key=lambda one: one[1][0], default=("", (1, lines)))


def _places(lines: Sequence[str], before: str) -> list[int]:
    wanted = [line.strip() for line in before.splitlines()]
    stripped = [line.strip() for line in lines]
    return [at for at in range(len(lines) - len(wanted) + 1) if stripped[at : at + len(wanted)] == wanted]


def _found(mutant: Mutant, source: str) -> int:
    lines = source.splitlines(keepends=True)
    places = _places(lines, mutant.before)
    if mutant.scope:
        spans = [(first, last) for name, first, last in _scopes(ast.parse(source)) if name == mutant.scope]
        inside = [at for at in places if any(first <= at + 1 <= last for first, last in spans)]
        if mutant.nth < len(inside):
            return inside[mutant.nth]
        if inside or len(places) != 1:
            raise Gone(f"{mutant.name}: {mutant.file} {mutant.scope}: {mutant.before.strip()}")
        return places[0]
    if mutant.nth < len(places):
        return places[mutant.nth]
    raise Gone(f"{mutant.name}: {mutant.file}: {mutant.before.strip()}")


def mutated(mutant: Mutant, source: str) -> str:
    """A file's text with a mutant in it.

    Raises:
        Gone: If its lines are not there.
    """
    at = _found(mutant, source)
    lines = source.splitlines(keepends=True)
    count = len(mutant.before.splitlines())
    old, new = _indent(mutant.before), _indent(lines[at])
    after = [new + line[len(old) :] if line.startswith(old) else line for line in mutant.after.splitlines(keepends=True)]
    return "".join([*lines[:at], *after, *lines[at + count :]])


def statement_lines(mutant: Mutant, source: str) -> tuple[int, int]:
    """The first and the last line of a mutant in a file as it is now, from 1.

    Raises:
        Gone: If its lines are not there.
    """
    at = _found(mutant, source)
    return at + 1, at + len(mutant.before.splitlines())


def _indent(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


def write(path: Path, mutants: Sequence[Mutant], head: str) -> None:
    """Keep mutants as a TOML document of literal texts."""
    parts = ["".join(f"# {line}\n" for line in head.splitlines())]
    for mutant in mutants:
        parts.append(
            f'[{mutant.name}]\nfile = "{mutant.file}"\nline = {mutant.line}\nscope = "{mutant.scope}"\nnth = {mutant.nth}\n'
            f"operator = \"{mutant.operator}\"\nbefore = '''\n{mutant.before}'''\nafter = '''\n{mutant.after}'''\n"
        )
    path.write_text("\n".join(parts), encoding="utf-8")


def read(path: Path) -> list[Mutant]:
    """The mutants of a document, in its order."""
    document: dict[str, dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return [Mutant(name=name, **fields) for name, fields in document.items()]
