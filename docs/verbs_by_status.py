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
    "COMPLETED": "succeeded",
    "FAILED": "a task failed permanently",
    "TIMED_OUT": "its own timeout has passed",
    "TERMINATED": "ended by `terminate`",
    "compensating": "RUNNING, but a task has failed and completed steps are being undone",
    "compensated": "FAILED after everything was undone",
    "parked": "RUNNING, but three turns violated an invariant, and no more are taken",
    "removed": "ended, and deleted by `remove`",
    "archived": "ended, and moved into the archive by `archive`",
}

#: What a cell says when nothing is raised.
WORDS: Final = {
    "done": "the execution changes",
    "nothing": "nothing changes, and nothing is raised",
    "answer": "the result is returned",
    "task": "a task is handed out",
    "none": "no task is handed out",
    "taken": "the report counts",
    "kept": "the report counts when the execution is resumed",
    "ignored": "the report changes nothing; the task is returned",
    "yes": "True: the response timeout starts again",
    "no": "False: the lease is lost",
}

#: Exceptions as they are written below.
_SHORT: Final = {"E": "ExecutionNotFound", "T": "TaskNotFound", "C": "Conflict", "P": "Parked", "A": "ExecutionArchived"}

#: A verb, and a cell for each status in their order.
_ROWS: Final = """
`pause`               | E       done    nothing C       C       C       C       done    C       P      E       A
`resume`              | E       C       done    C       C       C       C       C       C       done   E       A
`terminate`           | E       done    done    C       C       C       nothing done    C       done   E       A
`retry`               | E       C       C       C       done    done    done    C       C       P      E       A
`restart`             | E       C       C       done    done    done    done    C       done    P      E       A
`rerun`               | E       done    C       done    done    done    done    done    done    P      E       A
`rerun`, from a task  | E       done    C       done    done    done    done    C       C       P      E       A
`fork`, `plan_fork`   | E       answer  answer  answer  answer  answer  answer  C       C       answer  E       A
`skip_task`           | E       done    C       C       C       C       C       C       C       P      E       A
`signal`              | E       done    done    C       C       C       C       T       C       P      E       A
`update_variables`    | E       done    done    C       C       C       C       done    C       P      E       A
`migrate`             | E       done    done    C       C       C       C       C       C       P      E       A
`decide`              | E       nothing nothing nothing nothing nothing nothing nothing nothing P      E       A
`remove`              | E       C       C       done    done    done    done    C       done    C      E       done
`archive`             | E       C       C       done    done    done    done    C       done    C      E       A
`poll`                | none    task    task    none    none    none    none    task    none    none   none    none
`update_task`         | T       taken   taken   ignored ignored ignored ignored ignored ignored kept   T       A
`extend_lease`        | T       yes     yes     no      no      no      no      no      no      P      T       A
`log`                 | nothing done    done    done    done    done    done    done    done    done   nothing nothing
`get`                 | E       answer  answer  answer  answer  answer  answer  answer  answer  answer E       answer
`execution`, `status` | E       answer  answer  answer  answer  answer  answer  answer  answer  answer E       answer
`history`             | E       answer  answer  answer  answer  answer  answer  answer  answer  answer E       answer
`children`            | E       answer  answer  answer  answer  answer  answer  answer  answer  answer E       answer
`explain`             | E       answer  answer  answer  answer  answer  answer  answer  answer  answer E       answer
`export`              | E       answer  answer  answer  answer  answer  answer  answer  answer  answer E       answer
`check`, `repair`     | E       answer  answer  answer  answer  answer  answer  answer  answer  answer E       answer
`task`                | T       answer  answer  answer  answer  answer  answer  answer  answer  answer T       T
`task_logs`           | answer  answer  answer  answer  answer  answer  answer  answer  answer  answer answer  answer
"""

#: By verb, a cell for each status in their order.
CELLS: Final[dict[str, tuple[str, ...]]] = {
    verb.strip(): tuple(_SHORT.get(cell, cell) for cell in cells.split())
    for verb, _, cells in (row.partition(" | ") for row in _ROWS.strip().splitlines())
}
