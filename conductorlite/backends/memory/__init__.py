"""The memory backend: dicts of frozen rows; nothing survives the process. The oracle of the conformance suite."""

from __future__ import annotations

from conductorlite.backends.memory.backend import MemoryBackend

__all__ = ["MemoryBackend"]
