"""What becomes of executions that have ended: archived, pruned, measured. Nothing goes unless it is asked for."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from orders import ORDER, agrees, engine, place

from conductorlite import (
    Engine,
    IdempotencyStrategy,
    SubWorkflowParams,
    VirtualClock,
    WorkflowDef,
    WorkflowStatus,
    WorkflowTask,
)
from conductorlite.errors import Conflict, ExecutionArchived, ExecutionNotFound, InvalidInput, StorageCorrupt
from conductorlite.model.documents import unpacked
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.tables import Archived


def test_an_archived_execution_is_the_one_that_was_stored(store: Backend) -> None:
    """`get` and `history` give what they gave; the rows, the key and the lines of the store are gone."""
    with engine(store) as one:
        one.start(ORDER, {"amount": 100, "city": "Oslo"}, workflow_id="refused", idempotency_key="k", correlation_id="c")
        one.start(ORDER, {"amount": 7, "city": "x" * 5_000, "big": 10**400}, workflow_id="o7", task_to_domain=None)
        one.run_until_idle()
        before = {name: (one.get(name), list(one.history(name)), str(one.explain(name))) for name in ("refused", "o7")}
        one.admin.archive("refused")
        one.admin.archive("o7")
        after = {name: (one.get(name), list(one.history(name)), str(one.explain(name))) for name in ("refused", "o7")}
        assert after == {name: (row, lines, f"{text} It is archived.") for name, (row, lines, text) in before.items()}
        assert [list(one.admin.workflow_ids()), list(one.admin.archived_ids()), one.executions()] == [[], ["o7", "refused"], []]
        kinds = one.admin.size_report().kinds
        assert {kind for kind, size in kinds.items() if size.rows} == {"archive", "definitions"}
        again = one.start(ORDER, {"amount": 1, "city": "Rome"}, idempotency_key="k", idempotency_strategy=IdempotencyStrategy.FAIL)
        assert again.workflow_id != "refused"
        for verb in (one.retry, one.restart, one.pause, one.admin.archive):
            with pytest.raises(ExecutionArchived):
                verb("refused")
        one.admin.remove("refused")
        with pytest.raises(ExecutionNotFound):
            one.get("refused")
        with pytest.raises(ExecutionNotFound):
            one.admin.remove("refused")


def test_what_has_not_ended_is_not_archived(store: Backend) -> None:
    """RUNNING and PAUSED are a Conflict, an unknown id is not found; nothing changes."""
    with engine(store) as one:
        place(one, 1, 2)
        one.pause("o1")
        with pytest.raises(Conflict, match="PAUSED workflow cannot be archived"):
            one.admin.archive("o1")
        with pytest.raises(ExecutionNotFound):
            one.admin.archive("nobody")
        assert one.status("o1") is WorkflowStatus.PAUSED


def test_prune_by_age_status_and_name(store: Backend) -> None:
    """What ended longer ago than a time goes, the newest first; failures, other names and the young stay if so asked."""
    clock = VirtualClock(1_000)
    with engine(store, clock=clock) as one:
        for n in range(6):
            place(one, n, n + 1)
            one.run_until_idle()
            clock.move_to(1_000 + (n + 1) * 86_400_000)
        with pytest.raises(InvalidInput):
            one.admin.prune("1d", limit=0)
        with pytest.raises(InvalidInput):
            one.admin.prune(timedelta(seconds=-5))
        assert one.admin.prune("1h", name="another") == one.admin.prune("30d") == one.admin.prune("1000d")
        assert one.admin.prune("4d", keep_failed=True).removed == ("o1",)
        assert sorted(one.admin.prune("3d").removed) == ["o0", "o2", "o3"]
        agrees(one)
        assert one.admin.prune("0s", archive=True, limit=1).archived == ("o5",)
        assert list(one.admin.archived_ids()) == ["o5"]
        agrees(one)
        assert one.admin.prune("0s", name="order").removed == ("o4",)
        agrees(one)
        assert one.search().total_hits == 1


def test_prune_keeps_children_of_what_goes_on(store: Backend) -> None:
    """A child that has ended stays as long as its parent has not: a retry of the parent would look for it."""
    child = WorkflowTask(
        name="child",
        task_reference_name="child",
        type="SUB_WORKFLOW",
        sub_workflow_param=SubWorkflowParams(name="order", workflow_definition=ORDER),
        input_parameters={"amount": 1, "city": "Oslo"},
    )
    last = WorkflowTask(name="nobody", task_reference_name="nobody")
    with engine(store) as one:
        one.start(WorkflowDef(name="parent", tasks=[child, last]), workflow_id="parent")
        one.settle()
        (row,) = one.admin.children("parent")
        assert row.status is WorkflowStatus.COMPLETED
        report = one.admin.prune("0s")
        assert (report.removed, report.kept) == ((), (row.workflow_id,))
        one.terminate("parent")
        assert set(one.admin.prune("0s").removed) == {"parent", row.workflow_id}


def test_prune_of_many(tmp_path: Path) -> None:
    """Several pages, and one execution of which a payload is lost: it is told, and the others go."""
    path = tmp_path / "store.db"
    with engine(SQLiteBackend(path, synchronous="NORMAL")) as one:
        place(one, 0, 250)
        one.run_until_idle()
        with one.backend.writing() as tx:
            tx.session.execute("DELETE FROM texts WHERE execution = (SELECT execution FROM workflows WHERE workflow_id = 'o17')")  # type: ignore[attr-defined]
    with engine(SQLiteBackend(path, synchronous="NORMAL")) as one:
        report = one.admin.prune("0s", archive=True)
        assert len(report.archived) == 249
        assert [type(error) for error in report.failed.values()] == [StorageCorrupt]
        assert list(report.failed) == list(one.admin.workflow_ids()) == ["o17"]
        sizes = one.admin.size_report()
        assert sizes.kinds["archive"].rows == 249
        assert sizes.executions["order", "COMPLETED"].rows == 1
        before = sizes.file_bytes
        assert sizes.free_bytes > 0
        one.admin.compact()
        sizes = one.admin.size_report()
        assert sizes.free_bytes == 0
        assert sizes.file_bytes < before
        assert one.get("o16").status is WorkflowStatus.FAILED


def test_sizes_are_the_same_on_every_store(store: Backend) -> None:
    """Rows and bytes by kind, and by name and status of what they belong to."""
    with engine(store) as one:
        place(one, 0, 3)
        one.run_until_idle()
        sizes = one.admin.size_report()
        assert {kind: size.rows for kind, size in sizes.kinds.items()} == {
            "executions": 3, "tasks": 4, "history": 18, "texts": 3, "logs": 0, "events": 0, "messages": 0, "definitions": 1,
            "archive": 0, "changes": 0, "mailbox": 0, "streams": 0,
        }  # fmt: skip
        assert {key: size.rows for key, size in sizes.executions.items()} == {("order", "COMPLETED"): 1, ("order", "FAILED"): 2}
        assert sum(size.bytes for size in sizes.executions.values()) == sum(
            sizes.kinds[kind].bytes for kind in ("executions", "tasks", "history", "texts", "logs", "events", "mailbox", "streams")
        )
        assert sizes.kinds["texts"].bytes > 6_000
        one.admin.compact()


def test_an_archived_document_that_cannot_be_read(store: Backend) -> None:
    """A damaged one is StorageCorrupt for who asks for it; searches and pruning go on without it."""
    with engine(store) as one:
        place(one, 1, 2)
        one.run_until_idle()
        one.admin.archive("o1")
        with one.backend.writing() as tx:
            found = tx.archive.archived("o1")
            assert found is not None
            tx.archive.put_archived(
                Archived(
                    workflow_id="o1",
                    name=found.name,
                    status=found.status,
                    ended_at=found.ended_at,
                    archived_at=found.archived_at,
                    size=found.size,
                    document=found.document[:-9],
                )
            )
        with pytest.raises(StorageCorrupt, match="cannot be read"):
            one.get("o1")
        with pytest.raises(StorageCorrupt):
            unpacked(b"")
        assert one.search().total_hits == 0
        agrees(one)
        one.admin.remove("o1")


def test_nothing_is_deleted_by_itself() -> None:
    """The default retention is for ever, however much time passes."""
    with Engine(clock=VirtualClock(1_000)) as one:
        one.start(WorkflowDef.from_json({"name": "w", "tasks": [{"name": "n", "taskReferenceName": "n", "type": "NOOP"}]}))
        one.advance("36500d")
        assert len(list(one.admin.workflow_ids())) == 1
