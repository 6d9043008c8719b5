"""The everyday verbs of an engine: all but those that drive it, which the runtime adds.

A verb that changes an execution checks its arguments and takes one turn with one event. It returns when that turn is committed;
what follows in other executions may be left to a driver. When it raises, nothing was changed, unless its docstring says otherwise.

Source of the verbs: Conductor's workflow and task resources.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, Final, overload

import attrs

from conductorlite.engine.clock_watch import ClockWatch
from conductorlite.engine.config import OF_AN_ENGINE, EngineConfig, one_process, refuse_forked, refuse_handlers
from conductorlite.engine.control import Control, blocking_task, open_task, receiver_below, refuse_parked, rerun_data
from conductorlite.engine.driven_time import Driven
from conductorlite.engine.groups import Groups
from conductorlite.engine.holders import Holding
from conductorlite.engine.nouns import Core, Payloads, Tasks, wake_schedule
from conductorlite.engine.payloads import PayloadStore
from conductorlite.engine.polling import GLANCE_MS, Asker, Polling
from conductorlite.engine.queries import Limits, Queries
from conductorlite.engine.registry import Registry
from conductorlite.engine.reports import Reports, Secrecy, cut_result, kept_result
from conductorlite.engine.starts import Starts
from conductorlite.engine.transactions import OwnTransaction
from conductorlite.engine.turn_types import Listener, missing, status_of
from conductorlite.engine.turns import Turns
from conductorlite.model.canonical import Document, Payload
from conductorlite.model.clock import Clock, Deadline, SystemClock
from conductorlite.model.decisions import EventKind, Outcome, queue_name
from conductorlite.model.definitions import MAX_KEY, TaskDef
from conductorlite.model.errors import (
    ConductorliteError,
    Conflict,
    EngineClosed,
    ExecutionArchived,
    ExecutionNotFound,
    InvalidInput,
    PayloadTooLarge,
    StorageError,
    TaskNotFound,
)
from conductorlite.model.executions import (
    AgendaEntry,
    Explanation,
    HistoryEvent,
    Task,
    TaskResult,
    Workflow,
    frozen_task,
    frozen_workflow,
)
from conductorlite.model.later import functions
from conductorlite.model.pickling import stays_here
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.model.texts import Listing, Span, as_map, as_text, member_of, printable, to_span
from conductorlite.model.threads import cached_property, clean_up
from conductorlite.plan.tree import holder_of
from conductorlite.store.payloads import open_payloads
from conductorlite.store.places import opened
from conductorlite.store.ports import Backend, IndexDAO, PayloadStorage, ReadingTransaction, SecretProvider
from conductorlite.store.tables import ExecutionFilter

if TYPE_CHECKING:
    from conductorlite.engine.admin import Admin
    from conductorlite.engine.definitions import Definitions
    from conductorlite.engine.events import Events
    from conductorlite.engine.schedules import Schedules
    from conductorlite.engine.streams import Streams
    from conductorlite.model.mailbox import WorkflowMessage, sent_message, signal_topic, signal_value, topic_of
    from conductorlite.store.search import SearchResult, WorkflowSummary
else:
    sent_message, signal_topic, signal_value, topic_of = functions(
        "conductorlite.model.mailbox", "sent_message", "signal_topic", "signal_value", "topic_of"
    )

__all__ = ["Verbs"]

#: Searches before giving up: what was found may end before it is answered.
_SIGNAL_TRIES: Final = 8


@stays_here(OF_AN_ENGINE)
@one_process
class Verbs:
    """An engine without drivers: see `conductorlite.Engine` for the arguments."""

    def __init__(
        self,
        store: str | os.PathLike[str] | Backend | None,
        *,
        clock: Clock | None,
        environment: Mapping[str, str] | None,
        payloads: str | os.PathLike[str] | PayloadStorage | None,
        index: str | IndexDAO | None,
        secrets: SecretProvider | None,
        config: EngineConfig,
        declared: Callable[[], Mapping[str, TaskDef]],
        running: Callable[[], Iterable[AgendaEntry]],
    ) -> None:
        dispensable = config.fencing and not config.lock_required
        codec, plain_index = config.payload_codec, config.plain_index
        backend, lock, external = opened(store, config.lock, index, dispensable=dispensable, codec=codec, plain_index=plain_index)
        #: A lock that was given as a URL is closed with the engine.
        self._own_lock = lock if isinstance(config.lock, str) else None
        clock, environment = clock or SystemClock(), dict(environment or {})
        driven = Driven(backend, clock, config.owner, downtime_counts=config.downtime_counts)
        storage = backend.payload_storage() if payloads is None else open_payloads(payloads)
        turns = Turns(
            backend,
            clock,
            registry=Registry(backend, environment, config.semantics, declared),
            environment=environment,
            bounds=config.bounds,
            lock=lock,
            fencing=config.fencing,
            lock_required=config.lock_required,
            resident_bytes=config.resident_bytes,
            owner=config.owner,
            payload_store=PayloadStore(backend, storage, codec, config.bounds.barriers),
            driven=driven,
            ended=wake_schedule,
        )
        self._pid, self._turns = os.getpid(), turns  # the process in which it was opened: see `one_process`
        secrecy = None if secrets is None else Secrecy(secrets, environment)
        groups, starts = Groups(turns), Starts(turns)
        control, reports = Control(turns, starts, config), Reports(turns, groups, config, secrecy)
        holding = Holding(turns, groups, config.owner)
        self.backend, self.clock, self.config = backend, clock, config
        self.core = Core(
            turns=turns,
            groups=groups,
            starts=starts,
            control=control,
            queries=Queries(turns, config),
            reports=reports,
            polling=Polling(turns, groups, config, reports, holding, secrecy),
            holding=holding,
            driven=driven,
            clock_watch=ClockWatch(turns, driven),
            config=config,
            index=external,
            documents_beside=payloads is None,
        )
        #: What running workers will report.
        self.running = running
        _ = self.core.indexing  # refuses what is no index

    # ------------------------------------------------------------------ by noun

    @cached_property
    def definitions(self) -> Definitions:
        """Definitions of workflows, tasks and schemas."""
        from conductorlite.engine.definitions import Definitions

        return Definitions(self._turns, self.config, self.core.control)

    @cached_property
    def tasks(self) -> Tasks:
        """Tasks of any execution."""
        return Tasks(self.core)

    @cached_property
    def streams(self) -> Streams:
        """Values that executions emit while they run, and their latest values."""
        from conductorlite.engine.streams import Streams

        core = self.core
        return Streams(self._turns, self.config, core.control, core.reports, core.readers)

    @cached_property
    def schedules(self) -> Schedules:
        """Schedules."""
        from conductorlite.engine.schedules import Schedules

        return Schedules(self._turns, self.config, self.core.timetable)

    @cached_property
    def events(self) -> Events:
        """Events from outside, and their handlers."""
        from conductorlite.engine.events import Events

        return Events(self._turns, self.config, self.core.control.new_id)

    @cached_property
    def limits(self) -> Limits:
        """Limits on executions and on tasks."""
        return Limits(self._turns, self.config)

    @cached_property
    def payloads(self) -> Payloads:
        """The payload storage."""
        return Payloads(self._turns, self.config)

    @cached_property
    def admin(self) -> Admin:
        """The store as a whole."""
        from conductorlite.engine.admin import Admin

        core = self.core
        return Admin(
            self._turns,
            self.config,
            core.queries,
            core.control,
            core.searching,
            core.audits,
            self.running,
            documents_beside=core.documents_beside,
        )

    # ------------------------------------------------------------------ run control

    def pause(self, workflow_id: str) -> None:
        """Schedule nothing more until `resume`; queued and running tasks continue, and their reports are accepted.

        A paused execution stays as it is. Raises ExecutionNotFound, Conflict when it has ended, and Parked.
        """
        self.core.control.verb(workflow_id, EventKind.PAUSE)

    def resume(self, workflow_id: str) -> None:
        """Continue a paused or parked execution; its workflow timeout restarts.

        Raises ExecutionNotFound, and Conflict when it is neither paused nor parked.
        """
        self.core.control.resume(workflow_id)

    def terminate(self, workflow_id: str, reason: str | None = None, *, trigger_failure_workflow: bool = False) -> None:
        """End an execution TERMINATED: its open tasks are canceled. A terminated execution does not change.

        With `trigger_failure_workflow` it ends as if it had failed: completed tasks are compensated, and its failure workflow, if
        there is one, starts. Executions below it only end.

        One that has ended and waits for a slot to go on, after a retry, stays as it ended and waits no more.

        Raises ExecutionNotFound, and Conflict when it is COMPLETED, FAILED or TIMED_OUT.
        """
        said: dict[str, Any] = {} if reason is None else {"reason": as_text(reason, "reason")}
        if trigger_failure_workflow:
            said["triggerFailureWorkflow"] = True
        self.core.control.verb(workflow_id, EventKind.TERMINATE, said)

    def retry(self, workflow_id: str, *, resume_subworkflow_tasks: bool = False) -> None:
        """Reopen an execution that ended FAILED, TIMED_OUT or TERMINATED where it failed.

        Every reference that failed or was canceled gets a new attempt at once, with a fresh retry budget; JOINs and loops go
        on in place; the workflow's timeout starts again. A failed SUB_WORKFLOW task starts a new execution, unless
        `resume_subworkflow_tasks`: then the one it had started is retried itself, where it failed, at any depth. The executions
        above a retried one are reopened too, and wait for it. Raises ExecutionNotFound, and Conflict when the execution is
        running, paused or completed, or nothing in it can be retried.
        """
        self.core.control.verb(workflow_id, EventKind.RETRY, {"resume": True} if resume_subworkflow_tasks else None)

    def restart(self, workflow_id: str, *, use_latest_definitions: bool = False) -> None:
        """Run an ended execution again from the start, with the same id and input.

        It runs on the definition it was started with, or on the highest version that is registered now. Its tasks are deleted,
        its variables begin again; its history goes on. The executions above it are reopened and wait for it. Raises
        ExecutionNotFound, Conflict when it has not ended, or is COMPLETED and its definition says `restartable: false`, and
        DefinitionNotFound.
        """
        data: dict[str, Any] = {}
        if use_latest_definitions:
            row = self.core.control.row(workflow_id)
            with self.backend.reading() as view:
                embedded = self._turns.lookups.registry.embedded(view, row.name, None)
            with self.backend.writing() as tx:
                for digest, text in embedded.texts.items():
                    tx.metadata.embed(digest, text)
            definition = embedded.plan.definition
            data = {
                "definitionHash": embedded.digest,
                "name": embedded.name,
                "version": embedded.version,
                "variables": dict(definition.variables),
                "inputTemplate": dict(definition.input_template),
            }
        self.core.control.verb(workflow_id, EventKind.RESTART, data)

    def rerun(
        self,
        workflow_id: str,
        *,
        from_task: str | None = None,
        input: Mapping[str, Any] | None = None,
        task_input: Mapping[str, Any] | None = None,
        correlation_id: str | None = None,
    ) -> None:
        """Run an execution again from a task, or from the start.

        `from_task` is a reference, as printed (`x__2` is the task of a loop's second round) or the definition's (then its newest
        round), or a task id, also of a task in an execution below this one. What comes after that task in the flow is taken
        back; other branches of a fork stay, except that in an ended execution what failed or was canceled there is tried again.
        `input` replaces the workflow's input, `task_input` the task's, `correlation_id` the correlation id. A running execution
        can be rerun too. The executions above are reopened and wait for it. Raises ExecutionNotFound, TaskNotFound, InvalidInput
        and Conflict (paused, or the flow has not come to the task).
        """
        ref = None
        target = workflow_id
        if from_task is not None:
            with self.backend.reading() as view:
                target, ref = _meant(view, workflow_id, from_task)
        data = rerun_data(ref, input, task_input, correlation_id, where="rerun")
        self.core.control.verb(target, EventKind.RERUN, data)

    def skip_task(
        self,
        workflow_id: str,
        ref: str,
        *,
        input: Mapping[str, Any] | None = None,
        output: Mapping[str, Any] | None = None,
    ) -> None:
        """Skip a task that the flow has not reached yet; `output` replaces the task's output.

        `ref` is a reference of the definition; of a task inside loops, the printed one of a round (`x__2`). Skipping a fork skips
        its branches and its JOIN. Raises ExecutionNotFound, TaskNotFound when the definition has no such task, InvalidInput, and
        Conflict when the execution is not RUNNING, the task has been scheduled already, or it is the JOIN of a fork.
        """
        data: dict[str, Any] = {"ref": ref, "input": {}, "output": {}}
        data |= {name: as_map(one, name) for name, one in (("input", input), ("output", output)) if one is not None}
        Payload.of(data, where="skip_task")
        self.core.control.verb(workflow_id, EventKind.SKIP, data)

    def update_variables(self, workflow_id: str, variables: Mapping[str, Any]) -> None:
        """Set workflow variables; others stay.

        Raises ExecutionNotFound, InvalidInput (not JSON), and Conflict when the execution has ended or the variables together
        would pass 256 KB.
        """
        given = as_map(variables, "variables")
        Payload.of(given, where="variables")
        self.core.control.verb(workflow_id, EventKind.VARIABLES, given)

    def signal(
        self,
        workflow_id: str,
        output: Mapping[str, Any] | None = None,
        *,
        task: str | None = None,
        status: TaskStatus = TaskStatus.COMPLETED,
        reason: str | None = None,
    ) -> Task | None:
        """Report on a task of a running execution without holding its lease, and return it as stored afterwards.

        `task` is a task id or a reference: the printed one (`x__2`), or the definition's for its first open round. Without it the
        first open WAIT or HUMAN is meant. Either is one of the execution, else of the first of its open sub-workflows that has one,
        depth first: a step in a `try` or an `attempt` of a flow stands in such a one.
        `output` is merged into what the task has put out so far. `status` is one a worker may report.

        A signal to a WAIT or HUMAN that the execution has not come to, and can still come to, is kept for it, and None is returned:
        the task receives it when it begins, also in a `try` or an `attempt` to come. Such a `task` is a reference of the
        definition, or the printed one of a round.

        Raises ExecutionNotFound, TaskNotFound when no such task is open or can still begin, InvalidInput, Conflict when the
        execution has ended or has no slot to begin with, MailboxFull, and Parked. Source of the rule: Conductor's `signalTask`,
        which finds no HUMAN and keeps nothing.
        """
        row = self.core.control.row(workflow_id)
        if row.status.terminal:
            raise Conflict(f"{workflow_id}: a {row.status} workflow waits for no signal")
        for _ in range(_SIGNAL_TRIES):
            seen: dict[str, None] = {}
            keeper: str | None = None
            with self.backend.reading() as view:
                found = blocking_task(view, workflow_id) if task is None else open_task(view, workflow_id, task, seen)
                if found is None and len(seen) > 1:
                    keeper = receiver_below(self._turns.lookups.plans, view, seen, str(task))
            if found is None and task is None:
                raise TaskNotFound(
                    f"{workflow_id}: there is no WAIT or HUMAN task that waits; name the `task` to have the signal kept for it"
                )
            if found is None:
                row = row if keeper is None else self.core.control.row(keeper)
                self._keep_signal(row, str(task), status, output, reason)
                return None
            result = TaskResult(
                workflow_id=found.workflow_id,
                task_id=found.task_id,
                status=status,
                output_data={} if output is None else as_map(output, "output"),
                reason=None if reason is None else as_text(reason, "reason"),
            )
            event = self.core.reports.report_event(found, result, merge=True)
            taken = self._turns.run_turn(found.workflow_id, [event])
            refuse_parked(found.workflow_id, taken)
            reply = taken.replies.get(event.event_id)
            if reply is not None and reply.outcome is Outcome.CONFLICT:
                raise Conflict(f"{found.workflow_id}: {reply.message}")
            if reply is None or reply.outcome is Outcome.DONE:
                return self.tasks.get(found.task_id)
        raise Conflict(f"{workflow_id}: what waits changes faster than it can be answered")

    def send(self, workflow_id: str, topic: str, value: Any = None, *, key: str | None = None) -> WorkflowMessage:
        """Send a message to an execution, and return it as stored.

        It goes to the open PULL_WORKFLOW_MESSAGES of its `topic` (text of 1 to 255 characters) that began first, or is kept for the
        next one. `value` is any JSON value. Sent again with the same `key` (1 to 255 characters) it is the message that is there
        already; without a key each call sends another one. While the execution is paused messages are kept. While another engine
        has the lock of the execution, the message is left to the next turn, which gives it its number: until then that is 0.

        Raises ExecutionNotFound, ExecutionEnded, MailboxFull when 1,000 messages are kept already that no task has received,
        InvalidInput, PayloadTooLarge, Conflict when the key is that of a message with another value, and Parked; then nothing is
        kept. Source of the rule: Conductor's workflow message queue.
        """
        known, said = self._said(workflow_id, topic, value, key)
        taken = self.core.control.verb(workflow_id, EventKind.SEND, said)
        decision = taken.decision
        if decision is not None and not decision.more:
            for sent in decision.messages:
                if (sent.topic, sent.key) == (topic, known):
                    return sent
        with self.backend.reading() as view:
            message = view.executions.mailbox(workflow_id).message(topic, known)
            if message is None and taken.posted:
                return sent_message(workflow_id, 0, topic, known, Payload.of(value), self.clock.now())
            if message is None:
                raise missing(view, workflow_id)
            texts = self.core.queries.texts(view, workflow_id, [message.value])
        return attrs.evolve(message, value=texts.get(message.value.digest, message.value))

    def _keep_signal(
        self, row: Workflow, ref: str, status: TaskStatus, output: Mapping[str, Any] | None, reason: str | None
    ) -> None:
        """Have a signal kept for a task that has not begun; raises as `signal` does."""
        if status is TaskStatus.COMPLETED:
            answer = {} if output is None else as_map(output, "output")
            base = ref.partition("__")[0]
            with self.backend.reading() as view:
                around = holder_of(self._turns.lookups.plans.shown(view, row), base)
            named = row if around is None else attrs.evolve(row, name=around.name)
            self.core.reports.refuse_answer(named, base, {}, answer)
        workflow_id = row.workflow_id
        given = TaskResult(workflow_id=workflow_id, task_id="", status=status, output_data={}, reason=reason)
        said = signal_value(cut_result(kept_result(given)), {} if output is None else as_map(output, "output"))
        _, event = self._said(workflow_id, signal_topic(ref), said, None, ref=ref)
        self.core.control.verb(workflow_id, EventKind.SEND, event)

    def _first_message(self, message: Mapping[str, Any], workflow: str) -> Mapping[str, Any]:
        """The data of the event that sends a message to an execution with its start; raises as `send` does."""
        given = as_map(message, "message")
        unknown = sorted(given.keys() - {"topic", "value", "key"})
        if unknown:
            raise InvalidInput(f"message: a message has no {unknown[0]!r}; it has `topic`, `value` and `key`")
        _, said = self._said(workflow, given.get("topic"), given.get("value"), given.get("key"))
        return said

    def _said(self, whose: str, topic: Any, value: Any, key: Any, *, ref: str | None = None) -> tuple[str, dict[str, Any]]:
        """The key of a message and the data of the event that sends it; with `ref` a signal to that task."""
        said: dict[str, Any] = {"topic": topic, "key": key}
        if ref is not None:
            said["ref"] = ref
        else:
            for name, text in (("topic", topic), ("key", key)):
                if (text is not None or name == "topic") and (not isinstance(text, str) or not 0 < len(text) <= MAX_KEY):
                    raise InvalidInput(f"{name}: {printable(text, 80)!r} is not a text of 1 to {MAX_KEY} characters")
            if topic_of(said) is None:
                raise InvalidInput(f"topic {printable(topic, 80)!r} is that of signals: use `signal`")
        if key is None:
            said["key"], said["new"] = self.core.control.new_id(), True
        known = said["key"]
        payload = Payload.of(value, where="value")
        problem = self._turns.lookups.bounds.barriers.refusal("task_output", payload)
        if problem is not None:
            raise PayloadTooLarge(f"{whose}: {problem}")
        if type(payload.value) is dict and payload.value:
            return known, Document(Payload.around("value", Document(payload), said))
        said["value"] = payload.value
        return known, said

    def transaction(self) -> AbstractContextManager[OwnTransaction]:
        """See `Engine.transaction`."""
        raise NotImplementedError

    # ------------------------------------------------------------------ what there is

    def get(self, workflow_id: str, *, masked: bool = False) -> Workflow:
        """Return an execution, live or archived, with every attempt and its definition; raises ExecutionNotFound.

        With `masked` the values of the fields that its definition lists in `maskedFields` are `***`, for a program that shows it.
        """
        return self.core.queries.get(workflow_id, masked=masked)

    def status(self, workflow_id: str) -> WorkflowStatus:
        """Return the status of an execution; raises ExecutionNotFound."""
        with self.backend.reading() as view:
            return status_of(view, workflow_id)

    def history(self, workflow_id: str, *, masked: bool = False) -> Sequence[HistoryEvent]:
        """Return the journal of an execution, live or archived, with every payload; raises ExecutionNotFound.

        `masked` as `get` does it.
        """
        return self.core.queries.history(workflow_id, masked=masked)

    def explain(self, workflow_id: str, task: str | None = None) -> Explanation:
        """Explain why an execution waits, or how it ended: `str()` is a paragraph, `reasons` are the data; raises
        ExecutionNotFound.

        With `task` (a reference), explain that task: its state, or why it never ran.
        """
        return self.core.queries.explain(workflow_id, task)

    def messages(self, workflow_id: str, *, masked: bool = False) -> list[WorkflowMessage]:
        """Return the messages to an execution, live or archived, in order, including received ones; raises ExecutionNotFound.

        `masked` as `get` does it.
        """
        return self.core.queries.messages(workflow_id, masked=masked)

    def executions(
        self,
        name: str | None = None,
        *,
        correlation_id: str | None = None,
        status: WorkflowStatus | None = None,
        parent_workflow_id: str | None = None,
        limit: int = 100,
        after: tuple[int, str] | None = None,
    ) -> list[Workflow]:
        """Return up to `limit` executions that match all arguments, newest first, without their tasks and large payloads.

        The next page begins `after` the last one: `after=(last.created_at, last.workflow_id)`. Each page is found along an
        index; with a correlation or parent id, among the executions that have it. Raises InvalidInput when `limit` is below 1, and
        for a status that is none.
        """
        if limit < 1:
            raise InvalidInput(f"limit {limit} is below 1")
        wanted = ExecutionFilter(
            name=name,
            status=None if status is None else member_of(WorkflowStatus, status, "status"),
            correlation_id=correlation_id,
            parent_workflow_id=parent_workflow_id,
        )
        with self.backend.reading() as view:
            return Listing(frozen_workflow(row) for row in view.executions.page(wanted, after, limit))

    def search(
        self, query: str = "", *, free_text: str = "*", start: int = 0, size: int = 100, sort: str = ""
    ) -> SearchResult[WorkflowSummary]:
        """Return the executions, live and archived, that match a query and contain the words of a free text.

        `query` is Conductor's: `workflowType = 'order' AND (status IN (FAILED, TIMED_OUT) OR endTime > '2030-01-31T09:00Z')`,
        with =, !=, <, <=, >, >=, IN, BETWEEN, STARTS_WITH, IS NULL, NOT, and paths such as `input.order.id = 7`. `free_text` is
        words, `"phrases"` and `beginnings*`, all of which must be there. `sort` is `field:ASC|field:DESC`, by default the
        newest first. A page begins at `start` and holds up to `size`, at most 5,000. What can be asked: the how-to Search
        executions.

        The answer holds all that was committed before: it is put into the index in the store's own file first, which takes a while
        when a store is searched for the first time. In a store in memory every execution is looked at. With `index=` that one is
        fed with up to about a thousand changes and answers, and `behind` says how many are left; while it is built or does not
        work, the store does. Raises InvalidQuery, and InvalidInput for what is no text and for a page out of range.
        """
        from conductorlite.store.documents import WORKFLOWS
        from conductorlite.store.search import asked

        return self.core.searching.workflows(asked(WORKFLOWS, query, free_text, start, size, sort))

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(workflow, history)` after every commit of this engine; returns a function that stops it.

        `workflow` is the row as decided, `history` what the turn added. At most once, in the committing thread, after the
        commit: it must be quick, and what it raises is logged (`conductorlite.listeners`), for the commit stands.
        """
        if not callable(listener):
            raise InvalidInput(f"a listener is called with a row and its history, and {printable(listener, 60)} cannot be called")
        self._turns.listeners.append(listener)

        def stop() -> None:
            with suppress(ValueError):
                self._turns.listeners.remove(listener)

        return stop

    # ------------------------------------------------------------------ workers

    def poll(
        self,
        task_type: str,
        *,
        worker_id: str | None = None,
        count: int = 1,
        timeout: Span = "0s",
        domain: str | None = None,
    ) -> list[Task]:
        """Poll up to `count` tasks of a type, each under a lease; the list may be shorter, or empty.

        Higher priorities come first, then those offered longest. With `timeout` (text or a timedelta) the call waits that
        long for a first task; on a virtual clock, where time does not pass by waiting, it returns at once. The input is
        `task.input_data`; the report must carry `task.lease`. The poll itself is recorded, see `tasks.poll_data`: at most once a
        second for a worker, type and domain. A task whose input is lost in the payload storage fails with that reason, and is
        not in the list; while the storage cannot be reached it goes back into its queue for 30 s. What fails after some tasks
        were taken shortens the list; when the call raises, it has given back what it took. Raises InvalidInput when `count`
        is below 1.
        """
        refuse_forked(self._pid)
        refuse_handlers("poll")
        self._turns.joined.refuse("poll")
        if type(count) is not int or count < 1:
            raise InvalidInput(f"count is a whole number from 1 on, and not {printable(count, 60)}")
        for text in (task_type, worker_id, domain):
            if type(text) is not str and text is not None:
                as_text(text, "what a poll names")
        if task_type is None:
            raise InvalidInput("a poll names a task type")
        queue = queue_name(task_type, domain or None, self.config.owner)
        patience = to_span(timeout)
        until = Deadline(self.clock, patience)
        noted: list[Task] = []
        try:
            while True:
                seen = self._turns.committed.number
                # Frozen before the return, so that an interruption up to the return gives them back.
                offered = self.core.polling.take_offered(task_type, worker_id, count, domain, noted=noted)
                taken = [frozen_task(task) for task in offered]
                now = self.clock.now()
                if taken or not patience or until.passed or self.clock.virtual:
                    return taken
                with self.backend.reading() as view:
                    next_at = view.queue.next_message_at([queue])
                waiter = self._turns.committed.waiter()
                if self._turns.committed.number == seen:
                    wake_at = min(until.instant, now + GLANCE_MS, *([] if next_at is None or next_at <= now else [next_at]))
                    self.clock.wait(waiter, wake_at)
        except BaseException:
            self.core.polling.give_up(noted)
            raise

    @overload
    def update_task(self, result: TaskResult) -> Task: ...

    @overload
    def update_task(
        self, result: TaskResult, *, poll: str, count: int = 1, domain: str | None = None
    ) -> tuple[Task, list[Task]]: ...

    def update_task(
        self, result: TaskResult, *, poll: str | None = None, count: int = 1, domain: str | None = None
    ) -> Task | tuple[Task, list[Task]]:
        """Report on a task and return it as stored afterwards, or as reported if its loop keeps that round no longer.

        A report on an attempt that has ended, or whose execution has ended, changes nothing: the late COMPLETED of Conductor's
        task life cycle. While the execution is parked a report is kept, so that no work is lost, and taken when it is resumed.
        Raises TaskNotFound (also when the execution was removed), ExecutionArchived, InvalidInput (output that is not JSON, a
        status that cannot be reported, a path where nothing was uploaded), PayloadUnavailable, SecretsUnavailable, StaleLease when
        `result.lease` is older than the task's, and Conflict when its execution waits for a slot before it begins; then nothing is
        changed.

        With `poll`, a task type, the same worker polls for up to `count` tasks of it, in a `domain`, as by `poll` at that instant,
        in the report's own turn where its execution has what is next in the queue. It returns the task and a list. Nothing is
        polled for when the report raises; when the poll fails, the list is shorter.
        """
        reports = self.core.reports
        if poll is not None:
            self._turns.joined.refuse("poll")
            if count < 1:
                raise InvalidInput(f"count {count} is below 1")
            from conductorlite.engine.bulk import Exchange, exchange

            asker = Asker(worker_id=result.worker_id, count=count)
            ask = Exchange(result=result, asker=asker, task_type=poll, domain=domain)
            exchange(self.core, [ask])
            if ask.report is None or ask.error is not None:
                raise ask.error or TaskNotFound(result.task_id)
            return reports.stored(ask.report.task, ask.report.result), [frozen_task(task) for task, _ in asker.given]
        task = reports.found(result)
        result = reports.whole(task, result)
        try:
            reports.report(task, result)
        except ExecutionArchived:
            raise
        except ExecutionNotFound:
            raise TaskNotFound(f"execution {result.workflow_id!r} was removed") from None
        return reports.stored(task, result)

    def update_tasks(self, results: Iterable[TaskResult]) -> list[Task | ConductorliteError]:
        """Report on many tasks in few commits; return what `update_task` returns or raises for each, in order.

        A refused report does not affect the others. Reports of one execution are applied in order.
        """
        self._turns.joined.refuse("update_tasks")
        from conductorlite.engine.bulk import report_each

        return report_each(self.core, results)

    def close(self) -> None:
        """Release the store; idempotent."""

        def end_aside() -> None:
            if self._turns.put_aside:
                self._turns.aside.close()

        def note() -> None:
            with suppress(StorageError, EngineClosed):  # a damaged or newer store has raised that in a verb before
                self.core.driven.note()

        closing = [one.close for one in (self.core.indexing, self._turns.locking, self.backend, self._own_lock) if one is not None]
        clean_up(None, "closing an engine", end_aside, note, *closing)


def _meant(view: ReadingTransaction, workflow_id: str, wanted: str) -> tuple[str, str]:
    """The execution and the printed reference that a task id or a reference stands for."""
    task = view.executions.task_by_id(wanted)
    if task is None:
        return workflow_id, wanted
    above: str | None = task.workflow_id
    while above is not None and above != workflow_id:
        row = view.executions.workflow(above)
        above = None if row is None else row.parent_workflow_id
    if above is None:
        raise TaskNotFound(f"neither {workflow_id!r} nor an execution below it has a task {wanted!r}")
    return task.workflow_id, task.ref
