"""Engine.definitions.migrate: running executions go on with another definition, on every kind of store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest
from engine_kit import Bench, flow, fork, join, noop, rounds, simple, switch, task_def, wait

from conductorlite import (
    Bounds,
    InvalidDefinition,
    SubWorkflowParams,
    TaskResult,
    TaskStatus,
    WorkflowDef,
    WorkflowStatus,
    WorkflowTask,
)
from conductorlite.engine.turn_types import new_event
from conductorlite.errors import Conflict, DefinitionNotFound, ExecutionNotFound
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.executions import HistoryKind
from conductorlite.plan.migration import MigrationPlan, Verdict


def version_2(*tasks: WorkflowTask, **fields: Any) -> WorkflowDef:
    """The next version of `flow`."""
    return flow(*tasks, version=2, **fields)


def child(ref: str, *tasks: WorkflowTask) -> WorkflowTask:
    """A SUB_WORKFLOW with an inline definition."""
    params = SubWorkflowParams(workflow_definition=flow(*tasks, name="child"))
    return WorkflowTask(name=ref, task_reference_name=ref, type="SUB_WORKFLOW", sub_workflow_param=params)


def test_what_follows_is_the_new_definitions(bench: Bench) -> None:
    """New tasks behind what is live run, one that stands before never does, and a removed one that had not begun is gone."""
    bench.start(flow(simple("a"), simple("b"), simple("c")))
    bench.do("a")
    plan = bench.engine.definitions.migrate(
        bench.workflow_id, version_2(simple("early"), simple("a"), simple("b"), simple("late"), output_parameters={"v": 2})
    )
    assert (plan.verdict, plan.lost) == (Verdict.LOSES_STEPS, ("early",))
    assert plan.live == {"b": "SCHEDULED, goes on"}
    assert plan.notes == (
        "early: is new and never runs: it stands before what is live",
        "late: is new and will run",
        "c: is gone; it had not begun",
    )
    assert (bench.workflow.version, bench.workflow.definition and bench.workflow.definition.version) == (2, 2)
    assert str(bench.engine.explain(bench.workflow_id, "early")) == (
        "early has not run yet: the execution began with another definition, behind it."
    )
    bench.do("b")
    bench.do("late")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    assert bench.order() == ["a", "b", "late"]
    assert bench.workflow.output_data == {"v": 2}


def test_the_journal_tells_of_it(bench: Bench) -> None:
    """One line MIGRATED with both versions and hashes and what was renamed."""
    bench.start(flow(simple("a")))
    before = bench.workflow.definition_hash
    bench.engine.definitions.migrate(bench.workflow_id, version_2(simple("b")), refs={"a": "b"})
    lines = [line for line in bench.engine.history(bench.workflow_id) if line.kind is HistoryKind.MIGRATED]
    assert [line.payload and line.payload.value for line in lines] == [
        {
            "from": {"version": 1, "definitionHash": before},
            "to": {"version": 2, "definitionHash": bench.workflow.definition_hash},
            "renamed": {"a": "b"},
            "refs": {"a": "b"},
        }
    ]


def test_a_dry_run_changes_nothing(bench: Bench) -> None:
    """The plan is returned, also a blocked one, and neither row nor journal moves."""
    bench.start(flow(simple("a")))
    before = (bench.workflow, bench.journal())
    assert (
        bench.engine.definitions.migrate(bench.workflow_id, version_2(simple("a"), simple("b")), dry_run=True).verdict
        is Verdict.SAFE
    )
    blocked = bench.engine.definitions.migrate(bench.workflow_id, version_2(simple("b")), dry_run=True)
    assert str(blocked) == (
        "w1: BLOCKED\n  blocked: a: is SCHEDULED, and the new definition has no 'a'; `refs` says if it was renamed"
    )
    assert (bench.workflow, bench.journal()) == before


def test_blocked_is_a_conflict_with_the_reasons(bench: Bench) -> None:
    """Without dry_run a blocked plan raises, and nothing changes."""
    bench.start(flow(simple("a")))
    before = bench.workflow
    with pytest.raises(Conflict, match="w1: a: is SCHEDULED, and the new definition has no 'a'"):
        bench.engine.definitions.migrate(bench.workflow_id, version_2(simple("b")))
    assert bench.workflow == before


def test_a_definition_that_reads_what_it_does_not_have_is_refused(bench: Bench) -> None:
    """It could not be registered either; nothing changes."""
    bench.start(flow(simple("a"), simple("c", input_parameters={"x": "${a.output.x}"})))
    before = bench.workflow
    with pytest.raises(InvalidDefinition, match="names neither the workflow nor a task"):
        bench.engine.definitions.migrate(bench.workflow_id, version_2(simple("c", input_parameters={"x": "${a.output.x}"})))
    assert bench.workflow == before


def test_an_ended_execution_does_not_move(bench: Bench) -> None:
    """A COMPLETED execution is to be started anew."""
    bench.start(flow(simple("a")))
    bench.do("a")
    with pytest.raises(Conflict, match=r"has ended \(COMPLETED\); restart it"):
        bench.engine.definitions.migrate(bench.workflow_id, version_2(simple("a"), simple("b")))


def test_of_another_workflow(bench: Bench) -> None:
    """A definition of another name is refused."""
    bench.start(flow(simple("a")))
    with pytest.raises(Conflict, match="an execution of 'flow', not of 'other'"):
        bench.engine.definitions.migrate(bench.workflow_id, flow(simple("a"), name="other"))


def test_registered_versions(bench: Bench) -> None:
    """A number is a registered version, None the highest; what is not there raises."""
    bench.engine.register(flow(simple("a")), version_2(simple("a"), simple("b")), flow(simple("a"), simple("c"), version=3))
    bench.start("flow", version=1)
    bench.engine.definitions.migrate(bench.workflow_id, 2)
    assert bench.workflow.version == 2
    bench.engine.definitions.migrate(bench.workflow_id)
    assert bench.workflow.version == 3
    with pytest.raises(DefinitionNotFound, match="version 9"):
        bench.engine.definitions.migrate(bench.workflow_id, 9)
    with pytest.raises(ExecutionNotFound):
        bench.engine.definitions.migrate("nobody")


def test_the_same_definition_changes_nothing(bench: Bench) -> None:
    """Moving to the definition it is on writes nothing."""
    bench.start(flow(simple("a")))
    before = (bench.workflow, bench.journal())
    assert not bench.engine.definitions.migrate(bench.workflow_id, flow(simple("a"))).blocked
    assert (bench.workflow, bench.journal()) == before


# ---------------------------------------------------------------------- renaming


def test_a_renamed_task_keeps_its_lease(bench: Bench) -> None:
    """A worker that polled under the old name reports under it, with its lease, after the task was renamed."""
    bench.start(flow(simple("a"), simple("c", input_parameters={"x": "${a.output.x}"})))
    held = bench.take("a")
    after = simple("c", input_parameters={"x": "${b.output.x}"})
    plan = bench.engine.definitions.migrate(bench.workflow_id, version_2(simple("b"), after), refs={"a": "b"})
    assert plan.verdict is Verdict.SAFE_WITH_MAP
    assert plan.live == {"a": "IN_PROGRESS, becomes b, what changed holds from the next attempt on"}
    assert bench.task("b").task_id == held.task_id
    assert bench.engine.tasks.extend_lease(held)
    result = TaskResult(
        workflow_id=held.workflow_id, task_id=held.task_id, status=TaskStatus.COMPLETED, output_data={"x": 7}, lease=held.lease
    )
    bench.engine.core.reports.report(held, result)
    assert bench.task("b").status is TaskStatus.COMPLETED
    assert bench.task("c").input_data == {"x": 7}


def test_a_renamed_task_is_offered_and_times_out(bench: Bench) -> None:
    """A queued task is polled, and a polled one times out and is retried, under its new name and at its old instant."""
    policy = {"retry_count": 1, "retry_delay_s": 0, "timeout_s": 10, "response_timeout_s": 4, "poll_timeout_s": 100}
    bench.start(flow(simple("a", policy)))
    bench.engine.definitions.migrate(bench.workflow_id, version_2(simple("b", policy)), refs={"a": "b"})
    held = bench.take("a")
    assert held.ref == "b"
    bench.at(1)
    bench.engine.definitions.migrate(bench.workflow_id, flow(simple("c", policy), version=3), refs={"b": "c"})
    bench.at(4)
    assert [task.attempt for task in bench.workflow.tasks] == [0, 1]
    assert bench.task("c", 0).status is TaskStatus.TIMED_OUT
    bench.do("c")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_a_name_may_come_back(bench: Bench) -> None:
    """A later version gives the old name to another task: its attempts have ids of their own."""
    bench.start(flow(simple("a")))
    bench.engine.definitions.migrate(bench.workflow_id, version_2(simple("b")), refs={"a": "b"})
    bench.engine.definitions.migrate(bench.workflow_id, flow(simple("b"), simple("a"), version=3))
    bench.report(bench.take("a"))
    bench.do("a")
    assert len({task.task_id for task in bench.workflow.tasks}) == 2
    assert bench.order() == ["b", "a"]


def test_a_renamed_wait_and_loop(bench: Bench) -> None:
    """A WAIT inside a loop, both renamed: every round is renamed, the WAIT ends at its instant, the next round is new."""
    bench.start(flow(rounds("l", [wait("w", duration="5 seconds")], 2)))
    bench.at(7)
    assert [task.ref for task in bench.workflow.tasks] == ["l", "w__1", "w__2"]
    new = rounds("m", [wait("v", duration="5 seconds"), noop("n")], 3, loop_condition="$.m['iteration'] < 3")
    bench.engine.definitions.migrate(bench.workflow_id, version_2(new), refs={"l": "m", "w": "v"})
    bench.at(30)
    assert bench.order() == ["m", "v__1", "v__2", "n__2", "v__3", "n__3"]
    assert bench.task("v__2").ended_at == bench.task("v__3").scheduled_at
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_a_renamed_sub_workflow_hears_of_its_child(bench: Bench) -> None:
    """The child's event is addressed to the old name, and ends the task under the new one."""
    bench.start(flow(child("s", simple("inner"))))
    bench.engine.settle()
    bench.engine.definitions.migrate(bench.workflow_id, version_2(child("t", simple("inner")), simple("after")), refs={"s": "t"})
    bench.do("inner", output={"x": 1})
    assert bench.task("t").status is TaskStatus.COMPLETED
    bench.do("after")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_what_is_held_moves_too(bench: Bench) -> None:
    """A paused execution is migrated; what was held for its resumption goes on under the new names."""
    bench.start(flow(simple("a", {"poll_timeout_s": 10}), simple("c")))
    held = bench.take("a")
    bench.engine.pause(bench.workflow_id)
    bench.report(held)
    plan = bench.engine.definitions.migrate(bench.workflow_id, version_2(simple("b"), simple("new"), simple("c")), refs={"a": "b"})
    assert plan.live == {"a": "COMPLETED, with what follows still to come, becomes b"}
    assert bench.status_of_workflow() is WorkflowStatus.PAUSED
    bench.engine.resume(bench.workflow_id)
    bench.do("new")
    bench.do("c")
    assert bench.order() == ["b", "new", "c"]


def test_a_deadline_held_while_paused_fires_under_the_new_name(bench: Bench) -> None:
    """A poll timeout that passed while paused takes effect after the resumption, on the renamed task."""
    policy = {"poll_timeout_s": 5, "retry_count": 0, "timeout_policy": "RETRY"}
    bench.start(flow(simple("a", policy)))
    bench.engine.pause(bench.workflow_id)
    bench.at(6)
    bench.engine.definitions.migrate(bench.workflow_id, version_2(simple("b", policy)), refs={"a": "b"})
    bench.at(8)
    bench.engine.resume(bench.workflow_id)
    bench.engine.settle()
    assert bench.task("b").status is TaskStatus.TIMED_OUT
    assert bench.task("b").ended_at == bench.clock.now()


# ---------------------------------------------------------------------- forks, loops, cases


def test_a_branch_grows_while_its_join_waits(bench: Bench) -> None:
    """A task is appended to a branch in progress and joined instead of the last one; the JOIN waits for it."""
    bench.start(flow(fork("f", [simple("a")], [simple("b")]), join("j", "a", "b")))
    bench.do("b")
    new = version_2(fork("f", [simple("a"), simple("a2")], [simple("b")]), join("j", "a2", "b"))
    with pytest.raises(Conflict, match="j: joins 'a', which has begun"):
        bench.engine.definitions.migrate(bench.workflow_id, new)
    extended = version_2(fork("f", [simple("a"), simple("a2")], [simple("b")]), join("j", "a", "a2", "b"))
    assert bench.engine.definitions.migrate(bench.workflow_id, extended).waiting == {"j": 2}
    bench.do("a")
    assert bench.task("j").status is TaskStatus.IN_PROGRESS
    bench.do("a2")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_a_join_waits_for_what_has_not_begun_under_another_name(bench: Bench) -> None:
    """The end of a branch that has not begun may be another task in the new definition."""
    bench.start(flow(fork("f", [simple("a"), simple("a2")], [simple("b")]), join("j", "a2", "b")))
    new = version_2(fork("f", [simple("a"), simple("a3")], [simple("b")]), join("j", "a3", "b"))
    bench.engine.definitions.migrate(bench.workflow_id, new)
    for name in ("b", "a", "a3"):
        bench.do(name)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_a_rounds_end_is_the_new_definitions(bench: Bench) -> None:
    """A loop's body changes: what was added behind runs in this round, what was added before from the next one on."""
    bench.start(flow(rounds("l", [simple("a"), simple("b")], 2)))
    bench.do("a")
    new = version_2(rounds("l", [simple("first"), simple("a"), simple("b"), simple("last")], 2))
    plan = bench.engine.definitions.migrate(bench.workflow_id, new)
    assert plan.notes == ("first: is new and runs from the next round on", "last: is new and will run")
    for name in ("b", "last", "first", "a", "b", "last"):
        bench.do(name)
    assert bench.order()[3:] == ["last__1", "first__2", "a__2", "b__2", "last__2"]
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


BLOCKED: Sequence[tuple[str, WorkflowDef, Sequence[str], WorkflowDef, str]] = (
    ("type", flow(simple("a")), (), version_2(noop("a")), "a: is a NOOP in the new definition and has begun as a SIMPLE"),
    (
        "loop",
        flow(rounds("l", [simple("a")])),
        (),
        version_2(simple("a")),
        "a__1: .*|l: is IN_PROGRESS, and the new definition has no 'l'",
    ),
    (
        "case",
        flow(switch("s", {"x": [simple("a")], "y": [simple("b")]}), simple("c")),
        (),
        version_2(switch("s", {"x": [simple("b")], "y": [simple("a")]}), simple("c")),
        "a: is SCHEDULED and stands in case 'x' of 's', in the new definition in case 'y' of 's'",
    ),
    (
        "again",
        flow(simple("a"), simple("b")),
        ("a",),
        version_2(simple("b"), simple("a")),
        "a: has run already, and would run again where the new definition has it",
    ),
    (
        "new branch",
        flow(fork("f", [simple("a")]), join("j", "a")),
        (),
        version_2(fork("f", [simple("a")], [simple("b")]), join("j", "a", "b")),
        "j: would wait for 'b', which never runs",
    ),
    (
        "out of reach",
        flow(fork("f", [simple("a"), simple("b")]), join("j", "b")),
        (),
        version_2(fork("f", [simple("b"), simple("a")]), join("j", "b")),
        "j: would wait for 'b', which never runs where the new definition has it",
    ),
    (
        "fork gone",
        flow(fork("f", [simple("a")]), join("j", "a")),
        (),
        version_2(fork("g", [simple("a")]), join("j", "a")),
        "a: is SCHEDULED and stands in a branch of 'f', in the new definition in a branch of 'g'",
    ),
    (
        "nothing left",
        flow(fork("f", [simple("a"), simple("a2")], [simple("b")]), join("j", "a2", "b")),
        ("b",),
        version_2(fork("f", [simple("a"), simple("a2")], [simple("b")]), join("j", "b")),
        "j: would have nothing left to wait for",
    ),
    (
        "output",
        flow(simple("a"), simple("b"), output_parameters={"x": "${a.output.x}"}),
        ("a",),
        version_2(simple("b"), output_parameters={"x": "${a.output.x}"}),
        "a: is read by outputParameters",
    ),
    (
        "read by a loop to come",
        flow(simple("a"), simple("b"), rounds("l", [simple("c")], 1)),
        ("a",),
        version_2(simple("b"), rounds("l", [simple("c")], loop_condition="$.a['x'] == 1 && $.l['iteration'] < 1")),
        "a: is read by `l`, and is not in the new definition",
    ),
    (
        "read by a loop in a round",
        flow(simple("a"), rounds("l", [simple("b")], 1)),
        ("a",),
        version_2(rounds("l", [simple("b")], loop_condition="$.a['x'] == 1 && $.l['iteration'] < 1")),
        "a: is read by `l`, and is not in the new definition",
    ),
)


@pytest.mark.parametrize(("old", "done", "new", "reason"), [case[1:] for case in BLOCKED], ids=[case[0] for case in BLOCKED])
def test_blocked(bench: Bench, old: WorkflowDef, done: Sequence[str], new: WorkflowDef, reason: str) -> None:
    """What makes no sense where it stands is refused by name, and the execution can still end as it was."""
    bench.start(old, {"case": "x"})
    for name in done:
        bench.do(name)
    with pytest.raises(Conflict, match=reason):
        bench.engine.definitions.migrate(bench.workflow_id, new)
    for _ in range(12):
        for name in ("a", "a2", "b", "c"):
            if (task := bench.poll(name)) is not None:
                bench.report(task)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.parametrize(
    ("refs", "reason"),
    [
        ({"x": "b"}, "refs: 'x' is no reference of the old definition"),
        ({"a": "z"}, "refs: 'z' is no reference of the new definition"),
        ({"a": "keep"}, "refs: 'keep' is a reference of the old definition as well"),
        ({"keep": "b"}, "refs: 'keep' is still a reference of the new definition"),
        ({"a": "b", "a2": "b"}, "refs: 'b' is given twice"),
    ],
)
def test_a_map_that_cannot_be(bench: Bench, refs: dict[str, str], reason: str) -> None:
    """A map is refused that names what is not there, or would put two references under one name."""
    bench.start(flow(simple("a"), simple("a2"), simple("keep")))
    with pytest.raises(Conflict, match=reason):
        bench.engine.definitions.migrate(bench.workflow_id, version_2(simple("b"), simple("keep")), refs=refs)


def test_a_permitted_failure_must_stay(bench: Bench) -> None:
    """A task whose failure still counts at the end cannot be left out; one that did well can."""
    never = {"retry_count": 0}
    bench.start(flow(simple("ok"), simple("a", never, permissive=True), simple("b")))
    bench.do("ok")
    bench.do("a", "FAILED", reason="no")
    with pytest.raises(Conflict, match="a: ended FAILED, which counts when the execution ends"):
        bench.engine.definitions.migrate(bench.workflow_id, version_2(simple("b")))
    bench.engine.definitions.migrate(bench.workflow_id, version_2(simple("a", never, permissive=True), simple("b")))
    bench.do("b")
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    bench.engine.retry(bench.workflow_id)
    bench.do("a")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


# ---------------------------------------------------------------------- attempts, deadlines, turns


def test_the_next_attempt_is_the_new_definitions(bench: Bench) -> None:
    """A live task keeps its input; its retry gets the new input, name and retry budget."""
    bench.start(flow(simple("a", {"retry_count": 0}, input_parameters={"v": 1})))
    held = bench.take("a")
    policy = task_def("a_new", retry_count=1, retry_delay_s=0)
    changed = attrs.evolve(simple("a", input_parameters={"v": 2}), name="a_new", task_definition=policy)
    plan = bench.engine.definitions.migrate(bench.workflow_id, version_2(changed))
    assert plan.live == {"a": "IN_PROGRESS, what changed holds from the next attempt on"}
    assert bench.task("a").input_data == {"v": 1}
    bench.report(held, "FAILED")
    assert bench.take("a_new").input_data == {"v": 2}


def test_a_response_timeout_that_is_no_more(bench: Bench) -> None:
    """A sign of life after the move to a definition without response timeout ends the deadline, not the task."""
    bench.start(flow(simple("a", {"response_timeout_s": 5})))
    held = bench.take("a")
    bench.engine.definitions.migrate(bench.workflow_id, version_2(simple("a", {"response_timeout_s": 0})))
    bench.at(3)
    assert bench.engine.tasks.extend_lease(held)
    bench.at(60)
    assert bench.task("a").status is TaskStatus.IN_PROGRESS
    assert bench.task("a").response_timeout_at is None


def test_a_cut_turn_is_finished_first(new_bench: Callable[..., Bench]) -> None:
    """A turn cut in the middle of a fork and held by a pause: the branches to come are known by their new names, or block."""
    bench = new_bench(bounds=Bounds(rows=2))
    bench.engine.core.turns.run_turn = _one_turn(bench)  # type: ignore[method-assign]
    bench.start(flow(fork("f", [simple("a")], [simple("b")], [simple("c")]), join("j", "a", "b", "c")))
    del bench.engine.core.turns.run_turn
    bench.engine.core.turns.attempt(bench.workflow_id, [new_event(bench.workflow_id, EventKind.PAUSE, bench.clock.now())], None)
    bench.engine.settle()
    begun = set(bench.statuses())
    assert begun < {"f", "j", "a", "b", "c"}
    lost = version_2(fork("f", [simple("a")], [simple("b")]), join("j", "a", "b"))
    with pytest.raises(Conflict, match=r"f: is scheduling its branches|about to be scheduled"):
        bench.engine.definitions.migrate(bench.workflow_id, lost)
    new = version_2(fork("f2", [simple("a")], [simple("b2")], [simple("c2")]), join("j2", "a", "b2", "c2"))
    bench.engine.definitions.migrate(bench.workflow_id, new, refs={"f": "f2", "b": "b2", "c": "c2", "j": "j2"})
    bench.engine.resume(bench.workflow_id)
    bench.engine.settle()
    for _ in range(3):
        for name in ("a", "b", "b2", "c2"):
            if (task := bench.poll(name)) is not None:
                bench.report(task)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    assert set(bench.statuses()) == {"f2", "j2", "a", "b2", "c2"}


def _one_turn(bench: Bench) -> Callable[..., Any]:
    """Turns without those that follow."""
    take = bench.engine.core.turns.attempt
    return lambda workflow_id, events=(), *, started=None, taking=None: take(workflow_id, events, started, None, taking)


def test_the_turn_looks_again(bench: Bench) -> None:
    """A migration that was safe when it was asked for is refused by the turn when the execution has moved on."""
    bench.start(flow(simple("a"), simple("b")))
    stale = version_2(simple("a"))
    with bench.engine.backend.reading() as view:
        row, target = (
            view.executions.workflow(bench.workflow_id),
            bench.engine.core.turns.lookups.registry.embedded(view, stale, None),
        )
    assert row is not None
    bench.do("a")
    with pytest.raises(Conflict, match="b: is SCHEDULED"):
        bench.engine.definitions._move(row, target, {})
    assert bench.workflow.version == 1


def test_an_event_that_had_to_wait(bench: Bench) -> None:
    """A migration that lies in the inbox comes after the report that lies there with it, whatever their order."""
    bench.start(flow(simple("a"), simple("b"), simple("c")))
    held = bench.take("a")
    new = version_2(simple("a"), simple("b"), simple("d"))
    with bench.engine.backend.reading() as view:
        target = bench.engine.core.turns.lookups.registry.embedded(view, new, None)
    now = bench.clock.now()
    data = {"definitionHash": target.digest, "version": 2, "refs": {}}
    event = new_event(bench.workflow_id, EventKind.MIGRATE, now, data)
    done = bench.engine.core.reports.report_event(
        held, TaskResult(workflow_id=held.workflow_id, task_id=held.task_id, status=TaskStatus.COMPLETED, lease=held.lease)
    )
    with bench.engine.backend.writing() as tx:
        for digest, text in target.texts.items():
            tx.metadata.embed(digest, text)
        tx.inbox.post([event, _later(done)])
    bench.engine.settle()
    assert [(line.kind.value, line.ref) for line in bench.engine.history(bench.workflow_id)][-3:] == [
        ("TASK", "a"), ("TASK", "b"), ("MIGRATED", None),
    ]  # fmt: skip
    assert bench.workflow.version == 2


def _later(event: Event) -> Event:
    return attrs.evolve(event, sender_seq=9)


def test_a_parked_execution(bench: Bench) -> None:
    """A parked execution takes no turns: it is to be resumed first."""
    bench.start(flow(simple("a")))
    with bench.engine.backend.writing() as tx:
        tx.executions.park(bench.workflow_id, 3, "a law")
    with pytest.raises(Conflict, match=r"is parked \(a law\)"):
        bench.engine.definitions.migrate(bench.workflow_id, version_2(simple("a"), simple("b")))
    bench.engine.resume(bench.workflow_id)
    bench.engine.definitions.migrate(bench.workflow_id, version_2(simple("a"), simple("b")))
    assert bench.workflow.version == 2


def test_before_its_first_task(bench: Bench) -> None:
    """An execution that begins later begins with the new definition's first task."""
    bench.start(flow(simple("a")), delay="10s")
    bench.engine.definitions.migrate(bench.workflow_id, version_2(simple("b")))
    bench.at(10)
    assert bench.order() == ["b"]


# ---------------------------------------------------------------------- many


def test_all_of_a_version(bench: Bench) -> None:
    """Every running or paused execution of the version is moved; others are not touched, one that cannot move says why."""
    engine = bench.engine
    engine.register(flow(simple("a"), simple("b")), version_2(simple("a"), simple("c")))
    first, paused, beyond, ended, other = (engine.start("flow", version=1).workflow_id for _ in range(5))
    engine.pause(paused)
    for one in (beyond, ended):
        task = engine.get(one).task("a")
        engine.update_task(TaskResult(workflow_id=one, task_id=task.task_id, status=TaskStatus.COMPLETED))
    engine.terminate(ended)
    engine.definitions.migrate(other, 2)
    dry = engine.definitions.migrate_all("flow", 1, 2, dry_run=True)
    assert {one: found.verdict if isinstance(found, MigrationPlan) else found for one, found in dry.items()} == {
        first: Verdict.SAFE, paused: Verdict.SAFE, beyond: Verdict.BLOCKED,
    }  # fmt: skip
    found = engine.definitions.migrate_all("flow", 1)
    assert {one for one, plan in found.items() if isinstance(plan, MigrationPlan)} == {first, paused}
    assert "b: is SCHEDULED, and the new definition has no 'b'" in str(found[beyond])
    assert [engine.get(one).version for one in (first, paused, beyond, ended, other)] == [2, 2, 1, 1, 2]
    with pytest.raises(DefinitionNotFound):
        engine.definitions.migrate_all("flow", 1, 9)
