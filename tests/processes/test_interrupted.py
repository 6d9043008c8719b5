"""An engine that was interrupted at any instant goes on; `interrupts.py` does more of it, longer."""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import interrupts

pytestmark = pytest.mark.own_thread


# An exception that is raised in a thread of ours, or leaves a coroutine that was never begun, is what is tried.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("store", ["memory", pytest.param("sqlite", marks=pytest.mark.slow)])
def test_interrupts(store: str, tmp_path: Path) -> None:
    """After an exception before any instruction, others can write, the engine comes to the end, and no law is broken."""
    fuzz = interrupts.Fuzz(store, 7, tmp_path)
    fuzz.run(12)
    assert fuzz.wrong == []
    real = fuzz.figures["threads"] + fuzz.figures["coroutines"]
    assert fuzz.figures["raised"] >= 12 - real, "in real time a run may be shorter than the one that was counted"
    gc.collect()  # here, not in the middle of another test


def test_cancellations() -> None:
    """An awaited verb that is canceled at any instant leaves nothing in nobody's hands."""
    cancellations = interrupts.Cancellations(7)
    asyncio.run(cancellations.run(60))
    assert cancellations.wrong == []
    assert cancellations.figures["canceled where it awaits"] >= 20
