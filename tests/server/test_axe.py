"""axe-core finds nothing wrong with the pages, still or live, light or dark, on a desk or a phone.

`AXE=FOLDER/node_modules/axe-core/axe.min.js pytest -m slow tests/server/test_axe.py`, after `npm i --prefix FOLDER axe-core`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from chromium_kit import CHROMIUM, Browser
from test_safety import TOKEN

from conductorlite import Engine, VirtualClock, flow, task
from conductorlite.flows import human
from conductorlite.server.pages import engine_app
from conductorlite.server.running import served
from conductorlite.server.safety import Safety

sys.path.append(str(Path(__file__).parents[1] / "examples"))

from scripts import load

AXE = os.environ.get("AXE")

NAMES = ("failed", "waiting", "wide", "many")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; Debian's package is `chromium`"),
    pytest.mark.skipif(AXE is None, reason="AXE names no axe.min.js: npm i --prefix FOLDER axe-core"),
]

RUN = """axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations.map(
    (one) => `${one.id}: ${one.nodes[0].html.slice(0, 200)}`))"""


@task(retry=0)
def charge(n: int) -> int:
    """Fails for one in seven."""
    if n % 7 == 3:
        raise ValueError("no money")
    return n


@task
def note(text: str) -> str:
    """Keeps a word."""
    return text


@flow
def collect(n: int) -> str:
    """A `try` in a loop, and a person in another one."""
    for number in range(n):
        try:
            charge(number)
            note("paid")
        except ValueError:
            note("failed")
    try:
        note("asked")
        human("approval", bool)
    except TimeoutError:
        note("nobody")
    return "done"


def _wrong(browser: Browser) -> Any:
    browser.ask(f"{Path(str(AXE)).read_text(encoding='utf-8')}; 1")
    wider = browser.ask("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return [*browser.ask(RUN), *([f"{wider} pixels wider than the screen"] if wider > 0 else [])]


@pytest.fixture(params=[("desk", False), ("desk", True), ("phone", False), ("phone", True)], ids=lambda one: f"{one[0]}-{one[1]}")
def browser(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Browser]:
    """Light and dark, wide and narrow."""
    size, dark = request.param
    with Browser(tmp_path, (1280, 900) if size == "desk" else (390, 844), dark=dark) as one:
        yield one


@pytest.fixture
def engine() -> Iterator[Engine]:
    """One that has failed and was undone, one that waits for somebody, one of sixty items, one of 500 attempts with a `try`."""
    pipeline, etl, saga = (load(f"{name}/{name}.py") for name in ("pipeline", "etl", "booking_saga"))
    flows = [pipeline.pipeline, etl.etl, saga.booking, collect]
    with Engine(workers=flows, clock=VirtualClock("2030-01-01T09:00:00Z")) as one:
        one.start(pipeline.pipeline.options(workflow_id="failed"), commit="bad")
        one.start(etl.etl.options(workflow_id="wide"), count=60)
        one.start(collect.options(workflow_id="many"), n=125)
        one.settle()
        one.advance("1m")
        one.start(saga.booking.options(workflow_id="waiting"), to="Rome", amount=3.0)
        one.settle()
        yield one


def test_still_pages(browser: Browser, engine: Engine, tmp_path: Path) -> None:
    """One file each: of executions, and of the store."""
    pages = {name: engine.admin.page(name) for name in NAMES} | {"store": engine.admin.page()}
    for name, page in pages.items():
        file = tmp_path / f"{name}.html"
        file.write_text(page, encoding="utf-8")
        browser.open(f"file://{file}")
        browser.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert (name, _wrong(browser)) == (name, [])
    assert browser.complaints == []


def test_live_pages(browser: Browser, engine: Engine) -> None:
    """Before and after signing in: the list, the executions with the forms of their verbs."""
    app = engine_app(engine, Safety(token=TOKEN))
    with served(app, app.safety, ending=app.end_streams) as url:
        browser.open(f"{url}/login")
        assert _wrong(browser) == []
        browser.open(f"{url}/login#token={TOKEN}")
        browser.until("document.querySelector('h1')?.textContent === 'Executions'")
        assert _wrong(browser) == []
        for name in NAMES:
            browser.open(f"{url}/executions/{name}")
            browser.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            assert (name, _wrong(browser)) == (name, [])
