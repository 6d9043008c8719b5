"""Values that executions emit while they run: numbers, what is kept and dropped, readers, hand-overs, and latest values."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from engine_kit import PATIENCE, T0, Bench, NewBench, flow, rounds, simple, wait
from rerun_kit import s, work

from conductorlite import (
    AsyncEngine,
    Engine,
    EngineConfig,
    TaskContext,
    TaskResult,
    TaskStatus,
    VirtualClock,
    Workers,
    WorkflowTask,
    validate,
)
from conductorlite.engine.streams import Emitting
from conductorlite.errors import (
    ExecutionArchived,
    ExecutionEnded,
    ExecutionNotFound,
    InvalidInput,
    PayloadTooLarge,
    ResultTimeout,
    StaleLease,
)
from conductorlite.model.streams import Dropped, StreamItem
from conductorlite.store.ports import Backend

J = dict[str, Any]


def emitting(ref: str, value: Any = "${workflow.input.x}", **more: Any) -> WorkflowTask:
    """An EMIT."""
    return WorkflowTask(name=ref, task_reference_name=ref, type="EMIT", input_parameters={"value": value, **more})


def shown(items: list[StreamItem | Dropped]) -> str:
    """Numbers and values; a `-` for what is dropped, a `?` for what may still be."""
    return " ".join(
        f"-{one.ref}#{one.attempt}" if isinstance(one, Dropped) else f"{one.number}:{one.value}{'' if one.kept else '?'}"
        for one in items
    )


def there(bench: Bench, **options: Any) -> str:
    """What there is to be read."""
    return shown([*bench.engine.streams.items(bench.workflow_id, **options)])


class Reader:
    """A reader of the execution of a bench, which looks when it is asked."""

    def __init__(self, bench: Bench, stream: str | None = None, *, after: int = 0, kept_only: bool = False) -> None:
        self._readers = bench.engine.core.readers
        self.at = self._readers.reading(bench.workflow_id, stream, after, kept_only=kept_only)

    def more(self) -> str:
        """What is new."""
        return shown(self._readers.more(self.at))


def test_open_values_are_kept_with_the_report(bench: Bench) -> None:
    """They are read while the task runs; with the report those of the attempt are kept, and the rest is committed with it."""
    bench.start(flow(*s("a"), *s("z")))
    task = bench.take("a")
    reader, patient = Reader(bench), Reader(bench, kept_only=True)
    bench.engine.streams.emit(task, "one")
    bench.engine.streams.emit(task, {"n": 2}, stream="other")
    assert reader.more() == "1:one? 2:{'n': 2}?"
    assert (patient.more(), there(bench, stream="other")) == ("", "2:{'n': 2}?")
    said = {"after": 2, "streams": [["values", ["three", "four"]]], "values": {}}
    bench.engine.update_task(
        TaskResult(workflow_id=bench.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease, emitted=said)
    )
    assert reader.more() == "3:three 4:four"
    assert patient.more() == "1:one 2:{'n': 2} 3:three 4:four"
    assert there(bench, after=1, limit=2) == "2:{'n': 2} 3:three"
    assert work(bench) == "z"
    assert reader.more() == ""
    assert reader.at.over
    assert bench.engine.admin.check() == []


def test_what_is_said_twice_is_kept_once(bench: Bench) -> None:
    """A call counts what it has handed over: what was committed without an answer is passed over when it is said again."""
    bench.start(flow(*s("a")))
    task = bench.take("a")
    for after, values in ((0, ["a", "b"]), (0, ["a", "b", "c"]), (3, ["d"]), (0, ["a"])):
        said = {"after": after, "streams": [["values", values]], "values": {}}
        assert bench.engine.core.reports.sign_of_life(task, bench.clock.now(), said)
    assert there(bench) == "1:a? 2:b? 3:c? 4:d?"
    bench.report(task)
    assert there(bench) == "1:a 2:b 3:c 4:d"


@pytest.mark.parametrize("how", ["fails", "times out", "is canceled", "is given back"])
def test_what_an_attempt_without_success_has_emitted_is_dropped(bench: Bench, how: str) -> None:
    """Readers are told; the next attempt's values have numbers of their own."""
    bench.start(flow(simple("a", {"retry_count": 1, "retry_delay_s": 0, "response_timeout_s": 10, "timeout_s": 0})))
    task = bench.take("a")
    bench.engine.streams.emit(task, "lost")
    reader, late = Reader(bench), Reader(bench, kept_only=True)
    assert (reader.more(), late.more()) == ("1:lost?", "")
    if how == "is canceled":
        bench.engine.terminate(bench.workflow_id)
        assert reader.more() == "-a#0"
        return
    if how == "times out":
        bench.at(11)
    elif how == "fails":
        bench.report(task, TaskStatus.FAILED)
    else:
        bench.engine.core.holding.give_back([task])
    assert reader.more() == "-a#0"
    with pytest.raises(StaleLease):
        bench.engine.streams.emit(task, "too late")
    again = bench.take("a")
    bench.engine.streams.emit(again, "kept")
    assert reader.more() == "2:kept?"
    bench.report(again)
    assert late.more() == "2:kept"
    assert there(bench) == "2:kept"
    assert Reader(bench, after=1).more() == "-a#0 2:kept"
    assert bench.engine.admin.check() == []


def test_a_report_in_between_keeps_the_attempts_values_open(bench: Bench) -> None:
    """IN_PROGRESS ends a call, not the attempt: the values of all its calls are kept when it completes."""
    bench.start(flow(*s("a")))
    task = bench.take("a")
    bench.engine.streams.emit(task, 1)
    bench.report(task, TaskStatus.IN_PROGRESS)
    task = bench.take("a")
    bench.engine.streams.emit(task, 2)
    assert there(bench) == "1:1? 2:2?"
    bench.report(task)
    assert there(bench) == "1:1 2:2"
    assert bench.engine.admin.check() == []


def test_a_rerun_drops_what_its_steps_have_emitted(bench: Bench) -> None:
    """What stands before stays; numbers go on. A restart drops all."""
    bench.start(flow(emitting("e", "first"), *s("a"), *s("b")))
    for ref in ("a", "b"):
        task = bench.take(ref)
        bench.engine.streams.emit(task, ref)
        bench.report(task)
    reader = Reader(bench)
    assert reader.more() == "1:first 2:a 3:b"
    bench.engine.rerun(bench.workflow_id, from_task="b")
    assert there(bench) == "1:first 2:a"
    task = bench.take("b")
    bench.engine.streams.emit(task, "b again")
    bench.report(task)
    assert there(bench) == "1:first 2:a 4:b again"
    assert Reader(bench, after=3).more() == "-b#0 4:b again"
    bench.engine.restart(bench.workflow_id)
    assert there(bench) == "5:first"
    assert bench.engine.admin.check() == []


def test_rounds_that_a_loop_drops_leave_their_values(bench: Bench) -> None:
    """keepLastN drops rows; what they have emitted was committed, and is never lost."""
    body = [emitting("e", "${l.output.iteration}")]
    bench.start(flow(rounds("l", body, 4, input_parameters={"keepLastN": 1})))
    assert bench.status_of_workflow() == "COMPLETED"
    assert there(bench) == "1:1 2:2 3:3 4:4"
    assert bench.engine.admin.check() == []


def test_emitting_goes_on_while_the_execution_is_paused(bench: Bench) -> None:
    """A running task emits; nothing new begins."""
    bench.start(flow(*s("a"), emitting("e", "after")))
    task = bench.take("a")
    bench.engine.pause(bench.workflow_id)
    bench.engine.streams.emit(task, "while")
    bench.report(task)
    assert there(bench) == "1:while"
    bench.engine.resume(bench.workflow_id)
    assert there(bench) == "1:while 2:after"


def test_emitting_is_a_sign_of_life(bench: Bench) -> None:
    """The response timeout begins again."""
    bench.start(flow(simple("a", {"response_timeout_s": 10, "timeout_s": 0})))
    task = bench.take("a")
    for second in (8, 16, 24):
        bench.at(second)
        bench.engine.streams.emit(task, second)
    assert there(bench) == "1:8? 2:16? 3:24?"
    bench.at(40)
    assert bench.task("a", 0).status is TaskStatus.TIMED_OUT
    assert there(bench) == ""


def test_values_are_handed_over_after_50_ms_or_100_items(bench: Bench) -> None:
    """Not one sooner or later; the next 50 ms begin with the next value."""
    bench.start(flow(simple("a")))
    task = bench.take("a")
    emitting = Emitting(task, bench.engine.core.turns, bench.engine.core.reports, alone=False)

    def kept_at(ms: int) -> int:
        bench.at(ms / 1000)
        emitting.emit(ms, "s")
        return len(bench.engine.streams.items(bench.workflow_id, limit=1_000))

    assert [kept_at(ms) for ms in (0, 1, 49, 50)] == [0, 0, 0, 4]
    assert [kept_at(ms) for ms in (70, 119, 120)] == [4, 4, 7], "the first has waited since 70"
    assert [kept_at(130) for _ in range(100)] == [7] * 99 + [107]
    assert [kept_at(131) for _ in range(100)] == [107] * 99 + [207]


def test_a_hand_over_is_a_heartbeat(bench: Bench) -> None:
    """The response timeout begins again with it, not with a value that waits."""
    bench.start(flow(simple("a", {"response_timeout_s": 10, "timeout_s": 0})))
    emitting = Emitting(bench.take("a"), bench.engine.core.turns, bench.engine.core.reports, alone=False)
    bench.at(8)
    for number in range(100):
        emitting.emit(number, "s")
    bench.at(17)
    emitting.emit("waits", "s")
    assert bench.task("a").status is TaskStatus.IN_PROGRESS
    bench.at(18)
    assert bench.task("a", 0).status is TaskStatus.TIMED_OUT
    with pytest.raises(StaleLease):
        emitting.hand_over()


def test_an_emit_in_a_flow(bench: Bench) -> None:
    """EMIT takes a value and the name of a stream; a name that is none fails the task."""
    bench.start(flow(emitting("e", {"x": "${workflow.input.x}"}, stream="${workflow.input.to}")), {"x": 1, "to": "news"})
    (item,) = bench.engine.streams.items(bench.workflow_id)
    assert item == StreamItem(number=1, value={"x": 1}, stream="news", ref="e", attempt=0, at=T0, kept=True)
    bench.start(flow(emitting("e", stream="${workflow.input.to}")), {"to": 5})
    assert "'5' is no name of a stream" in (bench.workflow.reason or "")
    (problem,) = [one for one in validate(flow(emitting("e", stream=""))) if one.severity == "error"]
    assert problem.path == "$.tasks[0].inputParameters.stream"


def test_latest_values(bench: Bench) -> None:
    """Each name has one value, of the execution or of a task; an ended execution takes none."""
    run = bench.start(flow(*s("a")))
    assert run.get_value("x") is None
    assert run.get_value("x", 7) == 7
    run.set_value("x", {"n": 1})
    bench.at(1)
    run.set_value("x", {"n": 2})
    assert run.get_value("x") == {"n": 2}
    (value,) = bench.engine.streams.values(bench.workflow_id)
    assert (value.name, value.ref, value.at) == ("x", "", T0 + 1_000)
    bench.do("a")
    assert run.get_value("x") == {"n": 2}
    with pytest.raises(ExecutionEnded):
        run.set_value("x", 3)


def test_wrong_arguments(bench: Bench) -> None:
    """Each says what is wrong."""
    run = bench.start(flow(*s("a")))
    task = bench.take("a")
    streams = bench.engine.streams
    for wrong in ("", 5, "x" * 256):
        with pytest.raises(InvalidInput, match="not a text"):
            streams.emit(task, 1, stream=wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="not a text"):
            run.set_value(wrong, 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="value"):
        streams.emit(task, object())
    with pytest.raises(InvalidInput, match="0 on"):
        run.stream(after=-1)
    with pytest.raises(InvalidInput, match="1 on"):
        streams.items(bench.workflow_id, limit=0)
    with pytest.raises(ExecutionNotFound):
        streams.items("nobody")
    with pytest.raises(ExecutionNotFound):
        streams.set_value("nobody", "x", 1)
    assert there(bench) == ""


def test_a_value_past_the_barrier_is_refused(new_bench: NewBench) -> None:
    """As an output is; nothing is kept."""
    bench = new_bench()
    run = bench.start(flow(*s("a")))
    task = bench.take("a")
    with pytest.raises(PayloadTooLarge):
        bench.engine.streams.emit(task, "x" * 11_000_000)
    with pytest.raises(PayloadTooLarge):
        run.set_value("x", "x" * 11_000_000)


def test_an_archived_execution_has_its_kept_values(bench: Bench) -> None:
    """And its latest ones; what was dropped is gone. Removal takes all."""
    run = bench.start(flow(simple("a", {"retry_count": 1, "retry_delay_s": 0})))
    for status in (TaskStatus.FAILED, TaskStatus.COMPLETED):
        task = bench.take("a")
        bench.engine.streams.emit(task, str(status))
        run.set_value("last", str(status))
        bench.report(task, status)
    bench.engine.admin.archive(bench.workflow_id)
    assert there(bench) == "2:COMPLETED"
    assert shown([*run.stream(after=1)]) == "2:COMPLETED"
    assert run.get_value("last") == "COMPLETED"
    with pytest.raises(ExecutionArchived):
        run.set_value("last", 1)
    bench.engine.admin.remove(bench.workflow_id)
    with pytest.raises(ExecutionNotFound):
        there(bench)


def test_a_fork_has_no_values_of_its_origin(bench: Bench) -> None:
    """Its own numbers begin at 1, and the origin's stay."""
    bench.start(flow(emitting("e", "x"), *s("a"), *s("b")))
    task = bench.take("a")
    bench.engine.streams.emit(task, "a")
    bench.report(task)
    origin = bench.workflow_id
    bench.workflow_id = bench.engine.fork(origin, at="b").workflow_id
    assert there(bench) == ""
    bench.engine.settle()
    (task,) = [one for one in bench.engine.poll("b", count=2) if one.workflow_id == bench.workflow_id]
    bench.engine.streams.emit(task, "b")
    assert there(bench) == "1:b?"
    assert [one.value for one in bench.engine.streams.items(origin)] == ["x", "a"]
    assert bench.engine.admin.check() == []


# -- worker functions --------------------------------------------------------------------------------------------------


def run_of(store: Backend, function: Callable[..., Any], *, clock: VirtualClock | None = None) -> Engine:
    """An engine with one execution of one worker function, which has not run yet."""
    workers = Workers()
    workers.add("a", function)
    engine = Engine(store, workers=workers, clock=clock, config=EngineConfig(ids=lambda: "w"))
    engine.start(flow(simple("a", {"retry_count": 1, "retry_delay_s": 1}), name="w"))
    return engine


def test_a_function_emits(new_store: Callable[[], Backend]) -> None:
    """In virtual time a hundred values, and what waits for 50 ms, are handed over; the rest comes with the report."""
    seen: list[int] = []

    def speaks(context: TaskContext) -> J:
        for number in range(250):
            context.emit(number, stream="tokens")
            seen.append(len(engine.streams.items("w", limit=1_000)))
        context.progress(1, 4)
        context.set_value("mood", "good")
        return {"said": 250}

    clock = VirtualClock(T0)
    with run_of(new_store(), speaks, clock=clock) as engine:
        items = [item for item in engine.run("w").stream("tokens") if isinstance(item, StreamItem)]
        assert [item.value for item in items] == list(range(250))
        assert [item.number for item in items] == list(range(1, 251))
        assert sorted(set(seen)) == [0, 100, 200]
        run = engine.run("w")
        assert run.get_value("progress", task="a") == {"done": 1, "total": 4}
        assert run.get_value("mood", task="a") == "good"
        assert engine.admin.check() == []


def test_a_reader_gets_values_while_the_function_runs(new_store: Callable[[], Backend]) -> None:
    """A value is stored after 50 ms although the function says nothing more: it goes on when the reader has it."""
    heard: list[Any] = []

    def waits(context: TaskContext) -> None:
        context.emit("question")
        until = time.monotonic() + PATIENCE
        while not heard and time.monotonic() < until:
            time.sleep(0.001)
        context.emit("answer" if heard else "nobody reads")

    with run_of(new_store(), waits) as engine:
        for item in engine.run("w").stream():
            assert isinstance(item, StreamItem)
            heard.append(item.value)
        assert heard == ["question", "answer"]
        assert engine.admin.check() == []


def test_what_a_failed_call_has_emitted_is_dropped(new_store: Callable[[], Backend]) -> None:
    """Its rest is not even stored; the second attempt's values are read."""

    def second(context: TaskContext) -> None:
        for number in range(110):
            context.emit([context.attempt, number])
        if not context.attempt:
            raise ValueError("once more")

    with run_of(new_store(), second, clock=VirtualClock(T0)) as engine:
        values = [item.value for item in engine.run("w").stream(kept_only=True) if isinstance(item, StreamItem)]
        assert values == [[1, number] for number in range(110)]
        assert engine.admin.check() == []


def test_a_call_that_has_lost_its_lease_emits_no_more(new_store: Callable[[], Backend]) -> None:
    """StaleLease comes out of the function, and its values are dropped."""
    raised: list[str] = []

    def late(context: TaskContext) -> None:
        context.emit("one")
        engine.terminate("w")
        try:
            for number in range(200):
                context.emit(number)
        except StaleLease as error:
            raised.append(str(error))
            raise

    with run_of(new_store(), late, clock=VirtualClock(T0)) as engine:
        engine.run_until_idle()
        assert len(raised) == 1
        assert engine.streams.items("w") == []
        assert engine.admin.check() == []


def test_values_of_a_function_with_a_transaction_come_with_its_report(tmp_path: Any) -> None:
    """Nobody else can write meanwhile."""
    from conductorlite import Transaction

    def keeps(context: TaskContext, tx: Transaction = Transaction.given) -> None:
        for number in range(150):
            context.emit(number)

    workers = Workers()
    workers.add("a", keeps)
    with Engine(tmp_path / "s.db", workers=workers) as engine:
        run = engine.start(flow(simple("a")))
        assert [item.value for item in run.stream() if isinstance(item, StreamItem)] == list(range(150))
        assert engine.admin.check() == []


def test_wrong_progress(new_store: Callable[[], Backend]) -> None:
    """What is no number from 0 on is refused in the function."""
    wrong: list[Any] = [-1, "half", True, float("nan"), float("inf")]

    def says(context: TaskContext) -> int:
        for one in wrong:
            with pytest.raises(InvalidInput, match="numbers from 0 on"):
                context.progress(one)
        return len(wrong)

    with run_of(new_store(), says, clock=VirtualClock(T0)) as engine:
        assert engine.result("w") == {"result": 5}


def test_nothing_moves_a_stream_on_a_virtual_clock(bench: Bench) -> None:
    """Who waits for more than will come is told."""
    run = bench.start(flow(wait("w")))
    with pytest.raises(ResultTimeout):
        list(run.stream())


def test_progress_is_shown(bench: Bench) -> None:
    """On the page of the execution and in a notebook, as long as it runs."""
    run = bench.start(flow(*s("a")))
    task = bench.take("a")
    said = {"after": 0, "streams": [], "values": {"progress": {"done": 30, "total": 1_200}}}
    assert bench.engine.core.reports.sign_of_life(task, bench.clock.now(), said)
    assert "a: 30 of 1,200 (2%)" in run.page()
    assert "a: 30 of 1,200 (2%)" in (run._repr_html_() or "")
    said["values"] = {"progress": {"done": 31}}
    assert bench.engine.core.reports.sign_of_life(task, bench.clock.now(), said)
    assert "a: 31<" in run.page()
    bench.report(task)
    assert "a: 31<" not in run.page()


def test_it_is_iterated_with_async_for(new_store: Callable[[], Backend]) -> None:
    """In AsyncEngine; values that come after a number, to the end."""
    workers = Workers()

    async def speaks(context: TaskContext) -> None:
        for number in range(3):
            context.emit(number)
            await asyncio.sleep(0)

    workers.add("a", speaks)

    async def main() -> list[Any]:
        async with AsyncEngine(new_store(), workers=workers) as engine:
            run = await engine.start(flow(simple("a")))
            first = [item.value async for item in run.stream() if isinstance(item, StreamItem)]
            later = [item.value async for item in run.stream(after=2) if isinstance(item, StreamItem)]
            return [first, later, await run.get_value("none")]

    assert asyncio.run(asyncio.wait_for(main(), PATIENCE)) == [[0, 1, 2], [2], None]


def test_another_engine_reads_them(tmp_path: Any) -> None:
    """It sees what this one has committed, and what comes then."""
    path = tmp_path / "s.db"
    with Engine(path, clock=VirtualClock(T0)) as engine, Engine(path, clock=VirtualClock(T0)) as other:
        run = engine.start(flow(simple("a")), workflow_id="w")
        (task,) = engine.poll("a")
        engine.streams.emit(task, 1, 2)
        readers = other.core.readers
        reading = readers.reading("w", None, 0, kept_only=False)
        assert shown(readers.more(reading)) == "1:1? 2:2?"
        engine.streams.emit(task, 3)
        assert readers.has_moved(reading)
        assert shown(readers.more(reading)) == "3:3?"
        engine.update_task(
            TaskResult(workflow_id="w", task_id=task.task_id, status=TaskStatus.FAILED_WITH_TERMINAL_ERROR, lease=task.lease)
        )
        assert shown([*other.run("w").stream(after=2)]) == "-a#0"
        assert list(run.stream()) == []
