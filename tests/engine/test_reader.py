"""What a turn reads: little, in few batches, once; nothing that it did not ask for, and nothing while a script is carried out."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from engine_kit import flow, fork, join, noop, rounds, simple, switch, wait

from conductorlite import Engine, TaskDef, TaskResult, TaskStatus, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.decide import decide
from conductorlite.engine.decisions import Turn, TurnDecider
from conductorlite.engine.reader import StoreReader
from conductorlite.errors import InvalidInput, StorageBusy
from conductorlite.language import processes
from conductorlite.model.decisions import Decision, EventKind
from conductorlite.model.executions import TaskRow, WorkflowRow
from conductorlite.plan import compile as compiling
from conductorlite.store.memory.executions import MemoryExecutions
from conductorlite.testing import RecordingReader


@attrs.define
class Seen:
    """One turn: which events it read, in how many batches, and what it was told."""

    kinds: tuple[EventKind, ...]
    batches: int
    rows: int


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Seen]:
    """Every turn from now on, each decided a second time from nothing but the answers it was given."""
    turns: list[Seen] = []
    batches: dict[int, int] = {}
    ask = StoreReader._read

    def counted(self: StoreReader, read: Callable[..., Any]) -> Any:
        batches[id(self)] = batches.get(id(self), 0) + 1
        return ask(self, read)

    def decided(self: TurnDecider, turn: Turn) -> Decision:
        given: dict[str, Any] = {"environment": self._lookups.environment, "bounds": self._lookups.bounds}
        recording = RecordingReader(turn.reader)
        first = decide(turn.plan, recording, turn.events, turn.now, **given)
        kinds = tuple(event.kind for event in turn.events)
        turns.append(Seen(kinds, batches.pop(id(turn.reader), 0), recording.rows))
        again = decide(turn.plan, recording.replay(), turn.events, turn.now, **given)
        # The rows that the reader has answered are as they were, and those that were made are a turn's own rows, written no more.
        assert attrs.asdict(first, recurse=False) == attrs.asdict(again, recurse=False)
        assert {type(row) for row in (*first.inserted, *first.updated)} <= {TaskRow}
        assert type(first.workflow) is WorkflowRow
        return first

    monkeypatch.setattr(StoreReader, "_read", counted)
    monkeypatch.setattr(TurnDecider, "decide", decided)
    return turns


def inline(ref: str, expression: str = "[1].map(x => x + 1)[0]") -> WorkflowTask:
    """A script that needs a process."""
    given = {"expression": expression, "evaluatorType": "javascript"}
    return WorkflowTask(name=ref, task_reference_name=ref, type="INLINE", input_parameters=given)


def dynamic_fork(width: int) -> list[WorkflowTask]:
    """Branches that are known at run time."""
    given = {"forkTaskName": "step", "forkTaskInputs": [{"x": n} for n in range(width)]}
    return [
        WorkflowTask(name="df", task_reference_name="df", type="FORK_JOIN_DYNAMIC", input_parameters=given),
        join("dj"),
    ]


def reading(ref: str, *others: str) -> WorkflowTask:
    """A task whose input is made of other tasks' outputs."""
    return simple(ref, input_parameters={other: f"${{{other}.output.x}}" for other in others})


def limited(ref: str) -> WorkflowTask:
    """A task of which one may be at work."""
    return WorkflowTask(name="slow", task_reference_name=ref, task_definition=TaskDef(name="slow", concurrent_exec_limit=1))


#: Per name, what is under test behind a chain of finished tasks, and what is done when the execution is there.
BEHIND: dict[str, list[WorkflowTask]] = {
    "SIMPLE": [reading("x", "t0"), reading("y", "x", "t0")],
    "FORK_JOIN": [fork("f", [reading("a", "t0")], [simple("b")]), join("j", "a", "b")],
    "SWITCH": [switch("s", {"1": [simple("a")]}, [simple("b")], value="${t0.output.x}")],
    "WAIT": [wait("w", duration="5s"), simple("x")],
    "NOOP": [noop("n"), simple("x")],
    "INLINE": [simple("x"), inline("i"), simple("y")],
    "DO_WHILE": [rounds("d", [reading("a", "t0"), inline("i")], 3)],
    "FORK_JOIN_DYNAMIC": dynamic_fork(3),
    "limits": [fork("f", [limited("p")], [limited("q")]), join("j", "p", "q")],
    "retries": [simple("x", {"retry_count": 2, "retry_delay_s": 1})],
    "SET_VARIABLE": [WorkflowTask(name="v", task_reference_name="v", type="SET_VARIABLE", input_parameters={"n": 1}), simple("x")],
    "HUMAN": [WorkflowTask(name="h", task_reference_name="h", type="HUMAN")],
}


def live(engine: Engine, definition: WorkflowDef, fails: str = "") -> None:
    """Carry out every task by hand; the first attempt at `fails` fails."""
    run = engine.start(definition)
    for _ in range(400):
        row = run.workflow
        if row.status.terminal:
            return
        for task in row.tasks:
            if task.status is TaskStatus.SCHEDULED:
                engine.poll(task.task_type)
            elif task.status is TaskStatus.IN_PROGRESS and task.task_type not in ("WAIT", "JOIN", "DO_WHILE"):
                status = TaskStatus.FAILED if task.ref == fails and not task.attempt else TaskStatus.COMPLETED
                engine.update_task(
                    TaskResult(workflow_id=run.workflow_id, task_id=task.task_id, status=status, output_data={"x": task.seq})
                )
        engine.advance("1s")
    raise str(AssertionError(engine.explain(run.workflow_id)))


def behind(length: int, what: str) -> WorkflowDef:
    """So many tasks, and then what is under test."""
    return flow(*(simple(f"t{n}") for n in range(length)), *BEHIND[what])


#: Tried at every run; the others in CI.
_FAST = ("SIMPLE", "FORK_JOIN", "FORK_JOIN_DYNAMIC", "INLINE")


@pytest.mark.parametrize("what", [pytest.param(what, marks=() if what in _FAST else pytest.mark.slow) for what in BEHIND])
def test_a_turn_reads_little_in_few_batches_and_decides_once(what: str, seen: list[Seen]) -> None:
    """However slow a store answers, a turn waits for it twice at most, a plain one once. The rows it is told of do not grow with
    the execution; and from those alone it is decided as it was."""

    def most(length: int) -> dict[tuple[EventKind, ...], int]:
        seen.clear()
        with Engine(clock=VirtualClock(1_900_000_000_000)) as engine:
            commits = engine.core.turns.committed.number
            live(engine, behind(length, what), "x" if what == "retries" else "")
            assert len(seen) <= engine.core.turns.committed.number - commits
        found: dict[tuple[EventKind, ...], int] = {}
        for turn in seen:
            found[turn.kinds] = max(found.get(turn.kinds, 0), turn.rows)
        return found

    few = most(2)
    assert most(8) == few
    assert max(few.values()) <= 12
    # What counts a task that was made at run time its row tells; and what a definition made now needs, the store.
    plain = what in ("SIMPLE", "WAIT", "NOOP", "HUMAN", "SET_VARIABLE", "retries")
    assert max(turn.batches for turn in seen) <= (1 if plain else 3 if what == "FORK_JOIN_DYNAMIC" else 2)


def test_verbs_read_in_two_batches(seen: list[Seen]) -> None:
    """Pause, resume, terminate, retry, restart, rerun, skip, variables, and timeouts."""
    hurried = simple("x", {"timeout_s": 5, "response_timeout_s": 3, "poll_timeout_s": 4, "timeout_policy": "TIME_OUT_WF"})
    definition = flow(simple("t"), hurried, simple("y"), output_parameters={"t": "${t.output.x}"}, timeout_ms=9_000_000)
    with Engine(clock=VirtualClock(1_900_000_000_000)) as engine:
        run = engine.start(definition)
        (task,) = engine.poll("t")
        engine.update_task(TaskResult(workflow_id=run.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED))
        for verb in (engine.pause, engine.resume):
            verb(run.workflow_id)
        engine.update_variables(run.workflow_id, {"a": 1})
        engine.skip_task(run.workflow_id, "y")
        engine.advance("10s")
        assert run.workflow.status == "TIMED_OUT"
        for again in (engine.retry, engine.restart):
            again(run.workflow_id)
            engine.terminate(run.workflow_id)
        engine.rerun(run.workflow_id, from_task="t")
    met = {kind for turn in seen for kind in turn.kinds}
    assert {"PAUSE", "RESUME", "TERMINATE", "RETRY", "RESTART", "RERUN", "SKIP", "VARIABLES", "POLL_TIMEOUT"} <= met
    assert max(turn.batches for turn in seen) <= 2


# ---------------------------------------------------------------------------------------------- what a store raises


@pytest.mark.parametrize("error", [OSError("no answer"), InvalidInput("damaged"), StorageBusy("busy")], ids=repr)
def test_what_the_store_raises_goes_on_as_it_came(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no answer, whatever an operator would make of it: nothing is stored, no turn counts as broken, the next one works."""
    with Engine(clock=VirtualClock(1_900_000_000_000)) as engine:
        run = engine.start(flow(simple("a"), reading("b", "a", "c"), simple("c")))
        (task,) = engine.poll("a")
        result = TaskResult(workflow_id=run.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED, output_data={"x": 1})
        real, before = MemoryExecutions.tasks, engine.history(run.workflow_id)

        def failing(self: MemoryExecutions, workflow_id: str, refs: Any) -> Any:
            raise error

        # Once at the beginning of the turn, once in the middle of making an input.
        monkeypatch.setattr(MemoryExecutions, "tasks", failing)
        with pytest.raises(type(error)) as first:
            engine.update_task(result)
        monkeypatch.setattr(MemoryExecutions, "tasks", real)
        prefetch = StoreReader.prefetch
        monkeypatch.setattr(StoreReader, "prefetch", lambda self, **wanted: None)
        calls = iter(range(1_000))
        monkeypatch.setattr(
            MemoryExecutions, "tasks", lambda self, one, refs: failing(self, one, refs) if next(calls) else real(self, one, refs)
        )
        with pytest.raises(type(error)) as second:
            engine.update_task(result)
        assert next(calls) > 1
        monkeypatch.setattr(MemoryExecutions, "tasks", real)
        monkeypatch.setattr(StoreReader, "prefetch", prefetch)
        assert first.value is second.value is error
        assert engine.history(run.workflow_id) == before
        assert run.workflow.broken_turns == 0
        engine.update_task(result)
        assert [str(task.status) for task in run.workflow.tasks] == ["COMPLETED", "SCHEDULED"]


# ---------------------------------------------------------------------------------------------- scripts


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An engine on each store, on the machine's clock."""
    with Engine(*([] if request.param == "memory" else [tmp_path / "store.db"])) as made:
        yield made


def carried_out(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[int], None]) -> list[str]:
    """Scripts from now on, which are not carried out; something happens at each."""
    asked: list[str] = []

    def ask(language: Any, line: bytes, *_: Any) -> str:
        request = json.loads(line)
        if request["run"]:
            asked.append(request["text"])
            meanwhile(len(asked))
        return "=7"

    monkeypatch.setattr(processes, "_ask", ask)
    return asked


@pytest.mark.parametrize("where", ["outside", "inside", "in a plan that seems to have none"])
def test_nobody_waits_for_the_store_while_a_script_is_carried_out(
    engine: Engine, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread writes meanwhile; also when the turn is decided inside the write, for which its scripts are asked before."""
    others: list[str] = []

    def meanwhile(number: int) -> None:
        assert not engine.backend._mutex.owned()  # type: ignore[attr-defined]
        thread = threading.Thread(target=lambda: others.append(engine.start(flow(simple("z"))).workflow_id), daemon=True)
        thread.start()
        thread.join(20)
        assert len(others) == number

    asked = carried_out(monkeypatch, meanwhile)
    engine.core.turns.read_inside = where == "inside"
    if where == "in a plan that seems to have none":
        monkeypatch.setattr(compiling, "runs_foreign_code", lambda *given, **options: False)
    run = engine.start(flow(simple("a"), inline("i", "[1].map(Number)[0]"), inline("k", "[2].map(Number)[0]")))
    (task,) = engine.poll("a")
    engine.update_task(TaskResult(workflow_id=run.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED))
    assert run.workflow.status == "COMPLETED"
    assert [task.output.value for task in run.workflow.tasks[1:]] == [{"result": 7}] * 2
    assert asked == ["[1].map(Number)[0]", "[2].map(Number)[0]"]


def test_rows_that_change_while_a_script_is_carried_out_make_the_turn_begin_anew(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read after it would be of another instant."""
    decided: list[Turn] = []
    real = TurnDecider.decide
    monkeypatch.setattr(TurnDecider, "decide", lambda self, turn: decided.append(turn) or real(self, turn))
    variable = simple("b", input_parameters={"n": "${workflow.variables.n}", "c": "${c.output.x}"})
    run = engine.start(flow(simple("a"), inline("i", "[3].map(Number)[0]"), variable, simple("c")))

    def meanwhile(number: int) -> None:
        if number == 1:
            engine.update_variables(run.workflow_id, {"n": 5})

    carried_out(monkeypatch, meanwhile)
    (task,) = engine.poll("a")
    decided.clear()
    engine.update_task(TaskResult(workflow_id=run.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED))
    assert [[str(event.kind) for event in turn.events] for turn in decided] == [["REPORT"], ["VARIABLES"], ["REPORT"]]
    assert run.workflow.tasks[-1].input.value["n"] == 5
    assert run.workflow.broken_turns == 0
