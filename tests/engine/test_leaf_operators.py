"""DECISION, EXCLUSIVE_JOIN, HUMAN, LAMBDA and JSON_JQ_TRANSFORM: what they put out, what follows, how they fail.

Source of the rules: Conductor's mappers and system tasks of these names; where we differ, the compatibility page.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from engine_kit import Bench, NewBench, flow, fork, join, noop, rounds, simple, switch, task_def

from conductorlite import Bounds, InvalidDefinition, TaskDef, WorkflowStatus, WorkflowTask, WorkflowTimeoutPolicy
from conductorlite.language import jq as jq_module

ONCE = {"retry_count": 0}


def decision(ref: str, cases: dict[str, list[WorkflowTask]], default: list[WorkflowTask] | None = None,
             **fields: Any) -> WorkflowTask:  # fmt: skip
    """A DECISION, by default on the workflow's input `case`."""
    if "case_expression" not in fields:
        fields = {"case_value_param": "case", **fields}
    fields = {"input_parameters": {"case": "${workflow.input.case}"}, **fields}
    return WorkflowTask(
        name=ref, task_reference_name=ref, type="DECISION", decision_cases=cases, default_case=default or [], **fields
    )


def exclusive(ref: str, *join_on: str, default: tuple[str, ...] = (), **fields: Any) -> WorkflowTask:
    """An EXCLUSIVE_JOIN."""
    return WorkflowTask(
        name=ref,
        task_reference_name=ref,
        type="EXCLUSIVE_JOIN",
        join_on=join_on,
        default_exclusive_join_task=default,
        **fields,
    )


def human(ref: str, definition: dict[str, Any] | None = None, **inputs: Any) -> WorkflowTask:
    """A HUMAN."""
    embedded = None if definition is None else task_def(ref, **definition)
    return WorkflowTask(name=ref, task_reference_name=ref, type="HUMAN", input_parameters=inputs, task_definition=embedded)


def lambda_(script: Any, definition: TaskDef | None = None, ref: str = "f", **inputs: Any) -> WorkflowTask:
    """A LAMBDA."""
    return WorkflowTask(
        name=ref,
        task_reference_name=ref,
        type="LAMBDA",
        input_parameters={**inputs, "scriptExpression": script},
        task_definition=definition,
    )


def transform(query: Any, definition: TaskDef | None = None, ref: str = "q", **inputs: Any) -> WorkflowTask:
    """A JSON_JQ_TRANSFORM."""
    return WorkflowTask(
        name=ref,
        task_reference_name=ref,
        type="JSON_JQ_TRANSFORM",
        input_parameters={**inputs, "queryExpression": query},
        task_definition=definition,
    )


def simples(*refs: str, **fields: Any) -> list[WorkflowTask]:
    """SIMPLE tasks that are not retried."""
    return [simple(ref, ONCE, **fields) for ref in refs]


# -- DECISION --------------------------------------------------------------------------------------------------


@pytest.mark.trap("tasks-22")
@pytest.mark.parametrize(
    ("value", "case", "scheduled"),
    [
        ("one", "one", ["d", "a"]),
        (2, "2", ["d", "b"]),
        ("empty", "empty", ["d", "z"]),
        ("other", "other", ["d", "z"]),
        (None, "null", ["d", "z"]),
        (True, "true", ["d", "t"]),
    ],
)
def test_a_decision_takes_the_case_its_parameter_names(bench: Bench, value: Any, case: str, scheduled: list[str]) -> None:
    """The value as text is the key; a case that is missing or empty takes the default; output and input say which."""
    cases = {"one": simples("a"), "2": simples("b"), "empty": [], "true": simples("t")}
    bench.start(flow(decision("d", cases, simples("z")), *simples("e")), {"case": value})
    assert bench.order() == scheduled
    task = bench.task("d")
    assert (str(task.status), task.output_data) == ("COMPLETED", {"caseOutput": [case]})
    assert task.input_data == {"case": case, "hasChildren": "true"}
    assert bench.after(lambda: bench.do(scheduled[-1])) == ["e"]


def test_a_decision_by_script(bench: Bench) -> None:
    """`caseExpression` wins over `caseValueParam`; the script sees the resolved input; without any case what follows is next."""
    task = decision("d", {"big": simples("a")}, case_expression="$.case > 3 ? 'big' : 'small'", case_value_param="case")
    bench.start(flow(task, *simples("e")), {"case": 5})
    assert bench.order() == ["d", "a"]
    bench.start(flow(task, *simples("e")), {"case": 1})
    assert bench.order() == ["d", "e"]
    assert bench.task("d").input_data == {"case": "small"}


def test_a_decision_whose_script_fails(bench: Bench) -> None:
    """The task fails with the script's words, is never retried by itself, and fails its workflow."""
    bench.start(flow(decision("d", {"a": simples("a")}, case_expression="$.case.x.y", retry_count=3)), {})
    task = bench.task("d")
    assert (str(task.status), task.attempt) == ("FAILED", 0)
    assert (task.reason or "").startswith("DECISION expression '$.case.x.y' failed: TypeError")
    assert bench.status_of_workflow() is WorkflowStatus.FAILED


@pytest.mark.trap("tasks-24")
def test_an_optional_decision_whose_script_fails_is_passed_over(bench: Bench) -> None:
    """`optional` holds for a DECISION: what follows it is scheduled."""
    task = decision("d", {"a": simples("a")}, case_expression="$.case.x.y", optional=True)
    bench.start(flow(task, *simples("e")), {})
    assert bench.statuses() == {"d": "COMPLETED_WITH_ERRORS", "e": "SCHEDULED"}


def test_retry_evaluates_a_decision_anew(bench: Bench) -> None:
    """A DECISION that failed gets a new attempt; one that had chosen is not asked again."""
    script = "$.case.x == 1 ? 'a' : $.v.deeper.still"
    body = [decision("d", {"a": simples("a")}, case_expression=script)]
    bench.start(flow(*body), {"case": {"x": 2}})
    bench.engine.retry(bench.workflow_id)
    assert [task.attempt for task in bench.workflow.tasks] == [0, 1]
    bench.start(flow(decision("d", {"a": simples("a")})), {"case": "a"})
    bench.do("a", "FAILED")
    bench.engine.retry(bench.workflow_id)
    assert [(task.ref, task.attempt) for task in bench.workflow.tasks] == [("d", 0), ("a", 0), ("a", 1)]


def test_a_cut_turn_goes_on_in_the_chosen_case(new_bench: NewBench) -> None:
    """Where every turn is cut after one step, the case is scheduled once, and what follows it comes after it."""
    bench = new_bench(bounds=Bounds(steps=1))
    bench.start(flow(decision("d", {"a": [noop("n"), *simples("a")]}), *simples("e")), {"case": "a"})
    bench.engine.settle()
    assert bench.after(lambda: bench.do("a")) == ["e"]


def test_decisions_in_loops_and_in_each_other(bench: Bench) -> None:
    """A DECISION in a DECISION in a loop decides anew in each round."""
    inner = decision("i", {"1": [noop("x")]}, [noop("y")], input_parameters={"case": "${l.output.iteration}"})
    outer = decision("o", {"go": [inner]})
    bench.start(flow(rounds("l", [outer])), {"case": "go"})
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    assert sorted(ref for ref in bench.statuses() if ref[0] in "xy") == ["x__1", "y__2"]


# -- EXCLUSIVE_JOIN --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("case", "taken"), [("a", "a2"), ("b", "b"), ("other", "z")])
def test_an_exclusive_join_behind_a_switch(bench: Bench, case: str, taken: str) -> None:
    """It takes the one of its tasks that ran, or the default, and puts out what that one has put out."""
    choice = switch("s", {"a": simples("a1", "a2"), "b": simples("b")}, simples("z"))
    end = exclusive("e", "a2", "b", default=("z",))
    bench.start(flow(choice, end, simple("n", ONCE, input_parameters={"from": "${e.output.from}"})), {"case": case})
    if case == "a":
        bench.do("a1")
    bench.do(taken, output={"from": taken})
    assert bench.task("e").output_data == {"from": taken}
    assert bench.task("e").input_data == {"joinOn": ["a2", "b"], "defaultExclusiveJoinTask": ["z"]}
    assert bench.task("n").input_data == {"from": taken}
    assert bench.statuses() == {**{"a": {"a1": "COMPLETED"}}.get(case, {}), "s": "COMPLETED", taken: "COMPLETED",
                                "e": "COMPLETED", "n": "SCHEDULED"}  # fmt: skip


@pytest.mark.trap("tasks-17")
def test_the_first_to_end_is_taken(bench: Bench) -> None:
    """Of branches that run side by side the first to end ends it, not the first of the list; the others go on."""
    definition = flow(fork("f", simples("a"), simples("b"), [exclusive("e", "a", "b"), *simples("n")]), join("j", "a", "b", "n"))
    bench.start(definition)
    assert bench.statuses()["e"] == "IN_PROGRESS"
    assert bench.after(lambda: bench.do("b", output={"x": 1})) == ["n"]
    assert bench.task("e").output_data == {"x": 1}
    assert bench.statuses()["a"] == "SCHEDULED"
    bench.do("a")
    bench.do("n")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_the_list_decides_between_those_that_have_ended(bench: Bench) -> None:
    """What had ended before it was scheduled is taken in the order of the list, the task it follows included."""
    bench.start(flow(*simples("a", "b"), exclusive("e", "b", "a")))
    bench.do("a", output={"x": "a"})
    bench.do("b", output={"x": "b"})
    assert bench.task("e").output_data == {"x": "b"}


def test_one_that_will_be_retried_has_not_ended(bench: Bench) -> None:
    """A failure that is tried again is waited for."""
    retried = {"retry_count": 1, "retry_delay_s": 1}
    bench.start(flow(fork("f", [simple("a", retried)], [exclusive("e", "a")]), join("j", "a", "e")))
    bench.do("a", "FAILED")
    assert bench.statuses()["e"] == "IN_PROGRESS"
    bench.at(1)
    bench.do("a", output={"x": 2})
    assert bench.task("e").output_data == {"x": 2}


def test_a_permitted_failure_waits_for_something_better(bench: Bench) -> None:
    """While another may still end well, a permissive failure is not taken; when none does, the join fails with all reasons."""
    definition = flow(
        fork("f", simples("a", permissive=True), simples("b", permissive=True), [exclusive("e", "a", "b")]),
        join("j", "a", "b"),
    )
    bench.start(definition)
    bench.do("a", "FAILED", reason="no a")
    assert bench.statuses()["e"] == "IN_PROGRESS"
    bench.do("b", output={"x": "b"})
    assert (bench.statuses()["e"], bench.task("e").output_data) == ("COMPLETED", {"x": "b"})
    bench.start(definition)
    bench.do("a", "FAILED", reason="no a")
    bench.do("b", "FAILED", reason="no b")
    assert (bench.statuses()["e"], bench.task("e").reason) == ("FAILED", "a is FAILED: no a; b is FAILED: no b")
    assert bench.task("e").attempt == 0


def test_an_optional_failure_is_a_good_end(bench: Bench) -> None:
    """COMPLETED_WITH_ERRORS counts as ended well."""
    bench.start(flow(*simples("a", optional=True), exclusive("e", "a")))
    bench.do("a", "FAILED", output={"partly": 1})
    assert (bench.statuses()["e"], bench.task("e").output_data) == ("COMPLETED", {"partly": 1})


def test_none_that_was_scheduled(bench: Bench) -> None:
    """When none of what it names was scheduled or can still be, it fails and says so; in Conductor it waits for ever."""
    bench.start(flow(switch("s", {"a": simples("a"), "b": simples("b")}), exclusive("e", "a", default=("b",))), {"case": "c"})
    assert (bench.statuses()["e"], bench.task("e").reason) == ("FAILED", "none of the tasks it joins has run: a, b")
    assert bench.status_of_workflow() is WorkflowStatus.FAILED


@pytest.mark.trap("tasks-17")
def test_one_that_is_still_to_come_in_another_branch(bench: Bench) -> None:
    """A task that another branch has not reached yet is waited for, and the default is not taken before."""
    other = [*simples("x"), switch("s", {"a": simples("a")}), *simples("y")]
    end = exclusive("e", "a", default=("x",))
    definition = flow(fork("f", [end], other), join("j", "e", "y"))
    bench.start(definition, {"case": "a"})
    bench.do("x", output={"from": "x"})
    assert bench.statuses()["e"] == "IN_PROGRESS"
    bench.do("a", output={"from": "a"})
    assert bench.task("e").output_data == {"from": "a"}
    bench.start(definition, {"case": "other"})
    assert bench.statuses()["e"] == "IN_PROGRESS"
    bench.do("x", output={"from": "x"})
    assert bench.task("e").output_data == {"from": "x"}


def test_one_that_a_partial_join_left_behind(bench: Bench) -> None:
    """A branch that the fork's JOIN does not wait for may still reach a joined task."""
    bench.start(flow(fork("f", simples("a"), simples("b1", "b2")), join("j", "a"), exclusive("e", "b2")))
    bench.do("a")
    assert bench.statuses()["e"] == "IN_PROGRESS"
    bench.do("b1")
    assert bench.statuses()["e"] == "IN_PROGRESS"
    bench.do("b2", output={"x": 1})
    assert (bench.task("e").output_data, bench.status_of_workflow()) == ({"x": 1}, WorkflowStatus.COMPLETED)


def test_an_exclusive_join_in_a_loop(bench: Bench) -> None:
    """It joins the tasks of its own round, the default's too."""
    body = [switch("s", {"1": simples("a")}, simples("z"), value="${l.output.iteration}"), exclusive("e", "a", default=("z",))]
    bench.start(flow(rounds("l", body)))
    bench.do("a", output={"x": "first"})
    bench.do("z", output={"x": "second"})
    assert [bench.task(f"e__{n}").output_data for n in (1, 2)] == [{"x": "first"}, {"x": "second"}]


def test_retry_reopens_an_exclusive_join_in_place(bench: Bench) -> None:
    """A failed or canceled one goes on as the row it is, and takes what is tried again."""
    bench.start(flow(fork("f", simples("a", permissive=True), [exclusive("e", "a")]), join("j", "e")))
    bench.do("a", "FAILED")
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    bench.engine.retry(bench.workflow_id)
    assert (bench.statuses()["e"], bench.task("e").attempt) == ("IN_PROGRESS", 0)
    bench.do("a", output={"x": 3})
    assert (bench.task("e").output_data, bench.task("e").attempt) == ({"x": 3}, 0)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_retry_of_one_that_nothing_was_scheduled_for(bench: Bench) -> None:
    """Reopened, it looks again at once, and fails again: nobody has to wake it."""
    bench.start(flow(switch("s", {"a": simples("a")}), exclusive("e", "a")), {"case": "c"})
    bench.engine.retry(bench.workflow_id)
    assert (bench.statuses()["e"], bench.status_of_workflow()) == ("FAILED", WorkflowStatus.FAILED)


def test_an_exclusive_join_times_out_only_by_its_definition(bench: Bench) -> None:
    """A definition of its name brings its timeouts."""
    limited = exclusive("e", "a", task_definition=task_def("e", timeout_s=5, response_timeout_s=5))
    bench.start(flow(fork("f", simples("a"), [limited]), join("j", "a", "e")))
    bench.at(5)
    assert bench.statuses()["e"] == "TIMED_OUT"


# -- HUMAN -----------------------------------------------------------------------------------------------------


def test_a_human_waits_for_a_report(bench: Bench) -> None:
    """IN_PROGRESS with its resolved input, in no queue, for ever; whoever reports on it without a lease ends it."""
    bench.start(flow(human("h", who="${workflow.input.who}"), *simples("z")), {"who": "Ada"})
    assert bench.poll("HUMAN") is None
    bench.at(10_000_000)
    task = bench.task("h")
    assert (str(task.status), task.input_data) == ("IN_PROGRESS", {"who": "Ada"})
    bench.report(task, "IN_PROGRESS", {"seen": True}, lease=False)
    assert bench.task("h").output_data == {"seen": True}
    bench.report(task, output={"approved": True}, lease=False)
    assert (bench.task("h").output_data, bench.statuses()["z"]) == ({"approved": True}, "SCHEDULED")


def test_a_human_that_is_refused_or_late(bench: Bench) -> None:
    """A failure report fails it; its definition's timeout ends it, also in Conductor's silence; retries are HUMANs again."""
    bench.start(flow(human("h")))
    bench.report(bench.task("h"), "FAILED", reason="no", lease=False)
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    bench.start(flow(human("h", {"timeout_s": 60, "response_timeout_s": 60, "retry_count": 1, "timeout_policy": "RETRY",
                                 "retry_delay_s": 0})))  # fmt: skip
    began = bench.second
    bench.at(began + 60)
    assert [str(task.status) for task in bench.workflow.tasks] == ["TIMED_OUT", "IN_PROGRESS"]
    bench.at(began + 119)
    bench.report(bench.task("h"), lease=False)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.trap("core-36", "tasks-55")
def test_a_workflow_times_out_while_a_human_waits(bench: Bench) -> None:
    """Timers go on: Conductor takes such a workflow out of its queue, and nothing times out."""
    bench.start(flow(human("h"), timeout_ms=30_000, timeout_policy=WorkflowTimeoutPolicy.TIME_OUT_WF))
    bench.at(30)
    assert (bench.status_of_workflow(), bench.statuses()["h"]) == (WorkflowStatus.TIMED_OUT, "CANCELED")
    bench.engine.retry(bench.workflow_id)
    assert [str(task.status) for task in bench.workflow.tasks] == ["CANCELED", "IN_PROGRESS"]


# -- LAMBDA ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "result"),
    [
        ("return $.n + 1;", 5),
        ("if ($.n > 3) { return 'big'; } else { return 'small'; }", "big"),
        ("var x = [$.n]; return {x: x, own: $.scriptExpression.length > 0} // the end", {"x": [4], "own": True}),
        ("$.n + 1", None),
        ("return ${workflow.input.n} * 2", 8),
    ],
)
def test_a_lambda_returns(bench: Bench, script: str, result: Any) -> None:
    """The script is the body of a function over the input; without `return` the result is null."""
    bench.start(flow(lambda_(script, n="${workflow.input.n}")), {"n": 4})
    assert (bench.statuses()["f"], bench.task("f").output_data) == ("COMPLETED", {"result": result})


def test_a_lambda_in_full_javascript(bench: Bench) -> None:
    """All of JavaScript runs, as in an INLINE."""
    bench.start(flow(lambda_("let s = 0;\nfor (const i of [1, 2, $.n]) { s += i; }\nreturn s;", n=4)))
    assert bench.task("f").output_data == {"result": 7}
    bench.start(flow(lambda_("for (;;) { nothing.at.all(); }")))
    assert (bench.statuses()["f"], bench.task("f").reason) == (
        "FAILED",
        "ReferenceError: nothing is not defined at line 1",
    )


@pytest.mark.trap("tasks-53")
def test_a_lambda_that_fails_may_be_retried(bench: Bench) -> None:
    """An error in the script is FAILED, with its words in `error`, and is tried again as often as its definition says."""
    bench.start(flow(lambda_("return $.n.x.y", task_def("f", retry_count=2, retry_delay_s=0))))
    assert [str(task.status) for task in bench.workflow.tasks] == ["FAILED"] * 3
    task = bench.task("f")
    assert "TypeError" in (task.reason or "")
    assert task.output_data == {"error": task.reason}


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("${workflow.input.none}", "scriptExpression is missing"),
        ("${workflow.input.number}", "scriptExpression is a number, not a text"),
        ("${workflow.input.blank}", "scriptExpression is empty"),
        ("${workflow.input.bad}", "unexpected"),
    ],
)
def test_a_lambda_without_a_script(bench: Bench, script: str, reason: str) -> None:
    """A script that is missing or none when the task's turn comes fails the task with a reason that says so."""
    bench.start(flow(lambda_(script)), {"number": 3, "blank": " ", "bad": "return )"})
    assert bench.statuses()["f"] == "FAILED"
    assert reason in (bench.task("f").reason or "")


def test_a_lambda_that_does_not_compile_is_refused(bench: Bench) -> None:
    """A script that is all there is compiled when it is registered; the place is that of the author's text."""
    with pytest.raises(InvalidDefinition, match=r"inputParameters\.scriptExpression.*line 1 column 8") as refused:
        bench.engine.start(flow(lambda_("return )")))
    assert "function () {" not in str(refused.value)


# -- JSON_JQ_TRANSFORM -----------------------------------------------------------------------------------------


@pytest.mark.trap("tasks-52")
@pytest.mark.parametrize(
    ("query", "results"),
    [
        (".people | map(.name)", [["Ada", "Bob"]]),
        (".people[].age", [36, 41.5]),
        (".people[] | select(.age > 99)", []),
        ("{q: .queryExpression | length, keys: keys}", [{"q": 42, "keys": ["people", "queryExpression"]}]),
        (".absent", [None]),
        ("def f($x): $x + 1; f(1) # done", [2]),
    ],
)
def test_a_transform_puts_out_its_first_and_all_results(bench: Bench, query: str, results: list[Any]) -> None:
    """The input of the program is the whole input, its own text included."""
    people = [{"name": "Ada", "age": 36}, {"name": "Bob", "age": 41.5}]
    bench.start(flow(transform(query, people="${workflow.input.people}")), {"people": people})
    first = results[0] if results else None
    assert bench.statuses()["q"] == "COMPLETED", bench.task("q").reason
    assert bench.task("q").output_data == {"result": first, "resultList": results}


def test_a_transform_that_fails_may_be_retried(bench: Bench) -> None:
    """An error of the program is FAILED with jq's words as reason and `error`; retries are by the definition."""
    bench.start(flow(transform(".a + 1", task_def("q", retry_count=1, retry_delay_s=0), a="x")))
    assert [str(task.status) for task in bench.workflow.tasks] == ["FAILED", "FAILED"]
    task = bench.task("q")
    assert task.reason == 'string ("x") and number (1) cannot be added'
    assert task.output_data == {"error": task.reason}


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("${workflow.input.none}", "queryExpression is missing"),
        ("${workflow.input.blank}", "queryExpression is empty"),
        ("${workflow.input.bad}", "at line 1 column 4"),
    ],
)
def test_a_transform_without_a_program(bench: Bench, query: str, reason: str) -> None:
    """A program that is missing, or none, when the task's turn comes fails the task."""
    bench.start(flow(transform(query)), {"blank": " ", "bad": ".a )"})
    assert bench.statuses()["q"] == "FAILED"
    assert reason in (bench.task("q").reason or "")


def test_the_program_may_be_in_the_definition_of_the_task(bench: Bench) -> None:
    """`queryExpression` may come from the input template of the task's definition, as a LAMBDA's script may."""
    template = TaskDef(name="q", input_template={"queryExpression": ".a", "scriptExpression": "return $.a"})
    for kind, output in (("JSON_JQ_TRANSFORM", {"result": 1, "resultList": [1]}), ("LAMBDA", {"result": 1})):
        task = WorkflowTask(name="q", task_reference_name="q", type=kind, input_parameters={"a": 1}, task_definition=template)
        bench.start(flow(task))
        assert bench.task("q").output_data == output


@pytest.mark.parametrize("query", [".a.b.", 'import "x" as x; 1', "foo(1)", ".a\0"])
def test_a_transform_that_does_not_compile_is_refused(bench: Bench, query: str) -> None:
    """A program that is all there is compiled when it is registered."""
    with pytest.raises(InvalidDefinition, match=r"\$\.tasks\[0\]\.inputParameters\.queryExpression: "):
        bench.engine.start(flow(transform(query)))


@pytest.mark.parametrize("query", [".a", "${workflow.input.q}"])
def test_a_transform_needs_the_extra(bench: Bench, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra a definition with a JSON_JQ_TRANSFORM is refused, with the command that installs it."""
    monkeypatch.setattr(jq_module, "installed", lambda language: False)
    with pytest.raises(InvalidDefinition, match=r"pip install 'conductorlite\[jq\]'"):
        bench.engine.start(flow(transform(query)))


def test_the_clock_of_a_program_is_the_turns(bench: Bench) -> None:
    """`now` is the instant of the turn, so every store decides alike."""
    bench.start(flow(transform("now")))
    assert bench.task("q").output_data["result"] == bench.clock.now() / 1000


def test_leaves_survive_their_json(bench: Bench) -> None:
    """A definition with all five is written and read without loss, and runs from its JSON."""
    definition = flow(
        decision("d", {"a": [lambda_("return 1")]}, [transform(".")]), exclusive("e", "f", default=("q",)), human("h")
    )
    text = json.loads(json.dumps(definition.to_json()))
    assert type(definition).from_json(text) == definition
    bench.start(type(definition).from_json(text), {"case": "a"})
    assert bench.task("e").output_data == {"result": 1}
    assert bench.statuses()["h"] == "IN_PROGRESS"
