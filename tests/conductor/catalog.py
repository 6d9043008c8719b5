"""All cases there are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import compositions
import idioms
import languages
import operators
import parents
import paths
import system_tasks
import timing
import tree
import verbs
from cases import Case


def cases(drawn: int, seed: int, checkout: Path | None) -> Sequence[Case]:
    """Every case, with so many random compositions, and the definitions of a checkout of Conductor."""
    found = [*paths.cases(), *languages.cases(), *operators.cases(), *verbs.cases(), *parents.cases()]
    found += [*timing.cases(), *system_tasks.cases(), *compositions.cases(drawn, seed)]
    found += idioms.cases(drawn, seed)
    return [*found, *(tree.cases(checkout) if checkout else ())]
