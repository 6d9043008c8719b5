"""The benchmarks still run: each with sizes too small to say anything."""

from __future__ import annotations

import json
from pathlib import Path

import load
import pytest
import scripting
import searching
import throughput
import time_skipping
import turn_isolation
from harness import Case, compare


@pytest.mark.slow
def test_time_skipping(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One run, one import, the slowest modules; the figures are printed and written."""
    path = tmp_path / "figures.json"
    time_skipping.main(["--rounds", "1", "--runs", "1", "--imports", "1", "--importtime", "2", "--json", str(path)])
    assert "30 days, 20 retries" in capsys.readouterr().out
    names = [figure["name"] for figure in json.loads(path.read_text())["figures"]]
    assert names == ["30 days, 20 retries", "cold import"]


def test_throughput(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten steps of each shape on each store."""
    throughput.main(["--rounds", "1", "--size", "10", "--json", str(tmp_path / "figures.json")])
    printed = capsys.readouterr().out
    assert printed.count("bare sqlite3") == 3
    assert len(list(tmp_path.glob("figures-*.json"))) == 3


@pytest.mark.deep
def test_turn_isolation(capsys: pytest.CaptureFixture[str]) -> None:
    """One chain in each of two processes, both ways of reading."""
    turn_isolation.main(["--rounds", "1", "--chains", "1", "--processes", "2"])
    printed = capsys.readouterr().out
    assert "2 processes shared, inside" in printed
    assert "2 processes apart, outside" in printed


def test_searching(capsys: pytest.CaptureFixture[str]) -> None:
    """Every question of a few executions, once."""
    searching.main(["--count", "300", "--rounds", "1", "--chains", "1"])
    printed = capsys.readouterr().out
    assert printed.count(" hits") == len(searching.QUESTIONS)
    assert "indexed" in printed


def test_scripting(capsys: pytest.CaptureFixture[str]) -> None:
    """Two calls and two rounds of each language that is there."""
    scripting.main(["--rounds", "1", "--calls", "2"])
    printed = capsys.readouterr().out
    assert "calls/s" in printed
    assert "rounds/s" in printed
    assert printed.count("QuickJS") == 3


@pytest.mark.slow
def test_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Eighty executions in batches of twenty: all complete, sixty are removed, and the file is that of twenty again."""
    path = tmp_path / "figures.json"
    load.main(["--executions", "80", "--batch", "20", "--folder", str(tmp_path), "--json", str(path)])
    assert "time per execution" in capsys.readouterr().out
    figures = json.loads(path.read_text())
    assert [batch["executions"] for batch in figures["batches"]] == [20, 40, 60, 80]
    assert figures["file"] <= load.FILE


def test_ratios_are_taken_within_rounds() -> None:
    """A machine that gets slower from round to round changes the medians, not the ratios."""
    seconds = iter([1.0, 2.0, 4.0, 2.0])  # the order turns round with every round
    cases = [Case("base", lambda: (10, next(seconds))), Case("half", lambda: (10, next(seconds)))]
    base, half = compare(cases, rounds=2, baseline="base")
    assert (base.ratio, half.ratio) == (1.0, 0.5)
    assert (base.median, half.median) == (7.5, 3.75)
