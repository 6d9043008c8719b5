"""Budgets of Python calls and of imported modules: the measured figure, and the slack that a change has.

A budget stands as it was measured. A change may use up the slack, so a shared function is never copied to save a few calls.
The figures are measured again at a release, when they have risen and when they have fallen:

    python -m pytest -rP tests/cost/test_calls.py tests/house/test_start.py

Counts of statements, commits, pages and rows read have no slack: they are the design, and are compared where they are counted.
"""

from __future__ import annotations

from typing import Final

#: By how much a figure may exceed its budget.
SLACK: Final = 0.05


def assert_within(budget: float, figure: float, what: str) -> None:
    """Fail if a figure exceeds its budget by more than the slack; print both, for those who measure again."""
    compared = f"{what}: {figure:g}, measured at the last release: {budget:g}"
    print(compared)
    assert figure <= budget * (1 + SLACK), f"{compared}; at most {SLACK:.0%} more is allowed"
