"""Which task types are the decider's own, and for which there are workers to include."""

from __future__ import annotations

from typing import Final

from conductorlite.model.definitions import TaskType

__all__ = ["OPERATOR_TYPES", "SHIPPED_TYPES"]

#: Types whose workers we ship, and nobody gets unasked.
SHIPPED_TYPES: Final = frozenset({TaskType.HTTP, TaskType.EVENT, TaskType.KAFKA_PUBLISH})

#: Task types the decider carries out itself; every other type is a worker's.
OPERATOR_TYPES: Final = frozenset(
    {
        TaskType.FORK_JOIN,
        TaskType.JOIN,
        TaskType.SWITCH,
        TaskType.DO_WHILE,
        TaskType.WAIT,
        TaskType.NOOP,
        TaskType.INLINE,
        TaskType.SET_VARIABLE,
        TaskType.SUB_WORKFLOW,
        TaskType.TERMINATE,
        TaskType.DYNAMIC,
        TaskType.FORK_JOIN_DYNAMIC,
        TaskType.START_WORKFLOW,
        TaskType.DECISION,
        TaskType.EXCLUSIVE_JOIN,
        TaskType.HUMAN,
        TaskType.LAMBDA,
        TaskType.JSON_JQ_TRANSFORM,
    }
)
