"""An export read: its executions, their journals cut into what led to each line, and the events that do it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from conductorlite.model.canonical import Payload, canonical, digest, parse
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.definitions import Semantics, WorkflowDef
from conductorlite.model.documents import EXPORT_FORMAT, EXPORT_LINE, EXPORT_ROW, EXPORT_VERSION, definitions_in
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import HistoryEvent, HistoryKind, Task, Workflow
from conductorlite.model.limits import workflow_key
from conductorlite.model.statuses import REPORTABLE, TaskStatus
from conductorlite.runtime.engine import Engine
from conductorlite.testing.emitted import Emitted, emitted_from_json
from conductorlite.testing.fields import typed

__all__ = ["Exported", "ReplayStep", "as_recorded", "export_from_json", "reenacted", "steps_of", "window_event"]


@attrs.frozen(kw_only=True, slots=True)
class ReplayStep:
    """Lines of one journal that have one cause; without a `kind` in it they came by themselves."""

    at: int
    #: What the clock read.
    clock: int
    cause: Mapping[str, Any]
    lines: tuple[HistoryEvent, ...]

    def without(self, count: int) -> ReplayStep:
        """The step when its first lines are there already."""
        return attrs.evolve(self, cause={}, lines=self.lines[count:])


def steps_of(history: Sequence[HistoryEvent]) -> list[ReplayStep]:
    """A journal as steps: a new one begins with a cause, at another instant, or by another clock."""
    found: list[ReplayStep] = []
    for line in history:
        cause = {} if line.cause is None else parse(line.cause)
        begins = not found or "kind" in cause or "clock" in cause or line.at != found[-1].at
        if begins:
            found.append(ReplayStep(at=line.at, clock=cause.get("clock", line.at), cause=cause, lines=(line,)))
        else:
            found[-1] = attrs.evolve(found[-1], lines=(*found[-1].lines, line))
    return found


def as_recorded(events: Sequence[Event], lines: Sequence[HistoryEvent]) -> list[Event]:
    """The events of a turn in inbox order, response timeouts not before other timers whose lines come first.

    One that would fire too soon was set again by a sign of life, which no line records.
    """
    places = {(line.ref, line.attempt): place for place, line in reversed(list(enumerate(lines)))}

    def place(event: Event) -> int:
        return places.get((event.ref, event.attempt), len(lines))

    found = sorted(events, key=lambda event: event.order)
    for event in sorted((event for event in found if event.kind is EventKind.RESPONSE_TIMEOUT), key=place):
        timers = [other for other in found if other.sender == event.sender and place(other) < place(event)]
        last = max(timers, key=lambda other: other.order, default=event)
        if last.order > event.order:
            found.remove(event)
            again = attrs.evolve(event, due_at=last.due_at, posted_at=last.posted_at, sender_seq=last.sender_seq)
            found.insert(found.index(last) + 1, again)
    return found


def reenacted(engine: Engine, workflow_id: str, step: ReplayStep, definitions: Mapping[str, str]) -> Event | None:
    """The event that led to a step, written again; None when what it is about is not there."""
    cause, line = step.cause, step.lines[0]
    kind = EventKind(cause["kind"])
    fields: dict[str, Any] = {"data": {}}
    if kind is EventKind.WINDOW_MOVES or (kind is EventKind.GRANTED and cause["from"].startswith(workflow_key(""))):
        fields["data"] = {"key": cause["from"], "holder": workflow_id, "number": 0}
    elif kind in _ABOUT_TASKS:
        task = _newest(engine, workflow_id, line)
        if task is None or (kind is EventKind.REPORT and _status(line) not in REPORTABLE):
            return None
        fields = {"ref": task.ref, "attempt": task.attempt, "generation": task.generation}
        if kind is EventKind.GRANTED:
            fields["data"] = {"key": cause["from"], "holder": task.task_id, "number": 0}
        else:
            fields["data"] = _reported(cause, line, task) if kind is EventKind.REPORT else _said(cause)
        if kind is EventKind.SUSPENDED:
            fields["data"] = {"by": line.number or 0}
        if kind is EventKind.POLL:
            fields["data"] = {"workerId": cause["worker"]} if "worker" in cause else {}
    elif kind is EventKind.START:
        fields["data"] = {name: cause[name] for name in ("at", "delay", "since") if name in cause}
    elif kind is EventKind.CLOCK_SET:
        fields["data"] = {"by": line.number or 0}
    elif kind in (EventKind.TERMINATE, EventKind.RETRY):
        fields["data"] = _said(cause)
    elif kind is EventKind.SEND:
        fields["data"] = {**_said(cause), "value": None if line.payload is None else line.payload.fresh()}
    else:
        fields["data"] = _verb(kind, step, definitions)
    return Event(
        workflow_id=workflow_id,
        event_id=cause.get("id", f"{kind}@{line.n}"),
        kind=kind,
        due_at=0 if kind in _FIRST else step.clock,
        # A migration has a turn of its own: no other event can have it stamped later than the clock.
        posted_at=step.at if kind is EventKind.MIGRATE else step.clock,
        sender=cause.get("from", ""),
        **{**fields, "data": Payload.of(fields["data"], bounded=False)},
    )


_ABOUT_TASKS: Final = (
    *(EventKind.POLL, EventKind.REPORT, EventKind.GIVE_BACK, EventKind.SUSPENDED, EventKind.GRANTED),
    *(EventKind.STARTED, EventKind.CHILD_ENDED, EventKind.CHILD_REOPENED),
)

#: Read before everything that was due meanwhile.
_FIRST: Final = frozenset({EventKind.CLOCK_SET, EventKind.SUSPENDED})

#: What a task that is offered again becomes.
_AGAIN: Final = (TaskStatus.SCHEDULED, TaskStatus.PENDING)


def window_event(workflow_id: str, key: str, at: int) -> Event:
    """An event that has an execution look again at a limit."""
    return Event(
        workflow_id=workflow_id,
        event_id=f"{EventKind.WINDOW_MOVES}:{key}",
        kind=EventKind.WINDOW_MOVES,
        due_at=at,
        posted_at=at,
        sender=key,
        data=Payload.of({"key": key}),
    )


def _newest(engine: Engine, workflow_id: str, line: HistoryEvent) -> Task | None:
    with engine.backend.reading() as view:
        rows = [task for task in view.executions.attempts(workflow_id) if (task.ref, task.attempt) == (line.ref, line.attempt)]
    return rows[-1] if rows else None


def _said(cause: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in cause.items() if name not in ("kind", "from", "id", "same", "clock", "used", "slots", "cut")
    }


def _reported(cause: Mapping[str, Any], line: HistoryEvent, task: Task) -> dict[str, Any]:
    moved = line.kind is HistoryKind.TASK
    waits = moved and line.status in _AGAIN
    said: dict[str, Any] = {
        "status": _status(line),
        "output": {} if line.payload is None else line.payload.fresh(),
        "reason": line.reason if moved and not waits else cause.get("reason"),
        "callbackAfterMs": cause.get("callback", 0),
        "workerId": cause.get("worker"),
        "errorTypes": cause.get("errors"),
        "errorBases": cause.get("bases"),
        # A worker that only sets something going is distinguished from one that completes the task by its lease.
        "lease": task.lease if not moved and line.status == TaskStatus.COMPLETED else None,
    }
    return {name: value for name, value in said.items() if value is not None}


def _status(line: HistoryEvent) -> str:
    """Return what was reported: a task that is offered again was said to be in progress."""
    offered = line.kind is HistoryKind.TASK and line.status in _AGAIN
    return str(TaskStatus.IN_PROGRESS) if offered else line.status


def _verb(kind: EventKind, step: ReplayStep, definitions: Mapping[str, str]) -> dict[str, Any]:
    """Return what was given to a verb: in the line of its own."""
    names = {EventKind.MIGRATE: "MIGRATED"}
    places = [line for line in step.lines if line.kind in (HistoryKind.VERB, HistoryKind.MIGRATED)]
    line = next((line for line in places if line.status == names.get(kind, str(kind))), None)
    said = None if line is None or line.payload is None else line.payload.fresh()
    if line is None or not isinstance(said, dict):
        return {}
    if kind is EventKind.MIGRATE:
        return {**(said.get("to") or {}), "refs": said.get("refs", {})}
    if kind in (EventKind.SKIP, EventKind.VARIABLES):
        return said
    said.pop("dropped", None)
    if line.ref is not None:
        said["ref"] = line.ref
    if "definitionHash" in said:
        definition = WorkflowDef.from_json(definitions[said["definitionHash"]])
        said |= {"variables": dict(definition.variables), "inputTemplate": dict(definition.input_template)}
    return said


@attrs.frozen(kw_only=True, slots=True)
class Exported:
    """Contents of an exported document: each execution as it was started, the exported one first, and its journal."""

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
    #: What each has emitted, and its latest values.
    emitted: Mapping[str, Emitted]


_OPTIONAL: Final = frozenset(
    {"correlation_id", "created_by", "idempotency_key", "parent_workflow_id", "parent_task_id", "parent_ref", "event", "outer_keys"}
)
_LINE_NEEDS: Final = frozenset({"n", "at", "kind", "status"})


def export_from_json(document: Mapping[str, Any] | str | bytes) -> Exported:
    """Return what a document holds; raises InvalidInput naming the place of what is wrong in it."""
    whole = parse(document) if isinstance(document, str | bytes) else document
    if not isinstance(whole, Mapping):
        raise InvalidInput(f"$: an export is a map, not a {type(whole).__name__}")
    if whole.get("format") != EXPORT_FORMAT:
        raise InvalidInput(f"$.format: {whole.get('format')!r} is not {EXPORT_FORMAT!r}")
    if whole.get("formatVersion") != EXPORT_VERSION or isinstance(whole.get("formatVersion"), bool):
        raise InvalidInput(f"$.formatVersion: {whole.get('formatVersion')!r} is not known; this release reads {EXPORT_VERSION}")
    bounds = typed(whole, "bounds", dict, "$")
    definitions = _definitions(typed(whole, "definitions", dict, "$"))
    executions: dict[str, Workflow] = {}
    histories: dict[str, tuple[HistoryEvent, ...]] = {}
    emitted: dict[str, Emitted] = {}
    for number, one in enumerate(typed(whole, "executions", list, "$")):
        where = f"$.executions[{number}]"
        row = _export_row(one, where)
        if row.workflow_id in executions:
            raise InvalidInput(f"{where}.workflowId: {row.workflow_id!r} is there twice")
        histories[row.workflow_id] = _export_history(one, where)
        emitted[row.workflow_id] = emitted_from_json(one, row.workflow_id, where)
        _check_known(row, histories[row.workflow_id], definitions, where)
        variables = parse(definitions[row.definition_hash]).get("variables") or {}
        executions[row.workflow_id] = attrs.evolve(row, variables=Payload.of(variables, bounded=False))
    workflow_id = typed(whole, "workflowId", str, "$")
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
        emitted=emitted,
    )


def _barriers(bounds: Mapping[str, Any]) -> dict[str, int]:
    stated = typed(bounds, "barriers", dict, "$.bounds") if "barriers" in bounds else {}
    return {name: _positive(stated, name, "$.bounds.barriers") for name in stated}


def _positive(document: Any, name: str, where: str) -> int:
    value: int = typed(document, name, int, where)
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


def _export_fields(
    document: Any, table: tuple[tuple[str, str, type], ...], needs: frozenset[str] | None, where: str
) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, field, kind in table:
        needed = field in needs if needs is not None else field not in _OPTIONAL
        if needed or (isinstance(document, Mapping) and name in document):
            fields[field] = typed(document, name, kind, where)
    return fields


def _export_row(document: Any, where: str) -> Workflow:
    fields = _export_fields(document, EXPORT_ROW, None, where)
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


def _export_history(document: Any, where: str) -> tuple[HistoryEvent, ...]:
    lines = []
    for number, one in enumerate(typed(document, "history", list, where)):
        place = f"{where}.history[{number}]"
        fields = _export_fields(one, EXPORT_LINE, _LINE_NEEDS, place)
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
    **dict.fromkeys(("topic", "key", "ref"), str),
    **dict.fromkeys(("at", "since", "clock", "callback"), int),
    **dict.fromkeys(("same", "resume", "parent", "existing", "delay", "posted"), bool),
    **dict.fromkeys(("used", "slots", "cut", "errors", "bases"), list),
}


def _cause(document: dict[str, Any], where: str) -> str:
    for name in document:
        if name not in _CAUSE:
            raise InvalidInput(f"{where}.{name} is not known")
        typed(document, name, _CAUSE[name], where)
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
    _texts(document.get("errors", []), f"{where}.errors")
    if ("from" in document) != ("id" in document):
        raise InvalidInput(f"{where}: `from` and `id` go together")
    return canonical(document, where=where)


def _check_known(row: Workflow, lines: tuple[HistoryEvent, ...], definitions: Mapping[str, str], where: str) -> None:
    """Every definition that is named has its text."""
    if row.definition_hash not in definitions:
        raise InvalidInput(f"{where}.definitionHash: the definition {row.definition_hash} is missing")
    for number, line in enumerate(lines):
        for hashed in definitions_in(line):
            if hashed not in definitions:
                raise InvalidInput(f"{where}.history[{number}]: the definition {hashed} is missing")
