"""Rate limits count what is handed to workers: a poll takes a place of the window, and nobody keeps one who is not polled for."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest
from engine_kit import T0, Bench, flow, fork, join, simple, task_def, wait
from hypothesis import given
from hypothesis import strategies as st
from limits_kit import limited, verify

from conductorlite import Engine, SystemClock, Task, TaskStatus, VirtualClock, WorkflowDef
from conductorlite.engine.turn_types import new_event
from conductorlite.model.clock import Wakeup, readings, steady
from conductorlite.model.decisions import Decision, EventKind
from conductorlite.model.limits import Limit, LimitChange, reread
from conductorlite.store.ports import Backend
from conductorlite.testing import ScriptedWorkers, replay

TWO_A_MINUTE: dict[str, Any] = {"rate": 2, "per_s": 60}


def _started(bench: Bench, definition: WorkflowDef, ids: str, **options: Any) -> None:
    for one in ids.split():
        bench.engine.start(definition, workflow_id=one, **options)
    bench.engine.settle()


def _taken(bench: Bench, count: int = 100, **options: Any) -> list[str]:
    return [task.workflow_id for task in bench.engine.poll("a", count=count, **options)]


def _statuses(bench: Bench, ids: str) -> list[str]:
    return [str(bench.engine.get(one).task("a").status) for one in ids.split()]


def _whole(bench: Bench) -> None:
    """Every law, of limits too, and each execution lived again from its export."""
    verify(bench.engine.backend, bench.clock.now())
    assert bench.engine.admin.check() == []
    for one in bench.engine.admin.workflow_ids():
        replay(bench.engine.admin.export(one)).engine.close()


def test_a_backlog_begins_as_the_window_allows(bench: Bench) -> None:
    """Whatever was let in while nobody polled: two at once, the next two a minute after these were taken, in their order."""
    ids = [f"w{number}" for number in range(6)]
    _started(bench, flow(limited("a", **TWO_A_MINUTE)), " ".join(ids))
    bench.at(540)
    assert _statuses(bench, " ".join(ids)) == ["PENDING"] * 6
    assert _taken(bench) == ids[:2]
    bench.at(599.999)
    assert _taken(bench) == []
    bench.at(600)
    assert (_taken(bench, 1), _taken(bench, 1), _taken(bench, 1)) == (ids[2:3], ids[3:4], [])
    _whole(bench)


def test_the_window_begins_at_the_take(bench: Bench) -> None:
    """An offer taken after four seconds has its place until four seconds later; offered and taken are never more than the rate."""
    _started(bench, flow(limited("a", **TWO_A_MINUTE)), "w1 w2 w3")
    assert _statuses(bench, "w1 w2 w3") == ["SCHEDULED", "SCHEDULED", "PENDING"]
    bench.at(4)
    assert _taken(bench, 1) == ["w1"]
    bench.at(4.5)
    assert (_taken(bench), _statuses(bench, "w3")) == (["w2"], ["PENDING"])
    bench.at(63.999)
    assert _statuses(bench, "w3") == ["PENDING"]
    bench.at(64)
    assert (_taken(bench), bench.engine.limits.get("task:a").admitted_at) == (["w3"], (T0 + 4_500, T0 + 64_000))
    _whole(bench)


def test_workers_that_are_not_there_hold_up_nobody(bench: Bench) -> None:
    """What a domain does not take for five seconds goes back, and the line goes on without that domain until it is polled."""
    definition = flow(limited("a", **TWO_A_MINUTE))
    _started(bench, definition, "d1 d2 d3 d4", task_to_domain={"a": "dead"})
    _started(bench, definition, "w1 w2 w3")
    assert (_statuses(bench, "d1 d2 d3"), _taken(bench)) == (["SCHEDULED", "SCHEDULED", "PENDING"], [])
    bench.at(4.999)
    assert _statuses(bench, "d1 w1") == ["SCHEDULED", "PENDING"]
    bench.at(5)
    assert (_statuses(bench, "d1 d2 d3"), _taken(bench)) == (["PENDING"] * 3, ["w1", "w2"])
    assert bench.engine.limits.get("task:a").unpolled == ("dead:a",)
    bench.at(65)
    assert _statuses(bench, "d1 w3") == ["PENDING", "SCHEDULED"]
    assert _taken(bench, domain="dead") == ["d1"]
    assert [member.workflow_id for member in bench.engine.limits.get("task:a").line] == ["d2", "d3", "d4"]
    assert _taken(bench) == ["w3"]
    _whole(bench)


def test_what_nobody_took_has_its_old_place(bench: Bench) -> None:
    """Before those who asked later, and before those of a lower priority; a higher one goes first."""
    definition = flow(limited("a", rate=1, per_s=60))
    _started(bench, definition, "w1")
    bench.at(10)
    _started(bench, definition, "w2")
    _started(bench, definition, "high", priority=5)
    assert _statuses(bench, "w1 w2 high") == ["PENDING"] * 3
    assert [member.workflow_id for member in bench.engine.limits.get("task:a").line] == ["high", "w1", "w2"]
    order = []
    for minute in range(3):
        bench.at(20 + 60 * minute)
        order += _taken(bench)
    assert order == ["high", "w1", "w2"]
    _whole(bench)


def test_both_limits(bench: Bench) -> None:
    """An offer that nobody takes gives its slot back too; a task in progress has it until it ends, its place for a window."""
    definition = flow(limited("a", k=1, rate=3, per_s=10))
    _started(bench, definition, "d1", task_to_domain={"a": "dead"})
    _started(bench, definition, "w1 w2")
    bench.at(5)
    assert (_statuses(bench, "d1 w1 w2"), _taken(bench)) == (["PENDING", "SCHEDULED", "PENDING"], ["w1"])
    limit = bench.engine.limits.get("task:a")
    assert (limit.in_use, limit.reserved, limit.admitted_at) == (1, 0, (T0 + 5_000,))
    bench.report(bench.engine.get("w1").task("a"))
    bench.engine.settle()
    assert _taken(bench) == ["w2"]
    _whole(bench)


def _given_back(bench: Bench, task: Task, why: str = "died") -> None:
    event = new_event(task.workflow_id, EventKind.GIVE_BACK, bench.clock.now(), {"lease": task.lease, "why": why})
    about = {"ref": task.ref, "attempt": task.attempt, "generation": task.generation}
    bench.engine.core.turns.run_turn(task.workflow_id, [attrs.evolve(event, **about)])
    bench.engine.settle()


@pytest.mark.parametrize("k", [None, 2])
def test_what_is_given_back_begins_once_more(bench: Bench, k: int | None) -> None:
    """The hand-over after a death is another begin: it waits for a place of its own, before those who asked later."""
    _started(bench, flow(limited("a", k=k, rate=1, per_s=10)), "w1 w2")
    (task,) = bench.engine.poll("a")
    bench.at(3)
    _given_back(bench, task)
    assert (_statuses(bench, "w1 w2"), _taken(bench)) == (["PENDING", "PENDING"], [])
    bench.at(10)
    (again,) = bench.engine.poll("a", count=9)
    assert (again.workflow_id, again.attempt, again.deaths) == ("w1", task.attempt, 1)
    bench.at(20)
    assert _taken(bench) == ["w2"]
    _whole(bench)


def test_the_poll_timeout_counts_while_nobody_polls(bench: Bench) -> None:
    """It goes on when the offer ends; and stops counting when its queue is polled, and the window is what it waits for."""
    definition = flow(limited("a", rate=1, per_s=60, poll_timeout_s=30))
    _started(bench, definition, "w1")
    bench.at(29)
    assert _statuses(bench, "w1") == ["PENDING"]
    bench.at(30)
    assert bench.engine.status("w1").terminal
    _started(bench, definition, "d1 d2", task_to_domain={"a": "dead"})
    bench.at(36)
    _started(bench, definition, "w2")
    assert _taken(bench) == ["w2"]
    assert _taken(bench, domain="dead") == []
    bench.at(70)
    assert _statuses(bench, "d1 d2") == ["PENDING", "PENDING"]
    bench.at(96)
    assert _taken(bench, domain="dead") == ["d1"]
    _whole(bench)


def test_paused_while_it_is_offered(bench: Bench) -> None:
    """What nobody takes then leaves the line, and asks anew when the execution is resumed."""
    _started(bench, flow(limited("a", rate=1, per_s=60)), "w1 w2")
    bench.engine.pause("w1")
    bench.at(5)
    limit = bench.engine.limits.get("task:a")
    assert (_statuses(bench, "w1 w2"), [one.workflow_id for one in limit.line]) == (["PENDING", "SCHEDULED"], [])
    assert _taken(bench) == ["w2"]
    bench.engine.resume("w1")
    bench.at(65)
    assert _taken(bench) == ["w1"]
    _whole(bench)


def _of_an_older_release(bench: Bench) -> None:
    """As schema 4 knew it: who was let in was dated at once, and was a member no longer."""
    with bench.engine.backend.writing() as tx:
        limit = tx.limits.line("task:a", 0).limit
        gone = tuple(member.holder for member in tx.limits.members("task:a") if member.state == "RESERVED")
        tx.limits.put_limit(LimitChange(limit=attrs.evolve(limit, reserved=0, log=(T0, T0)), gone=gone))


def test_a_store_of_an_older_release(bench: Bench) -> None:
    """What was offered before the upgrade asks when it is polled: no poll takes more than the window holds."""
    _started(bench, flow(limited("a", **TWO_A_MINUTE)), "w1 w2 w3")
    _of_an_older_release(bench)
    bench.at(4)
    assert (_taken(bench), _statuses(bench, "w1 w2 w3")) == ([], ["PENDING"] * 3)
    bench.at(60)
    assert _taken(bench) == ["w1", "w2"]
    bench.at(120)
    assert _taken(bench) == ["w3"]


MOVES: dict[str, Callable[[], WorkflowDef]] = {
    "without a limit": lambda: flow(simple("a", {"retry_count": 0}), version=2),
    "with slots only": lambda: flow(limited("a", k=5), version=2),
    "with a limit": lambda: flow(limited("a", rate=1, per_s=60), version=2),
}


@pytest.mark.parametrize("name", MOVES)
def test_moved_to_another_definition_while_it_is_offered(bench: Bench, name: str) -> None:
    """It begins by the new one, and holds no place of the old one any more."""
    _started(bench, flow(limited("a", rate=1, per_s=60)), "w1 w2")
    bench.engine.definitions.migrate("w1", MOVES[name]())
    bench.engine.settle()
    assert _taken(bench, 1) == ["w1"]
    bench.at(5)
    begun = {"without a limit": (), "with slots only": (T0 + 5_000,), "with a limit": (T0,)}
    assert (bench.engine.limits.get("task:a").reserved, bench.engine.limits.get("task:a").admitted_at) == (0, begun[name])
    assert bench.engine.admin.check() == []


def test_moved_from_a_definition_without_a_limit(bench: Bench) -> None:
    """It asks when it is polled."""
    _started(bench, flow(limited("a", rate=1, per_s=60)), "w1")
    bench.engine.start(flow(simple("a", {"retry_count": 0})), workflow_id="w2")
    bench.engine.definitions.migrate("w2", flow(limited("a", rate=1, per_s=60), version=2))
    bench.engine.settle()
    assert (_taken(bench), _statuses(bench, "w2")) == (["w1"], ["PENDING"])
    bench.at(60)
    assert _taken(bench) == ["w2"]
    assert bench.engine.admin.check() == []


def test_a_lost_event_is_found_and_written_again(bench: Bench) -> None:
    """An offer that nothing would end is told of by `check`, and set right by `repair`."""
    _started(bench, flow(limited("a", rate=1, per_s=60)), "w1")
    with bench.engine.backend.writing() as tx:
        row = tx.executions.workflow("w1")
        assert row is not None
        tx.decisions.apply(Decision(workflow=row, cancelled=("OFFER_ENDS:a",)))
    assert [finding.law for finding in bench.engine.admin.check()] == ["slots_are_those_of_the_rows"]
    bench.engine.admin.repair("w1")
    assert bench.engine.admin.check() == []
    bench.at(6)
    assert _statuses(bench, "w1") == ["PENDING"]


def test_a_driver_with_busy_workers_loses_nothing() -> None:
    """One worker that is busy longer than an offer stands: what it could not take waits for it, and is taken when it is free."""
    workers = ScriptedWorkers()
    workers.a.takes("8s").returns({})
    with Engine(clock=VirtualClock(T0), workers=workers) as engine:
        engine.register(task_def("a", rate_limit_per_frequency=3, rate_limit_frequency_s=20))
        for number in range(4):
            engine.start(flow(simple("a", None)), workflow_id=f"w{number}")
        engine.run_until_idle()
        lines = [
            line for one in engine.admin.workflow_ids() for line in engine.history(one) if line.status == TaskStatus.IN_PROGRESS
        ]
        assert sorted((line.at - T0) / 1000 for line in lines) == [0, 0, 0, 20]


def test_what_is_given_back_keeps_its_slot(bench: Bench) -> None:
    """While it waits for another place in the window nobody else has the slot: its function may be running still."""
    _started(bench, flow(limited("a", k=1, rate=2, per_s=10)), "w1 w2")
    (task,) = bench.engine.poll("a")
    _given_back(bench, task)
    (task,) = bench.engine.poll("a", count=9)
    _given_back(bench, task)
    assert (task.workflow_id, _statuses(bench, "w1 w2"), _taken(bench)) == ("w1", ["PENDING", "PENDING"], [])
    bench.at(10)
    assert (_taken(bench), _statuses(bench, "w2")) == (["w1"], ["PENDING"])
    _whole(bench)


class Jumping(SystemClock):
    """The machine's clock, set to something else every now and then, or once it has been read so many times."""

    ahead = 0

    def __init__(self) -> None:
        self._reads = self._jump = 0

    def now(self) -> int:
        """As it is set."""
        if self._jump and not self._reads:
            self.ahead, self._jump = self.ahead + self._jump, 0
        self._reads -= 1
        return super().now() + self.ahead

    def wait(self, wakeup: Wakeup, until: int | None) -> None:
        """A poll without a timeout waits for no instant: the clock may be set back before it."""
        raise AssertionError(f"waits until {until}")

    def jumps(self, by: int, after: int) -> None:
        """Have it set between two readings."""
        self._jump, self._reads = by, after

    def stays(self) -> bool:
        """Set it right again; whether it has not been set since, for want of readings."""
        stayed = self._jump != 0
        self.ahead = self._jump = 0
        return stayed


@pytest.mark.skipif(steady(SystemClock()) is None, reason="this machine has no clock that never jumps")
@pytest.mark.parametrize("jump", [7_200_000, -7_200_000, 8_000])
def test_a_clock_that_jumps_ends_no_window(jump: int, tmp_path: Path) -> None:
    """Set two hours forward, a window of one hour is not over; set back, it does not take three."""
    clock = Jumping()
    with Engine(tmp_path / "store.db", clock=clock) as engine:
        for one in ("w1", "w2"):
            engine.start(flow(limited("a", rate=1, per_s=3_600)), workflow_id=one)
        engine.settle()
        (task,) = engine.poll("a", count=9)
        clock.ahead += jump
        engine.settle()
        assert engine.poll("a", count=9) == []
        engine.start(flow(limited("a", rate=1, per_s=3_600)), workflow_id="w3")
        engine.settle()
        assert engine.poll("a", count=9) == []
        (begun,) = engine.limits.get("task:a").admitted_at
        assert abs(begun - jump - task.updated_at) < 60_000


@pytest.mark.skipif(steady(SystemClock()) is None, reason="this machine has no clock that never jumps")
@pytest.mark.parametrize("jump", [10_800_000, -10_800_000])
def test_a_clock_that_jumps_between_two_readings_ends_no_window(jump: int, store: Backend) -> None:
    """Whichever of them it is, of a poll that takes or a start that asks: an hour has one begin, dated when it was."""
    clock, reads, stayed = Jumping(), 0, False
    with Engine(store, clock=clock) as engine:
        while not stayed:
            reads, stayed, taken = reads + 1, True, []
            definition = flow(limited(f"a{reads}", rate=1, per_s=3_600), name=f"flow{reads}")
            engine.start(definition)
            engine.settle()
            _begun(store, f"task:a{reads}", clock.now() - 7_200_000)
            dates = [_steady()]
            for verb in (lambda: None, lambda definition=definition: engine.start(definition)):
                clock.jumps(jump, reads)
                verb()
                engine.settle()
                taken += engine.poll(f"a{reads}", count=9)
                stayed = clock.stays() and stayed
                taken += engine.poll(f"a{reads}", count=9)
                dates.append(_steady())
            with store.reading() as view:
                limit = view.limits.line(f"task:a{reads}", 0).limit
            dates.insert(1, limit.steady - (limit.read_at - limit.log[-1]))
            # Each reading is cut to whole milliseconds, so two that are compared may be one apart.
            late = [before - after for before, after in pairwise(dates) if before - after > 1]
            assert (len(taken), late) == (1, []), f"set after {reads} readings"


def _steady() -> int:
    read = steady(SystemClock())
    assert read is not None
    return read[1]


def _begun(store: Backend, key: str, at: int) -> None:
    """Have the store know of one that has begun long ago, too."""
    with store.writing() as tx:
        tx.limits.put_limit(LimitChange(limit=attrs.evolve(tx.limits.line(key, 0).limit, log=(at,))))


def test_what_was_read_before_a_timer_of_the_same_instant_is_replayed_before_it(bench: Bench) -> None:
    """A window moves as a wait ends: the export says in which order one turn read them."""
    definition = flow(fork("f", [wait("wait", duration="60 s")], [limited("a", rate=1, per_s=60)]), join("j", "wait", "a"))
    _started(bench, definition, "v")
    assert len(bench.engine.poll("a")) == 1
    _started(bench, definition, "w")
    bench.engine.advance("60s")
    read = [line.ref for line in bench.engine.history("w") if line.at == T0 + 60_000]
    assert read[:2] == ["a", "wait"]
    replay(bench.engine.admin.export("w")).engine.close()


class Interrupted(SystemClock):
    """The machine's clock, for a thread that has to wait after each reading, `times` times, up to a millisecond and more."""

    def __init__(self, times: int) -> None:
        self.times, self.ahead = times, 0

    def now(self) -> int:
        """As if the time between two readings had passed."""
        self.ahead += 50 if self.times > 0 else 0
        self.times -= 1
        return 1_000_000 + self.ahead


@pytest.mark.skipif(steady(SystemClock()) is None, reason="this machine has no clock that never jumps")
def test_two_clocks_are_read_in_one_millisecond_or_not_together() -> None:
    """A thread that has to wait between two readings takes no wait for a jump: it reads anew, and in the end without the other."""
    now, read = readings(Interrupted(3))
    assert now == 1_000_150
    assert read is not None
    assert readings(Interrupted(100)) == (1_000_550, None)
    assert readings(VirtualClock(7)) == (7, None)


@pytest.mark.skipif(steady(SystemClock()) is None, reason="this machine has no clock that never jumps")
def test_a_thread_that_waits_between_its_readings_ends_no_window(store: Backend) -> None:
    """Whatever passes between the readings of a turn and its commit is no jump: what has begun stays where it is."""
    clock = Interrupted(1_000_000)
    with Engine(store, clock=clock) as engine:
        for number in range(6):
            engine.start(flow(limited("a", rate=3, per_s=3_600)), workflow_id=f"w{number}")
        begun: list[int] = []
        for _ in range(3):
            engine.settle()
            assert len(engine.poll("a")) == 1
            with store.reading() as view:
                log = view.limits.line("task:a", 0).limit.log
            assert log[: len(begun)] == tuple(begun)
            begun = list(log)
        engine.settle()
        assert engine.poll("a", count=9) == []


def test_instants_are_reread() -> None:
    """A jump moves what is noted along; what began in a turn that waited for its commit began at the commit; else all stays."""
    limit = Limit(key="k", log=(1_000, 1_500), read_at=2_000, boot="here", steady=500)
    for now in (2_299, 2_300, 2_301):  # each reading is cut to whole milliseconds
        assert reread(limit, now, ("here", 800)).log == (1_000, 1_500)
    assert reread(limit, 2_302, ("here", 800)).log == (1_002, 1_502)
    assert reread(limit, 10_300, ("here", 800)) == attrs.evolve(limit, log=(9_000, 9_500), read_at=10_300, steady=800)
    assert reread(limit, -5_700, ("here", 800)).log == (-7_000, -6_500)
    assert reread(limit, 10_300, ("elsewhere", 800)).log == (1_000, 1_500)
    assert reread(limit, 2_300, ("here", 800), dated=1_500).log == (1_000, 2_300)
    assert reread(limit, 2_300, None, dated=1_500) == attrs.evolve(limit, log=(1_000, 2_300), read_at=0, boot="", steady=0)


@given(
    offsets=st.tuples(st.integers(0, 999), st.integers(0, 999)),
    waits=st.lists(st.tuples(st.integers(0, 2_500), st.sampled_from([0, 900, -1_000, 7_200_000_000])), max_size=12),
)
def test_what_readings_are_cut_by_does_not_add_up(offsets: tuple[int, int], waits: list[tuple[int, int]]) -> None:
    """However often a clock jumps and is read: what began is found by the clock that never jumps, to the millisecond of a cut."""
    # In microseconds: the machine's clock and the one that never jumps; each reading is cut to milliseconds.
    wall, running = offsets[0] + 1_000_000_000, offsets[1]
    begun, limit = running, reread(Limit(key="k", log=(wall // 1_000,)), wall // 1_000, ("here", running // 1_000))
    for passed, jump in waits:
        wall, running = wall + passed + jump, running + passed
        limit = reread(limit, wall // 1_000, ("here", running // 1_000))
        assert abs((running - begun) - 1_000 * (wall // 1_000 - limit.log[0])) < 2_000
