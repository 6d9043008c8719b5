"""The words of the glossary that are not used stand nowhere: in no identifier, docstring, comment or message, and on no page."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from pages import ROOT, name_of, pages

GLOSSARY = ROOT / "docs" / "explanation" / "glossary.md"

#: Pages that quote what others wrote, or tell the history of names.
QUOTING = {GLOSSARY, ROOT / "CHANGELOG.md", ROOT / "docs" / "contributing" / "style.md"}


def banned() -> list[str]:
    """The words of the last table."""
    table = GLOSSARY.read_text(encoding="utf-8").partition("## Words that are not used")[2]
    return [word for row in re.findall(r"^\| ([a-z, ]+) \|", table, re.MULTILINE) if row != "not" for word in row.split(", ")]


WORDS = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(banned())})(?![A-Za-z])", re.IGNORECASE)


def found(text: str) -> list[str]:
    """The banned words in a text; those inside an identifier are words of their own."""
    # The drafts of JSON Schema, characters, and tests are called what they are called.
    text = re.sub(r"Draft\d+Validator|https?://\S+|letters(?=,? (?:and |or )?(?:digits|`))|tests/[\w./]+::\w+", "", text)
    return said(text)


def said(text: str) -> list[str]:
    """The banned words in a text, wherever they stand."""
    return WORDS.findall(re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", text))


def spoken(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each name, comment and string of a module."""
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type in (tokenize.NAME, tokenize.COMMENT, tokenize.STRING) or token.type > tokenize.ENCODING:
                yield token.start[0], token.string


def test_the_table_is_read() -> None:
    """The glossary has words that are not used, and they are found where they stand."""
    assert {"letter", "told", "whoever", "draft"} <= set(banned())
    assert found("def _told(self): ...") == ["told"]
    assert found("class ToldTurns, `whoever` comes") == ["Told", "whoever"]
    assert found("the teller drafted it") == []


def test_no_module_uses_them() -> None:
    """Names, comments, docstrings and messages of the package."""
    # Taken apart is only what has one of them anywhere.
    modules = [path for path in sorted((ROOT / "conductorlite").rglob("*.py")) if said(path.read_text(encoding="utf-8"))]
    assert [f"{name_of(path)}:{line}: {word}" for path in modules for line, text in spoken(path) for word in found(text)] == []


def test_no_page_uses_them() -> None:
    """The pages of the documentation, the README and ARCHITECTURE.md."""
    read = [page for page in pages() if page not in QUOTING]
    assert [f"{name_of(page)}: {word}" for page in read for word in found(page.read_text(encoding="utf-8"))] == []


def test_each_word_of_the_glossary_is_explained_once() -> None:
    """One thing for each word: no word stands in two rows."""
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| [^|]+ \|$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    words = [word for row in rows if row not in ("word",) and "---" not in row for word in row.split(", ")]
    assert len(words) > 40
    assert sorted(word for word in set(words) if words.count(word) > 1) == []
