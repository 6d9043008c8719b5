"""Idempotency keys: of all executions of a name only one holds a key, and it is claimed with the row.

Whether a key is free is looked up before a start, to save a useless decision, and again in the write that claims it: writes are
serialised, so two starts with one key make one execution. Source of the rule: the strategies of Orkes' start request; Conductor
OSS accepts them and enforces none.

Domains seen from outside: what a start may ask for, and who polled last.

A poll is recorded even when it found nothing: that is how a scheduler knows that a domain has workers. It is written with the
turn that gives the task to the worker, else in a write of its own, and at most once a second for each worker, type and domain.
Source of the rule: Conductor's `ExecutionService.poll` and its poll data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Decision, Event, EventKind
from conductorlite.model.definitions import DEBOUNCED, MAX_KEY, IdempotencyStrategy, debounce_key
from conductorlite.model.errors import InvalidInput, KeyTaken, PayloadLost
from conductorlite.model.executions import PollData, Workflow, reason_data
from conductorlite.model.texts import member_of
from conductorlite.store.ports import ReadingTransaction, WritingTransaction

__all__ = [
    "POLLS_MS",
    "PollWrite",
    "Polls",
    "checked_domains",
    "checked_key",
    "checked_strategy",
    "is_put_off",
    "last_polls",
    "put_off",
    "refuse_event",
    "refuse_start",
    "replaced",
    "start_event",
    "strategy_of",
]

#: Due events looked at for the event that begins an execution.
_EVENTS: Final = 200


def checked_key(key: str | None) -> str | None:
    """An idempotency key as it was given; raises InvalidInput when it is empty, too long, not text or of a debounced start."""
    if key is not None and (not isinstance(key, str) or not 0 < len(key) <= MAX_KEY):
        raise InvalidInput(f"an idempotency key is a text of 1 to {MAX_KEY} characters, not {key!r:.80}")
    if debounce_key(key) is not None:
        raise InvalidInput(f"{key!r:.80}: keys that begin with {DEBOUNCED!r} are those of Debounce; choose another one")
    return key


def checked_strategy(strategy: IdempotencyStrategy | str) -> IdempotencyStrategy:
    """A strategy by its name; raises InvalidInput."""
    return member_of(IdempotencyStrategy, strategy, "idempotency strategy")


def replaced(view: ReadingTransaction, name: str, key: str | None, strategy: IdempotencyStrategy) -> str | None:
    """The execution that a new one takes the key over from; None when it is free. Raises KeyTaken.

    The key of a debounced start is free once its execution has begun.
    """
    holder = None if key is None else view.executions.key_holder(name, key)
    if holder is None:
        return None
    row = view.executions.workflow(holder)
    status = "gone" if row is None else str(row.status)
    if strategy is IdempotencyStrategy.FAIL_ON_RUNNING and (row is None or row.status.terminal):
        return holder
    if debounce_key(key) is not None and not is_put_off(row):
        return holder
    raise KeyTaken(holder, f"idempotency key {key!r} of workflow {name!r} belongs to execution {holder!r}, which is {status}")


def is_put_off(row: Workflow | None) -> bool:
    """Return True if an execution is there and has not begun."""
    return row is not None and not (row.status.terminal or row.started_at)


def put_off(view: ReadingTransaction, name: str, key: str) -> str | None:
    """The execution of a debounced start that has not begun; None when the next call stores one."""
    holder = view.executions.key_holder(name, key)
    return holder if holder is not None and is_put_off(view.executions.workflow(holder)) else None


def start_event(view: ReadingTransaction, workflow_id: str, now: int) -> Event | None:
    """The due event that brings an execution into being, or None."""
    due = view.inbox.due_events(workflow_id, now, _EVENTS)
    return next((event for event in due if event.kind is EventKind.START), None)


def strategy_of(event: Event | None) -> IdempotencyStrategy:
    """The strategy a START event asks for; FAIL when it says nothing."""
    said = None if event is None else event.data.value.get("idempotencyStrategy")
    return IdempotencyStrategy.FAIL if said is None else IdempotencyStrategy(said)


#: How large payloads of an execution are read, by hash.
Texts = Callable[[ReadingTransaction, str, Iterable[str]], Mapping[str, Payload]]


def refuse_start(tx: WritingTransaction, event: Event, now: int, problem: str) -> tuple[str, ...]:
    """Consume the START event of an execution that cannot begin, and answer its sender with an event STARTED that says why."""
    return _refused(tx, event, now, {"error": problem})


def refuse_event(tx: WritingTransaction, event: Event, row: Workflow, now: int, texts: Texts) -> tuple[str, ...] | None:
    """Consume the START event of an execution whose key is taken and answer its sender; None when the key is free by now.

    A sender that wants an answer says `answer`, or is the `parent` (`ref`, `attempt`, `generation` of the task that asked). It gets
    an event STARTED: for RETURN_EXISTING `workflowId` and `existing`, a parent with the result of that execution; else `error`.
    """
    strategy = strategy_of(event)
    try:
        replaced(tx, row.name, row.idempotency_key, strategy)
        return None
    except KeyTaken as taken:
        if strategy is not IdempotencyStrategy.RETURN_EXISTING:
            data: dict[str, object] = {"error": str(taken)}
        elif event.data.value.get("parent") is None:
            data = {"workflowId": taken.workflow_id, "existing": True}
        else:
            data = _result(tx, taken, texts)
    return _refused(tx, event, now, data)


def _result(view: ReadingTransaction, taken: KeyTaken, texts: Texts) -> dict[str, object]:
    """Return how the execution that holds a key has ended, in the words of CHILD_ENDED; an `error` while it has not."""
    row = view.executions.workflow(taken.workflow_id)
    if row is None or not row.status.terminal:
        return {"error": f"{taken}; only its result could be taken over, for an execution has one parent"}
    output = row.output
    if output.absent:
        output = texts(view, row.workflow_id, {output.digest})[output.digest]
    try:
        result = output.value
    except PayloadLost as lost:
        return {"error": str(lost)}
    return {
        "workflowId": row.workflow_id,
        "existing": True,
        "name": f"{row.name}.{row.version}",
        "status": str(row.status),
        **reason_data(row.reason, row.conductor_reason),
        "output": result,
    }


def _refused(tx: WritingTransaction, event: Event, now: int, data: Mapping[str, object]) -> tuple[str, ...]:
    """Consume a START event, and answer its sender, if that wants to know; the executions that were written to."""
    answer: Mapping[str, Any] | None = event.data.value.get("answer") or event.data.value.get("parent")
    tx.executions.remove(event.workflow_id)
    if answer is None:
        return ()
    started = Event(
        workflow_id=event.sender,
        event_id=f"{EventKind.STARTED}:{event.workflow_id}",
        kind=EventKind.STARTED,
        due_at=now,
        posted_at=max(now, event.posted_at),
        sender=event.workflow_id,
        ref=answer["ref"],
        attempt=answer["attempt"],
        generation=answer["generation"],
        data=Payload.of({**data, "taskId": answer.get("taskId")}, bounded=False),
    )
    tx.inbox.post([started])
    return (event.sender,)


#: How long a poll of the same worker for the same type and domain is not written again, ms.
POLLS_MS: Final = 1_000

#: Workers, types and domains that are remembered before all are forgotten.
_KNOWN: Final = 10_000

_Key = tuple[str, str | None, str | None]


def checked_domains(given: Mapping[str, str] | None) -> dict[str, str]:
    """A mapping of task types to domains as it was given; raises InvalidInput when something in it is not text."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidInput(f"task_to_domain is a mapping of task types to domains, not a {type(given).__name__}")
    domains = dict(given or {})
    for task_type, domain in domains.items():
        if not isinstance(task_type, str) or not isinstance(domain, str):
            raise InvalidInput(f"task_to_domain: {task_type!r}: {domain!r} is not a task type and a domain, both texts")
    return domains


def last_polls(view: ReadingTransaction, task_type: str) -> dict[str, int]:
    """The instant of the last poll for a task type in each domain."""
    return {poll.domain: poll.last_poll_time for poll in view.poll_data.polls(task_type) if poll.domain is not None}


class Polls:
    """The polls of one engine that are to be written. Thread-safe: of two at one instant one may be forgotten."""

    def __init__(self) -> None:
        self._written: dict[_Key, int] = {}
        self._waiting: dict[_Key, PollData] = {}
        #: Whether a server answers for the engine, whose clients may poll.
        self.answered = False

    def noted(self, poll: PollData) -> Sequence[PollData]:
        """Return the polls to write now that this poll was made: none, or it and all that have waited meanwhile."""
        key = (poll.queue_name, poll.domain, poll.worker_id)
        last = self._written.get(key)
        self._waiting[key] = poll
        # A clock that was set back must not silence a worker until it has caught up.
        if last is not None and 0 <= poll.last_poll_time - last < POLLS_MS:
            return ()
        return tuple(self._waiting.values())

    def write(self, polls: Iterable[PollData]) -> PollWrite | None:
        """Return the write that records these polls, if anything is to be written."""
        due: Sequence[PollData] = ()
        for poll in polls:
            due = self.noted(poll) or due  # each time all that waits
        return PollWrite(due) if due else None

    def types(self) -> frozenset[str]:
        """The task types that were polled for of late."""
        return frozenset(task_type for task_type, _, _ in (*self._written.copy(), *self._waiting.copy()))

    def queues(self) -> frozenset[str]:
        """The queues that were polled of late, `type` or `domain:type`."""
        keys = (*self._written.copy(), *self._waiting.copy())
        return frozenset(f"{domain}:{task_type}" if domain else task_type for task_type, domain, _ in keys)

    def wrote(self, polls: Sequence[PollData]) -> None:
        """Remember what was written."""
        if len(self._written) > _KNOWN:
            self._written.clear()
        for poll in polls:
            key = (poll.queue_name, poll.domain, poll.worker_id)
            self._written[key] = poll.last_poll_time
            if self._waiting.get(key) is poll:
                self._waiting.pop(key, None)


class PollWrite:
    """Polls that ride along in the commit of a turn, if one is taken."""

    def __init__(self, polls: Sequence[PollData]) -> None:
        self.polls = polls
        self.written = False

    def __call__(self, tx: WritingTransaction, _: Decision | None = None) -> None:
        """Write them, in whatever transaction comes first."""
        if self.polls and not self.written:
            tx.poll_data.record_polls(self.polls)
            self.written = True
