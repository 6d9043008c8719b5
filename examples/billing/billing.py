"""A subscription: charged every month until it is canceled; a card that is refused three times ends it.

A year of it in an instant, on a virtual clock: the same flow is on the machine's in production.
"""

import logging

from conductorlite import Engine, TaskFailedTerminally, VirtualClock, flow, task
from conductorlite.flows import Backoff, terminate, wait


class CardRefused(Exception):
    """The bank says no: perhaps not tomorrow."""


@task(retry=Backoff(2, first="3d"))
def charge(customer: str, amount: float, month: int) -> str:
    if customer == "Bob" and month > 2:
        raise CardRefused("insufficient funds")
    if amount <= 0:
        raise TaskFailedTerminally("nothing to charge")
    return f"{customer}-{month}"


@task
def close_account(customer: str, why: str) -> None: ...


@flow
def subscription(customer: str, amount: float) -> int:
    """Charges a customer every thirty days, twelve times; returns how often that was."""
    months = 0
    while months < 12:
        months += 1
        try:
            charge(customer, amount, months)
        except Exception as error:
            close_account(customer, str(error))
            terminate("FAILED", f"{customer} could not be charged")
        wait("30 days")
    return months


def main(store: str | None = None) -> None:
    """Ada pays all year, Bob's card is refused from the third month on, Cem cancels after ninety days."""
    with Engine(store, workers=[subscription], clock=VirtualClock(0)) as engine:
        runs = {name: engine.start(subscription, customer=name, amount=9.5) for name in ("Ada", "Bob", "Cem")}
        engine.advance("100d")
        runs["Cem"].terminate("canceled by the customer")
        engine.advance("300d")
        for name, run in runs.items():
            paid = engine.tasks.search(f"taskType = charge AND status = COMPLETED AND input.customer = {name}").total_hits
            print(f"{name}: {run.status}, paid {paid} times; {run.workflow.reason or 'the year is over'}")


if __name__ == "__main__":
    logging.getLogger("conductorlite").setLevel(logging.ERROR)  # what fails is meant to
    main()
