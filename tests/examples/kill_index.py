"""Kill the index job at ten moments, run it again each time, and compare: python tests/examples/kill_index.py [--store URL]

Each of the ten runs begins anew, gets SIGKILL when it has made so many calls of workers, and is run again. Then its tables must be
those of an undisturbed run, and no task that was finished at the kill may have been called again. Exits with 1 otherwise.
With `--store postgresql://…` each run has a schema of that database for its store; the undisturbed one a file.
"""

from __future__ import annotations

import argparse
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import attrs

from conductorlite import Engine, TaskStatus

SCRIPT = Path(__file__).parents[2] / "examples" / "index_stdlib" / "index_stdlib.py"
JOB = "index_stdlib"
MOMENTS = 10

#: A database of PostgreSQL, in which the runs whose folders are numbered have a schema each.
SERVER: str | None = None


@attrs.frozen
class Scene:
    """What a killed run left: attempts that had ended, references that were done, references that were in progress."""

    ended: frozenset[tuple[str, int]]
    done: frozenset[str]
    in_progress: frozenset[str]
    calls: int


def store(work: Path) -> str | Path:
    """Where the engine of a run keeps its rows."""
    return f"{SERVER}?schema=job_{os.getpid()}_{work.name}" if SERVER and work.name.isdecimal() else work / "jobs.db"


def begin(work: Path, *options: str) -> subprocess.Popen[str]:
    """Run the job in a process of its own."""
    command = [sys.executable, str(SCRIPT), "--work", str(work), "--store", str(store(work)), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8")


def finish(work: Path, *options: str, timeout: float = 120) -> str:
    """Run the job to its end, which must be a good one; returns what it printed."""
    process = begin(work, *options)
    printed, _ = process.communicate(timeout=timeout)
    if process.returncode:
        raise RuntimeError(f"the job ended with {process.returncode}:\n{printed}")
    return printed


def kill(process: subprocess.Popen[str]) -> None:
    """Send SIGKILL, and wait until the process is gone."""
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)


def calls(work: Path) -> list[tuple[str, int]]:
    """Every call of a worker so far: reference and attempt."""
    log = work / "calls.log"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [(line.split()[0], int(line.split()[1])) for line in lines]


def scene(work: Path) -> Scene:
    """Look at what a killed run left, without moving it."""
    with Engine(store(work)) as engine:
        tasks = [task for task in engine.get(JOB).tasks if task.ref.split("_")[0] not in ("packages", "files", "what")]
    done = (TaskStatus.COMPLETED, TaskStatus.COMPLETED_WITH_ERRORS)
    return Scene(
        ended=frozenset((task.ref, task.attempt) for task in tasks if task.status.terminal),
        done=frozenset(task.ref for task in tasks if task.status in done),
        in_progress=frozenset(t.ref for t in tasks if t.status is TaskStatus.IN_PROGRESS and t.ref not in ("fork", "join")),
        calls=len(calls(work)),
    )


def called_again(work: Path, before: Scene) -> tuple[list[str], list[str]]:
    """References called since the scene though they were finished (there must be none), and those repeated rightly."""
    since = calls(work)[before.calls :]
    wrongly = [ref for ref, attempt in since if ref in before.done or (ref, attempt) in before.ended]
    return wrongly, [ref for ref, _ in since if ref in before.in_progress]


def tables(work: Path) -> list[list[tuple[object, ...]]]:
    """The result: every row of every table, in order."""
    index = sqlite3.connect(work / "index.db")
    try:
        names = ("modules", "definitions", "broken")
        return [sorted(index.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in names]
    finally:
        index.close()


def laws(work: Path) -> list[str]:
    """What `Engine.admin.check` finds; nothing, it is hoped."""
    with Engine(store(work)) as engine:
        return [str(finding) for finding in engine.admin.check()]


def killed_after(work: Path, count: int, *options: str) -> bool:
    """Begin the job and kill it once it has made `count` calls; False when it ended before."""
    process = begin(work, *options)
    log = work / "calls.log"
    while process.poll() is None:
        if log.exists() and log.read_bytes().count(b"\n") >= count:
            kill(process)
            return process.returncode == -signal.SIGKILL
        time.sleep(0.0005)
    process.communicate()
    return False


def main() -> int:
    """Print a line per kill and the sums; 1 when something is not as it should be."""
    global SERVER
    parser = argparse.ArgumentParser(description="Kill the index job at ten moments, run it again each time, and compare.")
    parser.add_argument("--store", help="a database of PostgreSQL")
    SERVER = parser.parse_args().store
    with tempfile.TemporaryDirectory() as folder:
        calm = Path(folder) / "undisturbed"
        began = time.monotonic()
        finish(calm)
        seconds = time.monotonic() - began
        expected, total = tables(calm), len(calls(calm))
        print(f"undisturbed: {len(expected[0])} modules, {len(expected[1])} definitions, {len(expected[2])} broken;", end=" ")
        print(f"{total} calls in {seconds:.1f} s, {total / seconds:.0f} a second")
        print("killed after  finished  in progress  called again  wrongly  same tables  laws broken  seconds to go on")
        scenes, wrong, repeated, different, findings = [], 0, 0, 0, 0
        for moment in range(1, MOMENTS + 1):
            work = Path(folder) / str(moment)
            count = round(total * (moment - 0.5) / MOMENTS)
            if not killed_after(work, count):
                print(f"{count:>6} calls  was over before it could be killed")
                different += 1
                continue
            left = scene(work)
            began = time.monotonic()
            finish(work)
            took = time.monotonic() - began
            wrongly, rightly = called_again(work, left)
            same, broken_laws = tables(work) == expected, laws(work)
            scenes.append(left)
            wrong, repeated = wrong + len(wrongly), repeated + len(rightly)
            different, findings = different + (not same), findings + len(broken_laws)
            print(
                f"{left.calls:>6} calls {len(left.done):>9} {len(left.in_progress):>12} {len(rightly):>13} {len(wrongly):>8}"
                f" {'yes' if same else 'NO':>12} {len(broken_laws):>12} {took:>17.1f}"
            )
        busy = sum(bool(left.in_progress) for left in scenes)
        print(
            f"{len(scenes)} kills, {busy} with tasks in progress, {repeated} attempts repeated, {wrong} finished ones called again,"
            f" {different} results different, {findings} laws broken"
        )
        return 0 if busy >= 6 and repeated and not (wrong or different or findings) else 1


if __name__ == "__main__":
    sys.exit(main())
