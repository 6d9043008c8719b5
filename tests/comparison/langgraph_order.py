"""LangGraph: the real clock, a checkpoint after each node; waiting is an interrupt that somebody has to resume in time."""
# mypy: ignore-errors

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, RetryPolicy, interrupt
from parts import part

FOLDER = Path(os.environ.get("ORDER_FOLDER") or tempfile.mkdtemp())
failures = 0
charged = []


def effect(name):
    with (FOLDER / name).open("a") as file:
        file.write("x")


def effects(name):
    return len((FOLDER / name).read_text()) if (FOLDER / name).exists() else 0


class State(TypedDict, total=False):
    order: str
    approved: bool
    result: str


def charge(state):
    charged.append(1)
    if len(charged) <= failures:
        raise ConnectionError("no")
    return {}


def pause(state):
    interrupt("30 days")  # whoever has started it resumes it then
    return {}


def approval(state):
    return {"approved": interrupt("approved, within 7 days?")}


def ship(state):
    if os.environ.get("DIES") and not effects("died"):
        effect("died")
        os._exit(9)
    effect("shipped")
    return {"result": "shipped"}


def cancel(state):
    return {"result": "cancelled"}


def compiled(saver):
    graph = StateGraph(State)
    policy = RetryPolicy(max_attempts=21, initial_interval=0.001, backoff_factor=1.0, jitter=False)  # 2 s and 2.0, for real
    graph.add_node("charge", charge, retry_policy=policy)
    for node in (pause, approval, ship, cancel):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "charge")
    graph.add_edge("charge", "pause")
    graph.add_edge("pause", "approval")
    graph.add_conditional_edges("approval", lambda state: "ship" if state["approved"] else "cancel", ["ship", "cancel"])
    graph.add_edge("ship", END)
    graph.add_edge("cancel", END)
    return graph.compile(checkpointer=saver)


def call(graph, thread, value):
    return graph.invoke(value, {"configurable": {"thread_id": thread}}, durability="sync")


with SqliteSaver.from_conn_string(str(FOLDER / "orders.sqlite")) as saver:
    app = compiled(saver)
    if "die" in sys.argv:
        for value in ({"order": "o-1"}, Command(resume=True), Command(resume=True)):
            call(app, "dying", value)
    if "recover" in sys.argv:
        print(call(app, "dying", None)["result"])
        sys.exit()

    @part
    def retries():
        """The schedule of the delays is not tested: with 2 s and a factor of 2 the test would take ten hours."""
        global failures
        failures = 20
        call(app, "retries", {"order": "o-1"})
        assert len(charged) == 21

    @part
    def month():
        """That somebody resumes it after 30 days is not LangGraph's, so it is not tested."""
        assert call(app, "month", {"order": "o-1"})["__interrupt__"][0].value == "30 days"
        assert "approved" in call(app, "month", Command(resume=True))["__interrupt__"][0].value

    @part
    def race():
        """Who calls decides the race; there is no timeout to race against."""
        for answer, result in ((True, "shipped"), (False, "cancelled")):
            call(app, result, {"order": "o-1"})
            call(app, result, Command(resume=True))
            assert call(app, result, Command(resume=answer))["result"] == result

    @part
    def crash():
        """At one place, for each takes two processes; the application has to know which threads to resume."""
        command = [sys.executable, __file__]
        environment = {**os.environ, "ORDER_FOLDER": tempfile.mkdtemp(), "DIES": "1"}
        assert subprocess.run([*command, "die"], env=environment).returncode == 9
        told = subprocess.run([*command, "recover"], env=environment, stdout=subprocess.PIPE, text=True)
        assert told.stdout.strip() == "shipped"

    @part
    def twice():
        """The second answer finds a thread that has ended: nothing runs again."""
        call(app, "twice", {"order": "o-1"})
        shipped = effects("shipped")
        for answer in (True, True, True):
            call(app, "twice", Command(resume=answer))
        assert effects("shipped") == shipped + 1
