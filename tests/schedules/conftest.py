"""The spans that schedules are lived through, each walked once."""

from __future__ import annotations

from datetime import datetime

import pytest
from brute_force import SPRING, YEAR, Span, expected_ids, ms


@pytest.fixture(scope="session", params=[pytest.param(SPRING, id="spring"), pytest.param(YEAR, id="year", marks=pytest.mark.deep)])
def span(request: pytest.FixtureRequest) -> Span:
    """A month with a change in every zone; the year with both."""
    bounds: tuple[datetime, datetime] = request.param
    share = (bounds[1] - bounds[0]) / (YEAR[1] - YEAR[0])
    return Span(start=ms(bounds[0]), end=ms(bounds[1]), expected=expected_ids(*bounds), share=share)
