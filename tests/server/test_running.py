"""On a port: TLS, clients that send their headers slowly or not at all, headers that are too long."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx
import pytest

pytest.importorskip("uvicorn")

from conductorlite import Engine
from conductorlite.server import running
from conductorlite.server.rest import rest_app
from conductorlite.server.running import served
from conductorlite.server.safety import Role, Safety


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The files of a certificate for localhost, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = str(folder / "certificate.pem"), str(folder / "key.pem")
    made = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    files = ["-keyout", key, "-out", certificate, "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(["openssl", "req", "-x509", *made, *files], check=True, capture_output=True, timeout=60)
    return certificate, key


def test_rest_over_tls(certified: tuple[str, str]) -> None:
    """With the files of a certificate a server speaks TLS, and nothing else; who does not trust it is told so."""
    certificate, key = certified
    safety = Safety(anonymous=Role.ADMIN)
    with Engine() as engine, served(rest_app(engine, safety=safety), safety, certificate=certificate, key=key) as url:
        assert url.startswith("https://")
        trusting = ssl.create_default_context(cafile=certificate)
        assert httpx.get(f"{url}/health", verify=trusting, trust_env=False).json()["healthy"]
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(f"{url}/health", trust_env=False)
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{url.replace('https', 'http')}/health", trust_env=False)


def test_grpc_over_tls(certified: tuple[str, str]) -> None:
    """So does a gRPC server."""
    grpc = pytest.importorskip("grpc")
    from conductorlite.server.grpc import grpc_served

    certificate, key = certified
    trusting = grpc.ssl_channel_credentials(Path(certificate).read_bytes())
    with Engine() as engine, grpc_served(engine, certificate=certificate, key=key) as port:
        with grpc.secure_channel(f"localhost:{port}", trusting) as channel:
            assert channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=10)
        with grpc.insecure_channel(f"localhost:{port}") as channel, pytest.raises(grpc.RpcError) as refused:
            channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=10)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


#: A request that is answered.
WHOLE: Final = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def _said(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    said = b""
    with suppress(ConnectionError):
        while part := connection.recv(65_536):
            said += part
    return said


@pytest.fixture(params=running._PROTOCOLS, ids=lambda one: one.__name__)
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way of reading requests that is there."""
    monkeypatch.setattr(running, "_PROTOCOLS", [request.param])


@pytest.mark.usefixtures("protocol")
@pytest.mark.parametrize("before", [0, 1, 2], ids="{} whole".format)
@pytest.mark.parametrize("sent", [b"", b"GET /health HT", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: 1\r\n"])
def test_who_does_not_send_its_headers_is_cut_off(monkeypatch: pytest.MonkeyPatch, sent: bytes, before: int) -> None:
    """Nothing, a part of a line, headers without an end: the connection is closed when the time for them is over.

    So it is when they came together with requests that are answered.
    """
    monkeypatch.setattr(running, "_HEADER_S", 0.05)
    if not sent:
        monkeypatch.setattr(running, "_IDLE_S", 0)
    safety = Safety(anonymous=Role.ADMIN)
    with Engine() as engine, served(rest_app(engine, safety=safety), safety) as url:
        with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=20) as half_open:
            half_open.sendall(before * WHOLE + sent)
            assert _said(half_open).count(b"HTTP/1.1 200") <= before
        monkeypatch.undo()
        assert httpx.get(f"{url}/health", trust_env=False).status_code == 200


@pytest.mark.usefixtures("protocol")
def test_headers_are_bounded() -> None:
    """Headers that are too long are refused before they are whole."""
    safety = Safety(anonymous=Role.ADMIN, max_headers=2_000)
    with Engine() as engine, served(rest_app(engine, safety=safety), safety) as url:
        assert httpx.get(f"{url}/health", headers={"x-a": "y" * 1_000}, trust_env=False).status_code == 200
        assert httpx.get(f"{url}/health", headers={"x-a": "y" * 100_000}, trust_env=False).status_code in (400, 431)


@pytest.mark.usefixtures("protocol")
@pytest.mark.parametrize("parts", [1_001, 1], ids=["in many parts", "in one"])
def test_a_head_is_bounded_before_it_is_whole(parts: int) -> None:
    """However small its parts are, and also behind requests that are answered."""
    safety = Safety(anonymous=Role.ADMIN, max_headers=2_000)
    with Engine() as engine, served(rest_app(engine, safety=safety), safety) as url:
        headers = [b"X-%d: %s\r\n" % (number, b"y" * 50) for number in range(1_000)]
        for before in (0, 2):
            sent = [before * WHOLE + b"GET /health HTTP/1.1\r\nHost: localhost\r\n", *headers]
            with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=20) as slow:
                slow.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with suppress(ConnectionError):
                    for part in sent if parts > 1 else [b"".join(sent)]:
                        slow.sendall(part)
                said = _said(slow)
                assert said.count(b"HTTP/1.1 200") <= before
        assert httpx.get(f"{url}/health", trust_env=False).status_code == 200
