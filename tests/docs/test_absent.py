"""What the compatibility pages say is not here is not here: no verb, no command, no field, no package pretends."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Final

import attrs
import click
import pytest
from pages import ROOT
from witnesses import nodes_of

import conductorlite
from conductorlite import AsyncEngine, Engine, TaskResult, VirtualClock, WorkflowDef, WorkflowTask, errors
from conductorlite.cli.commands import complete
from conductorlite.engine.config import services
from conductorlite.ext.workers import system_workers
from conductorlite.model.scalars import camel_case
from conductorlite.plan.tree import OPERATOR_TYPES
from conductorlite.store.documents import TASKS, WORKFLOWS

#: Packages that listen to a network, talk to a broker, speak protobuf, or ask a model.
SERVERS: Final = {"http.server", "socketserver", "wsgiref", "grpc", "fastapi", "flask", "starlette", "uvicorn", "aiohttp"}
BROKERS: Final = {
    "pika",
    "aio_pika",
    "boto3",
    "botocore",
    "kafka",
    "confluent_kafka",
    "aiokafka",
    "nats",
    "stomp",
    "redis",
    "celery",
}
PROTOBUF: Final = {"google", "protobuf", "grpc"}
MODELS: Final = {"openai", "anthropic", "transformers", "langchain", "litellm"}


def _said() -> Iterator[str]:
    """The names of all verbs of both engines, of all commands, and of what the package exports."""
    with Engine() as engine:
        owners = [engine, AsyncEngine, *services(engine).values()]
        yield from (name for owner in owners for name in dir(owner) if not name.startswith("_"))
    yield from conductorlite.__all__
    waiting: list[tuple[str, click.Command]] = [("", complete())]
    while waiting:
        path, command = waiting.pop()
        yield path
        if isinstance(command, click.Group):
            waiting += [(f"{path} {name}".strip(), one) for name, one in command.commands.items()]


SAID: Final = sorted({re.sub(r"(?<=[a-z])(?=[A-Z])|[ -]", "_", name).lower() for name in _said()})


@cache
def _imported() -> set[str]:
    found = set()
    for path in (ROOT / "conductorlite").rglob("*.py"):
        # What listens when it is asked to: the room of servers, that of the test kit, and `drive --health`.
        if "server" in (path.parent.name, path.parent.parent.name, path.stem) or path.stem == "driving":
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
                found |= {node.module}
    return found | {name.split(".")[0] for name in found}


def _modules(node: ast.AST) -> list[str]:
    """What a statement imports from."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module is not None and not node.level else []


def _required() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for name, lines in project["optional-dependencies"].items() if name != "dev" for line in lines]
    return {re.split(r"[^\w-]", line)[0].lower().replace("-", "_") for line in (*project["dependencies"], *extras)}


def test_the_names_are_looked_at() -> None:
    """The lists above are those of the engine, the commands and the package: what is there is found in them."""
    assert {"start", "remove_executions", "unregister", "schedule_remove", "workflow_def"} <= set(SAID)
    assert {"sqlite3", "httpx", "click"} <= _imported()
    assert {"attrs", "httpx", "click"} <= _required()


def test_no_verb_for_files() -> None:
    """Nothing takes, lists or hands out a file; a backup is of a whole store."""
    assert [name for name in SAID if re.search(r"(^|_)files?(_|$)|upload|download", name)] == []


def test_no_server() -> None:
    """No module but those of the room `server` imports what could listen; no verb speaks of health, versions or codes of one."""
    assert sorted(_imported() & SERVERS) == []
    words = re.compile(r"server|http_|rest_|(?<!index_)health$|admin_|swagger|context_js")
    assert [name for name in SAID if words.search(name)] == []


def test_no_error_of_a_server() -> None:
    """No exception stands for a refused login, a wrong method, or a request that is too large for a server."""
    assert [name for name in errors.__all__ if re.search(r"Forbidden|Permission|Unauthori|Method|RequestTooLarge|Http", name)] == []


def test_no_broker() -> None:
    """A client of a broker is imported by the modules of the extras `amqp`, `kafka` and `sqs` only; `redis` is for a lock."""
    adapters = {"kafka": {"confluent_kafka"}, "sqs": {"boto3", "botocore", "botocore.exceptions"}, "redis_lock": {"redis"}}
    adapters["amqp"] = {"pika", "pika.exceptions"}
    assert sorted(_imported() & BROKERS - {"redis", "confluent_kafka", "boto3", "botocore", "pika"}) == []
    assert sorted(_required() & BROKERS - {"redis", "confluent_kafka", "boto3", "pika"}) == []
    for path in (ROOT / "conductorlite").rglob("*.py"):
        names = {one.split(".")[0] for node in nodes_of(path) for one in _modules(node)}
        assert sorted(names & BROKERS - adapters.get(path.stem, set())) == [], path


def test_no_model() -> None:
    """No module imports a client of a language model, and no verb speaks of agents, skills or tokens."""
    assert sorted(_imported() & MODELS) == []
    assert [name for name in SAID if re.search(r"agent|skill|providers|a2a|llm|prompt|token_usage", name)] == []


def test_there_is_no_protobuf() -> None:
    """No module imports it, and no report or definition has a field for a message of it."""
    assert sorted(_imported() & PROTOBUF) == []
    fields = {camel_case(field.name) for field in attrs.fields(TaskResult)}
    assert fields & {"inputMessage", "outputMessage", "taskInputMessage", "taskOutputMessage"} == set()


def test_a_report_has_no_such_field() -> None:
    """What a worker reports says nothing of latencies, of a child, or of being canceled."""
    fields = {camel_case(field.name) for field in attrs.fields(TaskResult)}
    assert fields & {"executionMetadata", "subWorkflowId", "supportsCancellation"} == set()


def test_search_has_no_classifier() -> None:
    """Neither executions nor tasks are found by a classifier."""
    assert [subject.field("classifier") for subject in (WORKFLOWS, TASKS)] == [None, None]
    assert WORKFLOWS.field("priority") is not None


@pytest.mark.parametrize(
    "kind",
    ["LLM_TEXT_COMPLETE", "GENERATE_IMAGE", "GET_WORKFLOW", "YIELD", "HTTP_POLL", "BUSINESS_RULE"],
)
def test_a_task_of_that_type_is_offered_to_workers(kind: str) -> None:
    """Neither the engine nor a worker that we ship carries it out: it waits for a worker of that name."""
    assert kind not in OPERATOR_TYPES
    assert kind not in {worker.task_type for worker in system_workers()}
    engine = Engine(clock=VirtualClock(0))
    run = engine.start(WorkflowDef(name="w", tasks=[WorkflowTask(name="t", task_reference_name="t", type=kind)]))
    assert [task.workflow_id for task in engine.poll(kind)] == [run.workflow_id]
