"""What an engine is made of, and the verbs that stand by noun; what few programs need is imported when it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from conductorlite.engine.config import EngineConfig, Service
from conductorlite.engine.control import Control
from conductorlite.engine.driven_time import Driven
from conductorlite.engine.holders import Holding
from conductorlite.engine.polling import Polling
from conductorlite.engine.queries import Queries
from conductorlite.engine.reports import Reports
from conductorlite.engine.turns import Turns
from conductorlite.model import attrs
from conductorlite.model.decisions import name_at
from conductorlite.model.executions import AgendaEntry, Workflow
from conductorlite.store.ports import IndexDAO, WritingTransaction

if TYPE_CHECKING:
    from conductorlite.engine.admin import Admin
    from conductorlite.engine.definitions import Definitions
    from conductorlite.engine.events import Events
    from conductorlite.engine.limits import Limits
    from conductorlite.engine.schedules import Schedules, Timetable
    from conductorlite.engine.search import Search
    from conductorlite.engine.tasks import Tasks
    from conductorlite.engine.uploads import Payloads

__all__ = ["Core", "Nouns", "wake_schedule"]


@attrs.frozen(kw_only=True, slots=False)
class Core:
    """What an engine is made of, for its driver and the test kit; programs need none of it."""

    turns: Turns
    control: Control
    queries: Queries
    reports: Reports
    polling: Polling
    holding: Holding
    driven: Driven
    config: EngineConfig
    index: IndexDAO | None

    @cached_property
    def timetable(self) -> Timetable:
        """What fires schedules."""
        from conductorlite.engine.schedules import Timetable

        return Timetable(self.turns, self.config, self.control)

    @cached_property
    def searching(self) -> Search:
        """What answers searches, and keeps the indexes."""
        from conductorlite.engine.search import Search

        return Search(self.turns, self.config, self.index)

    @property
    def indexing(self) -> Search | None:
        """The same, where something may be indexed: for an external index, and once there was a search."""
        return self.searching if self.index is not None or "searching" in self.__dict__ else None


class Nouns(Service):
    """The services of an engine."""

    core: Core
    #: What running workers will report.
    running: Callable[[], Iterable[AgendaEntry]]
    #: Whether documents past the soft barrier are stored where the backend puts them by default.
    documents_beside: bool

    @cached_property
    def definitions(self) -> Definitions:
        """Definitions of workflows, tasks and schemas."""
        from conductorlite.engine.definitions import Definitions

        return Definitions(self._turns, self._config, self.core.control)

    @cached_property
    def tasks(self) -> Tasks:
        """Tasks of any execution."""
        from conductorlite.engine.tasks import Tasks

        return Tasks(self._turns, self._config, self.core.reports, self.core.searching)

    @cached_property
    def schedules(self) -> Schedules:
        """Schedules."""
        from conductorlite.engine.schedules import Schedules

        return Schedules(self._turns, self._config, self.core.timetable)

    @cached_property
    def events(self) -> Events:
        """Events from outside, and their handlers."""
        from conductorlite.engine.events import Events

        return Events(self._turns, self._config, self.core.control.new_id)

    @cached_property
    def limits(self) -> Limits:
        """Limits on executions and on tasks."""
        from conductorlite.engine.limits import Limits

        return Limits(self._turns, self._config)

    @cached_property
    def payloads(self) -> Payloads:
        """The payload storage."""
        from conductorlite.engine.uploads import Payloads

        return Payloads(self._turns, self._config)

    @cached_property
    def admin(self) -> Admin:
        """The store as a whole."""
        from conductorlite.engine.admin import Admin

        core = self.core
        return Admin(self._turns, self._config, core.queries, core.control, core.searching, self.running, self.documents_beside)


def wake_schedule(tx: WritingTransaction, workflow: Workflow) -> None:
    """Wake the schedule that waits for the end of an execution, in the commit of that end."""
    name = name_at(workflow.event or "")
    if name is not None:
        from conductorlite.engine.schedules import wake

        wake(tx, name, workflow)
