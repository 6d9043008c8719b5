"""The language of searches: what it means, what it refuses and where, and that nothing else ever comes of a text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from own_index_kit import OwnIndex

from conductorlite.errors import InvalidInput, InvalidQuery
from conductorlite.model.canonical import Payload
from conductorlite.model.executions import Workflow
from conductorlite.store.documents import TASKS, WORKFLOWS, free_text, workflow_document
from conductorlite.store.query import parse_query
from conductorlite.store.search import answer, asked
from conductorlite.testing.conformance.documents import queries

DOCUMENTS = [
    workflow_document(
        Workflow(
            workflow_id=name,
            name="order",
            version=2,
            definition_hash="",
            correlation_id=correlation,
            created_at=at,
            input=Payload.of(data),
        )
    )
    for name, correlation, at, data in (
        ("one", "a", 86_400_000, {"n": 1, "flag": True, "text": "7", "items": [{"sku": "x"}, {"sku": "y"}], "x.y": 1}),
        ("two", None, 172_800_000, {"n": 2.5, "flag": False, "text": "a*b", "items": [], "none": None}),
        ("three", "c", 3 * 86_400_000, {"n": "3", "deep": {"er": {"est": -1}}, "text": "O'Hara \\"}),
    )
]


def found(query: str, words: str = "*", sort: str = "startTime:ASC") -> list[Any]:
    """Ids of what answers, by looking and by an index, which must agree."""
    wanted = asked(WORKFLOWS, query, words, 0, 100, sort)
    index = OwnIndex(":memory:", *DOCUMENTS)
    ids = [document.workflow_id for document in answer(DOCUMENTS, wanted)[1]]
    assert [row.workflow_id for row in index.workflows(wanted).results] == ids
    index.close()
    return ids


@pytest.mark.trap("core-48")
@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("", ["one", "two", "three"]),
        ("workflowId = one OR workflowId = two AND correlationId = c", ["one"]),
        ("(workflowId = one OR workflowId = two) AND correlationId = a", ["one"]),
        ("NOT workflowId = one AND NOT workflowId = two", ["three"]),
        ("workflowId != one", ["two", "three"]),
        ("workflowId in (one, 'three')", ["one", "three"]),
        ("workflowId NOT IN (one, 'three')", ["two"]),
        ("correlationId = a", ["one"]),
        ("correlationId != a", ["two", "three"]),
        ("NOT correlationId = a", ["two", "three"]),
        ("correlationId IS NULL", ["two"]),
        ("correlationId IS NOT NULL", ["one", "three"]),
        ("correlationId > a", ["three"]),
        ("NOT correlationId > a", ["one", "two"]),
        ("version = 2 AND version >= 2 AND version<=2 AND version <> 3", ["one", "two", "three"]),
        ("startTime >= 1970-01-03T00:00Z", ["two", "three"]),
        ("startTime > 86400000 AND startTime < '1970-01-04T00:00:00Z'", ["two"]),
        ("startTime BETWEEN '1970-01-02T01:00:00+01:00' AND 1970-01-03T00:00Z", ["one", "two"]),
        ("startTime NOT BETWEEN 0 AND 1970-01-03T00:00Z", ["three"]),
        ("workflowId = 't*'", ["two", "three"]),
        ("workflowId = t*e", ["three"]),
        ("workflowId = *", ["one", "two", "three"]),
        ("workflowId STARTS_WITH 'thr' OR workflowId STARTS_WITH one", ["one", "three"]),
        ("input.n = 1", ["one"]),
        ("input.n = 1.0", ["one"]),
        ("input.n > 1", ["two"]),
        ("input.n < 2", ["one"]),
        ("input.n = '3'", ["three"]),
        ("input.n >= '2'", ["three"]),
        ("input.text = 7", []),
        ("input.text = '7'", ["one"]),
        ("input.text = 'a\\*b'", ["two"]),
        ("input.text = 'O\\'Hara \\\\'", ["three"]),
        ('input.text = "O\'Hara \\\\"', ["three"]),
        ("input.flag = true", ["one"]),
        ("input.flag != true", ["two", "three"]),
        ("input.flag = 'true'", []),
        ("input.items[0].sku = x", ["one"]),
        ("input.items[1].sku = x", []),
        ("input.items[*].sku = y", ["one"]),
        ("input.items IS NOT NULL", ["one", "two"]),
        ("input.none IS NULL", ["one", "two", "three"]),
        ("input['x.y'] = 1", ["one"]),
        ('input["x.y"] = 1 AND input.n=1', ["one"]),
        ("input.x.y = 1", []),
        ("input.deep.er.est BETWEEN -1 AND 0", ["three"]),
    ],
)
def test_what_a_query_means(query: str, ids: list[str]) -> None:
    """Precedence, operators, what is absent, wildcards, instants, and the types of values in payloads."""
    assert found(query) == ids


@pytest.mark.parametrize(
    ("words", "ids"),
    [("", 3), ("order", 3), ("ORDER one", 1), ('"hara"', 1), ("o'hara", 1), ("thr*", 1), ("sku x", 1), ('"x sku"', 0),
     ("hara o", 1),     ('"hara o"', 0), ("missing", 0)],
)  # fmt: skip
def test_what_a_free_text_means(words: str, ids: int) -> None:
    """All the words, in any case; phrases in their order and within one value; beginnings."""
    assert len(found("", words)) == ids


@pytest.mark.trap("core-48")
@pytest.mark.parametrize(
    ("query", "position", "what"),
    [
        ("nothing = 1", 0, "workflows have no field 'nothing'"),
        ("status = FAILED and Status = A", 20, "no field 'Status'"),
        ("status FAILED", 7, "an operator is expected"),
        ("status = ", 8, "a value is expected, not the end"),
        ("status = 'FAILED", 9, "no closing quote"),
        ("(status = FAILED", 16, r"\) is expected, not the end"),
        ("event  = A event  = B", 11, "AND, OR or the end"),
        ("version = two", 10, "version is a number"),
        ("startTime > yesterday", 12, "epoch ms or ISO 8601"),
        ("archived = 1", 11, "true or false"),
        ("archived < true", 11, "no order"),
        ("version STARTS_WITH 1", 20, "does not start"),
        ("status = NULL", 9, "ask IS NULL"),
        ("status IS 3", 10, "NULL is expected"),
        ("status NOT = 3", 11, "IN, BETWEEN or STARTS_WITH is expected"),
        ("status IN ()", 11, "a value is expected"),
        ("event  IN (A, B", 15, ", or \\) is expected"),
        ("input = 3", 0, "say what in input"),
        ("input..a = 3", 5, "a path goes on"),
        ("input.a BETWEEN 1 AND 'x'", 22, "no order between"),
        ("AND event = A", 0, "a field is expected, not 'AND'"),
        ("event  = A;DROP TABLE workflows", 16, "AND, OR or the end"),
        ("", 0, ""),
    ],
)
def test_what_is_refused(query: str, position: int, what: str) -> None:
    """A query that says nothing sensible is an InvalidQuery that says where."""
    if not what:
        assert parse_query(query, WORKFLOWS) is None
        return
    with pytest.raises(InvalidQuery, match=what) as told:
        parse_query(query, WORKFLOWS)
    # A word may hold a sign that ends nothing: what follows it is what is not understood.
    assert told.value.position == position


def test_sorts_and_pages_that_are_refused() -> None:
    """A sort by what has no order, a page out of range, a free text that asks for nothing."""
    for sort in ("nothing", "status:UP", "failedTaskNames", "input.a", "|"):
        with pytest.raises(InvalidQuery):
            asked(WORKFLOWS, "", "*", 0, 10, sort)
    with pytest.raises(InvalidQuery):
        asked(TASKS, "", "*", 0, 10, "workflowType")
    for start, size in ((-1, 10), (0, -1), (0, 5_001), (2**40, 1)):
        with pytest.raises(InvalidInput):
            asked(WORKFLOWS, "", "*", start, size, "")
    for words, position in (('order "seven', 6), ("order - 7", 6), ("x " * 200, 200)):
        with pytest.raises(InvalidQuery) as told:
            free_text(words)
        assert told.value.position == position


def test_bounds() -> None:
    """Deep, long and wide queries are refused, up to the bound they work, and none is slow or breaks the stack."""
    one = "event = A"
    deep = "input.a BETWEEN 1 AND 2"
    for n in range(20):
        deep = f"event = A {('AND', 'OR')[n % 2]} ({deep})"
    wide = " AND ".join([one] * 200)
    listed = ", ".join(str(n) for n in range(1_000))
    inside_out = "NOT " + deep.replace("(", "", 1).replace(")", "", 1)
    for query in (wide, wide.replace("AND", "OR"), f"version IN ({listed})", "NOT " * 20 + one, inside_out, deep):
        assert found(query) == found(query)
    for query in (
        "(" * 21 + one + ")" * 21,
        "NOT " * 21 + one,
        "(" * 20_000,
        "NOT " * 5_000,
        f"{wide} AND {one}",
        f"version IN ({listed}, 1)",
        "x" * 20_001,
        "input" + "[0]" * 7_000,
        "version = " + "9" * 5_000,
        "version = 1e99999",
        "input.a[" * 2_000,
    ):
        with pytest.raises(InvalidQuery):
            parse_query(query, WORKFLOWS)


#: Pieces of the language, of SQL and of what breaks quoting.
PIECES = st.sampled_from(
    ["status", "input.a", "input['", "']", "output[*]", "=", "!=", "<", ">=", "IN", "(", ")", ",", "AND", "OR", "NOT", "IS", "NULL",
     "BETWEEN", "STARTS_WITH", "'", '"', "\\", "--", "/*", "*/", ";", "DROP TABLE workflows", "' OR '1'='1", "x' UNION SELECT 1 --",
     "\0", "\ud800", "\U0010ffff", "é", "東", "%", "_", "*", "?", "$1", ":a", "1", "-1.5e3", "1e999", "nan", "true", "0x10",
     "MATCH", "rowid", "sqlite_master", "NEAR(", "^", "{", "}", "workflowId", "startTime", "2024-01-01", " ", "\n", "\t", "`"]
)  # fmt: skip
TEXTS = st.one_of(
    st.text(max_size=60),
    st.lists(PIECES, max_size=14).map(" ".join),
    st.lists(PIECES, max_size=14).map("".join),
    st.tuples(queries(), st.integers(0, 200), PIECES).map(lambda drawn: drawn[0][: drawn[1]] + drawn[2] + drawn[0][drawn[1] :]),
    st.tuples(queries(), st.integers(0, 200)).map(lambda drawn: drawn[0][: drawn[1]] + drawn[0][drawn[1] + 3 :]),
)


@given(TEXTS, TEXTS, TEXTS)
@example("workflowId = 'x'); DROP TABLE workflows; --'", '" OR 1=1 --', "workflowId; DROP TABLE workflows")
@example("workflowId = '\0'", "* OR rowid > 0", "")
def test_nothing_but_an_invalid_query_comes_of_a_text(query: str, words: str, sort: str) -> None:
    """Whatever is asked is answered alike by index and store, or refused with a place in the text; nothing is injected."""
    index = OwnIndex(":memory:", *DOCUMENTS)
    for parts in ((query, "*", ""), ("", words, ""), ("", "*", sort), (query, words, sort)):
        refused = None
        try:
            wanted = asked(WORKFLOWS, *parts[:2], 0, 100, parts[2])
        except InvalidQuery as error:
            refused = error.position
        if refused is not None:
            assert 0 <= refused <= max(map(len, parts))
            continue
        total, page = answer(DOCUMENTS, wanted)
        result = index.workflows(wanted)
        assert (result.total_hits, [row.workflow_id for row in result.results]) == (total, [row.workflow_id for row in page])
    assert index.workflows(asked(WORKFLOWS, "", "*", 0, 100, "")).total_hits == 3
    index.close()
