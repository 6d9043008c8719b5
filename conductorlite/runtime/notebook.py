"""Notebook views of a definition, an execution, an engine and a search: pictures and tables instead of texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conductorlite.model.canonical import Payload
from conductorlite.model.definitions import WorkflowDef, alone_in_words
from conductorlite.model.executions import Explanation, Task, Workflow
from conductorlite.model.streams import progress_in_words
from conductorlite.model.texts import InNotebook, Listing, cut
from conductorlite.pages.graph import picture
from conductorlite.pages.markup import Html, badge, element, join
from conductorlite.plan.grafts import RunProgress
from conductorlite.runtime.engine import Engine, Run
from conductorlite.store.search import SearchResult

__all__ = ["html_of"]

#: Entries of a list that are shown, and characters of an output.
_LISTED = 100
_SHOWN = 200

#: Executions of an engine that are shown, the newest, and columns of a search.
_ROWS = 20
_COLUMNS = ("workflow_id", "workflow_type", "version", "task_type", "status", "start_time", "reason_for_incompletion")


def html_of(shown: InNotebook) -> str | None:
    """Return the HTML below a notebook's cell; None for what is shown as text."""
    if isinstance(shown, WorkflowDef):
        return picture(shown)
    said: dict[str, str] = {}
    more: list[Html] = []
    if isinstance(shown, Run):
        engine, workflow_id = shown._engine, shown.workflow_id
        values = engine.streams.values(workflow_id, masked=True)
        said = progress_in_words(values)
        shown = engine.get(workflow_id, masked=True)
        if values:
            more.append(_table(("name", "task", "latest value"), [(one.name, one.ref, _cut(one.value)) for one in values]))
        if shown.unreceived:
            kept = [one for one in engine.messages(workflow_id, masked=True) if one.receiver is None][:_LISTED]
            more.append(_table(("topic", "message not received"), [(one.topic, _cut(one.value)) for one in kept]))
    if isinstance(shown, Workflow):
        if shown.definition is None:
            return None
        reason = "" if shown.reason is None else element("p", shown.reason)
        head = element("p", element("b", f"{shown.name} v{shown.version}"), " ", badge(str(shown.status)), f" {shown.workflow_id}")
        alone = alone_in_words(shown.name)
        kind = "" if alone is None else element("p", alone)
        steps = element("p", ", ".join(f"{ref}: {words}" for ref, words in said.items())) if said else ""
        return join([head, kind, reason, steps, *more, Html(picture(shown.definition, shown))])
    if isinstance(shown, Engine):
        rows = shown.executions(limit=_ROWS)
        table = [(row.workflow_id, f"{row.name} v{row.version}", badge(str(row.status)), row.reason or "") for row in rows]
        return join([element("p", repr(shown)), _table(("execution", "workflow", "status", "reason"), table)])
    if isinstance(shown, SearchResult):
        columns = [name for name in _COLUMNS if shown.results and hasattr(shown.results[0], name)]
        found = [[getattr(one, name) for name in columns] for one in shown.results]
        return join([element("p", f"{shown.total_hits:,} found, {len(found):,} shown"), _table(columns, found)])
    if isinstance(shown, RunProgress):
        bar = element("progress", value=f"{shown.fraction:.3f}", max="1", aria_label="Progress")
        counts = {step: ", ".join(f"{number:,} {status}" for status, number in of.items()) for step, of in shown.by_step.items()}
        return join([element("p", bar, f" {shown}"), _table(("step", "tasks"), list(counts.items()))])
    if isinstance(shown, Explanation):
        return element("ul", *(element("li", reason.text) for reason in shown.reasons))
    if isinstance(shown, Task):
        return _tasks([shown], 1)
    if isinstance(shown, Listing):
        return _listed(shown)
    return None


def _listed(shown: Listing[object]) -> str | None:
    """A list that a verb has given; None where it has no table."""
    rows = shown[:_LISTED]
    tasks = [one for one in rows if isinstance(one, Task)]
    if tasks:
        return _tasks(tasks, len(shown))
    executions = [one for one in rows if isinstance(one, Workflow)]
    return _executions(executions, len(shown)) if executions else None


def _count(found: int, shown: int) -> Html:
    return element("p", f"{found:,}" if found == shown else f"{found:,}, the first {shown:,} shown")


def _executions(rows: Sequence[Workflow], found: int) -> Html:
    table = [(row.workflow_id, f"{row.name} v{row.version}", badge(str(row.status)), row.reason or "") for row in rows]
    return join([_count(found, len(rows)), _table(("execution", "workflow", "status", "reason"), table)])


def _tasks(tasks: Sequence[Task], found: int) -> Html:
    rows = []
    for one in tasks:
        reason = one.reason or ""
        rows.append((one.ref, one.task_type, str(one.attempt + 1), badge(str(one.status)), reason, _cut(one.output)))
    return join([_count(found, len(tasks)), _table(("task", "type", "attempt", "status", "reason", "output"), rows)])


def _cut(payload: Payload) -> str:
    return cut(payload.shown, _SHOWN)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    cells = [element("tr", *(element("td", "" if cell is None else cell) for cell in row)) for row in rows]
    names = [element("th", name.replace("_", " ")) for name in head]
    return element("table", element("thead", element("tr", *names)), element("tbody", *cells))
