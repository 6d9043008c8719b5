"""All system workers as one set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from conductorlite.ext.http import http_worker
from conductorlite.ext.sinks import Sink, checked_sinks, event_worker, kafka_worker
from conductorlite.model.definitions import TaskType
from conductorlite.model.errors import InvalidInput
from conductorlite.model.texts import Span, to_span
from conductorlite.runtime.registry import Workers

__all__ = ["DEADLINE", "LARGEST_BODY", "system_workers"]

#: How long one HTTP request may take altogether, unless its own timeouts allow more.
DEADLINE: Final = "60s"

#: Largest body of an HTTP reply, bytes. As JSON objects it may take thirty times that while it is read.
LARGEST_BODY: Final = 4 * 1024 * 1024


def system_workers(
    *,
    sinks: Mapping[str, Sink | Callable[..., object]] | None = None,
    http_deadline: Span = DEADLINE,
    http_max_body: int = LARGEST_BODY,
) -> Workers:
    """Workers for HTTP, EVENT and KAFKA_PUBLISH, to `include` in those given to an engine.

    `sinks` says who publishes, by scheme: the text before the first colon of an EVENT's destination; KAFKA_PUBLISH uses
    `kafka`. A function is called with those of `destination`, `payload`, `message_id`, `key` and `headers` that it names. An HTTP
    request takes at most `http_deadline` from its connection to the last byte (text or a timedelta), or as long as its own
    connectionTimeOut and readTimeOut together, if that is longer; a reply's body has at most `http_max_body` bytes. HTTP tasks
    need the extra `http`; without it they fail for good and say so.
    Raises InvalidInput for a scheme with a colon, an object that cannot publish, a deadline or size that is not positive.
    """
    deadline_ms = to_span(http_deadline)
    if deadline_ms < 1:
        raise InvalidInput(f"http_deadline {http_deadline!r} is not positive")
    if http_max_body < 1:
        raise InvalidInput(f"http_max_body {http_max_body} is not positive")
    known = checked_sinks(sinks or {})
    workers = Workers()
    workers.add(TaskType.HTTP, http_worker(deadline_ms=deadline_ms, max_body=http_max_body))
    workers.add(TaskType.EVENT, event_worker(known))
    workers.add(TaskType.KAFKA_PUBLISH, kafka_worker(known))
    return workers
