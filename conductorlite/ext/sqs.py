"""Amazon SQS: a sink for EVENT, and a source of messages for event handlers. The one importer of boto3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from conductorlite.model.canonical import canonical, parse
from conductorlite.model.errors import InvalidInput, MissingExtra, SinkError, SourceError
from conductorlite.store.ports import EventMessage

try:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError as error:
    raise MissingExtra("sqs", "Amazon SQS") from error

__all__ = ["SqsSink", "SqsSource"]

_SCHEME: Final = "sqs:"

#: Attribute with the id that makes a second delivery harmless; how many attributes a message can have.
_ID: Final = "message-id"
_ATTRIBUTES: Final = 10

#: Messages that one call may ask for.
_BATCH: Final = 10


def _client(client: Any, options: Mapping[str, Any]) -> Any:
    try:
        return boto3.client("sqs", **options) if client is None else client
    except (BotoCoreError, ValueError) as error:
        raise InvalidInput(f"sqs: {error}") from error


def _url_of(client: Any, queue: str) -> str:
    """The URL of a queue that is given by its name or its URL; raises what boto3 raises."""
    return queue if "://" in queue else str(client.get_queue_url(QueueName=queue)["QueueUrl"])


class SqsSink:
    """Publishes to queues: `system_workers(sinks={"sqs": SqsSink(region_name="eu-central-1")})`.

    `options` are those of `boto3.client`, unless a `client` is given. What follows `sqs:` in the destination is the name of a queue
    or its URL. A FIFO queue keeps the order of messages of one key, and takes a message that is published again within five minutes
    once. Thread-safe. Raises InvalidInput for wrong options.
    """

    def __init__(self, client: Any = None, **options: Any) -> None:
        self._sqs = _client(client, options)
        self._urls: dict[str, str] = {}

    def publish(
        self,
        destination: str,
        payload: Any,
        *,
        message_id: str,
        key: str | int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Publish, and return when SQS has it; raises SinkError."""
        queue = destination.removeprefix(_SCHEME)
        given = {**(headers or {}), _ID: message_id}
        if len(given) > _ATTRIBUTES:
            raise SinkError(f"{destination}: a message of SQS has at most {_ATTRIBUTES} attributes, its id among them")
        order: dict[str, str] = {}
        if queue.endswith(".fifo"):
            order = {"MessageGroupId": queue if key is None else str(key), "MessageDeduplicationId": message_id}
        try:
            self._sqs.send_message(
                QueueUrl=self._url(queue),
                MessageBody=canonical(payload, where="payload"),
                MessageAttributes={name: {"DataType": "String", "StringValue": value} for name, value in given.items()},
                **order,
            )
        except (BotoCoreError, ClientError) as error:
            raise SinkError(f"{destination}: {error}") from error

    def _url(self, queue: str) -> str:
        found = self._urls.get(queue)
        if found is None:
            found = self._urls[queue] = _url_of(self._sqs, queue)
        return found


class SqsSource:
    """Gives the messages of a queue to event handlers of an event, at least once.

    The event is `sqs:<name of the queue>` unless another is given. What was handled is deleted; what was not is given again when
    its visibility timeout is over, to whichever process asks then. A message's id is its attribute `message-id`, which `SqsSink`
    sets, else SQS's own. One that is no JSON, and what an engine rejects, is left to the queue's redrive policy: SQS gives it
    again, or puts it away. `options` are those of `boto3.client`, unless a `client` is given. Raises InvalidInput for wrong
    options, SourceError when the queue is not found.
    """

    def __init__(self, queue: str, client: Any = None, *, event: str | None = None, **options: Any) -> None:
        self._sqs = _client(client, options)
        try:
            self._url = _url_of(self._sqs, queue)
        except (BotoCoreError, ClientError) as error:
            raise SourceError(f"sqs:{queue}: {error}") from error
        self._event = event or f"{_SCHEME}{self._url.rpartition('/')[2]}"
        #: The receipts of what was given, by message.
        self._receipts: dict[int, tuple[EventMessage, str]] = {}

    def poll(self, limit: int) -> Sequence[EventMessage]:
        """Messages that nobody else handles now; raises SourceError."""
        # What was given before and not acknowledged comes again by itself.
        self._receipts.clear()
        try:
            received = self._sqs.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=min(limit, _BATCH),
                WaitTimeSeconds=0,
                MessageAttributeNames=[_ID],
            )
        except (BotoCoreError, ClientError) as error:
            raise SourceError(f"{self._event}: {error}") from error
        found = []
        for one in received.get("Messages", ()):
            with suppress(InvalidInput):  # what is no JSON is left to the redrive policy
                attribute = one.get("MessageAttributes", {}).get(_ID, {})
                message_id = attribute.get("StringValue") or one["MessageId"]
                message = EventMessage(event=self._event, payload=parse(one["Body"]), message_id=message_id)
                self._receipts[id(message)] = (message, one["ReceiptHandle"])
                found.append(message)
        return found

    def ack(self, message: EventMessage) -> None:
        """Delete a message; raises SourceError."""
        kept = self._receipts.pop(id(message), None)
        if kept is None:
            return
        try:
            self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=kept[1])
        except (BotoCoreError, ClientError) as error:
            raise SourceError(f"{self._event}: {error}") from error

    def reject(self, message: EventMessage, reason: str) -> None:
        """Leave a message to the queue's redrive policy."""
        self._receipts.pop(id(message), None)
