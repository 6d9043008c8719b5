"""A graph of LangGraph, each run of a node a task: two nodes side by side, an edge by their results, and a question to a person."""

import operator
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from conductorlite import Engine, VirtualClock
from conductorlite.ext.langgraph import durable


class Ticket(TypedDict, total=False):
    """State of the graph."""

    text: str
    facts: Annotated[list[str], operator.add]
    reply: str


def look_up_customer(ticket: Ticket) -> Ticket:
    return {"facts": ["customer: gold"]}


def look_up_order(ticket: Ticket) -> Ticket:
    return {"facts": ["order: lost" if "lost" in ticket["text"] else "order: on its way"]}


def refund(ticket: Ticket) -> Ticket:
    amount = interrupt({"how much?": sorted(ticket["facts"])})
    return {"reply": f"We refund {amount}."}


def answer(ticket: Ticket) -> Ticket:
    return {"reply": "It is on its way."}


def weigh(ticket: Ticket) -> Command[str]:
    return Command(goto="refund" if "order: lost" in ticket["facts"] else "answer")


def make() -> StateGraph[Ticket]:
    """The graph, not compiled."""
    graph = StateGraph(Ticket)
    for node in (look_up_customer, look_up_order, refund, answer):
        graph.add_node(node)
    graph.add_node(weigh, destinations=("refund", "answer"))
    graph.add_edge(START, "look_up_customer")
    graph.add_edge(START, "look_up_order")
    graph.add_edge(["look_up_customer", "look_up_order"], "weigh")
    for last in ("refund", "answer"):
        graph.add_edge(last, END)
    return graph


triage = durable(make(), "triage", nodes={"look_up_order": {"retry": 5, "timeout": "30s"}})


def main(store: str | None = None) -> None:
    """One ticket that needs a person."""
    with Engine(store, workers=[triage], clock=VirtualClock(0)) as engine:
        run = engine.start(triage, input={"text": "my parcel is lost"})
        engine.run_until_idle()
        print(next(task.input_data["value"] for task in run.tasks if task.task_type == "HUMAN"))
        run.signal({"answer": 30})
        print(run.result(timeout="1m")["reply"])
        print(*(task.ref for task in run.tasks if ".node." in task.task_type))


if __name__ == "__main__":
    main("triage.db")
