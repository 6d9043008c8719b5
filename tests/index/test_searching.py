"""The verbs that search: what their results hold, on every store, with an index and without."""

from __future__ import annotations

import asyncio

import pytest
from orders import ORDER, engine, place

from conductorlite import AsyncEngine, VirtualClock
from conductorlite.errors import InvalidInput, InvalidQuery
from conductorlite.store.ports import Backend
from conductorlite.store.search import TaskSummary, WorkflowSummary
from conductorlite.testing import MemoryIndex


def test_summaries(store: Backend, index: MemoryIndex | None) -> None:
    """Every field of an execution and of an attempt; payloads that are too long are left out."""
    with engine(store, index) as one:
        one.start(ORDER, {"amount": 100, "city": "Oslo"}, workflow_id="o", correlation_id="c", priority=3, created_by="me",
                  idempotency_key="k")  # fmt: skip
        one.start(ORDER, {"amount": 7, "city": "y" * 5_000}, workflow_id="long")
        one.advance("5s")
        (row,) = one.search("correlationId = c").results
        reason = one.get("o").conductor_reason
        assert row == WorkflowSummary(
            workflow_id="o", workflow_type="order", version=1, status="FAILED", correlation_id="c", start_time=1_000,
            update_time=1_000, end_time=1_000, execution_time=0, reason_for_incompletion=reason, priority=3, created_by="me",
            idempotency_key="k", failed_reference_task_names=("charge",), failed_task_names=("charge",),
            input='{"amount":100,"city":"Oslo"}', output="{}",
        )  # fmt: skip
        (task,) = one.tasks.search("workflowId = o").results
        assert task == TaskSummary(
            task_id=one.get("o").task("charge").task_id, reference_task_name="charge", task_def_name="charge", task_type="charge",
            status="FAILED_WITH_TERMINAL_ERROR", workflow_id="o", workflow_type="order", workflow_priority=3, correlation_id="c",
            scheduled_time=1_000, start_time=1_000, update_time=1_000, end_time=1_000, execution_time=0, queue_wait_time=0,
            reason_for_incompletion="the card was refused", worker_id="conductorlite", input='{"amount":100}', output="{}",
        )  # fmt: skip
        (long,) = one.search("workflowId = long").results
        assert long.input is None
        assert one.search("input.city STARTS_WITH yyy", size=0).total_hits == 1


def test_pages(store: Backend, index: MemoryIndex | None) -> None:
    """Start and size cut the same order; beyond the end there is nothing; a page out of range is refused."""
    with engine(store, index) as one:
        place(one, 0, 7)
        one.run_until_idle()
        whole = [row.workflow_id for row in one.search(sort="workflowId").results]
        pages = [one.search(start=start, size=3, sort="workflowId") for start in (0, 3, 6, 9)]
        assert [row.workflow_id for page in pages for row in page.results] == whole
        assert {page.total_hits for page in pages} == {7}
        with pytest.raises(InvalidInput):
            one.search(size=5_001)
        with pytest.raises(InvalidQuery):
            one.search("nothing = 1")
        with pytest.raises(InvalidInput):
            one.admin.relay(0)


def test_awaited() -> None:
    """The same verbs, awaited."""

    async def main() -> None:
        async with AsyncEngine(clock=VirtualClock(1_000), index=MemoryIndex()) as one:
            await one.start(ORDER, {"amount": 1, "city": "Rome"}, workflow_id="o")
            assert (await one.search("status = RUNNING")).total_hits == 1
            assert (await one.tasks.search()).total_hits == 1
            assert (await one.tasks.search_workflows("taskType = charge")).total_hits == 1
            await one.terminate("o")
            await one.admin.archive("o")
            assert [name async for name in one.admin.archived_ids()] == ["o"]
            await one.admin.relay()
            assert (await one.admin.index_health()) is not None
            await one.admin.rebuild_index()
            assert (await one.admin.prune("0s")).removed == ()
            assert (await one.admin.size_report()).kinds["archive"].rows == 1
            await one.admin.compact()
            await one.admin.forget_index()

    asyncio.run(main())
