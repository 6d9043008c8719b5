"""The strategies: what they draw is valid, as varied as promised, and ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductorlite import Engine, TaskDef, VirtualClock, WorkflowDef, WorkflowTask, validate, validate_task_def
from conductorlite.testing import ScriptedWorkers, Step
from conductorlite.testing.strategies import COMPOUND, LEAVES, definitions, inputs, outcomes, task_defs


def lists_in(task: WorkflowTask) -> list[Sequence[WorkflowTask]]:
    """The lists of tasks directly inside a task."""
    return [task.loop_over, task.default_case, *task.fork_tasks, *task.decision_cases.values()]


def every_task(tasks: Sequence[WorkflowTask]) -> Iterator[WorkflowTask]:
    """All tasks of a tree."""
    for task in tasks:
        yield task
        for inner in lists_in(task):
            yield from every_task(inner)


def depth(tasks: Sequence[WorkflowTask]) -> int:
    """How many tasks are nested in each other at most."""
    return max((1 + depth(inner) for task in tasks for inner in lists_in(task) if inner), default=0)


@given(definition=definitions())
def test_definitions_are_valid(definition: WorkflowDef) -> None:
    """No errors and no warnings; and the JSON of a definition is read back as the same one."""
    assert validate(definition) == []
    assert WorkflowDef.from_json(definition.to_json()) == definition


@given(task_def=task_defs())
def test_task_definitions_are_valid(task_def: TaskDef) -> None:
    """No errors and no warnings for any mix of policies and timeouts."""
    assert validate_task_def(task_def) == []


@pytest.mark.parametrize(("examples", "times"), [(50, 1), pytest.param(200, 10, marks=pytest.mark.deep)])
def test_definitions_are_varied(examples: int, times: int) -> None:
    """Every kind occurs, a third of the definitions nest three kinds, expressions read tasks, input, rounds."""
    kinds: Counter[str] = Counter()
    depths: list[int] = []
    texts: list[str] = []

    @settings(max_examples=examples, database=None, derandomize=True)
    @given(definition=definitions())
    def draw(definition: WorkflowDef) -> None:
        tasks = list(every_task(definition.tasks))
        kinds.update({str(task.type) for task in tasks})
        kinds.update(flag for flag in ("optional", "permissive", "start_delay_ms") if any(getattr(t, flag) for t in tasks))
        kinds.update({f"WAIT {key}" for t in tasks if t.type == "WAIT" for key in t.input_parameters or ["for ever"]})
        kinds.update({"items" if t.items else "condition" for t in tasks if t.type == "DO_WHILE"})
        depths.append(depth(definition.tasks))
        texts.append(str(definition.to_json()))

    draw()
    wanted = {*COMPOUND, *LEAVES, "JOIN", "optional", "permissive", "start_delay_ms"}
    wanted |= {"WAIT duration", "WAIT until", "WAIT for ever", "items", "condition"}
    assert {name for name in wanted if kinds[name] < times} == set()
    assert sum(each >= 3 for each in depths) * 3 > len(depths)
    for read in (".output.value}", "${workflow.input.", ".output.iteration}"):
        assert sum(read in text for text in texts) > times


@given(definition=definitions(depth=1, length=1, branches=1, nodes=3, kinds=["SIMPLE", "FORK_JOIN"]))
def test_sizes_can_be_chosen(definition: WorkflowDef) -> None:
    """Depth, length, branches and kinds are what was asked for."""
    tasks = list(every_task(definition.tasks))
    assert {task.type for task in tasks} <= {"SIMPLE", "FORK_JOIN", "JOIN"}
    assert depth(definition.tasks) <= 1
    assert len(tasks) <= 4


@given(
    definition=definitions(indefinite_waits=False),
    value=inputs(),
    script=outcomes(),
    extra=st.integers(0, 1),
)
def test_definitions_end(definition: WorkflowDef, value: Any, script: dict[str, tuple[Step, ...]], extra: int) -> None:
    """Without waits for ever and workers that hang, every execution ends by itself, and breaks no law."""
    workers = ScriptedWorkers().follow(script)
    with Engine(clock=VirtualClock(), workers=workers) as engine:
        runs = [engine.start(definition, value, workflow_id=f"w{n}") for n in range(1 + extra)]
        assert engine.run_until_idle(timeout="20h")
        assert engine.admin.check() == []
        assert all(run.status.terminal for run in runs)
