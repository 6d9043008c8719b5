"""Random definitions and random lives of executions, both read off a tape of small integers.

A tape shrinks well: Hypothesis deletes and lowers its entries, and every tape means something, zeros being the simplest choice.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import attrs
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

__all__ = ["MOURN", "TAPES", "Shape", "Tape", "draw_definition", "draw_operations", "many"]

TAPES = st.binary(min_size=500, max_size=500)


def many(cases: int, **more: Any) -> settings:
    """So many cases, the same ones each time unless CONDUCTORLITE_RANDOM is set.

    A life takes milliseconds, shrinking one takes minutes: the tape that is printed is shrunk when it is needed.
    """
    return settings(
        max_examples=cases,
        deadline=None,
        derandomize="CONDUCTORLITE_RANDOM" not in os.environ,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
        **more,
    )


class Tape:
    """Choices in order; past its end every choice is the first one."""

    def __init__(self, choices: Sequence[int]) -> None:
        self._choices = choices
        self._at = 0

    def pick(self, count: int) -> int:
        """A number from 0 to count - 1."""
        if self._at >= len(self._choices):
            return 0
        self._at += 1
        return self._choices[self._at - 1] % count

    def chance(self, one_in: int) -> bool:
        """True about one time in so many; never past the end."""
        return self.pick(one_in) == one_in - 1


@attrs.define
class Shape:
    """What was drawn: how deep operators of different kinds are nested, and which there are."""

    kinds: set[str] = attrs.field(factory=set)
    nested: int = 0


#: Longer than what a row keeps inline, so that the payload is stored apart and has to be asked for.
LARGE = "large " * 300


#: Kinds of nodes, the simplest first.
KINDS = (
    *("SIMPLE", "DO_WHILE", "FORK_JOIN", "SWITCH", "WAIT", "SIMPLE", "NOOP"),
    *("RARE", "RARE", "LEAF", "LEAF", "RUN_TIME", "RUN_TIME"),
)
RARE = ("SET_VARIABLE", "SUB_WORKFLOW", "INLINE", "SUB_WORKFLOW", "SET_VARIABLE", "INLINE", "TERMINATE")
LEAVES = ("EXCLUSIVE_JOIN", "DECISION", "HUMAN", "LAMBDA", "JSON_JQ_TRANSFORM", "EXCLUSIVE_JOIN")
RUN_TIME = ("FORK_JOIN_DYNAMIC", "DYNAMIC", "START_WORKFLOW", "FORK_JOIN_DYNAMIC")
NESTING = ("DO_WHILE", "FORK_JOIN", "SWITCH", "DECISION", "EXCLUSIVE_JOIN", "SUB_WORKFLOW", "FORK_JOIN_DYNAMIC", "START_WORKFLOW")

#: What a drawn DYNAMIC may be asked to be; the third is a type that cannot stand alone, the last names nothing.
STAND_INS = ("n0", "n1", "WAIT", "NOOP", "JOIN", "")

#: Registered under its name in every case.
MOURN = {
    "name": "mourn",
    "tasks": [{"name": "n0", "taskReferenceName": "m", "inputParameters": {"why": "${workflow.input.reason}"}}],
}


def literal(value: Any) -> Any:
    """JSON whose expressions pass through one template untouched: they are for the one made of it at run time."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, dict):
        return {key: literal(inner) for key, inner in value.items()}
    return [literal(inner) for inner in value] if isinstance(value, list) else value


@attrs.define
class _Author:
    tape: Tape
    shape: Shape
    count: int = 0
    budget: int = 14
    #: Whether tasks are given compensations.
    undoing: bool = False
    finished: list[str] = attrs.field(factory=list)

    def ref(self, event: str) -> str:
        self.count += 1
        return f"{event}{self.count}"

    def sequence(self, depth: int, loops: tuple[str, ...], around: tuple[str, ...]) -> list[dict[str, Any]]:
        tasks: list[dict[str, Any]] = []
        for _ in range(1 + self.tape.pick(3)):
            tasks += self.node(depth, loops, around)
            if self.budget <= 0:
                break
        return tasks

    def node(self, depth: int, loops: tuple[str, ...], around: tuple[str, ...]) -> list[dict[str, Any]]:
        self.budget -= 1
        nestable = depth > 0 and self.budget > 0
        kind = KINDS[self.tape.pick(len(KINDS))]
        some = {"RARE": RARE, "LEAF": LEAVES, "RUN_TIME": RUN_TIME}.get(kind)
        if some is not None:
            kind = some[self.tape.pick(len(some))]
        if kind in NESTING and not nestable:
            kind = "SIMPLE"
        self.shape.kinds.add(kind)
        inside = (*around, kind)
        self.shape.nested = max(self.shape.nested, len(set(inside)))
        make = {
            "SIMPLE": self.simple,
            "NOOP": self.noop,
            "WAIT": self.wait,
            "SWITCH": self.switch,
            "FORK_JOIN": self.fork,
            "DO_WHILE": self.loop,
            "SET_VARIABLE": self.variable,
            "SUB_WORKFLOW": self.child,
            "TERMINATE": self.terminate,
            "INLINE": self.inline,
            "FORK_JOIN_DYNAMIC": self.dynamic_fork,
            "DYNAMIC": self.dynamic,
            "START_WORKFLOW": self.start,
            "DECISION": self.decision,
            "EXCLUSIVE_JOIN": self.exclusive,
            "HUMAN": self.human,
            "LAMBDA": self.function,
            "JSON_JQ_TRANSFORM": self.transform,
        }[kind]
        made = make(depth, loops, inside)
        if self.undoing and kind != "TERMINATE" and self.tape.chance(3):
            self.undo(made[-1])
        return made

    def undo(self, task: dict[str, Any]) -> None:
        """Give a task something that undoes it, now and then with retries, time to pass or a permission to fail."""
        ref = task["taskReferenceName"]
        task["compensate"] = (
            "n1",
            {"name": "n2", "taskReferenceName": f"u{ref}", "inputParameters": {"undo": f"${{{ref}}}", "all": f"${{{ref}.output}}"},
             "optional": True, "taskDefinition": {"name": "n2", "retryCount": 1, "retryDelaySeconds": 2, "timeoutSeconds": 12,
                                                  "responseTimeoutSeconds": 4, "timeoutPolicy": "TIME_OUT_WF"}},
            {"name": "set", "taskReferenceName": f"u{ref}", "type": "SET_VARIABLE",
             "inputParameters": {"x0": f"${{{ref}.status}}"}},
            {"name": "pause", "taskReferenceName": f"u{ref}", "type": "WAIT", "inputParameters": {"duration": "3 s"}},
            {"name": "n0", "taskReferenceName": f"u{ref}", "retryCount": 1,
             "inputParameters": {"undo": f"${{{ref}.output.x}}"}},
        )[self.tape.pick(5)]  # fmt: skip

    def base(self, event: str, kind: str) -> dict[str, Any]:
        ref = self.ref(event)
        return {"name": f"n{self.tape.pick(3)}" if kind == "SIMPLE" else ref, "taskReferenceName": ref, "type": kind}

    def forgiving(self, task: dict[str, Any]) -> dict[str, Any]:
        if self.tape.chance(7):
            task["optional"] = True
        if self.tape.chance(7):
            task["permissive"] = True
        return task

    def inputs(self, loops: tuple[str, ...]) -> dict[str, Any]:
        values: dict[str, Any] = {"n": "${workflow.input.n}"}
        for number in range(self.tape.pick(3)):
            if self.finished:
                ref = self.finished[self.tape.pick(len(self.finished))]
                forms = ("${REF.output.x}", "got ${REF.output}", "${REF.status}", "${REF}")
                values[f"v{number}"] = forms[self.tape.pick(4)].replace("REF", ref)
        if loops:
            values["i"] = f"${{{loops[-1]}.output.iteration}}"
            if self.tape.chance(6):
                values["all"] = f"${{{loops[-1]}.output}}"
        if self.tape.chance(5):
            values["id"] = "${CPEWF_TASK_ID}"
        return values

    def simple(self, depth: int, loops: tuple[str, ...], around: tuple[str, ...]) -> list[dict[str, Any]]:
        task = self.forgiving(self.base("t", "SIMPLE"))
        task["inputParameters"] = self.inputs(loops)
        definition: dict[str, Any] = {"name": task["name"]}
        definition["retryCount"] = self.tape.pick(3)
        definition["retryLogic"] = ("FIXED", "LINEAR_BACKOFF", "EXPONENTIAL_BACKOFF")[self.tape.pick(3)]
        definition["retryDelaySeconds"] = self.tape.pick(6)
        definition["backoffScaleFactor"] = 1 + self.tape.pick(2)
        definition["timeoutPolicy"] = ("RETRY", "ALERT_ONLY", "TIME_OUT_WF")[self.tape.pick(3)]
        definition["pollTimeoutSeconds"] = (0, 5, 9)[self.tape.pick(3)]
        definition["timeoutSeconds"] = (0, 12, 20)[self.tape.pick(3)]
        definition["responseTimeoutSeconds"] = (0, 4, 7)[self.tape.pick(3)]
        definition["totalTimeoutSeconds"] = (0, 25, 40)[self.tape.pick(3)]
        if self.tape.chance(4):
            definition["backoffJitterMs"] = 700
        if self.tape.chance(5):
            task["startDelay"] = 1 + self.tape.pick(4)
        if self.tape.chance(5):
            definition["inputTemplate"] = {"extra": "${workflow.input.n}", "n": 0}
        task["taskDefinition"] = definition
        self.finished.append(task["taskReferenceName"])
        return [task]

    def noop(self, depth: int, loops: tuple[str, ...], around: tuple[str, ...]) -> list[dict[str, Any]]:
        return [self.base("p", "NOOP")]

    def wait(self, depth: int, loops: tuple[str, ...], around: tuple[str, ...]) -> list[dict[str, Any]]:
        task = self.forgiving(self.base("w", "WAIT"))
        task["inputParameters"] = (
            {"duration": "3 seconds"},
            {"duration": "${workflow.input.n} s"},
            {},
            {"until": "2030-01-01 00:01 UTC"},
            {"duration": "${workflow.input.bad}"},
        )[self.tape.pick(5)]
        self.finished.append(task["taskReferenceName"])
        return [task]

    def variable(self, depth: int, loops: tuple[str, ...], around: tuple[str, ...]) -> list[dict[str, Any]]:
        task = self.base("v", "SET_VARIABLE")
        task["inputParameters"] = {f"x{self.tape.pick(2)}": "${workflow.input.n}", **self.inputs(loops)}
        return [task]

    def inline(self, depth: int, loops: tuple[str, ...], around: tuple[str, ...]) -> list[dict[str, Any]]:
        task = self.forgiving(self.base("i", "INLINE"))
        scripts = ("$.n + 1", "({x: $.n, y: [$.n]})", "$.missing.deeper", "$.n > 0 ? 'some' : 'none'")
        python = self.tape.pick(4) == 3
        task["inputParameters"] = {
            **self.inputs(loops),
            "evaluatorType": "python" if python else "javascript",
            "expression": "return {'x': n}" if python else scripts[self.tape.pick(4)],
        }
        self.finished.append(task["taskReferenceName"])
        return [task]

    def function(self, depth: int, loops: tuple[str, ...], around: tuple[str, ...]) -> list[dict[str, Any]]:
        task = self.forgiving(self.base("y", "LAMBDA"))
        scripts = ("return $.n + 1", "return {x: $.n}", "return $.missing.deeper", "$.n")
        task["inputParameters"] = {**self.inputs(loops), "scriptExpression": scripts[self.tape.pick(4)]}
        task["retryCount"] = self.tape.pick(2)
        self.finished.append(task["taskReferenceName"])
        return [task]

    def transform(self, depth: int, loops: tuple[str, ...], around: tuple[str, ...]) -> list[dict[str, Any]]:
        task = self.forgiving(self.base("q", "JSON_JQ_TRANSFORM"))
        programs = (".n + 1", "{x: .n}, now", ".n.deeper", "empty")
        task["inputParameters"] = {**self.inputs(loops), "queryExpression": programs[self.tape.pick(4)]}
        task["retryCount"] = self.tape.pick(2)
        self.finished.append(task["taskReferenceName"])
        return [task]

    def human(self, depth: int, loops: tuple[str, ...], around: tuple[str, ...]) -> list[dict[str, Any]]:
        task = self.forgiving(self.base("h", "HUMAN"))
        task["inputParameters"] = self.inputs(loops)
        self.limited(task)
        self.finished.append(task["taskReferenceName"])
        return [task]

    def limited(self, task: dict[str, Any]) -> None:
        """Mostly with timeouts: what waits for others meets every event while it is open."""
        if self.tape.pick(3):
            task["taskDefinition"] = {
                "name": task["name"],
                "retryCount": self.tape.pick(2),
                "timeoutSeconds": (5, 0, 9)[self.tape.pick(3)],
                "responseTimeoutSeconds": (0, 0, 4)[self.tape.pick(3)],
                "totalTimeoutSeconds": (0, 0, 12, 10)[self.tape.pick(4)],
                "timeoutPolicy": ("RETRY", "ALERT_ONLY", "TIME_OUT_WF")[self.tape.pick(3)],
            }

    def decision(self, depth: int, loops: tuple[str, ...], around: tuple[str, ...]) -> list[dict[str, Any]]:
        """A SWITCH in other words."""
        (task,) = self.switch(depth, loops, around)
        scripted = task.pop("evaluatorType") == "javascript"
        task["type"] = "DECISION"
        task["caseExpression" if scripted else "caseValueParam"] = task.pop("expression")
        return [task]

    def exclusive(self, depth: int, loops: tuple[str, ...], around: tuple[str, ...]) -> list[dict[str, Any]]:
        """A SWITCH or DECISION, and what joins the ends of its cases."""
        (choice,) = (self.switch, self.decision)[self.tape.pick(2)](depth, loops, around)
        self.shape.kinds.add(choice["type"])
        ends = [case[-1]["taskReferenceName"] for case in choice["decisionCases"].values() if case]
        default = [choice["defaultCase"][-1]["taskReferenceName"]] if choice.get("defaultCase") else []
        return [choice, self.joining(ends, default)]

    def joining(self, refs: list[str], default: list[str]) -> dict[str, Any]:
        join = self.forgiving(self.base("e", "EXCLUSIVE_JOIN"))
        join["joinOn"] = refs
        if default and self.tape.pick(4):
            join["defaultExclusiveJoinTask"] = default
        self.limited(join)
        self.shape.kinds.add("EXCLUSIVE_JOIN")
        self.finished.append(join["taskReferenceName"])
        return join

    def terminate(self, depth: int, loops: tuple[str, ...], around: tuple[str, ...]) -> list[dict[str, Any]]:
        task = self.base("x", "TERMINATE")
        status = ("COMPLETED", "FAILED", "TERMINATED", "${workflow.input.bad}")[self.tape.pick(4)]
        task["inputParameters"] = {"terminationStatus": status, "workflowOutput": {"n": "${workflow.input.n}"}}
        return [task]

    def child(self, depth: int, loops: tuple[str, ...], around: tuple[str, ...]) -> list[dict[str, Any]]:
        task = self.forgiving(self.base("c", "SUB_WORKFLOW"))
        task["inputParameters"] = {"n": "${workflow.input.n}", "items": "${workflow.input.items}"}
        if self.tape.pick(2):
            task["retryCount"] = 1
            task["taskDefinition"] = {"name": task["name"], "retryDelaySeconds": 2, "timeoutSeconds": (0, 9)[self.tape.pick(2)]}
        payload_store, self.finished = self.finished, []
        inner: dict[str, Any] = {"name": f"child_{task['name']}", "tasks": self.sequence(depth - 1, (), around)}
        if self.tape.chance(4):
            inner["failureWorkflow"] = "mourn"
        self.finished = payload_store
        self.finished.append(task["taskReferenceName"])
        task["subWorkflowParam"] = {"workflowDefinition": inner}
        return [task]

    def switch(self, depth: int, loops: tuple[str, ...], around: tuple[str, ...]) -> list[dict[str, Any]]:
        task = self.forgiving(self.base("s", "SWITCH"))
        case = f"${{{loops[-1]}.output.iteration}}" if loops and self.tape.pick(2) else "${workflow.input.n}"
        if self.tape.chance(8):
            task |= {"evaluatorType": "javascript", "expression": "$.case.missing.deeper"}
        else:
            task |= {"evaluatorType": "value-param", "expression": "case"}
        task["inputParameters"] = {"case": case}
        before = list(self.finished)
        task["decisionCases"] = {"1": self.sequence(depth - 1, loops, around)}
        if self.tape.pick(2):
            task["decisionCases"]["2"] = [] if self.tape.chance(3) else self.sequence(depth - 1, loops, around)
        if self.tape.pick(2):
            task["defaultCase"] = self.sequence(depth - 1, loops, around)
        self.finished = before + [ref for ref in self.finished if ref not in before]
        self.finished.append(task["taskReferenceName"])
        return [task]

    def fork(self, depth: int, loops: tuple[str, ...], around: tuple[str, ...]) -> list[dict[str, Any]]:
        fork = self.base("f", "FORK_JOIN")
        branches = [self.sequence(depth - 1, loops, around) for _ in range(1 + self.tape.pick(3))]
        fork["forkTasks"] = branches
        if len(branches) > 1 and self.tape.chance(2):
            # What is joined runs, or is still to come, in another branch.
            refs = [task["taskReferenceName"] for task in branches[1]]
            branches[0].append(self.joining(refs[:1] if self.tape.pick(2) else refs, refs[-1:]))
            if self.tape.pick(2):
                branches[0].append(self.noop(depth, loops, around)[0])
        join = self.forgiving(self.base("j", "JOIN"))
        # A SWITCH at the end of a branch ends at once, as in Conductor; the JOIN may then end before its cases.
        join["joinOn"] = [branch[-1]["taskReferenceName"] for branch in branches]
        if len(join["joinOn"]) > 1 and self.tape.chance(5):
            join["joinOn"].pop()
        self.shape.kinds.add("JOIN")
        self.finished.append(join["taskReferenceName"])
        return [fork, join]

    def dynamic_fork(self, depth: int, loops: tuple[str, ...], around: tuple[str, ...]) -> list[dict[str, Any]]:
        """The three shapes of the input; in that of two parameters the branches are drawn, and hold whatever there is."""
        fork = self.base("f", "FORK_JOIN_DYNAMIC")
        shape = self.tape.pick(6)
        if shape == 5 and self.tape.pick(2):
            fork["inputParameters"] = {"forkTaskInputs": "${workflow.input.bad}"}
        elif shape >= 4:
            name = f"n{self.tape.pick(3)}"
            fork["inputParameters"] = {"forkTaskName": name, "forkTaskInputs": "${workflow.input.items}"}
        elif shape == 3:
            one = {"taskName": "n0", "referenceName": self.ref("t"), "input": {"n": "${workflow.input.n}"}}
            fork |= {"dynamicForkJoinTasksParam": "all", "inputParameters": {"all": {"dynamicTasks": [one]}}}
        else:
            before = list(self.finished)
            branches = [self.sequence(depth - 1, loops, around) for _ in range(self.tape.pick(4))]
            branches = [[literal(one) for one in branch] for branch in branches]
            self.finished = before + [ref for ref in self.finished if ref not in before]
            tasks = [branch[0] if len(branch) == 1 else branch for branch in branches]
            inputs = {branch[0]["taskReferenceName"]: {"given": "${workflow.input.n}"} for branch in branches[:1]}
            fork |= {"dynamicForkTasksParam": "t", "dynamicForkTasksInputParamName": "i"}
            fork["inputParameters"] = {"t": tasks, "i": inputs}
        if self.tape.chance(7):
            fork["optional"] = True
        join = self.forgiving(self.base("j", "JOIN"))
        self.shape.kinds.add("JOIN")
        self.finished.append(join["taskReferenceName"])
        return [fork, join]

    def dynamic(self, depth: int, loops: tuple[str, ...], around: tuple[str, ...]) -> list[dict[str, Any]]:
        task = self.forgiving(self.base("d", "DYNAMIC"))
        task["dynamicTaskNameParam"] = "who"
        who = STAND_INS[self.tape.pick(len(STAND_INS))]
        task["inputParameters"] = {**self.inputs(loops), "who": who, "duration": "2 seconds"}
        self.finished.append(task["taskReferenceName"])
        return [task]

    def start(self, depth: int, loops: tuple[str, ...], around: tuple[str, ...]) -> list[dict[str, Any]]:
        task = self.forgiving(self.base("r", "START_WORKFLOW"))
        payload_store, self.finished = self.finished, []
        inner = {"name": f"started_{task['name']}", "tasks": self.sequence(0, (), around)}
        self.finished = [*payload_store, task["taskReferenceName"]]
        request = (
            {"name": "mourn", "input": {"reason": "${workflow.input.n}"}},
            {"workflowDef": literal(inner), "priority": 3, "correlationId": "c"},
            {"name": "missing"},
            {},
        )[self.tape.pick(4)]
        task["inputParameters"] = {"startWorkflow": request}
        if self.tape.pick(2):
            task["retryCount"] = 1
            task["taskDefinition"] = {"name": task["name"], "retryDelaySeconds": 2}
        if self.tape.chance(5):
            task["startDelay"] = 2
        return [task]

    def loop(self, depth: int, loops: tuple[str, ...], around: tuple[str, ...]) -> list[dict[str, Any]]:
        task = self.forgiving(self.base("l", "DO_WHILE"))
        ref = task["taskReferenceName"]
        task["loopOver"] = self.sequence(depth - 1, (*loops, ref), around)
        body = task["loopOver"][-1]["taskReferenceName"]
        task |= (
            {"loopCondition": f"$.{ref}['iteration'] < 2"},
            {"items": "${workflow.input.items}"},
            {"loopCondition": f"if ($.{ref}.iteration < $.n) {{ true; }} else {{ false; }}"},
            {"items": "${workflow.input.items}", "loopCondition": "$.loopIndex < 1"},
            {"loopCondition": f"$.{ref}.iteration < 3 && ($.{body} != null)"},
        )[self.tape.pick(5)]
        task["inputParameters"] = {"n": "${workflow.input.n}", **({"keepLastN": 1} if self.tape.chance(4) else {})}
        self.finished.append(ref)
        return [task]


def draw_definition(tape: Tape, *, undoing: bool = False) -> tuple[dict[str, Any], dict[str, Any], Shape]:
    """A definition as Conductor JSON, an input for it, and its shape; with compensations now and then, or always if asked."""
    shape = Shape()
    author = _Author(tape, shape, undoing=tape.chance(3) or undoing)
    value: dict[str, Any] = {"bad": "nonsense", "n": tape.pick(3), "items": list(range(tape.pick(4)))}
    if tape.chance(4):
        value["note"] = LARGE
    tasks = author.sequence(3, (), ())
    definition: dict[str, Any] = {"name": "drawn", "tasks": tasks}
    if tape.chance(3):
        definition |= {"timeoutSeconds": 12 + tape.pick(48), "timeoutPolicy": ("TIME_OUT_WF", "ALERT_ONLY")[tape.pick(2)]}
    if tape.chance(4):
        definition["failureWorkflow"] = ("mourn", "missing", "$workflow.input.bad")[tape.pick(3)]
    if author.finished and tape.pick(2):
        ref = author.finished[tape.pick(len(author.finished))]
        definition["outputParameters"] = {"last": f"${{{ref}.output}}", "state": f"${{{ref}.status}}"}
    return definition, value, shape


#: What can be done to an execution, the most telling first.
OPERATIONS = (
    "work",
    "poll",
    "report",
    "next",
    "again",
    "sleep",
    "signal",
    "extend",
    "pause",
    "resume",
    "retry",
    "terminate",
    "work",
    "lose",
    "report",
    "retry",
    "set_back",
    "lose",
    "rerun",
    "resume_children",
    "restart",
    "skip",
    "rerun",
    "variables",
)


def draw_operations(tape: Tape, count: int) -> list[tuple[str, int, int]]:
    """A life: operations with two free numbers each."""
    return [(OPERATIONS[tape.pick(len(OPERATIONS))], tape.pick(7), tape.pick(9)) for _ in range(count)]
