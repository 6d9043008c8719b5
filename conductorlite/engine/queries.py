"""Executions as they are read: whole, their journals, and why they wait.

`maskedFields`: what a workflow's definition has hidden wherever its values are shown to people.

A masked field is a key, at any depth, of the inputs, outputs and variables of the execution and its tasks; its whole value is
shown as `***`. Workers, expressions and programs get the values. Source of the word: Orkes' documentation of `maskedFields`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from conductorlite.engine.config import Part
from conductorlite.engine.turn_types import archived_workflow, missing, unarchived
from conductorlite.model import attrs
from conductorlite.model.attrs import changed
from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.decisions import Event
from conductorlite.model.errors import ExecutionNotFound
from conductorlite.model.executions import Explanation, HistoryEvent, HistoryKind, Reason, Task, TaskLog, Workflow
from conductorlite.store.ports import ReadingTransaction

if TYPE_CHECKING:
    from conductorlite.plan.grafts import RunProgress

__all__ = ["Queries", "hidden", "masked_history", "masked_value", "with_texts"]

_MASK: Final = "***"


def hidden(workflow: Workflow) -> Workflow:
    """The execution as `Engine.get` returns it, with the fields its definition masks hidden."""
    fields = _fields(workflow)
    if not fields:
        return workflow
    return attrs.evolve(
        workflow,
        input=_payload(workflow.input, fields),
        output=_payload(workflow.output, fields),
        variables=_payload(workflow.variables, fields),
        tasks=tuple(
            attrs.evolve(task, input=_payload(task.input, fields), output=_payload(task.output, fields)) for task in workflow.tasks
        ),
    )


def masked_history(lines: Iterable[HistoryEvent], fields: Collection[str]) -> list[HistoryEvent]:
    """The journal of an execution with these fields hidden."""
    hidden = frozenset(fields)
    return [
        attrs.evolve(line, payload=_payload(line.payload, hidden)) if hidden and line.payload is not None else line
        for line in lines
    ]


def masked_value(value: Any, fields: Collection[str]) -> Any:
    """A copy of a JSON value with the entries of these names hidden, at any depth."""
    if isinstance(value, dict):
        return {key: _MASK if key in fields else masked_value(entry, fields) for key, entry in value.items()}
    return [masked_value(entry, fields) for entry in value] if isinstance(value, list) else value


def _fields(workflow: Workflow) -> frozenset[str]:
    return frozenset() if workflow.definition is None else frozenset(workflow.definition.masked_fields)


def _payload(payload: Payload, fields: frozenset[str]) -> Payload:
    return Payload.of(masked_value(payload.fresh(), fields), bounded=False)


class Queries(Part):
    """Reads executions, stored and archived."""

    def get(self, workflow_id: str, *, masked: bool = False) -> Workflow:
        """See `Engine.get`."""
        with self._backend.reading() as view:
            row = view.workflow(workflow_id)
            if row is None:
                gone = archived_workflow(unarchived(view, workflow_id))
                return hidden(gone) if masked else gone
            tasks = view.attempts(workflow_id)
            definition = self._turns.plans.shown(view, row)
            grafts = {digest for task in tasks for digest in task.grafts}
            made = {digest: self._turns.plans.shown(view, row, digest) for digest in sorted(grafts)}
            payloads = (payload for task in tasks for payload in (task.input, task.output))
            texts = self.texts(view, workflow_id, (*_payloads(row), *payloads))
        whole = attrs.evolve(
            _whole(row, texts),
            tasks=tuple(
                attrs.evolve(task, input=_filled(task.input, texts), output=_filled(task.output, texts))
                if task.input.absent or task.output.absent
                else task
                for task in tasks
            ),
            definition=definition,
            made=made,
        )
        return hidden(whole) if masked else whole

    def execution(self, workflow_id: str) -> Workflow:
        """An execution's own row, without its tasks and its definition, also of an archived one; raises ExecutionNotFound."""
        with self._backend.reading() as view:
            row = view.workflow(workflow_id)
            if row is None:
                return attrs.evolve(unarchived(view, workflow_id).workflow, tasks=())
            return _whole(row, self.texts(view, workflow_id, _payloads(row)))

    def texts(self, view: ReadingTransaction, workflow_id: str, payloads: Iterable[Payload | None]) -> Mapping[str, Payload]:
        """Those of some payloads that were not read with their rows, by hash, with their texts."""
        absent = {payload.digest for payload in payloads if payload is not None and payload.absent}
        return self._turns.texts(view, workflow_id, absent) if absent else {}

    def around(self, task: Task, row: Workflow | None = None, *, masked: bool = False) -> Workflow:
        """The execution of an attempt, to show the attempt by: no document of its own, its definition, and that attempt alone.

        Its `row` is read unless it is given. Raises ExecutionNotFound.
        """
        with self._backend.reading() as view:
            row = row or view.workflow(task.workflow_id)
            if row is None:
                raise missing(view, task.workflow_id)
            definition = self._turns.plans.shown(view, row)
            made = {digest: self._turns.plans.shown(view, row, digest) for digest in task.grafts}
        around = attrs.evolve(row, input=EMPTY, output=EMPTY, variables=EMPTY, tasks=(task,), definition=definition, made=made)
        return hidden(around) if masked else around

    def progress(self, workflow_id: str) -> RunProgress:
        """See `Run.progress`."""
        from conductorlite.plan.grafts import progress_of

        return progress_of(self.get(workflow_id), self._clock.now())

    def history(self, workflow_id: str, *, masked: bool = False) -> Sequence[HistoryEvent]:
        """See `Engine.history`."""
        return self.following(workflow_id, 0, masked=masked)[0]

    def following(self, workflow_id: str, after: int, *, masked: bool = False) -> tuple[Sequence[HistoryEvent], bool]:
        """The lines of the journal after the one of a number, and whether the execution had ended then."""
        with self._backend.reading() as view:
            row = view.workflow(workflow_id)
            if row is None:
                found = unarchived(view, workflow_id)
                hides = () if found.workflow.definition is None or not masked else found.workflow.definition.masked_fields
                kept = [line for line in found.history if line.n > after]
                return masked_history(kept, hides) if hides else kept, True
            lines = view.history(workflow_id, after)
            texts = self.texts(view, workflow_id, (line.payload for line in lines))
            fields = self._turns.plans.plan(view, row).definition.masked_fields if masked else ()
        whole = with_texts(lines, texts)
        return masked_history(whole, fields) if fields else whole, row.status.terminal

    def follow(self, workflow_id: str, after: int, until: Callable[[str, Callable[[], bool]], None]) -> Iterator[HistoryEvent]:
        """The lines after that one, and those that are added, until the execution has ended; `until` waits for something of it."""
        over = False
        while not over:
            lines, over = self.following(workflow_id, after)
            yield from lines
            after = lines[-1].n if lines else after
            if not over:
                until(workflow_id, partial(self.more, workflow_id, after))

    def logs(self, workflow_id: str) -> list[tuple[Task, TaskLog]]:
        """What workers logged for the attempts of an execution, in order of time; raises ExecutionNotFound."""
        tasks = {task.task_id: task for task in self.get(workflow_id).tasks}
        with self._backend.reading() as view:
            if view.workflow(workflow_id) is not None:
                found = [line for task_id in tasks for line in view.logs(task_id)]
            else:
                found = list(unarchived(view, workflow_id).logs)
        return [(tasks[line.task_id], line) for line in sorted(found, key=lambda line: line.at) if line.task_id in tasks]

    def more(self, workflow_id: str, after: int) -> bool:
        """Whether the journal has a line after the one of a number, or the execution is not stored any more."""
        with self._backend.reading() as view:
            row = view.workflow(workflow_id)
        return row is None or row.history_seq > after

    def explain(self, workflow_id: str, task: str | None = None) -> Explanation:
        """See `Engine.explain`."""
        from conductorlite.engine.explain import Case
        from conductorlite.engine.waits import standings

        workflow = self.get(workflow_id, masked=True)
        history = self.history(workflow_id)
        with self._backend.reading() as view:
            inbox = view.inbox(workflow_id)
            domains = {row.task_type for row in workflow.tasks if row.domain and not row.status.terminal}
            polls = [poll for kind in sorted(domains) for poll in view.poll_data(kind)]
            moves = (line.payload for line in history if line.kind is HistoryKind.MIGRATED and line.payload)
            moved = dict.fromkeys(payload.value["from"]["definitionHash"] for payload in moves)
            former = [self._turns.plans.shown(view, workflow, digest) for digest in moved]
        below = self._below(workflow)
        with self._backend.reading() as view:
            places = standings(view, (workflow,), task) | standings(view, (row for row, _ in below.values()), None)
            archived = view.workflow(workflow_id) is None
            inboxes = (inbox, *(events for _, events in below.values()))
            left = self._turns.left(view, (event for events in inboxes for event in events), self._clock.now())
        case = Case(
            workflow=workflow, inbox=inbox, now=self._clock.now(), history=history, below=below, polls=polls, former=former,
            standings=places, left=left,
        )  # fmt: skip
        found = case.explain(task)
        known = Reason(kind="ARCHIVED", workflow_id=workflow_id, text="It is archived")
        return Explanation(reasons=(*found.reasons, known)) if archived else found

    def _below(self, workflow: Workflow) -> dict[str, tuple[Workflow, Sequence[Event]]]:
        """The executions that the first open tasks wait for, and what the first one in each waits for, down to the last."""
        found: dict[str, tuple[Workflow, Sequence[Event]]] = {}
        waiting = _waited_for(workflow)[:_SHOWN]
        while waiting:
            child = waiting.pop()
            try:
                row = self.get(child, masked=True)
            except ExecutionNotFound:  # not begun yet, or removed
                continue
            with self._backend.reading() as view:
                found[child] = row, view.inbox(child)
            waiting += _waited_for(row)[:1]
        return found


#: Sub-workflows looked into for what an execution waits for.
_SHOWN = 5


def _waited_for(workflow: Workflow) -> list[str]:
    open_tasks = (task for task in workflow.tasks if not task.retried and not task.status.terminal)
    return [task.sub_workflow_id for task in open_tasks if task.sub_workflow_id is not None]


def _payloads(row: Workflow) -> tuple[Payload, ...]:
    return row.input, row.output, row.variables, row.task_to_domain


def _whole(row: Workflow, texts: Mapping[str, Payload]) -> Workflow:
    return changed(
        row,
        input=_filled(row.input, texts),
        output=_filled(row.output, texts),
        variables=_filled(row.variables, texts),
        task_to_domain=_filled(row.task_to_domain, texts),
    )


def with_texts(lines: Iterable[HistoryEvent], texts: Mapping[str, Payload]) -> list[HistoryEvent]:
    """Lines of a journal with their payloads, as far as their texts are known."""
    return [
        attrs.evolve(line, payload=texts[line.payload.digest])
        if line.payload is not None and line.payload.digest in texts
        else line
        for line in lines
    ]


def _filled(payload: Payload, texts: Mapping[str, Payload]) -> Payload:
    return texts[payload.digest] if payload.absent else payload
