"""`conductorlite run` carries out the tasks we ship workers for, unless --workers has its own."""

from __future__ import annotations

import json

import pytest
from cli_kit import Shell

DEFINITION = {
    "name": "told",
    "schemaVersion": 2,
    "tasks": [{"name": "say", "taskReferenceName": "say", "type": "EVENT", "sink": "conductor:done"}],
    "outputParameters": {"to": "${say.output.event_produced}", "by": "${say.output.by}"},
}

OWN = """
from conductorlite import Workers

workers = Workers()


@workers.task("EVENT")
def event() -> dict:
    return {"by": "me"}
"""


def test_system_workers_are_included(shell: Shell) -> None:
    """An EVENT needs no --workers, and nobody says that a worker is missing."""
    (shell.folder / "told.json").write_text(json.dumps(DEFINITION), encoding="utf-8")
    said = shell("run", "told.json", "--json")
    assert (said.code, said.json["output"]) == (0, {"to": "conductor:told:done", "by": None})
    assert "no worker here" not in said.err


def test_the_users_own_worker_wins(shell: Shell) -> None:
    """A function of --workers for one of these types takes the place of ours."""
    (shell.folder / "told.json").write_text(json.dumps(DEFINITION), encoding="utf-8")
    (shell.folder / "crew.py").write_text(OWN, encoding="utf-8")
    said = shell("run", "told.json", "--workers", "crew:workers", "--json")
    assert (said.code, said.json["output"]) == (0, {"to": None, "by": "me"})


def test_secrets_out_of_the_environment(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --secrets-prefix workers receive them, and nothing that is printed holds one; without it the name stays."""
    monkeypatch.setenv("MY_TOKEN", "s3cr3t-t0k3n")
    definition = json.loads(json.dumps(DEFINITION))
    definition["tasks"][0]["inputParameters"] = {"token": "${workflow.secrets.TOKEN}", "none": "${workflow.secrets.HOME}"}
    definition["outputParameters"] = {"token": "${say.output.token}"}
    (shell.folder / "told.json").write_text(json.dumps(definition), encoding="utf-8")
    assert shell("run", "told.json", "--json").json["output"] == {"token": "${workflow.secrets.TOKEN}"}
    said = shell("run", "told.json", "--secrets-prefix", "MY_", "--json")
    assert (said.code, said.json["status"]) == (1, "FAILED")
    assert "there is no secret 'HOME'" in said.err
    monkeypatch.setenv("MY_HOME", "another-secret")
    said = shell("run", "told.json", "--secrets-prefix", "MY_", "--json")
    assert (said.code, said.json["output"]) == (0, {"token": "***"})
    assert b"s3cr3t" not in b"".join(file.read_bytes() for file in shell.folder.iterdir() if file.is_file())
