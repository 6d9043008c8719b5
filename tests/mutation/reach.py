"""Which tests come to the place of a mutant: each place tells of itself, in a copy of the tree, while the tests run once.

A place inside a function is its statement. A statement of a module or a class is carried out when it is imported, which says
nothing: there it is every function that speaks of the names it sets.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from mutants import PACKAGE, Gone, Mutant, statement_lines
from overlay import BUILD, copy_of_the_tree, pytest_in

__all__ = ["Reach", "look"]

_TELLER: Final = '''
import os

_told = set()
_path = os.environ.get("MUTATION_REACHED")


def reached(name):
    """Write down, once, that the present test came here: at once, since it may kill its process."""
    test = os.environ.get("PYTEST_CURRENT_TEST")
    if _path is None or test is None or (test, name) in _told:
        return
    _told.add((test, name))
    with open(_path, "a") as file:
        file.write(f"{name} {test}\\n")
'''
_IMPORT: Final = f"from {PACKAGE}._reached import reached as _reached"
_SETUP: Final = " (setup)"

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Reach:
    """By mutant the tests that come to it, and by test the seconds it takes; kept in build/."""

    def __init__(self, path: Path) -> None:
        self._path = path
        kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"tests": {}, "seconds": {}, "places": {}}
        self.tests: dict[str, set[str]] = {name: set(tests) for name, tests in kept["tests"].items()}
        self.seconds: dict[str, float] = kept["seconds"]
        self.places: dict[str, list[str]] = kept["places"]

    def save(self) -> None:
        """Keep it for the next run."""
        kept = {
            "tests": {name: sorted(tests) for name, tests in self.tests.items()},
            "seconds": self.seconds,
            "places": self.places,
        }
        self._path.write_text(json.dumps(kept, indent=0), encoding="utf-8")

    def knows(self, mutant: Mutant) -> bool:
        """Whether the tests were asked about this mutant as it reads now."""
        return self.places.get(mutant.name) == [mutant.file, mutant.scope, mutant.before, mutant.after]

    def order(self, mutant: Mutant) -> list[str]:
        """The tests that come to a mutant: of each test function one case, then of each a second one, and so on.

        Among them quick ones first, and those that come to few other mutants.
        """
        visits: dict[str, int] = {}
        for tests in self.tests.values():
            for test in tests:
                visits[test] = visits.get(test, 0) + 1
        found = self.tests.get(mutant.name, set())
        best = sorted(found, key=lambda test: ((self.seconds.get(test, 0.0) + 0.02) * visits[test], test))
        cases: dict[str, int] = {}
        rank: dict[str, int] = {}
        for test in best:
            function = test.partition("[")[0]
            rank[test] = cases[function] = cases.get(function, 0) + 1
        return sorted(best, key=lambda test: rank[test])


def look(reach: Reach, mutants: Sequence[Mutant], tests: Sequence[str], processes: int) -> None:
    """Run the tests once in a copy in which the places of these mutants tell who comes by; adds to what is known."""
    tree = copy_of_the_tree("reach")
    (tree / PACKAGE / "_reached.py").write_text(_TELLER, encoding="utf-8")
    _instrument(tree, mutants)
    told, seconds = BUILD / "reached.txt", BUILD / "seconds.json"
    told.write_text("", encoding="utf-8")
    options = ["-n", str(processes), "--dist", "worksteal"] if processes > 1 else []
    how, printed = pytest_in(
        tree,
        [*options, *tests],
        seconds=None,
        log=BUILD / "reach.log",
        MUTATION_REACHED=str(told),
        MUTATION_SECONDS=str(seconds),
    )
    print(f"{how}: {printed.strip().splitlines()[-1]}")
    took: dict[str, float] = json.loads(seconds.read_text(encoding="utf-8"))
    reach.seconds |= took
    files: dict[str, list[str]] = {}
    for test in took:
        files.setdefault(test.split("::")[0], []).append(test)
    for line in told.read_text(encoding="utf-8").splitlines():
        name, _, phase = line.partition(" ")
        test = phase.rpartition(" (")[0]
        # What a fixture does for the first test that wants it, it may have done for others.
        others = files.get(test.split("::")[0], []) if phase.endswith(_SETUP) else []
        reach.tests.setdefault(name, set()).update({test, *others} & took.keys())
    for mutant in mutants:
        reach.tests.setdefault(mutant.name, set())
        reach.places[mutant.name] = [mutant.file, mutant.scope, mutant.before, mutant.after]
    reach.save()


def _instrument(tree: Path, mutants: Iterable[Mutant]) -> None:
    """Put a call before every place, and into every function that speaks of a name that a place sets."""
    spoken: dict[str, set[str]] = {}
    marks: dict[Path, dict[str, tuple[int, int]]] = {}
    for mutant in mutants:
        path = tree / mutant.file
        source = path.read_text(encoding="utf-8")
        try:
            lines = statement_lines(mutant, source)
        except Gone as gone:
            print(f"gone: {gone}")
            continue
        names = _set_on_import(ast.parse(source), lines)
        if names is None:
            marks.setdefault(path, {})[mutant.name] = lines
        for name in names or ():
            spoken.setdefault(name, set()).add(mutant.name)
    _spread(tree, spoken)
    for path in sorted((tree / PACKAGE).rglob("*.py")):
        if path.name == "_reached.py":
            continue
        module = ast.parse(path.read_text(encoding="utf-8"))
        changed = [_mark(module, name, lines) for name, lines in marks.get(path, {}).items()]
        changed += [_mark_speakers(module, spoken)]
        if any(changed):
            at = next((i for i, node in enumerate(module.body) if not _is_head(node)), len(module.body))
            module.body.insert(at, ast.parse(_IMPORT).body[0])
            path.write_text(ast.unparse(ast.fix_missing_locations(module)) + "\n", encoding="utf-8")


def _spread(tree: Path, spoken: dict[str, set[str]]) -> None:
    """What a module works out on import from such a name speaks of it too."""
    made: list[tuple[set[str], set[str]]] = []
    for path in sorted((tree / PACKAGE).rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                words = {one.id for one in ast.walk(node.value) if isinstance(one, ast.Name)}
                targets = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
                made.append((words, targets))
    grows = True
    while grows:
        grows = False
        for words, targets in made:
            found = {name for word in words & spoken.keys() for name in spoken[word]}
            for target in targets if found else ():
                grows = grows or not found <= spoken.get(target, set())
                spoken.setdefault(target, set()).update(found)


def _is_head(node: ast.stmt) -> bool:
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _set_on_import(module: ast.Module, lines: tuple[int, int]) -> set[str] | None:
    """The names that the statement of a module or a class sets; None where the lines are in a function."""
    names: set[str] = set()
    body: Sequence[ast.stmt] = module.body
    while True:
        node = next((one for one in body if one.lineno <= lines[0] <= (one.end_lineno or 0)), None)
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                # Its defaults are made on import; what is in its body is not.
                return None if lines[1] >= node.body[0].lineno else {node.name}
            case ast.ClassDef(name=name, body=body):
                names = {name}
            case None:
                return names
            case _:
                targets = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
                return names | targets


def _call(name: str) -> ast.stmt:
    return ast.parse(f"_reached({name!r})").body[0]


def _mark(module: ast.Module, name: str, lines: tuple[int, int]) -> bool:
    """Before the innermost statement in which the lines begin."""
    best: tuple[int, list[ast.stmt], ast.stmt] | None = None
    for block, statement in _statements(module):
        last = statement.end_lineno or statement.lineno
        if statement.lineno <= lines[0] <= last and (best is None or last - statement.lineno <= best[0]):
            best = (last - statement.lineno, block, statement)
    if best is None:
        return False
    _, block, statement = best
    block.insert(block.index(statement), _call(name))
    return True


def _statements(module: ast.Module) -> Iterator[tuple[list[ast.stmt], ast.stmt]]:
    for node in ast.walk(module):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield from ((block, statement) for statement in block)


def _mark_speakers(module: ast.Module, spoken: dict[str, set[str]]) -> bool:
    found = False
    for function in [node for node in ast.walk(module) if isinstance(node, Function)]:
        words = {one.id for one in ast.walk(function) if isinstance(one, ast.Name)}
        words |= {one.attr for one in ast.walk(function) if isinstance(one, ast.Attribute)} | {function.name}
        wanted = sorted({name for word in words & spoken.keys() for name in spoken[word]})
        at = 1 if len(function.body) > 1 and ast.get_docstring(function, clean=False) is not None else 0
        function.body[at:at] = [_call(name) for name in wanted]
        found = found or bool(wanted)
    return found
