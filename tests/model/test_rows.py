"""Rows: what a turn writes is a copy, and what a verb returns is frozen."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from conductorlite import Engine, Task, TaskContext, TaskResult, TaskStatus, VirtualClock, Workers, Workflow, WorkflowDef
from conductorlite.model.executions import TaskRow, WorkflowRow, frozen_task, frozen_workflow, own_task, own_workflow
from conductorlite.runtime.calls import current_task

TASKS = [
    {"name": "step", "taskReferenceName": "a", "type": "SIMPLE"},
    {"name": "wait", "taskReferenceName": "b", "type": "WAIT"},
    {"name": "own", "taskReferenceName": "c", "type": "SIMPLE"},
    {"name": "sub", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "child", "version": 1}},
    {"name": "step", "taskReferenceName": "d", "type": "SIMPLE"},
]


def filled(kind: Any) -> Any:
    """An object of a class with a value of its own in every field."""
    return kind(**{field.name: f"the {field.name}" for field in attrs.fields(kind)})


@pytest.mark.parametrize(("kind", "row", "own"), [(Task, TaskRow, own_task), (Workflow, WorkflowRow, own_workflow)])
def test_a_copy_has_every_field(kind: Any, row: Any, own: Any) -> None:
    """A field that is added to a row is copied too."""
    for one in (filled(kind), filled(row)):
        made = own(one)
        assert type(made) is row
        assert {field.name: getattr(made, field.name) for field in attrs.fields(kind)} == {
            field.name: f"the {field.name}" for field in attrs.fields(kind)
        }
        made.reason = "another"
        assert (made.reason, one.reason, made == one) == ("another", "the reason", False)
        assert attrs.evolve(made, reason=one.reason) == one == filled(kind)


def test_a_row_becomes_what_a_verb_returns() -> None:
    """Frozen, with the attempts in it; what is frozen already is the same object."""
    task, workflow = filled(TaskRow), filled(WorkflowRow)
    workflow.tasks = (task,)
    found = frozen_workflow(workflow)
    assert (type(found), type(found.tasks[0])) == (Workflow, Task)
    assert found == workflow
    assert frozen_workflow(found) is found
    assert frozen_task(found.tasks[0]) is found.tasks[0]
    for one in (found, found.tasks[0]):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(one, "reason", "written")  # noqa: B010 - mypy refuses an assignment
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            delattr(one, "reason")
    assert found.tasks[0] != found
    assert (found.tasks[0] == 1) is False


def test_rows_are_values() -> None:
    """They are hashed, copied and pickled by their fields."""
    one, other = filled(Task), own_task(filled(Task))
    assert len({one, filled(Task)}) == 1
    assert copy.copy(one) == copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one
    other.reason = "another"
    assert pickle.loads(pickle.dumps(other)) == other != one
    result = TaskResult(workflow_id="w", task_id="t", status=TaskStatus.COMPLETED)
    assert pickle.loads(pickle.dumps(result)) == result


def rows(answer: object) -> Iterator[Task | Workflow]:
    """The rows in what a verb has returned."""
    if isinstance(answer, Task | Workflow):
        yield answer
        yield from answer.tasks if isinstance(answer, Workflow) else ()
    elif isinstance(answer, list | tuple):
        for one in answer:
            yield from rows(one)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_what_a_verb_returns_is_frozen(store: str, tmp_path: Path) -> None:
    """Whichever verb it is, and whatever backend holds the row; what a worker function is given, too."""
    seen: list[object] = []
    workers = Workers()

    def step(context: TaskContext) -> None:
        seen.extend([context.task, current_task()])

    def own() -> None:
        seen.append(current_task())

    workers.add("step", step)
    workers.add("own", own)
    child = WorkflowDef.from_json({"name": "child", "tasks": [{"name": "x", "taskReferenceName": "x", "type": "SIMPLE"}]})
    definition = WorkflowDef.from_json({"name": "w", "tasks": TASKS})
    place = () if store == "memory" else (str(tmp_path / "s.db"),)
    with Engine(*place, workers=workers, clock=VirtualClock()) as engine:
        engine.register(child)
        run = engine.start(definition, correlation_id="one")
        engine.settle()
        seen.append(engine.signal(run.workflow_id, {"x": 1}))
        engine.settle()
        polled = engine.poll("x")
        assert len(polled) == 1
        [task] = polled
        result = TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.IN_PROGRESS, lease=task.lease)
        seen += [
            polled,
            engine.tasks.get(task.task_id),
            engine.update_task(result),
            engine.update_task(attrs.evolve(result, lease=None), poll="x"),
        ]
        done = attrs.evolve(result, status=TaskStatus.COMPLETED, lease=None)
        seen += [engine.update_tasks([done]), engine.admin.children(run.workflow_id), engine.admin.correlated("w", "one")]
        engine.settle()
        seen += [run.workflow, list(run.tasks), engine.get(run.workflow_id), engine.get(run.workflow_id, masked=True)]
        seen += [engine.executions(), [row for row, _ in engine.core.queries.logs(run.workflow_id)]]
    found = [row for answer in seen for row in rows(answer)]
    assert len(found) > 25
    assert {type(row) for row in found} == {Task, Workflow}
