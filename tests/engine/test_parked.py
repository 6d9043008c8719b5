"""What may be done to a parked execution: it is looked at, resumed or terminated; everything else says that it is parked."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from engine_kit import Bench, flow, fork, join, simple, wait

from conductorlite import Engine, TaskContext, WorkflowTask
from conductorlite.errors import Parked
from conductorlite.model.decisions import Event, EventKind


def offered(ref: str) -> WorkflowTask:
    """A task of the type `x`."""
    return WorkflowTask(name="x", task_reference_name=ref)


PARKED_VERBS: dict[str, Callable[[Engine, str], object]] = {
    "pause": Engine.pause,
    "retry": Engine.retry,
    "restart": Engine.restart,
    "rerun": Engine.rerun,
    "skip_task": lambda engine, one: engine.skip_task(one, "next"),
    "update_variables": lambda engine, one: engine.update_variables(one, {"x": 1}),
    "signal": lambda engine, one: engine.signal(one, task="bad"),
    "migrate": lambda engine, one: engine.definitions.migrate(one, flow(simple("bad"), version=2)),
    "decide": lambda engine, one: engine.admin.decide(one),
}


@pytest.mark.parametrize("verb", PARKED_VERBS)
def test_a_parked_execution_says_so(bench: Bench, verb: str) -> None:
    """A verb on a parked execution is refused with the reason, and leaves nothing in its inbox."""
    bench.start(flow(simple("bad"), simple("next")))
    with bench.engine.backend.writing() as tx:
        tx.executions.park(bench.workflow_id, 3, "a law")
    with pytest.raises(Parked, match=rf"{bench.workflow_id}: is parked \(a law\); resume it first, or terminate it"):
        PARKED_VERBS[verb](bench.engine, bench.workflow_id)
    with bench.engine.backend.reading() as view:
        assert [str(event.kind) for event in view.inbox.events(bench.workflow_id)] == ["POLL_TIMEOUT"]
    bench.engine.resume(bench.workflow_id)
    assert bench.after(lambda: bench.do("bad")) == ["next"]


def test_parked_tasks_hide_no_others(bench: Bench) -> None:
    """Tasks of a parked execution are not handed out, and however many they are, those behind them are."""
    bench.start(flow(fork("f", *([offered(f"t{n}")] for n in range(40))), join("j", "t0")))
    parked = bench.workflow_id
    with bench.engine.backend.writing() as tx:
        tx.executions.park(parked, 3, "a law")
    bench.at(1)
    bench.start(flow(offered("behind")))
    bench.engine.settle()
    taken = bench.engine.poll("x", count=3)
    assert [task.ref for task in taken] == ["behind"]
    bench.engine.terminate(parked)


def test_the_worker_of_a_parked_execution_goes_on(bench: Bench) -> None:
    """A sign of life is answered with Parked, and the report is kept; resumed, the execution takes it."""
    bench.start(flow(simple("a", {"response_timeout_s": 9}), simple("b")))
    task = bench.take("a")
    with bench.engine.backend.writing() as tx:
        tx.executions.park(bench.workflow_id, 3, "a law")
    with pytest.raises(Parked, match="a law"):
        bench.engine.tasks.extend_lease(task)
    assert TaskContext(task, bench.engine).heartbeat()
    assert bench.report(task).status == "IN_PROGRESS"
    bench.engine.resume(bench.workflow_id)
    assert bench.statuses() == {"a": "COMPLETED", "b": "SCHEDULED"}


DEADLINES = {
    "WAIT_ENDS": wait("t", duration="1h"),
    "POLL_TIMEOUT": simple("t", {"poll_timeout_s": 60}),
    "TOTAL_TIMEOUT": simple("t", {"total_timeout_s": 60}),
}


@pytest.mark.parametrize("kind", [*DEADLINES, "WORKFLOW_TIMEOUT"])
def test_a_deadline_that_fires_early_parks_the_execution(bench: Bench, kind: str) -> None:
    """A law that is broken undoes the turn, three times, and is the reason; nothing has become of the deadline."""
    task = DEADLINES.get(kind, simple("t"))
    bench.start(flow(task, timeout_ms=60_000))
    before = bench.journal()
    about = {"ref": "t"} if kind in DEADLINES else {}
    event_id = f"{kind}:t" if kind in DEADLINES else kind
    now = bench.clock.now()
    early = Event(workflow_id="w1", event_id=event_id, kind=EventKind(kind), due_at=now, posted_at=now, **about)
    with bench.engine.backend.writing() as tx:
        tx.inbox.post([early])
    bench.engine.settle()
    assert "ms early" in str(bench.workflow.parked)
    assert bench.journal() == before
    bench.engine.terminate("w1")
