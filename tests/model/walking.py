"""Walks real engines along a way of the machine: two of them on one store, each held between its reading and its commit.

A turn runs in a thread of its own and stops before its write transaction until the way says `commit`. One thing happens at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

import attrs
from protocol import NOT_SHOWN, Event, Scope, Turn, World, first, steps

from conductorlite import Engine, Task, TaskResult, TaskStatus, VirtualClock, WorkflowDef
from conductorlite.errors import ConductorliteError, EngineClosed
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend

__all__ = ["Walk"]

T0: Final = 1_900_000_000_000
#: How long a moment of the machine is, ms: as long as a lease.
MOMENT: Final = 10_000
PATIENCE: Final = 20.0
ID: Final = "w"


class _Held:
    """A store whose writes wait until they are let through."""

    def __init__(self, inner: Backend, before_write: Callable[[], None]) -> None:
        self._inner = inner
        self._before_write = before_write
        self.capabilities = inner.capabilities

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def writing(self) -> AbstractContextManager[Any]:
        self._before_write()
        return self._inner.writing()


@attrs.define(eq=False)
class _Turn:
    """One call of an engine in a thread, which stops before each of its writes."""

    call: Callable[[], object]
    event: Event
    engine: Engine
    #: The same turn in the machine.
    model: Turn | None = None
    answer: object = None
    done: bool = False
    abandoned: bool = False
    _stopped: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(0))
    _let: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(0))

    def begin(self) -> None:
        """Read and decide."""
        threading.Thread(target=self._run, daemon=True).start()
        self._until_it_stops()

    def commit(self) -> None:
        """Write; it may have to read again, and stop again."""
        self._let.release()
        self._until_it_stops()

    def before_write(self) -> None:
        """In its thread: stop."""
        self._stopped.release()
        if not self._let.acquire(timeout=PATIENCE) or self.abandoned:
            raise EngineClosed("nobody lets it write any more")

    def _until_it_stops(self) -> None:
        if not self._stopped.acquire(timeout=PATIENCE):
            raise TimeoutError(f"{self.event} neither writes nor ends")

    def _run(self) -> None:
        try:
            self.answer = self.call()
        except ConductorliteError as error:
            self.answer = error
        finally:
            self.done = True
            self._stopped.release()


class Walk:
    """Engines, and the world they should be in."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.world: World = first(scope)
        self.clock = VirtualClock(T0)
        self.store = MemoryBackend()
        self.turns: list[_Turn] = []
        self.free = [self._engine() for _ in range(scope.engines)]
        self.tasks: dict[tuple[int, int, int, int], Task] = {}
        self.plain = Engine(self.store, clock=self.clock)
        self.plain.start(_definition(scope), workflow_id=ID)
        self.offset = self._row().fence - self.world.db.fence

    def _engine(self) -> Engine:
        engine = Engine(self.store, clock=self.clock)
        engine.core.turns.backend = _Held(self.store, lambda: self._of(engine).before_write())  # type: ignore[assignment]
        return engine

    def _of(self, engine: Engine) -> _Turn:
        return next(turn for turn in self.turns if turn.engine is engine)

    def _row(self) -> Any:
        with self.store.reading() as view:
            return view.executions.workflow(ID)

    # ------------------------------------------------------------------ steps

    def step(self, name: tuple[Any, ...]) -> None:
        """Do what the way says, in the machine and for real, and compare."""
        after = next(after for step, after in steps(self.world, self.scope) if step == name)
        if name[0] == "time passes":
            self.clock.move_to(T0 + after.now * MOMENT)
        elif name[0] == "read":
            self._read(name[1], after)
        else:
            self._commit(name[1], after)
        self.world = after
        self._compare(name)

    def _read(self, event: Event, after: World) -> None:
        engine = self.free.pop()
        turn = _Turn(call=self._call(engine, event), event=event, engine=engine)
        self.turns.append(turn)
        turn.begin()
        self._settle(turn, after)

    def _commit(self, model: Turn, after: World) -> None:
        turn = next(turn for turn in self.turns if turn.model == model)
        event = turn.event
        turn.commit()
        if isinstance(turn.answer, tuple):
            task: Task = turn.answer[0]
            row = next(row for row in after.db.rows if (row.task, row.attempt) == (event.task, event.attempt))
            self.tasks[row.task, row.attempt, row.generation, row.lease] = task
        self._settle(turn, after)

    def _settle(self, turn: _Turn, after: World) -> None:
        """Note which turn of the machine it is now, which the others are known of."""
        left = list(after.turns)
        for other in self.turns:
            if other is not turn and other.model in left:
                left.remove(other.model)
        turn.model = left[0] if left else None
        if turn.done:
            self.turns.remove(turn)
            self.free.append(turn.engine)

    def _call(self, engine: Engine, event: Event) -> Callable[[], object]:
        if event.kind == "DRIVE":
            return lambda: engine.core.turns.run_turn(ID)
        if event.kind == "RETRY":
            return lambda: engine.retry(ID)
        if event.kind == "RESTART":
            return lambda: engine.restart(ID)
        if event.kind == "POLL":
            with self.store.reading() as view:
                message = view.queue.message((ID, "ab"[event.task]))
            assert message is not None
            return lambda: engine.core.polling.take_message(message, "worker")
        key = event.task, event.attempt, event.generation
        task = next(task for held, task in self.tasks.items() if held[:3] == key and event.lease in (NOT_SHOWN, held[3]))
        status = TaskStatus.IN_PROGRESS if event.outcome == "PUT_BACK" else TaskStatus(event.outcome)
        result = TaskResult(workflow_id=ID, task_id=task.task_id, status=status,
                            lease=None if event.lease == NOT_SHOWN else task.lease)  # fmt: skip
        return lambda: engine.core.reports.report(task, result)

    # ------------------------------------------------------------------ comparing

    def _compare(self, name: object) -> None:
        with self.store.reading() as view:
            row = view.executions.workflow(ID)
            assert row is not None
            attempts = sorted(view.executions.attempts(ID), key=lambda task: (task.ref, task.attempt))
            offered = {("ab".index(one.ref), one.attempt, one.generation) for one in view.queue.messages(10)}
        real = (
            str(row.status),
            row.generation,
            row.fence - self.offset,
            [("ab".index(task.ref), task.attempt, task.generation, str(task.status)) for task in attempts],
            offered,
            len(self.turns),
        )
        db = self.world.db
        wanted = (
            db.status,
            db.generation,
            db.fence,
            sorted((one.task, one.attempt, one.generation, one.status) for one in db.rows),
            set(db.messages),
            len(self.world.turns),
        )
        if real != wanted:
            raise AssertionError(f"after {name}: the engine is at {real}, the machine at {wanted}")

    def abandon(self) -> None:
        """Give up what is under way."""
        for turn in self.turns:
            turn.abandoned = True
            turn._let.release()

    def close(self) -> None:
        """Let every turn end, and look at all laws of the engine."""
        while self.turns:
            turn = self.turns[0]
            turn.commit()
            if turn.done:
                self.turns.remove(turn)
        findings = self.plain.admin.check()
        if findings:
            raise AssertionError(str(findings))


def _definition(scope: Scope) -> WorkflowDef:
    policy = {
        "retryCount": scope.retries,
        "retryDelaySeconds": 0,
        "responseTimeoutSeconds": MOMENT // 1000,
        "pollTimeoutSeconds": 0,
        "timeoutSeconds": 0,
        "totalTimeoutSeconds": 0,
        "timeoutPolicy": "RETRY",
    }
    tasks = [
        {"name": ref, "taskReferenceName": ref, "type": "SIMPLE", "taskDefinition": {"name": ref, **policy}}
        for ref in "ab"[: scope.tasks]
    ]
    return WorkflowDef.from_json({"name": "w", "tasks": tasks})
