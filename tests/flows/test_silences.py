"""What flows once did in silence, otherwise than Python: each is Python's now, or refused where the flow is defined."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from enum import Enum
from typing import Any

import attrs
import pytest

from conductorlite import Engine, VirtualClock, flow, task
from conductorlite.errors import BuildError
from conductorlite.flows import Flow, attempt, otherwise, set_variables, variable, when


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL, logger="conductorlite"):
        yield


sent: list[str] = []


@task
def express(order: int) -> str:
    """One way."""
    return f"express-{order}"


@task
def normal(order: int) -> str | None:
    """Another way, which may give nothing."""
    return f"normal-{order}" if order else None


@task(retry=0)
def fetch(order: int) -> str:
    """Always fails."""
    raise ValueError("no network")


@task(retry=0)
def positive(number: int) -> int:
    """Fails for some numbers."""
    if number <= 0:
        raise ValueError(f"not {number}")
    return number


@task
def record(text: str) -> str:
    """Takes note."""
    return f"recorded {text}"


def send_mail(text: str) -> None:
    """Is no task, and has an effect."""
    sent.append(text)


@flow
def branches(order: int, vip: bool) -> str:
    """A name of two branches."""
    if vip:
        way = express(order)
    else:
        way = record(f"{order}")
    return record(way)


@flow
def falls_back(order: int) -> str:
    """A value of what is tried, or of the handler."""
    try:
        way = fetch(order)
    except ValueError:
        way = express(order)
    return way


@flow
def handled_values(order: int) -> list[Any]:
    """Values of steps are computed with."""
    first, second = express(order), normal(order)
    size = len(first) + 1
    kind = "none" if second is None else "some"
    found = first or "nothing"
    return [size, f"{size}", kind, found, order in (1, 2), [one for one in (1, 2) if one > order], second or "nothing"]


@flow
def twice(order: int) -> list[str]:
    """One task, several times."""
    express(order)
    again = express(order + 1)
    return [again, *[express(number) for number in range(2)]]


@flow
def kept(order: int) -> bool:
    """A name that is assigned in what is tried."""
    approved = False
    try:
        express(order)
        approved = True
        fetch(order)
    except ValueError:
        record("failed")
    return approved


@flow
def counted(order: int) -> int:
    """A loop whose end is known when it runs."""
    rounds = 0
    while rounds < order:
        rounds += 1
        if not express(rounds):
            break
    for _ in range(order):
        rounds += 1
    return rounds


@flow
def nothing(order: int) -> str | None:
    """Returns nothing, whatever its steps put out."""
    express(order)
    return None


@flow
def leaves_in_else(order: int) -> list[int]:
    """A `break` in the `else` of a loop ends the loop around it."""
    seen = []
    for number in range(order):
        for other in range(number):
            if express(other) == "express-1":
                break
        else:
            if number == 1:
                continue
            seen.append(number)
            if number > 1:
                break
        seen.append(-number)
    return seen


@flow
def keeps_what_an_else_assigns(order: int) -> int:
    """Assignments where a loop was not left, with no step among them."""
    size = 0
    for number in (1, 2):
        if order == number:
            break
    else:
        size = 7
    for _ in range(order):
        return size
    size += 1
    record("x")
    return size


@flow
def keeps_what_a_break_leaves(order: int) -> int:
    """What was tried keeps its names where a handler leaves the loop."""
    last = 0
    for number in range(order):
        try:
            last = number
            fetch(number)
        except ValueError:
            if number < 5:
                break
            raise
    return last


@flow
def counts_with_a_list(order: int) -> list[int]:
    """A list that is read in a loop with a limit."""
    seen = [0]
    while len(seen) < order:
        seen.append(seen[-1] + len(express(order)))
    for number in range(10_000):
        if number >= order:
            break
        seen.append(len(seen))
    return seen


@flow
def tries_until(order: int) -> list[Any]:
    """What is assigned before the `break` of a loop without another end is known after it."""
    tries = 0
    while True:
        tries += 1
        try:
            found = positive(tries - order)
            size = len(express(found))
            break
        except ValueError as error:
            if tries > 4:
                found, size = -1, len(str(error))
                break
    return [tries, found, size]


@flow
def asks_left_first(rates: dict[str, int]) -> int:
    """A key that is missing raises before what stands right of it is called."""
    return rates["usd"] + len(express(1))


@flow
def misses_a_key(rates: dict[str, int]) -> int:
    """A key that is missing raises where a handler is for it."""
    express(1)
    try:
        rate = rates["usd"]
    except KeyError:
        rate = -1
    return rate


class Size(Enum):
    """Sizes."""

    SMALL = "s"
    LARGE = "l"


@flow
def says_a_member(size: Size) -> list[Any]:
    """The value of a member of an Enum that is given."""
    return [record(size.value), size == Size.SMALL]


@attrs.frozen
class Parcel:
    """A record."""

    weight: int
    text: str = ""


@flow
def makes_a_record(order: int) -> list[Any]:
    """The fields of a record that the flow makes, also of one of two."""
    parcel = Parcel(order, record("a"))
    other = Parcel(7, "b")
    if order > 1:
        other = Parcel(8, "c")
    return [parcel.weight, parcel.text.upper(), other.text, record(other.text)]


RIGHT: list[tuple[Flow[..., Any], dict[str, Any], Any]] = [
    (branches, {"order": 1, "vip": True}, "recorded express-1"),
    (branches, {"order": 1, "vip": False}, "recorded recorded 1"),
    (falls_back, {"order": 1}, "express-1"),
    (handled_values, {"order": 1}, [10, "10", "some", "express-1", True, [2], "normal-1"]),
    (handled_values, {"order": 0}, [10, "10", "none", "express-0", False, [1, 2], "nothing"]),
    (twice, {"order": 5}, ["express-6", "express-0", "express-1"]),
    (kept, {"order": 1}, True),
    (counted, {"order": 3}, 6),
    (nothing, {"order": 3}, None),
    (keeps_what_an_else_assigns, {"order": 0}, 8),
    (keeps_what_an_else_assigns, {"order": 1}, 0),
    (keeps_what_an_else_assigns, {"order": 3}, 7),
    (keeps_what_a_break_leaves, {"order": 3}, 0),
    (counts_with_a_list, {"order": 3}, [0, 9, 18, 3, 4, 5]),
    (tries_until, {"order": 1}, [2, 1, 9]),
    (tries_until, {"order": 9}, [5, -1, 6]),
    (misses_a_key, {"rates": {}}, -1),
    (says_a_member, {"size": "s"}, ["recorded s", True]),
    (makes_a_record, {"order": 1}, [1, "RECORDED A", "b", "recorded b"]),
    (makes_a_record, {"order": 2}, [2, "RECORDED A", "c", "recorded c"]),
    (misses_a_key, {"rates": {"usd": 2}}, 2),
    (leaves_in_else, {"order": 4}, leaves_in_else.function(4)),
]


@pytest.mark.parametrize(("made", "given", "wanted"), RIGHT, ids=[f"{one[0].name} {number}" for number, one in enumerate(RIGHT)])
def test_what_is_right_now(made: Flow[..., Any], given: dict[str, Any], wanted: Any) -> None:
    """The flow gives what Python gives."""
    with Engine(workers=[made], clock=VirtualClock(0)) as engine:
        run = engine.start(made, **given)
        engine.run_until_idle()
        assert run.result() == wanted


def _calls_a_function() -> Flow[..., Any]:
    @flow
    def made(order: int) -> str:
        way = express(order)
        send_mail("ordered")
        return way

    return made


def _built_by_calls_calls_a_function() -> Flow[..., Any]:
    @flow
    def made(order: int) -> str:
        with when(order):
            express(order)
        send_mail("ordered")
        return record("x")

    return made


def _cases_assign_one_name() -> Flow[..., Any]:
    @flow
    def made(order: int, vip: bool) -> str:
        with when(vip):
            way = express(order)
        with otherwise():
            way = record("normal")
        return record(way)

    return made


def _sets_a_variable_in_an_attempt() -> Flow[..., Any]:
    @flow
    def made(order: int) -> Any:
        set_variables(approved=False)
        with attempt():
            set_variables(approved=express(order))
        return variable("approved")

    return made


def _reads_a_step_of_an_attempt() -> Flow[..., Any]:
    @flow
    def made(order: int) -> str:
        with attempt():
            way = express(order)
        return way  # noqa: RET504

    return made


def _tries_by_calls() -> Flow[..., Any]:
    @flow
    def made(order: int) -> str:
        with when(order):
            express(order)
        try:
            return fetch(order)
        except ValueError:
            return record("failed")

    return made


REFUSED = [
    (_calls_a_function, "decorate it with @task"),
    (_built_by_calls_calls_a_function, "decorate it with @task"),
    (_cases_assign_one_name, "write the whole flow with `if` and `else`"),
    (_sets_a_variable_in_an_attempt, "set it after the attempt"),
    (_reads_a_step_of_an_attempt, "is read in another branch than the one in which its step runs"),
    (_tries_by_calls, "`try` has no effect while a flow is built by calls"),
]


@pytest.mark.parametrize(("make", "text"), REFUSED, ids=[one[0].__name__ for one in REFUSED])
def test_what_is_refused(make: Any, text: str) -> None:
    """The definition says what to write instead, and nothing has been done."""
    with pytest.raises(BuildError) as raised:
        make().definition  # noqa: B018
    assert text in str(raised.value)
    assert sent == []


def test_a_missing_key_raises_before_a_call() -> None:
    """In an expression the left side comes first, also where it is a key by itself."""
    with Engine(workers=[asks_left_first], clock=VirtualClock(0)) as engine:
        run = engine.start(asks_left_first, rates={})
        engine.run_until_idle()
        assert (str(run.status), [one.task_type for one in run.tasks if one.task_type == "express"]) == ("FAILED", [])
