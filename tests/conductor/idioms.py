"""Idioms of public definitions: conditions and inputs that read a loop by round, DYNAMIC to every type, null and blank texts
everywhere, TERMINATE beside what runs, inline sub-workflows. Drawn with a seed, or listed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from cases import OWN, Case, inline, task, workflow
from operators import CHILD, DRIVE, FAIL, QUICK

from conductorlite.model.definitions import TaskType

Json = dict[str, Any]


def _case(name: str, *tasks: Any, given: Any = None, others: Any = (), outcomes: Any = None, defs: Any = (), **more: Any) -> Case:
    options = more.pop("options", {})
    drive = {**DRIVE, "times": 30, **({"outcomes": outcomes} if outcomes else {})}
    return Case(
        name=f"idioms/{name}",
        workflows=[workflow(*tasks, **more), *others],
        task_defs=defs,
        input=given or {},
        options=options,
        steps=[drive],
    )


def _by_case(ref: str, value: Any, default: Any = (), **cases: list[Any]) -> Json:
    """A SWITCH on a value."""
    how = {"evaluatorType": "value-param", "expression": "w", "inputParameters": {"w": value}}
    return task(ref, "SWITCH", decisionCases=cases, defaultCase=list(default), **how)


# ---------------------------------------------------------------- loops, by round


#: What a round holds, and the references of its tasks whose `value` can be read.
_BODIES: Final[tuple[Callable[[], tuple[list[Json], tuple[str, ...]]], ...]] = (
    lambda: ([task("t")], ("t",)),
    lambda: ([task("t"), task("n", "NOOP")], ("t",)),
    lambda: ([inline("t", "({value: $.n * 2})", n="${l.output.iteration}")], ()),
    lambda: ([task("t"), inline("i", "$.v", v="${t.output.value}")], ("t",)),
    lambda: ([_by_case("s", "${l.output.iteration}", [task("d")], **{"1": [task("t")]})], ("t", "d")),
    lambda: ([task("f", "FORK_JOIN", forkTasks=[[task("t")], [task("u")]]), task("j", "JOIN", joinOn=["t", "u"])], ("t", "u")),
    lambda: ([task("t", inputParameters={"first": "${l.output['1'].t.value}", "last": "${t.output.value}"})], ("t",)),
    lambda: ([task("v", "SET_VARIABLE", inputParameters={"n": "${l.output.iteration}"}), task("t")], ("t",)),
)


def _reading(chance: random.Random, refs: tuple[str, ...]) -> str:
    """A piece of a condition that reads the loop, a round of it, or a task."""
    number = chance.randint(1, 3)
    pieces = [
        f"$.l['iteration'] < {chance.randint(1, 3)}",
        "$.l.iteration != 2",
        f"$.l['{number}'] == null",
        f"$.l[{number}] != undefined",
        "$.l.iteration < 3",
        f"($.l['{number}'] || {{}}).nobody == null",
    ]
    for ref in refs:
        pieces += [
            f"$.l['{number}'] && $.l['{number}'].{ref} && $.l['{number}'].{ref}.value == {chance.randint(0, 2)}",
            f"$.l['1'].{ref}.value < {chance.randint(0, 3)}",
            f"$.l[String($.l.iteration)].{ref} != null",
            f"$.{ref}.value == {chance.randint(0, 2)}",
            f"$.{ref}['value'] > 0",
        ]
    return chance.choice(pieces)


def _rounds(drawn: int, seed: int) -> list[Case]:
    found = []
    for number in range(drawn):
        chance = random.Random(f"rounds {seed} {number}")
        body, refs = chance.choice(_BODIES)()
        condition = chance.choice((" && ", " || ")).join(f"({_reading(chance, refs)})" for _ in range(chance.randint(1, 2)))
        if chance.random() < 0.3:
            condition = f"(function () {{ return {condition}; }})()"
        elif chance.random() < 0.3:
            condition = f"if ({condition}) {{ true; }} else {{ false; }}"
        condition = f"$.l['iteration'] < 4 && ({condition})" if not condition.startswith("if") else condition
        if condition.startswith("if"):
            condition = condition.replace("if (", "if ($.l['iteration'] < 4 && (", 1).replace(") { true", ")) { true", 1)
        reads = {f"r{each}": f"${{l.output.{each}}}" for each in (1, 2)}
        reads |= {"all": "${l.output}", "n": "${l.output.iteration}", "t": "${t.output.value}", "late": "${l.output['9'].t}"}
        loop = task("l", "DO_WHILE", loopCondition=condition, loopOver=body)
        outcomes = {"t": [{"output": {"value": chance.randint(0, 2)}}]}
        found.append(_case(f"rounds/{seed}-{number}", loop, task("z", "NOOP"), outputParameters=reads, outcomes=outcomes))
    return found


# ---------------------------------------------------------------- DYNAMIC to every type


#: What a DYNAMIC needs among its inputs to be one of a type.
_NEEDS: Final[Json] = {
    "INLINE": {"evaluatorType": "javascript", "expression": "$.n + 1"},
    "LAMBDA": {"scriptExpression": "return {n: $.n};"},
    "JSON_JQ_TRANSFORM": {"queryExpression": ".n"},
    "SET_VARIABLE": {"name": "x"},
    "TERMINATE": {"terminationStatus": "COMPLETED", "workflowOutput": {"k": 1}},
    "START_WORKFLOW": {"startWorkflow": {"name": f"{OWN}child", "version": 1, "input": {"k": 1}}},
    "SUB_WORKFLOW": {"subWorkflowName": f"{OWN}child", "subWorkflowVersion": 1},
    "WAIT": {},
    "HUMAN": {},
    "NOOP": {},
}


def _dynamic(kind: str, /, **more: Any) -> Json:
    given = {"kind": kind, "n": 1, **more}
    return task("d", "DYNAMIC", dynamicTaskNameParam="kind", inputParameters=given)


def _dynamics() -> list[Case]:
    found = []
    for kind, needs in _NEEDS.items():
        one = _dynamic(kind, **needs)
        found += [
            _case(f"dynamic/{kind}", one, task("z", "NOOP"), others=[QUICK], outputParameters={"d": "${d.output}"}),
            _case(
                f"dynamic/{kind}-loop",
                task("l", "DO_WHILE", loopCondition="$.l['iteration'] < 2", loopOver=[one]),
                others=[QUICK],
                outputParameters={"l": "${l.output}"},
            ),
            _case(f"dynamic/{kind}-case", _by_case("s", "a", a=[one, task("y", "NOOP")]), task("z", "NOOP"), others=[QUICK]),
        ]
    for kind in (*(str(each) for each in TaskType if each not in _NEEDS), "", "nobody", None, 7):
        found.append(_case(f"dynamic/other-{kind}", _dynamic(kind), task("z", "NOOP")))  # type: ignore[arg-type]
    forms: Json = {
        "text": {"subWorkflowName": f"{OWN}child", "subWorkflowVersion": "1"},
        "blank": {"subWorkflowName": f"{OWN}child", "subWorkflowVersion": ""},
        "latest": {"subWorkflowName": f"{OWN}child"},
        "zero": {"subWorkflowName": f"{OWN}child", "subWorkflowVersion": 0},
        "input": {"subWorkflowName": f"{OWN}child", "subWorkflowVersion": 1, "workflowInput": {"k": "${workflow.input.k}"}},
        "no input": {"subWorkflowName": f"{OWN}child", "subWorkflowVersion": 1, "workflowInput": {}},
        "inline": {"subWorkflowDefinition": {**QUICK, "name": f"{OWN}inner"}},
        "nobody": {"subWorkflowName": f"{OWN}gone", "subWorkflowVersion": 1},
        "nothing": {},
    }
    found += [
        _case(
            f"dynamic/sub-{form}",
            _dynamic("SUB_WORKFLOW", **given),
            others=[QUICK],
            given={"k": 2},
            outputParameters={"d": "${d.output.got}"},
        )
        for form, given in forms.items()
    ]
    retried = {"name": f"{OWN}c1", "retryCount": 0, "retryDelaySeconds": 0, "timeoutSeconds": 0, "responseTimeoutSeconds": 3600}
    found.append(
        _case("dynamic/sub-fails", _dynamic("SUB_WORKFLOW", **forms["text"]), others=[CHILD], defs=[retried], outcomes={"c1": FAIL})
    )
    return found


# ---------------------------------------------------------------- null and blank


def _blanks() -> list[Case]:
    found: list[Case] = []
    for said, value in (("null", None), ("empty", ""), ("blank", " "), ("map", {}), ("list", []), ("word", "null")):
        read = {"v": value, "deep": {"v": value, "l": [value]}, "read": "${workflow.input.v}", "text": "<${workflow.input.v}>"}
        shapes: dict[str, list[Json]] = {
            "simple": [task("a", inputParameters=read)],
            "inline": [inline("i", "[$.v, $.read, typeof $.read, $.deep]", **read)],
            "lambda": [task("i", "LAMBDA", inputParameters={"scriptExpression": "return [$.v, $.read];", **read})],
            "jq": [task("i", "JSON_JQ_TRANSFORM", inputParameters={"queryExpression": "[.v, .read]", **read})],
            "switch": [_by_case("s", "${workflow.input.v}", [task("d", "NOOP")], null=[task("n", "NOOP")], x=[task("x", "NOOP")])],
            "decision": [
                task(
                    "s",
                    "DECISION",
                    caseValueParam="w",
                    inputParameters={"w": "${workflow.input.v}"},
                    decisionCases={"null": [task("n", "NOOP")], "": [task("e", "NOOP")], "x": []},
                    defaultCase=[task("d", "NOOP")],
                )
            ],
            "variable": [task("v", "SET_VARIABLE", inputParameters=read), inline("i", "$.v", v="${workflow.variables.v}")],
            "terminate": [
                task(
                    "x",
                    "TERMINATE",
                    inputParameters={
                        "terminationStatus": "COMPLETED",
                        "terminationReason": "${workflow.input.v}",
                        "workflowOutput": "${workflow.input.v}",
                    },
                )
            ],
            "wait": [task("w", "WAIT", inputParameters={"duration": "${workflow.input.v}"})],
            "until": [task("w", "WAIT", inputParameters={"until": "${workflow.input.v}"})],
            "human": [task("h", "HUMAN", inputParameters=read)],
            "items": [task("l", "DO_WHILE", items="${workflow.input.v}", loopCondition="true", loopOver=[task("n", "NOOP")])],
            "loop": [
                task(
                    "l",
                    "DO_WHILE",
                    loopCondition="$.v == null && $.l['iteration'] < 2",
                    inputParameters={"v": "${workflow.input.v}"},
                    loopOver=[task("n", "NOOP")],
                )
            ],
            "sub": [
                task(
                    "c",
                    "SUB_WORKFLOW",
                    subWorkflowParam={"name": f"{OWN}child", "version": 1, "priority": "${workflow.input.v}"},
                    inputParameters=read,
                )
            ],
            "child": [task("c", "SUB_WORKFLOW", subWorkflowParam={"name": "${workflow.input.v}", "version": 1})],
            "started": [
                task(
                    "c",
                    "START_WORKFLOW",
                    inputParameters={
                        "startWorkflow": {"name": f"{OWN}child", "version": 1, "input": {"v": value}, "correlationId": value}
                    },
                )
            ],
            "forked": [
                task(
                    "f",
                    "FORK_JOIN_DYNAMIC",
                    dynamicForkTasksParam="t",
                    dynamicForkTasksInputParamName="i",
                    inputParameters={"t": "${workflow.input.v}", "i": "${workflow.input.v}"},
                ),
                task("j", "JOIN"),
            ],
            "alike": [
                task(
                    "f",
                    "FORK_JOIN_DYNAMIC",
                    inputParameters={"forkTaskInputs": "${workflow.input.v}", "forkTaskName": f"{OWN}a", "forkTaskType": "SIMPLE"},
                ),
                task("j", "JOIN"),
            ],
        }
        found += [
            _case(
                f"blank/{said}-{shape}",
                *tasks,
                task("z", "NOOP"),
                given={"v": value},
                others=[QUICK],
                outputParameters={"v": "${workflow.input.v}", "kept": value, "none": "${workflow.input.gone}"},
            )
            for shape, tasks in shapes.items()
        ]
        # A form leaves these blank.
        field = "taskToDomain" if isinstance(value, dict) else "correlationId"
        if value in (None, "", {}):
            found.append(_case(f"blank/{said}-start-{field}", task("a"), options={field: value}))
    return found


# ---------------------------------------------------------------- TERMINATE, and inline sub-workflows


def _ends() -> list[Case]:
    found = []
    for status in ("COMPLETED", "FAILED", "TERMINATED"):
        for said, reason in (("reason", "enough"), ("none", None)):
            given = {
                "terminationStatus": status,
                "workflowOutput": {"k": 1},
                **({} if reason is None else {"terminationReason": reason}),
            }
            end = task("x", "TERMINATE", inputParameters=given)
            beside = [[task("a")], [end]]
            shapes: dict[str, list[Json]] = {
                "loop": [task("l", "DO_WHILE", loopCondition="$.l['iteration'] < 3", loopOver=[task("n", "NOOP"), end])],
                "loop-case": [
                    task(
                        "l",
                        "DO_WHILE",
                        loopCondition="$.l['iteration'] < 4",
                        loopOver=[task("t"), _by_case("s", "${l.output.iteration}", **{"2": [end]})],
                    )
                ],
                "beside": [task("f", "FORK_JOIN", forkTasks=beside), task("j", "JOIN", joinOn=["a", "x"])],
                "beside-child": [
                    task(
                        "f",
                        "FORK_JOIN",
                        forkTasks=[
                            [task("c", "SUB_WORKFLOW", subWorkflowParam={"name": f"{OWN}child", "version": 1})],
                            [task("a"), end],
                        ],
                    ),
                    task("j", "JOIN", joinOn=["c", "x"]),
                ],
                "case": [_by_case("s", "a", a=[end, task("never", "NOOP")]), task("z", "NOOP")],
            }
            found += [_case(f"end/{status}-{said}-{shape}", *tasks, others=[CHILD]) for shape, tasks in shapes.items()]
            inner = workflow(task("n", "NOOP"), end, name="child")
            child = task("c", "SUB_WORKFLOW", subWorkflowParam={"name": f"{OWN}child", "version": 1})
            found.append(_case(f"end/{status}-{said}-child", child, task("z", "NOOP"), others=[inner]))
    return found


def _inner() -> list[Case]:
    inner = {**QUICK, "name": f"{OWN}inner"}
    params: Json = {
        "object": {"name": f"{OWN}inner", "version": 1, "workflowDefinition": inner},
        "expression": {"name": f"{OWN}child", "version": 1, "workflowDefinition": "${workflow.input.inner}"},
        "named": {"name": f"{OWN}child", "version": 1},
        "text": {"name": f"{OWN}child", "version": "1"},
        "latest": {"name": f"{OWN}child"},
    }
    inputs: Json = {"given": {"k": 1}, "none": {}, "marked": {"_systemMetadata": {"other": 1}}}
    return [
        _case(
            f"inner/{form}-{which}",
            task("c", "SUB_WORKFLOW", subWorkflowParam=param, inputParameters=given),
            given={"inner": inner},
            others=[QUICK],
            outputParameters={"given": "${c.output.given}"},
        )
        for form, param in params.items()
        for which, given in inputs.items()
    ]


def cases(drawn: int, seed: int) -> list[Case]:
    """The listed ones, and so many loops drawn with a seed."""
    return [*_rounds(drawn, seed), *_dynamics(), *_blanks(), *_ends(), *_inner()]
