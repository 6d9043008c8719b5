"""One rule for every length of time in the public face: text or a timedelta; a number only where the name says its unit."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import attrs
import click
import pytest

import conductorlite
import conductorlite.engine.admin
import conductorlite.engine.nouns
import conductorlite.engine.schedules
import conductorlite.ext.fsspec
import conductorlite.ext.sinks
import conductorlite.ext.workers
import conductorlite.model.schedules
import conductorlite.store.locks
import conductorlite.store.memory.backend
import conductorlite.store.payloads
import conductorlite.store.sqlite.backend
import conductorlite.testing
from conductorlite import TaskDef, TaskResult, TaskStatus, Workers, WorkflowDef, WorkflowTask
from conductorlite.cli.commands import complete
from conductorlite.errors import InvalidInput
from conductorlite.model.texts import to_ms, to_seconds, to_span
from conductorlite.store.locks import SQLiteLock
from conductorlite.store.sqlite.backend import SQLiteBackend

MODULES = [
    conductorlite,
    conductorlite.store.memory.backend,
    conductorlite.store.sqlite.backend,
    conductorlite.store.locks,
    conductorlite.store.payloads,
    conductorlite.engine.admin,
    conductorlite.engine.schedules,
    conductorlite.engine.nouns,
    conductorlite.model.schedules,
    conductorlite.ext.sinks,
    conductorlite.ext.workers,
    conductorlite.ext.fsspec,
    conductorlite.testing,
]
#: Words that a length of time is called by.
LENGTH = re.compile(
    r"(^|_)(timeout|delay|span|drain|lease|grace|older_than|deadline|jitter|frequency|interval|ttl|wait|patience|duration"
    r"|ms|seconds|secs|minutes|hours|days|millis)($|_)"
)
UNIT = re.compile(r"_(ms|seconds)$")
#: What bears such a word and is no length of time: a token, a switch, or a row that the engine makes and users read.
OTHERS = {
    "TaskResult.lease", "Task", "Workflow", "LimitUse", "AgendaEntry", "Schedule", "WorkflowTask.rate_limit_per_frequency",
    "TaskDef.rate_limit_per_frequency", "Step", "Call", "LimitMember", "TaskSummary", "Explored", "Outcome", "Forecast",
    "TaskDef.timeout_policy", "WorkflowDef.timeout_policy", "task.on_timeout",
}  # fmt: skip


def arguments() -> Iterator[tuple[str, str]]:
    """(where, annotation) of each argument of a public callable that is named like a length of time."""
    for module in MODULES:
        for name in module.__all__:
            public = getattr(module, name)
            callables = [(name, public)] if callable(public) else []
            if inspect.isclass(public):
                callables += [(f"{name}.{one}", value) for one, value in inspect.getmembers(public, inspect.isfunction)
                              if not one.startswith("_")]  # fmt: skip
            for where, function in callables:
                try:
                    parameters = inspect.signature(function).parameters.values()
                except (ValueError, TypeError):
                    continue
                for parameter in parameters:
                    at = f"{where}.{parameter.name}"
                    if LENGTH.search(parameter.name) and where.split(".")[0] not in OTHERS and at not in OTHERS:
                        yield at, str(parameter.annotation)


def test_every_length_of_time_keeps_the_rule() -> None:
    """Named without a unit it is a `Span`; named with one it takes a span as well as a number."""
    found = dict(arguments())
    assert len(found) > 35
    wide = ("Milliseconds", "Seconds", "int | str | timedelta", "int | str | datetime.timedelta")
    wrong = {
        at: annotation
        for at, annotation in found.items()
        if not (any(kind in annotation for kind in wide) if UNIT.search(at) else "Span" in annotation)
    }
    assert wrong == {}


SPANS = ["1.5s", "1s 500ms", " 1s500ms ", timedelta(seconds=1.5)]


@pytest.mark.parametrize("span", SPANS, ids=repr)
@pytest.mark.parametrize(
    "make",
    [
        *(lambda span, field=field: getattr(TaskDef(name="t", **{field: span}), field)
          for field in (field.name for field in attrs.fields(TaskDef) if field.name.endswith("_ms"))),
        lambda span: WorkflowDef(name="w", timeout_ms=span).timeout_ms,
        lambda span: WorkflowTask(name="t", task_reference_name="t", start_delay_ms=span).start_delay_ms,
        lambda span: TaskResult(
            workflow_id="w", task_id="t", status=TaskStatus.IN_PROGRESS, callback_after_ms=span
        ).callback_after_ms,
        lambda span: Workers(drain=span).drain_ms,
        to_span,
        to_ms,
        to_seconds,
    ],
)  # fmt: skip
def test_a_span_is_a_span_everywhere(make: Callable[[Any], int], span: Any) -> None:
    """Text and timedelta mean the same in every field, whatever unit its numbers have."""
    assert make(span) == 1_500


@pytest.mark.parametrize("option", ["retry_delay_ms", "retry_delay_seconds"])
@pytest.mark.parametrize("span", SPANS, ids=repr)
def test_the_decorator_takes_spans(option: str, span: Any) -> None:
    """Under the field's name and under Conductor's."""
    workers = Workers()
    workers.task("n", **{option: span})(lambda: None)
    assert workers.task_defs["n"].retry_delay_ms == 1_500


def test_numbers_are_of_the_unit_in_the_name() -> None:
    """`_ms` and `_seconds`, the latter with fractions."""
    workers = Workers()
    workers.task("n", retry_delay_ms=2, timeout_seconds=2.5, poll_timeout_seconds=0)(lambda: None)
    made = workers.task_defs["n"]
    assert (made.retry_delay_ms, made.timeout_ms, made.poll_timeout_ms) == (2, 2_500, 0)


@pytest.mark.parametrize("number", [5, 30.0, -1])
def test_a_number_without_a_unit_is_refused(number: Any) -> None:
    """`result(timeout=30)` would be 30 ms or 30 s, depending on who reads it; 0 is nothing in every unit."""
    with pytest.raises(InvalidInput, match=f"{number} is a length of time without a unit: write '{number}s' or '{number}ms'"):
        to_span(number)
    assert to_span(0) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "span",
    ["", "5", "s", "5 parsecs", "²s", "٣s", "1.2.3s", "-5s", "9" * 90 + "d", "1s" * 500, "1e3s", None, True, [], timedelta(-1)],
)
def test_what_is_no_span_is_refused_in_one_way(span: Any) -> None:
    """With InvalidInput, whatever it is, by all three readings."""
    for read in (to_span, to_ms, to_seconds):
        with pytest.raises(InvalidInput):
            read(span)


def test_the_command_line_takes_spans() -> None:
    """Every option that is named like a length of time says that it is a SPAN."""
    options = [(path, option) for path, option in options_of(complete(), ()) if LENGTH.search(option.name or "")]
    assert options
    assert [(path, option.name) for path, option in options if option.metavar != "SPAN"] == []


def options_of(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Option]]:
    yield from ((path, parameter) for parameter in command.params if isinstance(parameter, click.Option))
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from options_of(inner, (*path, name))


def test_stores_and_locks_take_spans(tmp_path: Path) -> None:
    """`busy_timeout_ms` of both."""
    for number, span in enumerate([1_500, *SPANS]):
        SQLiteBackend(tmp_path / f"{number}.db", busy_timeout_ms=span).close()
        SQLiteLock(tmp_path / f"{number}.lock", busy_timeout_ms=span, lease="5s").close()
    for wrong in ("soon", -1, 1.5, True):
        with pytest.raises(InvalidInput):
            SQLiteBackend(tmp_path / "no.db", busy_timeout_ms=wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "no.db").exists()
