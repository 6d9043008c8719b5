"""`plan_migration` without an engine: an execution as it is read, two definitions, an answer."""

from __future__ import annotations

import attrs
import pytest

from conductorlite import Engine, InvalidDefinition, TaskResult, TaskStatus, Workflow, WorkflowDef
from conductorlite.model.executions import Task
from conductorlite.plan.migration import Verdict, plan_migration


def order(version: int, *refs: str) -> WorkflowDef:
    """A definition of tasks one after the other."""
    tasks = [{"name": ref, "taskReferenceName": ref} for ref in refs]
    return WorkflowDef.from_json({"name": "order", "version": version, "tasks": tasks})


OLD = order(1, "charge", "pack", "ship")
NEW = order(2, "charge", "wrap", "ship")


@pytest.fixture
def packing() -> Workflow:
    """An execution that has charged and is packing."""
    with Engine() as engine:
        run = engine.start(OLD, workflow_id="o1")
        charge = engine.poll("charge")[0]
        engine.update_task(TaskResult(workflow_id="o1", task_id=charge.task_id, status=TaskStatus.COMPLETED, lease=charge.lease))
        return run.workflow


def test_blocked_and_with_a_map(packing: Workflow) -> None:
    """A live task that is gone blocks; the map that says what it is called makes it safe."""
    blocked = plan_migration(packing, OLD, NEW)
    assert (blocked.verdict, blocked.blocked, blocked.live, blocked.renamed) == (Verdict.BLOCKED, True, {}, {})
    mapped = plan_migration(packing, OLD, NEW, {"pack": "wrap"})
    assert (
        str(mapped)
        == """\
o1: SAFE_WITH_MAP
  pack: SCHEDULED, becomes wrap, what changed holds from the next attempt on"""
    )
    assert mapped.renamed == {"pack": "wrap"}


def test_nothing_is_changed(packing: Workflow) -> None:
    """Planning reads, and the same definition is always safe."""
    before = attrs.asdict(packing, recurse=False)
    assert plan_migration(packing, OLD, OLD).verdict is Verdict.SAFE
    assert attrs.asdict(packing, recurse=False) == before


def test_an_invalid_definition(packing: Workflow) -> None:
    """A definition that could not be started is refused before anything is looked at."""
    with pytest.raises(InvalidDefinition):
        plan_migration(packing, OLD, order(2, "same", "same"))


def test_what_a_dynamic_fork_made(packing: Workflow) -> None:
    """A live row of which the definition knows nothing was made at run time: its fork must end first."""
    row: Task = attrs.evolve(packing.tasks[-1], ref="made_1", base_ref="made_1", task_id="x")
    dynamic = attrs.evolve(packing, tasks=(*packing.tasks, row))
    assert plan_migration(dynamic, OLD, OLD).reasons == (
        "made_1: was made at run time by a dynamic fork; wait until its JOIN has ended",
    )
    ended = attrs.evolve(row, status=TaskStatus.COMPLETED, executed=True)
    assert not plan_migration(attrs.evolve(packing, tasks=(*packing.tasks, ended)), OLD, OLD).blocked


@pytest.mark.parametrize("new", [("early", "charge", "pack", "ship"), ("charge", "ship", "pack")], ids=["new", "moved"])
def test_a_move_that_passes_a_step_by_is_not_safe(packing: Workflow, new: tuple[str, ...]) -> None:
    """Whether the step is new or was still to run: the plan names it, and blocks nothing."""
    plan = plan_migration(packing, OLD, order(2, *new))
    assert (plan.verdict, plan.lost, plan.blocked) == (
        Verdict.LOSES_STEPS,
        (next(ref for ref in new if ref in ("early", "ship")),),
        False,
    )
