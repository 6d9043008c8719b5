"""The rows of an execution as a turn sees them: what its reader answers, with the turn's own changes on top of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

from conductorlite.decide.changeset.reader import Reader
from conductorlite.model.canonical import Payload
from conductorlite.model.errors import InvariantBroken
from conductorlite.model.executions import Task, Workflow, own_task, printed_ref
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node, Plan

__all__ = ["NO_ROW", "Before", "Rows"]

#: What a row was before a change: its status (None: there was no row), its input, and whether it was live.
Before = tuple[TaskStatus | None, Payload | None, bool]

NO_ROW: Final[Before] = (None, None, False)

#: In order of scheduling.
_PLACE: Final = attrgetter("seq", "ref")

#: Python finds a global faster than a member of an enumeration.
_IN_PROGRESS, _SKIPPED = TaskStatus.IN_PROGRESS, TaskStatus.SKIPPED


class Rows:
    """The attempts of one turn, and the nodes of the plan that they were made from.

    A row that the turn has written is its own copy, made once: what the reader has answered stays.
    """

    #: While a compensation is scheduled: the loops and rounds from which its expressions look.
    standpoint: tuple[tuple[str, ...], tuple[int, ...]] | None = None

    def __init__(self, plan: Plan, reader: Reader, workflow: Workflow) -> None:
        self.plan = plan
        self._reader = reader
        self._workflow = workflow
        #: The attempts that the turn has made, by reference and number, and that it has changed: written until it is decided.
        self.inserted: dict[tuple[str, int], Task] = {}
        self.updated: dict[tuple[str, int], Task] = {}
        #: The last attempts among them, by reference.
        self.last: dict[str, Task] = {}
        #: The stored rows that `updated` are copies of.
        self.as_read: dict[tuple[str, int], Task] = {}
        #: References whose rows are deleted.
        self.dropped: dict[str, None] = {}
        #: The printed reference that was scheduled last, by definition reference.
        self.newest: dict[str, str] = {}

    def task(self, ref: str) -> Task | None:
        """The last attempt at a printed reference as this turn sees it; None when there is none."""
        found = self.last.get(ref)
        if found is not None:
            return found
        return None if ref in self.dropped else self._reader.task(ref)

    def known(self, ref: str) -> Task:
        """The last attempt at a printed reference that must exist; raises InvariantBroken."""
        task = self.last.get(ref)
        if task is None and ref not in self.dropped:
            task = self._reader.task(ref)
        if task is None:
            raise InvariantBroken(f"workflow {self._workflow.workflow_id}: task {ref!r} does not exist")
        return task

    def known_tasks(self, refs: Iterable[str]) -> list[Task | None]:
        """The last attempts at many printed references, read in one batch."""
        wanted = list(refs)
        stored = [ref for ref in wanted if ref not in self.last and ref not in self.dropped]
        found = dict(zip(stored, self._reader.tasks(stored), strict=True)) if stored else {}
        return [found[ref] if ref in found else self.last.get(ref) for ref in wanted]

    def latest(self, base_ref: str) -> Task | None:
        """The row of a definition reference that was scheduled last, of any round; None when there is none.

        Seen from a compensation, the row of the round that is compensated.
        """
        node = self.plan.nodes.get(base_ref)
        if node is None or (node.loops and self.standpoint is None):
            here = None
        else:
            here = self.seen_as(base_ref) if node.loops else base_ref
        if node is None and self.standpoint is not None:
            # Forked at run time: in the round that is compensated, if it is there.
            forked = printed_ref(base_ref, self.standpoint[1])
            here = forked if self.task(forked) is not None else None
        if here is not None:
            return self.last.get(here) or self.task(here)
        ref = self.newest.get(base_ref)
        if ref is not None:
            return self.last[ref]
        last = self.last.get(base_ref) if node is None else None
        if last is not None and not last.iterations:
            return last  # made at run time, outside every loop: the reference has this one row
        stored = self._reader.latest(base_ref)
        return None if stored is None or stored.ref in self.dropped else self.last.get(stored.ref, stored)

    def prefetch_latest(self, base_refs: Iterable[str]) -> None:
        """Have the reader load the rows of definition references in one batch, save those of this turn."""
        refs, latest = [], []
        for base_ref in base_refs:
            if base_ref in self.newest or base_ref in self.last:
                continue
            ref = self.seen_as(base_ref)
            if ref is not None:
                refs.append(ref)
            elif base_ref in self.plan.nodes:
                latest.append(base_ref)
        if refs or latest:
            self._reader.prefetch(refs=[ref for ref in refs if ref not in self.last], latest=latest)

    def seen_as(self, base_ref: str) -> str | None:
        """The printed reference that a definition reference stands for; None when it is that of the newest round."""
        node = self.plan.nodes.get(base_ref)
        if node is None:
            return None
        loops = node.loops
        if not loops:
            return base_ref
        if self.standpoint is None or loops != self.standpoint[0][: len(loops)]:
            return None
        return printed_ref(base_ref, self.standpoint[1][: len(loops)])

    def all_live(self) -> list[Task]:
        """Every live row as this turn sees it, in order of scheduling."""
        return self._overlaid(self._reader.live(), lambda task: task.live)

    def all_failed(self) -> list[Task]:
        """Every row whose last attempt failed as this turn sees it, in order of scheduling."""
        return self._overlaid(self._reader.failed(), lambda task: task.failed)

    def everything(self) -> list[Task]:
        """Every last attempt as this turn sees it, in order of scheduling."""
        return self._overlaid(self._reader.everything(), lambda _: True)

    def _overlaid(self, stored: Sequence[Task], wanted: Callable[[Task], bool]) -> list[Task]:
        if self.last or self.dropped:
            rows = {task.ref: task for task in stored if task.ref not in self.dropped}
            stored = [task for task in (rows | self.last).values() if wanted(task)]
        return sorted(stored, key=_PLACE)

    def plan_of(self, grafts: Sequence[str]) -> Plan:
        """The plan as a task with these grafts sees it."""
        return self._reader.plan(self._workflow.definition_hash, tuple(grafts)) if grafts else self.plan

    def node(self, task: Task) -> Node:
        """The node a row was made from."""
        return self.plan_of(task.grafts).nodes[task.base_ref] if task.grafts else self.plan.nodes[task.base_ref]

    def placed(self, task: Task) -> Node | None:
        """The node a row was made from; None when the execution has moved to a definition without it."""
        return self.plan_of(task.grafts).nodes.get(task.base_ref)

    def owner(self, task: Task) -> Task | None:
        """The row of the DO_WHILE, or of the JOIN behind the dynamic fork, that counts the task; None when the workflow does.

        A compensation is the workflow's. So is a task of a scope that is over: it was retried on its own, after a loop that
        bore its failure.
        """
        node = self.plan_of(task.grafts).nodes[task.base_ref] if task.grafts else self.plan.nodes[task.base_ref]
        if not node.scopes:
            return None
        scope, depth = node.scopes[-1]
        ref = printed_ref(scope, task.iterations[:depth]) if depth else scope
        row = self.last.get(ref) or self.known(ref)
        return row if row.status is _IN_PROGRESS or row.live else None

    def joins_of(self, task: Task) -> list[str]:
        """Printed references of the JOINs that count the task."""
        joins = self.node(task).joins
        if not joins or not task.iterations:
            return list(joins)
        nodes = self.plan_of(task.grafts).nodes
        return [printed_ref(join, task.iterations[: len(nodes[join].loops)]) for join in joins]

    def own(self, task: Task) -> Task:
        """The row as the turn writes it: a copy of what the reader has answered, made once."""
        row, place = self.last.get(task.ref), (task.ref, task.attempt)
        if row is None and task.ref not in self.dropped:  # nothing of this reference is written yet
            self.as_read[place] = task
            owned: Task = own_task(task)
            self.updated[place] = self.last[task.ref] = owned
            return owned
        if row is not None and row.attempt == task.attempt:
            return row
        row = self.updated.get(place) or self.inserted.get(place)
        if row is None:
            raise InvariantBroken(f"task {task.ref!r}: attempt {task.attempt} is not the last one")
        return row

    def opened(self, task: Task) -> tuple[Any, Before]:
        """Return the row, to be written field by field, and what `settle` is to know of it as it was."""
        row: Any = self.last.get(task.ref)
        if row is None or row.attempt != task.attempt:
            row = self.own(task)
        status = row.status
        live = row.live if row.executed or row.retried or status is _SKIPPED else True
        return row, (status, row.input, live)

    def add(self, row: Task) -> None:
        """Add an attempt that the turn has made."""
        self.inserted[row.ref, row.attempt] = self.last[row.ref] = row
        self.newest[row.base_ref] = row.ref

    def drop(self, tasks: Sequence[Task]) -> list[tuple[Task, Task]]:
        """Delete rows with all their attempts; gives the changed ones among them, as they are and as they were read."""
        for task in tasks:
            self.dropped[task.ref] = None
            self.last.pop(task.ref, None)
            if self.newest.get(task.base_ref) == task.ref:
                del self.newest[task.base_ref]
        gone = {task.ref for task in tasks}
        for place in [place for place in self.inserted if place[0] in gone]:
            del self.inserted[place]
        return [(self.updated.pop(place), self.as_read[place]) for place in list(self.updated) if place[0] in gone]

    def take_out(self, task: Task) -> None:
        """Take out the row of a task that another one takes the place of."""
        self.last.pop(task.ref, None)
        self.newest.pop(task.base_ref, None)
        if self.inserted.pop((task.ref, task.attempt), None) is None:
            self.dropped[task.ref] = None
        self.updated.pop((task.ref, task.attempt), None)
