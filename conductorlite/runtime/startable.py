"""What an engine starts beside definitions: flows, which are made above it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar

from conductorlite.model.definitions import WorkflowDef
from conductorlite.runtime.registry import Workers

__all__ = ["Startable"]

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Startable(Protocol[P, R_co]):
    """A flow: what `Engine.start` takes besides a name or a definition."""

    @property
    def workers(self) -> Workers:
        """Those who carry out its tasks."""

    @property
    def definitions(self) -> Sequence[WorkflowDef]:
        """What is to be registered before it starts."""

    def starting(self, *args: P.args, **kwargs: P.kwargs) -> Mapping[str, Any]:
        """The arguments with which `Engine.start` starts its definition; raises BuildError for wrong ones."""

    def read(self, output: Mapping[str, Any], /) -> R_co:
        """An execution's output as what the flow returns."""
