"""What lies below, what was undone, run again, moved or dropped, and who never polled: explained word for word."""

from __future__ import annotations

from typing import Any

import pytest
from reading_kit import Case, flow, node

from conductorlite import SubWorkflowParams, TaskDef, WorkflowDef, WorkflowTask


def sub(ref: str, name: str, *tasks: WorkflowTask) -> WorkflowTask:
    """A SUB_WORKFLOW of these tasks."""
    params = SubWorkflowParams(name=name, workflow_definition=WorkflowDef(name=name, tasks=tasks))
    return node(ref, "SUB_WORKFLOW", sub_workflow_param=params)


def test_the_deepest_reason() -> None:
    """What waits for an execution below tells what that waits for, down to the last; a paused one says so."""
    case = Case(flow(sub("s", "outer", sub("t", "inner", node("a")))))
    case.at(3)
    outer = case.workflow.task("s").sub_workflow_id
    inner = case.engine.get(str(outer)).task("t").sub_workflow_id
    down = (
        f"s (SUB_WORKFLOW) waits for its sub-workflow {outer}, for 3 s; "
        f"there t (SUB_WORKFLOW) waits for its sub-workflow {inner}, for 3 s; "
    )
    assert (
        case.why("s")
        == f"{down}there a waits for a worker of type a for 3 s; its poll timeout comes in 59 min 57 s of driven time."
    )
    assert case.why() == f"flow (w1) is RUNNING for 3 s. {case.why('s')}"
    case.engine.pause(str(inner))
    assert case.why("s") == f"{down}it is PAUSED."


def test_starting_another_execution() -> None:
    """A START_WORKFLOW says when it starts one, after its delay."""
    request = {"startWorkflow": {"workflowDef": {"name": "other", "tasks": [{"name": "q", "taskReferenceName": "q"}]}}}
    case = Case(flow(node("st", "START_WORKFLOW", start_delay_ms=5_000, input_parameters=request)))
    assert case.why("st") == "st (START_WORKFLOW) starts another execution in 5 s, after its start delay."


def test_a_domain_nobody_polls() -> None:
    """A task in a domain says when nobody has asked for it there, ever or for more than ten seconds."""
    case = Case(flow(node("z"), node("a")), task_to_domain={"a": "eu"})
    case.do("z")
    assert case.why("a") == (
        "a waits for a worker of type a in domain eu since just now, for which nobody has ever polled; "
        "its poll timeout comes in 1 h of driven time."
    )
    later = Case(flow(node("z"), node("a")), task_to_domain={"a": "eu"})
    later.engine.poll("a", domain="eu")
    later.at(60)
    later.do("z")
    assert later.why("a") == (
        "a waits for a worker of type a in domain eu since just now, for which somebody last polled 1 min ago; "
        "its poll timeout comes in 1 h of driven time."
    )


@pytest.mark.parametrize("kind", ["HTTP", "EVENT", "KAFKA_PUBLISH"])
def test_types_whose_workers_are_shipped(kind: str) -> None:
    """A task that nobody carries out unasked says where its worker is."""
    fields: dict[str, Any] = {
        "HTTP": {"input_parameters": {"http_request": {"uri": "http://x", "method": "GET"}}},
        "EVENT": {"sink": "conductor"},
        "KAFKA_PUBLISH": {"input_parameters": {"kafka_request": {"topic": "t", "value": "v", "bootStrapServers": "b"}}},
    }[kind]
    case = Case(flow(node("h", kind, **fields)))
    assert case.why("h").startswith(
        f"h waits for a worker of type {kind} (conductorlite.ext.workers.system_workers has one; include it) since just now"
    )


def test_skipped_tasks() -> None:
    """A task that was skipped ahead of the flow says so, and after the flow has come past it too, or never came to it."""
    case = Case(flow(node("a"), node("b")))
    case.engine.skip_task("w1", "b")
    case.at(2)
    said = "b is SKIPPED: skip_task was used 2 s ago, and the flow "
    assert case.why("b") == f"{said}will pass over it when it comes to it."
    case.do("a")
    assert case.why("b") == f"{said}has passed over it."
    other = Case(flow(node("a"), node("b")))
    other.engine.skip_task("w1", "b")
    other.at(2)
    other.engine.terminate("w1")
    assert other.why("b") == f"{said}never came to it."


def test_what_a_rerun_took_back() -> None:
    """An execution says that it was run again, and a task that was taken back why it has not run since."""
    case = Case(flow(node("a"), node("b")))
    case.do("a")
    case.do("b")
    case.at(4)
    case.engine.rerun("w1", from_task="a")
    case.at(5)
    assert case.why() == (
        "flow (w1) is RUNNING for 5 s. It was rerun from a 1 s ago. "
        "a waits for a worker of type a for 1 s; its poll timeout comes in 59 min 59 s of driven time."
    )
    assert case.why("b") == "b has not run again: the execution was rerun from a 1 s ago; a, before it, is SCHEDULED."
    case.engine.terminate("w1")
    case.engine.restart("w1")
    case.at(6)
    assert case.why().startswith("flow (w1) is RUNNING for 6 s. It was restarted 1 s ago. a waits")


def test_what_was_undone() -> None:
    """An execution that is compensated says what is undone, what could not be, and what is left."""
    once = TaskDef(name="x", retry_count=0)
    undone = [node(ref, compensate="undo", optional=False) for ref in ("a", "b", "c", "d")]
    case = Case(flow(*undone, node("x", task_definition=once)))
    for second, ref in enumerate("abcd"):
        case.at(second)
        case.do(ref)
    case.do("x", "FAILED", reason="no")
    case.do("undo")
    case.do("undo", "FAILED_WITH_TERMINAL_ERROR", reason="gone")
    assert (
        " Undone: d. Could not be undone: c. Left to undo: a. "
        "b_compensation (undo) waits for a worker of type undo since just now; its poll timeout comes in 1 h of driven time."
    ) in case.why()


def test_what_is_held() -> None:
    """A paused execution lists what is held: what follows from tasks, and deadlines that have passed."""
    fork = node("f", "FORK_JOIN", fork_tasks=[[node("a")], [node("b", task_definition=TaskDef(name="b", poll_timeout_ms=5_000))]])
    case = Case(flow(fork, node("j", "JOIN", join_on=["a", "b"])))
    case.engine.pause("w1")
    case.do("a")
    case.at(6)
    assert " 2 events are held: what follows a and the poll timeout of b." in case.why()


def test_moved_executions() -> None:
    """An execution says that it was moved; a task, that it has another name now, or that it was removed before it ran."""
    case = Case(flow(node("a"), node("b"), node("c")))
    case.at(2)
    case.engine.definitions.migrate("w1", WorkflowDef(name="flow", version=2, tasks=[node("a"), node("cc")]), refs={"c": "cc"})
    case.at(5)
    assert case.why().startswith("flow (w1) is RUNNING for 5 s. It was moved from version 1 to 2 3 s ago. a waits")
    assert case.why("b") == "b never ran: it is not in the definition the execution was moved to 3 s ago."
    assert case.why("c") == "c is called cc since the execution was moved from version 1 to 2 3 s ago."
    assert case.why("cc") == "cc has not run yet: a, before it, is SCHEDULED."


def test_rounds() -> None:
    """A task of a round says that its loop has dropped that round, has not come to it, or ended before."""
    loop = node("l", "DO_WHILE", loop_over=[node("x")], loop_condition="$.l['iteration'] < 3", input_parameters={"keepLastN": 1})
    case = Case(flow(loop))
    case.do("x")
    case.do("x")
    case.at(1)
    assert case.why("x__1") == "x__1 has run: its loop keeps its last rounds only, and dropped this one 1 s ago."
    assert case.why("x__4") == "x__4 has not run yet: l is in round 3."
    case.do("x")
    assert case.why("x__4") == "x__4 never ran: l ended with round 3."
    assert case.why("x__one") == "x__one is not a task of flow."


def test_branches_to_come() -> None:
    """A task in a fork that the flow has not come to says which fork, and what is before that."""
    fork = node("f", "FORK_JOIN", fork_tasks=[[node("p"), node("p2")], [node("q")]])
    case = Case(flow(node("a"), fork, node("j", "JOIN", join_on=["p2", "q"]), node("z")))
    assert case.why("p2") == "p2 has not run yet: it is in f, which the flow has not come to; a, before it, is SCHEDULED."
    assert case.why("z") == "z has not run yet: a, before it, is SCHEDULED."
    case.do("a")
    assert case.why("p2") == "p2 has not run yet: p, before it, is SCHEDULED."
    case.engine.terminate("w1")
    assert case.why("p2") == "p2 never ran: p, before it, is CANCELED, and the execution is TERMINATED."
