"""What a notebook shows of a definition, an execution, an engine, a search: pictures and tables instead of texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conductorlite.model.definitions import WorkflowDef
from conductorlite.model.executions import Workflow
from conductorlite.model.texts import InNotebook
from conductorlite.pages.graph import picture
from conductorlite.pages.markup import Html, badge, element, join
from conductorlite.runtime.engine import Engine, Run
from conductorlite.store.search import SearchResult

__all__ = ["html_of"]

#: Executions of an engine that are shown, the newest, and columns of a search.
_ROWS = 20
_COLUMNS = ("workflow_id", "workflow_type", "version", "task_type", "status", "start_time", "reason_for_incompletion")


def html_of(shown: InNotebook) -> str | None:
    """What stands below a notebook's cell; None for what is shown as text."""
    if isinstance(shown, WorkflowDef):
        return picture(shown)
    if isinstance(shown, Run):
        shown = shown._engine.get(shown.workflow_id, masked=True)
    if isinstance(shown, Workflow):
        if shown.definition is None:
            return None
        reason = "" if shown.reason is None else element("p", shown.reason)
        head = element("p", element("b", f"{shown.name} v{shown.version}"), " ", badge(str(shown.status)), f" {shown.workflow_id}")
        return join([head, reason, Html(picture(shown.definition, shown))])
    if isinstance(shown, Engine):
        rows = shown.executions(limit=_ROWS)
        table = [(row.workflow_id, f"{row.name} v{row.version}", badge(str(row.status)), row.reason or "") for row in rows]
        return join([element("p", repr(shown)), _table(("execution", "workflow", "status", "reason"), table)])
    if isinstance(shown, SearchResult):
        columns = [name for name in _COLUMNS if shown.results and hasattr(shown.results[0], name)]
        found = [[getattr(one, name) for name in columns] for one in shown.results]
        return join([element("p", f"{shown.total_hits:,} found, {len(found):,} shown"), _table(columns, found)])
    return None


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    cells = [element("tr", *(element("td", "" if cell is None else cell) for cell in row)) for row in rows]
    names = [element("th", name.replace("_", " ")) for name in head]
    return element("table", element("thead", element("tr", *names)), element("tbody", *cells))
