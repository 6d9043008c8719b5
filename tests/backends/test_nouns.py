"""A transaction is asked by noun: what it hands out, what a view refuses, and what a failing decision leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conductorlite.errors import InvariantBroken
from conductorlite.model.decisions import Decision
from conductorlite.model.limits import Limit, LimitChange
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.nouns import CHANGES, NOUNS, QUESTIONS, Watched
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.tables import FeedKind
from conductorlite.store.transactions import ReadingTransaction
from conductorlite.testing.conformance.samples import event, started, task, workflow
from conductorlite.testing.faults import lay_empty_store


@pytest.fixture(params=["memory", "sqlite"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A new store."""
    return MemoryBackend() if request.param == "memory" else SQLiteBackend(lay_empty_store(tmp_path / "s.db"), synchronous="NORMAL")


def test_no_noun_is_large() -> None:
    """At most 25 methods each; a view hands out all of them but what stores decisions."""
    assert {noun: len(QUESTIONS[noun] + CHANGES[noun]) for noun in NOUNS if len(QUESTIONS[noun] + CHANGES[noun]) > 25} == {}
    handed_out = {name for name in dir(ReadingTransaction) if not name.startswith("_")}
    assert handed_out == NOUNS.keys() - {"decisions"} | {"sizes"}


WRITES: dict[str, Callable[[Any], object]] = {
    "decisions": lambda tx: tx.decisions.apply(Decision(workflow=workflow("w"), created=True)),
    "executions": lambda tx: tx.executions.park("known", 1, "broken"),
    "inbox": lambda tx: tx.inbox.post([event("e", 9)]),
    "limits": lambda tx: tx.limits.put_limit(LimitChange(limit=Limit(key="l"))),
    "metadata": lambda tx: tx.metadata.put_task_def("t", "{}"),
    "owners": lambda tx: tx.owners.note_driven("", 1, 2),
    "feeds": lambda tx: tx.feeds.begin_feed(FeedKind.OWN, "r"),
}


@pytest.mark.parametrize("noun", WRITES)
def test_a_view_that_is_written_to(backend: Backend, noun: str) -> None:
    """It says so when it ends, and nothing is stored; the next change is carried out."""
    started(backend, "known")
    with backend.reading() as view:
        before = view.sizes()
    with pytest.raises(InvariantBroken, match="a view was written to"), backend.reading() as view:
        WRITES[noun](view)
    with backend.reading() as view:
        assert view.sizes() == before
        assert (view.owners.driven("", 0), view.metadata.task_defs(), view.feeds.feed(FeedKind.OWN)) == ([], [], None)
    with backend.writing() as tx:
        WRITES[noun](tx)


def test_what_came_before_a_failing_decision_stays(backend: Backend) -> None:
    """Of several changes in one commit only the decision that is refused is undone, whatever noun the others are of."""
    row = started(backend)
    with backend.writing() as tx:
        tx.owners.note_driven("", 1, 2)
        with pytest.raises(InvariantBroken):
            tx.decisions.apply(Decision(workflow=row, updated=(task("never scheduled"),)))
    with backend.reading() as view:
        assert view.owners.driven("", 0) == [(1, 2)]


def test_a_noun_that_is_watched(backend: Backend) -> None:
    """What changes something goes through a function; what asks is answered as before."""
    seen: list[tuple[str, str]] = []

    def watching(noun: str, name: str, change: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: (seen.append((noun, name)), change(*given))[1]

    with backend.writing() as tx:
        metadata: Any = Watched("metadata", tx.metadata, watching)
        metadata.put_task_def("t", "{}")
        assert metadata.task_defs() == ["t"]
    assert seen == [("metadata", "put_task_def")]
