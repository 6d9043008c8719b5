"""Carries out hostile input and measures it: `python tests/hostile/carrying_out.py [NAME...]` prints what became of each as JSON.

Each runs in a process of its own, forked from this one, so that its memory is its own. What is measured is from its beginning to
its end; the memory is that of the whole process. Afterwards a normal workflow must run on the same engine.

Seconds are those of a machine that takes `REFERENCE` for a fixed piece of work (`pace`): on a slower one, or one that others use
as well, that work is timed after an attack that took long, and the bound grows by as much.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from attacks import MB, flow, given
from corruption_attacks import spoilt_and_used
from families import ATTACKS, DATABASES, FAMILIES, family_of

from conductorlite import Engine, VirtualClock, WorkflowDef
from conductorlite.errors import ConductorliteError
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import ScriptedWorkers

#: Carried out on an SQLite file; the others in memory.
STORED = "SQL in names and queries", "unicode in names"

#: Seconds that `pace` takes where a second is one: on an ordinary core with nothing else to do.
REFERENCE = 0.09


def pace() -> float:
    """How much slower this machine is at present than the one whose seconds count; 1.0 for a faster one."""
    gc.collect()
    gc.disable()  # what an attack has left behind says nothing of the machine
    began = time.process_time()
    # As the engine does, it makes many small objects, which is slowed more than arithmetic by whoever shares the caches.
    rows = [{"n": number, "ref": f"t{number}", "in": [number]} for number in range(40_000)]
    by_ref = {row["ref"]: row for row in json.loads(json.dumps(rows))}
    if len(by_ref) != len(rows):
        raise AssertionError("the pace is not that of this work")
    took = time.process_time() - began
    gc.enable()
    return max(1.0, took / REFERENCE)


def carry_out(name: str, folder: Path) -> dict[str, Any]:
    """One attack, and a normal workflow after it."""
    family = family_of(name)
    workers = ScriptedWorkers()
    for known in ("t", "z", "normal", *(f"t{n}" for n in range(41))):
        workers[known]
    began, cpu = time.monotonic(), time.process_time()
    broken: list[str] = []
    if family == DATABASES:
        outcome, broken = spoilt_and_used(name, folder)
        seconds, used = time.monotonic() - began, time.process_time() - cpu
    backend = SQLiteBackend(folder / "normal.db", synchronous="NORMAL") if family in STORED else None
    with Engine(backend, clock=VirtualClock(), workers=workers) as engine:
        if family != DATABASES:
            began, cpu = time.monotonic(), time.process_time()
            outcome = _outcome(engine, name, family)
            seconds, used = time.monotonic() - began, time.process_time() - cpu
        slower = pace() if used > 1 else 1.0
        normal = engine.start(WorkflowDef.from_json({**flow(given("normal")), "name": "normal"}))
        engine.run_until_idle()
        after = str(normal.status)
        broken += [str(finding)[:200] for finding in engine.admin.check(normal.workflow_id)]
    peak = _peak()
    outcome = " ".join(outcome.encode("utf-8", "backslashreplace").decode().split()).replace(str(folder), "…")
    measured = {"seconds": seconds, "cpu": used, "slower": slower, "mb": peak, "after": after, "broken": broken}
    return {"family": family, "outcome": outcome[:300], **measured}


def _peak() -> float:
    """The most memory this process has had, in MB. Not `ru_maxrss` on Linux: there it begins with what its parent had."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) / 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _outcome(engine: Engine, name: str, family: str) -> str:
    try:
        run = ATTACKS[family][name](engine)
        engine.run_until_idle()
        workflow = run.workflow
        outcome = f"{workflow.status}: {workflow.reason}" if workflow.reason else str(workflow.status)
        return f"parked: {workflow.parked}" if workflow.parked else outcome
    except ConductorliteError as error:
        return f"{type(error).__name__}: {error}"
    except BaseException as error:
        return f"UNNAMED {type(error).__name__}: {str(error)[:200]}"


def main(names: list[str]) -> None:
    """Carry them out one after another, each in its process; one that does not end is stopped."""
    # What is imported on first use is imported here: no child has to do it again.
    for harmless in (DATABASES, STORED[1]):
        with tempfile.TemporaryDirectory() as folder:
            carry_out(FAMILIES[harmless][0], Path(folder))
    for name in names:
        sys.stdout.flush()
        with tempfile.TemporaryDirectory() as folder:
            child = os.fork()
            if child == 0:
                # A machine in danger helps nobody: past this the attack fails as too large.
                resource.setrlimit(resource.RLIMIT_AS, (2 * 1024 * MB, 2 * 1024 * MB))
                signal.alarm(60)
                print(json.dumps({"name": name, **carry_out(name, Path(folder))}), flush=True)
                os._exit(0)
            _, status = os.waitpid(child, 0)
        if status:
            outcome = f"UNNAMED end of the process, status {status}"
            dead = {"outcome": outcome, "seconds": 60.0, "cpu": 60.0, "slower": 1.0, "mb": 2048.0, "after": "", "broken": []}
            print(json.dumps({"name": name, "family": family_of(name), **dead}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or [name for names in FAMILIES.values() for name in names])
