"""What a worker function takes, read once when it is registered."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, get_type_hints

import attrs

from conductorlite.codec.values import Reader, is_record, reader
from conductorlite.errors import InvalidInput
from conductorlite.worker.context import TaskContext

__all__ = ["Signature", "own_name", "signature"]


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
    """Read a function's parameters; raises InvalidInput for one that cannot be given by name, and for what is no function."""
    inner = _checked(function)
    try:
        hints = get_type_hints(function if inspect.isroutine(function) else getattr(function, "__call__", function))  # noqa: B004
    except Exception:  # annotations that cannot be resolved here are no reason to refuse a function
        hints = {}
    names: dict[str, Any] = {}
    required: set[str] = set()
    context, anything = None, False
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):
        raise InvalidInput(f"{_shown(function)} does not tell what it takes; wrap it in a function") from None
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
        is_async=inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(_called(inner)),
    )


def own_name(function: Callable[..., Any]) -> str:
    """The name a function was defined under; raises InvalidInput for what has none: a lambda, a partial, an object."""
    name = getattr(_inner(function), "__name__", None) if not isinstance(function, partial) else None
    if not isinstance(name, str) or name == "<lambda>":
        raise InvalidInput(f"{_shown(function)} has no name: give the task's type, as in @workers.task('charge')")
    return name


def _inner(function: Any) -> Any:
    """What is called in the end: below partials and a staticmethod."""
    while isinstance(function, partial | staticmethod):
        function = function.func if isinstance(function, partial) else function.__func__
    return function


def _called(function: Any) -> Any:
    return getattr(function, "__call__", None)  # noqa: B004


def _checked(function: Any) -> Any:
    """What is called in the end, if that is a function that an input can be given to."""
    inner = _inner(function)
    if isinstance(inner, type):
        raise InvalidInput(f"{_shown(inner)} is a class: register a function, or a method of an object of it")
    if isinstance(inner, classmethod) or not callable(inner):
        raise InvalidInput(f"{_shown(inner)} cannot be called: register a function")
    for kind in (inner, _called(inner)):
        if inspect.isgeneratorfunction(kind) or inspect.isasyncgenfunction(kind):
            raise InvalidInput(f"{_shown(inner)} is a generator function: return a list instead of yielding")
    if inner is function and inspect.isfunction(inner) and _is_method(inner):
        text = f"{_shown(inner)} is a method without its object: register the bound one, as in workers.add('charge', shop.charge)"
        raise InvalidInput(text)
    return inner


def _is_method(function: Any) -> bool:
    """Whether a function is one of a class that is called with an object: by its qualified name and first parameter."""
    within = function.__qualname__.rpartition(".")[0]
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return bool(within) and not within.endswith("<locals>") and names[:1] in (("self",), ("cls",))


def _shown(function: Any) -> str:
    return f"{getattr(function, '__qualname__', function)!r:.120}"


def _takes_null(read: Reader) -> bool:
    try:
        read(None, "")
    except InvalidInput:
        return False
    return True
