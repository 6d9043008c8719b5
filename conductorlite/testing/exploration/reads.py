"""Values that definitions and rules read and a moment's key leaves out by default: instants, counters, order of effects.

Two moments of a search are merged when they have the same future. The key of a moment holds everything a decision can read,
except values that differ between nearly all moments and that few definitions and rules look at: when something happened, how many
leases and commits there were, and in which order effects happened. A `Reader` records that one of these was read: by a
definition, from its text, as soon as an execution runs on it; by a rule, when it reads the field. From then on the key holds it
as well, and the search starts again, because moments merged before may differ. Until a value is read, it cannot have changed what
happened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import attrs

from conductorlite.model.executions import Task, Workflow
from conductorlite.store.memory.rows import Store

__all__ = ["COUNTERS_OF_TASKS", "COUNTERS_OF_WORKFLOWS", "INSTANTS_OF_TASKS", "INSTANTS_OF_WORKFLOWS", "Read", "Reader"]


class Read(StrEnum):
    """Value that the key of a moment holds only if something reads it; the member's text names it in a report."""

    TIMES = "when something happened"
    COUNTERS = "the numbers of leases, polls and commits"
    ORDER = "the order in which effects happened"
    #: The engine itself, through which everything can be read.
    ENGINE = "the engine"


INSTANTS_OF_TASKS: Final = (
    *("scheduled_at", "first_scheduled_at", "due_at", "started_at", "updated_at", "ended_at"),
    *("poll_timeout_at", "response_timeout_at", "timeout_at", "total_timeout_at", "wait_until"),
)
INSTANTS_OF_WORKFLOWS: Final = ("created_at", "started_at", "updated_at", "ended_at", "last_retried_at", "timeout_at")
COUNTERS_OF_TASKS: Final = ("lease", "poll_count")
COUNTERS_OF_WORKFLOWS: Final = ("fence", "sequence", "history_seq")

#: Members of a task by which an expression reads an instant or a counter, by what they read.
_MEMBERS: Final = {Read.TIMES: re.compile("scheduledTime|startTime|endTime"), Read.COUNTERS: re.compile("pollCount")}

#: An expression that does not begin with a root and the name of a member, or reads what is not below them.
_WHOLE: Final = re.compile(r"\$\{(?!\s*CPEWF_)(?!\s*[\w-]+\.[A-Za-z])|\$\{[^}]*\$")

#: Where scripts stand, and without what none of them can read the clock.
_SCRIPTS: Final = frozenset({"expression", "scriptExpression", "queryExpression", "loopCondition", "caseExpression"})
_CLOCK: Final = re.compile(r"Date|globalThis|\bthis\b|\\[ux]|\bnow\b|\$\{")
_CLOCK_OF_PYTHON: Final = re.compile("date|time|import")


class Reader:
    """Record of what was read so far, each with what reads it. `changed` says that something was read for the first time."""

    def __init__(self) -> None:
        self.found: dict[Read, str] = {}
        self.changed = False
        #: Whether a definition undoes what was done, in the order in which it ended.
        self.compensates = False
        self._scanned: set[str] = set()
        self._task, self._workflow = _watched_task(self), _watched_workflow(self)

    def watched(self, workflow: Workflow) -> Workflow:
        """Return the same execution with its tasks, as a rule is given it: what it reads of them is noted."""
        tasks = tuple(self._task(**_fields(task)) for task in workflow.tasks)
        return self._workflow(**{**_fields(workflow), "tasks": tasks})

    def note(self, what: Read, by: str) -> None:
        """Something reads it."""
        if what not in self.found:
            self.found[what] = by
            self.changed = True

    def scan(self, store: Store) -> None:
        """Look at definitions that executions have come to run on, and at what goes by the calendar."""
        if store.beside.schedules:
            self.note(Read.TIMES, "a schedule")
        for digest in store.metadata.definitions.keys() - self._scanned:
            self._scanned.add(digest)
            document = json.loads(store.metadata.definitions[digest])
            name = f"the definition {document.get('name')!r}"
            waiting: list[Any] = [document]
            while waiting:
                value = waiting.pop()
                waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
                for what in _reads(value):
                    self.note(what, name)
                if isinstance(value, dict) and value.get("compensate") is not None and not self.compensates:
                    self.compensates = self.changed = True


def _reads(value: object) -> list[Read]:
    """Return what one value in a definition reads, in doubt more."""
    if isinstance(value, str):
        return [what for what, members in _MEMBERS.items() if "${" in value and (members.search(value) or _WHOLE.search(value))]
    return [Read.TIMES] if isinstance(value, dict) and _reads_times(value) else []


def _reads_times(value: Mapping[str, Any]) -> bool:
    """Return True if a map in a definition is something that reads the clock, or how long ago something was."""
    if value.get("until") or value.get("totalTimeoutSeconds"):
        return True
    python = "python" in str(value.get("evaluatorType", ""))
    scripts = [text for name in _SCRIPTS if isinstance(text := value.get(name), str)]
    return any(_CLOCK.search(text) or (python and _CLOCK_OF_PYTHON.search(text)) for text in scripts)


_FIELDS_OF_TASKS: Final = {
    **dict.fromkeys(INSTANTS_OF_TASKS, Read.TIMES),
    **dict.fromkeys(COUNTERS_OF_TASKS, Read.COUNTERS),
}
_FIELDS_OF_WORKFLOWS: Final = {
    **dict.fromkeys(INSTANTS_OF_WORKFLOWS, Read.TIMES),
    **dict.fromkeys(COUNTERS_OF_WORKFLOWS, Read.COUNTERS),
}


def _fields(row: Task | Workflow) -> dict[str, Any]:
    return {one.name: getattr(row, one.name) for one in attrs.fields(Task if isinstance(row, Task) else Workflow)}


def _watched_task(reader: Reader) -> type[Task]:
    class WatchedTask(Task):
        """An attempt of which it is noted what is read."""

        __slots__ = ()

        def __getattribute__(self, name: str) -> Any:
            if name in _FIELDS_OF_TASKS:
                reader.note(_FIELDS_OF_TASKS[name], f"a rule that reads {name}")
            return super().__getattribute__(name)

    return WatchedTask


def _watched_workflow(reader: Reader) -> type[Workflow]:
    class WatchedWorkflow(Workflow):
        """An execution of which it is noted what is read."""

        __slots__ = ()

        def __getattribute__(self, name: str) -> Any:
            if name in _FIELDS_OF_WORKFLOWS:
                reader.note(_FIELDS_OF_WORKFLOWS[name], f"a rule that reads {name}")
            return super().__getattribute__(name)

    return WatchedWorkflow
