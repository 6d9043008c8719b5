"""The line of a limit is strict: the higher priority first, then who asked first, then whose execution began first.

Each case is played by hand, and compared with a line kept in a sorted list.
"""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import Bench, flow, fork, join
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from limits_kit import limited, verify

from conductorlite import TaskStatus
from conductorlite.store.memory.backend import MemoryBackend

#: (priority, seconds since the one before), and whether somebody gives a slot back before.
ASKERS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), min_size=2, max_size=14)


def _offered(bench: Bench) -> list[str]:
    """Executions whose task is offered or with a worker, in the order in which that was told."""
    found = []
    for each in bench.engine.admin.workflow_ids():
        line = [line for line in bench.engine.history(each) if line.status == "SCHEDULED"]
        found += [(line[-1].at, each)] if line else []
    return [each for _, each in sorted(found)]


@pytest.mark.parametrize("cases", [20, pytest.param(60, marks=pytest.mark.slow)])
def test_slots_go_by_priority_then_by_who_asked_first(cases: int) -> None:
    """Whoever asks, whenever slots are given back: it is always the first of the line that is offered next."""
    case = settings(max_examples=cases, deadline=None, suppress_health_check=list(HealthCheck))(
        given(ASKERS, st.integers(1, 3), st.booleans())(_slots_in_order)
    )
    case()


def _slots_in_order(askers: list[tuple[int, int, bool]], k: int, relay: bool) -> None:
    bench = Bench(MemoryBackend(relay=relay))
    line: list[tuple[Any, ...]] = []
    using: list[str] = []
    order: list[str] = []

    def let_in() -> None:
        while line and len(using) < k:
            using.append(line.pop(0)[-1])
            order.append(using[-1])

    def give_back() -> None:
        if using:
            task = bench.engine.get(using.pop(0)).tasks[-1]
            assert task.status is TaskStatus.SCHEDULED
            bench.report(task, lease=False)
            let_in()

    for number, (priority, later, gives_back) in enumerate(askers):
        bench.at(bench.second + later)
        if gives_back:
            give_back()
        # Ids against the order of starting: of two that asked at one instant the execution that began first goes first,
        # and of two that began at one instant the lower id.
        run = bench.start(flow(limited("a", k=k)), workflow_id=f"{99 - number}", priority=priority)
        line.append((-priority, bench.clock.now(), run.workflow_id))
        line.sort()
        let_in()
        assert sorted(_offered(bench)) == sorted(order)
        verify(bench.engine.backend, bench.clock.now())
    while using:
        give_back()
        verify(bench.engine.backend, bench.clock.now())
    assert len(order) == len(askers)
    assert all(bench.engine.status(each).terminal for each in order)
    bench.healthy()


def test_of_one_execution_what_was_scheduled_first_goes_first(bench: Bench) -> None:
    """Branches of a fork ask at one instant: their line is the order of scheduling, whatever their names."""
    refs = ["c", "a", "d", "b"]
    branches = [[limited(ref, "work", k=1)] for ref in refs]
    bench.start(flow(fork("f", *branches), join("j", *refs)))
    found = []
    for _ in refs:
        task = bench.take("work")
        found.append(task.ref)
        bench.report(task)
    assert found == refs


def test_the_execution_that_began_first_goes_first_of_two_that_ask_at_one_instant(bench: Bench) -> None:
    """Both come to the limited task at second 9: the elder, whose id is the greater one, is let in."""
    holder = bench.start(flow(limited("a", k=1)), workflow_id="holder")
    definition = flow(limited("b"), limited("a", k=1))
    for second, name in ((1, "z-elder"), (2, "a-younger")):
        bench.at(second)
        bench.start(definition, workflow_id=name)
    bench.at(9)
    # The younger reports first, in the same instant.
    for name in ("a-younger", "z-elder"):
        bench.report(bench.engine.get(name).task("b"), lease=False)
    bench.report(holder.workflow.task("a"), lease=False)
    assert bench.engine.get("z-elder").task("a").status is TaskStatus.SCHEDULED
    assert bench.engine.get("a-younger").task("a").status is TaskStatus.PENDING
    bench.do("a")
    bench.do("a")


def test_a_low_limit_at_the_head_holds_up_a_high_one_behind_it(bench: Bench) -> None:
    """Two definitions of one name: a head that may have one slot is not passed by one that may have three, or it would starve."""
    wide, narrow = flow(limited("a", k=3), name="wide"), flow(limited("a", k=1), name="narrow")
    for name in ("w1", "w2"):
        bench.start(wide, workflow_id=name)
    bench.start(narrow, workflow_id="n")
    bench.at(1)
    bench.start(wide, workflow_id="w3")
    assert [str(bench.engine.get(each).task("a").status) for each in ("w1", "w2", "n", "w3")] == [
        *("SCHEDULED", "SCHEDULED", "PENDING", "PENDING")
    ]
    bench.do("a")
    assert bench.engine.get("n").task("a").status is TaskStatus.PENDING
    bench.do("a")
    assert bench.engine.get("n").task("a").status is TaskStatus.SCHEDULED
    assert bench.engine.get("w3").task("a").status is TaskStatus.SCHEDULED  # the narrow one is in: the wide one has three
    for _ in range(2):
        bench.do("a")


def test_a_higher_priority_overtakes_the_line_but_takes_no_slot_away(bench: Bench) -> None:
    """Three wait; one of priority 5 comes last and is next. Who has the slot keeps it."""
    for number in range(3):
        bench.start(flow(limited("a", k=1)), workflow_id=f"w{number}", priority=1)
    bench.at(1)
    bench.start(flow(limited("a", k=1)), workflow_id="high", priority=5)
    found = []
    for _ in range(4):
        task = bench.take("a")
        found.append(task.workflow_id)
        bench.report(task)
    assert found == ["w0", "high", "w1", "w2"]


def test_a_window_lets_in_at_the_instant_it_moves(bench: Bench) -> None:
    """Two in ten seconds: at 0, 3, 10, 13, 20 — each the moment an earlier one leaves the window, none earlier."""
    definition = flow(limited("a", rate=2, per_s=10))
    bench.start(definition, workflow_id="w0")
    bench.engine.settle()
    instants = [0 for _ in bench.engine.poll("a", count=9)]
    bench.at(3)
    for number in range(1, 6):
        bench.start(definition, workflow_id=f"w{number}")
    for second in (3, 9.999, 10, 12.999, 13, 19.999, 20, 22.999, 23):
        bench.at(second)
        instants += [second for _ in bench.engine.poll("a", count=9)]
    assert instants == [0, 3, 10, 13, 20, 23]
