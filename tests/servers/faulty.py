"""A proxy before a server of the S3 API, that does to its requests what a busy server does: late, refused, broken off.

    python tests/servers/faulty.py PORT SERVER_PORT FILE

The file holds words, read at each request: `error` answers 500, `throttled` 503 SlowDown, `slow` waits half a second, `cut` breaks
the answer off in its middle; `some` has it happen to every third request only. An empty file, or none: nothing.
"""

from __future__ import annotations

import http.client
import itertools
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ANSWERS = {"error": (500, "InternalError"), "throttled": (503, "SlowDown")}
#: Headers that are of one connection only.
OWN = frozenset({"connection", "transfer-encoding", "content-length", "date", "server", "expect"})


def proxy(port: int, server_port: int, faults: Path) -> ThreadingHTTPServer:
    """The proxy, which listens already."""
    numbers = itertools.count()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            words = faults.read_text().split() if faults.exists() else []
            if "some" in words and next(numbers) % 3:
                words = []
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if "slow" in words:
                time.sleep(0.5)
            for word, (status, code) in ANSWERS.items():
                if word in words:
                    self.answer(status, [("content-type", "application/xml")], f"<Error><Code>{code}</Code></Error>".encode())
                    return
            connection = http.client.HTTPConnection("127.0.0.1", server_port, timeout=30)
            # The host is part of what was signed.
            connection.request(self.command, self.path, body=body or None, headers=dict(self.headers.items()))
            reply = connection.getresponse()
            self.answer(reply.status, reply.getheaders(), reply.read(), cut="cut" in words)
            connection.close()

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815 - as the library calls them

        def answer(self, status: int, headers: list[tuple[str, str]], body: bytes, *, cut: bool = False) -> None:
            self.send_response(status)
            length = next((value for name, value in headers if name.lower() == "content-length"), str(len(body)))
            for name, value in headers:
                if name.lower() not in OWN:
                    self.send_header(name, value)
            self.send_header("content-length", length if self.command == "HEAD" else str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body[: len(body) // 2] if cut else body)
            if cut:
                self.close_connection = True

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    return server


if __name__ == "__main__":
    proxy(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])).serve_forever()
