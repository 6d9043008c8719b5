"""Pickling of objects for another process: errors by their fields, functions by name, handles not at all.

Values (definitions, rows, results) are pickled as classes of attrs are. An error is made again without its `__init__`,
which may take other arguments than the error's text. A function that a decorator has replaced is found below what replaced it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Portable", "Shared", "find_object", "function_name", "stays_here"]

T = TypeVar("T")

#: Types of an error's arguments that every process can read.
_PLAIN: Final = (str, bytes, int, float, bool, type(None))


class Portable:
    """An exception that pickle and copy make again with its text, its fields, its notes, and its cause where that is portable.

    Its `__init__` is not called again, so it may have any signature, in derived classes too.
    """

    __slots__ = ()
    args: tuple[Any, ...]
    __cause__: BaseException | None

    def __reduce__(self) -> tuple[Any, ...]:
        state, cause = dict(vars(self)), self.__cause__
        if isinstance(cause, Portable) or (type(cause).__module__ == "builtins" and _is_plain(cause)):
            state["__cause__"] = cause
        return _made_again, (type(self), self.args), state


def _is_plain(cause: BaseException | None) -> bool:
    return cause is not None and all(isinstance(argument, _PLAIN) for argument in cause.args) and not vars(cause)


def _made_again(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """An exception by the arguments that Python's own class of it was given."""
    base: Any = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    error: BaseException = base.__new__(kind, *args)
    base.__init__(error, *args)
    return error


class Shared:
    """An object that is never changed: a copy of it is the same object."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: dict[int, object]) -> Self:
        return self


def stays_here(instead: str) -> Callable[[type[T]], type[T]]:
    """Have the objects of a class stay in this process: a copy is the same object, and pickle is refused.

    `instead` is what to send to another process, as the rest of a sentence after a colon.
    """

    def refuse(self: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be sent to another process: {instead}")

    def mark(kind: type[T]) -> type[T]:
        kind.__copy__, kind.__deepcopy__ = Shared.__copy__, Shared.__deepcopy__  # type: ignore[attr-defined]
        kind.__reduce__ = refuse  # type: ignore[method-assign]
        return kind

    return mark


def function_name(function: Any, what: str) -> tuple[str, str, int]:
    """Return where another process finds a function: module, qualified name, and how many decorators are around it.

    Raises TypeError, which begins with `what`, for a function that no module has under its name.
    """
    module, name = function.__module__, function.__qualname__
    found, depth = _named(module, name), 0
    while found is not None and found is not function:
        found, depth = getattr(found, "__wrapped__", None), depth + 1
    if found is None:
        raise TypeError(
            f"{what} cannot be sent to another process: it finds a function by module and name, and {module}.{name} is not this "
            "function; define it at the top of a module under its own name"
        )
    return module, name, depth


def find_object(module: str, name: str, depth: int = 0) -> Any:
    """Return the object that `function_name` has named, in this process."""
    found = _named(module, name)
    for _ in range(depth):
        found = found.__wrapped__
    return found


def _named(module: str, name: str) -> Any:
    try:
        found: Any = import_module(module)
    except (ImportError, AttributeError, ValueError):  # made by `exec`, or in a module that was never imported
        return None
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
