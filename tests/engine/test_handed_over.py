"""Many events in one turn: what workers report, and what they take next, belong to one commit, and nobody can see it.

Whether a life is lived event by event or in groups, its record is the same, byte for byte. What a turn hands over is what a poll at
that instant would give, or nothing; and it is committed before any worker runs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import pytest
from engine_kit import T0, Bench, flow, fork, join, rounds, simple, task_def, wait

from conductorlite import (
    Engine,
    EngineConfig,
    SubWorkflowParams,
    Task,
    TaskContext,
    TaskResult,
    TaskStatus,
    VirtualClock,
    Workers,
    WorkflowDef,
    WorkflowTask,
)
from conductorlite.engine.turn_types import Taking
from conductorlite.errors import ResultTimeout, WouldDeadlock
from conductorlite.model.canonical import Payload, canonical
from conductorlite.model.decisions import Event, Message
from conductorlite.model.definitions import WorkflowTimeoutPolicy
from conductorlite.model.errors import AlreadyExists, StorageError
from conductorlite.runtime.calls import Deferred
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.sqlite.statements import HIGHEST_PRIORITY, TASK_LAST, TASKS_ALL, TASKS_LAST
from conductorlite.testing.faults import FaultyBackend, lay_empty_store

LIFE = flow(
    fork("f", [simple("a"), simple("b")], [simple("c", {"retry_count": 1, "retry_delay_s": 0})], [rounds("l", [simple("d")])]),
    join("j", "b", "c", "l"),
    simple("e"),
)


def chain(length: int, name: str = "chain", task_type: str = "step") -> WorkflowDef:
    """Tasks of one type, one after another."""
    return WorkflowDef.from_json(
        {"name": name, "tasks": [{"name": task_type, "taskReferenceName": f"t{i}", "type": "SIMPLE"} for i in range(length)]}
    )


def nothing() -> None:
    """A worker that puts out nothing."""


class Tape:
    """One execution whose every event is written down, and what is offered of it."""

    def __init__(self, seed: int) -> None:
        self.engine = Engine(clock=VirtualClock(T0), config=EngineConfig(ids=lambda: "w"))
        self.engine.start(LIFE)
        self.drawn = random.Random(seed)
        self.events: list[Event] = []

    def lived(self) -> bytes:
        """Live it event by event, in an order drawn by chance; its record."""
        held: list[Task] = []
        while True:
            with self.engine.backend.reading() as view:
                offered = [
                    message
                    for queue in view.queue.queue_sizes()
                    for message in view.queue.offered(queue, self.engine.clock.now(), 9)
                ]
            if not offered and not held:
                return record(self.engine)
            if offered and (not held or self.drawn.random() < 0.5):
                held.append(self._poll(self.drawn.choice(offered)))
            else:
                self._report(held.pop(self.drawn.randrange(len(held))))

    def _poll(self, message: Message) -> Task:
        self._take(poll_of(message))
        return next(task for task in self.engine.get("w").tasks if task.ref == message.ref and not task.status.terminal)

    def _report(self, task: Task) -> None:
        status = TaskStatus.FAILED if task.ref == "c" and task.attempt == 0 else TaskStatus.COMPLETED
        result = TaskResult(workflow_id="w", task_id=task.task_id, status=status, output_data={"x": task.ref}, lease=task.lease)
        self._take(self.engine.core.reports.prepared(task, result).event)

    def _take(self, event: Event) -> None:
        self.events.append(event)
        self.engine.core.turns.run_turn("w", [event])


def poll_of(message: Message) -> Event:
    """The poll that takes a message."""
    return Taking(data=Payload.of({"workerId": "v"}), owner="").poll(message, T0)


def record(engine: Engine, workflow_id: str = "w") -> bytes:
    """All that can be exported of an execution."""
    return canonical(engine.admin.export(workflow_id)).encode()


def grouped(events: Sequence[Event], drawn: random.Random) -> Iterator[list[Event]]:
    """Consecutive events in groups of any size."""
    rest = list(events)
    while rest:
        size = drawn.randint(1, 6)
        yield rest[:size]
        rest = rest[size:]


@pytest.mark.parametrize("seed", range(12))
def test_groups_of_events_leave_the_same_record(seed: int) -> None:
    """One sequence of events, taken one by one or in groups drawn by chance, gives the same bytes."""
    tape = Tape(seed)
    expected = tape.lived()
    for number in range(4):
        with Engine(clock=VirtualClock(T0), config=EngineConfig(ids=lambda: "w")) as engine:
            engine.start(LIFE)
            for group in grouped(tape.events, random.Random(seed * 100 + number)):
                engine.core.turns.run_turn("w", group)
            assert record(engine) == expected
            assert engine.admin.check() == []


# -- what is handed over is what a poll would give ---------------------------------------------------------------------


def crowd(engine: Engine) -> list[str]:
    """Executions of all kinds that wait for workers of one type: priorities, a domain, limits, pause, retries, forks."""
    limited = task_def("limited", concurrent_exec_limit=1, retry_count=1, retry_delay_s=0)
    rated = task_def("rated", rate_limit_per_frequency=2, rate_limit_frequency_s=1)
    mixed = flow(simple("limited", {"concurrent_exec_limit": 1}), simple("rated"), simple("step"), name="mixed")
    engine.register(
        limited,
        rated,
        chain(4),
        mixed,
        flow(fork("f", [simple("step")], [simple("rated")]), join("j", "step", "rated"), name="wide"),
    )
    started = [
        engine.start("chain", workflow_id="low"),
        engine.start("mixed", workflow_id="mixed"),
        engine.start("chain", workflow_id="high", priority=9),
        engine.start("chain", workflow_id="domain", task_to_domain={"step": "east"}),
        engine.start("wide", workflow_id="wide"),
        engine.start("mixed", workflow_id="late", priority=3),
    ]
    return [run.workflow_id for run in started]


def driven(*, ahead: bool, types: Sequence[str]) -> tuple[list[str], dict[str, bytes], int]:
    """Who was called, in order, what can be exported, and how many commits it took: with turns that hand over, or without."""
    called: list[str] = []
    workers = Workers()

    def work(context: TaskContext) -> None:
        called.append(f"{context.task.workflow_id}:{context.task.ref}")
        if context.task.task_type == "limited" and context.task.attempt == 0:
            raise ValueError("once")

    for task_type in types:
        workers.task(task_type)(work)
    workers.task("step", domain="east")(work)
    backend = MemoryBackend()
    with Engine(backend, workers=workers, clock=VirtualClock(T0)) as engine:
        ids = crowd(engine)
        while True:
            if ahead:
                engine.settle()
            else:
                while engine.tick():
                    continue
            at = engine.driver.instants.next(idle=True)
            if at is None:
                break
            engine.clock.move_to(at)  # type: ignore[attr-defined]
        assert engine.admin.check() == []
        assert {engine.status(one).value for one in ids} == {"COMPLETED"}
        return called, {one: record(engine, one) for one in ids}, backend.commits()


def test_who_is_called_is_who_a_poll_would_find() -> None:
    """Order of calls and every record are as if each task were polled for: priority, age, domain, limits, windows, retries."""
    called, records, commits = driven(ahead=True, types=("step", "limited", "rated"))
    polled, expected, before = driven(ahead=False, types=("step", "limited", "rated"))
    assert sorted(called) == sorted(polled)
    assert records == expected
    assert commits < before


def test_of_one_type_the_order_is_that_of_polls() -> None:
    """Of two that wait the older is called first, also when a turn could hand over its own execution's next task."""
    called: list[str] = []
    workers = Workers()

    @workers.task("step")
    def step(context: TaskContext) -> None:
        called.append(f"{context.task.workflow_id}:{context.task.ref}")

    orders = []
    for ahead in (True, False):
        called.clear()
        with Engine(workers=workers, clock=VirtualClock(T0)) as engine:
            engine.register(chain(3))
            for name, priority in (("x", 0), ("y", 5), ("z", 0)):
                engine.start("chain", workflow_id=name, priority=priority)
                engine.clock.move_to(engine.clock.now() + 1)  # type: ignore[attr-defined]
            while engine.settle() if ahead else engine.tick():
                continue
        orders.append(list(called))
    assert orders[0] == orders[1]
    assert orders[0] == ["y:t0", "y:t1", "y:t2", "x:t0", "z:t0", "x:t1", "x:t2", "z:t1", "z:t2"]


def test_a_chain_takes_one_commit_a_step() -> None:
    """The start, the first poll, and one commit a task."""
    workers = Workers()
    workers.task("step")(nothing)
    backend = MemoryBackend()
    with Engine(backend, workers=workers, clock=VirtualClock(T0)) as engine:
        engine.register(chain(10))
        engine.start("chain")
        engine.run_until_idle()
        before = backend.commits()
        engine.start("chain")
        engine.run_until_idle()
        assert backend.commits() - before == 12


def test_the_end_of_an_execution_asks_for_nothing(tmp_path: Path) -> None:
    """Nothing is handed over by a turn that ends it: no queue is read; its result is its own row, without the tasks'."""
    backend = SQLiteBackend(lay_empty_store(tmp_path / "store.db"), synchronous="NORMAL", counting=True)
    with Engine(backend, clock=VirtualClock(T0)) as engine:
        run = engine.start(flow(simple("step")), workflow_id="w")
        (task,) = engine.poll("step", worker_id="v")
        report = engine.core.reports.prepared(task, TaskResult(workflow_id="w", task_id=task.task_id, status=TaskStatus.COMPLETED))
        taking = Taking(data=Payload.of({"workerId": "v"}), owner="", free={"step": 1}, most=1, again=["step"])
        assert backend.counts is not None
        backend.counts.reset()
        engine.core.reports.taken([report], taking)
        assert backend.counts.statements_by_sql[HIGHEST_PRIORITY] == 0
        assert run.result() == {}
        assert backend.counts.statements_by_sql[TASKS_ALL] == 0


def test_a_single_step_hands_nothing_over(bench: Bench) -> None:
    """After `tick` nobody may drive on: what a report offers waits in its queue."""
    bench.engine.workers.task("step")(nothing)
    bench.start(chain(3))
    while bench.task("t0").status is not TaskStatus.COMPLETED:
        assert bench.engine.tick()
    assert bench.statuses() == {"t0": "COMPLETED", "t1": "SCHEDULED"}


def test_what_is_handed_over_and_not_carried_out_is_given_back(bench: Bench) -> None:
    """A driver that is interrupted has its next task already: the one who drives next offers it again."""
    failing = [True]

    @bench.engine.workers.task("step")
    def interrupted() -> None:
        if bench.task("t0").status is TaskStatus.COMPLETED and failing.pop():
            raise KeyboardInterrupt

    bench.start(chain(3))
    with pytest.raises(KeyboardInterrupt):
        bench.engine.settle()
    assert bench.task("t1").status is TaskStatus.SCHEDULED
    failing.append(False)
    failing.append(False)
    bench.engine.settle()
    assert bench.status_of_workflow().value == "COMPLETED"


def test_no_worker_runs_before_its_lease_is_committed() -> None:
    """Whichever write fails: a function that is called holds the lease that is stored, and all ends well."""
    workers = Workers()
    leases: list[tuple[TaskStatus, int, int]] = []

    @workers.task("step")
    def step(context: TaskContext) -> None:
        (held,) = [task for task in engine.get(context.task.workflow_id).tasks if task.task_id == context.task.task_id]
        leases.append((held.status, held.lease, context.task.lease))

    writes, number = 2, 1
    while number <= writes:
        backend = FaultyBackend(MemoryBackend(), fail_before=number)
        with Engine(backend, workers=workers, clock=VirtualClock(T0)) as engine:
            for _ in range(3):
                with suppress(StorageError):
                    with suppress(AlreadyExists):
                        engine.start(chain(3), workflow_id="w")
                    engine.settle()
            assert engine.status("w").value == "COMPLETED"
            assert engine.admin.check() == []
        writes, number = backend.writes, number + 1
    assert {(status, stored == held) for status, stored, held in leases} == {(TaskStatus.IN_PROGRESS, True)}


# -- what is offered later, on a virtual clock --------------------------------------------------------------------------


def child(ref: str) -> WorkflowTask:
    """A SUB_WORKFLOW of one task."""
    inner = flow(attrs.evolve(simple("inner", {"retry_count": 3, "retry_delay_s": 2}), name="x"), name="inner")
    param = SubWorkflowParams(workflow_definition=inner)
    return WorkflowTask(name=ref, task_reference_name=ref, type="SUB_WORKFLOW", sub_workflow_param=param, optional=True)


def lives(drawn: random.Random) -> list[WorkflowDef]:
    """Executions of tasks that fail, hang, wait and time out, with delays and limits, so that much comes due at few instants."""

    def task(ref: str) -> WorkflowTask:
        options: dict[str, Any] = {"retry_count": drawn.randint(0, 4), "retry_delay_s": drawn.choice([0, 1, 2, 5])}
        options["retry_logic"] = drawn.choice(["FIXED", "EXPONENTIAL_BACKOFF"])
        options["response_timeout_s"] = drawn.choice([3, 60])
        if drawn.random() < 0.3:
            options["poll_timeout_s"] = drawn.choice([1, 4])
        if drawn.random() < 0.3:
            options |= drawn.choice([{"concurrent_exec_limit": 1}, {"rate_limit_per_frequency": 1, "rate_limit_frequency_s": 2}])
        if drawn.random() < 0.2:
            options |= {"total_timeout_s": 9}
        delay = {"start_delay_ms": drawn.choice([0, 1_000, 4_000])}
        return attrs.evolve(simple(ref, options), name=drawn.choice("xyz"), optional=drawn.random() < 0.5, **delay)

    def one(number: int) -> WorkflowDef:
        refs = [f"t{place}" for place in range(drawn.randint(1, 4))]
        tasks = [task(ref) for ref in refs]
        if len(tasks) > 2 and drawn.random() < 0.6:
            waits = wait("pause", duration=f"{drawn.choice([1, 2, 5])}s") if drawn.random() < 0.5 else child("pause")
            if drawn.random() < 0.5:
                tasks = [fork("f", tasks[:1], [tasks[1], waits]), join("j", refs[0], "pause"), *tasks[2:]]
            else:
                tasks = [tasks[0], fork("f", [tasks[1]], [waits]), join("j", refs[1], "pause"), *tasks[2:]]
        limit = drawn.choice([{}, {"timeout_ms": 7_000}])
        return flow(*tasks, name=f"life{number}", **limit)

    return [one(number) for number in range(drawn.choice([1, 1, 2, 3]))]


def lived_through(seed: int, *, at_once: bool, backend: Backend | None = None) -> tuple[list[Any], dict[str, bytes], Any]:
    """Who was called when, what can be exported, and who polled last: driven in one go, or from instant to instant."""
    drawn, called = random.Random(seed), []
    definitions, workers = lives(drawn), Workers()

    def work(context: TaskContext) -> Any:
        task = context.task
        called.append((engine.clock.now(), task.workflow_id, task.ref, task.attempt))
        fate = random.Random(f"{seed} {task.workflow_id} {task.ref} {task.attempt}").random()
        if fate < 0.5:
            raise ValueError("not yet")
        if fate < 0.6:
            return Deferred(after_ms=1_000, outcome=ValueError("late"), reports=2)
        if fate < 0.65:
            return Deferred(after_ms=None, silent=True)
        if fate < 0.75:
            return TaskResult(
                workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.IN_PROGRESS, callback_after_ms=2_000
            )
        return Deferred(after_ms=2_000, outcome={"x": 1}) if fate < 0.85 else {"x": 1}

    for task_type in "xyz":
        workers.task(task_type)(work)
    workers.task("x", domain="east")(work)
    with Engine(MemoryBackend() if backend is None else backend, workers=workers, clock=VirtualClock(T0)) as engine:
        for number, definition in enumerate(definitions):
            domains = drawn.choice([{}, {"*": "east,NO_DOMAIN"}])
            engine.start(definition, workflow_id=f"w{number}", priority=drawn.choice([0, 0, 7]), task_to_domain=domains)
        until = T0 + 400_000
        if at_once:
            engine.advance(to=until)
        else:
            engine.settle()
            while engine.clock.now() < until:
                at = engine.driver.instants.next()
                engine.clock.move_to(until if at is None else min(at, until))  # type: ignore[attr-defined]
                engine.settle()
        assert engine.admin.check() == []
        polls = [engine.tasks.poll_data(task_type) for task_type in "xyz"]
        return called, {f"w{number}": record(engine, f"w{number}") for number in range(len(definitions))}, polls


@pytest.mark.parametrize("seed", range(60))
def test_driven_in_one_go_all_is_as_from_instant_to_instant(seed: int) -> None:
    """A report that hands over what is offered later leaves the calls, their instants, every record and the polls as they were."""
    assert lived_through(seed, at_once=True) == lived_through(seed, at_once=False)


def flaky(clock: VirtualClock, backend: Backend, failures: int) -> tuple[Engine, list[int]]:
    """An engine whose one worker fails so often, and the instants of its calls."""
    workers, calls = Workers(), list[int]()

    @workers.task("step", retry_count=20, retry_delay_seconds=3_600)
    def step() -> None:
        calls.append(clock.now() - T0)
        if len(calls) <= failures:
            raise ConnectionError("not today")

    return Engine(backend, workers=workers, clock=clock), calls


def test_a_retry_is_handed_over_by_the_report_of_the_failure() -> None:
    """In virtual time a retry with a delay takes one commit, and is called at its own instant."""
    commits = []
    for failures in (0, 5):
        backend = MemoryBackend()
        engine, calls = flaky(VirtualClock(T0), backend, failures)
        with engine:
            engine.start(chain(1)).result()
            assert calls == [number * 3_600_000 for number in range(failures + 1)]
            commits.append(backend.commits())
    assert commits[1] - commits[0] == 5


def test_a_write_that_fails_leaves_due_what_was_due() -> None:
    """Whichever write fails: the retries come at their instants, and so does what else is due."""
    writes, number = 2, 1
    while number <= writes:
        backend = FaultyBackend(MemoryBackend(), fail_before=number)
        engine, calls = flaky(VirtualClock(T0), backend, 3)
        with engine:
            for _ in range(3):
                for definition, name in ((chain(1), "w"), (flow(wait("pause", duration="90m")), "other")):
                    with suppress(StorageError, AlreadyExists):
                        engine.start(definition, workflow_id=name)
                with suppress(StorageError):
                    engine.run_until_idle()
            assert engine.status("w").value == engine.status("other").value == "COMPLETED"
            other = engine.get("other")
            assert other.ended_at - other.created_at == 90 * 60_000
            assert [call - calls[0] for call in dict.fromkeys(calls)] == [0, 3_600_000, 7_200_000, 10_800_000]
            assert engine.admin.check() == []
        writes, number = backend.writes, number + 1


def test_who_is_handed_a_task_later_has_polled_then() -> None:
    """The worker of a domain, an hour after its last poll, is there for what is scheduled next."""
    workers = Workers()

    @workers.task("step", domain="east", retry_count=1, retry_delay_seconds=3_600)
    def step(context: TaskContext) -> None:
        if context.task.ref == "t0" and context.task.attempt == 0:
            raise ConnectionError("not today")

    with Engine(workers=workers, clock=VirtualClock(T0)) as engine:
        engine.driver.settle()  # which polls
        run = engine.start(chain(2), task_to_domain={"step": "east,NO_DOMAIN"})
        run.result()
        assert {task.domain for task in engine.get(run.workflow_id).tasks} == {"east"}
        assert engine.tasks.poll_data("step")[0].last_poll_time == T0 + 3_600_000


def test_who_listens_hears_of_everything_at_its_instant() -> None:
    """The turn of a report then hands nothing over that is offered later."""
    engine, calls = flaky(VirtualClock(T0), MemoryBackend(), 2)
    heard: list[tuple[int, str]] = []
    with engine:
        engine.listen(lambda _, lines: heard.extend((engine.clock.now() - T0, str(line.status)) for line in lines if line.ref))
        engine.start(chain(1)).result()
    again = [(at, status) for at in calls for status in ("IN_PROGRESS", "FAILED", "SCHEDULED")]
    assert heard == [(0, "SCHEDULED"), *again[:-2], (7_200_000, "COMPLETED")]


@pytest.mark.parametrize("verb", ["settle", "tick", "advance", "run_until_idle", "result"])
def test_the_clock_goes_no_further_than_the_caller_lets_it(verb: str) -> None:
    """What is offered after that stays offered."""
    clock = VirtualClock(T0)
    engine, calls = flaky(clock, MemoryBackend(), 5)
    with engine:
        run = engine.start(chain(1), workflow_id="w")
        match verb:
            case "settle":
                engine.settle()
            case "tick":
                while engine.tick():
                    continue
            case "advance":
                engine.advance("59m")
            case "run_until_idle":
                assert not engine.run_until_idle(timeout="59m")
            case _:
                with pytest.raises(ResultTimeout):
                    run.result(timeout="59m")
        assert calls == [0]
        assert clock.now() - T0 == (0 if verb in ("settle", "tick") else 59 * 60_000)
        assert [task.status for task in engine.get("w").tasks][-1] is TaskStatus.SCHEDULED


def test_no_retry_is_handed_over_past_the_timeout_of_its_execution() -> None:
    """What comes due to the execution itself comes first, and no function is called that it would have ended."""
    engine, calls = flaky(VirtualClock(T0), MemoryBackend(), 5)
    with engine:
        definition = attrs.evolve(chain(1), timeout_ms=90 * 60_000, timeout_policy=WorkflowTimeoutPolicy.TIME_OUT_WF)
        engine.start(definition, workflow_id="w")
        engine.run_until_idle()
        assert calls == [0, 3_600_000]
        assert (engine.status("w").value, engine.get("w").ended_at) == ("TIMED_OUT", T0 + 90 * 60_000)


def test_a_function_that_waits_for_a_retry_is_refused_before_it_is_handed_over() -> None:
    """The clock cannot move while it runs: what it waits for stays offered."""
    engine, calls = flaky(VirtualClock(T0), MemoryBackend(), 2)
    with engine:

        @engine.workers.task("outer")
        def outer() -> None:
            inner = engine.start(chain(1), workflow_id="inner")
            with pytest.raises(WouldDeadlock):
                inner.result()
            assert [(task.status.value, task.poll_count) for task in engine.get("inner").tasks] == [("FAILED", 1), ("SCHEDULED", 0)]

        engine.start(flow(simple("outer", {"response_timeout_s": 90_000, "timeout_s": 90_000}))).result()
        engine.run_until_idle()
        assert engine.status("inner").value == "COMPLETED"
    assert calls == [0, 3_600_000, 7_200_000]


# -- reports together --------------------------------------------------------------------------------------------------


def test_a_bad_report_among_many_refuses_itself_only(bench: Bench) -> None:
    """One whose lease is another's now is refused, the others of its turn are taken."""
    bench.start(flow(fork("f", [simple("a")], [simple("b")], [simple("c")]), join("j", "a", "b", "c")))
    held = [bench.take(name) for name in "abc"]
    reports = bench.engine.core.reports
    results = [
        TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED, lease=lease)
        for task, lease in zip(held, (held[0].lease, held[1].lease - 1, held[2].lease), strict=True)
    ]
    found = [reports.prepared(task, result) for task, result in zip(held, results, strict=True)]
    taken = reports.taken(found)
    outcomes = [str(taken.replies[one.event.event_id].outcome) for one in found]
    assert outcomes == ["DONE", "STALE", "DONE"]
    assert bench.statuses()["b"] == "IN_PROGRESS"
    bench.report(held[1])
    assert bench.status_of_workflow().value == "COMPLETED"


def test_what_functions_returned_together_is_one_turn() -> None:
    """Functions of one execution that end at the same time are reported in a few turns, and each once."""
    workers = Workers(concurrency=16)
    workers.task("step")(nothing)
    backend = MemoryBackend()
    branches = [[WorkflowTask(name="step", task_reference_name=f"t{i}")] for i in range(64)]
    definition = flow(fork("f", *branches), join("j", *(f"t{i}" for i in range(64))))
    with Engine(backend, workers=workers) as engine:
        run = engine.start(definition)
        before = backend.commits()
        run.result(timeout="20s")
        assert backend.commits() - before < 128
        assert [line.status for line in engine.history(run.workflow_id) if line.ref == "t7"] == [
            "SCHEDULED",
            "IN_PROGRESS",
            "COMPLETED",
        ]


@pytest.mark.parametrize("handed", [1, 8])
def test_what_one_turn_hands_over_is_read_at_once(tmp_path: Path, handed: int) -> None:
    """However many tasks were offered before the turn of a report hands them out, they are one statement."""
    backend = SQLiteBackend(lay_empty_store(tmp_path / "store.db"), synchronous="NORMAL", counting=True)
    branches = [[WorkflowTask(name="step", task_reference_name=f"t{number}")] for number in range(9)]
    with Engine(backend, clock=VirtualClock(T0), config=EngineConfig(resident_bytes=0)) as engine:
        engine.start(flow(fork("f", *branches), join("j", *(f"t{number}" for number in range(9)))), workflow_id="w")
        (task,) = engine.poll("step", worker_id="v")
        report = engine.core.reports.prepared(task, TaskResult(workflow_id="w", task_id=task.task_id, status=TaskStatus.COMPLETED))
        taking = Taking(data=Payload.of({"workerId": "v"}), owner="", free={"step": handed}, most=handed, again=["step"])
        assert backend.counts is not None
        backend.counts.reset()
        engine.core.reports.taken([report], taking)
        assert len(taking.taken) == handed
        assert sum(n for sql, n in backend.counts.statements_by_sql.items() if sql in (TASK_LAST, TASKS_LAST)) == 2
