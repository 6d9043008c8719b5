"""The commands on the store as a whole: search, query, archive, prune, compact, reseal, size, reindex.

The commands that compare definitions and move executions from one to another.

The commands on the database as a whole: whose executions are whose, and copies.

`lint`: what is wrong with definitions, and what cannot be meant, for people, programs and code hosts.

`import`: the definitions of a folder, as a Conductor server takes them.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from conductorlite.cli.output import instant, iso
from conductorlite.cli.shared import Exit, Setting, command_options, exit_code, load_attribute, read_definition, read_workers
from conductorlite.model.definitions import WorkflowDef
from conductorlite.model.errors import InvalidDefinition, InvalidInput, Problem, Severity
from conductorlite.model.scalars import camel_case
from conductorlite.plan.difference import diff as difference
from conductorlite.runtime.registry import Workers

if TYPE_CHECKING:
    from conductorlite.engine.loading import LoadReport
    from conductorlite.plan.difference import DefinitionDiff
    from conductorlite.plan.migration import MigrationPlan
    from conductorlite.store.search import TaskSummary, WorkflowSummary

__all__ = ["IMPORTING", "LINTING", "MAINTENANCE", "MOVING", "RETENTION", "VALIDATING"]


@click.command("diff")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@command_options(database=False)
def diff(setting: Setting, old: str, new: str) -> Exit:
    """Show how two definition files differ.

    A line per difference: + added, - removed, ~ changed fields, > moved, ? perhaps only renamed. Exits with 1 if there is any.
    """
    found = difference(read_definition(old), read_definition(new))
    if setting.json:
        setting.screen.document(_diff_document(found))
    else:
        setting.screen.lines(str(found))
    return Exit.FAILED if found else Exit.OK


@click.command("migrate")
@click.argument("workflow_id", metavar="[ID]", required=False)
@click.option("--all", "name", metavar="NAME", help="Every running or paused execution of this workflow, instead of one.")
@click.option("--from", "from_version", metavar="VERSION", type=int, help="With --all: of this version.")
@click.option("--to", metavar="VERSION|FILE", help="A registered version, or a definition file (default: the highest version).")
@click.option("--map", "pairs", metavar="OLD=NEW", multiple=True, help="A reference that is called NEW in the new definition.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
@command_options()
def migrate(setting: Setting, workflow_id: str | None, name: str | None, from_version: int | None, to: str | None,
            pairs: tuple[str, ...], dry_run: bool) -> Exit:  # fmt: skip
    """Move a running or paused execution, or all of a version, to another definition.

    What has ended stays; what is live must have its place in the new definition. Exits with 4 if one cannot be moved.
    """
    if (workflow_id is None) == (name is None):
        raise click.UsageError("give an ID, or --all NAME")
    if (name is None) != (from_version is None):
        raise click.UsageError("--all and --from go together")
    target, refs = _target(to), _refs(pairs)
    found: dict[str, MigrationPlan | str]
    with setting.engine() as engine:
        if workflow_id is not None:
            found = {workflow_id: engine.definitions.migrate(workflow_id, target, refs=refs, dry_run=dry_run)}
        else:
            found = engine.definitions.migrate_all(name or "", from_version or 0, target, refs=refs, dry_run=dry_run)
    if setting.json:
        setting.screen.document({key: _plan_document(plan) for key, plan in found.items()})
    else:
        for plan in found.values():
            setting.screen.lines(str(plan))
    if name is not None:
        stuck = sum(isinstance(plan, str) or plan.blocked for plan in found.values())
        setting.screen.note(f"{len(found) - stuck} of {len(found)} {'can be moved' if dry_run else 'moved'}")
    return Exit.CONFLICT if any(isinstance(plan, str) or plan.blocked for plan in found.values()) else Exit.OK


def _target(to: str | None) -> WorkflowDef | int | None:
    if to is None:
        return None
    return int(to) if to.isascii() and to.isdigit() else read_definition(to)


def _refs(pairs: tuple[str, ...]) -> dict[str, str]:
    refs: dict[str, str] = {}
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not (old and equals and new):
            raise click.UsageError(f"--map {pair!r} is not OLD=NEW")
        if old in refs:
            raise click.UsageError(f"--map gives {old!r} twice")
        refs[old] = new
    return refs


def _diff_document(found: DefinitionDiff) -> dict[str, Any]:
    return {
        "name": found.name,
        "from": found.old_version,
        "to": found.new_version,
        "fields": list(found.fields),
        "added": list(found.added),
        "removed": list(found.removed),
        "changed": {ref: list(names) for ref, names in found.changed.items()},
        "moved": {ref: {"from": was, "to": now} for ref, (was, now) in found.moved.items()},
        "perhapsRenamed": dict(found.renamed),
        "inside": {ref: _diff_document(inner) for ref, inner in found.inside.items()},
    }


def _plan_document(plan: MigrationPlan | str) -> dict[str, Any]:
    if isinstance(plan, str):
        return {"error": plan}
    return {
        "verdict": str(plan.verdict),
        "reasons": list(plan.reasons),
        "notes": list(plan.notes),
        "lost": list(plan.lost),
        "live": dict(plan.live),
        "renamed": dict(plan.renamed),
    }


#: What `commands` adds to the program.
MOVING = (diff, migrate)


@click.command("engines")
@command_options()
def engines(setting: Setting) -> None:
    """List the engines that keep executions to themselves, with how many."""
    with setting.engine() as engine:
        shares = engine.admin.engines()
    setting.screen.answer_rows(
        [{"name": one.name, "open": one.open, "ended": one.ended, "events": one.events} for one in shares],
        ("ENGINE", "OPEN", "ENDED", "EVENTS"),
        [(one.name, one.open, one.ended, one.events) for one in shares],
    )


@click.command("take-over")
@click.argument("name", metavar="ENGINE")
@click.option("--to", "heir", metavar="ENGINE", help="Whose they are from now on (default: all engines').")
@command_options()
def take_over(setting: Setting, name: str, heir: str | None) -> None:
    """Give everything of an engine that does not come back to another one, or to all."""
    with setting.engine(name=heir) as engine:
        moved = engine.admin.take_over(name)
    setting.screen.answer(
        {"from": name, "to": heir, "executions": moved}, f"{moved} executions of {name} belong to {heir or 'all engines'} now"
    )


@click.command("backup")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@command_options()
def backup(setting: Setting, file: Path) -> None:
    """Copy the database, as it is at one instant, into a new file, while others go on with it."""
    with setting.engine() as engine:
        engine.admin.backup(file)
    setting.screen.answer({"file": str(file)}, str(file))


#: Every command of this file.
MAINTENANCE = (engines, take_over, backup)


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
@command_options(index=True)
def search(setting: Setting, query: str, words: str, tasks: bool, by_tasks: bool, start: int, size: int, sort: str) -> None:
    """Find executions or tasks by a query and free text.

    QUERY is Conductor's: workflowType = 'order' AND (status IN (FAILED, TIMED_OUT) OR input.total > 100). The first
    search of a store makes the index that answers.
    """
    if tasks and by_tasks:
        raise click.UsageError("give --tasks or --by-tasks, not both")
    with setting.engine() as engine:
        verb = engine.tasks.search if tasks else engine.tasks.search_workflows if by_tasks else engine.search
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


@click.command("query")
@click.argument("sql", metavar="SQL")
@click.option("--param", "pairs", metavar="NAME=VALUE", multiple=True, help="The text that :NAME stands for in the query.")
@click.option("--csv", "form", flag_value="csv", help="Answer with comma-separated values.")
@click.option("--nl", "form", flag_value="nl", help="Answer with a JSON object a line.")
@click.option("--table", "form", flag_value="table", help="Answer with a table, as without an option.")
@command_options()
def query(setting: Setting, sql: str, pairs: tuple[str, ...], form: str | None) -> None:
    """Answer a query in SQL over a SQLite database; it can change nothing.

    The views `conductor_workflows` and `conductor_tasks` have the executions and their attempts; other tables are private.
    """
    if not isinstance(setting.place, Path):
        raise InvalidInput(f"query reads a SQLite database, and not {setting.db}")
    for pair in pairs:
        if "=" not in pair:
            raise click.UsageError(f"--param {pair!r} is not NAME=VALUE")
    parameters = dict(pair.split("=", 1) for pair in pairs)
    # Imported when it is asked for, and the store is there and of the present schema.
    from conductorlite.store.sqlite.reports import answer_of

    with setting.engine(), answer_of(setting.place, sql, parameters) as (columns, found):
        rows = ([cell.hex() if isinstance(cell, bytes) else cell for cell in row] for row in found)
        if form == "csv":
            for row in (columns, *rows):
                setting.screen.text(_comma_separated(row))
        elif form == "nl":
            for row in rows:
                setting.screen.text(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n")
        elif setting.json and form is None:
            setting.screen.document([dict(zip(columns, row, strict=True)) for row in rows])
        else:
            setting.screen.table(columns, [*rows])


def _comma_separated(row: Sequence[object]) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerow(row)
    return written.getvalue()


def _line(row: WorkflowSummary | TaskSummary) -> tuple[object, ...]:
    from conductorlite.store.search import TaskSummary as OfTask

    if isinstance(row, OfTask):
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
            found[camel_case(field.name)] = iso(value) if field.name in _INSTANTS else value
    return found


@click.command("archive")
@click.argument("workflow_ids", metavar="ID...", nargs=-1, required=True)
@command_options()
def archive(setting: Setting, workflow_ids: tuple[str, ...]) -> Exit:
    """Move ended executions into the archive: smaller, still found by show, history and search."""
    with setting.engine() as engine:
        if len(workflow_ids) == 1:
            engine.admin.archive(workflow_ids[0])
            from conductorlite.engine.admin import BulkReport

            done = BulkReport(succeeded=workflow_ids)
        else:
            done = engine.admin.bulk(engine.admin.archive, workflow_ids)
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
        report = engine.admin.prune(older_than, keep_failed=keep_failed, archive=archiving, name=name, limit=limit)
    for one, error in report.failed.items():
        setting.screen.note(f"conductorlite: {one}: {error}")
    if setting.json:
        errors = {one: str(error) for one, error in report.failed.items()}
        done = {"removed": list(report.removed), "archived": list(report.archived), "kept": list(report.kept)}
        setting.screen.document({**done, "bulkErrorResults": errors})
    else:
        parts = (f"{len(report.removed)} removed", f"{len(report.archived)} archived", f"{len(report.kept)} kept for their parents")
        setting.screen.line(", ".join(parts))
    return next((exit_code(error) for error in report.failed.values()), Exit.OK)


@click.command("compact")
@command_options()
def compact(setting: Setting) -> None:
    """Return the space of deleted rows to the file system; nothing may use the database meanwhile."""
    with setting.engine() as engine:
        before = engine.admin.size_report().file_bytes
        engine.admin.compact()
        after = engine.admin.size_report().file_bytes
    setting.screen.answer({"bytesBefore": before, "bytesAfter": after}, f"{before:,} bytes before, {after:,} after")


@click.command("reseal")
@click.option("--limit", type=click.IntRange(min=1), default=500, show_default=True, help="Rows sealed in one commit.")
@command_options()
def reseal(setting: Setting, limit: int) -> None:
    """Seal all payloads again by the present key of --codec, and forget its other keys; after an interruption, call it again."""
    changed = [0]
    with setting.engine() as engine:
        keys = engine.admin.reseal(limit, changed.append)
    text = f"sealed {changed[-1]:,} rows; no longer needed: {', '.join(keys) or 'no key'}"
    setting.screen.answer({"rows": changed[-1], "keysNotNeeded": list(keys)}, text)


@click.command("size")
@command_options()
def size(setting: Setting) -> None:
    """Show how much is stored, by kind of row and by workflow."""
    with setting.engine() as engine:
        sizes = engine.admin.size_report()
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


#: So many executions are indexed before anyone asks how far it is.
_SHOWN = 1_000


@click.command("reindex")
@click.option("--forget", is_flag=True, help="Take the index out of the database instead; the next search rebuilds it.")
@command_options(index=True)
def reindex(setting: Setting, forget: bool) -> None:
    """Rebuild the index that search uses, showing how far it is; one elsewhere while searches and executions go on."""
    shown = 0

    def show(done: int, total: int) -> None:
        nonlocal shown
        if total > _SHOWN and (done == total or done >= shown + total // 20):
            shown = done
            setting.screen.note(f"{done:,} of {total:,} executions")

    with setting.engine() as engine:
        if forget:
            engine.admin.forget_index()
        else:
            engine.admin.rebuild_index(show)
        total = 0 if forget else engine.search(size=0).total_hits
    setting.screen.answer({"executions": total}, "there is no index any more" if forget else f"{total} executions are indexed")


#: The commands of this module, in the order of the help.
RETENTION = (search, query, archive, prune, compact, reseal, size, reindex)


_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"


@click.command("lint")
@click.argument("sources", metavar="DEFINITION...", nargs=-1, required=True)
@click.option("--workers", metavar="MODULE:ATTR", multiple=True, help="What carries out the tasks: types of arguments and fields.")
@click.option("--for", "server", type=click.Choice(["conductor"]), help="Refuse what this server would silently ignore.")
@click.option("--format", "form", type=click.Choice(["text", "json", "sarif"]), default="text", show_default=True)
@command_options(database=False)
def lint(setting: Setting, sources: tuple[str, ...], workers: tuple[str, ...], server: str | None, form: str) -> Exit:
    """Follow every reference of definitions over all paths; exit code 1 when anything is found.

    A DEFINITION is a JSON file, or MODULE:ATTR of a flow, whose tasks are known. Definitions that run each other by name are looked
    at together.
    """
    found: list[_Finding] = []
    known: dict[str, WorkflowDef] = {}
    crew = read_workers(workers) if workers else Workers()
    for source in sources:
        try:
            known[source] = _definition(source, crew)
        except InvalidDefinition as error:
            found += [(source, problem, None) for problem in error.problems]
    from conductorlite.flows.schemas import contracts_of
    from conductorlite.plan.lint import lint as problems_of

    contracts = contracts_of(crew) if [*crew] else None
    others = {definition.name: definition for definition in known.values()}
    for source, definition in known.items():
        problems = problems_of(definition, contracts=contracts, others=others, conductor=server is not None)
        found += [(source, problem, _line_of(definition, problem, crew)) for problem in problems]
    if form == "sarif":
        setting.screen.document(_sarif(found))
    elif form == "json" or setting.json:
        setting.screen.document([{"source": source, **_lint_document(one, line)} for source, one, line in found])
    elif found:
        setting.screen.table(("SOURCE", "SEVERITY", "PATH", "PROBLEM"), list(_rows(found)))
    else:
        setting.screen.line(f"nothing found in {len(sources)} definition{'s' if len(sources) > 1 else ''}")
    return Exit.FAILED if found else Exit.OK


def _definition(source: str, crew: Workers) -> WorkflowDef:
    """The definition in a file, or of a flow, whose workers join the others."""
    if ":" not in source or Path(source).is_file():
        return read_definition(source)
    value = load_attribute(source, "lint")
    from conductorlite.flows import Flow

    if not isinstance(value, Flow):
        raise InvalidInput(f"lint {source!r} is a {type(value).__name__}, not a flow")
    crew.include(value)
    definition: WorkflowDef = value.definition
    return definition


#: A source, what was found in its definition, and the line of the flow, `pay.py:41`, if there is one.
_Finding = tuple[str, Problem, str | None]


def _line_of(definition: WorkflowDef, problem: Problem, crew: Workers) -> str | None:
    """In which line of a flow the innermost task is written that has a problem; None where that is not known."""
    from conductorlite.plan.tree import positions

    around = [place for place in positions(definition).values() if f"{problem.path}.".startswith(f"{place.path}.")]
    inner = max(around, key=lambda place: len(place.path), default=None)
    return None if inner is None else crew.line_of(definition.name, inner.ref)


def _lint_document(problem: Problem, line: str | None) -> dict[str, str]:
    document = {"path": problem.path, "message": problem.message, "severity": str(problem.severity)}
    return document if line is None else {**document, "line": line}


def _rows(found: Sequence[_Finding]) -> Iterator[Sequence[object]]:
    for source, one, line in found:
        yield source, one.severity, one.path if line is None else f"{one.path} ({line})", one.message


def _sarif(found: Sequence[_Finding]) -> dict[str, Any]:
    """Return the findings in SARIF 2.1.0, which code hosts show beside a change."""
    results = [
        {
            "ruleId": "definition",
            "level": "error" if one.severity is Severity.ERROR else "warning",
            "message": {"text": f"{one.path}{f' ({line})' if line else ''}: {one.message}"},
            "locations": [
                {
                    "physicalLocation": {"artifactLocation": {"uri": Path(source).as_posix()}, "region": {"startLine": 1}},
                    "logicalLocations": [{"fullyQualifiedName": one.path}],
                }
            ],
        }
        for source, one, line in found
    ]
    rule = {"id": "definition", "shortDescription": {"text": "A workflow definition that is wrong, or cannot be meant."}}
    driver = {"name": "conductorlite", "rules": [rule]}
    return {"$schema": _SARIF, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


@click.command("import")
@click.argument("folder", metavar="FOLDER")
@click.option("--strict", is_flag=True, help="Take all or none, by the rules of `validate`.")
@click.option("--keep", is_flag=True, help="Leave what is registered already as it is.")
@click.option("--notes", is_flag=True, help="Print also what happens alike on a Conductor server.")
@command_options()
def import_(setting: Setting, folder: str, strict: bool, keep: bool, notes: bool) -> Exit:
    """Register the workflows, tasks, event handlers and schemas in the JSON files of a folder, as a Conductor server takes them.

    Of each difference it prints what happens. Exit code 0: all came in and act alike; 1: all came in, and something acts otherwise;
    2: something was refused.
    """
    with setting.engine(create=True) as engine:
        report = engine.definitions.load(folder, lenient=not strict, overwrite=not keep)
    if setting.json:
        setting.screen.document(_report_document(report))
    else:
        shown = [one for one in report.findings if notes or one.severity != "note"]
        if shown:
            setting.screen.table(
                ("SEVERITY", "FILE", "PATH", "WHAT HAPPENS"), [(one.severity, one.source, one.path, one.message) for one in shown]
            )
        setting.screen.line(_summary(report))
    return {"error": Exit.USAGE, "warning": Exit.FAILED}.get(report.severity or "", Exit.OK)


def _report_document(report: LoadReport) -> dict[str, Any]:
    return {
        "workflows": [{"name": name, "version": version} for name, version in report.workflows],
        "tasks": list(report.tasks),
        "eventHandlers": list(report.handlers),
        "schemas": [{"name": name, "version": version} for name, version in report.schemas],
        "findings": [
            {"source": one.source, "path": one.path, "message": one.message, "severity": str(one.severity)}
            for one in report.findings
        ],
    }


def _summary(report: LoadReport) -> str:
    counts = {"workflow": report.workflows, "task": report.tasks, "event handler": report.handlers, "schema": report.schemas}
    came = [f"{len(found)} {what}{'' if len(found) == 1 else 's'}" for what, found in counts.items() if found]
    said = Counter(str(one.severity) for one in report.findings)
    rest = [f"{said[kind]} {kind}{'' if said[kind] == 1 else 's'}" for kind in ("error", "warning", "note") if said[kind]]
    return f"registered: {', '.join(came) or 'nothing'}" + (f"; {', '.join(rest)}" if rest else "")


@click.command("validate")
@click.argument("definition", metavar="DEFINITION")
@command_options(database=False)
def validate(setting: Setting, definition: str) -> Exit:
    """List every problem of a definition (a JSON file); exit code 1 when one of them is an error."""
    try:
        from conductorlite.plan.validate import validate as wrong_in

        found = wrong_in(read_definition(definition))
    except InvalidDefinition as error:
        found = list(error.problems)
    bad = any(problem.severity is Severity.ERROR for problem in found)
    if setting.json:
        problems = [{"path": one.path, "message": one.message, "severity": str(one.severity)} for one in found]
        setting.screen.document({"valid": not bad, "problems": problems})
    else:
        if found:
            setting.screen.table(("SEVERITY", "PATH", "PROBLEM"), [(one.severity, one.path, one.message) for one in found])
        else:
            setting.screen.line(f"{definition} is valid")
    return Exit.FAILED if bad else Exit.OK


LINTING = (lint,)
IMPORTING = (import_,)

VALIDATING = (validate,)
