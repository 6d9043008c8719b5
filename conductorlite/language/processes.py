"""The helper processes: started when they are needed, kept while they are idle, replaced when they have died."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar, copy_context
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from conductorlite.model import attrs
from conductorlite.model.errors import ExpressionFailed, InvalidExpression, NoHelper
from conductorlite.model.later import module, pattern
from conductorlite.model.threads import Mutex, carried

if TYPE_CHECKING:
    import atexit
    import signal
    import subprocess
else:
    atexit = module("atexit")
    signal = module("signal")
    subprocess = module("subprocess")

__all__ = [
    "Language",
    "Limits",
    "ScriptCut",
    "ScriptTimedOut",
    "TextCut",
    "granted",
    "in_process",
    "installed",
    "patience",
    "remembered",
    "run_script",
    "tried",
]

Language = Literal["javascript", "jq"]

#: Idle helpers that are kept; more run at the same time when more threads ask.
_KEPT: Final = 2
_CHILD: Final = f"{__file__.rpartition(os.sep)[0]}{os.sep}child.py"
_MODULES: Final[Mapping[Language, str]] = {"javascript": "_quickjs", "jq": "jq"}
#: The part of its time that a script has before it is tried again alone.
_FIRST: Final = 0.4
#: How much longer a script may take when it is known to have ended.
_PATIENCE: Final = 20
_patient: Final = ContextVar("_patient", default=False)
_alone_here: Final = ContextVar("_alone_here", default=False)
#: Answers kept, and the longest of them; they are forgotten together.
_ANSWERS: Final = 128
_ANSWER_LENGTH: Final = 64 * 1024
_LINE: Final = pattern(r"<input>:(\d+)")


@attrs.frozen(kw_only=True, slots=True)
class Limits:
    """Bounds of one request: seconds of processor time, bytes of memory of its process, characters of its results."""

    seconds: float = 0.6
    memory_bytes: int = 224 * 1024 * 1024
    output_characters: int = 4 * 1024 * 1024


class ScriptCut(ExpressionFailed):
    """A script was ended by a bound: its time, its memory, its process; internal. Another machine might have let it end."""


class TextCut(InvalidExpression, ScriptCut):
    """A bound ended the compiling of a script; internal."""


class ScriptTimedOut(ScriptCut):
    """A script ran into its time limit; internal: an operator may try again, to others it is an ExpressionFailed."""


class _Died(Exception):
    """A helper ended without an answer; internal. `code` is as subprocess reports it."""

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
        reply: dict[str, Any] = json.loads(answer)
        return reply

    def end(self) -> int:
        """Close the pipes and wait for the process, which is stopped if it goes on."""
        self._close_pipes()
        try:
            return self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def forget(self) -> None:
        """Let go of a helper that is another process's: this one was forked from its parent."""
        self.process.returncode = 0
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


#: Idle helpers per language and bounds. Taking one and putting one back are single steps, so no lock is needed.
_idle: dict[tuple[Language, Limits], deque[_Helper]] = {}
#: The latest answers by request.
_answers: dict[bytes, str | ExpressionFailed | None] = {}
_UNANSWERED: Final = object()
#: Held by what is tried again alone.
_alone = Mutex()


def installed(language: Language) -> bool:
    """Whether the module that carries out scripts of a language is there."""
    return _folder(language) is not None


def run_script(language: Language, request: Mapping[str, Any], limits: Limits) -> str | None:
    """What a helper answers to a request, see `child`; None to one that only compiles.

    A request that takes too long under a part of its time is tried once more with all of it, alone and in a fresh process,
    before that is an answer. Raises ScriptTimedOut then, ExpressionFailed with the script's own words, or when another bound
    is reached.
    """
    limits = attrs.evolve(limits, seconds=granted(limits.seconds))
    line = json.dumps(request).encode() + b"\n"
    key = hashlib.sha256(f"{language} {limits}\n".encode() + line).digest()
    return remembered(key, lambda: _tried(language, line, limits))


T = TypeVar("T")


def patience(patient: bool) -> contextlib.AbstractContextManager[None]:
    """Within it, when `patient`, scripts have many times their time: what ended once, on whatever machine, ends again."""
    return carried(_patient, patient)


def in_process(ask: Callable[[], T], *, patient: bool) -> T:
    """What is answered without any helper, within `patience`; what needs one raises NoHelper."""
    return copy_context().run(_in_process, ask, patient)


def _in_process(ask: Callable[[], T], patient: bool) -> T:
    _alone_here.set(True)
    _patient.set(patient)
    return ask()


def granted(seconds: float) -> float:
    """How long a script may take of which so many seconds are asked."""
    return seconds * (_PATIENCE if _patient.get() else 1)


def remembered(key: bytes, ask: Callable[[], str | None]) -> str | None:
    """The answer to a request, or the ExpressionFailed it ended with, asked for once as long as it is kept.

    A turn that was fenced out is decided again: it must not wait again, above all not for what took too long.
    """
    known: Any = _answers.get(key, _UNANSWERED)  # one step: another thread may forget all of them
    answer: str | ExpressionFailed | None = known
    if known is _UNANSWERED:
        if _alone_here.get():
            raise NoHelper
        try:
            answer = ask()
        except ExpressionFailed as failed:
            answer = failed
        if not isinstance(answer, str) or len(answer) <= _ANSWER_LENGTH:
            if len(_answers) >= _ANSWERS:
                _answers.clear()
            _answers[key] = answer
    if isinstance(answer, ExpressionFailed):
        raise answer.with_traceback(None)
    return answer


def tried(seconds: float, ask: Callable[[float, bool], str | None]) -> str | None:
    """What `ask` answers within a part of the seconds; when that is not enough, within all of them, and alone: True."""
    _tidy_later()
    try:
        return ask(seconds * _FIRST, False)
    except ScriptTimedOut:
        with _alone.held():
            return ask(seconds, True)


def _tried(language: Language, line: bytes, limits: Limits) -> str | None:
    return tried(limits.seconds, lambda seconds, alone: _ask(language, line, attrs.evolve(limits, seconds=seconds), fresh=alone))


def _ask(language: Language, line: bytes, limits: Limits, *, fresh: bool) -> str | None:
    idle = _idle.setdefault((language, limits), deque())
    while True:
        try:
            if fresh:
                raise IndexError
            helper = idle.pop()
        except IndexError:
            helper = _start(language, limits)
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
        if fresh or answer["spent"] or len(idle) >= _KEPT:
            helper.end()
        else:
            idle.append(helper)
        if "late" in answer:
            raise _late(limits, answer["late"])
        if "cut" in answer:
            raise ScriptCut(answer["cut"])
        if "error" in answer:
            raise ExpressionFailed(answer["error"])
        found: str | None = answer.get("answer")
        return found


def _folder(language: Language) -> str | None:
    from importlib.util import find_spec

    spec = find_spec(_MODULES[language])
    return None if spec is None or spec.origin is None else spec.origin.rpartition(os.sep)[0]


def _start(language: Language, limits: Limits) -> _Helper:
    bounds = {"seconds": limits.seconds, "bytes": limits.memory_bytes, "output": limits.output_characters}
    # Isolated from the user's environment and folders; a session of its own, so that ^C is for the program and not for it.
    command = [sys.executable, "-I", "-S", _CHILD, language, _folder(language) or "", json.dumps(bounds)]
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
        raise ExpressionFailed(f"no process can be started to run {language} in: {error}") from None
    return _Helper(process)


def _out_of_time(code: int) -> bool:
    # Where there is no SIGPROF, the watch leaves with 1.
    return -code == signal.SIGPROF if hasattr(signal, "SIGPROF") else code == 1


def _late(limits: Limits, where: str) -> ScriptTimedOut:
    line = _LINE.search(where)
    place = f" at line {line[1]}" if line is not None and len(line[1]) < 6 else ""
    return ScriptTimedOut(f"the script takes longer than {limits.seconds:g} seconds{place}")


def _why(code: int, limits: Limits) -> ExpressionFailed:
    if _out_of_time(code):
        return _late(limits, "")
    if -code == signal.SIGABRT:
        return ScriptCut(f"the script needs more than {limits.memory_bytes:,} bytes of memory")
    ended = f"by signal {-code}" if code < 0 else f"with code {code}"
    return ScriptCut(f"the process that ran the script was ended {ended}")


def _end_all() -> None:
    for helpers in list(_idle.values()):
        while helpers:
            helpers.pop().end()


def _forget_all() -> None:
    global _alone
    _alone = Mutex()  # another thread may have held it
    for helpers in _idle.values():
        while helpers:
            helpers.pop().forget()


@cache
def _tidy_later() -> None:
    """Once, with the first script: importing this module does nothing."""
    atexit.register(_end_all)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forget_all)
