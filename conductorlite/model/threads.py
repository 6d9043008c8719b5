"""Blocks, mutexes and wake-ups that threads share, which an interruption at any instant leaves whole.

An exception may come between any two instructions (Ctrl-C, a signal handler, no memory): also after a lock was taken and before it
is noted, or after a block's body and before its end. No `try` covers such places. What a block holds is therefore given back when
the statement that entered it is no longer there: the interpreter drops what a `with` statement keeps as soon as an exception leaves
it, even while the exception and its frames are kept. So the object that a `with` statement keeps is known to no other thread, and
when it goes without the block having been ended, the block is undone.

What a clean-up raises never takes the place of an interruption: `replaces`, `clean_up`.

A `Cache` is what an engine remembers of what never changes: definitions, plans, large payloads.
"""

from __future__ import annotations

import errno
import functools
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from importlib import import_module
from itertools import count
from operator import is_, itemgetter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, final

from conductorlite.model.errors import NoThread, TooManyOpenFiles

__all__ = [
    "NO_FILE",
    "Block",
    "Cache",
    "Mutex",
    "Waiter",
    "Waiters",
    "cached_property",
    "carried",
    "clean_up",
    "forget_half_imported",
    "out_of_files",
    "replaces",
    "started",
    "within",
]

V = TypeVar("V")
W = TypeVar("W")


#: What the system says when no further file can be opened, in this process or at all.
NO_FILE: Final = (errno.EMFILE, errno.ENFILE)


def out_of_files(error: OSError, what: str) -> TooManyOpenFiles:
    """The error about what needs a file, which the system does not open."""
    return TooManyOpenFiles(f"{what} needs a file, for a module or a document, and the system opens none ({error.strerror})")


class cached_property(functools.cached_property[V]):  # noqa: N801 - it is used as the one it stands for
    """`functools.cached_property` without the lock that it has before Python 3.12, one for all objects of a class.

    A thread that was interrupted in it would leave it locked for all others, and who builds one object would wait for who builds
    another. Two threads that ask at once may both work out a value; both are given the first.
    """

    if not TYPE_CHECKING:
        # In C, where nothing is interrupted: before Python 3.12, Ctrl-C in a `__set_name__` is a RuntimeError about the class.
        __set_name__ = staticmethod(is_)

        def __init__(self, func: Callable[[Any], V]) -> None:
            super().__init__(func)
            self.attrname = func.__name__

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            try:
                return self if instance is None else instance.__dict__.setdefault(self.attrname, self.func(instance))
            except OSError as error:  # what is imported for it
                if error.errno not in NO_FILE:
                    raise
                raise out_of_files(error, self.attrname) from error


def started(target: Callable[..., object], *args: object, name: str) -> threading.Thread:
    """A daemon thread that runs a function; raises NoThread when none can be started, and the function will not run then."""
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise NoThread(f"{name}: {error}") from None
    return thread


def replaces(failure: BaseException, error: BaseException | None, what: str) -> bool:
    """Return whether what a clean-up raised is raised instead of `error`, which was raised before it; if not, it is logged.

    Nothing replaces an error but an interruption (Ctrl-C, the end of a program, a canceled task), and nothing replaces that.
    """
    if error is None or (isinstance(error, Exception) and not isinstance(failure, Exception)):
        return True
    with suppress(Exception):  # a handler of the application that raises
        text = "%s failed after %s was raised, which is raised on: %s: %s"
        log = import_module("logging").getLogger("conductorlite")
        log.warning(text, what, type(error).__name__, type(failure).__name__, failure)
    return False


def clean_up(error: BaseException | None, what: str, *steps: Callable[[], object]) -> None:
    """Carry out each step, whatever those before it have raised. `error` is what was raised before, or None.

    Raises what `replaces` it: of several failures the first, an interruption before others.
    """
    first = error
    for step in steps:
        try:
            step()
        except BaseException as failure:
            if replaces(failure, first, what):
                failure.__context__, first = failure.__context__ or first, failure
    if first is not None and first is not error:
        try:
            raise first
        finally:
            del first, error  # or this frame and the exception would keep one another


def forget_half_imported() -> None:
    """Have packages of the standard library imported again whose import was interrupted, as by Ctrl-C.

    Python removes such a package, and leaves the modules in it that were complete. `import asyncio` fails with a NameError then,
    and so does every later one.
    """
    for name in sorted(sys.modules):
        package = name.rpartition(".")[0]
        if package and package not in sys.modules and package.partition(".")[0] in sys.stdlib_module_names:
            sys.modules.pop(name, None)


class Block(Generic[V]):
    """Block that one `with` statement begins and ends: `with within(block) as value`."""

    __slots__ = ("_kept",)
    #: What the `with` statement keeps, from its beginning; None after its end.
    _kept: weakref.ref[Any] | None

    @property
    def live(self) -> bool:
        """True if the statement is still there."""
        return self._kept is not None and self._kept() is not None

    def begin(self) -> V:
        """Take what the block needs; when this raises, `undo` is called."""
        raise NotImplementedError

    def end(self, error: BaseException | None) -> None:
        """Give it back; `error` is what ended the body."""
        raise NotImplementedError

    def undo(self, error: BaseException | None = None) -> None:
        """Give back whatever was taken. Follows from what is there, not from what was noted: `begin` or `end` may have been left
        anywhere, or this may be the second call. `error` is what `begin` raised."""
        raise NotImplementedError

    def _dropped(self, _: object) -> None:
        self.undo()
        self._kept = None

    def _enter(self) -> V:
        try:
            return self.begin()
        except BaseException as error:
            try:
                self.undo(error)
            except BaseException as failure:
                if isinstance(error, Exception) or replaces(failure, error, "taking back what a block held"):
                    raise
            raise

    def _leave(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if error is None or isinstance(error, Exception):
            self.end(error)
        else:
            try:
                self.end(error)
            except BaseException as failure:
                if replaces(failure, error, "the end of a block"):
                    raise
                return  # it is undone
        self._kept = None  # or it would be undone


class Enclosing(Block[V], Generic[V, W]):
    """Block around another one.

    The inner block is undone as soon as nothing refers to it, so no frame may, as an exception that is kept keeps frames: it is an
    attribute here, and nowhere a variable.
    """

    __slots__ = ("_inner",)

    def __init__(self) -> None:
        self._inner: AbstractContextManager[W] | None = None

    def enter(self, opened: Callable[[], AbstractContextManager[W]]) -> W:
        """Begin the inner block."""
        self._inner = opened()
        return self._inner.__enter__()

    def leave(self, error: BaseException | None) -> None:
        """End the inner block, for an error or without one."""
        if self._inner is not None:
            self._inner.__exit__(None if error is None else type(error), error, None if error is None else error.__traceback__)

    def undo(self, error: BaseException | None = None) -> None:
        self._inner = None


class _Statement(tuple[Callable[..., Any], ...]):
    """Context manager that `with` is given: both methods are called by the interpreter, without a frame that would keep them."""

    __slots__ = ()
    __enter__ = property(itemgetter(0))
    __exit__ = property(itemgetter(1))


def within(block: Block[V]) -> AbstractContextManager[V]:
    """The block as a context manager, for one `with` statement."""
    leave = block._leave  # each time another object
    block._kept = weakref.ref(leave, block._dropped)
    statement: Any = _Statement((block._enter, leave))
    return statement  # type: ignore[no-any-return]


def carried(variable: ContextVar[V], value: V) -> AbstractContextManager[None]:
    """Have a context variable, which has a default, say a value within a block; after it, what it said before."""
    return within(_Carried(variable, value))


class _Carried(Block[None], Generic[V]):
    __slots__ = ("_before", "_value", "_variable")

    def __init__(self, variable: ContextVar[V], value: V) -> None:
        self._variable, self._value, self._before = variable, value, variable.get()

    def begin(self) -> None:
        self._variable.set(self._value)

    def undo(self, error: BaseException | None = None) -> None:
        if self._variable.get() is self._value:  # else this is the context of other code, which drops a coroutine
            self._variable.set(self._before)

    end = undo


#: What `threading.RLock()` makes, by a call of Python's less: an engine has some twenty.
_RLock: Final[Any] = type(threading.RLock())


@final
class Mutex:
    """A lock that is free again once the `with` statement that took it is gone."""

    __slots__ = ("_holder", "_lock")

    def __init__(self) -> None:
        # It knows its thread from the instant at which it is taken.
        self._lock: Any = _RLock()
        #: The block that took it last.
        self._holder: Block[Any] | None = None

    def held(self, timeout: float = -1) -> AbstractContextManager[bool]:
        """Hold it for a block, which learns whether it does: not when another thread held it for `timeout` seconds.

        Inside another such block of this thread, it is held already.
        """
        return within(_Hold(self, timeout))

    def owned(self) -> bool:
        """Return True if a block of this thread holds it."""
        return bool(self._lock._is_owned()) and self._holder is not None and self._holder.live

    def enter(self, block: Block[Any], timeout: float = -1) -> Block[Any] | None:
        """Take it for a block of this thread, unless another one has it, which is returned; None when another thread has it."""
        while self._lock._is_owned():
            holder = self._holder
            if holder is not None and holder.live:
                return holder
            self._lock.release()  # of a block that has ended: it was interrupted, and giving back too
        if not self._lock.acquire(True, timeout):
            return None
        self._holder = block
        return block

    def take(self, block: Block[Any], timeout: float = -1) -> bool:
        """Take it for a block of this thread, which must not have it yet."""
        return self.enter(block, timeout) is block

    def mine(self, block: Block[Any]) -> bool:
        """Return True if this thread has it, and no other block of it: asked by a block that may have been left anywhere."""
        holder = self._holder
        return bool(self._lock._is_owned()) and (holder is None or holder is block or not holder.live)

    def give(self, block: Block[Any]) -> None:
        """Give it back, if this block has it."""
        if (self._holder is block and self._lock._is_owned()) or self.mine(block):
            self._holder = None  # or it and the block would know one another
            self._lock.release()


class _Hold(Block[bool]):
    __slots__ = ("_mutex", "_timeout")

    def __init__(self, mutex: Mutex, timeout: float) -> None:
        self._mutex = mutex
        self._timeout = timeout

    def begin(self) -> bool:
        return self._mutex.enter(self, self._timeout) is not None

    def end(self, error: BaseException | None) -> None:
        self._mutex.give(self)

    def undo(self, error: BaseException | None = None) -> None:
        self._mutex.give(self)


@final
class Waiter:
    """One who waits to be woken; a wake-up before the wait counts."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds; whether it was woken."""
        return self._lock.acquire(timeout=-1 if timeout is None else max(timeout, 0))

    def wake(self) -> None:
        """End the wait, or the next one."""
        try:
            self._lock.release()
        except RuntimeError:
            return  # woken already


class Waiters:
    """Threads that wait for the same; one that stops waiting is forgotten."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: set[weakref.ref[Waiter]] = set()

    def waiter(self) -> Waiter:
        """One more. Look for what is waited for after this: what comes in between wakes it."""
        waiter = Waiter()
        self._known.add(weakref.ref(waiter, self._known.discard))
        return waiter

    def wake(self) -> None:
        """Wake all."""
        if not self._known:
            return
        for known in self._known.copy():
            waiter = known()
            if waiter is not None:
                waiter.wake()


K = TypeVar("K")


class _Held(Generic[V]):
    """A value, how much it weighs, and when it was used last."""

    __slots__ = ("used", "value", "weight")

    def __init__(self, value: V, weight: int, used: int) -> None:
        self.value = value
        self.weight = weight
        self.used = used


class Cache(Generic[K, V]):
    """A bounded dict that forgets what was not used for longest. Thread-safe.

    It holds at most `size` values, and, if it can `weigh` them, no more than `budget` together, except for a single one.
    """

    def __init__(self, size: int, *, weigh: Callable[[V], int] | None = None, budget: int = 0) -> None:
        self._size = size
        self._weigh = weigh
        self._budget = budget
        self._held: dict[K, _Held[V]] = {}
        self._uses = count()
        self._changing = Mutex()

    def get(self, key: K) -> V | None:
        """The value, or None."""
        held = self._held.get(key)
        if held is None:
            return None
        held.used = next(self._uses)
        return held.value

    def put(self, key: K, value: V) -> None:
        """Keep a value."""
        weight = 0 if self._weigh is None else self._weigh(value)
        self._held[key] = _Held(value, weight, next(self._uses))
        if self._weigh is not None or len(self._held) > self._size:
            with self._changing.held():
                self._trim()

    def _trim(self) -> None:
        """Forget what is too much, looking at copies: a value is put without a lock."""
        # Added up each time: a sum that is kept would go wrong with the first change that is interrupted.
        while len(self._held) > self._size or (self._weigh is not None and len(self._held) > 1 and self._heavy()):
            del self._held[min(self._held.copy().items(), key=lambda known: known[1].used)[0]]

    def _heavy(self) -> bool:
        return sum(held.weight for held in self._held.copy().values()) > self._budget

    def drop(self, key: K) -> None:
        """Forget a value."""
        with self._changing.held():
            self._held.pop(key, None)
