"""Kafka: a sink for EVENT and KAFKA_PUBLISH, and a source of messages for event handlers. The one importer of confluent_kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from conductorlite.model.canonical import canonical, parse
from conductorlite.model.errors import InvalidInput, MissingExtra, SinkError, SourceError
from conductorlite.store.ports import EventMessage

try:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
except ImportError as error:
    raise MissingExtra("kafka", "Kafka") from error

__all__ = ["KafkaSink", "KafkaSource"]

#: Header with the id that makes a second delivery harmless.
_ID: Final = "message-id"

#: Seconds that a producer looks for answers before it looks again whether its own has come.
_LOOK: Final = 0.05

_SCHEME: Final = "kafka:"


class KafkaSink:
    """Publishes to the topics of a cluster: `system_workers(sinks={"kafka": KafkaSink({"bootstrap.servers": "a:9092"})})`.

    `settings` are those of librdkafka, which win over ours: every replica in sync has a message before `publish` returns, and one
    that librdkafka sends again is written once. A value is written as JSON; a key that is text as UTF-8, and one that is a number
    as Kafka's LongSerializer does. A topic is what follows `kafka:` in the destination. Thread-safe. Raises InvalidInput for wrong
    settings.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        try:
            self._producer = Producer({"acks": "all", "enable.idempotence": True, "delivery.timeout.ms": 30_000, **settings})
        except (KafkaException, ValueError, TypeError) as error:
            raise InvalidInput(f"kafka: {error}") from error

    def publish(
        self,
        destination: str,
        payload: Any,
        *,
        message_id: str,
        key: str | int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Publish, and return when the brokers have it; raises SinkError when they have not within `delivery.timeout.ms`."""
        topic = destination.removeprefix(_SCHEME)
        answers: list[KafkaError | None] = []
        try:
            self._producer.produce(
                topic,
                canonical(payload, where="payload").encode(),
                key.to_bytes(8, "big", signed=True) if isinstance(key, int) else key,
                headers=[(name, value.encode()) for name, value in {**(headers or {}), _ID: message_id}.items()],
                on_delivery=lambda error, _: answers.append(error),
            )
            while not answers:
                self._producer.poll(_LOOK)
        except (KafkaException, BufferError, OverflowError) as error:
            raise SinkError(f"{destination}: {error}") from error
        if answers[0] is not None:
            raise SinkError(f"{destination}: {answers[0].str()}")


class KafkaSource:
    """Gives the records of topics to event handlers of the event `kafka:<topic>`, at least once.

    `settings` are those of librdkafka, with `bootstrap.servers` and `group.id`; processes of one group share the partitions. What
    was handled is committed, never past a record that was not. A record's id is its header `message-id`, which `KafkaSink` sets,
    else its topic, partition and offset. A record that is no JSON is put away: its handlers cannot read it. It, and what an engine
    rejects, goes to `rejected`, a sink, with the topic `<topic>.rejected`, if there is one. Raises InvalidInput for wrong settings.
    """

    def __init__(self, settings: Mapping[str, Any], topics: Iterable[str], *, rejected: KafkaSink | None = None) -> None:
        fixed = {"enable.auto.commit": False, "enable.auto.offset.store": False}
        try:
            self._consumer = Consumer({"auto.offset.reset": "earliest", **settings, **fixed})
            self._consumer.subscribe(list(topics), on_revoke=self._revoked, on_lost=self._revoked)
        except (KafkaException, ValueError, TypeError) as error:
            raise InvalidInput(f"kafka: {error}") from error
        self._rejected = rejected
        #: What was given and is not handled, by partition and offset, and the next offset of each partition.
        self._open: dict[tuple[str, int], dict[int, EventMessage]] = {}
        self._next: dict[tuple[str, int], int] = {}

    def poll(self, limit: int) -> Sequence[EventMessage]:
        """Records that are not handled yet, the oldest of each partition first; raises SourceError."""
        waiting = [one for messages in self._open.values() for one in messages.values()][:limit]
        if waiting:
            return waiting
        try:
            records = self._consumer.consume(limit, 0)
        except KafkaException as error:
            raise SourceError(f"kafka: {error}") from error
        found = []
        for record in records:
            problem = record.error()
            if problem is not None:
                if problem.code() == KafkaError._PARTITION_EOF:
                    continue
                raise SourceError(f"kafka: {problem.str()}")
            message = self._read(record)
            if message is not None:
                found.append(message)
        return found

    def ack(self, message: EventMessage) -> None:
        """Commit up to the oldest record of the partition that is not handled; raises SourceError."""
        for partition, messages in self._open.items():
            for offset, one in messages.items():
                if one is message:
                    del messages[offset]
                    self._commit(partition)
                    return

    def reject(self, message: EventMessage, reason: str) -> None:
        """Put a record away, with the reason as a header."""
        self._put_away(message.event, message.payload, message.message_id, reason)
        self.ack(message)

    def close(self) -> None:
        """Leave the group, so that others take over the partitions at once."""
        self._consumer.close()

    def _read(self, record: Message) -> EventMessage | None:
        topic, partition, offset = record.topic() or "", record.partition() or 0, record.offset() or 0
        place, value = (topic, partition), record.value() or b"null"
        headers = dict(record.headers() or ())
        given = headers.get(_ID)
        message_id = given.decode() if isinstance(given, bytes) and given else f"{topic}/{partition}/{offset}"
        self._next[place] = offset + 1
        text = value if isinstance(value, str) else value.decode(errors="replace")
        try:
            message = EventMessage(event=f"{_SCHEME}{topic}", payload=parse(text), message_id=message_id)
        except InvalidInput as error:
            self._put_away(f"{_SCHEME}{topic}", text, message_id, str(error))
            self._commit(place)
            return None
        self._open.setdefault(place, {})[offset] = message
        return message

    def _put_away(self, event: str, payload: Any, message_id: str, reason: str) -> None:
        if self._rejected is not None:
            self._rejected.publish(f"{event}.rejected", payload, message_id=message_id, headers={"reason": reason})

    def _commit(self, place: tuple[str, int]) -> None:
        offset = min(self._open.get(place) or (self._next[place],))
        try:
            self._consumer.commit(offsets=[TopicPartition(*place, offset)], asynchronous=False)
        except KafkaException as error:
            raise SourceError(f"kafka: {error}") from error

    def _revoked(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Forget what another process gives from now on."""
        for one in partitions:
            self._open.pop((one.topic, one.partition), None)
