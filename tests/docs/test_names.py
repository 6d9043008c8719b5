"""What a page names exists: paths, modules, classes and their members, commands, options, extras, environment variables."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import click
import pytest
from pages import ROOT, blocks, name_of, pages
from witnesses import nodes_of

from conductorlite import AsyncEngine, Engine, Run, TaskContext, Workers
from conductorlite.cli.commands import complete
from conductorlite.engine.config import services

PACKAGE: Final = ROOT / "conductorlite"

#: Pages about what is there now; the change log is about what was.
PRESENT: Final = [page for page in pages() if page.name != "CHANGELOG.md"]

#: What code on a page calls its objects.
OBJECTS: Final = {"run": (Run,), "context": (TaskContext,)}

_CODE: Final = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_FILE: Final = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*\.(?:py|md|toml|yml|sql)")
_FOLDER: Final = re.compile(r"(?:[\w.-]+/)+")
_DOTTED: Final = re.compile(r"([A-Za-z_]\w*)((?:\.[A-Za-z_]\w*)+)(?:\(.*)?")
_SNAKE: Final = re.compile(r"_?[a-z]\w*_\w+")
_CAMEL: Final = re.compile(r"(?:[A-Z][a-z]+){2,}")


def _prose(page: Path) -> str:
    return re.sub(r"^( *)```.*?^\1```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def _named(page: Path) -> list[str]:
    """What stands in `code` outside of fenced blocks; on the page of the house also the words of its drawings."""
    found = _CODE.findall(_prose(page))
    if page.name == "ARCHITECTURE.md":
        found += [word for block in blocks(page) for word in re.findall(r"[\w*-]+(?:/[\w*-]+)*/[\w*-]+\.py|\w+\.py", block.code)]
    return found


def _fenced(page: Path) -> str:
    return "\n".join(block.code for block in blocks(page))


@cache
def _everything() -> str:
    """The text of the package, its tests and examples, and the pages' own code, to look words up in."""
    files = [
        *PACKAGE.rglob("*.py"),
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "examples").rglob("*.py"),
        *(ROOT / "docs").glob("*.py"),
    ]
    return "\n".join(file.read_text(encoding="utf-8") for file in files if file != Path(__file__))


@cache
def _folders() -> tuple[Path, ...]:
    """The folders of the package and of its tests."""
    return tuple(folder for below in (PACKAGE, ROOT / "tests") for folder in below.rglob("*") if folder.is_dir())


@cache
def _words() -> frozenset[str]:
    return frozenset(re.findall(r"\w+", _everything()))


@cache
def _members() -> dict[str, set[str]]:
    """The members of every class of the package, those of its bases in the package included."""
    own: dict[str, set[str]] = {}
    bases: dict[str, list[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                own.setdefault(node.name, set()).update(_members_of(node))
                bases.setdefault(node.name, []).extend(ast.unparse(base).split(".")[-1] for base in node.bases)
    for _ in range(12):
        for name, above in bases.items():
            own[name] = own[name].union(*(own.get(base, set()) for base in above))
    return own


def _members_of(kind: ast.ClassDef) -> Iterator[str]:
    for node in kind.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


@pytest.mark.parametrize("page", PRESENT, ids=name_of)
def test_paths(page: Path) -> None:
    """A file or folder is there, seen from the repository, the package or the page; or the page itself has it written."""
    code = set(re.findall(r"[\w.-]+|\w+", _fenced(page)))
    written = {block.name for block in blocks(page)} | code | {f"{word}.py" for part in code for word in part.split(":")}
    written |= {line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()}
    missing = []
    for named in _named(page):
        for word in named.split():
            if not (_FILE.fullmatch(word) or (_FOLDER.fullmatch(word) and not word.startswith(("..", ".")))):
                continue
            below = [ROOT, PACKAGE, page.parent, ROOT / "docs", ROOT / "tests"]
            if "/" not in word:
                below += _folders()
            if not any(any(place.glob(word)) for place in below) and word.strip("/") not in written:
                missing.append(word)
    assert missing == []


@pytest.mark.parametrize("page", PRESENT, ids=name_of)
def test_dotted_names(page: Path) -> None:
    """`conductorlite.x`, `module.x`, `engine.x`, `Class.x` are there; other roots are the reader's own."""
    missing = []
    for named in _named(page):
        match = _DOTTED.fullmatch(named)
        if match is None or _FILE.fullmatch(named) or named.endswith(".db"):
            continue
        root, rest = match[1], match[2][1:].split(".")
        if root == "conductorlite":
            found = _resolves("conductorlite", rest) or f'getLogger("{named}")' in _everything()
        elif root in ("engine", "Engine", "AsyncEngine"):
            found = _of_engine(rest)
        elif root in OBJECTS:
            found = any(hasattr(kind, rest[0]) for kind in OBJECTS[root])
        elif root in _members():
            found = rest[0] in _members()[root] or hasattr(getattr(importlib.import_module("conductorlite"), root, None), rest[0])
        elif (PACKAGE / root).is_dir() or (PACKAGE / f"{root}.py").is_file():
            found = _resolves(f"conductorlite.{root}", rest)
        else:
            continue
        if not found:
            missing.append(named)
    assert missing == []


@cache
def _engine() -> Engine:
    with Engine() as engine:
        return engine


def _of_engine(rest: list[str]) -> bool:
    """Whether an engine has an attribute, or one of its services a verb; what a verb returns has its own names."""
    found: object = _engine()
    for name in rest:
        if not hasattr(found, name):
            return False
        found = getattr(found, name)
        if callable(found):
            return True
    return True


def _resolves(module: str, rest: list[str]) -> bool:
    found: object = importlib.import_module(module)
    for name in rest:
        if not hasattr(found, name):
            try:
                found = importlib.import_module(f"{found.__name__}.{name}")  # type: ignore[attr-defined]
            except (ImportError, AttributeError):
                return False
        else:
            found = getattr(found, name)
    return True


@pytest.mark.parametrize("page", PRESENT, ids=name_of)
def test_identifiers(page: Path) -> None:
    """A name written as Python writes it, alone or called, occurs in the code: one that was renamed is found."""
    own = set(re.findall(r"\w+", _fenced(page)))
    bare = [re.sub(r"\(.*", "", named) for named in _named(page)]
    missing = [name for name in bare if _SNAKE.fullmatch(name) and name not in _words() and name not in own]
    assert missing == []


@pytest.mark.parametrize("page", [page for page in PRESENT if not re.match("compatibility|expressions", page.name)], ids=name_of)
def test_classes(page: Path) -> None:
    """A class that a page names occurs in the code; other pages name Conductor's and JavaScript's as well."""
    own = set(re.findall(r"\w+", _fenced(page)))
    missing = [name for name in _named(page) if _CAMEL.fullmatch(name) and name not in _words() and name not in own]
    assert missing == []


def _lines(page: Path) -> list[str]:
    """The command lines of a page: of its shell blocks, and in its text."""
    shell = "\n".join(block.code for block in blocks(page) if block.language == "sh").replace("\\\n", " ")
    named = [line.strip() for line in shell.splitlines()] + [" ".join(name.split()) for name in _CODE.findall(_prose(page))]
    found = [re.split(r"\s(?:\||>|&&)\s", line)[0] for line in named]
    return [line.partition("conductorlite ")[2] for line in found if re.match(r"(?:\$ |\.venv/bin/)?conductorlite [\w-]", line)]


@pytest.mark.parametrize("page", [page for page in PRESENT if _lines(page)], ids=name_of)
def test_commands(page: Path) -> None:
    """A command line names commands and options that there are."""
    for line in _lines(page):
        command: click.Command = complete()
        known: set[str] = set()
        words = iter(shlex.split(line, comments=True))
        for word in words:
            options = {name: one for one in command.params for name in (*one.opts, *one.secondary_opts) if name.startswith("-")}
            known |= {"--help", *options}
            if word.startswith("-") and not re.fullmatch(r"-\d.*", word):
                name = word.partition("=")[0]
                assert name in known, line
                one = options.get(name)
                if isinstance(one, click.Option) and not one.is_flag and "=" not in word:
                    next(words, None)
            elif isinstance(command, click.Group):
                assert word in command.commands or word in ("…", "..."), line
                command = command.commands.get(word, command)


@pytest.mark.parametrize("page", PRESENT, ids=name_of)
def test_extras_and_variables(page: Path) -> None:
    """An extra is one of pyproject.toml's, a variable of ours one that the code reads."""
    text = page.read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name for named in re.findall(r"conductorlite\[([\w,]+)\]", text) for name in named.split(",")}
    extras |= set(re.findall(r"\bextras? `(\w+)`", text))
    extras |= set(re.findall(r"'\.\[([\w]+)\]'", text))
    assert extras <= set(project["optional-dependencies"])
    assert {name for name in re.findall(r"\bCONDUCTORLITE_\w+", text) if name not in _everything()} == set()


def test_paths_in_code() -> None:
    """A path of the repository that a comment, docstring or script names is there."""
    files = [file for folder in ("conductorlite", "docs", "examples", "tests", ".ci") for file in (ROOT / folder).rglob("*")]
    path = re.compile(r"(?<![\w./-])(?:docs|tests|examples|conductorlite)/[\w/-]+\.(?:md|py|json|toml|sql)\b")
    missing = []
    for file in files:
        if file.suffix in (".py", ".sh", ".toml", "") and file.is_file() and "__pycache__" not in file.parts:
            text = file.read_text(encoding="utf-8", errors="replace")
            missing += [f"{name_of(file)}: {named}" for named in path.findall(text) if not (ROOT / named).exists()]
    assert missing == []


def _callables(name: str) -> list[object]:
    owners: list[object] = [
        importlib.import_module("conductorlite"),
        Engine,
        AsyncEngine,
        Run,
        TaskContext,
        Workers,
        *services(_engine()).values(),
    ]
    return [getattr(owner, name) for owner in owners if callable(getattr(owner, name, None))]


@pytest.mark.parametrize("page", PRESENT, ids=name_of)
def test_arguments(page: Path) -> None:
    """An argument that a page gives by name, as in `Engine(semantics=…)`, is one that the class or the verb takes."""
    missing = []
    for named in _named(page):
        match = re.fullmatch(r"(?:\w+\.)?(\w+)\((.*)\)", named)
        # Arguments of calls within the arguments are those calls'.
        given = re.findall(r"(?:^|, )(\w+)=", re.sub(r"\([^()]*\)", "", match[2])) if match is not None else []
        found = _callables(match[1]) if match is not None and given else []
        taken: set[str] = set()
        for one in found:
            parameters = inspect.signature(one).parameters.values()  # type: ignore[arg-type]
            taken |= set(given) if any(each.kind is each.VAR_KEYWORD for each in parameters) else {each.name for each in parameters}
        if found and not taken >= set(given):
            missing.append(named)
    assert missing == []
