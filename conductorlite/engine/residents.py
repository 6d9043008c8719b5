"""Rows of executions that an engine knows from its own turns, so that the next turn need not read them.

What it guarantees: nothing. A turn that is decided on them commits only if the fence of the execution is still theirs, no other
connection has written to the store, and nothing is due in the inbox; else it is decided again on what is stored. A decision that
would write nothing is never taken from them. So a resident row that is old costs a turn its work, and is never believed.

How it works. A turn takes the rows of its execution out, so that no other thread decides on them meanwhile, and puts them back, as
its decision has made them, when that is committed. Of each execution the rows that were written last are kept, and of as many
executions as the bound allows, those whose turns were the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from conductorlite.model import attrs
from conductorlite.model.canonical import INLINE_LIMIT
from conductorlite.model.decisions import Decision
from conductorlite.model.executions import Task, Workflow, stored_task, stored_workflow

__all__ = ["Resident", "Residents"]

#: Rows of tasks kept of one execution.
_TASKS: Final = 16

#: What the rows of one execution weigh at most, bytes: their payloads, and the rest.
_WEIGHT: Final = _TASKS * (2 * INLINE_LIMIT + 2_500) + 8_000


class Known(Protocol):
    """What a turn was decided on."""

    @property
    def tasks_known(self) -> dict[str, Task | None]:
        """The last attempts at printed references."""

    def latest_known(self) -> dict[str, str]:
        """Which reference was scheduled last of a reference of the definition."""


@attrs.frozen(slots=True, eq=False)
class Resident:
    """An execution's row, the last attempts at some printed references, and what the store's `data_version` was."""

    row: Workflow
    tasks: dict[str, Task | None]
    #: Which reference was scheduled last of a reference of the definition, in loops.
    latest: dict[str, str]
    version: int


class Residents:
    """What one engine keeps in at most so many bytes. Thread-safe."""

    def __init__(self, budget: int) -> None:
        self._most = budget // _WEIGHT
        self._held: dict[str, Resident] = {}

    def __bool__(self) -> bool:
        return self._most > 0

    def take(self, workflow_id: str) -> Resident | None:
        """Have what is known of an execution, which is not kept here any more."""
        return self._held.pop(workflow_id, None)

    def keep(self, decision: Decision, known: Known, version: int) -> None:
        """Keep what a committed decision has made of an execution, of what it was decided on."""
        workflow = decision.workflow
        if not self._most or decision.created or decision.renamed or workflow.status.terminal:
            return
        tasks, latest = known.tasks_known, {} if decision.dropped else known.latest_known()
        for ref in decision.dropped:
            tasks.pop(ref, None)
        for task in _last(decision, tasks):
            tasks.pop(task.ref, None)
            tasks[task.ref] = task
            if task.iterations and task.base_ref in latest:
                other = tasks.get(latest[task.base_ref])
                if other is None or other.seq < task.seq:
                    latest[task.base_ref] = task.ref
        for ref in latest.values():
            if ref in tasks:
                tasks[ref] = tasks.pop(ref)
        while len(tasks) > _TASKS:
            del tasks[next(iter(tasks))]
        self._held[workflow.workflow_id] = Resident(stored_workflow(workflow), tasks, latest, version)
        while len(self._held) > self._most:
            try:
                del self._held[next(iter(self._held))]
            except (KeyError, RuntimeError, StopIteration):
                return  # another thread was first


def _last(decision: Decision, known: Mapping[str, Task | None]) -> Iterator[Task]:
    """The rows of a decision that are the last attempts at their references, as they are read."""
    for task in decision.updated:
        before = known.get(task.ref)
        if before is not None and before.attempt == task.attempt:
            yield stored_task(task)
    for task in sorted(decision.inserted, key=lambda task: task.attempt):
        yield stored_task(task)
