"""Messages that a turn puts into the queues of workers, and takes out of them."""

from __future__ import annotations

from collections.abc import Container

from conductorlite.model.decisions import Message, queue_name
from conductorlite.model.executions import Task, Workflow

__all__ = ["QueueChanges"]


class QueueChanges:
    """The messages of one turn. `inserted` holds the places of attempts that the turn itself has made."""

    def __init__(self, workflow: Workflow, inserted: Container[tuple[str, int]]) -> None:
        self._workflow = workflow
        self._inserted = inserted
        #: By execution and reference.
        self.put: dict[tuple[str, str], Message] = {}
        self.removed: dict[tuple[str, str], None] = {}

    def offer(self, task: Task) -> None:
        """Put a task into its workers' queue, visible from `task.due_at` on."""
        workflow = self._workflow
        plain = task.domain is None and not workflow.owner
        message = Message(
            queue=task.task_type if plain else queue_name(task.task_type, task.domain, workflow.owner),
            workflow_id=task.workflow_id,
            ref=task.ref,
            attempt=task.attempt,
            generation=task.generation,
            task_id=task.task_id,
            due_at=task.due_at,
            priority=workflow.priority,
        )
        self.put[task.workflow_id, task.ref] = message

    def remove(self, task: Task) -> None:
        """Take a task out of its queue."""
        key = (task.workflow_id, task.ref)
        if self.put.pop(key, None) is None or (task.ref, task.attempt) not in self._inserted:
            self.removed[key] = None

    def drop(self, ref: str) -> None:
        """Take a leftover message out of its queue."""
        self.removed[(self._workflow.workflow_id, ref)] = None

    def offered(self) -> tuple[Message, ...]:
        """Return the messages that the turn has put into queues so far."""
        return tuple(self.put.values())
