"""The tool itself: what it changes, and that a mutant is found again after the code has moved."""

from __future__ import annotations

import ast
import os
import runpy
import threading

import attrs
import pytest
from fork_server import _read
from mutants import ROOT, Gone, Mutant, draw, mutated, read
from mutators import edits

SOURCE = '''"""A docstring is left alone: a < b."""

LIMITS = {"a": 1, "b": 2}


def told(a: int, b: int = 0) -> bool:
    """So is this one."""
    if not a or a <= b:
        raise ValueError(f"what an error says is left alone: {a + 1}")
    found.append(min(a, b))
    return a - 1 > b
'''


def changed() -> set[tuple[str, str]]:
    """Operators, and the line that each edit makes."""
    lines = SOURCE.splitlines()
    found = set()
    for edit in edits(SOURCE):
        (first, left), (last, right) = edit.start, edit.end
        found.add((edit.operator, (lines[first - 1][:left] + edit.text + lines[last - 1][right:]).strip()))
    return found


def test_what_is_changed() -> None:
    """Every operator makes its mistake, and nothing else does."""
    assert changed() == {
        ("member removed", 'LIMITS = {"b": 2}'),
        ("member removed", 'LIMITS = {"a": 1}'),
        ("constant", 'LIMITS = {"a": 2, "b": 2}'),
        ("constant", 'LIMITS = {"a": 0, "b": 2}'),
        ("constant", 'LIMITS = {"a": 1, "b": 3}'),
        ("constant", 'LIMITS = {"a": 1, "b": 1}'),
        ("constant", "def told(a: int, b: int = 1) -> bool:"),
        ("constant", "def told(a: int, b: int = (-1)) -> bool:"),
        ("condition negated", "if not (not a or a <= b):"),
        ("boolean", "if not a and a <= b:"),
        ("operand removed", "if a <= b:"),
        ("operand removed", "if not a:"),
        ("not removed", "if (a) or a <= b:"),
        ("comparison", "if not a or a < b:"),
        ("comparison", "if not a or a > b:"),
        ("statement removed", "pass"),
        ("call", "found.appendleft(min(a, b))"),
        ("call", "found.append(max(a, b))"),
        ("arguments swapped", "found.append(min(b, a))"),
        ("return value", "return None"),
        ("comparison", "return a - 1 >= b"),
        ("comparison", "return a - 1 <= b"),
        ("arithmetic", "return a + 1 > b"),
        ("constant", "return a - 2 > b"),
        ("constant", "return a - 0 > b"),
    }


MUTANT = Mutant(
    name="m", file="x.py", scope="told", nth=1, before="    if a:\n        return 1\n", after="    if not a:\n        return 1\n"
)


def test_a_mutant_goes_along_with_its_code() -> None:
    """Its lines are looked for in their function, the one meant of several, at whatever depth and line they are now."""
    moved = "class C:\n    pass\n\n\ndef told(a):\n    if a:\n        return 1\n    while a:\n        if a:\n            return 1\n"
    assert mutated(MUTANT, moved) == moved.replace("        if a:\n", "        if not a:\n")
    with pytest.raises(Gone):
        mutated(MUTANT, moved.replace("return 1", "return 2"))
    with pytest.raises(Gone):
        mutated(attrs.evolve(MUTANT, nth=2), moved)


LISTS = ("drawn.toml", "planted.toml")


def test_the_lists_can_be_read() -> None:
    """A hundred were drawn; the planted ones say what is wrong, each something else."""
    drawn, planted = (read(ROOT / "tests" / "mutation" / name) for name in LISTS)
    assert [mutant.name for mutant in drawn] == [f"m{number:03}" for number in range(1, 101)]
    assert len({mutant.name for mutant in planted}) == len(planted)
    assert all(mutant.says and mutant.before != mutant.after for mutant in planted)
    assert len({(mutant.file, mutant.before, mutant.after, mutant.nth) for mutant in planted}) == len(planted)


@pytest.mark.parametrize("name", LISTS)
def test_every_mutant_is_found_in_the_code(name: str) -> None:
    """Whoever changes its lines plants the same mistake in what takes their place: one that is gone says nothing of the tests."""
    gone = []
    for mutant in read(ROOT / "tests" / "mutation" / name):
        path = ROOT / mutant.file
        try:
            ast.parse(mutated(mutant, path.read_text(encoding="utf-8") if path.exists() else ""))
        except (Gone, SyntaxError) as error:
            gone.append(f"{mutant.name}: {error}")
    assert not gone, "\n".join(gone)


def test_a_path_that_is_not_there_kills_nothing() -> None:
    """A run of tests that do not exist fails as one that finds a mutant does."""
    main = runpy.run_path(str(ROOT / "tests" / "mutation" / "__main__.py"))["main"]
    with pytest.raises(SystemExit):
        main(["run", "--only", "m001", "--", "tests/absent"])


def test_a_seed_draws_the_same_again() -> None:
    """And another seed others."""
    assert draw(1, 5, ["model/policies"]) == draw(1, 5, ["model/policies"]) != draw(2, 5, ["model/policies"])


def test_what_a_child_tells_is_read_meanwhile() -> None:
    """However many tests come to a mutant: a pipe holds some eight hundred names, and whoever writes more waits."""
    reading, writing = os.pipe()
    names = [f"tests/house/test_sizes.py::test_number_{number}" for number in range(4_000)]

    def tell() -> None:
        for name in names:
            os.write(writing, f"{name}\n".encode())
        os.close(writing)

    child = threading.Thread(target=tell, daemon=True)
    child.start()
    assert _read(reading) == names
    child.join(10)
