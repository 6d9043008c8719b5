"""`send` and PULL_WORKFLOW_MESSAGES: order, once, bounds, deadlines, pauses, and what becomes of messages afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from engine_kit import Bench, flow, fork, join, rounds, simple, wait
from rerun_kit import s, stand, sub, work

from conductorlite import (
    AsyncEngine,
    Engine,
    EngineConfig,
    Explanation,
    TaskContext,
    VirtualClock,
    Workers,
    WorkflowDef,
    WorkflowTask,
    validate,
)
from conductorlite import flow as as_flow
from conductorlite.errors import (
    Conflict,
    ExecutionEnded,
    ExecutionNotFound,
    InvalidInput,
    KeyTaken,
    MailboxFull,
    Parked,
    PayloadTooLarge,
)
from conductorlite.flows import receive
from conductorlite.store.locks import InProcessLock
from conductorlite.store.ports import Backend
from conductorlite.testing import replay

J = dict[str, Any]


def pull(ref: str, **inputs: Any) -> WorkflowTask:
    """A PULL_WORKFLOW_MESSAGES."""
    return WorkflowTask(name=ref, task_reference_name=ref, type="PULL_WORKFLOW_MESSAGES", input_parameters=inputs)


def got(bench: Bench, ref: str) -> list[Any]:
    """The values that a task has received."""
    output = bench.task(ref).output_data
    assert output["count"] == len(output["messages"])
    return [message["payload"] for message in output["messages"]]


def receivers(bench: Bench) -> list[str | None]:
    """Who has received each message, in order."""
    return [message.receiver for message in bench.engine.messages(bench.workflow_id)]


def test_a_message_is_received_as_beside_a_real_server(bench: Bench) -> None:
    """The output is Conductor's: id, workflowId, payload and receivedAt of each message, and how many there are."""
    bench.start(flow(pull("p"), *s("z")))
    message = bench.engine.send(bench.workflow_id, "messages", {"text": "hello"})
    assert (message.number, message.receiver) == (1, "p")
    (received,) = bench.task("p").output_data["messages"]
    assert received.keys() == {"id", "workflowId", "payload", "receivedAt"}
    assert received | {"receivedAt": ""} == {
        "id": message.key, "workflowId": bench.workflow_id, "payload": {"text": "hello"}, "receivedAt": ""
    }  # fmt: skip
    assert received["receivedAt"].endswith("Z")
    assert bench.task("p").output_data["count"] == 1
    assert work(bench) == "z"
    assert bench.engine.admin.check() == []


def test_what_came_early_is_received_in_order(bench: Bench) -> None:
    """Each topic has its own order; a batch takes what there is, and the next task what is left."""
    bench.start(flow(*s("a"), pull("p", topic="x", batchSize=2), pull("q", topic="x"), pull("r", topic="y"), *s("z")))
    for topic, value in (("x", 1), ("y", "other"), ("x", 2), ("x", 3), ("x", 4)):
        assert bench.engine.send(bench.workflow_id, topic, value).receiver is None
    said = str(bench.engine.explain(bench.workflow_id))
    assert "5 messages are kept that no task has received: 4 of topic x and 1 of topic y" in said
    assert work(bench) == "a z"
    assert [got(bench, ref) for ref in "pqr"] == [[1, 2], [3], ["other"]]
    assert receivers(bench) == ["p", "r", "p", "q", None]
    assert bench.engine.admin.check() == []


def test_the_receiver_that_began_first_is_given_it(bench: Bench) -> None:
    """Of several that wait for a topic; each message is received once."""
    branches = fork("f", [pull("p", topic="x")], [pull("q", topic="x")], [pull("r", topic="y")])
    bench.start(flow(branches, join("j", "p", "q", "r"), *s("z")))
    assert [bench.engine.send(bench.workflow_id, "x", n).receiver for n in range(3)] == ["p", "q", None]
    assert bench.engine.send(bench.workflow_id, "y").receiver == "r"
    assert [got(bench, ref) for ref in "pqr"] == [[0], [1], [None]]


def test_a_key_is_sent_once(bench: Bench) -> None:
    """With the same value nothing more is kept; with another one it is an error; without a key each one is new."""
    bench.start(flow(*s("a"), pull("p", topic="x", batchSize=9)))
    first = bench.engine.send(bench.workflow_id, "x", {"n": 1}, key="k")
    assert bench.engine.send(bench.workflow_id, "x", {"n": 1}, key="k") == first
    with pytest.raises(Conflict, match="message 1 of topic 'x' has the key 'k' and another value"):
        bench.engine.send(bench.workflow_id, "x", {"n": 2}, key="k")
    bench.engine.send(bench.workflow_id, "y", {"n": 2}, key="k")
    bench.engine.send(bench.workflow_id, "x", {"n": 1})
    work(bench)
    assert got(bench, "p") == [{"n": 1}, {"n": 1}]
    assert bench.engine.messages(bench.workflow_id)[0].receiver == "p"
    with pytest.raises(ExecutionEnded):
        bench.engine.send(bench.workflow_id, "x", {"n": 1})


def test_at_the_deadline_the_message_wins(bench: Bench) -> None:
    """One that is sent at that instant is received; without one the task ends with none."""
    bench.start(flow(pull("p", topic="x", duration="1 minute"), pull("q", topic="x", duration="1 minute"), *s("z")))
    assert "goes on without one in 1 min" in str(bench.engine.explain(bench.workflow_id))
    bench.clock.move_to(bench.clock.now() + 60_000)
    assert bench.engine.send(bench.workflow_id, "x", "late").receiver == "p"
    assert got(bench, "p") == ["late"]
    bench.engine.advance("1m")
    assert got(bench, "q") == []
    assert work(bench) == "z"
    assert bench.engine.admin.check() == []


@pytest.mark.parametrize(("blocking", "status"), [(False, "COMPLETED"), ("no", "IN_PROGRESS"), (True, "IN_PROGRESS")])
def test_what_does_not_block(bench: Bench, blocking: object, status: str) -> None:
    """Only `false` ends the task at once without a message."""
    bench.start(flow(pull("p", blocking=blocking), *s("z")))
    assert bench.task("p").status == status


@pytest.mark.parametrize(("size", "count"), [(0, 1), (-3, 1), (2.9, 2), ("5", 1), (500, 3)])
def test_batch_sizes(bench: Bench, size: object, count: int) -> None:
    """The nearest number from 1 to 100; what is no number is one."""
    bench.start(flow(*s("a"), pull("p", batchSize=size), *s("z")))
    for n in range(3):
        bench.engine.send(bench.workflow_id, "messages", n)
    work(bench)
    assert len(got(bench, "p")) == count


def test_while_paused(bench: Bench) -> None:
    """A task that waits receives; what follows, and what is kept, waits for the resumption."""
    bench.start(flow(pull("p", topic="x"), pull("q", topic="x"), *s("z")))
    bench.engine.pause(bench.workflow_id)
    assert [bench.engine.send(bench.workflow_id, "x", n).receiver for n in range(2)] == ["p", None]
    assert stand(bench) == "PAUSED: p COMPLETED"
    bench.engine.resume(bench.workflow_id)
    assert work(bench) == "z"
    assert receivers(bench) == ["p", "q"]


def test_an_event_loop(bench: Bench) -> None:
    """A loop takes message after message, in one turn each, however many there are."""
    bench.start(flow(rounds("l", [pull("p", topic="x")], 20), *s("z")))
    for n in range(20):
        bench.engine.send(bench.workflow_id, "x", n)
    assert work(bench) == "z"
    assert [got(bench, f"p__{n}") for n in range(1, 21)] == [[n] for n in range(20)]


def test_what_is_run_again_receives_again(bench: Bench) -> None:
    """Tasks that are taken back give their messages back, in order; the others keep theirs."""
    bench.start(flow(pull("p", topic="x"), pull("q", topic="x"), pull("r", topic="x"), *s("z")))
    for n in range(3):
        bench.engine.send(bench.workflow_id, "x", n)
    bench.engine.rerun(bench.workflow_id, from_task="q")
    bench.engine.settle()
    assert [got(bench, ref) for ref in "pqr"] == [[0], [1], [2]]
    work(bench)
    bench.engine.restart(bench.workflow_id)
    bench.engine.settle()
    assert [got(bench, ref) for ref in "pqr"] == [[0], [1], [2]]
    assert work(bench) == "z"
    assert bench.engine.admin.check() == []


def test_what_nobody_received_is_kept_to_the_end(bench: Bench) -> None:
    """It is shown, archived and exported with the execution; nothing more can be sent."""
    bench.start(flow(pull("p", topic="x"), *s("z")))
    bench.engine.send(bench.workflow_id, "y", {"for": "nobody"})
    bench.engine.send(bench.workflow_id, "x", 1)
    work(bench)
    with pytest.raises(ExecutionEnded, match="a COMPLETED workflow takes no message"):
        bench.engine.send(bench.workflow_id, "x")
    assert "1 of topic y" in str(bench.engine.explain(bench.workflow_id))
    document = bench.engine.admin.export(bench.workflow_id)
    replay(document)
    before = bench.engine.messages(bench.workflow_id)
    bench.engine.admin.archive(bench.workflow_id)
    assert bench.engine.messages(bench.workflow_id) == before
    with pytest.raises(ExecutionNotFound):
        bench.engine.send(bench.workflow_id, "x")


def test_bounds_and_bad_input(bench: Bench) -> None:
    """Each says what is wrong, and nothing is kept of it."""
    bench.start(flow(*s("a"), pull("p", topic="x")))
    odd: Any = 7
    for given, options in (
        (("", 1), {}), (("x" * 256, 1), {}), ((odd, 1), {}), (("task:p", 1), {}), (("x", object()), {}),
        (("x", 1), {"key": ""}), (("x", 1), {"key": odd}),
    ):  # fmt: skip
        with pytest.raises(InvalidInput):
            bench.engine.send(bench.workflow_id, *given, **options)
    with pytest.raises(PayloadTooLarge):
        bench.engine.send(bench.workflow_id, "x", "x" * 11_000_000)
    with pytest.raises(ExecutionNotFound):
        bench.engine.send("nobody", "x")
    assert bench.engine.messages(bench.workflow_id) == []
    for _ in range(1_000):
        bench.engine.send(bench.workflow_id, "x")
    with pytest.raises(MailboxFull, match="no more than 1000"):
        bench.engine.send(bench.workflow_id, "x")
    work(bench)
    assert receivers(bench)[:2] == ["p", None]
    assert bench.engine.admin.check() == []


def test_an_execution_that_is_parked_takes_none(bench: Bench) -> None:
    """It says so: nothing is kept that no turn was taken for."""
    bench.start(flow(pull("p")))
    with bench.engine.backend.writing() as tx:
        tx.executions.park(bench.workflow_id, 3, "broken")
    with pytest.raises(Parked):
        bench.engine.send(bench.workflow_id, "messages")


def test_while_another_engine_has_the_lock(new_store: Callable[[], Backend]) -> None:
    """The message is left to its next turn, and has no number until then."""
    lock = InProcessLock(lease=None)
    with Engine(new_store(), clock=VirtualClock(0), config=EngineConfig(lock=lock)) as engine:
        run = engine.start(flow(pull("p")))
        token = lock.try_acquire(run.workflow_id, engine.clock.now())
        assert token is not None
        left = engine.send(run.workflow_id, "messages", {"n": 1}, key="k")
        assert (left.number, left.key, left.value.value, left.receiver) == (0, "k", {"n": 1}, None)
        assert engine.messages(run.workflow_id) == []
        lock.release(run.workflow_id, token)
        engine.run_until_idle()
        assert [(one.number, one.receiver) for one in engine.messages(run.workflow_id)] == [(1, "p")]


def test_a_message_that_is_refused_later_is_logged(new_store: Callable[[], Backend], caplog: pytest.LogCaptureFixture) -> None:
    """It was left to the next turn, and the key has another value by then: no caller hears of it."""
    lock = InProcessLock(lease=None)
    with Engine(new_store(), clock=VirtualClock(0), config=EngineConfig(lock=lock)) as engine:
        run = engine.start(flow(pull("p")))
        engine.send(run.workflow_id, "other", 1, key="k")
        token = lock.try_acquire(run.workflow_id, engine.clock.now())
        assert token is not None
        engine.send(run.workflow_id, "other", 2, key="k")
        lock.release(run.workflow_id, token)
        engine.settle()
        (said,) = [record.getMessage() for record in caplog.records if "is refused" in record.getMessage()]
        assert said.endswith("left to its next turn is refused: message 1 of topic 'other' has the key 'k' and another value")


def test_a_batch_is_no_larger_than_an_output_may_be(bench: Bench) -> None:
    """What would make the output too large is left to the next task."""
    bench.start(flow(*s("a"), pull("p", batchSize=9), pull("q", batchSize=9)))
    for n in range(3):
        bench.engine.send(bench.workflow_id, "messages", f"{n}" * 4_000_000)
    work(bench)
    assert [[value[0] for value in got(bench, ref)] for ref in "pq"] == [["0", "1"], ["2"]]


def test_a_child_has_a_mailbox_of_its_own(bench: Bench) -> None:
    """A message goes to the execution that is named."""
    bench.start(flow(sub("c", flow(pull("p"), name="inner")), pull("p")))
    bench.engine.settle()
    child_id = bench.task("c").sub_workflow_id or ""
    bench.engine.send(bench.workflow_id, "messages", "parent")
    assert bench.engine.get(child_id).task("p").status == "IN_PROGRESS"
    bench.engine.send(child_id, "messages", "child")
    bench.engine.settle()
    assert got(bench, "p") == ["parent"]
    assert bench.engine.get(child_id).output.value["count"] == 1


def test_a_migration_names_what_has_no_receiver(bench: Bench) -> None:
    """Topics and signals that no task of the new definition receives; a task that is renamed still receives its signal."""
    bench.start(flow(*s("a"), wait("w"), pull("p", topic="x")))
    bench.engine.signal(bench.workflow_id, {"n": 1}, task="w")
    bench.engine.send(bench.workflow_id, "x", 1)
    bench.engine.send(bench.workflow_id, "x", 2)
    new = flow(*s("a"), wait("v"), version=2)
    plan = bench.engine.definitions.migrate(bench.workflow_id, new, dry_run=True)
    assert "1 message for w: received by no task of the new definition" in plan.notes
    assert "2 messages of topic x: received by no task of the new definition" in plan.notes
    plan = bench.engine.definitions.migrate(bench.workflow_id, new, refs={"w": "v"})
    assert not any("message for" in note for note in plan.notes)
    work(bench)
    assert bench.task("v").output_data == {"n": 1}
    assert bench.engine.admin.check() == []


def test_a_worker_sends_the_same_ones_again(bench: Bench) -> None:
    """A later attempt that sends as many messages sends none that was sent before."""
    workers, tried = Workers(), []

    @workers.task("tell")
    def tell(to: str, context: TaskContext = TaskContext.given) -> None:
        tried.append(context.attempt)
        context.send(to, "x", "one")
        context.send(to, "x", "two")
        if context.attempt == 0:
            raise ValueError("once more")

    with Engine(clock=VirtualClock(0), workers=workers) as engine:
        target = engine.start(flow(*s("a"), pull("p", topic="x")))
        definition: J = {
            "name": "w", "tasks": [{
                "name": "tell", "taskReferenceName": "t", "inputParameters": {"to": target.workflow_id},
                "taskDefinition": {"name": "tell", "retryCount": 1, "retryDelaySeconds": 1},
            }],
        }  # fmt: skip
        engine.start(WorkflowDef.from_json(definition)).result()
        assert tried == [0, 1]
        assert [message.value.value for message in engine.messages(target.workflow_id)] == ["one", "two"]


def test_definitions_are_checked() -> None:
    """A topic that is none, and two ends of a wait, are errors; a size out of range is warned of."""
    wrong = flow(pull("p", topic=7, duration="1 m", until="2030-01-01 00:00", batchSize=0))
    found = [(problem.path, problem.severity) for problem in validate(wrong)]
    assert ("$.tasks[0].inputParameters.topic", "error") in found
    assert ("$.tasks[0].inputParameters", "error") in found
    assert ("$.tasks[0].inputParameters.batchSize", "warning") in found
    assert validate(flow(pull("p", topic="${workflow.input.t}", batchSize="${workflow.input.n}"))) == []


def test_a_topic_that_turns_out_to_be_none_fails_the_task(bench: Bench) -> None:
    """For good, with the reason."""
    bench.start(flow(pull("p", topic="${workflow.input.t}")), {"t": {"no": "text"}})
    assert bench.task("p").status == "FAILED_WITH_TERMINAL_ERROR"
    assert "is no topic" in (bench.task("p").reason or "")


def test_explain_says_what_it_waits_for(bench: Bench) -> None:
    """By its topic."""
    bench.start(flow(pull("p", topic="news")))
    explanation = bench.engine.explain(bench.workflow_id)
    assert isinstance(explanation, Explanation)
    assert "p (PULL_WORKFLOW_MESSAGES) waits for a message of topic news" in str(explanation)


def test_it_comes_with_the_start(bench: Bench) -> None:
    """In one commit with the first turn: a first task receives it then, a later one later."""
    first, later = flow(pull("p", topic="t"), name="first"), flow(*s("a"), pull("p", topic="t"), *s("z"), name="later")
    message = {"topic": "t", "value": {"n": 1}, "key": "k"}
    commits: list[int] = []
    bench.engine.listen(lambda workflow, lines: commits.append(len(lines)))
    assert bench.start(first, message=message).status == "COMPLETED"
    assert len(commits) == 1
    bench.start(later, delay="1m", message=message)
    assert [(one.number, one.key, one.receiver) for one in bench.engine.messages(bench.workflow_id)] == [(1, "k", None)]
    bench.engine.advance("1m")
    assert work(bench) == "a z"
    assert got(bench, "p") == [{"n": 1}]
    bench.engine.pause(bench.start(later, message={"topic": "t"}).workflow_id)
    assert [one.value.value for one in bench.engine.messages(bench.workflow_id)] == [None]
    assert bench.engine.admin.check() == []


def test_a_start_that_comes_again_sends_it_once(bench: Bench) -> None:
    """By its own key, to the execution that holds the idempotency key; without a key it is another one; FAIL sends nothing."""
    waits = flow(*s("a"), pull("p", topic="t"))
    again = {"idempotency_key": "o-7", "idempotency_strategy": "RETURN_EXISTING"}
    run = bench.start(waits, **again, message={"topic": "t", "value": 1, "key": "k"})
    assert bench.engine.start(waits, **again, message={"topic": "t", "value": 1, "key": "k"}) == run
    assert bench.engine.start(waits, **again, message={"topic": "t", "value": 2}) == run
    assert [one.value.value for one in bench.engine.messages(run.workflow_id)] == [1, 2]
    with pytest.raises(Conflict, match="another value"):
        bench.engine.start(waits, **again, message={"topic": "t", "value": 3, "key": "k"})
    with pytest.raises(KeyTaken):
        bench.engine.start(waits, idempotency_key="o-7", message={"topic": "t", "value": 4})
    assert len(bench.engine.messages(run.workflow_id)) == 2
    bench.engine.terminate(run.workflow_id)
    assert bench.engine.start(waits, **again, message={"topic": "t", "value": 1, "key": "k"}) == run
    with pytest.raises(ExecutionEnded):
        bench.engine.start(waits, **again, message={"topic": "t", "value": 5})
    other = bench.engine.start(
        waits, idempotency_key="o-7", idempotency_strategy="FAIL_ON_RUNNING", message={"topic": "t", "value": 6}
    )
    assert [one.value.value for one in bench.engine.messages(other.workflow_id)] == [6]


def test_a_start_with_a_wrong_message_stores_nothing(bench: Bench) -> None:
    """Its errors are those of `send`."""
    waits = flow(pull("p"))
    wrong: list[tuple[Any, str]] = [
        ({}, "topic: 'None' is not a text"),
        ({"topic": "task:p"}, "is that of signals"),
        ({"topic": "t", "key": ""}, "key: '' is not a text"),
        ({"topic": "t", "payload": 1}, "message: a message has no 'payload'"),
        ("t", "message"),
        ({"topic": "t", "value": object()}, "value"),
    ]
    for message, said in wrong:
        with pytest.raises(InvalidInput, match=said):
            bench.engine.start(waits, message=message)
    with pytest.raises(PayloadTooLarge):
        bench.engine.start(waits, message={"topic": "t", "value": "x" * 11_000_000})
    assert bench.engine.executions() == []


def test_it_waits_for_a_slot_with_the_execution(bench: Bench) -> None:
    """An execution that a limit lets wait keeps its message meanwhile."""
    limited = WorkflowDef.from_json({
        "name": "limited", "rateLimitConfig": {"rateLimitKey": "k", "concurrentExecLimit": 1},
        "tasks": [{"name": "p", "taskReferenceName": "p", "type": "PULL_WORKFLOW_MESSAGES", "inputParameters": {"topic": "t"}}],
    })  # fmt: skip
    first = bench.start(limited)
    second = bench.start(limited, message={"topic": "t", "value": 1})
    assert [one.receiver for one in bench.engine.messages(second.workflow_id)] == [None]
    assert bench.engine.admin.check() == []
    bench.engine.send(first.workflow_id, "t", 0)
    bench.engine.settle()
    assert (first.status, second.status) == ("COMPLETED", "COMPLETED")
    assert got(bench, "p") == [1]


def test_a_message_holds_no_slot_of_a_tasks_limit(bench: Bench) -> None:
    """Neither while it is kept, nor when it is received: the one slot goes from task to task."""
    limited = {"concurrent_exec_limit": 1}
    both = flow(fork("f", [simple("a", limited)], [pull("p", topic="t"), pull("q", topic="t")]), join("j", "a", "q"))
    first, second = bench.start(both), bench.start(both)
    held = bench.take("a")
    for run in (first, second):
        for number in range(3):
            bench.engine.send(run.workflow_id, "t", number)
    bench.engine.settle()
    statuses = [bench.engine.get(run.workflow_id).task("q").status for run in (first, second)]
    assert statuses == ["COMPLETED", "COMPLETED"], "no slot is needed"
    assert bench.poll("a") is None, "no slot was freed"
    bench.report(held)
    assert first.status == "COMPLETED"
    bench.report(bench.take("a"))
    assert second.status == "COMPLETED"
    assert bench.engine.admin.check() == []


def test_a_message_holds_no_slot_of_an_executions_limit(bench: Bench) -> None:
    """An execution that ends with messages nobody received gives its slot back; those sent to who waits for one take none."""
    limited = WorkflowDef.from_json({
        "name": "limited", "rateLimitConfig": {"rateLimitKey": "k", "concurrentExecLimit": 1},
        "tasks": [{"name": "a", "taskReferenceName": "a"}],
    })  # fmt: skip
    runs = [bench.start(limited) for _ in range(3)]
    for run in reversed(runs):
        for number in range(2):
            bench.engine.send(run.workflow_id, "t", number)
    for run in runs:
        task = bench.take("a")
        assert task.workflow_id == run.workflow_id, "in order of their starts"
        assert bench.poll("a") is None
        bench.report(task)
        assert run.status == "COMPLETED"
        assert [one.receiver for one in bench.engine.messages(run.workflow_id)] == [None, None]
    assert bench.engine.admin.check() == []


def test_a_flow_starts_with_a_message() -> None:
    """As an option of the start, on either engine."""

    @as_flow
    def order(number: str) -> str:
        paid: str = receive("payments", str)
        return paid

    message = {"topic": "payments", "value": "Ada", "key": "evt-1"}
    with Engine(clock=VirtualClock(0)) as engine:
        once = order.options(idempotency_key="o-7", message=message)
        assert engine.start(once, "o-7").result() == "Ada"

    async def awaited() -> str:
        async with AsyncEngine(clock=VirtualClock(0)) as engine:
            return await (await engine.start(order.options(message=message), "o-7")).result()

    assert asyncio.run(awaited()) == "Ada"
