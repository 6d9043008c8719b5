"""Thirty days in milliseconds: a workflow with 20 retries on memory under the virtual clock, and what an import costs.

python tests/benchmarks/time_skipping.py            aims: under 3 ms per run, under 120 ms for a cold import
python tests/benchmarks/time_skipping.py --importtime 25     also the modules that take longest to import
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Sequence

from harness import Case, Figure, arguments, compare, publish

from conductorlite import Engine, VirtualClock, Workers, WorkflowDef

_RETRIES = 20

_DEFINITION = WorkflowDef.from_json(
    {
        "name": "thirty_days",
        "version": 1,
        "tasks": [
            {
                "name": "flaky",
                "taskReferenceName": "flaky",
                "type": "SIMPLE",
                "inputParameters": {"order": "${workflow.input.order}"},
                "taskDefinition": {"name": "flaky", "retryCount": _RETRIES, "retryDelaySeconds": 36 * 3600},
            }
        ],
        "outputParameters": {"attempts": "${flaky.output.attempts}"},
    }
)


def thirty_days(runs: int) -> int:
    """Run the workflow so many times, each on an engine of its own; returns the number of runs."""
    for _ in range(runs):
        calls = 0

        def flaky(order: int) -> dict[str, int]:
            nonlocal calls
            calls += 1
            if calls <= _RETRIES:
                raise ConnectionError(f"order {order}: not today")
            return {"attempts": calls}

        workers = Workers()
        workers.task("flaky")(flaky)
        clock = VirtualClock()
        begun = clock.now()
        with Engine(workers=workers, clock=clock) as engine:
            output = engine.start(_DEFINITION, {"order": 7}).result()
        if output != {"attempts": _RETRIES + 1} or clock.now() - begun != 30 * 24 * 3_600_000:
            raise RuntimeError(f"wrong run: {output} after {clock.now() - begun} ms")
    return runs


_TIMED = "import time; t = time.perf_counter(); import conductorlite; print(time.perf_counter() - t)"


def cold_import() -> tuple[int, float]:
    """Import the package in a fresh interpreter, its byte code compiled already; returns (1, seconds)."""
    done = subprocess.run([sys.executable, "-c", _TIMED], capture_output=True, text=True, check=True)
    return 1, float(done.stdout)


def slowest_imports(count: int) -> list[tuple[float, str]]:
    """Modules with the longest import of their own, in ms, as `-X importtime` tells."""
    command = [sys.executable, "-X", "importtime", "-c", "import conductorlite"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = []
    for line in done.stderr.splitlines():
        own, _, module = (part.strip() for part in line.removeprefix("import time:").split("|"))
        if own.isdigit():
            found.append((int(own) / 1000, module))
    return sorted(found, reverse=True)[:count]


def measure(*, rounds: int, runs: int, imports: int) -> list[Figure]:
    """The figures of this benchmark."""
    figures = compare([Case("30 days, 20 retries", lambda: thirty_days(runs))], rounds=rounds)
    cold_import()
    seconds = [cold_import()[1] for _ in range(imports)]
    rates = [1 / one for one in seconds]
    figures.append(Figure(name="cold import", median=1 / statistics.median(seconds), least=min(rates), most=max(rates)))
    return figures


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = arguments(__doc__, rounds=9, runs=20, imports=9, importtime=0)
    given = parser.parse_args(argv)
    figures = measure(rounds=given.rounds, runs=given.runs, imports=given.imports)
    publish("Time skipping", "runs", figures, given.json)
    for own, module in slowest_imports(given.importtime) if given.importtime else ():
        print(f"  {own:8.2f} ms  {module}")


if __name__ == "__main__":
    main()
