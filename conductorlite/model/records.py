"""Records: frozen objects of many fields, made and copied by plain assignments.

attrs writes each field of a frozen object with a call. A step makes some twenty objects of up to sixty fields, and that was a
third of its time. So an object of a record is made as attrs makes one that is not frozen: it is of a subclass that can be written
meanwhile, and the last assignment makes it what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, TypeVar

import attrs

__all__ = ["changed", "freeze", "record", "thaw", "writable_copy"]

Record = TypeVar("Record")

_set_class: Final = object.__dict__["__class__"].__set__

#: The subclass that can be written, and the record, by either of them.
_WRITABLE: Final[dict[type, type]] = {}
_FROZEN: Final[dict[type, type]] = {}

#: What copies an object into one that can be written: made when the first one is copied.
_COPIERS: Final[dict[type, Callable[[Any], Any]]] = {}


def record(kind: type[Record]) -> type[Record]:
    """Have a frozen, slotted attrs class made by plain assignments; it has neither converters nor validators."""
    writes = {"__slots__": (), "__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    writable = type(kind.__name__, (kind,), writes)

    def begin(self: object) -> None:
        _set_class(self, writable)

    def end(self: object) -> None:
        self.__class__ = kind

    made: Any = kind
    made.__attrs_pre_init__, made.__attrs_post_init__ = begin, end
    made.__init__ = _init(kind, kw_only=True, __attrs_pre_init__=begin, __attrs_post_init__=end)
    _WRITABLE[kind] = _WRITABLE[writable] = writable
    _FROZEN[kind] = _FROZEN[writable] = kind
    return kind


def _init(kind: type, *, kw_only: bool, **around: Callable[[object], None]) -> Callable[..., None]:
    """What attrs has for `__init__` of a class with these fields that is not frozen."""
    fields = {field.name: attrs.field(default=field.default, type=field.type) for field in attrs.fields(kind)}
    made: Any = attrs.make_class(kind.__name__, {**fields, **around}, slots=False, kw_only=kw_only, eq=False, repr=False)
    init: Callable[..., None] = made.__init__
    return init


def _copier(kind: type) -> Callable[[Any], Any]:
    writable, init = _WRITABLE[kind], _init(kind, kw_only=False)
    read = attrgetter(*(field.name for field in attrs.fields(kind)))

    def copied(row: object) -> object:
        copy: object = object.__new__(writable)
        init(copy, *read(row))
        return copy

    _COPIERS[kind] = copied
    return copied


def writable_copy(row: Record) -> Record:
    """A copy of a record that can be written, with `setattr`, until it is frozen."""
    kind = type(row)
    copy: Record = (_COPIERS.get(kind) or _copier(kind))(row)
    return copy


def thaw(row: Record) -> Record:
    """A record that nobody else has seen yet, to be written."""
    _set_class(row, _WRITABLE[type(row)])
    return row


def freeze(row: Record) -> Record:
    """A copy that is not written any more: the record it is from now on."""
    row.__class__ = _FROZEN[type(row)]
    return row


def changed(row: Record, **fields: object) -> Record:
    """A record with other values in some fields; raises AttributeError for a name that is no field's."""
    copy = writable_copy(row)
    for name, value in fields.items():
        setattr(copy, name, value)
    return freeze(copy)
