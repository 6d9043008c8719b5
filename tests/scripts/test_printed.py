"""What scripts print is in the log of their task, and how they write numbers and dates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conductorlite import Engine, VirtualClock, WorkflowDef
from conductorlite.engine.commits import Committer
from conductorlite.errors import ExpressionFailed, FencedOut
from conductorlite.language.conditions import compile_condition
from conductorlite.language.printing import collect_lines
from conductorlite.language.python import python_installed


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An engine on a virtual clock."""
    stores = [str(tmp_path / "printed.db")] if request.param == "sqlite" else []
    with Engine(*stores, clock=VirtualClock(0)) as made:
        yield made


def _task(ref: str, kind: str, inputs: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"name": ref, "taskReferenceName": ref, "type": kind, "inputParameters": inputs or {}} | fields


def _inline(ref: str, script: str, evaluator: str = "javascript", **fields: Any) -> dict[str, Any]:
    return _task(ref, "INLINE", {"evaluatorType": evaluator, "expression": script}, optional=True, **fields)


def _logs(engine: Engine, *tasks: dict[str, Any]) -> dict[str, list[str]]:
    """The logs of all tasks of an execution, by reference."""
    run = engine.start(WorkflowDef.from_json({"name": "w", "tasks": list(tasks)}))
    engine.run_until_idle()
    return {task.ref: [line.text for line in engine.tasks.logs(task.task_id)] for task in run.tasks}


def test_lines_are_in_the_log_of_their_task(engine: Engine) -> None:
    """Of every type of task that holds a script, in each round, and before an error."""
    noop = [_task("n", "NOOP")]
    loop = "console.log('round', $.loop.iteration); [$.loop.iteration][0] < 2"
    found = _logs(
        engine,
        _inline("i", "console.log('n is ' + 1, {a: [1]}); console.warn('w'); 1"),
        _inline("bad", "console.error('before'); null.x"),
        _task("l", "LAMBDA", {"scriptExpression": "console.info('lambda'); return 1;"}),
        _task("s", "SWITCH", evaluatorType="javascript", expression="console.log('switch'); 'a'", decisionCases={"a": noop}),
        _task("loop", "DO_WHILE", loopCondition=loop, loopOver=[_task("m", "NOOP")]),
    )
    assert {ref: lines for ref, lines in found.items() if lines} == {
        "i": ['n is 1 {"a":[1]}', "w"], "bad": ["before"], "l": ["lambda"], "s": ["switch"], "loop": ["round 1", "round 2"],
    }  # fmt: skip
    assert engine.admin.check() == []


@pytest.mark.skipif(not python_installed(), reason="needs the extra python")
def test_lines_of_python(engine: Engine) -> None:
    """What `print` writes, also before an error."""
    found = _logs(
        engine, _inline("i", "print('x', 1)\nprint('y')\nreturn 2", "python"), _inline("b", "print('z')\nreturn 1/0", "python")
    )
    assert found == {"i": ["x 1", "y"], "b": ["z"]}


def test_lines_are_written_once_when_a_turn_is_decided_again(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also inside the write, where the script is not carried out again."""
    before, left = Committer.before_apply, [5]

    def fenced(self: Committer, tx: Any, decision: Any, memo: Any) -> Any:
        if decision.printed and left[0]:
            left[0] -= 1
            raise FencedOut("another turn was first")
        return before(self, tx, decision, memo)

    monkeypatch.setattr(Committer, "before_apply", fenced)
    assert _logs(engine, _inline("i", "console.log('once'); 1")) == {"i": ["once"]}
    assert left == [0]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("console.log('a', 1, true, null, undefined, [1, 'x'], {b: 2})", ['a 1 true null undefined [1,"x"] {"b":2}']),
        ("console.log()", [""]),
        ("console.debug('d'); console.trace('t'); console.dir({a: 1}); console.table([1])", ["d", "t", '{"a":1}', "[1]"]),
        ("console.assert(1 > 0, 'no'); console.assert(0 > 1, 'yes', 2)", ["Assertion failed: yes 2"]),
        ("console.count(); console.count(); console.count('x')", ["default: 1", "default: 2", "x: 1"]),
        ("console.group('g'); console.groupEnd(); console.time('t'); console.timeEnd('t')", ["g", "t: 0ms"]),
        ("console.log(new Error('no'), () => 1)", ["Error: no () => 1"]),
        ("const a = []; a.push(a); console.log('cyclic', a)", ["cyclic …"]),
        (
            "for (let n = 0; n < 1003; n++) console.log(n)",
            [*map(str, range(1000)), "… more than 1000 lines: the others are not kept"],
        ),
        ("console.log('x'.repeat(20000))", ["x" * 10_000]),
    ],
)
def test_what_a_line_says(text: str, lines: list[str]) -> None:
    """Texts as they are, all else as JSON; a result is not made smaller by them."""
    found: list[str] = []
    with collect_lines(found):
        assert compile_condition(f"{text}; 'answer'").evaluate({}) == "answer"
    assert found == lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(12345.678).toLocaleString()", "12,345.678"), ("(-1234.5).toLocaleString('en-US')", "-1,234.5"),
        ("(1234.5678).toLocaleString()", "1,234.568"), ("(999.9996).toLocaleString()", "1,000"),
        ("(0.0005).toLocaleString()", "0.001"),
        ("(0.000012).toLocaleString()", "0"), ("(-0).toLocaleString()", "-0"), ("NaN.toLocaleString()", "NaN"),
        ("(-1 / 0).toLocaleString()", "-∞"), ("(1e21).toLocaleString()", "1,000,000,000,000,000,000,000"),
        ("(1e15 + 0.5).toLocaleString()", "1,000,000,000,000,000.5"), ("[1234.5, 'a'].toLocaleString()", "1,234.5,a"),
        ("(1234.5).toLocaleString('en-US', {minimumFractionDigits: 2})", "1,234.50"),
        ("(1.005).toLocaleString(undefined, {maximumFractionDigits: 2})", "1.01"),
        ("(2.5).toLocaleString('en-US', {maximumFractionDigits: 0})", "3"),
        ("$.id.toLocaleString()", "1,284,013,452,345,671,681"),
        ("new Date(0).toLocaleString()", "1/1/1970, 12:00:00\u202fAM"), ("new Date(1e12).toLocaleDateString()", "9/9/2001"),
        ("new Date(1e12 + 4e7).toLocaleTimeString()", "12:53:20\u202fPM"), ("new Date(NaN).toLocaleString()", "Invalid Date"),
    ],
)  # fmt: skip
def test_locale_strings(text: str, expected: str) -> None:
    """As an American server of Conductor 3.32.3 writes them."""
    assert compile_condition(text).evaluate({"id": 1284013452345671681}) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(1).toLocaleString('de-DE')", "toLocaleString knows the locale en-US only, not de-DE"),
        ("(1).toLocaleString('en-US', {style: 'currency'})", "toLocaleString does not know the option style"),
        ("new Date(0).toLocaleDateString('en-US', {year: 'numeric'})", "toLocaleDateString does not know the option year"),
    ],
)
def test_other_locales_are_refused(text: str, message: str) -> None:
    """Instead of being written as if they had not been asked for."""
    with pytest.raises(ExpressionFailed, match=message):
        compile_condition(text).evaluate({})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("btoa('abc') + atob('YWJj')", "YWJjabc"),
        ("#!/usr/bin/env js\n$.list[0]", 7),
        ("#! a comment", None),
        ("const keys = []; for (k in $.list) keys.push(k); keys", ["0", "1"]),
        ("let sum = 0; for (var k in $.list) sum += $.list[k]; sum", 15),
        ("const keys = []; for (const k in $.map) keys.push(k); keys", ["a"]),
    ],
)
def test_idioms(text: str, expected: Any) -> None:
    """Of public definitions, as the compatibility page says."""
    assert compile_condition(text).evaluate({"list": [7, 8], "map": {"a": 1}}) == expected
