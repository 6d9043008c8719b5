"""The examples of one file: what each prints, and that its flows are what their Python says."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from scripts import EXAMPLES, load

from conductorlite import Engine, TaskStatus, VirtualClock
from conductorlite.flows import Flow, to_python
from conductorlite.testing import ScriptedWorkers

PRINTED = {
    "agent": "It has 68 °F.\nIt has 68 °F.\nask_model__1 weather__1 ask_model__2 fahrenheit__2 ask_model__3\n",
    "approval": "to Mia: please approve a desk for 300.0\nto the applicant: a desk: approved\na desk: approved\n"
    "to Mia: please approve a car for 300.0\nto Dan: Mia is silent; please approve a car\n"
    "to the applicant: a car: turned down\na car: turned down\n",
    "billing": "Ada: COMPLETED, paid 12 times; the year is over\nBob: FAILED, paid 2 times; Bob could not be charged\n"
    "Cem: TERMINATED, paid 4 times; canceled by the customer\n",
    "crawler": "600 links\ncalls in each minute: 10 10 9\n4 were refused and made again\n",
    "cron_report": "20300329T010000Z Rome sold 400\n20300330T010000Z Rome sold 400\n20300331T010000Z Rome sold 400\n"
    "20300401T000000Z Rome sold 400\n20300402T000000Z Rome sold 400\n",
    "migration": "article-1: SAFE\n  look: IN_PROGRESS, goes on\n  note: proofread: is new and will run\n"
    "published: a fine page about rain (version 2)\n",
    "orders": "mail: order 7, 12 paid, from the shelf of tea\nshelf of tea\n",
    "pipeline": "f00d: COMPLETED\nstaging is as it was\nbad1: FAILED\n",
    "poll_job": "holidays is at https://films.example/1.mp4\nasked 4 times in 90 seconds\n",
    "transfer": "40 from Ada to Bob: COMPLETED\n60 from Bob to Ada: FAILED\n"
    "60 from Ada to nobody: FAILED\n{'Ada': 60, 'Bob': 40}\n",
}


def test_the_script_runs_them_all() -> None:
    """`examples/run` names each, and so does the table."""
    script, table = ((EXAMPLES / name).read_text(encoding="utf-8") for name in ("run", "README.md"))
    names = re.search(r"^for name in (.*); do$", script, re.MULTILINE)
    assert names is not None
    assert names[1].split() == list(PRINTED)
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert set(re.findall(r"\]\((\w+)/", table)) == folders


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_does(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In memory, where it may be; each is a second run of nothing."""
    load(f"{name}/{name}.py").main()
    assert capsys.readouterr().out == PRINTED[name]


def _flows(script: str) -> list[Flow[..., Any]]:
    return [one for one in vars(load(script)).values() if isinstance(one, Flow)]


@pytest.mark.parametrize("script", [*(f"{name}/{name}.py" for name in PRINTED), "booking_saga/booking_saga.py", "etl/etl.py"])
def test_its_json_as_python_builds_the_same(script: str) -> None:
    """What is read from the JSON, without the functions, is the flow again, to the byte."""
    flows = _flows(script)
    assert flows
    for one in flows:
        namespace: dict[str, Any] = {"__name__": "made"}
        exec(compile(to_python(one.definition), "<made>", "exec"), namespace)
        made = [flow for flow in namespace.values() if isinstance(flow, Flow) and flow.definition.name == one.definition.name]
        assert json.dumps(one.definition.to_json()) in [json.dumps(flow.definition.to_json()) for flow in made]


#: How an execution of each flow begins.
INPUTS: dict[str, tuple[str, dict[str, Any]]] = {
    "agent": ("agent", {"question": "How hot is it in Rome?"}),
    "approval": ("purchase", {"item": "x", "amount": 1, "manager": "a", "director": "b"}),
    "billing": ("subscription", {"customer": "Ada", "amount": 1}),
    "crawler": ("crawl", {"pages": [1, 2]}),
    "cron_report": ("nightly_report", {"shop": "x"}),
    "migration": ("second", {"topic": "x"}),
    "orders": ("order", {"order": "7", "item": "tea"}),
    "pipeline": ("pipeline", {"commit": "bad"}),
    "poll_job": ("render", {"video": "x"}),
    "transfer": ("transfer", {"source": "Ada", "target": "nobody", "amount": 1}),
}

#: Each function of each flow.
STEPS = [
    (name, step)
    for name, (flow, _) in INPUTS.items()
    for step in sorted(getattr(load(f"{name}/{name}.py"), flow).workers.task_types)
]


@pytest.mark.parametrize(("name", "step"), STEPS)
def test_a_step_that_never_works_ends_it(name: str, step: str) -> None:
    """After its retries; nothing waits for ever. What is beside it is canceled."""
    flow, given = INPUTS[name]
    made = getattr(load(f"{name}/{name}.py"), flow)
    workers = ScriptedWorkers().include(made)
    workers[step].fails()
    if name == "transfer" and step != "withdraw":
        workers.withdraw.returns({"account": "Ada", "amount": 1})
    if step == "close_account":
        workers.charge.fails_terminally("no money")
    with Engine(workers=workers, clock=VirtualClock(0)) as engine:
        run = engine.start(made, **given)
        engine.run_until_idle()
        assert run.status.terminal
        failed = [one for row in engine.executions() for one in engine.get(row.workflow_id).tasks if one.task_type == step]
        assert failed
        ended = {TaskStatus.FAILED, TaskStatus.CANCELED, TaskStatus.COMPLETED_WITH_ERRORS}  # the last one: a `try` handles it
        assert {one.status for one in failed} <= ended
