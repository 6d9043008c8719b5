"""An engine with small barriers on a virtual clock, and documents of an exact size."""

from __future__ import annotations

import json
from typing import Any

from conductorlite import (
    Barriers,
    Engine,
    EngineConfig,
    Run,
    Task,
    TaskDef,
    TaskResult,
    TaskStatus,
    VirtualClock,
    Workers,
    Workflow,
    WorkflowDef,
    WorkflowTask,
)
from conductorlite.decide.changeset.reader import Bounds
from conductorlite.store.ports import Backend, PayloadStorage

T0 = 1_900_000_000_000

KB = 1024

#: Soft and hard barriers of 2 and 4 KB everywhere.
SMALL = {
    f"{most}{place}_payload_size_threshold": 4 if most else 2
    for most in ("", "max_")
    for place in ("workflow_input", "workflow_output", "task_input", "task_output")
}


def sized(size: int, key: str = "x") -> dict[str, Any]:
    """A document of exactly `size` bytes of JSON in UTF-8, some of them in characters of two bytes."""
    bare = len(json.dumps({key: "éé"}, ensure_ascii=False, separators=(",", ":")).encode())
    return {key: "éé" + "a" * (size - bare)}


def bytes_of(document: object) -> int:
    """Size of a document, as the barriers count it."""
    return len(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode())


def simple(ref: str, **fields: Any) -> WorkflowTask:
    """A SIMPLE task that is not tried again."""
    definition = TaskDef(name=ref, retry_count=0)
    return WorkflowTask(name=ref, task_reference_name=ref, task_definition=definition, **fields)


def flow(*tasks: WorkflowTask, name: str = "flow", **fields: Any) -> WorkflowDef:
    """A workflow definition."""
    return WorkflowDef(name=name, tasks=tasks, **fields)


class Bench:
    """One engine, and the execution under test."""

    def __init__(self, store: Backend, storage: PayloadStorage | None, **options: Any) -> None:
        self.clock = VirtualClock(T0)
        numbers = iter(range(1, 1_000_000))
        bounds = Bounds(barriers=Barriers(**{**SMALL, **options.pop("barriers", {})}))
        codec = options.pop("payload_codec", None)
        self.engine = Engine(
            store,
            workers=Workers(),
            clock=self.clock,
            payloads=storage,
            config=EngineConfig(ids=lambda: f"w{next(numbers)}", bounds=bounds, payload_codec=codec),
            **options,
        )
        used = self.engine.core.turns.lookups.payload_store.storage
        assert used is not None
        self.storage = used
        self.workflow_id = ""

    def start(self, definition: WorkflowDef | str, input: dict[str, Any] | None = None, **options: Any) -> Run:
        """Start an execution and make it the one under test."""
        run = self.engine.start(definition, input, **options)
        self.workflow_id = run.workflow_id
        return run

    @property
    def workflow(self) -> Workflow:
        """The execution under test."""
        return self.engine.get(self.workflow_id)

    def task(self, ref: str) -> Task:
        """The last attempt at a reference."""
        return self.workflow.task(ref)

    def take(self, task_type: str) -> Task:
        """Take one task of a type, which must be there."""
        self.engine.settle()
        taken = self.engine.poll(task_type)
        assert taken, f"no task {task_type!r} is offered"
        return taken[0]

    def do(self, task_type: str, output: dict[str, Any] | None = None, status: str = "COMPLETED", **fields: Any) -> Task:
        """Take a task and report on it at once."""
        return self.report(self.take(task_type), output, status, **fields)

    def report(self, task: Task, output: dict[str, Any] | None = None, status: str = "COMPLETED", **fields: Any) -> Task:
        """Report on a task."""
        result = TaskResult(
            workflow_id=task.workflow_id,
            task_id=task.task_id,
            status=TaskStatus(status),
            output_data=output or {},
            lease=task.lease,
            **fields,
        )
        stored = self.engine.update_task(result)
        self.engine.settle()
        return stored

    def keys(self) -> list[str]:
        """What lies in the storage."""
        return sorted(one.key for one in self.storage.list())
