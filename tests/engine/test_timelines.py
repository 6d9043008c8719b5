"""The worked examples of the founding documents, with the second of every event.

Sources: Conductor's task life cycle page, and Orkes' Handling Failures page.
"""

from __future__ import annotations

import pytest
from engine_kit import Bench, flow, simple

from conductorlite import WorkflowStatus


@pytest.mark.trap("core-40")
def test_retry_after_a_failure(bench: Bench) -> None:
    """T1 is polled at 0 and fails at 10; its retry is offered 5 s later, at 15 and not before."""
    bench.start(flow(simple("t1", {"retry_count": 3, "retry_delay_s": 5})))
    first = bench.take("t1")
    bench.at(10)
    bench.report(first, "FAILED", reason="no luck")
    assert bench.task("t1", 1).due_at == bench.clock.now() + 5_000

    bench.at(14.999)
    assert bench.poll("t1") is None
    bench.at(15)
    second = bench.take("t1")
    bench.at(16)
    bench.report(second)

    assert bench.journal() == [
        "0 workflow RUNNING",
        "0 t1 SCHEDULED",
        "0 t1 IN_PROGRESS",
        "10 t1 FAILED",
        "10 t1#1 SCHEDULED",
        "15 t1#1 IN_PROGRESS",
        "16 t1#1 COMPLETED",
        "16 workflow COMPLETED",
    ]
    kept = bench.task("t1", 0)
    assert (kept.retried, kept.reason) == (True, "no luck")
    assert second.retried_task_id == kept.task_id != second.task_id


def test_poll_timeout(bench: Bench) -> None:
    """T1 is not polled for 60 s: it is TIMED_OUT at 60, and not before; the policy RETRY schedules it again."""
    definition = {"poll_timeout_s": 60, "retry_count": 1, "retry_delay_s": 5, "timeout_policy": "RETRY"}
    bench.start(flow(simple("t1", definition)))
    bench.at(59.999)
    assert bench.statuses() == {"t1": "SCHEDULED"}
    bench.at(60)
    assert bench.task("t1", 0).status == "TIMED_OUT"
    assert bench.poll("t1") is None

    # The retry's own 60 s begin when it is offered, at 65.
    bench.at(124.999)
    assert bench.status_of_workflow() is WorkflowStatus.RUNNING
    bench.at(125)
    assert bench.journal() == [
        "0 workflow RUNNING",
        "0 t1 SCHEDULED",
        "60 t1 TIMED_OUT",
        "60 t1#1 SCHEDULED",
        "125 t1#1 TIMED_OUT",
        "125 workflow TIMED_OUT",
    ]


def test_timeout_with_callbacks(bench: Bench) -> None:
    """T1 puts itself off by 9 s three times; it times out at 30 s all the same; COMPLETED at 32 is ignored."""
    definition = {"timeout_s": 30, "retry_count": 1, "retry_delay_s": 5, "timeout_policy": "RETRY",
                  "response_timeout_s": 20}  # fmt: skip
    bench.start(flow(simple("t1", definition)))
    for second in (0, 9, 18):
        if second:
            bench.at(second - 0.001)
            assert bench.poll("t1") is None
            bench.at(second)
        bench.report(bench.take("t1"), "IN_PROGRESS", callback_s=9)
    bench.at(26.999)
    assert bench.poll("t1") is None
    bench.at(27)
    held = bench.take("t1")
    assert (held.poll_count, held.started_at) == (4, bench.clock.now() - 27_000)
    bench.at(29.999)
    assert bench.statuses() == {"t1": "IN_PROGRESS"}
    bench.at(30)
    assert bench.task("t1", 0).status == "TIMED_OUT"
    bench.at(32)
    before = bench.journal()
    stored = bench.report(held, "COMPLETED", {"too": "late"})
    assert (stored.status, stored.attempt, stored.output_data) == ("TIMED_OUT", 0, {})
    assert bench.journal() == before

    bench.at(34.999)
    assert bench.poll("t1") is None
    bench.at(35)
    bench.do("t1")
    assert bench.journal() == [
        "0 workflow RUNNING",
        "0 t1 SCHEDULED",
        "0 t1 IN_PROGRESS",
        "0 t1 SCHEDULED",
        "9 t1 IN_PROGRESS",
        "9 t1 SCHEDULED",
        "18 t1 IN_PROGRESS",
        "18 t1 SCHEDULED",
        "27 t1 IN_PROGRESS",
        "30 t1 TIMED_OUT",
        "30 t1#1 SCHEDULED",
        "35 t1#1 IN_PROGRESS",
        "35 t1#1 COMPLETED",
        "35 workflow COMPLETED",
    ]


@pytest.mark.trap("core-16")
def test_response_timeout(bench: Bench) -> None:
    """The worker dies: T1 is TIMED_OUT 20 s after its poll, and its retry is offered at 25, not at 24.999."""
    bench.start(flow(simple("t1", {"response_timeout_s": 20, "retry_count": 3, "retry_delay_s": 5})))
    bench.take("t1")
    bench.at(19.999)
    assert bench.statuses() == {"t1": "IN_PROGRESS"}
    bench.at(20)
    assert bench.task("t1", 0).status == "TIMED_OUT"
    bench.at(24.999)
    assert bench.poll("t1") is None
    bench.at(25)
    bench.do("t1")
    assert bench.journal() == [
        "0 workflow RUNNING",
        "0 t1 SCHEDULED",
        "0 t1 IN_PROGRESS",
        "20 t1 TIMED_OUT",
        "20 t1#1 SCHEDULED",
        "25 t1#1 IN_PROGRESS",
        "25 t1#1 COMPLETED",
        "25 workflow COMPLETED",
    ]


@pytest.mark.trap("core-8")
def test_the_timeline_is_on_the_agenda(bench: Bench) -> None:
    """Everything of the examples that happens by itself stands on the agenda with its instant."""
    definition = {"response_timeout_s": 20, "timeout_s": 30, "poll_timeout_s": 60, "retry_delay_s": 5}
    bench.start(flow(simple("t1", definition)))
    start = bench.clock.now()
    assert [(entry.kind, entry.at - start) for entry in bench.engine.admin.agenda()] == [("POLL_TIMEOUT", 60_000)]
    bench.take("t1")
    assert [(entry.kind, entry.at - start) for entry in bench.engine.admin.agenda()] == [
        ("RESPONSE_TIMEOUT", 20_000),
        ("TASK_TIMEOUT", 30_000),
    ]
    bench.at(20)
    assert [(entry.kind, entry.at - start) for entry in bench.engine.admin.agenda()] == [
        ("OFFERED", 25_000),
        ("POLL_TIMEOUT", 85_000),
    ]
