"""Random lives with migrations in them: slice ≡ whole, memory ≡ SQLite, every law after every turn, and each can end."""

from __future__ import annotations

import copy
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tape import TAPES, Tape, draw_definition, draw_operations, many
from twins import Twins, of_variant

from conductorlite import Bounds, Engine, HistoryEvent, InvalidDefinition, Semantics, WorkflowDef
from conductorlite.errors import Conflict
from conductorlite.model.executions import HistoryKind

#: What is done to the definition; the first three never block an execution that goes on.
EDITS = ("same", "append", "rename", "insert", "input", "remove", "swap")


def lists(tasks: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Every list of tasks in a definition, inline sub-workflows apart."""
    yield tasks
    for task in tasks:
        inner = [*task.get("decisionCases", {}).values(), task.get("defaultCase", []), *task.get("forkTasks", [])]
        for below in (*inner, task.get("loopOver", [])):
            yield from lists(below)


def edited(definition: dict[str, Any], kind: str, a: int, b: int) -> tuple[dict[str, Any], dict[str, str]]:
    """The next version of a definition, and the references it renames."""
    new = copy.deepcopy(definition)
    new["version"] = definition.get("version", 1) + 1
    every = [found for found in lists(new["tasks"]) if found]
    chosen = every[(a * 3 + b) % len(every)]
    place = b % len(chosen)
    task = chosen[place]
    fresh = {"name": "n0", "taskReferenceName": f"new{new['version']}", "type": "SIMPLE", "inputParameters": {"n": 1}}
    pair = task["type"] in ("FORK_JOIN", "JOIN")
    if kind == "append":
        new["tasks"].append(fresh)
    elif kind == "rename":
        old = task["taskReferenceName"]
        name = f"{old}r{new['version']}"
        new["tasks"] = json.loads(re.sub(rf"\b{old}\b", name, json.dumps(new["tasks"])))
        if "outputParameters" in new:
            new["outputParameters"] = json.loads(re.sub(rf"\b{old}\b", name, json.dumps(new["outputParameters"])))
        return new, {old: name}
    elif kind == "insert" and task["type"] != "JOIN":
        chosen.insert(place, fresh)
    elif kind == "input":
        task.setdefault("inputParameters", {})["more"] = "${workflow.input.n}"
    elif kind == "remove" and len(chosen) > 1 and not pair:
        del chosen[place]
    elif kind == "swap" and len(chosen) > 1 and not pair and chosen[place - 1]["type"] not in ("FORK_JOIN", "JOIN"):
        chosen[place - 1], chosen[place] = chosen[place], chosen[place - 1]
    return new, {}


class MovingTwins(Twins):
    """Twins that can be moved to an edited definition."""

    def __init__(self, folder: Path, definition: dict[str, Any], value: dict[str, Any], **options: Any) -> None:
        self.registered = self.definition = definition
        self.verdicts: Counter[tuple[str, str]] = Counter()
        super().__init__(folder, definition, value, matrix=Counter(), **options)

    def edited(self, engine: Engine, kind: str, a: int, b: int) -> tuple[dict[str, Any], dict[str, str]]:
        """The next version of the definition that the execution is on: a restart may have put it back on the registered one."""
        moved = engine.get(self.workflow_id).version == self.definition.get("version", 1)
        return edited(self.definition if moved else self.registered, kind, a, b)

    def _migrate(self, index: int, engine: Engine, a: int, b: int) -> object:
        kind = EDITS[a % len(EDITS)]
        new, refs = self.edited(engine, kind, a, b)
        try:
            plan = engine.definitions.migrate(self.workflow_id, WorkflowDef.from_json(new), refs=refs)
        except (Conflict, InvalidDefinition) as refused:
            said = str(refused)
        else:
            self.verdicts[kind, str(plan.verdict)] += index
            if index == len(self.engines) - 1:
                self.definition = new
            return str(plan)
        ended = "has ended" in said
        assert ended or kind not in EDITS[:3], f"{kind} is refused: {said}"
        self.verdicts[kind, "ended" if ended else "BLOCKED"] += index
        return said


def live(choices: Sequence[int], verdicts: Counter[tuple[str, str]]) -> None:
    """One life with migrations at random points."""
    tape = Tape(choices)
    variant = tape.pick(6)
    definition, value, _ = draw_definition(tape)
    operations = draw_operations(tape, 10 + tape.pick(12))
    moves = [(tape.pick(1 + len(operations)), tape.pick(7), tape.pick(9)) for _ in range(1 + tape.pick(3))]
    with tempfile.TemporaryDirectory() as folder:
        twins = MovingTwins(
            Path(folder),
            definition,
            value,
            **of_variant(variant),
        )
        try:
            for number, (operation, a, b) in enumerate([*operations, ("poll", 0, 0)]):
                for at, kind, place in moves:
                    if at == number:
                        twins.do("migrate", kind, place)
                twins.do(operation, a, b)
            twins.finish()
        finally:
            verdicts.update(twins.verdicts)
            twins.close()


def explore(cases: int) -> Counter[tuple[str, str]]:
    """Run so many lives; how often each edit had which verdict."""
    verdicts: Counter[tuple[str, str]] = Counter()

    @many(cases)
    @given(TAPES)
    def case(choices: bytes) -> None:
        live(choices, verdicts)

    case()
    return verdicts


@pytest.mark.parametrize("lives", [6, pytest.param(50, marks=pytest.mark.slow)])
def test_migrated_lives(lives: int) -> None:
    """Random lives: the laws hold in each, safe ones can end, and an append or a rename is never refused."""
    verdicts = explore(lives)
    done = {kind for (kind, verdict), count in verdicts.items() if count and verdict in ("SAFE", "SAFE_WITH_MAP")}
    assert lives == 6 or done >= {"same", "append", "rename", "insert", "input"}


@pytest.mark.deep
def test_migrated_lives_deep() -> None:
    """1,500 random lives, with every edit both done and, where it can be, refused."""
    verdicts = explore(1_500)
    assert all(verdicts[kind, "SAFE_WITH_MAP" if kind == "rename" else "SAFE"] >= 20 for kind in EDITS)
    assert all(verdicts[kind, "BLOCKED"] >= 5 for kind in ("remove", "swap"))


@pytest.mark.parametrize("lives", [4, pytest.param(10, marks=pytest.mark.slow)])
def test_an_equal_definition_changes_nothing(lives: int) -> None:
    """A move to a definition that differs in its version only leaves the journal as it was, but for its own line."""

    @many(lives)
    @given(TAPES, st.integers(0, 12))
    def case(choices: bytes, at: int) -> None:
        still, moved = (_journal(choices, number) for number in (None, at))
        assert moved == still

    case()


def _journal(choices: bytes, at: int | None) -> list[HistoryEvent]:
    tape = Tape(choices)
    definition, value, _ = draw_definition(tape)
    # A clock that is set back stops at the last turn of an execution, and the move is one.
    operations = [operation for operation in draw_operations(tape, 12) if operation[0] != "set_back"]
    with tempfile.TemporaryDirectory() as folder:
        twins = MovingTwins(Path(folder), definition, value, bounds=Bounds(), semantics=Semantics.ORKES, relay=False)
        try:
            for number, (operation, a, b) in enumerate(operations):
                if number == at:
                    twins.do("migrate", 0, 0)
                twins.do(operation, a, b)
            twins.finish()
            lines = twins.engines[0].history(twins.workflow_id)
        finally:
            twins.close()
    kept = [line for line in lines if line.kind is not HistoryKind.MIGRATED]
    return [_unnumbered(line) for line in kept]


def _unnumbered(line: HistoryEvent) -> HistoryEvent:
    return HistoryEvent(
        n=0, at=line.at, kind=line.kind, status=line.status, ref=line.ref, attempt=line.attempt, number=line.number,
        reason=line.reason, payload=line.payload,
    )  # fmt: skip
