"""Pages are well-formed, in the index and in the navigation: what a merge has glued together is found."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from pages import DOCS, ROOT, name_of, pages

_FENCE: Final = re.compile(r"^ *```")
_HEADING: Final = re.compile(r"^(#{1,6}) (.+)$")
_CELLS: Final = re.compile(r"(?<!\\)\|")


def _lines(page: Path) -> list[tuple[int, str]]:
    """The lines of a page outside of its fenced blocks, numbered; a fence's own lines are empty."""
    found, inside = [], False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line) is not None
        inside = inside != fence
        found.append((number, "```" if fence else "" if inside else line))
    assert not inside, f"{name_of(page)}: a fence is not closed"
    return found


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_headings(page: Path) -> None:
    """One title, at the top; no level is left out; none stands twice under the same one; blank lines around each."""
    lines = _lines(page)
    odd: list[str] = []
    path: list[str] = []
    seen: set[tuple[str, ...]] = set()
    for place, (number, line) in enumerate(lines):
        match = _HEADING.match(line)
        if match is None:
            continue
        level = len(match[1])
        if (level == 1) != (not path) or level > len(path) + 1:
            odd.append(f"{number}: level {level} after {len(path)}")
        path = [*path[: level - 1], match[2]]
        if tuple(path) in seen:
            odd.append(f"{number}: {match[2]!r} twice")
        seen.add(tuple(path))
        around = [lines[memo][1] for memo in (place - 1, place + 1) if 0 <= memo < len(lines)]
        if any(memo.strip() for memo in around):
            odd.append(f"{number}: no blank line around {match[2]!r}")
    assert odd == []
    assert seen, "a page has a title"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_tables(page: Path) -> None:
    """A head, a line of dashes, and in every row as many cells, none of them empty; blank lines around the table."""
    lines = [*_lines(page), (0, "")]
    odd: list[str] = []
    columns: int | None = None
    for place, (number, line) in enumerate(lines):
        before, after = lines[place - 1][1] if place else "", lines[place + 1][1] if place + 1 < len(lines) else ""
        if not line.startswith("|"):
            columns = None
            continue
        cells = _CELLS.split(line.strip())[1:-1]
        if columns is None:
            columns = len(cells)
            if before.strip() or not re.fullmatch(r"[|:-]+", after):
                odd.append(f"{number}: a table begins without a blank line or a head")
        elif len(cells) != columns or not line.rstrip().endswith("|"):
            odd.append(f"{number}: {len(cells)} cells instead of {columns}")
        elif any(not cell.strip() for cell in cells):
            odd.append(f"{number}: an empty cell")
        if after.strip() and not after.startswith("|"):
            odd.append(f"{number}: a table ends without a blank line")
    assert odd == []


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_paragraphs(page: Path) -> None:
    """What begins with its point in bold, a list or a fence begins after a blank line, and no mark of a merge is left."""
    odd: list[str] = []
    before = ""
    for number, line in _lines(page):
        begins = re.match(r"\*\*[^*]+\.\*\*|- |```", line) is not None
        if begins and line != "```" and before.strip() and not re.match(r"[- ]|<!--", before):
            odd.append(f"{number}: glued to the line before: {line[:40]}")
        if re.match(r"<{7}|={7}$|>{7}", line):
            odd.append(f"{number}: left over from a merge")
        before = line
    assert odd == []


def test_every_page_is_in_the_index() -> None:
    """docs/index.md itself names every page, each once."""
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    named = [(DOCS / path).resolve() for path in re.findall(r"\]\(([^)#]+\.md)\)", text)]
    wanted = {page for page in pages() if DOCS in page.parents} - {DOCS / "index.md"}
    assert sorted(named) == sorted(wanted | {ROOT / "ARCHITECTURE.md"})


def test_every_page_is_in_the_navigation() -> None:
    """mkdocs.yml has every page once, and no other; the house is made of ARCHITECTURE.md."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r": ([\w/-]+\.md)$", text, re.MULTILINE)
    wanted = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    assert sorted(named) == sorted([*wanted, "explanation/house.md"])


def test_every_page_is_in_the_folder_of_its_kind() -> None:
    """The index lists the pages of each folder under the heading of its kind."""
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    kinds = {
        "Learning": "tutorial",
        "Doing": "how-to",
        "Looking up": "reference",
        "Understanding": "explanation",
        "Contributing": "contributing",
    }
    parts = re.split(r"^\*\*(Learning|Doing|Looking up|Understanding|Contributing)\*\*", text, flags=re.MULTILINE)[1:]
    found = {kind: set(re.findall(r"\]\(([\w-]+)/", part)) for kind, part in zip(parts[::2], parts[1::2], strict=True)}
    assert found == {kind: {folder} for kind, folder in kinds.items()}
