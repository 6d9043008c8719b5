"""`interrupt_everywhere`: a program, interrupted before any instruction of conductorlite, goes on with the same engine.

What Ctrl-C, an exception of a signal handler or MemoryError leaves is not what a dead process leaves: the engine lives on, with its
connections, its locks and its threads.
"""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import attrs

from conductorlite.clock import VirtualClock
from conductorlite.driver import Engine
from conductorlite.ports import Backend
from conductorlite.testing.instants import Instants
from conductorlite.testing.lives import Life
from conductorlite.testing.scripted import ScriptedWorkers
from conductorlite.testing.stores import Store, StoreKind

__all__ = ["interrupt_everywhere"]

#: Seconds in which somebody else must have written.
_PATIENCE: Final = 10.0


def interrupt_everywhere(
    scenario: Callable[[Engine], object],
    script: Callable[[ScriptedWorkers], object] | None = None,
    *,
    stores: Iterable[StoreKind] = ("memory", "sqlite"),
    instants: int = 100,
    seed: int = 0,
    error: Callable[[], BaseException] = KeyboardInterrupt,
    **options: Any,
) -> int:
    """Interrupt the scenario at so many instants on each store, each time in a fresh one, and run it again with the same engine;
    returns how often it was interrupted.

    An instant is one before an instruction, uniform over all that conductorlite carries out, with what it calls of the
    standard library; the same `seed` draws the same ones. `error` makes what is raised there. `scenario`, `script`,
    `stores` and `options` are as for `crash_everywhere`: every step must be one that may be repeated. A worker may be
    called again for the same attempt, so let what it returns not hang on how often it was called.

    Raises AssertionError unless each time: the exception comes out of the scenario, unless it is an Exception; while it is
    still kept, somebody else can write to the store (another connection to a file, another thread in memory); run again,
    every execution ends with the same status and output as without an interruption; and no law is broken.
    """
    interrupted = 0
    for kind in stores:
        for _ in range(2):  # what is imported and compiled on first use is so from the second time on
            calm = _Life(scenario, script, kind, options)
            calm.live(None, error)
        for number in range(instants):
            shaken = _Life(scenario, script, kind, options)
            shaken.live(_drawn(f"{seed}:{getattr(kind, '__name__', kind)}:{number}", calm.number), error)
            if shaken.ends != calm.ends:
                where = f"store {kind}, interrupted at {shaken.where}"
                raise AssertionError(f"{where}: the executions ended {shaken.ends} instead of {calm.ends}")
            interrupted += shaken.where is not None
    return interrupted


def _drawn(text: str, below: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % below


@attrs.define(slots=True, eq=False)
class _Life(Life):
    """One run of the scenario on a fresh store, with at most one interruption."""

    number: int = attrs.field(init=False, default=0)
    where: str | None = attrs.field(init=False, default=None)
    ends: dict[str, object] = attrs.field(init=False, factory=dict)

    def live(self, at: int | None, error: Callable[[], BaseException]) -> None:
        """Run the scenario, and again if it was interrupted."""
        with tempfile.TemporaryDirectory() as folder:
            store = Store(self._kind, lambda: Path(folder))
            workers = self._workers()
            backend = store.inner()
            with Engine(backend, workers=workers, clock=VirtualClock(), **self._options) as engine:
                if at is None:
                    with Instants() as instants:
                        self._scenario(engine)
                    self.number = instants.number
                else:
                    self._interrupt(engine, backend, store, at, error)
                self._end(engine)

    def _interrupt(self, engine: Engine, backend: Backend, store: Store, at: int, error: Callable[[], BaseException]) -> None:
        kept: BaseException | None = None
        with Instants(at, error) as instants:
            try:
                self._scenario(engine)
            except BaseException as raised:
                kept = raised
        self.where = instants.where
        try:
            # An Exception may be taken for one of what was being done, such as a worker's.
            if kept is None and self.where is not None and not isinstance(error(), Exception):
                raise AssertionError("the exception did not come out")
            _write(backend if store.in_memory else store.inner(), close=not store.in_memory)
            self._scenario(engine)
        except BaseException as wrong:
            wrong.add_note(f"store {self._kind}, interrupted at {self.where} (instruction {at}) by {kept!r}")
            raise

    def _end(self, engine: Engine) -> None:
        findings = [str(finding) for finding in engine.check()]
        if findings:
            raise AssertionError("\n".join([f"store {self._kind}, interrupted at {self.where}: laws do not hold", *findings]))
        for workflow_id in engine.workflow_ids():
            workflow = engine.get(workflow_id)
            self.ends[workflow_id] = (str(workflow.status), workflow.output_data)


def _write(backend: Backend, *, close: bool) -> None:
    """Write to the store as somebody else; raises AssertionError when it takes too long."""
    written: list[bool] = []

    def write() -> None:
        with backend.writing():
            written.append(True)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    if not written:
        raise AssertionError("nobody else can write")
    if close:
        backend.close()
