"""`conductorlite serve`: what it prints, who may act, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from cli_kit import Shell

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import httpx

from conductorlite import Engine


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.slow
def test_a_store_is_served_until_a_signal(shell: Shell, stop: signal.Signals) -> None:
    """The printed address has the token that acts, unless the environment has it; nothing else is printed."""
    shell.hello("h1")
    token = None if stop is signal.SIGINT else "a-token-from-the-environment"
    options = {"cwd": shell.folder, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [
        sys.executable,
        "-m",
        "conductorlite",
        "serve",
        "--port",
        "0",
        *([] if stop is signal.SIGINT else ["--api"]),
        "--workers",
        "crew:workers",
    ]
    environment = os.environ | ({} if token is None else {"CONDUCTORLITE_TOKEN": token})
    with subprocess.Popen(command, env=environment, **options) as process:  # type: ignore[call-overload]
        assert process.stdout is not None
        line = process.stdout.readline()
        url, made = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/(?:login#token=(\S+))?\n", line).groups()  # type: ignore[union-attr]
        assert (made is None) == (token is not None)
        with httpx.Client(base_url=url, trust_env=False) as client:
            assert "h1" in client.get("/").text
            assert client.post("/executions/h1/restart").status_code == 401
            answer = client.post("/executions/h1/restart", headers={"authorization": f"Bearer {made or token}"})
            assert answer.status_code == 200
            api = client.get("/api/workflow/h1/status")
            assert (api.status_code, api.headers["content-type"]) == (
                (404, "text/plain; charset=utf-8") if made else (200, "application/json")
            )
            foreign = client.get("/api/workflow/h1/status", headers={"origin": "http://elsewhere.example"})
            assert foreign.status_code == 403
        process.send_signal(stop)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")
    with shell.engine() as engine:
        assert [line.status for line in engine.history("h1")].count("RESTART") == 1


def test_what_it_refuses(shell: Shell) -> None:
    """A store that is not there, an address without a name, a token that can be guessed."""
    assert shell("serve", "--port", "0").code == 3
    shell.hello()
    assert "--allow-host" in shell("serve", "--host", "0.0.0.0").err
    assert "is no origin" in shell("serve", "--allow-origin", "ops.example.com").err
    (shell.folder / "token").write_text("short\n", encoding="utf-8")
    assert "16 characters" in shell("serve", "--token-file", "token").err


def test_options_of_a_process_that_drives(shell: Shell) -> None:
    """A worker of a server stops after its timeout, and takes no option that means nothing there; a port is one."""
    shell.hello()
    elsewhere = ("worker", "--url", "http://127.0.0.1:9/api", "--workers", "crew:workers")
    for option in ("--lock", "--engine", "--health"):
        refused = shell(*elsewhere, option, "7")
        assert refused.code == 2
        assert option in refused.err
    before = time.monotonic()
    assert shell(*elsewhere, "--timeout", "50ms").code == 0
    assert time.monotonic() - before < 10
    assert "--health 99999" in shell("drive", "--health", "99999").err
    assert "no port" in shell("drive", "--health", "here").err


@pytest.mark.slow
def test_a_worker_elsewhere(shell: Shell) -> None:
    """A process runs the functions of a module on the tasks of a server, and ends when it is to, with what it has begun done."""
    from conductorlite.testing.server import ConductorServer

    with ConductorServer(Engine()) as server:
        definition = {
            "name": "greeting",
            "tasks": [{"name": "greet", "taskReferenceName": "greet", "inputParameters": {"name": "you"}}],
        }
        command = [sys.executable, "-m", "conductorlite", "worker", "--url", server.api, "--workers", "crew:workers"]
        with subprocess.Popen(command, cwd=shell.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            said = httpx.post(
                f"{server.api}/workflow/execute/greeting/1?waitForSeconds=60", json={"workflowDef": definition}
            ).json()
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "", "")
    assert said["targetWorkflowStatus"] == "COMPLETED", said
    server.engine.close()
