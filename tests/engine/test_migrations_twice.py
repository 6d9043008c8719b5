"""Engine.migrate beside other verbs: what was skipped ahead, letters to what was renamed twice, names that changed hands."""

from __future__ import annotations

import pytest
from engine_kit import Bench, flow, fork, join, simple

from conductorlite import Conflict, TaskStatus, WorkflowDef, WorkflowStatus, WorkflowTask


def version(number: int, *tasks: WorkflowTask) -> WorkflowDef:
    """One version of `flow`."""
    return flow(*tasks, version=number)


# ---------------------------------------------------------------------- skipped ahead


def test_a_join_still_waits_for_what_was_skipped_ahead(bench: Bench) -> None:
    """A joined task that was skipped ahead lies ahead, also for the JOIN that counts anew: it ended without the branch."""
    branches = (fork("f", [simple("a")], [simple("b"), simple("c")]), join("j", "a", "c"))
    bench.start(version(1, *branches))
    bench.engine.skip_task(bench.workflow_id, "c")
    bench.engine.migrate(bench.workflow_id, version(2, *branches, simple("z")))
    assert bench.engine.check() == []
    bench.do("a")
    assert bench.task("j").status is TaskStatus.IN_PROGRESS
    bench.do("b")
    bench.do("z")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_what_was_skipped_ahead_must_be_able_to_come(bench: Bench) -> None:
    """A JOIN would wait for ever for one that the new definition has where nothing leads to; where it has not begun, it may go."""
    joined = join("j", "a", "c")
    bench.start(version(1, fork("f", [simple("a")], [simple("b"), simple("c")]), joined))
    bench.engine.skip_task(bench.workflow_id, "c")
    behind = version(2, fork("f", [simple("a")], [simple("c"), simple("b")]), joined)
    with pytest.raises(Conflict, match="j: would wait for 'c', which never runs where the new definition has it"):
        bench.engine.migrate(bench.workflow_id, behind)
    gone = version(2, fork("f", [simple("a")], [simple("b")]), join("j", "a", "b"))
    assert bench.engine.migrate(bench.workflow_id, gone).waiting == {}
    bench.do("a")
    bench.do("b")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    assert bench.engine.check() == []
