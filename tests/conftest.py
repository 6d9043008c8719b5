"""Hypothesis profiles of the whole suite: few examples by default, twice as many where `.ci/run` runs fast tests again
(HYPOTHESIS_PROFILE=ci), many with `sh tests/run deep` (HYPOTHESIS_PROFILE=deep).
Where the files of tests lie: in memory, where there is room. And which cases of a test are tried in SQLite at once. How a program
that a test starts is interrupted, and what the garbage collector need not look at."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# Deadlines measure the machine, not the code. In CI the same examples are tried every time: a red run can be repeated.
settings.register_profile(
    "fast", deadline=None, max_examples=10, derandomize="CI" in os.environ, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", settings.get_profile("fast"), max_examples=20)
settings.register_profile("deep", settings.get_profile("fast"), derandomize=False, max_examples=500)

_MEMORY, _ROOM = "/dev/shm", 2_000_000_000


def pytest_configure(config: pytest.Config) -> None:
    """Choose the profile before any test module is imported, and the folder before any file is made."""
    deep = config.getoption("markexpr", "").startswith("deep")
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "deep" if deep else "fast"))
    # What a disk may lose is the subject of tests/power, on a disk of its own making. Set TMPDIR to have the files elsewhere.
    if "TMPDIR" not in os.environ and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = _MEMORY
    # A shell has what it starts in the background ignore SIGINT, nohup SIGHUP, and whatever that starts ignores it too: tests send
    # both to programs. A handler is not handed on.
    for name in ("SIGINT", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if name == "SIGINT" else lambda *_: None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected is there to the end: the garbage collector need not look at it, and need not look so often."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000)
        gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse a test whose id holds an address of memory: it differs in each process, and pytest-xdist then runs nothing at all."""
    if " at 0x" in item.nodeid:
        raise pytest.UsageError(f"{item.nodeid}: give the value of this case a __repr__, or the case an id")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object:
    """Run a test that is so marked in a thread of its own; None: it is run as usual."""
    if pyfuncitem.get_closest_marker("own_thread") is None:
        return None
    raised: list[BaseException] = []

    def run() -> None:
        try:
            pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames})
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="own_thread")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return True


#: Rooms whose tests run on every kind of store: what they look at lies above it.
_ON_EVERY_STORE = {"engine", "index", "payloads", "schemas", "secrecy", "traps"}

#: What two of three cases become on a store.
_THINNED = {"sqlite": pytest.mark.slow, "memory-relay": pytest.mark.deep}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each case of a test runs in memory; the first and every third also in SQLite, and in CI in memory with a relay.

    Of tests with one case, the first and every third of a file. The others of SQLite are slow, those with a relay deep. That all do
    the same is shown by tests/oracle and tests/backends.
    """
    seen: Counter[tuple[str, str]] = Counter()
    for item in items:
        case = getattr(item, "callspec", None)
        if case is None or item.path.parent.name not in _ON_EVERY_STORE:
            continue
        store = next((store for store in _THINNED if store in case.params.values()), "")
        test = item.nodeid.partition("::" if len(case.params) == 1 else "[")[0], store
        if store and seen[test] % 3:
            item.add_marker(_THINNED[store])
        seen[test] += 1
