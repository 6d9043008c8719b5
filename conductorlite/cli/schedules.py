"""The commands on schedules: `conductorlite schedule …`. They store and show; a driver of the database starts what is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from conductorlite.cli.output import instant
from conductorlite.cli.shared import Setting, SharedGroup, command_options, read_document
from conductorlite.model.canonical import canonical
from conductorlite.model.schedules import OverlapPolicy, Schedule, WorkflowSchedule
from conductorlite.model.texts import to_instant
from conductorlite.runtime.engine import Engine

__all__ = ["SCHEDULING"]

_NAME = click.argument("name", metavar="NAME")


@click.group("schedule", cls=SharedGroup)
def schedule() -> None:
    """Schedules: what is started by cron, at intervals, or once.

    They fire while something drives the database: an application's run_forever, or `run` while it lasts.
    """


@schedule.command("save")
@click.argument("file", metavar="FILE")
@command_options()
def save(setting: Setting, file: str) -> None:
    """Store the schedule in a JSON file, Conductor's WorkflowSchedule, or put it in the place of the one of its name.

    Saving a schedule that is stored already changes nothing.
    """
    wanted = WorkflowSchedule.from_json(read_document(Path(file), file))
    with setting.engine(create=True) as engine:
        _shown(setting, engine.schedules.save(wanted))


@schedule.command("list")
@click.option("--workflow", metavar="NAME", help="Only those that start this workflow.")
@command_options()
def list_(setting: Setting, workflow: str | None) -> None:
    """List schedules in order of their names."""
    with setting.engine() as engine:
        found = engine.schedules.all(workflow)
    rows = [
        (
            one.name,
            _when(one.definition),
            one.definition.start_workflow_request.name or "(inline)",
            "PAUSED" if one.paused else instant(one.next_run_time or 0),
            one.recent[-1].outcome if one.recent else "",
        )
        for one in found
    ]
    setting.screen.answer_rows([one.to_json() for one in found], ("NAME", "WHEN", "WORKFLOW", "NEXT", "LAST"), rows)


@schedule.command("show")
@_NAME
@command_options()
def show(setting: Setting, name: str) -> None:
    """Show a schedule, where it stands, and what became of its last instants."""
    with setting.engine() as engine:
        _shown(setting, engine.schedules.get(name))


@schedule.command("pause")
@_NAME
@click.option("--reason", metavar="TEXT", help="Why, for people who look.")
@command_options()
def pause(setting: Setting, name: str, reason: str | None) -> None:
    """Start nothing more until it is resumed."""
    with setting.engine() as engine:
        engine.schedules.pause(name, reason)
        _shown(setting, engine.schedules.get(name))


@schedule.command("resume")
@_NAME
@command_options()
def resume(setting: Setting, name: str) -> None:
    """Go on from now; what came due meanwhile is passed over."""
    with setting.engine() as engine:
        engine.schedules.resume(name)
        _shown(setting, engine.schedules.get(name))


@schedule.command("remove")
@_NAME
@command_options()
def remove(setting: Setting, name: str) -> None:
    """Delete a schedule; its executions continue."""
    with setting.engine() as engine:
        engine.schedules.remove(name)
    setting.screen.answer({"name": name, "removed": True}, f"{name} removed")


@schedule.command("preview")
@click.argument("wanted", metavar="NAME|CRON|FILE")
@click.option("-n", "--count", metavar="N", type=int, default=5, show_default=True, help="How many instants.")
@click.option("--zone", metavar="ZONE", help="Of a CRON expression, and of what is shown (default: UTC, the schedule's).")
@click.option("--after", metavar="INSTANT", help="ISO 8601 with an offset, or epoch ms (default: now).")
@command_options()
def preview(setting: Setting, wanted: str, count: int, zone: str | None, after: str | None) -> None:
    """Show when a stored schedule, a cron expression or the schedule in a file comes due next.

    Needs a database only for a NAME. Times are shown on the wall of the zone, with their offset from UTC.
    """
    is_cron = " " in wanted.strip() or wanted.startswith("@")
    since = None if after is None else _instant(after)
    shown = zone or "UTC"
    if is_cron or wanted.endswith(".json"):
        asked = wanted if is_cron else WorkflowSchedule.from_json(read_document(Path(wanted), wanted))
        with Engine() as engine:
            found = engine.schedules.preview(asked, count, zone_id=shown, after=since)
        shown = zone or (asked.zone_id if isinstance(asked, WorkflowSchedule) else "UTC")
    else:
        with setting.engine() as engine:
            found = engine.schedules.preview(wanted, count, after=since)
            shown = zone or engine.schedules.get(wanted).definition.zone_id
    if setting.json:
        setting.screen.document(found)
        return
    for at in found:
        setting.screen.line(_on_the_wall(at, shown))


@schedule.command("backfill")
@_NAME
@click.argument("start", metavar="FROM")
@click.argument("end", metavar="TO")
@click.option(
    "--overlap", type=click.Choice([*OverlapPolicy], case_sensitive=False), help="The overlap policy of these (default: its own)."
)
@command_options()
def backfill(setting: Setting, name: str, start: str, end: str, overlap: str | None) -> None:
    """Have the instants FROM to TO, both included, started once, by the process that drives the database.

    FROM and TO are ISO 8601 with an offset (2030-01-31T09:00-05:00) or epoch ms. What was started already is not started again.
    """
    policy = None if overlap is None else OverlapPolicy(overlap)
    with setting.engine() as engine:
        instants = engine.schedules.backfill(name, _instant(start), _instant(end), overlap_policy=policy)
    setting.screen.answer({"name": name, "instants": instants}, f"{instants} instants of {name}")


def _instant(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else to_instant(text)


def _on_the_wall(at: int, zone_id: str) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at)
    return moment.astimezone(ZoneInfo(zone_id)).isoformat(sep=" ", timespec="milliseconds" if at % 1000 else "seconds")


def _when(wanted: WorkflowSchedule) -> str:
    if wanted.at is not None:
        return f"once at {instant(wanted.at)}"
    if wanted.interval_ms is not None:
        return f"every {wanted.interval_ms / 1000:g} s"
    if wanted.trigger is not None:
        return canonical(wanted.trigger)
    crons = wanted.cron_schedules or ()
    texts = [f"{one.cron_expression} ({one.zone_id})" for one in crons] or [f"{wanted.cron_expression} ({wanted.zone_id})"]
    return ", ".join(texts)


def _shown(setting: Setting, found: Schedule) -> None:
    screen, wanted = setting.screen, found.definition
    if setting.json:
        screen.document(found.to_json())
        return
    screen.pairs(
        [
            ("name", found.name),
            ("description", wanted.description),
            ("when", _when(wanted)),
            ("from", instant(wanted.schedule_start_time or 0)),
            ("to", instant(wanted.schedule_end_time or 0)),
            ("starts", wanted.start_workflow_request.name or "(inline)"),
            ("input", canonical(dict(wanted.start_workflow_request.input)) if wanted.start_workflow_request.input else ""),
            ("overlap", wanted.overlap_policy),
            ("catch-up", "each instant" if wanted.run_catchup_schedule_instances else "the last instant"),
            ("paused", (found.paused_reason or "yes") if found.paused else ""),
            ("next", instant(found.next_run_time or 0)),
            ("running", ", ".join(found.running)),
            ("buffered", ", ".join(map(instant, found.buffered))),
            ("backfills", len(found.backfills) or ""),
        ]
    )
    if found.recent:
        screen.line("")
        rows = [(instant(run.scheduled_time), run.outcome, run.workflow_id, run.reason) for run in found.recent]
        screen.table(("INSTANT", "OUTCOME", "EXECUTION", "REASON"), rows)


#: What `commands` adds to the program.
SCHEDULING = (schedule,)
