"""What the SQLite backend costs, as counts: plans, statements, and machine steps that do not grow with the store."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from conductorlite.errors import FencedOut
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Decision, Message, Outgoing
from conductorlite.model.executions import PollData, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.store.sqlite import statements
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.sqlite.rows import NULL, task_row, workflow_row
from conductorlite.store.tables import ExecutionFilter
from conductorlite.testing.conformance.samples import event, line, message, started, task, task_id, workflow
from conductorlite.testing.faults import lay_empty_store

SQL = {name: text for name, text in vars(statements).items() if name.isupper() and name[0] != "_" and isinstance(text, str)} | {
    f"REMOVE {n}": text for n, text in enumerate(statements.REMOVE)
}

#: Ordered walks along an index that end with their LIMIT.
_WALKS = {"UPCOMING_EVENTS", "NEXT_EVENT"}

#: What a statement makes itself, and the engines that drive a store: few, however much it holds.
_FEW = ("SCAN CONSTANT ROW", "SCAN holders", "SCAN h", "SCAN whose", "SCAN instants")


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SQLiteBackend]:
    """A store that counts."""
    backend = SQLiteBackend(lay_empty_store(tmp_path / "store.db"), synchronous="NORMAL", counting=True)
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SQLiteBackend]:
    """A store in which nothing is ever written."""
    backend = SQLiteBackend(tmp_path_factory.mktemp("empty") / "store.db")
    yield backend
    backend.close()


def _parameters(text: str) -> list[None]:
    numbers = re.findall(r"\?(\d+)", text)
    return [None] * (max(map(int, numbers)) if numbers else text.count("?"))


@pytest.mark.parametrize("name", sorted(SQL))
def test_no_statement_scans_or_sorts(empty: SQLiteBackend, name: str) -> None:
    """Every statement of a turn finds its rows by a key or an index, and none sorts."""
    text = SQL[name]
    if text in statements.COLD:
        return
    plan = [row[3] for row in empty._writer.execute("EXPLAIN QUERY PLAN " + text, _parameters(text))]
    for step in plan:
        assert "TEMP B-TREE" not in step, plan
        few = step in _FEW or "wanted VIRTUAL TABLE" in step or "SCAN (subquery-" in step
        assert few or not step.startswith("SCAN") or (name in _WALKS and "USING INDEX" in step), plan


_ROWS = (
    *("INSERT_WITH_TIMERS", "UPDATE_WORKFLOW", "UPDATE_WORKFLOW_AND_STATUS", "INSERT_TASK", "UPDATE_TASK", "INSERT_HISTORY"),
    *("PUT_EVENT", "DELETE_EVENT", "PUT_MESSAGE", "DELETE_MESSAGE"),
)


@pytest.mark.parametrize("name", _ROWS)
def test_no_row_of_a_turn_makes_a_table_of_its_own(empty: SQLiteBackend, name: str) -> None:
    """Whether a row belongs to a partial index is compared, not looked up in a list: that would be made for every row."""
    steps = [row[1] for row in empty._writer.execute("EXPLAIN " + SQL[name], _parameters(SQL[name]))]
    assert "OpenEphemeral" not in steps


def test_rows_are_bound_without_none(backend: SQLiteBackend) -> None:
    """What a turn leaves empty is kept as NULL, and for no cell of it sqlite3 looks for an adapter of None."""
    row, one = workflow("w"), task("t1", "w", worker_id=None)
    assert None not in workflow_row(row, NULL)
    assert None not in task_row(one, NULL)
    with backend.writing() as tx:
        tx.decisions.apply(first("w"))
    columns = "reason, parked, ended_at, correlation_id, parent_workflow_id, rest"
    assert backend._writer.execute(f"SELECT {columns} FROM workflows").fetchone() == (None,) * 6
    columns = "reason, worker_id, ended_at, timeout_at, name, base_ref, rest"
    assert set(backend._writer.execute(f"SELECT {columns} FROM tasks")) == {(None,) * 7}


def turn(row: Workflow, n: int) -> Decision:
    """A usual turn: one task ends, the next is scheduled."""
    workflow_id = row.workflow_id
    return Decision(
        workflow=attrs.evolve(row, task_seq=n, history_seq=4 * n + 4),
        updated=(task(f"t{n}", workflow_id, seq=n, status=TaskStatus.COMPLETED, executed=True),),
        inserted=(task(f"t{n + 1}", workflow_id, seq=n + 1),),
        history=tuple(line(4 * n + k + 1, ref=f"t{n}") for k in range(4)),
        consumed=(f"report {n}",),
        timers=(event(f"timeout {n + 1}", 9_000, workflow_id), event("deadline", 9_999, workflow_id)),
        outgoing=Outgoing(removed=((workflow_id, f"t{n}"),), put=(message(f"t{n + 1}", n, workflow_id),)),
    )


def first(workflow_id: str) -> Decision:
    """The turn that starts an execution."""
    return Decision(
        workflow=workflow(workflow_id, input=Payload.of({"n": 1})),
        created=True,
        inserted=(task("t0", workflow_id),),
        timers=(event("timeout 0", 9_000, workflow_id),),
        outgoing=Outgoing(put=(message("t0", 0, workflow_id),)),
    )


def test_usual_turn_is_ten_statements_and_one_commit(backend: SQLiteBackend) -> None:
    """One statement per kind of row, however many rows, between BEGIN with a look at the schema and COMMIT, and no savepoint."""
    counts = backend.counts
    assert counts is not None
    with backend.writing() as tx:
        tx.decisions.apply(first("w"))
    with backend.reading() as view:
        row = view.executions.workflow("w")
    assert row is not None
    counts.reset()
    with backend.writing() as tx:
        tx.decisions.apply(turn(row, 0))
    assert (counts.statements, counts.commits, counts.rows_read) == (10, 1, 1), counts.statements_by_sql
    assert set(counts.statements_by_sql.values()) == {1}


def test_turns_that_share_a_write_cost_as_many_statements_as_one(backend: SQLiteBackend) -> None:
    """Fifty executions are one statement for each kind of row too, in one savepoint; where something is refused, one more each."""
    counts = backend.counts
    assert counts is not None
    with backend.writing() as tx:
        tx.decisions.apply_all([first(f"w{number}") for number in range(50)])
    with backend.reading() as view:
        rows = [row for number in range(50) if (row := view.executions.workflow(f"w{number}")) is not None]
    usual = [attrs.evolve(turn(row, 0), consumed=(), timers=()) for row in rows]
    counts.reset()
    with backend.writing() as tx:
        assert len(tx.decisions.apply_some(usual)) == 50
    assert (counts.statements, counts.commits) == (10, 1), counts.statements_by_sql
    with backend.writing() as tx:
        assert not tx.decisions.apply_some(usual)
        with pytest.raises(FencedOut):
            tx.decisions.apply(usual[0])


def test_wide_turn_costs_no_more_statements(backend: SQLiteBackend) -> None:
    """A turn of a thousand rows of each kind is still one statement each."""
    row = started(backend)
    counts = backend.counts
    assert counts is not None
    counts.reset()
    wide = Decision(
        workflow=row,
        inserted=tuple(task(f"t{n}") for n in range(1000)),
        history=tuple(line(n) for n in range(1000)),
        timers=tuple(event(f"e{n}") for n in range(1000)),
        outgoing=Outgoing(put=tuple(message(f"t{n}") for n in range(1000))),
    )
    with backend.writing() as tx:
        tx.decisions.apply(wide)
    assert counts.statements == 8


def test_shared_commit_pays_one_savepoint_per_further_turn(backend: SQLiteBackend) -> None:
    """Turns that share a commit cost two statements more each, from the second on; one fenced out undoes itself."""
    rows = [started(backend, f"w{n}") for n in range(3)]
    counts = backend.counts
    assert counts is not None
    counts.reset()
    with backend.writing() as tx:
        for row in rows:
            tx.decisions.apply(Decision(workflow=row))
        with pytest.raises(FencedOut):
            tx.decisions.apply(Decision(workflow=rows[0]))
    assert counts.statements == 3 + 3 + 2 * 2 + (
        1 + 2 + 1 + 2
    )  # the late one tries with and without a change of status, and looks what there is
    assert counts.commits == 1


def test_fenced_out_turn_undoes_nothing(backend: SQLiteBackend) -> None:
    """A turn that comes too late alone in its transaction has written nothing, so there is nothing to roll back."""
    row = started(backend)
    counts = backend.counts
    assert counts is not None
    counts.reset()
    with backend.writing() as tx, pytest.raises(FencedOut):
        tx.decisions.apply(Decision(workflow=attrs.evolve(row, fence=0), inserted=(task(),)))
    assert counts.statements == 6


def test_snapshot_is_read_in_few_statements(backend: SQLiteBackend) -> None:
    """A turn's reading is one statement each for the row, events of others, own timers, and all references together."""
    counts = backend.counts
    assert counts is not None
    started(backend, inserted=tuple(task(f"t{n}") for n in range(50)))
    counts.reset()
    with backend.reading() as view:
        view.executions.workflow("w")
        view.inbox.due_events("w", 5, 100)
        view.executions.tasks("w", {f"t{n}" for n in range(40)} | {"nobody"})
    assert (counts.statements, counts.rows_read) == (6, 41)


def steps_of(connection: sqlite3.Connection, work: Callable[[], object]) -> int:
    """Instructions of SQLite's machine that `work` takes on a connection."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.set_progress_handler(count, 1)
    try:
        work()
    finally:
        connection.set_progress_handler(None, 1)
    return steps


def every_operation(backend: SQLiteBackend) -> dict[str, int]:
    """Machine steps of each operation of a turn and of the driver, on one execution among those parked."""
    with backend.writing() as tx:
        tx.decisions.apply(first("w"))
        tx.poll_data.record_polls([PollData(queue_name="charge")])
        row = tx.executions.workflow("w")
        assert row is not None
        done = attrs.evolve(row, fence=row.fence + 1, status=WorkflowStatus.COMPLETED)
        queues = ["charge", "other"]
        completed = ExecutionFilter(name="order", status=WorkflowStatus.COMPLETED)
        work: dict[str, Callable[[], object]] = {
            "apply": lambda: tx.decisions.apply(turn(row, 0)),
            "apply a change of status": lambda: tx.decisions.apply(Decision(workflow=done)),
            "post": lambda: tx.inbox.post([event("report 1", 3), event("timeout 1", 3)]),
            "workflow": lambda: tx.executions.workflow("w"),
            "tasks": lambda: tx.executions.tasks("w", {"t0", "t1", "t9"}),
            "live": lambda: tx.executions.live("w"),
            "failed": lambda: tx.executions.failed("w"),
            "latest": lambda: tx.executions.latest("w", {"t0", "x"}),
            "due events": lambda: tx.inbox.due_events("w", 5, 100),
            "due workflows": lambda: tx.inbox.due_workflows(5, 10),
            "next event": tx.inbox.next_event_at,
            "upcoming": lambda: tx.inbox.upcoming_events(1),
            "offered": lambda: tx.queue.offered("charge", 5, 2),
            "next message": lambda: tx.queue.next_message_at(queues),
            "task by id": lambda: tx.executions.task_by_id(task_id("t1")),
            "listed": lambda: tx.executions.page(ExecutionFilter(), None, 2),
            "listed by name": lambda: tx.executions.page(ExecutionFilter(name="order"), None, 2),
            "listed by name and status": lambda: tx.executions.page(completed, None, 2),
            "listed by status": lambda: tx.executions.page(ExecutionFilter(status=WorkflowStatus.COMPLETED), None, 2),
            "listed by correlation id": lambda: tx.executions.page(ExecutionFilter(correlation_id="c", name="order"), None, 2),
            "listed by parent": lambda: tx.executions.page(ExecutionFilter(parent_workflow_id="p"), None, 2),
            "key holder": lambda: tx.executions.key_holder("order", "k"),
            "record a poll": lambda: tx.poll_data.record_polls([PollData(queue_name="charge", last_poll_time=1)]),
            "polls": lambda: tx.poll_data.polls("charge"),
            "ids": lambda: tx.executions.workflow_ids(None, "", 5),
            "park": lambda: tx.executions.park("w", 3, "why"),
            "release": lambda: tx.executions.release("w", 4),
            "remove": lambda: tx.executions.remove("w"),
        }
        return {name: steps_of(backend._writer, call) for name, call in work.items()}


def park(backend: SQLiteBackend, count: int, prefix: str) -> None:
    """Executions that wait: each with a task, a timer and a message far in the future."""

    def waiting(workflow_id: str) -> Decision:
        later: tuple[Message, ...] = (message("t0", 5_000, workflow_id, priority=9),)
        return attrs.evolve(first(workflow_id), outgoing=Outgoing(put=later))

    with backend.writing() as tx:
        for n in range(count):
            tx.decisions.apply(waiting(f"{prefix}{n:06}"))


def test_no_operation_grows_with_the_store(backend: SQLiteBackend) -> None:
    """With forty times as many executions parked, every operation takes the same number of machine steps."""
    park(backend, 50, "p")
    every_operation(backend)  # the first removal makes the counter of fences
    few = every_operation(backend)
    park(backend, 2_000, "q")
    assert every_operation(backend) == few


def test_no_operation_grows_with_its_own_execution(backend: SQLiteBackend) -> None:
    """The hundredth turn of an execution takes the machine steps of the tenth."""
    row = started(backend, inserted=(task("t0"),), timers=(event("timeout 0", 9_000),))
    costs: list[int] = []
    for n in range(100):
        with backend.writing() as tx:
            decision = turn(attrs.evolve(row, fence=row.fence + n), n)

            def work(decision: Decision = decision) -> None:
                tx.decisions.apply(decision)
                tx.executions.tasks("w", {"t0", "t5"})
                tx.inbox.due_events("w", 5, 100)

            costs.append(steps_of(backend._writer, work))
    # Now and then lines of the journal leave the row of the execution: as many of them each time, at the same cost.
    usual, moving = sorted(set(costs[10:55]))
    assert sorted(set(costs[55:])) == [usual, moving]
    assert costs[10:].count(moving) < 20
