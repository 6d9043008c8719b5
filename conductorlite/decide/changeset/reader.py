"""Questions `decide` may ask of an execution while it decides: read-only, and answered from one fence.

Absent is not unknown: a reader answers None only for what is known never to have been scheduled; one that does not know raises. An
answer is never changed, and is the same however often it is asked for in one turn. What a store raises goes through `decide` as it
came: it is no answer. The same plan, answers, events and instant give the same decision.

`Barriers` say how large inputs and outputs may be: from where on they are stored in the payload storage, and from where on they
are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from conductorlite.language.values import Json
from conductorlite.model.canonical import Payload, size_of
from conductorlite.model.decisions import Decision, Embedding, Event
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import HistoryKind, Task, Workflow
from conductorlite.model.limits import Line, Member
from conductorlite.model.scalars import MAX_SIZE
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.plan.compile import Plan

if TYPE_CHECKING:
    from conductorlite.model.mailbox import WorkflowMessage

__all__ = ["Barriers", "Bounds", "PayloadField", "Reader"]

_KB: Final = 1024

#: Most bytes of UTF-8 that a character takes.
_WIDEST: Final = 4

#: One of the four places where a payload may stand, as in the names of the fields.
PayloadField = str


@attrs.frozen(kw_only=True, slots=True, repr=False)
class Barriers:
    """Conductor's payload thresholds, in KB (1,024 bytes) of JSON as UTF-8; a payload is past one when it is larger.

    Past the soft barrier (`…_payload_size_threshold`) a document is stored in the payload storage, and the execution refers to it.
    One of up to 1,024 characters always stays in its row. Past the hard barrier (`max_…`) the task fails with
    FAILED_WITH_TERMINAL_ERROR, the workflow FAILED; a start is refused. A soft barrier that is not below the hard one keeps
    everything in the store. Fields take 1 to 16,384; raises InvalidInput. Source: Conductor's `ConductorProperties`.
    """

    workflow_input_payload_size_threshold: int = 5120
    max_workflow_input_payload_size_threshold: int = 10240
    workflow_output_payload_size_threshold: int = 5120
    max_workflow_output_payload_size_threshold: int = 10240
    task_input_payload_size_threshold: int = 3072
    max_task_input_payload_size_threshold: int = 10240
    task_output_payload_size_threshold: int = 3072
    max_task_output_payload_size_threshold: int = 10240
    #: The lowest soft barrier, in bytes.
    _least: int = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        limit = MAX_SIZE // _KB
        for name in _THRESHOLDS:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= limit:
                raise InvalidInput(f"{name} is a number of KB from 1 to {limit}, not {value!r}")
        places = ("workflow_input", "workflow_output", "task_input", "task_output")
        object.__setattr__(self, "_least", min(self.soft(place) for place in places))

    def soft(self, place: PayloadField) -> int:
        """Bytes up to which a payload stays in the store; `place` is `workflow_input`, `task_output` …"""
        kilobytes: int = getattr(self, f"{place}_payload_size_threshold")
        return kilobytes * _KB

    def hard(self, place: PayloadField) -> int:
        """Bytes up to which a payload is accepted."""
        kilobytes: int = getattr(self, f"max_{place}_payload_size_threshold")
        return kilobytes * _KB

    def stated(self) -> dict[str, int]:
        """The hard barriers that are not as they are by default: all that decisions depend on."""
        stated = {name: getattr(self, name) for name in _HARD}
        return {name: kb for name, kb in stated.items() if kb != _HARD[name]}

    @classmethod
    def from_stated(cls, stated: Mapping[str, int]) -> Barriers:
        """Barriers with these hard ones; raises InvalidInput for a name that is none of them, or a size that cannot be."""
        unknown = sorted(set(stated) - set(_HARD))
        if unknown:
            raise InvalidInput(f"{unknown[0]!r} is not the name of a hard barrier")
        return cls(**stated)

    def refusal(self, place: PayloadField, payload: Payload) -> str | None:
        """Why a payload is too large for its place, with both sizes; None when it is not, or its size is not known here."""
        text = payload.text
        limit = self.hard(place)
        if text is None or len(text) * _WIDEST <= limit:
            return None
        size = size_of(text)
        if size <= limit:
            return None
        words = place.replace("_", " ")
        return f"the {words} has {size} bytes, more than the {limit} bytes ({limit // _KB} KB) that are allowed"

    def past_soft(self, decision: Decision) -> list[Payload]:
        """The payloads a decision sets that belong into the payload storage: past the soft barrier of a place they stand in."""
        heavy = {text.digest: text for text in decision.texts if text.text is not None and len(text.text) * _WIDEST > self._least}
        if not heavy:
            return []
        found: dict[str, Payload] = {}
        for place, payload in _placed(decision):
            text = heavy.get(payload.digest)
            if text is not None and size_of(text.whole()) > self.soft(place):
                found[text.digest] = text
        return list(found.values())


def _placed(decision: Decision) -> Iterator[tuple[PayloadField, Payload]]:
    """Every payload of a decision and where it stands; a line of the journal records an input or an output."""
    yield "workflow_input", decision.workflow.input
    yield "workflow_output", decision.workflow.output
    rows: tuple[Task, ...] = decision.inserted + decision.updated
    for task in rows:
        yield "task_input", task.input
        yield "task_output", task.output
    for line in decision.history:
        if line.payload is None:
            continue
        if line.kind is HistoryKind.WORKFLOW:
            yield "workflow_input" if line.status == WorkflowStatus.RUNNING else "workflow_output", line.payload
        elif line.kind in (HistoryKind.TASK, HistoryKind.REPORT):
            given = line.kind is HistoryKind.TASK and not TaskStatus(line.status).terminal
            yield "task_input" if given else "task_output", line.payload


#: The fields that are given, and the hard ones of them with their defaults.
_THRESHOLDS: Final = {field.name: field.default for field in attrs.fields(Barriers) if field.init}
_HARD: Final = {name: default for name, default in _THRESHOLDS.items() if name.startswith("max_")}


@attrs.frozen(kw_only=True, slots=True, repr=False)
class Bounds:
    """Bounds of one turn: steps of the work list and new rows, after which it is cut, and sizes of payloads.

    Others wait for the turn, so it should take some tenths of a second at most on a slow machine.
    """

    steps: int = 5_000
    rows: int = 1_000
    barriers: Barriers = attrs.field(factory=Barriers)


class Reader(Protocol):
    """Rows and documents of one execution, as they were at its fence."""

    @property
    def workflow(self) -> Workflow:
        """The row of the execution; one that has not begun has no line of history yet."""

    @property
    def at_hand(self) -> bool:
        """True if nothing is saved by asking for what an event needs beforehand."""

    def prefetch(
        self,
        *,
        refs: Iterable[str] = (),
        latest: Iterable[str] = (),
        payloads: Iterable[Payload] = (),
        live: bool = False,
        failed: bool = False,
        everything: bool = False,
        inbox: bool = False,
        limits: Iterable[str] = (),
        members: Iterable[tuple[str, str]] = (),
        left: Iterable[Event] = (),
    ) -> None:
        """Have at hand, in one batch, what will be asked for by these names. Answers nothing: a reader may do nothing."""

    def task(self, ref: str) -> Task | None:
        """The last attempt at a printed reference; None when it was never scheduled."""

    def tasks(self, refs: Sequence[str]) -> Sequence[Task | None]:
        """Return the tasks of many references, in their order; None for one that was never scheduled."""

    def latest(self, base_ref: str) -> Task | None:
        """The row of a definition reference that was scheduled last, of any round; None when none was."""

    def ref_of(self, task_id: str) -> str | None:
        """The printed reference under which an attempt is now; None when it is no more."""

    def live(self) -> Sequence[Task]:
        """Every live last attempt."""

    def failed(self) -> Sequence[Task]:
        """Every last attempt that ended in failure."""

    def everything(self) -> Sequence[Task]:
        """Every last attempt."""

    def payload(self, payload: Payload) -> Payload:
        """The payload with its text; raises PayloadLost when that cannot be read any more."""

    def inbox(self) -> Sequence[Event]:
        """Every event in the inbox, held and future ones too, in inbox order."""

    def message(self, topic: str, key: str) -> WorkflowMessage | None:
        """The message of a topic with that key, or None."""

    def unreceived(self, topic: str, limit: int) -> Sequence[WorkflowMessage]:
        """The first messages of a topic that no task has received, in order."""

    def messages(self) -> Sequence[WorkflowMessage]:
        """Every message to the execution, in order."""

    def left(self, event: Event) -> int:
        """Return how much driven time is left of a default timeout that is due, ms; 0 for one that counts by the clock."""

    def limit(self, key: str, heads: int) -> Line:
        """A limit with at least so many heads of each lane of its wait queue, if there are as many."""

    def member(self, key: str, holder: str) -> Member | None:
        """A member of a limit, or None."""

    def polls(self, task_type: str) -> Mapping[str, int]:
        """The instant of the last poll for a task type in each domain that was ever polled, epoch ms."""

    def definition(self, name: str, version: int | None) -> str | None:
        """Hash of a registered definition (version None: the highest) as executions keep it; None when none can be started."""

    def embedding(self, name: str, definition: object) -> Embedding:
        """Return the embedding of a definition made in this turn (WorkflowDef or JSON), by a name of the turn's own."""

    def plan(self, definition_hash: str, grafts: tuple[str, ...] = ()) -> Plan:
        """The compiled plan of an embedded definition, with the definitions of these hashes, made at run time, grown into it."""

    def script(self, seed: str, values: Mapping[str, Json], now: int, ask: Callable[[], Json]) -> Json:
        """Return what a script, known in this turn by its seed, answers to values at an instant (epoch ms); `ask` runs it.

        Raises what `ask` raises, ExpressionFailed above all: that is an answer too.
        """
