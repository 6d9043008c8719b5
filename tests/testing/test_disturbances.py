"""Reports that come twice or in another order, as decorators: sound programs pass, others do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from designs import flow, fork, node, steps, work

from conductorlite import Engine, WorkflowDef
from conductorlite.errors import InvalidInput
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.testing import (
    ScriptedWorkers,
    conserved,
    crash_everywhere,
    deliver_twice,
    disturbed_by,
    eventually,
    in_order,
    interrupt_everywhere,
    never,
    reorder,
    simulate,
    start_once,
    whenever,
)

BOTH = flow("both", [*fork("f", [work("a")], [work("b")], on=["a", "b"]), work("c", input_parameters={"a": "${a.output.n}"})])


def script(workers: ScriptedWorkers) -> None:
    """Two branches, of which one fails once."""
    workers.a.fails(1).then.returns({"n": 1})
    workers.b.returns({"n": 2})
    workers.c.returns({"n": 3})


def script_by_reference(workers: ScriptedWorkers) -> None:
    """What some calls of a type come to."""
    workers.send.when(ref="second").fails(1).then.returns({"id": 2})


@disturbed_by(crash_everywhere, script=script_by_reference, stores=(kind for kind in ["memory"]))
def test_a_lost_call_for_a_reference_is_repeated(engine: Engine) -> None:
    """The call that is made again does what it did, though it has a script of its own."""
    run = start_once(engine, flow("sent", [work("send", "first"), work("send", "second")]), workflow_id="w")
    assert run.result() == {"id": 2}


def test_nothing_to_disturb_with_is_said() -> None:
    """A test that tries nothing must not pass."""
    with pytest.raises(InvalidInput, match="say what disturbs"):
        disturbed_by(script=script)
    for disturb in (crash_everywhere, deliver_twice, reorder, interrupt_everywhere):
        for stores in ([], "memory"):
            with pytest.raises(InvalidInput, match="a list of stores"):
                disturb(lambda engine: None, stores=stores)
    with pytest.raises(InvalidInput, match="a list of seeds"):
        reorder(lambda engine: None, seeds=[])
    with pytest.raises(InvalidInput, match="a list of seeds"):
        simulate([BOTH], seeds=[])


STORES = {"stores": ["memory", lambda folder: MemoryBackend()]}


@disturbed_by(deliver_twice, script=script, **STORES)
def test_reports_come_twice(engine: Engine) -> None:
    """On a store of one's own, too."""
    assert start_once(engine, BOTH, workflow_id="w").result() == {"n": 3}


@disturbed_by(reorder, script=script, seeds=range(3))
def test_reports_come_in_any_order(engine: Engine) -> None:
    """The end is the same whoever is first."""
    assert start_once(engine, BOTH, workflow_id="w").result() == {"n": 3}


@pytest.mark.slow
@disturbed_by(crash_everywhere, deliver_twice, script=script, stores=["memory"])
def test_several_at_once(engine: Engine) -> None:
    """One scenario, several disturbances."""
    assert start_once(engine, BOTH, workflow_id="w").result() == {"n": 3}


def test_how_often() -> None:
    """Every report of every store is counted; a scenario without any has none."""
    assert deliver_twice(lambda engine: start_once(engine, BOTH, workflow_id="w").result(), script, stores=["memory"]) >= 4
    assert deliver_twice(lambda engine: None, stores=["memory"]) == 0


def test_a_race_is_found() -> None:
    """What is written last wins: which branch that is hangs on the order."""
    last = [node("SET_VARIABLE", f"set_{name}", input_parameters={"last": name}) for name in "ab"]
    branches = [[work("a"), last[0]], [work("b"), last[1]]]
    race = WorkflowDef(
        name="race", tasks=fork("f", *branches, on=["set_a", "set_b"]), output_parameters={"last": "${workflow.variables.last}"}
    )
    with pytest.raises(AssertionError, match="w ended"):
        reorder(lambda engine: start_once(engine, race, workflow_id="w").result(), lambda workers: (workers.a, workers.b))


def test_laws_are_looked_at(tmp_path: Path) -> None:
    """A scenario that breaks one is found out."""

    def breaks(engine: Engine) -> None:
        start_once(engine, BOTH, workflow_id="w")
        with engine.backend.writing() as tx:
            tx.queue.discard(tx.queue.messages(1))

    with pytest.raises(AssertionError, match="laws do not hold"):
        deliver_twice(breaks, stores=["memory"])
    assert tmp_path.exists()


ORDER = flow("order", [work("charge", compensate="refund"), work("ship")])
MONEY = [conserved({"charge": 1, "refund": -1}), whenever("charge").and_run_fails().then("refund"), in_order("charge", "ship")]


ONCE = [never(lambda run: run.acts("charge") > 1, "charged twice")]


@pytest.mark.parametrize("disturb", [crash_everywhere, deliver_twice])
def test_a_worker_is_not_idempotent_unless_it_is_said(disturb: Callable[..., int]) -> None:
    """An effect that is had twice is found, whether the process dies after it or the task is delivered twice."""

    def scenario(engine: Engine) -> None:
        start_once(engine, flow("paid", [work("charge")]), workflow_id="w")
        engine.run_until_idle()

    def scripted(workers: ScriptedWorkers) -> None:
        workers.charge.does(lambda **given: {})

    with pytest.raises(AssertionError, match="charged twice"):
        disturb(scenario, scripted, stores=["memory"], invariants=ONCE)
    assert disturb(scenario, scripted, stores=["memory"], invariants=ONCE, idempotent=["charge"])
    with pytest.raises(InvalidInput, match=r"write \['charge'\]"):
        disturb(scenario, scripted, stores=["memory"], invariants=ONCE, idempotent="charge")


def fails_to_ship(workers: ScriptedWorkers) -> None:
    """What was charged is refunded."""
    workers.charge.returns({"receipt": 7})
    workers.refund.returns()
    workers.ship.fails_terminally("no stock")


@disturbed_by(
    crash_everywhere,
    deliver_twice,
    reorder,
    script=fails_to_ship,
    stores=["memory"],
    invariants=MONEY,
    idempotent=["charge", "refund"],
)
def test_invariants_of_ones_own_hold(engine: Engine) -> None:
    """A call of an idempotent worker that is repeated after a death is one effect: its key is the same."""
    run = start_once(engine, ORDER, workflow_id="w")
    engine.run_until_idle()
    assert run.status == "FAILED"


@pytest.mark.parametrize(
    "disturb",
    [
        lambda *given, **more: crash_everywhere(*given, stores=["memory"], **more),
        lambda *given, **more: deliver_twice(*given, stores=["memory"], **more),
        lambda *given, **more: reorder(*given, seeds=[1], **more),
        lambda *given, **more: interrupt_everywhere(*given, stores=["memory"], instants=1, **more),
    ],
)
def test_an_invariant_that_does_not_hold_is_told(disturb: Callable[..., int]) -> None:
    """Of whatever disturbs it, at the end or on the way."""

    def scenario(engine: Engine) -> None:
        start_once(engine, flow("kept", steps("charge")), workflow_id="w")
        engine.run_until_idle()

    def script(workers: ScriptedWorkers) -> None:
        workers.charge.returns()

    for rule, text in (
        (conserved({"charge": 1}, completed=2), "conserved"),
        (never(lambda run: run.status == "COMPLETED", "it ends"), "never: it ends: w"),
        (eventually(lambda run: run.acts("ship"), "it is shipped"), "eventually: it is shipped: w: it never came about"),
    ):
        with pytest.raises(AssertionError, match=text):
            disturb(scenario, script, invariants=[rule])
    with pytest.raises(InvalidInput, match="invariants are made by"):
        disturb(scenario, script, invariants=[len])
