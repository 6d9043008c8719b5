"""Which function carries out which task. No global registry: a `Workers` is an object, given to an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar, overload

import attrs

from conductorlite.definitions import RetryLogic, Severity, TaskDef, TimeoutPolicy
from conductorlite.errors import AlreadyExists, InvalidInput
from conductorlite.plan import validate_task_def
from conductorlite.spans import Span, to_seconds, to_span
from conductorlite.texts import did_you_mean
from conductorlite.worker.signature import Signature, own_name, signature

__all__ = ["Worker", "Workers"]

F = TypeVar("F", bound=Callable[..., Any])

#: Options of the decorator that are fields of a task definition, under Conductor's names.
_SECONDS: Final = {
    "rate_limit_frequency_seconds": "rate_limit_frequency_ms",
    "retry_delay_seconds": "retry_delay_ms",
    "max_retry_delay_seconds": "max_retry_delay_ms",
    "timeout_seconds": "timeout_ms",
    "total_timeout_seconds": "total_timeout_ms",
    "response_timeout_seconds": "response_timeout_ms",
    "poll_timeout_seconds": "poll_timeout_ms",
}

_CHOICES: Final[dict[str, Callable[[Any], Any]]] = {"retry_logic": RetryLogic, "timeout_policy": TimeoutPolicy}


@attrs.frozen(kw_only=True, slots=True)
class Worker:
    """One function for one task type."""

    task_type: str
    function: Callable[..., Any]
    signature: Signature
    concurrency: int | None = None
    heartbeat: bool = True
    domain: str | None = None
    task_def: TaskDef | None = None

    @property
    def is_async(self) -> bool:
        """Whether it is a coroutine function, which runs on an event loop instead of in a thread."""
        return self.signature.is_async

    @property
    def queue(self) -> str:
        """Where its tasks are offered."""
        return f"{self.domain}:{self.task_type}" if self.domain else self.task_type


class Workers:
    """A set of worker functions.

    `concurrency` bounds how many run at once in one engine (None, on the system clock: 32 plain functions and 1,000
    coroutines; on a virtual one there is no bound).
    `worker_id` is what polled tasks show: by default a name that no other process has. `heartbeat=False` turns off the
    automatic extension of leases for all of them; a response timeout then means "took too long" instead of "is dead".
    `drain` is how long a stopping engine waits for running functions before it abandons their threads.
    """

    def __init__(
        self,
        *,
        concurrency: int | None = None,
        worker_id: str | None = None,
        heartbeat: bool = True,
        drain: Span = "30s",
    ) -> None:
        if concurrency is not None and concurrency < 1:
            raise InvalidInput(f"concurrency {concurrency} is below 1")
        self.concurrency = concurrency
        self.worker_id = worker_id
        self.heartbeat = heartbeat
        self.drain_ms = to_span(drain)
        self._by_queue: dict[str, Worker] = {}

    @overload
    def task(self, name: F, /) -> F: ...

    @overload
    def task(
        self,
        name: str | None = None,
        *,
        concurrency: int | None = None,
        heartbeat: bool = True,
        domain: str | None = None,
        **options: Any,
    ) -> Callable[[F], F]: ...

    def task(
        self,
        name: F | str | None = None,
        *,
        concurrency: int | None = None,
        heartbeat: bool = True,
        domain: str | None = None,
        **options: Any,
    ) -> F | Callable[[F], F]:
        """Decorator, with or without parentheses: the function carries out tasks of type `name` (default: its own name).

        Keyword arguments come from the task's input by name, read as their annotations say; a parameter annotated
        `TaskContext` gets the context. The returned dict or record is the output (another value is put under "result"). An
        `async def` runs on an event loop: the caller's in an AsyncEngine, a private one in an Engine. What it raises fails the
        task and is retried; `TaskFailedTerminally` is not. `options` make a task definition, used where none is registered or
        embedded: the fields of `TaskDef`, and its lengths of time under Conductor's names: retry_delay_seconds,
        max_retry_delay_seconds, timeout_seconds, total_timeout_seconds, response_timeout_seconds, poll_timeout_seconds,
        rate_limit_frequency_seconds.
        Raises InvalidInput for an unknown or wrong option, and for what is no function that can be called with an input;
        AlreadyExists for a second function of the same type.
        """
        if name is not None and not isinstance(name, str):
            return self.task()(name)

        def register(function: F) -> F:
            task_type = name or own_name(function)
            self.add(
                task_type,
                function,
                concurrency=concurrency,
                heartbeat=heartbeat,
                domain=domain,
                task_def=_task_def(task_type, options) if options else None,
            )
            return function

        return register

    def add(
        self,
        task_type: str,
        function: Callable[..., Any],
        *,
        concurrency: int | None = None,
        heartbeat: bool = True,
        domain: str | None = None,
        task_def: TaskDef | None = None,
    ) -> None:
        """Let `function` carry out tasks of a type; raises as `task` does."""
        if not isinstance(task_type, str) or not task_type.strip():
            raise InvalidInput(f"a worker's task type is a text, not {task_type!r:.80}")
        if concurrency is not None and concurrency < 1:
            raise InvalidInput(f"worker {task_type!r}: concurrency {concurrency} is below 1")
        worker = Worker(
            task_type=task_type,
            function=function,
            signature=signature(function),
            concurrency=concurrency,
            heartbeat=heartbeat and self.heartbeat,
            domain=domain,
            task_def=task_def,
        )
        if worker.queue in self._by_queue:
            raise AlreadyExists(f"a worker for {worker.queue!r} is registered already")
        self._by_queue[worker.queue] = worker

    def include(self, *others: Workers) -> Workers:
        """Take over the functions of other sets; raises AlreadyExists when one is there already. Returns self."""
        for other in others:
            for worker in other:
                if worker.queue in self._by_queue:
                    raise AlreadyExists(f"a worker for {worker.queue!r} is registered already")
                self._by_queue[worker.queue] = worker
        return self

    def get(self, queue: str) -> Worker | None:
        """The worker of a queue, or None."""
        return self._by_queue.get(queue)

    def __iter__(self) -> Iterator[Worker]:
        return iter(tuple(self._by_queue.values()))

    def __len__(self) -> int:
        return len(self._by_queue)

    @property
    def task_types(self) -> frozenset[str]:
        """The task types that are carried out, in whatever domain."""
        return frozenset(worker.task_type for worker in self)

    @property
    def task_defs(self) -> dict[str, TaskDef]:
        """Task definitions the decorators gave, by name."""
        return {worker.task_type: worker.task_def for worker in self if worker.task_def is not None}


def _task_def(name: str, options: dict[str, Any]) -> TaskDef:
    fields: dict[str, Any] = {}
    known = {field.name for field in attrs.fields(TaskDef)} - {"name", "extra"}
    for option, value in options.items():
        field = _SECONDS.get(option, option)
        if field not in known:
            raise InvalidInput(f"worker {name!r}: there is no option {option!r}{did_you_mean(option, (*known, *_SECONDS))}")
        if field in fields:
            raise InvalidInput(f"worker {name!r}: {option} says what another option has said already")
        try:
            fields[field] = to_seconds(value) if option in _SECONDS else _CHOICES[option](value) if option in _CHOICES else value
        except ValueError as error:
            raise InvalidInput(f"worker {name!r}: {option}: {error}") from None
    try:
        made = TaskDef(name=name, **fields)
    except (InvalidInput, TypeError) as error:
        raise InvalidInput(f"worker {name!r}: {error}") from None
    wrong = [problem for problem in validate_task_def(made) if problem.severity is Severity.ERROR]
    if wrong:
        raise InvalidInput(f"worker {name!r}: " + "; ".join(f"{problem.path[2:]} {problem.message}" for problem in wrong))
    return made
