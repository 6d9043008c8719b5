"""Archiving, pruning and measuring: what becomes of executions that have ended.

Nothing is deleted unless it is asked for: that is the default retention, for ever.

What an export is made of: executions as they were started, their journals, every definition they ran on.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import attrs

from conductorlite.engine.config import EngineConfig, Part
from conductorlite.engine.queries import Queries
from conductorlite.engine.streams import emissions_of
from conductorlite.engine.turn_types import execution_pages, missing, unarchived
from conductorlite.engine.turns import Turns
from conductorlite.model.canonical import parse
from conductorlite.model.decisions import EventKind
from conductorlite.model.definitions import DEFINITION_HASH, WorkflowDef
from conductorlite.model.documents import archive_text, definitions_in, emitted_to_json
from conductorlite.model.errors import ConductorliteError, Conflict, ExecutionNotFound, InvalidInput, StorageCorrupt, StorageFull
from conductorlite.model.executions import HistoryEvent, HistoryKind, Workflow
from conductorlite.model.policies import derive_id
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.model.texts import Span, to_span
from conductorlite.store.ports import ReadingTransaction, WritingTransaction
from conductorlite.store.tables import Archived, ExecutionFilter

__all__ = ["PruneReport", "Retention", "below", "definitions_of", "exported_emissions", "first_row"]

T = TypeVar("T")

#: Executions looked at, and deleted in one commit, by `prune`.
_PAGE: Final = 100

#: What `keep_failed` keeps.
_FAILED: Final = frozenset({WorkflowStatus.FAILED, WorkflowStatus.TIMED_OUT})


@attrs.frozen(kw_only=True, slots=True)
class PruneReport:
    """The result of a prune of executions that were old enough: ids, in the order in which they were taken.

    `removed` are deleted, `archived` ones are in the archive; `kept` are children of executions that have not ended; `failed` says
    what was raised for each of the others, which are as they were.
    """

    removed: tuple[str, ...] = ()
    archived: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    failed: Mapping[str, ConductorliteError] = attrs.field(factory=dict)


class Retention(Part):
    """The removal and archiving of executions that have ended."""

    def __init__(self, turns: Turns, config: EngineConfig, queries: Queries) -> None:
        super().__init__(turns, config)
        self._queries = queries

    def remove(self, workflow_id: str) -> None:
        """See `Admin.remove`."""
        left = self._freeing(partial(self._removed, workflow_id))
        self._turns.lookups.payload_store.delete_left(left)
        self._turns.committed.wake()

    def _removed(self, workflow_id: str, tx: WritingTransaction) -> Sequence[str]:
        """Delete an execution in a transaction; the keys of what it leaves in the payload storage."""
        row = tx.executions.workflow(workflow_id)
        if row is None and not tx.archive.drop_archived(workflow_id):
            raise ExecutionNotFound(f"no execution has the id {workflow_id!r}")
        if row is not None:
            _refuse_open(row, "removed")
        left = self._turns.lookups.payload_store.left_by(tx, workflow_id)
        if row is not None:
            tx.executions.remove(workflow_id)
        return left

    def _freeing(self, change: Callable[[WritingTransaction], T]) -> T:
        """Carry out a change that gives room back; on a full disk once more, with the room that is kept for it."""
        try:
            with self._backend.writing() as tx:
                return change(tx)
        except StorageFull:
            if not self._backend.make_room():
                raise
        with self._backend.writing() as tx:
            done = change(tx)
        self._backend.make_room()  # so that the next write finds room
        return done

    def archive(self, workflow_id: str) -> None:
        """See `Admin.archive`."""
        packed, fence = self._packed(workflow_id)

        def move(tx: WritingTransaction) -> Sequence[str]:
            row = tx.executions.workflow(workflow_id)
            if row is None or row.fence != fence:
                raise Conflict(f"{workflow_id}: another turn changed it while it was archived; try again")
            _refuse_open(row, "archived")
            return self._taken_out(tx, workflow_id, packed)

        self._turns.lookups.payload_store.delete_left(self._freeing(move))
        self._turns.committed.wake()

    def prune(
        self,
        older_than: Span,
        *,
        keep_failed: bool = False,
        archive: bool = False,
        name: str | None = None,
        limit: int | None = None,
    ) -> PruneReport:
        """See `Admin.prune`."""
        before = self._clock.now() - to_span(older_than)
        if before > self._clock.now() or (limit is not None and limit < 1):
            raise InvalidInput(f"older_than {older_than!r} is negative, or limit {limit} is below 1")
        gone: list[str] = []
        kept: list[str] = []
        failed: dict[str, ConductorliteError] = {}
        for page in self._ended(before, name, _FAILED if keep_failed else frozenset()):
            room = len(page) if limit is None else limit - len(gone) - len(failed)
            self._prune_page(page[:room], before, archive, gone, kept, failed)
            if limit is not None and len(gone) + len(failed) >= limit:
                break
        done = {"archived" if archive else "removed": tuple(gone)}
        return PruneReport(**done, kept=tuple(kept), failed=failed)

    def _ended(self, before: int, name: str | None, without: frozenset[WorkflowStatus]) -> Iterator[list[Workflow]]:
        """Pages of rows that ended at `before` at the latest. None of them was created later, and along that they are listed."""
        for status in WorkflowStatus:
            if not status.terminal or status in without:
                continue
            found = execution_pages(self._backend, ExecutionFilter(name=name, status=status), (before + 1, ""), _PAGE)
            pages = ([row for row in rows if row.ended_at <= before] for rows in found)
            yield from (page for page in pages if page)

    def _prune_page(
        self,
        page: list[Workflow],
        before: int,
        archive: bool,
        gone: list[str],
        kept: list[str],
        failed: dict[str, ConductorliteError],
    ) -> None:
        packed: dict[str, tuple[Archived, int]] = {}
        for row in page if archive else ():
            try:
                packed[row.workflow_id] = self._packed(row.workflow_id)
            except ExecutionNotFound:
                continue
            except ConductorliteError as error:
                failed[row.workflow_id] = error
        found = [row.workflow_id for row in page if row.workflow_id not in failed]
        change = partial(self._pruned, packed if archive else None, before)
        parts: Iterable[tuple[list[str], list[str], list[str]]]
        try:
            parts = [self._freeing(partial(change, found))]
        except StorageFull:  # what is kept is enough for one after the other
            parts = (self._freeing(partial(change, [one])) for one in found)
        for done, spared, left in parts:
            self._turns.lookups.payload_store.delete_left(left)
            gone += done
            kept += spared
        self._turns.committed.wake()

    def _pruned(
        self, packed: Mapping[str, tuple[Archived, int]] | None, before: int, ids: Sequence[str], tx: WritingTransaction
    ) -> tuple[list[str], list[str], list[str]]:
        """Delete executions, or archive those that are `packed`: which, which are kept, what they leave in the payload storage."""
        done: list[str] = []
        left: list[str] = []
        spared: list[str] = []
        for one in ids:
            now = tx.executions.workflow(one)
            if now is None or not now.status.terminal or now.ended_at > before:
                continue  # another process was quicker, or reopened it
            if _needed(tx, now) or now.rate_limit_key is not None:  # it waits for a slot to go on
                spared.append(one)
                continue
            document, fence = (None, now.fence) if packed is None else packed.get(one, (None, None))
            if fence == now.fence:
                left += self._taken_out(tx, one, document)
                done.append(one)
        return done, spared, left

    def _taken_out(self, tx: WritingTransaction, workflow_id: str, archived: Archived | None) -> Sequence[str]:
        """Delete an execution, with what it is in the archive from now on; the keys of what it leaves in the payload storage."""
        left = self._turns.lookups.payload_store.left_by(tx, workflow_id)
        tx.executions.remove(workflow_id)
        if archived is not None:
            tx.archive.put_archived(archived)
        return left

    def _packed(self, workflow_id: str) -> tuple[Archived, int]:
        """An execution as it is archived, and the fence it was read at."""
        with self._backend.reading() as view:
            row = view.executions.workflow(workflow_id)
            if row is None:
                raise missing(view, workflow_id)
            if not row.status.terminal:
                _refuse_open(row, "archived")
            whole = self._queries.get(workflow_id)
            history = self._queries.history(workflow_id)
            logs = [entry for task in whole.tasks for entry in view.history.logs(task.task_id)]
            definitions: dict[str, str] = {}
            definitions_of(view, whole, history, definitions)
            grafts = {digest for task in whole.tasks for digest in task.grafts}
            definitions |= {digest: text for digest in sorted(grafts) if (text := view.metadata.definition(digest)) is not None}
            messages = self._queries.messages(workflow_id)
            values = list(view.streams.values(workflow_id))
            emissions = emissions_of(view, workflow_id) if row.item_seq else []
            document = archive_text(whole, history, logs, definitions, messages, emissions, values).encode()
        archived = Archived(
            workflow_id=workflow_id,
            name=row.name,
            status=row.status.value,
            ended_at=row.ended_at,
            archived_at=self._clock.now(),
            size=len(document),
            document=zlib.compress(document),
        )
        return archived, row.fence


def _refuse_open(row: Workflow, verb: str) -> None:
    """Raise Conflict for an execution that has not ended, or is to go on."""
    if row.status.terminal and row.rate_limit_key is None:
        return
    parked = " and parked" if row.parked is not None else ""
    what = "it waits for a slot to go on and" if row.status.terminal else f"a {row.status}{parked} workflow"
    raise Conflict(f"{row.workflow_id}: {what} cannot be {verb}; terminate it first")


def _needed(view: ReadingTransaction, row: Workflow) -> bool:
    """Return True if the execution above has not ended: a retry or rerun of it would look for this one."""
    parent = None if row.parent_workflow_id is None else view.executions.workflow(row.parent_workflow_id)
    return parent is not None and not parent.status.terminal


def first_row(view: ReadingTransaction, row: Workflow, history: Sequence[HistoryEvent]) -> Workflow:
    """An execution's row as it was when it began: what changes later follows from its journal."""
    begun = history[0]
    cause = {} if begun.cause is None else parse(begun.cause)
    definition = WorkflowDef.from_json(_text(view, row, cause["definition"]))
    return attrs.evolve(
        row,
        name=definition.name,
        version=definition.version,
        definition_hash=cause["definition"],
        correlation_id=cause.get("correlationId"),
        input=begun.payload if begun.payload is not None else row.input,
    )


def exported_emissions(view: ReadingTransaction, row: Workflow) -> dict[str, Any]:
    """What an execution, live or archived, has emitted, and its latest values, as its export has them."""
    workflow_id = row.workflow_id
    if view.executions.workflow(workflow_id) is None:
        found = unarchived(view, workflow_id)
        return emitted_to_json(found.emissions, found.values, {})
    emissions = emissions_of(view, workflow_id) if row.item_seq else []
    leases = {task.task_id: task.lease for task in view.executions.attempts(workflow_id)} if emissions else {}
    return emitted_to_json(emissions, view.streams.values(workflow_id), leases)


def below(row: Workflow, history: Sequence[HistoryEvent]) -> Iterator[str]:
    """Ids of executions that an execution may have started and that are not its children: those that mourn it, and others."""
    for generation in range(row.generation + 1):
        yield derive_id("failure", row.seed, row.workflow_id, generation)
    for line in history:
        cause = {} if line.cause is None else parse(line.cause)
        if cause.get("kind") == EventKind.STARTED:
            yield cause["from"]


def definitions_of(view: ReadingTransaction, row: Workflow, history: Sequence[HistoryEvent], known: dict[str, str]) -> None:
    """Add to `known` the text of every definition that an execution has run on or may still run on."""
    waiting = [row.definition_hash]
    for line in history:
        waiting += definitions_in(line)
        if line.kind is HistoryKind.MIGRATED and line.payload is not None:
            waiting.append(line.payload.value["from"]["definitionHash"])
    while waiting:
        hashed = waiting.pop()
        if hashed not in known:
            known[hashed] = text = _text(view, row, hashed)
            waiting += _pinned(text)


def _text(view: ReadingTransaction, row: Workflow, hashed: str) -> str:
    text = view.metadata.definition(hashed)
    if text is None:
        raise StorageCorrupt(f"the definition {hashed} of {row.workflow_id} is missing")
    return text


def _pinned(text: str) -> list[str]:
    """Hashes of the sub-workflows that a definition names."""
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        found.extend(value for name, value in pairs if name == DEFINITION_HASH and isinstance(value, str))

    hook: Callable[[list[tuple[str, Any]]], None] = look
    json.loads(text, object_pairs_hook=hook)
    return found
