"""The helper processes: started when they are needed, kept while they are idle, replaced when they have died."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections import deque
from functools import cache
from pathlib import Path
from typing import Any, Final

import attrs

from conductorlite.errors import ExpressionFailed

__all__ = ["Limits", "jq_installed", "run_jq"]

#: Idle helpers that are kept; more run at the same time when more threads ask.
_KEPT: Final = 2
_CHILD: Final = Path(__file__).with_name("jq_child.py")


@attrs.frozen(kw_only=True, slots=True)
class Limits:
    """Bounds of one request: seconds of processor time, bytes of memory of its process, characters of its results."""

    seconds: float = 1.5
    memory_bytes: int = 256 * 1024 * 1024
    output_characters: int = 32 * 1024 * 1024


class TookTooLong(ExpressionFailed):
    """A helper was ended by its watch; internal: to others, an ExpressionFailed."""


class _Died(Exception):
    """A helper ended without an answer; internal. `code` is as subprocess tells it."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@attrs.define(eq=False)
class _Helper:
    process: subprocess.Popen[bytes]
    used: bool = False

    def ask(self, line: bytes) -> dict[str, Any]:
        """Send a request and wait for the answer; raises _Died."""
        stdin, stdout = self.process.stdin, self.process.stdout
        answer = b""
        if stdin is not None and stdout is not None:
            with contextlib.suppress(OSError):
                stdin.write(line)
                stdin.flush()
                answer = stdout.readline()
        if not answer.endswith(b"\n"):
            raise _Died(self.end())
        self.used = True
        told: dict[str, Any] = json.loads(answer)
        return told

    def end(self) -> int:
        """Close the pipes and wait for the process, which is stopped if it goes on."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            return self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def forget(self) -> None:
        """Let go of a helper that is another process's: this one was forked from its parent."""
        self.process.returncode = 0
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


#: Idle helpers per bounds. Taking one and putting one back are single steps, so no lock is needed.
_idle: dict[Limits, deque[_Helper]] = {}


def jq_installed() -> bool:
    """Whether the extra `jq` is there."""
    return _folder() is not None


def run_jq(program: str, document: str | None, now: float, limits: Limits) -> str | None:
    """The results of a program over a document, both JSON text: one array; without a document it is only compiled (None).

    `now` is what its clock says, in seconds. Raises ExpressionFailed with jq's own words, or when a bound is reached.
    """
    request = {"program": program, "run": document is not None, "now": now, "input": document}
    line = json.dumps(request).encode() + b"\n"
    idle = _idle.setdefault(limits, deque())
    while True:
        try:
            helper = idle.pop()
        except IndexError:
            helper = _start(limits)
        try:
            answer = helper.ask(line)
        except _Died as died:
            # It may have died before this request, or of what came before it: only a fresh one's death says something.
            if helper.used and not _out_of_time(died.code):
                continue
            raise _why(died.code, limits) from None
        except BaseException:
            helper.process.kill()
            helper.end()
            raise
        if answer["spent"] or len(idle) >= _KEPT:
            helper.end()
        else:
            idle.append(helper)
        if "error" in answer:
            raise ExpressionFailed(answer["error"])
        return answer.get("results")


def _folder() -> str | None:
    spec = importlib.util.find_spec("jq")
    return None if spec is None or spec.origin is None else str(Path(spec.origin).parent)


def _start(limits: Limits) -> _Helper:
    _tidy_later()
    bounds = {"seconds": limits.seconds, "bytes": limits.memory_bytes, "output": limits.output_characters}
    # Isolated from the user's environment and folders; a session of its own, so that ^C is for the program and not for it.
    command = [sys.executable, "-I", "-S", str(_CHILD), _folder() or "", json.dumps(bounds)]
    kept = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**kept, "TZ": "UTC"},
            start_new_session=True,
        )
    except OSError as error:
        raise ExpressionFailed(f"no process can be started to run jq in: {error}") from None
    return _Helper(process)


def _out_of_time(code: int) -> bool:
    # Where there is no SIGPROF, the watch leaves with 1.
    return -code == signal.SIGPROF if hasattr(signal, "SIGPROF") else code == 1


def _why(code: int, limits: Limits) -> ExpressionFailed:
    if _out_of_time(code):
        return TookTooLong(f"the program takes longer than {limits.seconds:g} seconds")
    if -code == signal.SIGABRT:
        return ExpressionFailed(f"the program needs more than {limits.memory_bytes:,} bytes of memory")
    ended = f"by signal {-code}" if code < 0 else f"with code {code}"
    return ExpressionFailed(f"the process that ran the program was ended {ended}")


def _end_all() -> None:
    for helpers in list(_idle.values()):
        while helpers:
            helpers.pop().end()


def _forget_all() -> None:
    for helpers in _idle.values():
        while helpers:
            helpers.pop().forget()


@cache
def _tidy_later() -> None:
    """Once, with the first helper: importing this module does nothing."""
    atexit.register(_end_all)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forget_all)
