"""The page of a store: what its executions came to and why they failed, what waits, what comes next."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from conductorlite.model import attrs
from conductorlite.model.executions import AgendaEntry, PollData, Workflow
from conductorlite.model.schedules import Schedule
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.model.texts import cut, instant_in_words, span_in_words
from conductorlite.pages.execution import due_table
from conductorlite.pages.markup import Document, Html, badge, chunks, element, join, linked, pairs, search_form, table, table_row

__all__ = ["StoreView", "store_page"]

#: Executions in one fold, and those that are named of each group of failures.
_ROWS: Final = 200
_NAMED: Final = 20

#: Characters of a reason in a list.
_REASON: Final = 300

#: What differs between two failures of the same kind: ids and numbers.
_PARTICULAR: Final = re.compile(r"\b[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b|\d+")

#: What Conductor puts around the reason of the task that an execution failed for.
_OF_TASK: Final = re.compile(r"Task \S+ failed with status: [A-Z_]+ and reason: '(?P<reason>.+)'", re.DOTALL)


@attrs.frozen(kw_only=True, slots=True)
class StoreView:
    """All that the page of a store shows: its newest `executions`, without their tasks, and whether there are `more`.

    `queues` are numbers of tasks that wait, by queue. Of each limit: its key, what is in use, what its window holds, how many wait;
    of each engine with executions of its own: its name, those that are open and that have ended. `address` is what the pages of
    executions begin with, where there are any.
    """

    executions: Sequence[Workflow]
    more: bool
    due: Sequence[AgendaEntry]
    queues: Mapping[str, int]
    polls: Sequence[PollData]
    limits: Sequence[tuple[str, int, int, int]]
    schedules: Sequence[Schedule]
    engines: Sequence[tuple[str, int, int]]
    now: int
    address: str | None = None


def store_page(view: StoreView) -> Document:
    """The page of a store."""
    rows = view.executions
    counts = Counter(str(row.status) for row in rows)
    shown = f"the newest {len(rows):,}" if view.more else "all"
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
            ("definitions", "By definition", _definitions(rows)),
            ("failures", "Failures by reason", _failures(view)),
            ("due", "Due next", due_table(view.due, view.now, view.address)),
            ("executions", "Executions", _executions(view)),
            ("queues", "Queues and workers", join([_queues(view), _workers(view)])),
            ("limits", "Limits", _limits(view)),
            ("schedules", "Schedules", _schedules(view)),
            ("engines", "Engines", _engines(view)),
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
    of_task = _OF_TASK.fullmatch(reason)
    return " ".join(cut(reason if of_task is None else of_task["reason"], _REASON).split()) if failed else ""


def _failures(view: StoreView) -> Html:
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


def _executions(view: StoreView) -> Html:
    def shown(row: Workflow) -> Html:
        took = span_in_words(max(0, (row.ended_at or view.now) - row.created_at))
        cells = (
            f"{row.name} v{row.version}",
            badge(row.status),
            instant_in_words(row.created_at),
            took,
            row.correlation_id,
            _why(row),
        )
        return table_row(linked(row.workflow_id, view.address), *cells, data_s=str(row.status))

    headings = ("Execution", "Workflow", "Status", "Started", "Took", "Correlation id", "Reason")
    whole = chunks(map(shown, view.executions), _ROWS, "Executions", lambda some: table("Newest first", headings, some))
    note = "" if view.address else element("p", "conductorlite show ID --html FILE makes the page of one.", class_="note")
    return join([search_form("executions", (row.status for row in view.executions)), note, whole]) if view.executions else Html()


def _queues(view: StoreView) -> Html:
    rows = (table_row(queue, f"{number:,}") for queue, number in sorted(view.queues.items(), key=lambda entry: -entry[1]))
    return table("Tasks that wait for a worker, those with a delay included", ("Queue", "Tasks"), rows)


def _workers(view: StoreView) -> Html:
    rows = (
        table_row(poll.queue_name, poll.domain, poll.worker_id, f"{span_in_words(max(0, view.now - poll.last_poll_time))} ago")
        for poll in view.polls
    )
    return table("Who polled last", ("Task type", "Domain", "Worker", "When"), rows)


def _limits(view: StoreView) -> Html:
    return table("How limits stand", ("Limit", "In use", "In window", "Waiting"), (table_row(*one) for one in view.limits))


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


def _engines(view: StoreView) -> Html:
    return table("Executions that belong to one engine", ("Engine", "Open", "Ended"), (table_row(*one) for one in view.engines))
