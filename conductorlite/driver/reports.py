"""What functions returned, kept in hand until it is stored."""

from __future__ import annotations

from collections import deque

from conductorlite.engine import Keeping
from conductorlite.errors import Conflict, EngineClosed, InvalidInput, InvariantBroken, NotFound, StorageError
from conductorlite.executions import Task, TaskResult, TaskStatus

__all__ = ["Reports"]


class Reports:
    """Reports results to an engine. One that cannot be stored at present is not lost: it goes first when it is tried again."""

    def __init__(self, engine: Keeping) -> None:
        self._engine = engine
        #: Results, and lines for the logs of tasks.
        self._in_hand: deque[tuple[Task, TaskResult | str, int]] = deque()

    def __len__(self) -> int:
        return len(self._in_hand)

    def add(self, task: Task, result: TaskResult, times: int = 1) -> None:
        """Take a result in hand, and report all that is in hand; raises as `flush` does."""
        self._in_hand.extend([(task, result, self._engine.clock.now())] * times)
        self.flush()

    def log(self, task: Task, text: str) -> None:
        """Take a line for a task's log in hand; it is kept with the next `flush`."""
        self._in_hand.append((task, text, 0))

    def flush(self) -> bool:
        """Report all that is in hand, oldest first; whether there was anything.

        Raises StorageErrors and EngineClosed, with what is left kept.
        """
        found = bool(self._in_hand)
        while self._in_hand:
            try:
                task, said, at = self._in_hand[0]
                if isinstance(said, str):
                    self._engine.log(task, said)
                else:
                    self.report(task, said, at)
            except (StorageError, EngineClosed):
                raise  # kept: the store could not be written
            except Exception:
                self._in_hand.popleft()
                raise
            self._in_hand.popleft()
        return found

    def report(self, task: Task, result: TaskResult, at: int | None) -> None:
        """Report one result of a function that ended at an instant (epoch ms); one that the engine refuses for good is dropped.

        Raises StorageErrors: then it is to be kept.
        """
        try:
            self._engine.report(task, result, at=at)
        except (Conflict, InvariantBroken, NotFound):
            return  # the lease is somebody else's, or the execution was removed while the function ran
        except InvalidInput as error:
            text = f"task {task.ref!r} reported something that cannot be kept: {error}"
            refused = TaskResult(
                workflow_id=task.workflow_id,
                task_id=task.task_id,
                status=TaskStatus.FAILED_WITH_TERMINAL_ERROR,
                reason=text.encode("utf-8", "replace").decode(),
                lease=task.lease,
            )
            self._engine.report(task, refused, at=at)
