"""`@task`: a function that is a worker, and a step of every flow that calls it.

Called by a program or a test it is the plain function. Called while a flow is built it becomes a task of that flow, and gives a
reference to what the function will return.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from conductorlite.flows.build import Build, Reference, building, called_as
from conductorlite.flows.schemas import input_schema, is_whole, output_schema, returned
from conductorlite.model import attrs
from conductorlite.model.definitions import RetryLogic, TimeoutPolicy, WorkflowTask
from conductorlite.model.errors import BuildError, InvalidInput
from conductorlite.model.pickling import Shared, find_object, function_name
from conductorlite.model.texts import Span, to_span
from conductorlite.runtime.registry import Workers, own_name, signature

__all__ = ["Backoff", "Options", "TaskFunction", "task"]

P = ParamSpec("P")
R = TypeVar("R")


@attrs.frozen(slots=True)
class Backoff:
    """`retries` more attempts: the first after `first`, each later one after `factor` times the delay before it, at most `longest`.

    A factor of 1 gives the same delay each time. `jitter` adds up to that much to each delay.
    """

    retries: int
    first: Span = attrs.field(default="60s", kw_only=True)
    factor: int = attrs.field(default=1, kw_only=True)
    longest: Span | None = attrs.field(default=None, kw_only=True)
    jitter: Span | None = attrs.field(default=None, kw_only=True)

    def fields(self) -> dict[str, Any]:
        """The fields of a task definition that say this: EXPONENTIAL_BACKOFF multiplies its delay before the first retry too."""
        if self.factor < 1:
            raise InvalidInput(f"a backoff's factor is 1 or more, not {self.factor}")
        first = to_span(self.first)
        if first % self.factor:
            raise InvalidInput(f"a backoff's first delay is a multiple of its factor: {first} ms is none of {self.factor}")
        return {
            "retry_count": self.retries,
            "retry_logic": RetryLogic.FIXED if self.factor == 1 else RetryLogic.EXPONENTIAL_BACKOFF,
            "retry_delay_ms": first // self.factor,
            "backoff_scale_factor": None if self.factor == 1 else self.factor,
            "max_retry_delay_ms": None if self.longest is None else to_span(self.longest),
            "backoff_jitter_ms": None if self.jitter is None else to_span(self.jitter),
        }


@attrs.frozen(kw_only=True, slots=True)
class Options:
    """What is said of one call of a task or a flow: see `TaskFunction.options`."""

    name: str | None = None
    undo: TaskFunction[..., Any] | None = None
    optional: bool | None = None
    retries: int | None = None
    delay: Span | None = None
    fields: dict[str, Any] = attrs.field(factory=dict)

    def having(self, **said: Any) -> Options:
        """These options and others, which come first; None says nothing."""
        return attrs.evolve(self, **{key: value for key, value in said.items() if value is not None})

    def place(self, build: Build, task: WorkflowTask, returns: Any) -> Reference:
        """Add a task with these options to a flow; gives a reference to what it returns, a value annotated `returns`."""
        fields = dict(self.fields)
        if self.optional is not None:
            fields["optional"] = self.optional
        if self.retries is not None:
            fields["retry_count"] = self.retries
        if self.delay is not None:
            fields["start_delay_ms"] = to_span(self.delay)
        task = attrs.evolve(task, **build.more(task.name, fields))
        step = build.place(task, asked=self.name)
        output = Reference(f"{step.ref}.output" if is_whole(returns) else f"{step.ref}.output.result", step)
        if self.undo is not None:
            build.replace(step, compensate=self.undo.undoing(build, step.ref, output))
        return output


class TaskFunction(Shared, Generic[P, R]):
    """A function that carries out tasks of one type. See `task`."""

    def __init__(self, function: Callable[P, R], task_type: str, workers: Workers, options: Options | None = None) -> None:
        self.function = function
        self.task_type = task_type
        #: The worker, with its task definition: given to an engine, by itself or with the flows that call it.
        self.workers = workers
        self._options = options or Options()
        self._signature = _of_inputs(function)
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function, or, while a flow is built, add a task to it."""
        build = building()
        if build is None:
            return self.function(*args, **kwargs)
        return cast(R, self.step(build, called_as(self.task_type, self._signature, args, kwargs)))

    def options(
        self,
        *,
        name: str | None = None,
        undo: TaskFunction[[R], Any] | None = None,
        optional: bool | None = None,
        retries: int | None = None,
        delay: Span | None = None,
        **fields: Any,
    ) -> TaskFunction[P, R]:
        """The same function, with what the next call of it in a flow says: `charge.options(name="deposit")(amount=10)`.

        `name` is the step's reference name. `undo` is carried out when the execution fails later; it gets this task's input and
        output. The flow goes on when an `optional` step fails. `retries` are instead of the task definition's; `delay` comes
        before the first attempt. `fields` are further fields of `WorkflowTask`. Raises BuildError in the call for an unknown one.
        """
        fields = {**self._options.fields, **fields}
        new = self._options.having(name=name, undo=undo, optional=optional, retries=retries, delay=delay, fields=fields)
        return TaskFunction(self.function, self.task_type, self.workers, new)

    def step(self, build: Build, given: dict[str, Any]) -> Reference:
        """Add a task with an input to a flow."""
        build.workers.include(self.workers)
        node = WorkflowTask(name=self.task_type, task_reference_name=self.task_type, input_parameters=build.written(given))
        return self._options.place(build, node, returned(self.function))

    def undoing(self, build: Build, ref: str, output: Reference) -> WorkflowTask:
        """The task that undoes a step with this function, which gets what the step returned."""
        build.workers.include(self.workers)
        names = list(self._signature.parameters)
        if len(names) > 1 and any(one.default is one.empty for one in list(self._signature.parameters.values())[1:]):
            raise BuildError(
                f"{self.task_type}: undoes {ref!r}, so it takes one argument, what that returned; it takes {', '.join(names)}"
            )
        given = {names[0]: str(output)} if names else {}
        return WorkflowTask(name=self.task_type, task_reference_name=f"{ref}_undo", input_parameters=given)

    def __repr__(self) -> str:
        return f"<task {self.task_type}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        place = function_name(self.function, repr(self))
        if find_object(*place[:2]) is self:
            return place[1]
        return _task_again, (place, self.task_type, self.workers, self._options)


def _task_again(place: tuple[str, str, int], *rest: Any) -> TaskFunction[..., Any]:
    return TaskFunction(find_object(*place), *rest)


def _of_inputs(function: Callable[..., Any]) -> inspect.Signature:
    """A function's parameters but for those that get the context and the transaction."""
    takes = signature(function)
    whole = inspect.signature(function)
    return whole.replace(
        parameters=[one for name, one in whole.parameters.items() if name not in (takes.context, takes.transaction)]
    )


@overload
def task(name: Callable[P, Awaitable[R]], /) -> TaskFunction[P, R]: ...


@overload
def task(name: Callable[P, R], /) -> TaskFunction[P, R]: ...


@overload
def task(
    name: str | None = None,
    *,
    retry: Backoff | int | None = None,
    timeout: Span | None = None,
    total_timeout: Span | None = None,
    response_timeout: Span | None = None,
    poll_timeout: Span | None = None,
    on_timeout: TimeoutPolicy | None = None,
    limit: int | None = None,
    rate: tuple[int, Span] | None = None,
    description: str | None = None,
    concurrency: int | None = None,
    heartbeat: bool = True,
    domain: str | None = None,
    check: bool = False,
) -> _Decorator: ...


def task(
    name: Any = None,
    *,
    retry: Backoff | int | None = None,
    timeout: Span | None = None,
    total_timeout: Span | None = None,
    response_timeout: Span | None = None,
    poll_timeout: Span | None = None,
    on_timeout: TimeoutPolicy | None = None,
    limit: int | None = None,
    rate: tuple[int, Span] | None = None,
    description: str | None = None,
    concurrency: int | None = None,
    heartbeat: bool = True,
    domain: str | None = None,
    check: bool = False,
) -> Any:
    """Decorator, with or without parentheses: a worker function of type `name` (default: its own name) that flows can call.

    `retry` is a number of retries or a `Backoff`. The timeouts are those of Conductor's task definition; `on_timeout` is its
    policy. `limit` is how many tasks run at once over all engines of a store, `rate` how many begin in a length of time. These
    make the task definition, used where none is registered or embedded. With `check` it has the schemas of the function's input
    and output, enforced: see the how-to Check and hide. `concurrency`, `heartbeat` and `domain` are as in
    `Workers.task`. Arguments and what is returned are read and written as `Workers.task` says. Raises InvalidInput for a wrong
    option, and for what is no function that can be called with an input.
    """
    if callable(name):
        return task()(name)
    fields: dict[str, Any] = {
        "description": description,
        **(retry.fields() if isinstance(retry, Backoff) else {"retry_count": retry}),
        "timeout_ms": _ms(timeout),
        "total_timeout_ms": _ms(total_timeout),
        "response_timeout_ms": _ms(response_timeout),
        "poll_timeout_ms": _ms(poll_timeout),
        "timeout_policy": on_timeout,
        "concurrent_exec_limit": limit,
        "rate_limit_per_frequency": None if rate is None else rate[0],
        "rate_limit_frequency_ms": None if rate is None else _ms(rate[1]),
    }
    given = {key: value for key, value in fields.items() if value is not None}

    def made(function: Callable[..., Any]) -> TaskFunction[..., Any]:
        task_type = name or own_name(function)
        if check:
            given["input_schema"] = input_schema(task_type, function, nulls=True)
            given["output_schema"] = output_schema(task_type, function)
            given["enforce_schema"] = True
        workers = Workers()
        workers.task(task_type, concurrency=concurrency, heartbeat=heartbeat, domain=domain, **given)(function)
        return TaskFunction(function, task_type, workers)

    return made


def _ms(span: Span | None) -> int | None:
    return None if span is None else to_span(span)


class _Decorator(Protocol):
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> TaskFunction[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> TaskFunction[P, R]: ...
