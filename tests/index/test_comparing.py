"""`check` compares the index with the store, `repair` sets the index right: each difference is planted, found, told and mended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from orders import ORDER, agrees, answers, engine, place

from conductorlite import Barriers, Engine, EngineConfig, VirtualClock, Workers, WorkflowDef
from conductorlite.decide.changeset.reader import Bounds
from conductorlite.engine import index_feed as feeding
from conductorlite.engine import search as comparing
from conductorlite.errors import ExecutionNotFound, PayloadUnavailable, StorageCorrupt, StorageError
from conductorlite.store.documents import Document
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend, DocumentWrites
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.tables import FeedKind
from conductorlite.testing import MemoryIndex
from conductorlite.testing.faults import lay_empty_store

LAW: Final = "the_index_agrees"

Known = dict[tuple[str, tuple[str, int] | None], Document]


@pytest.fixture(params=["memory external", "sqlite external", "sqlite own"])
def one(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An engine with an index that knows four orders, one archived."""
    store, index = request.param.split()
    backend = MemoryBackend() if store == "memory" else SQLiteBackend(lay_empty_store(tmp_path / "store.db"), synchronous="NORMAL")
    with engine(backend, MemoryIndex() if index == "external" else None) as one:
        place(one, 0, 4)
        one.run_until_idle()
        one.admin.archive("o3")
        one.search()
        one.admin.relay()
        yield one


class Tampered:
    """An index in memory that is changed behind every feeder's back."""

    def __init__(self, index: Any) -> None:
        self.documents = index.held.documents

    def put(self, documents: Iterable[Document]) -> None:
        """Documents as an early feeder would have put them."""
        self.documents |= {(one.workflow_id, one.place): (0, one) for one in documents}

    def remove(self, workflow_ids: Sequence[str]) -> None:
        """All that is known of executions."""
        for key in [key for key in self.documents if key[0] in workflow_ids]:
            del self.documents[key]


@contextmanager
def changing(one: Engine) -> Iterator[Any]:
    """A change of the index behind the engine's back."""
    if one.core.searching.feeder is not None:
        yield Tampered(one.core.searching.feeder.index)
    else:
        with one.backend.writing() as tx:
            yield tx.feeds.index()


def known(one: Engine) -> Known:
    """What the index knows."""
    with one.backend.reading() as view:
        index: Any = view.feeds.index() if one.core.searching.feeder is None else one.core.searching.feeder.index
        return {(found.workflow_id, found.place): found for name in index.known("", 100) for found in index.documents(name)}


def other(found: Document, **fields: Any) -> Document:
    """A document with other fields."""
    return attrs.evolve(found, fields={**found.fields, **fields})


def moved(found: Document, workflow_id: str) -> Document:
    """A document of another execution."""
    return attrs.evolve(other(found, workflowId=workflow_id), workflow_id=workflow_id)


def texts(one: Engine, workflow_id: str | None = None) -> list[tuple[str, str]]:
    """What `check` finds: executions and texts, all of one law."""
    found = one.admin.check(workflow_id)
    assert {finding.law for finding in found} <= {LAW}
    return [(finding.workflow_id, finding.text) for finding in found]


CHARGE: Final = ("charge", 0)
SHIP: Final = ("ship", 0)
STALE: Final = "the index knows it, and it is neither stored nor archived"

#: What is done to the index behind the engine's back, and what is then found.
PLANTED: Final[dict[str, tuple[Callable[[Known, DocumentWrites], None], list[tuple[str, str]]]]] = {
    "unknown": (lambda known, tx: tx.remove(["o1"]), [("o1", "the index does not know it")]),
    "unknown, archived": (lambda known, tx: tx.remove(["o3"]), [("o3", "the index does not know it")]),
    "another status": (
        lambda known, tx: tx.put([other(known["o1", None], status="RUNNING")]), [("o1", "the index has another status")]
    ),
    "an end that did not come, other words": (
        lambda known, tx: tx.put([attrs.evolve(other(known["o1", None], endTime=7, reasonForIncompletion="no"), words="no")]),
        [("o1", "the index has another endTime, reasonForIncompletion, words")],
    ),
    "other payloads": (
        lambda known, tx: tx.put([attrs.evolve(known["o1", None], input="{}", output=None, values=())]),
        [("o1", "the index has another input, output, values")],
    ),
    "not archived": (
        lambda known, tx: tx.put([other(known["o3", None], archived=b"false")]), [("o3", "the index has another archived")]
    ),
    "an attempt that is unknown": (
        lambda known, tx: [tx.remove(["o1"]), tx.put([known["o1", None], known["o1", CHARGE]])][-1],
        [("o1", "ship attempt 0: the index does not know it")],
    ),
    "an attempt that differs": (
        lambda known, tx: tx.put([other(known["o1", CHARGE], status="FAILED", workerId="me")]),
        [("o1", "charge attempt 0: the index has another status, workerId")],
    ),
    "an attempt too many": (
        lambda known, tx: tx.put([attrs.evolve(other(known["o1", SHIP], retryCount=1), place=("ship", 1))]),
        [("o1", "ship attempt 1: the index knows it, and there is no such attempt")],
    ),
    "attempts without their execution": (
        lambda known, tx: tx.put([moved(known["o1", SHIP], "nobody")]), [("nobody", STALE)]
    ),
    "executions that are nowhere": (
        lambda known, tx: tx.put(
            [moved(found, f"{name}\0") for (of, _), found in known.items() if of == "o1" for name in ("o1", "x")]
        ),
        [("o1\0", STALE), ("x\0", STALE)],
    ),
    "everything is forgotten": (
        lambda known, tx: tx.remove(["o0", "o1", "o2", "o3"]),
        [(f"o{n}", "the index does not know it") for n in range(4)],
    ),
}  # fmt: skip


def test_nothing_is_found_where_nothing_differs(one: Engine) -> None:
    """Orders that have ended, one archived, before and after a search."""
    assert one.admin.check() == []
    agrees(one)
    assert one.admin.check() == []
    assert one.admin.repair().done == ()


@pytest.mark.parametrize("planted", PLANTED)
def test_a_difference_is_found_told_and_mended(one: Engine, planted: str) -> None:
    """`check` finds it and changes nothing; `repair` says what it did; then there is nothing left, and a search agrees."""
    plant, expected = PLANTED[planted]
    before = known(one)
    with changing(one) as tx:
        plant(before, tx)
    assert texts(one) == texts(one) == expected
    report = one.admin.repair()
    assert [(done.law, done.workflow_id, done.text) for done in report.done] == [
        (LAW, workflow_id, f"{text}; it is indexed again") for workflow_id, text in expected
    ]
    assert report.left == ()
    assert one.admin.check() == []
    agrees(one)
    assert one.admin.repair().done == ()


def test_one_execution(one: Engine) -> None:
    """`check` and `repair` of one execution look at that one only; an id that is nobody's is not found."""
    before = known(one)
    with changing(one) as tx:
        tx.remove(["o0", "o1"])
        tx.put([moved(before["o2", None], "nobody")])
    assert texts(one, "o1") == [("o1", "the index does not know it")]
    assert texts(one, "o2") == []
    with pytest.raises(ExecutionNotFound):
        one.admin.check("nobody")
    assert [done.workflow_id for done in one.admin.repair("o1").done] == ["o1"]
    assert [workflow_id for workflow_id, _ in texts(one)] == ["nobody", "o0"]


def test_what_is_still_to_be_indexed_is_no_difference(one: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts, turns, removals and archiving that the index does not know yet, and one that is being built, are in order."""
    place(one, 5, 6)
    one.start(ORDER, {"amount": 7, "city": "Rome"}, workflow_id="new")
    one.tick()
    one.admin.remove("o1")
    one.admin.archive("o2")
    health = one.admin.index_health()
    assert health is not None
    assert health.behind >= 4
    assert one.admin.check() == []
    one.admin.relay()
    assert one.admin.check() == []
    one.run_until_idle()
    monkeypatch.setattr(feeding, "_BATCH", 1)
    looked = 0

    def look(done: int, total: int) -> None:
        nonlocal looked
        looked += 1
        assert done <= total
        assert one.admin.check() == []

    one.admin.rebuild_index(look)
    assert looked > 5
    agrees(one)


def test_without_an_index(store: Backend) -> None:
    """Before the first search nothing is compared, and nothing is made."""
    with engine(store) as one:
        place(one, 0, 2)
        one.run_until_idle()
        assert one.admin.check() == []
        assert one.admin.repair().done == ()
        with one.backend.reading() as view:
            assert {view.feeds.feed(kind) for kind in FeedKind} == {None}


def test_many_pages(tmp_path: Path, index: MemoryIndex | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executions, archived ones and those only the index knows are looked at page by page, each once, in order."""
    monkeypatch.setattr(comparing, "_PAGE", 3)
    with engine(SQLiteBackend(lay_empty_store(tmp_path / "s.db"), synchronous="NORMAL"), index) as one:
        place(one, 0, 14)
        one.run_until_idle()
        one.admin.prune("0s", archive=True, limit=7)
        agrees(one)
        assert one.admin.check() == []
        stray = [moved(known(one)["o1", None], f"o{n}x") for n in range(0, 20, 3)]
        gone = [f"o{n}" for n in range(1, 14, 4)]
        with changing(one) as tx:
            tx.put(stray)
            tx.remove(gone)
        assert [workflow_id for workflow_id, _ in texts(one)] == sorted([*gone, *(found.workflow_id for found in stray)])
        assert one.admin.repair().left == ()
        agrees(one)


@attrs.define
class Watched:
    """An index during the reading of which something happens, once."""

    inner: MemoryIndex
    meanwhile: Callable[[], None] | None = None
    error: Exception | None = None

    def documents(self, workflow_id: str) -> Any:
        """What is known, before something happens."""
        if self.error is not None:
            raise self.error
        found = self.inner.documents(workflow_id)
        act, self.meanwhile = self.meanwhile, None
        if act is not None:
            act()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.mark.parametrize("fed", [True, False])
def test_others_go_on_meanwhile(store: Backend, fed: bool) -> None:
    """An execution that changes, and is indexed, between the looks at the index and at the store is no difference."""
    index = Watched(MemoryIndex())
    with engine(store, index) as one:
        place(one, 0, 3)
        one.admin.relay()

        def meanwhile() -> None:
            one.run_until_idle()
            one.admin.archive("o1")
            if fed:
                one.admin.relay()

        index.meanwhile = meanwhile
        assert one.admin.check() == []
        assert index.meanwhile is None
        agrees(one)


def test_an_index_that_cannot_be_read(store: Backend) -> None:
    """It is one finding, whatever it raises, and so is a payload that cannot be had; neither is repaired or hinders anything."""
    index = Watched(MemoryIndex())
    with engine(store, index) as one:
        place(one, 0, 3)
        one.admin.relay()
        for error in (StorageError("no"), ValueError("no"), PayloadUnavailable("no")):
            index.error = error
            assert texts(one) == [("", "the index cannot be compared: no")]
            report = one.admin.repair()
            assert (report.done, len(report.left)) == ((), 1)
        index.error = None
        assert one.admin.check() == []


def test_a_damaged_index_is_made_anew(store: Backend) -> None:
    """`check` says so, and leaves it; `repair` sets it aside, says so, and the new one agrees, though nothing has changed."""
    index = Watched(MemoryIndex())
    with engine(store, index) as one:
        place(one, 0, 5)
        one.run_until_idle()
        agrees(one)
        index.error = StorageCorrupt("it is damaged")
        before = index.standing()
        ((_, text),) = texts(one)
        assert text == "the index cannot be compared: it is damaged"
        assert index.standing() == before
        report = one.admin.repair()
        assert [done.text.partition(";")[0] for done in report.done] == ["the index was set aside and is rebuilt"]
        assert index.standing()[0] != before[0]
        index.error = None
        assert one.admin.check() == []
        agrees(one)


def test_an_index_of_another_store_is_not_compared(tmp_path: Path) -> None:
    """What does not belong to the store answers no search, so there is nothing to compare."""
    indexes = [MemoryIndex(), MemoryIndex()]
    for n, index in enumerate(indexes):
        with engine(SQLiteBackend(lay_empty_store(tmp_path / f"{n}.db")), MemoryIndex(index)) as one:
            place(one, 5 * n, 5 * n + 2)
            one.run_until_idle()
            agrees(one)
    with engine(SQLiteBackend(lay_empty_store(tmp_path / "0.db")), indexes[1], VirtualClock(10_000)) as one:
        assert one.admin.check() == []
        assert answers(one) == answers(one, looking=True)


def test_feeding_and_checking_at_once(store: Backend) -> None:
    """While executions move and are indexed at every look, nothing is taken for a difference; what is wrong is found afterwards."""
    index = Watched(MemoryIndex())
    with engine(store, index) as one:
        place(one, 0, 6)
        one.admin.relay()
        looks = 0

        @contextmanager
        def busy() -> Iterator[None]:
            def act() -> None:
                nonlocal looks
                looks += 1
                one.tick()
                one.admin.relay()
                index.meanwhile = act

            index.meanwhile = act
            yield
            index.meanwhile = None

        with busy():
            assert one.admin.check() == []
        assert looks > 6
        one.run_until_idle()
        Tampered(index.inner).remove(["o5"])
        assert texts(one) == [("o5", "the index does not know it")]


@pytest.mark.parametrize("external", [False, True])
def test_a_document_elsewhere_is_not_looked_into(tmp_path: Path, external: bool) -> None:
    """An output in the payload storage is indexed alike by the engine that has just written it and by one that has not read it."""
    low = EngineConfig(bounds=Bounds(barriers=Barriers(task_output_payload_size_threshold=1)))
    index = MemoryIndex() if external else None
    workers = Workers()
    workers.add("charge", lambda: {"padding": "x" * 1_500})
    one_task = WorkflowDef.from_json({"name": "one", "tasks": [{"name": "charge", "taskReferenceName": "charge"}]})
    with Engine(tmp_path / "s.db", workers=workers, index=index, config=low) as one:
        one.start(one_task).result("20s")
        one.search()
        one.admin.relay()
        assert one.admin.check() == []
    with Engine(tmp_path / "s.db", index=None if index is None else MemoryIndex(index)) as one:
        assert one.admin.check() == []
