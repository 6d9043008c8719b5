"""decide(): events in, a work list to a fixed point, one Decision out.

The whole engine in one pure function. What it guarantees: the same plan, answers of the reader, events and instant give the same
decision, on any machine. It reads no clock, no store, no random, and starts no process: what it has to know of an execution, and
what a script answers, it asks its `Reader`. It changes nothing: what is to be changed is in the Decision, and an event that does
not fit is answered in it (`replies`), never with an exception. InvariantBroken is raised when a law does not hold, by nothing else.

How a turn goes: each due event is handled by the function that `_HANDLERS` names for its kind; what follows from it is put on the
changeset's work list, and settled by `_STEPS` before the next event is looked at. Never recursion: a step looks at a few rows and
puts further steps on the list. A task whose successors are still on the list stays live until they are scheduled, so nothing that
looks at the counters in between can take the execution for finished.

A turn that reaches its bounds is cut: what is left becomes a CONTINUE event that is due at once. While an execution is paused what
is left is held the same way, item by item, until it is resumed. So every argument of a step is JSON: a row is named, never held.

What is not pretty. The order of the work list is part of the rules: `schedule` items are a stack and `advance` items a queue,
because Conductor schedules in that order, and tests compare it. And the journal is written for replay as well as for people: what
an event says that no line records is noted by `cause_of`, and a new kind of event has to be thought of there.

Source of the rules: Conductor's `DeciderService.decide` and `WorkflowExecutorOps`; their transitions are kept, their loop is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from conductorlite.decide.admissions import REOPENING, on_admission, on_granted, on_offer_ends, on_window_moves, step_admitted
from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.changeset.events import REPLIES
from conductorlite.decide.changeset.reader import Bounds, Reader
from conductorlite.decide.endings import fail_workflow, leave_limit, schedule_compensation
from conductorlite.decide.operators.do_while import next_round
from conductorlite.decide.operators.join import choose, look_again, schedule_branch
from conductorlite.decide.prefetch import prefetch
from conductorlite.decide.progress import advance, executed, schedule_item
from conductorlite.decide.reports import (
    on_extend_lease,
    on_give_back,
    on_poll,
    on_poll_timeout,
    on_report,
    on_response_timeout,
    on_task_timeout,
    on_total_timeout,
    on_workflow_timeout,
)
from conductorlite.decide.sub_workflows import on_child_ended, on_started
from conductorlite.decide.verbs import (
    on_append,
    on_continue,
    on_debounce,
    on_migrate,
    on_pause,
    on_resume,
    on_skip,
    on_start,
    on_terminate,
    on_variables,
)
from conductorlite.model.decisions import Admission, Decision, Event, EventKind, Message, Outcome
from conductorlite.model.errors import InvariantBroken
from conductorlite.model.later import functions
from conductorlite.model.scalars import encoded
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.plan.compile import Plan

if TYPE_CHECKING:
    from conductorlite.decide.elapsed import on_clock_set, on_suspended
    from conductorlite.decide.forks import on_fork
    from conductorlite.decide.messages import on_send, on_wait_ends, receive
    from conductorlite.decide.reruns import on_rerun, on_restart
    from conductorlite.decide.retries import on_child_reopened, on_retry
    from conductorlite.decide.streams import on_set_value
else:
    on_clock_set, on_suspended = functions("conductorlite.decide.elapsed", "on_clock_set", "on_suspended")
    on_send, on_wait_ends, receive = functions("conductorlite.decide.messages", "on_send", "on_wait_ends", "receive")
    (on_fork,) = functions("conductorlite.decide.forks", "on_fork")
    on_rerun, on_restart = functions("conductorlite.decide.reruns", "on_rerun", "on_restart")
    on_child_reopened, on_retry = functions("conductorlite.decide.retries", "on_child_reopened", "on_retry")
    (on_set_value,) = functions("conductorlite.decide.streams", "on_set_value")

__all__ = ["DECIDER_VERSION", "Bounds", "Reader", "cause_of", "decide"]

#: Raised when the same events would be decided otherwise; stored with each execution.
DECIDER_VERSION: Final = 1

_HANDLERS: Final[Mapping[EventKind, Callable[[Changeset, Event], None]]] = {
    EventKind.START: on_start,
    EventKind.DEBOUNCE: on_debounce,
    EventKind.PAUSE: on_pause,
    EventKind.RESUME: on_resume,
    EventKind.TERMINATE: on_terminate,
    EventKind.RETRY: on_retry,
    EventKind.RESTART: on_restart,
    EventKind.RERUN: on_rerun,
    EventKind.FORK: on_fork,
    EventKind.SKIP: on_skip,
    EventKind.VARIABLES: on_variables,
    EventKind.APPEND: on_append,
    EventKind.MIGRATE: on_migrate,
    EventKind.SEND: on_send,
    EventKind.SET_VALUE: on_set_value,
    EventKind.POLL: on_poll,
    EventKind.REPORT: on_report,
    EventKind.EXTEND_LEASE: on_extend_lease,
    EventKind.GIVE_BACK: on_give_back,
    EventKind.SUSPENDED: on_suspended,
    EventKind.CLOCK_SET: on_clock_set,
    EventKind.WAIT_ENDS: on_wait_ends,
    EventKind.POLL_TIMEOUT: on_poll_timeout,
    EventKind.RESPONSE_TIMEOUT: on_response_timeout,
    EventKind.TASK_TIMEOUT: on_task_timeout,
    EventKind.TOTAL_TIMEOUT: on_total_timeout,
    EventKind.WORKFLOW_TIMEOUT: on_workflow_timeout,
    EventKind.ADMISSION: on_admission,
    EventKind.GRANTED: on_granted,
    EventKind.OFFER_ENDS: on_offer_ends,
    EventKind.WINDOW_MOVES: on_window_moves,
    EventKind.CHILD_ENDED: on_child_ended,
    EventKind.STARTED: on_started,
    EventKind.CHILD_REOPENED: on_child_reopened,
    EventKind.CONTINUE: on_continue,
}

_STEPS: Final[Mapping[str, Callable[..., None]]] = {
    "schedule": schedule_item,
    "branch": schedule_branch,
    "advance": advance,
    "executed": executed,
    "round": next_round,
    "choose": choose,
    "look_again": look_again,
    "compensate": schedule_compensation,
    "admitted": step_admitted,
    "receive": receive,
}

#: What gives what a turn offers to workers that are free: see `decide`.
Handing = Callable[[Sequence[Message], Callable[[int, Iterable[str]], bool]], Sequence[Event]]

_NOWHERE: Final[Mapping[str, str]] = {}


def decide(
    plan: Plan,
    reader: Reader,
    events: Sequence[Event],
    now: int,
    *,
    environment: Mapping[str, str] = _NOWHERE,
    bounds: Bounds = Bounds(),  # noqa: B008 - frozen
    recorded: Sequence[Admission] | None = None,
    hand_out: Handing | None = None,
) -> Decision:
    """Take one turn over events of an execution, in inbox order.

    `now` is the raw clock in epoch ms; rows are stamped with the latest of it, the workflow's last change and the events'
    posting, so time never runs back within a workflow. `environment` is what `${NAME}` and `${workflow.env.NAME}` resolve to.
    `recorded`, when a recorded turn is replayed, is what limits answered in it: they are not asked. `hand_out` is given what the
    turn puts into queues, and `Changeset.is_done_until`; it answers with the polls of workers that are free: they belong to the
    turn, as its last events, and one may be made later than `now`.
    Raises InvariantBroken when a law does not hold, and whatever the reader raises.
    """
    if not reader.at_hand:
        prefetch(plan, reader, events)
    changeset = Changeset(plan, reader, now, environment, bounds)
    if recorded is not None:
        changeset.limits.recorded = list(recorded)
    if len(events) > 1:
        events = sorted(events, key=lambda event: _turn_order(event, unborn=reader.workflow.history_seq == 0))
    for number, event in enumerate(events):
        if changeset.more or (number > 0 and event.kind is EventKind.MIGRATE):
            changeset.more = True
            break
        for one in (*changeset.events.overtaken(event), event) if event.sender else (event,):
            _handle(changeset, one)
    if hand_out is not None and not (changeset.more or changeset.refused or changeset.workflow.status.terminal):
        polls = hand_out(changeset.queues.offered(), changeset.is_done_until)
        if len(polls) > 1:
            changeset.rows.known_tasks([event.ref for event in polls if event.ref is not None])  # read in one batch
        for event in polls:
            if event.due_at > changeset.moment.clock:
                changeset.moment.clock = event.due_at
            _handle(changeset, event)
    return changeset.decision()


def _handle(changeset: Changeset, event: Event) -> None:
    """Handle one event and settle what follows from it, unless it was handled already, before one that had overtaken it."""
    if event.event_id in changeset.replies:
        return
    if event.posted_at > changeset.moment.now:
        changeset.moment.now = event.posted_at
    if event.stored:
        changeset.events.consume(event)
        if changeset.events.replaced(event):
            changeset.reply(event, Outcome.IGNORED, "the turn that read it has dated it again")
            return
    changeset.journal.begin(cause_of(changeset, event))
    _HANDLERS[event.kind](changeset, event)
    if changeset.documents.lost is not None:
        _give_up(changeset)
    if event.event_id not in changeset.replies:
        changeset.replies[event.event_id] = _DONE
    elif event.kind in REOPENING and changeset.workflow.status.terminal and not changeset.workflow.rate_limited:
        leave_limit(changeset)  # it was refused after all
    if changeset.work.stack or changeset.work.queue:
        _settle(changeset)


#: What is asked for in each turn: Python finds a global faster than a member of an enumeration.
_RUNNING, _POLL, _REPORT, _DONE = WorkflowStatus.RUNNING, EventKind.POLL, EventKind.REPORT, REPLIES[Outcome.DONE]


def _turn_order(event: Event, *, unborn: bool) -> int:
    """A START comes first, whatever a clock that was ahead has dated before it; a migration last: it looks at stored rows.

    A message comes before what is due: at the deadline of a task that waits for it, it is received.
    """
    if event.kind is EventKind.MIGRATE:
        return 3
    if event.kind is EventKind.SEND:
        return 1
    return 0 if unborn and event.kind is EventKind.START else 2


def _settle(changeset: Changeset) -> None:
    """Work the list off, or hold it while the workflow is paused, or cut the turn."""
    row, stack, queue, made = changeset.workflow, changeset.work.stack, changeset.work.queue, changeset.rows.inserted
    left, rows = changeset.bounds.steps, changeset.bounds.rows
    while stack or queue:
        if row.status is not _RUNNING:
            _put_aside(changeset)
            return
        if not left or len(made) >= rows:
            changeset.continue_later()
            return
        left -= 1
        name, *arguments = stack.pop() if stack else queue.popleft()
        _STEPS[name](changeset, *arguments)
        if changeset.documents.lost is not None:
            _give_up(changeset)
        if changeset.work.reopening and not (stack or queue):
            changeset.work.reopening = False


def _give_up(changeset: Changeset) -> None:
    """Fail a workflow that cannot go on without a document that cannot be read, where no task could fail of it."""
    problem, changeset.documents.lost = changeset.documents.lost, None
    if problem is not None and changeset.workflow.status is WorkflowStatus.RUNNING:
        fail_workflow(changeset, WorkflowStatus.FAILED, problem, None)


def _put_aside(changeset: Changeset) -> None:
    """A paused workflow keeps what follows for its resumption; an ended one drops it."""
    if changeset.workflow.status is WorkflowStatus.PAUSED:
        if changeset.work.stack:
            raise InvariantBroken(f"workflow {changeset.workflow.workflow_id}: paused in the middle of scheduling")
        for item in changeset.work.queue:
            changeset.hold_item(item)
    changeset.work.clear()


_SAID: Final = {name: name for name in ("reason", "conductorReason", "resume", "parent", "workflowId", "error", "existing")}

#: What leads to no line.
_UNSEEN: Final = frozenset({EventKind.EXTEND_LEASE, EventKind.SET_VALUE})

#: What the journal says of an event that came from outside: names in its data, and what they are called there.
_ORIGIN: Final[Mapping[EventKind, Mapping[str, str]]] = {
    EventKind.START: {"at": "at", "delay": "delay", "since": "since"},
    EventKind.GIVE_BACK: {"why": "why"},
    EventKind.SEND: {"topic": "topic", "key": "key", "ref": "ref", "posted": "posted", "within": "within"},
    EventKind.TERMINATE: _SAID,
    EventKind.RETRY: _SAID,
    EventKind.STARTED: _SAID,
}


def cause_of(changeset: Changeset, event: Event) -> str | None:
    """Return what the next line says of an event, beyond what it records itself, as canonical JSON.

    None when the execution sent it, or it leaves no line. With it, and with the lines, everything that ever came from outside can
    be done again: see `Engine.export`. Timers and the rest of cut turns come by themselves, and signs of life lead to no line.
    """
    kind, sender = event.kind, event.sender
    if not sender and (kind is _POLL or kind is _REPORT):
        said = changeset.documents.value(event.data) if event.stored else event.data.value
        if kind is _POLL:
            return _cause_of_poll(said.get("workerId"))
        reason = said.get("reason") if said.get("status") == "IN_PROGRESS" else None
        errors = tuple(said["errorTypes"]) if said.get("errorTypes") else ()
        bases = tuple(said["errorBases"]) if said.get("errorBases") else ()
        return _cause_of_report(said.get("workerId"), said.get("callbackAfterMs"), errors, bases, reason)
    if sender == event.workflow_id or kind in _UNSEEN:
        return None
    row = changeset.workflow
    # The line of an APPEND records the resulting variables.
    cause: dict[str, Any] = {"kind": str(EventKind.VARIABLES if kind is EventKind.APPEND else kind)}
    if event.sender:
        cause |= {"from": event.sender, "id": event.event_id}
    names = _ORIGIN.get(kind, _NOWHERE)
    if kind is EventKind.START or kind is EventKind.FORK:
        cause |= {"definition": row.definition_hash}
        cause |= {} if row.correlation_id is None else {"correlationId": row.correlation_id}
        names = {} if event.sender else names
    if names:
        said = changeset.documents.value(event.data)
        cause |= {called: said[name] for name, called in names.items() if said.get(name)}
    return encoded(cause)


@lru_cache(maxsize=256)
def _cause_of_poll(worker: str | None) -> str:
    return encoded({"kind": str(_POLL), **({"worker": worker} if worker else {})})


@lru_cache(maxsize=256, typed=True)
def _cause_of_report(
    worker: str | None, callback_ms: int | None, errors: tuple[str, ...], bases: tuple[str, ...], reason: str | None
) -> str:
    cause = {"worker": worker, "callback": callback_ms, "errors": errors, "bases": bases, "reason": reason}
    return encoded({"kind": str(_REPORT), **{name: value for name, value in cause.items() if value}})
