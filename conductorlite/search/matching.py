"""Whether a document answers a search, and which page of them does: what every index must agree with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from conductorlite.search.asked import Asked
from conductorlite.search.documents import Document
from conductorlite.search.fields import Cell, Kind
from conductorlite.search.query import And, Compare, Condition, Not, Or, Value
from conductorlite.search.words import contains

__all__ = ["answer", "matches", "page_of"]

#: Documents that are kept beyond what the page needs, before they are put in order.
_SPARE: Final = 1_000


def answer(documents: Iterable[Document], asked: Asked) -> tuple[int, list[Document]]:
    """How many documents answer, and the page that was asked for, in its order; `with_task` is not looked at."""
    return page_of((document for document in documents if matches(document, asked)), asked)


def page_of(documents: Iterable[Document], asked: Asked) -> tuple[int, list[Document]]:
    """How many documents there are, and the page that was asked for; keeps few more than come up to its end."""
    found: list[Document] = []
    total = 0
    most = asked.start + asked.size
    for document in documents:
        total += 1
        found.append(document)
        if len(found) >= most + _SPARE:
            _sort(found, asked)
            del found[most:]
    _sort(found, asked)
    return total, found[asked.start : most]


def _sort(found: list[Document], asked: Asked) -> None:
    # By the least important first: Python's sort keeps the order of equals.
    for name in reversed(asked.subject.key):
        found.sort(key=lambda document: _rank(document.fields.get(name)))
    for name, descending in reversed(asked.sort):
        found.sort(key=lambda document: _rank(document.fields.get(name)), reverse=descending)


def _rank(value: Cell | None) -> tuple[int, Cell]:
    """Absent, numbers, texts, the rest."""
    if value is None:
        return 0, 0
    return (1, value) if isinstance(value, int | float) else (2, value) if isinstance(value, str) else (3, value)


def matches(document: Document, asked: Asked) -> bool:
    """Whether a document answers a search."""
    return all(contains(document.words, phrase) for phrase in asked.phrases) and (
        asked.condition is None or _holds(document, asked.condition)
    )


def _holds(document: Document, condition: Condition) -> bool:
    if isinstance(condition, And):
        return all(_holds(document, part) for part in condition.parts)
    if isinstance(condition, Or):
        return any(_holds(document, part) for part in condition.parts)
    if isinstance(condition, Not):
        return not _holds(document, condition.part)
    return any(_compares(value, condition) for value in _values(document, condition))


def _values(document: Document, condition: Compare) -> Iterable[Cell]:
    field = condition.field
    if field.kind in (Kind.PATH, Kind.MANY):
        return _inside(document, field.path)
    value = document.fields.get(field.name)
    return () if value is None else (value,)


def _inside(document: Document, wanted: str) -> Iterator[Cell]:
    for path, value in document.values:
        if path == wanted:
            yield value


def _compares(value: Cell, condition: Compare) -> bool:
    operator = condition.operator
    if operator == "EXISTS":
        return True
    if operator == "IN":
        return value in condition.exact or (isinstance(value, str) and any(pattern.fits(value) for pattern in condition.patterns))
    wanted = condition.values[0]
    if operator == "BETWEEN":
        return _stands(value, ">=", wanted) and _stands(value, "<=", condition.values[1])
    if operator == "STARTS_WITH":
        return isinstance(value, str) and isinstance(wanted, str) and value.startswith(wanted)
    return _stands(value, operator, wanted)


def _stands(value: Cell, operator: str, wanted: Value) -> bool:
    """How a value stands to another of its kind."""
    if isinstance(value, str) and isinstance(wanted, str):
        return _ordered((value > wanted) - (value < wanted), operator)
    if isinstance(value, int | float) and isinstance(wanted, int | float):
        return _ordered((value > wanted) - (value < wanted), operator)
    return False


def _ordered(sign: int, operator: str) -> bool:
    return {"<": sign < 0, "<=": sign <= 0, ">": sign > 0, ">=": sign >= 0}[operator]
