"""Reading of a store during a turn: a `Reader` of one execution at one fence.

While the view is open in which the turn began, it answers from that. A turn that may run scripts is decided without it, so that
no other process waits for the store meanwhile: then each batch has a view of its own, in which the fence must be the one that was
read; else another engine was first, and the turn begins again. Every answer is kept, and is the same for the whole turn. What an
execution that has not begun has in the store is nothing, and is not looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from conductorlite.engine.keys import last_polls
from conductorlite.engine.lookups import Lookups
from conductorlite.engine.payloads import PayloadsRequired, TurnMemo
from conductorlite.engine.residents import Resident
from conductorlite.engine.turn_types import messages_to
from conductorlite.language.printing import collect_lines, note_lines
from conductorlite.language.values import Json
from conductorlite.model.canonical import Payload
from conductorlite.model.clock import readings
from conductorlite.model.decisions import Embedding, Event, Message
from conductorlite.model.errors import ConductorliteError, FencedOut, NoHelper
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.limits import Line, Member, reread
from conductorlite.plan.compile import Plan
from conductorlite.store.ports import ReadingTransaction

if TYPE_CHECKING:
    from conductorlite.model.mailbox import WorkflowMessage

__all__ = ["StoreReader"]

V = TypeVar("V")

#: Heads of each lane of a limit's line that are read ahead.
_HEADS: Final = 4


class StoreReader:
    """Reads for one turn."""

    def __init__(
        self,
        lookups: Lookups,
        view: ReadingTransaction | None,
        workflow: Workflow,
        memo: TurnMemo,
        resident: Resident | None = None,
        *,
        plan: Plan | None = None,
    ) -> None:
        """Read for a turn on an execution; where its `plan` asks no limits, the steady clock is not read."""
        self.workflow = workflow
        #: Whether its rows are in memory: nothing is saved by asking for many at once.
        self.at_hand = resident is not None or lookups.at_hand
        #: What asks for all that its turn will read, before it first asks the store for any of it; None: that is done.
        self.ahead: Callable[[], None] | None = None
        #: What the store raised, if it did: whatever became of that in the decision, it holds for nothing.
        self.failure: Exception | None = None
        self._lookups = lookups
        self._view: ReadingTransaction | None = view
        #: The view of the batch that is being read.
        self._batch: ReadingTransaction | None = None
        self._id = workflow.workflow_id
        self._memo = memo
        #: The instant of the turn, and what the steady clock read then.
        clock = lookups.clock
        self._read_at: tuple[str, int] | None = None
        limited = plan is None or plan.asks_limits or workflow.rate_limit_key is not None
        if memo.readings is not None:
            self.now, self._read_at = memo.readings
        elif limited and not clock.virtual:
            self.now, self._read_at = readings(clock)
        else:
            self.now = clock.now()
        self._limited = limited
        self._resident = resident
        self._tasks: dict[str, Task | None] = {} if resident is None else resident.tasks
        self._payloads: dict[str, Payload] = {**memo.payloads} if memo.payloads else {}
        self._lines: dict[str, tuple[int, Line]] = {}
        self._embedded: dict[str, Embedding] = {}
        #: The row of a reference of the definition that was scheduled last, as it was read; else, where rows are kept, its name.
        self._latest: dict[str, Task | None] = {}
        self._latest_kept: Mapping[str, str] = {} if resident is None else resident.latest
        #: Every other answer, by what was asked.
        self._known: dict[tuple[Any, ...], Any] = {}
        #: Whether all of its tasks are known: what has not begun has none.
        self._whole = self._unborn = workflow.history_seq == 0

    @property
    def tasks_known(self) -> dict[str, Task | None]:
        """See `Known`."""
        return self._tasks

    def latest_known(self) -> dict[str, str]:
        """See `Known`."""
        if not (self._latest or self._latest_kept):
            return {}
        tasks = self._tasks
        found = {base_ref: ref for base_ref, ref in self._latest_kept.items() if tasks.get(ref) is not None}
        for base_ref, task in self._latest.items():
            if task is not None:
                tasks.setdefault(task.ref, task)
                found[base_ref] = task.ref
        return found

    def leave(self) -> None:
        """Hold the view no more, which ends: from now on each batch has its own."""
        self._view = None

    # ------------------------------------------------------------------ batches

    def _read(self, read: Callable[[ReadingTransaction], V]) -> V:
        """One batch of reads."""
        try:
            if self._view is not None:
                return read(self._view)
            with self._lookups.payload_store.backend.reading() as view:
                if self._resident is None:  # else that is done when its decision is committed, which is made again if it fails
                    self._compare(view)
                return read(view)
        except Exception as error:
            self.failure = error
            raise

    def _read_ahead(self, ahead: Callable[[], None]) -> None:
        self.ahead = None
        ahead()

    def _compare(self, view: ReadingTransaction) -> None:
        """Raises FencedOut when the execution, or a limit that was read, is not what it was."""
        if not self._unborn:
            row = view.executions.workflow(self._id)
            if row is None or row.fence != self.workflow.fence:
                raise FencedOut(f"{self._id}: another turn was first while this one was decided")
        for key, (_, line) in self._lines.items():
            if view.limits.line(key, 1).limit.fence != line.limit.fence:
                raise FencedOut(f"{self._id}: limit {key!r} was changed while the turn was decided")

    def _ask(self, read: Callable[[ReadingTransaction], V]) -> V:
        """Return what is read in the batch that is under way, or in one of its own."""
        return self._read(read) if self._batch is None else read(self._batch)

    def _once(self, asked: tuple[Any, ...], read: Callable[[ReadingTransaction], V]) -> V:
        """An answer that is read when it is first asked for."""
        if self.ahead is not None and asked not in self._known:
            self._read_ahead(self.ahead)
        if asked not in self._known:
            self._known[asked] = self._ask(read)
        found: V = self._known[asked]
        return found

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
        """Ask for all of it, except what is here already, in one batch."""
        asked: list[Callable[[], object]] = []
        if not self._whole and everything:
            asked.append(self.everything)
        elif not self._whole:
            known = self._tasks
            missing = [ref for ref in refs if ref not in known]
            if missing:
                asked.append(partial(self._read_tasks, missing))
            if latest:
                kept = self._latest_kept
                asked += [
                    partial(self.latest, ref) for ref in latest if ref not in self._latest and kept.get(ref) not in self._tasks
                ]
            asked += [self.live] if live and ("live",) not in self._known else ()
            asked += [self.failed] if failed and ("failed",) not in self._known else ()
        asked += [self.inbox] if inbox and ("inbox",) not in self._known else ()
        if limits or members:
            asked += [partial(self.limit, key, _HEADS) for key in limits if key not in self._lines]
            asked += [partial(self.member, *place) for place in members if ("member", *place) not in self._known]
        if left:
            asked += [partial(self.left, event) for event in left if ("left", event.event_id) not in self._known]
        digests = {one.digest for one in payloads if one.text is None} if payloads else set()
        if digests:
            self._payloads.update(self._lookups.texts_known(digests - self._payloads.keys()))
            digests -= self._payloads.keys() | self._memo.lost.keys()
        if digests:
            asked.append(lambda: self._payloads.update(self._ask(lambda view: self._lookups.texts(view, self._id, digests))))
        if len(asked) > 1:
            self._read(partial(self._together, asked))
        elif asked:
            asked[0]()
        if digests:
            self._fetch(digests)

    def _together(self, asked: Iterable[Callable[[], object]], view: ReadingTransaction) -> None:
        self._batch = view
        try:
            for one in asked:
                one()
        finally:
            self._batch = None

    # ------------------------------------------------------------------ rows

    def task(self, ref: str) -> Task | None:
        """See `Reader.task`."""
        if ref not in self._tasks:
            if self._whole:
                return None
            if self.ahead is not None:
                self._read_ahead(self.ahead)
                return self.task(ref)
            self._read_tasks((ref,))
        return self._tasks[ref]

    def tasks(self, refs: Sequence[str]) -> Sequence[Task | None]:
        """See `Reader.tasks`."""
        known = self._tasks
        missing = () if self._whole else [ref for ref in refs if ref not in known]
        if missing and self.ahead is not None:
            self._read_ahead(self.ahead)
            return self.tasks(refs)
        if missing:
            self._read_tasks(missing)
        return [known.get(ref) for ref in refs]

    def _read_tasks(self, refs: Collection[str]) -> None:
        view = self._batch or self._view
        if view is None:
            self._tasks.update(self._read(lambda view: view.executions.tasks(self._id, refs)))
            return
        try:
            self._tasks.update(view.executions.tasks(self._id, refs))
        except Exception as error:
            self.failure = error
            raise

    def latest(self, base_ref: str) -> Task | None:
        """See `Reader.latest`."""
        if base_ref in self._latest:
            return self._latest[base_ref]
        found = self._tasks.get(self._latest_kept.get(base_ref, ""))
        if found is not None:
            return found
        if self._whole:
            rows = (task for task in self._tasks.values() if task is not None and task.base_ref == base_ref)
            found = max(rows, key=lambda task: task.seq, default=None)
        elif self.ahead is not None:
            self._read_ahead(self.ahead)
            return self.latest(base_ref)
        else:
            found = self._ask(lambda view: view.executions.latest(self._id, (base_ref,))[base_ref])
        self._latest[base_ref] = found
        return found

    def ref_of(self, task_id: str) -> str | None:
        """See `Reader.ref_of`."""
        if self._whole:
            return next((ref for ref, task in self._tasks.items() if task is not None and task.task_id == task_id), None)
        found = self._once(("id", task_id), lambda view: view.executions.task_by_id(task_id))
        return None if found is None or found.workflow_id != self._id else found.ref

    def live(self) -> Sequence[Task]:
        """See `Reader.live`."""
        if self._whole:
            return [task for task in self._tasks.values() if task is not None and task.live]
        return self._once(("live",), lambda view: self._noted(view.executions.live(self._id)))

    def failed(self) -> Sequence[Task]:
        """See `Reader.failed`."""
        if self._whole:
            return [task for task in self._tasks.values() if task is not None and task.failed]
        return self._once(("failed",), lambda view: self._noted(view.executions.failed(self._id)))

    def everything(self) -> Sequence[Task]:
        """See `Reader.everything`."""
        if not self._whole:
            self._ask(lambda view: self._noted(view.executions.last_attempts(self._id)))
            self._whole = True
        return [task for task in self._tasks.values() if task is not None]

    def _noted(self, found: Sequence[Task]) -> Sequence[Task]:
        for task in found:
            self._tasks.setdefault(task.ref, task)
        return found

    # ------------------------------------------------------------------ documents

    def payload(self, payload: Payload) -> Payload:
        """See `Reader.payload`; raises Elsewhere for one of the payload storage while the view is open."""
        if payload.text is not None:
            return payload
        known = self._payloads.get(payload.digest) or self._lookups.large.get(payload.digest)
        if known is not None and known.text is not None and not self._memo.lost:
            return known
        if payload.digest not in self._payloads:
            self.prefetch(payloads=(payload,))
        lost = self._memo.lost.get(payload.digest)
        if lost is not None:
            raise lost.with_traceback(None)
        return self._payloads[payload.digest]

    def _fetch(self, digests: Iterable[str]) -> None:
        """Get those that are stored in the payload storage; no other process waits for the store meanwhile."""
        found = [self._payloads[digest] for digest in digests]
        far = [one.external for one in found if one.text is None and one.external is not None]
        if not far:
            return
        try:
            if self._view is not None:
                raise PayloadsRequired(far)
            self._lookups.fetch(self._memo, far)
        except Exception as error:
            self.failure = error
            raise
        self._payloads.update(self._memo.payloads)

    # ------------------------------------------------------------------ the inbox, limits, polls

    def inbox(self) -> Sequence[Event]:
        """See `Reader.inbox`."""
        return self._once(("inbox",), lambda view: view.inbox.events(self._id))

    def message(self, topic: str, key: str) -> WorkflowMessage | None:
        """See `Reader.message`."""
        return self._once(("message", topic, key), lambda view: view.executions.mailbox(self._id).message(topic, key))

    def unreceived(self, topic: str, limit: int) -> Sequence[WorkflowMessage]:
        """See `Reader.unreceived`."""
        return self._once(("unreceived", topic, limit), lambda view: view.executions.mailbox(self._id).unreceived(topic, limit))

    def messages(self) -> Sequence[WorkflowMessage]:
        """See `Reader.messages`."""
        return self._once(("messages",), lambda view: messages_to(view, self._id))

    def left(self, event: Event) -> int:
        """See `Reader.left`."""
        return self._once(
            ("left", event.event_id), lambda view: next(iter(self._lookups.left(view, [event], self.now).values()), 0)
        )

    def limit(self, key: str, heads: int) -> Line:
        """See `Reader.limit`."""
        if key not in self._lines or self._lines[key][0] < heads:
            line = self._ask(lambda view: view.limits.line(key, heads))
            if not self._limited and not self._lookups.clock.virtual:  # of a task that began on a definition with limits
                self._limited, self._read_at = True, readings(self._lookups.clock)[1]
            if self._read_at is not None:
                # Its windows by the turn's own reading of the clocks: if those were set since, it would compare two times.
                line = attrs.evolve(line, limit=reread(line.limit, self.now, self._read_at))
            self._lines[key] = (heads, line)
        return self._lines[key][1]

    def member(self, key: str, holder: str) -> Member | None:
        """See `Reader.member`."""
        if self._view is None:  # its limit as of the same instant, or before
            self.limit(key, _HEADS)
        return self._once(("member", key, holder), lambda view: view.limits.member(key, holder))

    def polls(self, task_type: str) -> Mapping[str, int]:
        """See `Reader.polls`."""
        return self._once(("polls", task_type), lambda view: last_polls(view, task_type))

    def first_offered(self, queue: str, limit: int) -> Sequence[Message] | None:
        """Return what a poll of a queue would find first.

        None for one that has rate limits go on, and finds more than is there yet.
        """
        quiet = self._lookups.quiet
        if self.now < quiet.offered_at(queue):
            self._memo.unoffered = quiet.version
            return ()
        if self._view is not None:
            return quiet.first_offered(self._view, quiet.written, queue, self.now, limit)
        return quiet.look_offered(queue, self.now, limit)

    def alone_until(self, at: int, queue: str, queues: Collection[str]) -> Sequence[str] | None:
        """See `Quiet.alone_until`."""
        if self._view is not None:
            return self._lookups.quiet.alone_until(self._view, self.workflow, at, queue, queues)
        return self._lookups.quiet.look_alone(self.workflow, at, queue, queues)

    # ------------------------------------------------------------------ definitions and scripts

    def definition(self, name: str, version: int | None) -> str | None:
        """See `Reader.definition`."""
        return self._once(("definition", name, version), lambda view: self._lookups.resolved(view, name, version))

    def embedding(self, name: str, definition: object) -> Embedding:
        """See `Reader.embedding`."""
        if name not in self._embedded:
            self._embedded[name] = self._ask(lambda view: self._lookups.registry.embed(view, definition, self.workflow.semantics))
        return self._embedded[name]

    def plan(self, definition_hash: str, grafts: tuple[str, ...] = ()) -> Plan:
        """See `Reader.plan`."""
        asked = ("plan", definition_hash, grafts)
        found: Plan | None = self._known.get(asked)
        if found is None:
            row = attrs.evolve(self.workflow, definition_hash=definition_hash)
            made = {digest: text for one in self._embedded.values() for digest, text in one.texts.items()}
            found = self._lookups.plans.kept(row, grafts) or self._ask(
                lambda view: self._lookups.plans.extended(view, row, grafts, made)
            )
            self._known[asked] = found
        return found

    def script(self, seed: str, values: Mapping[str, Json], now: int, ask: Callable[[], Json]) -> Json:
        """See `Reader.script`; what needs a process is not carried out while the view is open, and raises NoHelper then."""
        from conductorlite.language.processes import ScriptCut, ScriptTimedOut, in_process, patience

        recorded = self._lookups.record
        for cut, late, said in () if recorded is None else recorded.cut:
            if cut == seed:
                raise (ScriptTimedOut if late else ScriptCut)(said)
        if self._view is None:
            with patience(recorded is not None):
                return self._answered(seed, values, now, ask)
        known = self._memo.answers.get(seed) if self._memo.answers else None
        if known is not None and known[:2] == (values, now):
            note_lines(known[3])
            if isinstance(known[2], ConductorliteError):
                raise known[2].with_traceback(None)
            return known[2]
        try:
            return in_process(ask, patient=recorded is not None)
        except NoHelper as error:
            self.failure = error
            raise

    def _answered(self, seed: str, values: Mapping[str, Json], now: int, ask: Callable[[], Json]) -> Json:
        """Return the answer of a script, kept when the turn is rehearsed."""
        answer: Any = None
        lines: list[str] = []
        try:
            with collect_lines(lines):
                answer = ask()
        except ConductorliteError as error:
            answer = error
            raise
        finally:
            note_lines(lines)
            if self._memo.answers is not None:
                self._memo.answers[seed] = (values, now, answer, lines)
        return answer
