"""A plugin of pytest: the tests are collected once, and run by as many forks of that process as there are processors.

`python -m pytest -p tests.forks`. pytest-xdist collects once for each processor, and sends every report: a tenth of the fast tests'
time. The files go one by one to whichever fork is free.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator, Sequence
from multiprocessing import connection, get_context

import pytest

Told = tuple[str, object]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run what was collected in forks, and tell here what they tell."""
    if session.testsfailed or session.config.option.collectonly:
        return None
    files = [list(items) for _, items in itertools.groupby(session.items, key=lambda item: item.path)]
    # A pipe is a queue for any number of readers: the number of a file is two bytes.
    queue, filling = os.pipe()
    os.write(filling, b"".join(number.to_bytes(2, "big") for number in range(len(files))))
    os.close(filling)
    context = get_context("fork")
    forks = {}
    for _ in range(os.cpu_count() or 1):
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(session, _taken(queue, files), there))
        process.start()
        there.close()
        forks[here] = process
    os.close(queue)
    try:
        _hear(session, forks)
    finally:
        for process in forks.values():
            process.terminate()
            process.join()
    return True


def _hear(session: pytest.Session, forks: dict[connection.Connection, object]) -> None:
    """Pass on what the forks tell, until each has ended; one that ends without a word has failed the test that it began last."""
    began: dict[object, tuple[str, tuple[str, int | None, str]]] = {}
    config = session.config
    while forks:
        for fork in connection.wait(forks):
            try:
                kind, what = fork.recv()
            except EOFError:
                kind, what = "died", None
            if kind == "began":
                began[fork] = what
                continue
            if kind in ("ended", "died"):
                forks.pop(fork).join()
            if kind == "died":
                nodeid, location = began.get(fork, ("no test", ("", None, "")))
                told = pytest.TestReport(nodeid, location, {}, "failed", f"the process died in {nodeid}", "call")
                config.hook.pytest_runtest_logreport(report=told)
            elif kind == "passed":
                told = pytest.TestReport(*began[fork], {}, "passed", None, "call", duration=what)
                config.hook.pytest_runtest_logreport(report=told)
            elif kind == "told":
                told = config.hook.pytest_report_from_serializable(config=config, data=what)
                config.hook.pytest_runtest_logreport(report=told)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)


def _taken(queue: int, files: Sequence[list[pytest.Item]]) -> Iterator[pytest.Item]:
    while number := os.read(queue, 2):
        yield from files[int.from_bytes(number, "big")]


class _Teller:
    """Tells the process that collected what happens in a fork; of what passes, only that it does."""

    def __init__(self, config: pytest.Config, told: connection.Connection) -> None:
        self._config, self._told = config, told

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._told.send(("began", (nodeid, location)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            told = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
            self._told.send(("told", told))
        elif report.when == "call":
            self._told.send(("passed", report.duration))


def _run(session: pytest.Session, items: Iterator[pytest.Item], told: connection.Connection) -> None:
    """What a fork does: it has what was collected, and its own files for what the tests print."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    config = session.config
    for name in ("terminalreporter", "lfplugin", "nfplugin"):
        config.pluginmanager.unregister(name=name)
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    config.pluginmanager.register(_Teller(config, told))
    item = next(items, None)
    while item is not None and not session.shouldstop and not session.shouldfail:
        following = next(items, None)
        config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item = following
    config.hook.pytest_sessionfinish(session=session, exitstatus=pytest.ExitCode.OK)
    told.send(("ended", None))
