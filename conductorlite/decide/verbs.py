"""Requests of a person, or a program, to a workflow: start, pause, resume, terminate, skip, set variables; and the
rest of a cut turn. The verbs that reopen an execution are in `retries` and `reruns`.

A verb that does not fit the status is refused with a reply, never with an exception. Source of the rules: Conductor's
`WorkflowExecutorOps`; where it forgets to reset something, see the compatibility page.

MIGRATE: a running execution goes on with another definition. Whether it may is asked once more here, over the rows as they are in
this turn, so that nothing can move in between. A renamed reference keeps its attempts, their ids, leases and generations; its
timers, held events and message are sent on under the new name. The next turn is taken on the new plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from conductorlite.decide.admissions import begin, withdraw, withdraw_reopening
from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.endings import fail_workflow, set_workflow_timeout
from conductorlite.decide.operators import VARIABLES_LIMIT
from conductorlite.decide.prefetch import prefetch_rest
from conductorlite.decide.sub_workflows import answer_start, notify_parent
from conductorlite.decide.transitions import skip_ahead
from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.decisions import Event, EventKind, Outcome
from conductorlite.model.executions import HistoryKind, printed_ref
from conductorlite.model.later import functions
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.plan.compile import split_ref

if TYPE_CHECKING:
    from conductorlite.decide.messages import rename_receivers
    from conductorlite.plan.migration import MigrationPlan, plan_between
else:
    (rename_receivers,) = functions("conductorlite.decide.messages", "rename_receivers")
    (plan_between,) = functions("conductorlite.plan.migration", "plan_between")

__all__ = [
    "on_append",
    "on_continue",
    "on_debounce",
    "on_migrate",
    "on_pause",
    "on_resume",
    "on_skip",
    "on_start",
    "on_terminate",
    "on_variables",
    "pending_of",
]


def on_start(changeset: Changeset, event: Event) -> None:
    """Begin: now, or at the instant the event names (`at`, epoch ms)."""
    first_time = changeset.workflow.history_seq == 0
    if first_time:
        changeset.move_workflow(WorkflowStatus.RUNNING, payload=changeset.documents.keep(changeset.workflow.input))
        changeset.documents.keep(changeset.workflow.variables)
        answer_start(changeset, event)
        changeset.documents.keep(changeset.workflow.task_to_domain)
        said = changeset.documents.value(event.data)
        at = said.get("at")
        if at is not None and at > changeset.moment.now:
            # A delay is a length of time, which is as long as it was when the clock is set.
            # `since`: the first call of a debounced start was so long before the beginning.
            kept = {name: said[name] for name in ("delay", "since") if said.get(name)}
            changeset.events.post(EventKind.START, EventKind.START, at, data=Payload.of(kept) if kept else EMPTY)
            return
    if changeset.workflow.status.terminal or changeset.workflow.started_at:
        changeset.reply(event, Outcome.IGNORED, "the workflow has begun already")
        parent = changeset.documents.value(event.data).get("parent")
        if parent and not parent["again"] and changeset.workflow.status.terminal:
            # The execution that started it was removed, and has come again to where it starts it: it waits for an end that has
            # been.
            notify_parent(changeset)
        return
    if changeset.workflow.status is WorkflowStatus.PAUSED:
        changeset.events.hold(event)
        return
    changeset.start()
    set_workflow_timeout(changeset)
    # A caller who starts one by a verb had the error before anything was stored; what another execution starts fails here.
    check = changeset.plan.input_check
    broken = None if check is None else check.violation(changeset.documents.value(changeset.workflow.input))
    if broken is not None:
        fail_workflow(changeset, WorkflowStatus.FAILED, f"its input breaks inputSchema: {broken}", None)
    else:
        begin(changeset, event)


def on_debounce(changeset: Changeset, event: Event) -> None:
    """Put off an execution that has not begun, and have it be what its last call says."""
    row = changeset.workflow
    start = next((one for one in changeset.reader.inbox() if one.kind is EventKind.START), None)
    if row.status.terminal or row.started_at or start is None:
        changeset.reply(event, Outcome.CONFLICT, "the execution has begun")
        return
    said, now = changeset.documents.value(event.data), changeset.moment.clock
    shown = {name: value for name, value in said.items() if name not in ("variables", "inputTemplate")}
    changeset.journal.add(HistoryKind.VERB, EventKind.DEBOUNCE, payload=changeset.documents.keep(Payload.of(shown, bounded=False)))
    changeset.change(
        input=changeset.documents.keep(Payload.of(said["input"], bounded=False)),
        variables=changeset.documents.keep(Payload.of(said["variables"], bounded=False)),
        definition_hash=said["definitionHash"],
        version=said["version"],
        correlation_id=said.get("correlationId"),
        priority=said["priority"],
        task_to_domain=changeset.documents.keep(Payload.of(said["taskToDomain"], bounded=False)),
    )
    first, most = start.due_at - changeset.documents.value(start.data).get("since", 0), said.get("maxWait")
    at = now + said["quiet"] if most is None else max(now, min(now + said["quiet"], first + most))
    changeset.events.post(EventKind.START, EventKind.START, at, data=Payload.of({"delay": True, "since": at - first}))


def on_pause(changeset: Changeset, event: Event) -> None:
    """Schedule nothing more until resumed. Tasks in the queue or with a worker are not touched, reports are accepted."""
    if changeset.workflow.status.terminal:
        changeset.reply(event, Outcome.CONFLICT, f"a {changeset.workflow.status} workflow cannot be paused")
    elif changeset.workflow.status is WorkflowStatus.PAUSED:
        changeset.reply(event, Outcome.IGNORED, "the workflow is paused already")
    else:
        changeset.move_workflow(WorkflowStatus.PAUSED)
        withdraw(changeset)


def on_resume(changeset: Changeset, event: Event) -> None:
    """Take up what was held while paused. The workflow's timeout starts again, as in Conductor."""
    if changeset.workflow.status is not WorkflowStatus.PAUSED:
        changeset.reply(event, Outcome.CONFLICT, f"a {changeset.workflow.status} workflow cannot be resumed: it is not paused")
        return
    changeset.move_workflow(WorkflowStatus.RUNNING)
    changeset.change(last_retried_at=changeset.moment.now)
    if changeset.workflow.started_at:
        set_workflow_timeout(changeset)
    changeset.events.release_held()


def on_terminate(changeset: Changeset, event: Event) -> None:
    """End the workflow TERMINATED: open tasks are canceled; what a failure sets off only when the event asks for it."""
    if changeset.workflow.status.terminal and withdraw_reopening(changeset):
        return
    if changeset.workflow.status is WorkflowStatus.TERMINATED:
        changeset.reply(event, Outcome.IGNORED, "the workflow is terminated already")
    elif changeset.workflow.status.terminal:
        changeset.reply(event, Outcome.CONFLICT, f"a {changeset.workflow.status} workflow cannot be terminated")
    else:
        if not changeset.workflow.started_at:
            changeset.events.cancel(EventKind.START)
        said = changeset.documents.value(event.data)
        changeset.ended_by = event.sender
        is_failure = said.get("triggerFailureWorkflow") is True
        reason, sentence = said.get("reason"), said.get("conductorReason")
        fail_workflow(changeset, WorkflowStatus.TERMINATED, reason, None, conductor_reason=sentence, compensate=is_failure)
        changeset.ended_by = ""


def on_continue(changeset: Changeset, event: Event) -> None:
    """Take up what a cut turn, or a pause, has left."""
    if changeset.workflow.status.terminal or event.generation != changeset.workflow.generation:
        changeset.reply(event, Outcome.IGNORED, "what was left belongs to an earlier run")
        return
    if changeset.workflow.status is WorkflowStatus.PAUSED:
        # Paused between two turns of one piece of work: the rest of it waits as a whole.
        changeset.events.hold(event)
        return
    work = changeset.documents.value(event.data)
    changeset.work.stack.extend(tuple(item) for item in work.get("stack", ()))
    changeset.work.queue.extend(tuple(item) for item in work.get("queue", ()))
    changeset.work.reopening = changeset.work.reopening or bool(work.get("reopening"))
    changeset.work.rounds = max(changeset.work.rounds, work.get("rounds", 0))
    prefetch_rest(changeset)


def on_skip(changeset: Changeset, event: Event) -> None:
    """Have the flow pass over a task it has not come to yet. The input and output given stand for its own.

    A FORK_JOIN is passed over with its branches and its JOIN.
    """
    said = changeset.documents.value(event.data)
    ref = str(said["ref"])
    if changeset.workflow.status is not WorkflowStatus.RUNNING:
        changeset.reply(
            event, Outcome.CONFLICT, f"a {changeset.workflow.status} workflow does not come to {ref!r}: nothing can be skipped"
        )
        return
    if changeset.workflow.compensating is not None:
        changeset.reply(event, Outcome.CONFLICT, f"the workflow is compensated: it does not come to {ref!r}")
        return
    base, iterations = split_ref(changeset.plan, ref)
    node = changeset.plan.nodes.get(base)
    if node is None or node.unreachable or (iterations and not node.loops):
        changeset.reply(event, Outcome.MISSING, f"the definition has no task {ref!r}")
    elif len(iterations) != len(node.loops):
        rounds = printed_ref(base, (1,) * len(node.loops))
        changeset.reply(event, Outcome.CONFLICT, f"{ref!r} does not name its round: that is one such as {rounds!r}")
    elif changeset.rows.task(ref) is not None:
        changeset.reply(event, Outcome.CONFLICT, f"{ref!r} has been scheduled already")
    elif node.behind_fork:
        changeset.reply(event, Outcome.CONFLICT, f"{ref!r} is the JOIN of a fork: skip the fork")
    else:
        given, output = changeset.documents.payload(said.get("input") or {}), changeset.documents.payload(said.get("output") or {})
        problem = changeset.documents.refusal("task_input", given) or changeset.documents.refusal("task_output", output)
        if problem is not None:
            changeset.reply(event, Outcome.CONFLICT, problem)
            return
        changeset.journal.add(HistoryKind.VERB, "SKIP", ref=ref, payload=event.data)
        skip_ahead(changeset.create(node, iterations, TaskStatus.SKIPPED, input=given, output=output, in_order=False))
        changeset.change(skips=changeset.workflow.skips + 1)


def on_variables(changeset: Changeset, event: Event) -> None:
    """Set workflow variables; others stay."""
    _set_variables(changeset, event, event.data)


def on_append(changeset: Changeset, event: Event) -> None:
    """Set workflow variables, but add a list to the end of the list that is there."""
    there = changeset.documents.value(changeset.workflow.variables)
    given = {name: _appended(there.get(name), value) for name, value in changeset.documents.value(event.data).items()}
    _set_variables(changeset, event, changeset.documents.payload(given))


def _appended(there: object, value: object) -> object:
    return [*there, *value] if isinstance(there, list) and isinstance(value, list) else value


def _set_variables(changeset: Changeset, event: Event, given: Payload) -> None:
    if changeset.workflow.status.terminal:
        changeset.reply(event, Outcome.CONFLICT, f"the variables of a {changeset.workflow.status} workflow cannot be changed")
        return
    variables = changeset.documents.payload(
        {**changeset.documents.value(changeset.workflow.variables), **changeset.documents.value(given)}
    )
    size = len((variables.text or "").encode())
    if size > VARIABLES_LIMIT:
        changeset.reply(event, Outcome.CONFLICT, f"the variables would have {size} bytes, more than {VARIABLES_LIMIT}")
        return
    changeset.journal.add(HistoryKind.VERB, "VARIABLES", payload=changeset.documents.keep(given))
    changeset.change(variables=variables)


def on_migrate(changeset: Changeset, event: Event) -> None:
    """Move to the definition the event names, unless the plan for it comes out blocked: then nothing changes."""
    said = changeset.documents.value(event.data)
    workflow, digest = changeset.workflow, said["definitionHash"]
    if digest == workflow.definition_hash and not changeset.workflow.status.terminal:
        changeset.reply(event, Outcome.IGNORED, "the execution is on that definition already")
        return
    refs: Mapping[str, str] = said.get("refs") or {}
    changeset.reader.prefetch(everything=True, inbox=True)
    events = changeset.reader.inbox()
    work = {posted.event_id: changeset.documents.value(posted.data) for posted in events if posted.kind is EventKind.CONTINUE}
    pending = [place for one in work.values() for place in pending_of(one)]
    messages = changeset.mailbox.everything() if workflow.unreceived else ()
    plan = plan_between(
        workflow, changeset.rows.everything(), changeset.plan, changeset.reader.plan(digest), refs, pending, messages
    )
    if plan.blocked:
        changeset.reply(event, Outcome.CONFLICT, "; ".join(plan.reasons))
        return
    for ref, waiting in plan.waiting.items():
        changeset.put(changeset.rows.known(ref), waiting=waiting)
    if refs:
        _rename(changeset, plan, refs)
        _send_on(changeset, events, work, plan.renamed, refs)
    _journal(changeset, said, plan)
    changeset.change(definition_hash=digest, version=said["version"])


def pending_of(work: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The nodes that the rest of a cut turn is about to schedule, with their rounds."""
    return ((item[1], tuple(item[2])) for item in work.get("stack", ()) if item[0] == "schedule")


def _rename(changeset: Changeset, plan: MigrationPlan, refs: Mapping[str, str]) -> None:
    # A generation of its own: a reference that a later definition names again must not derive the ids of these attempts.
    changeset.change(generation=changeset.workflow.generation + 1)
    last = changeset.workflow.last_ref
    changeset.change(last_ref=None if last is None else plan.renamed.get(last, last))
    for ref, new_ref in plan.renamed.items():
        task = changeset.rows.known(ref)
        changeset.rename(task, new_ref, refs[task.base_ref])
    if changeset.workflow.message_seq:
        rename_receivers(changeset, plan.renamed, refs)


def _send_on(
    changeset: Changeset, events: Sequence[Event], work: Mapping[str, Any], renamed: Mapping[str, str], refs: Mapping[str, str]
) -> None:
    """Events to a renamed reference, and the rest of cut turns, which is of the new generation."""
    for event in events:
        changes: dict[str, Any] = {}
        if event.kind is EventKind.CONTINUE:
            left = {**work[event.event_id]}
            for end in ("stack", "queue"):
                left[end] = [_item(item, renamed, refs) for item in left.get(end, ())]
            changes |= {"data": changeset.documents.keep(Payload.of(left)), "generation": changeset.workflow.generation}
        new_ref = renamed.get(event.ref or "")
        if new_ref is not None:
            changes["ref"] = new_ref
        if changes:
            own = event.event_id == f"{event.kind}:{event.ref}"
            changeset.events.send_on(event, f"{event.kind}:{new_ref}" if own and new_ref is not None else event.event_id, **changes)


def _item(item: list[Any], renamed: Mapping[str, str], refs: Mapping[str, str]) -> list[Any]:
    """An entry of the work list by the new names: only `schedule` names a node, the others name a row."""
    names = refs if item[0] == "schedule" else renamed
    return [item[0], names.get(item[1], item[1]), *item[2:]]


def _journal(changeset: Changeset, said: Mapping[str, Any], plan: MigrationPlan) -> None:
    workflow = changeset.workflow
    moved = {
        "from": {"version": workflow.version, "definitionHash": workflow.definition_hash},
        "to": {"version": said["version"], "definitionHash": said["definitionHash"]},
        "renamed": dict(plan.renamed),
        **({"refs": dict(said["refs"])} if said.get("refs") else {}),
    }
    changeset.journal.add(HistoryKind.MIGRATED, "MIGRATED", payload=changeset.documents.payload(moved))
