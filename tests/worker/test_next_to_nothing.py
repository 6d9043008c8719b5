"""Functions of next to nothing are carried out by the thread that drives: more of them are at hand than there are threads."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from conductorlite import Engine, Workers, WorkflowDef
from conductorlite.runtime.workshop import AHEAD, THREADS, HandOut, Workshop

WIDTH = 600


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
