"""How many calls a task costs, of Python's functions and of C's, from its start to its end, in memory.

Counts are the same on any machine. The ceilings only fall: who makes a step cheaper lowers them to what it costs then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import pytest
from shapes import chain, fork, loop, step

from conductorlite import Engine, VirtualClock, Workers, WorkflowDef, WorkflowStatus

#: Per shape: what makes it, its worker tasks, and the most calls that each of them may take, start and end included.
CEILINGS: Final = {"chain": (chain, 10, 486), "loop": (loop, 10, 720), "fork": (fork, 30, 622)}


@pytest.mark.parametrize("shape", CEILINGS)
def test_a_task_takes_so_many_calls(shape: str) -> None:
    """Counted in the second execution: the first one has compiled the definition."""
    make, tasks, ceiling = CEILINGS[shape]
    taken = _calls(make, tasks) / tasks
    assert taken <= ceiling, f"{taken:.0f} calls a task"


def _calls(make: Callable[[int], WorkflowDef], tasks: int) -> int:
    workers = Workers()
    workers.task("step")(step)
    counted = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    with Engine(workers=workers, clock=VirtualClock()) as engine:
        definition = make(tasks)
        engine.register(definition)
        for profiled in (None, count):
            sys.setprofile(profiled)
            try:
                run = engine.start(definition.name, {"x": 1})
                engine.run_until_idle()
            finally:
                sys.setprofile(None)
            assert run.status is WorkflowStatus.COMPLETED
    return counted
