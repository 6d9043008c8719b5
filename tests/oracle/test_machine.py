"""A stateful machine that does everything to a family of executions, on memory and SQLite at once, in any order.

After each step both stores hold the same bytes and no law is broken; reports that come too late change nothing; a parent hears
of it when its child goes on; and in the end every execution can end.
"""

from __future__ import annotations

import copy
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from family_twins import RICH, FamilyTwins
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tape import Tape, draw_definition, many

from conductorlite import Bounds, Semantics
from conductorlite.decide import reports, reruns
from conductorlite.decide import retries as reopening
from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.model.decisions import Event
from conductorlite.model.executions import Task

Patch = pytest.MonkeyPatch

#: Thrown anew from each number: Hypothesis likes small numbers and repeats them, and most operations would never have an effect.
DICE = st.integers(0, 1 << 30)

WORK = ("work", "report", "poll", "work", "signal", "again", "extend", "lose", "late", "work", "report")
GOING_ON = ("pause", "resume", "terminate", "begin", "skip", "variables", "migrate", "decide", "rerun")
ENDED = ("retry", "resume_children", "restart", "rerun", "remove", "retry")
TIME = ("next", "sleep", "set_back", "next")
OPERATIONS = tuple(dict.fromkeys((*WORK, *GOING_ON, *ENDED, *TIME)))


def thrown(operations: Sequence[str], dice: int) -> tuple[str, int, int]:
    """One of the operations, and two free numbers: which execution or task, and how."""
    chance = random.Random(dice)
    return operations[chance.randrange(len(operations))], chance.randrange(12), chance.randrange(9)


class FamilyMachine(RuleBasedStateMachine):
    """Rules are the operations of `FamilyTwins`; `effects` counts how often each changed anything."""

    effects: ClassVar[Counter[str]] = Counter()
    tries: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.twins: FamilyTwins | None = None
        self.before: object = None

    @initialize(tape=st.binary(min_size=200, max_size=200), rich=st.integers(0, 7), variant=st.integers(0, 4), n=st.integers(0, 2))
    def begin(self, tape: bytes, rich: int, variant: int, n: int) -> None:
        """Start a rich definition, or a random one."""
        definition, value, _ = draw_definition(Tape(tape))
        if rich < len(RICH):
            definition, value = copy.deepcopy(RICH[rich]), {"n": n, "items": [1, 2], "bad": "nonsense"}
        self.twins = FamilyTwins(
            Path(self.folder.name),
            definition,
            value,
            bounds=Bounds(rows=3) if variant in (1, 4) else Bounds(steps=5) if variant == 3 else Bounds(),
            semantics=Semantics.OSS if variant in (2, 4) else Semantics.ORKES,
            # With a relay a parent's event to a child may come after what the child does in the same millisecond.
            relay=False,
        )

    def do(self, operation: str, a: int, b: int) -> None:
        """Do one thing to both, and count whether it had an effect."""
        twins = self.twins
        assert twins is not None
        before = self._moment()
        reopening_verb = operation in ("retry", "resume_children", "restart", "rerun")
        waiting = twins.waiting_parents(twins.engines[0]) if reopening_verb else {}
        statuses = {one: twins.engines[0].status(one) for one in waiting}
        answer = twins.act(operation, a, b)
        for engine in twins.engines:
            engine.settle()
        self.tries[operation] += 1
        self.effects[operation] += self._moment() != before
        if reopening_verb and answer is not None and "done" in str(answer):
            self._parents_were_told(waiting, statuses)
            twins.act("late", a, b)

    def _moment(self) -> object:
        assert self.twins is not None
        engine = self.twins.engines[0]
        return engine.clock.now(), [(row.workflow_id, row.fence, row.history_seq) for row in engine.executions(limit=1000)]

    def _parents_were_told(self, waiting: dict[str, tuple[str, int]], statuses: dict[str, Any]) -> None:
        """A child that had ended and goes on has told its parent, which has a line of it."""
        assert self.twins is not None
        engine = self.twins.engines[0]
        there = self.twins.ids(engine)
        for child, (parent, lines) in waiting.items():
            if child in there and parent in there and statuses[child].terminal and engine.get(child).generation:
                reopened = not engine.status(child).terminal
                grew = engine.get(parent).history_seq > lines
                assert grew or not reopened, f"{child} goes on, and {parent} does not know"

    @rule(dice=DICE)
    def work(self, dice: int) -> None:
        """What workers do, and those who wait for people."""
        self.do(*thrown(WORK, dice))

    @rule(dice=DICE)
    def work_more(self, dice: int) -> None:
        """The same again: half of what happens is work."""
        self.do(*thrown(WORK, dice))

    @rule(dice=DICE)
    def control(self, dice: int) -> None:
        """Verbs on what goes on."""
        self.do(*thrown(GOING_ON, dice))

    @rule(dice=DICE)
    def again(self, dice: int) -> None:
        """Verbs on what has ended."""
        self.do(*thrown(ENDED, dice))

    @rule(dice=DICE)
    def time(self, dice: int) -> None:
        """Time passes, or the clock is set back."""
        self.do(*thrown(TIME, dice))

    # ------------------------------------------------------------------ the laws

    @invariant()
    def no_law_is_broken(self) -> None:
        """`Engine.admin.check` finds nothing on either store."""
        if self.twins is not None:
            self.twins.keep_the_laws()

    @invariant()
    def both_stores_are_equal(self) -> None:
        """The same executions with the same rows, and journals equal byte by byte."""
        if self.twins is not None:
            self.twins.be_equal()

    def teardown(self) -> None:
        """Everything can end; what was polled before is heard no more."""
        try:
            if self.twins is not None:
                self.twins.finish()
                self.twins.act("late", 0, 0)
                self.twins.be_equal()
        finally:
            if self.twins is not None:
                self.twins.close()
            self.folder.cleanup()


#: What must change nothing: late reports; a decide when all that was due is done. Reports with no lease may.
NEVER_BY_THEMSELVES = ("late", "decide")
SELDOM = (*NEVER_BY_THEMSELVES, "again")


def explore(examples: int, steps: int = 30) -> tuple[Counter[str], Counter[str]]:
    """Run the machine; how often each operation was tried, and how often it had an effect."""

    class Machine(FamilyMachine):
        effects: ClassVar[Counter[str]] = Counter()
        tries: ClassVar[Counter[str]] = Counter()

    run_state_machine_as_test(
        Machine,
        settings=many(examples, stateful_step_count=steps),
    )
    return Machine.tries, Machine.effects


def table(tries: Counter[str], effects: Counter[str]) -> str:
    """Each operation, how often it had an effect, how often it was tried."""
    return "\n".join(f"{name:<18}{effects[name]:>8} of {tries[name]}" for name in OPERATIONS)


@pytest.mark.parametrize("machines", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_everything_in_any_order(machines: int, shown: list[str]) -> None:
    """Machines of up to 30 steps: two stores, every law, every verb. (That each has effects is for the many to show.)"""
    tries, effects = explore(machines)
    shown.append(table(tries, effects))
    assert effects


@pytest.mark.deep
def test_everything_in_any_order_deep(shown: list[str]) -> None:
    """5,000 machines; each operation has an effect in hundreds of cases."""
    tries, effects = explore(5_000)
    shown.append(table(tries, effects))
    thin = {name: effects[name] for name in OPERATIONS if effects[name] < 200 and name not in SELDOM}
    assert not thin
    assert not any(effects[name] for name in NEVER_BY_THEMSELVES)


# ---------------------------------------------------------------------- planted bugs


def generation_not_compared(patch: Patch) -> None:
    """A report from before a restart counts for the task that has its name and attempt now."""
    real = reports._recipients

    def addressed(changeset: Changeset, event: Event) -> Task | None:
        task = changeset.rows.task(event.ref or "")
        found = real(changeset, event)
        if found is None and task is not None and not task.status.terminal and task.attempt == event.attempt:
            return None if changeset.workflow.status.terminal else task
        return found

    patch.setattr(reports, "_recipients", addressed)


def parent_not_told(patch: Patch) -> None:
    """A child that is retried, restarted or rerun does not tell its parent."""
    for module in (reopening, reruns):
        patch.setattr(module, "notify_parent_reopened", lambda changeset: None)


def rerun_forgets_the_join(patch: Patch) -> None:
    """A rerun inside a fork leaves its JOIN as it is."""
    patch.setattr(reruns, "_joins_of", lambda changeset, around: [])


def restart_forgets_the_rows(patch: Patch) -> None:
    """A restart leaves the tasks of the run before."""
    patch.setattr(Changeset, "take_back", lambda self, tasks: None)


BUGS = (generation_not_compared, parent_not_told, rerun_forgets_the_join, restart_forgets_the_rows)


@pytest.mark.deep
@pytest.mark.parametrize("bug", [pytest.param(bug, id=bug.__name__) for bug in BUGS])
def test_a_planted_bug_is_found_by_the_machine(bug: Callable[[Patch], None], monkeypatch: Patch) -> None:
    """The machine finds the bug within 1,000 runs."""
    bug(monkeypatch)
    with pytest.raises(BaseException) as found:
        explore(1_000)
    assert not isinstance(found.value, (KeyboardInterrupt, SystemExit))
