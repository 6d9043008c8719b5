"""Locks whose servers hang, are slow, refuse, or break off: what a turn waits for, what is logged, and when it is over."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_redis import FakeRedis
from faulty_port import FAULTS, Fault, FaultyPort, until

from conductorlite import Engine, EngineConfig, Workers, WorkflowDef
from conductorlite.errors import LockUnavailable
from conductorlite.store.places import open_lock

pytest.importorskip("redis")

#: A bound that no test waits for, ms: who waits for a server that hangs is found by the time the test takes.
NEVER = 600_000

CHAIN = WorkflowDef.from_json({"name": "chain", "tasks": [{"name": "a", "taskReferenceName": f"a{n}"} for n in range(3)]})


class Servers:
    """Servers of a lock, each behind a port that may have a fault."""

    def __init__(self, number: int) -> None:
        self.servers = [FakeRedis() for _ in range(number)]
        self.ports = [FaultyPort("127.0.0.1", server.port) for server in self.servers]

    def url(self, timeout: int) -> str:
        """The lock on all of them."""
        return f"redis://{','.join(f'127.0.0.1:{port.port}' for port in self.ports)}?timeout={timeout}"

    def set(self, fault: Fault, *ports: int) -> None:
        """Have some ports, or all of them, do so."""
        for number in ports or range(len(self.ports)):
            self.ports[number].set(fault)

    def close(self) -> None:
        """End all."""
        for port in self.ports:
            port.close()
        for server in self.servers:
            server.shutdown()
            server.server_close()


@pytest.fixture
def servers() -> Iterator[Servers]:
    made = Servers(3)
    yield made
    made.close()


@pytest.fixture
def one() -> Iterator[Servers]:
    made = Servers(1)
    yield made
    made.close()


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[str], int]:
    """How many warnings hold a text."""
    caplog.set_level(logging.WARNING, logger="conductorlite")
    return lambda text: sum(text in message for message in caplog.messages)


@pytest.fixture(autouse=True)
def _tried_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conductorlite.ext.redis_lock._FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr("conductorlite.engine.turn_lock._FIRST_S", 0.02)


def nothing() -> dict[str, object]:
    """Returns at once."""
    return {}


def opened(lock: str, path: Path | None = None, **config: bool) -> Engine:
    workers = Workers()
    workers.add("a", nothing)
    return Engine(path, lock=lock, workers=workers, config=EngineConfig(**config))  # type: ignore[arg-type]


@pytest.mark.parametrize("when", ["before it is opened", "afterwards"])
@pytest.mark.parametrize("fault", FAULTS)
def test_one_server_of_three_costs_no_turn_anything(servers: Servers, fault: Fault, when: str) -> None:
    """Two are enough, and nobody waits for the third: with a bound of ten minutes this test ends all the same."""
    if when == "before it is opened":
        servers.set(fault, 0)
    lock = open_lock(servers.url(NEVER))
    servers.set(fault, 0)
    for n in range(20):
        token = lock.try_acquire(f"w{n}", 0)
        assert token is not None
        assert lock.try_acquire(f"w{n}", 0) is None
        assert lock.renew(f"w{n}", token, 0)
        lock.release(f"w{n}", token)
    assert lock.try_acquire("w0", 0) is not None
    assert servers.ports[0].asked < 40
    lock.close()


@pytest.mark.parametrize("fault", ["hangs", "refuses", "half-open", "ends"])
def test_a_server_that_fails_is_left_alone_and_counts_again_later(
    servers: Servers, fault: Fault, logged: Callable[[str], int]
) -> None:
    """Both is logged once; then it is one of the majority again."""
    lock, numbers = open_lock(servers.url(50)), itertools.count()

    def is_left_alone(times: int) -> bool:
        """A server that was not asked before the others had answered is asked no more: so turns are taken until it is."""
        assert lock.try_acquire(f"w{next(numbers)}", 0) is not None
        return logged("does not answer and is left alone") == times

    assert lock.try_acquire("before", 0) is not None
    servers.set(fault, 1)
    until(20, lambda: is_left_alone(1))
    for _ in range(50):
        assert is_left_alone(1)
    servers.set("none")
    until(20, lambda: logged("a Redis server answers again"))
    servers.set(fault, 0)
    until(20, lambda: is_left_alone(2))
    assert logged("a Redis server answers again") == 1
    lock.close()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("number", [1, 3])
def test_without_any_server_turns_go_on_under_the_fence(
    request: pytest.FixtureRequest, number: int, fault: Fault, logged: Callable[[str], int], tmp_path: Path
) -> None:
    """One turn learns of it; the others ask nothing. A thread asks until it answers, and then turns are locked again."""
    servers: Servers = request.getfixturevalue("one" if number == 1 else "servers")
    with opened(servers.url(50), tmp_path / "s.db") as engine:
        engine.start(CHAIN).result("20s")
        servers.set(fault)
        for _ in range(5):
            engine.start(CHAIN).result("20s")
        assert logged("the lock cannot be used") == 1
        servers.set("none")
        until(20, lambda: logged("the lock can be used again"))
        asked = sum(port.asked for port in servers.ports)
        engine.start(CHAIN).result("20s")
        assert sum(port.asked for port in servers.ports) > asked
        assert engine.admin.check() == []
    assert logged("the lock cannot be used") == logged("the lock can be used again") == 1


def test_while_the_lock_fails_no_turn_asks_it(one: Servers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a bound of ten minutes each turn that asked would be seen: only the first one waits, for its bound."""
    monkeypatch.setattr("conductorlite.engine.turn_lock._FIRST_S", 3_600.0)
    with opened(one.url(50), tmp_path / "s.db") as engine:
        one.set("hangs")
        engine.start(CHAIN).result("20s")
        asked = one.ports[0].asked
        for _ in range(5):
            engine.start(CHAIN).result("20s")
        assert one.ports[0].asked == asked


@pytest.mark.parametrize("fault", ["hangs", "refuses", "half-open", "ends"])
def test_a_program_starts_while_its_lock_is_down(servers: Servers, fault: Fault, logged: Callable[[str], int]) -> None:
    """With a warning; when the servers are there, the lock is opened, and turns are locked."""
    servers.set(fault)
    with opened(servers.url(50)) as engine:
        assert logged("the lock cannot be used") == 1
        engine.start(CHAIN).result("20s")
        servers.set("none")
        until(20, lambda: logged("the lock can be used again"))
        before = [len(server.keys) for server in servers.servers]
        engine.start(CHAIN).result("20s")
        assert engine.admin.check() == []
        assert before


@pytest.mark.parametrize("config", [{"fencing": False}, {"lock_required": True}], ids=str)
def test_a_lock_that_is_needed_must_be_there(servers: Servers, config: dict[str, bool]) -> None:
    """At open and later it is an error with a name; nothing goes on without it."""
    servers.set("refuses")
    with pytest.raises(LockUnavailable, match="3 of 3 Redis servers do not answer"):
        opened(servers.url(50), **config)
    servers.set("none")
    with opened(servers.url(50), **config) as engine:
        engine.start(CHAIN).result("20s")
        servers.set("refuses")
        with pytest.raises(LockUnavailable, match="the lock cannot be used"):
            engine.start(CHAIN)


def test_what_could_not_be_given_back_is_when_the_lock_answers_again(
    one: Servers, logged: Callable[[str], int], tmp_path: Path
) -> None:
    """No execution is held for the rest of its lease."""
    from conductorlite.ext.redis_lock import RedisLock

    with opened(one.url(200), tmp_path / "s.db") as engine:
        run = engine.start(CHAIN)
        lock = engine.core.turns.lock
        assert isinstance(lock, RedisLock)
        release = lock.release

        def cut_off(workflow_id: str, token: int) -> None:
            if one.ports[0].asked and not logged("the lock cannot be used"):
                one.set("ends")
            release(workflow_id, token)

        lock.release = cut_off  # type: ignore[method-assign]
        run.result("20s")
        assert logged("the lock cannot be used") == 1
        lock.release = release  # type: ignore[method-assign]
        one.set("none")
        until(20, lambda: logged("the lock can be used again"))
        until(20, lambda: not one.servers[0].keys)
