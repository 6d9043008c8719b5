"""One worker function called alone: with a context, heartbeats and cancellation, and no workflow around it.

    environment = TaskEnvironment()
    result = environment.run(charge, amount=3)
    assert result.output_data == {"receipt": 7}

The call is that of an engine: arguments are converted and checked, interceptors run, and what the function returns or raises
becomes the report that a worker would make.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import closing
from inspect import iscoroutinefunction
from typing import Any, Final

import attrs

from conductorlite.model.clock import VirtualClock
from conductorlite.model.definitions import TaskDef, WorkflowDef, WorkflowTask
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import Task, TaskResult
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.texts import Span, to_span
from conductorlite.runtime.calls import call, call_async
from conductorlite.runtime.context import TaskContext
from conductorlite.runtime.engine import Engine
from conductorlite.runtime.registry import Worker, Workers

__all__ = ["TaskEnvironment"]

#: Id of the execution that the task is part of, and reference of the task.
_RUN: Final = "run"
_REF: Final = "task"


class TaskEnvironment:
    """Calls a worker function alone, as attempt `attempt` (0 is the first), at the time of `clock` (a VirtualClock by default).

    `on_heartbeat` is called with the environment at each heartbeat, before it takes effect: it may `advance` the time or `cancel`.
    """

    def __init__(
        self,
        *,
        attempt: int = 0,
        clock: VirtualClock | None = None,
        on_heartbeat: Callable[[TaskEnvironment], object] = lambda environment: None,
    ) -> None:
        if attempt < 0:
            raise InvalidInput(f"attempt {attempt} is negative")
        self.attempt = attempt
        self.clock = clock or VirtualClock()
        self.on_heartbeat = on_heartbeat
        #: Instants of the heartbeats of the last call, epoch ms, and the lines it has logged.
        self.heartbeats: list[int] = []
        self.logs: list[str] = []
        self._engine: Engine | None = None
        self._canceled = False

    def run(self, function: Callable[..., Any] | Any, **input: Any) -> TaskResult:
        """Call a function, decorated with @task or not, with an input; what a worker would report.

        A coroutine function is run to its end. Raises InvalidInput for what is no function of one task.
        """
        worker = _worker(function)
        self.heartbeats, self.logs, self._canceled = [], [], False
        definition = worker.task_def or TaskDef(name=worker.task_type)
        once = attrs.evolve(definition, retry_count=self.attempt, retry_delay_ms=0, timeout_ms=0)
        step = WorkflowTask(
            name=worker.task_type,
            task_reference_name=_REF,
            task_definition=once,
            input_parameters={name: f"${{workflow.input.{name}}}" for name in input},
        )
        with closing(Engine(clock=self.clock)) as engine:
            self._engine = engine
            try:
                engine.start(WorkflowDef(name="alone", tasks=[step]), input, workflow_id=_RUN)
                return self._called(engine, worker, self._polled(engine, worker))
            finally:
                self._engine = None

    def advance(self, span: Span) -> None:
        """Let virtual time pass: text such as "90s", or a timedelta."""
        self.clock.move_to(self.clock.now() + to_span(span))

    def cancel(self) -> None:
        """End the execution that the running call belongs to: its next heartbeat says that the lease is lost."""
        if self._engine is None:
            raise InvalidInput("no call is running; cancel in on_heartbeat, or in what the function calls")
        if not self._canceled:
            self._canceled = True
            self._engine.terminate(_RUN, "canceled by the test")

    def _polled(self, engine: Engine, worker: Worker) -> Task:
        while True:
            (task,) = engine.poll(worker.task_type)
            if task.attempt == self.attempt:
                return task
            failed = TaskResult(workflow_id=_RUN, task_id=task.task_id, status=TaskStatus.FAILED, lease=task.lease)
            engine.update_task(failed)

    def _called(self, engine: Engine, worker: Worker, task: Task) -> TaskResult:
        context = _Context(task, engine, self)
        waits = iscoroutinefunction(worker.function)
        result = asyncio.run(call_async(worker, context)) if waits else call(worker, context)
        if not isinstance(result, TaskResult):
            raise InvalidInput(f"{worker.task_type!r} follows a script of ScriptedWorkers; give a function of your own")
        self.logs = [*(line.text for line in engine.tasks.logs(task.task_id)), *context.noted(), *result.logs]
        return result


class _Context(TaskContext):
    """A context whose heartbeats are noted."""

    __slots__ = ("_environment",)

    def __init__(self, task: Task, engine: Engine, environment: TaskEnvironment) -> None:
        super().__init__(task, engine)
        self._environment = environment

    def heartbeat(self) -> bool:
        """See `TaskContext.heartbeat`."""
        self._environment.heartbeats.append(self._environment.clock.now())
        self._environment.on_heartbeat(self._environment)
        return super().heartbeat()


def _worker(function: Any) -> Worker:
    found: Sequence[Worker] = tuple(getattr(function, "workers", ()))
    if not found and callable(function):
        made = Workers()
        made.add(getattr(function, "__name__", "task"), function)
        found = tuple(made)
    if len(found) != 1:
        raise InvalidInput(f"{function!r:.80} is no function of one task")
    return found[0]
