"""Bits that flip under a live engine, and files that the system does not open any more: only errors of ours leave a verb."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from flips import campaign

from conductorlite import Engine
from conductorlite.errors import StorageCorrupt, StorageError, TooManyOpenFiles
from conductorlite.store.sqlite.backend import SQLiteBackend


@pytest.mark.parametrize(
    ("count", "seed"),
    [(6, 0), pytest.param(60, 100, marks=pytest.mark.slow), pytest.param(2_000, 10_000, marks=pytest.mark.deep)],
)
def test_a_bit_that_flips(count: int, seed: int) -> None:
    """Whatever bit it is, an error of ours or a finding says so where it matters, and what was acknowledged is as it was."""
    _, wrong = campaign(count, seed)
    assert wrong == []


@pytest.mark.parametrize("table", ["tasks", "workflows", "limits"])
@pytest.mark.parametrize("byte", [b"\xe9", b"\xff", b"\x00", b"'"])
def test_a_byte_of_the_schema(tmp_path: Path, table: str, byte: bytes) -> None:
    """A schema that cannot be read, or is no text at all, is StorageCorrupt, which names the file."""
    path = tmp_path / "s.db"
    SQLiteBackend(path).close()
    content = path.read_bytes()
    place = content.index(f"CREATE TABLE {table}".encode()) + len(f"CREATE TABLE {table} (")
    path.write_bytes(content[:place] + byte + content[place + 1 :])
    with pytest.raises(StorageCorrupt, match=r"s\.db"):
        Engine(path)


#: Takes all files that the process may have but so many, then uses an engine.
FILES = """
import logging, os, resource, sys
from conductorlite import Engine, WorkflowDef, Workers
from conductorlite.errors import ConductorliteError, TooManyOpenFiles

logging.disable(logging.CRITICAL)
resource.setrlimit(resource.RLIMIT_NOFILE, (90, 90))
one = WorkflowDef.from_json({"name": "w", "version": 1, "tasks": [{"name": "a", "taskReferenceName": "a"}]})
path, left = sys.argv[1], int(sys.argv[2])
workers = Workers()
workers.add("a", lambda: None)
engine = Engine(path, workers=workers)
engine.start(one, workflow_id="before")
held = []
try:
    while True:
        held.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    for _ in range(left):
        os.close(held.pop())
verbs = {
    "open": lambda: Engine(path + "2").close(),
    "start": lambda: engine.start(one),
    "result": lambda: engine.start(one).result(timeout="5s"),
    "large": lambda: engine.start(one, {"pad": "x" * 4_000_000}),
    "get": lambda: engine.get("before"),
    "check": lambda: engine.admin.check(),
    "search": lambda: engine.search(),
    "backup": lambda: engine.admin.backup(path + ".copy"),
    "compact": lambda: engine.admin.compact(),
}
for name, verb in verbs.items():
    try:
        verb()
    except TooManyOpenFiles:
        print(name, "too many")
    except ConductorliteError as error:
        print(name, type(error).__name__, error)
for file in held:
    os.close(file)
engine.start(one).result(timeout="5s")
print("goes on", engine.admin.check())
engine.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of files here")
@pytest.mark.parametrize("left", [0, 1, 2, 3, 5])
def test_no_file_is_left(tmp_path: Path, left: int) -> None:
    """A verb that needs a file says that the system opens none, whatever it was for; when there are some again it goes on."""
    done = subprocess.run(
        [sys.executable, "-c", FILES, str(tmp_path / "s.db"), str(left)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    *said, last = done.stdout.splitlines()
    assert last == "goes on []"
    assert [line for line in said if not line.endswith(" too many")] == []
    assert left or said


def test_what_passes() -> None:
    """It is an error of the store that a driver waits out."""
    assert issubclass(TooManyOpenFiles, StorageError)
    assert not issubclass(TooManyOpenFiles, StorageCorrupt)
