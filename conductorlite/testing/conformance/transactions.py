"""The part of the suite about definitions, transactions and threads, and the comparison with the oracle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductorlite.backends.memory import MemoryBackend
from conductorlite.decisions import Decision
from conductorlite.errors import EngineClosed, FencedOut, InvariantBroken
from conductorlite.executions import PollData
from conductorlite.ports import Backend, WritingTransaction
from conductorlite.testing.conformance.histories import STEP, Act, run
from conductorlite.testing.conformance.samples import dump, event, started, task, workflow

__all__ = ["TransactionConformance"]


class TransactionConformance:
    """Transactions, and random histories against the memory backend."""

    def make_backend(self, folder: Path) -> Backend:
        """A new, empty store; `folder` is there for it alone."""
        raise NotImplementedError

    def test_definitions(self, backend: Backend) -> None:
        """Registered definitions are replaced by name and version; embedded ones never change."""
        with backend.writing() as tx:
            for version, text in ((2, "two"), (10, "ten"), (2, "two again")):
                tx.put_workflow_def("order", version, text)
            tx.put_task_def("t", "one")
            tx.put_task_def("t", "two")
            registered = tx.registry_version()
            tx.embed("digest", "text")
            tx.embed("digest", "other")
        with backend.reading() as view:
            assert (view.workflow_def("order", None), view.workflow_def("order", 2)) == ("ten", "two again")
            assert view.registry_version() == registered > 0
            assert view.workflow_def("order", 3) is None
            assert view.workflow_def("x", None) is None
            assert list(view.workflow_defs()) == [("order", 2), ("order", 10)]
            assert (view.task_def("t"), view.task_def("x"), list(view.task_defs())) == ("two", None, ["t"])
            assert (view.definition("digest"), view.definition("x")) == ("text", None)

    def test_transactions_nest_only_as_views(self, backend: Backend) -> None:
        """Inside a change a view sees the change; a change inside any transaction of its thread is refused."""
        with backend.writing() as tx:
            tx.post([event()])
            with backend.reading() as view, backend.reading() as again:
                assert len(view.inbox("w")) == len(again.inbox("w")) == 1
            with pytest.raises(InvariantBroken), backend.writing():
                pass
            tx.post([event("second")])
        with backend.reading() as view:
            with pytest.raises(InvariantBroken), backend.writing():
                pass
            assert len(view.inbox("w")) == 2

    def test_what_was_written_before_a_decision_that_fails_stays(self, backend: Backend) -> None:
        """Of a transaction only the decision that contradicts the store is undone, whatever was written before it."""
        started(backend)
        with backend.reading() as view:
            row = view.workflow("w")
        assert row is not None
        firsts: dict[str, Callable[[WritingTransaction], object]] = {
            "handler": lambda tx: tx.put_event_handler("h", "e", True, "text"),
            "definition": lambda tx: tx.put_workflow_def("d", 1, "text"),
            "text": lambda tx: tx.embed("digest", "text"),
            "letter": lambda tx: tx.post([event("first", workflow_id="other")]),
            "poll": lambda tx: tx.record_polls([PollData(queue_name="t", domain=None, worker_id="w", last_poll_time=1)]),
            "decision": lambda tx: tx.apply(Decision(workflow=workflow("second"), created=True)),
        }
        for write in firsts.values():
            with backend.writing() as tx:
                write(tx)
                with pytest.raises(InvariantBroken):
                    tx.apply(Decision(workflow=row, updated=(task("nowhere"),)))
        with backend.reading() as view:
            assert view.workflow("w") == row
            assert [text for text in (view.workflow_def("d", 1), view.definition("digest")) if text != "text"] == []
            assert view.event_handler("h") is not None
            assert [one.event_id for one in view.inbox("other")] == ["first"]
            assert [one.worker_id for one in view.poll_data("t")] == ["w"]
            assert view.workflow("second") is not None

    def test_view_is_consistent(self, backend: Backend) -> None:
        """A view does not change under its reader while another thread writes."""
        started(backend)

        def write() -> None:
            with backend.writing() as tx:
                tx.post([event()])

        writer = threading.Thread(target=write)
        with backend.reading() as view:
            before = dump(view)
            writer.start()
            writer.join(0.05)  # with a backend that serialises views the writer waits for us
            assert dump(view) == before
        writer.join()
        with backend.reading() as view:
            assert len(view.inbox("w")) == 1

    def test_no_update_is_lost_between_threads(self, backend: Backend) -> None:
        """Four threads raise one fence twenty-five times each; every raise is counted."""
        started(backend)

        def climb() -> None:
            done = 0
            while done < 25:
                with backend.reading() as view:
                    row = view.workflow("w")
                assert row is not None
                with suppress(FencedOut), backend.writing() as tx:
                    tx.apply(Decision(workflow=attrs.evolve(row, sequence=row.sequence + 1)))
                    done += 1

        threads = [threading.Thread(target=climb) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with backend.reading() as view:
            row = view.workflow("w")
        assert row is not None
        assert (row.sequence, row.fence) == (100, 101)

    def test_closed_backend_refuses(self, backend: Backend) -> None:
        """After close, which may be repeated, every transaction raises EngineClosed."""
        assert isinstance(backend.data_version(), int)
        backend.close()
        backend.close()
        with pytest.raises(EngineClosed), backend.reading():
            pass
        with pytest.raises(EngineClosed), backend.writing():
            pass

    def test_agrees_with_the_memory_backend(self) -> None:
        """A random history gives the same errors and, after every step, the same answers to every question."""

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
        @given(steps=st.lists(STEP, min_size=1, max_size=12))
        def agree(steps: list[list[Act]]) -> None:
            with TemporaryDirectory() as folder:
                backend = self.make_backend(Path(folder))
                try:
                    oracle: Backend = MemoryBackend(relay=not backend.one_commit)
                    for step in steps:
                        assert run(backend, step) == run(oracle, step)
                        with backend.reading() as view, oracle.reading() as expected:
                            assert dump(view) == dump(expected)
                finally:
                    backend.close()

        agree()
