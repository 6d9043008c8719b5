"""Scripts that a bound ends: that is recorded, and so again when the record is lived again, however fast the machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conductorlite import Engine, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.errors import ExpressionFailed, InvalidInput
from conductorlite.language import processes
from conductorlite.language.javascript import JavaScript
from conductorlite.language.processes import Limits, ScriptCut, ScriptTimedOut, patience, run_script
from conductorlite.testing import replay


def _inline(ref: str, expression: str = "new Date(), 'done'", **fields: Any) -> WorkflowTask:
    values = {"expression": expression, "evaluatorType": "javascript"}
    return WorkflowTask(name=ref, task_reference_name=ref, type="INLINE", input_parameters=values, **fields)


def _switch() -> WorkflowTask:
    cases = {"x": [_inline("taken", "1")]}
    fields: dict[str, Any] = {"evaluator_type": "javascript", "expression": "new Date(), 'x'", "decision_cases": cases}
    return WorkflowTask(name="s", task_reference_name="s", type="SWITCH", optional=True, **fields)


def _loop() -> WorkflowTask:
    condition = "new Date(), $.d.iteration < 3"
    return WorkflowTask(
        name="d",
        task_reference_name="d",
        type="DO_WHILE",
        loop_over=[_inline("body", "1")],
        loop_condition=condition,
        optional=True,
    )


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> list[ExpressionFailed]:
    """A machine that ends the next scripts with what is put into the list, the last first."""
    ends: list[ExpressionFailed] = []
    real = processes._ask

    def ask(language: Any, line: bytes, *more: Any) -> str | None:
        if json.loads(line)["run"] and ends:
            raise ends.pop()
        return real(language, line, *more)

    monkeypatch.setattr(processes, "_ask", ask)
    return ends


@pytest.mark.parametrize(
    "script",
    ["let n = 0; new Promise(() => { for (;;) n++; }); n", "let n = 0; (async () => { for (;;) n++; })(); n"],
)
def test_a_script_that_catches_its_end_has_no_answer(script: str) -> None:
    """A promise keeps what its function throws, the end of its time too: how far it came would be the answer."""
    with pytest.raises(ScriptTimedOut):
        JavaScript(limits=Limits(seconds=0.05)).compile(script).evaluate({})


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize(
    "cut", [ScriptTimedOut("the script takes longer than 0.6 seconds"), ScriptCut("no memory")], ids=["time", "memory"]
)
@pytest.mark.parametrize("task", [_inline("i", optional=True), _switch(), _loop()], ids=["INLINE", "SWITCH", "DO_WHILE"])
def test_a_faster_machine_lives_the_same_life(
    store: str, cut: ScriptCut, task: WorkflowTask, machine: list[ExpressionFailed], tmp_path: Path
) -> None:
    """What was cut on a slow machine is cut again on one that would let it end: the replay compares every line."""
    where = [] if store == "memory" else [str(tmp_path / "cut.db")]
    with Engine(*where, clock=VirtualClock(1_900_000_000_000)) as engine:
        machine.append(cut)
        started = engine.start(WorkflowDef(name="w", tasks=[task, _inline("after")]))
        engine.run_until_idle()
        lines = engine.history(started.workflow_id)
        assert any(str(cut) in (line.reason or "") for line in lines)
        assert sum('"cut"' in (line.cause or "") for line in lines) == 1
        document = engine.admin.export(started.workflow_id)
    replayed = replay(document)
    assert replayed.lines == len(lines)
    assert replayed.engine.admin.export(replayed.workflow_id) == document
    replayed.engine.close()


def test_each_attempt_has_its_own_end(machine: list[ExpressionFailed]) -> None:
    """An attempt that was cut, and one that was not, of the same script."""
    with Engine(clock=VirtualClock(1_900_000_000_000)) as engine:
        machine.append(ScriptTimedOut("late"))
        started = engine.start(WorkflowDef(name="w", tasks=[_inline("i", retry_count=1)]))
        engine.run_until_idle()
        workflow = engine.get(started.workflow_id)
        assert [str(task.status) for task in workflow.tasks] == ["FAILED", "COMPLETED"]
        document = engine.admin.export(started.workflow_id)
    replay(document).engine.close()


def test_what_ended_once_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slower machine lives the same life too: a script that is not recorded as cut has many times its time."""
    asked: list[float] = []
    monkeypatch.setattr(processes, "_ask", lambda language, line, limits, *_: asked.append(limits.seconds) or '="x"')
    for patient in (False, True):
        with patience(patient):
            run_script("javascript", {"text": "x", "run": True, "patient": patient}, Limits(seconds=0.5))
    assert asked == [0.5, 10]


@pytest.mark.parametrize("cut", ["x", ["seed", 0], ["seed", 2, "words"], ["seed", 0, 3]])
def test_a_record_that_is_wrong_is_refused(cut: Any, machine: list[ExpressionFailed]) -> None:
    """With its place in the document."""
    with Engine(clock=VirtualClock(1_900_000_000_000)) as engine:
        machine.append(ScriptCut("no"))
        started = engine.start(WorkflowDef(name="w", tasks=[_inline("i")]))
        engine.run_until_idle()
        document = engine.admin.export(started.workflow_id)
    line = next(line for line in document["executions"][0]["history"] if "cut" in line.get("cause", {}))
    line["cause"]["cut"][0] = cut
    with pytest.raises(InvalidInput, match=r"cause\.cut\[0\]"):
        replay(document)
