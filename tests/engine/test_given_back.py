"""What an engine's own workers have in hand when it is closed, or when its process dies: the same attempt goes on elsewhere.

A death is here what a `FaultyBackend` makes of it: the store is as it was, the presence gone with the process. Real processes are
in `tests/processes/test_dead_holders.py`.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import pytest

from conductorlite import Engine, Task, TaskResult, TaskStatus, VirtualClock, WorkflowDef, WorkflowStatus
from conductorlite.errors import StaleLease
from conductorlite.store.ports import Backend
from conductorlite.testing import Crash, FaultyBackend, ScriptedWorkers, replay

STORED = {"name": "one", "tasks": [{"name": "work", "taskReferenceName": "work"}]}
ONE = WorkflowDef.from_json(STORED)


def of(**definition: Any) -> WorkflowDef:
    """One task, defined so."""
    task = {"name": "work", "taskReferenceName": "work", "taskDefinition": {"name": "work", **definition}}
    return WorkflowDef.from_json({"name": "one", "tasks": [task]})


class World:
    """One store, one clock, and engines that come and go."""

    def __init__(self, store: Backend) -> None:
        self.store = store
        self.clock = VirtualClock()
        self.workers = ScriptedWorkers()

    def engine(self, *, workers: bool = True) -> Engine:
        """An engine like that of another process."""
        backend = FaultyBackend(self.store, keep_open=True)
        return Engine(backend, clock=self.clock, workers=self.workers if workers else None)

    def hold(self, engine: Engine) -> Task:
        """Have the engine's worker take the task, and be at it."""
        while engine.get("w").task("work").status is not TaskStatus.IN_PROGRESS:
            assert engine.tick()
        return engine.get("w").task("work")

    def die(self, engine: Engine) -> None:
        """End the engine as the death of its process would."""
        assert isinstance(engine.backend, FaultyBackend)
        engine.backend.die_at(1)
        with pytest.raises(Crash):
            engine.update_variables("w", {"last": "words"})

    def death(self) -> None:
        """An engine takes the task and dies."""
        engine = self.engine()
        self.hold(engine)
        self.die(engine)


@pytest.fixture
def world(store: Backend) -> World:
    """A store with one execution of one task, at which workers are for ever."""
    world = World(store)
    world.workers.work.takes("10m").returns({"done": True})
    return world


def test_what_is_closed_gives_back(world: World) -> None:
    """The same attempt is offered at once, no retry is used up, and the journal tells who gave it back and why."""
    with world.engine() as engine:
        engine.start(ONE, workflow_id="w")
        held = world.hold(engine)
        assert held.holder is not None
    with world.engine(workers=False) as other:
        given = other.get("w").task("work")
        assert (given.status, given.attempt, given.lease, given.holder, given.deaths) == (TaskStatus.SCHEDULED, 0, 0, None, 0)
        assert given.response_timeout_at is None
        assert given.poll_timeout_at is not None
        told = other.history("w")[-1]
        assert (told.status, told.reason) == ("SCHEDULED", "given back: worker 'conductorlite' stopped before it was done")
        assert other.admin.check() == []
        other.settle()
        (task,) = other.poll("work")
        assert task.lease > held.lease
        with pytest.raises(StaleLease):
            other.update_task(TaskResult(workflow_id="w", task_id=held.task_id, status=TaskStatus.COMPLETED, lease=held.lease))


def test_what_a_dead_process_had_is_given_back_by_who_opens_the_store(world: World) -> None:
    """No verb is needed. The death is counted, once."""
    first = world.engine()
    first.start(ONE, workflow_id="w")
    world.hold(first)
    world.die(first)
    with world.engine(workers=False) as other, world.engine(workers=False) as third:
        given = third.get("w").task("work")
        assert (given.status, given.attempt, given.deaths, given.holder) == (TaskStatus.SCHEDULED, 0, 1, None)
        assert other.history("w")[-1].reason == "given back: the process of worker 'conductorlite' died"
        assert third.admin.check() == []
    with world.engine() as last:
        assert last.run("w").result() == {"done": True}
        assert [task.attempt for task in last.get("w").tasks] == [0]


def test_what_many_executions_had_in_hand_is_two_commits(world: World) -> None:
    """What a dead process had is given back in one commit, and the turns that follow share another one."""
    engine = world.engine()
    engine.start_many(ONE, [{}] * 20)
    while len(engine.tasks.search("status = IN_PROGRESS").results) < 20:
        assert engine.tick()
    engine.start(ONE, workflow_id="w")
    world.die(engine)
    commits: list[int] = []
    backend = FaultyBackend(world.store, keep_open=True, on_commit=commits.append)
    with Engine(backend, clock=world.clock) as other:
        assert len(commits) < 6
        assert len(other.tasks.search("status = SCHEDULED").results) == 21
        assert other.admin.check() == []


def test_by_who_drives_already(world: World) -> None:
    """An engine that was open before looks while it drives."""
    with world.engine() as survivor:
        survivor.start(ONE, workflow_id="w")
        world.death()
        world.clock.move_to(world.clock.now() + 1_000)
        assert survivor.run("w").result() == {"done": True}


def test_a_task_polled_by_hand_is_nobodys(world: World) -> None:
    """A gateway may have polled it for a worker elsewhere: it stays with its response timeout, whoever closes."""
    with world.engine(workers=False) as engine:
        engine.start(ONE, workflow_id="w")
        engine.settle()
        (task,) = engine.poll("work")
        assert task.holder is None
    with world.engine(workers=False) as other:
        assert other.get("w").task("work").lease == task.lease
        other.advance("10m")
        assert other.get("w").tasks[0].status is TaskStatus.TIMED_OUT


def test_two_engines_of_one_process(world: World) -> None:
    """What one of them gives back is not the other's."""
    with world.engine() as one:
        one.start(ONE, workflow_id="w")
        world.hold(one)
        with world.engine() as two:
            two.start(ONE, workflow_id="v")
            while two.get("v").task("work").status is not TaskStatus.IN_PROGRESS:
                two.tick()
            assert two.get("v").task("work").holder != two.get("w").task("work").holder
        assert one.get("v").task("work").status is TaskStatus.SCHEDULED
        assert one.get("w").task("work").status is TaskStatus.IN_PROGRESS


def test_a_slot_is_kept(world: World) -> None:
    """A task that is given back keeps the slot of its limit: it has begun, and counts once."""
    with world.engine() as engine:
        engine.start(of(concurrentExecLimit=1), workflow_id="w")
        world.hold(engine)
        engine.start(of(concurrentExecLimit=1), workflow_id="v")
    with world.engine() as other:
        assert other.get("w").task("work").status is TaskStatus.SCHEDULED
        assert other.get("v").task("work").status is TaskStatus.PENDING
        assert other.admin.check() == []
        other.run_until_idle()
        assert {other.status(one) for one in "vw"} == {WorkflowStatus.COMPLETED}


@pytest.mark.parametrize("verb", ["pause", "terminate", "admin.remove"])
def test_whatever_became_of_its_execution(world: World, verb: str) -> None:
    """It is paused: the task is offered. It has ended, or is gone: there is nothing to give back."""
    with world.engine() as engine:
        engine.start(ONE, workflow_id="w")
        world.hold(engine)
        if verb == "admin.remove":
            engine.terminate("w")
        attrgetter(verb)(engine)("w")
    with world.engine() as other:
        assert other.admin.check() == []
        if verb == "pause":
            assert other.get("w").task("work").status is TaskStatus.SCHEDULED
            other.resume("w")
            assert other.run("w").result() == {"done": True}
        elif verb == "terminate":
            assert other.get("w").task("work").status is TaskStatus.CANCELED


def test_a_task_that_kills_its_process_ends(world: World) -> None:
    """Two deaths may be somebody else's fault; the third, alone, is its own: the attempt times out, with the reason."""
    with world.engine(workers=False) as engine:
        engine.start(of(retryCount=0), workflow_id="w")
    for _ in range(3):
        world.death()
    with world.engine() as other:
        task = other.get("w").task("work")
        assert (task.status, task.attempt, task.deaths) == (TaskStatus.TIMED_OUT, 0, 3)
        assert task.reason == "Task 'work' (work): its worker's process died 3 times, the last time while it ran alone"
        assert other.status("w") is WorkflowStatus.TIMED_OUT
        assert "died 3 times" in str(other.explain("w"))
        assert other.admin.check() == []
        again = replay(other.admin.export("w"))
        assert again.lines == len(other.history("w"))
        assert again.engine.get("w").task("work").deaths == 3


def test_it_is_retried_as_its_policy_says(world: World) -> None:
    """As after a response timeout: the next attempt has no deaths behind it."""
    with world.engine(workers=False) as engine:
        engine.start(of(retryCount=1, retryDelaySeconds=5), workflow_id="w")
    for _ in range(3):
        world.death()
    with world.engine() as other:
        task = other.get("w").task("work")
        assert (task.status, task.attempt, task.deaths) == (TaskStatus.SCHEDULED, 1, 0)
        assert other.run("w").result() == {"done": True}


def test_closing_is_no_death(world: World) -> None:
    """However often it is given back."""
    with world.engine(workers=False) as engine:
        engine.start(of(retryCount=0), workflow_id="w")
    for _ in range(5):
        with world.engine() as engine:
            world.hold(engine)
    with world.engine() as other:
        assert other.get("w").task("work").deaths == 0
        assert other.run("w").result() == {"done": True}


def test_after_two_deaths_it_is_alone(world: World) -> None:
    """What runs is waited for, and nothing else is handed out as long as it runs."""
    with world.engine(workers=False) as engine:
        engine.start(ONE, workflow_id="w")
    for _ in range(2):
        world.death()
    world.workers.other.takes("10s").returns({})
    other = WorkflowDef.from_json({"name": "two", "tasks": [{"name": "other", "taskReferenceName": "other"}]})

    with world.engine() as engine:
        for number, one in enumerate(("a", "b")):
            engine.start(other, workflow_id=one, at=world.clock.now() + number * 5_000)
        engine.run_until_idle()
        assert {engine.status(one) for one in ("w", "a", "b")} == {WorkflowStatus.COMPLETED}
        spans = {one: (engine.get(one).tasks[0].updated_at, engine.get(one).tasks[0].ended_at) for one in ("w", "a", "b")}
        polled = {one: max(line.at for line in engine.history(one) if line.status == "IN_PROGRESS") for one in spans}
        for one in ("a", "b"):
            assert spans[one][1] <= polled["w"] or polled[one] >= spans["w"][1]


def test_a_worker_is_told_by_its_name(new_store: Any) -> None:
    """On real time the default name of a worker is of one engine of one process."""
    with Engine(new_store()) as one, Engine(new_store()) as two:
        assert one.driver.handing.worker_id.startswith("conductorlite-")
        assert one.driver.handing.worker_id != two.driver.handing.worker_id


def test_it_is_explained(world: World) -> None:
    """Who gave it back and why; how many have died; that it waits to be alone, and is."""
    with world.engine() as engine:
        engine.start(of(retryCount=0), workflow_id="w")
        world.hold(engine)
    offered, deadline = "work waits for a worker of type work since just now", "; its poll timeout comes in 1 h of driven time."
    died = ", given back: the process of worker 'conductorlite' died"
    with world.engine(workers=False) as engine:
        assert str(engine.explain("w", "work")) == (
            f"{offered}, given back: worker 'conductorlite' stopped before it was done{deadline}"
        )
    world.death()
    with world.engine(workers=False) as engine:
        assert str(engine.explain("w", "work")) == f"{offered}{died}, after 1 death of its worker's process{deadline}"
    world.death()
    with world.engine(workers=False) as engine:
        assert str(engine.explain("w", "work")) == f"{offered}{died}, alone, after 2 deaths of its worker's process{deadline}"
    with world.engine() as engine:
        world.hold(engine)
        assert "attempt 1 of 1, alone, after 2 deaths of its worker's process; " in str(engine.explain("w", "work"))


def test_it_keeps_its_place(world: World) -> None:
    """What has begun goes before what was offered later, however long the queue; its poll timeout counts from now."""
    with world.engine() as engine:
        engine.start(ONE, workflow_id="w")
        world.hold(engine)
        for number in range(3):
            world.clock.move_to(world.clock.now() + 1_000)
            engine.start(ONE, workflow_id=f"later-{number}")
    with world.engine(workers=False) as other:
        given = other.get("w").task("work")
        assert given.poll_timeout_at == world.clock.now() + 3_600_000
        assert other.admin.check() == []
        other.settle()
        assert [task.workflow_id for task in other.poll("work", count=2)] == ["w", "later-0"]


def test_after_its_response_timeout(world: World) -> None:
    """Somebody is there only when the timeout has passed: the death comes first, no retry is used up."""
    first = world.engine()
    first.start(of(responseTimeoutSeconds=5, retryCount=0), workflow_id="w")
    world.hold(first)
    world.die(first)
    world.clock.move_to(world.clock.now() + 60_000)
    with world.engine() as other:
        given = other.get("w").task("work")
        assert (given.status, given.attempt, given.deaths) == (TaskStatus.SCHEDULED, 0, 1)
        assert other.admin.check() == []
        assert other.run("w").result() == {"done": True}
        assert replay(other.admin.export("w")).lines == len(other.history("w"))
