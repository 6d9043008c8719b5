"""Classes of `model/attrs.py` are classes of attrs: made by both, one declaration behaves alike."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, ClassVar

import attrs
import cattrs
import pytest

from conductorlite.model import attrs as ours
from conductorlite.model.attrs import changed, copied, freeze, thaw


def whole(value: str | int) -> int:
    return int(value)


def declared(by: Any) -> SimpleNamespace:
    """The same classes, declared with attrs or with ours."""

    @by.frozen(kw_only=True, slots=True)
    class Row:
        many: ClassVar[int] = 3
        name: str
        _hidden: int = 0
        tags: dict[str, int] = by.field(factory=dict, hash=False)
        size: int = by.field(default=1, converter=whole)
        shown: str = by.field(init=False, eq=False, repr=False)

        @shown.default
        def _shown(self) -> str:
            return f"{self.name}!"

        def again(self) -> type:
            return __class__  # type: ignore[name-defined]

    @by.frozen
    class Point:
        x: int
        y: int = 2

        def __attrs_post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("negative")

    @by.frozen(kw_only=True)
    class Deep(Point):
        z: int = 3

    @by.define(slots=True)
    class Heap:
        items: list[int] = by.field(factory=list)

    @by.define(eq=False)
    class Identity:
        value: object = None

    @by.frozen(repr=False)
    class Named:
        name: str

        def __repr__(self) -> str:
            return f"<{self.name}>"

        def __hash__(self) -> int:
            return 7

    @by.frozen(slots=False)
    class Open:
        name: str

    class Derived(Point):
        pass

    kinds = {kind.__name__: kind for kind in (Row, Point, Deep, Heap, Identity, Named, Open, Derived)}
    for kind in kinds.values():
        kind.__qualname__ = kind.__name__
        kind.__module__ = __name__
    return SimpleNamespace(**kinds)


def said(act: Callable[[Any], object]) -> list[object]:
    """What both say: a value as text, or the name of the error."""
    answers: list[object] = []
    for kinds in (declared(attrs), declared(ours)):
        try:
            answers.append(repr(act(kinds)))
        except (TypeError, AttributeError, ValueError) as error:
            answers.append((type(error).__name__, str(error).rpartition("<locals>.")[2]))
    return answers


@pytest.mark.parametrize(
    "act",
    [
        lambda kinds: kinds.Row(name="a", hidden=5, size="7"),
        lambda kinds: kinds.Row(name="a").shown,
        lambda kinds: kinds.Row(),
        lambda kinds: kinds.Row("a"),
        lambda kinds: kinds.Row(name="a", other=1),
        lambda kinds: setattr(kinds.Row(name="a"), "name", "b"),
        lambda kinds: delattr(kinds.Row(name="a"), "name"),
        lambda kinds: kinds.Row(name="a") == kinds.Row(name="a"),
        lambda kinds: kinds.Row(name="a") != kinds.Row(name="b"),
        lambda kinds: kinds.Row(name="a") == 5,
        lambda kinds: {kinds.Row(name="a"): 1}[kinds.Row(name="a", tags={})],
        lambda kinds: kinds.Row(name="a").again() is kinds.Row,
        lambda kinds: (kinds.Point(1), kinds.Point(1, 5), kinds.Point(x=4)),
        lambda kinds: kinds.Point(-1),
        lambda kinds: kinds.Point(1) < kinds.Point(2),
        lambda kinds: kinds.Deep(1, z=9),
        lambda kinds: kinds.Deep(1) == kinds.Point(1),
        lambda kinds: kinds.Derived(1, 2),
        lambda kinds: pickle.loads(pickle.dumps(kinds.Row(name="a").__getstate__())),
        lambda kinds: setattr(kinds.Derived(1, 2), "x", 3),
        lambda kinds: kinds.Derived(1) == kinds.Derived(1),
        lambda kinds: (kinds.Heap() == kinds.Heap(), kinds.Heap([1]), kinds.Heap().items is kinds.Heap().items),
        lambda kinds: hash(kinds.Heap()),
        lambda kinds: kinds.Identity(1) == kinds.Identity(1),
        lambda kinds: len({kinds.Identity(1), kinds.Identity(1)}),
        lambda kinds: (kinds.Named("n"), hash(kinds.Named("n"))),
        lambda kinds: (kinds.Open("n"), vars(kinds.Open("n"))),
        lambda kinds: vars(kinds.Point(1)),
        lambda kinds: [inspect.signature(kind) for kind in vars(kinds).values()],
        lambda kinds: [kind.__match_args__ for kind in vars(kinds).values()],
        lambda kinds: [[getattr(one, "name", one) for one in attrs.fields(kind)] for kind in vars(kinds).values()],
        lambda kinds: [attrs.has(kind) for kind in vars(kinds).values()],
        lambda kinds: {name: (one.type, one.alias, one.hash, one.converter) for name, one in attrs.fields_dict(kinds.Row).items()},
        lambda kinds: attrs.evolve(kinds.Row(name="a", hidden=2), hidden=3),
        lambda kinds: attrs.asdict(kinds.Row(name="a", tags={"b": 1})),
        lambda kinds: cattrs.Converter().structure({"x": "4"}, kinds.Point),
        lambda kinds: copy.copy(kinds.Row(name="a")),
        lambda kinds: copy.deepcopy(kinds.Heap([1])),
        lambda kinds: copy.copy(kinds.Open("a")),
    ],
)  # fmt: skip
def test_a_class_is_as_attrs_makes_it(act: Callable[[Any], object]) -> None:
    """What is said of an object, of a class and by an error is the same."""
    by_attrs, by_ours = said(act)
    assert by_attrs == by_ours


def test_a_class_of_ours_is_one_for_its_own_functions_too() -> None:
    """`evolve`, `has` and `fields` of ours answer as those of attrs."""
    kinds = declared(ours)
    row = kinds.Row(name="a", hidden=2)
    assert ours.evolve(row, hidden=3) == kinds.Row(name="a", hidden=3)
    assert ours.has(kinds.Row)
    assert ours.has(declared(attrs).Row)
    assert not ours.has(dict[str, int])
    assert [one.name for one in ours.fields(kinds.Row)] == [one.name for one in attrs.fields(kinds.Row)]
    assert [one.default is ours.NOTHING for one in ours.fields(kinds.Point)] == [True, False]


def test_what_is_frozen_is_written_in_copies_only() -> None:
    """A copy can be written until it is frozen, and the original never."""
    kinds = declared(ours)
    row = kinds.Row(name="a")
    copy = copied[kinds.Row](row)
    copy.name = "b"
    assert (row.name, freeze(copy), type(copy)) == ("a", kinds.Row(name="b"), kinds.Row)
    with pytest.raises(AttributeError):
        copy.name = "c"
    own = thaw(kinds.Row(name="a"))
    own.name = "d"
    assert changed(freeze(own), size=4) == kinds.Row(name="d", size=4)
    with pytest.raises(AttributeError):
        changed(row, nothing=1)


def test_a_row_is_pickled() -> None:
    """A frozen, slotted object goes to another process and back."""
    from conductorlite import TaskResult, TaskStatus

    result = TaskResult(workflow_id="w", task_id="t", status=TaskStatus.COMPLETED)
    assert pickle.loads(pickle.dumps(result)) == result


def test_methods_are_made_when_they_are_first_used() -> None:
    """A declaration compiles nothing: that is what it is for."""
    kinds = declared(ours)
    assert not isinstance(vars(kinds.Row)["__init__"], type(said))
    row = kinds.Row(name="a")
    assert isinstance(vars(kinds.Row)["__init__"], type(said))
    # A function, for Ctrl-C comes out of it; what is compiled has no file.
    assert vars(kinds.Row)["__eq__"].__code__.co_filename == ours.__file__
    assert row == kinds.Row(name="a")
    assert vars(kinds.Row)["__eq__"].__code__.co_filename == "<string>"


@pytest.mark.parametrize(
    ("kind", "places", "names"),
    [
        ("Row", (), {"name": "a", "hidden": 5, "size": "7"}),
        ("Row", (), {"name": "a"}),
        ("Row", ("a",), {}),
        ("Point", (1,), {"y": 4}),
        ("Point", (-1,), {}),
        ("Deep", (1,), {"z": 9}),
        ("Heap", (), {}),
        ("Identity", (), {"value": 3}),
        ("Open", ("a",), {}),
        ("Derived", (1,), {}),
    ],
)
def test_new_makes_what_the_class_makes(kind: str, places: tuple[Any, ...], names: dict[str, Any]) -> None:
    """The same object, frozen if it is to be, or the same kind of error."""
    of = getattr(declared(ours), kind)

    def made(make: Any) -> object:
        try:
            row = make(*places, **names)
            assert type(row) is of
            with suppress(AttributeError):
                row.unheard = 1
            return repr(row) if kind != "Identity" else row.value
        except (TypeError, ValueError, AssertionError) as error:
            return type(error)

    assert made(ours.new[of]) == made(of)
