"""Checks of stored executions, and their repair.

Each execution is read in a view of its own, and set right in a commit of its own, so that others go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from conductorlite.engine.config import EngineConfig, Part
from conductorlite.engine.invariants import ExecutionAudit, Finding, findings, limit_findings
from conductorlite.engine.queries import Queries, with_texts
from conductorlite.engine.records import record_findings, relation_findings
from conductorlite.engine.registered import archived_findings, registered_findings
from conductorlite.engine.repairs import limit_repaired, repaired
from conductorlite.engine.search import Search
from conductorlite.engine.streams import emissions_of
from conductorlite.engine.turn_types import messages_to, missing, stored_pages, unarchived
from conductorlite.engine.turns import Turns
from conductorlite.model.decisions import Message
from conductorlite.model.errors import (
    ConductorliteError,
    ExecutionNotFound,
    InvariantBroken,
    PayloadLost,
    PayloadUnavailable,
    StorageCorrupt,
    StorageReplaced,
)
from conductorlite.model.executions import HistoryKind
from conductorlite.model.limits import Member
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.store.ports import Backend, ReadingTransaction

__all__ = ["Audits", "archived_ids", "stored_ids"]


#: Lines of the journal whose payload says what has become of rows.
_RECORDING = (HistoryKind.ROUND, HistoryKind.VERB, HistoryKind.MIGRATED)


def stored_ids(backend: Backend, status: WorkflowStatus | None = None) -> Iterator[str]:
    """Ids of all executions that are stored, or of those in one status, in ascending order."""
    return chain.from_iterable(
        stored_pages(backend, lambda view, after, size: view.executions.workflow_ids(status, after, size), "", str)
    )


def archived_ids(backend: Backend) -> Iterator[str]:
    """Ids of all archived executions, in ascending order."""
    return chain.from_iterable(stored_pages(backend, lambda view, after, size: view.archive.archived_ids(after, size), "", str))


class Audits(Part):
    """Looks for what is wrong in a store, and sets it right as far as it follows from what is there."""

    def __init__(self, turns: Turns, config: EngineConfig, queries: Queries, searching: Search, *, documents_beside: bool) -> None:
        super().__init__(turns, config)
        self._queries, self._searching = queries, searching
        #: Whether documents past the soft barrier are stored where the backend puts them by default.
        self._documents_beside = documents_beside

    def check(self, workflow_id: str | None = None) -> list[Finding]:
        """See `Admin.check`."""
        found: list[Finding] = []
        if workflow_id is None:
            found += [Finding(law="the_store_is_sound", workflow_id="", text=text) for text in self._backend.faults()]
        if workflow_id is not None:
            found += self._execution_findings(workflow_id)
        for one in stored_ids(self._backend) if workflow_id is None else ():
            try:
                found += self._execution_findings(one)
            except ExecutionNotFound as error:  # an index that does not agree with its table, or it was removed meanwhile
                if one in stored_ids(self._backend):
                    found.append(Finding(law="rows_can_be_read", workflow_id=one, text=f"it is listed, and {error}"))
        if workflow_id is None:
            found += self._limits_broken()
            with self._backend.reading() as view:
                found += registered_findings(view)
            for one in archived_ids(self._backend):
                with self._backend.reading() as view:
                    found += archived_findings(view, one)
        return [*found, *self._searching.compared(workflow_id)]

    def broken_laws(self) -> list[Finding]:
        """Return the findings of `check` that an engine may cause without outside damage.

        It is for a store that only this process has written.
        """
        found: list[Finding] = []
        for one in stored_ids(self._backend):
            with self._backend.reading() as view:
                found += [] if self._unarchived(view, one) else findings(self._audit(view, one))
        return [*found, *self._limits_broken(), *self._searching.compared(None)]

    def _limits_broken(self) -> list[Finding]:
        """Return the findings about limits, and about what is offered."""
        found: list[Finding] = []
        for limit in self._limits():
            with self._backend.reading() as view:
                members = view.limits.members(limit)
                found += limit_findings(view.limits.line(limit, 0).limit, members)
                gone = [f"{holder} has a place, and its execution is gone" for holder in sorted(stale_holders(view, members))]
                found += [Finding(law="slots_are_counted_and_used", workflow_id=limit, text=text) for text in gone]
        with self._backend.reading() as view:
            texts = [(one.workflow_id, f"queue {one.queue!r} offers {one.task_id!r}, a task that is gone") for one in orphans(view)]
        return [*found, *(Finding(law="nothing_of_the_ended", workflow_id=one, text=text) for one, text in texts)]

    def _execution_findings(self, workflow_id: str) -> list[Finding]:
        """Return the findings about one execution; one that cannot be read is a finding too."""
        with self._backend.reading() as view:
            try:
                if self._unarchived(view, workflow_id):
                    return []
                audit = self._audit(view, workflow_id)
                return [
                    *findings(audit),
                    *record_findings(audit),
                    *relation_findings(view, audit),
                    *self._lost_documents(view, workflow_id),
                ]
            except ConductorliteError as error:
                if not isinstance(error, StorageCorrupt) or isinstance(error, StorageReplaced):
                    raise
                text = str(error)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                text = f"rows contradict each other ({type(error).__name__}: {error})"
        return [Finding(law="rows_can_be_read", workflow_id=workflow_id, text=text)]

    def _lost_documents(self, view: ReadingTransaction, workflow_id: str) -> Iterator[Finding]:
        """Documents of an execution that are not what was put there; only where they stand beside the store, for each is read."""
        for external in view.payloads.externals(workflow_id, None).values() if self._documents_beside else ():
            try:
                self._turns.lookups.payload_store.text(external)
            except (PayloadLost, PayloadUnavailable) as error:
                yield Finding(law="documents_are_stored", workflow_id=workflow_id, text=str(error))

    def _limits(self) -> Iterator[str]:
        found = stored_pages(self._backend, lambda view, after, size: view.limits.page(after, size), "", lambda limit: limit.key)
        return (limit.key for page in found for limit in page)

    def _unarchived(self, view: ReadingTransaction, workflow_id: str) -> bool:
        """Return True if an execution is archived, so that no law is about it; raises StorageCorrupt when it cannot be read."""
        return (
            view.executions.workflow(workflow_id) is None
            and view.archive.archived(workflow_id) is not None
            and bool(unarchived(view, workflow_id))
        )

    def _audit(self, view: ReadingTransaction, workflow_id: str) -> ExecutionAudit:
        row = view.executions.workflow(workflow_id)
        if row is None:
            raise missing(view, workflow_id)
        attempts = view.executions.attempts(workflow_id)
        history = view.history.lines(workflow_id)
        texts = self._queries.texts(view, workflow_id, (line.payload for line in history if line.kind in _RECORDING))
        messages = (view.queue.message((workflow_id, ref)) for ref in dict.fromkeys(task.ref for task in attempts))
        return ExecutionAudit(
            workflow=row,
            plan=self._turns.lookups.plans.plan(view, row),
            extended={chain: self._turns.lookups.plans.extended(view, row, chain) for chain in {task.grafts for task in attempts}},
            attempts=tuple(attempts),
            inbox=tuple(view.inbox.events(workflow_id)),
            mailbox=messages_to(view, workflow_id),
            emissions=emissions_of(view, workflow_id) if row.item_seq else (),
            members=view.limits.members_of(workflow_id),
            messages=tuple(message for message in messages if message is not None),
            history=tuple(with_texts(history, texts)),
            undelivered=any(
                workflow_id in (item.workflow_id, *(event.workflow_id for event in item.outgoing.posted))
                for item in view.outbox.items(10_000)
            ),
        )

    def repair(self, workflow_id: str | None = None) -> list[Finding]:
        """Repair stored executions, and return what was repaired, as `Admin.repair` does."""
        done: list[Finding] = []
        if workflow_id is None:
            done += self._indexes_rebuilt()
        for one in [workflow_id] if workflow_id is not None else list(stored_ids(self._backend)):
            with self._backend.reading() as view:
                archived = self._unarchived(view, one)
            done += [] if archived else self._repaired(one)
        if workflow_id is None:
            for key in list(self._limits()):
                done += self._limit_repaired(key)
            done += self._orphans_discarded()
        done += self._searching.repaired(workflow_id)
        if done:
            self._turns.committed.wake()
        return done

    def _indexes_rebuilt(self) -> list[Finding]:
        faults = self._backend.faults()
        if not faults:
            return []
        try:
            self._backend.rebuild_indexes()
        except (StorageCorrupt, InvariantBroken):
            return []  # the tables themselves are damaged; `check` says so
        left = {*self._backend.faults()}
        texts = [
            f"indexes and what follows from rows were rebuilt; it was found that {fault}" for fault in faults if fault not in left
        ]
        return [Finding(law="the_store_is_sound", workflow_id="", text=text) for text in texts]

    def _repaired(self, workflow_id: str) -> tuple[Finding, ...]:
        with self._backend.reading() as view:
            audit = self._audit(view, workflow_id)
            if not findings(audit) and not record_findings(audit):
                return ()
        with self._backend.writing() as tx:
            repair = repaired(self._audit(tx, workflow_id), self._clock.now())
            if repair is None:
                return ()
            tx.decisions.apply(repair.decision)
        return repair.done

    def _limit_repaired(self, key: str) -> tuple[Finding, ...]:
        with self._backend.writing() as tx:
            members = tx.limits.members(key)
            repair = limit_repaired(tx.limits.line(key, 0).limit, members, stale_holders(tx, members), self._clock.now())
            if repair is None:
                return ()
            change, events, done = repair
            tx.limits.put_limit(change)
            tx.inbox.post(events)
        return done

    def _orphans_discarded(self) -> list[Finding]:
        with self._backend.writing() as tx:
            found = orphans(tx)
            tx.queue.discard(found)
        texts = [(one.workflow_id, f"{one.task_id!r}, which is gone, is taken out of queue {one.queue!r}") for one in found]
        return [Finding(law="nothing_of_the_ended", workflow_id=one, text=text) for one, text in texts]


def stale_holders(view: ReadingTransaction, members: Iterable[Member]) -> frozenset[str]:
    """Holders of places in a limit whose execution was removed."""
    known: dict[str, bool] = {}
    for member in members:
        if member.workflow_id not in known:
            known[member.workflow_id] = view.executions.workflow(member.workflow_id) is not None
    return frozenset(member.holder for member in members if not known[member.workflow_id])


def orphans(view: ReadingTransaction) -> list[Message]:
    """Messages of tasks that no longer exist; not of executions whose removals are still to be relayed."""
    waiting = sum(view.queue.queue_sizes().values())
    behind = {item.workflow_id for item in view.outbox.items(10_000)}
    found = view.queue.messages(waiting) if waiting else ()
    waiting_for = ((one, view.executions.task_by_id(one.task_id)) for one in found if one.workflow_id not in behind)
    return [one for one, task in waiting_for if task is None or (task.workflow_id, task.ref) != one.key]
