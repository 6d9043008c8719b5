"""What is wrong with a search server is said when the engine is opened: one error by name for each thing."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from orders import agrees, place, workers

from conductorlite import Engine, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.errors import (
    AccessDenied,
    ConductorliteError,
    InvalidInput,
    MissingExtra,
    SchemaTooNew,
    StorageCorrupt,
)
from conductorlite.testing import MemoryIndex

pytest.importorskip("elasticsearch")
pytest.importorskip("opensearchpy")
SCHEMES = pytest.mark.parametrize("scheme", ["elasticsearch", "opensearch"])

#: What one who is no Elasticsearch does not say.
OURS = {"X-Elastic-Product": "Elasticsearch"}
DIGITS = "0123456789abcdef"

Stub = Callable[..., str]


@pytest.fixture
def server() -> Iterator[Stub]:
    """Starts servers that answer every request alike; `server(status, body)` is the address of one."""
    servers = []

    def start(status: int, body: Any = None, headers: dict[str, str] = OURS) -> str:
        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                """Answer."""
                self.rfile.read(int(self.headers.get("content-length") or 0))
                text = json.dumps(body or {}).encode()
                self.send_response(status)
                for name, value in {**headers, "content-type": "application/json", "content-length": str(len(text))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = handle_any  # noqa: N815 - as the library calls them

            def log_message(self, format: str, *arguments: object) -> None:
                """Say nothing."""

        stub = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=stub.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(stub)
        return f"127.0.0.1:{stub.server_address[1]}"

    yield start
    for one in servers:
        one.shutdown()
        one.server_close()


def marked(form: str) -> dict[str, Any]:
    """What a server knows of the position of an index of a form."""
    return {"_index": f"orders-{form}-{DIGITS}", "found": True, "_source": {"position": 7}}


@SCHEMES
def test_a_client_that_is_not_installed(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said which extra brings it."""
    monkeypatch.setitem(sys.modules, {"elasticsearch": "elasticsearch", "opensearch": "opensearchpy"}[scheme], None)
    with pytest.raises(MissingExtra, match=rf"conductorlite\[{scheme}\]"):
        Engine(index=f"{scheme}://127.0.0.1:1/orders")


@SCHEMES
def test_a_server_that_is_not_there(scheme: str, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody listens: that is logged, executions begin, and the store answers searches."""
    caplog.set_level(logging.WARNING, logger="conductorlite")
    with Engine(index=f"{scheme}://127.0.0.1:1/orders", clock=VirtualClock()) as engine:
        assert "the search server cannot be reached yet, the store answers searches meanwhile" in caplog.text
        run = engine.start(WorkflowDef(name="w", tasks=[WorkflowTask(name="t", task_reference_name="t")]))
        assert [one.workflow_id for one in engine.search("workflowType = w").results] == [run.workflow_id]


@SCHEMES
def test_a_server_without_its_cluster(server: Stub, scheme: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is not there yet either."""
    caplog.set_level(logging.WARNING, logger="conductorlite")
    with Engine(index=f"{scheme}://me:wrong@{server(503, BUSY)}/orders?timeout=5", clock=VirtualClock()):
        assert "the search server cannot be reached yet" in caplog.text
        assert "no master" in caplog.text
        assert "wrong" not in caplog.text


REFUSAL = {"error": {"root_cause": [{"type": "security_exception", "reason": "unable to authenticate user [me]"}]}, "status": 401}
BUSY = {"error": {"root_cause": [{"type": "cluster_block_exception", "reason": "no master"}]}, "status": 503}


@SCHEMES
@pytest.mark.parametrize(
    ("status", "body", "error", "text"),
    [
        (401, REFUSAL, AccessDenied, "unable to authenticate user"),
        (403, REFUSAL, AccessDenied, "unable to authenticate user"),
        (200, marked("2"), SchemaTooNew, "form 2.*up to 1"),
        (200, marked("later"), InvalidInput, "not made by conductorlite"),
        (200, {"_index": "of-others", "found": False}, InvalidInput, "not made by conductorlite"),
    ],
)
def test_a_server_that_refuses(
    server: Stub, scheme: str, status: int, body: Any, error: type[ConductorliteError], text: str
) -> None:
    """A wrong password, an index of a newer conductorlite, one of somebody else."""
    with pytest.raises(error, match=text) as raised:
        Engine(index=f"{scheme}://me:wrong@{server(status, body)}/orders?timeout=5")
    assert type(raised.value) is error
    assert "wrong" not in str(raised.value)


@pytest.mark.parametrize(("scheme", "text"), [("elasticsearch", "no Elasticsearch"), ("opensearch", "no search server")])
def test_what_is_no_search_server(server: Stub, scheme: str, text: str) -> None:
    """Something else that speaks HTTP."""
    with pytest.raises(InvalidInput, match=text):
        Engine(index=f"{scheme}://{server(200, {'hello': 'world'}, {})}/orders")


@pytest.mark.parametrize(
    ("rest", "text"),
    [
        ("Orders", "no name of an index"),
        ("orders?tls=yes", "tls is true or false"),
        ("orders?timeout=soon", "timeout is a number"),
        ("orders?timeout=0", "timeout is a number of seconds, 1 or more"),
        ("orders?shards=0", "shards is a number, 1 or more"),
        ("orders?ca=ca.pem", "tls=true"),
    ],
)
def test_a_url_that_says_nothing(rest: str, text: str) -> None:
    """What cannot be is refused before anybody is asked."""
    with pytest.raises(InvalidInput, match=text):
        Engine(index=f"elasticsearch://127.0.0.1:1/{rest}")


@SCHEMES
def test_an_index_of_an_older_form_is_opened(server: Stub, scheme: str) -> None:
    """It is for the feeder to build it again, not for the caller."""
    with Engine(index=f"{scheme}://{server(200, marked('0'))}/orders") as one, pytest.raises(StorageCorrupt, match="form 0"):
        one.core.index.standing()  # type: ignore[union-attr]


class Later:
    """An index that a newer conductorlite has taken over."""

    def __init__(self) -> None:
        self.inner, self.newer = MemoryIndex(), True

    def standing(self) -> tuple[str, int]:
        """Nothing for us."""
        if self.newer:
            raise SchemaTooNew("orders has form 2; this conductorlite knows up to 1")
        return self.inner.standing()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def test_an_index_that_a_newer_one_has_taken_over() -> None:
    """Nothing of it is changed; executions go on, and searches are answered by the store."""
    index = Later()
    with Engine(workers=workers(), clock=VirtualClock(1_000), index=index) as one:
        before = set(index.inner._shared.indexes)
        place(one, 0, 3)
        assert one.run_until_idle()
        assert one.search("status = COMPLETED").total_hits == 1
        assert "form 2" in str(one.admin.index_health())
        assert set(index.inner._shared.indexes) == before
        index.newer = False
        one.advance("2m")
        one.run_until_idle()
        agrees(one)
