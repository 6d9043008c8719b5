"""Every verb on an execution in every status: the table of `docs/verbs_by_status.py`, cell by cell, on each store."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from engine_kit import Bench, NewBench, flow, fork, join, simple

from conductorlite import (
    ConductorliteError,
    Task,
    TaskResult,
    TaskStatus,
    WorkflowDef,
    WorkflowTask,
    WorkflowTimeoutPolicy,
)

TABLE = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "verbs_by_status.py"))

NEVER_RETRIED = {"retry_count": 0}


def definition(*, compensated: bool = False, **fields: Any) -> WorkflowDef:
    """`d`, then `a`, `c` and a HUMAN side by side, then `z`."""
    undo = WorkflowTask(name="u", task_reference_name="u") if compensated else None
    branches = [simple("a", NEVER_RETRIED)], [simple("c")], [WorkflowTask(name="h", task_reference_name="h", type="HUMAN")]
    return flow(
        simple("d", compensate=undo),
        fork("f", *branches),
        join("j", "a", "c", "h"),
        simple("z"),
        timeout_ms=600_000,
        timeout_policy=WorkflowTimeoutPolicy.TIME_OUT_WF,
        **fields,
    )


class Scene:
    """An execution in one status, and the task `a`, which was polled while it ran."""

    def __init__(self, bench: Bench, status: str) -> None:
        self.bench = bench
        self.engine = bench.engine
        bench.start(definition(compensated=status.startswith("compensat")))
        bench.do("d")
        self.one = bench.workflow_id
        self.task = bench.take("a")
        getattr(self, f"_{status.lower()}")()
        bench.engine.settle()

    def _running(self) -> None:
        """As it is."""

    def _missing(self) -> None:
        self.engine.terminate(self.one)
        self.one = "nowhere"
        self.task = attrs.evolve(self.task, workflow_id="nowhere", task_id="nowhere")

    def _paused(self) -> None:
        self.engine.pause(self.one)

    def _completed(self) -> None:
        self.bench.report(self.task)
        self.bench.do("c")
        self.engine.signal(self.one)
        self.bench.do("z")

    def _failed(self) -> None:
        self.bench.report(self.task, "FAILED")

    def _timed_out(self) -> None:
        self.bench.at(600)

    def _terminated(self) -> None:
        self.engine.terminate(self.one)

    def _compensating(self) -> None:
        self.bench.report(self.task, "FAILED")

    def _compensated(self) -> None:
        self.bench.report(self.task, "FAILED")
        self.bench.do("u")

    def _parked(self) -> None:
        with self.engine.backend.writing() as tx:
            tx.executions.park(self.one, 3, "a law")

    def _removed(self) -> None:
        self.engine.terminate(self.one)
        self.engine.admin.remove(self.one)

    def _archived(self) -> None:
        self.engine.terminate(self.one)
        self.engine.admin.archive(self.one)

    def state(self) -> object:
        """All that is stored of the execution."""
        with self.engine.backend.reading() as view:
            row = view.executions.workflow(self.one)
            inbox = sorted(view.inbox.events(self.one), key=lambda event: event.event_id)
            history = view.history.lines(self.one) if row is not None else None
            return row, view.executions.attempts(self.one), inbox, history, view.archive.archived(self.one)

    def inbox(self) -> int:
        """How many events wait."""
        with self.engine.backend.reading() as view:
            return len(view.inbox.events(self.one))

    def result(self) -> TaskResult:
        """A report on `a`."""
        task = self.task
        return TaskResult(workflow_id=self.one, task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease)


def changes(verb: Callable[[Scene], object]) -> Callable[[Scene], str]:
    """Whether the verb changes anything."""

    def perform(scene: Scene) -> str:
        before = scene.state()
        verb(scene)
        return "nothing" if scene.state() == before else "done"

    return perform


#: Verbs that change nothing: one execution serves for all of them.
LOOKING: set[Callable[[Scene], str]] = set()


def answers(verb: Callable[[Scene], object]) -> Callable[[Scene], str]:
    """A verb that looks, which must change nothing."""

    def perform(scene: Scene) -> str:
        before = scene.state()
        verb(scene)
        assert scene.state() == before
        return "answer"

    LOOKING.add(perform)
    return perform


def update_task(scene: Scene) -> str:
    """A report on `a`."""
    before, events = scene.state(), scene.inbox()
    scene.engine.update_task(scene.result())
    if scene.inbox() > events:
        return "kept"
    return "ignored" if scene.state() == before else "taken"


def poll(scene: Scene) -> str:
    """Ask for `c`, or in an execution that is compensated for `u`."""
    before = scene.state()
    found: list[Task] = [*scene.engine.poll("c"), *scene.engine.poll("u")]
    assert found or scene.state() == before
    return "task" if found else "none"


def log(scene: Scene) -> str:
    """Keep a line with `a`."""
    before = scene.state()
    scene.engine.tasks.log(scene.task, "a line")
    assert scene.state() == before
    return "done" if scene.engine.tasks.logs(scene.task.task_id) else "nothing"


VERBS: dict[str, Callable[[Scene], str]] = {
    "`pause`": changes(lambda x: x.engine.pause(x.one)),
    "`resume`": changes(lambda x: x.engine.resume(x.one)),
    "`terminate`": changes(lambda x: x.engine.terminate(x.one)),
    "`retry`": changes(lambda x: x.engine.retry(x.one)),
    "`restart`": changes(lambda x: x.engine.restart(x.one)),
    "`rerun`": changes(lambda x: x.engine.rerun(x.one)),
    "`rerun`, from a task": changes(lambda x: x.engine.rerun(x.one, from_task="a")),
    "`fork`, `plan_fork`": answers(lambda x: (x.engine.plan_fork(x.one, at="a"), x.engine.fork(x.one, at="a"))),
    "`skip_task`": changes(lambda x: x.engine.skip_task(x.one, "z")),
    "`signal`": changes(lambda x: x.engine.signal(x.one)),
    "`update_variables`": changes(lambda x: x.engine.update_variables(x.one, {"x": 1})),
    "`migrate`": changes(lambda x: x.engine.definitions.migrate(x.one, definition(version=2, description="another"))),
    "`decide`": changes(lambda x: x.engine.admin.decide(x.one)),
    "`remove`": changes(lambda x: x.engine.admin.remove(x.one)),
    "`archive`": changes(lambda x: x.engine.admin.archive(x.one)),
    "`poll`": poll,
    "`update_task`": update_task,
    "`extend_lease`": lambda x: "yes" if x.engine.tasks.extend_lease(x.task) else "no",
    "`log`": log,
    "`get`": answers(lambda x: x.engine.get(x.one)),
    "`execution`, `status`": answers(lambda x: (x.engine.core.queries.execution(x.one), x.engine.status(x.one))),
    "`history`": answers(lambda x: x.engine.history(x.one)),
    "`children`": answers(lambda x: x.engine.admin.children(x.one)),
    "`explain`": answers(lambda x: x.engine.explain(x.one)),
    "`export`": answers(lambda x: x.engine.admin.export(x.one)),
    "`check`, `repair`": answers(lambda x: (x.engine.admin.check(x.one), x.engine.admin.repair(x.one))),
    "`task`": answers(lambda x: x.engine.tasks.get(x.task.task_id)),
    "`task_logs`": answers(lambda x: x.engine.tasks.logs(x.task.task_id)),
}


def perform(scene: Scene, verb: str) -> str:
    """What the verb does: a word of the table, or the exception's name."""
    try:
        return VERBS[verb](scene)
    except ConductorliteError as error:
        named = scene.one in str(error) or scene.task.task_id in str(error)
        return type(error).__name__ if named else f"{type(error).__name__} that does not say of what: {error}"


def test_the_table_is_whole() -> None:
    """There is a row for each verb that is performed here, with a cell for each status, and every word is explained."""
    assert list(TABLE["CELLS"]) == list(VERBS)
    for cells in TABLE["CELLS"].values():
        assert len(cells) == len(TABLE["STATUSES"])
        assert all(cell in TABLE["WORDS"] or cell[0].isupper() for cell in cells)


@pytest.mark.parametrize("verb", [verb for verb, does in VERBS.items() if does not in LOOKING])
def test_a_verb_in_every_status(new_bench: NewBench, verb: str) -> None:
    """The verb does what its row says."""
    found = tuple(perform(Scene(new_bench(), status), verb) for status in TABLE["STATUSES"])
    assert found == TABLE["CELLS"][verb]


def test_verbs_that_look_in_every_status(new_bench: NewBench) -> None:
    """Each does what its row says, and leaves what the others look at as it is."""
    scenes = [Scene(new_bench(), status) for status in TABLE["STATUSES"]]
    for verb in (verb for verb, does in VERBS.items() if does in LOOKING):
        assert tuple(perform(scene, verb) for scene in scenes) == TABLE["CELLS"][verb], verb
