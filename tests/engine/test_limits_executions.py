"""Limits on executions (`rateLimitConfig`): QUEUE with a first task of every type, REJECT, the key of a parent, and every verb."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from engine_kit import Bench, flow, fork, join, noop, rounds, simple, switch, wait
from limits_kit import Broken, keyed, limited, verify

from conductorlite import (
    Engine,
    SubWorkflowParams,
    TaskStatus,
    VirtualClock,
    WorkflowDef,
    WorkflowStatus,
    WorkflowTask,
    WorkflowTimeoutPolicy,
)
from conductorlite.errors import Conflict, LimitReached
from conductorlite.testing import FaultyBackend

CHILD = flow(noop("inside"), name="child")


def sub(ref: str, child: WorkflowDef, **fields: Any) -> WorkflowTask:
    """A SUB_WORKFLOW."""
    made = SubWorkflowParams(workflow_definition=child)
    return WorkflowTask(name=ref, task_reference_name=ref, type="SUB_WORKFLOW", sub_workflow_param=made, **fields)


def of(ref: str, type: str, **fields: Any) -> WorkflowTask:
    """A task of any type."""
    return WorkflowTask(name=ref, task_reference_name=ref, type=type, **fields)


#: First tasks of every type, and what the execution does when it is let in.
FIRSTS: dict[str, tuple[WorkflowTask, ...]] = {
    "SIMPLE": (simple("one"),),
    "a limited SIMPLE": (limited("one", k=1),),
    "SIMPLE with a startDelay": (simple("one", start_delay_ms=2_000),),
    "FORK_JOIN": (fork("f", [noop("x")], [simple("one")]), join("j", "x", "one")),
    "FORK_JOIN_DYNAMIC": (
        of(
            "f",
            "FORK_JOIN_DYNAMIC",
            dynamic_fork_tasks_param="tasks",
            dynamic_fork_tasks_input_param_name="inputs",
            input_parameters={"tasks": [{"name": "one", "taskReferenceName": "one", "type": "SIMPLE"}], "inputs": {}},
        ),
        join("j"),
    ),
    "SWITCH": (switch("s", {"gold": [simple("one")]}, [noop("x")], value="gold"),),
    "DO_WHILE": (rounds("l", [simple("one")]),),
    "SUB_WORKFLOW": (sub("s", CHILD),),
    "DYNAMIC": (of("d", "DYNAMIC", dynamic_task_name_param="what", input_parameters={"what": "one"}),),
    "WAIT": (wait("w", duration="2s"),),
    "HUMAN": (of("h", "HUMAN"),),
    "NOOP": (noop("n"),),
    "SET_VARIABLE": (of("v", "SET_VARIABLE", input_parameters={"x": 1}),),
    "INLINE": (of("i", "INLINE", input_parameters={"evaluatorType": "value-param", "expression": "x", "x": 1}),),
    "TERMINATE": (of("t", "TERMINATE", input_parameters={"terminationStatus": "COMPLETED"}),),
}


@pytest.fixture
def laws(bench: Bench) -> Iterator[Bench]:
    """A bench on which the laws of limits are looked at after every commit."""
    broken: list[Broken] = []

    def look(*_: object) -> None:
        try:
            verify(bench.engine.backend, bench.clock.now())
        except Broken as found:  # what a listener raises is only logged
            broken.append(found)

    bench.engine.listen(look)
    yield bench
    verify(bench.engine.backend, bench.clock.now())
    assert not broken


def _play(bench: Bench, workflow_id: str) -> None:
    """Do whatever an execution asks for, until it has ended."""
    for _ in range(20):
        if bench.engine.status(workflow_id).terminal:
            return
        task = bench.poll("one")
        if task is not None:
            bench.report(task)
            continue
        human = [one for one in bench.engine.get(workflow_id).tasks if one.task_type == "HUMAN" and not one.status.terminal]
        if human:
            bench.report(human[0], lease=False)
        bench.at(bench.second + 1)
    raise AssertionError(f"{workflow_id} does not end: {bench.statuses()}")


def _in_use(bench: Bench, key: str) -> tuple[int, int]:
    """How many slots of a limit are in use, and how many wait for one."""
    with bench.engine.backend.reading() as view:
        line = view.limits.line(key, 100)
    return line.limit.in_use, len(line.heads)


@pytest.mark.parametrize("kind", FIRSTS)
def test_the_first_task_waits_whatever_it_is(laws: Bench, kind: str) -> None:
    """Only one PENDING row is there while the execution waits; let in, it does exactly what one does that never waited."""
    bench, definition = laws, flow(*FIRSTS[kind], name="q", rate_limit_config=keyed(1, "k"))
    holder = bench.start(flow(wait("hold", duration="5s"), name="h", rate_limit_config=keyed(1, "k")))
    bench.start(definition, workflow_id="late")
    assert [str(task.status) for task in bench.workflow.tasks] == ["PENDING"]
    assert (bench.workflow.rate_limited, _in_use(bench, "workflow:k")) == (True, (1, 1))
    bench.at(5)
    assert holder.status is WorkflowStatus.COMPLETED
    assert not bench.workflow.rate_limited
    _play(bench, "late")
    bench.start(definition, workflow_id="calm")
    _play(bench, "calm")
    late, calm = (bench.engine.get(each) for each in ("late", "calm"))
    assert [(t.ref, t.seq, t.attempt, t.status, t.output) for t in late.tasks if not t.sub_workflow_id] == [
        (t.ref, t.seq, t.attempt, t.status, t.output) for t in calm.tasks if not t.sub_workflow_id
    ]
    assert late.status is calm.status
    assert late.output_data.keys() == calm.output_data.keys()
    assert _in_use(bench, "workflow:k") == (0, 0)


def test_a_key_by_default_is_the_name_and_one_that_yields_nothing_is_no_limit(laws: Bench) -> None:
    """Without a key executions of one name share a limit, of all versions; an expression that yields nothing limits nothing."""
    named = flow(simple("one"), name="n", rate_limit_config=keyed(1))
    assert [_limited(laws, named) for _ in range(2)] == [False, True]
    empty = flow(simple("one"), name="e", rate_limit_config=keyed(1, "${workflow.input.who}"))
    assert [_limited(laws, empty, who) for who in (None, None, "", "x", "x", "y")] == [False, False, False, False, True, False]


def _limited(bench: Bench, definition: WorkflowDef, who: str | None = None) -> bool:
    return bench.start(definition, {} if who is None else {"who": who}).workflow.rate_limited


# -- REJECT ------------------------------------------------------------------------------------------------------------

PICKY = flow(simple("one"), name="picky", rate_limit_config=keyed(1, "p", "REJECT"))


def test_a_start_that_is_rejected_stores_nothing(laws: Bench) -> None:
    """LimitReached names the limit; no execution, no row, no key is left, and when a slot is free the same start succeeds."""
    laws.start(PICKY, workflow_id="first")
    for _ in range(2):
        with pytest.raises(LimitReached, match="'workflow:p' has all its 1 slots in use"):
            laws.start(PICKY, workflow_id="second", idempotency_key="once")
    assert list(laws.engine.admin.workflow_ids()) == ["first"]
    assert _in_use(laws, "workflow:p") == (1, 0)
    laws.do("one")
    laws.start(PICKY, workflow_id="second", idempotency_key="once")
    laws.do("one")
    assert laws.status_of_workflow() is WorkflowStatus.COMPLETED


def test_a_delayed_start_that_is_rejected_fails(laws: Bench) -> None:
    """Nobody is there any more to be told: the execution is FAILED with the reason, and has scheduled nothing."""
    laws.start(PICKY, workflow_id="first")
    laws.start(PICKY, workflow_id="later", delay="5s")
    laws.at(6)
    run = laws.engine.get("later")
    assert (run.status, run.tasks) == (WorkflowStatus.FAILED, ())
    assert run.reason == "'workflow:p' has all its 1 slots in use, and its policy is REJECT"
    laws.do("one")


def test_a_child_that_is_rejected_fails_its_task(laws: Bench) -> None:
    """The SUB_WORKFLOW task fails with the child's reason, and its retry may find a free slot."""
    laws.start(PICKY, workflow_id="first")
    task = sub("s", PICKY, task_definition=limited("s", retry_count=1, retry_delay_s=5).task_definition)
    laws.start(flow(task, name="parent"), workflow_id="parent")
    laws.engine.settle()
    assert "its policy is REJECT" in str(laws.task("s", 0).reason)
    laws.do("one")
    laws.at(6)
    laws.do("one")
    assert laws.status_of_workflow() is WorkflowStatus.COMPLETED


# -- keys of those above -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["QUEUE", "REJECT"])
def test_a_child_cannot_wait_for_what_its_parent_holds(laws: Bench, policy: str) -> None:
    """However many slots there are, the child fails at once, at any depth, with a reason that names the key."""
    inner = flow(noop("n"), name="inner", rate_limit_config=keyed(5, "${workflow.input.key}", policy))
    middle = flow(sub("m", inner, input_parameters={"key": "own"}), name="middle")
    run = laws.start(flow(sub("s", middle), name="outer", rate_limit_config=keyed(5, "own")))
    laws.engine.settle()
    assert run.status is WorkflowStatus.FAILED
    told = "it needs a slot of 'workflow:own', which an execution above it holds until this one has ended"
    assert told in str(run.workflow.reason)
    child = laws.engine.admin.children(laws.engine.admin.children(run.workflow_id)[0].workflow_id)[0]
    with pytest.raises(Conflict, match="it needs a slot of 'workflow:own'"):
        laws.engine.retry(child.workflow_id)
    assert _in_use(laws, "workflow:own") == (0, 0)


def test_a_parent_that_waits_to_be_reopened_hears_of_the_end_of_its_child(laws: Bench) -> None:
    """The child is retried while another execution has the parent's slot: it ends first, and the parent completes when let in."""
    child = flow(simple("one", {"retry_count": 0}), name="child")
    parent = flow(sub("s", child), noop("n"), name="parent", rate_limit_config=keyed(1, "k"))
    run = laws.start(parent, workflow_id="parent")
    laws.engine.settle()
    laws.do("one", "FAILED")
    assert run.status is WorkflowStatus.FAILED
    laws.start(flow(simple("two"), name="other", rate_limit_config=keyed(1, "k")))
    laws.engine.retry(laws.engine.admin.children("parent")[0].workflow_id)
    laws.engine.settle()
    assert (run.status, run.workflow.rate_limited) == (WorkflowStatus.FAILED, True)
    laws.do("one")
    assert run.status is WorkflowStatus.FAILED
    laws.do("two")
    assert run.status is WorkflowStatus.COMPLETED


# -- verbs while waiting -----------------------------------------------------------------------------------------------

WAITS = flow(simple("one"), simple("two"), name="w", rate_limit_config=keyed(1, "k"))


@pytest.fixture
def waiting(laws: Bench) -> Bench:
    """`first` has the slot, `late` waits for it and is the execution under test."""
    laws.start(WAITS, workflow_id="first")
    laws.start(WAITS, workflow_id="late")
    assert laws.workflow.rate_limited
    return laws


def _free(bench: Bench) -> None:
    bench.engine.terminate("first")
    bench.engine.settle()


def _goes_on(bench: Bench) -> None:
    """The slot becomes free, and the execution runs to its end."""
    _free(bench)
    for name in ("one", "two"):
        assert bench.do(name).workflow_id == "late"
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "IN_PROGRESS", "FAILED_WITH_TERMINAL_ERROR"])
def test_a_report_on_a_task_that_has_not_begun_is_refused(waiting: Bench, status: str) -> None:
    """Nothing may run without a slot, so nobody may complete, fail or put back the first task before it is let in."""
    task = waiting.task("one")
    for told in (lambda: waiting.report(task, status, lease=False), lambda: waiting.engine.signal("late", task="one")):
        with pytest.raises(Conflict, match="'one' has not begun: its execution waits for a slot"):
            told()
    assert waiting.statuses() == {"one": "PENDING"}
    _goes_on(waiting)


def test_skipping_what_comes_later_and_variables_are_taken(waiting: Bench) -> None:
    """The second task may be skipped, the first has its place already; variables are set."""
    with pytest.raises(Conflict, match="has been scheduled already"):
        waiting.engine.skip_task("late", "one")
    waiting.engine.skip_task("late", "two")
    waiting.engine.update_variables("late", {"x": 1})
    _free(waiting)
    waiting.do("one")
    assert waiting.status_of_workflow() is WorkflowStatus.COMPLETED
    assert waiting.statuses() == {"one": "COMPLETED", "two": "SKIPPED"}


def test_a_first_task_that_was_skipped_before_the_beginning_stays_skipped(laws: Bench) -> None:
    """Skipped while the start was still delayed, then made to wait: let in, it begins behind what was skipped."""
    laws.start(WAITS, workflow_id="first")
    laws.start(WAITS, workflow_id="late", delay="5s")
    laws.engine.skip_task("late", "one")
    laws.at(5)
    assert laws.workflow.rate_limited
    _free(laws)
    laws.do("two")
    assert laws.statuses() == {"one": "SKIPPED", "two": "COMPLETED"}
    assert laws.status_of_workflow() is WorkflowStatus.COMPLETED


def test_pausing_leaves_the_line_and_resuming_joins_it_again(waiting: Bench) -> None:
    """A paused execution holds up nobody: the one behind it goes first."""
    waiting.start(WAITS, workflow_id="last")
    waiting.engine.pause("late")
    _free(waiting)
    assert waiting.engine.get("last").task("one").status is TaskStatus.SCHEDULED
    waiting.engine.resume("late")
    assert waiting.engine.get("late").rate_limited
    waiting.engine.terminate("last")
    waiting.engine.settle()
    waiting.workflow_id = "late"
    waiting.do("one")
    waiting.do("two")


def test_a_worker_that_puts_its_task_back_while_paused_joins_no_line(laws: Bench) -> None:
    """Another execution gets the slot, though this one asked for its next slot first; resumed, it asks."""
    definition = flow(limited("one", k=1))
    laws.start(definition, workflow_id="first")
    held = laws.take("one")
    laws.start(definition, workflow_id="second")
    laws.engine.pause("first")
    laws.report(held, "IN_PROGRESS")
    assert laws.take("one").workflow_id == "second"
    laws.engine.terminate("second")
    laws.engine.settle()
    assert laws.poll("one") is None
    laws.engine.resume("first")
    laws.do("one")
    assert laws.engine.status("first") is WorkflowStatus.COMPLETED


@pytest.mark.parametrize("paused", [False, True])
def test_terminating_leaves_the_line(waiting: Bench, paused: bool) -> None:
    """One that waits, also one that was paused meanwhile, leaves nothing behind, and may be removed."""
    if paused:
        waiting.engine.pause("late")
    waiting.engine.terminate("late")
    assert (waiting.workflow.rate_limited, waiting.workflow.rate_limit_key) == (False, None)
    assert _in_use(waiting, "workflow:k") == (1, 0)
    waiting.engine.settle()
    waiting.engine.admin.remove("late")
    _free(waiting)
    assert _in_use(waiting, "workflow:k") == (0, 0)


@pytest.mark.parametrize("resumed", [False, True])
def test_terminating_by_a_clock_that_is_behind_leaves_nothing(waiting: Bench, resumed: bool) -> None:
    """A pause had left an event, by which it would have asked again; to the engine that ends it that one is not due yet."""
    behind = VirtualClock(waiting.clock.now())
    waiting.engine.advance("1s")
    waiting.engine.pause("late")
    other = Engine(FaultyBackend(waiting.engine.backend, keep_open=True), clock=behind)
    if resumed:
        other.resume("late")
    other.terminate("late")
    assert other.admin.check() == []


def test_the_timeout_of_an_execution_runs_while_it_waits(laws: Bench) -> None:
    """It is TIMED_OUT without having begun, and is in no line any more; a retry of it waits for a slot."""
    laws.start(WAITS, workflow_id="first")
    ends = {"timeout_ms": 5_000, "timeout_policy": WorkflowTimeoutPolicy.TIME_OUT_WF}
    timed = flow(simple("one"), name="t", rate_limit_config=keyed(1, "k"), **ends)
    laws.start(timed, workflow_id="late")
    laws.at(6)
    assert laws.status_of_workflow() is WorkflowStatus.TIMED_OUT
    assert _in_use(laws, "workflow:k") == (1, 0)
    laws.engine.retry("late")
    assert (laws.status_of_workflow(), laws.workflow.rate_limited) == (WorkflowStatus.TIMED_OUT, True)
    _free(laws)
    assert laws.status_of_workflow() is WorkflowStatus.RUNNING
    laws.do("one")
    assert laws.status_of_workflow() is WorkflowStatus.COMPLETED


def test_a_rerun_of_one_that_waits_gets_it_no_slot(waiting: Bench) -> None:
    """From its first task on there is nothing to run again; from the start it begins anew, at the end of the line."""
    with pytest.raises(Conflict, match="waits for a slot of 'workflow:k'"):
        waiting.engine.rerun("late", from_task="one")
    waiting.engine.rerun("late")
    waiting.engine.settle()
    assert (waiting.statuses(), _in_use(waiting, "workflow:k")) == ({"one": "PENDING"}, (1, 1))
    _goes_on(waiting)


def test_a_rerun_from_the_start_gives_its_slot_to_who_waits(waiting: Bench) -> None:
    """It begins anew, at the end of the line: the limit is asked again, as for any execution that begins."""
    waiting.engine.rerun("first")
    waiting.engine.settle()
    assert _in_use(waiting, "workflow:k") == (1, 1)
    assert [waiting.engine.get(one).rate_limited for one in ("first", "late")] == [True, False]
    waiting.do("one")


def test_migrated_while_it_waits_it_begins_on_the_new_definition(waiting: Bench) -> None:
    """The PENDING first task takes its new name; let in, that is what is scheduled."""
    moved = flow(simple("uno"), simple("two"), name="w", version=2, rate_limit_config=keyed(1, "k"))
    waiting.engine.definitions.migrate("late", moved, refs={"one": "uno"})
    assert waiting.statuses() == {"uno": "PENDING"}
    _free(waiting)
    waiting.do("uno")
    waiting.do("two")
    assert waiting.status_of_workflow() is WorkflowStatus.COMPLETED


def test_migrated_while_paused_to_a_definition_without_a_limit_it_begins_when_resumed(waiting: Bench) -> None:
    """It is in no line, and the new definition knows of none."""
    waiting.engine.pause("late")
    waiting.engine.definitions.migrate("late", flow(simple("one"), simple("two"), name="w", version=2))
    waiting.engine.resume("late")
    waiting.engine.settle()
    assert waiting.statuses() == {"one": "SCHEDULED"}
    _free(waiting)
    waiting.do("one")
    waiting.do("two")


def test_a_task_that_was_renamed_in_its_line_gets_its_slot(laws: Bench) -> None:
    """Whether another execution gives the slot or this one: the event, and the line, find the new name."""
    old = flow(fork("f", [limited("a", "work", k=1)], [limited("b", "work", k=1)]), join("j", "a", "b"), name="m")
    new = flow(fork("f", [limited("a", "work", k=1)], [limited("c", "work", k=1)]), join("j", "a", "c"), name="m", version=2)
    laws.start(old, workflow_id="m")
    laws.engine.definitions.migrate("m", new, refs={"b": "c"})
    assert laws.do("work").ref == "a"
    assert laws.do("work").ref == "c"
    assert laws.status_of_workflow() is WorkflowStatus.COMPLETED


def test_what_a_rerun_takes_back_gives_its_slot_to_nobody_twice(laws: Bench) -> None:
    """Taken back, `a` gives its slot to `b`, which is taken back too: the new `a` has it, and the new `b` waits."""
    both = fork("f", [limited("a", "work", k=1)], [limited("b", "work", k=1)])
    laws.start(flow(both, join("j", "a", "b")))
    laws.engine.rerun(laws.workflow_id, from_task="f")
    verify(laws.engine.backend, laws.clock.now())
    assert (laws.statuses()["a"], laws.statuses()["b"]) == ("SCHEDULED", "PENDING")
    assert [laws.do("work").ref for _ in range(2)] == ["a", "b"]


# -- verbs on what has ended -------------------------------------------------------------------------------------------

FAILS = flow(simple("one", {"retry_count": 0}), name="f", rate_limit_config=keyed(1, "k"))


@pytest.fixture
def failed(laws: Bench) -> Bench:
    """`late` has failed, `first` has the slot."""
    laws.start(FAILS, workflow_id="late")
    laws.do("one", "FAILED")
    laws.start(WAITS, workflow_id="first")
    laws.workflow_id = "late"
    return laws


@pytest.mark.parametrize("verb", ["retry", "rerun", "restart"])
def test_beyond_the_limit_a_verb_that_goes_on_waits(failed: Bench, verb: str) -> None:
    """The execution goes on in the turn its slot comes, once, and ends."""
    {
        "retry": lambda: failed.engine.retry("late"),
        "rerun": lambda: failed.engine.rerun("late", from_task="one"),
        "restart": lambda: failed.engine.restart("late"),
    }[verb]()
    failed.engine.settle()
    assert failed.workflow.rate_limited
    assert _in_use(failed, "workflow:k") == (1, 1)
    _free(failed)
    assert failed.status_of_workflow() is WorkflowStatus.RUNNING
    failed.do("one")
    assert failed.status_of_workflow() is WorkflowStatus.COMPLETED
    assert _in_use(failed, "workflow:k") == (0, 0)


def test_one_that_waits_to_go_on_is_not_removed_and_may_be_terminated(failed: Bench) -> None:
    """Removed, it would take a slot with it; terminated, it stays FAILED, waits no more, and can be removed."""
    failed.engine.retry("late")
    with pytest.raises(Conflict, match="it waits for a slot to go on and cannot be removed; terminate it first"):
        failed.engine.admin.remove("late")
    with pytest.raises(Conflict, match="it waits for a slot to go on and cannot be archived; terminate it first"):
        failed.engine.admin.archive("late")
    failed.engine.terminate("late")
    assert (failed.status_of_workflow(), failed.workflow.rate_limited) == (WorkflowStatus.FAILED, False)
    with pytest.raises(Conflict, match="cannot be terminated"):
        failed.engine.terminate("late")
    _free(failed)
    assert failed.status_of_workflow() is WorkflowStatus.FAILED
    assert _in_use(failed, "workflow:k") == (0, 0)
    failed.engine.admin.remove("late")


def test_two_verbs_wait_together_and_one_of_them_goes_on(failed: Bench) -> None:
    """A retry and another retry: the second finds the execution running, and changes nothing."""
    failed.engine.retry("late")
    failed.clock.move_to(failed.clock.now() + 1)
    failed.engine.retry("late")
    _free(failed)
    failed.do("one")
    assert failed.status_of_workflow() is WorkflowStatus.COMPLETED
    assert [task.attempt for task in failed.workflow.tasks] == [0, 1]


def test_a_compensation_keeps_the_slot_until_it_is_done(laws: Bench) -> None:
    """An execution that is undone still runs: who waits is let in when its last compensation has ended."""
    done = WorkflowTask(name="book", task_reference_name="book", compensate=simple("unbook"))
    definition = flow(done, simple("one", {"retry_count": 0}), name="c", rate_limit_config=keyed(1, "k"))
    laws.start(definition, workflow_id="first")
    laws.start(WAITS, workflow_id="late")
    laws.do("book")
    laws.do("one", "FAILED")
    assert laws.engine.status("first") is WorkflowStatus.RUNNING
    assert laws.engine.get("late").rate_limited
    laws.do("unbook")
    assert laws.engine.status("first") is WorkflowStatus.FAILED
    assert not laws.engine.get("late").rate_limited
    laws.do("one")
    laws.do("two")
