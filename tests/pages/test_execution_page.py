"""The page of an execution: every attempt is on it once, with its status and times; what is wide stays small; texts stay texts."""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from page_kit import Element, read

from conductorlite import (
    AsyncEngine,
    Engine,
    SubWorkflowParams,
    TaskDef,
    TaskFailedTerminally,
    TaskResult,
    VirtualClock,
    Workers,
    WorkflowDef,
    WorkflowTask,
)
from conductorlite.engine.causes import causes_of
from conductorlite.errors import ExecutionNotFound
from conductorlite.model.canonical import Payload
from conductorlite.model.executions import Explanation, Task, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.pages.views import ExecutionView, execution_page
from conductorlite.plan.tree import walk
from conductorlite.testing.strategies import definitions

T0 = 1_900_000_000_000

#: Texts that would be more than text if any of them were not escaped.
HOSTILE = (
    "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"'><svg onload=alert(1)>", "]]><!--", "&lt;&#x3c;",
    "\x00\x1b[31m\x07\x9f", "\u202egnp.exe\u2066", "\ufffe", "javascript:alert(1)", "é😀\u200d💥",
)  # fmt: skip


def node(ref: str, type: str = "SIMPLE", **fields: Any) -> WorkflowTask:
    return WorkflowTask(name=fields.pop("name", ref), task_reference_name=ref, type=type, **fields)


def once(ref: str, **fields: Any) -> WorkflowTask:
    return node(ref, task_definition=TaskDef(name=ref, retry_count=0), **fields)


def world() -> tuple[Engine, Workers]:
    workers = Workers()
    workers.add("work", lambda: {"done": True})
    return Engine(clock=VirtualClock(T0), workers=workers), workers


#: A fork, a loop in a loop, cases, a wait, a retry, a compensation, a sub-workflow that fails: what an execution can be made of.
CHILD = WorkflowDef(name="payment", tasks=[once("capture")])
EVERYTHING = WorkflowDef(
    name="booking",
    tasks=[
        node("flight", name="work", compensate=node("cancel", name="work")),
        node("flaky", task_definition=TaskDef(name="flaky", retry_count=3, retry_delay_ms=5_000)),
        node("fork", "FORK_JOIN", fork_tasks=[
            [node("mail", name="work")], [node("pause", "WAIT", input_parameters={"duration": "10s"})]]),
        node("join", "JOIN", join_on=["mail", "pause"]),
        node("outer", "DO_WHILE", loop_condition="$.outer.iteration < 2", loop_over=[
            node("inner", "DO_WHILE", loop_condition="$.inner.iteration < 3", loop_over=[node("again", name="work")]),
        ]),
        node("choice", "SWITCH", evaluator_type="value-param", expression="v", input_parameters={"v": "a"}, decision_cases={
            "a": [node("chosen", name="work")], "b": [node("never", name="work")]}),
        node("pay", "SUB_WORKFLOW", sub_workflow_param=SubWorkflowParams(name="payment", workflow_definition=CHILD)),
        node("last", name="work"),
    ],
)  # fmt: skip


@pytest.fixture(scope="module")
def booked() -> tuple[Workflow, Element, str]:
    """The execution of all that, which has failed and was compensated, and its page."""
    engine, workers = world()
    tries = iter([ValueError("one"), ValueError("two"), None])

    def flaky() -> dict[str, Any]:
        if (error := next(tries)) is not None:
            raise error
        return {}

    def capture() -> None:
        raise TaskFailedTerminally("over the limit") from KeyError("card")

    workers.add("flaky", flaky)
    workers.add("capture", capture)
    run = engine.start(EVERYTHING, workflow_id="b-1")
    engine.run_until_idle()
    page = run.page()
    return run.workflow, read(page), page


def attempts(page: Element) -> list[Element]:
    return page.all("details", "attempt")


def test_every_attempt_is_on_the_page_once(booked: tuple[Workflow, Element, str]) -> None:
    """In order of scheduling, those of loops, forks, retries and compensations too, each with its reference and status."""
    workflow, page, _ = booked
    shown = [(one.all("span", "ref")[0].text, one.attributes["data-s"]) for one in attempts(page)]
    assert shown == [(task.ref, str(task.status)) for task in workflow.tasks]
    assert {"again__2__3", "cancel", "flaky"} <= {ref for ref, _ in shown}


def test_the_places_of_the_graph_are_those_of_the_definition(booked: tuple[Workflow, Element, str]) -> None:
    """Each task is one box; what was tried links to an attempt of its own, what was not is drawn and says so."""
    workflow, page, _ = booked
    boxes = page.all(kind="place")
    by_number = {one.attributes["data-n"]: one for one in boxes}
    assert len(by_number) == len(boxes)
    names = {number: one.all("text", "name")[0].text for number, one in by_number.items()}
    assert sorted(names.values()) == sorted(
        [*(task.base_ref for task in {t.base_ref: t for t in workflow.tasks}.values()), "never", "last"]
    )
    for one, task in zip(attempts(page), workflow.tasks, strict=True):
        assert names[one.attributes["data-n"]] == task.base_ref
    for one in boxes:
        tried = one.tag == "a"
        assert tried == (one.all("text", "name")[0].text not in ("never", "last"))
        assert ("not run" in one.text) != tried
        if tried:
            target = page.by_id(one.attributes["href"].removeprefix("#"))
            assert target.attributes["data-n"] == one.attributes["data-n"]
    flaky = page.by_id(next(one for one in boxes if "flaky" in one.text).attributes["href"].removeprefix("#"))
    assert flaky.attributes["data-s"] == "COMPLETED"  # the last of its attempts


def test_the_boxes_say_how_it_went(booked: tuple[Workflow, Element, str]) -> None:
    """Attempts, rounds, time taken, and what was undone, in words."""
    boxes = {one.all("text", "name")[0].text: one.all("title")[0].text for one in booked[1].all(kind="place")}
    assert boxes["flaky"] == "flaky · completed, 3 attempts, 0 ms"
    assert boxes["flight"] == "flight · work · completed, 0 ms, undone"
    assert boxes["pause"] == "pause · WAIT · completed, 10 s"
    assert boxes["inner"] == "inner · DO_WHILE · completed, 3 rounds, 0 ms"
    assert boxes["never"] == "never · work · not run"


def test_bars_are_as_long_as_it_took(booked: tuple[Workflow, Element, str]) -> None:
    """Under a clock that jumps: the retry waits 5 of 20 seconds, the WAIT runs 10."""
    rows = {}
    for one in attempts(booked[1]):
        rows.setdefault(one.all("span", "ref")[0].text, []).append(one)
    [wait] = rows["flaky"][1].all("i", "wait")
    assert wait.attributes["style"] == "left:0%;width:25%"
    [run] = rows["pause"][0].all("i", "run")
    assert run.attributes["style"] == "left:50%;width:50%"
    assert (rows["pause"][0].all("span", "at")[0].text, rows["pause"][0].all("span", "took")[0].text) == ("+10 s", "10 s")


def test_the_innermost_cause_comes_first(booked: tuple[Workflow, Element, str]) -> None:
    """Down through sub-workflows: the address, the reason, the traceback with what it came from; the child's id and status."""
    _, page, _ = booked
    first = page.by_id("failures").all("li")[0]
    assert "booking › pay › capture" in first.text
    assert "over the limit" in first.text
    assert "KeyError" in first.all("pre")[0].text
    assert re.search(r"FAILED\s*pay", page.by_id("children").text)


def test_the_whole_story_is_told(booked: tuple[Workflow, Element, str]) -> None:
    """The explanation word for word, and each line of the journal; sections are landmarks that the navigation leads to."""
    workflow, page, _ = booked
    assert "booking (b-1) is FAILED" in page.by_id("why").text
    assert len(re.findall(r" +\d+  \+\d+ m?s  ", page.by_id("journal").text)) == workflow.history_seq
    named = [one.attributes["href"] for one in page.all("nav")[0].all("a")]
    assert named == [f"#{one.attributes['id']}" for one in page.all("section")]
    for one in page.all("section"):
        assert page.by_id(one.attributes["aria-labelledby"]).tag == "h2"
    for one in page.all(kind="scroll"):
        assert one.attributes["aria-label"]
        assert one.attributes["tabindex"] == "0"
    labelled = [one for label in page.all("label") for one in label]
    assert [one for one in page if one.tag in ("input", "select") and not any(one is other for other in labelled)] == []
    assert attempts(page)[1].all("summary")[0].text == "flaky ✗ FAILED attempt 1 +0 ms 0 ms "


def test_nothing_is_loaded(booked: tuple[Workflow, Element, str]) -> None:
    """No address of another place, no handler in an attribute, one script, and a policy that allows that one only."""
    _, page, text = booked
    assert not re.search(r"https?:|//[a-z]|url\(|@import|src=", text.replace("// ", ""))
    assert [name for one in page for name in one.attributes if name.startswith("on")] == []
    assert {one.attributes["href"][0] for one in page.all("a")} == {"#"}
    [policy] = [one.attributes["content"] for one in page.all("meta") if "http-equiv" in one.attributes]
    assert policy.startswith("default-src 'none'")
    assert len(page.all("script")) == 1


def hostile() -> str:
    """The page of an execution all of whose texts are hostile."""
    engine, workers = world()
    text = "".join(HOSTILE)

    def bad() -> None:
        raise TaskFailedTerminally(text)

    workers.add(text, bad)
    definition = WorkflowDef(
        name=text,
        tasks=[
            node("switch", "SWITCH", evaluator_type="value-param", expression="v", input_parameters={"v": text}, decision_cases={
                text: [node("bad", name=text, input_parameters={text: "${workflow.input.x}"},
                            task_definition=TaskDef(name=text, retry_count=0))]}),
        ],
    )  # fmt: skip
    run = engine.start(definition, {"x": text}, correlation_id=text, created_by=text)
    engine.run_until_idle()
    assert run.status is WorkflowStatus.FAILED
    return run.page()


def test_hostile_texts_stay_texts() -> None:
    """Names, inputs, reasons, cases: the page has the elements of a harmless one, and shows the texts as they are."""
    page = hostile()
    tree = read(page)
    assert len(tree.all("script")) == 1
    assert not {one.tag for one in tree} & {"img", "iframe", "object", "link"}
    assert [name for one in tree for name in one.attributes if name.startswith("on")] == []
    assert not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)
    assert "<img src=x onerror=alert(1)>" in tree.by_id("failures").text
    page.encode("utf-8")


def test_large_documents_are_cut_with_their_size() -> None:
    """A megabyte of input: the page has its beginning, and says how long it is."""
    engine, _ = world()
    definition = WorkflowDef(name="large", tasks=[node("a", name="work", input_parameters={"x": "${workflow.input.x}"})])
    run = engine.start(definition, {"x": "<" * 1_000_000})
    engine.run_until_idle()
    page = run.page()
    assert len(page) < 400_000
    assert "Cut here: 1,000,008 characters in all" in read(page).by_id("data").text


def lived(definition: WorkflowDef) -> Workflow:
    """An execution whose workers complete some tasks and fail others, for some steps."""
    engine, _ = world()
    run = engine.start(definition)
    for step in range(6):
        engine.settle()
        for task in [task for queue in engine.tasks.queue_sizes() for task in engine.poll(queue, count=3)]:
            status = TaskStatus.FAILED if step == 2 else TaskStatus.COMPLETED
            engine.update_task(TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=status))
        engine.advance("7s")
    return run.workflow


@settings(max_examples=10)
@given(definitions())
def test_any_execution_has_its_page(definition: WorkflowDef) -> None:
    """Whatever it is made of: each attempt once, each in the box of its task, and a box for each task of the definition."""
    workflow = lived(definition)
    page = read(execution_page(view_of(workflow)).html())
    boxes = {one.attributes["data-n"]: one for one in page.all(kind="place")}
    assert [one.all("span", "ref")[0].text for one in attempts(page)] == [task.ref for task in workflow.tasks]
    assert {one.attributes["data-n"] for one in attempts(page)} <= set(boxes)
    if len(boxes) == len([*walk(definition)]):
        drawn = Counter(one.all("text", "name")[0].text for one in boxes.values())
        assert drawn == Counter(place.ref for place in walk(definition))
    else:  # some are drawn as one
        assert any("many" in one.classes for one in boxes.values())


def view_of(workflow: Workflow) -> ExecutionView:
    return ExecutionView(
        workflow=workflow, history=(), explanation=Explanation(), causes=(), due=(), children={}, now=max(T0, workflow.updated_at)
    )


def wide(branches: int, failed: int) -> ExecutionView:
    """A fork of so many branches of two tasks each, of which some have failed: rows made by hand."""
    forks = [[node(f"a{n}", name="fetch"), node(f"b{n}", name="transform")] for n in range(branches)]
    definition = WorkflowDef(name="etl", tasks=[node("fork", "FORK_JOIN", fork_tasks=forks), node("join", "JOIN")])
    tasks = [
        Task(
            workflow_id="w", ref=f"{kind}{n}", base_ref=f"{kind}{n}", task_id=f"{kind}-{n}", task_type=name, name=name,
            status=TaskStatus.FAILED if kind == "b" and n < failed else TaskStatus.COMPLETED, input=Payload.of({"n": n}),
            scheduled_at=T0 + n, started_at=T0 + n, ended_at=T0 + n + 10,
        )
        for kind, name in (("a", "fetch"), ("b", "transform"))
        for n in range(branches)
    ]  # fmt: skip
    workflow = Workflow(
        workflow_id="w", name="etl", version=1, definition_hash="", status=WorkflowStatus.RUNNING, created_at=T0,
        updated_at=T0 + branches + 10, tasks=tuple(tasks), definition=definition,
    )  # fmt: skip
    return view_of(workflow)


def test_wide_forks_are_drawn_as_one() -> None:
    """150 branches are two boxes with their counts, which lead to a failed attempt; each attempt names its box."""
    page = read(execution_page(wide(150, 4)).html())
    boxes = page.all(kind="place")
    assert [one.all("title")[0].text for one in boxes] == [
        "fork · FORK_JOIN · not run",
        "150 × fetch · fetch · 150 completed",
        "150 × transform · transform · 146 completed, 4 failed",
        "join · JOIN · not run",
    ]
    assert "bad" in boxes[2].classes
    assert page.by_id(boxes[2].attributes["href"].removeprefix("#")).all("span", "ref")[0].text == "b0"
    assert page.by_id(boxes[2].attributes["href"].removeprefix("#")).attributes["data-s"] == "FAILED"
    assert Counter(one.attributes["data-n"] for one in attempts(page)) == {
        boxes[1].attributes["data-n"]: 150,
        boxes[2].attributes["data-n"]: 150,
    }
    assert [fold.attributes.get("open") for fold in page.all("details", "chunk")] == ["", None]


def test_a_page_grows_no_faster_than_its_execution() -> None:
    """Of twice as many branches the graph is as large, and each attempt takes as much room."""
    small, large = execution_page(wide(60, 4)).html(), execution_page(wide(160, 4)).html()
    one = (len(large) - len(small)) / 200
    assert one < 1_200
    assert small.count('class="place') == large.count('class="place')


def calls_for_causes(branches: int) -> int:
    """How many functions are called to find the causes of a fork that failed twenty times."""
    workflow = attrs.evolve(wide(branches, 20).workflow, status=WorkflowStatus.FAILED)
    calls = 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        found = causes_of(workflow, lambda _: None)
    finally:
        sys.setprofile(None)
    assert len(found) == 20
    return calls


def test_no_failure_walks_the_whole_definition() -> None:
    """Without a null in the inputs a failure costs the same in a wide execution as in a narrow one."""
    assert calls_for_causes(80) - calls_for_causes(40) < 40 * 20


@pytest.mark.parametrize(
    "tasks",
    [[node(f"t{n}", name="work" if n % 2 else f"n{n}") for n in range(300)], [node(f"t{n}", name="work") for n in range(300)]],
)
def test_long_series_are_drawn_as_few(tasks: list[WorkflowTask]) -> None:
    """300 tasks one after another are at most thirty-one boxes, with the first and the last."""
    workflow = Workflow(
        workflow_id="w", name="long", version=1, definition_hash="", status=WorkflowStatus.RUNNING, created_at=T0,
        definition=WorkflowDef(name="long", tasks=tasks),
    )  # fmt: skip
    page = read(execution_page(view_of(workflow)).html())
    assert 1 <= len(page.all(kind="place")) <= 31


def test_cases_that_were_not_tried_give_way() -> None:
    """Of twenty cases the one that was taken is drawn, and the rest as one box."""
    engine, _ = world()
    cases = {f"c{n}": [node(f"in{n}", name="work"), *[node(f"more{n}", name="work")] * (n % 2)] for n in range(20)}
    switch = node("s", "SWITCH", evaluator_type="value-param", expression="v", input_parameters={"v": "c17"}, decision_cases=cases)
    run = engine.start(WorkflowDef(name="cases", tasks=[switch]))
    engine.run_until_idle()
    page = read(run.page())
    boxes = [one.all("title")[0].text for one in page.all(kind="place")]
    assert "in17 · work · completed, 0 ms" in boxes
    assert boxes[-1] == "15 more branches · not run"


def test_what_happens_next_is_told() -> None:
    """A wait that has not ended and a retry that is offered later, each with its instant; the graph shows what is open."""
    engine, workers = world()

    def bad() -> None:
        raise ValueError("no")

    workers.add("bad", bad)
    fork = node("f", "FORK_JOIN", fork_tasks=[[node("w", "WAIT", input_parameters={"duration": "1 hour"})], [
        node("bad", task_definition=TaskDef(name="bad", retry_delay_ms=60_000))]])  # fmt: skip
    run = engine.start(WorkflowDef(name="waits", tasks=[fork, node("j", "JOIN", join_on=["w", "bad"])]), workflow_id="w1")
    engine.settle()
    page = read(run.page())
    due = page.by_id("due").text
    assert "in 1 h" in due
    assert "WAIT_ENDS" in due
    assert "in 1 min" in due
    assert "OFFERED" in due
    assert page.by_id("why").all("h2")[0].text == "What it waits for"


def test_a_page_lists_no_more_than_can_be_read() -> None:
    """Of a hundred timeouts that are to come the first fifty are listed, and the number of the others."""
    engine, _ = world()
    forks = [[node(f"t{n}", name="nobody", compensate="undo")] for n in range(100)]
    run = engine.start(
        WorkflowDef(
            name="wide", tasks=[node("f", "FORK_JOIN", fork_tasks=forks), node("j", "JOIN", join_on=[f"t{n}" for n in range(100)])]
        )
    )
    engine.settle()
    page = read(run.page())
    assert len(page.by_id("due").all("tbody")[0].all("tr")) == 50
    assert "And 50 more, later" in page.by_id("due").text
    titles = [one.all("title")[0].text for one in page.all(kind="place")]
    assert titles[1:3] == ["100 × nobody · nobody · 100 scheduled", "100 × undo · undo · not run"]


def test_archived_and_absent_executions(tmp_path: Path) -> None:
    """An archived execution has its page; one that is not there is refused as by every verb; hidden fields stay hidden."""
    with Engine(tmp_path / "a.db", clock=VirtualClock(T0)) as engine:
        run = engine.start(
            WorkflowDef(name="n", masked_fields=["pin"], tasks=[node("n", "NOOP")]), {"pin": 4711}, workflow_id="n-1"
        )
        engine.run_until_idle()
        engine.admin.archive("n-1")
        page = read(run.page())
        assert "It is archived" in page.by_id("why").text
        assert "***" in page.by_id("data").text
        assert "4711" not in page.text
        with pytest.raises(ExecutionNotFound):
            engine.admin.page("nobody")


def test_the_page_is_awaited_too() -> None:
    """AsyncRun has the same page."""

    async def made() -> str:
        async with AsyncEngine(clock=VirtualClock(T0)) as engine:
            run = await engine.start(WorkflowDef(name="n", tasks=[node("n", "NOOP")]), workflow_id="n-1")
            await run.result()
            return await run.page()

    assert "n (n-1) is COMPLETED" in read(asyncio.run(made())).by_id("why").text
