"""The contract of a search index as tests, for the author of another one.

`MemoryIndex`: an external index in memory, which answers by matching every document.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import final

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductorlite.model.canonical import Payload
from conductorlite.model.errors import EngineClosed, StorageCorrupt
from conductorlite.model.threads import Mutex
from conductorlite.store.documents import TASKS, WORKFLOWS, Document, workflow_document
from conductorlite.store.ports import IndexEntry
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
    feed,
    libraries,
    queries,
    whole,
    written,
)
from conductorlite.testing.conformance.samples import task, workflow

__all__ = ["IndexConformance", "MemoryIndex"]

Place = tuple[str, int] | None


@attrs.define(slots=True)
class HeldIndex:
    """One index in memory: how often it was fed, documents with their versions, and since which version nothing earlier counts."""

    identity: str = attrs.field(factory=lambda: os.urandom(16).hex())
    position: int = 0
    documents: dict[tuple[str, Place], tuple[int, Document]] = attrs.field(factory=dict)
    floors: dict[str, int] = attrs.field(factory=dict)

    def take(self, entry: IndexEntry) -> None:
        """Take what is later than what is known."""
        if entry.whole:
            self.floors[entry.workflow_id] = max(self.floors.get(entry.workflow_id, 0), entry.version)
            gone = [key for key, (version, _) in self.documents.items() if key[0] == entry.workflow_id and version <= entry.version]
            for key in gone:
                del self.documents[key]
        if entry.version >= self.floors.get(entry.workflow_id, 0):
            for one in entry.documents:
                if self.documents.get((one.workflow_id, one.place), (0, one))[0] <= entry.version:
                    self.documents[one.workflow_id, one.place] = (entry.version, one)


@attrs.define(slots=True)
class _Shared:
    """State that the handles of one name share: its indexes, by identity, and which one is searched."""

    indexes: dict[str, HeldIndex] = attrs.field(factory=dict)
    searched: str = ""
    mutex: Mutex = attrs.field(factory=Mutex)


@final
class MemoryIndex:
    """An `IndexDAO` for tests, and an example of one. With `beside` it is another handle on the same index."""

    def __init__(self, beside: MemoryIndex | None = None) -> None:
        self._shared: _Shared = _Shared() if beside is None else beside._shared
        self._closed = False

    @property
    def held(self) -> HeldIndex:
        """The index that is searched."""
        if self._closed:
            raise EngineClosed("the index was closed")
        if self._shared.searched not in self._shared.indexes:
            self.switch(self.begin())
        return self._shared.indexes[self._shared.searched]

    def standing(self) -> tuple[str, int]:
        """Identity and position."""
        with self._shared.mutex.held():
            return self.held.identity, self.held.position

    def feed(self, identity: str, position: int, entries: Iterable[IndexEntry]) -> None:
        """Take entries into one index."""
        with self._shared.mutex.held():
            held = self._of(identity)
            for entry in entries:
                held.take(entry)
            held.position = max(held.position, position)

    def begin(self) -> str:
        """Make an empty index."""
        made = HeldIndex()
        self._shared.indexes[made.identity] = made
        return made.identity

    def switch(self, identity: str) -> None:
        """Search another index; the others go."""
        held = self._of(identity)
        self._shared.searched = identity
        self._shared.indexes = {identity: held}

    def _of(self, identity: str) -> HeldIndex:
        if self._closed:
            raise EngineClosed("the index was closed")
        if identity not in self._shared.indexes:
            raise StorageCorrupt(f"there is no index {identity}")
        return self._shared.indexes[identity]

    def workflows(self, asked: Asked) -> SearchResult[WorkflowSummary]:
        """The executions that answer a search."""
        known = self._documents()
        found = [one for one in known if one.place is None]
        if asked.with_task is not None:
            ids = {one.workflow_id for one in known if one.place is not None and matches(one, asked.with_task)}
            found = [one for one in found if one.workflow_id in ids]
        total, page = answer(found, asked)
        return SearchResult(total_hits=total, results=tuple(map(summary, page)))

    def tasks(self, asked: Asked) -> SearchResult[TaskSummary]:
        """The attempts that answer a search."""
        total, page = answer([one for one in self._documents() if one.place is not None], asked)
        return SearchResult(total_hits=total, results=tuple(task_summary(one.fields, one.input, one.output) for one in page))

    def known(self, after: str, limit: int) -> Sequence[str]:
        """Ids of executions of which anything is known."""
        return sorted({one.workflow_id for one in self._documents() if one.workflow_id > after})[:limit]

    def documents(self, workflow_id: str) -> Sequence[Document]:
        """All that is known of an execution."""
        return [one for one in self._documents() if one.workflow_id == workflow_id]

    def _documents(self) -> list[Document]:
        with self._shared.mutex.held():
            return [one for _, one in self.held.documents.values()]

    def close(self) -> None:
        """Refuse further use of this handle; idempotent."""
        self._closed = True


class IndexConformance(AnswerConformance):
    """Tests of a search index. Subclass it and implement `make_index`.

        class TestMyIndex(IndexConformance):
            def make_index(self, folder: Path) -> IndexDAO:
                return MyIndex(folder / "index")

    Called twice with one folder it returns two handles on one index, as two processes have them; a folder that was never given
    before is an index that no program has used.
    """

    def test_put_again_and_removed(self, tmp_path: Path) -> None:
        """A put document takes the place of what was there, whole; a removed one is not found, even if it never was there."""
        shelf = Shelf()
        first = [*written(workflow("w", input=Payload.of({"a": 1, "b": "old"})), task("a"), task("b")), *written(workflow("v"))]
        second = written(workflow("w", input=Payload.of({"a": 2})), task("b", attempt=1))
        with self.opened(tmp_path) as index:
            for documents in (first, second):
                self.put(index, documents)
                self.put(index, documents)
                shelf.put(documents)
                shelf.agrees(index)
            for query, words in (("input.a = 1", "*"), ("input.b IS NOT NULL", "*"), ("", "old"), ("input.a = 2", "*")):
                executions_agree(index, shelf.executions, asked(WORKFLOWS, query, words, 0, 9, ""))
            self.put(index, [], "w", "nobody")
            self.put(index, [])
            shelf.remove(["w"])
            shelf.agrees(index)
            self.put(index, second, "v")
            self.put(index, first)
            self.put(index, [], "w")
            shelf.put(first)
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

    def test_what_has_changed(self, tmp_path: Path) -> None:
        """Documents that are put alone leave the others of their execution where they are."""
        row = workflow("w")
        [old, one, other] = written(row, task("a"), task("b"))
        [moved, two] = written(attrs.evolve(row, reason="late"), task("b", attempt=1))
        with self.opened(tmp_path, old, one, other) as index:
            feed(index, attrs.evolve(whole("w", [moved, two]), whole=False))
            shelf = Shelf()
            shelf.put([moved, one, other, two])
            shelf.agrees(index)

    def test_a_late_feeder(self, tmp_path: Path) -> None:
        """A document fed again, as by a feeder that was slow or died, puts nothing back: not what was changed or gone."""
        first = [whole(name, written(workflow(name), task("a", name), task("b", name))) for name in ("changed", "gone", "back")]
        changed, back = (written(workflow(name, reason="late"), task("a", name, attempt=1)) for name in ("changed", "back"))
        between = [whole("gone"), whole("back")]
        last = [whole("changed", changed), whole("back", back)]
        with self.opened(tmp_path) as index, self.opened(tmp_path) as other:
            shelf = Shelf()
            shelf.put([*changed, *back])
            for entries in (first, between, last):
                feed(index, *entries)
            shelf.agrees(index)
            for entries in (first, between, last, first):
                feed(other, *entries)
                shelf.agrees(index)
            identity, position = index.standing()
            other.feed(identity, 1, first)
            assert index.standing() == (identity, position)
            shelf.agrees(index)

    def test_any_order(self) -> None:
        """Whatever order states of executions come in, one by one and in batches, the latest of each is what is there."""
        states = st.lists(libraries(), min_size=1, max_size=4)

        @PROPERTY
        @given(states, st.data())
        def agree(states: list[list[Document]], data: st.DataObject) -> None:
            shelf = Shelf()
            entries = []
            for documents in states:
                rows = [one for one in documents if one.place is None]
                shelf.put(rows)
                entries += [whole(one.workflow_id, [one]) for one in rows]
            fed_order = data.draw(st.permutations(entries))
            with self.opened() as index:
                for n in range(0, len(fed_order), 3):
                    feed(index, *fed_order[n : n + 3])
                executions_agree(index, shelf.executions, asked(WORKFLOWS, "", "*", 0, 100, ""))

        agree()

    def test_what_was_fed_is_seen(self, tmp_path: Path) -> None:
        """Another handle finds what was fed as soon as the call returns."""
        shelf = Shelf()
        with self.opened(tmp_path) as index, self.opened(tmp_path) as other:
            for n in range(4):
                documents = written(workflow("w", reason=f"n{n}"), task("a", attempt=n))
                self.put((index, other)[n % 2], documents)
                shelf.put(documents)
                shelf.agrees((other, index)[n % 2])

    def test_position(self, tmp_path: Path) -> None:
        """The highest one that was given, across handles and reopening; also one that is far away."""
        with self.opened(tmp_path) as index, self.opened(tmp_path) as other:
            identity, before = index.standing()
            assert before == 0
            for position, handle in ((1, index), (2, other), (2**53 + 1, index), (3, other)):
                handle.feed(identity, position, [])
                highest = max(position, before)
                assert index.standing() == other.standing() == (identity, highest)
                before = highest
        with self.opened(tmp_path) as index:
            assert index.standing() == (identity, 2**53 + 1)

    def test_identity(self, tmp_path: Path) -> None:
        """Each index has its own from the first; it stays when documents change and handles close."""
        seen: set[str] = set()
        for name in ("one", "two"):
            folder = tmp_path / name
            folder.mkdir()
            with self.opened(folder, *written(workflow("w"))) as index:
                first = index.standing()[0]
                assert first
                assert first not in seen
            with self.opened(folder) as index, self.opened(folder) as other:
                assert index.standing() == other.standing() == (first, 1)
            seen.add(first)

    def test_another_beside(self, tmp_path: Path) -> None:
        """One that is begun is empty and has an identity of its own; it is searched, by every handle, when it is switched to."""
        old, new = (written(workflow(name), task("a", name)) for name in ("old", "new"))
        shelf, fresh = Shelf(), Shelf()
        shelf.put(old)
        fresh.put(new)
        with self.opened(tmp_path, *old) as index, self.opened(tmp_path) as other:
            before = index.standing()
            made = index.begin()
            assert made != before[0]
            other.feed(made, 7, [whole("new", new)])
            shelf.agrees(index)
            feed(other, whole("more", written(workflow("more"))))
            shelf.put(written(workflow("more")))
            shelf.agrees(index)
            assert index.standing() == (before[0], before[1] + 1)
            other.switch(made)
            assert index.standing() == other.standing() == (made, 7)
            fresh.agrees(index)
            index.switch(made)
            fresh.agrees(other)
            with pytest.raises(StorageCorrupt):
                index.feed(before[0], 9, [whole("old", old)])
            with pytest.raises(StorageCorrupt):
                other.switch(before[0])
            fresh.agrees(index)
            empty = index.begin()
            index.switch(empty)
            Shelf().agrees(other)
            assert other.standing() == (empty, 0)

    def test_reopened(self, tmp_path: Path) -> None:
        """Documents that were put are there when all handles were closed and another one is opened."""
        shelf = Shelf()
        shelf.put(written(workflow("w"), task("a")))
        with self.opened(tmp_path, *shelf.executions, *shelf.attempts):
            pass
        with self.opened(tmp_path) as index:
            shelf.agrees(index)

    def test_close(self, tmp_path: Path) -> None:
        """Closing is repeated in peace, also before any use; what was closed raises EngineClosed; other handles go on."""
        self.make_index(tmp_path).close()
        one, other = self.make_index(tmp_path), self.make_index(tmp_path)
        identity, _ = one.standing()
        for _ in range(2):
            one.close()
        wanted = asked(WORKFLOWS, "", "*", 0, 9, "")
        acts: tuple[Callable[[], object], ...] = (
            one.standing, lambda: one.workflows(wanted), lambda: one.known("", 9), lambda: one.documents("w"),
            lambda: one.feed(identity, 1, []),
        )  # fmt: skip
        for act in acts:
            with pytest.raises(EngineClosed):
                act()
        assert other.standing()[1] == 0
        other.close()

    def test_only_what_is_there_now_is_found(self) -> None:
        """However often documents are put and removed, the answers are those of what is left."""
        act = st.one_of(libraries(), st.lists(st.sampled_from([f"w{n}" for n in range(6)]), max_size=2))

        @PROPERTY
        @given(st.lists(act, max_size=6), queries(), queries(of_tasks=True), FREE_TEXTS)
        def agree(acts: list[list[Document] | list[str]], query: str, of_tasks: str, words: str) -> None:
            shelf = Shelf()
            with self.opened() as index:
                for act in acts:
                    documents = [one for one in act if isinstance(one, Document)]
                    removed = [one for one in act if isinstance(one, str)]
                    self.put(index, documents, *removed)
                    shelf.put(documents)
                    shelf.remove(removed)
                shelf.agrees(index)
                executions_agree(index, shelf.executions, asked(WORKFLOWS, query, words, 0, 100, ""))
                attempts_agree(index, shelf.attempts, asked(TASKS, of_tasks, words, 0, 100, ""))

        agree()
