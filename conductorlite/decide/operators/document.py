"""Document that `${…}` expressions read of an execution: one root per task reference, and `workflow`.

Source of the rule: Conductor's `ParametersUtils.getTaskInputV2`. A reference inside loops stands for the row scheduled last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.language.jsonpath import Reads
from conductorlite.language.values import MISSING, TASK_MEMBERS, WORKFLOW_MEMBERS, Json, Missing
from conductorlite.model.canonical import Payload
from conductorlite.model.executions import Task, printed_ref
from conductorlite.model.later import functions, pattern
from conductorlite.model.scalars import MAX_DEPTH, MAX_SIZE, encoded
from conductorlite.model.statuses import shown_status
from conductorlite.plan.compile import Node

if TYPE_CHECKING:
    from conductorlite.model.raised import error_of
else:
    (error_of,) = functions("conductorlite.model.raised", "error_of")

__all__ = [
    "LOOP_KEYS",
    "ExpressionContext",
    "joined_payload",
    "loop_payload",
    "output_with_rounds",
    "rendered",
    "task_values",
    "workflow_values",
]

#: What a running loop shows of itself without looking at its rounds.
LOOP_KEYS: Final = frozenset({"iteration", "loopIndex", "loopItem"})

#: How a round is named in a loop's output.
_ROUND: Final = pattern("[1-9][0-9]{0,8}")

#: Members of a root that are documents, and may be large.
_DOCUMENTS: Final = frozenset({"input", "output", "variables"})


def rendered(changeset: Changeset, node: Node, iterations: tuple[int, ...], task_id: str | None = None) -> dict[str, Any]:
    """The input of a node: what a verb has given for it, or its template resolved."""
    given = changeset.given.get(printed_ref(node.ref, iterations)) if changeset.given else None
    if given is not None:
        return dict(given)
    return node.template.render(ExpressionContext(changeset, node.template.reads, task_id))


class ExpressionContext:
    """A `Source` over a changeset: rows and payloads are asked for only when an expression reaches for them.

    `task_id` is what `${CPEWF_TASK_ID}` stands for; `reads` are those of the template that is rendered, needed to see
    whether a running loop's past rounds are read.
    """

    def __init__(self, changeset: Changeset, reads: Reads, task_id: str | None = None) -> None:
        self._changeset = changeset
        self._reads = reads
        self._task_id = task_id
        if len(reads.members) > 1 and not changeset.reader.at_hand:
            self._prefetch()

    def _prefetch(self) -> None:
        """Have the reader load the rows, and then the large documents, that are about to be read, in one batch each."""
        changeset = self._changeset
        changeset.rows.prefetch_latest(self._reads.names)
        absent = []
        for root, member in self._reads.members:
            if member not in _DOCUMENTS:
                continue
            row = changeset.workflow if root == "workflow" else changeset.rows.latest(root)
            payload = None if row is None else getattr(row, member, None)
            if payload is not None and payload.text is None:
                absent.append(payload)
        if len(absent) > 1:
            changeset.reader.prefetch(payloads=absent)

    @property
    def has_env(self) -> bool:
        """`${workflow.env.NAME}` reads only what the engine was given."""
        return True

    def env(self, name: str) -> str | None:
        """A value the engine was given."""
        return self._changeset.environment.get(name)

    def variable(self, name: str) -> str | None:
        """`CPEWF_TASK_ID`, or a name the engine was given."""
        if name == "CPEWF_TASK_ID":
            return self._task_id
        return self._changeset.environment.get(name)

    def member(self, root: str, member: str) -> Json | Missing:
        """One member of `workflow` or of a task."""
        if root == "workflow":
            return _workflow_member(self._changeset, member) if member in WORKFLOW_MEMBERS else MISSING
        task = self._changeset.rows.latest(root)
        if task is not None and member == "error":
            return error_of(task)
        if task is None or member not in TASK_MEMBERS:
            return MISSING
        if member == "output":
            if task.round and not task.status.terminal:
                return output_with_rounds(self._changeset, task, self._keys_of_output(task.base_ref))
            output = task.output
            return self._changeset.documents.value(output) if output.text is None else output.value
        return _task_member(self._changeset, task, member)

    def root(self, root: str) -> Json | Missing:
        """All members of `workflow` or of a task."""
        if root == "workflow":
            return workflow_values(self._changeset)
        task = self._changeset.rows.latest(root)
        return MISSING if task is None else _with_rounds(self._changeset, task)

    def document(self) -> Json:
        """Every root there is."""
        roots: dict[str, Json] = {"workflow": workflow_values(self._changeset)}
        for task in self._changeset.rows.everything():
            if self._changeset.rows.seen_as(task.base_ref) not in (None, task.ref):
                continue  # another round than the one that is compensated
            roots[task.base_ref] = _with_rounds(self._changeset, task)
        return roots

    def _keys_of_output(self, ref: str) -> set[str] | None:
        """Keys of a task's output that the template reads; None: any."""
        keys: set[str] = set()
        for root, member, key in self._reads.steps:
            if root == ref and member == "output":
                if key is None:
                    return None
                keys.add(key)
        return keys


def _workflow_member(changeset: Changeset, member: str) -> Json:
    workflow = changeset.workflow
    match member:
        case "input" | "output" | "variables":
            return changeset.documents.value(getattr(workflow, member))
        case "status":
            return str(changeset.workflow.status)
        case "workflowId":
            return workflow.workflow_id
        case "parentWorkflowId":
            return workflow.parent_workflow_id
        case "parentWorkflowTaskId":
            return workflow.parent_task_id
        case "workflowType":
            return workflow.name
        case "version":
            return workflow.version
        case "correlationId":
            return workflow.correlation_id
        case "reasonForIncompletion":
            return workflow.conductor_reason or workflow.reason
        case _:
            return changeset.plan.definition.schema_version


def _task_member(changeset: Changeset, task: Task, member: str) -> Json:
    match member:
        case "input":
            return changeset.documents.value(task.input)
        case "output":
            return changeset.documents.value(task.output)
        case "correlationId":
            return changeset.workflow.correlation_id
        case "callbackAfterSeconds":
            return task.offered_after_ms // 1000
        case "status":
            return shown_status(task.status, changeset.workflow.semantics).value
        case "reasonForIncompletion":
            return task.conductor_reason or task.reason
        case _:
            return getattr(task, _FIELDS[member])


_FIELDS: Final = {
    "taskType": "task_type",
    "referenceTaskName": "ref",
    "retryCount": "attempt",
    "pollCount": "poll_count",
    "taskDefName": "name",
    "scheduledTime": "scheduled_at",
    "startTime": "started_at",
    "endTime": "ended_at",
    "workflowInstanceId": "workflow_id",
    "taskId": "task_id",
    "workerId": "worker_id",
    "iteration": "iteration",
}


def workflow_values(changeset: Changeset) -> dict[str, Json]:
    """The whole `workflow` root."""
    return {member: _workflow_member(changeset, member) for member in WORKFLOW_MEMBERS}


def task_values(changeset: Changeset, task: Task) -> dict[str, Json]:
    """The whole root of one task."""
    return {member: _task_member(changeset, task, member) for member in TASK_MEMBERS}


def output_with_rounds(changeset: Changeset, loop: Task, keys: Collection[str] | None) -> dict[str, Any]:
    """The output of a loop that has begun, with those of its rounds that are among the keys; None: with all of them."""
    if keys is None:
        return loop_output(changeset, loop, range(1, loop.round + 1))
    named = [int(key) for key in keys if key not in LOOP_KEYS and _ROUND.fullmatch(key)]
    numbers = sorted(number for number in named if number <= loop.round)
    output: dict[str, Any] = changeset.documents.value(loop.output) if not numbers else loop_output(changeset, loop, numbers)
    return output


def _with_rounds(changeset: Changeset, task: Task) -> dict[str, Json]:
    """The whole root of one task, of a loop that runs with its rounds."""
    values = task_values(changeset, task)
    return {**values, "output": output_with_rounds(changeset, task, None)} if task.round and not task.status.terminal else values


def loop_output(changeset: Changeset, loop: Task, numbers: Iterable[int]) -> dict[str, Any]:
    """A loop's output with the outputs of some of its rounds: `{"1": {ref: output}, …, "iteration": n}`.

    All rounds are every row of the loop, so they are read when the loop ends, and before only for an expression that asks for them.
    """
    rounds = _rounds(changeset, loop, numbers)
    outputs = iter(changeset.documents.values(task.output for tasks in rounds.values() for task in tasks))
    found = {str(number): {task.base_ref: next(outputs) for task in tasks} for number, tasks in rounds.items()}
    return {**found, **changeset.documents.value(loop.output)}


def _rounds(changeset: Changeset, loop: Task, numbers: Iterable[int]) -> dict[int, list[Task]]:
    """The tasks of each of these rounds that has any."""
    members, around = changeset.rows.node(loop).members, loop.iterations
    refs = [printed_ref(member, (*around, number)) for number in numbers for member in members]
    # Rounds that keepLastN has dropped have no rows any more, and no place in the output.
    rounds: dict[int, list[Task]] = {}
    for task in changeset.rows.known_tasks(refs):
        if task is not None:
            rounds.setdefault(task.iterations[-1], []).append(task)
    return rounds


#: Characters of an output that is nested less deeply than any document may be, also where it stands in another, and of all
#: together, that are less than any document may have.
_FLAT: Final = MAX_DEPTH
_SMALL: Final = MAX_SIZE // 16


def loop_payload(changeset: Changeset, loop: Task) -> Payload:
    """The output of a loop with all its rounds, as it is kept; raises InvalidInput.

    Mostly made of the texts of the outputs, which need no check again.
    """
    own, numbers = loop.output.text, range(1, loop.round + 1)
    if own is None or own == "{}" or loop.output.value.keys() - LOOP_KEYS:
        return changeset.documents.payload(loop_output(changeset, loop, numbers))
    names: dict[str, str] = {}
    parts: list[str] = []
    for number, tasks in _rounds(changeset, loop, numbers).items():
        entries: list[str] = []
        for task in tasks:
            text, ref = task.output.text, task.base_ref
            if text is None or len(text) > _FLAT:
                return changeset.documents.payload(loop_output(changeset, loop, numbers))
            name = names.get(ref) or names.setdefault(ref, encoded(ref))
            entries.append(f"{name}:{text}")
        parts.append(f'"{number}":{{{",".join(entries)}}}')
    whole = f"{{{','.join((*parts, own[1:-1]))}}}"
    return (
        changeset.documents.keep(Payload(whole))
        if len(whole) <= _SMALL
        else changeset.documents.payload(loop_output(changeset, loop, numbers))
    )


def joined_payload(changeset: Changeset, tasks: Sequence[Task]) -> Payload:
    """Return what tasks have put out, by their references; raises InvalidInput. Mostly made of texts, as a loop's is."""
    parts: list[str] = []
    for task in tasks:
        text = task.output.text
        if text is None or len(text) > _FLAT:
            return changeset.documents.payload(joined_output(changeset, tasks))
        if text != "{}":
            parts.append(f"{encoded(task.ref)}:{text}")
    whole = f"{{{','.join(parts)}}}"
    return (
        changeset.documents.keep(Payload(whole))
        if len(whole) <= _SMALL
        else changeset.documents.payload(joined_output(changeset, tasks))
    )


def joined_output(changeset: Changeset, tasks: Sequence[Task]) -> dict[str, Json]:
    """Return what tasks have put out, by their references, as a document."""
    outputs = changeset.documents.values(task.output for task in tasks)
    return {task.ref: value for task, value in zip(tasks, outputs, strict=True) if value}
