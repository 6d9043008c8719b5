"""Ctrl-C in a program that has imported nothing yet, anywhere from its first import to its first result, and what comes after."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import conductorlite
from conductorlite.model.threads import cached_property, forget_half_imported
from conductorlite.testing.interrupts import Instants

PROGRAM = Path(__file__).parent / "cold.py"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it forks")


def tried(instants: int, folder: Path, *options: str) -> None:
    """Interrupt the program as often; nothing may go wrong."""
    stores = ["--store", str(folder / "s%d.db")] if "sqlite" in options else []
    given = [*stores, *(one for one in options if one != "sqlite"), "--instants", str(instants)]
    ended = subprocess.run([sys.executable, PROGRAM, *given], capture_output=True, text=True, timeout=3_000, check=False)
    assert ended.stdout, ended.stderr
    found = json.loads(ended.stdout)
    assert found["wrong"] == []
    assert found["interrupted"] >= min(instants, found["number"]) * 0.9


#: What is run: with a worker in a thread and a file, which few of the fast tests need, and with the first coroutine.
FILE = pytest.param(("sqlite", "--worker", "function"), id="file", marks=pytest.mark.slow)
COROUTINE = pytest.param(("--worker", "coroutine"), id="coroutine")


@pytest.mark.parametrize("instants", [2, pytest.param(4, marks=pytest.mark.deep), pytest.param(3_000, marks=pytest.mark.deep)])
@pytest.mark.parametrize("options", [FILE, COROUTINE])
def test_before_an_instruction(options: tuple[str, ...], instants: int, tmp_path: Path) -> None:
    """KeyboardInterrupt comes out, and nothing else; run again, the program comes to its result, and no law is broken."""
    tried(instants, tmp_path, *options)


@pytest.mark.parametrize("instants", [3, pytest.param(6, marks=pytest.mark.slow), pytest.param(10**6, marks=pytest.mark.deep)])
@pytest.mark.parametrize("options", [FILE, COROUTINE])
def test_where_a_module_is_looked_for(options: tuple[str, ...], instants: int, tmp_path: Path) -> None:
    """So it is where an import is interrupted; a package that was half imported is imported again."""
    tried(instants, tmp_path, "--modules", *options)


@pytest.mark.parametrize("named", ["asyncio.tasks", pytest.param("asyncio", marks=pytest.mark.deep)])
def test_in_the_first_import_of_asyncio(named: str, tmp_path: Path) -> None:
    """Which a driver needs for its first coroutine."""
    tried(100, tmp_path, "--modules", "--named", named, "--worker", "coroutine")


@pytest.mark.slow
@pytest.mark.parametrize("instants", [3, pytest.param(3_000, marks=pytest.mark.deep)])
def test_a_signal_handler(instants: int, tmp_path: Path) -> None:
    """One that calls verbs is refused, and the program comes to its result without another run."""
    tried(instants, tmp_path, "sqlite", "--handler")


def test_what_is_whole_is_left_alone() -> None:
    """Nothing is forgotten but modules of the standard library whose package is not there."""
    before = dict(sys.modules)
    sys.modules |= {"wsgiref.half": sys, "wsgiref.half.deep": sys, "nobody_knows.half": sys}
    for name in [name for name in sys.modules if name == "wsgiref"]:
        del sys.modules[name]
    try:
        forget_half_imported()
        left = {name for name in sys.modules if "half" in name}
    finally:
        sys.modules.clear()
        sys.modules.update(before)
    assert left == {"nobody_knows.half"}


def _a_cached_property() -> Any:
    class Has:
        @cached_property
        def value(self) -> str:
            return "b"

    return Has()


def test_while_a_property_is_made() -> None:
    """Before any instruction: nothing but KeyboardInterrupt comes out, without a word about how classes are made."""
    with Instants() as calm:
        assert _a_cached_property().value == "b"
    assert calm.number > 3
    for at in range(calm.number):
        with Instants(at) as interrupted, pytest.raises(KeyboardInterrupt):
            assert _a_cached_property().value == "b"
        assert interrupted.where is not None
        assert _a_cached_property().value == "b"


def test_no_source_needs_a_module_to_be_compiled() -> None:
    """A named character in a literal does: Ctrl-C while the compiler imports `unicodedata` comes out as a SyntaxError."""
    sources = Path(conductorlite.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if "\\N{" in path.read_text(encoding="utf-8")] == []
