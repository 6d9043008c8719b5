"""A real process is stopped, and a clock over the machine's own is set: the command that tries both finds nothing wrong."""

from __future__ import annotations

import json

import pytest

from tests.processes.clocks import main

pytestmark = pytest.mark.deep


def test_a_stopped_process_and_a_clock_that_is_set(capsys: pytest.CaptureFixture[str]) -> None:
    """A second and three; an hour back and forth, and past the instant that a WAIT waits for."""
    code = main(["--stops", "1", "3", "--steps", "-3600", "3600", "7201"])
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (code, len(told)) == (0, 5), told
