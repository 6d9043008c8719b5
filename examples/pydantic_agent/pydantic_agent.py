"""An agent of Pydantic AI whose process is killed in the middle of a tool call: started again, it goes on where it was.

The model is Pydantic AI's own stand-in for tests, with a function: put the name of a real one in its place.
"""

import os
import signal
import sys
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from conductorlite import Engine
from conductorlite.ext.pydantic_ai import durable

LOG = Path("calls.txt")


def note(line: str) -> None:
    """Keep a line that survives the process."""
    with LOG.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model that books a flight, then a hotel, and sums up."""
    note("asked the model")
    done = [part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if not done:
        return ModelResponse(parts=[ToolCallPart("book_flight", {"to": "Rome"})])
    if len(done) == 1:
        return ModelResponse(parts=[ToolCallPart("book_hotel", {"city": "Rome"})])
    return ModelResponse(parts=[TextPart(f"Booked: {' and '.join(map(str, done))}.")])


agent = Agent(FunctionModel(model), name="travel", instructions="Book what the traveler asks for.")


@agent.tool_plain
def book_flight(to: str) -> str:
    note("booked the flight")
    return f"flight to {to}"


@agent.tool_plain
def book_hotel(city: str) -> str:
    note("books the hotel")
    if sys.argv[-1] == "--die":
        os.kill(os.getpid(), signal.SIGKILL)
    return f"hotel in {city}"


travel = durable(agent, tools={"book_hotel": {"timeout": "1m"}})


def main(store: str | None = None) -> None:
    """Ask for a journey, once per key: the second process takes up what the first one left."""
    with Engine(store, workers=[travel]) as engine:
        run = engine.start(travel.options(idempotency_key="t-1", idempotency_strategy="RETURN_EXISTING"), prompt="To Rome, please.")
        print(run.result(timeout="1m"))


if __name__ == "__main__":
    main("travel.db")
