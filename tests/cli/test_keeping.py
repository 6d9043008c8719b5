"""The commands on the store as a whole: search, archive, prune, compact, size, reindex."""

from __future__ import annotations

from typing import Any

import pytest
from cli_kit import Answer, Shell


def _json(shell: Shell, *arguments: str) -> Any:
    """What a command answers in JSON."""
    answer = shell(*arguments)
    assert answer.code == 0, answer.err
    return answer.json


def _fails(shell: Shell, code: int, *arguments: str) -> Answer:
    """A command that ends with an exit code."""
    answer = shell(*arguments)
    assert answer.code == code, answer
    return answer


@pytest.fixture
def filled(shell: Shell) -> Shell:
    """A database with two greetings, of which one has ended."""
    shell("run", "hello.json", "--workers", "crew:workers", "--input", '{"name": "Köln"}', "--id", "one")
    shell("start", "hello.json", "--input", '{"name": "Oslo"}', "--id", "two")
    return shell


def test_search(filled: Shell) -> None:
    """Executions, tasks and executions by their tasks, as a table and as Conductor's JSON."""
    assert "one" in filled("search", "status = COMPLETED").out
    found = _json(filled, "search", "--text", "koln", "--json")
    assert [found["totalHits"], [row["workflowId"] for row in found["results"]]] == [1, ["one"]]
    assert found["results"][0]["startTime"].endswith("Z")
    assert found["results"][0]["input"] == '{"name":"Köln"}'
    tasks = _json(filled, "search", "status = SCHEDULED", "--tasks", "--json")
    assert [row["workflowId"] for row in tasks["results"]] == ["two"]
    above = _json(filled, "search", "status = COMPLETED", "--by-tasks", "--json")
    assert [row["workflowId"] for row in above["results"]] == ["one"]
    assert "greet" in filled("search", "--tasks", "--size", "1").out
    assert "1 more" in filled("search", "--size", "1").err


def test_bad_questions(filled: Shell) -> None:
    """A query that is not understood says where; two kinds at once are too many."""
    refused = _fails(filled, 2, "search", "stauts = A")
    assert "no field 'stauts'; did you mean 'status'? (at character 0)" in refused.err
    _fails(filled, 2, "search", "--tasks", "--by-tasks")


def test_reindex(filled: Shell) -> None:
    """The index is made in the database, used, and taken out of it; a search makes it again."""
    assert filled("reindex").out == "2 executions are indexed\n"
    filled("terminate", "two")
    assert _json(filled, "search", "status = TERMINATED", "--json")["totalHits"] == 1
    assert _json(filled, "reindex", "--forget", "--json") == {"executions": 0}
    assert filled("reindex", "--forget").out == "there is no index any more\n"
    assert _json(filled, "search", "status = TERMINATED", "--json")["totalHits"] == 1


CODEC = """
from conductorlite.errors import PayloadUnavailable


class Codec:
    def __init__(self, *keys):
        self.key_id, self.keys = keys[0], keys

    def encode(self, data):
        return bytes(one ^ 0x5A for one in data)

    def decode(self, data, key_id):
        if key_id not in self.keys:
            raise PayloadUnavailable(f"there is no key {key_id!r}")
        return self.encode(data)


old, both, new = Codec("old"), Codec("new", "old"), Codec("new")
"""


def test_a_sealed_database_needs_its_codec(filled: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named by an option or the environment; its key is changed; what is no codec is refused."""
    (filled.folder / "sealing_keys.py").write_text(CODEC, encoding="utf-8")
    assert _json(filled, "reseal", "--codec", "sealing_keys:old", "--json")["rows"] > 3
    assert "sealed, first by the key 'old'" in _fails(filled, 5, "show", "one").err
    assert filled("--codec", "sealing_keys:old", "show", "one", "--json").json["status"] == "COMPLETED"
    changed = _json(filled, "reseal", "--codec", "sealing_keys:both", "--limit", "2", "--json")
    assert (changed["rows"] > 3, changed["keysNotNeeded"]) == (True, ["old"])
    assert "there is no key 'new'" in _fails(filled, 5, "show", "one", "--codec", "sealing_keys:old").err
    monkeypatch.setenv("CONDUCTORLITE_CODEC", "sealing_keys:new")
    assert filled("reseal").out == "sealed 0 rows; no longer needed: no key\n"
    assert _json(filled, "check", "--json")["findings"] == []
    assert "is a tuple, not a payload codec" in _fails(filled, 2, "show", "one", "--codec", "sealing_keys:new.keys").err


def test_archive_prune_size_compact(filled: Shell) -> None:
    """What has ended is archived or deleted, what has not is a conflict; sizes before and after."""
    assert filled("archive", "one").out.strip() == "one is archived"
    _fails(filled, 4, "archive", "two")
    bulk = _fails(filled, 4, "archive", "two", "one", "--json").json
    assert set(bulk["bulkErrorResults"]) == {"one", "two"}
    assert _json(filled, "show", "one", "--json")["status"] == "COMPLETED"
    assert "COMPLETED (archived)" in filled("search").out
    assert filled("prune", "--older-than", "30d").out.strip() == "0 removed, 0 archived, 0 kept for their parents"
    filled("terminate", "two")
    assert _json(filled, "prune", "--older-than", "0s", "--archive", "--json")["archived"] == ["two"]
    assert _json(filled, "size", "--json")["kinds"]["archive"]["rows"] == 2
    assert "archive" in filled("size").out
    assert "bytes before" in filled("compact").out
    assert _json(filled, "compact", "--json")["bytesAfter"] > 0
    filled("remove", "one")
    _fails(filled, 3, "show", "one")
