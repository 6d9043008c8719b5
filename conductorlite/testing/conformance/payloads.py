"""The part of the suite about external payloads; and the contract of a payload storage as tests of its own."""

from __future__ import annotations

import threading
from contextlib import suppress

import attrs
import pytest

from conductorlite.model.canonical import ExternalPayload
from conductorlite.model.decisions import Decision
from conductorlite.model.errors import FencedOut, InvalidInput, PayloadLost
from conductorlite.store.ports import Backend, PayloadStorage
from conductorlite.store.tables import OrphanPayload
from conductorlite.testing.conformance.samples import large, settle, started

__all__ = ["PayloadConformance", "PayloadStorageConformance"]

_KEY = f"ab/{'ab' * 32}.json"


def _external(event: str = "a") -> ExternalPayload:
    return ExternalPayload(digest=event * 64, size=5000, key=f"{event * 2}/{event * 64}.json")


def _refer(backend: Backend, workflow_id: str, *externals: ExternalPayload) -> None:
    row = started(backend, workflow_id)
    with backend.writing() as tx:
        tx.decisions.apply(Decision(workflow=row, externals=externals))


class PayloadConformance:
    """Tests of what a store knows of the payload storage."""

    def test_externals_are_the_executions_own(self, backend: Backend) -> None:
        """A decision's external payloads are found by execution and hash; a second one of that hash changes nothing."""
        one, two = _external("a"), _external("b")
        _refer(backend, "w", one, two)
        with backend.writing() as tx:
            row = tx.executions.workflow("w")
            assert row is not None
            tx.decisions.apply(Decision(workflow=row, externals=(attrs.evolve(one, key="cc/other.json"),)))
        with backend.reading() as view:
            assert dict(view.payloads.externals("w", None)) == {one.digest: one, two.digest: two}
            assert dict(view.payloads.externals("w", [two.digest, "0" * 64])) == {two.digest: two}
            assert dict(view.payloads.externals("w", [])) == {}
            assert dict(view.payloads.externals("other", None)) == {}
            assert view.executions.payloads("w", {one.digest}) == {}
            assert view.payloads.external_used(one.key)
            assert not view.payloads.external_used("cc/other.json")

    def test_texts_and_externals_stand_beside_each_other(self, backend: Backend) -> None:
        """Texts stored in the store are found there, whatever is stored outside."""
        text, one = large(), _external()
        row = started(backend)
        with backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=attrs.evolve(row, input=text), texts=(text,), externals=(one,)))
        with backend.reading() as view:
            found = view.executions.payloads("w", {text.digest, one.digest})
            assert {digest: payload.text for digest, payload in found.items()} == {text.digest: text.text}

    def test_loose_payloads(self, backend: Backend) -> None:
        """Loose payloads are found page by page, oldest or not, as of an instant; noting one again dates it again."""
        noted = [
            OrphanPayload(key=key, workflow_id=owner, at=at) for key, owner, at in (("b", "w", 5), ("a", "v", 3), ("a", "w", 9))
        ]
        with backend.writing() as tx:
            tx.payloads.mark_orphan(noted)
            assert [(one.key, one.workflow_id) for one in tx.payloads.loose_payloads(9, ("", ""), 9)] == [
                ("a", "v"),
                ("a", "w"),
                ("b", "w"),
            ]
            assert [(one.key, one.at) for one in tx.payloads.loose_payloads(5, ("", ""), 9)] == [("a", 3), ("b", 5)]
            assert [one.key for one in tx.payloads.loose_payloads(9, ("a", "v"), 1)] == ["a"]
            assert tx.payloads.loose_payloads(9, ("b", "w"), 9) == []
            assert (tx.payloads.loosened_at("a"), tx.payloads.loosened_at("b"), tx.payloads.loosened_at("c")) == (9, 5, None)
            tx.payloads.mark_orphan([OrphanPayload(key="b", workflow_id="w", at=7)])
            assert tx.payloads.loosened_at("b") == 7
            assert tx.payloads.known_externals(["a", "b", "c"]) == {"a", "b"}
            tx.payloads.unmark_orphan("a", 3)
            assert tx.payloads.loosened_at("a") == 9
            assert [one.workflow_id for one in tx.payloads.loose_payloads(9, ("", ""), 9)] == ["w", "w"]
            tx.payloads.unmark_orphan("a", 9)
            tx.payloads.unmark_orphan("c", 9)
            assert tx.payloads.known_externals(["a", "b", "c"]) == {"b"}

    def test_a_commit_takes_its_own_note_back(self, backend: Backend) -> None:
        """A decision with an external payload makes it loose no longer for its own execution; for others it stays noted."""
        one = _external()
        with backend.writing() as tx:
            tx.payloads.mark_orphan([OrphanPayload(key=one.key, workflow_id=owner, at=4) for owner in ("w", "v")])
        _refer(backend, "w", one)
        with backend.reading() as view:
            assert view.payloads.loose_payloads(9, ("", ""), 9) == [OrphanPayload(key=one.key, workflow_id="v", at=4)]

    def test_what_a_removed_execution_leaves_is_loose(self, backend: Backend) -> None:
        """Removal makes loose, dated 0, what the execution referred to; others that refer to it still do, notes stay."""
        one, two = _external("a"), _external("b")
        _refer(backend, "w", one, two)
        _refer(backend, "v", two)
        with backend.writing() as tx:
            tx.payloads.mark_orphan([OrphanPayload(key=two.key, workflow_id="w", at=8)])
            tx.executions.remove("w")
            assert dict(tx.payloads.externals("w", None)) == {}
            assert (tx.payloads.external_used(one.key), tx.payloads.external_used(two.key)) == (False, True)
            assert (tx.payloads.loosened_at(one.key), tx.payloads.loosened_at(two.key)) == (0, 8)

    def test_externals_are_undone_with_their_decision(self, backend: Backend) -> None:
        """A decision that is fenced out, and a transaction that fails, leave no trace."""
        one = _external()
        row = started(backend)
        with pytest.raises(FencedOut), backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=attrs.evolve(row, fence=row.fence + 5), externals=(one,)))
        with suppress(ZeroDivisionError), backend.writing() as tx:
            tx.payloads.mark_orphan([OrphanPayload(key=one.key, workflow_id="w", at=4)])
            tx.decisions.apply(Decision(workflow=row, externals=(one,)))
            tx.payloads.unmark_orphan(one.key, 9)
            raise ZeroDivisionError
        with backend.reading() as view:
            assert dict(view.payloads.externals("w", None)) == {}
            assert not view.payloads.external_used(one.key)
            assert view.payloads.loosened_at(one.key) is None
        settle(backend)


class PayloadStorageConformance:
    """Tests of a payload storage. Subclass it and add a fixture `storage` that opens an empty one."""

    def test_put_get_delete(self, storage: PayloadStorage) -> None:
        """Bytes come back as they were put, the last ones under a key; what is not there is lost, and is deleted in peace."""
        for ask in (storage.get, storage.size):
            with pytest.raises(PayloadLost, match=_KEY) as lost:
                ask(_KEY)
            assert lost.value.key == _KEY
        storage.delete(_KEY)
        for data in (b"{}", bytes(range(256)) * 5000, b""):
            storage.put(_KEY, data)
            assert (storage.get(_KEY), storage.size(_KEY)) == (data, len(data))
        storage.delete(_KEY)
        storage.delete(_KEY)
        with pytest.raises(PayloadLost):
            storage.get(_KEY)

    def test_list(self, storage: PayloadStorage) -> None:
        """Every object is listed with its size, as soon as it is there and as long as it is."""
        assert list(storage.list()) == []
        keys = [f"{number:02x}/{number}.json" for number in range(5)]
        for number, key in enumerate(keys):
            storage.put(key, b"x" * number)
        assert sorted((one.key, one.size) for one in storage.list()) == [(key, number) for number, key in enumerate(keys)]
        storage.delete(keys[0])
        storage.put(keys[1], b"longer")
        assert sorted((one.key, one.size) for one in storage.list())[0] == (keys[1], 6)

    @pytest.mark.parametrize("key", ["../out", "/abs", "a/../../b", "", "a//b", "a/", ".hidden", "a\\b", "x" * 300])
    def test_keys_stay_inside(self, storage: PayloadStorage, key: str) -> None:
        """A key that would lead out of the storage is refused."""
        with pytest.raises(InvalidInput):
            storage.put(key, b"x")
        with pytest.raises(InvalidInput):
            storage.location("READ", key)
        with pytest.raises((InvalidInput, PayloadLost)):
            storage.size(key)

    def test_location(self, storage: PayloadStorage) -> None:
        """A location names the object; operations are READ and WRITE."""
        for operation in ("READ", "WRITE"):
            found = storage.location(operation, _KEY)
            assert found.path == _KEY
            assert _KEY in found.uri
        with pytest.raises(InvalidInput, match="DELETE"):
            storage.location("DELETE", _KEY)

    def test_threads_put_at_once(self, storage: PayloadStorage) -> None:
        """Several threads put the same and other objects at once; each object is one of those that were put, whole."""
        problems: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for _ in range(5):
                    storage.put(_KEY, bytes([number]) * 20_000)
                    storage.put(f"00/{number}.json", bytes([number]))
                    assert len(set(storage.get(_KEY))) == 1
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
        assert len(list(storage.list())) == 5
