"""`limits`: how limits stand, and who is in line."""

from __future__ import annotations

from typing import Any

import click

from conductorlite.cli.shared import Setting, command_options
from conductorlite.cli.showing import instant
from conductorlite.engine import LimitMember, LimitUse

__all__ = ["limits"]


@click.command("limits")
@click.argument("key", metavar="[KEY]", required=False)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many lines of each kind.")
@click.option("--after", metavar="KEY", default="", help="Only limits whose keys come after this one.")
@command_options()
def limits(setting: Setting, key: str | None, limit: int, after: str) -> None:
    """List limits, or who holds slots of one and who waits: task:<name>, workflow:<rate limit key>."""
    if key is None:
        with setting.engine() as engine:
            found = engine.limits(limit=limit, after=after)
        if setting.json:
            setting.screen.document([_document(one) for one in found])
            return
        setting.screen.table(("KEY", "IN USE", "IN WINDOW", "WAITING", "WINDOW MOVES"), [_row(one) for one in found])
        return
    with setting.engine() as engine:
        one = engine.limit(key, limit=limit)
    if setting.json:
        members = {"holders": [_member(holder) for holder in one.holders], "line": [_member(next_) for next_ in one.line]}
        setting.screen.document({**_document(one), **members})
        return
    shown = zip(("limit", "in use", "in window", "waiting", "window moves"), _row(one), strict=True)
    setting.screen.pairs(list(shown))
    setting.screen.line("")
    rows = [("holds", holder) for holder in one.holders]
    rows += [(f"waits, number {place}", member) for place, member in enumerate(one.line, start=1)]
    setting.screen.table(
        ("STANDING", "ID", "TASK", "ATTEMPT", "PRIORITY", "ASKED", "ALLOWS"),
        [
            (
                standing,
                member.workflow_id,
                member.ref,
                None if member.ref is None else member.attempt + 1,
                member.priority,
                instant(member.asked_at),
                _allowed(member),
            )
            for standing, member in rows
        ],
    )


def _row(one: LimitUse) -> tuple[object, ...]:
    return one.key, one.in_use, len(one.admitted_at) + one.reserved, one.waiting, instant(one.window_moves_at or 0)


def _allowed(member: LimitMember) -> str:
    at_once = f"{member.concurrent_exec_limit} at once" if member.concurrent_exec_limit else ""
    in_time = f"{member.rate_limit_per_frequency} in {member.rate_limit_frequency_ms / 1000:g} s"
    return ", ".join(filter(None, (at_once, in_time if member.rate_limit_per_frequency else "")))


def _document(one: LimitUse) -> dict[str, Any]:
    document: dict[str, Any] = {
        "key": one.key,
        "inUse": one.in_use,
        "waiting": one.waiting,
        "admittedAt": list(one.admitted_at),
        "reserved": one.reserved,
        "windowMovesAt": one.window_moves_at,
        "unpolled": list(one.unpolled) or None,
    }
    return {name: value for name, value in document.items() if value is not None}


def _member(member: LimitMember) -> dict[str, Any]:
    execution = member.ref is None
    document: dict[str, Any] = {
        "workflowId": member.workflow_id,
        "referenceTaskName": member.ref,
        "taskId": member.task_id,
        "retryCount": None if execution else member.attempt,
        "priority": member.priority,
        "askedAt": member.asked_at,
        "concurrentExecLimit": member.concurrent_exec_limit,
        "rateLimitPerFrequency": None if execution else member.rate_limit_per_frequency,
        "rateLimitFrequencyInSeconds": None if execution else member.rate_limit_frequency_ms / 1000,
    }
    return {name: value for name, value in document.items() if value is not None}
