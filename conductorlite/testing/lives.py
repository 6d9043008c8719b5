"""What every run of a scenario is made of, whatever disturbs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from conductorlite.driver import Engine
from conductorlite.testing.scripted import ScriptedWorkers
from conductorlite.testing.stores import StoreKind

__all__ = ["Life"]


@attrs.define(slots=True, eq=False)
class Life:
    """One run of a scenario on a fresh store: what its workers are told, the store, and the options of its engines."""

    _scenario: Callable[[Engine], object]
    _script: Callable[[ScriptedWorkers], object] | None
    _kind: StoreKind
    _options: Mapping[str, Any]

    def _workers(self) -> ScriptedWorkers:
        """The workers, told what to do."""
        workers = ScriptedWorkers()
        if self._script is not None:
            self._script(workers)
        return workers
