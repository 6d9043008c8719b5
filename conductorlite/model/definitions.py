"""Definitions: WorkflowDef, WorkflowTask, TaskDef and their kin, frozen.

Every field Conductor has is here under its own name in snake_case, also the ones the engine does not act upon: a
definition that goes through us comes out whole. Two rules of translation, applied once at the codec and nowhere else:
JSON names are camelCase, and Conductor's seconds become milliseconds (`timeoutSeconds` → `timeout_ms`). `None` means
"not given", which differs from every default: defaults that depend on the `Semantics` are filled in by the plan, never
here. Properties we do not know are kept in `extra` and written back. Lists become tuples on the way in, so that a
definition never changes under its reader and equals its own round trip.

Source of the rule: Conductor's metadata model (WorkflowDef, WorkflowTask, TaskDef, SubWorkflowParams).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Final

import attrs

from conductorlite.model.codec import Definition
from conductorlite.model.errors import InvalidInput
from conductorlite.model.scalars import NAMES, WRITTEN, DurationMs, in_json
from conductorlite.model.texts import member_of, optional_ms, plain_ms

__all__ = [
    "DEBOUNCED",
    "DEFINITION_HASH",
    "LOOP_DELIMITER",
    "MAX_KEY",
    "NAMED_BY_INPUT",
    "PYTHON_KEY",
    "TASK_ALONE",
    "TASK_MAPPED",
    "CacheConfig",
    "IdempotencyStrategy",
    "JoinMode",
    "RateLimitConfig",
    "RateLimitPolicy",
    "RetryLogic",
    "SchemaDef",
    "Semantics",
    "StartWorkflowRequest",
    "StateChangeEvent",
    "SubWorkflowParams",
    "TaskDef",
    "TaskType",
    "TimeoutPolicy",
    "WorkflowDef",
    "WorkflowTask",
    "WorkflowTimeoutPolicy",
    "alone_in_words",
    "debounce_key",
    "task_alone",
]

#: The text between a reference name and an iteration number in the printed name of a task inside a loop.
LOOP_DELIMITER: Final = "__"

#: Where an embedded task keeps the hash of the definition its child runs on.
DEFINITION_HASH: Final = "conductorlite:definitionHash"

#: Says in a SUB_WORKFLOW that a DYNAMIC has become: what it starts is named by its input.
NAMED_BY_INPUT: Final = "conductorlite:namedByInput"

#: The entry of inputParameters that holds an expression of Python beside the JavaScript made of it: no name, and so of no value.
PYTHON_KEY: Final = "@python"

#: Longest idempotency key, in characters.
MAX_KEY: Final = 255

#: What the keys of debounced executions begin with, and no idempotency key does.
DEBOUNCED: Final = "debounce:"


def debounce_key(stored: str | None) -> str | None:
    """The key of a debounced start, of the idempotency key that its execution has; None for another one."""
    return stored.removeprefix(DEBOUNCED) if stored is not None and stored.startswith(DEBOUNCED) else None


#: What a text may stand for in the place of an object.
_EXPRESSION: Final = ("an object or an expression ${…}", lambda value: value.startswith("${") and value.endswith("}"))
_NAME: Final = ("a task or the name of one", lambda value: True)


class Semantics(StrEnum):
    """Choice between the two source documents on the few points where they disagree; stored with each execution.

    ORKES (the default): exponential base is `backoffScaleFactor`, attempts counted from 1; response/poll/task timeouts
    default to 600/3600/3600 s. OSS: exponential base is 2, counted from 0; timeouts default to 3600 s/none/none.
    """

    ORKES = "ORKES"
    OSS = "OSS"


class TaskType(StrEnum):
    """The task types Conductor builds in, and EMIT; any other text is a user-defined type, run by a worker of that name."""

    SIMPLE = "SIMPLE"
    DYNAMIC = "DYNAMIC"
    FORK_JOIN = "FORK_JOIN"
    FORK_JOIN_DYNAMIC = "FORK_JOIN_DYNAMIC"
    JOIN = "JOIN"
    EXCLUSIVE_JOIN = "EXCLUSIVE_JOIN"
    DECISION = "DECISION"
    SWITCH = "SWITCH"
    DO_WHILE = "DO_WHILE"
    SUB_WORKFLOW = "SUB_WORKFLOW"
    START_WORKFLOW = "START_WORKFLOW"
    TERMINATE = "TERMINATE"
    SET_VARIABLE = "SET_VARIABLE"
    WAIT = "WAIT"
    HUMAN = "HUMAN"
    EVENT = "EVENT"
    INLINE = "INLINE"
    LAMBDA = "LAMBDA"
    JSON_JQ_TRANSFORM = "JSON_JQ_TRANSFORM"
    HTTP = "HTTP"
    KAFKA_PUBLISH = "KAFKA_PUBLISH"
    PULL_WORKFLOW_MESSAGES = "PULL_WORKFLOW_MESSAGES"
    NOOP = "NOOP"
    # ours: Conductor has no streams
    EMIT = "EMIT"
    USER_DEFINED = "USER_DEFINED"


class RetryLogic(StrEnum):
    """Growth of the delay before a retry."""

    FIXED = "FIXED"
    LINEAR_BACKOFF = "LINEAR_BACKOFF"
    EXPONENTIAL_BACKOFF = "EXPONENTIAL_BACKOFF"


class TimeoutPolicy(StrEnum):
    """Effect of a task's poll, task or total timeout."""

    RETRY = "RETRY"
    TIME_OUT_WF = "TIME_OUT_WF"
    ALERT_ONLY = "ALERT_ONLY"


class WorkflowTimeoutPolicy(StrEnum):
    """Effect of a workflow's timeout."""

    TIME_OUT_WF = "TIME_OUT_WF"
    ALERT_ONLY = "ALERT_ONLY"


class RateLimitPolicy(StrEnum):
    """Policy for an execution beyond its workflow's limit."""

    QUEUE = "QUEUE"
    REJECT = "REJECT"


class JoinMode(StrEnum):
    """Conductor's two ways of polling a JOIN; here both are event-driven."""

    SYNC = "SYNC"
    ASYNC = "ASYNC"


class IdempotencyStrategy(StrEnum):
    """Effect of a second start with the same idempotency key."""

    FAIL = "FAIL"
    RETURN_EXISTING = "RETURN_EXISTING"
    FAIL_ON_RUNNING = "FAIL_ON_RUNNING"


def _texts(items: Iterable[str]) -> tuple[str, ...]:
    if isinstance(items, str):
        # A bare text is iterable too, and would silently become a list of its events.
        raise TypeError(f"expected a list of texts, got the text {items!r}")
    return tuple(items)


def _tasks(items: Iterable[WorkflowTask]) -> tuple[WorkflowTask, ...]:
    return tuple(items)


def _branches(items: Iterable[Iterable[WorkflowTask]]) -> tuple[tuple[WorkflowTask, ...], ...]:
    return tuple(tuple(branch) for branch in items)


def _cases(items: Mapping[str, Iterable[WorkflowTask]]) -> dict[str, tuple[WorkflowTask, ...]]:
    return {key: tuple(tasks) for key, tasks in items.items()}


def _state_changes(items: Mapping[str, Iterable[StateChangeEvent]]) -> dict[str, tuple[StateChangeEvent, ...]]:
    return {key: tuple(events) for key, events in items.items()}


@attrs.frozen(kw_only=True, slots=True, repr=False)
class SchemaDef(Definition):
    """A JSON, Avro or Protobuf schema attached to an input or output."""

    name: str = attrs.field(default="", metadata=WRITTEN)
    version: int = attrs.field(default=1, metadata=WRITTEN)
    type: str = attrs.field(default="JSON", metadata=WRITTEN)
    data: Mapping[str, Any] | None = None
    external_ref: str | None = None
    extra: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class CacheConfig:
    """Conductor's cacheConfig: stored and written back, without effect there and here."""

    key: str | None = None
    ttl_ms: DurationMs | None = attrs.field(default=None, converter=optional_ms, metadata=in_json("ttlInSecond"))
    extra: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class StateChangeEvent:
    """One entry of onStateChange: stored and written back."""

    type: str = attrs.field(default="", metadata=WRITTEN)
    payload: Mapping[str, Any] = attrs.field(factory=dict)
    extra: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class RateLimitConfig:
    """Limit on concurrent executions that share `rate_limit_key` (constant or expression)."""

    rate_limit_key: str | None = None
    concurrent_exec_limit: int = 0
    policy: RateLimitPolicy | None = None
    extra: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True, repr=False)
class TaskDef(Definition):
    """Retries, timeouts and limits of the tasks of one name. Durations are milliseconds; None means not given."""

    name: str = attrs.field(metadata=NAMES)
    description: str | None = None
    retry_count: int | None = None
    retry_logic: RetryLogic | None = None
    retry_delay_ms: DurationMs | None = attrs.field(default=None, converter=optional_ms)
    backoff_scale_factor: int | None = None
    max_retry_delay_ms: DurationMs | None = attrs.field(default=None, converter=optional_ms)
    backoff_jitter_ms: int | None = attrs.field(default=None, converter=optional_ms)
    timeout_ms: DurationMs | None = attrs.field(default=None, converter=optional_ms)
    total_timeout_ms: DurationMs | None = attrs.field(default=None, converter=optional_ms)
    response_timeout_ms: DurationMs | None = attrs.field(default=None, converter=optional_ms)
    poll_timeout_ms: DurationMs | None = attrs.field(default=None, converter=optional_ms)
    timeout_policy: TimeoutPolicy | None = None
    concurrent_exec_limit: int | None = None
    rate_limit_per_frequency: int | None = None
    rate_limit_frequency_ms: DurationMs | None = attrs.field(
        default=None, converter=optional_ms, metadata=in_json("rateLimitFrequencyInSeconds")
    )
    fairness_key: str | None = None
    fairness_weights: Mapping[str, int] = attrs.field(factory=dict)
    input_keys: Sequence[str] = attrs.field(default=(), converter=_texts)
    output_keys: Sequence[str] = attrs.field(default=(), converter=_texts)
    runtime_metadata: Sequence[str] = attrs.field(default=(), converter=_texts)
    input_template: Mapping[str, Any] = attrs.field(factory=dict)
    isolation_group_id: str | None = None
    execution_name_space: str | None = None
    base_type: str | None = None
    owner_email: str | None = None
    task_status_listener_enabled: bool | None = None
    input_schema: SchemaDef | None = None
    output_schema: SchemaDef | None = None
    enforce_schema: bool | None = None
    owner_app: str | None = None
    create_time: int | None = None
    update_time: int | None = None
    created_by: str | None = None
    updated_by: str | None = None
    extra: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class SubWorkflowParams:
    """Workflow that a SUB_WORKFLOW task starts, and the parameters of the start."""

    name: str | None = None
    version: int | None = None
    task_to_domain: Mapping[str, str] | None = None
    workflow_definition: WorkflowDef | str | None = attrs.field(default=None, metadata=in_json(stands=_EXPRESSION))
    idempotency_key: str | None = None
    idempotency_strategy: IdempotencyStrategy | str | None = None
    priority: Any = None
    extra: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True, repr=False)
class WorkflowTask(Definition):
    """One node of a workflow definition. `type` is a `TaskType` name, or any other text for a worker's own type."""

    name: str = attrs.field(metadata=NAMES)
    task_reference_name: str = attrs.field(metadata=NAMES)
    type: str = attrs.field(default=TaskType.SIMPLE, metadata=in_json(written=True, strict=True, also="workflowTaskType"))
    description: str | None = None
    input_parameters: Mapping[str, Any] = attrs.field(factory=dict)
    optional: bool = False
    permissive: bool = False
    start_delay_ms: DurationMs = attrs.field(default=DurationMs(0), converter=plain_ms, metadata=in_json("startDelay"))
    retry_count: int | None = None
    async_complete: bool = False
    task_definition: TaskDef | None = attrs.field(default=None, metadata=in_json(inherits="name"))
    sub_workflow_param: SubWorkflowParams | None = None
    dynamic_task_name_param: str | None = None
    dynamic_fork_tasks_param: str | None = None
    dynamic_fork_tasks_input_param_name: str | None = None
    dynamic_fork_join_tasks_param: str | None = None
    case_value_param: str | None = None
    case_expression: str | None = None
    evaluator_type: str | None = None
    expression: str | None = None
    decision_cases: Mapping[str, Sequence[WorkflowTask]] = attrs.field(factory=dict, converter=_cases)
    default_case: Sequence[WorkflowTask] = attrs.field(default=(), converter=_tasks)
    fork_tasks: Sequence[Sequence[WorkflowTask]] = attrs.field(default=(), converter=_branches)
    join_on: Sequence[str] = attrs.field(default=(), converter=_texts)
    join_mode: JoinMode | None = None
    join_status: str | None = None
    default_exclusive_join_task: Sequence[str] = attrs.field(default=(), converter=_texts)
    loop_over: Sequence[WorkflowTask] = attrs.field(default=(), converter=_tasks)
    loop_condition: str | None = None
    items: str | None = None
    script_expression: str | None = None
    sink: str | None = None
    rate_limited: bool | None = None
    cache_config: CacheConfig | None = None
    on_state_change: Mapping[str, Sequence[StateChangeEvent]] = attrs.field(factory=dict, converter=_state_changes)
    metadata: Mapping[str, Any] = attrs.field(factory=dict)
    #: What undoes this task when the execution fails later: a task, or the name of one (see `compensation`).
    compensate: WorkflowTask | str | None = attrs.field(default=None, metadata=in_json(stands=_NAME))
    extra: Mapping[str, Any] = attrs.field(factory=dict)

    #: The codec counts how deep they are nested.
    HOLDS_ITS_LIKE: ClassVar = True

    @property
    def compensation(self) -> WorkflowTask | None:
        """The task that undoes this one; None without `compensate`.

        A name stands for a SIMPLE task `<ref>_compensation` of that name, which gets this task's `input` and `output`.
        """
        if not isinstance(self.compensate, str):
            return self.compensate
        ref = self.task_reference_name
        root = ref if ref.replace("-", "_").isidentifier() else f"['{ref}']"
        return WorkflowTask(
            name=self.compensate,
            task_reference_name=f"{ref}_compensation",
            input_parameters={"input": f"${{{root}.input}}", "output": f"${{{root}.output}}"},
        )


@attrs.frozen(kw_only=True, slots=True, repr=False)
class WorkflowDef(Definition):
    """A workflow: a named, versioned tree of tasks."""

    name: str = attrs.field(metadata=NAMES)
    version: int = attrs.field(default=1, metadata=WRITTEN)
    description: str | None = None
    tasks: Sequence[WorkflowTask] = attrs.field(default=(), converter=_tasks, metadata=WRITTEN)
    input_parameters: Sequence[str] = attrs.field(default=(), converter=_texts)
    output_parameters: Mapping[str, Any] = attrs.field(factory=dict)
    input_template: Mapping[str, Any] = attrs.field(factory=dict)
    variables: Mapping[str, Any] = attrs.field(factory=dict)
    failure_workflow: str | None = None
    failure_workflow_version: int | None = None
    schema_version: int = attrs.field(default=2, metadata=WRITTEN)
    restartable: bool = True
    workflow_status_listener_enabled: bool | None = None
    workflow_status_listener_sink: str | None = None
    owner_email: str | None = None
    timeout_policy: WorkflowTimeoutPolicy | None = None
    timeout_ms: DurationMs = attrs.field(default=DurationMs(0), converter=plain_ms)
    rate_limit_config: RateLimitConfig | None = None
    input_schema: SchemaDef | None = None
    output_schema: SchemaDef | None = None
    enforce_schema: bool | None = None
    metadata: Mapping[str, Any] = attrs.field(factory=dict)
    cache_config: CacheConfig | None = None
    masked_fields: Sequence[str] = attrs.field(default=(), converter=_texts)
    owner_app: str | None = None
    create_time: int | None = None
    update_time: int | None = None
    created_by: str | None = None
    updated_by: str | None = None
    extra: Mapping[str, Any] = attrs.field(factory=dict)


def _strategy(given: IdempotencyStrategy | str) -> IdempotencyStrategy:
    return member_of(IdempotencyStrategy, given, "idempotency_strategy")


@attrs.frozen(kw_only=True, slots=True)
class StartWorkflowRequest:
    """Arguments of a start, under Conductor's names.

    `name` is a registered workflow (the highest `version` by default, looked up at each start); `workflow_def` is one that
    need not be registered.
    """

    name: str = attrs.field(default="", metadata=NAMES)
    version: int | None = None
    workflow_def: WorkflowDef | None = None
    input: Mapping[str, Any] = attrs.field(factory=dict)
    correlation_id: str | None = None
    priority: int = 0
    task_to_domain: Mapping[str, str] = attrs.field(factory=dict)
    created_by: str | None = None
    idempotency_key: str | None = None
    idempotency_strategy: IdempotencyStrategy = attrs.field(default=IdempotencyStrategy.FAIL, converter=_strategy)
    extra: Mapping[str, Any] = attrs.field(factory=dict)


#: What the name of an execution of one task begins with, before its type, and that of a task for each of several rows.
TASK_ALONE: Final = "task:"
TASK_MAPPED: Final = "map:"


def task_alone(task_type: str, names: Iterable[str]) -> WorkflowDef:
    """The workflow of a task alone, by its type, with the names of its inputs; raises InvalidInput."""
    if not isinstance(task_type, str) or not task_type.strip():
        raise InvalidInput(f"{task_type!r:.60} is no task type")
    inputs = tuple(names)
    wrong = next((name for name in inputs if "'" in name or "\\" in name), None)
    if wrong is not None:
        raise InvalidInput(f"task {task_type!r}: the input {wrong[:60]!r} has a quotation mark or a backslash in its name")
    given = {name: f"${{workflow.input['{name}']}}" for name in inputs}
    return WorkflowDef(
        name=f"{TASK_ALONE}{task_type}",
        description=f"The task {task_type!r} alone",
        input_parameters=inputs,
        tasks=[WorkflowTask(name=task_type, task_reference_name=task_type, input_parameters=given)],
    )


def alone_in_words(name: str) -> str | None:
    """How an execution without a workflow is called, by its name; None for one of a workflow."""
    if name.startswith(TASK_ALONE):
        return f"the task {name.removeprefix(TASK_ALONE)} alone"
    return f"the task {name.removeprefix(TASK_MAPPED)} for each row" if name.startswith(TASK_MAPPED) else None
