"""Agents of Pydantic AI as workflows, with the library's own stand-ins for models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")

from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, RunContext, UsageLimits
from pydantic_ai.messages import ModelMessage, ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import FunctionToolset, WrapperToolset

from conductorlite import Engine, Run, TaskContext, VirtualClock, flow
from conductorlite.errors import InvalidInput, WorkflowFailed
from conductorlite.ext.pydantic_ai import durable, messages_of


class Weather(BaseModel):
    """What the agent answers."""

    city: str
    hot: bool


def calling(*calls: ToolCallPart, limit: int = 1) -> FunctionModel:
    """A model that makes these calls, `limit` times, and then says what it was told."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        told = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart | RetryPromptPart)]
        if len(told) < limit * len(calls):
            number = len(told)
            return ModelResponse(parts=[ToolCallPart(one.tool_name, one.args, f"{one.tool_name}-{number}") for one in calls])
        return ModelResponse(parts=[TextPart("; ".join(str(part.content) for part in told))])

    return FunctionModel(answer)


def types(run: Run[Any]) -> list[str]:
    """The task types that were carried out by workers, in order."""
    return [task.task_type for task in run.tasks if "." in task.task_type]


@pytest.mark.parametrize("store", [None, "agent.db"], ids=["memory", "sqlite"])
def test_each_request_and_each_call_is_a_task(store: str | None, tmp_path: Path) -> None:
    """Tools of one answer run side by side; the answer has the agent's type."""
    agent = Agent(TestModel(custom_output_args={"city": "Rome", "hot": True}), output_type=Weather, deps_type=int, name="weather")

    @agent.tool
    def temperature(ctx: RunContext[int], city: str) -> str:
        return f"{ctx.deps + 3} in {city}, call {ctx.tool_call_id}"

    @agent.tool_plain
    async def rain(city: str) -> dict[str, Any]:
        return {"kind": "model-retry", "message": "what a tool returns is never taken for anything else"}

    weather = durable(agent, deps=lambda context: 4 + context.attempt)
    with Engine(None if store is None else tmp_path / store, workers=[weather], clock=VirtualClock(0)) as engine:
        run = engine.start(weather, prompt="How is it?")
        assert run.result() == Weather(city="Rome", hot=True)
        assert types(run) == ["weather.model", "weather.tool.temperature", "weather.tool.rain", "weather.model"]
        told = [part for message in messages_of(run) for part in message.parts if isinstance(part, ToolReturnPart)]
        assert [part.content for part in told[:2]] == [
            "7 in a, call pyd_ai_tool_call_id__temperature",
            {"kind": "model-retry", "message": "what a tool returns is never taken for anything else"},
        ]


def test_a_tool_is_tried_again_and_no_request_is() -> None:
    """A tool that raises fails its attempt; its options say how often it is tried."""
    agent = Agent(calling(ToolCallPart("flaky", {})), name="a")
    calls: list[int] = []

    @agent.tool_plain
    def flaky() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("no network")
        return "at last"

    made = durable(agent, tools={"flaky": {"retry": 2}})
    with Engine(workers=[made], clock=VirtualClock(0)) as engine:
        run = engine.start(made, prompt="?")
        assert run.result() == "at last"
        assert types(run) == ["a.model", *["a.tool.flaky"] * 3, "a.model"]


def test_a_tool_that_asks_for_another_call_is_told_to_the_model() -> None:
    """ModelRetry goes to the model, and is no failure of the task."""
    agent = Agent(calling(ToolCallPart("pick", {"n": 1})), name="a")

    @agent.tool_plain
    def pick(n: int) -> str:
        raise ModelRetry("another one")

    made = durable(agent)
    with Engine(workers=[made], clock=VirtualClock(0)) as engine:
        run = engine.start(made, prompt="?")
        assert "another one" in run.result()
        assert types(run) == ["a.model", "a.tool.pick", "a.model"]


@pytest.mark.parametrize("approved", [True, False])
def test_a_call_that_needs_approval_waits_for_a_person(approved: bool) -> None:
    """The person sees the call; turned down, the tool is not called and the model is told why."""
    agent = Agent(calling(ToolCallPart("pay", {"amount": 3})), name="a")
    paid: list[int] = []

    @agent.tool_plain(requires_approval=True)
    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    made = durable(agent)
    with Engine(workers=[made], clock=VirtualClock(0)) as engine:
        run = engine.start(made, prompt="?")
        engine.run_until_idle()
        (human,) = (task for task in run.tasks if task.task_type == "HUMAN")
        assert human.input_data["arguments"] == {"amount": 3}
        assert paid == []
        run.signal({"approved": approved, "message": "too much"})
        assert run.result() == ("paid" if approved else "too much")
        assert paid == ([3] if approved else [])


def test_usage_limits_hold_for_the_whole_execution() -> None:
    """Requests are counted over all tasks; past the limit the execution fails at once, without retries."""
    agent = Agent(calling(ToolCallPart("again", {}), limit=99), name="a")
    agent.tool_plain(lambda: "more", name="again")
    made = durable(agent, usage_limits=UsageLimits(request_limit=3))
    with Engine(workers=[made], clock=VirtualClock(0)) as engine:
        run = engine.start(made, prompt="?")
        with pytest.raises(WorkflowFailed, match="UsageLimitExceeded"):
            run.result()
        assert types(run).count("a.model") == 4


def test_a_conversation_goes_on() -> None:
    """The history of one execution is given to the next; a flow calls the agent as a step."""
    agent = Agent(FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart(str(len(messages)))])), name="a")
    made = durable(agent)

    @flow
    def twice(question: str) -> str:
        first = made(prompt=question)
        return f"{first} answers"

    with Engine(workers=[made, twice], clock=VirtualClock(0)) as engine:
        run = engine.start(made, prompt="?")
        assert run.result() == "1"
        run = engine.start(made, prompt="and?", history=run.tasks[1].output_data["state"]["messages"])
        assert run.result() == "3"
        assert len(messages_of(run)) == 4
        assert engine.start(twice, question="?").result() == "1 answers"


def test_tools_that_are_known_at_run_time_only() -> None:
    """They share one task type."""
    tools = FunctionToolset[None]()
    tools.add_function(lambda: "found", name="search")
    agent = Agent(calling(ToolCallPart("search", {})), name="a", toolsets=[WrapperToolset(tools)])
    made = durable(agent, name="b")
    with Engine(workers=[made], clock=VirtualClock(0)) as engine:
        run = engine.start(made, prompt="?")
        assert run.result() == "found"
        assert types(run) == ["b.model", "b.tool", "b.model"]


def test_an_agent_with_output_validators() -> None:
    """It names DeferredToolRequests itself; otherwise the first task fails for good and says so."""
    agents = [Agent(TestModel(), name="a"), Agent(TestModel(), output_type=[str, DeferredToolRequests], name="b")]
    for agent in agents:
        agent.output_validator(lambda given: given)
    bad, good = map(durable, agents)
    with Engine(workers=[bad, good], clock=VirtualClock(0)) as engine:
        with pytest.raises(WorkflowFailed, match="output validators"):
            engine.start(bad, prompt="?").result()
        assert engine.start(good, prompt="?").result() == "success (no tool calls)"


def test_a_wrong_use_is_refused() -> None:
    """Before anything is stored."""
    with pytest.raises(InvalidInput, match="the agent has no name"):
        durable(Agent(TestModel()))
    agent = Agent(TestModel(), name="a")
    agent.tool_plain(lambda: "x", name="pay")
    with pytest.raises(InvalidInput, match="agent 'a' has no tool 'pya'; it has pay"):
        durable(agent, tools={"pya": {}})


def test_a_context_is_given_to_the_dependencies() -> None:
    """They are made for each task, of its context."""
    seen: list[str] = []

    def deps(context: TaskContext) -> str:
        seen.append(context.ref)
        return context.workflow_id

    agent = Agent(calling(ToolCallPart("who", {})), name="a", deps_type=str)

    @agent.tool
    def who(ctx: RunContext[str]) -> str:
        return ctx.deps

    made = durable(agent, deps=deps)
    with Engine(workers=[made], clock=VirtualClock(0)) as engine:
        assert engine.start(made.options(workflow_id="w-1"), prompt="?").result() == "w-1"
    assert seen == ["model__1", "who_0__1", "model__2"]
