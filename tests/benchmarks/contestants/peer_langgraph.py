"""LangGraph: a checkpoint of the state after each step, written before the next one (durability="sync"); no timers, no recovery."""
# mypy: ignore-errors

from __future__ import annotations

import operator
import os
import sqlite3
from typing import Annotated, TypedDict

from contest import Contest, step

os.environ["LANGSMITH_TRACING"] = "false"
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

given = Contest()
saver = InMemorySaver() if given.store == "memory" else SqliteSaver(sqlite3.connect(given.path, check_same_thread=False))


class One(TypedDict, total=False):
    """What a chain hands on."""

    r: dict


class Many(TypedDict, total=False):
    """What branches put together."""

    rs: Annotated[list, operator.add]
    n: int


def chain(length: int):
    """A graph of so many nodes."""
    graph = StateGraph(One)
    for n in range(length):
        graph.add_node(f"s{n}", lambda state: {"r": step(1)})
        graph.add_edge(f"s{n - 1}" if n else START, f"s{n}")
    graph.add_edge(f"s{length - 1}", END)
    return graph.compile(checkpointer=saver)


def fan(width: int):
    """A node for each branch, and a join."""
    graph = StateGraph(Many)
    graph.add_node("b", lambda state: {"rs": [step(1)]})
    graph.add_node("join", lambda state: {"n": len(state["rs"])})
    graph.add_conditional_edges(START, lambda state: [Send("b", {"i": i}) for i in range(width)], ["b"])
    graph.add_edge("b", "join")
    graph.add_edge("join", END)
    return graph.compile(checkpointer=saver)


def call(graph, name: str, value: dict, limit: int = 50) -> None:
    """Run it once."""
    graph.invoke(value, {"configurable": {"thread_id": name}, "recursion_limit": limit}, durability="sync")


if given.work in ("chains", "crowd"):
    length = 10 if given.work == "chains" else 5
    graph = chain(length)
    call(graph, "first", {"r": {}})
    with given.measured(given.count * length):
        for n in range(given.count):
            call(graph, f"w{n}", {"r": {}})
elif given.work == "fork":
    with given.measured(given.count):
        call(fan(given.count), "w", {"rs": []}, 100)
elif given.work == "long":
    with given.measured(given.count):
        call(chain(given.count), "w", {"r": {}}, given.count + 10)
elif given.work == "cold":
    call(chain(1), "w", {"r": {}})
elif given.work == "disk":
    graph = chain(10)
    call(graph, "first", {"r": {}})
    before = given.disk()
    for n in range(given.count):
        call(graph, f"w{n}", {"r": {}})
    given.tell(bytes=(given.disk() - before) / given.count)
given.tell()
