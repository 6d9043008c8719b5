"""What a difference is bound to: a row of the compatibility pages, or a named defect of the server (differences.toml)."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
from snapshots import Difference

FILE: Final = Path(__file__).with_name("differences.toml")
PAGES: Final = Path(__file__).parents[2] / "docs" / "reference"


@attrs.frozen(kw_only=True)
class Binding:
    """Regular expressions on a difference, and what it is bound to: `row` is the first cell of a row, `defect` a name.

    `case` is sought in the case's name, `shown` in what a part of it shows, `path` in the difference's, `type` and `state` in the
    type and status of the row that it is in, `server` and `here` in what each has there, as JSON, and `both` in these two lines.
    """

    why: str
    row: str = ""
    defect: str = ""
    case: re.Pattern[str] = attrs.field(default="", converter=re.compile)
    shown: re.Pattern[str] = attrs.field(default="", converter=re.compile)
    path: re.Pattern[str] = attrs.field(default="", converter=re.compile)
    type: re.Pattern[str] = attrs.field(default="", converter=re.compile)
    state: re.Pattern[str] = attrs.field(default="", converter=re.compile)
    server: re.Pattern[str] = attrs.field(default="", converter=re.compile)
    here: re.Pattern[str] = attrs.field(default="", converter=re.compile)
    both: re.Pattern[str] = attrs.field(default="", converter=re.compile)
    #: What else differs after the same verb, at paths like these, follows from this.
    spreads: re.Pattern[str] | None = attrs.field(default=None, converter=attrs.converters.optional(re.compile))
    #: Nearly every execution has it: a case with nothing else is counted by itself.
    everywhere: bool = False

    @property
    def name(self) -> str:
        return f"row: {self.row}" if self.row else f"defect: {self.defect}"

    def holds(self, case: str, shown: str, found: Difference) -> bool:
        server, here = _text(found.server), _text(found.here)
        sought = (
            (self.case, case),
            (self.shown, shown),
            (self.path, found.path),
            (self.type, found.type),
            (self.state, found.state),
            (self.server, server),
            (self.here, here),
            (self.both, f"{server}\n{here}"),
        )
        return all(pattern.search(text) for pattern, text in sought)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


@attrs.frozen
class Bindings:
    """All of them, and the server's defects by name."""

    bindings: tuple[Binding, ...]
    defects: Mapping[str, str]

    def find(self, case: str, shown: str, found: Difference) -> Binding | None:
        """The first that holds."""
        return next((each for each in self.bindings if each.holds(case, shown, found)), None)

    def faults(self, rows: Iterable[str]) -> list[str]:
        """What is wrong with the file: rows that no page has, defects without a text, bindings to both or neither."""
        known = set(rows)
        faults = [f"no page has the row {each.row!r}" for each in self.bindings if each.row and each.row not in known]
        faults += [f"{each.defect!r} is not described" for each in self.bindings if each.defect and each.defect not in self.defects]
        faults += [f"{each.why!r} is bound to both or neither" for each in self.bindings if bool(each.row) == bool(each.defect)]
        bound = {each.defect for each in self.bindings}
        return faults + [f"nothing is bound to {name!r}" for name in self.defects if name not in bound]


def read(text: str) -> Bindings:
    document = tomllib.loads(text)
    return Bindings(tuple(Binding(**each) for each in document.get("difference", ())), dict(document.get("defects", {})))


def rows() -> list[str]:
    """The first cells of all rows of the compatibility pages."""
    lines = (line for page in sorted(PAGES.glob("compatibility*.md")) for line in page.read_text(encoding="utf-8").splitlines())
    return [line.split("|")[1].strip() for line in lines if line.startswith("| ")]
