"""Whether a document answers a search, and which page of them does: what every index must agree with."""

from __future__ import annotations

from collections.abc import Iterable

from conductorlite.search.asked import Asked
from conductorlite.search.documents import Document
from conductorlite.search.fields import Cell, Kind
from conductorlite.search.query import And, Compare, Condition, Not, Or, Pattern, Value
from conductorlite.search.words import contains

__all__ = ["answer", "matches"]


def answer(documents: Iterable[Document], asked: Asked) -> tuple[int, list[Document]]:
    """How many documents answer, and the page that was asked for, in its order; `with_task` is not looked at."""
    found = [document for document in documents if matches(document, asked)]
    # By the least important first: Python's sort keeps the order of equals.
    for name in reversed(asked.subject.key):
        found.sort(key=lambda document: _rank(document.fields.get(name)))
    for name, descending in reversed(asked.sort):
        found.sort(key=lambda document: _rank(document.fields.get(name)), reverse=descending)
    return len(found), found[asked.start : asked.start + asked.size]


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


def _values(document: Document, condition: Compare) -> list[Cell]:
    field = condition.field
    if field.kind in (Kind.PATH, Kind.MANY):
        return [value for path, value in document.values if path == field.path]
    value = document.fields.get(field.name)
    return [] if value is None else [value]


def _compares(value: Cell, condition: Compare) -> bool:
    operator = condition.operator
    if operator == "EXISTS":
        return True
    if operator == "IN":
        return any(_equals(value, wanted) for wanted in condition.values)
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


def _equals(value: Cell, wanted: Value) -> bool:
    if isinstance(wanted, Pattern):
        return isinstance(value, str) and wanted.fits(value)
    return value == wanted
