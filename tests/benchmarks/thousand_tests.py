"""A thousand tests of thirty days with twenty retries, as a user of the test kit writes them, in memory.

    time python -m pytest -q tests/benchmarks/thousand_tests.py

No other run collects them: they are there to be timed, as W9 is without pytest.
"""

from __future__ import annotations

import pytest

from conductorlite import Engine, TaskDef, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.testing import ScriptedWorkers

DAY_MS = 86_400_000

CHARGE = TaskDef(name="charge", retry_count=20, retry_delay_ms=3 * DAY_MS // 2)
MONTH = WorkflowDef(name="month", tasks=[WorkflowTask(name="charge", task_reference_name="charge", task_definition=CHARGE)])


@pytest.fixture
def engine_store() -> str:
    """Only in memory."""
    return "memory"


@pytest.mark.parametrize("number", range(1_000))
def test_thirty_days(engine: Engine, workers: ScriptedWorkers, clock: VirtualClock, number: int) -> None:
    """Each call but the twenty-first fails."""
    workers.charge.fails(20, reason="503").then.returns({"number": number})
    began = clock.now()
    assert engine.start(MONTH).result() == {"number": number}
    assert clock.now() - began == 30 * DAY_MS
    assert len(workers.charge.calls) == 21
