"""A report and the next poll in one turn, and many reports at once: what the verbs one after another give, in fewer commits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from conductorlite import (
    AsyncEngine,
    Engine,
    EngineConfig,
    Task,
    TaskResult,
    TaskStatus,
    VirtualClock,
    WorkflowDef,
    WorkflowStatus,
)
from conductorlite.engine.bulk import Exchange, exchange
from conductorlite.engine.polling import Asker
from conductorlite.errors import Conflict, InvalidInput, StaleLease, TaskNotFound
from conductorlite.model.canonical import canonical
from conductorlite.store.sqlite.backend import SQLiteBackend

T0 = 1_900_000_000_000


def simple(ref: str, name: str = "step") -> dict[str, object]:
    """A SIMPLE task that is tried twice."""
    return {
        "name": name,
        "taskReferenceName": ref,
        "type": "SIMPLE",
        "taskDefinition": {"name": name, "retryCount": 1, "retryDelaySeconds": 0},
    }


WIDE = WorkflowDef.from_json(
    {
        "name": "wide",
        "tasks": [
            simple("first"),
            {
                "name": "f",
                "taskReferenceName": "f",
                "type": "FORK_JOIN",
                "forkTasks": [[simple("a"), simple("b")], [simple("c", "other")], [simple("d"), simple("e")]],
            },
            {"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": ["b", "c", "e"]},
        ],
    }
)


def opened(store: str | Path | SQLiteBackend | None, executions: int = 3) -> Engine:
    """An engine with executions of different priorities, that draws the same ids each time."""
    numbers = iter(range(1000))
    engine = Engine(store, clock=VirtualClock(T0), config=EngineConfig(ids=lambda: f"w{next(numbers)}"))
    engine.register(WIDE)
    for number in range(executions):
        engine.start("wide", priority=number % 2)
    return engine


def report(task: Task, status: TaskStatus = TaskStatus.COMPLETED, **more: object) -> TaskResult:
    """A report on a polled task."""
    given: dict[str, object] = {"output_data": {"ref": task.ref}, "lease": task.lease, "worker_id": "w"} | more
    return TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=status, **given)  # type: ignore[arg-type]


def record(engine: Engine) -> list[str]:
    """Everything there is of every execution."""
    return [canonical(engine.admin.export(name)) for name in sorted(engine.admin.workflow_ids())]


def apart(engine: Engine, result: TaskResult, task_type: str, count: int) -> tuple[Task, list[Task]]:
    """A report and a poll, one after the other."""
    return engine.update_task(result), engine.poll(task_type, worker_id=result.worker_id, count=count)


def together(engine: Engine, result: TaskResult, task_type: str, count: int) -> tuple[Task, list[Task]]:
    """Both at once."""
    return engine.update_task(result, poll=task_type, count=count)


def lived(seed: int, step: Callable[[Engine, TaskResult, str, int], tuple[Task, list[Task]]]) -> tuple[list[object], list[str]]:
    """A life in which each report polls for what comes next; all that was answered, and its record."""
    drawn, answers = random.Random(seed), []
    with opened(None) as engine:
        held = engine.poll("step", worker_id="w", count=2)
        while held:
            task = held.pop(drawn.randrange(len(held)))
            status = TaskStatus.FAILED if drawn.random() < 0.2 and task.attempt == 0 else TaskStatus.COMPLETED
            after, polled = step(engine, report(task, status), drawn.choice(["step", "step", "other"]), drawn.choice([1, 1, 2, 5]))
            answers.append((after, tuple(polled)))
            held += polled
            if not held:
                held = engine.poll("step", count=1) or engine.poll("other", count=1)
        return answers, record(engine)


@pytest.mark.parametrize("seed", range(12))
def test_a_report_with_a_poll_is_both_one_after_the_other(seed: int) -> None:
    """Tasks, leases, order and history are the same: a life is lived either way."""
    assert lived(seed, together) == lived(seed, apart)


def test_a_chain_takes_one_commit_a_task(tmp_path: Path) -> None:
    """What its execution has next is handed over in the commit of the report."""
    chain = WorkflowDef.from_json({"name": "chain", "tasks": [simple(f"t{number}") for number in range(6)]})
    backend = SQLiteBackend(tmp_path / "s.db")
    with Engine(backend, clock=VirtualClock(T0)) as engine:
        engine.start(chain)
        [task] = engine.poll("step")
        before, polled = engine.core.turns.committed.number, [task]
        while polled:
            _, polled = engine.update_task(report(polled[0]), poll="step")
        assert engine.core.turns.committed.number - before == 6


def test_a_refused_report_polls_for_nothing(tmp_path: Path) -> None:
    """It raises what it raises without a poll, and nothing has changed."""
    with opened(tmp_path / "s.db") as engine:
        [task] = engine.poll("step")
        before = record(engine)
        for result, error in (
            (report(task, lease=task.lease - 1), StaleLease),
            (report(task, TaskStatus.SCHEDULED), InvalidInput),
            (TaskResult(workflow_id="w0", task_id="none", status=TaskStatus.COMPLETED), TaskNotFound),
        ):
            with pytest.raises(error):
                engine.update_task(result, poll="step", count=5)
        with pytest.raises(InvalidInput, match="below 1"):
            engine.update_task(report(task), poll="step", count=0)
        assert record(engine) == before


def reports(engine: Engine, seed: int) -> list[TaskResult]:
    """Reports on what is polled, good and bad, some tasks twice, in any order."""
    drawn = random.Random(seed)
    for task in engine.poll("step", count=10):
        engine.update_task(report(task))
    polled = [*engine.poll("step", count=20), *engine.poll("other", count=20)]
    given = [report(task, drawn.choice([TaskStatus.COMPLETED, TaskStatus.FAILED])) for task in polled]
    given += [report(task, lease=task.lease - 1) for task in drawn.sample(polled, 2)]
    given += [report(task) for task in drawn.sample(polled, 3)]
    given += [TaskResult(workflow_id="w0", task_id="none", status=TaskStatus.COMPLETED)]
    given += [report(polled[0], output_data={"what": object()})]
    drawn.shuffle(given)
    return given


def each_alone(engine: Engine, results: list[TaskResult]) -> list[object]:
    """What `update_task` says to each."""
    answers: list[object] = []
    for result in results:
        try:
            answers.append(engine.update_task(result))
        except (TaskNotFound, StaleLease, Conflict, InvalidInput) as error:
            answers.append(error)
    return answers


@pytest.mark.parametrize("seed", range(8))
def test_many_reports_are_each_one_after_the_other(seed: int) -> None:
    """One that is refused refuses itself only; the record is the same, and tasks are answered as they are in the end."""
    with opened(None) as one, opened(None) as other:
        expected = each_alone(one, reports(one, seed))
        found = other.update_tasks(reports(other, seed))
        assert [type(answer) for answer in found] == [type(answer) for answer in expected]
        assert [str(answer) for answer in found if isinstance(answer, Exception)] == [
            str(answer) for answer in expected if isinstance(answer, Exception)
        ]
        ids = [answer.task_id for answer in found if isinstance(answer, Task)]
        assert ids == [answer.task_id for answer in expected if isinstance(answer, Task)]
        assert record(other) == record(one)


def test_many_reports_take_few_commits(tmp_path: Path) -> None:
    """Reports of one execution are one turn, and executions share a write."""
    backend = SQLiteBackend(tmp_path / "s.db", counting=True)
    with opened(backend, executions=20) as engine:
        polled = engine.poll("step", count=20)
        assert backend.counts is not None
        backend.counts.reset()
        answers = engine.update_tasks([report(task) for task in polled])
        assert backend.counts.commits == 1
        assert {answer.status for answer in answers if isinstance(answer, Task)} == {TaskStatus.COMPLETED}
        assert len(answers) == 20
        assert engine.update_tasks([]) == []


def test_both_are_awaited() -> None:
    """AsyncEngine has them; what is polled for a task that was canceled goes the way of `poll`."""

    async def program() -> None:
        async with AsyncEngine(clock=VirtualClock(T0)) as engine:
            await engine.start(WIDE, {})
            [task] = await engine.poll("step")
            after, polled = await engine.update_task(report(task), poll="step", count=5)
            assert (after.status, [one.ref for one in polled]) == (TaskStatus.COMPLETED, ["a", "d"])
            answers = await engine.update_tasks([report(one) for one in polled])
            assert [type(one) for one in answers] == [Task, Task]

    asyncio.run(program())


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
@pytest.mark.parametrize("seed", range(6))
def test_what_many_workers_say_at_once(seed: int, backend: str, tmp_path: Path) -> None:
    """Each gets what it wants as long as there is any, no task two have, and each report is answered as it is alone."""
    drawn = random.Random(seed)
    with opened(tmp_path / "s.db" if backend == "sqlite" else None, executions=6) as engine:
        held: list[Task] = []
        for _ in range(60):
            engine.advance("1s")
            asks = [
                Exchange(asker=Asker(worker_id=f"idle{n}", count=drawn.randint(1, 3)), task_type=drawn.choice(["step", "other"]))
                for n in range(drawn.randint(0, 2))
            ]
            drawn.shuffle(held)
            reported = [held.pop() for _ in range(min(len(held), drawn.randint(1, 5)))]
            stale = {task.task_id for task in reported if drawn.random() < 0.15}
            for number, task in enumerate(reported):
                result = report(task, lease=task.lease - (task.task_id in stale), worker_id=f"busy{number}")
                asks.append(
                    Exchange(result=result, asker=Asker(worker_id=f"busy{number}", count=1) if drawn.random() < 0.8 else None)
                )
            exchange(engine.core, asks)
            for ask in asks:
                bad = ask.task is not None and ask.task.task_id in stale
                assert type(ask.error) is (StaleLease if bad else type(None))
                given = [] if ask.asker is None else [task for task, _ in ask.asker.given]
                assert not (bad and given)
                assert all(task.worker_id == ask.asker.worker_id for task in given if ask.asker is not None)
                held += given
            held += [task for task in reported if task.task_id in stale]
            assert len({task.task_id for task in held}) == len(held)
            if not held and not asks:
                break
        while held or (held := engine.poll("step", count=9) + engine.poll("other", count=9)):
            engine.update_task(report(held.pop()))
        assert {row.status for row in engine.executions()} == {WorkflowStatus.COMPLETED}
        assert engine.admin.check() == []


def test_what_many_workers_say_shares_a_write(tmp_path: Path) -> None:
    """Their reports, and what they poll for: what others have offered before comes first."""
    backend = SQLiteBackend(tmp_path / "s.db")
    with Engine(backend, clock=VirtualClock(T0)) as engine:
        chain = WorkflowDef.from_json({"name": "chain", "tasks": [simple(f"t{number}") for number in range(6)]})
        for _ in range(40):
            engine.start(chain)
        tasks = engine.poll("step", worker_id="w", count=10)
        engine.advance("1s")
        before = backend.commits()
        asks = [Exchange(result=report(task), asker=Asker(worker_id="w", count=1)) for task in tasks]
        exchange(engine.core, asks)
        assert backend.commits() - before == 1
        given = [task for ask in asks if ask.asker is not None for task, _ in ask.asker.given]
        assert len(given) == 10
        assert {task.ref for task in given} == {"t0"}
        before = backend.commits()
        asks = [
            Exchange(result=report(task, lease=task.lease - (n == 0)), asker=Asker(worker_id="w", count=1))
            for n, task in enumerate(given)
        ]
        exchange(engine.core, asks)
        assert [type(ask.error) for ask in asks] == [StaleLease, *[type(None)] * 9]
        assert [len(ask.asker.given) for ask in asks if ask.asker is not None] == [0, *[1] * 9]
        assert backend.commits() - before == 2  # whose report is refused polls for nothing
        assert [row for row in engine.executions() if row.status is not WorkflowStatus.RUNNING] == []
        assert engine.admin.check() == []
