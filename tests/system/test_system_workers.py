"""The system workers as a set: what explain says of them, how often their tasks are tried, and the sink in memory."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from system_kit import Server, node, serving

from conductorlite import AsyncEngine, Engine, TaskContext, TaskDef, TaskStatus, VirtualClock, Workers, WorkflowDef
from conductorlite.errors import InvalidInput
from conductorlite.ext.sinks import MemorySink, Sink
from conductorlite.ext.workers import system_workers
from conductorlite.testing import ScriptedWorkers

INPUTS = {
    "HTTP": {"uri": "http://127.0.0.1:1", "method": "GET"},
    "EVENT": {},
    "KAFKA_PUBLISH": {"kafka_request": {}},
}


@pytest.mark.parametrize("kind", [worker.task_type for worker in system_workers()])
def test_explain_names_the_worker_that_is_not_included(kind: str) -> None:
    """A task of each of these types that lies in its queue is said to need a worker, and which one has it."""
    with Engine(clock=VirtualClock(0)) as engine:
        run = engine.start(WorkflowDef(name="w", tasks=[node(kind, INPUTS[kind], sink="conductor")]), workflow_id="w1")
        engine.advance("5s")
        assert str(engine.explain(run.workflow_id, "t")) == (
            f"t waits for a worker of type {kind} (conductorlite.ext.workers.system_workers has one; include it) for 5 s; "
            "its poll timeout comes in 59 min 55 s of driven time."
        )


@pytest.mark.parametrize("kind", ["HTTP", "EVENT", "MY_TYPE", "SIMPLE"])
@pytest.mark.parametrize("stored", [False, True], ids=["memory", "sqlite"])
def test_only_simple_tasks_are_retried_without_a_definition(kind: str, stored: bool, tmp_path: Path) -> None:
    """Without a definition a task of any other type has one attempt, with one as many as that says; SIMPLE has four."""
    workers = Workers()
    calls: list[int] = []
    workers.add("t" if kind == "SIMPLE" else kind, lambda: calls.append(1) or 1 / 0)
    with Engine(tmp_path / "s.db" if stored else None, workers=workers, clock=VirtualClock(0)) as engine:
        once = TaskDef(name="t", retry_count=1)
        for definition, attempts in ((None, 4 if kind == "SIMPLE" else 1), (TaskDef(name="t"), 4), (once, 2)):
            calls.clear()
            task = node(kind, INPUTS["HTTP"], sink="conductor", task_definition=definition)
            run = engine.start(WorkflowDef(name="w", tasks=[task]))
            engine.run_until_idle()
            assert (run.status, len(calls)) == ("FAILED", attempts)


def test_a_lost_worker_is_noticed() -> None:
    """A task of these types has the response timeout of any worker's task, also without a definition."""
    with Engine(clock=VirtualClock(0)) as engine:
        run = engine.start(WorkflowDef(name="w", tasks=[node("HTTP", INPUTS["HTTP"])]))
        engine.poll("HTTP")
        engine.advance("600s")
        assert run.workflow.task("t").status is TaskStatus.TIMED_OUT


@pytest.mark.parametrize("scripted", [False, True])
@pytest.mark.parametrize("stored", [False, True], ids=["memory", "sqlite"])
def test_a_context_knows_its_execution(scripted: bool, stored: bool, tmp_path: Path) -> None:
    """A worker's context has the execution's row, large values with their texts, also inside a scripted worker."""

    def look(context: TaskContext) -> dict[str, object]:
        row = context.workflow
        return {"of": [row.name, row.version, row.correlation_id], "input": len(row.input_data["x"])}

    workers = ScriptedWorkers()
    if scripted:
        workers["t"].does(look)
    else:
        workers.add("t", look)
    with Engine(tmp_path / "s.db" if stored else None, workers=workers, clock=VirtualClock(0)) as engine:
        definition = WorkflowDef(name="w", version=2, tasks=[node("SIMPLE", {})])
        run = engine.start(definition, {"x": "y" * 5000}, correlation_id="c")
        assert run.result() == {"of": ["w", 2, "c"], "input": 5000}


def test_on_the_callers_loop() -> None:
    """Under an AsyncEngine many HTTP requests run at once on the caller's loop, with the machine's clock."""

    async def main(server: Server) -> list[object]:
        names = [f"t{n}" for n in range(10)]
        inputs = {"uri": server.answers([1]), "method": "GET"}
        fork = node("FORK_JOIN", {}, ref="f", fork_tasks=[[node("HTTP", inputs, ref=name)] for name in names])
        definition = WorkflowDef(
            name="w", tasks=[fork, node("JOIN", {}, ref="j", join_on=names)], output_parameters={"all": "${j.output}"}
        )
        async with AsyncEngine(workers=system_workers()) as engine, engine.background():
            run = await engine.start(definition)
            output = await run.result(timeout="30s")
        return [output["all"][name]["response"]["body"] for name in names]

    pytest.importorskip("httpx")
    with serving() as server:
        assert asyncio.run(main(server)) == [[1]] * 10


def test_a_sink_in_memory_takes_from_many_threads() -> None:
    """Nothing is lost between threads, and with dedup each id is kept once."""
    plain, once = MemorySink(), MemorySink(dedup=True)

    def publish() -> None:
        for n in range(200):
            for sink in (plain, once):
                sink.publish("a:b", {"n": n}, message_id=str(n))

    threads = [threading.Thread(target=publish) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(plain.messages), len(once.messages)) == (800, 200)
    assert sorted(message.payload["n"] for message in once.messages) == list(range(200))
    once.clear()
    assert once.messages == ()
    once.publish("a:b", {}, message_id="1")
    assert len(once.messages) == 1


def test_a_sink_in_memory_keeps_copies() -> None:
    """What a publisher changes later changes nothing in the sink; what is no JSON is refused; it is a Sink."""
    sink = MemorySink()
    payload = {"n": [1]}
    sink.publish("a", payload, message_id="1")
    payload["n"].append(2)
    assert sink.messages[0].payload == {"n": [1]}
    assert isinstance(sink, Sink)
    with pytest.raises(InvalidInput, match=r"payload\.a"):
        sink.publish("a", {"a": float("nan")}, message_id="2")
    with pytest.raises(InvalidInput, match="capacity 0"):
        MemorySink(capacity=0)
