"""The commands that only look.

`limits`: how limits stand, and who is in line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from conductorlite.cli.execution import follow, history_line
from conductorlite.cli.output import instant, iso
from conductorlite.cli.shared import Exit, Setting, command_options, load_attribute, read_definition
from conductorlite.model.canonical import canonical, parse
from conductorlite.model.definitions import alone_in_words
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import HistoryEvent, Workflow
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.model.streams import progress_in_words
from conductorlite.model.texts import span_in_words

if TYPE_CHECKING:
    from conductorlite.engine.invariants import Finding
    from conductorlite.engine.queries import LimitMember, LimitUse
    from conductorlite.engine.queues import QueueDepth
    from conductorlite.runtime.engine import Engine

__all__ = ["LOOKING", "explained", "limits", "queues"]


@click.command("queues")
@command_options()
def queues(setting: Setting) -> None:
    """List the queues of tasks for workers: offered, waiting for a slot, delayed, in progress, since when the oldest is due."""
    with setting.engine() as engine:
        found = engine.tasks.queues()
    headings = ("QUEUE", "OFFERED", "WAITING", "DELAYED", "IN PROGRESS", "OLDEST DUE")
    rows = [(one.queue, one.offered, one.waiting, one.delayed, one.in_progress, instant(one.oldest_at or 0)) for one in found]
    setting.screen.answer_rows([_depth(one) for one in found], headings, rows)


def _depth(one: QueueDepth) -> dict[str, Any]:
    document = {
        "queue": one.queue,
        "taskType": one.task_type,
        "domain": one.domain,
        "offered": one.offered,
        "waiting": one.waiting,
        "delayed": one.delayed,
        "inProgress": one.in_progress,
        "oldestDueAt": one.oldest_at,
    }
    return {name: value for name, value in document.items() if value is not None}


@click.command("limits")
@click.argument("key", metavar="[KEY]", required=False)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many lines of each kind.")
@click.option("--after", metavar="KEY", default="", help="Only limits whose keys come after this one.")
@command_options()
def limits(setting: Setting, key: str | None, limit: int, after: str) -> None:
    """List limits, or who holds slots of one and who waits: task:<name>, workflow:<rate limit key>."""
    if key is None:
        with setting.engine() as engine:
            found = engine.limits.all(limit=limit, after=after)
        headings = ("KEY", "IN USE", "IN WINDOW", "WAITING", "WINDOW MOVES")
        setting.screen.answer_rows([_document(one) for one in found], headings, [_row(one) for one in found])
        return
    with setting.engine() as engine:
        one = engine.limits.get(key, limit=limit)
    if setting.json:
        members = {"holders": [_member(holder) for holder in one.holders], "line": [_member(next_) for next_ in one.line]}
        setting.screen.document({**_document(one), **members})
        return
    shown = zip(("limit", "in use", "in window", "waiting", "window moves"), _row(one), strict=True)
    setting.screen.pairs(list(shown))
    setting.screen.line("")
    rows = [("holds", holder) for holder in one.holders]
    rows += [(f"waits, number {place}", member) for place, member in enumerate(one.line, start=1)]
    setting.screen.table(
        ("STANDING", "ID", "TASK", "ATTEMPT", "PRIORITY", "ASKED", "ALLOWS"),
        [
            (
                standing,
                member.workflow_id,
                member.ref,
                None if member.ref is None else member.attempt + 1,
                member.priority,
                instant(member.asked_at),
                _allowed(member),
            )
            for standing, member in rows
        ],
    )


def _row(one: LimitUse) -> tuple[object, ...]:
    return one.key, one.in_use, len(one.admitted_at) + one.reserved, one.waiting, instant(one.window_moves_at or 0)


def _allowed(member: LimitMember) -> str:
    at_once = f"{member.concurrent_exec_limit} at once" if member.concurrent_exec_limit else ""
    in_time = f"{member.rate_limit_per_frequency} in {member.rate_limit_frequency_ms / 1000:g} s"
    return ", ".join(filter(None, (at_once, in_time if member.rate_limit_per_frequency else "")))


def _document(one: LimitUse) -> dict[str, Any]:
    document: dict[str, Any] = {
        "key": one.key,
        "inUse": one.in_use,
        "waiting": one.waiting,
        "admittedAt": list(one.admitted_at),
        "reserved": one.reserved,
        "windowMovesAt": one.window_moves_at,
        "unpolled": list(one.unpolled) or None,
    }
    return {name: value for name, value in document.items() if value is not None}


def _member(member: LimitMember) -> dict[str, Any]:
    execution = member.ref is None
    document: dict[str, Any] = {
        "workflowId": member.workflow_id,
        "referenceTaskName": member.ref,
        "taskId": member.task_id,
        "retryCount": None if execution else member.attempt,
        "priority": member.priority,
        "askedAt": member.asked_at,
        "concurrentExecLimit": member.concurrent_exec_limit,
        "rateLimitPerFrequency": None if execution else member.rate_limit_per_frequency,
        "rateLimitFrequencyInSeconds": None if execution else member.rate_limit_frequency_ms / 1000,
        "fairnessKey": member.fairness_key,
    }
    return {name: value for name, value in document.items() if value is not None}


_ID = click.argument("workflow_id", metavar="ID")

_HTML = click.option(
    "--html",
    metavar="[FILE]",
    is_flag=False,
    flag_value="-",
    help="Write a page for a browser, to this file or to standard output: it needs no network and no server.",
)

#: So far are executions counted that are not listed.
_COUNTED = 1_000


@click.command("list")
@click.option("--status", type=click.Choice([*WorkflowStatus], case_sensitive=False), help="Only executions in this status.")
@click.option("--name", metavar="NAME", help="Only executions of this workflow.")
@click.option("--correlation-id", metavar="ID", help="Only executions with this correlation id.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many, newest first: 50, on a page 1,000.")
@_HTML
@command_options()
def list_(
    setting: Setting, status: str | None, name: str | None, correlation_id: str | None, limit: int | None, html: str | None
) -> None:
    """List executions, newest first; --html shows the store as a whole."""
    if html is not None:
        if (status, name, correlation_id) != (None, None, None):
            raise click.UsageError("--html shows the store as a whole: it takes no --status, --name or --correlation-id")
        with setting.engine() as engine:
            _page(setting, html, engine.admin.page(limit=limit or 1_000), {})
        return
    limit = limit or 50
    only = None if status is None else WorkflowStatus(status)
    with setting.engine() as engine:
        page = partial(engine.executions, name, status=only, correlation_id=correlation_id)
        rows = page(limit=limit)
        more = _count(page, rows[-1]) if len(rows) == limit else 0
    if setting.json:
        setting.screen.document({"totalHits": len(rows) + more, "results": [_summary(row) for row in rows]})
        return
    setting.screen.table(
        ("ID", "WORKFLOW", "STATUS", "STARTED", "ENDED", "TASKS", "REASON"),
        [
            (
                row.workflow_id,
                f"{row.name} v{row.version}",
                row.status,
                instant(row.created_at),
                instant(row.ended_at),
                row.task_seq,
                f"parked: {row.parked}" if row.parked is not None else row.reason,
            )
            for row in rows
        ],
    )
    if more:
        setting.screen.note(f"{more if more < _COUNTED else f'{_COUNTED} or'} more; see --limit")


def _count(page: Callable[..., Sequence[Workflow]], last: Workflow) -> int:
    """Return how many executions come after one, counted up to `_COUNTED`: a list must not read all there are."""
    return len(page(limit=_COUNTED, after=(last.created_at, last.workflow_id)))


def _summary(row: Workflow) -> dict[str, Any]:
    """Conductor's WorkflowSummary, without input and output."""
    summary: dict[str, Any] = {
        "workflowType": row.name,
        "version": row.version,
        "workflowId": row.workflow_id,
        "correlationId": row.correlation_id,
        "status": str(row.status),
        "startTime": iso(row.created_at),
        "updateTime": iso(row.updated_at),
        "endTime": iso(row.ended_at),
        "executionTime": row.ended_at - row.created_at if row.ended_at else 0,
        "reasonForIncompletion": row.conductor_reason or row.reason,
        "failedReferenceTaskNames": ",".join(row.failed_refs),
        "priority": row.priority,
        "createdBy": row.created_by,
        "idempotencyKey": row.idempotency_key,
        "parentWorkflowId": row.parent_workflow_id,
    }
    return {key: value for key, value in summary.items() if value is not None}


@click.command("show")
@_ID
@_HTML
@command_options()
def show(setting: Setting, workflow_id: str, html: str | None) -> None:
    """Show an execution and its tasks."""
    if html is not None:
        with setting.engine() as engine:
            _page(setting, html, engine.admin.page(workflow_id), {"workflowId": workflow_id})
        return
    with setting.engine() as engine:
        row = engine.get(workflow_id, masked=True)
        now = engine.clock.now()
        values = engine.streams.values(workflow_id, masked=True)
        said = {} if row.status.terminal else progress_in_words(values)
        origin = next((line.origin for line in engine.history(workflow_id) if line.origin), None)
        kept = Counter(one.topic for one in engine.messages(workflow_id) if one.receiver is None) if row.unreceived else {}
    screen = setting.screen
    if setting.json:
        from conductorlite.model.documents import workflow_to_json

        screen.document(workflow_to_json(row))
        return
    screen.pairs(
        [
            ("workflowId", row.workflow_id),
            ("workflow", f"{row.name} v{row.version}"),
            ("status", row.status),
            ("compensating", row.compensating),
            ("parked", row.parked),
            ("reason", row.reason),
            ("started", instant(row.created_at)),
            ("ended", instant(row.ended_at)),
            ("took" if row.ended_at else "runs for", span_in_words(max(0, (row.ended_at or now) - row.created_at))),
            ("input", row.input.shown),
            ("output", row.output.shown if row.status.terminal else None),
            ("kind", alone_in_words(row.name)),
            ("forked from", origin),
            ("progress", ", ".join(f"{ref}: {words}" for ref, words in said.items()) or None),
            ("values", ", ".join(f"{one.ref and one.ref + ': '}{one.name} = {one.value.shown}" for one in values) or None),
            ("not received", ", ".join(f"{number} of {topic}" for topic, number in kept.items()) or None),
        ]
    )
    screen.line("")
    screen.table(
        ("TASK", "TYPE", "STATUS", "ATTEMPT", "SCHEDULED", "ENDED", "WORKER", "REASON"),
        [
            (
                task.ref,
                task.task_type,
                task.status,
                task.attempt + 1,
                instant(task.scheduled_at),
                instant(task.ended_at),
                task.worker_id,
                task.reason,
            )
            for task in row.tasks
        ],
    )


@click.command("history")
@_ID
@command_options()
def history(setting: Setting, workflow_id: str) -> None:
    """Show the journal of an execution, oldest first."""
    with setting.engine() as engine:
        lines = engine.history(workflow_id, masked=True)
    if setting.json:
        setting.screen.document([_journal(line) for line in lines])
        return
    for line in lines:
        setting.screen.line(history_line(line))


@click.command("logs")
@_ID
@click.option("--task", "ref", metavar="REF", help="Only of this task.")
@command_options()
def logs(setting: Setting, workflow_id: str, ref: str | None) -> None:
    """Show the log lines of an execution's tasks, oldest first."""
    with setting.engine() as engine:
        found = [(task, line) for task, line in engine.core.queries.logs(workflow_id) if ref in (None, task.ref, task.base_ref)]
    documents = [
        {"time": line.at, "referenceTaskName": task.ref, "retryCount": task.attempt, "taskId": task.task_id, "log": line.text}
        for task, line in found
    ]
    rows = [(instant(line.at), task.ref, task.attempt + 1, line.text) for task, line in found]
    setting.screen.answer_rows(documents, ("AT", "TASK", "ATTEMPT", "LINE"), rows)


@click.command("watch")
@_ID
@click.option("--after", type=click.IntRange(min=0), help="Begin after the line of this number; 0: with the first one.")
@command_options()
def watch(setting: Setting, workflow_id: str, after: int | None) -> Exit:
    """Follow an execution that other processes drive: its journal and its progress, until it has ended or Ctrl-C.

    It begins with what happens now, or with the end where that has come; what was before is shown with --after. With --json each
    line is a document of its own.
    """
    with setting.engine() as engine:
        if after is None:
            row = engine.core.queries.execution(workflow_id)
            after = max(0, row.history_seq - row.status.terminal)
            if not row.status.terminal:
                setting.screen.note(str(engine.explain(workflow_id)))
        ended = follow(engine, workflow_id, setting.screen, after, _journal if setting.json else None)
    return Exit.OK if ended is WorkflowStatus.COMPLETED else Exit.FAILED


def _journal(line: HistoryEvent) -> dict[str, Any]:
    document: dict[str, Any] = {
        "n": line.n,
        "time": line.at,
        "kind": str(line.kind),
        "status": line.status,
        "referenceTaskName": line.ref,
        "retryCount": line.attempt,
        "iteration": line.number,
        "reason": line.reason,
        "data": None if line.payload is None or line.payload.external is not None else line.payload.fresh(),
        "externalPayloadStoragePath": None if line.payload is None or line.payload.external is None else line.payload.external.key,
        "cause": None if line.cause is None else parse(line.cause),
    }
    return {key: value for key, value in document.items() if value is not None}


@click.command("export")
@_ID
@click.option("-o", "--output", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
@command_options()
def export(setting: Setting, workflow_id: str, output: Path | None) -> None:
    """Write an execution, with those it started, as one JSON document that can be replayed."""
    with setting.engine() as engine:
        document = engine.admin.export(workflow_id)
    if output is None:
        setting.screen.document(document)
        return
    _write(output, canonical(document, bounded=False) + "\n")
    written = {"workflowId": workflow_id, "file": str(output), "executions": len(document["executions"])}
    if setting.json:
        setting.screen.document(written)
    else:
        setting.screen.note(f"{output}: {written['executions']} execution(s)")


def _page(setting: Setting, html: str, text: str, what: dict[str, Any]) -> None:
    """A page on standard output (`-`), or in the file `html`."""
    if html == "-":
        setting.screen.text(text)
        return
    _write(Path(html), text)
    if setting.json:
        setting.screen.document({**what, "file": html})
    else:
        setting.screen.note(f"{html}: open it in a browser")


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror or error}") from None


@click.command("explain")
@_ID
@click.option("--task", "ref", metavar="REF", help="Explain this task: where it stands, or why it never ran.")
@command_options()
def explain(setting: Setting, workflow_id: str, ref: str | None) -> None:
    """Explain what an execution waits for, or why it failed."""
    with setting.engine() as engine:
        text = explained(engine, workflow_id, ref)
        status = str(engine.status(workflow_id))
    setting.screen.answer({"workflowId": workflow_id, "status": status, "text": text}, text)


def explained(engine: Engine, workflow_id: str, ref: str | None = None) -> str:
    """An execution in words."""
    return str(engine.explain(workflow_id, ref))


@click.command("agenda")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many entries.")
@command_options()
def agenda(setting: Setting, limit: int) -> None:
    """List what happens next without a command, soonest first: timers, timeouts, delayed tasks."""
    with setting.engine() as engine:
        entries = engine.admin.agenda(limit)
        now = engine.clock.now()
    documents = [
        {"time": entry.at, "kind": str(entry.kind), "workflowId": entry.workflow_id}
        | ({} if entry.ref is None else {"referenceTaskName": entry.ref})
        for entry in entries
    ]
    setting.screen.answer_rows(
        documents,
        ("AT", "IN", "WHAT", "ID", "TASK"),
        [
            (
                instant(entry.at),
                span_in_words(entry.at - now) if entry.at > now else "due",
                entry.kind,
                entry.workflow_id,
                entry.ref,
            )
            for entry in entries
        ],
    )


@click.command("check")
@click.argument("workflow_id", metavar="[ID]", required=False)
@click.option("--repair", is_flag=True, help="Set right what follows from the rows, and say what was done.")
@command_options(index=True)
def check(setting: Setting, workflow_id: str | None, repair: bool) -> Exit:
    """Check every law of the engine on one execution or on all; exit code 1 when one does not hold, repaired or not.

    If the database has been searched, its index is compared with what is stored.
    """
    from conductorlite.engine.admin import RepairReport

    with setting.engine() as engine:
        ids = [workflow_id] if workflow_id is not None else list(engine.admin.workflow_ids())
        report = engine.admin.repair(workflow_id) if repair else RepairReport(done=(), left=tuple(engine.admin.check(workflow_id)))
    if setting.json:
        document: dict[str, Any] = {"checked": len(ids), "findings": [_finding(one) for one in report.left]}
        setting.screen.document(document | ({"repaired": [_finding(one) for one in report.done]} if repair else {}))
    else:
        for title, found in (("REPAIRED", report.done), ("FINDING", report.left)):
            if found:
                setting.screen.table(("LAW", "ID", title), [(one.law, one.workflow_id, one.text) for one in found])
        number = len(report.left)
        repaired = f"{len(report.done)} repaired, " if repair else ""
        setting.screen.line(f"{len(ids)} checked, {repaired}{number} finding{'s' if number != 1 else ''}")
    return Exit.FAILED if report.left or report.done else Exit.OK


def _finding(found: Finding) -> dict[str, str]:
    return {"law": found.law, "workflowId": found.workflow_id, "text": found.text}


@click.command("diagram")
@click.argument("source", metavar="ID|DEFINITION")
@click.option("--svg", is_flag=True, help="As an SVG file, which needs nothing to be looked at.")
@command_options()
def diagram(setting: Setting, source: str, svg: bool) -> None:
    """Draw a definition (a JSON file), or an execution with its statuses, as a Mermaid flowchart or an SVG file."""
    from conductorlite.pages.graph import picture
    from conductorlite.plan.diagrams import mermaid

    draw = picture if svg else mermaid
    if source.endswith(".json") or Path(source).is_file():
        text = draw(read_definition(source))
    else:
        with setting.engine() as engine:
            workflow = engine.get(source, masked=True)
            # `get` always has it; an execution without one could not have been read.
            text = draw(workflow.definition, workflow) if workflow.definition is not None else ""
    if setting.json:
        setting.screen.document({"svg" if svg else "mermaid": text})
    else:
        setting.screen.text(text)


@click.command("to-python")
@click.argument("definition", metavar="DEFINITION")
@command_options()
def to_python(setting: Setting, definition: str) -> None:
    """Print a definition (a JSON file, or a registered name) as a flow in Python, which builds the same JSON."""
    if definition.endswith(".json") or Path(definition).is_file():
        found = read_definition(definition)
    else:
        with setting.engine() as engine:
            found = engine.definitions.workflow(definition)
    from conductorlite.flows import to_python as source_of

    text = source_of(found).rstrip("\n")
    if setting.json:
        setting.screen.document({"python": text})
    else:
        setting.screen.text(text)


@click.command("compile")
@click.argument("flow", metavar="MODULE:FLOW")
@click.option("-o", "--output", metavar="FOLDER", type=click.Path(file_okay=False, path_type=Path), help="Write files there.")
@command_options(database=False)
def compile_(setting: Setting, flow: str, output: Path | None) -> None:
    """Write the definition of a flow in Python as JSON, to ship where its source is not: one file for each workflow.

    Without a folder the definition is printed. Those of the flows that it calls by their names have files of their own.
    """
    from conductorlite.flows import Flow

    found = load_attribute(flow, "compile")
    if not isinstance(found, Flow):
        raise InvalidInput(f"compile {flow!r}: it is a {type(found).__name__}, not a flow")
    whole = {one.name: one for one in (found.definition, *found.definitions)}
    if output is None:
        setting.screen.document(found.definition.to_json())
        return
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"{output}: {error.strerror}") from error
    files = [output / f"{one.name}.{one.version}.json" for one in whole.values()]
    for file, one in zip(files, whole.values(), strict=True):
        _write(file, canonical(one.to_json(), bounded=False) + "\n")
    if setting.json:
        setting.screen.document({"files": [str(file) for file in files]})
    else:
        setting.screen.note(f"{output}: {len(files)} definition(s)")


#: Every command that only looks.
LOOKING = (list_, show, history, logs, watch, export, explain, agenda, queues, limits, check, diagram, to_python, compile_)
