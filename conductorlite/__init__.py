"""conductorlite: Conductor's workflow engine inside your process.

What everyday programs need. Every error is in `conductorlite.errors`, the test kit is `conductorlite.testing`; what else verbs take
and return, and what authors of stores, locks, indexes and sinks need, is in its room: docs/reference/verbs.md says where.
"""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from conductorlite.decide.changeset.reader import Barriers, Bounds
    from conductorlite.engine.config import EngineConfig
    from conductorlite.errors import ResultTimeout, WorkflowFailed
    from conductorlite.ext import EnvironmentSecrets
    from conductorlite.flows import flow, task
    from conductorlite.model.clock import Clock, SystemClock, VirtualClock
    from conductorlite.model.definitions import (
        IdempotencyStrategy,
        RateLimitConfig,
        RateLimitPolicy,
        RetryLogic,
        SchemaDef,
        Semantics,
        StartWorkflowRequest,
        SubWorkflowParams,
        TaskDef,
        TaskType,
        TimeoutPolicy,
        WorkflowDef,
        WorkflowTask,
        WorkflowTimeoutPolicy,
    )
    from conductorlite.model.errors import ConductorliteError, InvalidDefinition, Problem, TaskFailedTerminally
    from conductorlite.model.executions import Explanation, HistoryEvent, Task, TaskLog, TaskResult, Workflow
    from conductorlite.model.handlers import EventAction, EventHandler
    from conductorlite.model.schedules import CronSchedule, OverlapPolicy, WorkflowSchedule
    from conductorlite.model.statuses import TaskStatus, WorkflowStatus
    from conductorlite.plan.diagrams import mermaid
    from conductorlite.plan.difference import diff
    from conductorlite.plan.validate import validate, validate_event_handler, validate_task_def
    from conductorlite.runtime.aio import AsyncEngine, AsyncRun
    from conductorlite.runtime.calls import current_task
    from conductorlite.runtime.context import TaskContext
    from conductorlite.runtime.engine import Engine, Run, Transaction
    from conductorlite.runtime.registry import Workers
    from conductorlite.runtime.task_logs import TaskLogFilter, TaskLogHandler

__all__ = [
    "AsyncEngine",
    "AsyncRun",
    "Barriers",
    "Bounds",
    "Clock",
    "ConductorliteError",
    "CronSchedule",
    "Engine",
    "EngineConfig",
    "EnvironmentSecrets",
    "EventAction",
    "EventHandler",
    "Explanation",
    "HistoryEvent",
    "IdempotencyStrategy",
    "InvalidDefinition",
    "OverlapPolicy",
    "Problem",
    "RateLimitConfig",
    "RateLimitPolicy",
    "ResultTimeout",
    "RetryLogic",
    "Run",
    "SchemaDef",
    "Semantics",
    "StartWorkflowRequest",
    "SubWorkflowParams",
    "SystemClock",
    "Task",
    "TaskContext",
    "TaskDef",
    "TaskFailedTerminally",
    "TaskLog",
    "TaskLogFilter",
    "TaskLogHandler",
    "TaskResult",
    "TaskStatus",
    "TaskType",
    "TimeoutPolicy",
    "Transaction",
    "VirtualClock",
    "Workers",
    "Workflow",
    "WorkflowDef",
    "WorkflowFailed",
    "WorkflowSchedule",
    "WorkflowStatus",
    "WorkflowTask",
    "WorkflowTimeoutPolicy",
    "current_task",
    "diff",
    "flow",
    "mermaid",
    "task",
    "validate",
    "validate_event_handler",
    "validate_task_def",
]

__version__ = "0.1.0"

#: Where each name is. A program imports the modules of those it uses, when it uses them: all of them take several times as long.
_HOMES: Final = {
    "AsyncEngine": "runtime.aio",
    "AsyncRun": "runtime.aio",
    "Barriers": "decide.changeset.reader",
    "Bounds": "decide.changeset.reader",
    "Clock": "model.clock",
    "ConductorliteError": "model.errors",
    "CronSchedule": "model.schedules",
    "Engine": "runtime.engine",
    "EngineConfig": "engine.config",
    "EnvironmentSecrets": "ext",
    "EventAction": "model.handlers",
    "EventHandler": "model.handlers",
    "Explanation": "model.executions",
    "HistoryEvent": "model.executions",
    "IdempotencyStrategy": "model.definitions",
    "InvalidDefinition": "model.errors",
    "OverlapPolicy": "model.schedules",
    "Problem": "model.errors",
    "RateLimitConfig": "model.definitions",
    "RateLimitPolicy": "model.definitions",
    "ResultTimeout": "errors",
    "RetryLogic": "model.definitions",
    "Run": "runtime.engine",
    "SchemaDef": "model.definitions",
    "Semantics": "model.definitions",
    "StartWorkflowRequest": "model.definitions",
    "SubWorkflowParams": "model.definitions",
    "SystemClock": "model.clock",
    "Task": "model.executions",
    "TaskContext": "runtime.context",
    "TaskDef": "model.definitions",
    "TaskFailedTerminally": "model.errors",
    "TaskLog": "model.executions",
    "TaskLogFilter": "runtime.task_logs",
    "TaskLogHandler": "runtime.task_logs",
    "TaskResult": "model.executions",
    "TaskStatus": "model.statuses",
    "TaskType": "model.definitions",
    "TimeoutPolicy": "model.definitions",
    "Transaction": "runtime.engine",
    "VirtualClock": "model.clock",
    "Workers": "runtime.registry",
    "Workflow": "model.executions",
    "WorkflowDef": "model.definitions",
    "WorkflowFailed": "errors",
    "WorkflowSchedule": "model.schedules",
    "WorkflowStatus": "model.statuses",
    "WorkflowTask": "model.definitions",
    "WorkflowTimeoutPolicy": "model.definitions",
    "current_task": "runtime.calls",
    "diff": "plan.difference",
    "flow": "flows",
    "mermaid": "plan.diagrams",
    "task": "flows",
    "validate": "plan.validate",
    "validate_event_handler": "plan.validate",
    "validate_task_def": "plan.validate",
}


def __getattr__(name: str) -> Any:
    import gc
    from importlib import import_module

    from conductorlite.model.threads import forget_half_imported

    if name in ("errors", "flows", "testing"):
        return import_module(f"conductorlite.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    forget_half_imported()
    collects = gc.isenabled()
    gc.disable()  # what modules make stays: looking through it for garbage again and again is a tenth of an import
    try:
        value = globals()[name] = getattr(import_module(f"conductorlite.{_HOMES[name]}"), name)
    finally:
        if collects:
            gc.enable()
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
