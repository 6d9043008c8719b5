"""`conductorlite serve --api` killed under load: what it acknowledged, over HTTP or gRPC, is there when it is started again.

python tests/processes/kill_serve.py [--kills N] [--clients N] [--seed S]

Clients start executions of two tasks, poll, and report, over HTTP; every third start is a gRPC call, where grpcio is installed.
Each keeps what was acknowledged: ids of starts, and tasks with the output that was reported. The server dies by SIGKILL at a random
moment and is started again, so often as is said. Then all that is left is done by hand, and the store is checked.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs
import httpx

from conductorlite import Engine, TaskStatus, WorkflowStatus

#: Seconds of load before a kill, and that a server takes to answer at most.
_LOAD: Final = (0.05, 0.8)
_PATIENCE: Final = 60.0

_FLOW: Final = {"name": "pair", "tasks": [{"name": "step", "taskReferenceName": ref} for ref in ("a", "b")]}


@attrs.define
class Acknowledged:
    """What a server has said is done."""

    started: set[str] = attrs.field(factory=set)
    #: The reported output by (execution, task).
    reported: dict[tuple[str, str], int] = attrs.field(factory=dict)
    by_grpc: int = 0


class Server:
    """A server on one store, killed and started again on the same ports."""

    def __init__(self, store: Path) -> None:
        self._ports = [str(_free_port()), str(_free_port())]
        self._command = [sys.executable, "-m", "conductorlite", "serve", "--api", "--db", str(store), "--port", self._ports[0]]
        if _start_by_grpc is not None:
            self._command += ["--grpc-port", self._ports[1]]
        self.grpc = f"127.0.0.1:{self._ports[1]}"
        self.api = f"http://127.0.0.1:{self._ports[0]}/api"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and wait for its first line, which it prints when it listens."""
        environment = os.environ | {"CONDUCTORLITE_TOKEN": "a-token-of-sixteen"}
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        assert self._process.stdout is not None
        if not re.match("http://", self._process.stdout.readline()):
            raise RuntimeError(f"the server did not come up: {self._process.communicate(timeout=10)[1][-2000:]}")

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate(timeout=_PATIENCE)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _made_start_by_grpc() -> Callable[[str], str] | None:
    """A function that starts an execution at an address; None without grpcio."""
    try:
        import grpc

        from conductorlite.server.grpc import METHODS
        from conductorlite.server.messages import filled, message_class, read
    except ImportError:
        return None
    method = next(one for one in METHODS if one.name == "StartWorkflow")
    takes, gives = message_class(method.takes), message_class(method.gives)

    def start(address: str) -> str:
        with grpc.insecure_channel(address) as channel:
            call = channel.unary_unary(f"/{method.service}/StartWorkflow", takes.SerializeToString, gives.FromString)
            try:
                return str(read(call(filled(takes(), {"name": "pair"}), timeout=10))["workflowId"])
            except grpc.RpcError as error:
                raise OSError("no answer") from error

    return start


_start_by_grpc: Final = _made_start_by_grpc()


def _client(server: Server, seed: int, kept: Acknowledged, over: threading.Event) -> None:
    """Start, poll and report until it is over; whatever is cut off was not acknowledged."""
    by = random.Random(seed)
    with httpx.Client(timeout=10, trust_env=False) as http:
        while not over.is_set():
            with suppress(httpx.HTTPError, OSError):
                if by.random() < 0.3 and _start_by_grpc is not None:
                    kept.started.add(_start_by_grpc(server.grpc))
                    kept.by_grpc += 1
                else:
                    answer = http.post(f"{server.api}/workflow", json={"name": "pair"})
                    if answer.status_code == 200:
                        kept.started.add(answer.text)
                for task in http.get(f"{server.api}/tasks/poll/batch/step?count=3&timeout=0").json():
                    _report(http, server.api, task, by.randrange(10**9), kept)


def _report(http: httpx.Client, api: str, task: dict[str, Any], number: int, kept: Acknowledged) -> None:
    body = {"workflowInstanceId": task["workflowInstanceId"], "taskId": task["taskId"], "outputData": {"n": number}}
    way = number % 3
    if way == 0:
        answer = http.post(f"{api}/tasks/update-v2", json={**body, "status": "COMPLETED"})
    elif way == 1:
        answer = http.post(f"{api}/tasks", json={**body, "status": "COMPLETED"})
    else:
        answer = http.post(f"{api}/tasks/{body['workflowInstanceId']}/{task['referenceTaskName']}/COMPLETED", json={"n": number})
    if answer.status_code in (200, 204) and (way != 2 or answer.text == task["taskId"]):
        kept.reported[task["workflowInstanceId"], task["taskId"]] = number


def killed(store: Path, *, kills: int, clients: int, seed: int) -> tuple[Acknowledged, list[str]]:
    """Load, kill, start again; what was acknowledged, and what is wrong with the store afterwards."""
    by, kept, server, over = random.Random(seed), Acknowledged(), Server(store), threading.Event()
    server.start()
    httpx.post(f"{server.api}/metadata/workflow", json=_FLOW, timeout=30, trust_env=False).raise_for_status()
    threads = [
        threading.Thread(target=_client, args=(server, seed * 1000 + number, kept, over), daemon=True) for number in range(clients)
    ]
    for thread in threads:
        thread.start()
    try:
        for number in range(kills):
            begun = len(kept.started)
            while len(kept.started) < begun + clients:  # it has work to do
                time.sleep(0.01)
            time.sleep(by.uniform(*_LOAD))
            if number == kills - 1:
                over.set()
            server.kill()
            if number < kills - 1:
                server.start()
    finally:
        over.set()
        server.kill()
        for thread in threads:
            thread.join(_PATIENCE)
    return kept, _wrongs(store, kept)


def _wrongs(store: Path, kept: Acknowledged) -> list[str]:
    """What was acknowledged and is not there; then all is done by hand, and what does not hold."""
    with Engine(store) as engine:
        known = {row.workflow_id: row for row in engine.search("", size=len(kept.started) + 1_000).results}
        wrongs = [f"{one} was started, and is not there" for one in kept.started - known.keys()]
        for (workflow_id, task_id), number in kept.reported.items():
            row = next(one for one in engine.get(workflow_id).tasks if one.task_id == task_id)
            if row.status is not TaskStatus.COMPLETED or row.output_data.get("n") != number:
                wrongs.append(f"{workflow_id}: {task_id} was reported with {number}, and is {row.status} with {row.output_data}")
        wrongs += [str(problem) for problem in engine.admin.check()]
        for one in known:
            while (row := engine.get(one)).status is WorkflowStatus.RUNNING:
                engine.signal(one, {"n": -1}, task=next(task.ref for task in row.tasks if not task.status.terminal))
                engine.settle()
            if len(row.tasks) != 2:
                wrongs.append(f"{one} has {len(row.tasks)} tasks")
        return wrongs


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill, and print what was kept and what is wrong; 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        kept, wrongs = killed(Path(folder) / "store.db", kills=options.kills, clients=options.clients, seed=options.seed)
    for line in wrongs:
        print("WRONG", line)
    said = f"{options.kills} kills: {len(kept.started)} executions ({kept.by_grpc} by gRPC) and {len(kept.reported)} reports"
    print(f"{said} acknowledged, {len(wrongs)} wrong")
    return 1 if wrongs else 0


if __name__ == "__main__":
    sys.exit(main())
