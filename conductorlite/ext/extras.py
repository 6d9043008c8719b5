"""What needs an extra: its names are there without it, and importing one of them says what to install."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from conductorlite.model.errors import MissingExtra

__all__ = ["names_of"]


def names_of(home: str, *names: str, extra: str, purpose: str, library: str) -> Callable[[str], object]:
    """A package's `__getattr__`: names of a module imported when one of them is; raises MissingExtra without `library`."""

    def found(name: str) -> object:
        if name not in names:
            raise AttributeError(name)
        try:
            import_module(library)
        except ImportError:
            raise MissingExtra(extra, purpose) from None
        return getattr(import_module(home), name)

    return found
