"""What the tests of the documentation look at: pages, their fenced blocks, their headings and links."""

from __future__ import annotations

import re
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[a-z]*)\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!-- (?P<mark>[a-z]+)(?:: (?P<name>[\w./-]+))? -->\s*\Z")


@attrs.frozen(kw_only=True)
class Block:
    """A fenced block: its language, its text, the line it begins on, and the mark in the comment before it, maybe with a name."""

    language: str
    code: str
    line: int
    mark: str | None
    name: str | None = None


def pages() -> list[Path]:
    """Every page of the documentation, the README and its like included."""
    beside = [page for folder in ("examples", "tests") for page in (ROOT / folder).rglob("README.md")]
    return [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")), *sorted(beside)]


def name_of(page: Path) -> str:
    """A page as it is called in messages."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        before = _MARK.search(text[: match.start()])
        found.append(
            Block(
                language=match["language"],
                code=match["code"],
                line=text.count("\n", 0, match.start()) + 1,
                mark=before["mark"] if before else None,
                name=before["name"] if before else None,
            )
        )
    return found


def without_code(page: Path) -> str:
    """The text of a page without its fenced blocks and `code`."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made from them on GitHub."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        number = 0
        while f"{slug}-{number}" if number else slug in found:
            number += 1
            if f"{slug}-{number}" not in found:
                break
        found.add(f"{slug}-{number}" if number else slug)
    return found
