"""What undoing a task costs, as counts: the same however many there are to undo."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from shapes import Meter, engine_on, looped, simple, workflow

from conductorlite import WorkflowDef, WorkflowStatus


def saga(count: int) -> WorkflowDef:
    """A task in so many rounds of a loop, each with a compensation, and an end that is a failure."""
    undo = {**simple("undo", x="${t.output.x}"), "type": "SIMPLE"}
    end = {"name": "end", "taskReferenceName": "end", "type": "TERMINATE", "inputParameters": {"terminationStatus": "FAILED"}}
    return workflow("saga", looped("loop", count, {**simple("t"), "compensate": undo}), end)


def cost_of(path: Path, count: int) -> tuple[float, float]:
    """Statements and rows read per compensation, counted from the failure on."""
    with closing(engine_on(path)) as engine:
        run = engine.start(saga(count), workflow_id="saga")
        while run.workflow.compensating is None:
            engine.tick()
        meter = Meter(engine.backend, texts=False)  # type: ignore[arg-type]
        with meter.on():
            while engine.tick():
                pass
        assert run.status is WorkflowStatus.FAILED
        assert sum(task.base_ref == "undo" for task in run.workflow.tasks) == count
        return meter.counts.statements / count, meter.counts.rows_read / count


def test_undoing_costs_the_same_however_much_is_undone(tmp_path: Path) -> None:
    """Statements and rows read per compensation do not grow between 20 and 80 of them."""
    few, many = (cost_of(tmp_path / f"{count}.db", count) for count in (20, 80))
    assert many[0] / few[0] <= 1.05, (few, many)
    assert many[1] / few[1] <= 1.05, (few, many)
