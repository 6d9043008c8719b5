"""conductorlite: Conductor's workflow engine inside your process.

What everyday programs need. Every error is in `conductorlite.errors`, the test kit is `conductorlite.testing`; what else verbs take
and return, and what authors of stores, locks, indexes and sinks need, is in its room: docs/reference/verbs.md says where.
"""

from conductorlite.decide.changeset.barriers import Barriers
from conductorlite.decide.changeset.view import Bounds
from conductorlite.engine.config import EngineConfig
from conductorlite.errors import ResultTimeout, WorkflowFailed
from conductorlite.ext.secrets import EnvironmentSecrets
from conductorlite.flows import flow, task
from conductorlite.model.clock import Clock, SystemClock, VirtualClock
from conductorlite.model.definitions import (
    IdempotencyStrategy,
    RateLimitConfig,
    RateLimitPolicy,
    RetryLogic,
    SchemaDef,
    Semantics,
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
from conductorlite.model.schedules import CronSchedule, OverlapPolicy, StartWorkflowRequest, WorkflowSchedule
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.plan.diagrams import mermaid
from conductorlite.plan.difference import diff
from conductorlite.plan.validate import validate, validate_event_handler, validate_task_def
from conductorlite.runtime.aio.engine import AsyncEngine, AsyncRun
from conductorlite.runtime.calls import TaskLogFilter, current_task
from conductorlite.runtime.context import TaskContext
from conductorlite.runtime.engine import Engine, Run
from conductorlite.runtime.registry import Workers

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
    "TaskResult",
    "TaskStatus",
    "TaskType",
    "TimeoutPolicy",
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
