"""Virtual runs: what comes out of them can be worked out by hand where chance plays no part."""

from __future__ import annotations

import pytest
from designs import flow, node, work

from conductorlite import Engine, SubWorkflowParams, VirtualClock, Workers
from conductorlite.errors import InvalidInput
from conductorlite.testing import ScriptedWorkers, Work, exponential, fixed, lognormal, measured, uniform, what_if

ONE = flow("one", [node("SIMPLE", "a")])
ASKS = flow("asks", [node("SIMPLE", "a"), node("HUMAN", "approval"), node("SIMPLE", "b")])


def test_a_queue_worked_out_by_hand() -> None:
    """One worker that takes 10 s and work every 5 s: the n-th waits 5 s longer than the one before."""
    forecast = what_if(ONE, tasks={"a": Work(takes="10s", workers=1)}, arrivals=fixed("5s"), runs=11)
    assert list(forecast.took_ms["one"]) == [10_000 + 5_000 * number for number in range(11)]
    assert (forecast.p50("one"), forecast.p99("one")) == (35_000, 60_000)
    assert forecast.p50("one") < "36s"
    assert not forecast.p50("one") > "35s"
    assert forecast.p50("one") >= "35s"
    assert forecast.p99("one") <= "1m"
    assert forecast.late("one", "35s") == pytest.approx(5 / 11)
    assert (forecast.queue("a"), forecast.concurrency("a")) == (5, 1)
    enough = what_if(ONE, tasks={"a": "10s"}, arrivals=fixed("5s"), runs=11)
    assert enough.p99("one") == 10_000
    assert (enough.queue("a"), enough.concurrency("a")) == (0, 2)
    assert "6.00" in enough.beside(forecast)
    assert "p99" in str(enough)
    assert enough.plot("one").count("\n") == 11


def test_failures_cost_retries() -> None:
    """A call that always fails is tried as its definition says, and its execution fails."""
    broken = flow("broken", [work("a", task={"retry_count": 1})])
    forecast = what_if(broken, tasks={"a": Work(takes="1s", fails=1)}, arrivals="1/h", runs=3)
    assert forecast.statuses["broken"] == {"FAILED": 3}
    assert forecast.tasks["a"].calls == forecast.tasks["a"].failed == 6
    assert set(forecast.took_ms["broken"]) == {3_000}


def test_people_take_their_time() -> None:
    """A signal comes so long after it is waited for."""
    forecast = what_if(ASKS, tasks={"a": "1s", "b": "1s"}, arrivals="1/s", runs=5, signals={"approval": "2h"})
    assert set(forecast.took_ms["asks"]) == {7_202_000}
    assert forecast.statuses["asks"] == {"COMPLETED": 5}


def test_chance_is_the_same_each_time_and_for_what_stays_the_same() -> None:
    """The same seed gives the same lengths; more workers change nobody's luck."""
    tasks = {"a": lognormal("2s", "9s")}
    first, again, other = (what_if(ONE, tasks=tasks, arrivals="10/m", runs=60, seed=seed) for seed in (1, 1, 2))
    assert first.took_ms == again.took_ms != other.took_ms
    many = what_if(ONE, tasks={"a": Work(takes=tasks["a"], workers=60)}, arrivals="10/m", runs=60, seed=1)
    assert many.took_ms == first.took_ms
    assert 1_000 < first.p50("one") < 4_000


def test_distributions_are_what_they_are_called() -> None:
    """Their middles and tails."""
    assert (fixed("3s").at(0.9), uniform("1s", "3s").at(0.5)) == (3_000, 2_000)
    assert exponential("1s").at(0.5) == pytest.approx(693.1, abs=0.1)
    log = lognormal("2s", "9s")
    assert (log.at(0.5), log.at(0.95)) == (pytest.approx(2_000), pytest.approx(9_000))


def test_what_was_measured_is_what_is_drawn() -> None:
    """From a store's own history: lengths, failures, outputs."""
    workers = Workers()
    workers.add("a", lambda: {"x": 1})
    with Engine(workers=workers, clock=VirtualClock()) as engine:
        for _ in range(3):
            engine.start(ONE).result()
        works = measured(engine, "one")
    assert (works["a"].fails, works["a"].output, works["a"].takes.at(0.5)) == (0, {"x": 1}, 0)
    assert what_if(ONE, tasks=works, arrivals="1/s", runs=2).p99("one") == 0


def test_people_are_asked_in_each_round_of_a_loop() -> None:
    """The signal of a reference comes in every round."""
    loop = node("DO_WHILE", "loop", loop_condition="$.loop['iteration'] < 3", loop_over=[node("HUMAN", "asked")])
    asked = what_if(flow("rounds", [loop]), tasks={}, arrivals="1/h", signals={"asked": "5m"}, runs=2)
    assert asked.statuses["rounds"] == {"COMPLETED": 2}
    assert asked.p50("rounds") == "15m"
    assert asked.p50("rounds") != "14m"


def test_what_was_called_off_has_not_failed() -> None:
    """A call that ends with its execution says nothing of how often calls fail."""
    workers = ScriptedWorkers()
    workers.step.takes("1m").returns()
    with Engine(workers=workers, clock=VirtualClock()) as engine:
        engine.start(flow("one", [work("step")])).result()
        run = engine.start(flow("one", [work("step")]))
        engine.advance("10s")
        run.terminate()
        assert str(run.workflow.task("step").status) == "CANCELED"
        assert measured(engine, "one")["step"].fails == 0


def test_a_share_is_no_percentage() -> None:
    """Five of a hundred are 0.05."""
    with pytest.raises(InvalidInput, match="from 0 to 1"):
        Work(takes="1s", fails=5)


def test_names_that_there_are_not_are_refused() -> None:
    """A share of nothing must not pass for a small one."""
    found = what_if(flow("one", [work("step")]), tasks={"step": "1s"}, arrivals="1/h", runs=2)
    for ask in (found.queue, found.concurrency, found.plot, found.p99, lambda name: found.late(name, "1h")):
        with pytest.raises(InvalidInput, match="'stepp'"):
            ask("stepp")
    with pytest.raises(InvalidInput, match="two rows"):
        found.plot("one", rows=1)


def test_tasks_of_registered_workflows_are_asked_for_too() -> None:
    """What a sub-workflow needs is missed before it waits for ever."""
    above = flow("above", [node("SUB_WORKFLOW", "sub", sub_workflow_param=SubWorkflowParams(name="below"))])
    with pytest.raises(InvalidInput, match="the task type 'inner'"):
        what_if(above, tasks={}, arrivals="1/h", registered=[flow("below", [work("inner")])], runs=1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tasks": {}}, "nothing was said of the task type 'a'"),
        ({"arrivals": "often"}, "arrivals are a rate"),
        ({"arrivals": "0/h"}, "arrivals are a rate"),
        ({"tasks": {"a": []}}, "nothing was measured"),
        ({"arrivals": 50}, "arrivals are a rate"),
        ({"runs": 0}, "needs a run"),
        ({"signals": {"nobody": "1m"}}, "there is no task 'nobody'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options: dict[str, object], text: str) -> None:
    """With what is missing."""
    with pytest.raises(InvalidInput, match=text):
        what_if(ONE, **{"tasks": {"a": "1s"}, "arrivals": "1/s", "runs": 1, **options})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="no execution of 'two' has ended"):
        what_if(ONE, tasks={"a": "1s"}, arrivals="1/s", runs=1).p50("two")
