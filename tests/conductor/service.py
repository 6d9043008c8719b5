"""The service that HTTP tasks of both sides call: each path answers one thing, always the same."""

from __future__ import annotations

import functools
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

_JSON: Final = "application/json"

#: Path → status, media type and body; what is asked for without a row here is answered with what was sent.
ANSWERS: Final[dict[str, tuple[int, str, str]]] = {
    "/object": (200, _JSON, '{"a": "x", "b": {"c": ["y", null]}}'),
    "/list": (200, _JSON, '["x", {"a": "y"}]'),
    "/text": (200, "text/plain", "some text"),
    "/quoted": (200, _JSON, '"some text"'),
    "/number": (200, _JSON, "1.5"),
    "/seven": (200, _JSON, "7"),
    "/true": (200, _JSON, "true"),
    "/whole": (200, _JSON, '{"n": 1}'),
    "/null": (200, _JSON, "null"),
    "/broken": (200, _JSON, '{"a": '),
    "/html": (200, "text/html", "<p>é</p>"),
    "/created": (201, _JSON, '{"id": "x"}'),
    "/empty": (204, _JSON, ""),
    "/nothing": (200, _JSON, ""),
    "/bad": (400, _JSON, '{"why": "bad"}'),
    "/missing": (404, "text/plain", "not here"),
    "/teapot": (418, "text/plain", ""),
    "/fails": (500, _JSON, '{"why": "broken"}'),
    "/away": (503, "text/plain", "later"),
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_any(self) -> None:
        sent = self._sent().decode()
        path = self.path.partition("?")[0]
        if path == "/slow":
            time.sleep(1)
        status, media, text = ANSWERS.get(path, (200, _JSON, json.dumps(self._echo(sent))))
        body = text.encode()
        self.send_response_only(status)
        if body:
            self.send_header("Content-Type", media)
        self.send_header("X-Twice", "1")
        self.send_header("X-Twice", "2")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _echo(self, sent: str) -> dict[str, object]:
        """What was asked; the media type of nothing only at one path."""
        kind = (self.headers.get("Content-Type") or "").partition(";")[0]
        try:
            body = json.loads(sent)
        except ValueError:
            body = sent
        typed = {"type": kind} if sent or self.path == "/typed" else {}
        return {"method": self.command, "path": self.path, "body": body, "x": self.headers.get("X-Given") or "none", **typed}

    def _sent(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = do_FETCH = do_any  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@functools.cache
def address() -> str:
    """Where it is; the first who asks starts it, and it ends with the process."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"
