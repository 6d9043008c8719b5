"""Graphs of LangGraph as workflows: what they come to is what LangGraph itself comes to."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph", reason="the extra langgraph is not installed")

from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from langgraph.types import Command, Send, interrupt

from conductorlite import Engine, Run, VirtualClock
from conductorlite.errors import InvalidInput, WorkflowFailed
from conductorlite.ext.langgraph import durable


class State(TypedDict, total=False):
    """A state whose `seen` grows."""

    n: int
    seen: Annotated[list[str], operator.add]


def seen(name: str) -> Any:
    """A node that leaves its name."""
    return lambda state: {"seen": [name]}


def fan_out() -> StateGraph[State]:
    """Two nodes side by side, a command, an edge by the state, nodes that are sent to, and a cycle."""
    graph = StateGraph(State)
    graph.add_node("a", lambda state: {"seen": ["a"], "n": state["n"] + 1})
    graph.add_node("b", seen("b"))
    graph.add_node("c", lambda state: Command(update={"seen": ["c"]}, goto="d"), destinations=("d",))
    graph.add_node("d", seen("d"))
    graph.add_node("w", lambda sent: {"seen": [f"w{sorted(sent)}"]})
    graph.add_node("back", lambda state: {"n": state["n"] + 1})
    graph.add_edge(START, "a")
    graph.add_edge(START, "b")
    graph.add_edge(["a", "b"], "c")
    graph.add_conditional_edges("d", lambda state: [Send("w", {1}), Send("w", {2, 3})], ["w"])
    graph.add_edge("w", "back")
    graph.add_conditional_edges("back", lambda state: "c" if state["n"] < 4 else END, ["c", END])
    return graph


def nodes(run: Run[Any]) -> list[str]:
    """The nodes that were run, in order."""
    return [task.task_type.partition(".node.")[2] for task in run.tasks if ".node." in task.task_type]


@pytest.mark.parametrize("store", [None, "graph.db"], ids=["memory", "sqlite"])
def test_it_comes_to_what_langgraph_comes_to(store: str | None, tmp_path: Path) -> None:
    """Reducers, commands, sends, joins and cycles are LangGraph's own; each run of a node is a task."""
    made = durable(fan_out(), "fan_out")
    with Engine(None if store is None else tmp_path / store, workers=[made], clock=VirtualClock(0)) as engine:
        run = engine.start(made, input={"n": 1})
        assert run.result() == fan_out().compile().invoke({"n": 1})
        assert nodes(run) == ["a", "b", *["c", "d", "w", "w", "back"] * 2]


def test_a_node_is_tried_again_alone() -> None:
    """Its options say how often; the node beside it is run once."""
    calls = {"a": 0, "b": 0}

    def a(state: State) -> State:
        calls["a"] += 1
        if calls["a"] < 3:
            raise ConnectionError("no network")
        return {"seen": ["a"]}

    def b(state: State) -> State:
        calls["b"] += 1
        return {"seen": ["b"]}

    graph = StateGraph(State).add_node(a).add_node(b).add_edge(START, "a").add_edge(START, "b")
    made = durable(graph, "g", nodes={"a": {"retry": 2}})
    with Engine(workers=[made], clock=VirtualClock(0)) as engine:
        assert engine.start(made, input={}).result()["seen"] == ["a", "b"]
    assert calls == {"a": 3, "b": 1}


def test_messages_and_a_model() -> None:
    """What is no plain JSON is carried by LangGraph's serializer; the result is JSON."""

    class Chat(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]

    model = FakeMessagesListChatModel(responses=[AIMessage("Hello.", id="m-2")])
    graph = StateGraph(Chat).add_node("say", lambda state: {"messages": [model.invoke(state["messages"])]}).add_edge(START, "say")
    made = durable(graph, "chat")
    with Engine(workers=[made], clock=VirtualClock(0)) as engine:
        run = engine.start(made, input={"messages": [{"role": "user", "content": "Hi.", "id": "m-1"}]})
        assert [(one["type"], one["content"]) for one in run.result()["messages"]] == [("human", "Hi."), ("ai", "Hello.")]


def test_two_questions_of_a_node_beside_another_node() -> None:
    """Each interrupt is a HUMAN task; the node is run again with the answers, the other one is not."""
    runs = []

    def ask(state: State) -> State:
        runs.append("ask")
        return {"seen": [interrupt({"first": state["n"]}), interrupt("second")]}

    def other(state: State) -> State:
        runs.append("other")
        return {"seen": ["other"]}

    graph = StateGraph(State).add_node(ask).add_node(other).add_edge(START, "ask").add_edge(START, "other")
    made = durable(graph, "g")
    with Engine(workers=[made], clock=VirtualClock(0)) as engine:
        run = engine.start(made, input={"n": 7})
        for answer in ("one", "two"):
            engine.run_until_idle()
            run.signal({"answer": answer})
        assert run.result()["seen"] == ["one", "two", "other"]
        assert [task.input_data["value"] for task in run.tasks if task.task_type == "HUMAN"] == [{"first": 7}, "second"]
    assert runs == ["ask", "other", "ask", "ask"]


def test_a_graph_within_a_node_asks_too() -> None:
    """A compiled graph as a node is one task, whose interrupts are asked likewise."""
    inner = StateGraph(State).add_node("deep", lambda state: {"seen": [interrupt("deep?")]}).add_edge(START, "deep").compile()
    graph = StateGraph(State).add_node("inner", inner).add_edge(START, "inner")
    made = durable(graph, "g")
    with Engine(workers=[made], clock=VirtualClock(0)) as engine:
        run = engine.start(made, input={"n": 1})
        engine.run_until_idle()
        run.signal({"answer": "yes"})
        assert run.result()["seen"] == ["yes"]


def test_what_a_node_is_given_besides_its_state() -> None:
    """The configuration, and the context that is made for each task."""

    @dataclass
    class Context:
        who: str

    def look(state: State, config: RunnableConfig, runtime: Runtime[Context]) -> State:
        return {"seen": [runtime.context.who, config["configurable"]["thread_id"]]}

    graph = StateGraph(State, context_schema=Context).add_node(look).add_edge(START, "look")
    made = durable(graph, "g", context=lambda context: Context(context.workflow_id))
    with Engine(workers=[made], clock=VirtualClock(0)) as engine:
        assert engine.start(made.options(workflow_id="w-1"), input={}).result()["seen"] == ["w-1", "conductorlite"]


def test_a_graph_without_an_end_fails() -> None:
    """After as many supersteps as are allowed, at once."""
    graph = StateGraph(State).add_node("a", seen("a")).add_edge(START, "a").add_edge("a", "a")
    made = durable(graph, "g", recursion_limit=3)
    with Engine(workers=[made], clock=VirtualClock(0)) as engine:
        run = engine.start(made, input={})
        with pytest.raises(WorkflowFailed, match="has not ended after 3 supersteps"):
            run.result()
        assert nodes(run) == ["a"] * 3


def test_a_wrong_use_is_refused() -> None:
    """Options of a node that there is not."""
    with pytest.raises(InvalidInput, match="graph 'g' has no node 'x'; it has a, b, c, d, w, back"):
        durable(fan_out(), "g", nodes={"x": {}})
    graph = StateGraph(State).add_node("a", seen("a"), error_handler=lambda state: state).add_edge(START, "a")
    with pytest.raises(InvalidInput, match="'a' has an error handler"):
        durable(graph, "g")


def test_the_graph_that_was_given_stays_as_it_was() -> None:
    """It can still be compiled and run by itself."""
    graph = fan_out()
    durable(graph, "g")
    assert graph.compile(checkpointer=InMemorySaver()).invoke({"n": 3}, {"configurable": {"thread_id": "t"}})["n"] == 5
