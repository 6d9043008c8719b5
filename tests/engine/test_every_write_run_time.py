"""Every write of an execution that makes its tasks at run time: a process that dies at any of them loses nothing.

Like the scenarios of test_every_write.py: a START_WORKFLOW, a dynamic fork with a sequence, a loop, a nested dynamic fork, and a
DYNAMIC. Calls that are lost in a crash are tried again.
"""

from __future__ import annotations

from typing import Any

import pytest
from crash_kit import STORES
from run_time_kit import Json, dynamic, forked, loop, node, starting

from conductorlite import Bounds, Engine, VirtualClock, WorkflowDef, WorkflowStatus
from conductorlite.engine.config import EngineConfig
from conductorlite.testing import ScriptedWorkers, crash_everywhere, start_once

MAIN_ID = "main-7"


def work(ref: str) -> Json:
    """A task of the one worker, tried again after five seconds."""
    policy = {"retryCount": 5, "retryDelaySeconds": 5, "responseTimeoutSeconds": 10, "pollTimeoutSeconds": 0, "timeoutSeconds": 120}
    return node(ref, name="work", inputParameters={"by": ref}, taskDefinition={"name": ref, **policy})


MADE: list[Any] = [
    [work("a"), work("b")],
    loop("l", work("c")),
    [*forked("g", "k", [[work("x"), node("w", "WAIT", inputParameters={"duration": "3 s"})], work("y")]), work("e")],
]

OTHER: Json = {"name": "other", "tasks": [work("far")]}

MAIN = WorkflowDef.from_json(
    {
        "name": "main",
        "tasks": [
            starting({"workflowDef": OTHER, "input": {"n": 1}}),
            *forked(tasks="${workflow.input.made}"),
            dynamic(who="work", inputs={"by": "d"}, taskDefinition=work("d")["taskDefinition"]),
        ],
        "outputParameters": {"joined": "${j.output}", "last": "${d.output}"},
    }
)


def script(workers: ScriptedWorkers) -> None:
    """What is returned does not depend on who is first."""
    workers.work.does(lambda by: {"by": by})


def scenario(engine: Engine) -> None:
    """Start, and run to the end."""
    start_once(engine, MAIN, {"made": MADE}, workflow_id=MAIN_ID)
    engine.run_until_idle()


def test_the_scenario_takes_every_way_it_should() -> None:
    """The undisturbed run makes every task it should, and both executions end."""
    workers = ScriptedWorkers()
    script(workers)
    with Engine(clock=VirtualClock(), workers=workers) as engine:
        scenario(engine)
        main = engine.get(MAIN_ID)
        refs = {task.ref for task in main.tasks}
        assert refs == {"s", "f", "a", "b", "l", "c__1", "c__2", "g", "x", "w", "y", "k", "e", "j", "d"}
        assert {str(engine.status(one)) for one in engine.admin.workflow_ids()} == {WorkflowStatus.COMPLETED}
        assert set(main.output_data["joined"]) == {"b", "l", "e"}
        assert main.output_data["last"] == {"by": "d"}


@pytest.mark.parametrize("rows", [5_000, pytest.param(1, marks=pytest.mark.deep)], ids=["whole turns", "turns cut at one row"])
@pytest.mark.parametrize(("store", "every"), STORES)
def test_a_crash_at_any_write_loses_nothing(store: str, every: int, rows: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Killed before and after each write, both executions end with the same history."""
    points = crash_everywhere(
        scenario, script, stores=[store], same_order=False, every=every, config=EngineConfig(bounds=Bounds(rows=rows))
    )
    with capsys.disabled():
        print(f" [{points} crash points on {store}]", end="")
    assert points >= 80 // every
