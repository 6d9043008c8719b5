"""JSON as it is kept: one canonical text per value, checked once at every edge.

What enters the engine (start input, report, signal, worker return) goes through `canonical()`; what is stored, hashed and
compared is that text; what leaves is parsed afresh, so no caller holds a reference into the engine's state. Key order is kept,
because Conductor keeps it: the order of `decisionCases` and the text form of a map depend on it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.model.errors import InvalidInput, StorageCorrupt
from conductorlite.model.later import functions, hashlib
from conductorlite.model.scalars import ENTRY_SIZE, MAX_DEPTH, MAX_SIZE, chunks, encoded
from conductorlite.model.texts import type_name

if TYPE_CHECKING:
    from conductorlite.model.typed import plain
else:
    (plain,) = functions("conductorlite.model.typed", "plain")

__all__ = [
    "EMPTY",
    "INLINE_LIMIT",
    "Document",
    "ExternalPayload",
    "Payload",
    "Revealed",
    "canonical",
    "digest",
    "parse",
    "present",
    "size_of",
]

_UNBOUNDED: Final = 2**62

#: Bytes up to which a text is stored in its row; a longer one is stored once by hash and referenced.
INLINE_LIMIT: Final = 1024

#: Types of which every value is JSON, texts up to their surrogates.
_SCALARS: Final = frozenset({str, int, bool, type(None)})


def canonical(value: Any, *, where: str = "$", bounded: bool = True) -> str:
    """Return the canonical JSON text of `value` (dict, list, tuple, str, int, float, bool, None).

    Raises InvalidInput, naming the JSON path below `where`, for NaN and infinities, keys that are not text, lone
    surrogates, values of any other type, cycles, nesting deeper than `MAX_DEPTH`, and, when `bounded`, for documents past
    `MAX_SIZE`.
    """
    try:
        return _canonical(value, where, bounded=bounded)
    except _Foreign as foreign:
        raise InvalidInput(str(foreign)) from None


class _Foreign(Exception):
    """Internal: a value that JSON does not have, which may have a form in it all the same."""


def _canonical(value: Any, where: str, *, bounded: bool) -> str:
    try:
        _check(value, where, MAX_SIZE if bounded else _UNBOUNDED)
        text = encoded(value)
    except (InvalidInput, MemoryError, _Foreign):
        raise
    except ValueError as error:  # Python refuses integers past 4,300 digits
        raise InvalidInput(f"{where}: {error}") from None
    except Exception as error:  # of a class of its own, whose methods may do anything
        raise InvalidInput(f"{where}: cannot be read as JSON: its own methods raise {type_name(error)}") from None
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            snippet = text[max(0, error.start - 20) : error.start].encode("ascii", "replace").decode()
            raise InvalidInput(f"{where}: text holds a lone surrogate after …{snippet!r}") from None
    return text


def _written(value: Any, where: str, *, bounded: bool) -> str:
    """The canonical text of a value, in which what JSON does not have (dates, records, enums) has the form that it has there."""
    try:
        return _canonical(value, where, bounded=bounded)
    except _Foreign:
        try:
            made = plain(value)
        except InvalidInput as error:
            raise InvalidInput(f"{where}: {error}") from None
        return canonical(made, where=where, bounded=bounded)


def _flat_text(value: dict[Any, Any]) -> str | None:
    """The text of a map of texts, whole numbers, booleans and nulls, as most documents are; None for any other."""
    size = 0
    for key, entry in value.items():
        size += ENTRY_SIZE if type(entry) is not str else ENTRY_SIZE + len(entry)
        if type(entry) not in _SCALARS or type(key) is not str or size > MAX_SIZE:
            return None
    try:
        text = "".join(chunks(value, 0))  # as `encoded` does
        if not text.isascii():
            text.encode()
    except ValueError:  # a number of too many digits, half a character: `canonical` says so
        return None
    return text


def _check(value: Any, where: str, limit: int) -> None:  # noqa: C901 - one loop over the kinds of JSON values, on the hot path
    stack: list[tuple[Any, str, int]] = [(value, where, 0)]
    size = len(value) if type(value) is str else 0
    while stack:
        if size > limit:
            # Counted before the text is made: what refers to one value a thousand times is small until then.
            raise InvalidInput(f"{where}: larger than {limit // 1024 // 1024} MB")
        item, path, depth = stack.pop()
        kind = type(item)
        if kind in _SCALARS:
            continue
        if kind is float:
            if item - item != 0.0:
                raise _Foreign(f"{path}: {item!r} is not a JSON number")
        elif kind is list or kind is tuple:
            if depth >= MAX_DEPTH:
                raise InvalidInput(f"{path[:200]}: nested deeper than {MAX_DEPTH} levels (or cyclic)")
            size += ENTRY_SIZE * len(item)
            for index, entry in enumerate(item):
                if type(entry) is str:
                    size += len(entry)
                elif type(entry) not in _SCALARS:
                    stack.append((entry, f"{path}[{index}]", depth + 1))
        elif kind is dict or isinstance(item, Mapping):
            if depth >= MAX_DEPTH:
                raise InvalidInput(f"{path[:200]}: nested deeper than {MAX_DEPTH} levels (or cyclic)")
            size += ENTRY_SIZE * len(item)
            for key, entry in item.items():
                if type(key) is not str:
                    raise _Foreign(f"{path}: key {key!r} is not text")
                if type(entry) is str:
                    size += len(entry)
                elif type(entry) not in _SCALARS:
                    stack.append((entry, f"{path}.{key}", depth + 1))
        elif isinstance(item, str):
            size += str.__len__(item)
        elif not isinstance(item, int):
            raise _Foreign(f"{path}: a {kind.__name__} is not JSON")
    if size > limit:
        raise InvalidInput(f"{where}: larger than {limit // 1024 // 1024} MB")


def parse(text: str | bytes, *, where: str = "$") -> Any:
    """Parse JSON text from outside; raises InvalidInput with line and column, also for NaN and over-deep nesting."""
    try:
        return _decode(text) if type(text) is str and text[:1] != "\ufeff" else json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise InvalidInput(f"{where}: nested deeper than {MAX_DEPTH} levels") from None
    except InvalidInput:
        raise
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{where}: not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{where}: broken JSON at line {error.lineno} column {error.colno}: {error.msg}") from None
    except ValueError as error:  # Python refuses integers past 4,300 digits
        raise InvalidInput(f"{where}: {error}") from None


def _no_constant(name: str) -> Any:
    raise InvalidInput(f"{name} is not a JSON number")


_decode: Final = json.JSONDecoder(parse_constant=_no_constant).decode
_decode_canonical: Final = json.JSONDecoder().raw_decode


def digest(text: str) -> str:
    """Content hash of a text: the sha256 of its UTF-8, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=1024)
def attempt_head(workflow_id: str) -> str:
    """Return the beginning of the ids of all attempts of an execution: eight hex digits, by which a store finds it."""
    return digest(f"workflow\x1f{workflow_id}")[:8]


def present(document: Mapping[str, Any]) -> dict[str, Any]:
    """A map without what is null, as Conductor writes its JSON."""
    return {name: value for name, value in document.items() if value is not None}


def size_of(text: str) -> int:
    """Bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


@attrs.frozen(kw_only=True, slots=True)
class ExternalPayload:
    """Reference to a document too large for the store: `key` in the payload storage; `size` is that of its text, in bytes."""

    digest: str
    size: int
    key: str


def _kept(text: str) -> Any:
    """The document of a text that was canonical when it was kept; raises StorageCorrupt when it is no JSON any more."""
    try:
        value, end = _decode_canonical(text)
        return value if end == len(text) else json.loads(text)
    except ValueError as error:
        raise StorageCorrupt(f"a stored payload is damaged: {error}") from None


class Payload:
    """One immutable JSON document of a row: its canonical text, and the parsed value made on first use.

    A payload read from a store may be *absent*: only its hash is known (`text` is None). The decider asks for it by that
    hash. One that is in the payload storage says where (`external`), and its text is fetched when its document is first
    looked at. `value` is shared: the engine reads it and never changes it; what leaves the engine is `fresh()`.
    """

    __slots__ = ("_fetch", "cell", "digest", "external", "flat", "large", "text", "value")

    #: sha256 of the text, in hex.
    digest: str
    #: The parsed document, shared: do not change it.
    value: Any
    #: As a row has it: its text, or its hash where that is stored apart.
    cell: str

    def __init__(
        self,
        text: str | None,
        *,
        digest: str | None = None,
        external: ExternalPayload | None = None,
        fetch: Callable[[ExternalPayload], str] | None = None,
    ) -> None:
        self.text = text
        #: Whether the text is stored apart, by hash.
        self.large = text is None or len(text) > INLINE_LIMIT
        #: Whether the document is a map that holds nothing which could be changed, so that a copy of it is whole.
        self.flat = False
        self.external = external
        self._fetch = fetch
        if external is not None:
            self.digest = external.digest
        elif digest is not None:
            self.digest = digest

    def __getattr__(self, name: str) -> Any:
        """Compute an attribute when it is first asked for; it is an attribute like any other from then on."""
        if name == "value":
            found = _kept(self.whole())
        elif name == "text":
            found = encoded(self.value)
        elif name == "large":
            found = self.text is None or len(self.text) > INLINE_LIMIT
        elif name == "cell":
            found = "#" + self.digest if self.large or self.text is None else self.text
        elif name != "digest":
            raise AttributeError(name)
        elif self.text is None:
            raise InvalidInput("an absent payload without a hash")
        else:
            found = digest(self.text)
        setattr(self, name, found)
        return found

    @classmethod
    def of(cls, value: Any, *, where: str = "$", bounded: bool = True) -> Payload:
        """The payload of a value from outside or computed inside, written as `plain` does; raises InvalidInput as `canonical`."""
        if type(value) is Document:
            return value.payload
        if value is None or value == {}:
            return EMPTY if value is not None else cls("null")
        if type(value) is not dict:
            return cls(_written(value, where, bounded=bounded))
        value = value.copy()  # whatever becomes of it, the text says the same
        text = _flat_text(value)
        if text is None:
            return cls(_written(value, where, bounded=bounded))
        payload = cls(text)
        payload.value, payload.flat = value, True
        return payload

    @classmethod
    def made(cls, value: Mapping[str, Any]) -> Payload:
        """The payload of a map of ours that is JSON for certain; its text is written when it is asked for."""
        payload = cls.__new__(cls)
        payload.value, payload.flat, payload.external = value, False, None
        return payload

    @classmethod
    def around(cls, name: str, document: Document, entries: Mapping[str, Any], *, where: str = "$") -> Payload:
        """The payload of some entries, at least one, and a document under a name of its own, which is not made JSON again."""
        payload = cls(f'{canonical(entries, where=where)[:-1]},"{name}":{document.payload.text}}}')
        payload.value = {**entries, name: document}
        return payload

    @property
    def absent(self) -> bool:
        """True if only the hash is here."""
        return self.text is None and self.external is None

    @property
    def shown(self) -> str:
        """The text, or where it is stored when it is in the payload storage."""
        if self.external is not None:
            return f"{self.external.size} bytes at {self.external.key}"
        return "" if self.text is None else self.text

    def stored(self) -> Payload:
        """This as a row keeps it: a large one is only a hash."""
        return Payload(None, digest=self.digest) if self.large else self

    def whole(self) -> str:
        """The text, fetched from the payload storage if need be; raises PayloadLost and PayloadUnavailable then."""
        if self.text is None:
            if self.external is None or self._fetch is None:
                raise InvalidInput(f"payload {self.digest} was not loaded")
            self.text = self._fetch(self.external)
        return self.text

    def fresh(self) -> Any:
        """A copy of the document that belongs to the caller."""
        return self.value.copy() if self.flat else _kept(self.whole())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Payload):
            return NotImplemented
        if self.text is not None and other.text is not None:
            return self.text == other.text
        return self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        if self.text is None:
            return f"Payload(digest={self.digest!r})"
        return f"Payload({self.text if len(self.text) <= 60 else self.text[:57] + '…'!r})"


class Document(dict[str, Any]):
    """The parsed map of a payload, which knows it, and so is made JSON once only. Nobody changes it."""

    __slots__ = ("payload",)

    def __init__(self, payload: Payload) -> None:
        super().__init__(payload.value)
        self.payload = payload


#: The empty map, which most tasks have as input or output.
EMPTY: Final = Payload("{}")
EMPTY.value, EMPTY.flat = {}, True


class Revealed(Payload):
    """An input with secrets filled in, as the worker it was made for receives it; it is never stored, and never printed.

    `secrets` are the values in it, `metadata` those of the task definition's `runtimeMetadata`, by name.
    """

    __slots__ = ("metadata", "secrets")

    def __init__(self, text: str, secrets: tuple[Any, ...], metadata: Mapping[str, str]) -> None:
        super().__init__(text)
        self.secrets = secrets
        self.metadata = metadata

    def __repr__(self) -> str:
        return "Revealed(…)"
