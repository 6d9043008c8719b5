"""The settings of an engine, and what every service of it has.

A forked child has its parent's objects, its locks as they stood, and none of its threads.

Whatever it asks of an engine is refused at once, before any lock: one that another thread held at the fork is never released.

A signal handler runs between two instructions of the main thread. When it interrupts this package, the verb below it may be
anywhere, also inside a change of the store, and goes on only when the handler has returned. Verbs are therefore refused there, all
but `stop`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, wraps
from itertools import pairwise
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

import attrs

from conductorlite.decide.changeset.reader import Bounds
from conductorlite.engine.turns import Turns
from conductorlite.model.definitions import Semantics
from conductorlite.model.errors import ConductorliteError, EngineClosed, InvalidInput, WouldDeadlock
from conductorlite.model.later import functions, pattern
from conductorlite.model.pickling import stays_here
from conductorlite.model.threads import NO_FILE, cached_property, forget_half_imported, out_of_files
from conductorlite.store.ports import EventMessage, EventSource, Lock, PayloadCodec

if TYPE_CHECKING:
    from conductorlite.engine.arguments import wrong_argument
else:
    (wrong_argument,) = functions("conductorlite.engine.arguments", "wrong_argument")

__all__ = [
    "OF_AN_ENGINE",
    "EngineConfig",
    "Interceptor",
    "Part",
    "Service",
    "checked_name",
    "intercepted",
    "interceptors",
    "one_process",
    "refuse_forked",
    "refuse_handlers",
    "services",
]

#: Flags of code, as in `inspect`.
_VARARGS: Final = 0x04
_COROUTINE: Final = 0x80

T = TypeVar("T")

#: Called with what is about to happen: see `EngineConfig`.
Interceptor: TypeAlias = Callable[[Any], object]

_NAME: Final = pattern(r"[A-Za-z0-9_.-]{1,100}")


def checked_name(name: str | None) -> str | None:
    """The name of an engine; raises InvalidInput for one that is no name."""
    if name is not None and (not isinstance(name, str) or not _NAME.fullmatch(name)):
        raise InvalidInput(f"an engine's name is 1 to 100 letters, digits, `_`, `.` and `-`, not {name!r:.80}")
    return name


class _FunctionSource:
    """A function as a source: what it gives is handled once, and what a crash leaves unhandled it gives again or not."""

    def __init__(self, poll: Callable[[int], Iterable[EventMessage]]) -> None:
        self._poll = poll

    def poll(self, limit: int) -> list[EventMessage]:
        """Return the messages that the function gives."""
        return list(self._poll(limit))

    def ack(self, message: EventMessage) -> None:
        """Nothing: the function has parted with it."""

    def reject(self, message: EventMessage, reason: str) -> None:
        """Nothing: it is logged."""


def _sources(given: Iterable[EventSource | Callable[[int], Iterable[EventMessage]]]) -> tuple[EventSource, ...]:
    return tuple(_FunctionSource(one) if not isinstance(one, EventSource) and callable(one) else one for one in given)


def interceptors(given: Iterable[Interceptor]) -> tuple[Interceptor, ...]:
    """Interceptors as they were given; raises InvalidInput for a coroutine function, and what cannot be called."""
    found = tuple(given)
    for one in found:
        if not callable(one) or getattr(getattr(one, "__code__", None), "co_flags", 0) & _COROUTINE:
            raise InvalidInput(f"an interceptor is a function, written with `def`, not {one!r:.80}")
    return found


@contextmanager
def intercepted(interceptors: Iterable[Interceptor], subject: T) -> Iterator[T]:
    """A block with what interceptors put around something, the first outermost; gives it as they have changed it."""
    with ExitStack() as stack:
        for one in interceptors:
            found: Any = one(subject)
            if hasattr(type(found), "__enter__"):
                found = stack.enter_context(found)
            elif hasattr(type(found), "__aenter__"):
                raise InvalidInput(f"interceptor {one!r:.80} gives a block for `async with`; it must be one for `with`")
            subject = found if type(found) is type(subject) else subject
        yield subject


def _bounds(given: Bounds | None) -> Bounds:
    return given or _usual_bounds()


@cache
def _usual_bounds() -> Bounds:
    return Bounds()  # which looks at each of its numbers


@attrs.frozen(kw_only=True, slots=True)
class EngineConfig:
    """Settings of an engine that few programs change: `Engine(config=EngineConfig(fencing=False, lock=lock))`.

    `semantics` selects the rules for new executions where Orkes and Conductor OSS differ. `seed` influences derived ids and
    jitter; `ids` makes the ids of executions (default: UUIDs of version 7, which ascend).

    `lock` saves double work between engines: a URL such as `redis://a,b,c` or `zookeeper://a,b,c`, "advisory", or a `Lock`
    (`conductorlite.store.locks`); with `fencing` a turn is refused when another one has
    committed since it read. Nothing is lost with the fence, locked or not; without it, only as long as no lease of the lock
    passes during a turn; with neither, turns may overwrite each other. While a lock cannot be reached, turns are taken without it
    under the fence, unless it is required (`lock_required`): then, and without a fence, they are refused.

    `bounds` are the limits of one turn: inputs and outputs past their soft barriers are stored in the payload storage, those past
    the hard ones are refused. `payload_codec` seals every payload in the store and in that storage; executions are then searched
    one by one, unless `plain_index` lets an index hold inputs, outputs and reasons plain. `event_sources` are asked for messages
    while the engine is driven; a function is a source whose messages need no acknowledging, called with how many may come.

    With `allocation="local"` an engine keeps to itself what it starts, and takes nothing else: only engines of the same `name`
    take the turns, offer the tasks and start the children of its executions, and drive its schedules. The name must be the same
    whenever the program is started; see `Engine.admin.take_over` for a program that never comes back. By default ("shared")
    executions belong to all engines on the store.

    Poll, response and task timeouts that no definition sets count only time in which some engine drove the store, so that a night
    without a process times nothing out. With `downtime_counts` they count all time while this engine takes the turns, as on
    Conductor's server. What is written always does.

    Of executions whose turns it takes an engine keeps rows in memory, in at most about `resident_bytes`, so that the next turn need
    not read them; 0: it keeps none.

    `start_interceptors` are called with each `StartWorkflowRequest` that a program hands to the engine (`start`, `start_many`, a
    server), and `task_interceptors` with the `TaskContext` of each call of a worker function, those of its `Workers` after them.
    What one returns, if that is a context manager, is entered: it is around what happens, the first one outermost. A request that
    a start's interceptor returns, or gives on entering, is started instead. What one raises before stops what it is around; what
    leaves it is what the caller sees: a task fails of it as of its function, and one that is swallowed completes with no output.

    An engine that is opened gives back what engines that have ended held; one that only looks does not (`give_back=False`).

    Raises InvalidInput for what is no name, allocation or interceptor, and for a local one without a name.
    """

    semantics: Semantics = attrs.field(default=Semantics.ORKES, converter=Semantics)
    seed: str = ""
    ids: Callable[[], str] | None = None
    lock: str | Lock | None = None
    fencing: bool = True
    lock_required: bool = False
    bounds: Bounds = attrs.field(default=None, converter=_bounds)
    event_sources: Iterable[EventSource] = attrs.field(default=(), converter=_sources)
    payload_codec: PayloadCodec | None = None
    plain_index: bool = False
    name: str | None = None
    allocation: Literal["shared", "local"] = "shared"
    downtime_counts: bool = False
    resident_bytes: int = 32 * 1024 * 1024
    give_back: bool = True
    start_interceptors: Sequence[Interceptor] = attrs.field(default=(), converter=interceptors)
    task_interceptors: Sequence[Interceptor] = attrs.field(default=(), converter=interceptors)
    #: The owner of what the engine starts and of the turns and tasks it takes; empty: shared by all engines.
    owner: str = attrs.field(init=False, repr=False)

    @owner.default
    def _owner(self) -> str:
        return self.name or "" if self.allocation == "local" else ""

    def under(self, lock: str | Lock | None) -> EngineConfig:
        """These settings, with another lock if one is given."""
        return self if lock is None else attrs.evolve(self, lock=lock)

    def __attrs_post_init__(self) -> None:
        if self.allocation not in ("shared", "local"):
            raise InvalidInput(f"allocation is shared or local, not {self.allocation!r:.80}")
        if self.name is None and self.allocation == "local":
            raise InvalidInput("an engine with allocation='local' needs a name, the same whenever it is started")
        checked_name(self.name)


#: For what belongs to an engine; see `stays_here`.
OF_AN_ENGINE: Final = "open an engine on the same store there (a store in memory is this process's own)"


@stays_here(OF_AN_ENGINE)
class Part:
    """Base class of the parts of an engine: the turns, and the settings."""

    def __init__(self, turns: Turns, config: EngineConfig) -> None:
        self._turns = turns
        self._backend = turns.backend
        self._clock = turns.clock
        self._config = config
        self._owner = config.owner


class Service(Part):
    """A part that programs hold: verbs on one noun. They refuse a forked child; the parts they call need not ask again."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        one_process(cls)

    def __init__(self, turns: Turns, config: EngineConfig) -> None:
        #: The process in which the engine was opened; see `one_process`.
        self._pid = os.getpid()
        super().__init__(turns, config)


def services(engine: object) -> dict[str, Service]:
    """The services of an engine, by noun."""
    nouns = [noun for kind in type(engine).__mro__ for noun, found in vars(kind).items() if isinstance(found, cached_property)]
    return {noun: service for noun in nouns if isinstance(service := getattr(engine, noun), Service)}


#: Verbs without a name.
_BLOCKS: Final = ("__enter__", "__exit__", "__aenter__", "__aexit__")

#: Refuses by itself: what it has taken would be lost by an interruption between its return and that of a wrapper.
_OWN: Final = "poll"


def refuse_forked(pid: int) -> None:
    """Raise EngineClosed in another process than `pid`, the one in which something was opened."""
    if os.getpid() != pid:
        raise EngineClosed("the process was forked after the engine was opened; open one in the child process")


#: Rooms below which a program's own code runs for most of its life.
_OUTER_ROOMS: Final = frozenset({"cli", "server", "testing"})

#: The thread in which handlers run: another one in a child that another thread has forked.
_MAIN: Final = [threading.main_thread().ident]

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _MAIN.__setitem__(0, threading.get_ident()))

#: The verb that a signal handler may call at any instant.
_STOP: Final = "stop"


def refuse_handlers(verb: str) -> None:
    """Raise WouldDeadlock in a signal handler that has interrupted this package: called by a verb, on behalf of its caller."""
    if threading.get_ident() != _MAIN[0]:
        return  # no handler runs there
    asks = frame = sys._getframe(2)
    # Without a call for each frame: there may be a hundred.
    if "__name__" in frame.f_globals and _INNER[frame.f_globals["__name__"]]:
        return  # a verb that another verb is made of
    while (frame := frame.f_back) is not None:  # type: ignore[assignment]
        if "__name__" in frame.f_globals and _INNER[frame.f_globals["__name__"]] and _has_interrupted(asks, frame):
            text = "set a flag in the handler, or have another thread call it; stop() may be called in a handler"
            raise WouldDeadlock(f"{verb}() in a signal handler that has interrupted conductorlite would wait for it: {text}")


class _Inner(dict[object, bool]):
    """By its name, whether code of a module may be in the middle of a verb."""

    def __missing__(self, module: object) -> bool:
        package, _, rest = str(module).partition(".")
        self[module] = found = package == "conductorlite" and bool(rest) and rest.partition(".")[0] not in _OUTER_ROOMS
        return found


_INNER: Final = _Inner()


def _has_interrupted(frame: FrameType | None, below: FrameType) -> bool:
    """Return True if one of the frames down to `below` is that of a signal handler."""
    while frame is not None and frame is not below:
        if not _INNER[frame.f_globals.get("__name__")] and _is_handler(frame):
            return True
        frame = frame.f_back
    return False


def _is_handler(frame: FrameType) -> bool:
    """Return True if a function was called as signal handlers are: with a number, and the frame below it, which it interrupted."""
    code = frame.f_code
    if code.co_argcount < 2 and not code.co_flags & _VARARGS:
        return False
    values, names = frame.f_locals, code.co_varnames
    given = [values.get(name) for name in names[: code.co_argcount]]
    if code.co_flags & _VARARGS:
        more = values.get(names[code.co_argcount + code.co_kwonlyargcount])
        given += more if isinstance(more, tuple) else ()
    return any(two is frame.f_back and isinstance(one, int) for one, two in pairwise(given))


def _is_async(method: Callable[..., object]) -> bool:
    return isinstance(method, FunctionType) and bool(method.__code__.co_flags & _COROUTINE)


def one_process(face: type[T]) -> type[T]:
    """Have every public method that a class defines, and its blocks, refuse another process than the one that made the object, and
    signal handlers that have interrupted a verb.

    An import that is interrupted in one of them, or in the constructor of an engine, is undone. For classes whose objects keep that
    process's id as `_pid`; what is inherited is left to its own class. A block that ends with an error of its own keeps that error.
    """
    own = [(name, method) for name, method in vars(face).items() if isinstance(method, FunctionType)]
    for name, method in own:
        if name == _OWN and not _is_async(method):
            continue
        if not name.startswith("_") or name in _BLOCKS:
            setattr(face, name, _guarded(method, ends_block=name in ("__exit__", "__aexit__")))
        elif name == "__init__" and any(block in vars(face) for block in _BLOCKS):
            setattr(face, name, _opening(method))
    return face


#: What Python raises for an argument of another type.
_OF_ARGUMENTS: Final = (TypeError, AttributeError, ValueError, OverflowError)


def _set_right(error: BaseException, what: str) -> None:
    """Forget what an error has left half-imported; raises TooManyOpenFiles for what the system says when it opens no file."""
    if not isinstance(error, ConductorliteError):
        forget_half_imported()
    if isinstance(error, OSError) and error.errno in NO_FILE:
        raise out_of_files(error, what) from error


def _guarded(method: Callable[..., Any], *, ends_block: bool) -> Callable[..., Any]:
    def refused(self: Any, given: tuple[Any, ...]) -> bool:
        """Return True if nothing is to be done; raise for what is refused."""
        if os.getpid() == self._pid:
            return False
        if not ends_block or not given or given[0] is None:
            refuse_forked(self._pid)
        return True

    if _is_async(method):

        @wraps(method)
        async def awaited(self: Any, *given: Any, **options: Any) -> Any:
            try:
                return None if refused(self, given) else await method(self, *given, **options)
            except OSError as error:
                if error.errno not in NO_FILE:
                    raise
                raise out_of_files(error, f"{method.__name__}()") from error

        return awaited

    verb = method.__name__

    @wraps(method)
    def called(self: Any, *given: Any, **options: Any) -> Any:
        if os.getpid() != self._pid and refused(self, given):
            return None
        if verb != _STOP:
            refuse_handlers(verb)
        try:
            return method(self, *given, **options)
        except BaseException as error:
            _set_right(error, f"{verb}()")
            if isinstance(error, _OF_ARGUMENTS) and (wrong := wrong_argument(method, self, given, options)) is not None:
                raise InvalidInput(f"{verb}(): {wrong}") from error
            raise

    return called


def _opening(method: Callable[..., None]) -> Callable[..., None]:
    @wraps(method)
    def opened(self: Any, *given: Any, **options: Any) -> None:
        try:
            method(self, *given, **options)
        except BaseException as error:
            _set_right(error, "an engine")
            raise

    return opened
