"""Rules of each task type for its fields and its input, one function per type, and what all have in common.

Here too: limits that cannot work, one task definition alone, scripts that compile and read what they will be given, and what may
undo a task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from conductorlite.language.conditions import EVALUATORS, compile_condition, compile_function
from conductorlite.model.definitions import (
    MAX_KEY,
    NAMED_BY_INPUT,
    RateLimitConfig,
    RetryLogic,
    TaskDef,
    TaskType,
    TimeoutPolicy,
    WorkflowDef,
    WorkflowTask,
)
from conductorlite.model.errors import MissingExtra
from conductorlite.model.later import functions
from conductorlite.model.limits import HEAVIEST
from conductorlite.model.scalars import LARGEST_VERSION, is_integer, json_names, step_path
from conductorlite.plan.findings import (
    Findings,
    Scope,
    blank,
    check_dynamic_fork,
    check_exclusive_join,
    check_extras,
    check_fork,
    check_join,
    has_input,
    input_value,
    is_expression,
)
from conductorlite.plan.tree import OPERATOR_TYPES, TreePosition, is_expressed, tasks_inside

if TYPE_CHECKING:
    from conductorlite.language.durations import parse_duration, parse_until
    from conductorlite.language.jq import compile_jq, need_jq
    from conductorlite.model.mailbox import topic_of
    from conductorlite.plan.expressions import check_stored_expression
else:
    (topic_of,) = functions("conductorlite.model.mailbox", "topic_of")
    parse_duration, parse_until = functions("conductorlite.language.durations", "parse_duration", "parse_until")
    compile_jq, need_jq = functions("conductorlite.language.jq", "compile_jq", "need_jq")
    (check_stored_expression,) = functions("conductorlite.plan.expressions", "check_stored_expression")

__all__ = [
    "check_compensation",
    "check_decision",
    "check_inline",
    "check_lambda",
    "check_loop",
    "check_switch",
    "check_task",
    "check_task_def",
    "check_task_limits",
    "check_transform",
    "check_workflow_limit",
    "constant_key",
]

#: What stands in a DYNAMIC task's definition goes to the task that it turns out to be.
_UNLIMITED: Final = OPERATOR_TYPES - {TaskType.DYNAMIC}

_LIMITS: Final = {"concurrent_exec_limit": "concurrentExecLimit", "rate_limit_per_frequency": "rateLimitPerFrequency"}


def check_workflow_limit(defn: WorkflowDef, path: str, held: dict[str, str], findings: Findings) -> dict[str, str]:
    """Add what is wrong with the limit on executions of `defn`; returns the constant keys that its sub-workflows may not need.

    `held` are the keys that the definitions around an inline one hold while it runs, with their paths.
    """
    config = defn.rate_limit_config
    if config is None:
        return held
    where = f"{path}.rateLimitConfig"
    if config.concurrent_exec_limit < 1:
        findings.error(f"{where}.concurrentExecLimit", "must be at least 1")
        return held
    key = constant_key(defn.name, config)
    if key is None:
        return held
    at = f"{where}.rateLimitKey"
    if key in held:
        message = f"{key!r} is the key of {held[key]}, whose slot is held until this sub-workflow has ended: it would never begin"
        findings.error(at, message)
    return {**held, key: at}


def constant_key(name: str, config: RateLimitConfig) -> str | None:
    """The key of a limit on executions, as far as it is known before they start; without one it is the workflow's name."""
    key = config.rate_limit_key or name
    return None if is_expression(key) else key.replace("$${", "${")


def check_task_limits(task: WorkflowTask, definition: TaskDef, path: str, findings: Findings) -> None:
    """Add limits in a task's definition that have no effect."""
    for field, name in _LIMITS.items():
        if task.type in _UNLIMITED and (getattr(definition, field) or 0) > 0:
            findings.warn(f"{path}.{name}", f"has no effect: {task.type} is carried out by the engine, and limits are for workers")
    if (definition.rate_limit_per_frequency or 0) > 0 and definition.rate_limit_frequency_ms == 0:
        findings.warn(f"{path}.rateLimitFrequencyInSeconds", "is 0, so rateLimitPerFrequency has no effect")


_NOT_NEGATIVE: Final = (
    "retry_count",
    "retry_delay_ms",
    "max_retry_delay_ms",
    "backoff_jitter_ms",
    "timeout_ms",
    "total_timeout_ms",
    "response_timeout_ms",
    "poll_timeout_ms",
    "concurrent_exec_limit",
    "rate_limit_per_frequency",
    "rate_limit_frequency_ms",
)


def _check_fairness(task_def: TaskDef, path: str, findings: Findings) -> None:
    limited = (task_def.concurrent_exec_limit or 0) > 0 or (task_def.rate_limit_per_frequency or 0) > 0
    if task_def.fairness_key is not None and not limited:
        message = "needs a limit, before which keys take turns: set concurrentExecLimit or rateLimitPerFrequency"
        findings.error(f"{path}.fairnessKey", message)
    if task_def.fairness_weights and task_def.fairness_key is None:
        findings.error(f"{path}.fairnessWeights", "needs a fairnessKey, whose values it weighs")
    for key, weight in task_def.fairness_weights.items():
        if not is_integer(weight) or not 1 <= weight <= HEAVIEST:
            findings.error(step_path(f"{path}.fairnessWeights", key), f"must be a whole number from 1 to {HEAVIEST:,}")


def check_task_def(task_def: TaskDef, path: str, findings: Findings, *, embedded: bool) -> None:
    """Add what is wrong with a task definition.

    Timeouts that contradict each other are refused when it is registered, as Conductor's `TaskTimeoutConstraint` does; *embedded*
    in a task they are accepted as there: whichever is shorter comes first.
    """
    if not task_def.name.strip():
        findings.error(f"{path}.name", "is empty")
    for field in _NOT_NEGATIVE:
        value = getattr(task_def, field)
        if value is not None and value < 0:
            findings.error(f"{path}.{json_names(TaskDef)[field]}", "is negative")
    scale = task_def.backoff_scale_factor
    if scale is not None and scale < 1:
        findings.error(f"{path}.backoffScaleFactor", f"is {scale}, but must be at least 1")
    elif task_def.retry_logic is RetryLogic.EXPONENTIAL_BACKOFF and scale in (None, 1):
        findings.warn(f"{path}.backoffScaleFactor", "is 1, so the delays of EXPONENTIAL_BACKOFF never grow")
    if not embedded and task_def.timeout_policy is not TimeoutPolicy.ALERT_ONLY:
        _check_timeouts(task_def, path, findings)
    if task_def.fairness_key is not None or task_def.fairness_weights:
        _check_fairness(task_def, path, findings)
    check_extras(task_def, path, findings)


def _check_timeouts(task_def: TaskDef, path: str, findings: Findings) -> None:
    """One that would never take effect. (Where timeouts only alert, each does, one after another.)"""
    timeout, total = task_def.timeout_ms or 0, task_def.total_timeout_ms or 0
    if 0 < timeout < (task_def.response_timeout_ms or 0):
        findings.error(f"{path}.responseTimeoutSeconds", "is longer than timeoutSeconds, which would always come first")
    if 0 < total < timeout:
        findings.error(f"{path}.timeoutSeconds", "is longer than totalTimeoutSeconds, which would always come first")


def check_lambda(node: TreePosition, scope: Scope, findings: Findings) -> None:
    """A LAMBDA has the body of a JavaScript function in its input."""
    _check_script(node, "scriptExpression", compile_function, findings)


def check_transform(node: TreePosition, scope: Scope, findings: Findings) -> None:
    """A JSON_JQ_TRANSFORM has a jq program in its input, and jq is installed."""
    try:
        need_jq()
    except MissingExtra as error:
        findings.error(f"{node.path}.type", str(error))
    else:
        _check_script(node, "queryExpression", compile_jq, findings)


#: What comes of a script that is no script.
_FAILS: Final = "the task fails when it is reached"


def _check_script(node: TreePosition, name: str, compile_: Callable[[str], object], findings: Findings) -> None:
    script = _script_of(node, name, "it", findings)
    if script is not None:
        findings.tried(f"{node.path}.inputParameters.{name}", compile_, script, outcome=_FAILS)


def _script_of(node: TreePosition, name: str, needed: str, findings: Findings) -> str | None:
    """The script in a task's input, unless it is known at run time only; what is wrong with it is added."""
    script, path = input_value(node.task, name), f"{node.path}.inputParameters.{name}"
    if script is None:
        findings.late(path, f"is missing: {node.task.type} needs {needed}", _FAILS)
    elif not isinstance(script, str):
        findings.late(path, "must be a text", _FAILS)
    elif blank(script):
        findings.late(path, f"is empty: {node.task.type} needs {needed}", _FAILS)
    elif "${" not in script:
        return script
    return None


#: Types that steer the flow: a compensation is one step and nothing follows it.
_STEERING: Final = frozenset(
    {
        TaskType.DECISION,
        TaskType.DO_WHILE,
        TaskType.DYNAMIC,
        TaskType.EXCLUSIVE_JOIN,
        TaskType.FORK_JOIN,
        TaskType.FORK_JOIN_DYNAMIC,
        TaskType.JOIN,
        TaskType.SWITCH,
        TaskType.TERMINATE,
    }
)


def check_compensation(node: TreePosition, findings: Findings) -> None:
    """A compensation is a single step that cannot itself be undone; what is undone can have been done."""
    task = node.task
    if node.compensates is not None:
        if task.type in _STEERING:
            findings.error(f"{node.path}.type", f"{task.type} steers the flow and cannot be a compensation")
        if task.compensate is not None:
            findings.error(f"{node.path}.compensate", "is given, but a compensation cannot itself be compensated")
        if task.permissive:
            findings.error(f"{node.path}.permissive", "is true: a compensation can be optional, but not permissive")
        return
    if isinstance(task.compensate, str) and not task.compensate.strip():
        findings.error(f"{node.path}.compensate", "is empty: it must be a task or the name of one")
    if task.type == TaskType.TERMINATE:
        findings.error(f"{node.path}.compensate", "is given, but a TERMINATE task does nothing that could be undone")
    for above in reversed([*node.outwards]):
        if above.ref in node.loops and input_value(above.task, "keepLastN") is not None:
            text = f"the loop {above.ref!r} drops rounds (keepLastN), and what is dropped is not compensated"
            findings.warn(f"{node.path}.compensate", text)


Check = Callable[[TreePosition, Scope, Findings], None]

_TERMINATIONS: Final = ("COMPLETED", "FAILED", "TERMINATED")


def check_task(node: TreePosition, scope: Scope, findings: Findings) -> None:
    """Add what is wrong with one task by itself and among its neighbours."""
    task = node.task
    if task.start_delay_ms < 0:
        findings.error(f"{node.path}.startDelay", "is negative")
    if task.retry_count is not None and task.retry_count < 0:
        findings.error(f"{node.path}.retryCount", "is negative")
    if task.compensate is not None or node.compensates is not None:
        check_compensation(node, findings)
    check = _CHECKS.get(task.type)
    if check is not None:
        check(node, scope, findings)
    if task.task_definition is not None:
        check_task_def(task.task_definition, f"{node.path}.taskDefinition", findings, embedded=True)
        check_task_limits(task, task.task_definition, f"{node.path}.taskDefinition", findings)


def _check_wait(node: TreePosition, scope: Scope, findings: Findings) -> None:
    duration, until = input_value(node.task, "duration"), input_value(node.task, "until")
    path = f"{node.path}.inputParameters"
    if _given(duration) and _given(until):
        findings.error(path, f"has both duration and until; {node.task.type} takes one of them")
    if _given(duration) and not is_expression(duration):
        findings.tried(f"{path}.duration", parse_duration, str(duration))
    if _given(until) and not is_expression(until):
        findings.tried(f"{path}.until", parse_until, str(until), "UTC")


def _check_pull(node: TreePosition, scope: Scope, findings: Findings) -> None:
    _check_wait(node, scope, findings)
    topic, path = input_value(node.task, "topic"), f"{node.path}.inputParameters"
    if topic_of({"topic": topic}) is None and not is_expression(topic):
        findings.error(f"{path}.topic", f"{str(topic)[:60]!r} is no topic: that is a text, and does not begin with 'task:'")
    size = input_value(node.task, "batchSize")
    if size is not None and not is_expression(size) and not (is_integer(size) and 1 <= size <= 100):
        findings.warn(f"{path}.batchSize", f"{str(size)[:60]!r} is not a number from 1 to 100: the nearest one is taken")


def _check_emit(node: TreePosition, scope: Scope, findings: Findings) -> None:
    stream = input_value(node.task, "stream")
    if stream is not None and not is_expression(stream) and not (isinstance(stream, str) and 0 < len(stream) <= MAX_KEY):
        findings.error(f"{node.path}.inputParameters.stream", f"{str(stream)[:60]!r} is not a text of 1 to {MAX_KEY} characters")


def _given(value: object) -> bool:
    return value is not None and bool(str(value).strip())


def _check_terminate(node: TreePosition, scope: Scope, findings: Findings) -> None:
    if node.task.optional:
        findings.error(f"{node.path}.optional", "is true: a TERMINATE task cannot be optional")
    status, path = input_value(node.task, "terminationStatus"), f"{node.path}.inputParameters.terminationStatus"
    if status is None:
        findings.error(path, f"is missing: TERMINATE needs one of {', '.join(_TERMINATIONS)}")
    elif not is_expression(status) and status not in _TERMINATIONS:
        findings.error(path, f"{str(status)[:60]!r} is not one of {', '.join(_TERMINATIONS)}")


def _check_sub_workflow(node: TreePosition, scope: Scope, findings: Findings) -> None:
    params, path = node.task.sub_workflow_param, f"{node.path}.subWorkflowParam"
    if params is None:
        findings.error(path, "is missing: SUB_WORKFLOW needs it")
        return
    definition = params.workflow_definition
    if definition is None and blank(params.name) and NAMED_BY_INPUT not in params.extra:
        findings.error(path, "needs a name or a workflowDefinition")
    if isinstance(definition, str) and not (definition.startswith("${") and definition.endswith("}")):
        findings.error(f"{path}.workflowDefinition", "is text but not an expression ${…}")
    if params.version is not None and params.version < 0:
        findings.error(f"{path}.version", "is negative")
    if params.version is not None and params.version > LARGEST_VERSION:
        findings.error(f"{path}.version", f"is {params.version}, but must be at most {LARGEST_VERSION}")


def _check_event(node: TreePosition, scope: Scope, findings: Findings) -> None:
    if blank(node.task.sink):
        findings.error(f"{node.path}.sink", "is missing: EVENT needs a sink")


def _check_dynamic(node: TreePosition, scope: Scope, findings: Findings) -> None:
    param = node.task.dynamic_task_name_param
    if param is None or not param.strip():
        findings.error(f"{node.path}.dynamicTaskNameParam", "is missing: DYNAMIC needs the name of an input parameter")
    elif not has_input(node.task, param):
        findings.warn(f"{node.path}.dynamicTaskNameParam", f"{param!r} is not an input parameter of this task")


def _demanding(*keys: str) -> Check:
    """A check that the input has at least one of the keys."""

    def check(node: TreePosition, scope: Scope, findings: Findings) -> None:
        if not has_input(node.task, *keys):
            findings.error(f"{node.path}.inputParameters", f"{node.task.type} needs {' or '.join(keys)}")

    return check


#: What the engine adds to the names a loop's condition may read.
_LOOP_NAMES: Final = frozenset({"loopIndex", "loopItem", "iteration"})


def check_switch(node: TreePosition, scope: Scope, findings: Findings) -> None:
    """A SWITCH has an evaluator, an expression for it, and at least one case."""
    task, path = node.task, node.path
    evaluator, expression = task.evaluator_type, task.expression
    known = sorted(EVALUATORS)
    if evaluator is None or not evaluator.strip():
        findings.error(f"{path}.evaluatorType", f"is missing: SWITCH needs one of {', '.join(known)}")
    elif evaluator not in known:
        findings.error(f"{path}.evaluatorType", f"{evaluator[:60]!r} is not one of {', '.join(known)}")
    if expression is None or not expression.strip():
        findings.error(f"{path}.expression", "is missing: SWITCH needs an expression")
    elif is_expressed(task):
        check_stored_expression(node, findings)
    elif evaluator is not None and evaluator in EVALUATORS:
        findings.tried(f"{path}.expression", compile_condition, expression, evaluator)
    if evaluator == "value-param" and expression is not None and expression.strip():
        if "${" in expression:
            findings.warn(f"{path}.expression", "is the literal name of an input parameter: ${…} in it is not resolved")
        elif not has_input(task, expression):
            message = f"{expression!r} is not an input parameter, so the case is always 'null'"
            findings.warn(f"{path}.expression", message)
    _check_cases(node, findings)


def check_inline(node: TreePosition, scope: Scope, findings: Findings) -> None:
    """An INLINE has a script in its input, of a language that is known, that compiles where it is all there already."""
    path = f"{node.path}.inputParameters"
    if is_expressed(node.task):
        check_stored_expression(node, findings)
        return
    script = _script_of(node, "expression", "an expression", findings)
    evaluator = input_value(node.task, "evaluatorType")
    evaluator = "javascript" if evaluator is None else evaluator
    if is_expression(evaluator):
        return
    if not isinstance(evaluator, str) or evaluator not in EVALUATORS:
        known = ", ".join(sorted(EVALUATORS))
        findings.late(f"{path}.evaluatorType", f"{str(evaluator)[:60]!r} is not one of {known}", _FAILS)
    elif script is not None:
        findings.tried(f"{path}.expression", compile_condition, script, evaluator, outcome=_FAILS)


def check_decision(node: TreePosition, scope: Scope, findings: Findings) -> None:
    """A DECISION has a parameter or a script to decide by, and at least one case."""
    task = node.task
    if not blank(task.case_expression):
        findings.tried(f"{node.path}.caseExpression", compile_condition, task.case_expression or "", "javascript")
    elif blank(task.case_value_param):
        findings.error(node.path, "DECISION needs caseValueParam or caseExpression")
    _check_cases(node, findings)


def _check_cases(node: TreePosition, findings: Findings) -> None:
    if not node.task.decision_cases:
        findings.error(f"{node.path}.decisionCases", f"is empty: {node.task.type} needs at least one case")


def check_loop(node: TreePosition, scope: Scope, findings: Findings) -> None:
    """A DO_WHILE has a body, a list or a condition that compiles and reads what is there, and a sensible keepLastN."""
    task, path = node.task, node.path
    if not task.loop_over:
        findings.error(f"{path}.loopOver", "is empty: DO_WHILE needs at least one task to repeat")
    listed = not blank(task.items) or any(key in task.input_parameters for key in ("items", "_items"))
    condition = task.loop_condition
    if condition is None and not listed:
        findings.error(f"{path}.loopCondition", "is missing: DO_WHILE needs a condition or items")
    elif condition is not None and not condition.strip() and not listed:
        findings.warn(f"{path}.loopCondition", "is blank, which is false: the body runs once")
    elif is_expressed(task):
        check_stored_expression(node, findings)
    elif condition is not None and condition.strip():
        evaluator = task.evaluator_type or "javascript"
        outcome = "the loop fails after its first round"
        compiled = findings.tried(f"{path}.loopCondition", compile_condition, condition, evaluator, outcome=outcome)
        if compiled is not None and evaluator in ("javascript", "graaljs"):
            _check_names_read(node, compiled.names, findings)
    keep = task.input_parameters.get("keepLastN")
    if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
        findings.error(f"{path}.inputParameters.keepLastN", "must be a positive integer, written as a number")


def _check_names_read(node: TreePosition, read: frozenset[str], findings: Findings) -> None:
    task = node.task
    inside = list(tasks_inside(task))
    if any(each.type == TaskType.FORK_JOIN_DYNAMIC for each in inside):
        # The references of its branches exist only at run time.
        return
    known = {task.task_reference_name, *_LOOP_NAMES, *task.input_parameters}
    known.update(each.task_reference_name for each in inside)
    if task.task_definition is not None:
        known.update(task.task_definition.input_template)
    for name in sorted(read - known):
        message = f"reads $.{name}, which is no input parameter, no task of the body, and not the loop itself"
        findings.warn(f"{node.path}.loopCondition", message)


#: By type; types that are not here, users' own among them, demand nothing.
_CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        TaskType.DECISION: check_decision,
        TaskType.DO_WHILE: check_loop,
        TaskType.DYNAMIC: _check_dynamic,
        TaskType.EMIT: _check_emit,
        TaskType.EVENT: _check_event,
        TaskType.EXCLUSIVE_JOIN: check_exclusive_join,
        TaskType.FORK_JOIN: check_fork,
        TaskType.FORK_JOIN_DYNAMIC: check_dynamic_fork,
        TaskType.HTTP: _demanding("http_request", "uri", "method"),
        TaskType.INLINE: check_inline,
        TaskType.JOIN: check_join,
        TaskType.JSON_JQ_TRANSFORM: check_transform,
        TaskType.KAFKA_PUBLISH: _demanding("kafka_request"),
        TaskType.LAMBDA: check_lambda,
        TaskType.PULL_WORKFLOW_MESSAGES: _check_pull,
        TaskType.SUB_WORKFLOW: _check_sub_workflow,
        TaskType.SWITCH: check_switch,
        TaskType.TERMINATE: _check_terminate,
        TaskType.WAIT: _check_wait,
    }
)
