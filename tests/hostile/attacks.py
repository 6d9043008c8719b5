"""Input meant to do harm, one function each: size, depth, scripts, patterns, growth, odd values, expressions.

Each is given an engine and returns the execution it began, or raises. `carrying_out.py` measures them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conductorlite import Engine, Run, WorkflowDef

J = dict[str, Any]
MB = 1024 * 1024


def node(ref: str, type: str = "SIMPLE", **fields: Any) -> J:
    """A task."""
    return {"name": ref, "taskReferenceName": ref, "type": type, **fields}


def given(ref: str, type: str = "SIMPLE", **inputs: Any) -> J:
    """A task with input."""
    return node(ref, type, inputParameters=inputs)


def flow(*tasks: J, **fields: Any) -> J:
    """A definition."""
    return {"name": "hostile", "version": 1, "tasks": list(tasks), **fields}


def start(engine: Engine, document: J | str, input: Any = None) -> Run:
    """Read, start."""
    return engine.start(WorkflowDef.from_json(document), input)


def inline(script: str, evaluator: str = "javascript", input: Any = None, **inputs: Any) -> Callable[[Engine], Run]:
    """An INLINE with a script."""
    values = {"expression": script, "evaluatorType": evaluator, **inputs}
    return lambda engine: start(engine, flow(node("i", "INLINE", inputParameters=values)), input)


def transform(query: str, input: Any = None, **inputs: Any) -> Callable[[Engine], Run]:
    """A JSON_JQ_TRANSFORM."""
    values = {"queryExpression": query, **inputs}
    return lambda engine: start(engine, flow(node("q", "JSON_JQ_TRANSFORM", inputParameters=values)), input)


def condition(script: str, evaluator: str = "javascript") -> Callable[[Engine], Run]:
    """A loop condition."""
    return lambda engine: start(
        engine, flow(node("l", "DO_WHILE", loopCondition=script, evaluatorType=evaluator, loopOver=[node("n", "NOOP")]))
    )


def chosen(script: str) -> Callable[[Engine], Run]:
    """A SWITCH by a script."""
    fields: J = {"evaluatorType": "javascript", "expression": script, "decisionCases": {"a": [node("n", "NOOP")]}}
    return lambda engine: start(engine, flow(node("s", "SWITCH", **fields)))


def read(text: Any, input: Any = None) -> Callable[[Engine], Run]:
    """A template."""
    return lambda engine: start(engine, flow(given("t", x=text)), input)


def nested(levels: int, inner: Any = 1, list_: bool = False) -> Any:
    """A map in a map, or a list in a list."""
    value = inner
    for _ in range(levels):
        value = [value] if list_ else {"a": value}
    return value


def tasks_in_tasks(kind: str) -> Callable[[Engine], Run]:
    """A definition 1,000 deep, as text."""
    shapes = {
        "SWITCH": ('"evaluatorType":"value-param","expression":"c","decisionCases":{"a":[', "]}"),
        "DO_WHILE": ('"loopCondition":"false","loopOver":[', "]"),
        "FORK_JOIN": ('"forkTasks":[[', "]]"),
        "SUB_WORKFLOW": ('"subWorkflowParam":{"workflowDefinition":{"name":"w","tasks":[', "]}}"),
    }
    opening, closing = shapes[kind]
    heads = "".join(f'{{"name":"t{n}","taskReferenceName":"t{n}","type":"{kind}",{opening}' for n in range(1_000))
    text = f'{{"name":"deep","tasks":[{heads}{{"name":"x","taskReferenceName":"x"}}{(closing + "}") * 1_000}]}}'
    return lambda engine: start(engine, text)


def ring(engine: Engine) -> Run:
    """Workflows that start each other."""

    def one(name: str, other: str) -> J:
        return {**flow(node("c", "SUB_WORKFLOW", subWorkflowParam={"name": other})), "name": name}

    for n in range(50):
        engine.register(WorkflowDef.from_json(one(f"w{n}", f"w{(n + 1) % 50}")))
    return engine.start("w0")


def returning(output: Callable[[], Any]) -> Callable[[Engine], Run]:
    """A worker that returns something."""

    def attack(engine: Engine) -> Run:
        engine.workers["t"].returns(output())  # type: ignore[attr-defined, index]
        return start(engine, flow(given("t"), given("z", x="${t.output}")))

    return attack


def doubling(engine: Engine) -> Run:
    """Each task's input holds the one before it twice."""
    tasks = [given("t0", x="${workflow.input.x}")]
    tasks += [given(f"t{n}", x=[f"${{t{n - 1}.input.x}}", f"${{t{n - 1}.input.x}}"]) for n in range(1, 41)]
    return start(engine, flow(*tasks), {"x": "x" * 100})


def growing(engine: Engine) -> Run:
    """A variable that grows in every round."""
    body = given("v", "SET_VARIABLE", x="${workflow.variables.x}${workflow.variables.x}")
    loop = node("l", "DO_WHILE", loopCondition="$.l['iteration'] < 60", loopOver=[body])
    return start(engine, flow(loop, variables={"x": "0123456789"}))


def chain(count: int) -> J:
    """Tasks one after another."""
    return flow(*(given(f"t{n}", "NOOP") for n in range(count)))


def wide(engine: Engine) -> Run:
    """A fork of 10,000 branches."""
    refs = [f"t{n}" for n in range(10_000)]
    return start(
        engine, flow(node("f", "FORK_JOIN", forkTasks=[[node(ref, "NOOP")] for ref in refs]), node("j", "JOIN", joinOn=refs))
    )


NOTHING = {"name": "n", "taskReferenceName": "n", "type": "NOOP"}


def rounds(ref: str, condition: str, body: J, **fields: Any) -> J:
    """A DO_WHILE."""
    return node(ref, "DO_WHILE", loopCondition=condition, loopOver=[body], **fields)


def endless(condition: str = "true", **inputs: Any) -> Callable[[Engine], Run]:
    """A loop that waits for nothing."""
    return lambda engine: start(engine, flow(rounds("l", condition, NOTHING, inputParameters=inputs)))


def long_list(engine: Engine) -> Run:
    """A list of 100,000 items, of which ten are done."""
    loop = node(
        "l",
        "DO_WHILE",
        loopCondition="$.loopIndex < 9",
        items="${workflow.input.all}",
        loopOver=[given("t", item="${l.output.loopItem}")],
    )
    return start(engine, flow(loop), {"all": list(range(100_000))})


def forked(tasks: Any) -> Callable[[Engine], Run]:
    """A dynamic fork over what is in the input."""
    names = {"dynamicForkTasksParam": "t", "dynamicForkTasksInputParamName": "i"}
    fork = node("f", "FORK_JOIN_DYNAMIC", inputParameters={"t": "${workflow.input.t}", "i": {}}, **names)
    return lambda engine: start(engine, flow(fork, node("j", "JOIN")), {"t": tasks() if callable(tasks) else tasks})


def spread(inputs: Callable[[], Any], **given: Any) -> Callable[[Engine], Run]:
    """A dynamic fork of one task for each input."""
    values = {"forkTaskInputs": "${workflow.input.all}", "forkTaskType": "NOOP", **given}
    fork = node("f", "FORK_JOIN_DYNAMIC", inputParameters=values)
    return lambda engine: start(engine, flow(fork, node("j", "JOIN")), {"all": inputs()})


def forks_in_forks(levels: int) -> J:
    """A branch that is a dynamic fork of a branch that is one, and so on."""
    names = {"dynamicForkTasksParam": "t", "dynamicForkTasksInputParamName": "i"}
    branch: list[J] = [node("x", "NOOP")]
    for n in range(levels):
        fork = node(f"f{n}", "FORK_JOIN_DYNAMIC", inputParameters={"t": [branch], "i": {}}, **names)
        branch = [fork, node(f"j{n}", "JOIN")]
    return branch  # type: ignore[return-value]


def switches(levels: int) -> J:
    """SWITCHes in each other, so many deep."""
    inner = node("x", "NOOP")
    for n in range(levels):
        how = {"evaluatorType": "value-param", "expression": "c"}
        inner = given(f"s{n}", "SWITCH", c="a") | {"decisionCases": {"a": [inner]}, **how}
    return inner


def own_child(engine: Engine) -> Run:
    """A workflow that is its own child, by expression."""
    by_name = {"subWorkflowParam": {"name": "${workflow.workflowType}"}, "retryCount": 0}
    engine.register(WorkflowDef.from_json(flow(node("c", "SUB_WORKFLOW", **by_name))))
    return engine.start("hostile")


def own_starter(engine: Engine) -> Run:
    """A workflow that starts itself."""
    body = given("s", "START_WORKFLOW", startWorkflow={"name": "hostile"})
    engine.register(WorkflowDef.from_json(flow(body)))
    return engine.start("hostile")


PATTERN = "(a+)+$"
#: Scripts that do not end.
SCRIPTS: dict[str, Callable[[Engine], Run]] = {
    "endless loop, INLINE": inline("while (true) {}"),
    "endless loop, loop condition": condition("while (true) {} true"),
    "endless loop, SWITCH": chosen("for (;;) {}"),
    "endless recursion": inline("function f(n) { return f(n + 1) + 1; } f(0);"),
    "endless generator": inline("function* g() { for (;;) yield 1; } [...g()].length"),
    "endless loop, caught": inline("for (;;) { try { for (;;) {} } catch (e) {} }"),
    "endless loop, python": inline("while True:\n    pass\nreturn 1", "python"),
    "endless comprehension, python": inline(
        "return [x for a in range(100000) for b in range(100000) for x in range(1000)]", "python"
    ),
    # Scripts that want all memory.
    "doubled text": inline("var s = 'x'; while (true) s += s;"),
    "repeated text": inline("'x'.repeat(1e9)"),
    "filled array": inline("new Array(1e9).fill(0)"),
    "typed array": inline("new Uint8Array(2e9).length"),
    "pushed for ever": inline("var a = []; for (;;) a.push(a.slice());"),
    "joined array": inline("Array(1e8).join('xxxxxxxxxx').length"),
    "padded text": inline("'x'.padEnd(1e9)"),
    "repeated text, python": inline("return 'x' * 10**9", "python"),
    "repeated list, python": inline("return [0] * 10**9", "python"),
    "power, python": inline("return 10 ** 10 ** 8", "python"),
    "shift, python": inline("return 1 << 10**10", "python"),
    "doubled list, python": inline("a = [1]\nwhile True:\n    a = a + a\nreturn a", "python"),
    "formatted number, python": inline("return f'{1:999999999}'", "python"),
    # jq programs.
    "endless recursion, jq": transform("def f: f; f"),
    "endless repetition, jq": transform("[repeat(1)]"),
    "endless results, jq": transform("repeat(1)"),
    "endless loop, caught, jq": transform("try last(range(1e15)) catch ."),
    "deep recursion, jq": transform("def f: 1 + f; f"),
    "doubled text, jq": transform('reduce range(1e9) as $i ("x"; . + .)'),
    "repeated text, jq": transform('("x" * 1e9) | length'),
    "filled array, jq": transform("[range(1e12)]"),
    "large results, jq": transform('"x" * 1e6 | repeat(.)'),
    "deep result, jq": transform("reduce range(100000) as $i (1; [.])"),
    "1,000 deep, jq text": transform("(" * 1_000 + "1" + ")" * 1_000),
    "100,000 deep, jq text": lambda engine: transform("(" * 100_000 + "1" + ")" * 100_000)(engine),
    "10 MB jq text": lambda engine: transform("1," * 5 * MB + "1")(engine),
    "10 MB into a jq program": lambda engine: transform(".x | length", input={"x": "x" * 10 * MB}, x="${workflow.input.x}")(engine),
    "many numbers into a jq program": lambda engine: transform(
        ".x | length", input={"x": [1] * 2_000_000}, x="${workflow.input.x}"
    )(engine),
    "pattern in a jq program": transform('("a" * 60 + "b") | test("^(a+)+$")'),
    "the end of the process, jq": transform("halt_error"),
    "files, jq": transform('import "/proc/self/environ" as $d; $d'),
    "half a surrogate pair, jq text": transform("'\ud800'"),
    "half a surrogate pair, into jq": transform(".x", x="${workflow.input.x}", input={"x": "\ud800"}),
}

#: Regular expressions.
PATTERNS: dict[str, Callable[[Engine], Run]] = {
    "pattern in a filter": read("${workflow.input.l[?(@ =~ /" + PATTERN + "/)]}", {"l": ["a" * 5_000 + "b"]}),
    "pattern in a filter function": read("${$.workflow.input.l[?match(@, '" + PATTERN + "')]}", {"l": ["a" * 5_000 + "b"]}),
    "pattern out of the input": read("${workflow.input.l[?search(@, '(.*a){25}$')]}", {"l": ["a" * 300 + "b"]}),
    "pattern in a script": inline(f"/{PATTERN}/.test('a'.repeat(60) + 'b')"),
    "pattern made in a script": inline("new RegExp('(x+x+)+y').test('x'.repeat(100))"),
    "pattern replaced in a script": inline("'a'.repeat(100000).replace(/(a*)*b/g, 'x').length"),
}

#: Depth.
DEPTH: dict[str, Callable[[Engine], Run]] = {
    **{f"1,000 deep, {kind}": tasks_in_tasks(kind) for kind in ("SWITCH", "DO_WHILE", "FORK_JOIN", "SUB_WORKFLOW")},
    "1,000 deep, input": lambda engine: start(engine, flow(given("t", x="${workflow.input}")), nested(1_000)),
    "1,000 deep, input of lists": lambda engine: start(engine, flow(given("t", x="${$..a}")), {"x": nested(1_000, list_=True)}),
    "100,000 deep, input": lambda engine: start(engine, flow(given("t")), nested(100_000)),
    "1,000 deep, template": lambda engine: start(engine, flow(given("t", x=nested(1_000, "${workflow.input.x}"))), {"x": 1}),
    "100,000 deep, JSON text": lambda engine: start(engine, '{"name": "x", "tasks": ' + "[" * 100_000),
    "1,000 deep, output": returning(lambda: nested(1_000)),
    "1,000 deep, script result": inline("var a = 1; for (var i = 0; i < 1000; i++) a = [a]; a"),
    "1,000 deep, script text": inline("(" * 1_000 + "1" + ")" * 1_000),
    "1,000 deep, python text": inline("(" * 1_000 + "1" + ")" * 1_000, "python"),
    "1,000 deep, path": read("${workflow.input" + ".a" * 1_000 + "}", nested(50)),
}

#: Size.
SIZE: dict[str, Callable[[Engine], Run]] = {
    "10 MB input, one text": lambda engine: start(engine, flow(given("t", x="${workflow.input.x}")), {"x": "x" * 10 * MB}),
    "10 MB input, many numbers": lambda engine: start(
        engine, flow(given("t", x="${workflow.input.x[0]}")), {"x": list(range(10**6, 10**6 + 1_300_000))}
    ),
    "10 MB output": returning(lambda: {"x": "x" * 10 * MB}),
    "10 MB definition": lambda engine: start(engine, flow(given("t", x="x" * 10 * MB))),
    "10 MB script": inline("1;" * 5 * MB),
    "10 MB into a script": inline("$.x.length", input={"x": "x" * 10 * MB}, x="${workflow.input.x}"),
    "100,000 items": long_list,
    "10,000 tasks": lambda engine: start(engine, chain(10_000)),
    "10,000 branches": wide,
    # What is made at run time.
    "10,000 branches, made at run time": spread(lambda: list(range(10_000))),
    "20,001 branches": spread(lambda: list(range(20_001))),
    "200,000 branches": spread(lambda: [0] * 200_000),
    "10 MB into one branch": spread(lambda: ["x" * 10 * MB], forkTaskType="SIMPLE", forkTaskName="t"),
    "a large value into a thousand branches": spread(
        lambda: [0] * 1_000, forkTaskType="SIMPLE", forkTaskName="t", big="${workflow.input.all}"
    ),
    "100 deep, branch": forked(lambda: [switches(100)]),
    "20 deep, dynamic forks": forked(lambda: [forks_in_forks(20)]),
    "10 MB of branches": forked(lambda: [node(f"b{n}", inputParameters={"x": "x" * 10_000}) | {"name": "t"} for n in range(1_000)]),
    "DYNAMIC with a name of 10 MB": lambda engine: start(
        engine, flow(given("d", "DYNAMIC", who="${workflow.input.x}") | {"dynamicTaskNameParam": "who"}), {"x": "x" * 10 * MB}
    ),
    "a child by expression that is oneself": own_child,
    "a start of oneself": own_starter,
}

#: Circles and growth.
GROWTH: dict[str, Callable[[Engine], Run]] = {
    "a loop without an end": endless(),
    "a loop without an end, keeping its last round": endless(keepLastN=1),
    "a loop without an end, keeping a negative number": endless(keepLastN=-(10**30)),
    "a loop without an end in another one": lambda engine: start(engine, flow(rounds("o", "true", rounds("l", "true", NOTHING)))),
    "a loop of an INLINE without an end": lambda engine: start(
        engine, flow(rounds("l", "true", given("i", "INLINE", evaluatorType="value-param", expression="x", x=1)))
    ),
    "a loop of a variable without an end": lambda engine: start(
        engine, flow(rounds("l", "true", given("v", "SET_VARIABLE", x="${l.output.iteration}")))
    ),
    "1e308 rounds": endless("$.l['iteration'] < 1e308"),
    "1e18 rounds, python": lambda engine: start(
        engine, flow(rounds("l", "return l['iteration'] < 10 ** 18", NOTHING, evaluatorType="python"))
    ),
    "a list that is a number": lambda engine: start(
        engine, flow(rounds("l", "true", NOTHING, items="${workflow.input.n}")), {"n": 1e9}
    ),
    "200,000 items, all of them": lambda engine: start(
        engine, flow(rounds("l", "true", NOTHING, items="${workflow.input.all}")), {"all": [0] * 200_000}
    ),
    "circle of sub-workflows": ring,
    "inputs that double": doubling,
    "variables that double": growing,
}

#: Odd values.
ODD: dict[str, Callable[[Engine], Run]] = {
    "integer of 5,000 digits": lambda engine: start(
        engine, flow(given("t", x="${workflow.input.x} and ${workflow.input.x}")), {"x": 10**5_000}
    ),
    "integer of 5,000 digits, JSON text": lambda engine: start(
        engine, '{"name": "x", "version": ' + "9" * 5_000 + ', "tasks": []}'
    ),
    "integer of 5,000 digits, script": inline("$.x + 1", input={"x": 10**5_000}, x="${workflow.input.x}"),
    "integer of 5,000 digits, wait": lambda engine: start(engine, flow(given("w", "WAIT", duration="9" * 5_000 + "s"))),
    "infinity": lambda engine: start(engine, flow(given("t")), {"x": float("inf")}),
}
#: Text that is none.
SURROGATES: dict[str, Callable[[Engine], Run]] = {
    "half a surrogate pair, input": lambda engine: start(engine, flow(given("t", x="${workflow.input.x}")), {"x": "\ud800"}),
    "half a surrogate pair, definition": lambda engine: start(engine, flow(given("t\udfff", x="\ud800"))),
    "half a surrogate pair, output": returning(lambda: {"x": "\udc00"}),
    "half a surrogate pair, script": inline("'\\ud800'"),
    "half a surrogate pair, script text": inline("'\ud800'"),
}

#: Expressions.
EXPRESSIONS: dict[str, Callable[[Engine], Run]] = {
    "100,000 openings": read("${" * 100_000),
    "100,000 openings and closings": read("${" * 100_000 + "}" * 100_000),
    "1,000 nested expressions": read("${workflow.input." * 1_000 + "x" + "}" * 1_000, {"x": "x"}),
    "100,000 expressions": read("${workflow.input.x}" * 100_000, {"x": 1}),
    "a large value a thousand times": read("${workflow.input.x}" * 1_000, {"x": "x" * MB}),
    "a large value a thousand times, whole": read(["${workflow.input.x}"] * 1_000, {"x": "x" * MB}),
    "scans of scans": read("${$..*..*..*..*}", {"l": [[[1] * 20] * 20] * 20}),
    "wildcards of wildcards": read("${workflow.input" + "[*]" * 3 + "..*..*}", {"l": [[[1] * 20] * 20] * 20}),
}
