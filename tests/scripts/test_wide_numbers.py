"""Whole numbers beyond 2^53 in scripts: what every language reads, compares and returns of them, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductorlite import Engine, EventAction, EventHandler, VirtualClock, Workers, WorkflowDef
from conductorlite.errors import ExpressionFailed
from conductorlite.language.conditions import compile_condition, compile_function
from conductorlite.language.javascript import JavaScript
from conductorlite.language.jq import compile_jq
from conductorlite.language.operators import exact_operators
from conductorlite.language.templates import compile_template
from conductorlite.language.values import MappingSource, may_hold_wide
from conductorlite.model.handlers import StartWorkflow
from tests.scripts.test_scripts import SHAPES
from tests.scripts.test_scripts import VALUES as SHAPE_VALUES

#: An id as databases and message services make them, and the next one: a double cannot tell them apart.
ONE = 1284013452345671681
OTHER = ONE + 1

VALUES: dict[str, Any] = {
    "id": ONE, "other": OTHER, "negative": -ONE, "text": str(ONE), "small": 3, "half": 1.5, "edge": 2**53, "past": 2**53 + 1,
    "power": 2**60, "most": 2**63 - 1, "beyond": 10**30, "float": 1e20, "whole": 9007199254740994.0, "list": [OTHER, ONE, 5],
    "rows": [{"id": OTHER}, {"id": ONE}], "map": {"id": ONE, "a b": [ONE]}, "json": f'{{"id":{ONE},"x":1.5}}',
}  # fmt: skip

JAVASCRIPT: list[tuple[str, Any]] = [
    ("$.id", ONE), ("$.map.id", ONE), ("$.list", [OTHER, ONE, 5]),
    ("[$.id, {a: $.other, b: 1.5}]", [ONE, {"a": OTHER, "b": 1.5}]), ("$.id == $.other", False), ("$.id === $.other", False),
    ("$.id === $.map.id", True), ("$.id != $.other", True), ("$.id < $.other", True), ("$.other <= $.id", False),
    ("$.id > 1.5", True), ("$.negative < $.half", True), ("$.negative < -1.5", True), ("-1.5 < $.negative", False),
    ("$.id > $.float", False), ("$.power === 2 ** 60", True), ("$.id == $.text", True), ("$.id === $.text", False),
    ("$.past == $.edge", False), ("$.past > $.edge", True), ("$.edge === 9007199254740992", True), ("typeof $.id", "number"),
    ("typeof $.id === 'number'", True), ("typeof $.x", "undefined"), ("'' + $.id", str(ONE)), ("`${$.id}`", str(ONE)),
    ("$.id.toString()", str(ONE)), ("String($.negative)", str(-ONE)), ("({[$.id]: $.id})", {str(ONE): ONE}),
    ("$.id ? 1 : 2", 1), ("!$.id", False), ("$.list.indexOf($.id)", 1), ("$.list.includes($.id)", True),
    ("new Set($.list).size", 3), ("$.list.filter(x => x == $.id)", [ONE]),
    ("switch ($.id) { case $.other: 'other'; break; case $.id: 'id' }", "id"), ("$.list.sort()", [ONE, OTHER, 5]),
    ("isNaN($.id)", False), ("isFinite($.id)", True), ("Number.isInteger($.id)", True), ("Number.isSafeInteger($.id)", False),
    ("Number($.id)", 1284013452345671680), ("$.id.toPrecision(5)", "1.2840e+18"), ("Math.sign($.negative)", -1),
    ("parseFloat($.id)", ONE), ("BigInt($.id)", ONE), ("$.most", 2**63 - 1), ("$.float", 1e20), ("$.whole", 9007199254740994),
    ("$.most + 1", 2.0**63), ("$.most * 2", 2.0**64), ("$.id + 1.5", 1284013452345671680), ("$.id / 3.5 > 1", True),
    ("JSON.parse('[1284013452345671681]')[0]", 1284013452345671680),
    # Exact, where the server rounds or fails.
    ("$.id + 1", OTHER), ("$.other - $.id", 1), ("$.id * 2", 2 * ONE), ("$.id % 10", 1), ("-$.id", -ONE), ("+$.id", ONE),
    ("$.id / 1", ONE), ("$.id * 3 / 3", ONE), ("$.edge + 1", 2**53 + 1), ("$.id ** 1", ONE), ("$.id + 1 === $.other", True),
    ("var n = $.id; n++; n", OTHER), ("var n = 1; n += $.id; n", OTHER), ("let o = {n: $.id}; o.n -= 1; o", {"n": ONE - 1}),
    ("$.list.reduce((sum, x) => sum + x, 0)", OTHER + ONE + 5), ("(function () { return $.id + 1; })()", OTHER),
    ("(() => { let s = 0; for (const x of $.list) s += x; return s })()", OTHER + ONE + 5), ("`${$.id + 1}`", str(OTHER)),
    ("$.id == 1284013452345671681", True), ("$.id === 1284013452345671682", False), ("$.beyond", 10**30),
    ("$.beyond + 0", 1e30), ("$.beyond === $.beyond", True), ("'' + $.beyond", str(10**30)),
    ("$.id > $.beyond ? 1 : '' + $.id + 1", f"{ONE}1"), ("parseInt($.id)", ONE), ("Math.floor($.id)", ONE),
    ("Math.round($.id)", ONE), ("Math.abs($.negative)", ONE), ("Math.max(...$.list)", OTHER), ("Math.min($.id, 5)", 5),
    ("$.id.toFixed(2)", f"{ONE}.00"), ("$.rows.sort((a, b) => a.id - b.id)", [{"id": ONE}, {"id": OTHER}]),
    ("/1 - 1/.test('1 - 1') && $.id % 2 === 1", True), ("JSON.stringify($.map)", f'{{"id":{ONE},"a b":[{ONE}]}}'),
    ("JSON.parse(JSON.stringify($.map)).id === $.id", True), ("JSON.parse($.json)", {"id": ONE, "x": 1.5}),
    ("JSON.parse($.json, (key, value) => key === 'x' ? 2 : value)", {"id": ONE, "x": 2}),
    ("JSON.parse('[1284013452345671681]')[0] === $.id", True),
    # A script that makes BigInts itself.
    ("BigInt($.id) + 1n", OTHER), ("typeof BigInt($.id)", "bigint"), ("$.id / 2n", ONE // 2), ("10n ** 30n", 10**30),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), JAVASCRIPT)
@pytest.mark.parametrize("quick", [True, False], ids=["subset", "quickjs"])
def test_javascript(text: str, expected: Any, quick: bool) -> None:
    """What a script answers, by the subset where it can and by QuickJS; the types of JSON count."""
    answer = JavaScript(quick=quick).compile(text).evaluate(VALUES)
    assert (answer, type(answer)) == (expected, type(expected))


@pytest.mark.parametrize(
    "text", ["$.id | 0", "$.small & $.id", "$.id >> 1", "new Date($.id)", "$.text.charAt($.id)", "BigInt(2) * 2 + $.id"]
)
def test_what_javascript_refuses_names_the_path(text: str) -> None:
    """Nothing is rounded without being asked for: the error names the number and where it is."""
    with pytest.raises(
        ExpressionFailed, match=r"at line 1; a whole number beyond 2\^53 cannot stand here .*: (\$\.text .*)?\$\.id is 1284"
    ):
        compile_condition(text).evaluate({"id": ONE, "small": 3, "text": "a"})
    with pytest.raises(ExpressionFailed, match=rf"\$\.rows\[0\]\.id is {OTHER}, \$\.rows\[1\]\.id is {ONE}$"):
        compile_condition("$.rows[0].id | 0").evaluate(VALUES)
    with pytest.raises(ExpressionFailed, match=rf"\$\.map\.id is {ONE}, \$\.map\['a b'\]\[0\] is {ONE}$"):
        compile_function("return $.map.id | 0;").evaluate(VALUES)


#: Scripts, and what becomes of them; `E` stands for the object of the functions.
REWRITTEN: list[tuple[str, str]] = [
    ("a+b*c-d", "E.subtract(E.add(a,E.multiply(b,c)),d)"), ("a === b ? c + d : e", "E.same(a , b) ? E.add(c , d) : e"),
    ("a < b === c > d", "E.same(E.less(a , b) , E.greater(c , d))"),
    ("-x ** 2 ** y", "E.power(E.negative(x) , E.power(2 , y))"),
    ("'' + a + ': ' + b - 2", "E.subtract(E.add('' , a , ': ' , b) , 2)"),
    ("typeof x === 'number' && !y", "E.same(E.kinds[typeof x] , 'number') && !y"),
    ("x = a / b / c; y = /re+/.test(z) / 2", "x = E.divide(E.divide(a , b) , c); y = E.divide(/re+/.test(z) , 2)"),
    ("if (a) /b + c/.test(d); else -e", "if (a) /b + c/.test(d); else E.negative(e)"), ("if (a) { b }\n+c", "if (a) { b }\n+c"),
    ("x = {a: 1 + b, c() { d + 1 }, [e + 1]: f}\n-g", "x = {a: E.add(1 , b), c() { E.add(d , 1) }, [E.add(e , 1)]: f}\n-g"),
    ("a // + b\n+ /* - */ c", "E.add(a // + b\n, /* - */ c)"), ("a\n++b", "a\n++b"),
    ("x += y + 1; z[i] *= 2", "x = E.add(x, E.add(y , 1)); z[i] = E.multiply(z[i], 2)"),
    ("f().x += c; z[i()] += c; y += a ? b : c", "f().x += c; z[i()] += c; y += a ? b : c"),
    ("x /= y ? 1 : 2", "x /= + y ? 1 : 2"),
    ("for (var i = 0; i < n; i += 2) {}", "for (var i = 0; E.less(i , n); i = E.add(i, 2)) {}"),
    ("for (const k of a) for (k in b) c", "for (const k of a) for (k in b) c"),
    ("`a + b${c + d}${`${e - 1}`}`", "`a + b${E.add(c , d)}${`${E.subtract(e , 1)}`}`"),
    ("a?.b + a?.[c - 1] + (a ?.5 : 1)", "E.add(a?.b , a?.[E.subtract(c , 1)] , (a ?.5 : 1))"),
    ("async (a, b) => await a + b", "async (a, b) => E.add(await a , b)"),
    ("class A extends B { #p = 1; get y() { this.#p * 2 } }", "class A extends B { #p = 1; get y() { E.multiply(this.#p , 2) } }"),
    ("switch (a) { case b + 1: c; default: d - 1 }", "switch (a) { case E.add(b , 1): c; default: E.subtract(d , 1) }"),
    ("1284013452345671681 == a && 5 < 1e20", "1284013452345671681n == a && E.less(5 , 1e20)"),
    ("a & b === c | ~d", "a & E.same(b , c) | ~d"), ("a.typeof + b.in", "E.add(a.typeof , b.in)"),
    ("BigInt(a) + 1n < b", "E.less(BigInt(a) + 1n , b)"), ("#!/bin/js\na + 1", "#!/bin/js\nE.add(a , 1)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), REWRITTEN)
def test_operators_become_calls(text: str, expected: str) -> None:
    """As they bind, and in the lines where they were."""
    assert exact_operators(text).replace("__exactly", "E").replace("= E", "= E") == expected


@pytest.mark.parametrize(("text", "expected"), SHAPES)
def test_scripts_without_such_numbers_answer_alike(text: str, expected: Any) -> None:
    """Also when a number beside theirs has their operators rewritten."""
    script = JavaScript(quick=False).compile(f"{text}\n// $.wide")
    assert script.evaluate({**SHAPE_VALUES, "wide": ONE}) == expected


@settings(max_examples=60)
@given(st.lists(st.sampled_from("+-*%"), min_size=1, max_size=4), st.data())
def test_whole_numbers_are_calculated_exactly(signs: list[str], data: st.DataObject) -> None:
    """As Python does, within 64 bits; beyond them as doubles."""
    numbers = [data.draw(st.integers(2**53, 2**60)) * data.draw(st.sampled_from([1, -1])) for _ in range(len(signs) + 1)]
    names = [f"$.list[{at}]" for at in range(len(numbers))]
    text = names[0] + "".join(f" {sign} {name}" for sign, name in zip(signs, names[1:], strict=True))
    answer = JavaScript().compile(text).evaluate({"list": numbers})
    expected = _calculated(numbers, signs)
    assert expected is None or answer == expected


def _calculated(numbers: list[int], signs: list[str]) -> int | None:
    """What the operators make of the numbers, strongest first; None when a step leaves 64 bits."""
    terms, adding = [numbers[0]], list[str]()
    for sign, number in zip(signs, numbers[1:], strict=True):
        if sign in "+-":
            terms.append(number)
            adding.append(sign)
            continue
        last = terms[-1]
        terms[-1] = last * number if sign == "*" else (abs(last) % abs(number)) * (1 if last >= 0 else -1)
        if abs(terms[-1]) >= 2**63:
            return None
    total = terms[0]
    for sign, term in zip(adding, terms[1:], strict=True):
        total = total + term if sign == "+" else total - term
        if abs(total) >= 2**63:
            return None
    return total


JQ: list[tuple[str, list[Any]]] = [
    (".id", [ONE]), (".list", [[OTHER, ONE, 5]]), (".id == .other", [False]), (".id < .other", [True]),
    (".past > .edge", [True]), (".id as $id | [.list[] | select(. == $id)]", [[ONE]]), (".list | sort", [[5, ONE, OTHER]]),
    (".list | max", [OTHER]), (".list | map(tostring)", [[str(OTHER), str(ONE), "5"]]),
    ("{(.id | tostring): .id}", [{str(ONE): ONE}]), ("[.id, .other] | unique | length", [2]),
    (".id == 1284013452345671681", [True]), ("-.id", [-ONE]), (".negative | fabs", [ONE]), (".id | floor", [ONE]),
    (".json | fromjson", [{"id": ONE, "x": 1.5}]), (".text | tonumber", [ONE]), (".beyond", [10**30]), (".most", [2**63 - 1]),
    (".float", [1e20]), (".whole", [9007199254740994]), (".map * {a: 1} | .id", [ONE]), (".small + 1", [4]), (".half * 2", [3]),
    (".small / 2", [1.5]), ("[(1, 2) + (10, 20)]", [[11, 12, 21, 22]]), (".text + \"x\"", [f"{ONE}x"]),
    (".list + [1] | length", [4]), (".small += 1 | .small", [4]), ("[.small, 1] | add", [4]), (".id + 1", [OTHER]),
    (".other - .id", [1]), (".id - .other", [-1]), (".id % 10", [1]), (".id * 1", [ONE]), (".list | add", [OTHER + ONE + 5]),
    (".id += 1 | .id", [OTHER]), (".edge + 1", [2**53 + 1]), (".negative - 1", [-ONE - 1]), (".id - .id", [0]),
    (".id + .negative", [0]), ("reduce .list[] as $x (0; . + $x)", [OTHER + ONE + 5]), (".negative % 7", [-(ONE % 7)]),
    ("def f: . + 1; .small | f # a comment", [4]), ("empty", []), ("1, 2", [1, 2]), (".id | sqrt | floor", [1133143173]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), JQ)
def test_jq(text: str, expected: list[Any]) -> None:
    """What a program puts out; the types of JSON count."""
    answer = compile_jq(text).evaluate(VALUES)
    assert (answer, json.dumps(answer)) == (expected, json.dumps(expected))


@pytest.mark.parametrize(
    "text", [".id * 2", ".id / 2", ".id + 1.5", ".most + 1", ".beyond + 1", ".id % 1e7", ".list | map(. * 3)", ".id *= 2"]
)
def test_what_jq_refuses_names_the_path(text: str) -> None:
    """jq calculates with doubles."""
    message = rf"^jq does not calculate exactly with whole numbers beyond 2\^53: \$\.id is {ONE}, \$\.other is {OTHER}, "
    with pytest.raises(ExpressionFailed, match=message):
        compile_jq(text).evaluate(VALUES)


@settings(max_examples=60)
@given(st.integers(-(2**61), 2**61), st.integers(-(2**61), 2**61))
def test_jq_adds_exactly(left: int, right: int) -> None:
    """Up to 64 bits."""
    answer = compile_jq("[.a + .b, .a - .b, (.a % 97)]").evaluate({"a": left, "b": right, "wide": ONE})
    rest = abs(left) % 97
    assert answer == [[left + right, left - right, rest if left >= 0 else -rest]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id", ONE),
        ("id + 1", OTHER),
        ("id == other", False),
        ("[max(list), id * id]", [OTHER, ONE * ONE]),
        ("beyond", 10**30),
        ("str(id)", str(ONE)),
    ],
)
def test_python(text: str, expected: Any) -> None:
    """Python is exact."""
    assert compile_condition(text, "python").evaluate(VALUES) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${rows[?(@.id == 1284013452345671681)]}", [{"id": ONE}]),
        ("${rows[?(@.id == $.id)]}", [{"id": ONE}]),
        ("${rows[?(@.id > 1284013452345671681)].id}", [OTHER]),
        ("${rows[?(@.id in [1284013452345671682])].id}", [OTHER]),
        ("${rows[?(@.id == '1284013452345671681')].id}", [ONE]),
        ("n ${id} ${beyond}", f"n {ONE} {10**30}"),
    ],
)
def test_paths(text: str, expected: Any) -> None:
    """Filters compare exactly, and texts hold every digit."""
    assert compile_template(text).render(MappingSource(whole=VALUES)) == expected


_WIDE = st.integers(2**53 - 2, 2**64) | st.integers(2**53 - 2, 10**40)
_NUMBERS = _WIDE | _WIDE.map(lambda number: -number) | st.integers(-9, 9) | st.sampled_from([0.5, 1.25e-7, 1e300])
_LEAVES = _NUMBERS | st.none() | st.booleans() | st.text("aé'\"\\ 1234567890", max_size=20)
_DOCUMENTS = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("a1é .", max_size=3), inner, max_size=4)
)


@settings(max_examples=60)
@given(_DOCUMENTS)
def test_a_document_passes_through_unchanged(document: Any) -> None:
    """Wherever the numbers are, and beside whatever."""
    written = json.dumps(document, sort_keys=True)
    answers = [
        compile_condition("$.value").evaluate({"value": document}),
        compile_condition("$['value']['x'] ? 1 : $.value").evaluate(
            {"value": document} if document is not None else {"value": [1]}
        ),
        compile_condition("JSON.parse(JSON.stringify($)).value").evaluate({"value": document}),
        compile_jq(".value").evaluate({"value": document})[0],
        compile_condition("value", "python").evaluate({"value": document}),
    ]
    expected = [written] * 5 if document is not None else [written, "[1]", *[written] * 3]
    assert [json.dumps(answer, sort_keys=True) for answer in answers] == expected


@settings(max_examples=60)
@given(_NUMBERS, _NUMBERS)
def test_every_language_compares_alike(left: float, right: float) -> None:
    """Equality and order are those of the numbers."""
    values = {"a": left, "b": right}
    expected = [left == right, left < right, left >= right]
    for text in ("[$.a == $.b, $.a < $.b, $.a >= $.b]",):
        assert compile_condition(text).evaluate(values) == expected
    for sign, answer in zip(("==", "<", ">="), expected, strict=True):
        assert compile_condition(f"$.a {sign} $.b").evaluate(values) is answer
    assert compile_jq("[.a == .b, .a < .b, .a >= .b]").evaluate(values) == [expected]
    assert compile_condition("[a == b, a < b, a >= b]", "python").evaluate(values) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"a": ONE}, True),
        ({"a": [1, -ONE]}, True),
        ({"a": [ONE, 1]}, True),
        ({"a": {"b": [[2**53]]}}, True),
        ({"a": json.dumps({"id": ONE})}, True),
        ({"a": json.dumps([1, ONE], indent=2)}, True),
        ({"a": 2**53 - 1, "b": [1 / 7, 1e20, 9007199254740994.0, 10**15 - 1]}, True),
        ({"b": [1 / 7, -1 / 7, 1e20, 9007199254740994.0, 10**15 - 1, 1e300], "c": str(ONE), "d": f"order {ONE}, 7"}, False),
    ],
)
def test_which_values_may_hold_them(values: dict[str, Any], expected: bool) -> None:
    """Fractions and digits in texts are not taken for such numbers: their scripts run as they are."""
    assert may_hold_wide(json.dumps(values, separators=(",", ":"))) is expected


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An engine on a virtual clock, with a worker that pages through rows."""
    workers = Workers()
    pages = {0: [OTHER - 2, OTHER - 1], OTHER - 1: [OTHER], OTHER: []}
    workers.add("page", lambda after=0: {"rows": pages[after], "last": (pages[after] or [after])[-1]})
    stores = [str(tmp_path / "wide.db")] if request.param == "sqlite" else []
    with Engine(*stores, clock=VirtualClock(0), workers=workers) as made:
        yield made


def _task(ref: str, kind: str, inputs: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": ref, "taskReferenceName": ref, "type": kind, "inputParameters": inputs, **fields}


def _note(ref: str) -> list[dict[str, Any]]:
    return [_task(ref, "NOOP", {})]


def _run(engine: Engine, *tasks: dict[str, Any], **values: Any) -> Any:
    run = engine.start(WorkflowDef.from_json({"name": "w", "tasks": list(tasks)}), values)
    engine.run_until_idle()
    assert run.status == "COMPLETED"
    return run.workflow


BOTH = {"a": "${workflow.input.a}", "b": "${workflow.input.b}"}


def test_switches_take_the_case_of_the_id(engine: Engine) -> None:
    """By script, by value, and in a DECISION."""
    cases = {"true": _note("same"), str(ONE): _note("one")}
    found = _run(
        engine,
        _task(
            "s",
            "SWITCH",
            BOTH,
            evaluatorType="javascript",
            expression="$.a === $.b",
            decisionCases=cases,
            defaultCase=_note("differ"),
        ),
        _task(
            "v",
            "SWITCH",
            {"a": "${workflow.input.a}"},
            evaluatorType="value-param",
            expression="a",
            decisionCases={str(ONE): _note("by_value")},
        ),
        _task("t", "SWITCH", BOTH, evaluatorType="javascript", expression="$.a", decisionCases={str(ONE): _note("by_text")}),
        _task("d", "DECISION", BOTH, caseExpression="$.b > $.a ? 'after' : 'no'", decisionCases={"after": _note("after")}),
        a=ONE,
        b=OTHER,
    )
    assert [task.ref for task in found.tasks if task.task_type == "NOOP"] == ["differ", "by_value", "by_text", "after"]


def test_tasks_that_hold_a_script_put_out_what_they_are_given(engine: Engine) -> None:
    """INLINE, LAMBDA and JSON_JQ_TRANSFORM."""
    found = _run(
        engine,
        _task("i", "INLINE", {**BOTH, "evaluatorType": "graaljs", "expression": "({id: $.a, all: [$.b, 1]})"}),
        _task("l", "LAMBDA", {**BOTH, "scriptExpression": "return $.a == $.b ? null : [$.a, $.b];"}),
        _task("j", "JSON_JQ_TRANSFORM", {**BOTH, "queryExpression": "{id: .a, other: .b}"}),
        _task("p", "INLINE", {**BOTH, "evaluatorType": "python", "expression": "[a, b, b - a]"}),
        a=ONE,
        b=OTHER,
    )
    assert [task.output_data["result"] for task in found.tasks] == [
        {"id": ONE, "all": [OTHER, 1]}, [ONE, OTHER], {"id": ONE, "other": OTHER}, [ONE, OTHER, 1],
    ]  # fmt: skip


def test_a_pager_ends_where_it_should(engine: Engine) -> None:
    """A loop goes on while the last id that was read is another than the one before."""
    page = _task("page", "SIMPLE", {"after": "${workflow.variables.last}"})
    kept = _task("kept", "SET_VARIABLE", {"before": "${workflow.variables.last}", "last": "${page.output.last}"})
    inputs = {"before": "${workflow.variables.before}", "last": "${workflow.variables.last}"}
    loop = _task("loop", "DO_WHILE", inputs, loopCondition="$.last != $.before", loopOver=[page, kept])
    found = _run(engine, _task("begin", "SET_VARIABLE", {"last": 0, "before": 0}), loop)
    assert [task.output_data["last"] for task in found.tasks if task.base_ref == "page"] == [OTHER - 1, OTHER, OTHER]


def test_an_event_handler_acts_upon_its_id(engine: Engine) -> None:
    """Its condition compares the id with one of the payload."""
    engine.register(WorkflowDef.from_json({"name": "w", "tasks": _note("n")}))
    action = EventAction(action="start_workflow", start_workflow=StartWorkflow(name="w", input={"id": "${id}"}))
    engine.events.register(EventHandler(name="h", event="sqs:x", active=True, condition="$.id == $.other", actions=(action,)))
    (skipped,) = engine.events.publish("sqs:x", {"id": ONE, "other": OTHER})
    (done,) = engine.events.publish("sqs:x", {"id": OTHER, "other": OTHER})
    assert (str(skipped.status), str(done.status)) == ("SKIPPED", "COMPLETED")
    assert engine.get(done.output_data["workflowId"]).input_data["id"] == OTHER


def test_a_task_that_cannot_be_exact_fails_with_the_path(engine: Engine) -> None:
    """The reason names the number."""
    task = _task(
        "i", "INLINE", {"id": "${workflow.input.a}", "evaluatorType": "javascript", "expression": "$.id | 0"}, optional=True
    )
    found = _run(engine, task, a=ONE)
    assert f"$.id is {ONE}" in (found.task("i").reason or "")
