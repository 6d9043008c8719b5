"""The engine as it is used: every verb, and the loops that drive it; a handle on one execution; an application's transaction."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NoReturn, ParamSpec, TypeVar, cast, overload

from conductorlite.engine.config import EngineConfig, one_process, refuse_forked, refuse_handlers
from conductorlite.engine.keys import checked_strategy
from conductorlite.engine.transactions import OwnTransaction, joined
from conductorlite.engine.turn_types import refuse_callers
from conductorlite.engine.verbs import Verbs
from conductorlite.model.clock import Clock, Deadline
from conductorlite.model.definitions import IdempotencyStrategy, StartWorkflowRequest, TaskDef, WorkflowDef, task_alone
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import Explanation, HistoryEvent, Task, Workflow
from conductorlite.model.pickling import stays_here
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.model.texts import InNotebook, Instant, Listing, Span, as_map, to_instant, to_span
from conductorlite.model.threads import clean_up
from conductorlite.runtime.loop import Driver, output_of, wait_until
from conductorlite.runtime.registry import HasId, HasWorkers, Runnable, Startable, all_workers, id_of, not_startable
from conductorlite.runtime.signals import Leaving
from conductorlite.store.places import on_queue
from conductorlite.store.ports import Backend, IndexDAO, JoinedTransaction, Lock, PayloadStorage, SecretProvider

if TYPE_CHECKING:
    from conductorlite.engine.forks import ForkPlan
    from conductorlite.model.debounce import Debounce
    from conductorlite.model.mailbox import WorkflowMessage
    from conductorlite.model.streams import Dropped, StreamItem
    from conductorlite.plan.grafts import RunProgress

__all__ = ["OF_A_RUN", "Engine", "Run", "Transaction"]

P = ParamSpec("P")
R = TypeVar("R")


#: For a handle on an execution; see `stays_here`.
OF_A_RUN: Final = "send its workflow_id, and call `run(workflow_id)` of an engine on the same store there"


@stays_here(OF_A_RUN)
class Run(InNotebook, Generic[R]):
    """A handle of one execution. It holds only the id; everything else is read on access."""

    __slots__ = ("_engine", "_read", "workflow_id")

    def __init__(self, engine: Engine, workflow_id: str, read: Callable[[Mapping[str, Any]], R] | None = None) -> None:
        self._engine = engine
        self._read = read
        self.workflow_id = workflow_id

    @property
    def workflow(self) -> Workflow:
        """The whole execution, read on access."""
        return self._engine.get(self.workflow_id)

    @property
    def status(self) -> WorkflowStatus:
        """The execution's status, read on access."""
        return self._engine.status(self.workflow_id)

    def result(self, timeout: Span | None = None) -> R:
        """Wait for the end, and return the workflow's output, or what the flow's function returns.

        If no thread of this process drives the engine, the calling thread does meanwhile: it takes turns and runs workers. On a
        virtual clock the timeout is virtual. Raises WorkflowFailed when the execution ended otherwise, ResultTimeout when it did
        not end in time, when the engine was asked to stop meanwhile, or, on a virtual clock, with nothing left that could move
        it, NoWorker when no worker can come. Inside a worker's function it raises WouldDeadlock when the execution waits for that
        function, or needs room that only functions hold which wait too.
        """
        return self._returned(self._engine.result(self.workflow_id, timeout=timeout))

    @property
    def tasks(self) -> Sequence[Task]:
        """Every attempt in order of scheduling, read on access."""
        return Listing(self._engine.get(self.workflow_id).tasks)

    def history(self) -> Sequence[HistoryEvent]:
        """Return the journal; see `Engine.history`."""
        return self._engine.history(self.workflow_id)

    def events(self, after: int = 0) -> Iterator[HistoryEvent]:
        """Yield the history after line number `after`, then each new line, until the execution ends.

        Pass the last line's number (`n`) to continue after it, also in another process. Meanwhile it is driven as by `result`,
        which says what is raised: on a virtual clock ResultTimeout when nothing can move it. A removed one is ExecutionNotFound.
        """
        refuse_forked(self._engine._pid)
        refuse_handlers("events")
        return self._engine.core.queries.follow(self.workflow_id, after, partial(wait_until, self._engine, self._engine.driver))

    def explain(self, task: str | None = None) -> Explanation:
        """Explain why it waits, or how it ended; see `Engine.explain`."""
        return self._engine.explain(self.workflow_id, task)

    def progress(self) -> RunProgress:
        """Return its progress: tasks by status and by step, the fraction done, what runs, and the estimated time left.

        Raises ExecutionNotFound.
        """
        return self._engine.core.queries.progress(self.workflow_id)

    def signal(self, output: Mapping[str, Any] | None = None, *, task: str | None = None) -> Task | None:
        """Complete an open WAIT or HUMAN, or keep the signal for a later one; see `Engine.signal`."""
        return self._engine.signal(self.workflow_id, output, task=task)

    def send(self, topic: str, value: Any = None, *, key: str | None = None) -> WorkflowMessage:
        """Send the execution a message; see `Engine.send`."""
        return self._engine.send(self.workflow_id, topic, value, key=key)

    def stream(self, stream: str | None = None, *, after: int = 0, kept_only: bool = False) -> Iterator[StreamItem | Dropped]:
        """Yield what it emits into a stream (None: all), in order: what is there after number `after`, then what comes, to its end.

        Give the last item's number to go on after it, in another process too. Meanwhile it is driven as by `result`. Items are
        given as they come; when an attempt fails or is lost whose items were given, or may have been before `after`, a `Dropped`
        says so. With `kept_only` an item is given once its attempt has completed, and none is dropped. On a virtual clock
        ResultTimeout is raised when nothing can move it. A removed one is ExecutionNotFound.
        """
        refuse_forked(self._engine._pid)
        refuse_handlers("stream")
        readers = self._engine.core.readers
        reading = readers.reading(self.workflow_id, stream, after, kept_only=kept_only)
        return readers.follow(reading, partial(wait_until, self._engine, self._engine.driver))

    def set_value(self, name: str, value: Any) -> None:
        """Set the latest value of a name; see `Engine.streams.set_value`."""
        self._engine.streams.set_value(self.workflow_id, name, value)

    def get_value(self, name: str, default: Any = None, *, task: str = "") -> Any:
        """The latest value of a name, as `set_value` has set it, or the `task` of that reference; `default` before."""
        found = self._engine.streams.value(self.workflow_id, name, ref=task)
        return default if found is None else found.value.fresh()

    def pause(self) -> None:
        """Schedule nothing more until `resume`; see `Engine.pause`."""
        self._engine.pause(self.workflow_id)

    def resume(self) -> None:
        """Continue it; see `Engine.resume`."""
        self._engine.resume(self.workflow_id)

    def terminate(self, reason: str | None = None, *, trigger_failure_workflow: bool = False) -> None:
        """End it TERMINATED; see `Engine.terminate`."""
        self._engine.terminate(self.workflow_id, reason, trigger_failure_workflow=trigger_failure_workflow)

    def retry(self, *, resume_subworkflow_tasks: bool = False) -> None:
        """Reopen it where it failed; see `Engine.retry`."""
        self._engine.retry(self.workflow_id, resume_subworkflow_tasks=resume_subworkflow_tasks)

    def fork(
        self,
        *,
        at: str,
        input: Mapping[str, Any] | None = None,
        task_input: Mapping[str, Any] | None = None,
        definition: WorkflowDef | None = None,
        new_id: str | None = None,
        correlation_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Run[R]:
        """Start a new execution from a step of this one; see `Engine.fork`."""
        made = self._engine.fork(
            self.workflow_id,
            at=at,
            input=input,
            task_input=task_input,
            definition=definition,
            new_id=new_id,
            correlation_id=correlation_id,
            idempotency_key=idempotency_key,
        )
        return Run(self._engine, made.workflow_id, self._read)

    def page(self) -> str:
        """Return the execution as an HTML page; see `Engine.admin.page`."""
        return self._engine.admin.page(self.workflow_id)

    def _returned(self, output: dict[str, Any]) -> R:
        """The workflow's output as its flow returns it; as it is for one that was not started as a flow here."""
        return cast(R, output) if self._read is None else self._read(output)

    def __repr__(self) -> str:
        return f"Run({self.workflow_id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other.workflow_id == self.workflow_id

    def __hash__(self) -> int:
        return hash(self.workflow_id)


class Transaction(OwnTransaction):
    """A transaction on the store's database for your own rows and the engine's operations; see `Engine.transaction`.

    A worker function that has a parameter annotated with this class runs inside one, which its report belongs to.
    """

    __slots__ = ("engine",)
    #: The default of that parameter, for type checkers: flows call the function without it.
    given: ClassVar[Transaction] = None  # type: ignore[assignment]

    def __init__(self, engine: Engine, within: JoinedTransaction) -> None:
        super().__init__(engine.core.turns, within)
        #: Whose verbs are part of it, in the thread of the block.
        self.engine = engine


@one_process
class Engine(Verbs, InNotebook):
    """Conductor's engine inside your process.

    `store` is a path (SQLite), a `Backend`, or None (memory). `workers` are a `Workers` object, or a list of flows and task
    functions; they carry out tasks while the engine is driven. The functions of a flow that you start are added. `clock` is the
    machine's, or a `VirtualClock`. `environment` has the values of `${NAME}` and `${workflow.env.NAME}`; the process's
    environment is never read.

    `payloads` stores large inputs and outputs: a folder, a URL such as `s3://bucket/folder`, or a `PayloadStorage`; by default a
    folder beside the database (`orders.db.payloads`), or memory for a memory store. `index` is an external `IndexDAO` for
    `search`; without it, the store has an index of its own, made by the first search. `secrets` provides the value of
    `${workflow.secrets.NAME}` in a task's input when a worker receives it: a mapping, an `EnvironmentSecrets`, or any
    `SecretProvider`. Without it, such text stays unchanged.

    `queue` is the queue store of a store that cannot keep queues, timers and limits, such as Cassandra: a path, a URL, or a
    `Backend`. `config` has all other settings; see `EngineConfig`, where `lock` (`redis://a,b,c`, a `Lock`) can stand too.

    Everyday operations are methods of the engine; others are grouped by noun: `definitions`, `schedules`, `events`, `tasks`,
    `limits`, `payloads`, and `admin` for the store as a whole.

    Nothing runs by itself: no thread is started until the engine is driven by `run_until_idle`, `run_forever`, `Run.result`, or,
    step by step, by `tick`, `settle` and `advance`. Opened in the main thread with a real clock, it handles SIGTERM and SIGHUP
    unless your code does: the process still dies, but its tasks are given back without counting as a death. Raises StorageErrors.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | Backend | None = None,
        *,
        workers: HasWorkers | Iterable[HasWorkers] | None = None,
        clock: Clock | None = None,
        environment: Mapping[str, str] | None = None,
        payloads: str | os.PathLike[str] | PayloadStorage | None = None,
        index: str | IndexDAO | None = None,
        secrets: SecretProvider | None = None,
        lock: str | Lock | None = None,
        queue: str | os.PathLike[str] | Backend | None = None,
        config: EngineConfig | None = None,
    ) -> None:
        self.workers = all_workers(workers)
        config = (config or EngineConfig()).under(lock)
        super().__init__(
            on_queue(store, queue),
            clock=clock,
            environment=environment,
            payloads=payloads,
            index=index,
            secrets=secrets,
            config=config,
            declared=lambda: self.workers.task_defs,
            running=lambda: self.driver.agenda(),
        )
        self.driver = Driver(self, self.workers, config.event_sources)
        self._leaving = Leaving()
        if self.workers.flows:
            self._register_flows()
        self._news = self.driver.missing.news
        self.core.control.check_input = self.workers.check_input
        self.core.control.domains = self.workers
        self.core.reports.check_answer = self.workers.answer_problem
        if config.give_back:
            self.core.holding.look()
            if not self.clock.virtual:
                self._leaving.__enter__()

    def _adopt(self, flow: HasWorkers) -> None:
        """Take over the functions of a flow or a task that is started, and where its steps are written."""
        self.workers.adopt(flow)
        self._turns.lookups.failures.line_of = self.workers.line_of

    def _register_flows(self) -> None:
        """Register the flows among the workers, so that they can be started by name; the store is closed again if that fails."""
        self._turns.lookups.failures.line_of = self.workers.line_of
        try:
            for flow in self.workers.flows.values():
                self._turns.lookups.registry.ensure([*flow.definitions, flow.definition])
        except BaseException:
            self.close()
            raise

    @overload
    def start(self, workflow: Startable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Run[R]: ...

    @overload
    def start(
        self,
        workflow: str | WorkflowDef,
        /,
        input: Mapping[str, Any] | None = None,
        *,
        version: int | None = None,
        workflow_id: str | None = None,
        correlation_id: str | None = None,
        priority: int = 0,
        at: Instant | None = None,
        delay: Span | None = None,
        created_by: str | None = None,
        task_to_domain: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        idempotency_strategy: IdempotencyStrategy = IdempotencyStrategy.FAIL,
        external_input_payload_storage_path: str | None = None,
        debounce: Debounce | None = None,
        message: Mapping[str, Any] | None = None,
    ) -> Run[dict[str, Any]]: ...

    def start(self, workflow: Any, /, *args: Any, **options: Any) -> Run[Any]:
        """Start an execution; return its handle, or that of the execution that holds the idempotency key.

        `workflow` is a flow, whose arguments follow; options of its start are given before:
        `booking.options(workflow_id="b-1")`. Or it is a registered name (the highest `version` by default) or a definition,
        with an `input` and these options. `at` (epoch ms, a datetime with a time zone or ISO text with an offset) or `delay` (a
        timedelta, or text such as "90s") dates the first task. `priority` is 0–99, higher first. `task_to_domain` sends tasks
        to workers of a domain: task type, or `*` for all, to a domain or a list such as `"a,b,NO_DOMAIN"`, of which the first
        one that was polled for within 10 s counts, else the last. `idempotency_key` (1 to 255 characters) belongs to one
        execution of the workflow's name. When another one holds it: FAIL raises KeyTaken, RETURN_EXISTING returns a handle on
        that one, FAIL_ON_RUNNING raises KeyTaken while it runs or is paused, and else gives the key to the new one.
        `external_input_payload_storage_path` stands for an input that was uploaded where `payloads.location` said.
        `debounce=Debounce("30s", key="form-7", max_wait="5m")` stores an execution that begins when no call with the key has come
        for 30 s, and at the latest 5 min after the first one. Until then each such call returns a handle on it, gives it its own
        input, definition and options, and puts it off; after that the next one stores another. It goes with no `idempotency_key`,
        `workflow_id`, `at`, `delay` or `message`; an execution that is parked raises Parked. `message`
        (`{"topic": …, "value": …, "key": …}`, as for `send`) is sent to the execution in the commit that starts it, or, with
        RETURN_EXISTING, to the one that holds the idempotency key.

        Raises DefinitionNotFound, InvalidDefinition, InvalidInput (input that is not JSON or breaks the inputSchema, something out
        of range, a path where nothing was uploaded), PayloadTooLarge, AlreadyExists when `workflow_id` is taken, KeyTaken,
        LimitReached, PayloadUnavailable, and for a `message` as `send` does; then nothing is stored.
        """
        return self._begun(workflow, args, options)

    @overload
    def start_and_wait(self, workflow: Startable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    @overload
    def start_and_wait(
        self,
        workflow: str | WorkflowDef,
        /,
        input: Mapping[str, Any] | None = None,
        *,
        timeout: Span | None = None,
        **options: Any,
    ) -> dict[str, Any]: ...

    def start_and_wait(self, workflow: Any, /, *args: Any, **options: Any) -> Any:
        """Start an execution as `start` does, and return its result as `Run.result` does.

        With an idempotency key, however often and from wherever it is called, there is one execution: each call waits for it and
        returns its result (RETURN_EXISTING, unless another strategy is given). After ResultTimeout the execution goes on: call
        again. A flow takes no `timeout`, its arguments are the function's own: `start(…).result("5s")`. Raises as both do.
        """
        timeout = options.pop("timeout", None) if isinstance(workflow, str | WorkflowDef) else None
        return self._begun(workflow, args, options, once=True, awaited=True).result(timeout)

    def _begun(
        self, workflow: Any, args: Iterable[Any], options: Mapping[str, Any], *, once: bool = False, awaited: bool = False
    ) -> Run[Any]:
        usual = {"idempotency_strategy": IdempotencyStrategy.RETURN_EXISTING} if once else {}
        if isinstance(workflow, str | WorkflowDef):
            return Run(self, self._start(awaited, workflow, *args, **{**usual, **options}))
        if not hasattr(workflow, "starting"):
            raise InvalidInput(f"start() takes a flow, a definition or a registered name, not {not_startable(workflow)}")
        given = workflow.starting(*args, **options)
        self._adopt(workflow)
        if workflow.definitions:
            self._turns.lookups.registry.ensure(workflow.definitions)
        return Run(self, self._start(awaited, **{**usual, **given}), workflow.read)

    def _start(
        self,
        awaited: bool,
        /,
        workflow: str | WorkflowDef,
        input: Mapping[str, Any] | None = None,
        *,
        version: int | None = None,
        workflow_id: str | None = None,
        correlation_id: str | None = None,
        priority: int = 0,
        at: Instant | None = None,
        delay: Span | None = None,
        created_by: str | None = None,
        task_to_domain: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        idempotency_strategy: IdempotencyStrategy = IdempotencyStrategy.FAIL,
        external_input_payload_storage_path: str | None = None,
        debounce: Debounce | None = None,
        message: Mapping[str, Any] | None = None,
    ) -> str:
        request = StartWorkflowRequest(
            name=workflow if isinstance(workflow, str) else workflow.name,
            version=version,
            workflow_def=workflow if isinstance(workflow, WorkflowDef) else None,
            input={} if input is None else input,
            correlation_id=correlation_id,
            priority=priority,
            task_to_domain=task_to_domain or {},
            created_by=created_by,
            idempotency_key=idempotency_key,
            idempotency_strategy=checked_strategy(idempotency_strategy),
        )
        begin = self.driver.beginnings.beginning(awaited) if awaited or self.driver.beginnings.rests else None
        workflow_id = self.core.control.start(
            request,
            workflow_id=workflow_id,
            at=at,
            delay=delay,
            path=external_input_payload_storage_path,
            begin=begin,
            debounce=debounce,
            message=None if message is None else self._first_message(message, f"a start of {request.name!r}"),
        )
        self._news.log()
        return workflow_id

    @overload
    def run_task(self, task: Runnable[..., R], /, *args: Any, **options: Any) -> Run[R]: ...

    @overload
    def run_task(self, task: str, /, input: Mapping[str, Any] | None = None, **options: Any) -> Run[dict[str, Any]]: ...

    def run_task(self, task: Any, /, *args: Any, **options: Any) -> Run[Any]:
        """Start a task without a flow, and return the handle of its execution: `run_task(charge, amount=3,
        idempotency_key="order-7")`.

        `task` is a function decorated with `@task`, whose arguments follow, or the type of a task that any worker carries out, with
        its `input`. Beside them stand the options of `start`, but for
        `version` and the path of an input; a name that the function has as a parameter is its argument, `task.options(…)` takes
        the option then. It is an execution of one task, called `task:` and the task's type, with the retries, limits and timeouts
        of its task definition. An idempotency key that is held gives the handle on the execution that holds it, unless the
        strategy says otherwise; what has ended stays as it is. Raises BuildError for wrong arguments, and as `start` does.
        """
        if isinstance(task, str):
            given = as_map(args[0] if args else options.pop("input", None) or {}, "input")
            if len(args) > 1:
                raise InvalidInput(f"run_task() of a task type takes one input, not {len(args)}")
            return self._begun(task_alone(task, given), (given,), options, once=True)
        if not hasattr(task, "alone"):
            said = ": start() starts a flow" if hasattr(task, "starting") else ""
            raise InvalidInput(f"run_task() takes a task type, or a function that is decorated with @task, not {task!r:.80}{said}")
        return self._begun(task.alone, args, options)

    def start_many(
        self, workflow: str | WorkflowDef, inputs: Iterable[Mapping[str, Any]], *, version: int | None = None, priority: int = 0
    ) -> list[str]:
        """Start an execution for each input, all in one write or none; return their ids in order.

        `workflow` is a registered name (the highest `version` by default) or a definition. Some thousands at a time are enough: all
        are in memory until they are written. Raises DefinitionNotFound, InvalidDefinition, InvalidInput and PayloadTooLarge, which
        say which input it is, and LimitReached; then nothing is stored.
        """
        name, definition = (workflow, None) if isinstance(workflow, str) else (workflow.name, workflow)
        request = StartWorkflowRequest(name=name, version=version, workflow_def=definition, priority=priority)
        started = self.core.control.start_many(request, inputs, self.clock.now())
        self._news.log()
        return started

    def fork(
        self,
        execution: str | HasId,
        *,
        at: str,
        input: Mapping[str, Any] | None = None,
        task_input: Mapping[str, Any] | None = None,
        definition: WorkflowDef | None = None,
        new_id: str | None = None,
        correlation_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Run[dict[str, Any]]:
        """Start a new execution from a step of an old one, which does not change; return the handle of the new one.

        `execution` is an id or a handle, of one in any status. The new one has the old one's input, variables and tasks up to `at`,
        a reference or a task id as for `rerun`, and goes on from that task by the rules of `rerun`: what is open beside it begins
        again, what failed there is tried again. Attempts have ids of their own; executions below that ended well are
        shared, and none of them is written to. Idempotency key, slots, leases, timers and logs are not copied. `input` replaces the
        workflow's input, `task_input` the task's, `correlation_id` the correlation id, `definition` the definition: in that what
        goes on must have its place, as for `definitions.migrate`. `new_id` is the new execution's id. `plan_fork` says what it will
        do. Raises ExecutionNotFound (ExecutionArchived), TaskNotFound, InvalidInput, InvalidDefinition, PayloadLost, AlreadyExists,
        KeyTaken, LimitReached, and Conflict (the flow has not come to the task, the definition has no place for it, the
        execution was compensated); then nothing is stored.
        """
        forked, _ = self.core.forks.fork(
            id_of(execution),
            at,
            input=input,
            task_input=task_input,
            definition=definition,
            new_id=new_id,
            correlation_id=correlation_id,
            idempotency_key=idempotency_key,
        )
        self._news.log()
        return Run(self, forked)

    def plan_fork(
        self,
        execution: str | HasId,
        *,
        at: str,
        input: Mapping[str, Any] | None = None,
        task_input: Mapping[str, Any] | None = None,
        definition: WorkflowDef | None = None,
    ) -> ForkPlan:
        """Return what `fork` would do: which tasks the new execution would have, and which would run; nothing is stored.

        Raises as `fork` does.
        """
        _, plan = self.core.forks.fork(
            id_of(execution),
            at,
            input=input,
            task_input=task_input,
            definition=definition,
            dry_run=True,
        )
        return plan

    def register(self, *definitions: WorkflowDef | TaskDef, overwrite: bool = True) -> None:
        """Register workflow and task definitions, all or none; log warnings, and tasks without a worker here.

        Raises InvalidDefinition with every error of all of them, and AlreadyExists for a workflow of the same name and version
        when `overwrite` is False. `conductorlite.validate` returns errors and warnings.
        """
        self._turns.lookups.registry.register(definitions, overwrite=overwrite)
        self._news.log()

    @overload
    def run(self, workflow: Startable[..., R], workflow_id: str, /) -> Run[R]: ...

    @overload
    def run(self, workflow_id: str, /) -> Run[Any]: ...

    def run(self, workflow: Any, /, *given: Any) -> Run[Any]:
        """Return the handle of an existing execution; with its flow, as in `run(booking, "b-1")`, its result has the flow's type.

        The functions of the flow's tasks are added to the engine's workers, as by `start`. Without the flow, the result is read by
        a flow of this engine that has the execution's name and version, and is the workflow's output where there is none. Raises
        ExecutionNotFound, and InvalidInput for an execution of another workflow than the flow.
        """
        workflow_id = given[0] if given else workflow
        workflow = workflow if given else None
        if len(given) > 1 or (given and not hasattr(workflow, "starting")):
            raise InvalidInput(f"run() takes a flow and an execution's id, or the id alone, not {(workflow, *given)!r:.80}")
        with self.backend.reading() as view:
            row = view.executions.workflow(workflow_id)
        if row is None:
            self.status(workflow_id)  # an archived one has no row
        if workflow is None:
            flow = None if row is None else self.workers.flow_of(row.name, row.version)
            return Run(self, workflow_id, None if flow is None else flow.read)
        name = workflow.definition.name
        if row is not None and row.name != name:
            raise InvalidInput(f"{workflow_id} is an execution of {row.name!r}, and not of the flow {name!r}")
        self._adopt(workflow)
        return Run(self, workflow_id, workflow.read)

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Return a block in which this thread's operations and your own rows (`tx.execute`) are one commit, or none if it raises.

        The store is locked for other writers meanwhile, as long as the block lasts; those of this process wait up to the busy
        timeout. A block inside another one is a part of it, undone by itself. What drives or waits is refused with WouldDeadlock:
        `result` of what has not ended, `tick` and the like, `poll`, `search`. A report that is not taken raises Conflict or
        StaleLease. Listeners are called after the commit. In a store in memory there are only the verbs. Raises StorageErrors, at
        the end too: then nothing is stored; InvalidInput when the store has no such transactions.
        """
        return joined(self._turns, partial(Transaction, self))

    def in_transaction(self, work: Callable[[Transaction], R]) -> R:
        """Return what `work(tx)` returns, called inside a block of `transaction`; an AsyncEngine calls it in a thread."""
        with self.transaction() as tx:
            return work(tx)

    # ------------------------------------------------------------------ driving

    def tick(self) -> bool:
        """Do one unit of ready work: a turn, a message, a report or a worker call. Return False if nothing is ready."""
        with self._alone("tick"):
            return self.driver.tick()

    def settle(self) -> int:
        """Do all ready work in this thread without moving the clock; return the number of units."""
        with self._alone("settle"):
            return self.driver.settle()

    def advance(self, span: Span | None = None, *, to: Instant | None = None) -> None:
        """Move a virtual clock by `span`, or `to` an instant, and do what comes due on the way, each at its instant.

        Raises ClockError on a real clock, backwards, or while a worker function runs; InvalidInput without exactly one of both.
        """
        if (span is None) == (to is None):
            raise InvalidInput("give a span or `to`, not both")
        with self._alone("advance"):
            until = to_instant(to) if to is not None else self.clock.now() + to_span(span if span is not None else "0s")
            self.driver.advance(until)

    def run_until_idle(self, timeout: Span | None = None) -> bool:
        """Drive until nothing is ready, running or on the agenda; return False if `timeout` passes first. Raises NoWorker when
        everything left waits for workers that cannot come.

        On a virtual clock time jumps to each next instant; on the system clock this thread waits for it, and worker functions
        run in threads meanwhile; one that was quick the last time runs in this thread when nothing else is ready and there is no
        `timeout`; with one, those that take next to nothing share a thread. What has changed is indexed then, too, as far as an
        external index takes it. Errors of the store as with `run_forever`; a call that waits for another writer when the time is
        over ends with the busy timeout.
        """
        self._news.log(driving=True)
        with self._alone("run_until_idle"):
            deadline = None if timeout is None else Deadline(self.clock, to_span(timeout))
            return self.driver.run(deadline=deadline)

    def run_forever(self) -> None:
        """Drive until `stop` is called, even when idle. On a virtual clock, drive until idle.

        When stopped, no more tasks are taken and running functions are waited for, up to the workers' drain time.

        On the system clock a store that is busy, full, read-only or failing, and a payload storage that cannot be reached, are
        waited out: what functions return is kept in memory meanwhile, and the logger `conductorlite` has a warning at first and one
        when it is over. On a virtual clock, where no time passes by waiting, they are raised; what is kept is reported by the
        next verb that drives. Ends only for `stop`, KeyboardInterrupt and the like, StorageCorrupt, SchemaTooNew, EngineClosed (the
        store was closed meanwhile), and what a clock of your own raises. What a listener, a source, a payload storage or codec, an
        index, or a lock beside the fence raises is logged; what a handler of logging raises is not.
        """
        self._news.log(driving=True)
        with self._alone("run_forever"):
            self.driver.run(forever=True)

    def _alone(self, verb: str) -> AbstractContextManager[bool]:
        """Hold what only one thread has at a time; raises WouldDeadlock inside what the driver itself has called."""
        refuse_callers(self._turns, verb)
        self._turns.joined.refuse(verb)
        return self.driver.drive()

    def stop(self) -> None:
        """Ask `run_forever` or `run_until_idle` in another thread to return."""
        self.driver.stop()

    def result(self, workflow_id: str, timeout: Span | None = None) -> dict[str, Any]:
        """Return the output of an execution once it has ended; see `Run.result`."""
        deadline = None if timeout is None else Deadline(self.clock, to_span(timeout))
        rows: list[Workflow] = []
        row = wait_until(self, self.driver, workflow_id, self.core.queries.ending(workflow_id, rows), deadline, each=False)
        return output_of(self, workflow_id, row or (rows[0] if rows else None))

    def close(self) -> None:
        """Stop the drivers, give back the tasks of its workers, and release the store; calling it again does nothing.

        Functions that still run in threads are abandoned: what they return is dropped. Raises StorageReplaced, with all released.
        While Ctrl-C or the end of the program is handled, as in a `finally`, what fails is logged instead of raised.
        """
        refuse_callers(self._turns, "close")
        self._turns.joined.refuse("close")
        error = sys.exc_info()[1]
        if error is None or isinstance(error, Exception):
            self._end()
        else:
            clean_up(error, "closing an engine", self._end)

    def _end(self) -> None:
        with self.driver.drive(timeout=0) as driving:
            if driving:
                return self._close()
        self.driver.is_closing = True
        try:
            self.stop()
            with self.driver.drive():
                self._close()
        finally:
            self.driver.is_closing = False

    def _close(self) -> None:
        woken = [self._turns.awaited.wake_all] if self._turns.waiting else []
        clean_up(
            None, "closing an engine", self.driver.close, self.core.holding.leave, self._leaving.__exit__, super().close, *woken
        )

    def __enter__(self) -> Engine:
        return self

    def __aenter__(self) -> NoReturn:
        raise TypeError("an Engine is entered by `with`; `async with` is for conductorlite.AsyncEngine")

    __aexit__ = __aenter__

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        clean_up(error, "closing an engine", self.close)
