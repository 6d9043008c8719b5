"""The commands about messages to an execution and about values that it emits: list messages, read and follow streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from conductorlite.cli.output import instant
from conductorlite.cli.shared import Setting, command_options
from conductorlite.model.scalars import encoded
from conductorlite.model.streams import Dropped, StreamItem
from conductorlite.model.threads import Waiter

if TYPE_CHECKING:
    from conductorlite.engine.streams import Reading
    from conductorlite.model.mailbox import WorkflowMessage
    from conductorlite.runtime.engine import Engine

__all__ = ["TALKING"]

#: Milliseconds between looks at what other processes have committed.
_GLANCE: Final = 100

_ID = click.argument("workflow_id", metavar="ID")


@click.command("messages")
@_ID
@click.option("--topic", metavar="TOPIC", help="Only messages of this topic.")
@click.option("--unreceived", is_flag=True, help="Only messages that no task has received.")
@command_options()
def messages(setting: Setting, workflow_id: str, topic: str | None, unreceived: bool) -> None:
    """List the messages to an execution, in order, with the tasks that have received them."""
    with setting.engine() as engine:
        found = engine.messages(workflow_id, masked=True)
    found = [one for one in found if topic in (None, one.topic) and not (unreceived and one.receiver is not None)]
    setting.screen.answer_rows(
        [_message(one) for one in found],
        ("NUMBER", "TOPIC", "KEY", "SENT", "RECEIVED BY", "VALUE"),
        [(one.number, one.topic, one.key, instant(one.sent_at), one.receiver, one.value.shown) for one in found],
    )


def _message(one: WorkflowMessage) -> dict[str, Any]:
    document = {
        "number": one.number,
        "topic": one.topic,
        "key": one.key,
        "time": one.sent_at,
        "value": one.value.fresh(),
        "receiver": one.receiver,
        "receivedAt": one.received_at,
    }
    return {name: value for name, value in document.items() if value is not None or name == "value"}


@click.command("stream")
@_ID
@click.option("--stream", "name", metavar="NAME", help="Only values of this stream.")
@click.option("--after", type=click.IntRange(min=0), default=0, show_default=True, help="Begin after the value of this number.")
@click.option("--kept-only", is_flag=True, help="Only values of attempts that have completed.")
@click.option("--follow", is_flag=True, help="Wait for more until the execution has ended or Ctrl-C; other processes drive it.")
@command_options()
def stream(setting: Setting, workflow_id: str, name: str | None, after: int, kept_only: bool, follow: bool) -> None:
    """List the values that an execution has emitted, or follow them: a line each, texts as they are, others as JSON.

    Followed with --json each value is a document of its own, and so is a notice that the values of an attempt are dropped.
    """
    with setting.engine() as engine:
        engine.status(workflow_id)
        reading = engine.core.readers.reading(workflow_id, name, after, kept_only=kept_only)
        if not follow:
            found = [one for one in _there(engine, reading) if isinstance(one, StreamItem)]
            headings = ("NUMBER", "STREAM", "TASK", "ATTEMPT", "KEPT", "VALUE")
            setting.screen.answer_rows([_document(one) for one in found], headings, [_row(one) for one in found])
            return
        while not reading.over:
            for one in _there(engine, reading):
                (setting.screen.text if setting.json else setting.screen.lines)(_line(one, setting.json))
            if not reading.over:
                _wait(engine, reading)


def _there(engine: Engine, reading: Reading) -> Iterator[StreamItem | Dropped]:
    """The values that are there at this moment."""
    while not reading.over:
        before = reading.after
        yield from (found := engine.core.readers.more(reading, masked=True))
        if not found and reading.after == before:
            return


def _wait(engine: Engine, reading: Reading) -> None:
    """Wait until a turn was committed on the execution, by any process."""
    while not engine.core.readers.has_moved(reading):
        engine.clock.wait(Waiter(), engine.clock.now() + _GLANCE)


def _line(one: StreamItem | Dropped, as_json: bool) -> str:
    if isinstance(one, StreamItem):
        return json.dumps(_document(one), ensure_ascii=False) + "\n" if as_json else _text(one)
    first, last = one.numbers
    if as_json:
        return json.dumps({"dropped": [first, last], "referenceTaskName": one.ref, "retryCount": one.attempt}) + "\n"
    return f"({one.ref}, attempt {one.attempt + 1}: its values from {first} to {last} are dropped)"


def _document(one: StreamItem) -> dict[str, Any]:
    return {
        "number": one.number,
        "stream": one.stream,
        "time": one.at,
        "referenceTaskName": one.ref,
        "retryCount": one.attempt,
        "kept": one.kept,
        "value": one.value,
    }


def _row(one: StreamItem) -> tuple[object, ...]:
    return one.number, one.stream, one.ref, one.attempt + 1, "yes" if one.kept else "no", _text(one)


def _text(one: StreamItem) -> str:
    return one.value if isinstance(one.value, str) else encoded(one.value)


#: Every command about messages and values.
TALKING = (messages, stream)
