"""What a message costs, as counts: a commit an action and a turn, whatever was published before."""

from __future__ import annotations

from pathlib import Path

from conductorlite import Engine, EventAction, EventHandler, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.model.handlers import StartWorkflow
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.sqlite.statements import Counts

FLOW = WorkflowDef(name="flow", tasks=[WorkflowTask(name="w", task_reference_name="w", type="WAIT")])


def _counted(engine: Engine, counts: Counts, message_id: str) -> tuple[int, int, int]:
    counts.reset()
    engine.events.publish("e", {"n": 1}, message_id=message_id)
    return counts.commits, counts.statements, counts.rows_read


def test_a_message_costs_the_same_among_many(tmp_path: Path) -> None:
    """Two commits for an action that starts an execution, none for one that was done, none when nobody listens."""
    backend = SQLiteBackend(tmp_path / "s.db", synchronous="NORMAL", counting=True)
    counts = backend.counts
    assert counts is not None
    with Engine(backend, clock=VirtualClock(0)) as engine:
        engine.register(FLOW)
        counts.reset()
        engine.events.publish("e", {"n": 1}, message_id="nobody")
        assert counts.commits == 0
        action = EventAction(action="start_workflow", start_workflow=StartWorkflow(name="flow"))
        engine.events.register(EventHandler(name="h", event="e", actions=[action], condition="$.n > 0", active=True))
        engine.events.publish("e", {"n": 1}, message_id="first")
        early = _counted(engine, counts, "early")
        for number in range(300):
            engine.events.publish("e", {"n": 1}, message_id=str(number))
        late = _counted(engine, counts, "late")
        assert early == late
        assert late[0] == 2
        assert late[1] < 40
        again = _counted(engine, counts, "early")
        assert again[0] == 0
        assert again[1] < 12
