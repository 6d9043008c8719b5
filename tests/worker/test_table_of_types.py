"""The table of types: each row in both directions, on drawn values and on drawn values that are none of its kind."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import deque
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum, auto
from pathlib import Path, PurePosixPath
from typing import Any, Generic, Literal, NamedTuple, NewType, NotRequired, TypedDict, TypeVar
from uuid import UUID

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import Phase as Stage
from hypothesis import strategies as st

from conductorlite import Engine, TaskStatus, VirtualClock, Workers, WorkflowDef, WorkflowTask, flow, task
from conductorlite.flows import converter, human
from conductorlite.flows.schemas import is_whole, schema_of
from conductorlite.language.schemas import compile_schema
from conductorlite.model.canonical import Payload
from conductorlite.model.definitions import SchemaDef
from conductorlite.model.errors import BuildError, InvalidInput
from conductorlite.model.typed import TABLE, plain, reader, refusal

pydantic = pytest.importorskip("pydantic")
pytest.importorskip("jsonschema")

T = TypeVar("T")


class Color(Enum):
    """Its values are of several kinds; 1 and true are two of them."""

    RED = "red"
    ONE = 1
    YES = True
    PAIR = (1, "a")
    NONE = None


class Phase(StrEnum):
    """A text."""

    READY = "ready"
    DONE = "done"


class Level(IntEnum):
    """A number."""

    LOW = 1
    HIGH = 2


class Right(Flag):
    """Several at once."""

    READ = auto()
    WRITE = auto()


class Mode(IntFlag):
    """Several at once, as numbers."""

    A = 1
    B = 2


class Code(str):
    """A text with a name."""

    __slots__ = ()


Sku = NewType("Sku", str)
Skus = NewType("Skus", list[Sku])


@dataclasses.dataclass(frozen=True)
class Item:
    """Of an order."""

    name: str
    count: int = 1
    size: Phase | None = None


@attrs.frozen
class Parcel:
    """With records, dates and itself in it."""

    item: Item
    due: datetime | None
    inside: tuple[Parcel, ...] = ()


class Point(NamedTuple):
    """A tuple with names."""

    x: int
    y: float = 0.0


class Address(TypedDict):
    """With a key that may be missing."""

    city: str
    zip: NotRequired[int]


@dataclasses.dataclass(frozen=True)
class Box(Generic[T]):
    """Of anything."""

    content: T


class Tagged(TypedDict, Generic[T]):
    """Of anything, as a map."""

    tag: T


class Guest(pydantic.BaseModel):  # type: ignore[name-defined, misc]
    """A model that is strict."""

    model_config = pydantic.ConfigDict(strict=True)
    name: str
    born: date | None = None


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
zones = st.sampled_from([UTC, timezone(timedelta(hours=-5)), timezone(timedelta(hours=5, minutes=45))])
instants = st.datetimes(timezones=zones)
whole = st.integers(-(2**70), 2**70)
numbers = st.floats() | st.integers(-9, 9)
nodes = st.builds(WorkflowTask, name=texts, task_reference_name=texts, optional=st.booleans())
items = st.builds(Item, texts, whole, st.sampled_from(Phase) | st.none())
parcels = st.recursive(
    st.builds(Parcel, items, instants | st.none()),
    lambda inner: st.builds(Parcel, items, st.none(), st.lists(inner, max_size=2).map(tuple)),
    max_leaves=4,
)

#: By the annotation in the table: annotations, each with values of it, and JSON values that are none of it.
KINDS: dict[str, list[tuple[Any, st.SearchStrategy[Any], list[Any]]]] = {
    "str": [(str, texts, [5, None, True, [], {}])],
    "int": [(int, whole, ["5", 5.5, True, None, []])],
    "float": [(float, numbers, ["5", "nan", True, None, {}])],
    "bool": [(bool, st.booleans(), [0, 1, "true", None])],
    "None": [(None, st.none(), [0, "", False, [], {}])],
    "datetime": [(datetime, instants | st.datetimes(), [5, "soon", None, "2030-13-01T00:00:00"])],
    "date": [(date, st.dates(), [5, "soon", None, "2030-02-30"])],
    "time": [(time, st.times(), [5, "25:00", None])],
    "timedelta": [(timedelta, st.timedeltas(), [5, "5s", "P", "PT", "1D", "", None, "P1Y"])],
    "Decimal": [(Decimal, st.decimals(allow_nan=False), ["x", None, True, []])],
    "UUID": [(UUID, st.uuids(), ["x", 5, None])],
    "Path": [
        (Path, st.sampled_from([Path("a/b"), Path("/"), Path()]), [5, None, []]),
        (PurePosixPath, st.sampled_from([PurePosixPath("a/b")]), [5]),
    ],
    "bytes": [(bytes, st.binary(max_size=9), ["x", "é", 5, None, []])],
    "Enum": [(Color, st.sampled_from(Color), ["blue", 2, False, 1.5, [1]])],
    "StrEnum": [(Phase, st.sampled_from(Phase), ["READY", 1, None])],
    "IntEnum": [(Level, st.sampled_from(Level), ["1", 3, True, 1.0])],
    "Flag": [
        (Right, st.sampled_from([Right(0), Right.READ, Right.READ | Right.WRITE]), ["1", 8, True, None]),
        (Mode, st.sampled_from([Mode.A, Mode.A | Mode.B]), ["1", True, None]),
    ],
    "Literal": [(Literal["a", 1, None], st.sampled_from(["a", 1, None]), ["b", True, "1", 2])],
    "NewType": [(Sku, texts, [5, None]), (Skus, st.lists(texts, max_size=2), ["a", [5]])],
    "subclass of str, int or float": [(Code, texts.map(Code), [5, None])],
    "list[T]": [(list[timedelta], st.lists(st.timedeltas(), max_size=2), [{}, "ab", [5], ["PT1S", None]])],
    "tuple[T, ...]": [(tuple[int, ...], st.lists(whole, max_size=3).map(tuple), [{}, ["a"]])],
    "tuple[T, U]": [(tuple[int, str], st.tuples(whole, texts), [[1], [1, "a", 2], ["a", 1]])],
    "set[T]": [(set[date], st.sets(st.dates(), max_size=3), [{}, [1], "a"])],
    "frozenset[T]": [(frozenset[int], st.frozensets(whole, max_size=3), [{}, ["a"]])],
    "deque[T]": [(deque[int], st.lists(whole, max_size=3).map(deque), [{}, ["a"]])],
    "dict[str, T]": [(dict[str, bytes], st.dictionaries(texts, st.binary(max_size=3), max_size=2), [[], {"a": 5}])],
    "dict[int, T]": [
        (dict[int, str], st.dictionaries(whole, texts, max_size=2), [{"a": "b"}, {"1.5": "a"}, {"1": 1}]),
        (dict[Level, int], st.dictionaries(st.sampled_from(Level), whole), [{"LOW": 1}, {"3": 1}]),
        (dict[Phase, int], st.dictionaries(st.sampled_from(Phase), whole), [{"LOW": 1}]),
        (dict[bool, int], st.dictionaries(st.booleans(), whole), [{"1": 1}, {"True": 1}]),
        (dict[float, int], st.dictionaries(st.floats(allow_nan=False), whole, max_size=2), [{"a": 1}]),
        (dict[date, int], st.dictionaries(st.dates(), whole, max_size=2), [{"1": 1}]),
        (dict[UUID, int], st.dictionaries(st.uuids(), whole, max_size=2), [{"1": 1}]),
    ],
    "T | U": [
        (int | None, whole | st.none(), ["5", True]),
        (int | str, whole | texts, [None, 1.5, []]),
        (timedelta | int, st.timedeltas() | whole, ["soon", None]),
        (Item | Point, items | st.builds(Point, whole, st.floats(allow_nan=False)), [{"z": 1}, 5]),
        (list[Item | None], st.lists(items | st.none(), max_size=2), [[{"count": 1}], [5]]),
    ],
    "dataclass": [(Item, items, [{}, {"name": 5}, {"name": "a", "count": "2"}, [], None])],
    "attrs class": [(Parcel, parcels, [{"item": {}}, {"item": {"name": "a"}, "due": 5}, {"due": None}])],
    "NamedTuple": [(Point, st.builds(Point, whole, st.floats(allow_nan=False)), [[1, 2], {}, {"x": "1"}])],
    "TypedDict": [
        (Address, st.fixed_dictionaries({"city": texts}, optional={"zip": whole}), [{}, {"city": 5}, {"city": "a", "zip": "x"}])
    ],
    "generic record": [
        (Box[timedelta], st.builds(Box, st.timedeltas()), [{}, {"content": 5}]),
        (Box[list[Item]], st.builds(Box, st.lists(items, max_size=2)), [{"content": [5]}]),
        (Tagged[UUID], st.fixed_dictionaries({"tag": st.uuids()}), [{}, {"tag": 5}]),
    ],
    "pydantic model": [(Guest, st.builds(Guest, name=texts, born=st.dates() | st.none()), [{}, {"name": 5}, {"born": None}])],
    "WorkflowDef, WorkflowTask, TaskDef …": [
        (WorkflowTask, nodes, [{}, {"name": 5, "taskReferenceName": "t"}, [], None]),
        (WorkflowDef, st.builds(WorkflowDef, name=texts, tasks=st.lists(nodes, max_size=2)), [{}, {"name": "w", "version": "x"}]),
        (list[WorkflowTask], st.lists(nodes, max_size=2), [[{}], {}]),
    ],
    "Any, object, no annotation": [(Any, st.none() | st.booleans() | texts | st.lists(whole, max_size=2), [])],
}
ROWS = [(row, *each) for row, several in KINDS.items() for each in several]
IDS = [f"{row} {str(kind).replace('test_table_of_types.', '')}" for row, kind, *_ in ROWS]


def alike(one: Any, other: Any) -> bool:
    """Whether two values are equal, and of one type at every depth; NaN is NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    if isinstance(one, list | tuple | deque):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if dataclasses.is_dataclass(one):
        return all(alike(getattr(one, field.name), getattr(other, field.name)) for field in dataclasses.fields(one))
    return bool(one == other)


def through_json(kind: Any, value: Any) -> Any:
    """What is read of what was written."""
    text = json.loads(Payload.of({"value": value}).text or "")["value"]
    read = reader(kind)
    return text if read is None else read(text, "value")


def test_each_row_of_the_table_is_drawn() -> None:
    """A new row needs values here."""
    assert [form.annotation for form in TABLE] == list(KINDS)


@pytest.mark.parametrize(("row", "kind", "values", "wrong"), ROWS, ids=IDS)
@settings(suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_value_comes_back_as_it_went(
    row: str, kind: Any, values: st.SearchStrategy[Any], wrong: list[Any], data: st.DataObject
) -> None:
    """Equal, and of the same types; it was JSON in between, which the annotation's schema takes."""
    assert refusal(kind) is None
    value = data.draw(values)
    assert alike(through_json(kind, value), value)
    check = compile_schema(SchemaDef(name="kind", data=schema_of(kind)))
    written = plain(value)
    if "NaN" not in json.dumps(written) and "Infinity" not in json.dumps(written):  # schemas of numbers know neither
        assert check.violation(written) is None


@pytest.mark.parametrize(("row", "kind", "values", "wrong"), ROWS, ids=IDS)
@settings(suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_no_value_is_refused_with_its_path(
    row: str, kind: Any, values: st.SearchStrategy[Any], wrong: list[Any], data: st.DataObject
) -> None:
    """Wherever it stands among good ones."""
    if not wrong:
        return
    good = [plain(value) for value in data.draw(st.lists(values, max_size=2))]
    bad = data.draw(st.sampled_from(range(len(wrong))))
    read = reader(dict[str, list[kind]])  # type: ignore[valid-type]
    assert read is not None
    with pytest.raises(InvalidInput) as refused:
        read({"a": [*good, wrong[bad]]}, "given")
    assert str(refused.value).startswith(f"given.a[{len(good)}]")


@pytest.mark.parametrize(("row", "kind", "values", "wrong"), ROWS, ids=IDS)
def test_through_a_flow_in_every_direction(row: str, kind: Any, values: st.SearchStrategy[Any], wrong: list[Any]) -> None:
    """An argument of a flow, a parameter of its task, the task's result and the flow's; and what a person answers."""
    seen: list[Any] = []

    def echo(value):  # type: ignore[no-untyped-def]
        seen.append(value)
        return value

    echo.__annotations__.update({"value": kind, "return": kind})
    echoed: Callable[..., Any] = task("echo", retry=0)(echo)

    def there_and_back(value):  # type: ignore[no-untyped-def]
        return echoed(value)

    there_and_back.__annotations__.update({"value": kind, "return": kind})
    there: Any = flow("there")(there_and_back)

    @flow
    def ask() -> dict[str, Any]:
        return {"said": human("asked", kind)}

    @settings(max_examples=2, database=None, phases=[Stage.generate], suppress_health_check=list(HealthCheck))
    @given(value=values)
    def each_way(value: Any) -> None:
        seen.clear()
        with Engine(workers=[there, ask], clock=VirtualClock(0)) as engine:
            returned = engine.start_and_wait(there, value=value)
            assert alike(seen, [value])
            assert alike(returned, value) or kind is Any  # a flow that says nothing returns its output
            run = engine.start(ask)
            engine.run_until_idle()
            written = plain(value)
            run.signal((written or {}) if is_whole(kind) and isinstance(written, dict | None) else {"result": written})

    @settings(max_examples=2, database=None, phases=[Stage.generate], suppress_health_check=list(HealthCheck))
    @given(at=st.sampled_from(range(len(wrong) or 1)))
    def neither_way(at: int) -> None:
        with Engine(workers=[there, ask], clock=VirtualClock(0)) as engine:
            with pytest.raises(InvalidInput, match=r"flow 'there': value"):
                engine.start("there", {"value": wrong[at]})
            assert engine.search().total_hits == 0

    each_way()
    if wrong:
        neither_way()


class Odd:
    """Nothing that JSON knows."""


UNCARRIED: list[tuple[Any, str]] = [
    (Odd, "Odd has no form in JSON"),
    (complex, "complex has no form in JSON"),
    (list[Odd], "Odd has no form in JSON"),
    (dict[str, Odd | None], "Odd has no form in JSON"),
    (tuple[int, Odd], "Odd has no form in JSON"),
    (Box[Odd], "Odd has no form in JSON"),
    (dataclasses.make_dataclass("Holder", [("odd", Odd)]), "Odd has no form in JSON .field 'odd' of Holder."),
    (Enum("Things", {"A": object()}), "the value of Things.A has no form in JSON"),
    (dict[Item, int], "Item is no key: keys are texts in JSON"),
    (dict[int | str, int], "int . str is no key: keys are texts in JSON"),
    (set[list[int]], r"list\[int\] cannot be hashed"),
    (Literal[b"x"], ""),
    (Callable[[], int], "has no form in JSON"),
    (type, "type has no form in JSON"),
]


@pytest.mark.parametrize(("kind", "said"), [one for one in UNCARRIED if one[1]], ids=lambda one: str(one)[:40])
def test_what_cannot_be_carried_is_refused_when_it_is_decorated(kind: Any, said: str) -> None:
    """As a parameter and as a result, of a task, a worker, a flow and a person: the function, the place, what to do."""

    def work(value):  # type: ignore[no-untyped-def]
        raise AssertionError

    for name, what in (("value", "parameter 'value' of"), ("return", "what")):
        work.__annotations__ = {name: kind}
        for decorator in (task, flow, Workers().task):
            expected = rf"{what} .*work \(test_table_of_types.py:\d+\).* cannot be carried as JSON: .*{said}"
            with pytest.raises(InvalidInput, match=expected):
                decorator(work)

    @flow
    def ask() -> Any:
        return human("asked", kind)

    with pytest.raises(BuildError, match=f"what human.'asked'. returns cannot be carried as JSON: .*{said}"):
        ask.definition  # noqa: B018


class Money:
    """A class of an application's own."""

    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and other.cents == self.cents

    def __hash__(self) -> int:
        return self.cents


def money(value: Any, _: Any) -> Money:
    """Read as the hook says."""
    if not isinstance(value, str) or not value.endswith(" ct"):
        raise ValueError(f"expected an amount such as '5 ct', got {value!r}")
    return Money(int(value[:-3]))


def test_a_class_of_ones_own_is_carried_by_its_hooks() -> None:
    """At every depth, in both directions; what its hook refuses is refused with the path."""
    converter().register_structure_hook(Money, money)
    converter().register_unstructure_hook(Money, lambda value: f"{value.cents} ct")

    @task(retry=0)
    def twice(price: Money) -> list[Money]:
        return [price, price]

    @flow
    def pay(price: Money) -> list[Money]:
        return twice(price)

    with Engine(workers=[pay], clock=VirtualClock(0)) as engine:
        run = engine.start(pay, Money(5))
        assert run.result() == [Money(5), Money(5)]
        assert run.workflow.input_data == {"price": "5 ct"}
        with pytest.raises(InvalidInput, match="flow 'pay': price: expected an amount such as '5 ct', got '7'"):
            engine.start("pay", {"price": "7"})


def test_an_annotation_that_cannot_be_resolved_is_an_error_that_names_it() -> None:
    """Of a parameter and of a result; a class of the function around is found, and so is the context by its name."""
    for text in ("value: Missing", "value: list[Missing] = []", "value: dict[str, Missing]"):
        names: dict[str, Any] = {}
        exec(compile(f"def work({text}): ...", "module.py", "exec", flags=16777216), names)  # annotations as texts
        with pytest.raises(
            InvalidInput, match=r"the annotation '.*Missing.*' of parameter 'value' of .*work \(module.py:1\) cannot"
        ):
            Workers().task(names["work"])
    exec(compile("def work() -> Missing: ...", "module.py", "exec", flags=16777216), names)
    with pytest.raises(InvalidInput, match=r"the annotation 'Missing' of what .*work \(module.py:1\) returns cannot be resolved"):
        task(names["work"])

    @dataclasses.dataclass
    class Local:
        """Known in this function only."""

        name: str

    @task(retry=0)
    def local(context: TaskContext, value: Local) -> Local:  # type: ignore[name-defined] # noqa: F821
        assert context.attempt == 0
        return Local(value.name * 2)

    @flow
    def around(value: Local) -> Local:
        return local(value)

    with Engine(workers=[around], clock=VirtualClock(0)) as engine:
        run = engine.start(around, Local("a"))
        assert run.result() == Local("aa")
        assert run.workflow.tasks[0].status is TaskStatus.COMPLETED
