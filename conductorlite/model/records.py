"""Records: rows, which a turn writes in place and freezes at its end."""

from conductorlite.model.attrs import changed, freeze, thaw, writable_copy

__all__ = ["changed", "freeze", "thaw", "writable_copy"]
