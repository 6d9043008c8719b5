"""Versions of workers: an execution keeps to the version it was started on, or to one that takes it over."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conductorlite import Engine, TaskType, VirtualClock, Workers, WorkflowDef, WorkflowStatus, flow, task
from conductorlite.errors import InvalidInput
from conductorlite.model.decisions import version_domain, version_of
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.testing import FaultyBackend

BELOW = {"name": "below", "tasks": [{"name": "third", "taskReferenceName": "third"}]}
TWO = WorkflowDef.from_json(
    {
        "name": "two",
        "tasks": [
            {"name": "first", "taskReferenceName": "first"},
            {"name": "second", "taskReferenceName": "second", "retryCount": 1},
            {
                "name": "below",
                "taskReferenceName": "below",
                "type": "SUB_WORKFLOW",
                "subWorkflowParam": {"name": "below", "workflowDefinition": BELOW},
            },
        ],
    }
)

Stores = Callable[[], Any]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    """Opens the same store again and again."""
    if request.param == "sqlite":
        return lambda: tmp_path / "v.db"
    backend = MemoryBackend()
    return lambda: FaultyBackend(backend, keep_open=True)


def workers(version: str | None, *types: str, takes_over: tuple[str | None, ...] = ()) -> Workers:
    """Workers that put out their version."""
    made = Workers(version=version, takes_over=takes_over)
    for one in types:
        made.add(one, lambda: {"by": version})
    return made


def by(engine: Engine, workflow_id: str) -> list[Any]:
    """Which version carried out each task, those of sub-workflows included."""
    rows = [
        engine.get(workflow_id),
        *(engine.get(task.sub_workflow_id) for task in engine.get(workflow_id).tasks if task.sub_workflow_id),
    ]
    return [task.output_data.get("by") for row in rows for task in row.tasks if task.task_type in ("first", "second", "third")]


def test_an_execution_keeps_to_its_version(store: Stores) -> None:
    """A new version that is deployed beside the old one takes what it starts, retries and sub-workflows included."""
    with Engine(store(), workers=workers("1", "first"), clock=VirtualClock(0)) as old:
        old.start(TWO, workflow_id="old")
        old.settle()
    with Engine(store(), workers=workers("2", "first", "second", "third"), clock=VirtualClock(1000)) as new:
        new.start(TWO, workflow_id="new")
        new.settle()
        assert new.status("new") is WorkflowStatus.COMPLETED
        assert by(new, "new") == ["2", "2", "2"]
        assert new.status("old") is WorkflowStatus.RUNNING
        assert by(new, "old") == ["1", None]
    with Engine(store(), workers=workers("1", "second", "third"), clock=VirtualClock(2000)) as old:
        old.settle()
        assert by(old, "old") == ["1", "1", "1"]
        assert old.admin.check() == []


def test_explain_names_the_version_that_is_missing(store: Stores, caplog: pytest.LogCaptureFixture) -> None:
    """And which versions poll; the log of the process that does not take it over says so once."""
    with Engine(store(), workers=workers("1", "first"), clock=VirtualClock(0)) as old:
        old.start(TWO, workflow_id="old")
        old.settle()
        assert "waits for a worker of type second of version 1" in str(old.explain("old"))
        assert "for which nobody has ever polled" in str(old.explain("old"))
    with (
        caplog.at_level(logging.WARNING, "conductorlite"),
        Engine(store(), workers=workers("2", "first", "second"), clock=VirtualClock(1000)) as new,
    ):
        new.start(TWO, workflow_id="new")
        new.settle()
        said = str(new.explain("old"))
        assert "waits for a worker of type second of version 1" in said
        assert "workers of version 2 poll, and take over none of this version" in said
        for _ in range(2):
            new.driver.missing.news.note("version-1:second", "two")
    assert "no worker of version 1 here for 'second': those here are of version 2 and do not take it over" in caplog.text
    assert caplog.text.count("no worker of version 1") == 1


def test_a_version_takes_over_others(store: Stores) -> None:
    """Those it names, and with None executions that have no version; it starts on its own."""
    for version in (None, "1", "2"):
        with Engine(store(), workers=workers(version, "first"), clock=VirtualClock(0)) as engine:
            engine.start(TWO, workflow_id=f"by-{version}")
            engine.settle()
    taking = workers("3", "first", "second", "third", takes_over=("2", None))
    with Engine(store(), workers=taking, clock=VirtualClock(1000)) as engine:
        engine.settle()
        assert by(engine, "by-None") == [None, "3", "3"]
        assert by(engine, "by-2") == ["2", "3", "3"]
        assert by(engine, "by-1") == ["1", None]


@task
def greet(name: str) -> str:
    """A task of a flow."""
    return f"Hello, {name}!"


@flow
def hello(name: str) -> str:
    """A flow."""
    return greet(name)


@pytest.mark.parametrize("given", [lambda: Workers(version="7").include(hello), lambda: [hello, Workers(version="7")]])
def test_flows_have_the_version_of_the_set(given: Callable[[], Any]) -> None:
    """Included in a set, or given to the engine beside one; a flow that is started later too."""
    with Engine(workers=given(), clock=VirtualClock(0)) as engine:
        run = engine.start(hello, name="Ada")
        assert run.result() == "Hello, Ada!"
        assert run.tasks[0].domain == version_domain("7")
    with Engine(workers=Workers(version="7"), clock=VirtualClock(0)) as engine:
        assert engine.start(hello, name="Ada").result() == "Hello, Ada!"


def test_what_has_a_domain_of_its_own_has_no_version() -> None:
    """A start that says a domain for a type, a function in a domain, a built-in type."""
    made = Workers(version="1")
    made.add("first", lambda: {"by": "eu"}, domain="eu")
    made.add(TaskType.HTTP, lambda: {"by": "http"})
    assert set(made.by_queue) == {"eu:first", "HTTP"}
    definition = WorkflowDef.from_json(
        {
            "name": "w",
            "tasks": [
                {"name": "first", "taskReferenceName": "a"},
                {"name": "x", "taskReferenceName": "b", "type": "HTTP", "inputParameters": {"uri": "http://localhost"}},
            ],
        }
    )
    with Engine(workers=made, clock=VirtualClock(0)) as engine:
        run = engine.start(definition, task_to_domain={"first": "eu"})
        engine.settle()
        assert [one.output_data for one in run.tasks] == [{"by": "eu"}, {"by": "http"}]


def test_a_wrong_version_is_refused() -> None:
    """When the set is made, or when two versions meet."""
    for bad in ("", "a b", "x" * 65, 3, "a:b"):
        with pytest.raises(InvalidInput, match="a version of workers is a text of 1 to 64"):
            Workers(version=bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="say the version too"):
        Workers(takes_over=["1"])
    with pytest.raises(InvalidInput, match=r"a list of versions, such as \['1'\]"):
        Workers(version="2", takes_over="1")
    with pytest.raises(InvalidInput, match="workers of version 2 cannot include workers of version 1"):
        Workers(version="2").include(Workers(version="1"))


def test_the_domain_of_a_version() -> None:
    """Back and forth."""
    assert [version_of(one) for one in (version_domain("3.1"), "eu", None, "")] == ["3.1", None, None, None]
