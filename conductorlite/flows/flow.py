"""`@flow`: a function that is called once, with references for its arguments, and becomes a workflow definition."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, cast, get_type_hints, overload

from conductorlite.flows.build import Build, building, called_as, needed
from conductorlite.flows.references import Reference
from conductorlite.flows.schemas import hints, input_schema, is_whole, output_schema, returnable, returned
from conductorlite.flows.tasks import Options, TaskFunction
from conductorlite.model import attrs
from conductorlite.model.definitions import SubWorkflowParams, TaskType, WorkflowDef, WorkflowTask
from conductorlite.model.errors import BuildError, InvalidInput
from conductorlite.model.texts import Span, did_you_mean, to_span
from conductorlite.runtime.engine import Engine
from conductorlite.runtime.registry import Workers, own_name
from conductorlite.runtime.values import plain, reader

__all__ = ["Flow", "fields_of", "flow"]

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class Flow(Generic[P, R]):
    """A workflow written as a function. See `flow`.

    It is started by `engine.start(booking, to="Rome")`. Called in another flow, it is a SUB_WORKFLOW of that one.
    """

    def __init__(self, function: Callable[P, R], fields: Mapping[str, Any], options: Options, starting: Mapping[str, Any]) -> None:
        self.function = function
        self._fields = fields
        self._options = options
        self._starting = starting
        self._signature = inspect.signature(function)
        for one in self._signature.parameters.values():
            if one.kind in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL, one.VAR_KEYWORD):
                raise InvalidInput(f"flow {fields['name']!r}: {one} cannot be an input of a workflow: its inputs have names")
        update_wrapper(self, function)

    @cached_property
    def _returns(self) -> Any:
        return returned(self.function)

    @cached_property
    def _built(self) -> tuple[WorkflowDef, Build]:
        name = self._fields["name"]
        build = Build(name, getattr(inspect.unwrap(self.function), "__code__", None))
        parameters = self._signature.parameters
        given = {key: Reference(f"workflow.input.{key}", None) for key in parameters}
        with needed(build):
            result = cast(Callable[..., object], self.function)(**given)
            if inspect.iscoroutine(result):
                result.close()
                raise BuildError(f"{name}: a flow awaits nothing; write `def`, without `async`")
            output = self._output(build, result)
        if not build.block.tasks and "tasks" not in self._fields:
            raise BuildError(f"{name}: calls no task")
        defaults = {key: plain(one.default) for key, one in parameters.items() if one.default is not one.empty}
        made = {
            "input_parameters": tuple(parameters),
            "tasks": build.block.tasks,
            "output_parameters": output,
            "input_template": {key: value for key, value in defaults.items() if value is not None},
        }
        return WorkflowDef(**{**made, **self._fields}), build

    def _output(self, build: Build, result: object) -> dict[str, Any]:
        """The outputParameters that give what the function returned."""
        kind = self._returns
        if result is None:
            return {}
        if isinstance(result, Reference) and is_whole(kind) and kind is not Any:
            names = fields_of(kind)
            if names is None:
                raise BuildError(
                    f"{build.name}: returns {result} whole, whose fields are not known; return {{...}} with each of them"
                )
            result = {name: result[name] for name in names}
        result = result if isinstance(result, Reference) else plain(result)
        output = build.written(result if isinstance(result, dict) else {"result": result})
        return cast(dict[str, Any], output)

    @property
    def definition(self) -> WorkflowDef:
        """What the function says, as Conductor has it; built on first use. Raises BuildError."""
        return self._built[0]

    @property
    def workers(self) -> Workers:
        """The functions of all tasks that the flow calls, and those of the flows in it."""
        return self._built[1].workers

    @property
    def definitions(self) -> Sequence[WorkflowDef]:
        """The definitions that are to be registered before it runs: those of the flows it calls for each item of a list."""
        return tuple(self._built[1].definitions.values())

    def starting(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """The arguments with which `Engine.start` starts the definition; raises BuildError for wrong ones."""
        given = plain(called_as(self.definition.name, self._signature, args, kwargs))
        return {"workflow": self.definition, "input": given, **self._starting}

    def read(self, output: Mapping[str, Any]) -> R:
        """An execution's output as what the function returns; raises InvalidInput that names each field which does not fit."""
        kind = self._returns
        if kind is type(None):
            return cast(R, None)
        value = output if is_whole(kind) else output.get("result")
        read = reader(kind)
        return cast(R, value if read is None else read(value, "output"))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Add the flow to the flow that is being built, as a SUB_WORKFLOW; raises BuildError outside of one."""
        build = building()
        name = self._fields["name"]
        if build is None:
            raise BuildError(f"{name}: a flow is started by an engine: engine.start({self.function.__name__}, ...)")
        given = build.written(called_as(name, self._signature, args, kwargs))
        with needed(None):
            self.definition  # noqa: B018  built now, outside of this flow
        build.workers.include(self.workers)
        build.definitions |= self._built[1].definitions
        return cast(R, self._options.place(build, self._task(given), self._returns))

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
        retries: int | None = None,
        **starting: Any,
    ) -> Flow[P, R]:
        """The same flow, with what the next call or start of it says.

        In another flow: `name`, `undo`, `optional` and `retries`, as in `TaskFunction.options`. For `engine.start`:
        `workflow_id`, `correlation_id`, `priority`, `idempotency_key` and the other options of a start.
        """
        known = inspect.signature(Engine._start).parameters.keys() - {"self", "workflow", "input"}
        for option in starting:
            if option not in known:
                raise BuildError(f"{self!r}: there is no option {option!r}{did_you_mean(option, known)}")
        new = self._options.having(name=name, undo=undo, optional=optional, retries=retries)
        return Flow(self.function, self._fields, new, {**self._starting, **starting})

    def __repr__(self) -> str:
        return f"<flow {self._fields['name']}>"

    def _repr_html_(self) -> str | None:
        return self.definition._repr_html_()


def fields_of(kind: Any) -> list[str] | None:
    """The fields of a record, which may be none too; None for a map."""
    kind = returnable(kind)[0] if len(returnable(kind)) == 1 else kind
    if attrs.has(kind):
        return [field.name for field in attrs.fields(kind)]
    if hasattr(kind, "model_fields"):
        return list(kind.model_fields)
    return list(get_type_hints(kind)) if isinstance(kind, type) and get_type_hints(kind) else None


@overload
def flow(name: Callable[P, R], /) -> Flow[P, R]: ...


@overload
def flow(
    name: str | None = None, *, version: int = 1, timeout: Span | None = None, check: bool = False, **fields: Any
) -> Callable[[Callable[P, R]], Flow[P, R]]: ...


def flow(name: Any = None, *, version: int = 1, timeout: Span | None = None, check: bool = False, **fields: Any) -> Any:
    """Decorator, with or without parentheses: the function is a workflow, called `name` (default: its own name).

    It is called once, when the definition is first needed, with references for its arguments; the tasks and flows it calls are
    the workflow's, in that order. What it returns is the workflow's output. `timeout` is the workflow's. With `check` its types are
    the definition's inputSchema and outputSchema, which are enforced: see the how-to Check and hide. `fields` are further
    fields of `WorkflowDef`, such as `description`, `failure_workflow` or `rate_limit_config`. Raises InvalidInput for parameters
    that are no inputs and for unknown fields.
    """
    if callable(name):
        return flow()(name)
    known = {field.name for field in attrs.fields(WorkflowDef)}
    for field in fields:
        if field not in known:
            raise InvalidInput(f"flow: there is no option {field!r}{did_you_mean(field, known)}")
    if timeout is not None:
        fields["timeout_ms"] = to_span(timeout)

    def made(function: Callable[..., Any]) -> Flow[..., Any]:
        own: dict[str, Any] = {"name": own_name(function) if name is None else name, "version": version}
        text = inspect.getdoc(function)
        if text and "description" not in fields:
            own["description"] = text.partition("\n\n")[0].replace("\n", " ")
        if check:
            own["input_schema"] = input_schema(own["name"], function, nulls=False)
            own["output_schema"] = output_schema(own["name"], function)
        return Flow(function, {**own, **fields}, Options(), {})

    return made
