"""What `decide` may ask of an execution while it decides: read-only, and answered from one fence.

Absent is not unknown: a reader answers None only for what is known never to have been scheduled; one that does not know raises. An
answer is never changed, and is the same however often it is asked for in one turn. What a store raises goes through `decide` as it
came: it is no answer. The same plan, answers, events and instant give the same decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from conductorlite.language.values import Json
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Embedding, Event
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.limits import Line, Member
from conductorlite.plan.compile import Plan

__all__ = ["Reader"]


class Reader(Protocol):
    """Rows and documents of one execution, as they were at its fence."""

    @property
    def workflow(self) -> Workflow:
        """The row of the execution; one that has not begun has no line of history yet."""

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
        """The same for many references, in their order."""

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

    def left(self, event: Event) -> int:
        """How much driven time is left of a default timeout that is due, ms; 0 for what counts by the clock."""

    def limit(self, key: str, heads: int) -> Line:
        """A limit with at least so many heads of each lane of its wait queue, if there are as many."""

    def member(self, key: str, holder: str) -> Member | None:
        """A member of a limit, or None."""

    def polls(self, task_type: str) -> Mapping[str, int]:
        """The instant of the last poll for a task type in each domain that was ever polled, epoch ms."""

    def definition(self, name: str, version: int | None) -> str | None:
        """Hash of a registered definition (version None: the highest) as executions keep it; None when none can be started."""

    def embedding(self, name: str, definition: object) -> Embedding:
        """What becomes of a definition made in this turn (a WorkflowDef, or JSON that may be one), by a name of the turn's own."""

    def plan(self, definition_hash: str, grafts: tuple[str, ...] = ()) -> Plan:
        """The compiled plan of an embedded definition, with the definitions of these hashes, made at run time, grown into it."""

    def script(self, seed: str, values: Mapping[str, Json], now: int, ask: Callable[[], Json]) -> Json:
        """What a script answers, known in this turn by its seed, to values at an instant (epoch ms); `ask` has it carried out.

        Raises what `ask` raises, ExpressionFailed above all: that is an answer too.
        """
