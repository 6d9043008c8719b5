"""A store sealed again by the present key: rows, archived executions, documents of the payload storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from conductorlite.engine.config import Part
from conductorlite.engine.turn_types import stored_pages
from conductorlite.model.canonical import ExternalPayload
from conductorlite.model.errors import InvalidInput
from conductorlite.store.ports import ReadingTransaction
from conductorlite.store.sealing import SealedBackend, retire
from conductorlite.store.sqlite.resealing import Place, documents_page, move_document, reseal_page
from conductorlite.store.tables import OrphanPayload

__all__ = ["Resealing"]


class Resealing(Part):
    """Seals a store again; see `Admin.reseal`."""

    def run(self, limit: int, progress: Callable[[int], None] | None) -> tuple[str, ...]:
        """Seal everything again, in commits of so many rows."""
        backend = self._backend
        if not isinstance(backend, SealedBackend):
            raise InvalidInput("there is no payload codec to seal with: open the store with EngineConfig(payload_codec=…)")
        if limit < 1:
            raise InvalidInput(f"limit {limit} is below 1")
        done = 0
        for changed in self._parts(backend, limit):
            done += changed
            if progress is not None and changed:
                progress(done)
        return tuple(retire(backend))

    def _parts(self, backend: SealedBackend, limit: int) -> Iterator[int]:
        place: Place | None = None
        while True:
            with backend.inner.writing() as tx:
                place, changed = reseal_page(_session(tx), backend.rows, place, limit)
            yield changed
            if place is None:
                break
        yield from self._archived(backend, limit)
        yield from self._documents(backend, limit)

    def _archived(self, backend: SealedBackend, limit: int) -> Iterator[int]:
        def page(view: ReadingTransaction, after: str, size: int) -> Sequence[str]:
            return view.archive.archived_ids(after, size)

        for ids in stored_pages(backend.inner, page, "", str, min(limit, _ARCHIVED)):
            with backend.inner.writing() as tx:
                found = [one for workflow_id in ids if (one := tx.archive.archived(workflow_id)) is not None]
                stale = [one for one in found if not backend.sealing.is_fresh_data(one.document)]
                for one in stale:
                    tx.archive.put_archived(backend.rows.again(one))
            yield len(stale)

    def _documents(self, backend: SealedBackend, limit: int) -> Iterator[int]:
        """Documents of the payload storage, each put again, then referred to, before the old one is deleted."""
        payloads, after = self._turns.lookups.payload_store, ("", "")
        while True:
            with backend.inner.reading() as view:
                found = documents_page(_session(view), after, limit)
            for workflow_id, named, size, key in found:
                after = (workflow_id, named)
                external = ExternalPayload(digest=backend.sealing.hash_of(named), size=size, key=key)
                if payloads.is_fresh(external):
                    continue
                new = payloads.put_again(external, workflow_id, self._clock.now())
                with backend.inner.writing() as tx:
                    tx.payloads.mark_orphan([OrphanPayload(key=key, workflow_id=workflow_id, at=0)])
                    move_document(_session(tx), workflow_id, named, key, new)
                payloads.delete_left([key])
                yield 1
            if len(found) < limit:
                return


#: Archived executions in one commit: each may be large.
_ARCHIVED = 50


def _session(tx: Any) -> Any:
    session = getattr(tx, "session", None)
    if session is None:
        raise InvalidInput("sealed again are stores in SQLite and in PostgreSQL")
    return session
