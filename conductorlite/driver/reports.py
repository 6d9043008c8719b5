"""What functions returned, kept in hand until it is stored."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Final

from conductorlite.decisions import Outcome
from conductorlite.engine import Keeping
from conductorlite.engine.asked import Taken
from conductorlite.engine.logs import about_task
from conductorlite.errors import Conflict, EngineClosed, InvalidInput, InvariantBroken, NotFound, StorageError
from conductorlite.executions import Task, TaskResult
from conductorlite.worker.calls import refused

__all__ = ["Reports"]

#: How often a report is tried whose turn breaks an invariant: the third one parks its execution, which keeps the fourth.
_TRIES: Final = 4


class Reports:
    """Reports results to an engine. One that cannot be stored at present is not lost: it goes first when it is tried again."""

    def __init__(self, engine: Keeping) -> None:
        self._engine = engine
        #: Results, and lines for the logs of tasks.
        self._in_hand: deque[tuple[Task, TaskResult | str, int, bool]] = deque()

    def __len__(self) -> int:
        return len(self._in_hand)

    def add(self, task: Task, result: TaskResult, times: int = 1, *, lost: bool = False) -> None:
        """Take a result in hand, and report all that is in hand; raises as `flush` does. Of a lost lease was told already."""
        self._in_hand.extend([(task, result, self._engine.clock.now(), lost)] * times)
        self.flush()

    def tasks(self) -> list[Task]:
        """Of which something is in hand."""
        return [task for task, *_ in self._in_hand.copy()]

    def log(self, task: Task, text: str) -> None:
        """Take a line for a task's log in hand; it is kept with the next `flush`."""
        self._in_hand.append((task, text, 0, True))

    def flush(self) -> bool:
        """Report all that is in hand, oldest first; whether there was anything.

        Raises StorageErrors and EngineClosed, with what is left kept.
        """
        found = bool(self._in_hand)
        while self._in_hand:
            try:
                task, said, at, lost = self._in_hand[0]
                if isinstance(said, str):
                    self._engine.log(task, said)
                else:
                    self.report(task, said, at, lost=lost)
            except (StorageError, EngineClosed):
                raise  # kept: the store could not be written
            except Exception:
                self._in_hand.popleft()
                raise
            self._in_hand.popleft()
        return found

    def report(self, task: Task, result: TaskResult, at: int | None, *, lost: bool = False) -> None:
        """Report one result of a function that ended at an instant (epoch ms); one that the engine refuses for good is dropped.

        Raises StorageErrors: then it is to be kept.
        """
        try:
            taken = self._reported(task, result, at)
            ignored = [reply.message for reply in taken.replies.values() if reply.outcome is Outcome.IGNORED]
            if ignored and not lost:
                about_task(task, f"its report comes too late and is dropped: {ignored[0]}")
        except (Conflict, InvariantBroken, NotFound) as error:
            # The lease is somebody else's, or the execution was removed while the function ran.
            if not lost:
                about_task(task, f"its report is dropped: {error}")
        except InvalidInput as error:
            with suppress(Conflict, InvariantBroken, NotFound):
                self._engine.report(task, refused(task, result, error), at=at)

    def _reported(self, task: Task, result: TaskResult, at: int | None) -> Taken:
        for _ in range(_TRIES - 1):
            with suppress(InvariantBroken):
                return self._engine.report(task, result, at=at)
        return self._engine.report(task, result, at=at)
