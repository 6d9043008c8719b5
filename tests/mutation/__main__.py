"""Mutation: are the tests that CI runs any good?

    python tests/mutation draw [--seed 11] [--count 100] [--rooms decider …]
    python tests/mutation reach [--list drawn.toml …] [--processes 2] [-- TEST …]
    python tests/mutation run [--list drawn.toml …] [--processes 2] [--only m001 …] [--missed] [-- TEST …]

`draw` writes a list of mutants, drawn by chance with a seed (do it before tests are changed). `reach` runs the tests of CI once, in
a copy of the tree, to learn which of them come to which mutant; with TEST (arguments of pytest) it adds what these tell. `run`
tries the mutants in such copies: each against the tests that come to it, the quick and special ones first, until one fails; then it
looks that the same test passes without the mutant. With TEST (paths) it runs these, whatever they come to. It is done first in
forked processes that have everything imported; what survives there is tried in a process of its own, unless with --quick.
`planted.toml` is a list made by hand, of mistakes that somebody who knows the engine would plant.

Everything is kept in build/mutation/: what the tests reach, the verdicts (`verdicts.json`), the output of each run. A list
names whole lines and the function around them, so a mutant is found again after the code has moved; one whose lines are no more is
"gone". Exit status 1: a mutant survived or is gone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from mutants import ROOMS, ROOT, Gone, Mutant, draw, mutated, read, statement_lines, write
from overlay import BUILD, FAILED, LATE, PASSED, change, copy_of_the_tree, pytest_in
from reach import Reach, look

_HERE: Final = Path(__file__).parent
#: Tests of the first try: they kill most mutants, and only they have to be collected.
_FIRST: Final = 12
#: Rooms whose tests look at the text of the sources, or at the machine's speed, or build the package.
_NOT_ASKED: Final = ("tests/house", "tests/benchmarks", "tests/packaging", "tests/mutation")


def main(arguments: Sequence[str]) -> int:
    """Carry out one of the three commands."""
    parser = argparse.ArgumentParser(
        prog="python tests/mutation", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("command", choices=("draw", "reach", "run"))
    parser.add_argument("--list", nargs="+", default=["drawn.toml"])
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--rooms", nargs="+", default=list(ROOMS))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--quick", action="store_true", help="survivors are tried in forked processes only")
    parser.add_argument("--most", type=int, default=1_000_000, metavar="N", help="the first N of the tests that come to a mutant")
    parser.add_argument("--missed", action="store_true", help="those only that are not killed yet, by the kept verdicts")
    split = arguments.index("--") if "--" in arguments else len(arguments)
    tests = list(arguments[split + 1 :])
    given = parser.parse_args(arguments[:split])
    if absent := [test for test in tests if not test.startswith("-") and not (ROOT / test.partition("::")[0]).exists()]:
        parser.error(f"no such tests: {' '.join(absent)}")  # pytest would fail, and seem to have found every mutant
    if given.command == "draw":
        head = f"Drawn by: python tests/mutation draw --seed {given.seed} --count {given.count} --rooms {' '.join(given.rooms)}"
        write(_HERE / "drawn.toml", draw(given.seed, given.count, given.rooms), head)
        return 0
    BUILD.mkdir(parents=True, exist_ok=True)
    mutants = [mutant for name in given.list for mutant in read(_HERE / name)]
    reach = Reach(BUILD / "reach.json")
    verdicts = _Verdicts(BUILD / "verdicts.json")
    if given.command == "reach":
        tests = tests or ["tests", *(f"--ignore={room}" for room in _NOT_ASKED)]
        look(reach, mutants, tests, given.processes)
        return 0
    chosen = [one for one in mutants if not given.only or one.name in given.only]
    chosen = [one for one in chosen if not given.missed or verdicts.of(one.name) != "killed"]
    stale_holders = [one for one in chosen if not reach.knows(one)]
    if stale_holders and not tests:
        look(reach, stale_holders, ["tests", *(f"--ignore={room}" for room in _NOT_ASKED)], given.processes)
    return _Trial(reach, verdicts, given.processes, tests, given.most).all(chosen, quick=given.quick)


class _Verdicts:
    """By mutant what became of it; kept after each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.kept: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def of(self, name: str) -> str:
        return self.kept.get(name, ["unknown"])[0]

    def tell(self, mutant: Mutant, verdict: str, why: str) -> None:
        self.kept[mutant.name] = [verdict, why]
        self._path.write_text(json.dumps(dict(sorted(self.kept.items())), indent=1), encoding="utf-8")
        print(f"{mutant.name} {verdict}: {why}", flush=True)


class _Trial:
    def __init__(self, reach: Reach, verdicts: _Verdicts, processes: int, tests: Sequence[str], most: int) -> None:
        self._most = most
        self._tests = tests
        self._reach = reach
        self._verdicts = verdicts
        self._processes = processes
        self._honest: dict[str, bool] = {}

    def all(self, mutants: Sequence[Mutant], *, quick: bool) -> int:
        """Try them, as many at a time as asked for; the exit status."""
        trees = [copy_of_the_tree(f"tree{number}") for number in range(self._processes)]
        with ThreadPoolExecutor(self._processes) as pool:
            shares = [mutants[number :: self._processes] for number in range(self._processes)]
            left = [mutant for share in pool.map(self._forked, trees, shares) for mutant in share]
            if not quick:
                free: SimpleQueue[Path] = SimpleQueue()
                for tree in trees:
                    free.put(tree)
                list(pool.map(lambda mutant: self._alone(mutant, free), left))
        count = [self._verdicts.of(mutant.name) for mutant in mutants]
        print(", ".join(f"{count.count(verdict)} {verdict}" for verdict in sorted(set(count))))
        for mutant in mutants:
            if self._verdicts.of(mutant.name) != "killed":
                told = f"-{mutant.before.rstrip()}\n+{mutant.after.rstrip()}"
                print(f"\n{mutant.name} {mutant.file}:{mutant.line} {mutant.scope} {mutant.says}\n{told}")
        return 0 if set(count) <= {"killed"} else 1

    def _forked(self, tree: Path, mutants: Sequence[Mutant]) -> list[Mutant]:
        """Try mutants in one process that forks for each; which of them were not killed."""
        jobs: list[dict[str, object]] = []
        files: set[str] = set()
        for mutant in mutants:
            source = (tree / mutant.file).read_text(encoding="utf-8") if (tree / mutant.file).exists() else ""
            try:
                text, (line, _) = mutated(mutant, source), statement_lines(mutant, source)
            except Gone as gone:
                self._verdicts.tell(mutant, "gone", str(gone))
                continue
            tests = self._reach.order(mutant)[: self._most]
            self._verdicts.tell(mutant, "survived", f"{len(tests)} tests come to it, in forked processes")
            chosen = None if self._tests else tests
            jobs.append({"name": mutant.name, "file": mutant.file, "source": text, "line": line, "tests": chosen})
            # What has not ended by then counts as found: rooms that were asked for by name may take minutes.
            jobs[-1]["seconds"] = 900 if self._tests else 10 + round(5 * sum(self._reach.seconds.get(test, 1.0) for test in tests))
            files |= {test.split("::")[0] for test in tests}
        name = tree.name
        asked, results = BUILD / f"jobs-{name}.json", BUILD / f"results-{name}.txt"
        asked.write_text(json.dumps(jobs), encoding="utf-8")
        results.write_text("", encoding="utf-8")
        if jobs:
            given = {"MUTATION_JOBS": str(asked), "MUTATION_RESULTS": str(results)}
            wanted = [*self._tests] or sorted(files)
            pytest_in(tree, ["-p", "fork_server", *wanted], seconds=None, log=BUILD / f"forked-{name}.log", **given)
        told: dict[str, str] = dict(map(json.loads, results.read_text(encoding="utf-8").splitlines()))
        for mutant in mutants:
            if told.get(mutant.name):
                self._verdicts.tell(mutant, "killed", told[mutant.name])
        return [mutant for mutant in mutants if self._verdicts.of(mutant.name) not in ("killed", "gone")]

    def _bound(self, tests: Sequence[str]) -> float:
        """Generous: seconds of the machine's clock in which these tests would be over ten times."""
        return (900.0 if self._tests else 90.0) + 20.0 * sum(self._reach.seconds.get(test, 1.0) for test in tests)

    def _alone(self, mutant: Mutant, free: SimpleQueue[Path]) -> None:
        tree = free.get()
        try:
            self._verdicts.tell(mutant, *self._one(mutant, tree))
        finally:
            free.put(tree)

    def _one(self, mutant: Mutant, tree: Path) -> tuple[str, str]:
        path = tree / mutant.file
        source = (ROOT / mutant.file).read_text(encoding="utf-8") if (ROOT / mutant.file).exists() else ""
        try:
            text = mutated(mutant, source)
        except Gone as gone:
            return "gone", str(gone)
        tests = [*self._tests] or self._reach.order(mutant)[: self._most]
        if not tests:
            return "survived", "no test comes to it"
        change(path, text)
        began = time.monotonic()
        try:
            for some in (tests[:_FIRST], tests[_FIRST:]):
                found = self._try(mutant, tree, some) if some else None
                if found is None:
                    continue
                change(path, source)
                if self._passes(tree, found):
                    return "killed", f"{found} ({time.monotonic() - began:.0f} s)"
                return "doubtful", f"{found} fails without the mutant too"
        finally:
            change(path, source)
        return "survived", f"{len(tests)} tests come to it ({time.monotonic() - began:.0f} s)"

    def _try(self, mutant: Mutant, tree: Path, tests: Sequence[str]) -> str | None:
        """The test that fails, or the last that was running when the time was over."""
        bound = self._bound(tests)
        log = BUILD / f"{mutant.name}.log"
        arguments = ["-x", "-vv", "--tb=line", f"@{_arguments(mutant.name, tests)}"]
        how, printed = pytest_in(tree, arguments, seconds=bound, log=log)
        if how == PASSED:
            return None
        failed = [line.split(" ", 1)[1].split(" - ")[0] for line in printed.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        if failed:
            return failed[0]
        running = [line.split(" ")[0] for line in printed.splitlines() if line.startswith("tests/") and "::" in line]
        return running[-1] if how in (FAILED, LATE) and running else tests[0]

    def _passes(self, tree: Path, test: str) -> bool:
        known = self._honest.get(test)
        if known is None:
            how, _ = pytest_in(tree, ["-x", test], seconds=600, log=BUILD / f"honest-{abs(hash(test))}.log")
            known = self._honest[test] = how == PASSED
        return known


def _arguments(name: str, tests: Sequence[str]) -> Path:
    path = BUILD / f"{name}.args"
    path.write_text("\n".join(tests) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
