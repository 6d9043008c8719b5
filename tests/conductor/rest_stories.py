"""What is told to both servers: what clients do, verb by verb, and every operation asked badly."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Final

from cases import OWN, task, workflow
from rest_definitions import GIVEN, events, quoted, schedules, task_definitions, workflow_definitions
from rest_requests import LOOK, Request, Story, asked_about_nobody, delete, get, poll, post, put, report, start

sys.path.append(str(Path(__file__).parents[1] / "server"))

from exchanges import STORY

#: A path of an operation whose answer is not awaited for long, though nothing comes of it.
_QUICK: Final = "waitForSeconds=1"


# ---------------------------------------------------------------------- what clients did

_NAMES: Final = re.compile(r"\b(hello|greet|two|waits|sets)\b")


def _recorded() -> Story:
    """The recorded exchanges, told as one story (tests/server/exchanges.py)."""

    def own(text: str) -> str:
        return _NAMES.sub(rf"{OWN}\1", text)

    requests = []
    for each in STORY:
        body = None if each.body is None else json.loads(own(json.dumps(each.body)))
        requests.append(Request(each.method, own(each.path), body, each.keep))
    return Story("recorded/story", tuple(requests))


# ---------------------------------------------------------------------- executions


def _started() -> Story:
    inline = workflow(task("n", "NOOP"), name="inline")
    return Story(
        "executions/started",
        (
            *GIVEN,
            start("w", version=1, input={"x": 1}, correlationId="c", priority=5, createdBy="me"),
            LOOK,
            get("/workflow/{wf}?includeTasks=false"),
            get("/workflow/{wf}/status?includeOutput=true&includeVariables=true"),
            get("/workflow/{wf}/tasks"),
            get("/workflow/{wf}/tasks?start=0&count=1&status=SCHEDULED"),
            get("/workflow/{wf}/tasks?status=COMPLETED"),
            get("/workflow/{wf}/tasks?status=BAD"),
            get(f"/workflow/{OWN}w/correlated/c?includeClosed=true&includeTasks=true"),
            get(f"/workflow/{OWN}w/correlated/d"),
            post(f"/workflow/{OWN}w/correlated?includeClosed=true", ["c", "d"]),
            get(f"/workflow/running/{OWN}w"),
            get(f"/workflow/running/{OWN}w?version=2"),
            get(f"/workflow/running/{OWN}w?version=1&startTime=1&endTime=2"),
            start("w", version=9),
            post("/workflow", {"name": f"{OWN}nobody"}),
            start("w", input=None),
            start("w", input=[]),
            start("w", input="x"),
            start("w", version="x"),
            start("w", priority=200),
            start("w", priority=-1),
            start("w", priority="x"),
            start("w", taskToDomain={f"{OWN}a": "d"}),
            LOOK,
            get(f"/tasks/poll/{OWN}a?workerid=vm&domain=d"),
            start("w", taskToDomain=[]),
            start("w", unknown=1),
            start("inline", workflowDef=inline),
            LOOK,
            start("inline", workflowDef=workflow(name="inline")),
            start("w", idempotencyKey="k", idempotencyStrategy="FAIL"),
            start("w", idempotencyKey="k", idempotencyStrategy="BAD"),
            post(f"/workflow/{OWN}w?version=1&correlationId=e&priority=3", {"x": 2}, "wf"),
            LOOK,
            post(f"/workflow/{OWN}w", {}),
            post(f"/workflow/{OWN}w?version=7", {}),
            post(f"/workflow/{OWN}w?priority=100", {}),
        ),
    )


def _worked() -> Story:
    return Story(
        "tasks/worked",
        (
            *GIVEN,
            get(f"/tasks/poll/{OWN}a?workerid=vm"),
            get(f"/tasks/poll/batch/{OWN}a?workerid=vm&timeout=100"),
            get(f"/tasks/poll/batch/{OWN}a?count=0"),
            get(f"/tasks/poll/batch/{OWN}a?count=-1"),
            get(f"/tasks/poll/batch/{OWN}a?timeout=6000"),
            get(f"/tasks/poll/batch/{OWN}a?timeout=-1"),
            start("w", input={"x": 1}),
            get(f"/tasks/queue/size?taskType={OWN}a"),
            get(f"/tasks/queue/sizes?taskType={OWN}a&taskType={OWN}b"),
            get("/tasks/queue/sizes"),
            poll("a"),
            get(f"/tasks/queue/polldata?taskType={OWN}a"),
            get("/tasks/{task}"),
            report("IN_PROGRESS", callbackAfterSeconds=0, outputData={"half": True}),
            LOOK,
            post("/tasks/{task}/log", b"a line"),
            get("/tasks/{task}/log"),
            report("BAD"),
            report("SCHEDULED"),
            report("COMPLETED", outputData=[]),
            report("COMPLETED", callbackAfterSeconds="x"),
            post("/tasks", {"taskId": "{task}", "status": "COMPLETED"}),
            post("/tasks", {"workflowInstanceId": "{wf}", "status": "COMPLETED"}),
            post("/tasks", {"workflowInstanceId": "{wf}", "taskId": "{task}"}),
            post("/tasks", {"workflowInstanceId": "{wf}", "taskId": "nobody", "status": "COMPLETED"}),
            poll("a"),
            report("FAILED", reasonForIncompletion="why", logs=[{"log": "one"}]),
            LOOK,
            poll("a"),
            report("COMPLETED", outputData={"o": 1}),
            report("COMPLETED", outputData={"o": 2}),
            report("FAILED"),
            LOOK,
            post("/tasks/{wf}/b/IN_PROGRESS", {"half": 1}),
            post("/tasks/{wf}/b/BAD", {}),
            post("/tasks/{wf}/nobody/COMPLETED", {}),
            post("/tasks/{wf}/a/COMPLETED", {}),
            post("/tasks/{wf}/b/COMPLETED/sync?workerid=me", {"o": {"deep": [1, None, 2.5]}}),
            post("/tasks/{wf}/b/COMPLETED", {}),
            LOOK,
            get("/workflow/{wf}/status?includeOutput=true&includeVariables=true"),
            start("w"),
            poll("a"),
            post("/tasks/update-v2", {"workflowInstanceId": "{wf}", "taskId": "{task}", "workerId": "vm", "status": "COMPLETED"}),
            poll("b"),
            report("FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion="no more"),
            LOOK,
            get("/tasks/{task}"),
        ),
    )


def _verbs() -> Story:
    at = "/workflow/{wf}"
    return Story(
        "executions/verbs",
        (
            *GIVEN,
            start("w"),
            put(f"{at}/pause"),
            LOOK,
            put(f"{at}/pause"),
            post(f"{at}/restart"),
            post(f"{at}/retry"),
            post(f"{at}/rerun", {}),
            put(f"{at}/resume"),
            put(f"{at}/resume"),
            put("/workflow/decide/{wf}"),
            put(f"{at}/skiptask/b"),
            put(f"{at}/skiptask/b"),
            put(f"{at}/skiptask/nobody"),
            put(f"{at}/skiptask/a"),
            poll("a"),
            report("IN_PROGRESS", callbackAfterSeconds=600),
            post(f"{at}/resetcallbacks"),
            poll("a"),
            report("COMPLETED"),
            LOOK,
            delete(f"{at}?reason=late"),
            put(f"{at}/pause"),
            put(f"{at}/resume"),
            put(f"{at}/skiptask/a"),
            post(f"{at}/resetcallbacks"),
            post(f"{at}/retry"),
            post(f"{at}/restart"),
            LOOK,
            delete(f"{at}?reason=enough"),
            LOOK,
            post(f"{at}/restart?useLatestDefinitions=true"),
            poll("a"),
            report("FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion="broken"),
            LOOK,
            post(f"{at}/retry"),
            LOOK,
            poll("a"),
            report("COMPLETED"),
            delete(f"{at}?reason=enough"),
            post(f"{at}/rerun", {"reRunFromTaskId": "nobody"}),
            post(f"{at}/rerun", {"reRunFromTaskId": "{task}", "taskInput": {"again": True}}),
            LOOK,
            delete(at),
            post(f"{at}/rerun", {"workflowInput": {"new": 1}, "correlationId": "again"}),
            LOOK,
            delete(f"{at}/terminate-remove?reason=x&archiveWorkflow=false"),
            get(at),
            start("w"),
            delete(f"{at}/remove?archiveWorkflow=false"),
            start("w"),
            delete(at),
            delete(f"{at}/remove?archiveWorkflow=false"),
            delete(f"{at}/remove"),
            get(at),
        ),
    )


def _rerun_while_it_runs() -> Story:
    rerun = post("/workflow/{wf}/rerun", {"reRunFromTaskId": "{task}"})
    return Story("executions/rerun", (*GIVEN, start("w"), poll("a"), report("COMPLETED"), rerun))


def _bulk() -> Story:
    both = ["{wf}", "nobody"]
    return Story(
        "executions/bulk",
        (
            *GIVEN,
            start("w"),
            put("/workflow/bulk/pause", both),
            put("/workflow/bulk/pause", both),
            put("/workflow/bulk/resume", both),
            put("/workflow/bulk/resume", both),
            post("/workflow/bulk/retry", both),
            post("/workflow/bulk/restart", both),
            post("/workflow/bulk/search", both),
            post("/workflow/bulk/search?includeTasks=false", ["{wf}", "{wf}"]),
            post("/workflow/bulk/terminate?reason=why", both),
            post("/workflow/bulk/terminate", both),
            post("/workflow/bulk/restart?useLatestDefinitions=true", both),
            delete("/workflow/bulk/terminate-remove?archiveWorkflow=false&reason=x", both),
            start("w"),
            delete("/workflow/{wf}"),
            delete("/workflow/bulk/remove?archiveWorkflow=false", both),
            *(put("/workflow/bulk/pause", each) for each in ([], [1], [None], "x")),
        ),
    )


def _searched() -> Story:
    name = f"workflowType='{OWN}w'"
    queries = (
        name,
        f"workflowType IN ({OWN}w,{OWN}v)",
        f"{name} AND status='RUNNING'",
        f"{name} AND status IN (COMPLETED,FAILED)",
        f"{name} AND correlationId='c'",
        f"{name} AND startTime>1",
        f"{name} AND startTime<1",
        f"{name} AND priority=0",
        f"{name} AND version=1",
        f'workflowType="{OWN}w"',
        f"({name})",
        f"{name} OR status='FAILED'",
        f"{name} AND",
        "nobody='x'",
        "workflowType",
        "workflowType=",
        "AND",
    )
    found = tuple(get(f"/workflow/search?query={quoted(each)}") for each in queries)
    tasks = tuple(
        get(f"/tasks/search?query={quoted(each)}")
        for each in (
            f"taskType='{OWN}a'",
            f"taskDefName='{OWN}a' AND status='COMPLETED'",
            f"taskType='{OWN}a' AND status IN (SCHEDULED)",
            "taskType",
        )
    )
    own = f"query={quoted(name)}"
    a = quoted(f"taskType='{OWN}a'")
    return Story(
        "executions/searched",
        (
            *GIVEN,
            start("w", correlationId="c", input={"word": "pineapple"}),
            poll("a"),
            report("COMPLETED", outputData={"o": 1}),
            *found,
            *(get(f"/workflow/search?{own}&{more}") for more in ("size=0", "size=1", "start=1", "sort=startTime:ASC", "sort=x:y")),
            *(get(f"/workflow/search?{own}&{more}") for more in ("size=-1", "start=-1", "freeText=pineapple", "freeText=nothing")),
            get(f"/workflow/search-v2?{own}"),
            get(f"/workflow/search?{own}&topLevelOnly=true"),
            *tasks,
            get(f"/tasks/search-v2?query={a}"),
            get(f"/workflow/search-by-tasks?query={a}"),
            get(f"/workflow/search-by-tasks-v2?query={a}"),
            get(f"/admin/task/{OWN}b"),
        ),
    )


# ---------------------------------------------------------------------- what waits


def _waited() -> Story:
    execute = f"/workflow/execute/{OWN}"
    mocked = {"name": f"{OWN}w", "taskRefToMockOutput": {"a": [{"status": "COMPLETED", "output": {"o": 1}}]}}
    return Story(
        "executions/waited",
        (
            *GIVEN,
            post(f"{execute}sets/1?requestId=r&{_QUICK}", {"name": f"{OWN}sets", "version": 1, "input": {"x": 1}}),
            post(f"{execute}sets/9?{_QUICK}", {"name": f"{OWN}sets"}),
            post(f"{execute}w/1?{_QUICK}", {"name": f"{OWN}w", "version": 1}),
            post(f"{execute}waits/1?{_QUICK}&returnStrategy=BLOCKING_TASK", {"name": f"{OWN}waits", "version": 1}),
            post(f"{execute}waits/1?{_QUICK}&returnStrategy=BLOCKING_TASK_INPUT", {"name": f"{OWN}waits", "version": 1}),
            post(f"{execute}waits/1?{_QUICK}&returnStrategy=BLOCKING_WORKFLOW", {"name": f"{OWN}waits", "version": 1}),
            post(f"{execute}waits/1?{_QUICK}&returnStrategy=BAD", {"name": f"{OWN}waits", "version": 1}),
            start("waits"),
            post("/tasks/{wf}/BAD/signal", {}),
            post("/tasks/{wf}/IN_PROGRESS/signal", {"half": 1}),
            post("/tasks/{wf}/COMPLETED/signal", {"x": 1}),
            LOOK,
            post("/tasks/{wf}/COMPLETED/signal", {"x": 1}),
            start("waits"),
            post("/tasks/{wf}/COMPLETED/signal/sync?timeoutMillis=500", {"x": 1}),
            start("waits"),
            post("/tasks/{wf}/FAILED/signal/sync?timeoutMillis=500&returnStrategy=BLOCKING_TASK", {}),
            LOOK,
            post("/workflow/test", mocked),
            post("/workflow/test", {**mocked, "taskRefToMockOutput": []}),
            post("/workflow/test", {"name": f"{OWN}nobody"}),
            start("waits"),
            post("/queue/update/{wf}/wait/COMPLETED", {"x": 1}),
            post("/queue/update/{wf}/wait/IN_PROGRESS", {}),
            post("/queue/update/{wf}/nobody/COMPLETED", {}),
            post("/admin/sweep/requeue/{wf}"),
            post("/admin/consistency/verifyAndRepair/{wf}"),
            start("parent"),
            LOOK,
            delete("/workflow/{wf}"),
            LOOK,
        ),
    )


def _odd() -> Story:
    """Requests that are none, and those of the kind that anybody can send."""
    big = {"name": f"{OWN}w", "input": {"x": "y" * 100_000}}
    return Story(
        "odd/requests",
        (
            *GIVEN,
            Request("PATCH", "/api/workflow", {}),
            Request("PUT", "/api/workflow", {}),
            Request("DELETE", "/api/tasks", None),
            Request("GET", "/api/", None),
            Request("GET", "/api/nobody", None),
            Request("GET", "/api/workflow/a/b/c/d", None),
            Request("GET", "/api/workflow/", None),
            Request("POST", "/api/workflow/", {"name": f"{OWN}nobody"}),
            Request("GET", "/api//workflow/search", None),
            Request("HEAD", "/api/metadata/workflow", None),
            Request("GET", "/health", None),
            Request("GET", "/context.js", None),
            post("/workflow", big, "wf"),
            get("/workflow/{wf}/status"),
            post("/workflow", b"\xff\xfe"),
            post("/workflow", b"null"),
            post("/workflow", b'"x"'),
            post("/workflow", b'{"name": "a", "name": "b"}'),
            post("/workflow", b'{"name": NaN}'),
            post("/workflow", b'{"name": "a",}'),
            post("/workflow", b"[" * 2000),
            get("/workflow/%20"),
            get("/workflow/a%2Fb"),
            get("/workflow/%C3%A9"),
            get("/workflow/x?includeTasks=TRUE"),
            get("/workflow/x?includeTasks=1"),
            get("/workflow/x?includeTasks=yes"),
            get("/workflow/x?includeTasks="),
        ),
    )


def stories() -> list[Story]:
    """All of them, those that begin nothing last."""
    told = [_recorded(), task_definitions(), workflow_definitions(), _started(), _worked(), _verbs()]
    told += [_rerun_while_it_runs(), _bulk(), _searched()]
    return [*told, _waited(), events(), schedules(), _odd(), *asked_about_nobody()]
