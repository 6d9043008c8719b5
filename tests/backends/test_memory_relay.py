"""The memory backend keeps the contract when it cannot commit the outgoing part with the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from conductorlite.model.decisions import Decision, Outgoing
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.testing.conformance import BackendConformance
from conductorlite.testing.conformance.samples import event, message, workflow


class TestMemoryRelay(BackendConformance):
    """The conformance suite."""

    def make_backend(self, folder: Path) -> Backend:
        """A store in memory with an outbox."""
        return MemoryBackend(relay=True)

    @pytest.mark.slow
    def test_agrees_with_the_memory_backend(self) -> None:
        """Two of them do the same; that SQLite does is looked at in the fast run."""
        super().test_agrees_with_the_memory_backend()


def test_removal_keeps_events_to_others() -> None:
    """Removing an execution forgets its undelivered messages, not what it wrote to others."""
    backend = MemoryBackend(relay=True)
    outgoing = Outgoing(put=(message(),), posted=(event("hello", 1, "v"),))
    with backend.writing() as tx:
        tx.decisions.apply(Decision(workflow=workflow(), created=True, outgoing=outgoing))
        tx.executions.remove("w")
        tx.outbox.deliver(tx.outbox.items(9))
        assert not tx.queue.messages(9)
        assert [posted.event_id for posted in tx.inbox.events("v")] == ["hello"]
