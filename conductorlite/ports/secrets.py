"""Where secrets come from."""

from __future__ import annotations

from typing import Protocol

__all__ = ["SecretProvider"]


class SecretProvider(Protocol):
    """Looks secrets up by name, when a task that names them is handed to a worker. A dict of texts is one.

    Called from whatever thread polls or reports, never inside a transaction, and each time anew: a value that was changed counts
    from the next attempt on.
    """

    def get(self, name: str, /) -> str | None:
        """The secret of that name, None when there is none. What it raises fails the attempt, which may be tried again."""
        ...
