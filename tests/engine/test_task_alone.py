"""A task without a flow: an execution of one task, and one of a task for each of several rows."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from engine_kit import T0

from conductorlite import AsyncEngine, Engine, SystemClock, TaskContext, VirtualClock, WorkflowStatus
from conductorlite import flow as as_flow
from conductorlite import task as as_task
from conductorlite.errors import BuildError, InvalidDefinition, InvalidInput, KeyTaken, WorkflowFailed
from conductorlite.flows import Backoff, each
from conductorlite.model.executions import TaskResult
from conductorlite.model.statuses import TaskStatus
from conductorlite.store.ports import Backend

CALLS: Counter[Any] = Counter()
NOTHING = object()


@dataclass
class Order:
    id: int
    card: str = "visa"


@as_task(retry=Backoff(2, first="10s"), limit=2)
def charge(amount: int, currency: str = "EUR", *, mark: object = NOTHING) -> str:
    CALLS[amount] += 1
    if amount < 0 or CALLS[amount] < amount - 100:
        raise ValueError(amount)
    assert mark is NOTHING, "what is not given has the function's own default, also one that is no JSON"
    return f"{amount} {currency}"


@as_task
def pay(input: Order, context: TaskContext) -> Order:
    return Order(id=input.id + 1, card=input.card)


@as_task
def count(priority: int, **more: int) -> dict[str, int]:
    return {"priority": priority, **more}


@as_task(retry=0)
def reported(n: int, context: TaskContext) -> TaskResult | int:
    made = TaskResult(workflow_id=context.workflow_id, task_id=context.task_id, status=TaskStatus.COMPLETED, output_data={"n": n})
    return made if n else 5


@as_task
async def later(n: int) -> int:
    return n + 1


@pytest.fixture(autouse=True)
def _uncalled() -> None:
    CALLS.clear()


@pytest.fixture(params=["virtual", "system"])
def engine(request: pytest.FixtureRequest, store: Backend) -> Any:
    with Engine(store, clock=VirtualClock(T0) if request.param == "virtual" else SystemClock()) as made:
        yield made


def test_it_is_an_execution_of_one_task(engine: Engine) -> None:
    """Its name says so, wherever it is shown; arguments are written, read and defaulted as the function says."""
    run = engine.run_task(charge, amount=3)
    assert run.result() == "3 EUR"
    workflow = engine.get(run.workflow_id)
    assert (workflow.name, [(one.ref, one.name) for one in workflow.tasks]) == ("task:charge", [("charge", "charge")])
    assert workflow.input.value == workflow.tasks[0].input.value == {"amount": 3}
    assert workflow.definition is not None
    assert [one.type for one in workflow.definition.tasks] == ["SIMPLE"]
    assert "task:charge" in run.page()
    assert "COMPLETED" in str(run.explain())
    assert (run.progress().done, run.progress().total) == (1, 1)
    assert [one.workflow_id for one in engine.search("workflowType = 'task:charge'").results] == [run.workflow_id]
    assert charge.start(engine, 4, "USD").result() == "4 USD"
    assert engine.run_task(pay, Order(id=1)).result() == Order(id=2)
    assert engine.run_task(later, 1).result() == 2
    assert engine.run_task(count, priority=5, a=1).result() == {"priority": 5, "a": 1}
    assert (engine.run_task(reported, 3).result(), engine.run_task(reported, 0).result()) == ({"n": 3}, {"result": 5})
    assert engine.definitions.workflows() == [], "no definition is registered for it"


def test_texts_that_look_like_references_stay_texts(engine: Engine) -> None:
    """What is given to the function is data."""
    assert engine.run_task(charge, 1, currency="${workflow.workflowId}").result() == "1 ${workflow.workflowId}"
    rows = [{"amount": 1, "currency": "${a.b}"}]
    assert charge.map(engine, rows).result() == ["1 ${a.b}"]


def test_a_key_belongs_to_one_job(engine: Engine) -> None:
    """The key's holder is returned, unless another strategy is asked for; a parameter of an option's name is the function's."""
    first = engine.run_task(charge, amount=3, idempotency_key="k")
    assert engine.run_task(charge, amount=4, idempotency_key="k") == first
    assert charge.options(idempotency_key="k").start(engine, 5) == first
    assert charge.map(engine, [{"amount": 7}], idempotency_key="k") != first, "a map of a task is no task"
    with pytest.raises(KeyTaken):
        engine.run_task(charge, amount=4, idempotency_key="k", idempotency_strategy="FAIL")
    run = engine.run_task(count.options(priority=7, workflow_id="w"), priority=1, correlation_id="c")
    row = engine.get("w")
    assert (run.workflow_id, row.priority, row.correlation_id) == ("w", 7, "c")
    assert row.input.value == {"priority": 1}


def test_it_is_retried_and_fails_as_its_definition_says(store: Backend) -> None:
    """Retries with their delay, failure with the function's reason, a `retry`, and a delayed first attempt."""
    with Engine(store, clock=VirtualClock(T0)) as engine:
        assert engine.run_task(charge, amount=103).result() == "103 EUR"
        assert (CALLS[103], engine.clock.now()) == (3, T0 + 20_000)
        failed = engine.run_task(charge, amount=-1)
        with pytest.raises(WorkflowFailed, match="ValueError: -1"):
            failed.result()
        assert CALLS[-1] == 3
        failed.retry()
        engine.run_until_idle()
        assert (CALLS[-1], failed.status) == (6, WorkflowStatus.FAILED)
        at = engine.clock.now()
        assert engine.run_task(charge, amount=1, delay="1m").result() == "1 EUR"
        assert engine.run_task(charge.options(delay="1m", name="first"), amount=2).result() == "2 EUR"
        assert engine.clock.now() == at + 120_000
        assert engine.run_task(charge.options(retry=0), amount=-2).workflow.status is WorkflowStatus.RUNNING
        engine.run_until_idle()
        assert CALLS[-2] == 1


def test_it_goes_on_in_another_engine(tmp_path: Path) -> None:
    """An engine that is given the function carries out what another one has started."""
    with Engine(tmp_path / "jobs.db", clock=VirtualClock(T0)) as engine:
        run = engine.run_task(charge, amount=3)
        rows = charge.map(engine, ({"amount": n} for n in range(12)), idempotency_key="k")
    with Engine(tmp_path / "jobs.db", workers=[charge], clock=VirtualClock(T0)) as engine:
        assert engine.definitions.workflows() == []
        engine.run_until_idle()
        assert engine.run(run.workflow_id).result() == {"result": "3 EUR"}
        again = charge.map(engine, [], idempotency_key="k")
        assert again == rows
        assert again.result() == [f"{n} EUR" for n in range(12)]


def test_rows_side_by_side(engine: Engine) -> None:
    """One execution; results in the order of the rows; progress while it runs; limits hold; what failed is retried alone."""
    run = later.map(engine, range(12))
    assert (run.status, run.progress().done) == (WorkflowStatus.RUNNING, 1)
    assert run.result() == [n + 1 for n in range(12)]
    assert (run.progress().fraction, run.progress().by_step["later"]) == (1.0, {"COMPLETED": 12})
    assert engine.get(run.workflow_id).name == "map:later"
    assert later.map(engine, []).result() == []
    assert pay.map(engine, [Order(id=1), {"id": 2, "card": "amex"}]).result() == [Order(id=2), Order(id=3, card="amex")]
    assert count.map(engine, [{"priority": 1}, {"priority": 2, "b": 3}], priority=4, workflow_id="w").result()[1]["b"] == 3
    assert engine.get("w").priority == 4


def test_rows_that_fail(store: Backend) -> None:
    """A row that fails for good fails the execution; `retry` takes up that row and what was canceled with it."""
    with Engine(store, clock=VirtualClock(T0)) as engine:
        run = charge.map(engine, [{"amount": 1}, {"amount": 105}])
        with pytest.raises(WorkflowFailed, match="ValueError: 105"):
            run.result()
        run.retry()
        assert run.result() == ["1 EUR", "105 EUR"]
        assert CALLS == {1: 1, 105: 5}


def test_wrong_calls_store_nothing(store: Backend) -> None:
    """Each is refused where it is written, and says which argument, option or row it is."""
    wrong = [
        (lambda e: e.run_task(charge, amonut=3), "there is no argument 'amonut'"),
        (lambda e: e.run_task(charge), "missing a required argument: 'amount'"),
        (lambda e: e.run_task(charge, amount=3, version=2), "there is no argument 'version'"),
        (lambda e: e.run_task(charge.options(undo=later), amount=3), "after a task alone nothing can fail"),
        (lambda e: e.run_task(charge.options(sinks="x"), amount=3), "there is no option 'sinks'"),
        (lambda e: e.run_task(pay, 5), "'input' is the whole input, a record, not 5"),
        (lambda e: charge.map(e, [{"amount": 1}, 7]), r"rows\[1\] is 7, and no mapping"),
        (lambda e: charge.map(e, [{"amuont": 1}]), r"rows\[0\]: there is no argument 'amuont'"),
        (lambda e: charge.map(e, [], workflow="w"), "there is no option 'workflow'"),
        (lambda e: charge.options(retry=2).map(e, []), "a row takes no option 'retry'"),
        (lambda e: later.map(e, range(20_001)), "20001 rows are more than 20000"),
        (lambda e: as_flow("f")(lambda: {"a": charge.options(priority=1)(1)}).definition, "'priority' is said of the start"),
    ]  # fmt: skip
    with Engine(store, clock=VirtualClock(T0)) as engine:
        for call, message in wrong:
            with pytest.raises(BuildError, match=message):
                call(engine)
        for call in (lambda: engine.run_task(len, [1]), lambda: engine.start(charge, 1)):
            with pytest.raises(InvalidInput, match="run_task"):
                call()
        with pytest.raises(InvalidInput, match="amount"):
            engine.run_task(charge, amount={1, NOTHING})
        assert engine.executions() == []


def test_a_whole_input_in_a_flow(store: Backend) -> None:
    """A step that takes one record as its input gets its fields: of a value, of what another step gave, of an item, as undo."""

    @as_flow
    def paying(first: int) -> dict[str, Any]:
        one = pay(Order(id=first))
        two = pay.options(name="two", undo=pay)(one)
        return {"two": two.id, "card": two.card, "each": each([{"id": 7, "card": "x"}], pay), "last": charge(-1)}

    with Engine(store, clock=VirtualClock(T0)) as engine:
        run = engine.start(paying, first=1)
        engine.run_until_idle()
        tasks = {one.ref: one for one in run.tasks}
        assert tasks["two"].output.value == {"id": 3, "card": "visa"}
        assert tasks["_pay_0"].output.value == {"id": 8, "card": "x"}
        assert tasks["two_undo"].output.value == {"id": 4, "card": "visa"}


def test_awaited() -> None:
    """The same with an AsyncEngine: handles and results are awaited."""

    async def main() -> None:
        async with AsyncEngine() as engine:
            run = await engine.run_task(later, n=1)
            assert await run.result() == 2
            assert await (await later.start(engine, 2)).result() == 3
            assert await (await later.map(engine, [1, 2])).result() == [2, 3]

    asyncio.run(main())


def test_a_task_type_alone(engine: Engine) -> None:
    """By its name, as a server or the command line starts it: any worker carries it out; keys are those of the function."""
    engine.workers.include(charge.workers)
    run = engine.run_task("charge", {"amount": 3, "currency": "USD"}, idempotency_key="k")
    assert run.result() == {"result": "3 USD"}
    assert run.workflow.name == "task:charge"
    assert engine.run_task("charge", idempotency_key="k") == run
    assert engine.run_task(charge, amount=4, idempotency_key="k") == run
    assert engine.run_task("charge", input={"amount": 5}).result() == {"result": "5 EUR"}
    odd = engine.run_task("nobody", {"a b": 1, "c": "${workflow.input}"})
    assert odd.workflow.tasks[0].input_data == {"a b": 1, "c": "${workflow.input}"}
    before = len(engine.executions())
    for wrong in ("", " ", "it's"):
        with pytest.raises((InvalidInput, InvalidDefinition)):
            engine.run_task(wrong, {"it's": 1})
    with pytest.raises(InvalidInput, match="takes one input"):
        engine.run_task("charge", {}, {})
    with pytest.raises(InvalidInput):
        engine.run_task("charge", 3)  # type: ignore[arg-type]
    assert len(engine.executions()) == before
