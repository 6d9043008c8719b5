"""An exception between two instructions of a program, at a place that is drawn before: what Ctrl-C does, made to repeat.

Counted are the instructions of conductorlite, in all threads, and those of the standard library and of generated code below them;
not those of the program itself, of its worker functions and of this kit. Left out is what no program can repair: the import system,
`logging`, and how `threading` keeps the list of its threads while one begins or ends (there no signal is ever delivered). Nor is
one between a value and its return, unless it is that of a call.
"""

from __future__ import annotations

import dis
import gc
import sys
import threading
from collections.abc import Callable
from functools import cache
from itertools import count, pairwise
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Final

__all__ = ["Instants"]

_OURS: Final = str(Path(__file__).parent.parent)
_KIT: Final = str(Path(__file__).parent)
_LIBRARY: Final = str(Path(threading.__file__).parent)

#: Files and functions of the standard library that are left out, with all below them.
_LEFT_OUT: Final = ("/importlib/", "/logging/", "/site-packages/")
_THREADS: Final = frozenset(
    {"start", "_bootstrap", "_bootstrap_inner", "_delete", "_stop", "_set_ident", "_set_tstate_lock", "current_thread", "__init__"}
)

#: Instructions that end a function.
_RETURNS: Final = ("RETURN_VALUE", "RETURN_CONST")

#: Which of them a code belongs to.
_COUNTED, _BELOW, _NOT = range(3)


class Instants:
    """While its block lasts, instructions are counted, and before the one with the number `at` (from 0) `error` is raised.

    `number` is how many there were; `where` tells where the exception was raised, None when it was not. Nothing else may trace
    the program meanwhile. Several threads are counted together: which instruction has which number then differs from run to run.
    """

    def __init__(self, at: int | None = None, error: Callable[[], BaseException] = KeyboardInterrupt) -> None:
        self.at: Final = -1 if at is None else at
        self.where: str | None = None
        self._error = error
        self._numbers = count()
        self._kinds: dict[CodeType, int] = {}
        self._active = False
        self._collecting = False

    @property
    def number(self) -> int:
        """How many instructions were counted so far."""
        return int(repr(self._numbers)[6:-1])  # count(12)

    def __enter__(self) -> Instants:
        # What the collector calls it calls at instants of its own, and nothing gets out of it.
        self._collecting = gc.isenabled()
        gc.disable()
        self._active = True
        if sys.version_info >= (3, 12):
            _monitor(self)
        else:
            threading.settrace(self._called)
            sys.settrace(self._called)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._active = False
        if sys.version_info >= (3, 12):
            _end_monitoring()
        else:
            sys.settrace(None)
            threading.settrace(None)
        if self._collecting:
            gc.enable()

    def step(self, frame: FrameType) -> None:
        """Count one instruction of a frame that is counted, and raise if it is the one."""
        if next(self._numbers) == self.at and self._active:
            self.where = f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name} @{frame.f_lasti}"
            raise self._error()

    def counts(self, frame: FrameType | None) -> bool:
        """Whether the instructions of a frame are counted."""
        while frame is not None:
            kind = self.kind(frame.f_code)
            if kind != _BELOW:
                return kind == _COUNTED
            frame = frame.f_back
        return False

    def kind(self, code: CodeType) -> int:
        """Whether a code is counted, counted below what is counted, or never."""
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
    """Where a code returns what it has at hand."""
    return frozenset(
        after.offset
        for before, after in pairwise(dis.get_instructions(code))
        if after.opname in _RETURNS and not before.opname.startswith("CALL")
    )


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
