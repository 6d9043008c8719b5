"""The definitions in a checkout of Conductor, which is no part of this project: registered on both sides, and driven."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from cases import OWN, SERVICE, Case, inline, task, workflow

#: What an execution is given for each name that its definition mentions.
VALUE: Final = "x"


def documents(checkout: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Kind and place of every definition in its JSON files: a workflow, a task, an event handler."""
    for path in sorted(checkout.rglob("*.json")):
        if "node_modules" in path.parts:
            continue
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, UnicodeDecodeError):
            continue
        for kind, place, each in _within(document, ""):
            yield kind, f"{path.relative_to(checkout)}{place}", each


def _kind(document: Mapping[str, Any]) -> str:
    if isinstance(document.get("tasks"), list) and "name" in document and "workflowId" not in document:
        return "workflow"
    if isinstance(document.get("actions"), list) and "event" in document:
        return "handler"
    limits = ("retryCount", "timeoutPolicy", "responseTimeoutSeconds")
    return "task" if "name" in document and any(each in document for each in limits) and "taskReferenceName" not in document else ""


def _within(document: Any, place: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    if isinstance(document, Mapping):
        if kind := _kind(document):
            yield kind, place, dict(document)
            return
        for name, value in document.items():
            yield from _within(value, f"{place}.{name}")
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield from _within(value, f"{place}[{index}]")


def _owned(value: Any) -> Any:
    """As it is written, but workers' types are the case's own, what is called is the service, and a WAIT waits for somebody."""
    if isinstance(value, list):
        return [_owned(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: _owned(each) for name, each in value.items()}
    if isinstance(found.get("uri"), str):
        found["uri"] = re.sub(r"^https?://[^/]*", SERVICE, found["uri"])
    if "taskReferenceName" in found and found.get("type", "SIMPLE") == "SIMPLE" and found.get("name"):
        found["name"] = f"{OWN}{found['name']}"
    if found.get("type") == "WAIT" and "taskReferenceName" in found:
        found["inputParameters"] = {}
    return found


def _children(value: Any) -> Iterator[tuple[str, int]]:
    """Name and version of every workflow that is named and not there."""
    if isinstance(value, list):
        for each in value:
            yield from _children(each)
    if isinstance(value, dict):
        params = value.get("subWorkflowParam")
        if isinstance(params, dict) and "$" not in str(params.get("name") or "$") and not params.get("workflowDefinition"):
            yield params["name"], params.get("version") or 1
        for each in value.values():
            yield from _children(each)


def _case(where: str, definition: Mapping[str, Any]) -> Case:
    document = {**_owned(definition), "name": f"{OWN}{definition['name']}"}
    document["ownerEmail"] = definition.get("ownerEmail") or "a@example.org"
    document.pop("failureWorkflow", None)
    children = [
        {**workflow(inline("q", "1")), "name": name, "version": version} for name, version in sorted(set(_children(document)))
    ]
    names = re.findall(r"workflow\.input\.(\w+)", json.dumps(definition))
    return Case(
        name=f"tree/{where}",
        workflows=[document, *children],
        options={"version": document["version"]} if isinstance(document.get("version"), int) else {},
        input=dict.fromkeys(sorted(set(names)), VALUE),
        steps=[{"do": "drive", "times": 30}],
        patience=6,
    )


def cases(checkout: Path) -> list[Case]:
    """Each once, registered, started with a value for each name that it mentions, and driven for a while."""
    found: dict[str, Case] = {}
    plain = [workflow(task("n", "NOOP"))]
    for kind, where, each in documents(checkout):
        text = json.dumps(each, sort_keys=True)
        if kind == "workflow":
            found.setdefault(text, _case(where, each))
        elif kind == "task":
            known = {**each, "name": f"{OWN}{each['name']}"}
            found.setdefault(text, Case(name=f"tree/{where}", workflows=plain, task_defs=[known]))
        else:
            known = {**each, "name": f"{OWN}{each['name']}", "active": False}
            found.setdefault(text, Case(name=f"tree/{where}", workflows=plain, handlers=[known]))
    return list(found.values())
