"""The documentation as a site."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import DOCS, ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as documented; without MkDocs these tests are skipped."""
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", "mkdocs.yml", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # an announcement
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_the_site_has_every_page(site: Path) -> None:
    """The strict build gives no warning, and each page of docs/ is there, with the house beside them."""
    pages = {page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")}
    built = {page.relative_to(site) for page in site.rglob("*.html")} - {Path("404.html")}
    assert built == pages | {Path("explanation/house.html")}
    assert not list(site.rglob("*.py"))
    links = re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text(encoding="utf-8"))
    assert [link for link in links if not (site / link).exists()] == []
    assert (site / "llms-full.txt").stat().st_size > 400_000


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    """No link of a built page leads to a file that was not built."""
    broken = []
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue
        for target in re.findall(r'(?:href|src)="([^"#]+)', page.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:", target) and not (page.parent / html.unescape(target)).exists():
                broken.append(f"{page.relative_to(site)}: {target}")
    assert broken == []


def test_what_is_written_is_what_is_shown(site: Path) -> None:
    """No list, table or fence of a page has been taken for running text, and nothing is fetched from elsewhere."""
    odd = []
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        if re.search(r"<p>(?:(?!</p>).)*(?:^- |^\||```|^\d\. )", text, re.MULTILINE | re.DOTALL):
            odd.append(f"{page.relative_to(site)}: a list, table or fence within a paragraph")
        odd += [f"{page.relative_to(site)}: {url}" for url in re.findall(r'<(?:script|link)[^>]*(https?://[^"]+)', text)]
    assert odd == []


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

_SEARCH = """(async () => {
  const asked = document.querySelector("input[data-md-component=search-query]");
  const toggle = document.querySelector("#__search");
  toggle.checked = true;
  toggle.dispatchEvent(new Event("change"));
  asked.focus();
  asked.value = "idempotency key";
  asked.dispatchEvent(new Event("focus"));
  const found = () => [...document.querySelectorAll(".md-search-result__link")].map((link) => link.pathname);
  for (let tries = 0; tries < 80 && !found().length; tries++) {
    asked.dispatchEvent(new KeyboardEvent("keyup"));
    await new Promise((later) => setTimeout(later, 250));
  }
  document.title = JSON.stringify(found());
})()"""


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; Debian's package is `chromium`")
def test_the_search_works_from_the_disk(site: Path, tmp_path: Path) -> None:
    """In a page that was opened as a file, without a server and a network, and the console says nothing."""
    page = site / "searched.html"
    text = (site / "index.html").read_text(encoding="utf-8")
    page.write_text(text.replace("</body>", f"<script>{_SEARCH}</script></body>"), encoding="utf-8")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        "--virtual-time-budget=60000",
        "--dump-dom",
    ]
    command = [str(CHROMIUM), *options, f"--user-data-dir={tmp_path / 'profile'}", f"file://{page}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    page.unlink()
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert title is not None
    assert any(path.endswith("how-to/start-once.html") for path in json.loads(html.unescape(title[1])))
