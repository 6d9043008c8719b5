"""What a person, or a program in their place, asks of a workflow: start, pause, resume, terminate, skip, set variables; and the
rest of a cut turn. The verbs that reopen an execution are in `retries` and `reruns`.

A verb that does not fit the status is refused with a reply, never with an exception. Source of the rules: Conductor's
`WorkflowExecutorOps`; where it forgets to reset something, see the compatibility page.

MIGRATE: a running execution goes on with another definition. Whether it may is asked once more here, over the rows as they are in
this turn, so that nothing can move in between. A renamed reference keeps its attempts, their ids, leases and generations; its
timers, held events and message are sent on under the new name. The next turn is taken on the new plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from conductorlite.decide.admissions import begin, withdraw, withdraw_reopening
from conductorlite.decide.draft.rows import Draft
from conductorlite.decide.endings import complete_workflow, fail_workflow, set_workflow_timeout
from conductorlite.decide.operators import VARIABLES_LIMIT
from conductorlite.decide.prefetch import prefetch_rest
from conductorlite.decide.sub_workflows import answer_start, tell_parent
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Event, EventKind, Outcome
from conductorlite.model.executions import HistoryKind, printed_ref
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.plan.compile import split_ref
from conductorlite.plan.migration import MigrationPlan, plan_between

__all__ = [
    "on_append",
    "on_continue",
    "on_migrate",
    "on_pause",
    "on_resume",
    "on_skip",
    "on_start",
    "on_terminate",
    "on_variables",
    "pending_of",
]


def on_start(draft: Draft, event: Event) -> None:
    """Begin: now, or at the instant the event names (`at`, epoch ms)."""
    first_time = draft.workflow.history_seq == 0
    if first_time:
        draft.move_workflow(WorkflowStatus.RUNNING, payload=draft.keep(draft.workflow.input))
        draft.keep(draft.workflow.variables)
        answer_start(draft, event)
        draft.keep(draft.workflow.task_to_domain)
        at = draft.value(event.data).get("at")
        if at is not None and at > draft.now:
            draft.post(EventKind.START, EventKind.START, at)
            return
    if draft.status.terminal or draft.workflow.started_at:
        draft.reply(event, Outcome.IGNORED, "the workflow has begun already")
        parent = draft.value(event.data).get("parent")
        if parent and not parent["again"] and draft.status.terminal:
            # The execution that started it was removed, and has come again to where it starts it: it waits for an end that has
            # been.
            tell_parent(draft)
        return
    if draft.status is WorkflowStatus.PAUSED:
        draft.hold(event)
        return
    draft.change(started_at=draft.now)
    set_workflow_timeout(draft)
    # A caller who starts one by a verb had the error before anything was stored; what another execution starts fails here.
    check = draft.plan.input_check
    broken = None if check is None else check.violation(draft.value(draft.workflow.input))
    if broken is not None:
        fail_workflow(draft, WorkflowStatus.FAILED, f"its input breaks inputSchema: {broken}", None)
    elif draft.plan.first is None:
        complete_workflow(draft)
    else:
        begin(draft, event)


def on_pause(draft: Draft, event: Event) -> None:
    """Schedule nothing more until resumed. Tasks in the queue or with a worker are not touched, reports are accepted."""
    if draft.status.terminal:
        draft.reply(event, Outcome.CONFLICT, f"a {draft.status} workflow cannot be paused")
    elif draft.status is WorkflowStatus.PAUSED:
        draft.reply(event, Outcome.IGNORED, "the workflow is paused already")
    else:
        draft.move_workflow(WorkflowStatus.PAUSED)
        withdraw(draft)


def on_resume(draft: Draft, event: Event) -> None:
    """Take up what was held while paused. The workflow's timeout starts again, as in Conductor."""
    if draft.status is not WorkflowStatus.PAUSED:
        draft.reply(event, Outcome.CONFLICT, f"a {draft.status} workflow cannot be resumed: it is not paused")
        return
    draft.move_workflow(WorkflowStatus.RUNNING)
    draft.change(last_retried_at=draft.now)
    if draft.workflow.started_at:
        set_workflow_timeout(draft)
    draft.release_held()


def on_terminate(draft: Draft, event: Event) -> None:
    """End the workflow TERMINATED: open tasks are canceled, no failure workflow is started."""
    if draft.status.terminal and withdraw_reopening(draft):
        return
    if draft.status is WorkflowStatus.TERMINATED:
        draft.reply(event, Outcome.IGNORED, "the workflow is terminated already")
    elif draft.status.terminal:
        draft.reply(event, Outcome.CONFLICT, f"a {draft.status} workflow cannot be terminated")
    else:
        if not draft.workflow.started_at:
            draft.cancel_timer(EventKind.START)
        reason = draft.value(event.data).get("reason")
        draft.ended_by = event.sender
        fail_workflow(draft, WorkflowStatus.TERMINATED, reason, None, compensate=False)
        draft.ended_by = ""


def on_continue(draft: Draft, event: Event) -> None:
    """Take up what a cut turn, or a pause, has left."""
    if draft.status.terminal or event.generation != draft.field("generation"):
        draft.reply(event, Outcome.IGNORED, "what was left belongs to an earlier run")
        return
    if draft.status is WorkflowStatus.PAUSED:
        # Paused between two turns of one piece of work: the rest of it waits as a whole.
        draft.hold(event)
        return
    work = draft.value(event.data)
    draft.stack.extend(tuple(item) for item in work.get("stack", ()))
    draft.queue.extend(tuple(item) for item in work.get("queue", ()))
    draft.reopening = draft.reopening or bool(work.get("reopening"))
    draft.rounds = max(draft.rounds, work.get("rounds", 0))
    prefetch_rest(draft)


def on_skip(draft: Draft, event: Event) -> None:
    """Have the flow pass over a task it has not come to yet. The input and output given stand for its own.

    A FORK_JOIN is passed over with its branches and its JOIN.
    """
    said = draft.value(event.data)
    ref = str(said["ref"])
    if draft.status is not WorkflowStatus.RUNNING:
        draft.reply(event, Outcome.CONFLICT, f"a {draft.status} workflow does not come to {ref!r}: nothing can be skipped")
        return
    if draft.field("compensating") is not None:
        draft.reply(event, Outcome.CONFLICT, f"the workflow is compensated: it does not come to {ref!r}")
        return
    base, iterations = split_ref(draft.plan, ref)
    node = draft.plan.nodes.get(base)
    if node is None or node.unreachable or (iterations and not node.loops):
        draft.reply(event, Outcome.MISSING, f"the definition has no task {ref!r}")
    elif len(iterations) != len(node.loops):
        rounds = printed_ref(base, (1,) * len(node.loops))
        draft.reply(event, Outcome.CONFLICT, f"{ref!r} does not name its round: that is one such as {rounds!r}")
    elif draft.task(ref) is not None:
        draft.reply(event, Outcome.CONFLICT, f"{ref!r} has been scheduled already")
    elif node.behind_fork:
        draft.reply(event, Outcome.CONFLICT, f"{ref!r} is the JOIN of a fork: skip the fork")
    else:
        given, output = draft.payload(said.get("input") or {}), draft.payload(said.get("output") or {})
        problem = draft.refusal("task_input", given) or draft.refusal("task_output", output)
        if problem is not None:
            draft.reply(event, Outcome.CONFLICT, problem)
            return
        draft.journal(HistoryKind.VERB, "SKIP", ref=ref, payload=event.data)
        draft.create(
            node,
            iterations,
            TaskStatus.SKIPPED,
            input=given,
            output=output,
            in_order=False,
            ended_at=draft.now,
        )
        draft.change(skips=draft.field("skips") + 1)


def on_variables(draft: Draft, event: Event) -> None:
    """Set workflow variables; those that are not given stay."""
    _set_variables(draft, event, event.data)


def on_append(draft: Draft, event: Event) -> None:
    """Set workflow variables, but add a list to the end of the list that is there."""
    there = draft.value(draft.field("variables"))
    given = {name: _appended(there.get(name), value) for name, value in draft.value(event.data).items()}
    _set_variables(draft, event, draft.payload(given))


def _appended(there: object, value: object) -> object:
    return [*there, *value] if isinstance(there, list) and isinstance(value, list) else value


def _set_variables(draft: Draft, event: Event, given: Payload) -> None:
    if draft.status.terminal:
        draft.reply(event, Outcome.CONFLICT, f"the variables of a {draft.status} workflow cannot be changed")
        return
    variables = draft.payload({**draft.value(draft.field("variables")), **draft.value(given)})
    size = len((variables.text or "").encode())
    if size > VARIABLES_LIMIT:
        draft.reply(event, Outcome.CONFLICT, f"the variables would have {size} bytes, more than {VARIABLES_LIMIT}")
        return
    draft.journal(HistoryKind.VERB, "VARIABLES", payload=draft.keep(given))
    draft.change(variables=variables)


def on_migrate(draft: Draft, event: Event) -> None:
    """Move to the definition the event names, unless the plan for it comes out blocked: then nothing changes."""
    said = draft.value(event.data)
    workflow, digest = draft.workflow, said["definitionHash"]
    if digest == workflow.definition_hash and not draft.status.terminal:
        draft.reply(event, Outcome.IGNORED, "the execution is on that definition already")
        return
    refs: Mapping[str, str] = said.get("refs") or {}
    draft.reader.prefetch(everything=True, inbox=True)
    events = draft.reader.inbox()
    work = {posted.event_id: draft.value(posted.data) for posted in events if posted.kind is EventKind.CONTINUE}
    pending = [place for one in work.values() for place in pending_of(one)]
    plan = plan_between(workflow, draft.everything(), draft.plan, draft.reader.plan(digest), refs, pending)
    if plan.blocked:
        draft.reply(event, Outcome.CONFLICT, "; ".join(plan.reasons))
        return
    for ref, waiting in plan.waiting.items():
        draft.put(attrs.evolve(draft.known(ref), waiting=waiting))
    if refs:
        _rename(draft, plan, refs)
        _send_on(draft, events, work, plan.renamed, refs)
    _journal(draft, said, plan)
    draft.change(definition_hash=digest, version=said["version"])


def pending_of(work: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The nodes that the rest of a cut turn is about to schedule, with their rounds."""
    return ((item[1], tuple(item[2])) for item in work.get("stack", ()) if item[0] == "schedule")


def _rename(draft: Draft, plan: MigrationPlan, refs: Mapping[str, str]) -> None:
    # A generation of its own: a reference that a later definition names again must not derive the ids of these attempts.
    draft.change(generation=draft.field("generation") + 1)
    last = draft.field("last_ref")
    draft.change(last_ref=plan.renamed.get(last, last))
    for ref, new_ref in plan.renamed.items():
        task = draft.known(ref)
        draft.rename(task, new_ref, refs[task.base_ref])


def _send_on(
    draft: Draft, events: Sequence[Event], work: Mapping[str, Any], renamed: Mapping[str, str], refs: Mapping[str, str]
) -> None:
    """Events to a renamed reference, and the rest of cut turns, which is of the new generation."""
    for event in events:
        changes: dict[str, Any] = {}
        if event.kind is EventKind.CONTINUE:
            left = {**work[event.event_id]}
            for end in ("stack", "queue"):
                left[end] = [_item(item, renamed, refs) for item in left.get(end, ())]
            changes |= {"data": draft.keep(Payload.of(left)), "generation": draft.field("generation")}
        new_ref = renamed.get(event.ref or "")
        if new_ref is not None:
            changes["ref"] = new_ref
        if changes:
            own = event.event_id == f"{event.kind}:{event.ref}"
            draft.send_on(event, f"{event.kind}:{new_ref}" if own and new_ref is not None else event.event_id, **changes)


def _item(item: list[Any], renamed: Mapping[str, str], refs: Mapping[str, str]) -> list[Any]:
    """An entry of the work list by the new names: only `schedule` names a node, the others name a row."""
    names = refs if item[0] == "schedule" else renamed
    return [item[0], names.get(item[1], item[1]), *item[2:]]


def _journal(draft: Draft, said: Mapping[str, Any], plan: MigrationPlan) -> None:
    workflow = draft.workflow
    moved = {
        "from": {"version": workflow.version, "definitionHash": workflow.definition_hash},
        "to": {"version": said["version"], "definitionHash": said["definitionHash"]},
        "renamed": dict(plan.renamed),
        **({"refs": dict(said["refs"])} if said.get("refs") else {}),
    }
    draft.journal(HistoryKind.MIGRATED, "MIGRATED", payload=draft.payload(moved))
