"""A condition of an event handler that ends its process is asked three times, not for ever; the other handlers act."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from conductorlite import Engine, EventHandler, VirtualClock, WorkflowDef
from conductorlite.engine import events

pytest.importorskip("fcntl", reason="marks need locks that end with their process")


def handler(name: str, condition: str) -> EventHandler:
    """One that starts `w`."""
    action = {"action": "start_workflow", "start_workflow": {"name": "w"}}
    return EventHandler.from_json({"name": name, "event": "e", "condition": condition, "active": True, "actions": [action]})


def killed(path: Path) -> bool:
    """Publish in a process that dies while a condition is asked; whether it did."""
    child = os.fork()
    if child == 0:
        try:
            events.is_true = lambda _: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment, return-value]
            with Engine(path, clock=VirtualClock(0)) as engine:
                engine.events.publish("e", {}, message_id="m")
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("deaths", [2, 3])
def test_the_third_death_is_the_last(tmp_path: Path, deaths: int) -> None:
    """Then it is FAILED, once for all, and what comes after it is done; after two it has its chance."""
    path = tmp_path / "a.db"
    with Engine(path, clock=VirtualClock(0)) as engine:
        engine.register(WorkflowDef.from_json({"name": "w", "tasks": [{"name": "n", "taskReferenceName": "n", "type": "NOOP"}]}))
        engine.events.register(handler("first", "true"))
        engine.events.register(handler("then", ""))
    for _ in range(deaths):
        assert killed(path)
    with Engine(path, clock=VirtualClock(0)) as engine:
        done = {one.name: one for one in engine.events.publish("e", {}, message_id="m")}
        if deaths == 3:
            assert str(done["first"].status) == "FAILED"
            assert "three times running" in str(done["first"].output.value)
        else:
            assert str(done["first"].status) == "COMPLETED"
        assert str(done["then"].status) == "COMPLETED"
        assert {one.name: one.status for one in engine.events.publish("e", {}, message_id="m")} == {
            name: one.status for name, one in done.items()
        }
    assert not Path(f"{path}.marks").exists()
