"""What is told of an execution, and by its workers: history, log lines, polls, reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import attrs

from conductorlite.canonical import Payload
from conductorlite.executions.statuses import TaskStatus
from conductorlite.spans import plain_ms

__all__ = ["HistoryEvent", "HistoryKind", "PollData", "TaskLog", "TaskResult"]


class HistoryKind(StrEnum):
    """What a history event tells."""

    WORKFLOW = "WORKFLOW"
    TASK = "TASK"
    ROUND = "ROUND"
    ALERT = "ALERT"
    VERB = "VERB"
    MIGRATED = "MIGRATED"
    COMPENSATION = "COMPENSATION"
    REPORT = "REPORT"
    POSTPONED = "POSTPONED"


@attrs.frozen(kw_only=True, slots=True)
class HistoryEvent:
    """One line of the journal: at `at`, the workflow or an attempt of `ref` took `status`.

    `payload` is the input when something begins and the output when it ends. ROUND: a loop entered round `number`. ALERT: a
    deadline passed whose policy is ALERT_ONLY, named by `status`. VERB: the verb `status` was used where no status tells of it;
    `payload` says what was given, and which references it `dropped`. MIGRATED: the execution moved to another definition; the
    payload holds `from` and `to` (version and hash) and `renamed` (printed references before and after), and the `refs` given.
    COMPENSATION: the workflow is compensated and will end with `status`; with a `ref`, that attempt is what is compensated
    now, by the task that `reason` names and whose line follows. REPORT: what was reported on an attempt that stays in its
    status; `status` is what was reported and `payload` what the attempt has put out so far. POSTPONED: a deadline that nobody
    wrote, named by `status`, came due with `number` ms of driven time left, and was dated anew.

    `cause` is JSON that says what came from outside the execution and led to this line and to those after it without one: its
    `kind` and what the lines do not tell of it (`worker`, `callback`, `reason` …), or `from` which execution it came; None when
    it came by itself. `same` says that the turn had begun with earlier lines, `clock` what the clock read when that is not `at`,
    `used` the hashes of definitions looked up or made at run time, `cut` the scripts that a bound ended: what they were seeded
    with, whether it was their time, and the words.

    The journal holds no fence, lease or engine name: the same definition, input, outcomes, seed and clock give the same bytes on
    every backend.
    """

    n: int
    at: int
    kind: HistoryKind
    status: str
    ref: str | None = None
    attempt: int | None = None
    number: int | None = None
    reason: str | None = None
    payload: Payload | None = None
    cause: str | None = None


@attrs.frozen(kw_only=True, slots=True)
class TaskLog:
    """One line a worker wrote about its task."""

    task_id: str
    at: int
    text: str


@attrs.frozen(kw_only=True, slots=True)
class PollData:
    """The last poll of a task type in a domain (None: in none): which worker asked, and when (epoch ms).

    `queue_name` is the task type, as in Conductor's `PollData`.
    """

    queue_name: str
    domain: str | None = None
    worker_id: str | None = None
    last_poll_time: int = 0


@attrs.frozen(kw_only=True, slots=True)
class TaskResult:
    """What a worker reports. `status` is one of COMPLETED, FAILED, FAILED_WITH_TERMINAL_ERROR, IN_PROGRESS, CANCELED.

    `callback_after_ms` says, with IN_PROGRESS, after how long the task is offered again. `lease` is the one the task was
    polled with: an older one raises StaleLease; without one the report is accepted while the attempt is open.
    `external_output_payload_storage_path` stands for an output that was uploaded where `external_storage_location` said.
    """

    workflow_id: str
    task_id: str
    status: TaskStatus
    output_data: Mapping[str, Any] = attrs.field(factory=dict)
    reason: str | None = None
    traceback: str | None = None
    callback_after_ms: int = attrs.field(default=0, converter=plain_ms)
    worker_id: str | None = None
    lease: int | None = None
    logs: Sequence[str] = ()
    external_output_payload_storage_path: str | None = None
