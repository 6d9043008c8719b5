"""SpiffWorkflow: a specification carried out in memory; nothing is kept."""
# mypy: ignore-errors

from __future__ import annotations

import logging

from contest import Contest, step
from SpiffWorkflow.specs.Simple import Simple
from SpiffWorkflow.specs.WorkflowSpec import WorkflowSpec
from SpiffWorkflow.workflow import Workflow

logging.disable(logging.ERROR)
given = Contest()


class Step(Simple):
    """A task that puts out what a step does."""

    def _run_hook(self, my_task):
        my_task.data["r"] = step(1)
        return super()._run_hook(my_task)


def chain(length: int) -> WorkflowSpec:
    """So many steps."""
    spec = WorkflowSpec("chain", addstart=True)
    last = spec.start
    for n in range(length):
        one = Step(spec, f"s{n}")
        last.connect(one)
        last = one
    return spec


if given.work == "chains":
    spec = chain(10)
    Workflow(spec).run_all()
    with given.measured(given.count * 10):
        for _ in range(given.count):
            Workflow(spec).run_all()
elif given.work == "cold":
    Workflow(chain(1)).run_all()
given.tell()
