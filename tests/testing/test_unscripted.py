"""A test never calls a real function by accident, and a script that is never used fails it."""

from __future__ import annotations

import pytest

from conductorlite import Engine, VirtualClock, flow, task
from conductorlite.errors import WorkflowFailed
from conductorlite.testing import ScriptedWorkers

pytest_plugins = ["pytester"]

SENT: list[int] = []


@task
def charge(amount: int) -> int:
    """Send a payment."""
    SENT.append(amount)
    return amount


@flow
def pay(amount: int) -> int:
    """Charge once."""
    return charge(amount)


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    """Forget the payments of other tests."""
    SENT.clear()


def run(workers: ScriptedWorkers) -> object:
    """Run the flow with these workers on a virtual clock."""
    with Engine(workers=workers, clock=VirtualClock()) as engine:
        return engine.start(pay, amount=3).result()


def test_a_task_without_a_script_fails_at_once() -> None:
    """The real function is not called, nothing is tried again, and the reason says what to write."""
    workers = ScriptedWorkers()
    with pytest.raises(WorkflowFailed, match=r"task 'charge' has no script: write workers\['charge'\].*workers.real\('charge'\)"):
        run(workers)
    assert SENT == []
    assert list(workers.unscripted) == ["charge"]


def test_a_misspelt_script_is_named() -> None:
    """The reason names the script that was never used, and `unused` names the task type that is meant."""
    workers = ScriptedWorkers()
    workers.chrage.returns(1)
    with pytest.raises(WorkflowFailed, match="the script that was never used is for 'chrage'"):
        run(workers)
    assert workers.unused() == ["the script of 'chrage' was never used; did you mean 'charge'?"]


@pytest.mark.parametrize("before", [True, False])
def test_real_functions_run_where_they_are_meant(before: bool) -> None:
    """Said before the flow is started or after it, for one type or for all."""
    workers = ScriptedWorkers()
    with Engine(workers=workers, clock=VirtualClock()) as engine:
        if before:
            workers.real("charge")
        started = engine.start(pay, amount=3)
        if not before:
            workers.real()
        assert started.result() == 3
    assert SENT == [3]


def test_a_function_of_the_test_is_no_accident() -> None:
    """What the test itself includes or adds runs."""
    assert run(ScriptedWorkers().include(pay)) == 3
    workers = ScriptedWorkers()
    workers.add("charge", lambda amount: {"result": amount + 1})
    with Engine(workers=workers, clock=VirtualClock()) as engine:
        assert engine.start(pay.definition, {"amount": 3}).result() == {"result": 4}


def test_a_script_that_is_used_looked_at_or_optional_is_no_mistake() -> None:
    """Only a script of which the test can know nothing is reported."""
    workers = ScriptedWorkers()
    workers.charge.returns(7)
    workers.refund.returns()
    workers.ship.returns().optional()
    assert workers.unused() == ["the script of 'charge' was never used", "the script of 'refund' was never used"]
    assert run(workers) == 7
    assert workers.refund.calls == []
    assert workers.unused() == []


def test_a_case_that_never_fits_is_reported() -> None:
    """A script for some calls of a type is one of its own."""
    workers = ScriptedWorkers()
    workers.charge.returns(7)
    workers.charge.when(input={"amount": 4}).fails()
    run(workers)
    assert workers.unused() == ["the script of 'charge' was never used"]


@pytest.mark.parametrize("name", ["add", "calls", "follow", "worker_id", "task", "include", "get", "real", "unused", "adopt"])
def test_a_type_of_the_name_of_an_attribute_is_scripted_in_brackets(name: str) -> None:
    """The error of the attribute says so, and the brackets work."""
    workers = ScriptedWorkers()
    with pytest.raises(AttributeError, match=rf"workers\['{name}'\]"):
        getattr(workers, name).returns({})
    workers[name].returns({"a": 1})
    assert workers[name].steps


TESTS = """
from conductorlite import flow, task

@task
def charge(amount: int) -> int:
    raise SystemExit("the real payment was sent")

@flow
def pay(amount: int) -> int:
    return charge(amount)

def test_misspelt(engine, workers):
    workers.chrage.returns(1)
    engine.start(pay, amount=1)
    engine.run_until_idle()

def test_without_a_script(engine):
    engine.start(pay, amount=1)
    engine.run_until_idle()

def test_never_used(engine, workers):
    workers.charge.returns(1)

def test_fine(engine, workers):
    workers.charge.returns(1)
    assert engine.start(pay, amount=1).result() == 1
"""


def test_the_fixtures_fail_the_test(pytester: pytest.Pytester) -> None:
    """Also where the test itself would have passed; the report says why."""
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, failed=6)
    result.stdout.fnmatch_lines(["*did you mean 'charge'?*", "*task 'charge' has no script*"])
