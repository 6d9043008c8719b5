"""Reading of executions, whole, their journals and why they wait; and of limits as they stand.

`maskedFields`: what a workflow's definition has hidden wherever its values are shown to people.

A masked field is a key, at any depth, of the inputs, outputs and variables of the execution and its tasks; its whole value is
shown as `***`. Workers, expressions and programs get the values. Source of the word: Orkes' documentation of `maskedFields`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.engine.config import Part, Service
from conductorlite.engine.turn_types import archived_workflow, messages_to, missing, pages, status_of, unarchived
from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.clock import readings
from conductorlite.model.decisions import Event, queue_name
from conductorlite.model.errors import ExecutionNotFound, InvalidInput
from conductorlite.model.executions import Explanation, HistoryEvent, HistoryKind, Reason, Task, TaskLog, Workflow, frozen_workflow
from conductorlite.model.limits import Limit, Member, MemberState, known_key, reread, task_key
from conductorlite.store.ports import ReadingTransaction

if TYPE_CHECKING:
    from conductorlite.model.handlers import EventExecution
    from conductorlite.model.mailbox import WorkflowMessage
    from conductorlite.plan.grafts import RunProgress

__all__ = ["LimitMember", "LimitUse", "Limits", "Queries", "hidden", "masked_history", "masked_value", "queue_sizes", "with_texts"]

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
            row = view.executions.workflow(workflow_id)
            if row is None:
                gone = archived_workflow(unarchived(view, workflow_id))
                return frozen_workflow(hidden(gone) if masked else gone)
            tasks = view.executions.attempts(workflow_id)
            definition = self._turns.lookups.plans.shown(view, row)
            grafts = {digest for task in tasks for digest in task.grafts}
            made = {digest: self._turns.lookups.plans.shown(view, row, digest) for digest in sorted(grafts)}
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
        return frozen_workflow(hidden(whole) if masked else whole)

    def execution(self, workflow_id: str) -> Workflow:
        """An execution's own row, without its tasks and its definition, also of an archived one; raises ExecutionNotFound."""
        with self._backend.reading() as view:
            row = view.executions.workflow(workflow_id)
            if row is None:
                return frozen_workflow(attrs.evolve(unarchived(view, workflow_id).workflow, tasks=()))
            return frozen_workflow(_whole(row, self.texts(view, workflow_id, _payloads(row))))

    def ending(self, workflow_id: str, rows: list[Workflow]) -> Callable[[], bool]:
        """Return a function that returns True if an execution has ended.

        Then its row is one of the `rows`, its documents unread, unless it is archived.
        """

        def look() -> bool:
            known = self._turns.quiet.ended(workflow_id)
            if known is not None:
                rows.append(known)
                return True
            with self._backend.reading() as view:
                row = view.executions.workflow(workflow_id)
                if row is not None and row.status.terminal:
                    rows.append(row)
                return (status_of(view, workflow_id) if row is None else row.status).terminal

        return self._turns.quiet.watching(self._turns.residents, workflow_id, look)

    def texts(self, view: ReadingTransaction, workflow_id: str, payloads: Iterable[Payload | None]) -> Mapping[str, Payload]:
        """Return the texts of those of some payloads that were not read with their rows, by hash."""
        absent = {payload.digest for payload in payloads if payload is not None and payload.absent}
        return self._turns.lookups.texts(view, workflow_id, absent) if absent else {}

    def messages(self, workflow_id: str, *, masked: bool = False) -> list[WorkflowMessage]:
        """See `Engine.messages`."""
        texts: Mapping[str, Payload] = {}
        with self._backend.reading() as view:
            row = view.executions.workflow(workflow_id)
            if row is None:
                found = list(unarchived(view, workflow_id).messages)
            elif row.message_seq:
                found = messages_to(view, workflow_id)
                texts = self.texts(view, workflow_id, (message.value for message in found))
            else:
                return []
        fields = _fields(self.get(workflow_id)) if masked and found else frozenset[str]()
        values = (texts.get(message.value.digest, message.value) for message in found)
        shown = (_payload(value, fields) if fields else value for value in values)
        return [attrs.evolve(message, value=value) for message, value in zip(found, shown, strict=True)]

    def around(self, task: Task, row: Workflow | None = None, *, masked: bool = False) -> Workflow:
        """The execution of an attempt, to show the attempt by: no document of its own, its definition, and that attempt alone.

        Its `row` is read unless it is given. Raises ExecutionNotFound.
        """
        with self._backend.reading() as view:
            row = row or view.executions.workflow(task.workflow_id)
            if row is None:
                raise missing(view, task.workflow_id)
            definition = self._turns.lookups.plans.shown(view, row)
            made = {digest: self._turns.lookups.plans.shown(view, row, digest) for digest in task.grafts}
        around = attrs.evolve(row, input=EMPTY, output=EMPTY, variables=EMPTY, tasks=(task,), definition=definition, made=made)
        return frozen_workflow(hidden(around) if masked else around)

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
            row = view.executions.workflow(workflow_id)
            if row is None:
                found = unarchived(view, workflow_id)
                hides = () if found.workflow.definition is None or not masked else found.workflow.definition.masked_fields
                kept = [line for line in found.history if line.n > after]
                return masked_history(kept, hides) if hides else kept, True
            lines = view.history.lines(workflow_id, after)
            texts = self.texts(view, workflow_id, (line.payload for line in lines))
            fields = self._turns.lookups.plans.plan(view, row).definition.masked_fields if masked else ()
        whole = with_texts(lines, texts)
        return masked_history(whole, fields) if fields else whole, row.status.terminal

    def follow(self, workflow_id: str, after: int, until: Callable[[str, Callable[[], bool]], object]) -> Iterator[HistoryEvent]:
        """The lines after that one, and those that are added, until the execution has ended; `until` waits for something of it."""
        over = False
        while not over:
            lines, over = self.following(workflow_id, after)
            yield from lines
            after = lines[-1].n if lines else after
            if not over:
                until(workflow_id, partial(self.more, workflow_id, after))

    def logs(self, workflow_id: str) -> list[tuple[Task, TaskLog]]:
        """Return the log lines of an execution's attempts, in order of time; raises ExecutionNotFound."""
        tasks = {task.task_id: task for task in self.get(workflow_id).tasks}
        with self._backend.reading() as view:
            if view.executions.workflow(workflow_id) is not None:
                found = [line for task_id in tasks for line in view.history.logs(task_id)]
            else:
                found = list(unarchived(view, workflow_id).logs)
        return [(tasks[line.task_id], line) for line in sorted(found, key=lambda line: line.at) if line.task_id in tasks]

    def more(self, workflow_id: str, after: int) -> bool:
        """Return True if the journal has a line after the one of a number, or the execution is not stored any more."""
        with self._backend.reading() as view:
            row = view.executions.workflow(workflow_id)
        return row is None or row.history_seq > after

    def explain(self, workflow_id: str, task: str | None = None) -> Explanation:
        """See `Engine.explain`."""
        from conductorlite.engine.explain import Case
        from conductorlite.engine.waits import Facts, standings

        workflow = self.get(workflow_id, masked=True)
        history = self.history(workflow_id)
        with self._backend.reading() as view:
            inbox = view.inbox.events(workflow_id)
            domains = {row.task_type for row in workflow.tasks if row.domain and not row.status.terminal}
            polls = [poll for kind in sorted(domains) for poll in view.poll_data.polls(kind)]
            moves = (line.payload for line in history if line.kind is HistoryKind.MIGRATED and line.payload)
            moved = dict.fromkeys(payload.value["from"]["definitionHash"] for payload in moves)
            former = [self._turns.lookups.plans.shown(view, workflow, digest) for digest in moved]
        below = self._below(workflow)
        with self._backend.reading() as view:
            places = standings(view, (workflow,), task) | standings(view, (row for row, _ in below.values()), None)
            archived = view.executions.workflow(workflow_id) is None
            inboxes = (inbox, *(events for _, events in below.values()))
            left = self._turns.lookups.left(view, (event for events in inboxes for event in events), self._clock.now())
        facts = Facts(
            workflow=workflow, inbox=inbox, now=self._clock.now(), history=history, below=below, polls=polls,
            standings=places, left=left, put_aside=workflow_id in self._turns.put_aside,
            line_of=self._turns.lookups.failures.line_of,
        )  # fmt: skip
        messages = self.messages(workflow_id) if workflow.unreceived else ()
        case = Case(facts=facts, former=former, messages=messages, refused=self._refused(workflow_id))
        found = case.explain(task)
        known = Reason(kind="ARCHIVED", workflow_id=workflow_id, text="It is archived")
        return Explanation(reasons=(*found.reasons, known)) if archived else found

    def _refused(self, workflow_id: str) -> list[EventExecution]:
        """Actions of event handlers on an execution that could not be carried out, of the newest records."""
        with self._backend.reading() as view:
            newest = view.event_handlers.event_executions(None, None, None, _RECORDS)
        return [one for one in newest if one.status == "FAILED" and one.output_data.get("workflowId") == workflow_id]

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
                found[child] = row, view.inbox.events(child)
            waiting += _waited_for(row)[:1]
        return found


#: Records of event handlers that are looked at.
_RECORDS = 1_000

#: Sub-workflows looked into for what an execution waits for.
_SHOWN = 5


def _waited_for(workflow: Workflow) -> list[str]:
    open_tasks = (task for task in workflow.tasks if not task.retried and not task.status.terminal)
    return [task.sub_workflow_id for task in open_tasks if task.sub_workflow_id is not None]


def _payloads(row: Workflow) -> tuple[Payload, ...]:
    return row.input, row.output, row.variables, row.task_to_domain


def _whole(row: Workflow, texts: Mapping[str, Payload]) -> Workflow:
    return attrs.evolve(
        row,
        input=_filled(row.input, texts),
        output=_filled(row.output, texts),
        variables=_filled(row.variables, texts),
        task_to_domain=_filled(row.task_to_domain, texts),
    )


def with_texts(lines: Iterable[HistoryEvent], texts: Mapping[str, Payload]) -> list[HistoryEvent]:
    """Lines of a journal with their payloads, as far as their texts are known."""
    if not texts:
        return list(lines)
    return [
        attrs.evolve(line, payload=texts[line.payload.digest])
        if line.payload is not None and line.payload.digest in texts
        else line
        for line in lines
    ]


def _filled(payload: Payload, texts: Mapping[str, Payload]) -> Payload:
    return texts[payload.digest] if payload.absent else payload


# ---------------------------------------------------------------------- limits


@attrs.frozen(kw_only=True, slots=True)
class LimitMember:
    """A holder of a limit's slot, or a member of its wait queue: an attempt at a task, or (without `ref` and `task_id`) an
    execution.

    What its own definition allows: `concurrent_exec_limit` at once, and `rate_limit_per_frequency` in any
    `rate_limit_frequency_ms`; 0 means without a limit. `fairness_key` is the key under which it takes turns, None without.
    """

    workflow_id: str
    ref: str | None
    task_id: str | None
    attempt: int
    priority: int
    #: When it asked for its slot, epoch ms.
    asked_at: int
    concurrent_exec_limit: int
    rate_limit_per_frequency: int
    rate_limit_frequency_ms: int
    fairness_key: str | None = None


@attrs.frozen(kw_only=True, slots=True)
class LimitUse:
    """State of a limit.

    `in_use` counts the slots that are held at once, `waiting` those in the line. `admitted_at` are the instants (epoch ms,
    oldest first) of the polls whose tasks its window still holds, and `reserved` counts those that were let in and no poll has
    taken yet. `window_moves_at` is when the head of the line may go, if it waits for a window. `unpolled` are the queues whose
    tasks are passed over: one of them was offered for 5 s, and no worker has polled there since.
    """

    key: str
    in_use: int
    waiting: int
    admitted_at: tuple[int, ...] = ()
    reserved: int = 0
    window_moves_at: int | None = None
    unpolled: tuple[str, ...] = ()
    #: Who holds a slot, in order of task id or workflow id; only `get` fills it.
    holders: tuple[LimitMember, ...] = ()
    #: The line, the next one first; only `get` fills it.
    line: tuple[LimitMember, ...] = ()


class Limits(Service):
    """Operations that show limits."""

    def all(self, *, limit: int = 100, after: str = "") -> list[LimitUse]:
        """Return up to `limit` limits in order of keys, without holders; the next page begins `after` the last key.

        A limit is listed once an execution has asked it for a slot: `task:<name of the task definition>` for `concurrentExecLimit`
        and `rateLimitPerFrequency`; `workflow:<rate limit key>` for `rateLimitConfig`, which may be made of an input, only as long
        as an execution holds a slot or waits. Raises InvalidInput when `limit` is below 1.
        """
        _positive(limit)
        now, read = readings(self._clock)
        with self._backend.reading() as view:
            return [_use(reread(one, now, read), view.limits.waiting(one.key), now) for one in view.limits.page(after, limit)]

    def get(self, key: str, *, limit: int = 100) -> LimitUse:
        """Return a limit with up to `limit` holders and up to `limit` members of its wait queue, the next one first.

        `key` is `task:<name>` or `workflow:<rate limit key>`; one that no execution has asked yet has nothing in use. Raises
        InvalidInput for another key, and when `limit` is below 1.
        """
        _positive(limit)
        if not known_key(key):
            raise InvalidInput(f"{key!r} is no limit: its key is task:<name> or workflow:<rate limit key>")
        with self._backend.reading() as view:
            line = view.limits.line(key, limit)
            now, read = readings(self._clock)
            found = _use(reread(line.limit, now, read), view.limits.waiting(key), now)
            holders = view.limits.holders(key, "", limit)
        return attrs.evolve(found, holders=tuple(map(_member, holders)), line=tuple(map(_member, line.heads[:limit])))


def queue_sizes(view: ReadingTransaction) -> dict[str, int]:
    """The number of tasks that wait for a worker, by queue: those that are offered, and those that wait for a slot of their limit.

    A limited task is taken back from its queue when no worker polls there, so what is offered alone would be nothing.
    """
    sizes = Counter(view.queue.queue_sizes())
    for page in pages(view.limits.page, "", lambda limit: limit.key):
        for limit in page:
            if limit.key.startswith(task_key("")) and view.limits.waiting(limit.key):
                waiting = (one for one in view.limits.members(limit.key) if one.state is MemberState.WAITING)
                sizes.update(queue for one in waiting if (queue := one.lane or _queue_of(view, one)))
    return dict(sizes)


def _queue_of(view: ReadingTransaction, member: Member) -> str:
    """The queue of a task that waits for a slot; empty when it is gone."""
    task, row = view.executions.task_by_id(member.holder), view.executions.workflow(member.workflow_id)
    return "" if task is None or row is None else queue_name(task.task_type, task.domain, row.owner)


def _positive(limit: int) -> None:
    if limit < 1:
        raise InvalidInput(f"limit {limit} is below 1")


def _use(limit: Limit, waiting: int, now: int) -> LimitUse:
    return LimitUse(
        key=limit.key,
        in_use=limit.in_use,
        waiting=waiting,
        admitted_at=tuple(at for at in limit.log if at > now - limit.span_ms),
        reserved=limit.reserved,
        window_moves_at=limit.alarm_at if waiting else None,
        unpolled=limit.unpolled,
    )


def _member(member: Member) -> LimitMember:
    return LimitMember(
        workflow_id=member.workflow_id,
        ref=member.ref,
        task_id=None if member.ref is None else member.holder,
        attempt=member.attempt,
        priority=member.priority,
        asked_at=member.asked_at,
        concurrent_exec_limit=member.concurrent,
        rate_limit_per_frequency=member.rate,
        rate_limit_frequency_ms=member.window_ms,
        fairness_key=member.fairness_key if member.cost else None,
    )
