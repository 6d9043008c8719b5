"""A message acts once: delivered three times, with a crash at every write between, by several engines, by an EVENT task."""

from __future__ import annotations

import tempfile
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from engine_kit import T0, flow, simple, wait
from hypothesis import given
from hypothesis import strategies as st

from conductorlite import (
    Engine,
    EngineConfig,
    EventAction,
    EventHandler,
    TaskDef,
    TaskStatus,
    VirtualClock,
    WorkflowDef,
    WorkflowStatus,
    WorkflowTask,
)
from conductorlite.errors import InvalidInput, SinkError, SourceError, StorageBusy
from conductorlite.ext.sinks import MemoryQueue
from conductorlite.ext.workers import system_workers
from conductorlite.model.handlers import EventStatus, StartWorkflow, TaskDetails, UpdateWorkflowVariables
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import EventMessage
from conductorlite.testing import ScriptedWorkers, crash_everywhere, start_once
from conductorlite.testing.faults import Crash, FaultyBackend, Store

HANDLER = EventHandler(
    name="on_order",
    event="shop:order",
    active=True,
    condition="$.amount > 10",
    actions=[
        EventAction(action="start_workflow", start_workflow=StartWorkflow(name="pay", input={"order": "${order}"})),
        EventAction(
            action="complete_task",
            complete_task=TaskDetails(workflow_id="basket", task_ref_name="paid", output={"by": "${order}"}),
        ),
        EventAction(
            action="update_workflow_variables",
            update_workflow_variables=UpdateWorkflowVariables(
                workflow_id="basket", variables={"seen": ["${order}"]}, append_array=True
            ),
        ),
    ],
)
OTHER = EventHandler(
    name="other",
    event="shop:order",
    active=True,
    condition="$.amount > 1000",
    actions=[EventAction(action="start_workflow", start_workflow=StartWorkflow(name="pay"))],
)
PAY = flow(simple("charge", {"retry_count": 3, "response_timeout_s": 10}), name="pay")
BASKET = flow(wait("paid"), wait("shipped", duration="5s"), name="basket", variables={"seen": []})
PAYLOAD = {"order": "o7", "amount": 12}


def _prepare(engine: Engine) -> None:
    engine.register(PAY)
    for handler in (HANDLER, OTHER):
        if handler not in engine.events.all():
            engine.events.register(handler)
    start_once(engine, BASKET, workflow_id="basket")


@pytest.mark.parametrize(
    ("store", "every"),
    [("sqlite", 7), *(pytest.param(store, 1, marks=pytest.mark.slow) for store in ("memory", "relay"))],
)
def test_delivered_three_times_with_a_crash_at_every_write(store: str, every: int) -> None:
    """Whatever write the process dies at, the message delivered again leads to one payment, one completion, one entry."""

    def scenario(engine: Engine) -> None:
        _prepare(engine)
        for _ in range(3):
            done = engine.events.publish("shop:order", PAYLOAD, message_id="m1")
            assert [(one.name, one.number, str(one.status)) for one in done] == [
                ("on_order", 0, "COMPLETED"), ("on_order", 1, "COMPLETED"), ("on_order", 2, "COMPLETED"), ("other", 0, "SKIPPED"),
            ]  # fmt: skip
            assert all("error" not in one.output_data for one in done)
        engine.run_until_idle()
        assert len(engine.executions("pay")) == 1
        basket = engine.get("basket")
        assert basket.variables.value == {"seen": ["o7"]}
        assert basket.task("paid").output_data["by"] == "o7"
        assert len(engine.events.executions()) == 4

    points = crash_everywhere(scenario, lambda workers: workers.charge.returns({}), stores=[store], every=every)
    assert points > 30 // every


@pytest.mark.slow
def test_an_event_task_and_a_handler_are_exactly_once() -> None:
    """EVENT → handler → execution in one process, without a broker: killed at every write, one order is one shipment."""
    event = WorkflowTask(
        name="tell",
        task_reference_name="tell",
        type="EVENT",
        sink="conductor:ordered",
        input_parameters={"order": "${workflow.input.order}"},
        task_definition=TaskDef(name="tell", retry_count=3, retry_delay_ms=1_000, response_timeout_ms=5_000),
    )
    handler = EventHandler(
        name="ship",
        event="conductor:order:ordered",
        active=True,
        actions=[
            EventAction(action="start_workflow", start_workflow=StartWorkflow(name="ship", input={"order": "${order}"})),
            EventAction(
                action="complete_task",
                complete_task=TaskDetails(workflow_id="${workflowInstanceId}", task_ref_name="known"),
            ),
        ],
    )
    join = WorkflowTask(name="j", task_reference_name="j", type="JOIN", join_on=["tell", "known"])
    fork = WorkflowTask(name="f", task_reference_name="f", type="FORK_JOIN", fork_tasks=[[wait("known")], [event]])

    def scenario(engine: Engine) -> None:
        engine.register(flow(wait("w", duration="2s"), name="ship"))
        if not engine.events.all():
            engine.events.register(handler)
        run = start_once(engine, flow(fork, join, name="order"), {"order": 7}, workflow_id="order-7")
        engine.run_until_idle()
        assert run.workflow.status is WorkflowStatus.COMPLETED
        (shipment,) = engine.executions("ship")
        assert engine.get(shipment.workflow_id).input_data["order"] == 7
        assert [one.status for one in engine.events.executions()] == [EventStatus.COMPLETED] * 2
        tell = run.workflow.task("tell")
        first = next(task for task in run.workflow.tasks if task.ref == "tell" and task.attempt == 0)
        assert {one.message_id for one in engine.events.executions()} == {first.task_id}
        assert tell.status is TaskStatus.COMPLETED

    def script(workers: ScriptedWorkers) -> None:
        workers.include(system_workers())

    # What a function that ran when the process died is told again by the next attempt is its own affair.
    for store in ("memory", "relay", "sqlite"):
        assert _killed_everywhere(scenario, script, store) > 20


def _killed_everywhere(scenario: Any, script: Any, store: str) -> int:
    """Run the scenario, killed before and after each of its writes, and again until it passes; returns how often."""

    def live(opened: Any, clock: VirtualClock) -> None:
        workers = ScriptedWorkers()
        script(workers)
        engine = Engine(opened, workers=workers, clock=clock)
        try:
            scenario(engine)
            assert engine.admin.check() == []
        finally:
            engine.close()

    with tempfile.TemporaryDirectory() as folder:

        def new() -> Store:
            place = Path(tempfile.mkdtemp(dir=folder))
            return Store(store, lambda: place)

        calm = FaultyBackend(new().inner())
        live(calm, VirtualClock(T0))
        for number in range(1, calm.writes + 1):
            for side in ("crash_before", "crash_after"):
                place, clock = new(), VirtualClock(T0)
                inner = place.inner()
                with pytest.raises(Crash):
                    live(FaultyBackend(inner, **{side: number}, keep_open=place.in_memory), clock)
                if not place.in_memory:
                    inner.close()
                live(place.open(), clock)
        return 2 * calm.writes


def test_a_store_that_is_busy_is_asked_again() -> None:
    """An error of the store reaches the publisher; published again, the rest is done and the first action is not repeated."""
    for number in range(1, 40):
        backend = FaultyBackend(MemoryBackend(), fail_before=None)
        with Engine(backend, clock=VirtualClock(T0)) as engine:
            _prepare(engine)
            faulty = FaultyBackend(backend.inner, fail_before=number, error=StorageBusy("busy"))
            with Engine(faulty, clock=engine.clock) as other:
                try:
                    other.events.publish("shop:order", PAYLOAD, message_id="m")
                except StorageBusy:
                    failed = True
                else:
                    failed = False
                    other.driver.settle()
                other.events.publish("shop:order", PAYLOAD, message_id="m")
                other.settle()
                assert [one.status for one in other.events.executions("on_order")] == [EventStatus.COMPLETED] * 3
                assert len(other.executions("pay")) == 1
                assert other.get("basket").variables.value == {"seen": ["o7"]}
                assert other.admin.check() == []
            if not failed:
                assert number > 5
                return


def test_two_engines_on_one_file(tmp_path: Path) -> None:
    """Many deliveries of the same messages at once, by engines of their own, act once each."""
    path = tmp_path / "s.db"
    with Engine(path) as engine:
        _prepare(engine)
    errors: list[BaseException] = []

    def deliver() -> None:
        try:
            with Engine(path) as mine:
                for number in range(8):
                    mine.events.publish("shop:order", {"order": number, "amount": 12}, message_id=f"m{number}")
        except BaseException as error:
            errors.append(error)

    threads = [Thread(target=deliver) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with Engine(path, clock=VirtualClock(2 * T0)) as engine:
        engine.settle()
        assert sorted(row.input_data["order"] for row in engine.executions("pay")) == list(range(8))
        assert sorted(engine.get("basket").variables.value["seen"]) == list(range(8))


@given(deliveries=st.lists(st.integers(0, 3), max_size=12), cut=st.integers(0, 12))
def test_any_deliveries_in_any_order_act_once_a_message(deliveries: list[int], cut: int) -> None:
    """The executions there are, are those of the different messages; a new engine half way changes nothing."""
    backend, clock = MemoryBackend(), VirtualClock(T0)
    engine = Engine(backend, clock=clock)
    _prepare(engine)
    for place, number in enumerate(deliveries):
        if place == cut:
            engine = Engine(backend, clock=clock)
        engine.events.publish("shop:order", {"order": number, "amount": 12}, message_id=str(number))
    assert sorted(row.input_data["order"] for row in engine.executions("pay")) == sorted(set(deliveries))
    assert sorted(engine.get("basket").variables.value["seen"]) == sorted(set(deliveries))
    assert engine.admin.check() == []


# ---------------------------------------------------------------------- sources


def _listening(*sources: Any, **options: Any) -> Engine:
    engine = Engine(clock=VirtualClock(T0), config=EngineConfig(event_sources=sources), **options)
    _prepare(engine)
    return engine


def test_a_queue_is_handled_step_by_step() -> None:
    """One message a tick, acknowledged when it was handled; idle when there is none."""
    queue = MemoryQueue()
    engine = _listening(queue)
    engine.settle()
    for number in range(3):
        queue.publish("shop:order", {"order": number, "amount": 12}, message_id=f"m{number}")
    assert engine.tick()
    assert [message.message_id for message in queue.messages] == ["m1", "m2"]
    assert len(engine.executions("pay")) == 1
    engine.settle()
    assert queue.messages == ()
    assert len(engine.executions("pay")) == 3
    assert engine.tick() is False


def test_a_message_without_acknowledgement_comes_again() -> None:
    """A crash after the handling and before the acknowledgement: given again to the next engine, it does nothing."""

    class Forgetful(MemoryQueue):
        lost = 1

        def ack(self, message: EventMessage) -> None:
            if self.lost:
                self.lost -= 1
                raise Crash("before the acknowledgement")
            super().ack(message)

    queue, backend, clock = Forgetful(), MemoryBackend(), VirtualClock(T0)
    engine = Engine(backend, clock=clock, config=EngineConfig(event_sources=[queue]))
    _prepare(engine)
    queue.publish("shop:order", PAYLOAD, message_id="m1")
    with pytest.raises(Crash):
        engine.settle()
    assert len(queue.messages) == 1
    again = Engine(backend, clock=clock, config=EngineConfig(event_sources=[queue]))
    again.settle()
    assert queue.messages == ()
    assert len(again.executions("pay")) == 1


def test_what_cannot_be_handled_is_rejected() -> None:
    """A message without an id is put away with the reason, and the next one is handled."""
    queue = MemoryQueue()
    engine = _listening(queue)
    queue.publish("shop:order", PAYLOAD, message_id="")
    queue.publish("shop:order", PAYLOAD, message_id="m1")
    engine.settle()
    ((message, reason),) = queue.rejected
    assert (message.message_id, "message_id" in reason) == ("", True)
    assert (queue.messages, len(engine.executions("pay"))) == ((), 1)


def test_a_source_that_is_away_is_left_alone_for_a_second() -> None:
    """Others are asked meanwhile; a message that was not acknowledged in time is not lost."""

    class Away(MemoryQueue):
        asked = 0
        away = True

        def poll(self, limit: int) -> Any:
            self.asked += 1
            if self.away:
                raise SourceError("the broker is away")
            return super().poll(limit)

    away, queue = Away(), MemoryQueue()
    engine = _listening(away, queue)
    away.publish("shop:order", PAYLOAD, message_id="m1")
    queue.publish("shop:order", PAYLOAD, message_id="m2")
    engine.settle()
    assert (away.asked, queue.messages) == (1, ())
    away.away = False
    engine.advance("1s")
    assert (away.messages, len(engine.executions("pay"))) == ((), 2)


def test_sources_take_turns() -> None:
    """A source that always has messages does not silence another."""
    queues = MemoryQueue(), MemoryQueue()
    engine = _listening(*queues)
    for number in range(4):
        for place, queue in enumerate(queues):
            queue.publish("shop:order", PAYLOAD, message_id=f"{place}{number}")
    for _ in range(2):
        assert engine.driver.listening.take(1)
    assert [len(queue.messages) for queue in queues] == [3, 3]
    engine.settle()
    seen = [one.message_id for one in engine.events.executions("on_order", limit=100)]
    assert len(seen) == 24
    assert queues[0].messages == queues[1].messages == ()


def test_in_real_time(tmp_path: Path) -> None:
    """On the machine's clock a queue is emptied too, and an EVENT with its own sink goes round by way of it."""
    queue = MemoryQueue()
    workers = system_workers(sinks={"conductor": queue})
    event = WorkflowTask(name="e", task_reference_name="e", type="EVENT", sink="conductor:x", input_parameters={"order": 1})
    with Engine(tmp_path / "s.db", workers=workers, config=EngineConfig(event_sources=[queue])) as engine:
        engine.register(WorkflowDef(name="ship", tasks=[WorkflowTask(name="n", task_reference_name="n", type="NOOP")]))
        action = EventAction(action="start_workflow", start_workflow=StartWorkflow(name="ship", input={"order": "${order}"}))
        engine.events.register(EventHandler(name="h", event="conductor:flow:x", actions=[action], active=True))
        engine.start(flow(event)).result(timeout="20s")
        assert engine.run_until_idle("20s")
        (row,) = engine.executions("ship")
        assert (row.input_data["order"], row.status, queue.messages) == (1, WorkflowStatus.COMPLETED, ())


def test_a_full_queue_refuses() -> None:
    """Past its capacity a queue raises SinkError, so that a task that publishes fails and is tried again."""
    queue = MemoryQueue(capacity=1)
    queue.publish("e", {}, message_id="1")
    with pytest.raises(SinkError):
        queue.publish("e", {}, message_id="2")
    for build in (lambda: MemoryQueue(capacity=0), lambda: Engine(config=EngineConfig(event_sources=[object()]))):  # type: ignore[list-item]
        with pytest.raises(InvalidInput):
            build()
