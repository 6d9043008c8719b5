"""The part of the suite about inboxes and queues."""

from __future__ import annotations

from conductorlite.canonical import Payload
from conductorlite.decisions import Decision, Outgoing
from conductorlite.ports import Backend
from conductorlite.testing.conformance.samples import MANY, event, message, settle, started

__all__ = ["MailboxConformance"]


class MailboxConformance:
    """The two mailboxes and what is sent between executions."""

    def test_inbox_order(self, backend: Backend) -> None:
        """Letters are read by due_at, posted_at, sender, sender_seq; only due ones that are not held, up to a limit."""
        letters = [
            event("5", 1, posted_at=1, sender="b", sender_seq=1),
            event("4", 1, posted_at=1, sender="a", sender_seq=10),
            event("3", 1, posted_at=1, sender="a", sender_seq=9),
            event("2", 1, posted_at=0, sender="z"),
            event("1", 0, posted_at=9),
            event("6", 2),
            event("7", 0, held=True),
        ]
        with backend.writing() as tx:
            tx.post(letters)
            assert [e.event_id for e in tx.due_events("w", 1, 9)] == ["1", "2", "3", "4", "5"]
            assert [e.event_id for e in tx.due_events("w", 1, 2)] == ["1", "2"]
            assert [e.event_id for e in tx.inbox("w")] == ["7", "1", "2", "3", "4", "5", "6"]
            assert all(e.stored for e in tx.inbox("w"))
            assert tx.due_events("w", -1, 9) == []

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
            tx.apply(decision)
            found = [(e.event_id, e.due_at, e.held) for e in tx.inbox("w")]
        assert found == [("stay", 4, False), ("new", 5, True), ("held", 7, False), ("move", 8, False)]

    def test_due_workflows(self, backend: Backend) -> None:
        """Workflows with due letters come once each, the longest due first; held and future letters do not count."""
        with backend.writing() as tx:
            assert tx.next_event_at() is None
            assert tx.due_workflows(99, 9) == []
            tx.post([event("a", 5, "v"), event("a", 3, "w"), event("b", 4, "w"), event("a", 9, "x")])
            tx.post([event("h", 0, "y", held=True)])
            assert list(tx.due_workflows(5, 9)) == ["w", "v"]
            assert list(tx.due_workflows(5, 1)) == ["w"]
            assert list(tx.due_workflows(2, 9)) == []
            assert tx.next_event_at() == 3
            assert [(e.workflow_id, e.due_at) for e in tx.upcoming_events(3)] == [("w", 3), ("w", 4), ("v", 5)]

    def test_due_workflows_with_a_very_full_inbox(self, backend: Backend) -> None:
        """However many letters one workflow has, it is reported, and no workflow is reported that is not due."""
        with backend.writing() as tx:
            tx.post([event(str(n), n) for n in range(MANY)])
            tx.post([event("a", MANY, "v")])
            assert tx.due_workflows(MANY, 2)[0] == "w"
            assert set(tx.due_workflows(MANY, 2)) <= {"w", "v"}

    def test_offers_by_priority_then_age(self, backend: Backend) -> None:
        """A queue offers what is due: higher priority first, then earlier due_at, then workflow id and ref."""
        put = [message("late", 9, priority=5), message("b", 2), message("a", 2), message("old", 1)]
        put += [message("high", 3, priority=5), message("low", 0, priority=-1), message("else", 0, queue="q0")]
        put += [message("a", 2, "v")]
        started(backend, outgoing=Outgoing(put=tuple(put)))
        with backend.reading() as view:
            found = [(m.workflow_id, m.ref) for m in view.offered("charge", 3, 9)]
            assert found == [("w", "high"), ("w", "old"), ("v", "a"), ("w", "a"), ("w", "b"), ("w", "low")]
            assert [m.ref for m in view.offered("charge", 3, 2)] == ["high", "old"]
            assert view.offered("unknown", 3, 9) == []
            assert view.next_message_at(["unknown"]) is None
            assert view.next_message_at(["charge"]) == 0
            assert view.next_message_at([]) is None
            assert view.next_message_at(None) == 0
            assert view.next_message_at(["unknown", "q0"]) == 0
            assert view.queue_sizes() == {"charge": 7, "q0": 1}
            assert [m.due_at for m in view.messages(99)] == [0, 0, 1, 2, 2, 2, 3, 9]
            assert view.message(("v", "a")) == put[-1]
            assert view.message(("v", "b")) is None

    def test_messages_are_replaced_removed_and_discarded(self, backend: Backend) -> None:
        """Removals come before what is put; a message is discarded only as long as it stands exactly as given."""
        row = started(backend, outgoing=Outgoing(put=(message("a"), message("b"))))
        put = (message("b", 5, attempt=1, queue="q0"), message("c"))
        with backend.writing() as tx:
            tx.apply(Decision(workflow=row, outgoing=Outgoing(removed=(("w", "a"), ("w", "b"), ("w", "z")), put=put)))
        settle(backend)
        with backend.writing() as tx:
            tx.discard([message("b"), message("c", 1), message("gone")])
            assert sorted(m.ref for m in tx.messages(9)) == ["b", "c"]
            tx.discard(put)
            assert not tx.messages(9)
            assert not tx.queue_sizes()
            assert tx.next_message_at(None) is None

    def test_outgoing_arrives_once(self, backend: Backend) -> None:
        """What a decision sends arrives with the commit or when delivered; a second delivery changes nothing."""
        row = started(backend)
        outgoing = Outgoing(put=(message(),), posted=(event("hello", 1, "v"),))
        with backend.writing() as tx:
            tx.apply(Decision(workflow=row, outgoing=outgoing))
            items = list(tx.outbox(9))
            assert bool(items) is not backend.one_commit
            assert bool(tx.messages(9)) is backend.one_commit
            tx.deliver(items)
            assert [e.event_id for e in tx.inbox("v")] == ["hello"]
            assert len(tx.messages(9)) == 1
            tx.discard([message()])
            tx.deliver(items)
            assert not tx.messages(9)
            assert not tx.outbox(9)
