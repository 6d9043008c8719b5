"""Searches in the words of Elasticsearch and OpenSearch: our documents as theirs, our queries as terms and ranges of those.

A value inside a payload is one term, `path NUL kind value`: in their order, that of code points, texts stand as they compare, and
so do numbers, each as the greatest double below it with what is left. So a comparison is one range, and nothing is nested.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from conductorlite.store.documents import TASKS, WORKFLOWS, Cell, Document, Kind, Phrase
from conductorlite.store.query import And, Compare, Condition, Not, Pattern
from conductorlite.store.search import FAILED, Asked, text_after

__all__ = ["FORM", "MAPPING", "document_of", "filters", "number_key", "number_of", "order", "source_of"]

#: Raised whenever what is stored, or how, is changed: older indexes are then built again.
FORM: Final = "1"

Json = dict[str, Any]

_KEYWORD: Final = {"type": "keyword", "ignore_above": 8_191}
_TYPES: Final = {Kind.NUMBER: {"type": "long"}, Kind.TIME: {"type": "long"}}

#: `dynamic: false`: what stands for nothing that is asked for is kept, and not indexed.
MAPPING: Final[Json] = {
    "dynamic": False,
    "properties": {
        "subject": {"type": "keyword"},
        "values": {**_KEYWORD, "doc_values": False},
        "words": {"type": "text", "analyzer": "whitespace", "norms": False},
        **{
            name: _TYPES.get(kind, _KEYWORD)
            for subject in (WORKFLOWS, TASKS)
            for name, kind in subject.fields.items()
            if kind is not Kind.MANY
        },
    },
}

_INT64: Final = 2**63
_NUL: Final = "\0"
_SIGN: Final = 1 << 63
_ALL_BITS: Final = (1 << 64) - 1


def number_key(value: int | float) -> tuple[str, int]:
    """The greatest double up to a number, as a text that sorts as they do, and what is left; the same of 1 and 1.0."""
    near = float(value)
    if near > value:
        near = math.nextafter(near, -math.inf)
    (bits,) = struct.unpack(">Q", struct.pack(">d", near + 0.0))  # 0.0 and -0.0 are one value
    return f"{bits ^ (_ALL_BITS if bits & _SIGN else _SIGN):016x}", 0 if isinstance(value, float) else value - int(near)


def number_of(key: str) -> int | float:
    """The number of such a text, behind which the rest stands in hex; a whole one is an int."""
    bits = int(key[:16], 16)
    (near,) = struct.unpack(">d", struct.pack(">Q", bits ^ (_SIGN if bits & _SIGN else _ALL_BITS)))
    return int(near) + int(key[16:] or "0", 16) if -_INT64 <= near < _INT64 and near.is_integer() else float(near)


def _term(path: str, value: Cell) -> str:
    """One value inside a payload."""
    if isinstance(value, str):
        return f"{path}{_NUL}s{value}"
    if isinstance(value, bytes):
        return f"{path}{_NUL}b{value.decode()}"
    near, rest = number_key(value)
    return f"{path}{_NUL}n{near}{rest:04x}"


def _value_of(term: str) -> tuple[str, Cell]:
    path, _, rest = term.partition(_NUL)
    kind, text = rest[0], rest[1:]
    return path, text if kind == "s" else text.encode() if kind == "b" else number_of(text)


def source_of(document: Document) -> Json:
    """A document as it is stored there. One of an execution stands before its attempts."""
    subject = WORKFLOWS if document.place is None else TASKS
    first: Json = {"referenceTaskName": "", "retryCount": -1} if document.place is None else {}
    fields = {name: value.decode() if isinstance(value, bytes) else value for name, value in document.fields.items()}
    failed = {name: [value for path, value in document.values if path == name] for name in FAILED}
    return {
        **first,
        **fields,
        **{name: texts for name, texts in failed.items() if texts},
        "subject": subject.name,
        "values": list({_term(path, value): None for path, value in document.values}),
        "words": document.words,
        "input": document.input,
        "output": document.output,
    }


def document_of(source: Mapping[str, Any]) -> Document:
    """A document as it was put; with no more values than a summary shows, where those were not asked for."""
    subject = TASKS if source["subject"] == TASKS.name else WORKFLOWS
    fields = {name: source[name] for name, kind in subject.fields.items() if name in source and kind is not Kind.MANY}
    if "archived" in fields:
        fields["archived"] = fields["archived"].encode()
    shown = tuple((name, text) for name in FAILED for text in source.get(name, ()))
    return Document(
        workflow_id=fields["workflowId"],
        place=(fields["referenceTaskName"], fields["retryCount"]) if subject is TASKS else None,
        fields=fields,
        values=tuple(map(_value_of, source["values"])) if "values" in source else shown,
        words=source.get("words", ""),
        input=source["input"],
        output=source["output"],
    )


def order(asked: Asked) -> list[Json]:
    """A sort: what is absent is the least; ties ascend by what identifies."""
    sides = {name: ("desc", "_last") if down else ("asc", "_first") for name, down in asked.order.items()}
    return [{name: {"order": side, "missing": missing}} for name, (side, missing) in sides.items()]


class _TooLong(Exception):
    """A comparison that no server takes; never leaves this file."""


#: Bytes of a bound, or of a pattern: Lucene makes an automaton of it, of a thousand states at most.
_LONGEST: Final = 900


def filters(asked: Asked) -> tuple[list[Json], bool]:
    """Return the filters that an answering document meets, and whether every document that meets them answers; `with_task` is
    ignored.

    What is compared with a text that is too long for a server holds for every document.
    """
    found: list[Json] = [{"term": {"subject": asked.subject.name}}]
    exact = True
    if asked.condition is not None:
        wanted, exact = _condition(asked.condition, negated=False)
        found.append(wanted)
    return found + [_phrase(phrase) for phrase in asked.phrases], exact


def _phrase(phrase: Phrase) -> Json:
    *before, last = phrase.words
    if not phrase.open:
        return {"match_phrase": {"words": " ".join(phrase.words)}} if before else {"term": {"words": last}}
    if not before:
        return {"prefix": {"words": {"value": last}}}
    clauses: list[Json] = [{"span_term": {"words": word}} for word in before]
    clauses.append({"span_multi": {"match": {"prefix": {"words": {"value": last}}}}})
    return {"span_near": {"clauses": clauses, "slop": 0, "in_order": True}}


def _condition(condition: Condition, *, negated: bool) -> tuple[Json, bool]:
    """A condition or its contrary; NOT goes down to the comparisons, for servers take so many levels."""
    if isinstance(condition, Not):
        return _condition(condition.part, negated=not negated)
    if isinstance(condition, Compare):
        try:
            found = _comparison(condition)
        except _TooLong:
            return {"match_all": {}}, False
        return {"bool": {"must_not": [found]}} if negated else found, True
    parts = [_condition(part, negated=negated) for part in condition.parts]
    wanted, exact = [part for part, _ in parts], all(exact for _, exact in parts)
    if isinstance(condition, And) is not negated:
        return {"bool": {"filter": wanted}}, exact
    return {"bool": {"should": wanted, "minimum_should_match": 1}}, exact


def _comparison(condition: Compare) -> Json:
    field = condition.field
    if field.kind in (Kind.PATH, Kind.MANY):
        return _inside(condition, field.path)
    if condition.operator == "EXISTS":
        return {"exists": {"field": field.name}}
    if field.kind in (Kind.NUMBER, Kind.TIME):
        return _of_integers(field.name, condition)
    return _of_texts(field.name, condition, lambda value: value if isinstance(value, str) else _flag(value), "", None)


def _flag(value: Cell) -> str:
    return value.decode() if isinstance(value, bytes) else _NUL


def _inside(condition: Compare, path: str) -> Json:
    if condition.operator == "EXISTS":
        return _range("values", gte=f"{path}{_NUL}", lt=f"{path}\1")
    of_texts = isinstance(condition.values[0], str)
    kind, end = ("s", "t") if of_texts else ("n", "o")
    begin = f"{path}{_NUL}{kind}" if condition.operator != "IN" else f"{path}{_NUL}s"
    return _of_texts("values", condition, lambda value: _term(path, value), begin, f"{path}{_NUL}{end}")


def _of_texts(name: str, condition: Compare, term: Callable[[Cell], str], begin: str, end: str | None) -> Json:
    """A comparison of terms, those between `begin` and `end`."""
    operator, values = condition.operator, condition.values
    exact = [term(value) for value in values if not isinstance(value, Pattern)]
    if operator == "IN":
        parts: list[Json] = [{"terms": {name: exact}}] if exact else []
        parts += [_pattern(name, begin, pattern) for pattern in condition.patterns]
        return parts[0] if len(parts) == 1 else {"bool": {"should": parts, "minimum_should_match": 1}}
    if operator == "STARTS_WITH":
        return _beginning(name, exact[0])
    if operator == "BETWEEN":
        return _range(name, gte=exact[0], lte=exact[1])
    if operator in ("<", "<="):
        return _range(name, **{"gte": begin, "lt" if operator == "<" else "lte": exact[0]})
    return _range(name, **{"gt" if operator == ">" else "gte": exact[0]}, **({} if end is None else {"lt": end}))


def _range(name: str, **bounds: str) -> Json:
    if any(len(bound.encode()) > _LONGEST for bound in bounds.values()):
        raise _TooLong
    return {"range": {name: bounds}}


def _beginning(name: str, text: str) -> Json:
    """Texts that begin with one are a range."""
    after = text_after(text)
    return _range(name, gte=text, **({} if after is None else {"lt": after}))


def _pattern(name: str, begin: str, pattern: Pattern) -> Json:
    if len(pattern.parts) == 2 and not pattern.parts[1]:
        return _beginning(name, begin + pattern.parts[0])
    if sum(len(part.encode()) + 1 for part in (begin, *pattern.parts)) > _LONGEST:
        raise _TooLong
    escaped = [part.replace("\\", "\\\\").replace("*", "\\*").replace("?", "\\?") for part in (begin, *pattern.parts)]
    return {"wildcard": {name: {"value": escaped[0] + "*".join(escaped[1:])}}}


_NOTHING: Final[Json] = {"bool": {"must_not": [{"match_all": {}}]}}


def _of_integers(name: str, condition: Compare) -> Json:
    """A comparison of integers of 64 bits with any numbers."""
    values: Sequence[int | float] = [value for value in condition.values if isinstance(value, int | float)]
    if condition.operator == "IN":
        exact = [int(one) for one in values if one not in (math.inf, -math.inf) and one == int(one) and -_INT64 <= one < _INT64]
        return {"terms": {name: exact}} if exact else _NOTHING
    least, greatest = -_INT64, _INT64 - 1
    if condition.operator in (">", ">=", "BETWEEN"):
        least = max(least, _bound(values[0], up=True, beyond=condition.operator == ">"))
    if condition.operator in ("<", "<=", "BETWEEN"):
        greatest = min(greatest, _bound(values[-1], up=False, beyond=condition.operator == "<"))
    return {"range": {name: {"gte": least, "lte": greatest}}} if least <= greatest else _NOTHING


def _bound(value: int | float, *, up: bool, beyond: bool) -> int:
    """The least integer from a number up, or the greatest from it down; with `beyond` not the number itself."""
    if value in (math.inf, -math.inf):
        return 2 * _INT64 if value > 0 else -2 * _INT64
    whole = math.ceil(value) if up else math.floor(value)
    return whole + (1 if up else -1) if beyond and whole == value else whole
