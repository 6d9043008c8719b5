"""What an execution that failed undoes before it ends: the compensations of its completed tasks, last ended first.

Beyond Conductor. When an execution fails, its completed tasks are put in order once and chained (`Task.compensation_next`): from
a compensation to the task it undoes, to the next one to undo. So each step looks at two rows, however many there are. The
compensation of a round of a loop is a row of the same round, and reads that round's tasks. The generation is raised at the
beginning, so that whatever was left to do by then is void.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from conductorlite.decide.draft.rows import Draft
from conductorlite.decide.operators import schedule
from conductorlite.model.executions import HistoryKind, Task, printed_ref
from conductorlite.model.statuses import TaskStatus, WorkflowStatus

__all__ = [
    "begin_compensation",
    "follow_compensation",
    "interrupted_compensation",
    "is_last_compensation",
    "schedule_compensation",
    "was_compensated",
]

#: What has been done, if only in part, and is undone.
_DONE: Final = frozenset({TaskStatus.COMPLETED, TaskStatus.COMPLETED_WITH_ERRORS})

#: How many references a reason lists, and from which length on no more failures are added to it.
_LISTED: Final = 50
_LONG: Final = 8_000


def _reverse_order(draft: Draft) -> list[Task]:
    """The completed tasks that have a compensation, in the order of undoing: last ended first, of those last scheduled first."""
    rows = draft.everything()
    done = [
        task for task in rows if task.status in _DONE and (node := draft.placed(task)) is not None and node.compensation is not None
    ]
    return sorted(done, key=lambda task: (task.ended_at, task.seq), reverse=True)


def begin_compensation(draft: Draft, status: WorkflowStatus) -> bool:
    """Schedule the first compensation of an execution that would now end with `status`; False when there is none.

    Looks at every row, once. The open tasks must have been canceled before.
    """
    order = _reverse_order(draft)
    nameless = _nameless(draft, order)
    order = [task for task in order if task.ref not in nameless]
    for stuck, by in nameless.items():
        _tell(draft, stuck, f"the execution has another task {by!r}")
    if not order:
        return False
    following: list[str | None] = [task.ref for task in order[1:]]
    for task, after in zip(order, [*following, None], strict=True):
        draft.put(attrs.evolve(task, compensation_next=after))
    draft.change(compensating=status, generation=draft.field("generation") + 1)
    draft.journal(HistoryKind.COMPENSATION, status, reason=draft.field("reason"))
    if draft.status is WorkflowStatus.PAUSED:
        draft.queue.append(("compensate", order[0].ref))
    else:
        # At once: a permitted failure may have left nothing live that would hold the execution open until the next step.
        schedule_compensation(draft, order[0].ref)
    return True


def schedule_compensation(draft: Draft, ref: str) -> None:
    """Schedule what undoes the task `ref` (as printed)."""
    if draft.made:
        # Compensations that need no worker follow each other within a turn: their rows are read in one batch.
        draft.reader.prefetch(everything=True)
    undone = draft.known(ref)
    node = draft.plan_of(undone.grafts).nodes[str(draft.node(undone).compensation)]
    by = printed_ref(node.ref, undone.iterations)
    draft.journal(HistoryKind.COMPENSATION, "COMPENSATING", ref=undone.ref, attempt=undone.attempt, reason=f"by {by!r}")
    schedule(draft, node, undone.iterations)


def follow_compensation(draft: Draft, task: Task) -> None:
    """Go on behind a compensation that has ended, well or not; one that failed for good is named in the workflow's reason."""
    undone = _undone(draft, task)
    if not task.status.successful:
        _tell(draft, undone.ref, task.reason or task.status)
    draft.queue.appendleft(("executed", task.ref))
    # Last in, first out, as with any task: this one stays live until the next one has its row.
    if undone.compensation_next is not None:
        draft.stack.append(("compensate", undone.compensation_next))


def _tell(draft: Draft, ref: str, reason: str) -> None:
    """Name a task that could not be undone in the workflow's reason."""
    failure = f"compensation of {ref!r} failed: {reason}"
    before = draft.field("reason") or ""
    if len(before) <= _LONG:
        draft.change(reason=f"{before}; {failure}" if before else failure)


def _nameless(draft: Draft, order: Iterable[Task]) -> dict[str, str]:
    """Tasks whose compensation has the name of something else, and that name: two that were made at run time may collide."""
    names = {task.ref for task in draft.everything()}
    found = {}
    for task in order:
        by = printed_ref(str(draft.node(task).compensation), task.iterations)
        if by in names:
            found[task.ref] = by
        names.add(by)
    return found


def is_last_compensation(draft: Draft, task: Task) -> bool:
    """Whether nothing is left to undo behind this compensation."""
    return _undone(draft, task).compensation_next is None


def _undone(draft: Draft, task: Task) -> Task:
    return draft.known(printed_ref(str(draft.node(task).compensates), task.iterations))


def interrupted_compensation(draft: Draft, reason: str | None) -> str:
    """The reason of an execution that is terminated while it is compensated: with what is left as it is."""
    left = [task.ref for task in _reverse_order(draft) if not _is_undone(draft, task)]
    shown = [repr(ref) for ref in left[:_LISTED]]
    if len(left) > _LISTED:
        shown.append(f"and {len(left) - _LISTED} more")
    said = f"{reason}; " if reason else ""
    return f"{said}terminated while compensating ({draft.field('reason')}); not compensated: {', '.join(shown)}"


def _is_undone(draft: Draft, task: Task) -> bool:
    compensation = draft.task(printed_ref(str(draft.node(task).compensation), task.iterations))
    if compensation is None or draft.node(compensation).compensates is None:
        return False
    return compensation.status in _DONE and _undone(draft, compensation).ref == task.ref


def was_compensated(draft: Draft, rows: Iterable[Task]) -> bool:
    """Whether anything of an execution was undone, or tried to be."""
    placed = (draft.placed(task) for task in rows)
    return any(node is not None and node.compensates is not None for node in placed)
