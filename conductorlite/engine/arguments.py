"""Arguments of verbs that are not what their parameters say: a sentence in place of an error from somewhere inside.

Looked at only when a call has failed, so a call that goes well pays nothing. What an annotation says in more than names of classes
is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from conductorlite.model.later import inspect
from conductorlite.model.texts import printable

__all__ = ["wrong_argument"]

#: How types are called in sentences.
_WORDS: Final = {"str": "a text", "int": "a whole number", "bool": "True or False", "float": "a number", "None": "None"}

#: Names in annotations that stand for several types.
_ALIASES: Final = frozenset({"Any", "object", "Instant", "Milliseconds", "Seconds", "Source", "Span"})

#: The largest whole number that every store takes.
_LARGEST: Final = 2**63 - 1


def wrong_argument(method: Callable[..., Any], face: object, given: Sequence[Any], options: Mapping[str, Any]) -> str | None:
    """Return a sentence about the argument of a failed call that is not of its parameter's type; None if there is none."""
    try:
        arguments = inspect.signature(method).bind(face, *given, **options).arguments
    except TypeError:
        return None  # another sentence says so
    for name, value in arguments.items():
        names = str(method.__annotations__.get(name, "Any")).split(" | ")
        if not all(one.isidentifier() for one in names) or _ALIASES & {*names}:
            continue
        if type(value) is int and "int" in names and not -_LARGEST <= value <= _LARGEST:
            return f"{name} is {printable(value, 80)}, which is out of range"
        if not _is_of(value, names, method.__globals__):
            wanted = " or ".join(_WORDS.get(one, one) for one in names)
            return f"{name} is {printable(repr(value), 80)}, and not {wanted}{_of_a_flow(value, names)}"
    return None


def _is_of(value: object, names: Sequence[str], known: Mapping[str, object]) -> bool:
    own = {kind.__name__ for kind in type(value).__mro__}
    if value is None:
        own.add("None")
    if isinstance(value, int) and not isinstance(value, bool):
        own.add("float")
    return bool(own & {*names}) or (isinstance(value, str) and any(_reads_text(one, known) for one in names))


def _reads_text(name: str, known: Mapping[str, object]) -> bool:
    """Return True if a text may stand for a value of a type: for a member of an enumeration, and for what is not known here."""
    kind = known.get(name)
    return name not in _WORDS and (not isinstance(kind, type) or issubclass(kind, Enum))


def _of_a_flow(value: Any, names: Collection[str]) -> str:
    """Return what to write where a flow was given in place of something that it has."""
    value = value[0] if isinstance(value, tuple) and value else value
    if not hasattr(value, "starting"):
        return ""
    if "WorkflowSchedule" in names:
        return f": {value.name}.schedule(…) makes one"
    return ": give its `.definition`, or the flow to the engine, Engine(workers=[…])" if "WorkflowDef" in names else ""
