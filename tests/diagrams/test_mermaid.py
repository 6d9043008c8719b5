"""Definitions and executions as Mermaid flowcharts, event by event."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from reading_kit import Case, choice, flow, node, retried

from conductorlite import SubWorkflowParams, TaskDef, WorkflowDef, WorkflowTask
from conductorlite.plan.diagrams import mermaid
from conductorlite.plan.tree import walk
from conductorlite.testing.strategies import definitions

FORKED = flow(
    node("a"),
    node("f", "FORK_JOIN", fork_tasks=[[retried("b"), node("w", "WAIT")], [node("c")]]),
    node("j", "JOIN", join_on=["w", "c"]),
)


def test_a_chain() -> None:
    """Tasks stand one below the other, between a start with the name and an end; a name that differs is told."""
    named = WorkflowTask(name="charge_card", task_reference_name="charge")
    assert mermaid(flow(named, node("done", "NOOP"))) == (
        "flowchart TD\n"
        '  start(["flow v1"])\n'
        '  t1["charge<br/>charge_card"]\n'
        '  t2["done<br/>NOOP"]\n'
        '  finish(["end"])\n'
        "  start --> t1\n"
        "  t1 --> t2\n"
        "  t2 --> finish\n"
    )


def test_forks_and_joins() -> None:
    """Branches leave the fork; what the JOIN waits for leads into it, and nothing goes from the fork to the JOIN directly."""
    assert mermaid(FORKED) == (
        "flowchart TD\n"
        '  start(["flow v1"])\n'
        '  t1["a"]\n'
        '  t2{{"f<br/>FORK_JOIN"}}\n'
        '  t3["b"]\n'
        '  t4(["w<br/>WAIT"])\n'
        '  t5["c"]\n'
        '  t6{{"j<br/>JOIN"}}\n'
        '  finish(["end"])\n'
        "  start --> t1\n"
        "  t1 --> t2\n"
        "  t2 --> t3\n"
        "  t3 --> t4\n"
        "  t2 --> t5\n"
        "  t4 --> t6\n"
        "  t5 --> t6\n"
        "  t6 --> finish\n"
    )


def test_switches() -> None:
    """Arrows bear the case; an empty case and a missing default lead on; TERMINATE ends the workflow."""
    definition = flow(choice("s", {"x": [node("a")], "y": []}, [node("t", "TERMINATE")]), node("z"))
    assert mermaid(definition) == (
        "flowchart TD\n"
        '  start(["flow v1"])\n'
        '  t1{"s<br/>SWITCH case"}\n'
        '  t2["a"]\n'
        '  t3["t<br/>TERMINATE"]\n'
        '  t4["z"]\n'
        '  finish(["end"])\n'
        "  start --> t1\n"
        '  t1 -- "x" --> t2\n'
        '  t1 -- "default" --> t3\n'
        '  t3 -- "ends the workflow" --> finish\n'
        "  t2 --> t4\n"
        '  t1 -- "y" --> t4\n'
        "  t4 --> finish\n"
    )


def test_decisions_exclusive_joins_and_humans() -> None:
    """A DECISION is drawn as a SWITCH, an EXCLUSIVE_JOIN as a JOIN with arrows from what it joins, a HUMAN as a WAIT."""
    cases = {"x": [node("a")], "y": [node("h", "HUMAN")]}
    definition = flow(
        node("d", "DECISION", case_expression="$.n > 1", decision_cases=cases),
        node("e", "EXCLUSIVE_JOIN", join_on=["a", "h"]),
    )
    assert mermaid(definition) == (
        "flowchart TD\n"
        '  start(["flow v1"])\n'
        '  t1{"d<br/>DECISION #36;#46;n #62; 1"}\n'
        '  t2["a"]\n'
        '  t3(["h<br/>HUMAN"])\n'
        '  t4{{"e<br/>EXCLUSIVE_JOIN"}}\n'
        '  finish(["end"])\n'
        "  start --> t1\n"
        '  t1 -- "x" --> t2\n'
        '  t1 -- "y" --> t3\n'
        "  t2 --> t4\n"
        "  t3 --> t4\n"
        '  t1 -- "default" --> t4\n'
        "  t4 --> finish\n"
    )


def test_loops_and_sub_workflows() -> None:
    """A loop is a box with its condition and an arrow back; a sub-workflow is one node with its name and version."""
    child = node("child", "SUB_WORKFLOW", sub_workflow_param=SubWorkflowParams(name="order", version=3))
    definition = flow(node("l", "DO_WHILE", loop_over=[node("a"), child], loop_condition="$.l['iteration'] < 3"))
    assert mermaid(definition) == (
        "flowchart TD\n"
        '  start(["flow v1"])\n'
        '  subgraph loop_t1 ["loop l"]\n'
        "    t1[/\"l<br/>DO_WHILE<br/>while #36;#46;l#91;'iteration'#93; #60; 3\"/]\n"
        '    t2["a"]\n'
        '    t3[["child<br/>SUB_WORKFLOW order v3"]]\n'
        "  end\n"
        '  finish(["end"])\n'
        "  start --> t1\n"
        '  t1 -- "round" --> t2\n'
        "  t2 --> t3\n"
        "  t3 --> t1\n"
        '  t1 -- "done" --> finish\n'
    )


def test_an_execution_shows_how_it_went() -> None:
    """Each node has its status as text and colour, attempts when there were several; what never ran is dashed."""
    case = Case(FORKED)
    case.do("a")
    case.do("b", "FAILED", reason="no")
    case.at(5)
    case.take("b")
    text = mermaid(FORKED, case.workflow)
    assert '  t1["a<br/>COMPLETED"]\n' in text
    assert '  t3["b<br/>IN_PROGRESS, 2 attempts"]\n' in text
    assert '  t4(["w<br/>WAIT<br/>not run"])\n' in text
    assert '  finish(["RUNNING"])\n' in text
    assert text.endswith("  class t5 scheduled\n  class t3,t6 inProgress\n  class t1,t2 completed\n  class t4 notRun\n")
    assert "  classDef completed fill:" in text


def test_rounds_of_a_loop() -> None:
    """A loop and the tasks in it tell in how many rounds they ran."""
    case = Case(flow(node("l", "DO_WHILE", loop_over=[node("a")], loop_condition="$.l['iteration'] < 2")))
    case.do("a")
    case.do("a")
    definition = case.workflow.definition
    assert definition is not None
    text = mermaid(definition, case.workflow)
    assert '"a<br/>COMPLETED, 2 rounds"' in text
    assert '<br/>COMPLETED, 2 rounds"/]' in text


def test_rows_of_no_node_stand_apart() -> None:
    """A task scheduled at run time is drawn in a box of its own."""
    case = Case(flow(node("a")))
    text = mermaid(flow(node("other")), case.workflow)
    assert '  subgraph dynamic ["scheduled at run time"]\n    d1["a<br/>a<br/>SCHEDULED"]\n  end\n' in text


@given(definitions())
def test_every_node_occurs(definition: WorkflowDef) -> None:
    """Each task of a definition is drawn exactly once, and every arrow leads from a drawn node to a drawn one."""
    text = mermaid(definition)
    drawn = re.findall(r"^ +(t\d+)\W", text.partition("  finish(")[0], re.MULTILINE)
    assert len(drawn) == len(set(drawn)) == sum(1 for _ in walk(definition))
    arrows = re.findall(r'^  (\w+) (?:-->|-- "[^"]*" -->) (\w+)$', text, re.MULTILINE)
    assert {end for arrow in arrows for end in arrow} <= {*drawn, "start", "finish"}
    assert mermaid(definition) == text


LINE = re.compile(
    r'flowchart TD|  start\(\["[^"]*"\]\)|  finish\(\["end"\]\)|  t1\["[^"<>]*(<br/>[^"<>]*)?"\]|  start --> t1|  t1 --> finish'
)


@given(st.text(), st.text())
def test_no_text_breaks_out_of_its_label(ref: str, name: str) -> None:
    """Whatever a reference or a name holds, the chart has the same lines, and nothing of Mermaid's own signs in a label."""
    definition = WorkflowDef(name=name, tasks=[WorkflowTask(name=name, task_reference_name=ref)])
    text = mermaid(definition)
    assert [line for line in text.splitlines() if not LINE.fullmatch(line)] == []
    labels = re.findall(r'"([^"]*)"', text)
    assert not [one for one in labels if re.search(r"[\[\]{}()`%|*~$&\\]|(?<!#)\d*;;|<(?!br/>)", one)]
    text.encode()


def test_what_looks_like_mermaid_is_written_as_codes() -> None:
    """Quotes, brackets, directives, Markdown, HTML and icons become character codes; events of any language stay."""
    ref = 'a"]--x %%{init}%% <b> **fett** fa:fa-car __é__ 数 snake_case v1.2'
    assert '"a#34;#93;#45;#45;x #37;#37;#123;init#125;#37;#37; #60;b#62; #42;#42;fett#42;#42; fa#58;fa-car ' in mermaid(
        flow(WorkflowTask(name="n", task_reference_name=ref))
    )
    assert "#95;#95;é#95;#95; 数 snake_case v1.2" in mermaid(flow(WorkflowTask(name="n", task_reference_name=ref[40:])))


def test_compensations() -> None:
    """What undoes a task stands beside it, behind a dotted arrow, in a loop inside its box; it is no part of the flow."""
    undone = flow(node("a", compensate="undo"), node("l", "DO_WHILE", loop_over=[node("x", compensate=node("ux", "WAIT"))]))
    assert mermaid(undone) == (
        "flowchart TD\n"
        '  start(["flow v1"])\n'
        '  t1["a"]\n'
        '  u1["a_compensation<br/>undo"]\n'
        '  subgraph loop_t2 ["loop l"]\n'
        '    t2[/"l<br/>DO_WHILE"/]\n'
        '    t3["x"]\n'
        '    u3(["ux<br/>WAIT"])\n'
        "  end\n"
        '  finish(["end"])\n'
        '  t1 -. "compensate" .-> u1\n'
        "  start --> t1\n"
        "  t1 --> t2\n"
        '  t3 -. "compensate" .-> u3\n'
        '  t2 -- "round" --> t3\n'
        "  t3 --> t2\n"
        '  t2 -- "done" --> finish\n'
    )


def test_an_execution_that_is_compensated() -> None:
    """Compensations show how they went, and the end what the execution will end with."""
    case = Case(flow(node("a", compensate="undo"), node("b", task_definition=TaskDef(name="b", retry_count=0))))
    case.do("a")
    case.do("b", "FAILED")
    text = mermaid(case.workflow.definition or flow(), case.workflow)
    assert 'u1["a_compensation<br/>undo<br/>SCHEDULED"]' in text
    assert 'finish(["RUNNING, compensating, then FAILED"])' in text
    case.do("undo")
    text = mermaid(case.workflow.definition or flow(), case.workflow)
    assert 'u1["a_compensation<br/>undo<br/>COMPLETED"]' in text
    assert "class t1,u1 completed" in text
