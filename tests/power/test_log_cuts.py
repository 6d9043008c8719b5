"""The log cut at every frame edge and inside frames: the store is that of the last commit that is whole.

The database and its log (`-wal`) are copied at every commit of a run, as whoever pulls the plug would find them. Each copy of the
log is cut where the copy before it ended and everywhere after; cuts further ahead are those of the copies before. A cut that comes
before what a checkpoint has moved into the database is left out: SQLite syncs the log before it moves anything.
"""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from power_kit import NAME, Run, Story, long_run, reopened, short_run

pytest.importorskip("jq", reason="one of the executions needs the extra jq")

_HEADER, _FRAME_HEADER = 32, 24


@attrs.frozen(kw_only=True)
class Copy:
    """The files as they lay after a commit."""

    commit: int
    database: bytes
    log: bytes

    @property
    def page_size(self) -> int:
        """Bytes of a page."""
        return int.from_bytes(self.log[8:12])

    @property
    def salts(self) -> bytes:
        """What tells frames of this round of the log from those left of earlier ones."""
        return self.log[16:24]

    @property
    def frames(self) -> int:
        """Frames of this round."""
        size = _FRAME_HEADER + self.page_size
        count = 0
        while self.log[_HEADER + count * size + 8 : _HEADER + count * size + 16] == self.salts:
            count += 1
        return count

    def edge(self, frame: int) -> int:
        """Where so many frames end."""
        return _HEADER + frame * (_FRAME_HEADER + self.page_size)


def copies(folder: Path, story: Story, checkpoint_every: int | None) -> tuple[Run, list[Copy]]:
    """Run, with a copy of the files at every commit."""
    run, made = Run(), list[Copy]()
    folder.mkdir()

    def copy(commit: int) -> None:
        log = folder / f"{NAME}-wal"
        if commit:  # before the first one there is nothing in the log
            made.append(Copy(commit=commit, database=(folder / NAME).read_bytes(), log=log.read_bytes()))

    run.live(folder, story, "FULL", copy, checkpoint_every)
    return run, made


def cut_everywhere(folder: Path, run: Run, made: list[Copy], inside: tuple[int, ...], every: int) -> tuple[int, int]:
    """Cut each n-th copy; returns how many cuts there were, and frames in all copies."""
    folder.mkdir()
    cuts = frames_seen = 0
    ends: dict[int, int] = {}
    before: Copy | None = None
    for copy in made:
        frames, begun = copy.frames, 0
        if before is not None and before.salts == copy.salts:
            begun = before.frames
        else:
            ends = {0: copy.commit - 1}
        checkpointed = before is not None and before.database != copy.database
        ends[frames] = copy.commit
        frames_seen += frames - begun
        before = copy
        if copy.commit % every:
            continue
        edges = [frames] if checkpointed else range(begun, frames + 1)
        for frame in edges:
            whole = ends[max(end for end in ends if end <= frame)]
            within = () if frame == frames else tuple(place % (copy.edge(1) - copy.edge(0)) for place in inside)
            for place in (0, *within):
                log = copy.log[: copy.edge(frame) + place]
                found, findings = reopened(folder, {NAME: copy.database, f"{NAME}-wal": log}, check=frame == frames)
                assert run.place(found, 0, copy.commit) == whole, (copy.commit, frame, place)
                assert findings == []
                cuts += 1
    return cuts, frames_seen


@pytest.mark.parametrize(
    ("checkpoint_every", "every"), [(None, 20), *(pytest.param(often, 10, marks=pytest.mark.slow) for often in (None, 60))]
)
def test_the_log_cut_in_a_run(tmp_path: Path, checkpoint_every: int | None, every: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Some commits' frames, at their edges and in the middle; with a log that grows and with one that starts over."""
    run, made = copies(tmp_path / "run", short_run, checkpoint_every)
    cuts, frames = cut_everywhere(tmp_path / "cut", run, made, (2_000,), every)
    with capsys.disabled():
        print(f" [{cuts} cuts of {len(made)} copies with {frames} frames]", end="")
    assert cuts > 10
    assert len({copy.salts for copy in made}) > (1 if checkpoint_every else 0)


@pytest.mark.deep
@pytest.mark.parametrize("checkpoint_every", [None, 60])
def test_the_log_cut_everywhere(tmp_path: Path, checkpoint_every: int | None, capsys: pytest.CaptureFixture[str]) -> None:
    """Every commit's frames, at their edges and at five places inside, until all executions have ended."""
    run, made = copies(tmp_path / "run", long_run, checkpoint_every)
    cuts, frames = cut_everywhere(tmp_path / "cut", run, made, (1, 12, 24, 2_000, -1), 1)
    with capsys.disabled():
        print(f" [{cuts} cuts of {len(made)} copies with {frames} frames]", end="")
    assert cuts > frames
