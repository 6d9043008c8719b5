"""The engine in which a search tries what may happen: real turns on a store in memory, step by step, and back again.

A step is one action: a worker picks a task up (and what will become of it is settled), a report arrives, a signal or a verb is
given, or time passes to the next thing that is due. The actions that are possible at a moment are listed in an order that is the
ordinary course: work is picked up at once, reports arrive in their order, signals come when they are waited for, and only then time
passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Final

import attrs

from conductorlite.decide.changeset.reader import Bounds
from conductorlite.engine.config import EngineConfig
from conductorlite.ext.sinks import event_worker
from conductorlite.model.canonical import parse
from conductorlite.model.decisions import Decision, Event, EventKind, Message
from conductorlite.model.definitions import TaskType
from conductorlite.model.errors import ConductorliteError, Conflict, InvalidInput, LimitReached, NotFound, StaleLease
from conductorlite.model.executions import HistoryEvent, Task, TaskResult
from conductorlite.model.scalars import encoded
from conductorlite.model.statuses import TaskStatus
from conductorlite.runtime.engine import Engine
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.memory.rows import Store
from conductorlite.testing.exploration.cases import BEGIN, END, ROOT, Action, Call, Case, Endless, Situation
from conductorlite.testing.exploration.content import Contents, copied
from conductorlite.testing.exploration.invariants import Act, RunState
from conductorlite.testing.exploration.outcomes import Outcome, verb_parts
from conductorlite.testing.exploration.outside import Outside, execution_id
from conductorlite.testing.exploration.reads import Read, Reader
from conductorlite.testing.exploration.rounds import begun
from conductorlite.testing.steps import SettableClock

__all__ = ["Sandbox", "Snapshot"]

#: Commits that one action may lead to.
_COMMITS: Final = 200

_REFUSED: Final = (NotFound, Conflict, StaleLease, LimitReached)


#: The rows of the store and the situation, to return to.
Snapshot = tuple[Store, Situation]


class Sandbox:
    """An engine on a store in memory that can be set back; `history` is what the last action has added to the journals."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._now = Situation()
        #: Whether any task that is offered may be picked up next, or only the one that is offered first; whether others were there.
        self.orders = case.orders
        self.passed_over = False
        #: Whether something would have happened after the end of the search.
        self.cut = False
        #: What definitions, rules and outputs read.
        self.reader = Reader()
        self._contents = Contents(self.reader)
        self.clock = SettableClock(BEGIN)
        self._backend = MemoryBackend()
        self._outside = Outside(case, self._backend._store)
        self._commits = 0
        self._bounded()
        config = EngineConfig(seed="explore", give_back=False, bounds=Bounds(steps=200), ids=self._new_id, resident_bytes=0)
        self.engine = Engine(self._backend, clock=self.clock, config=config)
        self.history: list[tuple[str, Sequence[HistoryEvent]]] = []
        # Nobody waits for a commit, and nothing is logged: thousands of runs fail here on purpose.
        self.engine.core.turns.announce = self._announce  # type: ignore[method-assign]
        if case.definitions:
            self.engine.register(*case.definitions)
        if case.setup is not None:
            case.setup(self.engine)

    def _new_id(self) -> str:
        self._now = attrs.evolve(self._now, named=self._now.named + 1)
        return f"other-{self._now.named}"

    def _bounded(self) -> None:
        real = self._backend.writing

        def writing() -> Any:
            self._commits += 1
            if self._commits > _COMMITS:
                raise Endless(f"more than {_COMMITS} turns follow from it")
            return real()

        self._backend.writing = writing  # type: ignore[method-assign]

    def _announce(self, decision: Decision) -> None:
        owner = decision.workflow.workflow_id
        self.history.append((owner, decision.history))
        causes = [parse(line.cause) for line in decision.history if line.cause is not None and EventKind.STARTED in line.cause]
        begun = [(owner, cause["from"]) for cause in causes if cause.get("kind") == EventKind.STARTED]
        if begun:
            self._now = attrs.evolve(self._now, begun=self._now.begun.union(begun))

    def close(self) -> None:
        """Release the store."""
        self._commits = 0
        self.engine.close()

    @property
    def acts(self) -> tuple[Act, ...]:
        """Effects so far."""
        return self._now.acts

    @property
    def elapsed(self) -> int:
        """Virtual time since the start, ms."""
        return self._now.now - BEGIN

    @property
    def picked(self) -> int:
        """Calls of workers so far."""
        return self._now.picked

    @property
    def rounds(self) -> list[str]:
        """What has begun another round with the last action; see `rounds.begun`."""
        rows = self._backend._store.workflows
        return begun(self.history, lambda owner: rows[owner].name)

    # ------------------------------------------------------------------ there and back

    def snapshot(self) -> Snapshot:
        """Everything as it is now."""
        return copied(self._backend._store), self._now

    def restore(self, snapshot: Snapshot) -> None:
        """Set everything back."""
        store, self._now = snapshot
        store = copied(store)
        # Definitions are known by their hashes: the engine does not write again what it has stored once.
        store.metadata.definitions |= self._backend._store.metadata.definitions
        self._backend._store.become(store)
        self._backend._commits += 1  # what the engine knew of its last write holds no more
        self.clock.set(self._now.now)
        self.history.clear()

    def key(self) -> tuple[object, ...]:
        """Return what the future hangs on, and what rules read: equal for two moments that go on alike."""
        store, now = self._backend._store, self._now
        self.reader.scan(store)
        ordered = Read.ORDER in self.reader.found
        acts = now.acts if ordered else tuple(sorted(now.acts))
        calls = sorted((self._call_key(call) for call in now.calls), key=lambda one: (*map(str, one[:4]), one[4].name))
        used = (acts, now.keys, tuple(calls), frozenset(now.always), now.signaled, frozenset(now.used), now.started)
        return (used, now.begun, now.named, *self._contents.key(store, now.now))

    def _call_key(self, call: Call) -> tuple[str, int, bool, int | None, Outcome, str]:
        outcome, holds = call.outcome, self._holds(call)
        at = None if call.at is None else call.at - self._now.now
        return call.task.task_id, call.task.generation, holds, at, outcome, encoded(dict(outcome.output))

    def _task_of(self, task: Task) -> Task | None:
        execution = self._backend._store.executions.get(task.workflow_id)
        return None if execution is None else execution.attempts.get((task.ref, task.attempt))

    # ------------------------------------------------------------------ what may happen

    def choices(self) -> list[Action]:
        """Return what may happen now, the ordinary course first; `END` when nothing is left in it."""
        starts, found = self._starts(), self._picks() + self._reports()
        signals, verbs = self._outside.signals(self._now), self._outside.verbs(self._now, busy=bool(found))
        # Work that is there is done before time passes, unless it was said that it may not be.
        comes = self._outside.messages(self._now)
        usual = [*starts, *found, *signals[0], *verbs[0], *(() if found else [*comes, *self._passing()])]
        return [*(usual or [END]), *signals[1], *verbs[1], *(comes if found else ())]

    def _starts(self) -> list[Action]:
        number = self._now.started + 1
        return [Action(kind="start", label=f"start of {execution_id(number)}")] if number <= self.case.executions else []

    def _picks(self) -> list[Action]:
        """The task that is offered first, with all that may become of it; the others, where the order is distinguished."""
        with self._backend.reading() as view:
            heads = [view.queue.offered(queue, self._now.now, 1) for queue in sorted(view.queue.queue_sizes())]
        offered = sorted((head[0] for head in heads if head), key=self._place)
        self.passed_over = self.passed_over or (len(offered) > 1 and not self.orders)
        return [
            Action(
                kind="time" if outcome.unpolled else "pick",
                label=f"{self._called(message)} {outcome.name}",
                message=message,
                outcome=outcome,
                number=self._next()[0] or self._now.now,
            )
            for message in (offered if self.orders else offered[:1])
            for outcome in self._ways(message)
        ]

    def _place(self, message: Message) -> tuple[int, str, int]:
        task = self._task(message)
        return message.due_at, message.workflow_id, 0 if task is None else task.seq

    def _task(self, message: Message) -> Task | None:
        execution = self._backend._store.executions.get(message.workflow_id)
        return None if execution is None else execution.attempts.get((message.ref, message.attempt))

    def _called(self, message: Message) -> str:
        return f"{self._outside.of(message.workflow_id)}{message.ref}#{message.attempt + 1}{_again(message.generation)}"

    def _ways(self, message: Message) -> Sequence[Outcome]:
        """Return what may become of it."""
        task = self._task(message)
        base = message.ref if task is None else task.base_ref
        for owner, ref, outcome in self._now.always:
            if (owner, ref) == (message.workflow_id, message.ref):
                return [outcome]
        kind = message.queue.rpartition(":")[2]
        found = self.case.may.get(base) or self.case.may.get(kind) or self.case.others
        if any(one.answers is not None for one in found):
            run = RunState(self.engine, message.workflow_id, self.acts, self.reader)
            found = tuple(one.answering(run) for one in found)
        return found

    def _reports(self) -> list[Action]:
        due = sorted(
            (call for call in self._now.calls if call.at is not None and call.at <= self._now.now), key=lambda one: one.number
        )
        return [
            Action(
                kind="report",
                label=f"{self._outside.of(call.task.workflow_id)}{call.task.ref}#{call.task.attempt + 1} reports",
                number=call.number,
            )
            for call in due
        ]

    def _passing(self) -> list[Action]:
        at, what = self._next()
        return [] if at is None else [Action(kind="time", label=f"time passes to {what}", number=at)]

    def _next(self) -> tuple[int | None, str]:
        """Return when something happens by itself, and what; nothing past the end of the search."""
        alive = {(task.workflow_id, task.ref) for task in self._alive()}
        events = [one for one in self._upcoming() if (one.workflow_id, one.ref) not in alive or one.kind != "RESPONSE_TIMEOUT"]
        found = [(one.due_at, f"{one.kind} of {self._outside.of(one.workflow_id)}{one.ref or 'the run'}") for one in events[:1]]
        with self._backend.reading() as view:
            later = [one for one in view.queue.messages(1_000) if one.due_at > self._now.now][:1]
        found += [(one.due_at, f"the offer of {self._called(one)}") for one in later]
        calls = [call for call in self._now.calls if call.at is not None and call.at > self._now.now]
        found += [
            (call.at or 0, f"the report of {self._outside.of(call.task.workflow_id)}{call.task.ref}#{call.task.attempt + 1}")
            for call in calls
        ]
        at, what = min(found, default=(None, ""))
        over = at is not None and self.case.until_ms is not None and at > BEGIN + self.case.until_ms
        self.cut = self.cut or over
        return (None, "") if over else (at, what)

    def _upcoming(self) -> Sequence[Event]:
        with self._backend.reading() as view:
            return view.inbox.upcoming_events(50 + len(self._now.calls))

    # ------------------------------------------------------------------ having it happen

    def do(self, action: Action) -> None:
        """Have it happen, and everything that follows from it at this instant. Raises Endless when that has no end."""
        self._commits = 0
        self.history.clear()
        getattr(self, "_do_" + action.kind.replace(" ", "_"))(action)
        while self.engine.tick():
            pass

    def _do_start(self, action: Action) -> None:
        number = self._now.started + 1
        self._now = attrs.evolve(self._now, started=number)
        self.case.start(self.engine, execution_id(number))

    def _do_pick(self, action: Action) -> None:
        message, outcome = action.message, action.outcome
        if message is None or outcome is None:
            raise InvalidInput("a pick has a message and an outcome")
        _, _, queue = message.queue.rpartition("/")
        domain, _, kind = queue.rpartition(":")
        tasks = self.engine.poll(kind, worker_id="worker", domain=domain or None)
        for task in tasks:
            self._begin(task, outcome)
            if task.task_type == TaskType.EVENT and outcome.acts:
                self._publish(task)

    def _publish(self, task: Task) -> None:
        """Publish what an EVENT task sends to the engine's own handlers; every other sink is the world outside."""
        context: Any = SimpleNamespace(
            workflow=self.engine.get(task.workflow_id),
            input=task.input_data,
            ref=task.ref,
            workflow_id=task.workflow_id,
            task_id=task.task_id,
            first_task_id=f"{task.workflow_id}:{task.ref}",
            publish=self.engine.events.publish,
        )
        with suppress(ConductorliteError):
            event_worker({})(context)

    def _begin(self, task: Task, outcome: Outcome) -> None:
        now, key = self._now, (task.workflow_id, task.ref)
        once = task.base_ref in self.case.idempotent or task.task_type in self.case.idempotent
        acts, keys = now.acts, now.keys
        if outcome.acts and not (once and key in keys):
            acts = (*acts, (task.workflow_id, task.base_ref, task.task_type))
            keys = keys | {key} if once else keys
        calls = now.calls
        if outcome.status is not None or outcome.alive:
            late = max(task.response_timeout_at or 0, now.now) + 1 if outcome.late else 0
            at = None if outcome.status is None else late or now.now + outcome.takes_ms
            calls = (*calls, Call(task=task, outcome=outcome, at=at, number=now.picked))
        always = now.always
        if outcome.always and not any(one[:2] == key for one in always):
            always = (*always, (*key, outcome))
        self._now = attrs.evolve(now, acts=acts, keys=keys, calls=calls, always=always, picked=now.picked + 1)

    def _do_report(self, action: Action) -> None:
        (call,) = (one for one in self._now.calls if one.number == action.number)
        self._now = attrs.evolve(self._now, calls=tuple(one for one in self._now.calls if one is not call))
        task, outcome = call.task, call.outcome
        result = TaskResult(
            workflow_id=task.workflow_id,
            task_id=task.task_id,
            status=outcome.status or TaskStatus.COMPLETED,
            output_data=outcome.output,
            reason=None if outcome.status is TaskStatus.COMPLETED else outcome.name,
            lease=task.lease,
        )
        for _ in range(outcome.reports):
            with suppress(*_REFUSED):
                self.engine.update_task(result)

    def _do_signal(self, action: Action) -> None:
        owner, output = action.value
        self._count_signal(owner, action.name, 1)
        with suppress(*_REFUSED):
            self.engine.signal(owner, output, task=action.name)

    def _do_no_signal(self, action: Action) -> None:
        self._count_signal(action.value[0], action.name, 1_000_000)

    def _count_signal(self, owner: str, ref: str, number: int) -> None:
        sent = dict(self._now.signaled)
        sent[owner, ref] = sent.get((owner, ref), 0) + number
        self._now = attrs.evolve(self._now, signaled=tuple(sorted(sent.items())))

    def _do_message(self, action: Action) -> None:
        self._now = attrs.evolve(self._now, used=(*self._now.used, action.name))
        event, payload = action.value
        self.engine.events.publish(event, payload, message_id=action.name)

    def _do_send(self, action: Action) -> None:
        self._now = attrs.evolve(self._now, used=(*self._now.used, action.name))
        owner, topic, value = action.value
        with suppress(*_REFUSED):
            self.engine.send(owner, topic, value, key=action.name)

    def _do_migrate(self, action: Action) -> None:
        self._now = attrs.evolve(self._now, used=(*self._now.used, action.name))
        with suppress(*_REFUSED):
            self.engine.definitions.migrate(ROOT, action.value)

    def _do_register(self, action: Action) -> None:
        self._now = attrs.evolve(self._now, used=(*self._now.used, action.name))
        self.engine.register(action.value)

    def _do_verb(self, action: Action) -> None:
        self._now = attrs.evolve(self._now, used=(*self._now.used, action.name))
        name, ref = verb_parts(action.name)
        with suppress(*_REFUSED):
            if name == "rerun from":
                self.engine.rerun(ROOT, from_task=ref)
            elif name == "fork from":
                self.engine.fork(ROOT, at=ref)
            elif name == "skip":
                self.engine.skip_task(ROOT, ref)
            elif name == "set_value":
                self.engine.streams.set_value(ROOT, ref, action.name)
            elif name == "emit from":
                for task in [call.task for call in self._now.calls if call.task.ref == ref]:
                    self.engine.streams.emit(task, action.name)
            else:
                getattr(self.engine, name)(action.value)

    def _do_time(self, action: Action) -> None:
        while alive := {(task.workflow_id, task.ref): task for task in self._alive()}:
            due = [
                one.due_at
                for one in self._upcoming()
                if one.kind == EventKind.RESPONSE_TIMEOUT and one.due_at <= action.number and (one.workflow_id, one.ref) in alive
            ]
            if not due:
                break
            self._commits = 0
            self._move(max(self._now.now, min(due) - 1))
            for task in alive.values():
                with suppress(*_REFUSED):
                    self.engine.tasks.extend_lease(task)
        self._move(action.number)

    def _alive(self) -> list[Task]:
        """Tasks that are with a worker that gives signs of life, and is heard: under the lease that the attempt is held by."""
        return [call.task for call in self._now.calls if call.outcome.alive and self._holds(call)]

    def _holds(self, call: Call) -> bool:
        task = self._task_of(call.task)
        return (
            task is not None
            and not task.status.terminal
            and (task.lease, task.generation) == (call.task.lease, call.task.generation)
        )

    def _move(self, at: int) -> None:
        self._now = attrs.evolve(self._now, now=at)
        self.clock.set(at)


def _again(generation: int) -> str:
    """Return what distinguishes a task from itself before a retry or a rerun."""
    return "" if not generation else " again" if generation == 1 else f" again ({generation})"
