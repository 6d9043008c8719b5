"""The index in the schema of a store in PostgreSQL answers as every index does, and is fed as that of a file."""

from __future__ import annotations

import re
import runpy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from own_index_kit import OwnConformance
from places import dropped, own_schema

from conductorlite import Engine, WorkflowDef
from conductorlite.ext.postgres import PostgresBackend
from conductorlite.ext.postgres.schema import MIGRATIONS
from conductorlite.store.documents import WORKFLOWS, workflow_document
from conductorlite.store.ports import IndexDAO
from conductorlite.store.search import answer, asked
from conductorlite.store.tables import FeedKind
from conductorlite.testing import MemoryIndex
from conductorlite.testing.conformance.documents import executions_agree
from conductorlite.testing.conformance.samples import workflow


class OwnIndex:
    """The index of one store; each question is a view, and each change a change."""

    def __init__(self, url: str) -> None:
        self._backend = PostgresBackend(url)

    @contextmanager
    def changing(self) -> Iterator[Any]:
        """A change of its documents, undone when the block raises."""
        with self._backend.writing() as tx:
            yield tx.feeds.index()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def asked_of_it(*arguments: Any) -> Any:
            with self._backend.reading() as view:
                return getattr(view.feeds.index(), name)(*arguments)

        return asked_of_it

    def close(self) -> None:
        """Release the store."""
        self._backend.close()


class TestPostgresIndex(OwnConformance):
    """What is asked of it; its changes are those of the store."""

    @pytest.fixture(autouse=True)
    def _url(self, postgres_url: str) -> Iterator[None]:
        self.server = postgres_url
        self.urls: dict[Path, str] = {}
        yield
        for url in self.urls.values():
            dropped(url)

    def make_index(self, folder: Path) -> IndexDAO:
        """The index of a store; of one folder the same."""
        return OwnIndex(self.urls.setdefault(folder, own_schema(self.server)))  # type: ignore[return-value]

    def test_more_words_than_are_indexed(self, tmp_path: Path) -> None:
        """Of what has more lexemes than the server takes, all words are looked through."""
        reason = " ".join(f"{n:x}{'y' * 60}" for n in range(20_000))
        documents = [workflow_document(workflow("w", reason=reason)), workflow_document(workflow("v", reason="short"))]
        with self.opened(tmp_path, *documents) as index:
            for words in ("short", f"a{'y' * 60}", f"1{'y' * 60} 2{'y' * 60}", f'"1{"y" * 60} 3{"y" * 60}"', "ff*"):
                executions_agree(index, documents, asked(WORKFLOWS, "", words, 0, 9, ""))


WAITS = WorkflowDef.from_json({"name": "waits", "tasks": [{"name": "w", "taskReferenceName": "w", "type": "HUMAN"}]})


def ask(url: str, statement: str) -> list[Any]:
    """Have the server carry out a statement in the schema of a store."""
    import psycopg

    place, _, schema = url.partition("?schema=")
    with psycopg.connect(place, autocommit=True, options=f"-c search_path={schema}") as connection:
        answered = connection.execute(statement.encode())
        return answered.fetchall() if answered.description else []


def ids(engine: Engine, query: str = "") -> list[str]:
    """What answers a search."""
    return sorted(row.workflow_id for row in engine.search(query).results)


def test_what_is_asked_most(url: str) -> None:
    """Each kind of question of the benchmark: the hits and the page that looking gives."""
    benchmark = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "searching.py"))
    documents = benchmark["executions"](400)
    index: Any = OwnIndex(url)
    with index.changing() as tx:
        tx.put(documents)
    for query, words, sort in benchmark["QUESTIONS"].values():
        for start, size in ((0, 100), (37, 5)):
            executions_agree(index, documents, asked(WORKFLOWS, query, words, start, size, sort))
    assert answer(documents, asked(WORKFLOWS, "status = FAILED", "berlin express", 0, 9, ""))[0] > 0
    index.close()


def test_it_is_fed_by_what_changes(url: str) -> None:
    """A search finds what was committed before it, by the tables of the index; what is removed leaves them in the same commit."""
    with Engine(url) as engine, Engine(url) as other:
        assert ids(engine) == []
        for name in ("a", "b"):
            engine.start(WAITS, {"city": name * 2_000}, workflow_id=name)
        assert ids(other, f"input.city = '{'a' * 2_000}'") == ["a"]
        engine.signal("a", task="w")
        assert ids(other, "status = COMPLETED") == ["a"]
        assert [row.status for row in other.tasks.search("workflowId = a").results] == ["COMPLETED"]
        engine.admin.archive("a")
        assert ids(other, "archived = true") == ["a"]
        other.terminate("b")
        other.admin.remove("b")
        assert ask(url, "SELECT count(*) FROM search_workflows_texts WHERE words LIKE '%bbb%'") == [(0,)]
        assert ids(other) == ["a"]
        assert engine.admin.check() == []
        ask(url, "UPDATE search_workflows SET status = 'RUNNING'")
        assert [found.law for found in engine.admin.check()] == ["the_index_agrees"]
        other.admin.rebuild_index()
        assert engine.admin.check() == []


def test_a_number_drawn_before_and_committed_later(url: str) -> None:
    """No execution is committed before one with a lower number: whoever begins one waits for the other, and both are indexed.

    A feed finds what is new by its number.
    """
    with Engine(url) as first, Engine(url) as second, Engine(url) as reader, Engine(url, index=MemoryIndex()) as beside:
        first.start(WAITS, workflow_id="before")
        assert ids(reader) == ids(beside) == ["before"]
        late = threading.Thread(target=second.start, args=(WAITS,), kwargs={"workflow_id": "second"})
        with first.transaction():
            first.start(WAITS, workflow_id="first")
            late.start()
            while late.is_alive() and not ask(url, "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"):
                pass
            assert ids(reader) == ids(beside) == ["before"]
        late.join(20)
        assert ask(url, "SELECT workflow_id FROM workflows ORDER BY execution") == [("before",), ("first",), ("second",)]
        assert ids(reader) == ids(beside) == ["before", "first", "second"]


def test_a_store_of_the_first_schema(url: str) -> None:
    """It is given the tables that came later, and is searched by those of the index."""
    with Engine(url) as engine:
        engine.start(WAITS, workflow_id="w")
    first = {name for text in MIGRATIONS[0] for name in re.findall(r"CREATE TABLE (\w+)", text)} | {"schema_version"}
    for (name,) in ask(url, "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"):
        if name not in first:
            ask(url, f"DROP TABLE {name}")
    steps = [text for texts in MIGRATIONS for text in texts]
    for at, text in reversed([*enumerate(steps)][len(MIGRATIONS[0]) :]):
        if (made := re.match(r"CREATE (?:UNIQUE )?INDEX (\w+)", text)) is not None:
            ask(url, f"DROP INDEX IF EXISTS {made[1]}")
        elif (added := re.match(r"ALTER TABLE (\w+) ADD COLUMN (\w+)", text)) is not None and added[1] in first:
            ask(url, f"ALTER TABLE {added[1]} DROP COLUMN {added[2]}")
        elif (dropped := re.match(r"DROP INDEX (\w+)", text)) is not None:
            ask(url, next(one for one in reversed(steps[:at]) if re.match(rf"CREATE (UNIQUE )?INDEX {dropped[1]}\b", one)))
    ask(url, "UPDATE schema_version SET version = 1")
    with Engine(url) as engine:
        assert ids(engine, "workflowType = waits") == ["w"]
        with engine.backend.reading() as view:
            assert view.feeds.feed(FeedKind.OWN) is not None
