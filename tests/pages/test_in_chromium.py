"""The pages in a real browser: no error, filters and folds that work, 10,000 attempts; skipped where there is no Chromium."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from page_kit import read
from test_execution_page import hostile, wide

from conductorlite import Engine
from conductorlite.pages.views import execution_page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; Debian's package is `chromium`")]


def browsed(page: str, script: str, folder: Path, hash: str = "") -> Any:
    """What a script answers at the end of the page, which its policy is made to allow; fails if the console says anything."""
    script = f"(async () => {{ const answer = await (async () => {{ {script} }})(); document.title = JSON.stringify(answer); }})();"
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = page.replace("script-src", f"script-src &#x27;sha256-{allowed}&#x27;", 1).replace(
        "</body>", f"<script>{script}</script></body>"
    )
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        "--virtual-time-budget=60000",
        "--dump-dom",
    ]
    command = [str(CHROMIUM), *options, f"--user-data-dir={folder / 'profile'}", f"file://{file}{hash}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    found = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert found is not None
    return json.loads(unescape(found[1]))


def test_a_click_on_a_place_leads_to_its_attempts(tmp_path: Path) -> None:
    """Of 10,000 attempts one fold is elements at first; a click on 5,000 × transform shows those, and opens where it failed."""
    page = execution_page(wide(5_000, 4)).html()
    assert len(page) < 8_000_000
    script = """
      const rows = () => document.querySelectorAll("[data-s]").length;
      const before = [rows(), document.querySelectorAll("*").length < 6000];
      document.querySelector("svg a.place.bad").dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
      const shown = document.querySelectorAll("[data-s]:not([hidden])").length;
      const said = document.querySelector("output").textContent;
      return [...before, rows(), shown, said, document.activeElement.textContent.slice(0, 2)];
    """
    assert browsed(page, script, tmp_path) == [200, True, 10_000, 5_000, "5,000 of 10,000 shown", "b0"]


def test_an_address_opens_what_it_names(tmp_path: Path) -> None:
    """The address of an attempt in a fold that is closed opens it; searching leaves what fits, and starting over shows all."""
    script = """
      const open = document.getElementById("a777").closest(".chunk").open;
      const form = document.querySelector("form.filter");
      form.elements.status.value = "FAILED";
      form.dispatchEvent(new Event("input"));
      const failed = form.querySelector("output").textContent;
      form.reset();
      await new Promise((done) => setTimeout(done, 50));
      return [open, failed, form.querySelector("output").textContent, document.querySelectorAll("[data-s]:not([hidden])").length];
    """
    page = execution_page(wide(500, 4)).html()
    assert browsed(page, script, tmp_path, "#a777") == [True, "4 of 1,000 shown", "", 1_000]


@pytest.mark.parametrize("kind", ["hostile", "store"])
def test_pages_are_what_a_browser_makes_of_them(kind: str, tmp_path: Path) -> None:
    """Hostile texts run nothing and load nothing; every element is there as it was written, folds included."""
    if kind == "hostile":
        page = hostile()
    else:
        with Engine() as engine:
            page = engine.admin.page()
    wanted = len([one for one in read(page) if one.tag != ""]) + 1
    script = """
      for (const fold of document.querySelectorAll(".chunk")) fold.open = true;
      return document.querySelectorAll("*").length;
    """
    assert browsed(page, script, tmp_path) == wanted
