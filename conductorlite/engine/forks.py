"""A forked child has its parent's objects, its locks as they stood, and none of its threads.

Whatever it asks of an engine is refused at once, before any lock: one that another thread held at the fork is never released.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

from conductorlite.model.errors import EngineClosed

__all__ = ["one_process", "refuse_forked"]

T = TypeVar("T")

#: Verbs without a name.
_BLOCKS: Final = ("__enter__", "__exit__", "__aenter__", "__aexit__")

#: Refuses by itself: what it has taken would be lost by an interruption between its return and that of a wrapper.
_OWN: Final = "poll"


def refuse_forked(pid: int) -> None:
    """Raise EngineClosed in another process than `pid`, the one in which something was opened."""
    if os.getpid() != pid:
        raise EngineClosed("the process was forked after the engine was opened; open one in the child process")


def one_process(face: type[T]) -> type[T]:
    """Have every public method that a class defines, and its blocks, refuse another process than the one that made the object.

    For classes whose objects keep that process's id as `_pid`; what is inherited is left to its own class. A block that ends with
    an error of its own keeps that error.
    """
    own = [(name, method) for name, method in vars(face).items() if inspect.isfunction(method)]
    for name, method in own:
        if name == _OWN and not inspect.iscoroutinefunction(method):
            continue
        if not name.startswith("_") or name in _BLOCKS:
            setattr(face, name, _guarded(method, ends_block=name in ("__exit__", "__aexit__")))
    return face


def _guarded(method: Callable[..., Any], *, ends_block: bool) -> Callable[..., Any]:
    def refused(self: Any, given: tuple[Any, ...]) -> bool:
        """Whether nothing is to be done; raises for what is refused."""
        if os.getpid() == self._pid:
            return False
        if not ends_block or not given or given[0] is None:
            refuse_forked(self._pid)
        return True

    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def awaited(self: Any, *given: Any, **options: Any) -> Any:
            return None if refused(self, given) else await method(self, *given, **options)

        return awaited

    @wraps(method)
    def called(self: Any, *given: Any, **options: Any) -> Any:
        return None if refused(self, given) else method(self, *given, **options)

    return called
