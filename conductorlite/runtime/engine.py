"""The engine as it is used: every verb, and the loops that drive it.

What is logged of definitions that are new to an engine: their warnings, and tasks that none of its workers serves.

A handle on one execution.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Literal

from conductorlite.decide.draft.barriers import Barriers
from conductorlite.decide.draft.view import Bounds
from conductorlite.engine.archive import status_of
from conductorlite.engine.callers import Caller, caller_of, refuse_callers
from conductorlite.engine.forks import one_process
from conductorlite.engine.keys import Polls
from conductorlite.engine.logs import log_definition, log_unserved
from conductorlite.engine.maintenance import Upkeep
from conductorlite.engine.metadata import Notice
from conductorlite.engine.queries import AgendaEntry
from conductorlite.model.clock import Clock, Instant, to_instant
from conductorlite.model.definitions import IdempotencyStrategy, Semantics, TaskDef, WorkflowDef
from conductorlite.model.errors import ClockError, InvalidInput, StorageError, WouldDeadlock
from conductorlite.model.executions import Workflow
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.model.texts import Span, to_span
from conductorlite.plan.names import unserved, worker_types
from conductorlite.runtime.loop import Driver
from conductorlite.runtime.registry import Workers
from conductorlite.runtime.signals import Leaving, failed, late, passes
from conductorlite.store.ports import Backend, EventSource, IndexDAO, Lock, PayloadCodec, PayloadStorage, SecretProvider

__all__ = ["Engine", "Notices", "Run"]


class Notices:
    """Logs each warning about a definition once, and once for each task type that nobody here carries out.

    An engine without workers only starts executions for others, as long as nobody drives it. A type that is polled for by hand
    has somebody.
    """

    def __init__(self, notices: deque[Notice], polls: Polls, workers: Workers) -> None:
        self._waiting = notices
        self._polls = polls
        self._workers = workers
        #: Types that definitions need and nobody was seen to serve, with the name of a definition.
        self._wanted: dict[str, str] = {}
        self._told: set[str] = set()

    def tell(self, *, driving: bool = False) -> None:
        """Log what has not been; with `driving` also for an engine without workers."""
        while self._waiting:
            definition, warnings = self._waiting.popleft()
            for problem in warnings:
                log_definition(definition.name, str(problem))
            if isinstance(definition, WorkflowDef):
                self._wanted.update((kind, definition.name) for kind in worker_types(definition) if kind not in self._told)
        if self._wanted and (driving or len(self._workers)):
            served = self._workers.task_types | self._polls.types()
            for kind, name in self._wanted.items():
                if kind not in served:
                    self._told.add(kind)
                    log_unserved(name, unserved(kind, self._workers.task_types))
            self._wanted.clear()


class Run:
    """One execution of an engine. Cheap: it holds the id, everything else is read when asked for."""

    __slots__ = ("_engine", "workflow_id")

    def __init__(self, engine: Engine, workflow_id: str) -> None:
        self._engine = engine
        self.workflow_id = workflow_id

    @property
    def workflow(self) -> Workflow:
        """The whole execution, read now."""
        return self._engine.get(self.workflow_id)

    @property
    def status(self) -> WorkflowStatus:
        """Where the execution stands, read now."""
        return self._engine.status(self.workflow_id)

    def result(self, timeout: Span | None = None) -> dict[str, Any]:
        """The workflow's output, once it has ended COMPLETED.

        If nobody in this process drives the engine, the calling thread does meanwhile: it takes turns and runs workers. On a
        virtual clock the timeout is virtual. Raises WorkflowFailed when the execution ended otherwise, ResultTimeout when it
        did not end in time, when the engine was told to stop meanwhile, or, on a virtual clock, with nothing left that could
        move it. Inside a worker's function it raises WouldDeadlock when the execution waits for that function, or needs room that
        only functions hold which wait too.
        """
        return self._engine.wait(self.workflow_id, timeout=timeout)

    def __repr__(self) -> str:
        return f"Run({self.workflow_id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other.workflow_id == self.workflow_id

    def __hash__(self) -> int:
        return hash(self.workflow_id)


@one_process
class Engine(Upkeep):
    """Conductor's engine inside your process.

    `store` is a path (SQLite), a `Backend`, or None (memory). `workers` carry out tasks while the engine is driven. `clock` is the
    machine's, or a `VirtualClock` that moves when you say so. `semantics` decides for new executions where Orkes' and Conductor
    OSS's documents disagree. `environment` is all that `${NAME}` and `${workflow.env.NAME}` can resolve to: nothing of the
    process environment ever does. `seed` goes into derived ids and jitter; `ids` makes ids of executions (default: random UUIDs).
    `lock` saves double work between engines (`conductorlite.store.locks`); with `fencing` a turn is refused when another one has
    committed since it read. Nothing is lost with the fence, locked or not; without it, only as long as no lease of the lock
    passes during a turn; with neither, turns may overwrite each other. `bounds` are the limits of one turn. `event_sources`
    are asked for messages while the engine is driven.

    Inputs and outputs past the soft `barriers` lie in the storage `payloads` (a folder, a URL such as `s3://bucket/folder`, or a
    `PayloadStorage`); by default beside the database (`orders.db.payloads`), for a store in memory in memory.
    `payload_codec` encrypts or compresses what is put there. Those past the hard barriers are refused. `index` is an
    `IndexDAO` elsewhere that `search` asks; without one the store's own file has an index, made by the first search.

    `secrets` is asked for what a task's input names as `${workflow.secrets.NAME}` when a worker receives it: a mapping, an
    `EnvironmentSecrets`, or any `SecretProvider`. Without it such a text stays as it is written.

    With `allocation="local"` this engine keeps to itself what it starts, and takes nothing else: only engines of the same `name`
    take the turns, offer the tasks and start the children of its executions, and drive its schedules. The name must be the same
    whenever the program is started; see `take_over` for a program that never comes back. By default ("shared") executions belong
    to all engines on the store.

    Poll, response and task timeouts that nobody wrote count only time in which some engine drove the store, so that a night
    without a process times nothing out. With `downtime_counts` they count all time while this engine takes the turns, as on
    Conductor's server. What is written always does.

    Nothing runs by itself: no thread is started until the engine is driven by `run_until_idle`, `run_forever`, `Run.result`,
    or, step by step, by `tick`, `settle` and `advance`. Opened in the main thread with a real clock, it answers SIGTERM and SIGHUP
    where nobody else does, so that the process still dies of them, but not of the tasks it has in hand. Raises StorageErrors when
    the store cannot be opened.
    """

    #: Whether it gives back, when it is opened, what engines had in hand that are gone. Who only looks does not write.
    _gives_back = True

    def __init__(
        self,
        store: str | os.PathLike[str] | Backend | None = None,
        *,
        workers: Workers | None = None,
        clock: Clock | None = None,
        semantics: Semantics = Semantics.ORKES,
        environment: Mapping[str, str] | None = None,
        seed: str = "",
        ids: Callable[[], str] | None = None,
        lock: Lock | None = None,
        fencing: bool = True,
        bounds: Bounds | None = None,
        event_sources: Iterable[EventSource] = (),
        payloads: str | os.PathLike[str] | PayloadStorage | None = None,
        payload_codec: PayloadCodec | None = None,
        barriers: Barriers | None = None,
        index: IndexDAO | None = None,
        secrets: SecretProvider | None = None,
        name: str | None = None,
        allocation: Literal["shared", "local"] = "shared",
        downtime_counts: bool = False,
    ) -> None:
        super().__init__(
            store,
            clock=clock,
            semantics=semantics,
            environment=environment,
            seed=seed,
            ids=ids,
            lock=lock,
            fencing=fencing,
            bounds=bounds,
            payloads=payloads,
            payload_codec=payload_codec,
            barriers=barriers,
            index=index,
            secrets=secrets,
            name=name,
            allocation=allocation,
            downtime_counts=downtime_counts,
        )
        self.workers = workers if workers is not None else Workers()
        self.declared_task_defs = self.workers.task_defs
        self.driver = Driver(self, self.workers, event_sources)
        self._news = Notices(self._notices, self._polls, self.workers)
        self._leaving = Leaving()
        if self._gives_back:
            self.holding.look()
            if not self.clock.virtual:
                self._leaving.__enter__()

    def start(
        self,
        workflow: str | WorkflowDef,
        input: Mapping[str, Any] | None = None,
        *,
        version: int | None = None,
        workflow_id: str | None = None,
        correlation_id: str | None = None,
        priority: int = 0,
        at: Instant | None = None,
        delay: Span | None = None,
        created_by: str | None = None,
        task_to_domain: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        idempotency_strategy: IdempotencyStrategy = IdempotencyStrategy.FAIL,
        external_input_payload_storage_path: str | None = None,
    ) -> Run:
        """Start an execution and return a handle on it, or on the one that holds the idempotency key.

        See `start_workflow` for arguments and errors.
        """
        self.declared_task_defs = self.workers.task_defs
        workflow_id = self.start_workflow(
            workflow,
            input,
            version=version,
            workflow_id=workflow_id,
            correlation_id=correlation_id,
            priority=priority,
            at=at,
            delay=delay,
            created_by=created_by,
            task_to_domain=task_to_domain,
            idempotency_key=idempotency_key,
            idempotency_strategy=idempotency_strategy,
            external_input_payload_storage_path=external_input_payload_storage_path,
        )
        self._news.tell()
        return Run(self, workflow_id)

    def register(self, *definitions: WorkflowDef | TaskDef, overwrite: bool = True) -> None:
        """Register workflow and task definitions, all or none; warnings are logged, as are tasks that no worker here serves.

        Raises InvalidDefinition with every error of all of them, and AlreadyExists for a workflow of the same name and version
        when `overwrite` is False. `conductorlite.validate` returns errors and warnings.
        """
        super().register(*definitions, overwrite=overwrite)
        self._news.tell()

    def run(self, workflow_id: str) -> Run:
        """A handle on an execution that exists; raises ExecutionNotFound."""
        self.status(workflow_id)
        return Run(self, workflow_id)

    def status(self, workflow_id: str) -> WorkflowStatus:
        """Where an execution stands; raises ExecutionNotFound."""
        with self.backend.reading() as view:
            return status_of(view, workflow_id)

    # ------------------------------------------------------------------ driving

    def tick(self) -> bool:
        """Do one unit of what is ready now: a turn, a message, a report or one worker call. False when nothing is ready."""
        with self._alone("tick"):
            return self.driver.tick()

    def settle(self) -> int:
        """Do all that is ready now, in this thread, without moving time; returns how many units that was."""
        with self._alone("settle"):
            return self.driver.settle()

    def advance(self, span: Span | None = None, *, to: Instant | None = None) -> None:
        """Move a virtual clock by `span`, or `to` an instant, doing all that comes due on the way at its own instant.

        Raises ClockError on a real clock, backwards, or while a worker function runs; InvalidInput without exactly one of both.
        """
        if (span is None) == (to is None):
            raise InvalidInput("give a span or `to`, not both")
        with self._alone("advance"):
            until = to_instant(to) if to is not None else self.clock.now() + to_span(span if span is not None else "0s")
            self.driver.advance(until)

    def run_until_idle(self, timeout: Span | None = None) -> bool:
        """Drive until nothing is ready, running or on the agenda; False when `timeout` passes first.

        On a virtual clock time jumps to each next instant; on the system clock this thread waits for it, and worker functions
        run in threads meanwhile. Errors of the store as with `run_forever`; a call that waits for another writer when the time is
        over ends with the busy timeout.
        """
        self._news.tell(driving=True)
        with self._alone("run_until_idle"):
            deadline = None if timeout is None else self.clock.now() + to_span(timeout)
            return self.driver.run(deadline=deadline)

    def run_forever(self) -> None:
        """Drive until `stop` is called, also while there is nothing to do. On a virtual clock: until idle.

        When stopped, no more tasks are taken and running functions are waited for, up to the workers' drain time.

        On the system clock a store that is busy, full, read-only or failing, and a payload storage that cannot be reached, are
        waited out: what functions return is kept in hand meanwhile, and the logger `conductorlite` has a warning at first and one
        when it is over. On a virtual clock, where no time passes by waiting, they are raised; what is in hand is reported by the
        next verb that drives. Ends only for `stop`, KeyboardInterrupt and the like, StorageCorrupt, SchemaTooNew, EngineClosed (the
        store was closed meanwhile), and what a clock of your own raises. What a listener, a source, a payload storage or codec, an
        index, or a lock beside the fence raises is logged; what a handler of logging raises is not.
        """
        self._news.tell(driving=True)
        with self._alone("run_forever"):
            self.driver.run(forever=True)

    def _alone(self, verb: str) -> AbstractContextManager[bool]:
        """What only one thread has at a time; raises WouldDeadlock inside what the driver itself has called."""
        refuse_callers(self.turns, verb)
        return self.driver.drive()

    def stop(self) -> None:
        """Ask whoever runs `run_forever` or `run_until_idle` in another thread to return."""
        self.driver.stop()

    def wait(self, workflow_id: str, timeout: Span | None = None) -> dict[str, Any]:
        """The output of an execution once it has ended; see `Run.result`."""
        deadline = None if timeout is None else self.clock.now() + to_span(timeout)

        def ended() -> bool:
            try:
                return self.status(workflow_id).terminal
            except StorageError as error:
                if self.clock.virtual or not passes(error):
                    raise
                return False  # whoever drives waits for the store

        if not ended():
            self._news.tell(driving=True)
            caller = caller_of(self.turns)
            with self.driver.waiting.of(caller, workflow_id) as check:
                self._wait(workflow_id, lambda: check() or ended(), deadline, inside=caller)
        workflow = self.get(workflow_id)
        if workflow.status is not WorkflowStatus.COMPLETED:
            raise failed(self, workflow)
        return workflow.output_data

    def _wait(self, workflow_id: str, ended: Callable[[], bool], deadline: int | None, *, inside: Caller | None) -> None:
        while not ended():
            try:
                with self.driver.drive(timeout=0) as driving:
                    in_time = driving and self.driver.run(until=ended, deadline=deadline)
            except ClockError as error:
                if inside is None or not inside.inline:
                    raise
                text = f"result() inside {inside.what} would wait for itself: time stands still while it runs"
                raise WouldDeadlock(f"{text}, and {workflow_id} needs it to pass") from error
            if not driving:
                self._await_driver(workflow_id, deadline)
            elif not ended():
                raise late(self, workflow_id, in_time=in_time)

    def _await_driver(self, workflow_id: str, deadline: int | None) -> None:
        """Another thread drives: sleep until something was committed."""
        waiter = self.turns.committed.waiter()
        now = self.clock.now()
        if deadline is not None and now >= deadline:
            raise late(self, workflow_id)
        self.clock.wait(waiter, min(now + 100, deadline) if deadline is not None else now + 100)
        if self.clock.virtual:
            waiter.wait(0.05)

    def agenda(self, limit: int = 100) -> list[AgendaEntry]:
        """The next things that will happen by themselves, soonest first: timers, delays, reports of running workers."""
        entries = [*super().agenda(limit), *self.driver.agenda()]
        return sorted(entries, key=lambda entry: (entry.at, entry.workflow_id, entry.ref or "", entry.kind))[:limit]

    def close(self) -> None:
        """Stop whoever drives, give back the tasks that its workers have in hand, and release the store; idempotent.

        Functions that still run in threads are abandoned: what they return is dropped.
        """
        refuse_callers(self.turns, "close")
        with self.driver.drive(timeout=0) as driving:
            if driving:
                return self._close()
        self.stop()
        with self.driver.drive():
            return self._close()

    def _close(self) -> None:
        try:
            self.driver.close()
            self.holding.leave()
        finally:
            self._leaving.__exit__(None, None, None)
            super().close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
