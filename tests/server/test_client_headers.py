"""Requests as the official clients, browsers and tools send them, byte by byte: the guard refuses none of them.

Hand-made after recorded traffic: of each client the headers it adds by itself, in its spelling and order.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn")

from conductorlite import Engine
from conductorlite.server import running
from conductorlite.server.rest import rest_app
from conductorlite.server.running import served
from conductorlite.server.safety import Role, Safety

#: The head of a request that registers a task definition, after its first line and `Host`.
CLIENTS: Final = {
    "Python, httpx": "Accept: */*\nAccept-Encoding: gzip, deflate\nConnection: keep-alive\nUser-Agent: python-httpx/0.28.1\n"
    "Content-Length: LENGTH\nContent-Type: application/json",
    "Python, requests": "User-Agent: python-requests/2.32.3\nAccept-Encoding: gzip, deflate, zstd\nAccept: application/json\n"
    "Connection: keep-alive\nContent-Length: LENGTH\nContent-Type: application/json",
    "JavaScript, undici": "connection: keep-alive\ncontent-type: application/json\naccept: */*\naccept-language: *\n"
    "sec-fetch-mode: cors\nuser-agent: node\naccept-encoding: br, gzip, deflate\ncontent-length: LENGTH",
    "Java, OkHttp": "Content-Type: application/json; charset=utf-8\nContent-Length: LENGTH\nConnection: Keep-Alive\n"
    "Accept-Encoding: gzip\nUser-Agent: okhttp/4.12.0",
    "Java, HttpClient with h2c": "Connection: Upgrade, HTTP2-Settings\nContent-Length: LENGTH\nHTTP2-Settings: AAEAAEAAAAIAAAAA\n"
    "Upgrade: h2c\nUser-Agent: Java-http-client/21.0.8\nContent-Type: application/json",
    "Go, Content-Type twice": "User-Agent: Go-http-client/1.1\nContent-Length: LENGTH\nAccept: application/json\n"
    "Accept: application/json\nContent-Type: application/json\nContent-Type: application/json\nAccept-Encoding: gzip",
    "Go, a token twice": "User-Agent: Go-http-client/1.1\nContent-Length: LENGTH\nX-Authorization: TOKEN\nX-Authorization: TOKEN\n"
    "Content-Type: application/json\nAccept-Encoding: gzip",
    "C#, HttpClient": "Accept: application/json\nContent-Type: application/json; charset=utf-8\nContent-Length: LENGTH",
    "C#, RestSharp that asks first": "Accept: application/json, text/json, text/x-json\nUser-Agent: RestSharp/110.2.0.0\n"
    "Accept-Encoding: gzip, deflate, br\nContent-Type: application/json\nContent-Length: LENGTH\nExpect: 100-continue",
    "Ruby, Net::HTTP": "Accept-Encoding: gzip;q=1.0,deflate;q=0.6,identity;q=0.3\nAccept: */*\nUser-Agent: Ruby\n"
    "Content-Type: application/json\nContent-Length: LENGTH",
    "curl": "User-Agent: curl/7.88.1\nAccept: */*\nContent-Length: LENGTH\nContent-Type: application/x-www-form-urlencoded",
    "in chunks": "Transfer-Encoding: chunked\nContent-Type: application/json",
    "a browser on a page of this server": "Connection: keep-alive\nContent-Length: LENGTH\nsec-ch-ua-platform: \"Linux\"\n"
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\nContent-Type: application/json\nAccept: */*\n"
    "Origin: http://HOST\nSec-Fetch-Site: same-origin\nSec-Fetch-Mode: cors\nSec-Fetch-Dest: empty\nReferer: http://HOST/\n"
    "Accept-Encoding: gzip, deflate, br, zstd\nAccept-Language: en-US,en;q=0.9\nCookie: a=1; b=2",
    "a browser on a page behind a proxy": "Content-Length: LENGTH\nContent-Type: application/json\nX-Authorization: TOKEN\n"
    "Origin: https://ops.example.com\nSec-Fetch-Site: same-origin\nSec-Fetch-Mode: cors\nX-Forwarded-For: 203.0.113.9\n"
    "X-Forwarded-Host: ops.example.com\nX-Forwarded-Proto: https\nVia: 1.1 proxy",
}  # fmt: skip

TOKEN: Final = "correct-horse-battery-staple"


@pytest.fixture(scope="module", params=[one.__name__ for one in running._PROTOCOLS])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server on a port that reads requests in Python, or in C."""
    all_of_them = list(running._PROTOCOLS)
    running._PROTOCOLS.sort(key=lambda one: one.__name__ != request.param)
    safety = Safety(anonymous=Role.ADMIN, token=TOKEN, origins=["https://ops.example.com"])
    try:
        with Engine() as engine, served(rest_app(engine, safety=safety), safety) as url:
            yield urlsplit(url).netloc
    finally:
        running._PROTOCOLS[:] = all_of_them


def _status(address: str, head: str, body: bytes) -> bytes:
    """The first line of the last answer to a request."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(head.encode() + b"\r\n\r\n")
        told = b""
        if "100-continue" in head:
            told = connection.recv(1_000)
            assert told == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        return connection.recv(4_000).partition(b"\r\n")[0]


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_no_client_is_refused(client: str, address: str) -> None:
    """A POST with a body is carried out, with the headers of each client."""
    body = json.dumps([{"name": "x", "ownerEmail": "a@b.c", "responseTimeoutSeconds": 60}]).encode()
    if "chunked" in CLIENTS[client]:
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    lines = CLIENTS[client].replace("LENGTH", str(len(body))).replace("HOST", address).replace("TOKEN", TOKEN).splitlines()
    head = "\r\n".join([f"POST /api/metadata/taskdefs HTTP/1.1\r\nHost: {address}", *lines])
    assert _status(address, head, body) == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize("pieces", [1, 7, 10_000])
@pytest.mark.parametrize("chunked", [False, True])
def test_an_offer_of_another_protocol_changes_nothing(pieces: int, chunked: bool, address: str) -> None:
    """`Upgrade: h2c` is ignored, however the bytes come: with a body, whole; without one, the next request is read as well."""
    text = json.dumps([{"name": "x" * 50, "ownerEmail": "a@b.c"}]).encode()
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(text), text) if chunked else text
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(text)}"
    offer = f"Host: {address}\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAA\r\n"
    sent = f"GET /health HTTP/1.1\r\n{offer}\r\nPOST /api/metadata/taskdefs HTTP/1.1\r\n{offer}{framing}\r\n\r\n".encode() + body
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        for begun in range(0, len(sent), pieces):
            connection.sendall(sent[begun : begun + pieces])
        answers = b""
        while answers.count(b"HTTP/1.1 200 OK") < 2:
            more = connection.recv(4_000)
            assert more, answers
            answers += more
