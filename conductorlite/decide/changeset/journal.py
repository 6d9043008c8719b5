"""The lines that a turn adds to the journal of its execution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from conductorlite.decide.changeset.moment import Moment
from conductorlite.model.canonical import Payload, parse
from conductorlite.model.executions import HistoryEvent, HistoryKind
from conductorlite.model.scalars import encoded

__all__ = ["Journal"]


class Journal:
    """The lines of one turn. A line records what led to it, its cause, so that the turn can be taken again."""

    def __init__(self, moment: Moment, number: int) -> None:
        self.moment = moment
        self.lines: list[HistoryEvent] = []
        #: The number of the last line, of this turn or of an earlier one.
        self.number = number
        #: What led to the lines to come, as canonical JSON, until the first of them records it; and what else that line records.
        self.cause: str | None = None
        self.noted: dict[str, Any] = {}

    def add(
        self,
        kind: HistoryKind,
        status: str,
        *,
        ref: str | None = None,
        attempt: int | None = None,
        number: int | None = None,
        reason: str | None = None,
        payload: Payload | None = None,
    ) -> None:
        """Add a line."""
        cause, moment = self.cause, self.moment
        if moment.clock != moment.now and (cause is not None or not self.lines):
            self.noted["clock"] = moment.clock
        if self.noted:
            cause = encoded({**({} if cause is None else parse(cause)), **self.noted})
            self.noted = {}
        self.cause = None
        self.number = n = self.number + 1
        self.lines.append(
            HistoryEvent(
                n=n,
                at=moment.now,
                kind=kind,
                status=status,
                ref=ref,
                attempt=attempt,
                number=number,
                reason=reason,
                payload=payload,
                cause=cause,
            )
        )

    def begin(self, cause: str | None) -> None:
        """Begin with an event: the next line records its cause. Of an event that led to no line only what was used is recorded."""
        self.cause = cause
        if self.noted:
            self.noted = {name: what for name, what in self.noted.items() if name == "used"}

    def append(self, name: str, what: object) -> None:
        """Record more under a name of a cause: in the last line of this turn, or in the next one."""
        entries = [*self._so_far(name), what]
        if not self.lines:
            self.noted[name] = entries
            return
        last = self.lines[-1]
        self.lines[-1] = attrs.evolve(last, cause=encoded({**parse(last.cause or "{}"), name: entries}))

    def use(self, digest: str) -> None:
        """Record that a definition was found at run time."""
        if digest not in self._so_far("used"):
            self.append("used", digest)

    def _so_far(self, name: str) -> Sequence[Any]:
        """Return what the last line of this turn, or the next one if there is none yet, records under a name of its cause."""
        cause = self.noted if not self.lines else parse(self.lines[-1].cause or "{}")
        found: Sequence[Any] = cause.get(name, ())
        return found
