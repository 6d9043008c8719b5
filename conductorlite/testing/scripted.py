"""Scripted workers: what each call of a task type does, in the order of the calls, in virtual time.

    workers.charge.fails(2, reason="503").then.returns({"id": 1})
    workers.ship.takes("90s").returns({"parcel": "x"})
    workers["odd name"].crashes().then.returns({})
    workers.ship.when(ref="second_parcel").fails()

Steps are used in order. One that is given `times` is used so often; one that is not is used once if something
follows, and for ever if nothing does. When all are used up, a call returns `{}`.

A test never calls a real function by accident. A task of a flow that has neither a script nor a function of the test's own
fails for good, with a reason that says so; `workers.real("charge")` lets the real function run. A script that was written and never
used is a mistake too: `unused` lists them, and the fixtures of the pytest plugin fail the test. A test that looks at the `calls` or
`inputs` of a script knows how often it was used, and `optional` says that a script need not be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

import attrs

from conductorlite.model.errors import InvalidInput, TaskFailedTerminally
from conductorlite.model.executions import Task, TaskResult
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.texts import Span, did_you_mean, to_span
from conductorlite.model.threads import Mutex
from conductorlite.runtime.calls import Deferred, call
from conductorlite.runtime.context import TaskContext, idempotency_key
from conductorlite.runtime.registry import HasWorkers, Signature, Worker, Workers, checked_type, signature
from conductorlite.testing.steps import Step, StepKind

__all__ = ["Call", "Script", "ScriptedWorkers", "alone", "around"]

_NOTHING_MORE: Final = Step(kind=StepKind.RETURNS, times=None)


@attrs.frozen(kw_only=True, slots=True)
class Call:
    """One call of a scripted worker: when it was polled (epoch ms), for which attempt (from 0), under which lease."""

    task_type: str
    at: int
    input: Mapping[str, Any]
    workflow_id: str
    ref: str
    attempt: int
    lease: int
    step: Step

    @property
    def idempotency_key(self) -> str:
        """As `TaskContext.idempotency_key`."""
        return idempotency_key(self.workflow_id, self.ref)


class _Calls(list[Call]):
    """All calls of scripted workers."""

    #: Whether each task is delivered to its worker twice: it does again what it did, and its first report counts.
    twice = False

    def __getattr__(self, verb: str) -> Any:
        raise AttributeError(_in_brackets("calls", verb))


class _Playing:
    """Steps, and how far they were used, by several threads at once: each call that asks a step has a number of its own there."""

    __slots__ = ("asked", "place", "steps")

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.asked: list[Iterator[int]] = []
        #: Of the first step that may not be used up.
        self.place = 0


class Script:
    """Script of the calls of one task type. Every method returns the script, so that you can chain steps."""

    def __init__(self, task_type: str, log: _Calls) -> None:
        self.task_type = task_type
        self._log = log
        self._takes_ms = 0
        self._playing = _Playing()
        self._given_back: list[Call] = []
        #: Whether steps were written that have to be used; whether the script was called, or the test has looked at its calls.
        self._expected = self._noticed = False
        #: Scripts of calls that are alike in something, the last one first.
        self._cases: list[tuple[Callable[[Task], bool], Script]] = []
        self._mutex = Mutex()

    # ---------------------------------------------------------------- writing it

    @property
    def steps(self) -> list[Step]:
        """All steps, used or not."""
        return self._playing.steps

    @property
    def then(self) -> Script:
        """The script itself, for readability."""
        return self

    def when(self, *, ref: str | None = None, input: Mapping[str, Any] | None = None) -> Script:
        """A script of its own for calls for a reference (as printed, or the definition's), or with these values in their input.

        A call for which several fit follows the one that was made last; every other one follows this script.
        """

        def fits(task: Task) -> bool:
            given = task.input_data if input else {}
            return ref in (None, task.ref, task.base_ref) and all(given.get(name) == value for name, value in (input or {}).items())

        made = Script(self.task_type, self._log)
        made._given_back = self._given_back
        self._cases.insert(0, (fits, made))
        return made

    def takes(self, span: Span) -> Script:
        """Let the steps that follow take a length of virtual time: text such as "90s" or a timedelta."""
        self._takes_ms = to_span(span)
        return self

    def returns(self, output: Any = None, *, times: int | None = None) -> Script:
        """Complete with an output; a value that is not a dict is put under "result", as for any worker."""
        return self._add(StepKind.RETURNS, times, output=output)

    def returns_in_order(self, outputs: Iterable[Any]) -> Script:
        """Complete with one output after the other; the last one goes on when nothing follows."""
        for output in outputs:
            self.returns(output)
        return self

    def fails(self, times: int | None = None, *, reason: str = "failed", error: BaseException | None = None) -> Script:
        """Fail with a reason, or by raising `error`; retried as the task's definition says."""
        return self._add(StepKind.FAILS, times, reason=reason, error=error)

    def fails_terminally(self, reason: str = "failed terminally", *, times: int | None = None) -> Script:
        """Fail so that no retry follows."""
        return self._add(StepKind.FAILS_TERMINALLY, times, reason=reason)

    def hangs(self, times: int | None = None) -> Script:
        """Never report, but live: the lease goes on being extended, so that only `timeoutSeconds` ends the task."""
        return self._add(StepKind.HANGS, times)

    def crashes(self, times: int | None = None) -> Script:
        """Die: no report and no sign of life, so that the response timeout fires."""
        return self._add(StepKind.CRASHES, times)

    def reports_late(self, span: Span, output: Any = None, *, times: int | None = None) -> Script:
        """Complete after `span` without a sign of life in between: past the response timeout, the report is ignored."""
        return self._add(StepKind.RETURNS, times, output=output, takes_ms=to_span(span), silent=True)

    def reports_twice(self, output: Any = None, *, times: int | None = None) -> Script:
        """Complete, and report the same once more, as after a lost acknowledgement."""
        return self._add(StepKind.RETURNS, times, output=output, reports=2)

    def callback(self, span: Span, output: Any = None, *, times: int | None = 1) -> Script:
        """Say IN_PROGRESS: the task is offered again after `span`."""
        return self._add(StepKind.CALLS_BACK, times, output=output, callback_ms=to_span(span))

    def does(self, function: Callable[..., Any], *, times: int | None = None) -> Script:
        """Run a real function, called like any worker's: by keyword arguments, with a `TaskContext` if asked for."""
        return self._add(StepKind.DOES, times, function=function)

    def optional(self) -> Script:
        """Let the script go unused."""
        self._noticed = True
        return self

    @property
    def unused(self) -> bool:
        """True if the script was never called, is not `optional`, and the test did not look at its calls."""
        return (self._expected and not self._noticed) or any(case.unused for _, case in self._cases)

    def follow(self, steps: Iterable[Step]) -> Script:
        """Add steps as they are, such as those of `strategies.outcomes()`; they need not be used."""
        self.steps.extend(steps)
        return self

    def forget(self) -> Script:
        """Drop all steps, those of `when` too; calls made so far stay in `calls`."""
        with self._mutex.held():
            self._cases.clear()
            self._playing, self._takes_ms, self._expected = _Playing(), 0, False
        return self

    def _add(self, kind: StepKind, times: int | None, **fields: Any) -> Script:
        if times is not None and times < 0:
            raise InvalidInput(f"times {times} is negative")
        self._expected = True
        self.steps.append(Step(kind=kind, times=times, **{"takes_ms": self._takes_ms, **fields}))
        return self

    # ---------------------------------------------------------------- playing it

    @property
    def calls(self) -> list[Call]:
        """Calls made so far, in order."""
        self._noticed = True
        return [one for one in self._log if one.task_type == self.task_type]

    @property
    def inputs(self) -> list[Mapping[str, Any]]:
        """Inputs of the calls made so far, in order."""
        return [one.input for one in self.calls]

    def give_back(self, lost: Call) -> None:
        """Let the next call for the same reference do again what `lost` did: its process ended before it reported."""
        with self._mutex.held():
            self._given_back.append(lost)

    def play(self, context: TaskContext) -> Any:
        """Carry out one call: what a worker function of this type returns or raises."""
        task = context.task
        self._noticed = True
        for fits, script in self._cases:
            if fits(task):
                return script.play(context)
        step = (self._again(task) if self._given_back else None) or self._next()
        self._log.append(
            Call(
                task_type=self.task_type,
                at=task.updated_at,
                input=task.input.fresh(),
                workflow_id=task.workflow_id,
                ref=task.ref,
                attempt=task.attempt,
                lease=task.lease,
                step=step,
            )
        )
        if step.kind is StepKind.HANGS or step.kind is StepKind.CRASHES:
            return Deferred(after_ms=None, silent=step.kind is StepKind.CRASHES)
        outcome = _outcome(step, context)
        if self._log.twice and (step.kind is StepKind.RETURNS or step.kind is StepKind.DOES):
            self._log.append(self._log[-1])
            _outcome(step, context)
        if isinstance(outcome, Deferred):
            return outcome
        if step.takes_ms or step.silent or step.reports > 1:
            return Deferred(after_ms=step.takes_ms, outcome=outcome, silent=step.silent, reports=step.reports)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def _again(self, task: Task) -> Step | None:
        """The step of a call for the same reference that was lost."""
        with self._mutex.held():
            for lost in self._given_back:
                if (lost.workflow_id, lost.ref) == (task.workflow_id, task.ref):
                    self._given_back.remove(lost)
                    return lost.step
        return None

    def _next(self) -> Step:
        playing = self._playing
        steps, asked, place = playing.steps, playing.asked, playing.place
        while place < len(steps):
            if place >= len(asked):
                asked.append(count())  # more of them than steps do no harm
            step, used = steps[place], next(asked[place])
            if used < step.times if step.times is not None else place == len(steps) - 1 or not used:
                return step
            playing.place = place = place + 1
        return attrs.evolve(_NOTHING_MORE, takes_ms=self._takes_ms)


def _outcome(step: Step, context: TaskContext) -> Any:
    """Return what the call returns, or the exception it raises."""
    task = context.task
    match step.kind:
        case StepKind.RETURNS:
            return step.output
        case StepKind.FAILS if step.error is not None:
            return step.error
        case StepKind.FAILS_TERMINALLY:
            return TaskFailedTerminally(step.reason)
        case StepKind.DOES if step.function is not None:
            made = Workers()
            made.add(task.task_type, step.function)
            return call(next(iter(made)), context)
        case StepKind.CALLS_BACK:
            status = TaskStatus.IN_PROGRESS
        case _:
            status = TaskStatus.FAILED
    return TaskResult(
        workflow_id=task.workflow_id,
        task_id=task.task_id,
        status=status,
        reason=step.reason or None,
        output_data=step.output or {},
        callback_after_ms=step.callback_ms,
    )


class _Named:
    """A method of `ScriptedWorkers`: to script a task type of its name, the type has to be written in brackets."""

    __slots__ = ("_method",)

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __call__(self, *given: Any, **options: Any) -> Any:
        return self._method(*given, **options)

    def __getattr__(self, verb: str) -> Any:
        value = getattr(self._method, verb, None)
        if value is None:
            raise AttributeError(_in_brackets(self._method.__name__, verb))
        return value


class _WorkerId(str):
    """The id of workers that were given none."""

    __slots__ = ()

    def __getattr__(self, verb: str) -> Any:
        raise AttributeError(_in_brackets("worker_id", verb))


def _in_brackets(name: str, verb: str) -> str:
    return f"workers.{name} is no script, so it has no {verb!r}; to script a task of that type, write workers[{name!r}]"


class ScriptedWorkers(Workers):
    """Workers that follow a script: `workers.charge`, or `workers["charge"]`, is the `Script` of a task type.

    Touching a type gives it a worker. A test's own functions may be among them (`task`, `add`, `include`); the script of a
    type that has a function takes its place and keeps its task definition. `calls` are all calls made, over all
    types. A task type of the name of an attribute of the workers, such as `add`, is scripted by `workers["add"]`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.worker_id = self.worker_id or _WorkerId()
        self.calls: _Calls = _Calls()
        self._scripts: dict[str, Script] = {}
        #: Functions of flows that wait for a script, by queue; and the task types whose functions may run, None for all.
        self._withheld: dict[str, Worker] = {}
        self._real: set[str | None] = set()
        #: Tasks that had no script when they were called, by type.
        self.unscripted: dict[str, str] = {}

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return _Named(found) if name in _METHODS else found

    def real(self, *task_types: str) -> ScriptedWorkers:
        """Let the real functions of these task types run, those of all types without an argument."""
        self._real |= set(task_types) or {None}
        for queue, worker in self._withheld.items():
            if self._is_real(worker) and queue not in self._scripts:
                self.by_queue = {**self.by_queue, queue: worker}
        return self

    def _is_real(self, worker: Worker) -> bool:
        return None in self._real or worker.task_type in self._real

    def adopt(self, flow: HasWorkers) -> None:
        """Take over the tasks of a flow; one that has neither a script nor a function of the test's own is withheld."""
        for worker in flow.workers:
            known = self.by_queue.get(worker.queue)
            if worker.queue in self._scripts or self._is_real(worker) or (known is not None and worker.queue not in self._withheld):
                self.include(alone(worker))
            elif known is None:
                self._withheld[worker.queue] = worker
                guard = around(worker, self._refusing(worker.task_type))
                self._put([guard], once=True)

    def _refusing(self, task_type: str) -> Callable[..., Any]:
        def refuse(context: TaskContext, **given: Any) -> Any:
            meant = did_you_mean(task_type, [script.task_type for script in self._scripts.values() if script.unused])
            meant = meant.replace("; did you mean", "; the script that was never used is for") if meant else ""
            text = f"task {task_type!r} has no script{meant.rstrip('?')}: write workers[{task_type!r}].returns(…), or "
            self.unscripted[task_type] = text + f"workers.real({task_type!r}) to call the real function"
            raise TaskFailedTerminally(self.unscripted[task_type])

        return refuse

    def unused(self) -> list[str]:
        """Return a message for each script that was never used."""
        known = {worker.task_type for worker in self if worker.queue not in self._scripts} | {call.task_type for call in self.calls}
        return [
            f"the script of {script.task_type!r} was never used{did_you_mean(script.task_type, known)}"
            for script in self._scripts.values()
            if script.unused
        ]

    def __getitem__(self, task_type: str) -> Script:
        script = self._scripts.get(task_type)
        if script is None:
            script = self._scripts[task_type] = Script(task_type, self.calls)
            real = self.by_queue.pop(task_type, None)
            real = self._withheld.get(task_type, real)
            made = Worker(
                task_type=checked_type(task_type),
                function=_played(script),
                signature=_PLAYED,
                heartbeat=self.heartbeat,
                task_def=None if real is None else real.task_def,
                interceptors=self.interceptors,
            )
            self._put([made], once=True)
        return script

    def __getattr__(self, task_type: str) -> Script:
        # Underscores are asked for by copy, pickle and debuggers; none of them should register a worker.
        if task_type.startswith("_"):
            raise AttributeError(task_type)
        return self[task_type]

    def follow(self, scripts: Mapping[str, Sequence[Step]]) -> ScriptedWorkers:
        """Add steps to the scripts of several types, as `strategies.outcomes()` draws them."""
        for task_type, steps in scripts.items():
            self[task_type].follow(steps)
        return self

    def include(self, *others: HasWorkers) -> ScriptedWorkers:
        """Take over the functions of other sets. A type that has a script keeps it, and gets the function's task
        definition.

        Raises AlreadyExists when a type has a function already.
        """
        for other in others:
            for worker in other.workers:
                if worker.queue in self._scripts:
                    self.by_queue[worker.queue] = attrs.evolve(self.by_queue[worker.queue], task_def=worker.task_def)
                else:
                    super().include(alone(worker))
        return self


def alone(worker: Worker) -> Workers:
    """A set of one worker."""
    made = Workers()
    made.by_queue[worker.queue] = worker
    return made


def around(worker: Worker, function: Callable[..., Any]) -> Worker:
    """The worker with a function in the place of its own, which calls that one, with what is around it."""
    return attrs.evolve(worker, function=function, signature=signature(function), interceptors=())


#: What the function of each script takes: to read its annotations takes as long as three of its calls.
_PLAYED: Final = Signature(parameters=None, required=frozenset(), context="context")


def _played(script: Script) -> Callable[..., Any]:
    def scripted(context: TaskContext, **given: Any) -> Any:
        # The input is read from the context: a parameter of the task may be called "context" too.
        return script.play(context)

    return scripted


#: The methods of scripted workers, whose names task types may have too.
_METHODS: Final = frozenset(
    name
    for kind in (Workers, ScriptedWorkers)
    for name, value in vars(kind).items()
    if not name.startswith("_") and callable(value) and not isinstance(value, property)
)
