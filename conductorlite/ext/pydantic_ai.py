"""Agents of Pydantic AI as workflows: each request to the model and each call of a tool is a task. The one importer of pydantic_ai.

A round is one run of the agent up to the tools that the model calls: for the agent they are deferred tools, which somebody else
carries out. Here that is one task for each call, side by side. So a process that dies in the middle of a tool call loses that
attempt and nothing else: no request that was answered is made again, and no other tool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

from conductorlite.ext.rounds import Calls, Round, in_rounds, last_round
from conductorlite.flows import Flow, flow, task
from conductorlite.model.errors import InvalidInput, MissingExtra, TaskFailedTerminally
from conductorlite.model.typed import reader
from conductorlite.runtime.context import TaskContext

try:
    from pydantic import TypeAdapter
    from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelRetry, RunContext, ToolReturn
    from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ToolFailed, UsageLimitExceeded, UserError
    from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
    from pydantic_ai.toolsets import AbstractToolset, CombinedToolset, FunctionToolset, ToolsetTool, WrapperToolset
    from pydantic_ai.usage import RunUsage, UsageLimits
    from pydantic_core import to_jsonable_python
except ImportError as error:
    raise MissingExtra("pydantic-ai", "An agent of Pydantic AI") from error

__all__ = ["durable", "messages_of"]

D = TypeVar("D")
R = TypeVar("R")

_RESULTS: Final = TypeAdapter(DeferredToolResults)
#: An output whose type says nothing of it.
_JSON: Final = str | int | float | bool | list[Any] | dict[str, Any] | None
_USAGE: Final = TypeAdapter(RunUsage)


def durable(
    agent: Agent[D, R],
    *,
    name: str | None = None,
    deps: Callable[[TaskContext], D] | None = None,
    usage_limits: UsageLimits | None = None,
    model: Mapping[str, Any] | None = None,
    tools: Mapping[str, Mapping[str, Any]] | None = None,
) -> Flow[..., R]:
    """A flow that runs an agent: `engine.start(durable(agent), prompt="How hot is it in Rome?").result()`.

    Its inputs are `prompt` and, to go on with a conversation, the `history` that `messages_of` gave. It is called `name` (default:
    the agent's). A request to the model is a task `<name>.model`, a call of a tool `<name>.tool.<tool>`, or `<name>.tool` of a
    toolset whose tools are known at run time only. `model` and `tools`, by the tool's name, have their options, as
    `conductorlite.task` takes them: `tools={"pay": {"retry": 0}}`. `deps` makes the agent's dependencies, for each task again: they
    are not stored.

    A tool that requires approval is preceded by a HUMAN task, whose output says `approved` and, if not, perhaps a `message` to the
    model. `usage_limits` hold for the execution as a whole; past them it fails. An agent with output validators names
    DeferredToolRequests among its output types. Raises InvalidInput for an agent without a name, and for options of a tool that
    there is not.
    """
    name = name or agent.name
    if not name:
        raise InvalidInput("the agent has no name: Agent(name=…) or durable(agent, name=…)")
    return _Durable(agent, name, deps, usage_limits).flow(dict(model or {}), dict(tools or {}))


def messages_of(answered: Any) -> list[ModelMessage]:
    """The conversation so far of an execution, of a handle on it or an `Engine.get`; empty before the model's first answer."""
    turns = [one for one in answered.tasks if one.ref.partition("__")[0] == "model" and "state" in one.output_data]
    return ModelMessagesTypeAdapter.validate_python(turns[-1].output_data["state"]["messages"]) if turns else []


class _Durable:
    """An agent with the names of its tasks."""

    def __init__(
        self, agent: Agent[Any, Any], name: str, deps: Callable[[TaskContext], Any] | None, limits: UsageLimits | None
    ) -> None:
        self._agent, self._name, self._deps, self._limits = agent, name, deps, limits
        self._tools: CombinedToolset[Any] = CombinedToolset(agent.toolsets)
        #: The tools that are known now: those of toolsets of functions.
        self._known = {tool for one in agent.toolsets if isinstance(one, FunctionToolset) for tool in one.tools}
        kind: Any = agent.output_type
        #: The kinds of its answers. An agent with output validators takes no others for a run than its own.
        self._output: list[Any] = [*kind] if isinstance(kind, Sequence) and not isinstance(kind, str) else [kind]
        self._asks = {} if DeferredToolRequests in self._output else {"output_type": [*self._output, DeferredToolRequests]}

    def flow(self, model: dict[str, Any], tools: dict[str, Mapping[str, Any]]) -> Flow[..., Any]:
        """The flow, with the functions of its tasks."""
        for one in tools.keys() - self._known:
            raise InvalidInput(f"agent {self._name!r} has no tool {one!r}; it has {', '.join(sorted(self._known)) or 'none'}")
        turn = task(f"{self._name}.model", **model)(self._turn)
        calls = [task(f"{self._name}.tool.{one}", **tools.get(one, {}))(self._call) for one in sorted(self._known)]

        def agent(prompt: str, history: list[Any] | None = None) -> Any:
            return in_rounds(turn, "model", prompt=prompt, history=history)

        agent.__annotations__ = {"prompt": str, "history": list[Any] | None, "return": self._returned()}
        made = flow(self._name, by_calls=True)(agent)
        made.workers.include(task(f"{self._name}.tool")(self._call), *calls)
        return made

    def _returned(self) -> Any:
        """The agent's type of output, if it is one that a workflow's output can be read as."""
        kinds = [one for one in self._output if one is not DeferredToolRequests]
        with suppress(InvalidInput):
            reader(kinds[0])
            return kinds[0] if len(kinds) == 1 else _JSON
        return _JSON

    async def _turn(
        self,
        prompt: str,
        history: list[Any] | None = None,
        state: dict[str, Any] | None = None,
        results: dict[str, Any] | None = None,
        context: TaskContext = TaskContext.given,
    ) -> Round:
        """One run of the agent, until it has an answer or calls tools."""
        needs_approval: set[str] = set()
        asked: dict[str, Any] = {**self._asks, "usage_limits": self._limits, "deps": self._deps and self._deps(context)}
        if state is None:
            asked |= {"user_prompt": prompt, "message_history": ModelMessagesTypeAdapter.validate_python(history or [])}
        else:
            asked["message_history"] = ModelMessagesTypeAdapter.validate_python(state["messages"])
            asked["usage"] = _USAGE.validate_python(state["usage"])
            done = {one["id"]: one["result"] for one in (results or {}).values()}
            asked["deferred_tool_results"] = _RESULTS.validate_python({"calls": done})
        try:
            with self._agent.override(toolsets=[_Elsewhere(self._tools, needs_approval)], tools=[]):
                run = await self._agent.run(**asked)
        except (UserError, UsageLimitExceeded) as error:  # which no further attempt can change
            raise TaskFailedTerminally(f"{type(error).__name__}: {error}") from error
        found = run.output
        now = {"messages": to_jsonable_python(run.all_messages()), "usage": to_jsonable_python(run.usage)}
        if not isinstance(found, DeferredToolRequests):
            return last_round(now, to_jsonable_python(found))
        calls = Calls()
        for one in found.calls:
            task_type = f"{self._name}.tool" + (f".{one.tool_name}" if one.tool_name in self._known else "")
            given = {"tool": one.tool_name, "id": one.tool_call_id, "arguments": one.args_as_dict()}
            asks = given if one.tool_name in needs_approval else None
            calls.add(one.tool_name, task_type, given, asks=asks, answer={"approval": "output"})
        return calls.round(now)

    async def _call(
        self,
        tool: str,
        id: str,
        arguments: dict[str, Any],
        approval: dict[str, Any] | None = None,
        context: TaskContext = TaskContext.given,
    ) -> dict[str, Any]:
        """One call of a tool, as the agent would make it."""
        if approval is not None and not approval.get("approved"):
            return {"id": id, "result": approval.get("message") or "The tool call was denied."}
        about: dict[str, Any] = {"tool_name": tool, "tool_call_id": id, "tool_call_approved": approval is not None}
        about |= {"deps": self._deps and self._deps(context), "model": self._agent.model, "usage": RunUsage()}
        given: RunContext[Any] = RunContext(**about)
        tools = await self._tools.for_run(given)
        async with tools:
            found = (await tools.get_tools(given)).get(tool)
            if found is None:
                raise TaskFailedTerminally(f"agent {self._name!r} has no tool {tool!r}")
            try:
                result = await tools.call_tool(tool, found.args_validator.validate_python(arguments), given, found)
            except (ModelRetry, ToolFailed) as error:
                result = error
            except (ApprovalRequired, CallDeferred) as error:
                raise TaskFailedTerminally(f"{tool}: asks for approval while it runs; say requires_approval=True") from error
        carried = result if isinstance(result, ToolReturn | ModelRetry | ToolFailed) else ToolReturn(result)
        return {"id": id, "result": _RESULTS.dump_python(DeferredToolResults(calls={id: carried}), mode="json")["calls"][id]}


class _Elsewhere(WrapperToolset[Any]):
    """The agent's tools, which somebody else carries out; those that require approval are noted in `asked`."""

    def __init__(self, wrapped: AbstractToolset[Any], asked: set[str]) -> None:
        super().__init__(wrapped)
        self._asked = asked

    async def for_run(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        return _Elsewhere(await self.wrapped.for_run(ctx), self._asked)

    async def for_run_step(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        return _Elsewhere(await self.wrapped.for_run_step(ctx), self._asked)

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        tools = await self.wrapped.get_tools(ctx)
        self._asked.update(name for name, one in tools.items() if one.tool_def.kind == "unapproved")
        return {name: replace(one, toolset=self, tool_def=replace(one.tool_def, kind="external")) for name, one in tools.items()}
