"""Measure an execution beside others whose scripts never end: `python tests/hostile/endless.py`.

For each language, and for paths that look at many values, so many executions (`--executions`, 20) wait for what does not end, in
one process with a driver, on a file. Meanwhile a small execution with one worker and one script is started, again and again, until
none of them is left or `--seconds` have passed. Printed is how long it took at most from its start to its result, and how long it
takes alone. Ends with 1 when that is longer than `--limit` (1 s, on a machine that does nothing else).
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

from conductorlite import Engine, Workers, WorkflowDef

ENDLESS: Final = "(function () { for (;;); })()"
ROWS: Final = [{"a": number, "b": number} for number in range(20_000)]
FILTERS: Final = " ".join(f"${{workflow.input.rows[?(@.a > {number} && @.b < {number})].a}}" for number in range(20))


def task(ref: str, kind: str = "SIMPLE", inputs: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A task that is not retried."""
    definition = {"taskDefinition": {"name": ref, "retryCount": 0}} if kind != "SIMPLE" else {}
    return {"name": ref, "taskReferenceName": ref, "type": kind, "inputParameters": inputs or {}} | definition | fields


def inline(script: str, evaluator: str = "javascript") -> dict[str, Any]:
    """An INLINE with a script."""
    return task("x", "INLINE", {"evaluatorType": evaluator, "expression": script})


#: What takes long, by its name: the second task of an execution, number by number.
ATTACKS: Final[dict[str, Any]] = {
    "javascript": lambda number: inline(ENDLESS),
    "javascript, each another script": lambda number: inline(f"{number}; {ENDLESS}"),
    "javascript, a built-in function": lambda number: inline("'a'.repeat(4e5).indexOf('a'.repeat(2e5) + 'b')"),
    "jq": lambda number: task("x", "JSON_JQ_TRANSFORM", {"queryExpression": f"def f: f; f + {number}"}),
    "python": lambda number: inline("while True: pass", "python"),
    "paths": lambda number: task("x", "SET_VARIABLE", {"found": FILTERS}),
}


def definition(name: str, *tasks: dict[str, Any]) -> WorkflowDef:
    """A workflow of these tasks."""
    return WorkflowDef.from_json({"name": name, "tasks": list(tasks)})


def measure(attack: Any, executions: int, seconds: float) -> tuple[float, float, int, int]:
    """The longest from start to result alone and beside the attack, how often it was measured, how many attackers were left."""
    workers = Workers(concurrency=4)
    workers.add("a", lambda: {"n": 1})
    small = definition("small", task("a"), inline("[$.n].map(n => n + 1)[0]") | {"taskReferenceName": "i", "name": "i"})
    with tempfile.TemporaryDirectory() as folder, Engine(Path(folder, "endless.db"), workers=workers) as engine:
        hostile = [definition(f"hostile {number}", task("a"), attack(number)) for number in range(executions)]
        engine.register(small, *hostile)
        driver = threading.Thread(target=engine.run_forever)
        driver.start()
        try:

            def once() -> float:
                begun = time.perf_counter()
                engine.start("small").result("60s")
                return time.perf_counter() - begun

            alone = max(once() for _ in range(10))
            runs = [engine.start(one, {"rows": ROWS}) for one in hostile]
            beside: list[float] = []
            until = time.perf_counter() + seconds
            while time.perf_counter() < until and not all(run.status.terminal for run in runs):
                beside.append(once())
            return alone, max(beside, default=0.0), len(beside), sum(not run.status.terminal for run in runs)
        finally:
            engine.stop()
            driver.join()


def main() -> None:
    """Measure each attack, and end with 1 when one of them is over the limit."""
    parser = argparse.ArgumentParser(description="an execution beside others whose scripts never end")
    parser.add_argument("--executions", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each attack lasts at most")
    parser.add_argument("--limit", type=float, default=1.0, help="seconds that start to result may take")
    parser.add_argument("--only", default="", help="attacks whose name begins so")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    worst = 0.0
    for name, attack in ATTACKS.items():
        if name.startswith(given.only):
            alone, beside, count, left = measure(attack, given.executions, given.seconds)
            worst = max(worst, beside)
            line = f"{name:33} alone {alone * 1000:5.0f} ms, beside {beside * 1000:5.0f} ms ({count} times, {left} attackers left)"
            print(line, flush=True)
    sys.exit(worst > given.limit)


if __name__ == "__main__":
    main()
