"""Keys that take turns in the line of a limit: shares by weight, nothing saved up, priorities first, order within a key."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import attrs
import pytest
from engine_kit import Bench, NewBench, flow, task_def
from hypothesis import given
from hypothesis import strategies as st

from conductorlite import Engine, TaskResult, TaskStatus, WorkflowDef, WorkflowTask
from conductorlite.errors import InvalidDefinition
from conductorlite.model.fairness import charge, cost_of, pay_back, spend, unpaid
from conductorlite.model.limits import LimitChange

TENANT = "${workflow.input.tenant}"


def _shared(**fields: Any) -> WorkflowDef:
    limits = {"concurrent_exec_limit": 1, "fairness_key": TENANT, **fields}
    return flow(WorkflowTask(name="a", task_reference_name="a", task_definition=task_def("a", **limits)))


def _start(engine: Engine, definition: WorkflowDef, tenant: str | None, count: int, priority: int = 0) -> None:
    given: dict[str, Any] = {} if tenant is None else {"tenant": tenant}
    for number in range(count):
        engine.start(definition, given, workflow_id=f"{tenant}-{priority}-{number:03}", priority=priority)
    engine.settle()


def _handed_out(engine: Engine, count: int) -> list[str]:
    """Whose tasks come one after another, each completed before the next."""
    found: list[str] = []
    for _ in range(count):
        (task,) = engine.poll("a")
        found.append(task.workflow_id)
        engine.update_task(TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED))
        engine.settle()
    return found


def _tenants(ids: list[str]) -> list[str]:
    return [one.partition("-")[0] for one in ids]


def test_a_small_tenant_is_not_behind_the_flood_of_another(bench: Bench) -> None:
    """Whoever comes after a hundred of another has every second turn, in its own order."""
    engine, definition = bench.engine, _shared()
    _start(engine, definition, "flood", 20)
    _start(engine, definition, "small", 3)
    found = _handed_out(engine, 8)
    assert _tenants(found) == ["flood", "small", "flood", "small", "flood", "small", "flood", "flood"]
    assert [one for one in found if one.startswith("small")] == [f"small-0-00{number}" for number in range(3)]
    assert [one for one in found if one.startswith("flood")] == [f"flood-0-00{number}" for number in range(5)]
    assert not engine.admin.check()


def test_turns_are_shared_by_weight(bench: Bench) -> None:
    """Of 40 hand-outs a tenant of weight 3 has 30, whoever came first."""
    engine, definition = bench.engine, _shared(fairness_weights={"big": 3})
    _start(engine, definition, "small", 40)
    bench.at(1)
    _start(engine, definition, "big", 40)
    found = _tenants(_handed_out(engine, 41)[1:])
    assert (found.count("big"), found.count("small")) == (30, 10)


def test_who_was_idle_saves_nothing_up(bench: Bench) -> None:
    """A tenant that had no tasks while another had many begins with its turn, and has no more than its share."""
    engine, definition = bench.engine, _shared()
    _start(engine, definition, "flood", 30)
    _handed_out(engine, 10)
    _start(engine, definition, "late", 10)
    assert _tenants(_handed_out(engine, 6)).count("late") == 3


def test_the_priority_comes_first(bench: Bench) -> None:
    """Turns are taken within a priority; what goes first by its priority costs the others of its key nothing."""
    engine, definition = bench.engine, _shared()
    _start(engine, definition, "x", 4)
    _start(engine, definition, "y", 2)
    _start(engine, definition, "x", 2, priority=9)
    assert _handed_out(engine, 7) == ["x-0-000", "x-9-000", "x-9-001", "y-0-000", "x-0-001", "y-0-001", "x-0-002"]


def test_what_is_taken_away_has_cost_nothing(bench: Bench) -> None:
    """A tenant whose waiting tasks are terminated pays for none of them."""
    engine, definition = bench.engine, _shared()
    _start(engine, definition, "first", 1)
    _start(engine, definition, "x", 20)
    for number in range(20):
        engine.terminate(f"x-0-{number:03}")
    engine.settle()
    _start(engine, definition, "y", 4)
    _start(engine, definition, "z", 2)
    engine.start(definition, {"tenant": "x"}, workflow_id="x-0-100")
    engine.settle()
    assert "x-0-100" in _handed_out(engine, 4)
    assert not engine.admin.check()


def test_tasks_without_a_key_share_one(bench: Bench) -> None:
    """An expression that yields nothing is a key of its own."""
    engine, definition = bench.engine, _shared()
    _start(engine, definition, None, 4)
    _start(engine, definition, "x", 2)
    assert _tenants(_handed_out(engine, 5)) == ["None", "x", "None", "x", "None"]


def test_a_rate_limit_has_turns_too(bench: Bench) -> None:
    """Places in a window are given in turns, and an offer that nobody takes keeps its own."""
    engine = bench.engine
    definition = _shared(concurrent_exec_limit=None, rate_limit_per_frequency=1, rate_limit_frequency_s=10)
    _start(engine, definition, "x", 4)
    _start(engine, definition, "y", 2)
    found: list[str] = []
    for turn in range(6):
        bench.at(10 * turn + 6)  # the offer has ended
        (task,) = engine.poll("a")
        found.append(task.workflow_id)
        engine.update_task(TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED))
        engine.settle()
        assert not engine.admin.check()
    assert _tenants(found) == ["x", "y", "x", "y", "x", "x"]


def test_a_task_that_is_given_back_and_paused_executions_keep_the_laws(bench: Bench) -> None:
    """Who leaves the line and comes again pays once."""
    engine, definition = bench.engine, _shared()
    _start(engine, definition, "x", 3)
    _start(engine, definition, "y", 3)
    for one in ("x-0-001", "y-0-001"):
        engine.pause(one)
    engine.settle()
    assert not engine.admin.check()
    for one in ("x-0-001", "y-0-001"):
        engine.resume(one)
    engine.settle()
    (task,) = engine.poll("a")
    result = TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.IN_PROGRESS, callback_after_ms=1_000)
    engine.update_task(result)
    engine.settle()
    assert not engine.admin.check()
    bench.at(60)
    assert sorted(_tenants(_handed_out(engine, 6))) == ["x", "x", "x", "y", "y", "y"]
    assert engine.limits.get("task:a").in_use == 0
    assert not engine.admin.check()


def test_the_place_in_line_is_explained(bench: Bench) -> None:
    """The number is that of the turns, not of the arrival."""
    engine, definition = bench.engine, _shared()
    _start(engine, definition, "flood", 20)
    _start(engine, definition, "small", 1)
    assert "it is next in the line, by the turns of 'small'" in str(engine.explain("small-0-000", "a"))
    assert "it is number 3 in the line, by the turns of 'flood'" in str(engine.explain("flood-0-002", "a"))
    line = engine.limits.get("task:a").line
    assert [member.fairness_key for member in line[:3]] == ["small", "flood", "flood"]


def test_check_finds_who_has_not_paid(bench: Bench) -> None:
    """Tags that are lost are found: whoever waits has paid."""
    engine = bench.engine
    _start(engine, _shared(), "x", 3)
    with engine.backend.writing() as tx:
        limit = tx.limits.line("task:a", 1).limit
        tx.limits.put_limit(LimitChange(limit=attrs.evolve(limit, tags='{"0":[7,{"x":3}]}')))
    found = [str(one) for one in engine.admin.check()]
    with engine.backend.writing() as tx:
        kept = tx.limits.line("task:a", 1).limit
        tx.limits.put_limit(LimitChange(limit=attrs.evolve(kept, tags=limit.tags)))
    assert any("have not paid" in one for one in found)
    assert any("before its virtual time" in one for one in found)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"concurrent_exec_limit": None}, "fairnessKey: needs a limit"),
        ({"fairness_key": None, "fairness_weights": {"x": 2}}, "fairnessWeights: needs a fairnessKey"),
        ({"fairness_weights": {"x": 0}}, "must be a whole number from 1 to 1,000"),
        ({"fairness_weights": {"x": 1.5}}, "expected an integer"),
        ({"fairness_weights": {"x": 1_001}}, "must be a whole number from 1 to 1,000"),
    ],
)
def test_what_cannot_be_shared_is_refused(new_bench: NewBench, fields: dict[str, Any], said: str) -> None:
    """A key without a limit, weights without a key, and weights that are none."""
    with pytest.raises(InvalidDefinition, match=said):
        new_bench().engine.start(_shared(**fields))


# ------------------------------------------------------------------ the tags, compared with fractions

_JOIN = st.tuples(st.just("join"), st.integers(0, 1), st.sampled_from("xyz"))
_ACTS = st.lists(st.one_of(_JOIN, st.just(("hand",)), st.tuples(st.just("leave"), st.integers(0, 9))), max_size=60)
_WEIGHTS = {"x": 1, "y": 3, "z": 4}


@given(_ACTS)
def test_tags_are_those_of_start_time_fair_queueing(acts: list[tuple[Any, ...]]) -> None:
    """The rule written anew, in fractions and with every finish tag kept, orders members in the same way."""
    tags, waiting = "", list[tuple[int, int, Fraction, int, str]]()
    now, finish = dict[int, Fraction](), dict[tuple[int, str], Fraction]()
    for number, act in enumerate(acts):
        if act[0] == "join":
            _, priority, key = act
            start, tags = charge(tags, priority, key, cost_of(_WEIGHTS[key]))
            exact = max(now.get(priority, Fraction(0)), finish.get((priority, key), Fraction(0)))
            finish[(priority, key)] = exact + Fraction(1, _WEIGHTS[key])
            waiting.append((-priority, start, exact, number, key))
        elif waiting and act[0] == "hand":
            first = min(waiting)
            assert first == min(waiting, key=lambda one: (one[0], one[2], one[3]))
            waiting.remove(first)
            tags = spend(tags, -first[0], first[1])
            now[-first[0]] = max(now.get(-first[0], Fraction(0)), first[2])
        elif waiting and act[0] == "leave":
            gone = waiting.pop(act[1] % len(waiting))
            tags = pay_back(tags, -gone[0], gone[4], cost_of(_WEIGHTS[gone[4]]))
            priority = -gone[0]
            known = max(now.get(priority, Fraction(0)), finish[(priority, gone[4])])
            finish[(priority, gone[4])] = known - Fraction(1, _WEIGHTS[gone[4]])
        assert unpaid(tags, [(-one[0], one[4], cost_of(_WEIGHTS[one[4]])) for one in waiting]) == []
