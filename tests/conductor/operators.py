"""Every operator, in the shapes it has: each a case that is driven to its end, whatever its tasks do."""

from __future__ import annotations

from typing import Any, Final

from cases import OWN, Case, inline, task, workflow

DRIVE: Final = {"do": "drive"}
FAIL: Final = [{"status": "FAILED"}]
FATAL: Final = [{"status": "FAILED_WITH_TERMINAL_ERROR"}]


def _case(
    name: str,
    *tasks: Any,
    given: Any = None,
    others: Any = (),
    defs: Any = (),
    outcomes: Any = None,
    steps: Any = None,
    **more: Any,
) -> Case:
    drive = {**DRIVE, **({"outcomes": outcomes} if outcomes else {})}
    return Case(
        name=f"operators/{name}",
        workflows=[workflow(*tasks, **more), *others],
        task_defs=defs,
        input=given or {},
        steps=[drive] if steps is None else steps,
    )


def _definition(ref: str, **more: Any) -> dict[str, Any]:
    base = {"name": f"{OWN}{ref}", "retryCount": 0, "retryDelaySeconds": 0, "timeoutSeconds": 0, "responseTimeoutSeconds": 3600}
    return {**base, **more}


def _fork(*branches: Any, on: Any = None, **more: Any) -> list[dict[str, Any]]:
    ends = [branch[-1]["taskReferenceName"] for branch in branches] if on is None else on
    return [task("f", "FORK_JOIN", forkTasks=list(branches)), task("j", "JOIN", joinOn=ends, **more)]


def _sub(ref: str, name: str = "child", **more: Any) -> dict[str, Any]:
    return task(ref, "SUB_WORKFLOW", subWorkflowParam={"name": f"{OWN}{name}", "version": 1}, **more)


CHILD: Final = workflow(task("c1"), name="child", outputParameters={"got": "${c1.output.value}"})
QUICK: Final = workflow(
    inline("q", "1 + 1"), name="child", outputParameters={"got": "${q.output.result}", "given": "${workflow.input}"}
)


def _switches() -> list[Case]:
    found = []
    for number, (given, kind) in enumerate(
        (value, kind)
        for value in ("a", "b", "x", "", None, 1, True, 1.5, [1], {"k": 1}, "A", " a", "null", "true", "1")
        for kind in ("value-param", "javascript", "graaljs", "DECISION", "script")
    ):
        chooser: dict[str, Any] = {"evaluatorType": kind, "expression": "which" if kind == "value-param" else "$.which"}
        if kind == "DECISION":
            chooser = {"caseValueParam": "which"}
        elif kind == "script":
            chooser = {"caseExpression": "$.which"}
        cases = {
            "a": [task("a1", "NOOP")],
            "1": [task("one", "NOOP")],
            "true": [task("t1", "NOOP")],
            "null": [task("n1", "NOOP")],
            "b": [],
        }
        choice = task(
            "s",
            "DECISION" if kind in ("DECISION", "script") else "SWITCH",
            inputParameters={"which": "${workflow.input.v}"},
            decisionCases=cases,
            defaultCase=[task("d1", "NOOP")] if number % 2 else [],
            **chooser,
        )
        found.append(_case(f"switch/{kind}-{number}", choice, task("z", "NOOP"), given={"v": given}))
    return found


def _loops() -> list[Case]:
    conditions = (
        "$.l['iteration'] < 3",
        "$.l.iteration < 2",
        "if ($.l['iteration'] < $.n) { true; } else { false; }",
        "false",
        "true && $.l['iteration'] < 2",
        "$.l['iteration'] < 3 && $.t['value'] > 5",
        "$.t.value < 5 && $.l['iteration'] < 3",
        "0",
        "''",
        "null",
        "nothing",
        "$.n > 9",
        "$.l['iteration'] < '2'",
        "(function () { return $.l['iteration'] < 2 })()",
        "$['l']['iteration'] < 2",
        "$.l.x.y < 1",
    )
    found = [
        _case(
            f"loop/condition-{number}",
            task("l", "DO_WHILE", loopCondition=text, inputParameters={"n": 2}, loopOver=[task("t")]),
            inline("i", "1"),
            outputParameters={"l": "${l.output}", "t": "${t.output}", "again": "${t__2.output}"},
        )
        for number, text in enumerate(conditions)
    ]
    bodies: dict[str, list[Any]] = {
        "inline": [inline("i", "$.n", n="${l.output.iteration}")],
        "switch": [
            task(
                "s",
                "SWITCH",
                evaluatorType="value-param",
                expression="w",
                inputParameters={"w": "${l.output.iteration}"},
                decisionCases={"1": [task("one")], "2": [task("two"), task("more", "NOOP")]},
                defaultCase=[task("d", "NOOP")],
            )
        ],
        "fork": _fork([task("a")], [task("b"), task("c", "NOOP")]),
        "variable": [task("v", "SET_VARIABLE", inputParameters={"n": "${l.output.iteration}"})],
        "sub": [_sub("c")],
        "before": [
            task("t", inputParameters={"before": "${t.output}", "round": "${l.output.iteration}"}),
            inline("i", "$.v", v="${t.output.value}"),
        ],
        "human": [task("h", "HUMAN")],
        "terminate": [
            task("x", "TERMINATE", inputParameters={"terminationStatus": "COMPLETED", "workflowOutput": {"n": "${l.output}"}})
        ],
    }
    for name, body in bodies.items():
        tasks = [task("l", "DO_WHILE", loopCondition="$.l['iteration'] < 3", loopOver=body), task("z", "NOOP")]
        more: dict[str, Any] = {"outputParameters": {"l": "${l.output}"}}
        found.append(_case(f"loop/body-{name}", *tasks, others=[CHILD], **more))
        found.append(
            _case(
                f"loop/failing-{name}", *tasks, others=[CHILD], outcomes={each: [{}, *FAIL] for each in ("a", "t", "one")}, **more
            )
        )
    for items in ("${workflow.input.l}", "${workflow.input.none}"):
        for condition in (None, "$.l['iteration'] < 2"):
            loop = task(
                "l",
                "DO_WHILE",
                items=items,
                loopOver=[inline("i", "$.n", n="${l.output.loopItem}", x="${l.output.loopIndex}")],
                **({"loopCondition": condition} if condition else {}),
            )
            found.append(
                _case(f"loop/items-{len(found)}", loop, given={"l": [5, {"k": 6}, "x"]}, outputParameters={"l": "${l.output}"})
            )
    found.append(
        _case(
            "loop/kept",
            task("l", "DO_WHILE", loopCondition="$.l['iteration'] < 5", loopOver=[task("t")], inputParameters={"keepLastN": 2}),
        )
    )
    return found


def _joins() -> list[Case]:
    found = []
    for name, outcomes in {"good": {}, "one": {"a": FAIL}, "both": {"a": FAIL, "b": FAIL}, "fatal": {"b": FATAL}}.items():
        for kind, more in {"plain": {}, "optional": {"optional": True}, "permissive": {"permissive": True}}.items():
            tasks = [*_fork([task("a", **more)], [task("b", **more), task("c")]), task("z")]
            found.append(_case(f"join/{kind}-{name}", *tasks, outcomes=outcomes, outputParameters={"j": "${j.output}"}))
    found += [
        _case("join/some", *_fork([task("a")], [task("b")], on=["a"]), task("z"), outputParameters={"j": "${j.output}"}),
        _case("join/inner", *_fork([task("a"), task("b")], [task("c")], on=["a", "c"]), outputParameters={"j": "${j.output}"}),
        _case(
            "join/nested",
            *_fork(
                [task("a"), task("g", "FORK_JOIN", forkTasks=[[task("b")], [task("c")]]), task("k", "JOIN", joinOn=["b", "c"])],
                [task("d")],
                on=["k", "d"],
            ),
        ),
        _case(
            "join/switch",
            *_fork(
                [
                    task(
                        "s",
                        "SWITCH",
                        evaluatorType="value-param",
                        expression="w",
                        inputParameters={"w": "x"},
                        decisionCases={"x": [task("a")]},
                    )
                ],
                [task("b")],
                on=["a", "b"],
            ),
        ),
        _case(
            "join/not_taken",
            *_fork(
                [
                    task(
                        "s",
                        "SWITCH",
                        evaluatorType="value-param",
                        expression="w",
                        inputParameters={"w": "q"},
                        decisionCases={"x": [task("a")]},
                    )
                ],
                [task("b")],
                on=["s", "b"],
            ),
        ),
        _case(
            "join/operators",
            *_fork([inline("a", "1")], [task("b", "SET_VARIABLE", inputParameters={"v": 1})], [task("n", "NOOP")]),
            outputParameters={"j": "${j.output}"},
        ),
        _case("join/optional_join", *_fork([task("a")], [task("b")], optional=True), task("z"), outcomes={"a": FAIL}),
    ]
    for taken in ("x", "y", "q"):
        choice = task(
            "s",
            "SWITCH",
            evaluatorType="value-param",
            expression="w",
            inputParameters={"w": taken},
            decisionCases={"x": [task("a")], "y": [task("b"), task("c")]},
            defaultCase=[task("d")],
        )
        for outcome in ({}, {"a": FAIL, "c": FAIL}):
            join = task("e", "EXCLUSIVE_JOIN", joinOn=["a", "c"], defaultExclusiveJoinTask=["d"])
            found.append(
                _case(
                    f"exclusive/{taken}-{len(outcome)}",
                    choice,
                    join,
                    task("z", "NOOP"),
                    outcomes=outcome,
                    outputParameters={"e": "${e.output}"},
                )
            )
    return found


def _dynamic() -> list[Case]:
    def fork(**given: Any) -> list[dict[str, Any]]:
        return [
            task(
                "f",
                "FORK_JOIN_DYNAMIC",
                inputParameters=given,
                dynamicForkTasksParam="tasks",
                dynamicForkTasksInputParamName="inputs",
            ),
            task("j", "JOIN"),
            task("z", "NOOP"),
        ]

    two = [task("a"), task("b")]
    output = {"j": "${j.output}"}
    shapes: dict[str, dict[str, Any]] = {
        "two": {"tasks": two, "inputs": {"a": {"x": 1}, "b": {"x": 2}}},
        "none": {"tasks": [], "inputs": {}},
        "no_inputs": {"tasks": two, "inputs": None},
        "missing_input": {"tasks": two, "inputs": {"a": {"x": 1}}},
        "not_a_list": {"tasks": "text", "inputs": {}},
        "null": {"tasks": None, "inputs": {}},
        "operators": {"tasks": [inline("a", "$.x + 1"), task("b", "NOOP")], "inputs": {"a": {"x": 1}}},
        "sub": {"tasks": [_sub("a")], "inputs": {"a": {"x": 1}}},
        "twice": {"tasks": [task("a"), task("a")], "inputs": {"a": {}}},
    }
    found = [
        _case(f"dynamic_fork/{name}", *fork(**shape), others=[CHILD], outputParameters=output) for name, shape in shapes.items()
    ]
    found.append(_case("dynamic_fork/failing", *fork(**shapes["two"]), outcomes={"b": FAIL}, outputParameters=output))
    alike = task("f", "FORK_JOIN_DYNAMIC", inputParameters={"forkTaskName": f"{OWN}w", "forkTaskInputs": "${workflow.input.l}"})
    for number, given in enumerate(([{"x": 1}, {"x": 2}], [], [1, "a"], None, "x")):
        found.append(_case(f"dynamic_fork/alike-{number}", alike, task("j", "JOIN"), given={"l": given}, outputParameters=output))
    for number, name in enumerate((f"{OWN}w", "INLINE", "NOOP", "", None, 5)):
        dynamic = task("d", "DYNAMIC", dynamicTaskNameParam="which", inputParameters={"which": "${workflow.input.v}", "x": 1})
        found.append(_case(f"dynamic/{number}", dynamic, task("z", "NOOP"), given={"v": name}))
    return found


def _families() -> list[Case]:
    ended = {"good": {}, "bad": {"c1": FAIL}, "fatal": {"c1": FATAL}}
    found = [
        _case(
            f"sub/{name}-{kind}",
            _sub("s", inputParameters={"x": 1}, **more),
            task("z", "NOOP"),
            others=[CHILD],
            outcomes=outcome,
            outputParameters={"s": "${s.output}"},
        )
        for name, outcome in ended.items()
        for kind, more in {"plain": {}, "optional": {"optional": True}, "retried": {"retryCount": 1}}.items()
    ]
    inner = {"name": f"{OWN}inner", "version": 1, "tasks": [inline("q", "$.x", x="${workflow.input.x}")], "schemaVersion": 2}
    middle = workflow(_sub("m", "child"), name="middle")
    found += [
        _case("sub/quick", _sub("s", inputParameters={"x": 1}), others=[QUICK], outputParameters={"s": "${s.output}"}),
        _case(
            "sub/inline",
            task(
                "s",
                "SUB_WORKFLOW",
                inputParameters={"x": 1},
                subWorkflowParam={"name": f"{OWN}inner", "version": 1, "workflowDefinition": inner},
            ),
        ),
        _case("sub/three_deep", _sub("s", "middle"), others=[middle, CHILD], outputParameters={"s": "${s.output}"}),
        _case("sub/three_deep_bad", _sub("s", "middle"), others=[middle, CHILD], outcomes={"c1": FAIL}),
        _case("sub/missing", _sub("s", "nobody")),
        _case("sub/latest", task("s", "SUB_WORKFLOW", subWorkflowParam={"name": f"{OWN}child"}), others=[QUICK]),
        _case(
            "sub/expression",
            task("s", "SUB_WORKFLOW", subWorkflowParam={"name": "${workflow.input.n}", "version": 1}),
            given={"n": f"{OWN}child"},
            others=[QUICK],
        ),
        _case(
            "start/plain",
            task(
                "s",
                "START_WORKFLOW",
                inputParameters={"startWorkflow": {"name": f"{OWN}child", "input": {"x": 1}, "correlationId": "c"}},
            ),
            others=[QUICK],
        ),
        _case("start/missing", task("s", "START_WORKFLOW", inputParameters={"startWorkflow": {"name": f"{OWN}nobody"}})),
        _case("start/nothing", task("s", "START_WORKFLOW", inputParameters={})),
        _case(
            "failure/plain",
            task("a"),
            others=[workflow(inline("u", "$.r", r="${workflow.input.reason}"), name="undo")],
            outcomes={"a": FAIL},
            failureWorkflow=f"{OWN}undo",
        ),
        _case("failure/missing", task("a"), outcomes={"a": FAIL}, failureWorkflow=f"{OWN}nobody"),
        _case(
            "failure/terminated",
            task("x", "TERMINATE", inputParameters={"terminationStatus": "FAILED", "terminationReason": "why"}),
            others=[workflow(task("u", "NOOP"), name="undo")],
            failureWorkflow=f"{OWN}undo",
        ),
    ]
    return found


def _leaves() -> list[Case]:
    found = []
    for number, (status, reason, output) in enumerate(
        (status, reason, output)
        for status in ("COMPLETED", "FAILED", "TERMINATED", "RUNNING", "x", None)
        for reason in ("why", None)
        for output in ({"k": "${a.output.value}"}, "text", None)
    ):
        given = {"terminationStatus": status, "terminationReason": reason, "workflowOutput": output}
        given = {name: value for name, value in given.items() if value is not None}
        found.append(
            _case(
                f"terminate/{number}",
                inline("a", "1"),
                task("x", "TERMINATE", inputParameters=given),
                task("z"),
                outputParameters={"o": 1},
            )
        )
    for number, (key, value) in enumerate(
        ("duration", text) for text in ("0s", "0 seconds", "", "x", "-1s", "1", "1 fortnight", None, 5, "5x s", " 0s ")
    ):
        found.append(_case(f"wait/{key}-{number}", task("w", "WAIT", inputParameters={key: value}), task("z", "NOOP"), steps=[]))
    for number, value in enumerate(
        (
            "2020-01-02",
            "2020-01-02 03:04",
            "2020-01-02 03:04 UTC",
            "2020-01-02 03:04 CET",
            "2020-13-45",
            "x",
            "",
            " 2020-01-02",
            "2020-01-02 ",
            "2020-01-02T03:04:05Z",
            5,
            None,
        )
    ):
        found.append(
            _case(f"wait/until-{number}", task("w", "WAIT", inputParameters={"until": value}), task("z", "NOOP"), steps=[])
        )
    found += [
        _case("wait/both", task("w", "WAIT", inputParameters={"duration": "1s", "until": "2020-01-01"}), steps=[]),
        _case(
            "wait/passing",
            task("w", "WAIT", inputParameters={"duration": "2s"}),
            task("z", "NOOP"),
            steps=[{"do": "pass", "seconds": 3}],
        ),
        _case(
            "wait/signalled",
            task("w", "WAIT", inputParameters={"duration": "1h"}),
            task("z", "NOOP"),
            outputParameters={"w": "${w.output}"},
        ),
        _case("human/given", task("h", "HUMAN", inputParameters={"x": "${workflow.input.x}"}), task("z", "NOOP"), given={"x": 1}),
        _case(
            "variable/all",
            task("v", "SET_VARIABLE", inputParameters={"a": 1, "b": {"c": "${workflow.input.x}"}}),
            task("w", "SET_VARIABLE", inputParameters={"a": "${workflow.variables.b.c}", "d": None}),
            given={"x": [1]},
            outputParameters={"v": "${workflow.variables}", "a": "${workflow.variables.a}"},
        ),
        _case("noop", task("n", "NOOP", inputParameters={"x": 1}), outputParameters={"n": "${n.output}", "i": "${n.input}"}),
        _case("empty_output", task("a"), outcomes={"a": [{"output": {}}]}),
    ]
    for name, outcomes in {"ok": [{}], "fail": FAIL, "fatal": FATAL, "again": [*FAIL, {}], "thrice": [*FAIL, *FAIL, {}]}.items():
        for retries in (0, 1, 2):
            for more in ({}, {"optional": True}, {"permissive": True}):
                label = f"worker/{name}-{retries}-{'-'.join(more) or 'plain'}"
                found.append(
                    _case(
                        label,
                        task("a", inputParameters={"x": "${workflow.input.x}"}, **more),
                        task("z", inputParameters={"s": "${a.status}", "o": "${a.output.value}"}),
                        given={"x": 1},
                        defs=[_definition("a", retryCount=retries)],
                        outcomes={"a": outcomes},
                        outputParameters={"a": "${a.output}", "s": "${a.status}", "r": "${a.reasonForIncompletion}"},
                    )
                )
    callback = {"status": "IN_PROGRESS", "callbackAfterSeconds": 0, "output": {"half": 1}}
    report = {"do": "report", "ref": "a", "type": f"{OWN}a"}
    for number, steps in enumerate(
        (
            [{**report, **callback}, {**report, "status": "COMPLETED", "output": {"whole": 2}}],
            [{**report, "status": "CANCELED"}],
            [{**report, **callback}, {**report, "status": "FAILED"}],
            [{"do": "signal", "ref": "a", "status": "COMPLETED", "output": {"s": 1}}],
            [{"do": "signal", "ref": "a", "status": "IN_PROGRESS", "output": {"s": 1}}, {**report, "status": "COMPLETED"}],
            [{"do": "signal", "ref": "a", "status": "FAILED", "output": {}}],
            [{"do": "signal", "ref": "nobody", "status": "COMPLETED"}],
        )
    ):
        found.append(
            _case(
                f"worker/reports-{number}",
                task("a"),
                task("z", "NOOP"),
                steps=[*steps, DRIVE],
                outputParameters={"a": "${a.output}"},
            )
        )
    return found


def cases() -> list[Case]:
    """All operators."""
    return [*_switches(), *_loops(), *_joins(), *_dynamic(), *_families(), *_leaves()]
