"""Every relative link leads somewhere, and every page can be reached."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import DOCS, ROOT, anchors, name_of, pages, without_code

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def _targets(page: Path) -> list[tuple[str, str]]:
    found = []
    for target in _LINK.findall(without_code(page)):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            found.append((path, anchor))
    return found


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    """Each relative link names a file of the repository, and its anchor a heading of that page."""
    broken = []
    for path, anchor in _targets(page):
        target = (page.parent / path).resolve() if path else page
        if not target.is_relative_to(ROOT) or not target.exists():
            broken.append(path)
        elif anchor and anchor not in anchors(target):
            broken.append(f"{path}#{anchor}")
    assert broken == []


def test_every_page_is_reached_from_the_index() -> None:
    """From docs/index.md one comes to every page of the documentation."""
    reached: set[Path] = set()
    waiting = [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        linked = [(page.parent / path).resolve() for path, _ in _targets(page) if path]
        waiting += [target for target in linked if target.is_file()]
    assert sorted(name_of(page) for page in pages() if page not in reached and DOCS in page.parents) == []


def test_named_tests_exist() -> None:
    """Every test that a page names as its witness is there."""
    missing = []
    for page in pages():
        for file, test in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text(encoding="utf-8")):
            path = ROOT / file
            if not path.exists() or (test and f"def {test}(" not in path.read_text(encoding="utf-8")):
                missing.append(f"{name_of(page)}: {file}::{test}")
    assert missing == []
