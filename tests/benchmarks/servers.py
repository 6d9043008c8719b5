"""Beside DBOS on one PostgreSQL server, in one run: steps a second of W1, of W2, and of W2 with four processes.

`python -m tests.benchmarks servers --store postgresql://… --peers FOLDER`; with `--stores memory normal postgresql://… cassandra://…`
instead ours alone, on each of them: chains of ten one at a time, and of five at once. `sh tests/servers/postgres start` starts a
server that does not sync its commits, with PG_SYNC=1 one that does. Each contestant has a place of its own, made and dropped
here. The order turns round with every round; medians, and the ratio of each round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg

HERE = Path(__file__).parent / "contestants"
#: Work, executions by us, executions by DBOS, steps of one, processes.
WORKS = {
    "W1, one at a time": ("chains", 100, 30, 10, 1),
    "W2, at once": ("crowd", 600, 100, 5, 1),
    "W2, four processes": ("crowd", 600, 100, 5, 4),
}
GOAL = 3.0


def rate(command: Sequence[str], work: str, count: int, steps: int, processes: int) -> tuple[float, float]:
    """Steps a second from the first beginning to the last end, and the processor's microseconds of one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = [*command, work, "--count", str(count // processes), "--folder", name, "--beside"]
        running = [subprocess.Popen(given, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
        deadline = time.monotonic() + 120
        while len(list(folder.glob("ready-*"))) < processes and time.monotonic() < deadline:
            time.sleep(0.02)
        (folder / "go").touch()
        told = [json.loads(one.communicate(timeout=600)[0].splitlines()[-1]) for one in running]
    seconds = max(one["ended"] for one in told) - min(one["began"] for one in told)
    done = count // processes * processes * steps
    return done / seconds, sum(one["cpu"] for one in told) / done * 1e6


def on_stores(stores: Sequence[str], rounds: int) -> None:
    """Ours alone on each store, in turns: steps a second, and the processor's time of one."""
    ours = [sys.executable, str(HERE / "conductorlite_engine.py")]
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for number in range(rounds):
        for store in stores:
            for title, (work, count, steps) in {"one at a time": ("chains", 10, 10), "at once": ("crowd", 50, 5)}.items():
                place = ["--url", f"{store}{number}"] if "://" in store else ["--store", store]
                found.setdefault((store, title), []).append(rate([*ours, *place], work, count, steps, 1))
    for (store, title), records in found.items():
        rates, cpus = zip(*records, strict=True)
        low, high = min(rates), max(rates)
        shown = store.partition("://")[0]
        middle = statistics.median(rates)
        print(f"{shown:<12} {title:<14} {middle:>7.0f} steps/s ({low:.0f} to {high:.0f}), {statistics.median(cpus):.0f} µs CPU")
    print(f"load {os.getloadavg()[0]:.0f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--stores", nargs="+", help="instead: ours on these: memory, normal, full, or URLs that a number is put behind (…?schema=b)"
    )
    parser.add_argument("--store", metavar="URL", help="a PostgreSQL server and one of its databases")
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="has dbos/bin/python, as made by `--peers` without `servers`")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.stores:
        on_stores(options.stores, options.rounds)
        return
    if not (options.store and options.peers):
        parser.error("--store and --peers, or --stores")
    dbos = "contest_dbos"
    ours = [sys.executable, str(HERE / "conductorlite_engine.py")]
    theirs = [str(options.peers / "dbos" / "bin" / "python"), str(HERE / "peer_dbos.py")]
    found: dict[str, dict[str, list[tuple[float, float]]]] = {title: {"conductorlite": [], "dbos": []} for title in WORKS}
    with psycopg.connect(options.store, autocommit=True) as server:
        print(server.execute("SELECT version()").fetchone())
        for number in range(options.rounds):
            for title, (work, mine, peers, steps, processes) in WORKS.items():
                for who in ("conductorlite", "dbos") if number % 2 else ("dbos", "conductorlite"):
                    if who == "dbos":
                        server.execute(f"DROP DATABASE IF EXISTS {dbos} WITH (FORCE)")
                        server.execute(f"CREATE DATABASE {dbos}")
                        url = f"{options.store.rpartition('/')[0]}/{dbos}"
                        found[title][who].append(rate([*theirs, "--url", url], work, peers, steps, processes))
                    else:
                        server.execute("DROP SCHEMA IF EXISTS contest CASCADE")
                        url = f"{options.store}{'&' if '?' in options.store else '?'}schema=contest"
                        found[title][who].append(rate([*ours, "--url", url], work, mine, steps, processes))
        server.execute("DROP SCHEMA IF EXISTS contest CASCADE")
        server.execute(f"DROP DATABASE IF EXISTS {dbos} WITH (FORCE)")
    for title, by in found.items():
        rates = {who: statistics.median(one[0] for one in records) for who, records in by.items()}
        cpus = {who: statistics.median(one[1] for one in records) for who, records in by.items()}
        ratio = statistics.median(a[0] / b[0] for a, b in zip(by["conductorlite"], by["dbos"], strict=True))
        held = "held" if ratio >= GOAL else "MISSED"
        print(f"{title:<22} {rates['conductorlite']:>7.0f} steps/s, {cpus['conductorlite']:.0f} µs CPU; DBOS {rates['dbos']:.0f}, "
              f"{cpus['dbos']:.0f}; × {ratio:.2f} (≥ {GOAL:g}: {held})")  # fmt: skip


if __name__ == "__main__":
    main()
