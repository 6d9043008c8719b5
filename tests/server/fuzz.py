"""Random requests over REST and gRPC, most of them wrong: none ends in a traceback, and what is stored stays right.

python tests/server/fuzz.py [--requests N] [--seed S] [--store memory|FILE]

Half are REST, drawn along the OpenAPI document (in this process, behind the guard), half gRPC, drawn along the messages, over a
port. A status of 500 counts as wrong unless it is Conductor's own for that operation, a gRPC code UNKNOWN or INTERNAL always.
The laws of the store are checked at the end of each thousand.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import httpx

from conductorlite import Engine, EngineConfig, Semantics, TaskDef, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.server.rest import rest_app
from conductorlite.server.rest.operations import Operation, Place, Text
from conductorlite.server.rest.routes import OPERATIONS

#: Operations of which a 500 is Conductor's own answer.
FIVE_HUNDRED: Final = {"delete_workflow", "delete_task_def", "remove_event_handler", "resume", "skip_task"}
_PIECE: Final = 1_000

_TEXTS: Final = ("x", "flow", "", "0", "-1", "9" * 20, "a'b", "\x00", "😀", "é", "..", "a/b", "COMPLETED", "FAILED", "true", "*")
_QUERIES: Final = (
    "status IN (RUNNING)",
    "workflowType='flow' AND",
    "1e5",
    "null",
    "${workflow.input.x}",
    "0 0 9 * * ?",
    "conductor:e",
)
_NUMBERS: Final = (0, 1, -1, 60, 2**31, 2**63, 1.5, 10**30, 1e308)
_NAMES: Final = (
    *("name", "version", "tasks", "type", "taskReferenceName", "status", "workflowInstanceId", "taskId", "input", "workflowDef"),
    *("actions", "event", "outputData", "logs", "cronExpression", "startWorkflowRequest", "taskRefToMockOutput", "inputParameters"),
    *("retryCount", "timeoutSeconds", "forkTasks", "joinOn", "loopOver", "loopCondition", "expression", "evaluatorType", "query"),
    *("reRunFromTaskId", "workflowInput", "taskInput", "correlationId", "priority", "taskToDomain", "action", "condition", "@type"),
)


class Draw:
    """What is asked, drawn by chance; ids of what there is are drawn often."""

    def __init__(self, seed: int) -> None:
        self.by = random.Random(seed)
        self.ids: list[str] = ["x"]

    def text(self) -> str:
        """An id, or a text that is likely to be wrong."""
        return self.by.choice(self.ids if self.by.random() < 0.4 else _TEXTS + _QUERIES)

    def value(self, depth: int = 0) -> Any:
        """Any JSON."""
        kind = self.by.randrange(8)
        if kind == 0:
            return self.by.choice((None, True, False))
        if kind == 1:
            return self.by.choice(_NUMBERS)
        if kind < 4 or depth > 3:
            return self.text()
        if kind == 4:
            return [self.value(depth + 1) for _ in range(self.by.randrange(3))]
        return {self.by.choice(_NAMES): self.value(depth + 1) for _ in range(self.by.randrange(5))}

    def body(self) -> Any:
        """A body that could be meant, in parts of another making; or anything."""
        step = {"name": "a", "taskReferenceName": self.text(), "type": self.by.choice(("SIMPLE", "WAIT", "JOIN", "INLINE", "x"))}
        flow = {"name": self.by.choice(("flow", "f2")), "version": 1, "tasks": [step]}
        report = {"workflowInstanceId": self.text(), "taskId": self.text(), "status": self.by.choice(("COMPLETED", "FAILED", "x"))}
        schedule = {"name": "s", "cronExpression": self.by.choice(_QUERIES), "startWorkflowRequest": {"name": "flow"}}
        meant = (flow, [flow], {"name": "flow"}, report, [self.text()], schedule, [{"name": "t", "retryCount": 1}])
        found = self.by.choice(meant) if self.by.random() < 0.6 else self.value()
        if isinstance(found, dict) and self.by.random() < 0.4:
            return found | {self.by.choice(_NAMES): self.value(2)}
        return found

    def request(self) -> tuple[Operation, str, dict[str, str], bytes | None]:
        """An operation, its path, its query and its body."""
        one = self.by.choice(OPERATIONS)
        path = re.sub(r"\{\w+\}", lambda _: _quoted(self.text() or "x"), one.path)
        query = {each.name: self.text() for each in one.parameters if each.place is Place.QUERY and self.by.random() < 0.5}
        for name in ("timeout", "waitForSeconds", "timeoutMillis"):  # nothing is awaited for long
            if any(each.name == name for each in one.parameters):
                query[name] = "-1"
        body = next((each for each in one.parameters if each.place is Place.BODY), None)
        if body is None:
            return one, path, query, None
        text = self.text() if body.type is Text else json.dumps(self.body())
        return one, path, query, text.encode()[: None if self.by.random() < 0.95 else 5]


def _quoted(text: str) -> str:
    return "".join(f"%{each:02X}" for each in text.encode())


class Wrong:
    """What went wrong, each kind once, with how often."""

    def __init__(self) -> None:
        self.kinds: dict[tuple[str, ...], str] = {}
        self.counts: Counter[str] = Counter()
        self.logged: list[str] = []

    def note(self, shown: str, *kind: str) -> None:
        """Note one."""
        self.kinds.setdefault(kind, shown)


class _Logged(logging.Handler):
    def __init__(self, wrong: Wrong) -> None:
        super().__init__(logging.ERROR)
        self._wrong = wrong

    def emit(self, record: logging.LogRecord) -> None:
        """An error in a server's log is a traceback that somebody should have caught."""
        self._wrong.logged.append(record.getMessage()[:300])


def prepare(engine: Engine, draw: Draw, executions: int) -> None:
    """Something to ask for: executions that run, one that has ended, a task that is held."""
    steps = (WorkflowTask(name="a", task_reference_name="a"), WorkflowTask(name="w", task_reference_name="w", type="WAIT"))
    engine.register(TaskDef(name="a", retry_count=1), WorkflowDef(name="flow", tasks=steps), overwrite=True)
    draw.ids += [engine.start("flow").workflow_id for _ in range(executions)]
    engine.settle()
    draw.ids += [one.task_id for one in engine.poll("a", worker_id="vm", count=3)]
    engine.terminate(draw.ids[1])


def rest(engine: Engine, draw: Draw, wrong: Wrong, requests: int) -> None:
    """So many random requests over REST."""

    async def main() -> None:
        transport = httpx.ASGITransport(rest_app(engine))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080", timeout=60) as client:
            for number in range(requests):
                one, path, query, body = draw.request()
                shown = f"{one.method} {path} {query} {body!r}"[:600]
                try:
                    answer = await client.request(one.method, path, params=query, content=body)
                except Exception as error:
                    wrong.note(shown, one.name, type(error).__name__, str(error)[:100])
                    continue
                _judge(one, answer, shown, wrong)
                if number % 20 == 0:
                    engine.advance("1s")

    asyncio.run(main())


def _judge(one: Operation, answer: httpx.Response, shown: str, wrong: Wrong) -> None:
    wrong.counts[f"REST {answer.status_code}"] += 1
    if answer.status_code >= 500 and not (answer.status_code == 500 and one.function.__name__ in FIVE_HUNDRED):
        wrong.note(shown, one.name, str(answer.status_code), answer.text[:100])
    if answer.status_code >= 400 and not {"status", "message", "retryable"} <= answer.json().keys():
        wrong.note(shown, one.name, "no form of an error", answer.text[:100])


def grpc(engine: Engine, draw: Draw, wrong: Wrong, requests: int) -> None:
    """So many random requests over gRPC."""
    import grpc as wire

    from conductorlite.server.grpc import METHODS, grpc_served
    from conductorlite.server.messages import message_class

    with grpc_served(engine) as port, wire.insecure_channel(f"127.0.0.1:{port}") as channel:
        for number in range(requests):
            method = draw.by.choice(METHODS)
            takes, gives = message_class(method.takes), message_class(method.gives)
            kind = channel.unary_stream if method.stream else channel.unary_unary
            call = kind(f"/{method.service}/{method.name}", takes.SerializeToString, gives.FromString)
            message = filled_by_chance(takes(), draw)
            try:
                answer = call(message, timeout=30)
                if method.stream:
                    list(answer)
                code = "OK"
            except wire.RpcError as error:
                code = error.code().name
                if code in ("UNKNOWN", "INTERNAL", "DEADLINE_EXCEEDED"):
                    wrong.note(f"{method.name} {message}"[:600], method.name, code, str(error.details())[:100])
            wrong.counts[f"gRPC {code}"] += 1
            if number % 20 == 0:
                engine.advance("1s")


def filled_by_chance(message: Any, draw: Draw, depth: int = 0) -> Any:
    """A message with some of its fields set."""
    for field in message.DESCRIPTOR.fields:
        if draw.by.random() < (0.5 if depth else 0.3):
            continue
        repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
        if field.message_type is not None:
            if depth < 3:
                _fill(message, field, repeated, draw, depth)
            continue
        value = _scalar(field, draw)
        if repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)
    return message


def _fill(message: Any, field: Any, repeated: bool, draw: Draw, depth: int) -> None:
    inner = getattr(message, field.name)
    if field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        name = _scalar(key, draw)
        if value.message_type is None:
            inner[name] = _scalar(value, draw)
        else:
            filled_by_chance(inner[name], draw, depth + 1)
    else:
        filled_by_chance(inner.add() if repeated else inner, draw, depth + 1)


def _scalar(field: Any, draw: Draw) -> Any:
    kind = field.cpp_type
    if kind == field.CPPTYPE_STRING:
        return draw.text().encode() if field.type == field.TYPE_BYTES else draw.text()
    if kind == field.CPPTYPE_BOOL:
        return draw.by.random() < 0.5
    if kind == field.CPPTYPE_ENUM:
        return draw.by.choice(field.enum_type.values).number
    if kind in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        return draw.by.choice((0.0, 1.5, -1.0, 1e308, float("inf"), float("nan")))
    return draw.by.choice(
        (0, 1, 2, 60, 2**31 - 1) if kind in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64) else (0, 1, -1, 2**31 - 1)
    )


def asked(requests: int, seed: int, store: str | None = None, *, executions: int = 20) -> Wrong:
    """Ask so many, in pieces; what went wrong."""
    draw, wrong = Draw(seed), Wrong()
    logged = _Logged(wrong)
    logging.getLogger().addHandler(logged)
    try:
        with Engine(store, clock=VirtualClock(), config=EngineConfig(semantics=Semantics.OSS)) as engine:
            for begun in range(0, requests, _PIECE):
                prepare(engine, draw, executions)
                piece = min(_PIECE, requests - begun)
                rest(engine, draw, wrong, piece // 2)
                grpc(engine, draw, wrong, piece - piece // 2)
                for problem in engine.admin.check():
                    wrong.note(str(problem), "the store", str(problem)[:60])
                del draw.ids[1 : -2 * executions]
                print(f"\r{begun + piece}/{requests}", end="", file=sys.stderr, flush=True)
    finally:
        logging.getLogger().removeHandler(logged)
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask, and print what went wrong; 1 if anything did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", help="a file; by default in memory")
    options = parser.parse_args(arguments)
    logging.getLogger("conductorlite").setLevel(logging.ERROR)
    begun = time.monotonic()
    wrong = asked(options.requests, options.seed, options.store)
    print(file=sys.stderr)
    for kind, shown in wrong.kinds.items():
        print("WRONG", *kind, "|", shown)
    for line in sorted(set(wrong.logged)):
        print("LOGGED", line)
    print(f"{options.requests} requests in {time.monotonic() - begun:.0f} s:", dict(sorted(wrong.counts.items())))
    return 1 if wrong.kinds or wrong.logged else 0


if __name__ == "__main__":
    sys.exit(main())
