"""A store in two parts: executions in partitions, their queue in an ordered store; every death between the two."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from partitions_kit import MemoryPartitions

from conductorlite import Engine, EngineConfig, TaskResult, TaskStatus, VirtualClock, Workers, WorkflowDef
from conductorlite.errors import InvalidInput, KeyTaken, MissingCapability, StorageUnavailable
from conductorlite.ext.cassandra.backend import SplitBackend
from conductorlite.model.clock import Clock
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.tables import Life
from conductorlite.testing.conformance import BackendConformance
from conductorlite.testing.conformance.samples import started
from conductorlite.testing.faults import Crash


@pytest.mark.slow
class TestSplit(BackendConformance):
    """What every backend promises, of two parts in memory."""

    def make_backend(self, folder: Path) -> Backend:
        """A new, empty store."""
        return SplitBackend(MemoryPartitions(), MemoryBackend())


def simple(name: str, **more: Any) -> dict[str, Any]:
    """A task of a worker."""
    return {"name": name, "taskReferenceName": name, **more}


CHILD = WorkflowDef.from_json({"name": "child", "tasks": [simple("c")], "outputParameters": {"c": "${c.output.n}"}})

LIMITED = {"name": "a", "concurrentExecLimit": 1, "retryCount": 3, "retryDelaySeconds": 0, "responseTimeoutSeconds": 5}

FAMILY = WorkflowDef.from_json(
    {
        "name": "family",
        "tasks": [
            {
                "name": "fork",
                "taskReferenceName": "fork",
                "type": "FORK_JOIN",
                "forkTasks": [
                    [simple("a", taskDefinition=LIMITED)],
                    [{**simple("a"), "taskReferenceName": "a2", "taskDefinition": LIMITED}],
                ],
            },
            {"name": "join", "taskReferenceName": "join", "type": "JOIN", "joinOn": ["a", "a2"]},
            {
                "name": "loop",
                "taskReferenceName": "loop",
                "type": "DO_WHILE",
                "loopCondition": "$.loop['iteration'] < 2",
                "loopOver": [simple("b")],
            },
            {
                "name": "child",
                "taskReferenceName": "child",
                "type": "SUB_WORKFLOW",
                "subWorkflowParam": {"name": "child", "version": 1},
            },
            {"name": "wait", "taskReferenceName": "wait", "type": "WAIT", "inputParameters": {"duration": "30s"}},
        ],
        "outputParameters": {"a": "${a.output.n}", "child": "${child.output.c}", "big": "${workflow.input.big}"},
    }
)


class World:
    """Two parts that outlive processes, and what the workers have done."""

    def __init__(self) -> None:
        self.partitions, self.queue, self.clock = MemoryPartitions(), MemoryBackend(), VirtualClock(1_700_000_000_000)
        vars(self.queue)["close"] = lambda: None  # other processes have it, too
        self.calls: list[str] = []
        self.count = 0

    def workers(self) -> Workers:
        """Functions that note what they are asked."""
        made = Workers()
        for name in "abc":
            made.add(name, lambda name=name: self.calls.append(name) or {"n": name})
        return made

    def store(self) -> SplitBackend:
        """The two of them, as another process has them."""
        return SplitBackend(self.partitions, self.queue)

    def engine(self) -> Engine:
        """Another process."""
        clock: Clock = self.clock
        return Engine(self.store(), clock=clock, workers=self.workers())

    def died(self) -> None:
        """Whoever held something is dead; the next process goes on."""
        self.partitions.before = self.partitions.after = lambda: None
        for place in self.queue._present:
            self.queue._present[place] = Life.DEAD
        self.queue._mutex.__init__()  # type: ignore[misc] # the dead thread's blocks are over

    def die_at(self, number: int, where: str) -> None:
        """Have the process die before or after a transaction in the partitions."""

        def hook() -> None:
            self.count += 1
            if self.count == number:
                raise Crash(where)

        setattr(self.partitions, where, hook)


def lived(engine: Engine, big: str = "x" * 3_000) -> Any:
    """Start the family unless it is there, and drive it to its end."""
    engine.register(CHILD)
    with suppress(KeyTaken):
        engine.start(FAMILY, {"big": big}, workflow_id="w", idempotency_key="k")
    engine.run_until_idle()
    return engine.get("w")


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_every_death_between_the_parts(every: int) -> None:
    """A process that dies before or after any transaction: the next one comes to the same end, and every law holds."""
    calm = World()
    with calm.engine() as engine:
        end = lived(engine)
        assert engine.admin.check() == []
    assert (str(end.status), end.output_data) == ("COMPLETED", {"a": "a", "child": "c", "big": "x" * 3_000})
    turns = sum(1 for name, _ in calm.partitions.calls if name == "take")
    for where in ("before", "after"):
        for number in range(1, turns + 1, every):
            world = World()
            world.die_at(number, where)
            with pytest.raises(Crash):
                lived(world.engine())
            world.died()
            with world.engine() as engine:
                after = lived(engine)
                found = engine.admin.check()
            assert (found, str(after.status), after.output_data) == ([], "COMPLETED", end.output_data), (where, number)
            assert [task.ref for task in after.tasks if task.status is TaskStatus.COMPLETED] == [task.ref for task in end.tasks]
            assert len(world.calls) <= len(calm.calls) + 1


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_a_lost_queue_store_is_rebuilt(every: int) -> None:
    """It is emptied after any turn: `repair` puts back executions, definitions, keys, slots, what was sent; all come to an end."""
    calm = World()
    with calm.engine() as engine:
        end = lived(engine)
    turns = sum(1 for name, _ in calm.partitions.calls if name == "take")
    for number in range(1, turns + 1, every):
        world = World()
        world.die_at(number, "after")
        with pytest.raises(Crash):
            lived(world.engine())
        world.died()
        world.queue = MemoryBackend()
        with world.engine() as engine:
            assert any("lacks" in fault for fault in engine.backend.faults())
            assert engine.admin.repair().left == (), number
            with pytest.raises(KeyTaken):
                engine.start(FAMILY, {"big": ""}, workflow_id="v", idempotency_key="k")
            engine.run_until_idle()
            after = engine.get("w")
            assert (engine.admin.check(), str(after.status), after.output_data) == ([], "COMPLETED", end.output_data), number


def forked(branches: int) -> WorkflowDef:
    """A dynamic fork over so many branches."""
    tasks = [{"name": "b", "taskReferenceName": f"b{n}", "type": "SIMPLE"} for n in range(branches)]
    return WorkflowDef.from_json(
        {
            "name": "wide",
            "tasks": [
                {
                    "name": "fork",
                    "taskReferenceName": "fork",
                    "type": "FORK_JOIN_DYNAMIC",
                    "dynamicForkTasksParam": "tasks",
                    "dynamicForkTasksInputParamName": "inputs",
                    "inputParameters": {"tasks": tasks, "inputs": {}},
                },
                {"name": "join", "taskReferenceName": "join", "type": "JOIN"},
            ],
        }
    )


@pytest.mark.parametrize(("branches", "most"), [(120, 31), pytest.param(1_200, 600, marks=pytest.mark.slow)])
def test_a_wide_execution_spans_shards(branches: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are not in the partition of its head, and a step of it touches no more partitions than one of another."""
    if branches < 1_000:
        monkeypatch.setattr("conductorlite.ext.cassandra.changes._WIDE", 60)
        monkeypatch.setattr("conductorlite.ext.cassandra.changes._MANY", 30)
    world = World()
    with world.engine() as engine:
        engine.start(forked(branches), workflow_id="w")
        shards = {shard for workflow_id, shard in world.partitions.table if workflow_id == "w"}
        rows = sum(key[0] == "task" for key in world.partitions.table["w", 0])
        assert (shards, rows < most) == (set(range(17)), True)
        [task] = engine.poll("b")
        before = len(world.partitions.calls)
        engine.update_task(TaskResult(workflow_id="w", task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease))
        assert sum(number for _, number in world.partitions.calls[before:]) <= 30
        engine.terminate("w")
        assert {str(one.status) for one in engine.get("w").tasks if one.ref != task.ref} <= {"CANCELED", "COMPLETED"}
        assert engine.admin.check() == []
        engine.admin.remove("w")
        assert not [place for place in world.partitions.table if place[0] == "w"]


def chain(length: int) -> WorkflowDef:
    """Tasks one after another."""
    return WorkflowDef.from_json({"name": "chain", "tasks": [{**simple("b"), "taskReferenceName": f"b{n}"} for n in range(length)]})


def test_what_a_step_asks_of_the_partitions_is_constant() -> None:
    """So many statements a step in the middle of a chain, however long it is, and one transaction."""
    counts: list[Counter[str]] = []
    for length in (10, 20, 30):
        world = World()
        with world.engine() as engine:
            run = engine.start(chain(length))
            engine.run_until_idle()
            counts.append(Counter())
            for name, number in world.partitions.calls:
                counts[-1][name] += number
            assert str(run.status) == "COMPLETED"
    steps = [{name: (more[name] - less[name]) / 10 for name in more} for less, more in pairwise(counts)]
    assert steps[0] == steps[1]
    assert steps[0]["take"] == 1.0
    assert sum(steps[0].values()) <= 8


def test_the_partitions_are_away() -> None:
    """A named error with nothing half-done, and what was under way goes on when they are there again."""
    world = World()
    with world.engine() as engine:
        engine.start(chain(2), workflow_id="w")
        [task] = engine.poll("b")
        result = TaskResult(workflow_id="w", task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease)
        world.partitions.down = True
        with pytest.raises(StorageUnavailable):
            engine.update_task(result)
        with pytest.raises(StorageUnavailable):
            engine.start(chain(2))
        world.partitions.down = False
        engine.update_task(result)
        engine.run_until_idle()
        assert (str(engine.status("w")), engine.admin.check(), len(list(engine.admin.workflow_ids()))) == ("COMPLETED", [], 1)


def test_what_cannot_be_a_queue(tmp_path: Path) -> None:
    """A store that relays, the queue of other executions, a queue for a store that has its own, none: named errors."""
    with pytest.raises(MissingCapability, match="MemoryBackend cannot be the queue") as raised:
        SplitBackend(MemoryPartitions(), MemoryBackend(relay=True))
    assert str(raised.value.capability) == "one commit"
    world = World()
    started(SplitBackend(world.partitions, world.queue))
    with pytest.raises(InvalidInput, match="belongs to other executions"):
        SplitBackend(MemoryPartitions(), world.queue)
    with pytest.raises(InvalidInput, match="only a store in Cassandra"):
        Engine(tmp_path / "a.db", queue=tmp_path / "b.db")
    with World().engine() as engine:
        with pytest.raises(MissingCapability, match="snapshots"):
            engine.admin.backup(tmp_path / "copy.db")
        with pytest.raises(MissingCapability, match="takes no transactions"), engine.transaction():
            pass


@pytest.mark.parametrize("number", range(1, 3))
def test_a_turn_that_comes_between_two_reads(number: int, tmp_path: Path) -> None:
    """Another engine commits after the head was read: what is decided on the old one is fenced out, and nothing is lost."""
    world = World()
    stores = [SplitBackend(world.partitions, SQLiteBackend(tmp_path / "queue.db")) for _ in range(2)]
    vars(stores[0]._memory)["keep"] = lambda *_: None  # each view asks
    one, other = (Engine(store, clock=world.clock, config=EngineConfig(resident_bytes=0)) for store in stores)
    with one, other:
        other.start(forked(2), workflow_id="v")
        results = [
            TaskResult(workflow_id="v", task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease)
            for task in other.poll("b", count=2)
        ]
        heads, reads = world.partitions.heads, count(1)

        def late(*asked: Any, **options: Any) -> Any:
            found = heads(*asked, **options)
            if next(reads) == number:
                other.update_task(results[1])
            return found

        vars(world.partitions)["heads"] = late
        one.update_task(results[0])
        assert [str(task.status) for task in one.get("v").tasks if task.task_type == "b"] == ["COMPLETED"] * 2
        assert one.admin.check() == []
