"""What the benchmarks share: cases run in turn, medians, ratios to a baseline of the same run, a table and JSON.

A machine is never equally fast twice, so nothing is compared across runs: every round runs each case once, in another order
each time, and what is reported beside the medians is the ratio to the baseline measured in between.
"""

from __future__ import annotations

import argparse
import json
import platform
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

__all__ = ["Case", "Figure", "arguments", "compare", "publish"]

#: Does its work and returns how many units that was, or (units, seconds) when it keeps the time itself.
Work = Callable[[], int | tuple[int, float]]


@attrs.frozen
class Case:
    """One thing to measure."""

    name: str
    work: Work


@attrs.frozen(kw_only=True)
class Figure:
    """What was measured: units per second over all rounds."""

    name: str
    median: float
    least: float
    most: float
    #: Median over the rounds of this case's rate divided by the baseline's in the same round.
    ratio: float | None = None
    extra: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def each_ms(self) -> float:
        """Milliseconds per unit, at the median."""
        return 1000 / self.median


def compare(cases: Sequence[Case], *, rounds: int, baseline: str | None = None) -> list[Figure]:
    """Run every case once per round and give their figures in the order of `cases`."""
    rates: dict[str, list[float]] = {case.name: [] for case in cases}
    for number in range(rounds):
        shift = number % len(cases)
        for case in (*cases[shift:], *cases[:shift]):
            begun = time.perf_counter()
            done = case.work()
            units, seconds = done if isinstance(done, tuple) else (done, time.perf_counter() - begun)
            rates[case.name].append(units / seconds)
    figures = []
    for name, listed in rates.items():
        ratio = None
        if baseline is not None:
            ratio = statistics.median(rate / base for rate, base in zip(listed, rates[baseline], strict=True))
        figures.append(Figure(name=name, median=statistics.median(listed), least=min(listed), most=max(listed), ratio=ratio))
    return figures


def arguments(description: str | None, **defaults: int) -> argparse.ArgumentParser:
    """A parser with `--json FILE` and an option per size."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default: {value}")
    return parser


def publish(title: str, unit: str, figures: Sequence[Figure], path: Path | None = None) -> None:
    """Print a table, and write the same as JSON."""
    width = max(len(figure.name) for figure in figures)
    print(f"{title}  (Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {sys.platform})")
    print(f"  {'':{width}}  {unit + '/s':>12}  {'ms each':>9}  {'least':>10}  {'most':>10}  {'ratio':>6}")
    for figure in figures:
        ratio = "" if figure.ratio is None else f"{figure.ratio:6.2f}"
        extra = "  ".join(f"{name} {value}" for name, value in figure.extra.items())
        rates = f"{figure.median:12,.1f}  {figure.each_ms:9.3f}  {figure.least:10,.1f}  {figure.most:10,.1f}"
        print(f"  {figure.name:{width}}  {rates}  {ratio:>6}  {extra}".rstrip())
    if path is not None:
        rows = [{**attrs.asdict(figure), "each_ms": figure.each_ms} for figure in figures]
        path.write_text(json.dumps({"title": title, "unit": unit, "figures": rows}, indent=2) + "\n")
