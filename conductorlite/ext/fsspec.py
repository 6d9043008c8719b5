"""Payloads wherever fsspec reaches: S3, Google Cloud Storage, Azure … The only importer of fsspec."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar, final

from conductorlite.model.errors import InvalidInput, MissingExtra, PayloadLost, PayloadUnavailable
from conductorlite.model.texts import Seconds, Span, to_seconds, to_span
from conductorlite.store.payloads import checked_key, checked_operation
from conductorlite.store.tables import ExternalStorageLocation, StoredPayload

__all__ = ["FsspecPayloads"]

#: How long a signed URI is good for, as Conductor's S3 storage signs it.
_SIGNED_SECONDS: Final = 5

#: How the client of S3 tries again: twice, since the engine does so too, and the caller waits meanwhile.
_S3: Final = {"config_kwargs": {"retries": {"mode": "standard", "total_max_attempts": 3}, "connect_timeout": 5, "read_timeout": 30}}

#: How long one request to a file system takes at most, with its tries: what its package bounds is not everything, a write to an S3
#: server that takes the connection and says nothing waits for ever.
_TIMEOUT: Final = "60s"

T = TypeVar("T")


@final
class FsspecPayloads:
    """A payload storage below a URL such as `s3://bucket/folder`; `options` are those of the fsspec file system.

    The file system's own package (`s3fs`, `gcsfs`, `adlfs` …) is the user's to install. `signed_seconds` is how long what
    `location` signs is good for. `timeout` bounds each request, where the file system is one of fsspec's asynchronous ones (S3,
    Google Cloud Storage, Azure): PayloadUnavailable then. A client of S3 for which no `config_kwargs` are given tries twice more
    before it gives up. Raises MissingExtra without fsspec, InvalidInput for a URL it does not know or whose file system writes in
    place (`file:`, for which `LocalPayloads` is there).
    """

    def __init__(self, url: str, *, signed_seconds: Seconds = _SIGNED_SECONDS, timeout: Span = _TIMEOUT, **options: Any) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise MissingExtra("payload", f"the payload storage {url!r}") from None
        try:
            self._fs, root = url_to_fs(url, **{**(_S3 if url.startswith(("s3://", "s3a://")) else {}), **options})
        except (ValueError, ImportError) as error:
            raise InvalidInput(f"payload storage {url!r}: {error}") from error
        protocols = self._fs.protocol
        #: What the file system calls itself.
        self.protocols: tuple[str, ...] = (protocols,) if isinstance(protocols, str) else tuple(protocols)
        if "file" in self.protocols:
            raise InvalidInput(f"payload storage {url!r}: give the path of the folder instead")
        self.url = url
        self._root = root.rstrip("/")
        #: Those of fsspec that are coroutines below take a bound.
        self._bound: dict[str, Any] = {"timeout": to_span(timeout) / 1_000} if self._fs.async_impl else {}
        self._seconds = max(1, to_seconds(signed_seconds) // 1_000)

    def put(self, key: str, data: bytes) -> None:
        """Keep bytes in place of what was there."""
        path = self._path(key)
        self._asked(f"payload {key} cannot be written", lambda: self._fs.pipe_file(path, data, **self._bound))

    def get(self, key: str) -> bytes:
        """The bytes; raises PayloadLost when there are none."""
        path = self._path(key)
        try:
            data: bytes = self._asked(f"payload {key} cannot be read", lambda: self._fs.cat_file(path, **self._bound))
        except FileNotFoundError:
            raise PayloadLost(key, f"is missing in {self.url}") from None
        return data

    def size(self, key: str) -> int:
        """Return how many bytes the object has; raises PayloadLost when there is none."""
        path = self._path(key)
        self._fs.invalidate_cache()
        try:
            found = self._asked(f"payload {key} cannot be read", lambda: self._fs.info(path, **self._bound))
        except FileNotFoundError:
            found = {}
        if found.get("type") != "file":
            raise PayloadLost(key, f"is missing in {self.url}")
        return int(found.get("size") or 0)

    def delete(self, key: str) -> None:
        """Forget the bytes, if there are any."""
        path = self._path(key)
        try:
            self._asked(f"payload {key} cannot be deleted", lambda: self._fs.rm_file(path, **self._bound))
        except FileNotFoundError:
            return

    def list(self) -> Iterator[StoredPayload]:
        """Every object below the URL."""
        self._fs.invalidate_cache()
        try:
            found = self._asked("it cannot be listed", lambda: self._fs.find(self._root, detail=True, **self._bound))
        except FileNotFoundError:
            return
        for path, details in found.items():
            yield StoredPayload(key=path[len(self._root) + 1 :], size=details.get("size") or 0)

    def location(self, operation: str, path: str) -> ExternalStorageLocation:
        """A URI that is signed for the operation where the file system can do that (S3 and GCS: both, others: READ)."""
        place = self._path(path)
        asked: dict[str, Any] = {}
        if checked_operation(operation) == "WRITE":
            asked = {"client_method": "put_object"} if "s3" in self.protocols else {"method": "PUT"}
        try:
            uri = self._asked(f"payload {path} cannot be signed", lambda: self._fs.sign(place, expiration=self._seconds, **asked))
        except NotImplementedError:  # a file system that signs nothing: its own URI
            uri = self._fs.unstrip_protocol(place)
        return ExternalStorageLocation(uri=uri, path=path)

    def _path(self, key: str) -> str:
        return f"{self._root}/{checked_key(key)}"

    def _asked(self, problem: str, ask: Callable[[], T]) -> T:
        """The answer of the file system, whose packages raise errors of many trees."""
        try:
            return ask()
        except (FileNotFoundError, NotImplementedError):
            raise
        except Exception as error:
            raise PayloadUnavailable(f"{self.url}: {problem}: {str(error) or type(error).__name__}") from error
