"""As much of a Redis server as a lock uses: keys with a lifetime, and the two scripts."""

from __future__ import annotations

import socketserver
import threading
import time
from typing import Any


class FakeRedis(socketserver.ThreadingTCPServer):
    """Listens on a free port of this machine."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        self.keys: dict[bytes, tuple[bytes, float]] = {}
        self.mutex = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port: int = self.server_address[1]
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def carry_out(self, name: bytes, words: list[bytes]) -> Any:
        """What a command answers."""
        with self.mutex:
            self.keys = {key: kept for key, kept in self.keys.items() if kept[1] > time.monotonic()}
            if name == b"SET":
                if words[0] in self.keys:
                    return None
                self.keys[words[0]] = (words[1], time.monotonic() + int(words[words.index(b"PX") + 1]) / 1000)
            elif name == b"EVAL":
                key, token = words[2], words[3]
                if self.keys.get(key, (b"", 0.0))[0] != token:
                    return 0
                if b"'del'" in words[0]:
                    del self.keys[key]
                else:
                    self.keys[key] = (token, time.monotonic() + int(words[4]) / 1000)
                return 1
            return "PONG" if name == b"PING" else "OK"


class _Handler(socketserver.StreamRequestHandler):
    server: FakeRedis

    def handle(self) -> None:
        nothing = b"$-1\r\n"
        while line := self.rfile.readline():
            words = []
            for _ in range(int(line[1:])):
                length = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(length + 2)[:-2])
            name = words[0].upper()
            if name == b"HELLO":
                nothing = b"_\r\n"  # of the third protocol
                self.wfile.write(b"%1\r\n+proto\r\n:3\r\n")
                continue
            answer = self.server.carry_out(name, words[1:])
            if answer is None:
                self.wfile.write(nothing)
            elif isinstance(answer, int):
                self.wfile.write(b":%d\r\n" % answer)
            else:
                self.wfile.write(b"+%s\r\n" % answer.encode())
