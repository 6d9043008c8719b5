"""What `retry=` says, and what holds where nothing does."""

from itertools import pairwise

import pytest

from conductorlite import Engine, EngineConfig, VirtualClock, Workers, WorkflowDef, flow, task
from conductorlite.errors import BuildError, InvalidInput
from conductorlite.flows import Backoff
from conductorlite.model.definitions import Semantics


def delays(run):
    """Seconds between the end of each attempt and the next one."""
    rows = sorted(run.tasks, key=lambda row: row.attempt)
    return [(after.started_at - before.ended_at) / 1000 for before, after in pairwise(rows)]


def failing(retry):
    """A flow whose task always fails."""

    @task(retry=retry)
    def charge() -> int:
        raise ValueError("a bug")

    @flow
    def pay() -> int:
        return charge()

    return pay


@pytest.mark.parametrize(
    ("retry", "expected"),
    [
        (None, [1, 2, 4]),
        (0, []),
        (1, [1]),
        (8, [1, 2, 4, 8, 16, 32, 60, 60]),
        (Backoff(2, first="10s"), [10, 10]),
        (Backoff(2), [1, 1]),
    ],
)
def test_delays(retry, expected):
    """The attempts of a failing function come after the delays that `retry=` says."""
    pay = failing(retry)
    with Engine(workers=[pay], clock=VirtualClock(0)) as engine:
        run = engine.start(pay)
        engine.run_until_idle()
        assert (run.status, delays(run)) == ("FAILED", expected)


def test_a_call_says_how_many():
    """A call gives the number of retries; the delays are those of the task."""

    @task
    def charge() -> int:
        raise ValueError("a bug")

    @flow
    def pay() -> int:
        return charge.options(retry=4)()

    with Engine(workers=[pay], clock=VirtualClock(0)) as engine:
        run = engine.start(pay)
        engine.run_until_idle()
        assert delays(run) == [1, 2, 4, 8]


def test_json_keeps_what_conductor_does():
    """A definition from JSON has Conductor's retries, three of them a minute apart."""

    def charge():
        raise ValueError("a bug")

    workers = Workers()
    workers.add("charge", charge)
    step = {"name": "charge", "taskReferenceName": "charge"}
    with Engine(workers=workers, clock=VirtualClock(0), config=EngineConfig(semantics=Semantics.OSS)) as engine:
        run = engine.start(WorkflowDef.from_json({"name": "w", "tasks": [step]}))
        engine.run_until_idle()
        assert delays(run) == [60, 60, 60]


@pytest.mark.parametrize(
    ("made", "error", "text"),
    [
        (lambda: task(retry="3"), InvalidInput, "a number of retries or a Backoff, such as Backoff(3, first='10s'), not '3'"),
        (lambda: task(retry=True), InvalidInput, "not True"),
        (lambda: task(name="t", retry=-1)(print), InvalidInput, "retryCount"),
        (lambda: failing(0).options(retries=2), BuildError, "there is no option 'retries'; did you mean 'retry'?"),
    ],
)
def test_mistakes(made, error, text):
    """A wrong argument is refused with a text that says what is wrong."""
    with pytest.raises(error) as caught:
        made()
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [({"retries": 2}, "no option 'retries'; did you mean 'retry'?"), ({"retry": Backoff(2)}, "retry= of a call is a number")],
)
def test_mistakes_in_a_call(options, text):
    """A wrong option of a call is refused when the flow is compiled."""

    @task
    def charge() -> int:
        return 1

    @flow(by_calls=True)
    def pay() -> int:
        return charge.options(**options)()

    with pytest.raises(BuildError) as caught:
        pay.definition  # noqa: B018
    assert text in str(caught.value)
