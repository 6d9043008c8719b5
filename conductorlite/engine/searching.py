"""Searching: by the index when it knows everything, else by looking at what is stored."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs

from conductorlite.engine.comparing import Comparison
from conductorlite.engine.documents import Library
from conductorlite.engine.feeding import Feeder, IndexHealth
from conductorlite.engine.queries import Queries
from conductorlite.errors import EngineClosed, InvalidInput, StorageCorrupt
from conductorlite.invariants import Finding
from conductorlite.ports import Backend, IndexDAO
from conductorlite.search import TASKS, WORKFLOWS, Asked, Document, SearchResult, TaskSummary, WorkflowSummary, asked, page_of
from conductorlite.search.results import task_summary, workflow_summary

__all__ = ["Searching", "Where", "index_of"]

#: What `Engine(index=…)` takes.
Where = str | os.PathLike[str] | bool | IndexDAO | None

#: Meals an index is given before it answers.
_CATCHING_UP: Final = 5

#: Differences that are noted in one commit.
_MENDED: Final = 200

S = TypeVar("S", WorkflowSummary, TaskSummary)


def index_of(where: Where, backend: Backend) -> IndexDAO | None:
    """The index of a store: none, one in a file, one of the caller's, or (True) in the file that goes with the store."""
    if where is None or (isinstance(where, bool) and not where):
        return None
    if not isinstance(where, bool | str | os.PathLike):
        return where
    # Imported on use: who has no index never pays for sqlite3.
    from conductorlite.backends.index import SQLiteIndex

    if not isinstance(where, bool):
        return SQLiteIndex(where)
    store = getattr(backend, "path", None)
    return SQLiteIndex(None if store is None else Path(store).with_suffix(f".index{Path(store).suffix}"))


class Searching(Queries):
    """Verbs that search."""

    def __init__(self, *arguments: Any, index: Where = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._library = Library(self.turns)
        found = index_of(index, self.backend)
        #: What feeds the index, if there is one.
        self.feeder = None if found is None else Feeder(self.backend, self.clock, found, self._library.changed)

    def search(
        self, query: str = "", *, free_text: str = "*", start: int = 0, size: int = 100, sort: str = ""
    ) -> SearchResult[WorkflowSummary]:
        """Executions that answer a query and hold the words of a free text, archived ones included.

        `query` is Conductor's: `workflowType = 'order' AND (status IN (FAILED, TIMED_OUT) OR endTime > '2030-01-01')`, with =, !=,
        <, <=, >, >=, IN, BETWEEN, STARTS_WITH, IS NULL, NOT, and paths such as `input.order.id = 7`. `free_text` is words,
        `"phrases"` and `beginnings*`, all of which must be there. `sort` is `field:ASC|field:DESC`, by default the newest first.
        A page begins at `start` and holds up to `size`, at most 5,000. What can be asked: the how-to Search executions.

        With an index it answers; it is told of changes first, up to about a thousand, and `behind` says how many are left. Without
        one, and while it is built or does not work, every execution is looked at: the same answer, in time that grows with the
        store. Raises InvalidQuery, and InvalidInput for what is no text and for a page out of range.
        """
        return self._workflows(asked(WORKFLOWS, query, free_text, start, size, sort))

    def search_tasks(
        self, query: str = "", *, free_text: str = "*", start: int = 0, size: int = 100, sort: str = ""
    ) -> SearchResult[TaskSummary]:
        """Attempts that answer a query, of all executions: as `search`, with the fields of tasks; raises as it does."""
        wanted = asked(TASKS, query, free_text, start, size, sort)
        return self._found(wanted, lambda index: index.tasks(wanted), self._looked_at_tasks)

    def search_by_tasks(
        self, query: str = "", *, free_text: str = "*", start: int = 0, size: int = 100, sort: str = ""
    ) -> SearchResult[WorkflowSummary]:
        """Executions of which some attempt answers a query on the fields of tasks; `sort` is by fields of executions.

        Raises as `search` does.
        """
        within = asked(TASKS, query, free_text, 0, 0, "")
        return self._workflows(attrs.evolve(asked(WORKFLOWS, "", "*", start, size, sort), with_task=within))

    def _workflows(self, wanted: Asked) -> SearchResult[WorkflowSummary]:
        return self._found(wanted, lambda index: index.workflows(wanted), self._looked_at)

    def _found(
        self,
        wanted: Asked,
        ask: Callable[[IndexDAO], SearchResult[S]],
        look: Callable[[Asked], SearchResult[S]],
    ) -> SearchResult[S]:
        feeder = self.feeder
        if feeder is None:
            return look(wanted)
        for _ in range(_CATCHING_UP):
            if not feeder.feed():
                break
        try:
            if feeder.answers():
                behind = feeder.behind()
                return attrs.evolve(ask(feeder.index), behind=behind)
        except EngineClosed:
            raise
        except Exception as error:  # whatever it is, the store can still be asked
            feeder.doubt(error)
        return look(wanted)

    def _looked_at(self, wanted: Asked) -> SearchResult[WorkflowSummary]:
        """Every execution, looked at."""
        documents = self._library.all(self.backend, tasks=False, wanted=wanted)
        if wanted.with_task is not None:
            ids = {document.workflow_id for document in self._library.all(self.backend, tasks=True, wanted=wanted.with_task)}
            documents = (document for document in documents if document.workflow_id in ids)
        total, found = page_of(documents, wanted)
        return SearchResult(total_hits=total, results=tuple(_workflow(document) for document in found))

    def _looked_at_tasks(self, wanted: Asked) -> SearchResult[TaskSummary]:
        total, found = page_of(self._library.all(self.backend, tasks=True, wanted=wanted), wanted)
        results = tuple(task_summary(document.fields, document.input, document.output) for document in found)
        return SearchResult(total_hits=total, results=results)

    def relay(self, meals: int = 1_000) -> int:
        """Tell the index what has changed, up to so many meals of about 200 changes each; returns how many there were.

        The driver does this when nothing else is ready, so a program that is driven need not. Also tries an index that has failed,
        at once. Nothing is raised for what is wrong with the index: see `index_health`. Without an index nothing happens.
        """
        if meals < 1:
            raise InvalidInput(f"meals {meals} is below 1")
        told = 0
        while self.feeder is not None and told < meals and self.feeder.feed(patient=False):
            told += 1
        return told

    def index_health(self) -> IndexHealth | None:
        """How the index is: complete, how far behind, what went wrong; None without an index."""
        return None if self.feeder is None else self.feeder.health()

    def rebuild_index(self) -> None:
        """Empty the index and tell it everything that is stored and archived anew; raises what is wrong with it.

        Returns when it is done. Until then searches look at the store. Raises InvalidInput without an index, and StorageErrors.
        """
        if self.feeder is None:
            raise InvalidInput("there is no index: Engine(…, index=True) has one")
        self.feeder.rebuild()
        while self.feeder.feed(patient=False):
            pass
        self.feeder.check()

    def forget_index(self) -> None:
        """Note no more what an index would have to be told; for a store that is used without one from now on.

        Without an index the store goes on noting, one row for each execution and attempt that changes. The index's file may be
        deleted afterwards; an engine that has an index again builds it anew.
        """
        with self.backend.writing() as tx:
            tx.end_feed()

    def _comparison(self, index: IndexDAO) -> Comparison:
        return Comparison(backend=self.backend, index=index, library=self._library)

    def _index_compared(self, workflow_id: str | None) -> Iterable[Finding]:
        return () if self.feeder is None else self._comparison(self.feeder.index).findings(workflow_id)

    def _index_mended(self, workflow_id: str | None) -> list[Finding]:
        """Have the index told anew of each execution on which it differs, once it was told what was noted; says of which."""
        feeder = self.feeder
        if feeder is None:
            return []
        self.relay()
        done: list[Finding] = []
        comparison = self._comparison(feeder.index)
        differing = (found for found in comparison.findings(workflow_id) if comparison.error is None)
        while page := list(islice(differing, _MENDED)):
            with self.backend.writing() as tx:
                tx.note_again(sorted({found.workflow_id for found in page}))
            done += [attrs.evolve(found, text=f"{found.text}; the index is told anew") for found in page]
        if isinstance(comparison.error, StorageCorrupt):
            feeder.doubt(comparison.error)
        trouble = feeder.trouble
        self.relay()
        if isinstance(trouble, StorageCorrupt) and feeder.trouble is None:
            text = f"the index was set aside and is made anew; it could not be read: {trouble}"
            done.append(Finding(law="the_index_agrees", workflow_id="", text=text))
        return done

    def close(self) -> None:
        """Release the index and the backend; idempotent."""
        if self.feeder is not None:
            self.feeder.index.close()
        super().close()


def _workflow(document: Document) -> WorkflowSummary:
    names = ("failedReferenceTaskNames", "failedTaskNames")
    failed = {name: _texts(document, name) for name in names}
    return workflow_summary(document.fields, failed, document.input, document.output)


def _texts(document: Document, name: str) -> tuple[str, ...]:
    texts: Sequence[str] = [str(value) for path, value in document.values if path == name]
    return tuple(sorted(texts))
