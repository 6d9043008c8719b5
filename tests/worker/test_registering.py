"""Every way to register a function: with and without parentheses, functions and what is like one, and what cannot be one."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from conductorlite import Engine, VirtualClock, Workers, WorkflowDef, WorkflowTask
from conductorlite.errors import InvalidInput
from conductorlite.testing import ScriptedWorkers


def plain() -> dict[str, int]:
    return {"y": 1}


async def awaited() -> dict[str, int]:
    return {"y": 1}


class Shop:
    """A class whose methods carry out tasks."""

    def bound(self) -> dict[str, int]:
        return {"y": 1}

    async def bound_async(self) -> dict[str, int]:
        return {"y": 1}

    @staticmethod
    def static() -> dict[str, int]:
        return {"y": 1}

    @staticmethod
    async def static_async() -> dict[str, int]:
        return {"y": 1}

    @classmethod
    def of_class(cls) -> dict[str, int]:
        return {"y": 1}


class PlainCallable:
    """An object that is called."""

    def __call__(self) -> dict[str, int]:
        return {"y": 1}


class AsyncCallable:
    """An object that is awaited."""

    async def __call__(self) -> dict[str, int]:
        return {"y": 1}


def with_number(y: int) -> dict[str, int]:
    return {"y": y}


async def with_number_async(y: int) -> dict[str, int]:
    return {"y": y}


NAMED: list[Callable[..., Any]] = [
    plain, awaited, Shop().bound, Shop().bound_async, Shop.static, Shop.static_async, Shop.of_class,
    Shop.__dict__["static"], Shop.__dict__["static_async"],
]  # fmt: skip
NAMELESS: list[Callable[..., Any]] = [
    lambda: {"y": 1}, functools.partial(with_number, y=1), functools.partial(with_number_async, y=1), PlainCallable(),
    AsyncCallable(), functools.partial(AsyncCallable()),
]  # fmt: skip


def outcome(workers: Workers, task_type: str) -> dict[str, Any]:
    definition = WorkflowDef(
        name="w",
        tasks=[WorkflowTask(name=task_type, task_reference_name="t")],
        output_parameters={"y": "${t.output.y}"},
    )
    with Engine(workers=workers, clock=VirtualClock()) as engine:
        return engine.start(definition).result()


@pytest.mark.parametrize("kind", [Workers, ScriptedWorkers])
@pytest.mark.parametrize("function", NAMED)
def test_parentheses_make_no_difference(function: Callable[..., Any], kind: type[Workers]) -> None:
    """`@workers.task`, `@workers.task()` and `@workers.task("name")` return the function and register it."""
    for decorate, name in (
        (lambda workers: workers.task, None), (lambda workers: workers.task(), None), (lambda workers: workers.task("n"), "n"),
    ):  # fmt: skip
        workers = kind()
        assert decorate(workers)(function) is function
        (worker,) = workers
        assert worker.task_type == (name or function.__name__)
        assert outcome(workers, worker.task_type) == {"y": 1}


@pytest.mark.parametrize("function", NAMELESS)
def test_what_has_no_name_is_given_one(function: Callable[..., Any]) -> None:
    """A lambda, a partial, an object: with a name they work; without one the decorator says so at once."""
    workers = Workers()
    for decorate in (workers.task, workers.task()):
        with pytest.raises(InvalidInput, match="has no name"):
            decorate(function)
    assert not list(workers)
    workers.task("n")(function)
    assert outcome(workers, "n") == {"y": 1}


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (Shop, "is a class"),
        (functools.partial(Shop), "is a class"),
        (Shop.bound, "is a method without its object"),
        (Shop.__dict__["of_class"], "cannot be called"),
        (generator, "is a generator function"),
        (async_generator, "is a generator function"),
        (functools.partial(generator), "is a generator function"),
        (5, "cannot be called"),
        ({}, "cannot be called"),
    ],
)
def test_what_cannot_be_a_worker_is_refused_where_it_is_registered(thing: Any, message: str) -> None:
    """By the decorator in each form and by `add`, with nothing registered."""
    workers = Workers()
    for register in (workers.task("n"), lambda thing: workers.add("n", thing)):
        with pytest.raises(InvalidInput, match=message):
            register(thing)
    with pytest.raises(InvalidInput):
        workers.task(thing)
    assert not list(workers)


@pytest.mark.parametrize("name", ["", "  ", 5, None])
def test_a_task_type_is_a_text(name: Any) -> None:
    """`add` refuses what is no name."""
    with pytest.raises(InvalidInput, match="task type"):
        Workers().add(name, plain)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retry_cuont": 3}, "there is no option 'retry_cuont'; did you mean 'retry_count'?"),
        ({"retry_logic": "OFTEN"}, "retry_logic: 'OFTEN'"),
        ({"timeout_policy": "MAYBE"}, "timeout_policy: 'MAYBE'"),
        ({"retry_count": "3"}, "retryCount"),
        ({"retry_count": -1}, "retryCount"),
        ({"retry_delay_seconds": "soon"}, "'soon' is not a length of time"),
        ({"retry_delay_seconds": True}, "True is not a length of time"),
        ({"retry_delay_seconds": float("nan")}, "nan is not a length of time"),
        ({"retry_delay_ms": "soon"}, "'soon' is not a length of time"),
        ({"retry_delay_seconds": 1, "retry_delay_ms": 1}, "what another option has said"),
        ({"input_keys": 5}, "'int' object is not iterable"),
    ],
)
def test_wrong_options_are_refused_where_they_are_written(options: dict[str, Any], message: str) -> None:
    """Each with the worker's name and what is wrong, and nothing is registered."""
    workers = Workers()
    with pytest.raises(InvalidInput, match="worker 'n': ") as found:
        workers.task("n", **options)(plain)
    assert message in str(found.value)
    assert not list(workers)
