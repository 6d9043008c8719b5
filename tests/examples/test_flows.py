"""The examples' flows: each gives the JSON of its hand-written form; and the two that others write in as many lines."""

from __future__ import annotations

import io
import json
import tokenize
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripts import EXAMPLES, load, run

from conductorlite import Engine, TaskStatus, VirtualClock, WorkflowDef, WorkflowStatus
from conductorlite.testing import ScriptedWorkers

HAND_WRITTEN: dict[str, Callable[[Path], Any]] = {
    "index_stdlib/index_stdlib.json": lambda folder: load("index_stdlib/index_stdlib.py").job_for(folder),
    "order_saga/order_saga.json": lambda _: load("order_saga/order_saga.py").order_saga,
    "nightly_batch/nightly_batch.json": lambda _: load("nightly_batch/nightly_batch.py").nightly_batch,
    "web_approval/expense.json": lambda _: load("web_approval/app.py").expense,
    "web_approval/quote.json": lambda _: load("web_approval/app.py").quote,
}

#: Logical lines of the same program, written with DBOS.
LINES = {"booking_saga/booking_saga.py": 43, "etl/etl.py": 31}


def test_every_definition_has_a_flow() -> None:
    """No JSON among the examples that no flow is compared with, but for the one whose steps are written in three languages."""
    found = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.glob("*/*.json")}
    assert found == {*HAND_WRITTEN, "polyglot/trip.json"}


@pytest.mark.parametrize("document", HAND_WRITTEN)
def test_a_flow_gives_what_was_written_by_hand(document: str, tmp_path: Path) -> None:
    """To the byte."""
    if document.startswith("web_approval"):
        pytest.importorskip("starlette")
    made = HAND_WRITTEN[document](tmp_path)
    by_hand = WorkflowDef.from_json(EXAMPLES / document)
    assert json.dumps(made.definition.to_json()) == json.dumps(by_hand.to_json())


@pytest.mark.parametrize("script", LINES)
def test_as_short_as_with_others(script: str) -> None:
    """Counted as Python counts logical lines."""
    text = io.StringIO((EXAMPLES / script).read_text(encoding="utf-8"))
    assert sum(token.type == tokenize.NEWLINE for token in tokenize.generate_tokens(text.readline)) <= LINES[script]


# ---------------------------------------------------------------------- the saga

SAGA = load("booking_saga/booking_saga.py")
ETL = load("etl/etl.py")


@pytest.fixture
def workers() -> ScriptedWorkers:
    """The workers of both flows; a test scripts those that it wants to fail."""
    return ScriptedWorkers().include(SAGA.booking, ETL.etl)


def _book(engine: Engine) -> Any:
    run = engine.start(SAGA.booking, to="Rome", amount=3)
    engine.settle()
    return run


def _undone(run: Any) -> list[str]:
    return [task.ref for task in run.workflow.tasks if task.ref.endswith("_undo")]


def test_an_approved_trip_is_paid(engine: Engine) -> None:
    """And its tickets are sent."""
    run = _book(engine)
    engine.signal(run.workflow_id, {"result": True})
    assert run.result() == {"seat": "12A", "receipt": "R"}
    assert _undone(run) == []


def test_a_refused_trip_is_undone(engine: Engine) -> None:
    """The hotel first, then the flight."""
    run = _book(engine)
    engine.signal(run.workflow_id, {"result": False})
    engine.run_until_idle()
    assert (run.status, run.workflow.reason) == (WorkflowStatus.FAILED, "refused")
    assert _undone(run) == ["book_hotel_undo", "book_flight_undo"]


def test_nobody_answers(engine: Engine, clock: VirtualClock) -> None:
    """The boss is asked twice, for three days each; then the trip is undone."""
    began = clock.now()
    run = _book(engine)
    engine.run_until_idle()
    assert [task.status for task in run.workflow.tasks if task.ref == "approval"] == [TaskStatus.TIMED_OUT] * 2
    assert 6 * 86_400_000 <= clock.now() - began < 6 * 86_400_000 + 300_000
    assert _undone(run) == ["book_hotel_undo", "book_flight_undo"]


def test_what_cannot_be_paid_is_voided_and_undone(engine: Engine, workers: ScriptedWorkers) -> None:
    """The payment undoes its own steps, then the trip does."""
    workers.capture.fails_terminally("no money")
    workers.void.returns()
    run = _book(engine)
    engine.signal(run.workflow_id, {"result": True})
    engine.run_until_idle()
    assert workers.void.inputs == [{"auth": "A1"}]
    assert _undone(run) == ["book_hotel_undo", "book_flight_undo"]


def test_a_flight_is_tried_three_times(engine: Engine, workers: ScriptedWorkers) -> None:
    """A second apart."""
    workers.book_flight.fails(2).then.returns({"result": "12A"})
    run = _book(engine)
    engine.advance("2s")
    assert run.workflow.task("approval").status is TaskStatus.IN_PROGRESS
    first, *others = (call.at for call in workers.book_flight.calls)
    assert [at - first for at in others] == [1000, 2000]


def test_tickets_are_sent_for_what_was_booked(engine: Engine, workers: ScriptedWorkers) -> None:
    """To the seat, with the receipt."""
    workers.send_tickets.returns()
    run = _book(engine)
    engine.signal(run.workflow_id, {"result": True})
    engine.run_until_idle()
    assert workers.send_tickets.inputs == [{"seat": "12A", "receipt": "R"}]


@pytest.mark.parametrize(("step", "undone"), {"book_flight": [], "book_hotel": ["book_flight_undo"]}.items())
def test_what_cannot_be_booked_is_tried_three_times(engine: Engine, workers: ScriptedWorkers, step: str, undone: list[str]) -> None:
    """A second apart, before what was booked is undone."""
    workers[step].fails()
    run = _book(engine)
    engine.run_until_idle()
    first, *others = (call.at for call in workers[step].calls)
    assert [at - first for at in others] == [1000, 2000]
    assert (run.status, _undone(run)) == (WorkflowStatus.FAILED, undone)


@pytest.mark.parametrize("step", ["send_tickets", "authorize"])
def test_whatever_fails_for_good_undoes_the_trip(engine: Engine, workers: ScriptedWorkers, step: str) -> None:
    """Also the payment's first step, and the tickets."""
    workers[step].fails_terminally()
    run = _book(engine)
    engine.signal(run.workflow_id, {"result": True})
    engine.run_until_idle()
    assert (run.status, _undone(run)) == (WorkflowStatus.FAILED, ["book_hotel_undo", "book_flight_undo"])
    ended = {task.ref: task.status for row in engine.executions() for task in engine.get(row.workflow_id).tasks}
    assert ended[step] is TaskStatus.FAILED_WITH_TERMINAL_ERROR


@pytest.mark.parametrize(("step", "undo"), [("cancel_hotel", "book_hotel_undo"), ("cancel_flight", "book_flight_undo")])
def test_what_cannot_be_undone_is_seen(engine: Engine, workers: ScriptedWorkers, step: str, undo: str) -> None:
    """An undoing that fails for good is a failed task of a failed trip."""
    workers[step].fails_terminally()
    run = _book(engine)
    engine.signal(run.workflow_id, {"result": False})
    engine.run_until_idle()
    assert run.workflow.task(undo).status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
    assert run.status is WorkflowStatus.FAILED


def test_what_cannot_be_voided_is_seen(engine: Engine, workers: ScriptedWorkers) -> None:
    """The payment's undoing is a failed task of the payment."""
    workers.capture.fails_terminally()
    workers.void.fails_terminally()
    run = _book(engine)
    engine.signal(run.workflow_id, {"result": True})
    engine.run_until_idle()
    (payment,) = engine.executions("payment")
    assert engine.get(payment.workflow_id).task("authorize_undo").status is TaskStatus.FAILED_WITH_TERMINAL_ERROR


# ---------------------------------------------------------------------- the ETL


def test_what_stays_broken_is_counted(engine: Engine, workers: ScriptedWorkers) -> None:
    """One of four items fails in all five attempts; another is good at its third."""
    attempts: list[str] = []

    def transform(key: str) -> dict[str, str]:
        attempts.append(key)
        if key == "item-00001" or (key == "item-00003" and attempts.count(key) < 3):
            raise ConnectionError(key)
        return {"result": key}

    workers.transform.does(transform)
    run = engine.start(ETL.etl, count=4)
    assert run.result() == {"good": 3, "broken": 1}
    assert [attempts.count(f"item-0000{number}") for number in range(4)] == [1, 5, 1, 3]
    assert run.progress().fraction == 1


@pytest.mark.slow
def test_a_second_run_has_the_first_ones_result(tmp_path: Path) -> None:
    """Run as its README says; what the retries of broken items log is on stderr."""
    for _ in range(2):
        assert run("etl/etl.py", "night-1", "2", folder=tmp_path).endswith("{'good': 2, 'broken': 0}\n")


@pytest.mark.parametrize("step", ["list_items", "count_up"])
def test_without_a_list_or_a_sum_there_is_no_result(engine: Engine, workers: ScriptedWorkers, step: str) -> None:
    """Only the items may be broken."""
    workers[step].fails_terminally()
    run = engine.start(ETL.etl, count=1)
    engine.run_until_idle()
    assert run.status is WorkflowStatus.FAILED
    assert run.workflow.task(step).status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
