"""What is found of an execution or an attempt: its fields, the values inside its input and output, its words.

Bounded, so that one large payload costs no more than a few small ones: of a payload longer than 256 KiB nothing is looked into,
of the others the first 256 values, down to 12 levels and with paths of up to 1,024 characters, and the first 2,000 words.

Which fields executions and tasks are found by. Names are those of Conductor's WorkflowSummary and TaskSummary.

Free text: what counts as a word, and what is asked of the words of a document.

A word is a run of alphabetic characters and digits, without case and accents; each sign of a script without spaces is a word of its
own. Words are kept as ASCII (`é` is `e`, `я` is `z44fz`), so that every index that splits at spaces keeps them as they are.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import islice
from typing import Final

import attrs

from conductorlite.language.values import double
from conductorlite.model.canonical import Payload
from conductorlite.model.errors import InvalidQuery
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.later import pattern
from conductorlite.model.statuses import TaskStatus, WorkflowStatus

__all__ = [
    "BREAK",
    "IDS",
    "TASKS",
    "WORKFLOWS",
    "Cell",
    "Document",
    "Field",
    "Kind",
    "Phrase",
    "Subject",
    "cell",
    "contains",
    "free_text",
    "joined",
    "path_of",
    "shown",
    "task_document",
    "words_of",
    "workflow_document",
]

#: What a document holds in one place: bytes stand for true, false, a map or a list, which compare with nothing but themselves.
Cell = str | int | float | bytes

#: Characters of a text that are compared; what comes after them does not count.
MAX_TEXT: Final = 1_024

#: Fields that name something: whole, as they are, so that what is found by them is what they name.
IDS: Final = frozenset({"workflowId", "taskId", "referenceTaskName", "parentWorkflowId", "subWorkflowId"})

_INT64: Final = 2**63


class Kind(StrEnum):
    """The kind of value that a field holds."""

    TEXT = "text"
    NUMBER = "number"
    #: Epoch ms; absent until it has come.
    TIME = "time"
    FLAG = "flag"
    #: Several texts.
    MANY = "texts"
    #: A value inside the input or the output.
    PATH = "path"


@attrs.frozen(slots=True, repr=False)
class Field:
    """A field as a query names it; of a PATH or a MANY, `path` is where its values are."""

    name: str
    kind: Kind
    path: str = ""


@attrs.frozen(kw_only=True, slots=True, repr=False)
class Subject:
    """The subject of a search: executions or tasks."""

    name: str
    fields: Mapping[str, Kind]
    #: Other names of fields.
    aliases: Mapping[str, str]
    #: Fields that hold one of a few texts.
    choices: Mapping[str, type[StrEnum]]
    #: Fields of the execution a task belongs to: they may change without it.
    inherited: frozenset[str] = frozenset()
    #: What breaks ties: what identifies a document.
    key: tuple[str, ...] = ()

    def field(self, name: str) -> Field | None:
        """A field by its name or another name of it."""
        name = self.aliases.get(name, name)
        kind = self.fields.get(name)
        return None if kind is None else Field(name, kind, name if kind is Kind.MANY else "")


WORKFLOWS: Final = Subject(
    name="workflows",
    fields={
        "workflowId": Kind.TEXT,
        "workflowType": Kind.TEXT,
        "version": Kind.NUMBER,
        "status": Kind.TEXT,
        "correlationId": Kind.TEXT,
        "startTime": Kind.TIME,
        "updateTime": Kind.TIME,
        "endTime": Kind.TIME,
        "executionTime": Kind.NUMBER,
        "reasonForIncompletion": Kind.TEXT,
        "event": Kind.TEXT,
        "priority": Kind.NUMBER,
        "createdBy": Kind.TEXT,
        "idempotencyKey": Kind.TEXT,
        "parentWorkflowId": Kind.TEXT,
        "archived": Kind.FLAG,
        "failedReferenceTaskNames": Kind.MANY,
        "failedTaskNames": Kind.MANY,
    },
    aliases={"name": "workflowType", "workflowName": "workflowType", "workflowVersion": "version", "createTime": "startTime"},
    choices={"status": WorkflowStatus},
    key=("workflowId",),
)

TASKS: Final = Subject(
    name="tasks",
    fields={
        "taskId": Kind.TEXT,
        "referenceTaskName": Kind.TEXT,
        "taskDefName": Kind.TEXT,
        "taskType": Kind.TEXT,
        "status": Kind.TEXT,
        "workflowId": Kind.TEXT,
        "workflowType": Kind.TEXT,
        "workflowPriority": Kind.NUMBER,
        "correlationId": Kind.TEXT,
        "scheduledTime": Kind.TIME,
        "startTime": Kind.TIME,
        "updateTime": Kind.TIME,
        "endTime": Kind.TIME,
        "executionTime": Kind.NUMBER,
        "queueWaitTime": Kind.NUMBER,
        "reasonForIncompletion": Kind.TEXT,
        "domain": Kind.TEXT,
        "workerId": Kind.TEXT,
        "retryCount": Kind.NUMBER,
        "iteration": Kind.NUMBER,
        "subWorkflowId": Kind.TEXT,
        "errorType": Kind.MANY,
    },
    aliases={"workflowName": "workflowType", "workflowInstanceId": "workflowId", "name": "taskDefName"},
    choices={"status": TaskStatus},
    inherited=frozenset({"workflowType", "workflowPriority", "correlationId"}),
    key=("workflowId", "referenceTaskName", "retryCount"),
)


def cell(value: object) -> Cell | None:
    """A JSON value as it is compared: texts cut, large integers as doubles; None for null and for what is no JSON."""
    if value is None:
        return None
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, str):
        return value[:MAX_TEXT].replace("\0", "\ufffd")
    if isinstance(value, int):
        return value if -_INT64 <= value < _INT64 else double(value)
    if isinstance(value, float):
        return value
    return b"{" if isinstance(value, Mapping) else b"["


#: A word that no search can ask for: it keeps phrases from reaching out of one value into the next.
BREAK: Final = "\u00a6"

#: Characters of a word that count, of a free text that are taken, and how many words may be asked for.
_WORD: Final = 64
_MAX_FREE_TEXT: Final = 10_000
_MAX_WORDS: Final = 100

#: Characters of which it is kept what they are without case and accents.
_REMEMBERED: Final = 10_000

_PLAIN: Final = pattern(r"[a-z0-9]+")
#: Han, kana, Thai, Lao, Khmer, Burmese: written without spaces.
_ALONE: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_FOLDED: Final = pattern(rf"(?=[^\W_])[{_ALONE}]|[^\W_{_ALONE}]+")
_ASKED: Final = pattern(r'"([^"]*)("|$)(\*?)|([^\s"]+)')


@attrs.frozen(slots=True, repr=False)
class Phrase:
    """Words that follow one another; with `open`, the last one may go on."""

    words: tuple[str, ...]
    open: bool = False


class _Bare(dict[int, str]):
    """Characters without case and accents, each by itself: a text folded as a whole sorts its accents, in quadratic time."""

    def __missing__(self, code: int) -> str:
        folded = unicodedata.normalize("NFKD", chr(code).casefold())
        bare = "".join(sign for sign in folded if not unicodedata.combining(sign))
        if len(self) < _REMEMBERED:
            self[code] = bare
        return bare


_BARE: Final = _Bare()


def words_of(text: str, most: int | None = None) -> list[str]:
    """The words of a text, in order; with `most` no more than the first ones."""
    return list(islice(_words(text), most))


def _words(text: str) -> Iterator[str]:
    if text.isascii():
        yield from (match.group()[:_WORD] for match in _PLAIN.finditer(text.lower()))
    else:
        yield from (_ascii(match.group())[:_WORD] for match in _FOLDED.finditer(text.translate(_BARE)))


def _ascii(word: str) -> str:
    return word if word.isascii() else "".join(sign if sign.isascii() else f"z{ord(sign):x}z" for sign in word[:_WORD])


def joined(pieces: list[list[str]]) -> str:
    """The words of several values as one text, with breaks between them."""
    return f" {BREAK} ".join(" ".join(words) for words in pieces if words)


def contains(words: str, phrase: Phrase) -> bool:
    """Return True if a joined text holds a phrase."""
    wanted = " " + " ".join(phrase.words)
    return (wanted if phrase.open else wanted + " ") in f" {words} "


def free_text(text: str) -> tuple[Phrase, ...]:
    """Return the terms of a free text, all of which a document must hold: words, `"phrases"`, `beginnings*`. Empty, or `*`: none.

    A word with punctuation inside (`order-42`) is a phrase. Raises InvalidQuery for an open quote, what has no letters or digits,
    and for more than 10,000 characters or 100 words.
    """
    if len(text) > _MAX_FREE_TEXT:
        raise InvalidQuery(f"the free text has more than {_MAX_FREE_TEXT:,} characters", _MAX_FREE_TEXT)
    if text.strip() in ("", "*"):
        return ()
    found: list[Phrase] = []
    for match in _ASKED.finditer(text):
        quoted, end, star, bare = match.groups()
        if quoted is not None and not end:
            raise InvalidQuery("a phrase has no closing quote", match.start())
        asked = quoted if bare is None else bare.removesuffix("*")
        words = tuple(words_of(asked, _MAX_WORDS + 1))
        if not words:
            raise InvalidQuery("there are no letters or digits to look for", match.start())
        found.append(Phrase(words, open=bool(star) if bare is None else bare.endswith("*")))
        if sum(len(phrase.words) for phrase in found) > _MAX_WORDS:
            raise InvalidQuery(f"the free text asks for more than {_MAX_WORDS} words", match.start())
    return tuple(found)


_MAX_PAYLOAD: Final = 256 * 1024
_MAX_VALUES: Final = 256
_MAX_LEVELS: Final = 12
#: Characters of a path: one name would be repeated in the path of each value below it.
_MAX_PATH: Final = 1_024
_MAX_DOCUMENT_WORDS: Final = 2_000
_SEVERAL: Final = frozenset(name for name, kind in WORKFLOWS.fields.items() if kind is Kind.MANY)
#: Characters of an input or output that a summary repeats.
_MAX_SHOWN: Final = 4_096

_ESCAPED: Final = str.maketrans({"\\": "\\\\", ".": "\\.", "[": "\\[", "\0": "\ufffd"})


@attrs.frozen(kw_only=True, slots=True)
class Document:
    """An execution or an attempt as it is found. `fields` holds what is not absent; `values` the pairs of path and value.

    `input` and `output` are their JSON texts, or None when they are too long to be repeated in a summary.
    """

    workflow_id: str
    #: Of an attempt: its printed reference and number.
    place: tuple[str, int] | None = None
    fields: Mapping[str, Cell]
    values: tuple[tuple[str, Cell], ...]
    words: str
    input: str | None
    output: str | None


def workflow_document(row: Workflow, *, archived: bool = False, words: bool = True) -> Document:
    """An execution as it is found; its payloads must be there. Without `words` it is found by no free text."""
    fields = {
        "workflowId": row.workflow_id,
        "workflowType": row.name,
        "version": row.version,
        "status": row.status.value,
        "correlationId": row.correlation_id,
        "startTime": row.created_at or None,
        "updateTime": row.updated_at or None,
        "endTime": row.ended_at or None,
        "executionTime": max(0, row.ended_at - row.created_at) if row.ended_at else None,
        "reasonForIncompletion": row.conductor_reason or row.reason,
        "event": row.event,
        "priority": row.priority,
        "createdBy": row.created_by,
        "idempotencyKey": row.idempotency_key,
        "parentWorkflowId": row.parent_workflow_id,
        "archived": archived,
    }
    failed = [("failedReferenceTaskNames", cell(ref)) for ref in row.failed_refs]
    failed += [("failedTaskNames", cell(name)) for name in row.failed_task_names]
    said = (row.workflow_id, row.name, row.status.value, row.correlation_id, row.reason, row.conductor_reason)
    texts = (*said, row.created_by, row.idempotency_key, *row.failed_refs) if words else None
    return _document(row.workflow_id, None, fields, failed, texts, row.input, row.output)


def task_document(task: Task, row: Workflow, *, words: bool = True) -> Document:
    """An attempt as it is found, with what it inherits from its execution; its payloads must be there."""
    fields = {
        "taskId": task.task_id,
        "referenceTaskName": task.ref,
        "taskDefName": task.name or task.task_type,
        "taskType": task.task_type,
        "status": task.status.value,
        "workflowId": task.workflow_id,
        "workflowType": row.name,
        "workflowPriority": row.priority,
        "correlationId": row.correlation_id,
        "scheduledTime": task.scheduled_at or None,
        "startTime": task.started_at or None,
        "updateTime": task.updated_at or None,
        "endTime": task.ended_at or None,
        "executionTime": max(0, task.ended_at - task.started_at) if task.ended_at and task.started_at else None,
        "queueWaitTime": max(0, task.started_at - task.scheduled_at) if task.started_at else None,
        "reasonForIncompletion": task.conductor_reason or task.reason,
        "domain": task.domain,
        "workerId": task.worker_id,
        "retryCount": task.attempt,
        "iteration": task.iteration,
        "subWorkflowId": task.sub_workflow_id,
    }
    raised = [("errorType", cell(name)) for name in task.error_types]
    names = (task.task_id, task.ref, task.name, task.task_type, task.status.value)
    said = (*names, task.workflow_id, task.reason, task.conductor_reason, task.worker_id, *task.error_types)
    return _document(task.workflow_id, (task.ref, task.attempt), fields, raised, said if words else None, task.input, task.output)


def _document(
    workflow_id: str,
    place: tuple[str, int] | None,
    fields: Mapping[str, object],
    more: list[tuple[str, Cell | None]],
    said: tuple[str | None, ...] | None,
    given: Payload,
    output: Payload,
) -> Document:
    words = [words_of(text[:_MAX_PAYLOAD]) for text in said or () if text]
    values = [(path, value) for path, value in more if value is not None]
    for root, payload in (("input", given), ("output", output)):
        text = payload.text if payload.external is None else None  # whether it was read already makes no difference
        if text is None or len(text) > _MAX_PAYLOAD:
            continue
        value = payload.fresh()  # a search looks at every execution: what it parses must not stay
        values += _values(root, value)
        if said is not None:
            words += _document_words(value)
    kept = {name: value if name in IDS and isinstance(value, str) else cell(value) for name, value in fields.items()}
    return Document(
        workflow_id=workflow_id,
        place=place,
        fields={name: value for name, value in kept.items() if value is not None},
        values=tuple(dict.fromkeys(values)),
        words=joined(words),
        input=_shown(given),
        output=_shown(output),
    )


def shown(document: Document) -> Document:
    """A document without what is only for finding it."""
    several = tuple(one for one in document.values if one[0] in _SEVERAL)
    return attrs.evolve(document, values=several, words="")


def _shown(payload: Payload) -> str | None:
    text = payload.text if payload.external is None else None
    return text if text is not None and len(text) <= _MAX_SHOWN else None


def path_of(steps: tuple[str | int | None, ...]) -> str:
    """A path as documents keep it: names, places in lists, and None for any place."""
    return "".join(
        f".{step.translate(_ESCAPED)}" if isinstance(step, str) else "[*]" if step is None else f"[{step}]" for step in steps
    )


def _values(root: str, value: object) -> Iterator[tuple[str, Cell]]:
    """Values by their path; those in lists also by the path with any place for theirs."""
    waiting: list[tuple[str, str, object, int]] = [(root, root, value, 0)]
    found = 0
    while waiting and found < _MAX_VALUES:
        exact, loose, one, level = waiting.pop()
        kept = cell(one)
        if kept is not None and level:
            found += 1
            yield exact, kept
            if loose != exact:
                yield loose, kept
        if level == _MAX_LEVELS:
            continue
        if isinstance(one, Mapping):
            inner = [(step, step, item) for key, item in islice(one.items(), _MAX_VALUES) if (step := _step(key, exact))]
        elif isinstance(one, list):
            inner = [(f"[{n}]", "[*]", item) for n, item in enumerate(one[:_MAX_VALUES])]
        else:
            continue
        waiting += [(exact + step, loose + any_step, item, level + 1) for step, any_step, item in reversed(inner)]


def _step(key: str, above: str) -> str:
    """The path to a value of a map from the map; empty when the whole one is too long."""
    step = path_of((key,)) if len(above) + len(key) < _MAX_PATH else ""
    return step if len(above) + len(step) <= _MAX_PATH else ""


def _document_words(value: object) -> Iterator[list[str]]:
    """Words of names and values, value by value."""
    waiting: list[object] = [value]
    left = _MAX_DOCUMENT_WORDS
    while waiting and left > 0:
        one = waiting.pop()
        if isinstance(one, Mapping):
            waiting += [item for pair in reversed(list(one.items())) for item in reversed(pair)]
        elif isinstance(one, list):
            waiting += reversed(one)
        elif one is not None:
            words = words_of(_text(one), left)
            left -= len(words)
            yield words


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        return str(value)
    except ValueError:  # Python refuses integers past 4,300 digits
        return ""
