"""What the documents quote: trees with their order, conditions of loops, scripts, durations and dates."""

from __future__ import annotations

from typing import Any

from make import J, entry, flow, fork, given, inline, loop, node, seq, switch


def trees() -> list[list[J]]:
    """The trees whose succession is tabulated, in the order of the table."""

    def s(ref: str, default: str | None = None, **cases: list[J]) -> J:
        return switch(ref, cases, None if default is None else seq(default))

    def w(ref: str, *body: J) -> J:
        return loop(ref, list(body))

    return [
        seq("a b"),
        [*seq("a"), s("S", "d1 d2", c1=seq("b1 b2"), c2=[]), *seq("e")],
        [*fork("F", [seq("a b"), seq("c")], "j", ["b", "c"]), *seq("e")],
        [
            *fork(
                "F1",
                [[*seq("a"), *fork("F2", [seq("b"), seq("c")], "j2", ["b", "c"]), *seq("d")], seq("e")],
                "j1",
                ["d", "e"],
            ),
            *seq("z"),
        ],
        [s("S", c=fork("F", [seq("a a2"), seq("b")], "j", ["a2", "b"])), *seq("z")],
        [*fork("F", [[s("S", "d", c1=seq("a b"))], seq("c")], "j", ["S", "c"]), *seq("z")],
        [s("S0", c=[*fork("F", [[s("S1", c=seq("a b"))], seq("c2")], "j", ["S1", "c2"]), *seq("y")]), *seq("z")],
        [
            *fork("F1", [fork("F2", [[s("S", c=seq("a"))], seq("c")], "j2", ["S", "c"]), seq("e")], "j1", ["j2", "e"]),
            *seq("z"),
        ],
        [w("W", *seq("a"), s("S", "c", c1=seq("b")), *seq("d")), *seq("z")],
        [w("W", *seq("a"), s("S", c1=seq("b1 b2"))), *seq("z")],
        [*fork("F", [[w("W", *seq("a a2"))], seq("b")], "j", ["W", "b"]), *seq("z")],
        [s("S", c=[w("W", *seq("a")), *seq("y")]), *seq("z")],
        [w("W", *fork("F", [seq("a"), seq("b b2")], "j", ["a", "b2"])), *seq("z")],
        [w("W", *fork("F", [[s("S", c=seq("a"))], seq("b")], "j", ["S", "b"])), *seq("z")],
        [s("S", c=[given("T", "TERMINATE", terminationStatus="COMPLETED"), *seq("x")]), *seq("z")],
        [w("W1", *seq("a"), w("W2", *seq("b")), *seq("c"))],
        [
            *fork(
                "F1",
                [seq("e"), [*fork("F2", [seq("a"), seq("b")], "j2", ["a", "b"]), *seq("g")]],
                "j1",
                ["e", "g"],
            ),
            *seq("z"),
        ],
        [
            *fork(
                "F1",
                [[s("S", c=fork("F2", [seq("a"), seq("b")], "j2", ["a", "b"])), *seq("g")], seq("e")],
                "j1",
                ["g", "e"],
            ),
            *seq("z"),
        ],
    ]


#: Conditions of loops, with `R` for the loop, `T` for a task of the body and `K` for an input parameter.
LOOPS: list[tuple[str, J, J]] = [
    ("if ($.R['iteration'] < $.K) { true; } else { false; }", {"K": 3}, {}),
    ("if ($.R['iteration'] < 4) { true; } else { false; }", {}, {}),
    ("if ($.iteration < 3) { true; } else { false; }", {"iteration": "${R.output.iteration}"}, {}),
    ("if ($.value > 0) { true; } else { false; }", {"value": 0}, {}),
    (
        "if ( ($.R['iteration'] < $.K) || ($.T['response']['body'] > 10) ) { false; } else { true; }",
        {"K": 2},
        {"response": {"body": 9}},
    ),
    ("if ($.R['iteration'] < Math.ceil($.K/100)) {true;} else {false;}", {"K": 250}, {}),
    ("const a = 1; if ($.T.flag === true && $.R['iteration'] < 3) {true;} else {false;}", {}, {"flag": True}),
    ("(function () { if ($.R['iteration'] < $.K) { return true; } return false; })();", {"K": 2}, {}),
    ("(function () { return !$.K; })();", {"K": True}, {}),
    ("(function(){ return $.R['iteration'] < 3; })();", {}, {}),
    ("(function(){ return $.R['iteration'] < 3 && $.K !== true; })();", {"K": False}, {}),
    ("$.R['iteration'] < $.K", {"K": 2}, {}),
    ("$.R['iteration'] < 5", {}, {}),
    ("$.R['iteration'] < $.list.length", {"list": [1, 2, 3]}, {}),
    ("$.status != 'Completed'", {"status": "${T.output.status}"}, {"status": "Completed"}),
    ("$.T['done'] != true && $.R['iteration'] < 10", {}, {"done": True}),
    ("$.T['route'] != 'done' && $.R['iteration'] < $.K", {"K": 3}, {"route": "again"}),
    (
        "if ($.T['result']['route'] == 'done' || $.R['iteration'] >= 20) { false; } else { true; }",
        {},
        {"result": {"route": "done"}},
    ),
]

#: Conditions of loops over a list.
LISTS: list[tuple[str, J]] = [
    ("", {}),
    ("$.T['response']['status'] == 'success'", {"response": {"status": "success"}}),
    ("$.loopItem < 15", {}),
    ("$.loopIndex < 2", {}),
    ("$.R.iteration < 3", {}),
]

#: Scripts of SWITCH, with their input and the case they choose.
SWITCHES: list[tuple[str, J, str]] = [
    ("$.param > 0", {"param": 3}, "true"),
    ("$.number < 15 ? 'LONG':'LONG'", {"number": 20}, "LONG"),
    ("$.case == 'one' ? 'one' : $.case == 'two' ? 'two' : 'other'", {"case": "two"}, "two"),
    ("$.x == 'fedex' ? 'fedex' : 'ups'", {"x": "fedex"}, "fedex"),
    ("$.tier == 'enterprise' ? 'big' : 'small'", {"tier": "free"}, "small"),
    ("$.a === true && $.b === true ? 'ready':'missing'", {"a": True, "b": True}, "ready"),
    ("$.count > 0 ? 'ready':'none'", {"count": 0}, "none"),
    (
        "($.execute.output.confidence < 0.8 || $.execute.output.amount > 1000) ? 'review' : 'pass'",
        {"execute": {"output": {"confidence": 0.9, "amount": 10}}},
        "pass",
    ),
    ("$.judge.output.result.approved ? 'yes' : 'no'", {"judge": {"output": {"result": {"approved": True}}}}, "yes"),
    ("$.totalAmount > 500 ? 'manual' : 'auto'", {"totalAmount": 501}, "manual"),
    (
        "(function () { switch ($.kind) { case 'a': return 'first'; case 'b': return 'second'; default: return 'none'; } })();",
        {"kind": "b"},
        "second",
    ),
    ("$.items.filter(i => i > 10).length > 0 ? 'some' : 'no'", {"items": [5, 50]}, "some"),
    ("'true'", {"x": 1}, "true"),
    ('if ($.list.indexOf($.x) >= 0) { "true" } else { "false" }', {"list": ["p"], "x": "p"}, "true"),
    ("$.valueCheck == null ? 'true' : 'false'", {"valueCheck": None}, "true"),
]

#: Scripts of INLINE, in the order of the list.
INLINES: list[tuple[str, J]] = [
    ("({a: 'x' + ($.k || 'y')})", {}),
    ("(function () { return $.left + $.right; })();", {"left": 2, "right": 3}),
    ("(function () { return $.input; })();", {"input": {"b": [1]}}),
    ("(function () { var many = []; for (var i = 0; i < 4; i++) { many.push({n: i}); } return many; })();", {}),
    ("(function () { return Math.floor(Math.random() * 10) < 10; })();", {}),
    ("Date.now()", {}),
    ("new Date().toISOString()", {}),
    ("function iso(ms) { return new Date(ms).toISOString(); } iso($.at);", {"at": 86_400_000}),
    ("$.timestamp", {"timestamp": 1_700_000_000}),
    ("'literal'", {}),
    ("['$' + '{CPEWF_TASK_ID}']", {}),
    ("$.iteration > 25 ? 'late' : 'early'", {"iteration": 3}),
    ("function f() { return $.list.get($.iterator - 1); } f();", {"list": ["p", "q"], "iterator": 2}),
    ("/^[a-z]+$/.test($.word)", {"word": "abc"}),
    ("[].concat($.more ? ['m'] : [])", {"more": True}),
    ("(function () { var o = $.order; o.region = 'north'; return o; })();", {"order": {"id": 1}}),
    ("(function () { var p = $.p; if (!p || !p.action) return {action: 'none'}; return p; })();", {"p": {}}),
    ("${first.output.path}.length", {}),
]

#: `scriptExpression` of LAMBDA.
LAMBDAS = [
    "if ($.input.a==1){return {testvalue:true}} else {return {testvalue:false}}",
    "var i = 10; if ($.v == 1){ return {iValue:i} } else { return {iValue:i+3} }",
    "return {}",
    "return $.index - 1",
    "function e(){ return 1 } e();",
]

DURATIONS = ["5s", "5 s", "90s", "5min", "1d2h", "5m10s", "1hr", "1 day 2 hours 3 minutes 4 seconds", "1D 2H"]
DATES = [
    "2024-04-30 15:20",
    "2024-04-30 15:20 UTC",
    "2024-04-30 15:20 GMT",
    "2024-04-30 15:20 GMT+04:00",
    "2024-04-30 15:20 +0400",
    "2024-04-30 15:20 PST",
    "2024-04-30",
    " 2024-04-30",
    "2024-4-3 5:2",
]


def quoted() -> list[J]:
    """All of it, as definitions."""
    found: list[J] = []
    for number, tree in enumerate(trees(), 1):
        found.append(entry("a tree of the table of successions", flow(f"tree_{number}", tree), input={"case": "c"}))
    for number, (condition, inputs, output) in enumerate(LOOPS, 1):
        tasks = [loop("R", [node("T", name="turn")], condition, inputParameters=inputs)]
        found.append(entry(f"a loop while {condition}", flow(f"loop_{number}", tasks), outputs={"turn": output}))
    for number, (condition, output) in enumerate(LISTS, 1):
        tasks = [loop("R", [given("T", name="turn", item="${R.output.loopItem}")], condition, items="${workflow.input.list}")]
        given_list: dict[str, Any] = {"list": [3, 14, 15, 92]}
        found.append(
            entry(
                f"a list while {condition or 'there is more'}",
                flow(f"list_{number}", tasks),
                input=given_list,
                outputs={"turn": output},
            )
        )
    for number, (script, inputs, chosen) in enumerate(SWITCHES, 1):
        tasks = [
            switch("choose", {chosen: seq("wanted")}, [given("wrong", "TERMINATE", terminationStatus="FAILED")], script, **inputs)
        ]
        found.append(entry(f"a choice by {script}", flow(f"switch_{number}", tasks)))
    for number, (script, inputs) in enumerate(INLINES, 1):
        tasks = [node("first"), inline("script", script, "graaljs" if number % 2 else "javascript", **inputs)]
        output = {"result": "${script.output.result}"}
        found.append(
            entry(
                f"a script {script}",
                flow(f"inline_{number}", tasks, outputParameters=output),
                outputs={"first": {"path": "[1, 2]"}},
            )
        )
    lambdas = [given(f"lambda_{n}", "LAMBDA", scriptExpression=text, input={"a": 1}) for n, text in enumerate(LAMBDAS, 1)]
    found.append(entry("scripts of the deprecated LAMBDA", flow("lambdas", lambdas)))
    waits = [given(f"wait_{n}", "WAIT", duration=text) for n, text in enumerate(DURATIONS, 1)]
    found.append(entry("every spelling of a duration", flow("durations", waits)))
    waits = [given(f"until_{n}", "WAIT", until=text) for n, text in enumerate(DATES, 1)]
    found.append(entry("every spelling of an instant", flow("dates", waits)))
    return found
