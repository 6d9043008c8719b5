"""What is accepted, kept and written back, and not acted upon: listeners, caches, schemas that are not enforced."""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import Bench, flow, simple

from conductorlite import TaskDef, WorkflowDef, WorkflowStatus
from conductorlite.model.definitions import CacheConfig, SchemaDef, StateChangeEvent

_SCHEMA = SchemaDef(name="s", data={"type": "object", "required": ["never"]})


def _twice(bench: Bench, definition: WorkflowDef) -> None:
    """The definition comes back whole from its registration, and two executions of it run side by side."""
    bench.engine.register(definition)
    assert bench.engine.definitions.workflow(definition.name) == definition
    one = bench.start(definition.name, {"card": "4711"})
    two = bench.start(definition.name, {"card": "4711"})
    for _ in range(2):
        bench.do("a")
    assert (one.status, two.status) == (WorkflowStatus.COMPLETED, WorkflowStatus.COMPLETED)
    assert bench.workflow.input_data == {"card": "4711"}


@pytest.mark.trap("core-50")
@pytest.mark.parametrize(
    "fields",
    [
        {"input_schema": _SCHEMA, "output_schema": _SCHEMA, "enforce_schema": False},
        {"masked_fields": ["card"]},
        {"cache_config": CacheConfig(key="k", ttl_ms=1_000)},
        {"workflow_status_listener_enabled": True, "workflow_status_listener_sink": "kafka:x"},
        {"input_parameters": ["card"], "metadata": {"m": 1}, "owner_email": "a@b.c", "owner_app": "app"},
        {"description": "d", "create_time": 1, "update_time": 2, "created_by": "c", "updated_by": "u"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_kept_of_a_workflow(bench: Bench, fields: dict[str, Any]) -> None:
    """Nothing is cached or sent; a program is told what is masked; a schema that is not enforced checks nothing."""
    _twice(bench, flow(simple("a"), **fields))


@pytest.mark.trap("core-50")
@pytest.mark.parametrize(
    "fields",
    [
        {"rate_limited": True},
        {"cache_config": CacheConfig(key="k", ttl_ms=1_000)},
        {"on_state_change": {"onStart": [StateChangeEvent(type="t")]}},
        {"metadata": {"m": 1}, "description": "d"},
        {"join_status": "x", "script_expression": "nonsense ("},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_kept_of_a_task(bench: Bench, fields: dict[str, Any]) -> None:
    """The task is carried out as if it were not there."""
    _twice(bench, flow(simple("a", **fields)))


@pytest.mark.trap("core-50")
@pytest.mark.parametrize(
    "fields",
    [
        {"input_schema": _SCHEMA, "output_schema": _SCHEMA},
        {"input_keys": ["x"], "output_keys": ["y"], "owner_email": "a@b.c", "owner_app": "app", "description": "d"},
        {"runtime_metadata": ["SECRET"]},
        {"isolation_group_id": "g", "execution_name_space": "n", "base_type": "b"},
        {"task_status_listener_enabled": False},
        {"create_time": 1, "update_time": 2, "created_by": "c", "updated_by": "u"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_kept_of_a_task_definition(bench: Bench, fields: dict[str, Any]) -> None:
    """The task is offered, in the queue of its name, with its own input and nothing more."""
    definition = TaskDef(name="a", **fields)
    bench.engine.register(definition)
    assert bench.engine.definitions.task("a") == definition
    _twice(bench, flow(simple("a")))
    assert bench.task("a").input_data == {}


def test_secrets_stay_as_written(bench: Bench) -> None:
    """An engine without secrets fills nothing in for `${workflow.secrets.X}`, as Conductor without a provider."""
    bench.start(flow(simple("a", input_parameters={"key": "${workflow.secrets.X}"})))
    assert bench.take("a").input_data == {"key": "${workflow.secrets.X}"}
