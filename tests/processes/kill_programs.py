"""Programs killed at random instants and run again: how soon what they had in hand is handed out again, and what is lost.

    python tests/processes/kill_programs.py [--times 12] [--program main|tutorial|three] [--seed 11]

`main` is the job of the README (`examples/index_stdlib`, on a part of the library), `tutorial` the program of the tutorial with
nothing but defaults, whose first task takes half a second; both are ended by SIGKILL, SIGINT and SIGTERM in turn, and
run again. `three` is three processes on one file (`kill.py`), one of which is ended while the others drive, and started again.
Measured in ms is the time from the moment the store is about to be opened again (with `three`, from the signal: others survive)
until each attempt that was given back is handed out again, as the history of the store tells it. Printed as JSON; what does not
hold ends the command with status 1.
"""

from __future__ import annotations

import argparse
import json
import random
import runpy
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import kill

from conductorlite import Engine, HistoryEvent, TaskStatus, WorkflowStatus

#: What kills the index job: its script, and its tables.
INDEX = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "kill_index.py"))

#: By what programs are ended, in turn.
SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)

#: How the reason of a line begins by which an attempt is offered again.
GIVEN = "given back: "

#: Files of the library that the main job looks at.
FILES = 60

#: Families that `three` processes have to work at whenever one is killed, and seconds between kills.
FAMILIES, EVERY = 25, 1.5

#: Their response timeout in seconds: none may be what hands a task out again.
NEVER = 3_600


@attrs.define
class Found:
    """What kills came to: ms until an attempt was handed out again, attempts that were in hand, what does not hold."""

    kills: int = 0
    waits: list[int] = attrs.field(factory=list)
    in_hand: int = 0
    problems: list[str] = attrs.field(factory=list)

    def figures(self) -> dict[str, Any]:
        """For people."""
        return {
            "kills": self.kills,
            "in hand at a death": self.in_hand,
            "handed out again": len(self.waits),
            "median ms": round(statistics.median(self.waits)) if self.waits else None,
            "maximum ms": max(self.waits, default=None),
            "problems": self.problems,
        }


def now() -> int:
    """Epoch ms, as in the history."""
    return time.time_ns() // 1_000_000


def in_hand(store: Path) -> set[tuple[str, str, int]]:
    """The attempts that somebody has in hand, read without opening the store as an engine does, which would give them back."""
    with closing(sqlite3.connect(store)) as rows:
        asked = "SELECT workflow_id, ref, attempt FROM tasks JOIN workflows USING (execution) WHERE holder <> '' AND live = 1"
        return {(workflow_id, ref, attempt) for workflow_id, ref, attempt in rows.execute(asked)}


def handed_again(engine: Engine, began: Callable[[HistoryEvent], int], held: set[tuple[str, str, int]], found: Found) -> None:
    """Note for each attempt that was given back how long after an instant it was handed out again, which its line tells `began`."""
    given_back = set()
    for workflow_id in engine.admin.workflow_ids():
        lines = engine.history(workflow_id)
        for number, line in enumerate(lines):
            if line.status == TaskStatus.TIMED_OUT:
                found.problems.append(f"{workflow_id}, {line.ref}: waited for a timeout")
            if not (line.reason or "").startswith(GIVEN):
                continue
            given_back.add((workflow_id, line.ref or "", line.attempt or 0))
            later = (one for one in lines[number + 1 :] if (one.ref, one.attempt) == (line.ref, line.attempt))
            again = next((one.at for one in later if one.status == TaskStatus.IN_PROGRESS), None)
            if again is None:
                found.problems.append(f"{workflow_id}, {line.ref}: never handed out again")
                continue
            found.waits.append(max(0, again - began(line)))
    found.in_hand += len(held)
    found.problems += [f"{one}: was in hand, and not given back" for one in sorted(held - given_back)]
    found.problems += [str(finding) for finding in engine.admin.check()]


class Program:
    """One that is run in a folder of its own, and is done when it has ended by itself."""

    def __init__(self, folder: Path, store: Path, *command: str) -> None:
        self.folder = folder
        self.store = store
        self._command = [sys.executable, __file__, "--run", str(folder / "opened.txt"), *command]

    def begin(self) -> subprocess.Popen[str]:
        """Start it, from anew or from where it was."""
        (self.folder / "opened.txt").unlink(missing_ok=True)
        return subprocess.Popen(self._command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def opened(self) -> list[int]:
        """When it was about to open its store, each time."""
        with suppress(FileNotFoundError):
            return [int(line) for line in (self.folder / "opened.txt").read_text().split()]
        return []

    def ended_at(self, span: float, number: int) -> bool:
        """Begin, and end it by a signal so many seconds after it opens its store; False when it was done before."""
        process = self.begin()
        while not self.opened() and process.poll() is None:
            time.sleep(0.001)
        with suppress(subprocess.TimeoutExpired):
            process.wait(span)
        early = process.poll() is None
        process.send_signal(number)
        process.communicate(timeout=60)
        return early

    def finish(self) -> float:
        """Run it to its end, which must be a good one; seconds from the opening of its store."""
        process = self.begin()
        _, told = process.communicate(timeout=120)
        if process.returncode:
            raise RuntimeError(f"ended with {process.returncode}:\n{told}")
        return (now() - self.opened()[-1]) / 1000


def main_job(folder: Path) -> Program:
    """The README's, on a part of the library."""
    return Program(folder, folder / "jobs.db", str(INDEX["SCRIPT"]), "--work", str(folder), "--limit", str(FILES))


def tutorial(folder: Path) -> Program:
    """The program of the tutorial's page, whose task takes a while."""
    page = (Path(__file__).parents[2] / "docs" / "tutorial" / "first-workflow.md").read_text(encoding="utf-8")
    text = page.partition("<!-- file: trial.py -->\n```python\n")[2].partition("```")[0]
    begins = '    print("opening an account for", name)\n'
    if begins not in text:
        raise RuntimeError("the program of the tutorial has changed")
    (folder / "trial.py").write_text(text.replace(begins, f"{begins}    __import__('time').sleep(0.5)\n"), encoding="utf-8")
    return Program(folder, folder / "trials.db", str(folder / "trial.py"))


def account_of_main(folder: Path, engine: Engine, calm: Path) -> list[str]:
    """What is not as in a folder where nobody was killed."""
    status = engine.status("index_stdlib")
    wrong = [] if status is WorkflowStatus.COMPLETED else [f"the job is {status}"]
    return wrong + ([] if INDEX["tables"](folder) == INDEX["tables"](calm) else ["the tables differ"])


def account_of_tutorial(folder: Path, engine: Engine, calm: Path) -> list[str]:
    """Whether the account is open, at the first attempt, and the month has begun."""
    tasks = [(task.ref, str(task.status), task.attempt) for task in engine.get("ann").tasks]
    right = [("open_account", "COMPLETED", 0), ("a_month", "IN_PROGRESS", 0)]
    return [] if tasks == right else [f"the tasks are {tasks}"]


PROGRAMS = {"main": (main_job, account_of_main), "tutorial": (tutorial, account_of_tutorial)}


def alone(name: str, scratch: Path, times: int, chance: random.Random) -> Found:
    """Kill one of the programs so many times, each time in a new folder, and run it again."""
    found = Found()
    make, account = PROGRAMS[name]
    calm = scratch / "calm"
    calm.mkdir()
    span = make(calm).finish()
    for one in range(10 * times):
        if found.kills == times:
            break
        folder = scratch / str(one)
        folder.mkdir()
        program = make(folder)
        if not program.ended_at(chance.uniform(0, span), SIGNALS[found.kills % len(SIGNALS)]):
            continue
        found.kills += 1
        held = in_hand(program.store) if _is_made(program.store) else set()
        program.finish()
        with Engine(program.store) as engine:
            # Also what a process gives back before it ends is measured from the opening after it.
            handed_again(engine, partial(_always, program.opened()[-1]), held, found)
            found.problems += [f"kill {found.kills}: {wrong}" for wrong in account(folder, engine, calm)]
    return found


def _always(instant: int, _: HistoryEvent) -> int:
    return instant


def _is_made(store: Path) -> bool:
    """Whether the store has been made: it may have been killed before."""
    if not store.exists():
        return False
    with closing(sqlite3.connect(store)) as rows:
        return bool(rows.execute("SELECT 1 FROM sqlite_master WHERE name = 'tasks'").fetchall())


def work_for(engine: Engine, begun: int) -> int:
    """Start families until enough of them run, however quick the machine is; how many there are now."""
    running = sum(name.startswith("family-") for name in engine.admin.workflow_ids(WorkflowStatus.RUNNING))
    for number in range(begun, begun + FAMILIES - running):
        engine.start("family", workflow_id=f"family-{number}")
        begun = number + 1
    return begun


def three(folder: Path, times: int, chance: random.Random) -> Found:
    """Three processes on one file; one of them is ended so many times, and started again."""
    found = Found()
    with closing(kill.ledger(folder)) as world:
        world.execute("PRAGMA journal_mode = WAL")
        world.executescript(kill.LEDGER)
    with Engine(folder / "store.db") as engine:
        engine.register(*kill.definitions(NEVER))
        executions = work_for(engine, 0)
        ended: dict[str, int] = {}
        crew = kill.Crew(folder, 3, [], chance)
        try:
            for number in range(times):
                until = time.monotonic() + EVERY * chance.uniform(0.5, 1.5)
                while time.monotonic() < until:
                    executions = work_for(engine, executions)
                    time.sleep(0.1)
                victim = crew.survived()
                ended[crew.worker(victim)] = now()
                crew.kill(victim, SIGNALS[number % len(SIGNALS)])
                found.kills += 1
            deadline = time.monotonic() + kill.PATIENCE
            while time.monotonic() < deadline and any(engine.admin.workflow_ids(WorkflowStatus.RUNNING)):
                time.sleep(0.1)
        finally:
            crew.close()
        found.problems += kill.account(engine, folder, executions)["problems"]
        handed_again(engine, lambda line: ended[(line.reason or "").split("'")[1]], set(), found)
        found.in_hand = len(found.waits)
    return found


def run(name: str, times: int, seed: int) -> Found:
    """Kill one of the three so many times."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        return three(Path(folder), times, chance) if name == "three" else alone(name, Path(folder), times, chance)


def observed(note: Path, program: list[str]) -> None:
    """Run a program in this process; each time it is about to open an engine, the instant is noted."""
    opens = Engine.__init__

    def opened(self: Engine, *given: Any, **options: Any) -> None:
        with note.open("a") as file:
            file.write(f"{now()}\n")
        opens(self, *given, **options)

    Engine.__init__ = opened  # type: ignore[method-assign]
    sys.argv = program
    sys.path.insert(0, str(Path(program[0]).parent))
    runpy.run_path(program[0], run_name="__main__")


def main() -> int:
    """Read the command line and do as it says."""
    parser = argparse.ArgumentParser(description="Kill programs at random instants, run them again, and look.")
    parser.add_argument("--times", type=int, default=12, help="kills of each program")
    parser.add_argument("--program", choices=["main", "tutorial", "three"], action="append", help="only this one")
    parser.add_argument("--seed", type=int, default=11, help="which instants")
    arguments = parser.parse_args()
    # In the background a shell has SIGINT ignored, by what is started here too: a handler is not handed on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    found = {name: run(name, arguments.times, arguments.seed) for name in arguments.program or ["main", "tutorial", "three"]}
    print(json.dumps({name: one.figures() for name, one in found.items()}, indent=2))
    return 1 if any(one.problems for one in found.values()) else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        observed(Path(sys.argv[2]), sys.argv[3:])
    else:
        sys.exit(main())
