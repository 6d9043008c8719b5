"""The world of a simulation: engines that come and go on one store, workers that hold tasks, clocks that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar

import attrs

from conductorlite.engine.config import EngineConfig
from conductorlite.model.clock import VirtualClock
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.definitions import IdempotencyStrategy, WorkflowDef
from conductorlite.model.errors import AlreadyExists, ConductorliteError, Conflict, LimitReached, NotFound, StaleLease, StorageBusy
from conductorlite.model.executions import HistoryKind, Task, TaskResult, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.runtime.engine import Engine
from conductorlite.store.locks import InProcessLock
from conductorlite.store.ports import ReadingTransaction
from conductorlite.testing.asked import Waiting, answer, answered_otherwise, has_written, overdue, passed_over
from conductorlite.testing.faults import Crash, FaultyBackend, Store
from conductorlite.testing.talk import Talk, stored_of, talks

__all__ = ["World", "undisturbed"]

T = TypeVar("T")

#: What may be refused at any time, with nothing changed.
_REFUSED: Final = (Conflict, NotFound, StaleLease, StorageBusy, LimitReached, AlreadyExists)

_LEASE_MS: Final = 5_000
_LEASE: Final = f"{_LEASE_MS}ms"

#: Rounds in which everything must come to its end once the faults have stopped.
_PATIENCE: Final = 600

_MANY: Final = 100_000

#: Executions that are started by name.
_EXECUTIONS: Final = 6

_VERBS: Final = ("pause", "resume", "terminate", "retry", "restart", "rerun", "resume", "retry")


#: What the ids of forks begin with.
_FORK: Final = "fork of "


def _copied(engine: Engine, workflow_id: str) -> Collection[tuple[str | None, int | None]]:
    """References and numbers of the attempts that were copied from another execution."""
    return {(line.ref, line.attempt) for line in engine.history(workflow_id) if line.kind is HistoryKind.COPIED}


class _Clock(VirtualClock):
    """The world's time as one engine's machine shows it."""

    def __init__(self, world: World) -> None:
        super().__init__(0)
        self._world = world
        self.skew = 0

    def now(self) -> int:
        """The world's time, wrong by the skew."""
        return max(0, self._world.now + self.skew)


@attrs.define(slots=True)
class _Machine:
    """One engine with its clock and its way to the store."""

    engine: Engine
    clock: _Clock
    backend: FaultyBackend
    waiting: Waiting


@attrs.frozen(slots=True)
class _Held:
    """A task that was given out, and the number of the report that will be made on it."""

    task: Task
    number: int


def undisturbed(what: int) -> int:
    """The first number of an action, without what goes wrong while it is carried out."""
    return what & 0xFF


class World:
    """Everything a schedule acts on. `log` has the actions in words, `counts` how often what happened."""

    def __init__(
        self,
        store: Store,
        workflows: Sequence[tuple[WorkflowDef, Mapping[str, Any]]],
        *,
        registered: Sequence[WorkflowDef],
        engines: int,
        locked: bool,
        local: bool,
        setup: Callable[[Any], object] | None,
    ) -> None:
        self.now = 1_900_000_000_000
        self.log: list[str] = []
        self.counts: Counter[str] = Counter()
        self._store = store
        self._workflows = workflows
        self._setup = setup
        self._lock = InProcessLock(lease=_LEASE) if locked else None
        self._local = local
        talking = talks([definition for definition, _ in workflows])
        self._talk = Talk() if talking else None
        self._actions = _ACTIONS + _LOCAL_ACTIONS * local + _TALKING_ACTIONS * talking
        self._inners: list[Any] = []
        #: What was seen that may not be, and is in no row.
        self._seen: list[str] = []
        self._machines = [self._machine(number) for number in range(engines)]
        self._held: list[_Held] = []
        #: Under which lease each attempt was given out last, and what was reported on what under which lease.
        self._leases: dict[str, int] = {}
        self._reports: dict[int, tuple[str, int]] = {}
        self._started: list[tuple[WorkflowDef, Mapping[str, Any]]] = []
        self._nested = False
        if registered:
            self._machines[0].engine.register(*registered)

    def _machine(self, number: int) -> _Machine:
        inner = self._store.inner()
        self._inners.append(inner)
        backend = FaultyBackend(inner, keep_open=True)
        clock = _Clock(self)
        engine = self._engine(number, backend, clock)
        self._watch(engine)
        return _Machine(engine=engine, clock=clock, backend=backend, waiting=Waiting(engine))

    def _engine(self, number: int, backend: FaultyBackend, clock: _Clock) -> Engine:
        own: dict[str, Any] = {"name": f"e{number + 1}", "allocation": "local"} if self._local else {}
        engine = Engine(backend, clock=clock, config=EngineConfig(seed="world", lock=self._lock, **own))
        if self._setup is not None:
            self._setup(engine)
        return engine

    def _watch(self, engine: Engine) -> None:
        """Note events that are read before they are due."""
        real = engine.core.turns.decider.due

        def due(view: ReadingTransaction, workflow: Workflow, now: int) -> Sequence[Event]:
            found = real(view, workflow, now)
            self._seen += [f"{event.event_id} is read {event.due_at - now} ms early" for event in found if event.due_at > now]
            return found

        engine.core.turns.decider.due = due  # type: ignore[method-assign]

    def close(self) -> None:
        """Release the store."""
        for inner in self._inners:
            inner.close()

    # ------------------------------------------------------------------ actions

    def act(self, numbers: Sequence[int]) -> None:
        """Carry out one action: what, by which engine, and two numbers to choose by."""
        what, who, a, b = numbers
        machine = self._machines[who % len(self._machines)]
        fault = (what >> 8) % 8
        name = self._actions[undisturbed(what) % len(self._actions)]
        with self._disturbed(machine, fault, a, b):
            self._do(name, machine, a, b)

    def _do(self, name: str, machine: _Machine, a: int, b: int) -> None:
        where = f"engine {self._machines.index(machine) + 1}" if machine in self._machines else "engine"
        self.log.append(f"{'  meanwhile ' if self._nested else ''}{where}: {name} ({a % 97}, {b % 97})")
        self.counts[name] += 1
        try:
            getattr(self, f"_{name}")(machine, a, b)
        except _REFUSED as refused:
            self.counts[f"refused: {type(refused).__name__}"] += 1

    @contextmanager
    def _disturbed(self, machine: _Machine, fault: int, a: int, b: int) -> Iterator[None]:
        """One action, now and then with a death or a failure at one of its writes, or with another engine's before its commit."""
        number = self._machines.index(machine)
        if fault == 1:
            machine.backend.die_at(1 + b % 5, after=bool(a % 2))
        elif fault in (2, 3) and len(self._machines) > 1:
            other = self._machines[(number + 1 + a % (len(self._machines) - 1)) % len(self._machines)]
            machine.backend.on_writing = self._meanwhile(machine, other, a, b)
        elif fault == 4:
            machine.backend.fail_at(1 + b % 5, StorageBusy("the store could not be written"))
        try:
            yield
        except Crash:
            self.counts["crashed"] += 1
            self.log.append(f"engine {number + 1} has died and comes back")
            self._store.killed()
            skew = machine.clock.skew
            if not self._store.in_memory:
                # All machines continue with the files as they were at that instant.
                self._machines = [self._machine(one) for one in range(len(self._machines))]
            else:
                self._machines[number] = self._machine(number)
            self._machines[number].clock.skew = skew
        finally:
            machine.backend.live_on()
            machine.backend.on_writing = None

    def _meanwhile(self, machine: _Machine, other: _Machine, a: int, b: int) -> Callable[[], None]:
        """Return what is done once, between what an engine has read and what it writes."""

        def between() -> None:
            machine.backend.on_writing = None
            if self._lock is not None and b % 3 == 0:
                self.now += _LEASE_MS + 1  # the engine was stopped for longer than its lease
                self.counts["lease of the lock passed"] += 1
            self._nested = True
            try:
                self._do(self._actions[(a >> 4) % len(self._actions)], other, b, a)
            finally:
                self._nested = False
            self.counts["meanwhile"] += 1

        return between

    def _ask(self, machine: _Machine, verb: Callable[[Engine], T]) -> T:
        """Return what a verb of an engine returns or raises: where it has written nothing, what one says that has kept nothing."""
        inner, now = machine.backend.inner, machine.clock.now()
        began, disturbed, due = machine.backend.writes, self.counts["meanwhile"], overdue(inner, now)
        said = answer(machine.engine, verb)
        if disturbed == self.counts["meanwhile"] and has_written(machine.backend, began):
            self._seen += passed_over(due, overdue(inner, now)) if due else ()
        elif disturbed == self.counts["meanwhile"]:
            self.counts["nothing written"] += 1
            number = self._machines.index(machine)
            open_one = partial(self._engine, number, clock=machine.clock)
            if otherwise := answered_otherwise(said, verb, inner, open_one):
                self._seen.append(f"engine {number + 1} has written nothing and said {said}; one that has kept nothing {otherwise}")
        if isinstance(said, ConductorliteError):
            raise said
        return said

    def _start(self, machine: _Machine, a: int, b: int) -> None:
        """An execution of its own, and once there are six, one of those again: its key is taken, or it has not begun yet."""
        definition, given = self._workflows[a % len(self._workflows)]
        if len(self._started) < _EXECUTIONS:
            self._started.append((definition, given))
            number = len(self._started)
        else:
            number = 1 + b % _EXECUTIONS
            definition, given = self._started[number - 1]
        begin = partial(
            Engine.start,
            workflow_id=f"w{number}",
            priority=b % 3,
            idempotency_key=f"k{number}",
            idempotency_strategy=IdempotencyStrategy.RETURN_EXISTING,
        )
        self._ask(machine, lambda engine: begin(engine, definition, given))

    def _tick(self, machine: _Machine, a: int, b: int) -> None:
        before = self._fences_of_others(machine)
        disturbed = self.counts["meanwhile"]
        for _ in range(1 + a % 4):
            if not self._ask(machine, Engine.tick):
                break
        after = self._fences_of_others(machine)
        if disturbed == self.counts["meanwhile"] and before != after:
            self._seen.append(f"{machine.engine.config.name} took a turn on what is another's: {before} became {after}")

    def _fences_of_others(self, machine: _Machine) -> dict[str, int]:
        """The fences of executions that an engine with an allocation of its own leaves alone."""
        if not self._local:
            return {}
        with machine.engine.backend.reading() as view:
            rows = [view.executions.workflow(one) for one in view.executions.workflow_ids(None, "", _MANY)]
        return {row.workflow_id: row.fence for row in rows if row is not None and row.owner != machine.engine.config.owner}

    def _queues(self, engine: Engine) -> list[tuple[str | None, str]]:
        """Domains and types of tasks that are offered to any worker, or will be when one polls for them."""
        with engine.backend.reading() as view:
            unpolled = {lane for limit in view.limits.page("", 1_000) for lane in limit.unpolled}
            names = sorted({name.rpartition("/")[2] for name in {*view.queue.queue_sizes(), *unpolled}})
        return [(domain or None, kind) for domain, _, kind in (name.rpartition(":") for name in names)]

    def _poll(self, machine: _Machine, a: int, b: int) -> None:
        queues = self._queues(machine.engine)
        if queues:
            domain, kind = queues[a % len(queues)]
            poll = partial(Engine.poll, task_type=kind, worker_id=f"k{b % 3}", count=1 + b % 2, domain=domain)
            self._taken(machine, self._ask(machine, poll))

    def _taken(self, machine: _Machine, tasks: Sequence[Task]) -> None:
        for task in tasks:
            owner = machine.engine.get(task.workflow_id).owner
            if owner != machine.engine.config.owner:
                self._seen.append(f"{machine.engine.config.name} was offered {task.ref} of {task.workflow_id}, which is {owner}'s")
            if self._leases.get(task.task_id) == task.lease:
                self._seen.append(f"{task.ref} of {task.workflow_id} was given out twice under lease {task.lease}")
            self._leases[task.task_id] = task.lease
            self._held.append(_Held(task, 0))

    def _take_over(self, machine: _Machine, a: int, b: int) -> None:
        """One engine holds another one for dead, which it may be or not."""
        others = [one.engine.config.name for one in self._machines if one is not machine]
        if others:
            machine.engine.admin.take_over(others[a % len(others)])

    def _report(self, machine: _Machine, a: int, b: int) -> None:
        """On any task that was ever given out, however long ago, and as often as it comes."""
        if self._held:
            held = self._held[-1 - a % min(len(self._held), 8)]
            status, after = _OUTCOMES[b % len(_OUTCOMES)]
            self._say(machine, held.task, status, after)

    def _report_and_poll(self, machine: _Machine, a: int, b: int) -> None:
        """A worker that reports and is given what is next, of any type."""
        queues = self._queues(machine.engine)
        if self._held and queues:
            task = self._held[-1 - a % min(len(self._held), 4)].task
            domain, kind = queues[b % len(queues)]
            result = self._result(task, TaskStatus.COMPLETED)
            _, taken = self._ask(machine, lambda engine: engine.update_task(result, poll=kind, domain=domain))
            self._taken(machine, taken)

    def _reports_together(self, machine: _Machine, a: int, b: int) -> None:
        """On what several executions have given out last. What is acknowledged is stored, or waits in the inbox for its turn."""
        held = list({one.task.task_id: one.task for one in self._held[-1 - a % 6 :]}.values())
        results = [self._result(task, _OUTCOMES[(b + place) % 3][0]) for place, task in enumerate(held)]
        disturbed = self.counts["meanwhile"]
        answers = self._ask(machine, lambda engine: engine.update_tasks(results))
        if disturbed != self.counts["meanwhile"]:
            return
        with machine.backend.inner.reading() as view:
            for task, answer in zip(held, answers, strict=True):
                row = None if isinstance(answer, ConductorliteError) else view.executions.task_by_id(task.task_id)
                kept = any(event.kind is EventKind.REPORT for event in view.inbox.events(task.workflow_id))  # the lock is another's
                if row is not None and not (row.status.terminal or row.lease != task.lease or kept):
                    self._seen.append(f"a report on {row.ref} of {row.workflow_id} was acknowledged, and it is {row.status}")

    def _say(self, machine: _Machine, task: Task, status: TaskStatus, after: int = 0) -> None:
        result = self._result(task, status, after)
        self._ask(machine, lambda engine: engine.update_task(result))

    def _result(self, task: Task, status: TaskStatus, after: int = 0) -> TaskResult:
        number = len(self._reports) + 1
        self._reports[number] = (task.task_id, task.lease)
        return TaskResult(
            workflow_id=task.workflow_id,
            task_id=task.task_id,
            status=status,
            output_data={"said": number},
            callback_after_ms=after,
            lease=task.lease,
        )

    def _beat(self, machine: _Machine, a: int, b: int) -> None:
        if self._held:
            task = self._held[a % len(self._held)].task
            self._ask(machine, lambda engine: engine.tasks.extend_lease(task))

    def _verb(self, machine: _Machine, a: int, b: int) -> None:
        if one := self._any(machine, a):
            self._ask(machine, lambda engine: getattr(engine, _VERBS[b % len(_VERBS)])(one))

    def _rerun_from(self, machine: _Machine, a: int, b: int) -> None:
        if one := self._any(machine, a):
            refs = sorted({task.ref for task in machine.engine.get(one).tasks})
            if refs and b % 4:
                self._ask(machine, lambda engine: engine.rerun(one, from_task=refs[b % len(refs)]))
            elif refs:
                before, disturbed = stored_of(machine.engine, one), self.counts["meanwhile"]
                try:
                    self._ask(machine, lambda engine: engine.fork(one, at=refs[b // 4 % len(refs)], new_id=_FORK + one))
                finally:
                    if disturbed == self.counts["meanwhile"] and stored_of(machine.engine, one) != before:
                        self._seen.append(f"{one} is not what it was before it was forked")

    def _signal(self, machine: _Machine, a: int, b: int) -> None:
        """To what waits for a person or another program."""
        if one := self._any(machine, a):
            self._ask(machine, lambda engine: engine.signal(one))

    def _send(self, machine: _Machine, a: int, b: int) -> None:
        """A message, now and then one that was sent already."""
        if self._talk is not None and (one := self._any(machine, a)):
            self._ask(machine, self._talk.send(one, b))

    def _emit(self, machine: _Machine, a: int, b: int) -> None:
        """Values, for a task that was given out; who has lost it is refused."""
        if self._talk is not None and self._held:
            self._ask(machine, self._talk.emit(self._held[-1 - a % min(len(self._held), 4)].task, b))

    def _set_value(self, machine: _Machine, a: int, b: int) -> None:
        """The latest value of a name."""
        if self._talk is not None and (one := self._any(machine, a)):
            self._ask(machine, self._talk.set_value(one))

    def _skip(self, machine: _Machine, a: int, b: int) -> None:
        """A task that has not been scheduled, or has, and then that is refused."""
        if one := self._any(machine, a):
            with machine.engine.backend.reading() as view:
                row = view.executions.workflow(one)
                refs = [] if row is None else sorted(machine.engine.core.turns.lookups.plans.plan(view, row).nodes)
            if refs:
                self._ask(machine, lambda engine: engine.skip_task(one, refs[b % len(refs)]))

    def _any(self, machine: _Machine, a: int) -> str | None:
        """Some execution, a child or not; None before there is one."""
        ids = sorted(machine.engine.admin.workflow_ids())
        return ids[a % len(ids)] if ids else None

    def _wait(self, machine: _Machine, a: int, b: int) -> None:
        """Time passes: a little, or to the next thing that is due."""
        at = machine.engine.admin.next_wakeup()
        self.now += 1 + a % 900 if at is None or b % 2 else max(0, at - machine.clock.now()) + b % 7

    def _skew(self, machine: _Machine, a: int, b: int) -> None:
        machine.clock.skew = (a % 4_001) - 2_000

    # ------------------------------------------------------------------ laws

    def problem(self) -> str | None:
        """Return what is wrong with the store as it is, or None."""
        engine = self._machines[0].engine
        found = [*self._seen, *(str(finding) for finding in engine.admin.check())]
        with engine.backend.reading() as view:
            stored = [
                row for one in view.executions.workflow_ids(None, "", _MANY) if (row := view.executions.workflow(one)) is not None
            ]
        for number, machine in enumerate(self._machines):
            found += [f"engine {number + 1}: {wrong}" for wrong in machine.waiting.shown_otherwise(stored)]
        for workflow_id in engine.admin.workflow_ids():
            copied = _copied(engine, workflow_id) if workflow_id.startswith(_FORK) else ()
            row, reported = engine.get(workflow_id), list[tuple[str, int]]()
            for task in row.tasks:
                if (task.ref, task.attempt) in copied:
                    continue  # the execution that it was copied from took the report
                # What was never with a worker puts out what others have.
                said = task.output_data.get("said") if task.status is TaskStatus.COMPLETED and task.poll_count else None
                if isinstance(said, int) and said in self._reports:
                    reported.append(self._reports[said])
                    about, lease = self._reports[said]
                    if about != task.task_id or lease != self._leases.get(about):
                        found.append(f"{workflow_id}: {task.ref} took report {said}, which was made under an old lease")
            found += () if self._talk is None else self._talk.problems(engine, row, reported)
        return "\n".join(found) or None

    def heal(self) -> None:
        """Stop the faults, and have everything done that is to be done."""
        ahead = max(machine.clock.skew for machine in self._machines)
        for machine in self._machines:
            machine.clock.skew = ahead
        first = self._machines[0].engine
        for _ in range(_PATIENCE):
            for one in first.admin.workflow_ids():
                if first.status(one) is WorkflowStatus.PAUSED:
                    with suppress(Conflict):  # its timeout may have passed meanwhile
                        first.resume(one)
            # What is shared one engine does alone.
            moved = [self._work_off(machine) for machine in (self._machines if self._local else self._machines[:1])]
            if None in moved:
                return
            due = [at for at in (machine.engine.admin.next_wakeup() for machine in self._machines) if at is not None]
            if not any(moved) and not due and not self._signalled(first):
                return
            self.now += 0 if any(moved) or not due else max(1, min(due) - first.clock.now())

    def _signalled(self, engine: Engine) -> bool:
        """Have all that waits for a person or another program go on; whether anything did."""
        found = False
        for one in [one for one in engine.admin.workflow_ids() if not engine.status(one).terminal]:
            with suppress(*_REFUSED):
                engine.signal(one)
                found = True
        return found

    def _work_off(self, machine: _Machine) -> bool | None:
        """Do all that an engine has to do now, with every task completed; whether there was anything, None if it has no end."""
        moved = False
        for _ in range(_PATIENCE):
            if not machine.engine.tick():
                break
            moved = True
        else:
            return None
        for domain, kind in self._queues(machine.engine):
            tasks = machine.engine.poll(kind, count=50, domain=domain)
            self._taken(machine, tasks)
            for task in tasks:
                self._say(machine, task, TaskStatus.COMPLETED)
                moved = True
        return moved

    def unfinished(self) -> str | None:
        """Return what has not come to its end although nothing hinders it, or None."""
        engine = self._machines[0].engine
        with engine.backend.reading() as view:
            due = [event for event in view.inbox.upcoming_events(20) if event.due_at <= engine.clock.now()]
        if due:
            return f"{due[0].event_id} of {due[0].workflow_id} is due, and no turn takes it"
        open_ones = [one for one in engine.admin.workflow_ids() if not engine.status(one).terminal]
        if open_ones:
            return f"{open_ones[0]} cannot end: {engine.explain(open_ones[0])}"
        with engine.backend.reading() as view:
            held = [limit.key for limit in view.limits.page("", 1_000) if limit.in_use or limit.reserved]
            left = view.queue.queue_sizes()
        if held:
            return f"slots of {held} are held by nobody"
        return f"messages are left: {dict(left)}" if any(left.values()) else None


_ACTIONS: Final = (
    *("poll", "report", "tick", "start", "poll", "report", "wait", "report"),
    *("verb", "beat", "skew", "rerun_from", "tick", "wait", "reports_together", "poll"),
    *("signal", "skip", "verb", "report_and_poll", "tick", "start", "report", "poll"),
)

#: What is done besides where executions receive messages or emit values.
_TALKING_ACTIONS: Final = ("send", "emit", "set_value", "send", "emit", "report")

#: What is done besides where engines keep to themselves what they have started.
_LOCAL_ACTIONS: Final = ("take_over",)

_OUTCOMES: Final = (
    (TaskStatus.COMPLETED, 0),
    (TaskStatus.COMPLETED, 0),
    (TaskStatus.FAILED, 0),
    (TaskStatus.IN_PROGRESS, 300),
    (TaskStatus.COMPLETED, 0),
    (TaskStatus.FAILED_WITH_TERMINAL_ERROR, 0),
    (TaskStatus.IN_PROGRESS, 0),
)
