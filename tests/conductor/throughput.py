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
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))

import server as servers

_STEPS: Final = 10
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


def alone(api: Api, count: int) -> None:
    """So many executions, each begun when the one before has ended."""
    for _ in range(count):
        api("POST", "/workflow", {"name": "ten", "version": 1})
        done = 0
        while done < _STEPS:
            done += api.work(1)


def together(port: int, count: int, clients: int) -> None:
    """So many at once, by several clients, each in a thread."""
    left = [count * _STEPS]
    lock, failed = threading.Lock(), []

    def one(share: int) -> None:
        try:
            api = Api(port)
            for _ in range(share):
                api("POST", "/workflow", {"name": "ten", "version": 1})
            while left[0] > 0:
                done = api.work(5)
                with lock:
                    left[0] -= done
        except Exception as error:
            failed.append(error)
            left[0] = 0

    shares = [count // clients + (number < count % clients) for number in range(clients)]
    threads = [threading.Thread(target=one, args=(share,)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def measured(work: Callable[[], None], count: int, processes: Sequence[int]) -> tuple[float, float]:
    """Executions a second, and the servers' milliseconds of processor for one."""
    began, cpu = time.perf_counter(), cpu_of(processes)
    work()
    return count / (time.perf_counter() - began), (cpu_of(processes) - cpu) / count * 1e3


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all that run here, one after the other, all up at the same time; print a table."""
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
    print(f"{'':22}{'alone, /s':>12}{'CPU, ms':>10}{'together, /s':>14}{'CPU, ms':>10}")
    with ExitStack() as up:
        for name, side in sides.items():
            port, processes = up.enter_context(side())
            api = Api(port)
            api("POST", "/metadata/taskdefs", [_TASK])
            api("PUT", "/metadata/workflow", [_FLOW])
            alone(api, 5)
            together(port, 20, options.clients)
            rounds = [
                (
                    *measured(lambda port=port: alone(Api(port), options.alone), options.alone, processes),
                    *measured(lambda port=port: together(port, options.together, options.clients), options.together, processes),
                )
                for _ in range(options.rounds)
            ]
            best = [max, min, max, min]
            told = [best[column](each[column] for each in rounds) for column in range(4)]
            print(f"{name:22}{told[0]:12.1f}{told[1]:10.1f}{told[2]:14.1f}{told[3]:10.1f}", flush=True)
            middle = [statistics.median(each[column] for each in rounds) for column in range(4)]
            print(f"{'  median':22}{middle[0]:12.1f}{middle[1]:10.1f}{middle[2]:14.1f}{middle[3]:10.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
