"""How fast: the works W1 to W9 beside bare sqlite3 and, where they are asked for, beside peers; with the goals, held or not.

    python -m tests.benchmarks                  every row, five rounds
    python -m tests.benchmarks --quick          smaller sizes, one round: two minutes at most
    python -m tests.benchmarks --only W1 W4     rows whose names begin so
    python -m tests.benchmarks --peers FOLDER   beside DBOS, LangGraph, Burr, SpiffWorkflow and huey; their environments are made in
                                                the folder, from the package index, unless they are there
    python -m tests.benchmarks --json FILE      the figures of every round, too
    python -m tests.benchmarks --minutes 15     no round that would end later; what takes minutes is measured in the first one only
    python -m tests.benchmarks --page           table and chart, also into docs/explanation/performance.md
    python -m tests.benchmarks --from FILE      measure nothing: take what `--json` has written
    python -m tests.benchmarks searching …      another benchmark: load, scripting, searching, servers, talking,
                                                turn_isolation

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
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

HERE: Final = Path(__file__).parent
PAGE: Final = HERE.parents[1] / "docs" / "explanation" / "performance.md"
#: Between them stands what is measured, in the page.
MARKS: Final = ("<!-- measured -->\n", "<!-- end of what is measured -->\n")
ENGINE: Final = "conductorlite"

#: What is installed for a peer.
PEERS: Final = {
    "dbos": ("dbos",),
    "langgraph": ("langgraph", "langgraph-checkpoint-sqlite"),
    "burr": ("apache-burr",),
    "spiff": ("SpiffWorkflow",),
    "huey": ("huey",),
}

#: Those that keep what is done, so that what is not can go on.
DURABLE: Final = ("dbos", "langgraph")

OTHERS: Final = ("load", "scripting", "searching", "servers", "talking", "turn_isolation")

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
    #: At most so many rounds of it: one takes minutes.
    rounds: int = 5
    #: How much faster it is to be than the durable peers.
    ahead: float | None = None


def commits(bound: float) -> Goal:
    """Commits of one step: each is one fsync with FULL, checkpoints apart."""
    return Goal("commits", lambda of: of["commits"] / of["units"], bound)


ROWS: Final = (
    Row(name="W1 FULL", title="chain of 10, one at a time", work="chains", count=100, quick=30, peers=("langgraph", "dbos"),
        ahead=3, goals=(Goal("F", rate, 0.5, least=True), commits(1.15))),
    Row(name="W1 NORMAL", title="", work="chains", store="normal", count=100, quick=40,
        goals=(Goal("N", rate, 0.18, least=True), Goal("µs CPU", cpu, 200))),
    Row(name="W1 memory", title="", work="chains", store="memory", count=200, quick=60, peers=("spiff", "burr", "langgraph"),
        goals=(Goal("M", rate, 0.10, least=True), Goal("µs CPU", cpu, 105))),
    Row(name="W2 FULL", title="1,000 chains of 5 at once", work="crowd", count=1_000, quick=300, peers=("langgraph", "dbos"),
        peer_count=100, ahead=3, goals=(Goal("F", rate, 1.5, least=True), commits(0.1))),
    Row(name="W2 together", title="the same, by one start_many", work="together", count=1_000, quick=None,
        goals=(Goal("F", rate, 1.5, least=True), commits(0.1))),
    Row(name="W2 NORMAL", title="by one process, two, four", work="crowd", store="normal", count=1_000, quick=None,
        goals=(Goal("µs each", each, 1e9),)),
    Row(name="W2 × 2", title="", work="crowd", store="normal", count=1_000, quick=None, processes=2,
        goals=(Goal("× one", figure("gain"), 1.5, least=True),)),
    Row(name="W2 × 4", title="", work="crowd", store="normal", count=1_000, quick=None, processes=4,
        goals=(Goal("× one", figure("gain"), 1.2, least=True),)),
    Row(name="W3", title="fan-out and join, 10,000", work="fork", count=10_000, quick=2_000, peers=("huey", "langgraph", "dbos"),
        peer_count=1_000, ahead=3, goals=(Goal("µs a branch", each, 300),)),
    Row(name="W3 wide", title="100,000 branches", work="fork", count=100_000, quick=None, rounds=1,
        goals=(Goal("µs a branch", each, 350),)),
    Row(name="W4", title="chain of 5,000", work="long", count=5_000, quick=1_000, peers=("dbos", "langgraph"), peer_count=500,
        ahead=3, goals=(Goal("µs a step", each, 500), commits(1.05))),
    Row(name="W4 loop", title="50,000 rounds in memory", work="loop", store="memory", count=50_000, quick=3_000, rounds=2,
        goals=(Goal("µs a round", each, 160),)),
    Row(name="W5", title="process start to first end", work="cold", count=1, quick=1,
        peers=("spiff", "dbos", "huey", "burr", "langgraph"),
        goals=(Goal("s", figure("whole"), 0.15), Goal("s CPU", figure("cpu"), 1e9))),
    Row(name="W6", title="200 in flight, kill -9, restart", work="recover", count=200, quick=60, peers=("dbos",), ahead=3,
        goals=(Goal("s", figure("seconds"), 1.0), Goal("of all", lambda of: of["ended"] / of["count"], 1.0, least=True))),
    Row(name="W7", title="disk of a finished 10-step one", work="disk", count=1_000, quick=200, peers=("huey", "dbos", "langgraph"),
        peer_count=200, goals=(Goal("KB", figure("bytes", 1 / 1024), 3.0),)),
    Row(name="W8", title="1,000,000 that wait 30 days", work="park", store="normal", count=1_000_000, quick=10_000,
        peers=("dbos",), peer_count=1_000, rounds=1,
        goals=(Goal("µs", each, 150), Goal("B disk", figure("bytes"), 1_024), Goal("B RAM", figure("memory"), 100))),
    Row(name="W9", title="30 days, 20 retries, a test", work="skip", store="memory", count=1_000, quick=50,
        goals=(Goal("ms", lambda of: each(of) / 1_000, 3.0),)),
    Row(name="README", title="its main job, 500 files", work="job", count=500, quick=150,
        goals=(Goal("of its CPU", figure("share"), 0.15),)),
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


def measured(rows: Sequence[Row], *, rounds: int, quick: bool, peers: Path | None, timeout: float, minutes: float) -> Found:
    """What was found, the order of the contestants turned round with every round; none is begun that would end too late."""
    found: Found = {row.name: {} for row in rows}
    begun, longest = time.monotonic(), 0.0
    for number in range(rounds):
        if time.monotonic() - begun + longest > minutes * 60:
            print(f"{number} rounds: another one would end later than after {minutes:g} minutes", file=sys.stderr, flush=True)
            break
        round_begun, once = time.monotonic(), 0.0
        for row in rows:
            row_begun = time.monotonic()
            if number >= row.rounds:
                continue
            ours = row.quick if quick and row.quick is not None else row.count
            contestants = [ENGINE, *(row.peers if peers is not None else ())]
            shift = number % len(contestants)
            for contestant in (*contestants[shift:], *contestants[:shift]):
                count = ours if contestant == ENGINE else min(ours, row.peer_count or ours)
                record = run(row, contestant, count, peers, timeout)
                if record is not None:
                    found[row.name].setdefault(contestant, []).append(record)
            taken = time.monotonic() - row_begun
            once += taken if number + 1 >= row.rounds else 0
            print(f"round {number + 1}: {row.name}, {taken:.0f} s", file=sys.stderr, flush=True)
        longest = time.monotonic() - round_begun - once
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
        before = lead(row, found[row.name])
        if before is not None and row.ahead is not None:
            held, wanted = before >= row.ahead, f"≥ {shown(row.ahead)} × durable peers"
            yield f"{row.name:<10} {'':<32} {shown(before):>9} {wanted:<20} {'held' if held else 'MISSED'}", held


def lead(row: Row, found: Mapping[str, Sequence[Record]]) -> float | None:
    """How many times as fast as the faster of the durable peers, each beside its own yardstick; None where none was measured."""
    speed = Goal("", rate if row.work != "recover" else lambda of: of["ended"] / of["seconds"], 0)
    ours = median(speed, found.get(ENGINE, ()))
    peers = [one for peer in DURABLE if (one := median(speed, found.get(peer, ()))) is not None]
    return None if ours is None or not peers else ours / max(peers)


def shown(value: float | None) -> str:
    """Three digits, or a dash."""
    return "–" if value is None else f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"


def chart(peers: Path | None, timeout: float) -> list[dict[str, Any]]:
    """What one costs at growing sizes."""
    points = []
    for work, sizes in SIZES.items():
        row = next(row for row in ROWS if row.work == work)
        for size in sizes:
            record = run(row, ENGINE, size, peers, timeout)
            if record is not None:
                points.append({"row": row.name, "size": size, "us": each(record)})
    return points


def charted(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """The same for people: level bars are linear growth."""
    most = {point["row"]: max(one["us"] for one in points if one["row"] == point["row"]) for point in points}
    return [
        f"{one['row']:<10} {one['size']:>9,} {one['us']:>9,.0f} µs each  {'█' * max(1, round(40 * one['us'] / most[one['row']]))}"
        for one in points
    ]


def versions(peers: Path | None) -> str:
    """What was measured with, in words."""
    said = [f"Python {platform.python_version()}", f"SQLite {sqlite3.sqlite_version}"]
    for peer, wanted in PEERS.items() if peers is not None else ():
        asked = f"from importlib.metadata import version; print(*('{{}} {{}}'.format(n, version(n)) for n in {wanted}), sep=', ')"
        found = subprocess.run([program(peer, peers)[0], "-c", asked], capture_output=True, text=True, check=False)
        said.append(found.stdout.strip() or f"{peer}: not there")
    return ", ".join(said)


def written(document: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """What the page has of a measurement: with what, a table, the chart."""
    table = ["| work | measured | goal | verdict | others |", "|---|---|---|---|---|"]
    for row in rows:
        found = document["records"].get(row.name, {})
        ours = found.get(ENGINE, ())
        for goal in row.goals:
            value = median(goal, ours)
            beside = [(peer, median(goal, found[peer])) for peer in row.peers if peer in found]
            others = ", ".join(f"{peer} {shown(one)}" for peer, one in beside if one is not None) or "–"
            judged = goal.bound < 1e9
            wanted = f"{'≥' if goal.least else '≤'} {shown(goal.bound)}" if judged else "–"
            verdict = ("held" if value is not None and goal.held(value) else "**missed**") if judged else "–"
            table.append(f"| {row.name} | {shown(value)} {goal.unit} | {wanted} | {verdict} | {others} |")
        before = lead(row, found)
        if before is not None and row.ahead is not None:
            verdict = "held" if before >= row.ahead else "**missed**"
            table.append(f"| {row.name} | {shown(before)} × the faster durable peer | ≥ {shown(row.ahead)} | {verdict} | – |")
    bars = charted(document["chart"])
    chart = ["", "What one costs at growing sizes; level bars are linear growth:", "", "```text", *bars, "```"] if bars else []
    rounds = max((len(found.get(ENGINE, ())) for found in document["records"].values()), default=0)
    sizes = "sizes of `--quick`" if document["quick"] else "full sizes"
    said = f"{document['machine']}. {document['versions']}. Medians of {rounds} rounds at most, {sizes}."
    return "\n".join(["", *textwrap.wrap(said, 130), "", *table, *chart, "", ""])


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
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no round that would end later")
    parser.add_argument("--only", nargs="+", default=[""], metavar="W", help="rows whose names begin so")
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="where the environments of the peers are, or are made")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that one contestant may take; default: 600")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to this file")
    parser.add_argument("--from", type=Path, dest="source", metavar="FILE", help="measure nothing: take what --json has written")
    parser.add_argument("--page", type=Path, nargs="?", const=PAGE, metavar="FILE", help=f"write it into a page ({PAGE.name})")
    options = parser.parse_args(given)
    rows = [row for row in ROWS if row.name.startswith(tuple(options.only)) and not (options.quick and row.quick is None)]
    if options.source is not None:
        document = json.loads(options.source.read_text())
        rows = [row for row in rows if row.name in document["records"]]
    else:
        document = measurement(rows, options)
    held = True
    print(document["machine"])
    for line, fine in lines(rows, document["records"]):
        print(line)
        held &= fine
    if document["chart"]:
        print("\nWhat one costs at growing sizes:", *charted(document["chart"]), sep="\n")
    if options.json is not None:
        options.json.write_text(json.dumps({**document, "held": held}, indent=1) + "\n")
    if options.page is not None:
        before, begin, rest = options.page.read_text(encoding="utf-8").partition(MARKS[0])
        _, end, after = rest.partition(MARKS[1])
        options.page.write_text(before + begin + written(document, rows) + end + after, encoding="utf-8")
    return 0 if held else 1


def measurement(rows: Sequence[Row], options: argparse.Namespace) -> dict[str, Any]:
    """All figures of what is asked for, and with what they were taken."""
    if options.peers is not None:
        environment(options.peers)
    begun, rounds = time.monotonic(), options.rounds or (1 if options.quick else 5)
    machine = f"{platform.platform()}, {os.cpu_count()} processors, {time.strftime('%Y-%m-%d')}, load {os.getloadavg()[0]:.1f}"
    print(f"{machine}; rounds: {rounds}{', quick' if options.quick else ''}", file=sys.stderr, flush=True)
    points = chart(options.peers, options.timeout) if not options.quick and options.only == [""] else []
    left = options.minutes - (time.monotonic() - begun) / 60
    found = measured(rows, rounds=rounds, quick=options.quick, peers=options.peers, timeout=options.timeout, minutes=left)
    made = {"machine": machine, "versions": versions(options.peers), "rounds": rounds, "quick": options.quick}
    return {**made, "records": found, "chart": points}


if __name__ == "__main__":
    sys.exit(main())
