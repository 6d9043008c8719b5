"""A store whose payloads are sealed by a codec: whatever is written is encoded, whatever is read is decoded, for any store.

It stands around the port, noun by noun, so no store knows of it. `SEALED` lists what is sealed, field by field; all else stays
plain: ids, names, references, statuses, instants, numbers, keys, and definitions that are registered.

How it works. A sealed text is a mark, the id of the key, and what the codec made, in base64. A cell of a payload that is sealed is,
for a store, the reference to a text that is stored apart: no store looks into it, and without the codec nothing takes it for a
document. An empty map stays as it is.

Large texts and definitions made at run time are found by their hashes, which would say which texts are equal, and let a text be
guessed. So a hash is *named*: it goes through a permutation under a secret of the store, which is drawn when the store is opened
with a codec first, and kept in it, sealed. One record holds it under each key that the store has used. An engine whose codec does
not know one of these keys is refused when it is opened.

What was stored before there was a codec is read as it is.
"""

from __future__ import annotations

import hmac
import os
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from typing import Any, Final, TypeVar

import attrs

from conductorlite.model.canonical import EMPTY, ExternalPayload, Payload
from conductorlite.model.decisions import TIMERS, Decision, Event, EventKind, Outgoing
from conductorlite.model.errors import ConductorliteError, InvalidInput, PayloadUnavailable, StorageCorrupt
from conductorlite.model.executions import HistoryEvent, Task, TaskLog, Workflow, own_task, own_workflow
from conductorlite.model.handlers import EventExecution
from conductorlite.model.later import pattern
from conductorlite.model.mailbox import WorkflowMessage
from conductorlite.model.streams import Chunk, Emission, LatestValue
from conductorlite.model.texts import error_text
from conductorlite.model.threads import Enclosing, within
from conductorlite.store.nouns import NOUNS
from conductorlite.store.ports import Backend, JoinableBackend, PayloadCodec
from conductorlite.store.tables import Archived, FeedKind, RelayItem, ScheduleRow
from conductorlite.store.transactions import MetadataDAO, MetadataReads

__all__ = [
    "CONVERTED",
    "SEALED",
    "SEALED_MARK",
    "Rows",
    "SealedBackend",
    "Sealing",
    "checked_key_id",
    "is_own_timer",
    "record_name",
    "retire",
    "retired_name",
    "sealed",
]

T = TypeVar("T")

#: What a sealed text begins with.
SEALED_MARK: Final = "~sealed:"

#: How a sealed text is JSON; canonical JSON writes a tilde as it is.
_QUOTED: Final = '"\\u007esealed:'

_KEY_ID: Final = pattern(r"[A-Za-z0-9_-]{1,64}")

#: What a named hash begins with.
_NAMED: Final = "~"

#: Kinds of events that an execution dates for itself, and their data when that is only when they count from.
_OWN_TIMERS: Final = frozenset({*TIMERS.values(), EventKind.WORKFLOW_TIMEOUT, EventKind.ADMISSION})
_NUMBERS: Final = pattern(r'\{("[a-z]+":\d+,?)*\}')

#: In the place of the id of a key of which nothing is left; no id is that.
_RETIRED: Final = ""
_RETIRED_TEXT: Final = "~retired"

_HASH: Final = pattern(r"[0-9a-f]{64}")
_ROUNDS: Final = 4
_SECRET: Final = 32


def checked_key_id(codec: PayloadCodec) -> str:
    """The id of the key by which a codec encodes; raises InvalidInput when it is none."""
    if not _KEY_ID.fullmatch(codec.key_id):
        raise InvalidInput(f"key_id {codec.key_id!r} of the payload codec is not 1 to 64 letters, digits, - or _")
    return codec.key_id


def record_name(number: int) -> str:
    """Under what the record of a key stands among the definitions; they are numbered from 1."""
    return f"sealing/{number}"


def retired_name(number: int) -> str:
    """Under what it stands that nothing is left that a key has sealed."""
    return f"{record_name(number)}/retired"


class Sealing:
    """Texts and payloads sealed and opened by a codec, and hashes named by a secret."""

    def __init__(self, codec: PayloadCodec, secret: bytes = b"") -> None:
        self.codec = codec
        self._secret = secret
        self.name = lru_cache(1_024)(self._name)

    # ------------------------------------------------------------------ texts

    def text(self, text: str) -> str:
        """A text, sealed; raises PayloadUnavailable when the codec fails."""
        return f"{SEALED_MARK}{self.codec.key_id}:{b64encode(self._encoded(text.encode())).decode()}"

    def opened_text(self, text: str) -> str:
        """The text that was sealed; one that was not, as it is. Raises StorageCorrupt, and what the codec raises."""
        if not text.startswith(SEALED_MARK):
            return text
        key_id, _, coded = text[len(SEALED_MARK) :].partition(":")
        try:
            data = b64decode(coded, validate=True)
        except (NoBase64, ValueError) as error:
            raise StorageCorrupt(f"what the key {key_id[:80]!r} has sealed is damaged: {error}") from error
        return self._decoded(data, key_id).decode()

    def data(self, data: bytes) -> bytes:
        """Bytes, sealed."""
        return f"{SEALED_MARK}{self.codec.key_id}:".encode() + self._encoded(data)

    def opened_data(self, data: bytes) -> bytes:
        """The bytes that were sealed; others as they are."""
        if not data.startswith(SEALED_MARK.encode()):
            return data
        key_id, _, coded = data[len(SEALED_MARK) :].partition(b":")
        return self._decoded(coded, key_id.decode(errors="replace"))

    def _encoded(self, data: bytes) -> bytes:
        try:
            return self.codec.encode(data)
        except ConductorliteError:
            raise
        except Exception as error:
            raise PayloadUnavailable(f"the payload codec could not seal with {self.codec.key_id!r}: {error_text(error)}") from error

    def _decoded(self, data: bytes, key_id: str) -> bytes:
        try:
            return self.codec.decode(data, key_id)
        except ConductorliteError:
            raise
        except Exception as error:
            text = f"what the key {key_id[:80]!r} has sealed cannot be opened by the payload codec: {error_text(error)}"
            raise StorageCorrupt(text) from error

    # ------------------------------------------------------------------ payloads

    def cell(self, payload: Payload) -> Payload:
        """A payload as a row has it, sealed: of a large one that is its hash."""
        return self._reference(payload.cell)

    def whole(self, payload: Payload) -> Payload:
        """A payload that carries its text however long it is, sealed."""
        return self._reference(payload.cell if payload.text is None else payload.text)

    def _reference(self, cell: str) -> Payload:
        return EMPTY if cell == "{}" else Payload(None, digest=self.text(cell))

    def json(self, payload: Payload) -> Payload:
        """The same where a store looks whether it is JSON."""
        if payload.text == "{}":
            return EMPTY
        sealed = self.text(payload.whole())
        return Payload(f'{_QUOTED}{sealed[len(SEALED_MARK) :]}"')

    def opened(self, payload: Payload) -> Payload:
        """The payload that was sealed in any of these forms; one that was not, as it is."""
        text = payload.text
        if text is None:
            if not payload.digest.startswith(SEALED_MARK):
                return payload
            content = self.opened_text(payload.digest)
        elif text.startswith(_QUOTED):
            content = self.opened_text(f"{SEALED_MARK}{text[len(_QUOTED) : -1]}")
        else:
            return payload
        return Payload(None, digest=content[1:]) if content[:1] == "#" else Payload(content)

    # ------------------------------------------------------------------ again

    def is_fresh(self, text: str) -> bool:
        """Return True for a text that the present key has sealed."""
        return text.startswith(f"{SEALED_MARK}{self.codec.key_id}:")

    def again(self, text: str) -> str:
        """A text that was sealed, or was not, sealed by the present key."""
        return text if self.is_fresh(text) else self.text(self.opened_text(text))

    def again_cell(self, cell: str) -> str:
        """The same of the cell of a payload."""
        if cell == "{}":
            return cell
        return "#" + self.again(cell[1:] if cell.startswith("#" + SEALED_MARK) else cell)

    def again_json(self, cell: str) -> str:
        """The same of the cell of a payload where a store looks whether it is JSON."""
        if cell == "{}" or cell.startswith(f"{_QUOTED}{self.codec.key_id}:"):
            return cell
        return self.json(self.opened(Payload(cell))).text or ""

    def is_fresh_data(self, data: bytes) -> bool:
        """Return True for bytes that the present key has sealed."""
        return data.startswith(f"{SEALED_MARK}{self.codec.key_id}:".encode())

    # ------------------------------------------------------------------ hashes

    def _name(self, hashed: str) -> str:
        return _NAMED + self._permuted(hashed, range(_ROUNDS)) if _HASH.fullmatch(hashed) else hashed

    def hash_of(self, name: str) -> str:
        """The hash that has a name; what is none, as it is."""
        return self._permuted(name[len(_NAMED) :], range(_ROUNDS)[::-1]) if name.startswith(_NAMED) else name

    def _permuted(self, hashed: str, rounds: Iterable[int]) -> str:
        """A network of Feistel's over the halves of a hash; the same rounds backwards take it back."""
        packed = bytes.fromhex(hashed)
        halves = [packed[:16], packed[16:]]
        for number in rounds:
            key, mixed = halves[number % 2], halves[1 - number % 2]
            mask = hmac.digest(self._secret, bytes([number]) + key, "sha256")
            halves[1 - number % 2] = bytes(one ^ other for one, other in zip(mixed, mask, strict=False))
        return b"".join(halves).hex()

    def names(self, hashes: Iterable[str]) -> tuple[str, ...]:
        """The names of several hashes."""
        return tuple(map(self.name, hashes))

    def hashes_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """The hashes that have these names."""
        return tuple(map(self.hash_of, names))


# ---------------------------------------------------------------------- rows

#: A way in, by the name of a method, and the way back.
_Ways = tuple[str, str]
_TEXT: Final[_Ways] = ("text", "opened_text")
_CELL: Final[_Ways] = ("cell", "opened")
_WHOLE: Final[_Ways] = ("whole", "opened")
_JSON: Final[_Ways] = ("json", "opened")
_HASH_NAMED: Final[_Ways] = ("name", "hash_of")
_HASHES_NAMED: Final[_Ways] = ("names", "hashes_of")

#: What is sealed of each kind of row, field by field; every other field stays plain.
SEALED: Final[Mapping[type, Mapping[str, _Ways]]] = {
    Workflow: {
        **dict.fromkeys(("input", "output", "variables", "task_to_domain"), _CELL),
        **dict.fromkeys(("reason", "conductor_reason", "parked"), _TEXT),
        "definition_hash": _HASH_NAMED,
    },
    Task: {
        **dict.fromkeys(("input", "output"), _CELL),
        **dict.fromkeys(("reason", "conductor_reason", "traceback", "error_text", "failed_child", "conductor_failed_child"), _TEXT),
        "grafts": _HASHES_NAMED,
    },
    HistoryEvent: {"payload": _CELL, "reason": _TEXT, "cause": _TEXT},
    TaskLog: {"text": _TEXT},
    Event: {"data": _WHOLE},
    WorkflowMessage: {"value": _CELL},
    Chunk: {"values": _JSON},
    LatestValue: {"value": _JSON},
    EventExecution: {"output": _JSON},
    ScheduleRow: {"text": _TEXT, "progress": _TEXT},
    Archived: {"document": ("data", "opened_data")},
    ExternalPayload: {"digest": _HASH_NAMED},
}

_COPIES: Final[Mapping[type, Callable[[Any], Any]]] = {Workflow: own_workflow, Task: own_task}


class Rows:
    """Rows of every kind, sealed and opened field by field."""

    def __init__(self, sealing: Sealing) -> None:
        self.sealing = sealing
        fields = {
            kind: [(name, *(getattr(sealing, way) for way in ways)) for name, ways in known.items()]
            for kind, known in SEALED.items()
        }
        self._in = {kind: [(name, way) for name, way, _ in known] for kind, known in fields.items()}
        self._out = {kind: [(name, way) for name, _, way in known] for kind, known in fields.items()}

    def sealed(self, kind: type, row: T) -> T:
        """A row as it is stored."""
        found: T = (
            row if isinstance(row, Event) and is_own_timer(row.kind, row.data.text) else _converted(kind, self._in[kind], row)
        )
        return found

    def opened(self, kind: type, row: T) -> T:
        """The row that was stored; None stays None."""
        found: T = _converted(kind, self._out[kind], row)
        return found

    def all_sealed(self, kind: type, rows: Iterable[T]) -> tuple[T, ...]:
        """Several rows as they are stored."""
        return tuple([self.sealed(kind, row) for row in rows])

    def all_opened(self, kind: type, rows: Iterable[T]) -> list[T]:
        """The rows that were stored."""
        return [self.opened(kind, row) for row in rows]

    def is_fresh(self, line: HistoryEvent) -> bool:
        """Return True for a line of a journal that the present key has sealed."""
        texts = [text for text in (line.reason, line.cause) if text is not None]
        payload = line.payload
        if payload is not None and payload != EMPTY:
            texts.append(payload.digest if payload.text is None else payload.text)
        return all(map(self.sealing.is_fresh, texts))

    def again(self, one: Archived) -> Archived:
        """An archived execution sealed by the present key."""
        return self.sealed(Archived, self.opened(Archived, one))

    def emission(self, one: Emission) -> Emission:
        """The values of a call as they are stored."""
        return attrs.evolve(one, chunks=self.all_sealed(Chunk, one.chunks)) if one.chunks else one

    def opened_emission(self, one: Emission) -> Emission:
        """The values of a call that were stored."""
        return attrs.evolve(one, chunks=tuple(self.all_opened(Chunk, one.chunks))) if one.chunks else one

    def large(self, payload: Payload) -> Payload:
        """A large text as it is stored, under the name of its hash."""
        if payload.text is None:
            return payload
        return Payload(self.sealing.text(payload.text), digest=self.sealing.name(payload.digest))

    def opened_large(self, name: str, payload: Payload) -> Payload:
        """The large text that was stored; raises StorageCorrupt when it is not that of this name."""
        hashed = self.sealing.hash_of(name)
        text = self.sealing.opened_text(payload.whole())
        found = Payload(text)
        if found.digest != hashed:
            raise StorageCorrupt(f"the database is damaged: the payload {hashed} is another one")
        return found

    def decision(self, one: Decision) -> Decision:
        """A decision as it is stored."""
        name, text = self.sealing.name, self.sealing.text
        outgoing = one.outgoing
        changed: dict[str, Any] = {
            "inserted": self.all_sealed(Task, one.inserted),
            "updated": self.all_sealed(Task, one.updated),
            "texts": tuple(map(self.large, one.texts)),
            "externals": self.all_sealed(ExternalPayload, one.externals),
            "definitions": {name(hashed): text(said) for hashed, said in one.definitions.items()},
            "history": self.all_sealed(HistoryEvent, one.history),
            "timers": self.all_sealed(Event, one.timers),
            "printed": self.all_sealed(TaskLog, one.printed),
            "messages": self.all_sealed(WorkflowMessage, one.messages),
            "emissions": tuple(map(self.emission, one.emissions)),
            "values": self.all_sealed(LatestValue, one.values),
            "outgoing": self.outgoing(outgoing) if outgoing.posted else None,
        }
        return attrs.evolve(
            one, workflow=self.sealed(Workflow, one.workflow), **{field: value for field, value in changed.items() if value}
        )

    def outgoing(self, one: Outgoing) -> Outgoing:
        """What is addressed elsewhere as it is stored."""
        return attrs.evolve(one, posted=self.all_sealed(Event, one.posted))

    def item(self, one: RelayItem) -> RelayItem:
        """An undelivered part as it is stored."""
        return attrs.evolve(one, outgoing=self.outgoing(one.outgoing))

    def opened_item(self, one: RelayItem) -> RelayItem:
        """An undelivered part that was stored."""
        posted = tuple(self.all_opened(Event, one.outgoing.posted))
        return attrs.evolve(one, outgoing=attrs.evolve(one.outgoing, posted=posted))


def is_own_timer(kind: EventKind, data: str | None) -> bool:
    """Return True for a timer of an execution's own whose data says no more than since when it counts."""
    return kind in _OWN_TIMERS and data is not None and _NUMBERS.fullmatch(data) is not None


def _converted(kind: type, ways: Sequence[tuple[str, Callable[[Any], Any]]], row: Any) -> Any:
    if row is None:
        return None
    found = {name: way(value) for name, way in ways if (value := getattr(row, name)) is not None}
    if kind not in _COPIES:
        return attrs.evolve(row, **found)
    copy = _COPIES[kind](row)
    for name, value in found.items():
        setattr(copy, name, value)
    return copy


# ---------------------------------------------------------------------- nouns

#: A method of a noun in the place of the store's, which it is given.
_Method = Callable[..., Any]
_Conversion = Callable[[Rows, _Method], _Method]


def _one(kind: type) -> _Conversion:
    return lambda rows, ask: lambda *given: rows.opened(kind, ask(*given))


def _several(kind: type) -> _Conversion:
    return lambda rows, ask: lambda *given: rows.all_opened(kind, ask(*given))


def _by_name(kind: type) -> _Conversion:
    return lambda rows, ask: lambda *given: {name: rows.opened(kind, row) for name, row in ask(*given).items()}


def _put(kind: type) -> _Conversion:
    return lambda rows, put: lambda row: put(rows.sealed(kind, row))


def _emissions(rows: Rows, ask: _Method) -> _Method:
    return lambda *given: [rows.opened_emission(one) for one in ask(*given)]


def _mailbox(rows: Rows, ask: _Method) -> _Method:
    return lambda workflow_id: _Noun("mailbox", _MAILBOX, rows, ask(workflow_id))


def _found(rows: Rows, asked: Iterable[str], ask: Callable[[list[str]], Mapping[str, T]]) -> Iterator[tuple[str, str, T]]:
    """What there is under the names of hashes, or under the hashes where it was stored before there was a codec."""
    hashes = list(asked)
    for name, found in ask([*rows.sealing.names(hashes), *hashes]).items():
        yield rows.sealing.hash_of(name), name, found


def _payloads(rows: Rows, ask: _Method) -> _Method:
    def payloads(workflow_id: str, digests: Collection[str]) -> Mapping[str, Payload]:
        found = _found(rows, digests, partial(ask, workflow_id))
        return {hashed: rows.opened_large(name, payload) for hashed, name, payload in found}

    return payloads


def _externals(rows: Rows, ask: _Method) -> _Method:
    def externals(workflow_id: str, digests: Iterable[str] | None) -> Mapping[str, ExternalPayload]:
        if digests is None:
            return {rows.sealing.hash_of(name): rows.opened(ExternalPayload, one) for name, one in ask(workflow_id, None).items()}
        found = _found(rows, digests, partial(ask, workflow_id))
        return {hashed: rows.opened(ExternalPayload, one) for hashed, _, one in found}

    return externals


def _definition(rows: Rows, ask: _Method) -> _Method:
    def definition(hashed: str) -> str | None:
        text: str | None = ask(rows.sealing.name(hashed))
        return ask(hashed) if text is None else rows.sealing.opened_text(text)

    return definition


def _embed(rows: Rows, put: _Method) -> _Method:
    return lambda hashed, text: put(rows.sealing.name(hashed), rows.sealing.text(text))


def _park(rows: Rows, park: _Method) -> _Method:
    def parked(workflow_id: str, broken_turns: int, reason: str | None) -> None:
        park(workflow_id, broken_turns, None if reason is None else rows.sealing.text(reason))

    return parked


def _log(rows: Rows, log: _Method) -> _Method:
    return lambda workflow_id, entries: log(workflow_id, rows.all_sealed(TaskLog, entries))


def _post(rows: Rows, post: _Method) -> _Method:
    return lambda events: post(rows.all_sealed(Event, events))


def _put_schedule(rows: Rows, put: _Method) -> _Method:
    def put_schedule(row: ScheduleRow, consumed: Sequence[str], events: Sequence[Event]) -> None:
        put(rows.sealed(ScheduleRow, row), consumed, rows.all_sealed(Event, events))

    return put_schedule


_MAILBOX: Final[Mapping[str, _Conversion]] = {
    "message": _one(WorkflowMessage),
    "unreceived": _several(WorkflowMessage),
    "messages": _several(WorkflowMessage),
}

#: The methods that seal or open, by noun; every other one passes on what it is given and what it gets.
CONVERTED: Final[Mapping[str, Mapping[str, _Conversion]]] = {
    "archive": {"archived": _one(Archived), "put_archived": _put(Archived)},
    "decisions": {
        "apply": lambda rows, put: lambda one: put(rows.decision(one)),
        "apply_all": lambda rows, put: lambda several: put([rows.decision(one) for one in several]),
        "apply_some": lambda rows, put: lambda several: put([rows.decision(one) for one in several]),
    },
    "event_handlers": {
        "event_execution": _one(EventExecution),
        "event_executions": _several(EventExecution),
        "add_event_execution": _put(EventExecution),
    },
    "executions": {
        "workflow": _one(Workflow),
        "page": _several(Workflow),
        **dict.fromkeys(("tasks", "latest"), _by_name(Task)),
        **dict.fromkeys(("live", "failed", "last_attempts", "attempts", "attempts_since", "held_by"), _several(Task)),
        "task_by_id": _one(Task),
        "payloads": _payloads,
        "mailbox": _mailbox,
        "park": _park,
    },
    "history": {"lines": _several(HistoryEvent), "logs": _several(TaskLog), "log": _log},
    "inbox": {**dict.fromkeys(("due_events", "events", "upcoming_events"), _several(Event)), "post": _post},
    "metadata": {"definition": _definition, "embed": _embed},
    "outbox": {
        "items": lambda rows, ask: lambda limit: [rows.opened_item(one) for one in ask(limit)],
        "deliver": lambda rows, put: lambda items: put([rows.item(one) for one in items]),
    },
    "payloads": {"externals": _externals},
    "schedules": {"schedule": _one(ScheduleRow), "page": _several(ScheduleRow), "put_schedule": _put_schedule},
    "streams": {"chunks": _emissions, "emissions": _emissions, "values": _several(LatestValue)},
}


class _Noun:
    """A noun of a store, with methods that seal and open in the place of some of its own."""

    def __init__(self, name: str, converted: Mapping[str, _Conversion], rows: Rows, inner: object) -> None:
        self._name, self._converted, self._rows, self._inner = name, converted, rows, inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        conversion = self._converted.get(name)
        if conversion is not None:
            found = conversion(self._rows, found)
        vars(self)[name] = found
        return found


class _Transaction:
    """A view or a change of a store, by noun."""

    def __init__(self, rows: Rows, inner: object, *, indexed: bool) -> None:
        self._rows, self._inner, self._indexed = rows, inner, indexed

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in CONVERTED:
            found = _Noun(name, CONVERTED[name], self._rows, found)
        elif name == "feeds" and not self._indexed:
            found = _Noun(name, _NO_INDEX, self._rows, found)
        elif name not in NOUNS:
            return found
        vars(self)[name] = found
        return found


#: Documents are matched one by one, for an index would keep them plain.
_NO_INDEX: Final[Mapping[str, _Conversion]] = {"index": lambda _, __: lambda: None}


class _SealedBlock(Enclosing[_Transaction, Any]):
    """A block of the store, whose view or change is converted."""

    __slots__ = ("_convert", "_opened")

    def __init__(self, opened: Callable[[], AbstractContextManager[Any]], convert: Callable[[Any], _Transaction]) -> None:
        super().__init__()
        self._opened, self._convert = opened, convert

    def begin(self) -> _Transaction:
        return self._convert(self.enter(self._opened))

    def end(self, error: BaseException | None) -> None:
        try:
            self.leave(error)
        finally:
            self.undo()


class SealedBackend:
    """A store whose payloads are sealed; see `sealed`."""

    #: Nobody looks at rows past it.
    in_memory = False

    def __init__(self, inner: Any, sealing: Sealing, *, indexed: bool) -> None:
        self.inner, self.sealing = inner, sealing
        self._rows, self._indexed = Rows(sealing), indexed

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def reading(self) -> AbstractContextManager[Any]:
        """Return the block of a view, opened."""
        return self._sealed(self.inner.reading)

    def writing(self) -> AbstractContextManager[Any]:
        """Return the block of a change, sealed."""
        return self._sealed(self.inner.writing)

    def _sealed(self, opened: Callable[[], AbstractContextManager[Any]]) -> AbstractContextManager[Any]:
        return within(_SealedBlock(opened, partial(_Transaction, self._rows, indexed=self._indexed)))

    def prepare(self, decisions: Sequence[Decision]) -> None:
        """Nothing: what is stored is another decision."""

    @property
    def rows(self) -> Rows:
        """What seals and opens rows."""
        return self._rows


class _Joinable(SealedBackend):
    """A sealed store that an application's rows can be in, which are its own to seal."""

    def transaction(self) -> AbstractContextManager[Any]:
        """Return the block of a change that an application shares, sealed."""
        return self._sealed(self.inner.transaction)


# ---------------------------------------------------------------------- opening


def sealed(backend: Backend, codec: PayloadCodec, *, plain_index: bool = False) -> SealedBackend:
    """A store whose payloads a codec seals from now on, with what was stored before.

    With `plain_index` executions are searched by an index, which holds inputs, outputs and reasons plain; without it none is kept,
    and a search looks at every execution. Raises InvalidInput for an id of a key that is none, and PayloadUnavailable, naming the
    key, when the codec cannot open what one of the store's keys has sealed; nothing is changed then.
    """
    checked_key_id(codec)
    with backend.reading() as view:
        secret, known = _records(codec, view.metadata)
        feed = None if plain_index else view.feeds.feed(FeedKind.OWN)
    if codec.key_id not in known or feed is not None:
        with backend.writing() as tx:
            secret, known = _records(codec, tx.metadata)
            if codec.key_id not in known:
                _add_record(codec, tx.metadata, secret or os.urandom(_SECRET), len(known) + 1)
            if not plain_index:
                tx.feeds.end_feed(FeedKind.OWN)
        with backend.reading() as view:  # what another process has stored first counts
            secret, _ = _records(codec, view.metadata)
    if secret is None:
        raise StorageCorrupt("the record of the key that seals payloads was not kept by the store")
    made = _Joinable if isinstance(backend, JoinableBackend) else SealedBackend
    return made(backend, Sealing(codec, secret), indexed=plain_index)


def _records(codec: PayloadCodec, metadata: MetadataReads) -> tuple[bytes | None, list[str]]:
    """The secret of a store, None before it has one, and the ids of the keys that it has used, in order."""
    sealing, secret = Sealing(codec), None
    known: list[str] = []
    while (record := metadata.definition(record_name(len(known) + 1))) is not None:
        key_id = record[len(SEALED_MARK) :].partition(":")[0]
        if metadata.definition(retired_name(len(known) + 1)) is not None:
            known.append(_RETIRED)
            continue
        known.append(key_id)
        try:
            secret = b64decode(sealing.opened_text(record))
        except ConductorliteError as error:
            raise PayloadUnavailable(
                f"the store holds payloads that the key {key_id!r} has sealed, and the payload codec cannot open them: {error};"
                " give the codec that key beside the new one, or seal them again while it still has it"
            ) from error
    return secret, known


def _add_record(codec: PayloadCodec, metadata: MetadataDAO, secret: bytes, number: int) -> None:
    metadata.embed(record_name(number), Sealing(codec).text(b64encode(secret).decode()))


def retire(backend: SealedBackend) -> Sequence[str]:
    """Forget the keys of which nothing is left, which are all but the present one; their ids."""
    codec = backend.sealing.codec
    with backend.inner.writing() as tx:
        _, known = _records(codec, tx.metadata)
        gone = {number: key_id for number, key_id in enumerate(known, 1) if key_id not in (_RETIRED, codec.key_id)}
        for number in gone:
            tx.metadata.embed(retired_name(number), _RETIRED_TEXT)
    return [*gone.values()]
