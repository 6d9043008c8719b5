"""A turn's events: timers, messages to workers and to the execution, held events, the rest of a cut turn, answers.

A timer of a timeout that no definition sets carries its length, for it counts only time in which the store was driven.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from conductorlite.decide.changeset.view import Item, View
from conductorlite.model.attrs import changed
from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.decisions import FIELDS, Event, EventKind, Message, Outcome, Reply, queue_name
from conductorlite.model.executions import Task

if TYPE_CHECKING:
    from conductorlite.model.mailbox import WorkflowMessage

__all__ = ["REPLIES", "TIMEOUTS", "Mailboxes", "counted"]

#: The deadlines that have a default.
TIMEOUTS: Final = frozenset({EventKind.POLL_TIMEOUT, EventKind.RESPONSE_TIMEOUT, EventKind.TASK_TIMEOUT})


def counted(event: Event) -> Mapping[str, Any] | None:
    """Since when a timeout counts driven time (epoch ms), how much, and whose drivers count; None if it counts by the clock."""
    return (event.data.value or None) if event.kind in TIMEOUTS else None


#: The answers that say no more.
REPLIES: Final = {outcome: Reply(outcome=outcome) for outcome in Outcome}

_number: Final = attrgetter("number")

#: A report that is refused frees no worker.
_REFUSED: Final = frozenset({Outcome.STALE, Outcome.CONFLICT})


class Mailboxes(View):
    """What a turn posts, takes back and answers."""

    def next_number(self) -> int:
        """The next value of the workflow's own sequence."""
        self._row.sequence += 1
        return self.workflow.sequence

    def date(self, task: Task, kind: EventKind, at: int) -> None:
        """Put an event about a task into the inbox that follows from no deadline of its row."""
        self.post(f"{kind!s}:{task.ref}", kind, at, ref=task.ref, attempt=task.attempt, generation=task.generation)

    def post(
        self,
        event_id: str,
        kind: EventKind,
        at: int,
        *,
        ref: str | None = None,
        attempt: int = 0,
        generation: int = 0,
        data: Payload = EMPTY,
        held: bool = False,
    ) -> None:
        """Put an event into the workflow's own inbox, replacing one of the same id."""
        workflow_id = self.workflow.workflow_id
        self._timers[event_id] = Event(
            workflow_id=workflow_id,
            event_id=event_id,
            kind=kind,
            due_at=at,
            posted_at=self.now,
            sender=workflow_id,
            sender_seq=self.next_number(),
            ref=ref,
            attempt=attempt,
            generation=generation,
            data=data,
            held=held,
            stored=True,
        )

    def post_to(self, workflow_id: str, event_id: str, kind: EventKind, data: Mapping[str, Any], **fields: Any) -> None:
        """Put an event into another workflow's inbox, due now by default."""
        self._posted.append(
            Event(
                workflow_id=workflow_id,
                event_id=event_id,
                kind=kind,
                posted_at=self.now,
                sender=self.workflow.workflow_id,
                sender_seq=self.next_number(),
                data=Payload.of(dict(data), bounded=False),
                owner=self.workflow.owner,
                **{"due_at": self.clock, **fields},
            )
        )

    def cancel_timer(self, event_id: str) -> None:
        """Take an event out of the inbox; one that this turn has put there for a task of its own making is nowhere else."""
        timer = self._timers.pop(event_id, None)
        if timer is None or (timer.ref, timer.attempt) not in self.inserted:
            self._cancelled[event_id] = None

    def offer(self, task: Task) -> None:
        """Put a task into its workers' queue, visible from `task.due_at` on."""
        plain = task.domain is None and not self.workflow.owner
        message = Message(
            queue=task.task_type if plain else queue_name(task.task_type, task.domain, self.workflow.owner),
            workflow_id=task.workflow_id,
            ref=task.ref,
            attempt=task.attempt,
            generation=task.generation,
            task_id=task.task_id,
            due_at=task.due_at,
            priority=self.workflow.priority,
        )
        self._put[task.workflow_id, task.ref] = message

    def remove_message(self, task: Task) -> None:
        """Take a task out of its queue."""
        key = (task.workflow_id, task.ref)
        if self._put.pop(key, None) is None or (task.ref, task.attempt) not in self.inserted:
            self._removed[key] = None

    def offered(self) -> tuple[Message, ...]:
        """What the turn has put into queues so far."""
        return tuple(self._put.values())

    def drop_message(self, ref: str) -> None:
        """Take a leftover message out of its queue."""
        self._removed[(self.workflow.workflow_id, ref)] = None

    def consume(self, event: Event) -> None:
        """Note that a stored event was read."""
        self._consumed.append(event.event_id)

    def overtaken(self, event: Event) -> list[Event]:
        """The events that its sender has written before it and a clock that was ahead has dated after it.

        An execution's own time never runs back: an event that is due before the time at which it was written shows that an earlier
        turn of its sender was taken by such a clock. What was meant for later is not overtaken.
        """
        if event.sender in ("", event.workflow_id) or event.posted_at <= event.due_at:
            return []
        return sorted(
            (
                posted
                for posted in self.reader.inbox()
                if posted.sender == event.sender
                and posted.sender_seq < event.sender_seq
                and event.due_at < posted.due_at <= posted.posted_at
                and not posted.held
            ),
            key=lambda posted: posted.sender_seq,
        )

    def replaced(self, event: Event) -> bool:
        """Whether this turn has given an event that it read a new date: a deadline after a sign of life that was read before it."""
        if event.event_id in self._timers:
            return True
        row = self.last.get(event.ref or "")
        field = FIELDS.get(event.kind)
        if row is None or field is None or (row.attempt, row.generation) != (event.attempt, event.generation):
            return False
        at = getattr(row, field)
        return at is not None and at > event.due_at

    def shorten(self, event: Event, left_ms: int) -> None:
        """Have a default timeout that is dated again count only what is left of it."""
        self._lengths = {**self._lengths, event.event_id: left_ms}

    def hold(self, event: Event) -> None:
        """Put a due event back until the workflow is resumed."""
        self._timers[event.event_id] = changed(event, held=True, stored=False)

    def send_on(self, event: Event, event_id: str, **changes: Any) -> None:
        """Put an event of the own inbox back with changes, under another id if need be; its instant stays."""
        if event_id != event.event_id:
            self.cancel_timer(event.event_id)
        self._timers[event_id] = changed(event, event_id=event_id, stored=False, **changes)

    def hold_item(self, item: Item) -> None:
        """Keep an entry of the work list until the workflow is resumed."""
        self.post(
            f"{EventKind.CONTINUE}:{item[1]}",
            EventKind.CONTINUE,
            self.now,
            held=True,
            ref=item[1],
            generation=self.workflow.generation,
            data=Payload.of({"queue": [list(item)]}),
        )

    def continue_later(self) -> None:
        """Carry the work list over to the next turn."""
        work = {
            "stack": [list(item) for item in self.stack],
            "queue": [list(item) for item in self.queue],
            "reopening": self.reopening,
            "rounds": self.rounds,
        }
        generation = self.workflow.generation
        event_id = f"{EventKind.CONTINUE}#{self.workflow.sequence + 1}"
        self.post(event_id, EventKind.CONTINUE, self.clock, generation=generation, data=self.keep(Payload.of(work)))

    def release_held(self) -> None:
        """Date every held event now, those that were held in this turn too: they came due while it was still paused."""
        self._release_held = True
        for event_id, event in self._timers.items():
            if event.held:
                self._timers[event_id] = changed(event, held=False, due_at=max(event.due_at, self.clock))

    # -- messages to the execution -------------------------------------------------------------------------------------

    def put_message(self, message: WorkflowMessage) -> None:
        """Keep a message, or what has become of one."""
        if self.messages is None:
            self.messages = {}
        self.messages[message.number] = message

    def sent_message(self, topic: str, key: str) -> WorkflowMessage | None:
        """The message of a topic with that key; None when none was sent."""
        if not self.workflow.message_seq:
            return None
        own = (message for message in (self.messages or {}).values() if (message.topic, message.key) == (topic, key))
        return next(own, None) or self.reader.message(topic, key)

    def unreceived_messages(self, topic: str, limit: int) -> list[WorkflowMessage]:
        """The first messages of a topic that no task has received, in order."""
        own = self.messages or {}
        found = [message for message in self.reader.unreceived(topic, limit + len(own)) if message.number not in own]
        found += [message for message in own.values() if message.topic == topic and message.receiver is None]
        return sorted(found, key=_number)[:limit]

    def all_messages(self) -> list[WorkflowMessage]:
        """Every message, in order."""
        return sorted(
            ({message.number: message for message in self.reader.messages()} | (self.messages or {})).values(), key=_number
        )

    def reply(self, event: Event, outcome: Outcome, message: str = "") -> None:
        """Answer an event."""
        if outcome in _REFUSED:
            self.refused = True
        self.replies[event.event_id] = Reply(outcome=outcome, message=message) if message else REPLIES[outcome]
