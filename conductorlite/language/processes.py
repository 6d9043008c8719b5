"""The helper processes: started when they are needed, kept while they are idle, replaced when they have died.

A request that is not answered soon has the priority of its process lowered: other requests, and this process, come first. One that
a caller in haste does not wait for (`haste`) goes on; who asks the same again waits for its answer.
"""

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

import attrs

from conductorlite.language.haste import LATER_S, SOON_S, Hurry, hurry
from conductorlite.model.errors import ExpressionFailed, InvalidExpression, NoHelper, NoThread, TakesLong
from conductorlite.model.later import module, pattern
from conductorlite.model.threads import Waiter, carried, started

if TYPE_CHECKING:
    import atexit
    import select
    import signal
    import subprocess
else:
    atexit = module("atexit")
    select = module("select")
    signal = module("signal")
    subprocess = module("subprocess")

__all__ = [
    "Language",
    "Limits",
    "ScriptCut",
    "ScriptTimedOut",
    "TextCut",
    "chance_of",
    "granted",
    "in_process",
    "in_thread",
    "installed",
    "patience",
    "remembered",
    "remembering",
    "run_script",
]

Language = Literal["javascript", "jq"]

#: Idle helpers that are kept; more run at the same time when more threads ask.
_KEPT: Final = 2
_CHILD: Final = f"{__file__.rpartition(os.sep)[0]}{os.sep}child.py"
_MODULES: Final[Mapping[Language, str]] = {"javascript": "_quickjs", "jq": "jq"}
#: How much longer a script may take when it is known to have ended.
_PATIENCE: Final = 20
_patient: Final = ContextVar("_patient", default=False)
_alone_here: Final = ContextVar("_alone_here", default=False)
_own_answers: Final = ContextVar["dict[bytes, str | ExpressionFailed | None] | None"]("_own_answers", default=None)
#: Answers kept, by the process and within `remembering`, and the longest of them; they are forgotten together.
_ANSWERS: Final = 128
_ANSWERS_OF_ONE: Final = 20_000
_ANSWER_LENGTH: Final = 64 * 1024
#: How long a request has the priority of this process, in seconds, and what is added to its niceness then.
_SWIFT_S: Final = 0.05
_NICER: Final = 15
#: Texts of which it is known how long they took last, and requests that go on without anybody who waits: how many are kept.
_KNOWN: Final = 1_024
_UNFINISHED: Final = 16
_LINE: Final = pattern(r"<input>:(\d+)")


# The key of a request holds its repr.
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


@attrs.define(eq=False, repr=False)
class _Helper:
    process: subprocess.Popen[bytes]
    used: bool = False
    #: Whether it has said that it is ready, and whether its priority was lowered.
    ready: bool = False
    slow: bool = False

    def ask(self, line: bytes) -> None:
        """Send a request, once the process is ready; raises _Died."""
        stdin, stdout = self.process.stdin, self.process.stdout
        with contextlib.suppress(OSError):
            if stdin is not None and stdout is not None and (self.ready or stdout.readline()):
                self.ready = True
                stdin.write(line)
                stdin.flush()
                return
        raise _Died(self.end())

    def answers_within(self, seconds: float) -> bool:
        """Return True if the answer to a request, or the end of the process, comes in time, or that cannot be known."""
        stdout = self.process.stdout
        if stdout is None or not hasattr(select, "poll"):
            return True
        polled = select.poll()
        polled.register(stdout, select.POLLIN)
        return bool(polled.poll(seconds * 1_000))

    def answer(self) -> dict[str, Any]:
        """Wait for the answer; raises _Died."""
        answer = b""
        if self.process.stdout is not None:
            with contextlib.suppress(OSError):
                answer = self.process.stdout.readline()
        if not answer.endswith(b"\n"):
            raise _Died(self.end())
        self.used = True
        reply: dict[str, Any] = json.loads(answer)
        return reply

    def come_later(self) -> None:
        """Lower the priority of the process for good, where the system has such a thing."""
        self.slow = True
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, self.process.pid, os.getpriority(os.PRIO_PROCESS, 0) + _NICER)

    def stop(self) -> None:
        """End it at once."""
        self.process.kill()
        self.end()

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
#: Digests of texts that were not answered soon when they were last asked, and of those that were.
_slow: dict[bytes, None] = {}
_swift: dict[bytes, None] = {}
#: Requests that nobody waits for at present, by key.
_unfinished: dict[bytes, _Helper | _Thread] = {}


def installed(language: Language) -> bool:
    """Return True if the module that carries out scripts of a language is there."""
    return _folder(language) is not None


def run_script(language: Language, request: Mapping[str, Any], limits: Limits) -> str | None:
    """Return what a helper answers to a request, see `child`; None to one that only compiles.

    Raises ScriptTimedOut when its time is over, ExpressionFailed with the script's own words, or when another bound is reached;
    in haste TakesLong.
    """
    limits = attrs.evolve(limits, seconds=granted(limits.seconds))
    line = json.dumps(request).encode() + b"\n"
    key = hashlib.sha256(f"{language} {limits}\n".encode() + line).digest()
    text = hashlib.sha256(f"{language} {request['run']}\n{request['text']}".encode(errors="replace")).digest()
    return remembered(key, lambda: _ask(language, line, limits, key, text))


T = TypeVar("T")


def patience(patient: bool) -> contextlib.AbstractContextManager[None]:
    """Within it, when `patient`, scripts have many times their time: what ended once, on whatever machine, ends again."""
    return carried(_patient, patient)


def remembering() -> contextlib.AbstractContextManager[None]:
    """Within it, answers are kept apart from those of others, and many more of them; and those of all tasks together."""
    return carried(_own_answers, {})


def chance_of(seed: str, *, draws: bool) -> str:
    """Return the seed that a script is given: within `remembering`, none for one that does not draw by chance.

    Elsewhere each task has its own, drawn from or not: a script that a bound ended for one task is run again for the next.
    """
    return seed if draws or _own_answers.get() is None else ""


def in_process(ask: Callable[[], T], *, patient: bool) -> T:
    """Return what is answered without any helper, within `patience`; what needs one raises NoHelper."""
    return copy_context().run(_in_process, ask, patient)


def _in_process(ask: Callable[[], T], patient: bool) -> T:
    _alone_here.set(True)
    _patient.set(patient)
    return ask()


def granted(seconds: float) -> float:
    """Return how long a script may take of which so many seconds are asked."""
    return seconds * (_PATIENCE if _patient.get() else 1)


def remembered(key: bytes, ask: Callable[[], str | None]) -> str | None:
    """The answer to a request, or the ExpressionFailed it ended with, asked for once as long as it is kept.

    A turn that was fenced out is decided again: it must not wait again, above all not for what took too long.
    """
    own = _own_answers.get()
    answers, most = (_answers, _ANSWERS) if own is None else (own, _ANSWERS_OF_ONE)
    known: Any = answers.get(key, _UNANSWERED)  # one step: another thread may forget all of them
    answer: str | ExpressionFailed | None = known
    if known is _UNANSWERED:
        if _alone_here.get():
            raise NoHelper
        try:
            answer = ask()
        except ExpressionFailed as failed:
            answer = failed
        if not isinstance(answer, str) or len(answer) <= _ANSWER_LENGTH:
            if len(answers) >= most:
                answers.clear()
            answers[key] = answer
    if isinstance(answer, ExpressionFailed):
        raise answer.with_traceback(None)
    return answer


class _Thread:
    """A request that a thread carries out, because nothing else could stop waiting for it."""

    def __init__(self, ask: Callable[[], str | None]) -> None:
        self._ask = ask
        self._answer: str | None = None
        self._failed: BaseException | None = None
        self._over = Waiter()
        started(self._run, name="conductorlite-script")

    def _run(self) -> None:
        try:
            self._answer = self._ask()
        except BaseException as error:  # of who waits for it
            self._failed = error
        finally:
            self._over.wake()

    def answers_within(self, seconds: float | None) -> bool:
        """Return True if it is over in time."""
        if self._over.wait(seconds):
            self._over.wake()  # for who looks next
            return True
        return False

    def answer(self) -> str | None:
        """Wait for the answer; raises what asking for it has raised."""
        self.answers_within(None)
        if self._failed is not None:
            raise self._failed.with_traceback(None)
        return self._answer


def in_thread(key: bytes, text: str, ask: Callable[[], str | None]) -> str | None:
    """Return what `ask` answers to a request with that key, for a language whose processes are not ours; in haste, TakesLong."""
    now, begun = hurry(), _unfinished.pop(key, None)
    digest = hashlib.sha256(text.encode(errors="replace")).digest()
    if now is None:
        return begun.answer() if isinstance(begun, _Thread) else ask()
    thread = begun if isinstance(begun, _Thread) else None
    if thread is None and digest not in _slow:
        try:
            thread = _Thread(ask)
        except NoThread:
            return ask()
    if thread is not None and thread.answers_within(_soon(digest)):
        _note(digest, into=_swift, out_of=_slow)
        return thread.answer()
    if thread is not None:
        _leave(key, digest, thread)
    raise TakesLong(tried=True)


def _leave(key: bytes, text: bytes, request: _Helper | _Thread) -> None:
    """Let a request go on that nobody waits for; of too many the oldest helper is ended."""
    _note(text, into=_slow, out_of=_swift)
    _unfinished[key] = request
    while len(_unfinished) > _UNFINISHED:
        oldest = _unfinished.pop(next(iter(_unfinished)), None)
        if isinstance(oldest, _Helper):
            oldest.stop()


def _note(text: bytes, *, into: dict[bytes, None], out_of: dict[bytes, None]) -> None:
    out_of.pop(text, None)
    if len(into) >= _KNOWN:
        into.clear()
    into[text] = None


def _soon(text: bytes) -> float:
    """Return how long a caller in haste waits for a text, s."""
    return LATER_S if text in _swift else SOON_S


def _ask(language: Language, line: bytes, limits: Limits, key: bytes, text: bytes) -> str | None:
    _tidy_later()
    idle = _idle.setdefault((language, limits), deque())
    now, begun = hurry(), _unfinished.pop(key, None)
    while True:
        helper = begun if isinstance(begun, _Helper) else _helper(language, limits, idle, text, now)
        try:
            if helper is not begun:
                helper.ask(line)
            if now is not None and not helper.answers_within(_soon(text)):
                helper.come_later()
                _leave(key, text, helper)
                raise TakesLong(tried=True)
            if now is None and not helper.answers_within(_SWIFT_S):
                helper.come_later()
                _note(text, into=_slow, out_of=_swift)
            elif not helper.slow:
                _note(text, into=_swift, out_of=_slow)
            answer = helper.answer()
        except _Died as died:
            begun = None
            # It may have died before this request, or of what came before it: only a fresh one's death says something.
            if helper.used and not _out_of_time(died.code):
                continue
            raise _why(died.code, limits) from None
        except TakesLong:
            raise
        except BaseException:
            helper.stop()
            raise
        if helper.slow or answer["spent"] or len(idle) >= _KEPT:
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


def _helper(language: Language, limits: Limits, idle: deque[_Helper], text: bytes, now: Hurry | None) -> _Helper:
    """A helper for a request; in haste TakesLong for a text that took long before, or when a helper would have to start."""
    if now is not None and text in _slow:
        raise TakesLong(tried=True)
    try:
        return idle.pop()
    except IndexError:
        if now is not None and not now.starts:
            raise TakesLong(tried=False) from None
        return _start(language, limits)


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
    while _unfinished:
        request = _unfinished.popitem()[1]
        if isinstance(request, _Helper):
            request.stop()


def _forget_all() -> None:
    for helpers in _idle.values():
        while helpers:
            helpers.pop().forget()
    while _unfinished:
        request = _unfinished.popitem()[1]
        if isinstance(request, _Helper):
            request.forget()


@cache
def _tidy_later() -> None:
    """Once, with the first script: importing this module does nothing."""
    atexit.register(_end_all)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forget_all)
