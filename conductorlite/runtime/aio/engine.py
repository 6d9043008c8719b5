"""The engine for programs that live on an event loop: every verb of `Engine`, one line each."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec

from conductorlite.decide.draft.barriers import Barriers
from conductorlite.decide.draft.view import Bounds
from conductorlite.engine.forks import one_process
from conductorlite.engine.invariants import Finding
from conductorlite.engine.limits import LimitUse
from conductorlite.engine.payloads import PayloadSweep
from conductorlite.engine.queries import AgendaEntry
from conductorlite.engine.reruns import BulkReport
from conductorlite.engine.turn_types import Listener
from conductorlite.model.clock import Clock, Instant
from conductorlite.model.definitions import IdempotencyStrategy, SchemaDef, Semantics, TaskDef, WorkflowDef
from conductorlite.model.executions import Explanation, HistoryEvent, PollData, Task, TaskLog, TaskResult, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.model.texts import Span
from conductorlite.plan.migration import MigrationPlan
from conductorlite.runtime.aio.run import AsyncRun
from conductorlite.runtime.aio.verbs import AsyncEvents, AsyncKeeping, AsyncSchedules, AsyncUpkeep
from conductorlite.runtime.engine import Engine
from conductorlite.runtime.registry import Workers
from conductorlite.store.ports import Backend, EventSource, IndexDAO, Lock, PayloadCodec, PayloadStorage, SecretProvider
from conductorlite.store.tables import ExternalStorageLocation

__all__ = ["AsyncEngine"]

P = ParamSpec("P")


@one_process
class AsyncEngine(AsyncEvents, AsyncSchedules, AsyncKeeping, AsyncUpkeep):
    """`Engine` for asyncio: the same arguments, the same verbs with the same arguments, and `await` before each.

    `async def` workers run on the caller's loop, plain functions in threads. Results are awaited without a thread each; a verb
    that ends an execution wakes those who await it. As with `Engine`, nothing runs by itself: it is driven while
    somebody awaits a result, or for as long as a block of `background()` lasts. The constructor opens the store, and raises
    as `Engine` does; nothing else of this class blocks.
    """

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
        # asyncio is imported by whoever makes one of these, not by whoever imports conductorlite.
        from conductorlite.runtime.aio.bridge import Bridge

        self._pid = os.getpid()
        self._engine = Engine(
            store,
            workers=workers,
            clock=clock,
            semantics=semantics,
            environment=environment,
            seed=seed,
            ids=ids,
            lock=lock,
            fencing=fencing,
            bounds=bounds,
            event_sources=event_sources,
            payloads=payloads,
            payload_codec=payload_codec,
            barriers=barriers,
            index=index,
            secrets=secrets,
            name=name,
            allocation=allocation,
            downtime_counts=downtime_counts,
        )
        self._bridge = Bridge(self._engine)
        self._call, self._drive = self._bridge.call, self._bridge.drive
        self.workers = self._engine.workers
        self.clock = self._engine.clock

    # ------------------------------------------------------------------ definitions

    async def register(self, *definitions: WorkflowDef | TaskDef, overwrite: bool = True) -> None:
        """`Engine.register`, awaited."""
        await self._call(self._engine.register, *definitions, overwrite=overwrite)

    async def workflow_def(self, name: str, version: int | None = None) -> WorkflowDef:
        """`Engine.workflow_def`, awaited."""
        return await self._call(self._engine.workflow_def, name, version)

    async def task_def(self, name: str) -> TaskDef:
        """`Engine.task_def`, awaited."""
        return await self._call(self._engine.task_def, name)

    async def workflow_defs(self) -> Sequence[tuple[str, int]]:
        """`Engine.workflow_defs`, awaited."""
        return await self._call(self._engine.workflow_defs)

    async def register_schema(self, *schemas: SchemaDef, overwrite: bool = True) -> None:
        """`Engine.register_schema`, awaited."""
        await self._call(self._engine.register_schema, *schemas, overwrite=overwrite)

    async def schema(self, name: str, version: int | None = None) -> SchemaDef:
        """`Engine.schema`, awaited."""
        return await self._call(self._engine.schema, name, version)

    async def schemas(self) -> Sequence[tuple[str, int]]:
        """`Engine.schemas`, awaited."""
        return await self._call(self._engine.schemas)

    async def task_defs(self) -> Sequence[str]:
        """`Engine.task_defs`, awaited."""
        return await self._call(self._engine.task_defs)

    # ------------------------------------------------------------------ run control

    async def start(
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
    ) -> AsyncRun:
        """`Engine.start`, awaited; the handle's `result` is awaited too."""
        run = await self._call(
            self._engine.start,
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
        return AsyncRun(self, run.workflow_id)

    async def start_workflow(
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
    ) -> str:
        """`Engine.start_workflow`, awaited."""
        return await self._call(
            self._engine.start_workflow,
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

    async def run(self, workflow_id: str) -> AsyncRun:
        """`Engine.run`, awaited."""
        return AsyncRun(self, (await self._call(self._engine.run, workflow_id)).workflow_id)

    async def pause(self, workflow_id: str) -> None:
        """`Engine.pause`, awaited."""
        await self._call(self._engine.pause, workflow_id)

    async def resume(self, workflow_id: str) -> None:
        """`Engine.resume`, awaited."""
        await self._call(self._engine.resume, workflow_id)

    async def terminate(self, workflow_id: str, reason: str | None = None) -> None:
        """`Engine.terminate`, awaited."""
        await self._call(self._engine.terminate, workflow_id, reason)

    async def retry(self, workflow_id: str, *, resume_subworkflow_tasks: bool = False) -> None:
        """`Engine.retry`, awaited."""
        await self._call(self._engine.retry, workflow_id, resume_subworkflow_tasks=resume_subworkflow_tasks)

    async def restart(self, workflow_id: str, *, use_latest_definitions: bool = False) -> None:
        """`Engine.restart`, awaited."""
        await self._call(self._engine.restart, workflow_id, use_latest_definitions=use_latest_definitions)

    async def rerun(
        self,
        workflow_id: str,
        *,
        from_task: str | None = None,
        input: Mapping[str, Any] | None = None,
        task_input: Mapping[str, Any] | None = None,
        correlation_id: str | None = None,
    ) -> None:
        """`Engine.rerun`, awaited."""
        await self._call(
            self._engine.rerun,
            workflow_id,
            from_task=from_task,
            input=input,
            task_input=task_input,
            correlation_id=correlation_id,
        )

    async def skip_task(
        self,
        workflow_id: str,
        ref: str,
        *,
        input: Mapping[str, Any] | None = None,
        output: Mapping[str, Any] | None = None,
    ) -> None:
        """`Engine.skip_task`, awaited."""
        await self._call(self._engine.skip_task, workflow_id, ref, input=input, output=output)

    async def update_variables(self, workflow_id: str, variables: Mapping[str, Any]) -> None:
        """`Engine.update_variables`, awaited."""
        await self._call(self._engine.update_variables, workflow_id, variables)

    async def signal(
        self,
        workflow_id: str,
        output: Mapping[str, Any] | None = None,
        *,
        task: str | None = None,
        status: TaskStatus = TaskStatus.COMPLETED,
        reason: str | None = None,
    ) -> Task:
        """`Engine.signal`, awaited."""
        return await self._call(self._engine.signal, workflow_id, output, task=task, status=status, reason=reason)

    async def bulk(
        self, verb: Callable[Concatenate[Any, str, P], object], workflow_ids: Iterable[str], /, *args: P.args, **kwargs: P.kwargs
    ) -> BulkReport:
        """`Engine.bulk`, awaited; `verb` is one of `Engine`'s."""
        return await self._call(self._engine.bulk, verb, workflow_ids, *args, **kwargs)

    async def migrate(
        self,
        workflow_id: str,
        to: WorkflowDef | int | None = None,
        *,
        refs: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> MigrationPlan:
        """`Engine.migrate`, awaited."""
        return await self._call(self._engine.migrate, workflow_id, to, refs=refs, dry_run=dry_run)

    async def migrate_all(
        self,
        name: str,
        from_version: int,
        to: WorkflowDef | int | None = None,
        *,
        refs: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> dict[str, MigrationPlan | str]:
        """`Engine.migrate_all`, awaited."""
        return await self._call(self._engine.migrate_all, name, from_version, to, refs=refs, dry_run=dry_run)

    async def remove(self, workflow_id: str) -> None:
        """`Engine.remove`, awaited."""
        await self._call(self._engine.remove, workflow_id)

    async def decide(self, workflow_id: str) -> None:
        """`Engine.decide`, awaited."""
        await self._call(self._engine.decide, workflow_id)

    # ------------------------------------------------------------------ the worker's face

    async def poll(
        self,
        task_type: str,
        *,
        worker_id: str | None = None,
        count: int = 1,
        timeout: Span = "0s",
        domain: str | None = None,
    ) -> list[Task]:
        """`Engine.poll`, awaited; no thread waits meanwhile. Canceled, it gives back what it has taken."""
        take = partial(self._engine.poll, task_type, worker_id=worker_id, count=count, domain=domain)
        return await self._bridge.poll(timeout, take, self._engine._give_up)

    async def update_task(self, result: TaskResult) -> Task:
        """`Engine.update_task`, awaited."""
        return await self._call(self._engine.update_task, result)

    async def extend_lease(self, task: Task) -> bool:
        """`Engine.extend_lease`, awaited."""
        return await self._call(self._engine.extend_lease, task)

    async def log(self, task: Task, *lines: str) -> None:
        """`Engine.log`, awaited."""
        await self._call(self._engine.log, task, *lines)

    async def task(self, task_id: str) -> Task:
        """`Engine.task`, awaited."""
        return await self._call(self._engine.task, task_id)

    async def task_logs(self, task_id: str, *, workflow_id: str | None = None) -> Sequence[TaskLog]:
        """`Engine.task_logs`, awaited."""
        return await self._call(self._engine.task_logs, task_id, workflow_id=workflow_id)

    # ------------------------------------------------------------------ queries

    async def get(self, workflow_id: str, *, masked: bool = False) -> Workflow:
        """`Engine.get`, awaited."""
        return await self._call(self._engine.get, workflow_id, masked=masked)

    async def status(self, workflow_id: str) -> WorkflowStatus:
        """`Engine.status`, awaited."""
        return await self._call(self._engine.status, workflow_id)

    async def history(self, workflow_id: str, *, masked: bool = False) -> Sequence[HistoryEvent]:
        """`Engine.history`, awaited."""
        return await self._call(self._engine.history, workflow_id, masked=masked)

    def workflow_ids(self, status: WorkflowStatus | None = None) -> AsyncIterator[str]:
        """`Engine.workflow_ids`, iterated with `async for`."""
        return self._bridge.each(self._engine.workflow_ids(status))

    async def executions(
        self,
        name: str | None = None,
        *,
        correlation_id: str | None = None,
        status: WorkflowStatus | None = None,
        parent_workflow_id: str | None = None,
        limit: int = 100,
        after: tuple[int, str] | None = None,
    ) -> list[Workflow]:
        """`Engine.executions`, awaited."""
        return await self._call(
            self._engine.executions,
            name,
            correlation_id=correlation_id,
            status=status,
            parent_workflow_id=parent_workflow_id,
            limit=limit,
            after=after,
        )

    async def correlated(self, name: str, correlation_id: str, *, include_closed: bool = False) -> list[Workflow]:
        """`Engine.correlated`, awaited."""
        return await self._call(self._engine.correlated, name, correlation_id, include_closed=include_closed)

    async def children(self, workflow_id: str) -> list[Workflow]:
        """`Engine.children`, awaited."""
        return await self._call(self._engine.children, workflow_id)

    async def sweep_payloads(self, grace: Span = "1d") -> PayloadSweep:
        """`Engine.sweep_payloads`, awaited."""
        return await self._call(self._engine.sweep_payloads, grace)

    async def external_storage_location(
        self, path: str = "", operation: str = "READ", payload_type: str | None = None
    ) -> ExternalStorageLocation:
        """`Engine.external_storage_location`, awaited."""
        return await self._call(self._engine.external_storage_location, path, operation, payload_type)

    async def poll_data(self, task_type: str | None = None) -> Sequence[PollData]:
        """`Engine.poll_data`, awaited."""
        return await self._call(self._engine.poll_data, task_type)

    async def queue_sizes(self) -> Mapping[str, int]:
        """`Engine.queue_sizes`, awaited."""
        return await self._call(self._engine.queue_sizes)

    async def limits(self, *, limit: int = 100, after: str = "") -> list[LimitUse]:
        """`Engine.limits`, awaited."""
        return await self._call(self._engine.limits, limit=limit, after=after)

    async def limit(self, key: str, *, limit: int = 100) -> LimitUse:
        """`Engine.limit`, awaited."""
        return await self._call(self._engine.limit, key, limit=limit)

    async def agenda(self, limit: int = 100) -> list[AgendaEntry]:
        """`Engine.agenda`, awaited."""
        return await self._call(self._engine.agenda, limit)

    async def export(self, workflow_id: str) -> dict[str, Any]:
        """`Engine.export`, awaited."""
        return await self._call(self._engine.export, workflow_id)

    async def explain(self, workflow_id: str, task: str | None = None) -> Explanation:
        """`Engine.explain`, awaited."""
        return await self._call(self._engine.explain, workflow_id, task)

    async def next_wakeup(self) -> int | None:
        """`Engine.next_wakeup`, awaited."""
        return await self._call(self._engine.next_wakeup)

    async def check(self, workflow_id: str | None = None) -> list[Finding]:
        """`Engine.check`, awaited."""
        return await self._call(self._engine.check, workflow_id)

    async def listen(self, listener: Listener) -> Callable[[], None]:
        """`Engine.listen`, awaited. The listener is called in the committing thread, not on the loop."""
        return await self._call(self._engine.listen, listener)

    # ------------------------------------------------------------------ driving

    async def wait(self, workflow_id: str, timeout: Span | None = None) -> dict[str, Any]:
        """`Engine.wait`, awaited; see `AsyncRun.result`."""
        return await self._bridge.result(workflow_id, timeout)

    async def tick(self) -> bool:
        """`Engine.tick`, awaited."""
        return await self._drive(self._engine.tick)

    async def settle(self) -> int:
        """`Engine.settle`, awaited."""
        return await self._drive(self._engine.settle)

    async def advance(self, span: Span | None = None, *, to: Instant | None = None) -> None:
        """`Engine.advance`, awaited."""
        await self._drive(self._engine.advance, span, to=to)

    async def run_until_idle(self, timeout: Span | None = None) -> bool:
        """`Engine.run_until_idle`, awaited; canceling it stops the driver as `stop` does."""
        return await self._bridge.drive_until_stopped(self._engine.run_until_idle, timeout)

    async def run_forever(self) -> None:
        """`Engine.run_forever`, awaited; canceling it stops the driver as `stop` does."""
        await self._bridge.drive_until_stopped(self._engine.run_forever)

    async def stop(self) -> None:
        """`Engine.stop`, awaited."""
        await self._call(self._engine.stop)

    @asynccontextmanager
    async def background(self) -> AsyncIterator[None]:
        """Drive in a task of its own while the block lasts; at its end running functions are waited for, as by `stop`.

        What made the driver fail is raised at the end of the block.
        """
        async with self._bridge.background():
            yield

    async def close(self) -> None:
        """`Engine.close`, awaited; whoever still awaits a result gets EngineClosed."""
        await self._bridge.close()

    async def __aenter__(self) -> AsyncEngine:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()
