"""jq programs: what they see of the world, how they are bounded, and what becomes of the processes they run in."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jq")

from conductorlite.errors import ExpressionFailed, InvalidExpression
from conductorlite.language import processes
from conductorlite.language.jq import compile_jq
from conductorlite.language.processes import Limits

SHORT = Limits(seconds=0.2)


def ask(program: str, values: Any = None, now: int = 5_000, limits: Limits = Limits()) -> list[Any]:  # noqa: B008 - frozen
    """The results of a program."""
    return compile_jq(program, limits).evaluate({} if values is None else values, now=now)


@pytest.mark.parametrize(
    ("program", "results"),
    [
        ("env", [{}]),
        ("$ENV", [{}]),
        ("env.SECRET, $ENV.SECRET, (1 | env.PATH)", [None, None, None]),
        ('. as {a: $x} | "\\(env)"', ["{}"]),
        ("now, (now | todate)", [5, "1970-01-01T00:00:05Z"]),
        ("now | localtime | mktime", [5]),
        ('0 | strflocaltime("%H:%M")', ["00:00"]),
        ("try input catch .", ["No more inputs"]),
        ("[inputs]", [[]]),
        ("input_filename", [None]),
        ("get_search_list", [[]]),
        ('try ("x" | modulemeta) catch .', ["modules are not available"]),
        ("debug, stderr, debug(1)", [{}, {}, {}]),
    ],
)
def test_nothing_of_the_world_is_seen(program: str, results: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """No environment, no clock but the one that is given, no time zone, no further input, no files."""
    monkeypatch.setenv("SECRET", "s3cret")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert ask(program) == results


@pytest.mark.parametrize("program", ["halt", "halt_error", "halt_error(3)"])
def test_a_program_cannot_end_its_process(program: str) -> None:
    """The built-in functions that would are errors."""
    with pytest.raises(ExpressionFailed, match="is not available"):
        ask(program)


@pytest.mark.parametrize("statement", ['import "secrets" as $d; $d', 'include "secrets"; 1'])
def test_modules_are_not_read(statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is there is refused as one that is not: nothing is looked up."""
    (tmp_path / "secrets.json").write_text("1", encoding="utf-8")
    (tmp_path / "secrets.jq").write_text("def x: 1;", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidExpression, match="syntax error, unexpected i"):
        compile_jq(statement.replace("secrets", str(tmp_path / "secrets")))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (".a.b.", "syntax error, unexpected end of file, .* at line 1 column 5"),
        (".a +\n .b.", "at line 2 column 4"),
        ("foo(1)", "foo/1 is not defined at line 1 column 1"),
        (".x) | (.x", "syntax error.* at line 1 column 3"),
        ("# nothing", "syntax error"),
        ("1" * 1_000_001, "longer than 1,000,000 characters"),
        (".a\0", r"U\+0000"),
        ("'\ud800'", "half of a surrogate pair"),
    ],
)
def test_what_is_no_program(program: str, message: str) -> None:
    """An InvalidExpression with jq's words and the place in the author's text."""
    with pytest.raises(InvalidExpression, match=message):
        compile_jq(program)


@pytest.mark.parametrize(
    ("program", "values", "results"),
    [
        (".a", {"a": 2**53 - 1}, [2**53 - 1]),
        (".a", {"a": 1.5}, [1.5]),
        ("1.0, 1e30, -1e308", {}, [1, 1e30, -1e308]),
        ("nan, infinite", {}, [None, sys.float_info.max]),
        (".a", {"a": "\0 ü 😀"}, ["\0 ü 😀"]),
        ("empty", {}, []),
        ("def env: 3; env", {}, [3]),
    ],
)
def test_values(program: str, values: Any, results: list[Any]) -> None:
    """Whole numbers are integers as far as JSON's readers agree on them, the rest floats; NaN is null."""
    found = ask(program, values)
    assert found == results
    assert [type(each) for each in found] == [type(each) for each in results]


def test_an_error_keeps_jqs_words() -> None:
    """What a program raises is the message."""
    with pytest.raises(ExpressionFailed, match=r"^out of stock$"):
        ask('error("out of stock")')


@pytest.mark.parametrize("program", ["def f: f; f", "[repeat(1)]", "last(range(1e15))", "try repeat(1) catch 0"])
def test_an_endless_program_is_ended(program: str) -> None:
    """After its time, by the system; the next program has a process again."""
    with pytest.raises(ExpressionFailed, match=r"^the script takes longer than 0\.2 seconds$"):
        ask(program, limits=SHORT)
    assert ask("1 + 1", limits=SHORT) == [2]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds a process's address space")
def test_a_greedy_program_is_ended() -> None:
    """More memory than it may have is an error that says so."""
    with pytest.raises(ExpressionFailed, match="the script needs more than 100,000,000 bytes of memory"):
        ask('reduce range(100) as $i ("x"; . + .)', limits=Limits(memory_bytes=100_000_000))


def test_results_are_bounded() -> None:
    """More results than may be put out is an error, before the time is over."""
    with pytest.raises(ExpressionFailed, match="the program puts out more than 1,000 characters"):
        ask("repeat(1)", limits=Limits(output_characters=1_000))


def test_what_failed_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that is decided again is not made to wait again: the same program, input and instant have their answer."""
    limits = Limits(seconds=0.21)
    program = compile_jq("[repeat(2)]", limits)
    with pytest.raises(ExpressionFailed):
        program.evaluate({})
    monkeypatch.setattr(processes, "_start", None)
    with pytest.raises(ExpressionFailed, match="takes longer than"):
        program.evaluate({})


@pytest.mark.skipif(sys.platform == "win32", reason="signals as on POSIX")
def test_an_idle_process_that_was_killed_is_replaced() -> None:
    """A helper that died between two programs costs nothing but a new one."""
    limits = Limits(seconds=1.4)
    assert ask(".a", {"a": 1}, limits=limits) == [1]
    (helper,) = processes._idle["jq", limits]
    os.kill(helper.process.pid, signal.SIGKILL)
    assert ask(".a", {"a": 2}, limits=limits) == [2]


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is told in other units, and memory is not bounded")
def test_a_process_that_has_grown_is_replaced() -> None:
    """What a program may still take does not depend on those before it."""
    limits = Limits(seconds=60, memory_bytes=400_000_000)
    assert ask('("x" * 1000000) as $x | [range(120) | $x + "a"] | length', limits=limits) == [120]
    assert not processes._idle["jq", limits]


def test_threads_have_processes_of_their_own() -> None:
    """Programs asked by several threads at once each get their own answer."""
    answers: dict[int, list[Any]] = {}

    def work(number: int) -> None:
        for turn in range(20):
            answers[number * 100 + turn] = ask(".a, .b", {"a": number, "b": turn})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert answers == {number * 100 + turn: [number, turn] for number in range(4) for turn in range(20)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_starts_its_own() -> None:
    """Two processes never talk to one helper."""
    assert ask(".a", {"a": "before"}) == ["before"]
    child = os.fork()
    if child == 0:
        left = any(processes._idle.values())
        os._exit(0 if not left and ask(".a", {"a": "child"}) == ["child"] else 1)
    assert ask(".a", {"a": "parent"}) == ["parent"]
    assert os.waitpid(child, 0)[1] == 0


def test_without_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no process can be started, the program fails and says why."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(InvalidExpression, match="no process can be started to run jq in"):
        compile_jq(".", Limits(seconds=1.1))
