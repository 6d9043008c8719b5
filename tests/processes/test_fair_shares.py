"""Shares of keys that take turns, counted over processes on one file: weights 1 and 3, and a flood of one of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from conductorlite import Engine, TaskDef, WorkflowDef, WorkflowTask
from conductorlite.store.sqlite.backend import SQLiteBackend

#: What a process does: take, complete, until it has had its part; every line is one hand-out, by the number of its admission.
_PROGRAM: Final = """
import json, sys
from conductorlite import Engine, TaskResult, TaskStatus
from conductorlite.store.sqlite.backend import SQLiteBackend
path, count = sys.argv[1], int(sys.argv[2])
with Engine(SQLiteBackend(path, synchronous="NORMAL", busy_timeout_ms=60_000)) as engine:
    while count:
        for task in engine.poll("serve", timeout="200ms"):
            engine.update_task(TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED))
            print(json.dumps(task.input.value["tenant"]), flush=True)
            count -= 1
        engine.settle()
"""


def _shares(folder: Path, hand_outs: int, processes: int) -> Counter[str]:
    served = TaskDef(
        name="serve",
        concurrent_exec_limit=1,
        fairness_key="${workflow.input.tenant}",
        fairness_weights={"big": 3},
        timeout_ms=0,
        poll_timeout_ms=0,
    )
    task = WorkflowTask(name="serve", task_reference_name="serve", input_parameters={"tenant": "${workflow.input.tenant}"})
    path = folder / "store.db"
    with Engine(SQLiteBackend(path, synchronous="NORMAL")) as engine:
        engine.register(served)
        definition = WorkflowDef(name="served", tasks=[task])
        engine.start_many(definition, [{"tenant": "flood"}] * hand_outs)
        engine.start_many(definition, [{"tenant": "big"}] * hand_outs)
    part = str(hand_outs // processes)
    running = [
        subprocess.Popen([sys.executable, "-c", _PROGRAM, str(path), part], stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    found = Counter[str]()
    for process in running:
        out, _ = process.communicate()
        assert process.returncode == 0
        found.update(json.loads(line) for line in out.splitlines())
    with Engine(SQLiteBackend(path)) as engine:
        assert engine.admin.check() == []
    return found


@pytest.mark.parametrize("hand_outs", [pytest.param(80, marks=pytest.mark.slow), pytest.param(10_000, marks=pytest.mark.deep)])
def test_shares_are_those_of_the_weights(tmp_path: Path, hand_outs: int) -> None:
    """Within one percent, or the one hand-out before the other tenant came, in four processes."""
    found = _shares(tmp_path, hand_outs, 4)
    assert found.total() == hand_outs
    assert abs(found["big"] - hand_outs * 3 / 4) <= max(2, hand_outs * 3 / 400)
    assert abs(found["flood"] - hand_outs / 4) <= max(2, hand_outs / 400)
