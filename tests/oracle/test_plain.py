"""The short way of a plain task decides as the general way does: whatever happens to drawn definitions is decided both ways."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
import pytest
import twins
from hypothesis import given
from tape import MOURN, TAPES, Tape, draw_definition, many
from test_oracle import Tally, live

import conductorlite.decide as decider
import conductorlite.decide.again as written_out
import conductorlite.decide.progress as progress
from conductorlite import (
    Bounds,
    ConductorliteError,
    Engine,
    EngineConfig,
    Run,
    TaskContext,
    TaskResult,
    TaskStatus,
    VirtualClock,
    Workers,
    WorkflowDef,
    WorkflowStatus,
)
from conductorlite.decide.changeset.rows import Changeset
from conductorlite.decide.operators import do_while, join
from conductorlite.decide.operators.document import joined_output, loop_output
from conductorlite.engine import decisions, turns
from conductorlite.engine.turn_types import TurnResult
from conductorlite.engine.turns import Turns
from conductorlite.errors import Conflict
from conductorlite.language.conditions import Condition
from conductorlite.model.attrs import changed
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Decision, Outgoing
from conductorlite.model.executions import Task
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.sqlite.backend import SQLiteBackend


def asked(changeset: Changeset, condition: Condition, values: Any, seed: str) -> Any:
    """What a condition answers in the general way."""
    return changeset.evaluated(seed, values, lambda: condition.evaluate(values, now=changeset.now, seed=seed))


def rounds(changeset: Changeset, loop: Task) -> Payload:
    """What the rounds of a loop have put out, checked and written as any other document is."""
    return changeset.payload(loop_output(changeset, loop))


def branches(changeset: Changeset, tasks: Any) -> Payload:
    """The same of what the tasks at the end of branches have put out."""
    return changeset.payload(joined_output(changeset, tasks))


class Ways:
    """Decides each turn in both ways, and counts what went the short one."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.decide, self.short, self.off = decider.decide, 0, False
        #: Raised here, they would be a broken invariant of that execution.
        self.differences: list[tuple[Any, Any]] = []
        #: How many of them each way that is written out has decided; a step that nothing follows counts as "last".
        self.taken: Counter[str] = Counter()
        read, scheduled = progress.read_plain, vars(progress)["scheduled"]
        answer, payload, joined = Changeset.answer, do_while.loop_payload, join.joined_payload

        def read_plain(changeset: Any, event: Any) -> int | None:
            steps = None if self.off else read(changeset, event)
            self.short += steps is not None
            return steps

        patch.setattr(decider, "read_plain", read_plain)
        for way in ("poll", "first", "step", "again", "next_round", "arrivals"):
            patch.setattr(written_out, way, self._counted(way, vars(written_out)[way]))
        patch.setattr(progress, "scheduled", lambda *given: not self.off and scheduled(*given))
        patch.setattr(progress, "passed", self._counted("passed", vars(progress)["passed"]))
        patch.setattr(Changeset, "answer", lambda *given: (asked if self.off else answer)(*given))
        patch.setattr(do_while, "loop_payload", lambda *given: (rounds if self.off else payload)(*given))
        patch.setattr(join, "joined_payload", lambda *given: (branches if self.off else joined)(*given))
        patch.setattr(Turns, "_take_step", lambda *_: None)  # it does not ask `decide`
        patch.setattr(decisions, "decide", self.both)
        patch.setattr(twins, "decide", self.both)

    def _counted(self, way: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """A way that is written out, taken only while ways are not switched off."""

        def decided(*given: Any) -> Any:
            found = None if self.off else real(*given)
            if found is not None and way != "poll":
                self.taken["last" if way == "step" and found.workflow.status.terminal else way] += 1
                self.short += 1
            return found

        return decided

    def both(self, *given: Any, **options: Any) -> Decision:
        """The decision, which is the same."""
        self.off = True
        general = self._outcome(*given, **options)
        self.off = False
        short = self._outcome(*given, **options)
        both = [(repr(one), None) if isinstance(one, Exception) else (one, [*one.replies]) for one in (short, general)]
        if both[0] != both[1]:
            self.differences.append((short, general))
        if isinstance(general, Exception):
            raise general
        return general

    def _outcome(self, *given: Any, **options: Any) -> Decision | ConductorliteError:
        try:
            decision: Decision = self.decide(*given, **options)
            return decision
        except ConductorliteError as error:
            return error

    def check(self) -> None:
        """Raise AssertionError if any decision was another one, or none went the short way."""
        assert self.short
        for short, general in self.differences:
            assert short == general


@pytest.mark.parametrize("lives", [2, pytest.param(20, marks=pytest.mark.slow), pytest.param(4_000, marks=pytest.mark.deep)])
def test_both_ways_decide_the_same(lives: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random lives with every kind of event, on both stores."""
    ways = Ways(monkeypatch)

    @many(lives)
    @given(TAPES)
    def case(choices: bytes) -> None:
        live(choices, Tally())

    case()
    ways.check()


@pytest.mark.parametrize("steps", range(3, 9))
def test_both_ways_cut_a_turn_at_the_same_step(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task with which a loop ends, and that a branch: however many steps a turn may take, what is left of it is the same."""
    ways = Ways(monkeypatch)
    rounds = {"name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "loopCondition": "$.l.iteration < 2"}
    loop = {**rounds, "loopOver": [{"name": name, "taskReferenceName": name, "type": "SIMPLE"} for name in ("a", "b")]}
    fork = {
        "name": "f",
        "taskReferenceName": "f",
        "type": "FORK_JOIN",
        "forkTasks": [[loop], [{**loop["loopOver"][0], "taskReferenceName": "c"}]],
    }
    join = {"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": ["l", "c"]}
    definition = WorkflowDef.from_json({"name": "cut", "tasks": [fork, join]})
    with Engine(clock=VirtualClock(), config=EngineConfig(bounds=Bounds(steps=steps))) as engine:
        run = engine.start(definition)
        while not run.status.terminal:
            engine.settle()
            for task in [task for name in ("a", "b") for task in engine.poll(name, count=9)]:
                engine.update_task(TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED))
        assert run.status is WorkflowStatus.COMPLETED
    ways.check()


@pytest.mark.parametrize("lives", [6, pytest.param(100, marks=pytest.mark.slow), pytest.param(8_000, marks=pytest.mark.deep)])
def test_both_ways_decide_the_same_when_driven(lives: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn of a report hands over the next task, to workers that now and then fail, or are not done yet."""
    ways = Ways(monkeypatch)

    @many(lives)
    @given(TAPES)
    def case(choices: bytes) -> None:
        tape = Tape(choices)
        definition, value, _ = draw_definition(tape, undoing=tape.pick(3) == 0)
        drive(definition, value, tape)

    case()
    ways.check()


#: What a worker says by a report of its own.
ENDS = (TaskStatus.IN_PROGRESS, TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.FAILED_WITH_TERMINAL_ERROR)


def drive(definition: dict[str, Any], value: Any, tape: Tape, kind: str = "memory") -> dict[str, Any]:
    """Run an execution for a while, with workers for everything that it offers; returns all that is stored then."""
    workers = Workers()

    def work(context: TaskContext) -> Any:
        said = tape.pick(8)
        if said == 6:
            raise ValueError("not this time")
        if said == 7:
            return TaskResult(
                workflow_id=context.task.workflow_id,
                task_id=context.task.task_id,
                status=ENDS[tape.pick(len(ENDS))],
                error_types=("ValueError",)[: tape.pick(2)],
                output_data={"x": "part"},
                reason="so far",
                callback_after_ms=1_000 * tape.pick(3),
            )
        return {"x": {"n": context.task.attempt}, "text": "long " * (300 * (said == 5))}

    for name in ("n0", "n1", "n2"):
        workers.task(name)(work)
    numbers, folder = count(), TemporaryDirectory()
    backend = MemoryBackend() if kind == "memory" else SQLiteBackend(Path(folder.name, "s.db"), synchronous="NORMAL")
    config = EngineConfig(bounds=Bounds(rows=3) if tape.chance(4) else Bounds(), ids=lambda: f"id-{next(numbers)}")
    with folder, Engine(backend, workers=workers, clock=VirtualClock(), config=config) as engine:
        engine.register(WorkflowDef.from_json(MOURN))
        run = engine.start(WorkflowDef.from_json(definition), value)
        engine.run_until_idle(timeout="10 minutes")
        if tape.chance(3) and run.status.terminal and run.status is not WorkflowStatus.COMPLETED:
            with suppress(Conflict):  # it was compensated
                engine.retry(run.workflow_id)
            engine.run_until_idle(timeout="10 minutes")
        if isinstance(backend, SQLiteBackend):
            return rows_of(backend.path)
        executions = {name: vars(execution) | {"loops": {}} for name, execution in backend._store.executions.items()}
        indexes = {name: [*index] for name, index in backend._store.due.items()}
        queues = {name: {at: [*index] for at, index in each.items()} for name, each in backend._store.queues.items()}
        return {"rows": dict(backend._store.workflows), "executions": executions, "due": indexes, "queues": queues}


def rows_of(path: str) -> dict[str, Any]:
    """What a file holds of executions; but for what a lock or a number of the operating system is in it."""
    with closing(sqlite3.connect(path)) as rows:
        names = ("workflows", "tasks", "history", "texts", "inbox", "messages", "limits", "limit_members", "task_logs", "polls")
        return {name: rows.execute(f"SELECT * FROM {name}").fetchall() for name in names}


#: What tasks of a drawn chain read, and how their definitions differ.
READS = (
    "${workflow.input.n}",
    "${s0.output.x}",
    "${s1.output.text}",
    {"n": ["${s0.output}", "x"]},
    "${s0.status}",
    "${CPEWF_TASK_ID}",
)
TERMS: tuple[dict[str, Any], ...] = (
    {},
    {"responseTimeoutSeconds": 5, "timeoutSeconds": 0},
    {"retryCount": 0, "pollTimeoutSeconds": 7},
    {"timeoutSeconds": 9, "totalTimeoutSeconds": 20},
    {"concurrentExecLimit": 1},
)


def draw_chain(tape: Tape) -> dict[str, Any]:
    """Plain tasks in a row, and now and then two rows of them side by side, or one in a loop."""

    def plain(ref: str) -> dict[str, Any]:
        name = f"n{tape.pick(3)}"
        terms = TERMS[tape.pick(len(TERMS))] if tape.chance(3) else {}
        task = {"name": name, "taskReferenceName": ref, "inputParameters": {"n": READS[tape.pick(len(READS))]}}
        return task | ({"taskDefinition": {"name": name} | terms} if terms else {})

    tasks = [plain("s0"), plain("s1"), *(plain(f"s{2 + number}") for number in range(tape.pick(4)))]
    if tape.chance(3):
        branches = [[plain(f"b{branch}_{number}") for number in range(2)] for branch in range(2)]
        ends = [branch[-1]["taskReferenceName"] for branch in branches]
        tasks += [
            {"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN", "forkTasks": branches},
            {"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": ends},
            plain("e0"),
            plain("e1"),
        ]
    if tape.chance(3):
        rounds = {"name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "loopCondition": "$.l['iteration'] < 3"}
        tasks.append(rounds | {"loopOver": [plain("i0"), plain("i1")]})
    return {"name": "chain", "tasks": tasks}


@pytest.mark.parametrize("lives", [20, pytest.param(200, marks=pytest.mark.slow), pytest.param(8_000, marks=pytest.mark.deep)])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_steps_on_rows_in_memory_leave_what_other_turns_leave(kind: str, lives: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step on them is read, decided on and written in a way of its own, in which the rows of a file are what is resident."""
    real: Callable[..., TurnResult | None] = vars(Turns)["_take_step"]
    off, steps = False, 0

    def take(*given: Any) -> TurnResult | None:
        nonlocal steps
        taken = None if off else real(*given)
        steps += taken is not None
        return taken

    monkeypatch.setattr(Turns, "_take_step", take)

    @many(lives)
    @given(TAPES)
    def case(choices: bytes) -> None:
        nonlocal off
        off, tape = False, Tape(choices)
        stored = drive(draw_chain(tape), {"n": 1}, tape, kind)
        off, tape = True, Tape(choices)
        assert stored == drive(draw_chain(tape), {"n": 1}, tape, kind)

    case()
    assert steps


def other_rows(what: str) -> Callable[[Any, Any], None]:
    """A short way that leaves another value in a field of the row it has written."""

    def spoil(changeset: Any, said: Any) -> None:
        for row in changeset.last.values() if said else ():
            setattr(row, what, (getattr(row, what) or 0) + 1)

    return spoil


def timer_forgotten(changeset: Any, said: Any) -> None:
    """A deadline of a task that was begun is not set."""
    if said and changeset._timers:
        changeset._timers.popitem()


def cause_forgotten(changeset: Any, said: Any) -> None:
    """A line of the journal does not say what led to it."""
    if said and changeset.history:
        changeset.history[-1] = attrs.evolve(changeset.history[-1], cause=None)


BUGS = {
    "reported": [other_rows("lease"), other_rows("ended_at"), cause_forgotten],
    "scheduled": [other_rows("seq"), timer_forgotten],
    "polled": [other_rows("poll_count"), timer_forgotten, cause_forgotten],
}


@pytest.mark.parametrize(("name", "spoil"), [(name, spoil) for name, bugs in BUGS.items() for spoil in bugs])
def test_what_the_short_way_would_do_wrong_is_found(name: str, spoil: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bugs that are planted in it make the two decide differently, in one chain already, which no step takes."""
    real = getattr(progress, name)

    def spoilt(changeset: Any, *given: Any) -> Any:
        said = real(changeset, *given)
        spoil(changeset, said)
        return said

    monkeypatch.setattr(progress, name, spoilt)
    ways = Ways(monkeypatch)
    steps = [{"name": "n0", "taskReferenceName": ref, "inputParameters": {"n": "${workflow.status}"}} for ref in ("a", "b", "c")]
    drive({"name": "chain", "tasks": steps}, {"n": 1}, Tape(b""))
    with pytest.raises(AssertionError, match="assert Decision"):
        ways.check()


def spoilt(patch: pytest.MonkeyPatch, way: str, spoil: Callable[[Decision], Decision], *, ended: bool = False) -> Ways:
    """Both ways of deciding, when one that is written out decides what is spoilt; with `ended` only what ends the execution is."""
    real = vars(written_out)[way]

    def decided(*given: Any) -> Decision | None:
        decision: Decision | None = real(*given)
        return decision if decision is None or (ended and not decision.workflow.status.terminal) else spoil(decision)

    patch.setattr(written_out, way, decided)
    return Ways(patch)


def steps_without(what: str) -> Callable[[Decision], Decision]:
    """A step that leaves out the last of something."""
    return lambda decision: changed(decision, **{what: getattr(decision, what)[:-1]})


def steps_with_other(where: str, **fields: int | bool | None) -> Callable[[Decision], Decision]:
    """A step that leaves another value in a field of a row that it writes."""

    def spoil(decision: Decision) -> Decision:
        rows = getattr(decision, where)
        other = tuple(attrs.evolve(row, **fields) for row in rows) if isinstance(rows, tuple) else attrs.evolve(rows, **fields)
        return changed(decision, **{where: other})

    return spoil


STEP_BUGS = [
    *map(steps_without, ("timers", "cancelled", "history", "inserted", "updated")),
    steps_with_other("inserted", lease=0),
    steps_with_other("inserted", seq=0),
    steps_with_other("inserted", response_timeout_at=None),
    steps_with_other("updated", executed=False),
    steps_with_other("updated", lease=1),
    steps_with_other("history", cause=None),
    steps_with_other("timers", sender_seq=0),
    steps_with_other("workflow", sequence=0),
    steps_with_other("workflow", open=0),
    lambda decision: attrs.evolve(decision, replies={}),
]


@pytest.mark.parametrize("spoil", STEP_BUGS)
def test_what_a_step_would_do_wrong_is_found(spoil: Callable[[Decision], Decision], monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is for what takes the end of a task, its successor and the hand-over at once."""
    ways = spoilt(monkeypatch, "step", spoil)
    steps = [{"name": "n0", "taskReferenceName": ref, "inputParameters": {"n": "${workflow.input.n}"}} for ref in ("a", "b", "c")]
    drive({"name": "chain", "tasks": steps}, {"n": 1}, Tape(b""))
    assert ways.taken["step"]
    with pytest.raises(AssertionError, match="assert Decision"):
        ways.check()


#: Those that can still be seen when the execution has ended.
LASTING_BUGS = [
    *map(steps_without, ("cancelled", "history", "inserted", "updated")),
    steps_with_other("inserted", seq=0),
    steps_with_other("updated", executed=False),
    steps_with_other("history", cause=None),
    steps_with_other("workflow", sequence=0),
]


@pytest.mark.parametrize("spoil", LASTING_BUGS)
def test_what_a_step_in_memory_would_do_wrong_is_found(
    spoil: Callable[[Decision], Decision], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written by a function of its own, and leaves other rows then."""
    steps = [{"name": "n0", "taskReferenceName": ref, "inputParameters": {"n": "${workflow.input.n}"}} for ref in ("a", "b", "c")]
    definition = {"name": "chain", "tasks": steps}
    right = drive(definition, {"n": 1}, Tape(b""))
    real = vars(turns)["step"]

    def spoilt(*given: Any) -> Decision | None:
        decision = real(*given)
        return None if decision is None else spoil(decision)

    monkeypatch.setattr(turns, "step", spoilt)
    assert drive(definition, {"n": 1}, Tape(b"")) != right


@pytest.mark.parametrize(
    ("read", "whole"),
    [
        ("${workflow.input.n}", True),
        ("${a.output.x}, ${CPEWF_TASK_ID} and ${c.output.x}", True),
        ("${a.output.x.n} of ${workflow.input.n}", True),
        ("${a.status}", False),
        ("${workflow.status}", False),
        ("${b.output.x}", True),
        ({"one": "${a.output}", "other": ["${b.output}", "${workflow.input}"]}, True),
    ],
)
@pytest.mark.parametrize("handed", [True, False], ids=["handed over", "offered"])
def test_a_step_reads_what_the_next_task_reads(read: object, whole: bool, handed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is taken for inputs, outputs and what the engine was given; anything else is left to the general way."""
    ways = Ways(monkeypatch)
    steps = [{"name": "n0", "taskReferenceName": ref, "inputParameters": {"n": read}} for ref in ("a", "b", "c")]
    definition = WorkflowDef.from_json({"name": "chain", "tasks": steps})
    with Engine(clock=VirtualClock()) as engine:
        run = engine.start(definition, {"n": 1})
        tasks = engine.poll("n0", worker_id="w")
        while tasks:
            (task,) = tasks
            result = TaskResult(
                workflow_id=run.workflow_id,
                task_id=task.task_id,
                status=TaskStatus.COMPLETED,
                lease=task.lease,
                output_data={"x": {"n": "1"}},
            )
            if handed:
                _, tasks = engine.update_task(result, poll="n0")
            else:
                engine.update_task(result)
                tasks = engine.poll("n0", worker_id="w")
        assert run.status is WorkflowStatus.COMPLETED
    ways.check()
    assert bool(ways.taken["step"]) is whole


SCHEMA = {"name": "s", "version": 1, "type": "JSON"}

FIRST_BUGS = [
    *map(steps_without, ("timers", "history", "inserted")),
    *(steps_with_other("inserted", **other) for other in ({"lease": 0}, {"seq": 0}, {"started_at": 0}, {"generation": 1})),
    *(steps_with_other("workflow", **other) for other in ({"open": 0}, {"started_at": 0}, {"timeout_at": None}, {"sequence": 0})),
    steps_with_other("history", cause=None),
    steps_with_other("timers", sender_seq=0),
    lambda decision: attrs.evolve(decision, created=False),
    lambda decision: attrs.evolve(decision, replies={}),
]


@pytest.mark.parametrize("spoil", FIRST_BUGS)
def test_what_a_first_turn_would_do_wrong_is_found(spoil: Callable[[Decision], Decision], monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is for what begins an execution, and hands over its first task."""
    ways = spoilt(monkeypatch, "first", spoil)
    workers = Workers()
    workers.task("n0")(lambda: None)
    definition = {"name": "one", "tasks": [{"name": "n0", "taskReferenceName": "a"}], "timeoutSeconds": 60}
    with Engine(workers=workers, clock=VirtualClock()) as engine:
        engine.start_and_wait(WorkflowDef.from_json(definition))
    assert ways.taken["first"] == 1
    with pytest.raises(AssertionError, match="assert Decision"):
        ways.check()


@pytest.mark.parametrize(
    ("task", "fields", "options", "firsts"),
    [
        ({}, {}, {}, 1),
        ({"inputParameters": {"n": "${workflow.input.n} of ${CPEWF_TASK_ID}", "m": "${workflow.input.nothing}"}}, {}, {}, 1),
        ({"inputParameters": {"n": "${workflow.workflowId}"}}, {}, {}, 0),
        ({"inputParameters": {"n": "${b.output.x}"}}, {}, {}, 0),
        ({"taskDefinition": {"name": "n0", "pollTimeoutSeconds": 0, "timeoutSeconds": 0, "responseTimeoutSeconds": 0}}, {}, {}, 1),
        ({"taskDefinition": {"name": "n0", "pollTimeoutSeconds": 7, "timeoutSeconds": 9, "responseTimeoutSeconds": 5}}, {}, {}, 1),
        ({"taskDefinition": {"name": "n0", "concurrentExecLimit": 1}}, {}, {}, 0),
        ({"taskDefinition": {"name": "n0", "totalTimeoutSeconds": 20}}, {}, {}, 0),
        ({"type": "WAIT", "inputParameters": {"duration": "1s"}}, {}, {}, 1),
        ({"type": "NOOP"}, {}, {}, 0),
        ({}, {"timeoutSeconds": 60, "timeoutPolicy": "TIME_OUT_WF"}, {}, 1),
        ({}, {"variables": {"v": 1}, "inputTemplate": {"m": 2}}, {}, 1),
        ({}, {"variables": {"v": "long " * 300}}, {}, 0),
        ({}, {"rateLimitConfig": {"rateLimitKey": "k", "concurrentExecLimit": 1}}, {}, 0),
        ({}, {"inputSchema": {**SCHEMA, "data": {"required": ["n"]}}, "enforceSchema": True}, {}, 0),
        ({}, {}, {"input": {"n": "long " * 300}}, 0),
        ({}, {}, {"correlation_id": "c", "priority": 7, "created_by": "me", "idempotency_key": "i"}, 1),
        ({}, {}, {"delay": "5s"}, 0),
        ({}, {}, {"task_to_domain": {"*": "d"}}, 0),
    ],
)
@pytest.mark.parametrize("awaited", [True, False], ids=["awaited", "started"])
def test_a_beginning_is_decided_alike(
    task: Any, fields: Any, options: Any, firsts: int, awaited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is given to it, its first task handed over or not; what is not as it mostly is goes the general way."""
    ways, workers = Ways(monkeypatch), Workers()
    workers.task("n0")(lambda: {"x": 1})
    workers.task("n0", domain="d")(lambda: {"x": 1})
    tasks = [{"name": "n0", "taskReferenceName": "a", **task}, {"name": "n0", "taskReferenceName": "b"}]
    definition = WorkflowDef.from_json({"name": "beginning", "tasks": tasks, **fields})
    with Engine(workers=workers, clock=VirtualClock()) as engine:
        given = {"input": {"n": 1}, **options}
        if awaited:
            engine.start_and_wait(definition, **given)
        else:
            assert engine.start(definition, **given).result() == {"x": 1}
    assert ways.differences == []
    assert ways.taken["first"] == firsts


@pytest.mark.parametrize(
    ("given", "fields", "options", "firsts"),
    [
        ({"duration": "30 days"}, {}, {}, 1),
        ({"duration": "${workflow.input.n} s", "note": "of ${CPEWF_TASK_ID}"}, {"timeoutSeconds": 60}, {"correlation_id": "c"}, 1),
        ({"duration": " "}, {"variables": {"v": 1}}, {}, 1),
        ({}, {}, {}, 1),
        ({"until": "2020-02-03 04:05"}, {}, {}, 1),
        ({"until": "${workflow.input.n}"}, {}, {}, 0),
        ({"duration": "${workflow.input.n} moons"}, {}, {}, 0),
        ({"duration": "${workflow.workflowId}"}, {}, {}, 0),
        ({"duration": "1s", "note": "long " * 300}, {}, {}, 0),
        ({"duration": "1s"}, {}, {"task_to_domain": {"*": "d"}}, 0),
    ],
)
@pytest.mark.parametrize("policy", [None, {"timeoutSeconds": 5}, {"totalTimeoutSeconds": 5}, {"retryCount": 1}])
def test_a_wait_at_the_beginning_is_decided_alike(
    given: Any, fields: Any, options: Any, firsts: int, policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until whichever instant, or a report; one with a deadline besides goes the general way."""
    ways, task = Ways(monkeypatch), {"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": given}
    if policy is not None:
        task["taskDefinition"] = {"name": "w", **policy}
    definition = WorkflowDef.from_json({"name": "waiting", "tasks": [task, {**task, "taskReferenceName": "x"}], **fields})
    with Engine(clock=VirtualClock()) as engine:
        engine.start(definition, {"n": 3}, **options)
        engine.start_many(definition, [{"n": 4}, {"n": 5}])
    assert ways.differences == []
    # Domains are given to the first alone.
    expected = 2 + firsts if firsts or options else 0
    assert ways.taken["first"] == (0 if policy and "retryCount" not in policy else expected)


WAIT_BUGS = [
    *map(steps_without, ("timers", "history", "inserted")),
    *(steps_with_other("inserted", **other) for other in ({"seq": 0}, {"started_at": 0}, {"wait_until": None}, {"due_at": 1})),
    *(steps_with_other("workflow", **other) for other in ({"open": 0}, {"started_at": 0}, {"last_ref": None}, {"sequence": 0})),
    steps_with_other("timers", sender_seq=0),
]


@pytest.mark.parametrize("spoil", WAIT_BUGS)
def test_what_a_wait_at_the_beginning_would_do_wrong_is_found(
    spoil: Callable[[Decision], Decision], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is for what begins an execution that waits."""
    ways = spoilt(monkeypatch, "first", spoil)
    task = {"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "1s"}}
    with Engine(clock=VirtualClock()) as engine:
        engine.start(WorkflowDef.from_json({"name": "waiting", "tasks": [task]}))
    assert ways.taken["first"] == 1
    with pytest.raises(AssertionError, match="assert Decision"):
        ways.check()


LAST_BUGS = [
    *map(steps_without, ("cancelled", "history", "updated")),
    *(steps_with_other("updated", **other) for other in ({"executed": False}, {"lease": 1}, {"ended_at": 0})),
    *(steps_with_other("workflow", **other) for other in ({"open": 1}, {"ended_at": 0}, {"timeout_at": 1}, {"history_seq": 0})),
    steps_with_other("history", cause=None),
    lambda decision: attrs.evolve(decision, workflow=attrs.evolve(decision.workflow, output=Payload.of({"x": 2}))),
    lambda decision: attrs.evolve(decision, replies={}),
]


@pytest.mark.parametrize("spoil", LAST_BUGS)
def test_what_a_last_step_would_do_wrong_is_found(spoil: Callable[[Decision], Decision], monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is for what takes the end of a task and that of the execution at once."""
    ways = spoilt(monkeypatch, "step", spoil, ended=True)
    drive({"name": "one", "tasks": [{"name": "n0", "taskReferenceName": "a"}], "timeoutSeconds": 60}, {"n": 1}, Tape(b""))
    assert ways.taken["last"] == 1
    with pytest.raises(AssertionError, match="assert Decision"):
        ways.check()


@pytest.mark.parametrize(
    ("fields", "lasts"),
    [
        ({}, 1),
        ({"timeoutSeconds": 60, "timeoutPolicy": "TIME_OUT_WF"}, 1),
        ({"outputParameters": {"n": "${workflow.input.n}", "x": "${a.output.x} of ${b.output}", "id": "${CPEWF_TASK_ID}"}}, 1),
        ({"outputParameters": {"was": "${a.output.nothing}"}}, 1),
        ({"outputParameters": {"s": "${b.status}"}}, 0),
        ({"outputParameters": {"v": "${workflow.variables}"}}, 0),
        ({"outputParameters": {"n": "${l.output.iteration}"}}, 0),
        ({"failureWorkflow": "mourn"}, 1),
        ({"outputSchema": {**SCHEMA, "data": {"required": ["z"]}}, "enforceSchema": True}, 0),
        ({"rateLimitConfig": {"rateLimitKey": "k", "concurrentExecLimit": 1}}, 0),
        ({"last": {"optional": True}}, 1),
        ({"last": {"type": "WAIT", "inputParameters": {"duration": "1s"}}}, 0),
        (
            {
                "last": {
                    "taskDefinition": {"name": "n0", "outputSchema": {**SCHEMA, "data": {"required": ["x"]}}, "enforceSchema": True}
                }
            },
            0,
        ),
    ],
)
def test_an_end_is_decided_alike(fields: dict[str, Any], lasts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it puts out, and whatever is done with it; what is not as it mostly is goes the general way."""
    ways, fields = Ways(monkeypatch), dict(fields)
    loop = {"name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "loopCondition": "$.l.iteration < 2"}
    tasks = [
        {"name": "n0", "taskReferenceName": "a"},
        {**loop, "loopOver": [{"name": "n0", "taskReferenceName": "i"}]},
        {"name": "n0", "taskReferenceName": "b", **fields.pop("last", {})},
    ]
    drive({"name": "ending", "tasks": tasks, **fields}, {"n": 1}, Tape(b""))
    ways.check()
    assert ways.taken["last"] == lasts


def test_an_end_that_others_wait_for_goes_the_general_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parent, and its schedule, are told of it."""
    ways = Ways(monkeypatch)
    child = {"name": "child", "tasks": [{"name": "n0", "taskReferenceName": "a"}]}
    sub = {"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "subWorkflowParam": {"workflowDefinition": child}}
    drive({"name": "parent", "tasks": [sub]}, {"n": 1}, Tape(b""))
    ways.check()
    assert not ways.taken["last"]


@pytest.mark.parametrize("broken", ["answer", "loop_payload"])
def test_what_a_round_would_do_wrong_is_found(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition that is answered otherwise at once, and rounds that are left out of what a loop puts out."""
    if broken == "answer":
        monkeypatch.setattr(Changeset, "answer", lambda *given: False)
    else:
        monkeypatch.setattr(do_while, "loop_payload", lambda changeset, loop: changeset.payload({"iteration": loop.round}))
    ways = Ways(monkeypatch)
    step = {"name": "n0", "taskReferenceName": "a", "inputParameters": {"n": "${a.status}"}}
    loop = {"name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "loopCondition": "$.l.iteration < 3", "loopOver": [step]}
    drive({"name": "loop", "tasks": [loop]}, {}, Tape(b""))
    with pytest.raises(AssertionError, match="assert Decision"):
        ways.check()


RETRY_BUGS = [
    *map(steps_without, ("timers", "cancelled", "history", "inserted", "updated")),
    *(steps_with_other("inserted", **other) for other in ({"attempt": 0}, {"due_at": 0}, {"first_scheduled_at": 0}, {"seq": 0})),
    *(steps_with_other("updated", **other) for other in ({"retried": False}, {"executed": True}, {"traceback": None})),
    steps_with_other("history", cause=None),
    steps_with_other("workflow", sequence=0),
    steps_with_other("workflow", updated_at=0),
    lambda decision: attrs.evolve(decision, replies={}),
]


@pytest.mark.parametrize("spoil", RETRY_BUGS)
def test_what_a_retry_would_do_wrong_is_found(spoil: Callable[[Decision], Decision], monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is for what takes a failure, the next attempt and its hand-over at once, some of them later."""
    ways = spoilt(monkeypatch, "again", spoil)
    fail(timeoutSeconds=60)
    fail(timeoutSeconds=60, by_hand=True)
    assert ways.taken["again"] == 6
    with pytest.raises(AssertionError, match="assert Decision"):
        ways.check()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"timeoutSeconds": 60, "pollTimeoutSeconds": 30, "responseTimeoutSeconds": 20},
        {"pollTimeoutSeconds": 0, "responseTimeoutSeconds": 0, "timeoutSeconds": 0},
        {"retryLogic": "EXPONENTIAL_BACKOFF", "backoffScaleFactor": 2},
        {"retryDelaySeconds": 0},
        {"backoffJitterMs": 500},
    ],
)
@pytest.mark.parametrize("read", ["${workflow.input.n}", "${f.output.x}", "${CPEWF_TASK_ID}"])
def test_a_retry_is_decided_alike(options: dict[str, Any], read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its delays and deadlines are, and what it reads; driven through all of its attempts, and polled by hand."""
    ways = Ways(monkeypatch)
    fail(read, **options)
    fail(read, by_hand=True, **options)
    ways.check()
    assert ways.taken["again"]


#: What is not as it mostly is when branches end.
WRONG = ["nothing", "failed", "too late", "twice", "large", "paused", "in a loop", "one after another"]

ARRIVAL_BUGS = [
    *map(steps_without, ("timers", "cancelled", "history", "updated")),
    *(steps_with_other("updated", **other) for other in ({"executed": False}, {"waiting": 0}, {"ended_at": 0}, {"lease": 0})),
    steps_with_other("history", cause=None),
    *(steps_with_other("workflow", **other) for other in ({"open": 0}, {"sequence": 0}, {"updated_at": 0})),
    lambda decision: attrs.evolve(decision, replies={}),
    lambda decision: attrs.evolve(decision, outgoing=Outgoing()),
]


@pytest.mark.parametrize("spoil", ARRIVAL_BUGS)
def test_what_arrivals_would_do_wrong_is_found(spoil: Callable[[Decision], Decision], monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is for what takes many ends of branches, and polls, at once."""
    ways = spoilt(monkeypatch, "arrivals", spoil)
    arrive(timeoutSeconds=60)
    assert ways.taken["arrivals"]
    with pytest.raises(AssertionError, match="assert Decision"):
        ways.check()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"timeoutSeconds": 60, "pollTimeoutSeconds": 30, "responseTimeoutSeconds": 20},
        {"pollTimeoutSeconds": 0, "responseTimeoutSeconds": 0, "timeoutSeconds": 0},
    ],
)
@pytest.mark.parametrize("wrong", ["nothing", "failed", "too late", "twice", "large", "paused", "in a loop", "one after another"])
def test_arrivals_are_decided_alike(options: dict[str, Any], wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their deadlines are, and whatever one of them says or stands in."""
    ways = Ways(monkeypatch)
    arrive(wrong, **options)
    ways.check()
    assert bool(ways.taken["arrivals"]) is (wrong != "in a loop")


def arrive(wrong: str = "nothing", **options: Any) -> None:
    """Take a fork's tasks by hand, and report on three at a time; then have a driver carry out those of another one."""
    refs = [f"b{n}" for n in range(12)]
    step = {"name": "n0", "type": "SIMPLE", "taskDefinition": {"name": "n0", **options}, "inputParameters": {"n": 1}}
    branches: list[Any] = [[{**step, "taskReferenceName": ref}] for ref in refs]
    tasks: list[Any] = [
        {"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN", "forkTasks": branches},
        {"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": refs},
    ]
    if wrong == "in a loop":
        body, condition = tasks, "$.l.iteration < 2"
        tasks = [{"name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "loopCondition": condition, "loopOver": body}]
    elif wrong == "one after another":
        branches[0].append({**step, "taskReferenceName": "next"})
        tasks[-1]["joinOn"] = ["next", *refs[1:]]
    definition = WorkflowDef.from_json({"name": "fork", "tasks": tasks})
    numbers = count()
    with Engine(MemoryBackend(), clock=VirtualClock(), config=EngineConfig(ids=lambda: f"id-{next(numbers)}")) as engine:
        run = engine.start(definition)
        for number in range(30):
            held = engine.poll("n0", worker_id="by hand", count=3)
            odd = number == 1
            results = [
                TaskResult(
                    workflow_id=task.workflow_id,
                    task_id=task.task_id,
                    lease=task.lease - (odd and wrong == "too late" and task is held[-1]),
                    status=TaskStatus.FAILED if odd and wrong == "failed" and task is held[-1] else TaskStatus.COMPLETED,
                    output_data={"x": "y" * (20_000 if odd and wrong == "large" else 3)},
                )
                for task in held
            ]
            if odd and wrong == "paused":
                engine.pause(run.workflow_id)
            engine.update_tasks([*results, *results[:1]] if odd and wrong == "twice" else results)
            if odd and wrong == "paused":
                engine.resume(run.workflow_id)
    workers = Workers(concurrency=3)
    workers.task("n0")(lambda: {"x": 1})
    with Engine(MemoryBackend(), workers=workers) as engine, suppress(ConductorliteError):
        engine.start(definition).result()


def fail(read: str = "${workflow.input.n}", *, by_hand: bool = False, **options: Any) -> None:
    """An execution whose one task fails four times."""
    given = {"retryCount": 3, "retryDelaySeconds": 2, **options}
    workers = Workers()

    def refuse(n: Any) -> None:
        raise ConnectionError("not today")

    if not by_hand:
        workers.task("n0")(refuse)
    task = {"name": "n0", "taskReferenceName": "f", "inputParameters": {"n": read}, "taskDefinition": {"name": "n0", **given}}
    with Engine(workers=workers, clock=VirtualClock()) as engine:
        run = engine.start(WorkflowDef.from_json({"name": "failing", "tasks": [task]}), {"n": 1})
        while by_hand and not run.status.terminal:
            for held in engine.poll("n0", worker_id="w"):
                place = {"workflow_id": run.workflow_id, "task_id": held.task_id, "lease": held.lease}
                engine.update_task(TaskResult(**place, status=TaskStatus.FAILED, output_data={"x": 1}, reason="no"))
            engine.advance("1s")
        engine.run_until_idle()
        assert run.status.terminal


ROUND_BUGS = [
    *map(steps_without, ("timers", "cancelled", "history", "inserted", "updated")),
    *(steps_with_other("inserted", **other) for other in ({"iterations": ()}, {"lease": 0}, {"seq": 0}, {"started_at": 0})),
    *(steps_with_other("updated", **other) for other in ({"round": 0}, {"executed": False}, {"open": 0})),
    steps_with_other("history", number=0),
    steps_with_other("workflow", sequence=0),
    lambda decision: attrs.evolve(decision, replies={}),
]


def repeat(condition: str = "$.l.iteration < 4", read: str = "${l.output.iteration}", *beside: Any, **fields: Any) -> None:
    """A loop of one task, driven to its end."""
    step = {"name": "n0", "taskReferenceName": "a", "inputParameters": {"n": read}}
    loop = {"name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "loopCondition": condition, "loopOver": [step, *beside]}
    drive({"name": "loop", "tasks": [{**loop, **fields}]}, {"n": 1, "items": ["x", "y"]}, Tape(b""))


@pytest.mark.parametrize("spoil", ROUND_BUGS)
def test_what_a_round_written_out_would_do_wrong_is_found(
    spoil: Callable[[Decision], Decision], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is for what takes the end of a round, the condition and the next round at once."""
    ways = spoilt(monkeypatch, "next_round", spoil)
    repeat()
    assert ways.taken["next_round"] == 3
    with pytest.raises(AssertionError, match="assert Decision"):
        ways.check()


@pytest.mark.parametrize(
    ("condition", "read", "fields", "rounds"),
    [
        ("$.l['iteration'] < 4", "${l.output.iteration}", {}, 3),
        ("if ($.l.iteration < 3) { true; } else { false; }", "${a.output.x.n}, ${CPEWF_TASK_ID} and ${workflow.input.n}", {}, 2),
        ("$.l.iteration < 4", "${a.status}", {}, 0),
        ("$.l.iteration < 4", "${l.output}", {}, 0),
        ("$.l.iteration < 4", "${l.output.1.a.x}", {}, 0),
        ("$.l.iteration < 3 && $.a.x.n == 0", "1", {}, 0),
        ("$.l.iteration < $.most", "1", {"inputParameters": {"most": 4}}, 0),
        ("$.l.iteration < 5", "${l.output.iteration}", {"inputParameters": {"keepLastN": 2}}, 0),
        ("true", "${l.output.loopItem}", {"items": "${workflow.input.items}"}, 0),
    ],
)
def test_a_round_is_decided_alike(condition: str, read: str, fields: Any, rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it reads, and what its condition does; what is not as it mostly is goes the general way."""
    ways = Ways(monkeypatch)
    repeat(condition, read, **fields)
    ways.check()
    assert ways.taken["next_round"] == rounds


def begun(engine: Engine) -> tuple[Run[Any], TaskResult]:
    """A chain whose first task is with a worker, and what that will report."""
    first = {"name": "n0", "taskReferenceName": "a", "taskDefinition": {"name": "n0", "responseTimeoutSeconds": 5, "retryCount": 0}}
    run = engine.start(WorkflowDef.from_json({"name": "chain", "tasks": [first, {"name": "n0", "taskReferenceName": "b"}]}))
    (task,) = engine.poll("n0", worker_id="w")
    result = TaskResult(workflow_id=run.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease)
    return run, result


def test_a_step_does_not_overtake_what_is_due() -> None:
    """A deadline that has come at the instant of the report was there first."""
    clock = VirtualClock()
    with Engine(clock=clock) as engine:
        run, result = begun(engine)
        clock.move_to(clock.now() + 5_000)
        engine.update_task(result)
        assert run.workflow.task("a").status is TaskStatus.TIMED_OUT


def test_no_step_is_taken_in_a_parked_execution() -> None:
    """Its report is kept until it is resumed."""
    with Engine(clock=VirtualClock()) as engine:
        run, result = begun(engine)
        with engine.backend.writing() as tx:
            tx.park(run.workflow_id, 3, "a law")
        begun(engine)  # a turn since, after which it is known again what is due
        engine.update_task(result)
        assert run.workflow.task("a").status is TaskStatus.IN_PROGRESS
        engine.resume(run.workflow_id)
        assert [task.status for task in run.workflow.tasks] == [TaskStatus.COMPLETED, TaskStatus.SCHEDULED]


def test_no_step_is_taken_on_an_attempt_that_was_taken_back() -> None:
    """A report that was made before a restart, and names no lease, says nothing of the attempt that is under way since."""
    with Engine(clock=VirtualClock()) as engine:
        run, result = begun(engine)
        report = engine.core.reports.prepared(run.workflow.task("a"), attrs.evolve(result, lease=None))
        engine.terminate(run.workflow_id)
        engine.restart(run.workflow_id)
        assert engine.poll("n0", worker_id="w")
        engine.core.turns.run_turn(run.workflow_id, [report.event])
        assert [task.status for task in run.workflow.tasks] == [TaskStatus.IN_PROGRESS]


#: A SWITCH behind a task in a loop, and how it is not as it mostly is.
CHOICE: dict[str, Any] = {
    "name": "c",
    "taskReferenceName": "c",
    "type": "SWITCH",
    "evaluatorType": "value-param",
    "expression": "found",
    "inputParameters": {"found": "${a.output.x}"},
    "decisionCases": {"1": [], "2": [{"name": "n0", "taskReferenceName": "b"}]},
}
CHOICES: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"inputParameters": {"found": "${a.output.nothing}"}}, True),
    ({"inputParameters": {"found": "${workflow.input.n}", "id": "${CPEWF_TASK_ID}", "round": "${l.output.iteration}"}}, True),
    ({"inputParameters": {"found": "1", "long": "${a.output.text}"}}, True),
    ({"inputParameters": {"found": "${a.output.text}"}}, False),
    ({"inputParameters": {"found": "2"}}, False),
    ({"inputParameters": {"found": "3"}, "defaultCase": [{"name": "n0", "taskReferenceName": "d"}]}, False),
    ({"evaluatorType": "javascript", "expression": "$.found == 1"}, True),
    ({"evaluatorType": "javascript", "expression": "$.found.map(x => x)"}, False),
    ({"evaluatorType": "javascript", "expression": "(() => $.found)()"}, False),
    ({"type": "DECISION", "caseValueParam": "found"}, False),
]


def choose(choice: dict[str, Any], around: str = "loop", bounds: Bounds = Bounds()) -> None:  # noqa: B008 - frozen
    """Drive a task and a SWITCH behind it, in a loop, in a branch, or last; what it reads is text of some length."""
    tasks: list[Any] = [{"name": "n0", "taskReferenceName": "a"}, {**CHOICE, **choice}]
    rounds = {"name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "loopCondition": "$.l.iteration < 3"}
    loop = {**rounds, "loopOver": tasks}
    fork = {
        "name": "f",
        "taskReferenceName": "f",
        "type": "FORK_JOIN",
        "forkTasks": [tasks, [{**tasks[0], "taskReferenceName": "z"}]],
    }
    join = {"name": "j", "taskReferenceName": "j", "type": "JOIN"}
    forms = {
        "loop": [loop],
        "two loops": [{**rounds, "taskReferenceName": "m", "loopCondition": "$.m.iteration < 2", "loopOver": [loop]}],
        "a branch, its SWITCH joined": [fork, {**join, "joinOn": ["c", "z"]}],
        "a branch, its task joined": [fork, {**join, "joinOn": ["a", "z"]}],
        "nothing": tasks,
        "nothing, and another follows": [*tasks, {"name": "n0", "taskReferenceName": "z"}],
    }
    workers, numbers = Workers(), count()
    workers.task("n0")(lambda: {"x": 1, "text": "long " * 300})
    config = EngineConfig(bounds=bounds, ids=lambda: f"id-{next(numbers)}")
    with Engine(MemoryBackend(), workers=workers, clock=VirtualClock(), config=config) as engine, suppress(ConductorliteError):
        engine.start(WorkflowDef.from_json({"name": "choice", "tasks": forms[around]}), {"n": 1}).result()


@pytest.mark.parametrize(("choice", "passed"), CHOICES)
def test_a_switch_that_chooses_nothing_is_passed_alike(
    choice: dict[str, Any], passed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it reads and answers; what chooses something, fails, or is not answered at once goes the general way."""
    ways = Ways(monkeypatch)
    choose(choice)
    ways.check()
    assert bool(ways.taken["passed"]) is passed


@pytest.mark.parametrize(
    ("around", "passed"),
    [
        ("two loops", True),
        ("a branch, its SWITCH joined", True),
        ("a branch, its task joined", False),
        ("nothing", True),
        ("nothing, and another follows", False),
    ],
)
def test_a_switch_is_passed_alike_wherever_it_stands(around: str, passed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may end a round, a branch and an execution."""
    ways = Ways(monkeypatch)
    choose({}, around)
    ways.check()
    assert bool(ways.taken["passed"]) is passed


@pytest.mark.parametrize("bounds", [*[Bounds(steps=steps) for steps in range(3, 10)], *[Bounds(rows=rows) for rows in range(2, 5)]])
def test_a_turn_that_passes_a_switch_is_cut_alike(bounds: Bounds, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much a turn may do, what is left of it is the same."""
    ways = Ways(monkeypatch)
    choose({}, bounds=bounds)
    ways.check()


@pytest.mark.parametrize("spoil", [other_rows("seq"), other_rows("ended_at")])
def test_what_passing_a_switch_would_do_wrong_is_found(spoil: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is for what takes a SWITCH and its end at once."""
    real = vars(progress)["passed"]

    def spoilt(changeset: Any, *given: Any) -> Any:
        said = real(changeset, *given)
        spoil(changeset, said)
        return said

    monkeypatch.setattr(progress, "passed", spoilt)
    ways = Ways(monkeypatch)
    choose({})
    assert ways.taken["passed"]
    with pytest.raises(AssertionError, match="assert Decision"):
        ways.check()
