"""A plugin of pytest that collects once and then tries one mutant after another, each in a forked child.

In the child the mutated function gets its new code, wherever it was imported to, and the tests that were chosen run until one
fails. Only a failure says something: what is worked out on import, or runs in a process of its own, is as it was.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import json
import os
import resource
import select
import signal
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.runner import runtestprotocol

#: Seconds of the machine's clock after which a test is taken for one that never ends. Without the mutant it must pass within them.
_PATIENCE: Final = 120.0


def pytest_runtestloop(session: pytest.Session) -> bool:
    """In the place of running what was collected."""
    jobs = json.loads(Path(os.environ["MUTATION_JOBS"]).read_text(encoding="utf-8"))
    items = {item.nodeid: item for item in session.items}
    honest: dict[str, bool] = {}
    with Path(os.environ["MUTATION_RESULTS"]).open("a", encoding="utf-8", buffering=1) as results:
        for job in jobs:
            chosen = list(session.items) if job["tests"] is None else [items[test] for test in job["tests"] if test in items]
            while failed := _forked(job, chosen):
                if failed not in honest:
                    honest[failed] = not _forked({**job, "source": None, "seconds": 60}, [items[failed]])
                if honest[failed]:
                    break
                # It fails without the mutant too, and says nothing: those after it may.
                chosen = chosen[chosen.index(items[failed]) + 1 :]
            results.write(json.dumps([job["name"], failed]) + "\n")
    return True


def _forked(job: dict[str, Any], items: Sequence[pytest.Item]) -> str:
    """The test that fails, or the one that never ends; empty when none does."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (job["seconds"], job["seconds"] + 5))
            _in_the_child(job, items, writing)
        finally:
            os._exit(0)
    os.close(writing)
    told = _read(reading)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "" if not told or told[-1] == "survived" else told[-1]


def _read(reading: int) -> list[str]:
    """The lines of a child until it closes the pipe, or tells nothing for too long: it is read at once, or the child would wait."""
    told = b""
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], _PATIENCE)[0]:
            more = pipe.read(65_536)
            if not more:
                break
            told += more
    return told.decode().splitlines()


def _in_the_child(job: dict[str, Any], items: Sequence[pytest.Item], writing: int) -> None:
    if job["source"] is not None and not _swap(job["file"], job["source"], job["line"]):
        os.write(writing, b"survived\n")
        return
    for item, following in zip(items, [*items[1:], None], strict=True):
        os.write(writing, f"{item.nodeid}\n".encode())
        if any(report.failed for report in runtestprotocol(item, nextitem=following, log=False)):
            return
    os.write(writing, b"survived\n")


# ------------------------------------------------------------------ the code


def _swap(file: str, source: str, line: int) -> bool:
    """Give the outermost function around a line the code it has in this source; False where there is none."""
    tree = ast.parse(source)
    path = _path(tree.body, line)
    if path is None:
        return False
    module = importlib.import_module(file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    code: types.CodeType = compile(source, str(Path(file).resolve()), "exec")
    for name in path:
        found = [one for one in _codes(code) if one.co_name == name]
        if len(found) != 1:  # a property and its setter, or overloads
            return False
        code = found[0]
    target: Any = module
    for name in path:
        target = vars(target).get(name)
        if target is None:
            return False
    function = _function(target)
    if function is None or function.__code__.co_freevars != code.co_freevars:
        return False
    function.__code__ = code
    return True


def _path(body: Sequence[ast.stmt], line: int) -> list[str] | None:
    for node in body:
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
        if not first <= line <= (node.end_lineno or 0):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return [node.name] if line >= node.body[0].lineno else None
        if isinstance(node, ast.ClassDef):
            inner = _path(node.body, line)
            return None if inner is None else [node.name, *inner]
    return None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    return (one for one in code.co_consts if isinstance(one, types.CodeType))


def _function(target: Any) -> types.FunctionType | None:
    """What is behind properties, class methods, caches and other wrappers."""
    if isinstance(target, property):
        target = target.fget
    if isinstance(target, functools.cached_property):
        target = target.func
    if isinstance(target, staticmethod | classmethod):
        target = target.__func__
    while hasattr(target, "__wrapped__"):
        target = target.__wrapped__
    return target if isinstance(target, types.FunctionType) else None
