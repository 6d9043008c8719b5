"""Definitions, and executions of them on a virtual clock, for the tests beside this file."""

from __future__ import annotations

from typing import Any

from conductorlite import Engine, EngineConfig, TaskDef, TaskResult, TaskStatus, VirtualClock, Workflow, WorkflowDef, WorkflowTask

T0 = 1_900_000_000_000


def node(ref: str, type: str = "SIMPLE", **fields: Any) -> WorkflowTask:
    """A task whose name is its reference."""
    return WorkflowTask(name=ref, task_reference_name=ref, type=type, **fields)


def flow(*tasks: WorkflowTask, **fields: Any) -> WorkflowDef:
    """A workflow named `flow`."""
    return WorkflowDef(name="flow", tasks=tasks, **fields)


def retried(ref: str, **fields: Any) -> WorkflowTask:
    """A task that is retried three times, after five seconds."""
    return node(ref, task_definition=TaskDef(name=ref, retry_count=3, retry_delay_ms=5_000), **fields)


def choice(ref: str, cases: dict[str, list[WorkflowTask]], default: list[WorkflowTask] | None = None) -> WorkflowTask:
    """A SWITCH on the input `case`."""
    parameters = {"case": "${workflow.input.case}"}
    return node(
        ref, "SWITCH", evaluator_type="value-param", expression="case", input_parameters=parameters,
        decision_cases=cases, default_case=default or [],
    )  # fmt: skip


class Case:
    """One execution, `w1`, whose second 0 is the start; workers are played by hand."""

    def __init__(self, definition: WorkflowDef, **options: Any) -> None:
        self.clock = VirtualClock(T0)
        self.engine = Engine(clock=self.clock, config=EngineConfig(ids=lambda: "w1"))
        self.engine.start(definition, options.pop("input", None), **options)

    def at(self, second: float) -> None:
        """Let time pass."""
        self.engine.advance(to=T0 + round(second * 1000))

    def take(self, task_type: str) -> Any:
        """Poll one task."""
        self.engine.settle()
        return self.engine.poll(task_type, worker_id="worker-7")[0]

    def do(self, task_type: str, status: str = "COMPLETED", **fields: Any) -> None:
        """Poll one task and report on it."""
        task = self.take(task_type)
        result = TaskResult(workflow_id="w1", task_id=task.task_id, status=TaskStatus(status), **fields)
        self.engine.update_task(result)
        self.engine.settle()

    @property
    def workflow(self) -> Workflow:
        """The execution."""
        return self.engine.get("w1")

    def why(self, ref: str | None = None) -> str:
        """The execution, or a task of it, explained."""
        return str(self.engine.explain("w1", ref))
