"""Twins to which everything can be done: all verbs on every execution of a family, and reports that come too late.

`RICH` are four definitions that hold together what random ones seldom do: families of three levels in loops and forks, of
one kind and the other, with compensations.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
from tape import LARGE
from test_migrated_lives import EDITS, MovingTwins, edited
from twins import journal

from conductorlite import (
    Engine,
    IdempotencyStrategy,
    InvalidDefinition,
    Task,
    TaskResult,
    TaskStatus,
    WorkflowDef,
    WorkflowStatus,
)
from conductorlite.errors import Conflict, DefinitionNotFound, TaskNotFound

__all__ = ["RICH", "FamilyTwins"]

Json = dict[str, Any]


def _simple(ref: str, name: str = "n0", **fields: Any) -> Json:
    retried = {"name": name, "retryCount": 1, "retryDelaySeconds": 2, "responseTimeoutSeconds": 7, "timeoutSeconds": 30}
    return {"name": name, "taskReferenceName": ref, "type": "SIMPLE", "taskDefinition": retried, **fields}


def _join(ref: str, *refs: str) -> Json:
    return {"name": ref, "taskReferenceName": ref, "type": "JOIN", "joinOn": list(refs)}


def _fork(ref: str, *branches: list[Json]) -> list[Json]:
    fork = {"name": ref, "taskReferenceName": ref, "type": "FORK_JOIN", "forkTasks": list(branches)}
    return [fork, _join(f"{ref}j", *(branch[-1]["taskReferenceName"] for branch in branches))]


def _child(ref: str, *tasks: Json, **fields: Any) -> Json:
    inner = {"name": f"in_{ref}", "tasks": list(tasks), **fields}
    return {"name": ref, "taskReferenceName": ref, "type": "SUB_WORKFLOW", "subWorkflowParam": {"workflowDefinition": inner}}


def _loop(ref: str, *body: Json) -> Json:
    condition = f"$.{ref}['iteration'] < 2"
    return {"name": ref, "taskReferenceName": ref, "type": "DO_WHILE", "loopCondition": condition, "loopOver": list(body)}


def _made(ref: str, *branches: Json) -> list[Json]:
    names = {"dynamicForkTasksParam": "t", "dynamicForkTasksInputParamName": "i"}
    given = {"inputParameters": {"t": list(branches), "i": {}}}
    return [{"name": ref, "taskReferenceName": ref, "type": "FORK_JOIN_DYNAMIC", **names, **given}, _join(f"{ref}j")]


def _undoing(task: Json) -> Json:
    return {**task, "compensate": {"name": "n1", "taskReferenceName": f"u{task['taskReferenceName']}"}}


_CHOICE: Json = {
    "name": "s",
    "taskReferenceName": "s",
    "type": "SWITCH",
    "evaluatorType": "value-param",
    "expression": "case",
    "inputParameters": {"case": "${workflow.input.n}"},
    "decisionCases": {"1": [_simple("one")], "2": [_child("two", _simple("deep"))]},
    "defaultCase": [{"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "3 s"}}],
}

_ASK: Json = {"name": "ask", "taskReferenceName": "ask", "type": "HUMAN"}

_FAMILY: Json = _child("g", _loop("l", _simple("x"), _simple("y", "n1")))
_DEEP: Json = _child("c", *_fork("f", [_simple("a"), _FAMILY], [_simple("b", "n1")]))
_MADE: list[Json] = _made("d", _simple("p"), _child("q", _child("r", _simple("k"))))
_UNDONE: list[Json] = _fork("h", [_undoing(_child("c", _simple("i")))], [_simple("j")])
_MIDDLE: Json = _child("m", _ASK, *_made("d", _simple("p", "n1"), _simple("q")), _loop("l", _child("g", _simple("x"))))

#: A family of three levels in a fork; a loop of dynamic forks with children; compensations, and a choice before a family; a
#: family whose middle makes a fork at run time and children in a loop.
RICH: tuple[Json, ...] = (
    {"name": "drawn", "tasks": [_simple("t"), _ASK, _DEEP, _simple("z", "n2")], "failureWorkflow": "mourn"},
    {"name": "drawn", "tasks": [_loop("o", *_MADE, _simple("v", "n1"))]},
    {"name": "drawn", "tasks": [_undoing(_simple("t")), _CHOICE, *_UNDONE]},
    {"name": "drawn", "tasks": [_MIDDLE, _simple("z")]},
)

#: What a verb may say when it does not fit.
REFUSALS = (Conflict, TaskNotFound, DefinitionNotFound, InvalidDefinition)


_ENDED = (WorkflowStatus.FAILED, WorkflowStatus.TIMED_OUT, WorkflowStatus.TERMINATED)

#: The statuses in which an operation has an effect.
MEANT = {
    "pause": (WorkflowStatus.RUNNING,),
    "resume": (WorkflowStatus.PAUSED,),
    "terminate": (WorkflowStatus.RUNNING, WorkflowStatus.PAUSED),
    "retry": _ENDED,
    "resume_children": _ENDED,
    "restart": (*_ENDED, WorkflowStatus.COMPLETED),
    "remove": (*_ENDED, WorkflowStatus.COMPLETED),
    "variables": (WorkflowStatus.RUNNING, WorkflowStatus.PAUSED),
}


class FamilyTwins(MovingTwins):
    """Twins with several executions, any of which may be migrated, started beside the others or removed."""

    def __init__(self, folder: Path, definition: Json, value: Json, **options: Any) -> None:
        self.versions = 1
        self.operation = ""
        self.started = 0
        super().__init__(folder, definition, value, **options)

    def ids(self, engine: Engine) -> list[str]:
        """Those that are stored, the first one first."""
        return sorted(engine.admin.workflow_ids(), key=lambda one: (one != self.workflow_id, one))

    def _verb(self, engine: Engine, call: Any, a: int) -> str:
        """On one of those the operation is meant for, if there is one and `a` is not 11; else on any."""
        ids = self.ids(engine)
        fit = [one for one in ids if engine.status(one) in MEANT.get(self.operation, ())]
        ids = fit if fit and a != 11 else ids
        if not ids:
            return "none"
        try:
            call(ids[a % len(ids)])
        except REFUSALS as refused:
            return str(refused)
        return "done"

    def act(self, operation: str, a: int, b: int) -> object:
        """Do one thing to both, which must answer the same."""
        self.operation = operation
        return super().act(operation, a, b)

    # ------------------------------------------------------------------ beginning and ending

    def _begin(self, index: int, engine: Engine, a: int, b: int) -> object:
        """Start another execution: with a key or not, now or later, in a domain or not."""
        if self.started > 2:
            return None
        self.started += index  # the second twin is the last
        strategy = (IdempotencyStrategy.FAIL, IdempotencyStrategy.RETURN_EXISTING, IdempotencyStrategy.FAIL_ON_RUNNING)[a % 3]
        try:
            return engine.start(
                "drawn",
                {"n": b % 3, "items": [1]},
                workflow_id=f"w{self.started + 1 - index}",
                idempotency_key="key" if a % 2 else None,
                idempotency_strategy=strategy,
                delay="4s" if b % 3 == 0 else None,
                task_to_domain={"n0": "d,NO_DOMAIN", "*": "e"} if b % 2 else None,
            ).workflow_id
        except REFUSALS as refused:
            return str(refused)

    def _remove(self, index: int, engine: Engine, a: int, b: int) -> object:
        return self._verb(engine, engine.admin.remove, a) if b > 4 else None

    def _decide(self, index: int, engine: Engine, a: int, b: int) -> object:
        return self._verb(engine, engine.admin.decide, a)

    def _restart(self, index: int, engine: Engine, a: int, b: int) -> object:
        return self._verb(engine, lambda one: engine.restart(one, use_latest_definitions=b > 5), a)

    # ------------------------------------------------------------------ definitions

    def _migrate(self, index: int, engine: Engine, a: int, b: int) -> object:
        """Move any execution to an edited definition, which sometimes is registered as well."""
        ids = self.ids(engine)
        if not ids:
            return "none"
        one = ids[(a * 2 + b) % len(ids)]
        current = engine.get(one).definition
        assert current is not None
        new, refs = edited({**current.to_json(), "version": self.versions}, EDITS[a % len(EDITS)], a, b)
        self.versions += index
        try:
            parsed = WorkflowDef.from_json(new)
            if b % 2:
                engine.register(parsed)
            return str(engine.definitions.migrate(one, parsed, refs=refs).verdict)
        except REFUSALS as refused:
            return str(refused)

    # ------------------------------------------------------------------ reports that come too late

    def _late(self, index: int, engine: Engine, a: int, b: int) -> object:
        """Report on every task ever polled that its worker does not hold any more; nothing may move."""
        answers = []
        for number, task in enumerate(self.polled[index]):
            row = self._row(engine, task)
            if row is not None and (row.status, row.lease, row.generation) == (TaskStatus.IN_PROGRESS, task.lease, task.generation):
                continue
            before = self._state(engine, task.workflow_id)
            # Of an earlier run even a report that shows no lease is void.
            lost = row is None or row.status.terminal or row.generation != task.generation
            answers.append(self._too_late(engine, attrs.evolve(task, lease=0) if lost and b % 2 else task, number + b))
            engine.settle()
            assert self._state(engine, task.workflow_id) == before, f"a late report on {task.ref} changed {task.workflow_id}"
        return answers

    def _row(self, engine: Engine, task: Task) -> Task | None:
        """The row as it is now under the reference the task was polled at."""
        try:
            return engine.tasks.get(task.task_id)
        except TaskNotFound:
            return None

    def _too_late(self, engine: Engine, task: Task, b: int) -> str:
        """Say it as the driver does, which holds the task and does not look it up first."""
        status = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.IN_PROGRESS)[b % 3]
        result = TaskResult(
            workflow_id=task.workflow_id,
            task_id=task.task_id,
            status=status,
            output_data={"late": LARGE if b % 4 == 0 else 1},
            lease=task.lease or None,
            callback_after_ms=3000 if b % 5 == 0 else 0,
        )
        try:
            reply = next(iter(engine.core.reports.report(task, result).replies.values()), None)
        except (Conflict, TaskNotFound, KeyError) as refused:
            return str(refused)
        return "nothing" if reply is None else str(reply.outcome)

    def _state(self, engine: Engine, workflow_id: str) -> object:
        try:
            return journal(engine, workflow_id), [attrs.asdict(task, recurse=False) for task in engine.get(workflow_id).tasks]
        except KeyError:
            return None

    # ------------------------------------------------------------------ the laws of families

    def waiting_parents(self, engine: Engine) -> dict[str, tuple[str, int]]:
        """Ended parents that must hear of it when a child goes on: child → (parent, lines in its history).

        Only where nothing excuses the parent: no loop or dynamic fork around, not optional, nothing compensated.
        """
        found = {}
        for one in self.ids(engine):
            child = engine.get(one)
            if child.parent_workflow_id is None or child.parent_workflow_id not in self.ids(engine):
                continue
            parent = engine.get(child.parent_workflow_id)
            task = next((task for task in parent.tasks if task.task_id == child.parent_task_id), None)
            ended = parent.status in (WorkflowStatus.FAILED, WorkflowStatus.TERMINATED, WorkflowStatus.TIMED_OUT)
            if not ended or task is None or task.retried or task.iterations or task.grafts:
                continue
            assert parent.definition is not None
            text = str(parent.definition.to_json())
            if "compensate" not in text and "'optional'" not in text and task.sub_workflow_id == one:
                found[one] = (parent.workflow_id, parent.history_seq)
        return found
