"""Is the suite for indexes any good? Indexes that are wrong in one way each; the test that is to find it must fail."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from hypothesis import Phase, settings

from conductorlite.errors import StorageError
from conductorlite.store.documents import Document, cell
from conductorlite.store.ports import IndexDAO, IndexEntry
from conductorlite.store.search import Asked
from conductorlite.testing import MemoryIndex
from conductorlite.testing.conformance import documents as answers
from conductorlite.testing.conformance import indexes
from conductorlite.testing.conformance.indexes import IndexConformance

Opened = Callable[[Path], Any]


class Handle:
    """A handle on a right index, for those that are wrong in one way."""

    made: dict[Path, MemoryIndex] = {}  # noqa: RUF012 - by folder, for all handles

    def __init__(self, folder: Path) -> None:
        self.inner = MemoryIndex(Handle.made.get(folder))
        Handle.made.setdefault(folder, self.inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def answering(**wrong: Callable[..., Any]) -> Opened:
    """Indexes some of whose methods do something else; each is given the right index and its arguments."""

    class Wrong(Handle):
        pass

    for name, act in wrong.items():
        setattr(Wrong, name, lambda self, *arguments, act=act: act(self.inner, *arguments))
    return Wrong


def fed(change: Callable[[IndexEntry], IndexEntry]) -> Opened:
    """Indexes that take other entries than they are given."""
    return answering(feed=lambda index, identity, position, entries: index.feed(identity, position, [*map(change, entries)]))


def putting(change: Callable[[Document], Document]) -> Opened:
    """Indexes that take other documents than they are given."""
    return fed(lambda entry: attrs.evolve(entry, documents=[change(one) for one in entry.documents]))


def asking(change: Callable[[Asked], Asked]) -> Opened:
    """Indexes that answer another question."""
    return answering(
        workflows=lambda index, wanted: index.workflows(change(wanted)), tasks=lambda index, wanted: index.tasks(change(wanted))
    )


def in_its_place(index: MemoryIndex, identity: str, position: int, entries: Iterable[IndexEntry]) -> None:
    """What comes last is what is there, however late it is."""
    index.feed(identity, position, ())
    for entry in entries:
        held = index._of(identity)
        for key in [key for key in held.documents if key[0] == entry.workflow_id and entry.whole]:
            del held.documents[key]
        held.documents |= {(one.workflow_id, one.place): (entry.version, one) for one in entry.documents}


def keeping_attempts(index: MemoryIndex, identity: str, position: int, entries: Iterable[IndexEntry]) -> None:
    """The attempts of an execution outlive it."""
    held = index._of(identity)
    for entry in entries:
        kept = {key: one for key, one in held.documents.items() if key[0] == entry.workflow_id and key[1] is not None}
        index.feed(identity, position, [entry])
        held.documents |= kept if not entry.documents else {}
    index.feed(identity, position, ())


def beginnings(index: MemoryIndex, identity: str, position: int, entries: Iterable[IndexEntry]) -> None:
    """What is removed takes those with it that are named by its beginning."""
    told = [*entries]
    removed = [one for one in told if not one.documents and len(one.workflow_id) > 1]
    index.feed(identity, position, [*told, *(attrs.evolve(one, workflow_id=one.workflow_id[:1]) for one in removed)])


def unseen(index: MemoryIndex, identity: str, position: int, entries: Iterable[IndexEntry]) -> None:
    """What is fed is found when more is fed."""
    waiting: list[IndexEntry] = Handle.waiting.pop(identity, [])
    Handle.waiting[identity] = [*entries]
    index.feed(identity, position, waiting)


Handle.waiting = {}  # type: ignore[attr-defined]


class Private(Handle):
    """Every handle has an index of its own."""

    def __init__(self, folder: Path) -> None:
        self.inner = MemoryIndex()


class GoneWithItsHandle(Handle):
    """An index that is gone when a handle is closed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._folder = folder

    def close(self) -> None:
        """Closes it for all."""
        Handle.made.pop(self._folder, None)
        self.inner.close()


class OneName(Handle):
    """Every index has the same name."""

    def standing(self) -> tuple[str, int]:
        """A name that says nothing."""
        return "index", self.inner.standing()[1]

    def feed(self, identity: str, position: int, entries: Iterable[IndexEntry]) -> None:
        """Into the only one."""
        self.inner.feed(self.inner.standing()[0], position, entries)


class ClosesOnce(Handle):
    """The second close is an error."""

    closed = False

    def close(self) -> None:
        """Close it, once."""
        if self.closed:
            raise RuntimeError("it is closed")
        self.closed = True
        self.inner.close()


def page_of_all(index: Any, wanted: Asked) -> Any:
    """The hits of the page pass for all."""
    found = index.workflows(wanted)
    return attrs.evolve(found, total_hits=len(found.results))


#: Each wrong index, and the test of the suite that is to find it.
PLANTED: Final[dict[str, tuple[Opened, str]]] = {
    "remove leaves the attempts": (answering(feed=keeping_attempts), "test_put_again_and_removed"),
    "remove takes the beginning of an id": (answering(feed=beginnings), "test_odd_texts"),
    "what was put stays beside what is put": (
        putting(lambda one: attrs.evolve(one, values=(*one.values, ("input.b", "old")))), "test_put_again_and_removed"
    ),
    "what is put alone is all": (fed(lambda entry: attrs.evolve(entry, whole=True)), "test_what_has_changed"),
    "what comes last is there": (answering(feed=in_its_place), "test_a_late_feeder"),
    "versions are forgotten": (fed(lambda entry: attrs.evolve(entry, version=1)), "test_any_order"),
    "what was fed is not seen": (answering(feed=unseen), "test_what_was_fed_is_seen"),
    "handles do not share": (Private, "test_what_was_fed_is_seen"),
    "nothing is kept": (GoneWithItsHandle, "test_reopened"),
    "every index has one name": (OneName, "test_identity"),
    "the position is not kept": (
        answering(feed=lambda index, identity, position, entries: index.feed(identity, 0, entries)), "test_position"
    ),
    "the position is a double": (
        answering(feed=lambda index, identity, position, entries: index.feed(identity, int(float(position)), entries)),
        "test_position",
    ),
    "one that is begun is searched": (
        answering(begin=lambda index: [made := index.begin(), index.switch(made)][0]), "test_another_beside"
    ),
    "a switch is forgotten": (answering(switch=lambda index, identity: None), "test_another_beside"),
    "a second close is refused": (ClosesOnce, "test_close"),
    "a closed one answers": (answering(close=lambda index: None), "test_close"),
    "the sort is ignored": (asking(lambda asked: attrs.evolve(asked, sort=())), "test_order_and_pages"),
    "the direction is ignored": (
        asking(lambda asked: attrs.evolve(asked, sort=tuple((name, False) for name, _ in asked.sort))), "test_order_and_pages"
    ),
    "ties descend": (
        asking(lambda asked: attrs.evolve(asked, sort=(*asked.sort, *((name, True) for name in asked.subject.key)))),
        "test_order_and_pages",
    ),
    "a page begins one late": (
        asking(lambda asked: attrs.evolve(asked, start=asked.start + (asked.start > 0))), "test_order_and_pages"
    ),
    "the hits are those of the page": (answering(workflows=page_of_all), "test_order_and_pages"),
    "free text is ignored": (asking(lambda asked: attrs.evolve(asked, phrases=())), "test_executions_are_found_as_by_looking"),
    "queries are ignored": (asking(lambda asked: attrs.evolve(asked, condition=None)), "test_attempts_are_found_as_by_looking"),
    "with_task is ignored": (asking(lambda asked: attrs.evolve(asked, with_task=None)), "test_attempts_are_found_as_by_looking"),
    "ids are cut": (
        putting(lambda one: attrs.evolve(one, workflow_id=str(cell(one.workflow_id)),
                                         fields={name: cell(value) for name, value in one.fields.items()})),
        "test_odd_texts",
    ),
    "only so many values": (
        putting(lambda one: attrs.evolve(one, values=one.values[:200])), "test_large_payloads"
    ),
    "true is one": (
        putting(lambda one: _with_ones(one)), "test_values_at_the_edges"
    ),
    "known has no pages": (answering(known=lambda index, after, limit: index.known("", limit)), "test_known_is_read_in_pages"),
    "known leaves executions out": (
        answering(known=lambda index, after, limit: index.known(after, limit)[:-1]), "test_only_what_is_there_now_is_found"
    ),
    "documents leave attempts out": (
        answering(documents=lambda index, one: [found for found in index.documents(one) if found.place is None]),
        "test_only_what_is_there_now_is_found",
    ),
    "a summary leaves a field out": (
        answering(workflows=lambda index, wanted: _without_event(index.workflows(wanted))), "test_summaries"
    ),
}  # fmt: skip


#: Of most the test says what it expected; these raise something themselves.
_LOUD: Final = {"a second close is refused": RuntimeError}


def _with_ones(document: Any) -> Any:
    return attrs.evolve(document, values=tuple((path, 1 if value == b"true" else value) for path, value in document.values))


def _without_event(found: Any) -> Any:
    return attrs.evolve(found, results=tuple(attrs.evolve(row, event=None) for row in found.results))


def outcome(opened: Opened, test: str, folder: Path) -> BaseException | None:
    """What one test of the suite raises for an index."""

    class Suite(IndexConformance):
        def make_index(self, folder: Path) -> IndexDAO:
            return opened(folder)  # type: ignore[no-any-return]

    call = getattr(Suite(), test)
    try:
        call(**({"tmp_path": folder} if "tmp_path" in inspect.signature(call).parameters else {}))
    except (Exception, pytest.fail.Exception) as error:
        return error
    return None


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The named test fails on the wrong index; on the right one `test_index_agrees.py` sees it pass."""
    # What is found need not be made small.
    found = settings(answers.PROPERTY, phases=[Phase.generate], derandomize=True)
    monkeypatch.setattr(answers, "PROPERTY", found)
    monkeypatch.setattr(indexes, "PROPERTY", found)
    opened, test = PLANTED[bug]
    wrong = outcome(opened, test, tmp_path)
    assert isinstance(wrong, _LOUD.get(bug, (AssertionError, StorageError, pytest.fail.Exception)))


def test_a_right_index_behind_the_same_handle_passes(tmp_path: Path) -> None:
    """What is planted is what is found, not the handle around it."""
    for test in sorted(
        {test for _, test in PLANTED.values() if not test.endswith(("by_looking", "_order")) and "_now_" not in test}
    ):
        folder = tmp_path / test
        folder.mkdir()
        assert outcome(Handle, test, folder) is None


def test_every_test_of_the_suite_finds_something() -> None:
    """There is no test that no planted bug is found by."""
    tests = {name for name in dir(IndexConformance) if name.startswith("test_")}
    assert tests == {test for _, test in PLANTED.values()}
