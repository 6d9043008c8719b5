"""The traceback of a failure is what Python itself shows, also of the second one at the same places."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest

from conductorlite import Task, TaskStatus
from conductorlite.runtime.calls import raised

TASK = Task(workflow_id="w", ref="t", base_ref="t", task_id="1", task_type="t", name="t", status=TaskStatus.IN_PROGRESS)


def plain() -> None:
    raise ValueError("no")


def within_an_expression() -> int:
    return sum(
        [
            1,
            int("x"),
        ]
    )


def _deep(left: int) -> int:
    if not left:
        raise KeyError("deep")
    return 1 + _deep(left - 1)


def of_a_cause() -> None:
    try:
        plain()
    except ValueError as error:
        raise RuntimeError("because") from error


def with_its_context() -> None:
    try:
        plain()
    finally:
        _deep(0)


def with_its_cause_hidden() -> None:
    try:
        plain()
    except ValueError:
        raise RuntimeError("alone") from None


def with_notes() -> None:
    error = ValueError("two\nlines")
    error.add_note("a note\nof two lines")
    raise error


def of_a_group() -> None:
    raise ExceptionGroup("several", [ValueError("a"), KeyError("b")])


def of_a_name_meant_otherwise() -> None:
    number = 1
    nubmer  # type: ignore[name-defined]  # noqa: B018, F821
    del number


def of_a_source() -> None:
    compile("x = (", "a file", "exec")


def without_a_source() -> None:
    exec("raise ValueError('unseen')", {})


class Silent(Exception):
    """Has no text."""

    def __str__(self) -> str:
        raise ZeroDivisionError


def of_a_text_that_fails() -> None:
    raise Silent


FAILURES: tuple[Callable[[], object], ...] = (
    plain, within_an_expression, lambda: _deep(2), lambda: _deep(3), lambda: _deep(40), of_a_cause,
    with_its_context, with_its_cause_hidden, with_notes, of_a_group, of_a_name_meant_otherwise, of_a_source, without_a_source,
    of_a_text_that_fails,
)  # fmt: skip


@pytest.mark.parametrize("number", range(len(FAILURES)))
def test_a_failure_shows_what_python_shows(number: int) -> None:
    """Twice: what is known of the places is used for the second one; of the same ones reached by another way as well."""
    for fail in (FAILURES[number], FAILURES[number], lambda: FAILURES[number]()):
        with pytest.raises(Exception) as caught:
            fail()
        assert raised(TASK, caught.value).traceback == "".join(traceback.format_exception(caught.value))


def test_functions_that_are_alike_in_two_files_are_two() -> None:
    """Code is compared by what it does: a file is part of the place."""
    shown = set()
    for file in ("one.py", "two.py"):
        names: dict[str, Callable[[], None]] = {}
        exec(compile("def fails():\n    raise ValueError", file, "exec"), names)
        with pytest.raises(ValueError) as caught:
            names["fails"]()
        shown.add(raised(TASK, caught.value).traceback)
    assert len(shown) == 2
