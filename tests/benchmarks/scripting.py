"""What a script costs: calls per second of each language, and rounds of a loop whose condition or body is one.

The baseline of calls is QuickJS in its helper process, that of rounds a condition that is compiled to closures. Every call has
values of its own: an answer is kept for the turn that asks again.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import partial
from itertools import count

from harness import Case, Figure, arguments, compare, publish

from conductorlite import Engine, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.language.conditions import compile_condition
from conductorlite.language.jq import compile_jq

CLOSURES, QUICKJS = "closures", "QuickJS"
#: By name: the language, and a condition on `n`.
CONDITIONS = {
    CLOSURES: ("javascript", "$.n >= 0 && $.n % 2 === 0"),
    QUICKJS: ("javascript", "[$.n].filter(n => n >= 0 && n % 2 === 0).length"),
    "Monty": ("python", "n >= 0 and n % 2 == 0"),
    "jq": ("jq", ".n >= 0 and .n % 2 == 0"),
}
_EXTRAS = {"python": "pydantic_monty", "jq": "jq"}
_numbers = count()


def _languages() -> dict[str, tuple[str, str]]:
    return {
        name: (language, text)
        for name, (language, text) in CONDITIONS.items()
        if importlib.util.find_spec(_EXTRAS.get(language, "json")) is not None
    }


def call(language: str, text: str, calls: int) -> int:
    """Compile once, evaluate so many times."""
    condition = compile_jq(text) if language == "jq" else compile_condition(text, language)
    for _ in range(calls):
        condition.evaluate({"n": next(_numbers)})
    return calls


def loop(kind: str, language: str, text: str, rounds: int) -> int:
    """A loop of so many rounds: its body a NOOP and the script its condition, or the script an INLINE or a transformation in it."""
    step = WorkflowTask(name="step", task_reference_name="step", type="NOOP")
    condition = f"$.loop['iteration'] < {rounds}"
    if kind == "condition":
        condition = condition if text == CONDITIONS[CLOSURES][1] else f"[$.loop['iteration']].every(n => n < {rounds})"
    else:
        inputs = {"queryExpression": text} if language == "jq" else {"evaluatorType": language, "expression": text}
        type_ = "JSON_JQ_TRANSFORM" if language == "jq" else "INLINE"
        inputs["n"] = "${loop.output.iteration}"
        step = WorkflowTask(name="step", task_reference_name="step", type=type_, input_parameters=inputs)
    body = {"loop_condition": condition, "loop_over": [step]}
    looped = WorkflowTask(name="loop", task_reference_name="loop", type="DO_WHILE", **body)
    with Engine(clock=VirtualClock()) as engine:
        run = engine.start(WorkflowDef(name="w", tasks=[looped]))
        engine.run_until_idle()
        if run.status != "COMPLETED":
            raise RuntimeError("the loop did not complete")
    return rounds


def measure(*, rounds: int, calls: int) -> list[tuple[str, str, list[Figure]]]:
    """The figures, per call and per round of a loop, each as ratios to its baseline."""
    known = _languages()
    called = [Case(name, partial(call, *given, calls)) for name, given in known.items()]
    looped = [Case(name, partial(loop, "condition", *known[name], calls)) for name in (CLOSURES, QUICKJS)]
    looped += [Case(f"{name} in the body", partial(loop, "body", *given, calls)) for name, given in known.items()]
    return [
        ("Scripts, per call", "calls", compare(called, rounds=rounds, baseline=QUICKJS)),
        ("Scripts, per round of a loop", "rounds", compare(looped, rounds=rounds, baseline=CLOSURES)),
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    given = arguments(__doc__, rounds=5, calls=300).parse_args(argv)
    for title, unit, figures in measure(rounds=given.rounds, calls=given.calls):
        publish(title, unit, figures, given.json and given.json.with_stem(f"{given.json.stem}-{unit}"))


if __name__ == "__main__":
    main()
