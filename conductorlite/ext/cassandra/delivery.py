"""What a turn has sent to the queue store, carried out there once: by its own process, or by any that finds it dead."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import attrs

from conductorlite.engine.holders import give_back_event
from conductorlite.engine.invariants import slots_taken
from conductorlite.ext.cassandra.partitions import (
    SHARDS,
    Asked,
    Head,
    Item,
    Partitions,
    delivered,
    marked,
    member_of,
    shard_of,
    task_from,
    thin,
    workflow_from,
)
from conductorlite.ext.cassandra.rows import HELD
from conductorlite.model.canonical import ExternalPayload, Payload
from conductorlite.model.decisions import Decision, Message, Outgoing, queue_prefix
from conductorlite.model.errors import FencedOut
from conductorlite.model.executions import TaskLog, Workflow
from conductorlite.model.handlers import EventExecution, EventStatus
from conductorlite.model.limits import Limit, LimitChange
from conductorlite.store.ports import WritingTransaction
from conductorlite.store.sqlite.rows import event_of, event_row
from conductorlite.store.tables import FeedKind, ScheduleRow

__all__ = ["bring_up", "carry_out", "put_back", "said"]


def carry_out(tx: WritingTransaction, item: Item) -> bool:
    """Carry out an item, unless that was done; whether it was done now. Raises KeyTaken for a start whose key is taken since."""
    decision = item.decision
    row = decision.workflow
    listed = tx.executions.workflow(row.workflow_id)
    if listed is None and not decision.created:
        return False  # removed since
    if listed is not None:
        if delivered(listed) >= item.fence:
            return False
        if listed.fence != row.fence:  # the queue store alone has raised it: parked, or given to another engine
            row = attrs.evolve(row, fence=listed.fence, parked=listed.parked, broken_turns=listed.broken_turns)
        if listed.owner != row.owner:
            decision = attrs.evolve(decision, outgoing=_moved(decision.outgoing, row.owner, listed.owner))
            row = attrs.evolve(row, owner=listed.owner)
        decision = attrs.evolve(decision, created=False)
    _apply_merged(tx, attrs.evolve(decision, workflow=row))
    for verb, given in item.beside:
        _BESIDE[verb](tx, *given)
    return True


def _moved(outgoing: Outgoing, old: str, new: str) -> Outgoing:
    """The messages of an execution that has another owner since, in that one's queues."""
    before, after = queue_prefix(old), queue_prefix(new)

    def queue(message: Message) -> str:
        named = not message.queue.startswith(HELD) and message.queue.startswith(before)
        return after + message.queue.removeprefix(before) if named else message.queue

    return attrs.evolve(outgoing, put=tuple(attrs.evolve(message, queue=queue(message)) for message in outgoing.put))


# -- what is written beside a decision -----------------------------------------------------------------------------------

_BESIDE: Final[dict[str, Any]] = {
    "post": lambda tx, *events: tx.inbox.post([event_of(tuple(event)) for event in events]),
    "log": lambda tx, workflow_id, *lines: tx.history.log(
        workflow_id, [TaskLog(task_id=one, at=at, text=text) for one, at, text in lines]
    ),
    "mark_pending": lambda tx, kind, workflow_ids: tx.feeds.mark_pending(FeedKind(kind), workflow_ids),
    "release": lambda tx, workflow_id, now: tx.executions.release(workflow_id, now),
}


def said(verb: str, given: tuple[Any, ...]) -> tuple[str, Any] | None:
    """Return the document of a verb for an outbox; None for a verb that need not outlive its process."""
    if verb == "post":
        return verb, [event_row(event) for event in given[0]]
    if verb == "log":
        return verb, [given[0], *([line.task_id, line.at, line.text] for line in given[1])]
    if verb == "release":  # of what was held until then, not of what is posted after it
        return verb, list(given)
    return (verb, [given[0].value, list(given[1])]) if verb == "mark_pending" else None


def _give_back_of_the_gone(tx: WritingTransaction, item: Item, text_of: dict[str, str]) -> None:
    """Have what an item has just given to holders that are no more given back; `text_of` are its tasks, by their keys."""
    row = item.decision.workflow
    present = {holder.holder for holder in tx.task_holders.rows()}
    for message in item.decision.outgoing.put:
        text = text_of.get(message.ref[1:])
        if message.queue.startswith(HELD) and message.queue.removeprefix(HELD) not in present and text is not None:
            tx.inbox.post([give_back_event(task_from(text, row.workflow_id), "died", row.updated_at)])


# -- executions that it does not know as they are ----------------------------------------------------------------------


def bring_up(
    tx: WritingTransaction, partitions: Partitions, listed: Workflow | None, head: Head, items: list[Item], *, again: bool
) -> None:
    """Bring what the queue store knows of an execution up to its head; with `again` one that it has lost."""
    workflow_id = items[0].decision.workflow.workflow_id
    known = 0 if listed is None else delivered(listed)
    if listed is None and items[0].decision.created and not again:
        first = items[0]
        row = attrs.evolve(first.decision.workflow, fence=first.fence - 1)
        items[0] = attrs.evolve(first, decision=attrs.evolve(first.decision, workflow=row))
    elif listed is None or known + len(items) < head.fence:
        _restore(tx, partitions, head, items)
    for item in items if listed is not None or not again else ():
        if carry_out(tx, item):
            keys = [("task", one.ref[1:]) for one in item.decision.outgoing.put if one.queue.startswith(HELD)]
            shards = {shard_of(key) for _, key in keys} | {0} if keys else ()
            asked = [Asked(workflow_id=workflow_id, shard=shard, keys=tuple(keys)) for shard in shards]
            cells = [cell for found in partitions.read(asked) for cell in found] if asked else []
            _give_back_of_the_gone(tx, item, {cell.key: cell.text for cell in cells if cell.text is not None})


def _restore(tx: WritingTransaction, partitions: Partitions, head: Head, items: Sequence[Item]) -> None:
    """Put an execution back into a queue store that has lost it, or knows an older one; its inbox there is kept."""
    row, wide, _ = workflow_from(head.text)
    workflow_id = row.workflow_id
    inbox = tx.inbox.events(workflow_id)
    tx.executions.remove(workflow_id)
    last = items[-1].decision
    holder = None if row.idempotency_key is None else tx.executions.key_holder(row.name, row.idempotency_key)
    other = None if holder is None else tx.executions.workflow(holder)
    if other is not None and other.created_at > row.created_at:
        row, holder = attrs.evolve(row, idempotency_key=None), None
    shards = range(SHARDS + 1) if wide else (0,)
    asked = [Asked(workflow_id=workflow_id, shard=shard, entity=name) for name in ("far", "sent", "slot") for shard in shards]
    cells = [cell for found in partitions.read(asked) for cell in found if cell.text]
    far = [json.loads(cell.text or "") for cell in cells if cell.entity == "far"]
    children = partitions.heads([cell.key for cell in cells if cell.entity == "sent"])
    sent = [json.loads(cell.text or "") for cell in cells if cell.entity == "sent" and cell.key not in children]
    decision = Decision(
        workflow=attrs.evolve(row, fence=head.fence - 1),
        created=True,
        replaces=holder,
        externals=tuple(ExternalPayload(digest=digest, size=size, key=key) for digest, size, key in far),
        timers=last.timers,
        outgoing=Outgoing(put=last.outgoing.put, posted=last.outgoing.posted),
    )
    _apply_merged(tx, marked(thin(decision), head.fence))
    tx.inbox.post([*inbox, *(event_of(tuple(event)) for event in sent)])
    for cell in cells:
        if cell.entity == "slot":
            member = member_of(json.loads(cell.text or ""))
            tx.limits.put_limit(_merged(tx, LimitChange(limit=Limit(key=member.key, number=member.number), put=(member,))))


# -- limits --------------------------------------------------------------------------------------------------------------


def _apply_merged(tx: WritingTransaction, decision: Decision) -> None:
    """Carry out a thin decision that is committed already; its changes of limits count from what those are now."""
    try:
        tx.decisions.apply(decision)
    except FencedOut:
        tx.decisions.apply(attrs.evolve(decision, limits=tuple(_merged(tx, change) for change in decision.limits)))


def _merged(tx: WritingTransaction, change: LimitChange) -> LimitChange:
    """A change of a limit that others have changed since: who is in and who is gone counts, and is counted again."""
    key = change.limit.key
    stored = tx.limits.line(key, 0).limit
    put = {member.holder: member for member in change.put}
    stay = [member for member in tx.limits.members(key) if member.holder not in change.gone and member.holder not in put]
    in_use, reserved = slots_taken([*stay, *put.values()])
    limit = attrs.evolve(
        stored,
        in_use=in_use,
        reserved=reserved,
        log=tuple(sorted({*stored.log, *change.limit.log})),
        depth=max(stored.depth, change.limit.depth),
        span_ms=max(stored.span_ms, change.limit.span_ms),
        number=max(stored.number, change.limit.number),
    )
    return attrs.evolve(change, limit=limit)


def put_back(tx: WritingTransaction, verb: str, said: list[Any]) -> None:
    """Keep again what the queue store has lost, unless it has it."""
    if verb == "add_event_execution":
        *key, status, action, created, text = said
        name, event, message_id, number = key
        if tx.event_handlers.event_execution(name, event, message_id, number) is None:
            record = EventExecution(
                name=name,
                event=event,
                message_id=message_id,
                number=number,
                status=EventStatus(status),
                action=action,
                created=created,
                output=Payload(text),
            )
            tx.event_handlers.add_event_execution(record)
    elif verb == "put_schedule":
        name, address, text, progress, waits, owner, events = said
        if tx.schedules.schedule(name) is None:
            row = ScheduleRow(name=name, address=address, text=text, progress=progress, waits=waits, owner=owner)
            tx.schedules.put_schedule(row, (), [event_of(tuple(event)) for event in events])
    else:
        known: dict[str, Any] = {
            "embed": lambda digest, _: tx.metadata.definition(digest),
            "put_workflow_def": lambda name, version, _: tx.metadata.workflow_def(name, version),
            "put_task_def": lambda name, _: tx.metadata.task_def(name),
            "put_schema_def": lambda name, version, _: tx.metadata.schema_def(name, version),
            "put_event_handler": lambda name, *_: tx.event_handlers.handler(name),
        }
        if known[verb](*said) is None:
            noun: Any = tx.event_handlers if verb == "put_event_handler" else tx.metadata
            getattr(noun, verb)(*said)
