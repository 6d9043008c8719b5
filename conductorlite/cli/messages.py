"""The commands about events: handlers registered and listed, messages published, records of what they did."""

from __future__ import annotations

import click

from conductorlite.cli.reading import read_event_handler, read_json
from conductorlite.cli.shared import Setting, command_options
from conductorlite.cli.showing import instant
from conductorlite.handlers import EventExecution

__all__ = ["MESSAGES"]


@click.command("handlers")
@click.option("--event", metavar="EVENT", help="Only handlers of this event.")
@click.option("--active", is_flag=True, help="Only active ones.")
@click.option("--register", "files", metavar="FILE", multiple=True, help="Event handlers to register first.")
@click.option("--remove", "names", metavar="NAME", multiple=True, help="Event handlers to delete first.")
@command_options()
def handlers(setting: Setting, event: str | None, active: bool, files: tuple[str, ...], names: tuple[str, ...]) -> None:
    """List event handlers, after registering or deleting some."""
    given = [read_event_handler(file) for file in files]
    with setting.engine(create=bool(given)) as engine:
        for name in names:
            engine.unregister_event_handler(name)
        for handler in given:
            engine.register_event_handler(handler)
        found = engine.event_handlers(event, active_only=active)
    if setting.json:
        setting.screen.document([handler.to_json() for handler in found])
        return
    setting.screen.table(
        ("NAME", "EVENT", "ACTIVE", "CONDITION", "ACTIONS"),
        [
            (
                handler.name,
                handler.event,
                "yes" if handler.active else "no",
                handler.condition,
                ", ".join(action.action for action in handler.actions),
            )
            for handler in found
        ],
    )


@click.command("publish")
@click.argument("event", metavar="EVENT")
@click.argument("payload", metavar="JSON|@FILE", default="null")
@click.option("--message-id", metavar="ID", help="Published again with the same id, it acts no second time.")
@command_options()
def publish(setting: Setting, event: str, payload: str, message_id: str | None) -> None:
    """Hand a message to the active handlers of an event, and tell what became of it."""
    given = read_json(payload, "JSON")
    with setting.engine() as engine:
        _show(setting, engine.publish(event, given, message_id=message_id))


@click.command("events")
@click.option("--handler", "name", metavar="NAME", help="Only records of this event handler.")
@click.option("--message-id", metavar="ID", help="Only records of this message.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many, newest first.")
@command_options()
def events(setting: Setting, name: str | None, message_id: str | None, limit: int) -> None:
    """List what event handlers did, newest first."""
    with setting.engine() as engine:
        _show(setting, engine.event_executions(name, message_id=message_id, limit=limit))


def _show(setting: Setting, found: list[EventExecution]) -> None:
    if setting.json:
        setting.screen.document([one.to_json() for one in found])
        return
    setting.screen.table(
        ("TIME", "EVENT", "HANDLER", "ID", "ACTION", "STATUS", "WHAT"),
        [(instant(one.created), one.event, one.name, one.id, one.action, one.status, _told(one)) for one in found],
    )


def _told(one: EventExecution) -> str | None:
    output = one.output_data
    said = next((output[key] for key in ("exception", "error", "workflowId", "condition") if key in output), None)
    return None if said is None else str(said)


#: The commands of this module, in the order of the help.
MESSAGES = (publish, events, handlers)
