"""What an expression reads from: the Source protocol, and a Source over one JSON document."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias

import attrs

__all__ = ["MISSING", "TASK_MEMBERS", "WORKFLOW_MEMBERS", "Json", "MappingSource", "Missing", "Source"]

#: A JSON value: dict, list, str, int, float, bool or None.
Json: TypeAlias = Any


#: What `${workflow.…}` and `${<task>.…}` can name, beside `workflow.env` and `workflow.secrets`.
WORKFLOW_MEMBERS: Final = (
    "input",
    "output",
    "status",
    "workflowId",
    "parentWorkflowId",
    "parentWorkflowTaskId",
    "workflowType",
    "version",
    "correlationId",
    "reasonForIncompletion",
    "schemaVersion",
    "variables",
)

TASK_MEMBERS: Final = (
    "input",
    "output",
    "taskType",
    "status",
    "referenceTaskName",
    "retryCount",
    "correlationId",
    "pollCount",
    "taskDefName",
    "scheduledTime",
    "startTime",
    "endTime",
    "workflowInstanceId",
    "taskId",
    "reasonForIncompletion",
    "callbackAfterSeconds",
    "workerId",
    "iteration",
)


class Missing(Enum):
    """The type of MISSING, which says "there is no such thing" where None would say "it is null"."""

    MISSING = "MISSING"


MISSING: Final = Missing.MISSING


class Source(Protocol):
    """The document an expression is resolved on, handed out in the smallest pieces that suffice.

    A *root* is a first-level name (`workflow` or a task reference), a *member* a name below it (`input`, `output`,
    `status` …). What is returned is shared: the resolver never changes it, and may put it into its result as it is.
    """

    @property
    def has_env(self) -> bool:
        """Whether `${workflow.env.NAME}` has a provider; without one it is null."""
        ...

    def member(self, root: str, member: str) -> Json | Missing:
        """One member of one root; MISSING when the root or the member does not exist."""
        ...

    def root(self, root: str) -> Json | Missing:
        """The whole document of one root; MISSING when it does not exist."""
        ...

    def document(self) -> Json:
        """The whole document, every root of it: asked for only by paths that scan or filter across roots."""
        ...

    def variable(self, name: str) -> str | None:
        """A system parameter (`CPEWF_TASK_ID` …) or another name the engine was explicitly given; None if unknown.

        It is asked for every expression and wins over the document, as in Conductor.
        """
        ...

    def env(self, name: str) -> str | None:
        """The text behind `${workflow.env.NAME}`, None if unset; asked only when `has_env`."""
        ...


@attrs.frozen(kw_only=True)
class MappingSource:
    """A Source over one plain JSON document (usually a map of roots; a list works too, with `${$[0]…}`)."""

    whole: Json
    variables: Mapping[str, str] = attrs.field(factory=dict)
    environment: Mapping[str, str] | None = None

    @property
    def has_env(self) -> bool:
        """Whether an environment was given, be it empty."""
        return self.environment is not None

    def member(self, root: str, member: str) -> Json | Missing:
        """One member of one root."""
        outer = self.root(root)
        return outer.get(member, MISSING) if isinstance(outer, dict) else MISSING

    def root(self, root: str) -> Json | Missing:
        """The value of one first-level name."""
        return self.whole.get(root, MISSING) if isinstance(self.whole, dict) else MISSING

    def document(self) -> Json:
        """The document itself."""
        return self.whole

    def variable(self, name: str) -> str | None:
        """A variable by exact name."""
        return self.variables.get(name)

    def env(self, name: str) -> str | None:
        """An environment value by exact name."""
        return None if self.environment is None else self.environment.get(name)
