"""Secrets out of the environment: the one place that reads it, for code that asks for it by name."""

from __future__ import annotations

import os

from conductorlite.model.errors import InvalidInput

__all__ = ["EnvironmentSecrets"]


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
