"""An approval that escalates: the manager is asked three times, a day each; then the director is asked instead.

Time is virtual here, so that a week takes no time; leave `clock` out, and it is the machine's.
"""

import logging
from dataclasses import dataclass

from conductorlite import Engine, VirtualClock, flow, task
from conductorlite.errors import TimedOut
from conductorlite.flows import human


@dataclass
class Decision:
    """What a person says."""

    approved: bool


@task(retry=5)
def notify(who: str, text: str) -> None:
    print(f"to {who}: {text}")


@flow
def purchase(item: str, amount: float, manager: str, director: str) -> str:
    """Somebody approves a purchase; nobody who keeps silent can hold it up."""
    notify(manager, f"please approve {item} for {amount}")
    try:
        decision = human("manager", Decision, assignee=manager, timeout="1d", retry=2)
    except TimedOut:
        notify.options(name="escalate")(director, f"{manager} is silent; please approve {item}")
        decision = human("director", Decision, assignee=director, timeout="7d")
    said = "approved" if decision.approved else "turned down"
    notify.options(name="answer")("the applicant", f"{item}: {said}")
    return said


def main(store: str | None = None) -> None:
    """One manager answers at once, the other one never."""
    with Engine(store, workers=[purchase], clock=VirtualClock(0)) as engine:
        for item, answers in (("a desk", True), ("a car", False)):
            run = engine.start(purchase, item=item, amount=300.0, manager="Mia", director="Dan")
            engine.settle()
            if not answers:
                engine.advance("4d")
            run.signal({"approved": answers})
            print(f"{item}: {run.result()}")


if __name__ == "__main__":
    logging.getLogger("conductorlite").setLevel(logging.ERROR)  # silence is meant to be
    main("approval.db")
