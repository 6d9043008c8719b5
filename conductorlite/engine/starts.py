"""Executions that begin together: all in one commit, or none.

What it guarantees. Each first turn is decided before anything is written. When that, or the write, raises, nothing is stored.

How it works. Ids are new, so no other turn can be first: only a limit that several of them ask, or another engine, makes one late.
Then each is decided inside the write, after the ones before it, and what scripts answer is found out beforehand.

Source of the rule: Conductor starts workflows one by one; here a commit for each is most of what a start costs.
"""

from __future__ import annotations

from collections.abc import Sequence

from conductorlite.engine.groups import GroupTurns
from conductorlite.engine.payloads import PayloadsRequired, TurnMemo
from conductorlite.engine.turn_types import Start, TurnResult, new_event, refuse_rejected
from conductorlite.model import attrs
from conductorlite.model.decisions import Decision, Event, EventKind
from conductorlite.model.errors import FencedOut, InvariantBroken

__all__ = ["StartTurns"]


@attrs.frozen(slots=True, eq=False)
class _First:
    """The turn that an execution begins with."""

    event: Event
    memo: TurnMemo


class StartTurns(GroupTurns):
    """Turns, and the first turns of executions that begin together."""

    def start_together(self, starts: Sequence[Start]) -> None:
        """Begin executions in one commit, and take the turns that directly follow.

        Raises AlreadyExists, LimitReached, InvariantBroken and StorageErrors; then nothing is stored, but in a store without
        `one commit` those whose commit was one of its own.
        """
        now = self.clock.now()
        firsts = [_First(new_event(started.workflow.workflow_id, EventKind.START, now), TurnMemo(started)) for started in starts]
        try:
            decisions = [self._decided_first(first) for first in firsts]
            with self.backend.writing() as tx:
                number = self.quiet.enter(tx, now)
                pairs = list(zip(decisions, firsts, strict=True))
                tx.apply_all([self._before_apply(tx, decision, first.memo) for decision, first in pairs])
                for decision, first in pairs:
                    self._write_extras(tx, decision, first.memo)
            self.quiet.committed(number)
            for decision, first in pairs:
                if decision.outgoing.put:  # else it waits
                    self._keep(decision, first.memo)
        except FencedOut as error:
            begun = [each for each in zip(firsts, decisions, strict=True) if each[0].event.workflow_id in error.stored]
            firsts = [first for first in firsts if first.event.workflow_id not in error.stored]
            decisions = [decision for _, decision in begun] + self._one_after_another(firsts)
            firsts = [first for first, _ in begun] + firsts
        for decision in decisions:
            self.announce(decision)
        for first, decision in zip(firsts, decisions, strict=True):
            taken = TurnResult(decision=decision, replies=decision.replies)
            self._run_follow_ups(first.event.workflow_id, [first.event], taken)

    def _decided_first(self, first: _First) -> Decision:
        while True:
            try:
                _, decision = self._read_and_decide(first.event.workflow_id, [first.event], first.memo)
                break
            except PayloadsRequired as far:
                self.fetch(first.memo, far.externals)
            finally:
                self._leaving(first.memo)
        return self.store_payloads(_begun(decision, first), first.memo)

    def _one_after_another(self, firsts: Sequence[_First]) -> list[Decision]:
        for first in firsts:
            self._rehearse(first.event.workflow_id, [first.event], first.memo)
        decisions = []
        with self.backend.writing() as tx:
            for first in firsts:
                _, turn = self.prepared(tx, first.event.workflow_id, [first.event], first.memo)
                decision = _begun(None if turn is None else self.decide(turn), first)
                decision = self.store_payloads(decision, first.memo, tx)
                tx.apply(self._before_apply(tx, decision, first.memo))
                self._write_extras(tx, decision, first.memo)
                decisions.append(decision)
        return decisions


def _begun(decision: Decision | None, first: _First) -> Decision:
    refuse_rejected(decision, first.memo.started)
    if decision is None:
        raise InvariantBroken(f"{first.event.workflow_id}: its first turn decides nothing")
    return decision
