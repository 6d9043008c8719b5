"""The laws of what is stored beside executions: registered definitions, schemas, event handlers, schedules, the archive.

Each text must be one that could have been registered, under the name it has. What it says is not stored a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from conductorlite.engine.invariants import Finding
from conductorlite.engine.occurrences import waits_for_an_end
from conductorlite.engine.schedules import TIMER
from conductorlite.engine.turn_types import pages
from conductorlite.model.canonical import parse
from conductorlite.model.decisions import address_of
from conductorlite.model.definitions import SchemaDef, TaskDef, WorkflowDef
from conductorlite.model.errors import InvalidDefinition, InvalidInput, StorageCorrupt
from conductorlite.model.handlers import EventHandler
from conductorlite.model.schedules import WorkflowSchedule, progress_from_text
from conductorlite.plan.validate import checked, misshapen, validate_event_handler, validate_task_def
from conductorlite.store.ports import ReadingTransaction
from conductorlite.store.tables import ScheduleRow

__all__ = ["archived_findings", "registered_findings"]

_LAW: Final = "what_is_registered_can_be_used"

#: What reading a text that nobody has written may raise.
_UNREADABLE: Final = (InvalidDefinition, InvalidInput, StorageCorrupt, ValueError, TypeError, KeyError, AttributeError)


def registered_findings(view: ReadingTransaction) -> list[Finding]:
    """Everything that is registered and could not be registered so."""
    found: list[Finding] = []
    for name, version in view.metadata.workflow_defs():
        what = f"workflow {name!r} version {version}"
        found += _examined(what, view.metadata.workflow_def(name, version), partial(_workflow, place=(name, version)))
    for name in view.metadata.task_defs():
        found += _examined(f"task {name!r}", view.metadata.task_def(name), partial(_task, name=name))
    for name, version in view.metadata.schema_defs():
        what = f"schema {name!r} version {version}"
        found += _examined(what, view.metadata.schema_def(name, version), partial(_schema, place=(name, version)))
    handlers = view.event_handlers.handlers(None, active_only=False)
    listed = {
        (event, active): frozenset(view.event_handlers.handlers(event, active_only=active))
        for event in {*_events(handlers)}
        for active in (True, False)
    }
    for text in handlers:
        found += _examined("an event handler", text, partial(_handler, view=view, handlers=handlers, listed=listed))
    for page in pages(view.schedules.page, "", lambda row: row.name):
        for row in page:
            found += _examined(f"schedule {row.name!r}", row.text, partial(_schedule, view=view, row=row))
    return found


def archived_findings(view: ReadingTransaction, workflow_id: str) -> list[Finding]:
    """Return where an archived execution differs from its document."""
    from conductorlite.model.documents import unpacked

    row = view.archive.archived(workflow_id)
    if row is None:
        return []

    def examined(_: str) -> Iterator[str]:
        workflow = unpacked(row.document).workflow
        said = (workflow.workflow_id, workflow.name, str(workflow.status), workflow.ended_at)
        listed = (row.workflow_id, row.name, row.status, row.ended_at)
        if said != listed:
            yield f"it is listed as {listed}, its document says {said}"
        if row.archived_at < row.ended_at:
            yield f"it was archived at {row.archived_at}, before its end"

    return _examined("the archived execution", "", examined, workflow_id)


def _examined(what: str, text: str | None, laws: Callable[[str], Iterator[str]], workflow_id: str = "") -> list[Finding]:
    try:
        texts = ["it is listed and not stored"] if text is None else list(laws(text))
    except _UNREADABLE as error:
        texts = [f"it cannot be read ({type(error).__name__}: {error})"]
    return [Finding(law=_LAW, workflow_id=workflow_id, text=f"{what}: {one}") for one in texts]


def _workflow(text: str, place: tuple[str, int]) -> Iterator[str]:
    definition = WorkflowDef.from_json(text)
    if (definition.name, definition.version) != place:
        yield f"its text is of {definition.name!r} version {definition.version}"
    # It may have been let in leniently, and by an engine with an environment of its own.
    found = misshapen(definition) or checked(definition, None, lenient=True)[0]
    yield from (str(problem) for problem in found if problem.severity == "error")


def _task(text: str, name: str) -> Iterator[str]:
    definition = TaskDef.from_json(text)
    if definition.name != name:
        yield f"its text is of {definition.name!r}"
    yield from (str(problem) for problem in validate_task_def(definition) if problem.severity == "error")


def _schema(text: str, place: tuple[str, int]) -> Iterator[str]:
    definition = SchemaDef.from_json(text)
    if (definition.name, definition.version) != place:
        yield f"its text is of {definition.name!r} version {definition.version}"


def _events(handlers: Sequence[str]) -> Iterator[str]:
    for text in handlers:
        try:
            event = parse(text)["event"]
        except (InvalidInput, TypeError, KeyError):  # examined below
            continue
        if isinstance(event, str):
            yield event


def _handler(
    text: str, view: ReadingTransaction, handlers: Sequence[str], listed: dict[tuple[str, bool], frozenset[str]]
) -> Iterator[str]:
    handler = EventHandler.from_json(text)
    if view.event_handlers.handler(handler.name) != text:
        yield f"its text is of {handler.name!r}, under which another one is stored"
    if handlers.count(text) > 1:
        yield f"{handler.name!r} is stored twice"
    if text not in listed[handler.event, False]:
        yield f"{handler.name!r} is not found by its event, {handler.event!r}"
    elif handler.active is not (text in listed[handler.event, True]):
        yield f"{handler.name!r} is {'active' if handler.active else 'off'}, and its event finds it as if it were not"
    yield from (str(problem) for problem in validate_event_handler(handler) if problem.severity == "error")


def _schedule(text: str, view: ReadingTransaction, row: ScheduleRow) -> Iterator[str]:
    schedule, progress = WorkflowSchedule.from_json(text), progress_from_text(row.progress)
    if schedule.name != row.name or row.address != address_of(row.name):
        yield f"its text is of {schedule.name!r}, its events are for {row.address!r}"
    inbox = view.inbox.events(row.address)
    timer = next((event for event in inbox if event.event_id == TIMER), None)
    if progress.next_at is not None and not progress.paused and (timer is None or timer.due_at > progress.next_at):
        yield f"it is due at {progress.next_at}, and its timer is {None if timer is None else timer.due_at}"
    if row.waits is not waits_for_an_end(progress):
        yield f"it {'waits' if row.waits else 'does not wait'} for the end of what it has started"
    for event in inbox:
        if event.owner != row.owner or event.ref != row.name:
            yield f"its event {event.event_id} is for {event.owner or 'everybody'} and {event.ref!r}"
