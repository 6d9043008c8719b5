"""The strategies are registered with Hypothesis, and their page says what they are."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from conductorlite import TaskDef, WorkflowDef, validate
from conductorlite.testing import strategies

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "strategies.md"


@given(definition=st.from_type(WorkflowDef), task=st.from_type(TaskDef))
def test_types_are_resolved(definition: WorkflowDef, task: TaskDef) -> None:
    """A WorkflowDef that is drawn by its type is valid, and so is a TaskDef."""
    assert validate(definition) == []
    assert task.name in strategies.WORKER_TYPES


def test_hypothesis_finds_it_by_itself() -> None:
    """By the entry point, in a program that imports nothing of the test kit; before it is drawn from, no strategy is imported."""
    assert [one.value for one in entry_points(group="hypothesis", name="conductorlite")] == [
        "conductorlite.testing.registration:register"
    ]
    program = (
        "import sys; from hypothesis import find, strategies as st; from conductorlite import WorkflowDef\n"
        "print('conductorlite.testing.strategies' in sys.modules)\n"
        "print(find(st.from_type(WorkflowDef), lambda one: True).name)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["False", "generated"]


def test_every_strategy_is_on_the_page() -> None:
    """With each of its parameters."""
    text = PAGE.read_text(encoding="utf-8")
    for name in strategies.__all__:
        value = getattr(strategies, name)
        if callable(value):
            section = text.partition(f"## {name}\n")[2].partition("\n## ")[0]
            assert section, name
            assert [one for one in inspect.signature(value).parameters if f"`{one}`" not in section] == []
        else:
            assert f"`{name}`" in text
