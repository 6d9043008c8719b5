"""Makes llms.txt, an index of the documentation for language models, and llms-full.txt, all pages in one file.

`python docs/generate.py` writes both, and so does the build of the site (docs/hooks.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_DOCS: Final = Path(__file__).resolve().parent
_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)#\s]+\.md)\)")
_SUMMARY: Final = (
    "Durable workflows in plain Python: Netflix Conductor's engine inside your process, without a server or a broker. "
    "Workflows are typed Python functions or Conductor JSON; every step is one atomic commit to memory, SQLite or "
    "PostgreSQL; executions can also be in Cassandra."
)


def _lists() -> Iterator[tuple[str, list[str]]]:
    """The headings of the home page's lists, each with its items, an item on one line."""
    text = (_DOCS / "index.md").read_text(encoding="utf-8")
    text = text[text.index("**Learning**") :]
    text = re.sub(r"^\*\*(\w[\w ]*)\*\* – ", r"**\1**\n\n- ", text, flags=re.MULTILINE)
    heading, part = "", ""
    items: list[str] = []
    for block in re.split(r"\n\n+", text.strip()):
        if block.startswith("- "):
            items = [" ".join(item.split()) for item in re.split(r"^- ", block, flags=re.MULTILINE)[1:]]
            yield part or heading, items
        elif (found := re.fullmatch(r"\*\*(.+)\*\*", block)) is not None:
            heading, part = found[1], ""
        else:
            part = f"{heading}: {block.rstrip(':').partition(',')[0].lower()}"


def index(suffix: str = ".md") -> str:
    """Return llms.txt; its links end with `suffix`."""
    lines = ["# conductorlite", "", f"> {_SUMMARY}", ""]
    for heading, items in _lists():
        lines += [f"## {heading}", "", *(f"- {_LINK.sub(lambda link: _with(link, suffix), item)}" for item in items), ""]
    return "\n".join(lines)


def _with(link: re.Match[str], suffix: str) -> str:
    target = "explanation/house.md" if link[2] == "../ARCHITECTURE.md" and suffix != ".md" else link[2]
    return f"[{link[1]}]({target.removesuffix('.md')}{suffix})"


def full() -> str:
    """Return llms-full.txt: the home page, then every page in the order in which it names them."""
    home = _DOCS / "index.md"
    pages = [home, *(_DOCS / path for _, items in _lists() for item in items for _, path in _LINK.findall(item))]
    return "\n\n".join(f"<!-- {_name(page)} -->\n\n{page.read_text(encoding='utf-8').strip()}" for page in pages) + "\n"


def _name(page: Path) -> str:
    return page.resolve().relative_to(_DOCS.parent).as_posix()
