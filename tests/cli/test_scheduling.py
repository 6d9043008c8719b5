"""`conductorlite schedule`: what its commands print and change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_kit import Shell

from conductorlite import Engine, VirtualClock

NIGHTLY = {
    "name": "nightly",
    "description": "every night",
    "cronExpression": "0 30 2 * * *",
    "zoneId": "America/New_York",
    "startWorkflowRequest": {"name": "hello", "input": {"name": "Ada"}},
}


@pytest.fixture
def saved(shell: Shell) -> Shell:
    """A shell whose database has two schedules; one is a file, too."""
    (shell.folder / "nightly.json").write_text(json.dumps(NIGHTLY))
    interval = {"name": "beat", "intervalSeconds": 90, "startWorkflowRequest": {"name": "other"}, "paused": True}
    (shell.folder / "beat.json").write_text(json.dumps(interval))
    for file in ("nightly.json", "beat.json"):
        assert shell("schedule", "save", file).code == 0
    return shell


def test_save_and_show(saved: Shell) -> None:
    """Saving shows it; saving it again changes nothing; JSON is Conductor's."""
    said = saved("schedule", "show", "nightly")
    assert said.code == 0
    assert [line.split("  ")[0] for line in said.out.splitlines()] == [
        "name", "description", "when", "starts", "input", "overlap", "catch-up", "next",
    ]  # fmt: skip
    assert "0 30 2 * * * (America/New_York)" in said.out
    before = saved("schedule", "show", "nightly", "--json").json
    assert saved("schedule", "save", "nightly.json", "--json").json == before
    assert {key: before[key] for key in NIGHTLY} == NIGHTLY
    assert saved("schedule", "show", "nobody").code == 3


def test_list(saved: Shell) -> None:
    """A line each, in order of names, or those of a workflow."""
    lines = saved("schedule", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "beat", "nightly"]
    assert "every 90 s" in lines[1]
    assert "PAUSED" in lines[1]
    assert [one["name"] for one in saved("schedule", "list", "--workflow", "hello", "--json").json] == ["nightly"]


def test_pause_and_resume(saved: Shell) -> None:
    """The reason is shown while it is paused."""
    assert "month-end" in saved("schedule", "pause", "nightly", "--reason", "month-end").out
    assert saved("schedule", "pause", "nightly", "--json").json["paused"] is True
    assert saved("schedule", "resume", "nightly", "--json").json["paused"] is False


def test_preview(saved: Shell) -> None:
    """Of an expression, a file, and a stored schedule, on the wall of the zone; only the last needs a database."""
    arguments = ["-n", "2", "--after", "2030-03-09T12:00:00Z"]
    expected = "2030-03-10 03:00:00-04:00\n2030-03-11 02:30:00-04:00\n"
    zone = ["--zone", "America/New_York"]
    assert saved("schedule", "preview", "0 30 2 * * *", *arguments, *zone, "--db", "nowhere.db").out == expected
    assert saved("schedule", "preview", "nightly.json", *arguments, "--db", "nowhere.db").out == expected
    assert saved("schedule", "preview", "nightly", *arguments).out == expected
    assert saved("schedule", "preview", "nightly", *arguments, "--zone", "UTC").out.startswith("2030-03-10 07:00:00+00:00\n")
    assert saved("schedule", "preview", "@daily", "--after", "0", "-n", "1", "--json").json == [86_400_000]
    assert saved("schedule", "preview", "nightly", "--db", "nowhere.db").code == 3
    wrong = saved("schedule", "preview", "99 * * * *")
    assert (wrong.code, "not between 0 and 59" in wrong.err) == (2, True)


def test_backfill_and_what_became_of_it(saved: Shell) -> None:
    """The command stores it; whoever drives the database starts what it names; `show` tells the outcomes."""
    said = saved("schedule", "backfill", "nightly", "2026-01-01T00:00Z", "1767312000000", "--overlap", "skip")
    assert (said.code, said.out) == (0, "1 instants of nightly\n")
    with saved.engine() as engine:
        assert engine.settle() > 0
    shown = saved("schedule", "show", "nightly").out
    assert "FAILED" in shown
    assert "no workflow 'hello' is registered" in shown
    again = saved("schedule", "backfill", "nightly", "2026-01-01T00:00Z", "2026-01-02T00:00Z", "--json")
    assert again.json == {"name": "nightly", "instants": 1}


def test_remove(saved: Shell) -> None:
    """It is gone."""
    assert saved("schedule", "remove", "nightly").out == "nightly removed\n"
    assert saved("schedule", "remove", "beat", "--json").json == {"name": "beat", "removed": True}
    assert saved("schedule", "remove", "nightly").code == 3


def test_it_is_on_the_agenda(saved: Shell) -> None:
    """With its inbox."""
    (entry,) = saved("agenda", "--json").json
    assert (entry["kind"], entry["workflowId"], entry["referenceTaskName"]) == ("SCHEDULE", "schedule:nightly", "nightly")


def test_other_ways_to_say_when(shell: Shell, tmp_path: Path) -> None:
    """Once, and several expressions; bounds and what waits are shown."""
    with Engine(shell.folder / "conductorlite.db", clock=VirtualClock(0)) as engine:
        from conductorlite import CronSchedule, StartWorkflowRequest, WorkflowSchedule

        request = StartWorkflowRequest(name="w")
        engine.schedules.save(WorkflowSchedule(name="once", at=86_400_000, start_workflow_request=request))
        crons = [CronSchedule(cron_expression="@daily"), CronSchedule(cron_expression="@hourly", zone_id="Asia/Tokyo")]
        engine.schedules.save(
            WorkflowSchedule(name="two", cron_schedules=crons, schedule_end_time=10**12, start_workflow_request=request)
        )
    lines = shell("schedule", "list").out
    assert "once at 1970-01-02 00:00:00" in lines
    assert "@daily (UTC), @hourly (Asia/Tokyo)" in lines
    assert "2001-09-09 01:46:40" in shell("schedule", "show", "two").out
