"""The protocol of turns, leases, fences and generations as a small machine, and a search through all it can do.

One execution of a few tasks; two engines, each of which reads, decides and commits in two steps between which anything may happen;
workers that poll, report late, twice, or without their lease; time that may pass at any moment; locks that may lapse. A `World` is
one state, `steps` gives all that may happen next, `explore` looks at every world that can be reached, breadth first, so that what
it finds comes with the shortest way there.

What a turn decides is written here a second time, and shorter: `test_conformance.py` walks the engine along ways of this machine.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Final

import attrs

__all__ = ["NOT_SHOWN", "Event", "Found", "Scope", "Turn", "World", "broken_law", "decide", "explore", "first", "named", "steps"]

OPEN: Final = ("SCHEDULED", "IN_PROGRESS")
#: The lease of a report that shows none, as Conductor's own clients send it.
NOT_SHOWN: Final = -1
#: How long a lease holds, in moments.
LEASE: Final = 1


@attrs.frozen(cache_hash=True)
class Scope:
    """How much there is, and which of the protections are there."""

    tasks: int = 1
    retries: int = 1
    engines: int = 2
    workers: int = 2
    #: How often a verb reopens the execution, a worker puts its task back, a report is repeated, time passes.
    verbs: int = 1
    put_backs: int = 1
    repeats: int = 1
    moments: int = 2
    fence: bool = True
    lease: bool = True
    generation: bool = True
    lock: bool = False
    lock_lapses: bool = True


@attrs.frozen(cache_hash=True)
class Attempt:
    """A row of a task."""

    task: int
    attempt: int
    generation: int
    status: str = "SCHEDULED"
    lease: int = 0


@attrs.frozen(order=True)
class Event:
    """What a turn is about: POLL, REPORT, RETRY, RESTART, or DRIVE for what is due by itself."""

    kind: str
    task: int = 0
    attempt: int = 0
    generation: int = 0
    lease: int = -1
    outcome: str = ""


_DRIVE: Final = Event("DRIVE")


@attrs.frozen(cache_hash=True)
class Db:
    """What is stored."""

    status: str = "RUNNING"
    fence: int = 1
    generation: int = 0
    leases: int = 0
    rows: tuple[Attempt, ...] = (Attempt(0, 0, 0),)
    #: At which attempt the present retry budget began.
    first_attempt: int = 0
    #: Attempts offered to workers: (task, attempt, generation).
    messages: frozenset[tuple[int, int, int]] = frozenset({(0, 0, 0)})
    #: When the lease of an attempt lapses: (task, attempt, generation, moment).
    timers: frozenset[tuple[int, int, int, int]] = frozenset()
    #: A restart takes two turns: in the second the first task is scheduled.
    left: bool = False
    journal: tuple[str, ...] = ("a0.0 SCHEDULED",)

    def row(self, task: int, attempt: int) -> Attempt | None:
        """The row of an attempt."""
        return next((row for row in self.rows if (row.task, row.attempt) == (task, attempt)), None)


@attrs.frozen(cache_hash=True)
class Turn:
    """A turn between its reading and its commit."""

    event: Event
    read: int
    decided: Db
    #: What it adds to the journal, and whether its own event does anything, beside what is due.
    lines: tuple[str, ...] = ()
    effective: bool = False
    #: Whether it holds the lock; it goes on when that has lapsed, for it does not know.
    locked: bool = False


@attrs.frozen(cache_hash=True)
class World:
    """All there is at one instant. Engines and workers are alike: only what they are doing counts."""

    db: Db = Db()
    now: int = 0
    turns: tuple[Turn, ...] = ()
    idle: int = 2
    #: What workers hold: (task, attempt, generation, lease).
    held: tuple[tuple[int, int, int, int], ...] = ()
    verbs: int = 0
    put_backs: int = 0
    repeats: int = 0
    #: Every line that was ever committed: what the journal must still tell.
    told: tuple[str, ...] = ("a0.0 SCHEDULED",)


def first(scope: Scope) -> World:
    """An execution that has just begun."""
    return World(idle=scope.workers, verbs=scope.verbs, put_backs=scope.put_backs, repeats=scope.repeats)


# ---------------------------------------------------------------------- deciding


def decide(db: Db, event: Event, now: int, scope: Scope) -> Db | None:
    """What a turn makes of what it has read: first what is due, then its event. None when nothing changes."""
    after = _scheduled(attrs.evolve(db, left=False), Attempt(0, 0, db.generation)) if db.left else db
    for timer in sorted(db.timers, key=lambda timer: timer[3]):
        if timer[3] <= now:
            after = _lapsed(after, timer, scope)
    handler = _HANDLERS.get(event.kind)
    after = handler(after, event, now, scope) if handler else after
    return None if after == db else attrs.evolve(after, fence=db.fence + 1)


def _same(row: Attempt | None, generation: int, scope: Scope) -> bool:
    return row is not None and (row.generation == generation or not scope.generation)


def _lapsed(db: Db, timer: tuple[int, int, int, int], scope: Scope) -> Db:
    task, attempt, generation, _ = timer
    db = attrs.evolve(db, timers=db.timers - {timer})
    row = db.row(task, attempt)
    if db.status != "RUNNING" or row is None or not _same(row, generation, scope) or row.status != "IN_PROGRESS":
        return db
    return _failed(_moved(db, row, "TIMED_OUT"), row, scope, "TIMED_OUT")


def _poll(db: Db, event: Event, now: int, scope: Scope) -> Db:
    row = db.row(event.task, event.attempt)
    if db.status != "RUNNING" or row is None or not _same(row, event.generation, scope) or row.status != "SCHEDULED":
        return db
    leases = db.leases + 1
    db = _moved(db, row, "IN_PROGRESS", leases)
    timer = (row.task, row.attempt, row.generation, now + LEASE)
    return attrs.evolve(db, leases=leases, timers=db.timers | {timer})


def _report(db: Db, event: Event, now: int, scope: Scope) -> Db:
    row = db.row(event.task, event.attempt)
    if db.status != "RUNNING" or row is None or not _same(row, event.generation, scope) or row.status not in OPEN:
        return db
    if event.lease not in (NOT_SHOWN, row.lease) and scope.lease:
        return db
    if event.outcome == "PUT_BACK":
        db = _moved(db, row, "SCHEDULED")
        return attrs.evolve(db, messages=db.messages | {(row.task, row.attempt, row.generation)})
    db = _moved(db, row, event.outcome)
    if event.outcome == "FAILED":
        return _failed(db, row, scope)
    if row.task + 1 == scope.tasks:
        return _ended(db, "COMPLETED")
    return _scheduled(attrs.evolve(db, first_attempt=0), Attempt(row.task + 1, 0, db.generation))


def _retry(db: Db, event: Event, now: int, scope: Scope) -> Db:
    if db.status not in ("FAILED", "TIMED_OUT"):
        return db
    last = db.rows[-1]
    db = attrs.evolve(db, status="RUNNING", generation=db.generation + 1, first_attempt=last.attempt + 1)
    return _scheduled(_line(db, "workflow RUNNING"), Attempt(last.task, last.attempt + 1, db.generation))


def _restart(db: Db, event: Event, now: int, scope: Scope) -> Db:
    if db.status == "RUNNING":
        return db
    db = attrs.evolve(db, status="RUNNING", generation=db.generation + 1, first_attempt=0, rows=(), left=True)
    return _line(db, "workflow RUNNING")


_HANDLERS: Final[Mapping[str, Callable[[Db, Event, int, Scope], Db]]] = {
    "POLL": _poll,
    "REPORT": _report,
    "RETRY": _retry,
    "RESTART": _restart,
}


def _line(db: Db, text: str) -> Db:
    return attrs.evolve(db, journal=(*db.journal, text))


def _moved(db: Db, row: Attempt, status: str, lease: int = 0) -> Db:
    """A row in another status: whatever was waited for, or offered, is not any more."""
    key = (row.task, row.attempt, row.generation)
    rows = tuple(attrs.evolve(one, status=status, lease=lease) if one == row else one for one in db.rows)
    timers = frozenset(timer for timer in db.timers if timer[:3] != key)
    db = attrs.evolve(db, rows=rows, timers=timers, messages=db.messages - {key})
    return _line(db, f"{'ab'[row.task]}{row.attempt}.{row.generation} {status}")


def _scheduled(db: Db, row: Attempt) -> Db:
    db = attrs.evolve(db, rows=(*db.rows, row), messages=db.messages | {(row.task, row.attempt, row.generation)})
    return _line(db, f"{'ab'[row.task]}{row.attempt}.{row.generation} SCHEDULED")


def _failed(db: Db, row: Attempt, scope: Scope, end: str = "FAILED") -> Db:
    if row.attempt - db.first_attempt < scope.retries:
        return _scheduled(db, Attempt(row.task, row.attempt + 1, row.generation))
    return _ended(db, end)


def _ended(db: Db, status: str) -> Db:
    return _line(attrs.evolve(db, status=status), f"workflow {status}")


# ---------------------------------------------------------------------- what may happen


def steps(world: World, scope: Scope) -> Iterator[tuple[tuple[object, ...], World]]:
    """Each thing that may happen next, with its name, and the world after it."""
    yield from _readings(world, scope)
    for number, turn in enumerate(world.turns):
        others = (*world.turns[:number], *world.turns[number + 1 :])
        yield ("commit", turn), _commit(world, turn, others, scope)
        if turn.locked and scope.lock_lapses:
            lapsed = attrs.evolve(turn, locked=False)
            yield ("lock lapses", turn), attrs.evolve(world, turns=_ordered(*others, lapsed))
    if world.now < scope.moments and any(timer[3] > world.now for timer in world.db.timers):
        yield ("time passes",), attrs.evolve(world, now=world.now + 1)


def _readings(world: World, scope: Scope) -> Iterator[tuple[tuple[object, ...], World]]:
    if len(world.turns) == scope.engines or (scope.lock and any(turn.locked for turn in world.turns)):
        return
    if world.db.left or any(timer[3] <= world.now for timer in world.db.timers):
        yield _read(world, _DRIVE, scope)
    if world.idle:
        for message in sorted(world.db.messages):
            yield _read(attrs.evolve(world, idle=world.idle - 1), Event("POLL", *message), scope)
    for held in sorted(set(world.held)):
        yield from _reports(world, held, scope)
    if world.verbs and world.db.status != "RUNNING":
        less = attrs.evolve(world, verbs=world.verbs - 1)
        yield _read(less, Event("RESTART"), scope)
        if world.db.status in ("FAILED", "TIMED_OUT"):
            yield _read(less, Event("RETRY"), scope)


def _reports(world: World, held: tuple[int, int, int, int], scope: Scope) -> Iterator[tuple[tuple[object, ...], World]]:
    rest = list(world.held)
    rest.remove(held)
    done = attrs.evolve(world, held=tuple(rest), idle=world.idle + 1)
    *attempt, lease = held
    for outcome in ("COMPLETED", "FAILED"):
        for shown in (lease, NOT_SHOWN):
            yield _read(done, Event("REPORT", *attempt, shown, outcome), scope, f"by who holds {lease}")
    if world.put_backs:
        yield _read(attrs.evolve(done, put_backs=world.put_backs - 1), Event("REPORT", *attempt, lease, "PUT_BACK"), scope)
        # It is put back, and reported on all the same.
        late = attrs.evolve(world, put_backs=world.put_backs - 1)
        yield _read(late, Event("REPORT", *attempt, lease, "PUT_BACK"), scope, "and keeps it")
    if world.repeats:
        again = attrs.evolve(world, repeats=world.repeats - 1)
        yield _read(again, Event("REPORT", *attempt, lease, "COMPLETED"), scope, "and will again")


def _read(world: World, event: Event, scope: Scope, how: str = "") -> tuple[tuple[object, ...], World]:
    return ("read", event, how), _reread(world, event, world.turns, scope)


def _reread(world: World, event: Event, others: tuple[Turn, ...], scope: Scope, locked: bool | None = None) -> World:
    decided = decide(world.db, event, world.now, scope)
    if decided is None:  # nothing to commit: the turn is over
        idle = world.idle + (event.kind == "POLL")
        return attrs.evolve(world, turns=others, idle=idle)
    due = decide(world.db, _DRIVE, world.now, scope) or world.db
    turn = Turn(
        event=event,
        read=world.db.fence,
        decided=decided,
        lines=decided.journal[len(world.db.journal) :],
        effective=due.rows != decided.rows,
        locked=scope.lock if locked is None else locked,
    )
    return attrs.evolve(world, turns=_ordered(*others, turn))


def _ordered(*turns: Turn) -> tuple[Turn, ...]:
    return tuple(sorted(turns, key=lambda turn: (turn.event, turn.read, turn.locked)))


def _commit(world: World, turn: Turn, others: tuple[Turn, ...], scope: Scope) -> World:
    if scope.fence and world.db.fence != turn.read:
        return _reread(world, turn.event, others, scope, turn.locked)
    idle, held = world.idle, world.held
    if turn.event.kind == "POLL":
        row = turn.decided.row(turn.event.task, turn.event.attempt)
        if turn.effective and row is not None:
            held = tuple(sorted((*held, (row.task, row.attempt, row.generation, row.lease))))
        else:
            idle += 1
    after = attrs.evolve(world, db=turn.decided, told=world.told + turn.lines, turns=others, idle=idle, held=held)
    # Who restarts takes the second turn of it too.
    return _reread(after, _DRIVE, others, scope) if turn.event.kind == "RESTART" and turn.effective else after


# ---------------------------------------------------------------------- laws


def broken_law(before: World, name: tuple[object, ...], after: World) -> str | None:
    """The law that a step has broken, in words; None when all hold."""
    if after.db is before.db:
        return None
    if after.db.journal != after.told:
        return "an update is lost: what was committed is not told any more"
    if sum(row.status in OPEN for row in after.db.rows) > 1:
        return "two attempts are live"
    ended = [line.split()[0] for line in after.told if line.split()[1] not in OPEN and not line.startswith("workflow")]
    if len(ended) != len(set(ended)):
        return "an attempt has ended twice"
    workflow = [line.split()[1] for line in after.told if line.startswith("workflow")]
    if any(one != "RUNNING" and other != "RUNNING" for one, other in pairwise(workflow)):
        return "an execution has ended twice"
    turn = name[1]
    assert isinstance(turn, Turn)
    event = turn.event
    if turn.effective and event.kind in ("POLL", "REPORT"):
        row = before.db.row(event.task, event.attempt)
        if row is None or row.generation != event.generation:
            return "an event of an earlier generation has changed something"
        if event.kind == "REPORT" and event.lease not in (NOT_SHOWN, row.lease):
            return "a worker that has lost its lease has changed something"
    return None


def named(step: tuple[object, ...]) -> str:
    """A step in a few words."""
    about = step[1] if len(step) > 1 else None
    event = about.event if isinstance(about, Turn) else about
    if not isinstance(event, Event):
        return str(step[0])
    shown = "" if event.kind != "REPORT" else f" {event.outcome} of lease {'none' if event.lease == NOT_SHOWN else event.lease}"
    return f"{step[0]} {event.kind}{shown}"


@attrs.define
class Found:
    """What a search has come to."""

    worlds: int = 0
    steps: int = 0
    law: str | None = None
    #: The shortest way to what breaks the law, or to where nothing ends any more.
    way: tuple[tuple[object, ...], ...] = ()
    #: How each world was first come to: the world before it, and the step.
    parents: dict[World, tuple[World, tuple[object, ...]] | None] = attrs.field(factory=dict)
    #: What happened, by name and kind of event.
    kinds: Counter[str] = attrs.field(factory=Counter)

    def way_to(self, world: World) -> tuple[tuple[object, ...], ...]:
        """The steps from the beginning to a world."""
        steps: list[tuple[object, ...]] = []
        place = self.parents[world]
        while place is not None:
            world, step = place
            steps.append(step)
            place = self.parents[world]
        return tuple(reversed(steps))


def explore(scope: Scope, *, endings: bool = False) -> Found:
    """Look at every world there is; with `endings`, also whether from each of them the execution can still end."""
    begin = first(scope)
    found = Found(parents={begin: None})
    waiting = deque([begin])
    backwards: dict[World, list[World]] = {}
    while waiting:
        world = waiting.popleft()
        for name, after in steps(world, scope):
            found.steps += 1
            found.kinds[named(name)] += 1
            if endings:
                backwards.setdefault(after, []).append(world)
            if after in found.parents:
                continue
            found.parents[after] = (world, name)
            law = broken_law(world, name, after)
            if law is not None:
                found.worlds, found.law, found.way = len(found.parents), law, found.way_to(after)
                return found
            waiting.append(after)
    found.worlds = len(found.parents)
    if endings:
        _look_for_ends(found, backwards)
    return found


def _look_for_ends(found: Found, backwards: Mapping[World, list[World]]) -> None:
    """Every world from which no way leads to an execution that has ended is one in which something was lost."""
    good = {world for world in found.parents if world.db.status != "RUNNING"}
    waiting = deque(good)
    while waiting:
        for before in backwards.get(waiting.popleft(), ()):
            if before not in good:
                good.add(before)
                waiting.append(before)
    for world in found.parents:
        if world not in good:
            found.law, found.way = "the execution can never end", found.way_to(world)
            return
