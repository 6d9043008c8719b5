"""`crash_everywhere` passes what survives, and finds what does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kit import flow, task

from conductorlite import Engine
from conductorlite.errors import InvalidInput
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.nouns import NOUNS
from conductorlite.store.ports import Backend, Capability, WritingTransaction
from conductorlite.testing import FaultyBackend, ScriptedWorkers, crash_everywhere, start_once


def scenario(engine: Engine) -> None:
    """One execution, driven to its end."""
    start_once(engine, flow(task("charge"), task("ship", timeout=120)), {"order": 7}, workflow_id="one")
    engine.run_until_idle()


def script(workers: ScriptedWorkers) -> None:
    """A failure, a call back, a worker that takes its time, one that reports twice."""
    workers.charge.fails(1).then.callback("3s").then.returns({"id": 1})
    workers.ship.takes("30s").reports_twice({"parcel": "x"})


@pytest.mark.parametrize("every", [11, pytest.param(3, marks=pytest.mark.slow)])
def test_survivors(every: int) -> None:
    """A sound program survives every crash, also while workers run, on each store."""
    points = {store: crash_everywhere(scenario, script, stores=[store], every=every) for store in ("memory", "relay", "sqlite")}
    assert points["relay"] > points["memory"] == points["sqlite"] > 39 // every


def test_killed_every_so_manieth_time() -> None:
    """As often in sum as every time, on each store at other writes; a number below one is refused."""
    points = [crash_everywhere(started, stores=["memory"] * place, every=3) for place in (1, 2, 3)]
    assert points == [2, 4, 6]
    with pytest.raises(InvalidInput, match="every=0"):
        crash_everywhere(started, every=0)


def started(engine: Engine) -> None:
    """Nothing but a start."""
    start_once(engine, flow(task("charge")), workflow_id="one")


def test_a_scenario_without_workers() -> None:
    """Nothing but a start is a scenario too: the definition, the turn, and their commit, each before and after."""
    assert crash_everywhere(started, stores=["memory"]) == 6


def test_a_start_that_cannot_be_repeated_is_found() -> None:
    """A scenario that starts another execution each time does not come to the same end."""
    with pytest.raises(AssertionError, match="instead of"):
        crash_everywhere(lambda engine: engine.start(flow(task("charge"))), stores=["memory"])


def test_an_effect_that_is_not_in_the_store_is_found() -> None:
    """A program that does something else in its second life does not come to the same end."""

    def forgetful(engine: Engine) -> None:
        known = list(engine.admin.workflow_ids())
        run = start_once(engine, flow(task("charge")), workflow_id="one")
        if known and not run.status.terminal:
            engine.terminate("one")
        engine.run_until_idle()

    with pytest.raises(AssertionError, match="one ended"):
        crash_everywhere(forgetful, lambda workers: workers.charge.returns(), stores=["memory"])


class Sieve:
    """A store in memory; with `keeps` one that does not undo a change that raised."""

    capabilities = frozenset((Capability.IMMEDIATE, Capability.ONE_COMMIT))

    def __init__(self, *, keeps: bool = False) -> None:
        self._inner = MemoryBackend()
        self._keeps = keeps

        self.appear, self.look, self.forget = self._inner.appear, self._inner.look, self._inner.forget
        self.marks, self.prepare = self._inner.marks, self._inner.prepare

    def reading(self) -> Any:
        """The whole view."""
        return self._inner.reading()

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """A change, committed in spite of an error if so wanted."""
        with self._inner.writing() as tx:
            error: BaseException | None = None
            try:
                yield tx
            except BaseException as raised:
                if not self._keeps:
                    raise
                error = raised
        if error is not None:
            raise error

    def data_version(self) -> int:
        """As the inner store."""
        return self._inner.data_version()

    def commits(self) -> int:
        """As the inner store."""
        return self._inner.commits()

    def checkpoint(self) -> None:
        """Nothing: there is no file."""

    def make_room(self) -> bool:
        """False: no disk is full."""
        return False

    def faults(self) -> tuple[str, ...]:
        """None."""
        return ()

    def rebuild_indexes(self) -> None:
        """Nothing."""

    def backup(self, path: str, *, documents: bool = True) -> None:
        """As the inner store."""
        self._inner.backup(path, documents=documents)

    def payload_storage(self) -> None:
        """None: everything lies in the store."""

    def close(self) -> None:
        """Nothing: it is opened again."""


def test_a_store_that_keeps_what_was_not_committed_is_found() -> None:
    """Without a rollback the store holds more at reopening than was committed."""
    with pytest.raises(AssertionError, match="holds something else than after commit"):
        crash_everywhere(scenario, script, stores=[_same_for_all(lambda: Sieve(keeps=True))])


def test_a_store_of_ones_own() -> None:
    """A function that opens a backend in a folder is a store."""
    assert crash_everywhere(scenario, script, stores=[_same_for_all(Sieve)], every=5) > 8


def _same_for_all(make: Callable[[], Backend]) -> Callable[[Path], Backend]:
    """Opens one backend per folder: the same again when reopened."""
    opened: dict[Path, Backend] = {}
    return lambda folder: opened.setdefault(folder, make())


def test_types_of_transactions() -> None:
    """A wrapped transaction answers every question the plain one does."""
    with FaultyBackend(MemoryBackend()).writing() as tx:
        for noun, kind in NOUNS.items():
            names = [name for name in dir(kind) if not name.startswith("_")]
            assert [name for name in names if not callable(getattr(getattr(tx, noun), name))] == []
        assert NOUNS.keys() | {"sizes"} == {name for name in dir(WritingTransaction) if not name.startswith("_")}
