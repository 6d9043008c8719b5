"""The commands on the store as a whole: search, archive, prune, compact, size, reindex."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import attrs
import click

from conductorlite.cli.exits import Exit, exit_code
from conductorlite.cli.shared import Setting, command_options
from conductorlite.cli.showing import instant, iso
from conductorlite.definitions import property_name
from conductorlite.driver import Engine
from conductorlite.engine import BulkReport
from conductorlite.search import TaskSummary, WorkflowSummary

__all__ = ["KEEPING"]

#: Instants in summaries: Conductor writes them as ISO 8601.
_INSTANTS = frozenset({"start_time", "update_time", "end_time", "scheduled_time"})


@click.command("search")
@click.argument("query", required=False, default="")
@click.option("--text", "words", metavar="TEXT", default="*", help='Free text: words, "phrases", beginnings*.')
@click.option("--tasks", is_flag=True, help="Search attempts at tasks instead of executions.")
@click.option("--by-tasks", is_flag=True, help="Search executions by their tasks.")
@click.option("--start", type=click.IntRange(min=0), default=0, show_default=True, help="How many to pass over.")
@click.option("--size", type=click.IntRange(0, 5_000), default=100, show_default=True, help="At most so many.")
@click.option("--sort", metavar="FIELD:ASC|DESC", default="", help="Several are separated by a bar (default: the newest first).")
@command_options()
def search(setting: Setting, query: str, words: str, tasks: bool, by_tasks: bool, start: int, size: int, sort: str) -> None:
    """Find executions or tasks by a query and free text.

    QUERY is Conductor's: workflowType = 'order' AND (status IN (FAILED, TIMED_OUT) OR input.total > 100). The index that
    `reindex` makes is used if there is one; else every execution is looked at.
    """
    if tasks and by_tasks:
        raise click.UsageError("give --tasks or --by-tasks, not both")
    with setting.engine(index=setting.index.exists()) as engine:
        verb = engine.search_tasks if tasks else engine.search_by_tasks if by_tasks else engine.search
        found = verb(query, free_text=words, start=start, size=size, sort=sort)
    if setting.json:
        setting.screen.document({"totalHits": found.total_hits, "results": [_document(row) for row in found.results]})
        return
    if tasks:
        headings: tuple[str, ...] = ("TASK", "TYPE", "STATUS", "SCHEDULED", "ENDED", "WORKFLOW", "ID", "REASON")
    else:
        headings = ("ID", "WORKFLOW", "STATUS", "STARTED", "ENDED", "REASON")
    setting.screen.table(headings, [_line(row) for row in found.results])
    more = found.total_hits - start - len(found.results)
    if more > 0:
        setting.screen.note(f"{more} more; see --start and --size")
    if found.behind:
        setting.screen.note(f"the index does not know the last {found.behind} changes yet")


def _line(row: WorkflowSummary | TaskSummary) -> tuple[object, ...]:
    if isinstance(row, TaskSummary):
        name = f"{row.reference_task_name}#{row.retry_count}" if row.retry_count else row.reference_task_name
        began, ended = instant(row.scheduled_time or 0), instant(row.end_time or 0)
        return name, row.task_type, row.status, began, ended, row.workflow_type, row.workflow_id, row.reason_for_incompletion
    began, ended = instant(row.start_time or 0), instant(row.end_time or 0)
    status = f"{row.status} (archived)" if row.archived else row.status
    return row.workflow_id, f"{row.workflow_type} v{row.version}", status, began, ended, row.reason_for_incompletion


def _document(row: WorkflowSummary | TaskSummary) -> dict[str, Any]:
    """Conductor's summary: what is absent is left out, failed references are one text."""
    found: dict[str, Any] = {}
    for field in attrs.fields(type(row)):
        value = getattr(row, field.name)
        if isinstance(value, tuple):
            value = ",".join(value) or None
        if value is not None:
            found[property_name(field.name)] = iso(value) if field.name in _INSTANTS else value
    return found


@click.command("archive")
@click.argument("workflow_ids", metavar="ID...", nargs=-1, required=True)
@command_options()
def archive(setting: Setting, workflow_ids: tuple[str, ...]) -> Exit:
    """Move executions that have ended into the archive: smaller, still found by show, history and search."""
    with setting.engine() as engine:
        if len(workflow_ids) == 1:
            engine.archive(workflow_ids[0])
            done = BulkReport(succeeded=workflow_ids)
        else:
            done = engine.bulk(partial(Engine.archive), workflow_ids)
    for error in done.failed.values():
        setting.screen.note(f"conductorlite: {error}")
    if setting.json:
        errors = {one: str(error) for one, error in done.failed.items()}
        setting.screen.document({"bulkSuccessfulResults": list(done.succeeded), "bulkErrorResults": errors})
    else:
        for one in done.succeeded:
            setting.screen.line(f"{one} is archived")
    return next((exit_code(error) for error in done.failed.values()), Exit.OK)


@click.command("prune")
@click.option("--older-than", metavar="SPAN", required=True, help="Of what ended longer ago than this: 30d, 12h.")
@click.option("--keep-failed", is_flag=True, help="Keep executions that FAILED or TIMED_OUT.")
@click.option("--archive", "archiving", is_flag=True, help="Archive them instead.")
@click.option("--name", metavar="NAME", help="Only executions of this workflow.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@command_options()
def prune(setting: Setting, older_than: str, keep_failed: bool, archiving: bool, name: str | None, limit: int | None) -> Exit:
    """Delete executions that ended long ago. Nothing is deleted by itself."""
    with setting.engine() as engine:
        report = engine.prune(older_than, keep_failed=keep_failed, archive=archiving, name=name, limit=limit)
    for one, error in report.failed.items():
        setting.screen.note(f"conductorlite: {one}: {error}")
    if setting.json:
        errors = {one: str(error) for one, error in report.failed.items()}
        done = {"removed": list(report.removed), "archived": list(report.archived), "kept": list(report.kept)}
        setting.screen.document({**done, "bulkErrorResults": errors})
    else:
        told = (f"{len(report.removed)} removed", f"{len(report.archived)} archived", f"{len(report.kept)} kept for their parents")
        setting.screen.line(", ".join(told))
    return next((exit_code(error) for error in report.failed.values()), Exit.OK)


@click.command("compact")
@command_options()
def compact(setting: Setting) -> None:
    """Give the space of what was deleted back to the file system; nothing may use the database meanwhile."""
    with setting.engine() as engine:
        before = engine.size_report().file_bytes
        engine.compact()
        after = engine.size_report().file_bytes
    if setting.json:
        setting.screen.document({"bytesBefore": before, "bytesAfter": after})
    else:
        setting.screen.line(f"{before:,} bytes before, {after:,} after")


@click.command("size")
@command_options()
def size(setting: Setting) -> None:
    """Show how much is stored, by kind of row and by workflow."""
    with setting.engine() as engine:
        sizes = engine.size_report()
    if setting.json:
        kinds = {kind: attrs.asdict(one) for kind, one in sizes.kinds.items()}
        own = [{"workflowType": name, "status": status, **attrs.asdict(one)} for (name, status), one in sizes.executions.items()]
        document = {"fileBytes": sizes.file_bytes, "freeBytes": sizes.free_bytes, "kinds": kinds, "executions": own}
        setting.screen.document(document)
        return
    setting.screen.table(("KIND", "ROWS", "BYTES"), [(kind, one.rows, one.bytes) for kind, one in sizes.kinds.items()])
    rows = [(name, status, one.rows, one.bytes) for (name, status), one in sorted(sizes.executions.items())]
    setting.screen.table(("WORKFLOW", "STATUS", "EXECUTIONS", "BYTES"), rows)
    setting.screen.note(f"{sizes.file_bytes:,} bytes in the file, {sizes.free_bytes:,} of them free")


@click.command("reindex")
@click.option("--forget", is_flag=True, help="Delete the index instead, and note nothing more for it.")
@command_options()
def reindex(setting: Setting, forget: bool) -> None:
    """Build the index that search uses, beside the database, anew."""
    path = setting.index
    with setting.engine(index=not forget) as engine:
        if forget:
            engine.forget_index()
        else:
            engine.rebuild_index()
        total = 0 if forget else engine.search(size=0).total_hits
    if forget:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
    if setting.json:
        setting.screen.document({"index": None if forget else str(path), "executions": total})
    else:
        setting.screen.line("there is no index any more" if forget else f"{total} executions are indexed in {path}")


#: The commands of this module, in the order of the help.
KEEPING = (search, archive, prune, compact, size, reindex)
