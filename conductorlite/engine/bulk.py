"""Reports and polls of many workers in few commits, with a separate answer to each worker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from conductorlite.engine.groups import beside
from conductorlite.engine.polling import Asker
from conductorlite.engine.reports import Report, Reports
from conductorlite.engine.turn_types import Taking, TurnResult
from conductorlite.language.haste import Haste
from conductorlite.model.errors import ConductorliteError, ExecutionArchived, ExecutionNotFound, TaskNotFound
from conductorlite.model.executions import Task, TaskResult

if TYPE_CHECKING:
    from conductorlite.engine.nouns import Core
    from conductorlite.engine.polling import Polling

__all__ = ["Exchange", "exchange", "report_each"]

#: Reports of one execution that share a turn at most.
_TOGETHER: Final = 200


@attrs.define(slots=True, kw_only=True, eq=False)
class Exchange:
    """The content of one call of a worker, and its result: a report, a poll, or a report followed by a poll."""

    result: TaskResult | None = None
    #: Who polls after that, for what; by default for the type and domain of the task that was reported on.
    asker: Asker | None = None
    task_type: str | None = None
    domain: str | None = None
    #: The task of the report as it was, and why the report, or a poll alone, was refused.
    task: Task | None = None
    error: ConductorliteError | None = None
    report: Report | None = None

    @property
    def wants(self) -> int:
        """Number of tasks that it is still to be given."""
        return 0 if self.asker is None or self.error is not None else self.asker.count - len(self.asker.given)


def exchange(core: Core, asks: Sequence[Exchange], haste: Haste | None = None) -> None:
    """Take reports, those of one execution in one turn, the turns in one write; then give what is polled for.

    What a worker polls for after its report it gets in the report's own turn, where its execution has what is next in the queue.
    One that is refused refuses itself only. With `haste` a turn that waits for foreign code is left to another thread. Raises what
    does not pass by itself; then all that was taken has been given back.
    """
    reports, polling = core.reports, core.polling
    noted: list[Task] = []
    try:
        waiting = [ask for ask in asks if ask.result is not None and _prepared(reports, ask)]
        while waiting:
            groups, waiting = _sharing(waiting)
            takings: list[Taking | None] = [None] * len(groups)
            turns = [] if waiting else _with_polls(core, groups, asks, noted, haste)
            if not turns:
                takings = [_taking_next(polling, group, noted) for group in groups]
                turns = reports.taken_together([_reports_of(group) for group in groups], takings, haste=haste)
            for group, taking, turn in zip(groups, takings, turns, strict=True):
                for ask in group:
                    ask.error = _refusal(reports, ask, turn, alone=len(group) == 1)
                asker = group[0].asker
                if taking is not None and asker is not None and group[0].error is None:
                    asker.given += polling.received(taking)
        _poll(polling, asks, noted)
    except BaseException:
        polling.give_up(noted)
        raise
    for ask in asks:
        if ask.asker is not None and ask.error is not None:
            ask.asker.given = []
    kept = {task.task_id for ask in asks if ask.asker is not None for task, _ in ask.asker.given}
    if left := [task for task in noted if task.task_id not in kept]:
        polling.give_up(left)


def report_each(core: Core, results: Iterable[TaskResult]) -> list[Task | ConductorliteError]:
    """Take the reports, and return the result of each; see `Engine.update_tasks`."""
    asks = [Exchange(result=result) for result in results]
    exchange(core, asks)
    return [_stored(core.reports, ask) for ask in asks]


def _stored(reports: Reports, ask: Exchange) -> Task | ConductorliteError:
    if ask.report is None or ask.error is not None:
        return ask.error or TaskNotFound("it was no report")
    try:
        return reports.stored(ask.report.task, ask.report.result)
    except ConductorliteError as error:
        return error


def _prepared(reports: Reports, ask: Exchange) -> bool:
    """Return True if a report is ready to be taken."""
    result = ask.result
    try:
        if result is not None:
            ask.task = task = reports.found(result)
            ask.report = reports.prepared(task, reports.whole(task, result))
            if ask.asker is not None and ask.task_type is None:
                ask.task_type, ask.domain = task.task_type, task.domain
    except ConductorliteError as error:
        ask.error = error
    return ask.error is None


def _reports_of(group: Iterable[Exchange]) -> list[Report]:
    return [ask.report for ask in group if ask.report is not None]


def _with_polls(
    core: Core, groups: Sequence[Sequence[Exchange]], asks: Sequence[Exchange], noted: list[Task], haste: Haste | None
) -> list[TurnResult | ConductorliteError]:
    """Take reports and polls of one queue in one write, if what the reports offer comes after all that is taken; else nothing."""
    wanting = [ask for ask in asks if ask.wants]
    queues = {(ask.task_type or "", ask.domain or None) for ask in wanting}
    askers = [ask.asker for ask in wanting if ask.asker is not None]
    if len(queues) != 1 or any(asker.given for asker in askers) or any(map(_is_late, wanting)):
        return []
    ((task_type, domain),) = queues
    busy = {ask.task.workflow_id for group in groups for ask in group if ask.task is not None}
    poll = partial(core.polling.take_first, askers, task_type, domain, busy, noted)
    reports = [_reports_of(group) for group in groups]
    return beside(core.groups, lambda run: core.reports.taken_together(reports, run=run, haste=haste), poll)


def _is_late(ask: Exchange) -> bool:
    """Return True if a report will be refused, and nothing is to be polled for after it."""
    return ask.task is not None and ask.result is not None and ask.result.lease not in (None, ask.task.lease)


def _taking_next(polling: Polling, group: Sequence[Exchange], noted: list[Task]) -> Taking | None:
    """Return an object that gives the worker of the only report of a turn its next tasks."""
    (ask, *others) = group
    if others or ask.asker is None or not ask.wants:
        return None
    return polling.taking_next(ask.asker, ask.task_type or "", ask.domain, noted)


def _refusal(reports: Reports, ask: Exchange, turn: TurnResult | ConductorliteError, *, alone: bool) -> ConductorliteError | None:
    """Why a report was refused; None when it was taken."""
    report = ask.report
    if report is None:
        return None
    try:
        if isinstance(turn, TurnResult):
            reports.answered(report, turn)
        elif alone:
            raise turn
        else:  # of a turn that came to nothing, each is tried by itself
            reports.answered(report, reports.taken([report]))
    except ExecutionArchived as error:
        return error
    except ExecutionNotFound:
        return TaskNotFound(f"execution {report.task.workflow_id!r} was removed")
    except ConductorliteError as error:
        return error
    return None


def _poll(polling: Polling, asks: Iterable[Exchange], noted: list[Task]) -> None:
    """Poll for those who still want something, those of one queue together; after a report nothing that goes wrong is an error."""
    queues: dict[tuple[str, str | None], list[Exchange]] = {}
    for ask in asks:
        if ask.wants:
            queues.setdefault((ask.task_type or "", ask.domain or None), []).append(ask)
    for (task_type, domain), wanting in queues.items():
        rest = [(ask, Asker(worker_id=ask.asker.worker_id, count=ask.wants)) for ask in wanting if ask.asker is not None]
        try:
            polling.take_for([asker for _, asker in rest], task_type, domain, noted=noted)
        except ConductorliteError as error:
            for ask in wanting:
                ask.error = error if ask.result is None else None
        for ask, asker in rest:
            if ask.asker is not None:
                ask.asker.given += asker.given


def _sharing(waiting: Iterable[Exchange]) -> tuple[list[list[Exchange]], list[Exchange]]:
    """The next reports of each execution that may share a turn, each task once; and those that come after them."""
    groups: dict[str, list[Exchange]] = {}
    later: list[Exchange] = []
    full: set[str] = set()
    for ask in waiting:
        if ask.task is None:
            continue
        task = ask.task
        group = groups.setdefault(task.workflow_id, [])
        if len(group) == _TOGETHER or any(other.task is not None and other.task.task_id == task.task_id for other in group):
            full.add(task.workflow_id)
        (later if task.workflow_id in full else group).append(ask)
    return [group for group in groups.values() if group], later
