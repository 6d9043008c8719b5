"""Engines that keep what they have started to themselves (`allocation="local"`), and what becomes of it when they are gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
from engine_kit import T0

from conductorlite import (
    Engine,
    EngineConfig,
    EventHandler,
    ResultTimeout,
    StartWorkflowRequest,
    Task,
    TaskResult,
    TaskStatus,
    VirtualClock,
    Workers,
    WorkflowDef,
    WorkflowSchedule,
    WorkflowStatus,
)
from conductorlite.errors import InvalidInput
from conductorlite.store.ports import Backend, Capability
from conductorlite.testing import FaultyBackend

CHAIN = WorkflowDef.from_json({"name": "chain", "tasks": [{"name": name, "taskReferenceName": name} for name in ("a", "b")]})
FAMILY = WorkflowDef.from_json(
    {
        "name": "family",
        "tasks": [
            {
                "name": "child",
                "taskReferenceName": "child",
                "type": "SUB_WORKFLOW",
                "subWorkflowParam": {"name": "chain", "version": 1},
            },
            {"name": "pause", "taskReferenceName": "pause", "type": "WAIT", "inputParameters": {"duration": "10s"}},
        ],
    }
)


def workers() -> Workers:
    """Functions for the tasks of the chain."""
    made = Workers()

    @made.task("a")
    def a() -> dict[str, Any]:
        return {}

    @made.task("b")
    def b() -> dict[str, Any]:
        return {}

    return made


@pytest.fixture
def new_engine(store: Backend) -> Callable[..., Engine]:
    """Makes engines on one store and one clock, which outlive each other."""
    clock = VirtualClock(T0)

    def make(name: str | None = None, backend: Backend | None = None, **options: Any) -> Engine:
        allocation: Literal["shared", "local"] = "shared" if name is None else "local"
        config = EngineConfig(name=name, allocation=allocation)
        options = {"workers": workers(), "clock": clock, "config": config} | options
        engine = Engine(backend or FaultyBackend(store, keep_open=True), **options)
        engine.register(CHAIN, FAMILY)
        return engine

    return make


NewEngine = Callable[..., Engine]


def relayed(engine: Engine, task_type: str) -> list[Task]:
    """What is offered to an engine once all messages have come to their queues."""
    with engine.backend.writing() as tx:
        tx.outbox.deliver(tx.outbox.items(100))
    return engine.poll(task_type)


def test_an_execution_and_its_tasks_are_only_for_the_engine_that_started_it(new_engine: NewEngine) -> None:
    """Nobody else takes its turns or is offered its tasks: the local-only strategy."""
    mine, other, shared = new_engine("one"), new_engine("two"), new_engine()
    run = mine.start("chain")
    for engine in (other, shared):
        assert engine.poll("a") == []
        assert engine.run_until_idle()
        assert engine.admin.next_wakeup() is None
    assert mine.admin.next_wakeup() is not None
    assert run.result() == {}
    assert mine.get(run.workflow_id).owner == "one"
    assert mine.admin.check() == []


def test_what_is_everybodys_is_not_for_those_who_keep_to_themselves(new_engine: NewEngine) -> None:
    """A local engine takes nothing that it has not started; a shared one does."""
    mine, shared = new_engine("one"), new_engine()
    run = shared.start("chain")
    assert relayed(mine, "a") == []
    assert mine.run_until_idle()
    assert run.result() == {}


def test_the_result_of_anothers_execution_says_whose_it_is(new_engine: NewEngine) -> None:
    """Whoever waits for what only another engine drives is told so."""
    mine, shared = new_engine("one"), new_engine()
    run = mine.start("chain")
    with pytest.raises(ResultTimeout, match="belongs to engine 'one'"):
        shared.result(run.workflow_id)
    theirs = shared.start("chain")
    with pytest.raises(ResultTimeout, match="belongs to all engines"):
        mine.result(theirs.workflow_id)


def test_the_name_is_what_is_kept(new_engine: NewEngine) -> None:
    """An engine that comes back under its name finds its executions."""
    run = new_engine("one").start("family")
    again = new_engine("one")
    assert again.result(run.workflow_id) == {}
    assert again.clock.now() == T0 + 10_000


def test_children_belong_to_the_engine_of_their_parent(new_engine: NewEngine) -> None:
    """Whoever takes the turn that starts them, and the parent hears of their end."""
    mine, other = new_engine("one"), new_engine("two")
    run = mine.start("family")
    other.pause(run.workflow_id)
    other.resume(run.workflow_id)
    assert other.run_until_idle()
    assert relayed(other, "a") == []
    assert mine.result(run.workflow_id) == {}
    (child,) = mine.admin.children(run.workflow_id)
    assert child.owner == "one"
    assert mine.admin.check() == []


def test_verbs_and_reports_through_any_engine_count(new_engine: NewEngine) -> None:
    """What is kept apart is driving: whoever has a task may report it, whoever has an id may end it."""
    mine, other = new_engine("one"), new_engine("two")
    run = mine.start("chain")
    (task,) = relayed(mine, "a")
    other.update_task(TaskResult(workflow_id=run.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease))
    assert relayed(other, "b") == []
    assert [t.ref for t in relayed(mine, "b")] == ["b"]
    other.terminate(run.workflow_id)
    assert mine.status(run.workflow_id) is WorkflowStatus.TERMINATED
    assert mine.admin.check() == []


def test_what_a_handler_starts_belongs_to_who_published(new_engine: NewEngine) -> None:
    """The starter of a handler's execution is the engine that was given the message."""
    mine = new_engine("one")
    action = {"action": "start_workflow", "start_workflow": {"name": "chain"}}
    mine.events.register(EventHandler.from_json({"name": "h", "event": "e", "active": True, "actions": [action]}))
    (done,) = mine.events.publish("e", {})
    workflow_id = done.output.value["workflowId"]
    assert mine.get(workflow_id).owner == "one"
    assert mine.result(workflow_id) == {}


def test_a_schedule_belongs_to_who_saved_it(new_engine: NewEngine) -> None:
    """Its instants are started by that engine, and what it starts is that engine's; a take-over takes it along."""
    mine, other = new_engine("one"), new_engine("two")
    request = StartWorkflowRequest(name="chain")
    mine.schedules.save(WorkflowSchedule(name="s", cron_expression="0 * * * * *", zone_id="UTC", start_workflow_request=request))
    other.advance("90s")
    assert list(other.admin.workflow_ids()) == []
    mine.settle()
    assert [other.get(one).owner for one in other.admin.workflow_ids()] == ["one"]
    assert other.admin.take_over("one") == 1
    other.advance("60s")
    mine.settle()
    assert {other.get(one).owner for one in other.admin.workflow_ids()} == {"two"}
    assert len(list(other.admin.workflow_ids())) == 2
    assert [share.name for share in other.admin.engines()] == ["two"]


def test_engines_are_listed_with_what_they_own(new_engine: NewEngine) -> None:
    """Open and ended executions, and events; what is everybody's is not listed."""
    mine, other, shared = new_engine("one"), new_engine("two"), new_engine()
    mine.start("chain").result()
    mine.start("chain")
    other.start("chain", delay="5s")
    shared.start("chain")
    assert {(share.name, share.open, share.ended, share.events) for share in shared.admin.engines()} == {
        ("one", 1, 1, 1),
        ("two", 1, 0, 1),
    }


def test_a_take_over_brings_everything_along(new_engine: NewEngine) -> None:
    """Queued and polled tasks, timers, children that have not begun: all of it goes on with the new owner."""
    dead, heir = new_engine("dead", workers=Workers()), new_engine("heir")
    runs = [dead.start("family"), dead.start("chain"), dead.start("chain", delay="5s")]
    (task,) = relayed(dead, "a")
    moved = heir.admin.take_over("dead")
    assert moved >= 3
    assert heir.admin.take_over("dead") == 0
    assert [share.name for share in heir.admin.engines()] == ["heir"]
    heir.update_task(TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease))
    for run in runs:
        assert heir.result(run.workflow_id) == {}
    assert dead.run_until_idle()
    assert heir.admin.check() == []


def test_a_zombie_is_fenced_out(store: Backend, new_engine: NewEngine) -> None:
    """What an engine has decided and not committed when it is taken over is not committed; its event counts after all."""
    faulty = FaultyBackend(store, keep_open=True)
    dead, heir = new_engine("dead", faulty), new_engine("heir")
    run = dead.start("chain")
    (task,) = relayed(dead, "a")
    before = len(faulty.journal)

    def taken_over() -> None:
        faulty.on_writing = None
        assert heir.admin.take_over("dead") == 1

    faulty.on_writing = taken_over
    dead.update_task(TaskResult(workflow_id=run.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease))
    assert faulty.journal[before:].count("apply REPORT") == 2
    assert heir.get(run.workflow_id).owner == "heir"
    assert dead.poll("b") == []
    assert heir.result(run.workflow_id) == {}
    assert heir.admin.check() == []


def test_a_poll_that_is_under_way_gets_nothing_of_what_is_taken_over(store: Backend, new_engine: NewEngine) -> None:
    """What it has found was its engine's; by now it is offered by the heir, to whose workers it goes."""
    faulty = FaultyBackend(store, keep_open=True)
    dead, heir = new_engine("dead", faulty), new_engine("heir")
    dead.start("chain")
    with store.writing() as tx:
        tx.outbox.deliver(tx.outbox.items(100))

    def taken_over() -> None:
        faulty.on_writing = None
        assert heir.admin.take_over("dead") == 1

    faulty.on_writing = taken_over
    assert dead.poll("a") == []
    assert [task.ref for task in relayed(heir, "a")] == ["a"]
    assert heir.admin.check() == []


def test_a_child_that_begins_while_it_is_taken_over(store: Backend, new_engine: NewEngine) -> None:
    """It has no row and no fence yet: it belongs to whom its event belongs when it begins."""
    if Capability.IMMEDIATE not in store.capabilities:
        pytest.skip("there a child begins in a turn of the driver's, as in the next test")
    faulty = FaultyBackend(store, keep_open=True)
    dead, heir = new_engine("dead", faulty), new_engine("heir")
    writes = 0

    def second() -> None:
        nonlocal writes
        writes += 1
        if writes == 2:
            heir.admin.take_over("dead")

    faulty.on_writing = second
    run = dead.start("family")
    faulty.on_writing = None
    assert {heir.get(one).owner for one in heir.admin.workflow_ids()} == {"heir"}
    assert heir.result(run.workflow_id) == {}
    assert heir.admin.check() == []


def test_from_one_to_all_and_back(new_engine: NewEngine) -> None:
    """A shared engine that takes over makes it everybody's; None takes over what is everybody's."""
    mine, shared = new_engine("one"), new_engine()
    run = mine.start("chain")
    assert shared.admin.take_over("one") == 1
    assert shared.admin.engines() == []
    assert [task.ref for task in relayed(shared, "a")] == ["a"]
    assert mine.admin.take_over(None) == 1
    assert mine.get(run.workflow_id).owner == "one"
    assert mine.admin.check() == []


def test_more_than_one_page_is_taken_over(new_engine: NewEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, all of them go, a page in each commit."""
    monkeypatch.setattr("conductorlite.engine.admin._PAGE", 2)
    dead, heir = new_engine("dead"), new_engine("heir")
    for _ in range(5):
        dead.start("chain")
    assert heir.admin.take_over("dead") == 5
    heir.run_until_idle()
    assert {heir.status(one) for one in heir.admin.workflow_ids()} == {WorkflowStatus.COMPLETED}


def test_names(store: Backend) -> None:
    """A local engine needs a name that can be kept; and nobody takes over from itself."""
    for options in ({"allocation": "local"}, {"name": "a/b"}, {"name": ""}, {"name": "x" * 101}, {"allocation": "mine"}):
        with pytest.raises(InvalidInput):
            EngineConfig(**options)  # type: ignore[arg-type]
    engine = Engine(store, config=EngineConfig(name="one", allocation="local"))
    with pytest.raises(InvalidInput, match="already"):
        engine.admin.take_over("one")
    with pytest.raises(InvalidInput, match="name"):
        engine.admin.take_over("no name")
    with pytest.raises(InvalidInput, match="already"):
        Engine(store).admin.take_over(None)
