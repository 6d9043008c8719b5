"""Schedules as Conductor's JSON, both ways, and as the texts a store keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductorlite import (
    CronSchedule,
    Engine,
    IdempotencyStrategy,
    InvalidDefinition,
    OverlapPolicy,
    StartWorkflowRequest,
    WorkflowDef,
    WorkflowSchedule,
    WorkflowTask,
)
from conductorlite.errors import InvalidInput
from conductorlite.model.scalars import json_names
from conductorlite.model.schedules import Backfill, Progress, ScheduledRun, ScheduleOutcome, progress_from_text, progress_to_text

DEFINITION = WorkflowDef(name="w", tasks=[WorkflowTask(name="n", task_reference_name="n", type="NOOP")])

WHOLE: dict[str, Any] = {
    "name": "daily-report",
    "startWorkflowRequest": {
        "name": "w",
        "version": DEFINITION.version,
        "workflowDef": DEFINITION.to_json(),
        "input": {"a": [1, None]},
        "correlationId": "c",
        "priority": 4,
        "taskToDomain": {"*": "d"},
        "createdBy": "ann",
        "idempotencyKey": "k",
        "idempotencyStrategy": "RETURN_EXISTING",
        "unknown": "kept",
    },
    "description": "d",
    "cronExpression": "0 0 9 * * MON-FRI",
    "zoneId": "America/New_York",
    "cronSchedules": [{"cronExpression": "0 0 9 * * *", "zoneId": "Asia/Tokyo"}, {"cronExpression": "@daily"}],
    "intervalSeconds": 1.5,
    "at": 5,
    "trigger": {"type": "cron", "hour": "9", "timezone": "UTC"},
    "scheduleStartTime": 6,
    "scheduleEndTime": 7,
    "runCatchupScheduleInstances": True,
    "misfireGraceSeconds": 60,
    "overlapPolicy": "SKIP",
    "paused": True,
    "pausedReason": "r",
    "createdBy": "bob",
    "tags": ["kept"],
}


def test_every_property_comes_back() -> None:
    """What is read is written, unknown properties included; every field is in the document above."""
    read = WorkflowSchedule.from_json(WHOLE)
    assert read.to_json() == WHOLE
    assert WorkflowSchedule.from_json(read.to_json()) == read
    seconds = {"intervalMs": "intervalSeconds", "misfireGraceMs": "misfireGraceSeconds"}
    for kind, document in ((WorkflowSchedule, WHOLE), (StartWorkflowRequest, WHOLE["startWorkflowRequest"])):
        assert {seconds.get(name, name) for name in json_names(kind).values()} <= document.keys()


def test_defaults_are_left_out() -> None:
    """What a user has written, and no more."""
    schedule = WorkflowSchedule(name="s", cron_expression="@daily", start_workflow_request=StartWorkflowRequest(name="w"))
    document = {"name": "s", "startWorkflowRequest": {"name": "w"}, "cronExpression": "@daily"}
    assert schedule.to_json() == document
    assert WorkflowSchedule.from_json(document) == schedule


def test_conductors_own_example_is_read() -> None:
    """0 is no instant, null is nothing, what the server answers is not what is wanted; text may stand for numbers."""
    read = WorkflowSchedule.from_json(
        {
            "name": "s",
            "cronExpression": "0 * * * * *",
            "zoneId": None,
            "startWorkflowRequest": {"name": "w", "version": "1", "input": {}},
            "scheduleStartTime": 0,
            "scheduleEndTime": "2030-01-01T00:00:00Z",
            "runCatchupScheduleInstances": "true",
            "nextRunTime": 5,
            "createTime": 6,
            "updatedTime": 7,
            "updatedBy": "x",
        }
    )
    assert (read.zone_id, read.schedule_start_time, read.schedule_end_time) == ("UTC", None, 1_893_456_000_000)
    assert (read.run_catchup_schedule_instances, read.start_workflow_request.version, read.extra) == (True, 1, {})


def test_all_problems_at_once() -> None:
    """Each with its path."""
    document = {
        "startWorkflowRequest": {"priority": "high", "input": [], "workflowDef": {"name": 5}},
        "intervalSeconds": "soon",
        "overlapPolicy": "CANCEL_OTHER",
    }
    with pytest.raises(InvalidDefinition) as caught:
        WorkflowSchedule.from_json(document)
    found = {problem.path: problem.message for problem in caught.value.problems}
    assert list(found) == [
        "$.name",
        "$.startWorkflowRequest.workflowDef.name",
        "$.startWorkflowRequest.input",
        "$.startWorkflowRequest.priority",
        "$.intervalSeconds",
        "$.overlapPolicy",
    ]
    assert found["$.overlapPolicy"].startswith("expected one of ALLOW_ALL, SKIP")


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        ([], ["$"]),
        ({}, ["$.name", "$.startWorkflowRequest"]),
        ({"name": "s", "startWorkflowRequest": {"name": "w"}, "at": "soon"}, ["$"]),
        ({"name": "s", "startWorkflowRequest": {"name": "w"}, "cronSchedules": {}}, ["$.cronSchedules"]),
        ({"name": "s", "startWorkflowRequest": {"name": "w"}, "cronSchedules": [{}]}, ["$.cronSchedules[0].cronExpression"]),
    ],
)
def test_what_is_no_schedule(document: object, paths: list[str]) -> None:
    """Refused with the place."""
    with pytest.raises(InvalidDefinition) as caught:
        WorkflowSchedule.from_json(document)  # type: ignore[arg-type]
    assert [problem.path for problem in caught.value.problems] == paths


def test_from_a_file_and_from_broken_text(tmp_path: Path) -> None:
    """A path is read; text that is no JSON is told with its line."""
    file = tmp_path / "s.json"
    file.write_text('{"name": "s", "startWorkflowRequest": {"name": "w"}, "intervalSeconds": 60}')
    assert WorkflowSchedule.from_json(file).interval_ms == 60_000
    with pytest.raises(InvalidInput, match="line 1"):
        WorkflowSchedule.from_json("{")


def test_where_a_schedule_stands_is_a_document() -> None:
    """As Conductor answers it: the schedule, and beside it what the server knows."""
    nothing_else = {"cron_schedules": (), "interval_ms": None, "at": None, "trigger": None, "schedule_start_time": None}
    with Engine() as engine:
        saved = engine.schedules.save(attrs.evolve(WorkflowSchedule.from_json(WHOLE), **nothing_else, schedule_end_time=10**12))
        document = saved.to_json()
    assert {**WHOLE, **document}["pausedReason"] == "r"
    assert {"createTime", "updatedTime", "running", "buffered", "backfills", "recent"} <= document.keys()
    assert "nextRunTime" not in document  # it ended in 2001


_instants = st.integers(0, 2**53)
_runs = st.builds(
    ScheduledRun,
    scheduled_time=_instants,
    executed_time=_instants,
    outcome=st.sampled_from(ScheduleOutcome),
    workflow_id=st.none() | st.text(st.characters(codec="utf-8"), max_size=5),
    reason=st.none() | st.text(st.characters(codec="utf-8"), max_size=5),
)
_backfills = st.builds(Backfill, after=_instants, until=_instants, overlap_policy=st.none() | st.sampled_from(OverlapPolicy))


@given(
    progress=st.builds(
        Progress,
        created_at=_instants,
        updated_at=_instants,
        after=st.integers(-1, 2**53),
        next_at=st.none() | _instants,
        paused=st.booleans(),
        paused_reason=st.none() | st.text(st.characters(codec="utf-8"), max_size=5),
        running=st.lists(st.text(st.characters(codec="utf-8"), max_size=5), max_size=2).map(tuple),
        buffered=st.lists(_instants, max_size=3).map(tuple),
        backfills=st.lists(_backfills, max_size=2).map(tuple),
        recent=st.lists(_runs, max_size=3).map(tuple),
    )
)
def test_progress_comes_back(progress: Progress) -> None:
    """Whatever a schedule has come to is kept whole."""
    assert progress_from_text(progress_to_text(progress)) == progress


def test_words_take_what_users_write() -> None:
    """Enums by name, instants and spans in any form, a zone that is empty is UTC."""
    request = StartWorkflowRequest(name="w", idempotency_strategy="FAIL_ON_RUNNING")  # type: ignore[arg-type]
    assert request.idempotency_strategy is IdempotencyStrategy.FAIL_ON_RUNNING
    assert CronSchedule(cron_expression="@daily", zone_id="").zone_id == "UTC"
    with pytest.raises(ValueError, match="CANCEL_OTHER"):
        WorkflowSchedule(name="s", start_workflow_request=request, overlap_policy="CANCEL_OTHER")  # type: ignore[arg-type]


def test_every_field_is_on_the_page() -> None:
    """docs/reference/schedules.md has a row for each field, by its property and its name, and for each outcome and policy."""
    text = (Path(__file__).parents[2] / "docs" / "reference" / "schedules.md").read_text(encoding="utf-8")
    seconds = {"intervalMs": "intervalSeconds", "misfireGraceMs": "misfireGraceSeconds"}
    for kind in (WorkflowSchedule, StartWorkflowRequest):
        section = text.partition(f"## {kind.__name__}\n")[2].partition("\n## ")[0]
        for field, name in json_names(kind).items():
            assert f"| `{seconds.get(name, name)}` | `{field}` |" in section
    assert [outcome for outcome in ScheduleOutcome if f"| `{outcome}` |" not in text] == []
    how_to = (Path(__file__).parents[2] / "docs" / "how-to" / "schedule-workflows.md").read_text(encoding="utf-8")
    assert [policy for policy in OverlapPolicy if f"| `{policy}`" not in how_to] == []
