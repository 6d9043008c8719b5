"""The same laws in a store in memory: every field of a row is altered in turn, and a check finds it, or it is listed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import attrs
import pytest
from damaged_store import FAR, STARTS_AT, VERSION, begin, flipped
from test_altered_rows import LEGAL

from conductorlite import Bounds, Engine, EngineConfig, VirtualClock, Workers, WorkflowDef
from conductorlite.errors import InvariantBroken
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Decision
from conductorlite.model.executions import Task, Workflow
from conductorlite.store.memory.backend import MemoryBackend

#: Fields that a row is found by, and what `Engine.get` adds.
KEYS = {"workflow_id", "ref", "attempt", "fence", "tasks", "definition", "made", "history_seq", "idempotency_key"}


def others(value: Any) -> Iterator[Any]:
    """What may stand in the place of a value."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + FAR, value - FAR)
    elif isinstance(value, Payload):
        yield Payload.of({"damaged": 1})
    elif type(value) is str:
        yield flipped(value)
    elif value is None:
        yield FAR


@pytest.mark.parametrize(("kind", "table"), [(Task, "tasks"), (Workflow, "workflows")])
def test_each_field_is_compared_or_listed(kind: type[Any], table: str) -> None:
    """Of each field a value of one row that it does not have, in a store of its own."""
    unseen = []
    for field in attrs.fields(kind):
        if field.name in KEYS or {f"{table}.{field.name}", f"{table}.rest.{field.name}"} & {*LEGAL}:
            continue
        with Engine(MemoryBackend(), clock=VirtualClock(STARTS_AT)) as engine:
            begin(engine, VERSION)
            row = engine.core.queries.execution("later")
            with engine.backend.reading() as view:
                task = next(one for one in view.executions.attempts("later") if one.ref == "a")
            was = getattr(task if kind is Task else row, field.name)
            for value in others(was):
                if value == FAR and not field.name.endswith(("_at", "_until")):
                    continue  # no instant
                changed = attrs.evolve(task if kind is Task else row, **{field.name: value})
                written = False
                with suppress(InvariantBroken), engine.backend.writing() as tx:  # the store knows a row by that field
                    fence = tx.executions.workflow("later").fence  # type: ignore[union-attr]
                    decided = attrs.evolve(row if kind is Task else changed, fence=fence)
                    tx.decisions.apply(Decision(workflow=decided, updated=(changed,) if kind is Task else ()))
                    written = True
                if written and not engine.admin.check("later"):
                    unseen.append(f"{field.name}: {was!r} is {value!r}")
    assert unseen == []


@pytest.mark.parametrize("damage", ["lost", "altered"])
def test_a_document_beside_the_store(tmp_path: Any, damage: str) -> None:
    """A document of the payload storage beside the store is compared with its hash, too."""
    from conductorlite.decide.changeset.reader import Barriers

    bounds = Bounds(barriers=Barriers(task_output_payload_size_threshold=1))
    workers = Workers()
    workers.add("a", lambda: {"pad": "x" * 5_000})
    with Engine(tmp_path / "s.db", workers=workers, config=EngineConfig(bounds=bounds)) as engine:
        engine.start(WorkflowDef.from_json({"name": "w", "tasks": [{"name": "a", "taskReferenceName": "a"}]})).result()
        assert engine.admin.check() == []
        (document,) = [path for path in (tmp_path / "s.db.payloads").rglob("*.json*") if path.is_file()]
        document.unlink() if damage == "lost" else document.write_bytes(document.read_bytes().replace(b"x", b"y", 1))
        assert {finding.law for finding in engine.admin.check()} == {"documents_are_stored"}
