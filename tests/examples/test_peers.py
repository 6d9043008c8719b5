"""The twelve programs of other tools' documentation: each gives what Python gives, and continues where a process was killed."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import tokenize
from pathlib import Path
from types import FrameType
from typing import Any, Self

import attrs
import pytest
from scripts import EXAMPLES, load

from conductorlite import Engine, VirtualClock
from conductorlite.flows import Flow
from conductorlite.flows.tasks import TaskFunction

PEERS = load("peers/peers.py")
TASKS = {name for name, value in vars(PEERS).items() if isinstance(value, TaskFunction)}


@attrs.frozen(kw_only=True)
class Program:
    """One of them: its input, what is answered from outside when it waits, what it gives, and the lines that it has there."""

    given: dict[str, Any]
    gives: Any
    answer: tuple[str, Any] | None = None
    lines: int


#: The lines of a program there are those of its workflow, counted in the documentation of each tool: logical lines with decorators
#: and lines of a class, without docstrings and steps; where only a part was counted, those of the part.
PROGRAMS: dict[str, Program] = {
    "checkout": Program(given={"order": "7", "widget": "tea"}, answer=("payment", True), gives="7 is dispatched", lines=14),
    "index": Program(given={"urls": ["a", "bb"]}, gives=21, lines=10),
    "remind": Program(given={"to": "Ada", "days": 3}, gives=["Ada: You will be reminded.", "Ada: This is your reminder."], lines=5),
    "transfer": Program(given={"source": "Ada", "target": "closed", "amount": 5}, gives="R-Ada-5: no such account", lines=19),
    "trip": Program(given={"to": "Atlantis"}, gives=["hotel to Atlantis canceled", "car to Atlantis canceled"], lines=15),
    "subscription": Program(given={"customer": "Ada", "amount": 10, "months": 14}, gives=130, lines=20),
    "statistics": Program(given={"repos": ["a/b", "x"]}, gives=["a/b: 30 stars", "x: 10 stars"], lines=4),
    "paging": Program(given={"count": 4}, gives=2, lines=7),
    "joke": Program(given={"topic": "cats"}, gives="a joke about cats, but shorter", lines=9),
    "chain": Program(given={"topic": "cats"}, gives="a joke about cats!!", lines=7),
    "essay": Program(
        given={"topic": "cats"}, answer=("", True), gives={"essay": "An essay about cats!", "approved": True}, lines=5
    ),
    "onboarding": Program(
        given={"email": "ada"}, answer=("first_post", "Cats"), gives=["ada: Welcome!", "ada: Thank you for Cats."], lines=16
    ),
}


#: Those that are tried in the fast run.
FAST = ("trip", "joke", "onboarding")


def go_on(engine: Engine, flow: Flow[..., Any], program: Program) -> Any:
    """Start a program, or continue it, and answer it once; gives what it returns."""
    once = flow.options(idempotency_key="one", idempotency_strategy="RETURN_EXISTING")
    run = engine.start(once, **program.given)
    engine.settle()
    if program.answer is not None and not run.status.terminal:
        topic, value = program.answer
        waiting = [task for task in run.tasks if task.task_type == "HUMAN" and not task.status.terminal]
        if topic:
            run.send(topic, value, key="one")
        elif waiting:
            run.signal({"result": value})
    engine.run_until_idle()
    return run.result()


class Calls:
    """Counts the calls of the programs' tasks in all threads, and kills the process at one of them."""

    def __init__(self, deadly: int = 0) -> None:
        self.names: list[str] = []
        self._deadly = deadly

    def __enter__(self) -> Self:
        threading.setprofile(self._called)
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename == PEERS.__file__ and frame.f_code.co_name in TASKS:
            self.names.append(f"{frame.f_code.co_name} {sorted(map(repr, frame.f_locals.values()))}")
            if len(self.names) == self._deadly:
                os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(sys.platform == "win32", reason="fork, SIGKILL")
@pytest.mark.parametrize("name", [one if one in FAST else pytest.param(one, marks=pytest.mark.slow) for one in PROGRAMS])
def test_a_program(name: str, tmp_path: Path) -> None:
    """It gives what is written beside it; killed in the middle it continues, and calls nothing again but what was running."""
    flow, program = getattr(PEERS, name), PROGRAMS[name]
    with Calls() as all_calls, Engine(workers=[flow], clock=VirtualClock(0)) as engine:
        assert go_on(engine, flow, program) == program.gives
    deadly = len(all_calls.names) // 2 + 1
    pid = os.fork()
    if pid == 0:
        try:
            with Calls(deadly), Engine(tmp_path / "store.db", workers=[flow], clock=VirtualClock(0)) as engine:
                go_on(engine, flow, program)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    with Calls() as later, Engine(tmp_path / "store.db", workers=[flow], clock=VirtualClock(0)) as engine:
        assert go_on(engine, flow, program) == program.gives
    assert sorted(later.names) == sorted(all_calls.names[deadly - 1 :])


def _lines(name: str) -> int:
    text = (EXAMPLES / "peers/peers.py").read_text(encoding="utf-8")
    start = text.index(f"def {name}(")
    body = "@flow\n" + text[start:].split("\n\n\n")[0] + "\n"
    return sum(token.type == tokenize.NEWLINE for token in tokenize.generate_tokens(io.StringIO(body).readline)) - 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_not_longer_than_there(name: str) -> None:
    """Counted as Python counts logical lines, without the docstring."""
    assert _lines(name) <= PROGRAMS[name].lines
