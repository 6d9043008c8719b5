"""Is the traffic any good? Bugs of the kinds we fear in limits are planted one by one; each must be found by random lives."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from limits_traffic import OPERATIONS, Traffic

from conductorlite.decide import admissions as decided
from conductorlite.decide import reruns, retries, verbs
from conductorlite.decide.changeset.admissions import Admissions
from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.model.decisions import Event
from conductorlite.model.executions import Task
from conductorlite.model.limits import Limit, Line, Member, MemberState, Terms
from conductorlite.model.statuses import TaskStatus
from conductorlite.store.memory import limits as stored
from conductorlite.store.memory.backend import MemoryBackend

Patch = pytest.MonkeyPatch


def slot_lost_on_cancel(patch: Patch) -> None:
    """A task that is canceled, because its execution ends, keeps its slot for ever."""
    real = Changeset._leave_limit

    def leave(self: Changeset, task: Task) -> Task:
        canceled = task.status is TaskStatus.CANCELED
        return self.put(task, limit_key=None) if canceled else real(self, task)

    patch.setattr(Changeset, "_leave_limit", leave)


def slot_of_an_execution_lost(patch: Patch) -> None:
    """An execution that ends keeps its slot."""
    from conductorlite.decide import endings

    patch.setattr(endings, "leave_limit", lambda changeset: changeset.change(rate_limit_key=None, rate_limited=False))


def fence_not_checked(patch: Patch) -> None:
    """A limit is written over whatever another turn made of it; here each turn has read what was before the last change."""
    previous: dict[str, Line] = {}
    real_line, real_change = stored.MemoryLimits.line, stored.MemoryLimits.change

    def line(self: Any, key: str, heads: int) -> Line:
        known = previous.get(key) if heads < 1_000 else None  # whoever looks at all of it looks at what is there
        return known or real_line(self, key, heads)

    def change(self: Any, changes: Any) -> None:
        for one in changes:
            key = one.limit.key
            now = real_line(self, key, 1_000)
            real_change(self, [attrs.evolve(one, limit=attrs.evolve(one.limit, fence=now.limit.fence))])
            if now.limit.fence % 7 == 6:
                previous[key] = now
            else:
                previous.pop(key, None)

    patch.setattr(stored.MemoryLimits, "line", line)
    patch.setattr(stored.MemoryLimits, "change", change)


def window_not_kept(patch: Patch) -> None:
    """The instants of admissions are forgotten: every window is empty."""
    patch.setattr(Admissions, "_dated", lambda self, limit: limit)


def window_too_short(patch: Patch) -> None:
    """One instant fewer is kept than the limit needs."""

    def dated(self: Admissions, limit: Limit) -> Limit:
        return attrs.evolve(limit, log=(*limit.log, self._moment.now)[1 - limit.depth :] if limit.depth > 1 else ())

    patch.setattr(Admissions, "_dated", dated)


def window_dated_when_given(patch: Patch) -> None:
    """A slot of a window counts from when it was given; it is taken up later, and the window is too full then."""
    real = Admissions._admit

    def admit(self: Admissions, member: Member) -> None:
        real(self, member)
        members = self._books.members
        stands = members[(member.key, member.holder)]
        if stands is not None and stands.state is MemberState.RESERVED:
            limit = self._limit(member.key)
            self.limits[member.key] = self._dated(attrs.evolve(limit, reserved=limit.reserved - 1))
            members[(member.key, member.holder)] = attrs.evolve(stands, state=MemberState.HELD, concurrent=1)

    patch.setattr(Admissions, "_admit", admit)


def no_alarm(patch: Patch) -> None:
    """Nobody is told when a window has moved."""
    patch.setattr(Admissions, "_watch", lambda self, key: None)


def alarm_not_moved(patch: Patch) -> None:
    """A new head of the line is not told, if somebody was before."""
    real = Admissions._watch
    patch.setattr(Admissions, "_watch", lambda self, key: real(self, key) if self._limit(key).alarm is None else None)


def somebody_overtakes(patch: Patch) -> None:
    """Whoever asks is let in when the limit has room by its own terms, though others wait."""
    real = Admissions._head

    def ask(self: Admissions, key: str, holder: str, terms: Terms, **fields: Any) -> bool:
        patch.setattr(Admissions, "_head", lambda self, key: None)
        try:
            return real_ask(self, key, holder, terms, **fields)
        finally:
            patch.setattr(Admissions, "_head", real)

    real_ask = Admissions.ask
    patch.setattr(Admissions, "ask", ask)


def freed_slot_not_given_on(patch: Patch) -> None:
    """A slot that is given back is free until somebody else asks."""
    real = Admissions._grant

    def give_back(self: Admissions, key: str, holders: Any, **fields: Any) -> None:
        patch.setattr(Admissions, "_grant", lambda self, key: ())
        try:
            real_give(self, key, holders, **fields)
        finally:
            patch.setattr(Admissions, "_grant", real)

    real_give = Admissions.give_back
    patch.setattr(Admissions, "give_back", give_back)


def not_told(patch: Patch) -> None:
    """Who is given a slot by another execution is not told."""
    real = Admissions._admit

    def admit(self: Admissions, member: Member) -> None:
        before = list(self._events.posted)
        real(self, member)
        self._events.posted = before

    patch.setattr(Admissions, "_admit", admit)


def old_event_counts(patch: Patch) -> None:
    """A slot that was given before, and taken back since, is taken up all the same, by whatever has the name."""
    real = Admissions.take_up

    def take_up(self: Admissions, key: str, holder: str, number: int, **fields: Any) -> bool:
        real(self, key, holder, number, **fields)
        return True

    patch.setattr(Admissions, "take_up", take_up)
    patch.setattr(Changeset, "addressee", lambda self, event: self.rows.task(event.ref or ""))


def void_in_its_own_turn(patch: Patch) -> None:
    """A slot that was given within a turn goes to whatever stands at that reference afterwards."""
    patch.setattr(Admissions, "stands", lambda self, *_, **__: True)


def paused_in_the_line(patch: Patch) -> None:
    """An execution that is paused stays in the line as it is, and is not asked again when it is resumed."""

    def withdraw(changeset: Changeset) -> None:
        for task in changeset.rows.all_live():
            if task.status is TaskStatus.PENDING and task.limit_key is not None:
                changeset.put(task, limit_key=None)

    patch.setattr(verbs, "withdraw", withdraw)


def let_in_twice(patch: Patch) -> None:
    """The rows of what waited stay beside those of what begins."""
    patch.setattr(Changeset, "take_place_of", lambda self, task: None)


def retry_without_a_slot(patch: Patch) -> None:
    """An ended execution goes on whatever its limit says."""

    def reopens(changeset: Changeset, event: Event) -> bool:
        return True

    patch.setattr(decided, "reopens", reopens)
    for module in (retries, reruns):
        patch.setattr(module, "reopens", reopens)


BUGS: list[Callable[[Patch], None]] = [
    slot_lost_on_cancel,
    slot_of_an_execution_lost,
    fence_not_checked,
    window_not_kept,
    window_too_short,
    window_dated_when_given,
    no_alarm,
    alarm_not_moved,
    somebody_overtakes,
    freed_slot_not_given_on,
    not_told,
    old_event_counts,
    void_in_its_own_turn,
    paused_in_the_line,
    let_in_twice,
    retry_without_a_slot,
]


def live(case: int) -> None:
    """One life, drawn by its number."""
    chance = random.Random(case)
    traffic = Traffic(MemoryBackend(relay=case % 2 == 1), settles=case % 3 > 0)
    for _ in range(60):
        traffic.do(chance.choice(OPERATIONS), chance.randrange(16), chance.randrange(16))
    traffic.finish()


#: Found only after dozens of lives; `test_what_a_rerun_takes_back_gives_its_slot_to_nobody_twice` has it at once.
SLOW = (void_in_its_own_turn,)


@pytest.mark.parametrize(
    "bug", [pytest.param(bug, id=bug.__name__, marks=pytest.mark.deep if bug in SLOW else pytest.mark.slow) for bug in BUGS]
)
def test_a_planted_bug_is_found(bug: Callable[[Patch], None], monkeypatch: Patch, capsys: Any) -> None:
    """Random lives find the bug, in fewer than 60 of them."""
    bug(monkeypatch)
    for case in itertools.count(1):
        assert case <= 60, f"{bug.__name__} was not found"
        try:
            live(case)
        except (AttributeError, NameError, TypeError):
            raise  # the plant itself is broken
        except Exception as found:
            told = (str(found).strip().splitlines() or [type(found).__name__])[0]
            break
    with capsys.disabled():
        print(f"\n{bug.__name__}: found by case {case}: {told[:140]}", end="")


def test_without_a_bug_nothing_is_found() -> None:
    """The lives that find the bugs are clean without them."""
    for case in range(1, 4):
        live(case)
