"""A debounced start: calls with one key become one execution, which begins when none has come for a while."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from conductorlite.model.definitions import DEBOUNCED, MAX_KEY
from conductorlite.model.errors import InvalidInput
from conductorlite.model.texts import Span, did_you_mean, printable, to_span

__all__ = ["Debounce"]

#: Names in JSON, and their fields.
_NAMES = {"quiet": "quiet", "key": "key", "maxWait": "max_wait"}


def _span_or_none(value: Span | None) -> int | None:
    return None if value is None else to_span(value)


@attrs.frozen(slots=True)
class Debounce:
    """An option of `Engine.start`: `debounce=Debounce("30s", key="form-7", max_wait="5m")`.

    The execution begins `quiet` after the last call with the `key` (1 to 255 characters, one of the workflow's name), and at the
    latest `max_wait` after the first one (None: however long calls go on). Raises InvalidInput.
    """

    #: Milliseconds once made; a text such as "30s" or a timedelta when given.
    quiet: int = attrs.field(converter=to_span)
    key: str = attrs.field(kw_only=True)
    max_wait: int | None = attrs.field(default=None, kw_only=True, converter=_span_or_none)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.key, str) or not 0 < len(self.key) <= MAX_KEY:
            raise InvalidInput(f"debounce: key is a text of 1 to {MAX_KEY} characters, not {printable(self.key, 80)!r}")
        if self.quiet == 0:
            raise InvalidInput("debounce: quiet is 0; say how long no call may come before the execution begins, such as '30s'")
        if self.max_wait is not None and self.max_wait < self.quiet:
            raise InvalidInput(f"debounce: max_wait ({self.max_wait} ms) is shorter than quiet ({self.quiet} ms)")

    @property
    def stored_key(self) -> str:
        """The key as executions and stores keep it, among the idempotency keys, none of which begins as it does."""
        return DEBOUNCED + self.key

    @classmethod
    def from_json(cls, document: object) -> Debounce:
        """The value of `{"quiet": "30s", "key": "form-7", "maxWait": "5m"}`; raises InvalidInput."""
        if not isinstance(document, Mapping):
            raise InvalidInput(f"debounce: {printable(document, 80)!r} is no map with `quiet` and `key`")
        for name in document:
            if name not in _NAMES:
                raise InvalidInput(f"debounce: {printable(name, 80)!r} is not known{did_you_mean(str(name), _NAMES)}")
        for name in ("quiet", "key"):
            if name not in document:
                raise InvalidInput(f"debounce: {name} is missing")
        fields: dict[str, Any] = {_NAMES[name]: value for name, value in document.items()}
        return cls(fields.pop("quiet"), **fields)

    def to_json(self) -> dict[str, Any]:
        """Return the document that `from_json` reads, with milliseconds as text."""
        most = {} if self.max_wait is None else {"maxWait": f"{self.max_wait}ms"}
        return {"quiet": f"{self.quiet}ms", "key": self.key, **most}
