"""`interrupt_everywhere` passes what goes on, and finds what does not."""

from __future__ import annotations

from contextlib import suppress

import pytest
from kit import flow, task

from conductorlite import Engine, Task, VirtualClock
from conductorlite.testing import ScriptedWorkers, interrupt_everywhere, start_once
from conductorlite.testing.interrupts import Instants

pytestmark = pytest.mark.own_thread


def scenario(engine: Engine) -> None:
    """One execution, driven to its end."""
    start_once(engine, flow(task("charge"), task("ship", timeout=120)), {"order": 7}, workflow_id="one")
    engine.run_until_idle()


def script(workers: ScriptedWorkers) -> None:
    """Two workers, one that takes its time."""
    workers.charge.returns({"id": 1})
    workers.ship.takes("30s").returns({"parcel": "x"})


def test_a_sound_program_goes_on() -> None:
    """Interrupted in between, it comes to the same end on each store, whatever is raised."""
    assert interrupt_everywhere(scenario, script, instants=2, seed=1) == 4
    assert interrupt_everywhere(scenario, script, stores=["memory"], instants=2, error=MemoryError) == 2


def test_a_poll_that_is_interrupted_while_it_returns() -> None:
    """Before any of its last instructions: whoever got nothing finds the task at the next poll."""
    definition = flow(task("charge"))

    def polled(at: int | None) -> Instants:
        with Engine(clock=VirtualClock()) as engine:  # a clock that goes on is read again when its millisecond ends meanwhile
            engine.start(definition, {"order": 7})
            found: list[Task] = []
            with Instants(at) as instants, suppress(KeyboardInterrupt):
                found = engine.poll("charge")
            assert len(found or engine.poll("charge")) == 1, f"lost at {instants.where}"
        return instants

    polled(None)  # imports and compiles
    number = polled(None).number
    assert all(polled(at).where for at in range(number - 25, number))


def test_the_same_seed_draws_the_same_instants() -> None:
    """What is found once is found again."""
    places = []
    for _ in range(3):
        engine = Engine(clock=VirtualClock())
        with Instants(at=5_000) as instants, pytest.raises(KeyboardInterrupt):
            scenario(engine)
        places.append(instants.where)
    assert places[1] == places[2], "the first one imports and compiles"
    assert places[1] is not None


def test_a_program_that_does_not_go_on_is_found() -> None:
    """One that keeps in the process what the engine has not done yet."""
    begun: set[Engine] = set()

    def forgetful(engine: Engine) -> None:
        if engine not in begun:
            begun.add(engine)
            scenario(engine)

    with pytest.raises(AssertionError, match="instead of"):
        interrupt_everywhere(forgetful, script, stores=["memory"], instants=4)
