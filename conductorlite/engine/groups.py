"""Turns of several executions in one write.

What it guarantees. Each is as if it were alone, under its own fence, and is answered when the write is committed, not before. One
that is refused refuses itself only; when the write does not come to be, each is taken alone.

How it works. All are decided before the write begins, on what is known of their executions. In the write the store takes together
what it can write by kind of row; the others are applied one by one. One that is late is decided again there.

Source of the rule: Conductor commits turn by turn; here a commit for each is most of what a turn costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from conductorlite.engine.decisions import polls_in_vain
from conductorlite.engine.payloads import PayloadsRequired, TurnMemo
from conductorlite.engine.turn_types import LASTING, Asked, Deadly, TurnResult
from conductorlite.engine.turns import Turns
from conductorlite.model.decisions import Decision
from conductorlite.model.errors import (
    AlreadyExists,
    ConductorliteError,
    FencedOut,
    InvariantBroken,
    KeyTaken,
    NoHelper,
)
from conductorlite.store.ports import Capability, ReadingTransaction, WritingTransaction

__all__ = ["Groups", "RunGroup", "beside"]

#: Takes turns of different executions, as `Groups.run` does.
RunGroup = Callable[[Sequence[Asked]], list[TurnResult | ConductorliteError]]

#: A turn that is to be written, and its decision.
Ready = tuple[Asked, TurnMemo, Decision]

#: What becomes of turns, by their executions.
Results = dict[str, TurnResult | ConductorliteError]


class Groups:
    """Takes turns that share a write."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._backend, self._decider, self._committer = turns.backend, turns.decider, turns.committer

    def run(self, asked: Sequence[Asked]) -> list[TurnResult | ConductorliteError]:
        """Take turns of different executions, in one write if there is more than one; what becomes of each.

        Nothing is answered before it is committed. A turn that cannot share the write, and every one of them when it does not come
        to be, is taken alone. Raises what does not pass by itself: StorageCorrupt, SchemaTooNew, EngineClosed.
        """
        results: Results = {}
        if self._turns.look_at_clock is not None:
            self._turns.look_at_clock()
        if len(asked) > 1 and self._turns.locking is None and not self._turns.read_inside:
            try:
                self._committed_together(asked, results)
            except LASTING:
                raise
            except ConductorliteError:
                pass  # nothing of it is stored: each is taken alone
        for one in asked:
            done = results.get(one.workflow_id)
            try:
                if isinstance(done, TurnResult):
                    done = self._turns.follow_up(one.workflow_id, one.events, done, one.haste)
                else:
                    write, taking = one.extra_write, one.taking
                    done = self._turns.run_turn(one.workflow_id, one.events, extra_write=write, taking=taking, haste=one.haste)
            except LASTING:
                raise
            except ConductorliteError as error:
                done = error
            results[one.workflow_id] = done
        return [results[one.workflow_id] for one in asked]

    def _committed_together(self, asked: Sequence[Asked], results: Results) -> None:
        """Commit what can share a write, and keep what becomes of it; when this raises, nothing of it is kept."""
        ready = self._decided_each(asked, results)
        shared: list[Ready] = []
        self._backend.prepare([decision for _, _, decision in ready])
        try:
            with self._backend.writing() as tx:
                number = self._turns.quiet.enter(tx, self._turns.clock.now())
                late = tx.decisions.fenced(
                    {one.workflow_id: decision.workflow.fence for one, _, decision in ready if self._fenced(decision)}
                )
                shared, left = self._applied(tx, [each for each in ready if each[0].workflow_id not in late])
                left += [(one, memo, None) for one, memo, _ in ready if one.workflow_id in late]
                for one, memo, decision in left:
                    if decision is not None:
                        try:
                            tx.decisions.apply(decision)
                        except FencedOut:  # another turn of this write, or of another engine, was first
                            decision = None
                        except (KeyTaken, AlreadyExists, InvariantBroken):
                            continue  # it is undone, and taken alone
                    if decision is None:
                        if polls_in_vain(tx, one):
                            results[one.workflow_id] = TurnResult(decision=None, replies={})
                            continue
                        memo = TurnMemo(None, one.extra_write, one.taking)
                        if (decision := self._decided_inside(tx, one, memo)) is None:
                            continue
                    if not decision.empty:
                        self._committer.write_extras(tx, decision, one)
                    shared.append((one, memo, decision))
        except FencedOut as error:
            shared = [each for each in shared if each[0].workflow_id in error.stored]
        if any(not decision.empty for _, _, decision in shared):
            self._turns.quiet.committed(number)
        for one, memo, decision in shared:
            if not decision.empty:
                self._committer.keep(decision, memo, number)
                self._turns.announce(decision)
            results[one.workflow_id] = TurnResult(decision=decision, replies=decision.replies)

    def _fenced(self, decision: Decision) -> bool:
        return self._committer.fencing and not decision.created

    def _applied(
        self, tx: WritingTransaction, ready: Iterable[Ready]
    ) -> tuple[list[Ready], list[tuple[Asked, TurnMemo, Decision | None]]]:
        """Return the turns that are written together, and those to be applied one by one.

        One without a decision is known to be late.
        """
        whole: list[Ready] = []
        late: list[tuple[Asked, TurnMemo, Decision | None]] = []
        for one, memo, decision in ready:
            try:
                whole.append((one, memo, self._committer.before_apply(tx, decision, memo)))
            except FencedOut:
                late.append((one, memo, None))
            except (KeyTaken, AlreadyExists, InvariantBroken):
                continue  # it is taken alone
        stored = tx.decisions.apply_some([decision for _, _, decision in whole])
        if not stored:
            return [], [*whole, *late]
        shared = [each for each in whole if each[0].workflow_id in stored]
        for one, _, decision in shared:
            self._committer.write_extras(tx, decision, one)
        return shared, [*(each for each in whole if each[0].workflow_id not in stored), *late]

    def _decided_inside(self, tx: WritingTransaction, one: Asked, memo: TurnMemo) -> Decision | None:
        """A late turn, decided again in the write and applied if it changes anything; None when it is to be taken alone."""
        self._turns.fenced_out += 1
        if Capability.SERIAL not in self._backend.capabilities:
            return None

        def applied() -> Decision | None:
            decision = self._decided_on(tx, one, memo)
            if decision is None or decision.empty:
                return decision
            if (
                decision.texts
                and self._turns.lookups.payload_store.storage is not None
                and self._turns.lookups.bounds.barriers.past_soft(decision)
            ):
                return None
            decision = self._committer.store_payloads(decision, memo, tx)
            tx.decisions.apply(self._committer.before_apply(tx, decision, memo))
            return decision

        return self._or_alone(applied, memo)

    def _decided_each(self, asked: Iterable[Asked], results: Results) -> list[Ready]:
        """Return the turns that can share a write, with their decisions; what becomes of polls that come too late.

        Where somebody else has written to the store, what is kept of executions is read again.
        """
        found: dict[str, Ready] = {}
        unknown: list[tuple[Asked, bool]] = []
        version = self._turns.quiet.believed() if self._turns.residents else 0
        for one in asked:
            resident = self._turns.residents.take(one.workflow_id)
            if resident is not None and resident.version == version:
                memo = TurnMemo(None, one.extra_write, one.taking)
                decision, resident = self._decider.on_residents(resident, one.events, memo), None
                if decision is not None:
                    found[one.workflow_id] = (one, memo, decision)
                    continue
            unknown.append((one, resident is not None))
        if unknown:
            with self._backend.reading() as view:
                for one, was_known in unknown:
                    if was_known and polls_in_vain(view, one):
                        results[one.workflow_id] = TurnResult(decision=None, replies={})
                        continue
                    memo = TurnMemo(None, one.extra_write, one.taking)
                    decision = self._or_alone(partial(self._decided_on, view, one, memo), memo)
                    if decision is not None and not decision.empty:
                        found[one.workflow_id] = (one, memo, decision)
        return self._stored_apart(found[one.workflow_id] for one in asked if one.workflow_id in found)

    def _decided_on(self, view: ReadingTransaction, one: Asked, memo: TurnMemo) -> Decision | None:
        """The decision on a turn that can share a write: not one that runs foreign code."""
        _, turn = self._decider.prepared(view, one.workflow_id, one.events, memo)
        return None if turn is None or turn.plan.foreign else self._decider.decide(turn)

    def _or_alone(self, decided: Callable[[], Decision | None], memo: TurnMemo) -> Decision | None:
        """The decision on a turn; None when it is to be taken alone, also because it went wrong."""
        try:
            return decided()
        except LASTING:
            raise
        except (ConductorliteError, PayloadsRequired, NoHelper, Deadly):
            return None  # it is taken alone, and raises there
        finally:
            self._turns.deaths.leaving(memo)

    def _stored_apart(self, found: Iterable[Ready]) -> list[Ready]:
        """Return the turns whose documents are stored in the payload storage; without those for which that failed."""
        ready: list[Ready] = []
        for one, memo, decision in found:
            try:
                decision = self._committer.store_payloads(decision, memo)
                ready.append((one, memo, decision))
            except LASTING:
                raise
            except ConductorliteError:
                continue  # it is taken alone, and raises there
        return ready


def beside(
    groups: Groups, report: Callable[[RunGroup], list[TurnResult | ConductorliteError]], poll: Callable[[RunGroup], object]
) -> list[TurnResult | ConductorliteError]:
    """Take what is reported in one write with what polls take; what became of the reports, nothing if it was not done.

    `report` and `poll` are given what takes their turns. It is not done when `poll` takes none.
    """
    results: list[TurnResult | ConductorliteError] = []

    def run(polls: Sequence[Asked]) -> list[TurnResult | ConductorliteError]:
        found: list[TurnResult | ConductorliteError] = []

        def all_of(reported: Sequence[Asked]) -> list[TurnResult | ConductorliteError]:
            done = groups.run([*reported, *polls])
            found.extend(done[len(reported) :])
            return done[: len(reported)]

        results.extend(report(all_of))
        return found

    try:
        poll(run)
    except ConductorliteError:
        if not results:
            raise
    return results
