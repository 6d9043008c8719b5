"""Random lives, exported and lived again: the same history, byte for byte, of the execution and of all below it."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from tape import TAPES, Tape, draw_definition, draw_operations, many
from test_migrated_lives import EDITS, MovingTwins
from twins import journal, of_variant

from conductorlite import Engine, InvalidDefinition, WorkflowDef
from conductorlite.errors import Conflict
from conductorlite.testing import replay


class RestlessTwins(MovingTwins):
    """Twins that are moved wherever they can be; whether they can is tested in `test_migrated_lives.py`."""

    def _migrate(self, index: int, engine: Engine, a: int, b: int) -> object:
        new, refs = self.edited(engine, EDITS[a % len(EDITS)], a, b)
        try:
            plan = engine.definitions.migrate(self.workflow_id, WorkflowDef.from_json(new), refs=refs)
        except (Conflict, InvalidDefinition) as refused:
            return str(refused)
        if index == len(self.engines) - 1:
            self.definition = new
        return str(plan)


def live(choices: bytes, told: Counter[str]) -> None:
    """One life with migrations, and compensations in every third; exported in the middle or at the end, and replayed."""
    tape = Tape(choices)
    variant = tape.pick(6)
    definition, value, _ = draw_definition(tape, undoing=tape.pick(3) == 0)
    operations = draw_operations(tape, 10 + tape.pick(16))
    moves = {tape.pick(1 + len(operations)): (tape.pick(7), tape.pick(9)) for _ in range(tape.pick(3))}
    ended = tape.pick(2) == 1
    with tempfile.TemporaryDirectory() as folder:
        twins = RestlessTwins(
            Path(folder),
            definition,
            value,
            **of_variant(variant),
        )
        try:
            for number, (operation, a, b) in enumerate(operations):
                if number in moves:
                    twins.do("migrate", *moves[number])
                twins.do(operation, a, b)
            if ended:
                twins.finish()
            documents = [engine.admin.export(twins.workflow_id) for engine in twins.engines]
            assert documents[0] == documents[1], "memory and SQLite export different documents"
            text = json.dumps(documents[0])
            store = Path(folder) / "again.db" if variant % 2 else None
            replayed = replay(text, store=store)
            try:
                for one in replayed.workflow_ids:
                    assert journal(replayed.engine, one) == journal(twins.engines[0], one)
                assert replayed.engine.admin.check() == []
                assert set(replayed.workflow_ids) == set(replayed.engine.admin.workflow_ids())
                assert json.dumps(replayed.engine.admin.export(replayed.workflow_id)) == text
            finally:
                replayed.engine.close()
        finally:
            twins.close()
    count(documents[0], told)


def count(document: dict[str, Any], told: Counter[str]) -> None:
    """What a document told of."""
    for one in document["executions"]:
        for line in one["history"]:
            told[line["kind"]] += 1
            told[line.get("cause", {}).get("kind", "by itself")] += 1


def explore(cases: int) -> Counter[str]:
    """Live so many lives; how often each kind of line and of cause was told of."""
    told: Counter[str] = Counter()

    @many(cases)
    @given(TAPES)
    def case(choices: bytes) -> None:
        live(choices, told)

    case()
    return told


#: What leads to lines in lives like these.
CAUSES = ("START", "POLL", "REPORT", "PAUSE", "RESUME", "TERMINATE", "RETRY", "RESTART", "RERUN", "SKIP", "VARIABLES",
          "MIGRATE", "CHILD_ENDED", "STARTED")  # fmt: skip


@pytest.mark.parametrize("lives", [6, pytest.param(12, marks=pytest.mark.slow)])
def test_replayed_lives(lives: int) -> None:
    """Random lives come out the same when they are lived again, on memory or SQLite."""
    assert explore(lives)["REPORT"]


@pytest.mark.deep
def test_replayed_lives_deep() -> None:
    """1,000 random lives come out the same; every kind of line is among what they tell."""
    told = explore(1_000)
    wanted = (*CAUSES, "CHILD_REOPENED", "ALERT", "ROUND", "MIGRATED", "COMPENSATION", "VERB")
    assert {cause: told[cause] for cause in wanted if told[cause] < 10} == {}
