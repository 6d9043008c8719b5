"""The live pages in a real browser; skipped where there is no Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from chromium_kit import CHROMIUM, Browser
from test_pages import ASKS
from test_safety import TOKEN

from conductorlite import Engine, Workers, WorkflowDef
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.server.pages import engine_app
from conductorlite.server.running import served
from conductorlite.server.safety import Safety

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; Debian's package is `chromium`")]


def test_a_person_looks_and_acts(tmp_path: Path) -> None:
    """Signed in by the printed address; a change of another process shows without loading, what was opened stays open, a verb
    works from its form, and one that is refused says why. The console complains of nothing."""
    file = tmp_path / "live.db"
    with Engine(file) as engine, Browser(tmp_path) as browser:
        engine.start(ASKS, workflow_id="b-1")
        app = engine_app(engine, Safety(token=TOKEN))
        with served(app, app.safety, ending=app.end_streams) as url:
            browser.open(f"{url}/login#token={TOKEN}")
            browser.until("document.querySelector('h1')?.textContent === 'Executions'")
            assert browser.ask("location.hash + document.body.innerHTML.includes('Sign out')") == "true"
            browser.open(f"{url}/executions/b-1")
            browser.ask("window.here = true; document.querySelector('.attempt').open = true")
            with Engine(file) as other:
                other.pause("b-1")
            browser.until("document.querySelector('h1').textContent.includes('PAUSED')")
            assert browser.ask("here && document.querySelector('.attempt').open && document.title.includes('PAUSED')")
            browser.ask("document.querySelector('form[action$=resume] button').click()")
            browser.until("document.querySelector('h1').textContent.includes('RUNNING')")
            signal = "document.querySelector('form[action$=signal]')"
            browser.until(f"{signal} !== null")
            browser.ask(f"{signal}.elements.output.value = '[1]'; {signal}.requestSubmit()")
            browser.until("document.getElementById('said').textContent === 'output is no JSON object'")
            browser.ask(f"{signal}.elements.output.value = '{{\"ok\": true}}'; {signal}.requestSubmit()")
            engine.settle()
            browser.until("document.getElementById('said').textContent === 'Done: End approval'")
            engine.settle()
            browser.until("document.querySelector('h1').textContent.includes('COMPLETED')")
            assert browser.ask("here")
            assert engine.status("b-1") is WorkflowStatus.COMPLETED
        browser.until("document.getElementById('said').textContent.startsWith('The server does not answer')")
        # A verb that is refused, and a server that is gone, are all that the console has.
        assert [one for one in browser.complaints if "400 (Bad Request)" not in one and "ERR_" not in one] == []


def test_folds_of_a_part_that_has_changed(tmp_path: Path) -> None:
    """Attempts in a fold that was never open are found, and shown when it is opened, also after the part was replaced."""
    workers = Workers()
    workers.add("a", lambda: None)
    steps = [{"name": "a", "taskReferenceName": f"a{number}"} for number in range(250)]
    with Engine(workers=workers) as engine, Browser(tmp_path) as browser:
        engine.start(WorkflowDef.from_json({"name": "long", "tasks": [*steps, ASKS.tasks[0].to_json()]}), workflow_id="b-1")
        engine.settle()
        app = engine_app(engine, Safety())
        with served(app, app.safety, ending=app.end_streams) as url:
            browser.open(f"{url}/executions/b-1")
            browser.ask("window.old = document.querySelector('.attempt')")
            browser.until("!document.contains(old)")
            search = "document.querySelector('#attempts form.filter')"
            browser.ask(f"{search}.elements.text.value = 'a24'; {search}.dispatchEvent(new Event('input'))")
            assert browser.ask(f"{search}.querySelector('output').textContent") == "11 of 251 shown"
            assert browser.ask("document.querySelectorAll('.attempt:not([hidden])').length") == 11
            assert browser.complaints == []


def test_nothing_moves_while_a_form_is_filled_in(tmp_path: Path) -> None:
    """The part with the form waits, the others do not."""
    with Engine() as engine, Browser(tmp_path) as browser:
        engine.start(ASKS, workflow_id="b-1")
        app = engine_app(engine, Safety(token=TOKEN))
        with served(app, app.safety, ending=app.end_streams) as url:
            browser.open(f"{url}/login#token={TOKEN}")
            browser.until("document.querySelector('h1')?.textContent === 'Executions'")
            browser.open(f"{url}/executions/b-1")
            browser.ask("document.querySelector('form[action$=signal]').elements.reason.value = 'because'")
            engine.pause("b-1")
            browser.until("document.querySelector('h1').textContent.includes('PAUSED')")
            assert browser.ask("document.querySelector('form[action$=signal]').elements.reason.value") == "because"
            browser.ask("document.querySelector('form[action$=signal]').reset()")
            browser.until("document.querySelector('form[action$=resume]') !== null")
            assert browser.complaints == []
