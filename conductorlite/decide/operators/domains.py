"""Which domain a worker's task goes to.

The workflow's `taskToDomain` names a domain, or a list of them, for a task type or for `*`, all of them; the type's own entry
wins. Of a list the first domain counts that was polled for lately, else the last; NO_DOMAIN stands for none, and counts only as
the last. It is looked up again at every scheduling: workers come and go. Source of the rule: Conductor's `setTaskDomains` and
`getActiveDomain`, without its slip of comparing with NO_DOMAIN before blanks are cut off.
"""

from __future__ import annotations

from typing import Final

from conductorlite.decide.draft.rows import Draft
from conductorlite.model.definitions import TaskType
from conductorlite.model.executions import Task

__all__ = ["POLLED_LATELY_MS", "domain_of"]

#: A domain was polled for lately when that is less ago than this: Conductor's activeWorkerLastPollTimeout.
POLLED_LATELY_MS: Final = 10_000

_ALL: Final = "*"
_NONE: Final = "NO_DOMAIN"

#: Types that Conductor's server carries out; they have no workers, so no domains either.
_WITHOUT: Final = frozenset(TaskType) - {TaskType.SIMPLE, TaskType.DYNAMIC, TaskType.USER_DEFINED}


def domain_of(draft: Draft, task_type: str, kind: str, previous: Task | None = None) -> str | None:
    """The domain for a task of a type: `kind` is the definition's type, `task_type` what workers poll for.

    A workflow that says nothing about the type leaves a further attempt where the `previous` one was.
    """
    kept = None if previous is None else previous.domain
    if kind in _WITHOUT:
        return None
    wanted = draft.value(draft.workflow.task_to_domain)
    entry = wanted.get(task_type, wanted.get(_ALL))
    return kept if entry is None else _active(draft, task_type, entry)


def _active(draft: Draft, task_type: str, entry: str) -> str | None:
    names = [name.strip() for name in entry.split(",") if name.strip()]
    if not names:
        return None
    candidates = [name for name in names[:-1] if name.upper() != _NONE]
    if candidates:
        polls = draft.reader.polls(task_type)
        for name in candidates:
            if name in polls and polls[name] > draft.clock - POLLED_LATELY_MS:
                return name
    return None if names[-1].upper() == _NONE else names[-1]
