"""Executions of every kind, brought to the middle of their lives, and what brings each of them to its end.

`begin` leaves a store as a program that stops at some instant leaves it; `finish` goes on from whatever lies there. Both do the
same with every conductorlite that can read the definitions, so a store begun by an old one must end like one begun today.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from conductorlite import Engine, Task, TaskResult, TaskStatus, WorkflowDef, WorkflowStatus

__all__ = ["EMITTED", "ENDS_AT", "FLOWS", "KEY", "LARGE", "LIMITED", "MESSAGED", "PULL", "STARTS_AT", "begin", "finish", "outcome"]

J = dict[str, Any]

STARTS_AT: Final = 1_900_000_000_000
#: When `begin` leaves the store, ms.
ENDS_AT: Final = STARTS_AT + 60_000

#: Longer than what a row keeps inline.
LARGE: Final = "large " * 300
#: The idempotency key of the execution `keyed`.
KEY: Final = "order 7"
#: The first schema in which a task may wait for a slot.
LIMITED: Final = 2
#: The first schema of which the golden database has messages, and an execution that receives them.
MESSAGED: Final = 13
#: The same of values that are emitted.
EMITTED: Final = 15


def node(ref: str, type: str = "SIMPLE", **fields: Any) -> J:
    """A task; workers poll for `work`, which `own` names after the execution."""
    return {"name": "work" if type == "SIMPLE" else ref, "taskReferenceName": ref, "type": type, **fields}


def given(ref: str, type: str = "SIMPLE", **inputs: Any) -> J:
    """A task with input."""
    return node(ref, type, inputParameters=inputs)


def work(ref: str, name: str = "work", reads: str = "${workflow.input.x}", **policy: Any) -> J:
    """A worker's task with every timeout; more of its definition as keywords."""
    definition = {"name": name, "retryCount": 2, "retryDelaySeconds": 300, "pollTimeoutSeconds": 7_200, "timeoutSeconds": 7_200,
                  "responseTimeoutSeconds": 900, "totalTimeoutSeconds": 14_400, **policy}  # fmt: skip
    return {**node(ref, inputParameters={"x": reads}), "name": name, "taskDefinition": definition}


def switched(ref: str, type: str = "SWITCH", **cases: list[J]) -> J:
    """A SWITCH or DECISION on the input's `case`."""
    how = {"evaluatorType": "value-param", "expression": "c"} if type == "SWITCH" else {"caseValueParam": "c"}
    return given(ref, type, c="${workflow.input.case}") | {"decisionCases": cases, **how}


def below(ref: str, name: str, *tasks: J, **fields: Any) -> J:
    """A SUB_WORKFLOW."""
    return node(ref, "SUB_WORKFLOW", subWorkflowParam={"name": name, "workflowDefinition": _flow(name, *tasks)}, **fields)


def _flow(name: str, *tasks: J, **fields: Any) -> J:
    return {"name": name, "version": 1, "tasks": list(tasks), **fields}


GATE: Final = node("gate", "HUMAN")
LOOP: Final = node(
    "loop", "DO_WHILE", loopCondition="$.loop['iteration'] < 3", inputParameters={"keepLastN": 2},
    loopOver=[work("turn", reads="${loop.output.iteration}"), given("count", "SET_VARIABLE", n="${turn.output.by}")],
)  # fmt: skip
FORK: Final = [
    node("fork", "FORK_JOIN", forkTasks=[[work("left")], [given("wait", "WAIT", duration="30 minutes")], [work("right")]]),
    node("join", "JOIN", joinOn=["left", "wait", "right"]),
]
DYNAMIC_FORK: Final = [
    given("spread", "FORK_JOIN_DYNAMIC", t="${workflow.input.branches}", i={})
    | {"dynamicForkTasksParam": "t", "dynamicForkTasksInputParamName": "i"},
    node("gather", "JOIN"),
    given("stand_in", "DYNAMIC", who="work", x="${gather.output}") | {"dynamicTaskNameParam": "who"},
]
PULL: Final = "PULL_WORKFLOW_MESSAGES"
SCRIPTS: Final = [
    given("inline", "INLINE", evaluatorType="javascript", expression="$.x + 1", x=1),
    given("lambda", "LAMBDA", scriptExpression="return $.x", x="${inline.output.result}"),
    given("jq", "JSON_JQ_TRANSFORM", queryExpression=".x | length", x=[1, 2, 3]),
]
HTTP: Final = given("call", "HTTP", http_request={"uri": "http://nowhere.example/", "method": "GET"})
UNDO: Final = [
    work("book") | {"compensate": work("unbook", reads="${book.output.by}")},
    work("pay") | {"compensate": given("refund", "SET_VARIABLE", refunded="${pay.output.by}")},
    node("stop", "TERMINATE", inputParameters={"terminationStatus": "FAILED", "terminationReason": "no stock"}),
]
#: By id: the definition of an execution that is begun, with its input.
FLOWS: Final[dict[str, tuple[J, J]]] = {
    "polled": (_flow("polled", work("a"), work("b", reads="${a.output.by}"), timeoutSeconds=20_000), {"x": LARGE}),
    "offered": (_flow("offered", work("a", "far")), {"x": 1}),
    "tried": (_flow("tried", work("a"), node("b")), {"x": 1}),
    "called": (_flow("called", HTTP, given("told", "EVENT", what="${call.output}") | {"sink": "conductor:news"},
                     given("sent", "KAFKA_PUBLISH", kafka_request={"topic": "t", "value": "v", "bootStrapServers": "h:1"}),
                     ), {}),
    "later": (_flow("later", work("a"), node("asked", asyncComplete=True)), {"x": 2}),
    "paused": (_flow("paused", work("a"), given("nap", "WAIT", duration="10 minutes"), node("b")), {"x": 3}),
    "parked": (_flow("parked", work("a"), node("b")), {"x": 4}),
    "forked": (_flow("forked", *FORK, node("b", inputParameters={"all": "${join.output}"})), {"x": 5}),
    "chosen": (_flow("chosen", switched("way", x=[work("one")]), node("either", "EXCLUSIVE_JOIN", joinOn=["one"]),
                     switched("old", "DECISION", x=[node("two")]), node("end", "NOOP")), {"x": 6, "case": "x"}),
    "looping": (_flow("looping", LOOP, node("b")), {}),
    "spread": (_flow("spread", *DYNAMIC_FORK), {"branches": [work("p"), work("q"), node("r", "NOOP")]}),
    "family": (_flow("family", below("child", "inner", work("c1"), GATE, node("c2")),
                     given("other", "START_WORKFLOW", startWorkflow={"name": "mourn", "input": {"why": "${child.status}"}})), {}),
    "scripts": (_flow("scripts", *SCRIPTS, GATE), {}),
    "undoing": (_flow("undoing", *UNDO), {"x": 7}),
    "moved": (_flow("moved", work("a"), node("b")), {"x": 8}),
    "again": (_flow("again", work("a"), work("b"), node("c")), {"x": 9}),
    "jumped": (_flow("jumped", work("a"), node("s"), node("z")), {"x": 10}),
    "completed": (_flow("completed", work("a"), outputParameters={"by": "${a.output.by}"}), {"x": LARGE}),
    "failed": (_flow("failed", work("a"), node("b"), failureWorkflow="mourn"), {"x": 11}),
    "timed_out": (_flow("timed_out", node("h", "HUMAN"), timeoutSeconds=20, timeoutPolicy="TIME_OUT_WF"), {}),
    "unpolled": (_flow("unpolled", work("a", pollTimeoutSeconds=10)), {"x": 14}),
    "terminated": (_flow("terminated", *FORK), {"x": 12}),
    "optional": (_flow("optional", {**work("a"), "optional": True}, GATE), {"x": 13}),
    "messaged": (_flow("messaged", *(given(f"read_{topic}", PULL, topic=topic) for topic in ("old", "news", "early"))), {}),
    "emitting": (_flow("emitting", given("told", "EMIT", value="${workflow.input}", stream="news"), work("a"), work("b")),
                 {"x": 15}),
}  # fmt: skip


def take(engine: Engine, workflow_id: str, task_type: str | None = None) -> Task:
    """Take the task that an execution offers."""
    (task,) = engine.poll(task_type or f"work_{workflow_id}", worker_id="golden")
    return task


def report(engine: Engine, task: Task, status: str = "COMPLETED", **fields: Any) -> None:
    """What its worker says of a task."""
    output = {"by": task.ref, "got": task.input_data} if status == "COMPLETED" else {}
    engine.update_task(
        TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus(status), lease=task.lease,
                   output_data=output, worker_id="golden", **fields)
    )  # fmt: skip


def do(engine: Engine, workflow_id: str, status: str = "COMPLETED", **fields: Any) -> None:
    """Take a task of an execution and report on it."""
    report(engine, take(engine, workflow_id), status, **fields)


def own(workflow_id: str) -> tuple[J, J]:
    """The definition and input of an execution, with a queue of its own for its workers."""
    text = json.dumps(FLOWS[workflow_id]).replace('"work"', f'"work_{workflow_id}"')
    document, values = json.loads(text)
    return document, values


def start(engine: Engine, workflow_id: str, **options: Any) -> None:
    """Begin one of the executions."""
    document, values = own(workflow_id)
    engine.start(WorkflowDef.from_json(document), values, workflow_id=workflow_id, **options)


def begin(engine: Engine, schema: int) -> None:
    """Begin all there is in a schema and bring each execution to the middle of its life."""
    engine.register(WorkflowDef.from_json(_flow("mourn", work("m"), outputParameters={"why": "${workflow.input.reason}"})))
    engine.register(WorkflowDef.from_json(_flow("keyed", node("k", "HUMAN"))))
    for workflow_id, bring in _BRINGING.items():
        bring(engine, workflow_id)
    engine.start("keyed", workflow_id="keyed", idempotency_key=KEY, correlation_id="customer 1", priority=7, created_by="golden")
    engine.start("keyed", workflow_id="dated", delay="45m")
    if schema >= LIMITED:
        _begin_limited(engine)
    if schema >= MESSAGED:
        _begin_messaged(engine)
    if schema >= EMITTED:
        _begin_emitting(engine)
    engine.advance(to=ENDS_AT)


def _begin_limited(engine: Engine) -> None:
    """Two tasks of one slot, and two executions of another."""
    one = _flow("slot", work("a", "narrow", concurrentExecLimit=1))
    gate = _flow("gates", GATE, rateLimitConfig={"rateLimitKey": "gates", "concurrentExecLimit": 1})
    for number in (1, 2, 3):
        engine.start(WorkflowDef.from_json(one), {"x": number}, workflow_id=f"slot {number}")
        engine.start(WorkflowDef.from_json(gate), workflow_id=f"gates {number}")
    take(engine, "slot 1", "narrow")


def _begin_messaged(engine: Engine) -> None:
    """One that has received a message, waits for another, and is kept one that came early."""
    start(engine, "messaged")
    for topic in ("old", "early"):
        engine.send("messaged", topic, {"about": topic}, key=topic)


def _begin_emitting(engine: Engine) -> None:
    """One whose tasks have emitted values that are kept, dropped and open, with a latest value."""
    start(engine, "emitting")
    task = take(engine, "emitting")
    engine.streams.emit(task, {"about": "a"}, stream="news")
    report(engine, task)
    task = take(engine, "emitting")
    engine.streams.emit(task, "dropped")
    engine.rerun("emitting", from_task="b")
    engine.streams.emit(take(engine, "emitting"), "open")
    engine.streams.set_value("emitting", "mood", "good")


def _polled(engine: Engine, workflow_id: str) -> None:
    start(engine, workflow_id)
    task = take(engine, workflow_id)
    engine.tasks.log(task, "began", "half done")


def _offered(engine: Engine, workflow_id: str) -> None:
    start(engine, workflow_id, priority=9, task_to_domain={"far": "mars"})


def _tried(engine: Engine, workflow_id: str) -> None:
    start(engine, workflow_id)
    do(engine, workflow_id, "FAILED", reason="503", logs=["tried in vain"])


def _later(engine: Engine, workflow_id: str) -> None:
    start(engine, workflow_id)
    do(engine, workflow_id)
    do(engine, workflow_id, "IN_PROGRESS", callback_after_ms=3_600_000)


def _paused(engine: Engine, workflow_id: str) -> None:
    start(engine, workflow_id)
    task = take(engine, workflow_id)
    engine.pause(workflow_id)
    report(engine, task)


def _parked(engine: Engine, workflow_id: str) -> None:
    start(engine, workflow_id)
    task = take(engine, workflow_id)
    with engine.backend.writing() as tx:
        tx.executions.park(workflow_id, 3, "a law did not hold")
    report(engine, task)


def _once(engine: Engine, workflow_id: str) -> None:
    start(engine, workflow_id)
    do(engine, workflow_id)


def _looping(engine: Engine, workflow_id: str) -> None:
    start(engine, workflow_id)
    do(engine, workflow_id)
    take(engine, workflow_id)


def _undoing(engine: Engine, workflow_id: str) -> None:
    start(engine, workflow_id)
    do(engine, workflow_id)
    do(engine, workflow_id)
    take(engine, workflow_id)


def _moved(engine: Engine, workflow_id: str) -> None:
    start(engine, workflow_id)
    document, _ = own(workflow_id)
    engine.definitions.migrate(
        workflow_id, WorkflowDef.from_json({**document, "version": 2, "tasks": [*document["tasks"], node("c")]})
    )


def _again(engine: Engine, workflow_id: str) -> None:
    start(engine, workflow_id)
    do(engine, workflow_id)
    do(engine, workflow_id)
    engine.rerun(workflow_id, from_task="b")


def _jumped(engine: Engine, workflow_id: str) -> None:
    start(engine, workflow_id)
    engine.skip_task(workflow_id, "s", output={"skipped": True})
    engine.update_variables(workflow_id, {"by": "hand"})


def _failed(engine: Engine, workflow_id: str) -> None:
    start(engine, workflow_id)
    do(engine, workflow_id, "FAILED_WITH_TERMINAL_ERROR", reason="nobody at home")


def _terminated(engine: Engine, workflow_id: str) -> None:
    start(engine, workflow_id)
    take(engine, workflow_id)
    engine.terminate(workflow_id, "enough")


def _spread(engine: Engine, workflow_id: str) -> None:
    start(engine, workflow_id)
    do(engine, workflow_id)
    take(engine, workflow_id)


def _timed_out(engine: Engine, workflow_id: str) -> None:
    start(engine, workflow_id)
    engine.advance("21s")


_BRINGING: Final[dict[str, Callable[[Engine, str], None]]] = {
    "unpolled": start,
    "timed_out": _timed_out,
    "polled": _polled,
    "offered": _offered,
    "tried": _tried,
    "called": start,
    "later": _later,
    "paused": _paused,
    "parked": _parked,
    "forked": _once,
    "chosen": _once,
    "looping": _looping,
    "spread": _spread,
    "family": _once,
    "scripts": start,
    "undoing": _undoing,
    "moved": _moved,
    "again": _again,
    "jumped": _jumped,
    "completed": _once,
    "failed": _failed,
    "terminated": _terminated,
    "optional": _failed,
}

# ---------------------------------------------------------------------- to the end


def finish(engine: Engine) -> None:
    """Bring every execution to its end: resume, retry what failed, report on what is with workers, answer what waits."""
    for workflow_id in sorted(engine.admin.workflow_ids()):
        row = engine.core.queries.execution(workflow_id)
        if row.status is WorkflowStatus.PAUSED or row.parked is not None:
            engine.resume(workflow_id)
    engine.retry("failed")
    engine.restart("terminated")
    while any(not engine.status(workflow_id).terminal for workflow_id in engine.admin.workflow_ids()):
        engine.settle()
        if not _work(engine):
            due = engine.admin.next_wakeup()
            if due is None:
                raise AssertionError("nothing will move any more")
            engine.advance(to=due)


def _work(engine: Engine) -> int:
    """Report on everything that is held, answer everything that waits, take everything that is offered; how much that was."""
    done = 0
    for workflow_id in sorted(engine.admin.workflow_ids()):
        for task in engine.get(workflow_id).tasks:
            if task.status is TaskStatus.IN_PROGRESS and task.lease:
                report(engine, task)
                done += 1
            elif task.status is TaskStatus.IN_PROGRESS and task.task_type in ("HUMAN", "WAIT") and task.wait_until is None:
                engine.signal(workflow_id, {"said": "yes"}, task=task.ref)
                done += 1
            elif task.status is TaskStatus.IN_PROGRESS and task.task_type == PULL:
                topic = task.input_data["topic"]
                engine.send(workflow_id, topic, {"about": topic}, key=topic)
                done += 1
    for queue in sorted(engine.tasks.queue_sizes()):
        domain, _, task_type = queue.rpartition(":")
        for task in engine.poll(task_type, worker_id="golden", domain=domain or None, count=100):
            report(engine, task)
            done += 1
    return done


def outcome(engine: Engine, workflow_id: str) -> J:
    """How an execution stands: its status and output, and every attempt at every task."""
    row = engine.get(workflow_id)
    tasks = sorted(row.tasks, key=lambda task: (task.ref, task.attempt))
    emitted = [[item.number, item.stream, item.value, item.ref] for item in engine.streams.items(workflow_id)]
    values = {value.name: value.value.fresh() for value in engine.streams.values(workflow_id)}
    return {
        **({"emitted": emitted, "values": values} if emitted else {}),
        "status": str(row.status),
        "reason": row.reason,
        "output": row.output_data,
        "variables": row.variables.fresh(),
        "tasks": {f"{task.ref}#{task.attempt}": [str(task.status), task.output_data, task.reason] for task in tasks},
    }
