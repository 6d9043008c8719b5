"""Outputs that are joined as texts, and conditions that are answered in process, equal those made in the general way."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from tape import MOURN, TAPES, Tape, draw_definition, many

from conductorlite import (
    Bounds,
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
from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.changeset.documents import Documents
from conductorlite.decide.operators import do_while, join
from conductorlite.decide.operators.document import joined_output, loop_output
from conductorlite.errors import Conflict
from conductorlite.language.conditions import Condition
from conductorlite.model.canonical import Payload
from conductorlite.model.executions import Task
from conductorlite.store.sqlite.backend import SQLiteBackend


def ask_interpreter(self: Documents, condition: Condition, values: Any, seed: str) -> Any:
    """Have the interpreter answer each condition."""
    now = self._journal.moment.now
    return self.evaluated(seed, values, lambda: condition.evaluate(values, now=now, seed=seed))


def write_rounds(changeset: Changeset, loop: Task) -> Payload:
    """Write the outputs of a loop's rounds as any other document."""
    return changeset.documents.payload(loop_output(changeset, loop, range(1, loop.round + 1)))


def write_branches(changeset: Changeset, tasks: Any) -> Payload:
    """Write the outputs that a JOIN collects as any other document."""
    return changeset.documents.payload(joined_output(changeset, tasks))


#: The statuses of a worker's report.
ENDS = (TaskStatus.IN_PROGRESS, TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.FAILED_WITH_TERMINAL_ERROR)


def drive(choices: bytes) -> dict[str, Any]:
    """Run a drawn execution for a while, with workers for all its tasks; return every row of the file."""
    tape = Tape(choices)
    definition, value, _ = draw_definition(tape, undoing=tape.pick(3) == 0)
    workers = Workers()

    def work(context: TaskContext) -> Any:
        drawn = tape.pick(8)
        if drawn == 6:
            raise ValueError("not this time")
        if drawn == 7:
            return TaskResult(
                workflow_id=context.task.workflow_id,
                task_id=context.task.task_id,
                status=ENDS[tape.pick(len(ENDS))],
                error_types=("ValueError",)[: tape.pick(2)],
                output_data={"x": "part"},
                reason="so far",
                callback_after_ms=1_000 * tape.pick(3),
            )
        return {"x": {"n": context.task.attempt}, "text": "long " * (300 * (drawn == 5))}

    for name in ("n0", "n1", "n2"):
        workers.task(name)(work)
    numbers, folder = count(), TemporaryDirectory()
    backend = SQLiteBackend(Path(folder.name, "s.db"), synchronous="NORMAL")
    config = EngineConfig(bounds=Bounds(rows=3) if tape.chance(4) else Bounds(), ids=lambda: f"id-{next(numbers)}")
    with folder, Engine(backend, workers=workers, clock=VirtualClock(), config=config) as engine:
        engine.register(WorkflowDef.from_json(MOURN))
        run = engine.start(WorkflowDef.from_json(definition), value)
        engine.run_until_idle(timeout="10 minutes")
        if tape.chance(3) and run.status.terminal and run.status is not WorkflowStatus.COMPLETED:
            with suppress(Conflict):  # it was compensated
                engine.retry(run.workflow_id)
            engine.run_until_idle(timeout="10 minutes")
        with closing(sqlite3.connect(backend.path)) as rows:
            names = ("workflows", "tasks", "history", "texts", "inbox", "messages", "limits", "limit_members", "task_logs", "polls")
            return {name: rows.execute(f"SELECT * FROM {name}").fetchall() for name in names}


@pytest.mark.parametrize("lives", [6, pytest.param(40, marks=pytest.mark.slow), pytest.param(4_000, marks=pytest.mark.deep)])
def test_texts_and_answers_are_those_of_the_general_way(lives: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drawn execution leaves the same rows when no output is joined as text and no condition is answered in process."""

    @many(lives)
    @given(TAPES)
    def case(choices: bytes) -> None:
        quick = drive(choices)
        with monkeypatch.context() as patch:
            patch.setattr(Documents, "answer", ask_interpreter)
            patch.setattr(do_while, "loop_payload", write_rounds)
            patch.setattr(join, "joined_payload", write_branches)
            assert drive(choices) == quick

    case()


def test_a_wrong_text_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison sees a JOIN whose output lacks a branch."""
    real = join.joined_payload
    monkeypatch.setattr(join, "joined_payload", lambda changeset, tasks: real(changeset, tasks[1:]))
    with pytest.raises(AssertionError):
        test_texts_and_answers_are_those_of_the_general_way(60, monkeypatch)
