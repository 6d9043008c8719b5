"""One execution between two definitions: whether it can move, why not, and what becomes of what is live.

The rule is that nothing may come to stand where it makes no sense. What has ended stays as it is. What is live must be in the
new definition under the same reference (or the one `refs` names), with the same type, in the same loops, the same branch of a
fork or case of a SWITCH; its JOIN must still be its JOIN and be able to end; and nothing that has run may come to be ahead,
where it would run again. Whatever is in doubt blocks, with a reason that names the reference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

import attrs

from conductorlite.model.definitions import LOOP_DELIMITER, TaskType, WorkflowDef
from conductorlite.model.executions import Task, Workflow, printed_ref
from conductorlite.model.mailbox import SIGNAL, WorkflowMessage, topic_of
from conductorlite.plan.compile import Node, Plan, compile_plan
from conductorlite.plan.difference import describe_branches, renamed
from conductorlite.plan.findings import is_expression
from conductorlite.plan.tree import Branch, TreePosition, positions

__all__ = ["MigrationPlan", "Place", "Verdict", "following", "plan_between", "plan_migration", "starts_of"]

#: A node at the rounds of the loops around it; None for rounds that have not begun, of which no row can exist.
Place = tuple[str, tuple[int, ...] | None]


def starts_of(plan: Plan, node: Node, task: Task, begun: Mapping[str, Task]) -> Iterator[Place]:
    """The nodes that come directly after a live task; `begun` are the rows by printed reference."""
    kind, at = node.task.type, task.iterations
    if kind == "DO_WHILE" and not task.status.terminal and node.body:
        yield node.body, None
    heads: tuple[str | None, ...] = ()
    if kind == "FORK_JOIN":
        heads = node.heads
    elif kind == "SWITCH" and not any(printed_ref(head, at) in begun for head in _heads(node)):
        heads = tuple(_heads(node))
    yield from ((head, at) for head in heads if head is not None and printed_ref(head, at) not in begun)
    if node.successor is not None and not task.succeeded_before:
        yield node.successor, at


def _heads(node: Node) -> list[str]:
    return [head for head in (*node.cases.values(), node.default_case) if head is not None]


def following(plan: Plan, starts: Iterable[Place]) -> set[Place]:
    """Return these places and all that can come after them."""
    found: set[Place] = set()
    pending = [place for place in starts if place[0] in plan.nodes]
    while pending:
        place = pending.pop()
        if place in found:
            continue
        found.add(place)
        node, at = plan.nodes[place[0]], place[1]
        pending += [(ref, at) for ref in (node.successor, node.join, *node.heads, *_heads(node)) if ref is not None]
        if node.body is not None:
            pending.append((node.body, None))
    return found


_NO_REFS: Final[Mapping[str, str]] = {}


class Verdict(StrEnum):
    """Verdict on a move to another definition: possible, with renamed references, losing steps, or blocked."""

    SAFE = "SAFE"
    SAFE_WITH_MAP = "SAFE_WITH_MAP"
    LOSES_STEPS = "LOSES_STEPS"
    BLOCKED = "BLOCKED"


@attrs.frozen(kw_only=True, slots=True)
class MigrationPlan:
    """Plan of moving one execution to another definition. `str()` shows it in lines.

    `reasons` say why it is BLOCKED, each naming a reference; `notes` what to know all the same (a new task that stands before
    what is live never runs); `live` what becomes of each live task, by its printed reference. `lost` are references of the new
    definition that an execution started with it would run and this one never runs; with any, the verdict is LOSES_STEPS.
    """

    workflow_id: str
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    live: Mapping[str, str] = attrs.field(factory=dict)
    #: Rows that get another name: the printed reference before, and after.
    renamed: Mapping[str, str] = attrs.field(factory=dict)
    #: JOINs whose joined references differ: the printed reference before, and how many ends it then waits for.
    waiting: Mapping[str, int] = attrs.field(factory=dict)

    @property
    def blocked(self) -> bool:
        """True if the execution cannot be moved."""
        return self.verdict is Verdict.BLOCKED

    def __str__(self) -> str:
        lines = [f"{self.workflow_id}: {self.verdict}"]
        lines += [f"  blocked: {reason}" for reason in self.reasons]
        lines += [f"  {ref}: {what}" for ref, what in self.live.items()]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


def plan_migration(workflow: Workflow, old: WorkflowDef, new: WorkflowDef, refs: Mapping[str, str] | None = None) -> MigrationPlan:
    """Plan the move of an execution from `old` to `new`; `workflow` has its tasks, as `Engine.get` returns it.

    `refs` maps references of `old` to those they are called in `new`. Nothing is changed. Raises InvalidDefinition when one of
    the definitions is invalid. Source of the rule: our own; Conductor has no safe way to move a running execution.
    """
    rows = [task for task in workflow.tasks if not task.retried]
    plans = [compile_plan(definition, workflow.semantics, lenient=True) for definition in (old, new)]
    return plan_between(workflow, rows, plans[0], plans[1], refs or {})


def plan_between(
    workflow: Workflow,
    rows: Sequence[Task],
    old: Plan,
    new: Plan,
    refs: Mapping[str, str] = _NO_REFS,
    pending: Iterable[Place] = (),
    messages: Iterable[WorkflowMessage] = (),
) -> MigrationPlan:
    """Return the plan of a migration between compiled plans. `rows` are last attempts; `pending` is what is still to schedule.

    `messages` are those to the execution: a note names each topic that no task of the new definition receives.
    """
    plan = _Move(workflow, rows, old, new, refs, tuple(pending)).plan()
    left = Counter(message.topic for message in messages if message.receiver is None)
    notes = [_unreceived(topic, count) for topic, count in left.items() if not _has_receiver(new, topic, refs)]
    return attrs.evolve(plan, notes=(*plan.notes, *notes)) if notes else plan


def _has_receiver(plan: Plan, topic: str, refs: Mapping[str, str]) -> bool:
    """Return True if a task of a definition may receive messages of a topic, or a signal to the task it names."""
    if topic.startswith(SIGNAL):
        ref = topic.removeprefix(SIGNAL)
        base = next((name for name in (ref, ref.split(LOOP_DELIMITER)[0]) if refs.get(name, name) in plan.nodes), None)
        return base is not None
    named = (node.task.input_parameters for node in plan.nodes.values() if node.task.type == TaskType.PULL_WORKFLOW_MESSAGES)
    return any(is_expression(given.get("topic")) or topic_of(given) == topic for given in named)


def _unreceived(topic: str, count: int) -> str:
    of = f"for {topic.removeprefix(SIGNAL)}" if topic.startswith(SIGNAL) else f"of topic {topic}"
    many = f"{count} messages" if count != 1 else "1 message"
    return f"{many} {of}: received by no task of the new definition"


class _Move:
    """One look at one execution; collects what it finds."""

    def __init__(
        self, workflow: Workflow, rows: Sequence[Task], old: Plan, new: Plan, refs: Mapping[str, str], pending: tuple[Place, ...]
    ) -> None:
        self.workflow = workflow
        self.rows = sorted(rows, key=lambda task: (task.seq, task.ref))
        self.old, self.new, self.refs = old, new, refs
        self.pending = pending
        # What was skipped before the flow came to it is still ahead.
        self.begun = {task.ref: task for task in self.rows if not task.skipped_ahead}
        self.before, self.after = positions(old.definition), positions(new.definition)
        self.reasons: dict[str, None] = {}
        self.notes: list[str] = []
        self.lost: list[str] = []
        self.waiting: dict[str, int] = {}

    def plan(self) -> MigrationPlan:
        self._whole()
        self._map()
        if not self.reasons:
            for task in self.rows:
                self._row(task)
            for ref, _ in self.pending:
                self._pending(ref)
        if not self.reasons:
            self._ahead()
        possible = Verdict.LOSES_STEPS if self.lost else Verdict.SAFE_WITH_MAP if self.refs else Verdict.SAFE
        verdict = Verdict.BLOCKED if self.reasons else possible
        moved = () if self.reasons else tuple(self._renames())
        return MigrationPlan(
            workflow_id=self.workflow.workflow_id,
            verdict=verdict,
            reasons=tuple(self.reasons),
            notes=tuple(self.notes),
            lost=() if self.reasons else tuple(self.lost),
            live={} if self.reasons else {task.ref: self._fate(task) for task in self.rows if task.live},
            renamed=dict(moved),
            waiting={} if self.reasons else self.waiting,
        )

    def block(self, reason: str) -> None:
        self.reasons[reason] = None

    def name(self, ref: str) -> str:
        """Return what a reference of the old definition is called in the new one."""
        return self.refs.get(ref, ref)

    def printed(self, task: Task) -> str:
        """Return what a row is called afterwards."""
        return printed_ref(self.name(task.base_ref), task.iterations)

    def _renames(self) -> Iterator[tuple[str, str]]:
        return ((task.ref, self.printed(task)) for task in self.rows if task.base_ref in self.refs)

    # ------------------------------------------------------------------ the execution and the map

    def _whole(self) -> None:
        workflow, name = self.workflow, self.new.definition.name
        if workflow.status.terminal:
            self.block(f"the execution has ended ({workflow.status}); restart it with the new definition")
        if name != workflow.name:
            self.block(f"it is an execution of {workflow.name!r}, not of {name!r}")

    def _map(self) -> None:
        targets: set[str] = set()
        for old, new in self.refs.items():
            if old not in self.before:
                self.block(f"refs: {old!r} is no reference of the old definition")
            elif old in self.after:
                self.block(f"refs: {old!r} is still a reference of the new definition")
            if new not in self.after:
                self.block(f"refs: {new!r} is no reference of the new definition")
            elif new in self.before or any(task.base_ref == new for task in self.rows):
                self.block(f"refs: {new!r} is a reference of the old definition as well")
            if new in targets:
                self.block(f"refs: {new!r} is given twice")
            targets.add(new)

    # ------------------------------------------------------------------ row by row

    def _row(self, task: Task) -> None:
        spot = self.before.get(task.base_ref)
        if spot is None:
            # Of an earlier definition, or made at run time by a dynamic fork.
            if task.live:
                self.block(f"{task.ref}: was made at run time by a dynamic fork; wait until its JOIN has ended")
            return
        name = self.name(task.base_ref)
        there = self.after.get(name)
        if there is None:
            self._gone(task, name)
            return
        if spot.task.type != there.task.type:
            self.block(f"{name}: is a {there.task.type} in the new definition and has begun as a {spot.task.type}")
        elif renamed(_bodies(spot), self.refs) != renamed(_bodies(there), {}):
            self.block(f"{name}: {_elsewhere(spot, there)}; its rounds have begun")
        elif task.live and task.grafts and name != task.base_ref:
            # What it grew from is given by name in a definition of its own.
            self.block(f"{task.ref}: is {_state(task)} and was made at run time by a DYNAMIC; keep its name until it has ended")
        elif task.live:
            self._live(task, spot, there)

    def _gone(self, task: Task, name: str) -> None:
        if task.live:
            self.block(f"{task.ref}: is {_state(task)}, and the new definition has no {name!r}; `refs` says if it was renamed")
        elif not task.status.successful:
            counts = "which counts when the execution ends"
            self.block(f"{task.ref}: ended {task.status}, {counts}, and the new definition has no {name!r}")

    def _live(self, task: Task, spot: TreePosition, there: TreePosition) -> None:
        if renamed(spot.around, self.refs) != renamed(there.around, {}):
            self.block(f"{task.ref}: is {_state(task)} and {_elsewhere(spot, there)}")
        kind = spot.task.type
        forked = None if kind != "JOIN" or spot.previous is None else spot.previous.type
        if "FORK_JOIN_DYNAMIC" in (kind, forked):
            self.block(f"{task.ref}: belongs to a dynamic fork in progress; wait until its JOIN has ended")
        elif kind == "FORK_JOIN":
            heads = [self.name(head) for head in self.old.nodes[task.base_ref].heads]
            if heads != list(self.new.nodes[self.name(task.base_ref)].heads):
                self.block(f"{task.ref}: is scheduling its branches, and they begin with other tasks in the new definition")
        elif kind == "JOIN" and not task.status.terminal:
            self._fork_of(task, spot, there)

    def _fork_of(self, join: Task, spot: TreePosition, there: TreePosition) -> None:
        """The JOIN of a fork must be the JOIN of that fork."""
        forked = spot.previous is not None and spot.previous.type == "FORK_JOIN"
        wanted = self.name(spot.previous.task_reference_name) if forked and spot.previous is not None else None
        found = there.previous.task_reference_name if there.previous is not None and there.previous.type == "FORK_JOIN" else None
        if wanted != found:
            one, other = (f"the JOIN of {ref!r}" if ref else "a JOIN without a fork" for ref in (wanted, found))
            self.block(f"{join.ref}: is waiting as {one}, and is {other} in the new definition")

    def _pending(self, ref: str) -> None:
        name = self.name(ref)
        there, spot = self.after.get(name), self.before.get(ref)
        if there is None or spot is None or renamed(spot.around, self.refs) != renamed(there.around, {}):
            self.block(f"{ref}: is about to be scheduled, and is not at that place in the new definition")

    # ------------------------------------------------------------------ what follows

    def _ahead(self) -> None:
        names = {self.printed(task): task for task in self.begun.values()}
        was = following(self.old, self._starts(self.old, self.begun, old=True))
        will = following(self.new, self._starts(self.new, names, old=False))
        was_names = {(self.name(ref), at) for ref, at in was}
        for ref, at in sorted(will - was_names, key=str):
            if at is not None and printed_ref(ref, at) in names:
                self.block(f"{printed_ref(ref, at)}: has run already, and would run again where the new definition has it")
        for task in self.rows:
            if task.live and not task.status.terminal and self.old.nodes[task.base_ref].task.type == "JOIN":
                self._join(task, names, was_names, will)
        self._reads({ref for ref, _ in will})
        self._remarks(will, was_names)

    def _starts(self, plan: Plan, begun: Mapping[str, Task], *, old: bool) -> Iterator[Place]:
        yield from ((ref if old else self.name(ref), at) for ref, at in self.pending)
        live = [task for task in self.rows if task.live]
        for task in live:
            yield from starts_of(plan, plan.nodes[task.base_ref if old else self.name(task.base_ref)], task, begun)
        if not self.begun:
            yield plan.first, ()

    def _join(self, join: Task, names: Mapping[str, Task], was: set[Place], will: set[Place]) -> None:
        """Check that what a waiting JOIN waits for can come, and is no less than what has begun."""
        old = {self.name(ref) for ref in self.old.nodes[join.base_ref].task.join_on}
        new = list(dict.fromkeys(self.new.nodes[self.name(join.base_ref)].task.join_on))
        rows = {ref: names.get(printed_ref(ref, join.iterations)) for ref in (*new, *old)}
        for ref in sorted(old - set(new)):
            if rows[ref] is not None:
                self.block(f"{join.ref}: joins {ref!r}, which has begun; the new definition does not join it")
        for ref in new:
            place = (ref, join.iterations)
            # What would never have come before either is none of the new definition's doing.
            if rows[ref] is None and place not in will and (ref not in old or place in was):
                self.block(f"{join.ref}: would wait for {ref!r}, which never runs where the new definition has it")
        waiting = sum(row is None or row.live for row in (rows[ref] for ref in new)) + (join.seq == 0)
        if old != set(new) and waiting == 0:
            self.block(f"{join.ref}: would have nothing left to wait for")
        if waiting != join.waiting:
            self.waiting[join.ref] = waiting

    def _reads(self, ahead: set[str]) -> None:
        """Check that what has ended and was removed is read no more. What was made at run time was never in a definition."""
        begun = {task.base_ref for task in self.rows if task.base_ref in self.before}
        gone = {ref for ref in begun if self.name(ref) not in self.after}
        if not gone:
            return
        live = {self.name(task.base_ref) for task in self.rows if task.live}
        for ref in sorted(ahead | live):
            self._read(f"`{ref}`", self.new.nodes[ref], gone)
        if self.new.output is not None:
            for lost in sorted(gone & self.new.output.reads.names):
                self.block(f"{lost}: is read by outputParameters, and is not in the new definition")

    def _read(self, reader: str, node: Node, gone: set[str]) -> None:
        roots = node.template.reads.names if node.items is None else node.template.reads.names | node.items.reads.names
        if node.condition is not None and node.task.type == "DO_WHILE":
            roots |= node.condition.names
        for lost in sorted(gone & roots):
            self.block(f"{lost}: is read by {reader}, and is not in the new definition")

    # ------------------------------------------------------------------ in words

    def _remarks(self, will: set[Place], was: set[Place]) -> None:
        now = {ref for ref, at in will if at is not None}
        later = {ref for ref, _ in will}
        open_loops = {self.name(task.base_ref) for task in self.rows if task.live and not task.status.terminal}
        seen: set[str] = set()
        for ref, spot in self.after.items():
            if ref in self.before or ref in self.refs.values():
                continue
            if {branch.ref for branch in spot.around} & seen:
                continue
            seen.add(ref)
            if ref in now or (ref in later and not set(spot.loops) & open_loops):
                self.notes.append(f"{ref}: is new and will run")
            elif ref in later:
                self.notes.append(f"{ref}: is new and runs from the next round on")
            elif self._not_taken(spot):
                self.notes.append(f"{ref}: is new and never runs: it stands in a branch that is not taken")
            else:
                self.lost.append(ref)
                self.notes.append(f"{ref}: is new and never runs: it stands before what is live")
        reached = {self.name(task.base_ref) for task in self.rows}
        for ref in dict.fromkeys(ref for ref, _ in sorted(was, key=str)):
            if ref in self.after and ref not in reached and ref not in later and not self._not_taken(self.after[ref]):
                self.lost.append(ref)
                self.notes.append(f"{ref}: was still to run and never runs: it stands before what is live")
        for ref in self.before:
            if self.name(ref) not in self.after:
                begun = any(task.base_ref == ref for task in self.rows)
                self.notes.append(f"{ref}: is gone; {'what has ended stays as it is' if begun else 'it had not begun'}")

    def _not_taken(self, spot: TreePosition) -> bool:
        """Return True if it stands in a case that its SWITCH or DECISION has not chosen."""
        rows = {self.name(task.base_ref): task for task in self.rows}
        for branch in spot.around:
            task = rows.get(branch.ref)
            if branch.kind in ("case", "default") and task is not None and task.status.terminal:
                output = task.output.value if task.output.text is not None else {}
                chosen = output.get("selectedCase", next(iter(output.get("caseOutput", ())), None))
                cases = self.after[branch.ref].task.decision_cases
                taken = chosen == branch.key if branch.kind == "case" else chosen not in cases
                if not taken:
                    return True
        return False

    def _fate(self, task: Task) -> str:
        name = self.name(task.base_ref)
        old, new = self.before[task.base_ref].task, self.after[name].task
        words = [_state(task)]
        if task.base_ref in self.refs:
            words.append(f"becomes {self.printed(task)}")
        if not task.status.terminal and attrs.evolve(old, task_reference_name=name) != new:
            child = task.sub_workflow_id is not None and old.sub_workflow_param != new.sub_workflow_param
            what = "its child keeps its definition until" if child else "what changed holds from"
            words.append(f"{what} the next {'round' if old.type == 'DO_WHILE' else 'attempt'}{'' if child else ' on'}")
        elif len(words) == 1:
            words.append("goes on")
        return ", ".join(words)


def _bodies(spot: TreePosition) -> tuple[Branch, ...]:
    return tuple(branch for branch in spot.around if branch.kind == "body")


def _elsewhere(spot: TreePosition, there: TreePosition) -> str:
    return f"stands in {describe_branches(spot.around)}, in the new definition in {describe_branches(there.around)}"


def _state(task: Task) -> str:
    return f"{task.status}, with what follows still to come" if task.status.terminal else str(task.status)
