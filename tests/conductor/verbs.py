"""Every verb, in every state that a few definitions come to, and what it leads to when it is driven on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cases import OWN, Case, inline, task, workflow

CHILD: Final = workflow(task("c1"), task("c2"), name="child")

FLOWS: Final[dict[str, list[dict[str, Any]]]] = {
    "line": [
        task("a"),
        inline("i", "$.v", v="${a.output.value}"),
        task("b", inputParameters={"v": "${i.output.result}"}),
        task("c"),
    ],
    "fork": [
        task("f", "FORK_JOIN", forkTasks=[[task("a"), task("b")], [task("c")]]),
        task("j", "JOIN", joinOn=["b", "c"]),
        task("d"),
    ],
    "loop": [task("l", "DO_WHILE", loopCondition="$.l['iteration'] < 2", loopOver=[task("a"), task("b")]), task("c")],
    "switch": [
        task("a"),
        task(
            "s",
            "SWITCH",
            evaluatorType="value-param",
            expression="w",
            inputParameters={"w": "${a.output.case}"},
            decisionCases={"a": [task("b")]},
            defaultCase=[task("c")],
        ),
        task("d"),
    ],
    "sub": [task("a"), task("s", "SUB_WORKFLOW", subWorkflowParam={"name": f"{OWN}child", "version": 1}), task("b")],
    "wait": [task("w", "WAIT", inputParameters={"duration": "1h"}), task("h", "HUMAN"), task("a")],
    "variable": [
        task("v", "SET_VARIABLE", inputParameters={"n": 1}),
        task("a"),
        task("u", "SET_VARIABLE", inputParameters={"n": 2}),
        task("b"),
    ],
}
#: What fails is not tried again by itself: that is the verbs' part.
DEFS: Final = [
    {"name": f"{OWN}{ref}", "retryCount": 0, "timeoutSeconds": 0, "responseTimeoutSeconds": 3600}
    for ref in ("a", "b", "c", "d", "c1", "c2")
]
REFS: Final = {"line": "ab", "fork": "acj", "loop": "ac", "switch": "asb", "sub": "as", "wait": "wa", "variable": "va"}

#: What is done in a state; a verb that one side refuses must be refused by the other.
VERBS: Final[dict[str, list[dict[str, Any]]]] = {
    "pause": [{"do": "pause"}],
    "pause_twice": [{"do": "pause"}, {"do": "pause"}],
    "pause_work_resume": [{"do": "pause"}, {"do": "drive", "times": 1}, {"do": "resume"}],
    "resume": [{"do": "resume"}],
    "terminate": [{"do": "terminate", "reason": "enough"}],
    "terminate_bare": [{"do": "terminate"}],
    "terminate_twice": [{"do": "terminate", "reason": "enough"}, {"do": "terminate", "reason": "again"}],
    "terminate_retry": [{"do": "terminate", "reason": "enough"}, {"do": "retry"}],
    "terminate_restart": [{"do": "terminate", "reason": "enough"}, {"do": "restart"}],
    "paused_terminate": [{"do": "pause"}, {"do": "terminate"}],
    "retry": [{"do": "retry"}],
    "retry_resume": [{"do": "retry", "resume": True}],
    "restart": [{"do": "restart"}],
    "rerun": [{"do": "rerun"}],
    "rerun_input": [{"do": "rerun", "input": {"x": 2}}],
}


def _failing(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "good", {}
    for ref in ("a", "b", "c", "c1"):
        yield f"{ref}_fails", {ref: [{"status": "FAILED"}, {}]}


def _states(name: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Driven by no, one, two and all reports, with nothing or one task failing."""
    for times in (0, 1):
        yield f"at{times}", [{"do": "drive", "times": times}] if times else []
    for label, outcomes in _failing(name):
        yield label, [{"do": "drive", "outcomes": outcomes}]


def cases() -> list[Case]:
    """Flows × states × verbs, each driven on to its end."""
    found = []
    for name, tasks in FLOWS.items():
        verbs = dict(VERBS)
        for ref in REFS[name]:
            verbs[f"rerun_{ref}"] = [{"do": "rerun", "ref": ref}]
            verbs[f"rerun_{ref}_input"] = [{"do": "rerun", "ref": ref, "task_input": {"x": 3}}]
        for ref in ("b", "c", "nobody"):
            verbs[f"skip_{ref}"] = [{"do": "skip", "ref": ref}]
        for state, before in _states(name):
            for verb, steps in verbs.items():
                found.append(
                    Case(
                        name=f"verbs/{name}/{state}/{verb}",
                        workflows=[workflow(*tasks, outputParameters={"x": "${workflow.input.x}"}), CHILD],
                        task_defs=DEFS,
                        input={"x": 1},
                        steps=[*before, *steps, {"do": "drive", "times": 12}],
                    )
                )
    return found
