"""An execution as it was at an earlier moment, and how two of them differ.

A moment is reached by living the execution again up to it: what is there is the execution's own rows, not a reading of its journal.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from conductorlite.model.canonical import parse
from conductorlite.model.definitions import WorkflowDef
from conductorlite.model.errors import InvalidInput, ReplayDiverged
from conductorlite.model.executions import HistoryEvent, Workflow
from conductorlite.model.texts import Instant, Span, to_instant_since
from conductorlite.plan.difference import diff as definitions_differ
from conductorlite.runtime.engine import Run
from conductorlite.testing.reenacting import export_from_json
from conductorlite.testing.replaying import replay

__all__ = ["History", "diff"]


class History:
    """The whole history of an execution and of those below it: of a run, or of what `Engine.admin.export` returned.

    `environment` is what its engine had, as for `replay`. Raises InvalidInput for what is no export.
    """

    def __init__(
        self, source: Run[Any] | dict[str, Any] | str | bytes | Path, *, environment: Mapping[str, str] | None = None
    ) -> None:
        if isinstance(source, Run):
            source = source._engine.admin.export(source.workflow_id)
        if isinstance(source, Path):
            source = source.read_bytes()
        self.document: dict[str, Any] = parse(source) if isinstance(source, str | bytes) else source
        exported = export_from_json(self.document)
        self.workflow_id = exported.workflow_id
        self.lines: Sequence[HistoryEvent] = exported.histories[exported.workflow_id]
        self._environment = environment

    def save(self, path: str | Path) -> None:
        """Write it as a file that `History` and `pytest --conductorlite-replay` read."""
        Path(path).write_text(json.dumps(self.document, indent=1), encoding="utf-8")

    def at(self, when: Instant | Span) -> Workflow:
        """The execution as it was at an instant, or so long after its start ("90s").

        An instant is epoch ms, a datetime with a time zone or ISO text with an offset.

        Raises InvalidInput for an instant before the start.
        """
        instant = to_instant_since(when, self.lines[0].at)
        count = sum(line.at <= instant for line in self.lines)
        if not count:
            raise InvalidInput(f"{self.workflow_id} had not begun at {instant}")
        return self._after(count)

    def before(self, event: int | str) -> Workflow:
        """The execution as it was before the turn of a line: its number, or "charge FAILED", "charge#2 FAILED", "workflow FAILED".

        A text means the first such line. Raises InvalidInput when there is none, and for the first turn.
        """
        return self._after(self._number(event) - 1)

    def after(self, event: int | str) -> Workflow:
        """The execution as it was after the turn of a line; see `before`."""
        number = self._number(event)
        for count in range(number, len(self.lines) + 1):
            found = self._replayed(count)
            if found is not None:
                return found
        raise InvalidInput(f"{self.workflow_id} cannot be lived again up to line {number}")

    def _after(self, count: int) -> Workflow:
        """The execution after its first so many lines, less those of a turn that is not whole."""
        for fewer in range(count, 0, -1):
            found = self._replayed(fewer)
            if found is not None:
                return found
        raise InvalidInput(f"there is nothing of {self.workflow_id} before that")

    def _replayed(self, count: int) -> Workflow | None:
        """The execution after so many lines; None in the middle of a turn.

        Others of the family may have done something at the same instant before it, or only after it.
        """
        instant = self.lines[count - 1].at
        for last in (instant, instant - 1):
            document = copy.deepcopy(self.document)
            for one in document["executions"]:
                mine = one["workflowId"] == self.workflow_id
                one["history"] = one["history"][:count] if mine else [line for line in one["history"] if line["at"] <= last]
            document["executions"] = [one for one in document["executions"] if one["history"]]
            try:
                again = replay(document, environment=self._environment)
            except ReplayDiverged:
                continue
            with again.engine as engine:
                return engine.get(self.workflow_id)
        return None

    def _number(self, event: int | str) -> int:
        if isinstance(event, int):
            if 1 <= event <= len(self.lines):
                return event
            raise InvalidInput(f"{self.workflow_id} has lines 1 to {len(self.lines)}, not {event}")
        for number, line in enumerate(self.lines, 1):
            what = line.ref or "workflow"
            if event in (f"{what} {line.status}", f"{what}#{(line.attempt or 0) + 1} {line.status}"):
                return number
        raise InvalidInput(
            f"{self.workflow_id} has no line {event!r}; they are like {self.lines[-1].ref or 'workflow'} {self.lines[-1].status}"
        )


def diff(one: Workflow | WorkflowDef, other: Workflow | WorkflowDef) -> str:
    """Compare two executions, moments or definitions, with a line for each difference; empty if there is none.

    Of executions: status, variables, output, reason, and of each reference the number of attempts, and the status, input, output
    and reason of the last one. Raises InvalidInput for an execution beside a definition.
    """
    if isinstance(one, WorkflowDef) and isinstance(other, WorkflowDef):
        return str(definitions_differ(one, other))
    if isinstance(one, Workflow) and isinstance(other, Workflow):
        return "\n".join(_differences(one, other))
    raise InvalidInput("two executions can be compared, or two definitions")


def _differences(one: Workflow, other: Workflow) -> Iterator[str]:
    for name in ("status", "variables", "output", "reason"):
        yield from _change("workflow", name, getattr(one, name), getattr(other, name))
    before, after = ({task.ref: task for task in row.tasks} for row in (one, other))
    for ref in dict.fromkeys([*before, *after]):
        old, new = before.get(ref), after.get(ref)
        if old is None or new is None:
            shown = new or old
            yield f"{'+' if old is None else '-'} {ref}: {shown.status if shown else ''}"
            continue
        yield from _change(ref, "attempts", old.attempt + 1, new.attempt + 1)
        for name in ("status", "input", "output", "reason"):
            yield from _change(ref, name, getattr(old, name), getattr(new, name))


def _change(what: str, name: str, old: Any, new: Any) -> Iterator[str]:
    old, new = (getattr(value, "shown", value) for value in (old, new))
    if old != new:
        yield f"  {what} {name}: {old} → {new}"
