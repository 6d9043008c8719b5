"""Turns of several executions in one write: each as if it were alone, and answered when it is committed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from engine_kit import T0, Bench, NewBench, flow, simple, wait

from conductorlite import Engine, EngineConfig, TaskContext, TaskResult, TaskStatus, VirtualClock, Workers
from conductorlite.engine.decisions import Turn, TurnDecider
from conductorlite.engine.groups import RunGroup, beside
from conductorlite.engine.polling import Asker
from conductorlite.engine.reports import Report
from conductorlite.engine.turn_types import TurnResult
from conductorlite.model.decisions import Decision
from conductorlite.model.errors import ConductorliteError, InvariantBroken, StaleLease, StorageError
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing.faults import FaultyBackend

TWO = flow(simple("step"), simple("next"))


def started(engine: Engine, count: int = 4) -> list[str]:
    """So many executions, each of which waits for a worker."""
    found = [engine.start(TWO).workflow_id for _ in range(count)]
    engine.settle()  # where what is offered is relayed
    return found


def reports_on(engine: Engine, count: int = 4) -> list[Report]:
    """Reports on the first task of so many executions, each held by a worker."""
    started(engine, count)
    held = engine.poll("step", worker_id="v", count=count)
    assert len(held) == count
    return [engine.core.reports.prepared(task, completed(task.workflow_id, task.task_id, task.lease)) for task in held]


def completed(workflow_id: str, task_id: str, lease: int) -> TaskResult:
    """A report that a task is done."""
    return TaskResult(workflow_id=workflow_id, task_id=task_id, status=TaskStatus.COMPLETED, lease=lease)


def statuses(engine: Engine) -> list[str]:
    """Of each execution, whether its first task is done."""
    return [str(engine.get(one).tasks[0].status) for one in sorted(engine.admin.workflow_ids())]


def make(backend: Backend) -> Engine:
    """An engine whose executions are w1, w2 …"""
    numbers = iter(range(1, 100))
    return Engine(backend, clock=VirtualClock(T0), config=EngineConfig(ids=lambda: f"w{next(numbers)}"))


def test_a_poll_of_many_executions_is_one_commit(bench: Bench) -> None:
    """Each task under the fence of its own execution, all in one write."""
    started(bench.engine, 8)
    before = bench.engine.backend.commits()
    held = bench.engine.poll("step", worker_id="v", count=8)
    assert bench.engine.backend.commits() - before == 1
    assert len({task.workflow_id for task in held}) == 8
    assert {task.status for task in held} == {TaskStatus.IN_PROGRESS}


@pytest.mark.parametrize("store", ["memory", "file"])
def test_reports_that_come_too_late_are_taken_for_no_commit(store: str, tmp_path: Path) -> None:
    """Or what is known would be believed again after as many commits of the other engine, which was first."""
    backend = FaultyBackend(MemoryBackend() if store == "memory" else SQLiteBackend(tmp_path / "store.db"))
    one, two = make(backend), Engine(backend, clock=VirtualClock(T0))
    reports = reports_on(one)
    two.core.reports.taken_together([report] for report in reports)
    assert len(one.core.turns.residents._held) == len(reports)
    for result in one.core.reports.taken_together([report] for report in reports):
        assert isinstance(result, TurnResult)
        assert result.decision is None or result.decision.empty
    assert one.core.turns.quiet.commits in (-1, backend.commits())
    one.close()


def test_reports_of_many_executions_are_one_commit(bench: Bench) -> None:
    """And each is answered by its own."""
    reports = reports_on(bench.engine)
    before = bench.engine.backend.commits()
    taken = bench.engine.core.reports.taken_together([one] for one in reports)
    assert bench.engine.backend.commits() - before == 1
    for report, result in zip(reports, taken, strict=True):
        assert isinstance(result, TurnResult)
        assert str(result.replies[report.event.event_id].outcome) == "DONE"
    assert statuses(bench.engine) == ["COMPLETED"] * 4


def test_a_bad_report_refuses_itself_only(bench: Bench) -> None:
    """The lease of one is another worker's by now."""
    reports = reports_on(bench.engine)
    bench.engine.core.holding.give_back([reports[1].task])
    taken = bench.engine.core.reports.taken_together([one] for one in reports)
    outcomes = []
    for report, result in zip(reports, taken, strict=True):
        assert isinstance(result, TurnResult)
        with suppress(StaleLease):
            outcomes.append(bench.engine.core.reports.answered(report, result).replies[report.event.event_id].outcome.value)
    assert outcomes == ["DONE", "DONE", "DONE"]
    assert statuses(bench.engine) == ["COMPLETED", "SCHEDULED", "COMPLETED", "COMPLETED"]


def test_a_turn_that_is_fenced_out_is_decided_again() -> None:
    """Another engine comes between the decisions and the write: that one execution is decided again, in the write."""
    inner = MemoryBackend()
    meanwhile: list[Callable[[], None]] = []
    backend = FaultyBackend(inner, on_writing=lambda: meanwhile.pop()() if meanwhile else None)
    engine, other = make(backend), make(inner)
    reports = reports_on(engine)
    meanwhile.append(lambda: other.terminate("w3"))
    taken = engine.core.reports.taken_together([one] for one in reports)
    outcomes = [str(result.replies[one.event.event_id].outcome) for one, result in zip(reports, taken, strict=True)]  # type: ignore[union-attr]
    assert outcomes == ["DONE", "DONE", "IGNORED", "DONE"]
    assert statuses(engine) == ["COMPLETED", "COMPLETED", "CANCELED", "COMPLETED"]
    assert engine.admin.check() == []


def test_turns_share_a_write_beside_another_process(tmp_path: Path) -> None:
    """What another process has changed is decided again, and only that; it is one commit all the same."""
    one, other = make(SQLiteBackend(tmp_path / "store.db")), Engine(SQLiteBackend(tmp_path / "store.db"), clock=VirtualClock(T0))
    with one, other:
        for engine in (one, other):
            engine.core.holding.begin()
        one.core.holding.recover()
        reports = reports_on(one)
        for meanwhile in (lambda: other.start(TWO), lambda: other.terminate("w3")):
            meanwhile()
        before, late = one.backend.commits(), one.core.turns.fenced_out
        taken = one.core.reports.taken_together([report] for report in reports)
        assert one.backend.commits() - before == 1
        assert one.core.turns.fenced_out - late == 1
        outcomes = [str(result.replies[sent.event.event_id].outcome) for sent, result in zip(reports, taken, strict=True)]  # type: ignore[union-attr]
        assert outcomes == ["DONE", "DONE", "IGNORED", "DONE"]
        assert one.admin.check() == []


def test_rows_that_would_be_refused_are_not_decided_on(tmp_path: Path) -> None:
    """Somebody has written to the store: what is kept of executions is read again before the decisions, not in the write."""
    backend = SQLiteBackend(tmp_path / "store.db", counting=True)
    one, other = make(backend), Engine(SQLiteBackend(tmp_path / "store.db"), clock=VirtualClock(T0))
    with one, other:
        reports = reports_on(one)
        other.start(TWO)
        assert backend.counts is not None
        backend.counts.reset()
        one.core.reports.taken_together([report] for report in reports)
        assert (one.core.turns.fenced_out, backend.counts.commits, backend.counts.statements_by_sql["BEGIN"]) == (0, 1, 1)
        assert statuses(one)[-4:] == ["COMPLETED"] * 4
        assert one.admin.check() == []


@pytest.mark.parametrize("write", range(1, 7))
def test_a_write_that_fails_is_taken_turn_by_turn(write: int) -> None:
    """Whichever write of the group fails, nothing of it is stored, and each turn is taken alone; none is answered before."""
    inner = MemoryBackend()
    counting = FaultyBackend(inner)
    reports_on(make(counting))
    before = counting.writes
    backend = FaultyBackend(MemoryBackend(), fail_before=before + write)
    engine = make(backend)
    reports = reports_on(engine)
    taken = engine.core.reports.taken_together([one] for one in reports)
    assert all(isinstance(result, TurnResult) for result in taken)
    assert statuses(engine) == ["COMPLETED"] * 4
    assert engine.admin.check() == []


def test_nothing_is_answered_that_is_not_committed() -> None:
    """A store that cannot be written answers nobody."""
    answer_nobody(MemoryBackend())


def test_nothing_is_answered_that_was_written_together_and_not_committed(tmp_path: Path) -> None:
    """Nor does one that has written all of it by kind of row."""
    answer_nobody(SQLiteBackend(tmp_path / "store.db"))


def answer_nobody(inner: Backend) -> None:
    """Reports that share a write on a store whose commits fail: each is refused, and nobody hears of it."""
    down: list[bool] = []

    def write(name: str) -> None:
        if down and name == "commit":
            raise StorageError("the disk is full")

    engine = make(FaultyBackend(inner, on_write=write))
    heard: list[str] = []
    engine.listen(lambda row, lines: heard.append(row.workflow_id))
    reports = reports_on(engine)
    heard.clear()
    down.append(True)
    try:
        taken = engine.core.reports.taken_together([one] for one in reports)
    finally:
        down.clear()
    assert all(isinstance(result, ConductorliteError) for result in taken)
    assert heard == []
    assert statuses(engine) == ["IN_PROGRESS"] * 4


def test_reports_are_answered_though_the_poll_beside_them_goes_wrong() -> None:
    """They are committed: who has sent them must not send them again."""
    engine = make(MemoryBackend())
    reports = [[one] for one in reports_on(engine)]

    def poll(run: RunGroup) -> None:
        run(())
        raise StorageError("what was polled cannot be read")

    taken = beside(engine.core.groups, lambda run: engine.core.reports.taken_together(reports, run=run), poll)
    assert [type(one) for one in taken] == [TurnResult] * 4
    assert statuses(engine) == ["COMPLETED"] * 4


@pytest.mark.parametrize(("priority", "taken"), [(0, True), (3, False)])
def test_nothing_is_taken_beside_reports_that_may_offer_what_is_more_urgent(tmp_path: Path, priority: int, taken: bool) -> None:
    """What their executions offer next would come before it in the queue."""
    clock = VirtualClock(T0)
    with Engine(SQLiteBackend(tmp_path / "store.db"), clock=clock) as engine:
        busy = {engine.start(TWO, priority=priority).workflow_id for _ in range(2)}
        assert len(engine.poll("step", worker_id="v", count=2)) == 2
        started(engine, 2)
        clock.move_to(T0 + 1)
        asker = Asker(worker_id="v", count=2)
        assert engine.core.polling.take_first([asker], "step", None, busy, [], engine.core.groups.run) is taken
        assert len(asker.given) == 2 * taken


def test_turns_that_share_a_limit_see_each_other(new_bench: NewBench) -> None:
    """Of those that ask for the last slot in one write one has it; a turn that is undone for it takes no other along."""
    bench = new_bench(workers=Workers())
    limited = flow(simple("first"), simple("scarce", {"concurrent_exec_limit": 1}), name="limited")
    for _ in range(3):
        bench.engine.start(limited)
    bench.engine.settle()
    held = bench.engine.poll("first", worker_id="v", count=3)
    core = bench.engine.core.reports
    reports = [core.prepared(task, completed(task.workflow_id, task.task_id, task.lease)) for task in held]
    assert all(isinstance(taken, TurnResult) for taken in core.taken_together([one] for one in reports))
    assert statuses(bench.engine) == ["COMPLETED"] * 3
    bench.engine.settle()
    assert len(bench.engine.poll("scarce", worker_id="v", count=3)) == 1
    assert bench.engine.admin.check() == []


def test_what_comes_due_together_is_one_commit(bench: Bench) -> None:
    """Timers of several executions that are due at one instant, as a driver on real time finds them."""
    runs = [bench.engine.start(flow(wait("pause", duration="1 h"), name="waits")) for _ in range(8)]
    bench.clock.move_to(T0 + 3_600_000)
    before = bench.engine.backend.commits()
    assert bench.engine.driver.due.take(bench.clock.now(), 64)
    assert bench.engine.backend.commits() - before == 1
    assert {run.status.value for run in runs} == {"COMPLETED"}


def test_what_another_process_makes_due_is_found_though_reports_never_end(tmp_path: Path) -> None:
    """A write of this process has asked whether others have written; after so many in a row the driver asks itself."""
    clock = VirtualClock(T0)
    with Engine(tmp_path / "s.db", clock=clock) as engine, Engine(tmp_path / "s.db", clock=clock) as other:
        engine.start(flow(simple("a")))
        assert not engine.driver.due.take(clock.now(), 64)
        run = other.start(flow(wait("pause", duration="1 s"), name="waits"))
        clock.move_to(T0 + 1_000)
        looks = [engine.driver.due.take(clock.now(), 64, lately=True) for _ in range(17)]
        assert looks == [False] * 16 + [True]
        assert run.status.value == "COMPLETED"


def test_one_that_breaks_a_law_among_those_due_stops_no_other(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted on its own row, and parked in the end; the others have ended."""
    runs = [bench.engine.start(flow(wait("pause", duration="1 h"), name="waits")) for _ in range(4)]
    bench.clock.move_to(T0 + 3_600_000)
    decide = TurnDecider.decide

    def broken(self: TurnDecider, turn: Turn) -> Decision:
        if turn.reader.workflow.workflow_id == runs[1].workflow_id:
            raise InvariantBroken("a law")
        return decide(self, turn)

    monkeypatch.setattr(TurnDecider, "decide", broken)
    while bench.engine.driver.due.take(bench.clock.now(), 64):
        continue
    assert [run.status.value for run in runs] == ["COMPLETED", "RUNNING", "COMPLETED", "COMPLETED"]
    assert runs[1].workflow.parked == "a law"
    monkeypatch.undo()
    bench.engine.resume(runs[1].workflow_id)
    assert runs[1].status.value == "COMPLETED"


def test_reports_of_many_executions_and_what_their_workers_take_next_are_one_commit(tmp_path: Path) -> None:
    """What was offered before comes first, each under the lease of its own execution, and no function runs before the commit."""
    gate, begun, backend = threading.Event(), list[tuple[str, int]](), SQLiteBackend(tmp_path / "store.db")
    workers = Workers(concurrency=4)

    @workers.task("step")
    def step(context: TaskContext) -> None:
        begun.append((f"{context.task.workflow_id} {context.task.ref}", backend.commits()))
        gate.wait(20)

    with Engine(backend, workers=workers) as engine:
        for number in range(12):
            engine.start(flow(simple("step")), workflow_id=f"w{number:02}")
        driver, last = engine.driver, engine.clock.now()
        driver._work()
        while len(begun) < 4 or engine.clock.now() <= last:
            gate.wait(0.001)
        gate.set()
        while len(driver.workshop.finished()) < 4:
            continue
        gate.clear()
        before = backend.commits()
        driver._work()
        while len(begun) < 8:
            gate.wait(0.001)
        assert backend.commits() - before == 1
        assert [told for told, _ in sorted(begun)] == [f"w{number:02} step" for number in range(8)]
        assert {commits for _, commits in begun[4:]} == {before + 1}
        statuses = [task.status for number in range(12) for task in engine.get(f"w{number:02}").tasks if task.ref == "step"]
        assert statuses == [TaskStatus.COMPLETED] * 4 + [TaskStatus.IN_PROGRESS] * 4 + [TaskStatus.SCHEDULED] * 4
        gate.set()
        engine.run_until_idle()
        assert engine.admin.check() == []


def test_what_comes_due_before_reports_that_share_a_write_is_read_first(tmp_path: Path) -> None:
    """Reports that come after their tasks' deadlines find them timed out, though their rows are kept and no driver has looked."""
    engine = make(SQLiteBackend(tmp_path / "store.db"))
    with engine:
        held = [report.task for report in reports_on(engine)]
        engine.clock.move_to(max(task.response_timeout_at or 0 for task in held) + 1)  # type: ignore[attr-defined]
        results = [completed(task.workflow_id, task.task_id, task.lease) for task in held]
        reports = [engine.core.reports.prepared(*pair) for pair in zip(held, results, strict=True)]
        engine.core.reports.taken_together([report] for report in reports)
        assert {task.status for one in engine.admin.workflow_ids() for task in engine.get(one).tasks} == {
            TaskStatus.TIMED_OUT,
            TaskStatus.SCHEDULED,
        }
        assert engine.admin.check() == []
