"""Reports on tasks, signs of life and lines for their logs.

What of a worker's report is kept: texts within their lengths, lines of a log, numbers and statuses that mean something.

Secrets of one engine: filled in when a task is handed to a worker, taken out of all that comes back.

Source of the rule: Conductor's `ExecutionService.poll`, which resolves them in the returned copy only, and lets what the worker
makes of them be stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, islice, repeat
from typing import Any, Final

import attrs

from conductorlite.engine.config import EngineConfig, Part
from conductorlite.engine.control import refuse_parked
from conductorlite.engine.groups import Groups, RunGroup
from conductorlite.engine.logs import log_driver
from conductorlite.engine.payloads import given_path, uploaded
from conductorlite.engine.turn_types import Asked, Taking, TurnResult
from conductorlite.engine.turns import Turns
from conductorlite.language.haste import Haste
from conductorlite.language.secrets import Scrubber, filled_in, secret_names, secret_value
from conductorlite.model.canonical import Document, Payload, Revealed, canonical
from conductorlite.model.decisions import Decision, Event, EventKind, Outcome
from conductorlite.model.definitions import Semantics, TaskType
from conductorlite.model.errors import (
    ConductorliteError,
    Conflict,
    ExecutionArchived,
    ExecutionNotFound,
    InvalidInput,
    SecretsUnavailable,
    StaleLease,
    StorageCorrupt,
    TaskNotFound,
)
from conductorlite.model.executions import Task, TaskLog, TaskResult, Workflow, frozen_task
from conductorlite.model.statuses import REPORTABLE, TaskStatus
from conductorlite.model.texts import REASON_LENGTH, cut, did_you_mean, error_text, printable
from conductorlite.model.threads import Cache
from conductorlite.plan.compile import Node
from conductorlite.store.ports import SecretProvider, WritingTransaction

__all__ = ["RAW_LENGTH", "Report", "Reports", "Secrecy", "cut_line", "cut_result", "kept_result", "raw_lines"]

#: Attempts at a time whose values are remembered; for another one they are looked up again when it reports.
_HELD: Final = 10_000


class _Unavailable(Exception):
    """A secret could not be looked up; its text names it and holds no value. Never leaves this module."""


class Secrecy:
    """The knowledge of an engine about secrets: where to ask, and what it has handed out to attempts that are not over."""

    def __init__(self, provider: SecretProvider, environment: Mapping[str, str]) -> None:
        self._provider = provider
        self._environment = environment
        self._held: Cache[str, tuple[Any, ...]] = Cache(_HELD)

    def handed(self, task: Task, node: Node, semantics: Semantics) -> Task | TaskResult:
        """A polled task as its worker receives it, or the report of why it cannot be carried out.

        A name in `runtimeMetadata` by which there is nothing is left out, with a warning, by the semantics of Conductor's
        open-source server; by others it fails the task, as one in its input always does.
        """
        sites, metadata_names = node.template.secrets, _metadata_names(node)
        self._held.put(task.task_id, ())  # as long as it has none, its report need not look for any
        if not sites and not metadata_names:
            return task
        try:
            values = {name: secret_value(name, self._text) for name in secret_names(sites)}
            named = {name: self._text(name) for name in metadata_names}
            # What is no secret may be a variable of the engine's environment, as in Conductor; it is not kept secret then.
            if semantics is Semantics.OSS:
                unknown = [name for name, text in named.items() if text is None and name not in self._environment]
                for name in unknown:
                    log_driver("task %r is handed out without %r of its runtimeMetadata: there is no such secret", task.ref, name)
                    del named[name]
            metadata = {name: self._environment[name] if text is None else text for name, text in named.items()}
            text = canonical(filled_in(task.input_data, sites, values))
        except KeyError as missing:
            return _refused(task, TaskStatus.FAILED_WITH_TERMINAL_ERROR, f"there is no secret {missing.args[0]!r}")
        except _Unavailable as error:
            return _refused(task, TaskStatus.FAILED, str(error))
        except InvalidInput:  # which may quote a value
            reason = "with its secrets filled in, the input cannot be kept as JSON"
            return _refused(task, TaskStatus.FAILED_WITH_TERMINAL_ERROR, reason)
        secrets = (*values.values(), *(text for text in named.values() if text is not None))
        self._held.put(task.task_id, secrets)
        return attrs.evolve(task, input=Revealed(text, secrets, metadata))

    def _text(self, name: str) -> str | None:
        try:
            text = self._provider.get(name)
        except Exception as error:
            # Whatever it says of it: whether that holds a value is not ours to know.
            raise _Unavailable(f"the secret {name!r} could not be looked up: {type(error).__name__}") from None
        if text is not None and not isinstance(text, str):
            raise _Unavailable(f"the secret {name!r} is not text, but of type {type(text).__name__}")
        return text

    def scrubber(self, task: Task, node: Callable[[], Node | None]) -> Scrubber | None:
        """Return a scrubber that removes the secrets of a task from what its worker says; None when it has none.

        What was handed out by another process is looked up again. Raises SecretsUnavailable: nothing is stored then.
        """
        secrets = task.input.secrets if isinstance(task.input, Revealed) else self._held.get(task.task_id)
        if secrets is None:
            of = node()
            names = () if of is None else (*secret_names(of.template.secrets), *_metadata_names(of))
            try:
                secrets = tuple(text for name in names if (text := self._text(name.partition(".")[0])) is not None)
            except _Unavailable as error:
                raise SecretsUnavailable(f"task {task.ref!r}: {error}; the report is not stored") from None
        return Scrubber(secrets) if secrets else None

    def forget(self, task: Task) -> None:
        """Forget what an attempt was given: it is over."""
        self._held.drop(task.task_id)


def _metadata_names(node: Node) -> Sequence[str]:
    definition = node.task.task_definition
    return () if definition is None else definition.runtime_metadata


def _refused(task: Task, status: TaskStatus, reason: str) -> TaskResult:
    text = f"task {task.ref!r}: {reason}"
    return TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=status, reason=text, lease=task.lease)


#: Longest text that is looked at. What is kept is cut from it after secrets were taken out: a cut could hide one from that.
RAW_LENGTH: Final = 1_000_000

#: Longest traceback, and longest line of a log, of which the beginning and the end are kept; the most lines of one report.
_TRACEBACK_LENGTH: Final = 20_000
_LINE_LENGTH: Final = 10_000
_LINES: Final = 1_000

_WORKER_LENGTH: Final = 1_000
_LATEST_MS: Final = 2**53 - 1


#: Most types of exceptions that are kept of a failure, and the longest name of one.
TYPES: Final = 20
TYPE_LENGTH: Final = 200

#: Reason, traceback, worker, log and error types of a report without any.
_NO_TEXTS: Final = (None, None, None, (), (), ())


def kept_result(result: TaskResult) -> TaskResult:
    """A report whose texts are texts of a bounded length; raises InvalidInput for a status or number that cannot be.

    Its output is looked at where it is made JSON.
    """
    try:
        if type(result) is TaskResult and type(result.output_data) is Document and not result.logs:
            return result  # as our own workers make it, which keep all texts
        return _kept(result)
    except (InvalidInput, MemoryError):
        raise
    except Exception as error:  # of values of classes of their own, whose methods may do anything
        raise InvalidInput(f"cannot be read: {error_text(error, RAW_LENGTH)}") from None


def _kept(result: TaskResult) -> TaskResult:
    status = result.status
    if not isinstance(status, str) or status not in REPORTABLE:
        usable = ", ".join(sorted(REPORTABLE))
        meant = did_you_mean(printable(status, 80), REPORTABLE)
        raise InvalidInput(f"{printable(status, 80)} cannot be reported; use one of {usable}{meant}")
    callback = result.callback_after_ms
    if type(callback) is not int:
        raise InvalidInput(f"callback_after_ms {printable(callback, 80)} is not a whole number")
    if callback < 0:
        raise InvalidInput(f"callback_after_ms {callback} is negative")
    if callback > _LATEST_MS:
        raise InvalidInput(f"callback_after_ms {printable(callback, 80)} is too long")
    if not isinstance(result.output_data, dict):
        raise InvalidInput(f"output_data must be a dict, not a {type(result.output_data).__name__}")
    if (
        type(status) is TaskStatus
        and (result.reason, result.traceback, result.worker_id, result.logs, result.error_types, result.error_bases) == _NO_TEXTS
    ):
        return result
    reason, rest = _raw(result.reason), (result.traceback, result.worker_id)
    trace, worker = rest if rest == (None, None) else map(_raw, rest)
    logs = raw_lines(result.logs) if result.logs else ()
    types = tuple([printable(name, TYPE_LENGTH) for name in islice(result.error_types, TYPES)]) if result.error_types else ()
    bases = tuple([printable(name, TYPE_LENGTH) for name in islice(result.error_bases, TYPES)]) if result.error_bases else ()
    if (
        type(status) is TaskStatus
        and (reason is result.reason and trace is result.traceback and worker is result.worker_id)
        and (logs is result.logs and (types, bases) == (result.error_types, result.error_bases))
    ):
        return result
    return attrs.evolve(
        result,
        status=TaskStatus(status),
        reason=reason,
        traceback=trace,
        worker_id=worker,
        logs=logs,
        error_types=types,
        error_bases=bases,
    )


def cut_result(result: TaskResult) -> TaskResult:
    """A report with its texts cut to their lengths; of a reason the beginning is kept, as in Conductor."""
    said, trace, worker = result.reason or "", result.traceback or "", result.worker_id or ""
    if len(said) <= REASON_LENGTH and len(trace) <= _TRACEBACK_LENGTH and len(worker) <= _WORKER_LENGTH:
        return result
    return attrs.evolve(
        result,
        reason=None if result.reason is None else result.reason[:REASON_LENGTH],
        traceback=None if result.traceback is None else cut(result.traceback, _TRACEBACK_LENGTH),
        worker_id=None if result.worker_id is None else cut(result.worker_id, _WORKER_LENGTH),
    )


def raw_lines(lines: Sequence[object]) -> tuple[str, ...]:
    """Lines of a log as texts; of very many the first, and that there were more. One text is one line."""
    if not lines:
        return ()
    if isinstance(lines, str):
        return (printable(lines, RAW_LENGTH),)
    texts = [printable(line, RAW_LENGTH) for line in islice(lines, _LINES + 1)]
    if len(texts) > _LINES:
        texts[_LINES] = f"… more than {_LINES} lines in one report: the others are not kept"
    return tuple(texts)


def cut_line(line: str) -> str:
    """A line of a log, cut to its length."""
    return cut(line, _LINE_LENGTH)


def _raw(text: object) -> str | None:
    return None if text is None or text == "" else printable(text, RAW_LENGTH)


@attrs.define(slots=True, kw_only=True, eq=False, repr=False)
class Report:
    """A report on a task, made an event, with the lines for its log."""

    task: Task
    result: TaskResult
    event: Event
    lines: list[TaskLog]
    #: Whether the lines were stored with it.
    kept: bool = False


class Reports(Part):
    """Reports on a task by those who carry it out."""

    def __init__(self, turns: Turns, groups: Groups, config: EngineConfig, secrecy: Secrecy | None) -> None:
        super().__init__(turns, config)
        self._groups = groups
        self._secrecy = secrecy
        #: Says why an output is no answer to a HUMAN of a workflow, by its reference, given what was put out before.
        self.check_answer: Callable[[Workflow, str, Mapping[str, Any], Mapping[str, Any]], str | None] | None = None

    def _scrubber(self, task: Task) -> Scrubber | None:
        """Return a scrubber that removes the secrets of a task from what is said about it.

        None when it has none, or the engine has none.
        """
        if self._secrecy is None:
            return None

        def node() -> Node | None:
            with self._backend.reading() as view:
                row, stored = view.executions.workflow(task.workflow_id), view.executions.task_by_id(task.task_id) or task
                return (
                    None if row is None else self._turns.lookups.plans.extended(view, row, stored.grafts).nodes.get(stored.base_ref)
                )

        return self._secrecy.scrubber(task, node)

    def with_payloads(self, task: Task) -> Task:
        """The task with its large payloads; raises TaskNotFound when its execution was removed."""
        absent = {payload.digest for payload in (task.input, task.output) if payload.absent}
        if not absent:
            return task
        with self._backend.reading() as view:
            try:
                texts = self._turns.lookups.texts(view, task.workflow_id, absent)
            except StorageCorrupt:
                if view.executions.workflow(task.workflow_id) is not None:
                    raise
                raise TaskNotFound(f"execution {task.workflow_id!r} was removed") from None
        return attrs.evolve(
            task,
            input=texts.get(task.input.digest, task.input) if task.input.absent else task.input,
            output=texts.get(task.output.digest, task.output) if task.output.absent else task.output,
        )

    def found(self, result: TaskResult) -> Task:
        """The task that a report is on; raises TaskNotFound and ExecutionArchived."""
        with self._backend.reading() as view:
            task = view.executions.task_by_id(result.task_id)
            if task is None and view.archive.archived(result.workflow_id) is not None:
                raise ExecutionArchived(result.workflow_id)
        if task is None or task.workflow_id != result.workflow_id:
            raise TaskNotFound(f"execution {result.workflow_id!r} has no task {result.task_id!r}")
        return task

    def stored(self, task: Task, result: TaskResult) -> Task:
        """The task after its report."""
        with self._backend.reading() as view:
            after = view.executions.task_by_id(task.task_id)
        if after is None:  # the report has ended its round, and the ones after it at once
            output = Payload.of(dict(result.output_data))
            after = attrs.evolve(task, status=result.status, output=output, reason=result.reason, lease=0)
        return frozen_task(self.with_payloads(after))

    def report(self, task: Task, result: TaskResult, *, at: int | None = None) -> TurnResult:
        """Report on a task that is at hand; raises as `Engine.update_task` does.

        `at` (epoch ms) is when the work ended, if that is not now: a deadline between then and now has not been missed.
        """
        report = self.prepared(task, result, at=at)
        return self.answered(report, self.taken([report]))

    def prepared(self, task: Task, result: TaskResult, *, at: int | None = None) -> Report:
        """A report that is ready to be taken; raises InvalidInput and PayloadUnavailable."""
        event = self.report_event(task, result, at=at)
        return Report(task=task, result=result, event=event, lines=self.lines(task, result.logs) if result.logs else [])

    def taken(self, reports: Sequence[Report], taking: Taking | None = None, haste: Haste | None = None) -> TurnResult:
        """Take reports on tasks of one execution, each task once, in one turn; `taking` are workers that are free after it.

        With `haste` a turn that waits for foreign code is left to another thread. Raises as `Turns.run_turn` does; then none of
        them was taken.
        """
        one = reports[0]
        workflow_id, events, write = one.task.workflow_id, [one.event], None
        if len(reports) > 1 or one.lines:
            asked = _asked(reports, taking)
            events, write = [*asked.events], asked.extra_write
        taken = self._turns.run_turn(workflow_id, events, extra_write=write, taking=taking, haste=haste)
        if taken.parked is not None:
            self._turns.parking.hold_inbox(workflow_id, events)
        return taken

    def taken_together(
        self,
        groups: Iterable[Sequence[Report]],
        takings: Iterable[Taking | None] = (),
        run: RunGroup | None = None,
        haste: Haste | None = None,
    ) -> list[TurnResult | ConductorliteError]:
        """Take the reports of several executions in one write if nothing prevents it, and return the result of each turn."""
        asked = [_asked(reports, taking, haste) for reports, taking in zip(groups, chain(takings, repeat(None)), strict=False)]
        results = (run or self._groups.run)(asked)
        for one, taken in zip(asked, results, strict=True):
            if isinstance(taken, TurnResult) and taken.parked is not None:
                self._turns.parking.hold_inbox(one.workflow_id, one.events)
        return results

    def answered(self, report: Report, taken: TurnResult) -> TurnResult:
        """Return the result of a report that a turn has taken.

        Raises StaleLease, Conflict, and what keeping its lines does.
        """
        task = report.task
        reply = taken.replies.get(report.event.event_id)
        if reply is not None and reply.outcome is Outcome.STALE:
            raise StaleLease(f"{task.workflow_id}: {reply.message}")
        if reply is not None and reply.outcome is Outcome.CONFLICT:
            raise Conflict(f"{task.workflow_id}: {reply.message}")
        if self._turns.joined.decisions is not None:
            if reply is None or reply.outcome is not Outcome.DONE:  # what is written with it must not be committed
                raise Conflict(f"{task.workflow_id}: {'its report cannot be taken now' if reply is None else reply.message}")
            return taken
        if report.lines and not report.kept and (reply is None or reply.outcome is Outcome.DONE):
            self.log(task, raw_lines(report.result.logs))
        if self._secrecy is not None and report.result.status.terminal:
            self._secrecy.forget(task)
        return taken

    def report_event(self, task: Task, result: TaskResult, *, merge: bool = False, at: int | None = None) -> Event:
        """A report as an event, its output merged into the task's with `merge`, dated `at` (epoch ms) if that is past.

        Raises InvalidInput and PayloadUnavailable.
        """
        if result.external_output_payload_storage_path is not None:
            result = self.whole(task, result)
        try:
            result = kept_result(result)
        except InvalidInput as error:
            raise InvalidInput(f"task {task.ref!r}: {error}") from None
        if task.task_type == TaskType.HUMAN and result.status is TaskStatus.COMPLETED:
            self._check_answer(task, result.output_data, merge=merge)
        scrubber = None if self._secrecy is None else self._scrubber(task)
        if scrubber is not None:
            result = _scrubbed(task, result, scrubber)
        if result.traceback or result.worker_id or len(result.reason or "") > REASON_LENGTH:
            result = cut_result(result)
        status, lease = result.status, result.lease
        given: dict[str, Any] = {"taskId": task.task_id, "status": str(status)}
        if result.reason is not None or result.traceback is not None or result.error_types:
            given |= _why(result)
        given["callbackAfterMs"] = result.callback_after_ms
        if result.worker_id is not None:
            given["workerId"] = result.worker_id
        if lease is not None:
            given["lease"] = lease
        if merge:
            given["merge"] = True
        if result.emitted is not None:
            given["emitted"] = self.scrubbed(task, result.emitted)
        output = result.output_data
        if type(output) is not Document:
            output = Document(Payload.of(output, where=f"report on {task.ref!r}.output"))
        if lease and type(lease) is int and status.terminal and not merge:  # what it says is JSON for certain
            key = f"lease {lease}" if status is TaskStatus.COMPLETED else f"lease {lease} {status}"
            given["output"] = output
            return self._task_event(task, EventKind.REPORT, Payload.made(given), key, at=at)
        payload = Payload.around("output", output, given, where=f"report on {task.ref!r}")
        return self._task_event(task, EventKind.REPORT, payload, at=at)

    def _check_answer(self, task: Task, output: Mapping[str, Any], *, merge: bool) -> None:
        with self._backend.reading() as view:
            row = view.executions.workflow(task.workflow_id)
        if row is not None:
            self.refuse_answer(row, task.base_ref, self.with_payloads(task).output_data if merge else {}, output)

    def refuse_answer(self, workflow: Workflow, ref: str, before: Mapping[str, Any], output: Mapping[str, Any]) -> None:
        """Refuse what a person answers when it is not what the workflow asks for: the task goes on waiting, or is to begin."""
        if self.check_answer is None:
            return
        problem = self.check_answer(workflow, ref, before, Payload.of(dict(output), where="output").value)
        if problem is not None:
            raise InvalidInput(f"{workflow.workflow_id}: {ref!r} still waits, as this is not an answer to it: {problem}")

    def whole(self, task: Task, result: TaskResult) -> TaskResult:
        """A report with the output that was uploaded for it; on an attempt that has ended, which no one looks at, without any."""
        if result.external_output_payload_storage_path is None:
            return result
        try:
            path = given_path(result.external_output_payload_storage_path)
            output = result.output_data
            if path is not None:
                if not isinstance(output, dict) or dict.__len__(output):
                    raise InvalidInput("give `output_data` or `external_output_payload_storage_path`, not both")
                output = {} if task.status.terminal else uploaded(self._turns.lookups.payload_store, path, "TASK_OUTPUT")
        except InvalidInput as error:
            raise type(error)(f"task {task.ref!r}: {error}") from None
        return attrs.evolve(result, output_data=output, external_output_payload_storage_path=None)

    def sign_of_life(self, task: Task, at: int, emitted: Mapping[str, Any] | None = None) -> bool:
        """As `Tasks.extend_lease`, for a worker that was alive at an instant (epoch ms), when that could not be written.

        With what its call has `emitted` since it said so last; see `decide.streams`. A turn that waits for a lock takes it later.
        """
        said: dict[str, Any] = {"taskId": task.task_id, "lease": task.lease}
        key = ""
        if emitted is not None:
            said["emitted"] = self.scrubbed(task, emitted)
            key = emitted.get("id") or f"lease {task.lease} after {emitted['after']}"
        event = self._task_event(task, EventKind.EXTEND_LEASE, Payload.of(said, bounded=False), key, at=at)
        try:
            taken = self._turns.run_turn(task.workflow_id, [event])
        except ExecutionArchived:
            raise
        except ExecutionNotFound:
            raise TaskNotFound(f"execution {task.workflow_id!r} was removed") from None
        refuse_parked(task.workflow_id, taken)
        reply = taken.replies.get(event.event_id)
        if reply is not None and reply.outcome is Outcome.STALE:
            raise StaleLease(f"{task.workflow_id}: {reply.message}")
        return (emitted is not None and taken.posted) or (reply is not None and reply.outcome is Outcome.DONE)

    def scrubbed(self, task: Task, emitted: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a call has emitted, without the secrets of its task."""
        scrubber = self._scrubber(task)
        found: Mapping[str, Any] = emitted if scrubber is None else scrubber.document(emitted, where="a value")
        return found

    def _task_event(self, task: Task, kind: EventKind, data: Payload, key: str = "", *, at: int | None = None) -> Event:
        """An event about a task, dated `at` (epoch ms) if that is past.

        Of those that are made at one instant with the same `key` (by default: data) there is only one.
        """
        now = self._clock.now()
        since = now if at is None or at > now else at
        return Event(
            workflow_id=task.workflow_id,
            event_id=f"{kind}@{now}:{task.ref}:{key or data.digest[:16]}",
            kind=kind,
            due_at=since,
            posted_at=since,
            ref=task.ref,
            attempt=task.attempt,
            generation=task.generation,
            data=data,
        )

    def log(self, task: Task, lines: Sequence[str]) -> None:
        """Keep lines of text with a task, stamped now; of a removed execution they are dropped."""
        kept = self.lines(task, lines)
        with self._backend.writing() as tx:
            if tx.executions.workflow(task.workflow_id) is not None:
                tx.history.log(task.workflow_id, kept)

    def lines(self, task: Task, lines: Sequence[object]) -> list[TaskLog]:
        """Lines of a log as they are kept, stamped now."""
        texts: Sequence[str] = raw_lines(lines)
        scrubber = self._scrubber(task) if texts else None
        if scrubber is not None:
            texts = [scrubber.text(text) for text in texts]
        now = self._clock.now()
        return [TaskLog(task_id=task.task_id, at=now, text=cut_line(text)) for text in texts]


def _why(result: TaskResult) -> dict[str, Any]:
    """Why an attempt ended as it did, as an event says it."""
    types, bases = list(result.error_types) or None, list(result.error_bases) or None
    said = {"reason": result.reason, "traceback": result.traceback, "errorTypes": types, "errorBases": bases}
    return {name: value for name, value in said.items() if value is not None}


def _asked(reports: Sequence[Report], taking: Taking | None, haste: Haste | None = None) -> Asked:
    """The turn that takes reports on tasks of one execution, with the lines for their logs."""
    events, write = [], None
    for one in reports:
        events.append(one.event)
        if one.lines:
            write = partial(_keep_lines, reports)
    return Asked(workflow_id=reports[0].task.workflow_id, events=events, extra_write=write, taking=taking, haste=haste)


def _keep_lines(reports: Sequence[Report], tx: WritingTransaction, decision: Decision) -> None:
    """Store the lines of reports with them; one that is refused or ignored leaves none."""
    for one in reports:
        reply = decision.replies.get(one.event.event_id)
        one.kept = reply is not None and reply.outcome is Outcome.DONE
        if one.kept and one.lines:
            tx.history.log(one.task.workflow_id, one.lines)


def _scrubbed(task: Task, result: TaskResult, scrubber: Scrubber) -> TaskResult:
    return attrs.evolve(
        result,
        output_data=scrubber.document(result.output_data, where=f"report on {task.ref!r}.output"),
        reason=scrubber.text(result.reason) if result.reason else None,
        traceback=scrubber.text(result.traceback) if result.traceback else None,
        worker_id=scrubber.text(result.worker_id) if result.worker_id else None,
        error_types=tuple(map(scrubber.text, result.error_types)),
        error_bases=tuple(map(scrubber.text, result.error_bases)),
    )
