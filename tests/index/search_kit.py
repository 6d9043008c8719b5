"""Documents and searches to draw from, for the tests beside this file: few values, so that they meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from conductorlite import Task, TaskStatus, Workflow, WorkflowStatus
from conductorlite.canonical import Payload
from conductorlite.search import Document, task_document, workflow_document

WORDS = ["order", "Order-7", "größe", "a*b", "x'y", 'q"r', "100%", "_", "", "\U0010ffff", "東京 tower", "nul\0l", "7", "true", "É"]
KEYS = ["a", "b.c", "d e", "f[0]", "g'h", "\\", "*"]

scalars = st.one_of(
    st.sampled_from(WORDS),
    st.integers(-3, 3),
    st.sampled_from([0.5, 1.0, 2.5, -0.0, 1e300, 2**53 + 1, 2**63, -(2**63), 10**400]),
    st.booleans(),
    st.none(),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3), max_leaves=8
)
inputs = st.dictionaries(st.sampled_from(KEYS), values, max_size=4)
instants = st.sampled_from([0, 1, 1_000, 86_400_000, 1_704_067_200_000])


@st.composite
def workflows(draw: Any, workflow_id: str) -> Workflow:
    """The row of an execution."""
    return Workflow(
        workflow_id=workflow_id,
        name=draw(st.sampled_from(WORDS[:8])),
        version=draw(st.integers(1, 3)),
        definition_hash="",
        status=draw(st.sampled_from(WorkflowStatus)),
        correlation_id=draw(st.none() | st.sampled_from(WORDS)),
        created_at=draw(instants),
        updated_at=draw(instants),
        ended_at=draw(instants),
        priority=draw(st.integers(0, 2)),
        reason=draw(st.none() | st.sampled_from(WORDS)),
        failed_refs=tuple(draw(st.lists(st.sampled_from(["a", "b", "größe"]), max_size=2, unique=True))),
        input=Payload.of(draw(inputs)),
        output=Payload.of(draw(inputs)),
    )


@st.composite
def tasks(draw: Any, row: Workflow, ref: str, attempt: int) -> Task:
    """An attempt of an execution."""
    return Task(
        workflow_id=row.workflow_id,
        ref=ref,
        base_ref=ref,
        task_id=f"{row.workflow_id}/{ref}/{attempt}",
        task_type=draw(st.sampled_from(["charge", "ship"])),
        name=draw(st.sampled_from(["charge", ""])),
        status=draw(st.sampled_from(TaskStatus)),
        attempt=attempt,
        scheduled_at=draw(instants),
        started_at=draw(instants),
        ended_at=draw(instants),
        domain=draw(st.none() | st.just("eu")),
        reason=draw(st.none() | st.sampled_from(WORDS)),
        input=Payload.of(draw(inputs)),
    )


@st.composite
def libraries(draw: Any) -> list[Document]:
    """Documents of a few executions and their attempts."""
    found = []
    for n in range(draw(st.integers(0, 6))):
        row = draw(workflows(f"w{n}"))
        found.append(workflow_document(row, archived=draw(st.booleans())))
        for attempt in range(draw(st.integers(0, 2))):
            found.append(task_document(draw(tasks(row, "t", attempt)), row))
    return found


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _number(value: float) -> str:
    return repr(value)


literals = st.one_of(
    st.sampled_from(WORDS).map(_quoted),
    st.sampled_from(["o*", "*r*", "*", "a\\*b", "'*7'", "'gr*e'", "x*'", "\U0010ffff*"]).map(
        lambda text: _quoted(text).replace("\\\\*", "\\*")
    ),
    st.integers(-3, 3).map(str),
    st.sampled_from([0.5, 1e300, 2**53 + 1, 2**63, 2.5]).map(_number),
    st.sampled_from(["true", "false", "order", "7"]),
)
paths = st.sampled_from(
    ["input.a", "input.a[0]", "input.a[*]", "output.a", "input['b.c']", "input['d e']", 'input["g\'h"].a', "input['f[0]'][*]",
     "input.a[*].a", "output['\\\\']", "input['*']", "input.a.a"]
)  # fmt: skip
TEXTS = ["workflowType", "correlationId", "status", "workflowId", "reasonForIncompletion"]
TASK_TEXTS = ["taskType", "taskDefName", "status", "workflowId", "correlationId", "workflowType", "domain", "reasonForIncompletion"]
ORDERS = st.sampled_from(["<", "<=", ">", ">="])
EQUALS = st.sampled_from(["=", "!=", "==", "<>"])


@st.composite
def comparisons(draw: Any, texts: list[str], numbers: list[str], times: list[str], more: list[str]) -> str:
    """One comparison that the language allows."""
    kind = draw(st.integers(0, 6))
    number = st.integers(-1, 3).map(str) | st.just("1.5")
    if kind == 0:
        field = draw(st.sampled_from(texts + more) | paths)
        return draw(st.sampled_from([f"{field} IS NULL", f"{field} is not null"]))
    if kind == 1:
        field = draw(st.sampled_from(texts + more) | paths)
        return f"{field} {draw(st.sampled_from(['', 'NOT ']))}STARTS_WITH {_quoted(draw(st.sampled_from(WORDS)))}"
    if kind == 2:
        return f"{draw(st.sampled_from(numbers))} {draw(EQUALS | ORDERS)} {draw(number)}"
    if kind == 3:
        low, high = draw(number), draw(number)
        return f"{draw(st.sampled_from(numbers) | paths)} {draw(st.sampled_from(['', 'not ']))}BETWEEN {low} AND {high}"
    if kind == 4:
        at = draw(st.sampled_from(["0", "1000", "'1970-01-02'", "1970-01-01T00:00:01Z", "'2024-01-01T01:00:00+01:00'"]))
        return f"{draw(st.sampled_from(times))} {draw(EQUALS | ORDERS)} {at}"
    field = draw(st.sampled_from(texts + more) | paths)
    if kind == 5:
        inner = ", ".join(draw(st.lists(literals, min_size=1, max_size=3)))
        return f"{field} {draw(st.sampled_from(['', 'NOT ']))}IN ({inner})"
    if draw(st.booleans()):
        return f"{field} {draw(EQUALS)} {draw(literals)}"
    return f"{field} {draw(ORDERS)} {draw(st.sampled_from(WORDS).map(_quoted))}"


def queries(*, of_tasks: bool = False) -> st.SearchStrategy[str]:
    """Queries that the language allows."""
    if of_tasks:
        one = comparisons(TASK_TEXTS, ["retryCount", "queueWaitTime", "workflowPriority"], ["scheduledTime", "endTime"], [])
    else:
        one = comparisons(TEXTS, ["version", "priority", "executionTime"], ["startTime", "endTime"], ["failedReferenceTaskNames"])
        one = one | st.sampled_from(["archived = true", "archived != true", "name = order", "archived IS NULL"])
    return st.recursive(
        one,
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(" AND ".join),
            st.tuples(inner, inner).map(" or ".join),
            inner.map(lambda text: f"NOT ({text})"),
            inner.map(lambda text: f"( {text} )"),
        ),
        max_leaves=6,
    )


free_texts = st.one_of(
    st.just("*"),
    st.lists(
        st.sampled_from(
            ["order", "ORDER-7", "gro*", '"order 7"', "7", "tru*", '"x y"', "東", "京*", "tower", "e", "nul", "null", "w1"]
        ),
        max_size=2,
    ).map(" ".join),
)
sorts = st.lists(
    st.sampled_from(["status", "startTime:DESC", "endTime:ASC", "correlationId:desc", "workflowType", "version:DESC"]),
    max_size=3,
).map("|".join)
