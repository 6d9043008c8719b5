"""Values that executions emit, and latest values: what a call hands over, and what readers are given.

A call's values wait in its `Emitting` until there are a hundred of them, or the first has waited for 50 ms; then they are handed to
the execution with a sign of life, so that a worker which has lost its lease is refused. What waits when the function returns goes
with its report, in the report's event. What a process has not handed over when it dies is gone, as is its call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.engine.config import EngineConfig, Part, Service
from conductorlite.engine.queries import Queries, masked_value
from conductorlite.engine.turn_types import pages, unarchived
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import EventKind
from conductorlite.model.definitions import MAX_KEY
from conductorlite.model.errors import InvalidInput, NotFound, Parked, PayloadTooLarge, StaleLease, StorageError
from conductorlite.model.executions import Task
from conductorlite.model.streams import STREAM, Dropped, Emission, EmissionState, LatestValue, StreamItem
from conductorlite.model.texts import printable
from conductorlite.store.ports import ReadingTransaction

if TYPE_CHECKING:
    from conductorlite.engine.control import Control
    from conductorlite.engine.reports import Reports
    from conductorlite.engine.turns import Turns

__all__ = ["FLUSH_ITEMS", "FLUSH_MS", "Emitting", "Readers", "Reading", "Streams", "emissions_of", "items_of"]

#: A call hands over what it has emitted when the first value has waited so long, ms, or when there are so many.
FLUSH_MS: Final = 50
FLUSH_ITEMS: Final = 100

#: More values do not wait for a store that cannot be written.
_MOST: Final = 100_000

#: Texts up to so many characters are within every barrier.
_SMALL: Final = 10_000

#: Chunks that are read at once, most of them of so many values each.
_PAGE: Final = 100


def named(text: object, what: str) -> str:
    """The name of a stream or a value; raises InvalidInput."""
    if not isinstance(text, str) or not 0 < len(text) <= MAX_KEY:
        raise InvalidInput(f"{what}: {printable(text, 80)!r} is not a text of 1 to {MAX_KEY} characters")
    return text


def _checked(turns: Turns, value: object, where: str) -> Any:
    """A copy of a JSON value that is within its barrier; raises InvalidInput and PayloadTooLarge."""
    payload = Payload.of(value, where=where)
    if len(payload.text or "") > _SMALL:
        problem = turns.lookups.bounds.barriers.refusal("task_output", payload)
        if problem is not None:
            raise PayloadTooLarge(f"{where}: {problem}")
    return payload.value


class Emitting:
    """The values that one call of a worker function has emitted and not handed over yet. Any thread may call it.

    `alone` says that the call's transaction is the only one that may write: then all goes with the report.
    """

    __slots__ = ("_alone", "_closed", "_count", "_lock", "_reports", "_task", "_turns", "_values", "_waiting", "due_at")

    def __init__(self, task: Task, turns: Turns, reports: Reports, *, alone: bool) -> None:
        self._task, self._reports, self._turns, self._alone = task, reports, turns, alone
        self._lock = threading.RLock()
        self._waiting: list[tuple[str, Any]] = []
        self._values: dict[str, Any] = {}
        #: How many values were handed over, and whether the function has returned.
        self._count, self._closed = 0, False
        #: When what waits is to be handed over, epoch ms; None while nothing waits, or all goes with the report.
        self.due_at: int | None = None

    def emit(self, value: object, stream: str) -> None:
        """Emit a value; raises InvalidInput, PayloadTooLarge, StaleLease, and StorageErrors when very many wait."""
        one = _checked(self._turns, value, f"a value of {stream!r}")
        self._waiting.append((named(stream, "stream"), one))
        self._hand_over_in_time(len(self._waiting) >= FLUSH_ITEMS)

    def set_value(self, name: str, value: object) -> None:
        """Set the latest value of a name; raises as `emit` does."""
        one = _checked(self._turns, value, f"the value {name!r}")
        with self._lock:
            self._values[named(name, "name")] = one
        self._hand_over_in_time(False)

    def _hand_over_in_time(self, now: bool) -> None:
        if self._alone or self._turns.joined.decisions is not None:
            return
        if self.due_at is None:
            self.due_at = self._turns.clock.now() + FLUSH_MS
            self._turns.committed.wake()  # the driver is not to sleep longer
        if now or self._turns.clock.now() >= self.due_at:
            try:
                self.hand_over()
            except StorageError:
                if len(self._waiting) > _MOST:
                    raise

    def hand_over(self) -> None:
        """Have the execution keep what waits, with a sign of life.

        Raises StaleLease when the call has lost its attempt, and StorageErrors; then it waits on.
        """
        with self._lock:
            count = len(self._waiting)
            if self._closed or not (count or self._values):
                return
            now = self._turns.clock.now()
            self.due_at = now + FLUSH_MS
            try:
                alive = self._reports.sign_of_life(self._task, now, self._said(count))
            except Parked:
                return  # it waits until the execution is resumed, or goes with the report
            except NotFound:
                alive = False
            if not alive:
                raise StaleLease(f"{self._task.workflow_id}: the attempt at {self._task.ref!r} is over, and emits nothing any more")
            del self._waiting[:count]
            self._count, self._values, self.due_at = self._count + count, {}, None
            if self._waiting:  # another thread's, which has seen an instant here
                self.due_at = now + FLUSH_MS

    def take(self) -> dict[str, Any] | None:
        """Return what waits, for the report; nothing more is handed over."""
        with self._lock:
            self._closed, self.due_at = True, None
            return self._said(len(self._waiting)) if self._waiting or self._values else None

    def _said(self, count: int) -> dict[str, Any]:
        streams: list[tuple[str, list[Any]]] = []
        for stream, value in self._waiting[:count]:
            if streams and streams[-1][0] == stream:
                streams[-1][1].append(value)
            else:
                streams.append((stream, [value]))
        return {"after": self._count, "streams": [list(one) for one in streams], "values": dict(self._values)}


def emissions_of(view: ReadingTransaction, workflow_id: str) -> list[Emission]:
    """Return the values that each call of a stored execution has emitted, with its chunks."""
    streams = view.streams
    chunks: dict[tuple[str, int], list[Any]] = {}
    for page in pages(lambda after, limit: streams.chunks(workflow_id, None, after, limit), 0, lambda one: one.chunks[0].last):
        for one in page:
            chunks.setdefault((one.task_id, one.lease), []).extend(one.chunks)
    found = streams.emissions(workflow_id)
    return [attrs.evolve(one, chunks=tuple(chunks.get((one.task_id, one.lease), ()))) for one in found]


def items_of(one: Emission, after: int = 0) -> Iterator[StreamItem]:
    """The values of a call's chunks with numbers greater than `after`."""
    kept = one.state is EmissionState.KEPT
    for chunk in one.chunks:
        for number, value in enumerate(chunk.values.fresh(), chunk.first):
            if number > after:
                yield StreamItem(
                    number=number, value=value, stream=chunk.stream, ref=one.ref, attempt=one.attempt, at=chunk.at, kept=kept
                )


@attrs.define(slots=True, eq=False, kw_only=True)
class Reading:
    """The position of a reader in what an execution emits.

    `after` is the last number, `fence` that of the row it has seen.
    """

    workflow_id: str
    stream: str | None
    after: int
    kept_only: bool
    fence: int = -1
    over: bool = False
    #: Calls of which open values were given, and what they are; None before the first look.
    shown: dict[tuple[str, int], Emission] | None = None


class Readers(Part):
    """Gives readers what executions have emitted, and what is emitted while they read."""

    def __init__(self, turns: Turns, config: EngineConfig, queries: Queries) -> None:
        super().__init__(turns, config)
        self._queries = queries

    def reading(self, workflow_id: str, stream: str | None, after: int, *, kept_only: bool) -> Reading:
        """Begin to read after a number; raises InvalidInput and ExecutionNotFound."""
        if type(after) is not int or after < 0:
            raise InvalidInput(f"after is a whole number from 0 on, and not {printable(after, 60)}")
        if stream is not None:
            named(stream, "stream")
        return Reading(workflow_id=workflow_id, stream=stream, after=after, kept_only=kept_only)

    def follow(self, reading: Reading, until: Callable[[str, Callable[[], bool]], object]) -> Iterator[StreamItem | Dropped]:
        """Yield the values after a number, and those added until the execution has ended; `until` waits for something of it."""
        while not reading.over:
            before = reading.after
            yield from self.more(reading)
            if not reading.over and reading.after == before:
                until(reading.workflow_id, lambda: self.has_moved(reading))

    def has_moved(self, reading: Reading) -> bool:
        """Return True if a turn was committed on the execution since a reader has looked, or it is not stored any more."""
        with self._backend.reading() as view:
            row = view.executions.workflow(reading.workflow_id)
        return row is None or row.fence != reading.fence

    def more(self, reading: Reading, *, masked: bool = False) -> list[StreamItem | Dropped]:
        """Return a page of what there is for a reader at this moment.

        `reading` says how far that is. Raises ExecutionNotFound.
        """
        with self._backend.reading() as view:
            row = view.executions.workflow(reading.workflow_id)
            if row is None:
                reading.over = True
                found = self._archived(view, reading)
            else:
                reading.fence = row.fence
                found = list(self._given(view, reading, ended=row.status.terminal))
        hides = self.masks(reading.workflow_id) if masked and found else ()
        if not hides:
            return found
        return [attrs.evolve(one, value=masked_value(one.value, hides)) if isinstance(one, StreamItem) else one for one in found]

    def _given(self, view: ReadingTransaction, reading: Reading, *, ended: bool) -> Iterator[StreamItem | Dropped]:
        streams, whose = view.streams, reading.workflow_id
        if reading.shown is None:
            earlier = streams.emissions(whose) if reading.after and not reading.kept_only else ()
            reading.shown = {(one.task_id, one.lease): one for one in earlier if one.first and one.first <= reading.after}
        if reading.shown:
            states = {(one.task_id, one.lease): one for one in streams.emissions(whose)}
            for call, one in list(reading.shown.items()):
                now = states.get(call, attrs.evolve(one, state=EmissionState.DROPPED))
                if now.state is not EmissionState.OPEN:
                    del reading.shown[call]
                if now.state is EmissionState.DROPPED:
                    yield Dropped(ref=one.ref, attempt=one.attempt, numbers=(one.first, now.last or one.last))
        page = streams.chunks(whose, reading.stream, reading.after, _PAGE)
        for one in page:
            if one.state is EmissionState.OPEN and reading.kept_only:
                return  # what comes after it is given when it is known what becomes of it
            if one.state is not EmissionState.DROPPED:
                yield from items_of(one, reading.after)
            if one.state is EmissionState.OPEN:
                reading.shown.setdefault((one.task_id, one.lease), one)
            reading.after = one.chunks[-1].last
        reading.over = ended and len(page) < _PAGE

    def _archived(self, view: ReadingTransaction, reading: Reading) -> list[StreamItem | Dropped]:
        kept = [one for one in unarchived(view, reading.workflow_id).emissions if one.state is EmissionState.KEPT]
        items = [item for one in kept for item in items_of(one, reading.after)]
        found = sorted((item for item in items if reading.stream in (None, item.stream)), key=lambda item: item.number)
        reading.after = found[-1].number if found else reading.after
        return [*found]

    def masks(self, workflow_id: str) -> Sequence[str]:
        """The fields that the definition of an execution hides."""
        definition = self._queries.get(workflow_id).definition
        return () if definition is None else definition.masked_fields


class Streams(Service):
    """Verbs on what executions emit while they run, and on their latest values."""

    def __init__(self, turns: Turns, config: EngineConfig, control: Control, reports: Reports, readers: Readers) -> None:
        super().__init__(turns, config)
        self._control, self._reports, self._readers = control, reports, readers

    def emit(self, task: Task, *values: object, stream: str = STREAM) -> None:
        """Emit values for a task that was polled by hand, at once, which is a sign of life as well.

        Raises InvalidInput, PayloadTooLarge, and StaleLease when the attempt is over or another worker has it, StorageErrors.
        """
        where = f"a value of {named(stream, 'stream')!r}"
        found = [_checked(self._turns, value, where) for value in values]
        said: dict[str, Any] = {"after": None, "streams": [[stream, found]], "values": {}, "id": self._control.new_id()}
        if not self._reports.sign_of_life(task, self._clock.now(), said):
            raise StaleLease(f"{task.workflow_id}: the attempt at {task.ref!r} is over, and emits nothing any more")

    def items(
        self, workflow_id: str, stream: str | None = None, *, after: int = 0, limit: int = 100, masked: bool = False
    ) -> list[StreamItem]:
        """Up to `limit` values of a stream (None: of all) that are there, in order, with numbers greater than `after`.

        Dropped ones are left out. `masked` as `Engine.get` does it. Raises ExecutionNotFound and InvalidInput.
        """
        if type(limit) is not int or limit < 1:
            raise InvalidInput(f"limit is a whole number from 1 on, and not {printable(limit, 60)}")
        found: list[StreamItem] = []
        reading = self._readers.reading(workflow_id, stream, after, kept_only=False)
        while len(found) < limit and not reading.over:
            before = reading.after
            found += [item for item in self._readers.more(reading, masked=masked) if isinstance(item, StreamItem)]
            if reading.after == before:
                break
        return found[:limit]

    def value(self, workflow_id: str, name: str, *, ref: str = "", masked: bool = False) -> LatestValue | None:
        """The latest value of a name, set by a task (`ref`, its printed reference) or by who holds the execution; None before.

        Raises ExecutionNotFound.
        """
        return next((one for one in self.values(workflow_id, masked=masked) if (one.name, one.ref) == (name, ref)), None)

    def values(self, workflow_id: str, *, masked: bool = False) -> list[LatestValue]:
        """Every latest value of an execution, in order of name and task; raises ExecutionNotFound."""
        with self._backend.reading() as view:
            row = view.executions.workflow(workflow_id)
            found = list(view.streams.values(workflow_id)) if row is not None else list(unarchived(view, workflow_id).values)
        hides = self._readers.masks(workflow_id) if masked and found else ()
        return [attrs.evolve(one, value=Payload.of(masked_value(one.value.fresh(), hides))) for one in found] if hides else found

    def set_value(self, workflow_id: str, name: str, value: object) -> None:
        """Set the latest value of a name, for its readers.

        Raises ExecutionNotFound, ExecutionEnded, InvalidInput, PayloadTooLarge and Parked.
        """
        said = {"name": named(name, "name"), "value": _checked(self._turns, value, "value")}
        self._control.verb(workflow_id, EventKind.SET_VALUE, said)
