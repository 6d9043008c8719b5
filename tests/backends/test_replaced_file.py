"""A store whose file, log or shared memory is deleted, renamed or replaced under a live engine: nothing more is acknowledged."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from conductorlite import AsyncEngine, Engine, Workers, WorkflowDef
from conductorlite.errors import StorageCorrupt, StorageReplaced
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.sqlite.identity import OpenFiles
from conductorlite.testing.conformance.samples import event

ONE: Final = WorkflowDef.from_json({"name": "w", "tasks": [{"name": "a", "taskReferenceName": "a"}]})


def delete(path: Path) -> None:
    """Delete the file, as a careless deployment does."""
    path.unlink()


def rename(path: Path) -> None:
    """Rename it within its folder."""
    path.rename(path.with_name("elsewhere.db"))


def replace_by_another_store(path: Path) -> None:
    """Put another store in its place."""
    with Engine(path.with_name("other.db")) as other:
        other.start(ONE, workflow_id="of_the_other")
    path.with_name("other.db").replace(path)


def replace_by_its_copy(path: Path) -> None:
    """Put a copy of it in its place, as a program does that restores a backup."""
    shutil.copy(path, path.with_name("copy.db"))
    path.with_name("copy.db").replace(path)


def replace_by_an_empty_file(path: Path) -> None:
    """Put an empty file in its place."""
    path.unlink()
    path.touch()


def replace_by_a_folder(path: Path) -> None:
    """Put a folder in its place."""
    path.unlink()
    path.mkdir()


def rename_the_folder(path: Path) -> None:
    """Rename the folder it is in."""
    path.parent.rename(path.parent.with_name("renamed"))


def replace_the_folder(path: Path) -> None:
    """Rename the folder, and put another one of the same name in its place, with a store."""
    rename_the_folder(path)
    path.parent.mkdir()
    Engine(path).close()


def delete_the_folder(path: Path) -> None:
    """Delete the folder with all that is in it."""
    shutil.rmtree(path.parent)


def delete_the_log(path: Path) -> None:
    """Delete the log alone."""
    Path(f"{path}-wal").unlink()


def replace_the_log(path: Path) -> None:
    """Put a copy of the log in its place."""
    shutil.copy(f"{path}-wal", f"{path}-copy")
    Path(f"{path}-copy").replace(f"{path}-wal")


def delete_the_shared_memory(path: Path) -> None:
    """Delete what processes share of it."""
    Path(f"{path}-shm").unlink()


def delete_all(path: Path) -> None:
    """Delete the file and what is beside it."""
    for place in path.parent.glob(f"{path.name}*"):
        shutil.rmtree(place) if place.is_dir() else place.unlink()


CHANGES: Final[list[Callable[[Path], None]]] = [
    *(delete, rename, replace_by_another_store, replace_by_its_copy, replace_by_an_empty_file, replace_by_a_folder),
    *(rename_the_folder, replace_the_folder, delete_the_folder, delete_the_log, replace_the_log, delete_the_shared_memory),
    delete_all,
]

VERBS: Final[dict[str, Callable[[Engine], object]]] = {
    "start": lambda engine: engine.start(ONE),
    "result": lambda engine: engine.result("ended"),
    "status": lambda engine: engine.status("open"),
    "get": lambda engine: engine.get("ended"),
    "check": lambda engine: engine.admin.check(),
    "repair": lambda engine: engine.admin.repair(),
    "poll": lambda engine: engine.poll("b"),
    "signal": lambda engine: engine.signal("open", {}),
    "pause": lambda engine: engine.pause("open"),
    "search": lambda engine: engine.search(),
    "register": lambda engine: engine.register(WorkflowDef.from_json({"name": "new", "tasks": ONE.to_json()["tasks"]})),
    "settle": lambda engine: engine.run_until_idle(timeout="1s"),
    "ids": lambda engine: list(engine.admin.workflow_ids()),
    "backup": lambda engine: engine.admin.backup(f"{engine.backend.path}.backup"),  # type: ignore[attr-defined]
    "compact": lambda engine: engine.admin.compact(),
    "start_many": lambda engine: engine.start_many(ONE, [{}, {}]),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A place for a store, in a folder of its own."""
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder / "store.db"


def close(engine: Engine) -> None:
    """Close an engine whose file is not at its path any more: that says so, too."""
    with pytest.raises(StorageReplaced):
        engine.close()


def opened(path: Path) -> Engine:
    """An engine with an execution that has ended and one that waits."""
    workers = Workers()
    workers.add("a", lambda: None)
    engine = Engine(path, workers=workers)
    engine.start(ONE, workflow_id="ended").result()
    engine.start(
        WorkflowDef.from_json({"name": "waits", "tasks": [{"name": "b", "taskReferenceName": "b", "type": "HUMAN"}]}),
        workflow_id="open",
    )
    engine.run_until_idle(timeout="0s")
    return engine


@pytest.mark.parametrize("change", CHANGES)
def test_the_next_commit_is_not_acknowledged(path: Path, change: Callable[[Path], None], caplog: pytest.LogCaptureFixture) -> None:
    """The first verb after the change raises StorageReplaced, which names the file, and so does each other; it is logged once."""
    caplog.set_level(logging.ERROR)
    engine = opened(path)
    change(path)
    with pytest.raises(StorageReplaced, match=r"store\.db.* while the store was open"):
        engine.start(ONE, workflow_id="after")
    for verb in VERBS.values():
        with pytest.raises(StorageReplaced):
            verb(engine)
    close(engine)
    assert [record.name for record in caplog.records if "while the store was open" in record.message] == ["conductorlite.store"]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("change", [replace_by_another_store, delete_the_log])
def test_every_verb_finds_it_first(path: Path, change: Callable[[Path], None], verb: str) -> None:
    """Verbs that only look find it, too: what they say is not in the file at the path."""
    engine = opened(path)
    change(path)
    with pytest.raises(StorageReplaced):
        VERBS[verb](engine)
    close(engine)


def test_closing_finds_it_first(path: Path) -> None:
    """An engine that was only closed since says so as it is closed, once, and releases all the same."""
    engine = opened(path)
    path.unlink()
    close(engine)
    engine.close()


@pytest.mark.parametrize("link", ["file", "folder"])
def test_a_link_that_leads_to_another_store(tmp_path: Path, link: str) -> None:
    """A link at the path, or above it, that is made to lead elsewhere is another file, too; one that is not is none."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        Engine(tmp_path / name / "store.db").close()
    at = tmp_path / ("current" if link == "folder" else "link.db")
    suffix = "" if link == "folder" else "/store.db"
    at.symlink_to(f"old{suffix}")
    engine = opened(at / "store.db" if link == "folder" else at)
    engine.start(ONE)
    (tmp_path / "next").symlink_to(f"new{suffix}")
    (tmp_path / "next").replace(at)
    with pytest.raises(StorageReplaced):
        engine.status("open")
    with pytest.raises(StorageReplaced):
        engine.start(ONE)
    close(engine)


def test_what_was_acknowledged_is_in_the_file_that_was_renamed(path: Path) -> None:
    """All that the log held is moved into the renamed file, so nothing that was acknowledged is lost."""
    engine = opened(path)
    ids = [engine.start(ONE).workflow_id for _ in range(3)]
    rename(path)
    with pytest.raises(StorageReplaced):
        engine.start(ONE)
    close(engine)
    with Engine(path.with_name("elsewhere.db")) as again:
        assert set(ids) <= set(again.admin.workflow_ids())
        assert again.admin.check() == []


@pytest.mark.parametrize("closes_first", [True, False])
def test_the_store_that_took_the_place_is_left_alone(path: Path, closes_first: bool) -> None:
    """The engine of the old file neither writes into the new one nor takes its log away, whatever it does, and when."""
    engine = opened(path)
    replace_by_another_store(path)
    with pytest.raises(StorageReplaced):
        engine.start(ONE)
    if closes_first:
        close(engine)
    Path(f"{path}-wal").unlink(missing_ok=True)
    Path(f"{path}-shm").unlink(missing_ok=True)
    with Engine(path) as new:
        new.start(ONE, workflow_id="new")
        if not closes_first:
            close(engine)
        new.start(ONE, workflow_id="newer")
        kept = subprocess.run(
            [
                sys.executable,
                "-c",
                "import sqlite3, sys; print(len(list(sqlite3.connect(sys.argv[1]).execute('SELECT * FROM workflows'))))",
                path,
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        assert kept.stdout == "3\n"
        assert sorted(new.admin.workflow_ids()) == ["new", "newer", "of_the_other"]
        assert new.admin.check() == []


def test_a_transaction_of_the_application(path: Path) -> None:
    """The block's end raises: neither its rows nor its verbs are acknowledged."""
    engine = opened(path)

    def block() -> None:
        with engine.transaction() as tx:
            tx.execute("CREATE TABLE own (x)")
            tx.execute("INSERT INTO own VALUES (1)")
            engine.start(ONE, workflow_id="in_the_block")
            path.unlink()

    with pytest.raises(StorageReplaced):
        block()
    close(engine)


def test_a_driver_that_has_nothing_to_do_ends(path: Path) -> None:
    """An idle driver looks as often as it looks for commits of others, and ends with the error; who waits for a result gets it."""
    engine = opened(path)
    raised: list[BaseException] = []

    def drive(run: Callable[[], object]) -> None:
        try:
            run()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=drive, args=[run]) for run in (engine.run_forever, lambda: engine.result("open"))]
    for thread in threads:
        thread.start()
    path.unlink()
    for thread in threads:
        thread.join(60)
    assert [type(error) for error in raised] == [StorageReplaced] * 2
    close(engine)


def test_a_worker_in_whose_call_it_happens(path: Path) -> None:
    """Its result is not acknowledged: the driver ends with the error, and does not call another one."""
    called: list[int] = []
    workers = Workers()

    @workers.task("a")
    def a(n: int) -> None:
        called.append(n)
        path.unlink(missing_ok=True)

    definition = WorkflowDef.from_json(
        {"name": "w", "tasks": [{"name": "a", "taskReferenceName": f"a{n}", "inputParameters": {"n": n}} for n in range(3)]}
    )
    engine = Engine(path, workers=workers)
    run = engine.start(definition)
    with pytest.raises(StorageReplaced):
        run.result()
    assert called == [0]
    close(engine)


def test_an_awaited_verb(path: Path) -> None:
    """Coroutines get the same error."""

    async def main() -> None:
        workers = Workers()
        workers.add("a", lambda: None)
        engine = AsyncEngine(path, workers=workers)
        await (await engine.start(ONE)).result()
        path.unlink()
        for _ in range(2):
            with pytest.raises(StorageReplaced):
                await (await engine.start(ONE)).result()
        with pytest.raises(StorageReplaced):
            await engine.close()

    asyncio.run(main())


def test_two_processes(path: Path) -> None:
    """Each process finds out by itself."""
    engine = opened(path)
    script = """
import sys
from conductorlite import Engine
from conductorlite.errors import StorageReplaced
engine = Engine(sys.argv[1])
print(engine.status("open"), flush=True)
sys.stdin.readline()
try:
    engine.pause("open")
except StorageReplaced:
    print("replaced", flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stdout.readline() == "RUNNING\n"
    replace_by_another_store(path)
    with pytest.raises(StorageReplaced):
        engine.start(ONE)
    assert child.communicate("go\n", timeout=60)[0] == "replaced\n"
    close(engine)


def test_another_thread_opens_no_view_of_the_new_file(path: Path) -> None:
    """A view is read on a connection that is opened by the path while another thread writes: never on another file's."""
    backend = SQLiteBackend(path)
    with backend.writing() as tx:
        tx.inbox.post([event("first")])
    raised: list[BaseException] = []

    def read() -> None:
        try:
            with backend.reading() as view:
                view.inbox.events("w")
        except BaseException as error:
            raised.append(error)

    def write_and_let_another_read() -> None:
        with backend.writing() as tx:
            tx.inbox.post([event("second")])
            replace_by_another_store(path)
            thread = threading.Thread(target=read)
            thread.start()
            thread.join(60)

    with pytest.raises(StorageReplaced):
        write_and_let_another_read()
    assert [type(error) for error in raised] == [StorageReplaced]
    assert not backend._idle
    with pytest.raises(StorageReplaced):
        backend.close()


def test_a_connection_that_is_opened_again(path: Path) -> None:
    """A writing connection that was thrown away after an interruption is not opened on another file."""
    backend = SQLiteBackend(path)

    def interrupted() -> None:
        with backend.writing() as tx:
            tx.inbox.post([event("first")])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert backend._writer is None
    with backend.writing() as tx:  # opened again, with a log that is another file now
        tx.inbox.post([event("second")])
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    replace_by_another_store(path)
    with pytest.raises(StorageReplaced):
        backend.writing().__enter__()
    with pytest.raises(StorageReplaced):
        backend.close()


def test_a_file_that_is_replaced_while_it_is_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was looked at before it was opened, and what was opened, are one file, or it is not opened."""
    opening = OpenFiles.opening

    def and_replaced(files: OpenFiles) -> None:
        opening(files)
        if path.exists():
            replace_by_an_empty_file(path.with_name("store.db"))

    Engine(path).close()
    with monkeypatch.context() as patch:
        patch.setattr(OpenFiles, "opening", and_replaced)
        with pytest.raises(StorageReplaced):
            SQLiteBackend(path)


def test_what_is_no_replacement(path: Path) -> None:
    """Other files that come and go, a hard link, a changed mode, a checkpoint, a compaction, another engine: the store goes on."""
    engine = opened(path)
    others: list[Callable[[], Any]] = [
        lambda: path.with_name("other").touch(),
        lambda: path.with_name("other").unlink(),
        lambda: os.link(path, path.with_name("hard")),
        lambda: path.chmod(0o640),
        lambda: os.utime(path),
        engine.admin.compact,
        lambda: Engine(path).close(),
        lambda: subprocess.run(
            [sys.executable, "-c", "import sys; from conductorlite import Engine; Engine(sys.argv[1]).close()", path], check=True
        ),
        lambda: shutil.rmtree(f"{path}.holders"),
    ]
    for change in others:
        change()
        engine.start(ONE).result()
        assert engine.admin.check() == []
    engine.close()


def test_it_is_a_damage_to_callers() -> None:
    """A program that ends for StorageCorrupt ends for this, too."""
    assert issubclass(StorageReplaced, StorageCorrupt)
