"""A flow in rounds: a step says which calls are next, each call is a task of its own, and the step goes on with their results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any, TypedDict

from conductorlite.flows import as_is, node, repeat
from conductorlite.flows.tasks import TaskFunction
from conductorlite.model.definitions import TaskType, WorkflowTask

__all__ = ["Calls", "Round", "in_rounds", "is_plain_json", "last_round"]


class Round(TypedDict):
    """Output of the step: what it remembers for the next round, the calls to make first, or its answer."""

    done: bool
    state: dict[str, Any]
    #: Tasks as in a definition, or lists of tasks that follow one another; empty when the step is done.
    branches: list[Any]
    #: Their inputs by reference name.
    inputs: dict[str, Any]
    answer: Any


class Calls:
    """The calls of a round, side by side."""

    def __init__(self) -> None:
        self._branches: list[Any] = []
        self._inputs: dict[str, Any] = {}

    def add(
        self,
        name: str,
        task_type: str,
        given: Mapping[str, Any],
        *,
        asks: Mapping[str, Any] | None = None,
        answer: Mapping[str, str] | None = None,
    ) -> None:
        """Add a call: a task of a type, whose reference name begins with `name`.

        With `asks` a HUMAN task with that input comes before it; `answer` says which of the call's inputs has which part of its
        output.
        """
        ref = re.sub(r"\W", "_", f"{name}_{len(self._branches)}")
        call: dict[str, Any] = {"name": task_type, "taskReferenceName": ref}
        self._inputs[ref] = dict(given)
        if asks is None:
            self._branches.append(call)
            return
        human = f"{ref}_human"
        call["inputParameters"] = {key: f"${{{human}.{part}}}" for key, part in (answer or {}).items()}
        self._inputs[human] = dict(asks)
        self._branches.append([{"name": human, "taskReferenceName": human, "type": "HUMAN"}, call])

    def __bool__(self) -> bool:
        return bool(self._branches)

    def round(self, state: dict[str, Any]) -> Round:
        """The output of the step that asks for these calls."""
        return Round(done=False, state=state, branches=self._branches, inputs=self._inputs, answer=None)


def last_round(state: dict[str, Any], answer: Any) -> Round:
    """The output of the step that has the answer."""
    return Round(done=True, state=state, branches=[], inputs={}, answer=answer)


def in_rounds(step: TaskFunction[..., Round], name: str, **given: Any) -> Any:
    """Add the loop to the flow that is being built, and return a reference to the answer.

    `step`, whose reference name is `name`, is called with `given`, with the `state` of the round before and with the `results` of
    its calls, the outputs of the branches' last tasks by reference name; both are None in the first round.
    """
    with repeat(name="rounds") as loop:
        before = {"state": as_is(f"${{{name}.output.state}}"), "results": as_is("${calls_join.output}")}
        turn: Any = step.options(name=name)(**given, **before)
        inputs = {"branches": turn["branches"], "inputs": turn["inputs"]}
        fork = WorkflowTask(
            name="calls",
            task_reference_name="calls",
            type=TaskType.FORK_JOIN_DYNAMIC,
            dynamic_fork_tasks_param="branches",
            dynamic_fork_tasks_input_param_name="inputs",
            input_parameters=inputs,
        )
        node(fork)
        node(WorkflowTask(name="calls_join", task_reference_name="calls_join", type=TaskType.JOIN))
        loop.until(turn["done"])
    return turn["answer"]


def is_plain_json(value: Any) -> bool:
    """Return True if a value comes back from JSON as it is."""
    if type(value) is list:
        return all(map(is_plain_json, value))
    if type(value) is dict:
        return all(type(key) is str and is_plain_json(one) for key, one in value.items())
    return value is None or type(value) in (bool, int, str) or (type(value) is float and isfinite(value))
