"""`@flow`: a function whose source is read, or that is built by calls, and becomes a workflow definition.

With the steps that are no function of the user's: waits, people, ends, other workflows, variables, events, scripts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial, update_wrapper
from math import inf
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

import attrs

from conductorlite.flows.build import Build, More, Reference, building, called_as, current, needed
from conductorlite.flows.schemas import (
    answer_problem,
    fields_of,
    hints,
    input_schema,
    is_whole,
    output_schema,
    read_output,
    returned,
)
from conductorlite.flows.tasks import Backoff, Options, TaskFunction, retry_fields, start_options
from conductorlite.language.durations import parse_duration, parse_until, until_text
from conductorlite.model.clock import SystemClock
from conductorlite.model.definitions import (
    StartWorkflowRequest,
    SubWorkflowParams,
    TaskDef,
    TaskType,
    TimeoutPolicy,
    WorkflowDef,
    WorkflowTask,
)
from conductorlite.model.errors import BuildError, InvalidExpression, InvalidInput
from conductorlite.model.later import functions
from conductorlite.model.pickling import Shared, find_object, function_name
from conductorlite.model.texts import Instant, Span, did_you_mean, to_instant, to_span
from conductorlite.model.threads import cached_property
from conductorlite.model.typed import Reader, plain, reader, refusal
from conductorlite.plan.findings import is_expression
from conductorlite.plan.tree import walk
from conductorlite.runtime.registry import AnswerProblem, Workers, defined_at, own_name, refuse_decorated, refuse_uncarried

if TYPE_CHECKING:
    from conductorlite.model.schedules import WorkflowSchedule

__all__ = [
    "Flow",
    "event",
    "flow",
    "human",
    "inline",
    "join",
    "node",
    "now",
    "reason",
    "set_variables",
    "start",
    "status",
    "sub",
    "terminate",
    "variable",
    "wait",
]

#: Imported with the first flow that is compiled: it knows the classes and forms of this room.
read, readable = functions("conductorlite.flows.reading", "read", "readable")

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class Flow(Shared, Generic[P, R]):
    """A workflow written as a function. See `flow`.

    It is started by `engine.start(booking, to="Rome")`. Called in another flow, it is a SUB_WORKFLOW of that one.
    """

    def __init__(
        self,
        function: Callable[P, R],
        fields: Mapping[str, Any],
        options: Options,
        starting: Mapping[str, Any],
        by_calls: bool = False,
    ) -> None:
        self.function = function
        self._by_calls = by_calls
        self._fields = fields
        self._options = options
        self._starting = starting
        self._signature = inspect.signature(function)
        for one in self._signature.parameters.values():
            if one.kind in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL, one.VAR_KEYWORD):
                raise InvalidInput(f"flow {fields['name']!r}: {one} cannot be an input of a workflow: its inputs have names")
        kinds = hints(function)
        refuse_uncarried(function, {name: kinds.get(name, Any) for name in self._signature.parameters})
        update_wrapper(self, function)

    @cached_property
    def returns(self) -> Any:
        """The annotation of what the function returns, Any without one."""
        return returned(self.function)

    @cached_property
    def _readers(self) -> Mapping[str, Reader]:
        kinds = hints(self.function)
        found = {name: reader(kinds.get(name, Any)) for name in self._signature.parameters}
        return {name: read for name, read in found.items() if read is not None}

    @cached_property
    def _built(self) -> tuple[WorkflowDef, Build, bool]:
        name = self._fields["name"]
        build = Build(name, getattr(inspect.unwrap(self.function), "__code__", None))
        parameters = self._signature.parameters
        given = {key: Reference(f"workflow.input.{key}", None) for key in parameters}
        with needed(build):
            output, wrapped = self._output(build, self._result(build, given))
        if not build.block.tasks and "tasks" not in self._fields:
            raise BuildError(f"{name}: calls no task: call functions decorated with @task in {defined_at(self.function)}")
        defaults = {key: plain(one.default) for key, one in parameters.items() if one.default is not one.empty}
        made = {
            "input_parameters": tuple(parameters),
            "tasks": build.block.tasks,
            "output_parameters": output,
            "input_template": {key: value for key, value in defaults.items() if value is not None},
        }
        definition = WorkflowDef(**{**made, **self._fields})
        build.workers.answers = {**_answers(definition, build), **build.workers.answers}
        build.workers.written = (partial(_lines, definition, build.file, build.lines), *build.workers.written)
        return definition, build, wrapped

    def _result(self, build: Build, given: dict[str, Reference]) -> object:
        """Return what the function returns, with its steps in the build: read from its source, or, built by calls, called."""
        function = inspect.unwrap(self.function)
        source = None if self._by_calls else readable(build.name, function)
        if source is not None:
            return read(build, source, function, given)
        result = cast(Callable[..., object], self.function)(**given)
        if inspect.iscoroutine(result):
            result.close()
            raise BuildError(f"{build.name}: a flow awaits nothing; write `def`, without `async`")
        return result

    def _output(self, build: Build, result: object) -> tuple[dict[str, Any], bool]:
        """The outputParameters that give what the function returned, and whether that is a map whose keys nobody knows yet."""
        kind, wrapped = self.returns, False
        if result is None:
            # Without outputParameters an execution puts out what its last task has put out.
            return ({"result": None} if build.reads and not is_whole(kind) else {}), False
        if isinstance(result, Reference) and is_whole(kind) and kind is not Any:
            names = fields_of(kind)
            wrapped = names is None
            result = result if names is None else {name: result[name] for name in names}
        result = result if isinstance(result, Reference) else plain(result)
        output = build.written(result if isinstance(result, dict) else {"result": result})
        return cast(dict[str, Any], output), wrapped

    @property
    def gives_whole(self) -> bool:
        """True if the workflow's output is the function's return value itself, not its entry `result`.

        An output has the names that the definition says: a map whose keys are known when it runs is one entry of it.
        """
        return is_whole(self.returns) and not self._built[2]

    @property
    def name(self) -> str:
        """The workflow's name."""
        return cast(str, self._fields["name"])

    @property
    def version(self) -> int:
        """The workflow's version."""
        return cast(int, self._fields["version"])

    @property
    def parameters(self) -> Sequence[str]:
        """The names of its inputs."""
        return tuple(self._signature.parameters)

    def bound(self, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name; raises BuildError for wrong ones."""
        return called_as(self.name, self._signature, tuple(args), kwargs)

    @property
    def definition(self) -> WorkflowDef:
        """The function as a Conductor definition, built on first use. Raises BuildError."""
        return self._built[0]

    @property
    def workers(self) -> Workers:
        """The functions of all tasks that the flow calls, and those of the flows in it."""
        first, *others = self._reached()
        if not others:
            return first.workers
        workers = Workers()
        for build in (first, *others):
            workers.include(build.workers)
        return workers

    @property
    def definitions(self) -> Sequence[WorkflowDef]:
        """The definitions that are to be registered before it runs: those of flows that it calls for each item of a list, and of
        those that are called by their names.
        """
        found: dict[str, WorkflowDef] = {}
        for build in self._reached():
            found |= build.definitions
            found |= {one.name: one.definition for one in build.again}
        return tuple(found.values())

    def _reached(self) -> list[Build]:
        """Return the builds of this flow, and of the flows that it reaches by their names."""
        flows: list[Flow[..., Any]] = [self]
        for one in flows:
            flows += [other for other in one._built[1].again if all(other.function is not known.function for known in flows)]
        return [one._built[1] for one in flows]

    def starting(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """The arguments with which `Engine.start` starts the definition; raises BuildError for wrong ones."""
        name = self.definition.name
        for option in kwargs.keys() & start_options() - self._signature.parameters.keys():
            raise BuildError(
                f"{name}: there is no argument {option!r}; an option of the start is said before: {name}.options({option}=…)"
            )
        given = plain(called_as(name, self._signature, args, kwargs))
        return {"workflow": self.definition, "input": given, **self._starting}

    def check(self, given: Mapping[str, Any]) -> None:
        """Raise InvalidInput for an input that the function's annotations do not allow, with the path of each field.

        As for workers, null stands for the default of a parameter that has one, and what has no parameter is passed over.
        """
        problems: list[str] = []
        for name, one in self._signature.parameters.items():
            value, required = given.get(name), one.default is one.empty
            if name not in given and required:
                others = [key for key in given if key not in self._signature.parameters]
                problems.append(f"{name}: is missing{f'; there is no parameter {others[0]!r}' if others else ''}")
            elif name in self._readers and (value is not None or required):
                try:
                    self._readers[name](value, name)
                except InvalidInput as error:
                    problems.append(str(error))
        if problems:
            raise InvalidInput(f"flow {self._fields['name']!r}: {'; '.join(problems)}")

    def read(self, output: Mapping[str, Any]) -> R:
        """An execution's output as what the function returns; raises InvalidInput that names each field which does not fit."""
        try:
            return cast(R, read_output(self.returns, output, whole=self.gives_whole))
        except InvalidInput as error:
            where = f"what {defined_at(self.function)} returned is not of its annotation"
            raise InvalidInput(f"flow {self._fields['name']!r}: {error}: {where}") from None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Add the flow to the flow that is being built, as a SUB_WORKFLOW; raises BuildError outside of one."""
        build = building()
        name = self._fields["name"]
        if build is None:
            raise BuildError(f"{name}: a flow is started by an engine: engine.start({self.function.__name__}, ...)")
        given = build.written(called_as(name, self._signature, args, kwargs))
        with needed(None):
            self.definition  # noqa: B018  built now, outside of this flow
        build.workers.include(self._built[1].workers)
        build.definitions |= self._built[1].definitions
        for one in self._built[1].again:
            one.note_again(build)
        return cast(R, self._options.place(build, self._task(given), whole=self.gives_whole))

    def called_again(self, *args: Any, **kwargs: Any) -> Any:
        """Add the flow, by its name and version, to a flow that it calls itself: its definition cannot stand in itself.

        Raises BuildError where the annotation does not say which output the call has.
        """
        build = current(f"{self.name}()")
        if self.returns is Any or (is_whole(self.returns) and self.returns is not None and fields_of(self.returns) is None):
            raise BuildError(f"{self.name}: calls itself, so its annotation says what it returns: `-> int`, or a record and no map")
        self.note_again(build)
        param = SubWorkflowParams(name=self.name, version=self.version)
        task = WorkflowTask(
            name=self.name,
            task_reference_name=self.name,
            type=TaskType.SUB_WORKFLOW,
            input_parameters=build.written(called_as(self.name, self._signature, args, kwargs)),
            sub_workflow_param=param,
        )
        return self._options.place(build, task, whole=is_whole(self.returns))

    def note_again(self, build: Build) -> None:
        """Have the definition registered before a flow runs that calls this one by its name."""
        if all(one.function is not self.function for one in build.again):
            build.again.append(self)

    def of_item(self) -> WorkflowDef:
        """A workflow that runs this one for an item of a list, which a dynamic fork gives as `input`, or spread if it is a map."""
        names = list(self._signature.parameters)
        if len(names) != 1:
            raise BuildError(
                f"{self.definition.name}: takes one argument to be run for each item of a list, not {', '.join(names) or 'none'}"
            )
        kind = hints(self.function).get(names[0], Any)
        fields = fields_of(kind) if is_whole(kind) and kind is not Any else []
        if fields is None:
            raise BuildError(
                f"{self.definition.name}: takes a map, whose fields are not known; annotate {names[0]!r} with a record"
            )
        item: Any = {field: f"${{workflow.input.{field}}}" for field in fields} if fields else "${workflow.input.input}"
        return WorkflowDef(
            name=f"{self.definition.name}_of_item", version=self.definition.version, tasks=[self._task({names[0]: item})]
        )

    def _task(self, given: Any) -> WorkflowTask:
        name, definition = self.definition.name, self.definition
        param = SubWorkflowParams(name=name, version=definition.version, workflow_definition=definition)
        return WorkflowTask(
            name=name, task_reference_name=name, type=TaskType.SUB_WORKFLOW, input_parameters=given, sub_workflow_param=param
        )

    def options(
        self,
        *,
        name: str | None = None,
        undo: TaskFunction[[R], Any] | None = None,
        optional: bool | None = None,
        retry: int | None = None,
        **starting: Any,
    ) -> Flow[P, R]:
        """Return the flow with options for the next call or start.

        In another flow: `name`, `undo`, `optional` and `retry`, as in `TaskFunction.options`. For `engine.start`:
        `workflow_id`, `correlation_id`, `priority`, `idempotency_key` and the other options of a start.
        """
        for option in starting:
            if option not in start_options():
                said = did_you_mean(option, ("name", "undo", "optional", "retry", *start_options()))
                raise BuildError(f"{self!r}: there is no option {option!r}{said}")
        new = self._options.having(name=name, undo=undo, optional=optional, retry=retry)
        return Flow(self.function, self._fields, new, {**self._starting, **starting}, self._by_calls)

    def schedule(
        self,
        cron: str | None = None,
        /,
        *,
        name: str | None = None,
        input: Mapping[str, Any] | None = None,
        zone_id: str = "UTC",
        **fields: Any,
    ) -> WorkflowSchedule:
        """A schedule that starts this flow: `engine.schedules.save(report.schedule("0 9 * * MON", input={"shop": "Rome"}))`.

        `cron` has five or six fields and is read in `zone_id`; `fields` are further ones of `WorkflowSchedule`, such as
        `interval_ms` or `at` instead of `cron`. It is called `name` (default: as the flow), and its executions have the flow's
        `input` and what `options` said of a start. The engine that starts them has the flow among its workers. Raises BuildError
        for an unknown option, and InvalidInput for an input that does not fit the flow's parameters.
        """
        from conductorlite.model.schedules import WorkflowSchedule  # imported with the first schedule

        known = attrs.fields_dict(WorkflowSchedule).keys() - {"name", "start_workflow_request", "extra"}
        for field in fields:
            if field not in known:
                raise BuildError(f"{self!r}: a schedule has no option {field!r}{did_you_mean(field, known)}")
        for option in self._starting:
            if option not in attrs.fields_dict(StartWorkflowRequest):
                raise BuildError(f"{self!r}: {option!r} is said of one start, and a schedule makes many")
        given = {} if input is None else plain(called_as(self.name, self._signature, (), dict(input)))
        self.check({**self.definition.input_template, **given})
        request = StartWorkflowRequest(name=self.name, version=self.version, input=given, **self._starting)
        if cron is not None:
            fields["cron_expression"] = cron
        return WorkflowSchedule(name=name or self.name, start_workflow_request=request, zone_id=zone_id, **fields)

    def __repr__(self) -> str:
        return f"<flow {self._fields['name']}>"

    def _repr_html_(self) -> str | None:
        return self.definition._repr_html_()

    def __reduce__(self) -> str | tuple[Any, ...]:
        place = function_name(self.function, repr(self))
        if find_object(*place[:2]) is self:
            return place[1]
        return _flow_again, (place, self._fields, self._options, self._starting, self._by_calls)


def _answers(definition: WorkflowDef, build: Build) -> dict[tuple[str, str], AnswerProblem | None]:
    """Return what is wrong with answers to people that a flow asks, by the workflow in which the step stands, and the step."""
    found: dict[tuple[str, str], AnswerProblem | None] = {}
    if not build.asked:
        return found
    from conductorlite.flows.literals import inner_definitions  # few flows ask anybody

    for one in inner_definitions(definition):
        for place in walk(one, deepest=inf):
            ref = place.task.task_reference_name
            if ref in build.asked and place.task.type == TaskType.HUMAN:
                kind = build.asked[ref]
                found[one.name, ref] = None if reader(kind) is None else partial(answer_problem, kind)
    return found


def _lines(definition: WorkflowDef, file: str, lines: Mapping[str, int]) -> dict[tuple[str, str], str]:
    """Return where the steps of a flow are written, by the workflow in which each stands, and the step; an attempt is one too."""
    from conductorlite.flows.literals import inner_definitions

    found: dict[tuple[str, str], str] = {}
    for one in inner_definitions(definition):
        if one.name == definition.name or one.name.startswith(f"{definition.name}_"):
            refs = (place.task.task_reference_name for place in walk(one, deepest=inf))
            found |= {(one.name, ref): f"{file}:{lines[ref]}" for ref in refs if ref in lines}
    return found


def _flow_again(place: tuple[str, str, int], *rest: Any) -> Flow[..., Any]:
    return Flow(find_object(*place), *rest)


@overload
def flow(name: Callable[P, R], /) -> Flow[P, R]: ...


@overload
def flow(
    name: str | None = None,
    *,
    version: int = 1,
    timeout: Span | None = None,
    check: bool = False,
    by_calls: bool = False,
    **fields: Any,
) -> Callable[[Callable[P, R]], Flow[P, R]]: ...


def flow(
    name: Any = None,
    *,
    version: int = 1,
    timeout: Span | None = None,
    check: bool = False,
    by_calls: bool = False,
    **fields: Any,
) -> Any:
    """Decorator, with or without parentheses: the function is a workflow, called `name` (default: its own name).

    Its source is read when the definition is first needed; the tasks and flows it calls are the workflow's steps, in that order,
    and its control flow is the workflow's. What it returns is the workflow's output. A function that uses forms such as `when`, or
    says `by_calls`, is called once instead, with references for its arguments: see the explanation Flows are read.

    `timeout` is the workflow's. With `check` its types are the definition's inputSchema and outputSchema, which are enforced:
    see the how-to Check and hide. `fields` are further fields of `WorkflowDef`, such as `description`, `failure_workflow` or
    `rate_limit_config`. Raises InvalidInput for parameters that are no inputs and for unknown fields.
    """
    if callable(name):
        return flow()(name)
    known = {field.name for field in attrs.fields(WorkflowDef)}
    for field in fields:
        if field not in known:
            said = did_you_mean(field, ("name", "version", "timeout", "check", "by_calls", *known))
            raise InvalidInput(f"flow: there is no option {field!r}{said}")
    if timeout is not None:
        fields["timeout_ms"] = to_span(timeout)

    def made(function: Callable[..., Any]) -> Flow[..., Any]:
        refuse_decorated(function, "@flow")
        own: dict[str, Any] = {"name": own_name(function) if name is None else name, "version": version}
        text = inspect.getdoc(function)
        if text and "description" not in fields:
            own["description"] = text.partition("\n\n")[0].replace("\n", " ")
        if check:
            own["input_schema"] = input_schema(own["name"], function, nulls=False)
            own["output_schema"] = output_schema(own["name"], function, maps=False)
        return Flow(function, {**own, **fields}, Options(), {}, by_calls)

    return made


def node(task: WorkflowTask) -> Any:
    """Add a task that is written out, of any type; gives a reference to its output. References may stand in its input."""
    build = current("node()")
    task = attrs.evolve(task, input_parameters=build.written(task.input_parameters))
    step = build.place(task, asked=task.task_reference_name)
    return Reference(f"{step.ref}.output", step)


@overload
def now() -> float: ...


@overload
def now(value: S, /) -> S: ...


def now(*value: Any) -> Any:
    """The time at which a flow that is read comes to it, in seconds since 1970: `now()`, as `time.time()` outside of a flow.

    With a value, as in `now(load_rates())`, that is computed when the flow is compiled, once for all its executions; it has to be
    JSON.
    """
    if len(value) > 1:
        raise BuildError("now() takes one value, to be computed when the flow is compiled, or none")
    if value or building() is None:
        return value[0] if value else SystemClock().now() / 1000
    raise BuildError("now() is the time in a flow that is read; in one that is built by calls have a task return it")


def status(of: Any) -> Any:
    """Return a reference to a step's status, such as COMPLETED or FAILED: `match(status(parcel))` after an optional step."""
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


def wait(
    duration: Span | None = None,
    *,
    until: Instant | Reference | None = None,
    timeout: Span | None = None,
    name: str | None = None,
    fields: More = None,
) -> Any:
    """Wait for a length of time, until an instant, or, with neither, until `engine.signal` completes the step (WAIT).

    `until` is a whole minute. Conductor's own form, `2030-01-31 09:00 PST`, is kept as it is; without a zone that is UTC.
    `timeout` is how long it waits for a signal at most: then it raises TimedOut.
    """
    build = current("wait()")
    given: dict[str, Any] = {}
    definition = None
    if timeout is not None:
        if duration is not None or until is not None:
            raise BuildError("wait(): a timeout is for a wait for a signal, without a duration or an instant")
        definition = TaskDef(name=name or "wait", timeout_ms=to_span(timeout))
    if duration is not None:
        given["duration"] = _duration(build, duration)
    if until is not None:
        given["until"] = build.written(until if isinstance(until, Reference) else _until(until))
    step = build.operator(TaskType.WAIT, "wait", name, fields, input_parameters=given, task_definition=definition)
    return Reference(f"{step.ref}.output", step)


def _duration(build: Build, duration: Span | Reference) -> Any:
    """A length of time as Conductor reads it, in whole seconds; its own form, an expression and a reference stay as they are."""
    if isinstance(duration, Reference) or (isinstance(duration, str) and is_expression(duration)):
        return build.written(duration)
    if isinstance(duration, str):
        with suppress(InvalidExpression):
            parse_duration(duration)
            return duration
    try:
        span = to_span(duration)
    except InvalidInput as error:
        raise BuildError(f"{build.name}: {error}") from None
    if span % 1000:
        raise BuildError(f"{build.name}: {duration!r} is no whole number of seconds, which is what a WAIT counts in")
    return f"{span // 1000} seconds"


def _until(instant: Instant) -> str:
    if isinstance(instant, str):
        if is_expression(instant):
            return instant
        with suppress(InvalidExpression):
            parse_until(instant, "UTC")
            return instant
    return until_text(to_instant(instant))


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

    `timeout` is how long one attempt waits: then it raises TimedOut; with `retry` others follow, in which the person is asked
    again. What does not fit
    `returns`, or has an entry that it does not know, is refused with InvalidInput where it is sent, by an engine that has the flow;
    the step goes on waiting.
    """
    build = current("human()")
    definition = None
    if timeout is not None:
        definition = TaskDef(name=name, timeout_ms=to_span(timeout))
    if definition is not None and retry:
        definition = attrs.evolve(definition, timeout_policy=TimeoutPolicy.RETRY, **retry_fields(retry))
    step = build.operator(TaskType.HUMAN, name, name, fields, input_parameters=build.written(given), task_definition=definition)
    if (said := refusal(returns)) is not None:
        raise BuildError(f"{build.name}: what human({name!r}) returns cannot be carried as JSON: {said}")
    build.asked[step.ref] = returns
    return cast(R, Reference(f"{step.ref}.output" if is_whole(returns) else f"{step.ref}.output.result", step))


def receive(
    topic: str | Reference,
    returns: type[R] = dict,  # type: ignore[assignment]
    *,
    timeout: Span | Reference | None = None,
    name: str | None = None,
    fields: More = None,
) -> R:
    """Wait for the next message of a topic, which `engine.send` sends, and give its value (PULL_WORKFLOW_MESSAGES).

    After the `timeout`, if there is one, it raises TimedOut in a flow that is read; in one that is built by calls it is null.
    """
    build = current("receive()")
    given = {"topic": build.written(topic)}
    definition = None
    if timeout is not None and build.reads:
        if isinstance(timeout, Reference):
            raise BuildError("receive(): its timeout is known when the flow is compiled")
        definition = TaskDef(name=name or "receive", timeout_ms=to_span(timeout))
    elif timeout is not None:
        given["duration"] = _duration(build, timeout)
    step = build.operator(
        TaskType.PULL_WORKFLOW_MESSAGES, "receive", name, fields, input_parameters=given, task_definition=definition
    )
    return cast(R, Reference(f"{step.ref}.output.messages[0].payload", step))


def emit(value: Any, stream: str | Reference | None = None, *, name: str | None = None, fields: More = None) -> None:
    """Put a value out into a stream of the execution (EMIT), where `Run.stream` reads it."""
    build = current("emit()")
    given = {"value": build.written(value)}
    if stream is not None:
        given["stream"] = build.written(stream)
    build.operator(TaskType.EMIT, "emit", name, fields, input_parameters=given)


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
