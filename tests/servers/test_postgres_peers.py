"""Several processes on one server: each looks at its own share of what is offered, and the commits of others cost it nothing."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from conductorlite import Engine, TaskResult, TaskStatus, WorkflowDef
from conductorlite.ext.postgres.presence import Peers

CHAIN = WorkflowDef.from_json({"name": "chain", "tasks": [{"name": name, "taskReferenceName": name} for name in ("a", "b", "c")]})


@given(st.sets(st.binary(min_size=1, max_size=4), min_size=1, max_size=6), st.lists(st.text(max_size=6), unique=True, max_size=40))
def test_shares(tokens: set[bytes], ids: list[str]) -> None:
    """Who knows the same others takes another share: each execution is in one. Each sees everything, its own share first."""
    known = {own: Peers(own) for own in tokens}
    for own, peers in known.items():
        assert peers.heard([*tokens, own]) == len(tokens - {own})
        distances = [peers.share.distance(one) for one in peers.own_first(ids, str)]
        assert distances == sorted(distances)
        assert sorted(peers.own_first(ids, str)) == sorted(ids)
    for one in ids:
        assert sorted(peers.share.distance(one) for peers in known.values()) == list(range(len(tokens)))


def test_a_rank_comes_before_a_share() -> None:
    """What is better is first, whosever share it is."""
    peers = Peers(b"a")
    peers.heard([b"b", b"c"])
    ranked = [f"{rank}{n}" for rank in range(3) for n in range(20)]
    assert [one[0] for one in peers.own_first(ranked[::-1], str, lambda one: int(one[0]))] == [one[0] for one in ranked]


def test_who_is_silent_is_forgotten() -> None:
    """A process that has not committed for two windows of ours has no share any more."""
    peers = Peers(b"a")
    peers.heard([b"b"])
    for _ in range(200):
        peers.changed()
    assert peers.share.count == 1


def test_two_engines_look_at_other_heads(url: str) -> None:
    """Each has heard of the other's commit: what is first for one is not first for the other, and nothing is missing."""
    with Engine(url) as one, Engine(url) as other:
        for n in range(20):
            (one, other)[n % 2].start(CHAIN, workflow_id=f"w{n}")
        offered = []
        for engine in (one, other):
            with engine.backend.writing():
                pass  # it hears who has committed
            with engine.backend.reading() as view:
                offered.append([message.workflow_id for message in view.queue.offered("a", engine.clock.now(), 8)])
                whole = {message.workflow_id for message in view.queue.offered("a", engine.clock.now(), 100)}
                assert whole == {f"w{n}" for n in range(20)}
        assert set(offered[0][:5]) & set(offered[1][:5]) == set()


def test_the_commits_of_others_cost_no_turn(url: str) -> None:
    """What an engine knows of an execution stays good while another one changes other executions: no turn is decided twice."""
    with Engine(url) as one, Engine(url) as other:
        one.start(CHAIN, workflow_id="w")
        for name in ("a", "b", "c"):
            other.start(CHAIN, workflow_id=f"beside-{name}")
            [task] = [task for task in one.poll(name, count=9) if task.workflow_id == "w"]
            other.start(CHAIN, workflow_id=f"again-{name}")
            one.update_task(TaskResult(workflow_id="w", task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease))
        assert one.core.turns.fenced_out == 0
        assert str(other.status("w")) == "COMPLETED"
        assert one.admin.check() == []


def test_a_cold_turn(url: str) -> None:
    """One batch of reads and one of writes: an engine that knows nothing of an execution takes a turn in two round trips."""
    with Engine(url) as one, Engine(url) as other:
        backend: Any = other.backend
        for workflow_id in ("w", "v"):
            one.start(CHAIN, workflow_id=workflow_id)
        found = []
        for task in one.poll("a", count=2):
            result = TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease)
            event = other.core.reports.prepared(task, result).event
            before = backend.round_trips
            other.core.turns.run_turn(task.workflow_id, [event])
            found.append(backend.round_trips - before)
        assert found[1] <= 2  # with the first one it has learned the definition
