"""The face of the test kit, and that it costs nothing before it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import conductorlite.testing as kit


def test_every_name_is_there() -> None:
    """Each exported name can be had, and is listed."""
    assert [name for name in kit.__all__ if getattr(kit, name, None) is None] == []
    assert dir(kit) == sorted(kit.__all__)
    with pytest.raises(AttributeError):
        _ = kit.nothing  # type: ignore[attr-defined]


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_plugin_imports_only_what_it_needs() -> None:
    """Loading the plugin imports neither Hypothesis nor any other part of the kit."""
    loaded = python(
        "import sys, conductorlite.testing.plugin\n"
        "print([m for m in sys.modules if m == 'hypothesis' or m.startswith('conductorlite.testing.')])"
    )
    assert loaded == "['conductorlite.testing.plugin']"


def test_a_missing_extra_is_named() -> None:
    """Without pytest and hypothesis, what needs them says which extra to install; the rest works."""
    text = python(
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['pytest', 'hypothesis']))\n"
        "import conductorlite.testing as kit\n"
        "kit.ScriptedWorkers, kit.crash_everywhere, kit.assert_history\n"
        "for name in ('strategies', 'BackendConformance'):\n"
        "    try: getattr(kit, name)\n"
        "    except ImportError as error: print(type(error).__name__, error)"
    )
    for line in text.splitlines():
        assert line.startswith("MissingExtra ")
        assert "pip install 'conductorlite[testing]'" in line
    assert len(text.splitlines()) == 2
