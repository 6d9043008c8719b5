"""Messages to an execution: kept in its mailbox, received by a task of it.

A message gets its number in the turn that keeps it. It goes to the open task of its topic that began first; while there is none it
is kept, and the first task of its topic that begins receives it, in the commit in which that task completes. Each message is
received once; `rerun` and `restart` give back what the tasks that they take back have received.

A signal that comes before its WAIT or HUMAN is a message to that task. It is kept as long as the execution can still come to the
task. Source of the rules: our own; Conductor has a queue for each workflow, from which PULL_WORKFLOW_MESSAGES takes, and no early
signals.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.reports import due_attempt, take_report
from conductorlite.model.canonical import Document, Payload, size_of
from conductorlite.model.decisions import Event, EventKind, Outcome
from conductorlite.model.executions import HistoryKind, Task, Workflow, printed_ref
from conductorlite.model.later import functions
from conductorlite.model.mailbox import (
    DEFAULT_TOPIC,
    MAX_BATCH,
    MAX_MESSAGES,
    WorkflowMessage,
    sent_message,
    signal_topic,
    topic_of,
)
from conductorlite.model.scalars import encoded
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.texts import did_you_mean, instant_text
from conductorlite.plan.compile import Node, Plan, split_ref
from conductorlite.plan.tree import attempt_in, holder_of, positions

if TYPE_CHECKING:
    from conductorlite.plan.migration import Place, following, starts_of
else:
    following, starts_of = functions("conductorlite.plan.migration", "following", "starts_of")

__all__ = ["SIGNALED", "give_back", "on_send", "on_wait_ends", "receive", "rename_receivers", "why_unreachable"]

#: Types of the tasks for which a signal that comes early is kept; a DYNAMIC may stand for one.
SIGNALED: Final = frozenset({"WAIT", "HUMAN", "DYNAMIC"})


#: Bytes of what stands around the messages in the output of their task.
_AROUND: Final = len(f'{{"messages":[],"count":{MAX_BATCH}}}')

_PULL: Final = "PULL_WORKFLOW_MESSAGES"


def on_send(changeset: Changeset, event: Event) -> None:
    """Keep a message, and have the task receive it that waits for one of its topic, if there is one.

    What was posted, and so acknowledged, is kept whatever has become of the execution since.
    """
    said = changeset.documents.value(event.data)
    topic, key, ref = said["topic"], said["key"], said.get("ref")
    value = changeset.documents.payload(said["value"])
    known = None if said.get("new") else changeset.mailbox.sent(topic, key)
    if known is not None and known.value == value:
        changeset.reply(event, Outcome.IGNORED, f"it is message {known.number}, which was sent before")
    elif known is not None:
        text = f"message {known.number} of topic {topic!r} has the key {key!r} and another value"
        changeset.reply(event, Outcome.CONFLICT, text)
    elif said.get("posted") or _is_taken(changeset, event, topic, ref):
        _keep(changeset, topic, key, value)
        holders = _open_holders(changeset, ref) if ref is not None and said.get("within") else ()
        for task in (*_receivers(changeset, topic, ref), *holders):
            receive(changeset, task.ref)
            if not changeset.workflow.unreceived:
                break


def _is_taken(changeset: Changeset, event: Event, topic: str, ref: str | None) -> bool:
    """Return True if a message can be kept; if it cannot, the event is answered."""
    row = changeset.workflow
    if row.status.terminal:
        changeset.reply(event, Outcome.ENDED, f"a {row.status} workflow takes no message")
        return False
    if row.unreceived >= MAX_MESSAGES:
        text = f"{row.unreceived} messages are kept for tasks that have not received them, and no more than {MAX_MESSAGES} can be"
        changeset.reply(event, Outcome.FULL, text)
        return False
    if ref is None or any(True for _ in _receivers(changeset, topic, ref)):
        return True
    changeset.reader.prefetch(everything=True)
    why = why_unreachable(row, changeset.rows.everything(), changeset.rows.plan_of, ref)
    if why is not None:
        changeset.reply(event, Outcome.MISSING, f"there is no open task {ref!r}: {why}")
    return why is None


def _keep(changeset: Changeset, topic: str, key: str, value: Any) -> None:
    row = changeset.workflow
    number = row.message_seq + 1
    changeset.journal.add(HistoryKind.MESSAGE, "SENT", number=number, payload=value)
    changeset.change(message_seq=number, unreceived=row.unreceived + 1)
    changeset.mailbox.put(sent_message(row.workflow_id, number, topic, key, value, changeset.moment.now))


def _receivers(changeset: Changeset, topic: str, ref: str | None) -> Iterator[Task]:
    """The open tasks that a message of a topic, or a signal to a task, is for, in the order in which they began."""
    if changeset.workflow.status.terminal:
        return
    for task in changeset.rows.all_live():
        if task.status.terminal:
            continue
        if ref is None:
            is_for = task.task_type == _PULL and topic_of(changeset.documents.value(task.input)) == topic
        else:
            is_for = ref in (task.ref, task.base_ref) and task.task_type in SIGNALED
        if is_for:
            yield task


def _open_holders(changeset: Changeset, ref: str) -> list[Task]:
    """The open tasks in whose `try` a step is."""
    live = ((task, attempt_in(changeset.rows.node(task).task)) for task in changeset.rows.all_live() if not task.status.terminal)
    return [task for task, inner in live if inner is not None and holder_of(inner, ref) is not None]


def receive(changeset: Changeset, ref: str, *, ended: bool = False) -> None:
    """Have a task that has begun take what is kept for it, the lowest number first; with `ended` its time is over.

    A WAIT or HUMAN takes signals until it has ended, a PULL_WORKFLOW_MESSAGES as many messages as it asks for, and ends with them.
    """
    task = changeset.rows.task(ref)
    if task is None or task.status is not TaskStatus.IN_PROGRESS or changeset.workflow.rate_limited:
        return
    if task.task_type == _PULL:
        _pull(changeset, task, ended=ended)
        return
    if task.sub_workflow_id is not None:
        _pass_on(changeset, task)
        return
    topics = {signal_topic(task.ref), signal_topic(task.base_ref)}
    while changeset.workflow.unreceived and not task.status.terminal:
        found = [message for topic in topics for message in changeset.mailbox.unreceived(topic, 1)]
        if not found:
            return
        message = min(found, key=lambda one: one.number)
        _take(changeset, task, [message])
        take_report(changeset, task, changeset.documents.value(message.value))
        task = changeset.rows.known(ref)


def _pass_on(changeset: Changeset, task: Task) -> None:
    """Send what is kept for steps of a `try` to the execution in which they run: to each as much as it takes until it ends."""
    inner = attempt_in(changeset.rows.node(task).task)
    if inner is None:
        return
    kept = [one for one in changeset.mailbox.everything() if one.receiver is None and one.signal_to is not None]
    ended: set[str] = set()
    for message in sorted(kept, key=lambda one: one.number):
        ref = str(message.signal_to)
        if ref in ended or holder_of(inner, ref) is None:
            continue
        value = changeset.documents.value(message.value)
        _take(changeset, task, [message])
        said = {"topic": message.topic, "key": message.key, "value": value, "ref": ref, "posted": True, "within": True}
        event_id = f"{EventKind.SEND}:{message.workflow_id}:{message.number}"
        changeset.events.post_to(str(task.sub_workflow_id), event_id, EventKind.SEND, said, due_at=task.due_at)
        if TaskStatus(value["status"]).terminal:
            ended.add(ref)


def on_wait_ends(changeset: Changeset, event: Event) -> None:
    """A WAIT is over, or the time in which a task waits for messages."""
    task = due_attempt(changeset, event, "wait_until")
    if task is not None and task.task_type == _PULL:
        receive(changeset, task.ref, ended=True)
    elif task is not None:
        # What was signalled to it while it waited is its output.
        changeset.close(task, TaskStatus.COMPLETED)


def _pull(changeset: Changeset, task: Task, *, ended: bool) -> None:
    """Have a task receive messages of its topic, if there are any, or none where it does not wait for them any more."""
    values = changeset.documents.value(task.input)
    topic = topic_of(values) or DEFAULT_TOPIC
    found = changeset.mailbox.unreceived(topic, _batch_size(values.get("batchSize"))) if changeset.workflow.unreceived else []
    if not found and not ended and values.get("blocking") is not False:
        return
    received: list[WorkflowMessage] = []
    documents: list[dict[str, Any]] = []
    size, most = _AROUND, changeset.bounds.barriers.hard("task_output")
    for message in found:
        document = {
            "id": message.key,
            "workflowId": message.workflow_id,
            "payload": changeset.documents.value(message.value),
            "receivedAt": instant_text(message.sent_at),
        }
        if len(found) > 1:
            size += size_of(encoded(document)) + 1
            if received and size > most:
                break  # the next task takes it
        received.append(message)
        documents.append(document)
    _take(changeset, task, received)
    output = Payload.made({"messages": documents, "count": len(documents)})  # of what is JSON already
    take_report(changeset, task, {"status": "COMPLETED", "output": Document(output)})


def _batch_size(value: object) -> int:
    """Return how many messages a task receives at most: for a number the nearest allowed one, for anything else one."""
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else 1
    return int(min(max(number, 1), MAX_BATCH))


def _take(changeset: Changeset, task: Task, messages: Iterable[WorkflowMessage]) -> None:
    """Note that a task has received messages."""
    for message in messages:
        changeset.mailbox.put(attrs.evolve(message, receiver=task.ref, received_at=changeset.moment.now))
        changeset.change(unreceived=changeset.workflow.unreceived - 1)


def give_back(changeset: Changeset, refs: Collection[str]) -> None:
    """Keep again what tasks have received that are taken back; they, or others, receive it again in its order."""
    for message in changeset.mailbox.everything() if changeset.workflow.message_seq else ():
        if message.receiver in refs:
            changeset.mailbox.put(attrs.evolve(message, receiver=None, received_at=None))
            changeset.change(unreceived=changeset.workflow.unreceived + 1)


def rename_receivers(changeset: Changeset, renamed: Mapping[str, str], refs: Mapping[str, str]) -> None:
    """Have messages name the tasks of an execution that moves to another definition as that does."""
    for message in changeset.mailbox.everything():
        changes: dict[str, Any] = {}
        if message.receiver is not None and message.receiver in renamed:
            changes["receiver"] = renamed[message.receiver]
        ref = message.signal_to
        if ref is not None:
            base, at = split_ref(changeset.plan, ref)
            if base in refs:
                changes["topic"] = signal_topic(printed_ref(refs[base], at))
        if changes:
            changeset.mailbox.put(attrs.evolve(message, **changes))


def _is_to_come(node: Node, wanted: tuple[int, ...], rounds: tuple[int, ...] | None, begun: Mapping[str, Task]) -> bool:
    """Return True if a task the flow may come to, in these rounds or (None) later ones, is the wanted one and has not begun."""
    if rounds is not None:
        return wanted in ((), rounds) and printed_ref(node.ref, rounds) not in begun
    loop = begun.get(printed_ref(node.loops[-1], wanted[:-1])) if wanted and len(wanted) == len(node.loops) else None
    return not wanted or loop is None or wanted[-1] > loop.round


def _holder(plan: Plan, ref: str) -> Node | None:
    """The task that starts the execution in which a step of a `try` runs; None when there is none."""
    attempts = ((node, attempt_in(node.task)) for node in plan.nodes.values())
    return next((node for node, inner in attempts if inner is not None and holder_of(inner, ref) is not None), None)


def _type_within(node: Node, ref: str) -> str:
    inner = attempt_in(node.task)
    around = None if inner is None else holder_of(inner, ref)
    return "" if around is None else positions(around)[ref].task.type


def why_unreachable(
    workflow: Workflow,
    rows: Sequence[Task],
    plan_of: Callable[[Sequence[str]], Plan],
    ref: str,
    pending: Iterable[Place] = (),
    *,
    held: bool = True,
) -> str | None:
    """Why no signal to a task can be kept: the execution does not come to it any more. None when it may.

    `ref` is a reference of the definition or a printed one, `rows` are the last attempts, and `pending` is what a cut turn has
    still to schedule. A step of a `try` is `held` by the task that is to start its execution.
    """
    if workflow.status.terminal:
        return f"a {workflow.status} workflow comes to no task any more"
    if workflow.compensating is not None:
        return "the workflow is being compensated, and comes to no further task of its flow"
    begun = {row.ref: row for row in rows}
    why = f"the definition has no task {ref!r}{did_you_mean(ref, plan_of(()).nodes)}"
    for grafts in dict.fromkeys([(), *(row.grafts for row in rows if row.live)]):
        plan = plan_of(grafts)
        base, at = split_ref(plan, ref)
        node = plan.nodes.get(base) or (_holder(plan, ref) if held else None)
        if node is None:
            continue
        kind = node.task.type if node.ref == base else _type_within(node, ref)
        if kind not in SIGNALED:
            return f"{base!r} is a task of type {kind}, and an early signal is kept for a WAIT or HUMAN only"
        starts = [*pending, *([] if rows else [(plan.first, ())])]
        for row in rows:
            if row.live and row.base_ref in plan.nodes:
                starts += starts_of(plan, plan.nodes[row.base_ref], row, begun)
        for place, rounds in following(plan, starts):
            if place == node.ref and _is_to_come(node, at, rounds, begun):
                return None
        ended = begun.get(ref)
        why = f"{ref!r} is {ended.status} already" if ended is not None else f"the flow does not come to {ref!r} any more"
    return why
