"""`${…}` that names nothing: an error where Conductor refuses it, else a warning; each with what may have been meant."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from conductorlite import Engine, InvalidDefinition, SubWorkflowParams, VirtualClock, Workers, WorkflowDef, WorkflowTask, validate


def task(ref: str, text: Any = None, **fields: Any) -> WorkflowTask:
    given = {} if text is None else {"x": text}
    return WorkflowTask(name=ref, task_reference_name=ref, input_parameters=given, **fields)


def flow(*tasks: WorkflowTask, **fields: Any) -> WorkflowDef:
    return WorkflowDef(name="w", tasks=tasks, **fields)


def switch(ref: str, a: list[WorkflowTask], b: list[WorkflowTask], text: Any = None) -> WorkflowTask:
    given = {"v": "a", "x": text}
    return WorkflowTask(name=ref, task_reference_name=ref, type="SWITCH", evaluator_type="value-param", expression="v",
                        input_parameters=given, decision_cases={"a": a}, default_case=b)  # fmt: skip


def fork(*branches: list[WorkflowTask]) -> list[WorkflowTask]:
    joined = [branch[-1].task_reference_name for branch in branches]
    return [
        WorkflowTask(name="f", task_reference_name="f", type="FORK_JOIN", fork_tasks=branches),
        WorkflowTask(name="j", task_reference_name="j", type="JOIN", join_on=joined),
    ]


def loop(*tasks: WorkflowTask, text: Any = None) -> WorkflowTask:
    return task("l", text, type="DO_WHILE", loop_condition="$.l.iteration < 2", loop_over=tasks)


def found(definition: WorkflowDef, **options: Any) -> list[tuple[str, str, str]]:
    return [(problem.severity.value[0].upper(), problem.path, problem.message) for problem in validate(definition, **options)]


NOTHING = "names neither the workflow nor a task of this definition"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${pirce.output.total}", f"${{pirce…}} {NOTHING}; did you mean 'price'?"),
        ("${price_.output}", f"${{price_…}} {NOTHING}; did you mean 'price'?"),
        ("${worklfow.input.x}", f"${{worklfow…}} {NOTHING}; did you mean 'workflow'?"),
        ("${zzz}", f"${{zzz…}} {NOTHING}"),
        ("is ${zzz.output} so", f"${{zzz…}} {NOTHING}"),
        ({"deep": [{"er": "${zzz.output}"}]}, f"${{zzz…}} {NOTHING}"),
        ("${price.output.${zzz.output}}", f"${{zzz…}} {NOTHING}"),
        ("${zzz['output']}", f"${{zzz…}} {NOTHING}"),
        ("${env.HOME}", f"${{env…}} {NOTHING}"),
    ],
)
@pytest.mark.parametrize("place", ["outermost", "case", "branch", "round", "inline"])
def test_an_unknown_root_is_an_error(text: Any, message: str, place: str) -> None:
    """In the input of any task, however deep: Conductor's rule, which it applies to the outermost tasks only."""
    reader = task("charge", text)
    definition = {
        "outermost": flow(task("price"), reader),
        "case": flow(task("price"), switch("s", [reader], [])),
        "branch": flow(task("price"), *fork([reader], [task("other")])),
        "round": flow(task("price"), loop(reader)),
        "inline": flow(
            task("s", type="SUB_WORKFLOW", sub_workflow_param=SubWorkflowParams(workflow_definition=flow(task("price"), reader)))
        ),
    }[place]
    (problem,) = found(definition)
    assert (problem[0], problem[2]) == ("E", message)
    with Engine(clock=VirtualClock()) as engine:
        with pytest.raises(InvalidDefinition):
            engine.register(definition)
        assert engine.definitions.workflows() == []
        with pytest.raises(InvalidDefinition):
            engine.start(definition)


@pytest.mark.parametrize(
    "text",
    [
        "${price.output.anything}", "${price.input}", "${price}", "${workflow.input.x}", "${workflow.variables.x}",
        "${workflow.output}", "${workflow.workflowId}", "${workflow.env.HOME}", "${workflow.secrets.KEY}",
        "${workflow.secrets.KEY.part}",
        "${CPEWF_TASK_ID}", "${NETFLIX_ENV}", "${NETFLIX_STACK}", "$${zzz.output}", "${price['output']['a b']}",
        "${price.output[0]..x}",
        "${$.price.output}", "${price.taskId}", "${price.reasonForIncompletion}", "${workflow.correlationId}", "$.zzz.output",
        "${${workflow.input.which}.output}", "${price.output.${workflow.input.x}}", "#{zzz}", "{zzz}", "${price__1.output}",
    ],
)  # fmt: skip
def test_what_is_there_is_nothing_to_talk_about(text: str) -> None:
    """Members, environment, secrets, rounds, what is escaped."""
    assert found(flow(task("price"), task("charge", text))) == []


@pytest.mark.parametrize("text", ["${HOME}", "${PATH_2}", "${java.version}", "${user.home}"])
def test_what_conductor_may_know_is_let_in(text: str) -> None:
    """A name of its environment or of Java's properties: nothing of that is known here, which is worth a warning."""
    assert [(severity, "resolves to null" in message) for severity, _, message in found(flow(task("t", text)))] == [("W", True)]


def test_the_environment_of_an_engine_is_known() -> None:
    """`${region}` may be a name of it; `validate` is told by argument."""
    definition = flow(task("t", "${region}"))
    assert [problem[0] for problem in found(definition)] == ["E"]
    assert found(definition, environment={"region"}) == []
    with Engine(clock=VirtualClock(), environment={"region": "eu"}) as engine:
        engine.register(definition)
        assert engine.start("w").workflow.tasks[0].input_data == {"x": "eu"}


@pytest.mark.parametrize(
    "definition",
    [
        flow(task("t"), output_parameters={"o": "${zzz.output}"}),
        flow(task("t"), failure_workflow="${zzz.output}"),
        flow(task("t", type="SUB_WORKFLOW", sub_workflow_param=SubWorkflowParams(name="${zzz.output}"))),
    ],
)
def test_elsewhere_an_unknown_root_is_a_warning(definition: WorkflowDef) -> None:
    """As on Conductor, which looks at inputs only."""
    assert [problem[0] for problem in found(definition)] == ["W"]


def test_what_is_made_at_run_time_may_be_read() -> None:
    """Beside a dynamic fork nobody knows what tasks there will be; in what is made at run time nobody knows what is around it."""
    dynamic = task("f", type="FORK_JOIN_DYNAMIC", dynamic_fork_tasks_param="a", dynamic_fork_tasks_input_param_name="b")
    definition = flow(dynamic, task("j", type="JOIN"), task("t", "${made_1.output}"))
    assert [problem[0] for problem in found(definition)] == ["W"]
    assert [problem[0] for problem in found(flow(task("t", "${around.output}")), environment=None)] == ["W"]


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([task("a", "${b.output.x}"), task("b")], "'b' comes later"),
        ([task("a", "${a.output.x}")], "'a' is this task itself"),
        ([*fork([task("a", "${c.output}")], [task("b")]), task("c")], "'c' comes later"),
        ([switch("s", [task("a", "${b.output}")], [task("b")])], "'b' is in another case of the same switch"),
        ([switch("s", [loop(task("a", "${b.output}"))], [task("c"), task("b")])], "'b' is in another case of the same switch"),
        ([switch("s", [task("a")], [task("b")], text="${a.output}")], "'a' comes later"),
        ([loop(task("a", "${c.output}")), task("c")], "'c' comes later"),
    ],
)
def test_what_comes_later_or_never_is_a_warning(tasks: list[WorkflowTask], message: str) -> None:
    """Nothing is refused for it."""
    (problem,) = found(flow(*tasks))
    assert problem[0] == "W"
    assert f"is read too early: {message}; it resolves to null" in problem[2]


@pytest.mark.parametrize(
    "tasks",
    [
        [loop(task("a", "${b.output}"), task("b"))],  # of the round before
        [loop(task("a", "${a.output}"))],
        [loop(switch("s", [task("a", "${b.output}")], [task("b")]))],
        [loop(task("a"), text="${a.output}")],  # looked at again after each round
        [loop(task("a", "${l.output.iteration}"))],
        [loop(task("a")), task("c", "${a.output}")],
        [switch("s", [task("a")], [task("b")]), task("c", "${a.output} ${b.output}")],
        [switch("s", [task("a", "${s.output}")], [task("b")])],
        [*fork([task("a")], [task("b", "${a.output}")])],  # may have ended: a race is not what this is about
        [*fork([task("a")], [task("b")]), task("c", "${a.output} ${j.output.a}")],
        [task("a", compensate=task("undo", "${a.output} ${z.output}")), task("z")],
    ],
)
def test_what_may_have_run_is_nothing_to_talk_about(tasks: list[WorkflowTask]) -> None:
    """Earlier rounds, either case after the switch, tasks around, other branches, compensations."""
    assert found(flow(*tasks)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${a.ouput.x}", "${a.ouput…}: a task has no 'ouput'; did you mean 'output'?"),
        ("${a.zzz}", "${a.zzz…}: a task has no 'zzz'; it resolves to null"),
        ("${workflow.inptu.x}", "${workflow.inptu…}: a workflow has no 'inptu'; did you mean 'input'?"),
        ("${workflow.input.oderId}", "${workflow.input.oderId…} is not among its inputParameters; did you mean 'orderId'?"),
        ("${workflow.variables.totl}", "${workflow.variables.totl…} is not a variable that it sets; did you mean 'total'?"),
        ("${workflow.variables.cuont}", "${workflow.variables.cuont…} is not a variable that it sets; did you mean 'count'?"),
    ],
)
def test_a_misspelt_segment_is_a_warning(text: str, message: str) -> None:
    """Members, and, where one is like a declared one, inputs and variables."""
    setting = WorkflowTask(name="v", task_reference_name="v", type="SET_VARIABLE", input_parameters={"count": 1})
    definition = flow(task("a"), setting, task("b", text), input_parameters=["orderId"], variables={"total": 1})
    assert [(severity, said) for severity, _, said in found(definition)] == [("W", message)]


def test_an_input_that_is_like_none_needs_no_declaration() -> None:
    """inputParameters are documentation, and often incomplete."""
    assert found(flow(task("a", "${workflow.input.quiteDifferent}"), input_parameters=["orderId"])) == []


def test_a_definition_full_of_errors_is_looked_at_in_time() -> None:
    """Suggestions are bounded: thousands of unknown names among thousands of tasks."""
    tasks = [task(f"task_{number}", f"${{tsak_{number}.output}}") for number in range(1_000)]
    problems = validate(flow(*tasks))
    assert len(problems) == 1_000
    assert 0 < sum("did you mean" in problem.message for problem in problems) <= 50


# -- tasks that nobody carries out ---------------------------------------------------------------------------


def test_a_task_that_no_worker_serves_is_a_warning() -> None:
    """Told which there are, and what may have been meant; once for each type."""
    definition = flow(task("a"), task("x", type="SWICH"), task("y", type="SWICH"), task("z", type="HTTP"), task("zzz"))
    assert [problem for problem in found(definition, served={"a", "b"}) if "http_request" not in problem[2]] == [
        ("W", "$.tasks[1].type", "no worker here for 'SWICH'; there are a, b; did you mean 'SWITCH'?"),
        ("W", "$.tasks[3].type", "no worker here for 'HTTP': include those of conductorlite.ext.workers.system_workers()"),
        ("W", "$.tasks[4].name", "no worker here for 'zzz'; there are a, b"),
    ]
    assert [problem for problem in found(flow(task("a"))) if "worker" in problem[2]] == []
    assert found(flow(task("a")), served=()) == [("W", "$.tasks[0].name", "no worker here for 'a'; there are none")]


@pytest.mark.parametrize("kind", ["HTTP_POLL", "LLM_CHAT_COMPLETE", "WAIT_FOR_WEBHOOK", "BUSINESS_RULE"])
def test_types_of_conductors_server_are_a_warning(kind: str) -> None:
    """Nothing here carries them out; a worker of that name may."""
    ((severity, path, message),) = found(flow(task("a", type=kind)))
    assert (severity, path) == ("W", "$.tasks[0].type")
    assert "by nothing here" in message
    assert found(flow(task("a", type=kind)), served={kind}) == []


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "conductorlite.definitions"]


def nothing() -> None:
    return None


def workers_of(*names: str) -> Workers:
    workers = Workers()
    for name in names:
        workers.add(name, nothing)
    return workers


def test_an_engine_with_workers_says_who_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    """At registration and at start, once for each type."""
    caplog.set_level(logging.WARNING, logger="conductorlite")
    with Engine(clock=VirtualClock(), workers=workers_of("a", "b")) as engine:
        engine.register(flow(task("a"), task("x", type="SWICH")))
        assert logged(caplog) == ["w: no worker here for 'SWICH'; there are a, b; did you mean 'SWITCH'?"]
        engine.start("w")
        engine.start(WorkflowDef(name="v", tasks=[task("x", type="SWICH"), task("y")]))
        engine.start(WorkflowDef(name="v", tasks=[task("x", type="SWICH"), task("y")]))
        assert logged(caplog)[1:] == ["v: no worker here for 'y'; there are a, b"]


def test_an_engine_that_only_starts_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Until it is driven; what is polled for by hand has somebody."""
    caplog.set_level(logging.WARNING, logger="conductorlite")
    with Engine(clock=VirtualClock()) as engine:
        engine.register(flow(task("a"), task("b")))
        engine.start("w")
        assert engine.poll("a")
        assert logged(caplog) == []
        engine.run_until_idle()
        assert logged(caplog) == ["w: no worker here for 'b'; there are none"]


def test_warnings_about_a_definition_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """At its registration, or at the start of one that is not registered; not again at each start."""
    caplog.set_level(logging.WARNING, logger="conductorlite")
    late = [task("a", "${b.output}"), task("b")]
    with Engine(clock=VirtualClock()) as engine:
        engine.register(flow(*late))
        engine.register(flow(*late))
        engine.start("w")
        engine.start("w")
        assert len(logged(caplog)) == 1
        assert "is read too early" in logged(caplog)[0]
        engine.start(WorkflowDef(name="v", tasks=late))
        engine.start(WorkflowDef(name="v", tasks=late))
        assert len(logged(caplog)) == 2


def test_what_is_registered_is_started_whatever_it_names() -> None:
    """It may have been let in by an earlier version, which only warned."""
    with Engine(clock=VirtualClock()) as engine:
        definition = flow(task("a", "${zzz.output}"))
        from conductorlite.model.codec import definition_text

        with engine.backend.writing() as tx:
            tx.metadata.put_workflow_def("w", 1, definition_text(definition))
        run = engine.start("w")
        assert run.workflow.tasks[0].input_data == {"x": None}
