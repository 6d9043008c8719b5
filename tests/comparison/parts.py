"""What the programs have in common: `part` runs one part of the scenario and says how long it took. Nobody's lines."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Callable
from typing import Any


def part(test: Callable[[], Any]) -> None:
    """Run one part at once, and print its name and its seconds as a line of JSON; what it asserts must hold."""
    began = time.perf_counter()
    if inspect.iscoroutinefunction(test):
        asyncio.run(test())
    else:
        test()
    print(json.dumps({"part": test.__name__, "seconds": round(time.perf_counter() - began, 3)}), flush=True)
