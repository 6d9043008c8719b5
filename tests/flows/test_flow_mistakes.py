"""What cannot be built says what to write instead; what can be built is the same JSON each time."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from conductorlite import TaskResult, WorkflowDef, flow, task, validate
from conductorlite.errors import BuildError, InvalidInput
from conductorlite.flows import (
    Backoff,
    attempt,
    each,
    event,
    human,
    inline,
    match,
    node,
    otherwise,
    over,
    parallel,
    repeat,
    terminate,
    wait,
    when,
)

from trips import Approval, Flight, book_flight, booking, charge, list_rooms, notify, payment, quote, report, total  # isort: skip


def two_branches(order: Any) -> None:
    with parallel() as fork:
        with fork.branch():
            seat = book_flight(order.to)
        with fork.branch():
            notify(seat.seat)


def another_case(order: Any) -> None:
    with when(order.paid):
        seat = book_flight(order.to)
    with otherwise():
        notify(seat.seat)


def outside_an_attempt(order: Any) -> None:
    with attempt():
        seat = book_flight(order.to)
    notify(seat.seat)


def another_flow(order: Any) -> None:
    kept: list[Any] = []

    @flow(by_calls=True)
    def inner(x: str) -> None:
        kept.append(notify(x))

    inner(x=order.name)
    report(kept[0])


def endless(order: Any) -> None:
    with repeat():
        notify(order.name)


def nothing_in_a_case(order: Any) -> None:
    with when(order.paid):
        pass


def apart(order: Any) -> None:
    kind = match(order.kind)
    with kind.case("a"):
        notify(order.name)
    notify.options(name="between")(order.name)
    with kind.case("b"):
        notify.options(name="b")(order.name)


def a_step_without_branch(order: Any) -> None:
    with parallel() as fork:
        notify(order.name)
        with fork.branch():
            notify.options(name="b")(order.name)


def two_conditions(order: Any) -> None:
    with repeat() as loop:
        notify(order.name)
        loop.until(order.done)
        loop.again_if(order.more)


async def awaits(order: Any) -> None:
    notify(order.name)


MISTAKES: dict[str, tuple[Callable[[Any], object], str]] = {
    "if": (lambda order: 1 if order.paid else 2, "write `with when(...):` instead of `if`"),
    "and": (lambda order: order.paid and order.sent, "`&`, `|`, `~` instead of `and`, `or`, `not`"),
    "and of comparisons": (lambda order: (order.amount > 1) and order.sent, "instead of `and`"),
    "not": (lambda order: not order.paid, "`~`"),
    "for": (lambda order: [quote(room) for room in order.rooms], "write `each(items, task)`, or `with over(items) as item:`"),
    "len": (lambda order: len(order.rooms), "count in a task"),
    "in": (lambda order: "a" in order.rooms, "look in a task"),
    "plus": (lambda order: quote(order.room + 1), "write a task, or `inline(...)`"),
    "times from the left": (lambda order: quote(2 * order.room), "write a task, or `inline(...)`"),
    "float": (lambda order: float(order.amount), "write a task"),
    "a method": (lambda order: notify(order.name.upper()), "call them in a task"),
    "a format": (lambda order: notify(f"{order.amount:.2f}"), "format it in a task"),
    "assignment": (lambda order: setattr(order, "paid", True), "return another value from a task"),
    "a key from a step": (lambda order: notify(order.names[order.who]), "look it up in a task"),
    "a slice": (lambda order: notify(order.names[1:]), "cut lists in a task"),
    "a quote in a name": (lambda order: notify(order["it's"]), "rename the field in a task"),
    "compared conditions": (
        lambda order: when((order.amount > 1) == (order.b > 2)).__enter__(),
        "join conditions with `&` and `|`",
    ),
    "compared with an object": (lambda order: order.amount > object(), "compare with a text, a number"),
    "a condition as a value": (lambda order: notify(order.amount > 1), "is a condition, not a value"),
    "an unknown argument": (lambda order: notify(txt=order.name), "no argument 'txt'; did you mean 'text'?"),
    "a missing argument": (lambda order: notify(), "notify: missing a required argument: 'text'"),
    "too many arguments": (lambda order: notify(order.a, order.b), "too many positional arguments"),
    "an unknown option": (lambda order: notify.options(optionl=True)(order.a), "no option 'optionl'; did you mean 'optional'?"),
    "an undo of another kind": (
        lambda order: notify.options(undo=two_arguments)(order.a),
        "takes one argument, what that returned",
    ),
    "one name twice": (lambda order: [notify(order.a), notify(order.b)], "assign this one to a variable of its own, or name it"),
    "a name twice": (
        lambda order: [notify.options(name="x")(order.a), report.options(name="x")(order.b)],
        "two steps are called 'x'",
    ),
    "a bad name": (lambda order: notify.options(name=" ")(order.a), "is no name for a step"),
    "another branch": (two_branches, "is read in another branch"),
    "another case": (another_case, "is read in another branch"),
    "out of an attempt": (outside_an_attempt, "is read in another branch"),
    "another flow": (another_flow, "is a value of another flow"),
    "an endless loop": (endless, "never ends; write `repeat(10)`"),
    "two conditions": (two_conditions, "has two conditions; join them"),
    "an empty case": (nothing_in_a_case, "a case has no step"),
    "cases apart": (apart, "another step stands between its cases"),
    "otherwise alone": (lambda order: otherwise().__enter__(), "stands right after the block of a `with when(...):`"),
    "when of a value": (lambda order: when(1 > 2).__enter__(), "is known now: use `if`"),
    "match of a value": (lambda order: match("a"), "chooses by a value of a step"),
    "a loop over a list": (lambda order: over([1, 2]).__enter__(), "for what is known now write `for`"),
    "each of no task": (lambda order: each(order.rooms, print), "the second argument is a task or a flow"),
    "a part of each": (lambda order: notify(each(order.rooms, quote)[0]), "give it whole to a task"),
    "parallel of a value": (lambda order: parallel(order.a, order.b), "takes calls of tasks and flows, made in its brackets"),
    "parallel without branch": (a_step_without_branch, "write each step of a parallel() in `with ....branch():`"),
    "nothing": (lambda order: None, "calls no task"),
    "async": (awaits, "a flow awaits nothing; write `def`, without `async`"),
}


@task
def two_arguments(one: str, other: str) -> None:
    """Undoes nothing."""


@pytest.mark.parametrize(("function", "text"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_says_what_to_write(function: Callable[[Any], object], text: str) -> None:
    """The sentence is shown by whatever needs the definition."""

    def wrong(order: Any) -> dict[str, Any]:
        return function(order)  # type: ignore[return-value]

    wrong.__name__ = "wrong"
    made = flow(by_calls=True)(function if function is awaits else wrong)
    with pytest.raises(BuildError) as raised:
        made.definition  # noqa: B018
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: flow(lambda order: None), "has no name"),
        (lambda: flow(verison=1), "no option 'verison'; did you mean 'version'?"),
        (lambda: flow("x")(lambda *orders: None), "cannot be an input of a workflow"),
        (lambda: Backoff(3, first="1s", factor=3).fields(), "1000 ms is none of 3"),
        (lambda: task(retry=-1)(two_arguments.function), "retryCount"),
        (lambda: task(timeout="soon")(two_arguments.function), "soon"),
    ],
)
def test_a_wrong_declaration(make: Callable[[], object], text: str) -> None:
    """Refused where it is written."""
    with pytest.raises(InvalidInput, match=text.replace("?", r"\?")):
        make()


@pytest.mark.parametrize(
    "form", [lambda: wait("1s"), lambda: human("x"), lambda: repeat(2).__enter__(), lambda: event("conductor:x")]
)
def test_a_form_outside_of_a_flow(form: Callable[[], object]) -> None:
    """Forms have a meaning only while a flow is built."""
    with pytest.raises(BuildError, match="write it in a function decorated with @flow"):
        form()


def test_the_same_json_each_time() -> None:
    """A flow that is built anew gives the same bytes, a valid definition that reads back, and no warning."""
    texts = {json.dumps(flow("booking", version=2, timeout="5d")(booking.function).definition.to_json()) for _ in range(2)}
    assert texts == {json.dumps(booking.definition.to_json())}
    assert WorkflowDef.from_json(booking.definition.to_json()) == booking.definition
    assert [problem for problem in validate(booking.definition) if problem.severity == "error"] == []


def test_what_a_definition_says() -> None:
    """Names, inputs, defaults, output, description, timeout."""
    definition = booking.definition
    assert (definition.name, definition.version, definition.timeout_ms) == ("booking", 2, 432_000_000)
    assert definition.description == "Book a trip."
    assert tuple(definition.input_parameters) == ("to", "amount", "boss")
    assert definition.input_template == {"boss": "Ada"}
    assert definition.output_parameters == {"number": "${payment.output.number}", "amount": "${payment.output.amount}"}
    assert [one.task_reference_name for one in definition.tasks] == [
        "book_flight", "parallel", "parallel_join", "each_quote", "each_quote_join", "total", "approval", "when_approved",
        "attempt", "attempt_failed", "over", "repeat", "match_airport",
    ]  # fmt: skip
    assert booking.workers.task_defs["book_flight"].retry_delay_ms == 1000


@flow
def names(order: dict[str, str]) -> None:
    """Two calls of one function are told apart by their variables, in whatever form they are assigned."""
    there = book_flight(to=order["to"])
    back = book_flight(
        to=order["from"],
    )
    (last) = book_flight.options(optional=True)(to=there.airport)
    typed: Flight = book_flight(to=back.airport)
    notify(f"{last.seat} and {typed.seat}")


def test_names_of_steps() -> None:
    """The first is called as its function, the others after their variables too."""
    assert [one.task_reference_name for one in names.definition.tasks] == [
        "book_flight", "book_flight_back", "book_flight_last", "book_flight_typed", "notify",
    ]  # fmt: skip
    assert names.definition.tasks[-1].input_parameters == {
        "text": "${book_flight_last.output.seat} and ${book_flight_typed.output.seat}"
    }


@flow
def others(order: dict[str, str]) -> None:
    """The forms that no other test has."""
    added = inline("$.a + 1", a=order["a"])
    sent = event("conductor:added", value=added)
    made = node(book_flight_json)
    with when(sent == None):  # noqa: E711
        wait(until="2030-01-01 00:00 GMT")
    with when(~made.ok & (order["b"] != "x")):
        terminate("COMPLETED", output={"a": added})


book_flight_json = WorkflowDef.from_json(
    {"name": "x", "version": 1, "schemaVersion": 2, "tasks": [{"name": "any", "taskReferenceName": "any", "type": "CUSTOM"}]}
).tasks[0]


def test_other_forms() -> None:
    """What each writes."""
    tasks = {one["taskReferenceName"]: one for one in others.definition.to_json()["tasks"]}
    assert tasks["inline"]["inputParameters"] == {
        "evaluatorType": "javascript",
        "expression": "$.a + 1",
        "a": "${workflow.input.order.a}",
    }
    assert tasks["event_conductor_added"]["sink"] == "conductor:added"
    assert tasks["event_conductor_added"]["inputParameters"] == {"value": "${inline.output.result}"}
    assert tasks["any"]["type"] == "CUSTOM"
    first, second = tasks["when_event_conductor_added"], tasks["when_ok_b"]
    assert (first["expression"], first["inputParameters"]) == (
        "$.event_conductor_added == null",
        {"event_conductor_added": "${event_conductor_added.output}"},
    )
    assert second["expression"] == '(!($.ok === true)) && ($.b !== "x")'
    assert second["inputParameters"] == {"ok": "${any.output.ok}", "b": "${workflow.input.order.b}"}


@pytest.mark.parametrize(
    ("returns", "read"),
    [
        (Flight, "seat"),
        (Flight | None, "seat"),
        (dict[str, Any] | TaskResult, "seat"),
        (Flight | Approval, "seat"),
        (TaskResult, "seat"),
        (str, "result.seat"),
        (str | None, "result.seat"),
        (list[int] | TaskResult, "result.seat"),
    ],
)
def test_where_a_value_stands_follows_from_what_is_returned(returns: Any, read: str) -> None:
    """None, and a TaskResult, which says an output itself, change nothing in where the others are."""

    @task
    def book() -> Any:
        """Books."""

    book.function.__annotations__["return"] = returns

    @flow
    def reads() -> None:
        notify(book().seat)

    assert reads.definition.tasks[1].input_parameters == {"text": f"${{book.output.{read}}}"}


def test_a_reference_is_no_value() -> None:
    """It shows itself as what it will read."""
    kept: list[Any] = []

    @flow(by_calls=True)
    def keeps(order: str) -> None:
        kept.append(notify(order))

    assert keeps.definition.name == "keeps"
    assert repr(kept[0]) == "<reference ${notify.output.result}>"
    assert repr((keeps, notify)) == "(<flow keeps>, <task notify>)"


def test_sample_is_used() -> None:
    """What the sample of types defines is a flow's."""
    assert {worker.task_type for worker in booking.workers} == {
        "book_flight", "cancel_flight", "charge_card", "list_rooms", "notify", "quote", "report", "total",
    }  # fmt: skip
    assert payment.definition.tasks[0].name == "charge_card"
    assert (charge.task_type, list_rooms.task_type, total.task_type, Approval(approved=True).approved) == (
        "charge_card", "list_rooms", "total", True,
    )  # fmt: skip
