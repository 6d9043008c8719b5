"""Arguments and requests of another type than is expected, or far out of range: a named error, and never a raw one.

Each public verb of an engine and of its nouns, each parameter with each kind of junk; each operation of the REST API, each of its
fields and query parameters. Nothing of it is stored so that another verb fails later.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

pytest.importorskip("uvicorn")

sys.path.append(str(Path(__file__).parents[1] / "server"))
from world import request_of, world

from conductorlite import Engine
from conductorlite.errors import ConductorliteError
from conductorlite.model.scalars import json_names
from conductorlite.server.rest import rest_app
from conductorlite.server.rest.operations import Operation, Place
from conductorlite.server.rest.routes import OPERATIONS

JUNK: Final[list[Any]] = [
    *(None, True, 0, -1, 0.5, 2**63, 10**30, 1e308, float("nan"), "", "x", "a'b \x00", "${x}", "\ud800", "😀\u202e", b"x"),
    *([], [[None]], {}, {"": {"": None}}, {1: 2}, object()),
]

NOUNS: Final = ("", "definitions", "schedules", "events", "tasks", "limits", "payloads", "admin")

#: Verbs that wait, drive, or end the engine.
LEFT_OUT: Final = {"run_forever", "run_until_idle", "close", "stop", "advance", "settle"}

#: What a parameter is given that is not the one of the case.
GOOD: Final = {"workflow_id": "blocked", "name": "flow", "task": "gate", "ref": "gate"}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """No log: what is refused may be warned of a thousand times."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def _of(engine: Engine, noun: str) -> Any:
    return getattr(engine, noun) if noun else engine


def _is_checked(parameter: inspect.Parameter) -> bool:
    """Whether a parameter's annotation is names of plain types: a type checker sees the others, and so does who reads the error."""
    names = str(parameter.annotation).split(" | ")
    return all(one in ("str", "int", "bool", "float", "None", "Span", "Instant") for one in names) and parameter.name != "timeout"


def _cases() -> list[tuple[str, str, str]]:
    with world() as engine:
        faces = [(noun, type(_of(engine, noun))) for noun in NOUNS]
    return [
        (noun, verb, parameter.name)
        for noun, face in faces
        for verb, method in inspect.getmembers(face, inspect.isfunction)
        if not verb.startswith("_") and verb not in LEFT_OUT
        for parameter in inspect.signature(method).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY) and _is_checked(parameter)
    ]


def _arguments(method: Any, name: str, junk: Any) -> tuple[list[Any], dict[str, Any]]:
    given: dict[str, Any] = {}
    for one in list(inspect.signature(method).parameters.values()):
        if one.name == name:
            given[one.name] = junk
        elif one.default is one.empty and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            given[one.name] = GOOD.get(one.name, "x")
    return [], given


#: Those of the everyday verbs are tried in the fast run, the others in CI.
FAST: Final = {"terminate", "rerun", "signal", "poll", "search", "executions", "status"}


@pytest.mark.parametrize(
    ("noun", "verb"),
    [
        pytest.param(noun, verb, marks=() if noun == "" and verb in FAST else pytest.mark.slow)
        for noun, verb in dict.fromkeys((noun, verb) for noun, verb, _ in _cases())
    ],
)
def test_no_raw_error_leaves_a_verb(noun: str, verb: str) -> None:
    """What is of the wrong type or out of range is refused by a named error, or taken; and then the other verbs work."""
    engine = world()
    raw = []
    for name in (one for of, called, one in _cases() if (of, called) == (noun, verb)):
        for junk in JUNK:
            given, options = _arguments(getattr(_of(engine, noun), verb), name, junk)
            try:
                found = getattr(_of(engine, noun), verb)(*given, **options)
                if inspect.isgenerator(found):
                    next(found, None)
            except ConductorliteError:
                continue
            except Exception as error:
                raw.append((name, repr(junk)[:40], type(error).__name__, str(error)[:100]))
    assert raw == []
    engine.settle()
    for subject in (engine, engine.tasks):
        subject.search("", free_text="x")
    assert engine.admin.check() == []
    engine.close()


#: Fields of a report.
REPORTED: Final = ("taskId", "status", "outputData", "logs", "callbackAfterSeconds", "outputMessage")


def _bodies(one: Operation, body: Any) -> Iterator[Any]:
    """A good body with junk in each of its fields, and junk."""
    for parameter in one.parameters:
        if parameter.place is not Place.BODY:
            continue
        names = json_names(parameter.kind).values() if parameter.kind else REPORTED
        for junk in JUNK:
            yield junk
            for name in names:
                if isinstance(body, dict):
                    yield {**body, name: junk}
                elif isinstance(body, list) and body and isinstance(body[0], dict):
                    yield [{**body[0], name: junk}]


def _text(value: Any) -> bytes | None:
    try:
        return json.dumps(value).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError):
        return None


#: Operations of which a 500 is Conductor's own answer.
FIVE_HUNDRED: Final = {"delete_workflow", "delete_task_def", "remove_event_handler", "resume", "skip_task"}


@pytest.mark.parametrize(
    "one",
    [pytest.param(one, marks=() if place % 12 == 0 else pytest.mark.slow) for place, one in enumerate(OPERATIONS)],
    ids=lambda one: f"{one.method} {one.path}",
)
def test_no_request_is_an_unexplained_error(one: Operation) -> None:
    """Each field and parameter with each kind of junk: below 500, unless Conductor itself answers 500; the store's laws hold."""
    engine = world()
    path, query, body = request_of(engine, one)
    waits = {"waitForSeconds", "timeoutMillis", "timeout"}

    async def main() -> list[tuple[Any, int, str]]:
        wrong = []
        app = rest_app(engine)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8080") as client:
            requests = [(query, text) for value in _bodies(one, body) if (text := _text(value)) is not None]
            requests += [
                ({**query, each.name: str(junk)}, _text(body))
                for each in one.parameters
                if each.place is Place.QUERY and each.name not in waits
                for junk in JUNK
                if isinstance(junk, str | int | float) and "\ud800" not in str(junk)
            ]
            for asked, content in requests:
                answer = await client.request(one.method, path, params=asked, content=content)
                if answer.status_code >= 500 and one.function.__name__ not in FIVE_HUNDRED:
                    wrong.append((asked, answer.status_code, f"{content!r:.100} {answer.text:.100}"))
        return wrong

    assert asyncio.run(asyncio.wait_for(main(), 300)) == []
    assert engine.admin.check() == []
    engine.close()
