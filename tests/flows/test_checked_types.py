"""`check=True`: the types of a task or flow as JSON Schemas of its definition, which take what its function reads."""

from __future__ import annotations

import dataclasses
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, NotRequired, TypedDict
from uuid import UUID

import attrs
import pytest

from conductorlite import Engine, VirtualClock, flow, task
from conductorlite.flows import each
from conductorlite.flows.schemas import schema_of
from conductorlite.language.schemas import compile_schema
from conductorlite.model.definitions import SchemaDef, WorkflowDef
from conductorlite.model.errors import InvalidInput
from conductorlite.model.typed import reader

pydantic = pytest.importorskip("pydantic")
pytest.importorskip("jsonschema")


class Color(Enum):
    """Two."""

    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Line:
    """Of an order."""

    sku: str
    count: int = 1


@attrs.frozen
class Node:
    """Holds itself."""

    name: str
    below: list[Node] = attrs.field(factory=list)


class Place(TypedDict):
    """With a key that may be missing."""

    city: str
    zip: NotRequired[int]


class Tour(TypedDict):
    """With a key that may not be missing, whose kind has arguments of its own."""

    stops: list[str]
    days: NotRequired[int | None]


class Model(pydantic.BaseModel):  # type: ignore[name-defined, misc]
    """Strict, as its own configuration says."""

    model_config = pydantic.ConfigDict(strict=True)
    number: int
    inner: Model | None = None


#: An annotation, values that its reader takes, and values that it does not.
KINDS: list[tuple[Any, list[Any], list[Any]]] = [
    (int, [1], ["1", True, None, 1.5]),
    (float, [1, 1.5], ["1", True]),
    (bool, [True], [1, "true"]),
    (str, ["", "x"], [1, None]),
    (int | None, [1, None], ["1"]),
    (int | str, [1, "1"], [[1], None]),
    (list[int], [[], [1]], [["1"], 1, {}]),
    (list[Any], [[1, "x"]], [{}]),
    (tuple[int, str], [[1, "x"]], [[1], [1, "x", 2], ["x", 1]]),
    (tuple[int, ...], [[], [1, 2]], [["x"]]),
    (set[str], [["a"]], [[1]]),
    (dict[str, int], [{}, {"a": 1}], [{"a": "1"}, []]),
    (dict[str, Any], [{"a": [1]}], [[1]]),
    (Literal["a", 2], ["a", 2], ["2", "b", None]),
    (Color, ["red"], ["green", 1]),
    (datetime, ["2030-01-01T00:00:00"], [5]),
    (date, ["2030-01-01"], [5]),
    (Decimal, ["1.5", 2], [True, []]),
    (UUID, ["12345678-1234-5678-1234-567812345678"], [1]),
    (Line, [{"sku": "a"}, {"sku": "a", "count": 2, "more": 1}], [{}, {"sku": 1}, {"sku": "a", "count": "2"}, []]),
    (Node, [{"name": "a", "below": [{"name": "b"}]}], [{"name": "a", "below": [{"name": 1}]}, {"below": []}]),
    (Place, [{"city": "Rome"}, {"city": "Rome", "zip": 1}], [{}, {"city": "Rome", "zip": "1"}]),
    (Tour, [{"stops": []}, {"stops": ["Rome"], "days": None}], [{}, {"days": 1}, {"stops": [1]}]),
    (Model, [{"number": 1, "inner": {"number": 2}}], [{"number": "1"}, {"number": 1, "inner": {}}]),
    (list[Line | None], [[{"sku": "a"}, None]], [[{"sku": 2}]]),
    (Any, [1, None, {}], []),
]


@pytest.mark.parametrize(("kind", "good", "bad"), KINDS, ids=lambda one: getattr(one, "__name__", None))
def test_the_schema_takes_what_the_function_reads(kind: Any, good: list[Any], bad: list[Any]) -> None:
    """Reader and schema agree on each value."""
    check = compile_schema(SchemaDef(name="kind", data=schema_of(kind)))
    read = reader(kind)
    for value in good:
        assert check.violation(value) is None, value
        if read is not None:
            read(value, "value")
    for value in bad:
        assert check.violation(value) is not None, value
        assert read is not None
        with pytest.raises(InvalidInput):
            read(value, "value")


@task(check=True, retry=0)
def pack(line: Line, boxes: int = 1) -> Place:
    """Gives a wrong place for three boxes."""
    return {"city": 7 if boxes == 3 else "Rome"}  # type: ignore[typeddict-item]


@task(check=True)
def weigh(line: Line) -> float:
    """Called for each item."""
    return line.count * 1.5


@flow(check=True)
def send(lines: list[Line], boxes: int | None = None) -> list[float]:
    """Weigh each, pack the first."""
    weights = each(lines, weigh)
    pack(lines[0], boxes)
    return weights


def test_what_breaks_its_types_is_refused_at_each_edge() -> None:
    """A start at once, a task's output as its schema says; null stands for a parameter's default; items of a fork pass."""
    with Engine(clock=VirtualClock(0), workers=[send]) as engine:
        assert engine.start(send, lines=[Line("a"), Line("b", 2)]).result() == [1.5, 3.0]
        with Engine(clock=VirtualClock(0)) as other:  # which has the definition alone
            with pytest.raises(InvalidInput, match=r"the input breaks the inputSchema of 'send': \$.lines\[0\].count: breaks type"):
                other.start(send.definition, {"lines": [{"sku": "a", "count": "2"}]})
            with pytest.raises(InvalidInput, match="required: 'lines' missing"):
                other.start(send.definition, {})
        run = engine.start(send, lines=[Line("a")], boxes=3)
        engine.run_until_idle()
        assert run.workflow.task("pack").reason == 'its output breaks outputSchema: $.city: breaks type "string"'


def test_the_schemas_are_the_definitions() -> None:
    """They stand in its JSON, and come back from it; without `check` there are none."""
    text = send.definition.to_json()
    assert text["inputSchema"]["name"] == "send_input"
    assert text["outputSchema"]["data"]["properties"] == {"result": {"type": "array", "items": {"type": "number"}}}
    assert WorkflowDef.from_json(text) == send.definition
    assert "inputSchema" not in flow(send.function).definition.to_json()
