"""What a worker function takes, read once when it is registered."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import attrs

from conductorlite.codec.values import Reader, is_record, reader
from conductorlite.errors import InvalidInput
from conductorlite.worker.context import TaskContext

__all__ = ["Signature", "signature"]


@attrs.frozen(kw_only=True, slots=True)
class Signature:
    """Names a function takes (None: any), those it must get, and how each is read.

    `context` is the parameter that is given the context, `whole` the one that is given the whole input: a parameter called
    `input`, annotated with a record (dataclass, TypedDict, attrs class, pydantic model), with none beside it but the context.
    """

    parameters: frozenset[str] | None
    required: frozenset[str]
    context: str | None = None
    whole: str | None = None
    readers: Mapping[str, Reader] = attrs.field(factory=dict, eq=False)
    is_async: bool = False

    def arguments(self, given: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments made of a task's input, without the context; raises InvalidInput naming every field."""
        if self.whole is not None:
            return {self.whole: self.readers[self.whole](given, self.whole)}
        arguments = given if self.parameters is None else {k: v for k, v in given.items() if k in self.parameters}
        problems: list[str] = []
        for name, read in self.readers.items():
            if name not in arguments:
                continue
            if arguments[name] is None and name not in self.required and not _takes_null(read):
                # A reference to nothing is null in Conductor; a parameter with a default has said what nothing means.
                del arguments[name]
                continue
            try:
                arguments[name] = read(arguments[name], name)
            except InvalidInput as error:
                problems.append(str(error))
        if problems:
            raise InvalidInput("; ".join(problems))
        return arguments


def signature(function: Callable[..., Any]) -> Signature:
    """Read a function's parameters; raises InvalidInput for one that cannot be given by name."""
    try:
        hints = get_type_hints(function if inspect.isroutine(function) else getattr(function, "__call__", function))  # noqa: B004
    except Exception:  # annotations that cannot be resolved here are no reason to refuse a function
        hints = {}
    names: dict[str, Any] = {}
    required: set[str] = set()
    context, anything = None, False
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        raise InvalidInput(f"{function!r} does not tell what it takes; wrap it in a function") from None
    for parameter in parameters.values():
        hint = hints.get(parameter.name, parameter.annotation)
        if hint is TaskContext or hint in ("TaskContext", "conductorlite.TaskContext"):
            context = parameter.name
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            anything = True
        elif parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL):
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY and parameter.default is parameter.empty:
                raise InvalidInput(f"parameter {parameter.name!r} is positional-only, but inputs are given by name")
        else:
            names[parameter.name] = Any if hint is parameter.empty else hint
            if parameter.default is parameter.empty:
                required.add(parameter.name)
    whole = "input" if list(names) == ["input"] and not anything and is_record(names["input"]) else None
    readers = {name: read for name, hint in names.items() if (read := reader(hint)) is not None}
    return Signature(
        parameters=None if anything else frozenset(names),
        required=frozenset(required) if whole is None else frozenset(),
        context=context,
        whole=whole,
        readers=readers,
        is_async=inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)),  # noqa: B004
    )


def _takes_null(read: Reader) -> bool:
    try:
        read(None, "")
    except InvalidInput:
        return False
    return True
