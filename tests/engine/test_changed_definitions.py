"""A definition that is started as an object: its text is remembered, and whatever a program changes in it counts all the same."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

from conductorlite import Engine, VirtualClock, WorkflowDef
from conductorlite.engine import control
from conductorlite.errors import InvalidDefinition, InvalidInput
from conductorlite.model.contents import Contents

Json = dict[str, Any]


def made() -> WorkflowDef:
    """Parameters, with maps and lists in them, of two tasks; one that is never come to is inside a SWITCH."""
    inner = {"name": "n", "taskReferenceName": "c", "inputParameters": {"deep": {"list": [1, {"x": 1}], "map": {}}}}
    switch = {"name": "s", "taskReferenceName": "s", "type": "SWITCH", "evaluatorType": "value-param", "expression": "e"}
    tasks = [
        {"name": "n", "taskReferenceName": "a", "inputParameters": {"one": 1, "two": {"x": 1, "y": 2}, "list": ["p", "q"]}},
        {**switch, "inputParameters": {"e": "no"}, "decisionCases": {"yes": [inner]}},
        {"name": "n", "taskReferenceName": "b", "inputParameters": {"last": None, "text": "t"}},
    ]
    return WorkflowDef.from_json({"name": "changing", "tasks": tasks, "variables": {"v": 1}})


def stored(engine: Engine, definition: WorkflowDef) -> str:
    """The hash of what an execution of it runs on."""
    return engine.start(definition).workflow.definition_hash


def parameters(definition: WorkflowDef, task: int = 0) -> Any:
    """Those of a task."""
    return definition.tasks[task].input_parameters


def moved(definition: WorkflowDef) -> None:
    """The last parameter of one map is the first one of the next."""
    two, one = parameters(definition)["two"], parameters(definition)
    one["y"] = two.pop("y")


def turned(definition: WorkflowDef) -> None:
    """The order of keys is a part of the text."""
    two = parameters(definition)["two"]
    two["x"] = two.pop("x")


CHANGES: dict[str, Callable[[WorkflowDef], object]] = {
    "true for one": lambda it: parameters(it).update(one=True),
    "a float for one": lambda it: parameters(it).update(one=1.0),
    "another value": lambda it: parameters(it)["two"].update(x=3),
    "one more": lambda it: parameters(it)["two"].update(z=1),
    "one less": lambda it: parameters(it)["two"].pop("x"),
    "moved": moved,
    "turned": turned,
    "a list": lambda it: parameters(it)["list"].append("r"),
    "a list turned": lambda it: parameters(it)["list"].reverse(),
    "an empty map": lambda it: it.tasks[1].decision_cases["yes"][0].input_parameters["deep"]["map"].update(x=1),
    "far inside": lambda it: it.tasks[1].decision_cases["yes"][0].input_parameters["deep"]["list"][1].update(x=True),
    "a case": lambda it: it.tasks[1].decision_cases.update(no=()),  # type: ignore[attr-defined]
    "a property of no definition": lambda it: it.extra.update(custom=1),  # type: ignore[attr-defined]
    "a variable": lambda it: it.variables.update(v=None),  # type: ignore[attr-defined]
    "unread metadata": lambda it: it.tasks[2].metadata.update(owner="x"),  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_a_program_changes_between_starts_counts(change: Callable[[WorkflowDef], object]) -> None:
    """Whenever it does: before the text is remembered, and after."""
    for times in range(1, 4):
        definition = made()
        with Engine(clock=VirtualClock()) as engine:
            before = {stored(engine, definition) for _ in range(times)}
            change(definition)
            after = stored(engine, definition)
            assert len(before) == 1
            assert after == stored(engine, definition) not in before
            assert after == stored(engine, WorkflowDef.from_json(definition.to_json()))


def test_the_text_of_an_object_is_written_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as nothing in it changes; that of an equal object is its own."""
    written, write = list[WorkflowDef](), control.definition_text
    monkeypatch.setattr(control, "definition_text", lambda definition: written.append(definition) or write(definition))
    definition = made()
    with Engine(clock=VirtualClock()) as engine:
        assert len({stored(engine, definition) for _ in range(5)}) == 1
        assert len(written) == 2
        engine.start(made())
        assert len(written) == 3


def test_what_cannot_be_json_any_more_is_refused() -> None:
    """So is what contains itself since."""
    definition = made()
    with Engine(clock=VirtualClock()) as engine:
        for _ in range(3):
            engine.start(definition)
        for wrong in (object(), parameters(definition), float("nan")):
            parameters(definition)["one"] = wrong
            for _ in range(3):
                with pytest.raises((InvalidDefinition, InvalidInput)):
                    engine.start(definition)


def test_what_changes_in_other_ways_is_not_remembered() -> None:
    """A map of a class of its own, whose methods may do anything."""
    definition = made()
    assert Contents.of(definition) is not None
    parameters(definition)["two"] = OrderedDict(x=1)
    assert Contents.of(definition) is None


def test_many_definitions_are_not_all_kept() -> None:
    """What was in an object that was started twice is let go of when many others were; the object is never held."""
    definition = made()
    with Engine(clock=VirtualClock()) as engine:
        alone = sys.getrefcount(definition)
        for _ in range(2):
            engine.start(definition)
        assert sys.getrefcount(definition) == alone
        held = sys.getrefcount(parameters(definition))
        others = [made() for _ in range(control._DEFINITIONS + 1)]
        for other in others:
            engine.start(other)
        assert sys.getrefcount(parameters(definition)) < held
