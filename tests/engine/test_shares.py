"""Engines that poll the same queues for their own workers: each begins with its own share, and nothing is left out."""

from __future__ import annotations

from pathlib import Path

import attrs
from engine_kit import T0, flow, simple

from conductorlite import Engine, TaskResult, TaskStatus, VirtualClock
from conductorlite.engine.holders import Holding
from conductorlite.engine.turn_types import Asked, Taking, TurnResult
from conductorlite.model.canonical import EMPTY
from conductorlite.model.decisions import Message
from conductorlite.testing.faults import lay_empty_store

CHAIN = flow(simple("a"), simple("b"), name="chain")


def offered(engine: Engine, count: int = 100) -> list[Message]:
    """What a queue offers first."""
    with engine.backend.reading() as view:
        return list(view.queue.offered("a", engine.clock.now(), count))


def begun(path: str, count: int) -> None:
    """So many executions, by an engine that goes."""
    with Engine(path) as engine:
        engine.start_many(CHAIN, [{}] * count)


def holding(*engines: Engine) -> list[Holding]:
    """They hand out tasks, and have seen each other."""
    for engine in engines:
        engine.core.holding.begin()
    for engine in engines:
        engine.core.holding.recover()
    return [engine.core.holding for engine in engines]


def test_two_engines_begin_with_different_tasks(tmp_path: Path) -> None:
    """As soon as each has seen the other; when the other one has gone, everything is its own."""
    path = lay_empty_store(tmp_path / "store.db")
    begun(path, 40)
    with Engine(path) as one, Engine(path) as two:
        found = offered(one)
        shares = [held.own(found, 10) for held in holding(one, two)]
        assert sorted(map(found.index, shares[0] + shares[1])) == list(range(40))
        assert all(share == sorted(share, key=found.index) for share in shares)
        first = one.core.holding
        assert first.own([], 10) == []
        assert first.own(shares[1][:1], 10) == shares[1][:1]
        two.close()
        first.recover()
        assert first.own(found, 10) == found
        assert len(one.poll("a", worker_id="w", count=40)) == 40


def test_what_an_engine_has_begun_is_its_own(tmp_path: Path) -> None:
    """Of which it knows the rows; it takes that of others when it has too little."""
    path = lay_empty_store(tmp_path / "store.db")
    with Engine(path) as one, Engine(path) as two:
        ids = two.start_many(CHAIN, [{}] * 8), one.start_many(CHAIN, [{}] * 8)
        found = offered(one)
        for held, own in zip(holding(one, two), reversed(ids), strict=True):
            assert [message.workflow_id for message in held.own(found, 16)] == own
            assert len(held.own(found, 17)) > 8


def test_what_another_engine_has_gone_on_with_is_not_its_own(tmp_path: Path) -> None:
    """Its rows are forgotten: a turn that is decided on them would be late."""
    path = lay_empty_store(tmp_path / "store.db")
    with Engine(path) as one, Engine(path) as two:
        ids = one.start_many(CHAIN, [{}] * 4)
        held = holding(one, two)[0]
        for _ in range(2):
            task = two.poll("a", worker_id="w")[0]
            two.update_task(TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED))
        assert [one.core.holding.offers(message) for message in offered(one)] == [True, True]
        with one.backend.reading() as view:
            assert not any(map(one.core.holding.offers, view.queue.offered("b", one.clock.now(), 9)))
        assert [one.core.turns.residents.peek(workflow_id) is None for workflow_id in ids] == [True, True, False, False]
        assert held.own(offered(one), 2) == offered(one)


def test_what_comes_first_is_not_passed_over_for_a_share(tmp_path: Path) -> None:
    """Whatever has a higher priority is taken before those of the own share."""
    path = lay_empty_store(tmp_path / "store.db")
    begun(path, 40)
    with Engine(path) as one, Engine(path) as two:
        found = offered(one)
        first, _ = holding(one, two)
        own = first.own(found, 10)
        urgent = attrs.evolve(next(message for message in found if message not in own), priority=7)
        assert first.own([urgent, *own], 10) == [urgent, *own]


def test_in_virtual_time_one_share_is_all(tmp_path: Path) -> None:
    """The same program does the same again."""
    path = lay_empty_store(tmp_path / "store.db")
    with Engine(path, clock=VirtualClock(T0)) as one, Engine(path, clock=VirtualClock(T0)) as two:
        one.start_many(CHAIN, [{}] * 20)
        assert [held.ahead for held in holding(one, two)] == [1, 1]


def test_polls_for_what_others_have_taken_change_nothing(tmp_path: Path) -> None:
    """Decided on rows that are old: the fences stay, so the reports of those who have the tasks are not late."""
    path = lay_empty_store(tmp_path / "store.db")
    with Engine(path, clock=VirtualClock(T0)) as one, Engine(path, clock=VirtualClock(T0)) as two:
        ids = one.start_many(CHAIN, [{}] * 3)
        found = offered(one)
        assert len(two.poll("a", worker_id="w", count=2)) == 2
        fences = [two.get(workflow_id).fence for workflow_id in ids]
        asked = [
            Asked(workflow_id=message.workflow_id, events=[Taking(data=EMPTY, owner="").poll(message, T0)]) for message in found
        ]
        replies = [result.replies for result in one.core.groups.run(asked) if isinstance(result, TurnResult)]
        assert sorted(len(each) for each in replies) == [0, 0, 1]
        after = [two.get(workflow_id).fence for workflow_id in ids]
        assert sorted(late - early for early, late in zip(fences, after, strict=True)) == [0, 0, 1]
        assert one.admin.check() == []
