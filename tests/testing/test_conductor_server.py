"""The Conductor server for tests: a real port, and a clock that moves when the test says so."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import Request, urlopen

import pytest

from conductorlite import Engine
from conductorlite.model.clock import SystemClock

pytest.importorskip("uvicorn")

from conductorlite.testing.server import ConductorServer


def ask(server: ConductorServer, method: str, path: str, body: Any = None) -> Any:
    """The answer to a request over the network."""
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(server.api + path, data, {"Content-Type": "application/json"}, method=method), timeout=10) as answer:
        said = answer.read().decode()
        return json.loads(said) if answer.headers.get_content_type() == "application/json" else said


def _register(server: ConductorServer) -> None:
    greet = {"name": "greet", "taskReferenceName": "greet"}
    child = {"name": "child", "taskReferenceName": "child", "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "inner"}}
    wait = {"name": "wait", "taskReferenceName": "wait", "type": "WAIT", "inputParameters": {"duration": "30 days"}}
    ask(server, "PUT", "/metadata/workflow", [{"name": "inner", "tasks": [wait]}, {"name": "outer", "tasks": [child, greet]}])
    ask(server, "POST", "/metadata/taskdefs", [{"name": "greet", "retryCount": 1, "retryDelaySeconds": 3600}])


def test_a_month_in_a_moment(conductor_server: ConductorServer) -> None:
    """A service that speaks HTTP waits a month and an hour of virtual time; what is due is done without a word from the test."""
    server = conductor_server
    _register(server)
    run = ask(server, "POST", "/workflow", {"name": "outer"})
    assert ask(server, "GET", "/tasks/poll/batch/greet?timeout=0") == []
    server.advance("30 days")
    for status in ("FAILED", "COMPLETED"):
        (task,) = ask(server, "GET", "/tasks/poll/batch/greet?timeout=5000&workerid=w")
        ask(server, "POST", "/tasks", {"workflowInstanceId": run, "taskId": task["taskId"], "status": status})
        server.advance("1 h")
    whole = ask(server, "GET", f"/workflow/{run}")
    assert (whole["status"], whole["endTime"] - whole["startTime"]) == ("COMPLETED", (30 * 24 + 1) * 3_600_000)


def test_an_engine_on_the_machines_clock_is_driven_too() -> None:
    """An engine of one's own is served and driven as it is, and stays open afterwards."""
    with Engine(clock=SystemClock()) as engine:
        with ConductorServer(engine) as server:
            ask(
                server,
                "POST",
                "/metadata/workflow",
                {"name": "none", "tasks": [{"name": "n", "taskReferenceName": "n", "type": "NOOP"}]},
            )
            outer = {"name": "outer", "tasks": [{"name": "c", "taskReferenceName": "c", "type": "SUB_WORKFLOW"}]}
            outer["tasks"][0]["subWorkflowParam"] = {"name": "none"}  # type: ignore[index]
            said = ask(server, "POST", "/workflow/execute/outer/1?waitForSeconds=20", {"workflowDef": outer})
            assert (said["targetWorkflowStatus"], said["signalTimeout"]) == ("COMPLETED", False)
        assert len(engine.executions()) == 2
