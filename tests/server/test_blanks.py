"""An empty text is a field that a form has left blank: everywhere in a request it is as if it had not been given."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import httpx
import pytest
from world import asked, request_of, world

from conductorlite.model.scalars import json_names
from conductorlite.server.rest import rest_app
from conductorlite.server.rest.operations import _BLANK_COUNTS, Operation, Place, Text, without_blanks
from conductorlite.server.rest.routes import OPERATIONS

#: Properties of a report, Conductor's TaskResult, that need not be given.
_REPORT: Final = (
    *("reasonForIncompletion", "callbackAfterSeconds", "workerId", "outputData", "executionMetadata", "logs"),
    *("externalOutputPayloadStoragePath", "subWorkflowId", "extendLease", "supportsCancellation"),
)

#: Properties that Conductor's StartWorkflowRequest has and ours keeps beside its own.
_START: Final = ("externalInputPayloadStoragePath",)


def _blanked(value: Any, kind: Any) -> Any:
    """A body with an empty text in every field that it does not have and need not have, at every level."""
    if isinstance(value, list):
        return [_blanked(one, kind) for one in value]
    added = {name: "" for field, name in json_names(kind).items() if field not in _BLANK_COUNTS}
    given = dict(value)
    for name, inner in _INNER.items():
        if name in given:
            given[name] = _blanked(given[name], inner)
    if "idempotencyKey" in added:
        added |= dict.fromkeys(_START, "")
    return added | given


def _inner() -> dict[str, Any]:
    from conductorlite.model.definitions import StartWorkflowRequest, WorkflowTask
    from conductorlite.model.handlers import EventAction, StartWorkflow

    return {
        "tasks": WorkflowTask,
        "startWorkflowRequest": StartWorkflowRequest,
        "actions": EventAction,
        "start_workflow": StartWorkflow,
    }


_INNER: Final = _inner()


def _asked(one: Operation, *, blank: bool) -> list[tuple[int, str]]:
    """The answer to a good request, and what there is afterwards; with an empty text wherever none is needed, or without."""
    engine = world()
    path, query, body = request_of(engine, one)
    if blank:
        query = {**{each.name: "" for each in one.parameters if each.place is Place.QUERY and not each.demanded}, **query}
        kind = next((each.kind for each in one.parameters if each.place is Place.BODY), None)
        if kind is not None and body is not None:
            body = _blanked(body, kind)
        elif isinstance(body, dict) and "taskId" in body:
            body = {**dict.fromkeys(_REPORT, ""), **body}

    with engine:
        return asked(engine, one.method, path, query, body)


#: Operations that say no to the request of the world: it has no payload storage, and no queues of statuses.
_REFUSED: Final = {"storageLocation"}


@pytest.mark.parametrize("one", OPERATIONS, ids=lambda one: f"{one.method} {one.path}")
def test_a_blank_field_was_not_given(one: Operation) -> None:
    """Each operation does and answers the same with every optional parameter and field empty as without them."""
    plain, blank = _asked(one, blank=False), _asked(one, blank=True)
    if one.name not in _REFUSED:
        assert plain[0][0] in (200, 204), plain[0]
    assert blank == plain


def test_what_is_the_users_stays() -> None:
    """Empty texts in inputs, outputs and variables are values; a name is demanded, and a blank one is an error."""
    for path, body, found in (
        (
            "/api/workflow",
            {"name": "flow", "input": {"x": "", "y": {"idempotencyKey": ""}}},
            {"x": "", "y": {"idempotencyKey": ""}},
        ),
        ("/api/workflow/flow", {"x": "", "correlationId": ""}, {"x": "", "correlationId": ""}),
    ):
        engine = world()

        async def main(engine: Any = engine, path: str = path, body: Any = body) -> str:
            transport = httpx.ASGITransport(rest_app(engine))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
                for wrong in ({"name": ""}, {"workflowInstanceId": "polled", "taskId": "", "status": "COMPLETED"}):
                    where = "/api/tasks" if "taskId" in wrong else "/api/metadata/workflow"
                    assert (await client.post(where, json=wrong)).status_code == 400
                return (await client.post(path, json=body)).text

        assert engine.get(asyncio.run(main())).input_data == found


def test_every_body_has_a_kind() -> None:
    """Which fields may be blank is known of every body that is not the user's own value or a list of ids."""
    own = {
        "start_named",
        "update_first",
        "update_by_id",
        "update_by_reference",
        "update_by_reference_sync",
        "signal",
        "signal_sync",
        "send_message",
        "send_to_topic",
        "set_value",
        "emit",
        "fork",
        "plan_fork",
        "run_task",
    }
    reports = {"update_task", "update_and_poll"}  # read by `reported`, which is tried above
    for one in OPERATIONS:
        for each in one.parameters:
            if each.place is Place.BODY and each.type is not Text and each.type != list[str]:
                assert (each.kind is not None) == (one.function.__name__ not in own | reports), one.name


def test_a_blank_condition_counts() -> None:
    """A blank condition of a loop is false, and is kept."""
    from conductorlite import WorkflowDef

    loop = {"name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "loopCondition": "", "expression": ""}
    assert without_blanks({"name": "w", "tasks": [loop]}, WorkflowDef) == {
        "name": "w",
        "tasks": [{"name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "loopCondition": ""}],
    }
