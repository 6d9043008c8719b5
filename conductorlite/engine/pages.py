"""The pages of an execution and of a store: what they show is gathered here, how they look is `pages`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import attrs

from conductorlite.engine.causes import causes_of
from conductorlite.engine.config import EngineConfig, Part
from conductorlite.engine.control import Control
from conductorlite.engine.queries import Limits, Queries, masked_value
from conductorlite.engine.queues import depths
from conductorlite.engine.schedules import Schedules, Timetable
from conductorlite.engine.streams import items_of
from conductorlite.engine.turn_types import unarchived
from conductorlite.engine.turns import Turns
from conductorlite.model.canonical import Payload
from conductorlite.model.definitions import TaskType
from conductorlite.model.errors import ExecutionNotFound, InvalidInput
from conductorlite.model.executions import AgendaEntry, TaskLog, Workflow, frozen_workflow
from conductorlite.model.mailbox import DEFAULT_TOPIC, topic_of
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.model.streams import Emission, EmissionState, LatestValue, StreamItem
from conductorlite.pages.markup import Document
from conductorlite.pages.views import ExecutionView, StoreView, execution_page, store_page
from conductorlite.plan.tree import attempt_in, positions
from conductorlite.store.ports import ReadingTransaction
from conductorlite.store.tables import ExecutionFilter

__all__ = ["Pages"]

#: Attempts, the newest, whose lines of the log are shown, and how many of each.
_LOGGED: Final = 500
_LINES: Final = 200

#: Attempts at the steps of a `try` that are shown in place, the newest.
_IN_PLACE: Final = 2_000

#: Values that an execution has emitted, the newest.
_EMITTED: Final = 100

#: Executions under way, the newest, of which the steps are listed that wait for a person.
_ASKED: Final = 500


class Pages(Part):
    """Makes pages."""

    def __init__(self, turns: Turns, config: EngineConfig, queries: Queries, control: Control) -> None:
        super().__init__(turns, config)
        self._control = control
        self._queries = queries

    def execution(self, workflow_id: str, address: str | None = None) -> Document:
        """See `Admin.page`; with `address`, what the addresses of such pages begin with, it has links to others and forms."""
        workflow = self._queries.get(workflow_id, masked=True)
        now = self._clock.now()
        within = _newest(self._within(workflow))
        with self._backend.reading() as view:
            due = sorted(self._due(view, workflow, now), key=lambda one: (one.at, one.kind, one.ref or ""))
            logs = {one: lines for row in (workflow, *within) for one, lines in _logs(view, row).items()}
            values, items = _emitted(view, workflow)
            children = {one: _status(view, one) for task in workflow.tasks if (one := task.sub_workflow_id) is not None}
        hides = () if workflow.definition is None else workflow.definition.masked_fields
        shown = ExecutionView(
            workflow=workflow,
            history=self._queries.history(workflow_id, masked=True),
            explanation=self._queries.explain(workflow_id),
            causes=causes_of(workflow, self._child, self._turns.lookups.failures.line_of) if workflow.status.terminal else (),
            due=due,
            children=children,
            now=now,
            logs=logs,
            lines={ref: line for row in (*within, workflow) for ref, line in self._lines(row).items()},
            within={row.workflow_id: row for row in within},
            address=address,
            values=[attrs.evolve(one, value=Payload.of(masked_value(one.value.fresh(), hides), bounded=False)) for one in values],
            items=[attrs.evolve(one, value=masked_value(one.value, hides)) for one in items],
            messages=self._queries.messages(workflow_id, masked=True) if workflow.message_seq else (),
        )
        return execution_page(shown)

    def store(
        self,
        limit: int,
        agenda: Sequence[AgendaEntry],
        engines: Sequence[tuple[str, int, int]],
        address: str | None = None,
    ) -> Document:
        """See `Admin.page`; `address` as for `execution`."""
        if limit < 1:
            raise InvalidInput(f"limit {limit} is below 1")
        with self._backend.reading() as view:
            rows = view.executions.page(ExecutionFilter(), None, limit + 1)
            queues, polls = depths(view, self._clock.now()), view.poll_data.polls(None)
            waiting = _waiting(view, rows[:limit])
        limits = Limits(self._turns, self._config).all(limit=limit)
        timetable = Timetable(self._turns, self._config, self._control)
        shown = StoreView(
            executions=[frozen_workflow(row) for row in rows[:limit]],
            more=len(rows) > limit,
            due=agenda,
            queues=[
                (one.queue, one.offered, one.waiting, one.delayed, one.in_progress, one.oldest_at)
                for one in sorted(queues, key=lambda one: -one.depth)
            ],
            polls=polls,
            limits=[(one.key, one.in_use, len(one.admitted_at) + one.reserved, one.waiting) for one in limits],
            schedules=Schedules(self._turns, self._config, timetable).all(),
            engines=engines,
            now=self._clock.now(),
            address=address,
            people=[one for one, topic in waiting if topic is None],
            receivers=[(*one, topic) for one, topic in waiting if topic is not None],
        )
        return store_page(shown)

    def _within(self, workflow: Workflow) -> Iterator[Workflow]:
        """The executions in which the steps of a `try` run, those of inner ones too, the newest first."""
        places = positions(workflow.definition)
        for task in reversed(workflow.tasks):
            place = places.get(task.base_ref) if task.sub_workflow_id is not None and not task.retried else None
            if place is None or attempt_in(place.task) is None:
                continue
            inner = self._child(str(task.sub_workflow_id))
            if inner is not None:
                yield inner
                yield from self._within(inner)

    def _lines(self, workflow: Workflow) -> Mapping[str, str]:
        """Return where the steps that have begun are written, by reference."""
        of = self._turns.lookups.failures.line_of
        found = ((ref, of(workflow.name, ref)) for ref in dict.fromkeys(task.base_ref for task in workflow.tasks))
        return {ref: line for ref, line in found if line is not None}

    def _due(self, view: ReadingTransaction, workflow: Workflow, now: int) -> Iterable[AgendaEntry]:
        for event in view.inbox.events(workflow.workflow_id):
            if not event.held:
                yield AgendaEntry(at=event.due_at, kind=event.kind, workflow_id=workflow.workflow_id, ref=event.ref)
        for task in workflow.tasks:
            message = None if task.status.terminal else view.queue.message((workflow.workflow_id, task.ref))
            if message is not None and message.due_at > now:
                yield AgendaEntry(at=message.due_at, kind="OFFERED", workflow_id=workflow.workflow_id, ref=task.ref)

    def _child(self, workflow_id: str) -> Workflow | None:
        try:
            return self._queries.get(workflow_id, masked=True)
        except ExecutionNotFound:
            return None


def _newest(rows: Iterable[Workflow]) -> list[Workflow]:
    """The first of some executions, of which so many attempts are shown."""
    found, left = [], _IN_PLACE
    for row in rows:
        left -= len(row.tasks)
        if left < 0:
            break
        found.append(row)
    return found


def _waiting(view: ReadingTransaction, rows: Iterable[Workflow]) -> list[tuple[tuple[str, str, str, int], str | None]]:
    """The open steps of executions that wait for a person, or (with a topic) for a message, the oldest first.

    They are HUMAN tasks, WAITs that no instant ends, and tasks that receive.
    """
    found: list[tuple[tuple[str, str, str, int], str | None]] = []
    for row in islice((one for one in rows if one.status is WorkflowStatus.RUNNING), _ASKED):
        for task in view.executions.live(row.workflow_id):
            receives = task.task_type == TaskType.PULL_WORKFLOW_MESSAGES
            waits = task.task_type == TaskType.HUMAN or (task.task_type == TaskType.WAIT and task.wait_until is None)
            if (waits or receives) and task.status is TaskStatus.IN_PROGRESS:
                whole = task.input.absent or task.input.external is not None
                topic = ("" if whole else topic_of(task.input.value) or DEFAULT_TOPIC) if receives else None
                one = (row.workflow_id, f"{row.name} v{row.version}", task.ref, task.started_at or task.scheduled_at)
                found.append((one, topic))
    return sorted(found, key=lambda one: one[0][3])


def _emitted(view: ReadingTransaction, workflow: Workflow) -> tuple[Sequence[LatestValue], Sequence[StreamItem]]:
    """The latest values of an execution, and the newest values that it has emitted, in order; dropped ones are left out."""
    workflow_id = workflow.workflow_id
    if view.executions.workflow(workflow_id) is None:
        gone = unarchived(view, workflow_id)
        values: Sequence[LatestValue] = gone.values
        emissions: Sequence[Emission] = gone.emissions
    elif workflow.item_seq:
        values = view.streams.values(workflow_id)
        emissions = view.streams.chunks(workflow_id, None, max(0, workflow.item_seq - _EMITTED), _EMITTED)
    else:
        return view.streams.values(workflow_id), ()
    kept = (one for one in emissions if one.state is not EmissionState.DROPPED)
    items = sorted((item for one in kept for item in items_of(one)), key=lambda item: item.number)
    return values, items[-_EMITTED:]


def _logs(view: ReadingTransaction, workflow: Workflow) -> Mapping[str, Sequence[TaskLog]]:
    ids = [task.task_id for task in workflow.tasks[-_LOGGED:]]
    if view.executions.workflow(workflow.workflow_id) is None:
        kept = unarchived(view, workflow.workflow_id).logs
        found = {one: [entry for entry in kept if entry.task_id == one][-_LINES:] for one in ids} if kept else {}
    else:
        found = {one: list(view.history.logs(one))[-_LINES:] for one in ids}
    return {task_id: lines for task_id, lines in found.items() if lines}


def _status(view: ReadingTransaction, workflow_id: str) -> str:
    row = view.executions.workflow(workflow_id)
    return str(row.status) if row is not None else "archived" if view.archive.archived(workflow_id) is not None else "not there"
