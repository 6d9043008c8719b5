"""The documents of an engine's executions that are stored outside the store.

They are put there before a commit, fetched between reading and deciding, and swept.

No object is lost and none stays for ever, whichever process dies at whichever moment: before an object is put, a write of its own
notes it as *loose* for its execution, at the engine's time; the commit that refers to it takes the note back. An object is deleted
inside a write transaction, and only when no execution refers to it and no note is younger than the grace time: a process that is
about to put it has noted so before, or will put it afterwards. Removing an execution notes what it referred to as loose, long ago.

An upload is stored by a client, under a path of its own that no one can guess. What is reported by its path is read once, and is
from then on a document like any other: small, it stays in the store, large, it is stored in the payload storage under its hash, and
no one can change it any more. The upload itself is noted as loose when its path is given out, and swept after the grace time,
reported or not: a client whose report was lost can report again until then. Source of the rule: Conductor's external payload
storage.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.decide.changeset.reader import Barriers
from conductorlite.engine.logs import log_store
from conductorlite.engine.residents import Known
from conductorlite.engine.turn_types import ExtraWrite, Start, Taking, stored_pages
from conductorlite.language.haste import Haste
from conductorlite.model.canonical import ExternalPayload, Payload, parse, size_of
from conductorlite.model.decisions import Decision
from conductorlite.model.errors import ConductorliteError, InvalidInput, PayloadLost, PayloadTooLarge, PayloadUnavailable
from conductorlite.model.later import hashlib, pattern
from conductorlite.model.scalars import MAX_SIZE
from conductorlite.model.texts import error_text, printable
from conductorlite.store.ports import Backend, PayloadCodec, PayloadStorage, ReadingTransaction, WritingTransaction
from conductorlite.store.tables import ExternalStorageLocation, OrphanPayload, StoredPayload

if TYPE_CHECKING:
    from conductorlite.store.sealing import Sealing

__all__ = ["PayloadStore", "PayloadSweep", "PayloadsRequired", "TurnMemo", "as_unavailable", "given_path", "location", "uploaded"]

#: Loose payloads, or objects of a listing, that are looked at in one transaction.
_PAGE: Final = 200

#: Objects of ours, and what an interrupted write of one has left; other files there are not ours to delete.
_OURS: Final = pattern(r"([0-9a-f]{2}/[0-9a-f]{64}|(workflow|task)/(input|output)/[0-9a-f]{32})\.json[A-Za-z0-9_.-]*")

#: Folders of Conductor's payload types.
_FOLDERS: Final = {
    "WORKFLOW_INPUT": "workflow/input",
    "WORKFLOW_OUTPUT": "workflow/output",
    "TASK_INPUT": "task/input",
    "TASK_OUTPUT": "task/output",
}

_NAME: Final = pattern(r"[0-9a-f]{32}\.json")


@attrs.frozen(kw_only=True, slots=True)
class PayloadSweep:
    """The result of a sweep: objects deleted, objects found that nothing knew of (they are deleted once they are old enough)."""

    deleted: int = 0
    found: int = 0


class PayloadsRequired(Exception):
    """Internal: a turn needs documents of the payload storage; they are fetched after its transaction, and it begins again."""

    def __init__(self, externals: Iterable[ExternalPayload]) -> None:
        self.externals = tuple(externals)
        super().__init__(self.externals)


#: What most turns keep of documents.
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class TurnMemo:
    """The state that a turn keeps however often it begins again.

    It is what was asked for beside its events (see `Turns.run_turn`), documents of the payload storage, why others cannot be
    read, by hash, and what scripts have answered.

    `put` are keys of what it has put there already: a turn that is fenced out need not put it again.
    """

    __slots__ = (
        *("answers", "deaths", "extra_write", "known", "lost", "mark", "payloads", "put", "readings", "rehearsals", "started"),
        *("taking", "version", "resident", "unoffered", "token", "haste"),
    )

    def __init__(
        self,
        started: Start | None = None,
        extra_write: ExtraWrite | None = None,
        taking: Taking | None = None,
        token: object | None = None,
    ) -> None:
        self.started, self.extra_write, self.taking = started, extra_write, taking
        #: What the decision was made on; whether those were resident rows, and of which version of the store.
        self.known: Known | None = None
        self.resident = False
        self.version = 0
        #: Of which version of the store it was taken as known that a queue offers nothing; None: of none.
        self.unoffered: int | None = None
        #: Of the lock under which the turn is taken.
        self.token = token
        #: Mostly none: what adds to them makes its own.
        self.payloads: Mapping[str, Payload] = _NONE
        self.lost: Mapping[str, PayloadLost] = _NONE
        self.put: Set[str] = frozenset()
        #: By seed: values and instant, what came of them, and what was printed. Kept when a turn is rehearsed, for the instant
        #: at which it was.
        self.answers: dict[str, tuple[Mapping[str, Any], int, Any, Sequence[str]]] | None = None
        #: What the clocks read then.
        self.readings: tuple[int, tuple[str, int] | None] | None = None
        self.rehearsals = 0
        #: The mark of the turn while it is under way, and how many processes have died in it.
        self.mark: str | None = None
        self.deaths = 0
        #: Whether foreign code is waited for only shortly.
        self.haste: Haste | None = None


class PayloadStore:
    """The payload storage of one engine; without a storage everything stays in the store."""

    def __init__(self, backend: Backend, storage: PayloadStorage | None, codec: PayloadCodec | None, barriers: Barriers) -> None:
        self.backend = backend
        self.storage = storage
        self.codec = codec
        self.barriers = barriers
        #: A store that is sealed names hashes of documents.
        self._sealing: Sealing | None = getattr(backend, "sealing", None)

    # ------------------------------------------------------------------ out

    def heavy(self, decision: Decision) -> list[Payload]:
        """The payloads that a decision sets and that belong into the storage."""
        return self.barriers.past_soft(decision) if self.storage is not None and decision.texts else []

    def put(
        self, decision: Decision, memo: TurnMemo, now: int, inside: WritingTransaction | None = None
    ) -> tuple[Decision, dict[str, Payload]]:
        """The decision with what is past its soft barrier put into the storage, and the payloads that were, by key.

        `inside` is the write transaction of a turn that has one open already.
        """
        heavy = self.heavy(decision)
        if self.storage is None or not heavy:
            return decision, {}
        workflow_id = decision.workflow.workflow_id
        placed = {text.digest: self._place(text) for text in heavy}
        known = self._known(workflow_id, placed, inside)
        new = [text for text in heavy if text.digest not in known]
        self._loosen([OrphanPayload(key=placed[text.digest].key, workflow_id=workflow_id, at=now) for text in new], inside)
        memo.put = put = set(memo.put)
        for text in new:
            key = placed[text.digest].key
            if key not in put:
                data = text.whole().encode()
                with as_unavailable(f"payload {key} could not be stored"):
                    self.storage.put(key, data if self.codec is None else self.codec.encode(data))
                put.add(key)
        rest = tuple(text for text in decision.texts if text.digest not in placed)
        externals = tuple(one for digest, one in placed.items() if digest not in known)
        shown = {placed[text.digest].key: Payload(text.text, external=placed[text.digest]) for text in new}
        return attrs.evolve(decision, texts=rest, externals=externals), shown

    def _known(self, workflow_id: str, digests: Iterable[str], inside: WritingTransaction | None) -> frozenset[str]:
        if inside is not None:
            return frozenset(inside.payloads.externals(workflow_id, digests))
        with self.backend.reading() as view:
            return frozenset(view.payloads.externals(workflow_id, digests))

    def _loosen(self, loose: list[OrphanPayload], inside: WritingTransaction | None) -> None:
        if inside is not None:
            inside.payloads.mark_orphan(loose)
        elif loose:
            with self.backend.writing() as tx:
                tx.payloads.mark_orphan(loose)

    def _place(self, payload: Payload) -> ExternalPayload:
        return ExternalPayload(digest=payload.digest, size=size_of(payload.whole()), key=self._key(payload.digest))

    def _key(self, hashed: str) -> str:
        suffix = "" if self.codec is None else f".{self.codec.key_id}"
        name = hashed if self._sealing is None else self._sealing.name(hashed)[1:]
        return f"{name[:2]}/{name}.json{suffix}"

    def is_fresh(self, external: ExternalPayload) -> bool:
        """Return True for a document that is stored as it would be put now, or cannot be put again."""
        return self.storage is None or external.key == self._key(external.digest)

    def put_again(self, external: ExternalPayload, workflow_id: str, now: int) -> str:
        """Put a document as it would be put now, beside what is there; returns its key. Raises PayloadLost, PayloadUnavailable."""
        storage, key = _storage(self), self._key(external.digest)
        data = self.text(external).encode()
        self._loosen([OrphanPayload(key=key, workflow_id=workflow_id, at=now)], None)
        with as_unavailable(f"payload {key} could not be stored"):
            storage.put(key, data if self.codec is None else self.codec.encode(data))
        return key

    # ------------------------------------------------------------------ back

    def lazy(self, external: ExternalPayload) -> Payload:
        """A payload whose text is fetched when its document is first looked at."""
        return Payload(None, external=external, fetch=self.text)

    def text(self, external: ExternalPayload) -> str:
        """The text of a document; raises PayloadLost when it is missing or damaged, PayloadUnavailable when that is not known."""
        if self.storage is None:
            raise PayloadUnavailable(f"payload {external.key} is stored in a payload storage, and the engine has none")
        with as_unavailable(f"payload {external.key} could not be fetched"):
            data = self.storage.get(external.key)
        data = self._decoded(external.key, data)
        if hashlib.sha256(data).hexdigest() != external.digest:
            raise PayloadLost(external.key, f"is damaged: its {len(data)} bytes are not the {external.size} that were put there")
        return data.decode()

    def _decoded(self, key: str, data: bytes) -> bytes:
        key_id = key.partition(".json.")[2]
        if not key_id:
            return data
        if self.codec is None:
            raise PayloadUnavailable(f"payload {key} was encoded by {key_id!r}, and the engine has no payload codec")
        try:
            return self.codec.decode(data, key_id)
        except ConductorliteError:
            raise
        except Exception as error:
            raise PayloadLost(key, f"cannot be decoded: {error_text(error)}") from error

    def fetch(self, memo: TurnMemo, externals: Iterable[ExternalPayload]) -> None:
        """Have documents at hand, or why they cannot be read; raises PayloadUnavailable."""
        memo.payloads, memo.lost = payloads, lost = {**memo.payloads}, {**memo.lost}
        for external in externals:
            try:
                payloads[external.digest] = Payload(self.text(external), external=external)
            except PayloadLost as error:
                lost[external.digest] = error

    # ------------------------------------------------------------------ away

    def sweep(self, now: int, grace_ms: int) -> PayloadSweep:
        """Delete objects that nothing refers to and that were last put, or noticed, `grace_ms` ago or before."""
        if self.storage is None:
            return PayloadSweep()
        found = 0
        for page in _pages(self._ours(self.storage)):
            with self.backend.reading() as view:
                strange = {one.key for one in page} - view.payloads.known_externals(one.key for one in page)
            if strange:
                with self.backend.writing() as tx:
                    tx.payloads.mark_orphan([OrphanPayload(key=key, workflow_id="", at=now) for key in sorted(strange)])
                found += len(strange)
        return PayloadSweep(deleted=self._delete_loose(self.storage, now - grace_ms), found=found)

    def _ours(self, storage: PayloadStorage) -> Iterator[StoredPayload]:
        return (one for one in storage.list() if _OURS.fullmatch(one.key))

    def _delete_loose(self, storage: PayloadStorage, until: int) -> int:
        found = stored_pages(
            self.backend,
            lambda view, after, size: view.payloads.loose_payloads(until, after, size),
            ("", ""),
            lambda one: (one.key, one.workflow_id),
            _PAGE,
        )
        return sum(self._delete(storage, key, until) for page in found for key in dict.fromkeys(one.key for one in page))

    def _delete(self, storage: PayloadStorage, key: str, until: int) -> bool:
        """Delete one object, unless it is in use or has been noted since; no turn commits a reference to it meanwhile."""
        with self.backend.writing() as tx:
            used, at = tx.payloads.external_used(key), tx.payloads.loosened_at(key)
            wanted = used or (at is not None and at > until)
            if not wanted and at is not None:
                with as_unavailable(f"payload {key} could not be deleted"):
                    storage.delete(key)
            tx.payloads.unmark_orphan(key, until)
            return not wanted and at is not None

    def left_by(self, view: ReadingTransaction, workflow_id: str) -> tuple[str, ...]:
        """Keys of what an execution refers to that is about to be removed."""
        return () if self.storage is None else tuple(one.key for one in view.payloads.externals(workflow_id, None).values())

    def delete_left(self, keys: Iterable[str]) -> None:
        """Delete what only a removed execution referred to. What the storage does not let go now, the next sweep deletes."""
        if self.storage is None:
            return
        try:
            for key in dict.fromkeys(keys):
                self._delete(self.storage, key, 0)
        except PayloadUnavailable as error:
            log_store("documents of a removed execution are deleted by the next sweep", error)


@contextmanager
def as_unavailable(what: str) -> Iterator[None]:
    """Whatever a storage or a codec raises that no error of ours names: it may work another time."""
    try:
        yield
    except ConductorliteError:
        raise
    except Exception as error:
        raise PayloadUnavailable(f"{what}: {error_text(error)}") from error


def _pages(found: Iterator[StoredPayload]) -> Iterator[list[StoredPayload]]:
    while page := list(islice(found, _PAGE)):
        yield page


# ---------------------------------------------------------------------- put there by clients


def location(payload_store: PayloadStore, path: str, operation: str, payload_type: str | None, now: int) -> ExternalStorageLocation:
    """Return the location from which a document can be read, or to which it can be uploaded; see `Payloads.location`."""
    storage = _storage(payload_store)
    if payload_type is not None and payload_type not in _FOLDERS:
        raise InvalidInput(f"payload type {printable(payload_type, 80)!r} is none of {', '.join(_FOLDERS)}")
    if operation != "WRITE":
        return storage.location(operation, path)
    if payload_type is None:
        raise InvalidInput(f"to WRITE a document say its payload type: {', '.join(_FOLDERS)}")
    # No one can guess it: a client that knows the path of an upload can report it.
    key = path or f"{_FOLDERS[payload_type]}/{os.urandom(16).hex()}.json"
    if not _is_upload(key, payload_type):
        raise InvalidInput(
            f"{printable(path, 80)!r} is no path of an upload ({payload_type}); with an empty path you are given one"
        )
    found = storage.location(operation, key)
    with payload_store.backend.writing() as tx:
        tx.payloads.mark_orphan([OrphanPayload(key=key, workflow_id="", at=now)])
    return found


def given_path(path: object) -> str | None:
    """The path in a report or a start, None for a blank one; raises InvalidInput when it is no text."""
    if path is None:
        return None
    if type(path) is not str:
        raise InvalidInput(f"the path of a payload is a text, not {printable(path, 80)}")
    return path.strip() or None


def uploaded(payload_store: PayloadStore, path: str, payload_type: str) -> dict[str, Any]:
    """The document that a client has put where a location said, for a start or report of that type.

    Raises InvalidInput when the path is none that is given out for the type, when nothing is stored there, or no JSON object,
    PayloadTooLarge when it is past what any barrier lets pass (`MAX_SIZE` bytes), and PayloadUnavailable.
    """
    if not _is_upload(path, payload_type):
        raise InvalidInput(
            f"{printable(path, 80)!r} is no path of an upload ({payload_type}): `engine.payloads.location` gives one"
        )
    storage = _storage(payload_store)
    try:
        with as_unavailable(f"upload {path} could not be fetched"):
            size = storage.size(path)
            data = b"" if size > MAX_SIZE else storage.get(path)
    except PayloadLost as lost:
        raise InvalidInput(f"nothing was uploaded: {lost}") from None
    if max(size, len(data)) > MAX_SIZE:
        limit = MAX_SIZE // 1024
        raise PayloadTooLarge(
            f"the upload {path} has {max(size, len(data))} bytes, more than the {MAX_SIZE} bytes ({limit} KB) that are read"
        )
    document = parse(data, where=f"upload {path}")
    if not isinstance(document, dict):
        raise InvalidInput(f"upload {path}: it must be a JSON object, not {type(document).__name__}")
    return document


def _is_upload(path: object, payload_type: str) -> bool:
    folder, _, name = path.rpartition("/") if type(path) is str else ("", "", "")
    return folder == _FOLDERS[payload_type] and _NAME.fullmatch(name) is not None


def _storage(payload_store: PayloadStore) -> PayloadStorage:
    if payload_store.storage is None:
        raise PayloadUnavailable("this engine has no payload storage")
    return payload_store.storage
