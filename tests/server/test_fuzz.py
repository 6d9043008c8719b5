"""A few of the random requests that `fuzz.py` makes by the ten thousand."""

from __future__ import annotations

import pytest

pytest.importorskip("grpc")

from fuzz import asked


@pytest.mark.slow
def test_random_requests_leave_everything_right() -> None:
    """No 500 but Conductor's own, no UNKNOWN, nothing in the log, no law of the store broken; all statuses are met."""
    wrong = asked(300, 7, executions=5)
    assert (wrong.kinds, wrong.logged) == ({}, [])
    assert {"REST 200", "REST 400", "REST 404", "gRPC OK", "gRPC NOT_FOUND", "gRPC INVALID_ARGUMENT"} <= wrong.counts.keys()
