"""What all families of verbs share: the backend, the clock, the turns."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from conductorlite.clock import Clock, SystemClock
from conductorlite.decider import Barriers, Bounds
from conductorlite.definitions import Semantics, TaskDef
from conductorlite.engine.asked import Listener
from conductorlite.engine.cache import Cache
from conductorlite.engine.domains import Polls
from conductorlite.engine.outside import Outside
from conductorlite.engine.secrecy import Secrecy
from conductorlite.engine.turns import Turns
from conductorlite.handlers import EventHandler
from conductorlite.payloads import open_payloads
from conductorlite.ports import Backend, Lock, PayloadCodec, PayloadStorage, SecretProvider

__all__ = ["Core"]


class Core:
    """An engine without verbs: see `conductorlite.Engine` for the arguments."""

    def __init__(
        self,
        store: str | os.PathLike[str] | Backend | None = None,
        *,
        clock: Clock | None = None,
        semantics: Semantics = Semantics.ORKES,
        environment: Mapping[str, str] | None = None,
        seed: str = "",
        ids: Callable[[], str] | None = None,
        lock: Lock | None = None,
        fencing: bool = True,
        bounds: Bounds | None = None,
        payloads: str | os.PathLike[str] | PayloadStorage | None = None,
        payload_codec: PayloadCodec | None = None,
        barriers: Barriers | None = None,
        secrets: SecretProvider | None = None,
    ) -> None:
        self.backend = _open(store)
        self.clock: Clock = clock or SystemClock()
        self.semantics = Semantics(semantics)
        self.seed = seed
        limits = bounds or Bounds()
        limits = limits if barriers is None else attrs.evolve(limits, barriers=barriers)
        storage = self.backend.payload_storage() if payloads is None else open_payloads(payloads)
        self.turns = Turns(
            self.backend,
            self.clock,
            environment=environment or {},
            bounds=limits,
            lock=lock,
            fencing=fencing,
            outside=Outside(self.backend, storage, payload_codec, limits.barriers),
        )
        #: Task definitions of the workers' decorators, by name.
        self.declared_task_defs: dict[str, TaskDef] = {}
        self._polls = Polls()
        self._secrecy = None if secrets is None else Secrecy(secrets)
        self._ids = ids or (lambda: str(uuid.uuid4()))
        self._embedded: Cache[Any, Any] = Cache(256)
        self._event_handlers: Cache[str, EventHandler] = Cache(256)
        self._stored_definitions: set[str] = set()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(workflow, history)` after every commit of this engine; returns a function that stops it.

        `workflow` is the row as decided, `history` what the turn added. At most once, in the committing thread, after the
        commit: it must be quick, and what it raises reaches the caller of the verb.
        """
        self.turns.listeners.append(listener)

        def stop() -> None:
            if listener in self.turns.listeners:
                self.turns.listeners.remove(listener)

        return stop

    def close(self) -> None:
        """Release the backend; idempotent."""
        self.backend.close()


def _open(store: str | os.PathLike[str] | Backend | None) -> Backend:
    # Imported on use: a program that keeps everything in memory never pays for sqlite3, and the other way round.
    if store is None:
        from conductorlite.backends.memory import MemoryBackend

        return MemoryBackend()
    if isinstance(store, str | os.PathLike):
        from conductorlite.backends.sqlite import SQLiteBackend

        return SQLiteBackend(store)
    return store
