"""The two faces of the engine have the same verbs with the same signatures, `async` apart."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from conductorlite import Engine, Run
from conductorlite.runtime.aio.engine import AsyncEngine
from conductorlite.runtime.aio.run import AsyncRun

#: Between the floors of the engine: they take rows and transactions, not what a user holds.
INSIDE = {
    "embed",
    "embedded",
    "execution",
    "report",
    "report_event",
    "fire_schedule",
    "resolve",
    "sign_of_life",
    "take_alone",
    "take_message",
    "take_offered",
}

#: Where there is an `async` in the words for what is returned.
TWINS = {"Run": "AsyncRun", "Iterator[str]": "AsyncIterator[str]"}


def verbs(face: type) -> dict[str, Callable[..., Any]]:
    """Public methods by name, without those that only the floors above the engine use."""
    return {
        name: method
        for name, method in inspect.getmembers(face, inspect.isfunction)
        if not name.startswith("_") and name not in INSIDE
    }


def test_the_same_verbs() -> None:
    """Whatever an Engine does, an AsyncEngine does; only `background` is its own."""
    assert set(verbs(AsyncEngine)) - {"background"} == set(verbs(Engine))


@pytest.mark.parametrize("name", [*sorted(verbs(Engine)), "__init__"])
def test_the_same_signature(name: str) -> None:
    """Parameters, defaults and annotations are equal, and what is returned has its asynchronous twin."""
    sync, awaited = inspect.signature(getattr(Engine, name)), inspect.signature(getattr(AsyncEngine, name))
    assert list(awaited.parameters.values()) == list(sync.parameters.values())
    assert awaited.return_annotation == TWINS.get(sync.return_annotation, sync.return_annotation)


@pytest.mark.parametrize("name", sorted(verbs(Engine)))
def test_every_verb_is_awaited(name: str) -> None:
    """Each verb is a coroutine function, or gives an asynchronous iterator."""
    method = getattr(AsyncEngine, name)
    returned = inspect.signature(method).return_annotation
    assert inspect.iscoroutinefunction(method) or returned.startswith("AsyncIterator")


def test_the_same_handle() -> None:
    """Run and AsyncRun have the same names; properties stay properties, awaited."""
    public = {name for name in vars(Run) if not name.startswith("_")}
    assert {name for name in vars(AsyncRun) if not name.startswith("_")} == public
    for name in public:
        one, other = getattr(Run, name), getattr(AsyncRun, name)
        assert type(one) is type(other), name
        if isinstance(one, property):
            assert inspect.iscoroutinefunction(other.fget)
            one, other = one.fget, other.fget
        if callable(one):
            assert inspect.signature(one) == inspect.signature(other)


def test_every_verb_is_one_line() -> None:
    """A method of AsyncEngine is a docstring and one or two statements: nothing to keep in step with Engine."""
    import ast
    import textwrap

    for name in verbs(Engine):
        (function,) = ast.parse(textwrap.dedent(inspect.getsource(getattr(AsyncEngine, name)))).body
        assert isinstance(function, ast.AsyncFunctionDef | ast.FunctionDef)
        assert len(function.body) <= 3, name
