"""Where a turn reads: on a snapshot before the write transaction (and is fenced out if it came late), or inside it.

Outside, deciding blocks nobody, and a turn that lost the race is decided again. Inside, no turn is ever lost, but every
process waits while another decides. Measured with one process and with several on one SQLite file: `shared`, where all
take tasks from the same queue and so race for the same executions, and `apart`, where each has its own.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import attrs
from harness import Case, Figure, arguments, compare, publish

from conductorlite import Engine, VirtualClock, Workers, WorkflowDef
from conductorlite.errors import FencedOut, StorageBusy
from conductorlite.store.sqlite.backend import SQLiteBackend

#: A wait for the write lock that is counted as one, ms.
_WAIT_MS = 1.0


@attrs.frozen(kw_only=True)
class Job:
    """What all processes of one run do."""

    path: str
    inside: bool
    synchronous: Literal["FULL", "NORMAL"]
    processes: int
    shared: bool
    chains: int


@attrs.define
class Tally:
    """What one process saw."""

    turns: int = 0
    fenced_out: int = 0
    waits: int = 0
    waited_ms: float = 0.0
    longest_ms: float = 0.0
    given_up: int = 0


def _queue(job: Job, share: int) -> str:
    return "step" if job.shared else f"step{share}"


def _definition(job: Job, share: int) -> WorkflowDef:
    reads = ["${workflow.input.x}", *(f"${{t{n}.output.x}}" for n in range(9))]
    tasks = [
        {"name": _queue(job, share), "taskReferenceName": f"t{n}", "type": "SIMPLE", "inputParameters": {"x": read}}
        for n, read in enumerate(reads)
    ]
    return WorkflowDef.from_json({"name": "chain", "version": 1, "tasks": tasks})


def _ids(job: Job, share: int) -> list[str]:
    return [f"{share}-{n}" for n in range(job.chains)]


def _engine(job: Job, share: int) -> Engine:
    workers = Workers()
    workers.task(_queue(job, share))(lambda x: {"x": x})
    engine = Engine(SQLiteBackend(job.path, synchronous=job.synchronous), workers=workers, clock=VirtualClock())
    engine.core.turns.read_inside = job.inside
    return engine


def _watch(engine: Engine, tally: Tally) -> None:
    """Count lost turns, and the waits for the write lock."""
    attempt, writing = engine.core.turns._decide_and_commit, engine.backend.writing

    def counted(*given: Any, **options: Any) -> Any:
        tally.turns += 1
        try:
            return attempt(*given, **options)
        except FencedOut:
            tally.fenced_out += 1
            raise

    @contextmanager
    def timed() -> Iterator[Any]:
        begun = time.perf_counter()
        with writing() as tx:
            waited = (time.perf_counter() - begun) * 1000
            if waited >= _WAIT_MS:
                tally.waits += 1
                tally.waited_ms += waited
                tally.longest_ms = max(tally.longest_ms, waited)
            yield tx

    vars(engine.core.turns)["_decide_and_commit"] = counted
    vars(engine.backend)["writing"] = timed


def _work(job: Job, share: int, begin: Any, results: Any) -> None:
    """One process: wait for the others, drive until its own executions have ended, and tell what it saw."""
    tally = Tally()
    with _engine(job, share) as engine:
        _watch(engine, tally)
        begin.wait()
        begun = time.perf_counter()
        pending = _ids(job, share)
        while pending:
            try:
                while engine.tick():
                    pass
                pending = [each for each in pending if not engine.status(each).terminal]
            except StorageBusy:
                tally.given_up += 1
        seconds = time.perf_counter() - begun
    results.put((seconds, tally))


def run(job: Job) -> tuple[int, float, Tally]:
    """Start every execution, drive them all; returns the steps, the seconds of the slowest process and the sums."""
    for share in range(job.processes):
        with _engine(job, share) as engine:
            for name in _ids(job, share):
                engine.start(_definition(job, share), {"x": 1}, workflow_id=name)
    spawn = multiprocessing.get_context("spawn")
    begin, results = spawn.Barrier(job.processes), spawn.SimpleQueue()
    others = [spawn.Process(target=_work, args=(job, share, begin, results)) for share in range(job.processes)]
    for process in others:
        process.start()
    for process in others:
        process.join()
    if any(process.exitcode for process in others):
        raise RuntimeError("a process of the benchmark has failed")
    told = [results.get() for _ in others]
    total = Tally(
        turns=sum(tally.turns for _, tally in told),
        fenced_out=sum(tally.fenced_out for _, tally in told),
        waits=sum(tally.waits for _, tally in told),
        waited_ms=sum(tally.waited_ms for _, tally in told),
        longest_ms=max(tally.longest_ms for _, tally in told),
        given_up=sum(tally.given_up for _, tally in told),
    )
    return job.processes * job.chains * 10, max(seconds for seconds, _ in told), total


def measure(*, rounds: int, chains: int, processes: int, synchronous: Literal["FULL", "NORMAL"] = "NORMAL") -> list[Figure]:
    """The figures of this benchmark; `chains` executions of ten tasks per process."""
    tallies: dict[str, list[Tally]] = {}

    def case(name: str, **fields: Any) -> Case:
        def work() -> tuple[int, float]:
            with tempfile.TemporaryDirectory() as folder:
                path = str(Path(folder) / "store.db")
                steps, seconds, tally = run(Job(path=path, synchronous=synchronous, chains=chains, **fields))
            tallies.setdefault(name, []).append(tally)
            return steps, seconds

        return Case(name, work)

    base = "1 process, outside"
    cases = [case(base, processes=1, shared=True, inside=False), case("1 process, inside", processes=1, shared=True, inside=True)]
    for shared in (False, True):
        for inside in (False, True):
            name = f"{processes} processes {'shared' if shared else 'apart'}, {'inside' if inside else 'outside'}"
            cases.append(case(name, processes=processes, shared=shared, inside=inside))
    figures = compare(cases, rounds=rounds, baseline=base)
    return [attrs.evolve(figure, extra=_means(tallies[figure.name])) for figure in figures]


def _means(tallies: Sequence[Tally]) -> dict[str, float]:
    """Per round, rounded."""
    names = [field.name for field in attrs.fields(Tally)]
    return {name: round(sum(getattr(tally, name) for tally in tallies) / len(tallies), 1) for name in names}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = arguments(__doc__, rounds=3, chains=50, processes=4)
    parser.add_argument("--synchronous", choices=("FULL", "NORMAL"), default="NORMAL", help="default: NORMAL")
    given = parser.parse_args(argv)
    figures = measure(rounds=given.rounds, chains=given.chains, processes=given.processes, synchronous=given.synchronous)
    publish(f"Turn isolation, synchronous {given.synchronous}", "steps", figures, given.json)


if __name__ == "__main__":
    main()
