"""A turn that ends its process is taken three times, not for ever: then its execution is parked, and the others go on."""

from __future__ import annotations

import logging
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from conductorlite import Engine, TaskResult, TaskStatus, VirtualClock, WorkflowDef, WorkflowStatus
from conductorlite.engine.turn_types import new_event
from conductorlite.model.clock import Clock
from conductorlite.model.decisions import EventKind
from conductorlite.plan.compile import compile_plan
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.sqlite.processes import FileMarks
from conductorlite.testing import FaultyBackend

pytest.importorskip("fcntl", reason="marks need locks that end with their process")

T0 = 1_900_000_000_000


def waits(name: str, *, foreign: bool) -> WorkflowDef:
    """A second, and then something; `foreign` if that may run somebody else's code."""
    wait = {"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "1 s"}}
    value = "${workflow.input.x[*].y}" if foreign else "${workflow.input.x}"
    then = {"name": "v", "taskReferenceName": "v", "type": "SET_VARIABLE", "inputParameters": {"y": value}}
    return WorkflowDef.from_json({"name": name, "tasks": [wait, then]})


def dies(act: Callable[[], object]) -> bool:
    """Do something in a process of its own; whether it was killed."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            act()
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def kill_at(label: str) -> Callable[[str], None]:
    """Die at a write of that name."""

    def at(name: str) -> None:
        if name.startswith(label):
            os.kill(os.getpid(), signal.SIGKILL)

    return at


def drive(path: Path, clock: Clock, label: str = "apply WAIT_ENDS") -> None:
    """All that is due, and death in the turn of whatever waited."""
    with Engine(FaultyBackend(SQLiteBackend(path), on_write=kill_at(label)), clock=clock) as engine:
        engine.settle()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store lies."""
    return tmp_path / "w.db"


@pytest.fixture
def clock(path: Path) -> VirtualClock:
    """A clock at which `bad` is due; `good` has a task for a worker, and its events come after."""
    clock = VirtualClock(T0)
    with Engine(path, clock=clock) as engine:
        engine.start(waits("bad", foreign=True), workflow_id="bad")
        clock.move_to(T0 + 500)
        engine.start(waits("good", foreign=False), workflow_id="good")
    clock.move_to(T0 + 5_000)
    return clock


def test_the_third_death_is_the_last(path: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    """After three deaths the execution is parked, with the reason; the other one ends. Resumed, it has its chance again."""
    for _ in range(3):
        assert dies(lambda: drive(path, clock))
    with caplog.at_level(logging.WARNING, "conductorlite"), Engine(path, clock=clock) as engine:
        engine.settle()
        parked = engine.core.queries.execution("bad").parked
        assert parked == "its turn over WAIT_ENDS of 'w' ended the process three times running"
        assert [record.getMessage() for record in caplog.records] == [f"bad is parked: {parked}"]
        assert engine.status("good") is WorkflowStatus.COMPLETED
        assert parked in str(engine.explain("bad"))
        assert engine.admin.check() == []
        engine.resume("bad")
        engine.settle()
        assert engine.status("bad") is WorkflowStatus.COMPLETED
    assert not Path(f"{path}.marks").exists()


def test_a_commit_clears_it(path: Path, clock: VirtualClock) -> None:
    """Two deaths, and a turn that comes through: nothing is left of them."""
    for _ in range(2):
        assert dies(lambda: drive(path, clock))
    with Engine(path, clock=clock) as engine:
        engine.settle()
        assert engine.status("bad") is WorkflowStatus.COMPLETED
    assert not Path(f"{path}.marks").exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, OSError, MemoryError])
def test_what_is_raised_is_no_death(path: Path, clock: VirtualClock, error: type[BaseException]) -> None:
    """Ctrl-C, a signal handler that ends the program, an error: the process lives, and takes its mark back."""

    def fail(name: str) -> None:
        if name == "apply WAIT_ENDS":
            raise error

    for _ in range(4):
        engine = Engine(FaultyBackend(SQLiteBackend(path), on_write=fail), clock=clock)
        with suppress(BaseException):
            engine.core.turns.run_turn("bad")
        with suppress(BaseException):
            engine.close()
    with Engine(path, clock=clock) as engine:
        engine.settle()
        assert engine.core.queries.execution("bad").parked is None


def test_deaths_in_other_turns_do_not_count(path: Path) -> None:
    """Where no foreign code runs nothing is marked, and nothing lies beside the store."""
    clock = VirtualClock(T0)
    with Engine(path, clock=clock) as engine:
        engine.start(waits("good", foreign=False), workflow_id="good")
    clock.move_to(T0 + 5_000)
    for _ in range(4):
        assert dies(lambda: drive(path, clock))
        assert not Path(f"{path}.marks").exists()
    with Engine(path, clock=clock) as engine:
        engine.settle()
        assert engine.status("good") is WorkflowStatus.COMPLETED


def test_a_later_event_makes_it_no_other_turn(path: Path, clock: VirtualClock) -> None:
    """A turn is known by its first event, whatever has come after that."""
    for number in range(3):
        assert dies(lambda: drive(path, clock))
        later = new_event("bad", EventKind.VARIABLES, clock.now(), {"variables": {"n": number}})
        backend = SQLiteBackend(path)
        with backend.writing() as tx:
            tx.inbox.post([later])
        backend.close()
    with Engine(path, clock=clock) as engine:
        engine.settle()
        assert engine.core.queries.execution("bad").parked


# ---------------------------------------------------------------------- the files


@pytest.fixture
def marks(path: Path) -> Iterator[Callable[[], FileMarks]]:
    """Makes the marks of one more backend on the store."""
    path.touch()
    made: list[FileMarks] = []

    def make() -> FileMarks:
        made.append(FileMarks(str(path)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def marked(path: Path, key: str, *, killed: bool) -> None:
    """What a process does that dies in a turn, or comes out of it."""
    held = FileMarks(str(path))
    held.begin(key)
    if killed:
        os.kill(os.getpid(), signal.SIGKILL)
    held.end(key)
    os.kill(os.getpid(), signal.SIGKILL)


def test_only_deaths_inside_count(path: Path, marks: Callable[[], FileMarks]) -> None:
    """Deaths in a turn are counted by their key, whoever looks, and forgotten by it."""
    for key, killed in (("a", True), ("b", True), ("a", True), ("c", False)):
        assert dies(lambda key=key, killed=killed: marked(path, key, killed=killed))
    one, other = marks(), marks()
    for each in (one, other):
        assert [each.deaths(key) for key in "abc"] == [2, 1, 0]
    one.forget("a")
    assert [other.deaths(key) for key in "abc"] == [0, 1, 0]


def test_who_lives_is_not_dead(path: Path, marks: Callable[[], FileMarks]) -> None:
    """A turn under way elsewhere is no death, until its process dies; nor one of another engine in this process."""
    said, told = os.pipe()
    child = os.fork()
    if child == 0:
        held = FileMarks(str(path))
        held.begin("a")
        os.write(told, b"!")
        signal.pause()
    assert os.read(said, 1) == b"!"
    mine, other = marks(), marks()
    other.begin("a")
    assert mine.deaths("a") == 0
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert mine.deaths("a") == 1
    for end in (said, told):
        os.close(end)


def test_closing_one_leaves_the_lock_of_another(path: Path, marks: Callable[[], FileMarks]) -> None:
    """Two engines in one process: what one does with its file, or looks at, lets go of nothing of the other's."""
    held, gone = marks(), marks()
    held.begin("a")
    gone.begin("b")
    assert gone.deaths("a") == 0
    gone.close()

    def look() -> None:
        if FileMarks(str(path)).deaths("a") == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    assert dies(look)


def test_a_forked_child_takes_nothing_away(path: Path, marks: Callable[[], FileMarks]) -> None:
    """Its parent's mark stays, and the lock with it."""
    held = marks()
    held.begin("a")
    assert not dies(held.close)
    assert len(list(Path(f"{path}.marks").iterdir())) == 1
    assert marks().deaths("a") == 0


def test_a_copy_has_no_deaths(path: Path, marks: Callable[[], FileMarks]) -> None:
    """What was copied along counts for the store it was made for."""
    marks().begin("x")
    assert dies(lambda: marked(path, "a", killed=True))
    shutil.copy(path, path.with_name("copy.db"))
    shutil.copytree(f"{path}.marks", path.with_name("copy.db.marks"))
    copied = FileMarks(str(path.with_name("copy.db")))
    assert copied.deaths("a") == 0
    copied.close()
    assert marks().deaths("a") == 1


def test_where_nothing_can_be_marked_one_goes_on(path: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    """It is told once."""
    Path(f"{path}.marks").write_text("a file in the way")
    with caplog.at_level(logging.WARNING, "conductorlite"), Engine(path, clock=clock) as engine:
        engine.settle()
        assert engine.status("bad") is WorkflowStatus.COMPLETED
    assert [record.getMessage().split(": ")[1].split(" (")[0] for record in caplog.records] == ["turns cannot be marked"]


# ---------------------------------------------------------------------- which turns


def task(kind: str, **fields: Any) -> dict[str, Any]:
    """One task in Conductor's JSON."""
    return {"name": "t", "taskReferenceName": "t", "type": kind, **fields}


FOREIGN = {
    "script": task("INLINE", inputParameters={"evaluatorType": "javascript", "expression": "1"}),
    "jq": task("JSON_JQ_TRANSFORM", inputParameters={"queryExpression": "."}),
    "switch": task("SWITCH", evaluatorType="javascript", expression="[$.x].map(String)[0]", decisionCases={"a": []}),
    "loop": task(
        "DO_WHILE", loopCondition="[1].map(Number)[0] > $.t['iteration']", loopOver=[{**task("NOOP"), "taskReferenceName": "n"}]
    ),
    "search": task("SIMPLE", inputParameters={"x": {"y": "a ${workflow.input..z} b"}}),
    "made at run time": task("DYNAMIC", dynamicTaskNameParam="x", inputParameters={"x": "y"}),
}
OWN = {
    "plain": task("SIMPLE", inputParameters={"x": "${workflow.input['a b'][0].c}"}),
    "value": task("SWITCH", evaluatorType="value-param", expression="x", inputParameters={"x": "a"}, decisionCases={"a": []}),
    "a switch of our own": task("SWITCH", evaluatorType="javascript", expression="$.x", decisionCases={"a": []}),
    "a loop of our own": task(
        "DO_WHILE", loopCondition="$.t['iteration'] < 2", loopOver=[{**task("NOOP"), "taskReferenceName": "n"}]
    ),
    "wait": task("WAIT", inputParameters={"duration": "1 s"}),
}


@pytest.mark.parametrize("name", [*FOREIGN, *OWN])
def test_which_plans_may_run_foreign_code(name: str) -> None:
    """Scripts, expressions that search, and what is only known at run time; a path that only names its place does not."""
    pytest.importorskip("jq", reason="needs the extra jq")
    definition = WorkflowDef.from_json({"name": "w", "tasks": [FOREIGN.get(name) or OWN[name]]})
    assert compile_plan(definition).foreign is (name in FOREIGN)


def test_a_report_that_kills_is_kept(path: Path) -> None:
    """The turn over a report that ends the process three times: the fourth report lies with the events that are kept."""
    clock = VirtualClock(T0)
    value = {"y": "${t.output.x[*].y}"}
    then = {"name": "v", "taskReferenceName": "v", "type": "SET_VARIABLE", "inputParameters": value}
    definition = WorkflowDef.from_json({"name": "bad", "tasks": [{"name": "t", "taskReferenceName": "t"}, then]})
    with Engine(path, clock=clock) as engine:
        engine.start(definition, workflow_id="bad")
        (held,) = engine.poll("t")
    result = TaskResult(workflow_id="bad", task_id=held.task_id, status=TaskStatus.COMPLETED, output_data={"x": [{"y": 1}]})

    def report() -> None:
        Engine(FaultyBackend(SQLiteBackend(path), on_write=kill_at("apply REPORT")), clock=clock).update_task(result)

    for _ in range(3):
        assert dies(report)
    with Engine(path, clock=clock) as engine:
        assert engine.update_task(result).status is TaskStatus.IN_PROGRESS
        assert engine.core.queries.execution("bad").parked
        engine.resume("bad")
        assert engine.status("bad") is WorkflowStatus.COMPLETED
        assert engine.get("bad").variables.fresh() == {"y": [1]}
