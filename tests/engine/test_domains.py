"""Task domains: which workers a task is offered to, and what is known of those who poll."""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import T0, Bench, NewBench, flow, rounds, simple

from conductorlite import Engine, SubWorkflowParams, VirtualClock, Workers, WorkflowDef, WorkflowStatus, WorkflowTask
from conductorlite.errors import InvalidInput, StorageBusy
from conductorlite.model.executions import PollData
from conductorlite.store.ports import Backend
from conductorlite.testing import FaultyBackend

ONE = flow(simple("a"))


def queue_of(bench: Bench, domains: dict[str, str], definition: WorkflowDef = ONE) -> list[str]:
    """Queues in which a new execution's tasks are offered."""
    bench.start(definition, task_to_domain=domains)
    bench.engine.settle()
    sizes = bench.engine.tasks.queue_sizes()
    bench.engine.terminate(bench.workflow_id)
    return sorted(sizes)


@pytest.mark.parametrize(
    ("domains", "queue"),
    [
        ({}, "a"),
        ({"a": "eu"}, "eu:a"),
        ({"*": "eu"}, "eu:a"),
        ({"*": "eu", "a": "us"}, "us:a"),
        ({"b": "eu"}, "a"),
        ({"*": "eu", "a": "NO_DOMAIN"}, "a"),
        ({"a": "no_domain"}, "a"),
        ({"a": ""}, "a"),
        ({"a": " eu , us "}, "us:a"),
        ({"a": "eu,NO_DOMAIN"}, "a"),
        ({"a": "NO_DOMAIN,eu"}, "eu:a"),
        ({"a": "eu,,us"}, "us:a"),
    ],
)
def test_which_domain_when_nobody_has_polled(bench: Bench, domains: dict[str, str], queue: str) -> None:
    """The type's own entry wins over `*`; of a list nobody polled for the last counts; NO_DOMAIN is none."""
    assert queue_of(bench, domains) == [queue]
    assert bench.task("a").domain == (queue.rpartition(":")[0] or None)


def test_a_clock_at_its_beginning(store: Backend) -> None:
    """A domain nobody has ever polled for is not polled lately, also when the clock reads 0."""
    engine = Engine(store, clock=VirtualClock(0))
    engine.start(ONE, task_to_domain={"a": "eu,us"})
    engine.settle()
    assert engine.tasks.queue_sizes() == {"us:a": 1}
    engine.close()


@pytest.mark.trap("core-37")
@pytest.mark.parametrize(
    ("polled", "after_s", "queue"),
    [
        (["eu"], 9.999, "eu:a"),
        (["eu"], 10, "us:a"),
        (["ap"], 0, "ap:a"),
        (["ap", "eu"], 5, "eu:a"),
        (["us"], 5, "us:a"),
        (["NO_DOMAIN"], 0, "us:a"),
        ([None], 0, "us:a"),
    ],
)
def test_a_list_picks_who_polled_lately(bench: Bench, polled: list[str | None], after_s: float, queue: str) -> None:
    """The first domain of a list counts for which a worker polled less than 10 s ago, even if it found nothing."""
    for domain in polled:
        assert bench.engine.poll("a", domain=domain) == []
    bench.at(after_s)
    assert queue_of(bench, {"*": "eu, NO_DOMAIN, ap, us"}) == [queue]


@pytest.mark.trap("core-37")
def test_the_domain_is_chosen_at_each_scheduling(bench: Bench) -> None:
    """A retry and the next round of a loop go where workers are then; who polls gets them."""
    body = simple("a", {"retry_count": 1, "retry_delay_s": 20, "retry_logic": "FIXED"})
    bench.start(flow(rounds("loop", [body])), task_to_domain={"a": "eu,us"})
    bench.engine.settle()
    bench.engine.poll("a", domain="eu")
    (task,) = bench.engine.poll("a", domain="us")
    assert task.domain == "us"
    bench.report(task, "FAILED")
    assert bench.task("a__1").domain == "eu"
    bench.at(20)
    (task,) = bench.engine.poll("a", domain="eu")
    bench.at(31)
    bench.report(task)
    assert bench.task("a__2").domain == "us"


def test_the_retry_verb_chooses_again(bench: Bench) -> None:
    """A new attempt that a person asks for goes where workers are now, not where the failed one was."""
    bench.start(flow(simple("a", {"retry_count": 0})), task_to_domain={"a": "eu,us"})
    bench.engine.settle()
    (task,) = bench.engine.poll("a", domain="us")
    bench.report(task, "FAILED")
    bench.engine.poll("a", domain="eu")
    bench.engine.retry(bench.workflow_id)
    assert [bench.task("a", n).domain for n in (0, 1)] == ["us", "eu"]


def test_types_of_the_server_have_no_domain(bench: Bench) -> None:
    """HTTP and its like go to their own queue whatever `*` says; a user-defined type follows it."""
    kinds = ["HTTP", "EVENT", "KAFKA_PUBLISH", "USER_DEFINED", "MY_OWN"]
    kafka = {"topic": "t", "value": 1, "bootStrapServers": "b"}
    inputs = {"uri": "x", "method": "GET", "kafka_request": kafka}
    for kind in kinds:
        task = WorkflowTask(name="n", task_reference_name="t", type=kind, sink="conductor", input_parameters=inputs)
        bench.start(flow(task), task_to_domain={"*": "eu"})
    bench.engine.settle()
    assert sorted(bench.engine.tasks.queue_sizes()) == sorted([*kinds[:3], "eu:USER_DEFINED", "eu:MY_OWN"])


def test_a_family_inherits_its_domains(bench: Bench) -> None:
    """A child's tasks follow the parent's taskToDomain, or the one in its subWorkflowParam instead."""
    inner = flow(simple("a"), name="inner")

    def child(ref: str, **params: Any) -> WorkflowTask:
        params = {"name": "inner", "workflow_definition": inner, **params}
        return WorkflowTask(name=ref, task_reference_name=ref, type="SUB_WORKFLOW", sub_workflow_param=SubWorkflowParams(**params))

    bench.start(flow(child("s1"), name="outer"), task_to_domain={"a": "eu"})
    bench.start(flow(child("s2", task_to_domain={"*": "us"}), name="outer"), task_to_domain={"a": "eu"})
    bench.engine.settle()
    assert bench.engine.tasks.queue_sizes() == {"eu:a": 1, "us:a": 1}


def test_workers_of_a_domain_take_its_tasks(new_bench: NewBench) -> None:
    """A function registered for a domain runs what goes there; what goes elsewhere waits."""
    workers = Workers()

    @workers.task("a", domain="eu")
    def in_europe() -> dict[str, str]:
        return {"by": "eu"}

    bench = new_bench(workers=workers)
    bench.start(ONE)
    bench.engine.settle()
    assert bench.status_of_workflow() is WorkflowStatus.RUNNING
    bench.engine.terminate(bench.workflow_id)
    run = bench.start(ONE, task_to_domain={"*": "eu,NO_DOMAIN"})
    assert run.result() == {"by": "eu"}


@pytest.mark.parametrize("given", [["a"], {"a": 1}, {1: "a"}])
def test_bad_domains(bench: Bench, given: Any) -> None:
    """taskToDomain maps texts to texts; anything else is refused by name."""
    with pytest.raises(InvalidInput, match="task_to_domain"):
        bench.engine.start(ONE, task_to_domain=given)


# ---------------------------------------------------------------------- poll data


@pytest.mark.trap("core-37")
def test_polls_are_recorded(bench: Bench) -> None:
    """Type, domain, worker and instant of the last poll are known, also of one that found nothing."""
    bench.engine.poll("a", worker_id="w1")
    bench.at(1)
    bench.start(ONE, task_to_domain={"a": "eu"})
    bench.engine.settle()
    assert bench.engine.poll("a", domain="eu", worker_id="w2")
    bench.at(2)
    bench.engine.poll("b")
    known = [
        PollData(queue_name="a", worker_id="w1", last_poll_time=T0),
        PollData(queue_name="a", domain="eu", worker_id="w2", last_poll_time=T0 + 1_000),
        PollData(queue_name="b", last_poll_time=T0 + 2_000),
    ]
    assert list(bench.engine.tasks.poll_data()) == known
    assert list(bench.engine.tasks.poll_data("a")) == known[:2]
    assert list(bench.engine.tasks.poll_data("c")) == []


def polls_written(backend: FaultyBackend) -> int:
    """How often polls were written so far."""
    return backend.journal.count("record_polls")


def test_a_poll_is_written_once_a_second(store: Backend) -> None:
    """Further polls of a worker within a second write nothing; another worker's, or a clock set back, do."""
    backend = FaultyBackend(store)
    clock = VirtualClock(T0)
    engine = Engine(backend, clock=clock)
    counts = []
    for second, worker in ((0, "w"), (0.5, "w"), (0.999, "w"), (1, "w"), (1, "v"), (1.5, "w"), (2, "w")):
        clock.move_to(T0 + round(second * 1_000))
        engine.poll("a", worker_id=worker)
        counts.append(polls_written(backend))
    assert counts == [1, 1, 1, 2, 3, 3, 4]
    assert backend.journal == ["record_polls", "commit"] * 4
    engine.close()


def test_polls_that_waited_are_written_with_the_next(store: Backend) -> None:
    """When one type's second is over, what is known of the others goes into the same write."""
    clock = VirtualClock(T0)
    engine = Engine(store, clock=clock)
    engine.poll("a")
    clock.move_to(T0 + 500)
    engine.poll("b")
    clock.move_to(T0 + 900)
    engine.poll("a")
    clock.move_to(T0 + 1_500)
    engine.poll("b")
    assert [poll.last_poll_time - T0 for poll in engine.tasks.poll_data()] == [900, 1_500]
    engine.close()


def test_a_poll_that_takes_a_task_costs_no_write_of_its_own(store: Backend) -> None:
    """The record rides in the commit of the turn that hands the task out."""
    backend = FaultyBackend(store)
    engine = Engine(backend, clock=VirtualClock(T0))
    engine.start(ONE)
    engine.settle()
    before = len(backend.journal)
    assert engine.poll("a")
    assert backend.journal[before:] == ["apply POLL", "record_polls", "commit"]
    engine.close()


def test_a_busy_store_does_not_spoil_a_poll(store: Backend) -> None:
    """What cannot be recorded now is recorded by the next poll; the poll itself answers."""
    backend = FaultyBackend(store, fail_before=1, error=StorageBusy("somebody else"))
    engine = Engine(backend, clock=VirtualClock(T0))
    assert engine.poll("a") == []
    assert engine.tasks.poll_data() == []
    assert engine.poll("a") == []
    assert [poll.queue_name for poll in engine.tasks.poll_data()] == ["a"]
    engine.close()
