"""From whatever holds a definition to one plain JSON value that nobody else can change."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

from conductorlite.canonical import canonical, parse
from conductorlite.errors import InvalidInput

__all__ = ["document_of"]


def document_of(source: object) -> Any:
    """The JSON value in `source` (text, bytes, a parsed value, or a path), as fresh dicts, lists and scalars.

    Raises InvalidInput for broken text, values that are no JSON and nesting deeper than canonical JSON allows; OSError
    when the file cannot be read.
    """
    if isinstance(source, PathLike):
        source = Path(source).read_bytes()
    try:
        if isinstance(source, str | bytes):
            value = parse(source)
            # Text can hold what no other edge accepts: nesting too deep, lone surrogates, 1e999. Refuse it here, by
            # the same rule.
            canonical(value)
            return value
        return json.loads(canonical(source))
    except InvalidInput:
        raise
    except ValueError as error:
        # CPython refuses to convert integers of more than 4300 digits, and json passes that on as it is.
        raise InvalidInput(f"$: {error}") from None
