"""Several engines and workers on one store, driven by one seed through everything that goes wrong between machines.

A seed is a schedule: a list of small numbers, read as actions. Engines take turns, die at any write and come back, or the write
fails; they read what another one overwrites before they commit, and have clocks that differ and jump. Workers lose their leases,
report twice, late, several at once, or through another engine; events are relayed late. After every action all laws must hold; a
report may only count under the lease its task was last given out with, and is stored when it is acknowledged; a turn reads all
that is due; what an engine answers without a write, or shows who waits for a result, is what one answers that has kept nothing.
When the faults stop, everything must come to an end with nothing held. What fails is shrunk to the fewest actions that still fail,
and reported with its seed: the same seed fails the same way on every machine.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from conductorlite.model.definitions import WorkflowDef
from conductorlite.model.errors import (
    AlreadyExists,
    ConductorliteError,
    Conflict,
    InvalidInput,
    InvariantBroken,
    LimitReached,
    NotFound,
    StaleLease,
    StorageBusy,
)
from conductorlite.model.pickling import Portable
from conductorlite.model.policies import derive_id
from conductorlite.testing.faults import Store, StoreKind, some
from conductorlite.testing.world import World, undisturbed

__all__ = ["Simulated", "SimulationFailed", "simulate"]

#: Numbers that make one action: which, and three to choose by.
_FRAME: Final = 4

#: Runs spent on shrinking a schedule.
_SHRINKS: Final = 400


@attrs.frozen(kw_only=True, slots=True)
class Simulated:
    """Result of a simulation: the number of seeds, and how often each action and fault happened."""

    seeds: int
    counts: Mapping[str, int]


class SimulationFailed(Portable, AssertionError):
    """A law was broken. `seed` breaks it again; `schedule` is what is left of it after shrinking, `steps` in words."""

    def __init__(self, seed: int, reason: str, schedule: Sequence[int], steps: Sequence[str]) -> None:
        self.seed = seed
        self.reason = reason
        self.schedule = list(schedule)
        self.steps = list(steps)
        lines = "\n".join(f"  {number + 1}. {step}" for number, step in enumerate(steps))
        super().__init__(f"seed {seed}: {reason}\nafter {len(steps)} actions:\n{lines}\nschedule: {self.schedule}")


def simulate(
    workflows: Sequence[WorkflowDef | tuple[WorkflowDef, Mapping[str, Any]]],
    *,
    seeds: Iterable[int] = range(100),
    actions: int = 60,
    engines: int = 2,
    store: StoreKind = "memory",
    registered: Sequence[WorkflowDef] = (),
    locked: bool = False,
    local: bool = False,
    schedule: Sequence[int] | None = None,
    setup: Callable[[Any], object] | None = None,
) -> Simulated:
    """Run each seed's schedule of so many `actions` over executions of the `workflows` (with an input, or none).

    `engines` share a `store`: "memory", "relay", "sqlite", or a function that opens a backend in a folder. `registered` are
    definitions the workflows refer to; `locked` gives the engines a lock with a lease beside the fence; `local` has them keep what
    they start to themselves (`allocation="local"`), and take each other over, dead or not; `setup(engine)` is called on every
    engine that is opened. With `schedule` (as a failure reported it) only that is run. Raises SimulationFailed at the first seed
    that breaks a law, shrunk.

    It counts no effects of tasks and knows no rules of yours: `explore` does.
    """
    if engines < 1 or actions < 1:
        raise InvalidInput("a simulation needs an engine and an action")
    given = [one if isinstance(one, tuple) else (one, {}) for one in workflows]
    counts: Counter[str] = Counter()

    def run(tape: Sequence[int]) -> tuple[str | None, list[str]]:
        with tempfile.TemporaryDirectory(prefix="conductorlite-") as folder:
            world = World(
                Store(store, lambda: Path(folder)),
                given,
                registered=registered,
                engines=engines,
                locked=locked,
                local=local,
                setup=setup,
            )
            try:
                return _life(world, tape), world.log
            finally:
                counts.update(world.counts)
                world.close()

    ran = 0
    for seed in [0] if schedule is not None else some(seeds, "seed"):
        ran += 1
        tape = list(schedule) if schedule is not None else [number for n in range(actions) for number in _frame(seed, n)]
        reason, _ = run(tape)
        if reason is not None:
            tape = _shrunk(tape, lambda shorter: run(shorter)[0] is not None)
            reason, log = run(tape)
            raise SimulationFailed(seed, reason or "", tape, log)
    return Simulated(seeds=ran, counts=dict(counts))


def _life(world: World, tape: Sequence[int]) -> str | None:
    """Carry out a schedule, then let everything end; what is wrong, or None."""
    try:
        for start in range(0, len(tape) - _FRAME + 1, _FRAME):
            world.act(tape[start : start + _FRAME])
            if problem := world.problem():
                return problem
        world.heal()
        return world.problem() or world.unfinished()
    except (StaleLease, NotFound, AlreadyExists, LimitReached, StorageBusy, Conflict) as error:
        return f"an error reached the driver: {type(error).__name__}: {error}"
    except (InvariantBroken, ConductorliteError) as error:
        return f"{type(error).__name__}: {error}"


def _frame(seed: int, n: int) -> list[int]:
    """The numbers of one action, derived from the seed."""
    digits = derive_id("simulation", seed, n)
    return [int(digits[4 * at : 4 * at + 4], 16) for at in range(_FRAME)]


def _shrunk(tape: list[int], fails: Callable[[list[int]], bool]) -> list[int]:
    """The schedule without the actions, and without the disturbances of actions, that are not needed for it to fail."""
    tries = 0

    def still(candidate: list[int]) -> bool:
        nonlocal tries
        tries += 1
        return bool(candidate) and tries <= _SHRINKS and fails(candidate)

    size = max(_FRAME, len(tape) // 2 // _FRAME * _FRAME)
    while size >= _FRAME and tries < _SHRINKS:
        start, shorter = 0, False
        while start < len(tape) and tries < _SHRINKS:
            candidate = tape[:start] + tape[start + size :]
            if still(candidate):
                tape, shorter = candidate, True
            else:
                start += size
        if size == _FRAME:
            for start in range(0, len(tape), _FRAME):
                calm = [*tape[:start], undisturbed(tape[start]), *tape[start + 1 :]]
                if calm != tape and still(calm):
                    tape, shorter = calm, True
        if not shorter or size > len(tape):
            size = size // 2 // _FRAME * _FRAME
    return tape
