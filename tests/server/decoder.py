"""A decoder as strict as those of typed languages: each field of an answer has the type of Conductor's OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import httpx

from conductorlite.server.rest.operations import Operation, find
from conductorlite.server.rest.routes import TABLE

_TEXT: Final = (Path(__file__).parent / "types.txt").read_text(encoding="utf-8").replace("\n  ", " ")
_LINES: Final = [line for line in _TEXT.splitlines() if line and not line.startswith("#")]

#: What each operation answers with a body; those that are not named have none.
ANSWERS: Final = {tuple(line.split(" = ")[0].split()): line.split(" = ")[1] for line in _LINES if " = " in line}

#: Numbers by their letter: how many bits they have.
_BITS: Final = {"i": 32, "l": 64}


@cache
def _kinds() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for line in _LINES:
        if " = " not in line:
            name, _, fields = line.partition(": ")
            name, _, base = name.rstrip(")").partition("(")
            found[name] = {**found.get(base, {}), **dict(field.rsplit(":", 1) for field in fields.split())}
    return found


def wrongs(value: Any, kind: str, path: str = "$") -> Iterator[str]:
    """Each place of a value that a typed client could not decode."""
    if kind[0] == "*" and isinstance(value, list):
        for place, one in enumerate(value):
            yield from wrongs(one, kind[1:], f"{path}[{place}]")
    elif kind[0] == "{" and isinstance(value, dict):
        for name, one in value.items():
            yield from wrongs(one, kind[1:-1], f"{path}.{name}")
    elif kind in _kinds() and isinstance(value, dict):
        fields = _kinds()[kind]
        for name in value.keys() & fields.keys():
            yield from wrongs(value[name], fields[name], f"{path}.{name}")
    elif not _is_scalar(value, kind):
        yield f"{path}: {value!r:.60} is no {kind}"


def _is_scalar(value: Any, kind: str) -> bool:
    """Whether a value is of a kind without parts that have kinds of their own."""
    if kind in _BITS:
        bound = 2 ** (_BITS[kind] - 1)
        return type(value) is int and -bound <= value < bound
    if kind in ("V", "b", "o", "s"):
        return isinstance(value, {"V": object, "b": bool, "o": dict, "s": str}[kind])
    return isinstance(value, str) and value in kind.split("|")


def operation_of(method: str, path: str) -> Operation | None:
    """The operation that a request means."""
    found = find(TABLE, path, method)
    return None if found is None else found.operations.get(method)


def checked(answer: httpx.Response) -> None:
    """Fail for an answer that a typed client could not decode."""
    path = answer.request.url.raw_path.decode().partition("?")[0]
    one = operation_of(answer.request.method, path)
    if answer.status_code != 200 or one is None:
        return
    kind = ANSWERS.get((one.method, one.path))
    if kind is None or not answer.content:  # an optional answer may be none
        if answer.headers.get("content-type") == "text/event-stream":
            return
        assert not answer.content, f"{one.method} {one.path} has no answer in types.txt"
        return
    text = answer.headers["content-type"].startswith("text/plain")
    assert text == (kind == "s"), f"{one.method} {one.path}: {answer.headers['content-type']}"
    found = [*wrongs(answer.text if text else answer.json(), kind)]
    assert found == [], f"{one.method} {one.path}: {found[:5]}"
