"""A store that is sealed keeps the contract of a store, and of every noun it is known what is sealed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from sealing_kit import CANARY, Codec

from conductorlite.model.canonical import ExternalPayload, Payload
from conductorlite.model.decisions import Decision, Event, EventKind, Outgoing
from conductorlite.model.executions import HistoryEvent, HistoryKind, Task, TaskLog, Workflow
from conductorlite.model.handlers import EventExecution
from conductorlite.model.mailbox import WorkflowMessage
from conductorlite.model.streams import Chunk, Emission, EmissionState, LatestValue
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.nouns import CHANGES, NOUNS, QUESTIONS
from conductorlite.store.ports import Backend
from conductorlite.store.sealing import CONVERTED, SEALED, Rows, Sealing, sealed
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.tables import Archived, ScheduleRow
from conductorlite.testing.conformance import BackendConformance
from conductorlite.testing.conformance.samples import started, task, workflow
from conductorlite.testing.faults import lay_empty_store


class SealedConformance(BackendConformance):
    """The conformance suite, but that a sealed store begins with one definition: the record of its key."""

    def test_sizes(self, backend: Backend) -> None:
        """Rows are counted as in any store."""
        started(backend)
        with backend.reading() as view:
            sizes = view.sizes()
        assert {kind: size.rows for kind, size in sizes.kinds.items() if size.rows} == {"executions": 1, "definitions": 1}
        ((_, size),) = sizes.executions.items()
        assert 0 < size.bytes == sizes.kinds["executions"].bytes


class TestSealedSQLite(SealedConformance):
    """On a file, with an index."""

    def make_backend(self, folder: Path) -> Backend:
        """A store in a file, sealed."""
        inner = SQLiteBackend(lay_empty_store(folder / "store.db"), synchronous="NORMAL")
        return sealed(inner, Codec("k"), plain_index=True)  # type: ignore[return-value]


@pytest.mark.slow
class TestSealedMemory(SealedConformance):
    """In memory."""

    def make_backend(self, folder: Path) -> Backend:
        """A store in memory, sealed."""
        return sealed(MemoryBackend(), Codec("k"))  # type: ignore[return-value]


@pytest.mark.slow
class TestSealedRelay(SealedConformance):
    """In memory, without one commit."""

    def make_backend(self, folder: Path) -> Backend:
        """A store in memory that cannot commit the outgoing part with the rest, sealed."""
        return sealed(MemoryBackend(relay=True), Codec("k"))  # type: ignore[return-value]


#: Of each kind of row the fields that are texts, or hold some, and stay plain.
PLAIN: Final[Mapping[type, set[str]]] = {
    Workflow: {
        *("workflow_id", "name", "seed", "correlation_id", "parent_workflow_id", "parent_task_id", "parent_ref", "event"),
        *("created_by", "trace_context", "owner", "rate_limit_key", "outer_keys", "idempotency_key", "failed_refs"),
        *("failed_task_names", "failed_task_id", "last_ref"),
        *("tasks", "definition", "made"),  # no part of the row
    },
    Task: {
        *("workflow_id", "ref", "base_ref", "task_id", "task_type", "name", "error_types", "error_bases", "worker_id", "domain"),
        *("holder", "retried_task_id", "sub_workflow_id", "limit_key", "compensation_next"),
    },
    HistoryEvent: {"status", "ref"},
    TaskLog: {"task_id"},
    Event: {"workflow_id", "event_id", "sender", "ref", "owner"},
    WorkflowMessage: {"workflow_id", "topic", "key", "receiver"},
    Chunk: {"stream"},
    LatestValue: {"workflow_id", "name", "ref"},
    EventExecution: {"name", "event", "message_id", "action"},
    ScheduleRow: {"name", "address", "owner"},
    Archived: {"workflow_id", "name", "status"},
    ExternalPayload: {"key"},
}

#: Values that are no texts: numbers, instants, states of a fixed set.
_NO_TEXT: Final = ("Status", "Semantics", "HistoryKind", "EventKind")


@pytest.mark.parametrize("kind", SEALED, ids=lambda kind: kind.__name__)
def test_of_every_field_it_is_known_whether_it_is_sealed(kind: type) -> None:
    """A new field that may hold a text fails this test, until it is listed."""
    texts = {field.name for field in attrs.fields(kind) if not _is_number(field.type)}
    assert texts == SEALED[kind].keys() | PLAIN[kind]


def _is_number(annotation: object) -> bool:
    said = annotation.__name__ if isinstance(annotation, type) else str(annotation)  # a text, until somebody resolves the types
    parts = said.replace("tuple[", "").replace(", ...]", "").removesuffix(" | None")
    return parts in ("int", "bool") or parts.endswith(_NO_TEXT)


#: The methods that take or give no row of a kind that is sealed.
PASSED_ON: Final[Mapping[str, set[str]]] = {
    "archive": {"archived_ids", "drop_archived"},
    "decisions": {"defer", "fenced"},
    "event_handlers": {"handler", "handlers", "put_event_handler", "drop_event_handler", "drop_event_executions"},
    "executions": {"workflow_ids", "key_holder", "release", "remove"},
    "feeds": {
        *("feed", "changes", "behind", "is_pending", "index", "begin_feed", "mark_pending", "mark_indexed", "end_feed"),
    },
    "history": set(),
    "inbox": {"due_workflows", "next_event", "next_event_at"},
    "limits": {"line", "member", "members", "members_of", "unpolled", "page", "holders", "waiting", "put_limit"},
    "metadata": {
        *("registry_version", "workflow_def", "workflow_defs", "task_def", "task_defs", "schema_def", "schema_defs"),
        *("put_workflow_def", "drop_workflow_def", "put_task_def", "drop_task_def", "put_schema_def"),
    },
    "outbox": set(),
    "owners": {"rows", "driven", "change_owner", "change_owner_of_the_rest", "note_driven", "forget_driven"},
    "payloads": {
        *("external_used", "known_externals", "loose_payloads", "loosened_at", "mark_orphan", "unmark_orphan"),
    },
    "poll_data": {"polls", "record_polls"},
    "queue": {"offered", "message", "messages", "next_message_at", "queue_sizes", "discard"},
    "schedules": {"drop_schedule"},
    "streams": set(),
    "task_holders": {"rows", "put_holder", "drop_holder"},
}


@pytest.mark.parametrize("noun", NOUNS)
def test_of_every_method_it_is_known_whether_it_seals(noun: str) -> None:
    """A new one fails this test, until it is listed, or converted."""
    assert {*QUESTIONS[noun], *CHANGES[noun]} == CONVERTED.get(noun, {}).keys() | PASSED_ON[noun]


def test_every_part_of_a_decision_is_sealed() -> None:
    """Each field of a decision that holds rows of a kind that is sealed, filled with the canary."""
    plain = Payload.of({"x": CANARY})
    fields: dict[str, Any] = {"workflow_id": "w", "ref": "a", "task_id": "t"}
    sent = Event(workflow_id="w", event_id="e", kind=EventKind.SEND, due_at=0, posted_at=0, data=plain)
    row = workflow("w", input=plain, reason=CANARY)
    attempt = task("a", input=plain, traceback=CANARY)
    chunk = Chunk(stream="s", first=1, last=1, at=0, values=Payload.of([CANARY]))
    call = Emission(**fields, lease=0, attempt=0, state=EmissionState.OPEN, chunks=(chunk,))
    parts: dict[str, Any] = {
        "workflow": row,
        "inserted": (attempt,),
        "updated": (attempt,),
        "texts": (Payload.of({"x": CANARY * 200}),),
        "externals": (),
        "definitions": {"d" * 64: CANARY},
        "history": (HistoryEvent(n=1, at=0, kind=HistoryKind.VERB, status="X", payload=plain, reason=CANARY, cause=CANARY),),
        "timers": (sent,),
        "outgoing": Outgoing(posted=(sent,)),
        "printed": (TaskLog(task_id="t", at=0, text=CANARY),),
        "messages": (WorkflowMessage(workflow_id="w", number=1, topic="t", key="k", value=plain, sent_at=0),),
        "emissions": (call,),
        "values": (LatestValue(workflow_id="w", name="n", ref="", at=0, value=plain),),
    }
    beside = {"created", "replaces", "dropped", "renamed", "consumed", "cancelled", "release_held", "released_at", "more", "limits"}
    assert {field.name for field in attrs.fields(Decision)} == parts.keys() | beside | {"replies"}
    assert CANARY in _shown(Decision(**parts))
    assert CANARY not in _shown(Rows(Sealing(Codec("k"), b"secret")).decision(Decision(**parts)))


def _shown(decision: Decision) -> str:
    """All that a store may keep of a decision."""
    return str(attrs.asdict(decision, value_serializer=lambda _, __, value: vars_of(value)))


def vars_of(value: Any) -> Any:
    """The texts of a payload."""
    return (value.text, value.cell) if isinstance(value, Payload) else value
