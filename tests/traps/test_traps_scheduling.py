"""Traps in what is scheduled, in which order and under which name, where no other test falls into them."""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import Bench, flow, fork, join, noop, rounds, simple, switch, task_def, wait

from conductorlite import TaskDef, WorkflowStatus, WorkflowTask
from conductorlite.model.definitions import JoinMode


def _node(ref: str, kind: str, **fields: Any) -> WorkflowTask:
    return WorkflowTask(name=f"{ref}-name", task_reference_name=ref, type=kind, **fields)


@pytest.mark.trap("tasks-1")
def test_which_queue_a_task_is_in(bench: Bench) -> None:
    """SIMPLE waits under its name, any other worker's type under the type, USER_DEFINED included."""
    branches = [[_node("a", "SIMPLE")], [_node("b", "MINE")], [_node("c", "USER_DEFINED")]]
    bench.start(flow(fork("f", *branches), join("j", "a", "b", "c")))
    assert bench.engine.tasks.queue_sizes() == {"a-name": 1, "MINE": 1, "USER_DEFINED": 1}
    assert bench.task("b").name == "b-name"


@pytest.mark.trap("tasks-2")
def test_a_simple_task_called_like_an_operator_is_a_workers(bench: Bench) -> None:
    """The type says what a task is: a SIMPLE whose name is WAIT is offered under that name."""
    bench.start(flow(WorkflowTask(name="WAIT", task_reference_name="a")))
    bench.do("WAIT")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.trap("tasks-3")
def test_what_a_fork_looks_like(bench: Bench) -> None:
    """Both kinds of fork are a row FORK, then the heads of the branches, then the JOIN, which waits from then on."""
    inputs = {"forkTaskName": "t", "forkTaskInputs": [1]}
    dynamic = WorkflowTask(name="d", task_reference_name="d", type="FORK_JOIN_DYNAMIC", input_parameters=inputs)
    bench.start(flow(fork("f", [simple("a")], [simple("b")]), join("j", "a", "b"), dynamic, join("k")))
    bench.do("a")
    bench.do("b")
    rows = [(task.ref, task.task_type, str(task.status)) for task in sorted(bench.workflow.tasks, key=lambda task: task.seq)]
    assert rows == [
        ("f", "FORK", "COMPLETED"),
        ("a", "a", "COMPLETED"),
        ("b", "b", "COMPLETED"),
        ("j", "JOIN", "COMPLETED"),
        ("d", "FORK", "COMPLETED"),
        ("_t_0", "t", "SCHEDULED"),
        ("k", "JOIN", "IN_PROGRESS"),
    ]


@pytest.mark.trap("tasks-9", "tasks-10")
@pytest.mark.parametrize("mode", [None, *JoinMode])
def test_the_input_of_a_join(bench: Bench, mode: JoinMode | None) -> None:
    """A JOIN's input is what it joins, and nothing of its inputParameters; its mode makes no difference."""
    bench.start(flow(fork("f", [simple("a")]), join("j", "a", input_parameters={"x": "${workflow.input}"}, join_mode=mode)))
    assert bench.task("j").input_data == {"joinOn": ["a"]}
    bench.do("a")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.trap("tasks-13")
def test_a_join_on_a_case_that_is_not_taken_waits(bench: Bench) -> None:
    """It waits for ever, as in Conductor: the validator warns of it, and `explain` names what it waits for."""
    bench.start(flow(switch("s", {"x": [simple("h")]}), fork("f", [simple("a")]), join("j", "a", "h")))
    bench.do("a")
    assert bench.statuses()["j"] == "IN_PROGRESS"
    assert "h" in str(bench.engine.explain(bench.workflow_id))


@pytest.mark.trap("core-27", "tasks-5")
def test_a_type_without_a_definition_is_not_retried(bench: Bench) -> None:
    """Four attempts are the default of SIMPLE tasks alone; a retryCount in the task counts for the others, too."""
    bench.start(flow(_node("a", "MINE")))
    bench.do("MINE", "FAILED")
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    bench.start(flow(_node("a", "MINE", retry_count=1)))
    bench.do("MINE", "FAILED")
    assert bench.task("a").attempt == 1


@pytest.mark.trap("core-12")
def test_a_callback_delay_is_gone_when_it_is_polled(bench: Bench) -> None:
    """IN_PROGRESS puts a task back as SCHEDULED with its delay; the next poll takes the delay away."""
    bench.start(flow(simple("a")))
    bench.do("a", "IN_PROGRESS", callback_s=5)
    assert (str(bench.task("a").status), bench.task("a").callback_after_ms) == ("SCHEDULED", 5_000)
    bench.at(5)
    assert (bench.take("a").callback_after_ms, bench.task("a").callback_after_ms) == (0, 0)


@pytest.mark.trap("core-24")
def test_the_output_of_a_failed_workflow_is_that_of_the_last_scheduled(bench: Bench) -> None:
    """Not that of the task that failed it."""
    bench.start(flow(fork("f", [simple("a", {"retry_count": 0})], [simple("b"), simple("c")]), join("j", "a", "b")))
    bench.do("b")
    bench.do("c", "IN_PROGRESS", {"c": 1})
    bench.do("a", "FAILED", {"half": True})
    assert bench.workflow.output_data == {"c": 1}


@pytest.mark.trap("core-30")
def test_a_workflow_that_fails_while_it_starts_has_an_id(bench: Bench) -> None:
    """What goes wrong in the first turn is the execution's failure, not the start's."""
    run = bench.start(flow(wait("w", duration="${workflow.input.d}")), {"d": "soon"})
    assert run.status is WorkflowStatus.FAILED


@pytest.mark.trap("core-26")
def test_variables_are_an_executions_own(bench: Bench) -> None:
    """What one execution sets is not in the definition, nor in the next execution."""
    setting = WorkflowTask(name="v", task_reference_name="v", type="SET_VARIABLE", input_parameters={"n": 2})
    definition = flow(setting, variables={"n": 1, "list": []})
    bench.engine.register(definition)
    assert bench.start("flow").workflow.variables.fresh() == {"n": 2, "list": []}
    assert definition.variables == {"n": 1, "list": []}
    assert bench.engine.definitions.workflow("flow").variables == {"n": 1, "list": []}


@pytest.mark.trap("core-51", "tasks-27")
def test_delimiters_in_references(bench: Bench) -> None:
    """`__` within a reference is part of it, inside loops and outside; only what ends in `__` and digits is refused."""
    bench.start(flow(simple("a__b"), rounds("lo__op", [simple("c__d", input_parameters={"x": "${a__b.output.x}"})])))
    bench.do("a__b", output={"x": 1})
    assert bench.do("c__d").input_data == {"x": 1}
    bench.do("c__d")
    assert bench.order() == ["a__b", "lo__op", "c__d__1", "c__d__2"]
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.trap("tasks-48")
def test_operators_are_retried_at_once(bench: Bench) -> None:
    """Retry delays are for workers: an operator that may be retried is evaluated again in the same turn."""
    script = {"scriptExpression": "return $.x.y.z;"}
    kind = WorkflowTask(
        name="l", task_reference_name="l", type="LAMBDA", input_parameters=script,
        task_definition=task_def("l", retry_count=2, retry_delay_s=60),
    )  # fmt: skip
    bench.start(flow(kind))
    assert bench.journal_of("l") == ["0 l FAILED", "0 l#1 FAILED", "0 l#2 FAILED"]
    assert bench.status_of_workflow() is WorkflowStatus.FAILED


@pytest.mark.trap("tasks-23")
@pytest.mark.parametrize(("value", "case"), [(1.0, "1.0"), (1, "1"), (True, "true"), (None, "null"), ({}, "else")], ids=repr)
def test_cases_are_chosen_by_text(bench: Bench, value: Any, case: str) -> None:
    """A number, a boolean and what is missing match the case of their text."""
    cases = {text: [noop(f"case-{text}")] for text in ("1.0", "1", "true", "null")}
    bench.start(flow(switch("s", cases, [noop("case-else")])), {"case": value})
    assert bench.order() == ["s", f"case-{case}"]


@pytest.mark.trap("tasks-23")
def test_a_double_is_a_whole_number_in_javascript(bench: Bench) -> None:
    """In a script 1.0 is 1, and so is its text."""
    cases = {"1": [noop("whole")], "1.0": [noop("double")]}
    bench.start(flow(switch("s", cases, evaluator_type="javascript", expression="$.case")), {"case": 1.0})
    assert bench.order() == ["s", "whole"]


def _given(bench: Bench, kind: str, **fields: Any) -> dict[str, Any]:
    inputs = {"id": "${CPEWF_TASK_ID}", "case": "x", "startWorkflow": {"name": "other"}, "expression": "1"}
    definition = TaskDef(name="t", input_template={"more": "template"})
    bench.engine.register(flow(noop("n"), name="other"))
    after = [join("j", "z")] if kind == "FORK_JOIN" else []
    task = WorkflowTask(name="t", task_reference_name="t", type=kind, input_parameters=inputs, task_definition=definition, **fields)
    bench.start(flow(task, *after))
    bench.engine.settle()
    return bench.task("t").input_data


@pytest.mark.trap("tasks-26")
def test_which_inputs_know_the_task(bench: Bench) -> None:
    """The input of SWITCH, FORK_JOIN and SET_VARIABLE knows neither the task's id nor a template, that of a worker both."""
    fork_tasks, cases = [[noop("z")]], {"x": [noop("z")]}
    for kind, fields in {
        "SWITCH": {"evaluator_type": "value-param", "expression": "case", "decision_cases": cases},
        "FORK_JOIN": {"fork_tasks": fork_tasks},
        "SET_VARIABLE": {},
    }.items():
        given = _given(bench, kind, **fields)
        assert (given["id"], "more" in given) == ("${CPEWF_TASK_ID}", False), kind
    given = _given(bench, "SIMPLE")
    assert (given["id"], given["more"]) == (bench.task("t").task_id, "template")
    assert _given(bench, "START_WORKFLOW")["id"] == bench.task("t").task_id


@pytest.mark.trap("core-46", "tasks-16", "tasks-75")
def test_what_a_skip_leaves_does_not_disturb_a_dynamic_fork(bench: Bench) -> None:
    """A task that was skipped before the flow came to it has a row like others when a fork looks around."""
    inputs = {"forkTaskName": "t", "forkTaskInputs": [1]}
    dynamic = WorkflowTask(name="d", task_reference_name="d", type="FORK_JOIN_DYNAMIC", input_parameters=inputs)
    bench.start(flow(simple("a"), simple("b"), dynamic, join("j")))
    bench.engine.skip_task(bench.workflow_id, "b", input={"i": 1}, output={"o": 2})
    assert bench.task("b").seq == 0
    bench.do("a")
    bench.do("t")
    assert (bench.task("b").input_data, bench.task("b").output_data) == ({"i": 1}, {"o": 2})
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.trap("tasks-10")
def test_the_input_of_a_join_behind_a_dynamic_fork(bench: Bench) -> None:
    """It is what it joins, as behind any fork."""
    inputs = {"forkTaskName": "t", "forkTaskInputs": [1, 2]}
    dynamic = WorkflowTask(name="d", task_reference_name="d", type="FORK_JOIN_DYNAMIC", input_parameters=inputs)
    bench.start(flow(dynamic, join("j", input_parameters={"x": "${workflow.input}"})))
    assert bench.task("j").input_data == {"joinOn": ["_t_0", "_t_1"]}
