"""The two sides: a real server by plain HTTP, and an engine of ours on a clock that follows the server's."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

import httpx
from snapshots import Snapshot, snapshot

from conductorlite import (
    Engine,
    EngineConfig,
    EventHandler,
    Semantics,
    Task,
    TaskDef,
    TaskResult,
    TaskStatus,
    VirtualClock,
    WorkflowDef,
)
from conductorlite.errors import ConductorliteError
from conductorlite.ext.workers import system_workers
from conductorlite.model.documents import workflow_to_json

Payload = Mapping[str, Any]

DONE: Final = "done"
REFUSED: Final = "refused"
WORKER: Final = "worker"

Held = TypeVar("Held")


class _Side(ABC, Generic[Held]):
    """What is known of a case on either side: its root execution, and what the worker holds of it."""

    def __init__(self, own: str) -> None:
        self._own = own
        self.held: dict[tuple[str, str], Held] = {}
        self.root = ""

    @abstractmethod
    def fetch(self, workflow_id: str) -> Payload | None: ...

    def snapshot(self) -> Snapshot:
        return snapshot(self.root, self.fetch, self._own)

    def _reported(self, workflow_id: str, ref: str, status: str) -> Held | None:
        """What the worker holds of a task that it reports on: IN_PROGRESS it keeps, with any other status it lets go."""
        held = self.held.get((workflow_id, ref))
        if held is not None and status != "IN_PROGRESS":
            del self.held[workflow_id, ref]
        return held


class Server(_Side[str]):
    """A case on a real server. Every verb answers DONE, or REFUSED with what was said."""

    def __init__(self, base: str, own: str) -> None:
        super().__init__(own)
        self._http = httpx.Client(base_url=base, timeout=60)
        self._handlers: list[str] = []

    def close(self) -> None:
        """Leave nothing running: the server looks at it every second."""
        with suppress(httpx.HTTPError):
            if self.root:
                self._call("DELETE", f"/workflow/{self.root}")
            for each in self._handlers:
                self._call("DELETE", f"/event/{each}")
        self._http.close()

    def _call(self, method: str, path: str, body: Any = None, **query: Any) -> str:
        given = {
            name: str(value).lower() if isinstance(value, bool) else value for name, value in query.items() if value is not None
        }
        answer = self._http.request(method, path, params=given, **({} if body is None else {"json": body}))
        return DONE if answer.is_success else f"{REFUSED}: {answer.text[:600]}"

    def register(self, workflows: Sequence[Payload], task_defs: Sequence[Payload], handlers: Sequence[Payload]) -> str:
        for each in task_defs:
            said = self._call("POST", "/metadata/taskdefs", [{"ownerEmail": "a@example.org", **each}])
            if said != DONE:
                return said
        self._handlers = [each["name"] for each in handlers]
        for each in handlers:
            said = self._call("POST", "/event", each)
            if said != DONE:
                return said
        return self._call("PUT", "/metadata/workflow", list(workflows))

    def start(self, name: str, given: Payload, options: Payload) -> str:
        answer = self._http.post("/workflow", json={"name": name, "input": given, **options})
        if not answer.is_success:
            return f"{REFUSED}: {answer.text[:600]}"
        self.root = answer.text
        return DONE

    def fetch(self, workflow_id: str) -> Payload | None:
        answer = self._http.get(f"/workflow/{workflow_id}")
        return answer.json() if answer.is_success else None

    def poll(self, kind: str, domain: str | None, expected: int, label: Callable[[str], str]) -> set[tuple[str, str]]:
        """Take all tasks of a type, waiting for as many as are `expected`; (execution, reference) of what it got."""
        got: set[tuple[str, str]] = set()
        until = time.monotonic() + 5
        while True:
            query = {"count": 50, "timeout": 100, "workerid": WORKER, **({"domain": domain} if domain else {})}
            answer = self._http.get(f"/tasks/poll/batch/{kind}", params=query)
            for each in answer.json() if answer.status_code == 200 and answer.text else ():
                self.held[each["workflowInstanceId"], each["referenceTaskName"]] = each["taskId"]
                got.add((label(each["workflowInstanceId"]), each["referenceTaskName"]))
            if len(got) >= expected or time.monotonic() > until:
                return got

    def report(self, workflow_id: str, ref: str, status: str, output: Payload, more: Payload) -> str:
        held = self._reported(workflow_id, ref, status)
        if held is None:
            return f"{REFUSED}: nobody holds {ref}"
        body = {
            "workflowInstanceId": workflow_id,
            "taskId": held,
            "status": status,
            "outputData": output,
            "workerId": WORKER,
            **more,
        }
        return self._call("POST", "/tasks", body)

    def signal(self, workflow_id: str, ref: str, status: str, output: Payload) -> str:
        return self._call("POST", f"/tasks/{workflow_id}/{ref}/{status}", dict(output))

    def decide(self, workflow_ids: Iterable[str]) -> None:
        """Have it look at executions, which it does by itself when it pleases."""
        for each in workflow_ids:
            self._call("PUT", f"/workflow/decide/{each}")

    def verb(self, workflow_id: str, step: Payload, task_id: str | None) -> str:
        at, did = f"/workflow/{workflow_id}", step["do"]
        if did in ("pause", "resume"):
            return self._call("PUT", f"{at}/{did}")
        if did == "terminate":
            return self._call("DELETE", at, reason=step.get("reason"))
        if did == "restart":
            return self._call("POST", f"{at}/restart", useLatestDefinitions=step.get("latest", False))
        if did == "retry":
            return self._call("POST", f"{at}/retry", resumeSubworkflowTasks=step.get("resume", False))
        if did == "rerun":
            names = {"input": "workflowInput", "task_input": "taskInput", "correlation_id": "correlationId"}
            body = {"reRunFromWorkflowId": workflow_id, **{names[name]: step[name] for name in names if name in step}}
            return self._call("POST", f"{at}/rerun", {**body, **({"reRunFromTaskId": task_id} if task_id else {})})
        if did == "bulk":
            method = "PUT" if step["verb"] in ("pause", "resume") else "POST"
            answer = self._http.request(method, f"/workflow/bulk/{step['verb']}", json=[workflow_id, "nobody"])
            return _bulk(workflow_id, answer.json()["bulkSuccessfulResults"], answer.json()["bulkErrorResults"])
        if did == "skip":
            body = {"taskInput": step.get("input"), "taskOutput": step.get("output")}
            return self._call("PUT", f"{at}/skiptask/{step['ref']}", **_query(body))
        raise ValueError(did)


def _bulk(workflow_id: str, succeeded: Sequence[str], failed: Mapping[str, Any]) -> str:
    if "nobody" in succeeded or "nobody" not in failed:
        return "nobody was found"
    return DONE if workflow_id in succeeded else f"{REFUSED}: {failed[workflow_id]}"


def _query(body: Mapping[str, Any]) -> dict[str, Any]:
    # Conductor reads a SkipTaskRequest out of the query, as Spring does for a parameter without @RequestBody.
    return {f"{name}[{key}]": value for name, part in body.items() for key, value in (part or {}).items()}


class Here(_Side[Task]):
    """The same case in an engine of ours; its clock is moved by hand."""

    def __init__(self, own: str) -> None:
        super().__init__(own)
        clock = VirtualClock(int(time.time() * 1000))
        self.engine = Engine(clock=clock, workers=system_workers(), config=EngineConfig(semantics=Semantics.OSS))

    def close(self) -> None:
        self.engine.close()

    def _try(self, call: Callable[[], Any]) -> str:
        try:
            call()
            self.engine.settle()
        except ConductorliteError as error:
            return f"{REFUSED}: {type(error).__name__}: {error}"[:600]
        return DONE

    def register(self, workflows: Sequence[Payload], task_defs: Sequence[Payload], handlers: Sequence[Payload]) -> str:
        def begin() -> None:
            self.engine.register(
                *(TaskDef.from_json(json.dumps(each)) for each in task_defs),
                *(WorkflowDef.from_json(json.dumps(each)) for each in workflows),
            )
            for each in handlers:
                self.engine.events.register(EventHandler.from_json(json.dumps(each)))

        return self._try(begin)

    def start(self, name: str, given: Payload, options: Payload) -> str:
        names = {"version": "version", "priority": "priority", "correlationId": "correlation_id", "taskToDomain": "task_to_domain"}
        known = {names[key]: value for key, value in options.items()}

        def begin() -> None:
            self.root = self.engine.start(name, given, **known).workflow_id

        return self._try(begin)

    def fetch(self, workflow_id: str) -> Payload | None:
        try:
            return workflow_to_json(self.engine.get(workflow_id))
        except ConductorliteError:
            return None

    def poll(self, kind: str, domain: str | None, label: Callable[[str], str]) -> set[tuple[str, str]]:
        got = set()
        for each in self.engine.poll(kind, worker_id=WORKER, count=50, domain=domain or None):
            self.held[each.workflow_id, each.ref] = each
            got.add((label(each.workflow_id), each.ref))
        return got

    def report(self, workflow_id: str, ref: str, status: str, output: Payload, more: Payload) -> str:
        held = self._reported(workflow_id, ref, status)
        if held is None:
            return f"{REFUSED}: nobody holds {ref}"
        result = TaskResult(
            workflow_id=workflow_id,
            task_id=held.task_id,
            status=TaskStatus(status),
            output_data=dict(output),
            lease=held.lease,
            reason=more.get("reasonForIncompletion"),
            callback_after_ms=int(more.get("callbackAfterSeconds", 0) * 1000),
        )
        return self._try(lambda: self.engine.update_task(result))

    def signal(self, workflow_id: str, ref: str, status: str, output: Payload) -> str:
        return self._try(lambda: self.engine.signal(workflow_id, dict(output), task=ref, status=TaskStatus(status)))

    def verb(self, workflow_id: str, step: Payload, task_id: str | None) -> str:
        engine, did = self.engine, step["do"]
        calls: dict[str, Callable[[], Any]] = {
            "pause": lambda: engine.pause(workflow_id),
            "resume": lambda: engine.resume(workflow_id),
            "terminate": lambda: engine.terminate(workflow_id, step.get("reason")),
            "restart": lambda: engine.restart(workflow_id, use_latest_definitions=step.get("latest", False)),
            "retry": lambda: engine.retry(workflow_id, resume_subworkflow_tasks=step.get("resume", False)),
            "skip": lambda: engine.skip_task(workflow_id, step["ref"], input=step.get("input"), output=step.get("output")),
            "rerun": lambda: engine.rerun(
                workflow_id,
                from_task=task_id,
                **{name: step[name] for name in ("input", "task_input", "correlation_id") if name in step},
            ),
        }
        if did == "bulk":
            verbs = {"pause": self.engine.pause, "resume": self.engine.resume, "terminate": self.engine.terminate}
            verb = {**verbs, "retry": self.engine.retry, "restart": self.engine.restart}[step["verb"]]
            report = self.engine.admin.bulk(verb, [workflow_id, "nobody"])
            self.engine.settle()
            failed = {each: f"{type(error).__name__}: {error}" for each, error in report.failed.items()}
            return _bulk(workflow_id, report.succeeded, failed)
        return self._try(calls[did])

    def pass_time(self, seconds: float) -> None:
        self.engine.advance(f"{seconds}s")
