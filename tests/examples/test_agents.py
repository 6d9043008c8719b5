"""The examples over Pydantic AI, LangGraph and the MCP SDK, each with the library's own stand-ins: nothing leaves the machine."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import EXAMPLES, load


def test_an_agent_survives_a_kill_in_the_middle_of_a_tool_call(tmp_path: Path) -> None:
    """Nothing that was answered is asked again: only the call that died has a second attempt."""
    pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")
    command = [sys.executable, str(EXAMPLES / "pydantic_agent" / "pydantic_agent.py")]
    died = subprocess.run([*command, "--die"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "Booked: flight to Rome and hotel in Rome.\n", done.stderr
    asked, flight, hotel = "asked the model", "booked the flight", "books the hotel"
    lines = (tmp_path / "calls.txt").read_text(encoding="utf-8").splitlines()
    assert lines == [asked, flight, asked, hotel, hotel, asked]


def test_a_graph_asks_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    """Two nodes side by side, then the one that their results lead to, which is run again with the answer."""
    pytest.importorskip("langgraph", reason="the extra langgraph is not installed")
    load("langgraph_triage/langgraph_triage.py").main()
    asked, replied, nodes = capsys.readouterr().out.splitlines()
    assert asked == "{'how much?': ['customer: gold', 'order: lost']}"
    assert replied == "We refund 30."
    assert nodes == "look_up_customer_0__1 look_up_order_1__1 weigh_0__2 refund_0__3 refund_0__4"


def test_a_workflow_is_a_tool_and_calls_tools(capsys: pytest.CaptureFixture[str]) -> None:
    """Started, sent a message and asked for its result by a client; its first step is a tool of another server."""
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    asyncio.run(load("mcp_tools/mcp_tools.py").main())
    names, result = capsys.readouterr().out.splitlines()
    assert names == "order workflow_status workflow_result workflow_send"
    assert result == "{'status': 'COMPLETED', 'output': {'result': '2 x tea, paid by Ada'}, 'reason': None}"
