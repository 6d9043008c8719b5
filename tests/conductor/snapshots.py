"""What an execution is, as both sides tell it: Conductor's JSON without ids, instants and the like, and what tells two apart."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import attrs
from cases import OWN

WORKFLOW: Final = (
    "status",
    "output",
    "variables",
    "reasonForIncompletion",
    "priority",
    "correlationId",
    "failedReferenceTaskNames",
    "failedTaskNames",
    "input",
)
TASK: Final = (
    "referenceTaskName",
    "taskType",
    "taskDefName",
    "status",
    "inputData",
    "outputData",
    "reasonForIncompletion",
    "retryCount",
    "retried",
    "executed",
    "iteration",
    "loopOverTask",
    "seq",
    "pollCount",
    "startDelayInSeconds",
    "callbackAfterSeconds",
    "domain",
)

#: What JSON does not say of a thing that is not there, on either side.
_NOTHING: Final = (None, "", {}, [], 0, False)
_ABSENT: Final = "absent"
#: The id of something that is no part of the execution any more.
_OTHER: Final = re.compile(r"\b(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")
_ID: Final = re.compile(r"[0-9a-f-]{32,36}")

_CHILD: Final = re.compile(r"children\.([^#.]+#\d+'*|failure)\.")
_ROW: Final = re.compile(r"tasks\.([^#]+#\d+'*)")

Fetch = Callable[[str], Mapping[str, Any] | None]


@attrs.frozen
class Difference:
    """Where two snapshots differ: a path, what each side has there, and the type and status of the row, or execution, it is in."""

    path: str
    server: Any
    here: Any
    type: str = ""
    state: str = ""

    def __str__(self) -> str:
        return f"{self.path}: server {_shown(self.server)}, here {_shown(self.here)}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) < 400 else f"{text[:400]}…"


@attrs.frozen
class Snapshot:
    """An execution with those it started, ids replaced by labels, which say what they are ids of; and the id of each label."""

    document: dict[str, Any]
    ids: Mapping[str, str]

    def label(self, known: str) -> str:
        return next((label for label, each in self.ids.items() if each == known), known)


def snapshot(workflow_id: str, fetch: Fetch, own: str) -> Snapshot:
    """An execution with those it started; `own` is what OWN stood for in names."""
    labels: dict[str, str] = {}
    found = _execution(workflow_id, fetch, "", labels, depth=0)
    text = json.dumps(found, ensure_ascii=False)
    for known, label in ({**labels, own: OWN}).items():
        text = text.replace(known, label.replace(own, OWN))
    text = _OTHER.sub("<other>", text)
    return Snapshot(json.loads(text), {label: known for known, label in labels.items()})


def _execution(workflow_id: str, fetch: Fetch, place: str, labels: dict[str, str], depth: int) -> dict[str, Any]:
    document = fetch(workflow_id)
    if document is None:
        return {"status": "gone"}
    labels[workflow_id] = f"<workflow {place}>"
    rows: dict[str, Any] = {}
    children: dict[str, Any] = {}
    for each in document.get("tasks", ()):
        key = f"{each['referenceTaskName']}#{each.get('retryCount', 0)}"
        while key in rows:
            key += "'"
        labels[each["taskId"]] = f"<task {place}{key}>"
        rows[key] = {name: each.get(name) for name in TASK}
        child = _child(each)
        if child and child not in labels and depth < 4:
            children[key] = _execution(child, fetch, f"{place}{key}/", labels, depth + 1)
    failure = document.get("output", {}).get("conductor.failure_workflow")
    if isinstance(failure, str) and _ID.fullmatch(failure):
        children["failure"] = _execution(failure, fetch, f"{place}failure/", labels, depth + 1)
    return {**{name: document.get(name) for name in WORKFLOW}, "order": list(rows), "tasks": rows, "children": children}


def _child(row: Mapping[str, Any]) -> str | None:
    output = row.get("outputData") or {}
    if row["taskType"] == "SUB_WORKFLOW":
        return row.get("subWorkflowId") or output.get("subWorkflowId")
    if row["taskType"] == "START_WORKFLOW" and isinstance(output.get("workflowId"), str):
        return str(output["workflowId"])
    return None


def compared(server: Snapshot, here: Snapshot) -> list[Difference]:
    """All differences, each with the row it is in, which is ours unless only the server has it."""
    found = []
    for each in differences(server.document, here.document):
        row = _row(here.document, each.path) or _row(server.document, each.path) or {}
        found.append(attrs.evolve(each, type=row.get("taskType", "WORKFLOW"), state=row.get("status", "")))
    return found


def _row(document: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    while child := _CHILD.match(path):
        document, path = document.get("children", {}).get(child[1], {}), path[child.end() :]
    row = _ROW.match(path)
    return document.get("tasks", {}).get(row[1]) if row else document


def differences(server: Any, here: Any, path: str = "") -> Iterator[Difference]:
    """Every place where two snapshots differ; values of JSON are the same only if JSON writes them alike."""
    if isinstance(server, dict) and isinstance(here, dict):
        for key in [*server, *(key for key in here if key not in server)]:
            deeper = f"{path}.{key}" if path else key
            if key in server and key in here:
                yield from differences(server[key], here[key], deeper)
            elif _counts(deeper, server.get(key, here.get(key))):
                yield Difference(deeper, server.get(key, _ABSENT), here.get(key, _ABSENT))
    elif isinstance(server, list) and isinstance(here, list) and len(server) == len(here) and not path.endswith("order"):
        for index, (one, other) in enumerate(zip(server, here, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif not _same(server, here) and not (_of_a_row(path) and server in _NOTHING and here in _NOTHING):
        yield Difference(path, server, here)


def _same(server: Any, here: Any) -> bool:
    if type(server) is not type(here):
        return False
    return bool(server == here)


def _of_a_row(path: str) -> bool:
    """Whether it is a field of Conductor's own, not a value of somebody's data."""
    return path.rpartition(".")[2] in {*WORKFLOW, *TASK}


def _counts(path: str, value: Any) -> bool:
    return not (_of_a_row(path) and value in _NOTHING)
