"""What is compared: a case is definitions, an input, and what is done one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

#: In names of workflows and task types: stands for what makes them the case's own on a server that all cases share.
OWN: Final = "§"

#: Stands for the address of the service that both sides call.
SERVICE: Final = "¤"

Step = Mapping[str, Any]


@attrs.frozen(kw_only=True)
class Case:
    """One execution on each side, and all that is done to it.

    `name` begins with its kind. `workflows[0]` is started with `input` and `options` (of Conductor's start request); then `steps`
    are done. `handlers` are event handlers; for `patience` seconds the server is waited for at least. `parts` are the small cases
    in it: the beginning of a path in a snapshot → what it shows. `items` and `made_of` tell how to make one of fewer parts, when
    the whole fails as one.
    """

    name: str
    workflows: Sequence[Mapping[str, Any]]
    task_defs: Sequence[Mapping[str, Any]] = ()
    handlers: Sequence[Mapping[str, Any]] = ()
    patience: float = 0.0
    input: Mapping[str, Any] = attrs.field(factory=dict)
    options: Mapping[str, Any] = attrs.field(factory=dict)
    steps: Sequence[Step] = ()
    parts: Mapping[str, str] = attrs.field(factory=dict)
    items: Sequence[Any] = ()
    made_of: Callable[[str, Sequence[Any]], Case] | None = None

    @property
    def kind(self) -> str:
        return self.name.partition("/")[0]

    @property
    def weight(self) -> int:
        """How many cases it counts for."""
        return len(set(self.parts.values())) or 1

    def halves(self) -> list[Case]:
        """Two cases of half the parts each; none when it cannot be halved."""
        if self.made_of is None or len(self.items) < 2:
            return []
        middle = len(self.items) // 2
        return [
            self.made_of(f"{self.name}{side}", items) for side, items in (("a", self.items[:middle]), ("b", self.items[middle:]))
        ]


def task(ref: str, kind: str = "SIMPLE", /, name: str = "", **more: Any) -> dict[str, Any]:
    """A task; a SIMPLE one is of a type that is the case's own."""
    return {"name": name or (f"{OWN}{ref}" if kind == "SIMPLE" else ref), "taskReferenceName": ref, "type": kind, **more}


def inline(ref: str, expression: str, *, optional: bool = False, **given: Any) -> dict[str, Any]:
    parameters = {"evaluatorType": "javascript", "expression": expression, **given}
    return task(ref, "INLINE", inputParameters=parameters, optional=optional)


def workflow(*tasks: Mapping[str, Any], name: str = "flow", **more: Any) -> dict[str, Any]:
    return {
        "name": f"{OWN}{name}",
        "version": 1,
        "schemaVersion": 2,
        "ownerEmail": "a@example.org",
        "timeoutSeconds": 0,
        "tasks": list(tasks),
        **more,
    }


def batches(name: str, items: Sequence[Any], size: int, made_of: Callable[[str, Sequence[Any]], Case]) -> list[Case]:
    """Cases of up to `size` parts each."""
    return [made_of(f"{name}-{start // size + 1}", items[start : start + size]) for start in range(0, len(items), size)]
