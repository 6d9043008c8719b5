"""Graphs of LangGraph as workflows: each run of a node is a task. The one importer of langgraph.

The graph itself runs with an interrupt in place of each node: a superstep ends at once, and says which nodes are next and what
they are given. Each of these is a task, side by side; the graph is resumed with what they returned, merges it by its reducers
and follows its edges. So a process that dies in the middle of a node loses that attempt and nothing else.
"""

from __future__ import annotations

import copy
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypedDict

from conductorlite.ext.rounds import Calls, Round, in_rounds, is_plain_json, last_round
from conductorlite.flows import Flow, flow, task
from conductorlite.model.errors import InvalidInput, MissingExtra, TaskFailedTerminally
from conductorlite.runtime.context import TaskContext

try:
    from langchain_core.runnables import RunnableConfig, RunnableLambda
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.graph import StateGraph
    from langgraph.types import Command, interrupt
    from pydantic_core import to_jsonable_python
except ImportError as error:
    raise MissingExtra("langgraph", "A graph of LangGraph") from error

__all__ = ["durable"]

Graph: TypeAlias = "StateGraph[Any, Any, Any, Any]"

_INTERRUPTS: Final = "__interrupt__"
_CONFIG: Final[Any] = {"configurable": {"thread_id": "conductorlite"}}


def durable(
    graph: Graph,
    name: str,
    *,
    context: Callable[[TaskContext], Any] | None = None,
    recursion_limit: int = 25,
    nodes: Mapping[str, Mapping[str, Any]] | None = None,
    serializer: SerializerProtocol | None = None,
) -> Flow[..., Any]:
    """A flow that runs a graph which is not compiled yet: `engine.start(durable(graph, "triage"), input={"text": "…"}).result()`.

    Its input is the graph's, its result the last state as JSON. A run of a node is a task `<name>.node.<node>`, with the options
    that `nodes` has for it, as `conductorlite.task` takes them (a node's own retry policy and timeout are not used); the edges
    between two supersteps are a task `<name>.edges`. `context` makes the graph's run-time context, for each task again: it is not
    stored. What a node is given and returns is JSON where it is plain, else what `serializer` makes of it (default: LangGraph's).

    Where a node calls `interrupt(value)`, a HUMAN task has the value as its input, and the entry `answer` of its output is what the
    call returns. Past `recursion_limit` supersteps the execution fails. Raises InvalidInput for options of a node that there is
    not, and for a node with an error handler.
    """
    for one in (nodes or {}).keys() - graph.nodes.keys():
        raise InvalidInput(f"graph {name!r} has no node {one!r}; it has {', '.join(graph.nodes)}")
    for one, spec in graph.nodes.items():
        if spec.error_handler_node is not None:
            raise InvalidInput(f"graph {name!r}: node {one!r} has an error handler; a task that fails is handled by its retries")
    made = _Durable(graph, name, context, recursion_limit, _Carrier(serializer or JsonPlusSerializer()))
    edges = task(f"{name}.edges")(made.edges)
    runs = [task(f"{name}.node.{one}", **(nodes or {}).get(one, {}))(made.run_node) for one in graph.nodes]

    @flow(name, by_calls=True)
    def graph_flow(input: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = in_rounds(edges, "edges", input=input)
        return state

    graph_flow.workers.include(*runs)
    return graph_flow


class _Durable:
    """A graph with an interrupt in place of each node, and its nodes."""

    def __init__(
        self, graph: Graph, name: str, context: Callable[[TaskContext], Any] | None, limit: int, carrier: _Carrier
    ) -> None:
        self._graph, self._name, self._context, self._limit, self._carrier = graph, name, context, limit, carrier
        self._outline = copy.copy(graph)
        self._outline.nodes = {one: replace(spec, runnable=_stop_at(one)) for one, spec in graph.nodes.items()}

    async def edges(
        self,
        input: dict[str, Any],
        state: dict[str, Any] | None = None,
        results: dict[str, Any] | None = None,
        context: TaskContext = TaskContext.given,
    ) -> Round:
        """Return the next nodes, given the results of the superstep before."""
        saver = self._carrier.saver(None if state is None else state["checkpoint"])
        ended = {} if state is None else dict(state["ended"])
        step, calls = 0 if state is None else state["step"], Calls()
        for one in (results or {}).values():
            if "asks" in one:
                given = {key: one[key] for key in ("id", "node", "given", "checkpoint")}
                self._call(calls, given, {"node": one["node"], "value": one["asks"]})
            else:
                ended[one["id"]] = one["result"]
        if not calls:
            going: Any = input
            if state is not None:
                going = Command(resume={one: self._carrier.read(value) for one, value in ended.items()})
            made = self._outline.compile(checkpointer=saver)
            found = await made.ainvoke(going, _CONFIG, context=self._context and self._context(context))
            ended, step = {}, step + 1
            if _INTERRUPTS not in found:
                return last_round({}, to_jsonable_python(found))
            if step > self._limit:
                raise TaskFailedTerminally(f"graph {self._name!r} has not ended after {self._limit} supersteps (recursion_limit)")
            for stop in found[_INTERRUPTS]:
                self._call(calls, {"id": stop.id, "node": stop.value[0], "given": self._carrier.written(stop.value[1])})
        return calls.round({"checkpoint": self._carrier.checkpoints(saver), "ended": ended, "step": step})

    def _call(self, calls: Calls, given: dict[str, Any], asks: dict[str, Any] | None = None) -> None:
        node = given["node"]
        calls.add(node, f"{self._name}.node.{node}", given, asks=asks, answer={"answer": "output.answer"})

    async def run_node(
        self,
        id: str,
        node: str,
        given: dict[str, Any],
        checkpoint: dict[str, Any] | None = None,
        answer: Any = None,
        context: TaskContext = TaskContext.given,
    ) -> dict[str, Any]:
        """One run of a node, in a graph of its own: it has all that LangGraph gives to a node, and may interrupt itself."""
        saver = self._carrier.saver(checkpoint)
        returned: list[Any] = []

        async def run(_: Any, config: RunnableConfig) -> dict[str, None]:
            runnable: Any = self._graph.nodes[node].runnable
            returned.append(await runnable.ainvoke(self._carrier.read(given), config))
            return {"nothing": None}

        alone: Graph = StateGraph(_Nothing, context_schema=self._graph.context_schema)
        alone.add_node(node, RunnableLambda(run))
        alone.set_entry_point(node)
        found = await alone.compile(checkpointer=saver).ainvoke(
            {} if checkpoint is None else Command(resume=answer), _CONFIG, context=self._context and self._context(context)
        )
        if _INTERRUPTS in found:
            asks = to_jsonable_python(found[_INTERRUPTS][0].value)
            return {"id": id, "node": node, "given": given, "asks": asks, "checkpoint": self._carrier.checkpoints(saver)}
        return {"id": id, "result": self._carrier.written(returned[-1])}


class _Nothing(TypedDict, total=False):
    nothing: None


def _stop_at(node: str) -> RunnableLambda[Any, Any]:
    """Return the substitute of a node: it hands the node's input to the task that runs it, and the task's result to the graph."""
    return RunnableLambda(lambda given: interrupt((node, given)), name=node)


class _Carrier:
    """The conversion of values and checkpoints into inputs and outputs of tasks and back."""

    def __init__(self, serializer: SerializerProtocol) -> None:
        self._serializer = serializer

    def written(self, value: Any) -> dict[str, Any]:
        """A value: as it is where it is plain JSON."""
        if is_plain_json(value):
            return {"json": value}
        kind, data = self._serializer.dumps_typed(value)
        return {"type": kind, "data": b64encode(data).decode()}

    def read(self, carried: Mapping[str, Any]) -> Any:
        """A value that `written` gave."""
        if "json" in carried:
            return carried["json"]
        return self._serializer.loads_typed((carried["type"], b64decode(carried["data"])))

    def checkpoints(self, saver: InMemorySaver) -> dict[str, Any]:
        """The last checkpoint of the graph, and of each graph in it."""
        kept: dict[str, Any] = {}
        for one in saver.list(_CONFIG):
            writes = one.pending_writes or []
            kept.setdefault(one.config["configurable"]["checkpoint_ns"], (one.checkpoint, one.metadata, writes))
        return self.written(kept)

    def saver(self, carried: Mapping[str, Any] | None) -> InMemorySaver:
        """A saver that has what `checkpoints` gave."""
        saver = InMemorySaver(serde=self._serializer)
        for place, (checkpoint, metadata, writes) in ({} if carried is None else self.read(carried)).items():
            config: Any = {"configurable": {**_CONFIG["configurable"], "checkpoint_ns": place}}
            config = saver.put(config, checkpoint, metadata, checkpoint["channel_versions"])
            for task_id in dict.fromkeys(one for one, *_ in writes):
                saver.put_writes(config, [(channel, value) for one, channel, value in writes if one == task_id], task_id)
        return saver
