"""`@task`: a function that is a worker, and a step of every flow that calls it.

Called by a program or a test it is the plain function. Called while a flow is built it becomes a task of that flow, and gives a
reference to what the function will return. Started by itself it is an execution of one task, which needs no flow.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache, update_wrapper
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Protocol, TypeVar, cast, overload

import attrs

from conductorlite.decide.operators.dynamic import MOST_BRANCHES
from conductorlite.flows.build import Build, Reference, building, called_as
from conductorlite.flows.schemas import fields_of, hints, input_schema, is_whole, output_schema, read_output, returned
from conductorlite.model.definitions import (
    TASK_ALONE,
    TASK_MAPPED,
    IdempotencyStrategy,
    RetryLogic,
    TimeoutPolicy,
    WorkflowDef,
    WorkflowTask,
)
from conductorlite.model.errors import BuildError, InvalidInput
from conductorlite.model.pickling import Shared, find_object, function_name
from conductorlite.model.texts import Span, did_you_mean, to_span
from conductorlite.model.threads import cached_property
from conductorlite.model.typed import plain
from conductorlite.runtime.engine import Engine, Run
from conductorlite.runtime.registry import Workers, own_name, refuse_decorated, signature

if TYPE_CHECKING:
    from conductorlite.runtime.aio import AsyncEngine, AsyncRun

__all__ = ["Backoff", "Options", "TaskFunction", "retry_fields", "start_options", "task"]

P = ParamSpec("P")
R = TypeVar("R")


@cache
def start_options() -> AbstractSet[str]:
    """Return what can be said of a start beside the workflow and its input: the options of `Engine.start`."""
    return inspect.signature(Engine._start).parameters.keys() - {"self", "awaited", "workflow", "input"}


#: Options of a start that mean nothing for a task alone: its definition is not registered, its input is the function's arguments.
_NOT_ALONE: Final = frozenset({"version", "external_input_payload_storage_path", "message"})


@attrs.frozen(slots=True)
class Backoff:
    """`retries` more attempts: the first after `first`, each later one after `factor` times the delay before it, at most `longest`.

    A factor of 1 gives the same delay each time. `jitter` adds up to that much to each delay.
    """

    retries: int
    first: Span = attrs.field(default="1s", kw_only=True)
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


def retry_fields(retry: Backoff | int | None) -> dict[str, Any]:
    """The fields of a task definition for what `retry=` says; None is 3 retries. Of a number the delays are 1, 2, 4 s, up to 60 s.

    Conductor's own default, 60 s each time, is for definitions that come as JSON: in a first program a failure shows at once.
    """
    if isinstance(retry, Backoff):
        return retry.fields()
    if retry is not None and (not isinstance(retry, int) or isinstance(retry, bool)):
        raise InvalidInput(f"retry= is a number of retries or a Backoff, such as Backoff(3, first='10s'), not {retry!r:.80}")
    if retry is not None and retry <= 0:
        return {"retry_count": retry}  # the task definition refuses what is negative
    return Backoff(3 if retry is None else retry, first="1s", factor=2, longest="60s").fields()


def _count(name: str, retry: object) -> int:
    """Return how many retries a call has; the task says when they come."""
    if not isinstance(retry, int) or isinstance(retry, bool):
        raise BuildError(f"{name}: retry= of a call is a number of retries, not {retry!r:.80}; @task(retry=Backoff(…)) says when")
    return retry


@attrs.frozen(kw_only=True, slots=True)
class Options:
    """Options of one call of a task or a flow: see `TaskFunction.options`."""

    name: str | None = None
    undo: TaskFunction[..., Any] | None = None
    optional: bool | None = None
    retry: int | None = None
    delay: Span | None = None
    fields: dict[str, Any] = attrs.field(factory=dict)
    #: Options of a start of the task alone.
    starting: dict[str, Any] = attrs.field(factory=dict)

    def having(self, **said: Any) -> Options:
        """These options and others, which come first; None says nothing."""
        return attrs.evolve(self, **{key: value for key, value in said.items() if value is not None})

    def place(self, build: Build, task: WorkflowTask, *, whole: bool) -> Reference:
        """Add a task with these options to a flow; gives a reference to its output, as a `whole` or to `result` in it."""
        known = attrs.fields_dict(WorkflowTask)
        for field in self.fields:
            if field not in known:
                said = did_you_mean(field, ("name", "undo", "optional", "retry", "delay", *known))
                raise BuildError(f"{task.name}: there is no option {field!r}{said}")
        fields = dict(self.fields)
        if self.optional is not None:
            fields["optional"] = self.optional
        if self.retry is not None:
            fields["retry_count"] = _count(task.name, self.retry)
        if self.delay is not None:
            fields["start_delay_ms"] = to_span(self.delay)
        task = attrs.evolve(task, **build.more(task.name, fields)) if fields else task
        step = build.place(task, asked=self.name)
        output = Reference(f"{step.ref}.output" if whole else f"{step.ref}.output.result", step)
        if self.undo is not None:
            build.replace(step, compensate=self.undo.undoing(build, step.ref, output))
        return output


@attrs.frozen(kw_only=True, slots=True)
class Job(Generic[P, R]):
    """A task without a flow, as an engine starts it: see `conductorlite.runtime.registry.HasStart`."""

    workers: Workers
    starting: Callable[P, Mapping[str, Any]]
    read: Callable[[Mapping[str, Any]], R]
    definitions: tuple[WorkflowDef, ...] = ()


class TaskFunction(Shared, Generic[P, R]):
    """A function that carries out tasks of one type. See `task`."""

    def __init__(self, function: Callable[P, R], task_type: str, workers: Workers, options: Options | None = None) -> None:
        self.function = function
        self.task_type = task_type
        #: The worker, with its task definition: given to an engine, by itself or with the flows that call it.
        self.workers = workers
        self._options = options or Options()
        self._signature = _of_inputs(function)
        self._takes = signature(function)
        for one in self._signature.parameters.values():
            if one.kind is one.VAR_POSITIONAL:
                raise InvalidInput(f"task {task_type!r}: {one} cannot be an input of a task: its inputs have names")
        #: The parameter that gets the task's whole input, a record.
        self._whole = self._takes.whole
        #: The definitions of the task alone, by the inputs that it is given.
        self._alone: dict[tuple[str, ...], WorkflowDef] = {}
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function, or, while a flow is built, add a task to it."""
        build = building()
        if build is None:
            return self.function(*args, **kwargs)
        return cast(R, self.step(build, called_as(self.task_type, self._signature, args, kwargs)))

    @cached_property
    def returns(self) -> Any:
        """The annotation of what the function returns, Any without one."""
        return returned(self.function)

    @property
    def parameters(self) -> Sequence[str]:
        """The names of what a call gives."""
        return tuple(self._signature.parameters)

    def bound(self, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name; raises BuildError for wrong ones."""
        return called_as(self.task_type, self._signature, tuple(args), kwargs)

    def options(
        self,
        *,
        name: str | None = None,
        undo: TaskFunction[[R], Any] | None = None,
        optional: bool | None = None,
        retry: int | None = None,
        delay: Span | None = None,
        **fields: Any,
    ) -> TaskFunction[P, R]:
        """Return the function with options for its next call in a flow: `charge.options(name="deposit")(amount=10)`.

        `name` is the step's reference name. `undo` is carried out when the execution fails later; it gets this task's input and
        output. The flow goes on when an `optional` step fails. `retry` is how many retries there are instead of the task
        definition's, with its delays; `delay` comes before the first attempt. `fields` are further fields of `WorkflowTask`, or
        options of a start (`idempotency_key`, `workflow_id`, …) for a task alone: see `start`. Raises BuildError in the call for
        an unknown one.
        """
        said = {name: fields.pop(name) for name in start_options() - _NOT_ALONE if name in fields}
        new = self._options.having(
            name=name,
            undo=undo,
            optional=optional,
            retry=retry,
            delay=delay,
            fields={**self._options.fields, **fields},
            starting={**self._options.starting, **said},
        )
        return TaskFunction(self.function, self.task_type, self.workers, new)

    def step(self, build: Build, given: dict[str, Any]) -> Reference:
        """Add a task to a flow, with arguments by name."""
        for option in self._options.starting:
            raise BuildError(f"{self.task_type}: {option!r} is said of the start of a task alone, and this one is a step of a flow")
        return self._placed(build, self._inputs(given))

    def _placed(self, build: Build, inputs: Mapping[str, Any]) -> Reference:
        build.workers.include(self.workers)
        node = WorkflowTask(name=self.task_type, task_reference_name=self.task_type, input_parameters=build.written(inputs))
        return self._options.place(build, node, whole=is_whole(self.returns))

    def _inputs(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The task's input of arguments by name; a record that is the whole input gives its fields."""
        if self._whole is None:
            return given
        value = given.get(self._whole, self._signature.parameters[self._whole].default)
        if isinstance(value, Reference):
            return {field: value[field] for field in fields_of(hints(self.function)[self._whole]) or ()}
        value = plain(value)
        if not isinstance(value, Mapping):
            raise BuildError(f"{self.task_type}: {self._whole!r} is the whole input, a record, not {value!r:.60}")
        return value

    def undoing(self, build: Build, ref: str, output: Reference) -> WorkflowTask:
        """The task that undoes a step with this function, which gets what the step returned."""
        build.workers.include(self.workers)
        names = list(self._signature.parameters)
        if len(names) > 1 and any(one.default is one.empty for one in list(self._signature.parameters.values())[1:]):
            raise BuildError(
                f"{self.task_type}: undoes {ref!r}, so it takes one argument, what that returned; it takes {', '.join(names)}"
            )
        given = self._inputs({names[0]: output}) if names else {}
        written = {name: str(value) for name, value in given.items()}
        return WorkflowTask(name=self.task_type, task_reference_name=f"{ref}_undo", input_parameters=written)

    # ------------------------------------------------------------------ without a flow

    @overload
    def start(self, engine: Engine, /, *args: P.args, **kwargs: P.kwargs) -> Run[R]: ...

    @overload
    def start(self, engine: AsyncEngine, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, AsyncRun[R]]: ...

    def start(self, engine: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Start the task alone, without a flow: an execution of one task. The arguments are the function's.

        Returns a handle as `Engine.run_task` does, to be awaited of an AsyncEngine. Options of the start are given before, in
        `options(idempotency_key=…)`. Raises as `Engine.run_task` does.
        """
        return engine.run_task(self, *args, **kwargs)

    @overload
    def map(self, engine: Engine, rows: Iterable[Any], /, **starting: Any) -> Run[list[R]]: ...

    @overload
    def map(self, engine: AsyncEngine, rows: Iterable[Any], /, **starting: Any) -> Coroutine[Any, Any, AsyncRun[list[R]]]: ...

    def map(self, engine: Any, rows: Iterable[Any], /, **starting: Any) -> Any:
        """Start the task for each row, side by side: one execution, whose result is the list of results in the rows' order.

        A row is the argument of a function that takes one, and otherwise a mapping of arguments by name. Up to 20,000 rows. The
        handle's `progress()` says how many are done. When the last attempt of a row fails, the execution fails, and `retry`
        goes on with what is not done. `starting` are options of the start, as in `options`; an idempotency key that is held gives
        the handle on the execution that holds it. Raises BuildError for a wrong row or option, before anything is stored, and as
        `Engine.start` does.
        """
        return engine.start(self._mapped(), rows, **starting)

    @property
    def alone(self) -> Job[P, R]:
        """The task as an execution of its own, which `Engine.run_task` starts."""
        if self._options.undo is not None:
            raise BuildError(f"{self.task_type}: `undo` is for a step of a flow; after a task alone nothing can fail")
        kind = self.returns
        return Job(workers=self.workers, starting=self._starting_alone, read=lambda output: read_output(kind, output))

    def _starting_alone(self, *args: Any, **kwargs: Any) -> Mapping[str, Any]:
        """The arguments of `Engine.start` for arguments of the function, and options of the start that are no parameters of it.

        Raises BuildError for arguments that the function does not have, and InvalidInput for values that are not of their types.
        """
        names = self._signature.parameters
        said = {name: kwargs.pop(name) for name in start_options() - _NOT_ALONE - names.keys() if name in kwargs}
        given = plain(self._inputs(called_as(self.task_type, self._signature, args, kwargs)))
        self._check(given, f"task {self.task_type!r}")
        return {"workflow": self._definition(tuple(given)), "input": given, **self._said(said)}

    def _check(self, given: Mapping[str, Any], where: str) -> None:
        """Raise InvalidInput for an input that the function's annotations do not allow, before anything is stored."""
        try:
            self._takes.arguments(dict(given))
        except InvalidInput as error:
            raise InvalidInput(f"{where}: {error}") from None

    def _said(self, starting: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a start of the task alone; a key that is held gives the execution that holds it by default."""
        return {"idempotency_strategy": IdempotencyStrategy.RETURN_EXISTING, **self._options.starting, **starting}

    def _definition(self, names: tuple[str, ...]) -> WorkflowDef:
        """The workflow of this task alone. What is not given is no input of it, so that the function's own defaults hold."""
        found = self._alone.get(names)
        if found is None:
            build = Build(f"{TASK_ALONE}{self.task_type}", None)
            self._placed(build, {name: Reference("workflow.input", None)[name] for name in names})
            found = self._alone[names] = WorkflowDef(
                name=build.name,
                description=f"The task {self.task_type!r} alone",
                input_parameters=names,
                tasks=build.block.tasks,
            )
        return found

    def _mapped(self) -> Job[..., list[R]]:
        """The workflow of this task for each of several rows."""
        for option in ("undo", "optional", "retry", "delay", "fields"):
            if getattr(self._options, option):
                raise BuildError(f"{self.task_type}: a row takes no option {option!r}; @task says it of all tasks of the type")
        build = Build(f"{TASK_MAPPED}{self.task_type}", None)
        given = {"forkTaskName": self.task_type, "forkTaskInputs": Reference("workflow.input.rows", None)}
        results = build.each(self.task_type, given, whole=is_whole(self.returns), name=self._options.name)
        definition = WorkflowDef(
            name=build.name,
            description=f"The task {self.task_type!r} for each of several rows",
            input_parameters=("rows",),
            tasks=build.block.tasks,
            output_parameters={"result": build.written(results)},
        )

        def starting(rows: Iterable[Any], /, **said: Any) -> Mapping[str, Any]:
            known = start_options() - _NOT_ALONE
            for option in said:
                if option not in known:
                    raise BuildError(f"{self.task_type}: there is no option {option!r}{did_you_mean(option, known)}")
            inputs = [plain(self._row(number, row)) for number, row in enumerate(rows)]
            for number, one in enumerate(inputs):
                self._check(one, f"task {self.task_type!r}: rows[{number}]")
            if len(inputs) > MOST_BRANCHES:
                raise BuildError(f"{self.task_type}: {len(inputs)} rows are more than {MOST_BRANCHES}: map them in several parts")
            return {"workflow": definition, "input": {"rows": inputs}, **self._said(said)}

        def read(output: Mapping[str, Any]) -> list[R]:
            kind = self.returns
            whole = is_whole(kind)
            rows = enumerate(output["result"])
            return [read_output(kind, one if whole else {"result": one}, f"output[{number}]") for number, one in rows]

        return Job(workers=self.workers, starting=starting, read=read)

    def _row(self, number: int, row: Any) -> Mapping[str, Any]:
        """A row as the task's input."""
        names = self._signature.parameters
        if len(names) == 1 and next(iter(names.values())).kind is not inspect.Parameter.VAR_KEYWORD:
            return self._inputs({next(iter(names)): row})
        where = f"{self.task_type}: rows[{number}]"
        if not isinstance(row, Mapping):
            raise BuildError(f"{where} is {row!r:.60}, and no mapping of arguments by name")
        return called_as(where, self._signature, (), dict(row))

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
    fairness_key: str | None = None,
    fairness_weights: Mapping[str, int] | None = None,
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
    fairness_key: str | None = None,
    fairness_weights: Mapping[str, int] | None = None,
    description: str | None = None,
    concurrency: int | None = None,
    heartbeat: bool = True,
    domain: str | None = None,
    check: bool = False,
) -> Any:
    """Decorator, with or without parentheses: a worker function of type `name` (default: its own name) that flows can call.

    `retry` is a number of retries (3 by default), which come after 1, 2, 4 s and so on up to a minute, or a `Backoff`. The
    timeouts are those of Conductor's task definition; `on_timeout` is its policy. `limit` is how many tasks run at once over all
    engines of a store, `rate` how many begin in a length of time; tasks that wait for either take turns by `fairness_key`, a
    template such as "${workflow.input.tenant}", with `fairness_weights`. These make the task definition, used where none is
    registered or embedded. With `check` it has the schemas of the function's input and output, enforced: see the how-to Check and
    hide. `concurrency`, `heartbeat` and `domain` are as in `Workers.task`. Arguments and what is returned are read and written as
    `Workers.task` says. Raises InvalidInput for a wrong option, and for what is no function that can be called with an input.
    """
    if callable(name):
        return task()(name)
    fields: dict[str, Any] = {
        "description": description,
        **retry_fields(retry),
        "timeout_ms": _ms(timeout),
        "total_timeout_ms": _ms(total_timeout),
        "response_timeout_ms": _ms(response_timeout),
        "poll_timeout_ms": _ms(poll_timeout),
        "timeout_policy": on_timeout,
        "concurrent_exec_limit": limit,
        "rate_limit_per_frequency": None if rate is None else rate[0],
        "rate_limit_frequency_ms": None if rate is None else _ms(rate[1]),
        "fairness_key": fairness_key,
        "fairness_weights": fairness_weights,
    }
    given = {key: value for key, value in fields.items() if value is not None}

    def made(function: Callable[..., Any]) -> TaskFunction[..., Any]:
        refuse_decorated(function, "@task")
        task_type = name or own_name(function)
        if check:
            given["input_schema"] = input_schema(task_type, function, nulls=True)
            given["output_schema"] = output_schema(task_type, function, maps=True)
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
