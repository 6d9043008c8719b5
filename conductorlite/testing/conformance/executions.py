"""The part of the suite about executions, the fence and tasks.

The part of the suite about finding executions: listings, idempotency keys; and about what is known of polls.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, TypeVar, get_args, get_origin

import attrs
import pytest

from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.decisions import Decision, Outgoing, Renamed
from conductorlite.model.definitions import Semantics
from conductorlite.model.errors import AlreadyExists, FencedOut, InvariantBroken, KeyTaken
from conductorlite.model.executions import PollData, Task, TaskLog, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.store.ports import Backend, ReadingTransaction
from conductorlite.store.tables import ExecutionFilter
from conductorlite.testing.conformance.samples import dump, event, large, line, message, started, task, task_id, workflow

__all__ = ["ExecutionConformance", "LookupConformance"]

#: What is never changed once an execution is there.
FIXED: Final = ("workflow_id", "created_at", "parent_workflow_id", "idempotency_key", "owner")

Row = TypeVar("Row", Workflow, Task)


def filled(row: Row, **given: Any) -> Row:
    """A row with a value of its own in every field that has a default, and these."""
    attrs.resolve_types(type(row))
    values = {
        field.name: _value(field.type, field.name, number)
        for number, field in enumerate(attrs.fields(type(row)), 2)
        if field.default is not attrs.NOTHING and field.name not in given
    }
    return attrs.evolve(row, **(values | given))


def _value(kind: Any, name: str, number: int) -> object:
    members = [member for member in get_args(kind) if member not in (None, type(None), ...)]
    if get_origin(kind) is tuple:
        return tuple(_value(members[0], f"{name} {place}", number + place) for place in range(2))
    kind = members[0] if members else kind
    if issubclass(kind, Enum):
        return list(kind)[-1]
    values: dict[type, object] = {bool: True, int: number, str: f"{name} ä", Payload: Payload.of({name: number})}
    return values[kind]


class ExecutionConformance:
    """Rows of executions and what the fence guards."""

    def test_execution_reads_back_with_the_fence_raised(self, backend: Backend) -> None:
        """Every field of a row comes back as it was given, except the fence, which is one more."""
        row = workflow(
            semantics=Semantics.OSS,
            input=Payload.of({"ä": [1, 2.5, None, "\x00"]}),
            variables=Payload.of([]),
            failed_refs=("a", "b,c"),
            failed_task_names=("n",),
            timeout_at=9,
            correlation_id="",
            parked="why",
            fence=4,
        )
        with backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=row, created=True))
        with backend.reading() as view:
            assert repr(view.executions.workflow("w")) == repr(attrs.evolve(row, fence=5))
            assert view.executions.workflow("other") is None

    def test_every_field_is_kept(self, backend: Backend) -> None:
        """Whatever an execution and its attempts can hold, when they are created and when they are changed."""
        row = filled(workflow(), tasks=(), definition=None, made={})
        attempt = filled(task(rounds=(2, 10)), iterations=(2, 10), grafts=("g", "h"), attempt=3)
        changed = attrs.evolve(task(rounds=(2, 10)), grafts=("g", "h"), attempt=3, task_id=attempt.task_id)
        later = attrs.evolve(workflow(), **{name: getattr(row, name) for name in FIXED})
        with backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=row, created=True, inserted=(attempt,)))
            assert (tx.executions.workflow("w"), tx.executions.task_by_id(attempt.task_id)) == (
                attrs.evolve(row, fence=row.fence + 1),
                attempt,
            )
        for number, (execution, one) in enumerate([(later, changed), (row, attempt)], row.fence + 1):
            with backend.writing() as tx:
                tx.decisions.apply(Decision(workflow=attrs.evolve(execution, fence=number), updated=(one,)))
            with backend.reading() as view:
                assert view.executions.workflow("w") == attrs.evolve(execution, fence=number + 1)
                assert view.executions.task_by_id(attempt.task_id) == one

    def test_creating_twice_is_refused(self, backend: Backend) -> None:
        """A second execution of the same id raises AlreadyExists and changes nothing."""
        started(backend)
        with pytest.raises(AlreadyExists), backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=workflow(name="second"), created=True))
        with backend.reading() as view:
            row = view.executions.workflow("w")
        assert row is not None
        assert row.name == "order"

    def test_old_fence_is_refused(self, backend: Backend) -> None:
        """Of two decisions on one reading the second raises FencedOut and stores nothing, whatever its status."""
        row = started(backend)
        done = attrs.evolve(row, status=WorkflowStatus.COMPLETED)
        with backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=done))
            before = dump(tx)
            for late in (row, done):
                with pytest.raises(FencedOut):
                    tx.decisions.apply(Decision(workflow=late, inserted=(task(),), timers=(event(),)))
            with pytest.raises(FencedOut):
                tx.decisions.apply(Decision(workflow=workflow("unknown")))
            assert dump(tx) == before

    @pytest.mark.parametrize("order", ["bad first", "bad last"])
    def test_failing_decision_takes_nothing_along(self, backend: Backend, order: str) -> None:
        """A decision that fails half-way is undone alone; the others of the transaction are kept."""
        row = started(backend, inserted=(task(),))
        bad = Decision(workflow=row, inserted=(task("b"), task()), timers=(event("lost"),))
        good = Decision(workflow=workflow("v"), created=True, timers=(event("kept", 1, "v"),))
        with backend.writing() as tx:
            for decision in (bad, good) if order == "bad first" else (good, bad):
                if decision is bad:
                    with pytest.raises(InvariantBroken):
                        tx.decisions.apply(decision)
                else:
                    tx.decisions.apply(decision)
        with backend.reading() as view:
            assert [e.event_id for e in view.inbox.upcoming_events(9)] == ["kept"]
            assert [t.ref for t in view.executions.attempts("w")] == ["a"]
            assert view.executions.workflow("w") == row

    def test_error_in_the_block_undoes_everything(self, backend: Backend) -> None:
        """A writing block that raises stores nothing, and its error comes out."""
        started(backend, inserted=(task(),), timers=(event(),), outgoing=Outgoing(put=(message(),)))
        with backend.reading() as view:
            before = dump(view)

        def give_up() -> None:
            with backend.writing() as tx:
                tx.executions.remove("w")
                tx.decisions.apply(Decision(workflow=workflow(), created=True, inserted=(task("z"),), history=(line(1),)))
                tx.inbox.post([event("x"), event("y", workflow_id="v", held=True)])
                tx.metadata.put_task_def("t", "{}")
                tx.history.log("w", [TaskLog(task_id=task_id("z"), at=1, text="line")])
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            give_up()
        with backend.reading() as view:
            assert dump(view) == before

    def test_parking_raises_the_fence(self, backend: Backend) -> None:
        """Parking with a reason holds every event; release lets them go, none early; a workflow that was removed is no error."""
        row = started(backend, timers=(event("a", 1), event("b", 9)))
        with backend.writing() as tx:
            tx.executions.park("w", 2, None)
            assert tx.executions.workflow("w") == attrs.evolve(row, broken_turns=2)
            assert tx.inbox.next_event_at() == 1
            tx.executions.park("w", 3, "broken")
            tx.executions.park("gone", 1, "broken")
            assert tx.executions.workflow("w") == attrs.evolve(row, broken_turns=3, parked="broken", fence=row.fence + 1)
            assert tx.inbox.next_event_at() is None
            assert all(posted.held for posted in tx.inbox.events("w"))
            tx.executions.release("w", 4)
            tx.executions.release("gone", 4)
            assert tx.executions.workflow("w") == attrs.evolve(row, fence=row.fence + 1)
            due = [(posted.event_id, posted.due_at) for posted in tx.inbox.due_events("w", 9, 9)]
            assert due == [("a", 4), ("b", 9)]

    def test_what_comes_back_under_an_id_has_a_higher_fence(self, backend: Backend) -> None:
        """A reader of an execution that was removed since is fenced out by one that was begun in its place."""
        row = started(backend)
        for _ in range(3):
            with backend.writing() as tx:
                tx.executions.remove("w")
            again = started(backend)
            assert again.fence > row.fence
            with pytest.raises(FencedOut), backend.writing() as tx:
                tx.decisions.apply(Decision(workflow=row))
            row = again

    def test_ids_come_in_pages_by_status(self, backend: Backend) -> None:
        """Ids are listed in ascending order after a mark, all or of one status, and follow a change of status."""
        rows = {name: started(backend, name) for name in ("w3", "w1", "w2")}
        with backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=attrs.evolve(rows["w2"], status=WorkflowStatus.FAILED)))
        with backend.reading() as view:
            assert list(view.executions.workflow_ids(None, "", 2)) == ["w1", "w2"]
            assert list(view.executions.workflow_ids(None, "w2", 2)) == ["w3"]
            assert list(view.executions.workflow_ids(WorkflowStatus.RUNNING, "", 9)) == ["w1", "w3"]
            assert list(view.executions.workflow_ids(WorkflowStatus.FAILED, "w2", 9)) == []

    def test_remove_takes_all_that_belongs_to_it(self, backend: Backend) -> None:
        """After a removal nothing of the execution can be read, and its id and task ids are free again."""
        with backend.reading() as view:
            empty = dump(view)
        parts: dict[str, Any] = {
            "inserted": (task(output=large()), task("b", rounds=(1,))),
            "texts": (large(),),
            "history": (line(1),),
            "timers": (event(), event("held", held=True)),
            "outgoing": Outgoing(put=(message(),)),
        }
        started(backend, **parts)
        with backend.writing() as tx:
            tx.history.log("w", [TaskLog(task_id=task_id("a"), at=1, text="line")])
            tx.executions.remove("w")
            assert dump(tx) == empty
            assert not tx.history.logs(task_id("a"))
            assert tx.executions.task_by_id(task_id("a")) is None
        started(backend, **parts)

    def test_tasks_read_back(self, backend: Backend) -> None:
        """Inserted and updated attempts come back field by field."""
        first = task(
            "a",
            rounds=(2, 10),
            seq=1,
            retried=True,
            executed=True,
            succeeded_before=True,
            input=Payload.of({"a": 1}),
            output=Payload.of(None),
            lease=7,
            round=3,
            wait_until=0,
            failed_child="é",
        )
        row = started(backend, inserted=(first,))
        changed = attrs.evolve(first, status=TaskStatus.TIMED_OUT, retried=False, seq=4, output=EMPTY, timeout_at=1)
        with backend.writing() as tx:
            assert repr(tx.executions.task_by_id(task_id("a__2__10"))) == repr(first)
            tx.decisions.apply(Decision(workflow=row, updated=(changed,)))
            assert repr(tx.executions.task_by_id(task_id("a__2__10"))) == repr(changed)
            assert tx.executions.task_by_id("unknown") is None

    def test_update_needs_its_row(self, backend: Backend) -> None:
        """Updating an attempt that is not there, or under another task id, raises InvariantBroken."""
        row = started(backend, inserted=(task(),))
        for stranger in (task("b"), task("a", attempt=1), attrs.evolve(task(), task_id="other")):
            with pytest.raises(InvariantBroken), backend.writing() as tx:
                tx.decisions.apply(Decision(workflow=row, updated=(stranger,)))

    def test_a_reference_is_renamed_with_all_its_attempts(self, backend: Backend) -> None:
        """Attempts, indexes and ids follow a new name, after the other changes of the rows; a name that is taken is refused."""
        rows = (
            task("a", seq=1, status=TaskStatus.FAILED, retried=True),
            task("a", seq=2, attempt=1),
            task("x", rounds=(2,), seq=3, status=TaskStatus.FAILED, executed=True),
        )
        row = started(backend, inserted=rows)
        names = (Renamed(ref="a", new_ref="b", new_base_ref="b"), Renamed(ref="x__2", new_ref="y__2", new_base_ref="y"))
        last = attrs.evolve(rows[1], lease=7)
        with backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=row, updated=(last,), renamed=names))
        first, last = attrs.evolve(rows[0], ref="b", base_ref="b"), attrs.evolve(last, ref="b", base_ref="b")
        round_2 = attrs.evolve(rows[2], ref="y__2", base_ref="y")
        with backend.reading() as view:
            assert list(view.executions.attempts("w")) == [first, last, round_2]
            assert view.executions.task_by_id(task_id("a", attempt=1)) == last
            assert view.executions.tasks("w", {"a", "b"}) == {"a": None, "b": last}
            assert view.executions.latest("w", {"x", "y"}) == {"x": None, "y": round_2}
            assert list(view.executions.live("w")) == [last]
            assert list(view.executions.failed("w")) == [round_2]
            row = view.executions.workflow("w") or row
        taken = (Renamed(ref="c", new_ref="b", new_base_ref="b"),)
        with pytest.raises(InvariantBroken), backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=row, inserted=(task("c", seq=4),), renamed=taken))

    def test_last_attempts_are_found_in_each_way(self, backend: Backend) -> None:
        """References give their last attempt or None; live, failed and all of them are listed."""
        over: dict[str, Any] = {"status": TaskStatus.COMPLETED, "executed": True}
        rows = (
            task("a", seq=1, status=TaskStatus.FAILED, retried=True),
            task("a", seq=2, attempt=1),
            task("b", seq=3, **over),
            task("c", seq=4, status=TaskStatus.FAILED, executed=True),
            task("x", rounds=(2,), seq=9, **over),
            task("x", rounds=(10,), seq=11, **over),
        )
        started(backend, inserted=rows)
        with backend.reading() as view:
            assert view.executions.tasks("w", {"a", "b", "nobody"}) == {"a": rows[1], "b": rows[2], "nobody": None}
            assert view.executions.tasks("w", {"a"}) == {"a": rows[1]}
            assert list(view.executions.live("w")) == [rows[1]]
            assert list(view.executions.failed("w")) == [rows[3]]
            assert sorted(view.executions.last_attempts("w"), key=lambda row: row.seq) == list(rows[1:])
            latest = view.executions.latest("w", {"x", "a", "x__2", "nobody"})
            assert latest == {"x": rows[5], "a": rows[1], "x__2": None, "nobody": None}
            assert list(view.executions.attempts("w")) == list(rows)
            assert view.executions.tasks("v", {"a"}) == view.executions.latest("v", {"a"}) == {"a": None}
            assert [*view.executions.live("v"), *view.executions.failed("v"), *view.executions.last_attempts("v")] == []

    def test_large_payloads_are_read_on_request(self, backend: Backend) -> None:
        """A large payload comes back as its hash, in every kind of row but an event, and whole when needed."""
        big = large()
        history = attrs.evolve(line(1), payload=big)
        parts: dict[str, Any] = {"inserted": (task(input=big),), "history": (history,), "texts": (big,)}
        with backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=workflow(input=big), created=True, timers=(event(data=big),), **parts))
            row, (attempt,), (entry,) = tx.executions.workflow("w"), tx.executions.attempts("w"), tx.history.lines("w")
            assert row is not None
            assert entry.payload is not None
            assert row.input.absent
            assert attempt.input.absent
            assert entry.payload.absent
            assert row.input == big
            assert tx.executions.payloads("w", {big.digest, "0" * 64}) == {big.digest: big}
            assert tx.executions.payloads("w", {big.digest})[big.digest].text == big.text
            assert not tx.executions.payloads("v", {big.digest})
            assert tx.inbox.events("w")[0].data.text == big.text
            tx.decisions.apply(Decision(workflow=attrs.evolve(row, output=big), texts=(big,)))  # the same text again

    def test_history_and_logs_keep_their_order(self, backend: Backend) -> None:
        """The journal is read by number; log lines in order of arrival."""
        row = started(backend, history=(line(2), line(1)))
        with backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=row, history=(line(3, payload=EMPTY, cause='{"kind":"POLL"}'),)))
            tx.history.log("w", [TaskLog(task_id="t", at=9, text="first"), TaskLog(task_id="t", at=1, text="second")])
            tx.history.log("w", [TaskLog(task_id="u", at=1, text="other"), TaskLog(task_id="t", at=5, text="third")])
            assert [entry.n for entry in tx.history.lines("w")] == [1, 2, 3]
            assert [entry.payload for entry in tx.history.lines("w")] == [None, None, EMPTY]
            assert [entry.cause for entry in tx.history.lines("w")] == [None, None, '{"kind":"POLL"}']
            assert [entry.text for entry in tx.history.logs("t")] == ["first", "second", "third"]

    def test_a_line_of_the_journal_is_written_once(self, backend: Backend) -> None:
        """A turn whose lines begin like those of one that is stored is refused, and stores nothing: without fences this is left."""
        row = started(backend, history=(line(1), line(2)))
        with backend.writing() as tx:
            with pytest.raises(InvariantBroken):
                tx.decisions.apply(Decision(workflow=row, inserted=(task(),), history=(line(1, ref="b"),)))
            tx.decisions.apply(Decision(workflow=row, history=(line(3), line(4, attempt=None, number=0, reason='"', cause=""))))
        with backend.reading() as view:
            assert [(entry.n, entry.ref) for entry in view.history.lines("w")] == [(n, "a") for n in range(1, 5)]
            for after in range(6):
                assert [entry.n for entry in view.history.lines("w", after)] == list(range(after + 1, 5))
            last = view.history.lines("w")[-1]
            assert (last.at, last.attempt, last.number, last.reason, last.cause) == (4, None, 0, '"', "")
            assert not view.executions.attempts("w")


def _create(backend: Backend, workflow_id: str, replaces: str | None = None, **fields: Any) -> None:
    with backend.writing() as tx:
        tx.decisions.apply(Decision(workflow=workflow(workflow_id, **fields), created=True, replaces=replaces))


def _listed(view: ReadingTransaction, after: tuple[int, str] | None = None, limit: int = 9, **fields: Any) -> list[str]:
    return [row.workflow_id for row in view.executions.page(ExecutionFilter(**fields), after, limit)]


class LookupConformance:
    """Executions by what they are, and by the key they were started with."""

    def test_executions_are_listed_newest_first(self, backend: Backend) -> None:
        """A page is in descending order of (created_at, workflow_id), after a mark, of those that match every filter."""
        _create(backend, "a", created_at=1, correlation_id="c")
        _create(backend, "b", created_at=3, name="other", correlation_id="c", parent_workflow_id="a")
        _create(backend, "d", created_at=2, parent_workflow_id="a")
        _create(backend, "c", created_at=2, correlation_id="c")
        with backend.reading() as view:
            rows = {name: view.executions.workflow(name) for name in "abcd"}
            assert list(view.executions.page(ExecutionFilter(), None, 9)) == [rows["b"], rows["d"], rows["c"], rows["a"]]
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
            row = tx.executions.workflow("a")
            assert row is not None
            tx.decisions.apply(Decision(workflow=attrs.evolve(row, status=WorkflowStatus.FAILED)))
            assert _listed(tx, status=WorkflowStatus.RUNNING) == ["b"]
            assert _listed(tx, status=WorkflowStatus.FAILED) == ["a"]
            assert _listed(tx, name="order", status=WorkflowStatus.FAILED) == ["a"]
            assert _listed(tx, name="order") == ["b", "a"]
            tx.executions.remove("a")
            assert _listed(tx) == _listed(tx, name="order") == ["b"]
            assert _listed(tx, status=WorkflowStatus.FAILED) == []

    def test_a_listing_follows_name_and_correlation_id(self, backend: Backend) -> None:
        """A decision that changes the name or the correlation id of an execution changes where it is listed."""
        _create(backend, "a", correlation_id="c")
        with backend.writing() as tx:
            for fields in ({"correlation_id": "d"}, {"name": "other"}, {"correlation_id": None}):
                row = tx.executions.workflow("a")
                assert row is not None
                changed = attrs.evolve(row, **fields)
                tx.decisions.apply(Decision(workflow=changed))
                assert tx.executions.workflow("a") == attrs.evolve(changed, fence=row.fence + 1)
            assert _listed(tx, name="order") == _listed(tx, correlation_id="c") == _listed(tx, correlation_id="d") == []
            assert _listed(tx, name="other") == _listed(tx) == ["a"]

    def test_a_key_belongs_to_one_execution_of_a_name(self, backend: Backend) -> None:
        """A second execution of the same name and key raises KeyTaken naming the first, and nothing of it is stored."""
        _create(backend, "w", idempotency_key="k")
        _create(backend, "v", idempotency_key="k", name="other")
        _create(backend, "u", idempotency_key="k2")
        with backend.reading() as view:
            before = dump(view)
            assert [view.executions.key_holder("order", "k"), view.executions.key_holder("other", "k")] == ["w", "v"]
            assert view.executions.key_holder("order", "none") is None
        with backend.writing() as tx:
            second = workflow("x", idempotency_key="k")
            with pytest.raises(KeyTaken) as refused:
                tx.decisions.apply(Decision(workflow=second, created=True, timers=(event("lost", workflow_id="x"),)))
            assert refused.value.workflow_id == "w"
            with pytest.raises(KeyTaken):
                tx.decisions.apply(Decision(workflow=second, created=True, replaces="u"))
        with backend.reading() as view:
            assert dump(view) == before

    def test_a_key_moves_only_from_the_one_that_was_read(self, backend: Backend) -> None:
        """With `replaces` the key goes to the new execution if that one still holds it; removing the old one leaves it there."""
        _create(backend, "w", idempotency_key="k")
        _create(backend, "v", replaces="w", idempotency_key="k")
        with pytest.raises(KeyTaken):
            _create(backend, "u", replaces="w", idempotency_key="k")
        with backend.writing() as tx:
            tx.executions.remove("w")
            assert tx.executions.key_holder("order", "k") == "v"
            tx.executions.remove("v")
            assert tx.executions.key_holder("order", "k") is None
        _create(backend, "u", replaces="w", idempotency_key="k")

    @pytest.mark.parametrize("company", [False, True])
    def test_a_key_is_not_kept_for_what_was_not_created(self, backend: Backend, company: bool) -> None:
        """The key stays free when the id exists already, alone in a transaction and beside other decisions."""
        _create(backend, "w")
        with backend.writing() as tx:
            if company:
                tx.inbox.post([event()])
            with pytest.raises(AlreadyExists):
                tx.decisions.apply(Decision(workflow=workflow("w", idempotency_key="k"), created=True))
            assert tx.executions.key_holder("order", "k") is None
            assert len(tx.inbox.events("w")) == company

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
            tx.poll_data.record_polls(polls)
        with backend.reading() as view:
            assert list(view.poll_data.polls(None)) == [polls[2], polls[3], polls[5]]
            assert list(view.poll_data.polls("a")) == [polls[2], polls[3]]
            assert list(view.poll_data.polls("c")) == []
