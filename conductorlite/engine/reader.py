"""What a turn reads out of a store: a `Reader` of one execution at one fence.

While the view is open in which the turn began, it answers from that. A turn that may run scripts is decided without it, so that
nobody waits for the store meanwhile: then each batch has a view of its own, in which the fence must be the one that was read; else
somebody else was first, and the turn begins anew. Every answer is kept, and is the same for the whole turn. What an execution that
has not begun has in the store is nothing, and is not looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from conductorlite.canonical import Payload
from conductorlite.clock import steady
from conductorlite.decisions import Embedding, Event
from conductorlite.engine.domains import last_polls
from conductorlite.engine.outside import Elsewhere, Near
from conductorlite.errors import ConductorliteError, FencedOut
from conductorlite.executions import Task, Workflow
from conductorlite.expressions import Json
from conductorlite.expressions.conditions import ScriptCut, ScriptTimedOut, patience
from conductorlite.limits import Line, Member, reread
from conductorlite.plan import Plan
from conductorlite.ports import ReadingTransaction
from conductorlite.sandbox import NoHelper, without_helpers

if TYPE_CHECKING:
    from conductorlite.engine.deciding import Deciding

__all__ = ["Cut", "StoreReader"]

V = TypeVar("V")

#: A script that a bound ended, as the journal tells it: its seed, whether it was its time, and its words.
Cut = tuple[str, bool, str]

#: Heads of each lane of a limit's line that are read ahead.
_HEADS: Final = 4


class StoreReader:
    """Reads for one turn."""

    def __init__(self, turns: Deciding, view: ReadingTransaction, workflow: Workflow, now: int, near: Near) -> None:
        self.workflow = workflow
        #: What the store raised, if it did: whatever became of that in the decision, it holds for nothing.
        self.failure: Exception | None = None
        self._turns = turns
        self._view: ReadingTransaction | None = view
        self._id = workflow.workflow_id
        self._unborn = workflow.history_seq == 0
        self._now = now
        self._read_at = steady(turns.clock)
        self._near = near
        self._tasks: dict[str, Task | None] = {}
        self._latest: dict[str, Task | None] = {}
        self._refs: dict[str, str | None] = {}
        self._payloads: dict[str, Payload] = dict(near.payloads)
        self._lines: dict[str, tuple[int, Line]] = {}
        self._members: dict[tuple[str, str], Member | None] = {}
        self._inbox: tuple[Event, ...] | None = None
        self._left: dict[str, int] = {}
        self._polls: dict[str, Mapping[str, int]] = {}
        self._definitions: dict[tuple[str, int | None], str | None] = {}
        self._embedded: dict[str, Embedding] = {}
        self._plans: dict[tuple[str, tuple[str, ...]], Plan] = {}
        self._live: list[Task] | None = [] if self._unborn else None
        self._failed: list[Task] | None = self._live
        self._whole = self._unborn

    def leave(self) -> None:
        """Hold the view no more, which ends: from now on each batch has its own."""
        self._view = None

    def _ask(self, read: Callable[[ReadingTransaction], V]) -> V:
        """One batch of reads."""
        try:
            if self._view is not None:
                return read(self._view)
            with self._turns.outside.backend.reading() as view:
                self._compare(view)
                return read(view)
        except Exception as error:
            self.failure = error
            raise

    def _compare(self, view: ReadingTransaction) -> None:
        """Raises FencedOut when the execution, or a limit that was read, is not what it was."""
        if not self._unborn:
            row = view.workflow(self._id)
            if row is None or row.fence != self.workflow.fence:
                raise FencedOut(f"{self._id}: another turn was first while this one was decided")
        for key, (_, line) in self._lines.items():
            if view.line(key, 1).limit.fence != line.limit.fence:
                raise FencedOut(f"{self._id}: limit {key!r} was changed while the turn was decided")

    # ------------------------------------------------------------------ rows

    def prefetch(
        self,
        *,
        refs: Iterable[str] = (),
        latest: Iterable[str] = (),
        payloads: Iterable[Payload] = (),
        live: bool = False,
        failed: bool = False,
        everything: bool = False,
        inbox: bool = False,
        limits: Iterable[str] = (),
        members: Iterable[tuple[str, str]] = (),
        left: Iterable[Event] = (),
    ) -> None:
        """Read all of it, save what is here already, in one batch."""
        wanted: list[Callable[[ReadingTransaction], None]] = []

        def want(read: Callable[[ReadingTransaction, Any], None], what: Any) -> None:
            if what:
                wanted.append(lambda view: read(view, what))

        if not self._whole:
            want(self._read_whole, everything)
            want(self._read_live, live and not everything and self._live is None)
            want(self._read_failed, failed and not everything and self._failed is None)
            if not everything:
                want(self._read_tasks, [ref for ref in refs if ref not in self._tasks])
                want(self._read_latest, [ref for ref in latest if ref not in self._latest])
        want(self._read_inbox, inbox and self._inbox is None)
        want(self._read_lines, [(key, _HEADS) for key in limits if key not in self._lines])
        want(self._read_members, [place for place in members if place not in self._members])
        want(self._read_left, left)
        absent = {one.digest for one in payloads if one.text is None}
        digests = absent - self._payloads.keys() - self._near.lost.keys() if absent else None
        want(self._read_payloads, digests)
        if wanted:
            self._ask(lambda view: [read(view) for read in wanted])
        if digests:
            self._fetch(digests)

    def _read_tasks(self, view: ReadingTransaction, refs: Sequence[str]) -> None:
        self._tasks.update(view.tasks(self._id, refs))

    def _read_latest(self, view: ReadingTransaction, refs: Sequence[str]) -> None:
        self._latest.update(view.latest(self._id, refs))

    def _read_live(self, view: ReadingTransaction, _: bool) -> None:
        self._live = self._kept(view.live(self._id))

    def _read_failed(self, view: ReadingTransaction, _: bool) -> None:
        self._failed = self._kept(view.failed(self._id))

    def _read_whole(self, view: ReadingTransaction, _: bool) -> None:
        self._kept(view.last_attempts(self._id))
        self._whole = True

    def _kept(self, found: Sequence[Task]) -> list[Task]:
        """Rows as they are known already, if they are."""
        known = self._tasks
        for task in found:
            if task.ref not in known:
                known[task.ref] = task
        return list(found)

    def task(self, ref: str) -> Task | None:
        """See `Reader.task`."""
        try:
            return self._tasks[ref]
        except KeyError:
            if self._whole:
                return None
        self._ask(lambda view: self._read_tasks(view, [ref]))
        return self._tasks[ref]

    def tasks(self, refs: Sequence[str]) -> Sequence[Task | None]:
        """See `Reader.tasks`."""
        known = self._tasks
        missing = [] if self._whole else [ref for ref in refs if ref not in known]
        if missing:
            self._ask(lambda view: self._read_tasks(view, missing))
        return [known.get(ref) for ref in refs]

    def latest(self, base_ref: str) -> Task | None:
        """See `Reader.latest`."""
        if base_ref not in self._latest:
            if self._whole:
                rows = (task for task in self._tasks.values() if task is not None and task.base_ref == base_ref)
                self._latest[base_ref] = max(rows, key=lambda task: task.seq, default=None)
            else:
                self._ask(lambda view: self._read_latest(view, [base_ref]))
        return self._latest[base_ref]

    def ref_of(self, task_id: str) -> str | None:
        """See `Reader.ref_of`."""
        if task_id not in self._refs:
            if self._whole:
                rows = (task for task in self._tasks.values() if task is not None and task.task_id == task_id)
                found = next(rows, None)
            else:
                found = self._ask(lambda view: view.task_by_id(task_id))
            self._refs[task_id] = None if found is None or found.workflow_id != self._id else found.ref
        return self._refs[task_id]

    def live(self) -> Sequence[Task]:
        """See `Reader.live`."""
        if self._live is None:
            if self._whole:
                self._live = [task for task in self.everything() if task.live]
            else:
                self._ask(lambda view: self._read_live(view, True))
        return self._live or ()

    def failed(self) -> Sequence[Task]:
        """See `Reader.failed`."""
        if self._failed is None:
            if self._whole:
                self._failed = [task for task in self.everything() if task.failed]
            else:
                self._ask(lambda view: self._read_failed(view, True))
        return self._failed or ()

    def everything(self) -> Sequence[Task]:
        """See `Reader.everything`."""
        if not self._whole:
            self._ask(lambda view: self._read_whole(view, True))
        return [task for task in self._tasks.values() if task is not None]

    # ------------------------------------------------------------------ documents

    def payload(self, payload: Payload) -> Payload:
        """See `Reader.payload`; raises Elsewhere for one of the payload storage while the view is open."""
        if payload.text is not None:
            return payload
        digest = payload.digest
        if digest not in self._payloads:
            self.prefetch(payloads=(payload,))
        lost = self._near.lost.get(digest)
        if lost is not None:
            raise lost.with_traceback(None)
        return self._payloads[digest]

    def _read_payloads(self, view: ReadingTransaction, digests: Iterable[str]) -> None:
        self._payloads.update(self._turns.texts(view, self._id, digests))

    def _fetch(self, digests: Iterable[str]) -> None:
        """Get those that lie in the payload storage; nobody waits for the store meanwhile."""
        far = [
            found.external for digest in digests if (found := self._payloads[digest]).text is None and found.external is not None
        ]
        if not far:
            return
        try:
            if self._view is not None:
                raise Elsewhere(far)
            self._turns.fetch(self._near, far)
        except Exception as error:
            self.failure = error
            raise
        self._payloads.update(self._near.payloads)

    # ------------------------------------------------------------------ the inbox, limits, polls

    def _read_inbox(self, view: ReadingTransaction, _: bool) -> None:
        self._inbox = tuple(view.inbox(self._id))

    def inbox(self) -> Sequence[Event]:
        """See `Reader.inbox`."""
        if self._inbox is None:
            self._ask(lambda view: self._read_inbox(view, True))
        return self._inbox or ()

    def _read_left(self, view: ReadingTransaction, events: Iterable[Event]) -> None:
        for event in events:
            self._left[event.event_id] = self._turns.left(view, event, self._now)

    def left(self, event: Event) -> int:
        """See `Reader.left`."""
        if event.event_id not in self._left:
            self._ask(lambda view: self._read_left(view, [event]))
        return self._left[event.event_id]

    def _read_lines(self, view: ReadingTransaction, wanted: Iterable[tuple[str, int]]) -> None:
        """Limits with windows by the turn's own reading of the clocks: had those been set since, it would compare two times."""
        for key, heads in wanted:
            line = view.line(key, heads)
            if self._read_at is not None:
                line = attrs.evolve(line, limit=reread(line.limit, self._now, self._read_at))
            self._lines[key] = (heads, line)

    def _read_members(self, view: ReadingTransaction, places: Iterable[tuple[str, str]]) -> None:
        if self._view is None:  # its limit as of the same instant
            self._read_lines(view, {(key, _HEADS) for key, _ in places if key not in self._lines})
        for place in places:
            self._members[place] = view.member(*place)

    def limit(self, key: str, heads: int) -> Line:
        """See `Reader.limit`."""
        if key not in self._lines or self._lines[key][0] < heads:
            self._ask(lambda view: self._read_lines(view, [(key, heads)]))
        return self._lines[key][1]

    def member(self, key: str, holder: str) -> Member | None:
        """See `Reader.member`."""
        place = (key, holder)
        if place not in self._members:
            self._ask(lambda view: self._read_members(view, [place]))
        return self._members[place]

    def polls(self, task_type: str) -> Mapping[str, int]:
        """See `Reader.polls`."""
        if task_type not in self._polls:
            self._polls[task_type] = self._ask(lambda view: last_polls(view, task_type))
        return self._polls[task_type]

    # ------------------------------------------------------------------ definitions and scripts

    def definition(self, name: str, version: int | None) -> str | None:
        """See `Reader.definition`."""
        key = (name, version)
        if key not in self._definitions:
            self._definitions[key] = self._ask(lambda view: self._turns.resolved(view, name, version))
        return self._definitions[key]

    def embedding(self, name: str, definition: object) -> Embedding:
        """See `Reader.embedding`."""
        if name not in self._embedded:
            self._embedded[name] = self._ask(lambda view: self._turns.embed(view, definition, self.workflow.semantics))
        return self._embedded[name]

    def plan(self, definition_hash: str, grafts: tuple[str, ...] = ()) -> Plan:
        """See `Reader.plan`."""
        key = (definition_hash, grafts)
        found = self._plans.get(key)
        if found is None:
            row = attrs.evolve(self.workflow, definition_hash=definition_hash)
            made = {digest: text for one in self._embedded.values() for digest, text in one.texts.items()}
            found = self._turns.kept(row, grafts) or self._ask(lambda view: self._turns.grown(view, row, grafts, made))
            self._plans[key] = found
        return found

    def script(self, seed: str, values: Mapping[str, Json], now: int, ask: Callable[[], Json]) -> Json:
        """See `Reader.script`; what needs a process is not carried out while the view is open, and raises NoHelper then."""
        told = self._turns.cut
        for cut, late, said in told or ():
            if cut == seed:
                raise (ScriptTimedOut if late else ScriptCut)(said)
        if self._view is None:
            with patience(told is not None):
                return self._noted(seed, values, now, ask)
        known = self._near.answers.get(seed) if self._near.answers else None
        if known is not None and known[:2] == (values, now):
            if isinstance(known[2], ConductorliteError):
                raise known[2].with_traceback(None)
            return known[2]
        try:
            with patience(told is not None), without_helpers():
                return ask()
        except NoHelper as error:
            self.failure = error
            raise

    def _noted(self, seed: str, values: Mapping[str, Json], now: int, ask: Callable[[], Json]) -> Json:
        """What a script answers, kept when the turn is rehearsed."""
        answer: Any = None
        try:
            answer = ask()
        except ConductorliteError as error:
            answer = error
            raise
        finally:
            if self._near.now is not None:
                self._near.answers[seed] = (values, now, answer)
        return answer
