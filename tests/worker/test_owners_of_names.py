"""Flows and tasks by their names: a flow among the workers is started by its name, and one name has one owner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conductorlite import Engine, VirtualClock, Workers, flow, task
from conductorlite.errors import AlreadyExists, InvalidInput


@task
def greet(name: str) -> str:
    """Greet somebody."""
    return f"hello {name}"


@flow
def hello(name: str) -> str:
    """Greet once."""
    return greet(name)


def named(name: str, of: str) -> Any:
    """A flow of a name, which greets a constant."""

    @flow(name=name)
    def made() -> str:
        return greet(of)

    return made


@pytest.mark.parametrize("store", [None, "store.db"])
@pytest.mark.parametrize("workers", [[hello], hello, Workers().include(hello)], ids=["list", "flow", "set"])
def test_a_flow_among_the_workers_is_started_by_its_name(workers: Any, store: str | None, tmp_path: Path) -> None:
    """It is registered when the engine is made, so schedules and event handlers find it, too."""
    where = None if store is None else tmp_path / store
    with Engine(where, workers=workers, clock=VirtualClock()) as engine:
        assert engine.start("hello", {"name": "x"}).result() == {"result": "hello x"}


def test_a_changed_flow_is_registered_anew(tmp_path: Path) -> None:
    """The next process has other code: what is started by name is that of its flow."""
    for of in ("Ada", "Bob"):
        with Engine(tmp_path / "s.db", workers=[named("same", of)], clock=VirtualClock()) as engine:
            assert engine.start("same").result() == {"result": f"hello {of}"}


def test_two_flows_of_one_name_are_refused() -> None:
    """The error names both functions with file and line."""
    with pytest.raises(
        AlreadyExists,
        match=r"two flows are called 'same': .*made \(test_owners_of_names.py:\d+\) and .*made \(test_owners_of_names.py:\d+\)",
    ):
        Engine(workers=[named("same", "one"), named("same", "two")])
    twice = named("same", "one")
    Engine(workers=[twice, twice, named("same", "one")]).close()


def test_two_tasks_of_one_name_are_refused() -> None:
    """The error names both functions with file and line."""

    def other() -> Any:
        @task(name="greet")
        def welcome(name: str) -> str:
            return name

        return welcome

    with pytest.raises(
        AlreadyExists,
        match=r"two workers for 'greet': .*greet \(test_owners_of_names.py:\d+\) and .*welcome \(test_owners_of_names.py:\d+\)",
    ):
        Engine(workers=[hello, other()])


@pytest.mark.parametrize("workers", [[greet.function], greet.function, Workers], ids=["list", "function", "class"])
def test_a_plain_function_is_no_worker(workers: Any) -> None:
    """The error says to decorate it."""
    with pytest.raises(
        InvalidInput, match=r"'(greet' is a plain function \(.*greet \(test_owners_of_names.py:\d+\)\)|Workers')|Workers, tasks"
    ):
        Engine(workers=workers)


@pytest.mark.parametrize("given", [3, Workers, "greet"])
def test_what_is_no_worker_at_all_is_refused(given: Any) -> None:
    """The error says what workers are."""
    with pytest.raises(InvalidInput, match="workers are Workers, tasks and flows, not "):
        Engine(workers=[given])
