"""One life lived on two stores at once, every turn decided three times.

`Checked` decides each turn from what it reads of the store, again from the whole execution, and again from nothing but the answers
it was given, and compares the decisions field by field. `Twins` does the same to a memory and a SQLite store and compares their
journals byte by byte. After each
operation every invariant is checked on both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
from tape import LARGE, MOURN

from conductorlite import (
    Bounds,
    Engine,
    EngineConfig,
    Semantics,
    Task,
    TaskResult,
    TaskStatus,
    VirtualClock,
    WorkflowDef,
    WorkflowStatus,
)
from conductorlite.decide import decide
from conductorlite.engine.decisions import Turn, TurnDecider
from conductorlite.engine.holders import give_back_event
from conductorlite.engine.payloads import TurnMemo
from conductorlite.engine.reader import StoreReader
from conductorlite.errors import Conflict, DefinitionNotFound, ExecutionNotFound, StaleLease, TaskNotFound
from conductorlite.model.canonical import canonical, parse
from conductorlite.model.decisions import Decision, Event
from conductorlite.plan.tree import walk
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import RecordingReader
from conductorlite.testing.faults import lay_empty_store

__all__ = ["Matrix", "Twins", "journal"]

#: (operator, event) → how many turns handled that event in an execution that had such a task.
Matrix = Counter[tuple[str, str]]


#: What a definition says that may start other executions.
_BEGETTING = ("SUB_WORKFLOW", "START_WORKFLOW", "failureWorkflow")


class LooseClock(VirtualClock):
    """A clock that can be set back, as a machine's can."""

    def set_back(self, span: int) -> None:
        """Go back by so many milliseconds."""
        self._set = [self.now() - span]


class Checked(TurnDecider):
    """Turns that are decided on what they read, and on the whole."""

    matrix: Matrix

    def decide(self, turn: Turn) -> Decision:
        """The decision on what is read, after it was found equal to the one on the whole."""
        row, now = turn.reader.workflow, turn.now
        given: dict[str, Any] = {"environment": self._lookups.environment, "bounds": self._lookups.bounds}
        self._decide_by_answers(turn, given)
        decision = super().decide(turn)
        with self._lookups.payload_store.backend.reading() as view:
            memo = TurnMemo()
            memo.readings = (now, None)
            whole = StoreReader(self._lookups, view, row, memo)
            whole.prefetch(everything=True, inbox=True)
            rows = whole.everything()
            whole.prefetch(payloads=[payload for task in rows for payload in (task.input, task.output)])
        whole.leave()
        again = decide(turn.plan, whole, turn.events, now, **given)
        extended = {task.grafts: whole.plan(row.definition_hash, task.grafts) for task in (*rows, *decision.inserted)}
        assert attrs.asdict(decision, recurse=False) == attrs.asdict(again, recurse=False)
        early = [event.event_id for event in turn.events if event.stored and event.due_at > now]
        assert not early, f"fires early: {early}"
        self._record({**extended, (): turn.plan}, rows, decision, turn.events)
        return decision

    def _decide_by_answers(self, turn: Turn, given: dict[str, Any]) -> None:
        """Find the decision equal to the one on nothing but the answers it was given; what goes wrong in it is told by the next."""
        recording = RecordingReader(turn.reader)
        try:
            first = decide(turn.plan, recording, turn.events, turn.now, **given)
        except Exception:
            return
        again = decide(turn.plan, recording.replay(), turn.events, turn.now, **given)
        assert attrs.asdict(first, recurse=False) == attrs.asdict(again, recurse=False)

    def _record(self, plans: Any, rows: Any, decision: Decision, events: Sequence[Event]) -> None:
        tasks = [task for task in (*rows, *decision.inserted) if task is not None]
        known = [task for task in tasks if task.base_ref in plans[task.grafts].nodes]
        kinds = {plans[task.grafts].nodes[task.base_ref].task.type for task in known}
        kinds |= {"DYNAMIC" for task in known if plans[()].nodes.get(task.base_ref) and task.grafts}
        for event in events:
            if event.event_id in decision.replies:
                name = str(event.kind)
                if name == "REPORT":
                    name = str(event.data.value.get("status")) if not event.data.absent else name
                for kind in kinds:
                    self.matrix[(str(kind), name)] += 1


def journal(engine: Engine, workflow_id: str, *, turns: bool = True) -> bytes:
    """The journal of an execution as canonical bytes; without `turns`, not which events were read in one turn."""
    lines = [
        {
            **attrs.asdict(line, recurse=False),
            "payload": None if line.payload is None else line.payload.text,
            "cause": line.cause if turns or line.cause is None else {**parse(line.cause), "same": None},
        }
        for line in engine.history(workflow_id)
    ]
    return canonical(lines).encode()


def _twin(path: Path) -> SQLiteBackend:
    return SQLiteBackend(lay_empty_store(path), synchronous="NORMAL")


def of_variant(number: int) -> dict[str, Any]:
    """The bounds, the semantics and the relay of one of six kinds of twins."""
    return {
        "bounds": Bounds(rows=3) if number in (1, 4) else Bounds(steps=5) if number == 5 else Bounds(),
        "semantics": Semantics.OSS if number in (2, 4) else Semantics.ORKES,
        "relay": number == 3,
    }


class Twins:
    """The same definition, input and operations on memory and on SQLite."""

    #: Rounds of work after which an execution must have ended.
    PATIENCE = 400

    def __init__(
        self,
        folder: Path,
        definition: dict[str, Any],
        value: dict[str, Any],
        *,
        bounds: Bounds,
        semantics: Semantics,
        relay: bool,
        matrix: Matrix,
    ) -> None:
        # Events that parent and child write each other within one millisecond may meet in either order: where they are
        # relayed, the twin relays them too.
        families = relay and any(word in canonical(definition) for word in _BEGETTING)
        twin = MemoryBackend(relay=True) if families else _twin(folder / "twin.db")
        self.engines = [
            self._engine(MemoryBackend(relay=relay), bounds, semantics, matrix),
            self._engine(twin, bounds, semantics, matrix),
        ]
        self.relay = relay
        self.polled: list[list[Task]] = [[] for _ in self.engines]
        self.workflow_id = "w"
        parsed = WorkflowDef.from_json(definition)
        for engine in self.engines:
            engine.register(WorkflowDef.from_json(MOURN), parsed)
            engine.start(parsed, value, workflow_id=self.workflow_id)
        self.compare()

    @staticmethod
    def _engine(store: Backend, bounds: Bounds, semantics: Semantics, matrix: Matrix) -> Engine:
        engine = Engine(store, clock=LooseClock(), config=EngineConfig(bounds=bounds, semantics=semantics, seed="twin"))
        checked = engine.core.turns.decider
        checked.__class__ = Checked
        assert isinstance(checked, Checked)
        checked.matrix = matrix
        return engine

    def close(self) -> None:
        """Release both stores."""
        for engine in self.engines:
            engine.close()

    # ------------------------------------------------------------------ operations

    def do(self, operation: str, a: int, b: int) -> None:
        """Do one thing to both, and compare."""
        self.act(operation, a, b)
        self.compare()

    def act(self, operation: str, a: int, b: int) -> object:
        """Do one thing to both, which must answer the same."""
        results = [getattr(self, f"_{operation}")(index, engine, a, b) for index, engine in enumerate(self.engines)]
        assert results[0] == results[1], f"{operation}: memory {results[0]}, SQLite {results[1]}"
        return results[0]

    def compare(self) -> None:
        """Same journal, same rows, no broken law."""
        self.keep_the_laws()
        self.be_equal()

    def keep_the_laws(self) -> None:
        """With all done that is ready, no law is broken."""
        for engine in self.engines:
            engine.settle()
            findings = engine.admin.check()
            assert not findings, "\n".join(map(str, findings))

    def be_equal(self) -> None:
        """Same executions, same journals, same rows."""
        memory, sqlite = (self.ids(engine) for engine in self.engines)
        assert memory == sqlite
        for one in memory:
            # Where events between executions are relayed, two may come in one turn that else come in two.
            journals = [journal(engine, one, turns=not self.relay) for engine in self.engines]
            assert journals[0] == journals[1]
            rows = [[_comparable(task) for task in engine.get(one).tasks] for engine in self.engines]
            assert rows[0] == rows[1]

    def ids(self, engine: Engine) -> list[str]:
        """The execution, those it started, and those that mourn them; itself first."""
        return [self.workflow_id, *(one for one in engine.admin.workflow_ids() if one != self.workflow_id)]

    def _offered(self, engine: Engine) -> list[str]:
        with engine.backend.reading() as view:
            messages = [message for message in view.queue.messages(1000) if message.due_at <= engine.clock.now()]
            lines = [view.limits.line(limit.key, 1) for limit in view.limits.page("", 1000)]
        passed_over = {member.lane for line in lines for member in line.heads if member.lane in line.limit.unpolled}
        return sorted({message.queue for message in messages} | passed_over)

    def _poll(self, index: int, engine: Engine, a: int, b: int) -> object:
        queues = self._offered(engine)
        if not queues:
            return None
        tasks = engine.poll(queues[a % len(queues)], worker_id="w", count=1 + b % 2)
        self.polled[index] += tasks
        return [(task.ref, task.attempt, task.input_data) for task in tasks]

    def _work(self, index: int, engine: Engine, a: int, b: int) -> object:
        polled = self._poll(index, engine, a, 0)
        if not polled:
            return None
        return polled, self._send(engine, self.polled[index][-1], (0, 0, 0, 1, 2, 0)[b % 6], b)

    def _report(self, index: int, engine: Engine, a: int, b: int) -> object:
        """On what is held, if anything is: who waits for a slot again may wait for one that is."""
        latest = {task.task_id: task for task in self.polled[index]}
        running = [task for task in latest.values() if self._open(engine, task)]
        running = [task for task in running if engine.tasks.get(task.task_id).lease == task.lease] or running
        return self._send(engine, running[a % len(running)], b, b) if running else None

    def _again(self, index: int, engine: Engine, a: int, b: int) -> object:
        """Report on any task ever polled: an ended one, or one polled again since, must not move."""
        tasks = self.polled[index]
        if not tasks:
            return None
        task = tasks[a % len(tasks)]
        try:
            now = engine.tasks.get(task.task_id)
        except TaskNotFound:
            return "dropped"
        before = journal(engine, task.workflow_id)
        answer = self._send(engine, task, b, b)
        if now.status.terminal or (now.lease != task.lease and b != 8):
            assert journal(engine, task.workflow_id) == before, f"a late or stale report changed {now.ref}"
            assert now.status.terminal or answer == "stale"
        return answer

    def _open(self, engine: Engine, task: Task) -> bool:
        try:
            return not engine.tasks.get(task.task_id).status.terminal
        except TaskNotFound:  # its loop keeps the round no longer
            return False

    def _send(self, engine: Engine, task: Task, outcome: int, b: int) -> object:
        status, output, callback = (
            (TaskStatus.COMPLETED, {"x": outcome}, 0),
            (TaskStatus.FAILED, {}, 0),
            (TaskStatus.COMPLETED, {"x": {"deep": [1, LARGE]}}, 0),
            (TaskStatus.FAILED_WITH_TERMINAL_ERROR, {}, 0),
            (TaskStatus.IN_PROGRESS, {"half": True}, 0),
            (TaskStatus.IN_PROGRESS, {}, 3000),
            (TaskStatus.CANCELED, {}, 0),
            (TaskStatus.FAILED, {"x": 1}, 0),
            (TaskStatus.COMPLETED, {}, 0),
        )[outcome % 9]
        result = TaskResult(
            workflow_id=task.workflow_id,
            task_id=task.task_id,
            status=status,
            output_data=output,
            reason=None if status is TaskStatus.COMPLETED else f"because {b}",
            callback_after_ms=callback,
            lease=None if b == 8 else task.lease,
        )
        try:
            return str(engine.update_task(result).status)
        except StaleLease:
            return "stale"
        except Conflict:
            return "conflict"

    def _extend(self, index: int, engine: Engine, a: int, b: int) -> object:
        """Mostly of a task that is held, sometimes of any that ever was; as often its worker's process has ended instead."""
        tasks = self.polled[index]
        held = [task for task in tasks if self._open(engine, task)]
        tasks = held if held and b != 8 else tasks
        if not tasks:
            return None
        task = tasks[a % len(tasks)]
        try:
            if b in (4, 5, 6, 7):
                event = give_back_event(task, "died" if b == 7 else "stopped", engine.clock.now())
                taken = engine.core.turns.run_turn(task.workflow_id, [event])
                return [str(reply.outcome) for reply in taken.replies.values()]
            return engine.tasks.extend_lease(task)
        except StaleLease:
            return "stale"
        except (TaskNotFound, ExecutionNotFound):
            return "removed"

    def _lose(self, index: int, engine: Engine, a: int, b: int) -> object:
        """A worker takes a task and is never heard of again."""
        polled = self._poll(index, engine, a, 0)
        engine.advance("7.5s" if polled else "300ms")
        return polled

    def _signal(self, index: int, engine: Engine, a: int, b: int) -> object:
        tasks = [task for one in self.ids(engine) for task in engine.get(one).tasks]
        waits = [task for task in tasks if task.task_type in ("WAIT", "HUMAN") and not task.status.terminal]
        # One that has not begun is refused.
        waits = [task for task in waits if task.status is not TaskStatus.PENDING] or waits
        return self._send(engine, attrs.evolve(waits[a % len(waits)], lease=0), b, 8) if waits else None

    def _next(self, index: int, engine: Engine, a: int, b: int) -> object:
        at = engine.admin.next_wakeup()
        if at is not None:
            engine.advance(to=max(at, engine.clock.now()))
        return at

    def _sleep(self, index: int, engine: Engine, a: int, b: int) -> object:
        engine.advance(f"{(1, 999, 2000, 5000, 9000, 20_000, 45_000)[a % 7]}ms")
        return engine.clock.now()

    def _set_back(self, index: int, engine: Engine, a: int, b: int) -> object:
        clock = engine.clock
        assert isinstance(clock, LooseClock)
        clock.set_back((1, 500, 4000, 30_000)[a % 4])
        return clock.now()

    def _verb(self, engine: Engine, call: Any, a: int) -> str:
        ids = self.ids(engine)
        try:
            call(ids[0 if a < 4 else a % len(ids)])
        except (Conflict, TaskNotFound, DefinitionNotFound) as refused:
            return str(refused)
        return "done"

    def _pause(self, index: int, engine: Engine, a: int, b: int) -> object:
        return self._verb(engine, engine.pause, a)

    def _resume(self, index: int, engine: Engine, a: int, b: int) -> object:
        return self._verb(engine, engine.resume, a)

    def _retry(self, index: int, engine: Engine, a: int, b: int) -> object:
        return self._verb(engine, engine.retry, a)

    def _resume_children(self, index: int, engine: Engine, a: int, b: int) -> object:
        return self._verb(engine, partial(engine.retry, resume_subworkflow_tasks=True), a)

    def _restart(self, index: int, engine: Engine, a: int, b: int) -> object:
        return self._verb(engine, partial(engine.restart, use_latest_definitions=b > 7), a) if b > 4 else None

    def _rerun(self, index: int, engine: Engine, a: int, b: int) -> object:
        """From the start, or from any task of any execution, with an input of its own or not."""
        if b == 8:
            return self._verb(engine, partial(engine.rerun, input={"n": a, "items": [1]}), a)
        tasks = [task for one in self.ids(engine) for task in engine.get(one).tasks]
        if not tasks:
            return None
        task = tasks[(a * 31 + b * 7) % len(tasks)]
        given = {"n": 1, "given": True} if b % 3 == 0 else None
        start = partial(engine.rerun, from_task=task.ref, task_input=given)
        return task.ref, self._verb(engine, lambda _: start(task.workflow_id), 0)

    def _skip(self, index: int, engine: Engine, a: int, b: int) -> object:
        ids = self.ids(engine)
        if not ids:
            return None
        one = ids[a % len(ids)]
        nodes = list(_nodes_of(engine, one))
        ref, loops = nodes[(a * 5 + b) % len(nodes)]
        printed = ref + "__1" * loops
        return printed, self._verb(engine, lambda _: engine.skip_task(one, printed, output={"x": "skipped"}), 0)

    def _variables(self, index: int, engine: Engine, a: int, b: int) -> object:
        return self._verb(engine, lambda one: engine.update_variables(one, {f"x{b % 2}": a}), a)

    def _terminate(self, index: int, engine: Engine, a: int, b: int) -> object:
        return self._verb(engine, engine.terminate, a) if b > 5 else None

    # ------------------------------------------------------------------ the end

    def finish(self) -> None:
        """Complete whatever is asked for; an execution that cannot end has lost something."""
        for engine in self.engines:
            for one in self.ids(engine):
                if engine.status(one) is WorkflowStatus.PAUSED:
                    engine.resume(one)
                    # What a parent writes to its children on being resumed comes before they are, relayed or not.
                    engine.settle()
        self.compare()
        for _ in range(self.PATIENCE):
            if all(self.engines[0].status(one).terminal for one in self.ids(self.engines[0])):
                return
            before = self._journals()
            for operation in ("work", "report", "signal"):
                self.do(operation, 0, 0)
            if self._journals() == before:
                self.do("next", 0, 0)
                idle = self.engines[0].admin.next_wakeup() is None and not self._offered(self.engines[0])
                if idle and self._journals() == before:
                    break
        for one in self.ids(self.engines[0]):
            rows = [(t.ref, t.attempt, str(t.status)) for t in self.engines[0].get(one).tasks]
            assert self.engines[0].status(one).terminal, f"{one} cannot end: {rows}"

    def _journals(self) -> list[bytes]:
        return [journal(self.engines[0], one) for one in self.ids(self.engines[0])]


def _nodes_of(engine: Engine, workflow_id: str) -> Iterator[tuple[str, int]]:
    """References of a definition, each with the number of loops around it."""
    definition = engine.get(workflow_id).definition
    assert definition is not None
    for place in walk(definition):
        yield place.task.task_reference_name, len(place.loops)


def _comparable(task: Task) -> dict[str, Any]:
    return {field.name: getattr(task, field.name) for field in attrs.fields(Task)}
