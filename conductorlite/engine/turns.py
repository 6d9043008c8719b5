"""The turn: read, decide, commit if no other turn was first.

What it guarantees. An execution changes in one atomic write under its fence, and nowhere else. When a turn raises, nothing of it is
stored. Listeners are notified after the commit, never inside it.

How it works. A turn reads a view without a write lock and decides once; a plan that may run foreign code is decided with no
transaction open. The commit compares the fence: a turn that comes second decides again. After three tries it decides inside the
write, where no other can be first; scripts are then asked beforehand, in a rehearsal at the same instant. After eight tries its
events stay in the inbox for the next turn. A document in the payload storage is fetched between two reads, and the turn begins
again. Then follow the turns that this one calls for: the rest of a cut one, and those of parents and children written to.

What is not pretty. Failures are counted in two places: a broken invariant on the execution's row, a process that dies in its turn
in a file beside the store, because it raises nothing. The third of either parks the execution.

Source of the rule: Conductor's `WorkflowExecutor.decide` under a lock; here the fence decides, and a lock is optional.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from conductorlite.decide.changeset.reader import Bounds
from conductorlite.decide.prefetch import prefetch
from conductorlite.engine.aside import Aside, Job, may_be_put_aside
from conductorlite.engine.commits import Committer
from conductorlite.engine.decisions import DeathMarks, TurnDecider
from conductorlite.engine.driven_time import Driven
from conductorlite.engine.logs import log_store
from conductorlite.engine.lookups import Lookups, Record
from conductorlite.engine.payloads import PayloadsRequired, PayloadStore, TurnMemo
from conductorlite.engine.registry import Registry
from conductorlite.engine.residents import Quiet, Residents
from conductorlite.engine.turn_types import (
    LASTING,
    UNLOCKED,
    Caller,
    Commits,
    Deadly,
    ExtraWrite,
    Listener,
    Observer,
    Start,
    Taking,
    TurnLost,
    TurnResult,
    called_by,
    notify,
    refuse_rejected,
)
from conductorlite.language.haste import Haste, in_haste
from conductorlite.model.clock import Clock, readings
from conductorlite.model.decisions import Decision, Event, EventKind
from conductorlite.model.errors import (
    AlreadyExists,
    ExecutionNotFound,
    FencedOut,
    InvariantBroken,
    KeyTaken,
    NoHelper,
    PayloadTooLarge,
    StorageBusy,
    StorageError,
    TakesLong,
)
from conductorlite.model.executions import Workflow
from conductorlite.model.threads import Waiter, cached_property
from conductorlite.store.ports import Backend, Capability, Lock, WritingTransaction

if TYPE_CHECKING:
    from conductorlite.engine.awaited import Awaited, Awaiting
    from conductorlite.engine.parking import Parking
    from conductorlite.engine.turn_lock import TurnLock

__all__ = ["Turns"]

#: How often a turn that is fenced out decides again before it leaves its events in the inbox.
_TRIES: Final = 8
#: After how many of them it decides inside the write, where no other turn can be first: many may ask one limit at once.
_INSIDE: Final = 3
#: Turns a verb takes on its own to finish what it began, before the driver has to; of related executions while one drives.
_FOLLOW_UPS: Final = 1_000
_RELATED: Final = 64

#: New rows of a turn after which others are let in, and for how long, seconds.
_LARGE: Final = 200
_PAUSE_S: Final = 0.001


class Turns:
    """Takes turns on one backend."""

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        *,
        registry: Registry,
        environment: Mapping[str, str],
        bounds: Bounds,
        lock: Lock | None = None,
        fencing: bool = True,
        lock_required: bool = False,
        resident_bytes: int = 0,
        owner: str = "",
        payload_store: PayloadStore | None = None,
        driven: Driven | None = None,
        ended: Callable[[WritingTransaction, Workflow], None] | None = None,
        record: Record | None = None,
    ) -> None:
        self.backend, self.clock, self.lock = backend, clock, lock
        #: Notices that the clock was set; see `clock_watch`.
        self.look_at_clock: Callable[[], object] | None = None
        #: Read inside the write transaction: no turn is lost, but others wait while this one decides.
        self.read_inside = False
        self.listeners: list[Listener] = []
        self.observers: list[Observer] = []
        #: Whether a thread drives on the system clock: it takes the turns that follow from a cut one.
        self.is_driven = False
        #: Turns that were not committed because another one was first.
        self.fenced_out = 0
        #: The commits of this engine, and who waits for the next one.
        self.committed = Commits()
        #: The callers that wait for an execution, by its id, and those of them that are threads and sleep: see `Awaited`.
        self.waiting: dict[str, dict[Awaiting, None]] = {}
        self.sleeping: dict[Awaiting, None] = {}
        #: Executions whose turns wait for foreign code: see `Aside`.
        self.put_aside: dict[str, Job] = {}
        self.joined = registry.joined
        at_hand = bool(getattr(backend, "in_memory", False))
        self._memory = backend if at_hand else None
        #: What is known of executions from the last turns: nothing without the fence, nor of a store that is in memory itself.
        self.residents = Residents(0 if at_hand or not fencing else resident_bytes)
        self.quiet = Quiet(backend, owner, registry.joined)
        #: What turns are decided on besides rows.
        self.lookups = Lookups(
            clock,
            registry=registry,
            environment=environment,
            bounds=bounds,
            payload_store=payload_store or PayloadStore(backend, None, None, bounds.barriers),
            quiet=self.quiet,
            at_hand=at_hand,
            driven=driven,
            record=record,
        )
        self.locking = None if lock is None else _locking(lock, clock, self.committed, fencing=fencing, required=lock_required)
        self.deaths = DeathMarks(backend.marks())
        self.decider = TurnDecider(self.lookups, self.deaths, self.put_aside)
        self.committer = Committer(self.lookups, self.residents, self.locking, fencing=fencing, ended=ended)

    @cached_property
    def parking(self) -> Parking:
        """The handling of executions over which no turn is taken."""
        from conductorlite.engine.parking import Parking  # most programs need none of it

        return Parking(self.backend, self.lookups, self.decider, self.deaths, self.committed)

    @cached_property
    def aside(self) -> Aside:
        """Takes turns that wait for foreign code, while others go on."""
        return Aside(self.run_turn, self.committed.wake, self.put_aside)

    @cached_property
    def awaited(self) -> Awaited:
        """Wakes the callers that wait for executions."""
        from conductorlite.engine.awaited import Awaited  # many programs wait for none while another thread drives

        return Awaited(self.backend, self.quiet, self.waiting, self.sleeping)

    # ------------------------------------------------------------------ taking turns

    def run_turn(
        self,
        workflow_id: str,
        events: Sequence[Event] = (),
        *,
        started: Start | None = None,
        extra_write: ExtraWrite | None = None,
        taking: Taking | None = None,
        haste: Haste | None = None,
    ) -> TurnResult:
        """Take one turn over what is due and `events`, and the turns that directly follow from it.

        `started` is what a new workflow begins with; `extra_write` writes something more in the same commit; `taking` are workers
        that are free for what the turn offers. With `haste`, of a caller with other work to do, a turn that waits for foreign code
        is put aside, and its events are stored in the inbox (see `aside`). Raises ExecutionNotFound, AlreadyExists, KeyTaken,
        InvariantBroken (the turn is rolled back and counted) and StorageErrors; then nothing of the turn is stored.
        """
        if self.look_at_clock is not None:
            self.look_at_clock()
        if haste is None:
            taken = self.attempt(workflow_id, events, started, extra_write, taking)
        else:
            taken = self._attempt_in_haste(workflow_id, events, extra_write, taking, haste)
        latest = taken.decision
        if not (taken.answered or (latest is not None and (latest.more or latest.release_held or latest.outgoing.posted))):
            return taken
        return self.follow_up(workflow_id, events, taken, haste)

    def start_atomically(self, event: Event, started: Start, extra_write: ExtraWrite) -> TurnResult:
        """Begin an execution in one commit with `extra_write`, or not at all: nothing is tried again, and no event is left behind.

        Raises AlreadyExists, KeyTaken, InvariantBroken, StorageErrors, and whatever `extra_write` raises; then nothing is stored.
        """
        memo = TurnMemo(started, extra_write)
        taken = self._decide_and_commit(event.workflow_id, [event], memo, inside=self.read_inside)
        return self.follow_up(event.workflow_id, [event], taken)

    def follow_up(self, workflow_id: str, events: Sequence[Event], taken: TurnResult, haste: Haste | None = None) -> TurnResult:
        """Take the turns that directly follow from one."""
        latest = taken.decision
        rounds = 0
        family = taken.recipients
        while latest is not None and (latest.more or latest.release_held) and rounds < _FOLLOW_UPS:
            rounds += 1
            # A poll is not handed in again: what it would take is noted in the turn of its own, and nobody would have it.
            left = (event for event in events if event.event_id not in taken.replies)
            missing = [event for event in left if event.kind is not EventKind.POLL]
            large = len(latest.inserted) >= min(_LARGE, self.lookups.bounds.rows)
            if large and not missing and self.is_driven:
                break  # the driver takes the next one when its turn comes: others that are due are before it
            if large:
                Waiter().wait(_PAUSE_S)  # a mutex that is given back is not handed over: others could not take it
            try:
                if haste is None:
                    follow = self.attempt(workflow_id, missing, None)
                else:
                    follow = self._attempt_in_haste(workflow_id, missing, None, None, haste)
            except StorageError as error:
                if missing or not self._is_left(error):
                    raise
                return taken
            taken = attrs.evolve(taken, replies={**taken.replies, **follow.replies}, parked=follow.parked)
            latest = follow.decision
            family += follow.recipients
        if Capability.IMMEDIATE in self.backend.capabilities:
            self.run_related(family, haste)
        return taken

    def run_related(self, family: list[str], haste: Haste | None = None) -> None:
        """Take the turns of parents and children that were written to; what is left of them is the driver's, in haste put aside."""
        for _ in range(_RELATED if self.is_driven else _FOLLOW_UPS):
            if not family:
                return
            try:
                if haste is None:
                    family += self.attempt(family.pop(0), (), None).recipients
                else:
                    family += self._attempt_in_haste(family.pop(0), (), None, None, Haste()).recipients
            except InvariantBroken:
                continue  # counted on its own row; the engine that wrote to it is not to blame
            except StorageError as error:
                if not self._is_left(error):
                    raise
                return

    def _is_left(self, error: StorageError) -> bool:
        """Return True if turns after a committed one are left to the driver: the caller's own is done, and must not fail."""
        if isinstance(error, LASTING) or self.joined.decisions is not None:
            return False
        log_store("the turns that follow from a committed one are left to the driver", error)
        return True

    def _attempt_in_haste(
        self, workflow_id: str, events: Sequence[Event], extra_write: ExtraWrite | None, taking: Taking | None, haste: Haste
    ) -> TurnResult:
        """Take a turn; one that waits for foreign code is put aside. Raises TakesLong in a thread that takes those."""
        if not haste.starts and workflow_id in self.put_aside and may_be_put_aside(events):
            return self.parking.post_to_inbox(workflow_id, events)
        try:
            return self.attempt(workflow_id, events, None, extra_write, taking, haste if may_be_put_aside(events) else None)
        except TakesLong as long:
            if haste.starts:
                raise
            self.aside.put(workflow_id, long)
            posted = self.parking.post_to_inbox(workflow_id, events)
            self.aside.go_on(workflow_id, tried=long.tried)
            return posted

    def attempt(
        self,
        workflow_id: str,
        events: Sequence[Event],
        started: Start | None = None,
        extra_write: ExtraWrite | None = None,
        taking: Taking | None = None,
        haste: Haste | None = None,
    ) -> TurnResult:
        """Take one turn, and none of those that follow from it: see `run_turn`. With `haste` raises TakesLong."""
        token = UNLOCKED if self.locking is None else self.locking.acquire(workflow_id, events)
        if token is None:
            return self.parking.post_to_inbox(workflow_id, events)
        memo = TurnMemo(started, extra_write, taking, token)
        memo.haste = haste
        try:
            for tried in range(_TRIES):
                try:
                    inside = self.read_inside or tried >= _INSIDE
                    return self._decide_and_commit(workflow_id, events, memo, inside=inside)
                except FencedOut as error:
                    self.fenced_out += 1
                    self.residents.refused(None if memo.unoffered is not None else memo.known)
                    lost = self.locking if isinstance(error, TurnLost) else None
                    if lost is not None and (token := lost.acquire(workflow_id, events)) is None:
                        break
                    memo.readings, memo.token = None, token
                except (AlreadyExists, PayloadTooLarge) as error:
                    if started is not None:
                        raise
                    # Another process may have read the same event and begun it first: it is an execution like any other then.
                    answered = self.parking.refuse(workflow_id) if isinstance(error, KeyTaken | PayloadTooLarge) else None
                    if answered is not None:
                        return TurnResult(decision=None, replies={}, answered=answered)
                except ExecutionNotFound:
                    if events:
                        raise
                    self.parking.clear(workflow_id)
                    return TurnResult(decision=None, replies={})
                except InvariantBroken as error:
                    self.parking.count_broken(workflow_id, error)
                    raise
            if started is not None:
                raise StorageBusy(f"{workflow_id}: others were first {_TRIES} times; it was not started")
            return self.parking.post_to_inbox(workflow_id, events)
        finally:
            memo.known = None  # it knows the memo, and the collector would have to find both
            if self.locking is not None:
                self.locking.release(workflow_id, token)

    def _decide_and_commit(self, workflow_id: str, events: Sequence[Event], memo: TurnMemo, *, inside: bool) -> TurnResult:
        while True:
            memo.resident, memo.unoffered = False, None
            whole = inside or self.backend is self._memory
            try:
                found = self._committed_inside(workflow_id, events, memo, anyway=inside) if whole else None
                if found is not None:
                    workflow, decision = found
                    break
                resident = self.residents.take(workflow_id)
                known = None if resident is None or memo.started is not None or not events else resident
                decision = None if known is None else self.decider.on_residents(known, events, memo)
                if known is None or decision is None:
                    workflow, decision = self.read_and_decide(workflow_id, events, memo)
                else:
                    workflow = known.row
                if memo.started is not None:
                    refuse_rejected(decision, memo.started)
                if decision is not None and not decision.empty:
                    decision = self._committed_apart(decision, memo)
                break
            except Deadly as deadly:
                self.parking.park_deadly(workflow_id, deadly)
                return TurnResult(decision=None, replies={}, parked=str(deadly))
            except PayloadsRequired as far:
                self.lookups.fetch(memo, far.externals)  # no other process waits for the store meanwhile
            except NoHelper:
                self.rehearse(workflow_id, events, memo)
            finally:
                if memo.mark is not None:
                    self.deaths.leaving(memo)
        if memo.deaths and memo.mark is not None:
            self.deaths.forget(memo.mark)
        if decision is None:
            if not events:  # it is due: what is in its inbox is to be held
                self.parking.hold_inbox(workflow_id)
            return TurnResult(decision=None, replies={}, parked=workflow.parked)
        if decision.history or not decision.empty:
            self.announce(decision)
        return TurnResult(decision=decision, replies=decision.replies)

    def _committed_apart(self, decision: Decision, memo: TurnMemo) -> Decision:
        """A decision that was made before, committed in a block of its own, with its documents where they are stored."""
        if decision.texts:
            decision = self.committer.store_payloads(decision, memo)
        with self.backend.writing() as tx:
            number = self.quiet.enter(tx, self.clock.now())
            tx.decisions.apply(self.committer.before_apply(tx, decision, memo))
            self.committer.write_extras(tx, decision, memo)
        self.quiet.committed(number)
        self.committer.keep(decision, memo, number)
        return decision

    def _committed_inside(
        self, workflow_id: str, events: Sequence[Event], memo: TurnMemo, *, anyway: bool
    ) -> tuple[Workflow, Decision | None] | None:
        """The row that was read and the decision on it, made and committed in one block.

        None, unless `anyway`, for what takes long: foreign code, large documents put elsewhere.
        """
        with self.backend.writing() as tx:
            number = self.quiet.enter(tx, self.clock.now())
            workflow, turn = self.decider.prepared(tx, workflow_id, events, memo)
            if turn is None:
                return workflow, None
            if turn.plan.foreign and not anyway:
                return None
            decision = self.decider.decide(turn)
            if memo.started is not None:
                refuse_rejected(decision, memo.started)
            if not decision.history and decision.empty:
                return workflow, decision
            if decision.texts:
                if not anyway and self.committer.stores_apart(decision):
                    return None
                decision = self.committer.store_payloads(decision, memo, tx)
            tx.decisions.apply(self.committer.before_apply(tx, decision, memo))
            self.committer.write_extras(tx, decision, memo)
        self.quiet.committed(number, memo.taking, workflow_id if decision.created and not decision.workflow.status.terminal else "")
        return workflow, decision

    def read_and_decide(
        self, workflow_id: str, events: Sequence[Event], memo: TurnMemo, *, rehearsed: bool = False
    ) -> tuple[Workflow, Decision | None]:
        """The row that was read and the decision on it; one that may run scripts, or is rehearsed, in no transaction at all."""
        begun = memo.started
        if begun is not None and events and not rehearsed:
            decision = self.decider.on_nothing(begun.workflow, events, memo)
            if decision is not None:
                return begun.workflow, decision
        with self.backend.reading() as view:
            workflow, turn = self.decider.prepared(view, workflow_id, events, memo)
            if turn is None or not (turn.plan.foreign or rehearsed):
                return workflow, None if turn is None else self.decider.decide(turn)
            if memo.haste is not None and workflow.name in self.aside.inside:  # it waits for its own kind
                raise TakesLong(tried=True, inside=True, name=workflow.name)
            prefetch(turn.plan, turn.reader, turn.events)
        turn.reader.leave()
        if memo.haste is None or rehearsed:
            return workflow, self.decider.decide(turn)
        with in_haste(memo.haste):
            return workflow, self.decider.decide(turn)

    def rehearse(self, workflow_id: str, events: Sequence[Event], memo: TurnMemo) -> None:
        """Find out what scripts answer in a turn that will be decided inside a transaction, at one instant; raises FencedOut."""
        if memo.rehearsals == _TRIES:
            raise FencedOut(f"{workflow_id}: others were first, {_TRIES} times")
        memo.rehearsals += 1
        memo.readings, memo.answers = readings(self.clock), {}
        self.residents.take(workflow_id)
        self.read_and_decide(workflow_id, events, memo, rehearsed=True)

    def announce(self, decision: Decision) -> None:
        """Wake waiting threads and notify listeners of a committed decision; in a transaction, at its end."""
        if self.joined.decisions is not None:
            self.joined.decisions.append(decision)
            return
        if self.lookups.driven is not None:
            self.lookups.driven.committed_at = decision.workflow.updated_at
        self.committed.wake()
        if self.waiting:
            self.awaited.committed(decision.workflow)
        self.lookups.failures.decision(decision)
        if self.listeners or self.observers:
            with called_by(Caller(turns=self, what="a listener")):
                notify(decision, self.listeners, self.observers, self.lookups.failures)


def _locking(lock: Lock, clock: Clock, committed: Commits, *, fencing: bool, required: bool) -> TurnLock:
    from conductorlite.engine.turn_lock import TurnLock  # most engines have none

    return TurnLock(lock, clock, committed, fencing=fencing, required=required)
