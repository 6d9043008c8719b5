"""Large payloads on the command line: shown as where they lie, kept where one says, swept."""

from __future__ import annotations

import json

from cli_kit import Shell

from conductorlite import Barriers, Engine, EngineConfig, WorkflowDef
from conductorlite.decide.changeset.reader import Bounds
from conductorlite.store.payloads import LocalPayloads

WAITING = WorkflowDef.from_json({"name": "waiting", "tasks": [{"name": "w", "taskReferenceName": "w", "type": "WAIT"}]})


def large(shell: Shell, **options: object) -> str:
    """An execution with an input of 3,000 characters that lies outside the database; its key."""
    barriers = Barriers(workflow_input_payload_size_threshold=2)
    with Engine(shell.folder / "conductorlite.db", config=EngineConfig(bounds=Bounds(barriers=barriers)), **options) as engine:  # type: ignore[arg-type]
        engine.start(WAITING, {"x": "y" * 3000}, workflow_id="big")
        external = engine.get("big").input.external
        assert external is not None
        return external.key


def test_where_it_lies_is_shown(shell: Shell) -> None:
    """`show` and `history` tell where a large document lies, and do not print it; `export` does."""
    key = large(shell)
    assert f"3008 bytes at {key}" in shell("show", "big").out
    assert shell("show", "big", "--json").json["externalInputPayloadStoragePath"] == key
    assert shell("history", "big", "--json").json[0]["externalPayloadStoragePath"] == key
    assert "yyy" not in shell("history", "big").out + shell("show", "big").out
    assert "yyy" in json.dumps(shell("export", "big").json)


def test_it_lies_where_one_says(shell: Shell) -> None:
    """With `--payloads` commands find what an engine keeps in another folder; without it they say what is missing."""
    large(shell, payloads=LocalPayloads(shell.folder / "elsewhere"))
    assert shell("export", "big", "--payloads", "elsewhere").code == 0
    answer = shell("export", "big")
    assert answer.code != 0
    assert "is missing in" in answer.err


def test_sweeping(shell: Shell) -> None:
    """`sweep-payloads` tells how many were deleted and how many were found for the first time."""
    key = large(shell)
    folder = shell.folder / "conductorlite.db.payloads"
    stranger = folder / key.replace(key[3:8], "00000")
    stranger.write_bytes(b"{}")
    assert shell("sweep-payloads", "--json").json == {"deleted": 0, "found": 1}
    assert shell("sweep-payloads", "--grace", "0s").out.startswith("1 deleted; 0 that nothing knew of")
    assert [path.name for path in folder.rglob("*.json")] == [key[3:]]
