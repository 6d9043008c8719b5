"""Executions as text: one line per event of the journal, with seconds since the start.

+0s        workflow RUNNING
+0s        charge #1 SCHEDULED
+0s        charge #1 IN_PROGRESS
+12.5s     charge #1 FAILED: 503
+17.5s     charge #2 SCHEDULED

What a replay needs: a clock that can be set to any instant, and turns whose reads are given.

What a scripted worker does, one step per call: plain values, so that tests, strategies and reports can hold them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import attrs

from conductorlite.engine.lookups import Cut
from conductorlite.engine.registry import Registry
from conductorlite.model.canonical import parse
from conductorlite.model.clock import VirtualClock
from conductorlite.model.decisions import Admission, Decision, Embedding, Event
from conductorlite.model.definitions import LOOP_DELIMITER, Semantics, WorkflowDef
from conductorlite.model.errors import InvalidInput, NotFound
from conductorlite.model.executions import HistoryEvent, HistoryKind, Workflow
from conductorlite.runtime.engine import Engine, Run
from conductorlite.store.ports import ReadingTransaction

__all__ = [
    "ReplayRecord",
    "SettableClock",
    "Step",
    "StepKind",
    "assert_history",
    "base_ref",
    "render_history",
    "starting",
    "timeline",
]


class StepKind(StrEnum):
    """Outcome of one call."""

    #: COMPLETED with `output`.
    RETURNS = "RETURNS"
    #: FAILED with `reason`, or with `error` raised.
    FAILS = "FAILS"
    #: FAILED_WITH_TERMINAL_ERROR with `reason`.
    FAILS_TERMINALLY = "FAILS_TERMINALLY"
    #: Never reports, but lives: its lease is extended for as long as an execution waits for it.
    HANGS = "HANGS"
    #: Never reports and gives no sign of life: its process died.
    CRASHES = "CRASHES"
    #: IN_PROGRESS with `output`, to be offered again after `callback_ms`.
    CALLS_BACK = "CALLS_BACK"
    #: What `function` does, given the input as keyword arguments.
    DOES = "DOES"


@attrs.frozen(kw_only=True, slots=True)
class Step:
    """One call's outcome. `takes_ms` is how long the call takes in virtual time; `times` how often it is used (None:
    for ever).

    `silent` means that no sign of life is given meanwhile, so that a report after the response timeout comes too late;
    `reports` is how often the same report is made, one after the other, at the same instant.
    """

    kind: StepKind
    output: Any = None
    reason: str = ""
    error: BaseException | None = None
    function: Callable[..., Any] | None = None
    callback_ms: int = 0
    takes_ms: int = 0
    times: int | None = 1
    silent: bool = False
    reports: int = 1


_COLUMN = 11


def timeline(engine: Engine, workflow_id: str, *, payloads: bool = False, reasons: bool = True) -> str:
    """Return what happened to an execution so far, as text; raises ExecutionNotFound.

    `payloads` adds inputs and outputs as JSON, `reasons` why something ended as it did.
    """
    return render_history(engine.history(workflow_id), payloads=payloads, reasons=reasons)


def render_history(history: Sequence[HistoryEvent], *, payloads: bool = False, reasons: bool = True) -> str:
    """Lines of the journal as text. Attempts are counted from 1, instants from the first line."""
    if not history:
        return ""
    start = history[0].at
    return "\n".join(_line(event, start, payloads, reasons) for event in history)


def _line(event: HistoryEvent, start: int, payloads: bool, reasons: bool) -> str:
    what = "workflow" if event.ref is None else event.ref
    if event.kind is HistoryKind.ROUND:
        text = f"{what} round {event.number}"
    else:
        attempt = "" if event.attempt is None else f" #{event.attempt + 1}"
        compensation = event.kind is HistoryKind.COMPENSATION and event.ref is None
        alert = "ALERT " if event.kind is HistoryKind.ALERT else "COMPENSATION " if compensation else ""
        text = f"{what}{attempt} {alert}{event.status}"
    if reasons and event.reason:
        text += f": {' '.join(event.reason.split())}"
    if payloads and event.payload is not None and not event.payload.absent:
        text += f" {event.payload.shown}"
    at = f"+{(event.at - start) / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    return f"{at:<{_COLUMN - 1}} {text}"


def assert_history(
    subject: Run[Any] | Engine,
    expected: str,
    workflow_id: str | None = None,
    *,
    payloads: bool = False,
    reasons: bool = False,
) -> None:
    """Fail with a readable difference unless the timeline of an execution is the expected text, spaces aside.

    `subject` is a run, or an engine with either `workflow_id` or just one execution. Blank lines are left out, so the
    text may be indented like the code around it. Raises InvalidInput when it is not clear which execution is meant.
    """
    engine, chosen = _subject(subject, workflow_id)
    actual = timeline(engine, chosen, payloads=payloads, reasons=reasons)
    if list(_plain(actual)) == list(_plain(expected)):
        return
    difference = difflib.unified_diff([*_plain(expected)], [*_plain(actual)], "expected", f"history of {chosen}", lineterm="", n=3)
    raise AssertionError("\n".join([*difference, "", "the whole history:", actual]))


def _plain(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.strip():
            yield " ".join(line.split())


def _subject(subject: Run[Any] | Engine, workflow_id: str | None) -> tuple[Engine, str]:
    if isinstance(subject, Run):
        return subject._engine, subject.workflow_id
    if workflow_id is not None:
        return subject, workflow_id
    known = list(subject.admin.workflow_ids())
    if len(known) != 1:
        raise InvalidInput(f"the engine holds {len(known)} executions; say which one is meant")
    return subject, known[0]


def base_ref(ref: str) -> str:
    """The definition's reference of a printed one: without the rounds of loops."""
    return re.sub(rf"({LOOP_DELIMITER}\d+)+\Z", "", ref, flags=re.ASCII)


def starting(workflow: object, input: Mapping[str, Any] | None) -> tuple[dict[str, Any], list[WorkflowDef]]:
    """Return how a flow or a definition starts, and what to register before; raises InvalidInput for anything else."""
    if isinstance(workflow, WorkflowDef):
        return {"workflow": workflow, "input": dict(input or {})}, []
    if not hasattr(workflow, "starting") or not hasattr(workflow, "definitions"):
        raise InvalidInput(f"it takes a flow or a definition, not {workflow!r:.80}")
    return dict(workflow.starting(**(input or {}))), list(workflow.definitions)


class SettableClock(VirtualClock):
    """A virtual clock that can be set to any instant: the clock of the record may have been set back."""

    def set(self, instant: int) -> None:
        """Read that instant from now on, epoch ms."""
        self._set = [instant]


class ReplayRegistry(Registry):
    """A registry that finds the definitions the record found."""

    #: Hashes of the definitions that the step's lines name.
    used: Sequence[str] = ()
    #: The texts of all definitions of the record, by hash.
    known: Mapping[str, str] = {}

    def resolve(self, view: ReadingTransaction, name: str, version: int | None) -> tuple[str, Mapping[str, str]]:
        """The definition of a name that the record found; raises NotFound when it found none."""
        for hashed in self.used:
            document = parse(self.known[hashed])
            if document.get("name") == name and version in (None, document.get("version", 1)):
                return hashed, {hashed: self.known[hashed]}
        raise NotFound(f"the record found no definition {name!r}")

    def embed(self, view: ReadingTransaction, definition: object, semantics: Semantics) -> Embedding:
        """A definition made at run time, as the record embedded it; otherwise what is wrong with it."""
        wanted = definition.to_json() if isinstance(definition, WorkflowDef) else definition
        plain = super().embed(view, definition, semantics)
        if plain.digest in self.used:
            return plain
        for hashed in self.used:
            if _bare(parse(self.known[hashed])) == _bare(wanted):
                return Embedding(digest=hashed, texts={hashed: self.known[hashed]})
        return plain


@attrs.define(slots=True, kw_only=True, eq=False)
class ReplayRecord:
    """Record of the turn to come: it reads the events it is given, and is answered what it was then."""

    #: The executions of the record, as they had begun.
    recorded: Mapping[str, Workflow]
    events: Sequence[Event] = ()
    #: Lines of the turn to come that put a default deadline off.
    postponed: Sequence[HistoryEvent] = ()
    #: What limits have answered in the lines to come.
    admissions: tuple[Admission, ...] = ()
    #: Scripts that a bound ended in the lines to come.
    cut: tuple[Cut, ...] = ()

    def left(self, events: Iterable[Event]) -> Mapping[tuple[str, str], int]:
        """Return how much driven time is left of deadlines, as the lines of the record say; of others nothing."""
        left_by = {(line.status, line.ref, line.attempt): line.number or 0 for line in self.postponed}
        keys = ((event, (str(event.kind).removeprefix("TASK_").lower(), event.ref, event.attempt)) for event in events)
        return {(event.workflow_id, event.event_id): left_by[key] for event, key in keys if key in left_by}

    def begun(self, row: Workflow) -> Workflow:
        """The row, with the name of its task in the record: a parent that is resumed writes to a child again under its new one."""
        return attrs.evolve(row, parent_ref=self.recorded[row.workflow_id].parent_ref)

    def kept(self, decision: Decision) -> Decision:
        """A decision without what is emitted, of which the record has all and the journal a part; see `keep_emitted`."""
        return attrs.evolve(decision, emissions=()) if decision.emissions else decision


def _bare(document: Any) -> Any:
    """A definition without what is put into it when it is embedded."""
    if isinstance(document, dict):
        return {
            key: _bare(value)
            for key, value in document.items()
            if key not in ("taskDefinition", "version") and not key.startswith("conductorlite:")
        }
    return [_bare(value) for value in document] if isinstance(document, list) else document
