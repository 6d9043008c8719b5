"""What mistakes of tests/mutation/planted.toml showed that no other fast test saw: small promises, each in one story."""

from __future__ import annotations

import attrs
import pytest
from engine_kit import Bench, flow, fork, join, rounds, simple
from rerun_kit import child, s, stand, sub

from conductorlite import WorkflowStatus
from conductorlite.model.decisions import Decision, Outgoing
from conductorlite.testing.conformance.samples import settle

#: Tried once, as their definitions say.
ONCE = {"retry_count": 0}


def test_failed_tasks_are_told_by_name_and_by_reference(bench: Bench) -> None:
    """Conductor's failedTaskNames are names of tasks, not the references in the flow."""
    (charge,) = s("charge")
    bench.start(flow(attrs.evolve(charge, task_reference_name="first")))
    bench.do("charge", "FAILED")
    assert (bench.workflow.failed_refs, bench.workflow.failed_task_names) == (("first",), ("charge",))


def test_a_failure_workflow_of_a_version(bench: Bench) -> None:
    """It is the version that the definition names, not the newest; domains of the failed execution hold in it."""
    bench.engine.register(flow(*s("old"), name="mourn", version=1), flow(*s("new"), name="mourn", version=2))
    for version, ref in ((1, "old"), (None, "new")):
        definition = flow(*s("a"), failure_workflow="mourn", failure_workflow_version=version)
        bench.start(definition, task_to_domain={"old": "eu", "new": "eu"})
        bench.do("a", "FAILED")
        mourning = bench.engine.get(bench.workflow.output_data["conductor.failure_workflow"])
        assert [(task.ref, task.domain) for task in mourning.tasks] == [(ref, "eu")]


@pytest.mark.parametrize("limit", [None, 1])
def test_a_task_that_is_put_back_began_once(bench: Bench, limit: int | None) -> None:
    """Its start is that of its first poll, and a timeout that has alerted does not begin again with the next one."""
    bench.start(flow(simple("a", {"timeout_s": 10, "timeout_policy": "ALERT_ONLY", "concurrent_exec_limit": limit, **ONCE})))
    held = bench.take("a")
    bench.report(held, "IN_PROGRESS", callback_s=3)
    bench.at(4)
    held = bench.take("a")
    assert held.updated_at - held.started_at == 4_000
    bench.at(11)
    bench.report(held, "IN_PROGRESS", callback_s=1)
    bench.at(13)
    held = bench.take("a")
    bench.at(60)
    assert [line for line in bench.journal_of("a") if "ALERT" in line] == ["10 a ALERT timeout"]
    bench.report(held)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_the_last_permitted_failure_is_the_one_that_is_named(bench: Bench) -> None:
    """The execution fails when all else is done: the failed task is the one that failed last in the order of the flow."""
    bench.start(flow(simple("a", ONCE, permissive=True), simple("b", ONCE, permissive=True), *s("z")))
    for ref in ("a", "b"):
        bench.do(ref, "FAILED")
    bench.do("z")
    assert bench.workflow.failed_refs == ("a", "b")
    assert bench.workflow.failed_task_id == bench.task("b").task_id


def test_a_join_of_canceled_and_failed_branches(bench: Bench) -> None:
    """It is CANCELED if all that did not succeed were canceled, and has failed if one of them failed."""
    inner = flow(*s("x"), name="inner")
    for failing in (False, True):
        bench.start(flow(fork("f", [sub("c", inner, permissive=True)], [simple("b", ONCE, permissive=True)]), join("j", "c", "b")))
        bench.engine.terminate(child(bench, "c"))
        bench.do("b", "FAILED" if failing else "COMPLETED")
        assert bench.statuses()["c"] == "CANCELED"
        assert bench.statuses()["j"] == ("FAILED" if failing else "CANCELED")


def test_a_rerun_tries_again_what_was_permitted_to_fail_beside(bench: Bench) -> None:
    """Of an ended execution: also what the flow had gone on behind."""
    bench.start(flow(fork("f", s("a"), [simple("p", ONCE, permissive=True), *s("q")]), join("j", "a", "q")))
    bench.do("p", "FAILED")
    bench.do("q")
    bench.do("a", "FAILED")
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    bench.engine.rerun(bench.workflow_id, from_task="a")
    assert stand(bench) == "RUNNING: f COMPLETED, j IN_PROGRESS, q COMPLETED, p#1 SCHEDULED, a SCHEDULED"


def test_a_loop_in_a_loop_ends_with_a_permitted_failure(bench: Bench) -> None:
    """In the round in which it failed: the loop has failed, and so has the one around it."""
    bench.start(flow(rounds("outer", [rounds("inner", [simple("a", ONCE, permissive=True)])])))
    bench.do("a", "FAILED")
    assert bench.statuses()["inner__1"] == "FAILED"
    assert bench.status_of_workflow() is WorkflowStatus.FAILED


def test_a_repaired_message_keeps_the_priority(bench: Bench) -> None:
    """What is offered again comes as early as it would have."""
    bench.start(flow(*s("a")), priority=7)
    key = (bench.workflow_id, "a")
    with bench.engine.backend.writing() as tx:
        stored = tx.executions.workflow(bench.workflow_id)
        assert stored is not None
        tx.decisions.apply(Decision(workflow=stored, outgoing=Outgoing(removed=(key,))))
    settle(bench.engine.backend)
    bench.engine.admin.repair(bench.workflow_id)
    settle(bench.engine.backend)
    with bench.engine.backend.reading() as view:
        message = view.queue.message(key)
    assert message is not None
    assert message.priority == 7


def test_the_logs_of_earlier_attempts_are_archived(bench: Bench) -> None:
    """Each attempt has its own."""
    bench.start(flow(simple("a", {"retry_count": 1, "retry_delay_s": 0})))
    ids = []
    for status in ("FAILED", "COMPLETED"):
        task = bench.take("a")
        bench.engine.tasks.log(task, status)
        bench.report(task, status)
        ids.append(task.task_id)
    bench.engine.admin.archive(bench.workflow_id)
    told = [[line.text for line in bench.engine.tasks.logs(one, workflow_id=bench.workflow_id)] for one in ids]
    assert told == [["FAILED"], ["COMPLETED"]]
