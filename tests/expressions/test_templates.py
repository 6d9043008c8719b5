"""Templates beyond the tables: verified rows, static reads, problems, hostile input, properties."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductorlite.errors import ExpressionFailed, InvalidExpression
from conductorlite.language.jsonpath import Reads, compile_path
from conductorlite.language.regexes import bounded_pattern
from conductorlite.language.templates import compile_template
from conductorlite.language.values import MISSING, Json, MappingSource, Missing, java_double, to_text

_OBJS = [{"id": "a", "v": 1}, {"id": "b", "v": 2}, {"id": "c", "v": 3}]
_INPUT: dict[str, Any] = {
    "s": "str", "n": 5, "f": 2.5, "b": True, "nul": None, "m": {"a": 1, "b": {"c": "x"}},
    "l": [1, "two", {"k": 3}], "objs": _OBJS, "nums": [1, 2, 3], "ref": "${workflow.input.s}", "esc": "$${x}",
    "idx": 1, "name": "n", "json": '{"q":1}', "a b": "ab", "a.b": "adotb", "a-b": "adashb",
    "missingText": "a" * 40 + "!",
}  # fmt: skip
_DOCUMENT = {"workflow": {"input": _INPUT}, "task-2": {"output": {"x": "found"}}, "task 3": {"output": {"x": 1}}}

# `…` stands for `workflow.input.`
_VERIFIED: list[tuple[str, Json]] = [
    ("${…s}", "str"), ("${…n}", 5), ("${…f}", 2.5), ("${…b}", True), ("${…nul}", None),
    ("${…m}", _INPUT["m"]), ("${…l}", _INPUT["l"]), ("${workflow}", _DOCUMENT["workflow"]),
    ("${…missing}", None), ("${…missing.deeper}", None), ("${nosuch.output.x}", None), ("${nosuch}", None),
    ("${…nul.x}", None), ("a ${…missing} b", "a null b"), ("a ${…nul} b", "a null b"),
    ("a ${…n} b ${…f}", "a 5 b 2.5"), ("a ${…b}", "a true"), ("a ${…m} b", "a {a=1, b={c=x}} b"),
    ("a ${…l} b", "a [1, two, {k=3}] b"), ("a ${…l[*]}", 'a [1,"two",{"k":3}]'),
    ("a ${…objs[*].id}", 'a ["a","b","c"]'), ("${…s}${…n}", "str5"), (" ${…n}", " 5"), ("${…n} ", "5 "),
    ("${ workflow.input.n }", None), ("${workflow.input.n", "${workflow.input.n"),
    ("workflow.input.n}", "workflow.input.n}"), ("${…n}}", "5}"), ('{"x":"${…n}"}', '{"x":"5"}'),
    ('function e(){ if($.a){return "${…s}"} }', 'function e(){ if($.a){return "str"} }'),
    ("${{workflow.input.n}}", None), ("$${workflow.input.n}", "${workflow.input.n}"),
    ("$$${workflow.input.n}", "$${workflow.input.n}"), ("$${…n} ${…n}", "${workflow.input.n} 5"),
    ("plain $${x}", "plain ${x}"), ("${workflow.input['a b']}", "ab"), ('${workflow.input["a.b"]}', "adotb"),
    ("${workflow.input['a.b']}", "adotb"), ("${…a-b}", "adashb"), ("${task-2.output.x}", "found"),
    ("${task 3.output.x}", None), ("${workflow.input.n + 1}", None),
    ("${…l[0]}", 1), ("${…l[-1]}", {"k": 3}), ("${…l[10]}", None), ("${…l[0:2]}", [1, "two"]),
    ("${…l[0,1]}", [1, "two"]), ("${…l[*]}", _INPUT["l"]), ("${…objs[*].id}", ["a", "b", "c"]),
    ("${workflow.input..id}", ["a", "b", "c"]), ("${…objs[?(@.id=='b')]}", [_OBJS[1]]),
    ("${…objs[?(@.id=='b')].v}", [2]), ("${…objs[?(@.id=='z')]}", []), ("${…missing[*]}", []),
    ("${…missing[*].x}", []), ("${workflow.input..nosuch}", []), ("${…objs[0]['id','v']}", {"id": "a", "v": 1}),
    ("${…l.length()}", 3), ("${…m.size()}", 2), ("${…m.keys()}", ["a", "b"]), ("${…l.first()}", 1),
    ("${…l.last()}", {"k": 3}), ("${…l.index(1)}", "two"),
    ("${…missing.length()}", None), ("${…objs[*].v.sum()}", None),
    ("${…objs[*].v.min()}", None), ("${$.workflow.input.n}", 5), ("${…ref}", "${workflow.input.s}"),
    ("a ${…ref}", "a ${workflow.input.s}"), ("${…esc}", "$${x}"), ("a ${…esc}", "a ${x}"),
    ("${workflow.input.l[${…idx}]}", "two"), ("${workflow.input.${…name}}", 5),
    ("${workflow.input.${…missing}}", None), ("${…json.q}", None), ("${}", ""), ("x${}y", "xy"), ("${  }", ""),
    ("${CPEWF_TASK_ID}", "${CPEWF_TASK_ID}"), ("id=${CPEWF_TASK_ID}", "id=${CPEWF_TASK_ID}"),
    ("${NETFLIX_ENV}", "${NETFLIX_ENV}"),
    ("x ${workflow.secrets.DB} y ${…n}", "x ${workflow.secrets.DB} y 5"), ("${workflow.input.}", None),
    ("${workflow.input[}", _INPUT), ("a${unclosed b${…n}", "a${unclosed b${workflow.input.n}"),
    ("${a ${b} ${c}", "${a ${b} ${c}"), ("a${…n}b${open", "a5b${open"), ("100%$ {x} $5 \\d", "100%$ {x} $5 \\d"),
]  # fmt: skip

# Not in the reference's table: what Jayway's sources are understood to do, not run on it.
_INFERRED: list[tuple[str, Json]] = [
    ("${['task 3'].output.x}", 1), ("${…nums.min()}", 1.0), ("${…nums.sum()}", 6.0), ("${…nums.avg()}", 2.0),
    ("${…nums.max()}", 3.0), ("a ${workflow.input.${…missing}[*]}", "a []"),
    ("a ${workflow.input.objs[${…idx}:].id}", 'a ["b","c"]'),
    ("${…m[?(@.a==1)]}", [_INPUT["m"]]), ("${…objs[?(@.v > $.workflow.input.idx)].id}", ["b", "c"]),
    ("${…objs[?(@.id =~ /[ab]/)].v}", [1, 2]), ("${$..v.sum()}", 6.0), ("${…objs[*]['id','v']}", _OBJS),
]  # fmt: skip


def _render(template: Json, document: Json = _DOCUMENT, **variables: str) -> Json:
    return compile_template(template).render(MappingSource(whole=document, variables=variables))


# Conductor answers these from its process environment and system properties.
_DEVIATING: list[tuple[str, Json]] = [("${HOME}", None), ("${user.dir}", None), ("${PATH}", None)]


@pytest.mark.trap("tasks-59")
@pytest.mark.parametrize(("text", "expected"), _INFERRED + _DEVIATING, ids=lambda value: str(value)[:50])
def test_not_verified(text: str, expected: Json) -> None:
    """What the reference leaves open, and the one place we differ on purpose, stays as it is."""
    text = text.replace("…", "workflow.input.")
    assert json.dumps(_render(text)) == json.dumps(expected)


@pytest.mark.trap("tasks-61", "tasks-62", "tasks-63", "tasks-64", "tasks-65", "tasks-68")
@pytest.mark.parametrize(("text", "expected"), _VERIFIED, ids=lambda value: str(value)[:50])
def test_verified(text: str, expected: Json) -> None:
    """Each behaviour that was run on Conductor's own resolver comes out the same."""
    text = text.replace("…", "workflow.input.")
    assert json.dumps(_render(text)) == json.dumps(expected)


def test_values_come_by_reference_and_containers_fresh() -> None:
    """A named value is the source's own object; the template's maps and lists are new at each rendering."""
    template = compile_template({"a": ["${workflow.input.m}"], "b": {}})
    source = MappingSource(whole=_DOCUMENT)
    first, second = template.render(source), template.render(source)
    assert first["a"][0] is _INPUT["m"]
    assert first["a"] is not second["a"]
    assert first["b"] is not second["b"]


def test_variables_win_over_the_document() -> None:
    """What the source gives as a variable counts before the document, and the task id among it."""
    assert _render("${workflow}-${CPEWF_TASK_ID}", workflow="W", CPEWF_TASK_ID="t1") == "W-t1"


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("${t1.output.a.b}", Reads(members=frozenset({("t1", "output")}), steps=frozenset({("t1", "output", "a")}))),
        ("${t1.output}", Reads(members=frozenset({("t1", "output")}), steps=frozenset({("t1", "output", None)}))),
        ("${t1.output[0]}", Reads(members=frozenset({("t1", "output")}), steps=frozenset({("t1", "output", None)}))),
        ("${t1.output[*].x}", Reads(members=frozenset({("t1", "output")}), steps=frozenset({("t1", "output", None)}))),
        ("${t1['output'].a}", Reads(members=frozenset({("t1", "output")}), steps=frozenset({("t1", "output", "a")}))),
        ("${t1}", Reads(roots=frozenset({"t1"}))),
        ("${t1[*]}", Reads(roots=frozenset({"t1"}))),
        ("${t1['output','input']}", Reads(roots=frozenset({"t1"}))),
        ("${$..x}", Reads(everything=True)),
        ("${$[*]}", Reads(everything=True)),
        ("${$.*}", Reads(everything=True)),
        ("${t.output[?(@.a == $.u.output.b)]}", Reads(everything=True)),
        ("${${t.output.a}.b}", Reads(
            members=frozenset({("t", "output")}), steps=frozenset({("t", "output", "a")}), dynamic=True)),
        ("${workflow.input.${t.output.a}}", Reads(
            members=frozenset({("t", "output"), ("workflow", "input")}),
            steps=frozenset({("t", "output", "a"), ("workflow", "input", None)}))),
        ("${CPEWF_TASK_ID} ${workflow.secrets.X} plain", Reads()),
    ],
)  # fmt: skip
def test_reads(text: str, reads: Reads) -> None:
    """What a template reads is known before it is rendered."""
    assert compile_template({"k": [text]}).reads == reads


class _Recorder:
    """A source that notes what it is asked for."""

    has_env = False

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def member(self, root: str, member: str) -> Json | Missing:
        self.asked.append((root, member))
        return _DOCUMENT.get(root, {}).get(member, MISSING)

    def root(self, root: str) -> Json | Missing:
        self.asked.append((root,))
        return _DOCUMENT.get(root, MISSING)

    def document(self) -> Json:
        self.asked.append(())
        return _DOCUMENT

    def variable(self, name: str) -> str | None:
        return None

    def env(self, name: str) -> str | None:
        return None


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("${workflow.input.objs[*].id}", ("workflow", "input")),
        ("${workflow.input.m.b.c}", ("workflow", "input")),
        ("${workflow..id}", ("workflow",)),
        ("${$..id}", ()),
    ],
)
def test_the_smallest_document_is_asked_for(text: str, asked: tuple[str, ...]) -> None:
    """A path never makes the source build more than it reads."""
    source = _Recorder()
    compile_template(text).render(source)
    assert source.asked == [asked]


def test_problems_name_the_place() -> None:
    """A path that cannot be compiled renders null and is reported with its JSON path."""
    template = compile_template({"a": ["${t.output.n + 1}", "${t.x.nosuch()}"], "b": "${t.output.ok}"})
    assert [where for where, _ in template.problems] == ["$.a[0]", "$.a[1]"]
    assert template.render(MappingSource(whole={})) == {"a": [None, None], "b": None}


def _nested(depth: int) -> Json:
    value: Json = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("template", [_nested(20_000), "${" * 50 + "}" * 50, "${" * 50_000 + "}" * 50_000])
def test_hostile_templates_are_refused(template: Json) -> None:
    """Nesting beyond the limits is an InvalidExpression, at once."""
    with pytest.raises(InvalidExpression):
        compile_template(template)


@pytest.mark.parametrize(
    "path", ["a" + ".b" * 100_000, "a" + "[0]" * 1000, "a" + "[0,0]" * 200, "$" + "..*" * 50, "a[?(" + "(" * 900 + ")]"]
)
def test_hostile_paths_answer_quickly(path: str) -> None:
    """Long, multiplying and deeply bracketed paths answer null or nothing instead of running away."""
    document: Json = {"a": _nested(100)}
    assert _render("${" + path + "}", document) in (None, [])


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|aa)*b", r"(a*)*", r"(a?){30}a{30}", r"(?=a)b", r"(a)\1"])
def test_runaway_regular_expressions_are_refused(pattern: str) -> None:
    """A filter with a pattern that could take exponential time is a problem and finds nothing."""
    template = compile_template("${workflow.input.l[?(@ =~ /" + pattern + "/)]}")
    assert len(template.problems) == 1
    assert template.render(MappingSource(whole=_DOCUMENT)) is None


def test_regular_expressions_are_bounded_by_the_text() -> None:
    """A polynomial pattern works on texts of a usual size and refuses ones it could be slow on."""
    pattern = bounded_pattern(r"[a-z]*@[a-z]*\.(com|org)?")
    assert pattern.fullmatch("me@home.org")
    with pytest.raises(ExpressionFailed):
        bounded_pattern(r"a*a*a*b").fullmatch("a" * 10_000)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e7, "1.0E7"), (9999999.0, "9999999.0"), (0.001, "0.001"), (0.00015, "1.5E-4"), (-0.0, "-0.0"),
     (1e300, "1.0E300"),
     (123456.75, "123456.75"), (-2.5, "-2.5"), (0.1, "0.1")],
)  # fmt: skip
def test_doubles_look_like_javas(value: float, text: str) -> None:
    """A float in a text is written as Java writes it."""
    assert java_double(value) == text


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
_PIECES = [
    "${", "}", "$", "{", "workflow", ".", "input", "[", "]", "*", "'", "?(@", ")", "..", "n", " ", "0", ":", "x()", ",",
]  # fmt: skip


@given(st.lists(st.sampled_from(_PIECES), max_size=30).map("".join) | st.text())
def test_any_string_renders(text: str) -> None:
    """No string of fewer than the allowed levels makes compiling or rendering raise."""
    _render({"k": text})


@given(_JSON)
def test_values_without_expressions_render_to_themselves(value: Json) -> None:
    """JSON without `${` is its own rendering."""
    if "${" not in json.dumps(value, ensure_ascii=False):
        assert _render(value) == value


@given(_JSON)
def test_rendering_changes_nothing(value: Json) -> None:
    """Neither the template nor the document is changed by rendering."""
    document = {"workflow": {"input": value}}
    template = {"a": "${workflow.input}", "b": ["x ${workflow.input}"], "c": value}
    before = copy.deepcopy((document, template))
    _render(template, document)
    assert (document, template) == before


_KEYS = st.sampled_from(["a", "b", "c"])
_TREE = st.recursive(
    st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=20,
)


@given(_TREE, st.lists(_KEYS | st.integers(-3, 3), min_size=1, max_size=5))
def test_plain_paths_agree_with_jsonpath(tree: Json, steps: list[str | int]) -> None:
    """The fast way of a dotted path answers what the general path evaluation answers."""
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    compiled = compile_path("$" + path)
    assert _render("${$" + path + "}", tree) == compiled.evaluate(tree, 0, lambda: tree)
    found = compile_path("$" + path.replace(".", "..", 1)).evaluate(tree, 0, lambda: tree) if path[0] == "." else None
    answer = _render("${$" + path + "}", tree)
    if found is not None and answer is not None:
        assert answer in found


@given(_JSON)
def test_text_of_any_value(value: Json) -> None:
    """Every JSON value has a text form."""
    assert isinstance(to_text(value), str)
