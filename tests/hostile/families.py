"""The ten families of hostile input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attacks
from corruption_attacks import CORRUPTED
from fuzzing_attacks import FUZZED
from naming_attacks import PATHS, SQL, UNICODE

from conductorlite import Engine, Run

__all__ = ["ATTACKS", "DATABASES", "FAMILIES", "family_of"]

#: By family: what is carried out on an engine. Databases are spoilt and opened instead.
ATTACKS: Final[Mapping[str, Mapping[str, Callable[[Engine], Run]]]] = {
    "size": {**attacks.SIZE, **attacks.ODD},
    "depth": attacks.DEPTH,
    "loop counts": attacks.GROWTH,
    "scripts": attacks.SCRIPTS,
    "regular expressions": attacks.PATTERNS,
    "payload paths": {**attacks.EXPRESSIONS, **PATHS},
    "SQL in names and queries": SQL,
    "unicode in names": {**attacks.SURROGATES, **UNICODE},
    "fuzzed definitions": FUZZED,
}

#: The tenth family.
DATABASES: Final = "corrupted databases"

#: The names of all attacks by family.
FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: tuple(them) for name, them in ATTACKS.items()},
    DATABASES: tuple(CORRUPTED),
}


def family_of(name: str) -> str:
    """The family an attack belongs to."""
    return next(family for family, names in FAMILIES.items() if name in names)
