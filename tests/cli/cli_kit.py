"""A folder with definitions, workers and a database, and a way to run commands in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from conductorlite import Engine
from conductorlite.cli import main
from conductorlite.testing.faults import lay_empty_store

#: Definitions the tests run, by file name.
DEFINITIONS: dict[str, Any] = {
    "hello.json": {
        "name": "hello",
        "schemaVersion": 2,
        "tasks": [{"name": "greet", "taskReferenceName": "greet", "inputParameters": {"name": "${workflow.input.name}"}}],
        "outputParameters": {"text": "${greet.output.text}"},
    },
    "broken.json": {
        "name": "broken",
        "schemaVersion": 2,
        "tasks": [
            {
                "name": "explode",
                "taskReferenceName": "boom",
                "taskDefinition": {"name": "explode", "retryCount": 0},
            },
            {"name": "greet", "taskReferenceName": "after"},
        ],
    },
    "waiting.json": {
        "name": "waiting",
        "schemaVersion": 2,
        "tasks": [{"name": "w", "taskReferenceName": "w", "type": "WAIT"}],
    },
    "invalid.json": {
        "name": "",
        "schemaVersion": 2,
        "tasks": [
            {"name": "a", "taskReferenceName": "same"},
            {"name": "b", "taskReferenceName": "same"},
        ],
    },
}

WORKERS = """
import time
from conductorlite import Workers, TaskFailedTerminally, flow, task

workers = Workers()
more = Workers()
nothing = 7


@workers.task("greet")
def greet(name: str = "you") -> dict:
    return {"text": f"Hello, {name}!"}


@workers.task("slow")
def slow() -> dict:
    time.sleep(1.5)
    return {"done": True}


@more.task("explode", retry_count=0)
def explode() -> None:
    raise ValueError("boom \\x1b[31m[bold]red[/bold]")


@task
def said(name: str) -> str:
    return name


@flow
def greeting(name: str) -> str:
    return said(name)
"""


@attrs.frozen
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


@attrs.define
class Shell:
    """Runs commands in a folder."""

    folder: Path
    capture: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> Answer:
        """One command line."""
        self.capture.readouterr()
        code = main(list(arguments))
        said = self.capture.readouterr()
        return Answer(code, said.out, said.err)

    def engine(self) -> Engine:
        """An engine on the default database."""
        return Engine(lay_empty_store(self.folder / "conductorlite.db"))

    def hello(self, workflow_id: str = "h1") -> Answer:
        """A finished execution."""
        lay_empty_store(self.folder / "conductorlite.db")
        return self("run", "hello.json", "--input", '{"name": "Ada"}', "--workers", "crew:workers", "--id", workflow_id)

    def failed(self, workflow_id: str = "f1") -> Answer:
        """An execution that failed."""
        return self("run", "broken.json", "--workers", "crew:workers", "--workers", "crew:more", "--id", workflow_id)
