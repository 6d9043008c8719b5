"""Random histories of a store: lists of acts that mean the same on every backend.

The part of the suite about definitions, transactions and threads, and the comparison with the oracle.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.decisions import Decision, Event, Outgoing
from conductorlite.model.errors import ConductorliteError, EngineClosed, FencedOut, InvariantBroken, MissingCapability
from conductorlite.model.executions import PollData, Task, TaskLog
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend, Capability, JoinableBackend, WritingTransaction
from conductorlite.store.tables import ScheduleRow
from conductorlite.testing.conformance.samples import dump, event, large, line, message, settle, started, task, task_id, workflow

__all__ = ["STEP", "Act", "TransactionConformance", "run"]


class _GivenUpError(Exception):
    pass


@attrs.frozen(kw_only=True, slots=True)
class _Row:
    """Expected row of an attempt."""

    ref: str
    rounds: tuple[int, ...]
    attempt: int
    status: TaskStatus
    payload: Payload
    retried: bool
    executed: bool


@attrs.frozen(kw_only=True, slots=True)
class Turn:
    """A decision, to be fitted to what is stored: rows that exist are updated, others inserted."""

    workflow_id: str
    status: WorkflowStatus
    payload: Payload
    rows: tuple[_Row, ...]
    #: Whether it was decided on an older reading; whether it inserts a row that exists.
    late: bool
    clashes: bool
    timers: tuple[Event, ...]
    gone: tuple[str, ...]
    release_held: bool
    outgoing: Outgoing
    #: The id, owner and claims of a new execution, and who claims them.
    name: str
    correlation_id: str | None
    parent: str | None
    key: str | None
    replaces: str | None


@attrs.frozen(kw_only=True, slots=True)
class Post:
    """Events put into inboxes."""

    events: tuple[Event, ...]


@attrs.frozen(kw_only=True, slots=True)
class Verb:
    """Any of the smaller writes."""

    name: str
    workflow_id: str
    number: int


Act = Turn | Post | Verb

_ids: Final = st.sampled_from(["w0", "w1", "w2"])
_payloads: Final = st.sampled_from([EMPTY, Payload.of({"a": 1}), Payload.of(None), large("x"), large("y")])
_small: Final = st.integers(0, 6)
_events: Final = st.builds(
    event,
    st.sampled_from(["e0", "e1", "e2", "e3"]),
    _small,
    _ids,
    posted_at=st.integers(0, 2),
    sender=st.sampled_from(["", "a", "b"]),
    sender_seq=st.integers(0, 11),
    data=_payloads,
    held=st.booleans(),
)
_messages: Final = st.builds(
    message,
    st.sampled_from(["a", "b", "c"]),
    _small,
    _ids,
    queue=st.sampled_from(["charge", "q0"]),
    priority=st.integers(0, 2),
)
_rows: Final = st.builds(
    _Row,
    ref=st.sampled_from(["a", "b"]),
    rounds=st.sampled_from([(), (1,), (2,), (10, 1)]),
    attempt=st.integers(0, 2),
    status=st.sampled_from(TaskStatus),
    payload=_payloads,
    retried=st.booleans(),
    executed=st.booleans(),
)
_outgoing: Final = st.builds(
    Outgoing,
    removed=st.lists(st.tuples(_ids, st.sampled_from(["a", "b", "c"])), max_size=2).map(tuple),
    put=st.lists(_messages, max_size=3).map(tuple),
    posted=st.lists(_events, max_size=2).map(tuple),
)
_turns: Final = st.builds(
    Turn,
    workflow_id=_ids,
    status=st.sampled_from([WorkflowStatus.RUNNING, WorkflowStatus.RUNNING, WorkflowStatus.FAILED]),
    payload=_payloads,
    rows=st.lists(_rows, max_size=4, unique_by=lambda row: (row.ref, row.rounds, row.attempt)).map(tuple),
    late=st.sampled_from([False, False, False, True]),
    clashes=st.sampled_from([False, False, False, True]),
    timers=st.lists(_events, max_size=3).map(tuple),
    gone=st.lists(st.sampled_from(["e0", "e1", "e2", "e3"]), max_size=2).map(tuple),
    release_held=st.booleans(),
    outgoing=_outgoing,
    name=st.sampled_from(["order", "order", "other"]),
    correlation_id=st.sampled_from([None, "c1"]),
    parent=st.sampled_from([None, "w0"]),
    key=st.sampled_from([None, "k1", "k1", "k2"]),
    replaces=st.one_of(st.none(), _ids),
)
_verbs: Final = st.builds(
    Verb,
    name=st.sampled_from(["park", "release", "log", "remove", "discard", "deliver", "define", "poll", "put", "drop", "give up"]),
    workflow_id=_ids,
    number=st.integers(1, 3),
)

#: One transaction: a few acts in order.
STEP: Final = st.lists(
    st.one_of(_turns, _turns, _turns, st.builds(Post, events=st.lists(_events, max_size=3).map(tuple)), _verbs),
    min_size=1,
    max_size=3,
)


def run(backend: Backend, acts: list[Act]) -> list[str]:
    """Carry out one transaction; returns the errors it met, by name."""
    errors: list[str] = []
    try:
        with backend.writing() as tx:
            for act in acts:
                try:
                    _perform(tx, act)
                except ConductorliteError as error:
                    errors.append(type(error).__name__)
    except _GivenUpError:
        errors.append("gave up")
    return errors


def _perform(tx: WritingTransaction, act: Act) -> None:
    if isinstance(act, Turn):
        tx.decisions.apply(_decision(tx, act))
    elif isinstance(act, Post):
        tx.inbox.post(act.events)
    else:
        _verb(tx, act)


def _verb(tx: WritingTransaction, act: Verb) -> None:
    match act.name:
        case "park":
            tx.executions.park(act.workflow_id, act.number, "why" if act.number > 1 else None)
        case "release":
            tx.executions.release(act.workflow_id, act.number)
        case "log":
            tx.history.log(
                act.workflow_id,
                [TaskLog(task_id=task_id("a", act.workflow_id), at=n, text=f"line {n}") for n in range(act.number)],
            )
        case "remove":
            tx.executions.remove(act.workflow_id)
        case "discard":
            tx.queue.discard([*tx.queue.messages(act.number), message("a", act.number, act.workflow_id)])
        case "deliver":
            tx.outbox.deliver(tx.outbox.items(act.number))
        case "poll":
            domain = None if act.workflow_id == "w0" else act.workflow_id
            tx.poll_data.record_polls(
                [PollData(queue_name="t1", domain=domain, worker_id=str(act.number), last_poll_time=act.number)]
            )
        case "put":
            stored = tx.schedules.schedule(act.workflow_id)
            text = f"text {act.number}"
            row = ScheduleRow(name=act.workflow_id, address=f"schedule:{act.workflow_id}", text=text, progress="{}")
            fence = 0 if stored is None or act.number == 1 else stored.fence
            events = [event(f"e{n}", n, row.address) for n in range(act.number)]
            tx.schedules.put_schedule(attrs.evolve(row, fence=fence, waits=act.number > 2), ["e0", "e2"], events)
        case "drop":
            tx.schedules.drop_schedule(act.workflow_id)
        case "define":
            tx.metadata.put_workflow_def(act.workflow_id, act.number, str(act.number))
            tx.metadata.put_task_def(act.workflow_id, str(act.number))
        case _:
            raise _GivenUpError


def _decision(tx: WritingTransaction, turn: Turn) -> Decision:
    stored = tx.executions.workflow(turn.workflow_id)
    row = stored or workflow(
        turn.workflow_id,
        name=turn.name,
        created_at=5 + len(turn.rows),
        correlation_id=turn.correlation_id,
        parent_workflow_id=turn.parent,
        idempotency_key=turn.key,
    )
    known = {(found.ref, found.attempt): found for found in tx.executions.attempts(turn.workflow_id)}
    inserted: list[Task] = []
    updated: list[Task] = []
    for n, wanted in enumerate(turn.rows):
        fresh = task(wanted.ref, turn.workflow_id, rounds=wanted.rounds, attempt=wanted.attempt, seq=row.task_seq + n)
        found = known.get((fresh.ref, fresh.attempt))
        (inserted if found is None or turn.clashes else updated).append(
            attrs.evolve(
                found or fresh,
                status=wanted.status,
                output=wanted.payload,
                retried=wanted.retried,
                executed=wanted.executed,
            )
        )
    return Decision(
        workflow=attrs.evolve(
            row,
            fence=row.fence - turn.late,
            status=turn.status,
            output=turn.payload,
            name=turn.name,
            correlation_id=turn.correlation_id,
            task_seq=row.task_seq + len(turn.rows),
            history_seq=row.history_seq + 1,
        ),
        created=stored is None,
        replaces=turn.replaces,
        inserted=tuple(inserted),
        updated=tuple(updated),
        texts=tuple(payload for payload in (turn.payload, *(r.payload for r in turn.rows)) if payload.large),
        history=(line(row.history_seq + 1, payload=turn.payload),),
        consumed=turn.gone,
        timers=tuple(attrs.evolve(timer, workflow_id=turn.workflow_id) for timer in turn.timers),
        release_held=turn.release_held,
        released_at=3,
        outgoing=turn.outgoing,
    )


class TransactionConformance:
    """Transactions, and random histories against the memory backend."""

    def make_backend(self, folder: Path) -> Backend:
        """A new, empty store; `folder` is there for it alone."""
        raise NotImplementedError

    def test_definitions(self, backend: Backend) -> None:
        """Registered definitions are replaced by name and version; embedded ones never change."""
        with backend.writing() as tx:
            for version, text in ((2, "two"), (10, "ten"), (2, "two again")):
                tx.metadata.put_workflow_def("order", version, text)
            tx.metadata.put_task_def("t", "one")
            tx.metadata.put_task_def("t", "two")
            registered = tx.metadata.registry_version()
            tx.metadata.embed("digest", "text")
            tx.metadata.embed("digest", "other")
        with backend.reading() as view:
            assert (view.metadata.workflow_def("order", None), view.metadata.workflow_def("order", 2)) == ("ten", "two again")
            assert view.metadata.registry_version() == registered > 0
            assert view.metadata.workflow_def("order", 3) is None
            assert view.metadata.workflow_def("x", None) is None
            assert list(view.metadata.workflow_defs()) == [("order", 2), ("order", 10)]
            assert (view.metadata.task_def("t"), view.metadata.task_def("x"), list(view.metadata.task_defs())) == (
                "two",
                None,
                ["t"],
            )
            assert (view.metadata.definition("digest"), view.metadata.definition("x")) == ("text", None)
        with backend.writing() as tx:
            tx.metadata.drop_workflow_def("order", 10)
            tx.metadata.drop_workflow_def("order", 3)
            tx.metadata.drop_task_def("t")
            tx.metadata.drop_task_def("x")
        with backend.reading() as view:
            assert (view.metadata.workflow_def("order", None), view.metadata.workflow_def("order", 10)) == ("two again", None)
            assert (list(view.metadata.workflow_defs()), view.metadata.task_def("t"), list(view.metadata.task_defs())) == (
                [("order", 2)],
                None,
                [],
            )
            assert view.metadata.registry_version() > registered
            assert view.metadata.definition("digest") == "text"

    def test_transactions_nest_only_as_views(self, backend: Backend) -> None:
        """Inside a change a view sees the change; a change inside any transaction of its thread is refused."""
        with backend.writing() as tx:
            tx.inbox.post([event()])
            with backend.reading() as view, backend.reading() as again:
                assert len(view.inbox.events("w")) == len(again.inbox.events("w")) == 1
            with pytest.raises(InvariantBroken), backend.writing():
                pass
            tx.inbox.post([event("second")])
        with backend.reading() as view:
            with pytest.raises(InvariantBroken), backend.writing():
                pass
            assert len(view.inbox.events("w")) == 2

    def test_what_was_written_before_a_decision_that_fails_stays(self, backend: Backend) -> None:
        """Of a transaction only the decision that contradicts the store is undone, whatever was written before it."""
        started(backend)
        with backend.reading() as view:
            row = view.executions.workflow("w")
        assert row is not None
        firsts: dict[str, Callable[[WritingTransaction], object]] = {
            "handler": lambda tx: tx.event_handlers.put_event_handler("h", "e", True, "text"),
            "definition": lambda tx: tx.metadata.put_workflow_def("d", 1, "text"),
            "text": lambda tx: tx.metadata.embed("digest", "text"),
            "event": lambda tx: tx.inbox.post([event("first", workflow_id="other")]),
            "poll": lambda tx: tx.poll_data.record_polls([PollData(queue_name="t", domain=None, worker_id="w", last_poll_time=1)]),
            "decision": lambda tx: tx.decisions.apply(Decision(workflow=workflow("second"), created=True)),
        }
        for write in firsts.values():
            with backend.writing() as tx:
                write(tx)
                with pytest.raises(InvariantBroken):
                    tx.decisions.apply(Decision(workflow=row, updated=(task("nowhere"),)))
        with backend.reading() as view:
            assert view.executions.workflow("w") == row
            assert [
                text for text in (view.metadata.workflow_def("d", 1), view.metadata.definition("digest")) if text != "text"
            ] == []
            assert view.event_handlers.handler("h") is not None
            assert [one.event_id for one in view.inbox.events("other")] == ["first"]
            assert [one.worker_id for one in view.poll_data.polls("t")] == ["w"]
            assert view.executions.workflow("second") is not None

    def test_what_is_written_between_decisions_comes_between_them(self, backend: Backend) -> None:
        """A release frees what was held then, not what the decision after it sends."""
        row = started(backend)
        sent = event("later", workflow_id="v", held=True)
        with backend.writing() as tx:
            tx.inbox.post([event("before", workflow_id="v", held=True)])
            tx.decisions.apply(Decision(workflow=row))
            tx.executions.release("v", 3)
            row = tx.executions.workflow("w") or row
            tx.decisions.apply(Decision(workflow=row, outgoing=Outgoing(posted=(sent,))))
        settle(backend)
        with backend.reading() as view:
            assert {one.event_id: one.held for one in view.inbox.events("v")} == {"before": False, "later": True}

    def test_what_is_posted_after_a_release_stays_held(self, backend: Backend) -> None:
        """Both come after a decision, in their order."""
        row = started(backend)
        with backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=row))
            tx.executions.release("v", 3)
            tx.inbox.post([event("later", workflow_id="v", held=True)])
        settle(backend)
        with backend.reading() as view:
            assert [one.held for one in view.inbox.events("v")] == [True]

    def test_a_later_decision_contradicts_what_was_stored_before(self, backend: Backend) -> None:
        """The second one on an execution is refused as the first would be, and it alone."""
        row = started(backend, inserted=(task("a"),))
        with backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=row, inserted=(task("b", seq=1),)))
            again = tx.executions.workflow("w") or row
            with pytest.raises(InvariantBroken):
                tx.decisions.apply(Decision(workflow=again, inserted=(task("a"),)))
        with backend.reading() as view:
            assert [one.ref for one in view.executions.attempts("w")] == ["a", "b"]

    def test_an_execution_that_takes_the_place_of_another_has_nothing_of_it(self, backend: Backend) -> None:
        """Removed and made again in one transaction, it may make the same rows, now and later."""
        row = started(backend, inserted=(task("a"), task("b", seq=1)))
        with backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=row))
            tx.executions.remove("w")
            tx.decisions.apply(Decision(workflow=workflow("w"), created=True, inserted=(task("a"),)))
        with backend.reading() as view:
            again = view.executions.workflow("w")
        assert again is not None
        with backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=again, inserted=(task("b", seq=1),)))
        with backend.reading() as view:
            assert [one.ref for one in view.executions.attempts("w")] == ["a", "b"]

    def test_capabilities(self, backend: Backend, tmp_path: Path) -> None:
        """It can do what it says; what it does not say is refused by name, with nothing done."""
        able = backend.capabilities
        assert isinstance(backend, JoinableBackend) is (Capability.TRANSACTIONS in able)
        assert Capability.IMMEDIATE in able or Capability.ONE_COMMIT not in able
        copy = tmp_path / "copy"
        if Capability.BACKUP in able:
            backend.backup(str(copy))
        else:
            with pytest.raises(MissingCapability) as raised:
                backend.backup(str(copy))
            assert raised.value.capability is Capability.BACKUP
        assert copy.exists() is (Capability.BACKUP in able)

    def test_view_is_consistent(self, backend: Backend) -> None:
        """A view does not change under its reader while another thread writes."""
        if Capability.SNAPSHOTS not in backend.capabilities:
            pytest.skip("its views are not one state")
        started(backend)

        def write() -> None:
            with backend.writing() as tx:
                tx.inbox.post([event()])

        writer = threading.Thread(target=write)
        with backend.reading() as view:
            before = dump(view)
            writer.start()
            writer.join(0.05)  # with a backend that serialises views the writer waits for us
            assert dump(view) == before
        writer.join()
        with backend.reading() as view:
            assert len(view.inbox.events("w")) == 1

    def test_no_update_is_lost_between_threads(self, backend: Backend) -> None:
        """Four threads raise one fence twenty-five times each; every raise is counted."""
        started(backend)

        def climb() -> None:
            done = 0
            while done < 25:
                with backend.reading() as view:
                    row = view.executions.workflow("w")
                assert row is not None
                with suppress(FencedOut):
                    with backend.writing() as tx:
                        tx.decisions.apply(Decision(workflow=attrs.evolve(row, sequence=row.sequence + 1)))
                    done += 1

        threads = [threading.Thread(target=climb) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with backend.reading() as view:
            row = view.executions.workflow("w")
        assert row is not None
        assert (row.sequence, row.fence) == (100, 101)

    def test_closed_backend_refuses(self, backend: Backend) -> None:
        """After close, which may be repeated, every transaction raises EngineClosed."""
        assert isinstance(backend.data_version(), int)
        backend.close()
        backend.close()
        with pytest.raises(EngineClosed), backend.reading():
            pass
        with pytest.raises(EngineClosed), backend.writing():
            pass

    def test_agrees_with_the_memory_backend(self) -> None:
        """A random history gives the same errors and, after every step, the same answers to every question."""

        @settings(max_examples=min(40, settings().max_examples), deadline=None, suppress_health_check=list(HealthCheck))
        @given(steps=st.lists(STEP, min_size=1, max_size=12))
        def agree(steps: list[list[Act]]) -> None:
            with TemporaryDirectory() as folder:
                backend = self.make_backend(Path(folder))
                try:
                    oracle: Backend = MemoryBackend(relay=Capability.IMMEDIATE not in backend.capabilities)
                    for step in steps:
                        assert run(backend, step) == run(oracle, step)
                        with backend.reading() as view, oracle.reading() as expected:
                            assert dump(view) == dump(expected)
                finally:
                    backend.close()

        agree()
