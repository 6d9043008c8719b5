"""A store of many executions indexed by a search server while others begin and end; then fourteen kinds of question to both.

    python tests/servers/reindexing.py elasticsearch://127.0.0.1:9200 --count 100000

Printed is how many executions a second were indexed, twice (the second time beside the index that is searched), how many went on
meanwhile, what searches took meanwhile, what questions take in the store's own index and there (medians, ms), and whether the
answers were the same. What was not the same ends the command with status 1.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

from conductorlite import Engine, Workers, WorkflowDef
from conductorlite.store.sqlite.backend import SQLiteBackend

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from searching import QUESTIONS, executions

CHARGE = {"name": "charge", "taskReferenceName": "charge", "inputParameters": {"amount": "${workflow.input.order.amount}"}}
TOTAL = {"total": "${charge.output.total}"}
ORDERS = [WorkflowDef.from_json({"name": f"order_{n}", "tasks": [CHARGE], "outputParameters": TOTAL}) for n in range(10)]


def workers() -> Workers:
    """What charges."""
    made = Workers()
    made.add("charge", lambda amount: {"total": amount})
    return made


def fill(path: Path, count: int) -> None:
    """Start so many executions, and end some of them."""
    with Engine(SQLiteBackend(path, synchronous="NORMAL"), workers=workers()) as engine:
        engine.register(*ORDERS)
        given = [json.loads(one.input or "{}") for one in executions(count)]
        for n in range(0, count, 1_000):
            engine.start_many(f"order_{n // 1_000 % 10}", given[n : n + 1_000])
        for _ in range(count // 50):
            engine.tick()


def ask(engine: Engine, rounds: int) -> dict[str, tuple[float, tuple[int, object]]]:
    """Median ms and the answer of each question."""
    found = {}
    for name, (query, words, sort) in QUESTIONS.items():
        times, start = [], 9_900 if name == "page 100" else 0
        for _ in range(rounds):
            began = time.perf_counter()
            result = engine.search(query, free_text=words, sort=sort, start=start, size=100)
            times.append((time.perf_counter() - began) * 1000)
        found[name] = (statistics.median(times), (result.total_hits, result.results))
    return found


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--store", type=Path, help="one that was filled before")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = given.store or Path(folder) / "store.db"
        if not path.exists():
            began = time.perf_counter()
            fill(path, given.count)
            print(f"{given.count:,} executions started in {time.perf_counter() - began:.0f} s", flush=True)
        over, done = threading.Event(), [0]
        searched: list[float] = []

        def go_on() -> None:
            with Engine(path, workers=workers()) as other:
                while not over.is_set():
                    other.start("order_1", {"order": {"id": -1, "amount": 5}})
                    done[0] += other.tick()
                    time.sleep(0.001)

        def search_on(engine: Engine) -> None:
            while not over.wait(0.2):
                began = time.perf_counter()
                engine.search("status=COMPLETED", sort="startTime:DESC", size=100)
                searched.append((time.perf_counter() - began) * 1000)

        with Engine(path, index=f"{given.url}/test-{uuid.uuid4().hex[:12]}?replicas=0") as engine:
            threads = [threading.Thread(target=go_on), threading.Thread(target=search_on, args=(engine,))]
            threads[0].start()
            for what in ("first", "again, beside"):
                began, before, told = time.perf_counter(), done[0], [0]

                def tell(indexed: int, total: int, told: list[int] = told) -> None:
                    if indexed - told[0] >= 20_000 or (indexed == total != told[0]):
                        told[0] = indexed
                        print(f"  {indexed:,} of {total:,}", flush=True)

                engine.admin.rebuild_index(tell)
                took = time.perf_counter() - began
                print(f"{what}: {told[0] / took:,.0f} executions a second, {took:.0f} s", flush=True)
                print(f"  meanwhile {done[0] - before:,} units of work", flush=True)
                if what == "first":
                    threads[1].start()  # from now on there is an index
            over.set()
            for thread in threads:
                thread.join()
            middle, longest = statistics.median(searched), max(searched)
            print(f"{len(searched)} searches meanwhile, {middle:.1f} ms (median), {longest:.0f} ms (longest)")
            engine.admin.relay()
            theirs = ask(engine, given.rounds)
        with Engine(path) as engine:
            engine.search(size=0)
            ours = ask(engine, given.rounds)
    for name, (taken, answer) in ours.items():
        there, other = theirs[name]
        print(f"{name:36} {taken:8.1f} {there:8.1f}  {answer[0]:9,}  {'same' if answer == other else 'ANOTHER ANSWER'}")
    return 0 if all(answer == theirs[name][1] for name, (_, answer) in ours.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
