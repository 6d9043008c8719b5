"""Random lives under limits: several executions that want the same slots, on two stores, lived again from their exports."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from tape import TAPES, Tape, draw_definition, draw_operations, many
from twins import Twins, journal, of_variant

from conductorlite import Engine, WorkflowDef
from conductorlite.errors import LimitReached
from conductorlite.model.statuses import TaskStatus
from conductorlite.testing import replay

LIMITS = (
    {"concurrentExecLimit": 1},
    {"rateLimitPerFrequency": 1, "rateLimitFrequencyInSeconds": 3},
    {"concurrentExecLimit": 2},
    {"concurrentExecLimit": 1, "rateLimitPerFrequency": 2, "rateLimitFrequencyInSeconds": 5},
    {},
)


def limited(node: Any, tape: Tape) -> Any:
    """A definition, or a part of it, with limits on its workers' tasks: one name may have several."""
    if isinstance(node, list):
        return [limited(inner, tape) for inner in node]
    if not isinstance(node, dict):
        return node
    found = {key: limited(value, tape) for key, value in node.items()}
    if node.get("type") == "SIMPLE" and "taskDefinition" in node:
        found["taskDefinition"] = {**node["taskDefinition"], **LIMITS[tape.pick(len(LIMITS))]}
    return found


class Crowd(Twins):
    """Twins in which a few executions of one definition run beside each other."""

    PATIENCE = 1_600

    def crowd(self, definition: dict[str, Any], value: dict[str, Any], count: int) -> None:
        """Start others: they take what is there, and what is done is done to the first."""
        for number in range(count):
            for engine in self.engines:
                try:
                    engine.start(WorkflowDef.from_json(definition), value, workflow_id=f"x{number}", priority=number)
                except LimitReached:
                    continue
        self.compare()


def live(choices: bytes, told: Counter[str]) -> None:
    """One life: a crowd under limits; the laws after every step, and the first execution replayed from its export."""
    tape = Tape(choices)
    variant = tape.pick(6)
    definition, value, _ = draw_definition(tape, undoing=tape.pick(4) == 0)
    definition = limited(definition, tape)
    if tape.pick(3):
        key = ("all", "${workflow.input.n}", "${workflow.input.missing}")[tape.pick(3)]
        definition["rateLimitConfig"] = {
            "rateLimitKey": key, "concurrentExecLimit": 1 + tape.pick(2), "policy": ("QUEUE", "QUEUE", "REJECT")[tape.pick(3)],
        }  # fmt: skip
    operations = draw_operations(tape, 12 + tape.pick(16))
    with tempfile.TemporaryDirectory() as folder:
        twins = Crowd(
            Path(folder),
            definition,
            value,
            **of_variant(variant),
            matrix=Counter(),
        )
        try:
            twins.crowd(definition, value, 1 + tape.pick(3))
            for operation, a, b in operations:
                twins.do(operation, a, b)
                told.update(seen(twins.engines[1]))
            text = json.dumps(twins.engines[1].admin.export(twins.workflow_id))
            lived = replay(text)
            try:
                for one in lived.workflow_ids:
                    assert journal(lived.engine, one) == journal(twins.engines[1], one)
                assert lived.engine.admin.check() == []
            finally:
                lived.engine.close()
            twins.finish()
        finally:
            twins.close()


def seen(engine: Engine) -> Iterator[str]:
    """What limits did that is to be seen now."""
    with engine.backend.reading() as view:
        for limit in view.limits.page("", 100):
            for member in view.limits.members(limit.key):
                yield f"{limit.key.split(':')[0]} {member.state}"
    for one in engine.admin.workflow_ids():
        for task in engine.get(one).tasks:
            if task.status is TaskStatus.PENDING:
                yield "delayed" if task.limit_key is None else f"{task.task_type[:2]} waits"


def explore(count: int) -> Counter[str]:
    """Live so many lives."""
    told: Counter[str] = Counter()

    @many(count)
    @given(TAPES)
    def case(choices: bytes) -> None:
        live(choices, told)

    case()
    return told


@pytest.mark.parametrize("lives", [2, pytest.param(6, marks=pytest.mark.slow)])
def test_crowds_under_limits_agree(lives: int) -> None:
    """Two stores and a replay agree, and no law is broken."""
    assert explore(lives)


@pytest.mark.deep
def test_crowds_under_limits_agree_deep() -> None:
    """2,000 lives."""
    told = explore(2_000)
    assert all(told[what] >= 50 for what in ("task WAITING", "task HELD", "workflow WAITING", "workflow HELD")), told
