"""A store in two parts: what others may do between a turn's transaction and what it sends, and who delivers that."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from test_split import World, chain, simple

from conductorlite import Engine, EngineConfig, TaskResult, TaskStatus, WorkflowDef
from conductorlite.engine.index_feed import IndexHealth
from conductorlite.errors import AlreadyExists, Conflict, StorageUnavailable
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.testing import MemoryIndex
from conductorlite.testing.faults import Crash

LIMITED = WorkflowDef.from_json(
    {"name": "limited", "tasks": [simple("a", taskDefinition={"name": "a", "concurrentExecLimit": 1, "timeoutSeconds": 0})]}
)


def report(engine: Engine, task: Any) -> None:
    """Report that a polled task is done."""
    done = TaskStatus.COMPLETED
    engine.update_task(TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=done, lease=task.lease))


def once_at(number: int, act: Callable[[], Any]) -> Callable[[], None]:
    """A hook that acts when it is called for that time."""
    calls = Counter[str]()

    def hook() -> None:
        calls["all"] += 1
        if calls["all"] == number:
            act()

    return hook


def test_nothing_of_the_queue_store_is_held_during_a_transaction() -> None:
    """Another one can write to it while a transaction is under way: of starts, polls, reports, and many together."""
    world, seen = World(), Counter[str]()

    def write() -> None:
        with world.queue.writing() as tx:
            tx.owners.note_driven("other", seen["writes"], seen["writes"])
        seen["writes"] += 1

    with world.engine() as engine:
        world.partitions.before = world.partitions.after = write
        for _ in range(3):
            engine.start(chain(2))
        engine.run_until_idle()
        world.partitions.before = world.partitions.after = lambda: None
        assert engine.admin.check() == []
    takes = sum(name == "take" for name, _ in world.partitions.calls)
    assert seen["writes"] == 2 * takes >= 12


def parked(engine: Engine) -> None:
    """Park the execution, as after three broken turns."""
    with engine.backend.writing() as tx:
        tx.executions.park("w", 3, "on purpose")


def looked(engine: Engine) -> None:
    """Look at all there is, twice: what was not delivered is."""
    for _ in range(2):
        engine.get("w")


def polled(engine: Engine) -> None:
    """Take what is offered, and report it done."""
    for task in engine.poll("b"):
        report(engine, task)


@pytest.mark.parametrize("act", [looked, polled, parked])
def test_what_another_engine_does_before_a_turn_is_delivered(act: Callable[[Engine], None]) -> None:
    """After any transaction, another engine is there first: what was sent arrives, once, and every law holds."""
    calm = World()
    with calm.engine() as engine:
        engine.start(chain(3), workflow_id="w")
        engine.run_until_idle()
    for number in range(1, 1 + sum(name == "take" for name, _ in calm.partitions.calls)):
        world = World()
        with world.engine() as one, world.engine() as other:
            world.partitions.after = once_at(number, lambda other=other: act(other))
            one.start(chain(3), workflow_id="w")
            one.run_until_idle()
            with suppress(Conflict):  # it has ended
                other.resume("w")
            one.run_until_idle()
            assert (str(one.status("w")), one.admin.check()) == ("COMPLETED", []), number
            assert [(task.ref, str(task.status)) for task in one.get("w").tasks] == [(f"b{n}", "COMPLETED") for n in range(3)]
        assert len(world.calls) <= 3, number


def test_a_turn_goes_to_its_execution_s_new_owner() -> None:
    """An execution is taken over before a turn of its old owner is delivered: its task is in the new owner's queue."""
    world = World()
    stores = [world.store() for _ in range(2)]
    configs = [EngineConfig(name=name, allocation="local") for name in ("old", "new")]
    old, new = (Engine(store, clock=world.clock, config=config) for store, config in zip(stores, configs, strict=True))
    with old, new:
        old.start(chain(2), workflow_id="w")
        [task] = old.poll("b")
        world.partitions.after = once_at(1, lambda: new.admin.take_over("old"))
        report(old, task)
        assert old.poll("b") == []
        [task] = new.poll("b")
        report(new, task)
        assert (str(new.status("w")), new.admin.check()) == ("COMPLETED", [])


def test_of_turns_taken_together_one_is_refused() -> None:
    """Another engine is first in one of two executions: the turn of the other one is stored, and not taken again."""
    world = World()
    with world.engine() as one, world.engine() as other:
        for name in ("v", "w"):
            one.start(chain(1), workflow_id=name)
        world.partitions.before = once_at(1, lambda: other.terminate("w"))
        assert [task.workflow_id for task in one.poll("b", count=2)] == ["v"]
        assert (world.partitions.head_rows["v"].fence, one.admin.check()) == (2, [])


def test_a_queue_store_that_is_away_after_the_transaction() -> None:
    """A turn that is taken counts: the caller is answered, and what it sends is delivered when the queue store is back."""
    world = World()
    with world.engine() as engine:
        engine.start(chain(2), workflow_id="w")
        [task] = engine.poll("b")
        writing = world.queue.writing

        def away() -> Any:
            vars(world.queue).pop("writing")
            raise StorageUnavailable("the queue store cannot be reached")

        world.partitions.after = once_at(1, lambda: vars(world.queue).update(writing=away))
        report(engine, task)
        assert world.queue.writing == writing
        assert [str(one.status) for one in engine.get("w").tasks][:1] == ["COMPLETED"]
        engine.run_until_idle()
        assert (str(engine.status("w")), engine.admin.check()) == ("COMPLETED", [])


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_every_death_at_a_write_to_the_queue_store(every: int) -> None:
    """A process dies when it is to write there, before or after a transaction: all comes to its end, tasks once more at most."""

    def entered(world: World, number: int) -> None:
        writing, calls = world.queue.writing, Counter[str]()

        def dying() -> Any:
            calls["all"] += 1
            if calls["all"] == number:
                raise Crash("queue")
            return writing()

        vars(world.queue)["writing"] = dying

    number, ended = 1, False
    while not ended:
        world = World()
        engine = world.engine()
        entered(world, number)
        try:
            engine.start(chain(3), workflow_id="w", idempotency_key="k")
            engine.run_until_idle()
            ended = True
        except Crash:
            pass
        vars(world.queue).pop("writing")
        world.died()
        with world.engine() as engine:
            with suppress(AlreadyExists):  # the caller was not answered, and asks again
                engine.start(chain(3), workflow_id="w", idempotency_key="k")
            engine.run_until_idle()
            assert (str(engine.status("w")), engine.admin.check()) == ("COMPLETED", []), number
        assert len(world.calls) <= 4, number
        number += every


def test_a_task_whose_holder_died_at_once_is_given_back() -> None:
    """A process dies between the transaction that takes a task and what that sends: it is offered again, not after an hour."""
    world = World()
    world.engine().start(chain(1), workflow_id="w")
    world.die_at(1, "after")
    with pytest.raises(Crash):
        world.engine().run_until_idle()
    world.died()
    began = world.clock.now()
    with world.engine() as engine:
        engine.run_until_idle()
        assert (str(engine.status("w")), engine.admin.check()) == ("COMPLETED", [])
    assert world.clock.now() - began < 60_000


def at_work(world: World) -> int:
    """How many tasks have a slot, as the partitions have it."""
    texts = [cell.text or "" for rows in world.partitions.table.values() for cell in rows.values() if cell.entity == "slot"]
    return sum('"HELD"' in text for text in texts)


@pytest.mark.parametrize("where", ["before", "after"])
def test_no_death_lets_a_limit_be_exceeded(where: str) -> None:
    """Whenever a process dies, others that have not noticed never let in more than the limit allows; all come to an end."""
    number, ended = 1, False
    while not ended:
        world, most = World(), 0
        world.die_at(number, where)
        engine = world.engine()
        try:
            for name in ("u", "v"):
                engine.start(LIMITED, workflow_id=name)
            engine.run_until_idle()
            ended = True
        except Crash:
            world.queue._mutex.__init__()  # type: ignore[misc] # the dead thread's blocks are over
        world.partitions.before = world.partitions.after = lambda: None
        with world.engine() as other:
            for name in ("x", "y"):
                other.start(LIMITED, workflow_id=name)
                most = max(most, at_work(world))
        world.died()
        with world.engine() as last:
            last.run_until_idle()
            assert {str(last.status(one)) for one in last.admin.workflow_ids()} == {"COMPLETED"}, number
            assert last.admin.check() == []
        assert most <= 1, number
        number += 1


def test_a_removal_that_died_is_not_half_done() -> None:
    """A process dies after it has marked an execution: that goes on as it was, and can be removed."""
    world = World()
    with world.engine() as engine:
        engine.start(chain(1), workflow_id="w")
        engine.run_until_idle()
        world.die_at(1, "after")
        with pytest.raises(Crash):
            engine.admin.remove("w")
    world.died()
    with world.engine() as engine:
        assert (str(engine.status("w")), engine.admin.check()) == ("COMPLETED", [])
        engine.restart("w")
        engine.run_until_idle()
        assert (str(engine.status("w")), engine.admin.check()) == ("COMPLETED", [])
        engine.admin.remove("w")
        assert (world.partitions.head_rows, list(engine.admin.workflow_ids())) == ({}, [])


def test_an_external_index_follows_also_where_the_queue_store_was_lost() -> None:
    """It is fed with what is in the partitions, and fed again after the queue store was lost and put together again."""
    world, index = World(), MemoryIndex()

    def found(engine: Engine) -> tuple[int, list[Any], IndexHealth | None]:
        engine.admin.relay()
        return engine.search("status = COMPLETED").total_hits, engine.admin.check(), engine.admin.index_health()

    with Engine(world.store(), clock=world.clock, workers=world.workers(), index=index) as engine:
        for name in ("u", "v"):
            engine.start(chain(2), workflow_id=name)
        assert engine.search("").total_hits == 2
        engine.run_until_idle()
        assert found(engine) == (2, [], IndexHealth(complete=True, behind=0))
    world.queue = MemoryBackend()
    with Engine(world.store(), clock=world.clock, index=MemoryIndex(index)) as engine:
        assert engine.admin.repair().left == ()
        assert found(engine) == (2, [], IndexHealth(complete=True, behind=0))


def test_a_row_that_another_turn_has_made_is_no_contradiction() -> None:
    """Between what was tried and the look for rows that must not be there, another engine takes the same step: it was first."""
    world = World()
    with world.engine() as one, world.engine() as other:
        one.start(chain(2), workflow_id="w")
        [task] = one.poll("b")
        read = world.partitions.read

        def late(asked: Any) -> Any:
            vars(world.partitions).pop("read")
            report(other, task)
            return read(asked)

        vars(world.partitions)["read"] = late
        report(one, task)
        assert ([str(row.status) for row in one.get("w").tasks], one.admin.check()) == (["COMPLETED", "SCHEDULED"], [])


def test_a_cluster_of_which_only_the_hosts_are_said() -> None:
    """The driver says which hosts it could not reach with or without their errors: one named error all the same."""
    cluster = pytest.importorskip("cassandra.cluster")
    from conductorlite.ext.cassandra.server import CassandraPartitions

    partitions = object.__new__(CassandraPartitions)
    vars(partitions).update(path="cassandra://host/shop", _closed=False, _pid=os.getpid())
    for errors in (["127.0.0.1"], {"127.0.0.1": OSError("refused")}):

        def ask(errors: Any = errors) -> None:
            raise cluster.NoHostAvailable("Unable to connect to any servers", errors)

        with pytest.raises(StorageUnavailable, match="no server can be reached"):
            partitions._asked(ask)
