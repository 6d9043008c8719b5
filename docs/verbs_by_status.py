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
    ),  # fmt: skip
    "`resume`": (
        "ExecutionNotFound", "Conflict", "done", "Conflict", "Conflict", "Conflict", "Conflict", "Conflict", "Conflict", "done",
        "ExecutionNotFound",
    ),  # fmt: skip
    "`terminate`": (
        "ExecutionNotFound", "done", "done", "Conflict", "Conflict", "Conflict", "nothing", "done", "Conflict", "done",
        "ExecutionNotFound",
    ),  # fmt: skip
    "`retry`": (
        "ExecutionNotFound", "Conflict", "Conflict", "Conflict", "done", "done", "done", "Conflict", "Conflict", "Parked",
        "ExecutionNotFound",
    ),  # fmt: skip
    "`restart`": (
        "ExecutionNotFound", "Conflict", "Conflict", "done", "done", "done", "done", "Conflict", "done", "Parked",
        "ExecutionNotFound",
    ),  # fmt: skip
    "`rerun`": (
        "ExecutionNotFound", "done", "Conflict", "done", "done", "done", "done", "done", "done", "Parked", "ExecutionNotFound",
    ),  # fmt: skip
    "`rerun`, from a task": (
        "ExecutionNotFound", "done", "Conflict", "done", "done", "done", "done", "Conflict", "Conflict", "Parked",
        "ExecutionNotFound",
    ),  # fmt: skip
    "`skip_task`": (
        "ExecutionNotFound", "done", "Conflict", "Conflict", "Conflict", "Conflict", "Conflict", "Conflict", "Conflict",
        "Parked", "ExecutionNotFound",
    ),  # fmt: skip
    "`signal`": (
        "ExecutionNotFound", "done", "done", "Conflict", "Conflict", "Conflict", "Conflict", "TaskNotFound", "Conflict",
        "Parked", "ExecutionNotFound",
    ),  # fmt: skip
    "`update_variables`": (
        "ExecutionNotFound", "done", "done", "Conflict", "Conflict", "Conflict", "Conflict", "done", "Conflict", "Parked",
        "ExecutionNotFound",
    ),  # fmt: skip
    "`migrate`": (
        "ExecutionNotFound", "done", "done", "Conflict", "Conflict", "Conflict", "Conflict", "Conflict", "Conflict", "Parked",
        "ExecutionNotFound",
    ),  # fmt: skip
    "`decide`": (
        "ExecutionNotFound", "nothing", "nothing", "nothing", "nothing", "nothing", "nothing", "nothing", "nothing", "Parked",
        "ExecutionNotFound",
    ),  # fmt: skip
    "`remove`": (
        "ExecutionNotFound", "Conflict", "Conflict", "done", "done", "done", "done", "Conflict", "done", "Conflict",
        "ExecutionNotFound",
    ),  # fmt: skip
    "`poll`": ("none", "task", "task", "none", "none", "none", "none", "task", "none", "none", "none"),
    "`update_task`": (
        "TaskNotFound", "taken", "taken", "ignored", "ignored", "ignored", "ignored", "ignored", "ignored", "kept",
        "TaskNotFound",
    ),  # fmt: skip
    "`extend_lease`": ("TaskNotFound", "yes", "yes", "no", "no", "no", "no", "no", "no", "Parked", "TaskNotFound"),
    "`log`": ("nothing", "done", "done", "done", "done", "done", "done", "done", "done", "done", "nothing"),
    "`get`": (
        "ExecutionNotFound", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer",
        "ExecutionNotFound",
    ),  # fmt: skip
    "`execution`, `status`": (
        "ExecutionNotFound", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer",
        "ExecutionNotFound",
    ),  # fmt: skip
    "`history`": (
        "ExecutionNotFound", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer",
        "ExecutionNotFound",
    ),  # fmt: skip
    "`children`": (
        "ExecutionNotFound", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer",
        "ExecutionNotFound",
    ),  # fmt: skip
    "`explain`": (
        "ExecutionNotFound", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer",
        "ExecutionNotFound",
    ),  # fmt: skip
    "`check`": (
        "ExecutionNotFound", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer",
        "ExecutionNotFound",
    ),  # fmt: skip
    "`task`": (
        "TaskNotFound", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer",
        "TaskNotFound",
    ),  # fmt: skip
    "`task_logs`": ("answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer"),
}
