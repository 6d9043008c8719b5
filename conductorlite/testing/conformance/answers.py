"""The part of the suite about what an index answers: what looking at the documents that it was given would find."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductorlite.canonical import Payload
from conductorlite.executions import Task, Workflow
from conductorlite.ports import IndexDAO
from conductorlite.search import TASKS, WORKFLOWS, Document, answer, asked, task_document, workflow_document
from conductorlite.testing.conformance.samples import task, workflow
from conductorlite.testing.conformance.searches import FREE_TEXTS, SORTS, TASK_SORTS, libraries, queries
from conductorlite.testing.conformance.shelf import Shelf, attempts_agree, executions_agree

__all__ = ["PROPERTY", "AnswerConformance", "written"]

#: Ids and references that some index might take for something else, or for each other; each is its own.
_ODD: Final = (
    "w", "W", "w ", " w", "w%", "w_", "w*", "'w'", '"', "\\", "w\\", "'; DROP TABLE workflows; --", "../../w", "/w", "w/../w",
    "C:\\w", "ü", "u\u0308", "\u00df", "ss", "東京", "\U0010ffff", "\ud7ff", "\ue000", "n\0l", "n\0", "n", "n\ufffdl", "w\n",
    "x" * 1_024, "x" * 1_025, "x" * 1_500 + "y", "x" * 1_500 + "z", "0", "00", "0.0", "1e3", "1000", "true", "null", "input.w",
    "[*]",
)  # fmt: skip

#: Values at the edges of what JSON, doubles and 64 bits can hold.
_EDGES: Final[tuple[Any, ...]] = (
    0, -0.0, 1, 1.0, True, False, None, "1", "", 2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 1e300, 10**400,
    -(10**400), 5e-324, 0.1, "\0", "\ufffd", "x" * 1_024, "x" * 1_025, "x" * 5_000, "\U0010ffff" * 3, [], {}, [[]],
    [1, "1", [1]], {"": {"": 1}},
)  # fmt: skip

#: What those are compared with.
_COMPARED: Final = (
    "0", "1", "1.5", str(2**53 + 1), str(2**63), "1e308", "-1e308", "'1'", "''", "'\0'", f"'{'x' * 1_500}'", "true", "'x*'"
)  # fmt: skip

#: How long a property is looked at.
PROPERTY: Final = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def written(row: Workflow, *tasks: Task, archived: bool = False) -> list[Document]:
    """The documents of an execution and of its attempts."""
    return [workflow_document(row, archived=archived), *(task_document(one, row) for one in tasks)]


class AnswerConformance:
    """What every index answers."""

    def make_index(self, folder: Path) -> IndexDAO:
        """A handle on the index of a folder, which exists."""
        raise NotImplementedError

    @contextmanager
    def opened(self, folder: Path | None = None, *put: Document) -> Iterator[IndexDAO]:
        """A handle, closed in the end; without a folder on an index of its own."""
        with TemporaryDirectory() as own:
            index = self.make_index(folder or Path(own))
            try:
                if put:
                    with index.changing() as tx:
                        tx.put(put)
                yield index
            finally:
                index.close()

    def test_summaries(self, tmp_path: Path) -> None:
        """Every field of an execution and of an attempt comes back as it was put, absent ones as absent."""
        row = workflow(
            "w", correlation_id="c", updated_at=8, ended_at=9, reason="no", event="e", priority=3, created_by="me",
            idempotency_key="k", parent_workflow_id="p", failed_refs=("b", "a"), failed_task_names=("t",),
            input=Payload.of({"n": 1}), output=Payload.of({}),
        )  # fmt: skip
        one = task(
            "a", attempt=2, name="n", scheduled_at=5, started_at=6, updated_at=7, ended_at=8, domain="eu", worker_id="me",
            reason="no", sub_workflow_id="s", input=Payload.of({"n": 1.5}),
        )  # fmt: skip
        shelf = Shelf()
        shelf.put([*written(row, one, archived=True), *written(workflow("bare", created_at=0), task("a", "bare"))])
        with self.opened(tmp_path, *shelf.executions, *shelf.attempts) as index:
            shelf.agrees(index)

    def test_order_and_pages(self, tmp_path: Path) -> None:
        """Both directions, several fields, ties ascending by what identifies, absent values first; a page is a cut of the whole."""
        starts = {"b": 5, "d": 7, "a": 5, "e": 0, "c": 7, "f": 5, "É": 5, "B": 5}
        documents = [
            one
            for name, at in starts.items()
            for row in [workflow(name, created_at=at, correlation_id=None if at else "c", priority=at % 2)]
            for one in written(row, *(task(ref, name, attempt=n, scheduled_at=at) for ref in ("t", "s") for n in (1, 0)))
        ]
        executions, attempts = ([one for one in documents if (one.place is None) is above] for above in (True, False))
        with self.opened(tmp_path, *documents) as index:
            for sort in ("", "startTime", "priority:DESC|startTime", "correlationId", "correlationId:DESC", "workflowId:DESC"):
                for start, size in ((0, 100), (0, 0), (0, 3), (2, 3), (7, 3), (8, 3), (100, 5)):
                    executions_agree(index, executions, asked(WORKFLOWS, "", "*", start, size, sort))
            for sort in ("", "scheduledTime", "retryCount:DESC", "referenceTaskName:DESC|workflowId", "workflowId:DESC"):
                for start, size in ((0, 100), (3, 7), (30, 7)):
                    attempts_agree(index, attempts, asked(TASKS, "", "*", start, size, sort))

    def test_attempts_inherit(self, tmp_path: Path) -> None:
        """What attempts have of their execution changes with it, without them being put again."""
        row = workflow("w", correlation_id="old", priority=1)
        shelf = Shelf()
        shelf.put(written(row, task("a")))
        with self.opened(tmp_path, *shelf.executions, *shelf.attempts) as index:
            again = written(attrs.evolve(row, correlation_id="new", priority=7, name="other"))
            shelf.put(again)
            with index.changing() as tx:
                tx.put(again)
            shelf.agrees(index)
            for query in ("correlationId = new", "correlationId = old", "workflowPriority > 3", "workflowType = other"):
                attempts_agree(index, shelf.attempts, asked(TASKS, query, "*", 0, 9, ""))

    def test_odd_texts(self, tmp_path: Path) -> None:
        """Every id and reference names itself alone, whatever its characters, and is put, found and removed as such."""
        shelf = Shelf()
        for name in _ODD:
            row = workflow(name, correlation_id=name, name=name)
            shelf.put(written(row, task("a", name), attrs.evolve(task("b", name), ref=name)))
        with self.opened(tmp_path) as index:
            for _ in range(2):
                with index.changing() as tx:
                    tx.put([*shelf.executions, *shelf.attempts])
            shelf.agrees(index)
            for name in _ODD:
                quoted = "'" + "".join(f"\\{sign}" for sign in name) + "'"
                wanted = asked(WORKFLOWS, f"workflowId = {quoted}", "*", 0, 9, "")
                assert [row.workflow_id for row in index.workflows(wanted).results] == [name]
                executions_agree(index, shelf.executions, asked(WORKFLOWS, f"correlationId = {quoted}", "*", 0, 9, ""))
                attempts_agree(index, shelf.attempts, asked(TASKS, f"referenceTaskName STARTS_WITH {quoted}", "*", 0, 99, ""))
            with index.changing() as tx:
                tx.remove(_ODD[::3])
                tx.remove_tasks(_ODD[1], [(_ODD[1], 0)])
            shelf.remove(_ODD[::3])
            shelf.remove_tasks(_ODD[1], [(_ODD[1], 0)])
            shelf.agrees(index)

    def test_values_at_the_edges(self, tmp_path: Path) -> None:
        """Numbers beyond 64 bits and doubles, long texts, empty lists: each compares with what is of its kind."""
        documents = [workflow_document(workflow(f"w{n:02}", input=Payload.of({"a": value}))) for n, value in enumerate(_EDGES)]
        with self.opened(tmp_path, *documents) as index:
            for value in _COMPARED:
                executions_agree(index, documents, asked(WORKFLOWS, f"input.a = {value} OR input.a[*] = {value}", "*", 0, 99, ""))
                if value not in ("true", "'x*'"):
                    executions_agree(index, documents, asked(WORKFLOWS, f"NOT input.a >= {value}", "*", 0, 99, ""))
            executions_agree(index, documents, asked(WORKFLOWS, "input.a IS NOT NULL", "*", 0, 99, ""))

    def test_large_payloads(self, tmp_path: Path) -> None:
        """What is too long to be repeated is not; what documents hold of large payloads is found, and no more."""
        inputs: tuple[dict[str, Any], ...] = (
            {"a": "word " * 2_000},
            {"a": ["x" * 20] * 3_000},
            {"a": "x" * 300_000},
            {f"k{n}": f"v{n}" for n in range(500)},
        )
        documents = [workflow_document(workflow(f"w{n}", input=Payload.of(value))) for n, value in enumerate(inputs)]
        shelf = Shelf()
        shelf.put(documents)
        questions = ["", "input.a STARTS_WITH 'word '", "input.k3 = v3", "input.k400 = v400", "input.a[255] IS NULL"]
        with self.opened(tmp_path, *documents) as index:
            for query in questions:
                executions_agree(index, documents, asked(WORKFLOWS, query, "*", 0, 9, ""))
            shelf.agrees(index)
            for words in ('"word word"', "v9*", "x*"):
                executions_agree(index, documents, asked(WORKFLOWS, "", words, 0, 9, ""))

    def test_executions_are_found_as_by_looking(self) -> None:
        """Hits, page, order and summaries are those that looking at each document gives, for every query, free text, sort."""
        questions = st.lists(st.tuples(queries(), FREE_TEXTS, SORTS), min_size=5, max_size=12)

        @PROPERTY
        @given(libraries(), questions, st.integers(0, 3), st.integers(0, 4))
        def agree(documents: list[Document], questions: list[tuple[str, str, str]], start: int, size: int) -> None:
            rows = [one for one in documents if one.place is None]
            with self.opened(None, *documents) as index:
                for query, words, sort in questions:
                    executions_agree(index, rows, asked(WORKFLOWS, query, words, start, size, sort))

        agree()

    def test_attempts_are_found_as_by_looking(self) -> None:
        """The same for attempts, with what they inherit; and for the executions that have such attempts."""
        questions = st.lists(st.tuples(queries(of_tasks=True), FREE_TEXTS, TASK_SORTS), min_size=5, max_size=12)

        @PROPERTY
        @given(libraries(), questions, st.integers(0, 3), st.integers(0, 4))
        def agree(documents: list[Document], questions: list[tuple[str, str, str]], start: int, size: int) -> None:
            rows = [one for one in documents if one.place is not None]
            with self.opened(None, *documents) as index:
                for query, words, sort in questions:
                    wanted = asked(TASKS, query, words, start, size, sort)
                    attempts_agree(index, rows, wanted)
                    ids = {one.workflow_id for one in answer(rows, attrs.evolve(wanted, start=0, size=100))[1]}
                    above = [one for one in documents if one.place is None and one.workflow_id in ids]
                    executions_agree(index, above, attrs.evolve(asked(WORKFLOWS, "", "*", start, size, ""), with_task=wanted))

        agree()
