"""The part of the suite about finding executions: listings, idempotency keys; and about what is known of polls."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from conductorlite.decisions import Decision
from conductorlite.errors import AlreadyExists, KeyTaken
from conductorlite.executions import PollData, WorkflowStatus
from conductorlite.ports import Backend, ExecutionFilter, ReadingTransaction
from conductorlite.testing.conformance.samples import dump, event, workflow

__all__ = ["LookupConformance"]


def _create(backend: Backend, workflow_id: str, replaces: str | None = None, **fields: Any) -> None:
    with backend.writing() as tx:
        tx.apply(Decision(workflow=workflow(workflow_id, **fields), created=True, replaces=replaces))


def _listed(view: ReadingTransaction, after: tuple[int, str] | None = None, limit: int = 9, **fields: Any) -> list[str]:
    return [row.workflow_id for row in view.executions(ExecutionFilter(**fields), after, limit)]


class LookupConformance:
    """Executions by what they are, and by the key they were started with."""

    def test_executions_are_listed_newest_first(self, backend: Backend) -> None:
        """A page is in descending order of (created_at, workflow_id), after a mark, of those that match every filter."""
        _create(backend, "a", created_at=1, correlation_id="c")
        _create(backend, "b", created_at=3, name="other", correlation_id="c", parent_workflow_id="a")
        _create(backend, "d", created_at=2, parent_workflow_id="a")
        _create(backend, "c", created_at=2, correlation_id="c")
        with backend.reading() as view:
            rows = {name: view.workflow(name) for name in "abcd"}
            assert list(view.executions(ExecutionFilter(), None, 9)) == [rows["b"], rows["d"], rows["c"], rows["a"]]
            assert _listed(view, limit=2) == ["b", "d"]
            assert _listed(view, after=(2, "d"), limit=2) == ["c", "a"]
            assert _listed(view, after=(1, "a")) == []
            assert _listed(view, name="order") == ["d", "c", "a"]
            assert _listed(view, name="order", after=(2, "d"), limit=1) == ["c"]
            assert _listed(view, correlation_id="c") == ["b", "c", "a"]
            assert _listed(view, correlation_id="c", name="order", status=WorkflowStatus.RUNNING) == ["c", "a"]
            assert _listed(view, parent_workflow_id="a") == ["b", "d"]
            assert _listed(view, parent_workflow_id="a", correlation_id="c") == ["b"]
            assert _listed(view, parent_workflow_id="b") == []

    def test_a_listing_follows_the_status(self, backend: Backend) -> None:
        """An execution is listed under the status it has now; a removed one nowhere."""
        for name in ("a", "b"):
            _create(backend, name)
        with backend.writing() as tx:
            row = tx.workflow("a")
            assert row is not None
            tx.apply(Decision(workflow=attrs.evolve(row, status=WorkflowStatus.FAILED)))
            assert _listed(tx, status=WorkflowStatus.RUNNING) == ["b"]
            assert _listed(tx, status=WorkflowStatus.FAILED) == ["a"]
            assert _listed(tx, name="order", status=WorkflowStatus.FAILED) == ["a"]
            assert _listed(tx, name="order") == ["b", "a"]
            tx.remove("a")
            assert _listed(tx) == _listed(tx, name="order") == ["b"]
            assert _listed(tx, status=WorkflowStatus.FAILED) == []

    def test_a_listing_follows_name_and_correlation_id(self, backend: Backend) -> None:
        """A decision that changes the name or the correlation id of an execution changes where it is listed."""
        _create(backend, "a", correlation_id="c")
        with backend.writing() as tx:
            for fields in ({"correlation_id": "d"}, {"name": "other"}, {"correlation_id": None}):
                row = tx.workflow("a")
                assert row is not None
                changed = attrs.evolve(row, **fields)
                tx.apply(Decision(workflow=changed))
                assert tx.workflow("a") == attrs.evolve(changed, fence=row.fence + 1)
            assert _listed(tx, name="order") == _listed(tx, correlation_id="c") == _listed(tx, correlation_id="d") == []
            assert _listed(tx, name="other") == _listed(tx) == ["a"]

    def test_a_key_belongs_to_one_execution_of_a_name(self, backend: Backend) -> None:
        """A second execution of the same name and key raises KeyTaken naming the first, and nothing of it is stored."""
        _create(backend, "w", idempotency_key="k")
        _create(backend, "v", idempotency_key="k", name="other")
        _create(backend, "u", idempotency_key="k2")
        with backend.reading() as view:
            before = dump(view)
            assert [view.key_holder("order", "k"), view.key_holder("other", "k")] == ["w", "v"]
            assert view.key_holder("order", "none") is None
        with backend.writing() as tx:
            second = workflow("x", idempotency_key="k")
            with pytest.raises(KeyTaken) as refused:
                tx.apply(Decision(workflow=second, created=True, timers=(event("lost", workflow_id="x"),)))
            assert refused.value.workflow_id == "w"
            with pytest.raises(KeyTaken):
                tx.apply(Decision(workflow=second, created=True, replaces="u"))
        with backend.reading() as view:
            assert dump(view) == before

    def test_a_key_moves_only_from_the_one_that_was_read(self, backend: Backend) -> None:
        """With `replaces` the key goes to the new execution if that one still holds it; removing the old one leaves it there."""
        _create(backend, "w", idempotency_key="k")
        _create(backend, "v", replaces="w", idempotency_key="k")
        with pytest.raises(KeyTaken):
            _create(backend, "u", replaces="w", idempotency_key="k")
        with backend.writing() as tx:
            tx.remove("w")
            assert tx.key_holder("order", "k") == "v"
            tx.remove("v")
            assert tx.key_holder("order", "k") is None
        _create(backend, "u", replaces="w", idempotency_key="k")

    @pytest.mark.parametrize("company", [False, True])
    def test_a_key_is_not_kept_for_what_was_not_created(self, backend: Backend, company: bool) -> None:
        """When the id exists already the key stays free, alone in a transaction and beside other decisions."""
        _create(backend, "w")
        with backend.writing() as tx:
            if company:
                tx.post([event()])
            with pytest.raises(AlreadyExists):
                tx.apply(Decision(workflow=workflow("w", idempotency_key="k"), created=True))
            assert tx.key_holder("order", "k") is None
            assert len(tx.inbox("w")) == company

    def test_the_last_poll_counts(self, backend: Backend) -> None:
        """Per type and domain the latest poll is known, of one instant the last; an older one changes nothing."""
        polls = [
            PollData(queue_name="b", worker_id="w1", last_poll_time=5),
            PollData(queue_name="a", domain="eu", worker_id="w1", last_poll_time=5),
            PollData(queue_name="a", worker_id=None, last_poll_time=6),
            PollData(queue_name="a", domain="eu", worker_id="w2", last_poll_time=7),
            PollData(queue_name="a", domain="eu", worker_id="w3", last_poll_time=6),
            PollData(queue_name="b", worker_id="w2", last_poll_time=5),
        ]
        with backend.writing() as tx:
            tx.record_polls(polls)
        with backend.reading() as view:
            assert list(view.poll_data(None)) == [polls[2], polls[3], polls[5]]
            assert list(view.poll_data("a")) == [polls[2], polls[3]]
            assert list(view.poll_data("c")) == []
