"""What each verb does to an execution in each status: the one literal table, drawn by `generate.py` and performed by
`tests/engine/test_verbs_by_status.py`.

A cell is an exception's name, or one of the words in `WORDS`.
"""

from __future__ import annotations

from typing import Final

#: The columns: where an execution stands, and what that means.
STATUSES: Final = {
    "missing": "no execution ever had the id",
    "RUNNING": "two tasks with workers or in the queue, a HUMAN that waits",
    "PAUSED": "the same, paused",
    "COMPLETED": "ended well",
    "FAILED": "a task failed for good",
    "TIMED_OUT": "its own timeout has passed",
    "TERMINATED": "ended by `terminate`",
    "compensating": "RUNNING, but a task has failed and what was done is being undone",
    "compensated": "FAILED after everything was undone",
    "parked": "RUNNING, but three turns broke an invariant, and no more are taken",
    "removed": "ended, and deleted by `remove`",
}

#: What a cell says when nothing is raised.
WORDS: Final = {
    "done": "the execution changes",
    "nothing": "nothing changes, and nothing is raised",
    "answer": "what was asked for is returned",
    "task": "a task is handed out",
    "none": "no task is handed out",
    "taken": "the report counts",
    "kept": "the report counts when the execution is resumed",
    "ignored": "the report changes nothing; the task is returned as it is",
    "yes": "True: the response timeout starts again",
    "no": "False: the lease is lost",
}

#: By verb, a cell for each status in their order.
CELLS: Final[dict[str, tuple[str, ...]]] = {
    "`pause`": (
        "ExecutionNotFound", "done", "nothing", "Conflict", "Conflict", "Conflict", "Conflict", "done", "Conflict", "Parked",
        "ExecutionNotFound",
    ),
    "`resume`": (
        "ExecutionNotFound", "Conflict", "done", "Conflict", "Conflict", "Conflict", "Conflict", "Conflict", "Conflict", "done",
        "ExecutionNotFound",
    ),
    "`terminate`": (
        "ExecutionNotFound", "done", "done", "Conflict", "Conflict", "Conflict", "nothing", "done", "Conflict", "done",
        "ExecutionNotFound",
    ),
    "`retry`": (
        "ExecutionNotFound", "Conflict", "Conflict", "Conflict", "done", "done", "done", "Conflict", "Conflict", "Parked",
        "ExecutionNotFound",
    ),
    "`restart`": (
        "ExecutionNotFound", "Conflict", "Conflict", "done", "done", "done", "done", "Conflict", "done", "Parked",
        "ExecutionNotFound",
    ),
    "`rerun`": (
        "ExecutionNotFound", "done", "Conflict", "done", "done", "done", "done", "done", "done", "Parked", "ExecutionNotFound",
    ),
    "`rerun`, from a task": (
        "ExecutionNotFound", "done", "Conflict", "done", "done", "done", "done", "Conflict", "Conflict", "Parked",
        "ExecutionNotFound",
    ),
    "`skip_task`": (
        "ExecutionNotFound", "done", "Conflict", "Conflict", "Conflict", "Conflict", "Conflict", "Conflict", "Conflict",
        "Parked", "ExecutionNotFound",
    ),
    "`signal`": (
        "ExecutionNotFound", "done", "done", "Conflict", "Conflict", "Conflict", "Conflict", "TaskNotFound", "Conflict",
        "Parked", "ExecutionNotFound",
    ),
    "`update_variables`": (
        "ExecutionNotFound", "done", "done", "Conflict", "Conflict", "Conflict", "Conflict", "done", "Conflict", "Parked",
        "ExecutionNotFound",
    ),
    "`migrate`": (
        "ExecutionNotFound", "done", "done", "Conflict", "Conflict", "Conflict", "Conflict", "Conflict", "Conflict", "Parked",
        "ExecutionNotFound",
    ),
    "`decide`": (
        "ExecutionNotFound", "nothing", "nothing", "nothing", "nothing", "nothing", "nothing", "nothing", "nothing", "Parked",
        "ExecutionNotFound",
    ),
    "`remove`": (
        "ExecutionNotFound", "Conflict", "Conflict", "done", "done", "done", "done", "Conflict", "done", "Conflict",
        "ExecutionNotFound",
    ),
    "`archive`": (
        "ExecutionNotFound", "Conflict", "Conflict", "done", "done", "done", "done", "Conflict", "done", "Conflict",
        "ExecutionNotFound",
    ),
    "`poll`": ("none", "task", "task", "none", "none", "none", "none", "task", "none", "none", "none"),
    "`update_task`": (
        "TaskNotFound", "taken", "taken", "ignored", "ignored", "ignored", "ignored", "ignored", "ignored", "kept",
        "TaskNotFound",
    ),
    "`extend_lease`": ("TaskNotFound", "yes", "yes", "no", "no", "no", "no", "no", "no", "Parked", "TaskNotFound"),
    "`log`": ("nothing", "done", "done", "done", "done", "done", "done", "done", "done", "done", "nothing"),
    "`get`": (
        "ExecutionNotFound", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer",
        "ExecutionNotFound",
    ),
    "`execution`, `status`": (
        "ExecutionNotFound", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer",
        "ExecutionNotFound",
    ),
    "`history`": (
        "ExecutionNotFound", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer",
        "ExecutionNotFound",
    ),
    "`children`": (
        "ExecutionNotFound", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer",
        "ExecutionNotFound",
    ),
    "`explain`": (
        "ExecutionNotFound", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer",
        "ExecutionNotFound",
    ),
    "`export`": (
        "ExecutionNotFound", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer",
        "ExecutionNotFound",
    ),
    "`check`, `repair`": (
        "ExecutionNotFound", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer",
        "ExecutionNotFound",
    ),
    "`task`": (
        "TaskNotFound", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer",
        "TaskNotFound",
    ),
    "`task_logs`": ("answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer"),
}
