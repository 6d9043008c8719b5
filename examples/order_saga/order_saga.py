"""An order as a saga: reserve, charge, ship, and, when a step fails for good, undo what was done.

A step that may fail is `optional`, so that the workflow goes on; the choice after it looks at how it ended, and leads to the
compensation. Here two orders run on a virtual clock, so that the thirty days of the return period take no time.
"""

from conductorlite import Engine, TaskContext, TaskFailedTerminally, VirtualClock, flow, task
from conductorlite.flows import Backoff, match, status, wait

A_WEEK = Backoff(7 * 24, first="1h")


@task(retry=Backoff(3, first="5s"))
def reserve_stock(order: str) -> dict:
    print(f"{order}: reserved")
    return {"reservation": f"s-{order}"}


# The worker is dead after 30 s without a sign of life, and too slow after 60 s; either way the next attempt begins
# 20, 40 and 80 s later. The key is the same for all of them: the bank takes the money once.
@task(retry=Backoff(3, first="20s", factor=2), response_timeout="30s", timeout="60s", on_timeout="RETRY")
def charge_card(order: str, amount: float, context: TaskContext) -> dict:
    print(f"{order}: charged {amount}, once for {context.idempotency_key}")
    return {"receipt": f"r-{order}"}


@task(retry=Backoff(2, first="1h"), response_timeout="30s")
def ship_parcel(order: str) -> dict:
    if order == "teapot":
        raise TaskFailedTerminally("the last teapot fell off the shelf")
    print(f"{order}: shipped")
    return {"parcel": f"p-{order}"}


# A compensation must succeed in the end: it is tried for a week.
@task(retry=A_WEEK)
def refund(receipt: str) -> None:
    print(f"refunded {receipt}")


@task(retry=A_WEEK)
def release_stock(order: str) -> None:
    print(f"{order}: back in stock")


@task(retry=Backoff(3, first="5s"))
def close_order(order: str, charged: str, shipped: str | None) -> dict:
    return {"outcome": "fulfilled" if charged == shipped == "COMPLETED" else "cancelled"}


@flow
def order_saga(order: str, amount: float) -> dict:
    """Reserve, charge, ship. What was done is undone, last first, when a later step fails for good."""
    reserve_stock.options(name="reserve")(order=order)
    charge = charge_card.options(name="charge", optional=True)(order=order, amount=amount)
    charged = match(status(charge), name="charged")
    with charged.case("COMPLETED"):
        ship = ship_parcel.options(name="ship", optional=True)(order=order)
        shipped = match(status(ship), name="shipped")
        with shipped.case("COMPLETED"):
            wait("30 days", name="return_period")
        with shipped.otherwise():
            refund(receipt=charge["receipt"])
            release_stock.options(name="release_unshipped")(order=order)
    with charged.otherwise():
        release_stock.options(name="release_unpaid")(order=order)
    closed = close_order.options(name="close")(order=order, charged=status(charge), shipped=status(ship))
    return {"outcome": closed["outcome"]}


def main() -> None:
    """One order that goes well, and one that does not."""
    clock = VirtualClock()
    with Engine(workers=[order_saga], clock=clock) as engine:
        for order in ("kettle", "teapot"):
            began = clock.now()
            run = engine.start(order_saga.options(workflow_id=order), order=order, amount=30)
            outcome = run.result()["outcome"]
            print(f"{order}: {outcome} after {(clock.now() - began) // 86_400_000} days\n")


if __name__ == "__main__":
    main()
