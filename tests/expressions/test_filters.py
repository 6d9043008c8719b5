"""Filters of paths: what Jayway answers, operator by operator."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductorlite.errors import InvalidExpression
from conductorlite.language.jsonpath import compile_path
from conductorlite.language.values import Json

ITEMS: list[dict[str, Any]] = [
    {"id": 1, "p": 1, "s": "red", "l": [], "m": {}, "b": True},
    {"id": 2, "p": None, "s": "Green", "l": [1, "2"], "m": {"k": [{"v": 5}]}, "b": False},
    {"id": 3, "l": [1, 2, 3], "s": "", "x": "7", "y": 7.5},
]
DOCUMENT: Json = {"o": ITEMS, "max": 2, "wanted": [1, 3], "name": "red"}


def found(condition: str) -> Json:
    """The ids of the items that pass."""
    return compile_path(f"$.o[?({condition})].id").evaluate(DOCUMENT, 0, lambda: DOCUMENT)


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        # what is not there is null in a comparison, and not there by itself
        ("@.p", [1, 2]), ("!@.p", [3]), ("!(@.p)", [3]), ("@.p == null", [2, 3]), ("@.p != null", [1]), ("null == @.p", [2, 3]),
        ("@.p != 1", [2, 3]), ("@.m.k[0].v", [2]), ("@.m.k[?(@.v > 4)]", [2]),
        # numbers and texts are equal when they are written alike
        ("@.id == 2", [2]), ("@.id == '2'", [2]), ("@.x == 7", [3]),
        ("@.x == '7'", [3]), ("@.y == '7.5'", [3]), ("@.y == 7.50", [3]),
        ("@.id === '2'", []), ("@.id === 2", [2]), ("@.id !== '2'", [1, 2, 3]), ("@.b == true", [1]), ("@.b == 'true'", []),
        ("@.s == 'red'", [1]), ('@.s == "red"', [1]), ("@.s != 'red'", [2, 3]), ("@.l == [1, '2']", [2]), ("@.l == []", [1]),
        # only like is less than like
        ("@.id > 1", [2, 3]), ("@.id >= 2 && @.id <= 2", [2]), ("@.id < '9'", []), ("@.s < 'a'", [2, 3]), ("@.p < 5", [1]),
        ("@.b > false", []), ("1 < @.id", [2, 3]),
        # operators in words
        ("@.id in [1, '3']", [1, 3]), ("@.id nin [1]", [2, 3]),
        ("@.id NIN [1]", [2, 3]), ("@.id in $.wanted", [1, 3]), ("@.id in 'x'", []),
        ("@.l size 2", [2]), ("@.s size 3", [1]), ("@.l.length() > 1", [2, 3]), ("@.l.size() == 3", [3]), ("@.s.length() == 3", []),
        ("@.l empty true", [1]), ("@.l empty false", [2, 3]),
        ("@.s empty true", [3]), ("@.m empty true", None), ("@.p empty true", []), ("@.l empty 1", []),
        ("@.s contains 'ree'", [2]), ("@.l contains 2", [2, 3]), ("@.p contains 1", []),
        ("@.l anyof [2, 9]", [2, 3]), ("@.l noneof [2, 9]", [1]),
        ("@.l subsetof [1, 2, 3]", [1, 2, 3]), ("@.l subsetof [1, 2]", [1, 2]),
        ("@.l all [1, 3]", []), ("@.s anyof ['red']", []),
        # regular expressions match the whole text
        ("@.s =~ /re/", []), ("@.s =~ /re.*/", [1]), ("@.s =~ /GREEN/i", [2]), ("@.id =~ /[12]/", [1, 2]), ("@.l =~ /3/", [3]),
        # together
        ("@.id == 1 || @.id == 2 && @.s == 'x'", [1]),
        ("(@.id == 1 || @.id == 2) && @.s == 'Green'", [2]), ("!(@.id == 1)", [2, 3]),
        ("@.id <= $.max", [1, 2]), ("@.s == $.name", [1]), ("@['id'] == 3", [3]),
        ("@.l[-1] == 3", [3]), ("@..v", [1, 2, 3]), (" @.id==1 ", [1]),
        ("@.s == 'it\\'s'", []), ("@.id == 1.0", [1]), ("@.id == -1", []), ("@.id == 1e0", [1]),
    ],
)  # fmt: skip
def test_what_passes(condition: str, ids: list[int] | None) -> None:
    """Each operator, over every kind of value it may meet."""
    assert found(condition) == ids


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("@.id ==", "a value expected at the end"), ("== 1", "a value expected"), ("@.id = 1", "unexpected"), ("1", "not compared"),
        ("@.id == 1 &&", "a value expected"), ("(@.id == 1", r"'\)' expected"),
        ("@.id == 1)", r"unexpected '\)'"), ("@.id foo 1", "unexpected 'foo"),
        ("@.s =~ /x/q", "unexpected 'q'"), ("@.s =~ /(a+)+$/", "repeats a group"), ("@.id == abc", "a value expected"),
        ("(" * 20 + "@.id" + ")" * 20, "nested deeper"),
        ("@.id in " + "[" * 20 + "]" * 20, "nested deeper"), ("@.id == 1" + " " * 1000, "longer than"),
    ],
)  # fmt: skip
def test_what_is_no_filter(condition: str, problem: str) -> None:
    """Refused when it is compiled, with what is wrong."""
    with pytest.raises(InvalidExpression, match=problem):
        compile_path(f"$.o[?({condition})]")


def test_large_comparisons_are_bounded() -> None:
    """Lists are looked into item by item, not pair by pair; what would look at too much is null."""
    document: Json = {"o": [{"l": list(range(5_000))}], "w": list(range(4_999, 10_000)), "s": "x" * 1_000_000, "t": ["xy"] * 1_000}
    assert compile_path("$.o[?(@.l anyof $.w)]").evaluate(document, 0, lambda: document) == document["o"]
    assert compile_path("$.t[?($.s contains @)]").evaluate(document, 0, lambda: document) is None


_VALUES = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "1", "a", "-2"]) | st.lists(st.integers(0, 2), max_size=2)
)


@given(_VALUES, _VALUES, st.sampled_from([("==", "!="), ("===", "!=="), ("in", "nin")]))
def test_each_comparison_has_its_opposite(left: Json, right: Json, pair: tuple[str, str]) -> None:
    """An item passes exactly one of a comparison and its opposite, and one that is equal in kind is equal."""
    document: Json = {"o": [{"a": left, "b": right, "id": 1}]}

    def passes(operator: str) -> bool:
        return compile_path(f"$.o[?(@.a {operator} @.b)].id").evaluate(document, 0, lambda: document) == [1]

    # What is no list neither holds a value nor lacks it.
    assert passes(pair[0]) is not passes(pair[1]) or (pair[0] == "in" and not isinstance(right, list))
    assert not passes("===") or passes("==")
    literal = json.dumps(right)
    same = compile_path(f"$.o[?(@.a == {literal})].id").evaluate(document, 0, lambda: document) == [1]
    assert same is passes("==")
