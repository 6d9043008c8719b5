"""Mutants of definitions: which there are, and what pytest reports of them."""

from __future__ import annotations

import pytest
from designs import flow, fork, node, steps, switch, work

from conductorlite import Engine, VirtualClock, WorkflowDef
from conductorlite import flow as as_flow
from conductorlite import task as as_task
from conductorlite.testing.mutants import mutants_of

pytest_plugins = ["pytester"]

GIVEN = {"a": "${workflow.input.a}", "b": "${workflow.input.b}"}
ALL = WorkflowDef(
    name="all",
    timeout_ms=60_000,
    output_parameters={"end": "${charge.output.id}"},
    tasks=[
        work("charge", task={"timeout_ms": 60_000}, compensate="refund", input_parameters=GIVEN),
        switch("kind", "${charge.output.kind}", {"card": steps("card"), "cash": []}, steps("other")),
        *fork("both", steps("left"), steps("right"), on=["left", "right"]),
        node("DO_WHILE", "loop", loop_condition="$.loop['iteration'] < 2", loop_over=[node("NOOP", "page")]),
        node("WAIT", "pause", input_parameters={"duration": "1 hours"}),
        node("TERMINATE", "end", input_parameters={"terminationStatus": "FAILED"}),
    ],
)


def test_every_kind_of_mistake() -> None:
    """Each mutant can be started, differs from the definition, and is of each kind once where there is a place for it."""
    mutants = mutants_of(ALL)
    texts = [f"{one.ref} {one.what}" for one in mutants]
    assert {
        *("charge is not compensated", "charge is nothing", "charge a and b are swapped", "charge is optional"),
        *("charge is 0", "charge is 3", "charge is three times as long", "charge is 1 s", "pause is 1 s", " is 1 s", " is nothing"),
        *("kind 'card' and 'cash' are swapped", "kind 'cash' and the default are swapped", "loop is never true"),
        *("both_join does not wait for left", "both_join does not wait for right", "end is another status"),
        *("card goes on without card", "pause goes on without pause"),
    } <= set(texts)
    made = [one.made_of(ALL) for one in mutants]
    assert None not in made
    assert ALL not in made
    assert all(one.made_of(flow("other", steps("x"))) is None for one in mutants if one.ref != "charge")


@as_task
def usual() -> int:
    """Try again as often as `@task` has it."""
    return 1


@as_task(retry=5)
def written() -> int:
    """Try again as often as somebody has written."""
    return 2


@as_flow
def both() -> list[int]:
    """Call one after the other."""
    return [usual(), written()]


def test_retries_that_nobody_wrote_are_left_alone() -> None:
    """The default of `@task` is no rule of the workflow, which a test would have to look at."""
    with Engine(workers=[both], clock=VirtualClock(0)) as engine:
        definition = engine.start(both).workflow.definition
    assert definition is not None
    texts = {f"{one.ref} {one.what}" for one in mutants_of(definition)}
    assert {"written is 0", "written is 6", "written is three times as long"} <= texts
    assert not {"usual is 0", "usual is 4", "usual is three times as long"} & texts


TESTS = """
import pytest
from conductorlite import TaskDef, WorkflowDef, WorkflowFailed, WorkflowTask

TASK = TaskDef(name="a", retry_count=2, retry_delay_ms=1_000)
ONE = WorkflowDef(name="one", tasks=[
    WorkflowTask(name="a", task_reference_name="a", task_definition=TASK, compensate="b"),
    WorkflowTask(name="c", task_reference_name="c", input_parameters={"x": "${a.output.x}"}),
])

@pytest.fixture
def engine_store():
    return "memory"

def test_good(engine, workers):
    workers.a.fails(2).then.returns({"x": 1})
    workers.c.returns({"y": 2})
    assert engine.start(ONE).result() == {"y": 2}
    assert workers.c.inputs == [{"x": 1}]

def test_bad(engine, workers, clock):
    workers.a.fails()
    run = engine.start(ONE)
    engine.run_until_idle()
    assert len(workers.a.calls) == 3
"""


def test_survivors_are_told(pytester: pytest.Pytester) -> None:
    """What no test notices: the compensation, the delay, and that steps may fail; below the floor the run has failed."""
    pytester.makepyfile(TESTS)
    options = ("-p", "no:cacheprovider", "--workflow-mutate", "one", "--workflow-mutate-fail-under", "60")
    run = pytester.runpytest_inprocess(*options)
    run.stdout.fnmatch_lines(
        [
            "survived: test_survivors_are_told.py:6: a: $.tasks[[]0] is not compensated",
            "*let a task after a fail for good, and look at what undoes it",
            "survived: test_survivors_are_told.py:6: a: $.tasks[[]0].taskDefinition.retryDelaySeconds is three times as long",
        ]
    )
    run.stdout.fnmatch_lines(["4 of 12 mutants killed (33%)", "FAIL 33% is below 60%"])
    run.assert_outcomes(passed=2)
    assert run.ret == 1


@pytest.mark.parametrize(
    ("options", "says", "code"),
    [
        (["--workflow-mutate", "oen"], "FAIL no test starts a workflow 'oen'; did you mean 'one'?", pytest.ExitCode.TESTS_FAILED),
        (["--workflow-mutate", "one,two", "-k", "good"], "FAIL no test starts a workflow 'two'", pytest.ExitCode.TESTS_FAILED),
        (
            ["--workflow-mutate", "one", "-k", "wrong"],
            "no mistake was planted: tests fail without one",
            pytest.ExitCode.TESTS_FAILED,
        ),
        (["--workflow-mutate", "oen", "--collect-only"], "*2 tests collected*", pytest.ExitCode.OK),
    ],
)
def test_nothing_to_plant_a_mistake_in(pytester: pytest.Pytester, options: list[str], says: str, code: int) -> None:
    """A name that no test knows, and tests that fail anyway, are no proof of anything."""
    pytester.makepyfile(TESTS, test_wrong="def test_wrong(): assert False" if "wrong" in options else "")
    run = pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)
    run.stdout.fnmatch_lines([says])
    assert run.ret == code


def test_several_processes_are_refused(pytester: pytest.Pytester) -> None:
    """The process that plants mistakes runs the tests."""
    pytest.importorskip("xdist")
    run = pytester.runpytest_subprocess("--workflow-mutate", "one", "-n", "2")
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines(["*--workflow-mutate runs the tests in this process, not with -n"])


@pytest.mark.slow
def test_lines_of_flows_and_files(pytester: pytest.Pytester) -> None:
    """A survivor of a flow is shown with the line of its step, one of a JSON file with the line of its reference."""
    pytester.makepyfile(
        """
        import pytest
        from pathlib import Path
        from conductorlite import Engine, VirtualClock, WorkflowDef, flow, task

        @task
        def greet(name: str) -> None: ...

        @flow
        def hello(name: str) -> None:
            greet(name=name)

        def test_flow():
            with Engine(workers=[hello], clock=VirtualClock(0)) as engine:
                engine.start(hello, name="Ada")

        def test_file():
            with Engine(clock=VirtualClock(0)) as engine:
                engine.start(WorkflowDef.from_json(Path("two.json").read_text()))
        """
    )
    (pytester.path / "two.json").write_text('{\n "name": "two",\n "tasks": [\n  {"name": "x", "taskReferenceName": "here"}]}')
    run = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--workflow-mutate", "all")
    run.stdout.fnmatch_lines(["survived: test_lines_of_flows_and_files.py:10: greet: *", "survived: two.json:4: here: *"])


@pytest.mark.slow
def test_a_test_that_runs_away_is_ended(pytester: pytest.Pytester) -> None:
    """A loop that would never end with a mistake is a mistake that was noticed."""
    pytester.makepyfile(
        """
        from conductorlite import Engine, VirtualClock, WorkflowDef, WorkflowTask

        WAIT = WorkflowTask(name="w", task_reference_name="w", type="WAIT", input_parameters={"duration": "1 seconds"})
        LOOP = WorkflowTask(
            name="loop", task_reference_name="loop", type="DO_WHILE", loop_over=[WAIT],
            loop_condition="$.first != 1", input_parameters={"first": "${workflow.input.first}"})

        def test_it():
            with Engine(clock=VirtualClock(0)) as engine:
                engine.start(WorkflowDef(name="loop", tasks=[LOOP]), {"first": 1})
                engine.run_until_idle()
        """
    )
    run = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--workflow-mutate", "loop")
    run.stdout.fnmatch_lines(["survived: test_a_test_that_runs_away_is_ended.py:5: loop: $.tasks[[]0].loopCondition is never true"])
    assert "loop: $.tasks[0].inputParameters.first" not in str(run.stdout)


@pytest.mark.slow
def test_no_time_runs_while_a_failure_is_told(pytester: pytest.Pytester) -> None:
    """A test that has failed has noticed the mistake: pytest must not be broken off while it puts that into words."""
    pytester.makeconftest(
        """
        import signal

        def pytest_runtest_makereport(item, call):
            assert not signal.getitimer(signal.ITIMER_REAL)[0]

        def pytest_runtest_logfinish():
            assert not signal.getitimer(signal.ITIMER_REAL)[0]
        """
    )
    pytester.makepyfile(
        """
        import pytest
        from conductorlite import WorkflowDef, WorkflowTask

        STEPS = [WorkflowTask(name="x", task_reference_name="x"), WorkflowTask(name="y", task_reference_name="y")]

        @pytest.mark.parametrize("engine_store", ["memory"], indirect=True)
        def test_both(engine, workers):
            workers.x.returns({}), workers.y.returns({})
            engine.start(WorkflowDef(name="told", tasks=STEPS)).result()
            assert len(workers.calls) == 2
        """
    )
    run = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--workflow-mutate", "told")
    run.stdout.fnmatch_lines(["*of * mutants killed*"])
    assert run.ret == 0
