"""Replays in which the order of turns matters: events that replace each other, cut turns, a clock that was set back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conductorlite import Bounds, Engine, EngineConfig, TaskResult, TaskStatus, VirtualClock, WorkflowDef
from conductorlite.model.executions import HistoryKind
from conductorlite.testing import replay, timeline

T0 = 1_900_000_000_000

Json = dict[str, Any]


class LooseClock(VirtualClock):
    """A virtual clock that can be set back."""

    def set_back(self, span: int) -> None:
        """Go back by so many milliseconds."""
        self._set = [self.now() - span]


def node(ref: str, kind: str = "SIMPLE", **fields: Any) -> Json:
    """A task whose name is its reference."""
    return {"name": ref, "taskReferenceName": ref, "type": kind, **fields}


def child(ref: str, *tasks: Json) -> Json:
    """A SUB_WORKFLOW with an inline definition."""
    return node(ref, "SUB_WORKFLOW", subWorkflowParam={"workflowDefinition": {"name": "child", "tasks": list(tasks)}})


def version(number: int, *tasks: Json) -> WorkflowDef:
    """One version of a definition."""
    return WorkflowDef.from_json({"name": "flow", "version": number, "tasks": list(tasks)})


def lived(**options: Any) -> Engine:
    """An engine on a clock that can be set back."""
    return Engine(clock=LooseClock(T0), config=EngineConfig(seed="life", **options))


def again(engine: Engine) -> None:
    """Replay `w`: the document comes out the same, and the histories of what is below."""
    document = json.loads(json.dumps(engine.admin.export("w")))
    replayed = replay(document)
    for one in replayed.workflow_ids:
        assert timeline(replayed.engine, one, payloads=True) == timeline(engine, one, payloads=True)
    assert replayed.engine.admin.export("w") == document
    replayed.engine.close()


def test_two_events_of_one_name_within_an_instant() -> None:
    """A child was ended by its parent, resumed and ended again: each time it reads the event before the next takes its place."""
    engine = lived()
    engine.start(version(1, child("s", node("x"))), workflow_id="w")
    engine.terminate("w")
    engine.retry("w", resume_subworkflow_tasks=True)
    engine.terminate("w")
    again(engine)


def test_a_child_that_began_before_its_task_was_renamed() -> None:
    """What a parent that is resumed writes to its child again names the task as it is then; the child had begun before."""
    engine = lived()
    engine.start(version(1, child("s", node("x"))), workflow_id="w")
    engine.definitions.migrate("w", version(2, child("t", node("x"))), refs={"s": "t"})
    engine.terminate("w")
    engine.retry("w", resume_subworkflow_tasks=True)
    engine.definitions.migrate("w", version(3, child("u", node("x"))), refs={"t": "u"})
    again(engine)


def test_a_migration_behind_a_clock_that_was_set_back() -> None:
    """It is stamped with the last turn, which held a timer and has no line, and says what the clock read."""
    engine = lived()
    timed = node("a", taskDefinition={"name": "a", "pollTimeoutSeconds": 9, "timeoutPolicy": "ALERT_ONLY"})
    engine.start(version(1, timed), workflow_id="w")
    engine.pause("w")
    engine.advance("9s")
    clock = engine.clock
    assert isinstance(clock, LooseClock)
    clock.set_back(4_000)
    engine.definitions.migrate("w", version(2, timed, node("b")))
    line = next(line for line in engine.history("w") if line.kind is HistoryKind.MIGRATED)
    assert (line.at, json.loads(line.cause or "{}").get("clock")) == (T0 + 9_000, T0 + 5_000)
    again(engine)


def test_a_cut_turn_whose_rest_was_read_with_an_event() -> None:
    """A child ended before the rest of the turn that began it was taken: its end is told first."""
    engine = lived(bounds=Bounds(rows=3))
    engine.register(WorkflowDef.from_json({"name": "other", "tasks": [node("o")]}))
    begin = node("r", "START_WORKFLOW", inputParameters={"startWorkflow": {"name": "other"}})
    fork = node("f", "FORK_JOIN", forkTasks=[[child("s", node("p", "NOOP")), node("a")], [node("b")], [node("c")]])
    engine.start(version(1, begin, fork, node("j", "JOIN", joinOn=["a", "b", "c"])), workflow_id="w")
    engine.settle()
    refs = [line.ref for line in engine.history("w")]
    assert refs[refs.index("j") :] == ["j", "s", "s", "a", "b", "c"]
    again(engine)


def test_a_child_that_moves_by_itself_before_it_reads() -> None:
    """What was done to a child comes before the event that it reads next, and both before its parent writes again."""
    engine = lived()
    engine.start(version(1, child("s", node("x"))), workflow_id="w")
    engine.settle()
    engine.rerun(str(engine.get("w").task("s").sub_workflow_id), from_task="x")
    engine.terminate("w")
    engine.retry("w", resume_subworkflow_tasks=True)
    engine.terminate("w")
    again(engine)


def test_an_answer_of_which_no_line_tells() -> None:
    """A child that was compensated cannot be resumed: it says so, and has no line about it."""
    engine = lived()
    undone = node("q", "NOOP", compensate="undo")
    failing = node("x", taskDefinition={"name": "x", "retryCount": 0})
    engine.start(version(1, child("s", undone, failing)), workflow_id="w")
    for name, status in (("x", TaskStatus.FAILED), ("undo", TaskStatus.COMPLETED)):
        engine.settle()
        (task,) = engine.poll(name)
        engine.update_task(TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=status))
    engine.settle()
    engine.retry("w", resume_subworkflow_tasks=True)
    engine.settle()
    ends = [line.status for line in engine.history("w") if line.kind is HistoryKind.WORKFLOW]
    assert ends == ["RUNNING", "FAILED", "RUNNING", "FAILED"]
    again(engine)


def test_timeouts_of_one_instant_come_in_the_order_of_scheduling() -> None:
    """Two tasks time out in one instant, in the order in which they were scheduled, also after a sign of life."""
    engine = lived()

    def timed(ref: str) -> Json:
        return node(ref, taskDefinition={"name": ref, "responseTimeoutSeconds": 4, "retryCount": 1, "retryDelaySeconds": 9})

    fork = node("f", "FORK_JOIN", forkTasks=[[timed("a")], [timed("b")]])
    engine.start(version(1, fork, node("j", "JOIN", joinOn=["a", "b"])), workflow_id="w")
    (a,) = engine.poll("a")
    engine.advance("2s")
    engine.poll("b")
    engine.tasks.extend_lease(a)
    engine.advance("4s")
    late = [(line.at - T0, line.ref) for line in engine.history("w") if line.status == "TIMED_OUT"]
    assert late == [(6_000, "a"), (6_000, "b")]
    again(engine)


LIMITED = {"name": "a", "concurrentExecLimit": 1, "retryCount": 0}
RATED = {"name": "a", "rateLimitPerFrequency": 1, "rateLimitFrequencyInSeconds": 10, "retryCount": 0}


@pytest.mark.parametrize("options", [LIMITED, RATED], ids=["slots", "rate"])
@pytest.mark.parametrize("workflow_id", ["a", "w"])
@pytest.mark.parametrize("span", [0, 1_000])
def test_a_slot_given_at_the_instant_in_which_it_was_asked_for_again(options: Json, workflow_id: str, span: int) -> None:
    """A task that waited is paused, resumed, asks again and is let in: it asks before the slot is read, whatever their names."""
    engine = lived()
    definition = version(1, node("a", taskDefinition=options))
    engine.start(definition, workflow_id="first")
    engine.start(definition, workflow_id=workflow_id)
    (first,) = engine.poll("a")
    engine.pause(workflow_id)
    engine.advance(f"{span}ms")
    engine.resume(workflow_id)
    engine.advance("10s" if options is RATED else "0s")
    engine.update_task(TaskResult(workflow_id=first.workflow_id, task_id=first.task_id, status=TaskStatus.COMPLETED))
    engine.settle()
    assert engine.get(workflow_id).task("a").status is TaskStatus.SCHEDULED
    replayed = replay(engine.admin.export(workflow_id))
    assert timeline(replayed.engine, workflow_id) == timeline(engine, workflow_id)
    replayed.engine.close()


@pytest.mark.parametrize("workflow_id", ["v", "x"])
def test_an_execution_let_in_at_the_instant_in_which_it_asked_again(workflow_id: str) -> None:
    """The same of an execution that waits for its turn."""
    engine = lived()
    config = {"rateLimitKey": "all", "concurrentExecLimit": 1}
    definition = WorkflowDef.from_json({"name": "flow", "version": 1, "tasks": [node("a")], "rateLimitConfig": config})
    engine.start(definition, workflow_id="first")
    engine.start(definition, workflow_id=workflow_id)
    engine.pause(workflow_id)
    engine.resume(workflow_id)
    engine.terminate("first")
    engine.settle()
    assert engine.get(workflow_id).task("a").status is TaskStatus.SCHEDULED
    replayed = replay(engine.admin.export(workflow_id))
    assert timeline(replayed.engine, workflow_id) == timeline(engine, workflow_id)
    replayed.engine.close()


def test_a_slot_given_behind_a_clock_that_was_set_back() -> None:
    """A retry asked when its delay was over; then the clock was set back, and the slot given."""
    engine = lived()
    options = {"name": "a", "concurrentExecLimit": 1, "retryCount": 1, "retryLogic": "FIXED", "retryDelaySeconds": 4}
    definition = version(1, node("a", taskDefinition=options))
    engine.start(definition, workflow_id="w")
    (task,) = engine.poll("a")
    engine.start(definition, workflow_id="second")
    engine.update_task(TaskResult(workflow_id="w", task_id=task.task_id, status=TaskStatus.FAILED))
    (second,) = engine.poll("a")
    assert second.workflow_id == "second"
    engine.advance("4s")
    clock = engine.clock
    assert isinstance(clock, LooseClock)
    clock.set_back(3_000)
    engine.update_task(TaskResult(workflow_id="second", task_id=second.task_id, status=TaskStatus.COMPLETED))
    engine.settle()
    line = next(line for line in engine.history("w") if "GRANTED" in (line.cause or ""))
    assert (line.at, json.loads(line.cause or "{}")["clock"]) == (T0 + 4_000, T0 + 1_000)
    replayed = replay(engine.admin.export("w"))
    assert timeline(replayed.engine, "w") == timeline(engine, "w")
    replayed.engine.close()
