"""How fast: the works W1 to W9 beside bare sqlite3 and, where they are asked for, beside peers; with the goals, held or not.

    python -m tests.benchmarks                  every row, five rounds
    python -m tests.benchmarks --quick          smaller sizes, one round: two minutes at most
    python -m tests.benchmarks --only W1 W4     rows whose names begin so
    python -m tests.benchmarks --peers FOLDER   beside DBOS, LangGraph, Burr, SpiffWorkflow and huey; their environments are made in
                                                the folder, from the package index, unless they are there
    python -m tests.benchmarks --json FILE      the figures of every round, too
    python -m tests.benchmarks searching …      another benchmark: load, scripting, searching, turn_isolation

Rounds are interleaved: each runs every contestant of a row once, in a process and a store of its own, each with the yardstick just
before and after it in the same process. What is printed are medians. F, N and M are durable steps a second of bare sqlite3 (insert,
update, commit) with synchronous=FULL, NORMAL, and in memory: machines differ, ratios to them less so. The exit code is 1 when a
goal is missed. See docs/explanation/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import runpy
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

HERE: Final = Path(__file__).parent
ENGINE: Final = "conductorlite"

#: What is installed for a peer.
PEERS: Final = {
    "dbos": ("dbos",),
    "langgraph": ("langgraph", "langgraph-checkpoint-sqlite"),
    "burr": ("apache-burr",),
    "spiff": ("SpiffWorkflow",),
    "huey": ("huey",),
}

OTHERS: Final = ("load", "scripting", "searching", "servers", "turn_isolation")

Record = Mapping[str, float]
#: By row and contestant, round by round.
Found = dict[str, dict[str, list[dict[str, float]]]]


def rate(of: Record) -> float:
    """Steps a second as a share of the yardstick's."""
    return of["units"] / of["seconds"] / of["yardstick"]


def each(of: Record) -> float:
    """Microseconds of one."""
    return of["seconds"] / of["units"] * 1e6


def cpu(of: Record) -> float:
    """The processor's microseconds of one."""
    return of["cpu"] / of["units"] * 1e6


def figure(name: str, scale: float = 1.0) -> Callable[[Record], float]:
    """One of the numbers as it was told."""
    return lambda of: of[name] * scale


@attrs.frozen
class Goal:
    """A figure, and what it is to be."""

    unit: str
    of: Callable[[Record], float]
    bound: float
    #: At least that much, else at most.
    least: bool = False

    def held(self, value: float) -> bool:
        """Whether it is."""
        return value >= self.bound if self.least else value <= self.bound


@attrs.frozen(kw_only=True)
class Row:
    """One row of the table."""

    name: str
    title: str
    work: str
    store: str = "full"
    #: How many in a full run, and in a quick one; None leaves it out there.
    count: int
    quick: int | None
    goals: tuple[Goal, ...]
    peers: tuple[str, ...] = ()
    #: For contestants that are slower by far.
    peer_count: int | None = None
    processes: int = 1


def commits(bound: float) -> Goal:
    """Commits of one step: each is one fsync with FULL, checkpoints apart."""
    return Goal("commits", lambda of: of["commits"] / of["units"], bound)


ROWS: Final = (
    Row(name="W1 FULL", title="chain of 10, one at a time", work="chains", count=100, quick=30, peers=("langgraph", "dbos"),
        goals=(Goal("F", rate, 0.5, least=True), commits(1.15))),
    Row(name="W1 NORMAL", title="", work="chains", store="normal", count=100, quick=40,
        goals=(Goal("N", rate, 0.18, least=True), Goal("µs CPU", cpu, 200))),
    Row(name="W1 memory", title="", work="chains", store="memory", count=200, quick=60, peers=("spiff", "burr", "langgraph"),
        goals=(Goal("M", rate, 0.10, least=True), Goal("µs CPU", cpu, 105))),
    Row(name="W2 FULL", title="1,000 chains of 5 at once", work="crowd", count=1_000, quick=300, peers=("langgraph", "dbos"),
        peer_count=100, goals=(Goal("F", rate, 1.5, least=True), commits(0.1))),
    Row(name="W2 NORMAL", title="by one process, two, four", work="crowd", store="normal", count=1_000, quick=None,
        goals=(Goal("µs each", each, 1e9),)),
    Row(name="W2 × 2", title="", work="crowd", store="normal", count=1_000, quick=None, processes=2,
        goals=(Goal("× one", figure("gain"), 1.5, least=True),)),
    Row(name="W2 × 4", title="", work="crowd", store="normal", count=1_000, quick=None, processes=4,
        goals=(Goal("× one", figure("gain"), 1.2, least=True),)),
    Row(name="W3", title="fan-out and join, 10,000", work="fork", count=10_000, quick=2_000, peers=("huey", "langgraph", "dbos"),
        peer_count=1_000, goals=(Goal("µs a branch", each, 300),)),
    Row(name="W3 wide", title="100,000 branches", work="fork", count=100_000, quick=None, goals=(Goal("µs a branch", each, 350),)),
    Row(name="W4", title="chain of 5,000", work="long", count=5_000, quick=1_000, peers=("dbos", "langgraph"), peer_count=500,
        goals=(Goal("µs a step", each, 500), commits(1.05))),
    Row(name="W4 loop", title="50,000 rounds in memory", work="loop", store="memory", count=50_000, quick=3_000,
        goals=(Goal("µs a round", each, 160),)),
    Row(name="W5", title="process start to first end", work="cold", count=1, quick=1, goals=(Goal("s", figure("whole"), 0.15),),
        peers=("spiff", "dbos", "huey", "burr", "langgraph")),
    Row(name="W6", title="200 in flight, kill -9, restart", work="recover", count=200, quick=60, peers=("dbos",),
        goals=(Goal("s", figure("seconds"), 1.0), Goal("of all", lambda of: of["ended"] / of["count"], 1.0, least=True))),
    Row(name="W7", title="disk of a finished 10-step one", work="disk", count=1_000, quick=200, peers=("huey", "dbos", "langgraph"),
        peer_count=200, goals=(Goal("KB", figure("bytes", 1 / 1024), 3.0),)),
    Row(name="W8", title="1,000,000 that wait 30 days", work="park", store="normal", count=1_000_000, quick=10_000,
        peers=("dbos",), peer_count=1_000,
        goals=(Goal("µs", each, 150), Goal("B disk", figure("bytes"), 1_024), Goal("B RAM", figure("memory"), 100))),
    Row(name="W9", title="30 days, 20 retries, a test", work="skip", store="memory", count=1_000, quick=50,
        goals=(Goal("ms", lambda of: each(of) / 1_000, 3.0),)),
    Row(name="counts", title="a step of W1", work="counts", store="normal", count=20, quick=10,
        goals=(Goal("statements", figure("statements"), 8), Goal("pages", figure("pages"), 6), Goal("B-trees", figure("trees"), 5),
               Goal("calls", figure("calls"), 250))),
)  # fmt: skip

#: Sizes at which the cost of one is charted.
SIZES: Final = {
    "fork": (100, 1_000, 10_000),
    "long": (100, 1_000, 5_000),
    "loop": (100, 1_000, 10_000),
    "park": (1_000, 10_000, 50_000),
}


def program(contestant: str, peers: Path | None) -> tuple[str, str]:
    """The interpreter and the script of a contestant."""
    if contestant == ENGINE:
        return sys.executable, str(HERE / "contestants" / "conductorlite_engine.py")
    return str((peers or HERE) / contestant / "bin" / "python"), str(HERE / "contestants" / f"peer_{contestant}.py")


def environment(peers: Path) -> None:
    """Make the environments of the peers that are not there yet."""
    for peer, wanted in PEERS.items():
        python = peers / peer / "bin" / "python"
        if not python.exists():
            print(f"making {python.parents[1]} …", file=sys.stderr, flush=True)
            subprocess.run([sys.executable, "-m", "venv", str(python.parents[1])], check=True)
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *wanted], check=True)


def run(row: Row, contestant: str, count: int, peers: Path | None, timeout: float) -> dict[str, float] | None:
    """One contestant's figures, from a process and a store of its own; None when it does not end well, or not in time."""
    with tempfile.TemporaryDirectory() as folder:
        python, script = program(contestant, peers)
        command = [python, script, row.work, "--store", row.store, "--count", str(count), "--folder", folder]
        command += ["--processes", str(row.processes)] if row.processes > 1 else []
        settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        begun = time.perf_counter()
        try:
            if row.work == "recover" and not killed([*command[:2], "hold", *command[3:]], Path(folder), count, settings):
                return None
            begun = time.perf_counter()
            done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=timeout, check=True)
        except (subprocess.SubprocessError, OSError) as error:
            print(f"{row.name}: {contestant}: {error}\n{getattr(error, 'stderr', None) or ''}"[-2_000:], file=sys.stderr)
            return None
        whole = time.perf_counter() - begun
        return {**json.loads(done.stdout.splitlines()[-1]), "whole": whole, "count": count}


def killed(command: Sequence[str], folder: Path, count: int, settings: Mapping[str, str]) -> bool:
    """Run until all wait at their fifth step, and kill it; the next process finds the gate open."""
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(command, env=settings, stdout=said, stderr=said)
        waiting, deadline = folder / "waiting", time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline and (not waiting.exists() or waiting.stat().st_size < count):
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
    (folder / "gate").touch()
    return waiting.exists() and waiting.stat().st_size >= count


def measured(rows: Sequence[Row], *, rounds: int, quick: bool, peers: Path | None, timeout: float) -> Found:
    """What was found, the order of the contestants turned round with every round."""
    found: Found = {row.name: {} for row in rows}
    for number in range(rounds):
        for row in rows:
            ours = row.quick if quick and row.quick is not None else row.count
            contestants = [ENGINE, *(row.peers if peers is not None else ())]
            shift = number % len(contestants)
            for contestant in (*contestants[shift:], *contestants[:shift]):
                count = ours if contestant == ENGINE else min(ours, row.peer_count or ours)
                record = run(row, contestant, count, peers, timeout)
                if record is not None:
                    found[row.name].setdefault(contestant, []).append(record)
            print(f"round {number + 1}: {row.name}", file=sys.stderr, flush=True)
    for row in rows:  # several processes beside one, of the same round
        alone = found.get("W2 NORMAL", {}).get(ENGINE, ())
        if row.processes > 1:
            for one, several in zip(alone, found[row.name].get(ENGINE, ()), strict=False):
                several["gain"] = each(one) / each(several)
    return found


def median(goal: Goal, records: Sequence[Record]) -> float | None:
    """The median of a figure; None where nobody told it."""
    values = []
    for record in records:
        try:
            values.append(goal.of(record))
        except KeyError:
            return None
    return statistics.median(values) if values else None


def lines(rows: Sequence[Row], found: Mapping[str, Mapping[str, Sequence[Record]]]) -> Iterator[tuple[str, bool]]:
    """A line for each goal, and whether it is held."""
    for row in rows:
        for at, goal in enumerate(row.goals):
            title = f"{row.name:<10} {row.title if at == 0 else '':<32}"
            value = median(goal, found[row.name].get(ENGINE, ()))
            others = [(peer, median(goal, records)) for peer, records in found[row.name].items() if peer != ENGINE]
            beside = "  ".join(f"{peer} {shown(one)}" for peer, one in others if one is not None)
            sign = "≥" if goal.least else "≤"
            if goal.bound >= 1e9:
                yield f"{title} {shown(value):>9} {goal.unit}", True
            else:
                held = value is not None and goal.held(value)
                wanted = f"{sign} {shown(goal.bound)} {goal.unit}"
                yield f"{title} {shown(value):>9} {wanted:<20} {'held' if held else 'MISSED':<7} {beside}".rstrip(), held


def shown(value: float | None) -> str:
    """Three digits, or a dash."""
    return "–" if value is None else f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"


def chart(peers: Path | None, timeout: float) -> tuple[list[str], list[dict[str, float | str]]]:
    """What one costs at growing sizes: level bars are linear growth."""
    said, points = [], []
    for work, sizes in SIZES.items():
        row = next(row for row in ROWS if row.work == work)
        records = {size: run(row, ENGINE, size, peers, timeout) for size in sizes}
        costs = {size: each(record) for size, record in records.items() if record is not None}
        for size, cost in costs.items():
            said.append(f"{row.name:<10} {size:>9,} {cost:>9,.0f} µs each  {'█' * max(1, round(40 * cost / max(costs.values())))}")
            points.append({"row": row.name, "size": size, "us": cost})
    return said, points


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and say whether every goal is held."""
    given = list(sys.argv[1:] if argv is None else argv)
    if given and given[0] in OTHERS:
        sys.path.insert(0, str(HERE))
        sys.argv = given
        runpy.run_module(given[0], run_name="__main__")
        return 0
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="smaller sizes, one round, no chart")
    parser.add_argument("--rounds", type=int, help="default: 5, 1 with --quick")
    parser.add_argument("--only", nargs="+", default=[""], metavar="W", help="rows whose names begin so")
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="where the environments of the peers are, or are made")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that one contestant may take; default: 600")
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    options = parser.parse_args(given)
    rows = [row for row in ROWS if row.name.startswith(tuple(options.only)) and not (options.quick and row.quick is None)]
    if options.peers is not None:
        environment(options.peers)
    rounds = options.rounds or (1 if options.quick else 5)
    python = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    machine = f"{platform.platform()}, {os.cpu_count()} processors, {python}; load {os.getloadavg()[0]:.1f}"
    print(f"{machine}; rounds: {rounds}{', quick' if options.quick else ''}", flush=True)
    found = measured(rows, rounds=rounds, quick=options.quick, peers=options.peers, timeout=options.timeout)
    held = True
    for line, fine in lines(rows, found):
        print(line)
        held &= fine
    points: list[dict[str, float | str]] = []
    if not options.quick and options.only == [""]:
        bars, points = chart(options.peers, options.timeout)
        print("\nWhat one costs at growing sizes:", *bars, sep="\n")
    if options.json is not None:
        document = {
            "machine": machine,
            "rounds": rounds,
            "quick": options.quick,
            "held": held,
            "records": found,
            "chart": points,
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
