"""What a real Conductor server (3.32.3) answered to the official clients, as a story that can be told again to any server.

Each line is one kind of exchange that was recorded: method and path, body, status, and what the answer is (`shape`). What stands in
braces is a name that an earlier line has kept (`keep`). Bodies are our own, of the kind the clients sent.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

#: Properties that every answer of a kind had, and the type of their values: n number, s text, b boolean, a array, o object.
SHAPES: Final[dict[str, dict[str, str]]] = {
    "Error": {"status": "n", "message": "s", "retryable": "b"},
    "TaskDef": {
        **dict.fromkeys(
            ("backoffJitterMs", "backoffScaleFactor", "createTime", "maxRetryDelaySeconds", "totalTimeoutSeconds"), "n"
        ),
        **dict.fromkeys(("rateLimitFrequencyInSeconds", "rateLimitPerFrequency", "responseTimeoutSeconds", "retryCount"), "n"),
        **dict.fromkeys(("retryDelaySeconds", "timeoutSeconds", "updateTime"), "n"),
        **dict.fromkeys(("inputKeys", "outputKeys", "runtimeMetadata"), "a"),
        "inputTemplate": "o",
        "retryLogic": "s",
        "timeoutPolicy": "s",
        "taskStatusListenerEnabled": "b",
        "enforceSchema": "b",
    },
    "WorkflowTask": {
        **dict.fromkeys(("decisionCases", "inputParameters", "metadata", "onStateChange"), "o"),
        **dict.fromkeys(("defaultCase", "defaultExclusiveJoinTask", "forkTasks", "joinOn", "loopOver"), "a"),
        **dict.fromkeys(("asyncComplete", "optional", "permissive"), "b"),
        "startDelay": "n",
        "name": "s",
        "taskReferenceName": "s",
        "type": "s",
    },
    "WorkflowDef": {
        **dict.fromkeys(("createTime", "updateTime", "schemaVersion", "timeoutSeconds", "version"), "n"),
        **dict.fromkeys(("inputTemplate", "metadata", "outputParameters", "variables"), "o"),
        **dict.fromkeys(("inputParameters", "maskedFields", "tasks"), "a"),
        **dict.fromkeys(("enforceSchema", "restartable", "workflowStatusListenerEnabled"), "b"),
        "name": "s",
        "timeoutPolicy": "s",
    },
    "Task": {
        **dict.fromkeys(("callbackAfterSeconds", "endTime", "pollCount", "responseTimeoutSeconds", "retryCount", "seq"), "n"),
        **dict.fromkeys(("rateLimitFrequencyInSeconds", "rateLimitPerFrequency", "scheduledTime", "startTime", "updateTime"), "n"),
        **dict.fromkeys(("callbackFromWorker", "executed", "retried"), "b"),
        **dict.fromkeys(("inputData", "outputData", "workflowTask"), "o"),
        **dict.fromkeys(("referenceTaskName", "status", "taskDefName", "taskId", "taskType", "workflowInstanceId"), "s"),
        "startDelayInSeconds": "n",
        "workflowType": "s",
    },
    "Workflow": {
        **dict.fromkeys(("createTime", "endTime", "updateTime"), "n"),
        "ownerApp": "s",
        "status": "s",
        "workflowId": "s",
        "tasks": "a",
    },
    "WorkflowSummary": {
        **dict.fromkeys(("endTime", "failedReferenceTaskNames", "input", "output", "parentWorkflowId", "startTime"), "s"),
        **dict.fromkeys(("status", "updateTime", "workflowId", "workflowType", "classifier"), "s"),
        **dict.fromkeys(("executionTime", "inputSize", "outputSize", "priority", "version"), "n"),
        "failedTaskNames": "a",
        "taskToDomain": "o",
    },
    "SignalResponse": {
        **dict.fromkeys(("requestId", "responseType", "targetWorkflowId", "targetWorkflowStatus", "workflowId"), "s"),
        **dict.fromkeys(("input", "output", "variables"), "o"),
        "priority": "n",
        "signalTimeout": "b",
        "tasks": "a",
    },
    "WorkflowStatus": {"workflowId": "s", "status": "s"},
    "Bulk": {"bulkErrorResults": "o", "bulkSuccessfulResults": "a"},
    "Search": {"totalHits": "n", "results": "a"},
    "TaskExecLog": {"createdTime": "n", "log": "s", "taskId": "s"},
    "EventHandler": {"actions": "a", "active": "b", "event": "s", "name": "s"},
    "PollData": {"lastPollTime": "n", "queueName": "s", "workerId": "s"},
    "DefSummary": {"name": "s", "version": "n", "createTime": "n"},
    "Map": {},
}

#: Answers that are no object: text, no body, a number, a list of texts, an empty list.
TEXT, EMPTY, NUMBER, TEXTS, NONE = "text", "empty", "number", "texts", "none"


class Exchange(NamedTuple):
    """One exchange."""

    method: str
    path: str
    body: Any
    status: int
    #: What the answer is: a kind of SHAPES, `[kind]` for a list with one at least, or one of the above.
    shape: str
    #: Under which name the text of the answer, or its `taskId`, is kept.
    keep: str = ""


_TASK: Final = {"name": "greet", "retryCount": 1, "retryDelaySeconds": 0, "timeoutSeconds": 60, "responseTimeoutSeconds": 30}
_STEP: Final = {"name": "greet", "taskReferenceName": "g", "type": "SIMPLE", "inputParameters": {"name": "${workflow.input.name}"}}
_HELLO: Final = {"name": "hello", "version": 1, "schemaVersion": 2, "ownerEmail": "a@b.c", "tasks": [_STEP]} | {
    "outputParameters": {"text": "${g.output.text}"}
}
_TWO: Final = {"name": "two", "version": 1, "tasks": [_STEP, {**_STEP, "taskReferenceName": "h"}]}
_WAIT: Final = {"name": "waits", "version": 1, "tasks": [{"name": "wait", "taskReferenceName": "wait", "type": "WAIT"}]}
_SET: Final = {"name": "sets", "version": 1} | {
    "tasks": [{"name": "set", "taskReferenceName": "set", "type": "SET_VARIABLE", "inputParameters": {"x": "${workflow.input.x}"}}]
}
_SUB: Final = {"name": "sub", "version": 1} | {
    "tasks": [
        {"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "hello", "version": 1}},
    ]
}
_HANDLER: Final = {"name": "handler", "event": "conductor:orders", "active": False} | {
    "actions": [{"action": "start_workflow", "start_workflow": {"name": "hello", "version": 1, "input": {}}}]
}
_REPORT: Final = {"workflowInstanceId": "{wf}", "taskId": "{task}", "workerId": "vm", "status": "COMPLETED"}

STORY: Final = (
    # definitions
    Exchange("GET", "/api/metadata/workflow", None, 200, NONE),
    Exchange("GET", "/api/metadata/taskdefs", None, 200, NONE),
    Exchange("PUT", "/api/metadata/taskdefs", _TASK, 404, "Error"),
    Exchange("POST", "/api/metadata/taskdefs", [_TASK], 200, EMPTY),
    Exchange("PUT", "/api/metadata/taskdefs", _TASK, 200, EMPTY),
    Exchange("GET", "/api/metadata/taskdefs/greet", None, 200, "TaskDef"),
    Exchange("GET", "/api/metadata/taskdefs?access=READ&metadata=true", None, 200, "[TaskDef]"),
    Exchange("GET", "/api/metadata/taskdefs/nobody", None, 404, "Error"),
    Exchange("POST", "/api/metadata/workflow?overwrite=True", _HELLO, 200, EMPTY),
    Exchange("POST", "/api/metadata/workflow", _TWO, 200, EMPTY),
    Exchange("PUT", "/api/metadata/workflow?overwrite=True", [_WAIT, _SET, _SUB], 200, "Bulk"),
    Exchange("GET", "/api/metadata/workflow/hello?metadata=false&version=1", None, 200, "WorkflowDef"),
    Exchange("GET", "/api/metadata/workflow/hello", None, 200, "WorkflowDef"),
    Exchange("GET", "/api/metadata/workflow/nobody?metadata=false", None, 404, "Error"),
    Exchange("GET", "/api/metadata/workflow?short=true&metadata=true", None, 200, "[WorkflowDef]"),
    Exchange("GET", "/api/metadata/workflow/names", None, 200, TEXTS),
    Exchange("GET", "/api/metadata/workflow/hello/versions", None, 200, "[DefSummary]"),
    Exchange("DELETE", "/api/metadata/workflow/nobody/1", {}, 500, "Error"),
    Exchange("DELETE", "/api/metadata/taskdefs/nobody", {}, 500, "Error"),
    # what there is in no open-source server
    Exchange("POST", "/api/registry/service", {"name": "x"}, 404, "Error"),
    Exchange("GET", "/api/schema", None, 404, "Error"),
    Exchange("POST", "/api/schema", {"name": "x"}, 404, "Error"),
    Exchange("GET", "/api/integrations/provider", None, 404, "Error"),
    Exchange("DELETE", "/api/integrations/provider/p/integration/i", None, 404, "Error"),
    Exchange("DELETE", "/api/prompts/p", None, 404, "Error"),
    Exchange("GET", "/api/metadata/task/x/tags", None, 404, "Error"),
    Exchange("GET", "/api/metadata/workflow/x/tags", None, 405, "Error"),
    Exchange("GET", "/api/event/handler/a%3Ab", None, 404, "Error"),
    Exchange("GET", "/api/event/queue/config/a%3Ab/c", None, 404, "Error"),
    Exchange("POST", "/api/event/queue/connectivity", {}, 404, "Error"),
    Exchange("POST", "/api/event/handleIncomingEvent", {}, 405, "Error"),
    # a worker
    Exchange("POST", "/api/workflow", {"name": "hello", "version": 1, "input": {"name": "world"}}, 200, TEXT, "wf"),
    Exchange("POST", "/api/workflow", {"name": "nobody", "version": 1}, 404, "Error"),
    Exchange("GET", "/api/workflow/{wf}?includeTasks=true", None, 200, "Workflow"),
    Exchange("GET", "/api/workflow/{wf}?summarize=true", None, 200, "Workflow"),
    Exchange("GET", "/api/workflow/nobody?includeTasks=false", None, 404, "Error"),
    Exchange("GET", "/api/workflow/{wf}/status?includeOutput=false&includeVariables=false", None, 200, "WorkflowStatus"),
    Exchange("GET", "/api/workflow/nobody/status?includeOutput=false&includeVariables=false", None, 404, "Error"),
    Exchange("GET", "/api/tasks/queue/sizes?taskType=greet", None, 200, "Map"),
    Exchange("GET", "/api/tasks/queue/size?taskType=greet", None, 200, NUMBER),
    Exchange("GET", "/api/tasks/queue/all", None, 200, "Map"),
    Exchange("GET", "/api/tasks/poll/batch/greet?workerid=vm&count=5&timeout=100", None, 200, "[Task]", "task"),
    Exchange("GET", "/api/tasks/queue/polldata?taskType=greet", None, 200, "[PollData]"),
    Exchange("GET", "/api/tasks/queue/polldata?taskType=WAIT", None, 200, NONE),
    Exchange("GET", "/api/tasks/queue/polldata/all", None, 200, "[PollData]"),
    Exchange("POST", "/api/tasks", _REPORT | {"status": "IN_PROGRESS", "extendLease": True}, 200, TEXT),
    Exchange("POST", "/api/tasks/{task}/log", "a line", 200, EMPTY),
    Exchange("POST", "/api/tasks/nobody/log", "a line", 200, EMPTY),
    Exchange("GET", "/api/tasks/{task}/log", None, 200, "[TaskExecLog]"),
    Exchange("GET", "/api/tasks/{task}", None, 200, "Task"),
    Exchange("GET", "/api/tasks/nobody", None, 404, "Error"),
    Exchange("POST", "/api/tasks/update-v2", _REPORT | {"outputData": {"text": "Hello"}, "extendLease": False}, 204, EMPTY),
    Exchange("DELETE", "/api/workflow/{wf}?reason=Test%20cleanup", None, 409, "Error"),
    Exchange("PUT", "/api/workflow/{wf}/skiptask/g", {"taskOutput": {"skipped": True}}, 500, "Error"),
    Exchange("POST", "/api/workflow/two?version=1&correlationId=c&priority=0", {"name": "x"}, 200, TEXT, "wf"),
    Exchange("POST", "/api/workflow/two/correlated", ["c", "d"], 200, "Map"),
    Exchange("GET", "/api/tasks/poll/greet?workerid=vm", None, 200, "Task", "task"),
    Exchange("POST", "/api/tasks/update-v2", _REPORT, 200, "Task", "task"),
    Exchange("POST", "/api/tasks", _REPORT | {"status": "FAILED_WITH_TERMINAL_ERROR", "logs": []}, 200, TEXT),
    Exchange("POST", "/api/workflow/bulk/retry", ["{wf}"], 200, "Bulk"),
    Exchange("PUT", "/api/workflow/decide/{wf}", None, 200, EMPTY),
    Exchange("POST", "/api/tasks/{wf}/h/IN_PROGRESS", {"greet": "changed"}, 200, TEXT),
    Exchange("POST", "/api/tasks/{wf}/h/FAILED/sync?workerid=vm", {}, 200, "Workflow"),
    Exchange("POST", "/api/tasks/{wf}/nobody/COMPLETED/sync", {}, 404, "Error"),
    Exchange("POST", "/api/workflow/bulk/terminate?reason=terminated", ["{wf}"], 200, "Bulk"),
    Exchange("POST", "/api/workflow/{wf}/retry?resumeSubworkflowTasks=true", None, 204, EMPTY),
    Exchange("DELETE", "/api/workflow/{wf}?reason=End+test", {}, 200, EMPTY),
    Exchange("POST", "/api/workflow/{wf}/rerun", {"reRunFromWorkflowId": "{wf}", "reRunFromTaskId": "{task}"}, 200, TEXT),
    Exchange("DELETE", "/api/workflow/{wf}", {}, 200, EMPTY),
    Exchange("POST", "/api/workflow/{wf}/restart?useLatestDefinitions=true", None, 204, EMPTY),
    Exchange("DELETE", "/api/workflow/{wf}", {}, 200, EMPTY),
    Exchange("POST", "/api/workflow/{wf}/rerun", {}, 200, TEXT),
    Exchange("POST", "/api/tasks/{wf}/g/COMPLETED/sync", {"taskOutput": {"x": 1}}, 200, "Workflow"),
    Exchange("DELETE", "/api/workflow/{wf}", {}, 200, EMPTY),
    Exchange("GET", "/api/workflow/search?start=0&size=2", None, 200, "Search"),
    Exchange("GET", "/api/workflow/search?start=0&size=10&sort=&freeText=*&query=workflowId%3D%22{wf}%22", None, 200, "Search"),
    Exchange(
        "GET", "/api/workflow/search?freeText=&query=workflowType%20IN%20(two)%20AND%20status%20IN%20(RUNNING)", None, 200, "Search"
    ),
    Exchange("GET", "/api/workflow/search?sort=startTime%3ADESC&query=startTime%3E1&classifier=workflow", None, 200, "Search"),
    Exchange("GET", "/api/workflow/search?freeText=workflowId%3D%27{wf}%27&query=*&skipCache=false", None, 400, "Error"),
    Exchange("DELETE", "/api/workflow/{wf}/remove?archiveWorkflow=true", None, 200, EMPTY),
    # what waits
    Exchange(
        "POST",
        "/api/workflow/execute/sets/1?requestId=r&waitUntilTaskRef=&waitForSeconds=5",
        {"input": {"x": 1}},
        200,
        "SignalResponse",
    ),
    Exchange("POST", "/api/workflow", {"name": "waits", "version": 1}, 200, TEXT, "wf"),
    Exchange("POST", "/api/tasks/{wf}/COMPLETED/signal", {}, 200, EMPTY),
    Exchange("POST", "/api/tasks/nobody/COMPLETED/signal", {}, 404, "Error"),
    Exchange("POST", "/api/workflow", {"name": "waits", "version": 1}, 200, TEXT, "wf"),
    Exchange("POST", "/api/tasks/{wf}/COMPLETED/signal/sync", {}, 200, "SignalResponse"),
    Exchange("POST", "/api/tasks/nobody/COMPLETED/signal/sync", {}, 404, "Error"),
    Exchange(
        "POST",
        "/api/workflow/test",
        {"workflowDef": _TWO, "name": "two"}
        | {
            "taskRefToMockOutput": {
                "g": [{"status": "COMPLETED", "output": {"mock": 1}}],
                "h": [{"status": "COMPLETED", "output": {}}],
            }
        },
        200,
        "Workflow",
    ),
    Exchange("DELETE", "/api/workflow/nobody?reason=test", None, 404, "Error"),
    Exchange("PUT", "/api/workflow/nobody/pause", None, 404, "Error"),
    # events, schedules
    Exchange("GET", "/api/event", None, 200, NONE),
    Exchange("POST", "/api/event", _HANDLER, 200, EMPTY),
    Exchange("PUT", "/api/event", _HANDLER, 200, EMPTY),
    Exchange("PUT", "/api/event", {"name": "nobody", "event": "e", "active": True, "actions": []}, 400, "Error"),
    Exchange("GET", "/api/event/conductor%3Aorders?activeOnly=false", None, 200, "[EventHandler]"),
    Exchange("GET", "/api/event/execution", None, 200, NONE),
    Exchange("DELETE", "/api/event/handler", None, 200, EMPTY),
    Exchange("DELETE", "/api/event/nobody", None, 500, "Error"),
    Exchange("GET", "/api/scheduler/schedules", None, 200, NONE),
    Exchange("GET", "/api/scheduler/schedules/search?start=0&size=15", None, 200, "Search"),
    Exchange(
        "GET", "/api/scheduler/search/executions?start=0&size=15&sort=startTime%3ADESC&freeText=*&query=", None, 200, "Search"
    ),
    Exchange("GET", "/api/version", None, 200, TEXT),
    Exchange("DELETE", "/api/metadata/workflow/hello/1", {}, 200, EMPTY),
    Exchange("DELETE", "/api/metadata/taskdefs/greet", {}, 200, EMPTY),
)
