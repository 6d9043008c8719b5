"""Whether a document answers a search, and which page of them does: what every index must agree with.

What a search returns.

What a search asks, read and checked: query, free text, sort, page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from operator import ge, gt, le, lt
from typing import Any, Final, Generic, TypeVar

import attrs

from conductorlite.model.errors import InvalidInput, InvalidQuery
from conductorlite.model.texts import InNotebook, did_you_mean, printable
from conductorlite.store.documents import Cell, Document, Field, Kind, Phrase, Subject, contains, free_text
from conductorlite.store.query import And, Compare, Condition, Not, Or, Value, parse_query

__all__ = [
    "FAILED",
    "MAX_SIZE",
    "Asked",
    "SearchResult",
    "TaskSummary",
    "WorkflowSummary",
    "answer",
    "asked",
    "column",
    "known_sort",
    "matches",
    "page_of",
    "summary",
    "task_summary",
    "text_after",
    "workflow_summary",
]

#: Fields of executions that hold several texts.
FAILED: Final = ("failedReferenceTaskNames", "failedTaskNames")

#: Results of one page: Conductor's limit.
MAX_SIZE: Final = 5_000

#: A page may begin here at the latest, and a sort have so many fields.
_MAX_START: Final = 2**31
_MAX_FIELDS: Final = 10

_DEFAULT: Final = {"workflows": (("startTime", True),), "tasks": (("scheduledTime", True),)}


@attrs.frozen(kw_only=True, slots=True)
class Asked:
    """A search as an index takes it: `sort` are names of fields, each with whether it descends; ties ascend by what identifies."""

    subject: Subject
    condition: Condition | None = None
    phrases: tuple[Phrase, ...] = ()
    sort: tuple[tuple[str, bool], ...] = ()
    #: Only executions that have a task that answers this.
    with_task: Asked | None = None
    start: int = 0
    size: int = 100

    @property
    def order(self) -> dict[str, bool]:
        """The fields of the sort and what identifies, each with whether it descends."""
        found: dict[str, bool] = {}
        for name, descends in (*self.sort, *((name, False) for name in self.subject.key)):
            found.setdefault(name, descends)
        return found


def asked(subject: Subject, query: str, free: str, start: int, size: int, sort: str) -> Asked:
    """Read a search. Raises InvalidQuery, and InvalidInput for what is no text and for a page out of range."""
    for what, text in (("query", query), ("free text", free), ("sort", sort)):
        if not isinstance(text, str):
            raise InvalidInput(f"the {what} {printable(text, 80)} is no text")
    for what, number, most in (("start", start, _MAX_START), ("size", size, MAX_SIZE)):
        # What is no whole number would look to an index like a file that is damaged.
        if not isinstance(number, int) or not 0 <= number <= most:
            raise InvalidInput(f"{what} {printable(number, 80)} is not a whole number between 0 and {most}")
    return Asked(
        subject=subject,
        condition=parse_query(query, subject),
        phrases=free_text(free),
        sort=_sort_order(sort, subject) or _DEFAULT[subject.name],
        start=start,
        size=size,
    )


def known_sort(text: str, subject: Subject) -> str:
    """A sort without the fields by which nothing is ordered, which Conductor's server passes over."""
    return "|".join(part for part in text.split("|") if _orders(part, subject))


def _orders(part: str, subject: Subject) -> bool:
    try:
        return bool(_sort_order(part, subject))
    except InvalidInput:
        return False


def _sort_order(text: str, subject: Subject) -> tuple[tuple[str, bool], ...]:
    """`field:ASC|field:DESC`; without a direction ascending."""
    found: list[tuple[str, bool]] = []
    at = 0
    for part in text.split("|") if text.strip() else ():
        name, _, direction = (piece.strip() for piece in part.partition(":"))
        field = subject.field(name)
        if field is None or field.kind is Kind.MANY or field.name in subject.inherited:
            meant = did_you_mean(name, (*subject.fields, *subject.aliases)) if field is None else ""
            raise InvalidQuery(f"{subject.name} are not sorted by {name[:40]!r}{meant}", at)
        if direction.upper() not in ("", "ASC", "DESC"):
            raise InvalidQuery(f"{direction[:40]!r} is neither ASC nor DESC{did_you_mean(direction, ('ASC', 'DESC'))}", at)
        found.append((field.name, direction.upper() == "DESC"))
        if len(found) > _MAX_FIELDS:
            raise InvalidQuery(f"the sort has more than {_MAX_FIELDS} fields", at)
        at += len(part) + 1
    return tuple(found)


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
    for name, descending in reversed(asked.order.items()):
        found.sort(key=lambda document: _rank(document.fields.get(name)), reverse=descending)


def _rank(value: Cell | None) -> tuple[int, Cell]:
    """Absent, numbers, texts, the rest."""
    if value is None:
        return 0, 0
    return (1, value) if isinstance(value, int | float) else (2, value) if isinstance(value, str) else (3, value)


def matches(document: Document, asked: Asked) -> bool:
    """Return True if a document answers a search."""
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
    return any(_compares(value, condition) for value in _values(document, condition.field))


def _values(document: Document, field: Field) -> Iterator[Cell]:
    if field.kind in (Kind.PATH, Kind.MANY):
        yield from (value for path, value in document.values if path == field.path)
    elif field.name in document.fields:
        yield document.fields[field.name]


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


_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


def _stands(value: Cell, operator: str, wanted: Value) -> bool:
    """How a value stands to another of its kind."""
    texts = isinstance(value, str) and isinstance(wanted, str)
    numbers = isinstance(value, int | float) and isinstance(wanted, int | float)
    return (texts or numbers) and _ORDERS[operator](value, wanted)


@attrs.frozen(kw_only=True, slots=True)
class WorkflowSummary:
    """Conductor's WorkflowSummary of an execution. Instants are epoch ms and None until they have come, spans ms.

    `input` and `output` are JSON, or None when they are longer than 4,096 characters. `archived`: it left the store.
    """

    workflow_id: str
    workflow_type: str
    version: int
    status: str
    correlation_id: str | None = None
    start_time: int | None = None
    update_time: int | None = None
    end_time: int | None = None
    execution_time: int | None = None
    reason_for_incompletion: str | None = None
    event: str | None = None
    priority: int = 0
    created_by: str | None = None
    idempotency_key: str | None = None
    parent_workflow_id: str | None = None
    failed_reference_task_names: tuple[str, ...] = ()
    failed_task_names: tuple[str, ...] = ()
    archived: bool = False
    input: str | None = None
    output: str | None = None


@attrs.frozen(kw_only=True, slots=True)
class TaskSummary:
    """Conductor's TaskSummary of an attempt. Instants are epoch ms and None until they have come, spans ms.

    `input` and `output` are JSON, or None when they are longer than 4,096 characters.
    """

    task_id: str
    reference_task_name: str
    task_def_name: str
    task_type: str
    status: str
    workflow_id: str
    workflow_type: str
    workflow_priority: int = 0
    correlation_id: str | None = None
    scheduled_time: int | None = None
    start_time: int | None = None
    update_time: int | None = None
    end_time: int | None = None
    execution_time: int | None = None
    queue_wait_time: int | None = None
    reason_for_incompletion: str | None = None
    domain: str | None = None
    worker_id: str | None = None
    retry_count: int = 0
    iteration: int = 0
    sub_workflow_id: str | None = None
    input: str | None = None
    output: str | None = None


S = TypeVar("S", WorkflowSummary, TaskSummary)


@attrs.frozen(kw_only=True, slots=True)
class SearchResult(InNotebook, Generic[S]):
    """A page of what answers a search, and how much does in all.

    `behind` is how many executions an external index does not know as they are, counted up to 1,000; 0 when the answer holds all
    that was committed before.
    """

    total_hits: int
    results: tuple[S, ...]
    behind: int = 0


def workflow_summary(
    fields: Mapping[str, Cell], failed: Mapping[str, tuple[str, ...]], input: str | None, output: str | None
) -> WorkflowSummary:
    """A summary of the fields of a document."""
    cells = {column(name): value for name, value in fields.items() if name != "archived"}
    more = {column(name): texts for name, texts in failed.items()}
    known: Any = {**cells, **more, "archived": fields.get("archived") == b"true", "input": input, "output": output}
    return WorkflowSummary(**known)


def summary(document: Document) -> WorkflowSummary:
    """The summary of an execution's document."""
    failed = {name: tuple(sorted(str(one) for path, one in document.values if path == name)) for name in FAILED}
    return workflow_summary(document.fields, failed, document.input, document.output)


def task_summary(fields: Mapping[str, Cell], input: str | None, output: str | None) -> TaskSummary:
    """A summary of the fields of a document."""
    known: Any = {column(name): value for name, value in fields.items()}
    return TaskSummary(**known, input=input, output=output)


def text_after(text: str) -> str | None:
    """The least text after all that begin with one; None where there is none."""
    kept = text.rstrip("\U0010ffff")
    return kept[:-1] + chr(0xE000 if kept[-1] == "\ud7ff" else ord(kept[-1]) + 1) if kept else None


@cache
def column(name: str) -> str:
    """The name of a field of `store.documents` in a summary, and its column in an index: nothing a user wrote ever becomes one."""
    return "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in name)
