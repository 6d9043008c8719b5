"""The driver's work outside the store: feeding an external index, and asking sources for messages.

An external index beside a driver on real time is fed in a thread of its own. So a search server that is slow, or hangs, makes no
turn late, and the path of a turn has no statement of it. There is one thread for each driver, begun when there may be something to
index, with one batch in hand. It ends when the engine is closed, or when nobody has asked it for anything for a while. The index in
the store's own file, and any index in virtual time, is fed by the thread that drives.

Sources are asked in turn, each message handed to the event handlers and acknowledged after all it leads to is stored: one that is
given again is one whose acknowledgement was lost, and its records keep it from being acted upon twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final, ParamSpec, TypeVar

from conductorlite.engine.logs import log_store
from conductorlite.engine.turn_types import Caller, called_by
from conductorlite.engine.verbs import Verbs
from conductorlite.model.clock import Deadline
from conductorlite.model.errors import EngineClosed, InvalidInput, SourceError
from conductorlite.model.texts import type_name
from conductorlite.model.threads import Mutex, Waiter
from conductorlite.store.ports import EventMessage, EventSource

__all__ = ["INDEX_EVERY", "Feeding", "MessageSources"]

P = ParamSpec("P")
T = TypeVar("T")

#: Units of work that may pass before what they changed is indexed.
INDEX_EVERY: Final = 500

#: How long the thread stays without being asked for anything, and how long its batch is waited for at the end, seconds.
_STAYS_S: Final = 5.0
_LEAVES_S: Final = 1.0


class Feeding:
    """Has indexed what a driver has changed: when there is nothing else to do, and at every so many units of work."""

    def __init__(self, engine: Verbs) -> None:
        self._core = engine.core
        self._beside = engine.core.index is not None and not engine.clock.virtual
        self.units = 0
        self._asked = Waiter()
        self._starting = Mutex()
        self._thread: threading.Thread | None = None
        #: Another object after each piece of work, and what it was when all before was fed, or could not be.
        self._work = object()
        self._fed: object = None
        self._awaited = False
        self._closed = False
        self._error: BaseException | None = None

    def feed(self) -> bool:
        """Index a batch in this thread; whether there was anything."""
        self.units = 0
        indexing = self._core.indexing
        if indexing is None:
            return False
        return indexing.own_feeder.feed_when_idle() if indexing.feeder is None else indexing.feeder.feed()

    def changed(self) -> None:
        """Note that something may have changed."""
        self._work = object()

    def look(self, *, busy: bool) -> bool:
        """Index, or have indexed, after a round of work; whether this thread has. Raises what broke an invariant meanwhile."""
        if busy:
            self.changed()
            self.units += 1
            if self.units < INDEX_EVERY:
                return False
        if not self._beside:
            return self.feed()
        self.units = 0
        self._ask()
        return False

    def is_done(self) -> bool:
        """Return True if no thread is about to index what has changed; if one is, the driver is woken when it has, or could not.

        Raises what has broken an invariant since the last look.
        """
        if not self._beside:
            return True
        self._awaited = True
        done = self._fed is self._work
        self._awaited = not done
        if done:
            self._raise()
        return done

    def close(self) -> None:
        """Let the thread end, and wait for its batch a moment."""
        self._closed = True
        self._asked.wake()
        thread = self._thread
        if thread is not None and thread.is_alive():
            thread.join(_LEAVES_S)

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _ask(self) -> None:
        self._raise()
        with self._starting.held():
            self._asked.wake()
            if self._closed or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = threading.Thread(target=self._run, name="conductorlite-index", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # there is no room for one: it is begun at the next look
                self._fed = self._work

    def _run(self) -> None:
        while self._goes_on():
            work = self._work
            try:
                while not self._closed and self.feed():
                    pass
            except EngineClosed:
                return
            except BaseException as error:
                self._error = error
            self._fed = work
            if self._awaited:
                self._awaited = False
                self._core.turns.committed.wake()

    def _goes_on(self) -> bool:
        """Wait to be asked; False when the thread is to end."""
        if not self._asked.wait(_STAYS_S):
            with self._starting.held():
                if not self._asked.wait(0):
                    self._thread = None
                    return False
        return not self._closed


#: How long a source that could not give messages is left alone, ms.
_REST_MS: Final = 1_000


class MessageSources:
    """Asks the sources; at most one thread at a time."""

    def __init__(self, engine: Verbs, sources: Iterable[EventSource]) -> None:
        self._engine = engine
        self._sources = list(sources)
        for source in self._sources:
            if not isinstance(source, EventSource):
                raise InvalidInput(f"event_sources: a {type(source).__name__} has no poll(), ack() and reject()")
        self._rotation = 0
        self._resting: dict[int, Deadline] = {}

    def __bool__(self) -> bool:
        return bool(self._sources)

    def take(self, limit: int) -> bool:
        """Handle up to `limit` messages of the next source that has any; False when none has.

        A source that raises anything is left alone for a second. Raises StorageErrors; what was not acknowledged is given again.
        """
        for offset in range(len(self._sources)):
            number = (self._rotation + offset) % len(self._sources)
            if (rest := self._resting.get(number)) is not None and not rest.passed:
                continue
            try:
                with called_by(Caller(turns=self._engine.core.turns, what="an event source")):
                    found = self._handle(self._sources[number], limit)
            except _Failed as failed:
                log_store(f"event source {type_name(self._sources[number])}", failed.error)
                self._resting[number] = Deadline(self._engine.clock, _REST_MS)
                continue
            if found:
                self._rotation = number + 1
                return True
        return False

    def _handle(self, source: EventSource, limit: int) -> bool:
        messages = _asked(_polled, source, limit)
        for message in messages:
            try:
                self._engine.events.publish(message.event, message.payload, message_id=message.message_id)
            except InvalidInput as error:
                _asked(source.reject, message, str(error))
                log_store(f"message {message.message_id!r} of event {message.event!r} was rejected", error)
            else:
                _asked(source.ack, message)
        return bool(messages)


class _Failed(Exception):
    """Internal: a source has raised, whatever it was; not the store that its messages are for."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


def _asked(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return call(*args, **kwargs)
    except Exception as error:
        raise _Failed(error) from error


def _polled(source: EventSource, limit: int) -> list[EventMessage]:
    messages = list(source.poll(limit))
    for message in messages:
        if not isinstance(message, EventMessage):
            raise SourceError(f"poll() gave a {type_name(message)} among its messages, not an EventMessage")
    return messages
