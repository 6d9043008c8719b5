"""Loops of the operators that came after the first, and what each of their rounds costs.

The worker is called once per round, and what was counted so far is noted there: the difference of two notes is the cost
of a round, whatever came before it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import attrs
from shapes import Json, Meter, looped, simple, workflow

from conductorlite import Engine, EngineConfig, VirtualClock, Workers, WorkflowDef, WorkflowStatus
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.sqlite.statements import INSERT_HISTORY

#: Rounds that are averaged: a page of the log more or less is no growth.
WINDOW = 10

#: JavaScript that the safe subset refuses: a class, a generator, a spread and a regular expression.
BEYOND_THE_SUBSET = """
    class Rounds { *upTo(n) { for (let i = 0; i < n; i++) yield i; } }
    const few = [...new Rounds().upTo(3)].length;
    $.loop.iteration < $.limit && few === 3 && /^\\d+$/.test(String($.loop.iteration));
"""

CHILD: Json = {
    "name": "child",
    "version": 1,
    "tasks": [simple("work", n="${workflow.input.n}")],
    "outputParameters": {"x": "${work.output.x}"},
}


def children(count: int) -> WorkflowDef:
    """Each round is a sub-workflow of one task, which reads the one before."""
    sub = {
        "name": "sub",
        "taskReferenceName": "sub",
        "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"name": "child", "version": 1, "workflowDefinition": CHILD},
        "inputParameters": {"n": "${loop.output.iteration}", "x": "${sub.output.x}"},
    }
    return workflow("children", looped("loop", count, sub))


def kept(count: int) -> WorkflowDef:
    """Only the last three rounds are kept, each with two rounds of an inner loop."""
    noop = {"name": "noop", "taskReferenceName": "noop", "type": "NOOP"}
    body = (simple("t", n="${loop.output.iteration}", x="${t.output.x}"), looped("inner", 2, noop))
    return workflow("kept", {**looped("loop", count, *body), "inputParameters": {"keepLastN": 3}})


def variables(count: int) -> WorkflowDef:
    """Each round sets a variable from the one before it."""
    counted = {"n": "${loop.output.iteration}", "before": "${workflow.variables.n}"}
    var = {"name": "var", "taskReferenceName": "var", "type": "SET_VARIABLE", "inputParameters": counted}
    return workflow("variables", looped("loop", count, simple("t", n="${workflow.variables.n}"), var), variables={"n": 0})


def scripted(count: int, condition: str | None = None) -> WorkflowDef:
    """The condition is a script that reads the loop, its input and the round's task."""
    condition = condition or (
        "(function () { var most = Math.ceil($.limit * 2 / 2); var said = $.t.x === undefined ? 'go' : $.t.x;"
        " return $.loop['iteration'] < most && said !== 'stop'; })();"
    )
    loop = looped("loop", count, simple("t", n="${loop.output.iteration}", x="${t.output.x}"))
    return workflow("scripted", {**loop, "loopCondition": condition, "inputParameters": {"limit": count}})


def full(count: int) -> WorkflowDef:
    """The condition needs all of JavaScript."""
    return scripted(count, BEYOND_THE_SUBSET)


def named(count: int) -> WorkflowDef:
    """The body reads the first round in each."""
    return workflow("named", looped("loop", count, simple("t", n="${loop.output.iteration}", x="${loop.output['1'].t.x}")))


#: Per name, the definition of so many rounds.
LOOPS: dict[str, Callable[[int], WorkflowDef]] = {
    "children": children,
    "kept": kept,
    "variables": variables,
    "scripted": scripted,
}


@attrs.frozen(kw_only=True, slots=True)
class Round:
    """What had been counted when the worker was called."""

    statements: int
    rows_read: int
    commits: int
    text_written: int
    text_read: int


@attrs.frozen(kw_only=True, slots=True)
class Profile:
    """A whole run: one note per round, and the rows of tasks that were there at each."""

    notes: list[Round]
    rows: list[int]

    def cost(self, counted: str, at: int) -> float:
        """One of the numbers, per round, over the rounds from `at` on."""
        first, last = (getattr(self.notes[number], counted) for number in (at - 1, at - 1 + WINDOW))
        return (last - first) / WINDOW


def profile(path: Path, definition: WorkflowDef, rounds: int) -> Profile:
    """Run a loop to its end and note what each round takes."""
    notes: list[Round] = []
    rows: list[int] = []
    workers = Workers()
    backend = SQLiteBackend(path, synchronous="NORMAL", counting=True)
    meter = Meter(backend, texts=True)

    def step(x: object = None, n: int = 0) -> Json:
        counts = meter.counts
        notes.append(
            Round(
                # Lines of the journal leave the row of the execution when there are so many, in whichever round that is.
                statements=counts.statements - counts.statements_by_sql[INSERT_HISTORY],
                rows_read=counts.rows_read,
                commits=counts.commits,
                text_written=meter.written,
                text_read=meter.read,
            )
        )
        return {"x": "steady"}

    workers.task("step")(step)
    with closing(Engine(backend, workers=workers, clock=VirtualClock(), config=EngineConfig(ids=lambda: "main"))) as engine:
        with meter.on():
            handle = engine.start(definition, {"x": 1}, workflow_id="main")
            while engine.tick():
                if len(notes) % 50 == 25 and len(rows) < len(notes) // 50 + 1:
                    connection = backend._writer
                    counted, read = meter.counts.statements, meter.read
                    sql = "SELECT count(*) AS n FROM tasks AS t JOIN workflows USING (execution) WHERE workflow_id = 'main'"
                    rows.append(next(iter(connection.execute(sql).fetchone())))
                    meter.counts.statements, meter.read = counted, read
        assert handle.status is WorkflowStatus.COMPLETED, handle.workflow.reason
        assert len(notes) == rounds
        assert engine.admin.check() == []
    return Profile(notes=notes, rows=rows)
