"""Random definitions with random compensations, lived at random: what is undone had completed, once, last ended first."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from tape import TAPES, Tape, draw_definition, draw_operations, many
from twins import Twins

from conductorlite import Bounds, Engine, Semantics, TaskStatus, WorkflowStatus
from conductorlite.model.executions import HistoryKind

COMPLETED = (TaskStatus.COMPLETED, TaskStatus.COMPLETED_WITH_ERRORS)


@attrs.define
class Seen:
    """What the cases of a run covered."""

    compensated: int = 0
    steps: int = 0
    in_rounds: int = 0
    ends: Counter[str] = attrs.field(factory=Counter)


def look(engine: Engine, workflow_id: str, seen: Seen) -> None:
    """Compare what the history says was undone with the rows."""
    workflow = engine.get(workflow_id)
    rows = {task.ref: task for task in workflow.tasks}
    history = engine.history(workflow_id)
    # Started again from nothing, it may be compensated again.
    anew = [line for line in history if line.kind is HistoryKind.VERB and line.status in ("RESTART", "RERUN") and line.ref is None]
    begun = anew[-1].n if anew else 0
    lines = [line for line in history if line.kind is HistoryKind.COMPENSATION and line.n > begun]
    undone = [str(line.ref) for line in lines if line.ref is not None]
    if not lines:
        return
    assert len(lines) == len(undone) + 1, "compensation began more than once"
    assert len(set(undone)) == len(undone), f"undone twice: {undone}"
    assert all(rows[ref].status in COMPLETED for ref in undone), undone
    ends = [(rows[ref].ended_at, rows[ref].seq) for ref in undone]
    assert ends == sorted(ends, reverse=True), undone
    definitions = [*workflow.made.values(), *([workflow.definition] if workflow.definition is not None else [])]
    declared = {
        task.task_reference_name for definition in definitions for task in _tasks(definition.tasks) if task.compensation is not None
    }
    owed = {task.ref for task in rows.values() if task.status in COMPLETED and task.base_ref in declared}
    assert set(undone) <= owed
    if workflow.status in (WorkflowStatus.FAILED, WorkflowStatus.TIMED_OUT):
        assert set(undone) == owed
        assert workflow.status == lines[0].status
    seen.compensated += 1
    seen.steps += len(undone)
    seen.in_rounds += sum(bool(rows[ref].iterations) for ref in undone)
    seen.ends[str(workflow.status)] += 1


def _tasks(tasks):  # type: ignore[no-untyped-def]
    for task in tasks:
        yield task
        for inner in (*task.decision_cases.values(), task.default_case, *task.fork_tasks, task.loop_over):
            yield from _tasks(inner)


def explore(cases: int) -> Seen:
    """Live so many lives."""
    seen = Seen()

    @many(cases)
    @given(TAPES)
    def case(choices: bytes) -> None:
        tape = Tape(choices)
        variant = tape.pick(4)
        definition, value, _ = draw_definition(tape, undoing=True)
        # The last step fails for good, so that most lives end with something to undo.
        definition["tasks"].append({"name": "n0", "taskReferenceName": "last", "retryCount": 0})
        operations = draw_operations(tape, 10 + tape.pick(10))
        with tempfile.TemporaryDirectory() as folder:
            twins = Twins(
                Path(folder),
                definition,
                value,
                bounds=Bounds(rows=2) if variant == 1 else Bounds(steps=3) if variant == 2 else Bounds(),
                semantics=Semantics.ORKES,
                relay=variant == 3,
                matrix=Counter(),
            )
            try:
                for operation, a, b in operations:
                    twins.do(operation, a, b)
                twins.finish()
                engine = twins.engines[0]
                for workflow_id in twins.ids(engine):
                    look(engine, workflow_id, seen)
            finally:
                twins.close()

    case()
    return seen


@pytest.mark.parametrize("lives", [6, pytest.param(25, marks=pytest.mark.slow)])
def test_what_is_undone_had_completed_once_and_in_reverse(lives: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Never twice, only what completed, last ended first, all of it unless terminated; on both stores the same."""
    seen = explore(lives)
    with capsys.disabled():
        print(f" [{seen}]", end="")
    assert seen.compensated >= lives // 6
    assert lives == 6 or seen.in_rounds > 0


@pytest.mark.deep
def test_what_is_undone_had_completed_once_and_in_reverse_deep() -> None:
    """2,000 lives."""
    assert explore(2_000).compensated >= 300
