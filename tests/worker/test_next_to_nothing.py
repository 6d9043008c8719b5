"""Functions of next to nothing are carried out by the thread that drives: more of them are at hand than there are threads."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from conductorlite import Engine, Run, SystemClock, TaskContext, Workers, WorkflowDef
from conductorlite.model.clock import Wakeup
from conductorlite.runtime import idle, loop
from conductorlite.runtime.handout import AHEAD, HandOut
from conductorlite.runtime.workshop import THREADS, Workshop

WIDTH = 600

PATIENCE_S = 20.0


def fork(width: int) -> WorkflowDef:
    """So many tasks beside each other."""
    refs = [f"t{n}" for n in range(width)]
    branches = [[{"name": "step", "taskReferenceName": ref, "type": "SIMPLE"}] for ref in refs]
    tasks: list[dict[str, Any]] = [
        {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN", "forkTasks": branches},
        {"name": "join", "taskReferenceName": "join", "type": "JOIN", "joinOn": refs},
    ]
    return WorkflowDef.from_json({"name": "fork", "tasks": tasks})


class Steps:
    """A worker `step` that is said to take so long, and what it sees."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.span = 0
        self.slow_from = WIDTH
        self.calls = 0
        self.at_hand: list[int] = []
        self.beside: list[int] = []
        self.running = 0
        self.guard = threading.Lock()
        self.released = threading.Event()
        self.engine: Engine | None = None
        self.workers = Workers()
        self.workers.task("step")(self.step)
        monkeypatch.setattr(Workshop, "_took", lambda shop, worker, _: shop._spans.__setitem__(worker.queue, self.span))

    def step(self) -> None:
        assert self.engine is not None
        with self.guard:
            self.calls += 1
            self.running += 1
            if self.calls >= self.slow_from:
                self.span = 1_000
        self.at_hand.append(len(self.engine.driver.handing.handed) + 1)
        self.beside.append(self.running)
        if self.calls > self.slow_from:
            self.released.wait(5)
        with self.guard:
            self.running -= 1


def test_more_are_at_hand_than_there_are_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many after each that were all carried out, up to a bound; one at a time."""
    steps = Steps(monkeypatch)
    with Engine(workers=steps.workers) as engine:
        steps.engine = engine
        begun = engine.backend.commits()
        engine.start(fork(WIDTH)).result()
        assert max(steps.at_hand) == THREADS + AHEAD
        assert max(steps.beside) == 1
        assert engine.backend.commits() - begun < WIDTH / THREADS
        assert engine.admin.check() == []


def test_what_has_no_thread_is_given_back_when_it_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may take it; here it is done by as many threads as there are."""
    steps = Steps(monkeypatch)
    steps.slow_from, given_back, give_back = 200, [0], HandOut.give_back

    def giving_back(handing: HandOut) -> None:
        given_back.append(len(handing.handed))
        give_back(handing)
        steps.released.set()

    monkeypatch.setattr(HandOut, "give_back", giving_back)
    with Engine(workers=steps.workers) as engine:
        steps.engine = engine
        run = engine.start(fork(WIDTH))
        run.result()
        assert steps.calls == WIDTH
        assert max(steps.beside) <= THREADS
        tasks = [task for task in run.workflow.tasks if task.task_type == "step"]
        assert 0 < max(given_back) <= AHEAD
        assert [task.attempt for task in tasks] == [0] * WIDTH
        assert engine.admin.check() == []


def test_a_bound_that_is_set_holds_for_what_is_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """`concurrency` says how many tasks at most are this process's."""
    steps = Steps(monkeypatch)
    steps.workers.concurrency = 8
    with Engine(workers=steps.workers) as engine:
        steps.engine = engine
        engine.start(fork(100)).result()
        assert max(steps.at_hand) == 8


class Rows:
    """A worker `step` that is said to take nothing, whose first call waits until it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: list[threading.Thread] = []
        self.done: list[str] = []
        self.waits = False
        self.entered, self.released = threading.Event(), threading.Event()
        self.workers = Workers()
        self.workers.task("step")(self.step)
        monkeypatch.setattr(Workshop, "_took", lambda shop, worker, _: shop._spans.__setitem__(worker.queue, 0))

    def step(self, context: TaskContext) -> None:
        self.threads.append(threading.current_thread())
        if self.waits and len(self.threads) == 1:
            self.entered.set()
            assert self.released.wait(PATIENCE_S)
        self.done.append(context.workflow_id)

    def begun(self, engine: Engine, count: int) -> list[Run[dict[str, Any]]]:
        """So many executions of three steps, once it is known how long a step takes."""
        tasks = [{"name": "step", "taskReferenceName": f"t{n}", "type": "SIMPLE"} for n in range(3)]
        engine.register(WorkflowDef.from_json({"name": "steps", "tasks": tasks}))
        engine.start("steps").result()
        self.threads.clear()
        self.done.clear()
        return [engine.start("steps", workflow_id=f"w{n}") for n in range(count)]


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    """A worker that was not called yet."""
    return Rows(monkeypatch)


def test_for_a_caller_that_goes_on_at_an_instant_one_thread_does_all(
    rows: Rows, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One after another, and what they report and take next is one commit for as many as there are threads."""
    for module in (idle, loop):  # no other thread goes on in its place, however slow the machine is
        monkeypatch.setattr(module, "PATIENCE_MS", 60_000)
    with Engine(tmp_path / "s.db", workers=rows.workers) as engine:
        runs = rows.begun(engine, 4 * THREADS)
        begun = engine.backend.commits()
        assert engine.run_until_idle(timeout="60s")
        assert {run.status for run in runs} == {"COMPLETED"}
        assert len(set(rows.threads)) == 1
        assert threading.current_thread() not in rows.threads
        assert engine.backend.commits() - begun <= 3 * 4 + 2
        assert engine.admin.check() == []


def test_one_that_hangs_keeps_neither_that_caller_nor_the_others(rows: Rows) -> None:
    """Others begin what is left after a while, and the caller goes on in time."""
    with Engine(workers=rows.workers) as engine:
        runs = rows.begun(engine, 10)
        rows.waits = True
        until = time.monotonic() + PATIENCE_S
        while len(rows.done) < 27:
            assert not engine.run_until_idle(timeout="20ms")
            assert time.monotonic() < until
        rows.released.set()
        assert engine.run_until_idle(timeout="60s")
        assert {run.status for run in runs} == {"COMPLETED"}
        assert {task.attempt for run in runs for task in run.workflow.tasks} == {0}
        assert engine.admin.check() == []


def test_who_is_interrupted_meanwhile_leaves_nothing_undone(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is called once, and reported by the next one who drives."""
    wait = SystemClock.wait

    def interrupted(clock: SystemClock, wakeup: Wakeup, until: int | None) -> None:
        if rows.entered.is_set() and not rows.released.is_set():
            rows.released.set()
            raise KeyboardInterrupt
        wait(clock, wakeup, until)

    with Engine(workers=rows.workers) as engine:
        runs = rows.begun(engine, 10)
        rows.waits = True
        monkeypatch.setattr(SystemClock, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.run_until_idle(timeout="60s")
        assert engine.run_until_idle(timeout="60s")
        assert {run.status for run in runs} == {"COMPLETED"}
        assert len(rows.done) == 30
        assert engine.admin.check() == []
