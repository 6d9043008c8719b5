"""The walk is asked for once."""

from __future__ import annotations

import pytest
from brute_force import expected_ids


@pytest.fixture(scope="session")
def year() -> dict[str, int]:
    """The executions of the virtual year, and when each is to be started."""
    return expected_ids()
