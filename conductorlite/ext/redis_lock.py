"""A lock among engines on several hosts, kept by Redis: one server, or Redlock over several. The only importer of redis.

A turn is a key with a lifetime, which the server ends by its own clock (`SET NX PX`). Over several independent servers a turn is
held by the one who has it on more than half of them with some of the lease left (Redlock): one that is down, or has forgotten its
keys in a restart, hands out no turn by itself. Keys are given back and renewed by scripts that compare the token.

Several servers are asked at once, each by a thread of its own, and an answer of more than half is enough: one that is slow, or
hangs, keeps no turn waiting. It is asked all the same: a server that answers late holds the turn too, so that one of the others
that forgets it is outvoted. One that fails is left alone, and its thread tries it again after a while.

What it does not promise: a server that forgets (a restart without persistence, a fail-over to a replica that was behind) lets a
second holder in, as does a holder that is paused for longer than the lease. The fence of the store is what nothing is lost by.

Source of the rule: the Redis documentation, "Distributed Locks with Redis".
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from conductorlite.engine.logs import log_driver
from conductorlite.model.clock import SystemClock, steady
from conductorlite.model.errors import AccessDenied, EngineClosed, InvalidInput, LockUnavailable, MissingExtra
from conductorlite.model.texts import Span, type_name
from conductorlite.model.threads import Mutex, Waiter, started
from conductorlite.store.locks import drawn_token, lease_ms
from conductorlite.store.places import place_of

__all__ = ["RedisLock"]

_OPTIONS: Final = frozenset({"lease", "prefix", "timeout"})
_PORT: Final = 6379

_COMPARED: Final = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call({}) else return 0 end"
_RELEASE: Final = _COMPARED.format("'del', KEYS[1]")
_RENEW: Final = _COMPARED.format("'pexpire', KEYS[1], ARGV[2]")

#: How long a server that failed is left alone at first and at most, seconds: twice as long after each further failure.
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0

#: Questions that may wait for one server: one with more is too slow to count. One that answers has a few at most.
_BEHIND: Final = 1_000

#: How long an answer is waited for where the client has no bound of its own, seconds; and how much longer than that bound.
_PATIENCE_S: Final = 5.0
_MARGIN_S: Final = 0.05

#: How far the clocks of servers may drift apart during a lease: a hundredth of it, and this many ms.
_DRIFT_MS: Final = 2


Answer = Callable[[Any], Any]


class _Round:
    """One question to all servers, and what they have answered so far. Thread-safe; one thread waits for it."""

    def __init__(self, servers: int) -> None:
        self._left = servers
        self.answers: list[Any] = []
        self.problems: list[str] = []
        self.refusal: AccessDenied | None = None
        self._mutex = Mutex()
        self._news = Waiter()

    def add(self, answer: Any) -> None:
        """Note what a server answers."""
        self.answers.append(answer)
        self._count()

    def fail(self, problem: str | AccessDenied) -> None:
        """Note why a server does not answer, or that it refuses the user."""
        if isinstance(problem, AccessDenied):
            self.refusal = problem
        else:
            self.problems.append(problem)
        self._count()

    def _count(self) -> None:
        with self._mutex.held():
            self._left -= 1
        self._news.wake()

    def wait(self, enough: Callable[[Sequence[Any]], bool], patience: float) -> None:
        """Wait until enough servers have answered, or none is left, or nothing has come for so many seconds."""
        while self._left > 0 and self.refusal is None and not enough(self.answers):
            if not self._news.wait(patience):
                break


class _Server:
    """One server. A thread asks it, in order, leaves it alone for a while after a failure, and tries it again."""

    def __init__(self, client: Any, redis: Any, *, alone: bool) -> None:
        self.client = client
        self._redis = redis
        #: It is the only server: who asks waits for it anyway, and learns of each failure.
        self._alone = alone
        self._mutex = Mutex()
        self._questions: deque[tuple[Answer, _Round]] = deque()
        self._news = Waiter()
        self._thread: threading.Thread | None = None
        #: Why it is left alone; empty: it answers.
        self._problem = ""
        self._pause = _FIRST_PAUSE_S
        self._closed = False

    def ask(self, question: Answer, round_: _Round) -> None:
        """Have it asked, or fail the round for it with the reason."""
        if self._alone:
            self._carry_out(question, round_)
            return
        with self._mutex.held():
            waiting = len(self._questions)
            problem = self._problem
            if not problem and waiting >= _BEHIND:
                problem = f"{_name(self.client)}: it is {waiting} answers behind"
            if not problem:
                if self._thread is None:
                    self._thread = started(self._run, name="conductorlite-redis")
                self._questions.append((question, round_))
        if problem:
            round_.fail(problem)
        else:
            self._news.wake()

    def close(self) -> None:
        """Let its thread end, and release the connections."""
        self._closed = True
        self._news.wake()
        if self._thread is None:
            self.client.close()

    def _run(self) -> None:
        try:
            while not self._closed:
                woken = self._news.wait(self._pause if self._problem else None)
                if self._problem and not woken:
                    self._try_again()
                while self._questions and not self._closed:
                    question, round_ = self._questions[0]
                    if self._problem:
                        round_.fail(self._problem)
                    else:
                        self._carry_out(question, round_)
                    self._questions.popleft()  # only now: while it is asked it counts as waiting
        finally:
            self.client.close()

    def _carry_out(self, question: Answer, round_: _Round) -> None:
        try:
            answer = question(self.client)
        except self._redis.AuthenticationError as error:
            refusal = AccessDenied(f"{_name(self.client)} refuses the user or the password: {error}")
            refusal.__cause__ = error
            self._leave_alone(str(refusal))
            round_.fail(refusal)
        except Exception as error:
            problem = self._problem_of(error)
            self._leave_alone(problem)
            round_.fail(problem)
        else:
            round_.add(answer)

    def _problem_of(self, error: Exception) -> str:
        return f"{_name(self.client)}: {str(error) or type_name(error)}"

    def _leave_alone(self, problem: str) -> None:
        if not self._alone:
            self._problem = problem
            log_driver("a Redis server does not answer and is left alone until it does: %s", problem)

    def _try_again(self) -> None:
        try:
            self.client.ping()
        except Exception as error:
            self._problem = self._problem_of(error)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_S)
            return
        self._problem, self._pause = "", _FIRST_PAUSE_S
        log_driver("a Redis server answers again: %s", _name(self.client))


def _close_all(servers: Sequence[_Server]) -> None:
    for server in servers:
        server.close()


@final
class RedisLock:
    """A lock kept by the Redis servers `clients`, each its own and none a replica of another.

    A turn is lost when it is held for longer than `lease` by the servers' time (Conductor's 60 s by default). `prefix` begins the
    keys. Thread-safe. Raises InvalidInput when the lease is not positive or there is no client, LockUnavailable when more than half
    of the servers cannot be reached, AccessDenied when one refuses the user or the password.
    """

    own_time: Final = True

    def __init__(self, clients: Sequence[Any], *, lease: Span = "60s", prefix: str = "conductorlite:turn:") -> None:
        self._redis = _imported()
        if not clients:
            raise InvalidInput("a lock of Redis needs at least one server")
        self._servers = tuple(_Server(client, self._redis, alone=len(clients) == 1) for client in clients)
        self._quorum: Final = len(self._servers) // 2 + 1
        bounds = [client.connection_pool.connection_kwargs.get("socket_timeout") for client in clients]
        self._patience: Final = max(_PATIENCE_S if bound is None else bound + _MARGIN_S for bound in bounds)
        self._lease = lease_ms(lease)
        self._prefix = prefix
        self._clock = SystemClock()
        self._pid = os.getpid()
        self._closed = False
        weakref.finalize(self, _close_all, self._servers)
        self._asked(lambda client: client.ping(), self._are_enough)

    @classmethod
    def from_url(cls, url: str) -> RedisLock:
        """The lock at `redis://user:password@a:6379,b,c/0?lease=60s&timeout=200&prefix=…`; `rediss://` with TLS.

        `timeout` bounds the wait for each server, ms (200); a server that does not answer in time counts as down. Raises
        MissingExtra without redis, InvalidInput, LockUnavailable, AccessDenied.
        """
        redis = _imported()
        place = place_of(url, _PORT, _OPTIONS)
        database = place.path or "0"
        if not database.isdecimal():
            raise InvalidInput(f"{place.shown}: the number of a database stands behind the hosts, not {place.path!r:.80}")
        timeout = place.number("timeout", 200, "milliseconds") / 1000
        clients = [
            redis.Redis(
                host=host,
                port=port,
                db=int(database),
                username=place.user,
                password=place.password,
                ssl=place.scheme == "rediss",
                socket_timeout=timeout,
                socket_connect_timeout=timeout,
                retry=None,
                retry_on_error=None,
            )
            for host, port in place.hosts
        ]
        options = {name: place.options[name] for name in ("lease", "prefix") if name in place.options}
        try:
            return cls(clients, **options)
        except BaseException:
            for client in clients:
                client.close()
            raise

    def try_acquire(self, workflow_id: str, now: int) -> int | None:
        """Take the turn and return its token, or None when another holding has it. Raises LockUnavailable, EngineClosed."""
        token = drawn_token()
        key = self._prefix + workflow_id
        began = self._read()
        try:
            taken = self._asked(lambda client: client.set(key, token, nx=True, px=self._lease), self._is_decided)
        except LockUnavailable:
            self._give_back(key, token)
            raise
        left = self._lease - (self._read() - began) - self._lease // 100 - _DRIFT_MS
        if sum(map(bool, taken)) >= self._quorum and left > 0:
            return token
        self._give_back(key, token)
        return None

    def renew(self, workflow_id: str, token: int, now: int) -> bool:
        """Begin the lease again on every server; False when fewer than a majority still have the turn. Raises as `try_acquire`."""
        key = self._prefix + workflow_id
        renewed = self._asked(lambda client: client.eval(_RENEW, 1, key, token, self._lease), self._is_decided)
        return sum(map(bool, renewed)) >= self._quorum

    def release(self, workflow_id: str, token: int) -> None:
        """Give a turn back; nothing happens when it was lost. Raises as `try_acquire`: then it ends with its lease."""
        key = self._prefix + workflow_id
        self._asked(lambda client: client.eval(_RELEASE, 1, key, token), self._are_enough)

    def close(self) -> None:
        """Release the connections; idempotent. What is still held ends with its lease."""
        if not self._closed and os.getpid() == self._pid:
            self._closed = True
            _close_all(self._servers)

    def _give_back(self, key: str, token: int) -> None:
        """Take back what was taken in part, on every server that can be reached; elsewhere it ends with its lease."""
        self._ask(lambda client: client.eval(_RELEASE, 1, key, token))

    def _are_enough(self, answers: Sequence[Any]) -> bool:
        return len(answers) >= self._quorum

    def _is_decided(self, answers: Sequence[Any]) -> bool:
        """Return True if a majority has said yes, or cannot say yes any more."""
        agreed = sum(map(bool, answers))
        return agreed >= self._quorum or len(answers) - agreed > len(self._servers) - self._quorum

    def _ask(self, question: Answer) -> _Round:
        if self._closed or os.getpid() != self._pid:
            raise EngineClosed("the lock of Redis was closed, or opened before the process was forked")
        round_ = _Round(len(self._servers))
        for server in self._servers:
            server.ask(question, round_)
        return round_

    def _asked(self, question: Answer, enough: Callable[[Sequence[Any]], bool]) -> list[Any]:
        """The answers of the servers that gave one in time, more than half."""
        round_ = self._ask(question)
        round_.wait(enough, self._patience)
        if round_.refusal is not None:
            raise round_.refusal
        answers, problems = list(round_.answers), list(round_.problems)
        if len(answers) < self._quorum:
            silent = len(self._servers) - len(answers)
            why = "; ".join(problems) or f"nothing came within {self._patience:g} s"
            raise LockUnavailable(f"{silent} of {len(self._servers)} Redis servers do not answer ({why})")
        return answers

    def _read(self) -> int:
        """Return the reading in ms of a clock that runs on when the machine's time is set, where there is one."""
        read = steady(self._clock)
        return self._clock.now() if read is None else read[1]


def _name(client: Any) -> str:
    options = client.connection_pool.connection_kwargs
    return f"{options.get('host')}:{options.get('port')}"


def _imported() -> Any:
    try:
        import redis
    except ImportError:
        raise MissingExtra("redis", "a lock of Redis") from None
    return redis
