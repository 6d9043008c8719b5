"""`diff` and `migrate`: what they print, and how they end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cli_kit import Shell

from conductorlite import WorkflowDef


@pytest.fixture
def versions(shell: Shell) -> Shell:
    """Two files of one workflow: in the second the second task is called otherwise, and there is a third."""
    for version, refs in ((1, ["w", "x"]), (2, ["w", "y", "z"])):
        tasks: list[dict[str, Any]] = [{"name": "w", "taskReferenceName": ref, "type": "WAIT"} for ref in refs]
        document = {"name": "waiting", "version": version, "schemaVersion": 2, "tasks": tasks}
        (shell.folder / f"v{version}.json").write_text(json.dumps(document))
    (shell.folder / "other.json").write_text(json.dumps({"name": "waiting", "version": 3, "tasks": [
        {"name": "w", "taskReferenceName": "gone", "type": "WAIT"}]}))  # fmt: skip
    return shell


def test_diff(versions: Shell) -> None:
    """A line per difference and 1; nothing differs: one line and 0; JSON on request."""
    said = versions("diff", "v1.json", "v2.json")
    assert (said.code, said.err) == (1, "")
    assert said.out == "waiting 1 → 2:\n  + y\n  + z\n  - x\n  ? x → y: perhaps renamed\n"
    assert versions("diff", "v1.json", "v1.json") == type(said)(0, "waiting 1 → 1: no difference\n", "")
    assert versions("diff", "v1.json", "v2.json", "--json").json == {
        "name": "waiting", "from": 1, "to": 2, "fields": [], "added": ["y", "z"], "removed": ["x"], "changed": {},
        "moved": {}, "perhapsRenamed": {"x": "y"}, "inside": {},
    }  # fmt: skip


def test_migrate_one(versions: Shell) -> None:
    """A file moves an execution; a dry run only says so; one that is blocked ends with 4 and changes nothing."""
    versions("start", "v1.json", "--id", "a")
    dry = versions("migrate", "a", "--to", "v2.json", "--dry-run", "--map", "x=y")
    assert dry.code == 0
    assert dry.out == "a: SAFE_WITH_MAP\n  w: IN_PROGRESS, goes on\n  note: z: is new and will run\n"
    with versions.engine() as engine:
        assert engine.get("a").version == 1
    blocked = versions("migrate", "a", "--to", "other.json")
    assert (blocked.code, blocked.out) == (4, "")
    assert "w: is IN_PROGRESS, and the new definition has no 'w'" in blocked.err
    assert versions("migrate", "a", "--to", "other.json", "--dry-run").code == 4
    moved = versions("migrate", "a", "--to", "v2.json", "--json")
    assert moved.json["a"]["verdict"] == "SAFE"
    with versions.engine() as engine:
        assert engine.get("a").version == 2
    assert "\n" in versions("history", "a").out


def test_migrate_all(versions: Shell) -> None:
    """Every execution of a version; a number is a registered version, and how many were moved is said beside."""
    for one in ("a", "b"):
        versions("start", "v1.json", "--id", one)
    versions("start", "other.json", "--id", "c")
    with versions.engine() as engine:
        engine.register(WorkflowDef.from_json(versions.folder / "v2.json"))
    said = versions("migrate", "--all", "waiting", "--from", "1", "--to", "2")
    assert (said.code, said.err) == (0, "2 of 2 moved\n")
    stuck = versions("migrate", "--all", "waiting", "--from", "3", "--json")
    assert stuck.code == 4
    assert "the new definition has no 'gone'" in stuck.json["c"]["error"]
    with versions.engine() as engine:
        assert [engine.get(one).version for one in "abc"] == [2, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "give an ID, or --all NAME"),
        (("a", "--all", "waiting", "--from", "1"), "give an ID, or --all NAME"),
        (("--all", "waiting"), "--all and --from go together"),
        (("a", "--from", "1"), "--all and --from go together"),
        (("a", "--map", "x"), "is not OLD=NEW"),
        (("a", "--map", "x=y", "--map", "x=z"), "gives 'x' twice"),
    ],
)
def test_wrong_arguments(versions: Shell, arguments: tuple[str, ...], text: str) -> None:
    """What does not go together is a matter of usage."""
    said = versions("migrate", *arguments)
    assert said.code == 2
    assert text in said.err
