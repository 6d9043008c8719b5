"""What the codec reads, the validator can judge."""

from __future__ import annotations

from pathlib import Path

import pytest
from definition_strategies import task_defs, workflow_defs
from hypothesis import given

from conductorlite.model.definitions import TaskDef, WorkflowDef
from conductorlite.model.errors import Problem, Severity
from conductorlite.plan.validate import validate, validate_task_def

FILES = sorted(path for path in (Path(__file__).parent / "definitions").glob("*.json") if path.stem != "task_definitions")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_realistic_files_have_no_errors(file: Path) -> None:
    """Hand-written definitions are usable; only the one from another house has warnings."""
    problems = validate(WorkflowDef.from_json(file))
    assert [problem for problem in problems if problem.severity is Severity.ERROR] == []
    assert bool(problems) == (file.stem == "from_another_house"), problems


@given(workflow_defs())
def test_any_definition_can_be_judged(defn: WorkflowDef) -> None:
    """No definition makes the validator raise, and the same one gives the same problems."""
    problems = validate(defn)
    assert all(isinstance(problem, Problem) and problem.path.startswith("$") for problem in problems)
    assert validate(WorkflowDef.from_json(defn.to_json())) == problems


@given(task_defs())
def test_any_task_definition_can_be_judged(task_def: TaskDef) -> None:
    """The same for task definitions."""
    assert all(problem.path.startswith("$") for problem in validate_task_def(task_def))
