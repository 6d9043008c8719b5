"""A search as SQL. Names of tables and columns come from `search.fields`, everything a user wrote is bound."""

from __future__ import annotations

from typing import Final

from conductorlite.backends.index.schema import column
from conductorlite.search import And, Asked, Compare, Condition, Not, Or, Phrase
from conductorlite.search.fields import Cell, Field, Kind
from conductorlite.search.query import Pattern

__all__ = ["Rendered", "rendered"]

#: Fields of an execution under the name by which its tasks know them.
_INHERITED: Final = {"workflowPriority": "priority"}

#: SQLite's order of values is numbers, texts, bytes: where one kind ends the next begins.
_FIRST_TEXT: Final = ""
_FIRST_BYTES: Final = b""


class Rendered:
    """A condition, with what is bound in it, and an order."""

    def __init__(self, asked: Asked) -> None:
        self.bound: list[Cell] = []
        self._subject = asked.subject
        parts: list[str] = []
        if asked.condition is not None:
            parts.append(self._condition(asked.condition))
        if asked.phrases:
            self.bound.append(" AND ".join(map(_matched, asked.phrases)))
            texts = f"{asked.subject.name}_texts_fts"
            parts.append(f"d.id IN (SELECT rowid FROM {texts} WHERE {texts} MATCH ?)")
        if asked.with_task is not None:
            inner = Rendered(asked.with_task)
            self.bound += inner.bound
            parts.append(f"d.workflow_id IN (SELECT d.workflow_id FROM tasks AS d WHERE {inner.condition})")
        self.condition: str = " AND ".join(parts) or "1"
        names = [*asked.sort, *((name, False) for name in asked.subject.key)]
        self.order = ", ".join(f"d.{column(name)}{' DESC' if down else ''}" for name, down in _distinct(names))

    def _condition(self, condition: Condition, *, negated: bool = False) -> str:
        """A condition or its contrary; NOT goes down to the comparisons, for SQLite's parser stands few levels."""
        if isinstance(condition, Not):
            return self._condition(condition.part, negated=not negated)
        if isinstance(condition, And | Or):
            word = " AND " if isinstance(condition, And) is not negated else " OR "
            return f"({word.join(self._condition(part, negated=negated) for part in condition.parts)})"
        # A comparison with what is absent is NULL, which is false here, and its contrary true.
        return f"NOT coalesce({self._comparison(condition)}, 0)" if negated else self._comparison(condition)

    def _comparison(self, condition: Compare) -> str:
        field = condition.field
        if field.kind in (Kind.PATH, Kind.MANY):
            return self._inside(condition, field)
        if field.name in self._subject.inherited:
            name = _INHERITED.get(field.name, field.name)
            compared = self._compared(f"w.{column(name)}", condition, typed=True)
            return f"d.workflow_id IN (SELECT w.workflow_id FROM workflows AS w WHERE {compared})"
        return self._compared(f"d.{column(field.name)}", condition, typed=True)

    def _inside(self, condition: Compare, field: Field) -> str:
        """A comparison with values inside payloads: a range of them."""
        self.bound.append(field.path)
        compared = self._compared("v.value", condition, typed=False)
        path = "(SELECT p.id FROM paths AS p WHERE p.path = ?)"
        return f"d.id IN (SELECT v.id FROM {self._subject.name}_values AS v WHERE v.path = {path} AND {compared})"

    def _compared(self, place: str, condition: Compare, *, typed: bool) -> str:
        """A comparison of one place; `typed`: it holds one kind of values, or nothing."""
        operator = condition.operator
        if operator == "EXISTS":
            return f"{place} IS NOT NULL"
        if operator == "IN":
            return self._among(place, condition)
        value = condition.values[0]
        if operator == "STARTS_WITH":
            return self._beginning(place, value if isinstance(value, str) else "")
        if operator == "BETWEEN":
            self.bound += [one for one in condition.values if not isinstance(one, Pattern)]
            return f"{place} BETWEEN ? AND ?"
        self.bound.append(value if not isinstance(value, Pattern) else "")
        compared = f"{place} {operator} ?"
        if typed:
            return compared
        if isinstance(value, str):
            if operator in ("<", "<="):
                return self._and(compared, f"{place} >= ?", _FIRST_TEXT)
            return self._and(compared, f"{place} < ?", _FIRST_BYTES)
        return compared if operator in ("<", "<=") else self._and(compared, f"{place} < ?", _FIRST_TEXT)

    def _and(self, one: str, other: str, value: Cell) -> str:
        self.bound.append(value)
        return f"({one} AND {other})"

    def _among(self, place: str, condition: Compare) -> str:
        exact = [value for value in condition.values if not isinstance(value, Pattern)]
        parts = []
        if exact:
            self.bound += exact
            parts.append(f"{place} = ?" if len(exact) == 1 else f"{place} IN ({', '.join('?' * len(exact))})")
        for value in condition.patterns:
            if len(value.parts) == 2 and not value.parts[1]:
                parts.append(self._beginning(place, value.parts[0]))
            else:
                beginning = self._beginning(place, value.parts[0])
                self.bound.append("\0".join(value.parts))
                parts.append(f"({beginning} AND fits({place}, ?))")
        return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"

    def _beginning(self, place: str, text: str) -> str:
        """Texts that begin with one are a range."""
        self.bound += [text, _after(text)]
        return f"({place} >= ? AND {place} < ?)"


def rendered(asked: Asked) -> Rendered:
    """A search as SQL on the table `d` of its subject."""
    return Rendered(asked)


def _distinct(names: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    found: dict[str, bool] = {}
    for name, descending in names:
        found.setdefault(name, descending)
    return list(found.items())


def _after(text: str) -> Cell:
    """The least value after all texts that begin with one."""
    kept = text.rstrip("\U0010ffff")
    if not kept:
        return _FIRST_BYTES
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if following == 0xD800 else following)


def _matched(phrase: Phrase) -> str:
    """A phrase as FTS5 takes it: words are letters and digits of ASCII."""
    return f'"{" ".join(phrase.words)}"' + ("*" if phrase.open else "")
