"""A stateful machine of Hypothesis for workflows: any order of starts, answers, signals, verbs and waits, on the real engine.

class Orders(WorkflowMachine):
    definitions = [ORDER]
    signals = ["approval"]

    @invariant()
    def charged_once(self): ...

TestOrders = Orders.TestCase
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

from conductorlite.model.clock import VirtualClock
from conductorlite.model.definitions import WorkflowDef
from conductorlite.model.errors import Conflict, InvalidInput, LimitReached, MissingExtra, NotFound, StaleLease
from conductorlite.model.executions import Task, TaskResult
from conductorlite.model.statuses import TaskStatus
from conductorlite.runtime.engine import Engine

__all__ = ["WorkflowMachine"]

try:
    from hypothesis import strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
except ModuleNotFoundError as error:  # pragma: no cover - depends on what is installed
    raise MissingExtra("testing", "conductorlite.testing.WorkflowMachine") from error

_FAILURES = (None, TaskStatus.FAILED, TaskStatus.FAILED_WITH_TERMINAL_ERROR)

_REFUSED = (NotFound, Conflict, StaleLease, LimitReached)


class WorkflowMachine(RuleBasedStateMachine):
    """Subclass it, say which `definitions` are started, and add rules and invariants of your own; `engine` is the engine.

    `signals` are references of what waits for people, `verbs` names of verbs without arguments, `outputs` a strategy for what tasks
    put out. After every step the laws of the engine must hold.
    """

    definitions: ClassVar[Sequence[WorkflowDef]] = ()
    signals: ClassVar[Sequence[str]] = ()
    verbs: ClassVar[Sequence[str]] = ("pause", "resume", "terminate", "retry", "restart")
    outputs: ClassVar[st.SearchStrategy[dict[str, Any]]] = st.just({})

    def __init__(self) -> None:
        super().__init__()
        unknown = [verb for verb in self.verbs if not hasattr(Engine, verb)]
        if isinstance(self.signals, str) or unknown:
            raise InvalidInput(f"signals are a list of references, verbs one of {', '.join(WorkflowMachine.verbs)} and their like")
        self.engine = Engine(clock=VirtualClock())
        if self.definitions:
            self.engine.register(*self.definitions)
        #: Tasks that were given out and may be reported, or reported again.
        self.held: list[Task] = []

    def teardown(self) -> None:
        """Release the store."""
        self.engine.close()

    def ids(self) -> list[str]:
        """Ids of all executions."""
        return sorted(self.engine.admin.workflow_ids())

    @precondition(lambda self: self.definitions and len(self.ids()) < 3)
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        """Start one of the definitions."""
        name = data.draw(st.sampled_from([one.name for one in self.definitions]))
        self.engine.start(name, workflow_id=f"w{len(self.ids()) + 1}")
        self.engine.settle()

    @rule(data=st.data())
    def poll(self, data: st.DataObject) -> None:
        """Give out a task that is offered."""
        offered = sorted(name for name, size in self.engine.tasks.queue_sizes().items() if size)
        if offered:
            domain, _, kind = data.draw(st.sampled_from(offered)).rpartition(":")
            self.held += self.engine.poll(kind, worker_id="machine", domain=domain or None)

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(),
        failed=st.sampled_from(_FAILURES),
        again=st.booleans(),
    )
    def report(self, data: st.DataObject, failed: TaskStatus | None, again: bool) -> None:
        """Report on a task that was given out, however long ago, and keep it to be reported `again`."""
        task = data.draw(st.sampled_from(self.held))
        output = {} if failed else data.draw(type(self).outputs)
        result = TaskResult(
            workflow_id=task.workflow_id,
            task_id=task.task_id,
            status=failed or TaskStatus.COMPLETED,
            output_data=output,
            lease=task.lease,
        )
        with suppress(*_REFUSED):
            self.engine.update_task(result)
        if not again:
            self.held.remove(task)
        self.engine.settle()

    @precondition(lambda self: self.signals and self.ids())
    @rule(data=st.data())
    def signal(self, data: st.DataObject) -> None:
        """Complete what waits for people, or what does not wait yet."""
        ref, one = data.draw(st.sampled_from(list(self.signals))), data.draw(st.sampled_from(self.ids()))
        with suppress(*_REFUSED):
            self.engine.signal(one, data.draw(type(self).outputs), task=ref)
        self.engine.settle()

    @precondition(lambda self: self.verbs and self.ids())
    @rule(data=st.data())
    def verb(self, data: st.DataObject) -> None:
        """Use a verb on an execution."""
        name, one = data.draw(st.sampled_from(list(self.verbs))), data.draw(st.sampled_from(self.ids()))
        with suppress(*_REFUSED):
            getattr(self.engine, name)(one)
        self.engine.settle()

    @rule()
    def wait(self) -> None:
        """Time passes to the next thing that is due."""
        at = self.engine.admin.next_wakeup()
        if at is not None:
            self.engine.advance(to=max(at, self.engine.clock.now()))

    @invariant()
    def laws_hold(self) -> None:
        """The laws of the engine hold."""
        found = self.engine.admin.check()
        assert not found, "\n".join(map(str, found))
