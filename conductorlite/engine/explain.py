"""Why an execution waits, or how it ended: reasons that follow from rows, inbox and definition, and read as one paragraph.

Each method of `Case` answers one question with `Reason`s, in the order in which a person would give them. What open
tasks wait for is in `waits`, root causes and nulls in `causes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from conductorlite.engine.causes import SHOWN, listed, nulls, output_nulls
from conductorlite.engine.waits import (
    REOPENED_BY,
    TAKEN_BACK,
    Facts,
    Waits,
    because,
    held_event,
    is_taken_back,
    versions,
)
from conductorlite.model.definitions import LOOP_DELIMITER, TaskType, WorkflowDef, WorkflowTask, WorkflowTimeoutPolicy
from conductorlite.model.executions import (
    Explanation,
    HistoryKind,
    Reason,
    Task,
    printed_ref,
)
from conductorlite.model.handlers import EventExecution
from conductorlite.model.mailbox import WorkflowMessage
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.model.texts import span_in_words
from conductorlite.plan.tree import CHOOSES, TreePosition, positions

__all__ = ["Case"]


class Absence:
    """Why tasks of a definition have no row."""

    def __init__(self, facts: Facts, former: Sequence[WorkflowDef] = ()) -> None:
        self._facts, self._former = facts, former

    def of(self, ref: str) -> str:
        """Why a task of the definition has no row: the nearest thing before or around it that has one."""
        gone = next((line for line in reversed(self._facts.history) if ref in line.dropped), None)
        if gone is not None and gone.status == "DROPPED":
            return f"{ref} has run: its loop keeps its last rounds only, and dropped this one {self._facts.ago(gone.at)}"
        place = self._facts.places.get(ref)
        if place is None:
            return self._round_to_come(ref) or self._moved_away(ref) or f"{ref} is not a task of {self._facts.workflow.name}"
        text = f"{ref} never ran: " if self._facts.workflow.status.terminal else f"{ref} has not run yet: "
        if gone is not None:
            by = f"the execution was {TAKEN_BACK[gone.status]}" + (f" from {gone.ref}" if gone.ref else "")
            text = f"{ref} has not run again: {by} {self._facts.ago(gone.at)}; "
        around: WorkflowTask | None = None
        if place.compensates is not None:
            return f"{text}it undoes {place.compensates.task_reference_name} if the execution fails after that has completed"
        while True:
            chosen = self._other_case(place)
            if chosen is not None:
                return text + chosen
            nearest = place.previous or (None if place.parent is None else place.parent.task)
            if nearest is None:
                begun = "the execution began with another definition, behind it"
                return text + (begun if self._facts.workflow.tasks else "the execution has not begun")
            row = self._facts.newest.get(nearest.task_reference_name)
            if row is not None:
                inside = "" if around is None else f"it is in {around.task_reference_name}, which the flow has not come to; "
                side = "before" if place.previous else "around"
                return f"{text}{inside}{row.ref}, {side} it, is {row.status}{self._instead(row)}"
            around = around if place.previous is not None else nearest
            place = self._facts.places[nearest.task_reference_name]

    def _round_to_come(self, ref: str) -> str:
        """Why a printed reference has no row: the loop around it has not come to that round, or has ended before."""
        base, _, number = ref.rpartition(LOOP_DELIMITER)
        place = self._facts.places.get(ref.split(LOOP_DELIMITER)[0])
        if not base or not number.isdigit() or place is None or place.compensates is not None or not place.loops:
            return ""
        loop = self._facts.newest.get(place.loops[-1])
        if loop is None:
            return ""
        if int(number) <= loop.round:
            why = f"{loop.ref} is in round {loop.round}, and in round {number} the flow did not come to it"
        else:
            why = f"{loop.ref} ended with round {loop.round}" if loop.status.terminal else f"{loop.ref} is in round {loop.round}"
        return f"{ref} {'never ran' if loop.status.terminal else 'has not run yet'}: {why}"

    def _moved_away(self, ref: str) -> str:
        """Why a reference is not in the definition: the execution was moved to one without it, or with another name for it."""
        for line in reversed(self._facts.history):
            payload = line.payload
            if line.kind is HistoryKind.MIGRATED and payload is not None:
                names = {**payload.value.get("refs", {}), **payload.value.get("renamed", {})}
                if ref in names:
                    return f"{ref} is called {names[ref]} since the execution was moved {versions(line)} {self._facts.ago(line.at)}"
        for definition in self._former:
            if ref in positions(definition, compensations=True):
                moved = [line for line in self._facts.history if line.kind is HistoryKind.MIGRATED]
                return f"{ref} never ran: it is not in the definition the execution was moved to {self._facts.ago(moved[-1].at)}"
        return ""

    def _instead(self, row: Task) -> str:
        """Return what holds the execution up behind a task that has ended."""
        if self._facts.workflow.status.terminal:
            return f"{because(row)}, and the execution is {self._facts.workflow.status}"
        if not row.status.terminal:
            return ""
        held = [task.ref for task in self._facts.workflow.tasks if not task.retried and not task.status.terminal]
        return f"{because(row)}; still open: {listed(held)}" if held else because(row)

    def _other_case(self, place: TreePosition) -> str | None:
        """Return a note that the SWITCH around a task took another case.

        None when it took this one, or there is none, or it has not run.
        """
        switch = None if place.parent is None or place.previous is not None else place.parent.task
        if switch is None or switch.type not in CHOOSES:
            return None
        row = self._facts.newest.get(switch.task_reference_name)
        taken = None if row is None else row.output_data.get("selectedCase")
        if row is not None and switch.type == TaskType.DECISION:
            taken = next(iter(row.output_data.get("caseOutput", ())), None)
        if row is None or taken is None:
            return None
        cases = switch.decision_cases
        # An empty case of a DECISION stands for its default.
        there = taken in cases and (switch.type == TaskType.SWITCH or bool(cases[taken]))
        case = place.branch.key if place.branch is not None and place.branch.kind == "case" else None
        if case == (taken if there else None):
            return None
        here = "the default case" if case is None else f"the case {case!r}"
        return f"{row.ref} took the case {str(taken)!r}, and this is in {here}"


@attrs.define(slots=True, kw_only=True)
class Case:
    """The facts that can be stated about one execution; `former` are definitions that it was on before."""

    facts: Facts
    former: Sequence[WorkflowDef] = ()
    #: The messages to it, if any is not received; actions of event handlers on it that could not be carried out, newest first.
    messages: Sequence[WorkflowMessage] = ()
    refused: Sequence[EventExecution] = ()
    _waits: Waits = attrs.field(init=False)
    _absence: Absence = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._waits, self._absence = Waits(self.facts), Absence(self.facts, self.former)

    def explain(self, ref: str | None = None) -> Explanation:
        """Why it waits, or why it ended as it did; with `ref` (of the definition or as printed) the same of that task."""
        return Explanation(reasons=tuple(self._of_task(ref) if ref is not None else self._of_workflow()))

    def _of_workflow(self) -> Iterator[Reason]:
        row = self.facts.workflow
        name = f"{row.name} ({row.workflow_id})"
        if row.status.terminal:
            yield from self._ended(name)
            yield from self._messages()
            return
        if row.parked is not None:
            yield self.facts.say("PARKED", f"{name} is parked: {row.parked}")
            yield self.facts.say(
                "PARKED", "No more turns are taken: resume tries again from the last good commit, terminate ends it"
            )
        elif row.status is WorkflowStatus.PAUSED:
            yield self.facts.say("PAUSED", f"{name} is PAUSED: nothing more is scheduled until it is resumed")
            held = [held_event(event) for event in sorted(self.facts.inbox, key=lambda event: event.order) if event.held]
            if held:
                yield self.facts.say("HELD", f"{len(held)} event{'s are' if len(held) != 1 else ' is'} held: {listed(held)}")
        else:
            yield self.facts.say("RUNNING", f"{name} is RUNNING {self.facts.since(row.created_at)}", at=row.created_at)
        yield from self._turned()
        if row.rate_limited:
            yield self.facts.say("SLOT", f"It {self._waits.limited()}")
        if row.compensating is not None:
            why = f": {row.reason.rstrip('.')}" if row.reason else ""
            yield self.facts.say("COMPENSATING", f"It is being compensated and will end {row.compensating}{why}")
            yield from self._undoing()
        yield from self._waits.open_tasks()
        yield from self._messages()
        yield from self._timers()

    def _messages(self) -> Iterator[Reason]:
        """Yield the messages that no task has received, and the actions of event handlers that could not be carried out."""
        kept = [message for message in self.messages if message.receiver is None]
        if kept:
            topics: dict[str, int] = {}
            for message in kept:
                of = f"for {message.signal_to}" if message.signal_to is not None else f"of topic {message.topic}"
                topics[of] = topics.get(of, 0) + 1
            many = listed([f"{count} {of}" for of, count in topics.items()])
            what = "1 message is" if len(kept) == 1 else f"{len(kept)} messages are"
            yield self.facts.say("MESSAGES", f"{what} kept that no task has received: {many}", at=kept[0].sent_at)
        for done in self.refused[:SHOWN]:
            why = done.output_data.get("error") or done.output_data.get("exception")
            text = f"Event handler {done.name} could not {done.action} {self.facts.ago(done.created)}: {why}"
            yield self.facts.say("EVENT_HANDLER", text, at=done.created)

    def _turned(self) -> Iterator[Reason]:
        """Yield that the execution was run again, or moved to another definition: the last time of each."""
        again = next((line for line in reversed(self.facts.history) if is_taken_back(line)), None)
        if again is not None:
            where = f" from {again.ref}" if again.ref else " from the start" if again.status == "RERUN" else ""
            yield self.facts.say("RUN_AGAIN", f"It was {TAKEN_BACK[again.status]}{where} {self.facts.ago(again.at)}", at=again.at)
        moved = next((line for line in reversed(self.facts.history) if line.kind is HistoryKind.MIGRATED), None)
        if moved is not None:
            yield self.facts.say("MIGRATED", f"It was moved {versions(moved)} {self.facts.ago(moved.at)}", at=moved.at)
        clock = next((line for line in reversed(self.facts.history) if line.kind is HistoryKind.CLOCK), None)
        if clock is not None:
            of, task = f"{clock.ref}: " if clock.ref else "", self.facts.last.get(clock.ref or "")
            yield self.facts.say("CLOCK", f"{self.facts.ago(clock.at).capitalize()}, {of}{clock.reason}", task, at=clock.at)

    def _undoing(self) -> Iterator[Reason]:
        """Yield what is undone by now, and what is left to undo, in that order."""
        rows = [task for task in self.facts.last.values() if task.status in _DONE]
        rows.sort(key=lambda task: (task.ended_at, task.seq), reverse=True)
        by = {row.ref: self._compensation_of(row) for row in rows}
        undone = [ref for ref, (owed, row) in by.items() if owed and row is not None and row.status.successful]
        failed = [ref for ref, (owed, row) in by.items() if owed and row is not None and row.failed]
        left = [ref for ref, (owed, row) in by.items() if owed and row is None]
        for text, refs in (("Undone", undone), ("Could not be undone", failed), ("Left to undo", left)):
            if refs:
                yield self.facts.say("COMPENSATING", f"{text}: {listed(refs)}")

    def _compensation_of(self, task: Task) -> tuple[bool, Task | None]:
        """Return whether something undoes a task, and its row if it has begun."""
        place = self.facts.places.get(task.base_ref)
        undo = None if place is None else place.task.compensation
        if undo is None:
            return False, None
        return True, self.facts.last.get(printed_ref(undo.task_reference_name, task.iterations))

    def _timers(self) -> Iterator[Reason]:
        if self.facts.workflow.parked is not None:
            return
        due = [event for event in self.facts.inbox if not event.held and event.due_at <= self.facts.now]
        if self.facts.put_aside:
            text = "Its turn waits for a script or a path that takes long: it is taken when that has ended, or its time is over"
            yield self.facts.say("PUT_ASIDE", text)
        elif due:
            what = "1 event is" if len(due) == 1 else f"{len(due)} events are"
            yield self.facts.say("NOT_DRIVEN", f"{what} due and nobody has taken the turn: drive the engine")
        at = self.facts.workflow.timeout_at
        if at is not None and at > self.facts.now:
            definition = self.facts.workflow.definition
            ends = definition is not None and definition.timeout_policy is WorkflowTimeoutPolicy.TIME_OUT_WF
            what = "times out" if ends else "passes its timeout, which only alerts,"
            yield self.facts.say("DEADLINE", f"The workflow {what} {self.facts.ahead(at)}", at=at)

    def _ended(self, name: str) -> Iterator[Reason]:
        row = self.facts.workflow
        took = f" after {span_in_words(row.ended_at - row.created_at)}" if row.ended_at >= row.created_at else ""
        text = f"{name} is {row.status}: it ended {self.facts.ago(row.ended_at)}{took}"
        failed = self._culprits()
        if row.status is WorkflowStatus.COMPLETED:
            many = len(row.tasks)
            yield self.facts.say("ENDED", f"{text}, with {many} task attempt{'s' if many != 1 else ''}", at=row.ended_at)
            yield from (self.facts.say("NULL", f"Of its output, {null}") for null in output_nulls(row))
            if row.permitted_failures:
                yield self.facts.say("FAILED", f"{row.permitted_failures} permitted failures did not stop it")
            return
        known = any(task.reason and task.reason in (row.reason or "") for task in failed)
        yield self.facts.say("ENDED", f"{text}: {row.reason}" if row.reason and not known else text, at=row.ended_at)
        for task in failed[:SHOWN]:
            yield from self._failure(task)
        never = [ref for ref, place in self.facts.places.items() if ref not in self.facts.newest and place.compensates is None]
        if never:
            yield self.facts.say("NEVER_RAN", f"Never scheduled: {listed(never)}")
        undone = [ref for ref, place in self.facts.places.items() if ref in self.facts.newest and place.compensates is not None]
        if undone:
            yield self.facts.say("COMPENSATED", f"It was compensated by {listed(undone)}: retry is refused, restart or rerun it")
        elif row.rate_limited:
            verbs = [REOPENED_BY[event.kind] for event in self.facts.inbox if event.held and event.kind in REOPENED_BY]
            yield self.facts.say("SLOT", f"It is to be {' and '.join(verbs) or 'reopened'} and {self._waits.limited()}")
        else:
            yield self.facts.say("RETRYABLE", "retry reopens it where it failed")

    def _culprits(self) -> list[Task]:
        """The tasks to blame: those the workflow names, in order; a workflow that timed out or was terminated has none."""
        return [self.facts.last[ref] for ref in dict.fromkeys(self.facts.workflow.failed_refs) if ref in self.facts.last]

    def _failure(self, task: Task) -> Iterator[Reason]:
        text = f"{self.facts.named(task)} is {task.status} at {self.facts.attempt(task)}{because(task)}"
        yield self.facts.say("FAILED", text, task, task.ended_at)
        yield from self._nulls(task)

    def _nulls(self, task: Task) -> Iterator[Reason]:
        return (self.facts.say("NULL", null, task, further=True) for null in nulls(self.facts.workflow, task))

    # ------------------------------------------------------------------ why not

    def _of_task(self, ref: str) -> Iterator[Reason]:
        task = self.facts.last.get(ref) or self.facts.newest.get(ref)
        if task is None:
            yield attrs.evolve(self.facts.say("NEVER_RAN", self._absence.of(ref)), ref=ref)
        elif task.status is TaskStatus.SKIPPED:
            then = "the flow will pass over it when it comes to it"
            if self.facts.workflow.status.terminal or not task.skipped_ahead:
                then = "the flow never came to it" if task.skipped_ahead else "the flow has passed over it"
            text = f"{self.facts.named(task)} is SKIPPED: skip_task was used {self.facts.ago(task.ended_at)}, and {then}"
            yield self.facts.say("SKIPPED", text, task, task.ended_at)
        elif not task.status.terminal:
            yield from self._waits.of_task(task)
            if self.facts.workflow.parked is not None:
                yield self.facts.say("PARKED", "The execution is parked")
            elif self.facts.workflow.status is WorkflowStatus.PAUSED:
                yield self.facts.say("PAUSED", "The execution is PAUSED")
        elif task.failed or task.status is TaskStatus.COMPLETED_WITH_ERRORS:
            yield from self._failure(task)
            yield self.facts.say("FAILED", f"that was {self.facts.ago(task.ended_at)}", task, task.ended_at, further=True)
        else:
            took = span_in_words(max(0, task.ended_at - (task.started_at or task.scheduled_at)))
            text = (
                f"{self.facts.named(task)} is {task.status}: it ended {self.facts.ago(task.ended_at)} after {took}{because(task)}"
            )
            yield self.facts.say("ENDED", text, task, task.ended_at)
            yield from self._nulls(task)


_DONE: Final = frozenset({TaskStatus.COMPLETED, TaskStatus.COMPLETED_WITH_ERRORS})
