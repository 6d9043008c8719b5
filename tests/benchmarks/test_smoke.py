"""The benchmarks still run: each with sizes too small to say anything."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import attrs
import load
import pytest
import scripting
import searching
import talking
import turn_isolation
from harness import Case, compare

sys.path.insert(0, str(Path(__file__).parents[2]))


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of two executions is measured in a process of its own, judged, printed and written."""
    table = importlib.import_module("tests.benchmarks.__main__")
    held, missed = table.Goal("units", table.figure("units"), 20), table.Goal("commits", table.figure("commits"), 1)
    row = table.Row(name="W", title="two chains", work="chains", store="normal", count=2, quick=2, goals=(held, missed))
    monkeypatch.setattr(table, "ROWS", (row,))
    assert table.main(["--quick", "--json", str(tmp_path / "found.json")]) == 1
    printed = capsys.readouterr().out
    assert [line.split()[-1] for line in printed.splitlines()[1:]] == ["held", "MISSED"]
    document = json.loads((tmp_path / "found.json").read_text())
    (record,) = document["records"]["W"]["conductorlite"]
    assert record["units"] == 20
    assert record["yardstick"] > 0 < record["cpu"]
    page = tmp_path / "page.md"
    page.write_text(f"before\n{table.MARKS[0]}old\n{table.MARKS[1]}after\n")
    assert table.main(["--from", str(tmp_path / "found.json"), "--page", str(page)]) == 1
    assert page.read_text().splitlines()[0] == "before"
    assert page.read_text().splitlines()[-1] == "after"
    assert "| W | 20 units | ≤ 20 | held | – |" in page.read_text()
    assert "old" not in page.read_text()
    assert all(mark in table.PAGE.read_text() for mark in table.MARKS)


@pytest.mark.deep
def test_every_row(tmp_path: Path) -> None:
    """Each work of the table, of a few, beside a peer that is not there."""
    table = importlib.import_module("tests.benchmarks.__main__")
    for row in table.ROWS:
        few = attrs.evolve(row, count=8)
        record = table.run(few, table.ENGINE, 8, None, 60)
        assert record is not None, row.name
        for goal in row.goals:
            assert row.processes > 1 or table.median(goal, [record]) is not None, (row.name, goal.unit)
        assert all(table.run(few, peer, 8, tmp_path, 60) is None for peer in row.peers[:1])


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


@pytest.mark.slow
def test_talking(capsys: pytest.CaptureFixture[str]) -> None:
    """Thirty messages and two hundred values, read by another process."""
    talking.main(["--count", "200", "--rounds", "1"])
    printed = capsys.readouterr().out
    assert printed.count(" goal ") == 5
    assert "200 values read" in printed


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
