"""An agent with tools: a model is asked what to do, tools do it, until it has an answer; what was paid for is not asked again.

The model is a stand-in that needs no key: put a client's call into `ask_model`.
"""

from dataclasses import dataclass
from typing import Any

from conductorlite import Engine, VirtualClock, flow, task
from conductorlite.flows import Backoff

Messages = list[dict[str, Any]]


@dataclass
class Turn:
    """What the model wants: a tool and its argument, or to answer."""

    tool: str
    argument: str


@task(retry=Backoff(5, first="2s", factor=2), timeout="2m")
def ask_model(messages: Messages) -> Turn:
    """A model that looks up a city's weather, converts it, and answers."""
    found = [one["content"] for one in messages if one["role"] == "tool"]
    if not found:
        return Turn("weather", messages[0]["content"].rpartition(" ")[2].rstrip("?"))
    return Turn("fahrenheit", found[0]) if len(found) == 1 else Turn("answer", f"It has {found[1]}.")


@task(retry=Backoff(3, first="1s"))
def weather(city: str, messages: Messages) -> Messages:
    return [*messages, {"role": "tool", "content": f"{len(city) * 5} °C"}]


@task
def fahrenheit(celsius: str, messages: Messages) -> Messages:
    return [*messages, {"role": "tool", "content": f"{int(celsius.split()[0]) * 9 // 5 + 32} °F"}]


@flow
def agent(question: str) -> str:
    """Answers a question with the help of tools, in eight turns at most."""
    messages: Messages = [{"role": "user", "content": question}]
    turns = 0
    while turns < 8:
        turns += 1
        turn = ask_model(messages)
        match turn.tool:
            case "weather":
                messages = weather(turn.argument, messages)
            case "fahrenheit":
                messages = fahrenheit(turn.argument, messages)
            case "answer":
                return turn.argument
    raise TimeoutError("no answer after eight turns")


def main(store: str | None = None) -> None:
    """Ask once, and again with the same key: the second time nothing is called."""
    with Engine(store, workers=[agent], clock=VirtualClock(0)) as engine:
        for _ in range(2):
            print(engine.start_and_wait(agent.options(idempotency_key="q-1"), question="How hot is it in Rome?"))
        (row,) = engine.executions("agent")
        print(*(one.ref for one in engine.get(row.workflow_id).tasks if one.task_type in agent.workers.task_types))


if __name__ == "__main__":
    main("agent.db")
