"""Definitions with the task types that have nothing inside, and with DECISION and EXCLUSIVE_JOIN."""

from __future__ import annotations

from make import J, entry, flow, fork, given, loop, node, seq, switch


def of_leaves() -> list[J]:
    """One definition per way to use such a type."""
    return [
        entry(
            "EXCLUSIVE_JOIN",
            flow(
                "exclusive",
                [
                    switch("s", {"p": seq("a"), "q": seq("b")}, seq("c")),
                    node("x", "EXCLUSIVE_JOIN", joinOn=["a", "b"], defaultExclusiveJoinTask=["c"]),
                ],
            ),
            input={"case": "q"},
        ),
        entry(
            "DECISION by a parameter",
            flow(
                "decision",
                [
                    node(
                        "d",
                        "DECISION",
                        caseValueParam="k",
                        inputParameters={"k": "a"},
                        decisionCases={"a": seq("x")},
                        defaultCase=seq("y"),
                    )
                ],
            ),
        ),
        entry(
            "DECISION by a script",
            flow(
                "decision_script",
                [
                    node(
                        "d",
                        "DECISION",
                        caseExpression="$.n == null ? 'true' : 'false'",
                        inputParameters={"n": 1},
                        decisionCases={"true": seq("x"), "false": []},
                    )
                ],
            ),
        ),
        entry("HUMAN", flow("human", [given("h", "HUMAN", form="approve", order="${workflow.input.id}")])),
        entry(
            "HUMAN inside a loop inside a fork",
            flow("human_deep", fork("f", [[loop("l", [node("h", "HUMAN")])], seq("b")], "j", ["l", "b"])),
        ),
    ]
