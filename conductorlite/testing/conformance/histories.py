"""Random histories of a store: lists of acts that mean the same on every backend."""

from __future__ import annotations

from typing import Final

import attrs
from hypothesis import strategies as st

from conductorlite.canonical import EMPTY, Payload
from conductorlite.decisions import Decision, Event, Outgoing
from conductorlite.errors import ConductorliteError
from conductorlite.executions import PollData, Task, TaskLog, TaskStatus, WorkflowStatus
from conductorlite.ports import Backend, ScheduleRow, WritingTransaction
from conductorlite.testing.conformance.samples import event, large, line, message, task, workflow

__all__ = ["STEP", "Act", "run"]


class _GivenUpError(Exception):
    pass


@attrs.frozen(kw_only=True, slots=True)
class _Row:
    """How an attempt shall look."""

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
    #: What a new execution is called, belongs to and claims, and from whom.
    name: str
    correlation_id: str | None
    parent: str | None
    key: str | None
    replaces: str | None


@attrs.frozen(kw_only=True, slots=True)
class Post:
    """Letters put into inboxes."""

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
        tx.apply(_decision(tx, act))
    elif isinstance(act, Post):
        tx.post(act.events)
    else:
        _verb(tx, act)


def _verb(tx: WritingTransaction, act: Verb) -> None:
    match act.name:
        case "park":
            tx.park(act.workflow_id, act.number, "why" if act.number > 1 else None)
        case "release":
            tx.release(act.workflow_id, act.number)
        case "log":
            tx.log(
                act.workflow_id,
                [TaskLog(task_id=f"{act.workflow_id}/a/0", at=n, text=f"line {n}") for n in range(act.number)],
            )
        case "remove":
            tx.remove(act.workflow_id)
        case "discard":
            tx.discard([*tx.messages(act.number), message("a", act.number, act.workflow_id)])
        case "deliver":
            tx.deliver(tx.outbox(act.number))
        case "poll":
            domain = None if act.workflow_id == "w0" else act.workflow_id
            tx.record_polls([PollData(queue_name="t1", domain=domain, worker_id=str(act.number), last_poll_time=act.number)])
        case "put":
            stored = tx.schedule(act.workflow_id)
            text = f"text {act.number}"
            row = ScheduleRow(name=act.workflow_id, address=f"schedule:{act.workflow_id}", text=text, progress="{}")
            fence = 0 if stored is None or act.number == 1 else stored.fence
            letters = [event(f"e{n}", n, row.address) for n in range(act.number)]
            tx.put_schedule(attrs.evolve(row, fence=fence, waits=act.number > 2), ["e0", "e2"], letters)
        case "drop":
            tx.drop_schedule(act.workflow_id)
        case "define":
            tx.put_workflow_def(act.workflow_id, act.number, str(act.number))
            tx.put_task_def(act.workflow_id, str(act.number))
        case _:
            raise _GivenUpError


def _decision(tx: WritingTransaction, turn: Turn) -> Decision:
    stored = tx.workflow(turn.workflow_id)
    row = stored or workflow(
        turn.workflow_id,
        name=turn.name,
        created_at=5 + len(turn.rows),
        correlation_id=turn.correlation_id,
        parent_workflow_id=turn.parent,
        idempotency_key=turn.key,
    )
    known = {(found.ref, found.attempt): found for found in tx.attempts(turn.workflow_id)}
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
