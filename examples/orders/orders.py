"""Orders by messages: one starts a workflow, another one says that it is paid; each counts once, however often it is delivered."""

from collections import deque
from collections.abc import Iterator

from conductorlite import Engine, EngineConfig, EventHandler, VirtualClock, flow, task
from conductorlite.ext.workers import system_workers
from conductorlite.flows import event, parallel, terminate, wait
from conductorlite.store.ports import EventMessage

ORDERED = EventHandler.from_json(
    {
        "name": "ordered",
        "event": "shop:ordered",
        "active": True,
        "actions": [
            {"action": "start_workflow", "start_workflow": {"name": "order", "input": {"order": "${id}", "item": "${item}"}}}
        ],
    }
)

PAID = EventHandler.from_json(
    {
        "name": "paid",
        "event": "shop:paid",
        "active": True,
        "actions": [
            {
                "action": "complete_task",
                "complete_task": {"workflowId": "${execution}", "taskRefName": "paid", "output": {"amount": "${amount}"}},
            },
        ],
    }
)


@task(retry=5)
def reserve(item: str) -> str:
    return f"shelf of {item}"


@task(retry=5)
def release(shelf: str) -> None: ...


@flow
def order(order: str, item: str) -> str:
    """Reserves what was ordered, ships it when it is paid, which may be at once, and releases it when it is not within a week."""
    shelf, paid = parallel(reserve.options(undo=release)(item), wait("7 days", name="paid"))
    if paid.get("amount") is None:
        terminate("FAILED", "nobody has paid")
    event("mail:shipping", order=order, shelf=shelf, amount=paid["amount"])
    return shelf


def main(store: str | None = None) -> None:
    """The broker delivers one message three times and the other one twice; the mail goes out once."""
    broker = deque(EventMessage(event="shop:ordered", payload={"id": "7", "item": "tea"}, message_id="m-1") for _ in range(3))

    def read(limit: int) -> Iterator[EventMessage]:
        while broker:
            yield broker.popleft()

    def mail(payload: dict[str, str]) -> None:
        print(f"mail: order {payload['order']}, {payload['amount']} paid, from the {payload['shelf']}")

    workers = system_workers(sinks={"mail": mail}).include(order)
    with Engine(store, workers=workers, clock=VirtualClock(0), config=EngineConfig(event_sources=[read])) as engine:
        engine.register(order.definition)
        engine.events.register(ORDERED)
        engine.events.register(PAID)
        engine.settle()
        (row,) = engine.executions("order")
        paid = {"execution": row.workflow_id, "amount": 12}
        broker.extend([EventMessage(event="shop:paid", payload=paid, message_id="m-2")] * 2)
        print(engine.result(row.workflow_id)["result"])


if __name__ == "__main__":
    main("orders.db")
