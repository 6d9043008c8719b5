"""Random definitions, stopped at random, run again from random tasks: they end as an execution that was left alone."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from engine_kit import Bench
from rerun_kit import offered
from run_time_kit import Json, forked, loop, node, same, static, switched, tried, workflow

from conductorlite import TaskStatus

#: The shortest lives in the fast run, all of them in the deep one.
SEEDS = [pytest.param(seed, marks=[pytest.mark.deep] if seed in (5, 8, 12, 13, 16, 17) else []) for seed in range(20)]

Ends = dict[str, tuple[str, Any]]


class Author:
    """Writes definitions."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.number = 0

    def ref(self, event: str) -> str:
        """A reference that was not used yet."""
        self.number += 1
        return f"{event}{self.number}"

    def tasks(self, depth: int, most: int = 3) -> list[Json]:
        """A list of tasks, one at least."""
        return [task for _ in range(self.chance.randint(1, most)) for task in self.one(depth)]

    def one(self, depth: int) -> list[Json]:
        """A task, or a fork with its JOIN."""
        kinds = ["worker", "worker", "human", "fork", "dynamic", "loop", "switch", "sub", "each"]
        kind = self.chance.choice(kinds[:3] if depth == 0 else kinds)
        if kind == "human":
            return [node(self.ref("h"), "HUMAN")]
        if kind == "fork":
            return static(self.ref("f"), self.ref("j"), *(self.tasks(depth - 1, 2) for _ in range(self.chance.randint(1, 3))))
        if kind == "dynamic":
            branches: Any = [self.tasks(depth - 1, 2) for _ in range(self.chance.randint(1, 3))]
            return forked(self.ref("f"), self.ref("j"), branches)
        if kind == "each":
            return same(
                [{"n": n} for n in range(self.chance.randint(1, 3))], self.ref("f"), self.ref("j"), forkTaskName=self.ref("e")
            )
        if kind == "loop":
            return [loop(self.ref("l"), *self.tasks(depth - 1, 2))]
        if kind == "switch":
            return [switched(self.ref("s"), "x", x=self.tasks(depth - 1, 2), y=self.tasks(0, 1))]
        if kind == "sub":
            child = {"name": self.ref("w"), "tasks": self.tasks(depth - 1, 2), "outputParameters": {"done": True}}
            params = {"name": child["name"], "workflowDefinition": child}
            return [node(self.ref("c"), "SUB_WORKFLOW", subWorkflowParam=params)]
        return [tried(self.ref("t"))]


def step(bench: Bench, chance: Random, *, fail: bool = False) -> bool:
    """Do one of the things that are to be done; whether there was one."""
    people = [
        task
        for one in bench.engine.admin.workflow_ids()
        for task in bench.engine.get(one).tasks
        if task.task_type == "HUMAN" and not task.status.terminal
    ]
    ready = [*offered(bench), *people]
    if not ready:
        return False
    task = chance.choice(sorted(ready, key=lambda task: (task.workflow_id, task.seq, task.ref)))
    if task.task_type != "HUMAN":
        task = bench.take(task.task_type)
    status = TaskStatus.FAILED if fail else TaskStatus.COMPLETED
    bench.engine.signal(task.workflow_id, {"of": task.ref}, task=task.task_id, status=status)
    bench.engine.settle()
    return True


def ends(bench: Bench, workflow_id: str) -> Ends:
    """Status and output of every task, those of the executions below included; ids of executions are left out."""
    found: Ends = {"": (str(bench.engine.status(workflow_id)), None)}
    for task in {task.ref: task for task in bench.engine.get(workflow_id).tasks}.values():
        output = {key: value for key, value in task.output_data.items() if key != "subWorkflowId"}
        found[task.ref] = (str(task.status), None if task.task_type in ("DO_WHILE", "JOIN") else output)
        if task.task_type == "JOIN":
            found[task.ref] = (str(task.status), sorted(task.output_data))
        if task.sub_workflow_id is not None:
            below = ends(bench, task.sub_workflow_id)
            found |= {f"{task.ref}/{ref}": end for ref, end in below.items()}
    return found


def family(bench: Bench) -> list[str]:
    """The execution under test and those below it, as far as tasks still point at them."""
    found = [bench.workflow_id]
    for one in found:
        found += [task.sub_workflow_id for task in bench.engine.get(one).tasks if task.sub_workflow_id and not task.retried]
    return found


def again(bench: Bench, chance: Random) -> None:
    """Stop somewhere, or not, and run again from somewhere."""
    for _ in range(chance.randint(0, 8)):
        step(bench, chance)
    how = chance.choice(["fail", "terminate", "go on", "finish"])
    if how == "fail":
        step(bench, chance, fail=True)
    elif how == "terminate" and not bench.workflow.status.terminal:
        bench.engine.terminate(bench.workflow_id)
    elif how == "finish":
        while step(bench, chance):
            pass
    bench.healthy()
    status = bench.workflow.status
    if status.terminal and status != "COMPLETED" and chance.random() < 0.3:
        bench.engine.retry(bench.workflow_id, resume_subworkflow_tasks=chance.random() < 0.5)
    elif chance.random() < 0.1:
        bench.engine.rerun(bench.workflow_id)
    else:
        tasks = [task for one in family(bench) for task in bench.engine.get(one).tasks if not task.retried]
        bench.engine.rerun(bench.workflow_id, from_task=chance.choice(tasks).task_id)
    bench.healthy()


@pytest.mark.parametrize("seed", SEEDS)
def test_run_again_it_ends_alike(bench: Bench, seed: int) -> None:
    """Same tasks, same statuses, same outputs, whatever was failed, terminated and run again on the way."""
    chance = Random(seed)
    definition = workflow(*Author(chance).tasks(3))
    undisturbed = bench.start(definition).workflow_id
    while step(bench, chance):
        pass
    expected = ends(bench, undisturbed)
    assert expected[""][0] == "COMPLETED", bench.workflow.reason
    bench.start(definition)
    for _ in range(4):
        again(bench, chance)
    for _ in range(5):
        while step(bench, chance):
            pass
        # One whose parent did not wait for it, because the loop or dynamic fork around it was over, failed by itself.
        failed = [one for one in family(bench) if bench.engine.status(one) in ("FAILED", "TERMINATED")]
        if failed:
            bench.engine.retry(failed[0])
        elif bench.status_of_workflow() == "COMPLETED":
            break
        else:
            bench.at(bench.second + 60)  # a failed task is due for its retry
    assert ends(bench, bench.workflow_id) == expected
