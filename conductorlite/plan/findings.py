"""What the checks share: the list they add to, the scope they look names up in, and a few questions about values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import attrs

from conductorlite.model.definitions import WorkflowDef, WorkflowTask
from conductorlite.model.errors import InvalidExpression, InvalidInput, MissingExtra, Problem, Severity
from conductorlite.plan.tree import TreePosition

__all__ = ["Findings", "Scope", "blank", "has_input", "input_value", "is_expression"]

T = TypeVar("T")


class Findings:
    """Problems in the order they were found."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def error(self, path: str, message: str) -> None:
        """Add a problem that prevents the definition from being used."""
        self.problems.append(Problem(path=path, message=message))

    def warn(self, path: str, message: str) -> None:
        """Add a problem that leaves the definition usable."""
        self.problems.append(Problem(path=path, message=message, severity=Severity.WARNING))

    def tried(self, path: str, compile_: Callable[..., T], *given: Any) -> T | None:
        """What comes of compiling something; when it cannot be, that is a problem, and None."""
        try:
            return compile_(*given)
        except (InvalidExpression, InvalidInput, MissingExtra) as error:
            self.error(path, str(error))
            return None


@attrs.frozen(kw_only=True, slots=True, eq=False)
class Scope:
    """One workflow definition under check: its tasks in document order, and by reference name (the first of equals)."""

    defn: WorkflowDef
    path: str
    nodes: tuple[TreePosition, ...]
    by_ref: Mapping[str, TreePosition]
    #: Names that the engine's environment has; None where roots may be known that the definition does not show.
    environment: Collection[str] | None = None


def blank(text: str | None) -> bool:
    """Whether a text is absent or holds nothing but white space."""
    return text is None or not text.strip()


def is_expression(value: object) -> bool:
    """Whether the value is known only at run time: text that holds a `${` which is not escaped."""
    return isinstance(value, str) and "${" in value.replace("$${", "")


def input_value(task: WorkflowTask, key: str) -> Any:
    """What the input holds under `key` as far as the definition shows: a parameter, else the embedded template's."""
    value = task.input_parameters.get(key)
    if value is None and task.task_definition is not None:
        value = task.task_definition.input_template.get(key)
    return value


def has_input(task: WorkflowTask, *keys: str) -> bool:
    """Whether any of the keys is present in the task's input, be it with null."""
    template: Mapping[str, Any] = {} if task.task_definition is None else task.task_definition.input_template
    return any(key in task.input_parameters or key in template for key in keys)
