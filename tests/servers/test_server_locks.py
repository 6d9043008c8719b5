"""Locks kept by Redis and ZooKeeper: the contract on real servers, and what happens when these are lost, late or not there."""

from __future__ import annotations

import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from faulty_port import until

from conductorlite import Engine, EngineConfig, TaskResult, TaskStatus, VirtualClock, WorkflowDef
from conductorlite.errors import AccessDenied, EngineClosed, InvalidInput, LockUnavailable
from conductorlite.ext.redis_lock import RedisLock
from conductorlite.ext.zookeeper_lock import ZooKeeperLock
from conductorlite.store.places import open_lock, place_of
from conductorlite.store.ports import Lock
from conductorlite.testing.conformance.locks import LockConformance

ONE = WorkflowDef.from_json({"name": "one", "tasks": [{"name": "a", "taskReferenceName": "a"}]})


def own_keys(url: str) -> str:
    """The URL with keys that no other test has."""
    return f"{url}?prefix=test-{uuid.uuid4().hex}:"


class _Locks(LockConformance):
    """Two locks of one URL, closed at the end."""

    @pytest.fixture(autouse=True)
    def _opened(self) -> Iterator[None]:
        self.locks: list[Lock] = []
        yield
        for lock in self.locks:
            lock.close()

    def pair(self, url: str) -> tuple[Lock, Lock]:
        """Two locks on the same turns."""
        self.locks += (open_lock(url), open_lock(url))
        return self.locks[-2], self.locks[-1]


def end_keys(lock: Lock) -> None:
    """Have every server forget what it keeps for a lock of Redis."""
    assert isinstance(lock, RedisLock)
    for client in (server.client for server in lock._servers):
        for key in client.scan_iter(f"{lock._prefix}*"):
            client.pexpire(key, 0)


class TestRedlock(_Locks):
    """Three servers."""

    @pytest.fixture(autouse=True)
    def _url(self, redis_url: str) -> None:
        self.url = own_keys(redis_url)

    def make_locks(self) -> tuple[Lock, Lock]:
        """Two locks over three servers."""
        return self.pair(self.url)

    def end_leases(self, lock: Lock) -> None:
        """The keys' lifetimes are over."""
        end_keys(lock)


class TestRedis(TestRedlock):
    """One server."""

    @pytest.fixture(autouse=True)
    def _url(self, redis_url: str) -> None:
        self.url = own_keys(redis_url.partition(",")[0])


def end_session(lock: Lock) -> None:
    """End the session of a lock, as the servers do when they have not heard of it for its timeout."""
    from kazoo.client import KazooClient

    assert isinstance(lock, ZooKeeperLock)
    lost, back = threading.Event(), threading.Event()

    def listen(state: str) -> None:
        lost.set() if state == "LOST" else None
        back.set() if state == "CONNECTED" and lost.is_set() else None

    lock._client.add_listener(listen)
    other = KazooClient(lock._hosts, client_id=lock._client.client_id)
    other.start()
    other.stop()
    other.close()
    assert back.wait(20), "the client did not come back"
    lock._client.remove_listener(listen)


class TestZooKeeper(_Locks):
    """One server, two sessions."""

    @pytest.fixture(autouse=True)
    def _url(self, zookeeper_url: str) -> None:
        self.url = f"{zookeeper_url}/test-{uuid.uuid4().hex}"

    def make_locks(self) -> tuple[Lock, Lock]:
        """Two sessions."""
        return self.pair(self.url)

    def end_leases(self, lock: Lock) -> None:
        """The session is over."""
        end_session(lock)


@contextmanager
def nobody() -> Iterator[int]:
    """A port on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize("scheme", ["redis", "zookeeper"])
def test_a_server_that_is_down_is_named_at_open(scheme: str) -> None:
    """One error, before the store is made, where the engine cannot do without the lock."""
    pytest.importorskip({"redis": "redis", "zookeeper": "kazoo"}[scheme])
    for config in (EngineConfig(lock_required=True), EngineConfig(fencing=False)):
        with nobody() as port, pytest.raises(LockUnavailable, match=str(port)):
            Engine(lock=f"{scheme}://127.0.0.1:{port}?timeout=1", config=config)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("rabbit://a", "begins with .*redis://"),
        ("redis", "begins with .*redis://"),
        ("redis://a:b:c:d", "no host"),
        ("redis://a:65536", "no host"),
        ("redis://,", "no host"),
        ("redis://a/x", "number of a database"),
        ("redis://a?leese=5s", "no option leese"),
        ("redis://a?timeout=soon", "milliseconds"),
        ("redis://a?lease=0s", "over at once"),
        ("zookeeper://a?timeout=0", "seconds"),
    ],
)
def test_urls_that_are_none(url: str, problem: str) -> None:
    """What is wrong with a URL is said before anything is opened."""
    pytest.importorskip("redis")
    pytest.importorskip("kazoo")
    with pytest.raises(InvalidInput, match=problem):
        Engine(lock=url)


def test_a_password_is_in_no_message() -> None:
    """The text of a place shows the user and no password, decoded or not."""
    place = place_of("redis://me:p%40ss@a:1,[::1]:2,b/3", 6379, frozenset())
    assert (place.user, place.password, place.hosts) == ("me", "p@ss", (("a", 1), ("::1", 2), ("b", 6379)))
    assert "ss" not in place.shown.replace("redis", "") + repr(place).replace("password", "")


def test_a_wrong_password(redis_url: str) -> None:
    """It is refused at open with an error of its own."""
    with pytest.raises(AccessDenied, match="refuses"):
        open_lock(redis_url.replace("://", "://nobody:wrong@"))


class Broken:
    """A client of a server that is gone."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        import redis

        def gone(*_: object, **__: object) -> Any:
            raise redis.ConnectionError("gone")

        return gone

    def close(self) -> None:
        """As a real client: it has no connection to close."""

    connection_pool = type("Pool", (), {"connection_kwargs": {"host": "gone", "port": 0}})


def test_one_of_three_is_down(redis_url: str) -> None:
    """With two of three servers turns are held and given back; with one nobody gets any, and none is left behind."""
    url = own_keys(redis_url)

    def clients() -> list[Any]:
        # Clients of their own: a lock closes its clients from its own threads.
        opened = open_lock(url)
        assert isinstance(opened, RedisLock)
        kept.append(opened)
        return [server.client for server in opened._servers]

    kept: list[Lock] = []
    whole = open_lock(url)
    assert isinstance(whole, RedisLock)
    first, _, third = clients()
    lock = RedisLock([first, Broken(), third], prefix=whole._prefix)
    token = lock.try_acquire("w", 0)
    assert token is not None
    assert lock.try_acquire("w", 0) is None
    assert lock.renew("w", token, 0)
    lock.release("w", token)
    with pytest.raises(LockUnavailable, match="2 of 3"):
        RedisLock([clients()[0], Broken(), Broken()])
    token = whole.try_acquire("w", 0)
    assert token is not None
    for opened in (whole, lock, *kept):
        opened.close()
    with pytest.raises(EngineClosed):
        whole.try_acquire("w", 0)


def test_a_server_that_forgot_is_outvoted(redis_url: str) -> None:
    """One of three that was restarted without its keys hands out no turn that another one holds."""
    url = own_keys(redis_url)
    one, other = open_lock(url), open_lock(url)
    assert isinstance(one, RedisLock)
    token = one.try_acquire("w", 0)
    assert token is not None
    # Two answers are enough for a turn; the third server has it a moment later.
    until(10, lambda: all(server.client.exists(f"{one._prefix}w") for server in one._servers))
    one._servers[1].client.delete(f"{one._prefix}w")
    assert other.try_acquire("w", 0) is None
    assert one.renew("w", token, 0)
    one.close()
    other.close()


@pytest.fixture(params=["redis", "zookeeper"])
def lock(request: pytest.FixtureRequest) -> Iterator[Lock]:
    """A lock of each kind."""
    url = request.getfixturevalue(f"{request.param}_url")
    made = open_lock(own_keys(url) if request.param == "redis" else f"{url}/test-{uuid.uuid4().hex}")
    yield made
    made.close()


def lose(lock: Lock) -> None:
    """Have the holder lose its turns, as a pause past the lease does."""
    end_keys(lock) if isinstance(lock, RedisLock) else end_session(lock)


@pytest.mark.parametrize("fencing", [True, False])
def test_a_turn_that_outlasts_its_lease(lock: Lock, fencing: bool) -> None:
    """With the fence, or renewed before the commit without it, a turn whose lease ended is decided again: nothing is lost."""
    clock = VirtualClock()
    engine = Engine(clock=clock, config=EngineConfig(lock=lock, fencing=fencing))
    engine.start(ONE, workflow_id="w")
    [task] = engine.poll("a")
    decide, lost = engine.core.turns.decider.decide, []

    def slow(turn: Any) -> Any:
        if not lost:
            lost.append(lose(lock))
        return decide(turn)

    engine.core.turns.decider.decide = slow  # type: ignore[method-assign]
    engine.update_task(
        TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease)
    )
    engine.run_until_idle()
    assert lost
    assert str(engine.status("w")) == "COMPLETED"
    assert engine.admin.check() == []
    engine.close()
