"""Engine.definitions.migrate, of executions that have made tasks at run time: by a DYNAMIC or a FORK_JOIN_DYNAMIC."""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import Bench
from run_time_kit import dynamic, forked, node

from conductorlite import TaskStatus, WorkflowDef, WorkflowStatus
from conductorlite.errors import Conflict, TaskNotFound

Json = dict[str, Any]


def version(number: int, *tasks: Json) -> WorkflowDef:
    """One version of a definition."""
    return WorkflowDef.from_json({"name": "w", "version": number, "tasks": list(tasks)})


def test_a_live_dynamic_keeps_its_name(bench: Bench) -> None:
    """What it stands for is told by name in a definition of its own; under its name it goes on, and is tried again."""
    bench.start(version(1, dynamic("d", "one"), node("z")), {})
    with pytest.raises(Conflict, match="d: is SCHEDULED and was made at run time by a DYNAMIC"):
        bench.engine.definitions.migrate(bench.workflow_id, version(2, dynamic("e", "one"), node("z")), refs={"d": "e"})
    bench.engine.definitions.migrate(bench.workflow_id, version(2, dynamic("d", "two"), node("z")))
    bench.do("one", status=TaskStatus.FAILED_WITH_TERMINAL_ERROR)
    bench.engine.retry(bench.workflow_id)
    assert bench.do("one").ref == "d"
    bench.do("z")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    assert bench.engine.admin.check() == []


def test_an_ended_dynamic_is_renamed_and_run_again(bench: Bench) -> None:
    """Its row has the new name; run again it is what the new definition has there."""
    bench.start(version(1, dynamic("d", "one"), node("z")), {})
    bench.do("one")
    bench.engine.definitions.migrate(bench.workflow_id, version(2, dynamic("e", "two"), node("z")), refs={"d": "e"})
    assert bench.engine.admin.check() == []
    bench.engine.rerun(bench.workflow_id, from_task="e")
    assert bench.do("two").ref == "e"
    bench.do("z")
    assert bench.engine.admin.check() == []


def test_an_ended_dynamic_is_gone(bench: Bench) -> None:
    """Its row stays as it is, and may not be run again."""
    bench.start(version(1, dynamic("d", "one"), node("z")), {})
    bench.do("one")
    bench.engine.definitions.migrate(bench.workflow_id, version(2, node("z")))
    assert bench.engine.admin.check() == []
    with pytest.raises((Conflict, TaskNotFound)):
        bench.engine.rerun(bench.workflow_id, from_task="d")
    bench.do("z")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    assert "one" in str(bench.engine.explain(bench.workflow_id, "d"))


@pytest.mark.parametrize("renamed", [False, True])
def test_an_ended_dynamic_fork_is_gone_or_renamed(bench: Bench, renamed: bool) -> None:
    """Its branches stay as they are, and may not be run again one by one."""
    bench.start(version(1, *forked("d", "j", [node("x"), node("y")]), node("z")), {})
    bench.do("x")
    bench.do("y")
    after = forked("e", "k", [node("x"), node("y")]) if renamed else []
    bench.engine.definitions.migrate(bench.workflow_id, version(2, *after, node("z")), refs={"d": "e", "j": "k"} if renamed else {})
    assert bench.engine.admin.check() == []
    with pytest.raises((Conflict, TaskNotFound)):
        bench.engine.rerun(bench.workflow_id, from_task="x")
    bench.do("z")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    assert bench.engine.admin.check() == []
    assert "x" in str(bench.engine.explain(bench.workflow_id, "x"))
