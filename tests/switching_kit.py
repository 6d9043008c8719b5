"""Threads that change places as often as the interpreter can have them do so, and acts that are begun together."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


@contextmanager
def switching() -> Iterator[None]:
    """Have threads change places as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def at_once(acts: Iterable[Callable[[], object]]) -> list[BaseException]:
    """Carry out acts in a thread each, begun together; what they raised."""
    given = list(acts)
    begin, raised = threading.Barrier(len(given)), list[BaseException]()

    def carry_out(act: Callable[[], object]) -> None:
        begin.wait(60)
        try:
            act()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=carry_out, args=(act,), daemon=True) for act in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "a thread has not come to its end"
    return raised
