"""Arguments of verbs that are of another type than they say, or name none of a few things: an error that names the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from engine_kit import Bench, flow, simple, wait

from conductorlite import InvalidDefinition, StartWorkflowRequest, WorkflowSchedule
from conductorlite.errors import InvalidInput, InvalidQuery

#: Values of the wrong type for each option of a start, and what the error names.
WRONG_OPTIONS: dict[str, tuple[tuple[Any, ...], str]] = {
    "input": (("{}", "", [], [1], 5, 1.5, True, b"x", object()), "input is a mapping"),
    "version": (("1", "x", 1.5, True, [1], {"a": 1}, object()), "is no whole number"),
    "priority": (("x", "5", None, [1], {"a": 1}, 1.5, True, b"x", -1, 100), "is not a whole number between 0 and 99"),
    "workflow_id": ((5, [1], {"a": 1}, 1.5, True, b"x", object()), "workflow_id is a text"),
    "correlation_id": ((5, [1], {"a": 1}, True, b"x", object()), "correlation_id is a text"),
    "created_by": ((5, [1], {"a": 1}, True, b"x", object()), "created_by is a text"),
    "idempotency_strategy": (("FAILL", "", 5, None), "idempotency strategy"),
    "idempotency_key": (("", 5, "k" * 256), "idempotency key"),
    "task_to_domain": (("x", [1], {"a": 1}), "task_to_domain"),
}


@pytest.mark.parametrize("option", WRONG_OPTIONS)
@pytest.mark.parametrize("by_name", [True, False])
def test_options_of_a_start_that_are_of_another_type(bench: Bench, option: str, by_name: bool) -> None:
    """Each is refused by its name, with nothing stored, whether a name or a definition is started, alone or to wait for."""
    definition = flow(simple("a"))
    bench.engine.register(definition)
    what = definition.name if by_name else definition
    wrong, named = WRONG_OPTIONS[option]
    for value in wrong:
        for start in (bench.engine.start, bench.engine.start_and_wait):
            with pytest.raises(InvalidInput, match=named):
                start(what, **{option: value})
    assert bench.engine.executions() == []


@pytest.mark.parametrize("version", [0, 2, 3, -1])
def test_a_definition_is_started_as_the_version_it_is(bench: Bench, version: int) -> None:
    """A version that is not the definition's is refused by every way to start one; its own is not."""
    definition = flow(simple("a"), version=1)
    request = StartWorkflowRequest(name="flow", workflow_def=definition, version=version)
    starts: list[Callable[[], object]] = [
        lambda: bench.engine.start(definition, version=version),
        lambda: bench.engine.start_and_wait(definition, version=version),
        lambda: bench.engine.start_many(definition, [{}], version=version),
        lambda: bench.engine.core.control.start(request, workflow_id=None, at=None, delay=None),
    ]
    for start in starts:
        with pytest.raises(InvalidInput, match=f"version {version} is asked for, and the definition given is version 1 of 'flow'"):
            start()
    assert bench.engine.executions() == []
    assert bench.start(definition, version=1).workflow.version == 1


def test_mappings_that_are_none(bench: Bench) -> None:
    """Verbs that take a mapping refuse anything else by the argument's name."""
    bench.start(flow(wait("w"), simple("a")))
    engine, workflow_id = bench.engine, bench.workflow_id
    calls: dict[str, Callable[[Any], object]] = {
        "variables": lambda value: engine.update_variables(workflow_id, value),
        "output": lambda value: engine.signal(workflow_id, value),
        "input": lambda value: engine.rerun(workflow_id, input=value),
        "task_input": lambda value: engine.rerun(workflow_id, from_task="w", task_input=value),
    }
    for named, call in calls.items():
        for value in ("{}", [1], 5, object()):
            with pytest.raises(InvalidInput, match=f"{named} is a mapping"):
                call(value)
    for named in ("input", "output"):
        with pytest.raises(InvalidInput, match=f"{named} is a mapping"):
            engine.skip_task(workflow_id, "a", **{named: "{}"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "meant"), [("FAILD", "FAILED"), ("failed", "FAILED"), ("timed-out", "TIMED_OUT"), ("RUNING", "RUNNING")]
)
def test_statuses_that_are_none(bench: Bench, given: str, meant: str) -> None:
    """Verbs that take a status list those there are, and the nearest."""
    calls: list[Callable[[], object]] = [
        lambda: bench.engine.executions(status=given),  # type: ignore[arg-type]
        lambda: list(bench.engine.admin.workflow_ids(given)),  # type: ignore[arg-type]
    ]
    for call in calls:
        with pytest.raises(InvalidInput, match=rf"is none of RUNNING, PAUSED, .*; did you mean '{meant}'\?"):
            call()


def test_a_report_of_a_status_that_is_none(bench: Bench) -> None:
    """It lists those that can be reported, and the nearest."""
    bench.start(flow(wait("w")))
    with pytest.raises(InvalidInput, match=r"COMPLETD cannot be reported; use one of .*; did you mean 'COMPLETED'\?"):
        bench.engine.signal(bench.workflow_id, status="COMPLETD")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"idempotency_strategy 'x' is none of"):
        StartWorkflowRequest(name="flow", idempotency_strategy="x")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ('status = "FAILD"', "did you mean 'FAILED'?"),
        ("status != faild", "did you mean 'FAILED'?"),
        ("status = failed", "did you mean 'FAILED'?"),
        ("status IN (FAILED, RUNING)", "status 'RUNING' is none of"),
        ("status NOT IN ('X')", "is none of"),
        ("NOT (status = '')", "is none of"),
        ("status = 'FAILD*'", "is none of"),
        ("status STARTS_WITH FAILX", "is none of"),
        ("workflowName = x AND status = DONE", "status 'DONE' is none of"),
        ("statos = FAILED", "did you mean 'status'?"),
        ("workflowIdd = x", "did you mean 'workflowId'?"),
    ],
)
def test_searches_for_what_there_never_is(bench: Bench, query: str, said: str) -> None:
    """A status that is none finds nothing: that is an error, with the nearest, in searches of executions and of tasks."""
    searches: list[Callable[[str], object]] = [bench.engine.search, bench.engine.tasks.search]
    searches.append(lambda text: bench.engine.tasks.search_workflows(text))
    for search in searches:
        with pytest.raises(InvalidQuery) as refused:
            search(query)
        assert said in str(refused.value)


def test_statuses_of_tasks_and_patterns_that_fit_one(bench: Bench) -> None:
    """Each subject has its own; a pattern or a beginning that fits any of them is taken."""
    bench.start(flow(wait("w")))
    bench.engine.settle()
    assert bench.engine.search("status = 'R*' AND status STARTS_WITH RUN").total_hits == 1
    assert bench.engine.search("status IN (FAILED, RUNNING, TIMED_OUT)").total_hits == 1
    assert bench.engine.tasks.search("status = IN_PROGRESS").total_hits == 1
    for status in ("SCHEDULED", "COMPLETED_WITH_ERRORS", "PENDING", "SKIPPED"):
        assert bench.engine.tasks.search(f"status = {status}").total_hits == 0
    with pytest.raises(InvalidQuery, match="IN_PROGRESS"):
        bench.engine.tasks.search("status = RUNNING")
    with pytest.raises(InvalidQuery, match="TERMINATED"):
        bench.engine.search("status = IN_PROGRESS")
    with pytest.raises(InvalidQuery, match="did you mean 'startTime'"):
        bench.engine.search("", sort="startTim:DESC")
    with pytest.raises(InvalidQuery, match="neither ASC nor DESC; did you mean 'DESC'"):
        bench.engine.search("", sort="startTime:DECS")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"version": 3}, r"startWorkflowRequest\.version: is 3, and the workflowDef given is version 1"),
        ({"version": "1"}, r"startWorkflowRequest\.version: '1' is no whole number"),
        ({"version": True}, r"startWorkflowRequest\.version: True is no whole number"),
        ({"priority": "x"}, r"startWorkflowRequest\.priority: 'x' is not a whole number between 0 and 99"),
        ({"priority": 100}, r"startWorkflowRequest\.priority: 100 is not a whole number between 0 and 99"),
    ],
)
def test_what_a_schedule_starts(bench: Bench, fields: dict[str, Any], said: str) -> None:
    """A schedule that could never start is refused when it is saved, at the place of the mistake."""
    request = StartWorkflowRequest(name="flow", workflow_def=flow(simple("a"), version=1), **fields)
    with pytest.raises(InvalidDefinition, match=said):
        bench.engine.schedules.save(WorkflowSchedule(name="s", interval_ms=60_000, start_workflow_request=request))
    assert bench.engine.schedules.all() == []
