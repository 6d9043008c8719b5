"""The generated pages say what the code says."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest
from pages import DOCS


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


def test_every_field_has_its_effect_written_down() -> None:
    """Of each field of the definitions it is said whether the engine acts upon it, and of no field that is gone."""
    assert GENERATOR.unexplained() == []
