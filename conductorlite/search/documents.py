"""What is found of an execution or an attempt: its fields, the values inside its input and output, its words.

Bounded, so that one large payload costs no more than a few small ones: of a payload longer than 256 KiB nothing is looked into,
of the others the first 256 values, down to 12 levels and with paths of up to 1,024 characters, and the first 2,000 words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

import attrs

from conductorlite.canonical import Payload
from conductorlite.executions import Task, Workflow
from conductorlite.search.fields import IDS, WORKFLOWS, Cell, Kind, cell
from conductorlite.search.words import joined, words_of

__all__ = ["Document", "path_of", "shown", "task_document", "workflow_document"]

_MAX_PAYLOAD: Final = 256 * 1024
_MAX_VALUES: Final = 256
_MAX_LEVELS: Final = 12
#: Characters of a path: one name would be repeated in the path of each value below it.
_MAX_PATH: Final = 1_024
_MAX_WORDS: Final = 2_000
_SEVERAL: Final = frozenset(name for name, kind in WORKFLOWS.fields.items() if kind is Kind.MANY)
#: Characters of an input or output that a summary repeats.
_MAX_SHOWN: Final = 4_096

_ESCAPED: Final = str.maketrans({"\\": "\\\\", ".": "\\.", "[": "\\[", "\0": "\N{REPLACEMENT CHARACTER}"})


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


def workflow_document(row: Workflow, *, archived: bool = False) -> Document:
    """An execution as it is found; its payloads must be there."""
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
        "reasonForIncompletion": row.reason,
        "event": row.event,
        "priority": row.priority,
        "createdBy": row.created_by,
        "idempotencyKey": row.idempotency_key,
        "parentWorkflowId": row.parent_workflow_id,
        "archived": archived,
    }
    failed = [("failedReferenceTaskNames", cell(ref)) for ref in row.failed_refs]
    failed += [("failedTaskNames", cell(name)) for name in row.failed_task_names]
    said = (row.workflow_id, row.name, row.status.value, row.correlation_id, row.reason, row.created_by, row.idempotency_key)
    return _document(row.workflow_id, None, fields, failed, (*said, *row.failed_refs), row.input, row.output)


def task_document(task: Task, row: Workflow) -> Document:
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
        "reasonForIncompletion": task.reason,
        "domain": task.domain,
        "workerId": task.worker_id,
        "retryCount": task.attempt,
        "iteration": task.iteration,
        "subWorkflowId": task.sub_workflow_id,
    }
    said = (task.task_id, task.ref, task.name, task.task_type, task.status.value, task.workflow_id, task.reason, task.worker_id)
    return _document(task.workflow_id, (task.ref, task.attempt), fields, [], said, task.input, task.output)


def _document(
    workflow_id: str,
    place: tuple[str, int] | None,
    fields: Mapping[str, object],
    more: list[tuple[str, Cell | None]],
    said: tuple[str | None, ...],
    given: Payload,
    output: Payload,
) -> Document:
    words = [words_of(text[:_MAX_PAYLOAD]) for text in said if text]
    values = [(path, value) for path, value in more if value is not None]
    for root, payload in (("input", given), ("output", output)):
        text = payload.text
        if text is None or len(text) > _MAX_PAYLOAD:
            continue
        value = payload.fresh()  # a search looks at every execution: what it parses must not stay
        values += _values(root, value)
        words += _words(value)
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
    return payload.text if payload.text is not None and len(payload.text) <= _MAX_SHOWN else None


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


def _words(value: object) -> Iterator[list[str]]:
    """Words of names and values, value by value."""
    waiting: list[object] = [value]
    left = _MAX_WORDS
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
