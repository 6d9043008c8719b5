"""Rows that an engine keeps in memory between turns: they save reading, and are never believed.

Whatever else writes an execution's rows, a turn that was decided on old ones is decided again on what is stored, and what would
write nothing is answered from there only.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import attrs
import pytest
from engine_kit import T0, flow, simple

from conductorlite import (
    Engine,
    EngineConfig,
    Task,
    TaskResult,
    TaskStatus,
    VirtualClock,
    Workers,
    Workflow,
    WorkflowDef,
    WorkflowTask,
)
from conductorlite.errors import ExecutionNotFound, StaleLease
from conductorlite.model.errors import FencedOut
from conductorlite.model.executions import PollData
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing.faults import FaultyBackend, lay_empty_store

CHAIN = flow(*(simple(f"t{number}") for number in range(6)), name="chain")

#: Opens one more engine on the same store.
Open = Callable[..., Engine]


def loop(ref: str, *body: WorkflowTask, items: str) -> WorkflowTask:
    """A DO_WHILE over a list."""
    return WorkflowTask(name=ref, task_reference_name=ref, type="DO_WHILE", loop_over=body, items=items)


def shared(backend: Backend) -> Open:
    """Engines on one backend object."""
    return lambda **options: Engine(backend, clock=VirtualClock(T0), **options)


@pytest.fixture(params=["one memory store", "one backend", "two connections"])
def another(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens engines on one store: on one object in memory, on one object of a file, each with a connection of its own."""
    opened: list[Engine] = []
    path = lay_empty_store(tmp_path / "store.db")
    # A wrapped store is asked as one in a file is.
    one = FaultyBackend(MemoryBackend()) if request.param == "one memory store" else SQLiteBackend(path, synchronous="NORMAL")
    make = shared(one) if request.param != "two connections" else lambda **options: Engine(path, clock=VirtualClock(T0), **options)

    def another(**options: Any) -> Engine:
        opened.append(make(**options))
        return opened[-1]

    yield another
    assert opened[0].admin.check() == []
    for engine in opened:
        engine.close()
    one.close()


def take(engine: Engine, ref: str) -> Task:
    """Take the one task that is offered under a name."""
    (task,) = engine.poll(ref, worker_id="v")
    return task


def report(engine: Engine, task: Task, status: str = "COMPLETED") -> Task:
    """Report on a task under its lease."""
    return engine.update_task(reported(task, status))


def reported(task: Task, status: str = "COMPLETED") -> TaskResult:
    """A report on a task under its lease."""
    return TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus(status), lease=task.lease)


def warm(engine: Engine, workflow_id: str = "w") -> Task:
    """An execution whose rows the engine keeps: its third task is held."""
    engine.start(CHAIN, workflow_id=workflow_id)
    for ref in ("t0", "t1"):
        report(engine, take(engine, ref))
    held = take(engine, "t2")
    assert engine.core.turns.residents._held[workflow_id].tasks["t2"] is not None
    return held


def test_rows_that_are_kept_are_those_that_are_stored(tmp_path: Path) -> None:
    """After each turn of a chain: the row and each task, as the store gives them."""
    backend = SQLiteBackend(lay_empty_store(tmp_path / "store.db"), synchronous="NORMAL")
    workers = Workers()
    for task in CHAIN.tasks:
        workers.task(task.name)(lambda: {"text": "x" * 3_000})
    with Engine(backend, workers=workers, clock=VirtualClock(T0)) as engine:
        compared = 0
        engine.start(CHAIN, {"large": "y" * 5_000}, workflow_id="w")
        while engine.tick():
            for workflow_id, resident in engine.core.turns.residents._held.items():
                with backend.reading() as view:
                    assert resident.row == view.executions.workflow(workflow_id)
                    assert resident.tasks == view.executions.tasks(workflow_id, set(resident.tasks))
                    compared += len(resident.tasks)
        assert compared > 10
        assert engine.core.turns.residents._held == {}  # it has ended


def test_a_step_reads_no_row(tmp_path: Path) -> None:
    """A report and the next poll read neither the execution nor its tasks."""
    backend = SQLiteBackend(lay_empty_store(tmp_path / "store.db"), synchronous="NORMAL", counting=True)
    counts = backend.counts
    assert counts is not None
    read: list[int] = []
    workers = Workers()
    for task in CHAIN.tasks:
        workers.task(task.name)(lambda: read.append(rows_read()))

    def rows_read() -> int:
        return sum(
            n
            for text, n in counts.statements_by_sql.items()
            if text.startswith("SELECT") and ("FROM tasks" in text or "FROM workflows" in text)
        )

    with Engine(backend, workers=workers, clock=VirtualClock(T0)) as engine:
        engine.start(CHAIN, workflow_id="w")
        engine.settle()
    assert len(set(read)) == 1


def working() -> Workers:
    """Workers for every task of the chain."""
    workers = Workers()
    for task in CHAIN.tasks:
        workers.task(task.name)(lambda: {"done": True})
    return workers


def test_the_result_of_what_a_step_has_ended_reads_no_row(tmp_path: Path) -> None:
    """It is what the last turn has left."""
    backend = SQLiteBackend(lay_empty_store(tmp_path / "store.db"), synchronous="NORMAL", counting=True)
    counts = backend.counts
    assert counts is not None
    with Engine(backend, workers=working(), clock=VirtualClock(T0)) as engine:
        engine.start_and_wait(CHAIN)
        counts.reset()
        assert engine.start_and_wait(CHAIN, workflow_id="w") == {"done": True}
        assert not [sql for sql in counts.statements_by_sql if sql.startswith("SELECT") and "FROM workflows" in sql]
        assert engine.core.turns.quiet.ended("w") == engine.core.queries.execution("w")


@pytest.mark.parametrize("how", ["restarted", "restarted elsewhere", "removed", "removed elsewhere"])
def test_the_end_that_a_step_has_made_is_believed_until_somebody_writes(another: Open, how: str) -> None:
    """Whoever does, the result is that of the execution as it is then."""
    here, elsewhere = another(workers=working()), another()
    assert here.start_and_wait(CHAIN, workflow_id="w") == {"done": True}
    assert here.result("w") == {"done": True}
    engine = elsewhere if how.endswith("elsewhere") else here
    if how.startswith("restarted"):
        engine.restart("w")
        assert here.core.turns.quiet.ended("w") is None
        assert here.result("w") == {"done": True}
        assert here.get("w").task("t0").attempt == 0
    else:
        engine.admin.remove("w")
        with pytest.raises(ExecutionNotFound):
            here.result("w")


@pytest.mark.parametrize("write", ["that changes something", "that comes to nothing"])
@pytest.mark.parametrize("what", ["an end", "no end", "no end of what is kept"])
def test_what_others_have_written_is_known_after_an_own_write(another: Open, what: str, write: str) -> None:
    """The own commits have not become more by that of another process; what was known before it is not believed again."""
    here, elsewhere = another(workers=working()), another()
    rows: list[Workflow] = []
    if what == "an end":
        here.start_and_wait(CHAIN, workflow_id="w")
    elif what == "no end":
        elsewhere.start(CHAIN, workflow_id="w")
        here.start(CHAIN, workflow_id="other")
    else:
        warm(here)
    ended = here.core.queries.ending("w", rows)
    assert ended() is (what == "an end")
    if what == "an end":
        elsewhere.restart("w")
    else:
        elsewhere.terminate("w")
    if write == "that changes something":
        here.start(CHAIN, workflow_id="another")
    else:
        with suppress(FencedOut), here.backend.writing() as tx:
            here.core.turns.quiet.enter(tx, T0)
            raise FencedOut("another one was first")
    for asked in (ended, here.core.queries.ending("w", rows)):
        rows.clear()
        assert asked() is (what != "an end")
        assert [str(row.status) for row in rows] == ["TERMINATED"] * (what != "an end")


@pytest.mark.parametrize("what", ["a step", "a step of a group", "an end"])
def test_what_a_turn_has_left_is_as_old_as_its_commit(another: Open, what: str) -> None:
    """Before it is kept another process may write, and another thread of this one learn of that."""
    here, elsewhere = another(workers=working()), another()
    held = warm(here)
    other = warm(here, "other") if what == "a step of a group" else held
    quiet = here.core.turns.quiet
    real = quiet.committed

    def then_others_write(number: int, *more: Any) -> None:
        real(number, *more)
        vars(quiet).pop("committed", None)
        (elsewhere.restart if elsewhere.status("w").terminal else elsewhere.terminate)("w")
        enter(here)

    if what == "an end":
        for ref in ("t2", "t3", "t4"):
            report(here, held if ref == "t2" else take(here, ref))
        held = take(here, "t5")
    vars(quiet)["committed"] = then_others_write
    if what == "a step of a group":
        here.update_tasks([reported(held), reported(other)])
    else:
        report(here, held)
    assert here.core.queries.ending("w", [])() is (what != "an end")


def test_a_round_reads_no_row_of_the_loops_around_it(tmp_path: Path) -> None:
    """However many tasks have been carried out since they were written; nor what they run over, which is large."""
    backend = SQLiteBackend(lay_empty_store(tmp_path / "store.db"), synchronous="NORMAL", counting=True)
    counts = backend.counts
    assert counts is not None
    read: list[int] = []
    workers = Workers()
    workers.task("step")(lambda: read.append(sum(n for text, n in counts.statements_by_sql.items() if text.startswith("SELECT"))))
    noop = WorkflowTask(name="n", task_reference_name="n", type="NOOP")
    files = loop("inner", simple("step"), noop, items="${outer.output.loopItem.files}")
    package = {"files": [f"a file of a rather long name, the {number}th" for number in range(60)]}
    with Engine(backend, workers=workers, clock=VirtualClock(T0)) as engine:
        engine.start(flow(loop("outer", files, items="${workflow.input.packages}")), {"packages": [package]})
        engine.settle()
    rounds = [after - before for before, after in pairwise(read)]
    assert len(rounds) == 59
    assert rounds[2:] == [min(rounds)] * 57


def test_another_engine_was_first(another: Open) -> None:
    """What it has committed counts: a report of this engine on what has ended there is ignored, the next task goes on."""
    one, two = another(), another()
    held = warm(one)
    report(two, held)
    assert report(one, held).status is TaskStatus.COMPLETED
    report(one, take(one, "t3"))
    report(two, take(two, "t4"))
    report(one, take(one, "t5"))
    assert one.status("w").value == "COMPLETED"


@pytest.mark.parametrize("known", [True, False])
def test_commits_of_other_engines_leave_what_they_did_not_change(tmp_path: Path, *, known: bool) -> None:
    """A report is decided once, on the rows that are known, though others have written: not to its execution.

    Where no other engine is known to be at work it may be a person who writes, and raises no fence.
    """
    path = lay_empty_store(tmp_path / "store.db")
    with Engine(path, clock=VirtualClock(T0)) as one, Engine(path, clock=VirtualClock(T0)) as two:
        for engine in (one, two) if known else ():
            engine.core.holding.begin()
        one.core.holding.recover()
        held = warm(one)
        two.start(CHAIN, workflow_id="other")
        before = one.core.turns.fenced_out
        assert report(one, held).status is TaskStatus.COMPLETED
        assert one.core.turns.fenced_out - before == (0 if known else 1)


def test_a_refusal_is_answered_from_the_store(another: Open) -> None:
    """By its own rows the lease would be old; another engine has given it."""
    one, two = another(), another()
    held = warm(one)
    two.core.holding.give_back([held])
    again = take(two, "t2")
    assert again.lease != held.lease
    assert report(one, again).status is TaskStatus.COMPLETED
    with pytest.raises(StaleLease):
        report(one, attrs.evolve(take(two, "t3"), lease=held.lease))


@pytest.mark.parametrize("verb", ["pause", "terminate"])
def test_a_verb_of_another_engine_counts(another: Open, verb: str) -> None:
    """A report is taken of the execution as it is by now."""
    one, two = another(), another()
    held = warm(one)
    getattr(two, verb)("w")
    report(one, held)
    status = one.get("w")
    assert status.status.value == {"pause": "PAUSED", "terminate": "TERMINATED"}[verb]
    assert [task.ref for task in status.tasks] == ["t0", "t1", "t2"]
    assert one.poll("t3") == []


def test_what_was_parked_elsewhere_takes_no_turn(another: Open) -> None:
    """Parking raises the fence: a report is kept until it is released."""
    one, two = another(), another()
    held = warm(one)
    with two.backend.writing() as tx:
        tx.executions.park("w", 3, "a law")
    report(one, held)
    assert one.get("w").parked == "a law"
    assert one.get("w").tasks[-1].status is TaskStatus.IN_PROGRESS
    two.resume("w")
    two.settle()
    assert one.get("w").tasks[-1].ref == "t3"


def test_one_that_came_back_under_the_id_is_another_one(another: Open) -> None:
    """Removed and begun again elsewhere, with as many turns: nothing of the one before is written into it."""
    one, two = another(), another()
    held = warm(one)
    two.terminate("w")
    two.admin.remove("w")
    two.start(CHAIN, {"second": True}, workflow_id="w")
    for ref in ("t0", "t1"):
        report(two, take(two, ref))
    again = take(two, "t2")
    assert again.task_id == held.task_id
    result = TaskResult(workflow_id="w", task_id=held.task_id, status=TaskStatus.COMPLETED, output_data={"by": "one"})
    one.update_task(result)
    row = two.get("w")
    assert row.input_data == {"second": True}
    assert [str(task.status) for task in row.tasks] == ["COMPLETED", "COMPLETED", "COMPLETED", "SCHEDULED"]


def test_what_is_due_is_read_first(another: Open) -> None:
    """A report that comes after the task's deadline finds it timed out, though no driver has looked."""
    one = another()
    held = warm(one)
    one.clock.move_to((held.response_timeout_at or 0) + 1)  # type: ignore[attr-defined]
    report(one, held)
    assert [(task.ref, str(task.status)) for task in one.get("w").tasks][2] == ("t2", "TIMED_OUT")


@pytest.mark.parametrize("beside", [True, False])
def test_a_file_that_was_restored_under_a_running_engine(tmp_path: Path, *, beside: bool) -> None:
    """An older state comes back into the file, and moves on to the same fence: the engine writes nothing on what it knew."""
    path = lay_empty_store(tmp_path / "store.db")
    with Engine(path, clock=VirtualClock(T0)) as one:
        one.core.turns.quiet.beside = beside
        one.start(CHAIN, workflow_id="w")
        report(one, take(one, "t0"))
        one.admin.backup(str(tmp_path / "older.db"))
        report(one, take(one, "t1"))
        take(one, "t2")
        fence = one.core.turns.residents._held["w"].row.fence
        with sqlite3.connect(tmp_path / "older.db") as source, sqlite3.connect(path) as target:
            source.backup(target)
        with Engine(path, clock=VirtualClock(T0)) as two:
            while two.get("w").fence < fence:
                two.update_variables("w", {"restored": two.get("w").fence})
            assert two.get("w").fence == fence
        one.update_variables("w", {"by": "one"})
        row = one.get("w")
        assert row.variables.value["by"] == "one"
        assert "restored" in row.variables.value
        assert [task.ref for task in row.tasks] == ["t0", "t1"]
        assert one.admin.check() == []


def test_no_more_is_kept_than_is_allowed(tmp_path: Path) -> None:
    """By the bytes of the configuration; 0 keeps nothing."""
    path = lay_empty_store(tmp_path / "store.db")
    for allowed, kept in ((0, 0), (12_000, 2)):
        with Engine(path, clock=VirtualClock(T0), config=EngineConfig(resident_bytes=allowed)) as engine:
            for number in range(4):
                engine.start(CHAIN, workflow_id=f"{allowed}-{number}")
                report(engine, take(engine, "t0"))
                engine.poll("t1", worker_id="v")
            assert len(engine.core.turns.residents._held) == kept


def test_as_many_are_kept_as_their_rows_allow(tmp_path: Path) -> None:
    """Executions of few rows weigh little; of those that begin together, which offer a task, rows are known from the start."""
    path = lay_empty_store(tmp_path / "store.db")
    wait = WorkflowDef.from_json(
        {"name": "w", "tasks": [{"name": "w", "type": "WAIT", "taskReferenceName": "w", "inputParameters": {"duration": "1 day"}}]}
    )
    with Engine(path, clock=VirtualClock(T0), config=EngineConfig(resident_bytes=240_000)) as engine:
        engine.start_many(wait, [{}] * 10)
        assert len(engine.core.turns.residents._held) == 0
        engine.start_many(CHAIN, [{}] * 60)
        assert len(engine.core.turns.residents._held) == 60
        engine.start_many(CHAIN, [{}] * 60)
        assert 60 < len(engine.core.turns.residents._held) < 80


def test_long_texts_weigh_more(tmp_path: Path) -> None:
    """Where each holds texts of a thousand characters, fewer are kept."""
    config = EngineConfig(resident_bytes=240_000)
    with Engine(lay_empty_store(tmp_path / "store.db"), clock=VirtualClock(T0), config=config) as engine:
        engine.start_many(CHAIN, [{"x": "long" * 240}] * 60)
        assert 20 < len(engine.core.turns.residents._held) < 40


@pytest.mark.parametrize("how", ["by an engine", "by a turn of its own"])
def test_what_others_offer_is_handed_over_first(another: Open, how: str) -> None:
    """A queue that was empty a moment ago has a message of another execution by now, which comes first."""
    ran: list[str] = []
    workers = Workers()

    @workers.task("step")
    def step(name: str) -> None:
        ran.append(name)
        if len(ran) == 3:
            (two if how == "by an engine" else one).start(of_steps("second", 2), workflow_id="second", priority=7)

    one, two = another(workers=workers), another()
    one.start(of_steps("first", 6), workflow_id="first")
    one.settle()
    assert ran == [*["first"] * 3, *["second"] * 2, *["first"] * 3]


def of_steps(name: str, count: int) -> WorkflowDef:
    """A chain of tasks of one type, which say whose they are."""
    given = {"name": "step", "type": "SIMPLE", "inputParameters": {"name": name}}
    return WorkflowDef.from_json({"name": name, "tasks": [{**given, "taskReferenceName": f"t{number}"} for number in range(count)]})


def test_what_is_known_of_the_store_holds_until_somebody_writes(another: Open) -> None:
    """When something comes due, and which queues are empty: from one own write to the next one of anybody."""
    one, two = another(), another()
    warm(one)
    quiet = one.core.turns.quiet
    enter(one)
    quiet.found_nothing("t3", one.backend.commits(), None)
    assert quiet.nothing_due(T0)
    assert quiet.offered_at("t3") == inf
    assert not quiet.nothing_due(int(quiet.due_at))
    two.start(flow(simple("t3"), name="other"))
    same = one.backend is two.backend
    known = (quiet.nothing_due(T0), quiet.offered_at("t3") == inf)
    assert known == (not same, not same)  # of another connection the next write learns
    enter(one)
    assert quiet.nothing_due(T0)
    assert quiet.offered_at("t3") == 0


def test_an_old_view_says_nothing_of_a_queue(another: Open) -> None:
    """Of one that another process has filled since: that was seen by a write of another thread while the view was open."""
    one, two = another(), another()
    warm(one)
    quiet, commits = one.core.turns.quiet, one.backend.commits()
    with one.backend.reading() as view:
        assert view.queue.next_message_at(("t0",)) is None
    two.start(CHAIN, workflow_id="other")
    with one.backend.writing() as tx:
        number = quiet.enter(tx, T0)
        quiet.found_nothing("t0", commits, None)
        tx.poll_data.record_polls([PollData(queue_name="t0", last_poll_time=T0)])
    quiet.committed(number)
    assert quiet.offered_at("t0") == 0
    assert [task.ref for task in one.poll("t0")] == ["t0"]


def test_a_queue_is_known_to_offer_nothing_before_a_retry(another: Open) -> None:
    """It is not looked at until then, unless something is offered there that comes earlier."""
    workers = Workers()

    @workers.task("t0", retry_count=1, retry_delay_seconds=60)
    def fails() -> None:
        raise ValueError("no")

    one, two = another(workers=workers), another()
    quiet = one.core.turns.quiet
    one.start(flow(simple("t0"), name="flaky"))
    one.settle()
    assert quiet.offered_at("t0") == one.clock.now() + 60_000
    one.start(flow(simple("t0", start_delay_ms=90_000), name="later"))
    assert quiet.offered_at("t0") == one.clock.now() + 60_000
    one.start(flow(simple("t0", start_delay_ms=30_000), name="earlier"))
    assert quiet.offered_at("t0") == one.clock.now() + 30_000
    two.start(flow(simple("t0"), name="other"))
    enter(one)
    assert quiet.offered_at("t0") == 0


def enter(engine: Engine) -> None:
    """A write of an engine that is no turn."""
    quiet = engine.core.turns.quiet
    with engine.backend.writing() as tx:
        number = quiet.enter(tx, T0)
        tx.poll_data.record_polls([PollData(queue_name="t0", last_poll_time=T0)])
    quiet.committed(number)


@pytest.mark.parametrize("ended", ["it fails", "more is written with it", "another one has begun"])
def test_nothing_is_known_after_a_write_that_came_to_nothing(another: Open, ended: str) -> None:
    """Or that added what is not known."""
    one = another()
    warm(one)
    quiet = one.core.turns.quiet
    with suppress(ZeroDivisionError), one.backend.writing() as tx:
        number = quiet.enter(tx, T0)
        tx.poll_data.record_polls([PollData(queue_name="t0", last_poll_time=T0)])
        if ended == "it fails":
            raise ZeroDivisionError
        if ended == "more is written with it":
            quiet.forget()
    if ended == "another one has begun":
        with suppress(ZeroDivisionError), one.backend.writing() as tx:
            quiet.enter(tx, T0)
            raise ZeroDivisionError
    if ended != "it fails":
        quiet.committed(number)
    with one.backend.writing() as tx:
        tx.poll_data.record_polls([PollData(queue_name="t0", last_poll_time=T0)])
    assert not quiet.nothing_due(T0)


def test_fences_that_begin_later_are_believed_once(another: Open) -> None:
    """In a store that has removed an execution a new one has a higher fence: its rows are kept from its second turn on."""
    one = another()
    residents = one.core.turns.residents
    one.start(CHAIN, workflow_id="gone")
    one.terminate("gone")
    one.admin.remove("gone")
    for number in range(2):
        one.start(CHAIN, workflow_id=f"w{number}")
        assert (f"w{number}" in residents._held) is (number == 0)
        report(one, take(one, "t0"))
        assert f"w{number}" in residents._held
