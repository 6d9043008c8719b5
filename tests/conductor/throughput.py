"""How fast a Conductor server and ours are, in one run, by the same clients over REST; see README.md.

python tests/conductor/throughput.py [--alone N] [--together N] [--clients N] [--only NAME] [--rounds N]

A chain of ten tasks: one execution at a time, then so many together. A client starts executions, polls, and reports with
`POST /tasks/update-v2`, which hands it the next task, as Conductor's Python SDK does. Told are executions a second and the
processor's time of the server (with its Redis) for one. The servers: ours in SQLite, durable at every commit (FULL); Conductor's
with SQLite, and with Redis where `redis-server` is installed, each with its own defaults.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))

import attrs
import server as servers

_STEPS: Final = 10
#: Seconds without a report until what is left is given up.
_PATIENCE: Final = 15.0
_TYPE: Final = "step"
_FLOW: Final = {
    "name": "ten",
    "version": 1,
    "schemaVersion": 2,
    "ownerEmail": "a@example.org",
    "timeoutSeconds": 0,
    "tasks": [{"name": _TYPE, "taskReferenceName": f"s{number}", "type": "SIMPLE"} for number in range(_STEPS)],
}
_TASK: Final = {"name": _TYPE, "ownerEmail": "a@example.org", "retryCount": 0, "responseTimeoutSeconds": 600, "timeoutSeconds": 0}


class Api:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._http.connect()
        assert self._http.sock is not None
        self._http.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __call__(self, method: str, path: str, body: Any = None) -> bytes:
        """The answer's body; raises RuntimeError for a refusal."""
        content = None if body is None else json.dumps(body).encode()
        self._http.request(method, f"/api{path}", content, {"Content-Type": "application/json"})
        answer = self._http.getresponse()
        said = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {said[:300]!r}")
        return said

    def work(self, count: int) -> int:
        """Poll, and report until nothing follows; how many reports that were."""
        done = 0
        for task in json.loads(self("GET", f"/tasks/poll/batch/{_TYPE}?workerid=w&count={count}&timeout=200") or b"[]"):
            while task:
                report = {"workflowInstanceId": task["workflowInstanceId"], "taskId": task["taskId"], "workerId": "w"}
                said = self("POST", "/tasks/update-v2", {**report, "status": "COMPLETED", "outputData": {"n": done}})
                task = json.loads(said) if said else None
                done += 1
        return done


def cpu_of(processes: Sequence[int]) -> float:
    """The processor's seconds that they have taken (Linux)."""
    ticks = 0
    for process in processes:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


@attrs.define
class Done:
    """Reports that were made, and when the last one was."""

    reports: int = 0
    last: float = attrs.field(factory=time.perf_counter)

    def add(self, reports: int) -> None:
        """Count some."""
        if reports:
            self.reports += reports
            self.last = time.perf_counter()

    @property
    def idle(self) -> bool:
        """Whether nothing has come for a while: a server that is busy may have ended an execution by an error of its own."""
        return time.perf_counter() - self.last > _PATIENCE


def alone(api: Api, count: int) -> Done:
    """So many executions, each begun when the one before has ended."""
    done = Done()
    for number in range(1, count + 1):
        api("POST", "/workflow", {"name": "ten", "version": 1})
        while done.reports < number * _STEPS and not done.idle:
            done.add(api.work(1))
    return done


def together(port: int, count: int, clients: int) -> Done:
    """So many at once, by several clients, each in a thread; what a server refuses while it is busy is passed over."""
    done, lock = Done(), threading.Lock()

    def one(share: int) -> None:
        api = Api(port)
        for _ in range(share):
            with suppress(RuntimeError):
                api("POST", "/workflow", {"name": "ten", "version": 1})
        while done.reports < count * _STEPS and not done.idle:
            with suppress(RuntimeError):
                reports = api.work(5)
                with lock:
                    done.add(reports)

    shares = [count // clients + (number < count % clients) for number in range(clients)]
    threads = [threading.Thread(target=one, args=(share,)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


def measured(work: Callable[[], Done], processes: Sequence[int]) -> tuple[float, float, int]:
    """Executions a second, the servers' milliseconds of processor for one, and how many steps there were."""
    began, cpu = time.perf_counter(), cpu_of(processes)
    done = work()
    ended = max(1, done.reports) / _STEPS
    return ended / (done.last - began), (cpu_of(processes) - cpu) / ended * 1e3, done.reports


@contextmanager
def ours() -> Iterator[tuple[int, list[int]]]:
    """`conductorlite serve --api` on a file of its own: its port and processes."""
    port = servers.free_port()
    with tempfile.TemporaryDirectory(dir=servers.cache_folder()) as folder:
        command = [sys.executable, "-m", "conductorlite", "serve", "--api", "--port", str(port), "--db", f"{folder}/store.db"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                process.stdout.readline()
                yield port, [process.pid]
            finally:
                process.terminate()


@contextmanager
def conductor(*settings: str, beside: Sequence[int] = ()) -> Iterator[tuple[int, list[int]]]:
    """A Conductor server with its own defaults."""
    with servers.started(*settings, tuned=False) as (base, process):
        yield int(base.rpartition(":")[2].partition("/")[0]), [process, *beside]


@contextmanager
def with_redis() -> Iterator[tuple[int, list[int]]]:
    """A Conductor server with a Redis of its own, as its maker's recipe for Redis alone has it."""
    port = servers.free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", folder, "--save", "", "--appendonly", "no"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as redis:
            try:
                settings = (
                    "--conductor.db.type=redis_standalone",
                    "--conductor.queue.type=redis_standalone",
                    "--conductor.indexing.enabled=false",
                    f"--conductor.redis.hosts=127.0.0.1:{port}:us-east-1c",
                    "--conductor.redis.ssl=false",
                )
                with conductor(*settings, beside=[redis.pid]) as found:
                    yield found
            finally:
                redis.terminate()


SIDES: Final = {"ours, SQLite FULL": ours, "Conductor, SQLite": conductor, "Conductor, Redis": with_redis}


def _line(name: str, figures: Sequence[float]) -> str:
    return f"{name:22}" + "".join(f"{each:14.1f}" for each in figures)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all that run here, in turns, all up at the same time; print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alone", type=int, default=30, help="executions one at a time")
    parser.add_argument("--together", type=int, default=200, help="executions at once")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many is told")
    parser.add_argument("--only", default="", help="the servers whose name has this")
    options = parser.parse_args(arguments)
    servers.cache_folder().mkdir(parents=True, exist_ok=True)
    sides = {name: side for name, side in SIDES.items() if options.only in name}
    if shutil.which("redis-server") is None:
        sides.pop("Conductor, Redis", None)
    print(f"{'':22}" + "".join(f"{each:>14}" for each in ("alone, /s", "CPU, ms", "steps", "together, /s", "CPU, ms", "steps")))
    with ExitStack() as up:
        rounds: dict[str, list[tuple[float, ...]]] = {}
        ready = {name: up.enter_context(side()) for name, side in sides.items()}
        for port, _ in ready.values():
            api = Api(port)
            api("POST", "/metadata/taskdefs", [_TASK])
            api("PUT", "/metadata/workflow", [_FLOW])
            alone(api, 5)
            together(port, 20, options.clients)
        for _ in range(options.rounds):  # in turns: what else the machine does is the same for all
            for name, (port, processes) in ready.items():
                first = measured(lambda port=port: alone(Api(port), options.alone), processes)
                second = measured(lambda port=port: together(port, options.together, options.clients), processes)
                rounds.setdefault(name, []).append((*first, *second))
                print(_line(f"  {name}", rounds[name][-1]), file=sys.stderr, flush=True)
        for name, found in rounds.items():
            best = [max, min, min, max, min, min]
            print(_line(name, [best[column](each[column] for each in found) for column in range(6)]), flush=True)
            print(_line("  median", [statistics.median(each[column] for each in found) for column in range(6)]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
