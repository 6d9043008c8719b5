"""The short way of a plain task decides as the general way does: whatever happens to drawn definitions is decided both ways."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import twins
from hypothesis import given
from tape import MOURN, TAPES, Tape, draw_definition, many
from test_oracle import Tally, live

import conductorlite.decide as decider
from conductorlite import (
    Bounds,
    ConductorliteError,
    Engine,
    EngineConfig,
    TaskContext,
    TaskResult,
    TaskStatus,
    VirtualClock,
    Workers,
    WorkflowDef,
    WorkflowStatus,
)
from conductorlite.engine import decisions
from conductorlite.errors import Conflict
from conductorlite.model.decisions import Decision


class Ways:
    """Decides each turn in both ways, and counts what went the short one."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.decide, self.short, self.off = decider.decide, 0, False
        read, scheduled = decider._read_plain, decider.scheduled

        def read_plain(changeset: Any, event: Any) -> int | None:
            steps = None if self.off else read(changeset, event)
            self.short += steps is not None
            return steps

        patch.setattr(decider, "_read_plain", read_plain)
        patch.setattr(decider, "scheduled", lambda *given: not self.off and scheduled(*given))
        patch.setattr(decisions, "decide", self.both)
        patch.setattr(twins, "decide", self.both)

    def both(self, *given: Any, **options: Any) -> Decision:
        """The decision, which is the same."""
        self.off = True
        general = self._outcome(*given, **options)
        self.off = False
        short = self._outcome(*given, **options)
        assert short == general
        if isinstance(short, Exception):
            raise short
        assert isinstance(general, Decision)
        assert [*short.replies] == [*general.replies]
        return short

    def _outcome(self, *given: Any, **options: Any) -> Any:
        try:
            return self.decide(*given, **options)
        except ConductorliteError as error:
            return error


@pytest.mark.parametrize("lives", [2, pytest.param(20, marks=pytest.mark.slow), pytest.param(4_000, marks=pytest.mark.deep)])
def test_both_ways_decide_the_same(lives: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random lives with every kind of event, on both stores."""
    ways = Ways(monkeypatch)

    @many(lives)
    @given(TAPES)
    def case(choices: bytes) -> None:
        live(choices, Tally())

    case()
    assert ways.short


@pytest.mark.parametrize("lives", [6, pytest.param(100, marks=pytest.mark.slow), pytest.param(8_000, marks=pytest.mark.deep)])
def test_both_ways_decide_the_same_when_driven(lives: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn of a report hands over the next task, to workers that now and then fail, or are not done yet."""
    ways = Ways(monkeypatch)

    @many(lives)
    @given(TAPES)
    def case(choices: bytes) -> None:
        tape = Tape(choices)
        definition, value, _ = draw_definition(tape, undoing=tape.pick(3) == 0)
        drive(definition, value, tape)

    case()
    assert ways.short


def drive(definition: dict[str, Any], value: Any, tape: Tape) -> None:
    """Run an execution for a while, with workers for everything that it offers."""
    workers = Workers()

    def work(context: TaskContext) -> Any:
        said = tape.pick(8)
        if said == 6:
            raise ValueError("not this time")
        if said == 7:
            return TaskResult(
                workflow_id=context.task.workflow_id,
                task_id=context.task.task_id,
                status=(TaskStatus.IN_PROGRESS, TaskStatus.COMPLETED)[tape.pick(2)],
                output_data={"x": "part"},
                reason="so far",
                callback_after_ms=1_000 * tape.pick(3),
            )
        return {"x": {"n": context.task.attempt}, "text": "long " * (300 * (said == 5))}

    for name in ("n0", "n1", "n2"):
        workers.task(name)(work)
    config = EngineConfig(bounds=Bounds(rows=3) if tape.chance(4) else Bounds())
    with Engine(workers=workers, clock=VirtualClock(), config=config) as engine:
        engine.register(WorkflowDef.from_json(MOURN))
        run = engine.start(WorkflowDef.from_json(definition), value)
        engine.run_until_idle(timeout="10 minutes")
        if tape.chance(3) and run.status.terminal and run.status is not WorkflowStatus.COMPLETED:
            with suppress(Conflict):  # it was compensated
                engine.retry(run.workflow_id)
            engine.run_until_idle(timeout="10 minutes")
