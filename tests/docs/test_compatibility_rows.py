"""Each thing has one row on the compatibility pages, and each row's claim is bound to a test that is run."""

from __future__ import annotations

import re
from typing import Final

import pytest
from pages import DOCS
from test_compatibility_tables import FIELD_SECTIONS, FIELDS, OPERATION_SECTIONS, OPERATIONS, sections
from witnesses import fault

DEVIATIONS: Final = "compatibility.md"
DEVIATION_SECTIONS: Final = sections(DEVIATIONS)

#: Every row of the three pages: its page, its section, its cells.
ROWS: Final = [
    (page, section, row)
    for page, found in ((DEVIATIONS, DEVIATION_SECTIONS), (FIELDS, FIELD_SECTIONS), (OPERATIONS, OPERATION_SECTIONS))
    for section, rows in found.items()
    for row in rows
]

#: Words of a subject that has a section of its own on the page of deviations: a row on it is there, and nowhere else.
OWNED: Final = {
    r"\bsearch|\bquery language|\bindex\b|\barchiv": {"Search and archive"},
    r"\bsecrets?\b|runtimeMetadata": {"Secrets"},
    r"event handler|\bhandlers?\b|\ba message\b|\ban action\b": {"Events"},
    r"hard barrier|soft barrier|payload storage|\ba payload that is missing|16 MB|payloads that": {"Payloads"},
    r"\bschedules?\b|\bcron\b|catch-up|catchup": {"Schedules"},
    r"\bcompensat": {"Beyond Conductor"},
    r"rate limit|rateLimit|concurrentExec|\ba slot\b|\bits limit\b": {"Limits", "Where the documents disagree"},
}

#: How a row says that something is not here.
ABSENT: Final = re.compile(
    r"\bthere (is|are) (no|none|not)\b|\bno such\b|\bhas no\b|\bwe ship no\b|\bnot (written|supported|available|implemented|here)\b"
    r"|\bunsupported\b(?! there)|\bmissing here\b|^none$|^not there\b",
    re.IGNORECASE,
)

#: Witnesses of what is not here: each looks that it is not.
LOOKING: Final = (
    "tests/docs/test_absent.py::",
    "tests/docs/test_compatibility_tables.py::test_documents_have_the_properties_of_the_page",
    "tests/traps/test_traps_kept.py::",
)


def _plain(text: str) -> str:
    return re.sub(r"\W+", " ", re.sub(r"\(.*?\)", "", text)).strip().lower()


def _operations(cell: str) -> list[str]:
    """The operations a cell names, each with its method and its whole path: `GET /a/x`, `/y` is GET of both."""
    found, method, base = [], "", ""
    for name in re.findall(r"`([^`]+)`", cell):
        verb, space, path = name.partition(" ")
        if space and verb.isupper():
            method, base = verb, path
            found.append(f"{method} {path}")
        elif name.startswith("/") and method:
            whole = name if name.split("/")[1] == base.split("/")[1] else base.rsplit("/", 1)[0] + name
            found.append(f"{method} {whole}")
        elif name.startswith("-"):
            found.append(f"{method} {base}{name}")
        else:
            found.append(name)
    return found


def _doubles(names: list[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def test_a_deviation_has_one_row() -> None:
    """No point is there twice, none is the subject of others, and none bears the name of a section."""
    points = [row[0] for rows in DEVIATION_SECTIONS.values() for row in rows]
    assert _doubles([_plain(point) for point in points]) == []
    subjects = {_plain(point.partition(":")[0]) for point in points if ": " in point} | {
        _plain(name) for name in DEVIATION_SECTIONS
    }
    assert [point for point in points if ": " not in point and _plain(point) in subjects] == []


def test_a_deviation_is_in_the_section_of_its_subject() -> None:
    """Whoever adds a row on search finds those that are there, so that no two of them contradict each other."""
    assert {name for names in OWNED.values() for name in names} <= set(DEVIATION_SECTIONS)
    strayed = [
        f"{section}: {row[0]}"
        for section, rows in DEVIATION_SECTIONS.items()
        for row in rows
        for words, owners in OWNED.items()
        if re.search(words, row[0]) and section not in owners and not any(section in others for others in OWNED.values())
    ]
    assert strayed == []


@pytest.mark.parametrize("section", [name for name, rows in FIELD_SECTIONS.items() if rows])
def test_a_property_has_one_row(section: str) -> None:
    """No type, property or document is told twice within its section."""
    rows = FIELD_SECTIONS[section]
    names = [name for row in rows for name in (re.findall(r"`([^`]+)`", row[0]) or [row[0]]) if name != "–"]
    assert _doubles(names) == []


def test_an_operation_has_one_row() -> None:
    """No REST path, gRPC call, code or verb of our own is told twice within its section; and no REST path on the whole page."""
    everywhere = []
    for section, rows in OPERATION_SECTIONS.items():
        names = [name for row in rows for name in _operations(row[0])]
        assert _doubles(names) == [], section
        everywhere += [name for name in names if " /" in name]
    assert len(everywhere) > 50
    assert _doubles(everywhere) == []


def test_every_row_names_tests_that_run() -> None:
    """What a row names as its witness is collected by pytest in the fast tier, cannot be skipped, and checks something."""
    named = {name for _, _, row in ROWS for name in re.findall(r"`(tests/[^`]+)`", row[-1])}
    assert len(named) > 300
    assert [said for said in map(fault, sorted(named)) if said is not None] == []


def test_what_is_not_here_is_looked_for() -> None:
    """A row that says there is no such thing names a test that looks that there is none."""
    said = [
        f"{page}, {section}: {row[0]}"
        for page, section, row in ROWS
        if len(row) >= 4 and "tests/" in row[-1]
        if ABSENT.search(row[2]) or row[1] == "out of scope"
        if not any(witness in row[-1] for witness in LOOKING)
    ]
    assert said == []


def test_a_deviation_and_its_field_agree() -> None:
    """A property that is the subject of a deviation is not said to work as in Conductor."""
    verdicts: dict[str, set[str]] = {}
    for rows in FIELD_SECTIONS.values():
        for row in rows:
            for name in re.findall(r"`(\w+)`", row[0]):
                verdicts.setdefault(name, set()).add(row[1])
    told = {name for rows in DEVIATION_SECTIONS.values() for row in rows for name in re.findall(r"^`(\w+)`", row[0])}
    assert [name for name in sorted(told & verdicts.keys()) if verdicts[name] <= {"works", "works: ignored as there"}] == []


def test_what_is_kept_without_effect_is_in_its_section() -> None:
    """The section on what is not acted upon and the page of fields name the same properties."""
    told = {name for row in DEVIATION_SECTIONS["Accepted and kept, not acted upon"] for name in re.findall(r"`(\w+)`", row[0])}
    kept = {
        name
        for rows in FIELD_SECTIONS.values()
        for row in rows
        if row[1] == "differs" and row[2].startswith("accepted and kept, not acted upon")
        for name in re.findall(r"`(\w+)`", row[0])
    }
    assert told == kept


def test_pages_link_to_each_other() -> None:
    """Each of the three pages leads to the other two."""
    for page in (DEVIATIONS, FIELDS, OPERATIONS):
        text = (DOCS / "reference" / page).read_text(encoding="utf-8")
        assert [other for other in (DEVIATIONS, FIELDS, OPERATIONS) if other != page and f"({other}" not in text] == []
