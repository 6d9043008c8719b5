"""Compare this library with a real Conductor server; see README.md.

python tests/conductor/compare.py [--only PATTERN] [--compositions N] [--seed S] [--tree CHECKOUT] [--server URL] [--once]
    [--report FILE]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))

import bindings
import catalog
import httpx
import server as servers
from cases import Case
from comparison import Comparison, Finding
from sides import Here, Server
from snapshots import Difference

#: What becomes of a case that is not equal; "alike" is one that only differs in what nearly all do.
OUTCOMES: Final = ("alike", "row", "defect", "unbound")

_NUMBERS: Final = itertools.count(1)
_RUN: Final = f"{int(time.time()) % 100_000_000:x}p{os.getpid()}"


def compared(case: Case, base: str, known: bindings.Bindings, patience: float) -> list[Finding]:
    """A case on both sides; one that fails as a whole is compared in halves, so that each part speaks for itself."""
    own = f"k{_RUN}x{next(_NUMBERS)}x"
    there, here = Server(base, own), Here(own)
    comparison = Comparison(case, there, here, own, known, patience=patience)
    try:
        findings = comparison.run()
    except httpx.HTTPError as error:  # a server that is busy answers late; the other cases go on
        findings = [*comparison.findings, _unanswered(case, error)]
    finally:
        there.close()
        here.close()
    if case.parts and any(_whole(each) for each in findings) and case.halves():
        return [finding for half in case.halves() for finding in compared(half, base, known, patience)]
    return findings


def _unanswered(case: Case, error: Exception) -> Finding:
    difference = Difference(path="answer", server=f"{type(error).__name__}: {error}", here="an answer")
    return Finding(case=case.name, shown="", step="", difference=difference, binding=None)


def _whole(each: Finding) -> bool:
    """Whether a difference keeps the parts from being compared."""
    return not each.shown and (each.binding is None or each.difference.path in ("answer", "status"))


def counted(cases: Sequence[Case], findings: dict[str, list[Finding]]) -> tuple[dict[str, Counter[str]], list[Finding]]:
    """Cases by kind and outcome, and the findings that nothing binds."""
    counts: dict[str, Counter[str]] = {}
    for case in cases:
        count = counts.setdefault(case.kind, Counter())
        count["cases"] += case.weight
        outcomes: dict[str, str] = {}
        for each in findings[case.name]:
            of = each.shown or each.case
            outcomes[of] = max(outcomes.get(of, ""), _outcome(each.binding), key=("", *OUTCOMES).index)
        count.update(outcomes.values())
        count["equal"] += max(0, case.weight - len(outcomes))
    return counts, [each for found in findings.values() for each in found if each.binding is None]


def _outcome(binding: bindings.Binding | None) -> str:
    if binding is None:
        return "unbound"
    return "defect" if binding.defect else "alike" if binding.everywhere else "row"


def table(counts: dict[str, Counter[str]]) -> str:
    columns = ("cases", "equal", *OUTCOMES)
    lines = [f"{'kind':16}" + "".join(f"{column:>10}" for column in columns)]
    for kind, count in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        lines.append(f"{kind:16}" + "".join(f"{count[column]:>10}" for column in columns))
    return "\n".join(lines)


def compare_all(cases: Sequence[Case], base: str, threads: int, patience: float, *, again: bool) -> dict[str, list[Finding]]:
    """All cases, several at a time; what differs is tried `again` with fewer beside it: the server's queue is busy now and then."""
    known = bindings.read(bindings.FILE.read_text(encoding="utf-8"))
    done = itertools.count(1)

    def one(case: Case) -> list[Finding]:
        found = compared(case, base, known, patience)
        print(f"\r{next(done)}/{len(cases)} {case.name:60.60}", end="", file=sys.stderr, flush=True)
        return found

    with ThreadPoolExecutor(threads) as pool:
        findings = dict(zip([case.name for case in cases], pool.map(one, cases), strict=True))
    unbound = [case for case in cases if again and any(each.binding is None for each in findings[case.name])]
    with ThreadPoolExecutor(max(1, threads // 3)) as pool:
        findings |= zip([case.name for case in unbound], pool.map(one, unbound), strict=True)
    print(file=sys.stderr)
    return findings


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print what nothing binds and the counts by kind; 1 if there is anything unbound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name this regular expression is found in")
    parser.add_argument("--compositions", type=int, default=300, help="random compositions")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tree", type=Path, help="a checkout of Conductor, whose own definitions are compared too")
    parser.add_argument("--server", help="the API of a server that runs already; none is started")
    parser.add_argument("--threads", type=int, default=3)
    parser.add_argument("--patience", type=float, default=5.0, help="seconds until a server that is not what we are is different")
    parser.add_argument("--once", action="store_true", help="do not try again what differs")
    parser.add_argument("--report", type=Path, help="write every difference, one JSON object a line")
    options = parser.parse_args(arguments)
    cases = [each for each in catalog.cases(options.compositions, options.seed, options.tree) if re.search(options.only, each.name)]
    with nullcontext(options.server) if options.server else servers.running() as base:
        findings = compare_all(cases, base, options.threads, options.patience, again=not options.once)
    counts, unbound = counted(cases, findings)
    for each in unbound:
        print(f"UNBOUND {each.case} [{each.step}] {each.shown}\n        {each.difference}")
    print(table(counts))
    if options.report:
        options.report.write_text(
            "".join(f"{line}\n" for line in map(_line, itertools.chain(*findings.values()))), encoding="utf-8"
        )
    return 1 if unbound else 0


def _line(each: Finding) -> str:
    found: dict[str, Any] = {"case": each.case, "step": each.step, "shown": each.shown, "path": each.difference.path}
    found |= {"type": each.difference.type, "state": each.difference.state}
    found |= {"server": each.difference.server, "here": each.difference.here, "bound": each.binding and each.binding.name}
    return json.dumps(found, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main())
