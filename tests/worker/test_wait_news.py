"""What callers wait for stands on the logger, once, when some seconds have passed."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from conductorlite import Engine, VirtualClock, flow, task
from conductorlite.errors import ResultTimeout
from conductorlite.flows import Backoff, human, wait


@task(retry=Backoff(1, first="1h"))
def charge(amount: int) -> int:
    """Fails always."""
    raise ValueError("a bug")


@flow
def pay(amount: int) -> int:
    """A payment that fails."""
    return charge(amount)


@flow
def ask() -> dict:
    """A question to a person."""
    return human("approval")


@flow
def rest() -> None:
    """A wait that ends by itself."""
    wait("1h")


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine on the system clock that logs after a moment."""
    monkeypatch.setattr("conductorlite.runtime.missing._NEWS_MS", 20)
    store = tmp_path / "runs.db" if request.param == "sqlite" else None
    with Engine(store, workers=[pay, ask, rest]) as made:
        stop = _Stop(made)
        logging.getLogger("conductorlite.workflows").addHandler(stop)
        yield made
        logging.getLogger("conductorlite.workflows").removeHandler(stop)


class _Stop(logging.Handler):
    """Stops the engine with the first line on a wait, however slow the machine is."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine

    def emit(self, record: logging.LogRecord) -> None:
        """Stop what drives."""
        if " has not ended yet: " in record.getMessage():
            self.engine.stop()


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    """The level and the text of each line on a wait."""
    lines = [(record.levelno, record.getMessage()) for record in caplog.records]
    return [(level, text.partition(" has not ended yet: ")[2]) for level, text in lines if " has not ended yet: " in text]


@pytest.mark.parametrize("verb", ["result", "run_until_idle"])
def test_a_failure(engine: Engine, caplog: pytest.LogCaptureFixture, verb: str) -> None:
    """The line says what has failed, why, and when the next attempt comes; it comes once."""
    run = engine.start(pay, amount=1)
    if verb == "result":
        with pytest.raises(ResultTimeout, match="was asked to stop"):
            run.result()
    else:
        engine.run_until_idle()
    ((level, text),) = said(caplog)
    assert level == logging.WARNING
    assert text.startswith("charge failed: ValueError: a bug; next attempt in ")


def test_a_person(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """The line says that somebody is waited for; a second wait for the same execution is not logged again."""
    run = engine.start(ask)
    for timeout in (None, "50ms"):
        with pytest.raises(ResultTimeout):
            run.result(timeout=timeout)
    ((level, text),) = said(caplog)
    assert (level, re.search(r"approval \(HUMAN, test_wait_news.py:\d+\) waits for somebody", text) is not None) == (
        logging.WARNING,
        True,
    )


def test_what_goes_on_by_itself(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """A wait that ends by itself is information, and no warning."""
    caplog.set_level(logging.INFO, "conductorlite")
    with pytest.raises(ResultTimeout):
        engine.start(rest).result()
    ((level, text),) = said(caplog)
    assert (level, text.startswith("wait (WAIT, test_wait_news.py:")) == (logging.INFO, True)


def test_beside_another_driver(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """A caller that waits while another thread drives is told the same."""
    run, driver = engine.start(ask), threading.Thread(target=engine.run_forever)
    driver.start()
    with suppress(ResultTimeout):  # when that driver has stopped this thread drives, and is stopped by the test's end
        run.result(timeout="1s")
    engine.stop()
    driver.join()
    assert [level for level, _ in said(caplog)] == [logging.WARNING]


def test_virtual_time(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a virtual clock nothing is logged: a wait takes no time."""
    monkeypatch.setattr("conductorlite.runtime.missing._NEWS_MS", 0)
    with Engine(workers=[pay], clock=VirtualClock(0)) as engine:
        engine.start(pay, amount=1)
        engine.run_until_idle()
    assert said(caplog) == []
