"""A power cut at any moment of a run: what is found afterwards is what was stored after some commit, and no law is broken.

A layer below SQLite notes every write and every sync (`recorded_disk.py`). The power is cut after each of them in turn: of what
had not been synced, all of it, nothing, or any part with torn writes is left, and the store is opened again. With FULL no commit
the engine was told of may be missing. With NORMAL the latest may: how many is printed, and that none goes with the process alone.

The fast test cuts at some moments, `python -m pytest -m deep tests/power` at every one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest
from power_kit import NAME, Run, Story, long_run, reopened, short_run
from recorded_disk import Op, files_after, recorded, recording_works

from conductorlite.store.sqlite.disk import Log

pytest.importorskip("jq", reason="one of the executions needs the extra jq")

if sys.platform == "win32" or not recording_works():
    pytest.skip("SQLite's own functions cannot be reached here", allow_module_level=True)

Mode = Literal["FULL", "NORMAL"]


@attrs.define
class Tally:
    """What the cuts of one run left."""

    cuts: int = 0
    #: Numbers of commits the store came back to.
    places: set[int] = attrs.field(factory=set)
    #: How many acknowledged commits were gone, at most; with the power, and with the process alone.
    lost: int = 0
    lost_with_process: int = 0


@contextmanager
def lengthening_noted(ops: list[Op]) -> Iterator[None]:
    """Note what the store itself adds to the log, which SQLite does not know of."""
    grow = Log.grow

    def noted(log: Log, commits: int) -> None:
        file = Path(log._path)
        before = file.stat().st_size
        grow(log, commits)
        if (after := file.stat().st_size) > before:
            ops.append(Op("write", file.name, before, bytes(after - before)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Log, "grow", noted)
        yield


def lived(folder: Path, story: Story, mode: Mode, checkpoint_every: int | None) -> tuple[Run, Sequence[Op]]:
    """A run, and all that was asked of the disk until it was closed."""
    run, log = Run(), list[Op]()
    folder.mkdir()
    with recorded() as ops, lengthening_noted(ops):
        run.live(folder, story, mode, lambda number: ops.append(Op("told", "", number)), checkpoint_every)
        log = list(ops)
    return run, log


def cut(folder: Path, run: Run, log: Sequence[Op], moments: Sequence[int], hows: Sequence[str], mode: Mode) -> Tally:
    """Cut the power at moments of a run, and look at what is found."""
    tally = Tally()
    folder.mkdir()
    known: dict[object, str] = {}
    for moment in moments:
        ops = log[:moment]
        acknowledged = max((op.at for op in ops if op.kind == "told"), default=-1)
        for how in hows:
            files = files_after(ops, how)
            if not files.get(NAME) and acknowledged < 0:
                continue  # nothing had been made
            key = hash(tuple(sorted(files.items())))
            where = f"cut after {moment} of {len(log)} ({log[moment - 1].kind} {log[moment - 1].file}), {how} is left"
            if key not in known:
                found, _ = reopened(folder, files, check=False)
                known[key] = found
                tally.cuts += 1
            place = run.place(known[key], 0, acknowledged + 1)
            assert place is not None, f"{where}: no commit left the store like this"
            if place not in tally.places:
                tally.places.add(place)
                _, findings = reopened(folder, files, check=True)
                assert findings == [], where
            if how == "all":
                tally.lost_with_process = max(tally.lost_with_process, acknowledged - place)
            else:
                tally.lost = max(tally.lost, acknowledged - place)
            if mode == "FULL":
                assert place >= acknowledged, f"{where}: commit {acknowledged} was told of, {place} is found"
    return tally


def judged(tally: Tally, mode: Mode, capsys: Any) -> None:
    """Print what was found; what NORMAL may lose must show."""
    with capsys.disabled():
        print(f" [{mode}: {tally.cuts} remains came back to {len(tally.places)} commits; at most {tally.lost} acknowledged commits "
              f"went with the power, {tally.lost_with_process} with the process]", end="")  # fmt: skip
    assert tally.lost_with_process == 0
    assert (tally.lost > 0) is (mode == "NORMAL")


@pytest.mark.parametrize(
    ("mode", "every"), [("FULL", 211), *(pytest.param(mode, 53, marks=pytest.mark.slow) for mode in ("FULL", "NORMAL"))]
)
def test_a_power_cut_leaves_what_some_commit_left(
    tmp_path: Path, mode: Mode, every: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """At moments spread over a run with checkpoints in it, from the making of the store to its closing."""
    run, log = lived(tmp_path / "run", short_run, mode, 150)
    made = next(number for number, op in enumerate(log) if op.kind == "told")
    moments = [*range(1, made, every // 6), *range(made, len(log), every), len(log)]
    judged(cut(tmp_path / "cut", run, log, moments, ["all", "none", "some 1"], mode), mode, capsys)


def test_a_power_cut_while_the_store_is_made(tmp_path: Path) -> None:
    """Whatever part of a new file the disk has kept, in any order, it becomes a store at the next opening."""
    run, log = lived(tmp_path / "run", lambda engine: None, "FULL", None)
    made = next(number for number, op in enumerate(log) if op.kind == "told")
    hows = [f"some {number}" for number in range(6)]
    tally = cut(tmp_path / "cut", run, log[: made + 1], range(5, made + 1, 7), hows, "FULL")
    assert tally.places == {0}


@pytest.mark.deep
@pytest.mark.parametrize("mode", ["FULL", "NORMAL"])
@pytest.mark.parametrize("checkpoint_every", [1000, 40])
def test_a_power_cut_at_every_moment(tmp_path: Path, mode: Mode, checkpoint_every: int, capsys: pytest.CaptureFixture[str]) -> None:
    """After everything that was asked of the disk, with rare and with frequent checkpoints."""
    run, log = lived(tmp_path / "run", short_run, mode, checkpoint_every)
    hows = ["all", "none", "some 1", "some 2"]
    judged(cut(tmp_path / "cut", run, log, range(1, len(log) + 1), hows, mode), mode, capsys)


@pytest.mark.deep
@pytest.mark.parametrize("mode", ["FULL", "NORMAL"])
def test_a_power_cut_until_every_execution_has_ended(tmp_path: Path, mode: Mode, capsys: pytest.CaptureFixture[str]) -> None:
    """The same over the whole lives of executions of every kind, at every seventh moment."""
    run, log = lived(tmp_path / "run", long_run, mode, 200)
    hows = ["all", "none", "some 1"]
    judged(cut(tmp_path / "cut", run, log, range(1, len(log) + 1, 7), hows, mode), mode, capsys)


def test_every_commit_is_synced_before_it_is_told_of(tmp_path: Path) -> None:
    """With FULL the log is synced between a commit's last write and the engine's being told; with NORMAL it is not."""
    for mode in ("FULL", "NORMAL"):
        _, log = lived(tmp_path / mode, short_run, mode, None)
        unsynced, pending = 0, False
        for op in log:
            if op.file == f"{NAME}-wal" and op.kind in ("write", "sync"):
                pending = op.kind == "write"
            unsynced += pending and op.kind == "told"
        assert (unsynced == 0) is (mode == "FULL")


def test_the_disk_remembers_what_lies_on_it(tmp_path: Path) -> None:
    """The files put together of what was noted are those that lie there."""
    _, log = lived(tmp_path / "run", short_run, "FULL", 100)
    lying = [file for file in (tmp_path / "run").iterdir() if file.suffix != ".reserve"]  # SQLite did not write that
    assert files_after(log, "all") == {file.name: file.read_bytes() for file in lying}
