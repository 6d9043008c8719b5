"""The engine itself, with its public interface only: a real clock, ids as users get them, functions as workers."""

from __future__ import annotations

import functools
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contest import Contest, gated, resident, step

from conductorlite import Engine, VirtualClock, Workers, WorkflowDef

Json = dict[str, Any]


def task(ref: str, read: str) -> Json:
    """A step that reads one value."""
    return {"name": "step", "taskReferenceName": ref, "type": "SIMPLE", "inputParameters": {"i": read}}


def definition(name: str, *tasks: Json) -> WorkflowDef:
    """A definition of these tasks."""
    return WorkflowDef.from_json({"name": name, "version": 1, "tasks": list(tasks)})


def chain(length: int) -> WorkflowDef:
    """Steps one after another, each reading the one before."""
    reads = ["${workflow.input.i}", *(f"${{s{n}.output.i}}" for n in range(length - 1))]
    return definition("chain", *(task(f"s{n}", read) for n, read in enumerate(reads)))


def fork(width: int) -> WorkflowDef:
    """So many branches and their JOIN."""
    refs = [f"b{n}" for n in range(width)]
    branches = [[task(ref, "${workflow.input.i}")] for ref in refs]
    return definition(
        "fork",
        {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN", "forkTasks": branches},
        {"name": "join", "taskReferenceName": "join", "type": "JOIN", "joinOn": refs},
    )


def loop(rounds: int) -> WorkflowDef:
    """One step so many times."""
    condition = f"$.loop['iteration'] < {rounds}"
    body = [task("s", "${loop.output.iteration}")]
    return definition(
        "loop", {"name": "loop", "taskReferenceName": "loop", "type": "DO_WHILE", "loopCondition": condition, "loopOver": body}
    )


WAITING = definition(
    "waiting", {"name": "wait", "taskReferenceName": "wait", "type": "WAIT", "inputParameters": {"duration": "30 days"}}
)


def opened(contest: Contest, function: Callable[..., Any] = step, *, counting: bool = False, **options: Any) -> Engine:
    """An engine with the one worker there is."""
    workers = Workers(concurrency=options.pop("concurrency", None))
    workers.task("step")(function)
    if contest.store == "memory":
        return Engine(workers=workers, **options)
    if contest.url is not None:
        return Engine(contest.url, workers=workers, **options)
    if contest.store == "full" and not counting:
        return Engine(contest.path, workers=workers, **options)
    from conductorlite.store.sqlite.backend import SQLiteBackend

    backend = SQLiteBackend(contest.path, synchronous="FULL" if contest.store == "full" else "NORMAL", counting=counting)
    return Engine(backend, workers=workers, **options)


def chains(contest: Contest) -> None:
    """Chains of ten, one at a time, each begun by who waits for it."""
    ten = chain(10)
    with opened(contest) as engine:
        engine.start_and_wait(ten, {"i": 1})
        begun = engine.backend.commits()
        with contest.measured(contest.count * 10):
            for n in range(contest.count):
                engine.start_and_wait(ten, {"i": n})
        contest.tell(commits=engine.backend.commits() - begun)


def crowd(contest: Contest, *, together: bool = False) -> None:
    """Chains of five, all begun before one is driven, by a start each or `together`; several processes have a share each."""
    five = chain(5)
    if contest.processes > 1:
        crowd_of_processes(contest, five)
    with opened(contest) as engine:
        engine.start(five, {"i": 1}).result()
        begun = engine.backend.commits()
        with contest.measured(contest.count * 5):
            if together:
                engine.start_many(five, [{"i": n} for n in range(contest.count)])
            else:
                for n in range(contest.count):
                    engine.start(five, {"i": n})
            engine.run_until_idle()
        contest.tell(commits=engine.backend.commits() - begun)


def share(contest: Contest, count: int, barrier: Any) -> None:
    """What one process of several does."""
    with opened(contest) as engine:
        five = chain(5)
        barrier.wait()
        ids = [engine.start(five, {"i": n}).workflow_id for n in range(count)]
        while ids:
            engine.run_until_idle(timeout="1s")
            ids = [one for one in ids if not engine.status(one).terminal]


def crowd_of_processes(contest: Contest, five: WorkflowDef) -> None:
    """The same number of executions, divided."""
    import multiprocessing

    with opened(contest) as engine:
        engine.start(five, {"i": 1}).result()
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(contest.processes + 1)
    given = (contest, contest.count // contest.processes, barrier)
    processes = [context.Process(target=share, args=given) for _ in range(contest.processes)]
    for process in processes:
        process.start()
    barrier.wait()
    with contest.measured(contest.count * 5):
        for process in processes:
            process.join()
    contest.tell()


def one(contest: Contest, made: Callable[[int], WorkflowDef]) -> None:
    """One execution of so many steps, its definition read from JSON."""
    with opened(contest) as engine:
        begun = engine.backend.commits()
        with contest.measured(contest.count):
            engine.start(made(contest.count), {"i": 1}).result()
        contest.tell(commits=engine.backend.commits() - begun)


def cold(contest: Contest) -> None:
    """The first execution of a process, on an empty store."""
    with opened(contest) as engine:
        engine.start(chain(1), {"i": 1}).result()
        contest.tell(cpu=time.process_time())


def held(contest: Contest) -> WorkflowDef:
    """Chains of ten that know which step they are at."""
    return definition("held", *(task(f"s{n}", str(n)) for n in range(10)))


def hold(contest: Contest) -> None:
    """Executions that wait at their fifth step, until the process is killed."""
    with opened(contest, lambda i: gated(contest.folder, int(i)), concurrency=contest.count) as engine:
        for n in range(contest.count):
            engine.start(held(contest), {}, workflow_id=f"w{n}")
        engine.run_until_idle()


def recover(contest: Contest) -> None:
    """Whoever opens the store next goes on; seconds until all have ended."""
    begun = time.perf_counter()
    with opened(contest, lambda i: gated(contest.folder, int(i)), concurrency=contest.count) as engine:
        engine.run_until_idle(timeout="30s")
        seconds = time.perf_counter() - begun
        ended = sum(str(engine.status(f"w{n}")) == "COMPLETED" for n in range(contest.count))
    contest.tell(seconds=seconds, ended=ended)


def disk(contest: Contest) -> None:
    """Bytes that an execution of ten steps leaves, with all its history."""
    ten = chain(10)
    with opened(contest) as engine:
        engine.start(ten, {"i": 1}).result()
    before = contest.disk()
    with opened(contest) as engine:
        for n in range(contest.count):
            engine.start(ten, {"i": n})
        engine.run_until_idle()
    contest.tell(bytes=(contest.disk() - before) / contest.count)


def park(contest: Contest) -> None:
    """Executions that wait for 30 days, started a thousand at a time."""
    with opened(contest) as engine:
        engine.start_many(WAITING, [{"i": n} for n in range(1_000)])
        engine.settle()
        memory, before = resident(), contest.disk()
        with contest.measured(contest.count):
            for first in range(0, contest.count, 1_000):
                engine.start_many(WAITING, [{"i": n} for n in range(first, min(first + 1_000, contest.count))])
            engine.settle()
        grown = resident() - memory
    contest.tell(memory=grown / contest.count, bytes=(contest.disk() - before) / contest.count)


def skip(contest: Contest) -> None:
    """Tests of thirty days with twenty retries, each with an engine of its own on a virtual clock."""
    import logging

    # What is logged is not printed: twenty tracebacks a test are not what is measured.
    logging.getLogger("conductorlite").addHandler(logging.NullHandler())
    flaky = WorkflowDef.from_json(
        {
            "name": "thirty_days",
            "version": 1,
            "tasks": [
                {
                    "name": "flaky",
                    "taskReferenceName": "flaky",
                    "type": "SIMPLE",
                    "taskDefinition": {"name": "flaky", "retryCount": 20, "retryDelaySeconds": 36 * 3_600},
                }
            ],
        }
    )
    with contest.measured(contest.count):
        for _ in range(contest.count):
            calls: list[int] = []

            def fails(calls: list[int] = calls) -> Json:
                calls.append(1)
                if len(calls) <= 20:
                    raise ConnectionError("not today")
                return {"calls": len(calls)}

            workers = Workers()
            workers.task("flaky")(fails)
            clock = VirtualClock()
            begun = clock.now()
            with Engine(workers=workers, clock=clock) as engine:
                engine.start(flaky).result()
            if len(calls) != 21 or clock.now() - begun != 30 * 24 * 3_600_000:
                raise RuntimeError("that was not thirty days")
    contest.tell()


def job(contest: Contest) -> None:
    """The README's main job on so many files: what part of the processor's time is not its own functions'."""
    import runpy
    import sysconfig
    import warnings

    warnings.simplefilter("ignore")  # of the modules that are parsed
    example = Path(__file__).parents[3] / "examples" / "index_stdlib"
    flow = runpy.run_path(str(example / "index_stdlib.py"))["job_for"](contest.folder)
    own: list[float] = []

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(**given: Any) -> Any:
            begun = time.thread_time()
            try:
                return function(**given)
            finally:
                own.append(time.thread_time() - begun)

        return called

    for one in flow.workers:
        object.__setattr__(one, "function", timed(one.function))
    with Engine(contest.path, workers=Workers(concurrency=4).include(flow)) as engine:
        given = {"source": sysconfig.get_path("stdlib"), "broken": str(example / "broken"), "limit": contest.count}
        with contest.measured(contest.count):
            engine.start(flow.options(workflow_id="job"), **given)
            engine.run_until_idle()
        if str(engine.status("job")) != "COMPLETED":
            raise RuntimeError("the job has not completed")
    contest.tell(tasks=len(own), share=1 - sum(own) / float(str(contest.found["cpu"])))


def counts(contest: Contest) -> None:
    """What one step of a chain takes: statements, log pages, B-trees they belong to, and calls of Python functions."""
    ten = chain(10)
    with opened(contest, counting=True) as engine:
        for n in range(60):
            engine.start_and_wait(ten, {"i": n})
        backend: Any = engine.backend
        with backend.writing() as tx:  # the connection that writes; nothing is written
            writer = tx.session.connection if hasattr(tx, "session") else backend._writer
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        backend.counts.reset()
        for n in range(contest.count):
            engine.start_and_wait(ten, {"i": n})
        statements, commits = backend.counts.statements, backend.counts.commits
        pages, trees = logged(Path(contest.path + "-wal"), writer)
        calls: list[int] = [0]

        def called(_frame: object, event: str, _argument: object) -> None:
            calls[0] += event == "call"

        sys.setprofile(called)
        for n in range(5):
            engine.start_and_wait(ten, {"i": n})
        sys.setprofile(None)
    steps = contest.count * 10
    contest.tell(
        statements=statements / steps, commits=commits / steps, pages=pages / steps, trees=trees / steps, calls=calls[0] / 50
    )


def logged(log: Path, connection: Any) -> tuple[int, int]:
    """Pages in the log, and to how many B-trees those of each commit belong, all commits together."""
    data = log.read_bytes()
    size = struct.unpack(">I", data[8:12])[0]
    try:
        owners = dict(connection.execute("SELECT pageno, name FROM dbstat"))
    except Exception:  # an SQLite without dbstat
        owners = {}
    pages, trees, of_commit = 0, 0, set()
    for at in range(32, len(data), size + 24):
        page, commit = struct.unpack(">II", data[at : at + 8])
        pages += 1
        of_commit.add(owners.get(page, page))
        if commit:
            trees += len(of_commit)
            of_commit = set()
    return pages, trees


WORKS: dict[str, Callable[[Contest], None]] = {
    "chains": chains,
    "crowd": crowd,
    "together": functools.partial(crowd, together=True),
    "fork": lambda contest: one(contest, fork),
    "long": lambda contest: one(contest, chain),
    "loop": lambda contest: one(contest, loop),
    "cold": cold,
    "hold": hold,
    "recover": recover,
    "disk": disk,
    "park": park,
    "skip": skip,
    "job": job,
    "counts": counts,
}

if __name__ == "__main__":
    given = Contest()
    WORKS[given.work](given)
