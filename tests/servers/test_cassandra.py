"""The store in Cassandra: the contract on a real server, its queue in memory or in a file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from places import cassandra_of

from conductorlite import Engine, TaskResult, TaskStatus, Workers, WorkflowDef
from conductorlite.errors import AlreadyExists, InvalidInput, StorageUnavailable
from conductorlite.ext.cassandra.partitions import Head, Turn
from conductorlite.store.ports import Backend
from conductorlite.testing.conformance import BackendConformance


class TestCassandra(BackendConformance):
    """The conformance suite."""

    @pytest.fixture(autouse=True)
    def _server(self, cassandra_url: str) -> None:
        assert cassandra_url

    def make_backend(self, folder: Path) -> Backend:
        """A store; of one folder the same."""
        return cassandra_of(folder)


class Cluster:
    """Stands for a cluster and its session: each statement is answered by what comes next, or raises it."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def execute(self, statement: object, **options: object) -> Any:
        """The next answer."""
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def prepare(self, text: str) -> Any:
        """A statement that keeps nothing."""
        return SimpleNamespace(bind=lambda values: SimpleNamespace())


def partitions_of(cluster: Cluster) -> Any:
    """The partitions in a cluster that need not be reached."""
    pytest.importorskip("cassandra")
    from conductorlite.ext.cassandra.server import CassandraPartitions

    made: Any = object.__new__(CassandraPartitions)
    made._session, made._pid, made._closed, made._known, made._serial = cluster, os.getpid(), False, {}, None
    made.path, made.statements = "cassandra://here/there", 0
    return made


@pytest.mark.parametrize(
    ("stored", "applied"),
    [(("mine", 3), True), (("another", 3), False), (("mine", 2), False), (None, False)],
)
def test_a_turn_that_was_sent_twice(stored: tuple[str, int] | None, applied: bool) -> None:
    """The driver sends once more what was under way on a connection that ends: the second copy is refused, the first one counts."""
    partitions = partitions_of(Cluster(SimpleNamespace(one=lambda: stored)))
    turn = Turn(workflow_id="w", expected=2, head=Head(fence=3, text="", turn="mine"))
    sent = SimpleNamespace(result=lambda: SimpleNamespace(was_applied=False))
    assert partitions._taken(turn, sent) is applied


def test_a_cluster_that_goes_away_during_a_walk() -> None:
    """Pages are asked for as a walk goes on: what goes wrong with a later one is the store's, as with the first."""

    def pages() -> Iterator[tuple[str, int]]:
        yield "w", 0
        raise NoHostAvailable("none", {})

    pytest.importorskip("cassandra")
    from cassandra.cluster import NoHostAvailable

    walk = partitions_of(Cluster(pages())).walk()
    assert next(walk) == "w"
    with pytest.raises(StorageUnavailable, match="no server can be reached"):
        next(walk)


CHAIN = WorkflowDef.from_json({"name": "chain", "tasks": [{"name": name, "taskReferenceName": name} for name in ("a", "b", "c")]})


def workers() -> Workers:
    """Functions for the tasks of CHAIN."""
    made = Workers()
    for name in ("a", "b", "c"):
        made.add(name, lambda: {"done": True})
    return made


@pytest.fixture
def place(cassandra_url: str) -> Iterator[str]:
    """The URL of an empty keyspace."""
    from conductorlite.ext.cassandra.server import CassandraPartitions

    name = f"test_{time.time_ns()}"
    yield f"{cassandra_url}/{name}?timeout=20s"
    partitions = CassandraPartitions(f"{cassandra_url}/{name}?timeout=20s")
    partitions._session.execute(f"DROP KEYSPACE {name}", timeout=60)
    partitions.close()


def test_a_url_and_a_queue_are_enough(place: str, tmp_path: Path) -> None:
    """An engine runs a chain, a second one sees it, it is searched, found by its tasks' ids, removed; so with both in one URL."""
    queue = tmp_path / "queue.db"
    with Engine(place, queue=queue, workers=workers()) as engine, Engine(f"{place}&queue={queue}") as other:
        run = engine.start(CHAIN, {"text": "x" * 5_000})
        assert run.result("60s") == {"done": True}
        assert other.get(run.workflow_id) == engine.get(run.workflow_id)
        task = run.tasks[1]
        with engine.backend.reading() as view:
            assert view.executions.task_by_id(task.task_id).ref == "b"
        assert engine.admin.check() == []
        assert [row.workflow_id for row in other.search("workflowType = 'chain'").results] == [run.workflow_id]
        engine.admin.remove(run.workflow_id)
        assert list(other.admin.workflow_ids()) == []
        assert other.backend.faults() == []
        engine.start(CHAIN, workflow_id=run.workflow_id)
        with pytest.raises(AlreadyExists):
            other.start(CHAIN, workflow_id=run.workflow_id)


def test_two_engines_share_the_turns(place: str, tmp_path: Path) -> None:
    """Two engines that take turns of one execution alternately are fenced, not lost."""
    with Engine(place, queue=tmp_path / "q.db") as one, Engine(place, queue=tmp_path / "q.db") as other:
        one.start(CHAIN, workflow_id="w")
        for name, engine in (("a", one), ("b", other), ("c", one)):
            [task] = engine.poll(name)
            engine.update_task(TaskResult(workflow_id="w", task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease))
        assert str(other.status("w")) == "COMPLETED"
        assert one.admin.check() == []


def test_a_lost_queue_file_is_rebuilt(place: str, tmp_path: Path) -> None:
    """Its file is gone: a new one is filled again from Cassandra, and what was running comes to its end."""
    with Engine(place, queue=tmp_path / "one.db") as engine:
        engine.start(CHAIN, workflow_id="w", idempotency_key="k")
        [task] = engine.poll("a")
        engine.update_task(TaskResult(workflow_id="w", task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease))
    with Engine(place, queue=tmp_path / "two.db", workers=workers()) as engine:
        assert list(engine.admin.workflow_ids()) == []
        assert engine.admin.repair().left == ()
        with pytest.raises(AlreadyExists):
            engine.start(CHAIN, idempotency_key="k")
        assert engine.result("w", timeout="60s") == {"done": True}
        assert engine.admin.check() == []


def wide(branches: int) -> WorkflowDef:
    """A dynamic fork over so many branches of no work."""
    tasks: list[dict[str, Any]] = [{"name": "n", "taskReferenceName": f"n{n}", "type": "NOOP"} for n in range(branches)]
    fork = {
        "name": "fork",
        "taskReferenceName": "fork",
        "type": "FORK_JOIN_DYNAMIC",
        "dynamicForkTasksParam": "tasks",
        "dynamicForkTasksInputParamName": "inputs",
        "inputParameters": {"tasks": tasks, "inputs": {}},
    }
    return WorkflowDef.from_json({"name": "wide", "tasks": [fork, {"name": "join", "taskReferenceName": "join", "type": "JOIN"}]})


def test_a_fork_of_ten_thousand_spans_shards(place: str, tmp_path: Path) -> None:
    """It completes, its rows are spread, and no partition has them all."""
    with Engine(place, queue=tmp_path / "q.db") as engine:
        run = engine.start(wide(10_000))
        engine.run_until_idle("300s")
        assert str(run.status) == "COMPLETED"
        assert len(run.tasks) == 10_002
        session = engine.backend._partitions._session  # type: ignore[attr-defined]
        text = "SELECT count(*) FROM workflows WHERE workflow_id = %s AND shard = %s"
        rows = [session.execute(text, (run.workflow_id, shard), timeout=60).one()[0] for shard in range(17)]
        assert max(rows) < 10_000
        assert min(rows[1:]) > 1_000


def test_named_errors_at_open(cassandra_url: str, tmp_path: Path) -> None:
    """No server, no queue, a keyspace's name, another keyspace's queue: each says what is wrong, and shows no password."""
    with pytest.raises(StorageUnavailable, match="no server can be reached") as raised:
        Engine("cassandra://me:secret@127.0.0.1:1/x?timeout=2s", queue=tmp_path / "q.db")
    assert "secret" not in str(raised.value)
    with pytest.raises(InvalidInput, match="needs a queue"):
        Engine(f"{cassandra_url}/x")
    with pytest.raises(InvalidInput, match="lower-case"):
        Engine(f"{cassandra_url}/A;B", queue=tmp_path / "q.db")
    with pytest.raises(InvalidInput, match="there is no option"):
        Engine(f"{cassandra_url}/x?no=1", queue=tmp_path / "q.db")
