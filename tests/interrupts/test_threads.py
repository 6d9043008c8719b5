"""Blocks, mutexes and waiters are whole after an exception before any instruction of theirs, also while it is kept."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conductorlite import AsyncEngine, Engine, Workers, WorkflowDef, WorkflowTask, flow, task
from conductorlite.engine.turn_types import Caller, called_by
from conductorlite.errors import NoThread
from conductorlite.language.processes import in_process, patience
from conductorlite.model.clock import VirtualClock
from conductorlite.model.threads import Cache, Mutex, Waiters, cached_property, carried
from conductorlite.runtime.calls import current_task
from conductorlite.runtime.pool import Call, Pool
from conductorlite.runtime.workshop import Workshop
from conductorlite.store.locks import InProcessLock
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.memory.rows import Ordered
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing.faults import lay_empty_store
from conductorlite.testing.interrupts import Instants

pytestmark = pytest.mark.own_thread

#: Exceptions that somebody keeps, and with them the frames they went through.
KEPT: list[BaseException] = []


@pytest.fixture(autouse=True)
def _nothing_is_told_when_frames_go(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """When what was kept is let go, as at the end of the process at the latest, nothing raises where nobody can catch it."""
    untold: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: untold.append((told.exc_value, told.object)))
    gc.freeze()  # what was there before is not looked at: in a long run of tests that alone takes a second
    yield
    KEPT.clear()
    gc.collect()
    assert not untold


def everywhere(act: Callable[[], object], whole: Callable[[], object], every: int = 1, *, threads: bool = False) -> None:
    """Interrupt an act before each of its instructions in turn; after each, `whole` must hold. With threads one may not come."""
    act()
    with Instants() as calm:
        act()
    assert calm.number > 10
    variables = dict(contextvars.copy_context())
    for at in range(0, calm.number, every):
        with Instants(at) as interrupted:
            try:
                act()
            except KeyboardInterrupt as error:
                KEPT.append(error)
        # A store looks at its files more often when they were opened lately: a later run may be shorter than the calm one.
        assert threads or interrupted.where is not None or interrupted.number <= at
        try:
            assert dict(contextvars.copy_context()) == variables
            whole()
        except BaseException as error:
            raise AssertionError(f"after an exception at {interrupted.where}") from error


def in_a_thread(act: Callable[[], object]) -> Any:
    """What an act returns in another thread."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(act()))
    thread.start()
    thread.join(10)
    return found[0]


def test_a_thread_that_was_there_before_is_left_alone() -> None:
    """An idle worker of another test that wakes in the block neither takes the exception nor counts."""
    pool: Pool[bool] = Pool(1, lambda: None)
    within, after = threading.Event(), threading.Event()
    job, following = pool.submit(lambda: within.wait(10)), pool.submit(lambda: after.wait(10))
    while not job.begun:
        time.sleep(0)
    with Instants(0) as idle:
        within.set()
        until = time.monotonic() + 10
        while not following.begun:  # the pool's own code runs between the two
            assert time.monotonic() < until
            time.sleep(0)
    assert (idle.number, idle.where) == (0, None)
    after.set()
    pool.close()
    assert job.result is True


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="nothing is traced there")
def test_who_traced_before_goes_on() -> None:
    """A count of coverage sees what comes after the block."""
    before, seen = (sys.gettrace(), threading.gettrace()), []
    sys.settrace(trace := lambda *_: seen.append(1))
    try:
        with Instants():
            assert sys.gettrace() is not trace
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before[0])
    assert (sys.gettrace(), threading.gettrace()) == before


VARIABLE: contextvars.ContextVar[int] = contextvars.ContextVar("a variable", default=0)


def _in_a_block() -> None:
    with carried(VARIABLE, 1), carried(VARIABLE, 2):
        assert VARIABLE.get() == 2


def _for_a_caller() -> None:
    with called_by(Caller(turns=None, what="a test")):
        VARIABLE.get()


def _in_a_flow() -> None:
    @task
    def greet(name: str) -> str:
        return name

    @flow
    def greeting(name: str) -> str:
        return greet(name)

    assert greeting.definition


def _in_a_script() -> None:
    in_process(VARIABLE.get, patient=True)
    with patience(True):
        VARIABLE.get()


@pytest.mark.parametrize(
    ("act", "every"),
    [
        pytest.param(_in_a_block, 1, id="a block"),
        pytest.param(_for_a_caller, 1, id="a caller"),
        pytest.param(_in_a_flow, 31, id="a flow"),
        pytest.param(_in_a_script, 1, id="a script"),
    ],
)
def test_a_context_variable_says_what_it_said(act: Callable[[], None], every: int) -> None:
    """After a block: see `everywhere`."""
    everywhere(act, lambda: None, every)


class Built:
    """What works out a value together with another thread that does so."""

    def __init__(self, both: threading.Barrier) -> None:
        self._both = both

    @cached_property
    def value(self) -> object:
        """A new object."""
        self._both.wait()
        return object()


def test_who_builds_waits_for_nobody_else_who_builds() -> None:
    """No lock is kept from one object of a class to the next, nor left behind by a thread that was interrupted in it."""
    both = threading.Barrier(2, timeout=60)
    first, second = Built(both), Built(both)
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(first.value), daemon=True)
    thread.start()
    assert second.value is second.value
    thread.join()
    assert found == [first.value]


def test_of_two_threads_that_ask_at_once_each_is_given_the_first_value() -> None:
    """However often it was worked out."""
    built, found = Built(threading.Barrier(2, timeout=60)), []
    threads = [threading.Thread(target=lambda: found.append(built.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [built.value] * 2
    assert isinstance(Built.value, cached_property)


@pytest.mark.parametrize("interceptors", [[], [lambda context: None]], ids=["plain", "intercepted"])
def test_a_worker_leaves_no_task_behind(interceptors: list[Any]) -> None:
    """Nor any other context variable of ours."""

    def function() -> None:
        assert current_task() is polled

    def act() -> None:
        workshop.run(Call(task=polled, worker=worker))

    workers = Workers(interceptors=interceptors)
    workers.add("t", function)
    (worker,) = workers
    with Engine(clock=VirtualClock(0)) as engine:
        engine.start(WorkflowDef(name="w", tasks=(WorkflowTask(name="t", task_reference_name="t"),)))
        (polled,) = engine.poll("t")
        workshop = Workshop(engine, workers)
        everywhere(act, lambda: None)
    assert current_task() is None


def test_a_mutex_is_free() -> None:
    """Whatever was interrupted, another thread can take the mutex, and this one too; inside it is held, also twice."""
    mutex = Mutex()
    inside: list[tuple[bool, bool]] = []

    def act() -> None:
        with mutex.held(timeout=1), mutex.held() as taken:
            inside.append((taken, mutex.owned()))

    def free() -> bool:
        with mutex.held(timeout=0) as taken:
            return taken

    def whole() -> None:
        assert not mutex.owned()
        assert in_a_thread(free)
        assert free()

    everywhere(act, whole)
    assert set(inside) == {(True, True)}


def test_a_held_mutex_is_not_given() -> None:
    """Another thread waits for as long as it said, and is told that it does not hold the mutex."""
    mutex = Mutex()

    def take() -> bool:
        with mutex.held(timeout=0.01) as taken:
            return taken or mutex.owned()

    with mutex.held():
        assert in_a_thread(take) is False
    assert in_a_thread(take) is True


def test_a_mutex_that_was_not_given_back_is_taken_again() -> None:
    """The second exception comes while what the first one left is given back: the next block of the thread sets it right."""
    mutex = Mutex()
    mutex.held().__enter__()
    mutex._lock.acquire()  # what the first block would have given back

    def free() -> bool:
        with mutex.held(timeout=0.01) as taken:
            return taken

    assert free()
    assert in_a_thread(free)


def test_a_waiter_is_woken_or_forgotten() -> None:
    """A wake-up before the wait counts; one who does not wait any more costs nothing."""
    waiters = Waiters()

    def act() -> bool:
        waiter = waiters.waiter()
        waiters.wake()
        waiters.wake()
        return waiter.wait(10) and not waiter.wait(0)

    assert act()
    assert not waiters._known
    everywhere(act, act)


@pytest.fixture(params=["memory", "sqlite"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A store of each kind."""
    return MemoryBackend() if request.param == "memory" else SQLiteBackend(lay_empty_store(tmp_path / "s.db"), busy_timeout_ms=500)


def test_a_transaction_is_undone(backend: Backend) -> None:
    """A change is there as a whole or not at all, and another thread, or another connection to the file, can write at once."""
    numbers = iter(range(100_000))

    def act() -> None:
        name = f"t{next(numbers)}"
        with backend.writing() as tx:
            tx.metadata.put_task_def(name, "{}")
            with backend.reading() as view:
                view.metadata.task_defs()
            tx.metadata.put_workflow_def(name, 1, "{}")
        with backend.reading() as view:
            view.metadata.task_defs()

    def write() -> None:
        with backend.writing() as tx:
            tx.metadata.put_task_def("other", "{}")

    def whole() -> None:
        if isinstance(backend, SQLiteBackend):
            other = SQLiteBackend(backend.path, busy_timeout_ms=100)
            with other.writing() as tx:
                tx.metadata.put_task_def("another", "{}")
            other.close()
        in_a_thread(write)
        write()
        with backend.reading() as view:
            assert set(view.metadata.task_defs()) - {"other", "another"} == {name for name, _ in view.metadata.workflow_defs()}

    # Opening the file anew is what takes the time.
    everywhere(act, whole, every=61 if isinstance(backend, SQLiteBackend) else 1)


def test_a_pool_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was interrupted, in the thread that submits or in the one that works, its job and the next one are done."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    pools: list[Pool[int]] = []

    def done() -> None:
        job = pools[-1].submit(lambda: 1)
        until = time.monotonic() + 10
        while not job.over:
            assert time.monotonic() < until
            time.sleep(0)

    def act() -> None:
        pools.append(Pool(1, lambda: None))
        done()

    def whole() -> None:
        done()
        pools[-1].close()

    everywhere(act, whole, threads=True)


def test_a_pool_whose_threads_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has no thread at all is told, once; with one there is nothing to tell: it does the work of those that are not."""
    tried: list[threading.Thread] = []

    def refused(thread: threading.Thread) -> None:
        tried.append(thread)
        raise RuntimeError("can't start new thread")

    never: list[int] = []
    pool: Pool[int | None] = Pool(2, lambda: None)
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refused)
        with pytest.raises(NoThread, match="can't start"):
            pool.submit(lambda: never.append(1))
    assert len(tried) == 1
    waits = threading.Event()
    jobs = [pool.submit(lambda: int(waits.wait(10)))]
    while not jobs[0].begun:
        time.sleep(0)
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refused)
        jobs += [pool.submit(lambda: 1) for _ in range(3)]
    waits.set()
    until = time.monotonic() + 10
    while not all(job.over for job in jobs):
        assert time.monotonic() < until
        time.sleep(0)
    pool.close()
    assert [job.result for job in jobs] == [1, 1, 1, 1]
    assert never == []  # whoever was told that it is not done must not find it done


@pytest.mark.parametrize("kind", ["worker", "loop"])
def test_a_driver_waits_for_a_thread(kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """It says so once, keeps what it has polled, and goes on as soon as one can be started; each function is called once."""
    called: list[int] = []
    workers = Workers()

    if kind == "loop":

        @workers.task("t")
        async def coroutine(n: int) -> None:
            called.append(n)

    else:

        @workers.task("t")
        def function(n: int) -> None:
            called.append(n)

    refused: list[str] = []
    start = threading.Thread.start

    def starts(thread: threading.Thread) -> None:
        if thread.name == f"conductorlite-{kind}" and len(refused) < 3:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starts)
    task = WorkflowTask(name="t", task_reference_name="t", input_parameters={"n": "${workflow.input.n}"})
    with Engine(workers=workers) as engine:
        runs = [engine.start(WorkflowDef(name="w", tasks=[task]), {"n": n}) for n in range(2)]
        assert engine.run_until_idle()
        assert [engine.get(run.workflow_id).status for run in runs] == ["COMPLETED"] * 2
    assert sorted(called) == [0, 1]
    assert len(refused) == 3
    texts = [record.getMessage() for record in caplog.records if "thread" in record.getMessage()]
    assert [text.split(",")[0].split(":")[0] for text in texts] == ["the driver waits for a thread", "a thread can be used again"]


def test_a_verb_whose_thread_cannot_be_started_is_not_done_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """NoThread says that nothing was begun: an AsyncEngine starts nothing when it has a thread again."""

    async def act() -> None:
        async with AsyncEngine(clock=VirtualClock()) as engine:
            with monkeypatch.context() as full:
                full.setattr(threading.Thread, "start", refuse)
                with pytest.raises(NoThread):
                    await engine.start(WorkflowDef(name="w", tasks=[]))
                with pytest.raises(NoThread):
                    await engine.run_until_idle()
            assert await engine.run_until_idle()
            assert (await engine.search()).total_hits == 0

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    asyncio.run(act())


def test_an_ordered_set_is_mended() -> None:
    """After a change that was interrupted, taking it back leaves what was there before, in order."""
    keys = [(n,) for n in range(0, 2_048, 2)]
    index: Ordered[tuple[int]] = Ordered()
    for key in keys:
        index.add(key)

    def act() -> None:
        index.add((1,))
        index.discard((1,))

    def whole() -> None:
        index.discard((1,))
        assert list(index) == keys

    everywhere(act, whole)


def test_a_clock_is_not_held_by_a_worker_that_is_gone() -> None:
    """The time can be moved after a worker was interrupted anywhere."""
    clock = VirtualClock(0)

    def act() -> None:
        with clock.held():
            pass

    everywhere(act, lambda: clock.move_to(clock.now() + 1))


def test_a_lock_is_free_when_its_lease_is_over() -> None:
    """Whoever was interrupted while he took a turn, or gave it back, is forgotten after Conductor's minute."""
    lock, now = InProcessLock(), 0

    def act() -> None:
        token = lock.try_acquire("w", now)
        lock.release("w", token or 0)

    def whole() -> None:
        nonlocal now
        now += 60_000
        token = lock.try_acquire("w", now)
        assert token is not None
        lock.release("w", token)

    everywhere(act, whole)


def test_a_cache_goes_on() -> None:
    """What it keeps stays within its bounds, whatever was interrupted."""
    cache: Cache[str, str] = Cache(3, weigh=len, budget=10)
    names = ["one!", "two!", "six!"]

    def act() -> None:
        for name in names:
            cache.put(name, name)
            cache.get(name)
        cache.drop(name)

    def whole() -> None:
        act()
        assert [cache.get(name) for name in names] == [None, "two!", None]

    everywhere(act, whole)
