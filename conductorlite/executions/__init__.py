"""What has happened so far: the rows of an execution, and the tables of what may happen to them.

A `Workflow` is one execution, a `Task` one attempt at one node of its definition. Both are frozen: a change is a new row. The
tables below are the whole state machine; `draft` is the only writer and consults them at every change, `check` replays them.

    task:      PENDING → SCHEDULED ⇄ IN_PROGRESS → a terminal status; a terminal status only moves by an explicit verb
    workflow:  RUNNING ⇄ PAUSED → a terminal status; a terminal status only moves by an explicit verb

**Identity.** An attempt is (workflow_id, ref, attempt); `ref` is the printed reference: the definition's reference followed by
`__<n>` for each loop around it (`x__2__1`). The parts are columns (`base_ref`, `iterations`), never parsed out of the name.
`generation` is raised by the verbs that reopen an execution, and when its compensation begins; an event or message of an
earlier generation is void.

**Live.** A task counts as live until its end has been *executed*, that is, until its successors were scheduled. The counters
(`open` on a workflow and on a DO_WHILE, `waiting` on a JOIN) are caches of counts over rows, so an execution is over exactly
when nothing is live, however a turn was cut.
"""

from __future__ import annotations

from conductorlite.executions.causes import Cause
from conductorlite.executions.journal import HistoryEvent, HistoryKind, PollData, TaskLog, TaskResult
from conductorlite.executions.rows import Task, Workflow, changed, printed_ref
from conductorlite.executions.statuses import (
    REPORTABLE,
    TASK_TRANSITIONS,
    TASK_VERB_TRANSITIONS,
    WORKFLOW_TRANSITIONS,
    WORKFLOW_VERB_TRANSITIONS,
    TaskStatus,
    WorkflowStatus,
    shown_status,
)

__all__ = [
    "REPORTABLE",
    "TASK_TRANSITIONS",
    "TASK_VERB_TRANSITIONS",
    "WORKFLOW_TRANSITIONS",
    "WORKFLOW_VERB_TRANSITIONS",
    "Cause",
    "HistoryEvent",
    "HistoryKind",
    "PollData",
    "Task",
    "TaskLog",
    "TaskResult",
    "TaskStatus",
    "Workflow",
    "WorkflowStatus",
    "changed",
    "printed_ref",
    "shown_status",
]
