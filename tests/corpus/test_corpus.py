"""The corpus: definitions as Conductor's users write them are read, validated, written again without loss, and run to an end."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conductorlite import Engine, TaskResult, TaskStatus, VirtualClock, WorkflowDef
from conductorlite.model.codec import definition_text
from conductorlite.plan.tree import OPERATOR_TYPES
from conductorlite.plan.validate import validate
from conductorlite.testing import ScriptedWorkers

HERE = Path(__file__).parent
QUOTED, WRITTEN = (json.loads((HERE / f"{name}.json").read_text(encoding="utf-8")) for name in ("quoted", "written"))
RUN = [*QUOTED, *WRITTEN]

#: Values the codec leaves out, because they are the defaults of their fields, by their property; others that say nothing.
DEFAULTS = {"restartable": True, "retryLogic": "FIXED", "workflowTaskType": "SIMPLE"}
EMPTY: tuple[object, ...] = (None, {}, [], False, 0)


def named(entry: dict[str, Any]) -> str:
    """The id of a test."""
    return str(entry["definition"]["name"])


def nodes(document: Any) -> Iterator[dict[str, Any]]:
    """Every task of a definition, those of inline definitions too."""
    if isinstance(document, dict):
        if "taskReferenceName" in document:
            yield document
        for value in document.values():
            yield from nodes(value)
    elif isinstance(document, list):
        for value in document:
            yield from nodes(value)


def problems(definition: WorkflowDef) -> list[str]:
    """Errors of a definition; a test of one that needs a missing extra is skipped."""
    errors = [str(problem) for problem in validate(definition) if problem.severity == "error"]
    for extra, module in (("python", "pydantic_monty"), ("jq", "jq")):
        if importlib.util.find_spec(module) is None and any(f"conductorlite[{extra}]" in error for error in errors):
            pytest.skip(f"needs the extra {extra}")
    return errors


def missing(before: Any, after: Any, path: str = "$") -> list[str]:
    """Places of a document whose value is not there any more, or is another one."""
    if isinstance(before, dict) and isinstance(after, dict):
        gone = [(key, value) for key, value in before.items() if key not in after and value not in EMPTY]
        found = [f"{path}.{key} is gone" for key, value in gone if DEFAULTS.get(key) != value]
        return found + [one for key in before if key in after for one in missing(before[key], after[key], f"{path}.{key}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [one for n, pair in enumerate(zip(before, after, strict=True)) for one in missing(*pair, f"{path}[{n}]")]
    return [] if before == after or str(before).lower() == str(after).lower() else [f"{path}: {before!r} became {after!r}"]


@pytest.mark.parametrize("entry", RUN, ids=named)
def test_it_is_read_validated_and_written_without_loss(entry: dict[str, Any]) -> None:
    """A definition of the corpus has no errors, is the same when read again, and keeps every value it was given."""
    document = entry["definition"]
    definition = WorkflowDef.from_json(json.dumps(document))
    assert problems(definition) == []
    again = definition.to_json()
    assert WorkflowDef.from_json(again) == definition
    assert definition_text(WorkflowDef.from_json(definition_text(definition))) == definition_text(definition)
    # Values that equal the default of their field are left out; everything else is there.
    assert missing(document, again) == []


def settle_waits(engine: Engine) -> bool:
    """Report on whatever waits for somebody, in every execution; whether there was any."""
    found = False
    for workflow_id in list(engine.admin.workflow_ids()):
        for task in engine.get(workflow_id).tasks:
            if (
                task.status is TaskStatus.IN_PROGRESS
                and not task.lease
                and ((task.task_type == "WAIT" and task.wait_until is None) or task.task_type in ("HUMAN", "HTTP", "EVENT"))
            ):
                engine.update_task(TaskResult(workflow_id=workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED))
                found = True
    return found


def scripted(entry: dict[str, Any]) -> ScriptedWorkers:
    """A worker for every type of the entry, that does what the entry says."""
    workers = ScriptedWorkers()
    documents = [entry["definition"], *entry.get("registers", []), entry.get("input", {})]
    for task in (*nodes(documents), *({"name": name} for name in entry.get("calls", ()))):
        kind = task.get("type", "SIMPLE")
        queue = task["name"] if kind == "SIMPLE" else kind
        if kind in OPERATOR_TYPES or queue in entry.get("idle", ()):
            continue
        script = workers[queue]
        if script.steps:
            continue
        if queue in entry.get("fails", ()):
            script.fails_terminally("as told")
            continue
        if queue in entry.get("fails_once", ()):
            script.fails(1)
        if queue in entry.get("dies_once", ()):
            script.crashes(1)
        script.returns(entry.get("outputs", {}).get(queue, {}))
    return workers


@pytest.mark.parametrize("entry", RUN, ids=named)
def test_it_runs_to_its_end(entry: dict[str, Any]) -> None:
    """A definition of the corpus ends as it says, with every law kept, and so do the executions it starts."""
    definition = WorkflowDef.from_json(entry["definition"])
    problems(definition)
    with Engine(clock=VirtualClock(), workers=scripted(entry)) as engine:
        for one in entry.get("registers", ()):
            engine.register(WorkflowDef.from_json(one))
        run = engine.start(definition, entry.get("input", {}))
        for _ in range(50):
            engine.run_until_idle()
            if not settle_waits(engine):
                break
        assert str(run.status) == entry.get("ends", "COMPLETED"), run.workflow.reason
        assert all(engine.status(workflow_id).terminal for workflow_id in engine.admin.workflow_ids())
        assert engine.admin.check() == []


def test_the_corpus_is_as_large_as_it_says() -> None:
    """There are eighty definitions and more beside the quoted ones, no two alike."""
    assert len(WRITTEN) >= 80
    texts = {json.dumps({**entry["definition"], "name": "", "how": {**entry, "definition": 0, "says": ""}}) for entry in WRITTEN}
    assert len(texts) == len(WRITTEN)


def test_the_files_are_those_of_the_script() -> None:
    """What lies here is what make.py writes."""
    sys.path.insert(0, str(HERE))
    try:
        from quoted import quoted
        from written import written
    finally:
        sys.path.remove(str(HERE))
    assert (quoted(), written()) == (QUOTED, WRITTEN)
