"""Scripts in every language and place: answers, limits, determinism, and what is said when the extra is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductorlite.errors import ExpressionFailed, InvalidExpression
from conductorlite.language import processes
from conductorlite.language.conditions import compile_condition
from conductorlite.language.javascript import JavaScript
from conductorlite.language.processes import Limits, ScriptTimedOut
from conductorlite.language.python import PythonLimits, compile_python
from conductorlite.language.subset import Outside, compile_subset

VALUES: dict[str, Any] = {
    "loop": {"iteration": 2}, "limit": 3, "list": ["a", "b", "c"], "iterator": 2, "name": "fedex", "tier": None,
    "items": [4, 11, 30], "order": {"id": 7, "lines": [{"sku": "x", "n": 2}]}, "ms": 86_400_000,
}  # fmt: skip

#: One or more of each shape that Conductor's own definitions have, and what GraalJS answers.
SHAPES: list[tuple[str, Any]] = [
    ("if ($.loop['iteration'] < $.limit) { true; } else { false; }", True),
    ("if (($.loop['iteration'] < $.limit) || ($.items.length > 10)) { false; } else { true; }", False),
    ("if ($.loop['iteration'] < Math.ceil($.ms/1e8)) {true;} else {false;}", False),
    ("const a = 1; if ($.name === 'fedex' && $.loop.iteration < 3) {true;} else {false;}", True),
    ("(function () { if ($.loop['iteration'] < $.limit) { return true; } return false; })();", True),
    ("(function () { return !$.limit; })();", False),
    ("$.name == 'fedex' ? 'fedex' : 'ups'", "fedex"),
    ("$.items.filter(i => i > 10).length > 0 ? 'some' : 'none'", "some"),
    ("(function () { switch ($.name) { case 'fedex': return 'f'; default: return 'u'; } })();", "f"),
    ("if ($.list.indexOf($.name) >= 0) { 'true' } else { 'false' }", "false"),
    ("({a: 'x' + ($.tier || 'y')})", {"a": "xy"}),
    ("(function () { var r = []; for (var i = 0; i < $.limit; i++) { r.push(i * i); } return r; })();", [0, 1, 4]),
    ("new Date($.ms).toISOString()", "1970-01-02T00:00:00.000Z"),
    ("function f() { return $.list.get($.iterator - 1); } f();", "b"),
    ("/^fed/.test($.name)", True),
    ("[].concat($.limit > 2 ? ['a'] : [])", ["a"]),
    ("(function () { var o = $.order; o.region = 'eu'; return o; })();",
     {"id": 7, "lines": [{"sku": "x", "n": 2}], "region": "eu"}),
    ("(function () { var p = $.absent; if (!p || !p.action) return {ok: false}; return {ok: true}; })();", {"ok": False}),
    ("['$' + '{CPEWF_TASK_ID}']", ["${CPEWF_TASK_ID}"]),
    ("try { null.x } catch (e) { 'caught' }", "caught"),
    ("const {id, ...rest} = $.order; `${id}:${Object.keys(rest).length}`", "7:1"),
    ("$.items.reduce((a, b) => a + b, 0) / 9", 5),
    ("let n = 0; while (n < 10) n++; n", 10),
    ("[undefined, () => 1, new Date(), 2 ** 40, 0.5]", [None, {}, {}, 1_099_511_627_776, 0.5]),
    ("[typeof load, typeof print, typeof process, typeof require]", ["undefined"] * 4),
    ("JSON.parse(JSON.stringify($.order)).lines[0].sku", "x"),
    ("[$.list.size(), $.list.contains('b'), $.order.get('id')]", [3, True, 7]),
    ("1.0", 1),
    ("$.limit > 2 ? 2.0 : 0.0", 2),
    ("2.50", 2.5),
]  # fmt: skip

PYTHON: list[tuple[str, Any]] = [
    ("limit * 2", 6),
    ("return limit > 2", True),
    ("r = []\nfor i in range(limit):\n    if i != 1:\n        r.append(i)\nreturn r", [0, 2]),
    ("return {line['sku']: line['n'] for line in order['lines']}", {"x": 2}),
    ("n = 0\nwhile True:\n    n += 1\n    if n > 4:\n        break\nreturn n", 5),
    ("f'{name.upper()}-{limit:03d}'", "FEDEX-003"),
    ("sorted(items, key=lambda i: -i)[:2]", [30, 11]),
    ("{3, 1, 3}", [3, 1]),
    ("items.append(1)\nreturn len(items)", 4),
    ("'big' if sum(items) > 40 else 'small'", "big"),
    ("pass", None),
]


@pytest.mark.parametrize(("text", "expected"), SHAPES)
def test_every_shape_of_javascript(text: str, expected: Any) -> None:
    """What Conductor's definitions are written in answers as GraalJS does, and is the same whichever engine runs it."""
    before = json.dumps(VALUES)
    for condition in (compile_condition(text), JavaScript(quick=False).compile(text)):
        answer = condition.evaluate(VALUES)
        assert (type(answer), answer) == (type(expected), expected)
    assert json.dumps(VALUES) == before


@pytest.mark.parametrize("member", ["get(0)", "size()", "isEmpty()", "contains('a')", "containsKey('a')"])
@pytest.mark.parametrize("value", ["$.name", "$.limit", "'x'", "(5)", "true", "(() => 1)", "Symbol()"])
def test_only_maps_and_lists_have_the_members_of_javas(value: str, member: str) -> None:
    """A text, a number or a boolean has none of them, as there: a script that takes it for a map fails."""
    with pytest.raises(ExpressionFailed, match="not a function"):
        compile_condition(f"{value}.{member}").evaluate(VALUES)


@pytest.mark.parametrize(("text", "expected"), PYTHON)
def test_python(text: str, expected: Any) -> None:
    """A lone expression is its own result, a body returns one; the input is never changed."""
    before = json.dumps(VALUES)
    answer = compile_condition(text, "python").evaluate(VALUES)
    assert (type(answer), answer, json.dumps(VALUES)) == (type(expected), expected, before)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import requests", "No module named 'requests'"),
        ("open('/etc/passwd').read()", "Permission denied"),
        ("import os\nreturn os.environ", "os.environ"),
        ("return ().__class__.__bases__[0].__subclasses__()", "AttributeError"),
        ("a.b", "AttributeError"),
        ("\n\nx = 1\nreturn x / 0", "ZeroDivisionError: division by zero at line 2"),
        ("return float('nan')", "not JSON compliant"),
        ("return lambda: 1", "not JSON serializable"),
        ("a = []\na.append(a)\nreturn a", "RecursionError"),
    ],
)
def test_python_reaches_nothing_outside(text: str, message: str) -> None:
    """No file, network, environment or module of this process; what is no JSON is no result."""
    with pytest.raises(ExpressionFailed, match=message):
        compile_condition(text, "python").evaluate({"a": {}})


@pytest.mark.parametrize(
    ("text", "message"), [("1 +", "line 1 column"), ("return (yield)", "line 1"), ("(" * 20_000, "nested|parenthes")]
)
def test_what_is_no_python(text: str, message: str) -> None:
    """Refused when it is compiled, with the place."""
    with pytest.raises(InvalidExpression, match=message):
        compile_condition(text, "python")


def test_python_knows_clock_and_chance_as_given() -> None:
    """The same instant and seed give the same answer; sets, hashes and addresses are the same in every process."""
    text = "import random, time\nreturn [time.time(), random.random(), list({'b', 'a', 'c'}), hash('a'), str(lambda: 1), id([])]"
    first = compile_python(text).evaluate({}, now=5_000, seed="s")
    program = (
        "import json, sys; from conductorlite.language.python import compile_python as c;"
        "print(json.dumps(c(sys.argv[1]).evaluate({}, now=5_000, seed='s')))"
    )
    other = subprocess.run([sys.executable, "-c", program, text], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(other.stdout) == first
    assert (first[0], first[2]) == (5, ["b", "a", "c"])
    assert compile_python(text).evaluate({}, now=5_000, seed="t")[1] != first[1]


def test_a_python_text_of_several_lines_stays_as_it_is() -> None:
    """What is put around a script changes no text in it, and its names may be given new values."""
    assert compile_condition("x = '''a\n  b'''\nlimit = limit + 1\nreturn [x, limit]", "python").evaluate({"limit": 2}) == [
        "a\n  b",
        3,
    ]


def test_values_are_plain() -> None:
    """Maps and lists are JavaScript's own, and what comes back is what JSON has for it."""
    script = JavaScript(quick=False)
    values = {"o": {"a": 1}, "l": [2, 1]}
    for text, expected in {
        "Object.keys($.o)": ["a"], "'a' in $.o": True, "JSON.stringify($.o)": '{"a":1}', "$.l.sort()": [1, 2], "-0": 0,
        "new Map([['a', 1]])": {}, "new Uint8Array([1, 2])": {"0": 1, "1": 2},
    }.items():  # fmt: skip
        answer = script.compile(text).evaluate(values)
        assert (type(answer), answer) == (type(expected), expected)


@pytest.mark.parametrize("longest", [200_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_long_answers(longest: int) -> None:
    """Neither the length of a result nor that of an error is in its way, however it was put together."""
    script = JavaScript(quick=False, limits=Limits(seconds=60))
    for length in (300, 600, 5_000, longest):
        values = {"text": "ü" * length, "items": list(range(length // 10))}
        assert script.compile("$.text").evaluate(values) == values["text"]
        assert script.compile("let s = ''; for (const c of $.text) s += c; ({s, all: $.items})").evaluate(values) == {
            "s": values["text"], "all": values["items"],
        }  # fmt: skip
        with pytest.raises(ExpressionFailed, match=r"^Error: ü{300,}"):
            script.compile("throw new Error($.text)").evaluate(values)


def test_a_time_out_is_told_apart() -> None:
    """Only the time limit raises ScriptTimedOut, of a script that looks up as of a call of a built-in that never does."""
    short = JavaScript(limits=Limits(seconds=0.1))
    for text in ("\nwhile (true);", "'a'.repeat(4e5).indexOf('a'.repeat(2e5) + 'b')"):
        with pytest.raises(ScriptTimedOut, match=r"longer than 0\.1 seconds"):
            short.compile(text).evaluate({})
    with pytest.raises(ScriptTimedOut, match=r"longer than 0\.1 seconds"):
        compile_python("while True: pass", PythonLimits(seconds=0.1)).evaluate({})
    with pytest.raises(ExpressionFailed, match="ReferenceError: nope is not defined at line 2") as caught:
        JavaScript().compile("\nnope()").evaluate({})
    assert not isinstance(caught.value, ScriptTimedOut)


def test_a_script_is_cut_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is that of the processor, so it is not tried again; a turn that is decided again does not wait again."""
    asked: list[bool] = []
    ask = processes._ask

    def seen(*arguments: Any) -> Any:
        asked.append(json.loads(arguments[1])["run"])
        return ask(*arguments)

    monkeypatch.setattr(processes, "_ask", seen)
    endless = JavaScript(limits=Limits(seconds=0.151)).compile("for (;;);")
    for now in (1, 2):  # the script does not read the clock
        with pytest.raises(ScriptTimedOut):
            endless.evaluate({}, now=now)
    assert asked == [False, True]


@pytest.mark.parametrize(
    ("text", "evaluator", "timed"),
    [
        ("[1].map(x => $.a)", "javascript", False),
        ("[Date.now()]", "javascript", True),
        ("[globalThis['Da' + 'te'].now()]", "javascript", True),
        ("(function () { return this['Da' + 'te'].now() })()", "javascript", True),
        ("[D\\u0061te.now()]", "javascript", True),
        ("[1][0]", "python", False),
        ("import datetime\nreturn str(datetime.datetime.now())", "python", True),
    ],
)
def test_an_answer_holds_at_another_instant(text: str, evaluator: str, timed: bool) -> None:
    """Of a script that cannot read the clock, and of no other."""
    script = compile_condition(text, evaluator)
    assert (script.evaluate({"a": 1}, now=1_000) != script.evaluate({"a": 1}, now=2_000)) is timed
    assert getattr(script, "timed") is timed  # noqa: B009 - of these two languages


def test_a_result_that_grows_is_ended_while_it_is_written() -> None:
    """Not when the time is over: no more than it may have is ever put together."""
    endless = "new Proxy([], {get: (list, key) => key === 'length' ? 1e9 : 1})"
    for text in (endless, f"({{a: {endless}}})", "'x'.repeat(1000)", "({['x'.repeat(1000)]: 1})"):
        with pytest.raises(ExpressionFailed, match=r"^the result is longer than 1,000 characters$"):
            JavaScript(limits=Limits(seconds=60, output_characters=1_000)).compile(text).evaluate({})


@pytest.mark.parametrize("text", ["a b", "1 +", "return 1", "`"])
def test_syntax_is_checked_before_anything_runs(text: str) -> None:
    """A syntax error is found when the script is compiled, with its line."""
    with pytest.raises(InvalidExpression, match=r"line 1"):
        compile_condition(text)


def test_clock_and_chance_are_given() -> None:
    """The same instant and seed give the same answer; another seed gives another."""
    text = "[Math.random(), Math.random(), Date.now(), new Date().getTime(), new Date(2020, 0, 1).getTime()]"
    condition = compile_condition(text)
    first = condition.evaluate({}, now=1_900_000_005_000, seed="a")
    assert first == condition.evaluate({}, now=1_900_000_005_000, seed="a")
    assert first[2:] == [1_900_000_005_000, 1_900_000_005_000, 1_577_836_800_000]
    assert first[:2] != condition.evaluate({}, now=1_900_000_005_000, seed="b")[:2]


def test_evaluations_share_nothing() -> None:
    """What one evaluation leaves in its globals or prototypes, the next does not find."""
    condition = JavaScript().compile("var was = typeof globalThis.left; globalThis.left = 1; Array.prototype.at = 1; was")
    assert [condition.evaluate({}), condition.evaluate({})] == ["undefined", "undefined"]


@pytest.mark.parametrize(
    ("text", "names", "everything"),
    [
        ("for(;;) $.a < $['b c'] && $?.d.e", {"a", "b c", "d"}, False),
        ("`${$.a}`; new Date()", {"a"}, False),
        ("let all = $; new Date()", set(), True),
        ("for (const k in $) k", set(), True),
        ("$.get('a'); new Date()", set(), True),
        ("\\u0024.a; new Date()", set(), True),
    ],
)
def test_names_that_full_javascript_reads(text: str, names: set[str], everything: bool) -> None:
    """The names read of `$` are known from the text, or said to be all."""
    condition = compile_condition(text)
    assert condition.everything is everything
    assert everything or condition.names == names


_LEAVES = st.sampled_from(
    ["$.a", "$.b", "$.s", "$.t", "$.list", "$.m", "$.m.x", "$.list[0]", "$.list.length", "$.s.length", "$['a']", "$.none", "$.yes",
     "$.toString", "$.m.constructor",
     "null", "undefined", "true", "false", "'7'", "''", "'ab'", "0", "3", "2.5", "9007199254740991"]
)  # fmt: skip
_OPERATORS = ["+", "-", "*", "/", "%", "<", ">=", ">", "<=", "==", "!=", "===", "!==", "&&", "||"]
_EXPRESSIONS = st.recursive(
    _LEAVES,
    lambda inner: (
        st.tuples(inner, st.sampled_from(_OPERATORS), inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})")
        | st.tuples(inner, st.sampled_from(_OPERATORS), inner).map(lambda parts: f"{parts[0]} {parts[1]} {parts[2]}")
        | st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} ? {parts[1]} : {parts[2]})")
        | inner.map(lambda text: f"!{text}")
        | inner.map(lambda text: f"-({text})")
    ),
    max_leaves=6,
)


def _bodies(parts: tuple[str, str, str]) -> st.SearchStrategy[str]:
    a, b, c = parts
    return st.sampled_from(
        [
            a,
            f"{a}; {b};",
            f"if ({a}) {{ {b}; }} else {{ {c}; }}",
            f"1; if ({a}) {{ {b} }}",
            f"(function () {{ if ({a}) {{ return {b}; }} return {c}; }})();",
            f"function e() {{ if ({a}) return {b}; else if ({c}) {{ return; }} }} e();",
        ]
    )


_BODIES = st.tuples(_EXPRESSIONS, _EXPRESSIONS, _EXPRESSIONS).flatmap(_bodies)
_NUMBERS = st.integers(-20, 20) | st.sampled_from([2**53, -(2**53) - 1, 2**63 - 1, 1e300, 0.1, -0.5, 5e-324])
_TEXTS = st.text(max_size=4) | st.sampled_from(["7", " 7 ", "é", "😀", "\uffff", "true"])


def _outcome(evaluate: Any, values: dict[str, Any]) -> Any:
    try:
        return json.dumps(evaluate(values))
    except ExpressionFailed:
        return "failed"


@settings(max_examples=150)
@given(
    _BODIES,
    _NUMBERS,
    _NUMBERS,
    st.none() | _TEXTS,
    _TEXTS,
    st.lists(_NUMBERS | _TEXTS | st.none(), max_size=3),
    _NUMBERS | _TEXTS | st.none(),
)
def test_the_subset_agrees_with_quickjs(text: str, a: Any, b: Any, s: str | None, t: str, items: list[Any], x: Any) -> None:
    """Whatever the subset answers, over all kinds of values, QuickJS answers too."""
    values = {"a": a, "b": b, "s": s, "t": t, "list": items, "m": {"x": x}, "none": None, "yes": True}
    subset = compile_subset(text)
    if subset is None:
        return
    try:
        answer = json.dumps(subset.evaluate(values))
    except Outside:
        return
    assert answer == _outcome(JavaScript(quick=False).compile(text).evaluate, values)


@pytest.mark.parametrize(
    ("text", "covered"),
    [(text, True) for text, _ in SHAPES[:2] + SHAPES[4:7]]
    + [
        ("function e() { if ($.a == 1) { return 'x'; } return null; } e();", True),
        ("$.a['b c'].length >= 2 && !($.d || $.e[0] === 'x') ? $.f * 2 - 1 : 'n/a'", True),
        *((text, False) for text in [
            "for(;;){}", "new Date()", "/a/.test('a')", "$.a++", "a-->0", "Math.random()", "$.s.at(0)", "1 & 2", "$.a = 1", "$",
            "[1]", "({})", "x", "1, 2", "1 ** 2", "$?.a", "`a`", "'\\n'", "0x1f", "1e3", "010", "1_0", "9007199254740993",
            "return 1", "(function () { return\n1; })()", "if (1) 1 else 2", "1 /* */", "1 // x", "$.a\n$.b", "let a = 1; a",
            "+$.a", "typeof $.a", "a: 1", "(" * 60 + "1" + ")" * 60, "1" + "+1" * 400, "'" + "\u2028" + "'",
        ]),
    ],
)  # fmt: skip
def test_what_is_answered_in_this_process(text: str, covered: bool) -> None:
    """Only what can neither loop nor call anything: all else is QuickJS's, in a process of its own."""
    assert (compile_subset(text) is not None) is covered


def test_without_the_extra_python() -> None:
    """A script in Python names the pip command when it is compiled; no language starts a process before it is needed."""
    program = """
import sys
import importlib.util
real = importlib.util.find_spec
from conductorlite.language import python as monty
monty.find_spec = lambda name: None if name == "pydantic_monty" else real(name)
from conductorlite.errors import MissingExtra
from conductorlite.language.conditions import compile_condition
assert compile_condition("1 + 1").evaluate({}) == 2
from conductorlite.language import processes
assert not processes._idle and "_quickjs" not in sys.modules
try:
    compile_condition("1", "python")
except MissingExtra as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert "pip install 'conductorlite[python]'" in done.stdout
