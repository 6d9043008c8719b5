"""`deliver_twice` and `reorder`: a program whose reports come twice, or in another order, must come to the same end.

And what makes a test of a scenario that is disturbed:

    @disturbed_by(crash_everywhere, deliver_twice, reorder, script=workers, stores=["memory", my_store])
    def test_orders(engine):
        start_once(engine, ORDER, workflow_id="o-1").result()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import attrs

from conductorlite.engine.turn_types import Asked, TurnResult
from conductorlite.model.clock import VirtualClock
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.errors import ConductorliteError, InvalidInput
from conductorlite.model.policies import derive_id
from conductorlite.model.texts import Span, to_span
from conductorlite.runtime.calls import Deferred, call
from conductorlite.runtime.context import TaskContext
from conductorlite.runtime.engine import Engine
from conductorlite.runtime.registry import Worker
from conductorlite.store.ports import Backend
from conductorlite.testing.crashes import CrashLife, Rules, compare_ends
from conductorlite.testing.exploration.invariants import Invariant
from conductorlite.testing.faults import STORES, StoreKind, some
from conductorlite.testing.scripted import ScriptedWorkers, around

__all__ = ["deliver_twice", "disturbed_by", "reorder"]

Scenario = Callable[[Engine], object]
Scripting = Callable[[ScriptedWorkers], object]


def deliver_twice(
    scenario: Scenario,
    script: Scripting | None = None,
    *,
    stores: Iterable[StoreKind] = STORES,
    invariants: Iterable[Invariant] = (),
    idempotent: Iterable[str] = (),
    **options: Any,
) -> int:
    """Run a scenario with every task, report and signal delivered twice, on each store; returns how many reports were.

    A worker that gets a task twice has its effect twice, unless it is one of the `idempotent` tasks; its first report counts.
    Scenario, script, stores, invariants, `idempotent` and options are as for `crash_everywhere`. Raises AssertionError unless every
    execution ends with the same status, tasks and outputs as without, and no law of the engine and no invariant is broken.
    """
    count, rules = 0, Rules.of(invariants, idempotent)
    for kind in some(stores, "store"):
        twice = _Twice(scenario, script, kind, options, rules)
        _compare(CrashLife(scenario, script, kind, options, rules), twice, f"store {kind}, each report twice")
        count += twice.again
    return count


def reorder(
    scenario: Scenario,
    script: Scripting | None = None,
    *,
    seeds: Iterable[int] = range(10),
    within: Span = "1s",
    stores: Iterable[StoreKind] = ("memory",),
    invariants: Iterable[Invariant] = (),
    idempotent: Iterable[str] = (),
    **options: Any,
) -> int:
    """Run a scenario with each call of the scripted workers so much longer, at most, as a seed draws; returns how often it was run.

    So what runs side by side ends in other orders. Else as `deliver_twice`; what a scenario puts out must not hang on the order.
    """
    count, longest, drawn, rules = 0, to_span(within), some(seeds, "seed"), Rules.of(invariants, idempotent)
    for kind in some(stores, "store"):
        for seed in drawn:
            made = _Delayed(scenario, script, kind, options, rules, seed, longest)
            _compare(CrashLife(scenario, script, kind, options, rules), made, f"store {kind}, order {seed}")
            count += 1
    return count


def disturbed_by(*disturbances: Callable[..., int], **options: Any) -> Callable[[Scenario], Callable[[], None]]:
    """Make a test of a scenario: it is run by each of the disturbances, such as `crash_everywhere`, with these options.

    Raises InvalidInput without any, and the test when one of them has nothing to do: no store, no seed.
    """
    if not disturbances:
        raise InvalidInput("say what disturbs the scenario, such as crash_everywhere")
    kept = {name: list(one) if isinstance(one, Iterator) else one for name, one in options.items()}

    def decorate(scenario: Scenario) -> Callable[[], None]:
        def test() -> None:
            for one in disturbances:
                one(scenario, **kept)

        test.__name__, test.__doc__, test.__module__ = getattr(scenario, "__name__", "test"), scenario.__doc__, scenario.__module__
        return test

    return decorate


def _compare(calm: CrashLife, shaken: CrashLife, where: str) -> None:
    for life in (calm, shaken):
        life.live()
        if life.findings:
            raise AssertionError("\n".join([f"{where}: laws do not hold", *life.findings]))
    if calm.histories.keys() != shaken.histories.keys():
        raise AssertionError(f"{where}: executions {sorted(shaken.histories)} instead of {sorted(calm.histories)}")
    for workflow_id in calm.histories:
        compare_ends(calm, shaken, workflow_id, where)


@attrs.define(slots=True, eq=False)
class _Twice(CrashLife):
    """A life in which each report is delivered again at once."""

    again: int = 0

    def _workers(self) -> ScriptedWorkers:
        workers = super()._workers()
        workers.calls.twice = True
        return workers

    def _engine(self, backend: Backend, clock: VirtualClock, workers: ScriptedWorkers) -> Engine:
        engine = super()._engine(backend, clock, workers)
        turns, groups = engine.core.turns, engine.core.groups
        turn, group = turns.run_turn, groups.run

        def deliver(workflow_id: str, events: Sequence[Event]) -> None:
            for event in events:
                if event.kind is EventKind.REPORT:
                    self.again += 1
                    with suppress(ConductorliteError):
                        turn(workflow_id, [attrs.evolve(event, event_id=f"{event.event_id}:again")])

        def run_turn(workflow_id: str, events: Sequence[Event] = (), **more: Any) -> TurnResult:
            taken = turn(workflow_id, events, **more)
            deliver(workflow_id, events)
            return taken

        def run_group(asked: Sequence[Asked]) -> list[TurnResult | ConductorliteError]:
            taken = group(asked)
            for one in asked:
                deliver(one.workflow_id, one.events)
            return taken

        turns.run_turn, groups.run = run_turn, run_group  # type: ignore[method-assign]
        return engine


@attrs.define(slots=True, eq=False)
class _Delayed(CrashLife):
    """A life in which each call takes longer by what the seed draws."""

    seed: int = 0
    longest: int = 0

    def _workers(self) -> ScriptedWorkers:
        workers = super()._workers()
        for queue, worker in list(workers.by_queue.items()):
            workers.by_queue[queue] = around(worker, self._slower(worker))
        return workers

    def _slower(self, worker: Worker) -> Callable[..., Any]:
        def slower(context: TaskContext, **given: Any) -> Deferred:
            task = context.task
            drawn = int(derive_id("reorder", self.seed, task.workflow_id, task.ref, task.attempt)[:8], 16) % (self.longest + 1)
            outcome = call(worker, context)
            if isinstance(outcome, Deferred):
                return attrs.evolve(outcome, after_ms=None if outcome.after_ms is None else outcome.after_ms + drawn)
            return Deferred(after_ms=drawn, outcome=outcome)

        return slower
