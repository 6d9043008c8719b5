"""A worker function that is called alone."""

from __future__ import annotations

import pytest

from conductorlite import TaskContext, TaskStatus, task
from conductorlite.errors import InvalidInput
from conductorlite.testing import TaskEnvironment


@task(response_timeout="60s")
def copy(pages: int, context: TaskContext) -> dict[str, object]:
    """Copies page by page, and stops when it is called off."""
    done = 0
    for _ in range(pages):
        if not context.heartbeat():
            return {"done": done, "lost": context.lost}
        context.log(f"page {done}")
        done += 1
    return {"done": done, "attempt": context.attempt, "key": context.idempotency_key}


def test_a_function_is_called_with_its_context() -> None:
    """Its arguments, attempt, heartbeats and log; what is returned is what would be reported."""
    environment = TaskEnvironment(attempt=2, on_heartbeat=lambda it: it.advance("1s"))
    begun = environment.clock.now()
    result = environment.run(copy, pages=3)
    assert (result.status, result.output_data["done"], result.output_data["attempt"]) == (TaskStatus.COMPLETED, 3, 2)
    assert [at - begun for at in environment.heartbeats] == [0, 1_000, 2_000]
    assert environment.logs == ["page 0", "page 1", "page 2"]
    assert TaskEnvironment().run(copy, pages=0).output_data["key"] == result.output_data["key"]


def test_a_call_that_is_canceled_learns_it_at_its_next_heartbeat() -> None:
    """And what it returns then is reported for nothing."""

    def cancel(environment: TaskEnvironment) -> None:
        if len(environment.heartbeats) == 2:
            environment.cancel()

    environment = TaskEnvironment(on_heartbeat=cancel)
    assert environment.run(copy, pages=9).output_data == {"done": 1, "lost": True}
    assert len(environment.heartbeats) == 2
    with pytest.raises(InvalidInput, match="no call is running"):
        environment.cancel()


def test_a_heartbeat_after_the_response_timeout_is_too_late() -> None:
    """The clock is the test's: more than a minute between two heartbeats."""
    environment = TaskEnvironment(on_heartbeat=lambda it: it.advance("61s"))
    assert environment.run(copy, pages=1).output_data == {"done": 0, "lost": True}


async def ask(question: str) -> str:
    """A coroutine function, not decorated."""
    if not question:
        raise ValueError("no question")
    return question.upper()


def test_coroutines_and_failures() -> None:
    """A plain coroutine function, what it raises, and an input that does not fit."""
    environment = TaskEnvironment()
    assert environment.run(ask, question="why").output_data == {"result": "WHY"}
    failed = environment.run(ask, question="")
    assert (failed.status, failed.error_types) == (TaskStatus.FAILED, ("ValueError",))
    assert environment.run(ask).status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
    with pytest.raises(InvalidInput, match="is no function of one task"):
        environment.run(7)
    with pytest.raises(InvalidInput, match="attempt -1 is negative"):
        TaskEnvironment(attempt=-1)
