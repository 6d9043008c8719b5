"""Searches of many indexed executions: a dozen kinds of question, medians; what a chain costs in a store that is searched.

Executions are made without an engine, straight into the index, because what is measured is the index; the cost of feeding is
measured on engines.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conductorlite import Engine, Semantics, SystemClock, VirtualClock, Workers, Workflow, WorkflowDef, WorkflowStatus
from conductorlite.model.canonical import Payload
from conductorlite.store.documents import WORKFLOWS, Document, workflow_document
from conductorlite.store.places import opened
from conductorlite.store.search import asked
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.tables import FeedKind

DAY = 86_400_000
_ENDINGS = ("COMPLETED",) * 90 + ("FAILED",) * 6 + ("RUNNING",) * 3 + ("TERMINATED",)
_CITIES = ("Berlin", "Paris", "Köln", "Rome", "Oslo", "東京", "Lima", "Cairo")

#: What is asked: query, free text, sort.
QUESTIONS: dict[str, tuple[str, str, str]] = {
    "everything, newest first": ("", "*", ""),
    "by id": ("workflowId = 'wf-012345'", "*", ""),
    "failed": ("status = FAILED", "*", ""),
    "failed of a name, in a week": (
        f"workflowType = order_3 AND status IN (FAILED, TIMED_OUT) AND startTime > {93 * DAY}",
        "*",
        "",
    ),
    "name begins, or correlation": ("workflowType STARTS_WITH 'order_1' OR correlationId = 'customer-77'", "*", ""),
    "not completed, longest first": ("NOT status = COMPLETED", "*", "executionTime:DESC"),
    "input path equals": ("input.order.id = 4711", "*", ""),
    "input path in a range, of a status": ("input.order.amount BETWEEN 100 AND 110 AND status = COMPLETED", "*", ""),
    "output path above": ("output.total > 990", "*", ""),
    "in a list of the input": ("input.items[*].sku = 'sku-99'", "*", ""),
    "a word": ("", "koln", ""),
    "two words, of a status": ("status = FAILED", "berlin express", ""),
    "a beginning of a word": ("", "customer-12*", ""),
    "page 100": ("status = COMPLETED", "*", "endTime:DESC"),
}


def executions(count: int) -> list[Document]:
    """Documents of executions of ten names over a hundred days."""
    return [_execution(n, count) for n in range(count)]


def _execution(n: int, count: int) -> Document:
    status = WorkflowStatus(_ENDINGS[n % 100])
    began = 1 + n * 100 * DAY // count
    order = {
        "order": {"id": n, "amount": n * 7919 % 1_000 / 2},
        "customer": {"name": f"customer-{n % 5_000}", "city": _CITIES[n % 8]},
        "items": [{"sku": f"sku-{n % 1_000}"}, {"sku": f"sku-{n % 777}"}],
        "shipping": "express" if n % 3 else "standard",
    }
    row = Workflow(
        workflow_id=f"wf-{n:06}",
        name=f"order_{n % 10}",
        version=1 + n % 3,
        definition_hash="",
        status=status,
        semantics=Semantics.ORKES,
        correlation_id=f"customer-{n % 5_000}",
        created_at=began,
        updated_at=began,
        ended_at=began + n * 31 % 60_000 if status.terminal else 0,
        input=Payload.of(order),
        output=Payload.of({"total": n % 1_000, "ok": status is WorkflowStatus.COMPLETED}),
        reason="the card was refused" if status is WorkflowStatus.FAILED else None,
    )
    return workflow_document(row)


def filled(folder: Path, count: int, url: str | None = None) -> tuple[Any, float]:
    """The index of a store, filled with so many executions, and how many went in per second."""
    clock = SystemClock()
    documents = executions(count)
    store: Any = SQLiteBackend(folder / "searching.db", synchronous="NORMAL") if url is None else opened(url, None)[0]
    began = clock.now()
    with store.writing() as tx:
        tx.feeds.begin_feed(FeedKind.OWN, "of no store")
    for n in range(0, count, 200):
        with store.writing() as tx:
            tx.feeds.index().put(documents[n : n + 200])
    return store, count * 1000 / max(1, clock.now() - began)


def ask(store: Any, rounds: int) -> dict[str, tuple[float, int]]:
    """Median ms and number of hits of each question."""
    from time import perf_counter

    found = {}
    for name, (query, words, sort) in QUESTIONS.items():
        times = []
        for _ in range(rounds):
            began = perf_counter()
            wanted = asked(WORKFLOWS, query, words, 9_900 if name == "page 100" else 0, 100, sort)
            with store.reading() as view:
                hits = view.feeds.index().workflows(wanted).total_hits
            times.append((perf_counter() - began) * 1000)
        found[name] = statistics.median(times), hits
    return found


def steps(folder: Path, chains: int, *, begun: bool, fed: bool) -> float:
    """Processor µs a step, of chains of ten on SQLite: searched or not, and then fed by the driver or not."""
    from time import process_time

    workers = Workers()
    workers.add("step", lambda x: {"x": x})
    tasks = [{"name": "step", "taskReferenceName": f"t{n}", "inputParameters": {"x": n}} for n in range(10)]
    store = Path(tempfile.mkdtemp(dir=folder)) / "steps.db"
    definition = WorkflowDef.from_json({"name": "chain", "tasks": tasks})
    with Engine(SQLiteBackend(store, synchronous="NORMAL"), workers=workers, clock=VirtualClock()) as engine:
        if begun:
            engine.search()
            engine.core.searching.own_feeder.used = fed
        engine.start(definition).result()
        for _ in range(chains):
            engine.start(definition)
        began = process_time()
        engine.run_until_idle()
        return (process_time() - began) * 1e5 / chains


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="executions (default 100,000)")
    parser.add_argument("--rounds", type=int, default=9, help="how often each question is asked")
    parser.add_argument("--chains", type=int, default=20, help="chains of ten steps")
    parser.add_argument("--store", metavar="URL", help="an empty store whose index is measured, in the place of a file")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store, rate = filled(folder, given.count, given.store)
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{given.count:,} executions indexed, {rate:,.0f} a second, {size / given.count:,.0f} bytes each")
        found = ask(store, given.rounds)
        for question, (median, hits) in found.items():
            print(f"  {question:36} {median:8.2f} ms  {hits:>8,} hits")
        print(f"  {'median of them':36} {statistics.median(median for median, _ in found.values()):8.2f} ms")
        store.close()
        if given.store is not None:
            return
        kinds = {"never searched": (False, False), "searched": (True, False), "searched, fed when idle": (True, True)}
        rounds = [
            {kind: steps(folder, given.chains, begun=begun, fed=fed) for kind, (begun, fed) in kinds.items()}
            for _ in range(given.rounds)
        ]
        for kind in kinds:
            ratio = statistics.median(one[kind] / one["never searched"] for one in rounds)
            print(f"  a step, {kind:28} {statistics.median(one[kind] for one in rounds):8.0f} µs  {ratio:8.2f}")


if __name__ == "__main__":
    main()
