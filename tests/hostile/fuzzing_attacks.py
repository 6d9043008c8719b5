"""Definitions that are almost right: every property there is with a value it should not have, and documents with parts changed.

The properties are those of the classes a definition is read into. A document is read, registered, started and taken a few steps;
each refusal must be a named error that stores nothing.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
from attacks import Engine, J, Run, flow, given, nested, node, start

from conductorlite import SubWorkflowParams, TaskDef, WorkflowDef, WorkflowTask
from conductorlite.errors import ConductorliteError
from conductorlite.model.scalars import json_names

__all__ = ["FUZZED"]

JUNK: dict[str, Any] = {
    "null": None,
    "true": True,
    "zero": 0,
    "minus one": -1,
    "a half": 0.5,
    "2 to the 63": 2**63,
    "10 to the 400": 10**400,
    "no text": "",
    "text": "${workflow.input.x} {} [] '\"",
    "a long text": "x" * 100_000,
    "an empty list": [],
    "a list of lists": [[[]], [None], [0]],
    "an empty map": {},
    "a map of maps": {"": {"": None}, "name": {"name": []}, "type": 7},
    "itself, nested": nested(60),
}
DOCUMENTS = Path(__file__).parents[1] / "codec" / "definitions"


def _variants(junk: Any) -> Iterator[J]:
    """Definitions in which one property holds this."""
    for one in _fields(WorkflowDef):
        yield {**flow(given("t")), one: junk}
    kinds = ("DO_WHILE", "FORK_JOIN", "SWITCH", "FORK_JOIN_DYNAMIC", "SUB_WORKFLOW", "JOIN", "WAIT", "TERMINATE", "INLINE")
    for number, one in enumerate(_fields(WorkflowTask)):
        yield flow({**node("t"), one: junk})
        yield flow({**node("t", kinds[number % len(kinds)]), one: junk})
    for one in _fields(TaskDef):
        yield flow(node("t", taskDefinition={"name": "t", one: junk}))
    for one in _fields(SubWorkflowParams):
        yield flow(node("t", "SUB_WORKFLOW", subWorkflowParam={"name": "none", one: junk}))


def _fields(kind: type[attrs.AttrsInstance]) -> list[str]:
    return [*json_names(kind).values()]


def _each(documents: Callable[[], Iterator[Any]]) -> Callable[[Engine], Run]:
    """Try all of them on one engine."""

    def attack(engine: Engine) -> Run:
        outcomes: Counter[str] = Counter()
        for number, document in enumerate(documents()):
            outcomes[_tried(engine, document, f"fuzz-{number}")] += 1
        if not outcomes:
            raise AssertionError("nothing was tried")
        return start(engine, {**flow(given("t")), "name": "after"})

    return attack


def _tried(engine: Engine, document: Any, workflow_id: str) -> str:
    """Start one, take it a few steps and end it; what has become of it."""
    count = sum(1 for _ in engine.admin.workflow_ids())
    try:
        run = engine.start(WorkflowDef.from_json(json.dumps(document)), {"x": 1}, workflow_id=workflow_id)
    except ConductorliteError as error:
        if sum(1 for _ in engine.admin.workflow_ids()) != count:
            raise AssertionError(f"refused, and stored: {error}") from error
        return type(error).__name__
    for _ in range(5):
        if not engine.tick():
            break
    if not run.status.terminal:
        engine.terminate(workflow_id)
    broken = engine.admin.check(workflow_id)
    if broken:
        raise AssertionError(str(broken))
    return str(run.status)


def _mutants(seed: int, count: int = 60) -> Iterator[Any]:
    """Documents with a few parts replaced, removed, doubled or moved."""
    dice = random.Random(seed)
    texts = [path.read_text() for path in sorted(DOCUMENTS.glob("*.json"))]
    for _ in range(count):
        document = json.loads(dice.choice(texts))
        document = dice.choice(document) if isinstance(document, list) else document
        for _ in range(dice.randint(1, 4)):
            _mutate(document, dice)
        yield document


def _mutate(document: Any, dice: random.Random) -> None:
    places = list(_places(document))
    if not places:
        return
    holder, key = dice.choice(places)
    how = dice.randrange(5)
    if how == 0:
        holder[key] = dice.choice(list(JUNK.values()))
    elif how == 1:
        del holder[key]
    elif how == 2:
        other, its = dice.choice(places)
        holder[key] = json.loads(json.dumps(other[its]))
    elif how == 3 and isinstance(holder, list):
        holder.append(json.loads(json.dumps(holder[key])))
    elif isinstance(holder, dict):
        holder[dice.choice(["name", "type", "taskReferenceName", "tasks", "joinOn", key.upper()])] = holder[key]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every part of a document by what holds it."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(pairs):
        yield value, key
        yield from _places(inner)


FUZZED: dict[str, Callable[[Engine], Run]] = {
    **{f"every property: {name}": _each(lambda junk=junk: _variants(junk)) for name, junk in JUNK.items()},  # type: ignore[misc]
    **{f"60 mutants, seed {seed}": _each(lambda seed=seed: _mutants(seed)) for seed in range(8)},  # type: ignore[misc]
}
