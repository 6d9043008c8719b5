"""Whether an index agrees with its store: what it knows of each execution is compared with what is stored or archived.

An index lags behind, and others feed it meanwhile. So what is noted for it is no difference; and the index is asked where it stands
before and after: if it was not fed in between, and the store was read in between, then all that is not noted must be the same on
both sides. Else the execution is looked at again. Nothing is held of one side while the other is read, and one execution at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, groupby
from typing import Final, TypeVar

import attrs

from conductorlite.engine.documents import Library
from conductorlite.engine.feeding import belongs
from conductorlite.engine.paging import pages, stored_pages
from conductorlite.errors import EngineClosed, PayloadUnavailable
from conductorlite.invariants import Finding
from conductorlite.ports import Backend, Change, IndexDAO
from conductorlite.search import Document
from conductorlite.texts import printable

__all__ = ["Comparison"]

_LAW: Final = "the_index_agrees"

#: Ids read at once.
_PAGE: Final = 200

#: How often an execution is looked at while others feed the index; then it is left to the next comparison.
_TRIES: Final = 20

T = TypeVar("T")
Place = tuple[str, int] | None


class _Hidden(Exception):
    """One side cannot be seen; never leaves this file."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(printable(cause, 200))
        self.cause = cause


@attrs.define(kw_only=True, slots=True)
class Comparison:
    """Compares an index with its store. While the index is not complete there is no difference: no search asks it then."""

    backend: Backend
    index: IndexDAO
    library: Library
    #: What kept the index, or a payload, from being read; what was found until then is true.
    error: Exception | None = None

    def findings(self, workflow_id: str | None = None) -> Iterator[Finding]:
        """Every difference, of one execution or of all that are stored, archived, or known to the index; raises StorageErrors."""
        try:
            for one in self._ids() if workflow_id is None else [workflow_id]:
                found = self._differences(one)
                if found is None:
                    return
                yield from (Finding(law=_LAW, workflow_id=one, text=text) for text in found)
        except _Hidden as hidden:
            self.error = hidden.cause
            yield Finding(law=_LAW, workflow_id="", text=f"the index cannot be compared: {hidden}")

    def _ids(self) -> Iterator[str]:
        """The ids of either side, each once."""

        stored = stored_pages(self.backend, lambda view, after, size: view.workflow_ids(None, after, size), "", str, _PAGE)
        archived = stored_pages(self.backend, lambda view, after, size: view.archived_ids(after, size), "", str, _PAGE)
        known = pages(lambda after, size: self._asked(lambda: self.index.known(after, size)), "", str, _PAGE)
        return (one for one, _ in groupby(merge(*map(chain.from_iterable, (stored, archived, known)))))

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except EngineClosed:
            raise
        except Exception as error:
            raise _Hidden(error) from error

    def _differences(self, workflow_id: str) -> list[str] | None:
        """How the index differs on one execution; None when it is not to be compared at all."""
        for _ in range(_TRIES):
            standing = self._asked(self.index.standing)
            known = self._asked(lambda: self.index.documents(workflow_id))
            with self.backend.reading() as view:
                feed = view.feed()
                if feed is None or not feed.complete:
                    return None
                if view.noted([workflow_id]):
                    return []
                followed = belongs(feed, *standing)
                try:
                    # As of one that was removed: all that there is of it.
                    stored = self.library.changed(view, Change(workflow_id=workflow_id, fence=None, removed=True))
                except PayloadUnavailable as error:
                    raise _Hidden(error) from error
            found = _told(stored, known)
            if followed and not found:
                return found
            if self._asked(self.index.standing) == standing:
                return found if followed else None
        return []


def _told(stored: Sequence[Document], known: Sequence[Document]) -> list[str]:
    """The differences, in words."""
    ours: Mapping[Place, Document] = {one.place: one for one in stored}
    theirs: Mapping[Place, Document] = {one.place: one for one in known}
    if not ours:
        return ["the index knows it, and it is neither stored nor archived"] if theirs else []
    if not theirs:
        return ["the index does not know it"]
    found = []
    for place in sorted(ours.keys() | theirs.keys(), key=lambda one: one or ("", -1)):
        name = "" if place is None else f"{place[0]} attempt {place[1]}: "
        one, other = ours.get(place), theirs.get(place)
        if other is None:
            found.append(f"{name}the index does not know it")
        elif one is None:
            found.append(f"{name}the index knows it, and there is no such attempt")
        elif names := _differing(one, other):
            found.append(f"{name}the index has another {', '.join(names)}")
    return found


def _differing(one: Document, other: Document) -> list[str]:
    """Names of the fields, and of what else a document holds, in which two differ."""
    fields = one.fields.keys() | other.fields.keys()
    found = sorted(name for name in fields if one.fields.get(name) != other.fields.get(name))
    found += [name for name in ("input", "output", "words") if getattr(one, name) != getattr(other, name)]
    return found + (["values"] if set(one.values) != set(other.values) else [])
