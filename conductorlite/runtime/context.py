"""The information and operations that a worker function has while it runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Final

from conductorlite.engine.turn_types import Observer
from conductorlite.engine.verbs import Verbs
from conductorlite.model.errors import InvalidInput, NotFound, Parked, StaleLease
from conductorlite.model.executions import Task, Workflow, frozen_task
from conductorlite.model.pickling import stays_here
from conductorlite.model.policies import derive_id
from conductorlite.model.texts import printable

if TYPE_CHECKING:
    from conductorlite.engine.streams import Emitting
    from conductorlite.model.handlers import EventExecution
    from conductorlite.model.mailbox import WorkflowMessage

__all__ = ["TaskContext", "idempotency_key"]

#: As `conductorlite.model.streams` has them, which is imported by who emits.
PROGRESS: Final = "progress"
STREAM: Final = "values"

#: Lines that one call may note for its task's log.
_LINES: Final = 1_000


def idempotency_key(workflow_id: str, ref: str) -> str:
    """As a context answers it."""
    return derive_id("idempotency", workflow_id, ref)


@stays_here("send its `task`, or its `idempotency_key`")
class TaskContext:
    """The context of a call; passed to a parameter that is annotated with this class."""

    __slots__ = ("_engine", "_noted", "_sent", "alone", "emitting", "interceptors", "lost", "notes", "observers", "row")
    #: The default of that parameter, for type checkers: flows call the function without it.
    given: ClassVar[TaskContext] = None  # type: ignore[assignment]

    def __init__(self, task: Task, engine: Verbs) -> None:
        #: The attempt as the engine has it.
        self.row = task
        self._engine = engine
        #: Set when the lease was lost: the task timed out or its execution ended, the report will be ignored.
        self.lost = False
        #: What `TaskLogHandler` has noted and is not stored yet, and how many lines that were in all.
        self.notes: deque[str] | None = None
        self._noted = self._sent = 0
        #: What the call has emitted; and whether its transaction is the only one that may write meanwhile.
        self.emitting: Emitting | None = None
        self.alone = False
        #: Those that look at the engine.
        self.observers: Sequence[Observer] = engine.core.turns.observers
        #: What the engine puts around every call of a worker function.
        self.interceptors = engine.config.task_interceptors

    @property
    def task(self) -> Task:
        """The attempt that the function carries out, read-only."""
        self.row = frozen_task(self.row)
        return self.row

    def note(self, text: str) -> None:
        """Keep a line for the task's log, which is stored within a second, or with the report; of very many the first."""
        if self.notes is None:
            self.notes = deque()
        self._noted += 1
        if self._noted <= _LINES:
            self.notes.append(text)
        elif self._noted == _LINES + 1:
            self.notes.append(f"… more than {_LINES} lines: the others are not kept")

    def noted(self) -> tuple[str, ...]:
        """Take the lines that are not stored yet; any thread may."""
        lines, taken = self.notes, []
        if lines is None:
            return ()
        with suppress(IndexError):
            while True:
                taken.append(lines.popleft())
        return tuple(taken)

    @property
    def idempotency_key(self) -> str:
        """A key that is the same for all attempts and deliveries of this task.

        Pass it to the service you call, so that a repeated call does no harm.
        """
        return idempotency_key(self.task.workflow_id, self.task.ref)

    @property
    def workflow_id(self) -> str:
        """Id of the execution."""
        return self.task.workflow_id

    @property
    def task_id(self) -> str:
        """Id of this attempt."""
        return self.task.task_id

    @property
    def first_task_id(self) -> str:
        """Id of the first attempt before automatic retries; its own for the first. Read from the store."""
        task = self.task
        while task.attempt > task.first_attempt and task.retried_task_id is not None:
            task = self._engine.tasks.get(task.retried_task_id)
        return task.task_id

    @property
    def ref(self) -> str:
        """Reference of the task, with the rounds of the loops around it."""
        return self.task.ref

    @property
    def workflow(self) -> Workflow:
        """The execution now, without its tasks: name, version, correlation id, variables. Read from the store."""
        return self._engine.core.queries.execution(self.task.workflow_id)

    @property
    def attempt(self) -> int:
        """0 for the first attempt."""
        return self.task.attempt

    @property
    def input(self) -> Mapping[str, Any]:
        """A copy of the whole input."""
        return self.task.input_data

    def heartbeat(self) -> bool:
        """Extend the lease, so that the response timeout restarts; return False if the lease is lost.

        False too when the execution was removed; true while it is parked: nothing times out there.
        """
        try:
            alive = self._engine.tasks.extend_lease(self.task)
        except Parked:
            alive = True
        except NotFound:
            alive = False
        self.lost = self.lost or not alive
        return alive

    def publish(self, event: str, payload: Any, *, message_id: str) -> Sequence[EventExecution]:
        """Publish a message to the engine's event handlers, once for each `message_id`; see `Engine.events.publish`."""
        return self._engine.events.publish(event, payload, message_id=message_id)

    def send(self, workflow_id: str, topic: str, value: Any = None, *, key: str | None = None) -> WorkflowMessage:
        """Send a message to an execution; see `Engine.send`.

        Without a `key` it is that of this task of this generation and of how many messages it has sent: a later attempt that sends
        as many messages sends the same ones.
        """
        if key is None:
            self._sent += 1
            task = self.task
            key = derive_id("send", task.workflow_id, task.ref, str(task.generation), str(self._sent))
        return self._engine.send(workflow_id, topic, value, key=key)

    def emit(self, value: Any, *, stream: str = STREAM) -> None:
        """Put a value out while the function runs: readers of the execution's stream of that name have it within 250 ms.

        `value` is any JSON value. Values are stored when the first has waited for 50 ms, when there are 100, and with the report;
        storing them is a sign of life, as `heartbeat` is. They are kept when the attempt completes, and dropped when it does not.
        Raises InvalidInput, PayloadTooLarge, and StaleLease when the attempt is over or another worker has it.
        """
        self._emitting().emit(value, stream)

    def set_value(self, name: str, value: Any) -> None:
        """Set the latest value of a name for this task, as `Run.get_value` reads it; stored and raised as by `emit`."""
        self._emitting().set_value(name, value)

    def progress(self, done: float, total: float | None = None) -> None:
        """Say how far the function has come: `done` of `total`, if that is known. Pages, notebooks and the CLI show it.

        Raises InvalidInput for what is no number, or below 0, and StaleLease as `emit` does.
        """
        for number in (done, total):
            if number is not None and (isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < inf):
                raise InvalidInput(f"progress is said in numbers from 0 on, and not with {printable(number, 60)}")
        self.set_value(PROGRESS, {"done": done} if total is None else {"done": done, "total": total})

    def _emitting(self) -> Emitting:
        if self.emitting is None:
            from conductorlite.engine.streams import Emitting

            core = self._engine.core
            self.emitting = Emitting(self.row, core.turns, core.reports, alone=self.alone)
        if self.lost:
            raise StaleLease(f"{self.row.workflow_id}: the attempt at {self.row.ref!r} is over, and emits nothing any more")
        return self.emitting

    def log(self, text: str) -> None:
        """Add a line to the task's log."""
        self._engine.tasks.log(self.task, text)
