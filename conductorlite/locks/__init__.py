"""Locks that save double work on one execution: `InProcessLock` among the engines of a process, `SQLiteLock` among processes.

A lock is never trusted for safety: that is the fence's. Whoever finds one taken leaves its letter in the inbox and goes on; a lock
whose holder has died is free again when its lease is over.
"""

from __future__ import annotations

from conductorlite.locks.in_process import InProcessLock
from conductorlite.locks.sqlite import SQLiteLock

__all__ = ["InProcessLock", "SQLiteLock"]
