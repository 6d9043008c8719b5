"""Under which keys of inputParameters the values of an expression stand."""

from __future__ import annotations

from typing import Final

__all__ = ["input_key"]

#: Entries of inputParameters that mean something to an INLINE, a SWITCH or a DO_WHILE.
_RESERVED: Final = frozenset(
    {
        "_items", "case", "evaluatorType", "expression", "hasChildren", "items", "iteration", "keepLastN", "loopIndex", "loopItem",
    }
)  # fmt: skip


def input_key(name: str) -> str:
    """The key of a value of that name in inputParameters: the name, or one with a `_` more where Conductor reserves it."""
    return f"{name}_" if name.rstrip("_") in _RESERVED else name
