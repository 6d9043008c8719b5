"""What else is asked of a store: what lies outside it, what has changed, and whose work is whose.

Documents that are too large for the store: the storage they lie in, and the store's account of what lies there.

What has changed since it was indexed last: found by fences, so that turns do nothing for it.

Whose executions are whose, where engines keep what they have started to themselves.

Who has tasks of the store in hand: open engines, and how it is known that one is no more.

When the store was driven: what the timeouts that nobody wrote count.

Outgoing parts of stores that cannot commit them with the rest.

How much a store holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Protocol

import attrs

from conductorlite.model.canonical import ExternalPayload
from conductorlite.model.decisions import Outgoing
from conductorlite.model.executions import Task

__all__ = [
    "Change",
    "ChangeReads",
    "ChangeWrites",
    "DrivenReads",
    "DrivenWrites",
    "ExternalStorageLocation",
    "Feed",
    "FeedKind",
    "HolderReads",
    "HolderRow",
    "HolderWrites",
    "Life",
    "LoosePayload",
    "OwnerReads",
    "OwnerRow",
    "OwnerWrites",
    "PayloadCodec",
    "PayloadReads",
    "PayloadStorage",
    "PayloadWrites",
    "Presence",
    "RelayItem",
    "RelayReads",
    "RelayWrites",
    "Size",
    "Sizes",
    "StoredPayload",
    "UpkeepReads",
]


@attrs.frozen(kw_only=True, slots=True)
class StoredPayload:
    """One object of a storage; `size` is what it takes there, in bytes."""

    key: str
    size: int


@attrs.frozen(kw_only=True, slots=True)
class ExternalStorageLocation:
    """Where an object can be read or written directly: `uri`, signed where the storage can; `path`, its key. Conductor's words."""

    uri: str
    path: str


class PayloadStorage(Protocol):
    """Bytes by key. It belongs to one store: what that store does not know of is swept. Thread-safe.

    Keys are texts of hex digits, `/`, `.`, `-` and `_`. Every method raises PayloadUnavailable when the storage cannot be
    reached or refuses.
    """

    def put(self, key: str, data: bytes) -> None:
        """Keep bytes, whole or not at all, in place of what was there; durable when it returns."""
        ...

    def get(self, key: str) -> bytes:
        """The bytes; raises PayloadLost when there are none."""
        ...

    def size(self, key: str) -> int:
        """How many bytes there are, without reading them; raises PayloadLost when there are none."""
        ...

    def delete(self, key: str) -> None:
        """Forget the bytes; nothing happens when there are none."""
        ...

    def list(self) -> Iterator[StoredPayload]:
        """Every object there is, what an interrupted `put` has left included, in any order."""
        ...

    def location(self, operation: str, path: str) -> ExternalStorageLocation:
        """Where to READ or WRITE the object of that key; raises InvalidInput for any other operation."""
        ...


class PayloadCodec(Protocol):
    """What is done to bytes on their way to a storage and back: compressing, encrypting. Pure, thread-safe.

    `key_id` (letters, digits, `-`, `_`) names how `encode` works at present, for one the key it encrypts with; it is kept
    beside each payload, and given to `decode` with it, so that keys can be changed while old payloads are read.
    """

    key_id: str

    def encode(self, data: bytes) -> bytes:
        """The bytes as they are stored."""
        ...

    def decode(self, data: bytes, key_id: str) -> bytes:
        """The bytes as they were; may raise anything when they are damaged or the key is not known."""
        ...


@attrs.frozen(kw_only=True, slots=True)
class LoosePayload:
    """An object that may be in the storage without a row that refers to it: put there for a turn of `workflow_id`, at `at`."""

    key: str
    workflow_id: str
    at: int


class PayloadReads(Protocol):
    """Which documents lie in the payload storage, and for whom."""

    def externals(self, workflow_id: str, digests: Iterable[str] | None) -> Mapping[str, ExternalPayload]:
        """Documents of an execution that lie in the storage, of these hashes or (None) all, by hash."""
        ...

    def external_used(self, key: str) -> bool:
        """Whether any execution refers to an object."""
        ...

    def known_externals(self, keys: Iterable[str]) -> frozenset[str]:
        """Those of the keys that an execution refers to, or that are noted as loose."""
        ...

    def loose_payloads(self, until: int, after: tuple[str, str], limit: int) -> Sequence[LoosePayload]:
        """A page of what was noted as loose at `until` or before, ascending by (key, workflow_id), greater than `after`."""
        ...

    def loosened_at(self, key: str) -> int | None:
        """When an object was last noted as loose; None when it is not."""
        ...


class PayloadWrites(Protocol):
    """Keeping account of the payload storage. A decision's `externals` are stored by `apply`, and are then not loose any more
    for their execution; what a removed execution referred to is loose, dated 0."""

    def loosen(self, loose: Sequence[LoosePayload]) -> None:
        """Note objects as loose, in place of what was noted for the same key and execution."""
        ...

    def tighten(self, key: str, until: int) -> None:
        """Forget that an object was noted as loose at `until` or before."""
        ...


class FeedKind(IntEnum):
    """Which index is fed: the one in the store's own file, or an external one."""

    OWN = 0
    EXTERNAL = 1


@attrs.frozen(kw_only=True, slots=True)
class Feed:
    """How far an index is. `reader` names it, `position` counts its batches; `complete`: everything was indexed once."""

    reader: str
    position: int = 0
    complete: bool = False


@attrs.frozen(kw_only=True, slots=True)
class Change:
    """An execution that is to be indexed as it is at `fence`, `live` if it has not ended.

    Without a fence it is gone from the store, archived or not, or comes later, as one that is new. `since` is the fence at
    which it was indexed last, None when all that is known of it is to be replaced.
    """

    workflow_id: str
    fence: int | None = None
    live: bool = True
    since: int | None = None
    #: Where it stands in the order of indexing; 0: before the others.
    place: int = 0
    #: Numbers of the pending entries that ask for it.
    pending: tuple[int, ...] = ()


class ChangeReads(Protocol):
    """Finding what has changed: by the fences of live executions, and by entries for what is rare.

    Removals, archiving, turns on what has ended, and attempts that are dropped or renamed are pending; only for feeds that are on.
    """

    def feed(self, kind: FeedKind) -> Feed | None:
        """The feed, or None when it is off."""
        ...

    def changes(self, kind: FeedKind, after: int, limit: int) -> Sequence[Change]:
        """Up to `limit` changes, what is pending first, then in ascending order of their places, which are greater than `after`."""
        ...

    def behind(self, kind: FeedKind, limit: int) -> int:
        """How many changes there are, counted up to `limit`."""
        ...

    def is_pending(self, kind: FeedKind, workflow_id: str) -> bool:
        """Whether an execution, there or not, is among the changes."""
        ...

    def attempts_since(self, workflow_id: str, fence: int) -> Sequence[Task]:
        """The attempts that turns have changed which were committed after that fence, in any order."""
        ...


class ChangeWrites(Protocol):
    """Beginning, going on with and ending a feed."""

    def begin_feed(self, kind: FeedKind, reader: str) -> None:
        """Begin to index everything that is stored and archived; the store's own index is made, empty."""
        ...

    def mark_pending(self, kind: FeedKind, workflow_ids: Sequence[str]) -> None:
        """Have executions indexed anew, there or not: all that is known of them is wrong."""
        ...

    def mark_indexed(self, kind: FeedKind, changes: Sequence[Change], complete: bool) -> None:
        """Keep that changes were indexed, and count it; `complete`: there were no others when they were read.

        What has changed again since they were read is still to be indexed.
        """
        ...

    def end_feed(self, kind: FeedKind) -> None:
        """Keep nothing for it any more; the store's own index is taken out of it."""
        ...


@attrs.frozen(kw_only=True, slots=True)
class OwnerRow:
    """What belongs to one engine: executions by status, and events that wait in inboxes (timers and schedules included)."""

    name: str
    #: Number of executions by the name of their status.
    executions: dict[str, int]
    events: int


class OwnerReads(Protocol):
    """Finding owners. The empty name means everybody, and is never listed."""

    def owners(self) -> Sequence[OwnerRow]:
        """Everybody who owns an execution or an event, in order of names."""
        ...


class OwnerWrites(Protocol):
    """Changing owners."""

    def change_owner(self, old: str, new: str, after: str, limit: int) -> Sequence[str]:
        """Give up to `limit` executions of one owner to another, in order of their ids, greater than `after`; returns those ids.

        With an execution go its events and its messages, whose queues are named anew (see `queue_name`), and its fence is
        raised by one: what was decided for the old owner is fenced out.
        """
        ...

    def change_owner_of_the_rest(self, old: str, new: str) -> int:
        """Give an owner's schedules, and its events to what has not begun, to another; returns how many schedules that were."""
        ...


class Life(StrEnum):
    """What is known of a holder by its presence."""

    ALIVE = "ALIVE"
    #: It went without giving back, but of its own will.
    LEFT = "LEFT"
    #: Its process has died.
    DEAD = "DEAD"
    #: There is no trace of it: nobody can say.
    MISSING = "MISSING"
    #: It is where this process cannot look: another host, a mount that passes no locks.
    ELSEWHERE = "ELSEWHERE"


@attrs.frozen(kw_only=True, slots=True)
class HolderRow:
    """An engine whose workers may have tasks in hand.

    `place` says, in the backend's own words, where its presence is seen. `lease_until` (epoch ms) counts where that cannot be
    looked at; None: it has no lease, and is there until its presence tells otherwise.
    """

    holder: str
    place: str
    lease_until: int | None = None


class Presence(Protocol):
    """The sign that a holder is alive. It ends with its process, whatever ends that."""

    @property
    def place(self) -> str:
        """Where others look for it."""
        ...

    @property
    def leased(self) -> bool:
        """Whether there may be somebody who cannot look there, for whom only a lease counts."""
        ...

    def leave(self) -> None:
        """End it, telling that the holder went of its own will; from another process than its own, nothing. Idempotent."""
        ...

    def die(self) -> None:
        """End it as the death of its process would; idempotent."""
        ...

    def remove(self) -> None:
        """End it and leave no trace: nobody will look for it any more. Idempotent."""
        ...


class HolderReads(Protocol):
    """Finding holders, and what they hold."""

    def task_holders(self) -> Sequence[HolderRow]:
        """Every holder, in order of names."""
        ...

    def held_by(self, holder: str) -> Sequence[Task]:
        """The attempts a holder has, in order of execution, reference and attempt."""
        ...


class HolderWrites(Protocol):
    """Coming and going."""

    def put_holder(self, row: HolderRow) -> None:
        """Register a holder, or renew it."""
        ...

    def drop_holder(self, holder: str) -> None:
        """Forget a holder; nothing happens when it is not there."""
        ...


class DrivenReads(Protocol):
    """Finding the stretches of time in which engines drove."""

    def driven(self, owner: str, since: int) -> Sequence[tuple[int, int]]:
        """Beginnings and ends (epoch ms) of the stretches of an owner's drivers that end after `since`, in order of beginnings.

        They may overlap: each driver notes its own.
        """
        ...


class DrivenWrites(Protocol):
    """Noting such stretches."""

    def note_driven(self, owner: str, begin: int, end: int) -> None:
        """Keep that an owner's driver drove from `begin` to `end`; of stretches with one beginning the longest is kept."""
        ...

    def forget_driven(self, owner: str, kept: int) -> None:
        """Keep no more than the newest stretches of an owner, so many, in order of beginnings."""
        ...


@attrs.frozen(kw_only=True, slots=True)
class RelayItem:
    """One undelivered outgoing part: `item_id` orders the items of a store and makes a second delivery harmless."""

    item_id: int
    workflow_id: str
    outgoing: Outgoing


class RelayReads(Protocol):
    """Outgoing parts a store without one commit has not delivered yet; empty for the others."""

    def outbox(self, limit: int) -> Sequence[RelayItem]:
        """The oldest undelivered items, in order."""
        ...


class RelayWrites(Protocol):
    """Delivery of outgoing parts."""

    def deliver(self, items: Sequence[RelayItem]) -> None:
        """Carry out outgoing parts and forget them; an item already delivered changes nothing."""
        ...


@attrs.frozen(slots=True)
class Size:
    """Rows of a kind, and the bytes of the texts in them: what they hold, not what the file needs to keep it."""

    rows: int
    bytes: int


@attrs.frozen(kw_only=True, slots=True)
class Sizes:
    """What a store holds: by kind of row, and by name and status of the execution (what belongs to it included).

    `free_bytes` of `file_bytes` are kept for later rows: `compact` gives them back. Both are 0 for a store that is no file.
    """

    kinds: Mapping[str, Size]
    executions: Mapping[tuple[str, str], Size]
    file_bytes: int = 0
    free_bytes: int = 0


class UpkeepReads(Protocol):
    """Measuring."""

    def sizes(self) -> Sizes:
        """How much there is; reads everything."""
        ...
