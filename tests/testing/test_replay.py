"""Export and replay: what a document holds, what a replay does with it, and how each is refused when it is wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conductorlite import (
    Engine,
    EngineConfig,
    SubWorkflowParams,
    Task,
    TaskContext,
    TaskDef,
    TaskResult,
    TaskStatus,
    VirtualClock,
    Workers,
    WorkflowDef,
    WorkflowStatus,
    WorkflowTask,
)
from conductorlite.errors import AlreadyExists, ExecutionNotFound, InvalidInput, ReplayDiverged
from conductorlite.testing import replay, timeline

Json = dict[str, Any]

T0 = 1_900_000_000_000


def simple(ref: str, **fields: Any) -> WorkflowTask:
    """A task whose name is its reference, tried once more after a second."""
    definition = TaskDef(name=ref, **{"retry_count": 1, "retry_delay_ms": 1_000, "response_timeout_ms": 5_000, **fields})
    return WorkflowTask(name=ref, task_reference_name=ref, task_definition=definition)


class Life:
    """One execution `w` on a virtual clock, its workers played by hand."""

    def __init__(self, *tasks: WorkflowTask, engine: dict[str, Any] | None = None, **options: Any) -> None:
        self.engine = Engine(clock=VirtualClock(T0), config=EngineConfig(seed="life"), **engine or {})
        self.engine.start(WorkflowDef(name="flow", tasks=tasks), options.pop("input", {"n": 1}), workflow_id="w", **options)

    def take(self, name: str, **options: Any) -> Task:
        """Poll one task that must be there."""
        return self.engine.poll(name, worker_id="ann", **options)[0]

    def report(self, task: Task, status: str = "COMPLETED", output: dict[str, Any] | None = None, **said: Any) -> None:
        """Report on a task under its lease."""
        self.engine.update_task(
            TaskResult(
                workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus(status), output_data=output or {},
                lease=task.lease, **said,
            )
        )  # fmt: skip

    def document(self) -> dict[str, Any]:
        """The export, as it comes out of a file."""
        found: dict[str, Any] = json.loads(json.dumps(self.engine.admin.export("w")))
        return found

    def again(self) -> None:
        """Replay it; the history must be the same text too."""
        replayed = replay(self.document())
        for one in replayed.workflow_ids:
            assert timeline(replayed.engine, one, payloads=True) == timeline(self.engine, one, payloads=True)
        replayed.engine.close()


def failed_once() -> Life:
    """An execution whose only task failed, was retried, and completed."""
    life = Life(simple("a"))
    life.report(life.take("a"), "FAILED", reason="no route")
    life.engine.advance("1s")
    life.report(life.take("a"), "COMPLETED", {"x": 7})
    return life


def test_what_a_document_holds() -> None:
    """The definition by hash, seed, semantics and versions, the input, every outcome with its cause; no lease and no fence."""
    document = failed_once().document()
    assert (document["format"], document["formatVersion"], document["workflowId"]) == ("conductorlite/execution", 1, "w")
    (one,) = document["executions"]
    assert document["definitions"][one["definitionHash"]]["tasks"][0]["taskDefinition"]["retryCount"] == 1
    assert (one["seed"], one["semantics"], one["deciderVersion"], one["input"]) == ("life", "ORKES", 1, {"n": 1})
    assert [(line["at"] - T0, line["status"], line.get("cause", {}).get("kind")) for line in one["history"]] == [
        (0, "RUNNING", "START"),
        (0, "SCHEDULED", None),
        (0, "IN_PROGRESS", "POLL"),
        (0, "FAILED", "REPORT"),
        (0, "SCHEDULED", None),
        (1_000, "IN_PROGRESS", "POLL"),
        (1_000, "COMPLETED", "REPORT"),
        (1_000, "COMPLETED", None),
    ]
    assert one["history"][2]["cause"] == {"kind": "POLL", "worker": "ann"}
    assert one["history"][3]["reason"] == "no route"
    assert not {"lease", "fence"} & set(json.dumps(document).replace('"', " ").split())


def test_a_replay_leaves_an_engine_that_goes_on(tmp_path: Path) -> None:
    """The replayed execution is a whole one: on a database, on its own clock, it can be driven further."""
    life = Life(simple("a"), simple("b"))
    life.report(life.take("a"), "COMPLETED", {"x": 1})
    replayed = replay(json.dumps(life.engine.admin.export("w")), store=tmp_path / "again.db")
    assert (replayed.workflow_id, replayed.workflow_ids, replayed.lines) == ("w", ("w",), 5)
    engine = replayed.engine
    assert engine.admin.check() == []
    task = engine.poll("b")[0]
    engine.update_task(TaskResult(workflow_id="w", task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease))
    assert engine.status("w") is WorkflowStatus.COMPLETED
    engine.close()
    with pytest.raises(AlreadyExists, match="'w'"):
        replay(life.document(), store=tmp_path / "again.db")


def test_signs_of_life_are_derived() -> None:
    """A task kept alive by its worker does not time out in the replay, and does when the worker fell silent at last."""
    life = Life(simple("a"), simple("b"))
    task = life.take("a")
    for _ in range(4):
        life.engine.advance("4s")
        assert life.engine.tasks.extend_lease(task)
    life.again()
    life.engine.advance("5s")
    life.engine.advance("1s")
    assert life.engine.get("w").tasks[0].status is TaskStatus.TIMED_OUT
    life.again()
    kept = life.take("a")
    life.engine.advance("4s")
    life.engine.tasks.extend_lease(kept)
    life.engine.advance("4s")
    replayed = replay(life.document())
    assert replayed.engine.get("w").task("a").status is TaskStatus.IN_PROGRESS
    replayed.engine.advance("4s")
    assert replayed.engine.get("w").task("a").status is TaskStatus.IN_PROGRESS
    replayed.engine.close()


def test_reports_that_move_no_status() -> None:
    """What is put out by a task that stays as it is can be read by others, so the history tells it; a callback too."""
    human = WorkflowTask(name="h", task_reference_name="h", type="HUMAN")
    fork = WorkflowTask(name="f", task_reference_name="f", type="FORK_JOIN", fork_tasks=[[human], [simple("a"), simple("b")]])
    life = Life(fork, WorkflowTask(name="j", task_reference_name="j", type="JOIN", join_on=["h", "b"]))
    life.engine.signal("w", {"half": 1}, task="h", status=TaskStatus.IN_PROGRESS)
    life.report(life.take("a"), "IN_PROGRESS", {"so": "far"}, callback_after_ms=3_000, reason="slow")
    lines = life.engine.history("w")
    assert [line.payload.value for line in lines if line.kind == "REPORT" and line.payload] == [{"half": 1}]
    assert lines[-1].payload is not None
    assert lines[-1].payload.value == {"so": "far"}
    life.engine.advance("3s")
    life.report(life.take("a"), "COMPLETED")
    life.again()


def test_domains_and_priorities() -> None:
    """A poll in a domain is done again without anybody polling there."""
    life = Life(simple("a"), task_to_domain={"a": "eu"}, priority=7, correlation_id="c")
    life.report(life.take("a", domain="eu"), "COMPLETED")
    replayed = replay(life.document())
    row = replayed.engine.get("w")
    assert (row.priority, row.correlation_id, row.task("a").domain, row.status) == (7, "c", "eu", "COMPLETED")
    replayed.engine.close()


def test_a_start_later_and_the_verbs() -> None:
    """A delayed start, pause with what it holds, variables, skip, terminate with a reason, retry, rerun and restart."""
    life = Life(simple("a"), simple("b"), simple("c"), delay="10s")
    engine = life.engine
    engine.advance("10s")
    engine.pause("w")
    life.report(life.take("a"))
    engine.advance("90s")
    engine.update_variables("w", {"k": [1]})
    engine.resume("w")
    engine.settle()
    engine.skip_task("w", "c", output={"skipped": True})
    engine.terminate("w", "enough")
    engine.retry("w")
    life.report(life.take("b"))
    engine.rerun("w", from_task="b", task_input={"again": 1})
    life.report(life.take("b"))
    engine.terminate("w")
    engine.restart("w")
    assert engine.status("w") is WorkflowStatus.RUNNING
    life.again()


def test_variables_named_like_our_own_words() -> None:
    """What a verb was given is never taken for what the history says itself."""
    life = Life(simple("a"))
    life.engine.update_variables("w", {"definitionHash": "x", "dropped": ["a"], "to": {"definitionHash": "y"}})
    assert life.engine.admin.check() == []
    assert str(life.engine.explain("w", "a")).startswith("a waits for a worker")
    life.again()


def test_children_and_failure_workflows() -> None:
    """Executions below are in the document, each with its own history, and are lived again with the one above."""
    inner = WorkflowDef(name="inner", tasks=[simple("x", retry_count=0)])
    sub = WorkflowTask(
        name="s", task_reference_name="s", type="SUB_WORKFLOW",
        sub_workflow_param=SubWorkflowParams(name="inner", workflow_definition=inner),
    )  # fmt: skip
    engine = Engine(clock=VirtualClock(T0), config=EngineConfig(seed="life"))
    engine.register(WorkflowDef(name="mourn", tasks=[simple("m")]))
    engine.start(WorkflowDef(name="flow", tasks=[sub], failure_workflow="mourn"), workflow_id="w")
    task = engine.poll("x")[0]
    engine.update_task(TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.FAILED, reason="no"))
    document = json.loads(json.dumps(engine.admin.export("w")))
    assert [one["workflowName"] for one in document["executions"]] == ["flow", "inner", "mourn"]
    replayed = replay(document)
    assert set(replayed.workflow_ids) == set(engine.admin.workflow_ids())
    assert str(replayed.engine.explain("w")) == str(engine.explain("w"))
    # An execution that another one has begun, on its own: whom it tells of its end is not there.
    alone = replay(engine.admin.export(task.workflow_id))
    assert timeline(alone.engine, task.workflow_id) == timeline(engine, task.workflow_id)
    assert list(alone.engine.admin.workflow_ids()) == [task.workflow_id]


def test_the_environment_is_not_exported() -> None:
    """What `${NAME}` stood for is given to the replay again; without it the first line that differs is told."""
    task = WorkflowTask(name="a", task_reference_name="a", input_parameters={"region": "${REGION}"})
    life = Life(task, engine={"environment": {"REGION": "eu"}})
    replay(life.document(), environment={"REGION": "eu"}).engine.close()
    with pytest.raises(ReplayDiverged) as caught:
        replay(life.document())
    assert caught.value.workflow_id == "w"
    assert '"region":"eu"' in (caught.value.expected or "")
    assert '"region":null' in (caught.value.actual or "")
    assert "exported: " in str(caught.value)
    assert "replayed: " in str(caught.value)


def tampered(change: Any) -> dict[str, Any]:
    """A document that was changed."""
    document = copy.deepcopy(failed_once().document())
    change(document)
    return document


def _line(number: int, **fields: Any) -> Any:
    def change(document: dict[str, Any]) -> None:
        document["executions"][0]["history"][number].update(fields)

    return change


@pytest.mark.parametrize(
    ("change", "expected", "actual"),
    [
        (_line(1, payload={"other": 1}), '"payload":{"other":1}', '"payload":{}'),
        (_line(4, at=T0 + 1), '"n":5,', '"n":5,'),
        (_line(6, status="TIMED_OUT"), "TIMED_OUT", None),
        (_line(7, payload={"x": 8}), '"x":8', '"x":7'),
        (_line(3, cause={}), '"FAILED"', None),
        (lambda document: document["executions"][0].update(input={"n": 2}), '"n":1}', '"n":2}'),
        (lambda document: document["executions"][0]["history"].pop(), None, '"WORKFLOW"'),
    ],
)  # fmt: skip
def test_a_changed_document_is_found_out(change: Any, expected: str | None, actual: str | None) -> None:
    """Whatever line does not follow from what came before is told, with what follows instead."""
    with pytest.raises(ReplayDiverged) as caught:
        replay(tampered(change))
    for part, text in ((expected, caught.value.expected), (actual, caught.value.actual)):
        assert part is None or part in (text or ""), str(caught.value)


def _without(*path: Any) -> Any:
    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        del document[path[-1]]

    return change


def _with(value: Any, *path: Any) -> Any:
    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_with("zip", "format"), r"\$\.format: 'zip' is not 'conductorlite/execution'"),
        (_with(2, "formatVersion"), r"\$\.formatVersion: 2 is not known"),
        (_with({}, "definitions"), r"\$\.executions\[0\]\.definitionHash: the definition [0-9a-f]+ is missing"),
        (_with([], "definitions"), r"\$\.definitions: '\[\]' is a list, not a dict"),
        (_without("executions", 0, "seed"), r"\$\.executions\[0\]\.seed is missing"),
        (_with("now", "executions", 0, "createTime"), r"\$\.executions\[0\]\.createTime: 'now' is a str, not a int"),
        (_with("ELSE", "executions", 0, "semantics"), r"\$\.executions\[0\]\.semantics: 'ELSE' is none of"),
        (_with([], "executions", 0, "history"), r"\$\.executions\[0\]\.history is empty"),
        (_with(None, "executions", 0, "history", 2, "at"), r"\$\.executions\[0\]\.history\[2\]\.at: 'None' is a NoneType"),
        (_with("ODD", "executions", 0, "history", 2, "kind"), r"\$\.executions\[0\]\.history\[2\]\.kind: 'ODD' is none of"),
        (_with(9, "executions", 0, "history", 2, "n"), r"\$\.executions\[0\]\.history\[2\]\.n: 9 is not 3"),
        (_with(3, "executions", 0, "history", 2, "cause"), r"\$\.executions\[0\]\.history\[2\]\.cause: '3' is a int"),
        (_with(["gone"], "executions", 0, "history", 0, "cause", "used"), r"history\[0\]: the definition gone is missing"),
        (_with({"kind": "ODD"}, "executions", 0, "history", 2, "cause"), r"history\[2\]\.cause\.kind: 'ODD' is none of"),
        (_with(0, "bounds", "rows"), r"\$\.bounds\.rows: 0 is below 1"),
        (_with("x", "workflowId"), r"\$\.workflowId: 'x' is not the first"),
        (_with([7], "executions"), r"\$\.executions\[0\]: a map is needed, not a int"),
    ],
)  # fmt: skip
def test_a_document_that_is_none(change: Any, said: str) -> None:
    """A document that cannot be read is refused with the place of what is wrong, before anything is started."""
    with pytest.raises(InvalidInput, match=said):
        replay(tampered(change))


def test_a_changed_definition() -> None:
    """A definition that is not the one of its hash is refused."""
    document = failed_once().document()
    (hashed,) = document["definitions"]
    document["definitions"][hashed]["name"] = "other"
    with pytest.raises(InvalidInput, match=rf"\$\.definitions\.{hashed}: the definition was changed"):
        replay(document)
    with pytest.raises(InvalidInput, match="an export is a map, not a list"):
        replay("[]")


def test_an_unknown_execution() -> None:
    """An execution that is not there cannot be exported."""
    with pytest.raises(ExecutionNotFound, match="'nowhere'"):
        Engine().admin.export("nowhere")


def test_the_variables_of_a_definition() -> None:
    """An execution begins with them, in its replay as well."""
    life = Life(simple("a", retry_count=0), engine=None)
    definition = WorkflowDef(
        name="v", tasks=[simple("b", retry_count=0)], variables={"v": 1}, output_parameters={"v": "${workflow.variables.v}"}
    )
    life.engine.start(definition, workflow_id="v")
    life.report(life.take("b"), "FAILED", reason="no")
    replayed = replay(life.engine.admin.export("v"))
    assert replayed.engine.get("v").output_data == {"v": 1}
    replayed.engine.close()


def test_what_was_said_to_and_by_an_execution_comes_with_it(tmp_path: Path) -> None:
    """Messages, received and not, values kept, dropped and open, and latest values: the export of the replay is the same one."""
    workers = Workers()

    @workers.task("speak", retry_count=1, retry_delay_seconds=1)
    def speak(context: TaskContext = TaskContext.given) -> None:
        for number in range(130):
            context.emit([context.attempt, number], stream="tokens")
        context.progress(1, 2)
        if not context.attempt:
            raise ValueError("once more")

    tasks: list[Json] = [
        {"name": "said", "taskReferenceName": "said", "type": "EMIT", "inputParameters": {"value": "first"}},
        {"name": "speak", "taskReferenceName": "speak"},
        {"name": "last", "taskReferenceName": "last", "type": "EMIT", "inputParameters": {"value": "second"}},
        {"name": "p", "taskReferenceName": "p", "type": "PULL_WORKFLOW_MESSAGES", "inputParameters": {"topic": "x"}},
        {"name": "open", "taskReferenceName": "open", "taskDefinition": {"name": "open", "responseTimeoutSeconds": 60}},
    ]
    with Engine(clock=VirtualClock(0), workers=workers) as engine:
        run = engine.start(WorkflowDef.from_json({"name": "says", "tasks": tasks}))
        engine.send(run.workflow_id, "x", {"n": 1}, key="k")
        engine.send(run.workflow_id, "y", "for nobody")
        run.set_value("mood", "good")
        engine.advance("5s")
        for values in ((1, 2), (3,)):
            (task,) = engine.poll("open")
            engine.streams.emit(task, *values)
            if values != (3,):
                again = TaskResult(workflow_id=run.workflow_id, task_id=task.task_id, status=TaskStatus.IN_PROGRESS)
                engine.update_task(again)
        document = json.loads(json.dumps(engine.admin.export(run.workflow_id)))
        told = [*map(str, engine.streams.items(run.workflow_id, limit=1_000)), *map(str, engine.streams.values(run.workflow_id))]
        messages = engine.messages(run.workflow_id)
    assert len(told) == 1 + 130 + 1 + 3 + 2
    for store in (None, tmp_path / "s.db"):
        again = replay(document, store=store)
        with again.engine as other:
            assert other.admin.export(again.workflow_id) == document
            items = other.streams.items(again.workflow_id, limit=1_000)
            assert [*map(str, items), *map(str, other.streams.values(again.workflow_id))] == told
            assert other.messages(again.workflow_id) == messages
            assert other.admin.check() == []
            other.streams.emit(other.get(again.workflow_id).task("open"), 4)
            last = items[-1].number
            assert [item.number for item in other.streams.items(again.workflow_id, after=last)] == [last + 1]
            assert other.admin.check() == []
            new = other.fork(again.workflow_id, at="p")
            assert [(one.topic, one.receiver) for one in other.messages(new.workflow_id)] == [("x", "p")]
            assert other.streams.items(new.workflow_id) == []
            assert other.admin.check() == []
            other.terminate(again.workflow_id)
            assert not [item for item in other.streams.items(again.workflow_id, limit=1_000) if item.ref == "open"]
            other.admin.archive(again.workflow_id)
            archived = other.admin.export(again.workflow_id)
        with replay(archived).engine as third:
            assert third.admin.check() == []
            assert len(third.streams.items(again.workflow_id, limit=1_000)) == 1 + 130 + 1
            assert third.admin.export(again.workflow_id) == archived


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda calls: calls[0].pop("taskId"), r"emitted\[0\]\.taskId is missing"),
        (lambda calls: calls[0].update(state="GONE"), r"emitted\[0\]\.state: 'GONE'"),
        (lambda calls: calls[0].update(chunks=[]), r"emitted\[0\]\.chunks is empty"),
        (lambda calls: calls[0]["chunks"][0].update(first=7), r"emitted: number 7 follows number 0"),
        (lambda calls: calls[0]["chunks"][0].update(values=[]), r"chunks\[0\]\.values is empty"),
        (lambda calls: calls.append({**calls[0], "chunks": [{**calls[0]["chunks"][0], "first": 2}]}), "a call is there twice"),
    ],
)
def test_damaged_values_are_refused_by_their_place(change: Callable[[list[Json]], object], place: str) -> None:
    """As everything in a document is."""
    task = {"name": "said", "taskReferenceName": "said", "type": "EMIT", "inputParameters": {"value": "first"}}
    with Engine(clock=VirtualClock(0)) as engine:
        run = engine.start(WorkflowDef.from_json({"name": "says", "tasks": [task]}))
        document = engine.admin.export(run.workflow_id)
    change(document["executions"][0]["emitted"])
    with pytest.raises(InvalidInput, match=place):
        replay(document)
