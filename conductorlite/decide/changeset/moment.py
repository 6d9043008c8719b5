"""Time at which a turn takes place."""

from __future__ import annotations

from conductorlite.model.executions import Workflow

__all__ = ["Moment"]


class Moment:
    """The instants of one turn, epoch ms. They only go forward while events are handled."""

    __slots__ = ("clock", "now")

    def __init__(self, workflow: Workflow, now: int) -> None:
        #: What rows are stamped with: never before the workflow's last change, even if the clock was set back.
        self.now = now if now >= workflow.updated_at else workflow.updated_at
        #: The raw clock, by which events and messages come due.
        self.clock = now

    def after(self, delay_ms: int) -> int:
        """The instant that much later; what is not delayed is due by the raw clock, so that it need not wait for it."""
        return self.now + delay_ms if delay_ms else self.clock
