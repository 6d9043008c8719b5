"""The parts of turns and of the driver, each without the whole: none of them knows who holds it."""

from __future__ import annotations

import ast
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import attrs
import pytest

from conductorlite import VirtualClock, WorkflowDef
from conductorlite.decide.changeset.reader import Bounds
from conductorlite.engine import commits, decisions, lookups, parking, reader, residents, turn_lock
from conductorlite.engine.commits import Committer
from conductorlite.engine.decisions import DeathMarks, TurnDecider
from conductorlite.engine.lookups import Lookups
from conductorlite.engine.parking import BROKEN_TURNS, Parking
from conductorlite.engine.payloads import PayloadStore, TurnMemo
from conductorlite.engine.registry import Registry
from conductorlite.engine.residents import Quiet, Residents
from conductorlite.engine.turn_types import Commits, Deadly, Start, new_event
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.definitions import Semantics
from conductorlite.model.errors import InvariantBroken
from conductorlite.model.executions import Workflow, WorkflowRow
from conductorlite.runtime import work
from conductorlite.store.memory.backend import MemoryBackend

FLOW = WorkflowDef.from_json({"name": "flow", "version": 1, "tasks": [{"name": "a", "taskReferenceName": "a", "type": "SIMPLE"}]})


@attrs.frozen
class Parts:
    """What stands around a part that is looked at."""

    backend: MemoryBackend
    lookups: Lookups
    deaths: DeathMarks
    decider: TurnDecider
    committer: Committer
    parking: Parking
    committed: Commits
    started: Start


@pytest.fixture
def parts() -> Parts:
    """The parts of turns, on a store with nothing in it, and the start of an execution."""
    backend, clock, bounds = MemoryBackend(), VirtualClock(), Bounds()
    registry = Registry(backend, {}, Semantics.ORKES, dict)
    around = Lookups(
        clock,
        registry=registry,
        environment={},
        bounds=bounds,
        payload_store=PayloadStore(backend, None, None, bounds.barriers),
        quiet=Quiet(backend, "", registry.joined),
        at_hand=True,
    )
    with backend.reading() as view:
        embedded = registry.embedded(view, FLOW, None)
    row: Workflow = WorkflowRow(
        workflow_id="w", name="flow", version=1, definition_hash=embedded.digest, created_at=clock.now(), updated_at=clock.now()
    )
    deaths, committed = DeathMarks(backend.marks()), Commits()
    decider = TurnDecider(around, deaths)
    return Parts(
        backend=backend,
        lookups=around,
        deaths=deaths,
        decider=decider,
        committer=Committer(around, Residents(0)),
        parking=Parking(backend, around, decider, deaths, committed),
        committed=committed,
        started=Start(workflow=row, definitions=registry.not_stored(embedded)),
    )


def begun(parts: Parts) -> Workflow:
    """The row of an execution whose first turn was decided by one part and committed by the other."""
    memo, event = TurnMemo(parts.started), new_event("w", EventKind.START, parts.lookups.clock.now())
    with parts.backend.writing() as tx:
        number = parts.lookups.quiet.enter(tx, parts.lookups.clock.now())
        _, turn = parts.decider.prepared(tx, "w", [event], memo)
        assert turn is not None
        decision = parts.decider.decide(turn)
        tx.decisions.apply(parts.committer.before_apply(tx, decision, memo))
        parts.committer.write_extras(tx, decision, memo)
    parts.lookups.quiet.committed(number)
    return decision.workflow


def test_what_decides_and_what_commits_need_no_turns(parts: Parts) -> None:
    """An execution begins: its row, its first task and its definition are stored, and the task is offered."""
    row = begun(parts)
    with parts.backend.reading() as view:
        assert view.executions.workflow("w") is not None
        assert [task.ref for task in view.executions.attempts("w")] == ["a"]
        assert view.metadata.definition(row.definition_hash) is not None
        assert view.queue.queue_sizes() == {"a": 1}


def test_the_third_broken_turn_parks(parts: Parts) -> None:
    """They are counted on the execution's row; a row that is not there yet is counted for as well."""
    begun(parts)
    for number in range(1, BROKEN_TURNS + 1):
        parts.parking.count_broken("w", InvariantBroken("a law"))
        with parts.backend.reading() as view:
            row = view.executions.workflow("w")
        assert row is not None
        assert (row.broken_turns, row.parked) == (number, "a law" if number == BROKEN_TURNS else None)


def test_events_that_no_turn_reads_wait_and_polls_do_not(parts: Parts) -> None:
    """Who waits is woken for what was posted; a poll would take a task for nobody."""
    begun(parts)
    now, seen = parts.lookups.clock.now(), parts.committed.number
    assert parts.parking.post_to_inbox("w", [new_event("w", EventKind.POLL, now)]).posted
    assert parts.committed.number == seen
    assert parts.parking.post_to_inbox("w", [new_event("w", EventKind.PAUSE, now)]).posted
    assert parts.committed.number > seen
    with parts.backend.reading() as view:
        assert {event.kind for event in view.inbox.events("w")} == {EventKind.PAUSE, EventKind.POLL_TIMEOUT}


class Kept:
    """Marks in memory."""

    def __init__(self, died: int) -> None:
        self.died, self.calls = died, list[str]()

    def deaths(self, key: str) -> int:
        """How often a process has died in it."""
        return self.died

    def begin(self, key: str) -> None:
        """Note it."""
        self.calls.append("begin")

    def end(self, key: str) -> None:
        """Note it."""
        self.calls.append("end")

    def forget(self, key: str) -> None:
        """Note it."""
        self.calls.append("forget")


@pytest.mark.parametrize("died", [0, 2, 3])
def test_a_turn_that_ended_its_process_three_times_is_refused(parts: Parts, died: int) -> None:
    """Before that it is marked while it is under way, and the mark goes whatever comes of it."""
    kept: Any = Kept(died)
    marks, memo = DeathMarks(kept), TurnMemo()
    row, events = begun(parts), [new_event("w", EventKind.PAUSE, 0)]
    with pytest.raises(Deadly) if died == 3 else nullcontext():
        marks.entering(row, events, memo)
    marks.leaving(memo)
    assert (memo.deaths, kept.calls) == (died, [] if died == 3 else ["begin", "end"])


def test_what_is_committed_has_another_number_each_time() -> None:
    """And all who wait are woken."""
    committed, numbers = Commits(), set[int]()
    waiter = committed.waiter()
    for _ in range(3):
        committed.wake()
        numbers.add(committed.number)
    assert len(numbers) == 3
    assert waiter.wait(0)


def test_a_record_stands_for_the_inbox(parts: Parts) -> None:
    """When a record is replayed its turn reads the events that it names, and no others."""

    @attrs.frozen
    class Said:
        events: tuple[Event, ...]
        admissions: tuple[Any, ...] = ()
        cut: tuple[Any, ...] = ()

        def left(self, events: object) -> dict[Any, int]:
            """Nothing."""
            return {}

        def begun(self, row: Workflow) -> Workflow:
            """The row as it is."""
            return row

    row, said = begun(parts), Said((new_event("w", EventKind.RESUME, 0),))
    parts.lookups.record = said
    with parts.backend.reading() as view:
        assert parts.decider.due(view, row, 10**15) == said.events


@pytest.mark.parametrize(
    ("part", "owners"),
    [(one, ("turns", "groups", "starts")) for one in (commits, decisions, lookups, parking, reader, residents, turn_lock)]
    + [(work, ("loop",))],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_no_part_knows_its_owner(part: Any, owners: tuple[str, ...]) -> None:
    """Not even for type checkers."""
    tree = ast.parse(Path(part.__file__).read_text(encoding="utf-8"))
    imported = {one.module or "" for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)}
    assert not {one.rpartition(".")[2] for one in imported if one.startswith("conductorlite.")} & set(owners)
