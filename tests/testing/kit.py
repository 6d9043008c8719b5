"""Definitions for the tests of the test kit."""

from __future__ import annotations

from typing import Any

from conductorlite import TaskDef, TimeoutPolicy, WorkflowDef, WorkflowTask

T0 = 1_893_456_000_000  # where the fixture `clock` stands: 2030-01-01T00:00:00Z


def task(name: str, ref: str | None = None, **seconds: Any) -> WorkflowTask:
    """A SIMPLE task, retried twice, 5 s after a failure; its response timeout is 20 s. `seconds` say otherwise."""
    options = {"retry_count": 2, "retry_delay": 5, "response_timeout": 20, "timeout": 0, **seconds}
    count = options.pop("retry_count")
    return WorkflowTask(
        name=name,
        task_reference_name=ref or name,
        input_parameters={"order": "${workflow.input.order}"},
        task_definition=TaskDef(
            name=name,
            retry_count=count,
            timeout_policy=TimeoutPolicy.RETRY,
            **{f"{key}_ms": value * 1000 for key, value in options.items()},
        ),
    )


def flow(*tasks: WorkflowTask, **fields: Any) -> WorkflowDef:
    """A workflow of these tasks."""
    return WorkflowDef(name="flow", tasks=tasks, **fields)
