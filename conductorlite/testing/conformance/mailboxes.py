"""The part of the suite about inboxes and queues, and about messages to executions.

The part of the suite about event handlers, and the records that make their actions happen once.

The part of the suite about looking at limits: who holds a slot, page by page, and how long the line is.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from conductorlite.model.canonical import INLINE_LIMIT, Payload
from conductorlite.model.decisions import Decision, EventKind, Outgoing
from conductorlite.model.errors import AlreadyExists, FencedOut, InvariantBroken
from conductorlite.model.handlers import EventExecution, EventStatus
from conductorlite.model.limits import Limit, LimitChange, Member, MemberState
from conductorlite.model.streams import LatestValue
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend, Capability
from conductorlite.testing.conformance.samples import (
    MANY,
    dump,
    emission,
    event,
    large,
    line,
    mail,
    message,
    settle,
    started,
    task,
    workflow,
)

__all__ = ["EventConformance", "LineConformance", "MailboxConformance", "MessageConformance"]


class MessageConformance:
    """Messages to executions, found by topic and key, in order while nobody has received them; and what executions emit."""

    def test_messages_are_kept_in_order(self, backend: Backend) -> None:
        """Of each topic those not received come first by number; a page of all begins after a number; of others nothing."""
        sent = (mail(1), mail(2, topic="other"), mail(3, key="k1", topic="a\x1fb"), mail(4), mail(10))
        started(backend, "v", messages=(mail(1, "v", value=Payload.of("theirs")),))
        started(backend, messages=sent)
        with backend.reading() as view:
            box = view.executions.mailbox("w")
            assert list(box.messages(0, 9)) == list(sent)
            assert [one.number for one in box.messages(1, 2)] == [2, 3]
            assert [one.number for one in box.unreceived("news", 9)] == [1, 4, 10]
            assert [one.number for one in box.unreceived("news", 2)] == [1, 4]
            assert list(box.unreceived("nothing", 9)) == []
            assert box.message("news", "k4") == sent[3]
            assert box.message("a\x1fb", "k1") == sent[2]
            assert (box.message("news", "k2"), box.message("nothing", "k1")) == (None, None)
            assert [one.value.value for one in view.executions.mailbox("v").messages(0, 9)] == ["theirs"]
            assert list(view.executions.mailbox("nobody").messages(0, 9)) == []

    def test_messages_change_and_go_with_their_execution(self, backend: Backend) -> None:
        """Received, given back, of another topic; a large value is kept apart; what is fenced out changes none."""
        big = large("m")
        row = started(backend, messages=(mail(1, value=big), mail(2)), texts=(big,))
        received = mail(1, value=big.stored(), receiver="a", received_at=9)
        with backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=row, messages=(received, mail(3))))
        with backend.reading() as view:
            assert list(view.executions.mailbox("w").messages(0, 9)) == [received, mail(2), mail(3)]
            assert [one.number for one in view.executions.mailbox("w").unreceived("news", 9)] == [2, 3]
            assert view.executions.payloads("w", [big.digest]) == {big.digest: big}
            now = view.executions.workflow("w")
        assert now is not None
        with pytest.raises(FencedOut), backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=row, messages=(mail(2, receiver="b", received_at=9),)))
        with backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=now, messages=(mail(1, value=big), mail(2, topic="other"))))
        with backend.reading() as view:
            box = view.executions.mailbox("w")
            assert [one.number for one in box.unreceived("news", 9)] == [1, 3]
            assert [one.number for one in box.unreceived("other", 9)] == [2]
            assert (box.message("news", "k2"), box.message("other", "k2")) == (None, mail(2, topic="other"))
        with backend.writing() as tx:
            tx.executions.remove("w")
        with backend.reading() as view:
            assert list(view.executions.mailbox("w").messages(0, 9)) == []

    def test_emitted_values_are_read_in_order(self, backend: Backend) -> None:
        """Chunks come by their last numbers, of all streams or of one, each with its call; of others nothing."""
        first, second = emission(1, ("x", 1, 3), ("y", 4, 4)), emission(2, ("x", 5, 6))
        started(backend, "v", emissions=(emission(1, ("x", 1, 1), workflow_id="v"),))
        started(backend, emissions=(first, second))
        with backend.reading() as view:
            streams = view.streams
            found = streams.chunks("w", None, 0, 9)
            assert [one.chunks for one in found] == [(first.chunks[0],), (first.chunks[1],), (second.chunks[0],)]
            assert [(one.lease, one.first, one.last, one.state.value) for one in found] == [
                (1, 1, 4, "OPEN"), (1, 1, 4, "OPEN"), (2, 5, 6, "OPEN"),
            ]  # fmt: skip
            assert [one.chunks[0].last for one in streams.chunks("w", "x", 1, 9)] == [3, 6]
            assert [one.chunks[0].last for one in streams.chunks("w", "x", 3, 9)] == [6]
            assert [one.chunks[0].last for one in streams.chunks("w", None, 0, 2)] == [3, 4]
            assert list(streams.chunks("w", "z", 0, 9)) == list(view.streams.chunks("nobody", None, 0, 9)) == []
            assert [one.lease for one in streams.emissions("w")] == [1, 2]
            assert [one.chunks for one in streams.emissions("w")] == [(), ()]

    def test_what_has_become_of_a_call_changes(self, backend: Backend) -> None:
        """A later turn adds to a call and settles it; what is fenced out changes nothing; all goes with the execution."""
        value = LatestValue(workflow_id="w", name="n", ref="", at=1, value=Payload.of({"x": 1}))
        row = started(backend, emissions=(emission(1, ("x", 1, 2)), emission(2, ("x", 3, 3))), values=(value,))
        later = attrs.evolve(value, at=2, value=Payload.of("other"))
        other = attrs.evolve(value, ref="a")
        more = (emission(1, ("x", 4, 5), state="KEPT"), emission(2, state="DROPPED"))
        with backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=row, emissions=more, values=(later, other)))
        with pytest.raises(FencedOut), backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=row, emissions=(emission(1, ("x", 6, 6)),), values=(value,)))
        with backend.reading() as view:
            streams = view.streams
            assert [(one.state.value, one.first, one.last) for one in streams.emissions("w")] == [("KEPT", 1, 5), ("DROPPED", 3, 3)]
            assert [(one.chunks[0].last, one.state.value) for one in streams.chunks("w", None, 0, 9)] == [
                (2, "KEPT"), (3, "DROPPED"), (5, "KEPT"),
            ]  # fmt: skip
            assert list(streams.values("w")) == [later, other]
        with backend.writing() as tx:
            tx.executions.remove("w")
        with backend.reading() as view:
            assert [list(found) for found in (view.streams.emissions("w"), view.streams.values("w"))] == [[], []]
            assert list(view.streams.chunks("w", None, 0, 9)) == []


def _member(holder: str, state: MemberState, **changes: Any) -> Member:
    fields: dict[str, Any] = {"key": "task:a", "workflow_id": "w", "ref": "a", "attempt": 0, "generation": 0, "concurrent": 2}
    return Member(holder=holder, state=state, **(fields | changes))


class LineConformance:
    """Limits as those see them who only look."""

    def test_holders_and_the_line_are_counted(self, backend: Backend) -> None:
        """Holders come in pages in order of holder; the line is counted whole, and up to a member by its place."""
        line = [
            _member("p", MemberState.WAITING, priority=3, asked_at=9),
            _member("r", MemberState.WAITING, asked_at=1, workflow_id="b"),
            _member("q", MemberState.WAITING, asked_at=1, workflow_id="c"),
            _member("o", MemberState.WAITING, asked_at=2, created_at=1),
            _member("n", MemberState.WAITING, asked_at=2, created_at=1, seq=5),
        ]
        holders = [_member("x", MemberState.RESERVED), _member("a", MemberState.HELD), _member("m", MemberState.HELD)]
        other = _member("a", MemberState.HELD, key="task:b")
        with backend.writing() as tx:
            changes = (
                LimitChange(limit=Limit(key="task:a", in_use=3), put=(*reversed(line), *holders)),
                LimitChange(limit=Limit(key="task:b", in_use=1), put=(other,)),
            )
            tx.decisions.apply(Decision(workflow=workflow("w"), created=True, limits=changes))
        with backend.reading() as view:
            assert [one.holder for one in view.limits.holders("task:a", "", 2)] == ["a", "m"]
            assert [one.holder for one in view.limits.holders("task:a", "m", 2)] == ["x"]
            assert list(view.limits.holders("task:b", "", 9)) == [other]
            assert (view.limits.waiting("task:a"), view.limits.waiting("task:b"), view.limits.waiting("task:c")) == (5, 0, 0)
            assert [view.limits.waiting("task:a", member) for member in line] == [0, 1, 2, 3, 4]
            assert list(view.limits.line("task:a", 9).heads) == line


def _beginning(number: int, limited: bool) -> Decision:
    """Return what the first turn of an execution may decide."""
    workflow_id = f"w{number}"
    timer = {"kind": EventKind.WAIT_ENDS, "ref": "a", "sender": workflow_id}
    return Decision(
        workflow=workflow(workflow_id, idempotency_key=f"k{number}" if limited else None, input=large("x")),
        created=True,
        inserted=(task("a", workflow_id, seq=1), task("b", workflow_id, seq=2))[: number + 1],
        history=tuple(line(n) for n in range(1, number + 1)),
        texts=(large("x"),),
        timers=(event("WAIT_ENDS:a", 3 + number, workflow_id, **timer), event("own", 4, workflow_id))[: number + 1],
        outgoing=Outgoing(
            put=(message("a", number, workflow_id),),
            posted=(event("other", 5, "w1", sender=workflow_id),) if number == 4 else (),
        ),
    )


class MailboxConformance:
    """The two mailboxes and what is sent between executions."""

    @pytest.mark.parametrize("limited", [False, True])
    def test_many_begin_as_each_does(self, backend: Backend, limited: bool) -> None:
        """Decisions that begin executions, stored together: rows, texts, journals, events and messages of each."""
        one, other = backend, MemoryBackend()
        decisions = [_beginning(number, limited) for number in range(5)]
        with one.writing() as tx:
            tx.decisions.apply_all(decisions)
        with other.writing() as tx:
            for decision in decisions:
                tx.decisions.apply(decision)
        for store in (one, other):
            settle(store)
        with one.reading() as found, other.reading() as expected:
            assert dump(found) == dump(expected)
        other.close()

    def test_many_begin_or_none(self, backend: Backend) -> None:
        """Nothing of the block is stored when one is refused."""
        started(backend, "w3")
        with pytest.raises(AlreadyExists), backend.writing() as tx:
            tx.decisions.apply_all([_beginning(number, False) for number in range(5)])
        with backend.reading() as view:
            assert view.executions.workflow_ids(None, "", MANY) == ["w3"]
            assert view.inbox.upcoming_events(MANY) == []

    def test_inbox_order(self, backend: Backend) -> None:
        """Events are read by due_at, posted_at, sender, sender_seq; only due ones that are not held, up to a limit."""
        events = [
            event("5", 1, posted_at=1, sender="b", sender_seq=1),
            event("4", 1, posted_at=1, sender="a", sender_seq=10),
            event("3", 1, posted_at=1, sender="a", sender_seq=9),
            event("2", 1, posted_at=0, sender="z"),
            event("1", 0, posted_at=9),
            event("6", 2),
            event("7", 0, held=True),
        ]
        with backend.writing() as tx:
            tx.inbox.post(events)
            assert [e.event_id for e in tx.inbox.due_events("w", 1, 9)] == ["1", "2", "3", "4", "5"]
            assert [e.event_id for e in tx.inbox.due_events("w", 1, 2)] == ["1", "2"]
            assert [e.event_id for e in tx.inbox.events("w")] == ["7", "1", "2", "3", "4", "5", "6"]
            assert all(e.stored for e in tx.inbox.events("w"))
            assert tx.inbox.due_events("w", -1, 9) == []

    def test_turn_rewrites_its_inbox(self, backend: Backend) -> None:
        """A decision deletes what it consumed and cancelled, releases what was held, then sets its timers."""
        old = (event("read", 1), event("cancel", 9), event("move", 3), event("held", 2, held=True), event("stay", 4))
        row = started(backend, timers=old)
        decision = Decision(
            workflow=row,
            consumed=("read", "never there"),
            cancelled=("cancel",),
            release_held=True,
            released_at=7,
            timers=(event("move", 8, data=Payload.of([1])), event("new", 5, held=True)),
        )
        with backend.writing() as tx:
            tx.decisions.apply(decision)
            found = [(e.event_id, e.due_at, e.held) for e in tx.inbox.events("w")]
        assert found == [("stay", 4, False), ("new", 5, True), ("held", 7, False), ("move", 8, False)]

    def test_due_workflows(self, backend: Backend) -> None:
        """Workflows with due events come once each, the longest due first; held and future events do not count."""
        with backend.writing() as tx:
            assert tx.inbox.next_event_at() is None
            assert tx.inbox.due_workflows(99, 9) == []
            tx.inbox.post([event("a", 5, "v"), event("a", 3, "w"), event("b", 4, "w"), event("a", 9, "x")])
            tx.inbox.post([event("h", 0, "y", held=True)])
            assert list(tx.inbox.due_workflows(5, 9)) == ["w", "v"]
            assert list(tx.inbox.due_workflows(5, 1)) == ["w"]
            assert list(tx.inbox.due_workflows(2, 9)) == []
            assert tx.inbox.next_event_at() == 3
            assert [(e.workflow_id, e.due_at) for e in tx.inbox.upcoming_events(3)] == [("w", 3), ("w", 4), ("v", 5)]

    def test_due_workflows_with_a_very_full_inbox(self, backend: Backend) -> None:
        """However many events one workflow has, it is reported, and no workflow is reported that is not due."""
        with backend.writing() as tx:
            tx.inbox.post([event(str(n), n) for n in range(MANY)])
            tx.inbox.post([event("a", MANY, "v")])
            assert tx.inbox.due_workflows(MANY, 2)[0] == "w"
            assert set(tx.inbox.due_workflows(MANY, 2)) <= {"w", "v"}

    def test_offers_by_priority_then_age(self, backend: Backend) -> None:
        """A queue offers what is due: higher priority first, then earlier due_at, then workflow id and ref."""
        put = [message("late", 9, priority=5), message("b", 2), message("a", 2), message("old", 1)]
        put += [message("high", 3, priority=5), message("low", 0, priority=-1), message("else", 0, queue="q0")]
        put += [message("a", 2, "v")]
        started(backend, outgoing=Outgoing(put=tuple(put)))
        with backend.reading() as view:
            found = [(m.workflow_id, m.ref) for m in view.queue.offered("charge", 3, 9)]
            assert found == [("w", "high"), ("w", "old"), ("v", "a"), ("w", "a"), ("w", "b"), ("w", "low")]
            assert [m.ref for m in view.queue.offered("charge", 3, 2)] == ["high", "old"]
            assert view.queue.offered("unknown", 3, 9) == []
            assert view.queue.next_message_at(["unknown"]) is None
            assert view.queue.next_message_at(["charge"]) == 0
            assert view.queue.next_message_at([]) is None
            assert view.queue.next_message_at(None) == 0
            assert view.queue.next_message_at(["unknown", "q0"]) == 0
            assert view.queue.queue_sizes() == {"charge": 7, "q0": 1}
            assert [m.due_at for m in view.queue.messages(99)] == [0, 0, 1, 2, 2, 2, 3, 9]
            assert view.queue.message(("v", "a")) == put[-1]
            assert view.queue.message(("v", "b")) is None

    def test_messages_are_replaced_removed_and_discarded(self, backend: Backend) -> None:
        """Removals come before what is put; a message is discarded only as long as it stands exactly as given."""
        row = started(backend, outgoing=Outgoing(put=(message("a"), message("b"))))
        put = (message("b", 5, attempt=1, queue="q0"), message("c"))
        with backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=row, outgoing=Outgoing(removed=(("w", "a"), ("w", "b"), ("w", "z")), put=put)))
        settle(backend)
        with backend.writing() as tx:
            tx.queue.discard([message("b"), message("c", 1), message("gone")])
            assert sorted(m.ref for m in tx.queue.messages(9)) == ["b", "c"]
            tx.queue.discard(put)
            assert not tx.queue.messages(9)
            assert not tx.queue.queue_sizes()
            assert tx.queue.next_message_at(None) is None

    def test_outgoing_arrives_once(self, backend: Backend) -> None:
        """Messages that a decision sends arrive with the commit or when delivered; a second delivery changes nothing."""
        row = started(backend)
        immediate = Capability.IMMEDIATE in backend.capabilities
        outgoing = Outgoing(put=(message(),), posted=(event("hello", 1, "v"),))
        with backend.writing() as tx:
            tx.decisions.apply(Decision(workflow=row, outgoing=outgoing))
            items = list(tx.outbox.items(9))
            assert bool(items) is not immediate
            assert bool(tx.queue.messages(9)) is immediate
            tx.outbox.deliver(items)
            assert [e.event_id for e in tx.inbox.events("v")] == ["hello"]
            assert len(tx.queue.messages(9)) == 1
            tx.queue.discard([message()])
            tx.outbox.deliver(items)
            assert not tx.queue.messages(9)
            assert not tx.outbox.items(9)


def _record(name: str = "h", message_id: str = "m", number: int = 0, **fields: Any) -> EventExecution:
    given = {"event": "e", "status": EventStatus.COMPLETED, "action": "start_workflow"} | fields
    return EventExecution(name=name, message_id=message_id, number=number, **given)


class EventConformance:
    """Event handlers by name and event; records by identity, handler, message and age."""

    def test_event_handlers_by_name_and_event(self, backend: Backend) -> None:
        """They are listed in order of their names, and the last text put under a name counts, also for its event."""
        with backend.writing() as tx:
            tx.event_handlers.put_event_handler("b", "e", True, "first b")
            tx.event_handlers.put_event_handler("a", "e", False, "text a")
            tx.event_handlers.put_event_handler("c", "other", True, "text c")
            tx.event_handlers.put_event_handler("b", "e", True, "text b")
        with backend.reading() as view:
            assert [view.event_handlers.handler("b"), view.event_handlers.handler("x")] == ["text b", None]
            assert list(view.event_handlers.handlers(None, active_only=False)) == ["text a", "text b", "text c"]
            assert list(view.event_handlers.handlers(None, active_only=True)) == ["text b", "text c"]
            assert list(view.event_handlers.handlers("e", active_only=False)) == ["text a", "text b"]
            assert list(view.event_handlers.handlers("e", active_only=True)) == ["text b"]
            assert list(view.event_handlers.handlers("none", active_only=False)) == []
        with backend.writing() as tx:
            tx.event_handlers.put_event_handler("b", "other", False, "moved b")
            tx.event_handlers.drop_event_handler("a")
            tx.event_handlers.drop_event_handler("a")
            assert list(tx.event_handlers.handlers("e", active_only=False)) == []
            assert list(tx.event_handlers.handlers("other", active_only=False)) == ["moved b", "text c"]

    def test_a_record_is_kept_once(self, backend: Backend) -> None:
        """A second record of an identity raises InvariantBroken, and nothing of that transaction is stored."""
        large = Payload.of({"text": "x" * (INLINE_LIMIT + 1)})
        first = _record(output=large, created=5)
        skipped = _record(name="i", status=EventStatus.SKIPPED, action=None)
        with backend.writing() as tx:
            tx.event_handlers.add_event_execution(first)
            tx.event_handlers.add_event_execution(skipped)
            assert tx.event_handlers.event_execution(*first.key) == first
        with pytest.raises(InvariantBroken):
            self._put_and_add(backend, _record(created=6, status=EventStatus.FAILED))
        with backend.reading() as view:
            assert view.event_handlers.event_execution(*first.key) == first
            assert view.event_handlers.event_execution(*skipped.key) == skipped
            assert view.event_handlers.event_execution("h", "e", "m", 1) is None
            assert view.event_handlers.event_execution("h", "f", "m", 0) is None
            assert view.event_handlers.handler("b") is None
            assert [one.output.value for one in view.event_handlers.event_executions("h", None, None, 9)] == [large.value]

    def _put_and_add(self, backend: Backend, record: EventExecution) -> None:
        with backend.writing() as tx:
            tx.event_handlers.put_event_handler("b", "e", True, "text")
            tx.event_handlers.add_event_execution(record)

    def test_records_are_listed_newest_first_and_dropped_oldest_first(self, backend: Backend) -> None:
        """A page is in descending order of places, after a mark; the oldest before an instant are dropped."""
        records = [
            _record(name, message, number, created=created, event=event)
            for name, message, number, created, event in [
                ("a", "m1", 0, 3, "e"), ("a", "m1", 1, 3, "e"), ("b", "m1", 0, 2, "e"), ("b", "m2", 0, 5, "f"),
                ("a", "m2", 0, 1, "e"),
            ]
        ]  # fmt: skip
        newest = sorted(records, key=lambda one: one.place, reverse=True)
        with backend.writing() as tx:
            for record in records:
                tx.event_handlers.add_event_execution(record)
        with backend.reading() as view:
            assert list(view.event_handlers.event_executions(None, None, None, 9)) == newest
            assert list(view.event_handlers.event_executions(None, None, None, 2)) == newest[:2]
            assert list(view.event_handlers.event_executions(None, None, newest[1].place, 2)) == newest[2:4]
            assert list(view.event_handlers.event_executions("a", None, None, 9)) == [one for one in newest if one.name == "a"]
            assert list(view.event_handlers.event_executions("a", None, newest[1].place, 1)) == [newest[2]]
            assert list(view.event_handlers.event_executions(None, "m1", None, 9)) == [
                one for one in newest if one.message_id == "m1"
            ]
            assert list(view.event_handlers.event_executions("b", "m1", None, 9)) == [records[2]]
            assert list(view.event_handlers.event_executions("b", "m1", records[2].place, 9)) == []
            assert list(view.event_handlers.event_executions("x", None, None, 9)) == []
        with backend.writing() as tx:
            assert tx.event_handlers.drop_event_executions(9, 9, message_id="nobody's") == 0
            assert tx.event_handlers.drop_event_executions(3, 1) == 1
            assert list(tx.event_handlers.event_executions(None, None, None, 9)) == newest[:4]
            assert tx.event_handlers.drop_event_executions(3, 9) == 1
            assert tx.event_handlers.drop_event_executions(3, 9) == 0
        with backend.reading() as view:
            assert list(view.event_handlers.event_executions(None, None, None, 9)) == newest[:3]
            assert list(view.event_handlers.event_executions("b", "m1", None, 9)) == []
        with backend.writing() as tx:
            assert tx.event_handlers.drop_event_executions(9, 9, without="m1") == 1
            assert tx.event_handlers.drop_event_executions(9, 1, message_id="m1") == 1
            assert tx.event_handlers.drop_event_executions(9, 9, message_id="m1", without="m1") == 0
            assert len(tx.event_handlers.event_executions(None, None, None, 9)) == 1
