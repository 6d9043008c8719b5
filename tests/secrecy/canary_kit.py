"""Three secrets that nobody may find again, a workflow that names them wherever one is accepted, and workers that leak them."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import quote, quote_plus

from conductorlite import TaskContext, TaskFailedTerminally, TaskResult, TaskStatus, Workers, WorkflowDef
from conductorlite.errors import SinkError
from conductorlite.ext.workers import system_workers

#: Signs that every encoding treats in its own way.
TOKEN = 'cAnArY7f3e-"quoted"\\back/+&=% ü end'
#: Long, so that whoever quotes it cuts it short.
LONG = "LoNgCaNaRy" + "0123456789abcdefghij" * 8
#: JSON: it is named by path, and as a whole.
DB = json.dumps({"user": "dbUsErCaNaRy", "password": {"text": "pAsSwOrDcAnArY"}, "port": 987654321})

SECRETS = {"TOKEN": TOKEN, "LONG": LONG, "DB": DB}

#: What must not be found anywhere: pieces of the values, as they are and in base64.
PIECES = tuple(
    piece.encode()
    for piece in (
        "cAnArY7f3e", "LoNgCaNaRy", "0123456789abcdefghij01", "dbUsErCaNaRy", "pAsSwOrDcAnArY", "987654321",
        *(base64.b64encode(bytes(n) + TOKEN.encode()).decode()[4:16] for n in range(3)),
    )
)  # fmt: skip


class Vault:
    """A provider that counts."""

    def __init__(self, secrets: Mapping[str, str] = SECRETS) -> None:
        self.secrets = dict(secrets)
        self.asked: list[str] = []

    def get(self, name: str, /) -> str | None:
        """The secret."""
        self.asked.append(name)
        return self.secrets.get(name)


#: One of each way to name one.
INPUT: dict[str, Any] = {
    "token": "${workflow.secrets.TOKEN}",
    "text": "Bearer ${workflow.secrets.TOKEN}; n=${workflow.input.n}",
    "deep": [{"list": ["${workflow.secrets.LONG}", 1]}],
    "password": "${workflow.secrets.DB.password.text}",
    "port": "${workflow.secrets.DB.port}",
    "whole": "${workflow.secrets.DB}",
}


def leaks(given: Mapping[str, Any]) -> dict[str, Any]:
    """Everything a careless worker can make of its input."""
    token = str(given["token"])
    pair = base64.b64encode(f"user:{token}".encode()).decode()
    return {
        "copy": dict(given),
        "text": str(dict(given)),
        "json": json.dumps(dict(given)),
        "twice": json.dumps(json.dumps(dict(given))),
        token: "as a key",
        "urls": [quote(token), quote(token, safe=""), quote_plus(token)],
        "basic": f"Basic {pair}",
        "safe": base64.urlsafe_b64encode(token.encode()).decode(),
        "port": given["port"],
        "hex": token.encode().hex(),
    }


def careless(sink: Any) -> Workers:
    """Workers that hand on all they are given."""
    workers = Workers()
    log = logging.getLogger("conductorlite.worker")

    @workers.task("leaky")
    def leaky(context: TaskContext) -> dict[str, Any]:
        assert context.input["token"] == TOKEN
        assert context.input["text"] == f"Bearer {TOKEN}; n=7"
        assert context.input["deep"] == [{"list": [LONG, 1]}]
        assert (context.input["password"], context.input["port"]) == ("pAsSwOrDcAnArY", 987654321)
        assert json.loads(context.input["whole"]) == json.loads(DB)
        context.log(f"using {context.input['token']}")
        context.log(f"cut {context.input['deep']!r:.60}")
        context.log(str(dict(context.input)))
        log.debug("called with %r", context.task)
        return leaks(context.input)

    @workers.task("later")
    async def later(context: TaskContext) -> dict[str, Any]:
        return leaks(context.input)

    @workers.task("stumbles", retry_count=2, retry_delay_seconds=1)
    def stumbles(context: TaskContext) -> TaskResult | dict[str, Any]:
        token, deep = context.input["token"], context.input["deep"]
        if context.attempt == 0:
            try:
                raise KeyError(token)
            except KeyError as error:
                raise RuntimeError(f"cannot use {deep[0]['list'][0][:40]}… or {token!r}") from error
        if context.attempt == 1:
            return TaskResult(
                workflow_id=context.workflow_id,
                task_id=context.task_id,
                status=TaskStatus.FAILED,
                output_data=leaks(context.input),
                reason="x" * 490 + token,
                traceback=json.dumps(token),
                worker_id=f"worker of {token}",
                logs=[token, repr(token)],
            )
        return leaks(context.input)

    @workers.task("odd")
    def odd(context: TaskContext) -> Any:
        return {"set": {context.input["token"]}, context.input["token"]: object()}

    @workers.task("gives_up")
    def gives_up(context: TaskContext) -> None:
        raise TaskFailedTerminally(context.input["text"])

    @workers.task("typed")
    def typed(token: int) -> None:
        raise AssertionError("never called")

    workers.include(system_workers(sinks={"kafka": sink, "loud": sink}))
    return workers


class LoudSink:
    """A sink that takes one message and quotes it in the refusal of the next."""

    def __init__(self) -> None:
        self.taken: list[Any] = []

    def publish(self, destination: str, payload: Any, *, message_id: str, key: Any = None, headers: Any = None) -> None:
        """Take it, or say what it was."""
        self.taken.append((destination, payload, key, headers))
        if len(self.taken) % 2 == 0:
            raise SinkError(f"{destination}: {payload} {headers}")


class Echo(BaseHTTPRequestHandler):
    """A server that answers with what it was sent."""

    seen: list[str]

    def do_POST(self) -> None:
        """Answer with path, headers and body, in the headers too."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.seen.append(self.headers["X-Token"])  # type: ignore[attr-defined]
        answer = json.dumps({"path": self.path, "headers": dict(self.headers.items()), "body": body}).encode()
        self.send_response(200 if "ok" in self.path else 500)
        self.send_header("X-Echo", quote(self.headers["X-Token"]))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


class EchoServer:
    """An `Echo` on this machine while the block lasts."""

    def __enter__(self) -> EchoServer:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
        self.seen: list[str] = []
        self._server.seen = self.seen  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def task(name: str, ref: str | None = None, **fields: Any) -> dict[str, Any]:
    """A task with all the secrets in its input."""
    return {"name": name, "taskReferenceName": ref or name, "type": "SIMPLE", "inputParameters": INPUT, **fields}


def http(ref: str, url: str, path: str, **fields: Any) -> dict[str, Any]:
    """An HTTP task with secrets in its address, headers and body."""
    request = {
        "uri": f"{url}/{path}?key=${{workflow.secrets.DB.user}}",
        "method": "POST",
        "headers": {"Authorization": "Bearer ${workflow.secrets.LONG}", "X-Token": "${workflow.secrets.LONG}"},
        "body": {"token": "${workflow.secrets.TOKEN}", "list": ["${workflow.secrets.DB}"]},
    }
    return {"name": ref, "taskReferenceName": ref, "type": "HTTP", "inputParameters": {"http_request": request}, **fields}


def child(name: str) -> dict[str, Any]:
    """A workflow of one leaky task."""
    return {"name": name, "version": 1, "schemaVersion": 2, "tasks": [task("leaky", f"{name}_leaky")]}


def whole(url: str) -> WorkflowDef:
    """The workflow that names secrets in every place that accepts one, and fails in the end."""
    fork = [task("leaky", "made_1"), {**task("stumbles", "made_2"), "type": "SIMPLE"}]
    publish = {"bootStrapServers": "b:1", "topic": "t", "value": INPUT, "key": "${workflow.secrets.TOKEN}"}
    tasks = [
        task("leaky", compensate=task("leaky", "undo_leaky")),
        task("later"),
        task("stumbles"),
        task("odd", optional=True),
        task("gives_up", optional=True),
        task("typed", optional=True),
        http("http_ok", url, "ok"),
        http("http_bad", url, "bad", optional=True, retryCount=1, taskDefinition={"name": "http_bad", "retryCount": 1,
             "retryDelaySeconds": 0}),
        {"name": "publish", "taskReferenceName": "publish", "type": "EVENT", "sink": "loud:${workflow.secrets.DB.user}",
         "inputParameters": INPUT},
        {"name": "record", "taskReferenceName": "record", "type": "KAFKA_PUBLISH", "optional": True,
         "inputParameters": {"kafka_request": {**publish, "headers": {"h": "${workflow.secrets.LONG}"}}}},
        {"name": "dynamic", "taskReferenceName": "dynamic", "type": "DYNAMIC", "dynamicTaskNameParam": "which",
         "inputParameters": {**INPUT, "which": "leaky"}},
        {"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN",
         "forkTasks": [[task("leaky", "left")], [task("later", "right")]]},
        {"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": ["left", "right"]},
        {"name": "loop", "taskReferenceName": "loop", "type": "DO_WHILE", "loopCondition": "$.loop['iteration'] < 2",
         "loopOver": [task("leaky", "round")]},
        {"name": "s", "taskReferenceName": "s", "type": "SWITCH", "evaluatorType": "value-param", "expression": "c",
         "inputParameters": {"c": "x"}, "decisionCases": {"x": [task("leaky", "case")]}},
        {"name": "df", "taskReferenceName": "df", "type": "FORK_JOIN_DYNAMIC", "dynamicForkTasksParam": "tasks",
         "dynamicForkTasksInputParamName": "inputs", "inputParameters": {"tasks": fork, "inputs": {}}},
        {"name": "dj", "taskReferenceName": "dj", "type": "JOIN"},
        {"name": "sub", "taskReferenceName": "sub", "type": "SUB_WORKFLOW", "inputParameters": {"n": 7},
         "subWorkflowParam": {"name": "child", "version": 1}},
        {"name": "st", "taskReferenceName": "st", "type": "START_WORKFLOW",
         "inputParameters": {"startWorkflow": {"name": "child", "version": 1, "input": {"n": 7}}}},
        {"name": "copy", "taskReferenceName": "copy", "type": "SET_VARIABLE",
         "inputParameters": {"seen": "${leaky.input}", "out": "${leaky.output}"}},
        {"name": "asked", "taskReferenceName": "asked", "type": "HTTP", "asyncComplete": True,
         "inputParameters": http("asked", url, "ok")["inputParameters"]},
        task("by_hand"),
        task("gives_up", "last"),
    ]  # fmt: skip
    return WorkflowDef.from_json(
        {
            "name": "whole",
            "version": 1,
            "schemaVersion": 2,
            "tasks": tasks,
            "failureWorkflow": "mourner",
            "outputParameters": {"in": "${leaky.input}", "out": "${stumbles.output}"},
        }
    )
