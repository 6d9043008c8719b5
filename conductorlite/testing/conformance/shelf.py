"""What an index was told, and whether it answers as looking at that does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from conductorlite.ports import IndexDAO
from conductorlite.search import TASKS, WORKFLOWS, Asked, Document, answer, asked
from conductorlite.search.fields import Cell
from conductorlite.search.results import task_summary, workflow_summary

__all__ = ["Shelf", "attempts_agree", "executions_agree"]

#: What attempts inherit, by its name there and in their execution.
_INHERITED: Final = {"workflowType": "workflowType", "workflowPriority": "priority", "correlationId": "correlationId"}


class Shelf:
    """What an index was told, kept as a dict: what it must know."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[str, int] | None], Document] = {}

    def put(self, documents: Iterable[Document]) -> None:
        """Keep documents, in the place of what was known of them."""
        self._known |= {(one.workflow_id, one.place): one for one in documents}

    def remove(self, workflow_ids: Iterable[str]) -> None:
        """Forget executions with all their attempts."""
        gone = set(workflow_ids)
        self._known = {key: one for key, one in self._known.items() if key[0] not in gone}

    def remove_tasks(self, workflow_id: str, places: Iterable[tuple[str, int]]) -> None:
        """Forget attempts of an execution."""
        for place in places:
            self._known.pop((workflow_id, place), None)

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
        """The attempts, with what they inherit of their executions as those are now."""
        above = {one.workflow_id: one.fields for one in self.executions}
        return [_inheriting(one, above.get(one.workflow_id, {})) for (_, place), one in self._known.items() if place is not None]

    def agrees(self, index: IndexDAO) -> None:
        """All that can be asked without a query is answered by what is on the shelf."""
        assert list(index.known("", 100)) == self.ids
        for workflow_id in (*self.ids, "nobody"):
            expected = [one for one in (*self.executions, *self.attempts) if one.workflow_id == workflow_id]
            assert _comparable(index.documents(workflow_id)) == _comparable(expected)
        for query in ("", "workflowId IS NOT NULL"):
            executions_agree(index, self.executions, asked(WORKFLOWS, query, "*", 0, 100, ""))
            attempts_agree(index, self.attempts, asked(TASKS, query, "*", 0, 100, ""))


def _inheriting(attempt: Document, above: Mapping[str, Cell]) -> Document:
    fields = {name: value for name, value in attempt.fields.items() if name not in _INHERITED}
    fields |= {name: above[of] for name, of in _INHERITED.items() if of in above}
    return attrs.evolve(attempt, fields=fields)


def _comparable(documents: Sequence[Document]) -> list[object]:
    """Documents in an order of their own, their values in none."""
    ordered = sorted(documents, key=lambda one: (one.workflow_id, one.place or ("", -1)))
    found: list[object] = []
    for one in ordered:
        assert len(set(one.values)) == len(one.values), f"{one.workflow_id}: a value is there twice"
        found.append((one.workflow_id, one.place, dict(one.fields), set(one.values), one.words, one.input, one.output))
    return found


def _failed(document: Document, name: str) -> tuple[str, ...]:
    return tuple(sorted(str(value) for path, value in document.values if path == name))


def executions_agree(index: IndexDAO, documents: Sequence[Document], wanted: Asked) -> None:
    """The index gives the hits and the page, in order and with all that summaries hold, that looking at the documents gives."""
    total, page = answer(documents, wanted)
    found = index.workflows(wanted)
    names = ("failedReferenceTaskNames", "failedTaskNames")
    expected = [workflow_summary(one.fields, {name: _failed(one, name) for name in names}, one.input, one.output) for one in page]
    assert (found.total_hits, list(found.results)) == (total, expected), wanted


def attempts_agree(index: IndexDAO, documents: Sequence[Document], wanted: Asked) -> None:
    """The same for attempts."""
    total, page = answer(documents, wanted)
    found = index.tasks(wanted)
    expected = [task_summary(one.fields, one.input, one.output) for one in page]
    assert (found.total_hits, list(found.results)) == (total, expected), wanted
