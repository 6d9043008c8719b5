"""What a memory store knows of the payload storage: `ports.PayloadReads` and `ports.PayloadWrites`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from conductorlite.backends.memory.store import Store
from conductorlite.canonical import ExternalPayload
from conductorlite.ports import LoosePayload

__all__ = ["MemoryPayloadReads", "MemoryPayloadWrites"]


class MemoryPayloadReads:
    """The store's account of the payload storage, read."""

    _store: Store

    def externals(self, workflow_id: str, digests: Iterable[str] | None) -> Mapping[str, ExternalPayload]:
        """Documents of an execution that lie in the storage, of these hashes or (None) all, by hash."""
        held = self._store.externals.get(workflow_id, {})
        return {digest: held[digest] for digest in sorted(held if digests is None else digests) if digest in held}

    def external_used(self, key: str) -> bool:
        """Whether any execution refers to an object."""
        return bool(self._store.external_users.get(key))

    def known_externals(self, keys: Iterable[str]) -> frozenset[str]:
        """Those of the keys that an execution refers to, or that are noted as loose."""
        return frozenset(key for key in keys if self.external_used(key) or key in self._store.loose)

    def loose_payloads(self, until: int, after: tuple[str, str], limit: int) -> Sequence[LoosePayload]:
        """A page of what was noted as loose at `until` or before, ascending, greater than `after`."""
        noted = (
            LoosePayload(key=key, workflow_id=workflow_id, at=at)
            for key, users in sorted(self._store.loose.items())
            for workflow_id, at in sorted(users.items())
            if at <= until and (key, workflow_id) > after
        )
        return list(islice(noted, limit))

    def loosened_at(self, key: str) -> int | None:
        """When an object was last noted as loose; None when it is not."""
        return max(self._store.loose.get(key, {}).values(), default=None)


class MemoryPayloadWrites(MemoryPayloadReads):
    """The store's account of the payload storage, written. Tables in tables are replaced, so that a change can be undone."""

    def loosen(self, loose: Sequence[LoosePayload]) -> None:
        """Note objects as loose, in place of what was noted for the same key and execution."""
        for one in loose:
            self._noted(one.key, {**self._store.loose.get(one.key, {}), one.workflow_id: one.at})

    def tighten(self, key: str, until: int) -> None:
        """Forget that an object was noted as loose at `until` or before."""
        self._noted(key, {user: at for user, at in self._store.loose.get(key, {}).items() if at > until})

    def _noted(self, key: str, users: dict[str, int]) -> None:
        if users:
            self._store.put(self._store.loose, key, users)
        else:
            self._store.drop(self._store.loose, key)

    def _keep_externals(self, workflow_id: str, externals: Sequence[ExternalPayload]) -> None:
        store = self._store
        for one in externals:
            held = store.externals.get(workflow_id, {})
            if one.digest not in held:
                store.put(store.externals, workflow_id, {**held, one.digest: one})
                store.put(store.external_users, one.key, store.external_users.get(one.key, frozenset()) | {workflow_id})
            noted = store.loose.get(one.key, {})
            self._noted(one.key, {user: at for user, at in noted.items() if user != workflow_id})

    def _remove_externals(self, workflow_id: str) -> None:
        store = self._store
        for one in (store.drop(store.externals, workflow_id) or {}).values():
            users = store.external_users[one.key] - {workflow_id}
            store.put(store.external_users, one.key, users)
            self._noted(one.key, {workflow_id: 0, **store.loose.get(one.key, {})})
