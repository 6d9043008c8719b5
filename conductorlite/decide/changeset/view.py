"""An execution as a turn sees it: what its reader answers, with the turn's own changes on top of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from conductorlite.decide.changeset.reader import Barriers, PayloadField, Reader
from conductorlite.language.conditions import Condition
from conductorlite.language.values import Json, Outside
from conductorlite.model import attrs
from conductorlite.model.attrs import changed
from conductorlite.model.canonical import Payload, parse
from conductorlite.model.decisions import Embedding, Event, Message, Renamed, Reply
from conductorlite.model.errors import InvalidInput, InvariantBroken, PayloadLost
from conductorlite.model.executions import HistoryEvent, Task, TaskLog, Workflow, own_workflow, printed_ref
from conductorlite.model.later import module
from conductorlite.model.limits import Limit
from conductorlite.model.scalars import encoded
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node, Plan

if TYPE_CHECKING:
    from conductorlite.language import printing, processes
    from conductorlite.model.mailbox import WorkflowMessage
else:
    printing = module("conductorlite.language.printing")
    processes = module("conductorlite.language.processes")

__all__ = ["SMALL", "Bounds", "Item", "LostInput", "View"]

#: One entry of the work list: what to do, and the JSON-able arguments to do it with.
Item = tuple[str, *tuple[Any, ...]]


@attrs.frozen(kw_only=True, slots=True, repr=False)
class Bounds:
    """Bounds of one turn: steps of the work list and new rows, after which it is cut, and sizes of payloads.

    Others wait for the turn, so it should take some tenths of a second at most on a slow machine.
    """

    steps: int = 5_000
    rows: int = 1_000
    barriers: Barriers = attrs.field(factory=Barriers)


#: Characters that no hard barrier refuses, whatever they are: the least one is 1 KB.
SMALL: Final = 256


#: Python finds a global faster than a member of an enumeration.
_IN_PROGRESS: Final = TaskStatus.IN_PROGRESS


class LostInput(InvalidInput):
    """Internal: a task is being scheduled on a document that cannot be read."""


class View:
    """What a turn reads. The private attributes are filled by the classes that build on it.

    What an object has from its beginning are no more than 30 attributes: one of more has a table of its own, which takes longer.
    """

    #: Set while an execution is being reopened: what is scheduled may exist already.
    reopening = False
    #: What scripts have printed, for the logs of their tasks.
    printed: tuple[TaskLog, ...] = ()
    #: Rounds of loops begun in this piece of work, however many turns it was cut into.
    rounds = 0
    #: Cleared while a verb rearranges rows; then the counters are counted again.
    counting = True
    more = False
    #: Whether an event was refused.
    refused = False
    #: While a compensation is scheduled: the loops and rounds from which its expressions look.
    standpoint: tuple[tuple[str, ...], tuple[int, ...]] | None = None
    #: Whether a document that cannot be read is an error at once: while a task's input is made.
    strict = False
    #: The retry of an operator that begins now, as the row it is.
    beginning: Task | None = None
    #: Why something this step has read cannot be read, until a task or the workflow has failed of it.
    lost: str | None = None
    #: Which execution has this one end, at this moment.
    ended_by = ""
    #: Inputs that replace what would be rendered, by printed reference.
    given: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    #: Messages to the execution as the turn has made or changed them, by their numbers.
    messages: dict[int, WorkflowMessage] | None = None
    #: Lengths of default timeouts that are dated again, by the ids of their timers, ms.
    _lengths: Mapping[str, int] = MappingProxyType({})
    _renamed: tuple[Renamed, ...] = ()
    _release_held = False

    def __init__(self, plan: Plan, reader: Reader, now: int, environment: Mapping[str, str], bounds: Bounds) -> None:
        self.plan = plan
        self.reader = reader
        self.environment = environment
        self.bounds = bounds
        #: The row as this turn sees it: written by `change` alone.
        self.workflow: Workflow = own_workflow(reader.workflow)
        self._row: Any = self.workflow
        #: What rows are stamped with: never before the workflow's last change, even if the clock was set back.
        self.now = now if now >= self.workflow.updated_at else self.workflow.updated_at
        #: The raw clock, by which events and messages come due.
        self.clock = now
        self.stack: list[Item] = []
        self.queue: deque[Item] = deque()
        self.replies: dict[str, Reply] = {}
        self._created = self.workflow.history_seq == 0
        #: Lines of the journal so far.
        self.history_seq = self.workflow.history_seq
        #: The attempts that the turn has made, by reference and number, and that it has changed: written until it is decided.
        self.inserted: dict[tuple[str, int], Task] = {}
        self.updated: dict[tuple[str, int], Task] = {}
        self.last: dict[str, Task] = {}
        #: The stored rows that `updated` are copies of.
        self._as_read: dict[tuple[str, int], Task] = {}
        self._dropped: dict[str, None] = {}
        self.newest: dict[str, str] = {}
        self._texts: dict[str, Payload] = {}
        self._definitions: dict[str, str] = {}
        self.history: list[HistoryEvent] = []
        #: What led to the lines to come, as canonical JSON, until the first of them records it; and what else that line records.
        self.cause: str | None = None
        self.noted: dict[str, Any] = {}
        #: Ids of attempts that were derived in this turn.
        self._ids: dict[tuple[str, int, int], str] = {}
        self._consumed: list[str] = []
        #: Events of the execution's own inbox that the turn puts there; those of rows' deadlines are added at its end.
        self._timers: dict[str, Event] = {}
        self._cancelled: dict[str, None] = {}
        self._put: dict[tuple[str, str], Message] = {}
        self._removed: dict[tuple[str, str], None] = {}
        self._posted: list[Event] = []
        #: Limits as this turn leaves them.
        self._limits: dict[str, Limit] = {}

    def task(self, ref: str) -> Task | None:
        """The last attempt at a printed reference as this turn sees it; None when there is none."""
        found = self.last.get(ref)
        if found is not None:
            return found
        return None if ref in self._dropped else self.reader.task(ref)

    def known(self, ref: str) -> Task:
        """The last attempt at a printed reference that must exist; raises InvariantBroken."""
        task = self.last.get(ref)
        if task is None and ref not in self._dropped:
            task = self.reader.task(ref)
        if task is None:
            raise InvariantBroken(f"workflow {self.workflow.workflow_id}: task {ref!r} does not exist")
        return task

    def known_tasks(self, refs: Iterable[str]) -> list[Task | None]:
        """The last attempts at many printed references, read in one batch."""
        wanted = list(refs)
        stored = [ref for ref in wanted if ref not in self.last and ref not in self._dropped]
        found = dict(zip(stored, self.reader.tasks(stored), strict=True)) if stored else {}
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
        stored = self.reader.latest(base_ref)
        return None if stored is None or stored.ref in self._dropped else self.last.get(stored.ref, stored)

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
            self.reader.prefetch(refs=[ref for ref in refs if ref not in self.last], latest=latest)

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

    def value(self, payload: Payload) -> Any:
        """The document of a payload, shared.

        One that cannot be read is an empty map, and is noted in `lost`; when `strict` it raises LostInput.
        """
        if payload.text is None:
            try:
                payload = self.reader.payload(payload)
            except PayloadLost as lost:
                if self.strict:
                    raise LostInput(str(lost)) from None
                self.lost = str(lost)
                return {}
        return payload.value

    def whole(self, payload: Payload) -> Payload:
        """The payload with its text. One that cannot be read stays without, and is noted in `lost`."""
        try:
            return self.reader.payload(payload)
        except PayloadLost as lost:
            self.lost = str(lost)
            return payload

    def refusal(self, place: PayloadField, payload: Payload | None) -> str | None:
        """Why what was made cannot stand in its place: something it was made of cannot be read, or it is too large."""
        problem, self.lost = self.lost, None
        if problem is not None or payload is None or payload.text is None or len(payload.text) <= SMALL:
            return problem
        return self.bounds.barriers.refusal(place, payload)

    def values(self, payloads: Iterable[Payload]) -> list[Any]:
        """The documents of many payloads, read in one batch."""
        wanted = list(payloads)
        self.reader.prefetch(payloads=wanted)
        return [self.value(payload) for payload in wanted]

    def all_live(self) -> list[Task]:
        """Every live row as this turn sees it, in order of scheduling."""
        return self._overlaid(self.reader.live(), lambda task: task.live)

    def all_failed(self) -> list[Task]:
        """Every row whose last attempt failed as this turn sees it, in order of scheduling."""
        return self._overlaid(self.reader.failed(), lambda task: task.failed)

    def everything(self) -> list[Task]:
        """Every last attempt as this turn sees it, in order of scheduling."""
        return self._overlaid(self.reader.everything(), lambda _: True)

    def _overlaid(self, stored: Sequence[Task], wanted: Any) -> list[Task]:
        rows = {task.ref: task for task in stored if task.ref not in self._dropped}
        rows.update(self.last)
        return sorted((task for task in rows.values() if wanted(task)), key=lambda task: (task.seq, task.ref))

    def plan_of(self, grafts: Sequence[str]) -> Plan:
        """The plan as a task with these grafts sees it."""
        return self.reader.plan(self.workflow.definition_hash, tuple(grafts)) if grafts else self.plan

    def node(self, task: Task) -> Node:
        """The node a row was made from."""
        return self.plan_of(task.grafts).nodes[task.base_ref] if task.grafts else self.plan.nodes[task.base_ref]

    def placed(self, task: Task) -> Node | None:
        """The node a row was made from; None when the execution has moved to a definition without it."""
        return self.plan_of(task.grafts).nodes.get(task.base_ref)

    def embed(self, name: str, definition: object) -> Embedding:
        """Keep a definition made at run time (a WorkflowDef, or JSON that may be one).

        `name` is the turn's own, the same for the same definition.
        """
        found = self.reader.embedding(name, definition)
        self._definitions.update(found.texts)
        if found.digest is not None:
            self._use(found.digest)
        return found

    def resolve(self, name: str, version: int | None) -> str | None:
        """Hash of a registered definition as executions keep it; None when there is none."""
        digest = self.reader.definition(name, version)
        if digest is not None:
            self._use(digest)
        return digest

    def _use(self, digest: str) -> None:
        """Have the journal record that a definition was found at run time."""
        if digest not in self._so_far("used"):
            self._append("used", digest)

    def _so_far(self, name: str) -> Sequence[Any]:
        """What the last line of this turn, or the next one if there is none yet, records under a name of its cause."""
        cause = self.noted if not self.history else parse(self.history[-1].cause or "{}")
        found: Sequence[Any] = cause.get(name, ())
        return found

    def _append(self, name: str, what: object) -> None:
        """Have the journal record more under a name of a cause: in the last line of this turn, or in the next one."""
        entries = [*self._so_far(name), what]
        if not self.history:
            self.noted[name] = entries
            return
        last = self.history[-1]
        self.history[-1] = changed(last, cause=encoded({**parse(last.cause or "{}"), name: entries}))

    def answer(self, condition: Condition, values: Mapping[str, Json], seed: str) -> Json:
        """What a condition answers: worked out here where that follows from its values alone, else asked as `evaluated` does."""
        at_once = condition.at_once
        if at_once is not None:
            try:
                return at_once(values)
            except Outside:
                pass
        return self.evaluated(seed, values, lambda: condition.evaluate(values, now=self.now, seed=seed))

    def evaluated(self, seed: str, values: Mapping[str, Json], ask: Callable[[], Json]) -> Json:
        """What a script answers that is seeded with `seed`. That a bound ended it is recorded in the journal, and is so again when
        a record is replayed, on a machine of any speed; whatever else it raises goes on.
        """
        lines: list[str] = []
        try:
            with printing.collect_lines(lines):
                return self.reader.script(seed, values, self.now, ask)
        except processes.ScriptCut as error:
            self._append("cut", [seed, int(isinstance(error, processes.ScriptTimedOut)), str(error)])
            raise
        finally:
            if lines:  # of a loop's condition the seed names the round, too
                task_id = seed.partition(":")[0]
                self.printed += tuple([TaskLog(task_id=task_id, at=self.now, text=line) for line in lines])

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

    def follow(self, task: Task, ref: str, iterations: tuple[int, ...]) -> None:
        """Put the scheduling of a node on the work list; `ref` is as the plan of `task` knows it."""
        node = (self.plan_of(task.grafts) if task.grafts else self.plan).nodes[ref]
        self.stack.append(("schedule", ref, list(iterations), *((list(node.grafts),) if node.grafts else ())))

    def payload(self, value: Any, *, where: str = "$") -> Payload:
        """Keep a computed or reported document; raises InvalidInput."""
        return self.keep(Payload.of(value, where=where))

    def keep(self, payload: Payload) -> Payload:
        """Note a payload that a row of this turn refers to, so that a large one is stored."""
        if payload.large and payload.text is not None:
            self._texts[payload.digest] = payload
        return payload

    def after(self, delay_ms: int) -> int:
        """The instant that much later; what is not delayed is due by the raw clock, so that it need not wait for it."""
        return self.now + delay_ms if delay_ms else self.clock
