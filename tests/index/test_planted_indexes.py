"""Is the suite for indexes any good? Indexes that are wrong in one way each; the test that is to find it must fail."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from hypothesis import Phase, settings

from conductorlite.errors import StorageBusy
from conductorlite.store.documents import cell
from conductorlite.store.ports import IndexDAO
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

    @contextmanager
    def changing(self) -> Iterator[Any]:
        """A change, which may be wrapped."""
        with self.inner.changing() as tx:
            yield self.wrapped(tx)

    def wrapped(self, tx: Any) -> Any:
        """The change as it is handed out."""
        return tx


class Change:
    """A change, for those that are wrong in one way."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def changing(**wrong: Callable[..., None]) -> Opened:
    """Indexes some of whose changes do something else; each is given the right change and its arguments."""

    class Changed(Change):
        pass

    for name, act in wrong.items():
        setattr(Changed, name, lambda self, *arguments, act=act: act(self.inner, *arguments))

    class Wrong(Handle):
        def wrapped(self, tx: Any) -> Any:
            return Changed(tx)

    return Wrong


def answering(**wrong: Callable[..., Any]) -> Opened:
    """Indexes some of whose answers are others; each is given the right index and its arguments."""

    class Wrong(Handle):
        pass

    for name, act in wrong.items():
        setattr(Wrong, name, lambda self, *arguments, act=act: act(self.inner, *arguments))
    return Wrong


def asking(change: Callable[[Asked], Asked]) -> Opened:
    """Indexes that answer another question."""
    return answering(
        workflows=lambda index, wanted: index.workflows(change(wanted)), tasks=lambda index, wanted: index.tasks(change(wanted))
    )


def as_they_are(tx: Any, documents: Any) -> None:
    """Attempts keep what they have of their execution when they are put: it is not theirs any more."""
    told = {one.workflow_id: one for one in documents if one.place is None}
    tx.put([one if one.place is not None else attrs.evolve(one, fields={**one.fields, "priority": 0}) for one in documents if told])
    tx.put([one for one in documents if one.place is not None])


class KeepsWhatWasAbandoned(Handle):
    """Whatever a block did is kept, also when an exception leaves it."""

    @contextmanager
    def changing(self) -> Iterator[Any]:
        """A change that commits in any case."""
        caught: BaseException | None = None
        with self.inner.changing() as tx:
            try:
                yield tx
            except Exception as error:
                caught = error
        if caught is not None:
            raise caught


class KeepsThePosition(Handle):
    """A position that was settled is kept, also when the block is abandoned."""

    @contextmanager
    def changing(self) -> Iterator[Any]:
        """A change whose position is put down beside it."""
        position = None
        try:
            with self.inner.changing() as tx:
                try:
                    yield tx
                finally:
                    position = tx.position
        except Exception:
            if position is not None:
                with self.inner.changing() as tx:
                    tx.settle(position)
            raise


class NotExclusive(Handle):
    """Changes are collected, and made at the end of the block: two may be under way."""

    @contextmanager
    def changing(self) -> Iterator[Any]:
        """What is done is done later."""
        acts: list[tuple[str, tuple[Any, ...]]] = []
        identity, position = self.inner.standing()

        class Later:
            def __init__(self) -> None:
                self.identity, self.position = identity, position

            def __getattr__(self, name: str) -> Any:
                return lambda *arguments: acts.append((name, arguments))

            def settle(self, position: int) -> None:
                self.position = position
                acts.append(("settle", (position,)))

        yield Later()
        with self.inner.changing() as tx:
            for name, arguments in acts:
                getattr(tx, name)(*arguments)


class Waits(Handle):
    """A second change waits for the first one."""

    @contextmanager
    def changing(self) -> Iterator[Any]:
        """A change that is tried again and again."""
        pause = threading.Event()
        for _ in range(60):
            try:
                change = self.inner.changing()
                tx = change.__enter__()
                break
            except StorageBusy:
                pause.wait(0.1)
        else:
            raise StorageBusy("it was waited for")
        with change_of(change, tx) as found:
            yield found


@contextmanager
def change_of(change: Any, tx: Any) -> Iterator[Any]:
    """A change that was entered by hand."""
    try:
        yield tx
    except BaseException as error:
        if not change.__exit__(type(error), error, error.__traceback__):
            raise
    else:
        change.__exit__(None, None, None)


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

    def wrapped(self, tx: Any) -> Any:
        """A change that has it too."""
        tx.identity = "index"
        return tx


class ClosesOnce(Handle):
    """The second close is an error."""

    closed = False

    def close(self) -> None:
        """Close it, once."""
        if self.closed:
            raise RuntimeError("it is closed")
        self.closed = True
        self.inner.close()


def keeping_the_rest(tx: Any, documents: Sequence[Any]) -> None:
    """What was known of an execution stays beside what is put."""
    tx.put([attrs.evolve(one, values=(*one.values, ("input.b", "old"))) for one in documents])


def removing_the_row(tx: Any, workflow_ids: Sequence[str]) -> None:
    """The attempts of an execution outlive it."""
    for one in workflow_ids:
        tx.documents.pop((one, None), None)


def clearing_half(tx: Any) -> None:
    """The documents go, the name stays: as the block sees it."""
    name = tx.identity
    tx.clear()
    tx.identity = name


def page_of_all(index: Any, wanted: Asked) -> Any:
    """The hits of the page pass for all."""
    found = index.workflows(wanted)
    return attrs.evolve(found, total_hits=len(found.results))


#: Each wrong index, and the test of the suite that is to find it.
PLANTED: Final[dict[str, tuple[Opened, str]]] = {
    "remove_tasks is forgotten": (changing(remove_tasks=lambda tx, *_: None), "test_put_again_and_removed"),
    "remove leaves the attempts": (
        changing(remove=removing_the_row), "test_put_again_and_removed"
    ),
    "remove takes the beginning of an id": (
        changing(remove=lambda tx, ids: tx.remove([n for one in ids for n in (one, one[:1])])), "test_odd_texts"
    ),
    "what was put stays beside what is put": (changing(put=keeping_the_rest), "test_put_again_and_removed"),
    "attempts are not given what their execution has": (changing(put=as_they_are), "test_attempts_inherit"),
    "an abandoned change is kept": (KeepsWhatWasAbandoned, "test_an_abandoned_change_changes_nothing"),
    "the position of an abandoned change is kept": (KeepsThePosition, "test_an_abandoned_change_changes_nothing"),
    "changes are not exclusive": (NotExclusive, "test_changes_are_one_at_a_time"),
    "a second change waits": (Waits, "test_changes_are_one_at_a_time"),
    "handles do not share": (Private, "test_a_change_is_seen_when_it_ends"),
    "nothing is kept": (GoneWithItsHandle, "test_reopened"),
    "every index has one name": (OneName, "test_identity"),
    "a cleared index keeps its name": (changing(clear=clearing_half), "test_identity"),
    "the position is not kept": (changing(settle=lambda tx, position: None), "test_position"),
    "the position is a double": (changing(settle=lambda tx, position: tx.settle(int(float(position)))), "test_position"),
    "start_over keeps the documents": (answering(start_over=lambda index: None), "test_start_over"),
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
        changing(put=lambda tx, documents: tx.put([attrs.evolve(one, workflow_id=str(cell(one.workflow_id)),
                                                                fields={name: cell(value) for name, value in one.fields.items()})
                                                   for one in documents])),
        "test_odd_texts",
    ),
    "only so many values": (
        changing(put=lambda tx, documents: tx.put([attrs.evolve(one, values=one.values[:200]) for one in documents])),
        "test_large_payloads",
    ),
    "true is one": (
        changing(put=lambda tx, documents: tx.put([_with_ones(one) for one in documents])), "test_values_at_the_edges"
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
    assert isinstance(wrong, _LOUD.get(bug, (AssertionError, pytest.fail.Exception)))


def test_a_right_index_behind_the_same_handle_passes(tmp_path: Path) -> None:
    """What is planted is what is found, not the handle around it."""
    for test in sorted({test for _, test in PLANTED.values() if not test.endswith("by_looking") and "_now_" not in test}):
        folder = tmp_path / test
        folder.mkdir()
        assert outcome(Handle, test, folder) is None


def test_every_test_of_the_suite_finds_something() -> None:
    """There is no test that no planted bug is found by."""
    tests = {name for name in dir(IndexConformance) if name.startswith("test_")}
    assert tests - {test for _, test in PLANTED.values()} == {"test_clear_and_go_on"}
