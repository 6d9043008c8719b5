"""Every query parameter of an operation changes what it does or answers, is refused, or is a row of the compatibility page."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from world import FLOW, asked, request_of, world

from conductorlite.server.rest.operations import Operation, Place
from conductorlite.server.rest.routes import OPERATIONS

_SEARCH: Final = {"start": "1", "size": "1", "freeText": "nothing-like-it", "sort": "updateTime:ASC"}

#: Of a parameter a value that makes a difference to the request of the world; with others that must be there for that.
_VALUES: Final[dict[str, dict[str, str]]] = {
    "activeOnly": {"activeOnly": "false"},
    "archiveWorkflow": {"archiveWorkflow": "false"},
    "correlationId": {"correlationId": "other"},
    "cronExpression": {"cronExpression": "0 0 3 * * ?"},
    "domain": {"domain": "elsewhere"},
    "includeClosed": {"includeClosed": "true"},
    "includeOutput": {"includeOutput": "true"},
    "includeTasks": {"includeTasks": "TURNED"},
    "includeVariables": {"includeVariables": "true"},
    "limit": {"limit": "2"},
    "overwrite": {"overwrite": "true"},
    "paused": {"paused": "true"},
    "priority": {"priority": "7"},
    "query": {"query": "workflowType = 'nobody'"},
    "reason": {"reason": "enough"},
    "requestId": {"requestId": "mine"},
    "resumeSubworkflowTasks": {"resumeSubworkflowTasks": "true"},
    "returnStrategy": {"returnStrategy": "BLOCKING_TASK"},
    "scheduleEndTime": {"scheduleEndTime": "100000000"},
    "scheduleName": {"scheduleName": "paused"},
    "scheduleStartTime": {"scheduleStartTime": "1700000000000"},
    "status": {"status": "IN_PROGRESS"},
    "taskType": {"taskType": "other"},
    "topLevelOnly": {"topLevelOnly": "true"},
    "triggerFailureWorkflow": {"triggerFailureWorkflow": "true"},
    "useLatestDefinitions": {"useLatestDefinitions": "true"},
    "verbose": {"verbose": "true"},
    "workerid": {"workerid": "somebody"},
    "workflowName": {"workflowName": "x"},
    **{name: {name: value} for name, value in _SEARCH.items()},
}

#: Where another value is needed, or others beside it, by the operation's path and the parameter.
_OTHERWISE: Final[dict[tuple[str, str], dict[str, str]]] = {
    ("/api/metadata/workflow/{name}", "version"): {"version": "1"},
    ("/api/workflow/{name}", "version"): {"version": "1"},
    ("/api/workflow/running/{name}", "version"): {"version": "2", "startTime": "1", "endTime": "2000000000000"},
    ("/api/workflow/running/{name}", "startTime"): {"startTime": "1999999999999", "endTime": "2000000000000"},
    ("/api/workflow/running/{name}", "endTime"): {"startTime": "1", "endTime": "2"},
    ("/api/workflow/execute/{name}/{version}", "waitUntilTaskRef"): {
        "waitUntilTaskRef": "begin",
        "returnStrategy": "BLOCKING_TASK",
    },
    ("/api/workflow/{workflowId}/tasks", "count"): {"count": "1"},
    ("/api/workflow/{workflowId}/messages/{topic}", "key"): {"key": "mine"},
    ("/api/tasks/poll/batch/{tasktype}", "count"): {"count": "2"},
    ("/api/admin/task/{tasktype}", "count"): {"count": "1"},
    ("/api/scheduler/search/executions", "query"): {"query": "scheduleName IN (nobody)"},
    ("/api/scheduler/search/executions", "sort"): {"sort": "scheduledTime:ASC"},
    ("/api/scheduler/schedules/search", "sort"): {"sort": "name:DESC"},
    ("/api/tasks/search", "sort"): {"sort": "taskId:ASC"},
    ("/api/tasks/search-v2", "sort"): {"sort": "taskId:ASC"},
    ("/api/tasks/search", "query"): {"query": "status = 'FAILED'"},
    ("/api/tasks/search-v2", "query"): {"query": "status = 'FAILED'"},
    ("/api/workflow/search-by-tasks", "query"): {"query": "status = 'FAILED'"},
    ("/api/workflow/search-by-tasks-v2", "query"): {"query": "status = 'FAILED'"},
}

#: What is waited for, and where a payload lies: tried by other tests.
_ELSEWHERE: Final = {
    "waitForSeconds": "server/test_rest.py::test_what_an_execution_is_waited_for",
    "timeoutMillis": "server/test_rest.py::test_what_an_execution_is_waited_for",
    "after": "server/test_server_streams.py::test_events_of_an_ended_execution",
    "keptOnly": "server/test_server_streams.py::test_only_what_is_kept",
    "ref": "server/test_server_streams.py::test_latest_values_and_workers_that_emit",
    "stream": "server/test_server_streams.py::test_events_of_an_ended_execution",
    "timeout": "server/test_rest.py::test_a_long_poll_takes_no_thread",
    "path": "payloads/test_uploads.py::test_the_flow",
    "operation": "payloads/test_uploads.py::test_the_flow",
    "payloadType": "payloads/test_uploads.py::test_the_flow",
}

#: Said to be ignored, by a row of the compatibility page.
_ROWS: Final = {
    ("/api/tasks/{workflowId}/{taskRefName}/{status}", "workerid"),
    ("/api/tasks/{workflowId}/{taskRefName}/{status}/sync", "workerid"),
}


def _cases() -> list[tuple[Operation, str]]:
    return [
        (one, each.name)
        for one in OPERATIONS
        for each in one.parameters
        if each.place is Place.QUERY and each.name not in _ELSEWHERE and (one.path, each.name) not in _ROWS
    ]


def _id(case: Any) -> str:
    return case if isinstance(case, str) else f"{case.method} {case.path}"


def test_other_tests_are_there() -> None:
    """Those that try what is not tried here."""
    for place in _ELSEWHERE.values():
        file, _, name = place.partition("::")
        assert f"def {name}(" in (Path(__file__).parents[1] / file).read_text(encoding="utf-8")


#: A retry is of an execution whose child has failed, and what is overwritten is there.
_OTHER_REQUESTS: Final[dict[str, tuple[str, Any]]] = {
    "resumeSubworkflowTasks": ("/api/workflow/parent/retry", None),
    "overwrite": ("/api/metadata/workflow", FLOW),
}


@pytest.mark.parametrize(("one", "name"), _cases(), ids=_id)
def test_each_parameter_counts(one: Operation, name: str) -> None:
    """With another value of the parameter the answer is another, or what there is afterwards."""
    given = _OTHERWISE.get((one.path, name)) or _VALUES[name]
    default = next(each.default for each in one.parameters if each.name == name)
    value = {"TURNED": str(not default).lower()}.get(given[name], given[name])
    answers = []
    for changes in ({key: one for key, one in given.items() if key != name}, {**given, name: value}):
        with world() as engine:
            path, query, body = request_of(engine, one)
            path, body = _OTHER_REQUESTS.get(name, (path, body))
            answers.append(asked(engine, one.method, path, {**query, **changes}, body))
    assert answers[0] != answers[1]
    assert name == "overwrite" or answers[0][0][0] in (200, 204)
