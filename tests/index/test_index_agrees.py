"""The law of an index: it answers every search as looking at the documents does."""

from __future__ import annotations

from pathlib import Path

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from search_kit import free_texts, libraries, queries, sorts

from conductorlite.backends.index import SQLiteIndex
from conductorlite.search import TASKS, WORKFLOWS, Document, answer, asked


def filled(documents: list[Document]) -> SQLiteIndex:
    """An index in memory that holds these."""
    index = SQLiteIndex()
    with index.changing() as tx:
        tx.put(documents)
    return index


questions_ = st.lists(st.tuples(queries(), free_texts, sorts), min_size=5, max_size=12)


@settings(max_examples=60)
@given(libraries(), questions_, st.integers(0, 3), st.integers(0, 4))
def test_executions(documents: list[Document], questions: list[tuple[str, str, str]], start: int, size: int) -> None:
    """Hits, page and order are the same for every query, free text and sort."""
    index = filled(documents)
    rows = [document for document in documents if document.place is None]
    for query, words, sort in questions:
        wanted = asked(WORKFLOWS, query, words, start, size, sort)
        total, page = answer(rows, wanted)
        found = index.workflows(wanted)
        assert (found.total_hits, [one.workflow_id for one in found.results]) == (total, [one.workflow_id for one in page]), query
    index.close()


@settings(max_examples=40)
@given(libraries(), st.lists(st.tuples(queries(of_tasks=True), free_texts), min_size=5, max_size=12))
def test_tasks(documents: list[Document], questions: list[tuple[str, str]]) -> None:
    """The same for attempts, with what they inherit; and for the executions that have such attempts."""
    index = filled(documents)
    rows = [document for document in documents if document.place is not None]
    for query, words in questions:
        wanted = asked(TASKS, query, words, 0, 100, "")
        total, page = answer(rows, wanted)
        found = index.tasks(wanted)
        assert (found.total_hits, [one.task_id for one in found.results]) == (total, [one.fields["taskId"] for one in page]), query
        above = index.workflows(attrs.evolve(asked(WORKFLOWS, "", "*", 0, 100, ""), with_task=wanted))
        assert {one.workflow_id for one in above.results} == {one.workflow_id for one in page}
    index.close()


@settings(max_examples=40)
@given(libraries(), libraries(), libraries(), queries(), free_texts)
def test_what_was_put_again(
    first: list[Document], second: list[Document], third: list[Document], query: str, words: str
) -> None:
    """However often a document was put and removed, only what it is now is found."""
    index = filled(first)
    with index.changing() as tx:
        tx.put(second)
        tx.remove(["w1"])
        tx.put(third)
        tx.remove_tasks("w0", [("t", 0)])
    now = {(one.workflow_id, one.place): one for one in first} | {(one.workflow_id, one.place): one for one in second}
    now = {key: one for key, one in now.items() if key[0] != "w1"} | {(one.workflow_id, one.place): one for one in third}
    now.pop(("w0", ("t", 0)), None)
    wanted = asked(WORKFLOWS, query, words, 0, 100, "")
    total, page = answer([one for (_, place), one in now.items() if place is None], wanted)
    found = index.workflows(wanted)
    assert (found.total_hits, [one.workflow_id for one in found.results]) == (total, [one.workflow_id for one in page])
    index.close()


def test_two_handles_on_one_file(tmp_path: Path) -> None:
    """What one process has put, another one finds."""
    one, other = (SQLiteIndex(tmp_path / "shared.index.db") for _ in range(2))
    assert other.standing()[1] == 0
    with one.changing() as tx:
        tx.settle(7)
    assert one.standing() == other.standing() == (one.standing()[0], 7)
    one.close()
    other.close()
