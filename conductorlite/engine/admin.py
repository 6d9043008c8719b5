"""Verbs on the store as a whole: whose executions are whose, and copies of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Concatenate, Final, ParamSpec

import attrs

from conductorlite.engine.audits import Audits, archived_ids, stored_ids
from conductorlite.engine.config import EngineConfig, Service, checked_name
from conductorlite.engine.control import Control
from conductorlite.engine.index_feed import IndexHealth
from conductorlite.engine.invariants import Finding
from conductorlite.engine.queries import Queries
from conductorlite.engine.retention import PruneReport, Retention, below, definitions_of, exported_emissions, first_row
from conductorlite.engine.search import Search
from conductorlite.engine.turn_types import execution_pages, pages, unarchived
from conductorlite.engine.turns import Turns
from conductorlite.model.decisions import queue_prefix
from conductorlite.model.documents import export_to_json
from conductorlite.model.errors import (
    ConductorliteError,
    InvalidInput,
)
from conductorlite.model.executions import AgendaEntry, HistoryEvent, Workflow, frozen_workflow
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.model.texts import Span, member_of
from conductorlite.store.ports import ReadingTransaction
from conductorlite.store.tables import ExecutionFilter, Sizes

__all__ = ["Admin", "BulkReport", "EngineShare", "RepairReport"]

P = ParamSpec("P")

#: Executions that change their owner in one commit.
_PAGE: Final = 500


@attrs.frozen(kw_only=True, slots=True)
class EngineShare:
    """Share of one engine with `allocation="local"`: its open and ended executions, and waiting events.

    Events are timers, what others wrote, starts of children that have not begun, and the timers of schedules.
    """

    name: str
    open: int
    ended: int
    events: int


@attrs.frozen(kw_only=True, slots=True)
class BulkReport:
    """Result of an operation on many executions: those that succeeded, and the error of each other one, by id."""

    succeeded: tuple[str, ...] = ()
    failed: Mapping[str, ConductorliteError] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class RepairReport:
    """Result of `Engine.admin.repair`: what was done, and what is left: findings whose text says what was done, and those `check`
    still has.
    """

    done: tuple[Finding, ...]
    left: tuple[Finding, ...]


class Admin(Service):
    """Operations on the whole store: its content, checks, copies, archive, index, and the owners of executions."""

    def __init__(
        self,
        turns: Turns,
        config: EngineConfig,
        queries: Queries,
        control: Control,
        searching: Search,
        audits: Audits,
        running: Callable[[], Iterable[AgendaEntry]],
        *,
        documents_beside: bool,
    ) -> None:
        super().__init__(turns, config)
        self._queries, self._control, self._searching, self._audits = queries, control, searching, audits
        self._retention = Retention(turns, config, queries)
        #: What running workers will report.
        self._running = running
        #: Whether documents past the soft barrier are stored where the backend puts them by default.
        self._documents_beside = documents_beside

    def workflow_ids(self, status: WorkflowStatus | None = None) -> Iterator[str]:
        """Ids of all executions, or of those in one status, in ascending order; raises InvalidInput for a status that is none."""
        status = None if status is None else member_of(WorkflowStatus, status, "status")
        return stored_ids(self._backend, status)

    def correlated(self, name: str, correlation_id: str, *, include_closed: bool = False) -> list[Workflow]:
        """Return a workflow's executions with a correlation id, newest first: those RUNNING, or all with `include_closed`.

        PAUSED ones are left out with those that have ended, as Conductor's `GET /workflow/{name}/correlated/{id}` does.
        """
        status = None if include_closed else WorkflowStatus.RUNNING
        return list(self._all(ExecutionFilter(name=name, correlation_id=correlation_id, status=status)))

    def children(self, workflow_id: str) -> list[Workflow]:
        """Return the executions started by an execution's SUB_WORKFLOW tasks, oldest first; raises ExecutionNotFound.

        Those that are archived come first. Those of an execution that was removed are found by `executions(parent_workflow_id=…)`.
        """
        with self._backend.reading() as view:
            row = view.executions.workflow(workflow_id)
            tasks = view.executions.attempts(workflow_id) if row is not None else unarchived(view, workflow_id).workflow.tasks
            ids = dict.fromkeys(task.sub_workflow_id for task in tasks if task.sub_workflow_id is not None)
            gone = [one for one in ids if view.executions.workflow(one) is None and view.archive.archived(one) is not None]
            archived = [frozen_workflow(attrs.evolve(unarchived(view, one).workflow, tasks=())) for one in gone]
        return [*archived, *list(self._all(ExecutionFilter(parent_workflow_id=workflow_id)))[::-1]]

    def _all(self, wanted: ExecutionFilter) -> Iterator[Workflow]:
        return map(frozen_workflow, chain.from_iterable(execution_pages(self._backend, wanted)))

    def export(self, workflow_id: str) -> dict[str, Any]:
        """Return an execution as a JSON document that `conductorlite.testing.replay` can replay.

        It holds the definitions, inputs and whole journals of the execution, with the messages to it, what it has emitted and its
        latest values, and, recursively, of those it started: children, failure workflows, what START_WORKFLOW began, whether
        archived or not. No fence, lease, log line, or value of the engine's
        `environment` is in it. Raises ExecutionNotFound, also when the execution has not begun, and StorageCorrupt when a
        definition is missing.
        """
        definitions: dict[str, str] = {}
        exported: dict[str, tuple[Workflow, Sequence[HistoryEvent], Mapping[str, Any]]] = {}
        waiting = [workflow_id]
        while waiting:
            one = waiting.pop()
            if one in exported:
                continue
            row, history = self._queries.execution(one), self._queries.history(one)
            with self._backend.reading() as view:
                definitions_of(view, row, history, definitions)
                row = first_row(view, row, history)
                definitions_of(view, row, (), definitions)
                emitted = exported_emissions(view, row)
                others = [one for one in below(row, history) if view.executions.workflow(one) or view.archive.archived(one)]
            exported[one] = row, history, emitted
            waiting += [*others, *(child.workflow_id for child in self.children(one))]
        bounds = self._turns.lookups.bounds
        return export_to_json(exported.values(), definitions, bounds.steps, bounds.rows, bounds.barriers.stated())

    def page(self, workflow_id: str | None = None, *, limit: int = 1_000) -> str:
        """Return an execution, live or archived, as an HTML page that needs no network, server or JavaScript.

        Fields that the definition masks are hidden. Without an id the store as a whole: its newest executions, up to `limit`, by
        status and definition, their failures by reason, and queues, workers, limits, schedules. Raises ExecutionNotFound, and
        InvalidInput when `limit` is below 1.
        """
        # Most programs never make one.
        from conductorlite.engine.pages import Pages

        pages = Pages(self._turns, self._config, self._queries, self._control)
        if workflow_id is not None:
            return pages.execution(workflow_id).html()
        engines = [(one.name, one.open, one.ended) for one in self.engines()]
        return pages.store(limit, self.agenda(), engines).html()

    def agenda(self, limit: int = 100) -> list[AgendaEntry]:
        """Return what happens next without a call, soonest first: timers, delays, reports of running workers."""
        if limit < 0:
            raise InvalidInput(f"limit {limit} is negative")
        with self._backend.reading() as view:
            events = view.inbox.upcoming_events(limit)
            messages = [message for message in view.queue.messages(limit) if message.due_at > self._clock.now()]
        entries = [AgendaEntry(at=event.due_at, kind=event.kind, workflow_id=event.workflow_id, ref=event.ref) for event in events]
        entries += [
            AgendaEntry(at=message.due_at, kind="OFFERED", workflow_id=message.workflow_id, ref=message.ref) for message in messages
        ]
        entries += self._running()
        return sorted(entries, key=lambda entry: (entry.at, entry.workflow_id, entry.ref or "", entry.kind))[:limit]

    def next_wakeup(self) -> int | None:
        """Return the earliest instant at which something happens without a call, in epoch ms, or None."""
        now = self._clock.now()
        with self._backend.reading() as view:
            event = view.inbox.next_event_at(self._owner)
            message = view.queue.next_message_at(self._own_queues(view))
        return min((at for at in (event, message if message is None or message > now else None) if at is not None), default=None)

    def _own_queues(self, view: ReadingTransaction) -> list[str] | None:
        prefix = queue_prefix(self._owner)
        return [queue for queue in view.queue.queue_sizes() if queue.startswith(prefix)] if prefix else None

    def bulk(
        self, verb: Callable[Concatenate[str, P], object], workflow_ids: Iterable[str], /, *args: P.args, **kwargs: P.kwargs
    ) -> BulkReport:
        """Apply an operation to many executions: `engine.admin.bulk(engine.retry, ids, resume_subworkflow_tasks=True)`.

        Each is a commit of its own, and an error in one does not affect the others. Repeated ids count once.
        """
        succeeded: list[str] = []
        failed: dict[str, ConductorliteError] = {}
        for workflow_id in dict.fromkeys(workflow_ids):
            try:
                verb(workflow_id, *args, **kwargs)
            except ConductorliteError as error:
                failed[workflow_id] = error
            else:
                succeeded.append(workflow_id)
        return BulkReport(succeeded=tuple(succeeded), failed=failed)

    def decide(self, workflow_id: str) -> None:
        """Take an execution's turn now, if anything is due. Raises ExecutionNotFound, InvariantBroken, and Parked."""
        self._control.take_turn(workflow_id)

    def check(self, workflow_id: str | None = None) -> list[Finding]:
        """Check every invariant of one execution, or of all executions, limits and the store itself; changes nothing.

        What is stored twice is compared: rows with the journal, the definition and the rows of others, large payloads and
        definitions with their hashes, what is registered with its name, columns with those they follow from. With an index also
        whether it agrees (`the_index_agrees`), archived executions included; not what is still to be indexed, nor while it is
        built. An empty list is a healthy store. `repair` sets right what it can. Raises ExecutionNotFound.
        """
        return self._audits.check(workflow_id)

    def engines(self) -> list[EngineShare]:
        """Return the engines that own executions or schedules, in order of names, whether they still run or not."""
        with self._backend.reading() as view:
            rows = view.owners.rows()
        shares = []
        for row in rows:
            ended = sum(number for status, number in row.executions.items() if WorkflowStatus(status).terminal)
            total = sum(row.executions.values())
            shares.append(EngineShare(name=row.name, open=total - ended, ended=ended, events=row.events))
        return shares

    def take_over(self, name: str | None) -> int:
        """Take over everything that belongs to the engine `name`, including work in progress; return the number of executions.

        None means what has no owner. An engine with `allocation="shared"` leaves it without one. Tasks that are with workers
        stay with them: their reports count, their leases run. An engine of that name that is still alive loses nothing but its
        turns: what it has decided and not committed is fenced out, and it finds nothing of this any more; what it starts later
        is its own again. Takes 500 executions at a time; after a crash call it again. Raises InvalidInput for what is no name,
        and for this engine's own.
        """
        old = checked_name(name) or ""
        if old == self._owner:
            raise InvalidInput(f"{name!r}: what belongs to an engine already cannot be taken over by it")

        def change(after: str, size: int) -> Sequence[str]:
            with self._backend.writing() as tx:
                return tx.owners.change_owner(old, self._owner, after, size)

        moved = sum(len(page) for page in pages(change, "", str, _PAGE))
        with self._backend.writing() as tx:
            tx.owners.change_owner_of_the_rest(old, self._owner)
        self._turns.committed.wake()
        return moved

    def repair(self, workflow_id: str | None = None) -> RepairReport:
        """Correct what `check` finds on one execution, or on all, as far as it follows from the rows; return what was done.

        Rows of tasks and the journal are taken for true. Made to follow from them: counters, timers, messages, leases of what
        has ended, the counts and places of limits, whose events and messages are; and SQLite's indexes from their tables.
        The index of searches is corrected where it is wrong, and rebuilt when it is damaged.
        Statuses, outputs and the journal are never touched: what is wrong with those is left, and listed. Each execution is
        set right in a commit of its own, and may be driven meanwhile. Raises ExecutionNotFound.
        """
        done = self._audits.repair(workflow_id)
        return RepairReport(done=tuple(done), left=tuple(self.check(workflow_id)))

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the store, as of one instant, into the new file `path`, while engines use it.

        The file appears when it is complete. Documents in the payload storage beside the database are copied to
        `<path>.payloads`, before the file appears; a storage of your own (`payloads=`) is yours to copy, after this. Open the copy
        like any store. Raises InvalidInput for a store in memory, AlreadyExists when there is something at `path`.
        """
        self._backend.backup(os.fspath(path), documents=self._documents_beside)

    def compact(self) -> None:
        """Return the space of deleted rows to the file system. SQLite rewrites the file, so no other process can write meanwhile.

        Raises StorageBusy when another process holds the store, StorageFull without room for a second file.
        """
        self._backend.compact()

    def size_report(self) -> Sizes:
        """Return rows and bytes by kind, and by name and status of executions. Reads everything."""
        with self._backend.reading() as view:
            return view.sizes()

    def reseal(self, limit: int = 500, progress: Callable[[int], None] | None = None) -> tuple[str, ...]:
        """Seal everything again by the codec's present key, also what was stored without a codec; return the other keys' ids.

        In commits of up to `limit` rows each, while engines use the store; `progress` is called with how many rows were changed so
        far. When it ends by an error or its process dies, call it again: what is sealed by that key already is only read. When it
        returns, no other key is needed to open the store, so have every process seal with the new key before. What was deleted
        stays in free pages of a file until `compact`. Raises InvalidInput without a codec, or for a store that is neither in
        SQLite nor in PostgreSQL, PayloadUnavailable, StorageErrors.
        """
        from conductorlite.engine.resealing import Resealing

        return Resealing(self._turns, self._config).run(limit, progress)

    # ------------------------------------------------------------------ what has ended

    def remove(self, workflow_id: str) -> None:
        """Delete an execution that has ended, with its tasks, history, logs and messages; its idempotency key is free again.

        Payloads used only by it are deleted too. Its children and its parent stay. Later reports of workers are refused, as for
        any task that does not exist. An archived execution is removed from the archive. Raises ExecutionNotFound, and Conflict
        while it is RUNNING or PAUSED, parked or not, or waits for a slot to go on after a retry: terminate it first.
        """
        self._retention.remove(workflow_id)

    def archive(self, workflow_id: str) -> None:
        """Move an execution that has ended out of the store into the archive, in one commit; its idempotency key is free again.

        The archive keeps it compressed, with its tasks, history, logs and definitions: `get`, `history` and `search` still find
        it, `remove` deletes it. No verb changes it any more. Children and parent stay. An archived execution of the same id is
        replaced. Raises ExecutionNotFound, and Conflict while it is RUNNING or PAUSED, parked or not, or waits for a slot to go on
        after a retry: terminate it first.
        """
        self._retention.archive(workflow_id)

    def archived_ids(self) -> Iterator[str]:
        """Ids of all archived executions, in ascending order."""
        return archived_ids(self._backend)

    def prune(
        self,
        older_than: Span,
        *,
        keep_failed: bool = False,
        archive: bool = False,
        name: str | None = None,
        limit: int | None = None,
    ) -> PruneReport:
        """Delete executions that ended longer ago than `older_than`, or archive them with `archive`.

        `keep_failed` keeps those that are FAILED or TIMED_OUT; `name` takes executions of one workflow only, `limit` so many at
        most. Children of an execution that has not ended are kept. A hundred go in one commit, so that others are never kept
        waiting; what was done when an error stops it stays done. An error about one execution is listed in the report, and the
        others go on. Raises InvalidInput for a negative time or a limit below 1.
        """
        return self._retention.prune(older_than, keep_failed=keep_failed, archive=archive, name=name, limit=limit)

    # ------------------------------------------------------------------ the index

    def relay(self, batches: int = 1_000) -> int:
        """Index changed executions, in up to `batches` batches of up to 200; return the number of batches.

        The driver does this when nothing else is ready, so a program that is driven need not, and a search does it first. Also
        tries an external index that has failed, at once; what is wrong with it is not raised: see `index_health`. For the store's
        own index raises StorageErrors.
        """
        return self._searching.relay(batches)

    def index_health(self) -> IndexHealth | None:
        """Return the state of the index: whether it is complete, how far behind, its last error; None for a memory store."""
        return self._searching.health()

    def rebuild_index(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Index all stored and archived executions again. `progress` is called with the number done and the total.

        An external index is built beside the one that is searched, which answers and is fed until then, and takes its place in one
        step; if the process ends before, the drivers of others finish it, or the next call. The one in the store's own file is
        emptied first. Raises InvalidInput for a store in memory alone, and StorageErrors.
        """
        self._searching.rebuild(progress)

    def forget_index(self) -> None:
        """Remove the store's index, and its records about an external one; the next search rebuilds it."""
        self._searching.forget()
