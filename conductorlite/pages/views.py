"""The two pages: of an execution, and of a store.

That of an execution: why it is where it is, its failures, its picture, its attempts on a line of time, its journal. That of a
store: what its executions came to and why they failed, what waits, what comes next.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from conductorlite.errors import Cause
from conductorlite.model.definitions import WorkflowDef, alone_in_words
from conductorlite.model.executions import AgendaEntry, Explanation, HistoryEvent, PollData, Task, TaskLog, Workflow
from conductorlite.model.mailbox import WorkflowMessage
from conductorlite.model.scalars import encoded
from conductorlite.model.schedules import Schedule
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.model.streams import LatestValue, StreamItem, progress_in_words
from conductorlite.model.texts import cut, instant_in_words, span_in_words
from conductorlite.pages.graph import Graph, attempts_of, took
from conductorlite.pages.markup import (
    Document,
    Html,
    actions,
    badge,
    chunks,
    element,
    join,
    linked,
    look,
    pairs,
    payload_text,
    search_form,
    table,
    table_row,
)
from conductorlite.plan.grafts import unfolded

__all__ = ["ExecutionView", "StoreView", "execution_page", "store_page"]

#: Levels of a `try` in another one that are distinguished by their indentation.
_DEEPEST: Final = 4

#: Attempts, and lines of the journal, in one fold.
_ATTEMPTS: Final = 200
_LINES: Final = 1_000

#: Of what happens by itself so much is listed.
_DUE: Final = 50

#: Characters that all inputs and outputs of attempts may take together, and that one document may.
_BUDGET: Final = 3_000_000
_LEAST: Final = 120
_MOST: Final = 5_000
_WHOLE: Final = 50_000


@attrs.frozen(kw_only=True, slots=True)
class ExecutionView:
    """All that the page of an execution shows: `workflow` as `Engine.get` returns it, `children` by id with their statuses.

    `logs` are lines of workers by task id, the first and the last of each. `address` is what the pages of executions begin with,
    where there are any: then this one has forms for its verbs.
    """

    workflow: Workflow
    history: Sequence[HistoryEvent]
    explanation: Explanation
    causes: Sequence[Cause]
    due: Sequence[AgendaEntry]
    children: Mapping[str, str]
    now: int
    logs: Mapping[str, Sequence[TaskLog]] = attrs.field(factory=dict)
    address: str | None = None
    values: Sequence[LatestValue] = ()
    #: The newest values that it has emitted, and all messages to it, in order.
    items: Sequence[StreamItem] = ()
    messages: Sequence[WorkflowMessage] = ()
    #: Where steps are written, by reference: an engine that has the flow knows it.
    lines: Mapping[str, str] = attrs.field(factory=dict)
    #: The executions in which the steps of a `try` or an `attempt` run, which are shown in place, by their ids.
    within: Mapping[str, Workflow] = attrs.field(factory=dict)


def execution_page(view: ExecutionView) -> Document:
    """The page of an execution."""
    row = view.workflow
    definition = unfolded(row) or WorkflowDef(name=row.name, tasks=())
    rows = attempts_of(row)
    for inner in reversed(list(view.within.values())):
        for ref, found in attempts_of(inner).items():
            rows.setdefault(ref, []).extend(found)
    shown = list(_in_place(view, row))
    links = {task.task_id: address for address, _, task in shown}
    graph = Graph(definition=definition, rows=rows, links=links, now=view.now)
    title = f"{row.name} v{row.version}: {row.status}"
    why = element("p", str(view.explanation)) if view.explanation.reasons else Html()
    return Document(
        f"{title} ({row.workflow_id})",
        join([element("h1", f"{row.name} v{row.version} ", badge(row.status)), _summary(view, [task for _, _, task in shown])]),
        [
            ("actions", "Act", Html() if view.address is None else actions(row, view.address, view.within.values())),
            ("why", "What it waits for" if not row.status.terminal else "How it ended", why),
            ("failures", "Failures", _failures(view, links)),
            ("messages", "Messages", _messages(view, links)),
            ("values", "Values", _values(view)),
            ("due", "Due next", _due_table(view.due, view.now, view.address)),
            ("graph", "Graph", graph.svg()),
            ("attempts", "Timeline", _attempts(view, graph, shown)),
            ("children", "Sub-workflows", _children(view, links)),
            ("data", "Input and output", _documents(row)),
            ("journal", "Journal", _journal(view)),
        ],
        moves=not row.status.terminal,
    )


def _in_place(view: ExecutionView, row: Workflow, address: str = "a", depth: int = 0) -> Iterator[tuple[str, int, Task]]:
    """Every attempt with its place on the page, and how many attempts around it hold it: the steps of a `try` follow it."""
    for number, task in enumerate(row.tasks, 1):
        here = f"{address}{number}"
        yield here, depth, task
        inner = view.within.get(task.sub_workflow_id or "")
        if inner is not None:
            yield from _in_place(view, inner, f"{here}-", depth + 1)


def _summary(view: ExecutionView, attempts: Sequence[Task]) -> Html:
    row = view.workflow
    alone = alone_in_words(row.name)
    values = () if row.status.terminal else view.values
    counts = Counter(str(task.status) for task in attempts)
    begun = row.created_at
    return pairs(
        [
            ("Execution", row.workflow_id),
            ("Kind", alone),
            ("Started", instant_in_words(begun)),
            ("Ended", instant_in_words(row.ended_at) if row.ended_at else None),
            ("Took" if row.ended_at else "Runs for", span_in_words(max(0, (row.ended_at or view.now) - begun))),
            ("Attempts", f"{len(attempts):,}"),
            ("Of them", ", ".join(f"{number:,} {status}" for status, number in counts.most_common())),
            ("Progress", ", ".join(f"{ref}: {words}" for ref, words in progress_in_words(values).items()) or None),
            ("Values emitted", f"{row.item_seq:,}" if row.item_seq else None),
            ("Compensated, then", row.compensating),
            ("Parked", row.parked),
            ("Correlation id", row.correlation_id),
            ("Started by", row.created_by),
            ("Parent", linked(row.parent_workflow_id, view.address)),
            ("Forked from", linked(next((line.origin for line in view.history if line.origin), None), view.address)),
            ("Messages not received", f"{row.unreceived:,}" if row.unreceived else None),
            ("Page made", instant_in_words(view.now)),
        ]
    )


def _failures(view: ExecutionView, links: Mapping[str, str]) -> Html:
    """The root cause first, then what else failed: each with its address, its reason and where it was raised."""

    def shown(cause: Cause) -> Html:
        elsewhere = cause.workflow_id != view.workflow.workflow_id
        place = " › ".join(cause.address) + (f" ({cause.line})" if cause.line else "")
        link = links.get(cause.task_id or "")
        return element(
            "li",
            element("h3", badge(str(cause.status)), " ", element("a", place, href=f"#{link}") if link else place),
            element("p", cause.reason or "No reason was given", class_="reason"),
            *(element("p", null) for null in cause.nulls),
            element("p", "In execution ", linked(cause.workflow_id, view.address)) if elsewhere else "",
            element("p", "It was optional: it stopped nothing") if cause.optional else "",
            element("details", element("summary", "Traceback"), element("pre", cause.traceback[:_WHOLE], tabindex="0"), open=True)
            if cause.traceback
            else "",
        )

    return element("ol", *map(shown, view.causes), class_="causes") if view.causes else Html()


def _due_table(due: Sequence[AgendaEntry], now: int, address: str | None = None) -> Html:
    """Return the table of what happens by itself, soonest first."""

    def shown(one: AgendaEntry) -> Html:
        ahead = f"in {span_in_words(one.at - now)}" if one.at > now else "due"
        return table_row(instant_in_words(one.at), ahead, one.kind, one.ref, linked(one.workflow_id, address))

    made = table("What happens by itself, soonest first", ("At", "In", "What", "Task", "Execution"), map(shown, due[:_DUE]))
    return join([made, element("p", f"And {len(due) - _DUE:,} more, later") if len(due) > _DUE else ""])


# ---------------------------------------------------------------------- attempts


def _attempts(view: ExecutionView, graph: Graph, attempts: Sequence[tuple[str, int, Task]]) -> Html:
    """Every attempt once, in order of scheduling, steps of a `try` behind it: its time as a bar, its data in a fold."""
    row = view.workflow
    if not attempts:
        return Html()
    limit = max(_LEAST, min(_MOST, _BUDGET // (2 * len(attempts))))
    end = max(row.ended_at or view.now, row.created_at + 1, *(task.ended_at for _, _, task in attempts))
    scale = _Scale(row.created_at, end - row.created_at, view.now)
    legend = element(
        "p",
        "Each attempt with its status, when it was scheduled, counted from the start, and how long it took. ",
        f"Its bar is hatched while it waits and filled while it runs; the whole width is {span_in_words(scale.span)}.",
    )

    def whole(depth: int, task: Task) -> Html:
        return _attempt(task, depth, graph, scale, limit, view.logs.get(task.task_id, ()), view.lines.get(task.base_ref))

    shown = (whole(depth, task) for _, depth, task in attempts)
    search = search_form("attempts", (task.status for _, _, task in attempts))
    return join([search, legend, chunks(shown, _ATTEMPTS, "Attempts", join)])


@attrs.frozen(slots=True)
class _Scale:
    """The line of time: where it begins (epoch ms), how long it is, and what the clock reads."""

    begin: int
    span: int
    now: int

    def part(self, kind: str, begin: int, end: int) -> Html:
        """A piece of a bar; empty when it takes no time."""
        left, width = (100 * (max(at, self.begin) - self.begin) / self.span for at in (begin, end))
        if end <= begin and kind == "wait":
            return Html()
        return element("i", class_=kind, style=f"left:{min(left, 99.6):.4g}%;width:{max(width - left, 0):.4g}%")


def _attempt(task: Task, depth: int, graph: Graph, scale: _Scale, limit: int, logs: Sequence[TaskLog], line: str | None) -> Html:
    number = task.attempt + 1
    end = task.ended_at or scale.now
    begun = task.started_at or end
    bar = [scale.part("wait", task.scheduled_at, min(begun, end)), scale.part(f"run {look(task.status)[0]}", min(begun, end), end)]
    parts = [
        element("span", task.ref, class_="ref"),
        badge(str(task.status)),
        element("span", f"attempt {number}" if number > 1 or task.retried else "", class_="try"),
        element("span", f"+{span_in_words(max(0, task.scheduled_at - scale.begin))}", class_="at"),
        element("span", span_in_words(took(task, scale.now)), class_="took"),
        element("span", *bar, class_="bar", aria_hidden="true"),
    ]
    # A reader that speaks takes the spaces for pauses.
    head = element("summary", join(parts, " "))
    data = {"id": graph.links[task.task_id], "data_n": graph.numbers.get(task.base_ref), "data_s": str(task.status)}
    data |= {"style": f"margin-left:{min(depth, _DEEPEST)}rem"} if depth else {}
    return element("details", head, join(_details(task, limit, logs, line)), class_="attempt", **data)


def _details(task: Task, limit: int, logs: Sequence[TaskLog], line: str | None) -> Iterator[Html]:
    instants = ("scheduled", task.scheduled_at), ("started", task.started_at), ("ended", task.ended_at)
    words = [
        task.task_type,
        *([line] if line else []),
        f"task id {task.task_id}",
        *(f"{name} {instant_in_words(at)}" for name, at in instants if at),
        *(f"{name} {value}" for name, value in (("worker", task.worker_id), ("domain", task.domain)) if value),
        *([f"polled {task.poll_count} times"] if task.poll_count > 1 else []),
        *([f"started {task.sub_workflow_id}"] if task.sub_workflow_id is not None else []),
    ]
    yield element("p", " · ".join(words), class_="note")
    if task.reason:
        yield element("p", task.reason, class_="reason")
    for name, payload in (("Input", task.input), ("Output", task.output)):
        if payload.shown not in ("", "{}"):
            yield element("h3", name)
            yield payload_text(payload, limit)
    if logs:
        lines = (f"{instant_in_words(line.at)}  {line.text}\n" for line in logs)
        yield element("h3", "Log")
        yield element("pre", *lines, tabindex="0")
    if task.traceback:
        yield element("h3", "Traceback")
        yield element("pre", task.traceback[:_WHOLE], tabindex="0")


# ---------------------------------------------------------------------- the rest


def _children(view: ExecutionView, links: Mapping[str, str]) -> Html:
    rows = [
        table_row(
            linked(task.sub_workflow_id, view.address),
            badge(view.children[task.sub_workflow_id or ""]),
            element("a", task.ref, href=f"#{links[task.task_id]}"),
        )
        for task in view.workflow.tasks
        if task.sub_workflow_id in view.children
    ]
    headings = ("Execution", "Status", "Task")
    return chunks(rows, _ATTEMPTS, "Sub-workflows", lambda some: table("Executions that its tasks have started", headings, some))


def _messages(view: ExecutionView, links: Mapping[str, str]) -> Html:
    last = {task.ref: links[task.task_id] for task in view.workflow.tasks if task.task_id in links}

    def shown(one: WorkflowMessage) -> Html:
        receiver: object = one.receiver or "not received"
        if one.receiver in last:
            receiver = element("a", one.receiver, href=f"#{last[one.receiver]}")
        return table_row(one.number, one.topic, instant_in_words(one.sent_at), receiver, cut(one.value.shown, _LEAST))

    headings = ("Number", "Topic", "Sent", "Received by", "Value")
    return chunks(map(shown, view.messages), _ATTEMPTS, "Messages", lambda some: table("Messages to it", headings, some))


def _values(view: ExecutionView) -> Html:
    """Its latest values, and the newest of what it has emitted."""

    def value(one: LatestValue) -> Html:
        return table_row(one.name, one.ref, instant_in_words(one.at), cut(one.value.shown, _LEAST))

    def item(one: StreamItem) -> Html:
        text = one.value if isinstance(one.value, str) else encoded(one.value)
        return table_row(
            one.number, one.stream, one.ref, "kept" if one.kept else "open", instant_in_words(one.at), cut(text, _LEAST)
        )

    latest = table("Latest values", ("Name", "Task", "Set", "Value"), map(value, view.values))
    headings = ("Number", "Stream", "Task", "State", "Emitted", "Value")
    return join([latest, table("The newest values that it has emitted", headings, map(item, view.items))])


def _documents(row: Workflow) -> Html:
    named = (("Input", row.input), ("Output", row.output), ("Variables", row.variables))
    shown = [(name, payload) for name, payload in named if payload.shown not in ("", "{}")]
    return join(part for name, payload in shown for part in (element("h3", name), payload_text(payload, _WHOLE)))


def _journal(view: ExecutionView) -> Html:
    begin = view.workflow.created_at
    times = (f"+{span_in_words(max(0, line.at - begin))}" for line in view.history)
    lines = (f"{line.n:>6}  {at:<14}  {' '.join(line.words.splitlines())}\n" for at, line in zip(times, view.history, strict=True))
    return chunks(lines, _LINES, "Lines", lambda some: element("pre", *some, tabindex="0"))


#: Executions in one fold, and those that are named of each group of failures.
_ROWS: Final = 200
_NAMED: Final = 20

#: Characters of a reason in a list.
_REASON: Final = 300

#: What differs between two failures of the same kind: ids and numbers.
_PARTICULAR: Final = re.compile(r"\b[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b|\d+")


@attrs.frozen(kw_only=True, slots=True)
class StoreView:
    """All that the page of a store shows: its newest `executions`, without their tasks, and whether there are `more`.

    Of each queue: its name, the tasks that are offered, wait in line, are delayed and in progress, and since when the oldest of the
    first two is due. Of each limit: its key, what is in use, what its window holds, how many wait;
    of each engine with executions of its own: its name, those that are open and that have ended. `address` is what the pages of
    executions begin with, where there are any.
    """

    executions: Sequence[Workflow]
    more: bool
    due: Sequence[AgendaEntry]
    queues: Sequence[tuple[str, int, int, int, int, int | None]]
    polls: Sequence[PollData]
    limits: Sequence[tuple[str, int, int, int]]
    schedules: Sequence[Schedule]
    engines: Sequence[tuple[str, int, int]]
    now: int
    address: str | None = None
    #: Open steps that wait for a person: the execution, its workflow, the step, and since when.
    people: Sequence[tuple[str, str, str, int]] = ()
    #: Open steps that wait for a message: the same, and the topic.
    receivers: Sequence[tuple[str, str, str, int, str]] = ()


def store_page(view: StoreView) -> Document:
    """The page of a store."""
    rows = view.executions
    counts = Counter(str(row.status) for row in rows)
    shown = f"the newest {len(rows):,}" if view.more else "all"
    limits, engines = (itertools.starmap(table_row, found) for found in (view.limits, view.engines))
    summary = pairs(
        [
            ("Executions looked at", f"{len(rows):,}, {shown}"),
            *((status, f"{number:,}") for status, number in counts.most_common()),
            ("Page made", instant_in_words(view.now)),
        ]
    )
    return Document(
        "Executions",
        join([element("h1", "Executions"), summary]),
        [
            ("undriven", "Nothing drives this store", _undriven(view)),
            ("executions", "Executions", _executions(view)),
            ("people", "Waiting for a person", _people(view)),
            ("messages", "Messages", _mailboxes(view)),
            ("definitions", "By definition", _definitions(rows)),
            ("failures", "Failures by reason", _groups_of_failures(view)),
            ("due", "Due next", _due_table(view.due, view.now, view.address)),
            ("queues", "Queues and workers", join([_queues(view), _workers(view)])),
            ("limits", "Limits", table("How limits stand", ("Limit", "In use", "In window", "Waiting"), limits)),
            ("schedules", "Schedules", _schedules(view)),
            ("engines", "Engines", table("Executions that belong to one engine", ("Engine", "Open", "Ended"), engines)),
        ],
    )


def _definitions(rows: Sequence[Workflow]) -> Html:
    counts = Counter((f"{row.name} v{row.version}", str(row.status)) for row in rows)
    names = sorted({name for name, _ in counts})
    statuses = [str(status) for status in WorkflowStatus if any((name, str(status)) in counts for name in names)]
    body = (
        table_row(name, *(f"{counts[name, status]:,}" if counts[name, status] else "" for status in statuses)) for name in names
    )
    return table("Executions by definition and status", ("Definition", *statuses), body)


def _why(row: Workflow) -> str:
    """In a line why an execution did not complete; empty for one that did, or is on its way."""
    if row.parked is not None:
        return f"parked: {cut(row.parked, _REASON)}"
    failed = row.status.terminal and row.status is not WorkflowStatus.COMPLETED
    reason = row.reason or f"{row.status} without a reason"
    return " ".join(cut(reason, _REASON).split()) if failed else ""


def _groups_of_failures(view: StoreView) -> Html:
    """Groups of failures whose reasons differ in ids and numbers only, the largest first."""
    groups: dict[tuple[str, str], list[Workflow]] = {}
    for row in view.executions:
        if why := _why(row):
            groups.setdefault((row.name, _PARTICULAR.sub("#", why)), []).append(row)

    def shown() -> Iterator[Html]:
        for (name, _), found in sorted(groups.items(), key=lambda group: -len(group[1])):
            named = join((linked(row.workflow_id, view.address) for row in found[:_NAMED]), ", ")
            ids = join([named, " …" if len(found) > _NAMED else ""])
            newest = instant_in_words(found[0].ended_at or found[0].updated_at)
            yield table_row(_why(found[0]), f"{len(found):,}", name, newest, element("details", element("summary", "Which"), ids))

    return table("The newest reason of each kind", ("Reason", "Times", "Workflow", "Newest", "Executions"), shown())


#: So long something may be due before it is said that nobody takes it, ms.
_OVERDUE_MS: Final = 5_000


def _undriven(view: StoreView) -> Html:
    """That turns are due which no process takes; empty where one does."""
    late = [entry for entry in view.due if entry.kind != "OFFERED" and entry.at <= view.now - _OVERDUE_MS]
    if not late:
        return Html()
    since = span_in_words(view.now - min(entry.at for entry in late))
    many = f"{len(late):,} turn{'s are' if len(late) > 1 else ' is'} due, the first for {since}"
    how = "Drive it: engine.run_forever() in a program, or `conductorlite run`."
    return element("p", f"{many}, and no process takes {'them' if len(late) > 1 else 'it'}. {how}", class_="note")


def _mailboxes(view: StoreView) -> Html:
    """The steps that wait for a message, and the executions with messages that no step has received."""
    waiting = (
        table_row(linked(workflow_id, view.address), name, ref, topic, span_in_words(max(0, view.now - since)))
        for workflow_id, name, ref, since, topic in view.receivers
    )
    kept = (
        table_row(linked(row.workflow_id, view.address), f"{row.name} v{row.version}", str(row.status), f"{row.unreceived:,}")
        for row in view.executions
        if row.unreceived
    )
    return join(
        [
            table("Steps that wait for a message, the oldest first", ("Execution", "Workflow", "Step", "Topic", "For"), waiting),
            table("Executions with messages that no step has received", ("Execution", "Workflow", "Status", "Messages"), kept),
        ]
    )


def _people(view: StoreView) -> Html:
    rows = (
        table_row(linked(execution, view.address), workflow, step, f"{span_in_words(max(0, view.now - since))}")
        for execution, workflow, step, since in view.people
    )
    return table("Steps that somebody has to complete, the oldest first", ("Execution", "Workflow", "Step", "For"), rows)


def _executions(view: StoreView) -> Html:
    waits: dict[str, list[str]] = {}
    for execution, _, step, _ in view.people:
        waits.setdefault(execution, []).append(step)

    def shown(row: Workflow) -> Html:
        took = span_in_words(max(0, (row.ended_at or view.now) - row.created_at))
        cells = (
            f"{row.name} v{row.version}",
            badge(row.status),
            instant_in_words(row.created_at),
            took,
            row.correlation_id,
            _why(row) or (f"waits for a person: {', '.join(waits[row.workflow_id])}" if row.workflow_id in waits else ""),
        )
        return table_row(linked(row.workflow_id, view.address), *cells, data_s=str(row.status))

    headings = ("Execution", "Workflow", "Status", "Started", "Took", "Correlation id", "Reason")
    whole = chunks(map(shown, view.executions), _ROWS, "Executions", lambda some: table("Newest first", headings, some))
    note = "" if view.address else element("p", "conductorlite show ID --html FILE makes the page of one.", class_="note")
    return join([search_form("executions", (row.status for row in view.executions)), note, whole]) if view.executions else Html()


def _queues(view: StoreView) -> Html:
    rows = (
        table_row(queue, *(f"{number:,}" for number in numbers), "" if oldest is None else span_in_words(max(0, view.now - oldest)))
        for queue, *numbers, oldest in view.queues
    )
    headings = ("Queue", "Offered", "Waiting for a slot", "Delayed", "In progress", "Oldest waits for")
    return table("Tasks for workers that have not ended", headings, rows)


def _workers(view: StoreView) -> Html:
    rows = (
        table_row(poll.queue_name, poll.domain, poll.worker_id, f"{span_in_words(max(0, view.now - poll.last_poll_time))} ago")
        for poll in view.polls
    )
    return table("Who polled last", ("Task type", "Domain", "Worker", "When"), rows)


def _schedules(view: StoreView) -> Html:
    def shown(one: Schedule) -> Html:
        at = one.next_run_time
        last = one.recent[-1] if one.recent else None
        ran = "" if last is None else f"{last.outcome} {last.workflow_id or last.reason or ''}"
        return table_row(
            one.name,
            one.definition.start_workflow_request.name,
            f"paused: {one.paused_reason or ''}" if one.paused else "active",
            None if at is None else instant_in_words(at),
            ran,
        )

    return table("Schedules", ("Schedule", "Workflow", "State", "Next", "Last"), map(shown, view.schedules))
