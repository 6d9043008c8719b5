"""Every verb knows an archived execution: it tells of it as before, or says that it is archived. Found by introspection."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import pytest
from engine_kit import Bench, flow, simple

from conductorlite import (
    AsyncEngine,
    AsyncRun,
    Engine,
    Run,
    SubWorkflowParams,
    TaskResult,
    TaskStatus,
    WorkflowDef,
    WorkflowTask,
)
from conductorlite import task as task_of
from conductorlite.engine.config import services
from conductorlite.errors import ExecutionArchived, ExecutionNotFound
from conductorlite.model.executions import Explanation
from conductorlite.testing import replay

if TYPE_CHECKING:
    from engine_kit import NewBench

ONE: Final = "one"

#: Verbs that answer as before the execution was archived.
SEEING: Final = {
    "admin.check",
    "admin.children",
    "admin.export",
    "admin.page",
    "admin.repair",
    "explain",
    "get",
    "history",
    "messages",
    "result",
    "run",
    "status",
    "streams.items",
    "streams.value",
    "streams.values",
    "tasks.logs",
}

#: Verbs to which the id of what is archived is free again, and those that drop what nobody can keep any more.
OTHERS: Final = {
    "start": "begins another one of that id",
    "run_task": "takes a function, and begins an execution of it",
    "admin.remove": "deletes what is archived",
    "admin.bulk": "has an error for each id",
    "tasks.log": "drops the line, as for one that was removed",
}

#: Names by which verbs take an execution or a task of it.
TAKING: Final = {"workflow_id", "workflow_ids", "execution", "task", "result"}

DEFINITION: Final = flow(
    simple("a"),
    WorkflowTask(
        name="c",
        task_reference_name="c",
        type="SUB_WORKFLOW",
        sub_workflow_param=SubWorkflowParams(workflow_definition=WorkflowDef(name="child", tasks=[simple("b")])),
    ),
)


@task_of
def alone() -> None:
    """A function that `run_task` takes."""


def _verbs(kind: type) -> list[str]:
    """The public verbs that are about one execution, by the names of their parameters; those of a service with its noun."""
    with Engine() as plain:
        nouns = list(services(plain))
    engine = kind()
    owners = {"": engine, **{f"{noun}.": getattr(engine, noun) for noun in nouns}}
    members = ((noun + name, verb) for noun, owner in owners.items() for name, verb in inspect.getmembers(owner, inspect.ismethod))
    found = [name for name, verb in members if "._" not in f".{name}" and TAKING & set(inspect.signature(verb).parameters)]
    (engine if isinstance(engine, Engine) else engine._engine).close()
    return found


def _ended(bench: Bench) -> dict[str, Any]:
    """An execution that has ended well, with a child; what its verbs are called with."""
    bench.start(DEFINITION, workflow_id=ONE)
    task = bench.take("a")
    bench.engine.tasks.log(task, "a line")
    bench.engine.streams.emit(task, 1, 2)
    bench.engine.streams.set_value(ONE, "x", 3)
    bench.report(task)
    bench.do("b")
    values = {
        "workflow_id": ONE,
        "workflow_ids": [ONE],
        "execution": ONE,
        "task": task,
        "task_id": task.task_id,
        "ref": "a",
        "variables": {"x": 1},
        "at": "a",
        "topic": "news",
        "name": "x",
        "value": 4,
    }
    report = TaskResult(workflow_id=ONE, task_id=task.task_id, status=TaskStatus.COMPLETED)
    return {
        **values,
        "result": report,
        "to": DEFINITION,
        "verb": bench.engine.retry,
        "workflow": DEFINITION,
        "definition": DEFINITION,
    }


def _call(engine: Any, verb: str, values: dict[str, Any]) -> Any:
    """Call a verb with what it demands, and with the id of the execution wherever it takes one."""
    called = attrgetter(verb)(engine)
    parameters = inspect.signature(called).parameters
    wanted = [one for one in parameters.values() if one.default is one.empty and one.kind is not one.VAR_KEYWORD]
    first = [values[one.name] for one in wanted if one.kind is one.POSITIONAL_ONLY]
    given = {one.name: values[one.name] for one in wanted if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    if "workflow_id" in parameters:
        given["workflow_id"] = values["workflow_id"]
    return called(*first, **given)


def _said(found: object) -> object:
    """What can be compared of an answer: reasons without the one that says that it is archived."""
    if isinstance(found, Explanation):
        return [reason for reason in found.reasons if reason.kind != "ARCHIVED"]
    if isinstance(found, str):
        return found.replace(" It is archived.", "")
    return list(found) if isinstance(found, tuple) else found


@pytest.mark.parametrize("verb", _verbs(Engine))
def test_a_verb_knows_what_is_archived(new_bench: NewBench, verb: str) -> None:
    """It answers as before, or raises ExecutionArchived, which says what can be done; nothing is told as not being there."""
    bench = new_bench()
    values = _ended(bench)
    before = _call(bench.engine, verb, values) if verb in SEEING else None
    bench.engine.admin.archive(ONE)
    if verb in SEEING:
        assert _said(_call(bench.engine, verb, values)) == _said(before)
    elif verb in OTHERS:
        report = _call(bench.engine, verb, values | {"task": alone} if verb == "run_task" else values)
        assert verb != "admin.bulk" or [type(error) for error in report.failed.values()] == [ExecutionArchived]
    else:
        with pytest.raises(ExecutionArchived, match=r"'one' is archived: it can be looked at, exported and removed") as raised:
            _call(bench.engine, verb, values)
        assert raised.value.workflow_id == ONE
    assert bench.engine.admin.check() == []


@pytest.mark.parametrize("verb", _verbs(AsyncEngine))
def test_a_verb_that_is_awaited_knows_it_too(verb: str) -> None:
    """AsyncEngine's verbs raise and answer like Engine's."""
    assert verb in _verbs(Engine)

    async def ask() -> None:
        async with AsyncEngine() as engine:
            instant = WorkflowTask(name="wait", task_reference_name="n", type="WAIT", input_parameters={})
            await engine.start(flow(instant), workflow_id=ONE)
            await engine.streams.set_value(ONE, "x", 3)
            await engine.signal(ONE)
            values = {
                "workflow_id": ONE,
                "workflow_ids": [ONE],
                "execution": ONE,
                "task": None,
                "ref": "n",
                "variables": {},
                "to": DEFINITION,
            }
            values |= {
                "verb": engine.retry,
                "workflow": DEFINITION,
                "definition": DEFINITION,
                "result": None,
                "task_id": "t",
                "topic": "news",
                "at": "n",
                "name": "x",
                "value": 4,
            }
            await engine.admin.archive(ONE)
            if not {"workflow_id", "execution"} & set(inspect.signature(attrgetter(verb)(engine)).parameters) or verb in OTHERS:
                return
            found = _call(engine, verb, values)
            if verb in SEEING:
                assert await found is not None if inspect.isawaitable(found) else found is not None
            else:
                with pytest.raises(ExecutionArchived):
                    await found

    asyncio.run(ask())


@pytest.mark.parametrize("kind", [Run, AsyncRun])
def test_a_handle_knows_it(new_bench: NewBench, kind: type) -> None:
    """What a handle tells of an execution it tells of an archived one: the members below are all there are."""
    members = {name for name in vars(kind) if not name.startswith("_")}
    changing = {"signal", "pause", "resume", "terminate", "retry", "send", "fork", "set_value"}
    reading = {"workflow_id", "workflow", "status", "tasks", "result", "history", "progress", "explain", "page", "events"}
    reading |= {"stream", "get_value"}
    assert members == reading | changing
    bench = new_bench()
    values = _ended(bench)
    run = bench.engine.run(ONE)

    def seen() -> list[object]:
        emitted = [*run.stream(), run.get_value("x")]
        whole = [list(run.history()), run.progress(), list(run.events())]
        return [run.status, run.workflow.status, run.tasks, run.result(), *whole, *emitted]

    before = seen()
    bench.engine.admin.archive(ONE)
    assert seen() == before
    assert "archived" in str(run.explain())
    assert "archived" in run.page()
    for verb in sorted(changing):
        with pytest.raises(ExecutionArchived):
            _call(run, verb, values)


@pytest.mark.parametrize("which", ["parent", "child", "both"])
def test_a_family_in_two_places_is_exported_whole(new_bench: NewBench, which: str) -> None:
    """Whichever of an execution and its child is archived, the document holds both, and is lived again."""
    bench = new_bench()
    _ended(bench)
    (child,) = bench.engine.admin.children(ONE)
    before = bench.engine.admin.export(ONE)
    for one, place in ((ONE, "parent"), (child.workflow_id, "child")):
        if which in (place, "both"):
            bench.engine.admin.archive(one)
    assert bench.engine.admin.export(ONE) == before
    assert [one.workflow_id for one in bench.engine.admin.children(ONE)] == [child.workflow_id]
    replay(before)


def test_what_is_removed_from_the_archive_is_gone(new_bench: NewBench) -> None:
    """Then nothing says that it is archived."""
    bench = new_bench()
    _ended(bench)
    bench.engine.admin.archive(ONE)
    bench.engine.admin.remove(ONE)
    look: list[Callable[[str], object]] = [bench.engine.get, bench.engine.retry, bench.engine.status, bench.engine.admin.export]
    for verb in look:
        with pytest.raises(ExecutionNotFound) as raised:
            verb(ONE)
        assert not isinstance(raised.value, ExecutionArchived)
