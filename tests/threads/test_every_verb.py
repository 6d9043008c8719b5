"""Threads that share an engine: every verb at once, none raises what it does not document, and each answer is what is stored."""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from switching_kit import at_once, switching
from threads_kit import DRIVING, INSTANT, Recorder, live, stored

from conductorlite import Engine, VirtualClock, Workers, WorkflowDef, WorkflowTask
from conductorlite.engine.config import services
from conductorlite.errors import AlreadyExists
from conductorlite.language import processes
from conductorlite.language.processes import remembered
from conductorlite.model.decisions import Decision
from conductorlite.model.executions import Workflow

THREADS = 8


def nothing() -> None:
    """A function of a worker."""


def verbs(engine: Engine) -> set[str]:
    """The public verbs of an engine, and of its services."""
    nouns = services(engine)
    found = {f"{noun}.{name}" for noun, one in nouns.items() for name in dir(type(one)) if callable(getattr(type(one), name))}
    found |= {name for name in dir(type(engine)) if callable(getattr(type(engine), name))}
    return {name for name in found if not name.rpartition(".")[2].startswith("_")}


def every_verb_at_once(store: Path | None, folder: Path, rounds: int) -> None:
    """Threads live at once beside one that drives; what each has ended is in the store, and nothing else."""
    workers, called, ended = Workers(), set[str](), list[Counter[str]]()
    workers.add("another", nothing)  # an engine with workers warns of tasks that none of them carries out
    engine = Engine(store, workers=workers)
    engine.register(INSTANT)
    recorder = Recorder(engine, called, services(engine))
    driver = threading.Thread(target=engine.run_forever)
    driver.start()

    def thread(number: int) -> None:
        for turn in range(rounds):
            ended.append(live(recorder, f"{number}-{turn}", folder, on_disk=store is not None))

    with switching():
        raised = at_once(partial(thread, number) for number in range(THREADS))
    assert driver.is_alive(), "the driver has ended"
    engine.stop()
    driver.join(60)
    if raised:
        raise raised[0]
    assert called == verbs(engine) - DRIVING
    assert stored(engine) == sum(ended, Counter())
    assert engine.admin.check() == []
    engine.close()


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_every_verb_in_eight_threads(store: str, tmp_path: Path) -> None:
    """Each thread has all its answers, and the store holds what they were told."""
    every_verb_at_once(None if store == "memory" else tmp_path / "orders.db", tmp_path, 1)


@pytest.mark.deep
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_every_verb_in_eight_threads_again_and_again(store: str, tmp_path: Path) -> None:
    """The same for minutes."""
    every_verb_at_once(None if store == "memory" else tmp_path / "orders.db", tmp_path, 25)


ONE = WorkflowDef.from_json(
    {"name": "one", "tasks": [{"name": "a", "taskReferenceName": "a", "inputParameters": {"me": "${workflow.input.me}"}}]}
)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_every_thread_drives(store: str, tmp_path: Path) -> None:
    """Each drives in turn, or waits for the one that does; each execution is carried out once, and has its own result."""
    workers, called = Workers(), list[str]()

    @workers.task
    def a(me: str) -> dict[str, str]:
        called.append(me)
        return {"me": me}

    engine = Engine(None if store == "memory" else tmp_path / "orders.db", workers=workers)
    engine.register(ONE)

    def thread(number: int) -> None:
        for turn in range(4):
            run = engine.start(ONE, {"me": f"{number}-{turn}"})
            (engine.settle, engine.tick, lambda: engine.run_until_idle("60s"), lambda: None)[(number + turn) % 4]()
            assert run.result("60s") == {"me": f"{number}-{turn}"}

    with switching():
        raised = at_once(partial(thread, number) for number in range(THREADS))
    if raised:
        raise raised[0]
    assert sorted(called) == [f"{number}-{turn}" for number in range(THREADS) for turn in range(4)]
    assert stored(engine) == {"COMPLETED": 4 * THREADS}
    assert at_once([engine.close] * THREADS) == []


def test_time_that_threads_move_adds_up() -> None:
    """A virtual clock moves by as much as all of them have asked for, and fires what is due on the way once."""
    with Engine(clock=VirtualClock(0)) as engine:
        run = engine.start(WorkflowDef(name="w", tasks=[WorkflowTask(name="w", task_reference_name="w", type="WAIT")]))
        with switching():
            assert at_once([partial(engine.advance, "1s")] * THREADS) == []
        assert engine.clock.now() == 1_000 * THREADS
        assert run.status == "RUNNING"


def test_what_threads_add_to_a_set_of_workers_is_all_there() -> None:
    """Neither of two that add a function at once loses what the other one added; of two for the same tasks one is refused."""
    workers = Workers()

    def thread(number: int) -> None:
        for turn in range(40):
            own, same = Workers(), Workers()
            own.add(f"{number}-{turn}", nothing)
            workers.include(own)
            same.add(f"same-{turn}", partial(nothing))
            try:
                workers.include(same)
                won.append(turn)
            except AlreadyExists:
                pass

    won: list[int] = []
    with switching():
        assert at_once(partial(thread, number) for number in range(THREADS)) == []
    assert len(workers) == 40 * (THREADS + 1)
    assert sorted(won) == list(range(40))


def test_a_warning_is_logged_once_however_many_threads_there_are(caplog: pytest.LogCaptureFixture) -> None:
    """One line for each task type that no worker carries out, also when its definitions are started by many at once."""
    workers = Workers()
    workers.add("another", nothing)
    engine = Engine(workers=workers)
    definitions = [WorkflowDef(name=f"w{n}", tasks=[WorkflowTask(name=f"t{n % 20}", task_reference_name="r")]) for n in range(60)]

    def thread() -> None:
        for one in definitions:
            engine.register(one)
            engine.start(one.name)

    with switching(), caplog.at_level(logging.WARNING, "conductorlite"):
        assert at_once([thread] * THREADS) == []
    lines = [record.getMessage() for record in caplog.records]
    kinds = Counter(re.findall(r"\bt\d+", " ".join(line for line in lines if "no worker" in line)))
    assert kinds == {f"t{n}": 1 for n in range(20)}
    engine.close()


class Hears:
    """A listener, and an observer."""

    def __init__(self) -> None:
        self.heard: set[str] = set()

    def __call__(self, workflow: Workflow, _: object) -> None:
        self.heard.add(workflow.workflow_id)

    def committed(self, decision: Decision) -> None:
        """As an observer."""
        self.heard.add(decision.workflow.workflow_id)

    def carried(self) -> None:
        """It has no trace."""

    def acted(self, _: object) -> None:
        """No event handler acts."""


@pytest.mark.parametrize("kind", ["listeners", "observers"])
def test_who_listens_hears_every_commit_while_others_come_and_go(kind: str) -> None:
    """None is passed over because one before it was taken out of the list at that instant."""
    engine, stay, over, begun = Engine(), [Hears() for _ in range(60)], threading.Event(), list[str]()
    engine.register(INSTANT)
    listed: list[object] = getattr(engine.core.turns, kind)
    listed += stay

    def come_and_go() -> None:
        other = Hears()
        while not over.is_set():
            listed.insert(0, other)
            listed.remove(other)

    def start() -> None:
        try:
            begun.extend(engine.start("instant").workflow_id for _ in range(400))
        finally:
            over.set()

    with switching():
        assert at_once([start, come_and_go, come_and_go]) == []
    assert all(set(begun) == one.heard for one in stay)
    engine.close()


def test_answers_that_are_forgotten_meanwhile_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one thread looks for among the answers of scripts another one may forget at that instant."""
    monkeypatch.setattr(processes, "_ANSWERS", 2)

    def thread(number: int) -> None:
        for turn in range(2_000):
            key = f"{(number + turn) % 4}".encode()
            assert remembered(key, lambda key=key: key.decode()) == key.decode()

    with switching():
        assert at_once(partial(thread, number) for number in range(THREADS)) == []
