"""Verbs that change what an execution has done or will do: retry, restart, rerun, skip, variables; and every verb in bulk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Concatenate, ParamSpec

import attrs

from conductorlite.engine.migrations import Migrations
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import EventKind
from conductorlite.model.errors import ConductorliteError, TaskNotFound
from conductorlite.store.ports import ReadingTransaction

__all__ = ["BulkReport", "Reruns"]

P = ParamSpec("P")


@attrs.frozen(kw_only=True, slots=True)
class BulkReport:
    """What became of a verb on many executions: those it was done to, and the error of each other one, by id."""

    succeeded: tuple[str, ...] = ()
    failed: Mapping[str, ConductorliteError] = attrs.field(factory=dict)


class Reruns(Migrations):
    """Verbs on what an execution has done."""

    def retry(self, workflow_id: str, *, resume_subworkflow_tasks: bool = False) -> None:
        """Reopen an execution that ended FAILED, TIMED_OUT or TERMINATED where it failed.

        Every reference that failed or was canceled gets a new attempt at once, with a fresh retry budget; JOINs and loops go
        on in place; the workflow's timeout starts again. A failed SUB_WORKFLOW task starts a new execution, unless
        `resume_subworkflow_tasks`: then the one it had started is retried itself, where it failed, at any depth. The executions
        above a retried one are reopened too, and wait for it. Raises ExecutionNotFound, and Conflict when the execution is
        running, paused or completed, or nothing in it can be retried.
        """
        self._verb(workflow_id, EventKind.RETRY, {"resume": True} if resume_subworkflow_tasks else None)

    def restart(self, workflow_id: str, *, use_latest_definitions: bool = False) -> None:
        """Run an execution that has ended again from the start, under its id and with its input.

        It runs on the definition it was started with, or on the highest version that is registered now. Its tasks are deleted,
        its variables begin anew; its history goes on. The executions above it are reopened and wait for it. Raises
        ExecutionNotFound, Conflict when it has not ended, or is COMPLETED and its definition says `restartable: false`, and
        DefinitionNotFound.
        """
        data: dict[str, Any] = {}
        if use_latest_definitions:
            row = self._row(workflow_id)
            with self.backend.reading() as view:
                embedded = self.embedded(view, row.name, None)
            with self.backend.writing() as tx:
                for digest, text in embedded.texts.items():
                    tx.embed(digest, text)
            definition = embedded.plan.definition
            data = {
                "definitionHash": embedded.digest,
                "name": embedded.name,
                "version": embedded.version,
                "variables": dict(definition.variables),
                "inputTemplate": dict(definition.input_template),
            }
        self._verb(workflow_id, EventKind.RESTART, data)

    def rerun(
        self,
        workflow_id: str,
        *,
        from_task: str | None = None,
        input: Mapping[str, Any] | None = None,
        task_input: Mapping[str, Any] | None = None,
        correlation_id: str | None = None,
    ) -> None:
        """Run an execution again from a task on, or from the start.

        `from_task` is a reference, as printed (`x__2` is the task of a loop's second round) or the definition's (then its newest
        round), or a task id, also of a task in an execution below this one. What comes after that task in the flow is taken
        back; other branches of a fork stay, save that in an ended execution what failed or was canceled there is tried again.
        `input` replaces the workflow's input, `task_input` the task's, `correlation_id` the correlation id. A running execution
        can be rerun too. The executions above are reopened and wait for it. Raises ExecutionNotFound, TaskNotFound, InvalidInput
        and Conflict (paused, or the flow has not come to the task).
        """
        ref = None
        target = workflow_id
        if from_task is not None:
            with self.backend.reading() as view:
                target, ref = self._meant(view, workflow_id, from_task)
        data = {
            "ref": ref,
            "input": None if input is None else dict(input),
            "taskInput": None if task_input is None else dict(task_input),
            "correlationId": correlation_id,
        }
        given = {key: value for key, value in data.items() if value is not None}
        Payload.of(given, where="rerun")
        self._verb(target, EventKind.RERUN, given)

    def _meant(self, view: ReadingTransaction, workflow_id: str, wanted: str) -> tuple[str, str]:
        """The execution and the printed reference that a task id or a reference stands for."""
        task = view.task_by_id(wanted)
        if task is None:
            return workflow_id, wanted
        above: str | None = task.workflow_id
        while above is not None and above != workflow_id:
            row = view.workflow(above)
            above = None if row is None else row.parent_workflow_id
        if above is None:
            raise TaskNotFound(f"neither {workflow_id!r} nor an execution below it has a task {wanted!r}")
        return task.workflow_id, task.ref

    def skip_task(
        self,
        workflow_id: str,
        ref: str,
        *,
        input: Mapping[str, Any] | None = None,
        output: Mapping[str, Any] | None = None,
    ) -> None:
        """Have the flow pass over a task that it has not come to yet; `output` stands for the task's own.

        `ref` is a reference of the definition; of a task inside loops, the printed one of a round (`x__2`). A fork is passed over
        with its branches and its JOIN. Raises ExecutionNotFound, TaskNotFound when the definition has no such task, InvalidInput,
        and Conflict when the execution is not RUNNING, the task has been scheduled already, or it is the JOIN of a fork.
        """
        data = {"ref": ref, "input": dict(input or {}), "output": dict(output or {})}
        Payload.of(data, where="skip_task")
        self._verb(workflow_id, EventKind.SKIP, data)

    def update_variables(self, workflow_id: str, variables: Mapping[str, Any]) -> None:
        """Set workflow variables; those that are not given stay.

        Raises ExecutionNotFound, InvalidInput (not JSON), and Conflict when the execution has ended or the variables together
        would pass 256 KB.
        """
        given = dict(variables)
        Payload.of(given, where="variables")
        self._verb(workflow_id, EventKind.VARIABLES, given)

    def bulk(
        self, verb: Callable[Concatenate[Any, str, P], object], workflow_ids: Iterable[str], /, *args: P.args, **kwargs: P.kwargs
    ) -> BulkReport:
        """Use a verb on many executions: `engine.bulk(Engine.retry, ids, resume_subworkflow_tasks=True)`.

        One after another, each in its own commit; an error of one does not keep the others from being done. Each id once.
        """
        succeeded: list[str] = []
        failed: dict[str, ConductorliteError] = {}
        for workflow_id in dict.fromkeys(workflow_ids):
            try:
                verb(self, workflow_id, *args, **kwargs)
            except ConductorliteError as error:
                failed[workflow_id] = error
            else:
                succeeded.append(workflow_id)
        return BulkReport(succeeded=tuple(succeeded), failed=failed)
