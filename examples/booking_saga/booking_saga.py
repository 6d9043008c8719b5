"""A trip as a saga: what was booked is canceled, last first, when a later step fails or the boss says no, or nothing, twice."""

import sys

from conductorlite import Engine, flow, task
from conductorlite.flows import Backoff, human, terminate


@task
async def cancel_flight(seat: str) -> None: ...


@task(retry=Backoff(2, first="1s"))
async def book_flight(to: str) -> str:
    return "12A"


@task
async def cancel_hotel(booking: int) -> None: ...


@task(retry=Backoff(2, first="1s"))
async def book_hotel(to: str) -> int:
    return 7


@task
async def void(auth: str) -> None: ...


@task
async def authorize(amount: float) -> str:
    return "A1"


@task
async def capture(auth: str, amount: float) -> str:
    return "R"


@task
async def send_tickets(seat: str, receipt: str) -> None: ...


@flow
def payment(amount: float) -> str:
    return capture(authorize.options(undo=void)(amount), amount)


@flow
def booking(to: str, amount: float) -> dict[str, str]:
    seat = book_flight.options(undo=cancel_flight)(to)
    book_hotel.options(undo=cancel_hotel)(to)
    approved = human("approval", bool, timeout="3d", retry=1)
    if not approved:
        terminate("FAILED", "refused")
    receipt = payment(amount)
    send_tickets(seat, receipt)
    return {"seat": seat, "receipt": receipt}


if __name__ == "__main__":
    with Engine("trips.db", workers=[booking]) as engine:
        trip = booking.options(idempotency_key=sys.argv[1], idempotency_strategy="RETURN_EXISTING")
        print(engine.start(trip, to="Rome", amount=3).workflow_id)
        engine.run_forever()
