"""The pages of an engine over HTTP: what is shown and to whom, verbs, and changes that come by themselves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import httpx
from starlette.applications import Starlette
from starlette.routing import Mount
from test_safety import OURS, TOKEN, asked, shown, statuses

from conductorlite import AsyncEngine, Engine, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.errors import InvalidInput
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.server.pages import engine_app
from conductorlite.server.running import serve, served
from conductorlite.server.safety import Role, Safety

ASKS = WorkflowDef(
    name="asks",
    tasks=[
        WorkflowTask(name="a", task_reference_name="approval", type="HUMAN"),
        WorkflowTask(name="s", task_reference_name="s", type="NOOP"),
    ],
)
SIGNED = shown(authorization=f"Bearer {TOKEN}")


def engine_with(*ids: str) -> Engine:
    """An engine in memory with executions that wait for somebody."""
    engine = Engine(clock=VirtualClock())
    for one in ids:
        engine.start(ASKS, workflow_id=one)
    engine.settle()
    return engine


def test_the_pages_lead_to_each_other() -> None:
    """The store's page links each execution, whatever its id; what is not there is a page that says so."""
    odd = "a/b <&> 100% ü?#"
    with engine_with("b-1", odd) as engine:
        app = engine_app(engine)
        [store] = asked(app, ("GET", "/", {}))
        links = [link for link in store.text.split('href="') if link.startswith("/executions/")]
        paths = {link.partition('"')[0] for link in links}
        assert len(paths) == 2
        pages = asked(app, *(("GET", path, {}) for path in sorted(paths)), ("GET", "/executions/no", shown(accept="text/html")))
        assert [page.status_code for page in pages] == [200, 200, 404]
        assert "a/b &lt;&amp;&gt; 100% ü?#" in pages[0].text
        assert "frame-ancestors 'none'" in store.headers["content-security-policy"]
        assert "connect-src &#x27;self&#x27;" in store.text


def test_mounted_and_awaited() -> None:
    """In the user's own app, with an AsyncEngine: every address begins with the mount."""

    async def main() -> list[httpx.Response]:
        async with AsyncEngine() as engine:
            await engine.start(ASKS, workflow_id="b-1")
            app = Starlette(routes=[Mount("/workflows", engine_app(engine, Safety(token=TOKEN)))])
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=OURS) as client:
                paths = ("/workflows/", "/workflows/executions/b-1", "/workflows/login")
                pages = [await client.get(path) for path in paths]
                sent = await client.post("/workflows/executions/b-1/terminate", **shown(accept="text/html", **SIGNED["headers"]))
                assert await engine.status("b-1") is WorkflowStatus.TERMINATED
                return [*pages, sent, await client.post("/workflows/executions/b-1/pause", headers={"accept": "text/html"})]

    *pages, sent, refused = asyncio.run(asyncio.wait_for(main(), 30))
    assert [page.status_code for page in pages] == [200, 200, 200]
    assert 'href="/workflows/executions/b-1"' in pages[0].text
    assert 'data-changes="/workflows/changes/executions/b-1"' in pages[1].text
    assert 'action="/workflows/login"' in pages[2].text
    assert (sent.status_code, sent.headers["location"]) == (303, "/workflows/executions/b-1")
    assert refused.status_code == 401


def test_verbs() -> None:
    """Each verb that the page has a form for does what the engine's does, from a form and from JSON."""
    with engine_with("b-1") as engine:
        app = engine_app(engine, Safety(token=TOKEN))

        def sent(verb: str, given: dict[str, Any], *, form: bool = False) -> tuple[int, WorkflowStatus]:
            options = {**SIGNED, ("data" if form else "json"): given}
            [answer] = asked(app, ("POST", f"/executions/b-1/{verb}", options))
            engine.settle()
            return answer.status_code, engine.status("b-1")

        assert sent("pause", {}) == (200, WorkflowStatus.PAUSED)
        assert sent("resume", {}, form=True) == (200, WorkflowStatus.RUNNING)
        assert sent("update_variables", {"variables": '{"a": 1}'}, form=True)[0] == 200
        assert sent("skip_task", {"ref": "s", "output": {"skipped": True}})[0] == 200
        assert sent("signal", {"task": "approval", "output": '{"ok": true}', "status": "COMPLETED", "reason": ""}, form=True) == (
            200,
            WorkflowStatus.COMPLETED,
        )
        assert engine.get("b-1").variables.fresh() == {"a": 1}
        assert {task.ref: task.output_data for task in engine.get("b-1").tasks}["approval"] == {"ok": True}
        assert sent("rerun", {"from_task": "approval", "task_input": {"n": 1}}) == (200, WorkflowStatus.RUNNING)
        assert sent("terminate", {"reason": "enough"}) == (200, WorkflowStatus.TERMINATED)
        assert sent("retry", {"resume_subworkflow_tasks": "true"}, form=True) == (200, WorkflowStatus.RUNNING)
        assert sent("terminate", {}) == (200, WorkflowStatus.TERMINATED)
        assert sent("restart", {"use_latest_definitions": False}) == (200, WorkflowStatus.RUNNING)
        assert sent("retry", {}) == (409, WorkflowStatus.RUNNING)


@pytest.mark.parametrize(
    ("verb", "options", "status", "said"),
    [
        ("explode", {"json": {}}, 400, "there is no verb 'explode'"),
        ("close", {"json": {}}, 400, "there is no verb"),
        ("pause", {"json": {"a": 1, "b": 2}}, 400, "takes no 'a'; pause takes no 'b'"),
        (
            "signal",
            {"data": {"status": "GO", "output": "[1]", "x": "1"}},
            400,
            "takes no 'x'; status 'GO' is no status of a task; output is no JSON object",
        ),
        ("skip_task", {"json": {}}, 400, "needs 'ref'"),
        ("update_variables", {"json": {"variables": None}}, 400, "needs 'variables'"),
        ("terminate", {"content": b"[1]", "headers": {"content-type": "application/json"}}, 400, "no JSON object"),
        ("terminate", {"content": b'{"reason":', "headers": {"content-type": "application/json"}}, 400, "JSON"),
        ("terminate", {"content": b"\xff\xfe", "headers": {"content-type": "application/json"}}, 400, "the body"),
        ("terminate", {"json": {"reason": 7}}, 400, "reason is no text"),
        ("rerun", {"data": {"from_task": "nowhere"}}, 404, "nowhere"),
    ],
)
def test_bad_input_is_a_sentence(verb: str, options: dict[str, Any], status: int, said: str) -> None:
    """Nothing is changed, and everything that is wrong is named."""
    with engine_with("b-1") as engine:
        before = engine.get("b-1")
        options = {**options, "headers": {**options.get("headers", {}), **SIGNED["headers"]}}
        [answer] = asked(engine_app(engine, Safety(token=TOKEN)), ("POST", f"/executions/b-1/{verb}", options))
        assert (answer.status_code, said in answer.json()["message"]) == (status, True), answer.text
        assert engine.get("b-1") == before


def test_verbs_are_refused() -> None:
    """Without a token, with another role, when it is read-only, from elsewhere: nothing happens."""
    with engine_with("b-1") as engine:
        pause = ("POST", "/executions/b-1/pause")
        roles = {"r" * 16: Role.READ}
        reader, nobody = shown(x_authorization="r" * 16), shown(x_authorization="no" * 9)
        assert statuses(engine_app(engine, Safety(token=TOKEN)), (*pause, {}), (*pause, nobody)) == [
            401,
            401,
        ]
        assert statuses(engine_app(engine), (*pause, {}), (*pause, SIGNED)) == [401, 401]
        assert statuses(engine_app(engine, Safety(token=roles.get)), (*pause, reader)) == [403]
        assert statuses(engine_app(engine, Safety(token=TOKEN, read_only=True)), (*pause, SIGNED)) == [403]
        elsewhere = shown(origin="https://evil.example", **SIGNED["headers"]), shown(host="evil.example", **SIGNED["headers"])
        assert statuses(engine_app(engine, Safety(token=TOKEN)), *((*pause, one) for one in elsewhere)) == [403, 403]
        assert engine.status("b-1") is WorkflowStatus.RUNNING


def test_a_browser_signs_in() -> None:
    """Forms are shown to who is signed in, with a proof of the session; nobody else sees a form or a token."""
    with engine_with("b-1") as engine:
        app = engine_app(engine, Safety(token=TOKEN))
        out, wrong, right = asked(
            app,
            ("GET", "/executions/b-1", {}),
            ("POST", "/login", {"data": {"token": "guess-guess-guess"}}),
            ("POST", "/login", {"data": {"token": TOKEN}}),
        )
        assert ("Sign in to act" in out.text, 'action="/executions' in out.text) == (True, False)
        assert (wrong.status_code, right.status_code) == (401, 303)
        cookie = {"cookie": right.headers["set-cookie"].partition(";")[0]}
        [page] = asked(app, ("GET", "/executions/b-1", {"headers": cookie}))
        proof = page.text.partition('name="csrf" value="')[2].partition('"')[0]
        assert len(proof) == 64
        form = {"headers": {**cookie, "origin": OURS}, "data": {"csrf": proof}}
        bare = {"headers": {**cookie, "origin": OURS}, "data": {}}
        assert statuses(app, ("POST", "/executions/b-1/pause", bare), ("POST", "/executions/b-1/pause", form)) == [403, 200]
        assert engine.status("b-1") is WorkflowStatus.PAUSED
        assert statuses(app, ("POST", "/logout", form), ("GET", "/executions/b-1", {"headers": cookie})) == [303, 200]
        assert not [one for one in (out, wrong, page) if TOKEN in one.text]
        readers = engine_app(engine, Safety(token=TOKEN, read_only=True))
        assert "csrf" not in asked(readers, ("GET", "/executions/b-1", {}))[0].text


async def _events(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, Any]]:
    kind = ""
    async for line in lines:
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield kind, json.loads(value)


def test_changes_come_by_themselves(tmp_path: Path) -> None:
    """A commit of this process and one of another reach every browser that looks, only the parts that differ; no thread waits."""
    file = tmp_path / "live.db"

    async def main(url: str) -> list[Any]:
        async with httpx.AsyncClient(base_url=url, timeout=20, trust_env=False) as client:
            page = (await client.get("/executions/b-1")).text
            have = page.partition('data-shown="')[2].partition('"')[0]
            address = f"/changes/executions/b-1?have={have}"
            async with (
                client.stream("GET", address) as one,
                client.stream("GET", address) as two,
                client.stream("GET", "/changes") as all_,
            ):
                news = [_events(answer.aiter_lines()) for answer in (one, two, all_)]
                first = await anext(news[2])
                engine.pause("b-1")
                paused = [await _until(each, "PAUSED") for each in news[:2]]
                with Engine(file) as other:
                    other.terminate("b-1", "by another process")
                ended = [await _until(each, "by another process") for each in news]
                return [first, *paused, *ended]

    with Engine(file) as engine:
        engine.start(ASKS, workflow_id="b-1")
        app = engine_app(engine)
        with served(app, app.safety, ending=app.end_streams) as url:
            first, *others = asyncio.run(asyncio.wait_for(main(url), 60))
    assert "b-1" in json.dumps(first[1]["parts"])
    assert all(kind == "parts" for kind, _ in others)
    assert "graph" not in others[0][1]["parts"] or "top" in others[0][1]["parts"]


async def _until(news: AsyncIterator[tuple[str, Any]], wanted: str) -> tuple[str, Any]:
    async for kind, found in news:
        if wanted in json.dumps(found):
            return kind, found
    raise AssertionError(f"{wanted} did not come")


def test_where_it_may_listen() -> None:
    """On another address than loopback a token is needed; a port that is taken is an error."""
    with engine_with() as engine:
        app = engine_app(engine)
        with pytest.raises(InvalidInput, match="needs a token"):
            serve(app, app.safety, host="0.0.0.0")
        with served(app, app.safety) as url, pytest.raises(OSError, match="cannot listen"):
            serve(app, app.safety, port=int(url.rpartition(":")[2]))
