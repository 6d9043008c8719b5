"""Queries: get, agenda, history, check. They change nothing.

`maskedFields`: what a workflow's definition has hidden wherever its values are shown to people.

A masked field is a key, at any depth, of the inputs, outputs and variables of the execution and its tasks; its whole value is
shown as `***`. Workers, expressions and programs get the values. Source of the word: Orkes' documentation of `maskedFields`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

import attrs

from conductorlite.engine.archive import archived_workflow, missing, unarchived
from conductorlite.engine.explain import Case
from conductorlite.engine.exports import below, definitions_of, first_row
from conductorlite.engine.invariants import Finding, Picture, findings, limit_findings
from conductorlite.engine.limits import Limits
from conductorlite.engine.turn_types import stored_pages
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Event, Message, queue_prefix
from conductorlite.model.errors import ExecutionNotFound
from conductorlite.model.executions import Explanation, HistoryEvent, HistoryKind, Reason, Workflow
from conductorlite.model.exports import export_to_json
from conductorlite.model.limits import Member
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.store.ports import ReadingTransaction

__all__ = ["AgendaEntry", "Queries", "hidden", "masked_history", "masked_value", "orphans", "strangers"]

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


#: Lines of the journal whose payload says what has become of rows.
_TELLING = (HistoryKind.ROUND, HistoryKind.VERB, HistoryKind.MIGRATED)


@attrs.frozen(kw_only=True, slots=True)
class AgendaEntry:
    """Something that will happen by itself: at `at` (epoch ms), `kind` of `ref` in an execution.

    `kind` is an event kind (WAIT_ENDS, RESPONSE_TIMEOUT …), SCHEDULE for a start by the schedule `ref` (in its own inbox,
    `schedule:<name>`), OFFERED for a task that becomes visible to workers (a start, retry
    or callback delay ends), or REPORT for a report that a running worker function will make.
    """

    at: int
    kind: str
    workflow_id: str
    ref: str | None = None


class Queries(Limits):
    """Verbs that look."""

    def get(self, workflow_id: str, *, masked: bool = False) -> Workflow:
        """An execution with every attempt and its definition, also one that is archived; raises ExecutionNotFound.

        With `masked` the values of the fields that its definition lists in `maskedFields` are `***`, for whoever shows it.
        """
        with self.backend.reading() as view:
            row = view.workflow(workflow_id)
            if row is None:
                gone = archived_workflow(unarchived(view, workflow_id))
                return hidden(gone) if masked else gone
            tasks = view.attempts(workflow_id)
            definition = self.turns.plan(view, row).definition
            grafts = {digest for task in tasks for digest in task.grafts}
            made = {digest: self.turns.made(view, row, digest) for digest in sorted(grafts)}
            absent = {p.digest for t in tasks for p in (t.input, t.output) if p.absent}
            absent |= {p.digest for p in _payloads(row) if p.absent}
            texts = self.turns.texts(view, workflow_id, absent) if absent else {}
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
        with self.backend.reading() as view:
            row = view.workflow(workflow_id)
            if row is None:
                return attrs.evolve(unarchived(view, workflow_id).workflow, tasks=())
            absent = {p.digest for p in _payloads(row) if p.absent}
            return _whole(row, self.turns.texts(view, workflow_id, absent) if absent else {})

    def history(self, workflow_id: str, *, masked: bool = False) -> Sequence[HistoryEvent]:
        """The journal of an execution, every payload with its text, also of an archived one; raises ExecutionNotFound.

        `masked` as `get` does it.
        """
        with self.backend.reading() as view:
            row = view.workflow(workflow_id)
            if row is None:
                found = unarchived(view, workflow_id)
                hides = () if found.workflow.definition is None or not masked else found.workflow.definition.masked_fields
                return masked_history(list(found.history), hides) if hides else found.history
            lines = view.history(workflow_id)
            absent = {line.payload.digest for line in lines if line.payload is not None and line.payload.absent}
            texts = self.turns.texts(view, workflow_id, absent) if absent else {}
            fields = self.turns.plan(view, row).definition.masked_fields if masked else ()
        whole = [
            attrs.evolve(line, payload=_filled(line.payload, texts)) if line.payload is not None and line.payload.absent else line
            for line in lines
        ]
        return masked_history(whole, fields) if fields else whole

    def export(self, workflow_id: str) -> dict[str, Any]:
        """An execution as one JSON document that `conductorlite.testing.replay` can live again.

        It holds the definitions, inputs and whole journals of the execution and, recursively, of those it started: children,
        failure workflows, what START_WORKFLOW began, whether archived or not. No fence, lease, log line, or value of the engine's
        `environment` is in it. Raises ExecutionNotFound, also when the execution has not begun, and StorageCorrupt when a
        definition is missing.
        """
        definitions: dict[str, str] = {}
        exported: dict[str, tuple[Workflow, Sequence[HistoryEvent]]] = {}
        waiting = [workflow_id]
        while waiting:
            one = waiting.pop()
            if one in exported:
                continue
            row, history = self.execution(one), self.history(one)
            with self.backend.reading() as view:
                definitions_of(view, row, history, definitions)
                row = first_row(view, row, history)
                definitions_of(view, row, (), definitions)
                others = [one for one in below(row, history) if view.workflow(one) or view.archived(one)]
            exported[one] = row, history
            waiting += [*others, *(child.workflow_id for child in self.children(one))]
        bounds = self.turns.bounds
        return export_to_json(exported.values(), definitions, bounds.steps, bounds.rows, bounds.barriers.stated())

    def workflow_ids(self, status: WorkflowStatus | None = None) -> Iterator[str]:
        """Ids of all executions, or of those in one status, in ascending order."""
        return chain.from_iterable(
            stored_pages(self.backend, lambda view, after, size: view.workflow_ids(status, after, size), "", str)
        )

    def agenda(self, limit: int = 100) -> list[AgendaEntry]:
        """The next things that will happen by themselves, soonest first."""
        with self.backend.reading() as view:
            events = view.upcoming_events(limit)
            messages = [message for message in view.messages(limit) if message.due_at > self.clock.now()]
        entries = [AgendaEntry(at=event.due_at, kind=event.kind, workflow_id=event.workflow_id, ref=event.ref) for event in events]
        entries += [
            AgendaEntry(at=message.due_at, kind="OFFERED", workflow_id=message.workflow_id, ref=message.ref) for message in messages
        ]
        return sorted(entries, key=lambda entry: (entry.at, entry.workflow_id, entry.ref or "", entry.kind))[:limit]

    def next_wakeup(self) -> int | None:
        """The earliest instant at which something happens by itself, epoch ms; None when nothing will."""
        now = self.clock.now()
        with self.backend.reading() as view:
            event = view.next_event_at(self.owner)
            message = view.next_message_at(self._own_queues(view))
        return min((at for at in (event, message if message is None or message > now else None) if at is not None), default=None)

    def _own_queues(self, view: ReadingTransaction) -> list[str] | None:
        prefix = queue_prefix(self.owner)
        return [queue for queue in view.queue_sizes() if queue.startswith(prefix)] if prefix else None

    def explain(self, workflow_id: str, task: str | None = None) -> Explanation:
        """Why an execution waits, or how it ended: `str()` is one paragraph, `reasons` are its data; raises ExecutionNotFound.

        With `task` (a reference) it is about that task: where it stands, or why it never ran.
        """
        workflow = self.get(workflow_id, masked=True)
        history = self.history(workflow_id)
        with self.backend.reading() as view:
            inbox = view.inbox(workflow_id)
            domains = {row.task_type for row in workflow.tasks if row.domain and not row.status.terminal}
            polls = [poll for kind in sorted(domains) for poll in view.poll_data(kind)]
            moved = (line.payload.value["from"]["definitionHash"] for line in history if _moved(line) and line.payload)
            former = [self.turns.made(view, workflow, digest) for digest in dict.fromkeys(moved)]
        below = self._below(workflow)
        with self.backend.reading() as view:
            standings = self._standings(view, (workflow,), task) | self._standings(view, (row for row, _ in below.values()), None)
            archived = view.workflow(workflow_id) is None
            inboxes = (inbox, *(events for _, events in below.values()))
            left = self.driven.left(view, (event for events in inboxes for event in events), self.clock.now())
        case = Case(
            workflow=workflow, inbox=inbox, now=self.clock.now(), history=history, below=below, polls=polls, former=former,
            standings=standings, left=left,
        )  # fmt: skip
        found = case.explain(task)
        known = Reason(kind="ARCHIVED", workflow_id=workflow_id, text="It is archived")
        return Explanation(reasons=(*found.reasons, known)) if archived else found

    def _below(self, workflow: Workflow) -> dict[str, tuple[Workflow, Sequence[Event]]]:
        """The executions that the first open tasks wait for, and what the first one in each waits for, down to the last."""
        found: dict[str, tuple[Workflow, Sequence[Event]]] = {}
        waiting = _waited_for(workflow)[:_TOLD]
        while waiting:
            child = waiting.pop()
            try:
                row = self.get(child, masked=True)
            except ExecutionNotFound:  # not begun yet, or removed
                continue
            with self.backend.reading() as view:
                found[child] = row, view.inbox(child)
            waiting += _waited_for(row)[:1]
        return found

    def check(self, workflow_id: str | None = None) -> list[Finding]:
        """Every invariant on one execution, or on all that are stored, their limits, and the store itself; changes nothing.

        With an index also whether it agrees (`the_index_agrees`), archived executions included; not what it is still to be told,
        nor while it is built. An empty list is a healthy store. `repair` sets right what it can. Raises ExecutionNotFound.
        """
        found: list[Finding] = []
        if workflow_id is None:
            found += [Finding(law="the_store_is_sound", workflow_id="", text=text) for text in self.backend.faults()]
        for one in [workflow_id] if workflow_id is not None else self.workflow_ids():
            with self.backend.reading() as view:
                found += [] if self._unarchived(view, one) else findings(self._picture(view, one))
        if workflow_id is None:
            for limit in self._limits():
                with self.backend.reading() as view:
                    members = view.members(limit)
                    found += limit_findings(view.line(limit, 0).limit, members)
                    found += [_stranger(limit, holder) for holder in sorted(strangers(view, members))]
            with self.backend.reading() as view:
                found += [_orphan(message) for message in orphans(view)]
        return [*found, *self._index_compared(workflow_id)]

    def _index_compared(self, workflow_id: str | None) -> Iterable[Finding]:
        """How the index differs from the store: not at all without one."""
        return ()

    def _limits(self) -> Iterator[str]:
        found = stored_pages(self.backend, lambda view, after, size: view.limits(after, size), "", lambda limit: limit.key)
        return (limit.key for page in found for limit in page)

    def _unarchived(self, view: ReadingTransaction, workflow_id: str) -> bool:
        """Whether an execution is archived, so that no law is about it; raises StorageCorrupt when it cannot be read."""
        return view.workflow(workflow_id) is None and view.archived(workflow_id) is not None and bool(unarchived(view, workflow_id))

    def _picture(self, view: ReadingTransaction, workflow_id: str) -> Picture:
        row = view.workflow(workflow_id)
        if row is None:
            raise missing(view, workflow_id)
        attempts = view.attempts(workflow_id)
        history = view.history(workflow_id)
        payloads = (line.payload for line in history if line.kind in _TELLING)
        told = {payload.digest for payload in payloads if payload is not None and payload.absent}
        texts = self.turns.texts(view, workflow_id, told) if told else {}
        messages = (view.message((workflow_id, ref)) for ref in dict.fromkeys(task.ref for task in attempts))
        return Picture(
            workflow=row,
            plan=self.turns.plan(view, row),
            grown={chain: self.turns.grown(view, row, chain) for chain in {task.grafts for task in attempts}},
            attempts=tuple(attempts),
            inbox=tuple(view.inbox(workflow_id)),
            members=view.members_of(workflow_id),
            messages=tuple(message for message in messages if message is not None),
            history=tuple(
                attrs.evolve(line, payload=texts[line.payload.digest])
                if line.payload is not None and line.payload.digest in told
                else line
                for line in history
            ),
            undelivered=any(
                workflow_id in (item.workflow_id, *(event.workflow_id for event in item.outgoing.posted))
                for item in view.outbox(10_000)
            ),
        )


#: Sub-workflows looked into for what an execution waits for.
_TOLD = 5


def strangers(view: ReadingTransaction, members: Iterable[Member]) -> frozenset[str]:
    """Holders of places in a limit whose execution is gone."""
    known: dict[str, bool] = {}
    for member in members:
        if member.workflow_id not in known:
            known[member.workflow_id] = view.workflow(member.workflow_id) is not None
    return frozenset(member.holder for member in members if not known[member.workflow_id])


def orphans(view: ReadingTransaction) -> list[Message]:
    """Messages of tasks that are gone; not of executions whose removals are still to be relayed."""
    waiting = sum(view.queue_sizes().values())
    behind = {item.workflow_id for item in view.outbox(10_000)}
    found = view.messages(waiting) if waiting else ()
    return [one for one in found if one.workflow_id not in behind and view.task_by_id(one.task_id) is None]


def _stranger(key: str, holder: str) -> Finding:
    return Finding(law="slots_are_counted_and_used", workflow_id=key, text=f"{holder} has a place, and its execution is gone")


def _orphan(message: Message) -> Finding:
    text = f"queue {message.queue!r} offers {message.task_id!r}, a task that is gone"
    return Finding(law="nothing_of_the_ended", workflow_id=message.workflow_id, text=text)


def _moved(line: HistoryEvent) -> bool:
    return line.kind is HistoryKind.MIGRATED


def _waited_for(workflow: Workflow) -> list[str]:
    open_tasks = (task for task in workflow.tasks if not task.retried and not task.status.terminal)
    return [task.sub_workflow_id for task in open_tasks if task.sub_workflow_id is not None]


def _payloads(row: Workflow) -> tuple[Payload, ...]:
    return row.input, row.output, row.variables, row.task_to_domain


def _whole(row: Workflow, texts: dict[str, Payload]) -> Workflow:
    return attrs.evolve(
        row,
        input=_filled(row.input, texts),
        output=_filled(row.output, texts),
        variables=_filled(row.variables, texts),
        task_to_domain=_filled(row.task_to_domain, texts),
    )


def _filled(payload: Payload, texts: dict[str, Payload]) -> Payload:
    return texts[payload.digest] if payload.absent else payload
