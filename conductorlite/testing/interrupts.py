"""An exception between two instructions of a program, at a place that is drawn before: what Ctrl-C does, made to repeat.

Counted are the instructions of conductorlite, in all threads, and those of the standard library and of generated code below them;
not those of the program itself, of its worker functions and of this kit. Left out is what no program can repair: the import system,
`logging`, how `threading` keeps the list of its threads while one begins or ends (there no signal is ever delivered), and callbacks
of weak references, out of which nothing gets: one that is due there is raised after it. Nor is one between a value and its return,
unless it is that of a call.

`interrupt_everywhere`: a program, interrupted before any instruction of conductorlite, goes on with the same engine.

What Ctrl-C, an exception of a signal handler or MemoryError leaves is not what a dead process leaves: the engine lives on, with its
connections, its locks and its threads.
"""

from __future__ import annotations

import dis
import gc
import hashlib
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import count, pairwise
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Final

import attrs

from conductorlite.model.clock import VirtualClock
from conductorlite.model.threads import Block
from conductorlite.runtime.engine import Engine
from conductorlite.runtime.pool import Pool
from conductorlite.store.ports import Backend
from conductorlite.testing.crashes import Life, Rules
from conductorlite.testing.exploration.invariants import Invariant
from conductorlite.testing.faults import Store, StoreKind, some
from conductorlite.testing.scripted import ScriptedWorkers

__all__ = ["Instants", "interrupt_everywhere"]

_OURS: Final = str(Path(__file__).parent.parent)
_KIT: Final = str(Path(__file__).parent)
_LIBRARY: Final = str(Path(threading.__file__).parent)

#: Files and functions of the standard library that are left out, with all below them.
_LEFT_OUT: Final = ("/importlib/", "/logging/", "/site-packages/")
_THREADS: Final = frozenset(
    {"start", "_bootstrap", "_bootstrap_inner", "_delete", "_stop", "_set_ident", "_set_tstate_lock", "current_thread", "__init__"}
)

#: What is called when the referent of a weak reference goes: ours, and by file the standard library's.
_CALLBACKS: Final = frozenset({Block._dropped.__code__, Pool._gone.__code__, weakref.finalize.__call__.__code__})
_REMOVALS: Final = (weakref.__file__, weakref.WeakSet.__init__.__code__.co_filename)

#: Instructions that end a function.
_RETURNS: Final = ("RETURN_VALUE", "RETURN_CONST")

#: Which of them a code belongs to.
_COUNTED, _BELOW, _NOT = range(3)


class Instants:
    """While its block lasts, instructions are counted, and before the one with the number `at` (from 0) `error` is raised.

    `error` makes what is raised. It may also send the process a signal that a handler of the program answers, and return None.
    `number` is how many there were; `where` says where the exception was raised, None when it was not. Nothing else may trace
    the program meanwhile. The thread of the block is counted, and those that are started within it, together: which instruction
    has which number then differs from run to run. A thread that was there before, such as an idle worker's, is left alone.
    """

    def __init__(self, at: int | None = None, error: Callable[[], BaseException | None] = KeyboardInterrupt) -> None:
        self.at: Final = -1 if at is None else at
        self.where: str | None = None
        self._numbers = count()
        #: One entry until it is raised: taking it out is one step, so that only one thread does.
        self._due = [error]
        self._kinds: dict[CodeType, int] = {}
        self._active = False
        self._collecting = False
        #: The threads that were there before; the system's ids, because a thread's ident is used again at once.
        self._before: frozenset[int | None] = frozenset()
        self._traced: tuple[Any, Any] = (None, None)

    @property
    def number(self) -> int:
        """Number of instructions counted so far."""
        return int(repr(self._numbers)[6:-1])  # count(12)

    def __enter__(self) -> Instants:
        # What the collector calls it calls at instants of its own, and nothing gets out of it.
        self._collecting = gc.isenabled()
        gc.disable()
        self._before = frozenset(thread.native_id for thread in threading.enumerate()) - {threading.get_native_id()}
        self._active = True
        if sys.version_info >= (3, 12):
            _monitor(self)
        else:
            self._traced = sys.gettrace(), threading.gettrace()
            threading.settrace(self._called)
            sys.settrace(self._called)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._active = False
        if sys.version_info >= (3, 12):
            _end_monitoring()
        else:
            # What traced before, such as a count of coverage, goes on.
            sys.settrace(self._traced[0])
            threading.settrace(self._traced[1])
        if self._collecting:
            gc.enable()

    def step(self, frame: FrameType) -> None:
        """Count one instruction of a frame that is counted, and raise if it is the one, or the first after it that can be."""
        if next(self._numbers) >= self.at >= 0 and self._due and self._active and not _in_callback(frame):
            try:
                error = self._due.pop()
            except IndexError:  # another thread was quicker
                return
            self.where = f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name} @{frame.f_lasti}"
            raised = error()
            try:
                if raised is not None:
                    raise raised
            finally:
                del raised  # or this frame and the exception would keep one another, and all that the program's frames hold

    def leaves_alone(self) -> bool:
        """Return True if the asking thread was there before the block; before Python 3.12 such a one is not traced anyway."""
        return bool(self._before) and threading.get_native_id() in self._before

    def counts(self, frame: FrameType | None) -> bool:
        """Return True if the instructions of a frame are counted."""
        while frame is not None:
            kind = self.kind(frame.f_code)
            if kind != _BELOW:
                return kind == _COUNTED
            frame = frame.f_back
        return False

    def kind(self, code: CodeType) -> int:
        """Return the kind of a code: counted, counted below what is counted, or never."""
        found = self._kinds.get(code)
        if found is None:
            found = self._kinds[code] = _kind(code)
        return found

    def _called(self, frame: FrameType, event: str, _: object) -> Any:
        if not self._active or not self.counts(frame):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        returns = _returns(frame.f_code)

        def traced(frame: FrameType, event: str, _: object) -> Any:
            if event == "opcode" and frame.f_lasti not in returns:
                self.step(frame)
            return traced

        return traced


@cache
def _returns(code: CodeType) -> frozenset[int]:
    """Return where a code returns what it has at hand."""
    return frozenset(
        after.offset
        for before, after in pairwise(dis.get_instructions(code))
        if after.opname in _RETURNS and not before.opname.startswith("CALL")
    )


def _in_callback(frame: FrameType | None) -> bool:
    """Return True if a frame, or one that called it, belongs to the callback of a weak reference."""
    while frame is not None:
        code = frame.f_code
        if code in _CALLBACKS or (code.co_filename in _REMOVALS and code.co_name.lstrip("_") == "remove"):
            return True
        frame = frame.f_back
    return False


def _kind(code: CodeType) -> int:
    name = code.co_filename
    if name.startswith(_KIT):
        return _NOT
    if name.startswith(_OURS):
        return _COUNTED
    if any(part in name for part in _LEFT_OUT) or (name == threading.__file__ and code.co_name in _THREADS):
        return _NOT
    return _BELOW if name.startswith((_LIBRARY, "<attrs")) else _NOT


if sys.version_info >= (3, 12):
    _TOOL: Final = 4

    def _monitor(instants: Instants) -> None:
        monitoring = sys.monitoring
        events = monitoring.events

        def started(code: CodeType, _: int) -> object:
            if instants.kind(code) == _NOT:
                return monitoring.DISABLE
            if not monitoring.get_local_events(_TOOL, code):
                monitoring.set_local_events(_TOOL, code, events.INSTRUCTION)
            return None

        def instruction(code: CodeType, offset: int) -> object:
            if offset in _returns(code):
                return monitoring.DISABLE
            if instants.leaves_alone():
                return None
            frame = sys._getframe(1)
            if instants.kind(code) == _COUNTED or instants.counts(frame):
                instants.step(frame)
            return None

        monitoring.use_tool_id(_TOOL, "conductorlite.testing")
        monitoring.register_callback(_TOOL, events.PY_START, started)
        monitoring.register_callback(_TOOL, events.INSTRUCTION, instruction)
        monitoring.set_events(_TOOL, events.PY_START)
        monitoring.restart_events()

    def _end_monitoring() -> None:
        sys.monitoring.set_events(_TOOL, 0)
        sys.monitoring.register_callback(_TOOL, sys.monitoring.events.INSTRUCTION, None)
        sys.monitoring.register_callback(_TOOL, sys.monitoring.events.PY_START, None)
        sys.monitoring.free_tool_id(_TOOL)


#: How often a scenario is run until it takes as many instructions as before, at most.
_RUNS: Final = 6

#: Seconds in which another writer must have written.
_PATIENCE: Final = 10.0


def interrupt_everywhere(
    scenario: Callable[[Engine], object],
    script: Callable[[ScriptedWorkers], object] | None = None,
    *,
    stores: Iterable[StoreKind] = ("memory", "sqlite"),
    instants: int = 100,
    seed: int = 0,
    error: Callable[[], BaseException] = KeyboardInterrupt,
    invariants: Iterable[Invariant] = (),
    idempotent: Iterable[str] = (),
    **options: Any,
) -> int:
    """Interrupt the scenario at so many instants on each store, each time in a fresh one, and run it again with the same engine;
    returns how often it was interrupted.

    An instant is one before an instruction, uniform over all that conductorlite carries out, with what it calls of the
    standard library; the same `seed` draws the same ones. `error` makes what is raised there. `scenario`, `script`,
    `stores`, `invariants`, `idempotent` and `options` are as for `crash_everywhere`: every step must be one that may be repeated.
    A worker may be called again for the same attempt, so what it returns must not depend on how often it was called.

    Raises AssertionError unless each time: the exception comes out of the scenario, unless it is an Exception; while it is
    still kept, another writer can write to the store (another connection to a file, another thread in memory); run again,
    every execution ends with the same status and output as without an interruption; and no law and no invariant is broken.
    """
    interrupted, rules = 0, Rules.of(invariants, idempotent)
    for kind in some(stores, "store"):
        calm = _calm(partial(_Life, scenario, script, kind, options, rules))
        for number in range(instants):
            shaken = _Life(scenario, script, kind, options, rules)
            shaken.live(_drawn(f"{seed}:{getattr(kind, '__name__', kind)}:{number}", calm.number), error)
            if shaken.ends != calm.ends:
                where = f"store {kind}, interrupted at {shaken.where}"
                raise AssertionError(f"{where}: the executions ended {shaken.ends} instead of {calm.ends}")
            interrupted += shaken.where is not None
    return interrupted


def _calm(made: Callable[[], _Life]) -> _Life:
    """A run without an interruption that later ones are like: what is imported, compiled and remembered on first use is so."""
    number = -1
    for _ in range(_RUNS):
        calm = made()
        calm.live(None, KeyboardInterrupt)
        if calm.number == number:
            break
        number = calm.number
    return calm


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
                self._end(engine, workers)

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

    def _end(self, engine: Engine, workers: ScriptedWorkers) -> None:
        findings = [*map(str, engine.admin.check()), *self._broken(engine, workers, over=True)]
        if findings:
            raise AssertionError("\n".join([f"store {self._kind}, interrupted at {self.where}: laws do not hold", *findings]))
        for workflow_id in engine.admin.workflow_ids():
            workflow = engine.get(workflow_id)
            self.ends[workflow_id] = (str(workflow.status), workflow.output_data)


def _write(backend: Backend, *, close: bool) -> None:
    """Write to the store as another writer; raises AssertionError when it takes too long."""
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
