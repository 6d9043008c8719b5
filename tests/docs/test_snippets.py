"""Every Python block of the documentation runs.

The blocks of a page run in order, in one namespace, in an empty folder. A comment before a block marks it:
`<!-- output -->` before a text block says that the Python block above prints exactly that; `<!-- pytest -->` before a
Python block says that it is a test file, which is run as one. `<!-- file: trial.py -->` says that the reader writes that
file, and `<!-- prints -->` what the shell block above prints, where … stands for anything: only the tutorial has those, and
`test_tutorial.py` goes through it. Other shell blocks are not run.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pages import Block, blocks, name_of, pages

WITH_CODE = [page for page in pages() if any(block.language == "python" for block in blocks(page))]

#: Libraries of extras without which a page is skipped: CI has them.
HEAVY = {"langgraph", "mcp", "pydantic_ai"}
LANGUAGES = {"python", "json", "sh", "text", "mermaid", "toml", "sql"}


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of a page run one after another, and print what the page says they print."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed = source = ""
    for block in blocks(page):
        if block.mark == "output":
            assert printed == block.code, f"{name_of(page)}:{block.line}"
        elif block.mark == "file":
            continue
        elif block.language == "python" and block.mark == "pytest":
            _run_as_tests(block, tmp_path)
        elif block.language == "python":
            out = io.StringIO()
            # Flows are read from their source, which a reader has in a file: here it is the page's code, each line where it stands.
            source += "\n" * (block.line - source.count("\n")) + block.code
            linecache.cache[f"{page}.py"] = (len(source), None, source.splitlines(keepends=True), f"{page}.py")
            try:
                with contextlib.redirect_stdout(out):
                    exec(compile("\n" * block.line + block.code, f"{page}.py", "exec", dont_inherit=True), namespace)
            except ModuleNotFoundError as error:  # of a library that an extra brings, imported by the page itself
                if (error.name or "").partition(".")[0] not in HEAVY:
                    raise
                pytest.skip(f"{error.name} is not installed")
            printed = out.getvalue()


def _run_as_tests(block: Block, folder: Path) -> None:
    file = folder / f"test_line_{block.line}.py"
    file.write_text(block.code, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", file.name]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_ADDOPTS")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_block_names_its_language(page: Path) -> None:
    """A fenced block names one of the languages we know how to treat, so that none escapes by a slip."""
    assert [(block.line, block.language) for block in blocks(page) if block.language not in LANGUAGES] == []


def test_the_readme_shows_the_example() -> None:
    """The README's example is examples/hello/hello.py, line for line."""
    root = next(page for page in pages() if page.name == "README.md")
    code = next(block.code for block in blocks(root) if block.language == "python")
    example = (root.parent / "examples" / "hello" / "hello.py").read_text(encoding="utf-8")
    assert code.strip() == example.partition("\n\n")[2].strip()
