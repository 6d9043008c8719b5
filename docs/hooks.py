"""What the site needs beyond the pages; called by MkDocs (see mkdocs.yml).

ARCHITECTURE.md is outside of docs/ and becomes the page "The house". Other links that lead out of docs/ become text: the
site is about the package, and the rest of the repository is not on it.
"""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path
from typing import Any, Final

_DOCS: Final = Path(__file__).parent
_HOUSE: Final = "explanation/house.md"
_ARCHITECTURE: Final = _DOCS.parent / "ARCHITECTURE.md"
_CELL: Final = re.compile(r"<td[^>]*>.*?</td>")
_LINK: Final = re.compile(r"\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the page that is not in docs/."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, _HOUSE, content=_ARCHITECTURE.read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Make the links right, seen from where the page is on the site."""
    name = page.file.src_uri
    origin = _ARCHITECTURE if name == _HOUSE else _DOCS / name

    def link(match: re.Match[str]) -> str:
        label, target, anchor = match.groups()
        if ":" in target:
            return match[0]
        path = (origin.parent / target).resolve()
        path = _DOCS / _HOUSE if path == _ARCHITECTURE else path
        if not path.is_relative_to(_DOCS):
            return label
        relative = Path(os.path.relpath(path, (_DOCS / name).parent)).as_posix()
        return f"[{label}]({relative}{anchor or ''})"

    return _LINK.sub(link, markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Take back the escape of a bar in a table's code, as GitHub does."""
    return _CELL.sub(lambda cell: cell[0].replace("\\|", "|"), content)


def on_post_build(config: Any) -> None:
    """Write the files for language models: an index of the built pages, and the text of all pages."""
    made = runpy.run_path(str(_DOCS / "llms.py"))
    site = Path(config["site_dir"])
    (site / "llms.txt").write_text(made["index"](".html"), encoding="utf-8")
    (site / "llms-full.txt").write_text(made["full"](), encoding="utf-8")
