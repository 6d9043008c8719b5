"""A port before a server, which does to its connections what networks and servers do: hang, be slow, refuse, break off."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal

Fault = Literal["none", "hangs", "slow", "refuses", "half-open", "ends"]

#: What a port may do: `hangs` takes connections and passes nothing on; `slow` passes each answer on late; `refuses` has nobody who
#: listens; `half-open` passes on what is asked and no answer; `ends` takes a connection and ends it at once.
FAULTS: Final[tuple[Fault, ...]] = ("hangs", "slow", "refuses", "half-open", "ends")

_CHUNK: Final = 65_536


class FaultyPort:
    """A port of this machine that passes on to a server, as long as it has no fault. `asked` counts what clients have sent."""

    def __init__(self, host: str, port: int, *, delay: float = 0.15) -> None:
        self._target = (host, port)
        self._delay = delay
        self._changed = threading.Condition()
        self._fault: Fault = "none"
        self._over = False
        self.asked = 0
        self._open: set[socket.socket] = set()
        self._listener = self._listening(0)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _listening(self, port: int) -> socket.socket:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", port))
        made.listen(64)
        return made

    def set(self, fault: Fault) -> None:
        """Have it do so from now on, to connections that are open too."""
        with self._changed:
            if fault == "refuses":
                _shut(self._listener)
            elif self._fault == "refuses":
                self._listener = self._listening(self.port)
            self._fault = fault
            self._changed.notify_all()
        if fault in ("refuses", "ends"):
            self._break_off()

    def close(self) -> None:
        """End it, and every connection."""
        with self._changed:
            self._over, self._fault = True, "ends"
            self._changed.notify_all()
        _shut(self._listener)
        self._break_off()

    def _break_off(self) -> None:
        for one in list(self._open):
            _shut(one)

    def _accept(self) -> None:
        while not self._over:
            with self._changed:
                while self._fault == "refuses" and not self._over:
                    self._changed.wait()
            listener = self._listener
            try:
                client, _ = listener.accept()
            except OSError:
                continue  # it was closed, to refuse or for good
            if self._fault in ("ends", "refuses"):
                client.close()
                continue
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target, 10)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        self._open |= {client, server}
        threading.Thread(target=self._pump, args=(client, server, True), daemon=True).start()
        self._pump(server, client, False)

    def _pump(self, source: socket.socket, target: socket.socket, asking: bool) -> None:
        try:
            while data := source.recv(_CHUNK):
                self.asked += asking
                with self._changed:
                    while self._fault == "hangs":
                        self._changed.wait()
                    if self._fault == "slow" and not asking:
                        self._changed.wait(self._delay)
                    if self._fault == "half-open" and not asking:
                        continue
                target.sendall(data)
        except OSError:
            pass  # one of both has ended
        finally:
            for one in (source, target):
                self._open.discard(one)
                _shut(one)


def until(seconds: int, holds: Callable[[], object]) -> None:
    """Wait until something holds, for so many seconds at most."""
    never = threading.Event()
    for _ in range(100 * seconds):
        if holds():
            return
        never.wait(0.01)
    raise AssertionError(f"it did not come to hold within {seconds} s")


def _shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
