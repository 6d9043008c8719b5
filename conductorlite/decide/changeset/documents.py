"""The documents of a turn: payloads that are read and kept, definitions found at run time, and what scripts answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from conductorlite.decide.changeset.journal import Journal
from conductorlite.decide.changeset.reader import Barriers, PayloadField, Reader
from conductorlite.language.conditions import Condition
from conductorlite.language.values import Json, Outside
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Embedding
from conductorlite.model.errors import InvalidInput, PayloadLost
from conductorlite.model.executions import TaskLog
from conductorlite.model.later import module

if TYPE_CHECKING:
    from conductorlite.language import printing, processes
else:
    printing = module("conductorlite.language.printing")
    processes = module("conductorlite.language.processes")

__all__ = ["SMALL", "Documents", "LostInput"]

#: Characters that no hard barrier refuses, whatever they are: the least one is 1 KB.
SMALL: Final = 256


class LostInput(InvalidInput):
    """Internal: a task is being scheduled on a document that cannot be read."""


class Documents:
    """Documents that a turn reads, and those it makes. A document that cannot be read is noted in `lost`."""

    #: What scripts have printed, for the logs of their tasks.
    printed: tuple[TaskLog, ...] = ()
    #: Whether a document that cannot be read is an error at once: while a task's input is made.
    strict = False
    #: Why something this step has read cannot be read, until a task or the workflow has failed of it.
    lost: str | None = None

    def __init__(self, reader: Reader, journal: Journal, barriers: Barriers) -> None:
        self._reader = reader
        self._journal = journal
        self._barriers = barriers
        #: Large payloads that rows of this turn refer to, by their digests.
        self.texts: dict[str, Payload] = {}
        #: Definitions made at run time, by their hashes.
        self.definitions: dict[str, str] = {}

    def value(self, payload: Payload) -> Any:
        """The document of a payload, shared.

        One that cannot be read is an empty map, and is noted in `lost`; when `strict` it raises LostInput.
        """
        if payload.text is None:
            try:
                payload = self._reader.payload(payload)
            except PayloadLost as lost:
                if self.strict:
                    raise LostInput(str(lost)) from None
                self.lost = str(lost)
                return {}
        return payload.value

    def whole(self, payload: Payload) -> Payload:
        """The payload with its text. One that cannot be read stays without, and is noted in `lost`."""
        try:
            return self._reader.payload(payload)
        except PayloadLost as lost:
            self.lost = str(lost)
            return payload

    def values(self, payloads: Iterable[Payload]) -> list[Any]:
        """The documents of many payloads, read in one batch."""
        wanted = list(payloads)
        self._reader.prefetch(payloads=wanted)
        return [self.value(payload) for payload in wanted]

    def refusal(self, place: PayloadField, payload: Payload | None) -> str | None:
        """Why what was made cannot stand in its place: something it was made of cannot be read, or it is too large."""
        problem, self.lost = self.lost, None
        if problem is not None or payload is None or payload.text is None or len(payload.text) <= SMALL:
            return problem
        return self._barriers.refusal(place, payload)

    def payload(self, value: Any, *, where: str = "$") -> Payload:
        """Keep a computed or reported document; raises InvalidInput."""
        return self.keep(Payload.of(value, where=where))

    def keep(self, payload: Payload) -> Payload:
        """Note a payload that a row of this turn refers to, so that a large one is stored."""
        if payload.large and payload.text is not None:
            self.texts[payload.digest] = payload
        return payload

    def embed(self, name: str, definition: object) -> Embedding:
        """Keep a definition made at run time (a WorkflowDef, or JSON that may be one).

        `name` is the turn's own, the same for the same definition.
        """
        found = self._reader.embedding(name, definition)
        self.definitions.update(found.texts)
        if found.digest is not None:
            self._journal.use(found.digest)
        return found

    def resolve(self, name: str, version: int | None) -> str | None:
        """Hash of a registered definition as executions keep it; None when there is none."""
        digest = self._reader.definition(name, version)
        if digest is not None:
            self._journal.use(digest)
        return digest

    def answer(self, condition: Condition, values: Mapping[str, Json], seed: str) -> Json:
        """Return the answer of a condition: worked out here where its values alone decide it, else asked as `evaluated` does."""
        at_once = condition.at_once
        if at_once is not None:
            try:
                return at_once(values)
            except Outside:
                pass
        return self.evaluated(seed, values, lambda: condition.evaluate(values, now=self._journal.moment.now, seed=seed))

    def evaluated(self, seed: str, values: Mapping[str, Json], ask: Callable[[], Json]) -> Json:
        """Return the answer of a script seeded with `seed`. That a bound ended it is recorded in the journal, and is so again when
        a record is replayed, on a machine of any speed; whatever else it raises goes on.
        """
        lines: list[str] = []
        now = self._journal.moment.now
        try:
            with printing.collect_lines(lines):
                return self._reader.script(seed, values, now, ask)
        except processes.ScriptCut as error:
            self._journal.append("cut", [seed, int(isinstance(error, processes.ScriptTimedOut)), str(error)])
            raise
        finally:
            if lines:  # of a loop's condition the seed names the round, too
                task_id = seed.partition(":")[0]
                self.printed += tuple([TaskLog(task_id=task_id, at=now, text=line) for line in lines])
