"""Documents of executions and attempts, and searches for them, to draw from: few values, so that they meet."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from conductorlite.canonical import Payload
from conductorlite.executions import Task, TaskStatus, Workflow, WorkflowStatus
from conductorlite.search import Document, task_document, workflow_document

__all__ = ["FREE_TEXTS", "SORTS", "TASK_SORTS", "libraries", "queries"]

_WORDS: Final = [
    "order", "Order-7", "größe", "a*b", "x'y", 'q"r', "100%", "_", "", "\U0010ffff", "東京 tower", "nul\0l", "7", "true", "É"
]  # fmt: skip
_KEYS: Final = ["a", "b.c", "d e", "f[0]", "g'h", "\\", "*"]

_SCALARS: Final = st.one_of(
    st.sampled_from(_WORDS),
    st.integers(-3, 3),
    st.sampled_from([0.5, 1.0, 2.5, -0.0, 1e300, 2**53 + 1, 2**63, -(2**63), 10**400]),
    st.booleans(),
    st.none(),
)
_VALUES: Final = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=3), max_leaves=8
)
_INPUTS: Final = st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=4)
_INSTANTS: Final = st.sampled_from([0, 1, 1_000, 86_400_000, 1_704_067_200_000])


@st.composite
def _workflow(draw: Any, workflow_id: str) -> Workflow:
    """The row of an execution."""
    return Workflow(
        workflow_id=workflow_id,
        name=draw(st.sampled_from(_WORDS[:8])),
        version=draw(st.integers(1, 3)),
        definition_hash="",
        status=draw(st.sampled_from(WorkflowStatus)),
        correlation_id=draw(st.none() | st.sampled_from(_WORDS)),
        created_at=draw(_INSTANTS),
        updated_at=draw(_INSTANTS),
        ended_at=draw(_INSTANTS),
        priority=draw(st.integers(0, 2)),
        reason=draw(st.none() | st.sampled_from(_WORDS)),
        failed_refs=tuple(draw(st.lists(st.sampled_from(["a", "b", "größe"]), max_size=2, unique=True))),
        input=Payload.of(draw(_INPUTS)),
        output=Payload.of(draw(_INPUTS)),
    )


@st.composite
def _task(draw: Any, row: Workflow, ref: str, attempt: int) -> Task:
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
        scheduled_at=draw(_INSTANTS),
        started_at=draw(_INSTANTS),
        ended_at=draw(_INSTANTS),
        domain=draw(st.none() | st.just("eu")),
        reason=draw(st.none() | st.sampled_from(_WORDS)),
        input=Payload.of(draw(_INPUTS)),
    )


@st.composite
def libraries(draw: Any) -> list[Document]:
    """Documents of a few executions and their attempts."""
    found = []
    for n in range(draw(st.integers(0, 6))):
        row = draw(_workflow(f"w{n}"))
        found.append(workflow_document(row, archived=draw(st.booleans())))
        for attempt in range(draw(st.integers(0, 2))):
            found.append(task_document(draw(_task(row, "t", attempt)), row))
    return found


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _number(value: float) -> str:
    return repr(value)


_LITERALS: Final = st.one_of(
    st.sampled_from(_WORDS).map(_quoted),
    st.sampled_from(["o*", "*r*", "*", "a\\*b", "'*7'", "'gr*e'", "x*'", "\U0010ffff*"]).map(
        lambda text: _quoted(text).replace("\\\\*", "\\*")
    ),
    st.integers(-3, 3).map(str),
    st.sampled_from([0.5, 1e300, 2**53 + 1, 2**63, 2.5]).map(_number),
    st.sampled_from(["true", "false", "order", "7"]),
)
_PATHS: Final = st.sampled_from(
    ["input.a", "input.a[0]", "input.a[*]", "output.a", "input['b.c']", "input['d e']", 'input["g\'h"].a', "input['f[0]'][*]",
     "input.a[*].a", "output['\\\\']", "input['*']", "input.a.a"]
)  # fmt: skip
_TEXTS: Final = ["workflowType", "correlationId", "status", "workflowId", "reasonForIncompletion"]
_TASK_TEXTS: Final = [*_TEXTS, "taskType", "taskDefName", "domain"]
_ORDERS: Final = st.sampled_from(["<", "<=", ">", ">="])
_EQUALS: Final = st.sampled_from(["=", "!=", "==", "<>"])


@st.composite
def _comparison(draw: Any, texts: list[str], numbers: list[str], times: list[str], more: list[str]) -> str:
    """One comparison that the language allows."""
    kind = draw(st.integers(0, 6))
    number = st.integers(-1, 3).map(str) | st.just("1.5")
    if kind == 0:
        field = draw(st.sampled_from(texts + more) | _PATHS)
        return f"{field} {draw(st.sampled_from(['IS NULL', 'is not null']))}"
    if kind == 1:
        field = draw(st.sampled_from(texts + more) | _PATHS)
        return f"{field} {draw(st.sampled_from(['', 'NOT ']))}STARTS_WITH {_quoted(draw(st.sampled_from(_WORDS)))}"
    if kind == 2:
        return f"{draw(st.sampled_from(numbers))} {draw(_EQUALS | _ORDERS)} {draw(number)}"
    if kind == 3:
        low, high = draw(number), draw(number)
        return f"{draw(st.sampled_from(numbers) | _PATHS)} {draw(st.sampled_from(['', 'not ']))}BETWEEN {low} AND {high}"
    if kind == 4:
        at = draw(st.sampled_from(["0", "1000", "'1970-01-02'", "1970-01-01T00:00:01Z", "'2024-01-01T01:00:00+01:00'"]))
        return f"{draw(st.sampled_from(times))} {draw(_EQUALS | _ORDERS)} {at}"
    field = draw(st.sampled_from(texts + more) | _PATHS)
    if kind == 5:
        inner = ", ".join(draw(st.lists(_LITERALS, min_size=1, max_size=3)))
        return f"{field} {draw(st.sampled_from(['', 'NOT ']))}IN ({inner})"
    if draw(st.booleans()):
        return f"{field} {draw(_EQUALS)} {draw(_LITERALS)}"
    return f"{field} {draw(_ORDERS)} {draw(st.sampled_from(_WORDS).map(_quoted))}"


def queries(*, of_tasks: bool = False) -> st.SearchStrategy[str]:
    """Queries that the language allows."""
    if of_tasks:
        one = _comparison(_TASK_TEXTS, ["retryCount", "queueWaitTime", "workflowPriority"], ["scheduledTime", "endTime"], [])
    else:
        one = _comparison(_TEXTS, ["version", "priority", "executionTime"], ["startTime", "endTime"], ["failedReferenceTaskNames"])
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


#: Free texts that the language allows.
FREE_TEXTS: Final = st.one_of(
    st.just("*"),
    st.lists(
        st.sampled_from(
            ["order", "ORDER-7", "gro*", '"order 7"', "7", "tru*", '"x y"', "東", "京*", "tower", "e", "nul", "null", "w1"]
        ),
        max_size=2,
    ).map(" ".join),
)


def _sorts(fields: list[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(fields), max_size=3).map("|".join)


#: Sorts of executions and of attempts.
SORTS: Final = _sorts(["status", "startTime:DESC", "endTime:ASC", "correlationId:desc", "workflowType", "version:DESC"])
TASK_SORTS: Final = _sorts(["status", "scheduledTime:DESC", "endTime:ASC", "retryCount:desc", "domain", "workflowId:DESC"])
