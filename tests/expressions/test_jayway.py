"""Paths answer what Conductor's library answers: its documentation, function by function and operator by operator."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from conductorlite.errors import InvalidExpression
from conductorlite.language.jsonpath import compile_path
from conductorlite.language.values import Json

TABLE: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "jayway.json").read_text(encoding="utf-8"))
DOCUMENT: Json = TABLE["document"]


def answer(path: str, document: Json = DOCUMENT) -> Json:
    """What a template puts in the place of the path."""
    try:
        return compile_path(path).evaluate(document, 0, lambda: document)
    except InvalidExpression:
        return None


def test_every_row_of_the_table() -> None:
    """Values, their kinds and their order are Jayway's; no path changes the document."""
    before = copy.deepcopy(DOCUMENT)
    wrong = [
        (path, expected, found) for path, expected in TABLE["rows"] if json.dumps(found := answer(path)) != json.dumps(expected)
    ]
    assert wrong == []
    assert before == DOCUMENT


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        # Jayway's answers after `..[…]` and `..*` hang on what was asked before: the brackets count here
        ("$..*.id", [1, 2, 3, 4, "5", 2]),
        ("$..[?(@.id == 2)].id", [2, 2]),
        ("$..[0].id", [1]),
        # an item that is appended is in the answer only
        ("$.one.append($.one)", [42, [42]]),
        # refused: Java's classes of characters, functions that do not exist
        (r"$.o[?(@.s =~ /\p{L}+/)].id", None),
        ("$.l.foo()", None),
    ],
)
def test_where_it_deviates(path: str, expected: Json) -> None:
    """Each has its row among the deviations."""
    assert answer(path) == expected


def test_numbers_that_are_none() -> None:
    """They are written as Conductor's JSON writes them."""
    assert answer("$.l.sum(1e308, 1e308)") == "Infinity"
    assert answer("$.l.stddev(1e200)") == "NaN"
    assert answer("$.n.sum()", {"n": [10**400]}) == "Infinity"


@pytest.mark.parametrize("opening", ["$.l[?(@", "$.sum($.l,$", "$.sum("])
def test_nesting_is_bounded(opening: str) -> None:
    """Paths within paths, and parentheses without end, are refused."""
    with pytest.raises(InvalidExpression):
        compile_path(opening * 400)
    with pytest.raises(InvalidExpression):
        compile_path("$.l" + "[?(@" * 60 + ")]" * 60)
