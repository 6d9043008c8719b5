"""The generated pages say what the code says."""

from __future__ import annotations

import importlib.util
import runpy
from importlib.resources import files
from types import ModuleType

import pytest
from pages import DOCS

from conductorlite.plan.tree import OPERATOR_TYPES


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = _generator()


@pytest.mark.parametrize("name", sorted(GENERATOR.PAGES))
def test_a_generated_page_is_up_to_date(name: str) -> None:
    """A page of the reference is what `python docs/generate.py` writes now."""
    committed = (DOCS / "reference" / name).read_text(encoding="utf-8")
    assert committed == GENERATOR.PAGES[name](), f"run: python docs/generate.py  ({name} is out of date)"


@pytest.mark.parametrize("name", sorted(GENERATOR.IN_PACKAGE))
def test_a_schema_is_in_the_package(name: str) -> None:
    """Where a program finds it that has the package alone; it is the one of the documentation."""
    found = files("conductorlite") / "schemas" / name
    assert found.read_text(encoding="utf-8") == (DOCS / "reference" / "schemas" / name).read_text(encoding="utf-8")


def test_the_index_for_language_models() -> None:
    """It links to every page, and the other file has the text of every page."""
    made = runpy.run_path(str(DOCS / "llms.py"))
    text, full = made["index"](), made["full"]()
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - {"index.md"}
    assert {page for page in pages if f"]({page})" not in text} == set()
    assert {page for page in pages if f"<!-- docs/{page} -->" not in full} == set()
    assert "](how-to/start-once.html)" in made["index"](".html")


def test_the_picture_of_the_home_page_is_its_code() -> None:
    """Drawn from the flow that stands above it."""
    assert (DOCS / "assets" / "trip.svg").read_text(encoding="utf-8") == GENERATOR.home_picture()


def test_the_recording_is_drawn_of_what_happened() -> None:
    """The terminal on the home page shows the lines that were recorded, which end well; it needs nothing from elsewhere."""
    recorder = runpy.run_path(str(DOCS / "record.py"))
    lines = recorder["read"]()
    drawn = (DOCS / "assets" / "recording.svg").read_text(encoding="utf-8")
    assert drawn == recorder["drawn"](lines)
    assert [kind for _, kind, _ in lines if kind != "said"] == ["typed", "killed", "typed"]
    assert lines[-1][2] == "{'good': 80, 'broken': 0}"
    assert "(assets/recording.svg)" in (DOCS / "index.md").read_text(encoding="utf-8")
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")


def test_every_field_has_its_effect_written_down() -> None:
    """Of each field of the definitions it is said whether the engine acts upon it, and of no field that is gone."""
    assert GENERATOR.unexplained() == []


def test_every_operator_is_described() -> None:
    """The page on task types has a row for each type that the engine carries out itself, and for no other."""
    page = (DOCS / "reference" / "task-types.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")}
    assert rows - {"type", "SIMPLE, or a type of your own"} == set(OPERATOR_TYPES)
