"""What a scripted worker does, one step per call: plain values, so that tests, strategies and reports can hold them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import attrs

__all__ = ["Step", "StepKind"]


class StepKind(StrEnum):
    """What becomes of one call."""

    #: COMPLETED with `output`.
    RETURNS = "RETURNS"
    #: FAILED with `reason`, or with `error` raised.
    FAILS = "FAILS"
    #: FAILED_WITH_TERMINAL_ERROR with `reason`.
    FAILS_TERMINALLY = "FAILS_TERMINALLY"
    #: Never reports, but lives: its lease is extended for as long as somebody waits for it.
    HANGS = "HANGS"
    #: Never reports and gives no sign of life: its process died.
    CRASHES = "CRASHES"
    #: IN_PROGRESS with `output`, to be offered again after `callback_ms`.
    CALLS_BACK = "CALLS_BACK"
    #: What `function` does, given the input as keyword arguments.
    DOES = "DOES"


@attrs.frozen(kw_only=True, slots=True)
class Step:
    """One call's outcome. `takes_ms` is how long the call takes in virtual time; `times` how often it is used (None:
    for ever).

    `silent` means that no sign of life is given meanwhile, so that a report after the response timeout comes too late;
    `reports` is how often the same report is made, one after the other, at the same instant.
    """

    kind: StepKind
    output: Any = None
    reason: str = ""
    error: BaseException | None = None
    function: Callable[..., Any] | None = None
    callback_ms: int = 0
    takes_ms: int = 0
    times: int | None = 1
    silent: bool = False
    reports: int = 1
