"""Executions that begin together: all in one commit, or none.

What it guarantees. Each first turn is decided before anything is written. When that, or the write, raises, nothing is stored.
Who begins one is answered when it is committed, also when other threads begin theirs in the same commit.

How it works. Ids are new, so no other turn can be first: only a limit that several of them ask, or another engine, makes one late.
Then each is decided inside the write, after the ones before it, and what scripts answer is found out beforehand.
While one thread begins an execution, others that come wait. Then the first of them begins all theirs; if that fails, each its own.

Source of the rule: Conductor starts workflows one by one; here a commit for each is most of what a start costs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import attrs

from conductorlite.engine.payloads import PayloadsRequired, TurnMemo
from conductorlite.engine.turn_types import LASTING, Start, Taking, TurnResult, new_event, refuse_rejected
from conductorlite.engine.turns import Turns
from conductorlite.model.clock import readings
from conductorlite.model.decisions import Decision, Event, EventKind
from conductorlite.model.errors import AlreadyExists, ConductorliteError, FencedOut, InvariantBroken
from conductorlite.model.threads import Mutex
from conductorlite.store.ports import Capability

__all__ = ["Starts"]


@attrs.frozen(slots=True, eq=False, repr=False)
class _First:
    """The turn that an execution begins with."""

    event: Event
    memo: TurnMemo


@attrs.define(slots=True, eq=False, repr=False)
class _Coming:
    """An execution that a thread is about to begin: whether another thread has tried to, and whether it has begun."""

    event: Event
    started: Start
    tried: bool = False
    begun: bool = False


#: How long a thread waits for one that begins an execution before it begins its own beside it, seconds.
_PATIENCE_S: Final = 1.0


class Starts:
    """Takes the first turns of executions, of several that begin together in one write."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._backend, self._decider, self._committer = turns.backend, turns.decider, turns.committer
        self._beginning = Mutex()
        #: Who waits for the thread that begins one, in order.
        self._coming: deque[_Coming] = deque()
        #: Whether several begin in one commit, which takes long enough for others to come meanwhile.
        self._gathers = (
            not (turns.lookups.at_hand or turns.clock.virtual or turns.locking)
            and Capability.ONE_COMMIT in turns.backend.capabilities
        )

    def begin(self, event: Event, started: Start, taking: Taking | None = None, *, own_id: bool) -> None:
        """Take the first turn of an execution: of one that nobody else can begin, in one commit with those of other threads.

        That is one with an id that was made for it (`own_id`) and without a key. Raises as `run_turn` does.
        """
        heard = self._turns.listeners or self._turns.observers  # they may wait for a thread that is about to begin one
        shares = self._gathers and own_id and started.workflow.idempotency_key is None and not heard
        if taking is not None or not shares or self._turns.joined.decisions is not None:
            self._turns.run_turn(event.workflow_id, [event], started=started, taking=taking)
            return
        mine = _Coming(event, started)
        self._coming.append(mine)
        try:
            with self._beginning.held(_PATIENCE_S) as held:
                if held and not mine.tried:
                    self._begin_coming(mine)
        finally:
            if not (mine.begun or mine.tried):  # else it was taken from there, and an error would show all of it as text
                with suppress(ValueError):
                    self._coming.remove(mine)
        if mine.begun:
            return
        try:
            self._turns.run_turn(event.workflow_id, [event], started=started)
        except AlreadyExists:
            if not mine.tried:  # else it has begun, and who did that could not say so: nobody else has the id
                raise

    def begin_with(self, events: Sequence[Event], started: Start, taking: Taking | None = None) -> None:
        """Take the first turn of an execution over its START and further events, in one commit; raises as `run_turn` does."""
        self._turns.run_turn(events[0].workflow_id, events, started=started, taking=taking)

    def _begin_coming(self, mine: _Coming) -> None:
        """Begin what all that have come are about to begin; what has not begun then is for each to begin."""
        coming = [self._coming.popleft() for _ in range(len(self._coming))]
        if len(coming) < 2:
            self._turns.run_turn(mine.event.workflow_id, [mine.event], started=mine.started)
            mine.begun = True
            return
        for one in coming:
            one.tried = True
        try:
            self._begin_together([_First(one.event, TurnMemo(one.started)) for one in coming])
        except LASTING:
            raise
        except ConductorliteError:
            return  # nothing of it is stored: each begins alone, and raises what concerns it
        for one in coming:
            one.begun = True

    def start_together(self, starts: Sequence[Start]) -> None:
        """Begin executions in one commit, and take the turns that directly follow.

        Raises AlreadyExists, LimitReached, InvariantBroken and StorageErrors; then nothing is stored, but in a store without
        `one commit` those whose commit was one of its own.
        """
        now = self._turns.clock.now()
        self._begin_together(
            [_First(new_event(started.workflow.workflow_id, EventKind.START, now), TurnMemo(started)) for started in starts]
        )

    def _begin_together(self, firsts: Sequence[_First]) -> None:
        if self._turns.look_at_clock is not None:
            self._turns.look_at_clock()
        now, _ = read = readings(self._turns.clock)
        try:
            for first in firsts:
                first.memo.readings = read
            decisions = [self._decided_first(first) for first in firsts]
            with self._backend.writing() as tx:
                number = self._turns.quiet.enter(tx, now)
                pairs = list(zip(decisions, firsts, strict=True))
                tx.decisions.apply_all([self._committer.before_apply(tx, decision, first.memo) for decision, first in pairs])
                for decision, first in pairs:
                    self._committer.write_extras(tx, decision, first.memo)
            self._turns.quiet.committed(number)
            for decision, first in pairs:
                if first.memo.known is not None:
                    self._committer.keep(decision, first.memo, number)
        except FencedOut as error:
            begun = [each for each in zip(firsts, decisions, strict=True) if each[0].event.workflow_id in error.stored]
            firsts = [first for first in firsts if first.event.workflow_id not in error.stored]
            decisions = [decision for _, decision in begun] + self._one_after_another(firsts)
            firsts = [first for first, _ in begun] + firsts
        for decision in decisions:
            self._turns.announce(decision)
        for first, decision in zip(firsts, decisions, strict=True):
            taken = TurnResult(decision=decision, replies=decision.replies)
            self._turns.follow_up(first.event.workflow_id, [first.event], taken)

    def decided(self, events: Sequence[Event], started: Start) -> Decision:
        """Return the decision that the first turn of an execution would make over events; nothing is stored.

        Raises LimitReached, InvariantBroken and StorageErrors.
        """
        return self._first_decision(events, TurnMemo(started))

    def _first_decision(self, events: Sequence[Event], memo: TurnMemo) -> Decision:
        while True:
            try:
                _, decision = self._turns.read_and_decide(events[0].workflow_id, events, memo)
                break
            except PayloadsRequired as far:
                self._turns.lookups.fetch(memo, far.externals)
            finally:
                self._turns.deaths.leaving(memo)
        return _begun(decision, events[0].workflow_id, memo)

    def _decided_first(self, first: _First) -> Decision:
        decision = self._first_decision([first.event], first.memo)
        if not decision.outgoing.put:  # it waits, and nothing is kept of it
            first.memo.known = None
        return self._committer.store_payloads(decision, first.memo)

    def _one_after_another(self, firsts: Sequence[_First]) -> list[Decision]:
        for first in firsts:
            self._turns.rehearse(first.event.workflow_id, [first.event], first.memo)
        decisions = []
        with self._backend.writing() as tx:
            for first in firsts:
                _, turn = self._decider.prepared(tx, first.event.workflow_id, [first.event], first.memo)
                decision = _begun(None if turn is None else self._decider.decide(turn), first.event.workflow_id, first.memo)
                decision = self._committer.store_payloads(decision, first.memo, tx)
                tx.decisions.apply(self._committer.before_apply(tx, decision, first.memo))
                self._committer.write_extras(tx, decision, first.memo)
                decisions.append(decision)
        return decisions


def _begun(decision: Decision | None, workflow_id: str, memo: TurnMemo) -> Decision:
    refuse_rejected(decision, memo.started)
    if decision is None:
        raise InvariantBroken(f"{workflow_id}: its first turn decides nothing")
    return decision
