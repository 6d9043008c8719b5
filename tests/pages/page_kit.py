"""Reads a page as a browser does, far enough to be asked what is on it."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser

import attrs

#: Elements that have no end tag.
VOID = frozenset({"meta", "input", "br"})


@attrs.define
class Element:
    """An element with its attributes, and what is in it."""

    tag: str
    attributes: dict[str, str]
    content: list[Element | str] = attrs.field(factory=list)

    def __iter__(self) -> Iterator[Element]:
        """It and every element in it."""
        yield self
        for part in self.content:
            if isinstance(part, Element):
                yield from part

    @property
    def text(self) -> str:
        """All text in it."""
        return "".join(part if isinstance(part, str) else part.text for part in self.content)

    @property
    def classes(self) -> list[str]:
        """Its classes."""
        return self.attributes.get("class", "").split()

    def all(self, tag: str | None = None, kind: str | None = None) -> list[Element]:
        """Every element of a tag and a class."""
        return [one for one in self if tag in (None, one.tag) and (kind is None or kind in one.classes)]

    def by_id(self, name: str) -> Element:
        """The one element with an id."""
        [found] = [one for one in self if one.attributes.get("id") == name]
        return found


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), (tag, names)
        element = Element(tag, {name: value or "" for name, value in attributes})
        self.open[-1].content.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].content.append(data)


def read(page: str) -> Element:
    """The page as a tree; fails unless every element is closed in order, and every id is there once."""
    parser = _Parser()
    parser.feed(page)
    parser.close()
    assert [one.tag for one in parser.open] == [""]
    ids = [one.attributes["id"] for one in parser.root if "id" in one.attributes]
    assert len(ids) == len(set(ids))
    return parser.root
