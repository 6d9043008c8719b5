"""A lock among engines on several hosts, kept by ZooKeeper. The only importer of kazoo.

A turn is an ephemeral node: it goes with the session of its holder, which the client renews from a thread of its own and the
servers end when they have not heard of it for its timeout. A turn is held for as long as its engine lives and is connected, however
long it takes.

What it does not promise: an engine that is paused, or cut off, for longer than the timeout has lost its turns and may not know
it yet. The fence of the store is what nothing is lost by.

Source of the rule: the ZooKeeper documentation, "ZooKeeper Sessions" and "Ephemeral Nodes".
"""

from __future__ import annotations

import os
from typing import Any, Final, final
from urllib.parse import quote

from conductorlite.model.errors import AccessDenied, EngineClosed, LockUnavailable, MissingExtra
from conductorlite.model.texts import Seconds, Span, to_seconds
from conductorlite.store.locks import drawn_token, lease_ms
from conductorlite.store.places import place_of

__all__ = ["ZooKeeperLock"]

_OPTIONS: Final = frozenset({"lease", "timeout"})
_PORT: Final = 2181
_FOLDER: Final = "conductorlite/turns"


@final
class ZooKeeperLock:
    """A lock kept by the ZooKeeper servers `hosts` (`a:2181,b:2181`), in nodes below `folder`.

    `lease` is the timeout of the session: so long after its holder has died, a turn is free (the servers bound it by their own
    settings, 2 to 20 of their ticks). `timeout` bounds the wait for an answer. With a `user`, nodes are made by it and for it.
    Thread-safe. Raises MissingExtra without kazoo, InvalidInput, LockUnavailable when no server answers in time, and AccessDenied.
    """

    own_time: Final = True

    def __init__(
        self,
        hosts: str,
        *,
        folder: str = _FOLDER,
        lease: Span = "10s",
        timeout: Seconds = 5,
        user: str | None = None,
        password: str | None = None,
    ) -> None:
        try:
            from kazoo import exceptions
            from kazoo.client import KazooClient
            from kazoo.security import make_digest_acl
        except ImportError:
            raise MissingExtra("zookeeper", "a lock of ZooKeeper") from None
        self._errors = exceptions
        self._hosts = hosts
        self._timeout = to_seconds(timeout) / 1000
        self._folder = f"/{folder.strip('/')}"
        self._pid = os.getpid()
        self._closed = False
        signed = {} if user is None else {"auth_data": [("digest", f"{user}:{password or ''}")]}
        acl = None if user is None else [make_digest_acl(user, password or "", all=True)]
        self._client = KazooClient(hosts, timeout=lease_ms(lease) / 1000, default_acl=acl, **signed)
        try:
            self._client.start(self._timeout)
            self._answer(self._client.ensure_path_async(self._folder))
        except exceptions.AuthFailedError as error:
            self.close()
            raise AccessDenied(f"ZooKeeper at {hosts} refuses the user or the password") from error
        except exceptions.NoAuthError as error:
            self.close()
            raise AccessDenied(f"ZooKeeper at {hosts} does not let {user or 'this user'} write below {self._folder}") from error
        except self._client.handler.timeout_exception as error:
            self.close()
            raise LockUnavailable(f"ZooKeeper at {hosts} does not answer within {self._timeout:g} s") from error
        except BaseException:
            self.close()
            raise

    @classmethod
    def from_url(cls, url: str) -> ZooKeeperLock:
        """The lock at `zookeeper://user:password@a:2181,b,c/folder?lease=10s&timeout=5`. Raises as the class does."""
        place = place_of(url, _PORT, _OPTIONS)
        return cls(
            ",".join(f"{host}:{port}" for host, port in place.hosts),
            folder=place.path or _FOLDER,
            lease=place.options.get("lease", "10s"),
            timeout=place.number("timeout", 5, "seconds"),
            user=place.user,
            password=place.password,
        )

    def try_acquire(self, workflow_id: str, now: int) -> int | None:
        """Take the turn and return its token, or None when another holding has it. Raises LockUnavailable, EngineClosed."""
        token = drawn_token()
        path = self._path(workflow_id)
        self._check()
        created = self._client.create_async(path, str(token).encode(), ephemeral=True)
        try:
            self._answer(created)
        except self._errors.NodeExistsError:
            return None
        except BaseException:
            # It may be made yet, when nobody waits for it any more.
            created.rawlink(lambda late: self._client.delete_async(path) if late.successful() and not self._closed else None)
            raise
        return token

    def renew(self, workflow_id: str, token: int, now: int) -> bool:
        """Return True if the turn is still held: its lease is the session's, which renews itself. Raises as `try_acquire`."""
        return self._held(workflow_id, token) is not None

    def release(self, workflow_id: str, token: int) -> None:
        """Give a turn back; nothing happens when it was lost. Raises as `try_acquire`: then it ends with the session."""
        version = self._held(workflow_id, token)
        if version is not None:
            try:
                self._answer(self._client.delete_async(self._path(workflow_id), version))
            except (self._errors.NoNodeError, self._errors.BadVersionError):
                return

    def _held(self, workflow_id: str, token: int) -> int | None:
        """The version of the turn's node, None when it is not there or another holding's."""
        self._check()
        try:
            kept, stat = self._answer(self._client.get_async(self._path(workflow_id)))
        except self._errors.NoNodeError:
            return None
        return stat.version if kept == str(token).encode() else None

    def close(self) -> None:
        """End the session, and with it every turn that is held; idempotent."""
        if not self._closed and os.getpid() == self._pid:
            self._closed = True
            self._client.stop()
            self._client.close()

    def _path(self, workflow_id: str) -> str:
        return f"{self._folder}/turn-{quote(workflow_id, safe='')}"

    def _check(self) -> None:
        if self._closed or os.getpid() != self._pid:
            raise EngineClosed("the lock of ZooKeeper was closed, or opened before the process was forked")
        if not self._client.connected:
            raise LockUnavailable(f"ZooKeeper at {self._hosts} cannot be reached")

    def _answer(self, asked: Any) -> Any:
        """Return the answer of the servers; raises LockUnavailable when they do not answer in time."""
        errors = self._errors
        lost = (errors.ConnectionLoss, errors.SessionExpiredError, errors.ConnectionClosedError, errors.OperationTimeoutError)
        try:
            return asked.get(timeout=self._timeout)
        except lost as error:
            raise LockUnavailable(f"ZooKeeper at {self._hosts} cannot be reached ({type(error).__name__})") from error
        except self._client.handler.timeout_exception as error:
            raise LockUnavailable(f"ZooKeeper at {self._hosts} does not answer within {self._timeout:g} s") from error
