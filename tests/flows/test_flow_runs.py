"""Flows run as the functions say: on every store, by every engine, after a restart."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest

from conductorlite import AsyncEngine, Engine, TaskStatus, VirtualClock, WorkflowStatus, flow, task
from conductorlite.errors import BuildError, InvalidInput, TimedOut, WorkflowFailed
from conductorlite.flows import each, match, over, parallel, receive, repeat, set_variables, start, sub, variable, wait, when

from trips import Receipt, booking, charge, list_rooms, notify, payment, quote, total  # isort: skip


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Where an engine keeps its executions."""
    return None if request.param == "memory" else tmp_path / "flows.db"


def statuses(engine: Engine, workflow_id: str) -> dict[str, str]:
    """Printed reference → status."""
    return {row.ref: str(row.status) for row in engine.get(workflow_id).tasks}


def test_a_flow_gives_what_its_function_returns(store: Path | None) -> None:
    """Forks, a list, a person, a case, a sub-workflow, an attempt that fails, loops: and a typed result."""
    with Engine(store, workers=[booking], clock=VirtualClock(0)) as engine:
        run = engine.start(booking, to="Rome", amount=3)
        engine.settle()
        approval = next(row for row in run.workflow.tasks if row.ref == "approval")
        assert approval.input_data == {"assignee": "Ada", "price": 9.0}
        engine.signal(run.workflow_id, {"approved": True})
        engine.run_until_idle()
        assert run.result() == Receipt(number="r-1", amount=3)
        found = statuses(engine, run.workflow_id)
        assert found["attempt"] == TaskStatus.COMPLETED_WITH_ERRORS
        assert {"report", "again__3", "remind__3", "greet", "_quote_2"} <= found.keys()
        (reported,) = [row for row in run.workflow.tasks if row.ref == "report"]
        assert "fail 12A" in reported.input_data["reason"]


def test_what_was_done_is_undone(store: Path | None) -> None:
    """`undo` gets what the step returned."""
    with Engine(store, workers=[booking], clock=VirtualClock(0)) as engine:
        run = engine.start(booking, to="Rome", amount=3)
        engine.settle()
        engine.signal(run.workflow_id, {"approved": False})
        engine.run_until_idle()
        assert run.status is WorkflowStatus.FAILED
        undone = next(row for row in run.workflow.tasks if row.ref == "book_flight_undo")
        assert undone.input_data == {"flight": {"seat": "12A", "airport": "Rome airport"}}
        with pytest.raises(WorkflowFailed, match="not approved"):
            run.result()


def test_another_engine_goes_on(tmp_path: Path) -> None:
    """The execution carries its definition; the workers come with the flow."""
    with Engine(tmp_path / "trip.db", workers=[booking], clock=VirtualClock(0)) as engine:
        workflow_id = engine.start(booking, to="Rome", amount=3).workflow_id
    with Engine(tmp_path / "trip.db", workers=[booking], clock=VirtualClock(0)) as engine:
        engine.settle()
        assert statuses(engine, workflow_id)["approval"] == TaskStatus.IN_PROGRESS
        assert engine.get(workflow_id).version == 2


def test_a_start_brings_its_workers() -> None:
    """Into an engine that is driven already, too."""
    with Engine() as engine:
        driver = threading.Thread(target=engine.run_forever)
        driver.start()
        try:
            assert engine.start(payment, 4.5).result("20s") == Receipt(number="r-1", amount=4.5)
        finally:
            engine.stop()
            driver.join()


def test_an_async_engine() -> None:
    """The same starts, awaited."""

    async def main() -> Receipt:
        async with AsyncEngine(workers=[payment], clock=VirtualClock(0)) as engine:
            run = await engine.start(payment.options(workflow_id="p-1"), amount=2)
            assert run.workflow_id == "p-1"
            return await run.result()

    assert asyncio.run(main()) == Receipt(number="r-1", amount=2)


def test_plain_calls() -> None:
    """Outside a flow a task is its function."""
    assert quote(4) == 6.0
    assert asyncio.run(charge.function(2.0)) == Receipt(number="r-1", amount=2.0)
    assert total.__name__ == "total"


@task
def count(number: int) -> dict[str, Any]:
    """A map is an output as a whole."""
    return {"next": number + 1, "state": "done" if number >= 3 else "open"}


@flow
def loops(limit: int, kind: str) -> dict[str, Any]:
    """Ends by a condition on a step of the round, and by one that reads what was before."""
    set_variables(seen=0)
    with repeat() as loop:
        step = count(loop.round)
        set_variables(name="note", seen=step["next"])
        loop.until((step["state"] == "done") | (loop.round >= limit))
    with when((variable("seen") > 2) & (kind != "short")):
        wait("1 day")
    return {"seen": variable("seen"), "state": step["state"]}


@pytest.mark.parametrize(("limit", "expected"), [(9, {"seen": 4, "state": "done"}), (2, {"seen": 3, "state": "open"})])
def test_loops_and_variables(limit: int, expected: dict[str, Any]) -> None:
    """Conditions are evaluated after each round, over values of the round."""
    clock = VirtualClock(0)
    with Engine(workers=[loops], clock=clock) as engine:
        run = engine.start(loops, limit, "long")
        engine.run_until_idle()
        assert run.result() == expected
        assert clock.now() == 86_400_000
        engine.start(loops, limit, "short")
        engine.run_until_idle()
        assert clock.now() == 86_400_000


@flow
def of_each(numbers: list[int]) -> dict[str, Any]:
    """A flow for each item, a flow started, a branch of several steps, cases."""
    with parallel() as fork:
        with fork.branch():
            first = count(1)
            second = count(
                first["next"],
            )
        with fork.branch():
            rooms = list_rooms("x")
    kind = match(second["state"])
    with kind.case("open"):
        set_variables(kind="open")
    with kind.otherwise():
        set_variables(name="set_other", kind="other")
    begun = start(payment, amount=1)
    receipts = each(rooms, payment_of)
    return {"kind": variable("kind"), "receipts": receipts, "begun": begun.workflowId, "second": second["next"]}


@flow
def payment_of(amount: float) -> Receipt:
    """Takes an item under its own name."""
    return charge(amount)


def test_branches_cases_and_flows_for_each_item(store: Path | None) -> None:
    """The flows that are found by name are registered with the start."""
    with Engine(store, clock=VirtualClock(0)) as engine:
        run = engine.start(of_each, numbers=[1])
        engine.run_until_idle()
        found = run.result()
        assert [(one["number"], one["amount"]) for one in found["receipts"]] == [("r-1", 1), ("r-1", 2), ("r-1", 3)]
        assert (found["kind"], found["second"]) == ("open", 3)
        assert engine.status(found["begun"]) is WorkflowStatus.COMPLETED


def test_what_is_registered_already_is_not_written_again(store: Path | None) -> None:
    """The second start of a flow that is run for each item writes no definition; one that was changed meanwhile is put right."""
    with Engine(store, clock=VirtualClock(0)) as engine:
        commits = []
        for _ in range(3):
            before = engine.backend.commits()
            engine.start(of_each, numbers=[1])
            commits.append(engine.backend.commits() - before)
        assert commits[0] - 1 == commits[1] == commits[2]
        one = of_each.definitions[0]
        engine.register(attrs.evolve(one, description="another"))
        engine.start(of_each, numbers=[1])
        assert engine.definitions.workflow(one.name, one.version) == one


@flow
def by_name(what: str) -> dict[str, Any]:
    """A registered workflow, by its name."""
    done = sub("payment", amount=7)
    with over(list_rooms("x")) as item:
        notify.options(optional=True)(f"{what} {item}")
    return {"number": done.number}


def test_a_registered_workflow_by_its_name() -> None:
    """And an optional step that fails."""
    with Engine(workers=[by_name, payment], clock=VirtualClock(0)) as engine:
        engine.register(payment.definition)
        run = engine.start(by_name, "fail")
        engine.run_until_idle()
        assert run.result() == {"number": "r-1"}
        assert statuses(engine, run.workflow_id)["notify__2"] == TaskStatus.COMPLETED_WITH_ERRORS


@pytest.mark.parametrize(
    ("begin", "kind", "text"),
    [
        (lambda engine: engine.start(booking, to="Rome"), BuildError, "missing a required argument: 'amount'"),
        (lambda engine: engine.start(booking, to="Rome", amont=3), BuildError, "no argument 'amont'; did you mean 'amount'?"),
        (lambda engine: engine.start(3), InvalidInput, "takes a flow, a definition or a registered name"),
        (lambda _: booking.options(priorty=3), BuildError, "no option 'priorty'; did you mean 'priority'?"),
        (lambda _: booking("Rome", 3), BuildError, "a flow is started by an engine"),
    ],
)
def test_a_wrong_start(begin: Any, kind: type[Exception], text: str) -> None:
    """Each is refused by a sentence, and nothing is stored."""
    with Engine(clock=VirtualClock(0)) as engine:
        with pytest.raises(kind, match=text.replace("?", r"\?").replace("(", r"\(")):
            begin(engine)
        assert list(engine.executions()) == []


@attrs.frozen
class Paid:
    """What a message says."""

    payer: str


@flow
def paying() -> str:
    """A flow that is read, and receives one message."""
    try:
        paid = receive("payments", Paid, timeout="1 day")
    except TimedOut:
        return "nobody paid"
    return paid.payer


@pytest.mark.parametrize(("sent", "returned"), [([], "nobody paid"), ([{"payer": "Ada"}], "Ada")])
def test_a_flow_that_is_read_receives_a_message(store: Path | None, sent: list[Any], returned: str) -> None:
    """Its value is a record, and it raises TimedOut when the timeout is over."""
    with Engine(store, workers=[paying], clock=VirtualClock(0)) as engine:
        run = engine.start(paying)
        for one in sent:
            run.send("payments", one)
        assert run.result() == returned
