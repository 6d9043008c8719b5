"""What definitions and rules read that the key of a moment leaves out by default: instants, counters, and the order of effects.

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
from typing import Any, Final, TypeVar

from conductorlite.model.executions import Task, Workflow, own_task, own_workflow
from conductorlite.store.memory.rows import Store

__all__ = ["COUNTERS_OF_TASKS", "COUNTERS_OF_WORKFLOWS", "INSTANTS_OF_TASKS", "INSTANTS_OF_WORKFLOWS", "Read", "Reader"]


class Read(StrEnum):
    """What the key of a moment holds only if something reads it; the value names it in a report."""

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
    """What was read so far, each with what reads it. `changed` says that something was read for the first time."""

    def __init__(self) -> None:
        self.found: dict[Read, str] = {}
        self.changed = False
        #: Whether a definition undoes what was done, in the order in which it ended.
        self.compensates = False
        self._scanned: set[str] = set()
        self._task = _watched(Task, INSTANTS_OF_TASKS, COUNTERS_OF_TASKS, self)
        self._workflow = _watched(Workflow, INSTANTS_OF_WORKFLOWS, COUNTERS_OF_WORKFLOWS, self)

    def watched(self, workflow: Workflow) -> Workflow:
        """The same execution with its tasks, as a rule is given it: what it reads of them is noted."""
        copy: Any = own_workflow(workflow)
        copy.tasks = tuple(self._seen(task) for task in workflow.tasks)
        copy.__class__ = self._workflow
        made: Workflow = copy
        return made

    def _seen(self, task: Task) -> Task:
        copy: Any = own_task(task)
        copy.__class__ = self._task
        made: Task = copy
        return made

    def note(self, what: Read, by: str) -> None:
        """Something reads it."""
        if what not in self.found:
            self.found[what] = by
            self.changed = True

    def scan(self, store: Store) -> None:
        """Look at definitions that executions have come to run on, and at what goes by the calendar."""
        if store.schedules:
            self.note(Read.TIMES, "a schedule")
        for digest in store.definitions.keys() - self._scanned:
            self._scanned.add(digest)
            document = json.loads(store.definitions[digest])
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
    """What one value in a definition reads, in doubt more."""
    if isinstance(value, str):
        return [what for what, members in _MEMBERS.items() if "${" in value and (members.search(value) or _WHOLE.search(value))]
    return [Read.TIMES] if isinstance(value, dict) and _reads_times(value) else []


def _reads_times(value: Mapping[str, Any]) -> bool:
    """Whether a map in a definition is something that reads the clock, or how long ago something was."""
    if value.get("until") or value.get("totalTimeoutSeconds"):
        return True
    python = "python" in str(value.get("evaluatorType", ""))
    scripts = [text for name in _SCRIPTS if isinstance(text := value.get(name), str)]
    return any(_CLOCK.search(text) or (python and _CLOCK_OF_PYTHON.search(text)) for text in scripts)


Row = TypeVar("Row", Task, Workflow)


class _Watch:
    """A field of a row whose reading is noted."""

    def __init__(self, slot: Any, name: str, what: Read, reader: Reader) -> None:
        self._slot, self._name, self._what, self._reader = slot, name, what, reader

    def __get__(self, row: Any, kind: type) -> Any:
        if row is None:
            return self
        self._reader.note(self._what, f"a rule that reads {self._name}")
        return self._slot.__get__(row, kind)

    def __set__(self, row: Any, value: object) -> None:
        self._slot.__set__(row, value)


def _watched(kind: type[Row], instants: tuple[str, ...], counters: tuple[str, ...], reader: Reader) -> type[Row]:
    body: dict[str, Any] = {"__slots__": ()}
    for what, names in ((Read.TIMES, instants), (Read.COUNTERS, counters)):
        body |= {name: _Watch(kind.__dict__[name], name, what, reader) for name in names}
    return type(kind.__name__, (kind,), body)
