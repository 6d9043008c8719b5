"""The contract of a search index as tests, for the author of another one.

`MemoryIndex`: an external index in memory, which answers by matching every document.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductorlite.model import attrs
from conductorlite.model.canonical import Payload
from conductorlite.model.errors import EngineClosed, StorageBusy
from conductorlite.store.documents import TASKS, WORKFLOWS, Cell, Document, workflow_document
from conductorlite.store.ports import IndexDAO
from conductorlite.store.search import (
    Asked,
    SearchResult,
    TaskSummary,
    WorkflowSummary,
    answer,
    asked,
    matches,
    summary,
    task_summary,
)
from conductorlite.testing.conformance.documents import (
    FREE_TEXTS,
    PROPERTY,
    AnswerConformance,
    Shelf,
    attempts_agree,
    executions_agree,
    libraries,
    queries,
    written,
)
from conductorlite.testing.conformance.samples import task, workflow

__all__ = ["IndexConformance", "MemoryIndex"]

_INHERITED: Final = {"workflowType": "workflowType", "workflowPriority": "priority", "correlationId": "correlationId"}


@attrs.frozen(slots=True)
class _State:
    """What an index holds: its name, how often it was fed, and documents by id and place."""

    identity: str = attrs.field(factory=lambda: os.urandom(16).hex())
    position: int = 0
    documents: Mapping[tuple[str, tuple[str, int] | None], Document] = attrs.field(factory=dict)


class _Change:
    """One change: made on a copy, which is seen when its block ends."""

    def __init__(self, state: _State) -> None:
        self.identity = state.identity
        self.position = state.position
        self.documents = dict(state.documents)

    def put(self, documents: Iterable[Document]) -> None:
        """Index executions and attempts, in the place of what was known of them."""
        self.documents |= {(one.workflow_id, one.place): one for one in documents}

    def remove(self, workflow_ids: Sequence[str]) -> None:
        """Forget executions with all their attempts."""
        gone = set(workflow_ids)
        self.documents = {key: one for key, one in self.documents.items() if key[0] not in gone}

    def remove_tasks(self, workflow_id: str, places: Sequence[tuple[str, int]]) -> None:
        """Forget attempts of an execution."""
        for place in places:
            self.documents.pop((workflow_id, place), None)

    def settle(self, position: int) -> None:
        """Keep how often the index was fed."""
        self.position = position

    def clear(self) -> None:
        """Forget everything, the position too; the index has a new name then."""
        state = _State()
        self.identity, self.position, self.documents = state.identity, 0, {}


@final
class MemoryIndex:
    """An `IndexDAO` for tests, and an example of one. With `beside` it is another handle on the same index."""

    def __init__(self, beside: MemoryIndex | None = None) -> None:
        self._held: list[_State] = [_State()] if beside is None else beside._held
        self._mutex: threading.Lock = threading.Lock() if beside is None else beside._mutex
        self._closed = False

    @property
    def _state(self) -> _State:
        if self._closed:
            raise EngineClosed("the index was closed")
        return self._held[0]

    @contextmanager
    def changing(self) -> Iterator[_Change]:
        """A change, one at a time; raises StorageBusy at once."""
        change = _Change(self._state)
        if not self._mutex.acquire(blocking=False):
            raise StorageBusy("the index in memory is being changed")
        try:
            change = _Change(self._state)
            yield change
            self._held[0] = _State(change.identity, change.position, change.documents)
        finally:
            self._mutex.release()

    def standing(self) -> tuple[str, int]:
        """Identity and position."""
        return self._state.identity, self._state.position

    def workflows(self, asked: Asked) -> SearchResult[WorkflowSummary]:
        """The executions that answer a search."""
        found = [one for one in self._state.documents.values() if one.place is None]
        if asked.with_task is not None:
            ids = {one.workflow_id for one in self._attempts() if matches(one, asked.with_task)}
            found = [one for one in found if one.workflow_id in ids]
        total, page = answer(found, asked)
        return SearchResult(total_hits=total, results=tuple(map(summary, page)))

    def tasks(self, asked: Asked) -> SearchResult[TaskSummary]:
        """The attempts that answer a search."""
        total, page = answer(self._attempts(), asked)
        return SearchResult(total_hits=total, results=tuple(task_summary(one.fields, one.input, one.output) for one in page))

    def known(self, after: str, limit: int) -> Sequence[str]:
        """Ids of executions of which anything is known."""
        return sorted({workflow_id for workflow_id, _ in self._state.documents if workflow_id > after})[:limit]

    def documents(self, workflow_id: str) -> Sequence[Document]:
        """All that is known of an execution."""
        executions = [one for one in self._state.documents.values() if one.place is None and one.workflow_id == workflow_id]
        return [*executions, *(one for one in self._attempts() if one.workflow_id == workflow_id)]

    def _attempts(self) -> list[Document]:
        known = self._state.documents
        return [_inheriting(one, known.get((one.workflow_id, None))) for one in known.values() if one.place is not None]

    def start_over(self) -> None:
        """Begin an empty index; nothing is set aside."""
        self._held[0] = _State()

    def close(self) -> None:
        """Refuse further use of this handle; idempotent."""
        self._closed = True


def _inheriting(attempt: Document, execution: Document | None) -> Document:
    above: Mapping[str, Cell] = {} if execution is None else execution.fields
    fields = {name: value for name, value in attempt.fields.items() if name not in TASKS.inherited}
    return attrs.evolve(attempt, fields=fields | {name: above[of] for name, of in _INHERITED.items() if of in above})


class _Abandoned(Exception):
    """Ends the block of a change that is not to be kept."""


def _in_time(act: Callable[[], None]) -> None:
    """Carry out what must not wait."""
    failed: list[BaseException] = []

    def work() -> None:
        try:
            act()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(2)
    assert not thread.is_alive(), "it waits"
    if failed:
        raise failed[0]


class IndexConformance(AnswerConformance):
    """What every search index promises. Subclass it and implement `make_index`.

        class TestMyIndex(IndexConformance):
            def make_index(self, folder: Path) -> IndexDAO:
                return MyIndex(folder / "index")

    Called twice with one folder it returns two handles on one index, as two processes have them; a folder that was never given
    before is an index that no program has used.
    """

    def test_put_again_and_removed(self, tmp_path: Path) -> None:
        """What is put takes the place of what was there, whole; what is removed is not found, even if it never was there."""
        shelf = Shelf()
        first = [*written(workflow("w", input=Payload.of({"a": 1, "b": "old"})), task("a"), task("b")), *written(workflow("v"))]
        second = written(workflow("w", input=Payload.of({"a": 2})), task("b", attempt=1))
        with self.opened(tmp_path) as index:
            for documents in (first, second):
                with index.changing() as tx:
                    tx.put(documents)
                    tx.put(documents)
                shelf.put(documents)
                shelf.agrees(index)
            for query, words in (("input.a = 1", "*"), ("input.b IS NOT NULL", "*"), ("", "old"), ("input.a = 2", "*")):
                executions_agree(index, shelf.executions, asked(WORKFLOWS, query, words, 0, 9, ""))
            with index.changing() as tx:
                tx.remove_tasks("w", [("a", 0), ("b", 7), ("nothing", 0)])
                tx.remove_tasks("nobody", [("a", 0)])
            shelf.remove_tasks("w", [("a", 0)])
            shelf.agrees(index)
            with index.changing() as tx:
                tx.remove(["w", "nobody"])
                tx.remove([])
            shelf.remove(["w"])
            shelf.agrees(index)
            with index.changing() as tx:
                tx.put(second)
                tx.remove(["v"])
                tx.put(first)
                tx.remove(["w"])
            shelf.remove(["w"])
            shelf.agrees(index)

    def test_known_is_read_in_pages(self, tmp_path: Path) -> None:
        """Ids come in ascending order by code point, past the one that is given, up to so many."""
        names = sorted(["a", "b", "B", "ä", "\U0001f600", "\uffee", "c" * 2_000])
        with self.opened(tmp_path, *(workflow_document(workflow(name)) for name in names)) as index:
            after = ""
            for n in range(0, len(names) + 1, 2):
                page = list(index.known(after, 2))
                assert page == names[n : n + 2]
                after = page[-1] if page else after
            assert list(index.known("b", 1)) == ["c" * 2_000]

    def test_an_abandoned_change_changes_nothing(self, tmp_path: Path) -> None:
        """A block that an exception leaves changed neither documents nor position nor identity, whatever it did before."""
        shelf = Shelf()
        shelf.put(written(workflow("w"), task("a")))
        with self.opened(tmp_path, *shelf.executions, *shelf.attempts) as index, self.opened(tmp_path) as other:
            with index.changing() as tx:
                tx.settle(3)
            before = index.standing()
            acts: tuple[Callable[[Any], None], ...] = (
                lambda tx: tx.put(written(workflow("v"), task("b", "v"))),
                lambda tx: tx.put(written(workflow("w", name="other"))),
                lambda tx: tx.remove(["w"]),
                lambda tx: tx.remove_tasks("w", [("a", 0)]),
                lambda tx: tx.settle(8),
                lambda tx: tx.clear(),
            )
            for act in acts:
                with suppress(_Abandoned), index.changing() as tx:
                    act(tx)
                    raise _Abandoned
                for one in (index, other):
                    assert one.standing() == before
                    shelf.agrees(one)
                with index.changing() as tx:
                    assert (tx.identity, tx.position) == before

    def test_a_change_is_seen_when_it_ends(self, tmp_path: Path) -> None:
        """Another handle sees nothing of a change before, or gets an error that it must wait, and all of it after."""
        shelf = Shelf()
        with self.opened(tmp_path) as index, self.opened(tmp_path) as other:
            before = other.standing()
            with index.changing() as tx:
                tx.put(written(workflow("w"), task("a")))
                tx.settle(1)
                with suppress(StorageBusy):
                    assert other.standing() == before
                with suppress(StorageBusy):
                    assert list(other.known("", 9)) == []
            shelf.put(written(workflow("w"), task("a")))
            shelf.agrees(other)
            assert other.standing() == (before[0], 1)
            with other.changing() as tx:
                tx.remove(["w"])
            shelf.remove(["w"])
            shelf.agrees(index)

    def test_changes_are_one_at_a_time(self, tmp_path: Path) -> None:
        """While one is made, another handle and another thread of this one raise StorageBusy, at once; afterwards they may."""
        with self.opened(tmp_path) as index, self.opened(tmp_path) as other:
            other.standing()

            def refused(handle: IndexDAO) -> None:
                with pytest.raises(StorageBusy), handle.changing() as tx:
                    tx.settle(9)

            with index.changing() as tx:
                _in_time(lambda: refused(other))
                _in_time(lambda: refused(index))
                tx.settle(1)
            with suppress(_Abandoned), other.changing():
                raise _Abandoned
            for position, handle in ((2, other), (3, index)):
                with handle.changing() as tx:
                    assert tx.position == position - 1
                    tx.settle(position)

    def test_identity(self, tmp_path: Path) -> None:
        """Each index has its own from the first; it stays when documents change and handles close, and is new after `clear`."""
        seen: set[str] = set()
        for name in ("one", "two"):
            folder = tmp_path / name
            folder.mkdir()
            with self.opened(folder) as index:
                first = index.standing()[0]
                assert first
                assert first not in seen
                assert index.standing() == (first, 0)
                with index.changing() as tx:
                    assert (tx.identity, tx.position) == (first, 0)
                    tx.put(written(workflow("w")))
                    tx.settle(4)
            with self.opened(folder) as index, self.opened(folder) as other:
                assert index.standing() == other.standing() == (first, 4)
                with index.changing() as tx:
                    tx.clear()
                    cleared = tx.identity
                    assert (cleared not in {first, *seen}, tx.position) == (True, 0)
                    assert cleared
                assert index.standing() == other.standing() == (cleared, 0)
                Shelf().agrees(other)
            seen |= {first, cleared}

    def test_clear_and_go_on(self, tmp_path: Path) -> None:
        """What is put and settled behind `clear`, in the same change, is there."""
        shelf = Shelf()
        shelf.put(written(workflow("new"), task("a", "new")))
        with self.opened(tmp_path, *written(workflow("old", input=Payload.of({"a": 1})), task("a", "old"))) as index:
            with index.changing() as tx:
                tx.clear()
                tx.put([*shelf.executions, *shelf.attempts])
                tx.settle(2)
                cleared = tx.identity
            assert index.standing() == (cleared, 2)
            shelf.agrees(index)

    def test_position(self, tmp_path: Path) -> None:
        """The last one that was settled, across changes, handles and reopening; also one that is far away."""
        with self.opened(tmp_path) as index, self.opened(tmp_path) as other:
            for position, handle in ((1, index), (2, other), (2**53 + 1, index)):
                with handle.changing() as tx:
                    tx.settle(position)
                    assert tx.position == position
                with handle.changing() as tx:
                    tx.put(written(workflow("w")))
                assert (index.standing()[1], other.standing()[1]) == (position, position)
        with self.opened(tmp_path) as index:
            assert index.standing()[1] == 2**53 + 1

    def test_reopened(self, tmp_path: Path) -> None:
        """What was put is there when all handles were closed and another one is opened."""
        shelf = Shelf()
        shelf.put(written(workflow("w"), task("a")))
        with self.opened(tmp_path, *shelf.executions, *shelf.attempts):
            pass
        with self.opened(tmp_path) as index:
            shelf.agrees(index)

    def test_start_over(self, tmp_path: Path) -> None:
        """An empty index with an identity of its own, for every handle, which can be filled at once."""
        with self.opened(tmp_path, *written(workflow("w"), task("a"))) as index, self.opened(tmp_path) as other:
            with index.changing() as tx:
                tx.settle(5)
            before = other.standing()[0]
            aside = index.start_over()
            assert aside is None or isinstance(aside, str)
            fresh = index.standing()
            assert (fresh[0] != before, fresh[1]) == (True, 0)
            assert other.standing() == fresh
            shelf = Shelf()
            shelf.agrees(index)
            shelf.put(written(workflow("v"), task("a", "v")))
            with other.changing() as tx:
                tx.put([*shelf.executions, *shelf.attempts])
            shelf.agrees(index)
            assert index.standing() == fresh

    def test_close(self, tmp_path: Path) -> None:
        """Closing is repeated in peace, also before any use; what was closed raises EngineClosed; other handles go on."""
        self.make_index(tmp_path).close()
        one, other = self.make_index(tmp_path), self.make_index(tmp_path)
        one.standing()
        for _ in range(2):
            one.close()
        wanted = asked(WORKFLOWS, "", "*", 0, 9, "")
        acts: tuple[Callable[[], object], ...] = (
            one.standing, lambda: one.workflows(wanted), lambda: one.known("", 9), lambda: one.documents("w")
        )  # fmt: skip
        for act in acts:
            with pytest.raises(EngineClosed):
                act()
        with pytest.raises(EngineClosed), one.changing():
            pass
        assert other.standing()[1] == 0
        other.close()

    def test_only_what_is_there_now_is_found(self) -> None:
        """However often documents are put, removed, and abandoned, the answers are those of what is left."""
        names = [f"w{n}" for n in range(6)]
        act = st.one_of(
            libraries(),
            st.lists(st.sampled_from(names), max_size=2),
            st.tuples(st.sampled_from(names), st.lists(st.tuples(st.just("t"), st.integers(0, 2)), max_size=2)),
        )

        @PROPERTY
        @given(st.lists(st.tuples(act, st.booleans()), max_size=6), queries(), queries(of_tasks=True), FREE_TEXTS)
        def agree(acts: list[tuple[Any, bool]], query: str, of_tasks: str, words: str) -> None:
            shelf = Shelf()
            with self.opened() as index:
                for act, kept in acts:
                    with suppress(_Abandoned), index.changing() as tx:
                        for one in (tx, shelf) if kept else (tx,):
                            _carried_out(act, one)
                        if not kept:
                            raise _Abandoned
                shelf.agrees(index)
                executions_agree(index, shelf.executions, asked(WORKFLOWS, query, words, 0, 100, ""))
                attempts_agree(index, shelf.attempts, asked(TASKS, of_tasks, words, 0, 100, ""))

        agree()


def _carried_out(act: Any, change: Any) -> None:
    if isinstance(act, tuple):
        change.remove_tasks(*act)
    elif all(isinstance(one, str) for one in act):
        change.remove(act)
    else:
        change.put(act)
