"""AMQP 0-9-1, as RabbitMQ speaks it: a sink for EVENT, and a source of messages for event handlers. The one importer of pika."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from conductorlite.engine.control import ascending_ids
from conductorlite.model.canonical import canonical, parse
from conductorlite.model.clock import SystemClock
from conductorlite.model.errors import InvalidInput, MissingExtra, SinkError, SourceError
from conductorlite.model.threads import Mutex
from conductorlite.store.ports import EventMessage

try:
    import pika
    from pika.exceptions import AMQPError, NackError, UnroutableError
except ImportError as error:
    raise MissingExtra("amqp", "AMQP") from error

__all__ = ["AmqpSink", "AmqpSource"]

_SCHEME: Final = "amqp:"

#: Seconds that a broker short of memory may block a connection before it counts as lost, unless the URL says otherwise.
_BLOCKED_S: Final = 30


class _Link:
    """A connection with one channel, opened when it is used, and again when it was lost. For one thread at a time."""

    def __init__(self, url: str, *, confirms: bool) -> None:
        if not url.startswith(("amqp://", "amqps://")):
            raise InvalidInput("amqp: the URL of a broker begins with amqp:// or amqps://")
        try:
            self._parameters = pika.URLParameters(url)
        except (ValueError, TypeError, AttributeError) as error:
            raise InvalidInput(f"amqp: {error}") from error
        if self._parameters.blocked_connection_timeout is None:
            self._parameters.blocked_connection_timeout = _BLOCKED_S
        self._confirms = confirms
        self._connection: Any = None
        self._channel: Any = None

    def channel(self) -> Any:
        """The channel, which is another object once it was lost; raises AMQPError."""
        if self._channel is not None and self._channel.is_open:
            try:
                self._connection.process_data_events(0)  # heartbeats, and whether it is open still
            except AMQPError:  # it was lost, and is opened again
                self.close()
        if self._channel is None or not self._channel.is_open:
            self.close()
            self._connection = pika.BlockingConnection(self._parameters)
            self._channel = self._connection.channel()
            if self._confirms:
                self._channel.confirm_delivery()
        return self._channel

    def close(self) -> None:
        """Close what is open: the broker gives again what was not acknowledged."""
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            with suppress(AMQPError):  # it is closed already
                connection.close()


class AmqpSink:
    """Publishes to a broker: `system_workers(sinks={"amqp": AmqpSink("amqp://user:secret@host/")})`.

    What follows `amqp:` in the destination is a queue, or the routing key where an `exchange` is given. Messages are persistent; a
    broker that confirms none, or that has no queue for one, is a SinkError. A `key` is the header `key`. Thread-safe. Raises
    InvalidInput for a wrong URL; connects when it publishes.
    """

    def __init__(self, url: str, *, exchange: str = "") -> None:
        self._link, self._exchange, self._mutex = _Link(url, confirms=True), exchange, Mutex()

    def publish(
        self,
        destination: str,
        payload: Any,
        *,
        message_id: str,
        key: str | int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Publish, and return when the broker has it; raises SinkError."""
        given = {**(headers or {}), **({} if key is None else {"key": key})}
        properties = pika.BasicProperties(
            content_type="application/json", delivery_mode=2, message_id=message_id, headers=given or None
        )
        body = canonical(payload, where="payload").encode()
        with self._mutex.held():
            try:
                channel = self._link.channel()
                channel.basic_publish(self._exchange, destination.removeprefix(_SCHEME), body, properties, mandatory=True)
            except UnroutableError as error:
                raise SinkError(f"{destination}: the broker has no queue for it") from error
            except NackError as error:
                raise SinkError(f"{destination}: the broker has refused it") from error
            except (AMQPError, ValueError) as error:
                self._link.close()
                raise SinkError(f"{destination}: {error or type(error).__name__}") from error

    def close(self) -> None:
        """Close the connection; the next message opens another."""
        with self._mutex.held():
            self._link.close()


class AmqpSource:
    """Gives the messages of a queue to event handlers of an event, at least once: `AmqpSource("orders", "amqp://host/")`.

    The event is `amqp:<queue>` unless another is given. What was handled is acknowledged; what was not is given by the broker to
    another process when this one ends or loses its connection. A message's id is its property `message-id`, which `AmqpSink` sets;
    one without it has another id each time it is given, so what it leads to may happen twice. A message that is no JSON, and one
    that an engine rejects, is rejected at the broker, which drops it unless the queue names an exchange for such messages. Raises
    InvalidInput for a wrong URL; connects when it is asked.
    """

    def __init__(self, queue: str, url: str, *, event: str | None = None) -> None:
        self._queue, self._event, self._link = queue, event or f"{_SCHEME}{queue}", _Link(url, confirms=False)
        #: What was given and is not handled, by its number on a channel.
        self._open: dict[int, EventMessage] = {}
        self._of: Any = None
        #: Makes ids for messages that have none.
        self._new_id = ascending_ids(SystemClock())

    def poll(self, limit: int) -> Sequence[EventMessage]:
        """Messages that are not handled yet; raises SourceError."""
        try:
            channel = self._link.channel()
            if channel is not self._of:  # the broker gives again what was open on the other one
                self._of, self._open = channel, {}
            while len(self._open) < limit:
                got, properties, body = channel.basic_get(self._queue)
                if got is None:
                    break
                self._receive(got.delivery_tag, properties.message_id, body)
        except AMQPError as error:
            self._link.close()
            raise SourceError(f"{self._event}: {error or type(error).__name__}") from error
        return list(self._open.values())[:limit]

    def ack(self, message: EventMessage) -> None:
        """Acknowledge a message; raises SourceError."""
        self._end(message, handled=True)

    def reject(self, message: EventMessage, reason: str) -> None:
        """Have the broker put a message away."""
        self._end(message, handled=False)

    def close(self) -> None:
        """Close the connection, so that others are given what is not handled at once."""
        self._link.close()

    def _receive(self, tag: int, message_id: str | None, body: bytes) -> None:
        try:
            payload = parse(body.decode(errors="replace"))
        except InvalidInput:
            self._of.basic_reject(tag, requeue=False)
            return
        self._open[tag] = EventMessage(event=self._event, payload=payload, message_id=message_id or self._new_id())

    def _end(self, message: EventMessage, *, handled: bool) -> None:
        tag = next((tag for tag, one in self._open.items() if one is message), None)
        if tag is None:
            return  # given on a connection that was lost: the broker gives it again
        del self._open[tag]
        try:
            if handled:
                self._of.basic_ack(tag)
            else:
                self._of.basic_reject(tag, requeue=False)
        except AMQPError as error:
            self._link.close()
            raise SourceError(f"{self._event}: {error or type(error).__name__}") from error
