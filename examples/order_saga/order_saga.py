"""An order as a saga: reserve, charge, ship, and, when a step fails for good, undo what was done.

A step that may fail is `optional`, so that the workflow goes on; the SWITCH after it looks at how it ended, and leads to the
compensation. Here two orders run on a virtual clock, so that the thirty days of the return period take no time.
"""

from pathlib import Path

from conductorlite import Engine, TaskContext, TaskFailedTerminally, VirtualClock, Workers, WorkflowDef

ORDER_SAGA = WorkflowDef.from_json(Path(__file__).with_name("order_saga.json"))

workers = Workers()


@workers.task("reserve_stock", retry_count=3, retry_delay_seconds=5)
def reserve_stock(order: str) -> dict:
    print(f"{order}: reserved")
    return {"reservation": f"s-{order}"}


# The worker is dead after 30 s without a sign of life, and too slow after 60 s; either way the next attempt begins
# 20, 40 and 80 s later. The key is the same for all of them: the bank takes the money once.
@workers.task(
    "charge_card", retry_count=3, retry_logic="EXPONENTIAL_BACKOFF", retry_delay_seconds=10, backoff_scale_factor=2,
    response_timeout_seconds=30, timeout_seconds=60, timeout_policy="RETRY",
)  # fmt: skip
def charge_card(order: str, amount: float, context: TaskContext) -> dict:
    print(f"{order}: charged {amount}, once for {context.idempotency_key}")
    return {"receipt": f"r-{order}"}


@workers.task("ship_parcel", retry_count=2, retry_delay_seconds=3600, response_timeout_seconds=30)
def ship_parcel(order: str) -> dict:
    if order == "teapot":
        raise TaskFailedTerminally("the last teapot fell off the shelf")
    print(f"{order}: shipped")
    return {"parcel": f"p-{order}"}


# A compensation must succeed in the end: it is tried for a week.
@workers.task("refund", retry_count=7 * 24, retry_delay_seconds=3600)
def refund(receipt: str) -> None:
    print(f"refunded {receipt}")


@workers.task("release_stock", retry_count=7 * 24, retry_delay_seconds=3600)
def release_stock(order: str) -> None:
    print(f"{order}: back in stock")


@workers.task("close_order", retry_count=3, retry_delay_seconds=5)
def close_order(charged: str, shipped: str | None) -> dict:
    return {"outcome": "fulfilled" if charged == shipped == "COMPLETED" else "cancelled"}


def main() -> None:
    """One order that goes well, and one that does not."""
    clock = VirtualClock()
    with Engine(workers=workers, clock=clock) as engine:
        for order in ("kettle", "teapot"):
            began = clock.now()
            run = engine.start(ORDER_SAGA, {"order": order, "amount": 30}, workflow_id=order)
            outcome = run.result()["outcome"]
            print(f"{order}: {outcome} after {(clock.now() - began) // 86_400_000} days\n")


if __name__ == "__main__":
    main()
