"""Objects that are made or imported when they are first used, and not when a module is imported that may need them.

Modules of the standard library that few programs need, or late, are imported from here: they stand for themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import calendar as calendar
    import dataclasses as dataclasses
    import decimal as decimal
    import hashlib as hashlib
    import heapq as heapq
    import inspect as inspect
    import shutil as shutil
    import traceback as traceback
    import zoneinfo as zoneinfo

__all__ = ["functions", "made", "module", "pattern"]


class _Later:
    """Stands for an object until something of it is read."""

    def __init__(self, make: Callable[[], object]) -> None:
        self._make = cache(make)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._make(), name)


class _Kept(_Later):
    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = super().__getattr__(name)
        return value


def made(make: Callable[[], object]) -> Any:
    """An object whose methods never change, made when one of them is called."""
    return _Kept(make)


def module(name: str) -> Any:
    """A module that is imported when something of it is read; type checkers see the import under TYPE_CHECKING."""
    return _Later(partial(import_module, name))


def functions(home: str, *names: str) -> tuple[Callable[..., Any], ...]:
    """Functions of a module that is imported when one of them is called; type checkers see the import under TYPE_CHECKING."""
    return tuple(_function(home, name) for name in names)


def _function(home: str, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] | None = None

    def called(*arguments: Any, **options: Any) -> Any:
        nonlocal found
        if found is None:
            found = getattr(import_module(home), name)
        return found(*arguments, **options)

    return called


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """A regular expression that is compiled when it is first used."""
    return cast("re.Pattern[str]", _Kept(partial(re.compile, text, flags)))


if not TYPE_CHECKING:
    calendar, dataclasses, decimal, inspect, shutil, traceback, zoneinfo = map(
        module, ("calendar", "dataclasses", "decimal", "inspect", "shutil", "traceback", "zoneinfo")
    )
    # Their functions are called in every turn, and are kept.
    hashlib, heapq = (made(partial(import_module, name)) for name in ("hashlib", "heapq"))
