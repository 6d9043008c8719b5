"""Typed workers: arguments are read as their annotations say, and what does not fit is named."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, NotRequired, Optional, TypedDict
from uuid import UUID

import attrs
import pytest

from conductorlite import Engine, Task, TaskContext, TaskStatus, VirtualClock, Workers, WorkflowDef, WorkflowTask
from conductorlite.errors import InvalidInput
from conductorlite.flows import converter
from conductorlite.model.typed import plain, reader


class Size(Enum):
    """How big."""

    S = "small"
    L = "large"


@dataclasses.dataclass
class Item:
    """A line of an order."""

    name: str
    price: float
    size: Size = Size.S


@attrs.frozen
class Order:
    """What is bought."""

    id: int
    items: list[Item]
    due: datetime | None = None
    notes: dict[str, str] = attrs.field(factory=dict)


class Address(TypedDict):
    """Where to."""

    city: str
    zip: NotRequired[str]


@dataclasses.dataclass
class Tree:
    """A class that refers to itself."""

    name: str
    children: list[Tree]


def carried_out(function: Any, given: dict[str, Any]) -> Task:
    """The task after one attempt of the function."""
    workers = Workers()
    workers.task("work", retry_count=0)(function)
    task = WorkflowTask(name="work", task_reference_name="t", input_parameters={key: f"${{workflow.input.{key}}}" for key in given})
    with Engine(workers=workers, clock=VirtualClock(0)) as engine:
        run = engine.start(WorkflowDef(name="w", tasks=[task]), given)
        engine.run_until_idle()
        return run.workflow.tasks[0]


def test_records_in_and_out() -> None:
    """A dataclass in an attrs class is built from JSON, with its dates and enums, and becomes JSON again."""

    def work(order: Order) -> Order:
        assert order.items[0] == Item("a", 2.0, Size.L)
        assert order.due == datetime(2030, 1, 2, tzinfo=UTC)
        return order

    order = {"id": 7, "items": [{"name": "a", "price": 2, "size": "large"}], "due": "2030-01-02T00:00:00Z"}
    task = carried_out(work, {"order": order})
    assert task.status is TaskStatus.COMPLETED, task.reason
    assert task.output_data == {
        "id": 7,
        "items": [{"name": "a", "price": 2, "size": "large"}],
        "due": "2030-01-02T00:00:00+00:00",
        "notes": {},
    }


ITEM = {"name": "a", "price": 1}
ORDERS = [
    ({"id": 1, "items": [ITEM, ITEM, {"name": "a", "price": "x"}]}, 'order.items[2].price: expected float, got "x"'),
    ({"id": "1", "items": []}, 'order.id: expected int, got "1"'),
    ({"id": True, "items": []}, "order.id: expected int, got true"),
    ({"id": 1.5, "items": []}, "order.id: expected int, got 1.5"),
    ({"items": []}, "order.id: is missing"),
    ({"id": 1, "items": {}}, "order.items: expected a list, got an object"),
    ({"id": 1, "items": "ab"}, 'order.items: expected a list, got "ab"'),
    ({"id": 1, "items": [{"name": 5, "price": 1}]}, "order.items[0].name: expected str, got 5"),
    ({"id": 1, "items": [{**ITEM, "size": "XL"}]}, 'order.items[0].size: expected one of "small", "large", got "XL"'),
    ({"id": 1, "items": [], "due": "soon"}, 'order.due: expected datetime as text, got "soon"'),
    ({"id": 1, "items": [], "notes": {"a b": 1}}, 'order.notes["a b"]: expected str, got 1'),
    ([], "order: expected an object, got a list"),
    (None, "order: expected an object, got null"),
    (
        {"id": "1", "items": [{}]},
        'order.id: expected int, got "1"; order.items[0].name: is missing; order.items[0].price: is missing',
    ),
]


@pytest.mark.parametrize(("order", "reason"), ORDERS, ids=[reason for _, reason in ORDERS])
def test_what_does_not_fit_is_named(order: Any, reason: str) -> None:
    """The task fails for good, its reason names the field by its path, and the function is not called."""

    def work(order: Order) -> None:
        raise AssertionError

    task = carried_out(work, {"order": order})
    assert (task.status, task.reason) == (TaskStatus.FAILED_WITH_TERMINAL_ERROR, f"task 't': {reason}")


FITTING: list[tuple[Any, Any, Any]] = [
    (int, 5, 5),
    (float, 5, 5),
    (str, "x", "x"),
    (bool, True, True),
    (Optional[int], None, None),  # noqa: UP045
    (int | str, "5", "5"),
    (float | int, 5, 5),
    (datetime | str, "soon", "soon"),
    (Item | Address, {"city": "Bern"}, {"city": "Bern"}),
    (list[int], [1], [1]),
    (list[str | None], ["a", None], ["a", None]),
    (dict[str, Item | None], {"a": None}, {"a": None}),
    (tuple[int, ...], [1, 2], (1, 2)),
    (tuple[int, str], [1, "a"], (1, "a")),
    (set[str], ["a", "a"], {"a"}),
    (dict[str, float], {"a": 1}, {"a": 1}),
    (dict[int, str], {"1": "a"}, {1: "a"}),
    (Literal["a", 1], 1, 1),
    (date, "2030-01-02", date(2030, 1, 2)),
    (Decimal, "1.10", Decimal("1.10")),
    (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678-1234-5678-1234-567812345678")),
    (Address, {"city": "Bern", "zip": "3000"}, {"city": "Bern", "zip": "3000"}),
    (Tree, {"name": "a", "children": [{"name": "b", "children": []}]}, Tree("a", [Tree("b", [])])),
    (dict[str, Any], {"a": [1]}, {"a": [1]}),
    (dict[str, object], {"a": [1]}, {"a": [1]}),
    (dict[int, object], {"1": [None]}, {1: [None]}),
    (list[object], ["a", 1], ["a", 1]),
    (tuple[object, ...], ["a", 1], ("a", 1)),
    (Any, [None], [None]),
]


@pytest.mark.parametrize(("kind", "given", "expected"), FITTING, ids=[str(kind) for kind, *_ in FITTING])
def test_what_fits(kind: Any, given: Any, expected: Any) -> None:
    """JSON becomes what the annotation says."""
    got: list[Any] = []

    def work(value):  # type: ignore[no-untyped-def]
        got.append(value)

    work.__annotations__["value"] = kind
    task = carried_out(work, {"value": given})
    assert task.status is TaskStatus.COMPLETED, task.reason
    assert got == [expected]
    assert type(got[0]) is type(expected)


MISFITS: list[tuple[Any, Any, str]] = [
    (str, 5, "value: expected str, got 5"),
    (int, "5", 'value: expected int, got "5"'),
    (bool, 1, "value: expected bool, got 1"),
    (float, True, "value: expected float, got true"),
    (dict, [], "value: expected an object, got a list"),
    (int | str, [], "value: expected int or str, got a list"),
    (int | None, "x", 'value: expected int, got "x"'),
    (Item | None, {"name": "a"}, "value.price: is missing"),
    (list[int], [1, "a", 2, "b"], 'value[1]: expected int, got "a"; value[3]: expected int, got "b"'),
    (dict[str, list[int]], {"a": [[]]}, "value.a[0]: expected int, got a list"),
    (tuple[int, str], [1], "value: expected 2 entries, got 1"),
    (Literal["a", 1], True, 'value: expected one of "a", 1, got true'),
    (Decimal, "x", 'value: expected Decimal as text or a number, got "x"'),
    (Address, {"zip": "x"}, "value.city: is missing"),
]


@pytest.mark.parametrize(("kind", "given", "reason"), MISFITS, ids=[reason for *_, reason in MISFITS])
def test_what_does_not_fit(kind: Any, given: Any, reason: str) -> None:
    """Nothing is coerced that would change its meaning."""

    def work(value):  # type: ignore[no-untyped-def]
        raise AssertionError

    work.__annotations__["value"] = kind
    task = carried_out(work, {"value": given})
    assert (task.status, task.reason) == (TaskStatus.FAILED_WITH_TERMINAL_ERROR, f"task 't': {reason}")


def test_the_whole_input() -> None:
    """A record called `input`, alone or beside the context, gets the whole input; errors begin with `input`."""

    def work(input: Item, context: TaskContext) -> dict[str, Any]:
        return {"is": input, "ref": context.ref}

    task = carried_out(work, {"name": "a", "price": 1})
    assert task.output_data == {"is": {"name": "a", "price": 1, "size": "small"}, "ref": "t"}
    assert carried_out(work, {"name": "a"}).reason == "task 't': input.price: is missing"


def test_null_is_absent_where_there_is_a_default() -> None:
    """A reference to nothing is null: it takes the default, unless the annotation says that null is meant."""

    def work(width: int = 800, height: int | None = 600) -> dict[str, Any]:
        return {"width": width, "height": height}

    assert carried_out(work, {"width": None, "height": None}).output_data == {"width": 800, "height": None}


def test_results_become_json() -> None:
    """Records, dates, decimals and enums become JSON at any depth; a list goes under "result"; the unknown is refused."""
    made: list[Any] = [
        [Item("a", 1.0)],
        {"at": date(2030, 1, 2), "sizes": (Size.L,), "cost": Decimal("1.10"), "id": UUID(int=1)},
        {"odd": object()},
    ]

    def work(which: int) -> Any:
        return made[which]

    assert carried_out(work, {"which": 0}).output_data == {"result": [{"name": "a", "price": 1.0, "size": "small"}]}
    assert carried_out(work, {"which": 1}).output_data == {
        "at": "2030-01-02", "sizes": ["large"], "cost": "1.10", "id": "00000000-0000-0000-0000-000000000001",
    }  # fmt: skip
    assert "a object is not JSON" in (carried_out(work, {"which": 2}).reason or "")


def test_pydantic_models() -> None:
    """A pydantic model reads and writes itself, also inside a dataclass; its errors carry the path."""
    pydantic = pytest.importorskip("pydantic")
    price = (float, pydantic.Field(gt=0))
    model: Any = pydantic.create_model("Model", name=(str, ...), price=price)

    def work(item, items=()):  # type: ignore[no-untyped-def]
        assert isinstance(item, model)
        return {"item": item, "count": len(items)}

    work.__annotations__.update(item=model, items=list[model])
    good = {"name": "a", "price": 1}
    assert carried_out(work, {"item": good, "items": [good]}).output_data == {"item": {"name": "a", "price": 1.0}, "count": 1}
    reason = carried_out(work, {"item": good, "items": [good, {"price": -1}]}).reason
    assert reason == "task 't': items[1].name: is missing; items[1].price: Input should be greater than 0"


def test_plain_functions_never_need_the_converter() -> None:
    """Functions without annotations, or with those of JSON itself, are checked without it and without asyncio."""
    program = """
import sys
import conductorlite as c
workers = c.Workers()
@workers.task("work")
def work(a, b: str, c: int | None, d: dict, e: list, f: dict[str, object] = {}, **rest) -> dict:
    return {"b": b}

task = c.WorkflowTask(name="work", task_reference_name="t", input_parameters={"a": 1, "b": "x", "c": None, "d": {}, "e": []})
with c.Engine(workers=workers, clock=c.VirtualClock()) as engine:
    assert engine.start(c.WorkflowDef(name="w", tasks=[task], output_parameters={"b": "${t.output.b}"})).result() == {"b": "x"}
from conductorlite.model.typed import converter
print([name for name in ("asyncio", "pydantic") if name in sys.modules], converter.cache_info().currsize)
""".replace("f: dict[str, object] = {}, ", "")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[] 0\n", "")


@attrs.frozen
class Release:
    """Of an application."""

    version: str
    workflows: list[WorkflowDef]


def test_definitions_are_conductors_json() -> None:
    """Alone and inside a structure of the application's; what is wrong has its path from the outside in."""

    task = {"name": "charge", "taskReferenceName": "pay", "type": "SIMPLE", "startDelay": 1.5}
    workflow = {"name": "order", "version": 1, "tasks": [task], "schemaVersion": 2}
    release = converter().structure({"version": "1", "workflows": [workflow]}, Release)
    assert release.workflows[0].tasks[0].start_delay_ms == 1_500
    assert converter().unstructure(release) == plain(release) == {"version": "1", "workflows": [workflow]}
    read = reader(Release)
    assert read is not None
    bad = {**workflow, "tasks": [{**task, "startDelay": "soon"}, {}]}
    with pytest.raises(InvalidInput) as caught:
        read({"version": 5, "workflows": [workflow, bad]}, "release")
    assert str(caught.value).split("; ") == [
        "release.version: expected str, got 5",
        'release.workflows[1].tasks[0].startDelay: expected an integer, got "soon"',
        "release.workflows[1].tasks[1].name: is missing",
        "release.workflows[1].tasks[1].taskReferenceName: is missing",
    ]
