"""What all families of verbs share: the backend, the clock, the turns."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Literal

import attrs

from conductorlite.decide.draft.barriers import Barriers
from conductorlite.decide.draft.view import Bounds
from conductorlite.engine.cache import Cache
from conductorlite.engine.driven_time import Driven
from conductorlite.engine.holders import Holding
from conductorlite.engine.keys import Polls
from conductorlite.engine.payloads import Outside
from conductorlite.engine.secrets import Secrecy
from conductorlite.engine.turn_types import Listener
from conductorlite.engine.turns import Turns
from conductorlite.model.clock import Clock, SystemClock
from conductorlite.model.definitions import Semantics, TaskDef
from conductorlite.model.errors import EngineClosed, InvalidInput, StorageError
from conductorlite.model.executions import Task
from conductorlite.model.handlers import EventHandler
from conductorlite.store.payloads import open_payloads
from conductorlite.store.ports import Backend, Lock, PayloadCodec, PayloadStorage, SecretProvider

__all__ = ["Core", "checked_name", "new_upload_name"]

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")


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
        name: str | None = None,
        allocation: Literal["shared", "local"] = "shared",
        downtime_counts: bool = False,
    ) -> None:
        #: The process in which it was opened; see `one_process`.
        self._pid = os.getpid()
        self.name = checked_name(name, allocation)
        #: To whom belongs what this engine starts, and whose turns and tasks it takes; empty: everybody's.
        self.owner = self.name or "" if allocation == "local" else ""
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
        #: For how long the store was driven.
        self.driven = self.turns.driven = Driven(self.backend, self.clock, self.owner, downtime_counts=downtime_counts)
        #: Whether documents past the soft barrier lie where the backend puts them by itself.
        self._documents_beside = payloads is None
        #: Task definitions of the workers' decorators, by name.
        self.declared_task_defs: dict[str, TaskDef] = {}
        #: What its own workers have in hand.
        self.holding = Holding(self.turns, self.owner)
        self._polls = Polls()
        #: Tasks that were taken, perhaps, and that nobody got.
        self._owed: list[Task] = []
        self._secrecy = None if secrets is None else Secrecy(secrets, environment or {})
        self._ids = ids or (lambda: str(uuid.uuid4()))
        self._embedded: Cache[Any, Any] = Cache(256)
        self._event_handlers: Cache[str, EventHandler] = Cache(256)
        self._stored_definitions: set[str] = set()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(workflow, history)` after every commit of this engine; returns a function that stops it.

        `workflow` is the row as decided, `history` what the turn added. At most once, in the committing thread, after the
        commit: it must be quick, and what it raises is logged (`conductorlite.listeners`), for the commit stands.
        """
        self.turns.listeners.append(listener)

        def stop() -> None:
            if listener in self.turns.listeners:
                self.turns.listeners.remove(listener)

        return stop

    def close(self) -> None:
        """Release the backend; idempotent."""
        try:
            with suppress(StorageError, EngineClosed):
                self.driven.note()
        finally:
            self.backend.close()


def checked_name(name: str | None, allocation: str) -> str | None:
    """The name of an engine; raises InvalidInput for one that is no name, or missing where executions are kept under it."""
    if allocation not in ("shared", "local"):
        raise InvalidInput(f"allocation is shared or local, not {allocation!r:.80}")
    if name is None and allocation == "local":
        raise InvalidInput("an engine with allocation='local' needs a name, the same whenever it is started")
    if name is not None and (not isinstance(name, str) or not _NAME.fullmatch(name)):
        raise InvalidInput(f"an engine's name is 1 to 100 letters, digits, `_`, `.` and `-`, not {name!r:.80}")
    return name


def new_upload_name() -> str:
    """32 hex digits that nobody can guess: whoever knows the path of an upload can report it."""
    return uuid.uuid4().hex


def _open(store: str | os.PathLike[str] | Backend | None) -> Backend:
    # Imported on use: a program that keeps everything in memory never pays for sqlite3, and the other way round.
    if store is None:
        from conductorlite.store.memory.backend import MemoryBackend

        return MemoryBackend()
    if isinstance(store, str | os.PathLike):
        from conductorlite.store.sqlite.backend import SQLiteBackend

        return SQLiteBackend(store)
    return store
