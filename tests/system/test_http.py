"""HTTP tasks against servers on this machine: what is sent, what is kept, and what a bad peer can do."""

from __future__ import annotations

import gzip
import json
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from system_kit import Server, carried_out, misbehaving, node, serving

from conductorlite import Engine, TaskResult, TaskStatus, VirtualClock, WorkflowDef
from conductorlite.errors import InvalidInput
from conductorlite.ext.workers import system_workers

pytest.importorskip("httpx")


@pytest.fixture
def server() -> Iterator[Server]:
    """A well-behaved server."""
    with serving() as server:
        yield server


def asked(uri: str, method: str = "GET", /, **fields: Any) -> Any:
    """The last attempt at an HTTP task with such a request."""
    options = {key: fields.pop(key) for key in ("http_deadline", "http_max_body") if key in fields}
    return carried_out(node("HTTP", {"http_request": {"uri": uri, "method": method, **fields}}), **options)


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "sqlite"])
def test_a_reply_is_the_output(server: Server, tmp_path: Path, stored: bool) -> None:
    """A 2xx completes the task with body, headers by name, status code and reason phrase, on every store."""
    uri = server.answers({"id": 7, "ok": True, "rate": 1.5, "none": None}, 201, X_Tag="a")
    request = {"uri": f"{uri}/orders?x=${{workflow.input.x}}", "method": "post", "body": {"n": 1}}
    task = carried_out(node("HTTP", {"http_request": request}), {"x": 3}, store=tmp_path / "s.db" if stored else None)
    assert task.status is TaskStatus.COMPLETED, task.reason
    response = task.output_data["response"]
    assert response["body"] == {"id": 7, "ok": True, "rate": 1.5, "none": None}
    assert (response["statusCode"], response["reasonPhrase"]) == (201, "Created")
    assert response["headers"]["X-Tag"] == ["a"]
    (sent,) = server.received
    assert (sent.method, sent.path, json.loads(sent.body)) == ("POST", "/orders?x=3", {"n": 1})
    assert (sent.headers["Accept"], sent.headers["Content-Type"]) == ("application/json", "application/json")


def test_the_input_itself_may_be_the_request(server: Server) -> None:
    """Without http_request the fields are those of the input; unknown ones and vipAddress are ignored."""
    uri = server.answers({})
    task = carried_out(node("HTTP", {"uri": uri, "method": "GET", "vipAddress": "v", "appName": "a", "other": {}}))
    assert task.status is TaskStatus.COMPLETED
    assert task.output_data["response"]["body"] == {}


@pytest.mark.trap("tasks-51")
@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b'{"n": 1}', {"n": 1}),
        (b"[1, 2.5]", [1, 2.5]),
        (b"12", 12),
        (b"true", True),
        (b'"text"', "text"),
        (b"null", None),
        (b"", None),
        (b"\xef\xbb\xbf[1]", [1]),
        (b"hello <b>", "hello <b>"),
        (b"caf\xc3\xa9", "café"),
        (b"\xff\x00", "\ufffd\x00"),
        (b"NaN", "NaN"),
        (b"[" * 100_000, "[" * 100_000),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_bodies_keep_their_types(server: Server, body: bytes, kept: Any) -> None:
    """JSON is kept with its numbers and booleans, anything else as text, no body as null."""
    assert asked(server.answers(body)).output_data["response"]["body"] == kept


def test_texts_are_read_in_their_charset(server: Server) -> None:
    """The charset of the reply counts; one that is no encoding of text is taken for UTF-8."""
    latin = server.answers("é".encode("latin-1"), Content_Type="text/plain; charset=iso-8859-1")
    assert asked(latin).output_data["response"]["body"] == "é"
    odd = server.answers(b"plain", Content_Type="text/plain; charset=punycode")
    assert asked(odd).output_data["response"]["body"] == "plain"


def test_headers_of_one_name_are_a_list(server: Server) -> None:
    """Headers that come twice are both kept."""
    server.answers({})
    server.answer = type(server.answer)(b"{}", 200, (("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")))
    assert asked(server.url).output_data["response"]["headers"]["Set-Cookie"] == ["a=1", "b=2"]


@pytest.mark.parametrize(
    ("content_type", "body", "sent"),
    [
        (None, {"a": [1]}, b'{"a":[1]}'),
        (None, '{"raw": 1}', b'{"raw": 1}'),
        (None, 5, b"5"),
        ("application/vnd.api+json", [1], b"[1]"),
        ("application/x-www-form-urlencoded", {"a": "x y", "b": [1, True], "c": None}, b"a=x+y&b=1&b=true"),
        ("application/x-www-form-urlencoded", "a=1", b"a=1"),
        ("text/plain; charset=iso-8859-1", "é", b"\xe9"),
        ("text/xml", "<a/>", b"<a/>"),
    ],
)
def test_bodies_are_written_as_the_content_type_says(server: Server, content_type: str | None, body: Any, sent: bytes) -> None:
    """JSON and forms are written, text is sent as it is."""
    asked(server.answers({}), "POST", body=body, contentType=content_type)
    assert server.received[0].body == sent
    assert server.received[0].headers["Content-Type"] == (content_type or "application/json")


def test_headers_accept_and_nothing_from_elsewhere(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers are sent as given, null ones not at all, `accept` may be a list, and the environment's proxies are not used."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    task = asked(server.answers({}), headers={"X-N": 5, "X-Null": None, "User-Agent": "me"}, accept=["text/html", "text/plain"])
    assert task.status is TaskStatus.COMPLETED, task.reason
    headers = server.received[0].headers
    assert (headers["X-N"], headers["User-Agent"], headers["Accept"]) == ("5", "me", "text/html, text/plain")
    assert "X-Null" not in headers
    assert "Content-Type" not in headers


@pytest.mark.parametrize(("method", "sent"), [("get", "GET"), ("Patch", "PATCH"), ("FETCH", "FETCH")])
def test_methods(server: Server, method: str, sent: str) -> None:
    """Any name of a method is sent, in capitals."""
    assert asked(server.answers({}), method).status is TaskStatus.COMPLETED
    assert [each.method for each in server.received] == [sent]


def test_a_header_wins_over_the_field(server: Server) -> None:
    """Accept and Content-Type among the headers are sent instead of the fields of that meaning, once."""
    headers = {"accept": "text/html", "content-type": "application/x-www-form-urlencoded"}
    asked(server.answers({}), "POST", headers=headers, accept="a/b", contentType="text/plain", body={"a": 1})
    (sent,) = server.received
    named = {name.lower(): text for name, text in sent.headers.items()}
    assert (named["accept"], named["content-type"], sent.body) == ("text/html", "application/x-www-form-urlencoded", b"a=1")


def test_the_address_is_taken_as_written(server: Server) -> None:
    """What is percent-encoded stays so, braces are no variables, and what may not stand in an address is encoded."""
    asked(server.answers({}) + "/a%20b/{c}?q=x y")
    assert server.received[0].path == "/a%20b/%7Bc%7D?q=x%20y"


@pytest.mark.trap("tasks-51")
@pytest.mark.parametrize("status", [400, 404, 500, 503])
def test_another_status_fails_and_keeps_the_reply(server: Server, status: int) -> None:
    """A status beyond 2xx fails the task, retriable, and the whole reply stays readable."""
    task = asked(server.answers({"why": "because"}, status))
    assert task.status is TaskStatus.FAILED
    assert task.reason.startswith(f"Failed to invoke HTTP task due to: {status} ")
    assert (task.output_data["response"]["statusCode"], task.output_data["response"]["body"]) == (status, {"why": "because"})


def test_redirects_are_not_followed(server: Server) -> None:
    """A redirect fails the task; where it leads is in the headers, and nobody went there."""
    task = asked(server.answers(b"", 302, Location="/elsewhere"))
    assert task.status is TaskStatus.FAILED
    assert "302 Found, and redirects are not followed" in task.reason
    assert task.output_data["response"]["headers"]["Location"] == ["/elsewhere"]
    assert [sent.path for sent in server.received] == ["/"]


def test_nothing_is_retried_unless_asked(server: Server) -> None:
    """Without a task definition there is one attempt; the task's retryCount gives more."""
    uri = server.answers({}, 500)
    request = {"http_request": {"uri": uri, "method": "GET"}}
    assert (carried_out(node("HTTP", request)).attempt, len(server.received)) == (0, 1)
    assert (carried_out(node("HTTP", request, retry_count=2)).attempt, len(server.received)) == (2, 4)


GOOD = {"uri": "http://127.0.0.1:1/", "method": "GET"}


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ({"http_request": {}}, "$.http_request.uri: is missing: HTTP needs it; $.http_request.method: is missing"),
        ({"uri": "http://h"}, "$.method: is missing"),
        ({"http_request": 5}, "$.http_request: is not an object"),
        ({**GOOD, "uri": "file:///etc/passwd"}, "$.uri: is not the address of a host"),
        ({**GOOD, "uri": "http://h:99999/"}, "$.uri: is not the address of a host"),
        ({**GOOD, "uri": 5}, "$.uri: is not the address of a host"),
        ({**GOOD, "method": "GE T"}, "$.method: is no method"),
        ({**GOOD, "headers": []}, "$.headers: is not an object"),
        ({**GOOD, "headers": {"a b": "c"}}, "$.headers['a b']: is no name of a header"),
        ({**GOOD, "headers": {"Content-Length": "3"}}, "$.headers['Content-Length']: is set by the connection itself"),
        ({**GOOD, "headers": {"X": "a\nY: b"}}, "$.headers.X: has a character that no header may have"),
        ({**GOOD, "accept": {}}, "$.accept: is neither a media type nor a list"),
        ({**GOOD, "contentType": "a\nb"}, "$.contentType: is no media type"),
        ({**GOOD, "body": {"a": 1}, "contentType": "text/xml"}, "$.body: is not text, and only JSON and forms are"),
        ({**GOOD, "body": "é", "contentType": "text/plain; charset=ascii"}, "$.body: cannot be written in the charset"),
        ({**GOOD, "body": "é", "contentType": "text/plain; charset=klingon"}, "$.body: cannot be written in the charset of"),
        ({**GOOD, "readTimeOut": "soon"}, "$.readTimeOut: is no number of milliseconds"),
        ({**GOOD, "connectionTimeOut": 0}, "$.connectionTimeOut: is no number of milliseconds"),
    ],
)  # fmt: skip
def test_a_bad_request_fails_for_good(inputs: dict[str, Any], reason: str) -> None:
    """What is wrong with the input is named with its path, all of it, and nothing is tried again."""
    task = carried_out(node("HTTP", {"uri": None, **inputs}, retry_count=5))
    assert task.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
    assert reason in task.reason
    assert task.attempt == 0


def test_passwords_stay_out_of_reasons() -> None:
    """Neither a header's value nor the password of an address is told when something is wrong with it."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    gone = asked(f"http://me:hunter2@127.0.0.1:{port}/p?key=hunter2", headers={"Authorization": "Bearer hunter2"})
    bad = asked("http://127.0.0.1:1/", headers={"Authorization": "Bearer hunter2\n"[:-1] + "\x00"})
    assert f"(GET 127.0.0.1:{port})" in gone.reason
    assert "$.http_request.headers.Authorization" in bad.reason
    for task in (gone, bad):
        assert "hunter2" not in f"{task.reason}{task.traceback}"


def hangs(connection: socket.socket, over: threading.Event) -> None:
    """Says nothing."""
    over.wait()


def closes_in_the_middle(connection: socket.socket, over: threading.Event) -> None:
    """Announces more than it sends."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")


def closes_at_once(connection: socket.socket, over: threading.Event) -> None:
    """Sends nothing at all."""


def is_no_http(connection: socket.socket, over: threading.Event) -> None:
    """Speaks something else."""
    connection.sendall(b"220 mail ready\r\n\r\n")


def drips(start: bytes) -> Any:
    """Sends a start, and then a byte now and then: never silent for as long as a read may wait, never at an end."""

    def behaviour(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(start)
        while not over.wait(0.02):
            connection.sendall(b"x")

    return behaviour


def floods(start: bytes) -> Any:
    """Sends without end."""

    def behaviour(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(start)
        while not over.is_set():
            connection.sendall(b"x" * 65_536)

    return behaviour


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (hangs, "nothing was received for 150 ms"),
        (closes_in_the_middle, "peer closed connection"),
        (closes_at_once, "Server disconnected"),
        (is_no_http, "RemoteProtocolError"),
        (drips(OK + b"X-Slow: "), "no complete reply within 300 ms"),
        (drips(OK + b"Content-Length: 5000\r\n\r\n"), "no complete reply within 300 ms"),
        (floods(OK + b"Connection: close\r\n\r\n"), "the reply has more than 100000 bytes"),
        (floods(OK + b"Content-Length: 100000000\r\n\r\n"), "the reply announces 100000000 bytes, and 100000 are accepted"),
        (floods(OK + b"X-Large: "), "RemoteProtocolError"),
    ],
    ids=["hangs", "half", "closes", "no-http", "drips-headers", "drips-body", "floods", "announces", "floods-headers"],
)
def test_a_bad_peer_fails_the_task(behaviour: Any, reason: str) -> None:
    """Whatever a peer does, the task fails with the cause, within its time and its memory."""
    with misbehaving(behaviour) as uri:
        task = asked(uri, readTimeOut="150", connectionTimeOut=100, http_deadline="300ms", http_max_body=100_000)
    assert task.status is TaskStatus.FAILED
    assert task.reason.startswith("Failed to invoke HTTP task due to: ")
    assert reason in task.reason
    assert task.output_data == {}


def test_a_bad_peer_behind_tls(server: Server) -> None:
    """A peer that hangs in the handshake, or speaks no TLS, fails the task within the time for a connection."""
    with misbehaving(hangs) as uri:
        task = asked(uri.replace("http:", "https:"), connectionTimeOut=150)
    assert (task.status, "no connection within 150 ms" in task.reason) == (TaskStatus.FAILED, True)
    task = asked(server.answers({}).replace("http:", "https:"))
    assert (task.status, "ConnectError" in task.reason) == (TaskStatus.FAILED, True)


def test_the_requests_own_timeouts_may_be_longer_than_the_deadline() -> None:
    """The deadline never cuts what connectionTimeOut and readTimeOut together allow."""
    with misbehaving(hangs) as uri:
        assert "nothing was received for 200 ms" in asked(uri, readTimeOut=200, http_deadline="1ms").reason


def test_compressed_replies_are_bounded(server: Server) -> None:
    """A compressed reply is read; one that swells, is cut, or is compressed otherwise fails the task."""
    fine = server.answers(gzip.compress(b'{"a": 1}'), Content_Encoding="gzip")
    assert asked(fine).output_data["response"]["body"] == {"a": 1}
    server.answers(gzip.compress(b"0" * 10_000_000), Content_Encoding="gzip")
    assert "more than 50000 bytes" in asked(server.url, http_max_body=50_000).reason
    server.answers(gzip.compress(b"abc" * 99)[:-9], Content_Encoding="gzip")
    assert "in the middle of its gzip" in asked(server.url).reason
    server.answers(b"not so", Content_Encoding="gzip")
    assert "is not gzip, as it says" in asked(server.url).reason
    server.answers(b"x", Content_Encoding="br")
    assert "is encoded as br" in asked(server.url).reason


def test_json_that_cannot_be_kept_fails_the_task(server: Server) -> None:
    """JSON with half a character in it is no value a task may have."""
    task = asked(server.answers(b'{"a": "\\ud800"}'))
    assert task.status is TaskStatus.FAILED
    assert "the reply cannot be kept: $.response.body" in task.reason


@pytest.mark.trap("tasks-50")
def test_async_complete_leaves_the_task_open(server: Server) -> None:
    """With asyncComplete the reply is kept and the task stays open; the entry of the input of that name has no say."""
    request = {"uri": server.answers({"ticket": 1}), "method": "GET", "asyncComplete": False}
    with Engine(workers=system_workers(), clock=VirtualClock(0)) as engine:
        run = engine.start(WorkflowDef(name="w", tasks=[node("HTTP", request, async_complete=True)]))
        engine.settle()
        (task,) = run.workflow.tasks
        assert (task.status, task.input_data["asyncComplete"]) == (TaskStatus.IN_PROGRESS, True)
        assert task.output_data["response"]["body"] == {"ticket": 1}
        done = TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED)
        assert engine.update_task(done).status is TaskStatus.COMPLETED


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where httpx is not installed an HTTP task fails for good and names the pip command."""
    monkeypatch.setitem(sys.modules, "httpx", None)
    task = asked("http://127.0.0.1:1/")
    assert task.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
    assert "pip install 'conductorlite[http]'" in task.reason


@pytest.mark.parametrize(
    "options", [{"http_deadline": 0}, {"http_max_body": 0}, {"sinks": {"a:b": None}}, {"sinks": {"a": object()}}]
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    """A deadline or size of nothing, a scheme that cannot occur, a sink that cannot publish: each is named."""
    with pytest.raises(InvalidInput, match=next(iter(options))):
        system_workers(**options)
