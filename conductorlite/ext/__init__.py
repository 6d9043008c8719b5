"""Adapters to the world outside: HTTP, Kafka, sinks, remote payload storage, secrets. Each is imported when it is asked for.

What needs an extra has its names without it, and importing one of them says what to install. Here too: secrets out
of the environment, the one place that reads it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module

from conductorlite.model.errors import InvalidInput, MissingExtra

__all__ = ["EnvironmentSecrets", "names_of"]


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


class EnvironmentSecrets:
    """A secret `NAME` is the environment variable `<prefix>NAME`, read each time: `Engine(secrets=EnvironmentSecrets())`.

    `prefix` is Conductor's by default. Nothing reads the environment unless an engine is given one of these. Raises InvalidInput
    for an empty prefix: every variable of the process would be a secret that a definition can ask for.
    """

    def __init__(self, prefix: str = "CONDUCTOR_SECRET_") -> None:
        if not prefix:
            raise InvalidInput("the prefix is empty: any variable of the process could be asked for")
        self.prefix = prefix

    def get(self, name: str, /) -> str | None:
        """The variable's value, None when it is not set or cannot be the name of one."""
        if not name or "=" in name or "\0" in name:
            return None
        return os.environ.get(f"{self.prefix}{name}")
