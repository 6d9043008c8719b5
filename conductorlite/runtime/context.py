"""What a worker function may know and do while it runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final

from conductorlite.engine.turn_types import Observer
from conductorlite.engine.verbs import Verbs
from conductorlite.model.errors import NotFound, Parked
from conductorlite.model.executions import Task, Workflow, frozen_task
from conductorlite.model.pickling import stays_here
from conductorlite.model.policies import derive_id

if TYPE_CHECKING:
    from conductorlite.model.handlers import EventExecution
    from conductorlite.model.mailbox import WorkflowMessage

__all__ = ["TaskContext", "idempotency_key"]

#: Lines that one call may note for its task's log.
_LINES: Final = 1_000


def idempotency_key(workflow_id: str, ref: str) -> str:
    """As a context answers it."""
    return derive_id("idempotency", workflow_id, ref)


@stays_here("send its `task`, or its `idempotency_key`")
class TaskContext:
    """The context of a call; passed to a parameter that is annotated with this class."""

    __slots__ = ("_engine", "_noted", "_sent", "interceptors", "lost", "notes", "observers", "row")
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
        """The same over all attempts, redeliveries and retries of this task of this execution.

        Give it to the service you call, and a repeated call does no harm.
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

    def log(self, text: str) -> None:
        """Add a line to the task's log."""
        self._engine.tasks.log(self.task, text)
