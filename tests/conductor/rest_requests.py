"""Requests, stories of them, and the story of every operation asked badly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import attrs
from cases import OWN

from conductorlite.server.rest.operations import Operation, Place
from conductorlite.server.rest.routes import OPERATIONS


@attrs.frozen
class Request:
    """What is sent; `{name}` stands for what an earlier answer of the story was kept under. Bytes are sent as they are."""

    method: str
    path: str
    body: Any = None
    #: Under which name the text of the answer is kept, or the `taskId` in it.
    keep: str = ""
    #: The path of the operation.
    operation: str = ""


@attrs.frozen
class Story:
    """Requests that follow one another; names in it are its own."""

    name: str
    requests: tuple[Request, ...]


def get(path: str, keep: str = "") -> Request:
    return Request("GET", f"/api{path}", None, keep)


def post(path: str, body: Any = None, keep: str = "") -> Request:
    return Request("POST", f"/api{path}", body, keep)


def put(path: str, body: Any = None) -> Request:
    return Request("PUT", f"/api{path}", body)


def delete(path: str, body: Any = None) -> Request:
    return Request("DELETE", f"/api{path}", body)


def start(name: str, **more: Any) -> Request:
    """Start an execution, kept as `wf`."""
    return post("/workflow", {"name": f"{OWN}{name}", **more}, "wf")


def poll(ref: str, query: str = "") -> Request:
    """Take a task of a type, kept as `task`."""
    return get(f"/tasks/poll/batch/{OWN}{ref}?workerid=vm&timeout=1000{query}", "task")


def report(status: str, **more: Any) -> Request:
    return post("/tasks", {"workflowInstanceId": "{wf}", "taskId": "{task}", "workerId": "vm", "status": status, **more})


LOOK: Final = get("/workflow/{wf}")


# ---------------------------------------------------------------------- every operation, asked badly

#: What stands in braces unless it is somebody's id or name.
_FILLED: Final = {"version": "1", "status": "COMPLETED"}


def _filled(one: Operation, **other: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: ({**_FILLED, **other}).get(found[1], "nobody"), one.path)


def _asked_badly(one: Operation) -> Iterator[Request]:
    """About nobody; with a body that is none, broken or of another form; with what is no number or boolean; of no such status."""
    path = _filled(one)
    query = "&".join(f"{each.name}=nobody" for each in one.parameters if each.place is Place.QUERY and each.demanded)
    body = next((each for each in one.parameters if each.place is Place.BODY), None)
    kind = "" if body is None else str(body.type)
    good = None if body is None else ["nobody"] if "list[str" in kind else [] if "list" in kind else {}
    yield Request(one.method, f"{path}?{query}" if query else path, good)
    if query:
        yield Request(one.method, path, good)
    if body is not None and "Text" not in kind:
        yield Request(one.method, path, b"")
        yield Request(one.method, path, b"{")
        yield Request(one.method, path, {} if isinstance(good, list) else [])
    for each in one.parameters:
        if each.type in (int, bool):
            if each.place is Place.QUERY:
                yield Request(one.method, f"{path}?{query}{'&' if query else ''}{each.name}=x", good)
            elif each.place is Place.PATH:
                yield Request(one.method, _filled(one, **{each.name: "x"}), good)
    if "{status}" in one.path:
        yield Request(one.method, _filled(one, status="BAD"), good)


def asked_about_nobody() -> list[Story]:
    stories = []
    for one in OPERATIONS:
        if one.path == "/api/version":  # which an open-source server does not have
            continue
        asked = tuple(attrs.evolve(each, operation=one.path) for each in _asked_badly(one))
        stories.append(Story(f"badly/{one.name}-{one.method}-{one.path.count('/')}", asked))
    return stories
