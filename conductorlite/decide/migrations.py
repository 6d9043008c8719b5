"""MIGRATE: a running execution goes on with another definition.

Whether it may was asked before, by the verb; it is asked again here, over the rows as they are in this turn, so that nothing
can move in between. A renamed reference keeps its attempts, their ids, leases and generations; its timers, held events and
message are sent on under the new name. The turn changes rows and nothing else: the next one is taken on the new plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from conductorlite.decide.draft.rows import Draft
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Event, EventKind, Outcome
from conductorlite.model.executions import HistoryKind
from conductorlite.plan.migration import MigrationPlan, plan_between

__all__ = ["on_migrate", "pending_of"]


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
    # A generation of its own: a reference that a later definition names anew must not derive the ids of these attempts.
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
