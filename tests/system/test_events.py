"""EVENT tasks: where their messages go, what is in them, and what happens when nobody takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from system_kit import carried_out, node

from conductorlite import Engine, SubWorkflowParams, TaskDef, TaskResult, TaskStatus, VirtualClock, WorkflowDef
from conductorlite.errors import SinkError
from conductorlite.ext.sinks import MemorySink
from conductorlite.ext.workers import system_workers


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "sqlite"])
def test_an_event_is_published_and_is_the_output(tmp_path: Path, stored: bool) -> None:
    """The message is the input, who published it and where to; its id is the attempt's; the output is the same."""
    sink = MemorySink()
    task = carried_out(
        node("EVENT", {"what": "${workflow.input.what}"}, sink="sqs:${workflow.input.queue}"),
        {"what": "done", "queue": "orders", "large": "x" * 5000},
        store=tmp_path / "s.db" if stored else None,
        sinks={"sqs": sink},
        correlation_id="c1",
    )
    assert task.status is TaskStatus.COMPLETED, task.reason
    assert task.output_data == {
        "what": "done",
        "sink": "sqs:orders",
        "asyncComplete": False,
        "workflowInstanceId": "w1",
        "workflowType": "flow",
        "workflowVersion": 3,
        "correlationId": "c1",
        "taskToDomain": {},
        "event_produced": "sqs:orders",
    }
    (message,) = sink.messages
    assert (message.destination, message.payload, message.message_id) == ("sqs:orders", task.output_data, task.task_id)


@pytest.mark.parametrize(
    ("sink", "destination"),
    [
        ("conductor", "conductor:flow:t"),
        ("conductor:x", "conductor:flow:x"),
        ("kafka:topic", "kafka:topic"),
        ("amqp_queue:a:b", "amqp_queue:a:b"),
        ("nats", "nats"),
    ],
)
def test_destinations(sink: str, destination: str) -> None:
    """`conductor` is made particular to workflow and task, `conductor:x` to the workflow; others are taken as written."""
    taken = MemorySink()
    task = carried_out(node("EVENT", {}, sink=sink), sinks=dict.fromkeys(("conductor", "kafka", "amqp_queue", "nats"), taken))
    assert [message.destination for message in taken.messages] == [destination]
    assert task.output_data["event_produced"] == destination


def test_domains_are_those_of_the_execution(tmp_path: Path) -> None:
    """`taskToDomain` is the execution's own, however large."""
    sink = MemorySink()
    domains = {"a": "x" * 5000}
    child = WorkflowDef(name="child", tasks=[node("EVENT", {}, ref="say", sink="conductor")])
    params = SubWorkflowParams(name="child", workflow_definition=child, task_to_domain=domains)
    carried_out(node("SUB_WORKFLOW", {}, sub_workflow_param=params), sinks={"conductor": sink}, store=tmp_path / "s.db")
    assert [(m.destination, m.payload["taskToDomain"]) for m in sink.messages] == [("conductor:child:say", domains)]


def test_the_sink_is_filled_in_once() -> None:
    """What an expression in the sink gives is a destination, even if it looks like an expression again."""
    taken = MemorySink()
    carried_out(node("EVENT", {}, sink="kafka:${workflow.input.x}"), {"x": "${workflow.name}"}, sinks={"kafka": taken})
    assert taken.messages[0].destination == "kafka:${workflow.name}"


@pytest.mark.parametrize(
    ("sink", "value", "sinks", "reason"),
    [
        ("sqs:q", None, {}, "no sink takes 'sqs' of 'sqs:q': there are none (system_workers(sinks=…))"),
        ("sqs:q", None, {"kafka": MemorySink(), "conductor": MemorySink()}, "there are conductor, kafka ("),
        ("conductors:q", None, {"conductor": MemorySink()}, "no sink takes 'conductors'"),
        ("${workflow.input.x}", None, {}, "$.sink: is null; EVENT needs a destination"),
        ("${workflow.input.x}", 5, {}, "$.sink: is not text"),
        ("${workflow.input.x}", " ", {}, "$.sink: is blank"),
    ],
)
def test_a_destination_nobody_takes_fails_for_good(sink: str, value: Any, sinks: Any, reason: str) -> None:
    """An unknown scheme names the sinks there are; a sink that is no text says what it is. Nothing is tried again."""
    task = carried_out(node("EVENT", {}, sink=sink, retry_count=3), {"x": value}, sinks=sinks)
    assert task.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
    assert reason in task.reason
    assert task.attempt == 0


class Broken:
    """A sink whose first `times` messages are refused."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error = error
        self.left = times
        self.ids: list[str] = []

    def publish(self, destination: str, payload: Any, *, message_id: str, key: Any = None, headers: Any = None) -> None:
        """Refuse, or take."""
        self.ids.append(message_id)
        if self.left:
            self.left -= 1
            raise self.error


@pytest.mark.parametrize("error", [SinkError("broker is away"), OSError("broker is away")])
def test_a_refused_message_is_retried(error: Exception) -> None:
    """What a sink raises fails the attempt with its text; an automatic retry publishes with the same message id."""
    sink = Broken(error, 1)
    task = carried_out(node("EVENT", {}, sink="kafka:t"), sinks={"kafka": sink})
    assert (task.status, task.attempt) == (TaskStatus.FAILED, 0)
    assert "broker is away" in task.reason
    again = Broken(error, 1)
    task = carried_out(node("EVENT", {}, sink="kafka:t", retry_count=1), sinks={"kafka": again})
    assert (task.status, task.attempt) == (TaskStatus.COMPLETED, 1)
    assert (len(again.ids), len(set(again.ids))) == (2, 1)


@pytest.mark.trap("tasks-48")
def test_a_retry_waits_for_its_delay() -> None:
    """The second attempt is published when the retry delay is over, not before."""
    sink = Broken(SinkError("away"), 1)
    policy = TaskDef(name="t", retry_count=1, retry_delay_ms=30_000)
    with Engine(workers=system_workers(sinks={"kafka": sink}), clock=VirtualClock(0)) as engine:
        engine.start(WorkflowDef(name="w", tasks=[node("EVENT", {}, sink="kafka:t", task_definition=policy)]))
        engine.advance("29s")
        assert len(sink.ids) == 1
        engine.advance("1s")
        assert len(sink.ids) == 2


@pytest.mark.trap("tasks-49")
def test_async_complete_publishes_once() -> None:
    """With asyncComplete the task stays open after its message, and later turns do not publish it again."""
    sink = MemorySink()
    tasks = [node("EVENT", {"asyncComplete": False}, sink="conductor", async_complete=True), node("SIMPLE", {}, ref="next")]
    with Engine(workers=system_workers(sinks={"conductor": sink}), clock=VirtualClock(0)) as engine:
        run = engine.start(WorkflowDef(name="w", tasks=tasks))
        engine.settle()
        engine.admin.decide(run.workflow_id)
        engine.advance("10s")
        task = run.workflow.task("t")
        assert (task.status, task.output_data["asyncComplete"]) == (TaskStatus.IN_PROGRESS, True)
        engine.update_task(TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED))
        assert run.workflow.task("next").status is TaskStatus.SCHEDULED
    assert len(sink.messages) == 1


def test_rounds_of_a_loop_have_destinations_of_their_own() -> None:
    """`conductor` names the task as it is printed, with its round."""
    sink = MemorySink()
    body = [node("EVENT", {}, ref="say", sink="conductor")]
    loop = node("DO_WHILE", {}, ref="l", loop_over=body, loop_condition="$.l['iteration'] < 2")
    carried_out(loop, sinks={"conductor": sink})
    assert [message.destination for message in sink.messages] == ["conductor:flow:say__1", "conductor:flow:say__2"]
