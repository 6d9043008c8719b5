"""`[?(…)]`, the part of JSONPath that python-jsonpath does for us: the only door to that library.

The library follows RFC 9535; what Jayway does otherwise is settled here: functions that run regular expressions of the
data are taken away, `=~` runs behind the gate of `regexes`, and `$` inside a filter is the whole document.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import attrs

from conductorlite.errors import ExpressionFailed, InvalidExpression
from conductorlite.expressions.regexes import bounded_pattern
from conductorlite.expressions.sources import Json

__all__ = ["Filter", "compile_filter"]

#: Deepest nesting of parentheses and brackets in one filter.
_MAX_NESTING: Final = 16
_MAX_LENGTH: Final = 1000
#: How deep a `..` inside a filter goes; documents are kept to 200 levels.
_MAX_DEPTH: Final = 250

_FUNCTIONS: Final = ("length", "count", "value", "startswith", "keys")
_TOKEN: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|(?<=~) ?/(?:[^/\\]|\\.)*/|[$()\[\]]", re.DOTALL)


@attrs.frozen(kw_only=True)
class Filter:
    """A compiled filter; `reads_document` says that it uses `$`, so needs the whole document and not only the items."""

    text: str
    reads_document: bool
    _query: Any = attrs.field(repr=False, eq=False)

    def select(self, items: list[Json], document: Callable[[], Json]) -> list[Json]:
        """The items that pass, in order; raises ExpressionFailed when the library gives up (depth, text too long)."""
        holder = {"c": items, "d": document() if self.reads_document else None}
        try:
            found: list[Json] = self._query.findall(holder)
        except (_library_error(), RecursionError, TypeError, ValueError) as error:
            raise ExpressionFailed(f"filter {self.text}: {error}") from None
        return found


@lru_cache(maxsize=512)
def compile_filter(text: str) -> Filter:
    """Compile the text between `[?(` and `)]`; raises InvalidExpression when it is not a filter."""
    if len(text) > _MAX_LENGTH:
        raise InvalidExpression(f"filter longer than {_MAX_LENGTH} characters")
    pieces: list[str] = []
    depth = position = 0
    reads_document = False
    for token in _TOKEN.finditer(text):
        pieces.append(text[position : token.start()])
        position = token.end()
        part = token.group()
        if part in "([":
            depth += 1
            if depth > _MAX_NESTING:
                raise InvalidExpression(f"filter nested deeper than {_MAX_NESTING} levels")
        elif part in ")]":
            depth -= 1
        elif part == "$":
            reads_document = True
            part = "$['d']"
        pieces.append(part)
    pieces.append(text[position:])
    try:
        query = _environment().compile(f"$['c'][?({''.join(pieces)})]")
    except (_library_error(), RecursionError, TypeError, ValueError, LookupError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InvalidExpression(f"filter ?({text}): {reason}") from None
    return Filter(text=text, reads_document=reads_document, query=query)


def _library_error() -> type[Exception]:
    from jsonpath import JSONPathError

    return JSONPathError


@lru_cache(maxsize=1)
def _environment() -> Any:
    # Imported on first use: the library costs more to import than all of the logic, and few definitions filter.
    from jsonpath import JSONPathEnvironment
    from jsonpath.parse import Parser

    class GatedParser(Parser):
        def parse_regex(self, stream: Any) -> Any:
            literal: Any = super().parse_regex(stream)
            pattern = literal.value
            literal.value = bounded_pattern(pattern.pattern, pattern.flags & ~re.UNICODE)
            return literal

    class JaywayEnvironment(JSONPathEnvironment):
        parser_class = GatedParser
        max_recursion_depth = _MAX_DEPTH

        def setup_function_extensions(self) -> None:
            super().setup_function_extensions()
            self.function_extensions = {name: function for name, function in self.function_extensions.items() if name in _FUNCTIONS}

    return JaywayEnvironment()
