"""A signal that comes before its WAIT or HUMAN: kept for it, received by it, given back; refused where nothing can receive it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from engine_kit import Bench, flow, fork, join, rounds, switch, wait
from rerun_kit import s, stand, sub, work

from conductorlite import EventAction, EventHandler, TaskStatus, WorkflowTask
from conductorlite.errors import Conflict, MailboxFull, PayloadTooLarge, TaskNotFound
from conductorlite.model.handlers import EventStatus, TaskDetails


def human(ref: str, **fields: Any) -> WorkflowTask:
    """A HUMAN."""
    return WorkflowTask(name=ref, task_reference_name=ref, type="HUMAN", **fields)


@pytest.mark.parametrize("waiting", [wait("w"), wait("w", duration="1 hour"), human("w")], ids=["wait", "timed", "human"])
def test_a_signal_is_kept_for_the_task(bench: Bench, waiting: WorkflowTask) -> None:
    """It completes the task in the commit in which that begins, with its output, and nothing of it is left."""
    bench.start(flow(*s("a"), waiting, *s("z")))
    assert bench.engine.signal(bench.workflow_id, {"ok": True}, task="w") is None
    assert "1 message is kept that no task has received: 1 for w" in str(bench.engine.explain(bench.workflow_id))
    assert bench.engine.admin.check() == []
    assert work(bench) == "a z"
    assert stand(bench) == "COMPLETED: a COMPLETED, w COMPLETED, z COMPLETED"
    assert bench.task("w").output_data == {"ok": True}
    (message,) = bench.engine.messages(bench.workflow_id)
    assert (message.receiver, message.signal_to, message.number) == ("w", "w", 1)
    assert bench.engine.admin.check() == []


def test_signals_are_received_in_order(bench: Bench) -> None:
    """One that leaves the task waiting is followed by the next, which is laid over it; a later one stays for nobody."""
    bench.start(flow(*s("a"), human("h"), *s("z")))
    bench.engine.signal(bench.workflow_id, {"a": 1, "b": 1}, task="h", status=TaskStatus.IN_PROGRESS)
    bench.engine.signal(bench.workflow_id, {"b": 2}, task="h")
    bench.engine.signal(bench.workflow_id, {"b": 3}, task="h")
    assert work(bench) == "a z"
    assert bench.task("h").output_data == {"a": 1, "b": 2}
    assert [message.receiver for message in bench.engine.messages(bench.workflow_id)] == ["h", "h", None]
    assert "1 for h" in str(bench.engine.explain(bench.workflow_id))


def test_bad_news_is_kept_too(bench: Bench) -> None:
    """A failure that is signaled early fails the task with its reason; a retry waits for the next signal."""
    retried = human("h", retry_count=1)
    bench.start(flow(*s("a"), retried, *s("z")))
    bench.engine.signal(bench.workflow_id, task="h", status=TaskStatus.FAILED, reason="nobody came")
    work(bench)
    bench.engine.advance("2h")
    first = next(task for task in bench.workflow.tasks if task.ref == "h")
    assert (first.status, first.reason) == ("FAILED", "nobody came")
    assert bench.engine.signal(bench.workflow_id, task="h") is not None
    assert work(bench) == "z"


def test_a_round_that_is_named_receives_it(bench: Bench) -> None:
    """A printed reference is that round's; the definition's is the next round's that begins."""
    bench.start(flow(rounds("l", [*s("a"), wait("w")], 3), *s("z")))
    bench.engine.signal(bench.workflow_id, {"n": 2}, task="w__2")
    bench.engine.signal(bench.workflow_id, {"n": 1}, task="w")
    assert work(bench) == "a__1 a__2 a__3"
    assert [bench.task(f"w__{number}").output_data for number in (1, 2)] == [{"n": 1}, {"n": 2}]
    with pytest.raises(TaskNotFound, match="w__1"):
        bench.engine.signal(bench.workflow_id, task="w__1")


def test_what_nothing_can_receive_is_refused(bench: Bench) -> None:
    """A task that has ended, one of a case that was not taken, a worker's, one that is not in the definition."""
    bench.start(flow(*s("a"), wait("w"), *s("b"), switch("way", {"x": [wait("never")]}), *s("c"), wait("last")))
    work(bench)
    bench.engine.signal(bench.workflow_id, task="w")
    assert bench.engine.signal(bench.workflow_id, task="never") is None  # it may be taken
    work(bench)
    before = bench.engine.messages(bench.workflow_id)
    for ref, why in {
        "w": "'w' is COMPLETED already",
        "never": "the flow does not come to 'never' any more",
        "c": "'c' is a task of type SIMPLE",
        "nobody": "the definition has no task 'nobody'",
    }.items():
        with pytest.raises(TaskNotFound, match=f"there is no open task {ref!r}: .*{why}"):
            bench.engine.signal(bench.workflow_id, task=ref)
    assert bench.engine.messages(bench.workflow_id) == before
    bench.engine.signal(bench.workflow_id, task="last")
    with pytest.raises(Conflict):
        bench.engine.signal(bench.workflow_id, task="last")
    assert [message.receiver for message in bench.engine.messages(bench.workflow_id)] == [None]


def test_what_is_not_chosen_yet_can_be_reached(bench: Bench) -> None:
    """Branches of a fork to come, and what is behind a join, are before the execution."""
    branches = fork("f", [*s("a"), wait("u")], [*s("b"), human("v")])
    bench.start(flow(*s("x"), branches, join("j", "u", "v"), wait("w"), *s("z")))
    for ref in ("w", "v", "u"):
        assert bench.engine.signal(bench.workflow_id, {"for": ref}, task=ref) is None
    assert work(bench).split()[-1] == "z"
    assert {ref: bench.task(ref).output_data["for"] for ref in "uvw"} == {"u": "u", "v": "v", "w": "w"}


def test_what_is_run_again_receives_again(bench: Bench) -> None:
    """A task that is taken back gives back what it has received; one before it keeps what it has."""
    bench.start(flow(*s("a"), wait("v"), wait("w"), *s("z")))
    bench.engine.signal(bench.workflow_id, {"n": 1}, task="v")
    bench.engine.signal(bench.workflow_id, {"n": 2}, task="w")
    work(bench)
    bench.engine.rerun(bench.workflow_id, from_task="w")
    assert bench.task("w").output_data == {"n": 2}
    assert [message.receiver for message in bench.engine.messages(bench.workflow_id)] == ["v", "w"]
    work(bench)
    bench.engine.restart(bench.workflow_id)
    bench.engine.settle()
    assert [message.receiver for message in bench.engine.messages(bench.workflow_id)] == [None, None]
    assert work(bench) == "a z"
    assert bench.task("v").output_data == {"n": 1}
    assert bench.engine.admin.check() == []


def test_while_paused(bench: Bench) -> None:
    """It is kept; the task begins, and receives it, when the execution is resumed."""
    bench.start(flow(*s("a"), wait("w"), *s("z")))
    bench.engine.pause(bench.workflow_id)
    assert bench.engine.signal(bench.workflow_id, task="w") is None
    assert work(bench) == "a"
    assert bench.engine.admin.check() == []
    bench.engine.resume(bench.workflow_id)
    assert work(bench) == "z"


def test_no_more_than_a_thousand(bench: Bench) -> None:
    """Then it is refused, and nothing is kept of it."""
    bench.start(flow(*s("a"), wait("w")))
    for _ in range(1_000):
        bench.engine.signal(bench.workflow_id, task="w", status=TaskStatus.IN_PROGRESS)
    with pytest.raises(MailboxFull, match="1000 messages are kept"):
        bench.engine.signal(bench.workflow_id, task="w")
    assert len(bench.engine.messages(bench.workflow_id)) == 1_000
    with pytest.raises(PayloadTooLarge, match="task output"):
        bench.engine.signal(bench.workflow_id, {"x": "x" * 11_000_000}, task="w")


def test_a_large_one_comes_whole(bench: Bench) -> None:
    """Also one that no row holds."""
    bench.start(flow(*s("a"), wait("w")))
    bench.engine.signal(bench.workflow_id, {"x": "large " * 5_000}, task="w")
    work(bench)
    assert bench.task("w").output_data == {"x": "large " * 5_000}
    assert bench.engine.messages(bench.workflow_id)[0].value.value["output"] == {"x": "large " * 5_000}


def test_a_child_has_a_mailbox_of_its_own(bench: Bench) -> None:
    """A signal to the parent's task is not one to the child's of that name."""
    bench.start(flow(sub("c", flow(*s("a"), wait("w"), name="inner")), wait("w")))
    bench.engine.settle()
    bench.engine.signal(bench.workflow_id, {"to": "parent"}, task="w")
    child_id = bench.task("c").sub_workflow_id or ""
    bench.engine.signal(child_id, {"to": "child"}, task="w")
    work(bench)
    assert bench.engine.get(child_id).task("w").output_data == {"to": "child"}
    assert bench.task("w").output_data == {"to": "parent"}


def test_messages_are_listed(bench: Bench) -> None:
    """Of an execution that is archived, too; what nobody has received is shown until then."""
    bench.start(flow(*s("a"), human("h")))
    bench.engine.signal(bench.workflow_id, {"n": 1}, task="h")
    bench.engine.signal(bench.workflow_id, {"n": 2}, task="h")
    work(bench)
    before = bench.engine.messages(bench.workflow_id)
    assert [(message.number, message.receiver) for message in before] == [(1, "h"), (2, None)]
    bench.engine.admin.archive(bench.workflow_id)
    assert bench.engine.messages(bench.workflow_id) == before
    bench.engine.admin.remove(bench.workflow_id)
    assert bench.engine.admin.check() == []


def handler(ref: str, output: Any = None) -> EventHandler:
    """Completes a task of the execution that a message names."""
    body = TaskDetails(workflow_id="${wf}", task_ref_name=ref, output=output or {"n": "${n}"})
    return EventHandler(name="h", event="e", active=True, actions=[EventAction(action="complete_task", complete_task=body)])


def test_an_action_is_kept_for_the_task(bench: Bench) -> None:
    """In the commit of its record; the message that comes again changes nothing."""
    run = bench.start(flow(*s("a"), wait("w"), *s("z")))
    bench.engine.events.register(handler("w"))
    for _ in range(2):
        (done,) = bench.engine.events.publish("e", {"wf": run.workflow_id, "n": 5}, message_id="m")
        assert (done.status, done.output_data["kept"]) == (EventStatus.COMPLETED, True)
    assert len(bench.engine.messages(run.workflow_id)) == 1
    assert work(bench) == "a z"
    assert bench.task("w").output_data["n"] == 5
    assert bench.engine.admin.check() == []


def test_an_action_that_could_not_be_carried_out_is_shown(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """FAILED in its record, in the log, in the explanation of the execution."""
    run = bench.start(flow(*s("a"), wait("w")))
    bench.engine.events.register(handler("nobody"))
    with caplog.at_level(logging.WARNING, "conductorlite.events"):
        (done,) = bench.engine.events.publish("e", {"wf": run.workflow_id}, message_id="m")
    why = f"no task 'nobody' of workflow {run.workflow_id} is open: the definition has no task 'nobody'"
    assert (done.status, done.output_data["error"]) == (EventStatus.FAILED, why)
    assert [record.getMessage() for record in caplog.records] == [
        f"event handler h: complete_task for message m of e: FAILED: {why}"
    ]
    assert f"Event handler h could not complete_task just now: {why}" in str(bench.engine.explain(run.workflow_id))
