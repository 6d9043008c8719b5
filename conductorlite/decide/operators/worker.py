"""Tasks that workers carry out: SIMPLE and every type that is not an operator.

Scheduling puts a message into the queue of the task's type, visible after the start or retry delay. The poll timeout counts
from that instant. (Conductor adds the delay twice; see the compatibility page.)

A task of a limited definition asks for a slot when it is due, and is PENDING until it has one: then it is offered, and its poll
timeout begins. Put back by its worker, it gives the slot back and asks again. Under a rate limit an offer stands for a while only:
what no worker takes goes back into the line, see `limits`.

The workflow's `taskToDomain` names a domain, or a list of them, for a task type or for `*`, all of them; the type's own entry
wins. Of a list the first domain counts that was polled for lately, else the last; NO_DOMAIN stands for none, and counts only as
the last. It is looked up again at every scheduling: workers come and go. Source of the rule: Conductor's `setTaskDomains` and
`getActiveDomain`, without its slip of comparing with NO_DOMAIN before blanks are cut off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.changeset.rows import Before
from conductorlite.decide.operators.document import ExpressionContext, rendered
from conductorlite.decide.transitions import attempt_id
from conductorlite.language.templates import Template
from conductorlite.language.values import to_text
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import EventKind, queue_name
from conductorlite.model.definitions import TaskType
from conductorlite.model.executions import Task, printed_ref
from conductorlite.model.later import functions
from conductorlite.model.limits import NO_LIMIT, OFFER_MS, task_key
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.plan.compile import Node

if TYPE_CHECKING:
    from conductorlite.model.fairness import cost_of
else:
    (cost_of,) = functions("conductorlite.model.fairness", "cost_of")

__all__ = [
    "POLLED_LATELY_MS",
    "admitted",
    "ask_again",
    "ask_now",
    "ask_when_resumed",
    "domain_of",
    "lane_of",
    "offer",
    "queue_again",
    "schedule_worker",
    "start_deadlines",
]

#: A domain was polled for lately when that is less ago than this: Conductor's activeWorkerLastPollTimeout.
POLLED_LATELY_MS: Final = 10_000

_ALL: Final = "*"
_NONE: Final = "NO_DOMAIN"

#: Types that Conductor's server carries out; they have no workers, so no domains either.
_WITHOUT: Final = frozenset(TaskType) - {TaskType.SIMPLE, TaskType.DYNAMIC, TaskType.USER_DEFINED}


def domain_of(changeset: Changeset, task_type: str, kind: str, previous: Task | None = None) -> str | None:
    """The domain for a task of a type: `kind` is the definition's type, `task_type` what workers poll for.

    A workflow that says nothing about the type leaves a further attempt where the `previous` one was.
    """
    kept = None if previous is None else previous.domain
    if kind in _WITHOUT:
        return None
    given = changeset.workflow.task_to_domain
    if given.text == "{}":
        return kept
    wanted = changeset.documents.value(given)
    entry = wanted.get(task_type, wanted.get(_ALL))
    return kept if entry is None else _active(changeset, task_type, entry)


def _active(changeset: Changeset, task_type: str, entry: str) -> str | None:
    names = [name.strip() for name in entry.split(",") if name.strip()]
    if not names:
        return None
    candidates = [name for name in names[:-1] if name.upper() != _NONE]
    if candidates:
        polls = changeset.reader.polls(task_type)
        for name in candidates:
            if name in polls and polls[name] > changeset.moment.clock - POLLED_LATELY_MS:
                return name
    return None if names[-1].upper() == _NONE else names[-1]


def schedule_worker(
    changeset: Changeset, node: Node, iterations: tuple[int, ...], previous: Task | None = None, delay_ms: int | None = None
) -> None:
    """Schedule an attempt, `delay_ms` from now (None: after the node's startDelay)."""
    ref = printed_ref(node.ref, iterations) if iterations else node.ref
    attempt = 0 if previous is None else previous.attempt + 1
    task_id = attempt_id(changeset.workflow, ref, attempt, changeset.workflow.generation)
    values = rendered(changeset, node, iterations, task_id)
    if previous is not None and previous.input.text != "{}":
        values = {**changeset.documents.value(previous.input), **values}
    given = Payload.of(values)
    broken = None if node.input_check is None else node.input_check.violation(values)
    if broken is not None:
        changeset.create_ended(
            node,
            iterations,
            TaskStatus.FAILED_WITH_TERMINAL_ERROR,
            previous=previous,
            input=given,
            reason=f"its input breaks inputSchema: {broken}",
        )
        return
    delay = node.task.start_delay_ms if delay_ms is None else delay_ms
    domain = None if previous is None else previous.domain
    if changeset.workflow.task_to_domain.text != "{}":
        domain = domain_of(changeset, node.task_type, node.task.type, previous)
    due_at = changeset.moment.now + delay if delay else changeset.moment.clock
    fields: dict[str, Any] = {"task_id": task_id, "due_at": due_at, "start_delay_ms": delay, "domain": domain}
    status, limit_key = TaskStatus.SCHEDULED, None
    if node.limit is not NO_LIMIT and node.limit:
        lane = queue_name(node.task_type, domain, changeset.workflow.owner)
        status, limit_key = _slot(changeset, node, task_id, ref, attempt, delay, lane)
        fields["limit_key"] = limit_key
    if node.policy.total_timeout_ms > 0:
        fields["total_timeout_at"] = total_timeout_at(changeset, node, previous)
    if status is TaskStatus.SCHEDULED:
        fields["poll_timeout_at"] = _poll_timeout_at(changeset, node, due_at)
    task = changeset.create(node, iterations, status, previous=previous, input=given, **fields)
    if status is TaskStatus.SCHEDULED:
        if limit_key is not None:
            _limit_offer(changeset, node, task)
        changeset.queues.offer(task)
    elif limit_key is None:
        changeset.events.date(task, EventKind.ADMISSION, due_at)


def _slot(
    changeset: Changeset, node: Node, task_id: str, ref: str, attempt: int, delay_ms: int, lane: str
) -> tuple[TaskStatus, str | None]:
    """As what a task begins, or is put back, and the limit it belongs to: a delayed one has none before it is due."""
    if not node.limit:
        return TaskStatus.SCHEDULED, None
    # One that is paused holds up no other: it asks when resumed.
    if delay_ms > 0 or changeset.workflow.status is WorkflowStatus.PAUSED:
        return TaskStatus.PENDING, None
    key = task_key(node.task.name)
    share = None if node.fairness is None else _share(changeset, *node.fairness)
    admitted = changeset.limits.ask(key, task_id, node.limit, ref=ref, attempt=attempt, lane=lane, share=share)
    return (TaskStatus.SCHEDULED if admitted else TaskStatus.PENDING), key


def _share(changeset: Changeset, template: Template, weights: Mapping[str, int]) -> tuple[str, int]:
    """The key under which a task takes turns, and what it pays; tasks without a value share one key."""
    value = template.render(ExpressionContext(changeset, template.reads))
    key = "" if value is None else to_text(value)
    return key, cost_of(weights.get(key, 1))


def lane_of(changeset: Changeset, task: Task) -> str:
    """The queue whose polls take a task."""
    return queue_name(task.task_type, task.domain, changeset.workflow.owner)


def queue_again(changeset: Changeset, node: Node, row: Any, before: Before, delay_ms: int) -> None:
    """Put an opened row back into its queue, or into the line of its limit; its slot is given back. The row is settled."""
    if row.limit_key is not None:
        changeset.limits.give_back(row.limit_key, [row.task_id], of=row.ref)
    if row.status is TaskStatus.PENDING:
        changeset.events.cancel(f"{EventKind.ADMISSION}:{row.ref}")
    status, limit_key = _slot(changeset, node, row.task_id, row.ref, row.attempt, delay_ms, lane_of(changeset, row))
    if row.status is TaskStatus.SCHEDULED and status is TaskStatus.PENDING:
        changeset.queues.remove(row)
        changeset.events.cancel(f"{EventKind.OFFER_ENDS}:{row.ref}")
    row.status, row.limit_key, row.due_at = status, limit_key, changeset.moment.after(delay_ms)
    changeset.settle(row, before)
    if status is TaskStatus.SCHEDULED:
        offer(changeset, node, row)
    elif limit_key is None:
        changeset.events.date(row, EventKind.ADMISSION, row.due_at)


def ask_now(changeset: Changeset, node: Node, task: Task) -> None:
    """Have a PENDING task that is due ask for its slot."""
    status, limit_key = _slot(changeset, node, task.task_id, task.ref, task.attempt, 0, lane_of(changeset, task))
    task = changeset.put(task, limit_key=limit_key or task_key(node.task.name))
    if status is TaskStatus.SCHEDULED:
        admitted(changeset, task.ref)


def ask_again(changeset: Changeset, node: Node, row: Any, before: Before, *, reason: str | None = None) -> bool:
    """Have an opened row that counts in a window ask at its old place for another begin; when it has to wait it is PENDING.

    The row is settled.
    """
    if changeset.workflow.status is WorkflowStatus.PAUSED:
        if row.limit_key is not None:
            changeset.limits.give_back(row.limit_key, [row.task_id], of=row.ref)
        row.status, row.limit_key = TaskStatus.PENDING, None
        changeset.settle(row, before, because=reason)
        ask_when_resumed(changeset, row)
        return False
    key = task_key(node.task.name)
    asked_at = row.scheduled_at + row.start_delay_ms
    lane = lane_of(changeset, row)
    share = None if node.fairness is None else _share(changeset, *node.fairness)
    has_place = changeset.limits.ask(
        key, row.task_id, node.limit, ref=row.ref, attempt=row.attempt, lane=lane, asked_at=asked_at, share=share
    )
    row.status, row.limit_key = TaskStatus.SCHEDULED if has_place else TaskStatus.PENDING, key
    changeset.settle(row, before, because=reason)
    return has_place


def ask_when_resumed(changeset: Changeset, task: Task | None) -> None:
    """Have a task, or (None) the execution itself, ask for its slot when the execution is resumed."""
    kind, at = EventKind.ADMISSION, changeset.moment.clock
    if task is None:
        changeset.events.post(kind, kind, at, held=True)
    else:
        changeset.events.post(
            f"{kind}:{task.ref}", kind, at, held=True, ref=task.ref, attempt=task.attempt, generation=task.generation
        )


def admitted(changeset: Changeset, ref: str) -> None:
    """Offer a PENDING task that has its slot."""
    task = changeset.rows.known(ref)
    if task.status is TaskStatus.PENDING and task.limit_key is not None:
        task = changeset.put(task, status=TaskStatus.SCHEDULED, due_at=changeset.moment.clock, updated_at=changeset.moment.now)
        offer(changeset, changeset.rows.node(task), task)


def total_timeout_at(changeset: Changeset, node: Node, previous: Task | None) -> int | None:
    """Return when all attempts together have taken too long, counted from the first scheduling; None once that has passed."""
    if node.policy.total_timeout_ms <= 0:
        return None
    first = changeset.moment.now if previous is None else previous.first_scheduled_at
    at = first + node.policy.total_timeout_ms
    return at if at > changeset.moment.now else None


def start_deadlines(changeset: Changeset, node: Node, task: Task, previous: Task | None = None) -> Task:
    """Start the timeouts of an operator that is in progress from its scheduling on, where its definition has any.

    A delay before it begins is no part of the task timeout (Conductor counts it there, and once more).
    """
    policy = node.policy
    total = total_timeout_at(changeset, node, previous)
    own = max(task.due_at, changeset.moment.now) + policy.timeout_ms if policy.timeout_ms else None
    return task if total is None and own is None else changeset.put(task, total_timeout_at=total, timeout_at=own)


def _poll_timeout_at(changeset: Changeset, node: Node, due_at: int) -> int | None:
    span = node.policy.poll_timeout_ms
    return (due_at if due_at > changeset.moment.clock else changeset.moment.clock) + span if span > 0 else None


def offer(changeset: Changeset, node: Node, task: Task) -> None:
    """Put a SCHEDULED task into its queue at `due_at` and start its poll timeout there, or now if that is past."""
    at = _poll_timeout_at(changeset, node, task.due_at)
    if at is not None and at != task.poll_timeout_at:
        task = changeset.put(task, poll_timeout_at=at)
    _limit_offer(changeset, node, task)
    changeset.queues.offer(task)


def _limit_offer(changeset: Changeset, node: Node, task: Task) -> None:
    """Have an offer under a rate limit end: what no worker takes goes back into the line."""
    if task.limit_key is not None and node.limit.rate:
        changeset.events.date(task, EventKind.OFFER_ENDS, changeset.moment.clock + OFFER_MS)
