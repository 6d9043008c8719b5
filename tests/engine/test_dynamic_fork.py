"""FORK_JOIN_DYNAMIC: the shapes of its input, what may stand in its branches, and how its JOIN ends.

Source of the rules: Conductor's `ForkJoinDynamicTaskMapper`; what is otherwise here is on the compatibility page.
"""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import Bench, NewBench
from run_time_kit import Json, dynamic, forked, loop, node, same, static, switched, tried, workflow

from conductorlite import Bounds, TaskDef, TaskStatus, WorkflowDef, WorkflowStatus

ONE = WorkflowDef.from_json({"name": "one", "tasks": [node("work")], "outputParameters": {"x": "${work.output.x}"}})


def finish(bench: Bench, *names: str) -> None:
    """Complete whatever is offered under these names until the execution has ended; the laws hold after every report."""
    for _ in range(200):
        bench.engine.settle()
        if bench.status_of_workflow().terminal:
            return
        done = [name for name in names if bench.engine.poll(name) and _report_last(bench, name)]
        assert done, bench.statuses()


def _report_last(bench: Bench, name: str) -> bool:
    task = next(t for t in bench.workflow.tasks if t.task_type == name and t.status is TaskStatus.IN_PROGRESS)
    bench.report(task, output={"x": task.ref})
    assert bench.engine.admin.check() == []
    return True


# -- the shapes of the input -------------------------------------------------------------------------------------------


def test_one_task_for_each_input(bench: Bench) -> None:
    """The FORK tells the branches, each gets its input and its place, a scalar as `input`; the JOIN collects them."""
    bench.start(workflow(*same([{"w": 1}, 2, None, [3], "x"], forkTaskName="resize"), node("z")))
    assert bench.order() == ["f", *(f"_resize_{n}" for n in range(5)), "j"]
    fork = bench.task("f")
    assert (fork.task_type, fork.status, fork.name) == ("FORK", "COMPLETED", "f")
    assert fork.input_data["forkedTasks"] == [f"_resize_{n}" for n in range(5)]
    given = [bench.task(f"_resize_{n}").input_data for n in range(5)]
    assert given == [
        {"w": 1, "__index": 0},
        {"input": 2, "__index": 1},
        {"input": None, "__index": 2},
        {"input": [3], "__index": 3},
        {"input": "x", "__index": 4},
    ]
    assert bench.task("j").input_data == {"joinOn": [f"_resize_{n}" for n in range(5)]}
    finish(bench, "resize", "z")
    assert bench.task("j").output_data == {f"_resize_{n}": {"x": f"_resize_{n}"} for n in range(5)}


@pytest.mark.parametrize(
    ("given", "ref", "task_type", "name"),
    [
        ({"forkTaskName": "a"}, "_a_0", "a", "a"),
        ({}, "_f_0", "f", "f"),
        ({"forkTaskType": "SIMPLE", "forkTaskName": "a"}, "_a_0", "a", "a"),
        ({"forkTaskType": "WAIT"}, "_WAIT_0", "WAIT", "WAIT"),
        ({"forkTaskType": "WAIT", "forkTaskName": "rest"}, "_rest_0", "WAIT", "rest"),
        ({"forkTaskType": "MINE"}, "_f_0", "MINE", "f"),
    ],
)
def test_names_and_types_of_branches(bench: Bench, given: Json, ref: str, task_type: str, name: str) -> None:
    """The name is the one given, else a built-in type's, else the fork's reference."""
    bench.start(workflow(*same([{}], **given)))
    task = bench.task(ref)
    assert (task.task_type, task.name) == (task_type, name)


@pytest.mark.trap("tasks-20")
@pytest.mark.parametrize("version", [1, "1", None, ""])
def test_one_workflow_for_each_input(bench: Bench, version: Any) -> None:
    """With forkTaskWorkflow each branch is a sub-workflow; the version may be a number, a text, or left out."""
    bench.engine.register(ONE)
    given = {"forkTaskWorkflow": "one", "forkTaskWorkflowVersion": version}
    bench.start(workflow(*same([{"n": 1, "taskToDomain": {"work": "eu"}}, 2], **given)))
    bench.engine.settle()
    assert bench.order() == ["f", "_f_0", "_f_1", "j"]
    tasks = [bench.task(ref) for ref in ("_f_0", "_f_1")]
    assert [task.task_type for task in tasks] == ["SUB_WORKFLOW"] * 2
    first, second = (bench.engine.get(str(task.sub_workflow_id)) for task in tasks)
    assert (first.name, first.version, first.input_data["n"]) == ("one", 1, 1)
    assert first.task_to_domain.value == {"work": "eu"}
    assert second.input_data == {"input": 2, "__index": 1}


def test_the_name_of_a_fork_of_workflows(bench: Bench) -> None:
    """forkTaskName names the branches' references also when they are sub-workflows."""
    bench.engine.register(ONE)
    bench.start(workflow(*same([1], forkTaskWorkflow="one", forkTaskName="part")))
    assert bench.task("_part_0").task_type == "SUB_WORKFLOW"
    assert bench.task("_part_0").input_data["subWorkflowName"] == "one"


def test_tasks_and_their_inputs(bench: Bench) -> None:
    """In the two-parameter shape each task's own inputParameters are resolved, and the given ones laid over them."""
    tasks = [node("a", inputParameters={"n": "$${workflow.input.n}", "k": 1}), node("w", "WAIT"), node("b")]
    inputs = {"a": {"k": 2}, "w": {"duration": "5s"}, "b": None, "nobody": {"x": 1}}
    bench.start(workflow(*forked(tasks=tasks, inputs=inputs), node("z")), {"n": 7})
    assert bench.order() == ["f", "a", "w", "b", "j"]
    assert bench.task("a").input_data == {"n": 7, "k": 2}
    assert bench.task("b").input_data == {}
    bench.do("a")
    bench.do("b")
    assert bench.statuses()["j"] == "IN_PROGRESS"
    bench.at(5)
    assert bench.statuses()["j"] == "COMPLETED"
    assert bench.statuses()["z"] == "SCHEDULED"


def test_the_legacy_shape(bench: Bench) -> None:
    """`dynamicTasks` tell name, reference, type and input of each branch."""
    said = [
        {"taskName": "a", "referenceName": "a1", "input": {"k": "${x}"}},
        {"taskName": "w", "referenceName": "w1", "type": "WAIT"},
    ]
    fork = node("f", "FORK_JOIN_DYNAMIC", dynamicForkJoinTasksParam="all", inputParameters={"all": "${workflow.input.all}"})
    bench.start(workflow(fork, node("j", "JOIN")), {"all": {"dynamicTasks": said}})
    assert bench.order() == ["f", "a1", "w1", "j"]
    assert (bench.task("a1").task_type, bench.task("a1").input_data) == ("a", {"k": "${x}"})
    assert bench.task("w1").status is TaskStatus.IN_PROGRESS


@pytest.mark.parametrize("tasks", [same([]), forked(tasks=[])])
def test_no_branches(bench: Bench, tasks: list[Json]) -> None:
    """An empty list forks nothing, and its JOIN ends at once."""
    bench.start(workflow(*tasks, node("z")))
    assert bench.statuses() == {"f": "COMPLETED", "j": "COMPLETED", "z": "SCHEDULED"}
    assert bench.task("j").input_data == {"joinOn": []}


def test_the_list_wins_over_the_other_shapes(bench: Bench) -> None:
    """A `forkTaskInputs` that is a list is used, one that is none gives way to dynamicForkTasksParam."""
    fork, join = forked(tasks=[node("a")])
    fork["inputParameters"]["forkTaskInputs"] = "${workflow.input.all}"
    bench.start(workflow(fork, join), {"all": [1]})
    assert bench.order() == ["f", "_f_0", "j"]
    bench.start(workflow(fork, join), {"all": "no list"})
    assert bench.order() == ["f", "a", "j"]


@pytest.mark.trap("tasks-19")
def test_data_is_not_evaluated(bench: Bench) -> None:
    """An expression in the data is text; a key that configures tasks is just a key."""
    data = {"x": "${workflow.input.secret}", "deep": ["${a}", {"b": "$${c}"}], "optional": True, "startDelay": 9}
    bench.start(workflow(*same("${workflow.input.all}", forkTaskName="a")), {"all": [data], "secret": 1})
    task = bench.take("a")
    assert task.input_data == {**data, "__index": 0}
    bench.start(workflow(*forked(tasks=[node("b")], inputs="${workflow.input.all}")), {"all": {"b": data}})
    assert bench.take("b").input_data == data


@pytest.mark.trap("tasks-5")
def test_registered_definitions_are_taken(bench: Bench) -> None:
    """A branch's task has the definition registered under its name, at the instant of the fork; else the defaults of any."""
    bench.start(workflow(node("first"), *same([1, 2], forkTaskName="a")))
    bench.engine.register(TaskDef(name="a", retry_count=2, retry_delay_ms=0, input_template={"extra": 1}))
    bench.do("first")
    assert bench.do("a", "FAILED").input_data == {"input": 1, "__index": 0, "extra": 1}
    assert bench.task("_a_0").attempt == 1
    bench.start(workflow(*same([1], forkTaskName="unknown")))
    bench.do("unknown", "FAILED")
    assert bench.task("_unknown_0").attempt == 1


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.trap("tasks-18")
def test_a_second_fork_of_the_same_task(bench: Bench) -> None:
    """The branches of a second fork of the same task bear the fork's reference; those of a fork of another task do not."""
    again, other = same([3], "g", "k", forkTaskName="a"), same([4], "h", "l", forkTaskName="b")
    bench.start(workflow(*same([1, 2], forkTaskName="a"), *again, *other))
    finish(bench, "a", "b")
    assert bench.order() == ["f", "_a_0", "_a_1", "j", "g", "_g_a_0", "k", "h", "_b_0", "l"]


@pytest.mark.trap("tasks-18")
def test_each_round_forks_for_itself(bench: Bench) -> None:
    """In a loop every round has its own branches under the same names, and may have more or fewer."""
    body = same("${l.output.loopItem}", forkTaskName="a")
    items = node("l", "DO_WHILE", items="${workflow.input.all}", loopOver=[*body, node("y")])
    bench.start(workflow(items), {"all": [[1, 2], [], [3]]})
    finish(bench, "a", "y")
    refs = ["l", "f__1", "_a_0__1", "_a_1__1", "j__1", "y__1", "f__2", "j__2", "y__2", "f__3", "_a_0__3", "j__3", "y__3"]
    assert bench.order() == refs
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.parametrize("second", [[node("q")], [loop("m2", node("x"))], [[node("p2"), node("q")]]])
def test_names_taken_by_another_fork(bench: Bench, second: list[Any]) -> None:
    """What bears the name of a task made meanwhile fails, with its name, and never touches that one."""
    first = [[node("p"), node("q")], loop("m", node("x"), times=1)]
    bench.start(workflow(*static("F", "J", forked(tasks=first), [node("w"), *forked("g", "k", second)])))
    bench.do("p")
    bench.do("w")
    if bench.status_of_workflow() is WorkflowStatus.RUNNING:
        bench.do("p2")
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    assert "execution has another" in (bench.workflow.reason or "")


# -- what stands behind a branch ---------------------------------------------------------------------------------------

SCRIPT = {"expression": "1 + 1", "evaluatorType": "javascript"}

BRANCHES: dict[str, tuple[Any, list[str], list[str]]] = {
    "a sequence": ([node("a"), node("b"), node("c")], ["a"], ["b", "c"]),
    "a SWITCH": (switched("s", "one", one=[node("a"), node("b")], two=[node("c")]), ["s", "a"], ["b"]),
    "a SWITCH and more": ([switched("s", "none", one=[node("a")]), node("b")], ["s", "b"], []),
    "a loop": (loop("l", node("a"), node("b")), ["l", "a__1"], ["b__1", "a__2", "b__2"]),
    "a static fork": ([*static("F", "J", [node("a")], [node("b")]), node("c")], ["F", "a", "b", "J"], ["c"]),
    "a dynamic fork": ([*forked("g", "k", [[node("a"), node("b")], node("c")]), node("e")], ["g", "a", "c", "k"], ["b", "e"]),
    "a dynamic fork of one task": (same([1, 2], "g", "k", forkTaskName="a"), ["g", "_a_0", "_a_1", "k"], []),
    "INLINE": ([node("i", "INLINE", inputParameters=SCRIPT), node("a")], ["i", "a"], []),
    "DYNAMIC": ([dynamic("d", "a"), node("b")], ["d"], ["b"]),
    "a fork in a loop": (loop("l", *same([1], "g", "k", forkTaskName="a")), ["l", "g__1", "_a_0__1", "k__1"],
                         ["g__2", "_a_0__2", "k__2"]),
}  # fmt: skip


@pytest.mark.trap("tasks-21")
@pytest.mark.parametrize("around", ["nothing", "a loop", "a SWITCH", "a fork", "a dynamic fork"])
@pytest.mark.parametrize("name", BRANCHES)
def test_what_a_branch_may_be(bench: Bench, name: str, around: str) -> None:
    """Whatever a definition may hold stands behind a branch, wherever the fork is; the JOIN waits for the end of it."""
    branch, at_once, later = BRANCHES[name]
    # Written in the definition, and so rendered once before the fork sees it.
    tasks = [*forked(tasks=[branch, node("other")]), node("z")]
    tree = {
        "nothing": tasks,
        "a loop": [loop("outer", *tasks, times=1)],
        "a SWITCH": [switched("choice", "yes", yes=tasks)],
        "a fork": static("first", "last", tasks),
        "a dynamic fork": forked("first", "last", [tasks]),
    }[around]
    suffix = "__1" if around == "a loop" else ""
    bench.start(workflow(*tree))
    expected = [_inside(ref, suffix) for ref in ["f", *at_once, "other", "j"]]
    begun = [ref for ref in bench.order() if ref not in ("outer", "choice", "first", "last")]
    # What follows from an operator that ends at once comes behind the JOIN, as in a static fork.
    assert (begun[0], sorted(begun)) == (f"f{suffix}", sorted(expected))
    finish(bench, "other", "a", "b", "c", "e", "z")
    refs = [ref for ref in bench.order() if ref not in ("outer", "choice", "first", "last")]
    assert sorted(refs) == sorted([*expected, *(_inside(ref, suffix) for ref in [*later, "z"])])
    assert refs[-1] == f"z{suffix}"
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def _inside(ref: str, suffix: str) -> str:
    """The printed reference with the outer loop's round first."""
    base, mark, number = ref.partition("__")
    return base + suffix + mark + number


def test_outputs_of_branches_are_read(bench: Bench) -> None:
    """Tasks after the fork, and later ones of a branch, read a branch by its reference; the JOIN has each branch's last task."""
    branch = [node("a"), node("b", inputParameters={"before": "$${a.output.x}"})]
    reads = {"a": "${a.output.x}", "b": "${j.output.b.x}", "last": "${f.input.forkedTasks}"}
    bench.start(workflow(*forked(tasks=[branch, node("c")]), node("z", inputParameters=reads)))
    bench.do("a", output={"x": 1})
    assert bench.task("b").input_data == {"before": 1}
    bench.do("b", output={"x": 2})
    bench.do("c")
    assert bench.task("j").output_data == {"b": {"x": 2}}
    assert bench.task("z").input_data == {"a": 1, "b": 2, "last": ["b", "c"]}
    bench.do("z")


# -- failure -----------------------------------------------------------------------------------------------------------


def test_a_branch_is_tried_again(bench: Bench) -> None:
    """Retries inside a branch are the branch's own; the JOIN waits for the last of them."""
    bench.start(workflow(*forked(tasks=[[tried("a", 1), node("b")], tried("c", 2)]), node("z")))
    bench.do("a", "FAILED")
    bench.do("c", "FAILED")
    bench.do("c", "FAILED")
    bench.do("a")
    bench.do("b")
    assert bench.statuses()["j"] == "IN_PROGRESS"
    bench.do("c")
    assert bench.statuses()["z"] == "SCHEDULED"


def test_a_branch_that_fails_for_good(bench: Bench) -> None:
    """A branch without retries left ends the workflow; what else runs, and the JOIN, is canceled; retry goes on from there."""
    bench.start(workflow(*forked(tasks=[[tried("a"), node("b")], node("c")]), node("z")))
    bench.do("a", "FAILED")
    assert bench.statuses() == {"f": "COMPLETED", "a": "FAILED", "c": "CANCELED", "j": "CANCELED"}
    bench.engine.retry(bench.workflow_id)
    assert bench.engine.admin.check() == []
    finish(bench, "a", "b", "c", "z")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    assert set(bench.task("j").output_data) == {"b", "c"}


@pytest.mark.parametrize("how", ["optional", "permissive"])
def test_branches_that_may_fail(bench: Bench, how: str) -> None:
    """An optional branch makes the JOIN COMPLETED_WITH_ERRORS, a permissive one fails it when all have ended."""
    bench.start(workflow(*forked(tasks=[tried("a", **{how: True}), node("b")]), node("z")))
    bench.do("a", "FAILED", reason="no")
    assert bench.statuses()["j"] == "IN_PROGRESS"
    bench.do("b")
    assert bench.statuses()["j"] == ("COMPLETED_WITH_ERRORS" if how == "optional" else "FAILED")
    assert bench.statuses().get("z") == ("SCHEDULED" if how == "optional" else None)


def test_an_optional_fork(bench: Bench) -> None:
    """A fork that is optional makes every task of its branches so."""
    fork, join = forked(tasks=[[tried("a"), tried("b")], node("c")])
    bench.start(workflow({**fork, "optional": True}, join, node("z")))
    bench.do("a", "FAILED")
    bench.do("b", "FAILED")
    bench.do("c")
    assert bench.statuses() == {
        **dict.fromkeys(("a", "b"), "COMPLETED_WITH_ERRORS"),
        "f": "COMPLETED",
        "c": "COMPLETED",
        "j": "COMPLETED_WITH_ERRORS",
        "z": "SCHEDULED",
    }


def test_pause_and_resume_in_the_middle(bench: Bench) -> None:
    """What follows in the branches of a paused workflow waits for its resumption."""
    bench.start(workflow(*forked(tasks=[[node("a"), node("b")], node("c")]), node("z")))
    bench.engine.pause(bench.workflow_id)
    bench.do("a")
    bench.do("c")
    assert "b" not in bench.statuses()
    assert bench.engine.admin.check() == []
    bench.engine.resume(bench.workflow_id)
    bench.do("b")
    assert bench.statuses()["z"] == "SCHEDULED"


def test_terminate_and_retry_in_the_middle(bench: Bench) -> None:
    """Terminating cancels the open tasks of all branches; retry opens just these again."""
    bench.start(workflow(*forked(tasks=[[node("a"), node("b")], loop("l", node("c"))]), node("z")))
    bench.do("a")
    bench.do("c")
    bench.engine.terminate(bench.workflow_id, "enough")
    assert [ref for ref, status in bench.statuses().items() if status == "CANCELED"] == ["l", "j", "b", "c__2"]
    bench.engine.retry(bench.workflow_id)
    finish(bench, "b", "c", "z")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED"])
def test_a_join_that_is_ended_by_a_report(bench: Bench, status: str) -> None:
    """Whoever ends the JOIN ends what still runs in the branches."""
    bench.start(workflow(*forked(tasks=[[node("a"), node("b")], loop("l", node("c"))]), node("z")))
    bench.report(bench.task("j"), status, lease=False)
    ended = bench.statuses()
    assert (ended["a"], ended["l"], ended["c__1"]) == ("CANCELED", "CANCELED", "CANCELED")
    assert ended["j"] == status
    assert ended.get("z") == ("SCHEDULED" if status == "COMPLETED" else None)
    assert bench.engine.poll("a") == []


def test_a_fork_that_failed_and_is_borne(bench: Bench) -> None:
    """Its JOIN is passed over; a retry that finds branches after all forks them, and nothing behind runs twice."""
    fork, join = forked(tasks="${z.output.t}")
    bench.start(workflow({**fork, "permissive": True}, join, node("z")))
    assert bench.statuses() == {"f": "FAILED_WITH_TERMINAL_ERROR", "j": "SKIPPED", "z": "SCHEDULED"}
    bench.do("z", output={"t": [node("x")]})
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    bench.engine.retry(bench.workflow_id)
    finish(bench, "x")
    assert (bench.task("j").output_data, bench.task("j").attempt) == ({"x": {"x": "x"}}, 0)
    assert bench.journal_of("z") == ["0 z SCHEDULED", "0 z IN_PROGRESS", "0 z COMPLETED"]


# -- wide --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [Bounds(rows=3), Bounds(steps=5), Bounds()])
def test_turns_that_are_cut(new_bench: NewBench, bounds: Bounds) -> None:
    """However a turn is cut, the branches come out in order and the JOIN waits for all of them."""
    bench = new_bench(bounds=bounds)
    branches = [[node(f"a{n}", "NOOP"), node(f"b{n}", "NOOP")] for n in range(20)]
    bench.start(workflow(*forked(tasks=[*branches, node("last")]), node("z")))
    bench.engine.settle()
    assert bench.statuses()["j"] == "IN_PROGRESS"
    assert len(bench.statuses()) == 43
    bench.do("last")
    assert bench.statuses()["z"] == "SCHEDULED"


@pytest.mark.parametrize("wide", [600, pytest.param(5_100, marks=pytest.mark.slow)])
def test_thousands_of_branches(new_bench: NewBench, wide: int) -> None:
    """A fork wider than one turn's rows ends like a small one."""
    bench = new_bench(bounds=Bounds(rows=wide - 100))
    bench.start(workflow(*same(list(range(wide)), forkTaskType="NOOP"), node("z")))
    bench.engine.settle()
    assert bench.statuses()["z"] == "SCHEDULED"
    assert len(bench.task("j").input_data["joinOn"]) == wide


@pytest.mark.parametrize("bounds", [Bounds(rows=3), Bounds()])
def test_every_store_writes_the_same(new_bench: NewBench, bounds: Bounds) -> None:
    """The journal is that of the memory store, byte for byte, whatever the store and wherever turns are cut."""
    tasks = [*forked(tasks=[branch for branch, _, _ in list(BRANCHES.values())[:4:3]]), node("z")]
    journals = []
    for each in (bounds, Bounds()):
        bench = new_bench(bounds=each)
        bench.start(workflow(*tasks), workflow_id="w")
        finish(bench, "a", "b", "c", "z")
        journals.append(sorted(bench.journal()))
    assert journals[0] == journals[1]


@pytest.mark.parametrize("around", ["nothing", "a loop", "a dynamic fork"])
@pytest.mark.parametrize("ended", [False, True])
def test_rerun_in_a_branch_of_which_all_have_ended(bench: Bench, ended: bool, around: str) -> None:
    """The JOIN waits again for the branch that is run again, also where nothing else is live in any branch."""
    branches: Any = [[node("a"), node("b")], node("c")]
    if around == "a dynamic fork":
        branches = [[*forked("g", "k", branches)]]
    tasks = forked() if around != "a loop" else [loop("l", *forked(), times=1)]
    bench.start(workflow(*tasks, node("z")), {"t": branches})
    for name in ("a", "b", "c", *(["z"] if ended else [])):
        bench.do(name)
    bench.engine.rerun(bench.workflow_id, from_task="a")
    bench.healthy()
    ref = "a__1" if around == "a loop" else "a"
    assert (bench.task(ref).status, bench.statuses().get("z")) == (TaskStatus.SCHEDULED, None)
    finish(bench, "a", "b", "z")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
