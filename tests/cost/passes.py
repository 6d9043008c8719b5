"""How often `decide` is called for a turn, over whatever tests are run: a pytest plugin.

    PYTHONPATH=tests/cost python -m pytest -p passes tests/engine

Not counted are attempts that another engine was first to, and those that found a document in the payload storage.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from conductorlite.engine.decisions import TurnDecider
from conductorlite.engine.payloads import PayloadsRequired
from conductorlite.engine.turns import Turns
from conductorlite.errors import FencedOut
from conductorlite.model.errors import NoHelper

_WHY = {FencedOut: "fenced out", PayloadsRequired: "fetched a document", NoHelper: "rehearsed"}
_counted: Counter[str] = Counter()


class _UnderWay(threading.local):
    """How often each turn that is under way in a thread was decided so far, the innermost last."""

    def __init__(self) -> None:
        self.passes: list[int] = []


_here = _UnderWay()


def pytest_configure(config: pytest.Config) -> None:
    """Count from now on."""
    committed, decided = Turns._decide_and_commit, TurnDecider.decide

    def counting(self: Turns, *given: Any, **options: Any) -> Any:
        _here.passes.append(0)  # a script, or another thread, may take turns meanwhile
        try:
            found = committed(self, *given, **options)
        except tuple(_WHY) as error:
            _counted[next(why for kind, why in _WHY.items() if isinstance(error, kind))] += _here.passes.pop()
            raise
        except BaseException:
            _here.passes.pop()
            raise
        passes = _here.passes.pop()
        _counted["turns"] += passes > 0
        _counted["passes"] += passes
        return found

    def deciding(self: TurnDecider, turn: Any) -> Any:
        if _here.passes:
            _here.passes[-1] += 1
        return decided(self, turn)

    Turns._decide_and_commit, TurnDecider.decide = counting, deciding  # type: ignore[method-assign]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tell it."""
    turns = _counted["turns"] or 1
    told = ", ".join(f"{_counted[why]} {why}" for why in _WHY.values())
    passes = _counted["passes"] + _counted["rehearsed"]
    terminalreporter.write_line(f"decide: {_counted['turns']} turns, {passes / turns:.4f} passes a turn; beside them {told}")
