"""Short ways to say what happens to an execution, for the tests beside this file.

A `Bench` is an engine on a virtual clock whose second 0 is the start of the test. Workers are played by hand: `poll`
and `report`. The journal is read as text lines that begin with the second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from conductorlite import (
    Engine,
    EngineConfig,
    HistoryEvent,
    RetryLogic,
    Run,
    Task,
    TaskDef,
    TaskResult,
    TaskStatus,
    TimeoutPolicy,
    VirtualClock,
    Workers,
    Workflow,
    WorkflowDef,
    WorkflowStatus,
    WorkflowTask,
)
from conductorlite.model.executions import HistoryKind
from conductorlite.store.ports import Backend

T0 = 1_900_000_000_000

#: Generous bound of every wait on the machine's clock, seconds.
PATIENCE = 20.0


def task_def(name: str, **options: Any) -> TaskDef:
    """A task definition; options that end in `_s` are seconds, policies may be given as text."""
    words: dict[str, Callable[[Any], Any]] = {"timeout_policy": TimeoutPolicy, "retry_logic": RetryLogic}
    fields = {
        f"{key[:-2]}_ms" if key.endswith("_s") else key: round(value * 1000) if key.endswith("_s") else value
        for key, value in options.items()
    }
    return TaskDef(name=name, **{key: words[key](value) if key in words else value for key, value in fields.items()})


def simple(ref: str, definition: dict[str, Any] | None = None, **fields: Any) -> WorkflowTask:
    """A SIMPLE task whose name is its reference, with the options of its task definition."""
    embedded = None if definition is None else task_def(ref, **definition)
    return WorkflowTask(name=ref, task_reference_name=ref, task_definition=embedded, **fields)


def fork(ref: str, *branches: list[WorkflowTask]) -> WorkflowTask:
    """A FORK_JOIN."""
    return WorkflowTask(name=ref, task_reference_name=ref, type="FORK_JOIN", fork_tasks=branches)


def join(ref: str, *join_on: str, **fields: Any) -> WorkflowTask:
    """A JOIN."""
    return WorkflowTask(name=ref, task_reference_name=ref, type="JOIN", join_on=join_on, **fields)


def switch(ref: str, cases: dict[str, list[WorkflowTask]], default: list[WorkflowTask] | None = None,
           value: Any = "${workflow.input.case}", **fields: Any) -> WorkflowTask:  # fmt: skip
    """A SWITCH on the value of its input `case`."""
    fields = {"evaluator_type": "value-param", "expression": "case", "input_parameters": {"case": value}, **fields}
    return WorkflowTask(
        name=ref, task_reference_name=ref, type="SWITCH", decision_cases=cases, default_case=default or [], **fields
    )


def rounds(ref: str, body: list[WorkflowTask], times: int = 2, **fields: Any) -> WorkflowTask:
    """A DO_WHILE, by default of so many rounds."""
    fields = {"loop_condition": f"$.{ref}['iteration'] < {times}", **fields}
    return WorkflowTask(name=ref, task_reference_name=ref, type="DO_WHILE", loop_over=body, **fields)


def wait(ref: str, **inputs: Any) -> WorkflowTask:
    """A WAIT."""
    return WorkflowTask(name=ref, task_reference_name=ref, type="WAIT", input_parameters=inputs)


def noop(ref: str) -> WorkflowTask:
    """A NOOP."""
    return WorkflowTask(name=ref, task_reference_name=ref, type="NOOP")


def flow(*tasks: WorkflowTask, name: str = "flow", **fields: Any) -> WorkflowDef:
    """A workflow definition."""
    return WorkflowDef(name=name, tasks=tasks, **fields)


def text_line(line: HistoryEvent, reasons: bool = False) -> str:
    """`<second> <ref>[#<attempt>] <status>`; a workflow's line has no reference."""
    second = f"{(line.at - T0) / 1000:g}"
    if line.kind in (HistoryKind.WORKFLOW, HistoryKind.MIGRATED):
        text = f"{second} workflow {line.status}"
    else:
        name = f"{line.ref}#{line.attempt}" if line.attempt else line.ref
        if line.kind is HistoryKind.ROUND:
            text = f"{second} {name} round {line.number}"
        elif line.kind is HistoryKind.ALERT:
            text = f"{second} {name or 'workflow'} ALERT {line.status}"
        elif line.kind is HistoryKind.COMPENSATION and line.ref is None:
            text = f"{second} workflow COMPENSATION {line.status}"
        else:
            text = f"{second} {name} {line.status}"
    return f"{text}: {line.reason}" if reasons and line.reason else text


class Bench:
    """One engine on a virtual clock, and the execution under test."""

    def __init__(
        self,
        store: Backend,
        *,
        workers: Workers | None = None,
        **options: Any,
    ) -> None:
        self.clock = VirtualClock(T0)
        numbers = iter(range(1, 1_000_000))
        settings = {name: options.pop(name) for name in attrs.fields_dict(EngineConfig) if name in options}
        config = EngineConfig(**{"ids": lambda: f"w{next(numbers)}", **settings})
        self.engine = Engine(store, workers=workers or Workers(), clock=self.clock, config=config, **options)
        self.workflow_id = ""

    # -- time ----------------------------------------------------------------------------------------------------------

    def at(self, second: float) -> None:
        """Let time pass until that second of the test; what comes due on the way happens at its own instant."""
        self.engine.advance(to=T0 + round(second * 1000))

    @property
    def second(self) -> float:
        """The second of the test."""
        return (self.clock.now() - T0) / 1000

    # -- the execution -------------------------------------------------------------------------------------------------

    def start(self, definition: WorkflowDef | str, input: dict[str, Any] | None = None, **options: Any) -> Run:
        """Start an execution and make it the one under test."""
        run = self.engine.start(definition, input, **options)
        self.workflow_id = run.workflow_id
        return run

    @property
    def workflow(self) -> Workflow:
        """The execution under test."""
        return self.engine.get(self.workflow_id)

    def status_of_workflow(self) -> WorkflowStatus:
        """Where the execution under test stands."""
        return self.engine.status(self.workflow_id)

    def task(self, ref: str, attempt: int | None = None) -> Task:
        """An attempt of the execution under test, by default the last."""
        if attempt is None:
            return self.workflow.task(ref)
        return next(task for task in self.workflow.tasks if (task.ref, task.attempt) == (ref, attempt))

    def statuses(self) -> dict[str, str]:
        """Status of the last attempt at every reference."""
        return {task.ref: str(task.status) for task in self.workflow.tasks}

    def journal(self, *, reasons: bool = False) -> list[str]:
        """The whole history as text."""
        return [text_line(line, reasons) for line in self.engine.history(self.workflow_id)]

    def journal_of(self, ref: str) -> list[str]:
        """The history of one reference as text."""
        return [text_line(line) for line in self.engine.history(self.workflow_id) if line.ref == ref]

    def order(self) -> list[str]:
        """References in the order of scheduling."""
        return [task.ref for task in sorted(self.workflow.tasks, key=lambda task: task.seq)]

    # -- workers, played by hand ---------------------------------------------------------------------------------------

    def poll(self, task_type: str, worker_id: str = "w") -> Task | None:
        """Take one task of a type, or None."""
        self.engine.settle()
        taken = self.engine.poll(task_type, worker_id=worker_id)
        return taken[0] if taken else None

    def take(self, task_type: str) -> Task:
        """Take one task of a type, which must be there."""
        task = self.poll(task_type)
        assert task is not None, f"no task {task_type!r} is offered at second {self.second:g}"
        return task

    def report(self, task: Task, status: str = "COMPLETED", output: dict[str, Any] | None = None, *,
               lease: bool = True, callback_s: float = 0, **fields: Any) -> Task:  # fmt: skip
        """Report on a task."""
        stored = self.engine.update_task(
            TaskResult(
                workflow_id=task.workflow_id,
                task_id=task.task_id,
                status=TaskStatus(status),
                output_data=output or {},
                lease=task.lease if lease else None,
                callback_after_ms=round(callback_s * 1000),
                **fields,
            )
        )
        self.engine.settle()
        return stored

    def do(self, task_type: str, status: str = "COMPLETED", output: dict[str, Any] | None = None, **fields: Any) -> Task:
        """Take a task and report on it at once."""
        return self.report(self.take(task_type), status, output, **fields)

    def after(self, step: Callable[[], object]) -> list[str]:
        """References that a step schedules, in order."""
        before = self.workflow.task_seq
        step()
        self.engine.settle()
        return [task.ref for task in sorted(self.workflow.tasks, key=lambda task: task.seq) if task.seq > before]

    def healthy(self) -> None:
        """Deliver what is on its way; every law must hold."""
        self.engine.settle()
        assert self.engine.admin.check() == []


#: Makes benches on stores of their own: the fixture `new_bench`.
NewBench = Callable[..., Bench]
