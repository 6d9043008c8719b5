"""Tasks that the tests of flows call, and a sample that mypy and pyright check: what each name gives, to a reader of types."""

from __future__ import annotations

from typing import Any, assert_type

import attrs

from conductorlite import AsyncEngine, Engine, flow, task
from conductorlite.flows import Backoff, attempt, each, human, match, otherwise, over, parallel, repeat, terminate, when

__all__ = [
    "Approval",
    "Flight",
    "Receipt",
    "book_flight",
    "booking",
    "cancel_flight",
    "charge",
    "list_rooms",
    "notify",
    "quote",
    "report",
    "total",
]


@attrs.frozen
class Flight:
    """A seat."""

    seat: str
    airport: str


@attrs.frozen
class Receipt:
    """What was paid."""

    number: str
    amount: float


@attrs.frozen
class Approval:
    """What a person says."""

    approved: bool


@task
def cancel_flight(flight: Flight) -> None:
    """Undoes `book_flight`."""


@task(retry=Backoff(5, first="2s", factor=2), timeout="30s")
def book_flight(to: str) -> Flight:
    """Books."""
    return Flight(seat="12A", airport=f"{to} airport")


@task
def list_rooms(near: str) -> list[int]:
    """Three rooms."""
    return [1, 2, 3]


@task
def quote(room: int) -> float:
    """What a room costs."""
    return room * 1.5


@task
def total(prices: list[float]) -> float:
    """The sum."""
    return sum(prices)


@task("charge_card", retry=0)
async def charge(amount: float) -> Receipt:
    """Pays."""
    return Receipt(number="r-1", amount=amount)


@task(retry=0)
def notify(text: str) -> str:
    """Fails when it is told to."""
    if "fail" in text:
        raise ValueError(text)
    return text


@task
def report(reason: str) -> None:
    """Takes note."""


@flow
def payment(amount: float) -> Receipt:
    """Charge."""
    return charge(amount)


@flow(version=2, timeout="5d")
def booking(to: str, amount: float, boss: str = "Ada") -> Receipt:
    """Book a trip.

    The tests run it.
    """
    flight = book_flight.options(undo=cancel_flight)(to=to)
    assert_type(flight, Flight)
    rooms, sent = parallel(list_rooms(flight.airport), notify(f"{to}: {flight.seat}"))
    assert_type(rooms, list[int])
    assert_type(sent, str)
    prices = each(rooms, quote)
    assert_type(prices, list[float])
    ok = human("approval", Approval, assignee=boss, timeout="3d", price=total(prices))
    assert_type(ok, Approval)
    with when(ok.approved):
        receipt = payment(amount)
        assert_type(receipt, Receipt)
    with otherwise():
        terminate("FAILED", "not approved")
    with attempt() as tried:
        notify.options(name="notify_partner")(f"fail {flight.seat}")
    with tried.failed as error:
        report(error.reason)
    with over(rooms) as room:
        assert_type(room, int)
        quote.options(name="again")(room)
    with repeat(3):
        notify.options(name="remind")("x")
    with match(flight.airport).case("Rome airport"):
        notify.options(name="greet")("x")
    return receipt


def _types(engine: Engine) -> None:
    """Only read by type checkers."""
    assert_type(engine.start(booking, to="Rome", amount=3).result(), Receipt)
    assert_type(engine.start(booking.options(workflow_id="b-1"), "Rome", 3.0).result("5s"), Receipt)
    assert_type(engine.start("booking", {"to": "Rome"}).result(), dict[str, Any])


async def _async_types(engine: AsyncEngine) -> None:
    """Only read by type checkers."""
    run = await engine.start(booking, to="Rome", amount=3)
    assert_type(await run.result(), Receipt)
