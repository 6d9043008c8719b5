"""Many reports at once: in few commits, and each with an answer of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from conductorlite.engine.reports import Report, Reports
from conductorlite.engine.turn_types import TurnResult
from conductorlite.model.errors import ConductorliteError, ExecutionArchived, ExecutionNotFound, TaskNotFound
from conductorlite.model.executions import Task, TaskResult

__all__ = ["report_each"]

#: Reports of one execution that share a turn at most.
_TOGETHER: Final = 200


def report_each(reports: Reports, results: Iterable[TaskResult]) -> list[Task | ConductorliteError]:
    """What became of each report: those of one execution share turns, the turns a write; see `Engine.update_tasks`."""
    answers: dict[int, Task | ConductorliteError] = {}
    waiting: list[tuple[int, Report]] = []
    for number, result in enumerate(results):
        try:
            task = reports.found(result)
            waiting.append((number, reports.prepared(task, reports.whole(task, result))))
        except ConductorliteError as error:
            answers[number] = error
    while waiting:
        groups, waiting = _sharing(waiting)
        taken = reports.taken_together([[report for _, report in group] for group in groups])
        for group, turn in zip(groups, taken, strict=True):
            for number, report in group:
                answers[number] = _answer(reports, report, turn, alone=len(group) == 1)
    return [answers[number] for number in sorted(answers)]


def _answer(reports: Reports, report: Report, turn: TurnResult | ConductorliteError, *, alone: bool) -> Task | ConductorliteError:
    try:
        if isinstance(turn, TurnResult):
            reports.answered(report, turn)
        elif alone:
            raise turn
        else:  # of a turn that came to nothing, each is tried by itself
            reports.answered(report, reports.taken([report]))
        return reports.stored(report.task, report.result)
    except ExecutionArchived as error:
        return error
    except ExecutionNotFound:
        return TaskNotFound(f"execution {report.task.workflow_id!r} was removed")
    except ConductorliteError as error:
        return error


def _sharing(waiting: Iterable[tuple[int, Report]]) -> tuple[list[list[tuple[int, Report]]], list[tuple[int, Report]]]:
    """The next reports of each execution that may share a turn, each task once; and those that come after them."""
    groups: dict[str, list[tuple[int, Report]]] = {}
    later: list[tuple[int, Report]] = []
    full: set[str] = set()
    for number, report in waiting:
        workflow_id = report.task.workflow_id
        group = groups.setdefault(workflow_id, [])
        if len(group) == _TOGETHER or any(other.task.task_id == report.task.task_id for _, other in group):
            full.add(workflow_id)
        (later if workflow_id in full else group).append((number, report))
    return list(groups.values()), later
