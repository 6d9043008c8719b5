"""Bits of a store's file are flipped while an engine uses it: `python tests/damage/flips.py [HOW MANY] [SEED]`.

Each flip is made in a page of its own store, at any place of the file, of the schema and of the header too: between two verbs of a
live engine, or before the file is opened. The engine then opens, starts, waits for results, reads, checks. Only errors of
`conductorlite.errors` may leave it, and what it has acknowledged after the flip it must give again, or an error.
"""

from __future__ import annotations

import logging
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from conductorlite import Engine, TaskDef, Workers, WorkflowDef
from conductorlite.errors import ConductorliteError, ResultTimeout, WorkflowFailed

ONE: Final = WorkflowDef.from_json(
    {
        "name": "flipped",
        "version": 1,
        "tasks": [
            {
                "name": "double",
                "taskReferenceName": "a",
                "inputParameters": {"n": "${workflow.input.n}", "pad": "${workflow.input.pad}"},
            }
        ],
        "outputParameters": {"n": "${a.output.n}"},
    }
)


def double(n: int, pad: str) -> dict[str, Any]:
    """Put out twice what is given, and as much beside it."""
    return {"n": 2 * n, "pad": pad}


def opened(path: Path) -> Engine:
    """An engine with the worker."""
    workers = Workers()
    workers.add("double", double)
    return Engine(path, workers=workers)


def made(path: Path) -> None:
    """A store with executions of every size, in a file without a log."""
    with opened(path) as engine:
        engine.register(ONE, TaskDef(name="double", retry_count=0))
        for n in range(40):
            engine.start(ONE, {"n": n, "pad": "x" * (2_500 if n % 4 == 0 else 10)}, workflow_id=f"before{n}")
        engine.run_until_idle()
        engine.search("status = COMPLETED")


def flip(path: Path, rng: random.Random) -> str:
    """Flip one bit of the file: of its header and schema as often as of all the rest."""
    size = path.stat().st_size
    with path.open("rb+") as file:
        place = rng.randrange(min(size, 3 * 4096)) if rng.random() < 0.3 else rng.randrange(size)
        bit = rng.randrange(8)
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ (1 << bit)]))
    return f"bit {bit} of byte {place}"


def attacks(rng: random.Random) -> Iterator[tuple[str, Callable[[Engine, dict[str, int]], None]]]:
    """What is done to the store after the flip, in an order drawn by chance."""

    def start(engine: Engine, acknowledged: dict[str, int]) -> None:
        n = rng.randrange(1_000)
        run = engine.start("flipped", {"n": n, "pad": "y" * rng.choice((10, 3_000))})
        assert run.result(timeout="20s") == {"n": 2 * n}, "another result"
        acknowledged[run.workflow_id] = 2 * n

    def read(engine: Engine, acknowledged: dict[str, int]) -> None:
        for workflow_id, n in acknowledged.items():
            assert engine.result(workflow_id) == {"n": n}, f"{workflow_id}: another result"

    def look(engine: Engine, acknowledged: dict[str, int]) -> None:
        engine.get(f"before{rng.randrange(40)}")
        engine.history(f"before{rng.randrange(40)}")

    verbs: list[tuple[str, Callable[[Engine, dict[str, int]], None]]] = [
        *(("start", start), ("start", start), ("read", read), ("look", look), ("poll", lambda engine, _: engine.poll("double"))),
        *(("check", lambda engine, _: engine.admin.check()), ("search", lambda engine, _: engine.search("status = COMPLETED"))),  # type: ignore[list-item]
    ]
    rng.shuffle(verbs)
    yield from verbs


def attacked(original: Path, folder: Path, seed: int) -> tuple[str, list[str]]:
    """Flip one bit and use the store; how it ended, and what must not have happened."""
    rng, wrong, seen = random.Random(seed), list[str](), "nothing was noticed"
    path = folder / "s.db"
    shutil.copy(original, path)
    live = rng.random() < 0.7
    acknowledged: dict[str, int] = {}
    where = "" if live else flip(path, rng)

    def tried(name: str, act: Callable[[], object]) -> bool:
        nonlocal seen
        try:
            act()
        except (WorkflowFailed, ResultTimeout) as error:  # a document or a row that cannot be read fails its execution
            seen = f"{name}: {type(error).__name__}"
        except ConductorliteError as error:
            seen = f"{name}: {type(error).__name__}"
            return False
        except BaseException as error:
            wrong.append(f"seed {seed}, {where}: {name}: {type(error).__name__}: {error}")
            return False
        return True

    engines: list[Engine] = []
    if tried("open", lambda: engines.append(opened(path))):
        (engine,) = engines
        if live:
            tried("first", lambda: engine.get("before1"))
            where = flip(path, rng)
        for name, act in attacks(rng):
            tried(name, lambda act=act: act(engine, acknowledged))  # type: ignore[misc]
        tried("close", engine.close)
    if tried("open again", lambda: engines.append(opened(path))):
        again = engines[-1]
        tried("read again", lambda: [_same(again, one, n) for one, n in acknowledged.items()])
        changed: list[str] = []
        tried("read all", lambda: changed.extend(_changed(again)))
        findings: list[object] = []
        if tried("check again", lambda: findings.extend(again.admin.check())) and changed and not findings:
            wrong.append(f"seed {seed}, {where}: {changed} have another result, and the check finds nothing")
        if findings:
            seen = "check again: findings"
        tried("close again", again.close)
    return seen, wrong


def _changed(engine: Engine) -> Iterator[str]:
    """Executions of before the flip whose result is another one, without an error."""
    for n in range(40):
        try:
            if engine.result(f"before{n}", timeout="1s") != {"n": 2 * n}:
                yield f"before{n}"
        except ConductorliteError:
            continue


def _same(engine: Engine, workflow_id: str, n: int) -> None:
    assert engine.result(workflow_id) == {"n": n}, f"{workflow_id}: another result"


def campaign(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """So many flips; how each ended, and what must not have happened."""
    ends, wrong = Counter[str](), list[str]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made(folder / "original.db")
        for number in range(seed, seed + count):
            (place := folder / str(number)).mkdir()
            end, amiss = attacked(folder / "original.db", place, number)
            ends[end] += 1
            wrong += amiss
            shutil.rmtree(place)
    return ends, wrong


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    numbers = [int(one) for one in sys.argv[1:]]
    ended, problems = campaign(numbers[0] if numbers else 300, numbers[1] if len(numbers) > 1 else 0)
    for end, times in ended.most_common():
        print(f"{times:5} {end}")
    print("\n".join(problems) or "only errors of conductorlite.errors, and nothing acknowledged is another thing")
    sys.exit(bool(problems))
