"""`Engine.admin.repair`: each damage is planted, found by `check`, set right, told; the execution then ends as it would have."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from engine_kit import T0, fork, join, simple

from conductorlite import Engine, EngineConfig, TaskStatus, VirtualClock, Workers, Workflow, WorkflowDef, WorkflowStatus
from conductorlite.errors import ExecutionNotFound
from conductorlite.model.decisions import Decision, EventKind, Outgoing
from conductorlite.model.definitions import RateLimitConfig
from conductorlite.model.limits import LimitChange, MemberState
from conductorlite.store.ports import Backend
from conductorlite.testing.conformance.samples import event, message, settle

FORKED = WorkflowDef(
    name="forked",
    timeout_ms=3_600_000,
    tasks=[
        fork("fork", [simple("a", {"response_timeout_s": 60})], [simple("b", {"poll_timeout_s": 120})]),
        join("join", "a", "b"),
        simple("c"),
    ],
)
LIMITED = WorkflowDef(name="limited", tasks=[simple("l", {"concurrent_exec_limit": 1})])


@pytest.fixture
def engine(store: Backend) -> Engine:
    """An engine with workers for everything."""
    workers = Workers()
    for name in ("a", "b", "c", "l"):

        @workers.task(name)
        def work() -> dict[str, Any]:
            return {}

    return Engine(store, workers=workers, clock=VirtualClock(T0))


@pytest.fixture
def row(engine: Engine) -> Workflow:
    """A running execution: `a` is with a worker, `b` is offered, the JOIN waits for both."""
    run = engine.start(FORKED, workflow_id="w")
    settle(engine.backend)
    assert [task.ref for task in engine.poll("a")] == ["a"]
    settle(engine.backend)
    return engine.get(run.workflow_id)


def plant(engine: Engine, row: Workflow, workflow: dict[str, Any] | None = None, **parts: Any) -> None:
    """Commit what no turn would."""
    with engine.backend.writing() as tx:
        stored = tx.executions.workflow(row.workflow_id)
        assert stored is not None
        tx.decisions.apply(Decision(workflow=attrs.evolve(stored, **(workflow or {})), **parts))
    settle(engine.backend)


#: What is damaged, the law that finds it, and a word of what is told to have been done.
Damage = Callable[[Engine, Workflow], None]
DAMAGES: dict[str, tuple[Damage, str, str]] = {
    "the count of the workflow": (
        lambda engine, row: plant(engine, row, {"open": 7}),
        "counters_equal_counts",
        "live tasks, it had 7",
    ),
    "the count of a JOIN": (
        lambda engine, row: plant(engine, row, updated=(attrs.evolve(row.task("join"), waiting=1),)),
        "counters_equal_counts",
        "join: waits for 2, it had 1",
    ),
    "the count of a scope that is none": (
        lambda engine, row: plant(engine, row, updated=(attrs.evolve(row.task("join"), open=3),)),
        "counters_equal_counts",
        "join: counts 0 live tasks, it had 3",
    ),
    "no message": (
        lambda engine, row: plant(engine, row, outgoing=Outgoing(removed=(("w", "b"),))),
        "open_tasks_are_reachable",
        "b is offered in queue 'b' again",
    ),
    "the message of another attempt": (
        lambda engine, row: plant(engine, row, outgoing=Outgoing(put=(message("b", 0, "w", queue="b", attempt=3),))),
        "open_tasks_are_reachable",
        "b is offered in queue 'b' again",
    ),
    "a message in a queue of another engine": (
        lambda engine, row: plant(
            engine, row, outgoing=Outgoing(put=(message("b", T0, "w", queue="@x/b", task_id=row.task("b").task_id),))
        ),
        "events_are_the_owners",
        "b is offered in queue 'b' again",
    ),
    "a message of a task that is with a worker": (
        lambda engine, row: plant(engine, row, outgoing=Outgoing(put=(message("a", 0, "w", queue="a"),))),
        "nothing_of_the_ended",
        "a is taken out of queue 'a'",
    ),
    "no timer of a deadline": (
        lambda engine, row: plant(engine, row, cancelled=("RESPONSE_TIMEOUT:a",)),
        "open_tasks_are_reachable",
        "a: response_timeout_at",
    ),
    "a timer at another instant": (
        lambda engine, row: plant(
            engine,
            row,
            timers=(event("POLL_TIMEOUT:b", 5, "w", kind=EventKind.POLL_TIMEOUT, ref="b", posted_at=T0),),
        ),
        "open_tasks_are_reachable",
        "b: poll_timeout_at",
    ),
    "no timer of the workflow": (
        lambda engine, row: plant(engine, row, cancelled=("WORKFLOW_TIMEOUT",)),
        "open_tasks_are_reachable",
        "the workflow's timeout",
    ),
    "a timer without a deadline": (
        lambda engine, row: plant(
            engine, row, timers=(event("WAIT_ENDS:a", 2**60, "w", kind=EventKind.WAIT_ENDS, ref="a", posted_at=T0),)
        ),
        "open_tasks_are_reachable",
        "WAIT_ENDS:a: a timer without a deadline is taken back",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_is_set_right_and_told(engine: Engine, row: Workflow, name: str) -> None:
    """`check` finds it and changes nothing; `repair` says what it did; then the execution ends well."""
    damage, law, told = DAMAGES[name]
    damage(engine, row)
    found = engine.admin.check("w")
    assert law in {finding.law for finding in found}
    assert engine.admin.check("w") == found
    report = engine.admin.repair()
    settle(engine.backend)
    assert any(told in finding.text for finding in report.done), report
    assert engine.admin.check() == []
    assert engine.admin.repair().done == ()
    engine.run_until_idle()
    assert engine.status("w") is WorkflowStatus.COMPLETED
    assert engine.admin.check() == []


def test_a_healthy_store_is_left_alone(engine: Engine, row: Workflow) -> None:
    """Nothing is done where nothing is found, and nothing is written."""
    before = engine.core.queries.execution("w")
    report = engine.admin.repair()
    assert (report.done, report.left) == ((), ())
    assert engine.core.queries.execution("w") == before


def test_a_join_that_was_forgotten_goes_on(engine: Engine, row: Workflow) -> None:
    """Both branches have ended, and the JOIN's count says otherwise: it looks again."""
    plant(engine, row, updated=(attrs.evolve(row.task("join"), waiting=5),))
    engine.run_until_idle(timeout="300s")
    assert engine.get("w").task("join").status is TaskStatus.IN_PROGRESS
    report = engine.admin.repair("w")
    assert [finding.text for finding in report.done] == ["join: waits for 0, it had 3"]
    engine.run_until_idle()
    assert engine.status("w") is WorkflowStatus.COMPLETED


def test_a_join_that_still_waits_is_not_told_to_look(engine: Engine, row: Workflow) -> None:
    """Its count is put right, and nothing is due."""
    plant(engine, row, updated=(attrs.evolve(row.task("join"), waiting=1),))
    engine.admin.repair()
    with engine.backend.reading() as view:
        join = view.executions.tasks("w", frozenset({"join"}))["join"]
        assert join is not None
        assert join.waiting == 2
        assert not view.inbox.due_events("w", engine.clock.now(), 9)


def test_what_has_ended_holds_nothing(engine: Engine, row: Workflow) -> None:
    """Leases and deadlines of ended attempts, timers and messages of an ended workflow are taken back."""
    engine.run_until_idle()
    done = engine.get("w")
    plant(
        engine,
        done,
        updated=(attrs.evolve(done.task("a"), lease=9, timeout_at=99),),
        timers=(event("WORKFLOW_TIMEOUT", 2**60, "w", kind=EventKind.WORKFLOW_TIMEOUT),),
        outgoing=Outgoing(put=(message("c", 0, "w", queue="c", task_id=done.task("c").task_id),)),
    )
    assert {finding.law for finding in engine.admin.check()} >= {"nothing_of_the_ended"}
    report = engine.admin.repair()
    settle(engine.backend)
    assert len(report.done) == 3
    assert engine.admin.check() == []


def test_events_of_the_wrong_owner_are_put_right(store: Backend) -> None:
    """An event that only another engine would find is its execution's again."""
    engine = Engine(store, clock=VirtualClock(T0), config=EngineConfig(name="one", allocation="local"))
    engine.start(FORKED, workflow_id="w")
    settle(store)
    with store.writing() as tx:
        moved = tx.owners.change_owner("one", "two", "", 9)
        assert moved
        tx.owners.change_owner("two", "one", "", 9)
        tx.inbox.post([event("CHILD_ENDED:c", T0, "w", kind=EventKind.CHILD_ENDED, sender="c")])
    assert engine.admin.check() == []
    misplace(store, "w", "CHILD_ENDED:c")
    assert {finding.law for finding in engine.admin.check()} == {"events_are_the_owners"}
    report = engine.admin.repair()
    assert [finding.law for finding in report.done] == ["events_are_the_owners"]
    assert engine.admin.check() == []


def misplace(store: Any, workflow_id: str, event_id: str) -> None:
    """Have one event belong to somebody who owns nothing."""
    if hasattr(store, "path"):
        with sqlite3.connect(store.path) as raw:
            raw.execute("UPDATE inbox SET owner = 'two' WHERE workflow_id = ? AND event_id = ?", (workflow_id, event_id))
        raw.close()
        return
    kept = store._store
    event = kept.executions[workflow_id].inbox[event_id]
    place = (event.due_at, workflow_id, *event.order[1:], event_id)
    kept.due[event.owner].discard(place)
    kept.due["two"].add(place)
    kept.executions[workflow_id].inbox[event_id] = attrs.evolve(event, owner="two")


def test_counts_of_a_limit(engine: Engine) -> None:
    """Counts are those of the members, and the head of the line takes the slot that is free."""
    engine.start(LIMITED, workflow_id="x")
    engine.start(LIMITED, workflow_id="y")
    settle(engine.backend)
    with engine.backend.writing() as tx:
        limit = tx.limits.line("task:l", 9).limit
        tx.limits.put_limit(LimitChange(limit=attrs.evolve(limit, in_use=4)))
    assert {finding.law for finding in engine.admin.check()} == {"slots_are_counted_and_used"}
    report = engine.admin.repair()
    assert [finding.text for finding in report.done] == ["counts 1 in use and 0 reserved, it had 4 and 0"]
    assert report.left == ()
    engine.run_until_idle()
    assert {engine.status(one) for one in "xy"} == {WorkflowStatus.COMPLETED}
    assert engine.admin.check() == []


def test_places_of_executions_that_are_gone(engine: Engine) -> None:
    """A slot that nobody could ever give back is given back, and whoever waits for it goes on."""
    engine.start(LIMITED, workflow_id="x")
    engine.start(LIMITED, workflow_id="y")
    settle(engine.backend)
    with engine.backend.writing() as tx:
        (held,) = [member for member in tx.limits.members("task:l") if member.state is MemberState.HELD]
        tx.executions.remove(held.workflow_id)
        limit = tx.limits.line("task:l", 9).limit
        tx.limits.put_limit(LimitChange(limit=limit, put=(held,)))
    assert any("is gone" in finding.text for finding in engine.admin.check())
    report = engine.admin.repair()
    assert any("gives its place back" in finding.text for finding in report.done)
    engine.run_until_idle()
    assert engine.status("y") is WorkflowStatus.COMPLETED
    assert engine.admin.check() == []


def test_messages_of_tasks_that_are_gone(engine: Engine, row: Workflow) -> None:
    """They are found although no execution leads to them, and taken out."""
    plant(engine, row, outgoing=Outgoing(put=(message("z", 0, "gone"),)))
    assert any("a task that is gone" in finding.text for finding in engine.admin.check())
    report = engine.admin.repair()
    assert [finding.workflow_id for finding in report.done] == ["gone"]
    assert engine.admin.check() == []


def test_what_cannot_be_set_right_stays_told(engine: Engine, row: Workflow) -> None:
    """The journal and the rows contradict each other: nobody can know which is true. Nothing is touched, and it is told."""
    plant(engine, row, updated=(attrs.evolve(row.task("a"), worker_id="w", status=TaskStatus.SCHEDULED),))
    with pytest.raises(ExecutionNotFound):
        engine.admin.repair("nobody")
    report = engine.admin.repair()
    assert "the_journal_replays_to_the_rows" in {finding.law for finding in report.left}
    assert engine.get("w").task("a").status is TaskStatus.SCHEDULED


def test_an_index_that_lost_a_row(tmp_path: Path) -> None:
    """SQLite's own check is part of `check`; an index is made anew from its table."""
    path = tmp_path / "store.db"
    with Engine(path, clock=VirtualClock(T0)) as engine:
        engine.start(FORKED, workflow_id="w")
    index = "workflows_status_created"
    _redefine(path, index, " WHERE 0")
    with Engine(path, clock=VirtualClock(T0)) as engine:
        engine.start(FORKED, workflow_id="lost")
    _redefine(path, index, "")
    with Engine(path, clock=VirtualClock(T0)) as engine:
        assert {finding.law for finding in engine.admin.check()} == {"the_store_is_sound"}
        assert [row.workflow_id for row in engine.executions()] == ["w"]
        report = engine.admin.repair()
        assert "rebuilt" in report.done[0].text
        assert report.left == ()
        assert {row.workflow_id for row in engine.executions()} == {"w", "lost"}


def _redefine(path: Path, index: str, condition: str) -> None:
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("PRAGMA writable_schema = ON")
    (sql,) = raw.execute("SELECT sql FROM sqlite_master WHERE name = ?", (index,)).fetchone()
    raw.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (sql.partition(" WHERE")[0] + condition, index))
    raw.close()


def test_an_execution_that_waited_for_a_free_slot_begins(engine: Engine) -> None:
    """The limit of its key was counted wrongly: told to look again, it lets itself in."""
    keyed = WorkflowDef(
        name="keyed", tasks=[simple("c")], rate_limit_config=RateLimitConfig(rate_limit_key="k", concurrent_exec_limit=1)
    )
    engine.start(keyed, workflow_id="x")
    engine.start(keyed, workflow_id="y")
    settle(engine.backend)
    with engine.backend.writing() as tx:
        (held,) = [member for member in tx.limits.members("workflow:k") if member.state is MemberState.HELD]
        tx.executions.remove(held.workflow_id)
        tx.limits.put_limit(LimitChange(limit=tx.limits.line("workflow:k", 9).limit, put=(held,)))
    assert engine.get("y").task("c").status is TaskStatus.PENDING
    engine.run_until_idle()
    assert engine.get("y").task("c").status is TaskStatus.PENDING
    engine.admin.repair()
    engine.run_until_idle()
    assert engine.status("y") is WorkflowStatus.COMPLETED
    assert engine.admin.check() == []


def test_a_retry_that_nothing_begins(engine: Engine) -> None:
    """The retry of a HUMAN that is put off has lost its timer, and is offered to workers: it begins when it is due."""
    limit = {"name": "h", "timeoutSeconds": 2, "timeoutPolicy": "RETRY", "retryDelaySeconds": 10, "retryCount": 1}
    human = {"name": "h", "taskReferenceName": "h", "type": "HUMAN", "taskDefinition": limit}
    engine.start(WorkflowDef.from_json({"name": "human", "tasks": [human]}), workflow_id="w")
    engine.advance("3s")
    put_off = engine.get("w").task("h")
    offered = message("h", 1, "w", queue="HUMAN", task_id=put_off.task_id)
    plant(engine, engine.get("w"), cancelled=("ADMISSION:h",), outgoing=Outgoing(put=(offered,)))
    assert {finding.text for finding in engine.admin.check()} == {
        "h is SCHEDULED, and nothing begins it",
        "h is SCHEDULED, and is offered",
    }
    report = engine.admin.repair("w")
    settle(engine.backend)
    assert len(report.done) == 2
    assert engine.admin.check() == []
    engine.advance("9s")
    assert engine.get("w").task("h").status is TaskStatus.IN_PROGRESS
