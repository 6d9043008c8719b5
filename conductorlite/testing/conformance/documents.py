"""The part of the suite about what an index answers: what looking at the documents that it was given would find.

Documents of executions and attempts, and searches for them, to draw from: few values, so that they meet.

What was put into an index, and whether it answers as looking at that does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductorlite.model.canonical import Payload
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.store.documents import TASKS, WORKFLOWS, Document, task_document, workflow_document
from conductorlite.store.ports import IndexDAO, IndexEntry
from conductorlite.store.search import Asked, answer, asked, summary, task_summary
from conductorlite.testing.conformance.samples import task, workflow

__all__ = [
    "FREE_TEXTS",
    "PROPERTY",
    "SORTS",
    "TASK_SORTS",
    "AnswerConformance",
    "Shelf",
    "attempts_agree",
    "executions_agree",
    "feed",
    "libraries",
    "queries",
    "whole",
    "written",
]


class Shelf:
    """Documents that were put into an index, kept as a dict: what it must know."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[str, int] | None], Document] = {}

    def put(self, documents: Sequence[Document]) -> None:
        """Keep documents, in the place of all that was known of their executions."""
        self.remove(one.workflow_id for one in documents)
        self._known |= {(one.workflow_id, one.place): one for one in documents}

    def remove(self, workflow_ids: Iterable[str]) -> None:
        """Forget executions with all their attempts."""
        gone = set(workflow_ids)
        self._known = {key: one for key, one in self._known.items() if key[0] not in gone}

    @property
    def ids(self) -> list[str]:
        """The executions of which anything is known, ascending."""
        return sorted({workflow_id for workflow_id, _ in self._known})

    @property
    def executions(self) -> list[Document]:
        """The documents of executions."""
        return [one for (_, place), one in self._known.items() if place is None]

    @property
    def attempts(self) -> list[Document]:
        """The documents of attempts."""
        return [one for (_, place), one in self._known.items() if place is not None]

    def agrees(self, index: IndexDAO) -> None:
        """All that can be asked without a query is answered by what is on the shelf."""
        assert list(index.known("", 100)) == self.ids
        for workflow_id in (*self.ids, "nobody"):
            expected = [one for one in (*self.executions, *self.attempts) if one.workflow_id == workflow_id]
            assert _comparable(index.documents(workflow_id)) == _comparable(expected)
        for query in ("", "workflowId IS NOT NULL"):
            executions_agree(index, self.executions, asked(WORKFLOWS, query, "*", 0, 100, ""))
            attempts_agree(index, self.attempts, asked(TASKS, query, "*", 0, 100, ""))


def _comparable(documents: Sequence[Document]) -> list[object]:
    """Documents in an order of their own, their values in none."""
    ordered = sorted(documents, key=lambda one: (one.workflow_id, one.place or ("", -1)))
    found: list[object] = []
    for one in ordered:
        assert len(set(one.values)) == len(one.values), f"{one.workflow_id}: a value is there twice"
        found.append((one.workflow_id, one.place, dict(one.fields), set(one.values), one.words, one.input, one.output))
    return found


def executions_agree(index: IndexDAO, documents: Sequence[Document], wanted: Asked) -> None:
    """The index gives the hits and the page, in order and with all that summaries hold, that looking at the documents gives."""
    total, page = answer(documents, wanted)
    found = index.workflows(wanted)
    assert (found.total_hits, list(found.results)) == (total, list(map(summary, page))), wanted


def attempts_agree(index: IndexDAO, documents: Sequence[Document], wanted: Asked) -> None:
    """Assert that an index finds the same attempts as a look at all documents does."""
    total, page = answer(documents, wanted)
    found = index.tasks(wanted)
    expected = [task_summary(one.fields, one.input, one.output) for one in page]
    assert (found.total_hits, list(found.results)) == (total, expected), wanted


_WORDS: Final = [
    "order", "Order-7", "größe", "a*b", "x'y", 'q"r', "100%", "_", "", "\U0010ffff", "東京 tower", "nul\0l", "7", "true", "É"
]  # fmt: skip
_KEYS: Final = ["a", "b.c", "d e", "f[0]", "g'h", "\\", "*"]

_SCALARS: Final = st.one_of(
    st.sampled_from(_WORDS),
    st.integers(-3, 3),
    st.sampled_from([0.5, 1.0, 2.5, -0.0, 1e300, 2**53 + 1, 2**63, -(2**63), 10**400]),
    st.booleans(),
    st.none(),
)
_VALUES: Final = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=3), max_leaves=8
)
_INPUTS: Final = st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=4)
_INSTANTS: Final = st.sampled_from([0, 1, 1_000, 86_400_000, 1_704_067_200_000])


@st.composite
def _workflow(draw: Any, workflow_id: str) -> Workflow:
    """The row of an execution."""
    return Workflow(
        workflow_id=workflow_id,
        name=draw(st.sampled_from(_WORDS[:8])),
        version=draw(st.integers(1, 3)),
        definition_hash="",
        status=draw(st.sampled_from(WorkflowStatus)),
        correlation_id=draw(st.none() | st.sampled_from(_WORDS)),
        created_at=draw(_INSTANTS),
        updated_at=draw(_INSTANTS),
        ended_at=draw(_INSTANTS),
        priority=draw(st.integers(0, 2)),
        reason=draw(st.none() | st.sampled_from(_WORDS)),
        failed_refs=tuple(draw(st.lists(st.sampled_from(["a", "b", "größe"]), max_size=2, unique=True))),
        input=Payload.of(draw(_INPUTS)),
        output=Payload.of(draw(_INPUTS)),
    )


@st.composite
def _task(draw: Any, row: Workflow, ref: str, attempt: int) -> Task:
    """An attempt of an execution."""
    return Task(
        workflow_id=row.workflow_id,
        ref=ref,
        base_ref=ref,
        task_id=f"{row.workflow_id}/{ref}/{attempt}",
        task_type=draw(st.sampled_from(["charge", "ship"])),
        name=draw(st.sampled_from(["charge", ""])),
        status=draw(st.sampled_from(TaskStatus)),
        attempt=attempt,
        scheduled_at=draw(_INSTANTS),
        started_at=draw(_INSTANTS),
        ended_at=draw(_INSTANTS),
        domain=draw(st.none() | st.just("eu")),
        reason=draw(st.none() | st.sampled_from(_WORDS)),
        input=Payload.of(draw(_INPUTS)),
    )


@st.composite
def libraries(draw: Any) -> list[Document]:
    """Documents of a few executions and their attempts."""
    found = []
    for n in range(draw(st.integers(0, 6))):
        row = draw(_workflow(f"w{n}"))
        found.append(workflow_document(row, archived=draw(st.booleans())))
        for attempt in range(draw(st.integers(0, 2))):
            found.append(task_document(draw(_task(row, "t", attempt)), row))
    return found


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _number(value: float) -> str:
    return repr(value)


_LITERALS: Final = st.one_of(
    st.sampled_from(_WORDS).map(_quoted),
    st.sampled_from(["o*", "*r*", "*", "a\\*b", "'*7'", "'gr*e'", "x*'", "\U0010ffff*"]).map(
        lambda text: _quoted(text).replace("\\\\*", "\\*")
    ),
    st.integers(-3, 3).map(str),
    st.sampled_from([0.5, 1e300, 2**53 + 1, 2**63, 2.5]).map(_number),
    st.sampled_from(["true", "false", "order", "7"]),
)
_PATHS: Final = st.sampled_from(
    ["input.a", "input.a[0]", "input.a[*]", "output.a", "input['b.c']", "input['d e']", 'input["g\'h"].a', "input['f[0]'][*]",
     "input.a[*].a", "output['\\\\']", "input['*']", "input.a.a"]
)  # fmt: skip
_TEXTS: Final = ["workflowType", "correlationId", "status", "workflowId", "reasonForIncompletion"]
_TASK_TEXTS: Final = [*_TEXTS, "taskType", "taskDefName", "domain"]
_ORDERS: Final = st.sampled_from(["<", "<=", ">", ">="])
_EQUALS: Final = st.sampled_from(["=", "!=", "==", "<>"])


def _of_status(statuses: Iterable[str], most: int = 99) -> st.SearchStrategy[str]:
    """Statuses, or their beginnings; a status that is none is refused."""
    return st.sampled_from([str(status)[:most] for status in statuses])


@st.composite
def _comparison(draw: Any, texts: list[str], numbers: list[str], times: list[str], more: list[str], statuses: Iterable[str]) -> str:
    """One comparison that the language allows."""
    kind = draw(st.integers(0, 6))
    number = st.integers(-1, 3).map(str) | st.just("1.5")
    if kind == 0:
        field = draw(st.sampled_from(texts + more) | _PATHS)
        return f"{field} {draw(st.sampled_from(['IS NULL', 'is not null']))}"
    if kind == 1:
        field = draw(st.sampled_from(texts + more) | _PATHS)
        beginning = _of_status(statuses, 4) if field == "status" else st.sampled_from(_WORDS).map(_quoted)
        return f"{field} {draw(st.sampled_from(['', 'NOT ']))}STARTS_WITH {draw(beginning)}"
    if kind == 2:
        return f"{draw(st.sampled_from(numbers))} {draw(_EQUALS | _ORDERS)} {draw(number)}"
    if kind == 3:
        low, high = draw(number), draw(number)
        return f"{draw(st.sampled_from(numbers) | _PATHS)} {draw(st.sampled_from(['', 'not ']))}BETWEEN {low} AND {high}"
    if kind == 4:
        at = draw(st.sampled_from(["0", "1000", "'1970-01-02T00:00Z'", "1970-01-01T00:00:01Z", "'2024-01-01T01:00:00+01:00'"]))
        return f"{draw(st.sampled_from(times))} {draw(_EQUALS | _ORDERS)} {at}"
    field = draw(st.sampled_from(texts + more) | _PATHS)
    literals = _of_status(statuses) if field == "status" else _LITERALS
    if kind == 5:
        inner = ", ".join(draw(st.lists(literals, min_size=1, max_size=3)))
        return f"{field} {draw(st.sampled_from(['', 'NOT ']))}IN ({inner})"
    if draw(st.booleans()):
        return f"{field} {draw(_EQUALS)} {draw(literals)}"
    return f"{field} {draw(_ORDERS)} {draw(st.sampled_from(_WORDS).map(_quoted))}"


def queries(*, of_tasks: bool = False) -> st.SearchStrategy[str]:
    """Queries that the language allows."""
    if of_tasks:
        numbers = ["retryCount", "queueWaitTime", "workflowPriority"]
        one = _comparison(_TASK_TEXTS, numbers, ["scheduledTime", "endTime"], [], TaskStatus)
    else:
        many = ["failedReferenceTaskNames"]
        one = _comparison(_TEXTS, ["version", "priority", "executionTime"], ["startTime", "endTime"], many, WorkflowStatus)
        one = one | st.sampled_from(["archived = true", "archived != true", "name = order", "archived IS NULL"])
    return st.recursive(
        one,
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(" AND ".join),
            st.tuples(inner, inner).map(" or ".join),
            inner.map(lambda text: f"NOT ({text})"),
            inner.map(lambda text: f"( {text} )"),
        ),
        max_leaves=6,
    )


#: Free texts that the language allows.
FREE_TEXTS: Final = st.one_of(
    st.just("*"),
    st.lists(
        st.sampled_from(
            ["order", "ORDER-7", "gro*", '"order 7"', "7", "tru*", '"x y"', "東", "京*", "tower", "e", "nul", "null", "w1"]
        ),
        max_size=2,
    ).map(" ".join),
)


def _sorts(fields: list[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(fields), max_size=3).map("|".join)


#: Sorts of executions and of attempts.
SORTS: Final = _sorts(["status", "startTime:DESC", "endTime:ASC", "correlationId:desc", "workflowType", "version:DESC"])
TASK_SORTS: Final = _sorts(["status", "scheduledTime:DESC", "endTime:ASC", "retryCount:desc", "domain", "workflowId:DESC"])


#: Ids and references that some index might take for something else, or for each other; each is its own.
_ODD: Final = (
    "w", "W", "w ", " w", "w%", "w_", "w*", "'w'", '"', "\\", "w\\", "'; DROP TABLE workflows; --", "../../w", "/w", "w/../w",
    "C:\\w", "ü", "u\u0308", "\u00df", "ss", "東京", "\U0010ffff", "\ud7ff", "\ue000", "n\0l", "n\0", "n\1", "n", "n\ufffdl", "w\n",
    "x" * 1_024, "x" * 1_025, "x" * 1_500 + "y", "x" * 1_500 + "z", "0", "00", "0.0", "1e3", "1000", "true", "null", "input.w",
    "[*]",
)  # fmt: skip

#: Values at the edges of what JSON, doubles and 64 bits can hold.
_EDGES: Final[tuple[Any, ...]] = (
    0, -0.0, 1, 1.0, True, False, None, "1", "", 2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 1e300, 10**400,
    -(10**400), 5e-324, 0.1, "\0", "a\1b", "\ufffd", "x" * 1_024, "x" * 1_025, "x" * 5_000, "\U0010ffff" * 3, [], {}, [[]],
    [1, "1", [1]], {"": {"": 1}},
)  # fmt: skip

#: What those are compared with.
_COMPARED: Final = (
    "0", "1", "1.5", str(2**53 + 1), str(2**63), "1e308", "-1e308", "'1'", "''", "'\0'", f"'{'x' * 1_500}'", "true", "'x*'",
    "'a\1*b'",
)  # fmt: skip

#: How long a property is looked at.
PROPERTY: Final = settings(max_examples=min(40, settings().max_examples), deadline=None, suppress_health_check=list(HealthCheck))


def written(row: Workflow, *tasks: Task, archived: bool = False) -> list[Document]:
    """The documents of an execution and of its attempts."""
    return [workflow_document(row, archived=archived), *(task_document(one, row) for one in tasks)]


#: The versions of what is fed: each later than those before.
_versions: Final = itertools.count(2, 2)


def whole(workflow_id: str, documents: Sequence[Document] = (), version: int | None = None) -> IndexEntry:
    """All that is to be known of an execution, by default as of now."""
    return IndexEntry(workflow_id=workflow_id, version=version or next(_versions), documents=documents, whole=True)


def feed(index: IndexDAO, *entries: IndexEntry) -> None:
    """Feed the index that is searched."""
    identity, position = index.standing()
    index.feed(identity, position + 1, entries)


class AnswerConformance:
    """Tests of the answers of every index."""

    def make_index(self, folder: Path) -> IndexDAO:
        """A handle on the index of a folder, which exists."""
        raise NotImplementedError

    def put(self, index: Any, documents: Sequence[Document], *removed: str) -> None:
        """Put documents in the place of all that was known of their executions, and remove others."""
        ids = dict.fromkeys((*(one.workflow_id for one in documents), *removed))
        feed(index, *(whole(one, [found for found in documents if found.workflow_id == one]) for one in ids))

    @contextmanager
    def opened(self, folder: Path | None = None, *put: Document) -> Iterator[IndexDAO]:
        """A handle, closed in the end; without a folder on an index of its own."""
        with TemporaryDirectory() as own:
            index = self.make_index(folder or Path(own))
            try:
                if put:
                    self.put(index, put)
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

    def test_odd_texts(self, tmp_path: Path) -> None:
        """Every id and reference names itself alone, whatever its characters, and is put, found and removed as such."""
        shelf = Shelf()
        for name in _ODD:
            row = workflow(name, correlation_id=name, name=name)
            shelf.put(written(row, task("a", name), attrs.evolve(task("b", name), ref=name)))
        with self.opened(tmp_path) as index:
            for _ in range(2):
                self.put(index, [*shelf.executions, *shelf.attempts])
            shelf.agrees(index)
            for name in _ODD:
                quoted = "'" + "".join(f"\\{sign}" for sign in name) + "'"
                wanted = asked(WORKFLOWS, f"workflowId = {quoted}", "*", 0, 9, "")
                assert [row.workflow_id for row in index.workflows(wanted).results] == [name]
                executions_agree(index, shelf.executions, asked(WORKFLOWS, f"correlationId = {quoted}", "*", 0, 9, ""))
                attempts_agree(index, shelf.attempts, asked(TASKS, f"referenceTaskName STARTS_WITH {quoted}", "*", 0, 99, ""))
            self.put(index, [], *_ODD[::3])
            shelf.remove(_ODD[::3])
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
        """Text that is too long to be repeated is not; what documents hold of large payloads is found, and no more."""
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
        """Attempts are found as by looking, with what they inherit; and so are the executions that have such attempts."""
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
