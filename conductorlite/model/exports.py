"""An execution as one JSON document, with all that is needed to live it again.

The document holds the definitions by hash, what the execution and those below it were started with, and their journals, in
which each line that something from outside led to says so (`HistoryEvent.cause`). It holds no fence and no lease.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from conductorlite.model.canonical import Payload, canonical, digest, parse
from conductorlite.model.decisions import EventKind
from conductorlite.model.definitions import Semantics
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import HistoryEvent, HistoryKind, Workflow

__all__ = [
    "EXPORT_FORMAT",
    "EXPORT_VERSION",
    "Exported",
    "definitions_in",
    "export_from_json",
    "export_to_json",
    "history_line_to_json",
]

#: What the document says it is.
EXPORT_FORMAT: Final = "conductorlite/execution"

#: Version of the document; another one is refused.
EXPORT_VERSION: Final = 1


@attrs.frozen(kw_only=True, slots=True)
class Exported:
    """What a document holds: each execution as it was started, the exported one first, and its journal."""

    workflow_id: str
    #: Limits of one turn: steps of the work list, and new rows.
    steps: int
    rows: int
    #: Hard barriers that the document names, in KB, by their names.
    barriers: Mapping[str, int]
    #: Texts of the definitions, by hash.
    definitions: Mapping[str, str]
    executions: Mapping[str, Workflow]
    histories: Mapping[str, tuple[HistoryEvent, ...]]


#: Name in the document, field of the row, type of the value; those with a default may be absent.
_ROW: Final[tuple[tuple[str, str, type], ...]] = (
    ("workflowId", "workflow_id", str),
    ("workflowName", "name", str),
    ("workflowVersion", "version", int),
    ("definitionHash", "definition_hash", str),
    ("semantics", "semantics", str),
    ("deciderVersion", "decider_version", int),
    ("seed", "seed", str),
    ("createTime", "created_at", int),
    ("correlationId", "correlation_id", str),
    ("priority", "priority", int),
    ("createdBy", "created_by", str),
    ("idempotencyKey", "idempotency_key", str),
    ("taskToDomain", "task_to_domain", dict),
    ("input", "input", dict),
    ("parentWorkflowId", "parent_workflow_id", str),
    ("parentWorkflowTaskId", "parent_task_id", str),
    ("parentReferenceName", "parent_ref", str),
    ("parentRetryCount", "parent_attempt", int),
    ("parentGeneration", "parent_generation", int),
    ("depth", "depth", int),
    ("event", "event", str),
    ("limitKeys", "outer_keys", list),
)
_OPTIONAL: Final = frozenset(
    {"correlation_id", "created_by", "idempotency_key", "parent_workflow_id", "parent_task_id", "parent_ref", "event", "outer_keys"}
)
_LINE: Final[tuple[tuple[str, str, type], ...]] = (
    ("n", "n", int),
    ("at", "at", int),
    ("kind", "kind", str),
    ("status", "status", str),
    ("ref", "ref", str),
    ("attempt", "attempt", int),
    ("number", "number", int),
    ("reason", "reason", str),
    ("cause", "cause", dict),
)
_LINE_NEEDS: Final = frozenset({"n", "at", "kind", "status"})


# ---------------------------------------------------------------------- writing


def export_to_json(
    rows: Iterable[tuple[Workflow, Iterable[HistoryEvent]]],
    definitions: Mapping[str, str],
    steps: int,
    limit: int,
    barriers: Mapping[str, int],
) -> dict[str, Any]:
    """The document of executions as they were started, the exported one first, with their journals; every payload has its text.

    `definitions` are texts by hash; `steps` and `limit` are the limits of one turn, `barriers` the hard barriers in KB by
    their names, those that are not as they are by default.
    """
    executions = [{**_of_row(row), "history": [history_line_to_json(line) for line in lines]} for row, lines in rows]
    return {
        "format": EXPORT_FORMAT,
        "formatVersion": EXPORT_VERSION,
        "workflowId": executions[0]["workflowId"],
        "bounds": {"steps": steps, "rows": limit, **({"barriers": dict(barriers)} if barriers else {})},
        "definitions": {hashed: parse(text) for hashed, text in sorted(definitions.items())},
        "executions": executions,
    }


def _of_row(row: Workflow) -> dict[str, Any]:
    values = ((name, getattr(row, field)) for name, field, _ in _ROW)
    return {
        name: value.fresh() if isinstance(value, Payload) else str(value) if isinstance(value, str) else value
        for name, value in ((name, list(value) if isinstance(value, tuple) else value) for name, value in values)
        if value is not None and value != []
    }


def history_line_to_json(line: HistoryEvent) -> dict[str, Any]:
    """A line of a journal, in the words of the journal; what is None is left out."""
    document = {name: getattr(line, field) for name, field, _ in _LINE if getattr(line, field) is not None}
    document |= {"kind": line.kind.value, "status": str(line.status)}
    if line.cause is not None:
        document["cause"] = parse(line.cause)
    if line.payload is not None:
        document["payload"] = line.payload.fresh()
    return document


# ---------------------------------------------------------------------- reading


def export_from_json(document: Mapping[str, Any] | str | bytes) -> Exported:
    """What a document holds; raises InvalidInput naming the place of what is wrong in it."""
    whole = parse(document) if isinstance(document, str | bytes) else document
    if not isinstance(whole, Mapping):
        raise InvalidInput(f"$: an export is a map, not a {type(whole).__name__}")
    if whole.get("format") != EXPORT_FORMAT:
        raise InvalidInput(f"$.format: {whole.get('format')!r} is not {EXPORT_FORMAT!r}")
    if whole.get("formatVersion") != EXPORT_VERSION or isinstance(whole.get("formatVersion"), bool):
        raise InvalidInput(f"$.formatVersion: {whole.get('formatVersion')!r} is not known; this release reads {EXPORT_VERSION}")
    bounds = _typed(whole, "bounds", dict, "$")
    definitions = _definitions(_typed(whole, "definitions", dict, "$"))
    executions: dict[str, Workflow] = {}
    histories: dict[str, tuple[HistoryEvent, ...]] = {}
    for number, one in enumerate(_typed(whole, "executions", list, "$")):
        where = f"$.executions[{number}]"
        row = _row(one, where)
        if row.workflow_id in executions:
            raise InvalidInput(f"{where}.workflowId: {row.workflow_id!r} is there twice")
        executions[row.workflow_id] = row
        histories[row.workflow_id] = _history(one, where)
        _known(row, histories[row.workflow_id], definitions, where)
    workflow_id = _typed(whole, "workflowId", str, "$")
    if next(iter(executions), None) != workflow_id:
        raise InvalidInput(f"$.workflowId: {workflow_id!r} is not the first of the executions")
    return Exported(
        workflow_id=workflow_id,
        steps=_positive(bounds, "steps", "$.bounds"),
        rows=_positive(bounds, "rows", "$.bounds"),
        barriers=_barriers(bounds),
        definitions=definitions,
        executions=executions,
        histories=histories,
    )


def _barriers(bounds: Mapping[str, Any]) -> dict[str, int]:
    stated = _typed(bounds, "barriers", dict, "$.bounds") if "barriers" in bounds else {}
    return {name: _positive(stated, name, "$.bounds.barriers") for name in stated}


def _typed(document: Any, name: str, kind: type, where: str) -> Any:
    if not isinstance(document, Mapping):
        raise InvalidInput(f"{where}: a map is needed, not a {type(document).__name__}")
    if name not in document:
        raise InvalidInput(f"{where}.{name} is missing")
    value = document[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidInput(f"{where}.{name}: {str(value)[:60]!r} is a {type(value).__name__}, not a {kind.__name__}")
    return value


def _positive(document: Any, name: str, where: str) -> int:
    value: int = _typed(document, name, int, where)
    if value < 1:
        raise InvalidInput(f"{where}.{name}: {value} is below 1")
    return value


def _definitions(documents: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for hashed, document in documents.items():
        where = f"$.definitions.{hashed}"
        if not isinstance(document, dict):
            raise InvalidInput(f"{where}: a definition is a map, not a {type(document).__name__}")
        found[hashed] = text = canonical(document, where=where)
        if digest(text) != hashed:
            raise InvalidInput(f"{where}: the definition was changed: its hash is {digest(text)}")
    return found


def _fields(document: Any, table: tuple[tuple[str, str, type], ...], needs: frozenset[str] | None, where: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, field, kind in table:
        needed = field in needs if needs is not None else field not in _OPTIONAL
        if needed or (isinstance(document, Mapping) and name in document):
            fields[field] = _typed(document, name, kind, where)
    return fields


def _row(document: Any, where: str) -> Workflow:
    fields = _fields(document, _ROW, None, where)
    for name in ("input", "task_to_domain"):
        fields[name] = Payload.of(fields[name], where=where, bounded=False)
    fields["outer_keys"] = tuple(_texts(fields.get("outer_keys", []), f"{where}.limitKeys"))
    try:
        fields["semantics"] = Semantics(fields["semantics"])
    except ValueError:
        raise InvalidInput(f"{where}.semantics: {fields['semantics']!r} is none of {', '.join(Semantics)}") from None
    return Workflow(**fields, updated_at=fields["created_at"])


def _texts(values: list[Any], where: str) -> list[str]:
    if not all(isinstance(value, str) for value in values):
        raise InvalidInput(f"{where}: a list of texts is needed")
    return values


def _history(document: Any, where: str) -> tuple[HistoryEvent, ...]:
    lines = []
    for number, one in enumerate(_typed(document, "history", list, where)):
        place = f"{where}.history[{number}]"
        fields = _fields(one, _LINE, _LINE_NEEDS, place)
        if fields["kind"] not in list(HistoryKind):
            raise InvalidInput(f"{place}.kind: {fields['kind']!r} is none of {', '.join(HistoryKind)}")
        if fields["n"] != number + 1:
            raise InvalidInput(f"{place}.n: {fields['n']} is not {number + 1}")
        fields["kind"] = HistoryKind(fields["kind"])
        if "cause" in fields:
            fields["cause"] = _cause(fields["cause"], f"{place}.cause")
        if "payload" in one:
            fields["payload"] = Payload.of(one["payload"], where=f"{place}.payload", bounded=False)
        lines.append(HistoryEvent(**fields))
    if not lines:
        raise InvalidInput(f"{where}.history is empty")
    return tuple(lines)


#: What a cause may say, and of which type.
_CAUSE: Final[Mapping[str, type]] = {
    **dict.fromkeys(("kind", "from", "id", "definition", "correlationId", "worker", "workflowId", "error", "reason", "why"), str),
    **dict.fromkeys(("at", "clock", "callback"), int),
    **dict.fromkeys(("same", "resume", "parent", "existing"), bool),
    **dict.fromkeys(("used", "slots", "cut"), list),
}


def _cause(document: dict[str, Any], where: str) -> str:
    for name in document:
        if name not in _CAUSE:
            raise InvalidInput(f"{where}.{name} is not known")
        _typed(document, name, _CAUSE[name], where)
    if "kind" in document and document["kind"] not in list(EventKind):
        raise InvalidInput(f"{where}.kind: {document['kind']!r} is none of {', '.join(EventKind)}")
    for number, answer in enumerate(document.get("slots", ())):
        if not isinstance(answer, list) or len(answer) < 2 or answer[1] not in (0, 1):
            raise InvalidInput(f"{where}.slots[{number}]: an act, 0 or 1, and references are needed")
        _texts([answer[0], *answer[2:]], f"{where}.slots[{number}]")
    for number, cut in enumerate(document.get("cut", ())):
        if not isinstance(cut, list) or len(cut) != 3 or cut[1] not in (0, 1):
            raise InvalidInput(f"{where}.cut[{number}]: a seed, 0 or 1, and words are needed")
        _texts([cut[0], cut[2]], f"{where}.cut[{number}]")
    if ("from" in document) != ("id" in document):
        raise InvalidInput(f"{where}: `from` and `id` go together")
    return canonical(document, where=where)


def _known(row: Workflow, lines: tuple[HistoryEvent, ...], definitions: Mapping[str, str], where: str) -> None:
    """Every definition that is named has its text."""
    if row.definition_hash not in definitions:
        raise InvalidInput(f"{where}.definitionHash: the definition {row.definition_hash} is missing")
    for number, line in enumerate(lines):
        for hashed in definitions_in(line):
            if hashed not in definitions:
                raise InvalidInput(f"{where}.history[{number}]: the definition {hashed} is missing")


def definitions_in(line: HistoryEvent) -> list[str]:
    """Hashes of the definitions that a line of a journal names: found at run time, moved to, restarted on."""
    cause = {} if line.cause is None else parse(line.cause)
    used = cause.get("used")
    found = [hashed for hashed in used if isinstance(hashed, str)] if isinstance(used, list) else []
    records = line.kind is HistoryKind.MIGRATED or (line.kind is HistoryKind.VERB and line.status == EventKind.RESTART)
    said = line.payload.value if records and line.payload is not None else {}
    places = (said, said.get("to") if isinstance(said, Mapping) else None, {"definitionHash": cause.get("definition")})
    named = (place.get("definitionHash") for place in places if isinstance(place, Mapping))
    return [*found, *(hashed for hashed in named if isinstance(hashed, str))]
