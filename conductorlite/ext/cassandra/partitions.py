"""What is asked of Cassandra: rows of text by their keys in partitions, each of which is changed at once under a fence.

And what is written there: a task, a line, a head, and the outbox, as JSON texts.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol
from zlib import crc32

import attrs

from conductorlite.model.canonical import EMPTY, ExternalPayload, Payload
from conductorlite.model.decisions import Decision, Outgoing
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.limits import Limit, LimitChange, Member, MemberState
from conductorlite.store.sqlite.rows import (
    event_of,
    event_row,
    message_of,
    message_row,
    task_of,
    task_row,
    workflow_of,
    workflow_row,
)
from conductorlite.store.sqlite.streams import emitted_of, emitted_rows

__all__ = [
    "REMOVED",
    "SHARDS",
    "Asked",
    "Cell",
    "Head",
    "Item",
    "Partitions",
    "Turn",
    "delivered",
    "fields_of",
    "item_of",
    "item_text",
    "marked",
    "member_of",
    "shard_of",
    "task_cell",
    "task_from",
    "thin",
    "workflow_cell",
    "workflow_from",
]

#: Shards of a wide execution beside the partition of its head, which is shard 0.
SHARDS: Final = 16

#: The turn of an execution that is being removed.
REMOVED: Final = "removed"


@attrs.frozen(slots=True)
class Cell:
    """A row of a partition; without a text, one that is deleted."""

    entity: str
    key: str
    text: str | None
    fence: int


@attrs.frozen(slots=True, kw_only=True)
class Head:
    """The head row of an execution."""

    fence: int
    text: str
    #: Which turn has written it, by a number drawn for each; REMOVED.
    turn: str = ""
    #: The outbox, where it was asked for.
    item: str = ""


@attrs.frozen(slots=True, kw_only=True)
class Asked:
    """Rows of one partition: by entities and keys, or all of an `entity` whose keys are in a range; `last`: only the last one."""

    workflow_id: str
    shard: int
    keys: tuple[tuple[str, str], ...] = ()
    entity: str = ""
    begin: str = ""
    end: str = "\U0010ffff"
    last: bool = False


@attrs.frozen(slots=True, kw_only=True)
class Turn:
    """One lightweight transaction: the head of an execution, and rows of its partition; refused unless the head is as expected."""

    workflow_id: str
    #: The fence that the stored head must have; None: there must be none.
    expected: int | None
    head: Head
    cells: tuple[Cell, ...] = ()


class Partitions(Protocol):
    """Rows in partitions by (execution, shard). Thread-safe. Every method raises StorageUnavailable and other StorageErrors."""

    def heads(self, workflow_ids: Sequence[str], *, items: bool = False) -> Mapping[str, Head]:
        """The heads of those that are there; the outbox only if asked for."""

    def read(self, asked: Sequence[Asked]) -> Sequence[Sequence[Cell]]:
        """Rows, in order of their keys; each question is of one partition, and all are asked at once."""

    def take(self, turns: Sequence[Turn]) -> Sequence[bool]:
        """Carry out transactions, each by itself; whether each was applied. It is known for each when this returns."""

    def write(self, workflow_id: str, cells: Iterable[tuple[int, Cell]]) -> None:
        """Put or delete rows of shards, each dated by its fence: an older one never takes the place of a newer one."""

    def forget(self, workflow_id: str, fence: int) -> None:
        """Delete an execution whose turn is REMOVED, in every shard; nothing happens when it is not."""

    def whole(self, workflow_id: str, head: Head) -> str:
        """The outbox of a head, put together if it was too large for one row."""

    def identity(self) -> str:
        """Return the identity of these partitions; made at the first call."""

    def register(self, head: str, workflow_id: str) -> None:
        """Keep which execution the ids of tasks belong to that begin so."""

    def registered(self, head: str) -> Sequence[str]:
        """Executions whose tasks' ids begin so."""

    def walk(self) -> Iterator[str]:
        """Ids of all executions, in no order; reads everything, for the sweep alone."""

    def keep(self, table: str, key: str, text: str | None) -> None:
        """Keep a text of `definitions` or `event_executions`; None: forget it."""

    def kept(self, table: str) -> Iterator[tuple[str, str]]:
        """All that is kept, in no order; for the sweep alone."""

    def close(self) -> None:
        """Release connections; idempotent."""


def shard_of(key: str) -> int:
    """Where a row of a wide execution is: rows whose keys begin alike, up to `\x1f`, are together."""
    return 1 + crc32(key.partition("\x1f")[0].encode("utf-8", "surrogatepass")) % SHARDS


# -- rows as texts -----------------------------------------------------------------------------------------------------


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def workflow_cell(workflow: Workflow, *, wide: bool, lines: int) -> str:
    """The text of a head: of an execution that is wide or not, and has a journal up to line number `lines`."""
    return _dumped([wide, lines, *workflow_row(workflow)[:-1], workflow.definition_hash])


def workflow_from(text: str) -> tuple[Workflow, bool, int]:
    """The execution of a head, whether it is wide, and the number of the last line of its journal."""
    wide, lines, *row = json.loads(text)
    return workflow_of(tuple(row)), wide, lines


def task_cell(task: Task) -> str:
    """The text of an attempt."""
    return _dumped([*task_row(task)[:-1], task.task_id])


def task_from(text: str, workflow_id: str) -> Task:
    """The attempt of a text."""
    return task_of(tuple(json.loads(text)), workflow_id)


# -- the outbox --------------------------------------------------------------------------------------------------------


@attrs.frozen(slots=True, kw_only=True)
class Item:
    """The part of a turn that goes elsewhere: a decision to the queue store, and rows to other shards. Known by the fence it has
    made.
    """

    fence: int
    decision: Decision
    cells: tuple[tuple[int, Cell], ...] = ()
    #: What else is written to the queue store with it: names of verbs, and what they are given, as JSON.
    beside: tuple[tuple[str, Any], ...] = ()


def delivered(listed: Workflow) -> int:
    """The fence of the last turn whose item the queue store has got, by its row of the execution."""
    found = listed.variables.value.get("turn") if listed.variables.text != EMPTY.text else None
    return listed.fence if found is None else int(found)


def marked(decision: Decision, fence: int) -> Decision:
    """A thin decision whose row says which turn it was: the row's own fence is raised by the queue store alone, too."""
    return attrs.evolve(decision, workflow=attrs.evolve(decision.workflow, variables=Payload.of({"turn": fence})))


def thin(decision: Decision) -> Decision:
    """The part of a decision that the queue store is given."""
    row = attrs.evolve(decision.workflow, input=EMPTY, output=EMPTY, variables=EMPTY, task_to_domain=EMPTY)
    return Decision(
        workflow=row,
        created=decision.created,
        replaces=decision.replaces,
        externals=decision.externals,
        consumed=decision.consumed,
        cancelled=decision.cancelled,
        timers=decision.timers,
        release_held=decision.release_held,
        released_at=decision.released_at,
        outgoing=decision.outgoing,
        limits=decision.limits,
        emissions=decision.emissions,
        values=decision.values,
    )


def item_text(items: Collection[Item]) -> str:
    """The items of one commit, in order, as the text of an outbox."""
    return _dumped([_written(item) for item in items])


def _written(item: Item) -> dict[str, Any]:
    decision, outgoing = item.decision, item.decision.outgoing
    return {
        "fence": item.fence,
        "row": json.loads(workflow_cell(decision.workflow, wide=False, lines=0)),
        "created": decision.created,
        "replaces": decision.replaces,
        "externals": [[one.digest, one.size, one.key] for one in decision.externals],
        "consumed": decision.consumed,
        "cancelled": decision.cancelled,
        "timers": [event_row(event) for event in decision.timers],
        "released": decision.released_at if decision.release_held else None,
        "removed": outgoing.removed,
        "put": [message_row(message) for message in outgoing.put],
        "posted": [event_row(event) for event in outgoing.posted],
        "limits": [
            [fields_of(change.limit), [fields_of(member) for member in change.put], change.gone, change.dated]
            for change in decision.limits
        ],
        "emitted": emitted_rows(decision),
        "cells": [[shard, cell.entity, cell.key, cell.text, cell.fence] for shard, cell in item.cells],
        "beside": item.beside,
    }


def fields_of(one: Limit | Member) -> dict[str, Any]:
    """The fields of a limit or a member, as JSON has them."""
    return {field.name: getattr(one, field.name) for field in attrs.fields(type(one))}


def item_of(text: str) -> list[Item]:
    """The items of an outbox."""
    return [_item(one) for one in json.loads(text)]


def _item(said: dict[str, Any]) -> Item:
    row, _, _ = workflow_from(_dumped(said["row"]))
    decision = Decision(
        workflow=row,
        created=said["created"],
        replaces=said["replaces"],
        externals=tuple(ExternalPayload(digest=digest, size=size, key=key) for digest, size, key in said["externals"]),
        consumed=tuple(said["consumed"]),
        cancelled=tuple(said["cancelled"]),
        timers=tuple(event_of(tuple(event)) for event in said["timers"]),
        release_held=said["released"] is not None,
        released_at=said["released"] or 0,
        outgoing=Outgoing(
            removed=tuple((workflow_id, ref) for workflow_id, ref in said["removed"]),
            put=tuple(message_of(tuple(message)) for message in said["put"]),
            posted=tuple(event_of(tuple(event)) for event in said["posted"]),
        ),
        limits=tuple(_limit_change(*change) for change in said["limits"]),
        **emitted_of(*said.get("emitted", ((), (), ()))),
    )
    cells = tuple((shard, Cell(entity, key, text, fence)) for shard, entity, key, text, fence in said["cells"])
    beside = tuple((name, given) for name, given in said.get("beside", ()))  # of an older version: none
    return Item(fence=said["fence"], decision=decision, cells=cells, beside=beside)


def member_of(fields: dict[str, Any]) -> Member:
    """The member of such fields."""
    return Member(**fields | {"state": MemberState(fields["state"])})


def _limit_change(limit: dict[str, Any], put: list[dict[str, Any]], gone: list[str], dated: int | None) -> LimitChange:
    return LimitChange(
        limit=Limit(**limit | {"log": tuple(limit["log"]), "unpolled": tuple(limit["unpolled"])}),
        put=tuple(member_of(member) for member in put),
        gone=tuple(gone),
        dated=dated,
    )
