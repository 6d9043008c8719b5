"""The steps of a flow that are no function of the user's: waits, people, ends, other workflows, variables, events, scripts."""

from __future__ import annotations

from typing import Any, Literal, TypeVar, cast

from conductorlite.flows.build import More, current
from conductorlite.flows.flow import Flow
from conductorlite.flows.references import Reference
from conductorlite.flows.schemas import is_whole
from conductorlite.flows.tasks import Backoff
from conductorlite.model import attrs
from conductorlite.model.clock import Instant
from conductorlite.model.definitions import SubWorkflowParams, TaskDef, TaskType, TimeoutPolicy, WorkflowDef, WorkflowTask
from conductorlite.model.errors import BuildError
from conductorlite.model.texts import Span, to_span

__all__ = [
    "event", "human", "inline", "join", "node", "reason", "set_variables", "start", "status", "sub", "terminate", "variable",
    "wait",
]  # fmt: skip

R = TypeVar("R")


def node(task: WorkflowTask) -> Any:
    """Add a task that is written out, of any type; gives a reference to its output. References may stand in its input."""
    build = current("node()")
    task = attrs.evolve(task, input_parameters=build.written(task.input_parameters))
    step = build.place(task, asked=task.task_reference_name)
    return Reference(f"{step.ref}.output", step)


def status(of: Any) -> Any:
    """How a step ended, such as COMPLETED or FAILED, by what it gave: `match(status(parcel))` after an optional step."""
    return _member(of, "status")


def reason(of: Any) -> Any:
    """Why an optional step failed, by what it gave."""
    return _member(of, "reasonForIncompletion")


def _member(of: Any, member: str) -> Reference:
    step = of._step if isinstance(of, Reference) else None
    if step is None:
        raise BuildError(f"a status and a reason are those of a step, by what it gave: not of {of!r:.60}")
    return Reference(f"{step.ref}.{member}", step)


def join(*on: Any, name: str | None = None, fields: More = None) -> Any:
    """Wait for steps of a `parallel(join=False)` before it: what they gave, or their names (JOIN)."""
    build = current("join()")
    refs = [one._step.ref if isinstance(one, Reference) and one._step is not None else str(one) for one in on]
    step = build.operator(TaskType.JOIN, "join", name, fields, join_on=refs)
    return Reference(f"{step.ref}.output", step)


def wait(duration: Span | None = None, *, until: Instant | str | None = None, name: str | None = None, fields: More = None) -> Any:
    """Wait for a length of time, until an instant, or, with neither, until `engine.signal` completes the step (WAIT)."""
    build = current("wait()")
    given: dict[str, Any] = {}
    if duration is not None:
        given["duration"] = (
            build.written(duration) if isinstance(duration, str | Reference) else f"{to_span(duration) / 1000:g} seconds"
        )
    if until is not None:
        given["until"] = build.written(until)
    step = build.operator(TaskType.WAIT, "wait", name, fields, input_parameters=given)
    return Reference(f"{step.ref}.output", step)


def human(
    name: str,
    returns: type[R] = dict,  # type: ignore[assignment]
    *,
    timeout: Span | None = None,
    retry: Backoff | int = 0,
    fields: More = None,
    **given: Any,
) -> R:
    """Wait for a person, who completes the step with what `returns` says (HUMAN). `given` is the input that the person sees.

    `timeout` is how long one attempt waits; with `retry` others follow, in which the person is asked again.
    """
    build = current("human()")
    definition = None
    if timeout is not None:
        definition = TaskDef(name=name, timeout_ms=to_span(timeout))
    if definition is not None and retry:
        again = retry.fields() if isinstance(retry, Backoff) else {"retry_count": retry}
        definition = attrs.evolve(definition, timeout_policy=TimeoutPolicy.RETRY, **again)
    step = build.operator(TaskType.HUMAN, name, name, fields, input_parameters=build.written(given), task_definition=definition)
    return cast(R, Reference(f"{step.ref}.output" if is_whole(returns) else f"{step.ref}.output.result", step))


def terminate(
    status: Literal["COMPLETED", "FAILED", "TERMINATED"],
    reason: str | None = None,
    *,
    output: Any = None,
    name: str | None = None,
    fields: More = None,
) -> None:
    """End the execution (TERMINATE), with an output instead of the flow's."""
    build = current("terminate()")
    given: dict[str, Any] = {"terminationStatus": build.written(status)}
    if reason is not None:
        given["terminationReason"] = build.written(reason)
    if output is not None:
        given["workflowOutput"] = build.written(output)
    build.operator(
        TaskType.TERMINATE, build.free(f"terminate_{given['terminationStatus'].lower()}"), name, fields, input_parameters=given
    )


def sub(workflow: str, *, version: int | None = None, name: str | None = None, fields: More = None, **given: Any) -> Any:
    """Run a registered workflow, by its name, as a part of this one (SUB_WORKFLOW); a flow is called like a task instead."""
    build = current("sub()")
    workflow = build.written(workflow)
    param = SubWorkflowParams(name=workflow, version=version)
    task = WorkflowTask(
        name=workflow,
        task_reference_name=workflow,
        type=TaskType.SUB_WORKFLOW,
        input_parameters=build.written(given),
        sub_workflow_param=param,
    )
    step = build.place(attrs.evolve(task, **build.more(workflow, fields)), asked=name)
    return Reference(f"{step.ref}.output", step)


def start(
    workflow: Flow[..., Any] | str, *, version: int | None = None, name: str | None = None, fields: More = None, **given: Any
) -> Any:
    """Start another workflow and go on without it (START_WORKFLOW); the reference's `workflowId` is its id."""
    build = current("start()")
    request: dict[str, Any] = {
        "name": workflow if isinstance(workflow, Flow) else build.written(workflow),
        "version": version,
        "input": build.written(given),
    }
    if isinstance(workflow, Flow):
        build.workers.include(workflow.workers)
        # By name: a definition within an input would have its references resolved here.
        definition: WorkflowDef = workflow.definition
        build.definitions |= {one.name: one for one in (*workflow.definitions, definition)}
        request |= {"name": definition.name, "version": definition.version}
    request = {key: value for key, value in request.items() if value is not None}
    given = {"startWorkflow": request}
    step = build.operator(TaskType.START_WORKFLOW, f"start_{request['name']}", name, fields, input_parameters=given)
    return Reference(f"{step.ref}.output", step)


def set_variables(*, name: str | None = None, fields: More = None, **values: Any) -> None:
    """Set variables of the execution (SET_VARIABLE), which `variable` reads."""
    build = current("set_variables()")
    base = build.free(f"set_{'_'.join(values)}")
    build.operator(TaskType.SET_VARIABLE, base, name, fields, input_parameters=build.written(values))


def variable(name: str) -> Any:
    """A variable of the execution."""
    current("variable()")
    return Reference("workflow.variables", None)[name]


def event(sink: str, *, name: str | None = None, fields: More = None, **given: Any) -> Any:
    """Publish an event to a sink, such as `conductor:shipped` or `kafka:orders` (EVENT)."""
    build = current("event()")
    sink = build.written(sink)
    base = f"event_{''.join(c if c.isalnum() else '_' for c in sink)}"
    step = build.operator(TaskType.EVENT, base, name, fields, sink=sink, input_parameters=build.written(given))
    return Reference(f"{step.ref}.output", step)


def inline(expression: str, *, evaluator: str = "javascript", name: str = "inline", fields: More = None, **given: Any) -> Any:
    """Evaluate a script over named values: `inline("$.a + $.b", a=x, b=y)` (INLINE)."""
    build = current("inline()")
    values = {"evaluatorType": evaluator, "expression": expression, **build.written(given)}
    step = build.operator(TaskType.INLINE, name, None, fields, input_parameters=values)
    return Reference(f"{step.ref}.output.result", step)
