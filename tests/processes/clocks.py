"""Stop a process, or set its clock, while a worker and a WAIT are under way; nothing may be late, early, lost or done twice.

    python tests/processes/clocks.py [--stops 1 10 100] [--steps -3600 3600]

Each trial has a file of its own. A process is stopped by SIGSTOP for so many seconds, with a response timeout of two and a task
timeout of five; or the clock of an engine is set by so many seconds (a clock that is shifted, over the machine's own) while a WAIT
of four seconds, a retry delay of three and a WAIT until an instant two hours away are under way. Printed as JSON, a line for each
trial; what does not hold ends the command with status 1. It takes what the stops take together, and half a minute.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conductorlite import Engine, SystemClock, TaskDef, Workers, WorkflowDef
from conductorlite.language.durations import until_text

__all__ = ["main", "stepped", "stopped"]

#: How late, seconds, something may be on a machine that is busy.
LATE = 5.0


class Shifted(SystemClock):
    """The machine's clock, set by hand."""

    ahead = 0

    def now(self) -> int:
        """Epoch ms."""
        return super().now() + self.ahead


def simple(name: str, **fields: Any) -> dict[str, Any]:
    """A task in a definition."""
    return {"name": name, "taskReferenceName": name, **fields}


def work_while_stopped(folder: str) -> None:
    """In the process that is stopped: a function that takes two seconds."""
    calls: list[int] = []
    workers = Workers()

    def slow() -> dict[str, int]:
        calls.append(1)
        end = time.monotonic() + 2
        print("up", flush=True)
        while time.monotonic() < end:
            time.sleep(0.05)
        return {"calls": len(calls)}

    workers.add("slow", slow)
    with Engine(str(Path(folder) / "s.db"), workers=workers) as engine:
        engine.register(TaskDef(name="slow", response_timeout_ms=2_000, timeout_ms=5_000, retry_count=2))
        run = engine.start(WorkflowDef.from_json({"name": "w", "tasks": [simple("slow")]}))
        print(json.dumps(run.result()), flush=True)


def stopped(seconds: float) -> dict[str, Any]:
    """Stop a process for so long while its worker runs; what became of the work."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--inside", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(0.5)
            child.send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            child.send_signal(signal.SIGCONT)
            said = child.stdout.read()
        calls = json.loads(said or "{}").get("calls")
    return {"stopped": seconds, "calls": calls, "holds": calls == 1}


def stepped(seconds: float) -> dict[str, Any]:
    """Set the clock of an engine by so many seconds; how long each length of time was, and whether the instant has come."""
    clock, calls = Shifted(), []
    workers = Workers()

    @workers.task("flaky", retry_count=1, retry_delay_seconds=3)
    def flaky() -> None:
        calls.append(time.monotonic())
        if len(calls) == 1:
            raise ConnectionError("not yet")

    wait = simple("wait", type="WAIT", inputParameters={"duration": "4 s"})
    with tempfile.TemporaryDirectory() as folder, Engine(str(Path(folder) / "s.db"), workers=workers, clock=clock) as engine:
        at = clock.now() // 60_000 * 60_000 + 2 * 3_600_000
        until = engine.start(
            WorkflowDef.from_json({"name": "u", "tasks": [simple("u", type="WAIT", inputParameters={"until": until_text(at)})]})
        )
        begun = time.monotonic()
        waits = engine.start(WorkflowDef.from_json({"name": "w", "tasks": [wait, simple("flaky")]}))
        engine.run_until_idle("1s")
        clock.ahead += int(seconds * 1_000)
        waits.result("60s")
        lengths = [round(calls[0] - begun, 1), round(calls[1] - calls[0], 1)]
        came = until.status == "COMPLETED"
        sound = engine.admin.check() == []
    holds = 4 <= lengths[0] < 4 + LATE and 3 <= lengths[1] < 3 + LATE and came == (seconds >= 7_200) and sound
    return {"set by": seconds, "wait": lengths[0], "retry delay": lengths[1], "until came": came, "sound": sound, "holds": holds}


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out the trials; 1 if something does not hold."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--stops", type=float, nargs="*", default=[1, 10, 100])
    parser.add_argument("--steps", type=float, nargs="*", default=[-3_600, 3_600])
    parser.add_argument("--inside")
    given = parser.parse_args(arguments)
    if given.inside is not None:
        work_while_stopped(given.inside)
        return 0
    holds = True
    for trial, values in ((stopped, given.stops), (stepped, given.steps)):
        for value in values:
            told = trial(value)
            print(json.dumps(told), flush=True)
            holds = holds and told["holds"]
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
