"""The official clients, unmodified, tell one story to a server of ours: how to install and run them is in tests/README.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from shutil import copy, which
from typing import Any, Final

import pytest

from conductorlite import Engine, EngineConfig, WorkflowDef

pytest.importorskip("uvicorn")

from conductorlite.testing.server import ConductorServer

HERE: Final = Path(__file__).parent

#: Where the clients are installed: a folder with `python/bin/python`, `javascript/node_modules` and `go/story`.
CLIENTS: Final = Path(os.environ.get("CLIENTS", "/nowhere"))

STORY: Final = {
    "blocked": "RUNNING",
    "paused": "PAUSED",
    "ended": "COMPLETED",
    "output": {"text": "Hello, world"},
    "tasks": [["f", "FAILED"], ["f", "COMPLETED"], ["w", "COMPLETED"], ["s", "COMPLETED"]],
    "terminated": "enough",
    "restarted": "RUNNING",
    "found": 2,
    "correlated": 2,
    "schedule": "0 0 2 * * *",
}


def _told(command: list[str], server: ConductorServer, folder: Path) -> Any:
    environment = {"CONDUCTOR_SERVER_URL": server.api, "PATH": os.environ["PATH"], "HOME": str(folder)}
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    lines = [line.removeprefix("STORY ") for line in done.stdout.splitlines() if line.startswith("STORY ")]
    assert lines, done.stdout + done.stderr
    return json.loads(lines[0])


@pytest.mark.deep
@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("client", ["python", "javascript", "go"])
def test_a_client_tells_its_story(client: str, store: str, tmp_path: Path) -> None:
    """Definitions, a worker that fails and is retried, waiting, pausing, terminating, restarting, search, a schedule."""
    program = HERE / ("python_client.py" if client == "python" else "javascript_client.mjs")
    if client == "go":  # `go_client.go`, compiled
        command = [str(CLIENTS / "go" / "story")]
        missing = not Path(command[0]).exists()
    elif client == "python":
        command = [str(CLIENTS / "python" / "bin" / "python"), str(program)]
        missing = not Path(command[0]).exists()
    else:
        missing = which("node") is None or not (CLIENTS / "javascript" / "node_modules").is_dir()
        command = ["node", str(CLIENTS / "javascript" / program.name)]
    if missing:
        pytest.skip(f"CLIENTS={CLIENTS} holds no {client} client, see tests/README.md")
    if client == "javascript":
        copy(program, command[1])
    with (
        Engine(None if store == "memory" else tmp_path / "store.db", config=EngineConfig(semantics="OSS")) as engine,  # type: ignore[arg-type]
        ConductorServer(engine) as server,
    ):
        assert _told(command, server, tmp_path) == STORY
        assert engine.admin.check() == []


#: How the clients of a kind are made.
JAVA: Final = {
    "http": "ConductorClient client = ConductorClient.builder().basePath(address[0]).build();"
    "MetadataClient metadata = new MetadataClient(client); TaskClient tasks = new TaskClient(client);"
    "WorkflowClient workflows = new WorkflowClient(client);",
    "grpc": "String host = address[0]; int port = Integer.parseInt(address[1]);"
    "MetadataClient metadata = new MetadataClient(host, port); TaskClient tasks = new TaskClient(host, port);"
    "WorkflowClient workflows = new WorkflowClient(host, port);",
}


@pytest.mark.deep
@pytest.mark.parametrize("kind", sorted(JAVA))
def test_a_java_client_tells_its_story(kind: str, tmp_path: Path) -> None:
    """The same through Java, over REST and over gRPC."""
    jars = CLIENTS / f"java_{'rest' if kind == 'http' else kind}.txt"
    if which("javac") is None or not jars.exists():
        pytest.skip(f"there is no javac, or no list of jars {jars}, see tests/README.md")
    classes = jars.read_text(encoding="utf-8").strip()
    program = (
        (HERE / "JavaClient.java").read_text(encoding="utf-8").replace("KIND", kind).replace("    CLIENTS\n", JAVA[kind] + "\n")
    )
    (tmp_path / "JavaClient.java").write_text(program, encoding="utf-8")
    subprocess.run(["javac", "-cp", classes, "JavaClient.java"], cwd=tmp_path, check=True, timeout=120)
    with (
        Engine(tmp_path / "store.db", config=EngineConfig(semantics="OSS")) as engine,
        ConductorServer(engine, grpc=True) as server,
    ):  # type: ignore[arg-type]
        address = [server.api] if kind == "http" else str(server.grpc).split(":")
        said = _told(["java", "-cp", f"{classes}:.", "JavaClient", *address], server, tmp_path)
        assert engine.admin.check() == []
    tasks = ",".join(" ".join(one) for one in STORY["tasks"])  # type: ignore[attr-defined]
    wanted = {name: STORY[name] for name in ("blocked", "paused", "ended", "terminated", "restarted")}
    assert said == {**wanted, "output": "Hello, world", "tasks": tasks, "found": "2", "running": "0"}


@pytest.mark.deep
def test_one_workflow_in_three_languages(tmp_path: Path) -> None:
    """The example `examples/polyglot`: each step in a process of its own, through the SDK of its language."""
    example = HERE.parents[1] / "examples" / "polyglot"
    jars, modules = CLIENTS / "java_rest.txt", CLIENTS / "javascript"
    if not (jars.exists() and (modules / "node_modules").is_dir() and which("javac") and which("node")):
        pytest.skip(f"CLIENTS={CLIENTS} does not hold all clients, see tests/README.md")
    classes = jars.read_text(encoding="utf-8").strip()
    for file in example.iterdir():
        copy(file, tmp_path)
    (tmp_path / "node_modules").symlink_to((modules / "node_modules").resolve())
    subprocess.run(["javac", "-cp", classes, "Receipt.java"], cwd=tmp_path, check=True, timeout=120)
    with Engine(tmp_path / "store.db") as engine, ConductorServer(engine) as server, ExitStack() as running:
        environment = {**os.environ, "CONDUCTOR_SERVER_URL": server.api}
        commands = (
            [sys.executable, "-m", "conductorlite", "worker", "--url", server.api, "--workers", "quote:workers"],
            ["node", "book.mjs"],
            ["java", "-cp", f"{classes}:.", "Receipt", server.api],
        )
        for command in commands:
            process = running.enter_context(subprocess.Popen(command, cwd=tmp_path, env=environment))
            running.callback(process.kill)
        engine.register(WorkflowDef.from_json(example / "trip.json"))
        assert engine.start("trip", {"nights": 3}).result(timeout="60s") == {"text": "Paid: B-240"}
